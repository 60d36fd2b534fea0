"""Integers of any kind, checked, as NumPy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from rmqindex.arguments import is_int
from rmqindex.layout import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["IntArray", "int_array"]

IntArray: TypeAlias = "Sequence[int] | NDArray[Any] | pa.Array | pa.ChunkedArray"


def int_array(
    name: str, values: IntArray, minimum: int = INT64_MIN, maximum: int = INT64_MAX
) -> NDArray[np.integer]:
    """Return integers as a one-dimensional NumPy array in native byte order.

    Args:
        name: The argument's name, for the message.
        values: A sequence of ints, or a NumPy or Arrow array of any integer type.
        minimum: The least value allowed.
        maximum: The greatest value allowed, at most 2**63 - 1.

    Returns:
        int64, or a narrower or unsigned integer type that ``values`` already has; not copied
        unless it must be.

    Raises:
        ValueError: A null or a number out of range, with its place; more than one dimension.
        TypeError: Not integers.
    """
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
        if not INT64_MIN <= item <= INT64_MAX:
            raise ValueError(f"{name}: expected a 64-bit int at {place}, got {item}")
    return np.array(items, dtype=np.int64)
