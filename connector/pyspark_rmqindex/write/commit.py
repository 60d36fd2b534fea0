"""The commit of a write: what tasks staged becomes part of the index in one step, or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pyspark_rmqindex.write.file_plans import BuiltFile, build_file, plan_append, plan_files
from pyspark_rmqindex.write.sorted_runs import RunSet
from rmqindex import RmqIndexError
from rmqindex.store import ensure_not_live, next_names, raise_checkpoint
from rmqindex.times import zone_of
from rmqindex.transaction import RemoteStaging

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from pyspark_rmqindex.options import WriteOptions
    from pyspark_rmqindex.write.file_plans import FilePlan
    from pyspark_rmqindex.write.job import IndexState, WriteJob
    from pyspark_rmqindex.write.sorted_runs import Order, RunSlice

__all__ = ["commit_files", "commit_staged", "held_store", "is_live", "new_names", "without_indexed"]

_STORE_LOCK = "lock"

_HOW_TO_ORDER = (
    "a broker's own search would miss rows. Write with pyspark_rmqindex.write_index(df, path), or "
    "order the rows first: df.repartitionByRange('phy_offset').sortWithinPartitions('phy_offset'); "
    "the option allowOverlap=true accepts such files for use with Spark alone"
)


def commit_staged(
    job: WriteJob, runs: Sequence[RunSlice], files: Sequence[BuiltFile], order: Order
) -> None:
    """Commit what the tasks of a ``df.write`` staged.

    Runs are merged into files here; together with the files that tasks built, they are ordered by
    offset.

    Args:
        job: The write.
        runs: The runs of small tasks, in the order of the partitions.
        files: The files that large tasks built.
        order: How the rows of the runs are ordered.

    Raises:
        ValueError: Rows that are indexed already.
        RmqIndexError: Files would overlap, a broker holds the store, or the staging is gone.
    """
    with held_store(job.staging.directory, job.options) as live, job.staging.exclusive():
        state = job.state()
        job.staging.fetch([part.name for part in runs])
        rows = without_indexed(job, state, RunSet(job.staging.path, runs, order))
        for file in files:
            _check_file_not_indexed(job, state, file)
        parts = _ordered(job, rows, sorted(files, key=lambda file: (file.least, file.greatest)))
        last = state.last if parts and state.precedes(parts[0].least) else None
        built: list[BuiltFile] = []
        continued: FilePlan | None = None
        for part in parts:
            if part.file is not None:
                built.append(part.file)
            else:
                for plan in plan_files(part.rows, job.layout, last, continues=not live):
                    if plan.continued is not None and not job.options.is_remote:
                        continued = plan
                        continue
                    name = f"merged-{len(built)}"
                    built.append(build_file(job.staging.path, name, plan))
                    job.staging.publish([name])
            last = None
        _commit(job, built, continued)


def commit_files(
    job: WriteJob,
    state: IndexState,
    files: Sequence[BuiltFile],
    continued: FilePlan | None = None,
) -> None:
    """Commit files that were planned for a certain state of the directory.

    Args:
        job: The write.
        state: What the directory held when the files were planned.
        files: The files, in order.
        continued: What is appended to the last file where it stands; None for nothing.

    Raises:
        RmqIndexError: The directory has changed since, a broker holds the store, or the staging is
            gone.
    """
    with held_store(job.staging.directory, job.options), job.staging.exclusive():
        if job.state() != state:
            raise RmqIndexError(
                f"{job.staging.directory}: the index was changed while this write ran; nothing was "
                "committed, write again"
            )
        _commit(job, files, continued)


def without_indexed(job: WriteJob, state: IndexState, rows: RunSet) -> RunSet:
    """Return the rows that are to be written, without those that are indexed already.

    Raises:
        ValueError: There are such, and the options do not say what to do with them.
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


