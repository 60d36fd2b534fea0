"""Reads the filters that engines hand to a ``pyarrow.dataset``: expressions of Arrow.

Arrow has no public way to look into an expression but the form in which it is pickled, which is
not unpickled here: an IPC file whose metadata has the calls in their order, and whose columns hold
the literals (Arrow: ``compute::Serialize(Expression)``). Substrait cannot hold every expression, as
a comparison of microseconds with a column of milliseconds.
What is not understood asks for everything: the filter is evaluated by Arrow in any case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyarrow import ipc

from rmqindex.messagestore.wanted import Around, Wanted, wanted_where

if TYPE_CHECKING:
    import pyarrow.compute as pc

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
