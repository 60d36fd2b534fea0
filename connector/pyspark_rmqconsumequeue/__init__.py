"""Where Spark finds the format ``rmqconsumequeue``: it takes one data source from each module."""

from __future__ import annotations

from pyspark_rmqindex._queue_source import QueueSource as DefaultSource

__all__ = ["DefaultSource"]
