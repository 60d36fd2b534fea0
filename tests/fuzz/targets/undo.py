"""A file as it was before an append that is not finished: whatever is read of it is one state."""

from __future__ import annotations

import json
import struct
import zlib

import numpy as np

from rmqindex import IndexFile, IndexHeader
from rmqindex.indexfile import reader
from rmqindex.indexfile.committed import _UndoneSource
from rmqindex.storage import Fields
from rmqindex.transaction.append_undo import AppendRecord, AppendUndo

from ..index_bytes import MAX_LENGTH as FILE_LENGTH
from ..index_bytes import mutate as mutate_file
from ..index_bytes import seeds as files
from ..index_bytes import taken_apart
from ..memory import MemorySource, constants
from ..outcome import outcome, table_outcome

_HEAD = struct.Struct(">BBBB")
_CHANGES = 5
_PREFIX = _HEAD.size + _CHANGES
MAX_LENGTH = _PREFIX + FILE_LENGTH
SHORT = 9_000


def seeds():
    """Return files of which the last entries were appended."""
    prefixes = (bytes([2, 0, 2, 0]), bytes([1, 1, 0, 0]), bytes([3, 0, 3, 1]))
    return [prefix + bytes([1, 0, 2, 1, 3]) + file for prefix in prefixes for file in files()]


def mutate(data, random):
    """Change what was appended, or the file."""
    if len(data) <= _PREFIX or random.random() < 0.3:
        changed = bytearray(data.ljust(_PREFIX, b"\0"))
        changed[random.randrange(_PREFIX)] = random.randrange(256)
        return bytes(changed)
    return data[:_PREFIX] + mutate_file(data[_PREFIX:], random)


def check(data):
    """Undo, and read the whole, its parts and its entries."""
    if len(data) < _PREFIX:
        return
    entries, wider, changes, odd = _HEAD.unpack_from(data)
    layout, flags, file = taken_apart(data[_PREFIX:])
    if len(file) < 40:
        return
    header = bytearray(file[:40])
    count = max(IndexHeader.from_bytes(file).index_count - entries, 0)
    struct.pack_into(">i", header, 36, count)
    numbers = sorted({each % layout.hash_slot_num for each in data[_HEAD.size : _PREFIX]})
    numbers = numbers[: changes % 4]
    slots = struct.pack(f">{2 * len(numbers)}i", *numbers, *(each % 4 for each in numbers))
    if odd & 1:
        slots = slots[:-1]
    fields = {
        "name": "x",
        "hash_slot_num": layout.hash_slot_num,
        "index_num": layout.index_num + wider % 3,
        "header": header.hex(),
        "entries": entries,
        "end_phy_offset": 0,
        "end_timestamp": 0,
        "checksum": zlib.crc32(slots) ^ (odd >> 1 & 1),
    }
    record = outcome(AppendRecord.of, Fields(json.loads(json.dumps(fields))), refuses=True)
    if not record.is_value:
        return
    undo = AppendUndo.of(record.value, slots)
    if undo is None:
        assert odd & 3
        return
    source = _UndoneSource(MemorySource("x", file), undo)
    whole = bytes(source.read(0, len(file)))
    assert whole[:40] == bytes(header)
    step = 1 + flags % 13
    parts = [bytes(source.read(at, min(step, len(file) - at))) for at in range(0, len(file), step)]
    assert b"".join(parts) == whole
    if len(file) >= layout.slot_offset(layout.hash_slot_num):
        every = np.arange(layout.hash_slot_num)
        start, stop = layout.slot_offset(0), layout.slot_offset(layout.hash_slot_num)
        assert (
            source.slots(layout, every).tolist() == np.frombuffer(whole[start:stop], ">i4").tolist()
        )
    _check_reading(source, whole, layout)


def _check_reading(source, whole, layout):
    """The file reads as one that holds the old bytes: nothing beyond what was counted is seen."""
    with constants({reader: {"open_index_source": lambda *_, **__: source}}):
        undone = outcome(IndexFile, "x", layout)
        found = table_outcome(undone.value.scan) if undone.is_value else undone
    with constants({reader: {"open_index_source": lambda *_, **__: MemorySource("x", whole)}}):
        old = outcome(IndexFile, "x", layout)
        expected = table_outcome(old.value.scan) if old.is_value else old
    assert found.is_value == expected.is_value, (found, expected)
    assert not found.is_value or found.value == expected.value
