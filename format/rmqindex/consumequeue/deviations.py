"""How the units of one queue deviate from what its messages say, gathered over the log."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter, OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from rmqindex.consumequeue.dispatch import parse_delay_levels
from rmqindex.consumequeue.reader import has_message, placed_units, torn_units, written_blocks
from rmqindex.errors import RmqIndexError
from rmqindex.layout.index_file import INT64_MAX
from rmqindex.layout.queue import DEFAULT_DELAY_LEVELS, SCHEDULE_TOPIC, UNIT_DTYPE, unit_dtype
from rmqindex.layout.record import FILE_NAME_DIGITS
from rmqindex.layout.store import EXTENSION_FOLDER
from rmqindex.storage.disk import naming, open_to_read
from rmqindex.transaction.directories import exists

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from rmqindex.consumequeue.dispatch import QueueUnits
    from rmqindex.consumequeue.reader import ConsumeQueue

# Units of a queue without a place of their own that are looked for in the rest of it.
_LOOKED_FOR = 1000
_SECOND = 1000  # milliseconds
_USUAL_DELAYS = parse_delay_levels(DEFAULT_DELAY_LEVELS)
# So many messages with another delay are no damage: the configuration was another for a while.
_MANY = 10
#: With ``enableConsumeQueueExt``, smaller codes are addresses in the queue's files in another
#: folder.
LEAST_TAGS_CODE = -(2**31)
# Files of queues that are open at a time.
_OPEN_FILES = 64
# The last unit's place is still a 64-bit number.
_MOST_UNITS = INT64_MAX // UNIT_DTYPE.itemsize


@dataclass
class Deviation:
    """Messages of a queue whose units deviate in one way; the first is reported."""

    count: int = 0
    places: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    got: str = ""

    def add(self, places: Iterable[int], offsets: Iterable[int], got: str) -> None:
        """Add messages, by their queue offsets and their offsets in the log."""
        for place, offset in zip(places, offsets, strict=True):
            if not self.count:
                self.got = got
            self.count += 1
            if len(self.offsets) < _LOOKED_FOR:
                self.places.append(place)
                self.offsets.append(offset)

    def expected(self) -> str:
        """Return what was expected of the first one, and how many there are."""
        first = f"the unit of the message at {self.offsets[0]}, queue offset {self.places[0]}"
        return first + (f", and of {self.count - 1} more" if self.count > 1 else "")


class _Run(NamedTuple):
    """Consecutive messages of one delay: how many, and where the first one is."""

    delay: int
    length: int
    queue_offset: int
    phy_offset: int


class DueTimes:
    """The times at which the delayed messages of one queue are due.

    A level's delay is the broker's own configuration: a whole number of seconds, the same for all
    messages until it is changed.
    """

    def __init__(self, levels: Sequence[int] = _USUAL_DELAYS, *, keeps_odd: bool = False) -> None:
        """Begin without messages, and with what each level's delay is told to be, ms."""
        self._levels = levels
        self._keeps_odd = keeps_odd
        # By that delay.
        self._runs: dict[int, list[_Run]] = {}

    def see(
        self, units: QueueUnits, codes: NDArray[np.int64], found: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return which messages that have units can be due at their times; note their delays."""
        usual = units.tags_code - units.store_timestamp
        delays = codes - units.store_timestamp
        can_be = found & np.isin(usual, self._levels) & (codes >= units.store_timestamp)
        can_be &= delays % _SECOND == 0
        for level in np.unique(usual[can_be]).tolist():
            (rows,) = np.nonzero(can_be & (usual == level))
            edges = np.flatnonzero(np.diff(delays[rows])) + 1
            runs = self._runs.setdefault(level, [])
            for part in np.split(rows, edges):
                row = part[0]
                runs.append(
                    _Run(
                        int(delays[row]),
                        len(part),
                        int(units.queue_offset[row]),
                        int(units.phy_offset[row]),
                    )
                )
        return can_be

    def odd(self) -> Iterator[tuple[str, str]]:
        """Yield what was expected and got of few messages with other delays than those around."""
        for usual in self._runs:
            for run, around in self._judged(usual):
                if around is not None:
                    yield _told(run, around)

    def delays(self) -> dict[int, tuple[list[int], list[int]]]:
        """Return by level where in the log its delays begin, ascending, and which they are."""
        found = {}
        for usual in self._runs:
            runs = [run for run, around in self._judged(usual) if around is None]
            found[usual] = [run.phy_offset for run in runs], [run.delay for run in runs]
        return found

    @property
    def odd_count(self) -> int:
        """How many messages have other delays than those around them."""
        judged = (pair for usual in self._runs for pair in self._judged(usual))
        return sum(run.length for run, around in judged if around is not None)

    def _judged(self, usual: int) -> Iterator[tuple[_Run, int | None]]:
        """Yield runs in their order, with the delay around each that is none of the broker's."""
        runs = self._runs[usual]
        counts: Counter[int] = Counter()
        for run in runs:
            counts[run.delay] += run.length
        main = max(counts, key=lambda delay: (counts[delay], delay == usual))
        before, pending = None, list[_Run]()
        for run in runs:
            is_few = run.delay not in (usual, main) and counts[run.delay] < _MANY
            if is_few and not self._keeps_odd:
                pending.append(run)
                continue
            around = run.delay if run.delay == before else None
            yield from ((odd, around) for odd in pending)
            yield run, None
            before, pending = run.delay, []
        yield from ((odd, None) for odd in pending)


class PresentUnits:
    """What units that are to be replaced say and the log does not, so that a rebuild keeps it.

    That is by how much the messages of a level are delayed, and where in ``consumequeue_ext`` more
    is stored of a message.
    """

    def __init__(
        self,
        root: Path,
        queues: Iterable[ConsumeQueue],
        levels: Sequence[int],
        *,
        mends_odd: bool,
    ) -> None:
        """Begin with the present queues, the store root of the new ones, and delays for the rest.

        Few messages with another delay than those around them keep it, unless it is mended.
        """
        plain = [queue for queue in queues if queue.files and not queue.is_batch]
        self._delayed = [queue for queue in plain if queue.topic == SCHEDULE_TOPIC]
        self._due: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
        self._extended = {
            (queue.topic, queue.queue_id): queue
            for queue in plain
            if queue.topic != SCHEDULE_TOPIC and has_extension(root, queue)
        }
        self._files = UnitFiles()
        self._due_times = partial(DueTimes, levels, keeps_odd=not mends_odd)
        self._seen: dict[int, DueTimes] = {}
        self._delays: dict[tuple[int, int], tuple[list[int], list[int]]] | None = None
        self._counts: Counter[tuple[int, int]] = Counter()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files."""
        self._files.close()

    def keep(self, units: QueueUnits) -> QueueUnits:
        """Return new units with what is kept; until :meth:`settle`, with the delays of levels."""
        if units.is_batch:
            return units
        if units.topic == SCHEDULE_TOPIC:
            if self._delays is None:
                self._see(units)
            return units
        queue = self._extended.get((units.topic, units.queue_id))
        if queue is None:
            return units
        data = self._files.units(queue, units.queue_offset)
        is_address = has_message(data) & (data["phy_offset"] == units.phy_offset)
        is_address &= data["tags_code"] < LEAST_TAGS_CODE
        return replace(units, tags_code=np.where(is_address, data["tags_code"], units.tags_code))

    def _see(self, units: QueueUnits) -> None:
        usual, counts = np.unique(units.tags_code - units.store_timestamp, return_counts=True)
        for each, count in zip(usual.tolist(), counts.tolist(), strict=True):
            self._counts[units.queue_id, each] += count
        if self._due is None:
            self._due = _codes_by_message(self._delayed)
        offsets, codes = self._due
        if len(offsets):
            places = np.searchsorted(offsets, units.phy_offset).clip(max=len(offsets) - 1)
            found = offsets[places] == units.phy_offset
            self._seen.setdefault(units.queue_id, self._due_times()).see(
                units, codes[places], found
            )

    def settle(self) -> bool:
        """Go by what was seen from now on; return whether any delay is not its level's."""
        self._delays = {
            (queue_id, usual): delays
            for queue_id, due_times in self._seen.items()
            for usual, delays in due_times.delays().items()
        }
        return any(delays != [usual] for (_, usual), (_, delays) in self._delays.items())

    def delay_of(self, queue_id: int, usual: int, phy_offset: int) -> int:
        """Return the delay of a message, ms, from that of its level."""
        if self._delays is None or (queue_id, usual) not in self._delays:
            return usual
        offsets, delays = self._delays[queue_id, usual]
        return delays[max(bisect_right(offsets, phy_offset) - 1, 0)]

    @property
    def odd_count(self) -> int:
        """How many messages get the delay of those around them, and not their units'."""
        return sum(due_times.odd_count for due_times in self._seen.values())

    @property
    def unshown_count(self) -> int:
        """How many messages have the delay of their level, since no present unit shows any."""
        known = self._delays or {}
        return sum(count for key, count in self._counts.items() if key not in known)


def _codes_by_message(
    queues: Iterable[ConsumeQueue],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the offsets of messages, ascending, and the tags codes that some unit has for them.

    A unit may be in another place, queue or file than its message's.
    """
    parts = [np.zeros(0, UNIT_DTYPE)]
    for file in (file for queue in queues for file in queue.files):
        # What was read of a file before one of its blocks cannot be is as good as that of others.
        with suppress(RmqIndexError):
            for _, units in written_blocks(file, is_batch=False, holes=True):
                parts.append(units)
    units = np.concatenate(parts)
    units = units[has_message(units)]
    units = units[np.argsort(units["phy_offset"], kind="stable")]
    return units["phy_offset"].astype(np.int64), units["tags_code"].astype(np.int64)


class UnitFiles:
    """Reads units of plain queues by their places, also from files made since the listing."""

    def __init__(self) -> None:
        """Open nothing."""
        self._open: OrderedDict[str, int] = OrderedDict()
        self._sizes: dict[ConsumeQueue, int] = {}

    def close(self) -> None:
        """Close all files."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def units(self, queue: ConsumeQueue, places: NDArray[np.int64]) -> NDArray[Any]:
        """Return what a queue that has files has at places; zeros for nothing."""
        if queue not in self._sizes:
            self._sizes[queue] = _file_size(queue)
        inside = (places >= 0) & (places < _MOST_UNITS)
        data = np.zeros(len(places), UNIT_DTYPE)
        folder, size = queue.files[0].path.parent.local, self._sizes[queue]
        if folder is not None and size:
            data[inside] = self._units(folder, size, places[inside])
        return data

    def _units(self, folder: Path, file_size: int, places: NDArray[np.int64]) -> NDArray[Any]:
        data = np.zeros(len(places), UNIT_DTYPE)
        if not len(places):
            return data
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
        with naming(path):
            data = os.pread(self._open[path], length, at)
        # What is left of a unit that the file ends in is none.
        return data[: len(data) // UNIT_DTYPE.itemsize * UNIT_DTYPE.itemsize].ljust(length, b"\0")


def _file_size(queue: ConsumeQueue) -> int:
    """Return the size of a queue's files, bytes, by their names; 0 where nothing tells it.

    Some of them may have been cut, or be lost.
    """
    files, unit, first = queue.files, UNIT_DTYPE.itemsize, queue.files[0]
    sizes = {file.size for file in files}
    apart = Counter(b.start - a.start for a, b in pairwise(files))
    whole = {size: count for size, count in apart.items() if not size % unit}
    if whole:
        return max(whole, key=lambda size: (size in sizes, whole[size], -size))
    if first.size and not (first.size % unit or first.start % first.size):
        return first.size
    return first.start if first.start and not first.start % unit else first.size // unit * unit


def has_extension(root: Path, queue: ConsumeQueue) -> bool:
    """Return whether a broker stored more of a queue's messages with ``enableConsumeQueueExt``."""
    return exists(root / EXTENSION_FOLDER / queue.topic / str(queue.queue_id))


def _told(odd: _Run, delay: int) -> tuple[str, str]:
    """Return what was expected of a run, and what it has."""
    expected = (
        f"{delay // _SECOND} s from storing the message at {odd.phy_offset}, queue offset "
        f"{odd.queue_offset}, as for those before and behind it"
    )
    more = f", and so for {odd.length - 1} behind it" if odd.length > 1 else ""
    return expected, f"{odd.delay // _SECOND} s{more}"


def first_hole(queue: ConsumeQueue, min_offset: int, first: int, *, is_ended: bool) -> int | None:
    """Return the first queue offset without a unit among those of expired messages of a queue.

    ``first`` is the least queue offset of the messages that the log has, else ``INT64_MAX``.
    """
    if not min_offset:
        return None  # nothing has expired
    holes = _batch_holes(queue, min_offset) if queue.is_batch else _plain_holes(queue, min_offset)
    hole = next((hole for hole in holes if hole < first), None)
    if hole is not None or not is_ended:
        return hole
    return next((int(places[0]) for places, _ in torn_units(queue)), None)


def _plain_holes(queue: ConsumeQueue, min_offset: int) -> Iterator[int]:
    """Yield the queue offsets at which units lack behind an expired message, or as the first."""
    place, offset = queue.files[0].start // queue.unit_size - 1, -1
    for batch in queue.scan(blanks=True, holes=True):
        places, offsets = (batch[name].to_numpy() for name in ("queue_offset", "phy_offset"))
        before = np.append(place, places[:-1])
        is_apart = (places != before + 1) & (np.append(offset, offsets[:-1]) < min_offset)
        yield from (before[is_apart] + 1).tolist()
        if offsets.max() >= min_offset:
            return
        place, offset = places[-1], offsets[-1]


def _batch_holes(queue: ConsumeQueue, min_offset: int) -> Iterator[int]:
    """As :func:`_plain_holes`, with the queue offset before that of the unit behind."""
    place, offset = queue.files[0].start // queue.unit_size - 1, -1
    for file in queue.files:
        for numbers, units in written_blocks(file, is_batch=True, holes=True):
            places, offsets = file.start // queue.unit_size + numbers, units["phy_offset"]
            is_apart = places != np.append(place, places[:-1]) + 1
            is_apart &= np.append(offset, offsets[:-1]) < min_offset
            yield from (units["msg_base_offset"][is_apart] - 1).clip(min=0).tolist()
            if offsets.max() >= min_offset:
                return
            place, offset = places[-1], offsets[-1]


class Descent(NamedTuple):
    """A unit behind that of a newer message: queue offsets, and where each message starts."""

    place: int
    offset: int
    newer_place: int
    newer_offset: int

    def __str__(self) -> str:
        """Return what was found."""
        return (
            f"that of the message at {self.offset}, queue offset {self.place}, behind that at "
            f"{self.newer_offset}, {self.newer_place}"
        )


def first_behind(queue: ConsumeQueue, min_offset: int, last: int) -> str | None:
    """Return which unit of an expired message is behind the messages that the log has, if any is.

    ``last`` is their greatest queue offset, or negative without any. A broker that starts takes
    such a unit for the last expired one.
    """
    for places, units in placed_units(queue) if last >= 0 else ():
        offsets = units["phy_offset"]
        if (stray := (offsets < min_offset) & (places > last)).any():
            at = int(np.argmax(stray))
            return f"that of the expired message at {offsets[at]}, queue offset {places[at]}"
    return None


def first_descent(queue: ConsumeQueue, min_offset: int, first: int) -> Descent | None:
    """Return which unit stands behind that of a newer message, if that changes an answer.

    Among those of expired messages it does not: a broker looks by queue offset for the others, of
    which ``first`` is the least (``INT64_MAX`` without any), and takes the last unit for the end
    of a queue.
    """
    last = np.zeros(0, np.int64), np.zeros(0, unit_dtype(is_batch=queue.is_batch))
    newest = -1, -1
    for placed in placed_units(queue):
        places, units = (np.append(*each) for each in zip(last, placed, strict=True))
        offsets = units["phy_offset"]
        is_live = offsets >= min_offset
        stops = places + (np.where(is_live, units["batch_size"], 1) if queue.is_batch else 1)
        falls = (np.diff(offsets) <= 0) | (places[1:] < stops[:-1])
        falls &= is_live[1:] | is_live[:-1] | (places[:-1] >= first)
        if falls.any():
            at = int(np.argmax(falls))
            older, newer = ((int(places[each]), int(offsets[each])) for each in (at + 1, at))
            return Descent(*older, *newer)
        most = int(np.argmax(places))
        newest = max(newest, (int(places[most]), int(offsets[most])))
        last = places[-1:], units[-1:]
    if len(last[0]) and first == INT64_MAX and newest[0] > last[0][0]:
        return Descent(int(last[0][0]), int(last[1]["phy_offset"][0]), *newest)
    return None


def has_all(queue: ConsumeQueue, offsets: list[int]) -> bool:
    """Return whether a queue has units of all these messages, wherever."""
    left = np.array(offsets, np.int64)
    for batch in queue.scan(holes=True):
        left = left[~np.isin(left, batch["phy_offset"].to_numpy())]
    return not len(left)
