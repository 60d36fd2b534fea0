"""The readers: planning on the driver's host, reading in the tasks."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from pyspark_rmqindex.files.listing import list_slices, open_slice
from pyspark_rmqindex.files.slices import as_planned
from pyspark_rmqindex.files.stores import with_logs
from pyspark_rmqindex.filters.batches import BatchBuilder, keep, merge
from pyspark_rmqindex.filters.filters import (
    EVERYTHING,
    Range,
    Wanted,
    column_of,
    filter_text,
    filters_to_wanted,
)
from pyspark_rmqindex.filters.pruned import PrunedReader
from pyspark_rmqindex.filters.refusals import Calls
from pyspark_rmqindex.options import (
    EXECUTION_ID,
    LocalBound,
    planned_bound,
    task_range,
    time_texts,
)
from pyspark_rmqindex.scan.lacking import lacking
from pyspark_rmqindex.scan.plan_log import ScanPlan, report_plan
from pyspark_rmqindex.scan.planning import (
    IndexPartition,
    Packing,
    Query,
    apportion,
    matching_pairs,
    prune,
)
from pyspark_rmqindex.scan.pushdown import is_on_cluster, locked_state, wanted_by_all
from pyspark_rmqindex.scan.verification import MessageCheck, handle_unverified, of_keys
from pyspark_rmqindex.schema import EXTRA_MESSAGE_COLUMNS, KEY_COLUMNS, MATCH_COLUMN
from rmqindex import index_key_hashes
from rmqindex.keys import is_utf8
from rmqindex.query import VERIFIED_COLUMNS, may_hold
from rmqindex.times import to_milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql.datasource import Filter, InputPartition
    from pyspark.sql.types import StructType

    from pyspark_rmqindex.files.slices import FileSlice
    from pyspark_rmqindex.options import ReadOptions
    from rmqindex import IndexFile

__all__ = ["IndexReader", "PushdownReader", "plan_files", "wanted_by"]

_PUSHDOWN_CONF = "spark.sql.python.filterPushdown.enabled"
# Columns that an entry itself does not hold, or not exactly.
_OF_MESSAGES = frozenset({*KEY_COLUMNS, *EXTRA_MESSAGE_COLUMNS, MATCH_COLUMN, "store_timestamp"})


class PlannedFiles(NamedTuple):
    """The plan for some files."""

    query: Query
    slices: list[FileSlice]
    partitions: list[IndexPartition]


def wanted_by(options: ReadOptions) -> Wanted:
    """Return what the options of a read without pushdown ask for, except for times."""
    pairs, hashes = options.pairs, options.key_hashes
    if pairs is not None and hashes is not None:
        pairs, hashes = matching_pairs(pairs, hashes), None
    return Wanted(
        pairs=None if pairs is None else frozenset(pairs),
        key_hashes=None if hashes is None else frozenset(hashes),
    )


def plan_files(
    options: ReadOptions, wanted: Wanted, files: Sequence[FileSlice], *, remote: bool
) -> PlannedFiles:
    """Prune some files, and divide the rest among tasks."""
    query, wanted = query_of(options, wanted)
    if options.commit_log is not None:
        files = with_logs(files, options.commit_log)
        # A message's exact time may be earlier than that of its entry.
        if not wanted.time.is_empty:
            wanted = replace(wanted, time=EVERYTHING)
    slices = prune(files, wanted)
    packing = Packing(options.max_partition_bytes, 4 * 2**20 if remote else 2**17)
    return PlannedFiles(query, slices, apportion(slices, query, packing))


def query_of(options: ReadOptions, wanted: Wanted) -> tuple[Query, Wanted]:
    """Return what to search every slice for, and what to choose files by."""
    begin, end = planned_bound(options.begin, up=True), planned_bound(options.end, up=False)
    if wanted.pairs is not None:  # a STRING cannot hold any other key
        wanted = replace(
            wanted, pairs=frozenset(pair for pair in wanted.pairs if is_utf8("".join(pair)))
        )
    # The zone of a local time is not known here, so allow for all of them.
    wanted = replace(
        wanted,
        time=wanted.time
        & Range(
            begin if isinstance(begin, int) else None,
            to_milliseconds(end.time.latest, up=False) if isinstance(end, LocalBound) else end,
        ),
    )
    is_local = isinstance(begin, LocalBound) or isinstance(end, LocalBound)
    query = Query(
        pairs=None if wanted.pairs is None else tuple(sorted(wanted.pairs)),
        key_hashes=None if wanted.key_hashes is None else tuple(sorted(wanted.key_hashes)),
        time=wanted.time,
        phy_offset=wanted.phy_offset,
        begin=begin if is_local else None,
        end=end if is_local else None,
    )
    return query, wanted


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
        return self._plan(wanted_by(self._options), ())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the slices of one task."""
        if not isinstance(partition, IndexPartition):
            return  # Spark runs one task even if there is nothing to read
        query = partition.query
        times = query.time & Range(*task_range(query.begin, query.end))
        if times.is_empty:
            return
        yield from as_planned(merge(self._batches(partition, times)))

    def _batches(self, partition: IndexPartition, times: Range) -> Iterator[pa.RecordBatch]:
        query = partition.query
        builder = BatchBuilder(self._schema)
        finder = _Lookup(query) if query.is_lookup else None
        with contextlib.ExitStack() as stack:
            check: _Check | None = None
            if _is_compared(query, builder, self._options):
                verifier = stack.enter_context(MessageCheck(self._options, builder.types))
                check = _Check(verifier, self._options, times)
            for file_slice in partition.slices:
                with open_slice(file_slice, self._options) as file:
                    if file is None:
                        continue
                    if finder is None:
                        yield from _scan(file, file_slice, query, times, builder, check)
                    else:
                        yield from finder.find(file, file_slice, times, builder, check)

    def _plan(self, wanted: Wanted, filters: Sequence[Filter]) -> list[IndexPartition]:
        options = self._options
        files, total, remote, left_out = list_slices(options, wanted.stores)
        self._found(files)
        query, slices, partitions = plan_files(options, wanted, files, remote=remote)
        plan = ScanPlan(
            pairs=query.pairs,
            key_hashes=query.key_hashes,
            filters=(*map(filter_text, filters), *time_texts(options)),
            files_kept=len(slices),
            files_total=total,
            entries=sum(file_slice.stop - file_slice.start for file_slice in slices),
            partitions=len(partitions),
            lacking=(*left_out, *lacking(files, options)),
        )
        report_plan(self._raw_options, options.log_level, plan)
        return partitions

    def _found(self, files: Sequence[FileSlice]) -> None:
        """Take note of the files of a plan."""


