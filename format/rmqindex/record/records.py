"""Where the parts of a CommitLog record lie, checked for one record and for many at once.

RocketMQ: ``CommitLog.checkMessageAndReturnSize``, ``MessageExtEncoder.calMsgLength``.
A record is sound when its magic code is one of two, its physical offset is its own position, its
parts add up to its total size, and it ends inside the file.
As in the broker, negative lengths of body and properties count as 0, that of the topic does not.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqindex.layout.record import (
    BODY_CRC_OFFSET,
    BODY_LENGTH_OFFSET,
    BODY_LENGTH_SIZE,
    BORN_HOST_V6_FLAG,
    CRC_DIGITS,
    CRC_MASK,
    CRC_RESERVED_SIZE,
    MAGIC_CODE_OFFSET,
    MAGIC_CODE_V1,
    MAGIC_CODE_V2,
    MIN_RECORD_SIZE,
    NAME_VALUE_SEPARATOR,
    PHYSICAL_OFFSET_OFFSET,
    PROPERTIES_LENGTH_SIZE,
    PROPERTY_CRC32,
    PROPERTY_SEPARATOR,
    STORE_HOST_V6_FLAG,
    STORE_TIMESTAMP_OFFSET,
    SYS_FLAG_OFFSET,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    V6_EXTRA,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_INT16 = struct.Struct(">h")
_INT8 = struct.Struct(">b")

_V1_TOPIC_LENGTH_SIZE = 1
_V2_TOPIC_LENGTH_SIZE = 2

_CRC_PREFIX = PROPERTY_CRC32 + bytes([NAME_VALUE_SEPARATOR])


class Fault(NamedTuple):
    """What is wrong with a record.

    Attributes:
        field: The field, by its RocketMQ name in snake_case.
        byte: Where it starts, counted from the start of the record.
        expected: What a sound record holds there.
        got: What this one holds.
    """

    field: str
    byte: int
    expected: str
    got: object


@dataclass(frozen=True, slots=True)
class Records:
    """Sound records in a buffer, in ascending order and without overlap.

    Attributes:
        data: The bytes that hold them.
        starts: Where each starts in ``data``, int64, bytes.
        phy_offset: Where each starts in the log, int64, bytes.
        size: Total sizes, int64, bytes.
        magic_code: int32.
        sys_flag: int32.
        born_extra: What an IPv6 born host adds to the offsets behind it, int64, bytes.
        extra: What both hosts add, int64, bytes.
        body_start: Where the body starts in ``data``, int64, bytes.
        body_stop: Where it ends.
        topic_start: Where the topic starts in ``data``, int64, bytes.
        topic_stop: Where it ends.
        properties_start: Where the properties start in ``data``, int64, bytes.
        properties_stop: Where they end.
    """

    data: memoryview
    starts: NDArray[np.int64]
    phy_offset: NDArray[np.int64]
    size: NDArray[np.int64]
    magic_code: NDArray[np.int32]
    sys_flag: NDArray[np.int32]
    born_extra: NDArray[np.int64]
    extra: NDArray[np.int64]
    body_start: NDArray[np.int64]
    body_stop: NDArray[np.int64]
    topic_start: NDArray[np.int64]
    topic_stop: NDArray[np.int64]
    properties_start: NDArray[np.int64]
    properties_stop: NDArray[np.int64]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.starts)

    def topic(self, place: int) -> memoryview:
        """Return the topic of one of them."""
        return self.data[int(self.topic_start[place]) : int(self.topic_stop[place])]

    def properties(self, place: int) -> memoryview:
        """Return the properties of one of them."""
        return self.data[int(self.properties_start[place]) : int(self.properties_stop[place])]

    def body(self, place: int) -> memoryview:
        """Return the body of one of them, as it is stored."""
        return self.data[int(self.body_start[place]) : int(self.body_stop[place])]

    def has_zeroed_text(self, place: int) -> bool:
        """Whether bytes of the topic or the properties of one of them never reached the disk."""
        return 0 in bytes(self.topic(place)) or 0 in bytes(self.properties(place))

    def take(self, places: slice | NDArray[Any]) -> Records:
        """Return the records at places, which must ascend."""
        return Records(
            self.data, *(getattr(self, name)[places] for name in self.__slots__ if name != "data")
        )


def gather(data: memoryview, positions: NDArray[np.int64], dtype: str) -> NDArray[Any]:
    """Return big-endian integers at any positions, in native byte order."""
    size = int(dtype[1])
    # Every byte starts a window; indexing copies only the windows asked for.
    windows: NDArray[Any] = np.ndarray((len(data) - size + 1,), f">{dtype}", data, 0, (1,))
    return windows[positions].astype(dtype)


def have_places(records: Records) -> NDArray[np.bool_]:
    """Return which records have a place in a queue: not those of transactions that are open."""
    kinds = records.sys_flag & TRANSACTION_MASK
    return np.asarray((kinds == 0) | (kinds == TRANSACTION_COMMIT), np.bool_)


def parse_records(
    data: memoryview, starts: NDArray[np.int64], phy_offset: NDArray[np.int64]
) -> tuple[Records, NDArray[np.bool_]]:
    """Find the parts of many records at once; return them, and a mask of the sound ones."""
    end = len(data)
    size = gather(data, starts, "i4").astype(np.int64)
    magic = gather(data, starts + MAGIC_CODE_OFFSET, "i4")
    sys_flag = gather(data, starts + SYS_FLAG_OFFSET, "i4")
    version_2 = magic == MAGIC_CODE_V2
    stops = starts + size
    sound = (magic == MAGIC_CODE_V1) | version_2
    sound &= gather(data, starts + PHYSICAL_OFFSET_OFFSET, "i8") == phy_offset
    sound &= (size >= MIN_RECORD_SIZE) & (stops <= end)

    born_extra = ((sys_flag & BORN_HOST_V6_FLAG) != 0) * np.int64(V6_EXTRA)
    extra = born_extra + ((sys_flag & STORE_HOST_V6_FLAG) != 0) * np.int64(V6_EXTRA)

    def length(positions: NDArray[np.int64], width: int) -> NDArray[np.int64]:
        """Read a length field inside each record; what lies outside makes the record unsound."""
        np.logical_and(sound, positions + width <= stops, out=sound)
        inside = positions if sound.all() else np.where(sound, positions, 0)
        return gather(data, inside, f"i{width}").astype(np.int64)

    body_length = length(starts + BODY_LENGTH_OFFSET + extra, BODY_LENGTH_SIZE)
    body_start = starts + (BODY_LENGTH_OFFSET + BODY_LENGTH_SIZE) + extra
    body_stop = body_start + np.maximum(body_length, 0)

    topic_length = length(body_stop, _V1_TOPIC_LENGTH_SIZE)
    topic_start = body_stop + _V1_TOPIC_LENGTH_SIZE
    if version_2.any():
        long_length = length(body_stop, _V2_TOPIC_LENGTH_SIZE)  # a sound record has 2 more bytes
        topic_length = np.where(version_2, long_length, topic_length)
        topic_start += version_2 * (_V2_TOPIC_LENGTH_SIZE - _V1_TOPIC_LENGTH_SIZE)
    sound &= topic_length >= 0
    topic_stop = topic_start + topic_length

    properties_length = length(topic_stop, PROPERTIES_LENGTH_SIZE)
    properties_start = topic_stop + PROPERTIES_LENGTH_SIZE
    properties_stop = properties_start + np.maximum(properties_length, 0)
    sound &= properties_stop == stops
    records = Records(
        data,
        starts,
        phy_offset,
        size,
        magic,
        sys_flag,
        born_extra,
        extra,
        body_start,
        body_stop,
        topic_start,
        topic_stop,
        properties_start,
        properties_stop,
    )
    return records, sound


def check_record(
    read: Callable[[int, int], bytes | memoryview], start: int, stop: int, phy_offset: int
) -> int | Fault:
    """Return the size of a sound record, by its few length fields, or its fault."""
    left = stop - start
    if left < MIN_RECORD_SIZE:
        expected = f"at least {MIN_RECORD_SIZE} bytes for a record"
        return Fault("total_size", 0, expected, f"{left} to the end of the file")
    head = read(start, MIN_RECORD_SIZE)
    return _head_fault(head, left, phy_offset) or _sum_of_parts(
        lambda at, length: read(start + at, length), head
    )


def _head_fault(head: bytes | memoryview, left: int, phy_offset: int) -> Fault | None:
    (size,) = _INT32.unpack_from(head)
    (magic,) = _INT32.unpack_from(head, MAGIC_CODE_OFFSET)
    (stored,) = _INT64.unpack_from(head, PHYSICAL_OFFSET_OFFSET)
    if magic not in (MAGIC_CODE_V1, MAGIC_CODE_V2):
        expected = f"{MAGIC_CODE_V1} or {MAGIC_CODE_V2}"
        return Fault("magic_code", MAGIC_CODE_OFFSET, expected, magic)
    if not MIN_RECORD_SIZE <= size <= left:
        return Fault("total_size", 0, f"{MIN_RECORD_SIZE} to {left}", size)
    if stored != phy_offset:
        return Fault("physical_offset", PHYSICAL_OFFSET_OFFSET, str(phy_offset), stored)
    return None


def _sum_of_parts(
    read: Callable[[int, int], bytes | memoryview], head: bytes | memoryview
) -> int | Fault:
    """Return the total size, if the parts add up to it; ``read`` counts from the record."""
    (size,) = _INT32.unpack_from(head)
    (magic,) = _INT32.unpack_from(head, MAGIC_CODE_OFFSET)
    (sys_flag,) = _INT32.unpack_from(head, SYS_FLAG_OFFSET)
    at = BODY_LENGTH_OFFSET
    for flag in (BORN_HOST_V6_FLAG, STORE_HOST_V6_FLAG):
        at += V6_EXTRA if sys_flag & flag else 0
    for name, field in (
        ("body_length", _INT32),
        ("topic_length", _INT8 if magic == MAGIC_CODE_V1 else _INT16),
        ("properties_length", _INT16),
    ):
        room = size - at - field.size
        if room < 0:
            return Fault("total_size", 0, f"at least {at + field.size}, to hold {name}", size)
        (length,) = field.unpack(read(at, field.size))
        if length > room or (length < 0 and name == "topic_length"):
            return Fault(name, at, f"0 to {room}", length)
        at += field.size + max(length, 0)
    if at != size:
        return Fault("total_size", 0, f"{at}, the sum of the parts", size)
    return int(size)


def claimed_sizes(
    read: Callable[[int, int], bytes | memoryview], start: int, stop: int
) -> tuple[int, list[int]]:
    """Return the sizes that a broken record claims: its own, and the sums of its parts.

    The parts are those of either message version, up to ``stop``, since the magic code may be what
    is broken.
    """
    head = read(start, MIN_RECORD_SIZE)
    (size,) = _INT32.unpack_from(head)
    (sys_flag,) = _INT32.unpack_from(head, SYS_FLAG_OFFSET)
    hosts = (BORN_HOST_V6_FLAG, STORE_HOST_V6_FLAG)
    first = BODY_LENGTH_OFFSET + sum(V6_EXTRA for flag in hosts if sys_flag & flag)
    sums = []
    for topic in (_INT8, _INT16):
        at = first
        for field in (_INT32, topic, _INT16):
            if start + at + field.size > stop:
                break
            (length,) = field.unpack(read(start + at, field.size))
            at += field.size + max(length, 0)
        else:
            sums.append(at)
    return int(size), sums


def store_timestamp_of(read: Callable[[int, int], bytes | memoryview], start: int) -> int:
    """Return the store timestamp, epoch milliseconds, of a sound record at ``start``."""
    head = read(start, MIN_RECORD_SIZE)
    (sys_flag,) = _INT32.unpack_from(head, SYS_FLAG_OFFSET)
    at = STORE_TIMESTAMP_OFFSET + (V6_EXTRA if sys_flag & BORN_HOST_V6_FLAG else 0)
    (timestamp,) = _INT64.unpack_from(head, at)
    return int(timestamp)


def crc_fault(record: memoryview, body_start: int, body_stop: int) -> Fault | None:
    """Check the CRCs of one sound record.

    The body's is checked unless the body is empty, as the broker does; the property ``__CRC32#``,
    which covers the record up to itself, is checked where it ends the properties
    (``enabledAppendPropCRC``), each of its bytes: RocketMQ makes a number of any characters.
    """
    if body_stop > body_start:
        (stored,) = _INT32.unpack_from(record, BODY_CRC_OFFSET)
        actual = zlib.crc32(record[body_start:body_stop]) & CRC_MASK
        if stored != actual:
            return Fault("body_crc", BODY_CRC_OFFSET, str(actual), stored)
    reserved = len(record) - CRC_RESERVED_SIZE
    tail = bytes(record[max(reserved, body_stop) :])
    # Damage leaves the name or the digits.
    if tail.startswith(_CRC_PREFIX) or tail[len(_CRC_PREFIX) : -1].isdigit():
        digits = f"{zlib.crc32(record[:reserved]) & CRC_MASK:0{CRC_DIGITS}}"[::-1].encode()
        expected = _CRC_PREFIX + digits + bytes([PROPERTY_SEPARATOR])
        if tail != expected and (tail.startswith(_CRC_PREFIX) or digits in tail):
            return Fault("property_crc", reserved, repr(expected), repr(tail))
    return None
