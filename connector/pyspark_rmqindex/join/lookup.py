"""``lookup()``: takes a DataFrame of keys and returns a row for each matching entry."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from pyspark_rmqindex.files.listing import Listing, list_slices
from pyspark_rmqindex.files.slices import FileSlice  # noqa: TC001  (read by from_json)
from pyspark_rmqindex.files.stores import with_logs
from pyspark_rmqindex.job_names import named_jobs
from pyspark_rmqindex.join.arguments import check_arguments, key_columns, keys_frame
from pyspark_rmqindex.join.summary import LookupSummary, register_lookup
from pyspark_rmqindex.join.task import (
    HOWS,
    KEYS_ONLY,
    STRATEGIES,
    How,
    LookupTask,
    Strategy,
    crossover,
    lookup_cost,
)
from pyspark_rmqindex.log_lines import log_warning
from pyspark_rmqindex.options import (
    AUTO,
    LocalBound,
    option_text,
    planned_bound,
    read_options,
)
from pyspark_rmqindex.read.lacking import lacking
from pyspark_rmqindex.read.plan_log import log_plan
from pyspark_rmqindex.read.planning import prune
from pyspark_rmqindex.schema import KEY_COLUMNS, entry_schema
from pyspark_rmqindex.worker_python import check_worker_python
from rmqindex.commitlog import LogSnapshot  # noqa: TC001  (likewise)
from rmqindex.messagestore import Range, Wanted
from rmqindex.storage import Location, RecordKind, from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from pyspark_rmqindex.options import ReadOptions

# Bytes of the longest listing that a task may answer.
_MAX_ANSWER = 1 << 30

_TIME_ZONE_CONF = "spark.sql.session.timeZone"
# Options of a load that make no sense here, or that have a counterpart among the arguments; and
# these.
_TAKEN = frozenset(
    {
        "audit",
        "key",
        "keycolumns",
        "keyhash",
        "keys",
        "lastplan",
        "maxpartitionbytes",
        "path",
        "paths",
        "pushdown",
        "relation",
        "topic",
    }
)
_ARGUMENTS = ("how", "key", "strategy", "topic")
# How much work justifies a shuffle, nanoseconds; what passing a row through Python costs; and the
# fewest bytes that Spark's statistics count for a row.
_WORTH_SHUFFLING = 2_000_000_000
_ROW_COST = 600
_ROW_BYTES = 24

Path = str | os.PathLike[str]


class SupportsArrow(Protocol):
    """Rows that Arrow can take over, as of pandas, Polars or DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as an Arrow stream."""


def lookup(
    keys: DataFrame | SupportsArrow,
    path: Path | Sequence[Path],
    *,
    topic: str | None = None,
    key: str = "key",
    how: How = "inner",
    strategy: Strategy = "auto",
    **options: Any,  # noqa: ANN401
) -> DataFrame:
    """Look up every key of a DataFrame: a join with an index, for millions of keys.

    Each row of ``keys`` returns one row for every entry of its ``topic`` and ``key``: the columns
    of ``keys``, then those of the entry as in :func:`table`.
    The order of the rows is undefined.
    Both columns must be STRING; a row with NULL in either, or bytes that are not UTF-8, matches
    nothing.
    ``topic="Orders"`` is the topic of all rows, which then need no such column, and
    ``key="order_id"`` names another column of keys.
    If ``keys`` has a TIMESTAMP column ``begin`` or ``end``, a row matches only entries stored
    between the two, both inclusive; NULL means no bound.

    If there is a CommitLog beside the index (``commitLog`` names another place, or ``none``),
    entries are compared with their messages: hash collisions are dropped, ``store_timestamp`` is
    exact, and ``match_state`` is ``verified``, or says why an entry could not be confirmed.
    Without a CommitLog, an entry of a different key with the same hash matches as well.

    The files are listed when this function is called, and each task searches all of them for its
    share of the keys: by hash slot if there are few keys compared with the file's entries, else by
    reading the file once.
    Entries that a broker appends later are not returned; a file replaced meanwhile is an error.

    Args:
        keys: ``topic``, ``key``, optionally ``begin`` and ``end``, and any other columns: a
            DataFrame of Spark, streaming or not; or one of pandas, an Arrow table, or anything else
            with ``__arrow_c_stream__``, for the active session.
        path: An IndexFile, an index directory or a store root that has ``index/``, or several;
            patterns are allowed.
        topic: The topic of all rows; None for the column ``topic``.
        key: The name of the column of keys.
        how: ``inner`` returns matches; ``left`` also returns the rows without a match, with NULL in
            the entry columns; ``anti`` returns only these rows, and ``semi`` only those with a
            match, each once and without entry columns.
        strategy: How files are searched: ``probe`` by the slots of the keys, ``scan`` by reading
            all entries, ``auto`` by whichever is estimated to be faster for each file and task.
        **options: The options of a load, with Python values: ``commitLog="none"``,
            ``message=True``, ``columns="store_timestamp,tags"``, ``mode="DROPMALFORMED"``.

    Returns:
        The DataFrame; no key is read yet.

    Raises:
        ValueError: A bad option; or a column of ``keys`` that is missing, has a wrong type, or has
            the name of an entry column.
        RmqIndexError: A path is missing or is not what it should be.
        TypeError: Keys or a path of another type; a value of a type that no option accepts.
        RuntimeError: Spark's workers, on this host, run a Python that cannot import this package,
            or of another minor version.

    Example:
        >>> lookup(orders, "/data/store", how="anti").count()  # doctest: +SKIP
    """
    check_arguments(keys, path, topic, key)
    _check_choice("how", how, HOWS)
    _check_choice("strategy", strategy, STRATEGIES)
    keys = keys_frame(keys)
    checked = _read_options(keys, path, options)
    columns = key_columns(keys.schema, topic, key)
    entry_columns = _entry_columns(checked, how)
    schema = keys.schema if how in KEYS_ONLY else _both(keys.schema, entry_columns)
    times = _times(checked)
    check_worker_python(keys.sparkSession, plans=False)
    listing = _list_files(keys, checked)
    slices = prune(listing.slices, Wanted(time=Range() if checked.has_log else times))
    if times.is_empty:
        slices = []
    _log(slices, listing, strategy, checked)
    entries = sum(file_slice.limit - file_slice.start for file_slice in slices)
    summary = LookupSummary(strategy, len(slices), listing.total, entries)
    name, tally = register_lookup(keys.sparkSession, summary)
    task = LookupTask(
        slices=tuple(slices),
        options=checked,
        columns=columns,
        schema=entry_columns,
        how=how,
        strategy=strategy,
        times=times,
        name=name,
        tally=tally,
    )
    # Spark would look the columns up by their names, which may be no names of one column.
    by_place = _spread(keys, slices, listing).toDF(*(f"c{at}" for at in range(len(keys.columns))))
    return by_place.mapInArrow(task, schema)


def _check_choice(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{name}: expected one of {', '.join(allowed)}, got {value!r}")


def _read_options(
    keys: DataFrame, path: Path | Sequence[Path], options: dict[str, Any]
) -> ReadOptions:
    """Check the options; unlike a load, a lookup searches for a CommitLog by default."""
    for name in options:
        if name.lower() in _TAKEN:
            raise ValueError(f"option {name!r}: not for lookup(), which takes its keys from rows")
    given = {name: option_text(name, value) for name, value in options.items() if value is not None}
    names = {name.lower() for name in given}
    if "commitlog" not in names:
        given["commitLog"] = AUTO
    if "timezone" not in names and names & {"begintimestamp", "endtimestamp"}:
        # Without it, a text that names no zone is refused, with what to give.
        with contextlib.suppress(PySparkException):
            given["timeZone"] = str(keys.sparkSession.conf.get(_TIME_ZONE_CONF))
    if isinstance(path, (str, os.PathLike)):
        given["path"] = os.fspath(path)
    else:
        given["paths"] = json.dumps([os.fspath(each) for each in path])
    checked = read_options(given, without=_TAKEN, arguments=_ARGUMENTS)
    if not all(checked.paths) or not checked.paths:
        raise ValueError("path: expected at least one, got none")
    return checked


def _entry_columns(options: ReadOptions, how: How) -> StructType:
    for name in options.columns or ():
        if how in KEYS_ONLY:
            raise ValueError(
                f"option 'columns': not with how={how!r}, which returns the columns of the keys"
            )
        if name.lower() in KEY_COLUMNS:
            raise ValueError(
                f"option 'columns': {name!r} is a column of the keys, which are returned anyway; "
                "leave it out"
            )
    return entry_schema(
        options.columns,
        keys=False,
        log=options.has_log,
        message=options.message,
        store=options.has_store,
        text=options.body_text,
    )


def _both(keys: StructType, entries: StructType) -> StructType:
    taken = set(entries.names)
    for name in keys.names:
        if name.lower() in taken:
            raise ValueError(
                f"column {name!r} of the keys: the entries that are found have a column of this "
                f"name; rename yours first: keys.withColumnRenamed({name!r}, 'my_{name}'), or name "
                "the columns of the entry that you need: columns='phy_offset,store_timestamp'"
            )
    return StructType([*keys.fields, *entries.fields])


def _times(options: ReadOptions) -> Range:
    begin, end = planned_bound(options.begin, up=True), planned_bound(options.end, up=False)
    return Range(_known(begin), _known(end))


def _known(bound: int | LocalBound | None) -> int | None:
    """Return a bound, which is local only where the session's zone could not be read."""
    if not isinstance(bound, LocalBound):
        return bound
    raise ValueError(
        "options 'beginTimestamp' and 'endTimestamp': the session's time zone cannot be read, so "
        f"{bound.time.text!r} has no meaning; give the option 'timeZone', a zone in the text, or "
        "epoch milliseconds"
    )


