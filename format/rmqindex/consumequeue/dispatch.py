"""Which units a message gives to which ConsumeQueues, plain or batch ones.

RocketMQ: ``CommitLog.checkMessageAndReturnSize``, ``MultiDispatchUtils``,
``ConsumeQueue.multiDispatchLmqQueue``, ``QueueTypeUtils.getCQType``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqindex.commitlog.snapshot import PassedOver
from rmqindex.errors import CorruptCommitLogError, RmqIndexError
from rmqindex.keys.hashing import string_hash_codes
from rmqindex.layout.index_file import INT64_MIN
from rmqindex.layout.queue import LMQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_PREFIX
from rmqindex.layout.record import (
    DISPATCH_OFFSETS,
    DISPATCH_QUEUES,
    INNER_BATCH_FLAG,
    INNER_NUM,
)
from rmqindex.record.batches import build_batch, schema_of
from rmqindex.record.text import java_integer, java_split
from rmqindex.store.config import TopicTable
from rmqindex.store.store import root_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.entries import Mode
    from rmqindex.record.records import Records

_SCHEMA = schema_of(
    (
        "topic",
        "tags",
        "queue_id",
        "queue_offset",
        "phy_offset",
        "size",
        "sys_flag",
        "store_timestamp",
        "properties",
    )
)
# MessageSysFlag: prepared and rolled back messages have bit 2 set.
NO_UNIT_FLAG = 0x1 << 2
_DELAY = "DELAY"
#: The properties that only a broker with ``enableMultiDispatch`` reads.
LIGHT_PROPERTIES = (DISPATCH_QUEUES, DISPATCH_OFFSETS)
_INNER_BASE = "INNER_BASE"
_NAMES = (_DELAY, DISPATCH_QUEUES, DISPATCH_OFFSETS, INNER_NUM, _INNER_BASE)
_DELAY_LEVEL = re.compile(r"([0-9]+)([smhd])")
_NO_ROWS = np.zeros(0, np.int64)
# By topic and number of the queue, the row and the queue offset of each unit.
_LightUnits = dict[tuple[str, int], list[tuple[int, int]]]
_UNIT_MILLIS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# CommitLog.checkMessageAndReturnSize, ConsumeQueue.multiDispatchLmqQueue: what a broker does with
# a number that it cannot read.
_LOG_ENDS = "a broker dispatches no message from here on, and after a crash its log ends here"
_DISPATCH_ENDS = "a broker dispatches no message behind this one"


@dataclass(frozen=True, slots=True)
class QueueUnits:
    """Units for one queue, in the order of their messages."""

    topic: str
    queue_id: int
    is_batch: bool
    queue_offset: NDArray[np.int64]  # of a batch's first message
    phy_offset: NDArray[np.int64]
    size: NDArray[np.int32]
    tags_code: NDArray[np.int64]
    store_timestamp: NDArray[np.int64]
    batch_size: NDArray[np.int64]  # 1 in a queue without batches


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Read RocketMQ's ``messageDelayLevel``."""
    delays = []
    for part in text.split():
        match = _DELAY_LEVEL.fullmatch(part)
        if match is None:
            raise ValueError(f"delay_levels: expected such as 1s 5s 1m 2h, got {part!r}")
        delays.append(int(match[1]) * _UNIT_MILLIS[match[2]])
    return tuple(delays)


class Refusal(NamedTuple):
    """A message that lacks a unit, since one of its fields is damaged."""

    phy_offset: int
    field: str
    expected: str
    got: str
    hint: str = ""


