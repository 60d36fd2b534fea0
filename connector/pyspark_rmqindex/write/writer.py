"""``df.write.format("rmqindex")``: tasks stage rows or whole files, which the driver commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter

from pyspark_rmqindex.files.stores import check_one_store
from pyspark_rmqindex.write.input_shapes import InputShape
from pyspark_rmqindex.write.job import (
    TaskResult,
    choose_tags,
    in_options,
    task_name,
    warn_of_geometry,
    write_options,
)
from rmqindex.bulk import (
    ARRIVAL,
    BY_POSITION,
    Committer,
    RowStager,
    WriteJob,
    commit_staged,
)
from rmqindex.transaction import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

# A task with more rows than this builds its files itself; rows of smaller tasks are merged.
_RUN_ROWS = 1_000_000
_JVM = "java"


class IndexWriter(DataSourceArrowWriter):
    """Writes the rows of a DataFrame as IndexFiles."""

    def __init__(self, schema: StructType, overwrite: bool, options: Mapping[str, str]) -> None:
        """Check everything before the first row is read; runs once, on the driver."""
        checked = write_options(options)
        shape = InputShape.of(schema, members=checked.index_members, tags=checked.index_tags)
        # Rows from load() keep the order of their entries; other rows keep their order of arrival.
        self._order = BY_POSITION if shape.by_position else ARRIVAL
        with in_options():
            self._shape = choose_tags(shape, checked, overwrite=overwrite)
            self._job = WriteJob.start(checked, overwrite=overwrite, owner=Owner.of_ancestor(_JVM))
            warn_of_geometry(checked, self._job.layout)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        """Stage the rows of one task."""
        partition, name = task_name()
        stager = RowStager(self._job, name, self._order, _RUN_ROWS)
        stores = self._shape.store_check()
        with self._job.attempt(stager.remove):
            for batch in iterator:
                stores.see(batch)
                stager.add(self._shape.read(batch))
            staged = stager.stage_files()
        return TaskResult(partition, staged, stores.store)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what the tasks staged, all of it or nothing."""
        results = TaskResult.in_order(messages)
        with in_options(), Committer.of(self._job):
            check_one_store(result.store for result in results)
            commit_staged(
                self._job,
                [part for result in results for part in result.staged.runs],
                [file for result in results for file in result.staged.files],
                self._order,
            )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Remove the staged files, and undo an unfinished commit."""
        self._job.staging.discard()
