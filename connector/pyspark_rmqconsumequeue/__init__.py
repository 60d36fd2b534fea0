"""Where Spark finds the format ``rmqconsumequeue``: it takes one data source from each module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark_rmqindex.spark_version import source_class

if TYPE_CHECKING:
    from pyspark_rmqindex.source.queues import QueueSource as DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:  # noqa: ANN401  (a module attribute can be anything)
    """Import the data source when it is asked for.

    Raises:
        ImportError: PySpark has no data sources in Python, or is not there.
    """
    if name == "DefaultSource":
        return source_class("source.queues", "QueueSource")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
