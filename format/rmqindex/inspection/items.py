"""What a file is made of: items such as records, entries and units, each with its fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Field", "Item", "fields_of_dtype"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field.

    Attributes:
        byte: Where it starts in the file.
        size: How many bytes it has.
        name: Its name, RocketMQ's in snake_case.
        value: Its value; bytes that are no text as hex.
        note: What the value means, if it needs saying.
    """

    byte: int
    size: int
    name: str
    value: int | str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """A header, slot, entry, record, unit, or part of another file.

    Attributes:
        name: What it is, with its number if it has one.
        byte: Where it starts in the file.
        fields: Its fields.
    """

    name: str
    byte: int
    fields: tuple[Field, ...]


def fields_of_dtype(data: bytes, dtype: np.dtype[np.void], byte: int) -> tuple[Field, ...]:
    """Return the fields of a NumPy structure."""
    import numpy as np  # noqa: PLC0415  (its type alone is needed above)

    record = np.frombuffer(data, dtype, 1)[0]
    assert dtype.names is not None
    assert dtype.fields is not None
    return tuple(
        Field(byte + dtype.fields[name][1], dtype.fields[name][0].itemsize, name, int(record[name]))
        for name in dtype.names
    )
