"""Reads an IndexFile as its last finished commit left it (spec: reading a file).

While a commit appends to a file in place, or after one died doing that, a source returns the header
and the slots that the file had before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmqindex.errors import CorruptIndexError, RmqIndexError
from rmqindex.layout.index_file import (
    BEGIN_PHY_OFFSET_OFFSET,
    BEGIN_TIMESTAMP_OFFSET,
    ENTRY_DTYPE,
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT_DTYPE,
    SLOT_SIZE,
    IndexHeader,
)
from rmqindex.storage.local import LocalSource
from rmqindex.storage.location import Location, PathLike
from rmqindex.storage.opening import UnsteadyError, ensure_found, read_steady, wait_for_flush
from rmqindex.storage.remote import RemoteSource
from rmqindex.storage.source import IndexSource
from rmqindex.transaction.directories import append_place, unfinished_append

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.fs as pafs
    from numpy.typing import NDArray

    from rmqindex.layout.index_file import Geometry
    from rmqindex.storage.opening import FileMark
    from rmqindex.transaction.append_undo import AppendUndo

#: tieredstore IndexStoreFile.BEGIN_MAGIC_CODE and END_MAGIC_CODE.
TIERED_MAGICS = (bytes.fromhex("bcc50289"), bytes.fromhex("bcc50285"))

# Rows that are read at once.
_BLOCK_ROWS = 1 << 18


class _CommittedSource(LocalSource):
    """A local IndexFile without an unfinished append."""

    def __init__(self, path: Location) -> None:
        super().__init__(path)
        self._header: bytes | None = None

    def keep_header(self) -> int:
        """Read and keep the header; return its ``index_count``."""
        if self.size < HEADER_SIZE:
            return 0
        header = bytearray(self.read(0, HEADER_SIZE))
        # A broker sets these before it counts the first entry, so they may be older than the count.
        for offset in (BEGIN_TIMESTAMP_OFFSET, BEGIN_PHY_OFFSET_OFFSET):
            header[offset : offset + 8] = self.read(offset, 8)
        self._header = bytes(header)
        return IndexHeader.from_bytes(self._header).index_count

    def header(self) -> bytes | memoryview:
        return self.read(0, HEADER_SIZE) if self._header is None else self._header

    def latest_index_count(self) -> int:
        # Read the journal before the header: a commit that ends in between has written its header.
        undo = unfinished_append(self.path)
        if undo is None:
            wait_for_flush(self.path)
        count = self.stored_index_count()
        return count if undo is None else max(count, undo.record.index_count)

    def stored_index_count(self) -> int:
        """Return what the header has now, whoever wrote it."""
        return 0 if self.size < HEADER_SIZE else super().latest_index_count()


class _UndoneSource(IndexSource):
    """A local file as of before an unfinished append.

    Once that append has finished and others have followed, chains may begin at its entries; so
    :meth:`entries` does not hide these, unlike :meth:`read`.
    """

    def __init__(self, source: IndexSource, undo: AppendUndo) -> None:
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
        # The slots that overlap the range, to be clipped to it.
        starts = self._undo.numbers.astype(np.int64) * SLOT_SIZE + first_slot
        inside = slice(*np.searchsorted(starts, [offset - SLOT_SIZE + 1, offset + length]).tolist())
        values = self._undo.values[inside].tolist()
        for start, value in zip(starts[inside].tolist(), values, strict=True):
            begin, end = max(start, offset), min(start + SLOT_SIZE, offset + length)
            slot = value.to_bytes(SLOT_SIZE, "big", signed=True)
            patched[begin - offset : end - offset] = slot[begin - start : end - start]
        return bytes(patched)

    def slots(self, layout: Geometry, slots: NDArray[np.integer]) -> NDArray[np.int32]:
        values = self._source.slots(layout, slots)
        numbers = self._undo.numbers
        if len(numbers):
            places = np.minimum(np.searchsorted(numbers, slots), len(numbers) - 1)
            changed = np.flatnonzero(numbers[places] == slots)
            values[changed] = self._undo.values[places[changed]]
        return values

    def entries(self, layout: Geometry, positions: NDArray[np.integer]) -> NDArray[Any]:
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


def _open_local(path: Location) -> IndexSource:
    """Open a file with a header that does not come from an unfinished or undone append."""
    return read_steady(path, lambda: _open_once(path))


def _open_once(path: Location) -> IndexSource:
    place = append_place(path)
    undo = unfinished_append(path, place)
    source = _CommittedSource(path)
    try:
        count = source.keep_header()
        now = unfinished_append(path, place)
        if undo is not None and now is not None and now.record == undo.record:
            return _UndoneSource(source, undo)
        if undo is None and now is None and count <= source.stored_index_count():
            return source
    except BaseException:
        source.close()
        raise
    source.close()
    raise UnsteadyError("an append to it began or ended")


class _ExtendedSource(IndexSource):
    """A file read as if it were extended with zeros, as the broker extends a short one."""

    def __init__(self, source: IndexSource, size: int) -> None:
        self._source = source
        self._real = source.size
        self.path = source.path
        self.size = size
        self.remote = source.remote
        self.identity = source.identity

    def read(self, offset: int, length: int) -> bytes:
        if offset < 0 or offset + length > self.size:
            raise self._truncated_error(offset, length)
        there = max(0, min(length, self._real - offset))
        data = bytes(self._source.read(offset, there)) if there else b""
        return data.ljust(length, b"\0")

    def slots(self, layout: Geometry, slots: NDArray[np.integer]) -> NDArray[np.int32]:
        return self._gather(layout.slot_offset(0), SLOT_DTYPE, slots, layout).astype(np.int32)

    def entries(self, layout: Geometry, positions: NDArray[np.integer]) -> NDArray[Any]:
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
        self, base: int, dtype: np.dtype[Any], indices: NDArray[np.integer], layout: Geometry
    ) -> NDArray[Any]:
        size = dtype.itemsize
        items = np.zeros(len(indices), dtype)
        offsets = base + indices.astype(np.int64) * size
        if len(offsets) and int(offsets.max()) + size > self.size:
            raise self._truncated_error(int(offsets.max()), size)
        whole = offsets + size <= self._real
        fetch = self._source.slots if size == SLOT_SIZE else self._source.entries
        items[whole] = fetch(layout, indices[whole])
        # At most one item straddles the end of the file.
        straddling = ~whole & (offsets < self._real)
        for offset in np.unique(offsets[straddling]).tolist():
            items[offsets == offset] = np.frombuffer(self.read(offset, size), dtype)
        return items


def open_index_source(
    path: PathLike,
    *,
    filesystem: pafs.FileSystem | None = None,
    zero_extend_to: int | None = None,
) -> IndexSource:
    """Open an IndexFile for reading.

    Args:
        path: As ``open_source`` takes it.
        filesystem: The file system that the path lies in; None to find it by the URI.
        zero_extend_to: Read a shorter file as if it were extended with zeros to this size in bytes,
            as the broker does on loading; nothing on disk changes.

    Raises:
        RmqIndexError: No such file, not a file, or not readable.
    """
    location = Location.of(path, filesystem)
    source = RemoteSource(location) if location.local is None else _open_local(location)
    if zero_extend_to is not None and source.size < zero_extend_to:
        return _ExtendedSource(source, zero_extend_to)
    return source


def open_found_index(path: PathLike, mark: FileMark | None) -> IndexSource:
    """Open an IndexFile that was found before; it may have grown."""
    source = open_index_source(path)
    ensure_found(source, 0 if mark is None else mark.identity.size, mark)
    return source


def read_header(source: IndexSource, hint: str = "") -> IndexHeader:
    """Read the header of an open IndexFile, as the last finished commit left it."""
    if source.size < HEADER_SIZE:
        raise CorruptIndexError(
            source.path, "header", 0, f"{HEADER_SIZE} bytes", f"a file of {source.size} bytes", hint
        )
    refuse_tiered_file(source)
    return IndexHeader.from_bytes(source.header())


def header_of(path: PathLike) -> IndexHeader:
    """Read the header of an IndexFile."""
    with open_index_source(path) as source:
        return read_header(source)


def entry_rows(source: IndexSource) -> Iterator[NDArray[Any]]:
    """Yield the entries of a file in blocks, the last ones first, and then rows that are none.

    All geometries that its size allows have the same rows, counted from its end.
    """
    stop = source.size
    while stop >= HEADER_SIZE + ENTRY_SIZE:
        rows = min((stop - HEADER_SIZE) // ENTRY_SIZE, _BLOCK_ROWS)
        stop -= rows * ENTRY_SIZE
        yield np.frombuffer(source.read(stop, rows * ENTRY_SIZE), ENTRY_DTYPE)


def refuse_tiered_file(source: IndexSource) -> None:
    """Refuse an index file of the tiered storage, which begins with a magic number."""
    if bytes(source.header()[:4]) in TIERED_MAGICS:
        raise RmqIndexError(
            f"{source.path}: an index file of RocketMQ's tiered storage, which is not supported"
        )
