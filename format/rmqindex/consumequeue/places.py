"""Which units a rebuild takes into its queues, and which of them it refuses or leaves out.

Whoever writes queues and whoever advises to have them written ask the same judge.
"""

from __future__ import annotations

import os
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqindex.consumequeue.dispatch import Refusal
from rmqindex.errors import RmqIndexError
from rmqindex.layout.index_file import INT64_MAX
from rmqindex.layout.queue import UNIT_DTYPE
from rmqindex.layout.record import MIN_RECORD_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.consumequeue.dispatch import QueueUnits

    # Whether a present queue, by topic and number, has at a queue offset the unit of a message.
    Proof = Callable[[str, int, int, int], bool]
    # A queue's topic and number, and whether it is a batch queue.
    Key = tuple[str, int, bool]

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
