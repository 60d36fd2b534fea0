"""The 40-byte header of an IndexFile (spec: header; RocketMQ: ``IndexHeader``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmqindex.arguments import int_of
from rmqindex.layout import HEADER_DTYPE, HEADER_SIZE, HEADER_STRUCT

__all__ = ["IndexHeader"]


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
