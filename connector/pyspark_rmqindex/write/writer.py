"""``df.write.format("rmqindex")``: tasks stage rows or whole files, the commit brings them in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyspark_rmqindex.files.stores import check_one_store
from pyspark_rmqindex.options import with_s3_settings
from pyspark_rmqindex.write.commit import commit_staged
from pyspark_rmqindex.write.file_plans import BuiltFile, build_file, plan_files
from pyspark_rmqindex.write.input_shapes import InputShape
from pyspark_rmqindex.write.job import WriteJob, write_options
from pyspark_rmqindex.write.sorted_runs import (
    ARRIVAL,
    BY_POSITION,
    Order,
    RunBuffer,
    RunSet,
    RunSlice,
)
from pyspark_rmqindex.write.task import cleaned_up, task_name, unindexed
from rmqindex.storage import using
from rmqindex.transaction import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["IndexWriter", "TaskResult"]

# A task with more rows than this builds its files itself; those of smaller tasks are merged.
_RUN_ROWS = 1_000_000
_JVM = "java"


@dataclass(frozen=True, slots=True)
class TaskResult(WriterCommitMessage):
    """What one task staged.

    Attributes:
        partition: The task's partition.
        runs: Rows to be merged.
        files: Files that are complete.
        store: The store that the rows are of, where they say it.
    """

    partition: int
    runs: tuple[RunSlice, ...] = ()
    files: tuple[BuiltFile, ...] = ()
    store: str | None = None


class IndexWriter(DataSourceArrowWriter):
    """Writes the rows of a DataFrame as IndexFiles."""

    def __init__(self, schema: StructType, overwrite: bool, options: Mapping[str, str]) -> None:
        """Check everything before the first row is read; runs once, on the driver.

        Args:
            schema: The columns of the DataFrame.
            overwrite: Whether what is there is replaced.
            options: As the user gave them.

        Raises:
            ValueError: An unknown option, a bad value, or columns that cannot be indexed.
            RmqIndexError: A broker holds the store, or the geometry is unknown or another one.
        """
        checked = write_options(options)
        self._shape = InputShape.of(schema, members=checked.index_members, tags=checked.index_tags)
        # What load() read keeps the order of its entries; other rows keep that of their arrival.
        self._order = BY_POSITION if self._shape.by_position else ARRIVAL
        self._s3 = checked.s3
        with using(self._s3):
            self._job = WriteJob.start(checked, overwrite=overwrite, owner=Owner.of_ancestor(_JVM))

    @with_s3_settings
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        """Stage the rows of one task.

        Raises:
            BadRowError: A row that cannot be indexed.
            ValueError: A row that is indexed already, where that is an error; rows of several
                stores.
            RmqIndexError: The job was ended.
            OSError: The disk is full or broken.
        """
        task = _StagingTask(self._job, self._shape, self._order)
        with cleaned_up(self._job, task.remove):
            result = task.run(iterator)
            self._job.staging.publish([run.name for run in result.runs])
            self._job.staging.publish([file.name for file in result.files])
        return result

    @with_s3_settings
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Bring what the tasks staged into the index, all of it or nothing.

        Raises:
            ValueError: Rows that are indexed already, where that is an error; rows of several
                stores.
            RmqIndexError: Files would overlap, or a broker holds the store.
        """
        results = sorted(
            (message for message in messages if isinstance(message, TaskResult)),
            key=lambda result: result.partition,
        )
        try:
            check_one_store(result.store for result in results)
            commit_staged(
                self._job,
                [part for result in results for part in result.runs],
                [file for result in results for file in result.files],
                self._order,
            )
        finally:
            self._job.staging.discard()

    @with_s3_settings
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Remove what was staged; undo a commit that did not finish."""
        self._job.staging.discard()


@dataclass
class _StagingTask:
    """One attempt of one task."""

    job: WriteJob
    shape: InputShape
    order: Order
    files: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.partition, self.name = task_name()
        self.directory: Path = self.job.staging.path
        self.buffer = RunBuffer(self.directory, f"run-{self.name}", self.order, _RUN_ROWS)

    def run(self, batches: Iterator[pa.RecordBatch]) -> TaskResult:
        """Stage the rows: as one run, or, where they are many, as files."""
        stores = self.shape.store_check()
        for batch in batches:
            stores.see(batch)
            self.buffer.add(unindexed(self.job, self.shape.read(batch)))
        self.buffer.finish()
        runs = self.buffer.slices
        if len(runs) < 2:
            return TaskResult(self.partition, tuple(runs), store=stores.store)
        built = self._build(RunSet(self.directory, runs, self.order))
        return replace(built, store=stores.store)

    def _build(self, rows: RunSet) -> TaskResult:
        """Build files of all rows but those at the end of what is indexed.

        Whether these are indexed already is for the commit to find out: several tasks may hold
        some of them.
        """
        start = rows.cut(0)
        if self.job.end is not None and not self.job.accepts_indexed:
            start = rows.cut_at_offset(self.job.end, inclusive=True)
        undecided = rows.between(rows.cut(0), start).slices
        built = []
        plans = plan_files(
            rows.between(start, rows.cut(len(rows))), self.job.layout, None, continues=False
        )
        for number, plan in enumerate(plans):
            self.files.append(f"file-{self.name}-{number}")
            built.append(build_file(self.directory, self.files[-1], plan))
        kept = {part.name for part in undecided}
        for part in rows.slices:
            if part.name not in kept:
                (self.directory / part.name).unlink()
        return TaskResult(self.partition, undecided, tuple(built))

    def remove(self) -> None:
        """Remove what this attempt staged."""
        self.buffer.remove()
        for name in self.files:
            (self.directory / name).unlink(missing_ok=True)
