"""The columns of the data source and what of them a read asks for."""

from __future__ import annotations

import difflib

from pyspark.sql.types import (
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

__all__ = ["ENTRY_COLUMNS", "KEY_COLUMNS", "check_schema", "full_schema"]

KEY_COLUMNS: dict[str, DataType] = {"topic": StringType(), "key": StringType()}

ENTRY_COLUMNS: dict[str, DataType] = {
    "key_hash": IntegerType(),
    "phy_offset": LongType(),
    "store_timestamp": TimestampType(),
    "time_diff": IntegerType(),
    "slot": IntegerType(),
    "position": IntegerType(),
    "prev_position": IntegerType(),
    "file_path": StringType(),
}


def full_schema(*, keys: bool) -> StructType:
    """Return every column, in the documented order.

    Args:
        keys: Whether ``topic`` and ``key`` are known; they come first.
    """
    columns = {**KEY_COLUMNS, **ENTRY_COLUMNS} if keys else ENTRY_COLUMNS
    return StructType([StructField(name, type_) for name, type_ in columns.items()])


def check_schema(schema: StructType, *, keys: bool) -> None:
    """Refuse a requested schema that names what is not there.

    Args:
        schema: Any subset of the columns, in any order, with or without NOT NULL.
        keys: Whether ``topic`` and ``key`` are known.

    Raises:
        ValueError: No column, a repeated or an unknown one, or one of another type; the message
            lists the known ones.
    """
    known = {field.name: field.dataType for field in full_schema(keys=keys).fields}
    listing = ", ".join(f"{name} {type_.simpleString().upper()}" for name, type_ in known.items())
    if not schema.fields:
        raise ValueError(f"schema: expected at least one column. Known columns: {listing}")
    seen: set[str] = set()
    for field in schema.fields:
        name = field.name.lower()
        if name in seen:
            raise ValueError(f"column {field.name!r}: named twice. Known columns: {listing}")
        seen.add(name)
        expected = known.get(name)
        if expected is None:
            raise ValueError(
                f"column {field.name!r}: {_hint(name, known)}. Known columns: {listing}"
            )
        if field.dataType != expected:
            raise ValueError(
                f"column {field.name!r}: expected {expected.simpleString().upper()}, got "
                f"{field.dataType.simpleString().upper()}. Known columns: {listing}"
            )


def _hint(name: str, known: dict[str, DataType]) -> str:
    if name in KEY_COLUMNS:
        return (
            "an IndexFile stores no texts; look keys up with pyspark_rmqindex.table(), or give "
            "the options topic and key"
        )
    close = difflib.get_close_matches(name, known, n=1)
    return f"unknown; did you mean {close[0]!r}?" if close else "unknown"
