"""Python data sources that do no work: what Spark's transport alone costs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["FLOORS", "CountingWriter", "Floor", "load_floor"]

_BATCH = 65_536
_TEXT = "/data/store/index/20260101000000000"


class Floor(DataSource):
    """Hands out one prebuilt batch again and again; its writer only counts rows.

    Options: ``schema``, a DDL text; ``rows``, of the whole; ``partitions``.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format()``."""
        return "floor"

    def schema(self) -> str:
        """Return the schema asked for."""
        return self.options["schema"]

    def reader(self, schema: StructType | pa.Schema) -> FloorReader:
        """Return the reader."""
        return FloorReader(schema, int(self.options["rows"]), int(self.options["partitions"]))

    def writer(self, schema: StructType, overwrite: bool) -> CountingWriter:  # noqa: ARG002
        """Return the writer."""
        return CountingWriter()

    def streamWriter(self, schema: StructType, overwrite: bool) -> CountingStreamWriter:  # noqa: ARG002, N802
        """Return the writer of a stream."""
        return CountingStreamWriter()


class FloorReader(DataSourceReader):
    """Hands out one prebuilt batch again and again."""

    def __init__(self, schema: StructType | pa.Schema, rows: int, partitions: int) -> None:
        """Take the size of the whole."""
        self._schema = schema
        self._rows = rows
        self._partitions = partitions

    def partitions(self) -> list[InputPartition]:
        """Divide the rows evenly."""
        cuts = [self._rows * part // self._partitions for part in range(self._partitions + 1)]
        return [InputPartition(stop - start) for start, stop in itertools.pairwise(cuts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batch as often as needed."""
        schema = self._schema
        if not isinstance(schema, pa.Schema):  # as Sail hands it over
            schema = to_arrow_schema(schema, timezone="UTC")
        columns = []
        for field in schema:
            text = pa.types.is_string(field.type)
            value = pa.scalar(_TEXT) if text else pa.scalar(1, pa.int64()).cast(field.type)
            columns.append(pa.repeat(value, _BATCH))
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        left = partition.value
        while left > 0:
            yield batch if left >= _BATCH else batch.slice(0, left)
            left -= _BATCH


class CountingWriter(DataSourceArrowWriter):
    """Counts rows and throws them away."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Count the rows of one task."""
        rows = sum(batch.num_rows for batch in iterator)
        assert rows >= 0
        return WriterCommitMessage()


class CountingStreamWriter(DataSourceStreamArrowWriter):
    """Counts the rows of a micro-batch, and keeps none."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Count rows."""
        for _ in iterator:
            pass
        return WriterCommitMessage()


FLOORS = (Floor,)


def load_floor(like: DataFrame, rows: int, partitions: int = 1) -> DataFrame:
    """Return rows of the source that does no work, with the columns of another DataFrame."""
    schema = ", ".join(
        f"{field.name} {field.dataType.simpleString()}{'' if field.nullable else ' NOT NULL'}"
        for field in like.schema
    )
    return (
        like.sparkSession.read.format("floor")
        .option("schema", schema)
        .option("rows", str(rows))
        .option("partitions", str(partitions))
        .load()
    )
