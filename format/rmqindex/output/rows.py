"""Rows of which there may be millions, printed one by one in columns of fixed width."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rmqindex.times import format_millis

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo

__all__ = ["print_entries"]


def print_entries(rows: Iterable[dict[str, Any]], zone: tzinfo, zone_name: str) -> None:
    """Print the entries of IndexFiles, and how many there were.

    Args:
        rows: With ``file`` and the columns of ``ENTRY_SCHEMA``.
        zone: The time zone of the times shown.
        zone_name: What to call it.
    """
    heads = ("File", "Position", "Previous", "Slot", "Key hash", "Offset", f"Stored ({zone_name})")
    widths = (17, 8, 8, 7, 10, 14, 23)
    _print(
        (
            (
                row["file"],
                row["position"],
                row["prev_position"],
                row["slot"],
                row["key_hash"],
                row["phy_offset"],
                format_millis(row["store_timestamp"], zone),
            )
            for row in rows
        ),
        heads,
        widths,
        ("entry", "entries"),
    )


def _print(
    rows: Iterable[tuple[Any, ...]],
    heads: tuple[str, ...],
    widths: tuple[int, ...],
    noun: tuple[str, str],
) -> None:
    """Print a head when the first row comes, then each row: texts to the left, numbers right."""
    count = 0
    for row in rows:
        if not count:
            lefts = [isinstance(value, str) for value in row]
            sizes = [max(width, len(head)) for width, head in zip(widths, heads, strict=True)]
            _line(heads, sizes, lefts)
            sys.stdout.write("\u2500" * (sum(sizes) + 2 * (len(sizes) - 1)) + "\n")
        _line(row, sizes, lefts)
        count += 1
    sys.stdout.write(("\n" if count else "") + f"{count} {noun[0] if count == 1 else noun[1]}\n")


def _line(values: tuple[Any, ...], sizes: list[int], lefts: list[bool]) -> None:
    cells = (
        str(value).ljust(size) if left else str(value).rjust(size)
        for value, size, left in zip(values, sizes, lefts, strict=True)
    )
    sys.stdout.write("  ".join(cells).rstrip() + "\n")
