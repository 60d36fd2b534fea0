"""Entries as Arrow columns, checked (spec: entries; errors).

An entry is sound when its hash and its seconds are not negative, the entry it points to is older,
and its store time fits into 64 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from rmqindex._errors import CorruptIndexError
from rmqindex._layout import ENTRY_DTYPE, FIRST_POSITION, INT32_MAX, INT64_MAX, INVALID_INDEX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from rmqindex._layout import Layout

__all__ = [
    "ENTRY_SCHEMA",
    "LOOKUP_SCHEMA",
    "MILLISECONDS",
    "Links",
    "corrupt_entry",
    "entry_columns",
    "links_of",
    "malformed",
    "slots_of",
    "to_batch",
]

ENTRY_SCHEMA = pa.schema(
    [
        pa.field("key_hash", pa.int32(), nullable=False),
        pa.field("phy_offset", pa.int64(), nullable=False),
        pa.field("store_timestamp", pa.int64(), nullable=False),
        pa.field("time_diff", pa.int32(), nullable=False),
        pa.field("slot", pa.int32(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("prev_position", pa.int32(), nullable=False),
    ]
)
LOOKUP_SCHEMA = pa.schema([pa.field("query", pa.int64(), nullable=False), *ENTRY_SCHEMA])

# time_diff counts seconds, timestamps milliseconds.
MILLISECONDS = 1000
_LATEST_ALWAYS_SOUND = INT64_MAX - INT32_MAX * MILLISECONDS


class Links(NamedTuple):
    """What decides whether entries are sound, in native byte order."""

    key_hash: NDArray[np.int32]
    time_diff: NDArray[np.int32]
    prev_position: NDArray[np.int32]


def links_of(entries: NDArray[Any]) -> Links:
    """Return the checked fields of ``ENTRY_DTYPE`` entries."""
    return Links(*(entries[name].astype(np.int32) for name in Links._fields))


def malformed(
    links: Links, positions: NDArray[np.int32], begin_timestamp: int
) -> NDArray[np.bool_] | None:
    """Return which entries break a rule, or None where all are sound.

    Args:
        links: The fields that are checked.
        positions: The entries' positions, int32.
        begin_timestamp: The header's, epoch milliseconds.
    """
    negative = links.key_hash | links.time_diff | links.prev_position
    bad = (negative < 0) | (links.prev_position >= positions)
    if begin_timestamp > _LATEST_ALWAYS_SOUND:
        latest = (INT64_MAX - begin_timestamp) // MILLISECONDS
        bad |= (links.time_diff > latest) & (positions != FIRST_POSITION)
    return bad if bad.any() else None


def corrupt_entry(
    path: str, layout: Layout, position: int, links: Links, place: int
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
    if not INVALID_INDEX <= prev < position:
        return error("prev_position", f"0 to {position - 1} {where}", prev)
    if time_diff < 0:
        return error("time_diff", f"0 to {INT32_MAX} seconds {where}", time_diff)
    return error("time_diff", f"a store time within 64 bits {where}", time_diff)


def entry_columns(
    entries: NDArray[Any],
    positions: NDArray[np.int32],
    *,
    links: Links,
    layout: Layout,
    begin_timestamp: int,
    columns: Iterable[str],
) -> list[NDArray[Any]]:
    """Return columns of ``ENTRY_SCHEMA`` for sound entries.

    ``store_timestamp`` is ``begin_timestamp`` plus ``time_diff`` seconds; that of the first entry
    is exactly ``begin_timestamp``, whatever its ``time_diff`` (spec: the inherited header).
    """
    decoded: list[NDArray[Any]] = []
    for name in columns:
        if name == "position":
            decoded.append(positions)
        elif name == "phy_offset":
            decoded.append(entries["phy_offset"].astype(np.int64))
        elif name == "slot":
            decoded.append(slots_of(links.key_hash, layout))
        elif name == "store_timestamp":
            decoded.append(_store_timestamps(links.time_diff, positions, begin_timestamp))
        else:
            decoded.append(getattr(links, name))
    return decoded


def _store_timestamps(
    time_diff: NDArray[np.int32], positions: NDArray[np.int32], begin_timestamp: int
) -> NDArray[np.int64]:
    times = time_diff * np.int64(MILLISECONDS)
    times[positions == FIRST_POSITION] = 0
    times += begin_timestamp
    return times


def slots_of(key_hash: NDArray[np.int32], layout: Layout) -> NDArray[np.int32]:
    """Return the slots of hashes: ``key_hash % hash_slot_num``."""
    # NumPy divides by a scalar several times faster than it takes remainders.
    divisor = np.uint32(layout.hash_slot_num)
    values = key_hash.view(np.uint32)
    return (values - values // divisor * divisor).view(np.int32)


def to_batch(schema: pa.Schema, columns: list[NDArray[Any]]) -> pa.RecordBatch:
    """Return NumPy columns as one batch, without a copy."""
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
