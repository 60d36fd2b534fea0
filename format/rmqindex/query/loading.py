"""Which directory a path means as an index, and which of its files the broker loads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rmqindex.errors import RmqIndexError
from rmqindex.fileset.paths import resolve
from rmqindex.folders import COMMITLOG_FOLDER, INDEX_FOLDER
from rmqindex.storage.location import Location
from rmqindex.store.checkpoint import CHECKPOINT_NAME
from rmqindex.transaction.directories import exists
from rmqindex.transaction.journal import staging_root
from rmqindex.transaction.local_staging import LocalStaging
from rmqindex.transaction.owner import Owner

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rmqindex.storage.location import PathLike
    from rmqindex.transaction.directories import FileEntry

__all__ = ["finish_writes", "index_directory", "loadable"]


def index_directory(path: PathLike, *, writable: bool) -> Path | Location:
    """Return the index directory that a path means; with ``writable`` it may be absent."""
    if writable:
        local = Location.of(path).local
        if local is None:
            raise ValueError(f"{path}: only a local index directory can be written")
        if not exists(local):
            return local
        is_root = (local / COMMITLOG_FOLDER).is_dir() or (local / CHECKPOINT_NAME).is_file()
        if is_root and not (local / INDEX_FOLDER).exists():
            return local / INDEX_FOLDER
    resolved = resolve(path, to_write=writable, allow_empty=True)
    if resolved.is_file:
        raise RmqIndexError(f"{path}: expected an index directory or a store root, got a file")
    return resolved.path.local or resolved.path


def loadable(entries: Sequence[FileEntry], *, writable: bool) -> tuple[list[Location], bool]:
    """Return the files in the broker's order of loading, and whether it loads them all."""
    needed = os.R_OK | os.W_OK if writable else os.R_OK
    paths: list[Location] = []
    for entry in entries:
        local = entry.path.local
        if entry.is_directory or not (local is None or os.access(local, needed)):
            return paths, False
        paths.append(entry.path)
    return paths, True


def finish_writes(directory: Path) -> None:
    """Undo a dead commit, as the next write would."""
    if staging_root(directory).exists():
        LocalStaging.create(directory, Owner.current()).discard()
