"""Syncing to disk, so that a power failure undoes nothing, and disk errors that name their file.

A file that is synced may still lose its name: fsync(2) promises a name only once the directory that
holds it is synced as well.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "absent_directories",
    "make_directories",
    "move_synced",
    "naming",
    "remove_empty",
    "sync_directory",
    "sync_name",
    "sync_tree",
]


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


def sync_name(path: Path) -> None:
    """Sync the name of a file or directory to disk, or that it was removed.

    Raises:
        OSError: The directory cannot be read, or the disk is broken.
    """
    sync_directory(path.parent)


def make_directories(path: Path) -> None:
    """Make a directory unless it exists, and its missing parents; sync their names to disk.

    Raises:
        OSError: A file is there, or the disk is full or broken.
    """
    if path.is_dir():
        return
    make_directories(path.parent)
    path.mkdir(exist_ok=True)
    sync_name(path)


def absent_directories(path: Path) -> tuple[Path, ...]:
    """Return a directory and its parents as far as they are absent, the innermost first."""
    return tuple(itertools.takewhile(lambda each: not each.exists(), (path, *path.parents)))


def remove_empty(paths: Iterable[Path]) -> None:
    """Remove directories that are empty, in this order; others stay, and are no error."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.rmdir()


def move_synced(source: Path, target: Path) -> None:
    """Give a synced file another name, in place of what has it, and sync that name to disk.

    Raises:
        OSError: The file cannot be moved, or the disk is broken.
    """
    source.replace(target)
    sync_name(target)


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
            os.fsync(descriptor)  # noqa: TID251  (with files, the one place)
    finally:
        os.close(descriptor)
