"""What is in a store and in its files, as answers: usage, and the fields of a file."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from rmqindex.answers.answer import Answer
from rmqindex.answers.terminal import Table, print_table, print_text, shortened
from rmqindex.answers.text import cell_width, counted, one_line, size_text
from rmqindex.export.items import Field
from rmqindex.export.usage import UsageRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqindex.answers.answer import Zone
    from rmqindex.answers.terminal import Console
    from rmqindex.explanation import MissingPart
    from rmqindex.export import Dump, FolderUsage, Item, Usage

__all__ = ["DUMP_COLUMNS", "USAGE_COLUMNS", "dump_answer", "usage_answer"]

USAGE_COLUMNS = tuple(field.name for field in fields(UsageRow))
DUMP_COLUMNS = ("item", *(field.name for field in fields(Field)))


def usage_answer(
    path: str,
    by: Sequence[str],
    usage: Usage,
    folders: Sequence[FolderUsage],
    missing: Sequence[MissingPart],
    limit: int | None,
    zone: Zone,
) -> Answer:
    """Return the messages and bytes of each group, and the folders of the store."""
    rows = [asdict(row) for row in usage.rows[:limit]]

    def text(console: Console) -> None:
        _print_usage(console, usage, limit, zone)
        if folders:
            _print_folders(console, folders)

    return Answer(
        text=text,
        columns=USAGE_COLUMNS,
        rows=rows,
        document=lambda: {
            "path": path,
            "by": by,
            **asdict(usage),
            "rows": rows,
            "folders": [asdict(folder) for folder in folders],
            "missing": [asdict(part) for part in missing],
        },
    )


def _print_usage(console: Console, usage: Usage, limit: int | None, zone: Zone) -> None:
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


def _print_folders(console: Console, folders: Sequence[FolderUsage]) -> None:
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


def dump_answer(dump: Dump, items: Iterable[Item]) -> Answer:
    """Return what a file is, and the fields of some of its items."""
    return Answer(
        text=lambda console: _print_items(console, dump, items),
        columns=DUMP_COLUMNS,
        rows=({"item": item.name, **asdict(field)} for item in items for field in item.fields),
        document=lambda: {
            "path": dump.path,
            "kind": dump.kind,
            "size": dump.size,
            "items": [asdict(item) for item in items],
            "error": dump.error,
        },
    )


def _print_items(console: Console, dump: Dump, items: Iterable[Item]) -> None:
    """Print items as they come; a value that does not fit has its own line."""
    console.write(f"{dump.path}\n{dump.kind}, {counted(dump.size, 'byte')}")
    for item in items:
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
