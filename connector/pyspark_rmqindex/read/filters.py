"""Turns pushed filters into what a scan must find: pure functions, no Spark session.

The result covers a superset of the wanted rows, and Spark filters again.
So a filter that is not understood is ignored, and a bound is used only if it is certain.
"""

from __future__ import annotations

import datetime as dt
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pyspark.sql.variant_utils import VariantUtils

from pyspark_rmqindex.options import EVERYTHING, NOTHING, Range
from pyspark_rmqindex.read.refusals import Calls
from rmqindex.layout import INT32_MAX
from rmqindex.times import microseconds_of, to_milliseconds

try:
    from pyspark.sql.datasource import (
        EqualNullSafe,
        EqualTo,
        Filter,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        IsNotNull,
        IsNull,
        LessThan,
        LessThanOrEqual,
        Not,
        StringContains,
        StringEndsWith,
        StringStartsWith,
    )
except ImportError:  # PySpark 4.0 pushes nothing: no value is ever an instance of these
    globals().update(
        (name, type(name, (), {}))
        for name in (
            "EqualNullSafe",
            "EqualTo",
            "Filter",
            "GreaterThan",
            "GreaterThanOrEqual",
            "In",
            "IsNotNull",
            "IsNull",
            "LessThan",
            "LessThanOrEqual",
            "Not",
            "StringContains",
            "StringEndsWith",
            "StringStartsWith",
        )
    )

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# A relation's lookups fail beyond this many (topic, key) pairs: each planning repeats the pairs of
# all earlier ones, so that the cost would grow without bound.
MAX_PAIRS = 4096

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a scan must find."""

    # The (topic, key) pairs to look up; None if keys are not looked up.
    pairs: frozenset[tuple[str, str]] | None = None
    key_hashes: frozenset[int] | None = None  # The key hashes to keep; None for all
    time: Range = EVERYTHING  # Store times, epoch milliseconds
    phy_offset: Range = EVERYTHING
    position: Range = EVERYTHING
    stores: frozenset[str] | None = None  # The stores to read; None for all

    def widen(self, other: Wanted) -> Wanted:
        """Return what covers at least the rows of both."""
        return Wanted(
            pairs=_union(self.pairs, other.pairs),
            key_hashes=_union(self.key_hashes, other.key_hashes),
            time=self.time.hull(other.time),
            phy_offset=self.phy_offset.hull(other.phy_offset),
            position=self.position.hull(other.position),
            stores=_union(self.stores, other.stores),
        )


def _union(one: frozenset[T] | None, other: frozenset[T] | None) -> frozenset[T] | None:
    return None if one is None or other is None else one | other


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
    wanted = Wanted(
        time=_range_of("store_timestamp", filters, _milliseconds),
        phy_offset=_range_of("phy_offset", filters, _integers),
        position=_range_of("position", filters, _integers),
        stores=_bound_values("store", filters, str),
    )
    if not keys:
        hashes = _bound_values("key_hash", filters, int)
        if hashes is not None:  # no entry has a negative hash
            hashes = frozenset(hash_ for hash_ in hashes if 0 <= hash_ <= INT32_MAX)
        return replace(wanted, key_hashes=hashes)
    bound = {name: _bound_values(name, filters, str) for name in ("topic", "key")}
    topics, bound_keys = bound["topic"], bound["key"]
    if topics is None or bound_keys is None:
        names = [name for name, values in bound.items() if values is None]
        raise ValueError((calls or Calls()).for_unbound(names, _pushed_text(filters)))
    count = len(topics) * len(bound_keys)
    if count > MAX_PAIRS:
        raise ValueError((calls or Calls()).for_too_many(count, MAX_PAIRS))
    return replace(wanted, pairs=frozenset(itertools.product(topics, bound_keys)))


_OPERATORS = {
    EqualTo: "=",
    EqualNullSafe: "<=>",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    In: "IN",
    StringStartsWith: "STARTS WITH",
    StringEndsWith: "ENDS WITH",
    StringContains: "CONTAINS",
}


def filter_text(filter_: Filter) -> str:
    """Return a filter as SQL text."""
    if isinstance(filter_, Not):
        return f"NOT ({filter_text(filter_.child)})"
    column = ".".join(getattr(filter_, "attribute", ()))
    if isinstance(filter_, IsNull):
        return f"{column} IS NULL"
    if isinstance(filter_, IsNotNull):
        return f"{column} IS NOT NULL"
    value = getattr(filter_, "value", None)
    text = f"'{value}'" if isinstance(value, dt.datetime) else repr(value)
    return f"{column} {_OPERATORS.get(type(filter_), type(filter_).__name__)} {text}"


# Lists of values can be long.
_SHOWN_CHARACTERS = 200


def _pushed_text(filters: Sequence[Filter]) -> str:
    pushed = " AND ".join(
        filter_text(filter_) for filter_ in filters if not isinstance(filter_, IsNotNull)
    )
    if len(pushed) > _SHOWN_CHARACTERS:
        return pushed[:_SHOWN_CHARACTERS] + " .."
    return pushed


def _of(name: str, filters: Iterable[Filter]) -> list[Any]:
    return [filter_ for filter_ in filters if column_of(filter_) == name]


def _bound_values(name: str, filters: Sequence[Filter], type_: type[T]) -> frozenset[T] | None:
    """Return the values that a column is bound to, or None if it is not bound."""
    bound: frozenset[T] | None = None
    for filter_ in _of(name, filters):
        values: Iterable[Any]
        if isinstance(filter_, In):
            values = [value for value in filter_.value if value is not None]
        elif isinstance(filter_, (EqualTo, EqualNullSafe)):
            values = [] if filter_.value is None else [filter_.value]
        elif isinstance(filter_, IsNull):  # Spark's form of <=> NULL; no column is ever NULL
            values = []
        else:
            continue
        if not all(isinstance(value, type_) for value in values):
            continue
        candidates = frozenset(values)
        bound = candidates if bound is None else bound & candidates
    return bound


def _range_of(
    name: str, filters: Sequence[Filter], convert: Callable[[Filter], Range | None]
) -> Range:
    result = EVERYTHING
    for filter_ in _of(name, filters):
        if isinstance(filter_, IsNull):
            return NOTHING
        bounds = convert(filter_)
        if bounds is not None:
            result &= bounds
    return result


def _integers(filter_: Filter) -> Range | None:
    return _compare(filter_, _integer)


def _milliseconds(filter_: Filter) -> Range | None:
    return _compare(filter_, _around)


class _Around(NamedTuple):
    """The column's values next to a literal; equal if the column can hold the literal."""

    floor: int
    ceiling: int

    @property
    def equal(self) -> Range:
        """The values that equal the literal."""
        return Range(self.floor, self.floor) if self.floor == self.ceiling else NOTHING


