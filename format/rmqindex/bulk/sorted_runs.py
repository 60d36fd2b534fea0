"""Sorted runs: rows spilled to disk, from which files are cut at exact row numbers.

A run is one file that holds columns one after the other, its rows in order.
Splitting all rows of a job at a rank merges nothing: a binary search over the mapped runs, one
column of the order after the other, finds the cut in each run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from rmqindex.storage.writable import WritableFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

Block: TypeAlias = "dict[str, NDArray[Any]]"
Side: TypeAlias = Literal["left", "right"]

_DTYPES: dict[str, np.dtype[Any]] = {
    "phy_offset": np.dtype(np.int64),
    "store_timestamp": np.dtype(np.int64),
    "key_hash": np.dtype(np.int32),
    "ordinal": np.dtype(np.int32),
    "file": np.dtype(np.int32),
}
_ENTRY_COLUMNS = ("phy_offset", "store_timestamp", "key_hash")
# Rows merged at a time: few enough for the processor's cache, which also bounds a merge's memory.
_MERGE_ROWS = 1 << 18
_INT64_BITS = 63


@dataclass(frozen=True, slots=True)
class EntryRows:
    """Entries to write, in the order of their rows' arrival.

    Attributes:
        key_hash: int32, 0 to 2**31 - 1.
        phy_offset: int64, bytes, at least 0.
        store_timestamp: int64, epoch milliseconds.
        ordinal: int32: the order of entries with one offset: the key's place in its message, or the
            entry's position in the file it was read from, else 0.
        file_path: The file each entry was read from, or None where that is not known.
    """

    key_hash: NDArray[np.int32]
    phy_offset: NDArray[np.int64]
    store_timestamp: NDArray[np.int64]
    ordinal: NDArray[np.int32]
    file_path: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """The columns of a run, and the order of its rows.

    Attributes:
        columns: The columns of a run, the wide ones first.
        levels: The columns that order the rows, the most significant first; rows equal in all of
            them stay in the order of their arrival.
    """

    columns: tuple[str, ...]
    levels: tuple[str, ...]


ARRIVAL = Order(_ENTRY_COLUMNS, ("phy_offset",))
# Rows equal in all of these are identical, so the order does not depend on which task read them.
CONTENT = Order(
    (*_ENTRY_COLUMNS, "ordinal"), ("phy_offset", "ordinal", "key_hash", "store_timestamp")
)
BY_POSITION = Order(
    (*_ENTRY_COLUMNS, "ordinal", "file"),
    ("phy_offset", "file", "ordinal", "key_hash", "store_timestamp"),
)


@dataclass(frozen=True, slots=True)
class RunSlice:
    """A part of a run; picklable.

    Attributes:
        name: The run's file name in the staging directory.
        rows: How many rows the whole run has.
        start: The first row of the part, from 0.
        stop: The row after the last one.
        files: The paths that the run's column ``file`` numbers; empty without that column.
        data: The whole run, if it is too short to deserve a file.
    """

    name: str
    rows: int
    start: int
    stop: int
    files: tuple[str, ...] = ()
    data: bytes | None = None


class RunBuffer:
    """Collects the rows of one task and writes them as sorted runs of bounded size."""

    def __init__(
        self,
        directory: Path,
        prefix: str,
        order: Order,
        limit: int,
        *,
        inline: int = 0,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        """Begin without rows.

        Args:
            directory: The directory of the runs, which must exist.
            prefix: The prefix of their file names, unique among all task attempts.
            order: The columns to keep, and the order of the rows.
            limit: The most rows of a run, which are held in memory until it is written.
            inline: The most rows, in all, whose run is not written to a file.
            prepare: Called before a run is written as a file.
        """
        self._inline = inline
        self._prepare = prepare
        self._directory = directory
        self._prefix = prefix
        self._order = order
        self._limit = limit
        self._block: Block = {}
        self._filled = 0
        self._files: dict[str, int] = {}
        self.slices: list[RunSlice] = []

    def add(self, rows: EntryRows) -> None:
        """Append rows; write a run whenever the limit is reached."""
        arrays: Block = {
            "phy_offset": rows.phy_offset,
            "store_timestamp": rows.store_timestamp,
            "key_hash": rows.key_hash,
            "ordinal": rows.ordinal,
        }
        start, total = 0, len(rows.key_hash)
        while start < total:
            count = min(total - start, self._limit - self._filled)
            part = {name: array[start : start + count] for name, array in arrays.items()}
            if "file" in self._order.columns:
                part["file"] = self._file_codes(rows.file_path, start, count)
            self._append(part, count)
            start += count
            if self._filled == self._limit:
                self.finish()

    def finish(self) -> None:
        """Write the rows in memory as a run."""
        if not self._filled:
            return
        block = {name: array[: self._filled] for name, array in self._block.items()}
        files = tuple(sorted(self._files))
        if files:
            ranks = np.empty(len(files), np.int32)
            ranks[[self._files[file] for file in files]] = np.arange(len(files))
            block["file"] = ranks[block["file"]]
        order = _sorting(block, self._order.levels)
        name = f"{self._prefix}-{len(self.slices)}"
        columns = (  # one at a time
            np.ascontiguousarray(block[column] if order is None else block[column][order])
            for column in self._order.columns
        )
        data: bytes | None = None
        if self._filled <= self._inline and not self.slices:
            data = b"".join(column.tobytes() for column in columns)
        else:
            if self._prepare is not None:
                self._prepare()
            path = self._directory / name
            with WritableFile(path) as file:
                for column in columns:
                    file.write(column.view(np.uint8).data)
        self.slices.append(RunSlice(name, self._filled, 0, self._filled, files, data))
        self._filled = 0
        self._files = {}

    def remove(self) -> None:
        """Remove the written runs, and an unfinished one."""
        for number in range(len(self.slices) + 1):
            (self._directory / f"{self._prefix}-{number}").unlink(missing_ok=True)

    def _append(self, arrays: Block, count: int) -> None:
        stop = self._filled + count
        capacity = len(self._block["key_hash"]) if self._block else 0
        if stop > capacity:
            capacity = min(max(stop, 2 * capacity), self._limit)
            grown = {name: np.empty(capacity, _DTYPES[name]) for name in self._order.columns}
            for name, array in self._block.items():
                grown[name][: self._filled] = array[: self._filled]
            self._block = grown
        for name, array in self._block.items():
            array[self._filled : stop] = arrays[name]
        self._filled = stop

    def _file_codes(self, paths: pa.Array, start: int, count: int) -> NDArray[np.int32]:
        encoded = paths.slice(start, count).dictionary_encode()
        codes = [
            self._files.setdefault(path, len(self._files))
            for path in encoded.dictionary.to_pylist()
        ]
        indices = encoded.indices.to_numpy(zero_copy_only=False)
        located: NDArray[np.int32] = np.array(codes, dtype=np.int32)[indices]
        return located


class RunSet:
    """The rows of many runs as one ordered sequence."""

    def __init__(self, directory: Path, slices: Sequence[RunSlice], order: Order) -> None:
        """Map the runs.

        Args:
            directory: The staging directory.
            slices: The parts of the runs; rows equal in every level come in this order.
            order: The order of the runs.
        """
        self.order = order
        self._slices = tuple(slices)
        self._runs = [_map_run(directory, part, order) for part in slices]
        self._starts = np.array([part.start for part in slices], np.int64)
        self._stops = np.array([part.stop for part in slices], np.int64)
        files = sorted({file for part in slices for file in part.files})
        ranks = {file: rank for rank, file in enumerate(files)}
        self._ranks = [np.array([ranks[file] for file in part.files], np.int32) for part in slices]

    def __len__(self) -> int:
        """How many rows there are."""
        return int((self._stops - self._starts).sum())

    @property
    def slices(self) -> tuple[RunSlice, ...]:
        """The parts of the runs that hold the rows."""
        bounds = zip(self._slices, self._starts.tolist(), self._stops.tolist(), strict=True)
        return tuple(
            replace(part, start=start, stop=stop) for part, start, stop in bounds if start < stop
        )

    def between(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> RunSet:
        """Return the rows between two cuts, as the same runs with other bounds."""
        part = object.__new__(RunSet)
        part.order, part._slices, part._runs = self.order, self._slices, self._runs
        part._ranks, part._starts, part._stops = self._ranks, starts, stops
        return part

    def cut(self, rank: int) -> NDArray[np.int64]:
        """Return, for each run, the cut after the first ``rank`` rows of the whole.

        Args:
            rank: 0 to the number of rows.
        """
        low, high = self._starts, self._stops
        for level in self.order.levels:
            need = rank - int((low - self._starts).sum())
            if need == 0:
                return low
            if need == int((high - low).sum()):
                return high
            low, high = self._narrow(level, low, high, need)
        # The remaining rows are equal: earlier runs come first.
        need = rank - int((low - self._starts).sum())
        room = high - low
        cut: NDArray[np.int64] = low + np.clip(need - (np.cumsum(room) - room), 0, room)
        return cut

    def cut_at_offset(self, phy_offset: int, *, inclusive: bool) -> NDArray[np.int64]:
        """Return, for each run, the cut after the rows before an offset, or up to it."""
        side: Side = "right" if inclusive else "left"
        counts = self._counts("phy_offset", self._starts, self._stops, phy_offset, side)
        cut: NDArray[np.int64] = self._starts + counts
        return cut

    def count_before(self, phy_offset: int, *, inclusive: bool = False) -> int:
        """Return how many rows lie before an offset, or up to it."""
        return int((self.cut_at_offset(phy_offset, inclusive=inclusive) - self._starts).sum())

    def offset_range(self) -> tuple[int, int]:
        """Return the least and the greatest ``phy_offset``; there must be rows."""
        return self._bounds("phy_offset", self._starts, self._stops)

    def row(self, rank: int) -> dict[str, int]:
        """Return the row of a rank, from 0."""
        (block,) = self.between(self.cut(rank), self.cut(rank + 1)).blocks()
        return {name: int(array[0]) for name, array in block.items()}

    def key_hashes(self) -> Iterator[NDArray[np.int32]]:
        """Yield all key hashes, unordered, without a merge."""
        for run, columns in enumerate(self._runs):
            yield columns["key_hash"][self._starts[run] : self._stops[run]]

    def blocks(self, rows: int = _MERGE_ROWS) -> Iterator[Block]:
        """Merge the rows and yield them in order, in bounded blocks of ``_ENTRY_COLUMNS``.

        Args:
            rows: The most rows of a block.
        """
        total = len(self)
        start = self._starts
        for rank in range(0, total, rows):
            stop = self.cut(min(rank + rows, total))
            yield self._block(start, stop)
            start = stop

    def _block(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Block:
        used = np.flatnonzero(starts < stops).tolist()
        block = {
            column: np.concatenate(
                [self._values(run, column, int(starts[run]), int(stops[run])) for run in used]
            )
            if len(used) > 1
            else self._values(used[0], column, int(starts[used[0]]), int(stops[used[0]]))
            for column in self.order.columns
        }
        order = _sorting(block, self.order.levels) if len(used) > 1 else None
        return {
            column: block[column] if order is None else block[column][order]
            for column in _ENTRY_COLUMNS
        }

    def _values(self, run: int, column: str, start: int, stop: int) -> NDArray[Any]:
        values: NDArray[Any] = self._runs[run][column][start:stop]
        return self._ranks[run][values] if column == "file" else values

    def _narrow(
        self, level: str, low: NDArray[np.int64], high: NDArray[np.int64], need: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Narrow bounds to the rows with the value of the ``need``-th row between them."""
        least, greatest = self._bounds(level, low, high)
        while least < greatest:
            middle = (least + greatest) // 2
            if int(self._counts(level, low, high, middle, "right").sum()) >= need:
                greatest = middle
            else:
                least = middle + 1
        return (
            low + self._counts(level, low, high, least, "left"),
            low + self._counts(level, low, high, least, "right"),
        )

    def _bounds(
        self, level: str, low: NDArray[np.int64], high: NDArray[np.int64]
    ) -> tuple[int, int]:
        used = np.flatnonzero(low < high).tolist()
        firsts = [
            int(self._values(run, level, int(low[run]), int(low[run]) + 1)[0]) for run in used
        ]
        lasts = [
            int(self._values(run, level, int(high[run]) - 1, int(high[run]))[0]) for run in used
        ]
        return min(firsts), max(lasts)

    def _counts(
        self, level: str, low: NDArray[np.int64], high: NDArray[np.int64], value: int, side: Side
    ) -> NDArray[np.int64]:
        """Return, for each run, how many values between the bounds lie before ``value``."""
        counts = np.zeros(len(self._runs), np.int64)
        for run in np.flatnonzero(low < high).tolist():
            column = self._runs[run][level][low[run] : high[run]]
            if level == "file":  # a run counts only its own files
                local = np.searchsorted(self._ranks[run], value, side=side)
                counts[run] = np.searchsorted(column, local, side="left")
            else:
                counts[run] = np.searchsorted(column, column.dtype.type(value), side=side)
        return counts


