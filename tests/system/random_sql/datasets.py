"""Random queries of ``MessageStore.dataset()`` in DuckDB, Polars and DataFusion.

Each has the rows that the same engine finds in a table of its own with the decoded rows.
"""

from __future__ import annotations

import shutil
import struct
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pds
from tests.support.commitlog_encoder import Log, Message, properties_text

import rmqindex
from rmqindex import IncompleteIndexWarning, MessageStore

from .dataset_queries import make_question, polars_of, sql_of
from .decoder import decode, keyed_rows
from .stores import KEYS, TOPICS, make_stores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from .dataset_queries import Question
    from .decoder import Row

__all__ = ["ENGINES", "Found", "run_dataset_trial"]

_SLOTS = 97
_NUMBER, _LONG, _TEXT = pa.int32(), pa.int64(), pa.string()
_TIME = pa.timestamp("ms", "UTC")
_ENTRY = {
    "key_hash": _NUMBER, "phy_offset": _LONG, "store_timestamp": _TIME, "time_diff": _NUMBER,
    "slot": _NUMBER, "position": _NUMBER, "prev_position": _NUMBER, "file": _TEXT,
}  # fmt: skip
_KEYED = _ENTRY | {"topic": _TEXT, "key": _TEXT, "match_state": _TEXT}
_MESSAGE = {
    "phy_offset": _LONG, "topic": _TEXT, "uniq_key": _TEXT, "keys": _TEXT, "tags": _TEXT,
    "size": _NUMBER, "queue_id": _NUMBER, "queue_offset": _LONG, "sys_flag": _NUMBER,
    "flag": _NUMBER, "born_timestamp": _TIME, "store_timestamp": _TIME, "born_host": _TEXT,
    "reconsume_times": _NUMBER, "body_crc": _NUMBER,
}  # fmt: skip
_UNIT = {
    "queue_offset": _LONG, "topic": _TEXT, "queue_id": _NUMBER, "phy_offset": _LONG,
    "size": _NUMBER, "tags_code": _LONG, "file_path": _TEXT,
}  # fmt: skip
_KINDS = {_TEXT: "text", _TIME: "time"}
_RENEWED_EVERY = 100
# DataFusion 55 fails so where it has simplified a part of a filter to true or false.
_OWN_FAULT = "unsupported operand type(s) for"


