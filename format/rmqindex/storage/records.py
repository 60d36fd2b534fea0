"""Records: the JSON documents by which writes log what they do, beside an index and on S3.

Whoever may write there can damage or replace one.
So a record's size is checked before it is read, then every field; an error names the file or
object, what was expected and found, and what to do.

:func:`to_json` and :func:`from_json` turn dataclasses into JSON values and back: what comes back
has the declared types, or raises. Bytes become hexadecimal digits, tuples and named tuples become
lists, and sets sorted lists.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from rmqindex.errors import RmqIndexError
from rmqindex.layout.index_file import INT64_MIN
from rmqindex.storage.disk import check_size, read_own

if TYPE_CHECKING:
    import re
    from pathlib import Path

    import pyarrow.fs as pafs

# The most bytes of a record that lists the files of a directory; real ones are far smaller.
_MAX_SIZE = 16 * 1024 * 1024
# An object can be replaced between the requests for its size and for its bytes.
_ATTEMPTS = 10

T = TypeVar("T")

# Builds a value of a type in a way of its own; raises a ValueError for one that it refuses.
Builders = Mapping[Any, Callable[[Any], object]]

# Inodes and devices are unsigned.
_UINT64_MAX = 2**64 - 1

_WORDS = {
    int: "an integer of 64 bits",
    float: "a number",
    bool: "true or false",
    str: "a text",
    list: "a list",
    dict: "a JSON object",
}


def shorten(value: object) -> str:
    """Return the text of a JSON value for an error; a long one is cut in the middle."""
    text = reprlib.Repr()
    text.maxstring = text.maxother = text.maxlong = 80
    return text.repr(value)


class Fields:
    """The fields of a JSON object, each checked when it is read."""

    def __init__(self, values: dict[str, Any]) -> None:
        """Hold them."""
        self.values = values

    def get(self, name: str) -> Any:  # noqa: ANN401  (JSON)
        """Return the value of a required field.

        Raises:
            ValueError: It is not there.
        """
        if name not in self.values:
            raise ValueError(f"{name}: expected this field, got none")
        return self.values[name]

    def text(self, name: str) -> str:
        """Return a text that is safe to print.

        Raises:
            ValueError: It is missing, not a text, or has control characters.
        """
        value = self.get(name)
        if not isinstance(value, str) or not value.isprintable():
            _refuse(name, "a printable text", value)
        return value

    def integer(self, name: str, low: int, high: int) -> int:
        """Return an integer from ``low`` to ``high``.

        Raises:
            ValueError: It is missing, not an integer, or out of range.
        """
        value = self.get(name)
        if type(value) is not int or not low <= value <= high:
            _refuse(name, f"an integer from {low} to {high}", value)
        return value

    def flag(self, name: str) -> bool:
        """Return true or false.

        Raises:
            ValueError: It is missing, or not a boolean.
        """
        value = self.get(name)
        if not isinstance(value, bool):
            _refuse(name, "true or false", value)
        return value

    def items(self, name: str) -> list[Any]:
        """Return the items of a list.

        Raises:
            ValueError: It is missing, or not a list.
        """
        value = self.get(name)
        if not isinstance(value, list):
            _refuse(name, "a list", value)
        return value

    def names(self, name: str, pattern: re.Pattern[str], what: str) -> tuple[str, ...]:
        """Return a list of names.

        Args:
            name: The field.
            pattern: What each name must match as a whole.
            what: What they name, in words.

        Raises:
            ValueError: It is missing, not a list, or has a name that does not match.
        """
        found = self.items(name)
        for each in found:
            if not isinstance(each, str) or not pattern.fullmatch(each):
                _refuse(name, what, each)
        return tuple(found)

    def inner(self, name: str) -> Fields | None:
        """Return the fields of a nested object; None where the field is missing or null.

        Raises:
            ValueError: It is not an object.
        """
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            _refuse(name, "a JSON object", value)
        return Fields(value)


@dataclass(frozen=True, slots=True)
class RecordKind(Generic[T]):
    """What a record should be.

    Attributes:
        what: In words, such as ``the owner of a job``.
        of: Builds it from its fields; raises a ``ValueError`` that says which one is wrong.
        remedy: What to do about a damaged one.
        limit: The most bytes that it can have.
    """

    what: str
    of: Callable[[Fields], T]
    remedy: str
    limit: int = _MAX_SIZE

    def encode(self, name: str, fields: Mapping[str, object]) -> bytes:
        """Encode a record, and ensure that :meth:`parse` accepts it.

        Args:
            name: The path or URI that errors name.
            fields: Its fields, as JSON can hold them.

        Raises:
            RmqIndexError: It is too large, or has a field that :meth:`parse` refuses.
        """
        data = json.dumps(fields, indent=1).encode()
        self.parse(name, data)
        return data

    def parse(self, name: str, data: bytes) -> T:
        """Decode a record.

        Args:
            name: The path or URI that errors name.
            data: Its bytes.

        Raises:
            RmqIndexError: The bytes are no such record.
        """
        check_size(name, len(data), self.limit, self.what, self.remedy)
        try:
            return self.of(_fields(data))
        except ValueError as error:
            raise RmqIndexError(
                f"{name}: expected {self.what}, got a damaged one ({error}); {self.remedy}"
            ) from error

    def read(self, path: Path) -> T | None:
        """Read a local record.

        Args:
            path: The file.

        Returns:
            The record; None where there is no such file.

        Raises:
            RmqIndexError: The record is damaged, or not a regular file.
            OSError: It cannot be read.
        """
        data = read_own(path, self.limit, self.what, self.remedy)
        return None if data is None else self.parse(str(path), data)

    def read_object(self, filesystem: pafs.FileSystem, inner_path: str, uri: str) -> T:
        """Read a record from a remote store; one that is too large is not fetched.

        Args:
            filesystem: The store.
            inner_path: The object in it.
            uri: What errors name.

        Raises:
            RmqIndexError: The object is damaged.
            FileNotFoundError: There is no such object.
            OSError: The storage failed.
        """
        attempts = _ATTEMPTS
        while True:
            with filesystem.open_input_file(inner_path) as file:
                size = file.size()
                check_size(uri, size, self.limit, self.what, self.remedy)
                data = file.read_at(size, 0)
            try:
                return self.parse(uri, data)
            except RmqIndexError:
                # A longer record replaced the claim meanwhile, and was read only in part.
                attempts -= 1
                if not attempts or filesystem.get_file_info(inner_path).size == size:
                    raise


def _fields(data: bytes) -> Fields:
    """Decode a JSON object by RFC 8259, in UTF-8, without duplicate names."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"expected UTF-8, got byte {data[error.start]:#x} at {error.start}"
        ) from error
    try:
        document = json.loads(  # noqa: TID251  (the one place in which records are decoded)
            text, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant
        )
    except json.JSONDecodeError as error:
        raise ValueError(
            f"expected JSON, got something else at character {error.pos}: {error.msg}"
        ) from error
    except RecursionError as error:
        raise ValueError("expected JSON, got objects or lists nested too deeply") from error
    if not isinstance(document, dict):
        _refuse("the document", "a JSON object", document)
    return Fields(document)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{shorten(name)}: expected this field once, got it again")
        found[name] = value
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"expected JSON, got {text}")


