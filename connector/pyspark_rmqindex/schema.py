"""The columns of the data sources, the check of a requested schema, and readers of a part of it."""

from __future__ import annotations

import difflib
import inspect
import json
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rmqindex import RmqIndexError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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

#: The store that a row comes from.
STORE_COLUMN = "store"

#: Whether the CommitLog confirms an entry.
MATCH_COLUMN = "match_state"

_TEXTS = ArrayType(StringType())

# Where Spark has the metadata of a column in an Arrow schema.
_METADATA = b"SPARK::metadata::json"

# The body as text, which exists only where an option or a schema asks for it.
_TEXT_COLUMN = "body_text"

#: The columns of a message, as in the format ``rmqcommitlog``.
MESSAGE_COLUMNS: dict[str, DataType] = {
    "topic": StringType(),
    "uniq_key": StringType(),
    "keys": StringType(),
    "tags": StringType(),
    "phy_offset": LongType(),
    "size": IntegerType(),
    "queue_id": IntegerType(),
    "queue_offset": LongType(),
    "sys_flag": IntegerType(),
    "flag": IntegerType(),
    "born_timestamp": TimestampType(),
    "store_timestamp": TimestampType(),
    "born_host": StringType(),
    "store_host": StringType(),
    "reconsume_times": IntegerType(),
    "prepared_transaction_offset": LongType(),
    "properties": MapType(StringType(), StringType()),
    "body": BinaryType(),
    _TEXT_COLUMN: StringType(),
    "body_crc": IntegerType(),
    "msg_id": StringType(),
    "magic_code": IntegerType(),
    "all_uniq_keys": _TEXTS,
    "all_keys": _TEXTS,
    "member_keys": _TEXTS,
    "decoded_uniq_key": StructType(
        [
            StructField("kind", StringType()),
            StructField("client", StringType()),
            StructField("pid", IntegerType()),
            StructField("timestamp", TimestampType()),
            StructField("counter", LongType()),
        ]
    ),
}

#: The columns of a message that an entry does not have.
EXTRA_MESSAGE_COLUMNS: dict[str, DataType] = {
    name: type_
    for name, type_ in MESSAGE_COLUMNS.items()
    if name not in KEY_COLUMNS and name not in ENTRY_COLUMNS
}


#: The columns of an audit's findings, as ``rmqindex.FINDING_SCHEMA`` has them.
FINDING_COLUMNS: dict[str, DataType] = {
    "file": StringType(),
    "rule": StringType(),
    "severity": StringType(),
    "byte": LongType(),
    "expected": StringType(),
    "got": StringType(),
    "remedy": StringType(),
}

# The columns of ConsumeQueue units, as ``rmqindex.CONSUME_QUEUE_SCHEMA`` has them.
_QUEUE_COLUMNS: dict[str, DataType] = {
    "topic": StringType(),
    "queue_id": IntegerType(),
    "queue_offset": LongType(),
    "phy_offset": LongType(),
    "size": IntegerType(),
    "tags_code": LongType(),
    "file_path": StringType(),
}


