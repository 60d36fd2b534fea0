"""Writes numbers, times and offsets into the sentences of an explanation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rmqindex.times import format_millis

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import tzinfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The most offsets or ranges that a sentence lists.
_SHOWN = 8
# Of 2023-11-14T22:13:20+08:00.
_OFFSET_CHARACTERS = 6


@dataclass(frozen=True, slots=True)
class Times:
    """Writes times, and knows the present one.

    Attributes:
        zone: The zone in which they are written.
        now: The present time, epoch milliseconds.
    """

    zone: tzinfo
    now: int

    def text(self, millis: int) -> str:
        """Return epoch milliseconds as local time, with the distance from UTC."""
        try:
            local = (_EPOCH + timedelta(milliseconds=millis)).astimezone(self.zone)
        except OverflowError:
            return f"{millis} ms after 1970"
        if not local.utcoffset():
            return f"{format_millis(millis, UTC)} UTC"
        return f"{format_millis(millis, self.zone)} {local.isoformat()[-_OFFSET_CHARACTERS:]}"


def listed(values: Iterable[object]) -> str:
    """Return the first of some values, and how many more there are."""
    texts = [str(value) for value in values]
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more


def ranges(spans: Sequence[tuple[int, int]]) -> str:
    """Return ranges of offsets."""
    return listed(f"{first} to {last}" for first, last in spans)
