"""The data source of ConsumeQueues: ``spark.read.format("rmqconsumequeue")``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader

from pyspark_rmqindex._options import queue_options
from pyspark_rmqindex._schema import check_columns, queue_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_rmqindex._options import QueueOptions

__all__ = ["QueueSource"]


class QueueSource(DataSource):
    """The units of Apache RocketMQ ConsumeQueues: where each queue's messages are in the log.

    Spark finds it by its name, with no registration.
    ``load`` takes a store, its ``consumequeue`` directory, or one below.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rmqconsumequeue"

    def schema(self) -> StructType:
        """Return every column.

        Raises:
            ValueError: An unknown option or a bad value.
        """
        options = queue_options(self.options)
        # A catalog's CREATE TABLE asks for the columns before there is a path.
        if "provider" not in self.options:
            _check_paths(options)
        return queue_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the requested columns.

        Raises:
            ValueError: An unknown option, a bad value, or a column that is not there.
        """
        # Heavy imports stay out of the modules that Spark loads to list data sources.
        from pyspark_rmqindex._queue_reader import QueueReader  # noqa: PLC0415

        options = queue_options(self.options)
        check_columns(schema, queue_schema())
        _check_paths(options)
        reader: DataSourceReader = QueueReader(options, schema)
        return reader


def _check_paths(options: QueueOptions) -> None:
    if not options.paths:
        raise ValueError("option 'path': expected a path, in load() or as an option, got none")
