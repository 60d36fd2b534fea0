"""Counts for a plot: slots by their number of entries, and entries by store time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from rmqindex.store.snapshot import SnapshotFile

__all__ = ["IndexCounts", "count_index"]

_MOST_BINS = 120


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """Counts over the files of an index.

    Attributes:
        names: The files, oldest first.
        chain_lengths: For each file, how many slots have 0, 1, 2, .. entries; int64.
        hash_slot_num: How many slots each file has, those without entries 0.
        entry_counts: How many entries each file has.
        edges: Where each span of time begins, and where the last one ends, epoch milliseconds,
            float64; empty without entries.
        over_time: For each file, how many entries were stored in each span; int64.
    """

    names: tuple[str, ...]
    chain_lengths: tuple[NDArray[np.int64], ...]
    hash_slot_num: tuple[int, ...]
    entry_counts: tuple[int, ...]
    edges: NDArray[np.float64]
    over_time: tuple[NDArray[np.int64], ...]

    @property
    def load_factor(self) -> float:
        """Entries per slot, over the files that have entries; 0 without any."""
        slots = sum(self.hash_slot_num)
        return sum(self.entry_counts) / slots if slots else 0.0


def count_index(
    files: Sequence[SnapshotFile],
    progress: Callable[[int, int], None] | None = None,
) -> IndexCounts:
    """Read every entry once for its slot, and once for its time.

    Args:
        files: The files, oldest first.
        progress: Called with the number of files done and the total.

    Raises:
        RmqIndexError: A file cannot be used, or was changed since it was listed.
    """
    lengths, slot_nums, counts, spans = [], [], [], []
    for number, planned in enumerate(files):
        slot_num = planned.layout.hash_slot_num if planned.layout and planned.entry_count else 0
        per_slot = np.zeros(slot_num, np.int64)
        low, high = None, None
        for batch in _batches(planned, ["slot", "store_timestamp"]):
            if not len(batch):
                continue
            per_slot += np.bincount(batch["slot"].to_numpy(), minlength=slot_num)
            times = batch["store_timestamp"].to_numpy()
            first, last = int(times.min()), int(times.max())
            low = first if low is None else min(low, first)
            high = last if high is None else max(high, last)
        lengths.append(np.bincount(per_slot, minlength=1).astype(np.int64))
        slot_nums.append(slot_num)
        counts.append(int(per_slot.sum()))
        if low is not None and high is not None:
            spans.append((low, high))
        if progress is not None:
            progress(number + 1, 2 * len(files))
    edges = _edges(spans)
    over_time = []
    for number, planned in enumerate(files):
        histogram = np.zeros(max(len(edges) - 1, 0), np.int64)
        if len(edges):
            for batch in _batches(planned, ["store_timestamp"]):
                histogram += np.histogram(batch["store_timestamp"].to_numpy(), edges)[0]
        over_time.append(histogram)
        if progress is not None:
            progress(len(files) + number + 1, 2 * len(files))
    return IndexCounts(
        tuple(planned.entry.name for planned in files),
        tuple(lengths),
        tuple(slot_nums),
        tuple(counts),
        edges,
        tuple(over_time),
    )


def _batches(planned: SnapshotFile, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    if not planned.is_empty:
        with planned.open() as file:
            yield from file.scan(stop=planned.stop, columns=columns)


def _edges(spans: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """Divide the time of all files into equal spans."""
    if not spans:
        return np.empty(0, np.float64)
    low, high = min(span[0] for span in spans), max(span[1] for span in spans)
    bins = int(np.clip((high - low) // 1000, 1, _MOST_BINS))
    return np.linspace(low, max(high, low + 1), bins + 1)
