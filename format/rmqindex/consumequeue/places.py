"""Which units a rebuild takes into its queues, and which of them it refuses or leaves out.

Whoever writes queues and whoever advises to have them written ask the same judge.
"""

from __future__ import annotations

import os
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow.compute as pc

from rmqindex.commitlog.log import MATCH_STATES
from rmqindex.consumequeue.dispatch import Refusal
from rmqindex.consumequeue.reader import ConsumeQueue
from rmqindex.errors import RmqIndexError
from rmqindex.layout.index_file import INT64_MAX
from rmqindex.layout.queue import LMQ_PREFIX, UNIT_DTYPE
from rmqindex.layout.record import DISPATCH_QUEUES, MIN_RECORD_SIZE
from rmqindex.record.text import java_split

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.consumequeue.dispatch import QueueUnits

    # Whether a present queue, by topic and number, has at a queue offset the unit of a message.
    Proof = Callable[[str, int, int, int], bool]
    # A queue's topic and number, and whether it is a batch queue.
    Key = tuple[str, int, bool]

#: The columns of messages that tell to which queues they belong.
BELONGING = ("topic", "queue_id", "properties")
# Messages that are read at once.
_READ_AT_ONCE = 65_536
_RECORD, _EXPIRED = (MATCH_STATES.index(state) for state in ("record", "expired"))
# The longest name in Linux's file systems, bytes.
_MAX_NAME_BYTES = 255
_INT16_MAX = 2**15 - 1
# The last unit's place is still a 64-bit number.
_MAX_QUEUE_OFFSET = INT64_MAX // UNIT_DTYPE.itemsize - 1
# Errors name so many queues.
_MOST_NAMED = 5


class LostUnits(NamedTuple):
    """Units of one queue that the new queue lacks.

    Attributes:
        topic: The topic.
        queue_id: The number of the queue.
        units: How many.
        queue_offset: That of the first one.
        phy_offset: Where its message starts in the log, bytes.
        beyond_log: How many of them lead behind the log's end.
    """

    topic: str
    queue_id: int
    units: int
    queue_offset: int
    phy_offset: int
    beyond_log: int = 0


class Run(NamedTuple):
    """Units with consecutive queue offsets that a queue takes."""

    first: int
    last: int  # the row behind the last one
    after: int | None  # the queue offset behind the units before; None at the queue's beginning
    is_anew: bool  # whether the queue begins anew here: what it took before is dropped


class Life(Enum):
    """The life of its topic that a queue's messages belong to, before or after a deletion."""

    PRESENT = "present"
    #: Of the present one, or of that before the topic was deleted and made again.
    UNKNOWN = "unknown"
    #: Of that before, as the log shows.
    DELETED = "deleted"
    #: Of that before, as the log shows and a present queue proves.
    PROVED_DELETED = "proved deleted"


class _Deletion(NamedTuple):
    """Between which messages (offsets in the log) of a queue its topic was deleted."""

    last: int
    first: int
    is_proved: bool  # whether the present queue begins with the message at ``first``


class Places:
    """The queues of a log's messages, by topic, number, and whether they are batch queues."""

    def __init__(self, refuse: Callable[[Refusal], None], proof: Proof) -> None:
        """Begin without queues."""
        self._refuse = refuse
        self._proof = proof
        self.queues: dict[Key, QueuePlaces] = {}

    def of(self, units: QueueUnits) -> QueuePlaces | None:
        """Return the queue of units; refuse a name that no folder can have, and return None."""
        key = (units.topic, units.queue_id, units.is_batch)
        queue = self.queues.get(key)
        if queue is None:
            if not names_folder(units.topic) or units.queue_id < 0:
                expected = "the name of a folder, and a queue's number"
                got = f"{units.topic!r} and {units.queue_id}"
                for phy_offset in units.phy_offset.tolist():
                    self._refuse(Refusal(phy_offset, "topic", expected, got))
                return None
            queue = self.queues[key] = QueuePlaces(key, self._refuse, self._proof)
        return queue

    def lives(self) -> dict[Key, Life]:
        """Return each queue's life, once all messages were taken.

        Where the queue offsets of a queue fall back to 0, its topic was deleted in between.
        Another queue of it that began before that, and has no message since, is of the deleted
        topic.
        """
        deletions: dict[str, list[_Deletion]] = {}
        for (topic, *_), queue in self.queues.items():
            if queue.deletion is not None:
                deletions.setdefault(topic, []).append(queue.deletion)
        return {key: _life(queue, deletions.get(key[0], ())) for key, queue in self.queues.items()}


