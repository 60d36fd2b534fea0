"""IndexFiles: facts from their headers, sizes and geometry, without a scan, as an answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from rmqindex.answers.answer import BAD, Answer
from rmqindex.answers.terminal import Table, fits, print_table, print_text
from rmqindex.answers.text import size_text
from rmqindex.errors import counted
from rmqindex.storage.identity import FileIdentity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.answers.answer import Zone
    from rmqindex.answers.terminal import Console
    from rmqindex.store.snapshot import SnapshotFile

# Path.stat() counts the space on disk in these units, whatever the file system's own are.
_DISK_BLOCK = 512


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One IndexFile: its size, geometry and header; a file that cannot be used has an ``error``.

    The size on disk is smaller where the file is sparse, and not known on remote storage. A file
    without entries may not tell its slots and places. The begin and the end are those of the first
    and the last entry put, which are not a minimum and a maximum.
    """

    path: str
    name: str
    size: int
    disk_size: int | None = None
    hash_slot_num: int | None = None
    index_num: int | None = None
    entry_count: int | None = None
    hash_slot_count: int | None = None
    load_factor: float | None = None
    begin_timestamp: int | None = None
    end_timestamp: int | None = None
    begin_phy_offset: int | None = None
    end_phy_offset: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """Several IndexFiles together; only the sizes include files with an error.

    Times and offsets are the smallest begin and the greatest end of the files with entries; the
    size on disk is known only if it is for all files.
    """

    file_count: int
    size: int
    disk_size: int | None
    entry_count: int
    begin_timestamp: int | None
    end_timestamp: int | None
    begin_phy_offset: int | None
    end_phy_offset: int | None


FILE_COLUMNS = tuple(field.name for field in fields(FileFacts))


def describe(planned: SnapshotFile) -> FileFacts:
    """Describe a file as of its listing; raise if it was removed or replaced since."""
    entry, header, layout = planned.entry, planned.header, planned.layout
    disk_size = _disk_size(planned)
    if planned.error is not None:
        return FileFacts(
            path=entry.path,
            name=entry.name,
            size=entry.size,
            disk_size=disk_size,
            error=str(planned.error),
        )
    return FileFacts(
        path=entry.path,
        name=entry.name,
        size=entry.size,
        disk_size=disk_size,
        hash_slot_num=layout.hash_slot_num if layout else None,
        index_num=layout.index_num if layout else None,
        entry_count=planned.entry_count,
        hash_slot_count=header.hash_slot_count,
        load_factor=round(planned.entry_count / layout.hash_slot_num, 4) if layout else None,
        begin_timestamp=header.begin_timestamp,
        end_timestamp=header.end_timestamp,
        begin_phy_offset=header.begin_phy_offset,
        end_phy_offset=header.end_phy_offset,
    )


def total(facts: Sequence[FileFacts]) -> Totals:
    """Sum files up."""
    disk_sizes = [file.disk_size for file in facts if file.disk_size is not None]
    filled = [file for file in facts if file.entry_count]
    return Totals(
        file_count=len(facts),
        size=sum(file.size for file in facts),
        disk_size=sum(disk_sizes) if len(disk_sizes) == len(facts) else None,
        entry_count=sum(file.entry_count or 0 for file in facts),
        begin_timestamp=min((_known(file.begin_timestamp) for file in filled), default=None),
        end_timestamp=max((_known(file.end_timestamp) for file in filled), default=None),
        begin_phy_offset=min((_known(file.begin_phy_offset) for file in filled), default=None),
        end_phy_offset=max((_known(file.end_phy_offset) for file in filled), default=None),
    )


def _known(value: int | None) -> int:
    assert value is not None  # a file with entries has every field
    return value


def _disk_size(planned: SnapshotFile) -> int | None:
    path, identity = planned.entry.path, planned.entry.identity
    if path.local is None:
        return None
    try:
        status = path.local.stat()
    except FileNotFoundError as error:
        if planned.error is not None:
            return None
        raise planned.changed_error("removed") from error
    if identity is not None and not identity.names_same(FileIdentity.of_stat(status)):
        raise planned.changed_error("replaced")
    return status.st_blocks * _DISK_BLOCK


def files_answer(path: str, facts: Sequence[FileFacts], zone: Zone, notes: Sequence[str]) -> Answer:
    """Return what the IndexFiles of a path contain."""
    rows = [asdict(file) for file in facts]
    errors = [file.error for file in facts if file.error is not None]
    return Answer(
        text=lambda console: _print_facts(console, path, facts, zone),
        columns=FILE_COLUMNS,
        rows=rows,
        document=lambda: {"path": path, "files": rows, "totals": asdict(total(facts))},
        notes=(*notes, *errors),
        exit_code=BAD if errors else 0,
    )


def _print_facts(console: Console, path: str, facts: Sequence[FileFacts], zone: Zone) -> None:
    """Print the files that can be used, and the totals."""
    if not facts:
        console.write(f"{path}: no IndexFiles")
    sound = [file for file in facts if file.error is None]
    table = _facts_table(sound, zone)
    if sound and fits(table, console):
        print_table(console, table)
    elif sound:
        print_text(console, "\n\n".join(_facts_paragraph(f, zone) for f in sound))
    if sound:
        print_text(console, "\n" + "\n".join(_totals(facts, zone)))


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
