"""Detects whether a broker holds a store (RocketMQ: ``DefaultMessageStore.start``).

A running broker holds a POSIX record lock on the first byte of ``<store root>/lock``, and keeps
``<store root>/abort`` from start to clean stop.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
from typing import TYPE_CHECKING

from rmqindex.errors import RmqIndexError
from rmqindex.ownfiles.safe_open import open_to_read
from rmqindex.storage.location import Location

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "ABORT_NAME",
    "LOCK_NAME",
    "ensure_not_live",
    "ensure_not_locked",
    "hold_store",
    "is_live",
    "lock_holder",
    "store_roots",
]

# StorePathConfigHelper.getLockFile, getAbortFile.
LOCK_NAME = "lock"
ABORT_NAME = "abort"

# Linux's struct flock: l_type, l_whence, l_start, l_len, l_pid.
_FLOCK = struct.Struct("hhqqi")


def ensure_not_live(index_directory: str | os.PathLike[str]) -> None:
    """Raise if a broker holds the store that an index directory belongs to.

    Nothing is locked or changed: the kernel is only asked which process holds a lock.
    A lock of this process itself is invisible.

    Args:
        index_directory: An index directory, which may be absent; the store root is its parent. For
            a symbolic link, both the link's parent and the target's are checked.

    Raises:
        RmqIndexError: The lock is held, or ``abort`` exists.
    """
    ensure_not_locked(index_directory)
    for root in store_roots(index_directory):
        if (root / ABORT_NAME).exists():
            raise RmqIndexError(
                f"{root / ABORT_NAME}: expected no such file, got one: a broker runs on this "
                "store, or was killed. Stop it if it runs; if it was killed, keep it stopped and "
                "give allow_live_store=True"
            )


def ensure_not_locked(index_directory: str | os.PathLike[str]) -> None:
    """Raise if a broker runs on the store; one that crashed is no obstacle.

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
                "broker runs on this store; stop it first. With allow_live_store=True this is "
                "written all the same, and the broker does not see it before its next start"
            )


def store_roots(index_directory: str | os.PathLike[str]) -> list[Path]:
    """Return the parents of a directory: its own, and that of a symbolic link's target.

    An object store has none, since brokers do not write there.
    """
    link = Location.of(index_directory).absolute.local
    if link is None:
        return []
    # The broker's own path is tried first, with links unresolved.
    return list(dict.fromkeys((link.parent, link.resolve().parent)))


def lock_holder(path: Path) -> int | None:
    """Return the process that holds a record lock on the first byte of a file, if any."""
    try:
        with open(path, "rb", opener=open_to_read) as file:
            wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
            answer = fcntl.fcntl(file, fcntl.F_GETLK, wanted)
    except (FileNotFoundError, RmqIndexError):  # absent, or not a file
        return None
    except OSError as error:
        if error.errno in (errno.ENOLCK, errno.EINVAL, errno.ENOTDIR, errno.EISDIR):
            return None  # not a file, or a file system without record locks
        raise
    kind, _, _, _, pid = _FLOCK.unpack(answer)
    return None if kind == fcntl.F_UNLCK else int(pid)


def is_live(index_directory: str | os.PathLike[str]) -> bool:
    """Return whether a broker holds the store of an index directory, or did not stop cleanly."""
    try:
        ensure_not_live(index_directory)
    except RmqIndexError:
        return True
    return False


@contextlib.contextmanager
def hold_store(index_directory: str | os.PathLike[str], *, allow_live: bool) -> Iterator[bool]:
    """Keep a broker from starting on the store; yields whether one holds it already.

    Args:
        index_directory: As in :func:`ensure_not_live`.
        allow_live: Whether to continue if a broker holds the store.

    Raises:
        RmqIndexError: A broker holds it, and that is not allowed.
    """
    live = False
    with contextlib.ExitStack() as locks:
        try:
            ensure_not_live(index_directory)
            for root in store_roots(index_directory):
                locks.enter_context(_hold_lock(root / LOCK_NAME))
        except RmqIndexError:
            if not allow_live:
                raise
            live = True
        yield live


@contextlib.contextmanager
def _hold_lock(path: Path) -> Iterator[None]:
    """Hold a broker's lock; without one if there is no store, or if its lock cannot be taken."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except OSError as error:
            raise RmqIndexError(f"{path}: a broker has just started on this store") from error
        yield
    finally:
        os.close(descriptor)
