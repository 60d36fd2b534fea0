"""The files of one job beside a local index directory, and their commit through the journal."""

from __future__ import annotations

import contextlib
import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rmqindex.errors import RmqIndexError
from rmqindex.storage.disk import (
    absent_directories,
    is_plain_name,
    make_directories,
    remove_empty,
    sync_directory,
)
from rmqindex.storage.writable import copy_sparse
from rmqindex.transaction.append_undo import HeaderMark
from rmqindex.transaction.jobs import (
    has_owner,
    hold_lock,
    make_job,
    recover_root,
    remove_job,
    remove_root,
)
from rmqindex.transaction.journal import Journal, root_beside
from rmqindex.transaction.used_names import (
    forget_last_name,
    keep_last_name,
    last_used,
    read_last_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rmqindex.transaction.append_undo import AppendUndo, UndoableAppend
    from rmqindex.transaction.owner import Owner


@dataclass(frozen=True, slots=True)
class LocalStaging:
    """The staging directory of one job; picklable, since tasks and the commit are other processes.

    Attributes:
        directory: The index directory, with symbolic links resolved; it need not exist yet.
        job: The job's name inside the staging root.
        absent: The parents of the directory that were absent, the innermost first: those that are
            still empty go with the job.
    """

    directory: Path
    job: str
    absent: tuple[Path, ...] = field(default=(), compare=False, repr=False)

    @property
    def root(self) -> Path:
        """The staging root, shared by all jobs of the directory."""
        return root_beside(self.directory)

    @property
    def path(self) -> Path:
        """The directory of the job's staged files, removed with the commit or when discarded."""
        return self.root / self.job

    @property
    def continues_in_place(self) -> bool:
        """Whether a commit can append to a file in place."""
        return True

    @property
    def can_move(self) -> bool:
        """Whether a staged file can be moved into the directory, which a mount point prevents."""
        directory = self.directory
        return not directory.exists() or directory.stat().st_dev == directory.parent.stat().st_dev

    @classmethod
    def create(cls, directory: str | os.PathLike[str], owner: Owner) -> LocalStaging:
        """Make the staging directory of a new job, and clean up after dead ones.

        Args:
            directory: The index directory; missing parents are made.
            owner: The process whose death makes the job void.

        Raises:
            RmqIndexError: The directory is a mount point, so that no file can be moved into it in
                one step; or another commit did not end within ten minutes.
        """
        real = Path(os.path.realpath(directory))
        staging = cls(real, f"job-{uuid.uuid4().hex}", absent_directories(real.parent))
        make_directories(staging.directory.parent)
        if not staging.can_move:
            raise RmqIndexError(
                f"{staging.directory}: expected a directory on the file system of its parent, "
                "where the files are staged, got a mount point"
            )
        try:
            with staging._exclusive(create=True):
                staging.make(owner)
        except BaseException:
            staging.discard()
            raise
        return staging

    @classmethod
    def at(cls, directory: str | os.PathLike[str], job: str) -> LocalStaging:
        """Return the staging of a job, whether or not its directory exists.

        Args:
            directory: The index directory.
            job: The job's name, unique among all writers.

        Raises:
            ValueError: The name cannot be a job's, such as a path.
        """
        if not is_plain_name(job):
            raise ValueError(f"job: expected a name of letters, digits, '.', '_', '-', got {job!r}")
        real = Path(os.path.realpath(directory))
        return cls(real, job, absent_directories(real.parent))

    def join(self, owner: Owner) -> None:
        """Make the job's directory unless another task of the job has; nothing else is changed.

        Args:
            owner: The process whose death makes the job void.

        Raises:
            RmqIndexError: Another commit did not end within ten minutes.
        """
        make_directories(self.directory.parent)
        with hold_lock(self.root, create=True):  # a dead commit is left to who holds the store
            self.make(owner)

    def make(self, owner: Owner) -> None:
        """As :meth:`join`, for a caller within :meth:`exclusive`."""
        make_job(self.path, owner)

    @contextlib.contextmanager
    def exclusive(self, *, create: bool = False) -> Iterator[None]:
        """Hold the directory's commit lock, after undoing a dead commit.

        Args:
            create: Whether to accept a job without a directory, since it staged nothing.

        Raises:
            RmqIndexError: The job was discarded, or another commit did not end within ten minutes.
        """
        if create:
            make_directories(self.directory.parent)
        with self._exclusive(create=create):
            yield

    def publish(self, names: Sequence[str]) -> None:
        """Do nothing: tasks and the commit share the staging directory."""

    def fetch(self, names: Sequence[str]) -> None:
        """Do nothing, as :meth:`publish`."""

    def fetch_indexed(self, place: str, name: str) -> None:
        """Copy a file of the index into :attr:`path`, without filling its holes."""
        copy_sparse(Path(place), self.path / name)

    def leave(self) -> None:
        """Do nothing: discarding the job removes its uncommitted files."""

    def ledger(self) -> dict[str, object]:
        """Return the last ledger entry; empty where there is none.

        Call it within :meth:`exclusive`.

        Raises:
            RmqIndexError: The ledger is damaged.
        """
        journal = Journal.read_ledger(self.root)
        return {} if journal is None or journal.ledger is None else journal.ledger

    def last_name(
        self, there: Sequence[str], *, replaced: bool, latest: str | None = None
    ) -> str | None:
        """Return the name that new names must come after; None for any.

        Args:
            there: The names of the present IndexFiles, in the broker's order.
            replaced: Whether the commit replaces all of them.
            latest: The greatest name that is not in the future, as ``last_used`` takes it.

        Raises:
            RmqIndexError: The name that an earlier commit kept is damaged.
        """
        journal = Journal.read_ledger(self.root)
        kept = read_last_name(self.root)
        recorded = [] if kept is None else [kept]
        if journal is not None:
            recorded += [*journal.old, *journal.new]
            recorded += [] if journal.append is None else [journal.append.name]
        return last_used(there, recorded, replaced=replaced, latest=latest)

    def commit(
        self,
        new: Sequence[tuple[Path, str]],
        removed: Sequence[str],
        *,
        append: UndoableAppend | None = None,
        ledger: Mapping[str, object] | None = None,
    ) -> None:
        """Add files to the directory and remove others, in one step.

        Call it within :meth:`exclusive`.
        An exception leaves the old state.

        Args:
            new: The staged files, complete and synced to disk, and their final names.
            removed: The names of the files to remove, whether or not a new one takes the name.
            append: The append to a file of the directory, made in the same step.
            ledger: The ledger entry, as JSON can hold it, that :meth:`ledger` returns from now on.
                A job with one may outlive its owner: its successor can tell what it has done.

        Raises:
            RmqIndexError: A final name belongs to a file that is not to be removed, a file to
                remove is absent, or the job's owner died meanwhile.
        """
        names = tuple(name for _, name in new)
        directory = self.directory
        present = {path.name for path in directory.iterdir()} if directory.exists() else set()
        self._check_names(present, names, removed)
        left = present.difference(removed).union(names)
        keep_last_name(self.root, present, left)
        journal = Journal(
            self.job,
            not self.directory.exists(),
            tuple(removed),
            names,
            _marks((directory / name, name) for name in removed),
            _marks(new),
            None if append is None else append.undo.record,
            None if ledger is None else dict(ledger),
        )
        journal.save(self.root, self.directory)
        journal.write(self.root, None if append is None else append.undo)
        try:
            if append is not None:
                append.apply()
            self._apply(new, removed)
            if ledger is None:
                self._check_owner()
        except BaseException:
            journal.undo(self.root, self.directory)
            raise
        journal.finish(self.root)
        forget_last_name(self.root, left)

    def discard(self) -> None:
        """Remove all files of the job; undo its commit if that did not finish.

        Tasks that still run find no directory to write into.
        Discarding twice, or after the commit, is harmless.
        """
        journal = Journal.read(self.root)
        if journal is not None and journal.job == self.job:
            with self._exclusive(ended=True):
                pass  # taking the lock undoes the commit
        remove_job(self.path)
        remove_root(self.root)
        remove_empty(self.absent)

    def set_aside(self, name: str) -> None:
        """Remove a file of the directory, for :meth:`take_back` to restore.

        Call it within :meth:`exclusive`, once.
        """
        Journal(self.job, False, (name,), (), {}, {}).save(self.root, self.directory)
        (self.directory / name).unlink()

    def take_back(
        self,
        made: Mapping[str, HeaderMark],
        append: AppendUndo | None,
        aside: Sequence[str],
        *,
        created: bool,
    ) -> None:
        """Undo in one step what was made in the directory file by file.

        Call it within :meth:`exclusive`. Nothing is undone where another program has gone on with
        a file, or where the undo of the last step failed.

        Args:
            made: The new files, and how they were left.
            append: The undo of all appends to one other file.
            aside: The names that :meth:`set_aside` removed.
            created: Whether the directory was made, too.

        Raises:
            OSError: The disk is full or broken; the next write then finishes the undo.
        """
        journal = Journal(
            self.job,
            created,
            tuple(aside),
            tuple(made),
            {},
            dict(made),
            None if append is None else append.record,
        )
        is_undone = Journal.read(self.root) is None
        if is_undone and journal.is_as_made(self.root, self.directory):
            journal.write(self.root, append)
            journal.undo(self.root, self.directory)

    def _check_names(self, present: set[str], new: Sequence[str], removed: Sequence[str]) -> None:
        for name in new:
            if name in present and name not in removed:
                raise RmqIndexError(f"{self.directory / name}: expected no such file, got one")
        for name in removed:
            if name not in present:
                raise RmqIndexError(f"{self.directory / name}: expected a file, got none")

    def _apply(self, new: Sequence[tuple[Path, str]], removed: Sequence[str]) -> None:
        make_directories(self.directory)
        for staged, name in new:
            staged.replace(self.directory / name)
        replaced = {name for _, name in new}
        for name in removed:
            if name not in replaced:
                (self.directory / name).unlink()
        if new or removed:
            sync_directory(self.directory)

    def _check_owner(self) -> None:
        """Raise if the owner has died, so that nobody waits for this commit."""
        if not has_owner(self.path):
            raise RmqIndexError(f"{self.directory}: the application ended before the commit")

    @contextlib.contextmanager
    def _exclusive(self, *, create: bool = False, ended: bool = False) -> Iterator[None]:
        with hold_lock(self.root, create=create) as held:
            if held:
                recover_root(self.root, self.directory)
            if not (create or ended or self.path.exists()):
                raise RmqIndexError(f"{self.path}: expected the staged job, got none: it was ended")
            yield


def _marks(files: Iterable[tuple[Path, str]]) -> dict[str, HeaderMark]:
    """Return the marks of files by their names; a file that cannot be read has none."""
    marks = {}
    for path, name in files:
        with contextlib.suppress(PermissionError):
            mark = HeaderMark.read(path)
            if mark is not None:
                marks[name] = mark
    return marks
