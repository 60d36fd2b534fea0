"""Explanations for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.display.terminal import Styled, Table, print_table, print_text
from rmqindex.display.text import in_flags

if TYPE_CHECKING:
    from rmqindex.display.terminal import Console
    from rmqindex.explanation import LookupExplanation
    from rmqindex.output.interface import Zone

__all__ = ["print_explanation"]

# Entries of one file that an explanation shows.
_SHOWN_HITS = 8


def print_explanation(console: Console, explained: LookupExplanation, zone: Zone) -> None:
    """Print a row for each file and hit, then each reason with its remedy."""
    table = Table()
    for head in ("File", "Reason", "Offset", f"Stored ({zone.name})", "What the file says"):
        table.add_column(head, right=head == "Offset")
    for file in explained.files:
        table.add_row(file.name, _styled(file.reason), "", "", in_flags(file.detail))
        for hit in file.hits[:_SHOWN_HITS]:
            table.add_row(
                "",
                hit.reason,
                str(hit.phy_offset),
                zone.format(hit.store_timestamp),
                hit.message or "",
                style="dim",
            )
        if len(file.hits) > _SHOWN_HITS:
            more = f"and {len(file.hits) - _SHOWN_HITS} more"
            table.add_row("", more, "", "", "", style="dim")
    if explained.files:
        print_table(console, table)
        print_text(console, "")
    print_text(console, "\n".join(explained.lines()))


def _styled(reason: str) -> Styled:
    return Styled(reason, "green" if reason == "hit" else "yellow")
