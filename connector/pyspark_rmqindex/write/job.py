"""Where a write goes: its options, the index directory, and what is indexed there already."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pyspark_rmqindex.options import WriteOptions, parse_options
from rmqindex import IndexFile, IndexHeader, Layout, RmqIndexError
from rmqindex.folders import COMMITLOG_FOLDER, INDEX_FOLDER, QUEUE_FOLDER
from rmqindex.indexfile import open_index_source
from rmqindex.storage import SCHEMES, child_uri, is_remote, local_path, using
from rmqindex.store import (
    ensure_coverable,
    ensure_not_live,
    list_index_files,
    refuse_target,
    resolve,
)
from rmqindex.transaction import RemoteStaging, Staging, entries_or_none, exists

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from rmqindex.transaction import FileEntry, Owner

__all__ = [
    "IndexState",
    "IndexedFile",
    "WriteJob",
    "find_layout",
    "write_options",
]

_MESSAGE_FOLDERS = (COMMITLOG_FOLDER, QUEUE_FOLDER)
# A broker's names are times; the other stores of a broker have names of 20 digits.
_NAME_DIGITS = 17
_TAIL_ENTRIES = 4096


def write_options(raw: Mapping[str, str]) -> WriteOptions:
    """Parse and check the options of a write, and find its index directory, there or not.

    Raises:
        ValueError: An unknown option, a bad value, no path, or one neither local nor on S3.
        RmqIndexError: The path is a file, a store of another kind, or a directory of other files.
    """
    options = parse_options(WriteOptions, raw, "write")
    with using(options.s3):
        directory = _index_directory(str(options.path))
        refuse_target(str(directory))
    if is_remote(directory) and options.checkpoint:
        raise ValueError("option 'checkpoint': only for a local store")
    return replace(options, path=str(directory))


def _index_directory(path: str) -> Path | str:
    """Return the index directory that a path stands for."""
    if is_remote(path):
        return _remote_directory(path)
    local = Path(local_path(path))
    if not local.exists():
        return local
    if not local.is_dir():
        raise RmqIndexError(f"{local}: expected an index directory or a store to write to, a file")
    folders = {entry.name for entry in local.iterdir() if entry.is_dir()}
    if INDEX_FOLDER not in folders and folders.intersection(_MESSAGE_FOLDERS):
        return local / INDEX_FOLDER
    return Path(resolve(local, to_write=True).path)


def _remote_directory(path: str) -> str:
    scheme = path.partition("://")[0].lower()
    if scheme not in SCHEMES:
        raise ValueError(
            f"option 'path': expected a local directory or one on S3 to write to, got {path!r}"
        )
    if not exists(path):
        return path
    folders = {entry.name for entry in entries_or_none(path) if entry.is_directory}
    if INDEX_FOLDER not in folders and folders.intersection(_MESSAGE_FOLDERS):
        return child_uri(path, INDEX_FOLDER)
    resolved = resolve(path, to_write=True)
    if resolved.is_file:
        raise RmqIndexError(f"{path}: expected an index directory or a store to write to, a file")
    return resolved.path


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A file that is there.

    Attributes:
        name: Its name.
        path: Where its bytes are.
        header: Its header.
    """

    name: str
    path: Path | str
    header: IndexHeader


@dataclass(frozen=True, slots=True)
class IndexState:
    """What an index directory holds at one moment.

    Attributes:
        files: The files, oldest first.
        end: The offset of the last message that is indexed, bytes; None for none.
    """

    files: tuple[IndexedFile, ...] = ()
    end: int | None = None

    @classmethod
    def read(cls, directory: Path | str, layout: Layout) -> IndexState:
        """Read the headers of a directory.

        Raises:
            RmqIndexError: A file of another size than the layout's, or one that cannot be read.
        """
        files = []
        for entry in _entries(directory):
            if entry.size != layout.file_size:
                raise RmqIndexError(
                    f"{entry.path}: file size: expected {layout.file_size} bytes for {layout}, as "
                    f"all files of an index have, got {entry.size}; the options maxHashSlotNum "
                    "and maxIndexNum name another geometry"
                )
            files.append(IndexedFile(entry.name, _place(entry), _header(entry.path)))
        ends = [
            file.header.end_phy_offset
            for file in files
            if file.header.entry_count or file.header.end_timestamp > 0
        ]
        return cls(tuple(files), max(ends, default=None))

    @classmethod
    def of_last(cls, entry: FileEntry) -> IndexState:
        """Read the newest file alone, for a directory of which it is known that all ends there."""
        file = IndexedFile(entry.name, _place(entry), _header(entry.path))
        return cls((file,), file.header.end_phy_offset)

    @property
    def last(self) -> IndexedFile | None:
        """The newest file, into which a broker would write."""
        return self.files[-1] if self.files else None

    def precedes(self, phy_offset: int) -> bool:
        """Tell whether an offset lies at or after the end of what is indexed."""
        return self.end is None or phy_offset >= self.end

    def hashes_at_end(self, layout: Layout) -> NDArray[np.int32]:
        """Return the key hashes of the entries at :attr:`end`.

        Raises:
            CorruptIndexError: An entry there is malformed.
        """
        found = [np.empty(0, np.int32)]
        for file in self.files:
            if not file.header.entry_count or file.header.end_phy_offset != self.end:
                continue
            with IndexFile(file.path, layout) as index_file:
                found += _tail_at(index_file, file.header.end_phy_offset)
        return np.concatenate(found)


