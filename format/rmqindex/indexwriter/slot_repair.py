"""Repairs slots that an unfinished flush left beyond the count (spec: put, writer rules).

A writer that died between its slots and its header leaves slots that point at uncounted entries.
The broker treats them as empty, and so loses the older entries of their chains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqindex.indexwriter.linking import slot_numbers
from rmqindex.layout.index_file import INVALID_INDEX

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqindex.indexwriter.appender import EntryAppender

__all__ = ["repair_slots", "stale_slots"]


def stale_slots(appender: EntryAppender) -> NDArray[np.int64]:
    """Return the numbers of the slots that point at no counted entry, ascending."""
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
