"""The data sources in a session that has not found them by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from pyspark_rmqindex.source.index import DefaultSource
from pyspark_rmqindex.source.messages import MessageSource
from pyspark_rmqindex.source.queues import QueueSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register_sources"]

_FOUND = "DATA_SOURCE_ALREADY_EXISTS"


def register_sources(spark: SparkSession) -> None:
    """Register ``rmqindex``, ``rmqcommitlog`` and ``rmqconsumequeue`` where Spark has not.

    Spark looks for data sources in what is installed for the driver's Python, and not in the
    archives of ``--py-files``.

    Args:
        spark: The session.
    """
    for source in (DefaultSource, MessageSource, QueueSource):
        try:
            spark.dataSource.register(source)
        except PySparkException as error:
            # Those which Spark has found cannot be replaced.
            if error.getCondition() != _FOUND:
                raise