def _integer(value: object) -> _Around | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return _Around(value, value)


def _around(value: object) -> _Around | None:
    if isinstance(value, DistantTime):
        micros = value.microseconds
    elif isinstance(value, dt.datetime) and value.tzinfo is not None:
        micros = microseconds_of(value)
    else:
        return None
    return _Around(to_milliseconds(micros, up=False), to_milliseconds(micros, up=True))


def _compare(filter_: Filter, around: Callable[[object], _Around | None]) -> Range | None:
    """Return the column's values that pass; None if the filter is not understood."""
    if isinstance(filter_, In):
        literals = [around(literal) for literal in filter_.value if literal is not None]
        hull = NOTHING
        for around_ in literals:
            hull = EVERYTHING if around_ is None else hull.hull(around_.equal)
        return hull
    value = around(getattr(filter_, "value", None))
    if value is None:
        return None
    floor, ceiling = value
    passing: Range | None
    match filter_:
        case EqualTo() | EqualNullSafe():
            passing = value.equal
        case GreaterThan():
            passing = Range(low=floor + 1)
        case GreaterThanOrEqual():
            passing = Range(low=ceiling)
        case LessThan():
            passing = Range(high=ceiling - 1)
        case LessThanOrEqual():
            passing = Range(high=floor)
        case _:
            passing = None
    return passing


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
