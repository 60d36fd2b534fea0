"""The queues that a rebuild replaces: what they show of the broker, and what would be lost."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from rmqindex.commitlog.log import MATCH_STATES
from rmqindex.consumequeue.places import LostUnits
from rmqindex.consumequeue.reader import (
    ConsumeQueue,
    has_message,
    in_kind,
    torn_units,
    units_before,
)
from rmqindex.errors import RmqIndexError
from rmqindex.layout.queue import (
    DEFAULT_BATCH_FILE_SIZE,
    DEFAULT_FILE_SIZE,
    LMQ_PREFIX,
    UNIT_DTYPE,
    unit_dtype,
)
from rmqindex.layout.record import DISPATCH_QUEUES
from rmqindex.record.text import java_split
from rmqindex.storage.location import Location
from rmqindex.store.store import root_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.consumequeue.dispatch import TopicKinds
    from rmqindex.consumequeue.paths import QueueFile
    from rmqindex.consumequeue.places import Key

    # Which units, by queue offsets and log offsets, a queue has.
    Holds = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]

_ARGUMENTS = {False: "file_size=BYTES", True: "batch_file_size=BYTES"}
_DEFAULTS = {False: DEFAULT_FILE_SIZE, True: DEFAULT_BATCH_FILE_SIZE}
# Messages that are read at once.
_READ_AT_ONCE = 65_536
# The columns of messages that tell to which queues they belong.
_BELONGING = ("topic", "queue_id", "properties")
# Those that tell whether a message of another queue has been this one's.
_PLACED = (*_BELONGING, "queue_offset", "size")
_RECORD, _EXPIRED, _BEYOND_END, _NOT_A_RECORD = (
    MATCH_STATES.index(state) for state in ("record", "expired", "beyond_end", "not_a_record")
)


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
            store = root_of(Location(folder)).local
            if store not in {None, root, folder}:
                with suppress(RmqIndexError):  # none, or in RocksDB
                    found = ConsumeQueue.find(store)
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
        """Return files of another size than most of their kind, or of no whole number of units.

        Empty ones behind all others of a queue are none: a broker deletes the last one.
        """
        sized, unit = self._sized_files(is_batch=is_batch), unit_dtype(is_batch=is_batch).itemsize
        usual = self.usual_size(is_batch=is_batch)
        odd = []
        for queue in (queue for queue in self.queues if queue.is_batch == is_batch):
            newest = max((file.start for file in queue.files if file.size), default=-1)
            files = [file for file in queue.files if file.start <= newest]
            odd += [each for each in files if (each.size != usual if sized else each.size % unit)]
        return odd

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
        """Yield units of a queue as :func:`rmqindex.consumequeue.reader.units_before` does.

        Where there is none of its kind, those of the other kind are made units of its own.
        """
        same = [queue for queue in self.queues if (queue.topic, queue.queue_id) == key[:2]]
        for queue in [queue for queue in same if queue.is_batch == key[2]] or same:
            older = units_before(queue, queue_offset, phy_offset)
            yield from in_kind(older, is_batch=key[2], stop=queue_offset)

    def lacking(
        self,
        new: Sequence[ConsumeQueue],
        log: CommitLog,
        *,
        is_damaged: bool,
        leave_out: Container[str] = (),
    ) -> tuple[list[LostUnits], list[LostUnits]]:
        """Return the units that the new queues lack: the lost ones, and the stray."""
        by_name = {(queue.topic, queue.queue_id): queue for queue in new}
        present = {(queue.topic, queue.queue_id) for queue in self.queues if queue.files}
        all_lost, all_stray = [], []
        for queue in self.queues:
            if queue.topic in leave_out:
                continue
            new_queue = by_name.get((queue.topic, queue.queue_id))
            lost, stray = lacking_units(
                queue,
                _held_by(new_queue, queue),
                log,
                present,
                is_taken=_taken_by(new_queue),
                is_damaged=is_damaged,
            )
            for places, offsets in chain(_torn(queue, new_queue), _repeated(queue, new_queue)):
                everything = np.ones(len(places), np.bool_)
                stray = _with_more(stray, queue, everything, (places, offsets, ~everything))
            all_lost += [] if lost is None else [lost]
            all_stray += [] if stray is None else [stray]
        return all_lost, all_stray

    def expired(
        self,
        rebuilt: Container[tuple[str, int, bool]],
        log: CommitLog,
        kinds: TopicKinds,
        leave_out: Container[str] = (),
    ) -> dict[Key, ConsumeQueue]:
        """Return queues all of whose messages have expired; they hold the next queue offset.

        Each is named by the kind that its topic's queues must have, of which it may not be.
        """
        found: dict[Key, ConsumeQueue] = {}
        for queue in sorted(
            self.queues, key=lambda each: each.is_batch == kinds.is_batch(each.topic)
        ):
            key = (queue.topic, queue.queue_id, kinds.is_batch(queue.topic))
            if key not in rebuilt and queue.topic not in leave_out and _has_expired(queue, log):
                found[key] = queue
        return found


def _has_expired(queue: ConsumeQueue, log: CommitLog) -> bool:
    """Return whether a queue has units, and none of a message that the log has.

    One that leads to a message of another queue and another place is damaged.
    """
    has_units = any(True for _ in torn_units(queue))
    for batch in queue.scan(holes=True):
        places, offsets = (batch[name].to_numpy() for name in ("queue_offset", "phy_offset"))
        newer = offsets >= log.min_offset
        has_units = True
        _, own_places, is_own = _messages_of(queue, log, offsets[newer])
        if (is_own | (own_places == places[newer])).any():
            return False
    return has_units and log.min_offset > 0


def unit_count(queue: ConsumeQueue) -> int:
    """Return how many units a queue has, without blank ones, and with torn ones."""
    torn = sum(len(places) for places, _ in torn_units(queue))
    return torn + sum(len(batch) for batch in queue.scan(holes=True))


def has_unit(queue: ConsumeQueue, queue_offset: int, phy_offset: int) -> bool:
    """Return whether a queue has a message's unit; a plain queue has it at its queue offset."""
    if queue.is_batch:
        wanted = np.array([phy_offset], np.int64)
        return any(np.isin(wanted, batch["phy_offset"]).all() for batch in queue.scan(holes=True))
    return bool(_at(queue, np.array([queue_offset], np.int64))[0] == phy_offset)


