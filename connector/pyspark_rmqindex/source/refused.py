"""The data sources on a PySpark that is too old for them: each says so when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pyspark_rmqindex.spark_version import check_spark

if TYPE_CHECKING:
    from collections.abc import MutableMapping

__all__ = ["DefaultSource", "MessageSource", "QueueSource"]


class _RefusedSource(DataSource):
    """Cannot be made, so that reading, writing and streams are refused alike."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Raise.

        Args:
            options: As the user gave them.

        Raises:
            ImportError: Always: this PySpark is too old.
        """
        check_spark()
        super().__init__(options)


class DefaultSource(_RefusedSource):
    """Stands for the IndexFiles."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rmqindex"


class MessageSource(_RefusedSource):
    """Stands for the messages of a CommitLog."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rmqcommitlog"


class QueueSource(_RefusedSource):
    """Stands for the units of ConsumeQueues."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rmqconsumequeue"
