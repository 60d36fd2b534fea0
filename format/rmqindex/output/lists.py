"""Messages, usage and the items of a file, as tables and lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqindex.display.folding import cell_width
from rmqindex.display.sizes import size_text
from rmqindex.display.terminal import Table, print_table, print_text, shortened
from rmqindex.display.text import counted, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqindex.display.terminal import Console
    from rmqindex.export.items import Item
    from rmqindex.export.usage import FolderUsage, Usage
    from rmqindex.output.interface import Zone

__all__ = ["print_folders", "print_items", "print_message_list", "print_usage"]


def print_message_list(console: Console, rows: Sequence[dict[str, Any]], zone: Zone) -> None:
    """Print a row for each message and how many there are."""
    table = Table()
    table.add_column("Offset", right=True)
    table.add_column(f"Stored ({zone.name})")
    table.add_column("Topic", may_be_cut=True)
    table.add_column("Queue", right=True)
    table.add_column("Tags", may_be_cut=True)
    table.add_column("Keys", may_be_cut=True)
    table.add_column("Size", right=True)
    for row in rows:
        table.add_row(
            str(row["phy_offset"]),
            zone.format(row["store_timestamp"]),
            row["topic"],
            str(row["queue_id"]),
            row["tags"] or "",
            row["keys"] or "",
            str(row["size"]),
        )
    print_table(console, table)
    print_text(console, f"\n{counted(len(rows), 'message')}, newest first")


def print_usage(console: Console, usage: Usage, limit: int | None, zone: Zone) -> None:
    """Print a row for each group, and the sums."""
    shown = usage.rows[:limit]
    table = Table()
    heads = [
        (f"Hour ({zone.name})", any(row.hour is not None for row in shown)),
        ("Topic", any(row.topic is not None for row in shown)),
        ("Queue", any(row.queue_id is not None for row in shown)),
    ]
    for head, is_there in heads:
        if is_there:
            table.add_column(head, right=head == "Queue", may_be_cut=head == "Topic")
    for head in ("Messages", "Size", "Share"):
        table.add_column(head, right=True)
    for row in shown:
        cells = (
            "" if row.hour is None else zone.format(row.hour)[:16],
            row.topic or "",
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
    table = Table()
    table.add_column("Folder", may_be_cut=True)
    for head in ("Files", "Size", "On disk"):
        table.add_column(head, right=True)
    for folder in folders:
        table.add_row(
            folder.name,
            str(folder.file_count),
            size_text(folder.size),
            size_text(folder.disk_size),
        )
    print_text(console, "")
    print_table(console, table)


def print_items(console: Console, items: Iterable[Item]) -> int:
    """Print the fields of items as they come, and return how many items there are.

    Args:
        console: Where to; a value that does not fit has its own line, and at a terminal it loses
            its middle if that is too short as well.
        items: The items.
    """
    count = 0
    for item in items:
        if count:
            console.write()
        console.write(f"{item.name}, byte {item.byte}")
        for field in item.fields:
            note = f"  {field.note}" if field.note else ""
            place = f"{field.byte:>10}  {field.size:>4}  "
            value = f"{field.value}{note}"
            line = one_line(f"{place}{field.name:<27}  {value}")
            if cell_width(line) > console.width:
                console.write(one_line(f"{place}{field.name}"))
                line = one_line(f"{'':{len(place)}}{value}")
            console.write(shortened(line, console.width) if console.is_terminal else line)
        count += 1
    return count
