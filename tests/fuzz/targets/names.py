"""Names of files, and time zones by name."""

from __future__ import annotations

import struct
from datetime import tzinfo

from rmqindex.store.names import next_names, timestamp_name
from rmqindex.times import zone_of

from ..outcome import outcome

MAX_LENGTH = 80
SHORT = 10_000
_NUMBERS = struct.Struct(">qqqB")
_ZONES = ("Asia/Shanghai", "+08:00", "GMT-3", "Z", "America/St_Johns", "../UTC", "")
_TIMES = (0, -1, 1_700_000_000_000, 253_402_300_799_999, -62_135_596_800_000, 2**63 - 1, -(2**63))


def seeds():
    """Return times, zones, and last names."""
    return [
        _NUMBERS.pack(time, 1_700_000_000_000 + place, time, place) + zone.encode() + b"\n" + last
        for place, (time, zone) in enumerate(zip(_TIMES, _ZONES, strict=True))
        for last in (b"", b"20231114221320000", b"99991231235959999")
    ]


def mutate(data, random):
    """Change a time, the zone or the last name."""
    changed = bytearray(data.ljust(_NUMBERS.size, b"\0"))
    kind = random.randrange(4)
    if kind == 0:
        value = random.choice(_TIMES) + random.choice((-1, 0, 1, 1000))
        value = max(-(2**63), min(2**63 - 1, value))
        struct.pack_into(">q", changed, 8 * random.randrange(3), value)
    elif kind == 1:
        _, line, last = bytes(changed[_NUMBERS.size :]).partition(b"\n")
        changed[_NUMBERS.size :] = random.choice(_ZONES).encode() + line + last
    elif kind == 2:
        changed += random.choice((b"/", b"9", b"+", b"\n", b"\0", b".", b"2023"))
    else:
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def check(data):
    """Find a zone, and name files in it."""
    if len(data) < _NUMBERS.size:
        return
    first, second, now, count = _NUMBERS.unpack_from(data)
    name, _, last = data[_NUMBERS.size :].decode("utf-8", "surrogateescape").partition("\n")
    zone = outcome(zone_of, name, refuses=True)
    if not zone.is_value:
        assert "time zone: expected" in str(zone.error)
        return
    assert isinstance(zone.value, tzinfo)
    one = timestamp_name(first, zone.value)
    assert len(one) == 17
    assert one.isdecimal()
    times = [first, second, first, second][: count % 5]
    names = outcome(next_names, times, last or None, now, zone.value)
    if not names.is_value:
        return
    assert len(names.value) == len(times)
    before = last
    for each in names.value:
        assert len(each) == 17
        assert each.isdecimal()
        assert each > before
        before = each
    if times:
        assert before <= timestamp_name(now, zone.value)
