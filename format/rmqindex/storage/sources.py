"""One way to the bytes of a file, wherever it lies (spec: reading a file).

Local files are memory-mapped; everything else is read by ranges through ``pyarrow.fs``.
A source hands out what was asked for and no more: a lookup touches the header, slots and chains,
never the empty tail of a file.
A short read is an error of the file, not of the caller.

While a commit of ours appends to a file where it stands, or after one died at that, the source
hands out the header and the slots that the file had before.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from rmqindex.errors import CorruptIndexError, RmqIndexError
from rmqindex.geometry.layout import (
    BEGIN_PHY_OFFSET_OFFSET,
    BEGIN_TIMESTAMP_OFFSET,
    ENTRY_DTYPE,
    ENTRY_SIZE,
    HEADER_SIZE,
    INDEX_COUNT_OFFSET,
    SLOT_DTYPE,
    SLOT_SIZE,
)
from rmqindex.storage.identity import FileChangedError, FileIdentity
from rmqindex.storage.s3 import (
    SCHEMES,
    S3Settings,
    check_no_secret,
    connect,
    current_settings,
    using,
)
from rmqindex.storage.steady import UnsteadyError, read_steady
from rmqindex.transaction.journal import unfinished_append

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from numpy.typing import NDArray

    from rmqindex.geometry.layout import Layout
    from rmqindex.storage.identity import FileMark
    from rmqindex.transaction.undo import AppendUndo

__all__ = [
    "ByteSource",
    "PathLike",
    "child_uri",
    "is_remote",
    "local_path",
    "open_filesystem",
    "open_found",
    "open_source",
    "unreadable",
]

PathLike = str | os.PathLike[str]

# Two wanted ranges this near each other cost less as one request than as two.
_COALESCE_GAP = 8 * 1024
# No single request asks for more, so that a gather over a whole file stays bounded.
_MAX_REQUEST = 4 * 1024 * 1024
# Requests to a remote store wait more than they work.
_REMOTE_THREADS = 8
# Up to so many chains are followed by windows: older entries lie before newer ones, so what lies
# before an entry is read along with it, twice as much at each step, and chains of thousands take
# tens of requests.
_FEW_CHAINS = 16
_FIRST_WINDOW = 4 * 1024
# What was read along is kept up to this size, bytes.
_KEPT_BYTES = 16 * 1024 * 1024
# A shorter read, bytes, is one of a few here and there: read-ahead, which can be megabytes, would
# only bring in what nobody asked for.
_SHORT_READ = 64 * 1024
# Above so many items, a gather touches most pages anyway and read-ahead helps.
_FEW_ITEMS = 4096

# How Arrow begins what a store of S3 has answered.
_AWS_ERROR = "AWS Error"
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


class ByteSource(ABC):
    """The bytes of one file, opened for reading; a context manager.

    Attributes:
        path: The file, as errors name it.
        size: Its size in bytes when it was opened; what lies beyond is never read.
        remote: Whether each read is a request to a store elsewhere.
        identity: Which file it was when it was opened.
    """

    path: str
    size: int
    identity: FileIdentity
    remote: bool = False

    @abstractmethod
    def read(self, offset: int, length: int) -> bytes | memoryview:
        """Return ``length`` bytes from ``offset``, both in bytes.

        Raises:
            CorruptIndexError: The file ends before.
            RmqIndexError: The storage failed.
        """

    @abstractmethod
    def slots(self, layout: Layout, slots: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return the values of hash slots, numbered from 0, in native byte order.

        Raises:
            CorruptIndexError: The file ends before one of them.
            RmqIndexError: The storage failed.
        """

    @abstractmethod
    def entries(self, layout: Layout, positions: NDArray[np.integer]) -> NDArray[Any]:
        """Return the entries at any positions, as ``ENTRY_DTYPE``.

        Raises:
            CorruptIndexError: The file ends before one of them.
            RmqIndexError: The storage failed.
        """

    def header(self) -> bytes | memoryview:
        """Return the header as it was when the file was opened.

        Raises:
            CorruptIndexError: The file ends before.
            RmqIndexError: The storage failed.
        """
        return self.read(0, HEADER_SIZE)

    def latest_index_count(self) -> int:
        """Return up to which position entries may stand in the file by now, exclusive.

        A writer stores entries and slots before the header, so to judge a slot, this is asked for
        after the slot was read.

        Raises:
            CorruptIndexError: The file ends before.
            RmqIndexError: The storage failed.
        """
        count = np.frombuffer(self.read(INDEX_COUNT_OFFSET, SLOT_SIZE), SLOT_DTYPE)
        return int(count[0])

    def entry_range(self, layout: Layout, start: int, stop: int) -> NDArray[Any]:
        """Return the entries ``start`` to ``stop - 1`` as ``ENTRY_DTYPE``; the caller bounds them.

        Raises:
            CorruptIndexError: The file ends before.
            RmqIndexError: The storage failed.
        """
        data = self.read(layout.entry_offset(start), (stop - start) * ENTRY_SIZE)
        return np.frombuffer(data, ENTRY_DTYPE)

    @abstractmethod
    def is_current(self) -> bool:
        """Return whether the file can still be the one that was opened, and is not shorter.

        Raises:
            RmqIndexError: The storage failed.
        """

    @abstractmethod
    def ensure_uncut(self) -> None:
        """Refuse what was read if the file was cut since it was opened.

        Of a mapped file that is cut, the rest of the last page reads as zeros; what is read of
        pages behind it ends the process.

        Raises:
            CorruptIndexError: It is shorter than it was.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of the file; a second call does nothing."""

    def __enter__(self) -> Self:
        """Return the source itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the source."""
        self.close()

    def _truncated(self, offset: int, length: int) -> CorruptIndexError:
        return CorruptIndexError(
            self.path, "file_size", self.size, f"at least {offset + length} bytes", self.size
        )


