"""Stages the rows of one task, as sorted runs or as whole files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqindex.bulk.file_plans import BuiltFile, build_file, plan_files
from rmqindex.bulk.indexed_rows import unindexed
from rmqindex.bulk.sorted_runs import RunBuffer, RunSet

if TYPE_CHECKING:
    from rmqindex.bulk.job import WriteJob
    from rmqindex.bulk.sorted_runs import EntryRows, Order, RunSlice

__all__ = ["RowStager", "StagedRows"]


@dataclass(frozen=True, slots=True)
class StagedRows:
    """What one task staged; picklable.

    Attributes:
        runs: Runs still to merge.
        files: Complete files.
    """

    runs: tuple[RunSlice, ...] = ()
    files: tuple[BuiltFile, ...] = ()


class RowStager:
    """Stages the rows of one task attempt; for use within :meth:`WriteJob.attempt`."""

    def __init__(self, job: WriteJob, name: str, order: Order, limit: int) -> None:
        """Begin without rows.

        Args:
            job: The write.
            name: A name unique among all task attempts of the job.
            order: The columns to keep, and the order of the rows.
            limit: The most rows of a run, which are held in memory until it is written.
        """
        self._job = job
        self._name = name
        self._order = order
        self._buffer = RunBuffer(job.staging.path, f"run-{name}", order, limit)
        self._files: list[str] = []

    def add(self, rows: EntryRows) -> None:
        """Append rows, except those that are indexed already.

        Raises:
            ValueError: Some rows are indexed already, and the options make that an error.
        """
        self._buffer.add(unindexed(self._job, rows))

    def stage_runs(self) -> tuple[RunSlice, ...]:
        """Publish the rows as runs."""
        self._buffer.finish()
        return self._publish(StagedRows(tuple(self._buffer.slices))).runs

    def stage_files(self) -> StagedRows:
        """Publish the rows as one run, or as files if they are too many for one.

        Raises:
            RmqIndexError: The storage failed, or the geometry leaves no room for an entry.
        """
        self._buffer.finish()
        runs = tuple(self._buffer.slices)
        return self._publish(StagedRows(runs) if len(runs) < 2 else self._build(runs))

    def remove(self) -> None:
        """Remove what this attempt staged."""
        self._buffer.remove()
        for name in self._files:
            (self._job.staging.path / name).unlink(missing_ok=True)

    def _build(self, runs: tuple[RunSlice, ...]) -> StagedRows:
        """Build files of all rows but those at the end of the index.

        Only the commit can tell whether these are indexed already: several tasks may hold some of
        them.
        """
        job = self._job
        rows = RunSet(job.staging.path, runs, self._order)
        start = rows.cut(0)
        if job.end is not None and not job.accepts_indexed:
            start = rows.cut_at_offset(job.end, inclusive=True)
        undecided = rows.between(rows.cut(0), start).slices
        built = []
        plans = plan_files(
            rows.between(start, rows.cut(len(rows))), job.layout, None, continues=False
        )
        for number, plan in enumerate(plans):
            self._files.append(f"file-{self._name}-{number}")
            built.append(build_file(job.staging, self._files[-1], plan))
        kept = {part.name for part in undecided}
        for part in rows.slices:
            if part.name not in kept:
                (job.staging.path / part.name).unlink()
        return StagedRows(undecided, tuple(built))

    def _publish(self, staged: StagedRows) -> StagedRows:
        self._job.staging.publish([run.name for run in staged.runs])
        self._job.staging.publish([file.name for file in staged.files])
        return staged