class Dispatcher:
    """Turns messages into units."""

    def __init__(
        self,
        delay_levels: Sequence[int],
        kinds: TopicKinds,
        refuse: Callable[[Refusal], None],
        *,
        multi_dispatch: bool,
        leave_out: Container[str] = (),
        delay_of: Callable[[int, int, int], int] = lambda _queue_id, delay, _phy_offset: delay,
    ) -> None:
        """Set the broker's configuration, and what else tells how long a message is delayed."""
        self._delays = delay_levels
        self._kinds = kinds
        self._refuse = refuse
        self._multi_dispatch = multi_dispatch
        self._leave_out = leave_out
        self._delay_of = delay_of

    def dispatch(self, records: Records) -> list[QueueUnits]:
        """Return the units of messages, those of one queue together."""
        requests = _DispatchRequests(records)
        self._set_delivery_times(requests)
        requests.read_batches()
        has_unit = (records.sys_flag & NO_UNIT_FLAG) == 0
        light = self._light_units(requests, has_unit) if self._multi_dispatch else {}
        # Who deletes a topic leaves the light queues that its messages name as they are.
        left_out = [code for code, name in enumerate(requests.names) if name in self._leave_out]
        has_unit &= ~np.isin(requests.codes, left_out)
        inner = np.flatnonzero(has_unit & ((records.sys_flag & INNER_BATCH_FLAG) != 0))
        codes, firsts = np.unique(requests.codes[inner], return_index=True)
        for code, first in zip(codes.tolist(), inner[firsts].tolist(), strict=True):
            self._kinds.see_inner_batch(requests.names[code], int(requests.phy_offset[first]))
        has_unit[list(requests.damaged)] = False
        own = {
            (requests.names[requests.codes[rows[0]]], int(requests.queue_id[rows[0]])): rows
            for rows in _groups(np.flatnonzero(has_unit), requests.codes, requests.queue_id)
        }
        units = []
        for queue in [*own, *(each for each in light if each not in own)]:
            if self._kinds.is_batch(queue[0]):
                units.append(_batch_units(queue, own.get(queue, _NO_ROWS), requests))
                for row, _ in light.get(queue, ()):
                    requests.refuse(
                        row, DISPATCH_QUEUES, "names of queues without batches", queue[0]
                    )
            else:
                rows = own.get(queue, _NO_ROWS)
                units.append(_plain_units(queue, rows, light.get(queue, ()), requests))
        for refusal in sorted(requests.refusals):
            self._refuse(refusal)
        return [each for each in units if len(each.phy_offset)]

    def _set_delivery_times(self, requests: _DispatchRequests) -> None:
        """Set the tags code of delayed messages to the time at which they are due."""
        if SCHEDULE_TOPIC not in requests.names:
            return
        schedule = requests.codes == requests.names.index(SCHEDULE_TOPIC)
        for row, text in requests.properties[_DELAY].items():
            if not schedule[row]:
                continue
            level = java_integer(text, 32)
            if level is None:
                requests.damage(row, _DELAY, "a number of 32 bits", text)
                continue
            level = min(level, len(self._delays))
            if level > 0:
                place = int(requests.queue_id[row]), int(requests.phy_offset[row])
                delay = self._delay_of(place[0], self._delays[level - 1], place[1])
                due = int(requests.store_timestamp[row]) + delay
                # As in Java, a sum beyond 64 bits wraps around.
                requests.tags_code[row] = (due - INT64_MIN) % (1 << 64) + INT64_MIN

    def _light_units(self, requests: _DispatchRequests, has_unit: NDArray[np.bool_]) -> _LightUnits:
        """Return the rows and queue offsets of units in light queues."""
        found: _LightUnits = {}
        names, offsets = (
            requests.properties[DISPATCH_QUEUES],
            requests.properties[DISPATCH_OFFSETS],
        )
        for row in sorted({*names, *offsets}):
            topic = requests.names[requests.codes[row]]
            system = topic.startswith((RETRY_PREFIX, SYSTEM_PREFIX)) or topic == SCHEDULE_TOPIC
            if system or not has_unit[row] or row in requests.damaged:
                continue
            queues, places = java_split(names.get(row, "")), java_split(offsets.get(row, ""))
            if len(queues) != len(places):
                # A broker without enableMultiDispatch gives no offsets; with it, one for each.
                if places:
                    expected = f"{len(queues)} numbers, as {DISPATCH_QUEUES} has names"
                    requests.refuse(row, DISPATCH_OFFSETS, expected, offsets[row])
                continue
            units: dict[tuple[str, int], int] = {}
            for queue, place in zip(queues, places, strict=True):
                if "/" in queue:
                    continue
                number = java_integer(place, 64)
                if number is None:
                    requests.refuse(
                        row, DISPATCH_OFFSETS, "numbers of 64 bits", place, _DISPATCH_ENDS
                    )
                    continue
                queue_id = 0 if queue.startswith(LMQ_PREFIX) else int(requests.queue_id[row])
                units.setdefault((queue, queue_id), number)
            # A message is once in a queue, whether by its topic or by its name.
            units.pop((topic, int(requests.queue_id[row])), None)
            for each, number in units.items():
                if each[0] not in self._leave_out:
                    found.setdefault(each, []).append((row, number))
        return found


