"""``rmqindex explain``: why a key is or is not found."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from rmqindex.cli.options import (
    NOT_FOUND,
    BeginOption,
    CommitLogOption,
    EndOption,
    EntriesOption,
    JsonOption,
    KeyArgument,
    PathArgument,
    SlotsOption,
    TopicArgument,
    ZoneOption,
    app,
    commit_log_argument,
    layout_of,
    print_json,
    time_of,
    zone_named,
)
from rmqindex.output.tables import counted, make_console, plain_table, print_table, print_text
from rmqindex.output.visible import visible
from rmqindex.query.explain import EXPLAIN_REASONS, explain_lookup
from rmqindex.times import format_millis

if TYPE_CHECKING:
    from datetime import tzinfo

    from rmqindex.query.explain import LookupExplanation

__all__: list[str] = []

# Entries of one file that a table shows.
_SHOWN = 8


@app.command(
    short_help="Say why a key is or is not found.",
    epilog="Examples:\n\n\b\n"
    "  rmqindex explain store TopicTest order-49\n"
    "  rmqindex explain store TopicTest order-49 --begin 2023-11-14T22:00 --json",
)
def explain(
    path: PathArgument,
    topic: TopicArgument,
    key: KeyArgument,
    *,
    begin: BeginOption = None,
    end: EndOption = None,
    commit_log: CommitLogOption = "auto",
    as_json: JsonOption = False,
    zone_name: ZoneOption = "UTC",
    max_hash_slot_num: SlotsOption = None,
    max_index_num: EntriesOption = None,
) -> None:
    """Say, file by file and newest first, why the broker does or does not find a key.

    Also looked at: retry, dead letter, schedule, timer and transaction topics, in which a broker
    keeps messages of other topics. The exit code is 1 if no entry answers.
    """
    zone = zone_named(zone_name)
    explained = explain_lookup(
        path,
        topic,
        key,
        None if begin is None else time_of(begin, zone, "--begin", up=True),
        None if end is None else time_of(end, zone, "--end", up=False),
        commit_log_argument(commit_log),
        layout_of(max_hash_slot_num, max_index_num),
    )
    if as_json:
        print_json({"path": path, **asdict(explained)})
    else:
        _print(explained, zone, zone_name)
    if not explained.hits:
        raise typer.Exit(NOT_FOUND)


def _print(explained: LookupExplanation, zone: tzinfo, zone_name: str) -> None:
    console = make_console()
    table = plain_table()
    for head in ("File", "Reason", "Offset", f"Stored ({zone_name})", "What the file says"):
        table.add_column(head, no_wrap=True, justify="right" if head == "Offset" else "left")
    for file in explained.files:
        table.add_row(file.name, _styled(file.reason), "", "", escape(visible(file.detail)))
        for hit in file.hits[:_SHOWN]:
            table.add_row(
                "",
                hit.reason,
                str(hit.phy_offset),
                format_millis(hit.store_timestamp, zone),
                escape(visible(hit.message or "")),
                style="dim",
            )
        if len(file.hits) > _SHOWN:
            table.add_row("", f"and {len(file.hits) - _SHOWN} more", "", "", "", style="dim")
    print_table(console, table)
    seen = {file.reason for file in explained.files}
    seen |= {hit.reason for file in explained.files for hit in file.hits}
    lines = [f"{name}: {text}" for name, text in EXPLAIN_REASONS.items() if name in seen - {"hit"}]
    for other in explained.other_topics:
        kind = "messages" if other.is_verified else "candidates"
        offsets = ", ".join(map(str, other.phy_offsets[:_SHOWN]))
        lines.append(f"Under the topic {other.topic}: {kind} with this key at {offsets}")
    if not explained.has_group_topics:
        lines.append(
            "Retry and dead letter topics were not looked at: the ConsumeQueues, whose folders "
            "name them, are in RocksDB"
        )
    lines.append(
        f"{counted(len(explained.hits), 'entry', 'entries')} of hash {explained.key_hash} "
        f"{'answers' if len(explained.hits) == 1 else 'answer'} the query."
    )
    print_text(console, "\n" + "\n".join(lines))


def _styled(reason: str) -> str:
    return f"[green]{reason}[/]" if reason == "hit" else f"[yellow]{reason}[/]"