def _life(queue: QueuePlaces, deletions: Iterable[_Deletion]) -> Life:
    own = queue.deletion
    # One deletion shows in several queues.
    others = [
        each for each in deletions if own is None or own.first < each.last or each.first < own.last
    ]
    before = [each for each in others if queue.oldest < each.last]
    if not queue.unit_count or any(each.first < queue.newest for each in before):
        return Life.PRESENT  # with a message since, a queue was lost then, and not its topic
    if before:
        is_proved = any(each.is_proved for each in before)
        return Life.PROVED_DELETED if is_proved else Life.DELETED
    return Life.UNKNOWN if any(queue.newest < each.first for each in others) else Life.PRESENT


class QueuePlaces:
    """The places of one queue, which grows at its end.

    A queue offset that falls back to 0 begins it anew: its topic was deleted, and made again.
    So does one that falls back to where the present queue has the unit of that very message.
    """

    def __init__(self, key: Key, refuse: Callable[[Refusal], None], proof: Proof) -> None:
        """Begin without a unit."""
        self._topic, self._queue_id, self._is_batch = key
        self._refuse = refuse
        self._proof = proof
        self._next: int | None = None  # the next queue offset; None before the first unit
        self._is_anew = False
        # Where the messages of its first and last unit start in the log, bytes; -1 without a unit.
        self.oldest = self.newest = -1
        self.deletion: _Deletion | None = None
        self.unit_count = 0
        self.gaps: list[tuple[int, int]] = []
        self.superseded_count = 0  # units of the time before it began anew
        self.dropped: LostUnits | None = None  # units whose queue offsets are taken

    def take(self, units: QueueUnits) -> Iterator[Run]:
        """Yield the units that the queue takes, in their order."""
        offsets, stops = units.queue_offset, units.queue_offset + units.batch_size
        cuts = [0, *(np.flatnonzero(offsets[1:] != stops[:-1]) + 1).tolist(), len(offsets)]
        # What comes before the last beginning need not be taken.
        begun = [cut for cut in cuts[:-1] if offsets[cut] == 0]
        if begun and (self._next is not None or begun[-1]):
            row = begun[-1]
            first = int(units.phy_offset[row])
            last = int(units.phy_offset[row - 1]) if row else self.newest
            is_proved = self._proof(self._topic, self._queue_id, 0, first)
            self.deletion = _Deletion(last, first, is_proved)
            self._begin_anew(row)
            cuts = cuts[cuts.index(row) :]
        for first, last in pairwise(cuts):
            most = self._most(int(units.phy_offset[first]))
            if 0 <= offsets[first] <= most:
                yield from self._take_run(units, first, last)
                continue
            for row in range(first, last):
                place = (int(units.phy_offset[row]), "queue_offset")
                self._refuse(Refusal(*place, f"0 to {most}", str(offsets[row])))

    def _most(self, phy_offset: int) -> int:
        """Return the largest queue offset that a message can have, by the bytes before it."""
        if self._is_batch:
            return INT64_MAX - _INT16_MAX
        if self._next is None:
            return _MAX_QUEUE_OFFSET
        between = (phy_offset - self.newest) // MIN_RECORD_SIZE
        return min(self._next + between, _MAX_QUEUE_OFFSET)

    def _take_run(self, units: QueueUnits, first: int, last: int) -> Iterator[Run]:
        offset, phy_offset = int(units.queue_offset[first]), int(units.phy_offset[first])
        if self._next is not None and offset < self._next:
            if self._proof(self._topic, self._queue_id, offset, phy_offset):
                self._begin_anew(0)
            else:
                taken = int(np.searchsorted(units.queue_offset[first:last], self._next))
                self._drop(taken, offset, phy_offset)
                first += taken
                if first == last:
                    return
                offset = int(units.queue_offset[first])
        after = self._next
        if after is not None and offset > after:
            self.gaps.append((after, offset))
        self.unit_count += last - first
        self._next = int(units.queue_offset[last - 1] + units.batch_size[last - 1])
        self.newest = int(units.phy_offset[last - 1])
        if self.oldest < 0:
            self.oldest = int(units.phy_offset[first])
        is_anew, self._is_anew = self._is_anew, False
        yield Run(first, last, after, is_anew)

    def _drop(self, count: int, queue_offset: int, phy_offset: int) -> None:
        if self.dropped is None:
            key = (self._topic, self._queue_id)
            self.dropped = LostUnits(*key, count, queue_offset, phy_offset)
        else:
            self.dropped = self.dropped._replace(units=self.dropped.units + count)

    def _begin_anew(self, skipped: int) -> None:
        """Drop all units, and count ``skipped`` more that were not taken."""
        self.superseded_count += self.unit_count + skipped
        if self.dropped is not None:
            self.superseded_count += self.dropped.units
        self._next, self._is_anew, self.unit_count, self.dropped = None, True, 0, None
        self.oldest = -1
        self.gaps.clear()


