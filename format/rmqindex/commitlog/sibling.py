"""Opens the CommitLog of an index: given by the caller, or beside the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.commitlog.log import CommitLog
from rmqindex.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.logfile.files import LogFile
    from rmqindex.storage.location import PathLike

    LogArgument = CommitLog | PathLike | Sequence[PathLike | LogFile] | None

__all__ = ["LogArgument", "commit_log_of"]


def commit_log_of(path: PathLike | Store, commit_log: LogArgument) -> CommitLog | None:
    """Return the CommitLog that an argument means.

    Args:
        path: The path of the index, or its store.
        commit_log: As :func:`verify` takes it.
    """
    if commit_log is None or isinstance(commit_log, CommitLog):
        return commit_log
    if isinstance(commit_log, str) and commit_log == "auto":
        log = Store.open(path, needs_index=False).log()
        return None if log is None else CommitLog(log)
    return CommitLog(commit_log)