def lacking_units(
    old: ConsumeQueue,
    holds: Holds,
    log: CommitLog,
    present: Container[tuple[str, int]],
    *,
    is_taken: Callable[[NDArray[np.int64]], NDArray[np.bool_]] | None = None,
    stop: int | None = None,
    is_damaged: bool,
) -> tuple[LostUnits | None, LostUnits | None]:
    """Compare a queue with the one that replaces it; return what is lost, and what is stray.

    Stray units are those that never led to a message of the queue. Where topic or queue of a
    message were damaged, it has the unit's size and place, and is of a queue that the store never
    had. A unit of a message that has expired is lost unless its place is taken in the new queue;
    without ``is_taken``, such units are not looked at.
    """
    lost: LostUnits | None = None
    stray: LostUnits | None = None
    start = log.min_offset if is_taken is None else 0
    for places, offsets, sizes in _missing(old, holds, start, stop):
        messages = log.read_at(offsets, _PLACED, mode="DROPMALFORMED")
        states = messages["state"].indices.to_numpy()
        is_lost = (states != _NOT_A_RECORD) | is_damaged
        were_here = _are_of(old, messages) | _may_have_been(old, messages, places, sizes, present)
        is_lost[states == _RECORD] = were_here[states == _RECORD]
        if is_taken is not None:
            is_lost[states == _EXPIRED] = ~is_taken(places[states == _EXPIRED])
        units = places, offsets, states == _BEYOND_END
        lost = _with_more(lost, old, is_lost, units)
        stray = _with_more(stray, old, ~is_lost, units)
    return lost, stray


def _with_more(
    found: LostUnits | None,
    queue: ConsumeQueue,
    mask: NDArray[np.bool_],
    units: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]],
) -> LostUnits | None:
    """Return what was found of a queue with some of the next units."""
    if not mask.any():
        return found
    places, offsets, beyond = (each[mask] for each in units)
    if found is None:
        found = LostUnits(queue.topic, queue.queue_id, 0, int(places[0]), int(offsets[0]))
    behind = found.beyond_log + int(np.count_nonzero(beyond))
    if places[0] < found.queue_offset:
        found = found._replace(queue_offset=int(places[0]), phy_offset=int(offsets[0]))
    return found._replace(units=found.units + len(places), beyond_log=behind)


