"""The name of a writing task."""

from __future__ import annotations

import uuid

from pyspark import TaskContext

__all__ = ["task_name"]


def task_name() -> tuple[int, str]:
    """Return this task's partition, and a name unique to this attempt."""
    context = TaskContext.get()
    if context is None:  # not in a task: a test, or another engine
        return 0, uuid.uuid4().hex
    partition = context.partitionId()
    # Attempt ids are unique within an application, and so is a job.
    return partition, f"{partition}-{context.taskAttemptId()}"
