"""The relations of queries: each as users read it, and as a view of decoded rows."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import pyspark_rmqindex
import rmqindex

from .decoder import keyed_rows
from .stores import KEYS, TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from random import Random

    from pyspark.sql import SparkSession

    from .decoder import Row
    from .stores import Made

__all__ = ["Relation", "World"]

_TIME = pa.timestamp("us", "UTC")
_ENTRY = {
    "key_hash": pa.int32(),
    "phy_offset": pa.int64(),
    "store_timestamp": _TIME,
    "time_diff": pa.int32(),
    "slot": pa.int32(),
    "position": pa.int32(),
    "prev_position": pa.int32(),
    "file_path": pa.string(),
}
_KEYS = {"topic": pa.string(), "key": pa.string()}
_MATCH = {"match_state": pa.string()}
_STORE = {"store": pa.string()}
_MESSAGE = {
    "topic": pa.string(),
    "uniq_key": pa.string(),
    "keys": pa.string(),
    "tags": pa.string(),
    "phy_offset": pa.int64(),
    "size": pa.int32(),
    "queue_id": pa.int32(),
    "queue_offset": pa.int64(),
    "sys_flag": pa.int32(),
    "flag": pa.int32(),
    "born_timestamp": _TIME,
    "store_timestamp": _TIME,
    "born_host": pa.string(),
    "store_host": pa.string(),
    "reconsume_times": pa.int32(),
    "prepared_transaction_offset": pa.int64(),
    "body": pa.binary(),
    "body_crc": pa.int32(),
    "magic_code": pa.int32(),
}
_UNIT = {
    "topic": pa.string(),
    "queue_id": pa.int32(),
    "queue_offset": pa.int64(),
    "phy_offset": pa.int64(),
    "size": pa.int32(),
    "tags_code": pa.int64(),
    "file_path": pa.string(),
}
_FINDING = {
    "file": pa.string(),
    "rule": pa.string(),
    "severity": pa.string(),
    "byte": pa.int64(),
    "expected": pa.string(),
    "got": pa.string(),
    "remedy": pa.string(),
}
_FROM, _TO = 1_700_000_060_000, 1_700_009_000_000
_TIMES = f"store_timestamp BETWEEN timestamp_millis({_FROM}) AND timestamp_millis({_TO})"
_KINDS = {pa.string(): "text", _TIME: "time", pa.binary(): "bytes"}


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation.

    Attributes:
        ours: What a FROM names to read it through the package.
        truth: What it names to read the decoded rows.
        columns: The kind of each column: ``number``, ``text``, ``time`` or ``bytes``.
        needs_keys: Whether a query must bind topic and key.
    """

    ours: str
    truth: str
    columns: dict[str, str]
    needs_keys: bool = False


