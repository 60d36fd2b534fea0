"""Stores: which one a file is of, and that the rows of one write are of one only.

The offsets of two brokers' CommitLogs have nothing to do with each other.
So rows say where they are from in the column ``store``.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.compute as pc

from pyspark_rmqindex.files.logs import absolute_log, folder_of, last_name
from rmqindex import RmqIndexError
from rmqindex.folders import (
    COMMITLOG_FOLDER,
    DLEDGER_PREFIX,
    INDEX_FOLDER,
    MULTI_PATH_SPLITTER,
    STORE_FOLDERS,
)
from rmqindex.keys import bytes_at, not_utf8
from rmqindex.record_layout import FILE_NAME_DIGITS
from rmqindex.storage import is_remote, local_path
from rmqindex.store import expand, has_pattern
from rmqindex.transaction import entries_or_none, exists

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

__all__ = ["StoreCheck", "StoreLog", "check_one_store", "logs_of", "store_of", "store_of_log"]

_FOLDERS = frozenset({INDEX_FOLDER, COMMITLOG_FOLDER})
_LOG_FILE = re.compile(rf"[0-9]{{{FILE_NAME_DIGITS}}}")
_ROOT = "/"
# Folders of a store root (MessageStoreConfig), of which one at least tells that a directory is one.
_ROOT_FOLDERS = STORE_FOLDERS | {INDEX_FOLDER}


def store_of(file_path: str) -> str:
    """Return the store of an IndexFile or a CommitLog file: what the column ``store`` holds.

    This is decided by the text alone, so that a task need look at nothing.

    Args:
        file_path: The file as listed: an absolute local path, or a URI.

    Returns:
        The directory that holds the file's directory, where this is called ``index`` or
        ``commitlog``, as in every store root (RocketMQ: ``StorePathConfigHelper``); else the
        file's directory itself.
        The query of a URI is kept, so that the store can be loaded by it.
    """
    return _root_of(folder_of(file_path))


class StoreLog(NamedTuple):
    """The CommitLog of one store.

    Attributes:
        store: The store, as :func:`store_of` names it.
        paths: Where its files are, as ``CommitLog`` takes them.
    """

    store: str
    paths: tuple[str, ...]


def logs_of(paths: Sequence[str]) -> list[StoreLog]:
    """Find out which CommitLogs some paths stand for, one for each store.

    Args:
        paths: As users give them: store roots, directories of log files, log files, several of one
            log with commas between, or patterns.

    Returns:
        The logs, in the order of their first paths; their files are not looked at.

    Raises:
        RmqIndexError: Nothing fits a pattern.
    """
    found: dict[str, list[str]] = {}
    for path in paths:
        for one in _log_paths(path):
            places = found.setdefault(store_of_log(one), [])
            if one not in places:
                places.append(one)
    return [StoreLog(store, tuple(places)) for store, places in found.items()]


def store_of_log(path: str) -> str:
    """Return the store of a CommitLog.

    Args:
        path: Its store's root, its directory or one of its files, an absolute local path or a URI;
            of several with commas between, the first one counts.
    """
    first = path
    if MULTI_PATH_SPLITTER in path and not exists(path):
        first = path.partition(MULTI_PATH_SPLITTER)[0].strip()
    return _root_of(folder_of(first) if _LOG_FILE.fullmatch(last_name(first)) else first)


def _log_paths(path: str) -> Iterator[str]:
    if not has_pattern(path) or exists(path):
        yield absolute_log(path)
        return
    # A comma in a pattern is that of its braces.
    whole = path if is_remote(path) else os.path.abspath(local_path(path))  # noqa: PTH100
    hits = [hit.path for hit in expand(whole) if _may_hold_log(hit.path)]
    if not hits:
        raise RmqIndexError(f"{whole}: no store and no log file fits the pattern")
    yield from hits


def _may_hold_log(path: str) -> bool:
    """Tell whether what fits a pattern is a log, or a store that should have one."""
    if _LOG_FILE.fullmatch(last_name(path)):
        return True
    return any(
        entry.name in _ROOT_FOLDERS or entry.name.startswith(DLEDGER_PREFIX)
        if entry.is_directory
        else _LOG_FILE.fullmatch(entry.name)
        for entry in entries_or_none(path)
    )


def _root_of(directory: str) -> str:
    root = folder_of(directory) if last_name(directory) in _FOLDERS else directory
    return root or _ROOT


class StoreCheck:
    """Sees to it that the rows of one task are of one store, where they have a column of it.

    Attributes:
        store: The store of the rows so far; None where none named one.
    """

    def __init__(self, column: int | None) -> None:
        """Begin without rows.

        Args:
            column: The place of the column ``store``; None where there is none.
        """
        self._column = column
        self.store: str | None = None

    def see(self, batch: pa.RecordBatch) -> None:
        """Look at rows; NULL names no store.

        Raises:
            ValueError: They are of another store than those before, or of several; or of one whose
                name is not UTF-8.
        """
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
    """Return the only store among some; None names none.

    Raises:
        ValueError: There are several.
    """
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
