"""The curves of the growth page: what more entries and more files cost."""

from __future__ import annotations

import shutil
import statistics
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as sf

from benchmarks._chart import draw_growth
from benchmarks._data import FILE_NAME, TOPIC, make_file
from benchmarks._log_data import make_store
from benchmarks._rounds import timed
from pyspark_rmqindex import table
from pyspark_rmqindex.files import list_slices
from pyspark_rmqindex.options import read_options
from rmqindex import IndexFile, Layout, MessageStore, rebuild_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from benchmarks._context import Context
    from benchmarks._rounds import Comparison
    from pyspark_rmqindex.files import FileSlice

__all__ = ["growth"]

# A key that no message has: most files of a store lack the key that is looked up.
_ABSENT = "absent"
_ROUNDS = 3
# Entries a second are the same for more.
_MOST_SCANNED = 1_000_000_000


class Point(NamedTuple):
    """What an index of a size costs, in seconds; None where it was not measured."""

    entries: int
    files: int
    plan: float
    lookup: float
    query: float
    scan: float | None


def growth(context: Context) -> Iterator[Comparison]:
    """Measure ever larger indexes and logs, and write their table and curves."""
    points = [_measured(context, *index) for index in _indexes(context)]
    rebuilds = [_rebuilt(context, messages) for messages in context.sizes.growth_messages]
    context.output.mkdir(parents=True, exist_ok=True)
    (context.output / "growth.inc").write_text(_table(points, rebuilds))
    draw_growth(context.output / "growth.svg", points, rebuilds)
    yield from ()


def _indexes(context: Context) -> Iterator[tuple[Path, int, int]]:
    """Yield index directories with how many entries and files they have."""
    for entries in context.sizes.growth_entries:
        directory = context.work / f"growth-{entries}"
        slots = entries // 4 + 1
        make_file(directory / FILE_NAME, Layout(slots, 4 * slots), 0, entries)
        yield directory, entries, 1
    for files in context.sizes.growth_files:
        directory = context.work / f"growth-files-{files}"
        context.many_files(directory, files)
        yield directory, files * context.sizes.rows, files
        shutil.rmtree(directory)


def _median(work: Callable[[], object]) -> float:
    measure = timed(work)
    measure()
    return statistics.median(measure() for _ in range(_ROUNDS))


def _measured(context: Context, directory: Path, entries: int, files: int) -> Point:
    store = MessageStore(directory)
    query = table(context.spark, directory).where(
        (sf.col("topic") == TOPIC) & (sf.col("key") == _ABSENT)
    )

    def plan() -> list[FileSlice]:
        return list_slices(read_options({"path": str(directory)})).slices

    def scan() -> None:
        for each in plan():
            with IndexFile(each.path) as file:
                for _ in file.scan(columns=["key_hash", "phy_offset"]):
                    pass

    return Point(
        entries,
        files,
        _median(plan),
        _median(lambda: store.lookup(TOPIC, _ABSENT)),
        _median(query.select(sf.lit(1)).collect),
        _median(scan) if entries <= _MOST_SCANNED else None,
    )


def _rebuilt(context: Context, messages: int) -> tuple[int, float]:
    size = context.sizes.message_sizes[1]
    store = make_store(context.work / f"growth-log-{messages}", messages, size)
    target = context.work / "growth-rebuilt"

    def rebuild() -> None:
        shutil.rmtree(target, ignore_errors=True)
        rebuild_index(store, target, Layout())

    seconds = timed(rebuild)()
    shutil.rmtree(target)
    return messages, seconds


def _table(points: list[Point], rebuilds: list[tuple[int, float]]) -> str:
    lines = [
        "| entries | files | plan | look up a key | the same with `table()` | scan two columns |",
        "|--:|--:|--:|--:|--:|--:|",
    ]
    for point in points:
        times = [point.plan, point.lookup, point.query, point.scan]
        cells = [f"{point.entries:,}", f"{point.files:,}", *map(_time, times)]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| messages of 200 bytes | rebuild, one core |", "|--:|--:|"]
    lines += [f"| {messages:,} | {_time(seconds)} |" for messages, seconds in rebuilds]
    return "\n".join([*lines, ""])


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1000:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"
