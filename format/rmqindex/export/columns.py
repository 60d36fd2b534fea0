"""The columns of an export, in types that each format can hold."""

from __future__ import annotations

import base64
import json

import pyarrow as pa

from rmqindex.record_layout import COMMITLOG_SCHEMA

__all__ = ["DEFAULT_COLUMNS", "as_table", "flat"]

#: The columns of messages; the others repeat what ``properties`` holds.
DEFAULT_COLUMNS = tuple(
    name for name in COMMITLOG_SCHEMA.names if name not in {"all_uniq_keys", "all_keys"}
)
_TIMES = ("born_timestamp", "store_timestamp")
_TIME_TYPE = pa.timestamp("ms", "UTC")


def as_table(rows: pa.RecordBatch | pa.Table) -> pa.Table:
    """Return rows as a table whose times are timestamps."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    for name in _TIMES:
        place = table.schema.get_field_index(name)
        if place >= 0:
            column = table.column(place).cast(_TIME_TYPE)
            field = table.schema.field(place).with_type(_TIME_TYPE)
            table = table.set_column(place, field, column)
    return table


def flat(table: pa.Table, *, nested: bool) -> pa.Table:
    """Return a table that a text format can hold.

    Bodies that are UTF-8 stay in ``body``; the others are in ``body_base64``. Times are epoch
    milliseconds.
    """
    for name in table.column_names:
        place = table.schema.get_field_index(name)
        column = table.column(place)
        if name in _TIMES:
            table = table.set_column(place, name, column.cast(pa.int64()))
        elif name == "body":
            texts, encoded = _texts(column)
            table = table.set_column(place, name, texts)
            table = table.add_column(place + 1, "body_base64", encoded)
        elif pa.types.is_nested(column.type) and not nested:
            values = [
                json.dumps(
                    dict(value) if pa.types.is_map(column.type) else value, ensure_ascii=False
                )
                for value in column.to_pylist()
            ]
            table = table.set_column(place, name, pa.array(values, pa.string()))
    return table


def _texts(bodies: pa.ChunkedArray) -> tuple[pa.ChunkedArray | pa.Array, pa.Array]:
    """Return bodies that are UTF-8, and the others in Base64; null in the other of the two."""
    try:
        return bodies.cast(pa.string()), pa.nulls(len(bodies), pa.string())
    except pa.ArrowInvalid:
        pass
    texts: list[str | None] = []
    encoded: list[str | None] = []
    for body in bodies.to_pylist():
        text: str | None = None
        if body is not None:
            try:
                text = body.decode()
            except UnicodeDecodeError:
                texts.append(None)
                encoded.append(base64.b64encode(body).decode())
                continue
        texts.append(text)
        encoded.append(None)
    return pa.array(texts, pa.string()), pa.array(encoded, pa.string())
