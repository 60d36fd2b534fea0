"""ConsumeQueues compared with the CommitLog they map.

The units that a rebuild would make of the log's messages are compared with the present units in
one pass over the log; a queue with units that no message accounts for is then walked itself.
The rebuild's own rules find what a rebuild would refuse, so that no remedy is advised in vain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rmqindex.commitlog.log import CommitLog
from rmqindex.consumequeue.deviations import (
    LEAST_TAGS_CODE,
    Deviation,
    DueTimes,
    UnitFiles,
    first_behind,
    first_descent,
    first_hole,
    has_all,
    has_extension,
)
from rmqindex.consumequeue.dispatch import Dispatcher, OmittedTopics, TopicKinds, parse_delay_levels
from rmqindex.consumequeue.paths import foreign_files, no_folder, read_unexchanged
from rmqindex.consumequeue.places import Life, Places, messages_taken
from rmqindex.consumequeue.predecessors import (
    Predecessors,
    contains,
    lacking_units,
    strays,
)
from rmqindex.consumequeue.reader import ConsumeQueue, all_batches, has_message, last_offset
from rmqindex.consumequeue.staging import is_unfinished, queue_folders
from rmqindex.errors import RmqIndexError
from rmqindex.layout.index_file import INT64_MAX
from rmqindex.layout.queue import (
    DEFAULT_DELAY_LEVELS,
    LMQ_PREFIX,
    SCHEDULE_TOPIC,
)
from rmqindex.layout.store import BATCH_FOLDER, INDEX_FOLDER, QUEUE_FOLDER
from rmqindex.storage.disk import refuse_lost_link
from rmqindex.storage.location import Location
from rmqindex.store.config import TopicTable
from rmqindex.store.contents import refuse_rocksdb_queues
from rmqindex.transaction.broker_lock import BrokerLock, BrokerState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from rmqindex.consumequeue.dispatch import QueueUnits, Refusal
    from rmqindex.consumequeue.places import LostUnits

_QueueKey = tuple[str, int, bool]  # topic, queue id, is_batch
_FOLDER_OF = {False: QUEUE_FOLDER, True: BATCH_FOLDER}
_MAY_WRITE = {BrokerState.RUNNING, BrokerState.CRASHED}


class FindingCollector(Protocol):
    """Collects what deviates."""

    def add(self, file: str, rule: str, byte: int | None, expected: object, got: object) -> None:
        """Add one finding."""

    def set_option(self, option: str, value: object) -> None:
        """Give an option of a remedy's rebuild its value in this store."""


def compare_queues(
    root: Path,
    log: CommitLog,
    findings: FindingCollector,
    broker: BrokerState,
    start: int = 0,
) -> None:
    """Compare the ConsumeQueues of a local store with its log.

    A broker that runs, or crashed, has yet to dispatch what lies behind the newest unit: that is
    not judged.
    """
    try:
        refuse_rocksdb_queues(Location.of(root))
    except RmqIndexError as error:
        findings.add(str(root / QUEUE_FOLDER), "queues_not_audited", None, "files", error)
        return
    # Who writes may be about to finish what is unfinished.
    is_written = broker is BrokerState.RUNNING and BrokerLock.around(root / INDEX_FOLDER).writer
    old = read_unexchanged(root, lambda: Predecessors.within(queue_folders(root)))
    if old is None:
        if not is_written:
            findings.add(str(root), "unfinished_write", None, "no exchange of ConsumeQueues", "one")
        return
    if is_unfinished(root) and not is_written:
        findings.add(str(root), "unfinished_write", None, "no rebuild of ConsumeQueues", "one")
    _report_names(root, old.queues, findings)
    if not any(queue.files for queue in old.queues):
        # What is no broker's store may never have had queues.
        if broker is not BrokerState.NONE and log.max_offset > log.min_offset:
            expected = f"units of the messages from {log.min_offset} to {log.max_offset}"
            findings.add(str(root / QUEUE_FOLDER), "queues_missing", None, expected, "no queues")
        return
    _report_sizes(old, findings)
    _Audit(root, old.queues, log, findings, broker, start).run()


def _report_names(root: Path, queues: Iterable[ConsumeQueue], findings: FindingCollector) -> None:
    for name in _FOLDER_OF.values():
        refuse_lost_link(root / name)
        _report_place(root, root / name, findings)
    for queue in queues:
        for entry, expected in foreign_files(_folder(root, _key(queue))):
            findings.add(str(entry.path), "queue_file_name", None, expected, entry.name)


def _report_place(root: Path, folder: Path, findings: FindingCollector) -> None:
    place = no_folder(root, folder)
    if place is not None:
        got = (
            f"a link to {place.readlink()}, which is not there" if place.is_symlink() else "neither"
        )
        findings.add(str(place), "queue_file_name", None, "a folder, or nothing", got)


