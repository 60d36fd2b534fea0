"""Finds the CommitLog that an index belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_rmqindex.options import AUTO
from rmqindex.commitlog import several_logs
from rmqindex.folders import COMMITLOG_FOLDER, INDEX_FOLDER, MULTI_PATH_SPLITTER
from rmqindex.store import dledger_data
from rmqindex.transaction import exists

if TYPE_CHECKING:
    from rmqindex.storage import Location

__all__ = ["absolute_log", "find_log"]


def absolute_log(path: Location) -> Location:
    """Return the path of a log as an absolute one, for tasks in other working directories."""
    parts = [part.absolute for part in several_logs(path)]
    return path.storage.at(MULTI_PATH_SPLITTER.join(parts))


def find_log(file_path: Location, commit_log: str) -> Location | None:
    """Return where the messages of an IndexFile are.

    Args:
        file_path: The file.
        commit_log: The option: a path, or ``auto`` for the sibling of the directory ``index``.

    Returns:
        A path that ``CommitLog`` accepts; None if ``auto`` finds no log.
    """
    if commit_log != AUTO:
        return absolute_log(file_path.storage.at(commit_log))
    directory = file_path.parent
    if directory.name != INDEX_FOLDER:
        return None
    store = directory.parent
    if dledger_data(store) is not None:
        return store
    found = store.child(COMMITLOG_FOLDER)
    return found if exists(found) else None
