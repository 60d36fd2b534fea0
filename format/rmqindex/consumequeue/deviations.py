"""How the units of one queue deviate from what its messages say, gathered over the log."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqindex.consumequeue.dispatch import parse_delay_levels
from rmqindex.consumequeue.reader import torn_units
from rmqindex.layout.queue import DEFAULT_DELAY_LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from rmqindex.consumequeue.dispatch import QueueUnits
    from rmqindex.consumequeue.reader import ConsumeQueue

# Units of a queue without a place of their own that are looked for in the rest of it.
_LOOKED_FOR = 1000
_SECOND = 1000  # milliseconds
_USUAL_DELAYS = parse_delay_levels(DEFAULT_DELAY_LEVELS)
# So many messages with another delay are no damage: the configuration was another for a while.
_MANY = 10


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

    def __init__(self) -> None:
        """Begin without messages."""
        # By the delay that the level has by default.
        self._runs: dict[int, list[_Run]] = {}

    def see(
        self, units: QueueUnits, codes: NDArray[np.int64], found: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return which messages that have units can be due at their times; note their delays."""
        usual = units.tags_code - units.store_timestamp
        delays = codes - units.store_timestamp
        can_be = found & np.isin(usual, _USUAL_DELAYS) & (codes >= units.store_timestamp)
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
        for usual, runs in self._runs.items():
            counts: Counter[int] = Counter()
            for run in runs:
                counts[run.delay] += run.length
            main = max(counts, key=lambda delay: (counts[delay], delay == usual))
            before, pending = None, list[_Run]()
            for run in runs:
                if run.delay not in (usual, main) and counts[run.delay] < _MANY:
                    pending.append(run)
                    continue
                if run.delay == before:
                    for odd in pending:
                        yield _told(odd, run.delay)
                before, pending = run.delay, []


def _told(odd: _Run, delay: int) -> tuple[str, str]:
    """Return what was expected of a run, and what it has."""
    expected = (
        f"{delay // _SECOND} s from storing the message at {odd.phy_offset}, queue offset "
        f"{odd.queue_offset}, as for those before and behind it"
    )
    more = f", and so for {odd.length - 1} behind it" if odd.length > 1 else ""
    return expected, f"{odd.delay // _SECOND} s{more}"


def first_hole(queue: ConsumeQueue, min_offset: int, *, is_ended: bool) -> int | None:
    """Return the first place without a unit among those of expired messages of a plain queue."""
    last = None
    for batch in () if queue.is_batch else queue.scan(blanks=True, holes=True):
        places, offsets = (batch[name].to_numpy() for name in ("queue_offset", "phy_offset"))
        before = np.append(places[0] - 1 if last is None else last, places[:-1])
        (holes,) = np.nonzero((places != before + 1) & (offsets < min_offset))
        newer = int(np.argmax(offsets >= min_offset)) if offsets.max() >= min_offset else None
        if len(holes) and (newer is None or holes[0] < newer):
            return int(before[holes[0]]) + 1
        if newer is not None:
            return None
        last = places[-1]
    torn = torn_units(queue) if is_ended and not queue.is_batch else iter(())
    return next((int(places[0]) for places, _ in torn), None)
