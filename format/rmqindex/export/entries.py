"""Exports of entries from IndexFiles."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rmqindex.arguments import int_or_none
from rmqindex.errors import RmqIndexError
from rmqindex.export.folder import ANEW, Folder, Stream
from rmqindex.export.formats import as_table
from rmqindex.indexfile.decoding import ENTRY_SCHEMA
from rmqindex.layout.index_file import FIRST_POSITION, INT32_MAX
from rmqindex.storage.location import path_text
from rmqindex.transaction.directories import exists

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rmqindex.export.folder import ExportResult
    from rmqindex.store.snapshot import SnapshotFile

_DEFAULT_FILE_SIZE = 256 * 1024 * 1024
_FILE = "file"
_STREAM = "entries-"


@dataclass(frozen=True, slots=True)
class _ExportedEntries:
    """Identifies the exported entries of a file."""

    checksum: int
    phy_offset: int
    is_full: bool

    @classmethod
    def of(cls, planned: SnapshotFile, stop: int) -> _ExportedEntries:
        with planned.open() as file:
            (last,) = file.scan(stop - 1, stop, ["phy_offset"])
            is_full = planned.layout is not None and stop > planned.layout.capacity
            return cls(file.checksum(stop), last.column(0)[0].as_py(), is_full)


@dataclass(frozen=True, slots=True)
class EntrySelection:
    """Which entries are asked for; None stands for all.

    Attributes:
        begin: The earliest store time, epoch milliseconds.
        end: The latest store time, epoch milliseconds.
        start: The first offset, bytes.
        stop: The offset from which on entries are left out, bytes.
        key_hash: The hash of the key.
    """

    begin: int | None = None
    end: int | None = None
    start: int | None = None
    stop: int | None = None
    key_hash: int | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that no entry can have.

        Raises:
            ValueError: A number beyond its bits, or a negative hash.
            TypeError: Not an int.
        """
        for name in ("begin", "end", "start", "stop"):
            object.__setattr__(self, name, int_or_none(name, getattr(self, name)))
        object.__setattr__(self, "key_hash", int_or_none("key_hash", self.key_hash, 0, INT32_MAX))

    def matching(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the entries of a batch that are asked for."""
        keep = np.ones(batch.num_rows, bool)
        times = batch.column("store_timestamp").to_numpy()
        offsets = batch.column("phy_offset").to_numpy()
        if self.begin is not None:
            keep &= times >= self.begin
        if self.end is not None:
            keep &= times <= self.end
        if self.start is not None:
            keep &= offsets >= self.start
        if self.stop is not None:
            keep &= offsets < self.stop
        if self.key_hash is not None:
            keep &= batch.column("key_hash").to_numpy() == self.key_hash
        return batch if keep.all() else batch.filter(pa.array(keep))


def entry_schema() -> pa.Schema:
    """Return the schema of entries with the name of their file and real timestamps."""
    table = as_table(ENTRY_SCHEMA.empty_table())
    return pa.schema([pa.field(_FILE, pa.string()), *table.schema])


def entry_tables(
    planned: SnapshotFile, selection: EntrySelection, start: int = FIRST_POSITION
) -> Iterator[tuple[pa.Table, int]]:
    """Read the entries of a file that are asked for, with its name and real timestamps."""
    if planned.is_empty:
        return
    with planned.open() as file:
        for batch in file.scan(start, planned.stop):
            stop = batch.column("position")[batch.num_rows - 1].as_py() + 1
            table = as_table(selection.matching(batch))
            names = pa.array([path_text(planned.entry.name)]).take(
                pa.array(np.zeros(table.num_rows, int))
            )
            yield table.add_column(0, _FILE, names), stop


def export_entries(
    files: Sequence[SnapshotFile],
    directory: str | os.PathLike[str],
    selection: EntrySelection | None = None,
    *,
    kind: str = "parquet",
    max_file_size: int = _DEFAULT_FILE_SIZE,
    words: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ExportResult:
    """Write the entries of IndexFiles to files, or resume where an earlier run stopped.

    Args:
        files: The IndexFiles, as they were listed.
        directory: A local directory that is new, empty, or has an export of the same.
        selection: Which entries; None for all.
        kind: One of ``FORMATS``.
        max_file_size: About how many bytes a file may have.
        words: As :func:`export_messages` takes it.
        progress: Called with the entries that were read, and those that there are.

    Returns:
        What was written; the directory then has every entry that is asked for.

    Raises:
        CorruptIndexError: An IndexFile is damaged. Finished files stay.
        RmqIndexError: The directory has other files or another export, or an IndexFile was written
            anew since, laid out anew into others, or removed before it was read to its end.
        OSError: The directory cannot be written.
    """
    selection = selection or EntrySelection()
    question: dict[str, Any] = {"what": "entries", "format": kind, **asdict(selection)}
    total = sum(planned.entry_count for planned in files)
    done = 0
    with Folder.open(directory, question, kind, max_file_size, words) as folder:
        selection = replace(selection, begin=folder.result.begin, end=folder.result.end)
        _ensure_successors(files, folder)
        for planned in files:
            if planned.error is not None:
                raise planned.error
        for planned in files:
            if planned.is_empty:
                continue
            _export_file(planned, folder, selection, _reporter(progress, done, total))
            done += planned.entry_count
        return folder.result


def _reporter(
    progress: Callable[[int, int], None] | None, done: int, total: int
) -> Callable[[int], None]:
    def report(stop: int) -> None:
        if progress is not None:
            progress(done + stop - FIRST_POSITION, total)

    return report


def _ensure_successors(files: Sequence[SnapshotFile], folder: Folder) -> None:
    """Refuse new files that do not continue where the removed ones ended.

    Brokers delete expired files; a rebuild replaces files by others that have the same entries.
    """
    exported = sorted(name.removeprefix(_STREAM) for name in folder.parts)
    listed = {planned.entry.name for planned in files}
    gone = {
        name: folder.mark(f"{_STREAM}{name}", _ExportedEntries)
        for name in exported
        if name not in listed and not (files and exists(files[0].name_path.parent.child(name)))
    }
    if not gone:
        return
    if len(gone) == len(exported):
        raise RmqIndexError(
            f"{folder.path}: expected an index that still has an IndexFile whose entries were "
            f"exported, such as {exported[-1]}, got none of them: the index was written anew, or "
            f"all of them expired, with others perhaps that were never exported. {ANEW}"
        )
    for name, mark in gone.items():
        if not mark.is_full and name == exported[-1]:
            raise RmqIndexError(
                f"{folder.path}: expected the IndexFile {name}, whose entries up to that of the "
                f"message at {mark.phy_offset} were exported, got an index without it: its last "
                f"entries are lost, or are in another file. {ANEW}"
            )
    end = max(mark.phy_offset for mark in gone.values())
    for planned in files:
        begin = planned.header.begin_phy_offset
        if not planned.is_empty and planned.entry.name not in exported and begin <= end:
            raise RmqIndexError(
                f"{planned.name_path}: expected a new IndexFile to begin behind offset {end}, up "
                f"to which entries were exported from files that are gone, got {begin}: the index "
                f"was written anew, and its entries would be there twice. {ANEW}"
            )


def _export_file(
    planned: SnapshotFile,
    folder: Folder,
    selection: EntrySelection,
    report: Callable[[int], None],
) -> None:
    header = planned.header
    stream = Stream(
        f"{_STREAM}{planned.entry.name}", [header.begin_timestamp, header.begin_phy_offset]
    )
    start = folder.begin(stream, FIRST_POSITION)
    if start > planned.stop:
        raise RmqIndexError(
            f"{planned.name_path}: expected at least {start - FIRST_POSITION} entries, as many as "
            f"the finished files have, got {planned.entry_count}: it was written anew since. {ANEW}"
        )
    if folder.parts.get(stream.name):
        expected = folder.mark(stream.name, _ExportedEntries).checksum
        with planned.open() as file:
            got = file.checksum(start)
        if expected != got:
            raise RmqIndexError(
                f"{planned.name_path}: expected the {start - FIRST_POSITION} entries that were "
                f"exported, with checksum {expected}, got {got}: it was written anew since. {ANEW}"
            )
    tables = entry_tables(planned, selection, start)
    folder.write(
        stream,
        start,
        (([table], stop) for table, stop in tables),
        lambda stop: _ExportedEntries.of(planned, stop),
        report,
    )
