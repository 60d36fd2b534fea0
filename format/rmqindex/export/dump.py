"""Recognises a file of a store, and lists its items with the places of all fields.

RocketMQ: ``IndexFile``, ``CommitLog``, ``ConsumeQueue``, ``BatchConsumeQueue``,
``StoreCheckpoint``, ``ConfigManager``, and OpenMessaging's ``DLedgerMmapFileStore``.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqindex.errors import SAID_GEOMETRY, CorruptIndexError, RmqIndexError
from rmqindex.export.items import Field, Item, fields_of_dtype, record_fields, record_item, shown
from rmqindex.indexfile.committed import open_index_source
from rmqindex.indexfile.geometry import Layout, infer_layout
from rmqindex.layout.dledger import (
    BLANK_HEAD,
    BLANK_MAGIC,
    MAGICS,
    POS_OFFSET,
    SIZE_OFFSET,
    TERM_NAME,
)
from rmqindex.layout.dledger import CHECKPOINT_NAME as DLEDGER_CHECKPOINT_NAME
from rmqindex.layout.index_file import (
    ENTRY_DTYPE,
    ENTRY_SIZE,
    FIRST_POSITION,
    HEADER_DTYPE,
    HEADER_SIZE,
    SLOT_DTYPE,
    SLOT_SIZE,
    IndexHeader,
)
from rmqindex.layout.queue import BATCH_UNIT_DTYPE, BLANK_SIZE, UNIT_DTYPE
from rmqindex.layout.record import (
    BLANK_MAGIC_CODE,
    FILE_NAME_DIGITS,
    MAGIC_CODE_OFFSET,
    MAGIC_CODE_V1,
    MAGIC_CODE_V2,
    MIN_RECORD_SIZE,
)
from rmqindex.layout.store import (
    ABORT_NAME,
    BATCH_FOLDER,
    CHECKPOINT_NAME,
    COMMITLOG_FOLDER,
    LOCK_NAME,
    QUEUE_FOLDER,
)
from rmqindex.record.records import Fault, check_record
from rmqindex.storage.location import Location
from rmqindex.storage.opening import open_source
from rmqindex.store.config import parse_config
from rmqindex.store.dledger import is_dledger_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqindex.storage.location import PathLike
    from rmqindex.storage.source import ByteSource

_HINT = f"say which with {SAID_GEOMETRY}"

_LOG_NAME = re.compile(rf"[0-9]{{{FILE_NAME_DIGITS}}}")
_INDEX_NAME = re.compile(r"[+-]?[0-9]+")
_CHECKPOINT_FIELDS = (
    "physic_msg_timestamp",
    "logics_msg_timestamp",
    "index_msg_timestamp",
    "master_flushed_offset",
    "confirm_phy_offset",
)
# DLedgerEntry, DLedgerIndexEntry.
_DLEDGER_ENTRY = np.dtype(
    [
        ("magic", ">i4"),
        ("size", ">i4"),
        ("index", ">i8"),
        ("term", ">i8"),
        ("pos", ">i8"),
        ("channel", ">i4"),
        ("chain_crc", ">i4"),
        ("body_crc", ">i4"),
        ("body_size", ">i4"),
    ]
)
_DLEDGER_BLANK = np.dtype([("magic", ">i4"), ("size", ">i4")])
_DLEDGER_UNIT = np.dtype(
    [("magic", ">i4"), ("pos", ">i8"), ("size", ">i4"), ("index", ">i8"), ("term", ">i8")]
)
# Slots that are read at once, and bytes of a file of an unknown kind that an item has.
_SLOTS = 1 << 16
_LINE = 16
# The most bytes of a text file that are shown.
_MAX_TEXT = 64 * 1024 * 1024


class _DamageError(Exception):
    """Bytes that break a rule: the place, what was expected and found."""

    def __init__(self, field: str, byte: int, expected: object, got: object) -> None:
        super().__init__(field)
        self.text = f"{field} at byte {byte}: expected {expected}, got {got}"


class _FileKind(NamedTuple):
    name: str
    walk: Callable[[ByteSource, int, Layout | None], Iterator[Item]]


@dataclass(slots=True)
class Dump:
    """What a file is, and its items.

    Attributes:
        path: The file.
        kind: What it is, such as ``IndexFile``.
        size: Its size in bytes.
        items: The items, from the place asked for; iterated once.
        error: Where damage ended the items, once they are iterated: the field, the byte, what was
            expected and found.
    """

    path: str
    kind: str
    size: int
    items: Iterator[Item]
    error: str | None = None


def dump_file(path: PathLike, start: int = 0, layout: Layout | None = None) -> Dump:
    """List what is in a file of a store; close it by iterating to the end or dropping the items.

    Args:
        path: Any file of a store, local or by its URI.
        start: The first byte of interest; items that end before it are left out.
        layout: The geometry of an IndexFile; None to infer it.

    Raises:
        RmqIndexError: It is absent, not a file, or cannot be read.
        ValueError: A negative start.
    """
    if start < 0:
        raise ValueError(f"start: expected at least 0, got {start}")
    source = open_source(path)
    name, walk = _kind_of(source)
    dump = Dump(source.path, name, source.size, iter(()))

    def items() -> Iterator[Item]:
        with source:
            try:
                yield from walk(source, start, layout)
            except _DamageError as damage:
                dump.error = f"{source.path}: {damage.text}"
            except CorruptIndexError as error:
                dump.error = str(error)

    dump.items = items()
    return dump


def _kind_of(source: ByteSource) -> _FileKind:
    """Recognise a file by its name, its folder and its first bytes."""
    name = _name_of(source)
    head = bytes(source.read(0, min(source.size, MIN_RECORD_SIZE)))
    if _LOG_NAME.fullmatch(name):
        return _numbered_kind(source, head)
    is_dledger = is_dledger_folder(Location(source.path).absolute.parent)
    for pattern, kind in _NAMED_BY_DLEDGER if is_dledger else _NAMED:
        if pattern.fullmatch(name):
            return kind
    if _INDEX_NAME.fullmatch(name) and source.size >= HEADER_SIZE:
        return _FileKind("IndexFile", _index)
    return _FileKind("file of an unknown kind" if source.size else "empty file", _hex)


def _name_of(source: ByteSource) -> str:
    return Location(source.path).name


def _numbered_kind(source: ByteSource, head: bytes) -> _FileKind:
    """Recognise a file that is named by an offset."""
    place = Location(source.path)
    name, folder = place.name, place.parent
    queues = folder.parent.parent.name
    if queues == QUEUE_FOLDER:
        return _FileKind("ConsumeQueue", _units)
    if queues == BATCH_FOLDER:
        return _FileKind("batch ConsumeQueue", _batch_units)
    dledger = _dledger_kind(head, int(name))
    if dledger is not None:
        return dledger
    is_log = _magic(head) in (MAGIC_CODE_V1, MAGIC_CODE_V2, BLANK_MAGIC_CODE)
    if is_log or folder.name == COMMITLOG_FOLDER:
        return _FileKind("CommitLog", _records)
    return _FileKind("file of an unknown kind, named as of a CommitLog or a ConsumeQueue", _hex)


def _magic(head: bytes) -> int | None:
    if len(head) < MAGIC_CODE_OFFSET + 4:
        return None
    return int(struct.unpack_from(">i", head, MAGIC_CODE_OFFSET)[0])


def _dledger_kind(head: bytes, start: int) -> _FileKind | None:
    if len(head) < _DLEDGER_ENTRY.itemsize:
        return None
    entry = np.frombuffer(head, _DLEDGER_ENTRY, 1)[0]
    if entry["magic"] == BLANK_MAGIC and entry["size"] >= BLANK_HEAD.size:
        return _FileKind("CommitLog of DLedger", _dledger_records)
    if entry["magic"] not in MAGICS:
        return None
    if entry["pos"] == start and entry["size"] == _DLEDGER_ENTRY.itemsize + entry["body_size"]:
        return _FileKind("CommitLog of DLedger", _dledger_records)
    unit = np.frombuffer(head, _DLEDGER_UNIT, 1)[0]
    if unit["index"] * _DLEDGER_UNIT.itemsize == start:
        return _FileKind("index of DLedger", _dledger_units)
    return None


# --- CommitLog --------------------------------------------------------------------------------


def _records(source: ByteSource, start: int, _layout: Layout | None) -> Iterator[Item]:
    base = int(_name_of(source))
    at = 0
    while at < source.size:
        left = source.size - at
        head = bytes(source.read(at, min(left, 8)))
        if not any(head):
            yield from _zeros(source, at)
            return
        if _magic(head) == BLANK_MAGIC_CODE:
            (size,) = struct.unpack_from(">i", head)
            if size > left:
                raise _DamageError("total_size", at, f"at most {left} for a blank record", size)
            yield record_item(head, at)
            return
        checked = check_record(source.read, at, source.size, base + at)
        if isinstance(checked, Fault):
            known = bytes(source.read(at, min(left, MIN_RECORD_SIZE)))
            fields = record_fields(known, at)
            yield Item("damaged record", at, fields)
            raise _DamageError(checked.field, at + checked.byte, checked.expected, checked.got)
        if at + checked > start:
            yield record_item(bytes(source.read(at, checked)), at)
        at += checked


def _dledger_records(source: ByteSource, start: int, _layout: Layout | None) -> Iterator[Item]:
    at = 0
    while at + BLANK_HEAD.size <= source.size:
        head = bytes(source.read(at, min(source.size - at, _DLEDGER_ENTRY.itemsize)))
        if not any(head):
            yield from _zeros(source, at)
            return
        magic, size = BLANK_HEAD.unpack_from(head)
        if magic == BLANK_MAGIC:
            items = [_dledger_blank(head, at, source.size - at)]
        else:
            items = _dledger_entry(source, head, at)
        if at + size > start:
            yield from items
        at += size


def _dledger_entry(source: ByteSource, head: bytes, at: int) -> list[Item]:
    place, left = int(_name_of(source)) + at, source.size - at
    (magic,) = struct.unpack_from(">i", head)
    if magic not in MAGICS:
        raise _DamageError("magic", at, f"one of {', '.join(map(str, MAGICS))}", magic)
    if len(head) < _DLEDGER_ENTRY.itemsize:
        expected = f"{_DLEDGER_ENTRY.itemsize} bytes for the head of an entry"
        raise _DamageError("entry head", at, expected, f"{left} to the end of the file")
    entry = np.frombuffer(head, _DLEDGER_ENTRY, 1)[0]
    size, body = int(entry["size"]), int(entry["body_size"])
    if entry["pos"] != place:
        raise _DamageError("pos", at + POS_OFFSET, place, int(entry["pos"]))
    if body < 0 or size != _DLEDGER_ENTRY.itemsize + body or size > left:
        expected = f"{_DLEDGER_ENTRY.itemsize + body} within the file"
        raise _DamageError("size", at + SIZE_OFFSET, expected, size)
    items = [Item("entry head", at, fields_of_dtype(head, _DLEDGER_ENTRY, at))]
    inside = at + _DLEDGER_ENTRY.itemsize
    checked = check_record(source.read, inside, at + size, place + _DLEDGER_ENTRY.itemsize)
    if not isinstance(checked, Fault):
        items.append(record_item(bytes(source.read(inside, body)), inside))
    return items


def _dledger_blank(head: bytes, at: int, left: int) -> Item:
    """Return the blank that fills a file up, or, at its start, the part before a snapshot."""
    _, size = BLANK_HEAD.unpack_from(head)
    if size != left and (at or not BLANK_HEAD.size <= size < left):
        expected = f"{left}, up to the end of the file, for a blank"
        raise _DamageError("size", at + SIZE_OFFSET, expected, size)
    return Item("blank entry", at, fields_of_dtype(head[: BLANK_HEAD.size], _DLEDGER_BLANK, at))


def _dledger_units(source: ByteSource, start: int, _layout: Layout | None) -> Iterator[Item]:
    yield from _fixed_units(source, start, _DLEDGER_UNIT)


# --- ConsumeQueue -----------------------------------------------------------------------------


def _units(source: ByteSource, start: int, _layout: Layout | None) -> Iterator[Item]:
    yield from _fixed_units(source, start, UNIT_DTYPE)


def _batch_units(source: ByteSource, start: int, _layout: Layout | None) -> Iterator[Item]:
    yield from _fixed_units(source, start, BATCH_UNIT_DTYPE)


def _fixed_units(source: ByteSource, start: int, dtype: np.dtype[np.void]) -> Iterator[Item]:
    """Yield units of one size, up to the zeros at the end."""
    width = dtype.itemsize
    base = int(_name_of(source)) // width
    at = start // width * width
    while at + width <= source.size:
        data = bytes(source.read(at, width))
        if not any(data):
            yield from _zeros(source, at)
            return
        fields = fields_of_dtype(data, dtype, at)
        is_blank = any(field.name == "size" and field.value == BLANK_SIZE for field in fields)
        yield Item(f"{'blank ' if is_blank else ''}unit {base + at // width}", at, fields)
        at += width
    if at < source.size:
        raise _DamageError(
            "unit", at, f"{width} bytes", f"{source.size - at} to the end of the file"
        )


# --- IndexFile --------------------------------------------------------------------------------


def _index(source: ByteSource, start: int, layout: Layout | None) -> Iterator[Item]:
    head = bytes(source.read(0, HEADER_SIZE))
    if start < HEADER_SIZE:
        yield Item("header", 0, fields_of_dtype(head, HEADER_DTYPE, 0))
    header = IndexHeader.from_bytes(head)
    if not header.entry_count:
        return
    if layout is None:
        try:
            with open_index_source(source.path) as again:
                layout = infer_layout(again)
        # What these errors advise is for those who have a mode.
        except CorruptIndexError as error:
            raise CorruptIndexError(
                error.path, error.field, error.byte, error.expected, error.got, _HINT
            ) from error
        except RmqIndexError as error:
            why = str(error).partition("; ")[0]
            raise CorruptIndexError(
                source.path, "geometry", HEADER_SIZE, "one that can be inferred", why, _HINT
            ) from error
    yield from _slots(source, start, layout)
    begin = layout.entry_offset(FIRST_POSITION)
    first = max(FIRST_POSITION, FIRST_POSITION + (start - begin) // ENTRY_SIZE)
    for position in range(first, header.index_count):
        at = layout.entry_offset(position)
        if at + ENTRY_SIZE > source.size:
            got = f"a file that ends at {source.size}"
            raise _DamageError(f"entry {position}", at, f"{ENTRY_SIZE} bytes", got)
        fields = fields_of_dtype(bytes(source.read(at, ENTRY_SIZE)), ENTRY_DTYPE, at)
        yield Item(f"entry {position}", at, fields)


def _slots(source: ByteSource, start: int, layout: Layout) -> Iterator[Item]:
    first = max(0, (start - HEADER_SIZE) // SLOT_SIZE)
    for begin in range(first, layout.hash_slot_num, _SLOTS):
        count = min(_SLOTS, layout.hash_slot_num - begin)
        at = layout.slot_offset(begin)
        if at + count * SLOT_SIZE > source.size:
            got = f"a file that ends at {source.size}"
            raise _DamageError("slots", at, f"{count * SLOT_SIZE} bytes", got)
        values = np.frombuffer(source.read(at, count * SLOT_SIZE), SLOT_DTYPE)
        for place in np.flatnonzero(values).tolist():
            byte = at + place * SLOT_SIZE
            field = Field(byte, SLOT_SIZE, "position", int(values[place]))
            yield Item(f"slot {begin + place}", byte, (field,))


# --- Others -----------------------------------------------------------------------------------


def _checkpoint(source: ByteSource, start: int, _layout: Layout | None) -> Iterator[Item]:
    size = 8 * len(_CHECKPOINT_FIELDS)
    data = bytes(source.read(0, min(size, source.size)))
    fields = tuple(
        Field(8 * place, 8, name, struct.unpack_from(">q", data, 8 * place)[0])
        for place, name in enumerate(_CHECKPOINT_FIELDS)
        if 8 * place + 8 <= len(data) and 8 * place + 8 > start
    )
    yield Item("checkpoint", 0, fields)
    if len(data) < size:
        raise _DamageError("checkpoint", len(data), f"{size} bytes", len(data))
    rest = bytes(source.read(size, min(source.size - size, _MAX_TEXT)))
    if any(rest):
        used = rest.rstrip(b"\0")
        yield Item("what newer brokers add", size, (Field(size, len(used), "bytes", shown(used)),))


def _text(source: ByteSource, start: int, _layout: Layout | None) -> Iterator[Item]:
    data = bytes(source.read(start, min(source.size - start, _MAX_TEXT))) if source.size else b""
    at = start
    for line in data.splitlines(keepends=True):
        yield Item("line", at, (Field(at, len(line), "text", shown(line.rstrip(b"\r\n"))),))
        at += len(line)


def _json(source: ByteSource, start: int, _layout: Layout | None) -> Iterator[Item]:
    data = bytes(source.read(0, min(source.size, _MAX_TEXT)))
    yield from _text(source, start, None)
    try:
        parse_config(data)  # it is checked, and nothing made of it
    except UnicodeDecodeError as error:
        raise _DamageError("JSON", error.start, "UTF-8", f"0x{data[error.start]:02x}") from error
    except json.JSONDecodeError as error:
        byte = len(error.doc[: error.pos].encode())
        raise _DamageError("JSON", byte, "a JSON document", error.msg) from error


def _hex(source: ByteSource, start: int, _layout: Layout | None) -> Iterator[Item]:
    for at in range(start // _LINE * _LINE, source.size, _LINE):
        data = bytes(source.read(at, min(_LINE, source.size - at)))
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data)
        yield Item("bytes", at, (Field(at, len(data), "hex", data.hex(" "), text),))


def _zeros(source: ByteSource, at: int) -> Iterator[Item]:
    stop = source.first_nonzero(at, source.size)
    if stop is not None:
        raise _DamageError(
            "zeros", at, f"zeros to the end, byte {source.size}", f"other bytes at {stop}"
        )
    yield Item("not written yet", at, (Field(at, source.size - at, "zeros", 0),))


_NAMED_BY_DLEDGER = (
    (
        re.compile(rf"(?:{DLEDGER_CHECKPOINT_NAME}|{TERM_NAME})(?:\.bak)?"),
        _FileKind("text of DLedger", _text),
    ),
)
_NAMED = (
    (re.compile(CHECKPOINT_NAME), _FileKind("checkpoint", _checkpoint)),
    (re.compile(ABORT_NAME), _FileKind("abort file, which is there while the broker runs", _text)),
    (re.compile(LOCK_NAME), _FileKind("lock file, of which a broker locks the first byte", _text)),
    (re.compile(r".*\.json(?:\.bak)?"), _FileKind("configuration", _json)),
    (
        re.compile(r"CURRENT|IDENTITY|MANIFEST-\d+|OPTIONS-\d+|\d+\.(?:sst|log)|LOG(?:\.old.*)?"),
        _FileKind("file of RocksDB, which is not decoded", _hex),
    ),
)
