"""Undoes an append in place to an IndexFile (spec: put), and tells whether another came since.

An append in place changes three things: the places behind the last entry, the slots of the new
entries, and the header.
So the undo, written beforehand, holds the header, the old values of exactly those slots, and what a
killed broker left in those places.
"""

from __future__ import annotations

import os
import re
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from rmqindex.errors import RmqIndexError
from rmqindex.layout.index_file import (
    ENTRY_SIZE,
    FIRST_POSITION,
    HEADER_SIZE,
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    SLOT_DTYPE,
    SLOT_SIZE,
    Geometry,
    IndexHeader,
)
from rmqindex.storage.disk import naming, open_to_read
from rmqindex.storage.writable import WritableFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from rmqindex.storage.records import Fields

_ZEROS = bytes(1 << 20)
_MARK_TEXT = re.compile(rf"([0-9]{{1,19}}) ((?:[0-9a-f]{{2}}){{0,{HEADER_SIZE}}})")
_HEADER_TEXT = re.compile(f"[0-9a-f]{{{2 * HEADER_SIZE}}}")


class HeaderMark(NamedTuple):
    """What an append to a file changes: it tells whether a file is still what a commit left.

    A broker that starts on the store of a dead commit appends to whichever file is the newest.
    Every append changes the header, and a broker of another geometry the size.

    Attributes:
        size: Bytes.
        header: The first 40 bytes; fewer of a shorter file.
    """

    size: int
    header: bytes

    @classmethod
    def read(cls, path: Path) -> HeaderMark | None:
        """Return the mark of a file; None where it is absent."""
        try:
            descriptor = open_to_read(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            with naming(path):
                return cls(os.fstat(descriptor).st_size, os.pread(descriptor, HEADER_SIZE, 0))
        finally:
            os.close(descriptor)

    @classmethod
    def parse(cls, text: str) -> HeaderMark:
        """Return the mark that a journal holds."""
        match = _MARK_TEXT.fullmatch(text)
        if match is None or int(match[1]) > INT64_MAX:
            raise ValueError(f"expected a size and a header in hexadecimal digits, got {text!r}")
        return cls(int(match[1]), bytes.fromhex(match[2]))

    def __str__(self) -> str:
        """Return the text that a journal holds."""
        return f"{self.size} {self.header.hex()}"

    def difference(self, found: HeaderMark) -> str:
        """Return in words where a file that has another mark differs."""
        if self.header == found.header:
            return f"size: expected {self.size} bytes, got {found.size}"
        pairs = enumerate(zip(self.header, found.header, strict=False))
        byte = next((place for place, (old, new) in pairs if old != new), found.size)
        return (
            f"byte {byte}: expected the header that an interrupted write left "
            f"({self.header.hex()}), got another ({found.header.hex()})"
        )


@dataclass(frozen=True, slots=True)
class AppendRecord:
    """An append to a file: the part of its undo that the journal holds.

    Attributes:
        name: The file's name in its directory.
        hash_slot_num: Its geometry.
        index_num: Likewise.
        header: Its 40-byte header before the append, in hexadecimal digits.
        entries: How many entries are appended.
        end_phy_offset: The field of the header afterwards, bytes.
        end_timestamp: Likewise, epoch milliseconds.
        checksum: The CRC-32 of what :meth:`AppendUndo.to_bytes` returns.
        places_size: How many of its bytes are those of places; they come last.
    """

    name: str
    hash_slot_num: int
    index_num: int
    header: str
    entries: int
    end_phy_offset: int
    end_timestamp: int
    checksum: int
    places_size: int = 0

    @classmethod
    def of(cls, fields: Fields) -> AppendRecord:
        """Rebuild a record from :meth:`to_dict`."""
        record = cls(
            name=fields.text("name"),
            hash_slot_num=fields.integer("hash_slot_num", 0, INT32_MAX),
            index_num=fields.integer("index_num", 0, INT32_MAX),
            header=fields.text("header"),
            entries=fields.integer("entries", 0, INT32_MAX),
            end_phy_offset=fields.integer("end_phy_offset", INT64_MIN, INT64_MAX),
            end_timestamp=fields.integer("end_timestamp", INT64_MIN, INT64_MAX),
            checksum=fields.integer("checksum", 0, 2**32 - 1),
            # A journal of an older version has none.
            places_size=fields.integer("places_size", 0, INT32_MAX * ENTRY_SIZE)
            if "places_size" in fields.values
            else 0,
        )
        if not _HEADER_TEXT.fullmatch(record.header):
            raise ValueError(
                f"header: expected {HEADER_SIZE} bytes in hexadecimal digits, "
                f"got {len(record.header)} characters"
            )
        if record.index_count > min(record.layout.index_num, INT32_MAX):
            raise ValueError(f"entries: expected as many as fit, got {record.entries}")
        if record.places_size > record.entries * ENTRY_SIZE:
            raise ValueError(f"places_size: expected those of entries, got {record.places_size}")
        return record

    def to_dict(self) -> dict[str, object]:
        """Return the fields, as JSON can hold them."""
        return asdict(self)

    @property
    def layout(self) -> Geometry:
        """The geometry of the file."""
        return Geometry(self.hash_slot_num, self.index_num)

    @property
    def old_bytes(self) -> bytes:
        """The bytes of the header before the append."""
        return bytes.fromhex(self.header)

    @property
    def first_position(self) -> int:
        """The position of the first appended entry."""
        return max(IndexHeader.from_bytes(self.old_bytes).index_count, FIRST_POSITION)

    @property
    def index_count(self) -> int:
        """The ``indexCount`` of the header afterwards."""
        return self.first_position + self.entries

    def explains(self, header: bytes) -> bool:
        """Return whether a header is the one before or the one after the append."""
        return header == self.old_bytes or self.is_made(header)

    def is_made(self, header: bytes) -> bool:
        """Return whether a header is the one after the append."""
        if len(header) < HEADER_SIZE:
            return False
        found = IndexHeader.from_bytes(header)
        return (
            found.index_count == self.index_count
            and found.end_phy_offset == self.end_phy_offset
            and found.end_timestamp == self.end_timestamp
        )


@dataclass(frozen=True, slots=True, eq=False)
class AppendUndo:
    """The undo of an append: its record with the old slots and places.

    Attributes:
        record: The append.
        numbers: int32, the slots that change, ascending.
        values: int32, their old values, valid or not.
        places: The old bytes of the places of its entries, without zeros at their end.
    """

    record: AppendRecord
    numbers: NDArray[np.int32]
    values: NDArray[np.int32]
    places: bytes = b""

    @classmethod
    def plan(
        cls,
        name: str,
        layout: Geometry,
        header: bytes,
        entries: int,
        end: tuple[int, int],
        numbers: NDArray[np.int32],
        values: NDArray[np.int32],
        places: bytes = b"",
    ) -> AppendUndo:
        """Return the undo of a planned append."""
        checksum = zlib.crc32(_slot_bytes(numbers, values) + places)
        record = AppendRecord(
            name,
            layout.hash_slot_num,
            layout.index_num,
            header.hex(),
            entries,
            *end,
            checksum,
            len(places),
        )
        return cls(record, numbers, values, places)

    def then(self, later: AppendUndo) -> AppendUndo:
        """Return the undo of this append and the next one to the same file, in one."""
        record, end = self.record, later.record
        numbers = np.union1d(self.numbers, later.numbers)
        values = np.empty(len(numbers), np.int32)
        for each in (later, self):
            values[np.searchsorted(numbers, each.numbers)] = each.values
        places = self.places
        if later.places:
            places = places.ljust(record.entries * ENTRY_SIZE, b"\0") + later.places
        return self.plan(
            record.name,
            record.layout,
            record.old_bytes,
            record.entries + end.entries,
            (end.end_phy_offset, end.end_timestamp),
            numbers,
            values,
            places,
        )

    @classmethod
    def without_slots(cls, record: AppendRecord) -> AppendUndo:
        """Return the undo of an append that has changed no slot yet."""
        return cls(record, np.empty(0, np.int32), np.empty(0, np.int32))

    def to_bytes(self) -> bytes:
        """Return the slots' numbers and values, as big-endian 32-bit integers, and the places."""
        return _slot_bytes(self.numbers, self.values) + self.places

    @classmethod
    def of(cls, record: AppendRecord, data: bytes) -> AppendUndo | None:
        """Join a record with what :meth:`to_bytes` returned; None where the checksum differs."""
        size = len(data) - record.places_size
        if zlib.crc32(data) != record.checksum or size < 0 or size % (2 * SLOT_SIZE):
            return None
        slots, places = data[:size], data[size:]
        both = np.frombuffer(slots, SLOT_DTYPE).astype(np.int32)
        numbers, values = both[: len(both) // 2], both[len(both) // 2 :]
        inside = (numbers >= 0) & (numbers < record.hash_slot_num)
        if not inside.all() or not (numbers[1:] > numbers[:-1]).all():
            return None
        return cls(record, numbers, values, places)

    def restore(self, path: Path) -> None:
        """Restore the old bytes of a file; safe to repeat if it dies at any point."""
        layout = self.record.layout
        with WritableFile(path, os.O_RDWR) as file:
            if os.fstat(file.fileno()).st_size < layout.file_size:
                raise RmqIndexError(
                    f"{path}: file size: expected at least {layout.file_size} bytes, as the "
                    f"journal beside it says, got {os.fstat(file.fileno()).st_size}"
                )
            header = file.read_at(HEADER_SIZE, 0)
            if not self.record.explains(header):
                raise RmqIndexError(
                    f"{path}: byte 0: expected the header that an interrupted write left (of "
                    f"{self.record.index_count - 1} entries, the last at offset "
                    f"{self.record.end_phy_offset}), got another ({header.hex()}): another program "
                    "has written to the file since, and undoing the write would destroy that"
                )
            for start, stop in _neighbours(self.numbers):
                data = self.values[start:stop].astype(SLOT_DTYPE).tobytes()
                file.write_at(data, layout.slot_offset(int(self.numbers[start])))
            file.write_at(self.record.old_bytes, 0)
            first = layout.entry_offset(self.record.first_position)
            restore_places(file, first, self.record.entries * ENTRY_SIZE, self.places)
            file.sync()


def restore_places(file: WritableFile, start: int, size: int, places: bytes) -> None:
    """Write the old bytes of places, zeros behind them; holes stay."""
    _clear(file, start + len(places), start + size)
    file.write_at(places, start)


def _slot_bytes(numbers: NDArray[np.int32], values: NDArray[np.int32]) -> bytes:
    return np.concatenate([numbers, values]).astype(SLOT_DTYPE).tobytes()


def _neighbours(numbers: NDArray[np.int32]) -> Iterator[tuple[int, int]]:
    """Yield the runs of adjacent slots, as ranges of places in ``numbers``."""
    if not len(numbers):
        return
    cuts = (np.flatnonzero(np.diff(numbers) != 1) + 1).tolist()
    yield from zip([0, *cuts], [*cuts, len(numbers)], strict=True)


def _clear(file: WritableFile, start: int, stop: int) -> None:
    """Overwrite a range with zeros, except for its holes."""
    size = os.fstat(file.fileno()).st_size
    stop = min(stop, size)
    while start < stop:
        try:
            start = os.lseek(file.fileno(), start, os.SEEK_DATA)
        except OSError:  # only a hole follows
            return
        end = min(os.lseek(file.fileno(), start, os.SEEK_HOLE), stop)
        while start < end:
            length = min(len(_ZEROS), end - start)
            file.write_at(_ZEROS[:length], start)
            start += length


class UndoableAppend(Protocol):
    """A planned append in place, with its undo.

    Attributes:
        undo: The state of the file before.
    """

    undo: AppendUndo

    def apply(self) -> IndexHeader:
        """Write the entries, their slots and the header; return the header."""
