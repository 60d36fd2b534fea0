"""Where Spark finds the format ``rmqcommitlog``: it takes one data source from each module."""

from __future__ import annotations

from pyspark_rmqindex._message_source import MessageSource as DefaultSource

__all__ = ["DefaultSource"]
