"""ConsumeQueues unit by unit."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from .truth import Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .disk import Disk

UNIT, BATCH_UNIT = 20, 46
BLANK_UNIT = struct.pack(">qiq", 0, 2**31 - 1, 0)


class Queue:
    """One queue's files, and what its broker holds of them in memory."""

    def __init__(self, disk: Disk, topic: str, queue_id: int, units: int, *, batch: bool) -> None:
        """Begin a queue without files."""
        self.disk, self.topic, self.queue_id, self.is_batch = disk, topic, queue_id, batch
        folder = "batchconsumequeue" if batch else "consumequeue"
        self.folder = f"{folder}/{topic}/{queue_id}"
        self.unit_size = BATCH_UNIT if batch else UNIT
        self.file_size = self.unit_size * units
        self.files: list[int] = []
        #: The byte at which the next unit goes.
        self.end = 0
        #: Where in the log the message ends that was put last; in a batch queue, where it starts.
        self.most = -1
        #: The queue offset of the next message.
        self.next_offset = 0

    def load(self) -> None:
        """Find the end of the queue on the disk, as recovery does, and delete files behind it."""
        names = [int(name) for name in self.disk.names(self.folder) if name.isdecimal()]
        self.files = sorted(names)
        self.end, self.most, self.next_offset = 0, -1, 0
        for start in self.files[max(len(self.files) - 3, 0) :]:
            data = self.disk.read(self._name(start))
            self.end = start
            for at in range(0, self.file_size, self.unit_size):
                unit = self._unit(data, at)
                if unit is None:
                    break
                self.end = start + at + self.unit_size
                self._note(unit)
            if self.end < start + self.file_size:
                break
        for start in [one for one in self.files if one >= self.end and one != self.files[0]]:
            self.disk.delete(self._name(start))
            self.files.remove(start)
        if not self.is_batch:
            self.next_offset = self.end // UNIT

    @property
    def has_remains(self) -> bool:
        """Whether a truncation left bytes behind its end."""
        start = self.end - self.end % self.file_size
        return any(self.disk.read(self._name(start))[self.end - start :])

    def truncate(self, log_end: int) -> None:
        """End the queue before the first unit that leads to the log's end or behind it."""
        while self.files:
            start = self.files[-1]
            data = self.disk.read(self._name(start))
            first = self._unit(data, 0)
            if first is not None and first[0] >= log_end:
                self.disk.delete(self._name(start))
                self.files.pop()
                self.end = start
                continue
            self.end, self.most = start, log_end
            for at in range(0, self.file_size, self.unit_size):
                unit = self._unit(data, at)
                if unit is None or unit[0] >= log_end:
                    break
                self.end = start + at + self.unit_size
                self._note(unit)
            break
        else:
            self.end, self.most, self.next_offset = 0, log_end, 0
        if not self.is_batch:
            self.next_offset = self.end // UNIT

    def expire(self, log_start: int) -> None:
        """Delete the files whose last unit points before the log, but never the last file."""
        while len(self.files) > 1:
            data = self.disk.read(self._name(self.files[0]))
            unit = self._unit(data, self.file_size - self.unit_size)
            if unit is None or unit[0] >= log_start:
                break
            self.disk.delete(self._name(self.files.pop(0)))

    def put(self, unit: Unit, queue_offset: int) -> Iterator[None]:
        """Add a unit, or leave it out, as the broker does."""
        if self.is_batch:
            if unit.offset <= self.most:
                return
            self.most = unit.offset
            data = struct.pack(">qiqqqhii", *self._batch_fields(unit))
        else:
            if unit.offset + unit.size <= self.most:
                return
            if self.files and queue_offset and queue_offset * UNIT < self.end:
                return
            if not self.files and queue_offset:
                yield from self._fill(queue_offset)
            self.most = unit.offset + unit.size
            data = struct.pack(">qiq", unit.offset, unit.size, unit.tags_code)
        start = self.end - self.end % self.file_size
        if start not in self.files:
            self.disk.create(self._name(start), self.file_size)
            self.files.append(start)
            yield
        self.disk.write(self._name(start), self.end - start, data)
        self.end += self.unit_size
        self.next_offset = unit.queue_offset + max(unit.batch_size, 1)
        yield

    @staticmethod
    def _batch_fields(unit: Unit) -> tuple[int, ...]:
        head = (unit.offset, unit.size, unit.tags_code, unit.store_time)
        return (*head, unit.queue_offset, unit.batch_size, -1, 0)

    def _fill(self, queue_offset: int) -> Iterator[None]:
        byte = queue_offset * UNIT
        start = byte - byte % self.file_size
        self.disk.create(self._name(start), self.file_size)
        self.files.append(start)
        self.end = byte
        yield
        for at in range(0, byte - start, UNIT):
            self.disk.write(self._name(start), at, BLANK_UNIT)
            yield

    def _name(self, start: int) -> str:
        return f"{self.folder}/{start:020d}"

    def _unit(self, data: bytes, at: int) -> tuple[int, ...] | None:
        if at + self.unit_size > len(data):
            return None
        fields = struct.unpack_from(">qiqqqhii" if self.is_batch else ">qiq", data, at)
        is_unit = fields[0] >= 0 and fields[1] > 0
        if self.is_batch:
            is_unit = is_unit and fields[4] >= 0 and fields[5] > 0
        return fields if is_unit else None

    def _note(self, unit: tuple[int, ...]) -> None:
        if self.is_batch:
            self.most, self.next_offset = unit[0], unit[4] + unit[5]
        else:
            self.most = unit[0] + unit[1]

    def units(self) -> list[tuple[int, Unit]]:
        """Decode the units of the files on the disk, each with its byte; blank ones left out."""
        found = []
        for start in sorted(int(n) for n in self.disk.names(self.folder) if n.isdecimal()):
            data = self.disk.read(self._name(start))
            for at in range(0, len(data), self.unit_size):
                fields = self._unit(data, at)
                if fields is None:
                    break
                if self.is_batch or fields[:2] != (0, 2**31 - 1):
                    found.append((start + at, self._decoded(start + at, fields)))
        return found

    def _decoded(self, byte: int, fields: tuple[int, ...]) -> Unit:
        place = (self.topic, self.queue_id, fields[4] if self.is_batch else byte // UNIT)
        more = {"batch_size": fields[5], "store_time": fields[3]} if self.is_batch else {}
        return Unit(*place, *fields[:3], **more)
