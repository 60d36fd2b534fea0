"""Records of a CommitLog, byte by byte, and what a broker's check says of them."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

V1 = 0xDAA320A7
V2 = 0xDAA320AB
BLANK = 0xCBD43194
#: MessageSysFlag.
COMPRESSED, PREPARED, COMMIT, ROLLBACK = 0x1, 0x4, 0x8, 0xC
BORN_V6, STORE_V6, NEED_UNWRAP, INNER_BATCH = 0x10, 0x20, 0x40, 0x80
CODECS = {"none": 0, "old": 0x1, "lz4": 0x101, "zstd": 0x201, "zlib": 0x301}
#: A record of no properties, topic and body, with IPv4 hosts.
LEAST_SIZE = 91
SCHEDULE = "SCHEDULE_TOPIC_XXXX"


@dataclass(frozen=True)
class Record:
    """What one record holds; ``properties`` and ``body`` are bytes as stored."""

    topic: str
    body: bytes = b""
    properties: bytes = b""
    queue_id: int = 0
    flag: int = 0
    queue_offset: int = 0
    sys_flag: int = 0
    born_time: int = 0
    store_time: int = 0
    born_ip: bytes = bytes([10, 0, 0, 5])
    store_ip: bytes = bytes([10, 0, 0, 1])
    born_port: int = 40_000
    store_port: int = 10_911
    reconsume_times: int = 0
    prepared_offset: int = 0
    has_property_crc: bool = False


def encode(record: Record, offset: int) -> bytes:
    """Return the bytes of a record at an offset of the log."""
    flags = record.sys_flag
    flags |= BORN_V6 if len(record.born_ip) == 16 else 0
    flags |= STORE_V6 if len(record.store_ip) == 16 else 0
    is_long = len(record.topic) > 127
    topic = record.topic.encode()
    properties = record.properties + (bytes(20) if record.has_property_crc else b"")
    data = struct.pack(">I", V2 if is_long else V1)
    data += struct.pack(">i", zlib.crc32(record.body) & 0x7FFFFFFF)
    data += struct.pack(">ii", record.queue_id, record.flag)
    data += struct.pack(">qqi", record.queue_offset, offset, flags)
    data += (
        struct.pack(">q", record.born_time) + record.born_ip + struct.pack(">i", record.born_port)
    )
    data += (
        struct.pack(">q", record.store_time)
        + record.store_ip
        + struct.pack(">i", record.store_port)
    )
    data += struct.pack(">iq", record.reconsume_times, record.prepared_offset)
    data += struct.pack(">i", len(record.body)) + record.body
    data += struct.pack(">h" if is_long else ">b", len(topic)) + topic
    data += struct.pack(">h", len(properties)) + properties
    data = struct.pack(">i", len(data) + 4) + data
    if record.has_property_crc:
        digits = f"{zlib.crc32(data[:-20]) & 0x7FFFFFFF:010d}"[::-1]
        data = data[:-20] + b"__CRC32#\x01" + digits.encode() + b"\x02"
    return data


def blank(left: int) -> bytes:
    """Return the record that ends a file of which so many bytes are left."""
    return struct.pack(">iI", left, BLANK)


def properties_bytes(pairs: list[tuple[str, str]]) -> bytes:
    """Return names and values as a client writes them."""
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode()


def properties_of(data: bytes) -> dict[str, str]:
    """Return what a broker reads of PROPERTIES, as ``MessageDecoder`` does step by step."""
    text = data.decode(errors="replace")
    found = {}
    for piece in text.split("\x02"):
        name, separator, value = piece.partition("\x01")
        if separator and name and value:
            found[name] = value
    return found


def keys_of(properties: dict[str, str]) -> tuple[str, ...]:
    """Return the keys of a message: UNIQ_KEY, then the parts of KEYS."""
    keys = [properties["UNIQ_KEY"]] if "UNIQ_KEY" in properties else []
    return (*keys, *(part for part in properties.get("KEYS", "").split(" ") if part))


def java_number(text: str, bits: int) -> int | None:
    """Return what ``Integer.parseInt`` or ``Long.parseLong`` reads, None where they fail."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdecimal()):
        return None
    value = int(text)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def has_readable_numbers(topic: str, properties: dict[str, str]) -> bool:
    """Tell whether a broker can read the numbers in PROPERTIES: else its log ends there."""
    if {"INNER_NUM", "INNER_BASE"} <= properties.keys() and (
        java_number(properties["INNER_NUM"], 16) is None
        or java_number(properties["INNER_BASE"], 64) is None
    ):
        return False
    delay = properties.get("DELAY")
    return topic != SCHEDULE or delay is None or java_number(delay, 32) is not None


