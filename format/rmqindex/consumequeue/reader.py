"""Reads ConsumeQueues: the CommitLog offsets of each queue's messages.

RocketMQ: ``ConsumeQueue``, ``BatchConsumeQueue``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rmqindex.consumequeue.paths import QueueFile, find_queues
from rmqindex.layout.index_file import INT64_MAX
from rmqindex.layout.queue import (
    BATCH_UNIT_DTYPE,
    BLANK_SIZE,
    CONSUME_QUEUE_SCHEMA,
    NO_COMPACTED_OFFSET,
    UNIT_DTYPE,
    unit_dtype,
)
from rmqindex.storage.disk import open_to_read
from rmqindex.storage.location import path_text
from rmqindex.storage.opening import FileMark, ensure_same, open_found

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.storage.location import PathLike

# Units a batch holds at most.
_BATCH_UNITS = 65_536
# Units that are read at once: a whole file of the broker's own size, and of no larger one.
_BLOCK_UNITS = 8 * _BATCH_UNITS
# Most files of most queues have few units, and their rest is a hole: a local file's first block is
# smaller than the others.
_FIRST_UNITS = 4096


class ConsumeQueue:
    """One queue of one topic, read only.

    Attributes:
        topic: The topic; of a light queue, its own name (``%LMQ%..``).
        queue_id: The number of the queue in the topic.
        is_batch: Whether it is a batch queue, with one unit of 46 bytes per batch.
        files: Its files, oldest first.
    """

    def __init__(
        self, topic: str, queue_id: int, files: Sequence[QueueFile], *, is_batch: bool = False
    ) -> None:
        """Set the files of a queue; see :meth:`find`.

        Args:
            topic: The topic.
            queue_id: The number of the queue in the topic.
            files: The files, oldest first.
            is_batch: Whether it is a batch queue.
        """
        self.topic = topic
        self.queue_id = queue_id
        self.is_batch = is_batch
        self.files = tuple(files)

    @classmethod
    def find(cls, path: PathLike) -> list[ConsumeQueue]:
        """Find the queues of a path.

        Args:
            path: A store root, its ``consumequeue`` or ``batchconsumequeue`` directory, that of a
                topic or of a queue, or one file; local or a URI that ``pyarrow.fs`` knows.

        Returns:
            The queues by topic and number.

        Raises:
            RmqIndexError: Nothing is there, no ConsumeQueue, or ConsumeQueues that are in RocksDB
                alone.
        """
        return [
            cls(found.topic, found.queue_id, found.files, is_batch=found.is_batch)
            for found in find_queues(path)
        ]

    @property
    def unit_size(self) -> int:
        """The size of a unit in bytes: 20, or 46 in a batch queue."""
        return unit_dtype(is_batch=self.is_batch).itemsize

    @property
    def min_offset(self) -> int | None:
        """The queue offset of the first message; None without any."""
        for batch in self.scan():
            return int(batch["queue_offset"][0].as_py())
        return None

    @property
    def max_offset(self) -> int | None:
        """The queue offset that the next message would get; None without any."""
        for file in reversed(self.files):
            blocks = deque(written_blocks(file, is_batch=self.is_batch), maxlen=1)
            for numbers, units in blocks:
                if self.is_batch:
                    return int(units["msg_base_offset"][-1]) + int(units["batch_size"][-1])
                return file.start // self.unit_size + int(numbers[-1]) + 1
        return None

    def scan(self, *, blanks: bool = False, holes: bool = False) -> Iterator[pa.RecordBatch]:
        """Read the units in their order.

        A file's units end where the first place is that was never written.

        Args:
            blanks: Also give the blank units before a queue's first message, whose ``size`` is
                2,147,483,647.
            holes: Also give the units behind such a place, which a hole in the file leaves.

        Yields:
            Batches of at least one unit with the columns of ``CONSUME_QUEUE_SCHEMA``; of a batch
            queue, ``queue_offset`` is that of the batch's first message.

        Raises:
            RmqIndexError: A file is gone, or was changed since it was found; the storage failed.
        """
        for file in self.files:
            yield from read_units(
                file, self.topic, self.queue_id, is_batch=self.is_batch, blanks=blanks, holes=holes
            )

    def __repr__(self) -> str:
        """Show the topic, the number and how many files there are."""
        return f"ConsumeQueue({self.topic!r}, {self.queue_id}, files={len(self.files)})"


def read_units(
    file: QueueFile,
    topic: str,
    queue_id: int,
    *,
    is_batch: bool,
    blanks: bool,
    holes: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Read one file, as :meth:`rmqindex.ConsumeQueue.scan` does.

    Args:
        file: The file.
        topic: Its topic.
        queue_id: Its queue's number.
        is_batch: Whether it is of a batch queue.
        blanks: Whether blank units are given, too.
        holes: Whether units behind a hole are given, too.
    """
    for numbers, units in written_blocks(file, is_batch=is_batch, holes=holes):
        for start in range(0, len(units), _BATCH_UNITS):
            part = units[start : start + _BATCH_UNITS]
            if is_batch:
                offsets = part["msg_base_offset"].astype(np.int64)
            else:
                offsets = file.start // UNIT_DTYPE.itemsize + numbers[start : start + len(part)]
                if not blanks:
                    real = _is_real(part)
                    part, offsets = part[real], offsets[real]
            if len(part):
                yield _batch(part, offsets, (topic, queue_id, file.path))


