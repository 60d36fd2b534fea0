"""The readers: planning on the driver's host, reading in the tasks."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader

from pyspark_rmqindex._batches import BatchBuilder, keep, merge
from pyspark_rmqindex._filters import Range, Wanted, filter_text, filters_to_wanted
from pyspark_rmqindex._listing import list_slices, open_slice
from pyspark_rmqindex._partitions import IndexPartition, LocalBound, Query
from pyspark_rmqindex._planning import Packing, apportion, matching_pairs, prune
from pyspark_rmqindex._pushdown_state import check_generation, locked_state
from pyspark_rmqindex._record import ScanPlan, log_plan, record_plan
from pyspark_rmqindex._times import MILLISECOND, LocalTime, system_zone
from rmqindex import index_key_hashes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql.datasource import Filter, InputPartition
    from pyspark.sql.types import StructType

    from pyspark_rmqindex._options import ReadOptions
    from pyspark_rmqindex._partitions import FileSlice
    from rmqindex import IndexFile

__all__ = ["IndexReader", "PushdownReader"]

_PUSHDOWN_CONF = "spark.sql.python.filterPushdown.enabled"
_EXECUTION_ID = "spark.sql.execution.id"
_TIME_ZONE_CONF = "spark.sql.session.timeZone"
_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")


class IndexReader(DataSourceReader):
    """Reads what the options ask for.

    It does not take filters: Spark would refuse it wherever the pushdown conf is off, and a plan
    that narrows is not safe to share between the scans of one ``load()``.
    """

    def __init__(
        self, options: ReadOptions, schema: StructType, raw_options: dict[str, str]
    ) -> None:
        """Keep what was asked.

        Args:
            options: The options, checked.
            schema: The requested columns, checked.
            raw_options: The options as Spark passed them, by which the plan is recorded.
        """
        self._options = options
        self._schema = schema
        self._raw_options = raw_options

    def partitions(self) -> Sequence[InputPartition]:
        """List the files and divide the work.

        Raises:
            RmqIndexError: A path is missing or is not what it should be.
        """
        options = self._options
        pairs, hashes = options.pairs, options.key_hashes
        if pairs is not None and hashes is not None:
            pairs, hashes = matching_pairs(pairs, hashes), None
        return self._plan(
            Wanted(
                pairs=None if pairs is None else frozenset(pairs),
                key_hashes=None if hashes is None else frozenset(hashes),
            ),
            (),
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the slices of one task.

        Raises:
            CorruptIndexError: Malformed bytes, in the mode ``FAILFAST``.
            RmqIndexError: A file is not the planned one any more.
            ValueError: A local time whose zone cannot be known.
        """
        if not isinstance(partition, IndexPartition):
            return  # Spark runs one task where there is nothing to read
        query = partition.query
        times = query.time & Range(_placed(query.begin, up=True), _placed(query.end, up=False))
        if times.is_empty:
            return
        yield from merge(self._batches(partition, times))

    def _batches(self, partition: IndexPartition, times: Range) -> Iterator[pa.RecordBatch]:
        query = partition.query
        builder = BatchBuilder(self._schema)
        finder = _Lookup(query) if query.is_lookup else None
        for each in partition.slices:
            opened = open_slice(each, self._options)
            if opened is None:
                continue
            with opened as file:
                if finder is None:
                    yield from _scan(file, each, query, times, builder)
                else:
                    yield from finder.find(file, each, times, builder)

    def _plan(self, wanted: Wanted, filters: Sequence[Filter]) -> list[IndexPartition]:
        """Make the partitions, and show what they are."""
        options = self._options
        begin, end = _bound(options.begin, up=True), _bound(options.end, up=False)
        # A local time may lie anywhere within the widest zones, as far as is known here.
        wanted = replace(
            wanted,
            time=wanted.time
            & Range(
                begin if isinstance(begin, int) else None,
                -(-end.time.latest // MILLISECOND) if isinstance(end, LocalBound) else end,
            ),
        )
        query = Query(
            pairs=None if wanted.pairs is None else tuple(sorted(wanted.pairs)),
            key_hashes=None if wanted.key_hashes is None else tuple(sorted(wanted.key_hashes)),
            time=wanted.time,
            phy_offset=wanted.phy_offset,
            begin=begin if isinstance(begin, LocalBound) else None,
            end=end if isinstance(end, LocalBound) else None,
        )
        files, total, remote = list_slices(options)
        slices = prune(files, wanted)
        packing = Packing(options.max_partition_bytes, 4 * 2**20 if remote else 2**18)
        partitions = apportion(slices, query, packing)
        plan = ScanPlan(
            pairs=query.pairs,
            key_hashes=query.key_hashes,
            filters=tuple(filter_text(each) for each in filters),
            files_kept=len(slices),
            files_total=total,
            entries=sum(each.stop - each.start for each in slices),
            partitions=len(partitions),
        )
        log_plan(plan, options.log_level)
        record_plan(self._raw_options, plan)
        return partitions


class PushdownReader(IndexReader):
    """The reader of ``table()``: WHERE is pushed down to slots, entries and files."""

    def __init__(
        self,
        options: ReadOptions,
        schema: StructType,
        raw_options: dict[str, str],
        state: str | None,
    ) -> None:
        """Keep what was asked.

        Args:
            options: The options, checked.
            schema: The requested columns, checked.
            raw_options: The options as Spark passed them, by which the plan is recorded.
            state: Where the relation's earlier plannings are kept.
        """
        super().__init__(options, schema, raw_options)
        self._state = state
        self._arrival = time.monotonic()
        self._planned: list[IndexPartition] | None = None

    def __getstate__(self) -> dict[str, object]:
        """Leave the plan out: it travels in the partitions, each with its own part."""
        return {**self.__dict__, "_planned": None}

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802  (Spark's name)
        """Plan what these filters and those of every earlier planning of the relation ask for.

        Args:
            filters: What Spark pushes down.

        Returns:
            All of them: another scan of the relation may run with this plan, so Spark must filter
            again.

        Raises:
            ValueError: ``topic`` and ``key`` are not bound, or too many pairs are; or the
                relation was not made by ``table()``.
        """
        _check_built_in_filter(filters)
        wanted = filters_to_wanted(filters, keys=self._options.key_columns)
        if self._state is None:
            raise ValueError("option 'pushdown': this relation has no record of its queries")
        with locked_state(self._state, self._arrival) as state:
            partitions = self._plan(state.widen(wanted), filters)
            # Even where there is nothing to read, a task must be able to judge its plan.
            self._planned = [
                replace(each, generation=state.generation)
                for each in partitions or [IndexPartition((), Query())]
            ]
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """Return what was planned.

        Raises:
            ValueError: No filter was pushed down.
        """
        if self._planned is None:
            raise ValueError(_NO_FILTER)
        return self._planned

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the slices of one task.

        Raises:
            ValueError: The pushdown conf was turned off since the plan was made, or two queries
                were planned at once, so that Spark may have given this scan the plan of another.
        """
        _check_conf()
        if self._state is not None and isinstance(partition, IndexPartition):
            check_generation(self._state, partition.generation)
        yield from super().read(partition)


_NO_FILTER = (
    "option 'pushdown': expected at least the filter position >= 1 on every query, so that Spark "
    "plans each scan anew, got none; use pyspark_rmqindex.table(), which adds it, or leave the "
    "option out"
)


def _check_built_in_filter(filters: Sequence[Filter]) -> None:
    """Refuse a relation without the filter on ``position`` that makes Spark plan each scan anew.

    Where a query itself compares ``position`` with a constant, Spark may push that instead.
    """
    if not any(
        getattr(each, "attribute", None) == ("position",) and hasattr(each, "value")
        for each in filters
    ):
        raise ValueError(_NO_FILTER)


def _check_conf() -> None:
    context = TaskContext.get()
    if context is None:
        return
    if context.getLocalProperty(_EXECUTION_ID) is None:
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


def _bound(bound: int | LocalTime | None, *, up: bool) -> int | LocalBound | None:
    """Return an option's bound as milliseconds, or as what a task needs to find them."""
    if bound is None:
        return None
    if isinstance(bound, int):
        return _whole(bound, up=up)
    zone = system_zone()
    return LocalBound(bound, None if zone is None else bound.in_zone(zone))


def _placed(bound: LocalBound | None, *, up: bool) -> int | None:
    """Return a local bound as milliseconds, in the session's time zone."""
    if bound is None:
        return None
    context = TaskContext.get()
    name = context.getLocalProperty(_TIME_ZONE_CONF) if context is not None else None
    if name is not None:
        return _whole(bound.time.in_zone(name), up=up)
    # Without the conf a session has the JVM's zone; that is the host's if nobody changed it, and
    # if the properties were passed to this task at all.
    if (
        context is None
        or context.getLocalProperty(_EXECUTION_ID) is None
        or any(
            "user.timezone" in (context.getLocalProperty(option) or "") for option in _JAVA_OPTIONS
        )
        or bound.in_system_zone is None
    ):
        raise ValueError(
            f"options 'beginTimestamp' and 'endTimestamp': the session's time zone is not known "
            f"here, so {bound.time.text!r} has no meaning; give the option 'timeZone', a zone in "
            f"the text, or epoch milliseconds, or set {_TIME_ZONE_CONF}"
        )
    return _whole(bound.in_system_zone, up=up)


def _whole(micros: int, *, up: bool) -> int:
    """Return whole milliseconds: the next ones up or down."""
    return -(-micros // MILLISECOND) if up else micros // MILLISECOND


def _scan(
    file: IndexFile, each: FileSlice, query: Query, times: Range, builder: BatchBuilder
) -> Iterator[pa.RecordBatch]:
    ranges = _ranges(query, times)
    columns = list(dict.fromkeys([*builder.entry_columns, *ranges])) or ["position"]
    for batch in file.scan(each.start, each.stop, columns):
        for kept in keep(batch, ranges):
            yield builder.build(kept, each.name_path)


def _ranges(query: Query, times: Range) -> dict[str, Range]:
    """Return the ranges that restrict anything, by column."""
    ranges = {"store_timestamp": times, "phy_offset": query.phy_offset}
    return {name: bounds for name, bounds in ranges.items() if not bounds.is_everything}


class _Lookup:
    """Looks the same hashes up in one file after the other."""

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
        self, file: IndexFile, each: FileSlice, times: Range, builder: BatchBuilder
    ) -> Iterator[pa.RecordBatch]:
        ranges = _ranges(self._query, times)
        if each.start > 1 or each.stop < each.limit:
            ranges["position"] = Range(each.start, each.stop - 1)
        for found in keep(file.lookup(self._hashes, each.limit), ranges):
            texts = None
            if self._texts is not None:
                place = found.column("query")
                texts = {name: array.take(place) for name, array in self._texts.items()}
            yield builder.build(found, each.name_path, texts)
