"""Writes the files of new ConsumeQueues (RocketMQ: ``ConsumeQueue.putMessagePositionInfo``)."""

from __future__ import annotations

import os
import shutil
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqindex.consumequeue.dispatch import Refusal
from rmqindex.folders import BATCH_FOLDER, QUEUE_FOLDER
from rmqindex.layout import INT64_MAX
from rmqindex.ownfiles.disk import naming
from rmqindex.queue_layout import (
    BATCH_UNIT_DTYPE,
    BLANK_SIZE,
    FILE_NAME_DIGITS,
    NO_COMPACTED_OFFSET,
    UNIT_DTYPE,
)
from rmqindex.record_layout import MIN_RECORD_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from rmqindex.consumequeue.dispatch import QueueUnits

    # Whether a present queue, by topic and number, has at a queue offset the unit of a message.
    Proof = Callable[[str, int, int, int], bool]

__all__ = ["DroppedUnits", "QueueWriters"]

# The longest name in Linux's file systems, bytes.
_MAX_NAME_BYTES = 255
# So many blank units are written at once.
_BLANK_UNITS = 1 << 16
_INT16_MAX = 2**15 - 1
# The last unit's place is still a 64-bit number.
_MAX_QUEUE_OFFSET = INT64_MAX // UNIT_DTYPE.itemsize - 1


class DroppedUnits(NamedTuple):
    """Units of one queue that are not in the new one, since their queue offsets are taken.

    Attributes:
        topic: The topic.
        queue_id: The number of the queue.
        units: How many.
        queue_offset: That of the first one.
        phy_offset: Where its message starts in the log, bytes.
    """

    topic: str
    queue_id: int
    units: int
    queue_offset: int
    phy_offset: int


def _names_folder(topic: str) -> bool:
    return (
        topic not in {"", ".", ".."}
        and not {"/", "\0"} & set(topic)
        and len(os.fsencode(topic)) <= _MAX_NAME_BYTES
    )


class QueueWriters:
    """The queues in the making."""

    def __init__(
        self,
        root: Path,
        file_sizes: dict[bool, int],
        refuse: Callable[[Refusal], None],
        proof: Proof,
    ) -> None:
        """Begin without queues.

        Args:
            root: Where their folders are made.
            file_sizes: The size of the files of plain (False) and batch queues (True), bytes.
            refuse: Called with messages that no queue can take.
            proof: Whether a present queue, by topic and number, has at a queue offset the unit of
                the message at an offset of the log.
        """
        self._root = root
        self._refuse = refuse
        self._file_sizes = file_sizes
        self._proof = proof
        self._queues: dict[tuple[str, int, bool], QueueWriter] = {}

    def __contains__(self, queue: object) -> bool:
        """Return whether a queue, by topic, number and kind, was written."""
        return queue in self._queues

    @property
    def queues(self) -> dict[tuple[str, int, bool], QueueWriter]:
        """The queues by topic, number, and whether they are batch queues."""
        return self._queues

    def append(self, units: QueueUnits) -> None:
        """Append the units of one queue."""
        key = (units.topic, units.queue_id, units.is_batch)
        queue = self._queues.get(key)
        if queue is None:
            if not _names_folder(units.topic) or units.queue_id < 0:
                expected = "the name of a folder, and a queue's number"
                got = f"{units.topic!r} and {units.queue_id}"
                for phy_offset in units.phy_offset.tolist():
                    self._refuse(Refusal(phy_offset, "topic", expected, got))
                return
            folder = self._root / (BATCH_FOLDER if units.is_batch else QUEUE_FOLDER)
            directory = folder / units.topic / str(units.queue_id)
            directory.mkdir(parents=True)
            size = self._file_sizes[units.is_batch]
            queue = QueueWriter(directory, key, size, self._refuse, self._proof)
            self._queues[key] = queue
        queue.append(units)

    def clear(self) -> None:
        """Remove all queues, to begin again."""
        for folder in (QUEUE_FOLDER, BATCH_FOLDER):
            shutil.rmtree(self._root / folder, ignore_errors=True)
        self._queues.clear()


