"""Files of this machine, mapped into memory."""

from __future__ import annotations

import mmap
import os
import stat
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqindex.errors import CorruptIndexError
from rmqindex.layout import (
    ENTRY_DTYPE,
    SLOT_DTYPE,
)
from rmqindex.storage.identity import FileIdentity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqindex.layout import Geometry
from rmqindex.storage.filesystem import unreadable
from rmqindex.storage.location import Location, PathLike
from rmqindex.storage.source import IndexSource

__all__ = ["LocalSource"]


# Reads shorter than this (bytes) are scattered ones: read-ahead, which can be megabytes, would load
# pages that nobody needs.
_SHORT_READ = 64 * 1024

# With more items than this, a gather touches most pages anyway, and read-ahead helps.
_FEW_ITEMS = 4096


class LocalSource(IndexSource):
    """A memory-mapped file."""

    def __init__(self, path: PathLike) -> None:
        """Open the file."""
        location = Location.of(path)
        self.path = location
        try:
            if not stat.S_ISREG(os.stat(location).st_mode):  # noqa: PTH116  (opening a pipe would block)
                raise unreadable(location, OSError("not a file"))
            file = os.open(location, os.O_RDONLY | os.O_CLOEXEC)
            try:
                self.identity = FileIdentity.of_stat(os.fstat(file))
                self.size = self.identity.size
                # An empty file cannot be mapped.
                self._map = (
                    mmap.mmap(file, self.size, access=mmap.ACCESS_READ) if self.size else None
                )
            finally:
                os.close(file)
        except (OSError, ValueError) as error:
            raise unreadable(location, error) from error
        self._data = memoryview(self._map) if self._map is not None else memoryview(b"")
        self._advice = mmap.MADV_NORMAL

    def read(self, offset: int, length: int) -> memoryview:
        """Return bytes, as :meth:`ByteSource.read`."""
        if offset < 0 or offset + length > self.size:
            raise self._truncated_error(offset, length)
        self._advise(mmap.MADV_RANDOM if length < _SHORT_READ else mmap.MADV_NORMAL)
        return self._data[offset : offset + length]

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

    def _size_now(self) -> int:
        # The size of a mapping is read from its file.
        return self.size if self._map is None else self._map.size()

    def close(self) -> None:
        """Release the file."""
        # Views that callers still hold keep the mapping alive; without any, it is freed at once.
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
            raise self._truncated_error(base + highest * dtype.itemsize, dtype.itemsize)
        self._advise(mmap.MADV_RANDOM if len(indices) < _FEW_ITEMS else mmap.MADV_NORMAL)
        items = np.frombuffer(self._data, dtype, available, base)
        return items.take(indices)

    def _advise(self, advice: int) -> None:
        """Tell the kernel how the file is read, so that a cold lookup touches few pages."""
        if advice != self._advice and self._map is not None:
            self._map.madvise(advice)
            self._advice = advice
