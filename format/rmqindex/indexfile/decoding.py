"""Entries as Arrow columns, checked (spec: entries; errors).

An entry is sound when its hash and its seconds are not negative, the entry it points to is older
or itself, and its store time fits into 64 bits. It points to itself where the broker put it after
a kill between the slot and the count of the put before (RocketMQ: ``IndexFile.putKey``); the chain
ends there.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from rmqindex.errors import CorruptIndexError
from rmqindex.layout.columns import required_field
from rmqindex.layout.index_file import (
    ENTRY_DTYPE,
    FIRST_POSITION,
    INT32_MAX,
    INT64_MAX,
    INVALID_INDEX,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqindex.layout.index_file import Geometry

ENTRY_SCHEMA = pa.schema(
    [
        required_field("key_hash", pa.int32()),
        required_field("phy_offset", pa.int64()),
        required_field("store_timestamp", pa.int64()),
        required_field("time_diff", pa.int32()),
        required_field("slot", pa.int32()),
        required_field("position", pa.int32()),
        required_field("prev_position", pa.int32()),
    ]
)
LOOKUP_SCHEMA = pa.schema([required_field("query", pa.int64()), *ENTRY_SCHEMA])

# Arrow's recommended alignment of buffers, in bytes.
_ALIGNMENT = 64
# By the name, which both have: to_pandas_dtype() of PyArrow 18 imports pandas.
_DTYPES = {field.name: np.dtype(str(field.type)) for field in LOOKUP_SCHEMA}

# time_diff counts seconds, timestamps milliseconds.
MILLISECONDS = 1000
_LATEST_ALWAYS_SOUND = INT64_MAX - INT32_MAX * MILLISECONDS


class Links(NamedTuple):
    """The fields that decide whether entries are sound, in native byte order."""

    key_hash: NDArray[np.int32]
    time_diff: NDArray[np.int32]
    prev_position: NDArray[np.int32]

    def take(self, places: NDArray[Any]) -> Links:
        """Return the fields of the entries at places."""
        return Links(*(values[places] for values in self))


def links_of(entries: NDArray[Any]) -> Links:
    """Return the checked fields of ``ENTRY_DTYPE`` entries."""
    return Links(*(entries[name].astype(np.int32) for name in Links._fields))


def malformed(
    links: Links, positions: NDArray[np.int32], begin_timestamp: int
) -> NDArray[np.bool_] | None:
    """Return which entries break a rule, or None where all are sound."""
    # As unsigned numbers, negative positions are beyond every other.
    backward = links.prev_position.view(np.uint32) <= positions.view(np.uint32)
    if not len(positions) or (
        links.key_hash.min() >= 0
        and links.time_diff.min() >= 0
        and backward.all()
        and begin_timestamp <= _LATEST_ALWAYS_SOUND
    ):
        return None
    bad = (links.key_hash < 0) | (links.time_diff < 0) | ~backward
    if begin_timestamp > _LATEST_ALWAYS_SOUND:
        latest = (INT64_MAX - begin_timestamp) // MILLISECONDS
        bad |= (links.time_diff > latest) & (positions != FIRST_POSITION)
    return bad if bad.any() else None


def written(entries: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which entries have a byte other than zero."""
    return np.asarray(entries.view(np.uint8).reshape(len(entries), -1).any(axis=1))