class _LocalSource(ByteSource):
    """A memory-mapped file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        try:
            if not stat.S_ISREG(path.stat().st_mode):  # a pipe would keep its reader waiting
                raise unreadable(self.path, OSError("not a file"))
            with path.open("rb") as file:
                self.identity = FileIdentity.of_stat(os.fstat(file.fileno()))
                self.size = self.identity.size
                # An empty file cannot be mapped.
                self._map = (
                    mmap.mmap(file.fileno(), self.size, access=mmap.ACCESS_READ)
                    if self.size
                    else None
                )
        except (OSError, ValueError) as error:
            raise unreadable(self.path, error) from error
        self._data = memoryview(self._map) if self._map is not None else memoryview(b"")
        self._advice = mmap.MADV_NORMAL
        self._header: bytes | None = None

    def keep_header(self) -> int:
        """Read the header, to hand out this one from now on; returns its ``index_count``."""
        if self.size < HEADER_SIZE:
            return 0
        header = bytearray(self.read(0, HEADER_SIZE))
        # A broker sets these before it counts the first entry: they may be older than the count.
        for offset in (BEGIN_TIMESTAMP_OFFSET, BEGIN_PHY_OFFSET_OFFSET):
            header[offset : offset + 8] = self.read(offset, 8)
        self._header = bytes(header)
        return int(np.frombuffer(self._header, SLOT_DTYPE, 1, INDEX_COUNT_OFFSET)[0])

    def header(self) -> bytes | memoryview:
        return self.read(0, HEADER_SIZE) if self._header is None else self._header

    def read(self, offset: int, length: int) -> memoryview:
        if offset < 0 or offset + length > self.size:
            raise self._truncated(offset, length)
        self._advise(mmap.MADV_RANDOM if length < _SHORT_READ else mmap.MADV_NORMAL)
        return self._data[offset : offset + length]

    def slots(self, layout: Layout, slots: NDArray[np.integer]) -> NDArray[np.int32]:
        return self._gather(layout.slot_offset(0), SLOT_DTYPE, slots).astype(np.int32)

    def latest_index_count(self) -> int:
        # The journal before the header: a commit that ends in between has written its header.
        undo = unfinished_append(self.path)
        if self.size < HEADER_SIZE:
            return 0
        count = super().latest_index_count()
        return count if undo is None else max(count, undo.record.index_count)

    def entries(self, layout: Layout, positions: NDArray[np.integer]) -> NDArray[Any]:
        return self._gather(layout.entry_offset(0), ENTRY_DTYPE, positions)

    def is_current(self) -> bool:
        return self._size_now() >= self.size

    def ensure_uncut(self) -> None:
        size = self._size_now()
        if size < self.size:
            raise CorruptIndexError(
                self.path, "file_size", size, f"{self.size} bytes, as when it was opened", size
            )

    def _size_now(self) -> int:
        # The size of a mapping is asked of its file.
        return self.size if self._map is None else self._map.size()

    def close(self) -> None:
        # Views that were handed out keep the mapping alive; without any it goes at once.
        self._data = memoryview(b"")
        self._map = None
        self.size = 0

    def _gather(
        self, base: int, dtype: np.dtype[Any], indices: NDArray[np.integer]
    ) -> NDArray[Any]:
        if not len(indices):
            return np.empty(0, dtype)
        available = max(0, (self.size - base) // dtype.itemsize)
        highest = int(indices.max())
        if highest >= available:
            raise self._truncated(base + highest * dtype.itemsize, dtype.itemsize)
        self._advise(mmap.MADV_RANDOM if len(indices) < _FEW_ITEMS else mmap.MADV_NORMAL)
        items = np.frombuffer(self._data, dtype, available, base)
        return items.take(indices)

    def _advise(self, advice: int) -> None:
        """Tell the kernel how the file is read, so that a cold lookup touches few pages."""
        if advice != self._advice and self._map is not None:
            self._map.madvise(advice)
            self._advice = advice


class _RemoteSource(ByteSource):
    """A file of a ``pyarrow.fs`` file system, read by ranges."""

    remote = True

    def __init__(self, path: str, filesystem: pafs.FileSystem, inner_path: str) -> None:
        self.path = path
        self._place = filesystem, inner_path
        self._file, self.identity = self._opened()
        self.size = self.identity.size
        self._settings = current_settings()
        self._head = b""
        self._window = 0
        self._kept: list[tuple[int, bytes]] = []

    def read(self, offset: int, length: int) -> bytes:
        if offset < 0 or offset + length > self.size:
            raise self._truncated(offset, length)
        try:
            data: bytes = self._file.read_at(length, offset)
        except (OSError, ValueError, pa.ArrowException) as error:
            # The settings of when it was opened: this may be another thread.
            with using(self._settings):
                raise unreadable(
                    self.path, error, expected=f"bytes {offset} to {offset + length - 1}"
                ) from error
        if len(data) != length:
            raise self._truncated(offset, length)
        return data

    def header(self) -> bytes:
        if not self._head:
            self._head = self.read(0, HEADER_SIZE)
        return self._head

    def slots(self, layout: Layout, slots: NDArray[np.integer]) -> NDArray[np.int32]:
        # Chains begin at their slots: entries that are asked for next are new ones.
        self._window = 0
        self._kept.clear()
        return self._gather(layout.slot_offset(0), SLOT_DTYPE, slots).astype(np.int32)

    def entries(self, layout: Layout, positions: NDArray[np.integer]) -> NDArray[Any]:
        if len(positions) > _FEW_CHAINS:
            return self._gather(layout.entry_offset(0), ENTRY_DTYPE, positions)
        items = np.empty(len(positions), ENTRY_DTYPE)
        missed = False
        for place, position in enumerate(positions.tolist()):
            offset = layout.entry_offset(position)
            found = self._kept_at(offset)
            if found is None:
                missed = True
                found = self._read_along(offset, layout.entry_offset(0))
            items[place] = np.frombuffer(found[1], ENTRY_DTYPE, 1, offset - found[0])[0]
        if missed:
            self._window = min(max(2 * self._window, _FIRST_WINDOW), _MAX_REQUEST)
        return items

    def _opened(self) -> tuple[pa.NativeFile, FileIdentity]:
        """Ask the store for the file, which is one request."""
        filesystem, inner_path = self._place
        try:
            file = filesystem.open_input_file(inner_path)
            return file, FileIdentity.of_object(
                file.size(), file.metadata(), lambda: _modified(filesystem, inner_path)
            )
        except (OSError, pa.ArrowException) as error:
            # What stands there instead is asked only now.
            raise unreadable(
                self.path, _reason(filesystem, inner_path, error), expected="the file's size"
            ) from error

    def is_current(self) -> bool:
        with using(self._settings):
            file, identity = self._opened()
        file.close()
        return self.identity.names_same(identity)

    def ensure_uncut(self) -> None:
        """Do nothing: what is not there cannot be read."""

    def close(self) -> None:
        self._kept.clear()
        self._file.close()

    def _kept_at(self, offset: int) -> tuple[int, bytes] | None:
        """Return the kept window that holds an entry, and where it begins."""
        for start, data in reversed(self._kept):
            if start <= offset and offset + ENTRY_SIZE <= start + len(data):
                return start, data
        return None

    def _read_along(self, offset: int, lowest: int) -> tuple[int, bytes]:
        """Read an entry and what lies before it, and keep that."""
        start = max(lowest, offset - self._window)
        found = start, self.read(start, offset + ENTRY_SIZE - start)
        self._kept.append(found)
        while len(self._kept) > 1 and sum(len(data) for _, data in self._kept) > _KEPT_BYTES:
            del self._kept[0]
        return found

    def _gather(
        self, base: int, dtype: np.dtype[Any], indices: NDArray[np.integer]
    ) -> NDArray[Any]:
        """Read each wanted item once, near ones together, several requests at a time."""
        size = dtype.itemsize
        wanted, places = np.unique(indices, return_inverse=True)
        items = np.empty(len(wanted), dtype)
        requests = list(_requests(base + wanted * size, size))

        def fetch(request: tuple[int, int]) -> None:
            first, last = request
            start = int(wanted[first])
            data = self.read(base + start * size, (int(wanted[last - 1]) - start + 1) * size)
            items[first:last] = np.frombuffer(data, dtype)[wanted[first:last] - start]

        if len(requests) <= 1:
            for request in requests:
                fetch(request)
        else:
            with ThreadPoolExecutor(_REMOTE_THREADS) as pool:
                for _ in pool.map(fetch, requests):
                    pass
        return items[places]


class _UndoneSource(ByteSource):
    """A local file as it was before an append that is not finished.

    Chains may begin at what is appended, once the append has finished and others have followed;
    so :meth:`entries` does not hide it, other than :meth:`read`.
    """

    def __init__(self, source: ByteSource, undo: AppendUndo) -> None:
        self._source = source
        self._undo = undo
        self.path = source.path
        self.size = source.size
        self.identity = source.identity

    def read(self, offset: int, length: int) -> bytes | memoryview:
        record = self._undo.record
        data = self._source.read(offset, length)
        first_slot = record.layout.slot_offset(0)
        start = record.layout.entry_offset(record.first_position)
        if first_slot + record.hash_slot_num * SLOT_SIZE <= offset <= offset + length <= start:
            return data
        patched = bytearray(data)
        header = record.old_bytes[offset : offset + length]
        patched[: len(header)] = header
        stop = min(record.layout.entry_offset(record.index_count), offset + length)
        start = max(start, offset)
        if start < stop:
            patched[start - offset : stop - offset] = bytes(stop - start)
        # The slots that lie wholly or partly in the range; a part is cut out of the whole.
        starts = self._undo.numbers.astype(np.int64) * SLOT_SIZE + first_slot
        inside = slice(*np.searchsorted(starts, [offset - SLOT_SIZE + 1, offset + length]).tolist())
        values = self._undo.values[inside].tolist()
        for start, value in zip(starts[inside].tolist(), values, strict=True):
            begin, end = max(start, offset), min(start + SLOT_SIZE, offset + length)
            slot = value.to_bytes(SLOT_SIZE, "big", signed=True)
            patched[begin - offset : end - offset] = slot[begin - start : end - start]
        return bytes(patched)

    def slots(self, layout: Layout, slots: NDArray[np.integer]) -> NDArray[np.int32]:
        values = self._source.slots(layout, slots)
        numbers = self._undo.numbers
        if len(numbers):
            places = np.minimum(np.searchsorted(numbers, slots), len(numbers) - 1)
            changed = np.flatnonzero(numbers[places] == slots)
            values[changed] = self._undo.values[places[changed]]
        return values

    def entries(self, layout: Layout, positions: NDArray[np.integer]) -> NDArray[Any]:
        return self._source.entries(layout, positions)

    def header(self) -> bytes:
        return self._undo.record.old_bytes

    def latest_index_count(self) -> int:
        return self._source.latest_index_count()

    def is_current(self) -> bool:
        return self._source.is_current()

    def ensure_uncut(self) -> None:
        self._source.ensure_uncut()

    def close(self) -> None:
        self._source.close()


class _ExtendedSource(ByteSource):
    """A file read as if it were extended with zeros, as the broker extends a short one."""

    def __init__(self, source: ByteSource, size: int) -> None:
        self._source = source
        self._real = source.size
        self.path = source.path
        self.size = size
        self.remote = source.remote
        self.identity = source.identity

    def read(self, offset: int, length: int) -> bytes:
        if offset < 0 or offset + length > self.size:
            raise self._truncated(offset, length)
        there = max(0, min(length, self._real - offset))
        data = bytes(self._source.read(offset, there)) if there else b""
        return data.ljust(length, b"\0")

    def slots(self, layout: Layout, slots: NDArray[np.integer]) -> NDArray[np.int32]:
        return self._gather(layout.slot_offset(0), SLOT_DTYPE, slots, layout).astype(np.int32)

    def entries(self, layout: Layout, positions: NDArray[np.integer]) -> NDArray[Any]:
        return self._gather(layout.entry_offset(0), ENTRY_DTYPE, positions, layout)

    def header(self) -> bytes | memoryview:
        return self._source.header() if self._real >= HEADER_SIZE else super().header()

    def latest_index_count(self) -> int:
        return self._source.latest_index_count() if self._real >= HEADER_SIZE else 0

    def is_current(self) -> bool:
        return self._source.is_current()

    def ensure_uncut(self) -> None:
        self._source.ensure_uncut()

    def close(self) -> None:
        self._source.close()

    def _gather(
        self, base: int, dtype: np.dtype[Any], indices: NDArray[np.integer], layout: Layout
    ) -> NDArray[Any]:
        size = dtype.itemsize
        items = np.zeros(len(indices), dtype)
        offsets = base + indices.astype(np.int64) * size
        if len(offsets) and int(offsets.max()) + size > self.size:
            raise self._truncated(int(offsets.max()), size)
        whole = offsets + size <= self._real
        fetch = self._source.slots if size == SLOT_SIZE else self._source.entries
        items[whole] = fetch(layout, indices[whole])
        # At most one item straddles the end of the file.
        straddling = ~whole & (offsets < self._real)
        for offset in np.unique(offsets[straddling]).tolist():
            items[offsets == offset] = np.frombuffer(self.read(offset, size), dtype)
        return items


def open_source(
    path: PathLike,
    *,
    filesystem: pafs.FileSystem | None = None,
    zero_extend_to: int | None = None,
) -> ByteSource:
    """Open a file for reading.

    Args:
        path: A local path or a ``file:`` URI (mapped), or another URI that ``pyarrow.fs`` knows
            (read by ranges).
        filesystem: Where ``path`` lies, instead of what the path itself says.
        zero_extend_to: Read a shorter file as if it were filled up with zeros to this size in
            bytes, as the broker does on loading; nothing on disk changes.

    Returns:
        The open source.

    Raises:
        RmqIndexError: No such file, not a file, or not readable.
    """
    source: ByteSource
    if filesystem is not None or is_remote(path):
        found, inner_path = open_filesystem(path, filesystem)
        source = _RemoteSource(os.fspath(path), found, inner_path)
    else:
        source = _open_local(local_path(path))
    if zero_extend_to is not None and source.size < zero_extend_to:
        return _ExtendedSource(source, zero_extend_to)
    return source


def open_found(
    path: PathLike,
    size: int,
    mark: FileMark | None = None,
    filesystem: pafs.FileSystem | None = None,
) -> ByteSource:
    """Open a file that was found before, as :func:`open_source` does; it may have grown.

    Args:
        path: As :func:`open_source` takes it.
        size: Its size when it was found, bytes.
        mark: What it is recognised by; None where only its size is known.
        filesystem: As :func:`open_source` takes it.

    Raises:
        FileChangedError: It is shorter than it was, or another file.
        RmqIndexError: It is gone, or not readable.
    """
    source = open_source(path, filesystem=filesystem)
    found = source.size
    if found >= size and (mark is None or mark.matches(source)):
        return source
    source.close()
    what = "replaced" if found >= size else f"cut from {size} to {found} bytes"
    raise FileChangedError(path, what)


def _open_local(path: Path) -> ByteSource:
    """Open a file; its header is not that of an append which is not finished, or was undone."""
    return read_steady(path, lambda: _open_once(path))


def _open_once(path: Path) -> ByteSource:
    undo = unfinished_append(path)
    source = _LocalSource(path)
    try:
        count = source.keep_header()
        now = unfinished_append(path)
        if undo is not None and now is not None and now.record == undo.record:
            return _UndoneSource(source, undo)
        if undo is None and now is None and count <= source.latest_index_count():
            return source
    except BaseException:
        source.close()
        raise
    source.close()
    raise UnsteadyError("an append to it began or ended")


def is_remote(path: PathLike) -> bool:
    """Return whether a path is a URI of anything but this machine's own files."""
    match = _URI.match(os.fspath(path))
    return match is not None and match[1].lower() != "file"


