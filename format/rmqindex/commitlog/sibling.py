"""Finds the CommitLog of an index: given by the caller, or beside the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.commitlog.log import CommitLog
from rmqindex.folders import COMMITLOG_FOLDER
from rmqindex.store.contents import dledger_data, refuse_dledger_log
from rmqindex.store.paths import resolve
from rmqindex.transaction.directories import exists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.commitlog.files import LogFile
    from rmqindex.storage.location import Location, PathLike

__all__ = ["beside_index", "commit_log_of", "refuse_sibling_dledger", "sibling_log"]


def sibling_log(path: PathLike) -> Location | None:
    """Return the ``commitlog`` beside the ``index`` of a path, if it can be read.

    None where it is missing, or continues in DLedger.

    Raises:
        RmqIndexError: The path is not there.
    """
    log = beside_index(path, COMMITLOG_FOLDER)
    return log if exists(log) and dledger_data(log.parent) is None else None


def refuse_sibling_dledger(path: PathLike) -> None:
    """Refuse an index whose store has its CommitLog in DLedger, where a plain one is needed.

    Raises:
        RmqIndexError: It has, or the path is not there.
    """
    refuse_dledger_log(beside_index(path, COMMITLOG_FOLDER).parent)


def beside_index(path: PathLike, name: str) -> Location:
    """Return where a folder beside the ``index`` of a path would be, whether or not it exists.

    Args:
        path: An IndexFile, an index directory, or a store root.
        name: The folder's name.

    Raises:
        RmqIndexError: The path is not there.
    """
    return resolve(path).directory.parent.child(name)


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
