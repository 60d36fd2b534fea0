"""``df.write`` and ``writeStream``, called as Spark calls them: driver, tasks, a commit."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from .outcome import Outcome, attempt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .outcome import Place

__all__ = ["write"]

#: Key hash, offset (bytes) and store time (epoch ms).
Row = tuple[int, int, int]


def write(place: Place, question: dict[str, Any]) -> Outcome:
    """Write rows into an index beside the store.

    Args:
        place: The store, and the folder for the index.
        question: ``how`` (``append``, ``overwrite`` or ``stream``), ``tasks`` (the rows of each),
            ``options``; of a stream ``query`` and ``batch``; ``doubled``, a task that runs twice.
    """
    from rmqindex import RmqIndexError

    outcome = Outcome(f"df.write {question['how']}", "written", {**question, "tasks": "..."})
    return attempt(outcome, lambda _: _write(place, question), (RmqIndexError, ValueError))


def _write(place: Place, question: dict[str, Any]) -> None:
    import pyarrow as pa
    from pyspark.sql.types import IntegerType, LongType, StructType

    from pyspark_rmqindex import DefaultSource

    schema = StructType().add("key_hash", IntegerType()).add("phy_offset", LongType())
    schema = schema.add("store_timestamp", LongType())
    source = DefaultSource({"path": f"{place.aside}/written/index", **question["options"]})
    is_stream = question["how"] == "stream"
    made = source.streamWriter if is_stream else source.writer
    driver = made(schema, question["how"] == "overwrite")
    copy = pickle.dumps(driver)

    def batches(rows: list[Row]) -> Iterator[pa.RecordBatch]:
        columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
        types = [pa.int32(), pa.int64(), pa.int64()]
        arrays = [pa.array(values, type_) for values, type_ in zip(columns, types, strict=True)]
        yield pa.record_batch(arrays, names=schema.names)

    messages = []
    try:
        for number, rows in enumerate(question["tasks"]):
            for again in range(2 if number == question.get("doubled") else 1):
                _enter_task(question, number, again)
                message = pickle.loads(copy).write(batches(rows))
            messages.append(pickle.loads(pickle.dumps(message)))
    except BaseException:
        driver.abort(messages, question["batch"]) if is_stream else driver.abort(messages)
        raise
    finally:
        _leave_task()
    if is_stream:
        made(schema, False).commit(messages, question["batch"])
    else:
        driver.commit(messages)


def _enter_task(question: dict[str, Any], number: int, attempt_number: int) -> None:
    """Make the context that Spark gives a task."""
    from pyspark import TaskContext

    context = TaskContext._getOrCreate()
    context._partitionId = number
    context._attemptNumber = attempt_number
    context._taskAttemptId = 100 * number + attempt_number
    context._stageId = 1
    context._localProperties = {
        "sql.streaming.queryId": question.get("query", ""),
        "streaming.sql.batchId": str(question.get("batch", 0)),
    }


def _leave_task() -> None:
    from pyspark import TaskContext

    TaskContext._taskContext = None
