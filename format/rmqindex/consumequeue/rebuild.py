"""ConsumeQueues from a CommitLog (RocketMQ: ``ConsumeQueue.putMessagePositionInfo``)."""

from __future__ import annotations

import os
from bisect import bisect_right
from contextlib import ExitStack
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqindex.commitlog.log import CommitLog
from rmqindex.consumequeue.dispatch import Dispatcher, parse_delay_levels
from rmqindex.consumequeue.predecessors import Predecessors
from rmqindex.consumequeue.staging import QueueStaging
from rmqindex.errors import CorruptCommitLogError, RmqIndexError
from rmqindex.folders import BATCH_FOLDER, QUEUE_FOLDER
from rmqindex.layout import INT64_MAX
from rmqindex.ownfiles.disk import naming
from rmqindex.queue_layout import (
    BATCH_UNIT_DTYPE,
    BLANK_SIZE,
    DEFAULT_DELAY_LEVELS,
    FILE_NAME_DIGITS,
    NO_COMPACTED_OFFSET,
    UNIT_DTYPE,
)
from rmqindex.record_layout import MIN_RECORD_SIZE
from rmqindex.store.contents import hold_writable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rmqindex.commitlog.log import Mode
    from rmqindex.consumequeue.dispatch import QueueUnits
    from rmqindex.logfile.agreed import UnagreedTail
    from rmqindex.storage.location import PathLike

__all__ = ["QueueRebuildResult", "rebuild_consume_queues"]

# The longest name in Linux's file systems, bytes.
_MAX_NAME_BYTES = 255
# So many blank units are written at once.
_BLANK_UNITS = 1 << 16
# The last unit's place is still a 64-bit number.
_MAX_QUEUE_OFFSET = INT64_MAX // UNIT_DTYPE.itemsize - 1


@dataclass(frozen=True, slots=True)
class QueueRebuildResult:
    """The result of a rebuild of ConsumeQueues.

    Attributes:
        queue_count: How many queues were written.
        unit_count: How many units, without blank ones.
        file_count: How many files.
        gaps: Topic, queue, and the queue offsets between which messages are missing in the log;
            blank units stand there.
        file_size: The size of the queues' files, bytes.
        batch_file_size: That of batch queues' files, bytes.
        is_default_size: Whether one of these, used for files, is only the broker's default.
        kept: Topic and queue of those that were kept as they were, since all their messages have
            expired.
        unagreed: What was left out of a log of DLedger, since its group is not known to have
            agreed on it; None where nothing was.
    """

    queue_count: int
    unit_count: int
    file_count: int
    gaps: tuple[tuple[str, int, int, int], ...]
    file_size: int
    batch_file_size: int
    is_default_size: bool = False
    kept: tuple[tuple[str, int], ...] = ()
    unagreed: UnagreedTail | None = None