class _DispatchRequests:
    """Columns of consecutive messages, and the faults of their numbers."""

    def __init__(self, records: Records) -> None:
        batch = build_batch(records, _SCHEMA, [name.encode() for name in _NAMES])
        topics = batch["topic"].dictionary_encode()
        self.codes: NDArray[np.int32] = topics.indices.to_numpy()
        self.names: list[str] = topics.dictionary.to_pylist()
        self.queue_id: NDArray[np.int32] = batch["queue_id"].to_numpy()
        self.queue_offset: NDArray[np.int64] = batch["queue_offset"].to_numpy()
        self.phy_offset: NDArray[np.int64] = batch["phy_offset"].to_numpy()
        self.size: NDArray[np.int32] = batch["size"].to_numpy()
        self.store_timestamp: NDArray[np.int64] = batch["store_timestamp"].to_numpy()
        self.tags_code = _tags_codes(batch["tags"])
        self.properties = _properties(batch["properties"])
        # DispatchRequest: those of a message without the properties of a batch.
        self.base = self.queue_offset.copy()
        self.batch_size = np.ones(len(self.base), np.int64)
        self.damaged: set[int] = set()
        self.refusals: list[Refusal] = []

    def read_batches(self) -> None:
        """Read the first queue offset of each batch, and how many messages it has."""
        bases = self.properties[_INNER_BASE]
        for row, text in self.properties[INNER_NUM].items():
            if row not in bases:
                continue
            base, size = java_integer(bases[row], 64), java_integer(text, 16)
            if base is None:
                self.damage(row, _INNER_BASE, "a number of 64 bits", bases[row])
            elif size is None:
                self.damage(row, INNER_NUM, "a number of 16 bits", text)
            else:
                self.base[row], self.batch_size[row] = base, size

    def damage(self, row: int, field: str, expected: str, got: str) -> None:
        """Note a message that a broker cannot read; it gets no unit at all."""
        self.damaged.add(row)
        self.refuse(row, field, expected, got, _LOG_ENDS)

    def refuse(self, row: int, field: str, expected: str, got: object, hint: str = "") -> None:
        """Note a message that lacks a unit."""
        text = got if isinstance(got, int) else ascii(got)
        self.refusals.append(Refusal(int(self.phy_offset[row]), field, expected, str(text), hint))


def _plain_units(
    queue: tuple[str, int],
    rows: NDArray[np.int64],
    light: Sequence[tuple[int, int]],
    requests: _DispatchRequests,
) -> QueueUnits:
    offsets = requests.queue_offset[rows]
    if light:
        rows = np.append(rows, np.array([row for row, _ in light], np.int64))
        offsets = np.append(offsets, np.array([offset for _, offset in light], np.int64))
        order = np.argsort(rows, kind="stable")
        rows, offsets = rows[order], offsets[order]
    return _units_of(queue, rows, requests, offsets, np.ones(len(rows), np.int64), is_batch=False)


def _batch_units(
    queue: tuple[str, int], rows: NDArray[np.int64], requests: _DispatchRequests
) -> QueueUnits:
    base, size = requests.base[rows], requests.batch_size[rows]
    sound = (base >= 0) & (size > 0)
    for row in rows[~sound].tolist():
        field, value = (
            (_INNER_BASE, requests.base[row]) if requests.base[row] < 0 else
            (INNER_NUM, requests.batch_size[row])
        )  # fmt: skip
        least = "at least 0" if field == _INNER_BASE else "at least 1"
        requests.refuse(row, field, least, int(value), "a broker gives it no unit that can be read")
    rows = rows[sound]
    return _units_of(queue, rows, requests, base[sound], size[sound], is_batch=True)


def _units_of(
    queue: tuple[str, int],
    rows: NDArray[np.int64],
    requests: _DispatchRequests,
    offsets: NDArray[np.int64],
    sizes: NDArray[np.int64],
    *,
    is_batch: bool,
) -> QueueUnits:
    return QueueUnits(
        *queue,
        is_batch,
        offsets,
        requests.phy_offset[rows],
        requests.size[rows],
        requests.tags_code[rows],
        requests.store_timestamp[rows],
        sizes,
    )


def _tags_codes(tags: pa.Array) -> NDArray[np.int64]:
    # The hash code of an empty text is 0, as of none.
    return string_hash_codes(tags.fill_null("").dictionary_encode()).astype(np.int64)


def _groups(
    rows: NDArray[np.int64], codes: NDArray[np.int32], queue_ids: NDArray[np.int32]
) -> list[NDArray[np.int64]]:
    if not len(rows):
        return []
    rows = rows[np.lexsort((queue_ids[rows], codes[rows]))]  # stable
    changes = (np.diff(codes[rows]) != 0) | (np.diff(queue_ids[rows]) != 0)
    return np.split(rows, np.flatnonzero(changes) + 1)


def _properties(column: pa.MapArray) -> dict[str, dict[int, str]]:
    """Return the properties in ``_NAMES`` by name and row."""
    found: dict[str, dict[int, str]] = {name: {} for name in _NAMES}
    for row in np.flatnonzero(np.diff(column.offsets.to_numpy())).tolist():
        for name, value in column[row].as_py():
            found[name][row] = value
    return found


