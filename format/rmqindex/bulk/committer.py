"""The one way into an index directory: others kept out, all files at once, nothing left over."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from rmqindex.bulk.file_plans import BuiltFile, build_file, plan_append, plan_files
from rmqindex.bulk.indexed_rows import check_file_not_indexed, without_indexed
from rmqindex.bulk.sorted_runs import RunSet
from rmqindex.errors import RmqIndexError
from rmqindex.store.cover import raise_checkpoint
from rmqindex.store.live_store import hold_store
from rmqindex.store.names import next_names
from rmqindex.times import zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import tzinfo

    from rmqindex.bulk.file_plans import FilePlan
    from rmqindex.bulk.index_state import IndexState
    from rmqindex.bulk.job import WriteJob
    from rmqindex.bulk.sorted_runs import Order, RunSlice
    from rmqindex.indexfile.append_in_place import InPlaceAppend
    from rmqindex.transaction.staging import Staging
    from rmqindex.transaction.undo import UndoableAppend

__all__ = ["Commit", "Committer", "commit_files", "commit_staged"]

_HOW_TO_ORDER = (
    "a broker's own search would miss rows. Write with pyspark_rmqindex.write_index(df, path), or "
    "order the rows first: df.repartitionByRange('phy_offset').sortWithinPartitions('phy_offset'); "
    "the option allowOverlap=true accepts such files for use with Spark alone"
)


@dataclass(frozen=True, slots=True)
class Committer:
    """Ends a job; a context manager, which removes in the end what is staged and not committed.

    Attributes:
        staging: What is staged.
        directory: The index directory, as the caller names it: its links tell the store.
        zone: The time zone of new names; None for the system's.
        allow_live_store: Whether a broker may hold the store.
        checkpoint: Whether the store's checkpoint is raised to cover the index.
    """

    staging: Staging
    directory: Path | str
    zone: str | tzinfo | None = None
    allow_live_store: bool = False
    checkpoint: bool = False

    @classmethod
    def of(cls, job: WriteJob) -> Committer:
        """Return that of a write."""
        options = job.options
        return cls(
            job.staging,
            options.directory,
            options.zone,
            options.allow_live_store,
            options.checkpoint,
        )

    def __enter__(self) -> Self:
        """Return the committer."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what is staged; undo a commit that did not finish."""
        self.staging.discard()

    @contextlib.contextmanager
    def begin(self, *, create: bool = False) -> Iterator[Commit]:
        """Keep brokers and other commits out, and yield a commit that changes nothing yet.

        Args:
            create: Whether the job may have staged nothing so far.

        Raises:
            RmqIndexError: A broker holds the store, the staging is gone, or another commit did not
                end.
        """
        with (
            hold_store(self.directory, allow_live=self.allow_live_store) as live,
            self.staging.exclusive(create=create),
            contextlib.closing(Commit(self, live=live)) as commit,
        ):
            yield commit


