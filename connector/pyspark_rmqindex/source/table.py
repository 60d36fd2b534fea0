"""``table()``: a DataFrame whose WHERE uses the hash slots; ``last_plan()``: how it was planned."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from pyspark_rmqindex.join.summary import LookupSummary, summary_of
from pyspark_rmqindex.options import option_text
from pyspark_rmqindex.read.plan_leak import BUILT_IN_FILTER, relation_name
from pyspark_rmqindex.read.plan_log import ScanPlan, plan_from_schema
from pyspark_rmqindex.source.catalog import relation_options
from pyspark_rmqindex.spark_version import WITHOUT_PUSHDOWN, check_pushdown_support
from pyspark_rmqindex.worker_python import check_worker_python

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from pyspark_rmqindex.messages.reader import MessagePlan


_FORMAT = "rmqindex"
# Those that record what they read.
_FORMATS = frozenset({_FORMAT, "rmqcommitlog"})
_PUSHDOWN_CONF = "spark.sql.python.filterPushdown.enabled"
_TIME_ZONE_CONF = "spark.sql.session.timeZone"

Path = str | os.PathLike[str]


def table(
    spark: SparkSession,
    path: Path | Sequence[Path],
    *,
    keys: bool = True,
    **options: Any,  # noqa: ANN401
) -> DataFrame:
    """Return IndexFiles as a DataFrame whose WHERE is pushed down.

    With ``keys=True``, a query must bind both ``topic`` and ``key`` with ``=``, ``<=>`` or ``IN``.
    Every pair of the two is looked up by its hash slot, and the columns hold the bound values.
    A query that does not bind both fails, with an error that says what to write instead.
    With ``keys=False``, there are no columns ``topic`` and ``key`` and nothing must be bound;
    ``key_hash``, ``store_timestamp``, ``phy_offset`` and ``position`` are pushed down.

    The DataFrame can be reused, used in a UNION, joined with itself and registered as a view; every
    query returns the rows that a full scan and a filter would return.
    Up to Spark 4.3, use one ``table()`` or view per thread, and a fresh one now and then: each
    repeats all its earlier lookups, up to 4,096 pairs.

    If there is a CommitLog beside the index (``commitLog`` names another place, or ``none``),
    entries are compared with their messages: hash collisions are dropped, ``store_timestamp`` is
    exact, and ``match_state`` is ``verified``, or says why an entry could not be confirmed.
    Without one, a different key with the same hash is found as well.

    This function turns on ``spark.sql.python.filterPushdown.enabled`` for the session, and it must
    stay on.
    On Spark 4.1 to 4.3, other Python data sources that accept filters may then return wrong rows.

    Args:
        spark: The session, classic or Spark Connect.
        path: An IndexFile, an index directory or a store root that has ``index/``, or several;
            patterns are allowed.
        keys: Whether ``topic`` and ``key`` are columns.
        **options: The options of the data source, with Python values:
            ``maxHashSlotNum=97``, ``ignoreMissingFiles=True``.

    Returns:
        The DataFrame; nothing is read yet.

    Raises:
        ValueError: An option that ``table()`` sets itself, or PySpark is older than 4.1, or the
            session lets nobody turn pushdown on, as on Databricks serverless; an unknown option
            raises Spark's ``AnalysisException``.
        TypeError: A value of a type that no option accepts, or a path that is none.
        RuntimeError: Spark's workers run a Python that cannot import this package, or of another
            minor version.
    """
    check_pushdown_support("table()")
    paths = _texts_of(path)
    reserved = {"path", "paths", "pushdown", "keycolumns", "relation"}
    for name in options:
        if name.lower() in reserved:
            raise ValueError(f"option {name!r}: table() sets it itself")
    given = {name: option_text(name, value) for name, value in options.items() if value is not None}
    names = {name.lower() for name in given}
    check_worker_python(spark, plans=True)
    try:
        spark.conf.set(_PUSHDOWN_CONF, "true")
    except PySparkException as error:
        raise ValueError(
            f"table(): expected a session in which {_PUSHDOWN_CONF} can be set, got {error}; "
            f"{WITHOUT_PUSHDOWN}"
        ) from error
    if "timezone" not in names and names & {"begintimestamp", "endtimestamp"}:
        given["timeZone"] = str(spark.conf.get(_TIME_ZONE_CONF))
    reader = (
        spark.read.format(_FORMAT)
        .options(**given)
        .option("pushdown", "true")
        .option("keyColumns", option_text("keyColumns", keys))
        .option("relation", relation_name(_master(spark)))
    )
    if not isinstance(paths, str):  # as Spark hands a list over, and Sail does not
        return reader.option("paths", json.dumps(paths)).load().where(BUILT_IN_FILTER)
    return reader.load(paths).where(BUILT_IN_FILTER)


def _master(spark: SparkSession) -> str:
    """Return where tasks run, as Spark writes it; empty where it does not say."""
    return str(spark.conf.get("spark.master", "") or "")


def _texts_of(path: Path | Sequence[Path]) -> str | list[str]:
    if isinstance(path, (str, os.PathLike)):
        return os.fspath(path)
    try:
        return [os.fspath(each) for each in path]
    except TypeError:
        raise TypeError(f"path: expected a path, or a list of paths, got {path!r}") from None


def last_plan(df: DataFrame) -> ScanPlan | MessagePlan | LookupSummary | None:
    """Return the last plan for reading the files of a DataFrame, of entries or of messages.

    For a DataFrame of ``lookup()``, it is what its tasks have done until now.

    EXPLAIN cannot show it: Spark filters again after every scan, so it lists nothing as pushed.
    If nothing was planned yet on that ``table()`` or ``load()``, this DataFrame is planned, but not
    run.

    Args:
        df: A DataFrame over one ``table()``, ``load()`` or ``lookup()``; with Spark Connect, one
            over a ``table()`` or ``load()`` on which a query has run, not over SQL or a view.

    Returns:
        The plan of the latest query on that ``table()`` or ``load()``; None if Spark planned
        this DataFrame without reading any file, as for a WHERE that is never true.

    Raises:
        ValueError: The DataFrame reads no IndexFiles and no messages, or several relations; or,
            with Spark Connect, it is over SQL or a view, or nothing was read yet.
        AnalysisException: Nothing was planned yet, and planning this DataFrame fails.
        TypeError: Anything else than a DataFrame.
    """
    if not isinstance(df, DataFrame):
        raise TypeError(f"last_plan: expected a DataFrame, got {type(df).__name__}")
    java_frame = getattr(df, "_jdf", None)
    if java_frame is None:
        return _plan_of_connect(df)
    analyzed = java_frame.queryExecution().analyzed()
    lookups = summary_of(analyzed)
    if len(lookups) == 1:
        return lookups[0]
    leaves = analyzed.collectLeaves()
    relations = {}
    for place in range(leaves.size()):
        found = _relation(leaves.apply(place))
        if found is not None:
            name, options = found
            relations[name, tuple(sorted(options.items()))] = found
    _check_one(len(lookups) + len(relations))
    relation = next(iter(relations.values()))
    plan = _recorded_plan(df.sparkSession, *relation)
    if plan is None:
        # This plans the pushdown. The scans themselves are asked only if that was not enough,
        # because asking binds them to the current plan.
        physical = java_frame.queryExecution().executedPlan()
        plan = _recorded_plan(df.sparkSession, *relation)
        if plan is None:
            _plan_scans(physical)
            plan = _recorded_plan(df.sparkSession, *relation)
    return plan


def _check_one(count: int) -> None:
    if count != 1:
        got = f"one over {count} of them" if count else "one that reads no store"
        raise ValueError(
            f"last_plan: expected a DataFrame over one table(), load() or lookup(), got {got}"
        )


def _plan_of_connect(df: DataFrame) -> ScanPlan | MessagePlan:
    """Ask the server for the plan of the one load in a DataFrame's plan."""
    loads = loads_of(df)
    if loads is None:
        raise ValueError(
            "last_plan: expected a DataFrame made from table() or load(), got one over SQL, a "
            "table or a view, of which only the server of Spark Connect knows what it reads; see "
            "its log, with logLevel=INFO"
        )
    loads = {load for load in loads if load.name in _FORMATS}
    _check_one(len(loads))
    (load,) = loads
    asked = df.sparkSession.read.format(load.name).options(**dict(load.options))
    asked = asked.option("lastPlan", "true")
    match load.paths:
        case ():
            schema = asked.load().schema
        case (path,):
            schema = asked.load(path).schema
        case paths:
            schema = asked.load(list(paths)).schema
    plan = plan_from_schema(schema)
    if plan is None:
        raise ValueError(
            "last_plan: nothing was read yet through this table() or load(); with Spark Connect, "
            "run a query first"
        )
    return plan