class TopicKinds:
    """Decides the kind of a topic's queues before its first unit.

    A broker does not start with queues of another kind than ``config/topics.json`` says, so that
    this file decides.
    Without it, topics have batch queues that have some now, or an inner batch anywhere in the log.
    """

    def __init__(
        self,
        named: Collection[str],
        present: Collection[str],
        table: TopicTable | None,
        *,
        strict: bool = True,
    ) -> None:
        """Begin with what is known before the log is read."""
        self._strict = strict
        #: Topics with inner batches that must have no batch queues, and the first such message.
        self.conflicts: dict[str, int] = {}
        self._table = table
        known = present if table is None else table.batch_topics
        self._batch = {*named, *known}
        if table is not None and (odd := min({*named}.difference(known), default=None)):
            raise RmqIndexError(
                f"{_no_batch_topic(table, odd)}. Restore the file, or leave the topic out of "
                "batch_topics"
            )
        self._plain: set[str] = set()
        #: Whether a topic had plain units before its first inner batch: they must be built again.
        self.is_late = False

    def is_batch(self, topic: str) -> bool:
        """Return whether a topic's units go into batch queues."""
        if topic in self._batch:
            return True
        self._plain.add(topic)
        return False

    def see_inner_batch(self, topic: str, phy_offset: int) -> None:
        """Take note of a topic with an inner batch, before units are made of it."""
        if topic in self._batch:
            return
        if self._table is not None and not self._strict:
            self.conflicts.setdefault(topic, phy_offset)
            return
        if self._table is not None:
            raise RmqIndexError(
                f"{_no_batch_topic(self._table, topic)}. The message at offset {phy_offset} is an "
                f"inner batch of it: restore the file, or give leave_out={topic}, which rebuilds "
                "all other queues"
            )
        self._batch.add(topic)
        self.is_late |= topic in self._plain

    def restart(self) -> None:
        """Begin again with the topics that are known by now."""
        self._plain.clear()
        self.is_late = False


def _no_batch_topic(table: TopicTable, topic: str) -> str:
    got = "no such topic" if topic not in table.topics else "one without"
    return (
        f"{table.path}: expected the topic {topic} with queue.type=BatchCQ, as a broker needs it "
        f"to start with batch queues of the topic, got {got}"
    )


class OmittedTopics:
    """The topics that get no queues, noting which were asked for."""

    def __init__(
        self, named: Collection[str], table: TopicTable | None, present: Collection[str]
    ) -> None:
        """Set the topics that were asked for, the broker's, and those with queues now."""
        self._named = frozenset(named)
        self._table = table
        self._present = present
        self.left_out: set[str] = set()
        self.deleted: set[str] = set()

    def __contains__(self, topic: object) -> bool:
        """Return whether a topic gets no queues."""
        assert isinstance(topic, str)
        gone = self._table is not None and self._table.lacks(topic)
        if topic in self._named or (gone and self._present and topic not in self._present):
            self.left_out.add(topic)
            return True
        if gone:
            self.deleted.add(topic)
        return False


def topics_of(root: Path, log: CommitLog) -> TopicTable | None:
    """Return the topics of the target store, else those of the log's own."""
    table = TopicTable.of(root)
    folder = log.files[0].path.parent if log.files else None
    if table is None and folder is not None and folder.local is not None:
        store = root_of(folder)
        if store != folder and store.local is not None:
            return TopicTable.of(store.local)
    return table


class Damage(PassedOver):
    """The damage that a rebuild passes over, messages included that no queue can take."""

    def __init__(
        self,
        log: CommitLog,
        on_malformed: Callable[[CorruptCommitLogError], None] | None,
        mode: Mode,
        without_light: str,
    ) -> None:
        """Set the log, and the command that leaves light queues out."""
        super().__init__(on_malformed)
        self._files = log.files
        self._without_light = without_light
        self.mode = mode

    def refuse(self, refusal: Refusal) -> None:
        """Stop at a message, or tell that it is left out."""
        start = refusal.phy_offset
        file = self._files[bisect_right(self._files, start, key=lambda each: each.start) - 1]
        hint = refusal.hint
        if refusal.field in LIGHT_PROPERTIES:
            hint += "; " if hint else ""
            hint += (
                "a broker without enableMultiDispatch, as is the default, reads nothing of it, and "
                f"`{self._without_light}` does neither"
            )
        fault = (refusal.field, start - file.start, refusal.expected, refusal.got, hint)
        error = CorruptCommitLogError(file.path, *fault)
        if self.mode == "FAILFAST":
            raise error
        self.add(error)