class QueueWriter:
    """One queue, which grows at its end.

    A queue offset that falls back to 0 begins it anew: its topic was deleted, and made again.
    So does one that falls back to where the present queue has the unit of that very message.

    Attributes:
        unit_count: How many units it has, without blank ones.
        file_count: How many files.
        gaps: The queue offsets between which messages are missing.
        superseded_count: How many units were of the time before it began anew.
        dropped: The units whose queue offsets are taken: how many, and queue offset and message of
            the first one; None without any.
    """

    def __init__(
        self,
        directory: Path,
        key: tuple[str, int, bool],
        file_size: int,
        refuse: Callable[[Refusal], None],
        proof: Proof,
    ) -> None:
        """Begin without a unit.

        Args:
            directory: Where its files go.
            key: Its topic and number, and whether it is a batch queue.
            file_size: The size of its files, bytes.
            refuse: As in :class:`QueueWriters`.
            proof: As in :class:`QueueWriters`.
        """
        self._topic, self._queue_id, self._is_batch = key
        self._refuse = refuse
        self._proof = proof
        self._directory = directory
        self._file_size = file_size
        self._next: int | None = None  # the next queue offset; None before the first unit
        self._byte = 0  # where its unit goes
        self._newest = -1  # where the message of its newest unit starts in the log, bytes
        self.unit_count = 0
        self.file_count = 0
        self.gaps: list[tuple[int, int]] = []
        self.superseded_count = 0
        self.dropped: DroppedUnits | None = None

    def append(self, units: QueueUnits) -> None:
        """Append units, each at the place of its queue offset."""
        offsets, stops = units.queue_offset, units.queue_offset + units.batch_size
        cuts = [0, *(np.flatnonzero(offsets[1:] != stops[:-1]) + 1).tolist(), len(offsets)]
        # What comes before the last beginning need not be written.
        begun = [cut for cut in cuts[:-1] if offsets[cut] == 0]
        if begun and (self._next is not None or begun[-1]):
            skipped = begun[-1]
            self._begin_anew(skipped)
            cuts = cuts[cuts.index(skipped) :]
        data = self._encoded(units)
        for first, last in pairwise(cuts):
            phy_offset, offset = int(units.phy_offset[first]), int(offsets[first])
            most = self._most(phy_offset)
            if 0 <= offset <= most:
                self._place(offsets[first:last], data[first:last], stops[first:last])
            else:
                self._refuse(Refusal(phy_offset, "queue_offset", f"0 to {most}", str(offset)))

    def _encoded(self, units: QueueUnits) -> NDArray[Any]:
        data = np.zeros(len(units.phy_offset), BATCH_UNIT_DTYPE if self._is_batch else UNIT_DTYPE)
        for name in ("phy_offset", "size", "tags_code"):
            data[name] = getattr(units, name)
        if self._is_batch:
            data["store_timestamp"] = units.store_timestamp
            data["batch_size"] = units.batch_size
            data["msg_base_offset"] = units.queue_offset
            data["compacted_offset"] = NO_COMPACTED_OFFSET
        return data

    def _most(self, phy_offset: int) -> int:
        """Return the largest queue offset that a message can have: so many fit in between."""
        if self._is_batch:
            return INT64_MAX - _INT16_MAX
        if self._next is None:
            return _MAX_QUEUE_OFFSET
        between = (phy_offset - self._newest) // MIN_RECORD_SIZE
        return min(self._next + between, _MAX_QUEUE_OFFSET)

    def _place(
        self, offsets: NDArray[np.int64], data: NDArray[Any], stops: NDArray[np.int64]
    ) -> None:
        """Write a run of units with consecutive queue offsets."""
        offset, phy_offset = int(offsets[0]), int(data["phy_offset"][0])
        if self._next is not None and offset < self._next:
            if self._proof(self._topic, self._queue_id, offset, phy_offset):
                self._begin_anew(0)
            else:
                taken = int(np.searchsorted(offsets, self._next))
                self._drop(taken, offset, phy_offset)
                offsets, data, stops = offsets[taken:], data[taken:], stops[taken:]
                if not len(offsets):
                    return
                offset = int(offsets[0])
        at = self._byte if self._is_batch else offset * UNIT_DTYPE.itemsize
        if self._next is None:
            self._blank(at - at % self._file_size, at)
        elif offset > self._next:
            self.gaps.append((self._next, offset))
            self._blank(self._byte, at)
        self.unit_count += len(data)
        self._write(at, data)
        self._next = int(stops[-1])
        self._newest = int(data["phy_offset"][-1])

    def _drop(self, count: int, queue_offset: int, phy_offset: int) -> None:
        """Note units whose queue offsets are taken by older messages."""
        if self.dropped is None:
            key = (self._topic, self._queue_id)
            self.dropped = DroppedUnits(*key, count, queue_offset, phy_offset)
        else:
            self.dropped = self.dropped._replace(units=self.dropped.units + count)

    def _begin_anew(self, skipped: int) -> None:
        """Remove all units; so many of the same time need not be written first."""
        self.superseded_count += self.unit_count + skipped
        if self.dropped is not None:
            self.superseded_count += self.dropped.units
        self._next, self._byte, self.unit_count, self.dropped = None, 0, 0, None
        self.gaps.clear()
        if self.file_count:
            shutil.rmtree(self._directory)
            self._directory.mkdir()
            self.file_count = 0

    def _blank(self, start: int, stop: int) -> None:
        blank = np.zeros(min((stop - start) // UNIT_DTYPE.itemsize, _BLANK_UNITS), UNIT_DTYPE)
        blank["size"] = BLANK_SIZE
        while start < stop:
            part = blank[: (stop - start) // UNIT_DTYPE.itemsize]
            self._write(start, part)
            start += part.nbytes

    def _write(self, at: int, data: NDArray[Any]) -> None:
        """Write units at a byte of the queue, into as many files as they need."""
        view = memoryview(data.tobytes())
        while view:
            place = at % self._file_size
            part = view[: self._file_size - place]
            path = self._directory / f"{at - place:0{FILE_NAME_DIGITS}d}"
            is_new = not path.exists()
            with naming(path), path.open("xb" if is_new else "r+b") as file:
                if is_new:
                    file.truncate(self._file_size)
                    self.file_count += 1
                file.seek(place)
                file.write(part)
            view = view[len(part) :]
            at += len(part)
        self._byte = at
