"""What a writing task is called."""

from __future__ import annotations

import uuid

from pyspark import TaskContext

__all__ = ["task_name"]


def task_name() -> tuple[int, str]:
    """Return this task's partition, and a name that no other attempt of any task has."""
    context = TaskContext.get()
    if context is None:  # not in a task: a test, or another engine
        return 0, uuid.uuid4().hex
    partition = context.partitionId()
    # Attempt ids are unique in one application, and a job belongs to one.
    return partition, f"{partition}-{context.taskAttemptId()}"
