"""Opening a local or remote file for reading (spec: reading a file).

Local files are memory-mapped; everything else is read by ranges through ``pyarrow.fs``.
A source reads only the requested ranges: a lookup touches the header, slots and chains, never the
empty tail of a file.
A short read is an error of the file, not of the caller.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rmqindex.storage.identity import FileChangedError

if TYPE_CHECKING:
    import pyarrow.fs as pafs

    from rmqindex.storage.marks import FileMark
    from rmqindex.storage.source import ByteSource

from rmqindex.storage.filesystem import open_filesystem
from rmqindex.storage.local import LocalSource
from rmqindex.storage.location import PathLike, is_remote, local_path
from rmqindex.storage.remote import RemoteSource

__all__ = ["ensure_found", "open_found", "open_remote", "open_source"]


def open_source(
    path: PathLike,
    *,
    filesystem: pafs.FileSystem | None = None,
) -> ByteSource:
    """Open a file for reading.

    Args:
        path: A local path or a ``file:`` URI (mapped), or another URI that ``pyarrow.fs`` knows
            (read by ranges).
        filesystem: The file system of ``path``; None to find it by the URI.

    Returns:
        The open source.

    Raises:
        RmqIndexError: No such file, not a file, or not readable.
    """
    if filesystem is not None or is_remote(path):
        return open_remote(path, filesystem)
    return LocalSource(local_path(path))


def open_remote(path: PathLike, filesystem: pafs.FileSystem | None) -> RemoteSource:
    """Open a file of an object store; see :func:`open_source`."""
    found, inner_path = open_filesystem(path, filesystem)
    return RemoteSource(os.fspath(path), found, inner_path)


def open_found(
    path: PathLike,
    size: int,
    mark: FileMark | None = None,
    filesystem: pafs.FileSystem | None = None,
) -> ByteSource:
    """Open a file that was listed before, and that may have grown since.

    Args:
        path: As :func:`open_source` takes it.
        size: Its size when it was listed, bytes.
        mark: Its mark; None where only its size is known.
        filesystem: As :func:`open_source` takes it.

    Raises:
        FileChangedError: It is shorter than it was, or another file.
        RmqIndexError: It is gone, or not readable.
    """
    source = open_source(path, filesystem=filesystem)
    ensure_found(source, size, mark)
    return source


def ensure_found(source: ByteSource, size: int, mark: FileMark | None) -> None:
    """Raise, and close the file, unless it is the one that was listed before.

    Args:
        source: The file.
        size: Its size when it was listed, bytes.
        mark: Its mark; None where only its size is known.

    Raises:
        FileChangedError: It is shorter than it was, or another file.
        RmqIndexError: The storage failed.
    """
    found = source.size
    if found >= size and (mark is None or mark.matches(source)):
        return
    source.close()
    what = "replaced" if found >= size else f"cut from {size} to {found} bytes"
    raise FileChangedError(source.path, what)
