"""Random statements, each in two forms: over the package, and over the decoded rows."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .stores import KEYS, TOPICS

if TYPE_CHECKING:
    from random import Random

    from .relations import Relation, World

__all__ = ["Query", "make_query"]

_COMPARISONS = ("=", "<=>", "<>", "<", "<=", ">", ">=")
_NUMBERS = (
    "0", "1", "2", "7", "40", "96", "100", "200", "1000", "5000", "65536", "100000",
    "-1", "-5", "2147483647", "2147483648", "-2147483648", "9223372036854775807",
    "3.0", "2.5", "1e3", "CAST(3 AS TINYINT)", "CAST(200 AS DECIMAL(20,2))", "NULL", "'7'",
    "CAST('12' AS BIGINT)", "1 + 1", "length('abc')",
)  # fmt: skip
_TIMES = (
    "TIMESTAMP '2023-11-14 22:13:24.511'",
    "TIMESTAMP '2023-11-14 22:13:20'",
    "TIMESTAMP '2023-11-15 06:00:00+08:00'",
    "TIMESTAMP '2023-11-14 22:15:00.000001'",
    "TIMESTAMP_NTZ '2023-11-14 22:30:00'",
    "timestamp_millis(1700000060000)",
    "timestamp_micros(1700000060000001)",
    "DATE '2023-11-15'",
    "'2023-11-14 23:00:00'",
    "TIMESTAMP '0001-01-01 00:00:00'",
    "TIMESTAMP '9999-12-31 23:59:59.999999'",
    "TIMESTAMP '+12000-01-01 00:00:00'",
    "TIMESTAMP '-0500-01-01 00:00:00'",
    "CAST(NULL AS TIMESTAMP)",
    "TIMESTAMP '2023-11-14 22:13:20' + INTERVAL 90 MINUTES",
)
_JOINS = ("JOIN", "JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "FULL JOIN")
_TEXTS = (*KEYS, *TOPICS, "TagA", "verified", "unverified", "TagA ", "u3", "zzz")
_PATTERNS = ("order-%", "%a%", "A_", "%", "", "k\\\\%%", "ORDER:68", "%订单%")


@dataclass(frozen=True, slots=True)
class Query:
    """A statement.

    Attributes:
        kind: Its shape.
        ours: Over the package.
        truth: Over the decoded rows.
        binds: Whether it asks a ``table()`` that needs keys.
    """

    kind: str
    ours: str
    truth: str
    binds: bool


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of SQL in both forms."""

    ours: str
    truth: str


def make_query(world: World, random: Random) -> Query:
    """Return a random statement over random relations."""
    kind = random.choice(list(_SHAPES))
    part = _SHAPES[kind](world, random)
    needs = {relation.ours for relation in world.tables if relation.needs_keys}
    binds = not needs.isdisjoint(re.findall(r"\w+", part.ours))
    return Query(kind, part.ours, part.truth, binds)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _relation(world: World, random: Random) -> Relation:
    """Return a relation; those that push filters down are the likeliest."""
    turn = random.random()
    if turn < 0.45:
        return random.choice(world.tables)
    if turn < 0.6:
        return random.choice(world.lookups)
    if turn < 0.7:
        return world.function(random)
    return random.choice(world.fixed)


def _cased(name: str, random: Random) -> str:
    return random.choice([name, name, name, name.upper(), name.title()])