def units_before(
    queue: ConsumeQueue, queue_offset: int, phy_offset: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Yield the units before a queue offset and a message, with their queue offsets."""
    for places, units in placed_units(queue):
        older = (units["phy_offset"] < phy_offset) & (places < queue_offset)
        if older.any():
            yield places[older], units[older]
        # One that leads elsewhere is damaged, and the units behind it are not.
        if not queue.is_batch and places[-1] >= queue_offset:
            return


def expired_units(
    queue: ConsumeQueue, phy_offset: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Yield the units of a queue all of whose messages lie before one, with their queue offsets.

    A last unit that leads elsewhere is damaged, and its place tells the next queue offset: it is
    given as one of an expired message, of one byte. A blank one would not do as the last: by its
    size, a broker takes all messages before byte 2,147,483,647 for those that the queue has.
    """
    yield from units_before(queue, INT64_MAX, phy_offset)
    place, unit = _last_unit(queue, torn=True)
    is_sound = _is_written(unit, is_batch=queue.is_batch) & (unit["phy_offset"] < phy_offset)
    unit["phy_offset"], unit["size"] = 0, 1
    if not is_sound.all() and _is_written(unit, is_batch=queue.is_batch).all():
        yield place, unit


def in_kind(
    older: Iterable[tuple[NDArray[np.int64], NDArray[Any]]],
    *,
    is_batch: bool,
    stop: int | None = None,
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Yield units of expired messages as those of a queue of one kind, with their queue offsets.

    Those of the other kind are made such units as far as they follow one another, up to ``stop``
    if it is given; else their end stays, which is the next queue offset.
    """
    dtype = unit_dtype(is_batch=is_batch)
    others = []
    for places, units in older:
        if units.dtype == dtype:
            yield places, units
        else:
            others.append((places, units))
    if not others:
        return
    places, units = (np.concatenate(each) for each in zip(*others, strict=True))
    stops = places + (1 if is_batch else units["batch_size"].astype(np.int64))
    if stops[-1] != (stop or stops[-1]) or not 0 < stops[-1] <= INT64_MAX // UNIT_DTYPE.itemsize:
        return
    apart = np.flatnonzero(places[1:] != stops[:-1]) + 1
    following = slice(apart[-1] if len(apart) else 0, None)
    places, units = places[following], units[following]
    made = np.zeros(len(units), dtype)
    for name in UNIT_DTYPE.names or ():
        made[name] = units[name]
    if is_batch:
        made["msg_base_offset"], made["batch_size"] = places, 1
        made["compacted_offset"] = NO_COMPACTED_OFFSET
    yield places, made
    if stop is None and stops[-1] > places[-1] + 1:
        made[-1:]["phy_offset"], made[-1:]["size"] = 0, 1
        yield stops[-1:] - 1, made[-1:]


def torn_units(queue: ConsumeQueue) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Yield what was written in a queue and is no unit, with its queue offsets."""
    for places, units in placed_units(queue, torn=True):
        torn = ~_is_written(units, is_batch=queue.is_batch)
        if torn.any():
            yield places[torn], units[torn]


def last_offset(queue: ConsumeQueue) -> int | None:
    """Return where the newest message of a queue starts in the log, bytes; None without any.

    Units behind a hole in a file count.
    """
    _, unit = _last_unit(queue, torn=False)
    return int(unit["phy_offset"][0]) if len(unit) else None


def _last_unit(queue: ConsumeQueue, *, torn: bool) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the queue offset of the last unit, and it; nothing of a queue without one."""
    last = np.zeros(0, np.int64), np.zeros(0, unit_dtype(is_batch=queue.is_batch))
    for file in reversed(queue.files):
        for places, units in _placed_units(queue, file, torn=torn):
            last = places[-1:], units[-1:]
        if len(last[0]):
            break
    return last


def placed_units(
    queue: ConsumeQueue, *, torn: bool = False
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Yield the units of a queue with their queue offsets, also behind holes."""
    for file in queue.files:
        yield from _placed_units(queue, file, torn=torn)


def _placed_units(
    queue: ConsumeQueue, file: QueueFile, *, torn: bool = False
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Yield the units of a file with their queue offsets, also behind holes."""
    for numbers, units in written_blocks(file, is_batch=queue.is_batch, holes=True, torn=torn):
        if queue.is_batch:
            yield units["msg_base_offset"].astype(np.int64), units
        elif (real := _is_real(units)).any():
            yield file.start // queue.unit_size + numbers[real], units[real]


def kept_units(queue: ConsumeQueue, log_start: int) -> int | None:
    """Return the queue offset of the first message at or behind a log offset; None without one.

    It is where a broker lets consumers begin (``ConsumeQueue.correctMinOffset``).
    """
    for file in queue.files:
        for numbers, units in written_blocks(file, is_batch=queue.is_batch):
            kept = np.flatnonzero(_is_real(units) & (units["phy_offset"] >= log_start))
            if len(kept) and queue.is_batch:
                return int(units["msg_base_offset"][kept[0]])
            if len(kept):
                return file.start // queue.unit_size + int(numbers[kept[0]])
    return None


def units_at(
    queue: ConsumeQueue, queue_offsets: NDArray[np.int64], phy_offsets: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which messages have their unit in a queue: in their place, or in a batch's.

    Args:
        queue: The queue.
        queue_offsets: The place of each message in the queue.
        phy_offsets: Where each starts in the CommitLog, bytes.
    """
    there = np.zeros(len(queue_offsets), np.bool_)
    for file in queue.files:
        # Files of one queue follow one another, except where one is lost.
        places = queue_offsets - file.start // queue.unit_size
        inside = (places >= 0) & (places < file.size // queue.unit_size)
        if not queue.is_batch and not inside.any():
            continue
        for numbers, units in written_blocks(file, is_batch=queue.is_batch):
            keys = phy_offsets if queue.is_batch else places
            held = units["phy_offset"].astype(np.int64) if queue.is_batch else numbers
            at = np.minimum(np.searchsorted(held, keys), len(held) - 1)
            found = (held[at] == keys) & (units["phy_offset"][at] == phy_offsets)
            there |= found if queue.is_batch else found & inside
    return there


def marked_queue_file(file: QueueFile, *, is_batch: bool) -> QueueFile:
    """Return a file with its mark: its first and its last written unit.

    Args:
        file: The file.
        is_batch: Whether it is of a batch queue.
    """
    dtype = unit_dtype(is_batch=is_batch)
    with open_found(file.path, file.size, file.mark) as source:
        written = source.size // dtype.itemsize
        if source.remote:
            written = min(written, 1)  # to search for the last one takes many requests
        else:
            sizes = np.frombuffer(source.read(0, source.size), dtype, written)["size"]
            # Units are written one after the other: the unwritten ones are behind the others.
            written = bisect_left(range(written), True, key=lambda at: sizes[at] <= 0)
        return replace(file, mark=FileMark.of(source, [(0, written * dtype.itemsize)]))


def _is_real(units: NDArray[Any]) -> NDArray[np.bool_]:
    blank: NDArray[np.bool_] = (units["phy_offset"] == 0) & (units["size"] == BLANK_SIZE)
    return ~blank


def has_message(units: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which plain units are of a message: neither zeros nor blank."""
    return np.asarray((units["size"] > 0) & _is_real(units), np.bool_)


def written_blocks(
    file: QueueFile, *, is_batch: bool, holes: bool = False, torn: bool = False
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Yield the numbers and the units of a file up to the first blank place, in blocks.

    With ``torn``, what else was written there counts as a unit, too.
    The file is reopened for each block: it may be truncated while the caller is busy.
    """
    dtype = unit_dtype(is_batch=is_batch)
    first, total = 0, 1
    is_behind = False
    while first < total:
        with open_found(file.path, file.size, file.mark) as source:
            total = source.size // dtype.itemsize
            most = _BLOCK_UNITS if first or source.remote else min(_FIRST_UNITS, _BLOCK_UNITS)
            count = min(most, total - first)
            data = source.read(first * dtype.itemsize, count * dtype.itemsize)
            block = np.frombuffer(data, dtype).copy()
            there = _is_written(block, is_batch=is_batch)
            if torn:
                there |= _is_marked(block, is_batch=is_batch)
            following = first + count
            if is_batch and (is_behind or not there.all()):
                # Behind a hole, what is no unit of a batch may be of a queue of the other kind.
                hole = 0 if is_behind else int(np.argmin(there))
                there[hole:] &= _is_marked(block[hole:], is_batch=True)
            if not there.all():
                is_behind = True
                if not holes:
                    there[int(np.argmin(there)) :] = False
                    following = total
                elif not there[-1]:
                    # The rest of most files was never written, and is skipped.
                    data_at = source.first_nonzero(following * dtype.itemsize, source.size)
                    following = total if data_at is None else data_at // dtype.itemsize
            ensure_same(source, file.mark)
        written = np.flatnonzero(there)
        if len(written):
            yield written + first, block[written]
        first = following


def _is_written(units: NDArray[Any], *, is_batch: bool) -> NDArray[np.bool_]:
    """Return which places have a unit (``ConsumeQueue.recover``)."""
    there = (units["phy_offset"] >= 0) & (units["size"] > 0)
    if is_batch:
        there &= (units["msg_base_offset"] >= 0) & (units["batch_size"] > 0)
    return np.asarray(there, np.bool_)


def _is_marked(units: NDArray[Any], *, is_batch: bool) -> NDArray[np.bool_]:
    """Return which places were written, be it with a unit; of batches, which of this kind."""
    if is_batch:
        marks = (units["reserved"] == 0) & (units["compacted_offset"] == NO_COMPACTED_OFFSET)
    else:
        marks = units != np.zeros(1, UNIT_DTYPE)
    return np.asarray(marks, np.bool_)


def _batch(
    units: NDArray[Any], offsets: NDArray[np.int64], constants: tuple[str, int, str]
) -> pa.RecordBatch:
    topic, queue_id, path = constants
    size = len(units)
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(path_text(topic), pa.string()), size),
            pa.repeat(pa.scalar(queue_id, pa.int32()), size),
            pa.array(offsets),
            pa.array(units["phy_offset"].astype(np.int64)),
            pa.array(units["size"].astype(np.int32)),
            pa.array(units["tags_code"].astype(np.int64)),
            pa.repeat(pa.scalar(path_text(path), pa.string()), size),
        ],
        schema=CONSUME_QUEUE_SCHEMA,
    )


def all_batches(queue: ConsumeQueue) -> NDArray[Any]:
    """Return the units of a batch queue by the offsets of their messages."""
    parts = [np.zeros(0, BATCH_UNIT_DTYPE)]
    for file in queue.files:
        try:
            with open(file.path, "rb", opener=open_to_read) as source:
                data = source.read()
        except FileNotFoundError:  # it has expired
            continue
        units = np.frombuffer(data, BATCH_UNIT_DTYPE, len(data) // BATCH_UNIT_DTYPE.itemsize)
        parts.append(units[(units["size"] > 0) & (units["batch_size"] > 0)])
    everything = np.concatenate(parts)
    return everything[np.argsort(everything["phy_offset"], kind="stable")]
