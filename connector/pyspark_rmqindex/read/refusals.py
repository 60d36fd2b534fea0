"""What to write where a ``table()`` refuses a query: whole lines, for the path and the options.

A data source is not told the query, only the filters that Spark pushes down.
So a refusal has a line for each kind of query that pushes no keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark_rmqindex.options import COLUMNS, OPTIONS, sql_times
from pyspark_rmqindex.schema import ENTRY_COLUMNS, KEY_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_NAMES = {
    option.name.lower(): option.name
    for option in OPTIONS
    if not option.secret and not option.internal
}
# The path, which each call writes itself, and what turns pushdown on.
_NOT_REPEATED = frozenset({"path", "paths", "pushdown"})
# Options that a call in SQL does not take; times are its arguments begin and end.
_NOT_OF_FUNCTIONS = frozenset(
    {"beginTimestamp", "endTimestamp", "logLevel", "maxPartitionBytes", "timeZone"}
)
# Options that lookup() does not take.
_NOT_OF_LOOKUP = frozenset({"maxPartitionBytes"})
# Options that need a CommitLog, and those by which rows depend on one.
_OF_MESSAGES = frozenset({"bodyText", "checkCrc", "decompressBody", "message"})
_BY_MESSAGES = frozenset({"beginTimestamp", "endTimestamp", "unverified"})
# Columns that need no CommitLog.
_OF_ENTRIES = frozenset({*ENTRY_COLUMNS, *KEY_COLUMNS, "store"})
_PAIRS = "[('A', 'x'), ('B', 'y')]"
_ROWS = "VALUES ('A', 'x'), ('B', 'y')"
_KEYS = f"keys = spark.createDataFrame({_PAIRS}, 'topic STRING, key STRING')"
_LISTS = (
    "WHERE topic IN ('A', 'B') AND key IN ('x', 'y') "
    "AND ((topic = 'A' AND key = 'x') OR (topic = 'B' AND key = 'y'))"
)
_FOR_MANY = (
    "for a join, IN (SELECT ..) or many keys (how='semi' for the rows of keys that have an entry, "
    "topic='A' and key='order_id' for other columns)"
)
_DEEPER = "FROM (SELECT * FROM messages WHERE topic = 'A' AND key = 'x')"


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls that read what a relation reads."""

    path: str | Sequence[str] = "/data/store"
    options: Mapping[str, str] | None = None

    @property
    def lookup(self) -> str:
        """The call of ``lookup()``."""
        given = {name: text for name, text in self._given().items() if name not in _NOT_OF_LOOKUP}
        written = _written(_without_texts(given))
        return f"pyspark_rmqindex.lookup(keys, {self.path!r}{written and ', '}{written})"

    @property
    def table(self) -> str:
        """The call of ``table()``."""
        written = _written(self._given())
        return f"pyspark_rmqindex.table(spark, {self.path!r}{written and ', '}{written})"

    def load(self, *, known: bool) -> str:
        """Return the call of ``load()``."""
        given = self._given()
        log = given.get("commitLog", "auto")
        if known or self._needs_log:
            given["commitLog"] = "auto" if log == "none" and known else log
        elif "commitLog" not in given or log == "none":
            given = _without_texts(given)
        options = f".options({_written(given)})" if given else ""
        return f"spark.read.format('rmqindex'){options}.load({self.path!r})"

    def for_unbound(self, names: Sequence[str], pushed: str) -> str:
        """Return the refusal of a query that does not bind both topic and key."""
        like = self.load(known=True) + ".where(\"key LIKE 'order-%'\")"
        ways = (
            ("for an OR of pairs, the lists beside it", _LISTS),
            (_FOR_MANY, self._joined),
            ("for a join in SQL, after pyspark_rmqindex.register(spark)", self._lateral),
            ("in a subquery that compares with the outer row by < or >, one level deeper", _DEEPER),
            ("for LIKE, NOT, a function or a cast of key, with a CommitLog", like),
            ("for key_hash, times, offsets or positions alone", self._without_keys),
            ("for all entries, without keys", self.load(known=False)),
        )
        return (
            f"{' and '.join(names)} not bound: a query on table() must bind both topic and key "
            "with =, <=> or IN, such as WHERE topic = 'TopicTest' AND key IN ('a', 'b'). Spark "
            f"pushed down {pushed or 'nothing'}: it pushes no OR, LIKE, function, cast, subquery "
            f"or join. Write instead\n{_listed(ways)}"
        )

    def for_too_many(self, count: int, most: int) -> str:
        """Return the refusal of a query that binds too many pairs."""
        return (
            f"{count} pairs of topic and key: expected at most {most} in one query. Write instead\n"
            + _listed([("for any number of keys", self._joined)])
        )

    def for_pair_limit(self, count: int, most: int) -> str:
        """Return the refusal of a query on a ``table()`` that was asked for too many pairs."""
        ways = [("for the next ones", self.table), ("for all keys at once", self._joined)]
        return (
            f"{count} pairs of topic and key were asked of this table(): expected at most {most} "
            f"over all its queries; make a fresh table() for the next ones\n{_listed(ways)}"
        )

    @property
    def _lateral(self) -> str:
        paths = [self.path] if isinstance(self.path, str) else self.path
        texts = [_literal(path) for path in paths]
        path = texts[0] if len(texts) == 1 else f"array({', '.join(texts)})"
        given = self._given()
        options = "".join(
            f", {_name(name)} => {_literal(value)}"
            for name, value in given.items()
            if name not in _NOT_OF_FUNCTIONS
        )
        times = "".join(f", {name} => {value}" for name, value in sql_times(given).items())
        return (
            f"FROM {_ROWS} AS k(topic, id), "
            f"LATERAL rmq_lookup({path}, k.topic, k.id{times}{options}) m"
        )

    @property
    def _without_keys(self) -> str:
        if self._needs_log:
            return self.load(known=False)
        given = {
            name: value
            for name, value in _without_texts(self._given()).items()
            if name != "commitLog"
        }
        return f"pyspark_rmqindex.table(spark, {self.path!r}, {_written({'keys': False, **given})})"

    @property
    def _needs_log(self) -> bool:
        """Whether the same rows, or columns, need the CommitLog."""
        given = self._given()
        if given.get("commitLog") == "none":
            return False
        return not (_OF_MESSAGES | _BY_MESSAGES).isdisjoint(given) or not _OF_ENTRIES.issuperset(
            map(str.lower, _columns(given))
        )

    @property
    def _joined(self) -> str:
        return f"{_KEYS}\n{self.lookup}"

    def _given(self) -> dict[str, str]:
        given = {name.lower(): value for name, value in (self.options or {}).items()}
        return {
            written: given[name]
            for name, written in _NAMES.items()
            if name in given and name not in _NOT_REPEATED
        }


def _listed(ways: Iterable[tuple[str, str]]) -> str:
    return "\n".join(
        f"{for_}:\n" + "\n".join(f"    {line}" for line in lines.splitlines())
        for for_, lines in ways
    )


def _columns(given: Mapping[str, str]) -> tuple[str, ...]:
    return COLUMNS.parse(given["columns"]) if "columns" in given else ()


def _without_texts(given: Mapping[str, str]) -> dict[str, str]:
    """Return options without the columns topic and key, for a call that does not return them."""
    if "columns" not in given:
        return dict(given)
    names = [name for name in _columns(given) if name.lower() not in KEY_COLUMNS]
    return {**given, "columns": ",".join(names)}


def _name(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _written(options: Mapping[str, str | bool]) -> str:
    if all(name.isidentifier() for name in options):
        return ", ".join(f"{name}={value!r}" for name, value in options.items())
    return f"**{dict(options)!r}"
