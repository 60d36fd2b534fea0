"""Entries, messages and units as streams in the order of their offsets, to be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from rmqindex.indexfile.committed import open_index_source
from rmqindex.indexfile.decoding import MILLISECONDS
from rmqindex.layout.index_file import FIRST_POSITION, INT32_MAX, INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.consumequeue.reader import ConsumeQueue
    from rmqindex.indexfile.entries import Mode
    from rmqindex.store.snapshot import IndexSnapshot, SnapshotFile

FilesEqual = Literal["equal", "equal but for names", "different"]
#: The column "at" orders a block; rows are paired by it, by "hash" and by their order.
Block: TypeAlias = "dict[str, NDArray[np.int64]]"
#: The first and the last offset; None of nothing.
Range: TypeAlias = "tuple[int | None, int | None]"
# Entries that are sorted at a time.
_BLOCK_ENTRIES = 1 << 20
# Of as many entries one offset is remembered, to cut blocks at.
_SAMPLED = 1 << 10
_CHUNK = 1 << 24  # bytes of files that are compared at a time


@dataclass(frozen=True, slots=True)
class Differ:
    """How two rows of one place are compared, and one of them is told."""

    name: str
    mask: Callable[[Block, NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]
    text: Callable[[Block, int], str]


def common_range(ranges: Iterable[Range]) -> tuple[int, int]:
    """Return the first and the last offset that all have; the last is before the first of none."""
    low, high = INT64_MIN, INT64_MAX
    for first, last in ranges:
        if first is None or last is None:
            return 0, -1
        low, high = max(low, first), min(high, last)
    return low, high


class _Span(NamedTuple):
    """Positions of entries that follow one another, and the range of their offsets."""

    start: int
    stop: int
    low: int
    high: int


class Entries:
    """The entries of files in the order of their offsets, whatever order the files have."""

    def __init__(self, files: Sequence[SnapshotFile]) -> None:
        """Read all offsets once, to find ranges that fit into memory."""
        self._files = [planned for planned in files if not planned.is_empty]
        self._spans: list[list[_Span]] = []
        samples = []
        for planned in self._files:
            spans = []
            with planned.open() as file:
                for batch in file.scan(stop=planned.stop, columns=["phy_offset", "position"]):
                    offsets, positions = (column.to_numpy() for column in batch.columns)
                    bounds = int(offsets.min()), int(offsets.max())
                    spans.append(_Span(int(positions[0]), int(positions[-1]) + 1, *bounds))
                    samples.append(offsets[::_SAMPLED].copy())
            self._spans.append(spans)
        there = np.sort(np.concatenate(samples)) if samples else np.empty(0, np.int64)
        step = _BLOCK_ENTRIES // _SAMPLED
        self._cuts = np.unique(there[step::step]).tolist()

    @property
    def range(self) -> Range:
        """The least and the greatest offset."""
        spans = [span for of_file in self._spans for span in of_file]
        if not spans:
            return None, None
        return min(span.low for span in spans), max(span.high for span in spans)

    def blocks(self, low: int, high: int) -> Iterator[Block]:
        """Yield the entries from one offset up to another."""
        cuts = [low, *(cut for cut in self._cuts if low < cut <= high)]
        stops = [*(cut - 1 for cut in cuts[1:]), high]
        for first, last in zip(cuts, stops, strict=True):
            parts = [
                part
                for planned, spans in zip(self._files, self._spans, strict=True)
                for part in _entries_between(planned, spans, first, last)
            ]
            if not parts:
                continue
            block = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            at = block["at"]
            if (at[1:] < at[:-1]).any():
                order = np.argsort(at, kind="stable")
                block = {name: values[order] for name, values in block.items()}
            yield block


def _entries_between(
    planned: SnapshotFile, spans: Sequence[_Span], first: int, last: int
) -> Iterator[Block]:
    """Read the entries of some offsets, from the first to the last of the spans that have any."""
    wanted = [span for span in spans if span.low <= last and span.high >= first]
    if not wanted:
        return
    columns = ["phy_offset", "key_hash", "store_timestamp", "time_diff", "position"]
    with planned.open() as file:
        for batch in file.scan(wanted[0].start, wanted[-1].stop, columns):
            at, hashes, times, diffs, positions = (column.to_numpy() for column in batch.columns)
            kept = (at >= first) & (at <= last)
            if not kept.any():
                continue
            at, hashes, times, diffs, positions = (
                each[kept] for each in (at, hashes, times, diffs, positions)
            )
            # The store times that a writer may have had: any before the first one is 0 seconds.
            is_first = positions == FIRST_POSITION
            low = np.where((diffs == 0) & ~is_first, INT64_MIN, times)
            high = np.where(is_first, times, times + MILLISECONDS - 1)
            high = np.where((diffs == INT32_MAX) & ~is_first, INT64_MAX, high)
            yield {
                "at": at,
                "hash": hashes.astype(np.int64),
                "time": times,
                "low": low,
                "high": high,
            }


def _times_differ(
    block: Block, one: NDArray[np.int64], other: NDArray[np.int64]
) -> NDArray[np.bool_]:
    low, high = block["low"], block["high"]
    apart: NDArray[np.bool_] = (low[one] > high[other]) | (low[other] > high[one])
    return apart


ENTRY = Differ("time", _times_differ, lambda block, row: str(block["time"][row]))


def compare_files(one: IndexSnapshot | None, other: IndexSnapshot | None) -> FilesEqual:
    """Compare the bytes of files, in their order."""
    a, b = list(one or ()), list(other or ())
    if len(a) != len(b):
        return "different"
    for left, right in zip(a, b, strict=True):
        with open_index_source(left.entry.path) as x, open_index_source(right.entry.path) as y:
            if x.size != y.size:
                return "different"
            for start in range(0, x.size, _CHUNK):
                length = min(_CHUNK, x.size - start)
                if memoryview(x.read(start, length)) != memoryview(y.read(start, length)):
                    return "different"
    same_names = [each.entry.name for each in a] == [each.entry.name for each in b]
    return "equal" if same_names else "equal but for names"


def messages_of(log: CommitLog | None, low: int, high: int, mode: Mode) -> Iterator[Block]:
    """Yield the messages from one offset up to another."""
    if log is None or low > high:
        return
    start, stop = None if low < 0 else low, None if high == INT64_MAX else high + 1
    for records in log.records(start, stop, mode=mode):
        bounds = zip(records.starts.tolist(), records.size.tolist(), strict=True)
        # The hash of 64 bits, with a seed of this process, of each record.
        digests = [hash(bytes(records.data[at : at + size])) for at, size in bounds]
        yield {
            "at": records.phy_offset,
            "hash": np.zeros(len(digests), np.int64),
            "size": records.size,
            "digest": np.array(digests, np.int64),
        }


MESSAGE = Differ(
    "bytes",
    lambda block, one, other: block["digest"][one] != block["digest"][other],
    lambda block, row: str(block["size"][row]),
)


def units_of(queue: ConsumeQueue | None, low: int, high: int) -> Iterator[Block]:
    """Yield the units from one queue offset up to another."""
    for batch in queue.scan() if queue is not None else ():
        columns: dict[str, Any] = {name: batch.column(name).to_numpy() for name in _UNIT_COLUMNS}
        at = columns.pop("queue_offset")
        kept = (at >= low) & (at <= high)
        if kept.any():
            values = {name: each[kept].astype(np.int64) for name, each in columns.items()}
            yield {"at": at[kept], "hash": np.zeros(int(kept.sum()), np.int64), **values}


_UNIT_COLUMNS = ("queue_offset", "phy_offset", "size", "tags_code")


def _units_differ(
    block: Block, one: NDArray[np.int64], other: NDArray[np.int64]
) -> NDArray[np.bool_]:
    wrong = np.zeros(len(one), bool)
    for name in _UNIT_COLUMNS[1:]:
        wrong |= block[name][one] != block[name][other]
    return wrong


UNIT = Differ(
    "unit",
    _units_differ,
    lambda block, row: " ".join(str(block[name][row]) for name in _UNIT_COLUMNS[1:]),
)
