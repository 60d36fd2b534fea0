"""Random queries of datasets, each as SQL and as an expression of Polars."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .stores import KEYS, TOPICS

if TYPE_CHECKING:
    from random import Random

    import polars as pl

__all__ = ["Question", "make_question", "polars_of", "sql_of"]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_NUMBERS = (0, 1, 2, 3, 7, 40, 96, 100, 200, 1000, 5000, 65_536, -1, -5, 2**31 - 1, 2**31, -(2**31))
_TIMES = (
    1_700_000_004_511_000, 1_700_000_000_000_000, 1_700_000_100_000_001, 1_700_003_000_000_000,
    1_700_060_000_999_999, 1_600_000_000_000_000, 1_900_000_000_000_000,
)  # fmt: skip
_TEXTS = (*KEYS, *TOPICS, "TagA", "verified", "unverified", "no_log", "u3", "zzz")
_DEPTH = 3

Node = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A query.

    Attributes:
        shape: ``rows``, ``count``, ``groups`` or ``limit``.
        columns: Those that are asked for.
        where: The condition; None for none.
        limit: The most rows, of the shape ``limit``.
    """

    shape: str
    columns: tuple[str, ...]
    where: Node | None
    limit: int = 0


def make_question(
    kinds: dict[str, str], random: Random, *, binds: bool, values: dict[str, list[Any]]
) -> Question:
    """Return a random query.

    Args:
        kinds: Of each column ``number``, ``text`` or ``time``.
        random: Of all choices.
        binds: Whether topic and key must be bound.
        values: Some values of each column, which conditions find.
    """
    columns = tuple(random.sample(list(kinds), random.randrange(1, min(len(kinds), 5) + 1)))
    where = _node(kinds, values, random, 0) if random.random() < 0.9 else None
    if binds:
        where = ("and", *random.sample([_binding(random), where or ("true",)], 2))
    shape = random.choice(["rows", "rows", "rows", "count", "groups", "limit"])
    return Question(shape, columns, where, random.randrange(1, 20) if shape == "limit" else 0)


def _binding(random: Random) -> Node:
    topics, keys = (random.choices(each, k=random.randrange(1, 5)) for each in (TOPICS, KEYS))
    if random.random() < 0.5:
        return ("and", ("in", "topic", topics, False), ("in", "key", keys, False))
    pairs = [
        ("and", ("=", "topic", topic), ("=", "key", key))
        for topic, key in zip(topics, keys, strict=False)
    ]
    found = pairs[0]
    for pair in pairs[1:]:
        found = ("or", found, pair)
    return found


def _node(kinds: dict[str, str], values: dict[str, list[Any]], random: Random, depth: int) -> Node:
    if depth < _DEPTH and random.random() < 0.45:
        parts = [_node(kinds, values, random, depth + 1) for _ in range(3)]
        return random.choice(
            [
                ("and", *parts[:2]), ("and", *parts[:2]), ("or", *parts[:2]), ("or", *parts[:2]),
                ("not", parts[0]), ("case", *parts),
            ]
        )  # fmt: skip
    column, kind = random.choice(list(kinds.items()))
    if random.random() < 0.08:
        return ("null", column, random.random() < 0.5)
    one, two = (_literal(kind, values[column], random) for _ in range(2))
    several = [_literal(kind, values[column], random) for _ in range(random.randrange(1, 5))]
    many = random.sample(values[column], min(len(values[column]), random.choice([20, 150])))
    general = [
        (random.choice(_COMPARISONS), column, one), (random.choice(_COMPARISONS), column, one),
        ("=", column, one), ("in", column, several, random.random() < 0.2),
        ("in", column, many, False), ("between", column, *sorted([one, two])),
    ]  # fmt: skip
    if kind == "number":
        general += [("mod", column, random.randrange(3)), ("cast", column, "1")]
    if kind == "text":
        general += [("starts", column, one[:2]), ("upper", column, one.upper()),
                    ("coalesce", column, "zz", one)]  # fmt: skip
    alike = [name for name, other in kinds.items() if other == kind and name != column]
    if alike:
        general.append(("columns", random.choice(_COMPARISONS), column, random.choice(alike)))
    return random.choice(general)


def _literal(kind: str, values: list[Any], random: Random) -> Any:
    if values and random.random() < 0.6:
        value = random.choice(values)
        if kind == "time":
            return value + dt.timedelta(microseconds=random.choice([0, 0, 0, 1, -1, 500, 1000]))
        return value + random.choice([0, 0, 1, -1]) if kind == "number" else value
    if kind == "time":
        return _EPOCH + dt.timedelta(microseconds=random.choice(_TIMES))
    return random.choice(_NUMBERS if kind == "number" else _TEXTS)


