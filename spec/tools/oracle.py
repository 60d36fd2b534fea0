"""A slow and obvious twin of what the spec describes, written from the spec's numbered steps.

It shares no code with ``rmqindex``, so that each can be held against the other.
Its answers for RocketMQ's own files are compared with RocketMQ's own answers by the tests;
only then are its answers for broken files used in the vectors.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

HEADER = struct.Struct(">qqqqii")
SLOT = struct.Struct(">i")
ENTRY = struct.Struct(">iqii")
HEADER_FIELDS = (
    "begin_timestamp",
    "end_timestamp",
    "begin_phy_offset",
    "end_phy_offset",
    "hash_slot_count",
    "index_count",
)
INT32_MAX = 2**31 - 1
MAX_MSGS_NUM_BATCH = 64


class Rejected(Exception):
    """The bytes break a rule.

    Attributes:
        field: What is wrong, by the spec's name.
        byte: Where it stands; None for what is in no file.
    """

    def __init__(self, name: str, byte: int | None = None) -> None:
        """Remember the field and its place."""
        super().__init__(name if byte is None else f"{name} at byte {byte}")
        self.field = name
        self.byte = byte


def wrap(value: int, bits: int) -> int:
    """Return the value as signed two's complement of so many bits."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def divide(value: int, by: int) -> int:
    """Divide and truncate toward zero."""
    return -(-value // by) if value < 0 else value // by


def code_units(text: str) -> list[int]:
    """Return the UTF-16 code units of a text, unpaired surrogates as they are."""
    data = text.encode("utf-16-be", "surrogatepass")
    return [data[i] << 8 | data[i + 1] for i in range(0, len(data), 2)]


def hash_code(text: str) -> int:
    """Key hash chapter, IDX-HSH-2."""
    code = 0
    for unit in code_units(text):
        code = (31 * code + unit) % 2**32
    return wrap(code, 32)


def key_hash(text: str) -> int:
    """Key hash chapter, IDX-HSH-3."""
    code = abs(hash_code(text))
    return 0 if code == 2**31 else code


@dataclass
class File:
    """One IndexFile in memory, operated on as the spec's steps say."""

    hash_slot_num: int
    index_num: int
    data: bytearray

    @classmethod
    def create(cls, slots: int, places: int, end_offset: int = 0, end_time: int = 0) -> File:
        """Create, steps 1 to 4."""
        file = cls(slots, places, bytearray(40 + 4 * slots + 20 * places))
        if end_offset > 0:
            file.set(begin_phy_offset=end_offset, end_phy_offset=end_offset)
        if end_time > 0:
            file.set(begin_timestamp=end_time, end_timestamp=end_time)
        return file

    @classmethod
    def resume(cls, slots: int, places: int, data: bytearray) -> File:
        """Go on with a file, steps 1 to 4: its bytes, and zeros up to the size of the geometry."""
        return cls(slots, places, data.ljust(40 + 4 * slots + 20 * places, b"\0"))

    @property
    def header(self) -> dict[str, int]:
        """The six fields as they stand."""
        return dict(zip(HEADER_FIELDS, HEADER.unpack_from(self.data), strict=True))

    def set(self, **fields: int) -> None:
        """Write some header fields."""
        HEADER.pack_into(self.data, 0, *{**self.header, **fields}.values())

    @property
    def index_count(self) -> int:
        """The counter, lifted to 1."""
        return max(self.header["index_count"], 1)

    def slot_at(self, slot: int) -> int:
        """The byte of a slot."""
        return 40 + 4 * slot

    def entry_at(self, position: int) -> int:
        """The byte of an entry."""
        return 40 + 4 * self.hash_slot_num + 20 * position

    def slot(self, slot: int) -> int:
        """The value of a slot."""
        return int(SLOT.unpack_from(self.data, self.slot_at(slot))[0])

    def entry(self, position: int) -> tuple[int, int, int, int]:
        """Hash, offset, time difference and previous position of an entry."""
        return ENTRY.unpack_from(self.data, self.entry_at(position))

    def flush(self) -> None:
        """Write the counter as it is in memory."""
        self.set(index_count=self.index_count)

    def is_full(self) -> bool:
        """Whether a put would be refused."""
        return self.index_count >= self.index_num

    @property
    def size(self) -> int:
        """The size of the geometry."""
        return 40 + 4 * self.hash_slot_num + 20 * self.index_num

    def put(
        self, key: str, phy_offset: int, store_timestamp: int, *, counts_puts: bool = False
    ) -> bool:
        """Put, steps 1 to 12; every put counts in edition 4.0."""
        header, count = self.header, self.index_count
        if count >= self.index_num:
            return False
        hashed = key_hash(key)
        slot = hashed % self.hash_slot_num
        prev = self.slot(slot)
        if prev <= 0 or prev > count:
            prev = 0
        begin = header["begin_timestamp"]
        diff = divide(wrap(store_timestamp - begin, 64), 1000)
        diff = 0 if begin <= 0 else max(0, min(diff, INT32_MAX))
        ENTRY.pack_into(self.data, self.entry_at(count), hashed, phy_offset, diff, prev)
        SLOT.pack_into(self.data, self.slot_at(slot), count)
        if count <= 1:
            self.set(begin_phy_offset=phy_offset, begin_timestamp=store_timestamp)
        if prev == 0 or counts_puts:
            self.set(hash_slot_count=wrap(header["hash_slot_count"] + 1, 32))
        self.set(index_count=count + 1)
        self.set(end_phy_offset=phy_offset, end_timestamp=store_timestamp)
        return True

    def select(self, found: list[int], key: str, max_num: int, begin: int, end: int) -> None:
        """The broker's walk, steps 1 to 10; raises Rejected where the broker would hang."""
        hashed = key_hash(key)
        count = self.index_count
        slot = hashed % self.hash_slot_num
        position = self.slot(slot)
        if position <= 0 or position > count or count <= 1:
            return
        seen: dict[int, int] = {}
        while len(found) < max_num:
            at = wrap(wrap(40 + 4 * self.hash_slot_num, 32) + wrap(position * 20, 32), 32)
            if seen.get(position) == len(found):
                raise Rejected("prev_position", at + 16)
            seen[position] = len(found)
            if at < 0 or at + 20 > self.size:
                return
            read, offset, diff, prev = ENTRY.unpack_from(self.data, at)
            if diff < 0:
                return
            time = wrap(self.header["begin_timestamp"] + diff * 1000, 64)
            if read == hashed and begin <= time <= end:
                found.append(offset)
            if prev <= 0 or prev > count or prev == position or time < begin:
                return
            position = prev

    def is_time_matched(self, begin: int, end: int) -> bool:
        """Time match, steps 1 to 4."""
        low, high = self.header["begin_timestamp"], self.header["end_timestamp"]
        return (begin < low and end > high) or low <= begin <= high or low <= end <= high

    def time(self, position: int) -> int:
        """The time of an entry, as a strict or lenient reader takes it."""
        begin = self.header["begin_timestamp"]
        return begin if position == 1 else begin + self.entry(position)[2] * 1000

    def fault(self, position: int) -> tuple[str, int] | None:
        """What is wrong with an entry, and where; None if it is sound."""
        hashed, _, diff, prev = self.entry(position)
        at = self.entry_at(position)
        if hashed < 0:
            return "key_hash", at
        if not 0 <= prev <= position:
            return "prev_position", at + 16
        if diff < 0 or not -(2**63) <= self.time(position) < 2**63:
            return "time_diff", at + 12
        return None

    def open_strictly(self, size: int) -> None:
        """Open as a strict reader a file of so many bytes, steps 2, 3 and 6."""
        if size < 40:
            raise Rejected("header", 0)
        if size < 40 + 4 * self.hash_slot_num + 20 * self.index_num:
            raise Rejected("file_size", size)
        if self.header["index_count"] > self.index_num:
            raise Rejected("index_count", 36)

    def scan(self, *, strict: bool, size: int) -> list[int]:
        """Scan, steps 1 to 5: the positions given."""
        positions = []
        for position in range(1, min(self.index_count, self.index_num)):
            if self.entry_at(position + 1) > size:
                break
            if not strict and position > 1 and not any(self.entry(position)):
                continue
            fault = self.fault(position)
            if fault is None:
                positions.append(position)
            elif strict:
                raise Rejected(*fault)
        return positions

    def lookup_leniently(self, hashed: int, size: int) -> list[int]:
        """A sound lookup by a lenient reader, steps 1 and 9."""
        sound = self.scan(strict=False, size=size) if size >= 40 else []
        return [position for position in reversed(sound) if self.entry(position)[0] == hashed]

    def lookup_strictly(self, hashed: int) -> list[int]:
        """A sound lookup by a strict reader, steps 1 to 9."""
        slot = hashed % self.hash_slot_num
        count = self.index_count
        if count <= 1:
            return []
        position = self.slot(slot)
        if not 0 <= position <= min(count, self.index_num - 1):
            raise Rejected("slot", self.slot_at(slot))
        found = []
        while position:
            if position >= count and position > 1 and not any(self.entry(position)):
                return self._lookup_by_scan(hashed)
            fault = self.fault(position)
            if fault is not None:
                raise Rejected(*fault)
            if self.entry(position)[0] % self.hash_slot_num != slot:
                raise Rejected("key_hash", self.entry_at(position))
            if position < count and self.entry(position)[0] == hashed:
                found.append(position)
            if self.entry(position)[3] == position:
                return found if position == 1 else self._lookup_by_scan(hashed)
            position = self.entry(position)[3]
        return found

    def _lookup_by_scan(self, hashed: int) -> list[int]:
        """A sound lookup by a strict reader, step 9."""
        every = reversed(self.scan(strict=True, size=len(self.data)))
        return [position for position in every if self.entry(position)[0] == hashed]


@dataclass
class Directory:
    """The file set, operated on as the spec's steps say; names are the caller's."""

    hash_slot_num: int
    index_num: int
    files: list[File] = field(default_factory=list)
    index_msg_timestamp: int = 0
    counts_puts: bool = False

    def last(self) -> File:
        """Take the last file; if it is full, roll over, steps 1 to 4."""
        if self.files and not self.files[-1].is_full():
            return self.files[-1]
        end_offset = end_time = 0
        if self.files:
            full = self.files[-1]
            end_offset, end_time = full.header["end_phy_offset"], full.header["end_timestamp"]
            full.flush()
            if end_time > 0:
                self.index_msg_timestamp = end_time
        self.files.append(File.create(self.hash_slot_num, self.index_num, end_offset, end_time))
        return self.files[-1]

    def build(
        self,
        topic: str,
        unique_key: str | None,
        keys: str | None,
        sys_flag: int,
        phy_offset: int,
        store_timestamp: int,
        tags: str | None = None,
    ) -> None:
        """Build from one message, steps 1 to 8; without ``tags`` as before edition 5.4."""
        if self.index_num == 1:
            raise ValueError("a file set of one place a file")
        file = self.last()
        if phy_offset < file.header["end_phy_offset"]:
            return
        for key in message_keys(topic, unique_key, keys, sys_flag, tags):
            counts = {"counts_puts": self.counts_puts}
            while not self.last().put(key, phy_offset, store_timestamp, **counts):
                pass

    def query(
        self,
        topic: str,
        key: str,
        max_num: int,
        begin: int,
        end: int,
        index_type: str | None = None,
    ) -> tuple[list[int], int, int]:
        """Query, steps 1 to 8."""
        max_num = min(max_num, MAX_MSGS_NUM_BATCH)
        if max_num < 0:
            raise Rejected("max_num", 0)
        index_key = f"{topic}#T#{key}" if index_type == "T" else f"{topic}#{key}"
        found: list[int] = []
        time = offset = 0
        if self.files:
            time = self.files[-1].header["end_timestamp"]
            offset = self.files[-1].header["end_phy_offset"]
        for file in reversed(self.files):
            if file.is_time_matched(begin, end):
                file.select(found, index_key, max_num, begin, end)
            if file.header["begin_timestamp"] < begin or len(found) >= max_num:
                break
        return found, time, offset

    def delete_expired(self, min_phy_offset: int) -> None:
        """Expiry, steps 1 to 3."""
        while len(self.files) > 1 and self.files[0].header["end_phy_offset"] < min_phy_offset:
            del self.files[0]

    def load(
        self, entries: dict[str, bytes | None], *, last_exit_ok: bool
    ) -> tuple[bool, list[str], list[str]]:
        """Load, steps 1 to 7, from a directory's contents; a directory in it is None.

        Returns the result, the names loaded, and the names left in the directory.
        """
        loaded: list[str] = []
        left = set(entries)
        for name in sorted(filter(is_index_name, entries), key=code_units):
            data = entries[name]
            if data is None:
                return False, loaded, sorted(left)
            file = File(self.hash_slot_num, self.index_num, bytearray(data))
            file.data = file.data[: file.size].ljust(file.size, b"\0")
            if not last_exit_ok and file.header["end_timestamp"] > self.index_msg_timestamp:
                left.remove(name)
                continue
            self.files.append(file)
            loaded.append(name)
        return True, loaded, sorted(left)


def discover_geometry(data: bytes) -> tuple[int, int] | None:
    """Geometry discovery, steps 1 to 5; None for a file without entries."""
    if len(data) < 40:
        raise Rejected("header", 0)
    count = max(HEADER.unpack_from(data)[5], 1)
    if count <= 1:
        return None
    found = []
    for slots in range(1, (len(data) - 40) // 4 + 1):
        places, rest = divmod(len(data) - 40 - 4 * slots, 20)
        if not rest and places >= count:
            file = File(slots, places, bytearray(data))
            if _agrees(file, count):
                found.append((slots, places))
    if len(found) != 1:
        raise Rejected("geometry", 0)
    return found[0]


def _agrees(file: File, count: int) -> bool:
    """Geometry discovery, step 4."""
    header = file.header
    ends = (file.entry(1)[1], file.entry(count - 1)[1])
    if ends != (header["begin_phy_offset"], header["end_phy_offset"]):
        return False
    newest = [0] * file.hash_slot_num
    for position in range(1, count):
        hashed, _, diff, prev = file.entry(position)
        if hashed < 0 or diff < 0:
            return False
        if prev not in (position, newest[hashed % file.hash_slot_num]):
            return False
        newest[hashed % file.hash_slot_num] = position
    slots = [file.slot(slot) for slot in range(file.hash_slot_num)]
    return all(
        value in (expected, *range(count, file.index_num))
        for value, expected in zip(slots, newest, strict=True)
    )


_SEQUENCES = (
    (0x00, 0x7F, 0x00, 0xFF, 1),
    (0xC2, 0xDF, 0x80, 0xBF, 2),
    (0xE0, 0xE0, 0xA0, 0xBF, 3),
    (0xE1, 0xEC, 0x80, 0xBF, 3),
    (0xED, 0xED, 0x80, 0x9F, 3),
    (0xEE, 0xEF, 0x80, 0xBF, 3),
    (0xF0, 0xF0, 0x90, 0xBF, 4),
    (0xF1, 0xF3, 0x80, 0xBF, 4),
    (0xF4, 0xF4, 0x80, 0x8F, 4),
)


def _sequence(data: bytes) -> tuple[int, bool]:
    """Return how many bytes begin a well-formed sequence, and whether they are all of one."""
    for low, high, second_low, second_high, length in _SEQUENCES:
        if low <= data[0] <= high:
            ranges = [(low, high), (second_low, second_high), (0x80, 0xBF), (0x80, 0xBF)][:length]
            fitting = 0
            for value, (least, most) in zip(data, ranges, strict=False):
                if not least <= value <= most:
                    break
                fitting += 1
            return fitting, fitting == length
    return 0, False


def decode_utf8(data: bytes) -> str:
    """Malformed UTF-8, steps 1 to 6."""
    text = ""
    while data:
        fitting, is_whole = _sequence(data)
        if is_whole:
            text += data[:fitting].decode()
            data = data[fitting:]
            continue
        text += "\ufffd"
        if data[0] == 0xED and len(data) > 1 and 0xA0 <= data[1] <= 0xBF:
            data = data[3 if 0x80 <= (data + b"\0\0")[2] <= 0xBF else 2 :]
        else:
            data = data[max(fitting, 1) :]
    return text


def message_keys(
    topic: str, unique_key: str | None, keys: str | None, sys_flag: int, tags: str | None = None
) -> list[str]:
    """Return the index keys of a message, in the order of the puts."""
    if sys_flag & 12 == 12:
        return []
    parts = [] if unique_key is None else [unique_key]
    parts += [part for part in (keys or "").split(" ") if part]
    parts += [f"T#{tags}"] if tags else []
    return [f"{topic}#{part}" for part in parts]


def message_properties(text: str) -> dict[str, str]:
    """Decode the text of a message's properties, as RocketMQ's MessageDecoder does."""
    properties: dict[str, str] = {}
    for piece in text.split("\x02"):
        name, separator, value = piece.partition("\x01")
        if len(piece) >= 3 and name and separator and value:
            properties[name] = value
    return properties


ZEROS = (
    0x0030, 0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6,
    0x0D66, 0x0DE6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80,
    0x1A90, 0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0,
    0xFF10,
)  # fmt: skip


def read_number(text: str, bits: int) -> int | None:
    """Numbers in texts: the value, or None where the text is no number of so many bits."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    value = 0
    for unit in code_units(digits):
        zero = next((zero for zero in ZEROS if zero <= unit <= zero + 9), None)
        if zero is None:
            return None
        value = 10 * value + unit - zero
    value = -value if text[:1] == "-" else value
    return value if digits and wrap(value, bits) == value else None


def is_index_name(name: str) -> bool:
    """Names, IDX-NAM-3."""
    return read_number(name, 64) is not None
