"""Files of this machine: a few short reads at a time, or mapped into memory.

The first touch of a page of a mapping costs as much as ten short reads, but each page only once.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqindex.errors import CorruptIndexError
from rmqindex.layout.index_file import (
    ENTRY_DTYPE,
    SLOT_DTYPE,
)
from rmqindex.storage.identity import FileIdentity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rmqindex.layout.index_file import Geometry
from rmqindex.storage.filesystem import unreadable
from rmqindex.storage.location import Location, PathLike
from rmqindex.storage.source import IndexSource

# Reads shorter than this (bytes) are scattered ones: read-ahead, which can be megabytes, would load
# pages that nobody needs.
_SHORT_READ = 64 * 1024

# After as many short reads of a file, it is mapped: a read costs as much as mapping so many bytes.
_SHORT_READ_COST = 8 * 1024
_LEAST_SHORT_READS = 64
_MOST_SHORT_READS = 16_384

# With more items than this, a gather touches most pages anyway, and read-ahead helps.
_FEW_ITEMS = 4096


class LocalSource(IndexSource):
    """A file that is read in short pieces until it pays to map it."""

    def __init__(self, path: PathLike) -> None:
        """Open the file."""
        location = Location.of(path)
        self.path = location
        try:
            if not stat.S_ISREG(os.stat(location).st_mode):  # noqa: PTH116  (opening a pipe would block)
                raise unreadable(location, OSError("not a file"))
            self._file: int | None = os.open(location, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            raise unreadable(location, error) from error
        self._close_file = weakref.finalize(self, os.close, self._file)
        self._close_file.atexit = False  # where a thread may still be reading
        self.identity = FileIdentity.of_stat(os.fstat(self._file))
        self.size = self.identity.size
        self._lock = threading.RLock()  # no thread reads a descriptor that another has closed
        affordable = max(_LEAST_SHORT_READS, self.size // _SHORT_READ_COST)
        self._short_reads_left = min(affordable, _MOST_SHORT_READS)
        self._map: mmap.mmap | None = None
        self._data: memoryview | None = None
        self._advice = mmap.MADV_NORMAL
        advise_file(self._file, "POSIX_FADV_RANDOM")

    def read(self, offset: int, length: int) -> bytes | memoryview:
        """Return bytes, as :meth:`ByteSource.read`."""
        if offset < 0 or offset + length > self.size:
            raise self._truncated_error(offset, length)
        if length < _SHORT_READ and self._takes_short_reads(1):
            return self._read_short(offset, length)
        data = self._mapped()
        self._advise_mapping(mmap.MADV_RANDOM if length < _SHORT_READ else mmap.MADV_NORMAL)
        return data[offset : offset + length]

    def slots(self, layout: Geometry, slots: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return slots, as :meth:`ByteSource.slots`."""
        return self._gather(layout.slot_offset(0), SLOT_DTYPE, slots).astype(np.int32)

    def entries(self, layout: Geometry, positions: NDArray[np.integer]) -> NDArray[Any]:
        """Return entries, as :meth:`ByteSource.entries`."""
        return self._gather(layout.entry_offset(0), ENTRY_DTYPE, positions)

    def is_current(self) -> bool:
        """Return whether the path may still lead to the opened file."""
        return self._size_now() >= self.size

    def ensure_uncut(self) -> None:
        """Raise if the file was truncated."""
        size = self._size_now()
        if size < self.size:
            raise CorruptIndexError(
                self.path, "file_size", size, f"{self.size} bytes, as when it was opened", size
            )

    def _ranges(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a range that the disk has, without those that were never written."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:  # it was removed
            yield start, stop
            return
        try:
            if not self.identity.names_same(FileIdentity.of_stat(os.fstat(file))):
                yield start, stop
                return
            at = start
            while at < stop:
                try:
                    first = os.lseek(file, at, os.SEEK_DATA)
                    last = os.lseek(file, first, os.SEEK_HOLE) if first < stop else stop
                except OSError as error:
                    if error.errno != errno.ENXIO:  # the file system cannot tell
                        yield at, stop
                    return
                if first < stop:
                    yield first, min(last, stop)
                at = last
        finally:
            os.close(file)

    def _size_now(self) -> int:
        with self._lock:
            if self._map is not None:
                return self._map.size()
            return self.size if self._file is None else os.fstat(self._file).st_size

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            # Views that callers hold keep the mapping alive; without any, it is freed at once.
            self._data = memoryview(b"")
            self._map = None
            self.size = 0
            self._forget_file()

    def _gather(
        self, base: int, dtype: np.dtype[Any], indices: NDArray[np.integer]
    ) -> NDArray[Any]:
        if not len(indices):
            return np.empty(0, dtype)
        size = dtype.itemsize
        available = max(0, (self.size - base) // size)
        highest = int(indices.max())
        if highest >= available:
            raise self._truncated_error(base + highest * size, size)
        if self._data is None:
            lowest = int(indices.min())
            stretch = (highest - lowest + 1) * size
            if stretch < min(_SHORT_READ, len(indices) * mmap.PAGESIZE):
                items = np.frombuffer(self.read(base + lowest * size, stretch), dtype)
                return items.take(indices - lowest)
        if self._takes_short_reads(len(indices)):
            parts = [self._read_short(base + index * size, size) for index in indices.tolist()]
            return np.frombuffer(bytearray().join(parts), dtype)
        data = self._mapped()
        self._advise_mapping(mmap.MADV_RANDOM if len(indices) < _FEW_ITEMS else mmap.MADV_NORMAL)
        return np.frombuffer(data, dtype, available, base).take(indices)

    def _takes_short_reads(self, count: int) -> bool:
        """Count short reads to come; return whether they are made without a mapping."""
        if self._data is not None:
            return False
        self._short_reads_left -= count
        return self._short_reads_left >= 0

    def _read_short(self, offset: int, length: int) -> bytes:
        with self._lock:
            if self._file is None:  # mapped since
                data = bytes(self._mapped()[offset : offset + length])
            else:
                try:
                    data = os.pread(self._file, length, offset)
                except OSError as error:
                    raise unreadable(Location.of(self.path), error) from error
        if len(data) < length:
            self.ensure_uncut()
            raise self._truncated_error(offset, length)
        return data

    def _mapped(self) -> memoryview:
        """Return the bytes of the whole file."""
        with self._lock:
            if self._data is None:
                assert self._file is not None  # it is neither mapped nor closed
                self.ensure_uncut()
                advise_file(self._file, "POSIX_FADV_NORMAL")
                try:
                    # An empty file cannot be mapped.
                    self._map = (
                        mmap.mmap(self._file, self.size, access=mmap.ACCESS_READ)
                        if self.size
                        else None
                    )
                except (OSError, ValueError) as error:
                    raise unreadable(Location.of(self.path), error) from error
                self._data = memoryview(self._map if self._map is not None else b"")
                self._forget_file()  # the mapping has its own descriptor
            return self._data

    def _forget_file(self) -> None:
        self._file = None
        self._close_file()

    def _advise_mapping(self, advice: int) -> None:
        """Tell the kernel how the mapping is read, so that a cold lookup touches few pages."""
        if advice != self._advice and self._map is not None:
            self._map.madvise(advice)
            self._advice = advice


def advise_file(file: int, advice: str) -> None:
    """Tell the kernel how a file is read, on systems that can be told."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file, 0, 0, getattr(os, advice))
