"""Whether two indexes, logs or stores hold the same, whatever their files are called and cut into.

Each part is two streams in the order of offsets, which are merged block by block:

- entries, by offset and key hash. An IndexFile has a time as whole seconds after its first one, so
  that files which begin elsewhere read it back up to a second apart, and one before that first time
  as 0 seconds. Two entries agree if there is a store time that both could have been written with.
- messages, by offset, byte for byte.
- units of ConsumeQueues, by topic, queue and queue offset.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from rmqindex.commitlog.log import CommitLog
from rmqindex.consumequeue.reader import ConsumeQueue
from rmqindex.errors import RmqIndexError
from rmqindex.layout.index_file import INT64_MAX, INT64_MIN
from rmqindex.layout.store import BATCH_FOLDER, INDEX_FOLDER, QUEUE_FOLDER
from rmqindex.query.compared_parts import (
    ENTRY,
    MESSAGE,
    UNIT,
    Entries,
    common_range,
    compare_files,
    messages_of,
    units_of,
)
from rmqindex.storage.location import Location
from rmqindex.store.snapshot import IndexSnapshot
from rmqindex.store.store import Store
from rmqindex.transaction.directories import exists

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.query.compared_parts import Block, Differ, FilesEqual, Range
    from rmqindex.storage.location import PathLike

Part = Literal["entries", "messages", "units"]
#: What can be compared.
PARTS: tuple[Part, ...] = ("entries", "messages", "units")
_SCHEMA = pa.schema(
    {
        "part": pa.string(),
        "difference": pa.string(),
        "offset": pa.int64(),
        "topic": pa.string(),
        "queue_id": pa.int32(),
        "key_hash": pa.int32(),
        "a": pa.string(),
        "b": pa.string(),
    }
)


@dataclass(frozen=True, slots=True)
class Difference:
    """What one side has and the other has not, or has otherwise.

    Attributes:
        part: ``entries``, ``messages`` or ``units``.
        difference: ``only in A``, ``only in B``, or what differs: ``time``, ``bytes``, ``unit``.
        offset: Where the message starts in the CommitLog, bytes; of a unit, the queue offset.
        topic: The topic of a unit's queue; None of others.
        queue_id: Its number; None of others.
        key_hash: The hash of an entry; None of others.
        a: What A has there; None for nothing. Of an entry, the store time as it is read, epoch
            milliseconds; of a message its size in bytes; of a unit the message's offset, its size
            and its tags code.
        b: Likewise, of B.
    """

    part: Part
    difference: str
    offset: int
    topic: str | None
    queue_id: int | None
    key_hash: int | None
    a: str | None
    b: str | None


@dataclass(slots=True)
class PartComparison:
    """How one part differs.

    Attributes:
        part: ``entries``, ``messages`` or ``units``.
        a_count: How many A has of them.
        b_count: How many B has.
        only_a: How many A alone has.
        only_b: How many B alone has.
        differing: How many both have, but not the same.
        a_range: The first and the last offset of A, bytes; None of nothing, and of units. Of the
            CommitLog, the last is the one behind it.
        b_range: Likewise, of B.
        left_out: The queues, each a topic and a number, of which no offset is in both, where only
            those in both were asked for.
    """

    part: Part
    a_count: int = 0
    b_count: int = 0
    only_a: int = 0
    only_b: int = 0
    differing: int = 0
    a_range: Range = (None, None)
    b_range: Range = (None, None)
    left_out: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether there is no difference."""
        return not (self.only_a or self.only_b or self.differing)


@dataclass(frozen=True, slots=True)
class StoreComparison:
    """How two stores differ.

    Attributes:
        parts: What was compared.
        differences: The first differences of each part, by offset.
        files: Whether the IndexFiles are equal byte by byte, in their order; None where entries
            were not compared, or not all of them.
    """

    parts: tuple[PartComparison, ...]
    differences: tuple[Difference, ...]
    files: FilesEqual | None

    @property
    def same(self) -> bool:
        """Whether there is no difference, but perhaps of files that hold the same."""
        return all(part.same for part in self.parts)

    def table(self) -> pa.Table:
        """Return the differences, with the fields of :class:`Difference` as columns."""
        rows = [asdict(each) for each in self.differences]
        return pa.Table.from_pylist(rows, schema=_SCHEMA)


