"""Finds the CommitLog that an index belongs to."""

from __future__ import annotations

import os

from pyspark_rmqindex.options import AUTO
from rmqindex.folders import COMMITLOG_FOLDER, INDEX_FOLDER, MULTI_PATH_SPLITTER
from rmqindex.storage import is_remote, local_path
from rmqindex.store import dledger_data
from rmqindex.transaction import exists

__all__ = ["absolute_log", "find_log", "folder_of", "last_name"]


def absolute_log(path: str) -> str:
    """Return the path of a log as an absolute one, for tasks in other working directories."""
    if is_remote(path):
        return path
    whole = local_path(path)
    if MULTI_PATH_SPLITTER in path and not whole.exists():
        return MULTI_PATH_SPLITTER.join(
            absolute_log(part.strip()) for part in path.split(MULTI_PATH_SPLITTER)
        )
    return os.path.abspath(whole)  # noqa: PTH100  (resolve would follow links)


def find_log(file_path: str, commit_log: str) -> str | None:
    """Return where the messages of an IndexFile are.

    Args:
        file_path: The file.
        commit_log: The option: a path, or ``auto`` for the sibling of the directory ``index``.

    Returns:
        A path that ``CommitLog`` accepts; None if ``auto`` finds no log, or one that continues in
        DLedger.
    """
    if commit_log != AUTO:
        return absolute_log(commit_log)
    directory = folder_of(file_path)
    if last_name(directory) != INDEX_FOLDER:
        return None
    base, mark, query = _parts(folder_of(directory))
    found = f"{base.rstrip('/')}/{COMMITLOG_FOLDER}{mark}{query}"
    return found if exists(found) and dledger_data(folder_of(directory)) is None else None


def folder_of(path: str) -> str:
    """Return the directory that a file or a directory is in."""
    base, mark, query = _parts(path)
    return f"{base.rstrip('/').rpartition('/')[0]}{mark}{query}"


def last_name(path: str) -> str:
    """Return the last part of a path."""
    return _parts(path)[0].rstrip("/").rpartition("/")[2]


def _parts(path: str) -> tuple[str, str, str]:
    """Split the query off the path of a URI."""
    return path.partition("?") if is_remote(path) else (path, "", "")
