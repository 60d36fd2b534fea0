"""Messages, usage and the items of a file, as tables and lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape

from rmqindex.display.sizes import size_text
from rmqindex.display.terminal import plain_table, print_table, print_text
from rmqindex.display.text import counted, visible, write_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from rmqindex.inspection.items import Item
    from rmqindex.inspection.usage import FolderUsage, Usage
    from rmqindex.output.interface import Zone

__all__ = ["print_folders", "print_items", "print_message_list", "print_usage"]


def print_message_list(console: Console, rows: Sequence[dict[str, Any]], zone: Zone) -> None:
    """Print a row for each message and how many there are."""
    table = plain_table()
    table.add_column("Offset", justify="right", no_wrap=True)
    table.add_column(f"Stored ({zone.name})", no_wrap=True)
    table.add_column("Topic", no_wrap=True)
    table.add_column("Queue", justify="right", no_wrap=True)
    table.add_column("Tags", no_wrap=True)
    table.add_column("Keys", no_wrap=True)
    table.add_column("Size", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            str(row["phy_offset"]),
            zone.format(row["store_timestamp"]),
            escape(visible(row["topic"])),
            str(row["queue_id"]),
            escape(visible(row["tags"] or "")),
            escape(visible(row["keys"] or "")),
            str(row["size"]),
        )
    print_table(console, table)
    print_text(console, f"\n{counted(len(rows), 'message')}, newest first")


def print_usage(console: Console, usage: Usage, limit: int | None, zone: Zone) -> None:
    """Print a row for each group, and the sums."""
    shown = usage.rows[:limit]
    table = plain_table()
    heads = [
        (f"Hour ({zone.name})", any(row.hour is not None for row in shown)),
        ("Topic", any(row.topic is not None for row in shown)),
        ("Queue", any(row.queue_id is not None for row in shown)),
    ]
    for head, is_there in heads:
        if is_there:
            table.add_column(head, no_wrap=True, justify="right" if head == "Queue" else "left")
    for head in ("Messages", "Size", "Share"):
        table.add_column(head, no_wrap=True, justify="right")
    for row in shown:
        cells = (
            "" if row.hour is None else zone.format(row.hour)[:16],
            escape(visible(row.topic or "")),
            str(row.queue_id),
        )
        table.add_row(
            *(cell for cell, (_, is_there) in zip(cells, heads, strict=True) if is_there),
            str(row.message_count),
            size_text(row.size),
            f"{row.size / usage.size:.1%}",
        )
    if shown:
        print_table(console, table)
    left = len(usage.rows) - len(shown)
    more = f"; {counted(left, 'row')} more" if left else ""
    sums = f"{counted(usage.message_count, 'message')}, {size_text(usage.size)}{more}"
    print_text(console, ("\n" if shown else "") + sums)


def print_folders(console: Console, folders: Sequence[FolderUsage]) -> None:
    """Print what the folders of a store take."""
    table = plain_table()
    table.add_column("Folder", no_wrap=True)
    for head in ("Files", "Size", "On disk"):
        table.add_column(head, no_wrap=True, justify="right")
    for folder in folders:
        table.add_row(
            escape(visible(folder.name)),
            str(folder.file_count),
            size_text(folder.size),
            size_text(folder.disk_size),
        )
    print_text(console, "")
    print_table(console, table)


def print_items(items: Iterable[Item], width: int) -> int:
    """Print the fields of items as they come, and return how many items there are.

    Args:
        items: The items.
        width: Of the terminal; a value that does not fit has its own line.
    """
    count = 0
    for item in items:
        if count:
            write_line()
        write_line(f"{item.name}, byte {item.byte}")
        for field in item.fields:
            note = f"  {field.note}" if field.note else ""
            place = f"{field.byte:>10}  {field.size:>4}  "
            value = f"{field.value}{note}"
            line = f"{place}{field.name:<27}  {value}"
            if len(line) > width:
                write_line(_one_line(f"{place}{field.name}"))
                line = f"{'':{len(place)}}{value}"
            write_line(_one_line(line))
        count += 1
    return count


def _one_line(text: str) -> str:
    return visible(text.replace("\n", "\\n").replace("\t", "\\t"))