class Commit:
    """One commit: what it brings into the directory, and what it takes out of it.

    Attributes:
        staging: What is staged.
        live: Whether a broker holds the store, and that is allowed.
        built: The new files, in order, which get their names in the end.
        append: What is appended to the last file where it stands.
    """

    def __init__(self, committer: Committer, *, live: bool) -> None:
        """Begin without a change."""
        self.staging = committer.staging
        self.live = live
        self.built: list[BuiltFile] = []
        self.append: InPlaceAppend | None = None
        self._committer = committer
        self._placed: list[tuple[Path, str]] = []
        self._removed: list[str] = []

    def add(self, file: BuiltFile) -> None:
        """Bring in a file: in the place of the one that it continues, or as a new one."""
        if file.continued is None:
            self.built.append(file)
        else:
            self._placed.append((self.staging.path / file.name, file.continued))
            self._removed.append(file.continued)

    def build(self, plan: FilePlan, *, trusted: bool = False) -> None:
        """Append to the file that a plan continues, or bring in the one that is built from it.

        Args:
            plan: What the file holds.
            trusted: Whether every slot of the file that is continued is known to be sound.

        Raises:
            OSError: The disk is full or broken.
            CorruptIndexError: The file that is continued is malformed.
        """
        if plan.continued is not None and self.staging.continues_in_place:
            self.append = plan_append(self.staging.path, plan, trusted=trusted)
            return
        name = f"merged-{len(self.built) + len(self._placed)}"
        self.add(build_file(self.staging, name, plan))
        self.staging.publish([name])

    def place(self, names: Sequence[str]) -> None:
        """Bring in staged files under the names that they have."""
        self._placed += [(self.staging.path / name, name) for name in names]

    def remove(self, names: Sequence[str]) -> None:
        """Take files out, be it without or by replacement."""
        self._removed += names

    def flush(self, append: UndoableAppend) -> None:
        """Make entries visible, before the rest, that a file has behind those that it counts.

        Raises:
            OSError: The disk is full or broken.
        """
        self.staging.commit([], [], append=append)

    def finish(
        self,
        there: Sequence[str] = (),
        *,
        replaced: bool = False,
        record: Callable[[Sequence[str]], Mapping[str, object]] | None = None,
    ) -> int | None:
        """Change the directory, as one step.

        Args:
            there: The names that new files come after.
            replaced: Whether these all go.
            record: Says what is recorded in the same step, given the names of the new files.

        Returns:
            As :meth:`cover`.

        Raises:
            RmqIndexError: No name is left for a new file, a file to be removed is not there, or the
                storage failed.
            OSError: The disk is full or broken.
        """
        if replaced:
            self.remove(there)
        names = self._new_names(there, replaced=replaced)
        staged = [self.staging.path / file.name for file in self.built]
        self.staging.commit(
            [*self._placed, *zip(staged, names, strict=True)],
            self._removed,
            append=self.append,
            ledger=None if record is None else record(names),
        )
        return self.cover()

    def cover(self) -> int | None:
        """Raise the store's checkpoint, where that is asked for.

        Returns:
            What its ``indexMsgTimestamp`` is now, epoch milliseconds; None where it is left alone.

        Raises:
            OSError: The checkpoint cannot be written.
        """
        if not self._committer.checkpoint:
            return None
        return raise_checkpoint(Path(self._committer.directory)).index_msg_timestamp

    def close(self) -> None:
        """Close the file that is continued; what was not applied is dropped."""
        if self.append is not None:
            self.append.close()

    def _new_names(self, there: Sequence[str], *, replaced: bool) -> list[str]:
        """Name new files after the times of their first entries, behind all names ever used."""
        if not self.built:
            return []
        last_name = self.staging.last_name(there, replaced=replaced)
        begins = [file.header.begin_timestamp for file in self.built]
        return next_names(begins, last_name, zone=zone_of(self._committer.zone))


def commit_staged(
    job: WriteJob, runs: Sequence[RunSlice], files: Sequence[BuiltFile], order: Order
) -> None:
    """Commit the rows that the tasks of a write staged, some as runs, some as files.

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
    with Committer.of(job).begin() as commit:
        state = job.state()
        job.staging.fetch([part.name for part in runs])
        rows = without_indexed(job, state, RunSet(job.staging.path, runs, order))
        for file in files:
            check_file_not_indexed(job, state, file)
        parts = _ordered(job, rows, sorted(files, key=lambda file: (file.least, file.greatest)))
        last = state.last if parts and state.precedes(parts[0].least) else None
        for part in parts:
            if part.file is not None:
                commit.add(part.file)
            else:
                for plan in plan_files(part.rows, job.layout, last, continues=not commit.live):
                    commit.build(plan)
            last = None
        commit.finish(job.names_there(), replaced=job.overwrite)


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
    with Committer.of(job).begin() as commit:
        if job.state() != state:
            raise RmqIndexError(
                f"{job.staging.directory}: the index was changed while this write ran; nothing was "
                "committed, write again"
            )
        for file in files:
            commit.add(file)
        if continued is not None:
            commit.build(continued)
        commit.finish(job.names_there(), replaced=job.overwrite)


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
