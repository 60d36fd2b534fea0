"""Declares options as fields of dataclasses, and the types of their values, with parsers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from rmqindex.layout import FILE_NAME_DIGITS, INT32_MAX, INT64_MAX
from rmqindex.storage import check_no_secret
from rmqindex.times import LocalTime, parse_time, zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

#: Where options are given: ``load``, ``table()`` and ``save`` of entries, ``load`` of the formats
#: ``rmqcommitlog`` and ``rmqconsumequeue``, and ``readStream`` of entries and of messages.
Scope = Literal["read", "table", "write", "messages", "queues", "stream", "message_stream"]

_OPTION = "option"


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """The type of an option's text."""

    words: str
    # Converts the text to a value; raises ``ValueError`` with what was expected.
    parse: Callable[..., T_co]
    # Checks a value that errors must not show; raises ``ValueError`` with a full message.
    check: Callable[[Any], None] | None = None
    # Whether ``parse`` also takes the moment from which relative times are counted.
    is_time: bool = False

    def rename(self, words: str) -> Kind[T_co]:
        """Return the same kind under another name."""
        return replace(self, words=words)


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a data source.

    Attributes:
        name: The name as documented, in camelCase; Spark ignores its case.
        kind: The type of its text.
        doc: What it does.
        default: The text assumed if it is not given; None if absence has a meaning of its own.
        default_doc: What absence means, if ``default`` does not say it.
        only: The scopes that allow it; empty for every scope whose dataclass has the field.
        secret: Whether errors must not show its text.
        internal: Whether only this package sets it; no list of options names it.
    """

    name: str
    kind: Kind[Any]
    doc: str
    default: str | None = None
    default_doc: str = ""
    only: tuple[Scope, ...] = ()
    secret: bool = False
    internal: bool = False


@overload
def option(
    name: str,
    kind: Kind[T],
    doc: str,
    *,
    default: str,
    default_doc: str = ...,
    only: tuple[Scope, ...] = ...,
    internal: bool = ...,
) -> T: ...


@overload
def option(
    name: str,
    kind: Kind[T],
    doc: str,
    *,
    default_doc: str = ...,
    only: tuple[Scope, ...] = ...,
    secret: bool = ...,
    internal: bool = ...,
) -> T | None: ...


def option(
    name: str,
    kind: Kind[Any],
    doc: str,
    *,
    default: str | None = None,
    default_doc: str = "",
    only: tuple[Scope, ...] = (),
    secret: bool = False,
    internal: bool = False,
) -> Any:
    """Return the field of a dataclass that declares an option; see :class:`Option`."""
    declared = Option(name, kind, doc, default, default_doc, only, secret, internal)
    return field(
        default=None if default is None else kind.parse(default),
        repr=not secret,
        metadata={_OPTION: declared},
    )


def options_of(options: type[Any]) -> dict[str, Option]:
    """Return the options that a dataclass declares, by the names of its fields."""
    return {
        each.name: each.metadata[_OPTION] for each in fields(options) if _OPTION in each.metadata
    }


#: The value of ``commitLog`` that stands for the sibling of each index directory.
AUTO = "auto"
#: The value of ``commitLog`` that stands for no CommitLog.
NONE = "none"

# Of a file's name, which may be pasted as an offset; Python refuses to parse thousands.
_MOST_DIGITS = FILE_NAME_DIGITS
# Sizes are bytes or have a unit, as in Spark's own spark.sql.files.maxPartitionBytes.
_SIZES = {"": 1, "b": 1, "k": 2**10, "kb": 2**10, "m": 2**20, "mb": 2**20, "g": 2**30, "gb": 2**30}
# As in Hadoop, the unit defaults to the millisecond.
_DURATIONS = {"": 1, "ms": 1, "s": 1000, "m": 60_000}

_POSITIONS: tuple[Literal["earliest", "latest"], ...] = ("earliest", "latest")

L = TypeVar("L", bound=str)


def _some_text(text: str) -> str:
    if not text:
        raise ValueError("some text")
    return text


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in {"true", "false"}:
        raise ValueError("true or false")
    return lowered == "true"


def _switch(text: str) -> bool | None:
    lowered = text.strip().lower()
    if lowered not in {AUTO, "true", "false"}:
        raise ValueError("auto, true or false")
    return None if lowered == AUTO else lowered == "true"


def integer(low: int, high: int, unit: str = "") -> Kind[int]:
    """Return the kind of integers within bounds, both included, and of a unit if there is one."""

    def parse(text: str) -> int:
        expected = f"an integer from {low} to {high}{f', {unit}' if unit else ''}"
        number = _whole(text.strip().removeprefix("+"))
        if number is None or not low <= number <= high:
            raise ValueError(expected)
        return number

    return Kind(f"integer, {unit}" if unit else "integer", parse)


def choice(*allowed: L) -> Kind[L]:
    """Return the kind of a few words, in any case."""

    def parse(text: str) -> L:
        for word in allowed:
            if text.strip().lower() == word.lower():
                return word
        raise ValueError(f"one of {', '.join(allowed)}")

    return Kind("enumeration", parse)


def _json(text: str, expected: str) -> Any:  # noqa: ANN401  (whatever JSON holds)
    try:
        return json.loads(text)  # noqa: TID251  (an option)
    except (ValueError, RecursionError) as error:
        raise ValueError(expected) from error


def _texts(text: str) -> tuple[str, ...]:
    expected = 'a JSON list of strings, such as ["a", "b"]'
    items = _json(text, expected)
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError(expected)
    return tuple(items)


def _names(text: str) -> tuple[str, ...]:
    """Return one text, or those of a JSON list, which a text that begins with ``[`` must be."""
    if not text.lstrip().startswith("["):
        return (_some_text(text),)
    names = _texts(text)
    if not names:
        raise ValueError("some text, or a JSON list of at least one")
    return tuple(dict.fromkeys(names))


def _columns(text: str) -> tuple[str, ...]:
    is_list = text.lstrip().startswith("[")
    names = _texts(text) if is_list else tuple(name.strip() for name in text.split(","))
    if not names or not all(names):
        raise ValueError("names of columns with commas between, such as topic,store_timestamp")
    return names


def _queues(text: str) -> tuple[int, ...]:
    numbers = _hashes(text)
    if not numbers:
        raise ValueError("an integer from 0 to 2147483647, or a JSON list of at least one")
    return numbers


def _hashes(text: str) -> tuple[int, ...]:
    expected = "an integer from 0 to 2147483647, or a JSON list of them"
    items = _json(text, expected)
    numbers = items if isinstance(items, list) else [items]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= INT32_MAX:
            raise ValueError(expected)
    return tuple(sorted(set(numbers)))


def _zone(text: str) -> str:
    try:
        zone_of(text)
    except ValueError as error:
        raise ValueError("a time zone such as Asia/Shanghai or +08:00") from error
    return text


def _position(text: str) -> Literal["earliest", "latest"] | int:
    text = text.strip().lower()
    for word in _POSITIONS:
        if text == word:
            return word
    offset = _whole(text)
    if offset is None or offset > INT64_MAX:
        raise ValueError("earliest, latest, or an offset of at least 0")
    return offset


def _whole(text: str) -> int | None:
    """Return the number that digits write, as Java reads them; None for another text."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else None


def _quantity(text: str, units: Mapping[str, int]) -> int:
    """Return a number with a unit, converted to the smallest unit; 0 if the text is malformed."""
    text = text.strip().lower()
    digits = text.rstrip("".join(units))
    unit = text[len(digits) :]
    return (_whole(digits) or 0) * units.get(unit, 0)


def _size(text: str) -> int:
    size = _quantity(text, _SIZES)
    if not size:
        raise ValueError("a number of bytes of at least 1, such as 134217728 or 128m")
    return size


def _body_size(text: str) -> int:
    size = _size(text)
    if size > INT32_MAX:  # Arrow's offsets in an array of bodies
        raise ValueError("a number of bytes from 1 to 2147483647, such as 67108864 or 128m")
    return size


def _duration(text: str) -> int:
    time = _quantity(text, _DURATIONS)
    if not 1 <= time <= INT32_MAX:
        raise ValueError(f"a time from 1 to {INT32_MAX} ms, such as 5000 (milliseconds), 5s or 1m")
    return time


def _log(text: str) -> str:
    text = _some_text(text)
    return text.lower() if text.lower() in (AUTO, NONE) else text


def _check_path(path: str) -> None:
    """Raise if a path, or one of several separated by commas, holds S3 keys: paths are shown."""
    for part in (path, *path.split(",")):
        check_no_secret(part)


def _check_paths(paths: Sequence[str]) -> None:
    for path in paths:
        _check_path(path)


TEXT: Kind[str] = Kind("string", str)
SOME_TEXT = Kind("string", _some_text)
TEXTS = Kind("JSON list of strings", _texts)
BOOLEAN = Kind("boolean", _boolean)
SWITCH = Kind("`auto`, `true` or `false`", _switch)
NAMES = Kind("string or JSON list of strings", _names)
COLUMNS = Kind("names with commas between", _columns)
QUEUES = Kind("integer or JSON list of integers", _queues)
HASHES = Kind("integer or JSON list of integers", _hashes)
TIME: Kind[int | LocalTime] = Kind("epoch milliseconds or timestamp", parse_time, None, True)
END_TIME: Kind[int | LocalTime] = replace(TIME, parse=partial(parse_time, is_end=True))
ZONE = Kind("time zone", _zone)
POSITION = Kind("`earliest`, `latest`, or an offset", _position)
SIZE = Kind("size", _size)
BODY_SIZE = Kind("bytes", _body_size)
DURATION = Kind("milliseconds, or with a unit", _duration)
PATH = Kind("string", _some_text, _check_path)
PATHS = Kind("JSON list of strings", _texts, _check_paths)
LOG = Kind("path, `auto` or `none`", _log, _check_path)