def _plan_scans(physical: Any) -> None:  # noqa: ANN401  (a Java object)
    """Make Spark plan the partitions of every scan, which it would otherwise do at run time."""
    leaves = physical.collectLeaves()
    for place in range(leaves.size()):
        leaf = leaves.apply(place)
        kind = leaf.getClass().getSimpleName()
        if kind == "AdaptiveSparkPlanExec":
            _plan_scans(leaf.initialPlan())
        elif kind == "BatchScanExec":
            leaf.inputPartitions()


def _recorded_plan(
    spark: SparkSession, name: str, options: dict[str, str]
) -> ScanPlan | MessagePlan | None:
    """Ask a planning process for a plan, since plans are kept in those processes' directory."""
    asked = spark.read.format(name).options(**options).option("lastPlan", "true")
    return plan_from_schema(asked.load().schema)


def _relation(leaf: Any) -> tuple[str, dict[str, str]] | None:  # noqa: ANN401  (a Java object)
    """Return a leaf's format and options (for a catalog table, the stored ones) if it has plans."""
    if leaf.getClass().getSimpleName() != "DataSourceV2Relation":
        return None
    name = str(leaf.table().name())
    if name not in _FORMATS:
        return None
    columns = StructType.fromJson(json.loads(leaf.schema().json()))  # noqa: TID251  (from Spark)
    return name, relation_options(columns, dict(leaf.options().asCaseSensitiveMap()))


@dataclass(frozen=True, slots=True)
class ConnectLoad:
    """A load, as the client has it."""

    name: str
    options: tuple[tuple[str, str], ...]
    paths: tuple[str, ...]


def loads_of(df: DataFrame) -> set[ConnectLoad] | None:
    """Return the loads in a DataFrame's plan."""
    client_frame: Any = df
    plan = client_frame._plan.to_proto(df.sparkSession.client)  # noqa: SLF001  (there is no other way)
    found = list(_messages(plan))
    names = {type(each).__name__ for each in found}
    if names & {"NamedTable", "SQL", "SqlCommand", "CachedRemoteRelation"}:
        return None
    return {
        ConnectLoad(each.format, tuple(sorted(each.options.items())), tuple(each.paths))
        for each in found
        if type(each).__name__ == "DataSource"
    }


def _messages(message: Any) -> Iterator[Any]:  # noqa: ANN401  (of protobuf)
    yield message
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        # Which fields are repeated is asked in different ways by versions of protobuf.
        for each in [value] if hasattr(value, "ListFields") else value:
            yield from _messages(each)
