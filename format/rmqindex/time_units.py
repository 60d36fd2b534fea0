"""Microseconds, which Spark and Arrow count, to milliseconds, which RocketMQ counts, and back.

Every conversion goes through here: what is written out by hand overflows at an end of 64 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import numpy as np

from rmqindex.layout import INT64_MAX

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LAST_MILLISECOND", "MILLISECOND", "to_microseconds", "to_milliseconds"]

MILLISECOND = 1000  # microseconds
#: The last millisecond whose microseconds fit into 64 bits; the first is its negative.
LAST_MILLISECOND = INT64_MAX // MILLISECOND


@overload
def to_milliseconds(micros: int, *, up: bool) -> int: ...


@overload
def to_milliseconds(micros: NDArray[np.int64], *, up: bool) -> NDArray[np.int64]: ...


def to_milliseconds(micros: int | NDArray[np.int64], *, up: bool) -> int | NDArray[np.int64]:
    """Return whole milliseconds, right for every number of 64 bits.

    Args:
        micros: Microseconds since the epoch.
        up: Whether to round up, as a lower bound needs it, or down, as an upper bound and a
            moment need it.
    """
    # -(-micros // 1000) would overflow at the least number, which has no positive counterpart.
    whole = micros // MILLISECOND
    return whole + (micros % MILLISECOND > 0) if up else whole


def to_microseconds(
    millis: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Return microseconds, and where 64 bits cannot hold them.

    Args:
        millis: Milliseconds since the epoch.

    Returns:
        The microseconds, 0 where they do not fit; and the mask of those places, or None where all
        fit.
    """
    if not len(millis) or (millis.max() <= LAST_MILLISECOND and millis.min() >= -LAST_MILLISECOND):
        return millis * MILLISECOND, None
    beyond = (millis > LAST_MILLISECOND) | (millis < -LAST_MILLISECOND)
    return np.where(beyond, 0, millis) * MILLISECOND, beyond
