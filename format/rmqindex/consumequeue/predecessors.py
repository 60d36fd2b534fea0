"""The queues that a rebuild replaces: what they show of the broker, and which of them are kept."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqindex.consumequeue.losses import has_unit, held_by, lost_units
from rmqindex.consumequeue.reader import ConsumeQueue, last_offset, unit_dtype, units_before
from rmqindex.errors import RmqIndexError
from rmqindex.folders import COMMITLOG_FOLDER
from rmqindex.queue_layout import DEFAULT_BATCH_FILE_SIZE, DEFAULT_FILE_SIZE

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.consumequeue.paths import QueueFile
    from rmqindex.consumequeue.places import Key, LeftUnits

__all__ = ["Predecessors"]

_ARGUMENTS = {False: "file_size=BYTES", True: "batch_file_size=BYTES"}
_DEFAULTS = {False: DEFAULT_FILE_SIZE, True: DEFAULT_BATCH_FILE_SIZE}


@dataclass(frozen=True, slots=True)
class Predecessors:
    """The queues of a store before a rebuild."""

    queues: tuple[ConsumeQueue, ...]

    @classmethod
    def of(cls, root: Path, there: Sequence[Path], log: CommitLog) -> Predecessors:
        """Find the queues of a store root, else those beside the log."""
        if there:
            return cls.within(there)
        found: list[ConsumeQueue] = []
        first = log.files[0].path.local if log.files else None
        if first is not None:
            folder = first.absolute().parent
            if folder.name == COMMITLOG_FOLDER and folder.parent != root:
                with suppress(RmqIndexError):  # none, or in RocksDB
                    found = ConsumeQueue.find(folder.parent)
        return cls(tuple(found))

    @classmethod
    def within(cls, folders: Sequence[Path]) -> Predecessors:
        """Find the queues of folders that have some."""
        return cls(tuple(queue for folder in folders for queue in ConsumeQueue.find(folder)))

    @property
    def batch_topics(self) -> set[str]:
        """The topics with batch queues."""
        return {queue.topic for queue in self.queues if queue.is_batch}

    def file_size(self, asked: int | None, *, is_batch: bool) -> tuple[int, bool]:
        """Return the size of new files in bytes, and whether it is only the broker's default."""
        if asked is not None:
            return asked, False
        sizes = {file.size: file.path for file in self._sized_files(is_batch=is_batch)}
        if len(sizes) > 1:
            named = " and ".join(f"{size} ({path})" for size, path in sorted(sizes.items())[:2])
            raise RmqIndexError(
                f"expected files of ConsumeQueues of one size, got {named}: choose the broker's "
                f"with {_ARGUMENTS[is_batch]}"
            )
        return next(iter(sizes), _DEFAULTS[is_batch]), not sizes

    def _sized_files(self, *, is_batch: bool) -> list[QueueFile]:
        """Return the files of one kind whose size is a whole number of units."""
        unit_size = unit_dtype(is_batch=is_batch).itemsize
        return [
            file for file in self._written_files(is_batch=is_batch) if not file.size % unit_size
        ]

    def _written_files(self, *, is_batch: bool) -> list[QueueFile]:
        return [
            file
            for queue in self.queues
            if queue.is_batch == is_batch
            for file in queue.files
            if file.size
        ]

    def usual_size(self, *, is_batch: bool) -> int:
        """Return the size of most files of a kind in bytes, or the broker's default."""
        sizes = Counter(file.size for file in self._sized_files(is_batch=is_batch))
        return max(sizes, key=lambda size: (sizes[size], size), default=_DEFAULTS[is_batch])

    def odd_files(self, *, is_batch: bool) -> list[QueueFile]:
        """Return files of another size than most of their kind.

        Empty files do not count: a broker removes them when it starts.
        """
        usual = self.usual_size(is_batch=is_batch)
        if not self._sized_files(is_batch=is_batch):
            return []
        return [file for file in self._written_files(is_batch=is_batch) if file.size != usual]

    def proves(self, topic: str, queue_id: int, queue_offset: int, phy_offset: int) -> bool:
        """Return whether a message has its unit in its queue, at a queue offset."""
        return any(
            has_unit(queue, queue_offset, phy_offset)
            for queue in self.queues
            if (queue.topic, queue.queue_id) == (topic, queue_id)
        )

    def units_before(
        self, key: Key, queue_offset: int, phy_offset: int
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
        """Yield units of a queue as :func:`rmqindex.consumequeue.reader.units_before` does."""
        for queue in self.queues:
            if (queue.topic, queue.queue_id, queue.is_batch) == key:
                yield from units_before(queue, queue_offset, phy_offset)

    def lost(
        self,
        new: Sequence[ConsumeQueue],
        log: CommitLog,
        *,
        is_damaged: bool,
        leave_out: Container[str] = (),
    ) -> list[LeftUnits]:
        """Return the units whose messages have none in the new queues."""
        by_name = {(queue.topic, queue.queue_id): queue for queue in new}
        present = {(queue.topic, queue.queue_id) for queue in self.queues if queue.files}
        found = (
            lost_units(
                queue,
                held_by(by_name.get((queue.topic, queue.queue_id)), queue),
                log,
                present,
                is_damaged=is_damaged,
            )
            for queue in self.queues
            if queue.topic not in leave_out
        )
        return [each for each in found if each is not None]

    def expired(
        self,
        rebuilt: Container[tuple[str, int, bool]],
        min_offset: int,
        leave_out: Container[str] = (),
    ) -> list[ConsumeQueue]:
        """Return queues all of whose messages have expired; they hold the next queue offset."""
        return [
            queue
            for queue in self.queues
            if (queue.topic, queue.queue_id, queue.is_batch) not in rebuilt
            and queue.topic not in leave_out
            and (last := last_offset(queue)) is not None
            and last < min_offset
        ]
