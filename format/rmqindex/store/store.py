"""Resolves paths of IndexFiles, index directories and store roots (spec: file names).

The broker reads the files of ``<store root>/index`` in the order of their paths, and only those
whose name ``Long.parseLong`` accepts (RocketMQ: ``IndexService.load``, ``DefaultMappedFile``,
``StorePathConfigHelper``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import translate
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.fs as pafs

from rmqindex.errors import RmqIndexError, command_line
from rmqindex.layout.dledger import DATA_FOLDER
from rmqindex.layout.store import (
    COMMITLOG_FOLDER,
    DLEDGER_PREFIX,
    INDEX_FOLDER,
    ROCKSDB_STORE_FOLDER,
    STORE_FOLDERS,
)
from rmqindex.storage.disk import refuse_lost_link
from rmqindex.storage.filesystem import status_of
from rmqindex.storage.location import Location
from rmqindex.store.contents import (
    refuse_database,
    refuse_other_file,
    refuse_rocksdb_index,
    refuse_tiered_folder,
    rocksdb_index,
)
from rmqindex.store.dledger import dledger_data
from rmqindex.store.names import broker_order, is_index_name
from rmqindex.store.surroundings import ensure_may_be_empty
from rmqindex.transaction.directories import (
    FileEntry,
    directory_entries,
    entries_or_none,
    exists,
    kind_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    from rmqindex.indexfile.entries import Mode
    from rmqindex.storage.location import PathLike
    from rmqindex.transaction.directories import Lister


_EXPECTED = "IndexFiles, or a store with a folder index"


@dataclass(frozen=True, slots=True)
class Store:
    """A store, by a path of its index that was resolved once.

    Attributes:
        given: The path that the user gave.
        root: The store root; of an index outside a store, the directory above it.
        index: The index directory; absent where ``has_index`` is false.
        file: The IndexFile, where the path is that of one.
        has_index: Whether there is an index directory, or a file of one.
    """

    given: Location
    root: Location
    index: Location
    file: Location | None = None
    has_index: bool = True
    # What the root holds, where it was listed.
    _entries: tuple[FileEntry, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def open(
        cls,
        path: PathLike | Store,
        *,
        needs_index: bool = True,
        to_write: bool = False,
        allow_empty: bool = False,
        listed: Lister = directory_entries,
    ) -> Store:
        """Resolve a path.

        Args:
            path: An IndexFile, an index directory, or a store root that has ``index/``; local, a
                ``file:`` URI, or another URI that ``pyarrow.fs`` knows. A store stays what it is.
            needs_index: Whether to refuse a store root without the folder ``index``.
            to_write: Whether to accept a store whose index is in RocksDB alone, since IndexFiles
                are to be written to it, and any directory without IndexFiles.
            allow_empty: Whether to accept an empty directory also where no store is around it.
            listed: Lists a directory; for a caller that lists the same ones.

        Raises:
            RmqIndexError: The path is absent, the store's index is not in IndexFiles, or the path
                is a CommitLog, a ConsumeQueue, a database, or a directory that is none of these,
                such as the empty one of a disk that is not mounted.
        """
        if isinstance(path, Store):
            if path.has_index or not needs_index:
                return path
            path = path.given
        location = Location.of(path)
        kind = kind_of(location)
        if kind == pafs.FileType.File:
            refuse_other_file(location, location, location.parent)
            local = location.local
            index = location.parent if local is None else location.storage.at(local.parent)
            return cls(location, index.parent, index, location)
        if kind != pafs.FileType.Directory:
            raise RmqIndexError(f"{location}: no such file or directory")
        entries = listed(location)
        for entry in entries:
            if entry.name == INDEX_FOLDER and not entry.is_directory and entry.path.local:
                refuse_lost_link(entry.path.local)
        if not needs_index and _lacks_index(entries):
            refuse_rocksdb_index(location)
            index = location.child(INDEX_FOLDER)
            return cls(location, location, index, has_index=False, _entries=tuple(entries))
        index = _index_of(
            location,
            entries,
            to_write=to_write,
            allow_empty=allow_empty or to_write,
            listed=listed,
        )
        if index == location.child(INDEX_FOLDER):
            return cls(location, location, index, _entries=tuple(entries))
        return cls(location, index.parent, index)

    @property
    def path(self) -> Location:
        """The IndexFile or the index directory."""
        return self.index if self.file is None else self.file

    def directory(self) -> Location:
        """Return the index directory.

        Raises:
            RmqIndexError: The path is that of one file.
        """
        if self.file is not None:
            raise RmqIndexError(
                f"{self.given}: expected an index directory or a store root, got a file"
            )
        return self.index

    def log(self) -> Location | None:
        """Return where the CommitLog beside the index is, None where there is none.

        It is the folder ``commitlog``, or the store root if the log, or its newer part, is in
        DLedger.

        Raises:
            RmqIndexError: As :func:`log_in`.
        """
        return log_in(self.index.parent if self.has_index else self.given, self._entries)

    @property
    def rocksdb_index(self) -> Location | None:
        """A file that proves that the store has an index in RocksDB as well."""
        return rocksdb_index(self.root)

    @property
    def has_rocksdb_store(self) -> bool:
        """Whether a broker from 5.4.0 on opened the store, which always makes this folder."""
        return exists(self.root.child(ROCKSDB_STORE_FOLDER))


def log_in(root: Location, entries: Sequence[FileEntry] = ()) -> Location | None:
    """Return where the CommitLog of a store root is, as :meth:`rmqindex.store.Store.log`.

    It stays beside that method for readers that know the root by its text alone.

    Args:
        root: The store root.
        entries: Its entries, where it was listed.

    Raises:
        RmqIndexError: Several DLedger brokers share the store, or the folder is a link to what is
            not there.
    """
    entries = entries or entries_or_none(root)

    def listed(directory: Location) -> Sequence[FileEntry]:
        return entries if directory == root else entries_or_none(directory)

    if dledger_data(root, listed) is not None:
        return root
    log = root.child(COMMITLOG_FOLDER)
    is_listed = any(each.is_directory and each.name == COMMITLOG_FOLDER for each in entries)
    if is_listed or exists(log):
        return log
    if log.local is not None:
        refuse_lost_link(log.local)
    return None


def _lacks_index(entries: Sequence[FileEntry]) -> bool:
    """Return whether a directory is a store root without the folder ``index``."""
    folders = {entry.name for entry in entries if entry.is_directory}
    return (
        INDEX_FOLDER not in folders
        and _has_store_folder(folders)
        and not any(is_index_name(entry.name) for entry in entries)
    )


def _index_of(
    path: Location,
    entries: Sequence[FileEntry],
    *,
    to_write: bool,
    allow_empty: bool,
    listed: Lister,
) -> Location:
    """Return the index directory of a directory."""
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
            return _index_of(
                index, listed(index), to_write=to_write, allow_empty=allow_empty, listed=listed
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
    """Return the IndexFiles of a path, oldest first, for callers that need no header.

    Raises:
        RmqIndexError: As :meth:`rmqindex.store.Store.open` and :func:`list_index_files`.
    """
    store = Store.open(path)
    if store.file is None:
        return list_index_files(store.index)
    return [FileEntry(store.file, store.file.name, status_of(store.file).size)]


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
    """Return all entries with a numeric name, directories too, in the broker's order."""
    found = directory_entries(directory) if listed is None else listed(directory)
    entries = [entry for entry in found if is_index_name(entry.name)]
    return sorted(entries, key=broker_order)


