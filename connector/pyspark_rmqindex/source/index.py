"""The data source itself: ``spark.read.format("rmqindex")`` and ``df.write.format("rmqindex")``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Apache RocketMQ IndexFiles.

    Spark finds it by its name, with no registration.
    The options are in the documentation's table; the columns are ``key_hash INT``,
    ``phy_offset BIGINT``, ``store_timestamp TIMESTAMP``, ``time_diff INT``, ``slot INT``,
    ``position INT``, ``prev_position INT`` and ``file_path STRING``.
    If keys are looked up or known from a CommitLog, ``topic STRING`` and ``key STRING`` come first.
    A CommitLog also adds ``match_state STRING`` and the columns of the message.
    If the paths may name several stores, ``store STRING`` is added.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Store the options; runs once for each ``load()``, and then the object is pickled."""
        from pyspark_rmqindex.read.plan_leak import new_relation_state

        super().__init__(options)
        self._relation_state = new_relation_state(options)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rmqindex"

    def schema(self) -> StructType:
        """Return all columns that the options provide."""
        from pyspark_rmqindex.options import schema_options, wants_pushdown
        from pyspark_rmqindex.schema import entry_schema, finding_schema, select_columns
        from pyspark_rmqindex.source.catalog import check_paths, created_options, with_options
        from pyspark_rmqindex.spark_version import check_pushdown_support

        created = created_options(self.options)
        raw = dict(self.options) if created is None else created
        if wants_pushdown(raw):
            check_pushdown_support("option 'pushdown'")
        options = schema_options(raw)
        if options.last_plan:
            from pyspark_rmqindex.read.plan_log import plan_schema

            return plan_schema(raw)
        check_paths(options.paths, created=created is not None)
        if options.audit:
            schema = select_columns(options.columns, finding_schema(), finding_schema())
        else:
            schema = entry_schema(
                options.columns,
                keys=options.has_keys,
                log=options.has_log,
                message=options.message,
                store=options.has_store,
                text=options.body_text,
            )
        keeps_options = created is not None or (options.pushdown and "relation" not in raw)
        if keeps_options:
            return with_options(schema, raw)
        if self._relation_state is not None:
            from pyspark_rmqindex.read.plan_leak import drop_state

            schema.when_taken = partial(drop_state, self._relation_state)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the requested columns."""
        from pyspark_rmqindex.options import read_options
        from pyspark_rmqindex.read.filters import pass_distant_times
        from pyspark_rmqindex.read.plan_leak import drop_state, is_of_table, without_pushdown
        from pyspark_rmqindex.read.plan_leak_reader import SharedPlanReader
        from pyspark_rmqindex.read.reader import IndexReader, PushdownReader
        from pyspark_rmqindex.schema import (
            Columns,
            check_columns,
            check_schema,
            check_selected,
            finding_schema,
        )
        from pyspark_rmqindex.source.catalog import (
            check_paths,
            check_pushdown,
            relation_options,
        )
        from pyspark_rmqindex.spark_version import check_pushdown_support, plans_each_scan

        pass_distant_times()
        schema = Columns.of(schema)
        # Only Spark shares plans and options between scans, and only it asks by its own types.
        is_spark = getattr(schema, "asked", None) is None
        raw = relation_options(schema, self.options)
        options = read_options(raw)
        check_paths(options.paths)
        check_selected(schema, options.columns)
        if options.audit:
            from pyspark_rmqindex.read.audit import AuditReader

            check_columns(schema, finding_schema())
            return AuditReader(options, schema)
        check_schema(schema, keys=options.has_keys, log=options.has_log)
        if not options.pushdown:
            return IndexReader(options, schema, raw)
        check_pushdown_support("option 'pushdown'")
        if is_spark:
            check_pushdown(schema, raw)
        if plans_each_scan() or not is_spark:
            drop_state(self._relation_state)
            return PushdownReader(options, schema, raw)
        if not is_of_table(raw):
            return IndexReader(without_pushdown(options, raw), schema, raw)
        return SharedPlanReader(options, schema, raw, self._relation_state)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  (Spark's name)
        """Return the reader of a stream, which requires PySpark 4.2.

        If an option or a column is wrong, or PySpark is older, every method of the reader raises
        ``ValueError``.
        """
        from pyspark_rmqindex.options import stream_options
        from pyspark_rmqindex.schema import Columns, check_schema, check_selected
        from pyspark_rmqindex.source.catalog import check_paths, relation_options
        from pyspark_rmqindex.stream.refusal import checked_stream

        schema = Columns.of(schema)

        def make() -> DataSourceStreamReader:
            options = stream_options(relation_options(schema, self.options))
            check_paths(options.paths)
            check_selected(schema, options.columns)
            check_schema(schema, keys=options.has_keys, log=options.has_log)
            from pyspark_rmqindex.stream.entries import IndexStreamReader

            reader: DataSourceStreamReader = IndexStreamReader(options, schema)
            return reader

        return checked_stream(make)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer."""
        from pyspark_rmqindex.schema import Columns
        from pyspark_rmqindex.write.job import IndexWriter

        writer: DataSourceWriter = IndexWriter(Columns.of(schema), overwrite, self.options)
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return the writer of a stream."""
        from pyspark_rmqindex.stream.refusal import check_spark_stream_writers

        check_spark_stream_writers()
        from pyspark_rmqindex.schema import Columns
        from pyspark_rmqindex.stream.writer import IndexStreamWriter

        writer: DataSourceStreamWriter = IndexStreamWriter(
            Columns.of(schema), overwrite, self.options
        )
        return writer
