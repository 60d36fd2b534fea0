"""One write: its options, its job from planning to commit, and the rows that its tasks stage."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.bulk.files import (
    BuiltFile,
    IndexState,
    build_file,
    check_replaceable,
    find_layout,
    index_entries,
    plan_files,
)
from rmqindex.bulk.sorted_runs import EntryRows, RunBuffer, RunSet, RunSlice
from rmqindex.errors import RmqIndexError
from rmqindex.store.checkpoint import ensure_coverable, present_checkpoint
from rmqindex.transaction.broker_lock import BrokerLock
from rmqindex.transaction.staging import create_staging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from rmqindex.bulk.sorted_runs import Order
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.storage.location import Location
    from rmqindex.transaction.owner import Owner
    from rmqindex.transaction.staging import Staging


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of one write, checked.

    Attributes:
        directory: The index directory, which may be absent: a local path, or a URI on S3.
        layout: The requested geometry; None for that of the present files.
        zone: The name of the broker's time zone, or None for the system's.
        on_indexed: ``error`` or ``skip``: what to do with entries that are indexed already.
        broker_redispatch: Skip them as a broker does instead.
        allow_overlap: Whether files may overlap.
        allow_live_store: Whether a broker may run on the store.
        index_members: Whether to index the keys of the members of batches as well.
        index_tags: Whether to index tags as well; None where the files decide.
        checkpoint: Whether to raise the store's checkpoint so that it covers the index.
    """

    directory: Path | Location
    layout: Layout | None = None
    zone: str | None = None
    on_indexed: str = "error"
    broker_redispatch: bool = False
    allow_overlap: bool = False
    allow_live_store: bool = False
    index_members: bool = False
    index_tags: bool | None = False
    checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class WriteJob:
    """One write from its planning to its commit; picklable.

    Attributes:
        options: The options.
        overwrite: Whether the write replaces the present files.
        layout: The geometry of the new files.
        end: The offset of the last indexed message at planning; None for an overwrite.
        staging: Its staging.
    """

    options: WriteOptions
    overwrite: bool
    layout: Layout
    end: int | None
    staging: Staging

    @classmethod
    def start(cls, options: WriteOptions, *, overwrite: bool, owner: Owner) -> WriteJob:
        """Check everything that can be checked before the first row, and create the staging.

        Raises:
            RmqIndexError: A broker runs on the store, the geometry is unknown or differs, or an
                overwrite would replace something that is not an index.
        """
        directory = options.directory
        lock = BrokerLock.around(directory)
        with lock.hold(allow_live_store=options.allow_live_store):  # it may undo a dead commit
            if options.checkpoint:
                ensure_coverable(Path(directory))
                present_checkpoint(Path(directory))
            return cls._start(options, overwrite=overwrite, owner=owner)

    @classmethod
    def _start(cls, options: WriteOptions, *, overwrite: bool, owner: Owner) -> WriteJob:
        directory = options.directory
        entries = index_entries(directory)
        if overwrite:
            check_replaceable(entries, options.layout)
        layout = find_layout(entries, options.layout, check=not overwrite)
        end = None if overwrite else IndexState.read(directory, layout).end
        return cls(options, overwrite, layout, end, create_staging(directory, owner))

    @property
    def accepts_indexed(self) -> bool:
        """Whether rows before the end of the index are written all the same."""
        options = self.options
        return (
            options.allow_overlap
            and options.on_indexed == "error"
            and not options.broker_redispatch
        )

    def already_indexed(self, end: int, phy_offset: int) -> ValueError:
        """Return the error for a row that is indexed already."""
        return ValueError(
            f"phy_offset {phy_offset}: expected rows after {end}, up to which "
            f"{self.staging.directory} is indexed; the option onIndexed=skip leaves out what is "
            "indexed already"
        )

    def state(self) -> IndexState:
        """Read the present state of the index; an empty one for an overwrite."""
        if self.overwrite:
            return IndexState()
        is_since = self.options.layout is None
        return IndexState.read(self.staging.directory, self.layout, is_since=is_since)

    def names_there(self) -> list[str]:
        """Return the names of the present IndexFiles, oldest first.

        Raises:
            RmqIndexError: An overwrite would replace something that is not an index.
        """
        entries = index_entries(self.staging.directory)
        if self.overwrite:
            check_replaceable(entries, self.options.layout)
        return [entry.name for entry in entries]

    @contextlib.contextmanager
    def attempt(self, remove: Callable[[], None]) -> Iterator[None]:
        """Run a task: at its end it leaves the staging, and if it fails, its files are removed.

        Raises:
            RmqIndexError: The staging directory is gone: the job was ended meanwhile.
        """
        try:
            yield
        except BaseException as error:
            remove()
            if isinstance(error, FileNotFoundError) and not self.staging.path.exists():
                raise RmqIndexError(
                    f"{self.staging.path}: expected the staging directory of this write, got "
                    "none: the write was ended, or this host does not share the file system with "
                    "the driver"
                ) from error
            raise
        finally:
            self.staging.leave()


