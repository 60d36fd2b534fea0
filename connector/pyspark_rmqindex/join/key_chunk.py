"""Rows of keys that are looked up together, and their hashes.

A task sees each row once, so it must keep the rows: in memory and, beyond a bound, in an unnamed
temporary file, which disappears with the process however that ends.
"""

from __future__ import annotations

import itertools
import mmap
import os
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_rmqindex.read.batches import MAX_ROWS, concatenate
from rmqindex import HashSet, index_key_hashes
from rmqindex.keys import NotUtf8Error, not_utf8
from rmqindex.layout import INT64_MAX, INT64_MIN
from rmqindex.storage import naming
from rmqindex.times import to_milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from numpy.typing import NDArray


_ALWAYS = {"begin": INT64_MIN, "end": INT64_MAX}


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The indexes of the columns that a lookup uses."""

    topic: int | str  # The index of the column of topics; or one topic, of all rows
    key: int
    begin: int | None = None
    end: int | None = None

    def texts(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """Return the topic and the key of each row."""
        topics = (
            pa.repeat(self.topic, batch.num_rows)
            if isinstance(self.topic, str)
            else batch.column(self.topic)
        )
        return topics, batch.column(self.key)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a task holds at once."""

    # The most rows in a chunk; each takes about 70 bytes of memory on top of its data.
    rows: int = 5_000_000
    memory: int = 192 * 2**20  # The most bytes of rows in memory; the rest is spilled to a file
    size: int = 4 * 2**30
    batch_rows: int = 1 << 18
    batch_bytes: int = 32 * 2**20


@dataclass(frozen=True, slots=True)
class Bounds:
    """The store times that each row matches, epoch milliseconds, both inclusive."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]

    def hold(self, rows: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return a mask of the times that lie within the bounds of their rows."""
        within: NDArray[np.bool_] = self.begin.take(rows) <= times
        within &= times <= self.end.take(rows)
        return within


