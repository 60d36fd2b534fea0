"""From record to record: many chains in step, against one record after the other."""

from __future__ import annotations

import struct

from rmqindex.commitlog import framing
from rmqindex.commitlog.framing import candidates, hop

from ..memory import constants
from ..record_bytes import MIN_SIZE, V1, V2, encoded, messages, mutate_log

MAX_LENGTH = 2048
SHORT = 12_000
_PREFIX = 1
#: Sizes under which a log of a few records takes every branch.
SMALL = {
    framing: {
        "_PROBE": 2,
        "_CHAIN_RECORDS": 2,
        "_MAX_CHAINS": 4,
        "_MIN_CHAINS": 2,
        "_SEARCH_RECORDS": 2,
    }
}


def seeds():
    """Return logs of a few and of many records, one with a record inside a body."""
    short = messages()[5]
    inner = short.encode(400)
    return [
        b"\0" + encoded(0, [short] * 16),
        b"\1" + encoded(0, messages() * 2),
        b"\0" + encoded(0, [short] * 6, tail=inner + bytes(50)),
    ]


def mutate(data, random):
    """Change the log."""
    return mutate_log(data.ljust(_PREFIX, b"\0"), random, _PREFIX, 0)


def check(data):
    """Hop to the end in both ways."""
    file = memoryview(data[_PREFIX:])
    if len(file) < MIN_SIZE:
        return
    stop = len(file) - (data[0] % 100 if data[0] >= 128 else 0)
    expected, at = [], 0
    while (size := _size_at(file, at)) and at < stop:
        expected.append(at)
        at += size
    with constants(SMALL):
        found, end = [], 0
        while True:
            starts, behind = hop(file, end, stop, 0)
            if not len(starts):
                assert behind == end
                break
            assert behind > end
            found += starts.tolist()
            end = behind
    assert found == expected
    assert end == at
    places = list(candidates(file, 0, stop, 0))
    assert places == [place for place in range(max(stop, 0)) if _is_candidate(file, place)]


def _size_at(file, at):
    if at + MIN_SIZE > len(file):
        return None
    size, magic = struct.unpack_from(">iI", file, at)
    return size if magic in {V1, V2} and MIN_SIZE <= size <= len(file) - at else None


def _is_candidate(file, at):
    if at + MIN_SIZE > len(file):
        return False
    (magic,) = struct.unpack_from(">I", file, at + 4)
    (offset,) = struct.unpack_from(">q", file, at + 28)
    return magic in {V1, V2} and offset == at
