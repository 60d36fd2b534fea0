"""The lines of one store in every engine: beside Spark, and beside Parquet in the same engine."""

from __future__ import annotations

import statistics
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks._data import TOPIC, key_strings
from benchmarks._engine_sessions import EMPTY, Place, sail, session_questions
from benchmarks._rounds import Goal, compared, interleaved, timed
from rmqindex import MessageStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks._context import Context
    from benchmarks._engine_sessions import Questions
    from benchmarks._rounds import Comparison, Times

__all__ = ["engines"]

_TIME = "store_timestamp"
_COLUMNS = ("key_hash", "phy_offset", _TIME, "position")
_OURS, _PARQUET = "ours", "Parquet"
# A hash of another key is found as well, since no log is there to compare with.
_MOST_FOREIGN = 0.01


def engines(context: Context) -> Iterator[Comparison]:
    """Ask every engine for one key, keys in one IN, a scan and a join, of an index and Parquet."""
    place = _place(context)
    sizes = context.sizes
    works = {
        "one key": f"one key of {sizes.rows:,} entries",
        "IN": f"{sizes.in_list:,} keys in one `IN`",
        "scan": f"scan {sizes.rows:,} entries, {len(_COLUMNS)} columns",
        "join": f"join {sizes.engine_keys:,} keys, half of them absent",
    }
    asked = {
        "Spark": session_questions(context.spark, place),
        "DuckDB": _of_duckdb(place),
        "Polars": _of_polars(place),
    }
    rows: dict[tuple[str, str], int] = {}
    lines: list[str] = []
    with sail(place, context.work / "sail") as ask:
        for work, told in works.items():
            contenders = {}
            for engine, (ours, theirs) in asked.items():
                for where, questions in ((_OURS, ours), (_PARQUET, theirs)):
                    contenders[f"{engine} {where}"] = _counted(questions[work], rows, engine, where)
            for where in (_OURS, _PARQUET, *([EMPTY] if work == "one key" else [])):
                contenders[f"Sail {where}"] = _asked(ask, work, rows, where)
            quick = work in {"one key", "IN"}
            times = interleaved(contenders, sizes.rounds if quick else sizes.slow_rounds)
            _check(rows, [*asked, "Sail"])
            lines += _lines(told, times, [*asked, "Sail"])
            yield from _compared(work, told, times, sizes.rows)
    (context.output / "engines.inc").write_text(_table(lines))


def _place(context: Context) -> Place:
    scanned = context.work / "dataset.parquet"
    if not scanned.exists():
        import pyarrow.parquet as pq  # noqa: PLC0415  (only these lines need it)

        entries = MessageStore(context.index, commit_log=None).dataset()
        pq.write_table(entries.to_table(list(_COLUMNS)), scanned, coerce_timestamps="us")
    numbers = np.random.default_rng(6).choice(
        context.sizes.rows, context.sizes.in_list, replace=False
    )
    return Place(
        index=str(context.index),
        scanned=str(scanned),
        found=str(context.bloom),
        keys=str(context.keys(context.sizes.engine_keys)),
        listed=key_strings(numbers.astype(np.uint64)).to_pylist(),
    )


def _counted(
    question: Callable[[], int], rows: dict[tuple[str, str], int], engine: str, where: str
) -> Callable[[], float]:
    def ask() -> None:
        rows[engine, where] = question()

    return timed(ask)


def _asked(
    ask: Callable[[str, str], tuple[float, int]],
    work: str,
    rows: dict[tuple[str, str], int],
    where: str,
) -> Callable[[], float]:
    def run() -> float:
        seconds, rows["Sail", where] = ask(work, where)
        return seconds

    return run


def _check(rows: dict[tuple[str, str], int], names: list[str]) -> None:
    """See that every engine found the same, and in an index no less than in Parquet."""
    for where in (_OURS, _PARQUET):
        assert len({rows[name, where] for name in names}) == 1, rows
    found, expected = rows["Spark", _OURS], rows["Spark", _PARQUET]
    assert expected <= found <= expected + 1 + expected * _MOST_FOREIGN, rows


def _compared(work: str, told: str, times: Times, count: int) -> Iterator[Comparison]:
    if work == "one key":
        yield compared(
            times,
            f"Sail {_OURS}",
            f"Sail {EMPTY}",
            work=f"{told}, through Sail",
            against=f"{EMPTY} of Sail",
            goal=Goal(3, at_least=False),
        )
    if work == "scan":
        for engine in ("DuckDB", "Polars", "Sail"):
            yield compared(
                times,
                f"{engine} {_OURS}",
                f"{engine} {_PARQUET}",
                work=f"{told}, in {engine}",
                against=f"the same columns in Parquet, in {engine}",
                goal=Goal(1.5, at_least=False),
                rows=count,
            )