@dataclass(frozen=True, slots=True)
class Relation:
    """A dataset, and the rows that it must have.

    Attributes:
        dataset: The dataset; it notes the filters that it is handed.
        truth: The decoded rows.
        binds: Whether a query must bind topic and key.
        damage: What the refusal of a damaged file must name; empty for a sound store.
    """

    dataset: Any
    truth: pa.Table
    binds: bool = False
    damage: str = ""

    @property
    def of_arrow(self) -> Any:
        """Arrow's own dataset of the decoded rows, with nulls where the other may have them."""
        own = self.dataset.schema
        return pds.dataset(self.truth.cast(pa.schema(map(own.field, self.truth.column_names))))

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each column."""
        return {each.name: _KINDS.get(each.type, "number") for each in self.truth.schema}

    @property
    def values(self) -> dict[str, list[Any]]:
        """Some values of each column."""
        rows = self.truth.slice(0, 300)
        return {
            name: [value for value in rows[name].to_pylist() if value is not None]
            for name in rows.column_names
        }


@dataclass
class Found:
    """What became of the queries.

    Attributes:
        queries: How many there were, by shape.
        pushed: In how many the engine handed over a filter.
        answered: How many were answered, and with the same rows.
        rows: How many rows they had.
        refusals: How many were refused by name.
        engine_errors: How many the engine refuses over its own table, too, or by its own fault.
        mistranslated: How many the engine hands over otherwise than it answers them itself: over
            Arrow's own dataset of the decoded rows it has the same rows.
        faults: Those that differ.
        seconds: How long it took.
        is_pushed: Whether it did in the last one.
    """

    queries: Counter[str] = field(default_factory=Counter)
    pushed: int = 0
    answered: int = 0
    rows: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    engine_errors: int = 0
    mistranslated: int = 0
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0
    is_pushed: bool = False


class _DuckDB:
    def __init__(self) -> None:
        import duckdb

        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'; SET threads = 2")

    def load(self, name: str, relation: Relation) -> None:
        self._connection.register(f"ours_{name}", relation.dataset)
        self._connection.register(f"arrow_{name}", relation.of_arrow)
        self._connection.register("arrived", relation.truth)
        self._connection.execute(f"CREATE OR REPLACE TABLE truth_{name} AS FROM arrived")

    def ask(self, name: str, question: Question) -> list[tuple[Any, ...]]:
        return self._connection.sql(sql_of(question, name)).fetchall()


class _DataFusion:
    def __init__(self) -> None:
        import datafusion

        self._session = datafusion.SessionContext
        self._tables: dict[str, Relation] = {}

    def load(self, name: str, relation: Relation) -> None:
        self._tables[name] = relation

    def ask(self, name: str, question: Question) -> list[tuple[Any, ...]]:
        side, _, own = name.partition("_")
        context = self._session()
        if side == "ours":
            context.register_dataset(name, self._tables[own].dataset)
        elif side == "arrow":
            context.register_dataset(name, self._tables[own].of_arrow)
        else:
            context.register_record_batches(name, [self._tables[own].truth.to_batches()])
        batches = context.sql(sql_of(question, name).replace("TIMESTAMPTZ", "TIMESTAMP")).collect()
        return [
            tuple(row)
            for batch in batches
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        ]


class _Polars:
    def __init__(self) -> None:
        import polars as pl

        self._polars = pl
        self._frames: dict[str, Any] = {}

    def load(self, name: str, relation: Relation) -> None:
        pl = self._polars
        self._frames[f"ours_{name}"] = pl.scan_pyarrow_dataset(relation.dataset)
        self._frames[f"arrow_{name}"] = pl.scan_pyarrow_dataset(relation.of_arrow)
        self._frames[f"truth_{name}"] = pl.from_arrow(relation.truth).lazy()

    def ask(self, name: str, question: Question) -> list[tuple[Any, ...]]:
        return list(polars_of(question, self._frames[name]).collect().rows())


#: The engines by their names.
ENGINES: dict[str, Callable[[], Any]] = {
    "duckdb": _DuckDB,
    "polars": _Polars,
    "datafusion": _DataFusion,
}


def run_dataset_trial(engine_name: str, directory: Path, queries: int, seed: int) -> Found:
    """Ask an engine random questions, and compare each answer.

    Args:
        engine_name: One of ``ENGINES``.
        directory: Where the stores are made.
        queries: How many.
        seed: Of all choices.
    """
    random, found, start = Random(seed), Found(), time.monotonic()
    engine = ENGINES[engine_name]()
    grown = _Growing(directory / "growing", seed)
    relations = _relations(directory, seed, found) | grown.relations(found)
    for name, relation in relations.items():
        engine.load(name, relation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteIndexWarning)
        warnings.simplefilter("ignore", rmqindex.IncompleteLogWarning)
        for number in range(queries):
            if number % _RENEWED_EVERY == _RENEWED_EVERY - 1:
                grown.grow()
                for name, relation in grown.relations(found).items():
                    relations[name] = relation
                    engine.load(name, relation)
            name = random.choice(list(relations))
            relation = relations[name]
            question = make_question(
                relation.kinds, random, binds=relation.binds, values=relation.values
            )
            found.queries[question.shape] += 1
            _judge(engine, name, relation, question, found)
    found.seconds = time.monotonic() - start
    return found


def _judge(engine: Any, name: str, relation: Relation, question: Question, found: Found) -> None:
    whole = question
    if question.shape == "limit":
        whole = type(question)("rows", question.columns, question.where)
    found.is_pushed = False
    ours, error = _answer(engine, f"ours_{name}", question)
    found.pushed += found.is_pushed
    truth, its_error = _answer(engine, f"truth_{name}", whole)
    told = f"{name} {question}"
    if error is not None and its_error is None:
        _note_refusal(str(error), told, relation, found)
    elif error is not None:
        found.engine_errors += 1
    elif its_error is not None or ours is None or truth is None:
        found.faults.append(f"{told}: answered, and not {its_error}")
    elif not _is_right(question, ours, truth):
        truth, _ = _answer(engine, f"arrow_{name}", whole)
        if truth is not None and _is_right(question, ours, truth):
            found.mistranslated += 1
            return
        truth = truth or Counter()
        missing, surplus = truth - ours, ours - truth
        found.faults.append(
            f"{told}\n  {sql_of(question, name)}\n  {missing.total()} missing "
            f"{list(missing)[:2]}, {surplus.total()} surplus {list(surplus)[:2]}"
        )
    else:
        found.answered += 1
        found.rows += ours.total()


def _note_refusal(text: str, told: str, relation: Relation, found: Found) -> None:
    if _OWN_FAULT in text:
        found.engine_errors += 1
    elif relation.binds and "not bound" in text:
        found.refusals["not bound"] += 1
    elif relation.damage and relation.damage in text:
        found.refusals["damaged"] += 1
    else:
        found.faults.append(f"{told}: {text[:600]}")


def _is_right(question: Question, ours: Counter[str], truth: Counter[str]) -> bool:
    if question.shape == "limit":
        return ours <= truth and ours.total() == min(question.limit, truth.total())
    return ours == truth


def _answer(
    engine: Any, name: str, question: Question
) -> tuple[Counter[str] | None, BaseException | None]:
    try:
        rows = engine.ask(name, question)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001  (a panic of Polars is no Exception)
        return None, error
    return Counter(repr(row) for row in rows), None


def _noting(dataset: Any, found: Found) -> Any:
    """Return the same dataset, which counts the filters that it is handed."""

    class Noting(type(dataset)):  # type: ignore[misc]
        """Counts."""

        def scanner(self, columns: Any = None, filter: Any = None, **options: Any) -> Any:  # noqa: A002
            """Note a filter."""
            found.is_pushed |= filter is not None
            return super().scanner(columns, filter, **options)

    return Noting(*dataset.__reduce__()[1])


def _table(rows: Iterable[Row], columns: dict[str, pa.DataType]) -> pa.Table:
    lists = [{name: row[name] for name in columns} for row in rows]
    return pa.Table.from_pylist(lists, pa.schema(columns))


def _entries(rows: Iterable[Row], state: str | None = None) -> list[Row]:
    """Return decoded entries as a dataset has them."""
    return [
        {**row, "file": row["file_path"].rpartition("/")[2]}
        | ({} if state is None else {"match_state": state})
        for row in rows
    ]


def _pairs() -> set[tuple[str, str]]:
    return {(topic, key) for topic in TOPICS for key in KEYS}


def _relations_of(name: str, path: Path, found: Found) -> dict[str, Relation]:
    rows = decode(path, _SLOTS)
    store, blind = MessageStore(path), MessageStore(path, commit_log=None)
    bare = _ENTRY | {"match_state": _TEXT}
    keyed = keyed_rows(_entries(rows.entries, "no_log"), _pairs(), verified=False)
    made = {
        f"known_{name}": Relation(store.dataset(), _table(_entries(rows.known), _KEYED)),
        f"bare_{name}": Relation(blind.dataset(), _table(_entries(rows.entries, "no_log"), bare)),
        f"keyed_{name}": Relation(blind.dataset(), _table(keyed, _KEYED), binds=True),
        f"messages_{name}": Relation(store.dataset("messages"), _table(rows.messages, _MESSAGE)),
        f"units_{name}": Relation(store.dataset("queues"), _table(rows.units, _UNIT)),
    }
    return {
        each: Relation(_noting(relation.dataset, found), relation.truth, relation.binds)
        for each, relation in made.items()
    }


def _relations(directory: Path, seed: int, found: Found) -> dict[str, Relation]:
    made: dict[str, Relation] = {}
    stores = make_stores(directory, seed)
    for each in stores:
        made |= _relations_of(each.name, each.path, found)
    damaged = _damaged(stores[1].path, directory / "damaged", seed)
    for name, relation in _relations_of("damaged", stores[1].path, found).items():
        if "units" not in name and "messages" not in name:
            log = None if "known" not in name else "auto"
            ours = _noting(MessageStore(damaged, commit_log=log).dataset(), found)
            made[name] = Relation(ours, relation.truth, relation.binds, str(damaged / "index"))
    return made


def _damaged(sound: Path, path: Path, seed: int) -> Path:
    """Copy a store, and damage an entry of its first file: what meets it must be refused."""
    shutil.copytree(sound, path)
    first = min((path / "index").iterdir())
    position = Random(seed).randrange(2, 30)
    with first.open("r+b") as file:
        file.seek(40 + 4 * _SLOTS + 20 * position + 12)
        file.write(struct.pack(">i", -5))
    return path


class _Growing:
    """A store that a broker goes on writing."""

    def __init__(self, path: Path, seed: int) -> None:
        self._path = path
        self._random = Random(seed + 2)
        self._count = 0
        self._stored = 1_700_000_000_000
        self._log = Log(1 << 14)
        self.grow()

    def grow(self) -> None:
        """Append some messages, and index them."""
        random = self._random
        for _ in range(15):
            self._count += 1
            self._stored += random.choice([0, 1, 1000, 60_000, -3000])
            key = random.choice(["Aa", "BB", "order-49", "k%_2", "5"])
            properties = [("UNIQ_KEY", f"u{self._count}"), ("KEYS", key)]
            topic = random.choice(TOPICS[:2])
            self._log.append(
                Message(
                    topic=topic,
                    properties=properties_text(properties),
                    store_timestamp=self._stored,
                    queue_offset=self._count,
                )
            )
        self._log.write_to(self._path / "commitlog")
        layout = rmqindex.Layout(_SLOTS, 40)
        index = self._path / "index"
        rmqindex.rebuild_index(self._path, index, layout, resume=index.is_dir(), index_tags=False)

    def relations(self, found: Found) -> dict[str, Relation]:
        """Return what is to be found now."""
        (self._path / "consumequeue").mkdir(exist_ok=True)
        made = _relations_of("growing", self._path, found)
        return {name: relation for name, relation in made.items() if "units" not in name}
