"""Structured Streaming: the sources of entries and of messages, and the index sink.

A batch is determined by its two offsets alone, so a restarted query runs the same batch again.
Offsets also hold what proves that the data before them is unchanged; lost or replaced data raises,
or is logged if ``failOnDataLoss`` is off.
The sink commits each batch exactly once, however often Spark runs it.
"""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from pyspark_rmqindex.stream.commit import StreamBatch as StreamBatch
    from pyspark_rmqindex.stream.entries import IndexStreamReader as IndexStreamReader
    from pyspark_rmqindex.stream.messages import MessageStreamReader as MessageStreamReader
    from pyspark_rmqindex.stream.writer import IndexStreamWriter as IndexStreamWriter
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
