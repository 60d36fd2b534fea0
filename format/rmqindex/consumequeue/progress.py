"""Where messages stand in their ConsumeQueues, and how far consumer groups are.

RocketMQ: ``ConsumerOffsetManager``, ``AdminBrokerProcessor.getConsumeStats``.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from rmqindex.commitlog.log import CommitLog
from rmqindex.consumequeue.dispatch import NO_UNIT_FLAG
from rmqindex.consumequeue.paths import find_queues
from rmqindex.consumequeue.places import names_folder
from rmqindex.consumequeue.reader import ConsumeQueue, kept_units, units_at
from rmqindex.errors import RmqIndexError
from rmqindex.layout.queue import CONSUMER_GROUP_SCHEMA
from rmqindex.layout.store import BATCH_FOLDER, CONFIG_FOLDER, QUEUE_FOLDER
from rmqindex.storage.location import Location
from rmqindex.store.config import ConsumerOffsets, TopicTable, config_databases
from rmqindex.store.contents import rocksdb_queues
from rmqindex.store.store import log_in, root_of
from rmqindex.transaction.directories import exists

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from rmqindex.storage.location import PathLike

#: What the states of a message in its ConsumeQueue mean.
QUEUE_STATES = {
    "in_queue": "The message is in its ConsumeQueue, where consumers get it.",
    "behind_queue": "The ConsumeQueue ends before the message: it was not dispatched, or the "
    "queue's end is lost.",
    "left_queue": "The ConsumeQueue begins behind the message, which no consumer gets any more.",
    "other_in_queue": "The ConsumeQueue has another message, or none, in the message's place, as "
    "after its topic was deleted and made again.",
    "queue_missing": "The ConsumeQueue of the message is not there.",
    "topic_deleted": "The topic of the message was deleted: config/topics.json does not have it.",
    "queue_unread": "The ConsumeQueue of the message was not read: it is in RocksDB, or cannot be "
    "read.",
    "no_unit": "A message of a transaction that is prepared or was rolled back is in no "
    "ConsumeQueue of its own.",
}

#: What the states of a group in a queue mean.
GROUP_STATES = {
    "at_end": "The group has passed all messages of the queue.",
    "behind": "The queue has messages that the group has not passed.",
    "no_offset": "The group has committed no offset for the queue; mqadmin counts from 0.",
    "before_queue": "The queue begins behind the group's offset: messages expired before the group "
    "passed them.",
    "beyond_end": "The group's offset lies behind the queue's end, as where the end was lost or "
    "the topic was made again.",
    "negative": "The group's offset is negative.",
    "no_queue": "The ConsumeQueue is not there, so that its end is not known.",
    "topic_deleted": "The topic was deleted: config/topics.json does not have it.",
    "not_read": "Consumers do not read the queue: its number is not below the topic's "
    "readQueueNums.",
    "queue_unread": "The ConsumeQueue is in RocksDB and was not read, so that its end is not "
    "known.",
}
# Those of which mqadmin shows no row, or none that means anything.
_UNCOUNTED = frozenset({"no_queue", "topic_deleted", "not_read", "queue_unread"})


class MessagePlace(NamedTuple):
    """The place in a ConsumeQueue that a message names.

    Attributes:
        topic: Its topic.
        queue_id: The number of its queue.
        queue_offset: Its place there.
        phy_offset: Where it starts in the CommitLog, bytes.
        sys_flag: Its flags.
    """

    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    sys_flag: int = 0


class QueueReach(NamedTuple):
    """How far a queue reaches.

    Attributes:
        min_offset: The queue offset of the first message that the CommitLog still has; the queue's
            end without one.
        max_offset: The queue offset that the next message would get.
    """

    min_offset: int
    max_offset: int


class QueueReaches:
    """The queues of a store, each found and read once."""

    def __init__(self, root: Location) -> None:
        """Read no queue yet.

        Args:
            root: The store.

        Raises:
            RmqIndexError: ``config/topics.json`` cannot be read.
        """
        self._root = root
        self._topics: dict[str, dict[int, ConsumeQueue]] = {}
        self._reaches: dict[tuple[str, int], QueueReach | None] = {}
        self._log_start = 0
        with suppress(RmqIndexError):  # without a log, all that a queue has counts
            log = log_in(root)
            if log is not None:
                self._log_start = CommitLog(log).min_offset
        self.table = TopicTable.of(root)
        folders = (QUEUE_FOLDER, BATCH_FOLDER)
        self.in_rocksdb = rocksdb_queues(root) is not None
        self.has_folder = self.in_rocksdb or any(exists(root.child(name)) for name in folders)

    def queues(self, topic: str) -> dict[int, ConsumeQueue]:
        """Return the queues of a topic that have a folder, by number."""
        if topic not in self._topics:
            found: dict[int, ConsumeQueue] = {}
            for name in (BATCH_FOLDER, QUEUE_FOLDER) if names_folder(topic) else ():
                folder = self._root.child(name).child(topic)
                for each in find_queues(folder) if exists(folder) else ():
                    found[each.queue_id] = ConsumeQueue(
                        topic, each.queue_id, each.files, is_batch=each.is_batch
                    )
            self._topics[topic] = found
        return self._topics[topic]

    def reach(self, topic: str, queue_id: int) -> QueueReach | None:
        """Return how far a queue reaches; None where it is not there."""
        key = (topic, queue_id)
        if key not in self._reaches:
            queue = self.queues(topic).get(queue_id)
            self._reaches[key] = None if queue is None else self._read(queue)
        return self._reaches[key]

    def _read(self, queue: ConsumeQueue) -> QueueReach | None:
        end = queue.max_offset
        if end is None:  # a new queue, or one whose messages are gone
            end = queue.files[-1].start // queue.unit_size if queue.files else None
        if end is None:
            return None
        first = kept_units(queue, self._log_start)
        return QueueReach(end if first is None else first, end)

    def end(self, topic: str, queue_id: int) -> int | None:
        """Return the end of a queue; None where it is not known."""
        try:
            reach = self.reach(topic, queue_id)
        except RmqIndexError:  # it was changed meanwhile, or cannot be read
            return None
        return None if reach is None else reach.max_offset

    def is_deleted(self, topic: str) -> bool:
        """Return whether a topic was deleted: the broker does not know it."""
        return self.table is not None and self.table.lacks(topic)

    def states(self, places: Sequence[MessagePlace]) -> list[str]:
        """Return the state of each message, a name of ``QUEUE_STATES``."""
        states = [""] * len(places)
        by_queue: dict[tuple[str, int], list[int]] = {}
        for number, place in enumerate(places):
            if place.sys_flag & NO_UNIT_FLAG:
                states[number] = "no_unit"
            else:
                by_queue.setdefault((place.topic, place.queue_id), []).append(number)
        for (topic, queue_id), numbers in by_queue.items():
            offsets = np.array([places[each].queue_offset for each in numbers], np.int64)
            leads = np.array([places[each].phy_offset for each in numbers], np.int64)
            for number, state in zip(
                numbers, self._queue_states(topic, queue_id, offsets, leads), strict=True
            ):
                states[number] = state
        return states

    def _queue_states(
        self, topic: str, queue_id: int, offsets: NDArray[np.int64], leads: NDArray[np.int64]
    ) -> list[str]:
        try:
            if self.is_deleted(topic):
                return ["topic_deleted"] * len(offsets)
            queue = self.queues(topic).get(queue_id)
            reach = self.reach(topic, queue_id)
            if queue is None or reach is None:
                return ["queue_unread" if self.in_rocksdb else "queue_missing"] * len(offsets)
            is_there = units_at(queue, offsets, leads)
        except RmqIndexError:  # it was changed meanwhile, or cannot be read
            return ["queue_unread"] * len(offsets)
        states = np.where(offsets < reach.min_offset, "left_queue", "other_in_queue")
        states = np.where(offsets >= reach.max_offset, "behind_queue", states)
        return [str(each) for each in np.where(is_there, "in_queue", states)]


#: The states of queues whose lag nobody can tell; others without a lag count nothing.
UNKNOWN_ENDS = frozenset({"no_queue", "queue_unread"})


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """How far a consumer group is in one queue.

    Attributes:
        group: The consumer group.
        topic: The topic.
        queue_id: The number of the queue.
        committed_offset: The queue offset of the next message; None without a committed one.
        min_offset: That of the first message that the queue still has; None where it is not known.
        max_offset: The queue's end; None where it is not known.
        lag: From the committed offset, or 0, to the end, as mqadmin counts; negative where the
            offset is behind the end, None where mqadmin counts nothing.
        expired: How many of the messages between are not in the queue any more.
        state: A name of ``GROUP_STATES``.
    """

    group: str
    topic: str
    queue_id: int
    committed_offset: int | None
    min_offset: int | None
    max_offset: int | None
    lag: int | None
    expired: int
    state: str


@dataclass(frozen=True, slots=True)
class ConsumerProgress:
    """How far the consumer groups of a store are; it was not read in one moment.

    Attributes:
        offsets_path: The file with the committed offsets, which was read first.
        offsets_timestamp: When it was written, epoch milliseconds.
        rows: A row for each group, topic and queue, in that order; a queue that has neither
            messages nor an offset has none.
        notes: What else there is, and was not read.
        known: Group and topic of all committed offsets, also of those that were not asked for.
    """

    offsets_path: str
    offsets_timestamp: int
    rows: tuple[GroupProgress, ...]
    notes: tuple[str, ...]
    known: tuple[tuple[str, str], ...]

    def totals(self) -> list[tuple[str, str, int, int | None, int]]:
        """Return group, topic, queues, lag and expired messages of each group and topic.

        The lag is that of the queues whose end is known; None where there is no such queue.
        """
        of_pair: dict[tuple[str, str], list[GroupProgress]] = {}
        for row in self.rows:
            of_pair.setdefault((row.group, row.topic), []).append(row)
        totals = []
        for pair, rows in of_pair.items():
            known = [row.lag or 0 for row in rows if row.state not in UNKNOWN_ENDS]
            expired = sum(row.expired for row in rows)
            totals.append((*pair, len(rows), sum(known) if known else None, expired))
        return totals

    def table(self) -> pa.Table:
        """Return the rows with the columns of ``CONSUMER_GROUP_SCHEMA``, the rest as metadata."""
        names = [field.name for field in fields(GroupProgress)]
        columns: list[list[Any]] = [[getattr(row, name) for row in self.rows] for name in names]
        told = {
            "offsets_path": self.offsets_path,
            "offsets_timestamp": str(self.offsets_timestamp),
            "notes": json.dumps(self.notes),
        }
        schema = CONSUMER_GROUP_SCHEMA.with_metadata(told)
        return pa.table(dict(zip(names, columns, strict=True)), schema)


def consumer_progress(
    path: PathLike, *, group: str | None = None, topic: str | None = None
) -> ConsumerProgress:
    """Return how far consumer groups are, as ``mqadmin consumerProgress`` shows it, of a store.

    The committed offsets are those that the broker wrote last, which it does every five seconds;
    they are read before the ends of the queues, so that on a live store a lag may be too large
    and never too small.

    Args:
        path: A store root that has ``config/``, or a directory in it, such as ``commitlog``.
        group: Only this consumer group.
        topic: Only this topic.

    Returns:
        A row for each group, topic and queue.

    Raises:
        RmqIndexError: There are no committed offsets that can be read, a file is damaged, or the
            storage failed.
    """
    root = root_of(Location.of(path))
    offsets = ConsumerOffsets.of(root)
    if offsets is None:
        raise _no_offsets(root)
    reaches = QueueReaches(root)
    rows: list[GroupProgress] = []
    known = sorted((consumer, name) for name, consumer in offsets.table)
    for consumer, name in known:
        if group in (None, consumer) and topic in (None, name):
            rows.extend(_rows(consumer, name, offsets.table[name, consumer], reaches))
    return ConsumerProgress(
        str(offsets.path), offsets.modified, tuple(rows), offsets.notes, tuple(known)
    )


def _no_offsets(root: Location) -> RmqIndexError:
    folder = root.child(CONFIG_FOLDER)
    if not exists(root):
        return RmqIndexError(f"{root}: no such file or directory")
    databases = config_databases(root)
    expected = f"{folder}: expected consumerOffset.json with the offsets of consumer groups"
    if databases:
        named = ", ".join(databases)
        return RmqIndexError(
            f"{expected}, got RocksDB databases ({named}), which are not read; ask the broker: "
            "mqadmin consumerProgress"
        )
    return RmqIndexError(
        f"{expected}, found none; give the store root of a broker, whose consumers have committed "
        "offsets there"
    )


def _rows(
    group: str, topic: str, offsets: dict[int, int], reaches: QueueReaches
) -> Iterable[GroupProgress]:
    table = reaches.table
    read = None if table is None else table.read_queue_nums.get(topic)
    for queue_id in sorted({*offsets, *reaches.queues(topic)}):
        committed = offsets.get(queue_id)
        reach = reaches.reach(topic, queue_id)
        if reaches.is_deleted(topic):
            state = "topic_deleted"
        elif reach is None and reaches.in_rocksdb:
            state = "queue_unread"
        elif read is not None and queue_id >= read:
            state = "not_read"
        else:
            if reach is None and committed == 0:  # as of a retry topic without a message
                reach = QueueReach(0, 0)
            state = _group_state(committed, reach)
        least, end = (None, None) if reach is None else reach
        if committed is None and not end:
            continue
        lag = expired = None
        if state not in _UNCOUNTED and end is not None and least is not None:
            # AdminBrokerProcessor counts from 0 where there is no offset, or a negative one.
            start = max(committed or 0, 0)
            lag, expired = end - start, max(least - start, 0)
        yield GroupProgress(group, topic, queue_id, committed, least, end, lag, expired or 0, state)


def _group_state(committed: int | None, reach: QueueReach | None) -> str:
    if reach is None:
        return "no_queue"
    if committed is None:
        return "no_offset"
    if committed < 0:
        return "negative"
    if committed > reach.max_offset:
        return "beyond_end"
    if committed < reach.min_offset:
        return "before_queue"
    return "at_end" if committed == reach.max_offset else "behind"
