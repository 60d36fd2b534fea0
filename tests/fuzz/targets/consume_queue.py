"""The units of a ConsumeQueue, plain and batch, against ``struct``."""

from __future__ import annotations

import struct

from rmqindex import ConsumeQueue, QueueFile
from rmqindex.consumequeue import reader

from ..memory import FILES, constants
from ..outcome import outcome, table_outcome

MAX_LENGTH = 320
SHORT = 12_000
_PREFIX = 9
_PATH = "consumequeue/T/0/00000000000000000000"
_UNITS = {False: struct.Struct(">qiq"), True: struct.Struct(">qiqqqhii")}
_BLANK = 2**31 - 1


def seeds():
    """Return plain and batch files with blanks, holes and torn ends."""
    plain = _UNITS[False]
    units = [plain.pack(0, _BLANK, 0), plain.pack(0, 120, 5), plain.pack(120, 130, -7)]
    batch = _UNITS[True]
    batches = [batch.pack(200 * n, 150, 0, 10**12 + n, 10 * n, 10, -1, 0) for n in range(4)]
    return [
        bytes(_PREFIX) + b"".join(units) + bytes(40),
        b"\2" + struct.pack(">Q", 2**64 - 1) + b"".join(units),
        b"\1" + bytes(8) + b"".join(batches) + bytes(92),
        b"\3" + struct.pack(">Q", 4600) + b"".join(batches)[:-5],
    ]


def check(data):
    """Read a file's units in every way."""
    if len(data) < _PREFIX:
        return
    is_batch, blanks, two = (bool(data[0] & bit) for bit in (1, 2, 4))
    (start,) = struct.unpack_from(">Q", data, 1)
    file = data[_PREFIX:]
    FILES[_PATH] = file
    files = [QueueFile(_PATH, start, len(file))]
    if two:
        FILES[_PATH + "2"] = file[len(file) // 2 :]
        files.append(QueueFile(_PATH + "2", start // 2, 0))
    queue = ConsumeQueue("T", 3, files, is_batch=is_batch)
    with constants({reader: {"_BATCH_UNITS": 2, "_BLOCK_UNITS": 4}}):
        found = table_outcome(queue.scan, blanks=blanks)
        first, last = outcome(lambda: queue.min_offset), outcome(lambda: queue.max_offset)
    assert found.is_value, found.error
    assert first.is_value, first.error
    assert last.is_value, last.error
    expected = [
        row
        for each in files
        for row in _plain(each.start, FILES[each.path], is_batch=is_batch, blanks=blanks)
    ]
    rows = [] if found.value is None else found.value.to_pylist()
    names = ("queue_offset", "phy_offset", "size", "tags_code")
    assert [tuple(row[name] for name in names) for row in rows] == expected


def _plain(start, data, *, is_batch, blanks):
    unit = _UNITS[is_batch]
    for number in range(len(data) // unit.size):
        fields = unit.unpack_from(data, number * unit.size)
        phy_offset, size, tags_code = fields[:3]
        if phy_offset < 0 or size <= 0 or (is_batch and (fields[4] < 0 or fields[5] <= 0)):
            return
        if not is_batch and not blanks and (phy_offset, size) == (0, _BLANK):
            continue
        offset = fields[4] if is_batch else start // unit.size + number
        yield offset, phy_offset, size, tags_code
