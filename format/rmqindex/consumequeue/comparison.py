"""ConsumeQueues compared with the CommitLog they map.

The units that a rebuild would make of the log's messages are compared with those that are there,
in one pass over the log; a queue with units that no message accounts for is then walked itself.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rmqindex.commitlog.log import MATCH_STATES, CommitLog
from rmqindex.consumequeue.dispatch import Dispatcher, parse_delay_levels
from rmqindex.consumequeue.kinds import TopicKinds
from rmqindex.consumequeue.reader import ConsumeQueue, last_offset
from rmqindex.consumequeue.staging import is_exchanging
from rmqindex.errors import RmqIndexError
from rmqindex.folders import BATCH_FOLDER, QUEUE_FOLDER
from rmqindex.layout import INT64_MAX
from rmqindex.ownfiles.safe_open import open_to_read
from rmqindex.queue_layout import (
    BATCH_UNIT_DTYPE,
    BLANK_SIZE,
    DEFAULT_DELAY_LEVELS,
    FILE_NAME_DIGITS,
    LMQ_PREFIX,
    SCHEDULE_TOPIC,
    UNIT_DTYPE,
)
from rmqindex.storage.location import Location
from rmqindex.store.contents import refuse_rocksdb_queues
from rmqindex.store.topics import TopicTable
from rmqindex.transaction.broker_lock import BrokerState

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from rmqindex.consumequeue.dispatch import QueueUnits, Refusal

__all__ = ["Findings", "compare_queues"]

_RECORD, _EXPIRED = (MATCH_STATES.index(state) for state in ("record", "expired"))
# Files of queues that are open at a time.
_OPEN_FILES = 64
# Units of a queue without a place of their own that are looked for in the rest of it.
_LOOKED_FOR = 1000
# The last unit's place is still a 64-bit number.
_MOST_UNITS = INT64_MAX // UNIT_DTYPE.itemsize
# With enableConsumeQueueExt, smaller codes are addresses in other files.
_LEAST_TAGS_CODE = -(2**31)


class Findings(Protocol):
    """Collects what deviates."""

    def add(self, file: str, rule: str, byte: int | None, expected: object, got: object) -> None:
        """Add one finding.

        Args:
            file: The file or folder.
            rule: What is wrong with it.
            byte: The offset in the file, bytes; None where no byte is at fault.
            expected: The content of sound queues there.
            got: The content of these.
        """


def compare_queues(
    root: Path, log: CommitLog, findings: Findings, broker: BrokerState | None, start: int = 0
) -> None:
    """Compare the ConsumeQueues of a local store with its log.

    A broker that runs, or crashed, has yet to dispatch what lies behind the newest unit: that is
    not judged.

    Args:
        root: The store root.
        log: The CommitLog.
        findings: Collects what deviates.
        broker: What is known of the broker; None for a store that is no broker's.
        start: Messages before this offset do not count, bytes.

    Raises:
        RmqIndexError: Queues, log or topics cannot be read, or a broker deletes files of them.
    """
    try:
        refuse_rocksdb_queues(Location.of(root))
    except RmqIndexError as error:
        findings.add(str(root / QUEUE_FOLDER), "queues_not_audited", None, "files", error)
        return
    if is_exchanging(root):
        findings.add(str(root), "unfinished_write", None, "no exchange of ConsumeQueues", "one")
        return
    queues = _queues_of(root)
    if not queues:
        # What is no broker's store may never have had queues.
        if broker is not None and log.max_offset > log.min_offset:
            expected = f"units of the messages from {log.min_offset} to {log.max_offset}"
            findings.add(str(root / QUEUE_FOLDER), "queues_missing", None, expected, "no queues")
        return
    _Audit(root, queues, log, findings, broker, start).run()


def _queues_of(root: Path) -> list[ConsumeQueue]:
    queues: list[ConsumeQueue] = []
    for name in (QUEUE_FOLDER, BATCH_FOLDER):
        folder = root / name
        try:
            queues += ConsumeQueue.find(folder) if folder.is_dir() else ()
        except RmqIndexError:  # an empty folder, or one of other files
            continue
    return [queue for queue in queues if queue.files]


class _Files:
    """Reads units by their places, also those of files that were made since they were listed."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, int] = OrderedDict()

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def units(self, folder: Path, file_size: int, places: NDArray[np.int64]) -> NDArray[Any]:
        """Return the plain units at places; zeros where there is none."""
        data = np.zeros(len(places), UNIT_DTYPE)
        cuts = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
        for first, last in pairwise(cuts):
            at = int(places[first]) * UNIT_DTYPE.itemsize
            parts = []
            left = (last - first) * UNIT_DTYPE.itemsize
            while left:
                inside = at % file_size
                length = min(left, file_size - inside)
                name = f"{at - inside:0{FILE_NAME_DIGITS}d}"
                parts.append(self._read(str(folder / name), inside, length))
                at += length
                left -= length
            data[first:last] = np.frombuffer(b"".join(parts), UNIT_DTYPE)
        return data

    def _read(self, path: str, at: int, length: int) -> bytes:
        if path not in self._open:
            if len(self._open) >= _OPEN_FILES:
                _, oldest = self._open.popitem(last=False)
                os.close(oldest)
            try:
                self._open[path] = open_to_read(path, os.O_RDONLY)
            except (OSError, RmqIndexError):
                return bytes(length)
        return os.pread(self._open[path], length, at).ljust(length, b"\0")


