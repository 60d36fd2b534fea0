"""Appending entries to one open IndexFile (spec: put; RocketMQ: ``IndexFile.putKey``).

It trusts its arguments: :class:`~rmqindex.IndexFileWriter` and :class:`~rmqindex.IndexDirectory`
check them, and the files, beforehand.

Entries go into the file as they come, beyond the header's count, where nothing reads them.
Slots stay in memory, and a flush writes the entries, then the slots that changed, then the header,
each on disk before the next, so that the header never counts a missing entry.
Plain writes are used, not a writable mapping: a full disk is then an ``OSError``, not a signal.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from rmqindex.errors import RmqIndexError
from rmqindex.indexwriter.file_lock import held
from rmqindex.layout.index_file import (
    ENTRY_DTYPE,
    ENTRY_SIZE,
    ENTRY_STRUCT,
    FIRST_POSITION,
    HEADER_SIZE,
    INT32_MAX,
    INVALID_INDEX,
    SLOT_DTYPE,
    SLOT_SIZE,
    IndexHeader,
)
from rmqindex.storage.disk import move_synced, naming, sync_name
from rmqindex.storage.opening import flushing
from rmqindex.storage.writable import WritableFile
from rmqindex.transaction.append_undo import restore_places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rmqindex.indexfile.geometry import Layout
    from rmqindex.indexwriter.file_lock import FileHold


# How many entries are linked at a time: their working arrays stay in the processor's cache.
LINK_BATCH = 1 << 14

_SLOT_SHIFT = np.uint64(32)


def slot_numbers(key_hashes: NDArray[np.int32], hash_slot_num: int) -> NDArray[np.int32]:
    """Return the slot of every hash: ``key_hash % hash_slot_num``."""
    # NumPy divides by a scalar with vector instructions, but takes remainders one at a time.
    unsigned = key_hashes.view(np.uint32)
    divisor = np.uint32(hash_slot_num)
    return (unsigned - unsigned // divisor * divisor).view(np.int32)


def link(
    slots: NDArray[np.int32], numbers: NDArray[np.int32], first_position: int
) -> tuple[NDArray[np.int32], int]:
    """Link new entries into ``slots``; return previous positions, and how many slots were empty.

    Like the broker, it treats a slot value that is not positive, or greater than the entry's own
    position, as empty.
    """
    positions = np.arange(first_position, first_position + len(numbers), dtype=np.int32)
    wanted = numbers.astype(np.intp)  # once, not at each use
    previous = slots.take(wanted)
    previous[(previous < INVALID_INDEX) | (previous > positions)] = INVALID_INDEX
    slots[wanted] = positions  # of repeated slots, NumPy keeps the last assignment
    newest = slots.take(wanted)
    is_member = newest != positions
    overtaken = np.flatnonzero(is_member)
    if overtaken.size:
        is_member[newest[overtaken] - np.int32(first_position)] = True  # the entries that overtook
        # them
        members = np.flatnonzero(is_member).astype(np.uint64)
        order = np.sort((numbers[members].astype(np.uint64) << _SLOT_SHIFT) | members)
        places = order.astype(np.uint32)  # keeps the lower half: the place in the batch
        same_slot = np.diff(order >> _SLOT_SHIFT) == 0
        previous[places[1:][same_slot]] = positions[places[:-1][same_slot]]
    return previous, int(np.count_nonzero(previous == INVALID_INDEX))


_MILLIS_PER_SECOND = 1000
# Slots are marked as changed and written back by pages of the file, so that a file with few entries
# stays sparse.
_PAGE_SIZE = 4096
_PAGE_SLOTS = _PAGE_SIZE // SLOT_SIZE
_HEADER_SLOTS = HEADER_SIZE // SLOT_SIZE
_READ_SLOTS = 1 << 18
_READ_BYTES = 1 << 20


class EntryAppender:
    """One IndexFile, open for appending.

    Attributes:
        layout: The geometry.
        slots: int32, native byte order: the newest position of every slot.
    """

    def __init__(self, hold: FileHold, layout: Layout, header: IndexHeader) -> None:
        """Take over a held file whose slots are all empty; see :meth:`create`, :meth:`resume`."""
        self.layout = layout
        self._hold, self._file = hold, hold.file
        self._path = Path(hold.file.name)
        self._written_header = header
        self._begin_timestamp = header.begin_timestamp
        self._end_timestamp = header.end_timestamp
        self._begin_phy_offset = header.begin_phy_offset
        self._end_phy_offset = header.end_phy_offset
        self._hash_slot_count = header.hash_slot_count
        self._index_count = max(header.index_count, FIRST_POSITION)
        self._pending = bytearray()  # entries of single puts that are not in the file yet
        self._has_new_entries = False
        self._changed_pages = np.zeros(self._slot_page(layout.hash_slot_num - 1) + 1, dtype=bool)
        self._batch = np.empty(LINK_BATCH, dtype=ENTRY_DTYPE)
        self._is_new = self._is_resumed = False
        self._old_places = b""
        self.slots = np.zeros(layout.hash_slot_num, dtype=np.int32)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        layout: Layout,
        prev_end_phy_offset: int,
        prev_end_timestamp: int,
    ) -> Self:
        """Make a sparse IndexFile without entries, ``index_count`` 0 on disk."""
        offset, timestamp = max(prev_end_phy_offset, 0), max(prev_end_timestamp, 0)
        header = IndexHeader(timestamp, timestamp, offset, offset)
        with held(WritableFile(path, os.O_RDWR | os.O_CREAT)) as hold:
            if os.fstat(hold.file.fileno()).st_size:
                raise FileExistsError(f"{path}: expected no file, got one with content")
            hold.file.resize(layout.file_size)
            hold.file.write_at(header.to_bytes(), 0)
            appender = cls(hold, layout, header)
            appender._is_new = True
            return appender

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        layout: Layout,
        numbers: NDArray[np.integer] | None = None,
    ) -> Self:
        """Open an IndexFile where its header says it ended.

        An ``index_count`` of 0 or less counts as 1, as when the broker loads a file.
        """
        with held(WritableFile(path, os.O_RDWR)) as hold:
            header = IndexHeader.from_bytes(header_to_write(path, hold.file.fileno()))
            appender = cls(hold, layout, header)
            appender._is_resumed = True
            if numbers is None:
                appender._read_slots(0, layout.hash_slot_num)
            else:
                wanted = np.zeros(len(appender._changed_pages), dtype=np.bool_)
                wanted[cls._slot_page(numbers)] = True
                for start, stop in appender._slot_ranges(wanted):
                    appender._read_slots(start, stop)
            return appender

    @property
    def header(self) -> IndexHeader:
        """The header as the next flush writes it."""
        return IndexHeader(
            self._begin_timestamp,
            self._end_timestamp,
            self._begin_phy_offset,
            self._end_phy_offset,
            self._hash_slot_count,
            self._index_count,
        )

    @property
    def written_header(self) -> IndexHeader:
        """The header as it is in the file."""
        return self._written_header

    def overwritten_slots(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the slots that the next flush writes, ascending, and their values in the file."""
        numbers, values = [np.empty(0, np.int32)], [np.empty(0, SLOT_DTYPE)]
        for start, stop in self._slot_ranges(self._changed_pages):
            size, offset = (stop - start) * SLOT_SIZE, self.layout.slot_offset(start)
            numbers.append(np.arange(start, stop, dtype=np.int32))
            values.append(np.frombuffer(self._file.read_at(size, offset), SLOT_DTYPE))
        return np.concatenate(numbers), np.concatenate(values).astype(np.int32)

    @property
    def old_places(self) -> bytes:
        """What the places of the unflushed entries held, without zeros at the end.

        Usually that is nothing, but a killed broker leaves entries there.
        """
        return self._old_places

    def places(self, entries: int) -> bytes:
        """Return what places behind the last entry hold, without zeros at the end."""
        return self._held(self._index_count, entries * ENTRY_SIZE)

    @property
    def has_changes(self) -> bool:
        """Whether the next flush changes the file."""
        return self.header != self._written_header or bool(self._changed_pages.any())

    def drop(self) -> None:
        """Restore the places of entries that were put since the last flush, and close the file."""
        first = max(self._written_header.index_count, FIRST_POSITION)
        size = (self._index_count - first) * ENTRY_SIZE - len(self._pending)
        restore_places(self._file, self.layout.entry_offset(first), size, self._old_places)
        self.close()

    @property
    def free(self) -> int:
        """How many more entries fit."""
        return max(self.layout.index_num - self._index_count, 0)

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._file.closed

    def put(self, key_hash: int, phy_offset: int, store_timestamp: int) -> bool:
        """Append one entry and return True; do nothing and return False when the file is full."""
        self._hold.ensure_own()
        if not self.free:
            return False
        slot = key_hash % self.layout.hash_slot_num
        previous = int(self.slots[slot])
        if not INVALID_INDEX < previous <= self._index_count:
            previous = INVALID_INDEX
        self._pending += ENTRY_STRUCT.pack(
            key_hash, phy_offset, self._time_diff(store_timestamp), previous
        )
        self._has_new_entries = True
        self.slots[slot] = self._index_count
        self._changed_pages[self._slot_page(slot)] = True
        self._count(1, int(previous == INVALID_INDEX), phy_offset, store_timestamp)
        if self._index_count == FIRST_POSITION + 1:
            self._begin_phy_offset = phy_offset
            self._begin_timestamp = store_timestamp
        if len(self._pending) >= LINK_BATCH * ENTRY_SIZE:
            self._write_pending()
        return True

    def put_many(
        self,
        key_hashes: NDArray[np.int32],
        phy_offsets: NDArray[np.int64],
        store_timestamps: NDArray[np.int64],
    ) -> int:
        """Append entries until the file is full, and return how many were appended."""
        self._hold.ensure_own()
        count = min(len(key_hashes), self.free)
        done = 0
        if count and self._index_count == FIRST_POSITION:
            # Only the first entry's seconds are counted from the inherited time.
            self.put(int(key_hashes[0]), int(phy_offsets[0]), int(store_timestamps[0]))
            done = 1
        self._write_pending()
        try:
            for start in range(done, count, LINK_BATCH):
                batch = slice(start, min(start + LINK_BATCH, count))
                self._put_batch(key_hashes[batch], phy_offsets[batch], store_timestamps[batch])
        except BaseException:  # an interrupted batch may be linked but not written
            self.close()
            raise
        return count

    def _put_batch(
        self,
        key_hashes: NDArray[np.int32],
        phy_offsets: NDArray[np.int64],
        store_timestamps: NDArray[np.int64],
    ) -> None:
        numbers = slot_numbers(np.ascontiguousarray(key_hashes), self.layout.hash_slot_num)
        previous, new_slots = link(self.slots, numbers, self._index_count)
        batch = self._batch[: len(numbers)]
        batch["key_hash"] = key_hashes
        batch["phy_offset"] = phy_offsets
        batch["time_diff"] = self._time_diffs(store_timestamps)
        batch["prev_position"] = previous
        self._write_entries(batch)
        if not self._changed_pages.all():
            self._changed_pages[self._slot_page(numbers)] = True
        self._count(len(numbers), new_slots, int(phy_offsets[-1]), int(store_timestamps[-1]))

    def _time_diff(self, store_timestamp: int) -> int:
        """Return what :meth:`_time_diffs` returns, for one entry and without an array."""
        if self._begin_timestamp <= 0:
            return 0
        elapsed = _wrap(store_timestamp - self._begin_timestamp, 64)
        return min(max(elapsed // _MILLIS_PER_SECOND, 0), INT32_MAX)

    def _time_diffs(self, store_timestamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return whole seconds since the first entry, 0 to 2**31 - 1.

        The difference wraps around like Java's 64-bit subtraction.
        Rounding down equals the broker's truncation, since negative results become 0.
        """
        if self._begin_timestamp <= 0:
            return np.zeros(len(store_timestamps), dtype=np.int64)
        seconds = store_timestamps - np.int64(self._begin_timestamp)
        seconds //= _MILLIS_PER_SECOND
        np.maximum(seconds, 0, out=seconds)
        np.minimum(seconds, INT32_MAX, out=seconds)
        return seconds

    def _count(self, entries: int, new_slots: int, phy_offset: int, store_timestamp: int) -> None:
        self._index_count += entries
        self._hash_slot_count = _wrap(self._hash_slot_count + new_slots, 32)
        self._end_phy_offset = phy_offset
        self._end_timestamp = store_timestamp

    def _write_pending(self) -> None:
        if self._pending:
            entries = len(self._pending) // ENTRY_SIZE
            self._write_places(self._pending, self._index_count - entries)
            self._pending = bytearray()

    def _write_entries(self, batch: NDArray[np.void]) -> None:
        self._has_new_entries = True
        self._write_places(batch.view(np.uint8).data, self._index_count)

    def _write_places(self, data: bytearray | memoryview, position: int) -> None:
        if self._is_resumed and (held := self._held(position, len(data))):
            first = max(self._written_header.index_count, FIRST_POSITION)
            before = self._old_places.ljust((position - first) * ENTRY_SIZE, b"\0")
            self._old_places = before + held
        self._write(data, self.layout.entry_offset(position))

    def _held(self, position: int, size: int) -> bytes:
        """Return the bytes at a position, without zeros at the end."""
        held, offset = b"", self.layout.entry_offset(position)
        for start in range(0, size, _READ_BYTES):
            part = self._file.read_at(min(_READ_BYTES, size - start), offset + start)
            if part.count(0) < len(part):
                held = held.ljust(start, b"\0") + part.rstrip(b"\0")
        return held

    def flush(self) -> None:
        """Make everything that was put visible to readers, and sync it to disk.

        A power failure cannot undo or reorder the writes, nor lose the name of a new file.
        """
        self._write_pending()
        if self._has_new_entries:
            self._file.sync_data()
        with flushing(self._file):
            if self._write_slots():
                self._file.sync_data()
            self._write_header()
        self._file.sync()
        if self._is_new:
            sync_name(self._path)
            self._is_new = False

    def flush_unseen(self) -> None:
        """Flush a file that has no readers yet, in any order and without syncing its name."""
        self._write_pending()
        self._write_slots()
        self._write_header()
        self._file.sync()

    def publish(self, path: Path) -> None:
        """Flush a file that nobody reads yet, and give it the name under which it is read."""
        self.flush_unseen()
        move_synced(self._path, path)
        self._path = path

    def _write_header(self) -> None:
        header = self.header
        if header != self._written_header:
            self._write(header.to_bytes(), 0)
            self._written_header = header
            self._has_new_entries = False
            self._old_places = b""

    def close(self) -> None:
        """Close the file without a flush."""
        self._pending = bytearray()
        if not self._file.closed:
            self._hold.release()
        self._file.close()

    def mark_slots_changed(self, numbers: NDArray[np.int64]) -> None:
        """Have the next flush write slots that the caller changed in :attr:`slots`."""
        self._changed_pages[self._slot_page(numbers)] = True

    def _write_slots(self) -> bool:
        """Write the changed pages of slots; return whether there were any."""
        is_changed = bool(self._changed_pages.any())
        for start, stop in self._slot_ranges(self._changed_pages):
            data = self.slots[start:stop].astype(SLOT_DTYPE).view(np.uint8).data
            self._write(data, self.layout.slot_offset(start))
        self._changed_pages[:] = False
        return is_changed

    def _slot_ranges(self, pages: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
        """Yield the slots on pages, first and end, in bounded ranges."""
        edges = np.flatnonzero(np.diff(pages, prepend=False, append=False))
        for first_page, end_page in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            for page in range(first_page, end_page, _READ_SLOTS // _PAGE_SLOTS):
                stop_page = min(page + _READ_SLOTS // _PAGE_SLOTS, end_page)
                start = max(page * _PAGE_SLOTS - _HEADER_SLOTS, 0)
                yield start, min(stop_page * _PAGE_SLOTS - _HEADER_SLOTS, self.layout.hash_slot_num)

    def _read_slots(self, first: int, end: int) -> None:
        for start in range(first, end, _READ_SLOTS):
            stop = min(start + _READ_SLOTS, end)
            data = self._file.read_at((stop - start) * SLOT_SIZE, self.layout.slot_offset(start))
            self.slots[start:stop] = np.frombuffer(data, dtype=SLOT_DTYPE)

    def counted_entries(self) -> Iterator[tuple[int, NDArray[np.void]]]:
        """Yield the counted entries in batches, each with the position of its first."""
        count = min(self._written_header.index_count, self.layout.index_num)
        for start in range(FIRST_POSITION, count, LINK_BATCH):
            size = (min(start + LINK_BATCH, count) - start) * ENTRY_SIZE
            data = self._file.read_at(size, self.layout.entry_offset(start))
            yield start, np.frombuffer(data, dtype=ENTRY_DTYPE)

    def _write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        self._hold.ensure_own()
        try:
            self._file.write_at(data, offset)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _slot_page(number: NDArray[np.integer] | int) -> NDArray[np.integer] | int:
        """Return the page of the file, from 0, that contains a slot."""
        return (number + _HEADER_SLOTS) // _PAGE_SLOTS


def _wrap(value: int, bits: int) -> int:
    """Wrap a value around like Java's signed integers of so many bits."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def header_to_write(path: str | os.PathLike[str], descriptor: int) -> bytes:
    """Return the bytes of the header of a local file that is open for writing.

    Readers use :func:`rmqindex.indexfile.committed.read_header`.
    """
    with naming(path):
        data = os.pread(descriptor, HEADER_SIZE, 0)
    if len(data) < HEADER_SIZE:
        raise RmqIndexError(
            f"{os.fspath(path)}: expected a header of {HEADER_SIZE} bytes, got {len(data)}: the "
            "file was cut"
        )
    return data


def stale_slots(appender: EntryAppender) -> NDArray[np.int64]:
    """Return the numbers of the slots that point at no counted entry, ascending.

    A writer that died between its slots and its header leaves them. The broker treats them as
    empty, and so loses the older entries of their chains.
    """
    slots = appender.slots
    return np.flatnonzero((slots < INVALID_INDEX) | (slots >= appender.header.index_count))


def repair_slots(appender: EntryAppender, numbers: NDArray[np.int64]) -> None:
    """Point stale slots at their newest counted entry; the next flush writes them.

    The counted entries' hashes determine it, whatever became of the uncounted ones; a negative
    hash, which only damage leaves, is of no slot.
    """
    if not len(numbers):
        return
    slots = appender.slots
    slots[numbers] = INVALID_INDEX
    is_stale = np.zeros(len(slots), dtype=np.bool_)
    is_stale[numbers] = True
    for first_position, entries in appender.counted_entries():
        hashes = entries["key_hash"].astype(np.int32)
        of_entries = slot_numbers(hashes, appender.layout.hash_slot_num)
        places = np.flatnonzero(is_stale[of_entries] & (hashes >= 0))
        slots[of_entries[places]] = (first_position + places).astype(np.int32)
    appender.mark_slots_changed(numbers)