def _list_files(keys: DataFrame, options: ReadOptions) -> Listing:
    """List the files on the driver or, with Spark Connect, in a task."""
    if getattr(keys, "_jdf", None) is not None:
        return _list(options)
    # A Spark Connect client may not have access to the files.
    only = keys.sparkSession.range(0, 1, 1, 1)
    with named_jobs(keys.sparkSession, f"rmqindex lookup in {options.paths[0]}: list files"):
        answer = only.mapInArrow(partial(_list_in_task, options), "listing STRING").collect()
    answer_of = {Location: options.storage.at}
    kind = RecordKind(
        "the listing of a task",
        lambda fields: from_json(_ListingAnswer, fields.values, answer_of),
        "run the lookup again",
        limit=_MAX_ANSWER,
    )
    return kind.parse("lookup", answer[0][0].encode()).listing()


def _list(options: ReadOptions) -> Listing:
    listing = list_slices(options)
    if options.commit_log is None:
        return listing
    return listing._replace(
        slices=with_logs(listing.slices, options.commit_log),
        lacking=(*listing.lacking, *lacking(listing.slices, options)),
    )


@dataclass(frozen=True, slots=True)
class _ListingAnswer:
    """A listing, for JSON: each log once, and its number in place of it in the slices."""

    slices: tuple[FileSlice, ...]
    logs: tuple[LogSnapshot, ...]
    log_numbers: tuple[int | None, ...]
    total: int
    is_remote: bool
    lacking: tuple[str, ...]

    @classmethod
    def of(cls, listing: Listing) -> _ListingAnswer:
        slice_logs = [file_slice.commit_log for file_slice in listing.slices]
        logs = list({log.path: log for log in slice_logs if log is not None}.values())
        numbers = {log.path: number for number, log in enumerate(logs)}
        return cls(
            tuple(replace(file_slice, commit_log=None) for file_slice in listing.slices),
            tuple(logs),
            tuple(None if log is None else numbers[log.path] for log in slice_logs),
            listing.total,
            listing.is_remote,
            listing.lacking,
        )

    def listing(self) -> Listing:
        slices = [
            file_slice if number is None else replace(file_slice, commit_log=self.logs[number])
            for file_slice, number in zip(self.slices, self.log_numbers, strict=True)
        ]
        return Listing(slices, self.total, self.is_remote, self.lacking)


