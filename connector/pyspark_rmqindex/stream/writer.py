"""``df.writeStream.format("rmqindex")``: appends the batches of a stream to an index.

Spark creates one writer for the tasks of a batch and another for its commit, so the two share
nothing but the tasks' commit messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from pyspark_rmqindex.files.stores import check_one_store
from pyspark_rmqindex.stream.commit import (
    StreamBatch,
    commit_batch,
    discard_batches,
    staging_of,
)
from pyspark_rmqindex.write.input_shapes import InputShape
from pyspark_rmqindex.write.job import (
    TaskResult,
    choose_tags,
    in_options,
    task_name,
    write_options,
)
from rmqindex import RmqIndexError
from rmqindex.bulk import BY_POSITION, CONTENT, RunBuffer, StagedRows
from rmqindex.storage import Location, check_no_secret
from rmqindex.transaction import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

# Properties that Spark sets for the tasks of a batch: StreamExecution.QUERY_ID_KEY,
# MicroBatchExecution.BATCH_ID_KEY.
_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
_JVM = "java"

# Up to this many rows, 28 bytes each, are sent in a task's commit message; more are staged on disk.
_INLINE_ROWS = 16_384
# The most rows that a task holds in memory.
_RUN_ROWS = 1_000_000

# Spark's own options, which reach the sink with the others.
_FROM_SPARK = frozenset({"checkpointlocation"})
_NOT_FOR_STREAMS = "allowLiveStore"


class IndexStreamWriter(DataSourceStreamArrowWriter):
    """Appends the batches of a stream to an index."""

    def __init__(self, schema: StructType, overwrite: bool, options: Mapping[str, str]) -> None:
        """Check what needs no disk access; runs twice per batch, on the driver."""
        if overwrite:
            raise ValueError("outputMode: expected append, got complete: an index only grows")
        own = {name: value for name, value in options.items() if name.lower() not in _FROM_SPARK}
        for name in own:
            if name.lower() == _NOT_FOR_STREAMS.lower():
                raise ValueError(
                    f"option {_NOT_FOR_STREAMS!r}: not for streams, which continue the file that a "
                    "broker would write into; stream into a directory of its own instead"
                )
        path = next((value for name, value in own.items() if name.lower() == "path"), "")
        if Location.of(path).local is None:  # before any request to the store
            check_no_secret(path)
            raise ValueError(
                "option 'path': expected a local directory for a stream, whose batches continue "
                f"the last file where it stands, got {path!r}; an object cannot be continued. "
                "Stream into a local directory, or append with df.write"
            )
        self._options = write_options(own)
        shape = InputShape.of(
            schema, members=self._options.index_members, tags=self._options.index_tags
        )
        self._shape = choose_tags(shape, self._options, once=True)
        self._order = BY_POSITION if self._shape.by_position else CONTENT
        self._owner = Owner.of_ancestor(_JVM)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        """Turn the rows of one task into entries."""
        partition, name = task_name()
        batch = task_batch()
        staging = staging_of(self._options, batch)
        stores = self._shape.store_check()
        buffer = RunBuffer(
            staging.path,
            f"run-{name}",
            self._order,
            _RUN_ROWS,
            inline=_INLINE_ROWS,
            prepare=lambda: staging.join(self._owner),
        )
        try:
            for rows in iterator:
                stores.see(rows)
                buffer.add(self._shape.read(rows))
            buffer.finish()
        except BaseException:
            buffer.remove()
            raise
        staged = StagedRows(tuple(buffer.slices))
        return TaskResult(partition, staged, stores.store, batch.query)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Commit the batch to the index, unless an earlier run has done so."""
        results = TaskResult.in_order(messages)
        batch = StreamBatch(results[0].query, batch_id)
        check_one_store(result.store for result in results)
        runs = [run for result in results for run in result.staged.runs]
        try:
            with in_options():
                commit_batch(self._options, batch, runs, self._order, self._owner)
        finally:
            discard_batches(self._options, batch)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Remove the staged files, and undo an unfinished commit."""
        for result in TaskResult.in_order(messages)[:1]:
            discard_batches(self._options, StreamBatch(result.query, batch_id))


def task_batch() -> StreamBatch:
    """Return the batch of the task that runs here."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(_QUERY_ID)
    number = None if context is None else context.getLocalProperty(_BATCH_ID)
    if query is None or number is None:
        raise RmqIndexError(
            f"the local properties {_QUERY_ID} and {_BATCH_ID}: expected those of a streaming "
            f"query, got {query!r} and {number!r}"
        )
    return StreamBatch(query, int(number))
