"""What a filter asks of the columns that narrow a read, whichever engine the filter came from.

It holds for every row that passes the filter, and may hold for others: the engine, or Arrow,
filters again. So a comparison that is not understood asks for everything, and a bound is used only
where it is certain.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyarrow import ipc

from rmqindex.layout.index_file import INT32_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow.compute as pc


# Lists of topics and keys whose product is larger are not multiplied.
_MOST_PAIRS = 1 << 18


@dataclass(frozen=True, slots=True)
class Range:
    """A range of integers, both ends inclusive; None means no bound."""

    low: int | None = None
    high: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the range holds no integer."""
        return self.low is not None and self.high is not None and self.low > self.high

    @property
    def is_everything(self) -> bool:
        """Whether the range holds every integer."""
        return self.low is None and self.high is None

    def __and__(self, other: Range) -> Range:
        """Return the intersection."""
        lows = [low for low in (self.low, other.low) if low is not None]
        highs = [high for high in (self.high, other.high) if high is not None]
        return Range(max(lows, default=None), min(highs, default=None))

    def hull(self, other: Range) -> Range:
        """Return the smallest range that holds both."""
        if self.is_empty:
            return other
        if other.is_empty:
            return self
        return Range(
            None if self.low is None or other.low is None else min(self.low, other.low),
            None if self.high is None or other.high is None else max(self.high, other.high),
        )


EVERYTHING = Range()
NOTHING = Range(1, 0)


