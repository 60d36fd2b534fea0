"""Which files of an index the broker loads, and how; and how a loaded index shows itself."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING

from rmqindex.errors import RmqIndexError, counted
from rmqindex.indexfile.geometry import Layout
from rmqindex.layout.index_file import FIRST_POSITION
from rmqindex.layout.store import CHECKPOINT_NAME, COMMITLOG_FOLDER, INDEX_FOLDER
from rmqindex.notebooks import html_table
from rmqindex.storage.location import Location
from rmqindex.storage.writable import WritableFile
from rmqindex.store.checkpoint import StoreCheckpoint
from rmqindex.store.names import next_names
from rmqindex.store.snapshot import layout_of_fullest
from rmqindex.store.store import Store
from rmqindex.times import format_millis
from rmqindex.transaction.directories import exists
from rmqindex.transaction.journal import staging_root
from rmqindex.transaction.local_staging import LocalStaging
from rmqindex.transaction.owner import Owner

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo
    from pathlib import Path

    from rmqindex.indexfile.reader import IndexFile
    from rmqindex.layout.index_file import IndexHeader
    from rmqindex.storage.location import PathLike
    from rmqindex.transaction.directories import FileEntry


def headers_text(headers: Sequence[IndexHeader]) -> str:
    """Return how many files and entries there are."""
    entries = sum(header.entry_count for header in headers)
    return f"{counted(len(headers), 'file')}, {counted(entries, 'entry', 'entries')}"


def headers_html(title: str, names: Sequence[str], headers: Sequence[IndexHeader]) -> str:
    """Return a table of the files."""
    rows: list[tuple[object, ...]] = []
    for name, header in zip(names, headers, strict=True):
        if header.entry_count:
            moments = (header.begin_timestamp, header.end_timestamp)
            times = (f"{format_millis(moment, UTC)} UTC" for moment in moments)
            rows.append((name, header.entry_count, *times))
        else:
            rows.append((name, 0, None, None))
    return html_table(title, ("file", "entries", "first stored", "last stored"), rows)


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
    index = Store.open(path, to_write=writable, allow_empty=True).directory()
    return index.local or index


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


def geometry_of(paths: Sequence[Location], *, writable: bool) -> Layout | None:
    """Return the geometry of the fullest file; to write, there must be one."""
    if not paths and writable:
        return Layout()
    layout = layout_of_fullest(paths)
    if layout or not writable:
        return layout
    raise RmqIndexError(
        f"{paths[0]}: no entries tell the geometry of the files: pass the broker's layout "
        "(maxHashSlotNum, maxIndexNum)"
    )


def stored_checkpoint(index: Path | str) -> StoreCheckpoint | None:
    """Return the checkpoint of the local store that an index is in, if there is one."""
    local = Location.of(index).local
    path = None if local is None else local.parent / CHECKPOINT_NAME
    return StoreCheckpoint.load(path) if path is not None and path.is_file() else None


def finish_writes(directory: Path) -> None:
    """Undo a dead commit, as the next write would."""
    if staging_root(directory).exists():
        LocalStaging.create(directory, Owner.current()).discard()


def write_loaded_count(file: IndexFile) -> None:
    """Write the ``index_count`` 1 that loading gives to a file without entries."""
    if file.header.index_count < FIRST_POSITION:
        header = replace(file.header, index_count=FIRST_POSITION)
        with WritableFile(file.path, os.O_RDWR) as writable:
            writable.write_at(header.to_bytes(), 0)


def next_name(files: Sequence[IndexFile], zone: tzinfo | None, *, count: int = 1) -> str:
    """Return the name of the file after the last one; raise unless so many names are left."""
    now = time.time_ns() // 1_000_000
    return next_names([now] * count, files[-1].name if files else None, zone=zone)[0]
