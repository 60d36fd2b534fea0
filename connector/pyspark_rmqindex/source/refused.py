"""The data sources if PySpark is too old: using one raises an error that says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pyspark_rmqindex.spark_version import check_spark

if TYPE_CHECKING:
    from collections.abc import MutableMapping


class _RefusedSource(DataSource):
    """Raises when created, so that reading, writing and streaming all fail with the reason."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Raise the error."""
        check_spark()
        super().__init__(options)


class DefaultSource(_RefusedSource):
    """The source of IndexFiles."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rmqindex"


class MessageSource(_RefusedSource):
    """The source of CommitLog messages."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rmqcommitlog"


class QueueSource(_RefusedSource):
    """The source of ConsumeQueue units."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rmqconsumequeue"
