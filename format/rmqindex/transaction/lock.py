"""The lock of a staging root: whoever commits, recovers or makes a job holds it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING

from rmqindex.errors import RmqIndexError
from rmqindex.ownfiles.safe_open import ensure_directory, open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["hold_lock", "remove_root"]

_LOCK = "lock"
_LOCK_WAIT_SECONDS = 600.0
_POLL_SECONDS = 0.02


@contextlib.contextmanager
def hold_lock(root: Path, *, create: bool) -> Iterator[bool]:
    """Hold the lock of a staging root; yields False where the root is gone.

    The last holder removes the lock file, so the locked file must still be the one with the name.
    """
    deadline = time.monotonic() + _LOCK_WAIT_SECONDS
    path = root / _LOCK
    while True:
        try:
            if create:
                root.mkdir(exist_ok=True)
            ensure_directory(root)
            descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:
            if not create:
                yield False
                return
            if not root.parent.exists():
                raise
        else:
            try:
                if _try_lock(descriptor) and _has_name(descriptor, path):
                    yield True
                    return
            finally:
                os.close(descriptor)
        if time.monotonic() > deadline:
            raise RmqIndexError(
                f"{path}: another write has been committing for ten minutes; end it, or run this "
                "again when it is done"
            )
        time.sleep(_POLL_SECONDS)


def remove_root(root: Path) -> None:
    """Remove the staging root when no job is left in it and nobody holds its lock."""
    try:
        ensure_directory(root)
        descriptor = open_regular(root / _LOCK, os.O_RDWR)
    except (OSError, RmqIndexError):
        return
    try:
        if _try_lock(descriptor) and list(root.iterdir()) == [root / _LOCK]:
            (root / _LOCK).unlink()
            root.rmdir()
    except OSError:  # a new job came in between, or this process may not remove the directory
        pass
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _has_name(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False
