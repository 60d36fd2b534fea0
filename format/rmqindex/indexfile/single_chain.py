"""Walking the chain of one hash without arrays (spec: lookup).

For a single hash, the calls of NumPy and Arrow cost many times the work itself.
This module answers the sound and simple cases, which are nearly all, and leaves any other to
:mod:`rmqindex.indexfile.chains`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from rmqindex.indexfile.decoding import MILLISECONDS
from rmqindex.layout.index_file import ENTRY_SIZE, FIRST_POSITION, INT64_MAX, INVALID_INDEX

if TYPE_CHECKING:
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.storage.source import IndexSource

__all__ = ["PointEntry", "walk_one"]

_SLOT = struct.Struct(">i")
_ENTRY = struct.Struct(">iqii")
# Longer chains are faster to walk for many keys at once, or to replace by a scan.
_MAX_STEPS = 256


class PointEntry(NamedTuple):
    """An entry: the columns of ``ENTRY_SCHEMA``."""

    key_hash: int
    phy_offset: int
    store_timestamp: int
    time_diff: int
    slot: int
    position: int
    prev_position: int


def walk_one(
    source: IndexSource, layout: Layout, begin: int, key_hash: int, limit: int
) -> list[PointEntry] | None:
    """Return the entries of a hash, newest first; None for a long, broken or growing chain."""
    read, slot_num, entries = source.read, layout.hash_slot_num, layout.entry_offset(0)
    slot = key_hash % slot_num
    (position,) = _SLOT.unpack(read(layout.slot_offset(slot), _SLOT.size))
    if not INVALID_INDEX <= position < limit:
        return None
    found: list[PointEntry] = []
    for _ in range(_MAX_STEPS):
        if position == INVALID_INDEX:
            return found
        data = read(entries + position * ENTRY_SIZE, ENTRY_SIZE)
        hash_, phy_offset, time_diff, previous = _ENTRY.unpack(data)
        stored = begin + (time_diff * MILLISECONDS if position != FIRST_POSITION else 0)
        if (
            hash_ < 0
            or time_diff < 0
            or not INVALID_INDEX <= previous <= position
            or previous == position > FIRST_POSITION  # older ones are cut off
            or hash_ % slot_num != slot
            or stored > INT64_MAX
        ):
            return None
        if hash_ == key_hash:
            found.append(PointEntry(hash_, phy_offset, stored, time_diff, slot, position, previous))
        position = previous if previous != position else INVALID_INDEX
    return None
