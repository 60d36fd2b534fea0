"""The lines that read a CommitLog: messages, and entries compared with their messages."""

from __future__ import annotations

import shutil
import statistics
from typing import TYPE_CHECKING

from benchmarks._data import read_through
from benchmarks._rounds import Comparison, Goal, compared, interleaved, timed
from rmqindex import CommitLog
from rmqindex.export import DEFAULT_COLUMNS, export_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

    from benchmarks._context import Context

__all__ = ["export", "messages", "verified"]

# What an index is built from.
_REBUILD = (
    "topic STRING, uniq_key STRING, keys STRING, sys_flag INT, phy_offset BIGINT, "
    "store_timestamp TIMESTAMP"
)
_RATE = "M/s a core"


def messages(context: Context) -> Iterator[Comparison]:
    """Read the columns that a rebuild needs."""
    store = context.store()
    read = context.spark.read.format("rmqcommitlog").schema(_REBUILD).load(str(store))
    size = context.sizes.messages * context.sizes.message_sizes[0] / 2**30
    yield _rate(
        context,
        read,
        context.sizes.messages,
        [store / "commitlog"],
        f"read a log of {size:.2g} GiB through Spark, messages of 1 KiB, a rebuild's columns",
        Goal(1, unit=_RATE),
    )


def verified(context: Context) -> Iterator[Comparison]:
    """Scan an index and compare every entry with its message."""
    store = context.store()
    read = context.spark.read.format("rmqindex").option("commitLog", "auto").load(str(store))
    entries = 2 * context.sizes.messages
    yield _rate(
        context,
        read,
        entries,
        [store / "commitlog", store / "index"],
        f"scan {entries:,} entries through Spark, each verified against its message",
        Goal(1.5, unit=_RATE),
    )


def export(context: Context) -> Iterator[Comparison]:
    """Write every message of a log to Parquet."""
    store = context.store()
    target = context.work / "exported"
    columns = ", ".join(DEFAULT_COLUMNS)
    rows = context.spark.read.format("rmqcommitlog").option("columns", columns).load(str(store))

    def ours() -> float:
        shutil.rmtree(target, ignore_errors=True)
        with CommitLog(store) as log:
            return timed(lambda: export_messages(log, target))()

    def theirs() -> float:
        return timed(lambda: rows.write.mode("overwrite").parquet(str(target)))()

    against = "Spark's own write of the same rows, on two cores"
    yield compared(
        interleaved({"rmqindex": ours, against: theirs}, context.sizes.slow_rounds),
        "rmqindex",
        against,
        work=f"export {context.sizes.messages:,} messages of 1 KiB to Parquet",
        goal=Goal(1),
        rows=context.sizes.messages,
    )
    shutil.rmtree(target)


def _rate(
    context: Context, read: DataFrame, rows: int, folders: list[Path], work: str, goal: Goal
) -> Comparison:
    """Measure how many rows a second a core are read, beside reading the same bytes."""
    times = interleaved(
        {
            "rmqindex": timed(lambda: read.write.format("noop").mode("overwrite").save()),
            "bytes": _reading(folders),
        },
        context.sizes.rounds,
    )
    cores = context.cores
    return Comparison(
        work=work,
        against="reading the same bytes into memory, one thread",
        figure=statistics.median(rows / seconds / cores / 1e6 for seconds in times["rmqindex"]),
        goal=goal,
        ours=statistics.median(times["rmqindex"]),
        theirs=statistics.median(times["bytes"]),
        rows=rows,
        note=f"the figure is a rate, on {cores} cores",
    )


def _reading(folders: list[Path]) -> Callable[[], float]:
    def read() -> None:
        for folder in folders:
            for path in folder.iterdir():
                read_through(path)

    return timed(read)