def _lines(told: str, times: Times, names: list[str]) -> list[str]:
    """Return a row of seconds for each place of the rows, and one of their ratios."""

    def cells(text: Callable[[str], str]) -> str:
        return " | ".join(map(text, names))

    def seconds(where: str) -> Callable[[str], str]:
        return lambda name: _time(statistics.median(times[f"{name} {where}"]))

    def faster(than: Callable[[str], str]) -> Callable[[str], str]:
        def ratio(name: str) -> str:
            pairs = zip(times[than(name)], times[f"{name} {_OURS}"], strict=True)
            return f"{statistics.median(theirs / mine for theirs, mine in pairs):.2f}x"

        return ratio

    return [
        f"| {told} | {cells(seconds(_OURS))} |",
        f"| the same in Parquet | {cells(seconds(_PARQUET))} |",
        f"| times as fast as Parquet there | {cells(faster(lambda name: f'{name} {_PARQUET}'))} |",
        f"| times as fast as Spark | {cells(faster(lambda _: f'Spark {_OURS}'))} |",
    ]


def _time(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def _table(lines: list[str]) -> str:
    return "\n".join(
        ["| work | Spark | DuckDB | Polars | Sail |", "|---|--:|--:|--:|--:|", *lines, ""]
    )


def _of_duckdb(place: Place) -> tuple[Questions, Questions]:
    import duckdb  # noqa: PLC0415

    store = MessageStore(place.index, commit_log=None)
    connection = duckdb.connect()
    connection.register("entries", store.dataset())
    parquet = f"'{place.found}/*.parquet'"
    listed = ", ".join(f"'{key}'" for key in place.listed)

    def rows(query: str) -> list[tuple[Any, ...]]:
        return connection.execute(query).fetchall()

    def find(relation: str, condition: str) -> int:
        where = f"topic = '{TOPIC}' AND key {condition}"
        return len(rows(f"SELECT phy_offset FROM {relation} WHERE {where}"))

    def scan(relation: str) -> int:
        # Statistics of Parquet hold no sums.
        sums = ", ".join(
            f"sum(epoch_ms({name}))" if name == _TIME else f"sum({name})" for name in _COLUMNS
        )
        return int(rows(f"SELECT count(*), {sums} FROM {relation}")[0][0])

    def join(relation: str) -> int:
        query = f"SELECT count(*), sum(phy_offset) FROM '{place.keys}' JOIN {relation}"
        return int(rows(f"{query} USING (topic, key)")[0][0])

    def look_up() -> int:
        # Keys of a join are not handed over to a dataset.
        keys = connection.sql(f"SELECT key FROM '{place.keys}'").to_arrow_table()
        connection.register("found", store.lookup(TOPIC, keys.column("key")))
        return join("found")

    mine, theirs = cycle(place.listed), cycle(place.listed)
    return {
        "one key": lambda: find("entries", f"= '{next(mine)}'"),
        "IN": lambda: find("entries", f"IN ({listed})"),
        "scan": lambda: scan("entries"),
        "join": look_up,
    }, {
        "one key": lambda: find(parquet, f"= '{next(theirs)}'"),
        "IN": lambda: find(parquet, f"IN ({listed})"),
        "scan": lambda: scan(f"'{place.scanned}'"),
        "join": lambda: join(parquet),
    }


def _of_polars(place: Place) -> tuple[Questions, Questions]:
    import polars as pl  # noqa: PLC0415

    store = MessageStore(place.index, commit_log=None)
    dataset = store.dataset()
    both = ["topic", "key"]

    def entries() -> pl.LazyFrame:
        return pl.scan_pyarrow_dataset(dataset)

    def parquet() -> pl.LazyFrame:
        return pl.scan_parquet(f"{place.found}/*.parquet")

    def find(frame: pl.LazyFrame, condition: pl.Expr) -> int:
        chosen = frame.filter(pl.col("topic") == TOPIC, condition)
        return chosen.select("phy_offset").collect().height

    def scan(frame: pl.LazyFrame) -> int:
        sums = pl.col(_COLUMNS).cast(pl.Int64).sum()
        return int(frame.select(pl.len(), sums).collect().row(0)[0])

    def join(frame: pl.LazyFrame) -> int:
        keys = pl.scan_parquet(place.keys).select(both)
        found = keys.join(frame, on=both).select(pl.len(), pl.col("phy_offset").sum())
        return int(found.collect().row(0)[0])

    def look_up() -> int:
        keys = pl.read_parquet(place.keys, columns=["key"])
        return join(pl.DataFrame(store.lookup(TOPIC, keys["key"])).lazy())

    mine, theirs = cycle(place.listed), cycle(place.listed)
    return {
        "one key": lambda: find(entries(), pl.col("key") == next(mine)),
        # Polars hands over at most 100 values.
        "IN": lambda: store.lookup(TOPIC, place.listed).num_rows,
        "scan": lambda: scan(entries()),
        "join": look_up,
    }, {
        "one key": lambda: find(parquet(), pl.col("key") == next(theirs)),
        "IN": lambda: find(parquet(), pl.col("key").is_in(place.listed)),
        "scan": lambda: scan(pl.scan_parquet(place.scanned)),
        "join": lambda: join(parquet()),
    }
