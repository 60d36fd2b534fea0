"""Streams that end by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

_RESTARTS = 9


def is_impatience(failure: object) -> bool:
    """Tell whether Spark gave up on Python, for which it waits ten seconds on any machine."""
    return "Python worker failed to connect back" in str(failure)


def run_to_end(writer: DataStreamWriter, path: object = None) -> StreamingQuery:
    """Run a stream until nothing is new; start it again where Spark was impatient.

    Args:
        writer: The stream.
        path: Where it writes to, if its sink has a path.
    """
    for restarts_left in reversed(range(_RESTARTS + 1)):
        query = writer.trigger(availableNow=True).start(path and str(path))
        try:
            query.awaitTermination()
        except StreamingQueryException as failure:
            if not restarts_left or not is_impatience(failure):
                raise
        else:
            break
    return query