class KeyChunk:
    """Rows of keys that are looked up together; a context manager, which frees them."""

    rows: int

    def __init__(self, columns: KeyColumns, limits: Limits | None = None) -> None:
        """Start without rows."""
        self._columns = columns
        self._limits = limits or Limits()
        self.rows = 0
        self._size = 0
        self._hashes: list[NDArray[np.uint64]] = []
        self._begins: list[NDArray[np.int64]] = []
        self._ends: list[NDArray[np.int64]] = []
        self._pending: list[pa.RecordBatch] = []
        self._pending_size = 0
        self._pieces = _Pieces(self._limits.memory)

    @property
    def is_full(self) -> bool:
        """Whether the chunk has reached a limit, so that its rows must be looked up."""
        return self.rows >= self._limits.rows or self._size >= self._limits.size

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; those whose topic or key is NULL or not UTF-8 match nothing."""
        if not batch.num_rows:
            return
        columns = self._columns
        hashes, valid = hash_known(*columns.texts(batch))
        places = np.arange(self.rows, self.rows + batch.num_rows, dtype=np.uint64)
        if valid is not None:
            places = places[valid.to_numpy(zero_copy_only=False)]
        self._hashes.append(hashes.astype(np.uint64) << np.uint64(32) | places)
        for place, bounds, name in (
            (columns.begin, self._begins, "begin"),
            (columns.end, self._ends, "end"),
        ):
            if place is not None:
                bounds.append(_milliseconds(batch.column(place), name))
        self.rows += batch.num_rows
        self._pending.append(batch)
        size = batch.nbytes
        self._pending_size += size
        self._size += size
        if (
            sum(pending.num_rows for pending in self._pending) >= self._limits.batch_rows
            or self._pending_size >= self._limits.batch_bytes
        ):
            self._put_away()

    @cached_property
    def window(self) -> int:
        """The number of rows to take at once to stay within memory; use it after the last add."""
        self._put_away()
        return max(1, min(MAX_ROWS, self._limits.batch_bytes // max(1, self._pieces.widest)))

    @cached_property
    def index(self) -> KeyIndex:
        """The hashes, in ascending order; use it after the last add."""
        joined = np.concatenate([np.empty(0, np.uint64), *self._hashes])
        self._hashes.clear()
        joined.sort()
        return KeyIndex(joined)

    @cached_property
    def bounds(self) -> Bounds | None:
        """The bounds of every row; None if there are no columns for them."""
        columns = self._columns
        if columns.begin is None and columns.end is None:
            return None
        begin, end = (
            np.full(self.rows, _ALWAYS[name]) if place is None else np.concatenate(bounds)
            for place, bounds, name in (
                (columns.begin, self._begins, "begin"),
                (columns.end, self._ends, "end"),
            )
        )
        return Bounds(begin, end)

    def take(self, rows: NDArray[np.int64]) -> pa.RecordBatch:
        """Return some of the rows."""
        self._put_away()
        return self._pieces.take(rows)

    def __enter__(self) -> Self:
        """Return the chunk itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Free the rows and delete the spill file."""
        self._pieces.close()

    def _put_away(self) -> None:
        if self._pending:
            self._pieces.add(concatenate(self._pending))
            self._pending, self._pending_size = [], 0


class KeyIndex:
    """The rows of each distinct hash."""

    def __init__(self, joined: NDArray[np.uint64]) -> None:
        """Index the rows by hash."""
        hashes = (joined >> np.uint64(32)).astype(np.int32)
        self._rows = joined.astype(np.uint32)
        changes = np.flatnonzero(hashes[1:] != hashes[:-1]) + 1
        self._starts = np.zeros(len(changes) + min(1, len(hashes)), np.int32)
        self._starts[1:] = changes
        self.counts = np.diff(self._starts, append=np.int32(len(hashes)))
        self.wanted = HashSet(hashes.take(self._starts))

    def pairs(
        self, places: NDArray[np.int64], most: int
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Pair hits with the rows of their hashes."""
        counts = self.counts.take(places)
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        first = self._starts.take(places) - (ends - counts)
        for start in range(0, total, most):
            numbers = np.arange(start, min(start + most, total))
            hits = numbers if total == len(ends) else np.searchsorted(ends, numbers, side="right")
            rows = self._rows.take(first.take(hits) + numbers).astype(np.int64)
            order = np.argsort(rows)
            yield hits.take(order), rows.take(order)

    def rows_of(self, found: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the rows of some of the hashes."""
        chosen: NDArray[np.int64] = self._rows[np.repeat(found, self.counts)].astype(np.int64)
        return chosen


class _Pieces:
    """Batches of one schema, in memory up to a limit and in a file beyond it."""

    widest: int  # The highest average of bytes per row among the pieces

    def __init__(self, memory: int) -> None:
        self.widest = 0
        self._memory = memory
        self._held: list[pa.RecordBatch] = []
        self._starts = [0]
        self._stack = ExitStack()
        self._writer: pa.RecordBatchFileWriter | None = None
        self._reader: pa.RecordBatchFileReader | None = None
        self._file: IO[bytes] | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        self.widest = max(self.widest, batch.nbytes // batch.num_rows)
        self._starts.append(self._starts[-1] + batch.num_rows)
        if self._writer is None and self._memory >= batch.nbytes:
            self._memory -= batch.nbytes
            self._held.append(batch)
            return
        with naming(_local_directory()):
            if self._writer is None:
                file = tempfile.TemporaryFile(dir=_local_directory())  # noqa: SIM115  (the stack closes it)
                self._file = self._stack.enter_context(file)
                self._writer = pa.ipc.new_file(self._file, batch.schema)
            self._writer.write_batch(batch)

    def take(self, rows: NDArray[np.int64]) -> pa.RecordBatch:
        cuts = np.searchsorted(rows, self._starts)
        taken = [
            self._piece(number).take(pa.array(rows[first:last] - self._starts[number]))
            for number, (first, last) in enumerate(itertools.pairwise(cuts.tolist()))
            if first < last
        ]
        return concatenate(taken)

    def close(self) -> None:
        self._held.clear()
        self._reader = None
        self._stack.close()

    def _piece(self, number: int) -> pa.RecordBatch:
        if number < len(self._held):
            return self._held[number]
        if self._reader is None:
            assert self._writer is not None and self._file is not None  # noqa: PT018
            with naming(_local_directory()):
                self._writer.close()
                self._file.flush()
            mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            self._reader = pa.ipc.open_file(pa.py_buffer(mapped))
        return self._reader.get_batch(number - len(self._held))


def _local_directory() -> str:
    """Return the directory of Spark's own temporary files, or Python's if Spark names none."""
    first = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return first if Path(first).is_dir() and first else tempfile.gettempdir()


def _milliseconds(times: pa.Array, name: str) -> NDArray[np.int64]:
    """Return bounds rounded inwards to whole milliseconds; NULL means no bound."""
    missing = times.is_null().to_numpy(zero_copy_only=False)
    micros = times.cast(pa.int64()).fill_null(0).to_numpy()
    milliseconds = to_milliseconds(micros, up=name == "begin")
    return np.where(missing, _ALWAYS[name], milliseconds)


def hash_columns(topics: pa.Array, keys: pa.Array) -> pa.Array:
    """Hash a batch of columns; NULL and text that is not UTF-8 give NULL."""
    hashes, valid = hash_known(topics, keys)
    if valid is None:
        return pa.array(hashes)
    return pc.replace_with_mask(pa.nulls(len(valid), pa.int32()), valid, pa.array(hashes))


def hash_known(topics: pa.Array, keys: pa.Array) -> tuple[NDArray[np.int32], pa.Array | None]:
    """Hash the rows that can match an entry: no entry has a key that is NULL or not UTF-8."""
    valid = None
    if topics.null_count or keys.null_count:
        valid = pc.and_(topics.is_valid(), keys.is_valid())
    try:
        return _hashes(topics, keys, valid), valid
    except NotUtf8Error:
        valid = pc.and_(topics.is_valid(), keys.is_valid())
        for column in (topics, keys):
            invalid = not_utf8(column)
            if invalid is not None:
                valid = pc.and_not(valid, pa.array(invalid))
        return _hashes(topics, keys, valid), valid


def _hashes(topics: pa.Array, keys: pa.Array, valid: pa.Array | None) -> NDArray[np.int32]:
    if valid is None:
        return index_key_hashes(topics, keys)
    return index_key_hashes(topics.filter(valid), keys.filter(valid))
