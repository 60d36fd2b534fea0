"""Resolves paths of IndexFiles, index directories and store roots (spec: file names).

The broker reads the files of ``<store root>/index`` in the order of their paths, and only those
whose name ``Long.parseLong`` accepts (RocketMQ: ``IndexService.load``, ``DefaultMappedFile``,
``StorePathConfigHelper``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from rmqindex.command_line import command_line
from rmqindex.dledger_layout import DATA_FOLDER
from rmqindex.errors import RmqIndexError
from rmqindex.folders import (
    COMMITLOG_FOLDER,
    DLEDGER_PREFIX,
    INDEX_FOLDER,
    ROCKSDB_STORE_FOLDER,
    STORE_FOLDERS,
)
from rmqindex.storage.filesystem import status_of
from rmqindex.storage.location import Location
from rmqindex.store.contents import (
    refuse_database,
    refuse_other_file,
    refuse_rocksdb_index,
    refuse_tiered_folder,
)
from rmqindex.store.dledger import dledger_data
from rmqindex.store.names import broker_order, is_index_name
from rmqindex.store.surroundings import ensure_may_be_empty
from rmqindex.transaction.directories import (
    FileEntry,
    directory_entries,
    entries_or_none,
    kind_of,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from rmqindex.indexfile.entries import Mode
    from rmqindex.storage.location import PathLike
    from rmqindex.transaction.directories import Lister

__all__ = [
    "ResolvedPath",
    "index_entries",
    "index_files",
    "is_other_kind",
    "lacks_index",
    "list_index_files",
    "rebuild_advice",
    "resolve",
    "root_of",
]

_EXPECTED = "IndexFiles, or a store with a folder index"


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """A user's path, resolved.

    Attributes:
        path: An IndexFile or an index directory.
        is_file: Whether it is a file.
    """

    path: Location
    is_file: bool

    @property
    def directory(self) -> Location:
        """The index directory, relative where the path is."""
        if not self.is_file:
            return self.path
        local = self.path.local
        return self.path.parent if local is None else self.path.storage.at(local.parent)


def resolve(
    path: PathLike,
    *,
    to_write: bool = False,
    allow_empty: bool = False,
    listed: Lister = directory_entries,
) -> ResolvedPath:
    """Resolve a path.

    Args:
        path: An IndexFile, an index directory, or a store root that has ``index/``; local, a
            ``file:`` URI, or another URI that ``pyarrow.fs`` knows.
        to_write: Whether to accept a store whose index is in RocksDB alone, since IndexFiles are to
            be written to it, and any directory without IndexFiles.
        allow_empty: Whether to accept an empty directory also where no store is around it.
        listed: Lists a directory; for a caller that lists the same ones.

    Returns:
        The file or the index directory.

    Raises:
        RmqIndexError: The path is absent, the store's index is not in IndexFiles, or the path is a
            CommitLog, a ConsumeQueue, a database, or a directory that is none of these, such as
            the empty one of a disk that is not mounted.
    """
    location = Location.of(path)
    kind = kind_of(location)
    if kind == pafs.FileType.File:
        refuse_other_file(location, location, location.parent)
        return ResolvedPath(location, is_file=True)
    if kind != pafs.FileType.Directory:
        raise RmqIndexError(f"{location}: no such file or directory")
    directory = _resolve_directory(
        location, to_write=to_write, allow_empty=allow_empty or to_write, listed=listed
    )
    return ResolvedPath(directory, is_file=False)


def lacks_index(path: PathLike, listed: Lister = directory_entries) -> bool:
    """Return whether a path is a store root without the folder ``index``, nor RocksDB's index.

    Args:
        path: The path.
        listed: Lists a directory; for a caller that lists the same ones.

    Raises:
        RmqIndexError: The store's index is in RocksDB.
    """
    location = Location.of(path)
    entries = entries_or_none(location, listed)
    folders = {entry.name for entry in entries if entry.is_directory}
    if INDEX_FOLDER in folders or not _has_store_folder(folders):
        return False
    if any(is_index_name(entry.name) for entry in entries):
        return False
    refuse_rocksdb_index(location)
    return True


def _resolve_directory(
    path: Location, *, to_write: bool, allow_empty: bool, listed: Lister
) -> Location:
    """Return the index directory of a directory."""
    entries = listed(path)
    refuse_database(path, entries)
    numbered = [entry for entry in entries if is_index_name(entry.name)]
    if numbered:
        first = min(numbered, key=lambda entry: entry.name)
        if not first.is_directory:
            refuse_other_file(path, first.path, path)
        return path
    folders = {entry.name: entry.path for entry in entries if entry.is_directory}
    index = folders.get(INDEX_FOLDER)
    if not to_write:
        _refuse_rocksdb_index(path, index, folders)
    if index is not None:
        # DLedger has a folder of this name too, with other files.
        if path.name.startswith(DLEDGER_PREFIX):
            return _resolve_directory(
                index, to_write=to_write, allow_empty=allow_empty, listed=listed
            )
        if not (allow_empty or any(is_index_name(e.name) for e in listed(index))):
            ensure_may_be_empty(path, {INDEX_FOLDER: index}, entries, _EXPECTED)
        return index
    refuse_tiered_folder(path)
    if _has_store_folder(folders):
        raise RmqIndexError(
            f"{path}: expected a store with a folder {INDEX_FOLDER}, found none"
            f"{f'. {how}' if (how := rebuild_advice(path)) else ''}"
        )
    if not allow_empty:
        ensure_may_be_empty(path, {INDEX_FOLDER: path}, entries, _EXPECTED)
    return path


def rebuild_advice(path: Location) -> str:
    """Return what makes the index of a store that has none, if its CommitLog is there."""
    if path.local is None:
        return ""
    # A store that was plain before it had DLedger has both.
    log = dledger_data(path) or path.child(COMMITLOG_FOLDER)
    if log.local is None or not log.local.is_dir() or not any(log.local.iterdir()):
        return ""
    name = log.local.relative_to(path.local)
    return f"{name}/ is there: `{command_line('rebuild', path)}` makes the index from it"


def _has_store_folder(folders: Iterable[str]) -> bool:
    """Return whether a directory without an index is a store, by its folders."""
    return any(name in STORE_FOLDERS or name.startswith(DLEDGER_PREFIX) for name in folders)


def _refuse_rocksdb_index(path: Location, index: Location | None, folders: Container[str]) -> None:
    """Refuse a directory without IndexFiles whose store has its index in RocksDB."""
    if ROCKSDB_STORE_FOLDER in folders:
        if index is None or not any(is_index_name(e.name) for e in directory_entries(index)):
            refuse_rocksdb_index(path)
    elif path.name == INDEX_FOLDER:
        refuse_rocksdb_index(path.parent)


def index_files(path: PathLike) -> list[FileEntry]:
    """Return the IndexFiles of a path, oldest first.

    Raises:
        RmqIndexError: As :func:`resolve` and :func:`list_index_files`.
    """
    resolved = resolve(path)
    if not resolved.is_file:
        return list_index_files(resolved.path)
    return [FileEntry(resolved.path, resolved.path.name, status_of(resolved.path).size)]


def list_index_files(
    directory: PathLike, mode: Mode = "FAILFAST", listed: Lister | None = None
) -> list[FileEntry]:
    """Return the IndexFiles of an index directory in the broker's order, oldest first.

    Names that are not numbers are skipped, as in the broker.

    Args:
        directory: The index directory.
        mode: With ``DROPMALFORMED``, what is no file is skipped as well.
        listed: Lists a directory; for a caller that lists the same ones.

    Raises:
        RmqIndexError: No such directory, or a numeric name that is a directory.
    """
    entries = index_entries(directory, listed)
    if mode == "DROPMALFORMED":
        return [entry for entry in entries if not is_other_kind(entry)]
    for entry in entries:
        if entry.is_directory:
            raise RmqIndexError(f"{entry.path}: expected an IndexFile, got a directory")
    return entries


def is_other_kind(entry: FileEntry) -> bool:
    """Return whether a name is a directory, a pipe or a device; a dangling link is none of them."""
    local = entry.path.local
    if entry.is_directory or local is None:
        return entry.is_directory
    return local.exists() and not local.is_file()


def index_entries(directory: PathLike, listed: Lister | None = None) -> list[FileEntry]:
    """Return all entries with a numeric name, directories too, in the broker's order.

    Args:
        directory: The index directory.
        listed: Lists a directory; for a caller that lists the same ones.

    Raises:
        RmqIndexError: No such directory.
    """
    found = directory_entries(directory) if listed is None else listed(directory)
    entries = [entry for entry in found if is_index_name(entry.name)]
    return sorted(entries, key=broker_order)


_FOLDERS = frozenset({INDEX_FOLDER, COMMITLOG_FOLDER})


def root_of(directory: Location) -> Location:
    """Return the store root that a directory of IndexFiles or of a log is in.

    It depends on the text of the path alone (RocketMQ: ``StorePathConfigHelper``), and costs no
    I/O.

    Returns:
        The parent of ``index``, ``commitlog`` and ``dledger-*``; of ``dledger-*/data`` the parent
        of the first; of any other directory, the directory itself, which may be a root.
    """
    absolute = directory.absolute
    name, above = absolute.name, absolute.parent
    if name == DATA_FOLDER and above.name.startswith(DLEDGER_PREFIX):
        return above.parent
    return above if name in _FOLDERS or name.startswith(DLEDGER_PREFIX) else directory