def rebuild_consume_queues(
    commit_log: CommitLog | PathLike,
    store: str | os.PathLike[str],
    *,
    start: int | None = None,
    stop: int | None = None,
    file_size: int | None = None,
    batch_file_size: int | None = None,
    delay_levels: str = DEFAULT_DELAY_LEVELS,
    batch_topics: Sequence[str] = (),
    multi_dispatch: bool = True,
    replace: bool = False,
    allow_live_store: bool = False,
    mode: Mode = "FAILFAST",
    on_malformed: Callable[[CorruptCommitLogError], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> QueueRebuildResult:
    """Write the ConsumeQueues of a CommitLog's messages, into the broker's folders and files.

    They are built aside and put into their place when they are complete.
    A rebuild after an interrupted one first restores the old queues, then starts from the
    beginning.
    As in the broker, files have one fixed size and are named by where they begin, units before a
    queue's first message are blank, delayed messages have the time at which they are due in the
    place of their tags, and prepared and rolled back messages have no unit.
    Queues that are there, and all of whose messages have expired, are kept as they are, since they
    hold the queue offset of the next message.
    For a log whose head is gone, the units are the broker's, and the places before them are blank.

    Args:
        commit_log: What :class:`CommitLog` takes, or one.
        store: The local store root in which ``consumequeue`` and ``batchconsumequeue`` are made.
        start: Messages that start before this offset (bytes) are left out; None for the log's
            start.
        stop: Messages that start here or later are left out; None for all.
        file_size: The broker's ``mappedFileSizeConsumeQueue``, bytes; by default that of the
            present queues, or of those beside the log, else the broker's default.
        batch_file_size: The broker's ``mapperFileSizeBatchConsumeQueue``, bytes; by default alike.
        delay_levels: The broker's ``messageDelayLevel``.
        batch_topics: Topics whose queues are batch queues; those with inner batches, and those that
            have batch queues now, are anyway.
        multi_dispatch: The broker's ``enableMultiDispatch``: messages also go into the light
            queues that they name.
        replace: Replace all present queues by the new ones.
        allow_live_store: Write even if a broker runs on the store.
        mode: ``FAILFAST`` stops at damage in the log, ``DROPMALFORMED`` continues behind it.
        on_malformed: Called with each error that ``DROPMALFORMED`` does not raise.
        progress: Called with the offset reached and the log's end, bytes.

    Returns:
        The result.

    Raises:
        RmqIndexError: There are ConsumeQueues and ``replace`` is not given, the store has
            them in RocksDB, a broker holds it, another rebuild is under way,
            or the log is damaged: a message's topic cannot name a folder, or its queue offset is
            beyond what the log has room for.
        ValueError: A file size that is no multiple of a unit's, or bad delay levels.
        OSError: The disk is full or broken.
    """
    _check_size("file_size", file_size, UNIT_DTYPE)
    _check_size("batch_file_size", batch_file_size, BATCH_UNIT_DTYPE)
    levels = parse_delay_levels(delay_levels)
    root = Path(os.path.abspath(store))  # noqa: PTH100  (links stay)
    log = commit_log if isinstance(commit_log, CommitLog) else CommitLog(commit_log)
    hold = hold_writable(root / QUEUE_FOLDER, allow_live_store=allow_live_store)
    with hold, ExitStack() as stack:
        if log is not commit_log:
            stack.callback(log.close)
        staging = stack.enter_context(QueueStaging(root))
        there = staging.there()
        if there and not replace:
            raise RmqIndexError(
                f"{there[0]}: expected no ConsumeQueues, got some: move them, or give replace=True"
            )
        if there and not log.files:
            raise RmqIndexError(
                f"{there[0]}: expected a CommitLog with files to replace these queues from, got "
                "one without; is its disk mounted?"
            )
        old = Predecessors.of(root, there, log)
        dispatcher = Dispatcher(
            levels, [*batch_topics, *old.batch_topics], multi_dispatch=multi_dispatch
        )
        sizes = {
            is_batch: old.file_size(asked, is_batch=is_batch)
            for is_batch, asked in ((False, file_size), (True, batch_file_size))
        }
        refuse = _Refusal(log, on_malformed, mode)
        writers = _Writers(staging.path, sizes, refuse)
        unagreed = log.unagreed_tail(stop)
        stop = log.agreed_stop(stop)
        end = log.files[-1].stop if log.files else 0
        end = end if stop is None else min(end, stop)
        for records in log.records(start, stop, mode=mode, on_malformed=on_malformed):
            for units in dispatcher.dispatch(records):
                writers.append(units)
            if progress is not None:
                progress(int(records.phy_offset[-1]), end)
        kept = old.keep_expired(staging.path, writers, log.min_offset) if there else []
        staging.exchange()
    return replace_fields(writers.result(), kept=tuple(kept), unagreed=unagreed)


def _check_size(name: str, size: int | None, dtype: np.dtype[Any]) -> None:
    if size is not None and (size < 1 or size % dtype.itemsize):
        raise ValueError(f"{name}: expected a multiple of {dtype.itemsize}, got {size}")


class _Refusal:
    """Raises or reports messages whose fields do not fit into a ConsumeQueue."""

    def __init__(
        self,
        log: CommitLog,
        on_malformed: Callable[[CorruptCommitLogError], None] | None,
        mode: Mode,
    ) -> None:
        self._files = log.files
        self._on_malformed = on_malformed
        self._mode = mode

    def __call__(self, phy_offset: int, field: str, expected: object, got: object) -> None:
        """Stop at a message, or tell that it is left out."""
        file = self._files[bisect_right(self._files, phy_offset, key=lambda each: each.start) - 1]
        byte = phy_offset - file.start
        error = CorruptCommitLogError(file.path, field, byte, expected, got)
        if self._mode == "FAILFAST":
            raise error
        if self._on_malformed is not None:
            self._on_malformed(error)


def _names_folder(topic: str) -> bool:
    return (
        topic not in {"", ".", ".."}
        and not {"/", "\0"} & set(topic)
        and len(os.fsencode(topic)) <= _MAX_NAME_BYTES
    )


class _Writers:
    """The queues in the making."""

    def __init__(self, root: Path, sizes: dict[bool, tuple[int, bool]], refuse: _Refusal) -> None:
        self._root = root
        self._refuse = refuse
        self._sizes = sizes
        self._queues: dict[tuple[str, int, bool], _QueueWriter] = {}

    def __contains__(self, queue: object) -> bool:
        """Return whether a queue, by topic, number and kind, was written."""
        return queue in self._queues

    def append(self, units: QueueUnits) -> None:
        key = (units.topic, units.queue_id, units.is_batch)
        queue = self._queues.get(key)
        if queue is None:
            if not _names_folder(units.topic) or units.queue_id < 0:
                for phy_offset in units.phy_offset.tolist():
                    self._refuse(
                        phy_offset,
                        "topic",
                        "the name of a folder, and a queue's number",
                        f"{units.topic!r} and {units.queue_id}",
                    )
                return
            folder = self._root / (BATCH_FOLDER if units.is_batch else QUEUE_FOLDER)
            directory = folder / units.topic / str(units.queue_id)
            directory.mkdir(parents=True)
            queue = _QueueWriter(directory, self._sizes[units.is_batch][0], self._refuse)
            self._queues[key] = queue
        if units.is_batch:
            queue.append_batches(units)
        else:
            queue.append(units)

    def result(self) -> QueueRebuildResult:
        queues = self._queues.values()
        return QueueRebuildResult(
            len(queues),
            sum(queue.unit_count for queue in queues),
            sum(queue.file_count for queue in queues),
            tuple(
                (topic, queue_id, *gap)
                for (topic, queue_id, _), queue in self._queues.items()
                for gap in queue.gaps
            ),
            self._sizes[False][0],
            self._sizes[True][0],
            any(self._sizes[is_batch][1] for _, _, is_batch in self._queues),
        )


class _QueueWriter:
    """One queue, which grows at its end."""

    def __init__(self, directory: Path, file_size: int, refuse: _Refusal) -> None:
        self._refuse = refuse
        self._directory = directory
        self._file_size = file_size
        self._end: int | None = None  # bytes; None before the first unit
        self._newest = -1  # the offset of the newest message in it
        self.unit_count = 0
        self.file_count = 0
        self.gaps: list[tuple[int, int]] = []

    def append(self, units: QueueUnits) -> None:
        """Append units, each at the place of its queue offset."""
        fresh = units.phy_offset > self._newest
        offsets = units.queue_offset[fresh]
        if not len(offsets):
            return
        data = np.empty(len(offsets), UNIT_DTYPE)
        data["phy_offset"] = units.phy_offset[fresh]
        data["size"] = units.size[fresh]
        data["tags_code"] = units.tags_code[fresh]
        cuts = [0, *(np.flatnonzero(np.diff(offsets) != 1) + 1).tolist(), len(offsets)]
        for first, last in pairwise(cuts):
            phy_offset = int(data["phy_offset"][first])
            most = self._most(phy_offset)
            if 0 <= offsets[first] <= most:
                self._place(int(offsets[first]), data[first:last])
                self._newest = int(data["phy_offset"][last - 1])
            else:
                self._refuse(phy_offset, "queue_offset", f"0 to {most}", int(offsets[first]))

    def _most(self, phy_offset: int) -> int:
        """Return the largest queue offset that a message can have: so many fit in between."""
        if self._end is None:
            return _MAX_QUEUE_OFFSET
        between = (phy_offset - self._newest) // MIN_RECORD_SIZE
        return min(self._end // UNIT_DTYPE.itemsize + between, _MAX_QUEUE_OFFSET)

    def _place(self, offset: int, data: NDArray[Any]) -> None:
        """Write a run of units with consecutive queue offsets."""
        at = offset * UNIT_DTYPE.itemsize
        if self._end is None:
            self._blank(at - at % self._file_size, at)
        elif at > self._end:
            self.gaps.append((self._end // UNIT_DTYPE.itemsize, offset))
            self._blank(self._end, at)
        elif at < self._end:  # built before, as the broker says in its log
            data = data[(self._end - at) // UNIT_DTYPE.itemsize :]
            at = self._end
        self.unit_count += len(data)
        self._write(at, data)

    def append_batches(self, units: QueueUnits) -> None:
        """Append units of batches, one behind the other."""
        data = np.zeros(len(units.phy_offset), BATCH_UNIT_DTYPE)
        for name in ("phy_offset", "size", "tags_code", "store_timestamp", "batch_size"):
            data[name] = getattr(units, name)
        data["msg_base_offset"] = units.queue_offset
        data["compacted_offset"] = NO_COMPACTED_OFFSET
        self.unit_count += len(data)
        self._write(self._end or 0, data)

    def _blank(self, start: int, stop: int) -> None:
        blank = np.zeros(min((stop - start) // UNIT_DTYPE.itemsize, _BLANK_UNITS), UNIT_DTYPE)
        blank["size"] = BLANK_SIZE
        self._end = start
        while self._end < stop:
            self._write(self._end, blank[: (stop - self._end) // UNIT_DTYPE.itemsize])

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
        self._end = at