_FOLDERS = frozenset({INDEX_FOLDER, COMMITLOG_FOLDER})


def root_of(directory: Location) -> Location:
    """Return the store root that a directory of IndexFiles or of a log is in.

    It depends on the text of the path alone (RocketMQ: ``StorePathConfigHelper``), and costs no
    I/O: a :class:`rmqindex.store.Store` is resolved on the disk, which the tasks of a query cannot
    afford, and a log need not have an index beside it.

    Returns:
        The parent of ``index``, ``commitlog`` and ``dledger-*``; of ``dledger-*/data`` the parent
        of the first; of any other directory, the directory itself, which may be a root.
    """
    absolute = directory.absolute
    name, above = absolute.name, absolute.parent
    if name == DATA_FOLDER and above.name.startswith(DLEDGER_PREFIX):
        return above.parent
    return above if name in _FOLDERS or name.startswith(DLEDGER_PREFIX) else directory


_PATTERN = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")
# What every ext file system has in its root, and nobody else may list.
_LOST_FOUND = "lost+found"
# The most alternatives, which each pair of braces multiplies.
_MOST_ALTERNATIVES = 1000


class Hit(NamedTuple):
    """A path that matches a pattern, with its ``entry`` if it was listed."""

    path: Location
    entry: FileEntry | None = None


def has_pattern(path: Location) -> bool:
    """Return whether a path is a pattern: whether it has ``*``, ``?``, ``[`` or ``{``.

    The query of a URI is no part of it.
    """
    return _PATTERN.search(path.base) is not None


def expand(path: Location) -> Iterator[Hit]:
    """Expand a pattern, in the order of names.

    Args:
        path: An absolute path or a URI.

    Yields:
        The matching paths; hidden names only where the pattern's own part begins as they do, and
        never the ``lost+found`` of a file system.

    Raises:
        ValueError: As :func:`matcher`.
    """
    root, names = path.steps()
    found = [Hit(root)]
    for name in names:
        if not _PATTERN.search(name):
            found = [Hit(each.path.step(name)) for each in found]
            continue
        fits = matcher(name)
        found = [
            Hit(each.path.child(entry.name), entry)
            for each in found
            for entry in sorted(entries_or_none(each.path), key=broker_order)
            if fits(entry.name)
            and (name.startswith((".", "_")) or not is_hidden(entry.name))
            and entry.name != _LOST_FOUND
        ]
    yield from (each for each in found if each.entry is not None or exists(each.path))


def matcher(pattern: str) -> Callable[[str], object]:
    """Compile a Hadoop glob: ``*``, ``?``, ``[abc]``, ``[^abc]`` and ``{a,b}``.

    Raises:
        ValueError: Braces stand for more than a thousand alternatives.
    """
    alternatives = [translate(each.replace("[^", "[!")) for each in _braces(pattern)]
    return re.compile("|".join(alternatives)).match


def is_hidden(name: str) -> bool:
    """Return whether Spark's sources skip a name."""
    return name.startswith((".", "_"))


def _braces(pattern: str) -> list[str]:
    """Expand the alternatives in braces."""
    written = [pattern]
    # Parts have no nested braces, so all are expanded after the same number of rounds.
    while (match := _BRACES.search(written[0])) is not None:
        if len(written) * (match[1].count(",") + 1) > _MOST_ALTERNATIVES:
            raise ValueError(
                f"pattern: expected braces with at most {_MOST_ALTERNATIVES} alternatives in all, "
                f"got more: {pattern}"
            )
        written = [part for each in written for part in _first_braces(each)]
    return written


def _first_braces(pattern: str) -> list[str]:
    match = _BRACES.search(pattern)
    assert match is not None, "each alternative has as many braces as the others"
    before, after = pattern[: match.start()], pattern[match.end() :]
    return [f"{before}{part}{after}" for part in match[1].split(",")]
