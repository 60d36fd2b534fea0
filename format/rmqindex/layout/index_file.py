"""Offsets, sizes and dtypes of an IndexFile (spec: layout at a glance, header, slots, entries).

No other module holds an offset or a size of the format.
All integers are big-endian and signed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from rmqindex.arguments import int_of

# IndexHeader.java: the six fields of the 40-byte header.
HEADER_SIZE = 40
BEGIN_TIMESTAMP_OFFSET = 0
END_TIMESTAMP_OFFSET = 8
BEGIN_PHY_OFFSET_OFFSET = 16
END_PHY_OFFSET_OFFSET = 24
HASH_SLOT_COUNT_OFFSET = 32
INDEX_COUNT_OFFSET = 36

# IndexFile.java: hashSlotSize, indexSize, invalidIndex. Entry 0 is never used.
SLOT_SIZE = 4
ENTRY_SIZE = 20
INVALID_INDEX = 0
FIRST_POSITION = 1

# MessageStoreConfig.java: maxHashSlotNum, maxIndexNum, maxMsgsNumBatch.
DEFAULT_HASH_SLOT_NUM = 5_000_000
DEFAULT_INDEX_NUM = 20_000_000
DEFAULT_MAX_MSGS_NUM_BATCH = 64

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

HEADER_DTYPE = np.dtype(
    {
        "names": [
            "begin_timestamp",
            "end_timestamp",
            "begin_phy_offset",
            "end_phy_offset",
            "hash_slot_count",
            "index_count",
        ],
        "formats": [">i8", ">i8", ">i8", ">i8", ">i4", ">i4"],
        "offsets": [
            BEGIN_TIMESTAMP_OFFSET,
            END_TIMESTAMP_OFFSET,
            BEGIN_PHY_OFFSET_OFFSET,
            END_PHY_OFFSET_OFFSET,
            HASH_SLOT_COUNT_OFFSET,
            INDEX_COUNT_OFFSET,
        ],
        "itemsize": HEADER_SIZE,
    }
)
# The same fields; for one header, slot or entry, NumPy's calls cost ten times as much.
HEADER_STRUCT = struct.Struct(">qqqqii")
SLOT_DTYPE = np.dtype(">i4")
SLOT_STRUCT = struct.Struct(">i")
ENTRY_DTYPE = np.dtype(
    {
        "names": ["key_hash", "phy_offset", "time_diff", "prev_position"],
        "formats": [">i4", ">i8", ">i4", ">i4"],
        "offsets": [0, 4, 12, 16],
        "itemsize": ENTRY_SIZE,
    }
)
ENTRY_STRUCT = struct.Struct(">iqii")


@dataclass(frozen=True, slots=True)
class Geometry:
    """Where the slots and entries of an IndexFile lie, which the file itself does not state.

    It comes from the broker's configuration: ``maxHashSlotNum`` and ``maxIndexNum``.

    Attributes:
        hash_slot_num: How many hash slots the file has, at least 1.
        index_num: How many entry places the file has, at least 1.
            Place 0 is never used, so the file holds at most ``index_num - 1`` entries.

    Raises:
        ValueError: A number below 1, or a file size beyond the broker's 32-bit int.
        TypeError: Not an int.
    """

    hash_slot_num: int = DEFAULT_HASH_SLOT_NUM
    index_num: int = DEFAULT_INDEX_NUM

    def __post_init__(self) -> None:
        """Refuse a geometry that the broker itself could not open."""
        for name in ("hash_slot_num", "index_num"):
            object.__setattr__(self, name, int_of(name, getattr(self, name), 1))
        if self.file_size > INT32_MAX:
            raise ValueError(
                f"file size: expected at most {INT32_MAX} bytes (the broker's size is a 32-bit "
                f"int), got {self.file_size} for hash_slot_num {self.hash_slot_num} and index_num "
                f"{self.index_num}"
            )

    @property
    def file_size(self) -> int:
        """The size of the whole file in bytes."""
        return self.entry_offset(self.index_num)

    @property
    def capacity(self) -> int:
        """How many entries fit, ``index_num - 1``, since place 0 is never used."""
        return self.index_num - 1

    def slot_offset(self, slot: int) -> int:
        """Return the byte at which a slot starts; slots are numbered from 0."""
        return HEADER_SIZE + SLOT_SIZE * slot

    def entry_offset(self, position: int) -> int:
        """Return the byte at which an entry starts; entries are numbered from 1."""
        return HEADER_SIZE + SLOT_SIZE * self.hash_slot_num + ENTRY_SIZE * position


@dataclass(frozen=True, slots=True)
class IndexHeader:
    """The six header fields, as they stand on disk.

    Attributes:
        begin_timestamp: Store time of the first entry, epoch milliseconds.
            In a rolled file without entries: the previous file's ``end_timestamp``.
        end_timestamp: Store time of the last put, epoch milliseconds; not the maximum.
        begin_phy_offset: CommitLog offset of the first entry, bytes.
        end_phy_offset: CommitLog offset at which the last indexed message starts, bytes.
        hash_slot_count: How many slots are in use.
        index_count: The position the next entry will take; 0 or 1 in a file without entries.
    """

    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_phy_offset: int = 0
    end_phy_offset: int = 0
    hash_slot_count: int = 0
    index_count: int = 0

    @property
    def entry_count(self) -> int:
        """How many entries the header counts; 0 for an ``index_count`` of 1 or less."""
        return max(self.index_count - 1, 0)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> IndexHeader:
        """Decode the first 40 bytes of a file; further bytes are ignored.

        Raises:
            ValueError: Fewer than 40 bytes.
        """
        if len(data) < HEADER_SIZE:
            raise ValueError(f"header: expected {HEADER_SIZE} bytes, got {len(data)}")
        return cls(*HEADER_STRUCT.unpack_from(data))

    def to_bytes(self) -> bytes:
        """Encode the header as 40 bytes.

        Raises:
            ValueError: A field beyond its 64 or 32 bits.
            TypeError: A field that is not an int.
        """
        values = []
        for name in self.__slots__:
            bounds = np.iinfo(HEADER_DTYPE[name])
            values.append(int_of(name, getattr(self, name), bounds.min, bounds.max))
        return HEADER_STRUCT.pack(*values)
