"""The lines about many keys at once: joins with the index and with Parquet, and probe or scan."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as sf

from benchmarks._chart import draw_crossover
from benchmarks._data import offsets
from benchmarks._rounds import Comparison, Goal, compared, interleaved, timed
from pyspark_rmqindex import lookup
from pyspark_rmqindex.files import list_slices
from pyspark_rmqindex.join.task import crossover as estimated_crossover
from pyspark_rmqindex.join.task import is_scanned
from pyspark_rmqindex.options import read_options
from rmqindex import HashSet, IndexFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    from benchmarks._context import Context
    from pyspark_rmqindex.files import FileSlice

__all__ = ["crossover", "join", "join_few", "join_verified"]

# Keys a file, as shares of its entries: twice as many each time.
_SHARES = tuple(2.0**-power for power in range(12, -1, -1))


def _run(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def join(context: Context) -> Iterator[Comparison]:
    """Join millions of keys, half of them absent."""
    yield from _joined(
        context, context.sizes.join_keys, Goal(6), "Parquet", context.sizes.join_rounds
    )


def join_few(context: Context) -> Iterator[Comparison]:
    """Join a few thousand keys, half of them absent."""
    rounds = context.sizes.slow_rounds
    yield from _joined(context, context.sizes.few_keys, Goal(5), "Parquet, broadcast join", rounds)


def join_verified(context: Context) -> Iterator[Comparison]:
    """Join keys with an index and its log, each hit compared with its message."""
    store = context.store(context.sizes.message_sizes[1])
    keys = context.spark.read.parquet(str(context.log_keys)).drop("number")
    messages = context.spark.read.parquet(str(context.log_messages))
    count = context.sizes.messages
    found = lookup(keys, store)
    assert found.where("match_state = 'verified'").count() == count // 2 == found.count()
    measured = interleaved(
        {
            "rmqindex": timed(lambda: _run(lookup(keys, store))),
            "Parquet": timed(lambda: _run(keys.join(messages, ["topic", "key"]))),
        },
        context.sizes.slow_rounds,
    )
    yield compared(
        measured,
        "rmqindex",
        "Parquet",
        against="Parquet, unverified",
        work=f"join {count:,} keys, half of them absent, with {2 * count:,} entries, each hit "
        "verified against its message",
        goal=Goal(2),
        rows=count,
    )


def _joined(
    context: Context, count: int, goal: Goal, against: str, rounds: int
) -> Iterator[Comparison]:
    numbered = context.spark.read.parquet(str(context.keys(count)))
    _check(context, numbered, count)
    keys = numbered.drop("number")
    messages = context.spark.read.parquet(str(context.bloom))
    mine = sf.broadcast(keys) if "broadcast" in against else keys

    measured = interleaved(
        {
            # Listing the files is a part of it.
            "rmqindex": timed(lambda: _run(lookup(keys, context.join_index, commitLog="none"))),
            against: timed(lambda: _run(mine.join(messages, ["topic", "key"]))),
        },
        rounds,
    )
    files = len(list(context.join_index.iterdir()))
    yield compared(
        measured,
        "rmqindex",
        against,
        work=f"join {count:,} keys, half of them absent, with {files} files of "
        f"{context.join_entries:,} entries, unverified",
        goal=goal,
        rows=count,
    )


def _check(context: Context, numbered: DataFrame, count: int) -> None:
    """See that every key that is there is found where it is, and others only by their hash."""
    found = lookup(numbered, context.join_index, commitLog="none")
    per_message = int(offsets(np.ones(1, np.uint64))[0])
    right, every = found.agg(
        sf.count_if(sf.col("phy_offset") == sf.col("number") * per_message), sf.count("*")
    ).collect()[0]
    assert right == count // 2, (right, every)
    # One hash of 2**31 for each of the entries.
    expected = count * context.sizes.rows / 2**31
    assert every - right <= 2 * expected + 100, (right, every)


def crossover(context: Context) -> Iterator[Comparison]:
    """Search files for more and more keys, by their slots and by reading all entries."""
    lines = []
    worst = 0.0
    for directory in (context.join_index, context.index):
        each = list_slices(read_options({"path": str(directory)})).slices[0]
        entries = each.limit - 1
        measured = {
            share: _both_ways(context, each, max(1, int(entries * share))) for share in _SHARES
        }
        for share, (probe, scan) in measured.items():
            chosen = (
                scan
                if is_scanned(max(1, int(entries * share)), each, "auto", remote=False)
                else probe
            )
            worst = max(worst, chosen / min(probe, scan))
        lines.append((entries, estimated_crossover(each, remote=False) / entries, measured))
    context.output.mkdir(parents=True, exist_ok=True)
    (context.output / "crossover.inc").write_text(_table(lines))
    draw_crossover(context.output / "crossover.svg", lines)
    yield Comparison(
        work="what lookup() chooses, probe or scan, where it is furthest from the better one",
        against=f"the better one, {len(_SHARES)} numbers of keys in files of "
        + " and ".join(f"{entries:,}" for entries, _, _ in lines)
        + " entries",
        figure=worst,
        goal=Goal(1.5, at_least=False),
        note="in one process, half of the keys absent, the file in memory",
    )


def _both_ways(context: Context, each: FileSlice, keys: int) -> tuple[float, float]:
    """Return the median seconds of a probe and of a scan for so many hashes, half of them there."""
    rng = np.random.default_rng(keys)
    with IndexFile(each.path) as file:
        there = np.concatenate(
            [batch.column(0).to_numpy() for batch in file.scan(columns=["key_hash"])]
        )
        half = rng.choice(there, -(-keys // 2), replace=False)
        wanted = HashSet(
            np.unique(np.concatenate([half, rng.integers(0, 2**31, keys // 2, dtype=np.int32)]))
        )

        def search(*, by_scan: bool) -> Callable[[], float]:
            return timed(
                lambda: sum(batch.num_rows for batch in file.search(wanted, by_scan=by_scan))
            )

        measured = interleaved(
            {"probe": search(by_scan=False), "scan": search(by_scan=True)},
            context.sizes.slow_rounds,
        )
    return statistics.median(measured["probe"]), statistics.median(measured["scan"])


def _table(lines: list[tuple[int, float, dict[float, tuple[float, float]]]]) -> str:
    rows = ["| entries | keys | keys an entry | probe | scan |", "|--:|--:|--:|--:|--:|"]
    for entries, _, measured in lines:
        for share, (probe, scan) in measured.items():
            cells = [
                f"{entries:,}",
                f"{max(1, int(entries * share)):,}",
                f"1/{round(1 / share)}",
                f"{probe * 1000:,.1f} ms",
                f"{scan * 1000:,.1f} ms",
            ]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([*rows, ""])
