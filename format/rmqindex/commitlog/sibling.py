"""Finds the CommitLog of an index: given by the caller, or beside the index."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqindex.commitlog.log import CommitLog
from rmqindex.folders import COMMITLOG_FOLDER
from rmqindex.storage.location import Location
from rmqindex.store.dledger import dledger_data
from rmqindex.store.store import lacks_index, resolve
from rmqindex.transaction.directories import entries_or_none, exists, list_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.logfile.files import LogFile
    from rmqindex.storage.location import PathLike
    from rmqindex.transaction.directories import Lister

__all__ = ["beside_index", "commit_log_of", "sibling_log"]


def sibling_log(path: PathLike) -> Location | None:
    """Return where the CommitLog beside the ``index`` of a path is, None where there is none.

    It is the folder ``commitlog``, or the store root if the log, or its newer part, is in DLedger.

    Raises:
        RmqIndexError: The path is not there, or several DLedger brokers share the store.
    """
    listed = list_once()
    log = beside_index(path, COMMITLOG_FOLDER, listed)
    store = log.parent
    if dledger_data(store, partial(entries_or_none, listed=listed)) is not None:
        return store
    return log if exists(log) else None


def beside_index(path: PathLike, name: str, listed: Lister | None = None) -> Location:
    """Return where a folder beside the ``index`` of a path would be, whether or not it exists.

    Args:
        path: An IndexFile, an index directory, or a store root.
        name: The folder's name.
        listed: Lists a directory; for a caller that lists the same ones.

    Raises:
        RmqIndexError: The path is not there.
    """
    listed = listed or list_once()
    if lacks_index(path, listed):
        return Location.of(path).child(name)
    return resolve(path, listed=listed).directory.parent.child(name)


def commit_log_of(
    path: PathLike, commit_log: CommitLog | PathLike | Sequence[PathLike | LogFile] | None
) -> CommitLog | None:
    """Return the CommitLog that an argument means.

    Args:
        path: The path of the index.
        commit_log: As :func:`verify` takes it.
    """
    if commit_log is None or isinstance(commit_log, CommitLog):
        return commit_log
    if isinstance(commit_log, str) and commit_log == "auto":
        found = sibling_log(path)
        return None if found is None else CommitLog(found)
    return CommitLog(commit_log)