def sql_of(question: Question, relation: str) -> str:
    """Return the SQL of a question."""
    where = "" if question.where is None else f" WHERE {_sql(question.where)}"
    columns = ", ".join(question.columns)
    match question.shape:
        case "count":
            return f"SELECT count(*) FROM {relation}{where}"
        case "groups":
            one = question.columns[0]
            return f"SELECT {one}, count(*) FROM {relation}{where} GROUP BY {one}"
        case "limit":
            return f"SELECT {columns} FROM {relation}{where} LIMIT {question.limit}"
    return f"SELECT {columns} FROM {relation}{where}"


def _sql(node: Node) -> str:  # noqa: C901, PLR0911, PLR0912  (a case for each form)
    match node:
        case ("true",):
            return "1 = 1"
        case ("and" | "or" as operator, one, other):
            return f"({_sql(one)} {operator.upper()} {_sql(other)})"
        case ("not", one):
            return f"NOT ({_sql(one)})"
        case ("case", one, two, three):
            return f"CASE WHEN {_sql(one)} THEN {_sql(two)} ELSE {_sql(three)} END"
        case ("null", column, negated):
            return f"{column} IS {'NOT ' if negated else ''}NULL"
        case ("in", column, literals, negated):
            listed = ", ".join(map(_sql_literal, literals))
            return f"{column} {'NOT ' if negated else ''}IN ({listed})"
        case ("between", column, low, high):
            return f"{column} BETWEEN {_sql_literal(low)} AND {_sql_literal(high)}"
        case ("mod", column, rest):
            return f"{column} % 3 = {rest}"
        case ("cast", column, prefix):
            return f"CAST({column} AS VARCHAR) LIKE '{prefix}%'"
        case ("starts", column, prefix):
            return f"starts_with({column}, {_sql_literal(prefix)})"
        case ("upper", column, text):
            return f"upper({column}) = {_sql_literal(text)}"
        case ("coalesce", column, other, text):
            return f"coalesce({column}, '{other}') = {_sql_literal(text)}"
        case ("columns", operator, one, other):
            return f"{one} {operator} {other}"
        case (operator, column, literal):
            return f"{column} {operator} {_sql_literal(literal)}"
    raise AssertionError(node)


def _sql_literal(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return f"TIMESTAMPTZ '{value.isoformat(sep=' ')}'"
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def polars_of(question: Question, frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return the answer to a question, not yet collected."""
    import polars as pl

    found = frame if question.where is None else frame.filter(_polars(question.where))
    match question.shape:
        case "count":
            return found.select(pl.len())
        case "groups":
            return found.group_by(question.columns[0]).len()
        case "limit":
            return found.select(question.columns).head(question.limit)
    return found.select(question.columns)


def _polars(node: Node) -> pl.Expr:  # noqa: C901, PLR0911, PLR0912  (a case for each form)
    import polars as pl

    match node:
        case ("true",):
            return pl.lit(1) == 1
        case ("and", one, other):
            return _polars(one) & _polars(other)
        case ("or", one, other):
            return _polars(one) | _polars(other)
        case ("not", one):
            return ~_polars(one)
        case ("case", one, two, three):
            return pl.when(_polars(one)).then(_polars(two)).otherwise(_polars(three))
        case ("null", column, negated):
            return pl.col(column).is_not_null() if negated else pl.col(column).is_null()
        case ("in", column, literals, negated):
            found = pl.col(column).is_in(literals)
            return ~found if negated else found
        case ("between", column, low, high):
            return pl.col(column).is_between(low, high)
        case ("mod", column, rest):
            return pl.col(column) % 3 == rest
        case ("cast", column, prefix):
            return pl.col(column).cast(pl.String).str.starts_with(prefix)
        case ("starts", column, prefix):
            return pl.col(column).str.starts_with(prefix)
        case ("upper", column, text):
            return pl.col(column).str.to_uppercase() == text
        case ("coalesce", column, other, text):
            return pl.col(column).fill_null(other) == text
        case ("columns", operator, one, other):
            return _compared(operator, pl.col(one), pl.col(other))
        case (operator, column, literal):
            return _compared(operator, pl.col(column), pl.lit(literal))
    raise AssertionError(node)


def _compared(operator: str, one: pl.Expr, other: pl.Expr) -> pl.Expr:
    match operator:
        case "=":
            return one == other
        case "<>":
            return one != other
        case "<":
            return one < other
        case "<=":
            return one <= other
        case ">":
            return one > other
    return one >= other
