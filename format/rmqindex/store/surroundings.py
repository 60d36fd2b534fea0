"""Tells a folder that a store has and has not filled yet from one that is empty by mistake.

An empty folder may be a broker's new one, or a disk that is not mounted. So ``index``,
``commitlog`` and ``consumequeue`` count as empty only if the rest of a store is around them, or if
this package wrote into them.

RocketMQ: ``StorePathConfigHelper``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.errors import RmqIndexError
from rmqindex.layout.store import (
    ABORT_NAME,
    CHECKPOINT_NAME,
    DLEDGER_PREFIX,
    INDEX_FOLDER,
    LOCK_NAME,
    ROCKSDB_STORE_FOLDER,
    STORE_FOLDERS,
)
from rmqindex.transaction.directories import entries_or_none, exists
from rmqindex.transaction.journal import root_name, staging_root

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from rmqindex.storage.location import Location
    from rmqindex.transaction.directories import FileEntry

_FILES = frozenset({CHECKPOINT_NAME, ABORT_NAME, LOCK_NAME})
_FOLDERS = STORE_FOLDERS | {INDEX_FOLDER, ROCKSDB_STORE_FOLDER}
# Folders that are looked into for the error.
_MOST_ASKED = 16


def _is_store_root(entries: Iterable[FileEntry], besides: Container[str] = ()) -> bool:
    """Return whether a directory has what a broker keeps in a store root."""
    return any(
        entry.name in _FOLDERS or entry.name.startswith(DLEDGER_PREFIX)
        if entry.is_directory
        else entry.name in _FILES
        for entry in entries
        if entry.name not in besides
    )


def ensure_may_be_empty(
    path: Location,
    folders: Mapping[str, Location],
    entries: Sequence[FileEntry],
    expected: str,
) -> None:
    """Refuse folders without files unless a store, or this package, has yet to fill them."""
    if any(map(_was_written, folders.values())):
        return
    places = [folder.absolute for folder in folders.values()]
    around = entries_or_none(places[0].parent)
    if [place.name for place in places] != [*folders] or not _is_store_root(around, folders):
        alone = [entry.name for entry in entries]
        if len(alone) == 1 and alone[0] in folders:
            raise RmqIndexError(
                f"{path}: expected {expected}, got an empty {alone[0]}/ alone; if it is where a "
                "disk belongs, is the disk mounted?"
            )
        raise empty_error(path, entries, expected)


def ensure_no_store_is_missed(path: Location, entries: Sequence[FileEntry], expected: str) -> None:
    """Refuse a directory without files of a log that a pattern would pass over in silence.

    One that is empty may be a disk that is not mounted, and a store may lie one folder deeper.
    What lies in a store root itself is that store's.
    """
    if entries and not any(map(_has_store, _folders(entries)[:_MOST_ASKED])):
        return
    if not _is_store_root(entries_or_none(path.absolute.parent)):
        raise empty_error(path, entries, expected)


def _folders(entries: Iterable[FileEntry]) -> list[Location]:
    return sorted(
        entry.path
        for entry in entries
        if entry.is_directory and not entry.name.startswith(DLEDGER_PREFIX)
    )


def _has_store(folder: Location) -> bool:
    return _is_store_root(entries_or_none(folder))


def _was_written(directory: Location) -> bool:
    """Return whether this package wrote into an index directory, be it one without files."""
    local = directory.local
    if local is not None:
        return staging_root(local).exists()
    return exists(directory.parent.child(root_name(directory.name)))


def empty_error(path: Location, entries: Sequence[FileEntry], expected: str) -> RmqIndexError:
    """Return the error of a directory that has nothing to read, by its name and what it holds."""
    if not entries:
        got = "an empty directory; if it is where a disk belongs, is the disk mounted?"
    else:
        got = "a directory with neither"
        store = next(filter(_has_store, _folders(entries)[:_MOST_ASKED]), None)
        if store is not None:
            got += f". Give one of the stores in it, such as {store}"
    return RmqIndexError(f"{path}: expected {expected}, got {got}")
