"""Gone with Spark 5.0: the reader of a ``table()`` whose scans share one plan."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark import TaskContext

from pyspark_rmqindex.files.listing import list_slices
from pyspark_rmqindex.options import EXECUTION_ID
from pyspark_rmqindex.read.filters import column_of, filters_to_wanted
from pyspark_rmqindex.read.plan_leak import is_on_cluster, locked_state, wanted_by_all
from pyspark_rmqindex.read.planning import IndexPartition, Query, query_of
from pyspark_rmqindex.read.reader import IndexReader
from pyspark_rmqindex.spark_version import WITHOUT_PUSHDOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import Filter, InputPartition
    from pyspark.sql.types import StructType

    from pyspark_rmqindex.options import ReadOptions
    from pyspark_rmqindex.read.plan_leak import PlanId

_PUSHDOWN_CONF = "spark.sql.python.filterPushdown.enabled"
_NO_FILTER = (
    "option 'pushdown': expected at least the filter position >= 1 on every query, so that Spark "
    "plans each scan anew, got none; use pyspark_rmqindex.table(), which adds it"
)
_NEVER_CALLED = (
    "table(): expected a runtime that passes filters to data sources, got one that never calls "
    f"pushFilters, as Databricks Runtime 16.4; {WITHOUT_PUSHDOWN}"
)


@dataclass
class SharedPartition(IndexPartition):
    """The work of one task, and the plan that it is of."""

    plan: PlanId


class SharedPlanReader(IndexReader):
    """Pushes the WHERE of a ``table()`` down, beside those of all earlier scans of the relation."""

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
        self._planned: list[SharedPartition] | None = None

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
            widened = state.widen(wanted, calls)
            listing = list_slices(self._options, widened.stores)
            partitions = self._plan(listing, widened, filters)
            digest = hashlib.sha256(repr(listing.slices).encode("utf-8", "replace")).hexdigest()
            plan = state.plan_of(digest)
            # Even if there is nothing to read, a task must run to check its plan.
            self._planned = [
                SharedPartition(partition.slices, partition.query, plan)
                for partition in partitions or [IndexPartition((), Query())]
            ]
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """Return the planned partitions."""
        if self._planned is None:
            raise ValueError(_NEVER_CALLED)
        return self._planned

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the slices of one task."""
        _check_conf()
        if self._state is not None and isinstance(partition, SharedPartition):
            wanted = wanted_by_all(self._state, partition.plan)
            if wanted is not None:
                partition = replace(partition, query=query_of(self._options, wanted)[0])
        yield from super().read(partition)


def _check_built_in_filter(filters: Sequence[Filter]) -> None:
    """Raise if there is no filter on ``position``, which makes Spark plan each scan anew.

    If a query itself compares ``position`` with a constant, Spark may push that instead.
    """
    if not any(
        column_of(filter_) == "position" and hasattr(filter_, "value") for filter_ in filters
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