def _predicate(relation: Relation, random: Random, prefix: str = "", depth: int = 0) -> str:
    """Return a random condition over the columns of a relation."""
    if depth < 2 and random.random() < 0.25:
        one, other = (_predicate(relation, random, prefix, depth + 1) for _ in range(2))
        return random.choice([f"({one} OR {other})", f"({one} AND {other})", f"NOT ({one})"])
    name, kind = random.choice(list(relation.columns.items()))
    column = prefix + _cased(name, random)
    operator = random.choice(_COMPARISONS)
    if random.random() < 0.08:
        return f"{column} IS {random.choice(['', 'NOT '])}NULL"
    if kind == "number":
        value, low, high = (random.choice(_NUMBERS) for _ in range(3))
        return random.choice(
            [
                f"{column} {operator} {value}",
                f"{column} {operator} {value}",
                f"{value} {operator} {column}",
                f"{column} IN ({low}, {high}, 3)",
                f"{column} NOT IN ({random.randrange(100)}, 3)",
                f"{column} BETWEEN {low} AND {high}",
                f"{column} % 3 = {random.randrange(3)}",
                f"CAST({column} AS STRING) LIKE '1%'",
            ]
        )
    if kind == "time":
        value, other = (random.choice(_TIMES) for _ in range(2))
        return random.choice(
            [
                f"{column} {operator} {value}",
                f"{column} {operator} {value}",
                f"{column} BETWEEN {value} AND {other}",
                f"{column} IN ({value}, timestamp_millis(1700000004511))",
                f"date({column}) = DATE '2023-11-14'",
                f"hour({column}) = 22",
                f"unix_millis({column}) > 1700000060000",
            ]
        )
    if kind == "bytes":
        return f"length({column}) {operator} {random.randrange(100)}"
    value, other = (_text(random.choice(_TEXTS)) for _ in range(2))
    return random.choice(
        [
            f"{column} {operator} {value}",
            f"{column} = {value}",
            f"{column} IN ({value}, {other}, NULL)",
            f"{column} LIKE {_text(random.choice(_PATTERNS))}",
            f"{column} ILIKE {_text(random.choice(_PATTERNS))}",
            f"upper({column}) = upper({value})",
            f"{column} = concat('Top', 'icTest')",
            f"coalesce({column}, '') = {value}",
            f"length({column}) < {random.randrange(20)}",
            f"try_cast({column} AS INT) = 5",
            f"{column} RLIKE '^[A-Z]'",
            f"{column} BETWEEN {value} AND {other}",
        ]
    )


def _bound(random: Random, prefix: str = "") -> str:
    """Return conditions that bind topic and key; now and then one that does not, or an OR."""
    topics = random.sample(TOPICS, random.choice([1, 1, 2, 3]))
    keys = random.sample(KEYS, random.choice([1, 1, 2, 5]))
    turn = random.random()
    if turn < 0.04:
        return f"{prefix}topic = {_text(topics[0])}"
    if turn < 0.07:
        return f"{prefix}topic = {_text(topics[0])} AND {prefix}key LIKE 'A%'"
    if turn < 0.12:
        pairs = [(topic, key) for topic in topics for key in keys]
        branches = " OR ".join(
            f"({prefix}topic = {_text(topic)} AND {prefix}key = {_text(key)})"
            for topic, key in random.sample(pairs, min(2, len(pairs)))
        )
        if turn < 0.09:
            return f"({branches})"
        lists = " AND ".join(
            f"{prefix}{name} IN ({', '.join(map(_text, values))})"
            for name, values in (("topic", topics), ("key", keys))
        )
        return f"{lists} AND ({branches})"
    clauses = []
    for name, values in (("topic", topics), ("key", keys)):
        column = prefix + _cased(name, random)
        if len(values) == 1:
            clauses.append(f"{column} {random.choice(['=', '<=>'])} {_text(values[0])}")
        else:
            listed = [*map(_text, values), *["NULL"] * (random.random() < 0.2)]
            clauses.append(f"{column} IN ({', '.join(listed)})")
    random.shuffle(clauses)
    return " AND ".join(clauses)


def _where(relation: Relation, random: Random, prefix: str = "") -> str:
    clauses = [_bound(random, prefix)] if relation.needs_keys and random.random() < 0.96 else []
    few = random.choice([0, 1, 1, 2]) if relation.needs_keys else random.choice([0, 1, 1, 2, 3])
    clauses += [_predicate(relation, random, prefix) for _ in range(few)]
    return f" WHERE {' AND '.join(clauses)}" if clauses else ""


def _columns(relation: Relation, random: Random, most: int = 5) -> list[str]:
    names = list(relation.columns)
    return random.sample(names, random.randrange(1, min(most, len(names)) + 1))


def _both(relation: Relation, sql: str) -> _Part:
    """Return SQL whose ``{r}`` is a relation."""
    return _Part(sql.replace("{r}", relation.ours), sql.replace("{r}", relation.truth))


def _of(name: str, kind: str, relation: Relation, random: Random) -> str | None:
    """Return a column of a kind, the named one if it is there."""
    if relation.columns.get(name) == kind:
        return name
    found = [each for each, its in relation.columns.items() if its == kind]
    return random.choice(found) if found else None


def _simple(world: World, random: Random) -> _Part:
    relation = _relation(world, random)
    columns = _columns(relation, random)
    distinct = random.choice(["", "", "DISTINCT "])
    return _both(
        relation, f"SELECT {distinct}{', '.join(columns)} FROM {{r}}{_where(relation, random)}"
    )


