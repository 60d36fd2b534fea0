"""One key hash in one file, step by step: the sound way and the broker's own.

The first answers only where everything is sound, and then as the entries themselves say; the
second answers as the broker's twin does, whatever the bytes are.
"""

from __future__ import annotations

import struct

from rmqindex import IndexHeader
from rmqindex.indexfile import select
from rmqindex.indexfile.select import select_phy_offset
from rmqindex.query import PointFile
from twin import BrokerFile

from ..index_bytes import MAX_LENGTH, PATH, mutate, seeds, taken_apart
from ..memory import FILES, MemorySource, constants
from ..outcome import outcome

SHORT = 20_000
__all__ = ["MAX_LENGTH", "SHORT", "check", "mutate", "seeds"]

# A crowded chain is read by stretches after a few steps.
_SMALL = {select: {"_SHORT_STEPS": 2, "_SHORT_STEP": 4, "_STRETCH": 3}}
_ENTRY = struct.Struct(">iqii")
_TIMES = ((0, 2**63 - 1), (10**12, 10**12 + 3000), (-(2**63), 0))


def check(data):
    """Look one hash up in both ways."""
    layout, flags, file = taken_apart(data)
    if len(file) < 40:
        return
    key_hash = flags >> 3
    header = IndexHeader.from_bytes(file)
    limit = header.entry_count + 1
    FILES[PATH] = file
    point = PointFile(PATH, layout)
    found = outcome(point.lookup, key_hash, limit)
    if found.is_value and found.value is not None and len(file) >= layout.file_size:
        _check_entries(found.value, file, layout, key_hash)
    if len(file) >= layout.file_size:
        begin, end = _TIMES[flags % len(_TIMES)]
        _check_broker(file, layout, header, key_hash, begin, end)


def _check_entries(found, file, layout, key_hash):
    """Compare with every entry that the found ones passed."""
    positions = [each.position for each in found]
    assert positions == sorted(set(positions), reverse=True)
    for each in found:
        hashed, phy_offset, seconds, previous = _ENTRY.unpack_from(
            file, layout.entry_offset(each.position)
        )
        assert (hashed, phy_offset, seconds, previous) == (
            key_hash,
            each.phy_offset,
            each.time_diff,
            each.prev_position,
        )
        assert each.slot == key_hash % layout.hash_slot_num


def _check_broker(file, layout, header, key_hash, begin, end):
    twin = BrokerFile.load(file, layout.hash_slot_num, layout.index_num)
    for max_num in (1, 40):
        with constants(_SMALL):
            ours = outcome(
                select_phy_offset,
                MemorySource(PATH, file),
                layout,
                header,
                key_hash,
                max_num=max_num,
                begin=begin,
                end=end,
            )
        try:
            expected = twin.select(key_hash, max_num, begin, end)
        except RuntimeError:
            assert not ours.is_value, "the broker hangs"
            continue
        assert ours.value == expected, (ours, expected)
