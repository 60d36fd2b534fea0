"""Stores: names the store of a file, and checks that all rows of a write come from one store.

Offsets into the CommitLogs of two brokers are unrelated, so rows carry their store in the column
``store``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.compute as pc

from pyspark_rmqindex.options import AUTO
from rmqindex import RmqIndexError
from rmqindex.commitlog import LogSnapshot, several_logs
from rmqindex.keys import bytes_at, not_utf8
from rmqindex.layout import (
    BATCH_FOLDER,
    DLEDGER_PREFIX,
    FILE_NAME_DIGITS,
    INDEX_FOLDER,
    MULTI_PATH_SPLITTER,
    QUEUE_FOLDER,
    STORE_FOLDERS,
)
from rmqindex.store import ensure_no_store_is_missed, expand, has_pattern, log_in, root_of
from rmqindex.transaction import directory_entries, exists

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from pyspark_rmqindex.files.slices import FileSlice
    from rmqindex.storage import Location
    from rmqindex.store import Hit


def absolute_log(path: Location) -> Location:
    """Return the path of a log as an absolute one, for tasks in other working directories."""
    parts = [part.absolute for part in several_logs(path)]
    return path.storage.at(MULTI_PATH_SPLITTER.join(parts))


def find_log(file_path: Location, commit_log: str) -> Location | None:
    """Return where the messages of an IndexFile are, by the option ``commitLog``.

    Of a listed file the store's root is known, so that no store is resolved for it.

    Returns:
        A path that ``CommitLog`` accepts; None if ``auto`` finds no log.
    """
    if commit_log != AUTO:
        return absolute_log(file_path.storage.at(commit_log))
    directory = file_path.parent
    return log_in(directory.parent) if directory.name == INDEX_FOLDER else None


_LOG_FILE = re.compile(rf"[0-9]{{{FILE_NAME_DIGITS}}}")
# Folders of a store root (MessageStoreConfig); a directory with any of them is taken for one.
_ROOT_FOLDERS = STORE_FOLDERS | {INDEX_FOLDER}


def store_of(file_path: Location) -> str:
    """Return the store of an IndexFile or a CommitLog file, as in the column ``store``.

    It depends on the text of the path alone, so that tasks need no I/O.

    Returns:
        If the file's directory is called ``index`` or ``commitlog``, as in every store root
        (RocketMQ: ``StorePathConfigHelper``), the parent of that directory; if it is
        ``dledger-*/data``, the store that this is in; else the file's directory itself.
        The query of a URI is kept, so that the store can be loaded by this name.
    """
    return str(root_of(file_path.parent))


def store_of_queue(file_path: Location) -> str:
    """Return the store of a ConsumeQueue file, by its path as :func:`store_of`.

    Returns:
        If the file is in a queue of a topic in a folder ``consumequeue`` or ``batchconsumequeue``,
        the parent of that folder; else the file's directory.
    """
    folder = file_path.parent.parent.parent
    is_whole = folder.name in (QUEUE_FOLDER, BATCH_FOLDER)
    return str(folder.parent if is_whole else file_path.parent)


class StoreLog(NamedTuple):
    """The CommitLog of one store.

    Attributes:
        store: The store, as :func:`store_of` names it.
        paths: The paths of its files, as ``CommitLog`` accepts them.
    """

    store: str
    paths: tuple[Location, ...]


def logs_of(paths: Sequence[Location]) -> list[StoreLog]:
    """Return the CommitLogs of some paths, one for each store.

    Returns:
        The logs, in the order of their first paths; their files are not opened.
    """
    found: dict[str, list[Location]] = {}
    for path in paths:
        for one in _log_paths(path):
            places = found.setdefault(store_of_log(one), [])
            if one not in places:
                places.append(one)
    return [StoreLog(store, tuple(places)) for store, places in found.items()]


def store_of_log(path: Location) -> str:
    """Return the store of a CommitLog, by its path or the first of several, as :func:`store_of`."""
    first = several_logs(path)[0]
    return str(root_of(first.parent if _LOG_FILE.fullmatch(first.name) else first))


def _log_paths(path: Location) -> Iterator[Location]:
    if not has_pattern(path) or exists(path):
        yield absolute_log(path)
        return
    # In a pattern, commas belong to its braces.
    whole = path.absolute
    hits = [hit.path for hit in expand(whole) if _may_hold_log(hit)]
    if not hits:
        raise RmqIndexError(f"{whole}: no store and no log file fits the pattern")
    yield from hits


def _may_hold_log(hit: Hit) -> bool:
    """Return whether a match of a pattern is a log, or a store that should have one."""
    if hit.entry is not None and not hit.entry.is_directory:
        return _LOG_FILE.fullmatch(hit.path.name) is not None
    if hit.entry is None and _LOG_FILE.fullmatch(hit.path.name):
        return True
    entries = directory_entries(hit.path)
    if any(
        entry.name in _ROOT_FOLDERS or entry.name.startswith(DLEDGER_PREFIX)
        if entry.is_directory
        else _LOG_FILE.fullmatch(entry.name)
        for entry in entries
    ):
        return True
    ensure_no_store_is_missed(hit.path, entries, "log files, or a store with a folder commitlog")
    return False


class StoreCheck:
    """Checks that all rows of a task come from one store, if they have a column ``store``.

    Attributes:
        store: The store of the rows so far; None if no row names one.
    """

    def __init__(self, column: int | None) -> None:
        """Start without rows."""
        self._column = column
        self.store: str | None = None

    def see(self, batch: pa.RecordBatch) -> None:
        """Check a batch of rows; NULL names no store."""
        if self._column is None or not batch.num_rows:
            return
        distinct = pc.unique(batch.column(self._column))
        strange = not_utf8(distinct)
        if strange is not None:
            name = bytes_at(distinct, int(strange.argmax()))
            raise ValueError(f"column 'store': expected UTF-8, got {name!r}")
        found = distinct.to_pylist()
        self.store = check_one_store([self.store, *found])


def check_one_store(stores: Iterable[str | None]) -> str | None:
    """Return the one store in ``stores``, ignoring None."""
    named = sorted({store for store in stores if store is not None})
    if len(named) > 1:
        raise ValueError(
            f"column 'store': expected the rows of one store, got those of {named[0]!r} and "
            f"{named[1]!r}. Their offsets are of different CommitLogs, and one index can hold "
            "those of one; write each store's rows into an index of its own, "
            "df.where(\"store = '..'\"), or drop the column if all are one broker's: "
            "df.drop('store')"
        )
    return named[0] if named else None


def with_logs(files: Sequence[FileSlice], commit_log: str) -> list[FileSlice]:
    """Add to each file its CommitLog, with what a task recognises that log by."""
    if commit_log != AUTO and files:
        _check_one_log(files, absolute_log(files[0].name_path.storage.at(commit_log)))
    logs: dict[Location, Location | None] = {}
    folders = [file_slice.name_path.parent for file_slice in files]
    for file_slice, folder in zip(files, folders, strict=True):
        if folder not in logs:
            logs[folder] = find_log(file_slice.name_path, commit_log)
    planned: dict[Location | None, LogSnapshot | None] = {
        log: None if log is None else LogSnapshot.of(log) for log in dict.fromkeys(logs.values())
    }
    return [
        replace(file_slice, commit_log=planned[logs[folder]])
        for file_slice, folder in zip(files, folders, strict=True)
    ]


def _check_one_log(files: Sequence[FileSlice], log: Location) -> None:
    """Raise if one log is given for several stores of which any has a log of its own."""
    stores = {store_of(file_slice.name_path): file_slice.name_path for file_slice in files}
    if len(stores) < 2:
        return
    for store, name_path in stores.items():
        own = find_log(name_path, AUTO)
        if own is not None and store != store_of_log(log):
            raise ValueError(
                f"option 'commitLog': expected 'auto' for several stores, by which each has its "
                f"own, got {log}, but {store} has {own}"
            )
