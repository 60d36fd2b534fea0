"""The files of an index to which rows are added: the present ones, and plans of new ones.

A new file inherits the end of a full one before it (``IndexService.getAndCreateLastIndexFile``).
"""

from __future__ import annotations

import contextlib
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.bulk.sorted_runs import RunSet
from rmqindex.errors import SAID_GEOMETRY, RmqIndexError
from rmqindex.indexfile.committed import header_of
from rmqindex.indexfile.geometry import Layout, infer_layout
from rmqindex.indexfile.reader import IndexFile
from rmqindex.indexwriter.writer import InPlaceAppend, open_appender
from rmqindex.layout.dledger import DATA_FOLDER
from rmqindex.layout.index_file import (
    FIRST_POSITION,
    IndexHeader,
)
from rmqindex.layout.store import COMMITLOG_FOLDER, DLEDGER_PREFIX, INDEX_FOLDER
from rmqindex.store.snapshot import open_in_store
from rmqindex.store.store import list_index_files
from rmqindex.transaction.directories import exists

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.bulk.sorted_runs import Order, RunSlice
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexwriter.writer import Entries
    from rmqindex.storage.location import Location
    from rmqindex.transaction.directories import FileEntry
    from rmqindex.transaction.staging import Staging

# A broker's names are times; the other stores of a broker have names of 20 digits.
_NAME_DIGITS = 17
_TAIL_ENTRIES = 4096
# What a file of another size contradicts, and why it may have it.
_AS_ASKED = (
    "as all files of an index have",
    "the options maxHashSlotNum and maxIndexNum name another geometry",
)
_SINCE = (
    "as when this write began",
    "the index was laid out anew meanwhile: nothing was committed, write again",
)


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A present IndexFile, of which only the header was read, as a write under a lock may.

    Attributes:
        name: Its name.
        path: The path of its bytes.
        header: Its header.
    """

    name: str
    path: Location
    header: IndexHeader


@dataclass(frozen=True, slots=True)
class IndexState:
    """The state of an index directory at one moment.

    Attributes:
        files: The files, oldest first.
        end: The offset of the last indexed message, bytes; None without any.
    """

    files: tuple[IndexedFile, ...] = ()
    end: int | None = None

    @classmethod
    def read(
        cls, directory: str | os.PathLike[str], layout: Layout, *, is_since: bool = False
    ) -> IndexState:
        """Read the headers of a directory; that of the last file is compared with its entries.

        A broker, and a write, put the next entry where this header says, over what it does not
        count. With ``is_since``, the layout is that with which a write began.

        Raises:
            CorruptIndexError: The last file's header is damaged.
            RmqIndexError: A file has not the layout's size, or cannot be read.
        """
        files = []
        for entry in index_entries(directory):
            if entry.size != layout.file_size:
                expected, why = _SINCE if is_since else _AS_ASKED
                raise RmqIndexError(
                    f"{entry.path}: file size: expected {layout.file_size} bytes for {layout}, "
                    f"{expected}, got {entry.size}; {why}"
                )
            files.append(IndexedFile(entry.name, entry.path, header_of(entry.path)))
        for last in files[-1:]:
            with IndexFile(last.path, layout) as file:
                file.check_header(is_last=True)
        ends = [
            file.header.end_phy_offset
            for file in files
            if file.header.entry_count or file.header.end_timestamp > 0
        ]
        return cls(tuple(files), max(ends, default=None))

    @classmethod
    def of_end(cls, entries: Sequence[FileEntry]) -> IndexState:
        """Read only the files that hold the last message's entries, which may span several.

        Args:
            entries: The files, oldest first; the newest has entries and ends the index.
        """
        files: list[IndexedFile] = []
        for entry in reversed(entries):
            file = IndexedFile(entry.name, entry.path, header_of(entry.path))
            end = files[0].header.end_phy_offset if files else file.header.end_phy_offset
            if files and file.header.end_phy_offset != end:
                break
            files.insert(0, file)
            if file.header.begin_phy_offset != end:
                break
        return cls(tuple(files), files[-1].header.end_phy_offset)

    @property
    def last(self) -> IndexedFile | None:
        """The newest file, to which a broker would append."""
        return self.files[-1] if self.files else None

    def precedes(self, phy_offset: int) -> bool:
        """Return whether an offset lies at or after the end of the index."""
        return self.end is None or phy_offset >= self.end

    def hashes_at_end(self, layout: Layout) -> NDArray[np.int32]:
        """Return the key hashes of the entries at :attr:`end`."""
        found = [np.empty(0, np.int32)]
        for file in self.files:
            if not file.header.entry_count or file.header.end_phy_offset != self.end:
                continue
            with IndexFile(file.path, layout) as index_file:
                found += _tail_at(index_file, file.header.end_phy_offset)
        return np.concatenate(found)


def index_entries(directory: str | os.PathLike[str]) -> list[FileEntry]:
    """List the IndexFiles of a directory, oldest first; none where it is absent."""
    return list_index_files(directory) if exists(directory) else []


def index_beside(log: CommitLog) -> Location | None:
    """Return the index directory of the store that a log belongs to, if it has a usual folder."""
    if not log.files:
        return None
    folder = log.files[0].path.absolute.parent  # links stay
    if folder.name == DATA_FOLDER and folder.parent.name.startswith(DLEDGER_PREFIX):
        return folder.parent.parent.child(INDEX_FOLDER)
    return folder.parent.child(INDEX_FOLDER) if folder.name == COMMITLOG_FOLDER else None


def open_file(path: Location, layout: Layout | None) -> IndexFile:
    """Open a file with the known geometry or its own; a damaged one as far as it is sound."""
    for known in (layout, None):
        with suppress(RmqIndexError):
            return IndexFile(path, known)
    return open_in_store(path, layout, "DROPMALFORMED")


def shown_layout(entries: Sequence[FileEntry]) -> tuple[FileEntry, Layout] | None:
    """Return the newest file that shows its geometry, and that; None where none does.

    Raises:
        RmqIndexError: Files show several, so that none is the broker's for sure.
    """
    found: dict[int, tuple[FileEntry, Layout]] = {}
    for entry in reversed(entries):  # files of one size have one geometry
        if entry.size not in found:
            with suppress(RmqIndexError):  # without entries, or damaged; another may tell
                found[entry.size] = entry, infer_layout(entry.path)
    if len(found) > 1:
        (newer, layout), (older, other) = list(found.values())[:2]
        raise RmqIndexError(
            f"{newer.path}: expected the {other.hash_slot_num} slots and {other.index_num} entries "
            f"of {older.name}, got {layout.hash_slot_num} and {layout.index_num}: say which with "
            f"{SAID_GEOMETRY} of broker.conf"
        )
    return next(iter(found.values()), None)


def find_layout(entries: list[FileEntry], asked: Layout | None, *, check: bool) -> Layout:
    """Return the requested geometry, else the one that files show, else RocketMQ's default.

    Args:
        entries: The present files.
        asked: The geometry in the options, or None.
        check: Whether the options must agree with the files.
    """
    if asked is not None and not check:
        return asked
    filled = next((e for e in reversed(entries) if header_of(e.path).entry_count), None)
    if asked is None:
        if filled is not None:
            shown = shown_layout(entries)
            # The newest one says itself why it does not show any.
            return shown[1] if shown and shown[0] is filled else Layout.infer(filled.path)
        for entry in entries:
            if entry.size != Layout().file_size:
                raise RmqIndexError(
                    f"{entry.path}: no entries, so that any geometry fits; say which with "
                    f"{SAID_GEOMETRY}"
                )
        return Layout()
    if filled is not None:
        try:
            found = Layout.infer(filled.path)
        except RmqIndexError:
            return asked  # several fit: the options decide
        if found != asked:
            raise RmqIndexError(
                f"{filled.path}: expected maxHashSlotNum {asked.hash_slot_num} and maxIndexNum "
                f"{asked.index_num}, as the options say, got {found.hash_slot_num} and "
                f"{found.index_num}"
            )
    return asked


def check_replaceable(entries: list[FileEntry], layout: Layout | None) -> None:
    """Refuse to overwrite files with numeric names that are not IndexFiles, as in a CommitLog."""
    for entry in entries:
        if len(entry.name) == _NAME_DIGITS:
            continue
        if layout is not None and entry.size == layout.file_size:
            continue
        try:
            Layout.infer(entry.path)
        except RmqIndexError as error:
            raise RmqIndexError(
                f"{entry.path}: expected an IndexFile to replace, got something else: {error}"
            ) from error


def _tail_at(index_file: IndexFile, phy_offset: int) -> list[NDArray[np.int32]]:
    """Return the hashes of a file's last entries, back to the first with that offset."""
    found = []
    stop = index_file.entry_count + 1
    while stop > 1:
        start = max(stop - _TAIL_ENTRIES, 1)
        (batch,) = index_file.scan(start, stop, ["key_hash", "phy_offset"])
        others = np.flatnonzero(batch["phy_offset"].to_numpy() != phy_offset)
        first = int(others[-1]) + 1 if others.size else 0
        found.append(batch["key_hash"].to_numpy()[first:])
        if others.size:
            break
        stop = start
    return found


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The plan of one file; picklable.

    Attributes:
        slices: The parts of the runs that hold its rows.
        order: The order of the runs.
        layout: Its geometry.
        prev_end_phy_offset: The ``end_phy_offset`` inherited from the file before it, bytes; 0 for
            none.
        prev_end_timestamp: Likewise, epoch milliseconds.
        continued: The present file to continue; None for a new one.
    """

    slices: tuple[RunSlice, ...]
    order: Order
    layout: Layout
    prev_end_phy_offset: int = 0
    prev_end_timestamp: int = 0
    continued: IndexedFile | None = None

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(part.stop - part.start for part in self.slices)


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """One staged file, complete and synced to disk; picklable.

    Attributes:
        name: Its name in the staging directory.
        least: The least ``phy_offset`` of its new entries.
        greatest: The greatest one.
        header: Its header.
        continued: The name of the file that it continues and replaces, or None.
    """

    name: str
    least: int
    greatest: int
    header: IndexHeader
    continued: str | None = None


def plan_files(
    runs: RunSet, layout: Layout, last: IndexedFile | None, *, continues: bool
) -> Iterator[FilePlan]:
    """Plan the files that a broker would write for rows, given the last file before them.

    Files end where they are full.
    A new file inherits the end of a full file before it, as in the broker.

    Args:
        runs: The rows in order.
        layout: The geometry.
        last: The file before them, or None.
        continues: Whether to continue a last file that is not full.

    Yields:
        One plan a file, in order.

    Raises:
        RmqIndexError: The geometry leaves no room for an entry.
    """
    if layout.capacity < 1:
        raise RmqIndexError(f"{layout}: expected room for an entry, got none: place 0 is unused")
    full = last is not None and last.header.index_count >= layout.index_num
    total = len(runs)
    stop = runs.cut(0)
    rank = 0
    while rank < total:
        plan = FilePlan((), runs.order, layout)
        room = layout.capacity
        if rank:
            before = runs.row(rank - 1)
            plan = replace(
                plan,
                prev_end_phy_offset=before["phy_offset"],
                prev_end_timestamp=before["store_timestamp"],
            )
        elif last is not None and full:
            plan = replace(
                plan,
                prev_end_phy_offset=last.header.end_phy_offset,
                prev_end_timestamp=last.header.end_timestamp,
            )
        elif last is not None and continues:
            plan = replace(plan, continued=last)
            room = layout.index_num - max(last.header.index_count, FIRST_POSITION)
        start, rank = stop, min(rank + room, total)
        stop = runs.cut(rank)
        yield replace(plan, slices=runs.between(start, stop).slices)


def build_file(staging: Staging, name: str, plan: FilePlan) -> BuiltFile:
    """Build one file in the staging directory, and sync it to disk.

    Args:
        staging: The job's staging directory.
        name: The file's name in it, not in use yet.
        plan: Its plan.
    """
    path = staging.path / name
    if plan.continued is not None:
        staging.fetch_indexed(plan.continued.path, name)
    runs = RunSet(staging.path, plan.slices, plan.order)
    appender = open_appender(path, plan.layout, plan.prev_end_phy_offset, plan.prev_end_timestamp)
    with contextlib.closing(appender):
        for block in runs.blocks():
            fitted = appender.put_many(
                block["key_hash"], block["phy_offset"], block["store_timestamp"]
            )
            assert fitted == len(block["key_hash"]), "a plan fills no file beyond its capacity"
        appender.flush_unseen()
    continued = None if plan.continued is None else plan.continued.name
    return BuiltFile(name, *runs.offset_range(), appender.header, continued)


def plan_append(directory: Path, plan: FilePlan, *, trusted: bool = False) -> InPlaceAppend:
    """Plan the append in place that continues a file; needs the commit lock."""
    assert plan.continued is not None, "only a file that is there can be continued"
    runs = RunSet(directory, plan.slices, plan.order)
    last = runs.row(len(runs) - 1)
    return InPlaceAppend(
        Path(plan.continued.path),
        plan.layout,
        runs.key_hashes(),
        partial(_entries, runs),
        (last["phy_offset"], last["store_timestamp"]),
        trusted=trusted,
    )


def _entries(runs: RunSet) -> Iterator[Entries]:
    for block in runs.blocks():
        yield block["key_hash"], block["phy_offset"], block["store_timestamp"]
