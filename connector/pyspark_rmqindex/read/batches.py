"""Turns entries into RecordBatches of exactly the Arrow schema that Spark asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pyspark_rmqindex.files.stores import store_of
from pyspark_rmqindex.schema import (
    ENTRY_COLUMNS,
    KEY_COLUMNS,
    STORE_COLUMN,
    arrow_schema,
    check_not_null,
)
from rmqindex import CorruptIndexError
from rmqindex.layout import BEGIN_TIMESTAMP_OFFSET
from rmqindex.storage import path_text
from rmqindex.times import LAST_MILLISECOND, to_microseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql.types import StructType

    from rmqindex.messagestore import Range
    from rmqindex.storage import Location

# The most rows in a batch; larger batches do not fit into the processor's cache.
MAX_ROWS = 65_536

_MAX_BYTES = 64 * 1024 * 1024

_FILE_PATH = "file_path"
_STORE_TIMESTAMP = "store_timestamp"


class BatchBuilder:
    """Builds the batches of one task."""

    def __init__(self, schema: StructType) -> None:
        """Prepare to build the requested columns."""
        # Spark requires every batch to have exactly this schema.
        self._schema = arrow_schema(schema)
        self._names = [field.name.lower() for field in schema.fields]
        #: The Arrow types of the requested columns, by their names in lower case.
        self.types = pa.schema(
            [
                pa.field(name, field.type)
                for name, field in zip(self._names, self._schema, strict=True)
            ]
        )
        self.entry_columns = [
            name for name in self._names if name in ENTRY_COLUMNS and name != _FILE_PATH
        ]
        self._texts: dict[str, tuple[str, pa.Array]] = {}

    def build(
        self,
        entries: pa.RecordBatch,
        file_path: Location,
        keys: dict[str, pa.Array] | None = None,
    ) -> pa.RecordBatch:
        """Build one batch."""
        arrays = []
        for name, field in zip(self._names, self._schema, strict=True):
            if name == _FILE_PATH:
                array = self._repeat(name, file_path, entries.num_rows)
            elif name == STORE_COLUMN:
                array = self._repeat(name, store_of(file_path), entries.num_rows)
            elif keys and name in KEY_COLUMNS:
                array = keys[name]
            elif name == _STORE_TIMESTAMP:
                array = _to_timestamps(entries.column(name), file_path, field.type)
            else:
                array = entries.column(name)
            arrays.append(array)
        check_not_null(self._schema, arrays)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _repeat(self, name: str, text: str, count: int) -> pa.Array:
        """Return a column of one repeated text, cached because most batches are equally long."""
        cached, repeated = self._texts.get(name, ("", None))
        if repeated is None or cached != text or len(repeated) < count:
            repeated = pa.repeat(path_text(text), max(count, min(MAX_ROWS, 2 * count)))
            self._texts[name] = (text, repeated)
        return repeated.slice(0, count) if len(repeated) != count else repeated


def _to_timestamps(milliseconds: pa.Array, file_path: str, type_: pa.DataType) -> pa.Array:
    values = milliseconds.to_numpy()
    micros, beyond = to_microseconds(values)
    if beyond is not None:
        raise CorruptIndexError(
            file_path,
            "begin_timestamp",
            BEGIN_TIMESTAMP_OFFSET,
            f"store times within {LAST_MILLISECOND} ms of 1970, the range of TIMESTAMP",
            int(values[np.flatnonzero(beyond)[0]]),
        )
    return pa.array(micros).view(type_)


def keep(entries: pa.RecordBatch, ranges: dict[str, Range]) -> Iterator[pa.RecordBatch]:
    """Drop the entries outside any of the ranges, and split the rest into batches."""
    mask: NDArray[np.bool_] | None = None
    for name, bounds in ranges.items():
        values = entries.column(name).to_numpy()
        for outside in _outside(values, bounds):
            mask = ~outside if mask is None else mask & ~outside
    if mask is not None and not mask.all():
        entries = entries.take(pa.array(np.flatnonzero(mask)))
    for start in range(0, entries.num_rows, MAX_ROWS):
        yield entries.slice(start, MAX_ROWS)


def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Combine small batches, such as those of many small files, into fewer large ones."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    size = 0
    for batch in batches:
        if pending and (rows + batch.num_rows > MAX_ROWS or size + batch.nbytes > _MAX_BYTES):
            yield concatenate(pending)
            pending, rows, size = [], 0, 0
        if batch.num_rows:
            pending.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
    if pending:
        yield concatenate(pending)


def concatenate(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate batches."""
    if len(batches) == 1:
        return batches[0]
    # pa.concat_batches came with PyArrow 19.
    columns = zip(*(batch.columns for batch in batches), strict=True)
    arrays = [pa.concat_arrays(parts) for parts in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=batches[0].schema)


def _outside(values: NDArray[np.integer[Any]], bounds: Range) -> Sequence[NDArray[np.bool_]]:
    """Return masks of the values below and above; a bound that nothing can pass gives none."""
    limits = np.iinfo(values.dtype)
    masks = []
    if bounds.low is not None and bounds.low > limits.min:
        low = min(bounds.low, int(limits.max))
        masks.append(values < low if low == bounds.low else np.ones(len(values), np.bool_))
    if bounds.high is not None and bounds.high < limits.max:
        high = max(bounds.high, int(limits.min))
        masks.append(values > high if high == bounds.high else np.ones(len(values), np.bool_))
    return masks
