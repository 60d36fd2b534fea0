"""The lines of ``MessageStore.dataset()`` in other engines: one key, and a scan beside Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks._data import FILE_NAME, TOPIC, key_strings, make_file
from benchmarks._rounds import Goal, compared, interleaved, timed
from rmqindex import IndexFile, Layout, MessageStore, index_key, key_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from benchmarks._context import Context
    from benchmarks._rounds import Comparison

__all__ = ["dataset"]

_FILES = 5
_TIMES = 20
_TIME = "store_timestamp"
_COLUMNS = ("key_hash", "phy_offset", _TIME, "position")
_OURS = "dataset()"


def dataset(context: Context) -> Iterator[Comparison]:
    """Look one key up through DuckDB, and scan four columns in DuckDB and Polars."""
    yield _one_key(context)
    yield from _scans(context)


def _one_key(context: Context) -> Comparison:
    import duckdb  # noqa: PLC0415  (only these lines need it)

    index, count = context.work / "dataset-index", context.sizes.rows // _FILES
    layout = Layout(count // 4 + 1, count + 4)
    for number in range(_FILES):
        make_file(index / str(int(FILE_NAME) + number), layout, number * count, count)
    files = sorted(index.iterdir())
    key = key_strings(np.array([7], np.uint64))[0].as_py()
    hash_ = key_hash(index_key(TOPIC, key))
    query = f"SELECT phy_offset FROM entries WHERE topic = '{TOPIC}' AND key = '{key}'"
    connection = duckdb.connect()
    connection.register("entries", MessageStore(index, commit_log=None, layout=layout).dataset())

    def ours() -> None:
        for _ in range(_TIMES):
            assert connection.execute(query).fetchall()

    def theirs() -> None:
        for _ in range(_TIMES):
            hits = 0
            for path in files:
                with IndexFile(path, layout) as file:
                    hits += file.lookup([hash_]).num_rows
            assert hits

    against = "IndexFile.lookup of each file in Python"
    times = interleaved({_OURS: timed(ours), against: timed(theirs)}, context.sizes.rounds)
    return compared(
        times,
        _OURS,
        against,
        work=f"one key through DuckDB, {_FILES} files, warm",
        goal=Goal(3, at_least=False),
        note=f"the times are those of {_TIMES} queries",
    )


def _scans(context: Context) -> Iterator[Comparison]:
    entries = MessageStore(context.index, commit_log=None).dataset()
    parquet = context.work / "dataset.parquet"
    if not parquet.exists():
        import pyarrow.parquet as pq  # noqa: PLC0415

        pq.write_table(entries.to_table(list(_COLUMNS)), parquet)
    for engine, scans in (
        ("DuckDB", _of_duckdb(entries, parquet)),
        ("Polars", _of_polars(entries, parquet)),
    ):
        against = f"the same columns in Parquet, in {engine}"
        ours, theirs = scans
        times = interleaved({_OURS: timed(ours), against: timed(theirs)}, context.sizes.rounds)
        yield compared(
            times,
            _OURS,
            against,
            work=f"scan {context.sizes.rows:,} entries in {engine}, {len(_COLUMNS)} columns",
            goal=Goal(1.5, at_least=False),
            rows=context.sizes.rows,
        )


def _of_duckdb(entries: object, parquet: Path) -> tuple[Callable[[], object], ...]:
    import duckdb  # noqa: PLC0415

    connection = duckdb.connect()
    connection.register("entries", entries)
    # Statistics of Parquet hold no sums.
    sums = ", ".join(
        f"sum(epoch_ms({name}))" if name == _TIME else f"sum({name})" for name in _COLUMNS
    )

    def scan(relation: str) -> Callable[[], object]:
        return lambda: connection.execute(f"SELECT {sums} FROM {relation}").fetchall()

    return scan("entries"), scan(f"'{parquet}'")


def _of_polars(entries: object, parquet: Path) -> tuple[Callable[[], object], ...]:
    import polars as pl  # noqa: PLC0415

    def scan(make: Callable[[], pl.LazyFrame]) -> Callable[[], object]:
        return lambda: make().select(pl.col(_COLUMNS).cast(pl.Int64).sum()).collect().rows()

    return scan(lambda: pl.scan_pyarrow_dataset(entries)), scan(lambda: pl.scan_parquet(parquet))
