"""Opening a local or remote file for reading (spec: reading a file).

Local files are memory-mapped; everything else is read by ranges through ``pyarrow.fs``.
A source reads only the requested ranges: a lookup touches the header, slots and chains, never the
empty tail of a file.
A short read is an error of the file, not of the caller.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from rmqindex.storage.identity import FileChangedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rmqindex.storage.marks import FileMark
    from rmqindex.storage.source import ByteSource

from rmqindex.storage.local import LocalSource
from rmqindex.storage.location import Location, PathLike
from rmqindex.storage.remote import RemoteSource

__all__ = ["ensure_found", "map_files", "open_found", "open_source"]

T = TypeVar("T")
R = TypeVar("R")

# Requests to a remote store spend most of their time waiting.
_REMOTE_THREADS = 16


def open_source(path: PathLike) -> ByteSource:
    """Open a file for reading.

    Args:
        path: A local path or a ``file:`` URI (mapped), or another URI that ``pyarrow.fs`` knows
            (read by ranges).

    Returns:
        The open source.

    Raises:
        RmqIndexError: No such file, not a file, or not readable.
    """
    location = Location.of(path)
    local = location.local
    return RemoteSource(location) if local is None else LocalSource(local)


def open_found(path: PathLike, size: int, mark: FileMark | None = None) -> ByteSource:
    """Open a file that was listed before, and that may have grown since.

    Args:
        path: As :func:`open_source` takes it.
        size: Its size when it was listed, bytes.
        mark: Its mark; None where only its size is known.

    Raises:
        FileChangedError: It is shorter than it was, or another file.
        RmqIndexError: It is gone, or not readable.
    """
    source = open_source(path)
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


def map_files(
    function: Callable[[T], R], items: Sequence[T], locations: Iterable[Location]
) -> list[R]:
    """Return what a function that opens a file returns for each item.

    Args:
        function: Opens the file of an item; it must be safe to run in several threads.
        items: The items.
        locations: Where their files lie: several are opened at a time if any is not local.
    """
    if all(location.local is not None for location in locations):
        return [function(item) for item in items]
    with ThreadPoolExecutor(_REMOTE_THREADS) as pool:
        return list(pool.map(function, items))