def _tail_at(index_file: IndexFile, phy_offset: int) -> list[NDArray[np.int32]]:
    """Return the hashes of the last entries of a file, as far back as they have one offset."""
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
class WriteJob:
    """One write from its planning to its commit; picklable.

    Attributes:
        options: The options.
        overwrite: Whether what is there is replaced.
        layout: The geometry of the new files.
        end: The offset up to which the directory was indexed at planning; None for an overwrite.
        staging: Where its files wait.
    """

    options: WriteOptions
    overwrite: bool
    layout: Layout
    end: int | None
    staging: Staging | RemoteStaging

    @classmethod
    def start(cls, options: WriteOptions, *, overwrite: bool, owner: Owner) -> WriteJob:
        """Check everything that can be checked before the first row, and make the staging.

        Raises:
            RmqIndexError: A broker holds the store, the geometry is unknown or another one, or
                something is to be overwritten that is no index.
        """
        directory = options.directory
        if isinstance(directory, Path):
            if not options.allow_live_store:
                ensure_not_live(directory)
            if options.checkpoint:
                ensure_coverable(directory)
        entries = _entries(directory)
        if overwrite:
            _check_replaceable(entries, options.layout)
        layout = find_layout(entries, options.layout, check=not overwrite)
        end = None if overwrite else IndexState.read(directory, layout).end
        staging: Staging | RemoteStaging
        if isinstance(directory, Path):
            staging = Staging.create(directory, owner)
        else:
            staging = RemoteStaging.create(directory, owner)
        return cls(options, overwrite, layout, end, staging)

    @property
    def accepts_indexed(self) -> bool:
        """Whether rows that lie before the end of what is indexed are written all the same."""
        options = self.options
        return (
            options.allow_overlap
            and options.on_indexed == "error"
            and not options.broker_redispatch
        )

    def already_indexed(self, end: int, phy_offset: int) -> ValueError:
        """Return the error for a row that is indexed already."""
        return ValueError(
            f"phy_offset {phy_offset}: expected rows after {end}, up to which "
            f"{self.staging.directory} is indexed; the option onIndexed=skip leaves out what is "
            "indexed already"
        )

    def state(self) -> IndexState:
        """Read what is indexed now; for an overwrite, nothing.

        Raises:
            RmqIndexError: A file of another geometry.
        """
        if self.overwrite:
            return IndexState()
        return IndexState.read(self.staging.directory, self.layout)

    def names_there(self) -> list[str]:
        """Return the names of the IndexFiles that are there, oldest first.

        Raises:
            RmqIndexError: Something is to be overwritten that is no index.
        """
        entries = _entries(self.staging.directory)
        if self.overwrite:
            _check_replaceable(entries, self.options.layout)
        return [entry.name for entry in entries]


def _entries(directory: Path | str) -> list[FileEntry]:
    return list_index_files(directory) if exists(directory) else []


def _place(entry: FileEntry) -> Path | str:
    return entry.path if is_remote(entry.path) else Path(entry.path)


def _header(path: str) -> IndexHeader:
    """Read a header as the last finished commit left it."""
    with open_index_source(path) as source:
        return IndexHeader.from_bytes(source.header())


def find_layout(entries: list[FileEntry], asked: Layout | None, *, check: bool) -> Layout:
    """Return the geometry asked for, else that of the newest entries, else RocketMQ's default.

    Args:
        entries: The files that are there.
        asked: What the options say.
        check: Whether what the options say must agree with the files.
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


def _check_replaceable(entries: list[FileEntry], layout: Layout | None) -> None:
    """Refuse to overwrite numeric names that are no IndexFiles, such as a broker's CommitLog."""
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
