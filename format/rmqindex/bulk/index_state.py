"""The state of an index directory to which rows are added: its files, end and geometry."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.errors import RmqIndexError
from rmqindex.indexfile.committed import open_index_source, read_header
from rmqindex.indexfile.geometry import Layout
from rmqindex.indexfile.reader import IndexFile
from rmqindex.storage.location import Location
from rmqindex.store.snapshot import open_in_store
from rmqindex.store.store import list_index_files
from rmqindex.transaction.directories import exists

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqindex.header import IndexHeader
    from rmqindex.transaction.directories import FileEntry

__all__ = [
    "IndexState",
    "IndexedFile",
    "check_replaceable",
    "find_layout",
    "index_entries",
    "open_file",
]

# A broker's names are times; the other stores of a broker have names of 20 digits.
_NAME_DIGITS = 17
_TAIL_ENTRIES = 4096


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A present IndexFile.

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
    def read(cls, directory: str | os.PathLike[str], layout: Layout) -> IndexState:
        """Read the headers of a directory.

        Raises:
            RmqIndexError: A file has not the layout's size, or cannot be read.
        """
        files = []
        for entry in index_entries(directory):
            if entry.size != layout.file_size:
                raise RmqIndexError(
                    f"{entry.path}: file size: expected {layout.file_size} bytes for {layout}, as "
                    f"all files of an index have, got {entry.size}; the options maxHashSlotNum "
                    "and maxIndexNum name another geometry"
                )
            files.append(IndexedFile(entry.name, entry.path, _header(entry.path)))
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
            file = IndexedFile(entry.name, entry.path, _header(entry.path))
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


def open_file(path: str, layout: Layout | None) -> IndexFile:
    """Open a file with the known geometry or its own; a damaged one as far as it is sound."""
    for known in (layout, None):
        with suppress(RmqIndexError):
            return IndexFile(path, known)
    return open_in_store(Location.of(path), layout, "DROPMALFORMED")


def find_layout(entries: list[FileEntry], asked: Layout | None, *, check: bool) -> Layout:
    """Return the requested geometry, else that of the newest files, else RocketMQ's default.

    Args:
        entries: The present files.
        asked: The geometry in the options, or None.
        check: Whether the options must agree with the files.
    """
    if asked is not None and not check:
        return asked
    filled = next((e for e in reversed(entries) if _header(e.path).entry_count), None)
    if asked is None:
        if filled is not None:
            return Layout.infer(filled.path)
        for entry in entries:
            if entry.size != Layout().file_size:
                raise RmqIndexError(
                    f"{entry.path}: no entries, so that any geometry fits; say which with "
                    "maxHashSlotNum and maxIndexNum"
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


def _header(path: Location) -> IndexHeader:
    with open_index_source(path) as source:
        return read_header(source)
