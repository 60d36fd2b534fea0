"""IndexFiles byte by byte, as ``IndexFile.putKey`` and ``IndexHeader`` write them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from .truth import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .disk import Disk
    from .truth import Message

HEADER = 40


def key_hash(text: str) -> int:
    """Return ``IndexFile.indexKeyHashMethod`` of a whole ``topic#key``."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for place in range(0, len(units), 2):
        code = (31 * code + units[place] * 256 + units[place + 1]) % 2**32
    if code == 2**31:
        return 0
    return code if code < 2**31 else 2**32 - code


class IndexFile:
    """One file and what its broker holds of it in memory."""

    def __init__(self, disk: Disk, name: str, slots: int, places: int) -> None:
        """Name a file; :meth:`create` or :meth:`load` it next."""
        self.disk, self.name = disk, name
        self.path = f"index/{name}"
        self.slots, self.places = slots, places
        self.size = HEADER + 4 * slots + 20 * places
        self.data = bytearray(self.size)
        self.begin_time = self.end_time = self.begin_offset = self.end_offset = 0
        self.used, self.count = 0, 1

    def create(self, end_offset: int, end_time: int) -> Iterator[None]:
        """Make the file; it begins with the end of the one before."""
        self.disk.create(self.path, self.size)
        yield
        if end_offset > 0:
            self.begin_offset = self.end_offset = end_offset
            yield from self._store(">q", 16, end_offset)
            yield from self._store(">q", 24, end_offset)
        if end_time > 0:
            self.begin_time = self.end_time = end_time
            yield from self._store(">q", 0, end_time)
            yield from self._store(">q", 8, end_time)

    def load(self) -> None:
        """Read the file as it is, and give it its full size if it is shorter."""
        data = self.disk.read(self.path)
        if len(data) < self.size:
            self.disk.create(self.path, self.size)
        self.data = bytearray(data[: self.size].ljust(self.size, b"\0"))
        fields = struct.unpack_from(">qqqqii", self.data)
        self.begin_time, self.end_time, self.begin_offset, self.end_offset = fields[:4]
        self.used, self.count = fields[4], max(fields[5], 1)

    @property
    def is_full(self) -> bool:
        """Whether the next entry goes to the next file."""
        return self.count >= self.places

    def put(self, code: int, offset: int, time: int) -> Iterator[None]:
        """Append an entry field by field, in the broker's order."""
        slot_at = HEADER + 4 * (code % self.slots)
        (slot,) = struct.unpack_from(">i", self.data, slot_at)
        if slot <= 0 or slot > self.count:
            slot = 0
        at = HEADER + 4 * self.slots + 20 * self.count
        yield from self._store(">i", at, code)
        yield from self._store(">q", at + 4, offset)
        yield from self._store(">i", at + 12, self.seconds(time))
        yield from self._store(">i", at + 16, slot)
        yield from self._store(">i", slot_at, self.count)
        if self.count <= 1:
            self.begin_offset, self.begin_time = offset, time
            yield from self._store(">q", 16, offset)
            yield from self._store(">q", 0, time)
        if slot == 0:
            self.used += 1
            yield from self._store(">i", 32, self.used)
        self.count += 1
        yield from self._store(">i", 36, self.count)
        self.end_offset, self.end_time = offset, time
        yield from self._store(">q", 24, offset)
        yield from self._store(">q", 8, time)

    def seconds(self, time: int) -> int:
        """Return the ``time_diff`` of an entry that is put now."""
        if self.begin_time <= 0 or time < self.begin_time:
            return 0
        return min((time - self.begin_time) // 1000, 2**31 - 1)

    def time_read(self, time: int) -> int:
        """Return the time that readers find in the entry that is put now."""
        return time if self.count <= 1 else self.begin_time + 1000 * self.seconds(time)

    def flush(self) -> Iterator[None]:
        """Write the header as it is in memory."""
        yield from self._store(">i", 36, self.count)

    def _store(self, code: str, at: int, value: int) -> Iterator[None]:
        struct.pack_into(code, self.data, at, value)
        self.disk.write(self.path, at, struct.pack(code, value))
        yield


def entries_of(
    data: bytes,
    name: str,
    slots: int,
    texts: dict[tuple[int, int], list[str]],
    made: dict[tuple[str, int, int, int], str],
    alive: dict[int, Message],
    taken: dict[tuple[int, int], int],
):
    """Decode the entries of a file the obvious way.

    Args:
        data: The file.
        name: Its name.
        slots: How many slots it has.
        texts: What was hashed, by hash and offset; several texts are taken in turn, those of the
            message that the log has before those of one that it replaced.
        made: What the broker made entries of.
        alive: The messages of the log.
        taken: How often each hash and offset came in the files before; it is counted on.
    """
    begin_time, _, _, _, _, count = struct.unpack_from(">qqqqii", data.ljust(HEADER, b"\0"))
    found = []
    for position in range(1, count):
        at = HEADER + 4 * slots + 20 * position
        if at + 20 > len(data):
            break
        code, offset, seconds, _ = struct.unpack_from(">iqii", data, at)
        choices = texts.get((code, offset), [""])
        if (message := alive.get(offset)) is not None:
            choices = [text for text in choices if text in message.texts] or choices
        turn = taken.get((code, offset), 0)
        taken[code, offset] = turn + 1
        text = made.get((name, position, code, offset)) or choices[turn % len(choices)]
        time = begin_time if position == 1 else begin_time + 1000 * seconds
        kind = "tag" if "#T#" in text else "key"
        found.append(Entry(name, position, code, offset, time, text, kind))
    return found
