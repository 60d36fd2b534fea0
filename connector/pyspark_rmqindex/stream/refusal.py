"""A reader for a stream that cannot run, which says why.

PySpark 4.3 hides an error from ``streamReader`` behind one of its own: its runner stops, in a
``finally``, a reader that was never created.
So this reader can be created, and every method of it raises.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceStreamReader

from pyspark_rmqindex.spark_version import later_spark_needed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.datasource import InputPartition


def checked_stream(make: Callable[[], DataSourceStreamReader]) -> DataSourceStreamReader:
    """Return a reader, or one that raises what is wrong with its options or with this PySpark."""
    try:
        _check_spark_streams()
        return make()
    except ValueError as error:
        return RefusedStream(error)


def _check_spark_streams() -> None:
    """Raise unless this PySpark supports limits and triggers in Python streams."""
    if find_spec("pyspark.sql.streaming.datasource") is None:
        raise ValueError(
            later_spark_needed(
                "readStream",
                "4.2",
                "load with spark.read and beginTimestamp instead, on a schedule",
            )
        )


def check_spark_stream_writers() -> None:
    """Raise unless this PySpark passes Arrow batches to the writers of Python streams."""
    if not hasattr(datasource, "DataSourceStreamArrowWriter"):
        raise ValueError(
            later_spark_needed(
                "writeStream",
                "4.1",
                "write each batch: foreachBatch(lambda df, _: "
                "df.write.format('rmqindex').mode('append').save(path))",
            )
        )


class RefusedStream(DataSourceStreamReader):
    """The reader of a stream whose options or columns are wrong, or that PySpark cannot run."""

    def __init__(self, error: ValueError) -> None:
        """Store the error."""
        self._error = error

    def initialOffset(self) -> NoReturn:  # noqa: N802  (Spark's name)
        """Raise the error."""
        raise self._error

    def latestOffset(self, *_: object, **__: object) -> NoReturn:  # noqa: N802
        """Raise the error; PySpark 4.0 and 4.1 pass fewer arguments than later versions."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:  # noqa: ARG002
        """Raise the error."""
        raise self._error

    def read(self, partition: InputPartition) -> NoReturn:  # noqa: ARG002
        """Raise the error."""
        raise self._error