def odd_in_time(phy_offsets: NDArray[np.int64], seconds: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of consecutive entries have another time than their message's others.

    All entries of one message have its store time, so one between two others of its offset has
    theirs. It may differ by the second that a relayout moves entries by.

    Args:
        phy_offsets: The offset of each entry, bytes.
        seconds: The time of each, the first of a file counted as all others.
    """
    odd = np.zeros(len(seconds), np.bool_)
    before, inside, behind = slice(None, -2), slice(1, -1), slice(2, None)
    is_one = (phy_offsets[before] == phy_offsets[inside]) & (
        phy_offsets[inside] == phy_offsets[behind]
    )
    apart = np.abs(seconds[inside] - seconds[before]) > 1
    odd[inside] = is_one & apart & (seconds[before] == seconds[behind])
    return odd


def corrupt_entry(
    path: str, layout: Geometry, position: int, links: Links, place: int
) -> CorruptIndexError:
    """Return the error that names the first broken rule of one malformed entry."""
    start = layout.entry_offset(position)

    def error(field: str, expected: str, got: object) -> CorruptIndexError:
        fields = ENTRY_DTYPE.fields
        assert fields is not None  # a structured dtype
        return CorruptIndexError(path, field, start + fields[field][1], expected, got)

    key_hash, time_diff, prev = (int(values[place]) for values in links)
    where = f"(entry {position})"
    if key_hash < 0:
        return error("key_hash", f"0 to {INT32_MAX} {where}", key_hash)
    if not INVALID_INDEX <= prev <= position:
        return error("prev_position", f"0 to {position} {where}", prev)
    if time_diff < 0:
        return error("time_diff", f"0 to {INT32_MAX} seconds {where}", time_diff)
    return error("time_diff", f"a store time within 64 bits {where}", time_diff)


def slots_of(
    key_hash: NDArray[np.int32], layout: Geometry, out: NDArray[np.int32] | None = None
) -> NDArray[np.int32]:
    """Return the slots of hashes that are not negative: ``key_hash % hash_slot_num``."""
    # NumPy divides by a scalar several times faster than it takes remainders.
    divisor = np.int32(layout.hash_slot_num)
    slots = np.floor_divide(key_hash, divisor, out=out)
    slots *= divisor
    return np.subtract(key_hash, slots, out=slots)


class EntryColumns:
    """Entries decoded piece by piece into the columns of one batch.

    ``store_timestamp`` is ``begin_timestamp`` plus ``time_diff`` seconds; that of the first entry
    is exactly ``begin_timestamp``, whatever its ``time_diff`` (spec: the inherited header).
    """

    def __init__(
        self, schema: pa.Schema, capacity: int, layout: Geometry, begin_timestamp: int
    ) -> None:
        """Allocate the columns."""
        self._schema = schema
        self._layout = layout
        self._begin_timestamp = begin_timestamp
        self._filled = 0
        # Arrow's memory is kept for the next batch; the C library would return it to the system
        # each time.
        sizes = [capacity * _DTYPES[name].itemsize for name in schema.names]
        starts = [0, *accumulate(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)]
        memory = pa.allocate_buffer(starts[-1])
        self._buffers = [
            memory.slice(start, size) for start, size in zip(starts, sizes, strict=False)
        ]
        self._columns = {
            name: np.frombuffer(memory, _DTYPES[name], capacity, start)
            for name, start in zip(schema.names, starts, strict=False)
        }

    def links_of(self, entries: NDArray[Any]) -> Links:
        """Decode the checked fields of the next entries, directly into the columns."""
        decoded = []
        for name in Links._fields:
            column = self._columns.get(name)
            if column is None:
                decoded.append(entries[name].astype(np.int32))
            else:
                target = column[self._filled : self._filled + len(entries)]
                target[:] = entries[name]
                decoded.append(target)
        return Links(*decoded)

    def append(
        self,
        entries: NDArray[Any],
        positions: NDArray[np.int32],
        links: Links,
        queries: NDArray[np.int64] | None = None,
    ) -> None:
        """Add sound entries."""
        start, self._filled = self._filled, self._filled + len(entries)
        for name, column in self._columns.items():
            target = column[start : self._filled]
            if name == "phy_offset":
                target[:] = entries[name]
            elif name == "position":
                target[:] = positions
            elif name == "slot":
                slots_of(links.key_hash, self._layout, out=target)
            elif name == "store_timestamp":
                target[:] = links.time_diff
                target *= MILLISECONDS
                target[np.flatnonzero(positions == FIRST_POSITION)] = 0
                target += self._begin_timestamp
            elif name == "query":
                target[:] = queries
            else:
                values = getattr(links, name)
                if not np.may_share_memory(values, target):  # it was decoded there
                    target[:] = values

    def finish(self) -> pa.RecordBatch:
        """Return the batch."""
        arrays = [
            pa.Array.from_buffers(field.type, self._filled, [None, buffer])
            for field, buffer in zip(self._schema, self._buffers, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
