"""Proves the end of a log for whoever stops reading where its records end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqindex.commitlog.log import CommitLog, Mode
    from rmqindex.errors import CorruptCommitLogError

__all__ = ["ensure_end"]


def ensure_end(
    log: CommitLog,
    stop: int | None = None,
    *,
    mode: Mode = "FAILFAST",
    on_malformed: Callable[[CorruptCommitLogError], None] | None = None,
) -> None:
    """Raise if something proves that a log went on behind its last sound record.

    Args:
        log: The log.
        stop: The offset from which on nothing is asked for, bytes; None for the log's end.
        mode: As :meth:`rmqindex.CommitLog.scan` takes it.
        on_malformed: As :meth:`rmqindex.CommitLog.scan` takes it.

    Raises:
        CorruptCommitLogError: The log is damaged at its end; only ``FAILFAST``.
        RmqIndexError: The storage failed.
    """
    error = log.end_error() if stop is None or stop > log.max_offset else None
    if error is None:
        return
    if mode == "FAILFAST":
        raise error
    if on_malformed is not None:
        on_malformed(error)
