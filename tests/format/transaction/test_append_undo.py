"""The undo of an append in place."""

from __future__ import annotations

import struct
import zlib

import pytest

from rmqindex.transaction.append_undo import AppendRecord, AppendUndo

APPEND = {
    "name": "1", "hash_slot_num": 97, "index_num": 200, "header": "00" * 40, "entries": 1,
    "end_phy_offset": 0, "end_timestamp": 0, "checksum": 0,
}  # fmt: skip


@pytest.mark.parametrize("numbers", [(5, -1, 6), (5, 2**31 - 1, 6), (5, 5), (6, 5), (97,)])
def test_old_slots_are_in_the_file(numbers):
    """Also those between the first and the last: nothing is written behind its end."""
    slots = struct.pack(f">{2 * len(numbers)}i", *numbers, *numbers)
    append = {**APPEND, "checksum": zlib.crc32(slots)}
    assert AppendUndo.of(AppendRecord(**append), slots) is None