def child_uri(directory: str, name: str) -> str:
    """Return the URI of what stands in a directory, with the query of the directory's.

    Args:
        directory: The URI of the directory.
        name: The name, or several with slashes between, as they are.
    """
    base, mark, query = directory.partition("?")
    return f"{base.rstrip('/')}/{quote(name)}{mark}{query}"


def local_path(path: PathLike) -> Path:
    """Return a local path, given as one or as a ``file:`` URI.

    Raises:
        ValueError: A ``file:`` URI that names another host.
    """
    text = os.fspath(path)
    if not text.lower().startswith("file:"):
        return Path(text)
    rest = text[len("file:") :]
    if rest.startswith("//"):
        host, _, rest = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise ValueError(f"path: expected a file URI of this machine, got {text}")
        rest = "/" + rest
    return Path(unquote(rest))


def open_filesystem(
    path: PathLike, filesystem: pafs.FileSystem | None = None
) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a path, and the path inside it.

    Args:
        path: A URI; with ``filesystem``, a path inside it.
        filesystem: Used as it is, where given.

    Raises:
        RmqIndexError: ``pyarrow.fs`` does not know the scheme, or cannot reach the store.
    """
    text = os.fspath(path)
    if filesystem is not None:
        return filesystem, text
    check_no_secret(text)
    scheme, folder, name, query = _split(text)
    try:
        if scheme in SCHEMES:
            found, inner_folder = _s3_filesystem(folder, query)
        else:
            found, inner_folder = _filesystem(f"{scheme}://{folder}", query)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise unreadable(text, error) from error
    return found, f"{inner_folder}/{unquote(name)}" if name else inner_folder


def _split(uri: str) -> tuple[str, str, str, str]:
    """Split a URI into its scheme, its folder, its last name and its query."""
    match = _URI.match(uri)
    if match is None:
        raise ValueError(f"path: expected a URI, got {uri}")
    scheme = match[1].lower()
    rest, mark, query = uri[match.end() :].partition("?")
    folder, _, name = rest.rstrip("/").rpartition("/")
    if not folder:  # the root of a bucket or host has no name of its own
        folder, name = rest, ""
    return scheme, folder, name, mark + query


def _s3_filesystem(folder: str, query: str) -> tuple[pafs.FileSystem, str]:
    """Return the connection to a bucket that files of the same settings share."""
    bucket, _, rest = folder.partition("/")
    inner = f"{bucket}/{unquote(rest)}" if rest else bucket
    return _bucket(bucket, query.removeprefix("?"), current_settings(), _environment()), inner


@lru_cache(maxsize=64)
def _bucket(
    bucket: str,
    query: str,
    settings: S3Settings,
    environment: tuple[str | None, ...],  # noqa: ARG001  (what was found there may have changed)
) -> pafs.FileSystem:
    return connect(bucket, query, settings)


def _environment() -> tuple[str | None, ...]:
    return tuple(value for name, value in sorted(os.environ.items()) if name.startswith("AWS_"))


@lru_cache(maxsize=64)
def _filesystem(folder: str, query: str) -> tuple[pafs.FileSystem, str]:
    """Connect once for all files of a folder: finding a bucket's region is a request."""
    filesystem, inner_path = pafs.FileSystem.from_uri(folder + query)
    return filesystem, inner_path.rstrip("/")


