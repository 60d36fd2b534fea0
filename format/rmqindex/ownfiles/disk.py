"""Syncing to disk, so that a power failure undoes nothing, and disk errors that name their file."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["copy_sparse", "naming", "sync_directory", "sync_tree"]

_COPY_BYTES = 1 << 24


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add a file's name to the errors of calls that know only its descriptor.

    Args:
        path: The file.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = os.fspath(path)
        raise


def sync_directory(path: Path) -> None:
    """Sync the names in a directory to disk.

    Raises:
        OSError: No such directory, or the disk is broken.
    """
    _sync(path, os.O_DIRECTORY)


def sync_tree(path: Path) -> None:
    """Sync a directory, and all files and directories in it, to disk.

    Raises:
        OSError: No such directory, or the disk is broken.
    """
    for folder, _, names in os.walk(path):
        for name in names:
            _sync(Path(folder, name), 0)
        sync_directory(Path(folder))


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        with naming(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a file without filling its holes; the copy is synced to disk.

    Its mode is kept, and its owner where this process may set it: a broker must still be able to
    open the copy.

    Args:
        source: The file to copy.
        target: A path at which nothing exists yet.
    """
    with naming(target), source.open("rb") as reader, target.open("xb") as writer:
        status = os.fstat(reader.fileno())
        os.fchmod(writer.fileno(), stat.S_IMODE(status.st_mode))
        with contextlib.suppress(PermissionError):
            os.fchown(writer.fileno(), status.st_uid, status.st_gid)
        size = status.st_size
        writer.truncate(size)
        position = 0
        while position < size:
            try:
                start = os.lseek(reader.fileno(), position, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # only a hole follows
                    break
                raise
            stop = os.lseek(reader.fileno(), start, os.SEEK_HOLE)
            while start < stop:
                data = os.pread(reader.fileno(), min(_COPY_BYTES, stop - start), start)
                if not data:
                    break
                os.pwrite(writer.fileno(), data, start)
                start += len(data)
            position = stop
        os.fsync(writer.fileno())
