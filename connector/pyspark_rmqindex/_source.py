"""The data source itself: ``spark.read.format("rmqindex")`` and ``df.write.format("rmqindex")``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from pyspark_rmqindex._options import read_options, wants_pushdown
from pyspark_rmqindex._schema import check_columns, check_schema, finding_schema, full_schema
from pyspark_rmqindex._stream_options import schema_options, stream_options

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from pyspark.sql.types import StructType

    from pyspark_rmqindex._options import ReadOptions

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Apache RocketMQ IndexFiles.

    Spark finds it by its name, with no registration.
    The options are in the documentation's table; the columns are ``key_hash INT``,
    ``phy_offset BIGINT``, ``store_timestamp TIMESTAMP``, ``time_diff INT``, ``slot INT``,
    ``position INT``, ``prev_position INT``, ``file_path STRING``, and before them
    ``topic STRING`` and ``key STRING`` where keys are looked up, or known from a CommitLog; this
    also gives ``match_state STRING`` and the columns of the message.
    Where several stores may be read, ``store STRING`` tells them apart.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Keep the options; runs once for each ``load()``, and is pickled along from there.

        So this is where the identity of a relation is made under which its plans are widened.

        Args:
            options: As the user gave them; they are checked later, where an error is shown.
        """
        super().__init__(options)
        self._relation_state: str | None = None
        if wants_pushdown(options):
            from pyspark_rmqindex._pushdown_state import create_state  # noqa: PLC0415

            self._relation_state = create_state()

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rmqindex"

    def schema(self) -> StructType:
        """Return every column that the options make known.

        Raises:
            ValueError: An unknown option or a bad value.
        """
        options = schema_options(self.options)
        if options.last_plan:
            from pyspark_rmqindex._record import plan_schema  # noqa: PLC0415

            return plan_schema(self.options)
        # A catalog's CREATE TABLE asks for the columns before there is a path.
        if "provider" not in self.options:
            _check_paths(options)
        if options.audit:
            return finding_schema()
        return full_schema(
            keys=options.has_keys,
            log=options.has_log,
            message=options.message,
            store=options.has_store,
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the requested columns.

        Raises:
            ValueError: An unknown option, a bad value, or a column that is not there.
        """
        # Heavy imports stay out of the modules that Spark loads to list data sources.
        from pyspark_rmqindex._reader import IndexReader, PushdownReader  # noqa: PLC0415

        options = read_options(self.options)
        if options.audit:
            from pyspark_rmqindex._audit import AuditReader  # noqa: PLC0415

            check_columns(schema, finding_schema())
            _check_paths(options)
            return AuditReader(options, schema)
        check_schema(schema, keys=options.has_keys, log=options.has_log)
        _check_paths(options)
        if not options.pushdown:
            return IndexReader(options, schema, dict(self.options))
        from pyspark_rmqindex._literals import explain_distant_times  # noqa: PLC0415

        explain_distant_times()
        return PushdownReader(options, schema, dict(self.options), self._relation_state)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  (Spark's name)
        """Return the reader of a stream; PySpark 4.2 and later have all that it needs.

        It raises a ``ValueError`` when it is asked for anything, where an option or a column is
        wrong, or PySpark is older.
        """
        from pyspark_rmqindex._stream_refusal import (  # noqa: PLC0415
            RefusedStream,
            check_spark_streams,
        )

        try:
            check_spark_streams()
            options = stream_options(self.options)
            check_schema(schema, keys=options.read.has_keys, log=options.read.has_log)
            _check_paths(options.read)
        except ValueError as error:
            refused: DataSourceStreamReader = RefusedStream(error)
            return refused
        from pyspark_rmqindex._stream_reader import IndexStreamReader  # noqa: PLC0415

        reader: DataSourceStreamReader = IndexStreamReader(options, schema)
        return reader

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer.

        Raises:
            ValueError: An unknown option, a bad value, or columns that cannot be indexed.
        """
        from pyspark_rmqindex._writer import IndexWriter  # noqa: PLC0415

        writer: DataSourceWriter = IndexWriter(schema, overwrite, self.options)
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return the writer of a stream.

        Raises:
            ValueError: An unknown option, a bad value, an output mode other than ``append``, or
                columns that cannot be indexed.
        """
        from pyspark_rmqindex._stream_writer import IndexStreamWriter  # noqa: PLC0415

        writer: DataSourceStreamWriter = IndexStreamWriter(schema, overwrite, self.options)
        return writer


def _check_paths(options: ReadOptions) -> None:
    if not options.paths:
        raise ValueError("option 'path': expected a path, in load() or as an option, got none")
