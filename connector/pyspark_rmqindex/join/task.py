"""One task of ``lookup()``: takes rows of keys and returns them with their entries.

The task reads its rows in large chunks; it searches every file for all hashes of a chunk, and pairs
each entry found with the rows of its hash.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from pyspark_rmqindex.files.listing import open_slice
from pyspark_rmqindex.files.slices import as_planned
from pyspark_rmqindex.join.key_chunk import KeyChunk, KeyColumns, Limits
from pyspark_rmqindex.log_lines import write_counts
from pyspark_rmqindex.read.batches import BatchBuilder, keep, merge
from pyspark_rmqindex.read.verification import MessageCheck, handle_unverified, of_keys
from rmqindex.layout import ENTRY_SIZE
from rmqindex.messagestore import EVERYTHING, Range

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.accumulators import Accumulator
    from pyspark.sql.types import StructType

    from pyspark_rmqindex.files.slices import FileSlice
    from pyspark_rmqindex.options import ReadOptions
    from rmqindex import IndexFile


How = Literal["inner", "left", "semi", "anti"]
HOWS = ("inner", "left", "semi", "anti")
# Those that return rows of keys alone.
KEYS_ONLY = frozenset({"semi", "anti"})
# The column that remembers which pair an entry belongs to, while some of them are dropped.
_PAIR = "pair"


@dataclass(frozen=True, slots=True)
class LookupTask:
    """The function of one task; created on the driver and called by ``mapInArrow``."""

    slices: tuple[FileSlice, ...]
    options: ReadOptions
    columns: KeyColumns
    schema: StructType
    how: How
    strategy: Strategy = "auto"
    times: Range = EVERYTHING
    limits: Limits = field(default_factory=Limits)
    name: str = "rmqindex_lookup"
    # What the task adds its counts to; None with Spark Connect.
    tally: Accumulator[Counter[str]] | None = None

    @property
    def __name__(self) -> str:
        """The name in Spark's plans."""
        return self.name

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Look up the rows of one task."""
        yield from as_planned(merge(self._answers(batches)))

    def _answers(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for chunk in self._chunks(batches):
            with chunk:
                yield from _ChunkLookup(self, chunk).run()

    def _chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[KeyChunk]:
        chunk = KeyChunk(self.columns, self.limits)
        for batch in batches:
            chunk.add(batch)
            if chunk.is_full:
                yield chunk
                chunk = KeyChunk(self.columns, self.limits)
        if chunk.rows:
            yield chunk


class _ChunkLookup:
    """The answer to one chunk of keys."""

    def __init__(self, task: LookupTask, chunk: KeyChunk) -> None:
        self._task = task
        self._options = task.options
        self._chunk = chunk
        self._index = chunk.index
        self._bounds = chunk.bounds
        self._latest = None if self._bounds is None else int(self._bounds.end.max())
        self._builder = BatchBuilder(task.schema)
        # Which rows were found; and which hashes, if nothing but the hash decides.
        self._found = np.zeros(chunk.rows, np.bool_)
        self._found_hashes = np.zeros(len(self._index.wanted), np.bool_)
        self._searched: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()

    def run(self) -> Iterator[pa.RecordBatch]:
        task = self._task
        with contextlib.ExitStack() as stack:
            verifier = None
            if self._options.has_log:
                verifier = stack.enter_context(MessageCheck(self._options, self._builder.types))
            for file_slice in task.slices:
                yield from self._of_file(file_slice, verifier)
            if verifier is not None:
                self._counts["verified"] = verifier.verified
        self._log()
        if task.how == "inner":
            return
        self._found[self._index.rows_of(self._found_hashes)] = True
        yield from self._key_rows()

    def _of_file(
        self, file_slice: FileSlice, verifier: MessageCheck | None
    ) -> Iterator[pa.RecordBatch]:
        wanted = self._index.wanted
        if not len(wanted) or (verifier is None and not self._may_be_within(file_slice)):
            self._searched["not read"] += 1
            return
        by_scan = self._options.mode == "DROPMALFORMED" or is_scanned(
            len(wanted), file_slice, self._task.strategy, remote=file_slice.path.local is None
        )
        with open_slice(file_slice, self._options) as file:
            if file is None:
                return
            self._searched["scanned" if by_scan else "probed"] += 1
            self._counts["slots"] += 0 if by_scan else len(wanted)
            for hits in file.search(wanted, file_slice.limit, by_scan=by_scan):
                self._counts["candidates"] += hits.num_rows
                for entries in self._compare(file, file_slice, hits, verifier):
                    yield from self._pair(file_slice, entries)

    def _may_be_within(self, file_slice: FileSlice) -> bool:
        """Return whether a file may hold a match; no entry is older than its file."""
        return self._latest is None or self._latest >= file_slice.begin_timestamp

    def _compare(
        self,
        file: IndexFile,
        file_slice: FileSlice,
        hits: pa.RecordBatch,
        verifier: MessageCheck | None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the entries within the time bounds, compared with their messages."""
        times = self._task.times
        ranges = {} if times.is_everything else {"store_timestamp": times}
        if verifier is None:
            yield from keep(hits, ranges)
            return
        # The time that counts is the message's: an index of another history has others.
        for checked in verifier.check(file, file_slice, hits):
            yield from keep(checked, ranges)

    def _pair(self, file_slice: FileSlice, entries: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        places = entries.column("query").to_numpy()
        if self._task.how in KEYS_ONLY and self._bounds is None and not self._options.has_log:
            self._found_hashes[places] = True
            return
        times = entries.column("store_timestamp").to_numpy()
        for hits, rows in self._index.pairs(places, self._chunk.window):
            if self._bounds is not None:
                within = np.flatnonzero(self._bounds.hold(rows, times.take(hits)))
                hits, rows = hits.take(within), rows.take(within)  # noqa: PLW2901
            if len(rows):
                yield from self._join_answers(file_slice, entries.take(pa.array(hits)), rows)

    def _join_answers(
        self, file_slice: FileSlice, entries: pa.RecordBatch, rows: NDArray[np.int64]
    ) -> Iterator[pa.RecordBatch]:
        """Join each entry with its row, the n-th with the n-th."""
        how, is_compared = self._task.how, file_slice.commit_log is not None
        keys = self._chunk.take(rows) if how not in KEYS_ONLY or is_compared else None
        if self._options.has_log:
            entries = entries.append_column(_PAIR, pa.array(np.arange(len(rows))))
            if keys is not None and is_compared:
                entries = of_keys(entries, self._task.columns.texts(keys))
            entries = handle_unverified(entries, file_slice, self._options)
            if entries.num_rows < len(rows):
                self._counts["dropped"] += len(rows) - entries.num_rows
                pairs = entries.column(_PAIR)
                rows, keys = rows.take(pairs.to_numpy()), keys and keys.take(pairs)
        if how != "inner":
            self._found[rows] = True
        if keys is not None and how not in KEYS_ONLY:
            built = self._builder.build(entries, file_slice.name_path)
            yield _beside(keys, built.schema, built.columns)

    def _key_rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows with a match, each once, for ``semi``, else those without one."""
        rows = np.flatnonzero(self._found if self._task.how == "semi" else ~self._found)
        schema = self._builder.types
        for start in range(0, len(rows), self._chunk.window):
            keys = self._chunk.take(rows[start : start + self._chunk.window])
            if self._task.how == "left":
                nulls = [pa.nulls(keys.num_rows, field.type) for field in schema]
                yield _beside(keys, schema, nulls)
            else:
                yield keys

    def _log(self) -> None:
        """Log how the files were searched, and report it to the driver."""
        searched = ", ".join(f"{count} {way}" for way, count in sorted(self._searched.items()))
        counts = self._counts
        own = {"tasks": 1, "keys": self._chunk.rows, "hashes": len(self._index.wanted)}
        ways = {way: self._searched[way] for way in ("probed", "scanned")}
        found = {name: counts[name] for name in ("slots", "candidates", "verified", "dropped")}
        write_counts(
            own | ways | found,
            f"looked {self._chunk.rows} keys up ({len(self._index.wanted)} distinct hashes): "
            f"{searched or 'no files'}; {counts['candidates']} candidates, {counts['verified']} "
            f"verified, {counts['dropped']} dropped",
            self._options.log_level,
        )
        if self._task.tally is not None:
            self._task.tally.add(Counter(own | ways | found))


def _beside(keys: pa.RecordBatch, schema: pa.Schema, columns: Sequence[pa.Array]) -> pa.RecordBatch:
    both = pa.schema([*keys.schema, *schema])
    return pa.RecordBatch.from_arrays([*keys.columns, *columns], schema=both)


Strategy = Literal["auto", "probe", "scan"]
STRATEGIES = ("auto", "probe", "scan")

# Nanoseconds for a local file in the page cache.
_SLOT_COST = 90
_STEP_COST = 45
_ENTRY_COST = 5.2
_KEY_COST = 40
# How much more an entry costs each time the number of keys doubles, once their filter no longer
# fits into the processor's nearest caches; where that begins, in keys; and the most it adds.
_FILTER_COST = 3.0
_CACHED_KEYS = 1 << 17
_FILTER_COST_AT_MOST = 12.0
_EVERY_HASH = 2**31
# For a remote store: a request, several of which run at once, and each byte of a long read.
_REQUEST_COST = 5_000_000
_BYTE_COST = 10


def probe_cost(keys: int, file_slice: FileSlice, *, remote: bool) -> float:
    """Return the cost of probing the slots of keys, nanoseconds."""
    load = (file_slice.limit - 1) / file_slice.hash_slot_num
    # A key walks the entries of its slot, whether any of them is its own or not.
    return keys * (_page_cost(_SLOT_COST, remote) + load * _page_cost(_STEP_COST, remote))


def scan_cost(keys: int, file_slice: FileSlice, *, remote: bool) -> float:
    """Return the cost of reading all entries and comparing them with keys, nanoseconds."""
    doublings = max(0.0, math.log2(max(keys, 1) / _CACHED_KEYS))
    entry = _ENTRY_COST + min(_FILTER_COST * doublings, _FILTER_COST_AT_MOST)
    if remote:
        entry += ENTRY_SIZE * _BYTE_COST
    return (file_slice.limit - 1) * entry + keys * _KEY_COST


def crossover(file_slice: FileSlice, *, remote: bool) -> int:
    """Return the number of distinct key hashes up to which a probe is cheaper than a scan."""
    low, high = 0, _EVERY_HASH
    while high - low > 1:
        middle = (low + high) // 2
        if is_scanned(middle, file_slice, "auto", remote=remote):
            high = middle
        else:
            low = middle
    return low


def is_scanned(keys: int, file_slice: FileSlice, strategy: Strategy, *, remote: bool) -> bool:
    """Return whether a file is scanned for keys rather than probed."""
    if strategy != "auto":
        return strategy == "scan"
    return probe_cost(keys, file_slice, remote=remote) > scan_cost(keys, file_slice, remote=remote)


def lookup_cost(keys: int, slices: Iterable[FileSlice], *, remote: bool) -> float:
    """Return the lowest cost for one task to find keys in some files, nanoseconds."""
    return sum(
        min(probe_cost(keys, file_slice, remote=remote), scan_cost(keys, file_slice, remote=remote))
        for file_slice in slices
    )


def _page_cost(local: int, remote: bool) -> int:
    return _REQUEST_COST if remote else local
