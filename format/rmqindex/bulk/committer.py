"""The one way to change an index: locks out other writers, commits all files at once, cleans up."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from rmqindex.bulk.files import BuiltFile, build_file, plan_append, plan_files
from rmqindex.bulk.job import check_file_not_indexed, without_indexed
from rmqindex.bulk.sorted_runs import RunSet
from rmqindex.errors import RmqIndexError
from rmqindex.indexwriter.file_lock import ensure_not_appended
from rmqindex.storage.disk import make_directories
from rmqindex.storage.location import Location
from rmqindex.store.checkpoint import present_checkpoint, raise_checkpoint
from rmqindex.store.names import latest_name, next_names
from rmqindex.store.store import index_entries
from rmqindex.times import zone_of
from rmqindex.transaction.broker_lock import BrokerLock
from rmqindex.transaction.local_staging import LocalStaging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import tzinfo

    from rmqindex.bulk.files import FilePlan, IndexState
    from rmqindex.bulk.job import WriteJob
    from rmqindex.bulk.sorted_runs import Order, RunSlice
    from rmqindex.indexwriter.writer import InPlaceAppend
    from rmqindex.transaction.append_undo import AppendUndo, HeaderMark, UndoableAppend
    from rmqindex.transaction.staging import Staging

_HOW_TO_ORDER = (
    "a broker's own search would miss rows. Write with pyspark_rmqindex.write_index(df, path), or "
    "order the rows first: df.repartitionByRange('phy_offset').sortWithinPartitions('phy_offset'); "
    "the option allowOverlap=true accepts such files for use with Spark alone"
)


@dataclass(frozen=True, slots=True)
class Committer:
    """Commits a job; as a context manager, removes everything uncommitted at its end.

    Attributes:
        staging: The job's staging.
        directory: The index directory, links unresolved, since its path leads to the store.
        zone: The time zone of new names; None for the system's.
        allow_live_store: Whether a broker may run on the store.
        checkpoint: Whether the store's checkpoint is raised to cover the index.
    """

    staging: Staging
    directory: Path | Location
    zone: str | tzinfo | None = None
    allow_live_store: bool = False
    checkpoint: bool = False

    @classmethod
    def of(cls, job: WriteJob) -> Committer:
        """Return the committer of a write."""
        options = job.options
        return cls(
            job.staging,
            options.directory,
            options.zone,
            options.allow_live_store,
            options.checkpoint,
        )

    def __enter__(self) -> Self:
        """Return the committer; what a commit would refuse is refused before anything is built."""
        try:
            self._ensure_coverable()
        except BaseException:
            self.staging.discard()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Discard the staging; undo a commit that did not finish."""
        self.staging.discard()

    @contextlib.contextmanager
    def begin(self, *, create: bool = False) -> Iterator[Commit]:
        """Keep brokers and other commits out, and yield an empty commit.

        Where the block is refused, what it made in place is taken back. After any other exception
        it stays, so that a build can be continued.

        Args:
            create: Whether to accept a job that has staged nothing so far.

        Raises:
            RmqIndexError: A broker runs on the store, its checkpoint cannot be read, the staging is
                gone, or another commit did not end.
        """
        with (
            BrokerLock.around(self.directory).hold(allow_live_store=self.allow_live_store) as hold,
            self.staging.exclusive(create=create),
            contextlib.closing(Commit(self, live=hold.is_live)) as commit,
        ):
            self._ensure_coverable()
            self._ensure_not_appended()
            try:
                yield commit
            except RmqIndexError:
                commit.take_back()
                raise

    def _ensure_not_appended(self) -> None:
        """Raise if somebody appends to the newest file: what is put would be lost."""
        directory = Location.of(self.directory).local
        if directory is not None and directory.exists():
            for entry in index_entries(directory)[-1:]:
                ensure_not_appended(entry.path)

    def _ensure_coverable(self) -> None:
        """Raise if the store's checkpoint, which a commit raises, cannot be read."""
        if self.checkpoint:
            present_checkpoint(Path(self.directory))


