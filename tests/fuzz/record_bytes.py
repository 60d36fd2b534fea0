"""Small CommitLogs: plain decoding, one record at a time, and changes that know the structure."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from commitlog_encoder import BLANK, V1, V2, Message, properties_text

MIN_SIZE = 91
_HEAD = struct.Struct(">iIiiiqqiq")
_SIZE_AND_MAGIC = struct.Struct(">iI")
_BORN_V6, _STORE_V6 = 0x10, 0x20
_LENGTHS = (0, 1, -1, 2, 127, 128, 255, 32767, -32768, 91, 90, 2**31 - 1, -(2**31))
_FLAGS = (0, 0x10, 0x20, 0x30, 0xC0, 0x1, 0x101, 0x201, 0x301, 0x401, 0xC1, 0x40, 0x80)
_TIMES = (0, -1, 1, 1_700_000_000_000, 1_700_000_059_999, 2**63 - 1, -(2**63))


class PlainRecord(NamedTuple):
    """A sound record, as :func:`plain_record` finds it; offsets in bytes of the buffer."""

    size: int
    magic_code: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    phy_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    topic: bytes
    properties: bytes


def plain_record(data: bytes, start: int, base: int) -> PlainRecord | None:
    """Decode one record field by field, as ``checkMessageAndReturnSize`` goes through it.

    Args:
        data: The bytes of a file.
        start: Where the record starts in them.
        base: The log's offset of their first byte.

    Returns:
        The record; None where no sound one starts.
    """
    left = len(data) - start
    if left < MIN_SIZE:
        return None
    head = _HEAD.unpack_from(data, start)
    size, magic, _, _, _, _, phy_offset, sys_flag, _ = head
    if magic not in {V1, V2} or not MIN_SIZE <= size <= left or phy_offset != base + start:
        return None
    rest = _Rest(data, start + _HEAD.size, start + size)
    try:
        born_host = rest.take(20 if sys_flag & _BORN_V6 else 8)
        (store_timestamp,) = rest.unpack(">q")
        store_host = rest.take(20 if sys_flag & _STORE_V6 else 8)
        reconsume_times, prepared = rest.unpack(">iq")
        body = rest.take(max(rest.unpack(">i")[0], 0))
        (topic_length,) = rest.unpack(">b" if magic == V1 else ">h")
        if topic_length < 0:
            return None
        topic = rest.take(topic_length)
        properties = rest.take(max(rest.unpack(">h")[0], 0))
    except EOFError:
        return None
    if rest.at != start + size:
        return None
    return PlainRecord(
        size,
        magic - 2**32,
        *head[2:],
        born_host,
        store_timestamp,
        store_host,
        reconsume_times,
        prepared,
        body,
        topic,
        properties,
    )


class _Rest:
    """What is left of a record."""

    def __init__(self, data, at, stop):
        self.data, self.at, self.stop = data, at, stop

    def take(self, length):
        if self.at + length > self.stop:
            raise EOFError
        self.at += length
        return self.data[self.at - length : self.at]

    def unpack(self, kind):
        return struct.unpack(kind, self.take(struct.calcsize(kind)))


def messages() -> list[Message]:
    """Return messages of all kinds."""
    keys = properties_text([("KEYS", "a b"), ("UNIQ_KEY", "7F0000010ABC18B4AAC2491E3F5C0001")])
    return [
        Message(properties=keys),
        Message(topic="T" * 130, body=b"", properties=b"KEYS\x01x"),
        Message(born_ip=bytes(range(16)), store_ip=bytes(16), properties=b"TAGS\x01t\x02"),
        Message(properties=keys, property_crc=True),
        Message(body=zlib.compress(b"abc" * 20), sys_flag=0x1),
        Message(topic="", body=b"", properties=b""),
        Message(body=b"\0" * 24 + b"\0\0", sys_flag=0xC0, store_timestamp=1_700_000_059_990),
    ]


def encoded(base: int, chosen: list[Message], blank: int = 0, tail: bytes = b"") -> bytes:
    """Return records one behind the other, and what follows."""
    data = b""
    for message in chosen:
        data += message.encode(base + len(data))
    if blank:
        data += struct.pack(">iI", blank, BLANK) + bytes(blank - 8)
    return data + tail


def starts_of(data: bytes, prefix: int) -> list[int]:
    """Return where magic codes say that records start, sound or not."""
    found = []
    for magic in (V1, V2, BLANK):
        code = struct.pack(">I", magic)
        at = data.find(code, prefix)
        while at >= 0:
            if at >= prefix + 4:
                found.append(at - 4)
            at = data.find(code, at + 1)
    return sorted(found)


def mutate_log(data: bytes, random, prefix: int, base: int) -> bytes:
    """Change a log: a field, a record's place, a length; often repaired to be sound again.

    Args:
        data: The input.
        random: What chooses.
        prefix: How many bytes of it stand before the log.
        base: The log's offset of the byte behind them.
    """
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 3))):
        starts = starts_of(changed, prefix)
        kind = random.randrange(12)
        if not starts or kind == 0:
            message = random.choice(messages())
            place = random.choice([*starts, len(changed)])
            changed[place:place] = message.encode(max(base + place - prefix, 0))
        elif kind == 1:
            first, second = sorted((random.choice(starts), random.choice([*starts, len(changed)])))
            part = changed[first:second]
            if random.random() < 0.5:
                del changed[first:second]
            else:
                changed[second:second] = part
        elif kind == 2:
            del changed[random.randrange(prefix, len(changed)) :]
        elif kind == 3:
            changed += bytes(random.randrange(1, 40))
        elif kind == 4:
            changed[random.randrange(max(prefix, 1))] = random.randrange(256)
        else:
            _change_record(changed, random.choice(starts), random)
        if random.random() < 0.7:
            repair(
                changed,
                prefix,
                base,
                crc=random.random() < 0.8,
                signed=random.random() < 0.2,
            )
    return bytes(changed)


def _change_record(data: bytearray, start: int, random) -> None:
    if start + MIN_SIZE > len(data):
        return
    sys_flag = struct.unpack_from(">i", data, start + 36)[0]
    hosts = 12 * bool(sys_flag & _BORN_V6) + 12 * bool(sys_flag & _STORE_V6)
    at = start + 84 + hosts
    kind = random.randrange(9)
    if kind == 0:
        struct.pack_into(">i", data, start + 36, random.choice(_FLAGS))
    elif kind == 1:
        struct.pack_into(">I", data, start + 4, random.choice((V1, V2, BLANK, 0)))
    elif kind == 2:
        struct.pack_into(">i", data, start, random.choice(_LENGTHS))
    elif kind == 3 and at + 4 <= len(data):
        struct.pack_into(">i", data, at, random.choice(_LENGTHS))
    elif kind == 4:
        place = min(start + 56 + 12 * bool(sys_flag & _BORN_V6), len(data) - 8)
        struct.pack_into(">q", data, place, random.choice(_TIMES))
    elif kind == 5:  # the parts behind the hosts, a byte
        place = min(at + random.randrange(60), len(data) - 1)
        data[place] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF, 0xED, random.randrange(256)))
    elif kind == 6:
        place = min(at + random.randrange(60), len(data))
        data[place:place] = random.randbytes(random.randrange(1, 12))
    elif kind == 7:
        place = start + random.randrange(MIN_SIZE)
        data[place] = random.randrange(256)
    else:
        size = len(data) - start
        struct.pack_into(">q", data, start + 28, random.choice((0, -1, size, 2**63 - 1)))


def repair(data: bytearray, prefix: int, base: int, *, crc: bool, signed: bool) -> None:
    """Give records their own offsets, sizes that are the sums of their parts, and CRCs.

    Args:
        data: The input.
        prefix: How many bytes of it stand before the log.
        base: The log's offset of the byte behind them.
        crc: Whether the bodies' CRCs are made right, too.
        signed: Whether negative lengths count as they are, as a careless reader takes them.
    """
    least = -(2**31) if signed else 0
    at = prefix
    while at + MIN_SIZE <= len(data):
        (magic,) = struct.unpack_from(">I", data, at + 4)
        if magic not in {V1, V2}:
            return
        (sys_flag,) = struct.unpack_from(">i", data, at + 36)
        place = at + 84 + 12 * bool(sys_flag & _BORN_V6) + 12 * bool(sys_flag & _STORE_V6)
        parts = []
        for kind in (">i", ">b" if magic == V1 else ">h", ">h"):
            width = struct.calcsize(kind)
            if place + width > len(data):
                return
            (length,) = struct.unpack_from(kind, data, place)
            place += width
            parts.append((place, max(length, 0)))
            place += max(length, least)
            if place < 0:
                return
        if not at + MIN_SIZE <= place <= len(data):
            return
        struct.pack_into(">i", data, at, place - at)
        struct.pack_into(">q", data, at + 28, base + at - prefix)
        if crc:
            start, length = parts[0]
            body = zlib.crc32(data[start : start + length]) & 0x7FFFFFFF
            struct.pack_into(">i", data, at + 8, body)
        at = place