def unindexed(job: WriteJob, rows: EntryRows) -> EntryRows:
    """Return the rows that do not lie before the end of the index."""
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


def without_indexed(job: WriteJob, state: IndexState, rows: RunSet) -> RunSet:
    """Return the rows to write, without those that are indexed already.

    Raises:
        ValueError: Some rows are, and the options make that an error.
    """
    if state.end is None or not len(rows) or job.accepts_indexed:
        return rows
    before = rows.cut_at_offset(state.end, inclusive=False)
    until = rows.cut_at_offset(state.end, inclusive=True)
    everything = rows.cut(len(rows))
    if job.options.broker_redispatch:
        return rows.between(before, everything)
    skip = job.options.on_indexed == "skip"
    if not skip and rows.count_before(state.end):
        raise job.already_indexed(state.end, rows.row(0)["phy_offset"])
    edge = rows.between(before, until)
    if not len(edge):
        return rows.between(before, everything)
    hashes = np.concatenate([block["key_hash"] for block in edge.blocks()])
    kept = _not_among(hashes, state.hashes_at_end(job.layout))
    if kept.all():
        return rows.between(before, everything)
    if not skip:
        raise job.already_indexed(state.end, state.end)
    edges = np.flatnonzero(np.diff(kept, prepend=False, append=False)).tolist()
    slices = [
        part
        for start, stop in zip(edges[::2], edges[1::2], strict=True)
        for part in edge.between(edge.cut(start), edge.cut(stop)).slices
    ]
    slices += rows.between(until, everything).slices
    return RunSet(job.staging.path, slices, rows.order)


def check_file_not_indexed(job: WriteJob, state: IndexState, file: BuiltFile) -> None:
    """Refuse a file that a task built if another write has indexed its rows meanwhile."""
    if state.end is None or job.accepts_indexed:
        return
    moved = state.end != job.end and not job.options.broker_redispatch
    if file.least < state.end or (moved and file.least == state.end):
        raise RmqIndexError(
            f"{job.staging.directory}: expected the index to end at {job.end}, as when this write "
            f"began, got {state.end}: another write came first; write again"
        )


def _not_among(hashes: NDArray[np.int32], indexed: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Mask the hashes that remain when indexed ones are removed, one for one."""
    order = np.argsort(hashes, kind="stable")
    values = hashes[order]
    numbers = np.arange(len(values)) - np.searchsorted(values, values, side="left")
    indexed = np.sort(indexed)
    counts = np.searchsorted(indexed, values, side="right") - np.searchsorted(indexed, values)
    kept = np.empty(len(hashes), np.bool_)
    kept[order] = numbers >= counts
    return kept


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
        """Publish the rows as one run, or as files if they are too many for one."""
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
