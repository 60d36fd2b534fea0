"""The bytes of one file, opened for reading."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rmqindex.errors import CorruptIndexError
from rmqindex.layout.index_file import (
    ENTRY_DTYPE,
    ENTRY_SIZE,
    HEADER_SIZE,
    INDEX_COUNT_OFFSET,
    SLOT_SIZE,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from numpy.typing import NDArray

    from rmqindex.layout.index_file import Geometry
    from rmqindex.storage.identity import FileIdentity

# Bytes that a search for one other than zero reads at once, locally and from a remote store.
_LOCAL_WINDOW = 4 * 1024 * 1024
_REMOTE_WINDOW = 8 * 1024 * 1024
# A remote range is read to its end only if it is no longer than a window; behind the first window,
# so many probes of so many bytes at even distances, the last one at its end, stand for the rest.
_PROBES = 16
_PROBE_BYTES = 64 * 1024


class ByteSource(ABC):
    """The bytes of one file, opened for reading; a context manager.

    Attributes:
        path: The file's name in errors.
        size: Its size in bytes when it was opened; nothing behind it is ever read.
        remote: Whether each read is a request to a remote store.
        identity: Which file it was when it was opened.
    """

    path: str
    size: int
    identity: FileIdentity
    remote: bool = False

    @abstractmethod
    def read(self, offset: int, length: int) -> bytes | memoryview:
        """Return ``length`` bytes from ``offset``, both in bytes."""

    def first_nonzero(self, start: int, stop: int) -> int | None:
        """Return the place of the first byte of a range that is not zero; None without one.

        A long range of a remote file is probed, not read to its end.
        """
        for first, last in self._ranges(start, min(stop, self.size)):
            window = _REMOTE_WINDOW if self.remote else _LOCAL_WINDOW
            for at in range(first, last, window):
                data = np.frombuffer(self.read(at, min(window, last - at)), np.uint8)
                words = data[: len(data) // 8 * 8].view(np.uint64)
                if words.any() or data[len(words) * 8 :].any():
                    return at + int(np.argmax(data != 0))
        return None

    def _ranges(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a range that may hold bytes other than zero."""
        whole = min(stop, start + _REMOTE_WINDOW) if self.remote else stop
        yield start, whole
        step = -(-(stop - whole) // _PROBES)
        for behind in range(whole + step, stop + step, step) if step else ():
            at = min(behind, stop)
            yield max(whole, at - _PROBE_BYTES), at

    @abstractmethod
    def is_current(self) -> bool:
        """Return whether the path may still lead to the opened file, and that is not shorter."""

    @abstractmethod
    def ensure_uncut(self) -> None:
        """Raise if the file was truncated since it was opened.

        In a mapped file that was truncated, the rest of the last page reads as zeros, and reading a
        page behind it kills the process.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the file; a second call does nothing."""

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

    def _truncated_error(self, offset: int, length: int) -> CorruptIndexError:
        return CorruptIndexError(
            self.path, "file_size", self.size, f"at least {offset + length} bytes", self.size
        )


class IndexSource(ByteSource):
    """The bytes of one IndexFile.

    Open it by :func:`rmqindex.indexfile.open_index_source` only, which leaves out the changes of an
    unfinished commit.
    """

    def header(self) -> bytes | memoryview:
        """Return the header as it was when the file was opened."""
        return self.read(0, HEADER_SIZE)

    @abstractmethod
    def slots(self, layout: Geometry, slots: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return the values of hash slots, numbered from 0, in native byte order."""

    @abstractmethod
    def entries(self, layout: Geometry, positions: NDArray[np.integer]) -> NDArray[Any]:
        """Return the entries at any positions, as ``ENTRY_DTYPE``."""

    def entry_range(self, layout: Geometry, start: int, stop: int) -> NDArray[Any]:
        """Return the entries from ``start`` to before ``stop``; the caller bounds them."""
        data = self.read(layout.entry_offset(start), (stop - start) * ENTRY_SIZE)
        return np.frombuffer(data, ENTRY_DTYPE)

    def latest_index_count(self) -> int:
        """Return the position up to which the file may hold entries by now, exclusive.

        A writer stores entries and slots before the header, so call this after reading the slot to
        judge.
        """
        return int.from_bytes(self.read(INDEX_COUNT_OFFSET, SLOT_SIZE), "big", signed=True)