@dataclass
class World:
    """The relations of one session."""

    spark: SparkSession
    stores: list[Made]
    directory: Path
    random: Random
    fixed: list[Relation] = field(default_factory=list)
    tables: list[Relation] = field(default_factory=list)
    lookups: list[Relation] = field(default_factory=list)
    _pairs: set[tuple[str, str]] = field(default_factory=set)
    _views: int = 0

    def __post_init__(self) -> None:
        """Make what does not change from query to query."""
        self._pairs = set(itertools.product(TOPICS, KEYS))
        pyspark_rmqindex.register(self.spark)
        for made in self.stores:
            self._add_plain(made)
            self._add_messages(made)
            self._add_units(made)
            self._add_findings(made)
            self._save_keyed(made.name, [made], store=False)
        self._add_several()
        self._save_keyed("all", self.stores, store=True)
        self.renew()

    @property
    def all(self) -> list[Relation]:
        """Every relation that needs no keys, each kind as often as the others."""
        return [*self.fixed, *self.lookups]

    def renew(self) -> None:
        """Make tables and lookups anew, as users do now and then."""
        for relation in self.tables + self.lookups:
            self.spark.catalog.dropTempView(relation.ours)
        for relation in self.lookups:
            self.spark.catalog.dropTempView(relation.truth)
        self.tables, self.lookups = [], []
        names = [(made.name, str(made.path), False) for made in self.stores]
        names.append(("all", [str(made.path) for made in self.stores], True))
        for name, path, store in names:
            stored = _STORE if store else {}
            exact = _kinds(_KEYS | _ENTRY | stored | _MATCH)
            loose = _kinds(_KEYS | _ENTRY | stored)
            self._add_table(f"exact_{name}", exact, path)
            self._add_table(f"loose_{name}", loose, path, commitLog="none")
            plain = pyspark_rmqindex.table(self.spark, path, keys=False)
            ours = self._ours(plain)
            truth = "truth_plain_" + name
            self.tables.append(Relation(ours, truth, _kinds(_ENTRY | stored)))
        for name, path, _ in names:
            self._add_lookups(name, path)

    def function(self, random: Random) -> Relation:
        """Return a call of ``rmq_lookup``."""
        made = random.choice(self.stores)
        topic, key = random.choice(TOPICS), random.choice(KEYS)
        log, name, columns = random.choice(
            [
                ("", "exact", _KEYS | _ENTRY | _MATCH),
                (", commitLog => 'none'", "loose", _KEYS | _ENTRY),
            ]
        )
        arguments = f"'{made.path}', {_text(topic)}, {_text(key)}"
        truth = f"truth_{name}_{made.name}"
        where = f"topic = {_text(topic)} AND key = {_text(key)}"
        return Relation(
            f"rmq_lookup({arguments}{log})",
            f"(SELECT * FROM {truth} WHERE {where})",
            _kinds(columns),
        )

    def lateral(self, random: Random) -> tuple[str, str, list[str]]:
        """Return a lateral call for each row of some keys: ours, the truth, and its columns."""
        made = random.choice(self.stores)
        rows = ", ".join(
            f"({_text(random.choice(TOPICS))}, {_text(random.choice(KEYS))}, {number})"
            for number in range(random.randrange(1, 5))
        )
        keys = f"(VALUES {rows}) AS k(t, id, n)"
        name = f"truth_exact_{made.name}"
        ours = f"{keys}, LATERAL rmq_lookup('{made.path}', k.t, k.id) m"
        return ours, f"{keys} JOIN {name} m ON m.topic = k.t AND m.key = k.id", ["n", "id"]

    def _add_plain(self, made: Made) -> None:
        reader = self.spark.read.format("rmqindex")
        path = str(made.path)
        self._save("plain_" + made.name, made.rows.entries, _ENTRY)
        known = _KEYS | _ENTRY | _MATCH
        self._save("known_" + made.name, made.rows.known, known)
        self._add(reader.load(path), "plain_" + made.name, _ENTRY)
        log = self.spark.read.format("rmqindex").option("commitLog", "auto")
        self._add(log.load(path), "known_" + made.name, known)
        few = ("key", "phy_offset", "store_timestamp", "match_state")
        chosen = log.option("columns", ",".join(few)).load(path)
        self._add(chosen, "known_" + made.name, {name: known[name] for name in few})
        hashes = sorted({row["key_hash"] for row in made.rows.entries})[::7]
        one = self.spark.read.format("rmqindex").option("keyHash", str(hashes[0])).load(path)
        self._add(one, "plain_" + made.name, _ENTRY, f"key_hash = {hashes[0]}")
        view = f"using_{made.name}"
        self.spark.sql(f"CREATE TEMPORARY VIEW {view} USING rmqindex OPTIONS (path '{path}')")
        self.fixed.append(Relation(view, "truth_plain_" + made.name, _kinds(_ENTRY)))

    def _add_messages(self, made: Made) -> None:
        name = "messages_" + made.name
        self._save(name, made.rows.messages, _MESSAGE)

        def read(**options: str) -> Any:
            reader = self.spark.read.format("rmqcommitlog").options(decompressBody="false")
            return reader.options(**options).load(str(made.path))

        self._add(read().select(*_MESSAGE), name, _MESSAGE)
        few = {each: _MESSAGE[each] for each in ("topic", "tags", "store_timestamp", "queue_id")}
        self._add(read(columns=",".join(few)), name, few)
        starts = sorted(row["phy_offset"] for row in made.rows.messages)
        low, high = starts[len(starts) // 4], starts[len(starts) // 2]
        chosen = (
            ({"topic": "TopicTest"}, "topic = 'TopicTest'"),
            (
                {"topic": '["TopicOrder", "absent"]', "queueId": "1"},
                "topic = 'TopicOrder' AND queue_id = 1",
            ),
            ({"tags": '["TagA", "TagB"]'}, "tags IN ('TagA', 'TagB')"),
            ({"beginTimestamp": str(_FROM), "endTimestamp": str(_TO)}, _TIMES),
            (
                {"beginOffset": str(low), "endOffset": str(high)},
                f"phy_offset >= {low} AND phy_offset < {high}",
            ),
        )
        for options, where in chosen:
            self._add(read(**options).select(*_MESSAGE), name, _MESSAGE, where)

    def _add_units(self, made: Made) -> None:
        name = "units_" + made.name
        self._save(name, made.rows.units, _UNIT)
        units = self.spark.read.format("rmqconsumequeue").load(str(made.path))
        self._add(units, name, _UNIT)

    def _add_findings(self, made: Made) -> None:
        """Add the audit, whose rows are the codec's; a task gives each the remedy of its rule."""
        name = "findings_" + made.name
        remedies = {rule.name: rule.remedy for rule in rmqindex.AUDIT_RULES}
        found = rmqindex.verify(made.path, commit_log="auto").to_pylist()
        findings = [{**row, "remedy": remedies[row["rule"]]} for row in found]
        self._save(name, findings, _FINDING)
        reader = self.spark.read.format("rmqindex").options(audit="true", commitLog="auto")
        self._add(reader.load(str(made.path)), name, _FINDING)

    def _add_several(self) -> None:
        paths = [str(made.path) for made in self.stores]
        for name, of, columns in (
            ("plain_all", lambda rows: rows.entries, _ENTRY),
            ("known_all", lambda rows: rows.known, _KEYS | _ENTRY | _MATCH),
            ("messages_all", lambda rows: rows.messages, _MESSAGE),
        ):
            rows = [
                {**row, "store": str(made.path)} for made in self.stores for row in of(made.rows)
            ]
            both = columns | _STORE
            self._save(name, rows, both)
            format_ = "rmqcommitlog" if name == "messages_all" else "rmqindex"
            reader = self.spark.read.format(format_)
            if name == "known_all":
                reader = reader.option("commitLog", "auto")
            if name == "messages_all":
                reader = reader.option("decompressBody", "false")
            # Sail drops a list of paths that load() is given.
            several = reader.option("paths", json.dumps(paths)).load()
            self._add(several.select(*both), name, both)

    def _save_keyed(self, name: str, stores: list[Made], *, store: bool) -> None:
        stored = _STORE if store else {}
        for kind, columns in (
            ("exact", _KEYS | _ENTRY | stored | _MATCH),
            ("loose", _KEYS | _ENTRY | stored),
        ):
            rows: list[Row] = []
            for made in stores:
                source = made.rows.known if kind == "exact" else made.rows.entries
                found = keyed_rows(source, self._pairs, verified=kind == "exact")
                rows += [{**row, "store": str(made.path)} for row in found]
            self._save(f"{kind}_{name}", rows, columns)

    def _add_table(self, name: str, columns: dict[str, str], path: Any, **options: str) -> None:
        frame = pyspark_rmqindex.table(self.spark, path, **options)
        ours = self._ours(frame)
        self.tables.append(Relation(ours, "truth_" + name, columns, needs_keys=True))

    def _add_lookups(self, name: str, path: Any) -> None:
        random = self.random
        stored = _STORE if name == "all" else {}
        for how in ("inner", "left", "semi", "anti"):
            kind = random.choice(["exact", "loose"])
            options = {} if kind == "exact" else {"commitLog": "none"}
            entry = _ENTRY | stored | (_MATCH if kind == "exact" else {})
            keys, times = self._keys_view(random.randrange(1, 8))
            source = self.spark.table(keys)
            found = pyspark_rmqindex.lookup(source, path, how=how, **options)
            condition = "t.topic = k.topic AND t.key = k.key"
            key_columns = _KEYS | {"n": pa.int32()}
            if times:
                key_columns |= {"begin": _TIME, "end": _TIME}
                condition += (
                    " AND (k.begin IS NULL OR t.store_timestamp >= k.begin)"
                    " AND (k.end IS NULL OR t.store_timestamp <= k.end)"
                )
            chosen = [f"k.{each}" for each in key_columns]
            if how in {"inner", "left"}:
                chosen += [f"t.{each}" for each in entry]
            joins = {
                "inner": "JOIN",
                "left": "LEFT JOIN",
                "semi": "LEFT SEMI JOIN",
                "anti": "LEFT ANTI JOIN",
            }
            sql = (
                f"SELECT {', '.join(chosen)} FROM {keys} k {joins[how]} truth_{kind}_{name} t "
                f"ON {condition}"
            )
            view = self._ours(found)
            truth = f"truth_{view}"
            self.spark.sql(sql).createOrReplaceTempView(truth)
            columns = key_columns | (entry if how in {"inner", "left"} else {})
            self.lookups.append(Relation(view, truth, _kinds(columns)))

    def _keys_view(self, count: int) -> tuple[str, bool]:
        """Make a view of keys, NULLs and repeated ones among them; and whether it has times."""
        random = self.random
        times = random.random() < 0.4
        rows = []
        for number in range(count):
            topic = random.choice([*TOPICS, *TOPICS, None])
            key = random.choice([*KEYS, *KEYS, None])
            row = f"{_text(topic)}, {_text(key)}, {number % 3}"
            if times:
                begin, end = (
                    random.choice(["NULL", f"timestamp_millis({1_700_000_000_000 + at})"])
                    for at in (random.randrange(100_000), random.randrange(100_000, 80_000_000))
                )
                row += f", CAST({begin} AS TIMESTAMP), CAST({end} AS TIMESTAMP)"
            rows.append(f"({row})")
        names = "topic, key, n" + (", begin, end" if times else "")
        casts = "CAST(topic AS STRING) topic, CAST(key AS STRING) key, CAST(n AS INT) n"
        casts += ", begin, end" if times else ""
        self._views += 1
        view = f"keys_{self._views}"
        values = f"VALUES {', '.join(rows)} t({names})"
        self.spark.sql(f"CREATE TEMPORARY VIEW {view} AS SELECT {casts} FROM {values}")
        return view, times

    def _add(
        self,
        frame: Any,
        truth: str,
        columns: dict[str, pa.DataType],
        where: str | None = None,
    ) -> None:
        name = "truth_" + truth
        source = name if where is None else f"(SELECT * FROM {name} WHERE {where})"
        self.fixed.append(Relation(self._ours(frame), source, _kinds(columns)))

    def _ours(self, frame: Any) -> str:
        self._views += 1
        name = f"ours_{self._views}"
        frame.createOrReplaceTempView(name)
        return name

    def _save(self, name: str, rows: Iterable[Row], columns: dict[str, pa.DataType]) -> None:
        """Save rows as Parquet, which engines read without Python, and cache them."""
        schema = pa.schema([pa.field(each, type_) for each, type_ in columns.items()])
        lists = [{each: row[each] for each in columns} for row in rows]
        path = self.directory / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist(lists, schema), path)
        view = "truth_" + name
        self.spark.read.parquet(str(path)).cache().createOrReplaceTempView(view)


def _kinds(columns: dict[str, pa.DataType]) -> dict[str, str]:
    return {name: _KINDS.get(type_, "number") for name, type_ in columns.items()}


def _text(value: str | None) -> str:
    return "NULL" if value is None else json.dumps(value, ensure_ascii=False)