def _refuse(name: str, expected: str, value: object) -> NoReturn:
    raise ValueError(f"{name}: expected {expected}, got {shorten(value)}")


def to_json(value: object) -> Any:  # noqa: ANN401  (JSON)
    """Return a value as JSON can hold it."""
    if value is None or isinstance(value, str | int | float):
        return value
    if is_dataclass(value):
        return {each.name: to_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {name: to_json(each) for name, each in value.items()}
    if isinstance(value, frozenset):
        return sorted(to_json(each) for each in value)
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    return value.hex() if isinstance(value, bytes) else value


def from_json(
    kind: type[T],
    value: object,
    builders: Mapping[Any, Callable[[Any], object]] | None = None,
    *,
    name: str = "the document",
) -> T:
    """Return the value that :func:`to_json` turned into JSON.

    Args:
        kind: Its type: a dataclass or named tuple of such types, a list, tuple, frozenset or dict
            of them, an integer, number, boolean, text or bytes, or a union with None.
        value: The JSON. A field that a dataclass lacks is ignored, as a later release may write
            one; a field that is missing has its default.
        builders: By type, what builds its values; others are built by the rules above.
        name: What the error calls the value.

    Raises:
        ValueError: The value is of another type, or lacks a field.
    """
    result: T = _build(kind, value, builders or {}, name)
    return result


def _build(kind: Any, value: Any, builders: Builders, name: str) -> Any:  # noqa: ANN401  (any type)
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in builders:
        text_or_any = _build_plain(str, value, name) if issubclass(kind, str) else value
        return builders[kind](text_or_any)
    if origin in (Union, UnionType):
        return _build_union(arguments, value, builders, name)
    if origin is dict:
        items = _build_plain(dict, value, name).items()
        return {each: _build(arguments[1], inner, builders, each) for each, inner in items}
    if is_dataclass(kind):
        return _build_dataclass(kind, _build_plain(dict, value, name), builders)
    if issubclass(origin or kind, list | tuple | frozenset):
        return _build_items(kind, _build_plain(list, value, name), builders, name)
    return _build_plain(kind, value, name)


def _build_items(kind: Any, value: list[Any], builders: Builders, name: str) -> object:  # noqa: ANN401
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is None:  # a named tuple
        kinds = tuple(_hints(kind).values())
    elif origin is tuple and arguments[-1] is not Ellipsis:
        kinds = arguments
    else:
        kinds = (arguments[0],) * len(value)
    _check(len(value) == len(kinds), name, f"{len(kinds)} items", value)
    items = (_build(of, each, builders, name) for of, each in zip(kinds, value, strict=True))
    return kind(*items) if origin is None else origin(items)


def _build_plain(kind: type, value: Any, name: str) -> Any:  # noqa: ANN401  (JSON)
    if kind is NoneType:
        _check(value is None, name, "null", value)
        return None
    if kind is bytes:
        _check(isinstance(value, str), name, "hexadecimal digits", value)
        try:
            return bytes.fromhex(value)
        except ValueError as error:
            raise ValueError(f"{name}: expected hexadecimal digits, got {error}") from error
    if kind is float and type(value) is int:
        return float(value)
    is_in_bounds = not isinstance(value, int) or INT64_MIN <= value <= _UINT64_MAX
    _check(type(value) is kind and is_in_bounds, name, _WORDS[kind], value)
    return value


def _build_union(kinds: tuple[Any, ...], value: object, builders: Builders, name: str) -> object:
    if value is None and NoneType in kinds:
        return None
    others = [kind for kind in kinds if kind is not NoneType]
    for kind in others[:-1]:
        try:
            return _build(kind, value, builders, name)
        except ValueError:
            continue
    return _build(others[-1], value, builders, name)


def _build_dataclass(kind: Any, value: dict[str, Any], builders: Builders) -> object:  # noqa: ANN401
    hints = _hints(kind)
    values = {}
    for each in fields(kind):
        if each.name in value:
            values[each.name] = _build(hints[each.name], value[each.name], builders, each.name)
        elif each.default is MISSING and each.default_factory is MISSING:
            raise ValueError(f"{each.name}: expected this field, got none")
    return kind(**values)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _check(is_sound: bool, name: str, expected: str, value: object) -> None:
    if not is_sound:
        raise ValueError(f"{name}: expected {expected}, got {shorten(value)}")
