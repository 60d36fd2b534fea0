"""How the units of one queue deviate from what its messages say, gathered over the log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.consumequeue.reader import torn_units

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqindex.consumequeue.reader import ConsumeQueue

# Units of a queue without a place of their own that are looked for in the rest of it.
_LOOKED_FOR = 1000


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
