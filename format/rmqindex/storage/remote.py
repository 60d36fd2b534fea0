"""Files of an object store, read by ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmqindex.layout.index_file import (
    ENTRY_DTYPE,
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT_DTYPE,
)
from rmqindex.storage.identity import FileChangedError, FileIdentity

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from rmqindex.layout.index_file import Geometry
    from rmqindex.storage.location import Location
from rmqindex.storage.filesystem import (
    modified_time,
    open_failure,
    open_filesystem,
    unreadable,
)
from rmqindex.storage.source import IndexSource

# Two ranges no further apart than this (bytes) cost less as one request than as two.
_COALESCE_GAP = 8 * 1024

# The most bytes of one request, so that a gather over a whole file stays bounded.
_MAX_REQUEST = 4 * 1024 * 1024

# Requests in flight at once: they mostly wait.
_REMOTE_THREADS = 8

# Up to this many chains are followed by windows: older entries lie before newer ones, so each
# request also reads the bytes before an entry, twice as many at each step, and chains of thousands
# take tens of requests.
_FEW_CHAINS = 16

_FIRST_WINDOW = 4 * 1024

# The most bytes of such windows to keep.
_KEPT_BYTES = 16 * 1024 * 1024


class RemoteSource(IndexSource):
    """A file of a ``pyarrow.fs`` file system, read by ranges."""

    remote = True

    def __init__(self, location: Location) -> None:
        """Open the file."""
        self.path = self._location = location
        self._place = open_filesystem(location)
        self._file, self.identity = self._open()
        self.size = self.identity.size
        self._head = b""
        self._window = 0
        self._kept: list[tuple[int, bytes]] = []

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes, as :meth:`ByteSource.read`."""
        if offset < 0 or offset + length > self.size:
            raise self._truncated_error(offset, length)
        try:
            data: bytes = self._file.read_at(length, offset)
        except Exception as error:  # file systems in Python raise their own
            raise unreadable(
                self._location, error, expected=f"bytes {offset} to {offset + length - 1}"
            ) from error
        if len(data) != length:
            raise FileChangedError(self.path, f"cut from {self.size} to {offset + len(data)} bytes")
        return data

    def header(self) -> bytes:
        """Return the header."""
        if not self._head:
            self._head = self.read(0, HEADER_SIZE)
        return self._head

    def slots(self, layout: Geometry, slots: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return slots, as :meth:`ByteSource.slots`."""
        # Chains begin at their slots, so a new traversal begins here.
        self._window = 0
        self._kept.clear()
        return self._gather(layout.slot_offset(0), SLOT_DTYPE, slots).astype(np.int32)

    def entries(self, layout: Geometry, positions: NDArray[np.integer]) -> NDArray[Any]:
        """Return entries, as :meth:`ByteSource.entries`."""
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

    def _open(self) -> tuple[pa.NativeFile, FileIdentity]:
        """Open the file by one request to the store."""
        filesystem, inner_path = self._place
        try:
            file = filesystem.open_input_file(inner_path)
            return file, FileIdentity.of_object(
                file.size(), file.metadata(), lambda: modified_time(filesystem, inner_path)
            )
        except Exception as error:  # file systems in Python raise their own
            # Only a failure is worth the request for the object's type.
            problem = open_failure(filesystem, inner_path, error)
            raise unreadable(self._location, problem, expected="the file's size") from error

    def is_current(self) -> bool:
        """Return whether the path may still lead to the opened file."""
        file, identity = self._open()
        file.close()
        return self.identity.names_same(identity)

    def ensure_uncut(self) -> None:
        """Do nothing: reading behind the end of an object fails by itself."""

    def close(self) -> None:
        """Release the file."""
        self._kept.clear()
        self._file.close()

    def _kept_at(self, offset: int) -> tuple[int, bytes] | None:
        """Return the kept window that holds an entry, and where it begins."""
        for start, data in reversed(self._kept):
            if start <= offset and offset + ENTRY_SIZE <= start + len(data):
                return start, data
        return None

    def _read_along(self, offset: int, lowest: int) -> tuple[int, bytes]:
        """Read an entry with the window before it, and keep the window."""
        start = max(lowest, offset - self._window)
        found = start, self.read(start, offset + ENTRY_SIZE - start)
        self._kept.append(found)
        while len(self._kept) > 1 and sum(len(data) for _, data in self._kept) > _KEPT_BYTES:
            del self._kept[0]
        return found

    def _gather(
        self, base: int, dtype: np.dtype[Any], indices: NDArray[np.integer]
    ) -> NDArray[Any]:
        """Read each item once, neighbours by one request, several requests at a time."""
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
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  (remote)

            with ThreadPoolExecutor(_REMOTE_THREADS) as pool:
                for _ in pool.map(fetch, requests):
                    pass
        return items[places]


def _requests(offsets: NDArray[np.int64], size: int) -> Iterator[tuple[int, int]]:
    """Yield the spans ``first:last`` of sorted items to fetch by one request each."""
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