@dataclass
class _Deviation:
    """Messages of a queue whose units deviate in one way; the first one is told."""

    count: int = 0
    places: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    got: str = ""

    def add(self, places: Iterable[int], offsets: Iterable[int], got: str) -> None:
        for place, offset in zip(places, offsets, strict=True):
            if not self.count:
                self.got = got
            self.count += 1
            if len(self.offsets) < _LOOKED_FOR:
                self.places.append(place)
                self.offsets.append(offset)

    def expected(self) -> str:
        first = f"the unit of the message at {self.offsets[0]}, queue offset {self.places[0]}"
        return first + (f", and of {self.count - 1} more" if self.count > 1 else "")


class _State:
    """What the pass over the log shows of one queue."""

    def __init__(self, queue: ConsumeQueue | None) -> None:
        self.queue = queue
        self.next: int | None = None  # behind the greatest queue offset of the present beginning
        self.last = -1  # where its newest message starts
        self.matched = 0
        self.without = _Deviation()  # messages that have no unit, or that of another message
        self.differing = _Deviation()  # units with another size or tags code
        self.batches: NDArray[Any] | None = None

    def begin_anew(self) -> None:
        """Forget what deviates from messages of the time before a topic was made again."""
        self.next = None
        self.without = _Deviation()


class _Audit:
    """The comparison of one store."""

    def __init__(
        self,
        root: Path,
        queues: list[ConsumeQueue],
        log: CommitLog,
        findings: Findings,
        broker: BrokerState | None,
        start: int,
    ) -> None:
        self._root = root
        self._log = log
        self._findings = findings
        self._broker = broker
        self._start = start
        self._present = {(each.topic, each.queue_id, each.is_batch): each for each in queues}
        self._topics = {each.topic for each in queues}
        self._table = TopicTable.of(root)
        batch_topics = {each.topic for each in queues if each.is_batch}
        self._kinds = TopicKinds((), batch_topics, self._table, strict=False)
        self._states: dict[tuple[str, int, bool], _State] = {}
        self._begun: dict[str, int] = {}
        self._files = _Files()
        newest = [last_offset(each) for each in queues]
        self._reach = max((each for each in newest if each is not None), default=-1)

    def run(self) -> None:
        """Compare the queues with the log, and report what deviates."""
        try:
            if self._broker is BrokerState.RUNNING:
                folders = list(dict.fromkeys(file.path.parent for file in self._log.files))
                with CommitLog(folders) as self._log:
                    self._compare()
            else:
                self._compare()
        finally:
            self._files.close()

    def _compare(self) -> None:
        log = self._log
        start = max(log.min_offset, self._start)
        whole = self._broker is BrokerState.STOPPED
        stop = log.agreed_stop(None if whole else self._reach + 1)
        dispatcher = Dispatcher(
            parse_delay_levels(DEFAULT_DELAY_LEVELS),
            self._kinds,
            self._refused,
            multi_dispatch=any(topic.startswith(LMQ_PREFIX) for topic in self._topics),
            leave_out=_Deleted(self._table, self._topics),
        )
        for records in log.records(start, stop, mode="DROPMALFORMED", proves_end=False):
            for units in dispatcher.dispatch(records):
                self._see(units)
        end = log.max_offset if stop is None else min(stop, log.max_offset)
        self._report_kinds()
        for key, state in self._states.items():
            self._report(key, state)
        for key, queue in self._present.items():
            matched = self._states[key].matched if key in self._states else 0
            self._audit_rest(queue, matched, start, end)

    def _refused(self, refusal: Refusal) -> None:
        starts = [file for file in self._log.files if file.start <= refusal.phy_offset]
        if refusal.hint:
            self._findings.add(
                str(starts[-1].path),
                "property_number",
                refusal.phy_offset - starts[-1].start,
                f"{refusal.field}: {refusal.expected}",
                refusal.got,
            )

    def _see(self, units: QueueUnits) -> None:
        key = (units.topic, units.queue_id, units.is_batch)
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = _State(self._found(key))
        state.last = int(units.phy_offset[-1])
        if state.queue is None:
            found, same = np.zeros((2, len(units.phy_offset)), np.bool_)
            got = np.full(len(found), -1)
        elif units.is_batch:
            found, same, got = self._batch_units(state, units)
        else:
            found, same, got = self._plain_units(state.queue, units)
        state.matched += int(np.count_nonzero(found))
        offsets = units.queue_offset
        earlier = np.maximum.accumulate(
            np.append(-1 if state.next is None else state.next - 1, offsets[:-1])
        )
        # As in a rebuild: at 0, or where the queue itself shows it, it begins anew.
        begun = np.flatnonzero((offsets <= earlier) & ((offsets == 0) | found))
        first = 0
        if len(begun):
            first = int(begun[-1])
            state.begin_anew()
            newest = int(units.phy_offset[first])
            self._begun[units.topic] = max(self._begun.get(units.topic, -1), newest)
        greatest = int(offsets[first:].max()) + 1
        state.next = greatest if state.next is None else max(state.next, greatest)
        missing = first + np.flatnonzero(~found[first:])
        if len(missing):
            other = int(got[missing[0]])
            text = "no unit" if other < 0 else f"the unit of the message at {other}"
            state.without.add(offsets[missing].tolist(), units.phy_offset[missing].tolist(), text)
        differing = np.flatnonzero(found & ~same)
        state.differing.add(
            offsets[differing].tolist(),
            units.phy_offset[differing].tolist(),
            "another size, tags code or batch",
        )

    def _found(self, key: tuple[str, int, bool]) -> ConsumeQueue | None:
        """Return a queue; that of a running broker may be newer than the list."""
        topic, queue_id, is_batch = key
        if key not in self._present and self._broker is BrokerState.RUNNING:
            folder = _folder(self._root, is_batch=is_batch) / topic / str(queue_id)
            try:
                (queue,) = ConsumeQueue.find(folder)
            except (RmqIndexError, ValueError):
                return None
            return queue if queue.files else None
        return self._present.get(key)

    def _plain_units(
        self, queue: ConsumeQueue, units: QueueUnits
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.int64]]:
        """Return whether each message has its unit, an equal one, and whose unit is there."""
        size = queue.files[0].size
        inside = (units.queue_offset >= 0) & (units.queue_offset < _MOST_UNITS)
        data = np.zeros(len(inside), UNIT_DTYPE)
        if size and not size % UNIT_DTYPE.itemsize:
            folder = _folder(self._root, is_batch=False) / queue.topic / str(queue.queue_id)
            data[inside] = self._files.units(folder, size, units.queue_offset[inside])
        there = (data["size"] > 0) & (data["size"] != BLANK_SIZE)
        found = there & (data["phy_offset"] == units.phy_offset)
        codes = data["tags_code"]
        same = found & (data["size"] == units.size)
        if queue.topic != SCHEDULE_TOPIC:  # the delays are the broker's own configuration
            same &= (codes == units.tags_code) | (codes < _LEAST_TAGS_CODE)
        return found, same, np.where(there, data["phy_offset"], -1)

    def _batch_units(
        self, state: _State, units: QueueUnits
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.int64]]:
        """Do the same in a batch queue, whose units have no places of their own."""
        if state.batches is None:
            assert state.queue is not None
            state.batches = _all_batches(state.queue)
        data = state.batches
        if not len(data):
            nothing = np.zeros(len(units.phy_offset), np.bool_)
            return nothing, nothing, np.full(len(nothing), -1)
        places = np.searchsorted(data["phy_offset"], units.phy_offset).clip(max=len(data) - 1)
        data = data[places]
        found = data["phy_offset"] == units.phy_offset
        same = found & (data["msg_base_offset"] == units.queue_offset)
        same &= (data["batch_size"] == units.batch_size) & (data["size"] == units.size)
        return found, same, np.full(len(found), -1)

    def _report_kinds(self) -> None:
        """Report topics whose queues lie in the wrong folder, or in both."""
        for (topic, _, is_batch), queue in self._present.items():
            wanted = self._kinds.is_batch(topic)
            if is_batch == wanted:
                continue
            folder = _folder(self._root, is_batch=is_batch) / topic
            self._findings.add(
                str(folder / str(queue.queue_id)),
                "queue_kind",
                None,
                f"a queue in {BATCH_FOLDER if wanted else QUEUE_FOLDER}",
                f"one in {folder.parent.name}",
            )
        for topic, phy_offset in self._kinds.conflicts.items():
            assert self._table is not None
            self._findings.add(
                str(self._table.path),
                "queue_kind",
                None,
                f"{topic} with queue.type=BatchCQ, as the inner batch at {phy_offset} has it",
                "without",
            )

    def _report(self, key: tuple[str, int, bool], state: _State) -> None:
        topic, queue_id, is_batch = key
        folder = str(_folder(self._root, is_batch=is_batch) / topic / str(queue_id))
        without, differing = state.without, state.differing
        if differing.count:
            self._findings.add(folder, "queue_unit", None, differing.expected(), differing.got)
        if not without.count:
            return
        if state.queue is not None:
            moved = _has_all(state.queue, without.offsets)
            rule = "queue_offset" if moved else "queue_unit_missing"
            got = "it at another place" if moved else without.got
            self._findings.add(folder, rule, None, without.expected(), got)
            return
        if (topic, queue_id, not is_batch) in self._present:
            return  # told by its kind
        if topic.startswith(LMQ_PREFIX) or state.last < self._begun.get(topic, -1):
            return  # a broker clears light queues; or the topic was deleted and made again
        known = self._table is not None or topic in self._topics
        rule = "queue_missing" if known else "queue_unknown"
        self._findings.add(folder, rule, None, without.expected(), "no queue")

    def _audit_rest(self, queue: ConsumeQueue, matched: int, start: int, end: int) -> None:
        """Look at the units that no message accounts for."""
        units = behind = 0
        newest = -1
        for batch in queue.scan(holes=True):
            offsets = batch["phy_offset"].to_numpy()
            units += int(np.count_nonzero((offsets >= start) & (offsets < end)))
            late = offsets >= self._log.max_offset
            behind += int(np.count_nonzero(late))
            newest = max(newest, int(offsets.max()))
        folder = _folder(self._root, is_batch=queue.is_batch)
        name = str(folder / queue.topic / str(queue.queue_id))
        if behind and self._broker is not BrokerState.RUNNING:
            self._findings.add(
                name,
                "queue_beyond_log",
                None,
                f"units of messages before {self._log.max_offset}, the end of the CommitLog",
                f"{behind} behind it, up to {newest}",
            )
        if units > matched:
            self._report_dangling(queue, name, start, end)

    def _report_dangling(self, queue: ConsumeQueue, name: str, start: int, end: int) -> None:
        count = 0
        first: tuple[int, int] | None = None
        for batch in queue.scan(holes=True):
            offsets = batch["phy_offset"].to_numpy()
            places = batch["queue_offset"].to_numpy()
            judged = (offsets >= start) & (offsets < end)
            if not judged.any():
                continue
            messages = self._log.read_at(offsets[judged], ["size"])
            states = messages["state"].indices.to_numpy()
            wrong = np.flatnonzero((states != _RECORD) & (states != _EXPIRED))
            if len(wrong) and first is None:
                first = int(places[judged][wrong[0]]), int(offsets[judged][wrong[0]])
            count += len(wrong)
        if first is not None:
            self._findings.add(
                name,
                "queue_dangling",
                None,
                f"units of messages (queue offset {first[0]})",
                f"{count} of none, the first at {first[1]}",
            )


class _Deleted:
    """The topics that the broker does not have, and whose queues are gone."""

    def __init__(self, table: TopicTable | None, present: set[str]) -> None:
        self._table = table
        self._present = present

    def __contains__(self, topic: object) -> bool:
        assert isinstance(topic, str)
        gone = self._table is not None and self._table.lacks(topic)
        return gone and topic not in self._present


def _folder(root: Path, *, is_batch: bool) -> Path:
    return root / (BATCH_FOLDER if is_batch else QUEUE_FOLDER)


def _all_batches(queue: ConsumeQueue) -> NDArray[Any]:
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


def _has_all(queue: ConsumeQueue, offsets: list[int]) -> bool:
    """Return whether a queue has units of all these messages, wherever."""
    left = np.array(offsets, np.int64)
    for batch in queue.scan(holes=True):
        left = left[~np.isin(left, batch["phy_offset"].to_numpy())]
    return not len(left)