def _map_run(directory: Path, part: RunSlice, order: Order) -> Block:
    data: NDArray[np.uint8]
    if part.data is None:
        data = np.memmap(directory / part.name, dtype=np.uint8, mode="r")
    else:
        data = np.frombuffer(part.data, dtype=np.uint8)
    block: Block = {}
    position = 0
    for column in order.columns:
        size = part.rows * _DTYPES[column].itemsize
        # A plain array over the mapping: memmap's own slicing is slow.
        block[column] = np.asarray(data[position : position + size]).view(_DTYPES[column])
        position += size
    return block


def _sorting(block: Block, levels: Sequence[str]) -> NDArray[np.intp] | None:
    """Return the order that sorts rows stably by several columns, or None if they are sorted."""
    order: NDArray[np.intp] | None = None
    values = block[levels[0]]
    if not _is_sorted(values):
        order = np.argsort(values, kind="stable")
        values = values[order]
    distinct = values[1:] != values[:-1]
    for level in levels[1:]:
        if distinct.all():
            break
        values = block[level] if order is None else block[level][order]
        within = _sorting_within(distinct, values)
        if within is not None:
            order = within if order is None else order[within]
            values = values[within]
        distinct |= values[1:] != values[:-1]
    return order


def _sorting_within(distinct: NDArray[np.bool_], values: NDArray[Any]) -> NDArray[np.intp] | None:
    """Return the order that sorts values within groups of neighbours; None if they are sorted."""
    if np.all(distinct | (values[1:] >= values[:-1])):
        return None
    groups = np.zeros(len(values), np.int64)
    np.cumsum(distinct, out=groups[1:])
    least, greatest = int(values.min()), int(values.max())
    span = greatest - least + 1
    if (int(groups[-1]) + 1) * span >> _INT64_BITS:
        return np.lexsort((values, groups))
    return np.argsort(groups * span + (values.astype(np.int64) - least), kind="stable")


def _is_sorted(values: NDArray[Any]) -> bool:
    return bool(np.all(values[1:] >= values[:-1]))
