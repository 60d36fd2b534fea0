"""Writes one IndexFile (spec: put, header, writer rules; RocketMQ: ``IndexFile``)."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Self

import numpy as np

from rmqindex.arguments import int_array, int_of, text_of
from rmqindex.errors import CorruptIndexError
from rmqindex.indexfile.geometry import Layout
from rmqindex.indexwriter.appender import (
    EntryAppender,
    header_to_write,
    repair_slots,
    slot_numbers,
    stale_slots,
)
from rmqindex.keys.hash_set import distinct
from rmqindex.keys.hashing import key_hash
from rmqindex.layout.index_file import INDEX_COUNT_OFFSET, INT32_MAX, IndexHeader
from rmqindex.layout.store import INDEX_FOLDER
from rmqindex.storage.disk import open_to_read
from rmqindex.storage.location import Location
from rmqindex.transaction.append_undo import AppendUndo
from rmqindex.transaction.broker_lock import BrokerLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray

    from rmqindex.arguments import IntArray
    from rmqindex.storage.location import PathLike


class IndexFileWriter:
    """Writes one IndexFile, byte for byte as the broker does.

    A path that does not exist, or is an empty file, becomes a sparse file of the layout's size.
    An existing file is continued at the end that its header gives.

    New entries become visible with :meth:`flush` or :meth:`close`: the entries are written
    first, then the slots, the header last.
    After an exception in the ``with`` block, or a kill, the header counts the same entries as at
    the last flush.
    A kill between slots and header can leave slots that point beyond the count, which the broker
    treats as empty; opening the file again by a writer repairs them.

    One writer at a time may have a file open; its methods may be called from several threads.
    While one has a file in the folder ``index`` of a store, no broker can start there, and no other
    process can write into the store.

    Example:
        >>> import pathlib, tempfile
        >>> from rmqindex import IndexFileWriter, Layout
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "20240102030405678"
        >>> with IndexFileWriter(path, Layout(hash_slot_num=97, index_num=200)) as writer:
        ...     writer.put("TopicTest#order-1", phy_offset=0, store_timestamp=1_700_000_000_000)
        ...     writer.put_many([7, 104], [211, 422], [1_700_000_000_037, 1_700_000_001_000])
        True
        2
        >>> writer.header.index_count
        4
    """

    def __init__(
        self,
        path: PathLike,
        layout: Layout | None,
        prev_end_phy_offset: int = 0,
        prev_end_timestamp: int = 0,
        *,
        allow_live_store: bool = False,
    ) -> None:
        """Create the file, or open it to continue.

        Args:
            path: A local path or a ``file:`` URI.
            layout: The geometry; ``None`` infers that of an existing file.
            prev_end_phy_offset: For a new file: where the last message of the file before it
                starts, bytes.
                It becomes the header's offsets until the first put; values below 1 are ignored.
            prev_end_timestamp: For a new file: the file before it's ``end_timestamp``, epoch
                milliseconds.
                It becomes the header's timestamps until the first put, whose ``time_diff`` is
                taken against it; values below 1 are ignored.
            allow_live_store: Write even if a broker runs on the store.

        Raises:
            ValueError: ``prev_end_phy_offset`` or ``prev_end_timestamp`` for a file that is
                there, no layout for one that is not, or a path that is not local.
            CorruptIndexError: A file that is there has not the layout's size, or counts more
                entries than fit.
            RmqIndexError: The geometry of an existing file cannot be inferred, a broker runs on the
                store, or another process writes into it.
            OSError: The file cannot be opened or made.
        """
        prev_end_phy_offset = int_of("prev_end_phy_offset", prev_end_phy_offset)
        prev_end_timestamp = int_of("prev_end_timestamp", prev_end_timestamp)
        local = Location.of(path).local
        if local is None:
            raise ValueError(f"{path}: only a local file can be written")
        self._path = local
        self._lock = threading.RLock()
        folder = local.absolute().parent
        lock = BrokerLock.around(folder) if folder.name == INDEX_FOLDER else BrokerLock((), folder)
        self._hold = lock.hold(allow_live_store=allow_live_store)
        try:
            self._appender = open_appender(local, layout, prev_end_phy_offset, prev_end_timestamp)
        except BaseException:
            self._hold.close()
            raise

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def layout(self) -> Layout:
        """The geometry of the file."""
        return self._appender.layout

    @property
    def header(self) -> IndexHeader:
        """The header with everything put so far, flushed or not."""
        with self._lock:
            return self._appender.header

    @property
    def is_write_full(self) -> bool:
        """Whether the next put returns False (``IndexFile.isWriteFull``)."""
        return not self._appender.free

    def put(self, key: str, phy_offset: int, store_timestamp: int) -> bool:
        """Append one entry (``IndexFile.putKey``).

        Args:
            key: The whole ``topic#key``.
            phy_offset: Where the message starts in the CommitLog, bytes, int64.
            store_timestamp: Epoch milliseconds, int64.

        Returns:
            False, and nothing done, when the file is full.

        Raises:
            ValueError: A number beyond 64 bits, or the writer is closed.
            TypeError: The key is not a string, or a number not an int.
            OSError: The disk is full or broken; the writer is then closed.
        """
        hash_of_key = key_hash(text_of("key", key))
        phy_offset = int_of("phy_offset", phy_offset)
        store_timestamp = int_of("store_timestamp", store_timestamp)
        with self._lock:
            self._check_open()
            return self._appender.put(hash_of_key, phy_offset, store_timestamp)

    def put_many(
        self, key_hashes: IntArray, phy_offsets: IntArray, store_timestamps: IntArray
    ) -> int:
        """Append entries in the order given, until the file is full.

        The three are sequences of ints, NumPy arrays or Arrow arrays of any integer type, of the
        same length.
        They are checked as a whole before the first entry is put.

        Args:
            key_hashes: Hashes of whole index keys, 0 to 2**31 - 1, as :func:`rmqindex.key_hashes`
                and :func:`rmqindex.index_key_hashes` return them.
            phy_offsets: Where the messages start in the CommitLog, bytes, int64.
            store_timestamps: Epoch milliseconds, int64.

        Returns:
            How many fitted; the others belong in the next file.

        Raises:
            ValueError: A null or a number out of range, with its place; other lengths; or the
                writer is closed.
            TypeError: Not integers.
            OSError: The disk is full or broken; the writer is then closed.
        """
        hashes = int_array("key_hashes", key_hashes, 0, INT32_MAX).astype(np.int32, copy=False)
        offsets = int_array("phy_offsets", phy_offsets).astype(np.int64, copy=False)
        timestamps = int_array("store_timestamps", store_timestamps).astype(np.int64, copy=False)
        for name, array in (("phy_offsets", offsets), ("store_timestamps", timestamps)):
            if len(array) != len(hashes):
                raise ValueError(
                    f"{name}: expected {len(hashes)}, as many as key_hashes, got {len(array)}"
                )
        with self._lock:
            self._check_open()
            return self._appender.put_many(hashes, offsets, timestamps)

    def flush(self) -> None:
        """Make everything put so far visible, and sync it to disk.

        Raises:
            ValueError: The writer is closed.
            OSError: The disk is full or broken; the writer is then closed.
        """
        with self._lock:
            self._check_open()
            self._appender.flush()

    def close(self) -> None:
        """Flush and close the file; a second call does nothing.

        Raises:
            OSError: The disk is full or broken.
        """
        with self._lock, self._hold:
            if not self._appender.closed:
                try:
                    self._appender.flush()
                finally:
                    self._appender.close()

    def __enter__(self) -> Self:
        """Return the writer itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file; after an exception without a flush."""
        if exc_type is None:
            self.close()
        else:
            with self._lock, self._hold:
                self._appender.close()

    def _check_open(self) -> None:
        if self._appender.closed:
            raise ValueError(f"{self._path}: the writer is closed")


def open_appender(
    path: Path,
    layout: Layout | None,
    prev_end_phy_offset: int = 0,
    prev_end_timestamp: int = 0,
) -> EntryAppender:
    """Create a file, or open one and repair its slots, as :class:`IndexFileWriter`."""
    exists = path.exists() and path.stat().st_size > 0
    if exists and (prev_end_phy_offset or prev_end_timestamp):
        raise ValueError(
            f"{path}: a file that is there keeps what it inherited: give no "
            "prev_end_phy_offset and no prev_end_timestamp to resume it"
        )
    if layout is None:
        if not exists:
            raise ValueError(f"{path}: a new file needs a layout")
        layout = Layout.infer(path)
    if not exists:
        return EntryAppender.create(path, layout, prev_end_phy_offset, prev_end_timestamp)
    _check_resumable(path, layout)
    appender = EntryAppender.resume(path, layout)
    repair_slots(appender, stale_slots(appender))
    return appender


def _check_resumable(path: Path, layout: Layout) -> None:
    """Refuse a file that does not fit the layout, before reading by it."""
    with open(path, "rb", opener=open_to_read) as file:
        size = os.fstat(file.fileno()).st_size
        if size != layout.file_size:
            raise CorruptIndexError(path, "file_size", size, f"{layout.file_size} bytes", size)
        index_count = IndexHeader.from_bytes(header_to_write(path, file.fileno())).index_count
    if index_count > layout.index_num:
        raise CorruptIndexError(
            path, "index_count", INDEX_COUNT_OFFSET, f"at most {layout.index_num}", index_count
        )


#: Key hashes, offsets in bytes, store times in epoch milliseconds: int32, int64, int64.
Entries = tuple["NDArray[np.int32]", "NDArray[np.int64]", "NDArray[np.int64]"]


class InPlaceAppend:
    """A planned append; nothing changes before :meth:`apply`.

    Attributes:
        undo: Its undo.
    """

    undo: AppendUndo

    def __init__(
        self,
        path: Path,
        layout: Layout,
        key_hashes: Iterable[NDArray[np.int32]],
        entries: Callable[[], Iterable[Entries]],
        end: tuple[int, int],
        *,
        trusted: bool = False,
    ) -> None:
        """Plan an append.

        No other process may write to the file meanwhile.
        """
        self._path = path
        self._entries = entries
        numbers, total = _slots_of(key_hashes, layout.hash_slot_num)
        with open(path, "rb", 0, opener=open_to_read) as file:
            header = header_to_write(path, file.fileno())
        self._appender = EntryAppender.resume(path, layout, numbers if trusted else None)
        if total > self._appender.free:
            self.close()
            raise ValueError(f"{path}: {self._appender.free} entries fit, got {total} to append")
        try:
            stale = stale_slots(self._appender) if not trusted else np.empty(0, np.int64)
            changed = np.union1d(numbers, stale).astype(np.int32)
            values = self._appender.slots[changed]
            places = self._appender.places(total)
            repair_slots(self._appender, stale)
        except BaseException:
            self.close()
            raise
        self.undo = AppendUndo.plan(path.name, layout, header, total, end, changed, values, places)

    def apply(self) -> IndexHeader:
        """Append the entries and sync them to disk; return the new header."""
        record = self.undo.record
        try:
            for key_hashes, phy_offsets, store_timestamps in self._entries():
                fitted = self._appender.put_many(key_hashes, phy_offsets, store_timestamps)
                assert fitted == len(key_hashes), "what was planned fits"
            self._appender.flush()
            header = self._appender.header
            is_planned = (header.index_count, header.end_phy_offset, header.end_timestamp) == (
                record.index_count,
                record.end_phy_offset,
                record.end_timestamp,
            )
            assert is_planned, "the entries are those that were planned"
            return header
        finally:
            self.close()

    def close(self) -> None:
        """Close the file; an append that was not applied is dropped."""
        self._appender.close()


class InPlaceFlush:
    """A flush of the entries that a file holds behind the counted ones.

    Attributes:
        undo: Its undo.
    """

    undo: AppendUndo

    def __init__(self, name: str, appender: EntryAppender) -> None:
        """Plan the flush."""
        self._appender = appender
        header, was = appender.header, appender.written_header
        self.undo = AppendUndo.plan(
            name,
            appender.layout,
            was.to_bytes(),
            header.entry_count - was.entry_count,
            (header.end_phy_offset, header.end_timestamp),
            *appender.overwritten_slots(),
            appender.old_places,
        )

    def apply(self) -> IndexHeader:
        """Flush and sync to disk; return the new header."""
        self._appender.flush()
        return self._appender.header


def _slots_of(
    key_hashes: Iterable[NDArray[np.int32]], hash_slot_num: int
) -> tuple[NDArray[np.integer], int]:
    """Return the slots of all hashes, ascending, and how many hashes there are."""
    total = 0
    is_touched: NDArray[np.bool_] | None = None
    parts: list[NDArray[np.int32]] = []
    for hashes in key_hashes:
        total += len(hashes)
        parts.append(slot_numbers(np.ascontiguousarray(hashes), hash_slot_num))
        if len(parts) > 1 or is_touched is not None:  # so that the number of slots bounds memory
            if is_touched is None:
                is_touched = np.zeros(hash_slot_num, dtype=np.bool_)
            for part in parts:
                is_touched[part] = True
            parts = []
    if is_touched is not None:
        return np.flatnonzero(is_touched), total
    return distinct(np.concatenate([np.empty(0, np.int32), *parts])), total