def _everything(world: World, random: Random) -> _Part:
    relation = _relation(world, random)
    return _both(
        relation, f"SELECT {', '.join(relation.columns)} FROM {{r}}{_where(relation, random)}"
    )


def _limited(world: World, random: Random) -> _Part:
    relation = _relation(world, random)
    columns = _columns(relation, random)
    order = ", ".join(f"{name} {random.choice(['ASC', 'DESC NULLS LAST'])}" for name in columns)
    limit = random.choice(["LIMIT 3", "LIMIT 1", "LIMIT 5 OFFSET 2", "LIMIT 0", "OFFSET 4"])
    where = _where(relation, random)
    return _both(
        relation, f"SELECT {', '.join(columns)} FROM {{r}}{where} ORDER BY {order} {limit}"
    )


def _aggregate(world: World, random: Random) -> _Part:
    relation = _relation(world, random)
    group = random.choice(list(relation.columns))
    measures = ["count(*) AS c"]
    for name in _columns(relation, random, 3):
        kind = relation.columns[name]
        functions = ["count", "min", "max", "count(DISTINCT "]
        if kind == "number":
            functions.append("sum")
        function = random.choice(functions)
        call = f"{function}{name})" if "(" in function else f"{function}({name})"
        measures.append(call)
    having = random.choice(["", "", " HAVING count(*) > 1"])
    if random.random() < 0.4:
        return _both(relation, f"SELECT {', '.join(measures)} FROM {{r}}{_where(relation, random)}")
    return _both(
        relation,
        f"SELECT {group}, {', '.join(measures)} FROM {{r}}{_where(relation, random)} "
        f"GROUP BY {group}{having}",
    )


def _sets(world: World, random: Random) -> _Part:
    """Unions and others of two to four selects, of one column of one kind each."""
    word = random.choice(["UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL"])
    kind = random.choice(["number", "text", "time"])
    parts = []
    same = _relation(world, random)
    for _ in range(random.randrange(2, 5)):
        relation = same if random.random() < 0.5 else _relation(world, random)
        name = _of("phy_offset" if kind == "number" else "key", kind, relation, random)
        if name is None:
            continue
        column = f"CAST({name} AS BIGINT)" if kind == "number" else name
        where = _where(relation, random)
        parts.append(_both(relation, f"(SELECT {column} AS v FROM {{r}}{where})"))
    if not parts:
        return _simple(world, random)
    return _Part(
        f" {word} ".join(part.ours for part in parts),
        f" {word} ".join(part.truth for part in parts),
    )