class PushdownReader(IndexReader):
    """The reader of ``table()``, which pushes WHERE down to slots, entries and files."""

    def __init__(
        self,
        options: ReadOptions,
        schema: StructType,
        raw_options: dict[str, str],
        state: str | None,
    ) -> None:
        """Store the request."""
        super().__init__(options, schema, raw_options)
        self._state = state
        self._listing = ""
        self._planned: list[IndexPartition] | None = None

    def __getstate__(self) -> dict[str, object]:
        """Leave the plan out: each partition carries its own part of it."""
        return {**self.__dict__, "_planned": None}

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802  (Spark's name)
        """Plan for these filters and those of every earlier planning of the relation."""
        _check_built_in_filter(filters)
        calls = self._calls
        wanted = filters_to_wanted(filters, keys=self._options.key_columns, calls=calls)
        if self._state is None:
            raise ValueError("option 'pushdown': this relation has no record of its queries")
        with locked_state(self._state, waits=not is_on_cluster(self._raw_options)) as state:
            partitions = self._plan(state.widen(wanted, calls), filters)
            plan = state.plan_of(self._listing)
            # Even if there is nothing to read, a task must run to check its plan.
            self._planned = [
                replace(partition, plan=plan)
                for partition in partitions or [IndexPartition((), Query())]
            ]
        return filters

    def _found(self, files: Sequence[FileSlice]) -> None:
        self._listing = hashlib.sha256(repr(files).encode("utf-8", "replace")).hexdigest()

    def partitions(self) -> Sequence[InputPartition]:
        """Return the planned partitions."""
        if self._planned is None:
            raise ValueError(_NO_FILTER)
        return self._planned

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the slices of one task."""
        _check_conf()
        if (
            self._state is not None
            and isinstance(partition, IndexPartition)
            and partition.plan is not None
        ):
            wanted = wanted_by_all(self._state, partition.plan)
            if wanted is not None:
                partition = replace(partition, query=query_of(self._options, wanted)[0])
        yield from super().read(partition)


_NO_FILTER = (
    "option 'pushdown': expected at least the filter position >= 1 on every query, so that Spark "
    "plans each scan anew, got none; use pyspark_rmqindex.table(), which adds it"
)


def _check_built_in_filter(filters: Sequence[Filter]) -> None:
    """Raise if there is no filter on ``position``, which makes Spark plan each scan anew.

    If a query itself compares ``position`` with a constant, Spark may push that instead.
    """
    if not any(
        column_of(file_slice) == "position" and hasattr(file_slice, "value")
        for file_slice in filters
    ):
        raise ValueError(_NO_FILTER)


def _check_conf() -> None:
    context = TaskContext.get()
    if context is None:
        return
    if context.getLocalProperty(EXECUTION_ID) is None:
        raise ValueError(
            "table(): expected a DataFrame action or SQL, got an RDD action (.rdd, foreach), which "
            "does not let its tasks see whether pushdown is still on; use collect, toLocalIterator "
            "or mapInArrow, or spark.read.format('rmqindex') with the options topic and keys"
        )
    if context.getLocalProperty(_PUSHDOWN_CONF) != "true":
        raise ValueError(
            f"{_PUSHDOWN_CONF}: expected true for as long as a table() is used, got "
            f"{context.getLocalProperty(_PUSHDOWN_CONF)}; rows could be missing. Set it to true "
            "again, or make a fresh table()"
        )


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


@dataclass(frozen=True, slots=True)
class _Check:
    """Compares entries with their messages, and keeps those that are wanted."""

    verifier: MessageCheck
    options: ReadOptions
    times: Range

    def run(
        self, file: IndexFile, file_slice: FileSlice, entries: pa.RecordBatch
    ) -> Iterator[pa.RecordBatch]:
        """Yield the entries to return, with the columns of their messages."""
        for checked in self.verifier.check(file, file_slice, entries):
            batch = _of_pairs(checked) if "bound_key" in checked.schema.names else checked
            ranges = {} if self.times.is_everything else {"store_timestamp": self.times}
            for kept in keep(batch, ranges):
                yield handle_unverified(kept, file_slice, self.options)


def _of_pairs(checked: pa.RecordBatch) -> pa.RecordBatch:
    """Drop hash collisions; an unverified entry is taken to be of the key looked up."""
    kept = of_keys(checked, (checked.column("bound_topic"), checked.column("bound_key")))
    columns = dict(zip(kept.schema.names, kept.columns, strict=True))
    for name in KEY_COLUMNS:
        columns[name] = columns.pop(f"bound_{name}")
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _scan(
    file: IndexFile,
    file_slice: FileSlice,
    query: Query,
    times: Range,
    builder: BatchBuilder,
    check: _Check | None,
) -> Iterator[pa.RecordBatch]:
    ranges = _ranges(query, times if check is None else EVERYTHING)
    needed = [] if check is None else [*VERIFIED_COLUMNS, "time_diff"]
    columns = list(dict.fromkeys([*builder.entry_columns, *ranges, *needed])) or ["position"]
    for batch in file.scan(file_slice.start, file_slice.stop, columns):
        for kept in keep(batch, ranges):
            if check is None:
                yield builder.build(kept, file_slice.name_path)
            else:
                for checked in check.run(
                    file, file_slice, may_hold(kept, check.times.low, check.times.high)
                ):
                    yield builder.build(checked, file_slice.name_path)


def _ranges(query: Query, times: Range) -> dict[str, Range]:
    ranges = {"store_timestamp": times, "phy_offset": query.phy_offset}
    return {name: bounds for name, bounds in ranges.items() if not bounds.is_everything}


class _Lookup:
    """Looks up the same hashes in one file after another."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._texts: dict[str, pa.Array] | None = None
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
        check: _Check | None,
    ) -> Iterator[pa.RecordBatch]:
        ranges = _ranges(self._query, times if check is None else EVERYTHING)
        if file_slice.start > 1 or file_slice.stop < file_slice.limit:
            ranges["position"] = Range(file_slice.start, file_slice.stop - 1)
        for found in keep(file.lookup(self._hashes, file_slice.limit), ranges):
            texts = None
            if self._texts is not None:
                place = found.column("query")
                texts = {name: array.take(place) for name, array in self._texts.items()}
            if check is None:
                yield builder.build(found, file_slice.name_path, texts)
                continue
            bound = found
            for name, text in (texts or {}).items():
                bound = bound.append_column(f"bound_{name}", text)
            for checked in check.run(file, file_slice, bound):
                yield builder.build(checked, file_slice.name_path)
