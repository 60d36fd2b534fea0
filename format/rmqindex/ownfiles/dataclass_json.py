"""Turns dataclasses into JSON values and back: what comes back has the declared types, or raises.

Bytes become hexadecimal digits, tuples and named tuples become lists, and sets sorted lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from rmqindex.layout import INT64_MIN
from rmqindex.ownfiles.records import shorten

__all__ = ["from_json", "to_json"]

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
