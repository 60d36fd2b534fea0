"""Finds the CommitLog of an index: given by the caller, or beside the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.commitlog.log import CommitLog
from rmqindex.fileset.paths import lacks_index, resolve
from rmqindex.folders import COMMITLOG_FOLDER
from rmqindex.storage.location import Location
from rmqindex.store.dledger import dledger_data
from rmqindex.transaction.directories import exists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.logfile.files import LogFile
    from rmqindex.storage.location import PathLike

__all__ = ["beside_index", "commit_log_of", "sibling_log"]


def sibling_log(path: PathLike) -> Location | None:
    """Return where the CommitLog beside the ``index`` of a path is, None where there is none.

    It is the folder ``commitlog``, or the store root if the log, or its newer part, is in DLedger.

    Raises:
        RmqIndexError: The path is not there, or several DLedger brokers share the store.
    """
    log = beside_index(path, COMMITLOG_FOLDER)
    store = log.parent
    if dledger_data(store) is not None:
        return store
    return log if exists(log) else None


def beside_index(path: PathLike, name: str) -> Location:
    """Return where a folder beside the ``index`` of a path would be, whether or not it exists.

    Args:
        path: An IndexFile, an index directory, or a store root.
        name: The folder's name.

    Raises:
        RmqIndexError: The path is not there.
    """
    store = Location.of(path) if lacks_index(path) else resolve(path).directory.parent
    return store.child(name)


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
