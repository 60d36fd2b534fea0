"""The formats of an export: columns in types that each can hold, and a file being written."""

from __future__ import annotations

import base64
import contextlib
import io
import json
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from rmqindex.layout.record import COMMITLOG_SCHEMA
from rmqindex.storage.disk import move_synced
from rmqindex.storage.writable import WritableFile

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any, BinaryIO

#: The columns of messages; the others repeat what ``properties`` holds.
DEFAULT_COLUMNS = tuple(
    name for name in COMMITLOG_SCHEMA.names if name not in {"all_uniq_keys", "all_keys"}
)
_TIMES = ("born_timestamp", "store_timestamp")
_TIME_TYPE = pa.timestamp("ms", "UTC")
# Rows and bytes that are held until they are written, as a row group of Parquet.
_GROUP_ROWS = 1 << 16
_GROUP_BYTES = 32 * 1024 * 1024


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


class _Encoder(Protocol):
    def write(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


class _Parquet:
    """Row groups, compressed by Zstandard."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        from pyarrow import parquet  # noqa: PLC0415  (other formats need none of it)

        self._writer = parquet.ParquetWriter(file, schema, compression="zstd", compression_level=1)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))

    def close(self) -> None:
        self._writer.close()


class _JsonLines:
    """A JSON object a line."""

    def __init__(self, file: BinaryIO, _schema: pa.Schema) -> None:
        self._file = file

    def write(self, table: pa.Table) -> None:
        lines = []
        for row in flat(table, nested=True).to_pylist():
            if row.get("body_base64") is not None:
                del row["body"]
            else:
                row.pop("body_base64", None)
            if "properties" in row:
                row["properties"] = dict(row["properties"])
            lines.append(json.dumps(row, ensure_ascii=False))
        self._file.write(("\n".join(lines) + "\n").encode())

    def close(self) -> None: ...


class _Csv:
    """Comma-separated values with a head, as RFC 4180 quotes them."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        from pyarrow import csv  # noqa: PLC0415  (other formats need none of it)

        head = flat(schema.empty_table(), nested=False)
        self._writer = csv.CSVWriter(file, head.schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(flat(table, nested=False))

    def close(self) -> None:
        self._writer.close()


_ENCODERS: dict[str, type[Any]] = {"parquet": _Parquet, "jsonl": _JsonLines, "csv": _Csv}
#: The formats, which are the ends of the names, too.
FORMATS = tuple(_ENCODERS)


class PartFile:
    """A file that is written; it appears under its own name when it is finished."""

    def __init__(self, path: Path, kind: str, schema: pa.Schema) -> None:
        """Create it, in place of any file of its name."""
        self.row_count = 0
        self._path = path
        path.unlink(missing_ok=True)
        self._file = WritableFile(path)
        self._buffer = io.BufferedWriter(self._file)
        self._encoder: _Encoder = _ENCODERS[kind](self._buffer, schema)
        self._held: list[pa.Table] = []
        self._held_rows = 0
        self._held_size = 0

    @property
    def size(self) -> int:
        """How many bytes were written, and about how many are held."""
        return self._buffer.tell() + self._held_size

    def write(self, table: pa.Table, limit: int) -> None:
        """Add rows."""
        self.row_count += table.num_rows
        self._held.append(table)
        self._held_rows += table.num_rows
        self._held_size += table.nbytes
        if self._held_rows >= _GROUP_ROWS or self._held_size >= _GROUP_BYTES or self.size >= limit:
            self._flush()

    def finish(self, path: Path) -> None:
        """Write what is held, sync the file to disk, and give it its own name."""
        self._flush()
        self._encoder.close()
        self._buffer.flush()
        self._file.sync()
        self._buffer.close()
        move_synced(self._path, path)

    def discard(self) -> None:
        """Remove the file."""
        # Arrow's writers write their ends when they are collected, unless they were closed.
        with contextlib.suppress(OSError, pa.ArrowException):
            self._encoder.close()
        with contextlib.suppress(OSError):
            self._buffer.close()
        self._path.unlink(missing_ok=True)

    def _flush(self) -> None:
        if self._held:
            self._encoder.write(pa.concat_tables(self._held))
            self._held = []
            self._held_rows = self._held_size = 0
