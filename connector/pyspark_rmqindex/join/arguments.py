"""Checks the keys and the path of ``lookup()``, and finds the columns of the keys."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    YearMonthIntervalType,
)

from pyspark_rmqindex.join.key_chunk import KeyColumns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TIME_COLUMNS = ("begin", "end")
_EXPECTED = "keys: expected a DataFrame of Spark or pandas, or an Arrow table"


def check_arguments(keys: object, path: object, topic: object, key: object) -> None:
    """Raise a ``TypeError`` with the call to write if one of the arguments is something else."""
    for name, value, example in (("topic", topic, "Orders"), ("key", key, "order_id")):
        if not isinstance(value, str) and not (name == "topic" and value is None):
            raise TypeError(
                f"{name}: expected a text, such as {name}={example!r}, got {type(value).__name__}"
            )
    if isinstance(keys, (str, os.PathLike)):
        written = repr(os.fspath(keys))
        if isinstance(path, (str, os.PathLike)):
            raise TypeError(
                f"{_EXPECTED}, got {written}; the keys come first, one a row: "
                f"lookup(spark.createDataFrame([({written},)], 'key STRING'), "
                f"{os.fspath(path)!r}, topic='..')"
            )
        raise TypeError(f"{_EXPECTED} first and the path second: lookup(keys, {written})")
    # Asked of its class: a DataFrame of Spark Connect has a column for every name.
    if hasattr(type(keys), "createDataFrame"):
        raise TypeError(
            f"{_EXPECTED}, got a Spark session, which lookup() takes from the keys: "
            "lookup(keys, path)"
        )
    if isinstance(keys, (list, tuple, set, frozenset, dict)):
        raise TypeError(
            f"{_EXPECTED}, got {type(keys).__name__}; make a DataFrame of it: "
            "lookup(spark.createDataFrame([(key,) for key in keys], 'key STRING'), path, "
            "topic='..')"
        )
    if (
        not _is_frame(keys)
        and not _is_pandas(keys)
        and not hasattr(type(keys), "__arrow_c_stream__")
    ):
        raise TypeError(f"{_EXPECTED}, got {type(keys).__name__}")
    if not isinstance(path, (str, os.PathLike, list, tuple)):
        raise TypeError(
            f"path: expected a path, or a list of paths, got {type(path).__name__}; the keys come "
            "first, the path second: lookup(keys, '/data/store')"
        )


def keys_frame(keys: Any) -> DataFrame:  # noqa: ANN401  (whatever has rows)
    """Return keys as a DataFrame of Spark; those of pandas and Arrow go to the active session."""
    if _is_frame(keys):
        frame: DataFrame = keys
        return frame
    if _is_pandas(keys):
        rows = pa.Table.from_pandas(keys, preserve_index=False)
    else:
        try:
            rows = pa.table(keys)
        except (pa.ArrowInvalid, TypeError, ValueError) as error:
            raise TypeError(
                f"{_EXPECTED} with named columns, got {type(keys).__name__}: {error}"
            ) from error
    from pyspark.sql import SparkSession  # noqa: PLC0415  (needed for these keys alone)

    return SparkSession.active().createDataFrame(_with_spark_types(rows))


def key_columns(schema: StructType, topic: str | None, key: str) -> KeyColumns:
    """Return what a lookup uses of each row, all of which goes through Arrow."""
    for field in schema.fields:
        if _has_months(field.dataType):
            type_ = field.dataType.simpleString().upper()
            raise ValueError(
                f"column {field.name!r} of the keys: expected a type that Arrow has, got {type_}; "
                f"cast it first: keys.withColumn({field.name!r}, keys[{field.name!r}]"
                ".cast('string')), or keys.drop(..)"
            )
    if topic is not None and _places(schema, "topic"):
        raise ValueError(
            f"topic: expected either a topic for all rows or a column, got {topic!r} and the "
            "column 'topic' of the keys; leave the argument out, or keys.drop('topic')"
        )
    begin, end = (
        _place(schema, name, TimestampType()) if _places(schema, name) else None
        for name in _TIME_COLUMNS
    )
    return KeyColumns(
        topic=_place(schema, "topic", StringType()) if topic is None else topic,
        key=_place(schema, key, StringType()),
        begin=begin,
        end=end,
    )


def _has_months(type_: DataType) -> bool:
    """Return whether values have intervals of months, which Spark does not convert to Arrow."""
    if isinstance(type_, StructType):
        return any(_has_months(field.dataType) for field in type_.fields)
    if isinstance(type_, ArrayType):
        return _has_months(type_.elementType)
    if isinstance(type_, MapType):
        return _has_months(type_.keyType) or _has_months(type_.valueType)
    return isinstance(type_, (CalendarIntervalType, YearMonthIntervalType))


def _is_frame(keys: object) -> bool:
    return hasattr(type(keys), "mapInArrow")


def _is_pandas(keys: object) -> bool:
    return type(keys).__module__.partition(".")[0] == "pandas" and hasattr(keys, "columns")


def _with_spark_types(rows: pa.Table) -> pa.Table:
    """Return rows with the Arrow types that Spark converts from."""
    for place, field in enumerate(rows.schema):
        type_ = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if "string_view" in str(type_):
            type_ = pa.string()
        if type_ != field.type:
            rows = rows.set_column(place, field.name, rows.column(place).cast(type_))
    return rows


def _places(schema: StructType, name: str) -> list[int]:
    return [
        place for place, field in enumerate(schema.fields) if field.name.lower() == name.lower()
    ]


def _place(schema: StructType, name: str, expected: DataType) -> int:
    places = _places(schema, name)
    if not places:
        raise ValueError(_missing(schema, name))
    if len(places) > 1:
        raise ValueError(f"column {name!r} of the keys: expected once, got several")
    field = schema.fields[places[0]]
    if field.dataType != expected:
        wanted, got = (type_.simpleString().upper() for type_ in (expected, field.dataType))
        raise ValueError(
            f"column {field.name!r} of the keys: expected {wanted}, got {got}; cast it first: "
            f"keys.withColumn({field.name!r}, keys[{field.name!r}].cast('{wanted.lower()}'))"
        )
    return places[0]


def _missing(schema: StructType, name: str) -> str:
    listing = ", ".join(schema.names) or "none"
    advice = {
        "topic": "; give lookup() one topic for all rows: topic='Orders'",
        "key": "; give lookup() the name of your column of keys: key='order_id'",
    }.get(name, "")
    return f"column {name!r} of the keys: missing; the columns are {listing}{advice}"
