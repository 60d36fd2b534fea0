"""A slow and obvious twin of the broker's IndexFile, in plain Python: the oracle of the tests.

It shares no code with the package, and follows RocketMQ's ``IndexFile`` line by line.
"""

from __future__ import annotations

import struct

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


def java_int(value):
    """Wrap a number as Java's int does."""
    return (value + 2**31) % 2**32 - 2**31


def java_long(value):
    """Wrap a number as Java's long does."""
    return (value + 2**63) % 2**64 - 2**63


def java_hash_code(text):
    """Return ``String.hashCode``."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for place in range(0, len(units), 2):
        code = java_int(31 * code + int.from_bytes(units[place : place + 2], "big"))
    return code


def java_hash(text):
    """Return ``IndexFile.indexKeyHashMethod`` of a whole ``topic#key``."""
    code = java_hash_code(text)
    positive = code if code == -(2**31) else abs(code)
    return max(positive, 0)


class BrokerFile:
    """One IndexFile in memory: ``data`` is what the file holds, byte for byte."""

    def __init__(self, hash_slot_num, index_num, prev_end_phy_offset=0, prev_end_timestamp=0):
        """Create a file, as ``IndexFile``'s constructor does."""
        self.hash_slot_num = hash_slot_num
        self.index_num = index_num
        self.data = bytearray(40 + 4 * hash_slot_num + 20 * index_num)
        self.begin_timestamp = self.end_timestamp = max(prev_end_timestamp, 0)
        self.begin_phy_offset = self.end_phy_offset = max(prev_end_phy_offset, 0)
        self.hash_slot_count = 0
        self.index_count = 1
        self._write_header(index_count=0)

    @classmethod
    def load(cls, data, hash_slot_num, index_num):
        """Load a file, as ``IndexFile.load`` does."""
        file = cls(hash_slot_num, index_num)
        file.data = bytearray(data[: len(file.data)].ljust(len(file.data), b"\0"))
        (
            file.begin_timestamp,
            file.end_timestamp,
            file.begin_phy_offset,
            file.end_phy_offset,
            file.hash_slot_count,
            file.index_count,
        ) = struct.unpack_from(">qqqqii", file.data)
        file.index_count = max(file.index_count, 1)
        return file

    def _write_header(self, index_count):
        struct.pack_into(
            ">qqqqii",
            self.data,
            0,
            self.begin_timestamp,
            self.end_timestamp,
            self.begin_phy_offset,
            self.end_phy_offset,
            self.hash_slot_count,
            index_count,
        )

    def flush(self):
        """Write the header, as ``IndexFile.flush`` does."""
        self._write_header(self.index_count)

    def _entry_offset(self, position):
        return java_int(40 + 4 * self.hash_slot_num + java_int(20 * position))

    def put(self, key_hash, phy_offset, store_timestamp):
        """Append an entry by its hash, as ``IndexFile.putKey`` does by its key."""
        if self.index_count >= self.index_num:
            return False
        slot_offset = 40 + 4 * (key_hash % self.hash_slot_num)
        (previous,) = struct.unpack_from(">i", self.data, slot_offset)
        if previous <= 0 or previous > self.index_count:
            previous = 0
        elapsed = java_long(store_timestamp - self.begin_timestamp)
        seconds = abs(elapsed) // 1000 * (1 if elapsed >= 0 else -1)
        if self.begin_timestamp <= 0 or seconds < 0:
            seconds = 0
        struct.pack_into(
            ">iqii",
            self.data,
            self._entry_offset(self.index_count),
            key_hash,
            phy_offset,
            min(seconds, INT_MAX),
            previous,
        )
        struct.pack_into(">i", self.data, slot_offset, self.index_count)
        if self.index_count <= 1:
            self.begin_phy_offset = phy_offset
            self.begin_timestamp = store_timestamp
        if previous == 0:
            self.hash_slot_count = java_int(self.hash_slot_count + 1)
        self.index_count += 1
        self.end_phy_offset = phy_offset
        self.end_timestamp = store_timestamp
        self.flush()
        return True

    def select(self, key_hash, max_num, begin, end):
        """Find offsets by hash, as ``IndexFile.selectPhyOffset`` does by key.

        A walk without an end and without a match, on which the broker hangs, is a RuntimeError.
        """
        found = []
        (position,) = struct.unpack_from(">i", self.data, 40 + 4 * (key_hash % self.hash_slot_num))
        if position <= 0 or position > self.index_count or self.index_count <= 1:
            return found
        steps = 0  # since the last match
        while len(found) < max_num:
            offset = self._entry_offset(position)
            if not 0 <= offset <= len(self.data) - 20:
                break
            hashed, phy_offset, seconds, previous = struct.unpack_from(">iqii", self.data, offset)
            if seconds < 0:
                break
            time = java_long(self.begin_timestamp + seconds * 1000)
            if hashed == key_hash and begin <= time <= end:
                found.append(phy_offset)
                steps = 0
            if previous <= 0 or previous > self.index_count:
                break
            if previous == position or time < begin:
                break
            position = previous
            steps += 1
            if steps > len(self.data):
                raise RuntimeError("the broker hangs")
        return found

    def entries(self):
        """Decode every entry, the slow and obvious way."""
        rows = []
        for position in range(1, self.index_count):
            key_hash, phy_offset, seconds, previous = struct.unpack_from(
                ">iqii", self.data, self._entry_offset(position)
            )
            # The first entry's seconds may count from the end of the file before.
            late = seconds * 1000 if position > 1 else 0
            rows.append(
                {
                    "key_hash": key_hash,
                    "phy_offset": phy_offset,
                    "store_timestamp": self.begin_timestamp + late,
                    "time_diff": seconds,
                    "slot": key_hash % self.hash_slot_num,
                    "position": position,
                    "prev_position": previous,
                }
            )
        return rows

    def is_time_matched(self, begin, end):
        """Tell whether the file is searched, as ``IndexFile.isTimeMatched`` does."""
        first, last = self.begin_timestamp, self.end_timestamp
        return (begin < first and end > last) or first <= begin <= last or first <= end <= last
