"""Turns the columns that users write into arrays of entries.

There are three shapes of input; the schema alone determines which one applies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from pyspark_rmqindex.files.stores import StoreCheck
from pyspark_rmqindex.schema import (
    ENTRY_COLUMNS,
    EXTRA_MESSAGE_COLUMNS,
    KEY_COLUMNS,
    MATCH_COLUMN,
    STORE_COLUMN,
)
from rmqindex import expand_messages, index_key_hashes
from rmqindex.bulk import EntryRows
from rmqindex.keys import bytes_at, not_utf8
from rmqindex.layout import INT32_MAX, INT64_MAX
from rmqindex.times import LAST_MILLISECOND, TimeUnitError, check_milliseconds, to_milliseconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqindex.bulk import TagChoice

_SHAPES = (
    "phy_offset BIGINT, store_timestamp TIMESTAMP (or BIGINT milliseconds), and one of: "
    "topic STRING, key STRING | key_hash INT | topic STRING, uniq_key STRING, keys STRING or "
    "ARRAY<STRING>, sys_flag INT (one of uniq_key and keys at least; sys_flag may be missing)"
)
_MESSAGE_COLUMNS = frozenset({"uniq_key", "keys", "sys_flag"})
# The columns that load() of entries and of messages returns; those not needed are ignored.
_READABLE = frozenset({*ENTRY_COLUMNS, *KEY_COLUMNS, *EXTRA_MESSAGE_COLUMNS, MATCH_COLUMN})
_MEMBER_KEYS = "member_keys"
_TAGS = "tags"
# Columns whose text is hashed.
_TEXTS = frozenset({*KEY_COLUMNS, "uniq_key", "keys", _MEMBER_KEYS, _TAGS})
_INTEGER: tuple[type[DataType], ...] = (IntegerType, LongType)
_TYPES: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "phy_offset": (_INTEGER, "BIGINT"),
    "store_timestamp": ((TimestampType, LongType), "TIMESTAMP, or BIGINT milliseconds"),
    "topic": ((StringType,), "STRING"),
    "key": ((StringType,), "STRING"),
    "key_hash": (_INTEGER, "INT"),
    "uniq_key": ((StringType,), "STRING"),
    "keys": ((StringType, ArrayType), "STRING or ARRAY<STRING>"),
    "sys_flag": (_INTEGER, "INT"),
    _MEMBER_KEYS: ((ArrayType,), "ARRAY<STRING>"),
    _TAGS: ((StringType,), "STRING"),
    "position": (_INTEGER, "INT"),
    "file_path": ((StringType,), "STRING"),
    STORE_COLUMN: ((StringType,), "STRING"),
}


class BadRowError(ValueError):
    """A row that cannot be indexed; the error message holds its values."""


@dataclass(frozen=True, slots=True)
class InputShape:
    """The columns of one write, and how to read them; picklable."""

    # ``key`` (topic and key), ``hash`` (key_hash) or ``message``.
    kind: Literal["key", "hash", "message"]
    columns: dict[str, int]
    # Whether ``file_path`` and ``position`` give the original order of the entries.
    by_position: bool
    members: bool = False
    tags: TagChoice | None = None  # Which messages' tags to index as well; None for none

    @classmethod
    def of(
        cls, schema: StructType, *, members: bool = False, tags: bool | None = False
    ) -> InputShape:
        """Recognise the shape of a DataFrame.

        Names are compared case-insensitively.
        Columns that ``load()`` returns for entries or messages are accepted in addition to the
        needed ones, so that rows that were read can be written back.
        """
        columns: dict[str, int] = {}
        for place, field in enumerate(schema.fields):
            name = field.name.lower()
            if name not in _TYPES and name not in _READABLE:
                raise ValueError(f"column {field.name!r}: unknown. Columns to write: {_SHAPES}")
            if name in columns:
                raise ValueError(f"column {field.name!r}: named twice. Columns to write: {_SHAPES}")
            columns[name] = place
            if name != _TAGS:
                _check_type(field.name, name, field.dataType)
        kind = _kind(columns)
        if members and (kind != "message" or _MEMBER_KEYS not in columns):
            raise ValueError(
                f"option 'indexMembers': expected messages with the column {_MEMBER_KEYS}, as the "
                "format rmqcommitlog reads them"
            )
        if tags and (kind != "message" or _TAGS not in columns):
            raise ValueError(
                f"option 'indexTags': expected messages with the column {_TAGS} STRING"
            )
        if (
            tags is None
            and _TAGS in columns
            and not _fits(schema.fields[columns[_TAGS]].dataType, _TAGS)
        ):
            del columns[_TAGS]  # another column of the same name
        elif tags:
            of_tags = schema.fields[columns[_TAGS]]
            _check_type(of_tags.name, _TAGS, of_tags.dataType)
        by_position = kind != "message" and {"file_path", "position"} <= columns.keys()
        return cls(kind, columns, by_position, members)

    def with_tags(self, choice: TagChoice) -> InputShape:
        """Return the shape with the choice of the tags to index."""
        if self.kind != "message" or choice.start is None:
            return self
        if _TAGS not in self.columns:
            raise ValueError(
                f"column {_TAGS!r}: missing, though the index has entries of tags. Add the column "
                f"{_TAGS} STRING, or leave tags out with the option indexTags=false"
            )
        return replace(self, tags=choice)

    @property
    def has_tags(self) -> bool:
        """Whether the rows are messages with their tags."""
        return self.kind == "message" and _TAGS in self.columns

    def store_check(self) -> StoreCheck:
        """Return a check that all rows of one task come from one store."""
        return StoreCheck(self.columns.get(STORE_COLUMN))

    def read(self, batch: pa.RecordBatch) -> EntryRows:
        """Turn a batch of input rows into entries."""
        offsets = self._integers(batch, "phy_offset", INT64_MAX)
        timestamps = self._timestamps(batch)
        if self.kind == "message":
            self._refuse_wide_flags(batch)
            rows, ordinals, hashes = self._expand(batch)
            return EntryRows(hashes, offsets[rows], timestamps[rows], ordinals)
        if self.kind == "hash":
            hashes = self._integers(batch, "key_hash", INT32_MAX).astype(np.int32, copy=False)
            if KEY_COLUMNS.keys() <= self.columns.keys():
                self._compare(batch, hashes)
        else:
            hashes = self._hash(batch)
        if not self.by_position:
            return EntryRows(hashes, offsets, timestamps, np.zeros(len(hashes), np.int32))
        ordinals = self._integers(batch, "position", INT32_MAX).astype(np.int32, copy=False)
        self._refuse_nulls(batch, "file_path")
        self._refuse_bytes(batch, "file_path")
        return EntryRows(hashes, offsets, timestamps, ordinals, self._column(batch, "file_path"))

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        return batch.column(self.columns[name])

    def _optional(self, batch: pa.RecordBatch, name: str) -> pa.Array | None:
        return self._column(batch, name) if name in self.columns else None

    def _refuse_nulls(self, batch: pa.RecordBatch, name: str) -> None:
        column = self._column(batch, name)
        if column.null_count:
            place = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise self._bad_row(batch, place, f"{name}: expected a value, got NULL")

    def _refuse_bytes(self, batch: pa.RecordBatch, name: str) -> None:
        """Raise if strings, or lists of strings, are not UTF-8."""
        column = self._column(batch, name)
        is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
        texts = column.flatten() if is_list else column
        invalid = not_utf8(texts)
        if invalid is None or not invalid.any():
            return
        first = int(np.flatnonzero(invalid)[0])
        place = pc.list_parent_indices(column)[first].as_py() if is_list else first
        reason = f"{name}: expected UTF-8, got {bytes_at(texts, first)!r}"
        raise self._bad_row(batch, place, reason)

    def _integers(self, batch: pa.RecordBatch, name: str, highest: int) -> NDArray[Any]:
        """Return a column; raise for nulls and for values outside 0 to ``highest``."""
        self._refuse_nulls(batch, name)
        values: NDArray[Any] = self._column(batch, name).to_numpy(zero_copy_only=False)
        if values.size and (values.min() < 0 or values.max() > highest):
            place = int(np.flatnonzero((values < 0) | (values > highest))[0])
            raise self._bad_row(
                batch, place, f"{name}: expected 0 to {highest}, got {values[place]}"
            )
        return values.astype(np.int64, copy=False) if name == "phy_offset" else values

    def _refuse_wide_flags(self, batch: pa.RecordBatch) -> None:
        """Raise for flags that are no INT, of which a message has only the low bits."""
        column = self._optional(batch, "sys_flag")
        if column is None:
            return
        values = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        wide = np.flatnonzero((values < -INT32_MAX - 1) | (values > INT32_MAX))
        if wide.size:
            place = int(wide[0])
            reason = f"sys_flag: expected {-INT32_MAX - 1} to {INT32_MAX}, got {values[place]}"
            raise self._bad_row(batch, place, reason)

    def _timestamps(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Return epoch milliseconds; the time zone of a TIMESTAMP does not matter."""
        self._refuse_nulls(batch, "store_timestamp")
        column = self._column(batch, "store_timestamp")
        values: NDArray[np.int64]
        if pa.types.is_timestamp(column.type):
            micros = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
            values = to_milliseconds(micros, up=False)
        else:
            values = column.to_numpy(zero_copy_only=False)
        if values.size and (values.min() < 0 or values.max() > LAST_MILLISECOND):
            place = int(np.flatnonzero((values < 0) | (values > LAST_MILLISECOND))[0])
            raise self._bad_row(
                batch,
                place,
                f"store_timestamp: expected 0 to {LAST_MILLISECOND} milliseconds since 1970, "
                f"got {values[place]}",
            )
        if values.size and pa.types.is_integer(column.type):
            self._refuse_other_units(batch, values)
        return values

    def _refuse_other_units(self, batch: pa.RecordBatch, values: NDArray[np.int64]) -> None:
        """Raise if the numbers are seconds, such as those of ``unix_timestamp()``, or the like.

        All of a column are of one unit, so the least and the greatest tell.
        """
        for place in (int(values.argmin()), int(values.argmax())):
            try:
                check_milliseconds(int(values[place]))
            except TimeUnitError as error:
                raise self._bad_row(batch, place, f"store_timestamp: {error}") from error

    def _hash(self, batch: pa.RecordBatch) -> NDArray[np.int32]:
        try:
            return index_key_hashes(self._column(batch, "topic"), self._column(batch, "key"))
        except ValueError:
            for name in KEY_COLUMNS:  # which row it is
                self._refuse_nulls(batch, name)
                self._refuse_bytes(batch, name)
            raise

    def _compare(self, batch: pa.RecordBatch, hashes: NDArray[np.int32]) -> None:
        """Raise if the key of a row, if any, does not have the row's ``key_hash``."""
        for name in KEY_COLUMNS:
            self._refuse_bytes(batch, name)
        topics, keys = self._column(batch, "topic"), self._column(batch, "key")
        named = pc.and_(topics.is_valid(), keys.is_valid())
        places = np.flatnonzero(named.to_numpy(zero_copy_only=False))
        expected = index_key_hashes(topics.filter(named), keys.filter(named))
        differing = places[expected != hashes[places]]
        if differing.size:
            place = int(differing[0])
            raise self._bad_row(
                batch,
                place,
                f"key_hash: expected {expected[places == place][0]}, the hash of topic and key, "
                f"got {hashes[place]}",
            )

    def _expand(
        self, batch: pa.RecordBatch
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        try:
            return self._expanded(batch)
        except ValueError as error:
            raise self._first_bad_message(batch) from error

    def _expanded(
        self, batch: pa.RecordBatch
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        topics, flags = self._column(batch, "topic"), self._optional(batch, "sys_flag")
        own = expand_messages(
            topics,
            self._optional(batch, "uniq_key"),
            self._optional(batch, "keys"),
            flags,
            self._tags(batch),
        )
        if not self.members:
            return own
        rows, ordinals, hashes = expand_messages(
            topics, None, self._column(batch, _MEMBER_KEYS), flags
        )
        # After the message's own keys.
        ordinals += np.bincount(own[0], minlength=batch.num_rows).astype(np.int32)[rows]
        own_rows, own_ordinals, own_hashes = own
        rows = np.concatenate([own_rows, rows])
        order = np.argsort(rows, kind="stable")
        return (
            rows[order],
            np.concatenate([own_ordinals, ordinals])[order],
            np.concatenate([own_hashes, hashes])[order],
        )

    def _tags(self, batch: pa.RecordBatch) -> pa.Array | None:
        if self.tags is None:
            return None
        return self.tags.masked(self._column(batch, _TAGS), self._column(batch, "phy_offset"))

    def _first_bad_message(self, batch: pa.RecordBatch) -> BadRowError:
        """Return the error of the first message that cannot be expanded, trying one by one."""
        for place in range(batch.num_rows):
            try:
                self._expanded(batch.slice(place, 1))
            except ValueError as error:
                for name in self.columns.keys() & _TEXTS:
                    self._refuse_bytes(batch.slice(place, 1), name)
                reason = str(error).replace(" at 0", "", 1)  # its index in a batch of one
                if reason.startswith("topics:"):  # the argument; the column has one for each row
                    reason = f"topic{reason.removeprefix('topics')}"
                return self._bad_row(batch, place, reason)
        raise AssertionError("a batch fails only where one of its rows does")

    def _bad_row(self, batch: pa.RecordBatch, place: int, reason: str) -> BadRowError:
        values = ", ".join(
            f"{name}={_text(batch.column(column)[place])}" for name, column in self.columns.items()
        )
        return BadRowError(f"{reason}, in the row ({values})")


def _check_type(label: str, name: str, data_type: DataType) -> None:
    if name not in _TYPES:
        return  # a column of load() that is not needed
    _, described = _TYPES[name]
    if not _fits(data_type, name):
        raise ValueError(
            f"column {label!r}: expected {described}, got {data_type.simpleString().upper()}"
        )


def _fits(data_type: DataType, name: str) -> bool:
    allowed, _ = _TYPES[name]
    element = data_type.elementType if isinstance(data_type, ArrayType) else StringType()
    return isinstance(data_type, allowed) and isinstance(element, StringType)


def _kind(columns: dict[str, int]) -> Literal["key", "hash", "message"]:
    for name in ("phy_offset", "store_timestamp"):
        if name not in columns:
            raise ValueError(f"column {name!r}: missing. Columns to write: {_SHAPES}")
    of_message = sorted(_MESSAGE_COLUMNS & columns.keys())
    of_entry = sorted({"key", "key_hash"} & columns.keys())
    if of_message and of_entry:
        raise ValueError(
            f"columns {of_message[0]!r} and {of_entry[0]!r}: expected a message or an entry, got "
            f"columns of both. Columns to write: {_SHAPES}"
        )
    if "key_hash" in columns:
        return "hash"
    if "topic" not in columns:
        raise ValueError(f"column 'topic': missing. Columns to write: {_SHAPES}")
    if "key" in columns:
        return "key"
    if {"uniq_key", "keys"} & columns.keys():
        return "message"
    raise ValueError(
        f"column 'key', 'uniq_key' or 'keys': all missing. Columns to write: {_SHAPES}"
    )


def _text(scalar: pa.Scalar) -> str:
    """Return a value as text: times outside Python's range as numbers, invalid UTF-8 as bytes."""
    if not scalar.is_valid:
        return "NULL"
    try:
        value = scalar.as_py()
    except UnicodeDecodeError:
        values = getattr(scalar, "values", None)
        if values is not None:
            return f"[{', '.join(map(_text, values))}]"
        return repr(scalar.as_buffer().to_pybytes())
    except (ValueError, OverflowError):
        return f"{scalar.cast(pa.int64()).as_py()} microseconds since 1970"
    return repr(value) if isinstance(value, (str, int, list)) else str(value)
