"""Tables of entries, hits and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqindex.display.facts import total
from rmqindex.display.sizes import size_text
from rmqindex.display.terminal import Table, fits, make_console, print_table, print_text, rule
from rmqindex.display.text import counted, write_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqindex.display.facts import FileFacts
    from rmqindex.display.terminal import Console
    from rmqindex.output.hits import Hit
    from rmqindex.output.interface import Shortfall, Zone
    from rmqindex.query.index_directory import QueryOffsetResult

__all__ = [
    "print_broker_answer",
    "print_entries",
    "print_facts",
    "print_hits",
]

_ENTRY_WIDTHS = (17, 8, 8, 7, 10, 14, 23)


def print_facts(console: Console, facts: Sequence[FileFacts], zone: Zone) -> None:
    """Print at least one IndexFile and the totals."""
    sound = [file for file in facts if file.error is None]
    table = _facts_table(sound, zone)
    if sound and fits(table, console):
        print_table(console, table)
    elif sound:
        print_text(console, "\n\n".join(_facts_paragraph(f, zone) for f in sound))
    if sound:
        print_text(console, "\n" + "\n".join(_totals(facts, zone)))


def print_hits(console: Console, hits: Sequence[Hit], zone: Zone) -> None:
    """Print the entries that a lookup found, as one table."""
    table = Table()
    table.add_column("File")
    table.add_column("Position", right=True)
    table.add_column("Offset", right=True)
    table.add_column(f"Stored ({zone.name})")
    table.add_column("Epoch ms", right=True)
    is_judged = any(hit.state != "no_log" for hit in hits)
    if is_judged:
        table.add_column("Message")
    for hit in hits:
        table.add_row(
            hit.name,
            str(hit.position),
            str(hit.phy_offset),
            zone.format(hit.store_timestamp),
            str(hit.store_timestamp),
            *((hit.state,) if is_judged else ()),
        )
    print_table(console, table)
    files = len({hit.path for hit in hits})
    print_text(console, f"\n{counted(len(hits), 'entry', 'entries')} in {counted(files, 'file')}")


def print_broker_answer(console: Console, answer: QueryOffsetResult, zone: Zone) -> None:
    """Print what the broker's own search answers."""
    table = Table()
    table.add_column("Offset", right=True)
    for phy_offset in answer.phy_offsets:
        table.add_row(str(phy_offset))
    print_table(console, table)
    updated = zone.format(answer.index_last_update_timestamp)
    print_text(
        console,
        f"\n{counted(len(answer.phy_offsets), 'offset')}; the index was last updated {updated} "
        f"{zone.name} at offset {answer.index_last_update_phy_offset}",
    )


def print_entries(rows: Iterable[dict[str, Any]], zone: Zone, shortfall: Shortfall) -> None:
    """Print the entries of IndexFiles one by one, of which there may be millions, and a count."""
    heads = ("File", "Position", "Previous", "Slot", "Key hash", "Offset", f"Stored ({zone.name})")
    widths = [max(width, len(head)) for width, head in zip(_ENTRY_WIDTHS, heads, strict=True)]
    line_width = sum(widths) + 2 * (len(widths) - 1)
    is_narrow = make_console().width < line_width
    count = 0
    for row in rows:
        cells = (
            row["file"],
            row["position"],
            row["prev_position"],
            row["slot"],
            row["key_hash"],
            row["phy_offset"],
            zone.format(row["store_timestamp"]),
        )
        if is_narrow:
            label = max(map(len, heads)) + 2
            lines = [f"{head:<{label}}{cell}" for head, cell in zip(heads, cells, strict=True)]
            write_line(("\n" if count else "") + "\n".join(lines))
        else:
            if not count:
                write_line(_entry_line(heads, widths))
                write_line(rule(line_width))
            write_line(_entry_line(cells, widths))
        count += 1
    if count:
        write_line(f"\n{counted(count, 'entry', 'entries')}")
        return
    window = zone.window(shortfall.begin, shortfall.end)
    others = f"; {shortfall.at_other_times} at other times" if window else ""
    write_line(f"0 entries{window}{others}")


def _entry_line(cells: tuple[Any, ...], widths: list[int]) -> str:
    """Return a line with texts of the first and the last column to the left, the rest right."""
    last = len(cells) - 1
    parts = (
        str(cell).ljust(width) if number in {0, last} else str(cell).rjust(width)
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(parts).rstrip()


def _facts_table(facts: Sequence[FileFacts], zone: Zone) -> Table:
    """Two lines a file: the first entry and the size, then the last entry and the disk's share."""
    table = Table()
    table.add_column("File")
    table.add_column("Entries", right=True)
    table.add_column("Slots in use", right=True)
    table.add_column("Load", right=True)
    table.add_column(f"First, last stored ({zone.name})")
    table.add_column("Epoch ms", right=True)
    table.add_column("Offset", right=True)
    table.add_column("Size, on disk", right=True)
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


def _facts_paragraph(file: FileFacts, zone: Zone) -> str:
    """One label a line, for a terminal too narrow for the table."""
    first, last = _ends(file, zone)
    lines = (
        ("entries", f"{file.entry_count} of {_or_dash(_capacity(file))}"),
        ("slots in use", f"{file.hash_slot_count} of {_or_dash(file.hash_slot_num)}"),
        ("load", _load(file)),
        ("stored", f"{first[0]} to {last[0]} {zone.name}"),
        ("epoch ms", f"{first[1]} to {last[1]}"),
        ("offsets", f"{first[2]} to {last[2]}"),
        ("size", f"{_size(file.size)}, {_size(file.disk_size)} on disk"),
    )
    return "\n".join([file.name, *(f"  {label:<12}  {value}" for label, value in lines)])


def _totals(facts: Sequence[FileFacts], zone: Zone) -> list[str]:
    sums = total(facts)
    size = f"{_size(sums.size)}, {_size(sums.disk_size)} on disk"
    lines = [f"{counted(sums.file_count, 'file')}, {sums.entry_count} entries, {size}"]
    geometries = {(file.hash_slot_num, file.index_num) for file in facts if file.hash_slot_num}
    if len(geometries) == 1:
        slots, places = geometries.pop()
        lines.append(f"{slots} hash slots (maxHashSlotNum), {places} entry places (maxIndexNum)")
    if sums.begin_timestamp is not None and sums.end_timestamp is not None:
        begin, end = (zone.format(t) for t in (sums.begin_timestamp, sums.end_timestamp))
        lines.append(f"stored {begin} to {end} {zone.name}")
        lines.append(f"offsets {sums.begin_phy_offset} to {sums.end_phy_offset}")
    return lines


def _ends(file: FileFacts, zone: Zone) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    """Return time, milliseconds and offset of the first and of the last entry."""
    if not file.entry_count:
        # What the header holds then is the previous file's end, not an entry of this one.
        return ("-", "-", "-"), ("-", "-", "-")
    return (
        _end(file.begin_timestamp, file.begin_phy_offset, zone),
        _end(file.end_timestamp, file.end_phy_offset, zone),
    )


def _end(timestamp: int | None, phy_offset: int | None, zone: Zone) -> tuple[str, str, str]:
    return zone.format(timestamp or 0), str(timestamp), str(phy_offset)


def _capacity(file: FileFacts) -> int | None:
    # Place 0 is never used.
    return None if file.index_num is None else file.index_num - 1


def _load(file: FileFacts) -> str:
    return "-" if file.load_factor is None else f"{file.load_factor:.2f}"


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def _size(size: int | None) -> str:
    return "-" if size is None else size_text(size)