class Columns(StructType):
    """Columns of Spark that are an Arrow schema too, as engines with no types of Spark ask for.

    Sail takes a schema by Arrow's protocol before it looks for Spark's types, which it cannot
    convert with PySpark 4.2: that one wants to be told the zone of TIMESTAMP.
    """

    #: The Arrow schema that an engine asked for; None for the one that Spark requires.
    asked: pa.Schema | None = None
    #: What is done when an engine takes them by Arrow's protocol, as Spark does not.
    when_taken: Callable[[], None] | None = None

    @classmethod
    def typeName(cls) -> str:  # noqa: N802  (Spark's name, which it makes of the class's)
        """Return the name of the type."""
        return StructType.typeName()

    @classmethod
    def of(cls, schema: StructType | pa.Schema) -> StructType:
        """Return the columns that an engine asks for.

        Sail hands over an Arrow schema. Databricks' serverless workers have a second copy of
        PySpark, whose types are equal to none of this one.
        """
        if isinstance(schema, StructType):
            return schema
        if not isinstance(schema, pa.Schema):
            return StructType.fromJson(schema.jsonValue())
        columns = cls(from_arrow_schema(schema).fields)
        columns.asked = schema
        return columns

    def only(self, names: Sequence[str]) -> StructType:
        """Return some of the columns, in this order."""
        columns = Columns([self[name] for name in names])
        if self.asked is not None:
            columns.asked = pa.schema([self.asked.field(name) for name in names])
        return columns

    def __arrow_c_schema__(self) -> object:
        """Return the Arrow schema, as Arrow's protocol has it, with the metadata of the columns."""
        if self.when_taken is not None:
            self.when_taken()
        fields = [
            # PySpark 4.1 would leave it out.
            arrow.with_metadata({_METADATA: json.dumps(field.metadata)} if field.metadata else None)
            for arrow, field in zip(arrow_schema(self), self.fields, strict=True)
        ]
        return pa.schema(fields).__arrow_c_schema__()

    def __eq__(self, other: object) -> bool:
        """Compare as Spark compares columns."""
        return isinstance(other, StructType) and StructType(self.fields) == StructType(other.fields)

    __hash__ = StructType.__hash__


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return exactly the Arrow schema that Spark, or another engine, requires of batches."""
    if isinstance(schema, Columns) and schema.asked is not None:
        return schema.asked
    # PySpark 4.1 always uses UTC, and has no such parameter.
    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)


def full_schema(
    *,
    keys: bool,
    log: bool = False,
    message: bool = False,
    store: bool = False,
    text: bool = False,
) -> Columns:
    """Return every column of entries, in the documented order."""
    columns = {**KEY_COLUMNS, **ENTRY_COLUMNS} if keys else dict(ENTRY_COLUMNS)
    if store:
        columns[STORE_COLUMN] = StringType()
    if log:
        columns[MATCH_COLUMN] = StringType()
    if message:
        columns |= _without_text(EXTRA_MESSAGE_COLUMNS)
    if text:
        columns[_TEXT_COLUMN] = StringType()
    return _struct(columns)


def entry_schema(
    names: Sequence[str] | None,
    *,
    keys: bool,
    log: bool,
    message: bool,
    store: bool,
    text: bool,
) -> Columns:
    """Return the columns of entries that the option ``columns`` names; None for all of these."""
    default = full_schema(keys=keys, log=log, message=message, store=store, text=text)
    full = full_schema(keys=keys, log=log, message=log, store=True, text=log)
    return select_columns(names, default, full)


def finding_schema() -> Columns:
    """Return every column of findings, in the documented order."""
    return _struct(FINDING_COLUMNS)


def queue_schema(*, store: bool = False) -> Columns:
    """Return every column of ConsumeQueue units, in the documented order."""
    return _struct(_QUEUE_COLUMNS | {STORE_COLUMN: StringType()} if store else _QUEUE_COLUMNS)


def message_schema(*, store: bool = False, text: bool = False) -> Columns:
    """Return every column of messages, in the documented order."""
    columns = _without_text(MESSAGE_COLUMNS)
    if store:
        columns[STORE_COLUMN] = StringType()
    if text:
        columns[_TEXT_COLUMN] = StringType()
    return _struct(columns)


def select_columns(names: Sequence[str] | None, default: Columns, full: StructType) -> Columns:
    """Return the columns that the option ``columns`` names."""
    if names is None:
        return default
    known = {field.name: field.dataType for field in full.fields}
    fields = [StructField(name.lower(), known.get(name.lower(), NullType())) for name in names]
    check_columns(StructType(fields), full)
    return Columns(fields)


def check_selected(schema: StructType, names: Sequence[str] | None) -> None:
    """Raise if a requested schema has a column that the option ``columns`` does not name."""
    if names is None:
        return
    known = {name.lower() for name in names}
    for field in schema.fields:
        if field.name.lower() not in known:
            raise ValueError(
                f"option 'columns': the schema has another column, {field.name!r}; give one of the "
                "two, a schema or the option"
            )


def _without_text(columns: dict[str, DataType]) -> dict[str, DataType]:
    return {name: type_ for name, type_ in columns.items() if name != _TEXT_COLUMN}


def _struct(columns: dict[str, DataType]) -> Columns:
    return Columns([StructField(name, type_) for name, type_ in columns.items()])


def check_schema(schema: StructType, *, keys: bool, log: bool = False) -> None:
    """Raise if a requested schema of entries does not fit the available columns."""
    check_columns(schema, full_schema(keys=keys, log=log, message=log, store=True, text=log))


def check_columns(schema: StructType, full: StructType) -> None:
    """Raise if a requested schema does not fit the available columns."""
    known = {field.name: field.dataType for field in full.fields}
    listing = ", ".join(f"{name} {_type_text(type_)}" for name, type_ in known.items())
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
                f"column {field.name!r}: {_hint(name, known)} Known columns: {listing}"
            )
        if field.dataType != expected:
            raise ValueError(
                f"column {field.name!r}: expected {_type_text(expected)}, got "
                f"{_type_text(field.dataType)}. Known columns: {listing}"
            )


def _type_text(type_: DataType) -> str:
    """Write a type as in a schema; the case of a struct's own names is part of it."""
    if not isinstance(type_, StructType):
        return type_.simpleString().upper()
    fields = ",".join(f"{field.name}:{_type_text(field.dataType)}" for field in type_.fields)
    return f"STRUCT<{fields}>"


def _hint(name: str, known: dict[str, DataType]) -> str:
    if name in KEY_COLUMNS and "key_hash" in known:
        return (
            "an IndexFile stores no texts; look keys up with pyspark_rmqindex.table(), or give "
            "the options topic and key, or commitLog."
        )
    if "key_hash" in known and (name == MATCH_COLUMN or name in EXTRA_MESSAGE_COLUMNS):
        return "only the message in the CommitLog has it; give the option commitLog."
    close = difflib.get_close_matches(name, known, n=1)
    return f"unknown; did you mean {close[0]!r}?" if close else "unknown."


def check_not_null(schema: pa.Schema, arrays: Sequence[pa.Array]) -> None:
    """Raise if a column that the requested schema declares NOT NULL holds NULL."""
    for field, array in zip(schema, arrays, strict=True):
        if not field.nullable and array.null_count:
            raise RmqIndexError(
                f"column {field.name!r}: expected values, as the schema says NOT NULL, got NULL"
            )


class PrunedReader(DataSourceReader):
    """A reader that can read fewer columns than its relation has."""

    _schema: StructType

    def pruneColumns(self, schema: StructType | pa.Schema) -> StructType:  # noqa: N802  (engines' name)
        """Read these columns alone, in this order.

        Sail calls it with an Arrow schema, after ``pushFilters``. The columns include those of the
        filters that remain with the engine.
        """
        if not schema.names:
            raise NotImplementedError("pruneColumns: expected at least one column, got none")
        known = {field.name.lower(): field for field in self._schema.fields}
        for name in schema.names:
            if name.lower() not in known:
                raise ValueError(
                    f"pruneColumns: expected columns among {', '.join(self._schema.names)}, got "
                    f"{name!r}"
                )
        names = [known[name.lower()].name for name in schema.names]
        kept = self._schema if isinstance(self._schema, Columns) else Columns(self._schema.fields)
        self._schema = kept.only(names)
        return self._schema