def _report_sizes(old: Predecessors, findings: FindingCollector) -> None:
    for is_batch, option in ((False, "--file-size"), (True, "--batch-file-size")):
        usual = old.usual_size(is_batch=is_batch)
        findings.set_option(option, usual)
        for file in old.odd_files(is_batch=is_batch):
            expected = f"{usual} bytes, as most files have"
            got = f"{file.size} bytes"
            findings.add(str(file.path), "queue_file_size", file.size, expected, got)


class _QueueState:
    def __init__(self, queue: ConsumeQueue | None) -> None:
        self.queue = queue
        self.matched = 0
        self.first, self.last = INT64_MAX, -1  # queue offsets of its messages, if there are any
        self.without = Deviation()  # messages that have no unit, or that of another message
        self.differing = Deviation()  # units with another size or tags code
        self.due_times = DueTimes()
        self.batches: NDArray[Any] | None = None

    def begin_anew(self) -> None:
        """Forget the messages of the time before a topic was made again."""
        self.matched = 0
        self.first, self.last = INT64_MAX, -1
        self.without = Deviation()


class _Audit:
    def __init__(
        self,
        root: Path,
        folders: Sequence[ConsumeQueue],
        log: CommitLog,
        findings: FindingCollector,
        broker: BrokerState,
        start: int,
    ) -> None:
        queues = [queue for queue in folders if queue.files]
        self._folders = folders
        self._root = root
        self._log = log
        self._findings = findings
        self._broker = broker
        self._start = start
        self._present = {_key(each): each for each in queues}
        self._topics = {each.topic for each in queues}
        self._table = TopicTable.of(root)
        batch_topics = {each.topic for each in queues if each.is_batch}
        self._kinds = TopicKinds((), batch_topics, self._table, strict=False)
        self._states: dict[_QueueKey, _QueueState] = {}
        self._files = UnitFiles()
        self._refusals = 0
        # Messages with their own units: those looked at, and all that proved a beginning.
        self._judged = (np.zeros(0, np.int64), np.zeros(0, np.bool_))
        self._proofs: set[int] = set()
        self._places = Places(self._refused, self._proves)
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
        stop = log.agreed_stop(None if whole else min(self._reach, log.max_offset) + 1)
        for units in self._dispatched(start, stop, self._refused):
            self._see(units)
        end = log.max_offset if stop is None else min(stop, log.max_offset)
        self._report_kinds()
        lives = self._places.lives()
        for key, state in self._states.items():
            self._report(key, state, lives.get(key, Life.PRESENT))
        for key, places in self._places.queues.items():
            self._report_dropped(key, places.dropped)
        unmatched = []
        for key, queue in self._present.items():
            matched = self._states[key].matched if key in self._states else 0
            if self._audit_rest(queue, start, end) > matched:
                unmatched.append(queue)
        if unmatched:
            self._audit_unmatched(unmatched, start, end)
        if self._broker is BrokerState.CRASHED:
            # What a rebuild, or the broker as it starts, reads and cannot dispatch.
            for _ in self._dispatched(end, log.agreed_stop(), self._refused):
                pass

    def _dispatched(
        self, start: int, stop: int | None, refuse: Callable[[Refusal], None]
    ) -> Iterator[QueueUnits]:
        dispatcher = Dispatcher(
            parse_delay_levels(DEFAULT_DELAY_LEVELS),
            self._kinds,
            refuse,
            # By default, a broker reads nothing of these properties, which may say anything.
            multi_dispatch=any(topic.startswith(LMQ_PREFIX) for topic in self._topics),
            leave_out=OmittedTopics((), self._table, self._topics),
        )
        for records in self._log.records(start, stop, mode="DROPMALFORMED", proves_end=False):
            yield from dispatcher.dispatch(records)

    def _refused(self, refusal: Refusal) -> None:
        self._refusals += 1
        starts = [file for file in self._log.files if file.start <= refusal.phy_offset]
        self._findings.add(
            str(starts[-1].path),
            "property_number" if refusal.hint else "queue_number",
            refusal.phy_offset - starts[-1].start,
            f"{refusal.field}: {refusal.expected}",
            refusal.got,
        )

    def _proves(self, _topic: str, _queue_id: int, _queue_offset: int, phy_offset: int) -> bool:
        """Return whether a message of the current block has its unit."""
        offsets, found = self._judged
        proved = bool(found[np.searchsorted(offsets, phy_offset)])
        if proved:
            self._proofs.add(phy_offset)
        return proved

    def _see(self, units: QueueUnits) -> None:
        key = (units.topic, units.queue_id, units.is_batch)
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = _QueueState(self._found(key))
        places = self._places.of(units)
        if places is None:
            return
        if state.queue is None:
            found, same = np.zeros((2, len(units.phy_offset)), np.bool_)
            got = np.full(len(found), -1)
        elif units.is_batch:
            found, same, got = self._batch_units(state, units)
        else:
            found, same, got = self._plain_units(state, units)
        self._judged = (units.phy_offset, found)
        taken = np.zeros(len(found), np.bool_)
        for run in places.take(units):
            if run.is_anew:
                state.begin_anew()
                taken[:] = False
            taken[run.first : run.last] = True
        state.matched += int(np.count_nonzero(found & taken))
        offsets = units.queue_offset
        if taken.any():
            state.first = min(state.first, int(offsets[taken].min()))
            state.last = max(state.last, int(offsets[taken].max()))
        missing = np.flatnonzero(taken & ~found)
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

    def _found(self, key: _QueueKey) -> ConsumeQueue | None:
        """Return a queue; a running broker may have made it since they were listed."""
        if key not in self._present and self._broker is BrokerState.RUNNING:
            try:
                (queue,) = ConsumeQueue.find(_folder(self._root, key))
            except (RmqIndexError, ValueError):
                return None
            return queue if queue.files else None
        return self._present.get(key)

    def _plain_units(
        self, state: _QueueState, units: QueueUnits
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.int64]]:
        """Return whether each message has its unit, an equal one, and whose unit has its place."""
        queue = state.queue
        assert queue is not None
        data = self._files.units(queue, units.queue_offset)
        there = has_message(data)
        found = there & (data["phy_offset"] == units.phy_offset)
        codes = data["tags_code"]
        same = found & (data["size"] == units.size)
        fits = codes == units.tags_code
        if not fits.all() and has_extension(self._root, queue):
            fits |= codes < LEAST_TAGS_CODE
        if queue.topic == SCHEDULE_TOPIC:
            fits |= state.due_times.see(units, codes, found)
        same &= fits
        return found, same, np.where(there, data["phy_offset"], -1)

    def _batch_units(
        self, state: _QueueState, units: QueueUnits
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.int64]]:
        """As :meth:`_plain_units`, in a batch queue, whose units are found by message."""
        if state.batches is None:
            assert state.queue is not None
            state.batches = all_batches(state.queue)
        data = state.batches
        if not len(data):
            nothing = np.zeros(len(units.phy_offset), np.bool_)
            return nothing, nothing, np.full(len(nothing), -1)
        places = np.searchsorted(data["phy_offset"], units.phy_offset).clip(max=len(data) - 1)
        data = data[places]
        found = data["phy_offset"] == units.phy_offset
        same = found & (data["msg_base_offset"] == units.queue_offset)
        for name in ("batch_size", "size", "tags_code", "store_timestamp"):
            same &= data[name] == getattr(units, name)
        return found, same, np.full(len(found), -1)

    def _report_kinds(self) -> None:
        for queue in self._folders:  # a broker looks at those without files, too
            wanted = self._kinds.is_batch(queue.topic)
            if queue.is_batch != wanted:
                expected = f"a queue in {_FOLDER_OF[wanted]}"
                got = f"one in {_FOLDER_OF[queue.is_batch]}"
                self._findings.add(self._name(_key(queue)), "queue_kind", None, expected, got)
        for topic, phy_offset in self._kinds.conflicts.items():
            assert self._table is not None
            batch = f"the inner batch at {phy_offset}"
            expected = f"{topic} with queue.type=BatchCQ, as {batch} has it"
            self._findings.add(str(self._table.path), "topic_kind", None, expected, "without")

    def _report(self, key: _QueueKey, state: _QueueState, life: Life) -> None:
        topic, queue_id, is_batch = key
        folder = self._name(key)
        without, differing = state.without, state.differing
        if differing.count:
            self._findings.add(folder, "queue_unit", None, differing.expected(), differing.got)
        for expected, got in state.due_times.odd():
            self._findings.add(folder, "queue_due_time", None, expected, got)
        if state.matched and life in (Life.DELETED, Life.PROVED_DELETED):
            got = f"{state.matched} of the deleted topic"
            self._findings.add(folder, "queue_deleted", None, "no unit, as the topic has none", got)
        if not without.count:
            return
        if state.queue is not None:
            self._report_without(state.queue, folder, state)
            return
        if (topic, queue_id, not is_batch) in self._present:
            return  # told by its kind
        _report_place(self._root, _folder(self._root, key), self._findings)
        if topic.startswith(LMQ_PREFIX) or life is Life.PROVED_DELETED:
            return  # a broker clears light queues, and those of deleted topics
        known = self._table is not None or topic in self._topics
        rule = "queue_missing" if known else "queue_unknown"
        if life is not Life.PRESENT:
            rule = "queue_doubtful"
        self._findings.add(folder, rule, None, without.expected(), "no queue")

    def _report_without(self, queue: ConsumeQueue, folder: str, state: _QueueState) -> None:
        """Report messages whose units are not in their places."""
        if not has_all(queue, state.without.offsets):
            rule, got = "queue_unit_missing", state.without.got
        elif not queue.is_batch and self._report_descent(queue, state.first):
            return
        else:
            rule, got = "queue_offset", "it at another place"
        self._findings.add(folder, rule, None, state.without.expected(), got)

    def _report_dropped(self, key: _QueueKey, dropped: LostUnits | None) -> None:
        if dropped is not None:
            expected = f"a queue offset of its own for the message at {dropped.phy_offset}"
            older = f"{dropped.queue_offset}, which an older message has"
            got = f"{older}, and so for {dropped.units} messages in all"
            self._findings.add(self._name(key), "queue_offset_taken", None, expected, got)

    def _audit_rest(self, queue: ConsumeQueue, start: int, end: int) -> int:
        """Report units behind the log's end; return how many lead into a range of the log."""
        units, behind, newest = 0, 0, -1
        for batch in queue.scan(holes=True):
            offsets = batch["phy_offset"].to_numpy()
            units += int(np.count_nonzero((offsets >= start) & (offsets < end)))
            late = offsets >= self._log.max_offset
            behind += int(np.count_nonzero(late))
            newest = max(newest, int(offsets.max()))
        if behind and self._broker is not BrokerState.RUNNING:
            self._findings.add(
                self._name(_key(queue)),
                "queue_beyond_log",
                None,
                f"units of messages before {self._log.max_offset}, the end of the CommitLog",
                f"{behind} behind it, up to {newest}",
            )
        self._report_order(queue)
        return units

    def _report_order(self, queue: ConsumeQueue) -> None:
        """Report what is wrong with units of expired messages, and with the order of batches."""
        key = _key(queue)
        name, state = self._name(key), self._states.get(key)
        # A broker that runs or was killed may have begun to write a unit behind the last one.
        is_ended = state is None and self._broker not in _MAY_WRITE
        first, last = (INT64_MAX, -1) if state is None else (state.first, state.last)
        hole = first_hole(queue, self._log.min_offset, first, is_ended=is_ended)
        if hole is not None:
            self._findings.add(
                name,
                "queue_unit_missing",
                None,
                f"the unit of an expired message, queue offset {hole}",
                "none that a broker takes for one, so that the queue may end there when it starts",
            )
        if queue.is_batch:
            self._report_descent(queue, first)
        elif (stray := first_behind(queue, self._log.min_offset, last)) is not None:
            expected = "units of messages of the log behind the first that has one"
            self._findings.add(name, "queue_stray", None, expected, stray)

    def _report_descent(self, queue: ConsumeQueue, first: int) -> bool:
        """Report that units are not in the order of their messages; return whether they are not."""
        log_start = self._log.min_offset
        if (descent := first_descent(queue, log_start, first)) is None:
            return False
        name = self._name(_key(queue))
        expected = "units in the order of their messages"
        self._findings.add(name, "queue_unit", None, expected, descent)
        if descent.newer_place >= first and descent.newer_offset < log_start:
            rebuilt = f"units that a rebuild makes (queue offset {descent.newer_place})"
            got = f"1 of others, the first at {descent.newer_offset}"
            self._findings.add(name, "queue_left_out", None, rebuilt, got)
        return True

    def _audit_unmatched(self, queues: list[ConsumeQueue], start: int, end: int) -> None:
        """Report what is wrong with queues that have more units than messages."""
        taken = messages_taken(
            self._dispatched(start, end, lambda _: None),
            {(queue.topic, queue.queue_id) for queue in queues},
            self._proofs,
        )
        present = {(topic, queue_id) for topic, queue_id, _ in self._present}
        for queue in queues:
            name = self._name(_key(queue))
            for rule, expected, got in strays(queue, self._log, start, end):
                self._findings.add(name, rule, None, expected, got)
            mine = taken[queue.topic, queue.queue_id]
            lost, _ = lacking_units(
                queue,
                lambda _, offsets, mine=mine: contains(mine, offsets),  # type: ignore[misc]
                self._log,
                present,
                stop=end,
                is_damaged=self._refusals > 0,
            )
            if lost is not None:
                self._findings.add(
                    name,
                    "queue_left_out",
                    None,
                    f"units that a rebuild makes (queue offset {lost.queue_offset})",
                    f"{lost.units} of others, the first at {lost.phy_offset}",
                )

    def _name(self, key: _QueueKey) -> str:
        return str(_folder(self._root, key))


def _key(queue: ConsumeQueue) -> _QueueKey:
    return queue.topic, queue.queue_id, queue.is_batch


def _folder(root: Path, key: _QueueKey) -> Path:
    topic, queue_id, is_batch = key
    return root / _FOLDER_OF[is_batch] / topic / str(queue_id)
