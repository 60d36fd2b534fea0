"""A slow and obvious twin of the chapter on ConsumeQueues, like ``logs_oracle.py``."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from logs_oracle import SCHEDULE_TOPIC, int_at
from oracle import Rejected, hash_code, read_number, wrap

UNIT, BATCH_UNIT = 20, 46
BLANK_UNIT_SIZE = 2**31 - 1


def decode_unit(data: bytes, at: int, *, is_batch: bool) -> dict[str, int]:
    """Decode a unit."""
    names = [("phy_offset", 8), ("size", 4), ("tags_code", 8)]
    if is_batch:
        names += [("store_timestamp", 8), ("msg_base_offset", 8), ("batch_size", 2)]
        names += [("compacted_offset", 4), ("reserved", 4)]
    values = {}
    for name, width in names:
        values[name] = int_at(data, at, width)
        at += width
    return values


def is_written(unit: dict[str, int]) -> bool:
    """Whether a place holds a unit."""
    if unit["phy_offset"] < 0 or unit["size"] <= 0:
        return False
    return "batch_size" not in unit or (unit["msg_base_offset"] >= 0 and unit["batch_size"] > 0)


def read_units(files: list[dict[str, str]], *, is_batch: bool) -> dict[str, Any]:
    """Return what a reader gives of files: the units of each up to the first place without one."""
    size = BATCH_UNIT if is_batch else UNIT
    units, blanks = [], 0
    for file in sorted(files, key=lambda each: each["name"]):
        data = bytes.fromhex(file["hex"])
        for at in range(0, len(data) - size + 1, size):
            unit = decode_unit(data, at, is_batch=is_batch)
            if not is_written(unit):
                break
            if not is_batch and (unit["phy_offset"], unit["size"]) == (0, BLANK_UNIT_SIZE):
                blanks += 1
                continue
            offset = unit.get("msg_base_offset", (int(file["name"]) + at) // size)
            units.append({"queue_offset": offset, **unit})
    return {"units": units, "blank_units": blanks}


@dataclass
class Queue:
    """A ConsumeQueue in memory, operated on as the steps say."""

    file_size: int
    is_batch: bool
    files: dict[int, bytearray] = field(default_factory=dict)
    #: Where the next unit goes, in bytes of the queue.
    end: int = 0
    #: The offset of the first valid unit, in bytes; of a batch queue in messages, -1 for none.
    least: int = 0
    most_phy: int = -1

    @property
    def unit(self) -> int:
        """The size of a unit."""
        return BATCH_UNIT if self.is_batch else UNIT

    def read(self, at: int) -> dict[str, int]:
        """The unit at a place of the queue."""
        start = at - at % self.file_size
        return decode_unit(self.files[start], at - start, is_batch=self.is_batch)

    def recover(self) -> None:
        """Recover, steps 1 to 4."""
        starts = sorted(self.files)
        if not starts:
            if self.is_batch:
                self.least = -1
            return
        for start in starts[max(len(starts) - 3, 0) :]:
            self.end = start
            while self.end < start + self.file_size and is_written(self.read(self.end)):
                unit = self.read(self.end)
                self.most_phy = self._stop_of(unit)
                self.end += self.unit
            if self.end < start + self.file_size:
                break
        self._drop_files()
        self._revise()

    def _stop_of(self, unit: dict[str, int]) -> int:
        """What a put compares: the sum wraps, and of a batch unit it is the offset alone."""
        return wrap(unit["phy_offset"] + (0 if self.is_batch else unit["size"]), 64)

    def fail_to_load(self) -> None:
        """End the queue before the file of another size: a log's load, step 2, and CQ-RCV-5."""
        if self.is_batch:
            self.least, self.files = -1, {}
        elif self.files:
            self.end = max(self.files) + self.file_size

    def _drop_files(self) -> None:
        for start in [start for start in self.files if start > self.end]:
            del self.files[start]

    def _revise(self) -> None:
        if self.is_batch:
            first = min(self.files, default=None)
            empty = first is None or self.end == first
            self.least = -1 if empty else self.read(first)["msg_base_offset"]

    @property
    def min_offset(self) -> int:
        """The queue offset of the first valid message."""
        return self.least if self.is_batch else self.least // UNIT

    @property
    def max_offset(self) -> int:
        """The queue offset that the next message gets."""
        if not self.is_batch:
            return self.end // UNIT
        if not self.files or self.end <= min(self.files):
            return 0
        last = self.read(self.end - self.unit)
        return last["msg_base_offset"] + last["batch_size"]

    def correct_min_offset(self, phy_offset: int) -> None:
        """Correct the least offset, steps 1 to 3."""
        if self.is_batch:
            self._revise()
            first = min(self.files, default=None)
            at = first
            while at is not None and at < min(first + self.file_size, self.end):
                unit = self.read(at)
                if unit["phy_offset"] >= phy_offset:
                    break
                self.least = unit["msg_base_offset"] + unit["batch_size"]
                at += self.unit
            return
        if self.least >= self.end or not self.files:
            return
        has_last = self.end > max(self.files)
        if has_last and self.read(self.end - UNIT)["phy_offset"] < phy_offset:
            self.least = self.end
            return
        first = min(self.files)
        at = max(self.least, first)
        stop = min(first + self.file_size, self.end)
        while at < stop:
            if self.read(at)["phy_offset"] >= phy_offset:
                self.least = at
                return
            at += UNIT

    def truncate(self, phy_offset: int) -> None:
        """Truncate, steps 1 to 3."""
        self.most_phy = phy_offset - 1 if self.is_batch else phy_offset
        while self.files:
            start = max(self.files)
            if self.read(start)["phy_offset"] >= phy_offset:
                del self.files[start]
                self.end = start
                continue
            self.end = start + self.unit
            while self.end < start + self.file_size:
                unit = self.read(self.end)
                if not is_written(unit) or unit["phy_offset"] >= phy_offset:
                    break
                self.end += self.unit
            last = self.read(self.end - self.unit)
            self.most_phy = self._stop_of(last)
            break
        if not self.files:
            self.end = 0
        self._revise()

    def put(
        self,
        phy_offset: int,
        size: int,
        tags_code: int,
        queue_offset: int,
        *more: int,
        is_strict: bool = False,
    ) -> None:
        """Put, steps 1 to 6; a strict writer rejects a skipped queue offset (CQ-PUT-4)."""
        if self.is_batch:
            if phy_offset <= self.most_phy:
                return
            data = struct.pack(
                ">qiqqqhii", phy_offset, size, tags_code, 1_700_000_000_000 + queue_offset,
                queue_offset, more[0], -1, 0,
            )  # fmt: skip
            self._append(data)
            self.most_phy = phy_offset
            if self.least == -1:
                self.least = queue_offset
            return
        stop = wrap(phy_offset + size, 64)
        if stop <= self.most_phy:
            return
        at = queue_offset * UNIT
        if is_strict and self.files and at > self.end:
            raise Rejected("queue_offset")
        if not self.files:
            first = at - at % self.file_size
            self.end = first
            if queue_offset:
                self.least = at
            while self.end < at:
                self._append(struct.pack(">qiq", 0, BLANK_UNIT_SIZE, 0))
        elif queue_offset and at < self.end:
            return
        self.most_phy = stop
        self._append(struct.pack(">qiq", phy_offset, size, tags_code))

    def _append(self, data: bytes) -> None:
        start = self.end - self.end % self.file_size
        file = self.files.setdefault(start, bytearray(self.file_size))
        file[self.end - start : self.end - start + len(data)] = data
        self.end += len(data)

    def expire(self, phy_offset: int) -> None:
        """Expire, steps 1 and 2."""
        for start in sorted(self.files)[:-1]:
            if self.read(start + self.file_size - self.unit)["phy_offset"] >= phy_offset:
                break
            del self.files[start]
        self.correct_min_offset(phy_offset)

    def units(self) -> list[list[int]]:
        """The units from the least offset on: queue offset, CommitLog offset, size, code, count."""
        told = []
        first = min(self.files, default=0)
        for at in range(first, self.end, self.unit):
            unit = self.read(at)
            offset = unit.get("msg_base_offset", at // UNIT)
            if self.is_batch or at >= self.least:
                told.append(
                    [offset, unit["phy_offset"], unit["size"], unit["tags_code"],
                     unit.get("batch_size", 1)]
                )  # fmt: skip
        return [each for each in told if each[0] >= self.min_offset]


#: ``messageDelayLevel`` as it is without configuration, milliseconds.
DELAYS = [1, 5, 10, 30, *(60 * n for n in range(1, 11)), 1200, 1800, 3600, 7200]


def tags_code(topic: str, properties: dict[str, str], store_timestamp: int) -> int:
    """Tags code, steps 1 to 3."""
    level = read_number(properties.get("DELAY", "0"), 32)
    if topic == SCHEDULE_TOPIC and level is not None and level > 0:
        return wrap(store_timestamp + 1000 * DELAYS[min(level, len(DELAYS)) - 1], 64)
    tags = properties.get("TAGS")
    return hash_code(tags) if tags else 0


def is_folder(name: str) -> bool:
    """Whether a name is that of one folder, CQ-SEC-1."""
    return name not in ("", ".", "..") and not set(name) & {"/", "\0"}


def base_of(properties: dict[str, str], queue_offset: int) -> int:
    """The first queue offset of a batch unit: that of the numbers of a batch, or the record's."""
    if "INNER_BASE" in properties and "INNER_NUM" in properties:
        return read_number(properties["INNER_BASE"], 64) or 0
    return queue_offset


def light_queues(
    topic: str, properties: dict[str, str], queue_id: int
) -> list[tuple[str, int, int]]:
    """The light queues of a message, CQ-DSP-2: name, number and queue offset of each."""
    names = properties.get("INNER_MULTI_DISPATCH", "").rstrip(",").split(",")
    places = properties.get("INNER_MULTI_QUEUE_OFFSET", "").rstrip(",").split(",")
    offsets = [read_number(each, 64) for each in places]
    is_system = topic == SCHEDULE_TOPIC or topic.startswith(("rmq_sys_", "%RETRY%"))
    if is_system or len(names) != len(offsets):
        return []
    return [
        (name, 0 if name.startswith("%LMQ%") else queue_id, each)
        for name, each in zip(names, offsets, strict=True)
        if is_folder(name) and each is not None
    ]