def _list_in_task(
    options: ReadOptions, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        listing = _list(options)
        text = json.dumps(to_json(_ListingAnswer.of(listing)))
        yield pa.record_batch([pa.array([text], pa.string())], names=["listing"])


def _log(
    slices: Sequence[FileSlice], listing: Listing, strategy: Strategy, options: ReadOptions
) -> None:
    """Log the plan, with the number of keys from which on files are scanned."""
    ways = f"by {strategy}"
    if strategy == "auto" and options.mode == "DROPMALFORMED":
        ways = "by scan, since mode is DROPMALFORMED"
    elif strategy == "auto" and slices:
        edges = [
            crossover(file_slice, remote=file_slice.path.local is None) for file_slice in slices
        ]
        low, high = min(edges), max(edges)
        ways = (
            f"by slots up to {low if low == high else f'{low} to {high}'} distinct hashes a task, "
            "by scan beyond"
        )
    entries = sum(file_slice.limit - file_slice.start for file_slice in slices)
    log_plan(
        f"looking up the keys of a DataFrame in {len(slices)} of {listing.total} files "
        f"({entries} entries), {ways}",
        options.log_level,
    )
    for text in listing.lacking:
        log_warning(text)


def _spread(keys: DataFrame, slices: Sequence[FileSlice], listing: Listing) -> DataFrame:
    """Repartition the keys if there are fewer tasks than cores and the work is worth a shuffle.

    This can be decided only in a classic session, for a DataFrame without a shuffle of its own.
    """
    java_frame = getattr(keys, "_jdf", None)
    if java_frame is None or keys.isStreaming:
        return keys
    execution = java_frame.queryExecution()
    # Adaptive execution decides the partitions of a shuffle only at run time.
    if "Exchange" in execution.executedPlan().toString():
        return keys
    cores = keys.sparkSession.sparkContext.defaultParallelism
    if execution.toRdd().getNumPartitions() >= cores:
        return keys
    rows = int(str(execution.optimizedPlan().stats().sizeInBytes())) // _ROW_BYTES
    if lookup_cost(rows, slices, remote=listing.is_remote) + rows * _ROW_COST < _WORTH_SHUFFLING:
        return keys
    return keys.repartition(cores)
