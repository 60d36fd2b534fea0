"""Counts of an index and their picture, by matplotlib of the extra ``rmqindex[plot]``."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqindex.errors import RmqIndexError
from rmqindex.storage.writable import WritableFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import tzinfo

    import pyarrow as pa
    from numpy.typing import NDArray

    from rmqindex.store.snapshot import SnapshotFile

#: The suffixes that the name of a picture may have.
IMAGE_TYPES = (".png", ".svg", ".pdf")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BLUE, _ORANGE, _GREY = "#2f6db5", "#d9822b", "#8a8f98"
# Chains longer than this share the last bar.
_LONGEST = 24
_DPI = 144
_NOTEBOOK_DPI = 72
# More files than this are not told apart by colour.
_MOST_COLOURS = 10
_MOST_BINS = 120


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """Counts of the files of an index, the oldest first.

    Attributes:
        names: The files.
        chain_lengths: How many slots of each file have 0, 1, 2, .. entries.
        hash_slot_num: The slots of each file, 0 of one without entries.
        entry_counts: The entries of each file.
        edges: The limits of the spans of time, epoch milliseconds; empty without entries.
        over_time: How many entries of each file were stored in each span.
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
    """Read every entry once for its slot, and once for its time."""
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


def plot_counts(
    counts: IndexCounts, path: str | Path, title: str, zone: tzinfo, zone_name: str
) -> None:
    """Write the figure of :func:`draw_counts` to a file, whose suffix says of which kind it is."""
    picture = io.BytesIO()
    kind = Path(path).suffix.removeprefix(".").lower()
    draw_counts(counts, title, zone, zone_name).savefig(picture, format=kind)
    target = Path(os.path.realpath(path))
    with WritableFile(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
        try:
            file.write(picture.getbuffer())
        except OSError:
            target.unlink()  # no picture shows that a part of it lacks
            raise


def draw_counts(counts: IndexCounts, title: str, zone: tzinfo, zone_name: str) -> Any:  # noqa: ANN401  (matplotlib has no types of its own here)
    """Draw how many entries slots have, how full files are, and when entries were stored.

    A notebook shows the figure of matplotlib also where pyplot is not imported.
    """
    figure = _figure_class()(figsize=(10, 8.5), dpi=_DPI, layout="constrained")
    # A path may hold dollar signs, which are no formulas.
    figure.suptitle(title, fontsize=12, parse_math=False)
    chains, fill, times = figure.subplots(3, 1, height_ratios=[3, 2, 3])
    _draw_chains(chains, counts)
    _draw_fill(fill, counts)
    _draw_times(times, counts, zone, zone_name)
    for axes in (chains, fill, times):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _figure_class() -> Any:  # noqa: ANN401
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise RmqIndexError(
            "plots need matplotlib: install it with pip install 'rmqindex[plot]'"
        ) from error

    class Plot(Figure):
        """A figure that notebooks show by themselves, not only once pyplot is imported."""

        def _repr_png_(self) -> bytes:
            picture = io.BytesIO()
            self.savefig(picture, format="png", dpi=_NOTEBOOK_DPI)
            return picture.getvalue()

    return Plot


def _draw_chains(axes: Any, counts: IndexCounts) -> None:  # noqa: ANN401
    """Bars: how many slots have so many entries, beside what even hashing would give."""
    width = max((len(lengths) for lengths in counts.chain_lengths), default=1)
    total = np.zeros(max(width, 2), np.int64)
    for lengths in counts.chain_lengths:
        total[: len(lengths)] += lengths
    longest = int(np.flatnonzero(total)[-1]) if total.any() else 0
    if len(total) > _LONGEST + 1:
        total = np.append(total[:_LONGEST], total[_LONGEST:].sum())
    labels = [str(length) for length in range(len(total))]
    if longest > _LONGEST:
        labels[-1] = f"{_LONGEST}+"
    places = np.arange(len(total))
    axes.bar(places, total, color=_BLUE, width=0.8, label="slots")
    expected = _even(counts, len(total))
    axes.plot(places, expected, "o-", color=_ORANGE, markersize=3, linewidth=1,
              label="with hashes spread evenly")  # fmt: skip
    axes.set_xticks(places, labels)
    axes.set_xlabel(f"entries in the slot's chain (the longest has {longest})")
    axes.set_ylabel("slots")
    axes.set_title(f"Slot occupancy: {counts.load_factor:.2f} entries a slot", fontsize=10)
    axes.legend(frameon=False)


def _even(counts: IndexCounts, size: int) -> NDArray[np.float64]:
    """Return how many slots would have 0, 1, 2, .. entries; the last takes all the longer."""
    expected = np.zeros(size)
    for slots, entries in zip(counts.hash_slot_num, counts.entry_counts, strict=True):
        if slots:
            mean = entries / slots
            # Poisson, by logarithms, so that a large mean does not overflow.
            lengths = np.arange(size)
            factorials = np.cumsum(np.log(np.maximum(lengths, 1)))
            logarithms = lengths * np.log(max(mean, 1e-300)) - mean - factorials
            part = np.exp(logarithms)
            part[-1] = max(1 - part[:-1].sum(), 0)
            expected += slots * part
    return expected


def _draw_fill(axes: Any, counts: IndexCounts) -> None:  # noqa: ANN401
    """Bars: how many of each file's slots are in use."""
    used = [
        100 * (1 - lengths[0] / slots) if slots else 0.0
        for lengths, slots in zip(counts.chain_lengths, counts.hash_slot_num, strict=True)
    ]
    places = np.arange(len(used))
    axes.bar(places, used, color=_GREY, width=0.8)
    few = len(used) <= _MOST_COLOURS
    axes.set_xticks(places if few else [], list(counts.names) if few else [])
    axes.tick_params(axis="x", labelsize=8)
    axes.set_ylim(0, 100)
    axes.set_xlabel("file" if few else f"{len(used)} files, oldest first")
    axes.set_ylabel("% of slots in use")
    total = sum(counts.hash_slot_num)
    busy = total - sum(int(lengths[0]) for lengths in counts.chain_lengths)
    share = 100 * busy / total if total else 0.0
    axes.set_title(f"Slots in use by file: {share:.0f} % of all", fontsize=10)


def _draw_times(axes: Any, counts: IndexCounts, zone: tzinfo, zone_name: str) -> None:  # noqa: ANN401
    """Areas: how many entries were stored when, file upon file."""
    axes.set_xlabel(f"store time ({zone_name})")
    axes.set_ylabel("entries")
    if not len(counts.edges):
        axes.set_title("No entries", fontsize=10)
        return
    try:
        moments = [
            (_EPOCH + timedelta(milliseconds=edge)).astimezone(zone) for edge in counts.edges
        ]
    except OverflowError:
        axes.set_title("No plot of store times outside the years 1 to 9999", fontsize=10)
        return
    # Local times are shown as they are, whatever zone matplotlib would put them in.
    local = [moment.replace(tzinfo=None) for moment in moments]
    few = len(counts.names) <= _MOST_COLOURS
    groups = counts.over_time if few else (np.sum(counts.over_time, axis=0),)
    below = np.zeros(len(counts.edges) - 1)
    for number, group in enumerate(groups):
        axes.stairs(
            below + group,
            local,
            baseline=below,
            fill=True,
            label=counts.names[number] if few else None,
            color=f"C{number}" if few else _BLUE,
        )
        below = below + group
    locator = axes.xaxis.get_major_locator()
    axes.xaxis.set_major_formatter(_date_formatter(locator))
    seconds = (counts.edges[1] - counts.edges[0]) / 1000
    axes.set_title(f"Entries over time, in spans of {_duration(seconds)}", fontsize=10)
    if few and len(groups) > 1:
        axes.legend(frameon=False, fontsize=8)


def _date_formatter(locator: Any) -> Any:  # noqa: ANN401
    """Return a formatter that says each day once."""
    dates: Any = import_module("matplotlib.dates")  # an extra
    return dates.ConciseDateFormatter(locator)


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} seconds"
