"""The lock of an IndexFile that is open for appending: one writer, in this process or another."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from rmqindex.errors import RmqIndexError
from rmqindex.storage.disk import ensure_opener, lock_byte, locked_by, open_to_read, unlock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqindex.storage.writable import WritableFile

# The byte that a writer locks, behind the end of any file.
_APPENDING = 1 << 40


class FileHold:
    """An IndexFile that is open for appending by this process, and by nobody else.

    Attributes:
        file: The open file.
    """

    def __init__(self, file: WritableFile) -> None:
        """Lock an open file; raise if somebody else, in this process either, appends to it."""
        self.file = file
        self._process = os.getpid()
        with contextlib.suppress(OSError):  # a file system without locks
            if not lock_byte(file.fileno(), _APPENDING):
                raise _appended(file.name)

    def ensure_own(self) -> None:
        """Raise in a forked process: it and its parent would write over each other's entries."""
        ensure_opener(self.file.name, self._process)

    def release(self) -> None:
        """Unlock the file, before it is closed; in a forked process, leave it to the parent."""
        if self._process == os.getpid():
            unlock(self.file.fileno())


@contextlib.contextmanager
def held(file: WritableFile) -> Iterator[FileHold]:
    """Hold an open file, which is closed where that fails, or what is done meanwhile."""
    try:
        yield FileHold(file)
    except BaseException:
        file.close()
        raise


def ensure_not_appended(path: str | os.PathLike[str]) -> None:
    """Raise if a writer, maybe of this process, holds an IndexFile by a :class:`FileHold`."""
    with contextlib.suppress(OSError):  # it is gone, or on a file system without locks
        descriptor = open_to_read(path, os.O_RDONLY)
        try:
            holder = locked_by(descriptor, _APPENDING)
        finally:
            os.close(descriptor)
        if holder is not None:
            raise _appended(path)


def _appended(path: str | os.PathLike[str]) -> RmqIndexError:
    return RmqIndexError(
        f"{path}: expected no writer, got one that has the file open to append to it, such as an "
        "IndexFileWriter or a writable IndexDirectory of this process; close it first"
    )
