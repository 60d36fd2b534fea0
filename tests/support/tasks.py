"""Tasks of Spark, played in this process."""

from __future__ import annotations

import contextlib
import uuid
from unittest import mock

from pyspark import TaskContext

__all__ = ["in_batch"]


@contextlib.contextmanager
def in_batch(query, number):
    """Have the block be in a task of a batch of a streaming query."""
    properties = {"sql.streaming.queryId": query, "streaming.sql.batchId": str(number)}
    context = mock.Mock(
        getLocalProperty=properties.get,
        partitionId=lambda: 0,
        taskAttemptId=lambda: uuid.uuid4().int,
    )
    with mock.patch.object(TaskContext, "get", return_value=context):
        yield
