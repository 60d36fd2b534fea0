"""Units of present queues: read by place or message, and lost in the queues that replace them."""

from __future__ import annotations

import os
from collections import OrderedDict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from rmqindex.commitlog.log import MATCH_STATES
from rmqindex.consumequeue.places import LeftUnits
from rmqindex.errors import RmqIndexError
from rmqindex.ownfiles.disk import naming
from rmqindex.ownfiles.safe_open import open_to_read
from rmqindex.queue_layout import (
    BATCH_UNIT_DTYPE,
    BLANK_SIZE,
    FILE_NAME_DIGITS,
    LMQ_PREFIX,
    UNIT_DTYPE,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.consumequeue.reader import ConsumeQueue

    # Which units, by queue offsets and log offsets, a queue has.
    Holds = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]

__all__ = [
    "UnitFiles",
    "all_batches",
    "contains",
    "has_all",
    "has_unit",
    "held_by",
    "lost_units",
    "strays",
    "unit_count",
]

# Messages that are read at once.
_READ_AT_ONCE = 65_536
# Files of queues that are open at a time.
_OPEN_FILES = 64

# The columns of messages that tell to which queues they belong.
_BELONGING = ("topic", "queue_id", "properties")
# Those that tell whether a message of another queue has been this one's.
_PLACED = (*_BELONGING, "queue_offset", "size")
_DISPATCH_QUEUES = "INNER_MULTI_DISPATCH"
_RECORD, _EXPIRED, _BEYOND_END, _NOT_A_RECORD = (
    MATCH_STATES.index(state) for state in ("record", "expired", "beyond_end", "not_a_record")
)


def unit_count(queue: ConsumeQueue) -> int:
    """Return how many units a queue has, without blank ones."""
    return sum(len(batch) for batch in queue.scan(holes=True))


def has_unit(queue: ConsumeQueue, queue_offset: int, phy_offset: int) -> bool:
    """Return whether a queue has a message's unit; a plain queue has it at its queue offset."""
    if queue.is_batch:
        wanted = np.array([phy_offset], np.int64)
        return any(np.isin(wanted, batch["phy_offset"]).all() for batch in queue.scan(holes=True))
    return bool(_at(queue, np.array([queue_offset], np.int64))[0] == phy_offset)


def lost_units(
    old: ConsumeQueue,
    holds: Holds,
    log: CommitLog,
    present: Container[tuple[str, int]],
    *,
    stop: int | None = None,
    is_damaged: bool,
) -> LeftUnits | None:
    """Compare a queue with the one that replaces it.

    Units of messages that have expired are no loss, nor are those that never led to a message of
    the queue. Where topic or queue of a message were damaged, it has the unit's size and place,
    and is of a queue that the store never had.
    """
    count = beyond = 0
    first: tuple[int, int] | None = None
    for places, offsets, sizes in _missing(old, holds, log.min_offset, stop):
        messages = log.read_at(offsets, _PLACED, mode="DROPMALFORMED")
        states = messages["state"].indices.to_numpy()
        lost = (states != _EXPIRED) & ((states != _NOT_A_RECORD) | is_damaged)
        were_here = _are_of(old, messages) | _may_have_been(old, messages, places, sizes, present)
        lost[states == _RECORD] = were_here[states == _RECORD]
        if lost.any() and first is None:
            row = int(np.argmax(lost))
            first = int(places[row]), int(offsets[row])
        count += int(np.count_nonzero(lost))
        beyond += int(np.count_nonzero(states == _BEYOND_END))
    return None if first is None else LeftUnits(old.topic, old.queue_id, count, *first, beyond)


def held_by(new: ConsumeQueue | None, old: ConsumeQueue) -> Holds:
    """Return what tells which units of an old queue a new one has."""
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
            everything = _sorted_offsets(new)
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
        named = dict(messages["properties"][row].as_py() or ()).get(_DISPATCH_QUEUES, "")
        found[row] = queue.topic in named.split(",")
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
    """Return the log offsets of a plain queue's units at places; -1 where it has no place."""
    found = np.full(len(places), -1, np.int64)
    for file in queue.files:
        first, count = (size // UNIT_DTYPE.itemsize for size in (file.start, file.size))
        inside = (places >= first) & (places < first + count)
        if inside.any():
            # A file that was cut, or is too long, ends in a part of a unit.
            units = np.memmap(file.path, UNIT_DTYPE, "r", shape=count)[places[inside] - first]
            found[inside] = np.where(units["size"] == BLANK_SIZE, -1, units["phy_offset"])
    return found


def _sorted_offsets(queue: ConsumeQueue) -> NDArray[np.int64]:
    parts = [batch["phy_offset"].to_numpy() for batch in queue.scan(holes=True)]
    return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


def contains(everything: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which offsets are among sorted ones."""
    if not len(everything):
        return np.zeros(len(offsets), np.bool_)
    places = np.searchsorted(everything, offsets).clip(max=len(everything) - 1)
    found: NDArray[np.bool_] = everything[places] == offsets
    return found


class UnitFiles:
    """Reads units by their places, also those of files that were made since they were listed."""

    def __init__(self) -> None:
        """Open nothing."""
        self._open: OrderedDict[str, int] = OrderedDict()

    def close(self) -> None:
        """Close all files."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def units(self, folder: Path, file_size: int, places: NDArray[np.int64]) -> NDArray[Any]:
        """Return the plain units at places; zeros where there is none."""
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
            return os.pread(self._open[path], length, at).ljust(length, b"\0")


def all_batches(queue: ConsumeQueue) -> NDArray[Any]:
    """Return the units of a batch queue by the offsets of their messages."""
    parts = [np.zeros(0, BATCH_UNIT_DTYPE)]
    for file in queue.files:
        try:
            with open(file.path, "rb", opener=open_to_read) as source:
                data = source.read()
        except FileNotFoundError:  # it has expired
            continue
        units = np.frombuffer(data, BATCH_UNIT_DTYPE, len(data) // BATCH_UNIT_DTYPE.itemsize)
        parts.append(units[(units["size"] > 0) & (units["batch_size"] > 0)])
    everything = np.concatenate(parts)
    return everything[np.argsort(everything["phy_offset"], kind="stable")]


def has_all(queue: ConsumeQueue, offsets: list[int]) -> bool:
    """Return whether a queue has units of all these messages, wherever."""
    left = np.array(offsets, np.int64)
    for batch in queue.scan(holes=True):
        left = left[~np.isin(left, batch["phy_offset"].to_numpy())]
    return not len(left)