def _torn(
    old: ConsumeQueue, new: ConsumeQueue | None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the queue offsets and log offsets of torn units whose messages a new queue lacks."""
    holds = _held_by(new, old)
    for places, units in torn_units(old):
        offsets = units["phy_offset"].astype(np.int64)
        if new is None or new.is_batch:
            gone = (offsets < 0) | ~holds(places, offsets)
        else:
            gone = (offsets < 0) | (_at(new, places) != offsets)
        if gone.any():
            yield places[gone], offsets[gone]


def _repeated(
    old: ConsumeQueue, new: ConsumeQueue | None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the queue offsets and log offsets of units that lead to a message again.

    Those at the places where the new queue has them are the right ones.
    """
    newest = -1
    for batch in old.scan(holes=True):
        offsets = batch["phy_offset"].to_numpy()
        if offsets[0] <= newest or (np.diff(offsets) <= 0).any():
            break
        newest = int(offsets[-1])
    else:
        return  # none leads where an earlier one does
    offsets = _sorted_values(old, "phy_offset")
    twice = np.unique(offsets[1:][offsets[1:] == offsets[:-1]])
    new_units = [] if new is None or not len(twice) else _units_to(new, twice)
    left, there = Counter(offset for _, offset in new_units), set(new_units)
    again = []
    for unit in sorted(_units_to(old, twice), key=lambda unit: (unit not in there, unit)):
        if unit[1] in left:
            left[unit[1]] -= 1
            if left[unit[1]] < 0:
                again.append(unit)
    if again:
        places, offsets = np.array(sorted(again), np.int64).T
        yield places, offsets


def _units_to(queue: ConsumeQueue, messages: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the queue offsets and log offsets of the units that lead to some messages."""
    found: list[tuple[int, int]] = []
    for batch in queue.scan(holes=True):
        places, offsets = (batch[name].to_numpy() for name in ("queue_offset", "phy_offset"))
        mine = contains(messages, offsets)
        found += zip(places[mine].tolist(), offsets[mine].tolist(), strict=True)
    return found


def _taken_by(new: ConsumeQueue | None) -> Callable[[NDArray[np.int64]], NDArray[np.bool_]]:
    """Return the test for queue offsets at which a new queue has units."""
    everything: NDArray[np.int64] | None = None

    def is_taken(places: NDArray[np.int64]) -> NDArray[np.bool_]:
        nonlocal everything
        if new is None:
            return np.zeros(len(places), np.bool_)
        if not new.is_batch:
            return _at(new, places) >= 0
        if everything is None:
            everything = _sorted_values(new, "queue_offset")
        return contains(everything, places)

    return is_taken


def _held_by(new: ConsumeQueue | None, old: ConsumeQueue) -> Holds:
    """Return the test for units of an old queue that a new one has."""
    everything: NDArray[np.int64] | None = None

    def holds(places: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        nonlocal everything
        if new is None:
            return np.zeros(len(offsets), np.bool_)
        if not new.is_batch and not old.is_batch:
            there: NDArray[np.bool_] = _at(new, places) == offsets
            if there.all():
                return there
        if everything is None:
            everything = _sorted_values(new, "phy_offset")
        return contains(everything, offsets)

    return holds


def strays(
    queue: ConsumeQueue, log: CommitLog, start: int, stop: int
) -> Iterator[tuple[str, str, str]]:
    """Find units that lead to no message, to another queue's, or to one again."""
    parts = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for batch in queue.scan(holes=True):
        places, offsets = (batch[name].to_numpy() for name in ("queue_offset", "phy_offset"))
        judged = (offsets >= start) & (offsets < stop)
        parts.append((places[judged], offsets[judged]))
    places, offsets = (np.concatenate(each) for each in zip(*parts, strict=True))
    states, own_places, is_own = _messages_of(queue, log, offsets)
    none = (states != _RECORD) & (states != _EXPIRED)
    # Of the units of one message, that at its own queue offset is the right one.
    order = np.lexsort((places, places != own_places, offsets))
    again = np.zeros(len(offsets), np.bool_)
    again[order[1:]] = offsets[order[1:]] == offsets[order[:-1]]
    others = (states == _RECORD) & (again | ~is_own)
    for rule, expected, got, wrong in (
        ("queue_dangling", "units of messages", "of none", none),
        ("queue_stray", "units of its messages, one each", "of others or again", others),
    ):
        if wrong.any():
            first = int(np.argmax(wrong))
            yield (
                rule,
                f"{expected} (queue offset {places[first]})",
                f"{np.count_nonzero(wrong)} {got}, the first at {offsets[first]}",
            )


def _messages_of(
    queue: ConsumeQueue, log: CommitLog, offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int8], NDArray[np.int64], NDArray[np.bool_]]:
    states, places, is_own = (np.zeros(len(offsets), kind) for kind in ("i1", "i8", "?"))
    for first in range(0, len(offsets), _READ_AT_ONCE):
        part = slice(first, first + _READ_AT_ONCE)
        messages = log.read_at(offsets[part], [*_BELONGING, "queue_offset"])
        states[part] = messages["state"].indices.to_numpy()
        places[part] = messages["queue_offset"].fill_null(-1).to_numpy()
        is_own[part] = _are_of(queue, messages)
    return states, places, is_own


def _are_of(queue: ConsumeQueue, messages: pa.RecordBatch) -> NDArray[np.bool_]:
    """Mask the messages that belong to a queue, by topic or as a light queue."""
    topics, numbers = (messages[name] for name in ("topic", "queue_id"))
    same = pc.and_(pc.equal(topics, queue.topic), pc.equal(numbers, queue.queue_id))
    found: NDArray[np.bool_] = same.fill_null(False).to_numpy(zero_copy_only=False).copy()
    for row in np.flatnonzero(~found).tolist():
        named = dict(messages["properties"][row].as_py() or ()).get(DISPATCH_QUEUES, "")
        found[row] = queue.topic in java_split(named)
    return found


def _may_have_been(
    queue: ConsumeQueue,
    messages: pa.RecordBatch,
    places: NDArray[np.int64],
    sizes: NDArray[np.int64],
    present: Container[tuple[str, int]],
) -> NDArray[np.bool_]:
    """Mask messages with the place and size of a queue's units whose own queue is absent."""
    same = messages["size"].fill_null(-1).to_numpy() == sizes
    if not queue.topic.startswith(LMQ_PREFIX):
        same &= messages["queue_offset"].fill_null(-1).to_numpy() == places
        for row in np.flatnonzero(same).tolist():
            same[row] = (messages["topic"][row].as_py(), messages["queue_id"][row].as_py()) not in (
                present
            )
    return np.asarray(same)


def _missing(
    old: ConsumeQueue, holds: Holds, start: int, stop: int | None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the units that the new queue lacks: queue and log offsets, and sizes."""
    for batch in old.scan(holes=True):
        places, offsets, sizes = (
            batch[name].to_numpy() for name in ("queue_offset", "phy_offset", "size")
        )
        missing = offsets >= start
        if stop is not None:
            missing &= offsets < stop
        missing[missing] = ~holds(places[missing], offsets[missing])
        if missing.any():
            yield places[missing], offsets[missing], sizes[missing]


def _at(queue: ConsumeQueue, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the log offsets of a plain queue's units at places; -1 where it has none."""
    found = np.full(len(places), -1, np.int64)
    for file in queue.files:
        first, count = (size // UNIT_DTYPE.itemsize for size in (file.start, file.size))
        inside = (places >= first) & (places < first + count)
        if inside.any():
            # A file that was cut, or is too long, ends in a part of a unit.
            units = np.memmap(file.path, UNIT_DTYPE, "r", shape=count)[places[inside] - first]
            found[inside] = np.where(has_message(units), units["phy_offset"], -1)
    return found


def _sorted_values(queue: ConsumeQueue, name: str) -> NDArray[np.int64]:
    parts = [batch[name].to_numpy() for batch in queue.scan(holes=True)]
    return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


def contains(everything: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which offsets are among sorted ones."""
    if not len(everything):
        return np.zeros(len(offsets), np.bool_)
    places = np.searchsorted(everything, offsets).clip(max=len(everything) - 1)
    found: NDArray[np.bool_] = everything[places] == offsets
    return found
