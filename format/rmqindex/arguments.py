"""Numbers, texts, flags and arrays that callers give, checked by the names of their arguments.

Python compares an int with a ``bool`` or a ``float``, and NumPy's narrow ints overflow, so that a
wrong number would be taken for another one far behind the call.
"""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

IntArray: TypeAlias = "Sequence[int] | NDArray[Any] | pa.Array | pa.ChunkedArray"

_INT64 = np.iinfo(np.int64)
# No number of more bits is shown: Python does not print one of thousands of digits.
_MOST_BITS = 128


def is_int(value: object) -> bool:
    """Return whether a value is a whole number, Python's or NumPy's; a ``bool`` is none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def int_of(name: str, value: object, least: int = _INT64.min, most: int = _INT64.max) -> int:
    """Return a whole number as Python's ``int``."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise TypeError(f"{name}: expected an int, got {reprlib.repr(value)}")
    number = int(value)
    if least <= number <= most:
        return number
    expected = "a 64-bit int"
    if number < least and least > _INT64.min:
        expected = f"at least {least}"
    elif number > most and most < _INT64.max:
        expected = f"at most {most}"
    bits = number.bit_length()
    got = number if bits <= _MOST_BITS else f"one of {bits} bits"
    raise ValueError(f"{name}: expected {expected}, got {got}")


def int_or_none(
    name: str, value: object, least: int = _INT64.min, most: int = _INT64.max
) -> int | None:
    """Return a whole number as :func:`int_of` does, and None for None."""
    return None if value is None else int_of(name, value, least, most)


def text_of(name: str, value: object) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a text, got {reprlib.repr(value)}")
    return value


def texts_of(name: str, values: Iterable[object]) -> tuple[str, ...]:
    """Return several texts."""
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{name}: expected a sequence of texts, got {reprlib.repr(values)}")
    return tuple(text_of(name, value) for value in values)


def ensure_flags(**flags: object) -> None:
    """Refuse flags that are not bools, since ``"no"`` is true."""
    for name, value in flags.items():
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name}: expected True or False, got {reprlib.repr(value)}")


def int_array(
    name: str, values: IntArray, minimum: int = _INT64.min, maximum: int = _INT64.max
) -> NDArray[np.integer]:
    """Return integers as a one-dimensional array in native order, int64 or as narrow as given."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        array = _from_arrow(name, values)
    elif isinstance(values, np.ndarray):
        array = values
    else:
        array = _from_sequence(name, values)
    if array.ndim != 1:
        raise ValueError(f"{name}: expected one dimension, got {array.ndim}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected integers, got {array.dtype}")
    if array.size and (array.min() < minimum or array.max() > maximum):
        place = int(np.flatnonzero((array < minimum) | (array > maximum))[0])
        raise ValueError(
            f"{name}: expected {minimum} to {maximum} at {place}, got {int(array[place])}"
        )
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _from_arrow(name: str, values: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    if pa.types.is_null(values.type):
        values = values.cast(pa.int64())
    if not pa.types.is_integer(values.type):
        raise TypeError(f"{name}: expected integers, got {values.type}")
    if values.null_count:
        nulls = values.is_null().to_numpy(zero_copy_only=False)
        raise ValueError(f"{name}: expected an int at {int(np.flatnonzero(nulls)[0])}, got null")
    array: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return array


def _from_sequence(name: str, values: Sequence[int]) -> NDArray[Any]:
    items = list(values)
    for place, item in enumerate(items):
        if item is None:
            raise ValueError(f"{name}: expected an int at {place}, got None")
        if not is_int(item):
            raise TypeError(f"{name}: expected an int at {place}, got {item!r}")
        if not _INT64.min <= item <= _INT64.max:
            raise ValueError(f"{name}: expected a 64-bit int at {place}, got {item}")
    return np.array(items, dtype=np.int64)