@dataclass(slots=True)
class _Side:
    """What one path has."""

    may_have: frozenset[Part]
    files: IndexSnapshot | None = None
    log: CommitLog | None = None
    queues: list[ConsumeQueue] = field(default_factory=list)

    @property
    def has(self) -> set[Part]:
        there = {"entries": self.files is not None, "messages": self.log is not None}
        there["units"] = bool(self.queues)
        return {part for part in PARTS if there[part]}


def compare_stores(
    a: PathLike,
    b: PathLike,
    *,
    parts: Sequence[str] = (),
    common: bool = False,
    limit: int = 20,
    layouts: tuple[Layout | None, Layout | None] = (None, None),
    mode: Mode = "FAILFAST",
) -> StoreComparison:
    """Compare the entries, the messages and the units of two paths.

    A store root has all three parts, and one that it lacks has nothing in it. Of an index alone
    there are entries to compare, of a log messages, of queues units; what only one path can have is
    not compared.

    Args:
        a: A store root, an index directory, an IndexFile, a log or queues.
        b: Another one.
        parts: Some of ``PARTS``; none for all that both can have.
        common: Compare only the offsets that both have: from the later of both first ones to the
            earlier of both last ones, of each part and queue. Of entries, such a first or last one
            that the other does not share is left out, since a file may begin or end between the
            entries of a message; so are queues that one alone has.
        limit: The most differences of each part that are returned; all are counted.
        layouts: The geometries of the IndexFiles of both; None to infer them.
        mode: As :class:`rmqindex.IndexFile` takes it.

    Raises:
        ValueError: Another part, or a limit below 1.
        RmqIndexError: A path is absent, both have nothing in common, as a part with ``common``, a
            file cannot be used, or was changed meanwhile; damage, only in ``FAILFAST``.
    """
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"parts: expected some of {', '.join(PARTS)}, got {part!r}")
    if limit < 1:
        raise ValueError(f"limit: expected at least 1, got {limit}")
    with ExitStack() as stack:
        wanted = frozenset(part for part in PARTS if part in parts or not parts)
        one, other = (
            _side(path, layout, mode, wanted, stack)
            for path, layout in zip((a, b), layouts, strict=True)
        )
        both = one.may_have & other.may_have & (one.has | other.has)
        compared = [part for part in PARTS if part in both and (part in parts or not parts)]
        if not compared:
            raise RmqIndexError(
                f"{a} and {b}: expected parts that both can have, of {', '.join(parts or PARTS)}, "
                "found none"
            )
        found: list[Difference] = []
        results = []
        files: FilesEqual | None = None
        for part in compared:
            counter = _Counter(PartComparison(part), limit)
            if part == "entries":
                _compare_entries(one, other, counter, common=common)
                files = None if common else compare_files(one.files, other.files)
            elif part == "messages":
                _compare_messages(one, other, counter, common=common, mode=mode)
            else:
                _compare_queues(one, other, counter, common=common)
            if common:
                _ensure_compared(a, b, counter.result)
            results.append(counter.result)
            found += counter.found
        return StoreComparison(tuple(results), tuple(found), files)


def _side(
    path: PathLike, layout: Layout | None, mode: Mode, wanted: frozenset[Part], stack: ExitStack
) -> _Side:
    """Open what a path has of the parts that are wanted."""
    location = Location.of(path)
    try:
        store = Store.open(location, needs_index=False)
        files = None
        if store.has_index and "entries" in wanted:
            files = IndexSnapshot.of(store, layout, mode)
    except RmqIndexError as error:
        return _without_index(location, error, stack)
    if store.path == store.given:
        return _Side(frozenset({"entries"}), files)
    log, queues = None, []
    if "messages" in wanted and (place := store.log()) is not None:
        log = stack.enter_context(CommitLog(place))
    folders = (store.root.child(name) for name in (QUEUE_FOLDER, BATCH_FOLDER))
    if "units" in wanted and any(exists(folder) for folder in folders):
        queues = ConsumeQueue.find(store.root)
    return _Side(frozenset(PARTS), files, log, queues)


