"""Telling whether a broker holds a store (RocketMQ: ``DefaultMessageStore.start``).

A running broker holds a POSIX record lock on the first byte of ``<store root>/lock``, and keeps
``<store root>/abort`` from start to clean stop.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path

from rmqindex.errors import RmqIndexError
from rmqindex.files.own_files import open_to_read

__all__ = [
    "ABORT_NAME",
    "LOCK_NAME",
    "ensure_not_live",
    "ensure_not_locked",
    "lock_holder",
    "store_roots",
]

# StorePathConfigHelper.getLockFile, getAbortFile.
LOCK_NAME = "lock"
ABORT_NAME = "abort"

# Linux's struct flock: l_type, l_whence, l_start, l_len, l_pid.
_FLOCK = struct.Struct("hhqqi")


def ensure_not_live(index_directory: str | os.PathLike[str]) -> None:
    """Refuse to go on when a broker holds the store that an index directory belongs to.

    Nothing is locked or changed: the kernel is only asked who would be in the way.
    A lock that this very process holds is not seen.

    Args:
        index_directory: A local index directory, there or not; the store root is its parent.
            Where it is a symbolic link, both the link's parent and the target's are looked at.

    Raises:
        RmqIndexError: The lock is held, or ``abort`` is there.
    """
    ensure_not_locked(index_directory)
    for root in store_roots(index_directory):
        if (root / ABORT_NAME).exists():
            raise RmqIndexError(
                f"{root / ABORT_NAME}: expected no such file, got one: a broker runs on this "
                "store, or did not stop cleanly; start and stop it, or allow a live store "
                "explicitly"
            )


def ensure_not_locked(index_directory: str | os.PathLike[str]) -> None:
    """Refuse to go on when a broker runs on the store; one that crashed is no hindrance.

    Args:
        index_directory: As in :func:`ensure_not_live`.

    Raises:
        RmqIndexError: The lock is held.
    """
    for root in store_roots(index_directory):
        holder = lock_holder(root / LOCK_NAME)
        if holder is not None:
            raise RmqIndexError(
                f"{root / LOCK_NAME}: expected no lock, got one held by process {holder}: a "
                "broker runs on this store; stop it, or allow a live store explicitly"
            )


def store_roots(index_directory: str | os.PathLike[str]) -> list[Path]:
    """Return the parents of a directory: where it is, and where a symbolic link leads."""
    # The broker's own path is tried first; abspath, unlike resolve, keeps links.
    link = Path(os.path.abspath(index_directory))  # noqa: PTH100
    return list(dict.fromkeys((link.parent, link.resolve().parent)))


def lock_holder(path: Path) -> int | None:
    """Return the process that holds a record lock on the first byte of a file, if one does."""
    try:
        with open(path, "rb", opener=open_to_read) as file:
            wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
            answer = fcntl.fcntl(file, fcntl.F_GETLK, wanted)
    except (FileNotFoundError, RmqIndexError):  # nothing, or no file
        return None
    except OSError as error:
        if error.errno in (errno.ENOLCK, errno.EINVAL, errno.ENOTDIR, errno.EISDIR):
            return None  # no file, or a file system without record locks
        raise
    kind, _, _, _, pid = _FLOCK.unpack(answer)
    return None if kind == fcntl.F_UNLCK else int(pid)
