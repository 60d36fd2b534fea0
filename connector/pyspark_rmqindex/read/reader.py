"""The readers: planning on the driver's host, reading in the tasks."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pyspark_rmqindex.files.listing import list_slices, open_slice
from pyspark_rmqindex.files.slices import as_planned
from pyspark_rmqindex.log_lines import write_counts
from pyspark_rmqindex.options import task_range, time_texts
from pyspark_rmqindex.read.batches import BatchBuilder, keep, merge
from pyspark_rmqindex.read.filters import filter_text, filters_to_wanted
from pyspark_rmqindex.read.lacking import lacking, warn_of_topics
from pyspark_rmqindex.read.plan_log import ScanPlan, report_plan
from pyspark_rmqindex.read.planning import IndexPartition, plan_files, wanted_by
from pyspark_rmqindex.read.refusals import Calls
from pyspark_rmqindex.read.verification import MessageCheck
from pyspark_rmqindex.schema import (
    EXTRA_MESSAGE_COLUMNS,
    KEY_COLUMNS,
    MATCH_COLUMN,
    PrunedReader,
)
from rmqindex import index_key_hashes
from rmqindex.messagestore import EVERYTHING, Range
from rmqindex.query import VERIFIED_COLUMNS, may_hold

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql.datasource import Filter, InputPartition
    from pyspark.sql.types import StructType

    from pyspark_rmqindex.files.listing import Listing
    from pyspark_rmqindex.files.slices import FileSlice
    from pyspark_rmqindex.options import ReadOptions
    from pyspark_rmqindex.read.planning import Query
    from rmqindex import IndexFile
    from rmqindex.messagestore import Wanted

# Columns that an entry itself does not hold, or not exactly.
_OF_MESSAGES = frozenset({*KEY_COLUMNS, *EXTRA_MESSAGE_COLUMNS, MATCH_COLUMN, "store_timestamp"})


class IndexReader(PrunedReader):
    """Reads the entries that the options select.

    It does not accept filters: Spark would reject it if the pushdown conf is off, and a filtered
    plan is not safe to share between the scans of one ``load()``.
    """

    def __init__(
        self, options: ReadOptions, schema: StructType, raw_options: dict[str, str]
    ) -> None:
        """Store the request."""
        self._options = options
        self._schema = schema
        self._raw_options = raw_options

    @property
    def _calls(self) -> Calls:
        paths = [str(path) for path in self._options.paths]
        return Calls(paths[0] if len(paths) == 1 else paths, self._raw_options)

    def partitions(self) -> Sequence[InputPartition]:
        """List the files and divide the work."""
        wanted = wanted_by(self._options)
        return self._plan(list_slices(self._options, wanted.stores), wanted, ())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the slices of one task."""
        if not isinstance(partition, IndexPartition):
            return  # Spark runs one task even if there is nothing to read
        query = partition.query
        times = query.time & task_range(query.begin, query.end)
        if times.is_empty:
            return
        names = ("slots", "candidates") if query.is_lookup else ("entries",)
        counts = Counter(dict.fromkeys(("files", *names, "verified"), 0))
        returned = 0
        for batch in as_planned(merge(self._batches(partition, times, counts))):
            returned += batch.num_rows
            yield batch
        counts["dropped"] = counts[names[-1]] - returned
        write_counts(counts)

    def _batches(
        self, partition: IndexPartition, times: Range, counts: Counter[str]
    ) -> Iterator[pa.RecordBatch]:
        query = partition.query
        builder = BatchBuilder(self._schema)
        finder = _FileLookup(query) if query.is_lookup else None
        with contextlib.ExitStack() as stack:
            check: MessageCheck | None = None
            if _is_compared(query, builder, self._options):
                check = stack.enter_context(MessageCheck(self._options, builder.types))
            for file_slice in partition.slices:
                with open_slice(file_slice, self._options) as file:
                    if file is None:
                        continue
                    counts["files"] += 1
                    if finder is None:
                        yield from _scan(file, file_slice, query, times, builder, check, counts)
                    else:
                        yield from finder.find(file, file_slice, times, builder, check, counts)
            if check is not None:
                counts["verified"] = check.verified

    def _plan(
        self, listing: Listing, wanted: Wanted, filters: Sequence[Filter]
    ) -> list[IndexPartition]:
        options = self._options
        planned = plan_files(options, wanted, listing.slices, remote=listing.is_remote)
        plan = ScanPlan(
            pairs=planned.query.pairs,
            key_hashes=planned.query.key_hashes,
            filters=(*map(filter_text, filters), *time_texts(options)),
            files_kept=len(planned.slices),
            files_total=listing.total,
            entries=sum(file_slice.stop - file_slice.start for file_slice in planned.slices),
            partitions=len(planned.partitions),
            lacking=(*listing.lacking, *lacking(listing.slices, options)),
        )
        report_plan(self._raw_options, options.log_level, plan)
        warn_of_topics(listing.slices, planned.query.pairs or (), options)
        return planned.partitions


