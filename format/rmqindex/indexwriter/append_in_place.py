"""Appends to an IndexFile in place (spec: put; RocketMQ: ``IndexFile.putKey``).

Continuing a copy of a file costs as much as the file is long, however few the entries.
An append in place writes only the pages of the entries' slots, the places behind the last entry,
and the header, in the broker's order.
Its undo is known before anything changes, and kept in the journal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqindex.indexwriter.appender import EntryAppender, header_to_write, repair_slots, stale_slots
from rmqindex.indexwriter.linking import slot_numbers
from rmqindex.transaction.append_undo import AppendUndo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from rmqindex.indexfile.geometry import Layout
    from rmqindex.layout.index_file import IndexHeader

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
        with path.open("rb", buffering=0) as file:
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
    return np.unique(np.concatenate([np.empty(0, np.int32), *parts])), total
