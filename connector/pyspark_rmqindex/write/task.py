"""What every writing task needs: a name of its own, and tidiness when it fails."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING

import numpy as np
from pyspark import TaskContext

from pyspark_rmqindex.write.input_shapes import EntryRows
from rmqindex import RmqIndexError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark_rmqindex.write.job import WriteJob

__all__ = ["cleaned_up", "task_name", "unindexed"]


def task_name() -> tuple[int, str]:
    """Return this task's partition, and a name that no other attempt of any task has."""
    context = TaskContext.get()
    if context is None:  # not in a task: a test, or another engine
        return 0, uuid.uuid4().hex
    partition = context.partitionId()
    # Attempt ids are unique in one application, and a job belongs to one.
    return partition, f"{partition}-{context.taskAttemptId()}"


@contextlib.contextmanager
def cleaned_up(job: WriteJob, remove: Callable[[], None]) -> Iterator[None]:
    """Let a task leave the staging in the end, and remove what it staged when it fails.

    Raises:
        RmqIndexError: The staging directory is gone: the job was ended meanwhile.
    """
    try:
        yield
    except BaseException as error:
        remove()
        if isinstance(error, FileNotFoundError) and not job.staging.path.exists():
            raise RmqIndexError(
                f"{job.staging.path}: expected the staging directory of this write, got none: the "
                "write was ended, or this host does not share the file system with the driver"
            ) from error
        raise
    finally:
        job.staging.leave()


def unindexed(job: WriteJob, rows: EntryRows) -> EntryRows:
    """Return the rows that do not lie before the end of what is indexed.

    Raises:
        ValueError: There are such rows, and that is an error.
    """
    if job.end is None or job.accepts_indexed:
        return rows
    before = rows.phy_offset < job.end
    if not before.any():
        return rows
    if not job.options.broker_redispatch and job.options.on_indexed != "skip":
        raise job.already_indexed(job.end, int(rows.phy_offset[np.argmax(before)]))
    kept = ~before
    return EntryRows(
        rows.key_hash[kept],
        rows.phy_offset[kept],
        rows.store_timestamp[kept],
        rows.ordinal[kept],
        None if rows.file_path is None else rows.file_path.filter(kept),
    )