def _requests(offsets: NDArray[np.int64], size: int) -> Iterator[tuple[int, int]]:
    """Yield the spans ``first:last`` of sorted items that one request each fetches."""
    if not len(offsets):
        return
    cuts = np.flatnonzero(np.diff(offsets) > _COALESCE_GAP + size) + 1
    starts = [0, *cuts.tolist()]
    for first, end in zip(starts, [*starts[1:], len(offsets)], strict=True):
        at = first
        while at < end:
            limit = int(offsets[at]) + _MAX_REQUEST - size
            stop = min(end, int(np.searchsorted(offsets, limit, side="right")))
            yield at, stop
            at = stop


def _modified(filesystem: pafs.FileSystem, inner_path: str) -> int:
    """Return when a file was modified, nanoseconds since the epoch; 0 where the store is silent."""
    return filesystem.get_file_info(inner_path).mtime_ns or 0


def _reason(filesystem: pafs.FileSystem, inner_path: str, error: Exception) -> Exception:
    """Return what to say of a file that cannot be opened."""
    if _AWS_ERROR in str(error):
        return error
    kind = filesystem.get_file_info(inner_path).type
    if kind == pafs.FileType.NotFound:
        return FileNotFoundError("no such file")
    if kind == pafs.FileType.Directory:
        return IsADirectoryError("a directory, not a file")
    return error


def unreadable(
    path: str, error: Exception, *, expected: str = "", what: str = "read"
) -> RmqIndexError:
    """Return the error of a storage that failed.

    Args:
        path: What was asked for, a path or a URI.
        error: What the storage said.
        expected: What a store of S3 should have answered.
        what: What could not be done with the path.
    """
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if _AWS_ERROR in reason:
        settings = current_settings()
        reason = f"{settings.hidden_in(reason)} (sent at most {settings.attempts} times)"
        if expected:
            reason = f"expected {expected}, got {reason}"
    return RmqIndexError(f"{path}: cannot be {what}: {reason}")
