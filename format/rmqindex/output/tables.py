"""What the command line prints for people, at a terminal of any width or into a pipe."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rmqindex.output.describe import total
from rmqindex.output.visible import visible
from rmqindex.times import format_millis

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from rmqindex.output.describe import FileFacts
    from rmqindex.query.index_directory import QueryOffsetResult
    from rmqindex.query.search import Hit

__all__ = [
    "counted",
    "make_console",
    "plain_table",
    "print_broker_answer",
    "print_facts",
    "print_hits",
    "print_table",
    "print_text",
]

# No table is this wide.
_UNBOUNDED = 10_000
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def make_console() -> Console:
    """Return a console for standard output: as wide as the terminal, or unbounded in a pipe.

    Colours follow ``NO_COLOR`` and whether a terminal is there, as rich decides.
    """
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _UNBOUNDED
    return console


def print_facts(console: Console, facts: Sequence[FileFacts], zone: tzinfo, zone_name: str) -> None:
    """Print IndexFiles and their totals.

    Args:
        console: Where to print.
        facts: At least one file.
        zone: The time zone of the times shown.
        zone_name: What to call it.
    """
    sound = [file for file in facts if file.error is None]
    table = _facts_table(sound, zone, zone_name)
    if sound and _width(table, console) <= console.width:
        print_table(console, table)
    elif sound:
        print_text(console, "\n\n".join(_facts_paragraph(f, zone, zone_name) for f in sound))
    print_text(console, "\n" + "\n".join(_totals(facts, zone, zone_name)))


def print_hits(console: Console, hits: Sequence[Hit], zone: tzinfo, zone_name: str) -> None:
    """Print the entries that a lookup found, as one table."""
    table = plain_table()
    table.add_column("File", no_wrap=True)
    table.add_column("Position", justify="right", no_wrap=True)
    table.add_column("Offset", justify="right", no_wrap=True)
    table.add_column(f"Stored ({zone_name})", no_wrap=True)
    table.add_column("Epoch ms", justify="right", no_wrap=True)
    is_judged = any(hit.state != "no_log" for hit in hits)
    if is_judged:
        table.add_column("Message", no_wrap=True)
    for hit in hits:
        table.add_row(
            hit.name,
            str(hit.position),
            str(hit.phy_offset),
            format_millis(hit.store_timestamp, zone),
            str(hit.store_timestamp),
            *((hit.state,) if is_judged else ()),
        )
    print_table(console, table)
    files = len({hit.path for hit in hits})
    print_text(console, f"\n{counted(len(hits), 'entry', 'entries')} in {counted(files, 'file')}")


def print_broker_answer(
    console: Console, answer: QueryOffsetResult, zone: tzinfo, zone_name: str
) -> None:
    """Print what the broker's own search answers."""
    table = plain_table()
    table.add_column("Offset", justify="right", no_wrap=True)
    for phy_offset in answer.phy_offsets:
        table.add_row(str(phy_offset))
    print_table(console, table)
    updated = format_millis(answer.index_last_update_timestamp, zone)
    print_text(
        console,
        f"\n{counted(len(answer.phy_offsets), 'offset')}; the index was last updated {updated} "
        f"{zone_name} at offset {answer.index_last_update_phy_offset}",
    )


def plain_table() -> Table:
    """Return a table without lines but the one below its head."""
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")


def _width(table: Table, console: Console) -> int:
    """Return the columns that a table takes if nothing in it is cut."""
    return console.measure(table, options=console.options.update_width(_UNBOUNDED)).maximum


def print_table(console: Console, table: Table) -> None:
    """Print a table whole: a terminal that is too narrow breaks its lines, no digit is cut."""
    console.width = max(console.width, _width(table, console))
    console.print(table, crop=False)


def print_text(console: Console, text: str) -> None:
    """Print text whose lines are not broken."""
    console.print(Text(visible(text)), soft_wrap=True)