class Around(NamedTuple):
    """The column's values next to a literal; equal if the column can hold the literal."""

    floor: int
    ceiling: int

    @property
    def equal(self) -> Range:
        """The values that equal the literal."""
        return Range(self.floor, self.floor) if self.floor == self.ceiling else NOTHING


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a read must find; None and a range without bounds stand for all.

    Attributes:
        pairs: Pairs of topic and key.
        key_hashes: Key hashes.
        time: Store times, epoch milliseconds.
        phy_offset: Offsets in the CommitLog, bytes.
        position: Positions of entries in their files.
        stores: Paths of stores.
        topics: Topics.
        keys: Keys.
        queue_ids: Numbers of queues.
        tags: Values of the property TAGS.
        queue_offset: Places of messages in their queues.
    """

    pairs: frozenset[tuple[str, str]] | None = None
    key_hashes: frozenset[int] | None = None
    time: Range = EVERYTHING
    phy_offset: Range = EVERYTHING
    position: Range = EVERYTHING
    stores: frozenset[str] | None = None
    topics: frozenset[str] | None = None
    keys: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    tags: frozenset[str] | None = None
    queue_offset: Range = EVERYTHING

    @property
    def is_empty(self) -> bool:
        """Whether no row can pass."""
        values = (getattr(self, field.name) for field in fields(self))
        return any(
            value.is_empty if isinstance(value, Range) else value == frozenset() for value in values
        )

    @property
    def bound_pairs(self) -> frozenset[tuple[str, str]] | None:
        """All pairs of topic and key that can pass; None where topic or key is not bound."""
        topics, keys = self.topics, self.keys
        if self.pairs is not None:
            return frozenset(
                pair
                for pair in self.pairs
                if (topics is None or pair[0] in topics) and (keys is None or pair[1] in keys)
            )
        if topics is None or keys is None or len(topics) * len(keys) > _MOST_PAIRS:
            return None
        return frozenset(itertools.product(topics, keys))

    def narrow(self, other: Wanted) -> Wanted:
        """Return what holds where both hold: AND."""
        made = {}
        for name, one, two in self._beside(other):
            if isinstance(one, Range):
                made[name] = one & two
            else:
                made[name] = two if one is None else one if two is None else one & two
        return Wanted(**made)

    def widen(self, *others: Wanted) -> Wanted:
        """Return what holds where any of them holds, at least: OR."""
        every = (self, *others)
        made: dict[str, Any] = {}
        for part in fields(self):
            values = [getattr(each, part.name) for each in every]
            if part.name == "pairs":
                values = [each.bound_pairs for each in every]
            if isinstance(values[0], Range):
                hull = NOTHING
                for value in values:
                    hull = hull.hull(value)
                made[part.name] = hull
            else:
                known = [value for value in values if value is not None]
                made[part.name] = frozenset().union(*known) if len(known) == len(values) else None
        return Wanted(**made)

    def part(self, begin_timestamp: int, start: int, stop: int) -> tuple[int, int] | None:
        """Return which positions of an IndexFile can pass; None for none.

        The header proves only one thing: no entry is earlier than its file's ``begin_timestamp``.
        The ``end_*`` fields are those of the last put, not the greatest, and offsets are in any
        order, so they prove nothing.

        Args:
            begin_timestamp: The header's field.
            start: The first position.
            stop: The position behind the last one.
        """
        low, high, latest = self.position.low, self.position.high, self.time.high
        start = start if low is None else max(start, low)
        stop = stop if high is None else min(stop, high + 1)
        if start >= stop or (latest is not None and begin_timestamp > latest):
            return None
        return start, stop

    def _beside(self, other: Wanted) -> Iterable[tuple[str, Any, Any]]:
        for part in fields(self):
            yield part.name, getattr(self, part.name), getattr(other, part.name)


_VALUES: dict[str, tuple[str, type]] = {
    "topic": ("topics", str),
    "key": ("keys", str),
    "key_hash": ("key_hashes", int),
    "store": ("stores", str),
    "queue_id": ("queue_ids", int),
    "tags": ("tags", str),
}
_RANGES = {
    "store_timestamp": "time",
    "phy_offset": "phy_offset",
    "position": "position",
    "queue_offset": "queue_offset",
}


def wanted_where(column: str, operator: str, literals: Sequence[object]) -> Wanted:
    """Return what one comparison of a column asks for.

    Args:
        column: The column's name.
        operator: One of ``=``, ``<``, ``<=``, ``>``, ``>=``, which take one literal, and ``IN``.
        literals: Texts, ints, and of ``store_timestamp`` the milliseconds around each; no null,
            to which nothing is equal.
    """
    if column in _VALUES and operator in ("=", "IN"):
        name, kind = _VALUES[column]
        if not all(isinstance(each, kind) and not isinstance(each, bool) for each in literals):
            return Wanted()
        values: Iterable[Any] = literals
        if column == "key_hash":  # no entry has a negative hash
            values = (hash_ for hash_ in values if 0 <= hash_ <= INT32_MAX)
        return Wanted(**{name: frozenset(values)})  # type: ignore[arg-type]
    if column not in _RANGES:
        return Wanted()
    around = [_around(column, each) for each in literals]
    found = [each for each in around if each is not None]
    if len(found) < len(around):
        return Wanted()
    passing = _passing(operator, found)
    return Wanted() if passing is None else Wanted(**{_RANGES[column]: passing})  # type: ignore[arg-type]


def _around(column: str, literal: object) -> Around | None:
    if column == "store_timestamp":
        return literal if isinstance(literal, Around) else None
    if isinstance(literal, int) and not isinstance(literal, bool):
        return Around(literal, literal)
    return None


def _passing(operator: str, literals: Sequence[Around]) -> Range | None:
    """Return the values that pass; None where the operator is not known."""
    if operator == "IN":
        hull = NOTHING
        for literal in literals:
            hull = hull.hull(literal.equal)
        return hull
    (literal,) = literals
    passing = {
        "=": literal.equal,
        ">": Range(low=literal.floor + 1),
        ">=": Range(low=literal.ceiling),
        "<": Range(high=literal.ceiling - 1),
        "<=": Range(high=literal.floor),
    }
    return passing.get(operator)


_METADATA = "-- schema metadata --\n"
_TOKEN = re.compile(r"(\w+): '(.*)'")
_COMPARED = {"equal": "=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_AND, _OR = ("and_kleene", "and"), ("or_kleene", "or")
# Units of timestamps in a second, and the milliseconds of one.
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NOBODY = Wanted(pairs=frozenset())


class Condition(NamedTuple):
    """What an expression reads and asks for.

    Attributes:
        columns: The columns that it reads; None where that cannot be told.
        wanted: What holds for every row for which it is true.
    """

    columns: frozenset[str] | None
    wanted: Wanted


@dataclass(slots=True)
class _Call:
    """A call whose arguments are being read."""

    function: str
    arguments: list[Any] = field(default_factory=list)
    options: pa.Scalar | None = None


@dataclass(frozen=True, slots=True)
class _Field:
    name: str


@dataclass(frozen=True, slots=True)
class _Any:
    """Parts of which one must hold; a chain of ORs is one of these, however long."""

    parts: list[Wanted]


def condition_of(expression: pc.Expression | None) -> Condition:
    """Return what an expression reads and asks for; of None, nothing and everything.

    Args:
        expression: A filter.
    """
    if expression is None:
        return Condition(frozenset(), Wanted())
    try:
        (pickled,) = expression.__reduce__()[1]
        with ipc.open_file(pickled) as file:
            literals = file.get_batch(0)
            schema = file.schema.to_string(truncate_metadata=False)
    except (pa.ArrowException, NotImplementedError, TypeError, ValueError, IndexError):
        return Condition(None, Wanted())
    tokens = [_TOKEN.fullmatch(line) for line in schema.partition(_METADATA)[2].splitlines()]
    read = [(token[1], token[2]) for token in tokens if token is not None]
    if len(read) < len(tokens):
        return Condition(None, Wanted())
    names = [value for kind, value in read if kind == "field_ref"]
    return Condition(frozenset(names), _wanted(read, literals))


def _wanted(tokens: list[tuple[str, str]], literals: pa.RecordBatch) -> Wanted:
    calls = [_Call("")]
    for kind, value in tokens:
        if kind == "call":
            calls.append(_Call(value))
        elif kind == "field_ref":
            calls[-1].arguments.append(_Field(value))
        elif kind == "literal":
            calls[-1].arguments.append(literals.column(int(value))[0])
        elif kind == "options":
            calls[-1].options = literals.column(int(value))[0]
        elif kind == "end" and len(calls) > 1:
            done = calls.pop()
            calls[-1].arguments.append(_reduced(done))
        else:  # a part of a column
            return Wanted()
    (call,) = calls
    return _where(call.arguments[0]) if len(call.arguments) == 1 else Wanted()


def _reduced(call: _Call) -> Wanted | _Any:
    """Return what a call asks for."""
    found: Wanted | _Any = Wanted()
    match call.function, call.arguments:
        case function, [one, other] if function in _AND:
            found = _where(one).narrow(_where(other))
        case function, [one, other] if function in _OR:
            parts = one.parts if isinstance(one, _Any) else [_where(one)]
            parts += other.parts if isinstance(other, _Any) else [_where(other)]
            found = _Any(parts)
        case function, [_Field(name), pa.Scalar() as literal] if function in _COMPARED:
            found = _compared(name, _COMPARED[function], literal)
        case function, [pa.Scalar() as literal, _Field(name)] if function in _COMPARED:
            found = _compared(name, _FLIPPED[_COMPARED[function]], literal)
        case "is_in", [_Field(name)]:
            found = _is_in(name, call.options)
        case "if_else", [one, other, pa.Scalar() as literal] if not literal.as_py():
            found = _where(one).narrow(_where(other))
    return found


def _where(argument: object) -> Wanted:
    """Return what an argument asks for that must be true."""
    if isinstance(argument, _Any):
        some = [part for part in argument.parts if not part.is_empty]
        return some[0].widen(*some[1:]) if some else _NOBODY
    if isinstance(argument, pa.Scalar):
        return Wanted() if argument.as_py() else _NOBODY
    return argument if isinstance(argument, Wanted) else Wanted()


def _compared(name: str, operator: str, literal: pa.Scalar) -> Wanted:
    if not literal.is_valid:
        return _NOBODY
    return wanted_where(name, operator, [_value(literal)])


def _is_in(name: str, options: pa.Scalar | None) -> Wanted:
    values = options["value_set"] if isinstance(options, pa.StructScalar) else None
    # A null among the values may equal the nulls of the column.
    if not isinstance(values, pa.ListScalar) or values.values.null_count:
        return Wanted()
    return wanted_where(name, "IN", [_value(literal) for literal in values.values])


def _value(literal: pa.Scalar) -> object:
    """Return a text, an int, or the milliseconds around a time that names its zone."""
    kind = literal.type
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            return None
        scaled = literal.value * _UNITS["ms"]
        per = _UNITS[kind.unit]
        return Around(scaled // per, -(-scaled // per))
    if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return literal.as_py()
    return None
