"""The broker's own search of one file, quirks included (spec: the broker's search).

It mirrors ``IndexFile.selectPhyOffset`` step by step; the module ``chains`` finds all entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmqindex.errors import CorruptIndexError
from rmqindex.indexfile.decoding import MILLISECONDS
from rmqindex.layout.index_file import (
    ENTRY_DTYPE,
    ENTRY_SIZE,
    FIRST_POSITION,
    INVALID_INDEX,
    SLOT_DTYPE,
    SLOT_SIZE,
)

if TYPE_CHECKING:
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.layout.index_file import IndexHeader
    from rmqindex.storage.source import IndexSource

# A broker that meets a cycle repeats it until its caller has enough; no caller needs more.
_MAX_CYCLE_RESULTS = 1 << 20

# After so many steps that were all this short, a crowded chain is read by whole stretches.
_SHORT_STEPS = 32
_SHORT_STEP = 16
_STRETCH = 1024

_UINT32 = 1 << 32
_UINT64 = 1 << 64


def select_phy_offset(
    source: IndexSource,
    layout: Layout,
    header: IndexHeader,
    key_hash: int,
    *,
    max_num: int,
    begin: int,
    end: int,
) -> list[int]:
    """Find a hash's messages exactly as the broker does."""
    found: list[int] = []
    count = header.index_count
    entries = _BrokerReads(source, layout)
    position = _skip_newer(source, entries, entries.head(key_hash % layout.hash_slot_num), count)
    if count <= FIRST_POSITION or not INVALID_INDEX < position <= count:
        return found
    climbs: dict[int, int] = {}
    while len(found) < max_num:
        entry = entries.at(position)
        if entry is None:
            break
        hashed, phy_offset, time_diff, prev = entry
        if time_diff < 0:
            break
        time = _wrap_around(header.begin_timestamp + time_diff * MILLISECONDS, _UINT64)
        if hashed == key_hash and begin <= time <= end:
            found.append(phy_offset)
        if not INVALID_INDEX < prev <= count or prev == position or time < begin:
            break
        if prev > position:
            if position in climbs:
                period = found[climbs[position] :]
                missing = max_num - len(found)
                if not period or missing > _MAX_CYCLE_RESULTS:
                    raise _cycle(source, layout, position)
                return (found + period * (-(-missing // len(period))))[:max_num]
            # Every cycle climbs somewhere; one that climbs here twice goes on forever.
            climbs[position] = len(found)
        position = prev
    return found


def _skip_newer(source: IndexSource, entries: _BrokerReads, position: int, count: int) -> int:
    """Skip the entries that a writer has added since the header was read.

    A broker reads its header anew for each search, so for it these entries would count.
    """
    latest = source.latest_index_count() if position >= count > FIRST_POSITION else count
    while count <= position < latest:
        entry = entries.at(position)
        if entry is None or not entry[-1] < position:
            break
        position = entry[-1]
    return position


class _BrokerReads:
    """Slots and entries as the broker reads them: one at a time, and none beyond the file."""

    def __init__(self, source: IndexSource, layout: Layout) -> None:
        self._source = source
        self._layout = layout
        self._size = min(source.size, layout.file_size)
        self._last = INVALID_INDEX
        self._short = 0
        self._start = INVALID_INDEX
        self._stretch: list[Any] = []

    def head(self, slot: int) -> int:
        """Return a slot's value, 0 where the broker's read would fail."""
        offset = self._layout.slot_offset(slot)
        if offset + SLOT_SIZE > self._size:
            return INVALID_INDEX
        return int(np.frombuffer(self._source.read(offset, SLOT_SIZE), SLOT_DTYPE)[0])

    def at(self, position: int) -> tuple[int, int, int, int] | None:
        """Return an entry's four fields, None where the broker's read would fail.

        The broker multiplies in 32 bits, so high positions wrap around.
        """
        place = position - self._start
        fields: tuple[int, int, int, int]
        if 0 <= place < len(self._stretch):
            fields = self._stretch[place]
            return fields
        exact = self._layout.entry_offset(position)
        offset = _wrap_around(exact, _UINT32)
        if not 0 <= offset <= self._size - ENTRY_SIZE:
            return None
        near = 0 <= self._last - position <= _SHORT_STEP
        self._short = self._short + 1 if near else 0
        self._last = position
        if self._short >= _SHORT_STEPS and offset == exact:
            self._start = max(position - _STRETCH, INVALID_INDEX) + 1
            rows = self._source.entry_range(self._layout, self._start, position + 1)
            self._stretch = rows.tolist()
            self._last = self._start
            fields = self._stretch[-1]
        else:
            row = np.frombuffer(self._source.read(offset, ENTRY_SIZE), ENTRY_DTYPE)
            fields = row[0].item()
        return fields


def _cycle(source: IndexSource, layout: Layout, position: int) -> CorruptIndexError:
    fields = ENTRY_DTYPE.fields
    assert fields is not None  # a structured dtype
    return CorruptIndexError(
        source.path,
        "prev_position",
        layout.entry_offset(position) + fields["prev_position"][1],
        f"{INVALID_INDEX} to {position - 1} (entry {position})",
        "a cycle",
    )


def _wrap_around(value: int, modulus: int) -> int:
    """Return a value as Java's int or long would hold it after wrapping around."""
    value %= modulus
    return value - modulus if value >= modulus // 2 else value