def messages_taken(
    dispatched: Iterable[QueueUnits], queues: Collection[tuple[str, int]], proofs: Collection[int]
) -> dict[tuple[str, int], NDArray[np.int64]]:
    """Return the log offsets of the messages whose units some queues take, ascending."""
    taken: dict[tuple[str, int], list[NDArray[np.int64]]] = {queue: [] for queue in queues}
    places = Places(lambda _: None, lambda _t, _n, _o, phy_offset: phy_offset in proofs)
    for units in dispatched:
        mine = taken.get((units.topic, units.queue_id))
        queue = None if mine is None else places.of(units)
        if mine is None or queue is None:
            continue
        for run in queue.take(units):
            if run.is_anew:
                mine.clear()
            mine.append(units.phy_offset[run.first : run.last])
    return {
        queue: np.sort(np.concatenate([np.zeros(0, np.int64), *parts]))
        for queue, parts in taken.items()
    }


def names_folder(topic: str) -> bool:
    """Return whether a topic can be the name of a folder.

    Raises:
        RmqIndexError: The locale has not all its characters.
    """
    try:
        size = len(os.fsencode(topic))
    except UnicodeEncodeError as error:
        raise RmqIndexError(
            f"expected a locale that has all characters of the topic {topic!a}, got the "
            f"encoding {error.encoding}: set LC_ALL=C.UTF-8"
        ) from error
    return topic not in {"", ".", ".."} and not {"/", "\0"} & set(topic) and size <= _MAX_NAME_BYTES


def named_units(units: Sequence[LostUnits]) -> str:
    """Return what an error says of lost units, queue by queue."""
    named = [
        f"{each.units} of {each.topic}, queue {each.queue_id}, from queue offset "
        f"{each.queue_offset} (message at offset {each.phy_offset}) on"
        for each in units[:_MOST_NAMED]
    ]
    more = len(units) - len(named)
    return "; ".join([*named, *([f"and {more} more queues"] if more else [])])


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
    """Return of messages their states, their queue offsets, and whether they are a queue's."""
    states, places, is_own = (np.zeros(len(offsets), kind) for kind in ("i1", "i8", "?"))
    for first in range(0, len(offsets), _READ_AT_ONCE):
        part = slice(first, first + _READ_AT_ONCE)
        messages = log.read_at(offsets[part], [*BELONGING, "queue_offset"])
        states[part] = messages["state"].indices.to_numpy()
        places[part] = messages["queue_offset"].fill_null(-1).to_numpy()
        is_own[part] = are_of(queue, messages)
    return states, places, is_own


def are_of(queue: ConsumeQueue, messages: pa.RecordBatch) -> NDArray[np.bool_]:
    """Mask the messages that belong to a queue, by topic or as a light queue."""
    topics, numbers = (messages[name] for name in ("topic", "queue_id"))
    same = pc.and_(pc.equal(topics, queue.topic), pc.equal(numbers, queue.queue_id))
    found: NDArray[np.bool_] = same.fill_null(False).to_numpy(zero_copy_only=False).copy()
    for row in np.flatnonzero(~found).tolist():
        named = dict(messages["properties"][row].as_py() or ()).get(DISPATCH_QUEUES, "")
        found[row] = queue.topic in java_split(named)
    return found


def may_have_been(
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


def displaced(
    queue: ConsumeQueue, log: CommitLog, present: Container[tuple[str, int]]
) -> list[tuple[int, int]]:
    """Return from which queue offsets to which units of expired messages are not in their places.

    That is behind the unit of a message that the log has, which is newer; in a file that has one of
    another queue that is present, in its place there; and in one that has some where another file
    of the queue should, of which a single one may be of a message that is damaged itself.
    """
    found: list[tuple[int, int]] = []
    newer = INT64_MAX
    for file in () if queue.is_batch or queue.topic.startswith(LMQ_PREFIX) else queue.files:
        first, count = (size // queue.unit_size for size in (file.start, file.size))
        moved, is_of_other = 0, False
        for batch in ConsumeQueue(queue.topic, queue.queue_id, [file]).scan(holes=True):
            places, offsets = (batch[name].to_numpy() for name in ("queue_offset", "phy_offset"))
            in_log = (offsets >= log.min_offset) & (offsets < log.max_offset)
            places, columns = places[in_log], [*BELONGING, "queue_offset"]
            messages = log.read_at(offsets[in_log], columns, mode="DROPMALFORMED")
            own_places = messages["queue_offset"].fill_null(-1).to_numpy()
            is_own, is_here = are_of(queue, messages), own_places == places
            if is_own.any():
                newer = min(newer, int(places[is_own][0]))
            moved += int(np.count_nonzero(is_own & ~is_here & ((own_places - places) % count == 0)))
            for row in np.flatnonzero(~is_own & is_here).tolist():
                name = messages["topic"][row].as_py(), messages["queue_id"][row].as_py()
                is_of_other |= name in present
        if moved > 1 or is_of_other:
            found.append((first, first + count))
    return [*found, (newer, INT64_MAX)]
