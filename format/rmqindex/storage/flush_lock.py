"""Tells a writer between its slots and its header from one that died there.

Slots then lead behind the count, as those of a damaged count do. A living writer holds a lock of
the file meanwhile, of which the kernel takes the lock of a dead one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from rmqindex.storage.opening import UnsteadyError, read_steady

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

__all__ = ["flushing", "wait_for_flush"]


@contextlib.contextmanager
def flushing(file: io.FileIO) -> Iterator[None]:
    """Have readers wait that find slots ahead of the header; the block writes both.

    On a file system without locks, they do not wait.
    """
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if not file.closed:  # a child process may have the descriptor, too
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_UN)


def wait_for_flush(path: str | os.PathLike[str]) -> None:
    """Wait until no writer is between the slots and the header of a local file.

    Raises:
        RmqIndexError: One flush after the other was under way for ten seconds.
    """
    read_steady(path, lambda: _ensure_unlocked(path))


def _ensure_unlocked(path: str | os.PathLike[str]) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:  # it was removed, so that nobody writes to it by its name
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UnsteadyError("a flush of it was under way") from None
    except OSError:  # a file system without locks
        return
    finally:
        os.close(descriptor)
