"""What the queues that a rebuild replaces have, and the new ones lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqindex.commitlog.log import MATCH_STATES
from rmqindex.consumequeue.places import LeftUnits
from rmqindex.queue_layout import BLANK_SIZE, UNIT_DTYPE

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.consumequeue.reader import ConsumeQueue

__all__ = ["has_unit", "lost_units", "unit_count"]

_DISPATCH_QUEUES = "INNER_MULTI_DISPATCH"
_RECORD, _EXPIRED, _BEYOND_END, _NOT_A_RECORD = (
    MATCH_STATES.index(state) for state in ("record", "expired", "beyond_end", "not_a_record")
)


def unit_count(queue: ConsumeQueue) -> int:
    """Return how many units a queue has, without blank ones."""
    return sum(len(batch) for batch in queue.scan(holes=True))


def has_unit(queue: ConsumeQueue, queue_offset: int, phy_offset: int) -> bool:
    """Return whether a queue has the unit of a message, at its queue offset if it is a plain one.

    Args:
        queue: The queue.
        queue_offset: The message's queue offset.
        phy_offset: Where the message starts in the log, bytes.
    """
    if queue.is_batch:
        wanted = np.array([phy_offset], np.int64)
        return any(np.isin(wanted, batch["phy_offset"]).all() for batch in queue.scan(holes=True))
    return bool(_at(queue, np.array([queue_offset], np.int64))[0] == phy_offset)


def lost_units(
    old: ConsumeQueue, new: ConsumeQueue | None, log: CommitLog, *, is_damaged: bool
) -> LeftUnits | None:
    """Compare a queue with the one that replaces it.

    Units of messages that have expired are no loss, nor are those that never led to a message of
    the queue.

    Args:
        old: The present queue.
        new: The new one; None if there is none.
        log: The CommitLog.
        is_damaged: Whether damage in the log was passed over, so that a unit may be all that is
            left of a message.

    Returns:
        What is lost; None if nothing is.
    """
    count = beyond = 0
    first: tuple[int, int] | None = None
    for places, offsets in _missing(old, new, log.min_offset):
        messages = log.read_at(offsets, ["topic", "queue_id", "properties"], mode="DROPMALFORMED")
        states = messages["state"].indices.to_numpy()
        lost = (states != _EXPIRED) & ((states != _NOT_A_RECORD) | is_damaged)
        records = np.flatnonzero(states == _RECORD)
        lost[records] = [_is_of(old, messages, row) for row in records.tolist()]
        if lost.any() and first is None:
            row = int(np.argmax(lost))
            first = int(places[row]), int(offsets[row])
        count += int(np.count_nonzero(lost))
        beyond += int(np.count_nonzero(states == _BEYOND_END))
    return None if first is None else LeftUnits(old.topic, old.queue_id, count, *first, beyond)


def _is_of(queue: ConsumeQueue, messages: pa.RecordBatch, row: int) -> bool:
    """Return whether a message belongs into a queue, by its topic or by name."""
    topic, queue_id = messages["topic"][row].as_py(), messages["queue_id"][row].as_py()
    if (topic, queue_id) == (queue.topic, queue.queue_id):
        return True
    named = dict(messages["properties"][row].as_py()).get(_DISPATCH_QUEUES, "")
    return queue.topic in named.split(",")


def _missing(
    old: ConsumeQueue, new: ConsumeQueue | None, min_offset: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the units whose messages have none in the new queue: queue offsets, log offsets."""
    everything: NDArray[np.int64] | None = None
    for batch in old.scan(holes=True):
        places, offsets = (batch[name].to_numpy() for name in ("queue_offset", "phy_offset"))
        missing = offsets >= min_offset
        if new is not None and missing.any():
            if not new.is_batch and not old.is_batch:
                missing &= _at(new, places) != offsets
            if missing.any():
                if everything is None:
                    everything = _sorted_offsets(new)
                missing &= ~_contains(everything, offsets)
        if missing.any():
            yield places[missing], offsets[missing]


def _at(queue: ConsumeQueue, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the log offsets of a plain queue's units at places; -1 where it has no place."""
    found = np.full(len(places), -1, np.int64)
    for file in queue.files:
        first = file.start // UNIT_DTYPE.itemsize
        inside = (places >= first) & (places < first + file.size // UNIT_DTYPE.itemsize)
        if inside.any():
            units = np.memmap(file.path, UNIT_DTYPE, "r")[places[inside] - first]
            found[inside] = np.where(units["size"] == BLANK_SIZE, -1, units["phy_offset"])
    return found


def _sorted_offsets(queue: ConsumeQueue) -> NDArray[np.int64]:
    """Return the log offsets of all units, 8 bytes each."""
    parts = [batch["phy_offset"].to_numpy() for batch in queue.scan(holes=True)]
    return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


def _contains(everything: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    if not len(everything):
        return np.zeros(len(offsets), np.bool_)
    places = np.searchsorted(everything, offsets).clip(max=len(everything) - 1)
    found: NDArray[np.bool_] = everything[places] == offsets
    return found
