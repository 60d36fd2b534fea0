"""A stream that cannot be, and says why.

PySpark 4.3 hides what ``streamReader`` raises behind an error of its own: its runner stops, in a
``finally``, a reader that was never made.
So the reader is made, and raises as soon as it is asked for anything.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition

__all__ = ["RefusedStream", "check_spark_streams"]


def check_spark_streams() -> None:
    """See to it that this PySpark gives streams of Python their limits and triggers.

    Raises:
        ValueError: It is older than 4.2.
    """
    if find_spec("pyspark.sql.streaming.datasource") is None:
        raise ValueError(f"readStream: expected PySpark 4.2 or later, got {pyspark.__version__}")


class RefusedStream(DataSourceStreamReader):
    """The reader of a stream whose options or columns are wrong, or that PySpark cannot run."""

    def __init__(self, error: ValueError) -> None:
        """Keep the error.

        Args:
            error: What is wrong.
        """
        self._error = error

    def initialOffset(self) -> NoReturn:  # noqa: N802  (Spark's name)
        """Raise the error."""
        raise self._error

    def latestOffset(self, *_: object, **__: object) -> NoReturn:  # noqa: N802
        """Raise the error; PySpark 4.1 calls it without what later ones give."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:  # noqa: ARG002
        """Raise the error."""
        raise self._error

    def read(self, partition: InputPartition) -> NoReturn:  # noqa: ARG002
        """Raise the error."""
        raise self._error