def _join(world: World, random: Random) -> _Part:
    one = _relation(world, random)
    other = one if random.random() < 0.35 else _relation(world, random)
    name = "phy_offset" if "phy_offset" in one.columns else _of("position", "number", one, random)
    match = "phy_offset" if "phy_offset" in other.columns else None
    if name is None or match is None or name != "phy_offset":
        return _simple(world, random)
    how = random.choice(
        ["JOIN", "JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "FULL JOIN"]
    )
    a, b = _columns(one, random, 3), _columns(other, random, 3)
    columns = [f"a.{each} AS a_{each}" for each in a]
    if "SEMI" not in how and "ANTI" not in how:
        columns += [f"b.{each} AS b_{each}" for each in b]
    inner = [
        _both(relation, f"(SELECT * FROM {{r}}{_where(relation, random)})")
        for relation in (one, other)
    ]
    tail = f"ON a.{name} = b.{match}"
    head = f"SELECT {', '.join(columns)} FROM"
    return _Part(
        f"{head} {inner[0].ours} a {how} {inner[1].ours} b {tail}",
        f"{head} {inner[0].truth} a {how} {inner[1].truth} b {tail}",
    )


def _key_join(world: World, random: Random) -> _Part:
    """A join on key, which a table() refuses unless the key is bound as well."""
    relation = _relation(world, random)
    if not {"key", "topic", "phy_offset"} <= relation.columns.keys():
        return _simple(world, random)
    keys = ", ".join(f"({_text(key)})" for key in random.sample(KEYS, 3))
    where = (
        _where(relation, random, "t.") if random.random() < 0.7 else " WHERE t.topic = 'TopicTest'"
    )
    return _both(
        relation,
        f"SELECT t.key, t.phy_offset FROM {{r}} t JOIN (VALUES {keys}) AS k(id) ON t.key = k.id"
        f"{where}",
    )


def _subquery(world: World, random: Random) -> _Part:
    outer, inner = _relation(world, random), _relation(world, random)
    if "phy_offset" not in outer.columns or "phy_offset" not in inner.columns:
        return _simple(world, random)
    where = _where(outer, random, "o.")
    joint = " AND " if where else " WHERE "
    inside = _where(inner, random, "i.")
    linked = inside + (" AND " if inside else " WHERE ")
    known = f"SELECT i.phy_offset FROM {{i}} i{linked}i.phy_offset IS NOT NULL"
    condition = random.choice(
        [
            f"o.phy_offset IN (SELECT i.phy_offset FROM {{i}} i{inside})",
            f"o.phy_offset NOT IN ({known})",
            f"EXISTS (SELECT 1 FROM {{i}} i{linked}i.phy_offset = o.phy_offset)",
            f"NOT EXISTS (SELECT 1 FROM {{i}} i{linked}i.phy_offset = o.phy_offset)",
            f"EXISTS (SELECT 1 FROM {{i}} i{linked}i.phy_offset > o.phy_offset)",
            f"o.phy_offset <= (SELECT avg(i.phy_offset) FROM {{i}} i{inside})",
            f"o.phy_offset = (SELECT max(i.phy_offset) FROM {{i}} i{inside})",
        ]
    )
    columns = ", ".join(f"o.{name}" for name in _columns(outer, random, 3))
    sql = f"SELECT {columns} FROM {{o}} o{where}{joint}{condition}"
    return _Part(
        sql.replace("{o}", outer.ours).replace("{i}", inner.ours),
        sql.replace("{o}", outer.truth).replace("{i}", inner.truth),
    )


def _cte(world: World, random: Random) -> _Part:
    relation = _relation(world, random)
    name = random.choice([each for each, kind in relation.columns.items() if kind != "bytes"])
    inside = _where(relation, random)
    outside = ""
    if random.random() < 0.5:
        outside = f" WHERE {_predicate(relation, random, 'x.')}"
    return _both(
        relation,
        f"WITH c AS (SELECT * FROM {{r}}{inside}) SELECT x.{name}, count(*) FROM c x JOIN c y "
        f"ON x.{name} <=> y.{name}{outside} GROUP BY x.{name} "
        f"UNION ALL SELECT max({name}), count(*) FROM c",
    )


def _window(world: World, random: Random) -> _Part:
    relation = _relation(world, random)
    columns = [name for name in _columns(relation, random, 3) if relation.columns[name] != "bytes"]
    if not columns:
        return _simple(world, random)
    names = ", ".join(columns)
    return _both(
        relation,
        f"SELECT {names}, rank() OVER (PARTITION BY {columns[0]} ORDER BY {names}) AS n "
        f"FROM {{r}}{_where(relation, random)}",
    )


def _lateral(world: World, random: Random) -> _Part:
    ours, truth, names = world.lateral(random)
    columns = ", ".join([*(f"k.{name}" for name in names), "m.phy_offset", "m.match_state"])
    where = random.choice(["", " WHERE m.position > 2", " WHERE m.phy_offset % 2 = 0"])
    return _Part(f"SELECT {columns} FROM {ours}{where}", f"SELECT {columns} FROM {truth}{where}")


def _nested(world: World, random: Random) -> _Part:
    """A filter outside of a projection that renames and computes."""
    relation = _relation(world, random)
    name, kind = random.choice(list(relation.columns.items()))
    inside = _where(relation, random)
    bound = ""
    if relation.needs_keys and random.random() < 0.5:
        inside, bound = "", f" AND {_bound(random)}"
    test = {"number": "z > 5", "text": "z <> 'Aa'", "time": "z > DATE '2023-11-14'"}
    keys = ", topic, key" if relation.needs_keys else ""
    return _both(
        relation,
        f"SELECT z FROM (SELECT {name} AS z{keys} FROM {{r}}{inside}) "
        f"WHERE {test.get(kind, 'length(z) > 3')}{bound}",
    )


_SHAPES = {
    "select": _simple,
    "every column": _everything,
    "order and limit": _limited,
    "aggregate": _aggregate,
    "set operation": _sets,
    "join": _join,
    "join on key": _key_join,
    "subquery": _subquery,
    "CTE used twice": _cte,
    "window": _window,
    "lateral call": _lateral,
    "nested": _nested,
}
