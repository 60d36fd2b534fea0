"""The data source of messages: ``spark.read.format("rmqcommitlog")``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["MessageSource"]


class MessageSource(DataSource):
    """The messages of an Apache RocketMQ CommitLog.

    Spark finds it by its name, with no registration.
    The options and the columns are in the documentation's tables.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rmqcommitlog"

    def schema(self) -> StructType:
        """Return every column.

        Raises:
            ValueError: An unknown option or a bad value.
        """
        from pyspark_rmqindex.options import message_schema_options
        from pyspark_rmqindex.schema import message_schema
        from pyspark_rmqindex.source.catalog import check_paths, created_options, with_options

        created = created_options(self.options)
        options = message_schema_options(self.options if created is None else created)
        check_paths(options.paths, created=created is not None)
        schema = message_schema(store=options.has_store, text=options.body_text)
        return schema if created is None else with_options(schema, created)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the requested columns.

        Raises:
            ValueError: An unknown option, a bad value, or a column that is not there.
        """
        from pyspark_rmqindex.messages.reader import MessageReader
        from pyspark_rmqindex.options import message_options
        from pyspark_rmqindex.schema import check_columns, message_schema
        from pyspark_rmqindex.source.catalog import check_paths, relation_options

        options = message_options(relation_options(schema, self.options))
        check_paths(options.paths)
        check_columns(schema, message_schema(store=True, text=True))
        reader: DataSourceReader = MessageReader(options, schema)
        return reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  (Spark's name)
        """Return the reader of a stream, which requires PySpark 4.2.

        If an option or a column is wrong, or PySpark is older, every method of the reader raises
        ``ValueError``.
        """
        from pyspark_rmqindex.options import message_stream_options
        from pyspark_rmqindex.schema import check_columns, message_schema
        from pyspark_rmqindex.source.catalog import check_paths, relation_options
        from pyspark_rmqindex.stream.refusal import (
            RefusedStream,
            check_spark_streams,
        )

        try:
            check_spark_streams()
            options = message_stream_options(relation_options(schema, self.options))
            check_paths(options.paths)
            check_columns(schema, message_schema(store=True, text=True))
        except ValueError as error:
            refused: DataSourceStreamReader = RefusedStream(error)
            return refused
        from pyspark_rmqindex.stream.messages import MessageStreamReader

        reader: DataSourceStreamReader = MessageStreamReader(options, schema)
        return reader
