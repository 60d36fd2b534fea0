"""Sound records as Arrow columns, of which only the requested ones are decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rmqindex.layout.record import (
    BODY_CRC_OFFSET,
    BORN_HOST_OFFSET,
    BORN_HOST_V6_FLAG,
    BORN_TIMESTAMP_OFFSET,
    COMMITLOG_SCHEMA,
    FLAG_OFFSET,
    PREPARED_TRANSACTION_OFFSET_OFFSET,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    QUEUE_ID_OFFSET,
    QUEUE_OFFSET_OFFSET,
    RECONSUME_TIMES_OFFSET,
    STORE_HOST_OFFSET,
    STORE_HOST_V6_FLAG,
    STORE_TIMESTAMP_OFFSET,
)
from rmqindex.record.message_ids import host_texts, offset_message_ids
from rmqindex.record.properties import PropertyPairs
from rmqindex.record.records import gather
from rmqindex.record.text import cut, java_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rmqindex.record.records import Records

_FIXED = {
    "queue_id": (QUEUE_ID_OFFSET, "i4"),
    "flag": (FLAG_OFFSET, "i4"),
    "body_crc": (BODY_CRC_OFFSET, "i4"),
    "queue_offset": (QUEUE_OFFSET_OFFSET, "i8"),
    "born_timestamp": (BORN_TIMESTAMP_OFFSET, "i8"),
}
_BEHIND_HOSTS = {
    "reconsume_times": (RECONSUME_TIMES_OFFSET, "i4"),
    "prepared_transaction_offset": (PREPARED_TRANSACTION_OFFSET_OFFSET, "i8"),
}
_LAST_VALUES = {"uniq_key": PROPERTY_UNIQ_KEY, "keys": PROPERTY_KEYS, "tags": PROPERTY_TAGS}
_ALL_VALUES = {"all_uniq_keys": PROPERTY_UNIQ_KEY, "all_keys": PROPERTY_KEYS}
_PROPERTY_COLUMNS = {*_LAST_VALUES, *_ALL_VALUES, "properties"}


def schema_of(columns: Sequence[str] | None, also: Sequence[str] = ()) -> pa.Schema:
    """Return the fields of ``COMMITLOG_SCHEMA`` of these names, in this order; all for None.

    ``also`` are names that its caller takes besides.
    """
    if columns is None:
        return COMMITLOG_SCHEMA
    if isinstance(columns, str):
        raise TypeError(f"columns: expected a sequence of names, got {columns!r}")
    if not columns:
        raise ValueError("columns: expected at least one name, since Arrow counts rows by columns")
    for name in columns:
        if name not in COMMITLOG_SCHEMA.names:
            known = ", ".join([*COMMITLOG_SCHEMA.names, *also])
            raise ValueError(f"columns: expected names of {known}, got {name!r}")
    if len(set(columns)) != len(columns):
        raise ValueError(f"columns: expected each once, got {', '.join(columns)}")
    return pa.schema([COMMITLOG_SCHEMA.field(name) for name in columns])


def build_batch(
    records: Records, schema: pa.Schema, property_names: Sequence[bytes] | None = None
) -> pa.RecordBatch:
    """Decode records into the columns of a schema."""
    if not len(records):
        return pa.RecordBatch.from_pylist([], schema=schema)
    pairs: PropertyPairs | None = None
    if not _PROPERTY_COLUMNS.isdisjoint(schema.names):
        fields = cut(records.data, records.properties_start, records.properties_stop)
        pairs = PropertyPairs.split(fields)
    arrays = [_column(records, pairs, field, property_names) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def one_chunk(column: pa.ChunkedArray, name: str) -> pa.Array:
    """Return a column that was taken from batches in one piece."""
    if column.num_chunks > 1:
        raise ValueError(f"offsets: expected fewer at a time, {name} is beyond 2 GiB together")
    return column.chunk(0) if column.num_chunks else pa.nulls(0, column.type)


def _column(
    records: Records,
    pairs: PropertyPairs | None,
    field: pa.Field,
    property_names: Sequence[bytes] | None,
) -> pa.Array:
    name = field.name
    if pairs is not None and name in _PROPERTY_COLUMNS:
        return _property_column(pairs, field, property_names)
    if name == "topic":
        return java_texts(cut(records.data, records.topic_start, records.topic_stop))
    if name == "body":
        return cut(records.data, records.body_start, records.body_stop)
    if name in ("born_host", "store_host", "msg_id"):
        return _host_column(records, name)
    return pa.array(_numbers(records, name), field.type)


def _property_column(
    pairs: PropertyPairs, field: pa.Field, names: Sequence[bytes] | None
) -> pa.Array:
    if field.name in _LAST_VALUES:
        return pairs.last(_LAST_VALUES[field.name])
    if field.name in _ALL_VALUES:
        return pairs.all(_ALL_VALUES[field.name], field.type)
    return (pairs if names is None else pairs.of_names(names)).maps(field.type)


def _numbers(records: Records, name: str) -> Any:  # noqa: ANN401  (arrays of several dtypes)
    if name in _FIXED:
        offset, dtype = _FIXED[name]
        return gather(records.data, records.starts + offset, dtype)
    if name in _BEHIND_HOSTS:
        offset, dtype = _BEHIND_HOSTS[name]
        return gather(records.data, records.starts + records.extra + offset, dtype)
    if name == "store_timestamp":
        return store_timestamps(records)
    return getattr(records, name)


def store_timestamps(records: Records) -> NDArray[np.int64]:
    """Return the store timestamp of each record, epoch milliseconds."""
    places = records.starts + records.born_extra + STORE_TIMESTAMP_OFFSET
    return gather(records.data, places, "i8")


def _host_column(records: Records, name: str) -> pa.Array:
    if name == "born_host":
        is_v6 = (records.sys_flag & BORN_HOST_V6_FLAG) != 0
        return host_texts(records.data, records.starts + BORN_HOST_OFFSET, is_v6)
    is_v6 = (records.sys_flag & STORE_HOST_V6_FLAG) != 0
    starts = records.starts + records.born_extra + STORE_HOST_OFFSET
    if name == "store_host":
        return host_texts(records.data, starts, is_v6)
    return offset_message_ids(records.data, starts, is_v6, records.phy_offset)