def _without_index(path: Location, error: RmqIndexError, stack: ExitStack) -> _Side:
    """Open a log, or queues, whose folders have numbers as IndexFiles do; else raise the error."""
    is_of_queues = not {path.name, path.parent.name}.isdisjoint((QUEUE_FOLDER, BATCH_FOLDER))
    if not is_of_queues and (path.name == INDEX_FOLDER or exists(path.child(INDEX_FOLDER))):
        raise error
    try:
        log = stack.enter_context(CommitLog(path))
        return _Side(frozenset({"messages"}), log=log)
    except RmqIndexError:
        pass
    try:
        return _Side(frozenset({"units"}), queues=ConsumeQueue.find(path))
    except RmqIndexError:
        raise error from None


# -- the merge


class _Counter:
    """Counts the differences of a part, and keeps the first."""

    def __init__(self, result: PartComparison, limit: int) -> None:
        self.result, self._limit = result, limit
        self.found: list[Difference] = []
        self.queue: tuple[str | None, int | None] = (None, None)

    def compare(self, differ: Differ, one: Iterator[Block], other: Iterator[Block]) -> None:
        """Compare two streams of blocks; no value of ``at`` is in two blocks of one stream."""
        sides = (_Stream(one), _Stream(other))
        while True:
            there = [side.fill() for side in sides]
            if not any(there):
                return
            stop = min(side.last for side in sides)
            self._add(differ, *(side.take(stop) for side in sides))

    def _add(self, differ: Differ, one: Block, other: Block) -> None:
        size = len(one["at"])
        self.result.a_count += size
        self.result.b_count += len(other["at"])
        both = {name: np.concatenate([one[name], other[name]]) for name in one or other}
        if _are_alike(one, other):
            rows = np.arange(size)
            if not differ.mask(both, rows, rows + size).any():
                return
        side = np.repeat([0, 1], [size, len(other["at"])])
        rank = _ranks(both, side)
        order = np.lexsort((side, rank, both["hash"], both["at"]))
        keys = (both["at"][order], both["hash"][order], rank[order])
        pair = np.logical_and.reduce([key[1:] == key[:-1] for key in keys])
        firsts = np.flatnonzero(pair)
        is_single = np.ones(len(order), bool)
        is_single[firsts] = is_single[firsts + 1] = False
        wrong = firsts[differ.mask(both, order[firsts], order[firsts + 1])]
        self.result.differing += len(wrong)
        single = np.flatnonzero(is_single)
        only_b = int(side[order[single]].sum())
        self.result.only_b += only_b
        self.result.only_a += len(single) - only_b
        left = self._limit - len(self.found)
        for place in np.sort(np.concatenate([wrong, single]))[: max(left, 0)].tolist():
            row = int(order[place])
            a: str | None
            b: str | None
            if is_single[place]:
                name = "only in B" if side[row] else "only in A"
                text = differ.text(both, row)
                a, b = (None, text) if side[row] else (text, None)
            else:
                name = differ.name
                a, b = differ.text(both, row), differ.text(both, int(order[place + 1]))
            hash_ = int(both["hash"][row]) if self.result.part == "entries" else None
            at = int(both["at"][row])
            self.found.append(Difference(self.result.part, name, at, *self.queue, hash_, a, b))


class _Stream:
    """Blocks of one side, of which parts are taken."""

    def __init__(self, blocks: Iterator[Block]) -> None:
        self._blocks = blocks
        self._block: Block | None = None
        self._is_ended = False

    def fill(self) -> bool:
        """Read on where nothing is left; return whether there is anything."""
        while not self._is_ended and (self._block is None or not len(self._block["at"])):
            block = next(self._blocks, None)
            self._is_ended = block is None
            self._block = block or self._block
        return self._block is not None and len(self._block["at"]) > 0

    @property
    def last(self) -> int:
        """The last place of what is there; beyond all where the side is at its end."""
        if self._block is None or not len(self._block["at"]):
            return INT64_MAX
        return int(self._block["at"][-1])

    def take(self, stop: int) -> Block:
        """Return what is there up to a place."""
        block = self._block or {}
        count = int(np.searchsorted(block["at"], stop, side="right")) if block else 0
        self._block = {name: values[count:] for name, values in block.items()} or None
        return {name: values[:count] for name, values in block.items()} or _Nothing()


