"""The lines through Spark: scans, lookups and writes, against its floors and against Parquet."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as sf

from benchmarks._data import TOPIC, key_strings, make_file, read_through
from benchmarks._floor import load_floor
from benchmarks._memory import anonymous_bytes_above_idle
from benchmarks._rounds import Comparison, Goal, compared, interleaved, timed
from pyspark_rmqindex import table, write_index
from rmqindex import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

    from benchmarks._context import Context

__all__ = ["many_files", "memory", "one_key", "scan", "scan_default", "write", "write_sorted"]

_FOUR = "key_hash INT, phy_offset BIGINT, store_timestamp TIMESTAMP, position INT"
_SMALL = Layout(1_000, 4_000)
_SMALL_ENTRIES = 1_000


def _noop(df: DataFrame) -> Callable[[], float]:
    return timed(lambda: df.write.format("noop").mode("overwrite").save())


def _floor(context: Context, like: DataFrame) -> DataFrame:
    return load_floor(like, context.sizes.rows, like.rdd.getNumPartitions())


def scan(context: Context) -> Iterator[Comparison]:
    """Scan four columns."""
    ours = context.spark.read.format("rmqindex").schema(_FOUR).load(str(context.index))
    columns = ours.columns
    measured = interleaved(
        {
            "rmqindex": _noop(ours),
            "the transport floor": _noop(_floor(context, ours)),
            "Parquet": _noop(context.spark.read.parquet(str(context.entries)).select(columns)),
        },
        context.sizes.rounds,
    )
    for theirs, goal in (("the transport floor", 0.85), ("Parquet", 1.2)):
        yield compared(
            measured,
            "rmqindex",
            theirs,
            work=f"scan {context.sizes.rows:,} entries through Spark, four columns",
            goal=Goal(goal),
            rows=context.sizes.rows,
        )


def scan_default(context: Context) -> Iterator[Comparison]:
    """Scan all columns."""
    ours = context.spark.read.format("rmqindex").load(str(context.index))
    measured = interleaved(
        {
            "rmqindex": _noop(ours),
            "the transport floor": _noop(_floor(context, ours)),
            "Parquet": _noop(context.spark.read.parquet(str(context.entries))),
        },
        context.sizes.rounds,
    )
    for theirs, goal in (("the transport floor", 0.85), ("Parquet", 0.0)):
        yield compared(
            measured,
            "rmqindex",
            theirs,
            work=f"scan {context.sizes.rows:,} entries through Spark, default schema",
            goal=Goal(goal),
            rows=context.sizes.rows,
        )


def one_key(context: Context) -> Iterator[Comparison]:
    """Look up one key and many in one IN."""
    rows, in_list = context.sizes.rows, context.sizes.in_list
    keys = iter(
        key_strings(
            np.random.default_rng(4).choice(rows, 3 * in_list, replace=False).astype(np.uint64)
        ).to_pylist()
    )
    ours = table(context.spark, context.index)
    tiny = load_floor(ours, 1)
    parquet = context.spark.read.parquet(str(context.bloom))

    def find(df: DataFrame, *, there: bool = True) -> Callable[[], float]:
        def run() -> float:
            query = df.where((sf.col("topic") == TOPIC) & (sf.col("key") == next(keys)))
            found: list[object] = []
            seconds = timed(lambda: found.extend(query.collect()))()
            assert bool(found) == there
            return seconds

        return run

    def find_many() -> float:
        wanted = [next(keys) for _ in range(in_list)]
        fresh = table(context.spark, context.index)
        query = fresh.where((sf.col("topic") == TOPIC) & sf.col("key").isin(wanted))
        found: list[object] = []
        seconds = timed(lambda: found.extend(query.collect()))()
        assert len(found) >= in_list
        return seconds

    measured = interleaved(
        {
            "rmqindex": find(ours),
            "an almost empty Python source": find(tiny, there=False),
        },
        2 * context.sizes.rounds,
        warm_ups=5,
    )
    work = f"one key through table(), {rows:,} entries"
    yield compared(
        measured,
        "rmqindex",
        "an almost empty Python source",
        work=work,
        goal=Goal(1.5, at_least=False),
    )
    measured = interleaved(
        {"rmqindex": find(ours), "Parquet with a bloom filter": find(parquet)},
        context.sizes.rounds,
    )
    yield compared(measured, "rmqindex", "Parquet with a bloom filter", work=work, goal=Goal(5))
    rounds, warm_ups = 2 * context.sizes.rounds, 3
    keys = iter(
        key_strings(
            np.random.default_rng(5)
            .choice(rows, (in_list + 1) * (rounds + warm_ups), replace=False)
            .astype(np.uint64)
        ).to_pylist()
    )
    one = find(table(context.spark, context.index))
    runs = {"many": find_many, "one key": one}
    yield compared(
        interleaved(
            {name: _from_memory(context.index_file, run) for name, run in runs.items()},
            rounds,
            warm_ups=warm_ups,
        ),
        "many",
        "one key",
        work=f"{in_list:,} keys in one IN",
        goal=Goal(1.3, at_least=False),
        note="the file is read through before each query, so that none waits for the disk",
    )


def _from_memory(path: Path, run: Callable[[], float]) -> Callable[[], float]:
    """Return a run before which a file is read into memory."""

    def after_reading() -> float:
        read_through(path)
        return run()

    return after_reading


def write(context: Context) -> Iterator[Comparison]:
    """Write rows in order."""
    rows = context.spark.read.parquet(str(context.messages))
    target = context.work / "written"

    def ours() -> float:
        shutil.rmtree(target, ignore_errors=True)
        writer = rows.write.format("rmqindex").mode("append").options(**_geometry(context))
        return timed(lambda: writer.save(str(target)))()

    counting = rows.write.format("floor").mode("append")
    yield compared(
        interleaved(
            {"rmqindex": ours, "a Python writer that counts": timed(counting.save)},
            context.sizes.slow_rounds,
        ),
        "rmqindex",
        "a Python writer that counts",
        work=f"df.write of {context.sizes.rows:,} rows",
        goal=Goal(0.9),
        rows=context.sizes.rows,
    )
    shutil.rmtree(target)


def _geometry(context: Context) -> dict[str, str]:
    layout = context.sizes.layout
    return {"maxHashSlotNum": str(layout.hash_slot_num), "maxIndexNum": str(layout.index_num)}


def write_sorted(context: Context) -> Iterator[Comparison]:
    """Write shuffled rows sorted."""
    rows = context.spark.read.parquet(str(context.shuffled))
    target, sorted_rows = context.work / "built-index", context.work / "sorted.parquet"

    def ours() -> float:
        shutil.rmtree(target, ignore_errors=True)
        options = {name: int(value) for name, value in _geometry(context).items()}
        return timed(lambda: write_index(rows, target, **options))()

    def theirs() -> float:
        writer = rows.sort("phy_offset").write.mode("overwrite")
        return timed(lambda: writer.parquet(str(sorted_rows)))()

    yield compared(
        interleaved(
            {"rmqindex": ours, "Parquet, sorted by offset": theirs}, context.sizes.slow_rounds
        ),
        "rmqindex",
        "Parquet, sorted by offset",
        work=f"write_index of {context.sizes.rows:,} shuffled rows",
        goal=Goal(1),
        rows=context.sizes.rows,
    )
    shutil.rmtree(target)
    shutil.rmtree(sorted_rows)


def many_files(context: Context) -> Iterator[Comparison]:
    """Look up one key in many small files."""
    most, least = context.sizes.small_files

    def directory(count: int) -> Path:
        path = context.work / f"small-{count}"
        for number in range(count):
            make_file(
                path / f"{20260101000000000 + number}",
                _SMALL,
                number * _SMALL_ENTRIES,
                _SMALL_ENTRIES,
            )
        return path

    keys = iter(key_strings(np.arange(least * _SMALL_ENTRIES, dtype=np.uint64)).to_pylist())

    def find(path: Path) -> Callable[[], float]:
        def run() -> float:
            query = table(context.spark, path).where(
                (sf.col("topic") == TOPIC) & (sf.col("key") == next(keys))
            )
            found: list[object] = []
            seconds = timed(lambda: found.extend(query.collect()))()
            assert found
            return seconds

        return run

    yield compared(
        interleaved({"many": find(directory(most)), "few": find(directory(least))}, 5),
        "many",
        "few",
        work=f"one key over {most:,} files of {_SMALL_ENTRIES:,} entries",
        against=f"over {least} files",
        goal=Goal(0.3, at_least=False, unit="s more"),
    )


def memory(context: Context) -> Iterator[Comparison]:
    """Write a full file in one task and watch its memory."""
    target = context.work / "written"
    geometry = _geometry(context)
    ordered = context.spark.read.parquet(str(context.messages)).coalesce(1)
    shuffled = context.spark.read.parquet(str(context.shuffled))

    def by_write() -> None:
        writer = ordered.write.format("rmqindex").mode("append").options(**geometry)
        writer.save(str(target))

    def by_write_index() -> None:
        write_index(shuffled, target, **{name: int(value) for name, value in geometry.items()})

    for name, work in (("df.write", by_write), ("write_index", by_write_index)):
        shutil.rmtree(target, ignore_errors=True)
        most = anonymous_bytes_above_idle(context.spark, work)
        yield Comparison(
            work=f"memory of a task of {name} that writes a full file",
            against="anonymous memory above the idle worker",
            figure=most / 1e6,
            goal=Goal(150, at_least=False, unit="MB"),
            note="the largest worker process, /proc/<pid>/smaps_rollup every 20 ms",
        )
    shutil.rmtree(target, ignore_errors=True)
