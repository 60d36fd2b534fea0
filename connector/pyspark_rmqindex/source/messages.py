"""The data source of messages: ``spark.read.format("rmqcommitlog")``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark_rmqindex.source.read_only import ReadOnlySource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType


class MessageSource(ReadOnlySource):
    """The messages of an Apache RocketMQ CommitLog.

    Spark finds it by its name, with no registration.
    The options and the columns are in the documentation's tables.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rmqcommitlog"

    def schema(self) -> StructType:
        """Return every column."""
        from pyspark_rmqindex.options import message_schema_options
        from pyspark_rmqindex.schema import message_schema, select_columns
        from pyspark_rmqindex.source.catalog import check_paths, created_options, with_options

        created = created_options(self.options)
        raw = dict(self.options) if created is None else created
        options = message_schema_options(raw)
        if options.last_plan:
            from pyspark_rmqindex.read.plan_log import plan_schema

            return plan_schema(raw)
        check_paths(options.paths, created=created is not None)
        schema = select_columns(
            options.columns,
            message_schema(store=options.has_store, text=options.body_text),
            message_schema(store=True, text=True),
        )
        return schema if created is None else with_options(schema, created)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the requested columns."""
        from pyspark_rmqindex.messages.reader import MessageReader
        from pyspark_rmqindex.options import message_options
        from pyspark_rmqindex.read.filters import pass_distant_times
        from pyspark_rmqindex.read.plan_log import report_plan
        from pyspark_rmqindex.schema import Columns, check_columns, check_selected, message_schema
        from pyspark_rmqindex.source.catalog import check_paths, relation_options

        pass_distant_times()
        schema = Columns.of(schema)
        raw = relation_options(schema, self.options)
        options = message_options(raw)
        check_paths(options.paths)
        check_selected(schema, options.columns)
        check_columns(schema, message_schema(store=True, text=True))
        report = partial(report_plan, raw, options.log_level)
        reader: DataSourceReader = MessageReader(options, schema, report)
        return reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  (Spark's name)
        """Return the reader of a stream, which requires PySpark 4.2.

        If an option or a column is wrong, or PySpark is older, every method of the reader raises
        ``ValueError``.
        """
        from pyspark_rmqindex.options import message_stream_options
        from pyspark_rmqindex.schema import Columns, check_columns, check_selected, message_schema
        from pyspark_rmqindex.source.catalog import check_paths, relation_options
        from pyspark_rmqindex.stream.refusal import checked_stream

        schema = Columns.of(schema)

        def make() -> DataSourceStreamReader:
            options = message_stream_options(relation_options(schema, self.options))
            check_paths(options.paths)
            check_selected(schema, options.columns)
            check_columns(schema, message_schema(store=True, text=True))
            from pyspark_rmqindex.stream.messages import MessageStreamReader

            reader: DataSourceStreamReader = MessageStreamReader(options, schema)
            return reader

        return checked_stream(make)
