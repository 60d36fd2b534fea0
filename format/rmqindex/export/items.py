"""What a file is made of: records, entries, units and the like, with the place of each field."""

from __future__ import annotations

import contextlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqindex.layout.record import (
    BLANK_MAGIC_CODE,
    BODY_CRC_OFFSET,
    BORN_HOST_V6_FLAG,
    COMPRESSED_FLAG,
    INNER_BATCH_FLAG,
    IPV4_SIZE,
    IPV6_SIZE,
    MAGIC_CODE_OFFSET,
    MAGIC_CODE_V2,
    NAME_VALUE_SEPARATOR,
    PORT_SIZE,
    PROPERTY_SEPARATOR,
    STORE_HOST_V6_FLAG,
)
from rmqindex.record.message_ids import host_text
from rmqindex.record.text import as_text

if TYPE_CHECKING:
    import numpy as np

_FORMATS = {1: ">b", 2: ">h", 4: ">i", 8: ">q"}
# The integers between the magic code and the flags, with their sizes.
_HEAD = (
    ("body_crc", 4),
    ("queue_id", 4),
    ("flag", 4),
    ("queue_offset", 8),
    ("physical_offset", 8),
)
# Of a body, bytes that are shown.
_SHOWN = 64


@dataclass(frozen=True, slots=True)
class Field:
    """One field.

    Attributes:
        byte: Where it starts in the file.
        size: How many bytes it has.
        name: Its name, RocketMQ's in snake_case.
        value: Its value; bytes that are no text as hex.
        note: What the value means, if it needs saying.
    """

    byte: int
    size: int
    name: str
    value: int | str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """A header, slot, entry, record, unit, or part of another file.

    Attributes:
        name: What it is, with its number if it has one.
        byte: Where it starts in the file.
        fields: Its fields.
    """

    name: str
    byte: int
    fields: tuple[Field, ...]


def fields_of_dtype(data: bytes, dtype: np.dtype[np.void], byte: int) -> tuple[Field, ...]:
    """Return the fields of a NumPy structure."""
    import numpy as np  # noqa: PLC0415  (its type alone is needed above)

    record = np.frombuffer(data, dtype, 1)[0]
    assert dtype.names is not None
    assert dtype.fields is not None
    return tuple(
        Field(byte + dtype.fields[name][1], dtype.fields[name][0].itemsize, name, int(record[name]))
        for name in dtype.names
    )


def record_item(record: bytes, byte: int) -> Item:
    """Return a sound record, or a blank one, as an item."""
    (magic,) = struct.unpack_from(">i", record, MAGIC_CODE_OFFSET)
    if magic == BLANK_MAGIC_CODE:
        return Item("blank record", byte, record_fields(record, byte, BODY_CRC_OFFSET))
    return Item("record", byte, record_fields(record, byte))


def record_fields(record: bytes, byte: int, stop: int | None = None) -> tuple[Field, ...]:
    """Return the fields of a record in their order, as many as it has whole."""
    cursor = _Cursor(record, byte, len(record) if stop is None else stop)
    with contextlib.suppress(_CutError):
        _read(cursor)
    return tuple(cursor.fields)


class _CutError(Exception):
    """The record ends before a field."""


class _Cursor:
    def __init__(self, record: bytes, byte: int, end: int) -> None:
        self.fields: list[Field] = []
        self._record = record
        self._byte = byte
        self._end = end
        self._at = 0

    def number(self, name: str, size: int) -> int:
        """Read an integer."""
        at = self._take(size)
        value = int(struct.unpack_from(_FORMATS[size], self._record, at)[0])
        self.fields.append(Field(self._byte + at, size, name, value, _note(name, value)))
        return value

    def host(self, name: str, *, is_v6: bool) -> None:
        """Read an address and a port."""
        width = IPV6_SIZE if is_v6 else IPV4_SIZE
        at = self._take(width + PORT_SIZE)
        (port,) = struct.unpack_from(">i", self._record, at + width)
        text = host_text(bytes(self._record[at : at + width]), port)
        self.fields.append(Field(self._byte + at, width + PORT_SIZE, name, text))

    def data(self, name: str, length: int, limit: int | None = None) -> None:
        """Read bytes, of which a part is shown; as in the broker, a negative length counts as 0."""
        at = self._take(max(length, 0))
        if length > 0:
            value = shown(bytes(self._record[at : at + length]), limit)
            self.fields.append(Field(self._byte + at, length, name, value))

    def properties(self, length: int) -> None:
        """Read names and values."""
        at = self._take(max(length, 0))
        stored = bytes(self._record[at : at + max(length, 0)])
        place = 0
        for pair in stored.split(bytes([PROPERTY_SEPARATOR])):
            name, separator, value = pair.partition(bytes([NAME_VALUE_SEPARATOR]))
            if separator:
                label = f"property {shown(name)}"
                byte = self._byte + at + place
                self.fields.append(Field(byte, len(pair), label, shown(value)))
            place += len(pair) + 1

    def _take(self, size: int) -> int:
        at = self._at
        if at + size > self._end:
            raise _CutError
        self._at += size
        return at


def _read(cursor: _Cursor) -> None:
    cursor.number("total_size", 4)
    magic = cursor.number("magic_code", 4)
    for name, size in _HEAD:
        cursor.number(name, size)
    sys_flag = cursor.number("sys_flag", 4)
    cursor.number("born_timestamp", 8)
    cursor.host("born_host", is_v6=bool(sys_flag & BORN_HOST_V6_FLAG))
    cursor.number("store_timestamp", 8)
    cursor.host("store_host", is_v6=bool(sys_flag & STORE_HOST_V6_FLAG))
    cursor.number("reconsume_times", 4)
    cursor.number("prepared_transaction_offset", 8)
    cursor.data("body", cursor.number("body_length", 4), _SHOWN)
    cursor.data("topic", cursor.number("topic_length", 2 if magic == MAGIC_CODE_V2 else 1))
    cursor.properties(cursor.number("properties_length", 2))


def shown(data: bytes, limit: int | None = None) -> str:
    """Return bytes as text where they are text, as hex otherwise."""
    more = "" if limit is None or len(data) <= limit else f" ... of {len(data)} bytes"
    text = as_text(data)
    return (data[:limit].hex(" ") if text is None else text[:limit]) + more


def _note(name: str, value: int) -> str:
    if name == "magic_code":
        return f"0x{value & 0xFFFFFFFF:08X}"
    if name == "sys_flag":
        meanings = (
            (COMPRESSED_FLAG, "compressed"),
            (BORN_HOST_V6_FLAG, "born host IPv6"),
            (STORE_HOST_V6_FLAG, "store host IPv6"),
            (INNER_BATCH_FLAG, "inner batch"),
        )
        return ", ".join(text for bit, text in meanings if value & bit)
    return ""