def inner_message(body: bytes, properties: bytes, flag: int = 0) -> bytes:
    """Return one member of an inner batch."""
    data = struct.pack(">iiii", 0, 0, flag, len(body)) + body
    data += struct.pack(">h", len(properties)) + properties
    return struct.pack(">i", len(data) + 4) + data


def compress(body: bytes, codec: str) -> bytes:
    """Return a body as a client stores it; LZ4 and ZSTD in their frames' raw blocks."""
    if codec == "none":
        return body
    if codec == "lz4":
        # Independent blocks of at most 64 KiB, no checksums; 0x82 is that of the descriptor.
        return (
            bytes.fromhex("04224d18604082")
            + struct.pack("<I", 0x80000000 | len(body)) * bool(body)
            + body
            + bytes(4)
        )
    if codec == "zstd":
        # One segment with a size of 4 bytes, and one raw block, the last.
        return (
            bytes.fromhex("28b52ffda0")
            + struct.pack("<I", len(body))
            + struct.pack("<I", len(body) << 3 | 1)[:3]
            + body
        )
    return zlib.compress(body)


@dataclass(frozen=True)
class Check:
    """What a broker says of a place of its log: a size, 0 at a blank record, -1 at a failure."""

    size: int
    record: Record | None = field(default=None)


def check(data: bytes, at: int, *, with_crc: bool = True) -> Check:
    """Check the record at a place of a file, as ``checkMessageAndReturnSize`` does."""
    left = len(data) - at
    if left < 8:
        return Check(-1)
    size, magic = struct.unpack_from(">iI", data, at)
    if size <= left and magic == BLANK:
        return Check(0)
    if magic not in {V1, V2} or not LEAST_SIZE <= size <= left:
        return Check(-1)
    try:
        crc, record = _decode(data[at : at + size], is_long=magic == V2)
    except (struct.error, ValueError):
        return Check(-1)
    if with_crc and record.body and zlib.crc32(record.body) & 0x7FFFFFFF != crc:
        return Check(-1)
    return Check(size, record)


def _decode(data: bytes, *, is_long: bool) -> tuple[int, Record]:
    """Read a record of which no field may lie beyond its bytes, and none of them be left over."""
    crc, queue_id, flag = struct.unpack_from(">iii", data, 8)
    queue_offset, _, flags, born_time = struct.unpack_from(">qqiq", data, 20)
    place = 48
    born_ip = data[place : place + (16 if flags & BORN_V6 else 4)]
    place += len(born_ip)
    born_port, store_time = struct.unpack_from(">iq", data, place)
    place += 12
    store_ip = data[place : place + (16 if flags & STORE_V6 else 4)]
    (store_port,) = struct.unpack_from(">i", data, place + len(store_ip))
    place += len(store_ip) + 4
    reconsume_times, prepared_offset = struct.unpack_from(">iq", data, place)
    parts = []
    place += 12
    for code in (">i", ">h" if is_long else ">b", ">h"):
        (size,) = struct.unpack_from(code, data, place)
        place += struct.calcsize(code)
        if size < 0 and code == ">b":
            raise ValueError("negative topic length")
        parts.append(data[place : place + max(size, 0)])
        place += max(size, 0)
    if place != len(data):
        raise ValueError("other length")
    body, topic, properties = parts
    return crc, Record(
        topic=topic.decode(errors="replace"),
        body=body,
        properties=properties,
        queue_id=queue_id,
        flag=flag,
        queue_offset=queue_offset,
        sys_flag=flags,
        born_time=born_time,
        store_time=store_time,
        born_ip=born_ip,
        store_ip=store_ip,
        born_port=born_port,
        store_port=store_port,
        reconsume_times=reconsume_times,
        prepared_offset=prepared_offset,
    )