def _not_among(hashes: NDArray[np.int32], indexed: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Tell which hashes are left when those that are indexed are taken away, one for one."""
    order = np.argsort(hashes, kind="stable")
    values = hashes[order]
    numbers = np.arange(len(values)) - np.searchsorted(values, values, side="left")
    indexed = np.sort(indexed)
    counts = np.searchsorted(indexed, values, side="right") - np.searchsorted(indexed, values)
    kept = np.empty(len(hashes), np.bool_)
    kept[order] = numbers >= counts
    return kept


def _check_file_not_indexed(job: WriteJob, state: IndexState, file: BuiltFile) -> None:
    """Refuse a file that a task built, if another write has indexed its rows since."""
    if state.end is None or job.accepts_indexed:
        return
    moved = state.end != job.end and not job.options.broker_redispatch
    if file.least < state.end or (moved and file.least == state.end):
        raise RmqIndexError(
            f"{job.staging.directory}: expected the index to end at {job.end}, as when this write "
            f"began, got {state.end}: another write came first; write again"
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """A stretch of offsets: a file that a task built, or rows that are still to be merged."""

    least: int
    greatest: int
    rows: RunSet
    file: BuiltFile | None = None


def _ordered(job: WriteJob, rows: RunSet, files: Sequence[BuiltFile]) -> list[_Part]:
    """Arrange rows and built files by offset, the rows cut where a file begins.

    Raises:
        RmqIndexError: The ranges overlap, and the options do not accept that.
    """
    parts: list[_Part] = []
    position = rows.cut(0)
    for file in [*files, None]:
        stop = rows.cut(len(rows))
        if file is not None:
            stop = np.maximum(position, rows.cut_at_offset(file.least, inclusive=True))
        between = rows.between(position, stop)
        if len(between):
            parts.append(_Part(*between.offset_range(), between))
        if file is not None:
            parts.append(_Part(file.least, file.greatest, between, file))
        position = stop
    if not job.options.allow_overlap:
        for part, following in itertools.pairwise(parts):
            if following.least < part.greatest:
                raise RmqIndexError(
                    f"the rows of some tasks reach from offset {part.least} to {part.greatest}, "
                    f"those of others from {following.least} to {following.greatest}: their files "
                    f"would overlap, and {_HOW_TO_ORDER}"
                )
    return parts


def _commit(job: WriteJob, files: Sequence[BuiltFile], continued: FilePlan | None) -> None:
    """Name the files and bring them into the directory; the commit lock is held."""
    there = job.names_there()
    removed = list(there) if job.overwrite else []
    new: list[tuple[Path, str]] = []
    fresh: list[BuiltFile] = []
    for file in files:
        if file.continued is None:
            fresh.append(file)
        else:
            new.append((job.staging.path / file.name, file.continued))
            removed.append(file.continued)
    names = new_names(job, [file.header.begin_timestamp for file in fresh], there)
    new += [(job.staging.path / file.name, name) for file, name in zip(fresh, names, strict=True)]
    staging = job.staging
    if isinstance(staging, RemoteStaging):
        assert continued is None, "an object cannot be appended to"
        staging.commit(new, removed)
        return
    append = None if continued is None else plan_append(staging.path, continued)
    try:
        staging.commit(new, removed, append=append)
    finally:
        if append is not None:
            append.close()
    if job.options.checkpoint:
        raise_checkpoint(staging.directory)


def new_names(job: WriteJob, timestamps: list[int], there: list[str]) -> list[str]:
    """Name new files after the store times of their first entries, behind all that were used."""
    if not timestamps:
        return []
    last_name = job.staging.last_name(there, replaced=job.overwrite)
    return next_names(timestamps, last_name, zone=zone_of(job.options.time_zone))


def is_live(directory: Path | str) -> bool:
    """Tell whether a broker holds the store of an index directory, or did not stop cleanly."""
    if isinstance(directory, str):  # no broker writes to S3
        return False
    try:
        ensure_not_live(directory)
    except RmqIndexError:
        return True
    return False


@contextlib.contextmanager
def held_store(directory: Path | str, options: WriteOptions) -> Iterator[bool]:
    """Keep a broker from starting on the store meanwhile; yields whether one holds it already.

    Raises:
        RmqIndexError: A broker holds it, and the options do not allow that.
    """
    if isinstance(directory, str):  # no broker writes to S3
        yield False
        return
    try:
        ensure_not_live(directory)
    except RmqIndexError:
        if not options.allow_live_store:
            raise
        yield True
        return
    try:
        descriptor = os.open(directory.parent / _STORE_LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # no store, or a lock that is not ours to take
        yield False
        return
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except OSError as error:
            if not options.allow_live_store:
                raise RmqIndexError(
                    f"{directory.parent / _STORE_LOCK}: a broker has just started on this store"
                ) from error
            yield True
            return
        yield False
    finally:
        os.close(descriptor)
