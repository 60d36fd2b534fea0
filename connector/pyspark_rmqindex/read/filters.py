"""Turns pushed filters into what a scan must find: pure functions, no Spark session.

The result covers a superset of the wanted rows, and Spark filters again.
So a filter that is not understood is ignored, and a bound is used only if it is certain.
Filters are known by the names of their classes: PySpark 4.0 has none of these, and workers with a
second copy of PySpark have others.
"""

from __future__ import annotations

import datetime as dt
import itertools
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql.variant_utils import VariantUtils

from pyspark_rmqindex.read.refusals import Calls
from rmqindex.messagestore import Around, Wanted, wanted_where
from rmqindex.times import microseconds_of, to_milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql.datasource import Filter

# A relation's lookups fail beyond this many (topic, key) pairs: each planning repeats the pairs of
# all earlier ones, so that the cost would grow without bound.
MAX_PAIRS = 4096


def column_of(filter_: Filter) -> str | None:
    """Return the column that a filter is on, in lower case; None if it is not on one column.

    Spark pushes a name in the case in which the user's schema writes it.
    """
    attribute: tuple[str, ...] = getattr(filter_, "attribute", ())
    return attribute[0].lower() if len(attribute) == 1 else None


def filters_to_wanted(
    filters: Iterable[Filter], *, keys: bool, calls: Calls | None = None
) -> Wanted:
    """Turn the filters of one scan, which are ANDed, into what it must find."""
    filters = list(filters)
    found = reduce(Wanted.narrow, map(_wanted_of, filters), Wanted())
    topics, bound_keys = found.topics, found.keys
    wanted = replace(found, topics=None, keys=None, key_hashes=None)
    if not keys:
        return replace(wanted, key_hashes=found.key_hashes)
    if topics is None or bound_keys is None:
        bound = {"topic": topics, "key": bound_keys}
        names = [name for name, values in bound.items() if values is None]
        raise ValueError((calls or Calls()).for_unbound(names, _pushed_text(filters)))
    count = len(topics) * len(bound_keys)
    if count > MAX_PAIRS:
        raise ValueError((calls or Calls()).for_too_many(count, MAX_PAIRS))
    return replace(wanted, pairs=frozenset(itertools.product(topics, bound_keys)))


_OPERATORS = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "In": "IN",
    "StringStartsWith": "STARTS WITH",
    "StringEndsWith": "ENDS WITH",
    "StringContains": "CONTAINS",
}


def filter_text(filter_: Filter) -> str:
    """Return a filter as SQL text."""
    kind = type(filter_).__name__
    if kind == "Not":
        return f"NOT ({filter_text(getattr(filter_, 'child'))})"  # noqa: B009  (of that class alone)
    column = ".".join(getattr(filter_, "attribute", ()))
    if kind == "IsNull":
        return f"{column} IS NULL"
    if kind == "IsNotNull":
        return f"{column} IS NOT NULL"
    value = getattr(filter_, "value", None)
    text = f"'{value}'" if isinstance(value, dt.datetime) else repr(value)
    return f"{column} {_OPERATORS.get(kind, kind)} {text}"


_COMPARED = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "In": "IN",
    "IsNull": "IN",
}
# Lists of values can be long.
_SHOWN_CHARACTERS = 200


def _pushed_text(filters: Sequence[Filter]) -> str:
    pushed = " AND ".join(
        filter_text(filter_) for filter_ in filters if type(filter_).__name__ != "IsNotNull"
    )
    if len(pushed) > _SHOWN_CHARACTERS:
        return pushed[:_SHOWN_CHARACTERS] + " .."
    return pushed


def _wanted_of(filter_: Filter) -> Wanted:
    """Return what one filter asks for."""
    column = column_of(filter_)
    kind = type(filter_).__name__
    operator = _COMPARED.get(kind)
    if column is None or operator is None:
        return Wanted()
    value: Any = getattr(filter_, "value", None)
    literals: Sequence[object] = value if kind == "In" else [value]
    # IsNull is Spark's form of <=> NULL; no column is ever NULL.
    return wanted_where(
        column,
        operator if None not in literals else "IN",
        [_literal(literal) for literal in literals if literal is not None],
    )


def _literal(value: object) -> object:
    if isinstance(value, DistantTime):
        micros = value.microseconds
    elif isinstance(value, dt.datetime) and value.tzinfo is not None:
        micros = microseconds_of(value)
    else:
        return value
    return Around(to_milliseconds(micros, up=False), to_milliseconds(micros, up=True))


_READING = "_get_timestamp"
_SIZE = 8  # bytes of a TIMESTAMP, after one byte for its type
_BASE = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
_CYCLE_YEARS, _CYCLE_MICROS = 400, 146_097 * 86_400 * 1_000_000


@dataclass(frozen=True, slots=True)
class DistantTime:
    """A TIMESTAMP outside the range of ``datetime``."""

    microseconds: int

    def __repr__(self) -> str:
        """Return it as Spark writes it, in any year."""
        cycles, rest = divmod(self.microseconds - microseconds_of(_BASE), _CYCLE_MICROS)
        time = _BASE + dt.timedelta(microseconds=rest)
        year = time.year + cycles * _CYCLE_YEARS
        sign = "-" if year < 0 else "+" if year > dt.MAXYEAR else ""
        return f"TIMESTAMP '{sign}{abs(year):04d}{time.strftime('-%m-%d %H:%M:%S.%f')} UTC'"


def pass_distant_times() -> None:
    """Make Spark pass a TIMESTAMP outside the years 1 to 9999 as a :class:`DistantTime`.

    Before Spark calls ``pushFilters``, it converts each to a ``datetime``, which raises a bare
    ``OverflowError`` for every data source, whether it takes filters or not; only the data source's
    ``reader()`` runs before that in the planning process.
    Nothing else changes there, and nothing at all if Spark decodes times in another way.
    """
    reading: Any = getattr(VariantUtils, _READING, None)
    if reading is None or getattr(reading, "passes_distant_times", False):
        return

    def passed(value: bytes, pos: int, zone_id: str) -> dt.datetime | DistantTime:
        try:
            time: dt.datetime = reading(value, pos, zone_id)
        except OverflowError:
            return DistantTime(
                int.from_bytes(value[pos + 1 : pos + 1 + _SIZE], "little", signed=True)
            )
        return time

    passed.passes_distant_times = True  # type: ignore[attr-defined]
    setattr(VariantUtils, _READING, staticmethod(passed))
