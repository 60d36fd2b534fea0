"""The data source of ConsumeQueues: ``spark.read.format("rmqconsumequeue")``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_rmqindex.source.read_only import ReadOnlySource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType


class QueueSource(ReadOnlySource):
    """The units of Apache RocketMQ ConsumeQueues: where each queue's messages are in the log.

    Spark finds it by its name, with no registration.
    ``load`` takes a store, its ``consumequeue`` directory, or one below, or several, with patterns.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rmqconsumequeue"

    def schema(self) -> StructType:
        """Return every column."""
        from pyspark_rmqindex.options import queue_options
        from pyspark_rmqindex.schema import queue_schema, select_columns
        from pyspark_rmqindex.source.catalog import check_paths, created_options, with_options

        created = created_options(self.options)
        options = queue_options(self.options if created is None else created)
        check_paths(options.paths, created=created is not None)
        schema = select_columns(
            options.columns, queue_schema(store=options.has_store), queue_schema(store=True)
        )
        return schema if created is None else with_options(schema, created)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the requested columns."""
        from pyspark_rmqindex.messages.queues import QueueReader
        from pyspark_rmqindex.options import queue_options
        from pyspark_rmqindex.read.filters import pass_distant_times
        from pyspark_rmqindex.schema import Columns, check_columns, check_selected, queue_schema
        from pyspark_rmqindex.source.catalog import check_paths, relation_options

        pass_distant_times()
        schema = Columns.of(schema)
        options = queue_options(relation_options(schema, self.options))
        check_paths(options.paths)
        check_selected(schema, options.columns)
        check_columns(schema, queue_schema(store=True))
        reader: DataSourceReader = QueueReader(options, schema)
        return reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return a reader of which every method raises: units are not streamed."""
        from pyspark_rmqindex.stream.refusal import RefusedStream

        return RefusedStream(
            ValueError(
                "readStream: the format rmqconsumequeue is not streamed; load it with spark.read, "
                "or follow the messages with the format rmqcommitlog, which have queue_id and "
                "queue_offset"
            )
        )