class Commit:
    """One commit: the files that it adds to the directory, and those that it removes.

    Attributes:
        staging: The job's staging.
        live: Whether a broker runs on the store, where that is allowed.
        built: The new files, in order; :meth:`finish` names them.
        append: The append in place to the last file, if any.
        made: The new files that are visible ahead of the rest, and how each was left.
    """

    def __init__(self, committer: Committer, *, live: bool) -> None:
        """Begin without changes."""
        self.staging = committer.staging
        self.live = live
        self.built: list[BuiltFile] = []
        self.append: InPlaceAppend | None = None
        self.made: dict[str, HeaderMark] = {}
        self._appended: AppendUndo | None = None
        self._aside: list[str] = []
        self._is_created = False
        self._committer = committer
        self._placed: list[tuple[Path, str]] = []
        self._removed: list[str] = []

    def add(self, file: BuiltFile) -> None:
        """Add a built file, in place of the one that it continues or as a new one."""
        if file.continued is None:
            self.built.append(file)
        else:
            self._placed.append((self.staging.path / file.name, file.continued))
            self._removed.append(file.continued)

    def build(self, plan: FilePlan, *, trusted: bool = False) -> None:
        """Append to the file that a plan continues, or build and add a new one.

        Args:
            plan: What the file holds.
            trusted: Whether all slots of the continued file are known to be sound.
        """
        if plan.continued is not None and self.staging.continues_in_place:
            self.append = plan_append(self.staging.path, plan, trusted=trusted)
            return
        name = f"merged-{len(self.built) + len(self._placed)}"
        self.add(build_file(self.staging, name, plan))
        self.staging.publish([name])

    def place(self, names: Sequence[str]) -> None:
        """Add staged files under their own names."""
        self._placed += [(self.staging.path / name, name) for name in names]

    def remove(self, names: Sequence[str]) -> None:
        """Remove files, whether or not new ones take their names.

        Raises:
            RmqIndexError: A writer has one of them open: what it puts would be lost.
        """
        directory = Location.of(self.staging.directory).local
        if directory is not None:
            for name in names:
                ensure_not_appended(directory / name)
        self._removed += names

    def flush(self, append: UndoableAppend) -> None:
        """Commit, ahead of the rest, entries that a file holds but does not count yet."""
        self.staging.commit([], [], append=append)
        if append.undo.record.name not in self.made:
            self._appended = (
                append.undo if self._appended is None else self._appended.then(append.undo)
            )

    def open_directory(self, unfinished: str | None) -> None:
        """Make the directory, to build in place, and set a file aside that is to be made anew."""
        assert isinstance(self.staging, LocalStaging)  # only there can be built in place
        directory = self.staging.directory
        self._is_created = not directory.exists()
        make_directories(directory)
        if unfinished is not None:
            self._aside.append(unfinished)
            self.staging.set_aside(unfinished)

    def take_back(self) -> None:
        """Undo in one step what was made ahead of the rest."""
        if self.made or self._appended or self._aside or self._is_created:
            assert isinstance(self.staging, LocalStaging)  # only there can be built in place
            self.staging.take_back(self.made, self._appended, self._aside, created=self._is_created)

    def finish(
        self,
        there: Sequence[str] = (),
        *,
        replaced: bool = False,
        record: Callable[[Sequence[str]], Mapping[str, object]] | None = None,
    ) -> int | None:
        """Change the directory, in one step.

        Args:
            there: The names that new names must come after.
            replaced: Whether the commit replaces all of them.
            record: Returns the ledger entry, given the names of the new files.

        Returns:
            As :meth:`cover`.

        Raises:
            RmqIndexError: No name is left for a new file, a file to remove is absent, or the
                storage failed.
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
        """Raise the store's checkpoint, if the committer is set to.

        Returns:
            Its ``indexMsgTimestamp`` now, epoch milliseconds; None where it is unchanged.
        """
        if not self._committer.checkpoint:
            return None
        return raise_checkpoint(Path(self._committer.directory)).index_msg_timestamp

    def close(self) -> None:
        """Close the continued file; an append that was not applied is dropped."""
        if self.append is not None:
            self.append.close()

    def _new_names(self, there: Sequence[str], *, replaced: bool) -> list[str]:
        """Name new files by the times of their first entries, after all names ever used."""
        if not self.built:
            return []
        zone = zone_of(self._committer.zone)
        latest = latest_name(zone)
        last_name = self.staging.last_name(there, replaced=replaced, latest=latest)
        begins = [file.header.begin_timestamp for file in self.built]
        return next_names(begins, last_name, zone=zone)


def commit_staged(
    job: WriteJob, runs: Sequence[RunSlice], files: Sequence[BuiltFile], order: Order
) -> None:
    """Commit the rows that the tasks of a write staged as runs or as files.

    The runs are merged into files, which are ordered by offset together with the tasks' files.

    Args:
        job: The write.
        runs: The runs of small tasks, in the order of the partitions.
        files: The files that large tasks built.
        order: The order of the rows in the runs.

    Raises:
        ValueError: Some rows are indexed already.
        RmqIndexError: Files would overlap, a broker holds the store, or the staging is gone.
    """
    with Committer.of(job).begin() as commit:
        state = job.state()
        job.staging.fetch([part.name for part in runs])
        rows = without_indexed(job, state, RunSet(job.staging.path, runs, order))
        for file in files:
            check_file_not_indexed(job, state, file)
        parts = _order(job, rows, sorted(files, key=lambda file: (file.least, file.greatest)))
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
    """Commit files that were planned for one state of the directory.

    Args:
        job: The write.
        state: The state for which the files were planned.
        files: The files, in order.
        continued: The append in place to the last file, if any.

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
class _CommitPart:
    """A range of offsets: a file that a task built, or rows still to merge."""

    least: int
    greatest: int
    rows: RunSet
    file: BuiltFile | None = None


def _order(job: WriteJob, rows: RunSet, files: Sequence[BuiltFile]) -> list[_CommitPart]:
    """Order rows and built files by offset, cutting the rows where a file begins."""
    parts: list[_CommitPart] = []
    position = rows.cut(0)
    for file in [*files, None]:
        stop = rows.cut(len(rows))
        if file is not None:
            stop = np.maximum(position, rows.cut_at_offset(file.least, inclusive=True))
        between = rows.between(position, stop)
        if len(between):
            parts.append(_CommitPart(*between.offset_range(), between))
        if file is not None:
            parts.append(_CommitPart(file.least, file.greatest, between, file))
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