class _Nothing(dict[str, "NDArray[np.int64]"]):
    """A block of a side that has none: each column is empty."""

    def __missing__(self, name: str) -> NDArray[np.int64]:
        return np.empty(0, np.int64)


def _are_alike(one: Block, other: Block) -> bool:
    """Return whether two blocks have the same rows in one order, but perhaps for their values."""
    return all(np.array_equal(one[name], other[name]) for name in ("at", "hash"))


def _ranks(both: Block, side: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of each row among those of its side, place and hash, by time."""
    size = len(side)
    levels = (both["hash"], both["at"], side)
    order = np.lexsort((both.get("time", np.zeros(size, np.int64)), *levels))
    is_new = np.ones(size, bool)
    is_new[1:] = np.logical_or.reduce([each[order][1:] != each[order][:-1] for each in levels])
    starts = np.flatnonzero(is_new)
    ranks = np.empty(size, np.int64)
    ranks[order] = np.arange(size) - np.repeat(starts, np.diff(np.append(starts, size)))
    return ranks


# -- the parts


def _ensure_compared(a: PathLike, b: PathLike, result: PartComparison) -> None:
    """Raise where there is something, and nothing of it is in both: that is not the same."""
    ranges = result.a_range, result.b_range
    # The last of the CommitLog is behind it, and an empty one has both alike.
    is_log = result.part == "messages"
    is_there = any(first is not None and not (is_log and first == last) for first, last in ranges)
    if result.a_count or result.b_count or not (is_there or result.left_out):
        return
    if result.left_out:
        got = f"queues without any: {', '.join(result.left_out)}"
    else:
        got = " and ".join(
            "none" if first is None else f"{first} to {last}" for first, last in ranges
        )
        if not is_log:
            got += ", of which the first and the last entries do not count"
    raise RmqIndexError(
        f"{a} and {b}: expected {result.part} at offsets that both have, got {got}; compare all "
        "offsets, or other parts"
    )


def _compare_entries(one: _Side, other: _Side, counter: _Counter, *, common: bool) -> None:
    sides = [Entries(side.files or ()) for side in (one, other)]
    ranges = [side.range for side in sides]
    counter.result.a_range, counter.result.b_range = ranges
    low, high = common_range(ranges) if common else (INT64_MIN, INT64_MAX)
    if common and ranges[0] != ranges[1]:
        # Of the message at which one begins or ends, others of its entries may be gone, or to come.
        firsts, lasts = zip(*ranges, strict=True)
        low, high = low + (firsts[0] != firsts[1]), high - (lasts[0] != lasts[1])
    counter.compare(ENTRY, *(side.blocks(low, high) for side in sides))


def _compare_messages(
    one: _Side, other: _Side, counter: _Counter, *, common: bool, mode: Mode
) -> None:
    logs = [one.log, other.log]
    ranges: list[Range] = [
        (log.min_offset, log.max_offset) if log is not None and log.files else (None, None)
        for log in logs
    ]
    counter.result.a_range, counter.result.b_range = ranges
    low, high = INT64_MIN, INT64_MAX
    if common:
        low, behind = common_range(ranges)
        high = behind - 1
    counter.compare(MESSAGE, *(messages_of(log, low, high, mode) for log in logs))


def _compare_queues(one: _Side, other: _Side, counter: _Counter, *, common: bool) -> None:
    sides = [
        {(queue.topic, queue.queue_id, queue.is_batch): queue for queue in side.queues}
        for side in (one, other)
    ]
    for name in sorted(sides[0].keys() | sides[1].keys()):
        pair = [side.get(name) for side in sides]
        low, high = INT64_MIN, INT64_MAX
        if common:
            low, behind = common_range(
                (None, None) if queue is None else (queue.min_offset, queue.max_offset)
                for queue in pair
            )
            high = behind - 1
            if low > high and any(queue is not None and queue.max_offset for queue in pair):
                counter.result.left_out.append(f"{name[0]} {name[1]}")
        counter.queue = name[:2]
        counter.compare(UNIT, *(units_of(queue, low, high) for queue in pair))