class PushdownReader(IndexReader):
    """Pushes the WHERE of one scan down to slots, entries and files, from Spark 5.0 on.

    Spark may make several readers for one scan, and ask each for its filters; only ``partitions``
    reads files, and Spark calls it once.
    """

    _filters: tuple[Filter, ...] = ()

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802  (Spark's name)
        """Keep the filters; the answer depends on nothing else, so asking again is harmless."""
        self._filters = tuple(filters)
        self._wanted()
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """List the files and divide the work."""
        wanted = self._wanted()
        return self._plan(list_slices(self._options, wanted.stores), wanted, self._filters)

    def _wanted(self) -> Wanted:
        keys = self._options.key_columns
        return filters_to_wanted(self._filters, keys=keys, calls=self._calls)


def _is_compared(query: Query, builder: BatchBuilder, options: ReadOptions) -> bool:
    """Return whether any requested column or filter depends on the messages."""
    return options.has_log and (
        query.pairs is not None
        or options.unverified != "keep"
        or not query.time.is_everything
        or query.begin is not None
        or query.end is not None
        or not _OF_MESSAGES.isdisjoint(builder.types.names)
    )


def _scan(
    file: IndexFile,
    file_slice: FileSlice,
    query: Query,
    times: Range,
    builder: BatchBuilder,
    check: MessageCheck | None,
    counts: Counter[str],
) -> Iterator[pa.RecordBatch]:
    ranges = _ranges(query, times if check is None else EVERYTHING)
    needed = [] if check is None else [*VERIFIED_COLUMNS, "time_diff"]
    columns = list(dict.fromkeys([*builder.entry_columns, *ranges, *needed])) or ["position"]
    for batch in file.scan(file_slice.start, file_slice.stop, columns):
        counts["entries"] += batch.num_rows
        for entries in keep(batch, ranges):
            if check is None:
                yield builder.build(entries, file_slice.name_path)
                continue
            candidates = may_hold(entries, times.low, times.high)
            for matches in check.matches(file, file_slice, candidates, times):
                yield builder.build(matches, file_slice.name_path)


def _ranges(query: Query, times: Range) -> dict[str, Range]:
    ranges = {"store_timestamp": times, "phy_offset": query.phy_offset}
    return {name: bounds for name, bounds in ranges.items() if not bounds.is_everything}


class _FileLookup:
    """Looks up the same hashes in one file after another."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._texts: dict[str, pa.Array] = {}
        if query.pairs is not None:
            topics = [topic for topic, _ in query.pairs]
            keys = [key for _, key in query.pairs]
            self._texts = {
                "topic": pa.array(topics, pa.string()),
                "key": pa.array(keys, pa.string()),
            }
            self._hashes: NDArray[np.int32] = index_key_hashes(topics, keys)
        else:
            self._hashes = np.array(query.key_hashes or (), np.int32)

    def find(
        self,
        file: IndexFile,
        file_slice: FileSlice,
        times: Range,
        builder: BatchBuilder,
        check: MessageCheck | None,
        counts: Counter[str],
    ) -> Iterator[pa.RecordBatch]:
        ranges = _ranges(self._query, times if check is None else EVERYTHING)
        if file_slice.start > 1 or file_slice.stop < file_slice.limit:
            ranges["position"] = Range(file_slice.start, file_slice.stop - 1)
        found = file.lookup(self._hashes, file_slice.limit)
        counts["slots"] += len(self._hashes)
        counts["candidates"] += found.num_rows
        for hits in keep(found, ranges):
            texts = {name: array.take(hits.column("query")) for name, array in self._texts.items()}
            if check is None:
                yield builder.build(hits, file_slice.name_path, texts)
                continue
            candidates = hits
            for name, text in texts.items():
                candidates = candidates.append_column(f"bound_{name}", text)
            for matches in check.matches(file, file_slice, candidates, times):
                yield builder.build(matches, file_slice.name_path)
