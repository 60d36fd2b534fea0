"""Writing so that a power failure undoes nothing, and errors of the disk that name their file."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["naming", "sync_directory", "sync_tree"]


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put a file's name into the errors of calls that know only its descriptor.

    Args:
        path: The file that they are about.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = os.fspath(path)
        raise


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk.

    Raises:
        OSError: No such directory, or the disk is broken.
    """
    _sync(path, os.O_DIRECTORY)


def sync_tree(path: Path) -> None:
    """Wait until a directory is on the disk, with all files and directories in it.

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