def _facts_table(facts: Sequence[FileFacts], zone: tzinfo, zone_name: str) -> Table:
    """Two lines a file: the first entry and the size, then the last entry and the disk's share."""
    table = plain_table()
    table.add_column("File", no_wrap=True)
    table.add_column("Entries", justify="right", no_wrap=True)
    table.add_column("Slots in use", justify="right", no_wrap=True)
    table.add_column("Load", justify="right", no_wrap=True)
    table.add_column(f"First, last stored ({zone_name})", no_wrap=True)
    table.add_column("Epoch ms", justify="right", no_wrap=True)
    table.add_column("Offset", justify="right", no_wrap=True)
    table.add_column("Size, on disk", justify="right", no_wrap=True)
    for file in facts:
        first, last = _ends(file, zone)
        table.add_row(
            file.name, str(file.entry_count), str(file.hash_slot_count), _load(file), *first,
            _size(file.size),
        )  # fmt: skip
        table.add_row(
            "", f"of {_or_dash(_capacity(file))}", f"of {_or_dash(file.hash_slot_num)}", "", *last,
            _size(file.disk_size),
            style="dim",
        )  # fmt: skip
    return table


def _facts_paragraph(file: FileFacts, zone: tzinfo, zone_name: str) -> str:
    """One label a line, for a terminal too narrow for the table."""
    first, last = _ends(file, zone)
    lines = (
        ("entries", f"{file.entry_count} of {_or_dash(_capacity(file))}"),
        ("slots in use", f"{file.hash_slot_count} of {_or_dash(file.hash_slot_num)}"),
        ("load", _load(file)),
        ("stored", f"{first[0]} to {last[0]} {zone_name}"),
        ("epoch ms", f"{first[1]} to {last[1]}"),
        ("offsets", f"{first[2]} to {last[2]}"),
        ("size", f"{_size(file.size)}, {_size(file.disk_size)} on disk"),
    )
    return "\n".join([file.name, *(f"  {label:<12}  {value}" for label, value in lines)])


def _totals(facts: Sequence[FileFacts], zone: tzinfo, zone_name: str) -> list[str]:
    sums = total(facts)
    size = f"{_size(sums.size)}, {_size(sums.disk_size)} on disk"
    lines = [f"{counted(sums.file_count, 'file')}, {sums.entry_count} entries, {size}"]
    geometries = {(file.hash_slot_num, file.index_num) for file in facts if file.hash_slot_num}
    if len(geometries) == 1:
        slots, places = geometries.pop()
        lines.append(f"{slots} hash slots (maxHashSlotNum), {places} entry places (maxIndexNum)")
    if sums.begin_timestamp is not None and sums.end_timestamp is not None:
        begin, end = (format_millis(t, zone) for t in (sums.begin_timestamp, sums.end_timestamp))
        lines.append(f"stored {begin} to {end} {zone_name}")
        lines.append(f"offsets {sums.begin_phy_offset} to {sums.end_phy_offset}")
    return lines


def _ends(file: FileFacts, zone: tzinfo) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    """Return time, milliseconds and offset of the first and of the last entry."""
    if not file.entry_count:
        # What the header holds then is the previous file's end, not an entry of this one.
        return ("-", "-", "-"), ("-", "-", "-")
    return (
        _end(file.begin_timestamp, file.begin_phy_offset, zone),
        _end(file.end_timestamp, file.end_phy_offset, zone),
    )


def _end(timestamp: int | None, phy_offset: int | None, zone: tzinfo) -> tuple[str, str, str]:
    return format_millis(timestamp or 0, zone), str(timestamp), str(phy_offset)


def _capacity(file: FileFacts) -> int | None:
    # Place 0 is never used.
    return None if file.index_num is None else file.index_num - 1


def _load(file: FileFacts) -> str:
    return "-" if file.load_factor is None else f"{file.load_factor:.2f}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def _size(size: int | None) -> str:
    """Return a number of bytes in the largest unit of which there is at least one."""
    if size is None:
        return "-"
    amount = float(size)
    for unit in _UNITS:
        if amount < 1024 or unit == _UNITS[-1]:
            break
        amount /= 1024
    return f"{size} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
