"""All or nothing: how many files enter an index directory at once.

A broker's loader must never meet a foreign name in its directory, so everything that is not yet,
or no longer, part of the index lives in a sibling:

```text
<parent>/index/                  the index directory
<parent>/.index.rmqindex/        the staging root, gone when no job needs it
    lock                         held (flock) by whoever commits, recovers or makes a job
    journal.json                 a commit is under way, or died: its old state is the truth
    undo                         the old slots of the file that the commit continues in place
    ledger.json                  the journal of the last commit that recorded something of its own
    last-name                    the last name of an index that was emptied, never used again
    <job>/                       the staged files of one job
    <job>/owner.json             the process that the job belongs to
    <job>/old/                   hard links to the files that a commit replaces or removes
```

The journal is an undo log.
While it exists, readers see the old state, and the next writer restores it; removing it is the
commit point.
So a job that died half way is found undone by its own retry, and nobody ever sees a mixture.

A commit may continue one file where it stands, which costs what it adds and not what is there.
The journal then holds that file's old header, and ``undo`` the old values of the slots that change;
readers get the old ones (:mod:`rmqindex.indexfile.committed`) and never an entry beyond.

A commit may also record something, such as the batch of a stream that it brings in.
That stands in the journal, whose renaming to ``ledger.json`` is then the commit point: what is
recorded and what is in the files change in the same instant.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rmqindex.errors import RmqIndexError
from rmqindex.files.disk import copy_sparse, sync_directory
from rmqindex.files.own_files import (
    INDEX_NAME,
    ensure_directory,
    is_plain_name,
    open_directory,
    open_regular,
    read_own,
    write_own,
)
from rmqindex.files.records import RecordKind
from rmqindex.layout import SLOT_SIZE
from rmqindex.storage.steady import UnsteadyError, read_steady
from rmqindex.transaction.owner import OWNER_RECORD
from rmqindex.transaction.undo import AppendRecord, AppendUndo
from rmqindex.transaction.used_names import (
    NEXT_LAST_NAME,
    forget_last_name,
    keep_last_name,
    last_used,
    read_last_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rmqindex.files.records import Fields
    from rmqindex.transaction.owner import Owner
    from rmqindex.transaction.undo import UndoableAppend

__all__ = [
    "Journal",
    "Staging",
    "effective_listing",
    "recover",
    "staging_root",
    "unfinished_append",
]

_LOCK = "lock"
_JOURNAL = "journal.json"
_NEXT_JOURNAL = "journal.next"
_UNDO = "undo"
_LEDGER = "ledger.json"
_OWNER = "owner.json"
_NEXT_OWNER = "owner.next"
_OLD = "old"
_TRASH = ".trash"
_AN_UNDO = "the old slots of the file that a write continues"
_UNDO_REMEDY = "restore it from a backup, or remove the index and rebuild it"

_LOCK_WAIT_SECONDS = 600.0
_POLL_SECONDS = 0.02
# A directory's time stamp moves with the kernel's tick: where it is as old as that, or in the
# future, the next change gives it another.
_TICK_NANOSECONDS = 20_000_000
_DISTURBED = "a commit began or ended"

_NO_HARD_LINKS = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS}
)


def staging_root(directory: str | os.PathLike[str]) -> Path:
    """Return the staging sibling of an index directory, whether or not it exists."""
    return _root_beside(Path(os.path.realpath(directory)))


def effective_listing(directory: str | os.PathLike[str]) -> dict[str, Path]:
    """List an index directory as its last finished commit left it.

    Args:
        directory: A local index directory.

    Returns:
        Every name in it (index files or not), and where its bytes are: in the directory, or, while
        the journal of an unfinished commit stands, among the files which that commit set aside.

    Raises:
        FileNotFoundError: No such directory, or one that an unfinished commit has made.
        NotADirectoryError: A file.
        RmqIndexError: A journal that cannot be understood, files that a commit set aside are gone,
            or commits began and ended for ten seconds without a pause.
    """
    path = Path(directory)
    root = staging_root(path)
    return read_steady(path, lambda: _list_once(path, root))


def _list_once(directory: Path, root: Path) -> dict[str, Path]:
    """List a directory once.

    The journal is an undo log: while it stands, it tells the old state at once, however long the
    commit takes or waits.

    Raises:
        UnsteadyError: A commit began or ended meanwhile.
    """
    journal = Journal.read(root)
    staged = root.exists()
    asked = time.time_ns()
    changed = directory.stat().st_mtime_ns
    listing = _listing(directory)
    if journal is not None:
        listing, lost = journal.old_state(root, listing)
        if Journal.read(root) != journal:
            raise UnsteadyError(_DISTURBED)
        if lost:
            raise journal.lost_error(root, lost)
        if journal.created and not listing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(directory))
        return listing
    if directory.stat().st_mtime_ns != changed or Journal.read(root) is not None:
        raise UnsteadyError(_DISTURBED)
    if (staged or root.exists()) and abs(asked - changed) <= _TICK_NANOSECONDS:
        raise UnsteadyError("the directory had just changed")
    return listing


def unfinished_append(path: str | os.PathLike[str]) -> AppendUndo | None:
    """Return what a commit under way, or one that died, appends to a file where it stands.

    Args:
        path: A local file.

    Returns:
        How the file was before; None where no such commit is under way.

    Raises:
        RmqIndexError: A journal that cannot be understood, or one commit after the other appended
            to the file for ten seconds.
    """
    directory, name = os.path.split(path)
    root = staging_root(directory)

    def read() -> AppendUndo | None:
        journal = Journal.read(root)
        if journal is None or journal.append is None or journal.append.name != name:
            return None
        undo = journal.read_undo(root)
        if Journal.read(root) != journal:
            raise UnsteadyError("an append to it began or ended")
        return undo or journal.refuse_undo(root)

    return read_steady(path, read)


def recover(directory: str | os.PathLike[str]) -> bool:
    """Undo a commit that died, as the next write would, and remove what dead jobs staged.

    Programs that know nothing of the journal, such as a broker, then find the old state as well.

    Args:
        directory: A local index directory, there or not.

    Returns:
        Whether there was such a commit.

    Raises:
        RmqIndexError: Another program has written to the file that the commit continued, or
            another commit did not end within ten minutes.
        OSError: The disk is full or broken.
    """
    real = Path(os.path.realpath(directory))
    root = _root_beside(real)
    with _lock(root, create=False) as held:
        died = held and Journal.read(root) is not None
        if held:
            _recover(root, real)
    _remove_root(root)
    return died


@dataclass(frozen=True, slots=True)
class Journal:
    """What a commit is about to change: the undo log."""

    job: str
    created: bool
    old: tuple[str, ...]
    new: tuple[str, ...]
    append: AppendRecord | None = None
    ledger: dict[str, object] | None = None

    @classmethod
    def read(cls, root: Path, file: str = _JOURNAL) -> Journal | None:
        """Read a journal, or the ledger; None where there is none."""
        return (_JOURNAL_RECORD if file == _JOURNAL else _LEDGER_RECORD).read(root / file)

    @classmethod
    def of(cls, fields: Fields) -> Journal:
        """Rebuild a journal from its record."""
        append, ledger = fields.inner("append"), fields.inner("ledger")
        job = fields.text("job")
        if not is_plain_name(job):
            raise ValueError(f"job: expected a name, got {job!r}")
        record = None if append is None else AppendRecord.of(append)
        if record is not None and not INDEX_NAME.fullmatch(record.name):
            raise ValueError(f"append: expected the name of an IndexFile, got {record.name!r}")
        return cls(
            job,
            fields.flag("created"),
            fields.names("old", INDEX_NAME, "names of IndexFiles"),
            fields.names("new", INDEX_NAME, "names of IndexFiles"),
            record,
            None if ledger is None else ledger.values,
        )

    def write(self, root: Path) -> None:
        """Write the journal, and sync it to disk."""
        fields = {
            "job": self.job,
            "created": self.created,
            "old": self.old,
            "new": self.new,
            "append": None if self.append is None else self.append.to_dict(),
            "ledger": self.ledger,
        }
        write_own(root / _NEXT_JOURNAL, _JOURNAL_RECORD.encode(str(root / _JOURNAL), fields))
        (root / _NEXT_JOURNAL).replace(root / _JOURNAL)
        sync_directory(root)

    def finish(self, root: Path) -> None:
        """Pass the commit point."""
        if self.ledger is None:
            self.remove(root)
        else:
            (root / _JOURNAL).replace(root / _LEDGER)
            sync_directory(root)

    def remove(self, root: Path) -> None:
        """Remove the journal, which is the commit point without a ledger."""
        (root / _JOURNAL).unlink()
        sync_directory(root)

    def read_undo(self, root: Path) -> AppendUndo | None:
        """Read the old slots of the file that is continued; None where they are others."""
        if self.append is None:
            return None
        limit = 2 * SLOT_SIZE * self.append.hash_slot_num
        slots = read_own(root / _UNDO, limit, _AN_UNDO, _UNDO_REMEDY)
        if slots is None:  # the commit died before it changed anything
            return AppendUndo.without_slots(self.append)
        return AppendUndo.of(self.append, slots)

    def refuse_undo(self, root: Path) -> NoReturn:
        """Raise since the slots that are there are not those of the journal."""
        raise RmqIndexError(
            f"{root / _UNDO}: expected {_AN_UNDO}, got others than {root / _JOURNAL} says; "
            f"{_UNDO_REMEDY}"
        )

    def _saved(self, root: Path) -> Path:
        """Return where the old files are, if they are there."""
        ensure_directory(root)
        ensure_directory(root / self.job)
        ensure_directory(root / self.job / _OLD)
        return root / self.job / _OLD

    def old_state(self, root: Path, listing: dict[str, Path]) -> tuple[dict[str, Path], list[str]]:
        """Return what a directory held before the commit, given what it holds now.

        Also returned are the names of the files that it held and that are nowhere any more.
        """
        saved = self._saved(root)
        state = {name: path for name, path in listing.items() if name not in self.new}
        for name in self.old:
            if (saved / name).exists():
                state[name] = saved / name
        return state, [name for name in self.old if name not in state]

    def lost_error(self, root: Path, lost: list[str]) -> RmqIndexError:
        """Return the error of a commit whose old state cannot be had."""
        return RmqIndexError(
            f"{self._saved(root) / lost[0]}: expected the file as it was before the commit of "
            f"{root / _JOURNAL}, got none; put it back, or remove the journal to accept the index "
            "as it is and run rmqindex verify"
        )

    def _ensure_saved(self, root: Path, directory: Path) -> None:
        """Refuse to restore an old state that cannot be had."""
        _, lost = self.old_state(root, _listing(directory) if directory.exists() else {})
        if lost:
            raise self.lost_error(root, lost)

    def undo(self, root: Path, directory: Path) -> None:
        """Restore the old state; may die and be repeated at any point."""
        job, saved = root / self.job, self._saved(root)
        self._ensure_saved(root, directory)
        if self.append is not None:
            undo = self.read_undo(root) or self.refuse_undo(root)
            if (directory / self.append.name).exists():
                try:
                    undo.restore(directory / self.append.name)
                except RmqIndexError as error:
                    raise RmqIndexError(
                        f"{error}, or remove {root / _JOURNAL} to accept the file as it is"
                    ) from error
        for name in self.new:
            if name not in self.old:
                (directory / name).unlink(missing_ok=True)
        for name in self.old:
            if (saved / name).exists():
                restored = job / f"restored-{name}"
                restored.unlink(missing_ok=True)
                _link_or_copy(saved / name, restored)
                restored.replace(directory / name)
        if self.created:
            with contextlib.suppress(OSError):  # someone else put a file there: it stays
                directory.rmdir()
        if directory.exists():
            sync_directory(directory)
        self.remove(root)


_JOURNAL_RECORD = RecordKind(
    "the journal of a write",
    Journal.of,
    "restore it from a backup, or remove it and rebuild the index: without it, the write that it "
    "belongs to cannot be undone",
)
_LEDGER_RECORD = replace(
    _JOURNAL_RECORD,
    remedy="restore it from a backup; a ledger that is removed forgets which batches of streams "
    "are in the index",
)


@dataclass(frozen=True, slots=True)
class Staging:
    """The staging directory of one job; picklable, since tasks and the commit are other processes.

    Attributes:
        directory: The index directory, with symbolic links resolved; it need not exist yet.
        job: The job's name inside the staging root.
    """

    directory: Path
    job: str

    @property
    def root(self) -> Path:
        """The staging root, shared by all jobs of the directory."""
        return _root_beside(self.directory)

    @property
    def path(self) -> Path:
        """Where the job's files are staged; it is gone once the job is committed or discarded."""
        return self.root / self.job

    @property
    def can_move(self) -> bool:
        """Whether files can be moved into the directory in one step: it is no mount point."""
        directory = self.directory
        return not directory.exists() or directory.stat().st_dev == directory.parent.stat().st_dev

    @classmethod
    def create(cls, directory: str | os.PathLike[str], owner: Owner) -> Staging:
        """Make the staging directory of a new job, and undo what dead jobs left.

        Args:
            directory: The index directory; its parents are made where they are missing.
            owner: The process whose death makes the job void.

        Raises:
            RmqIndexError: The directory is a mount point of its own, so that nothing can be moved
                into it in one step; or another commit did not end within ten minutes.
        """
        staging = cls(Path(os.path.realpath(directory)), f"job-{uuid.uuid4().hex}")
        staging.directory.parent.mkdir(parents=True, exist_ok=True)
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
    def at(cls, directory: str | os.PathLike[str], job: str) -> Staging:
        """Name the staging directory of a job, whether or not it is there.

        Args:
            directory: The index directory.
            job: The job's name, which no job of another writer has.

        Raises:
            ValueError: What cannot name a directory of ours, such as a path.
        """
        if not is_plain_name(job):
            raise ValueError(f"job: expected a name of letters, digits, '.', '_', '-', got {job!r}")
        return cls(Path(os.path.realpath(directory)), job)

    def join(self, owner: Owner) -> None:
        """Make the job's directory, unless another task of the job has done so.

        Args:
            owner: The process whose death makes the job void.

        Raises:
            RmqIndexError: Another commit did not end within ten minutes.
        """
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        with self._exclusive(create=True):
            self.make(owner)

    def make(self, owner: Owner) -> None:
        """Do what :meth:`join` does, for a caller within :meth:`exclusive`."""
        ensure_directory(self.path)
        if not self.path.exists():
            self.path.mkdir()
            # Whole or not at all: who dies here leaves no half of it, which nobody could judge.
            data = OWNER_RECORD.encode(str(self.path / _OWNER), owner.to_dict())
            write_own(self.path / _NEXT_OWNER, data)
            (self.path / _NEXT_OWNER).replace(self.path / _OWNER)

    @contextlib.contextmanager
    def exclusive(self, *, create: bool = False) -> Iterator[None]:
        """Hold the directory's commit lock, after undoing what a dead commit left.

        Args:
            create: Whether the job may have no directory of its own, since it staged nothing.

        Raises:
            RmqIndexError: The job was discarded, or another commit did not end within ten minutes.
        """
        if create:
            self.directory.parent.mkdir(parents=True, exist_ok=True)
        with self._exclusive(create=create):
            yield

    def publish(self, names: Sequence[str]) -> None:
        """Do nothing: tasks and the commit share the staging directory."""

    def fetch(self, names: Sequence[str]) -> None:
        """Do nothing, as :meth:`publish`."""

    def leave(self) -> None:
        """Do nothing: what is not committed goes when the job is discarded."""

    def ledger(self) -> dict[str, object]:
        """Return what the last commit that recorded something has recorded; empty for nothing.

        To be called within :meth:`exclusive`.

        Raises:
            RmqIndexError: A ledger that cannot be understood.
        """
        journal = Journal.read(self.root, _LEDGER)
        return {} if journal is None or journal.ledger is None else journal.ledger

    def last_name(self, there: Sequence[str], *, replaced: bool) -> str | None:
        """Return the name after which new files must be named; None for any.

        Args:
            there: The names of the IndexFiles that are there, in the broker's order.
            replaced: Whether new ones replace them all.

        Raises:
            RmqIndexError: What earlier commits kept cannot be understood.
        """
        journal = Journal.read(self.root, _LEDGER)
        kept = read_last_name(self.root)
        recorded = [] if kept is None else [kept]
        if journal is not None:
            recorded += [*journal.old, *journal.new]
            recorded += [] if journal.append is None else [journal.append.name]
        return last_used(there, recorded, replaced=replaced)

    def commit(
        self,
        new: Sequence[tuple[Path, str]],
        removed: Sequence[str],
        *,
        append: UndoableAppend | None = None,
        ledger: Mapping[str, object] | None = None,
    ) -> None:
        """Bring files into the directory and take others out of it, as one step.

        To be called within :meth:`exclusive`.
        An exception leaves the old state.

        Args:
            new: The staged files, complete and synced to disk, and their final names.
            removed: Names of files that go, be it without or by replacement.
            append: What is appended to a file of the directory, in the same step.
            ledger: What :meth:`ledger` is to return from now on, as JSON can hold it.
                A job that records something may outlive its owner: who comes after it can tell
                what it has done.

        Raises:
            RmqIndexError: A final name is taken by a file that is not to be removed, a file to be
                removed is not there, or the job's owner died meanwhile.
        """
        names = tuple(name for _, name in new)
        present = _names(self.directory) if self.directory.exists() else set()
        self._check_names(present, names, removed)
        left = present.difference(removed).union(names)
        keep_last_name(self.root, present, left)
        if removed:
            saved = self.path / _OLD
            saved.mkdir()
            for name in removed:
                _link_or_copy(self.directory / name, saved / name)
            sync_directory(saved)
        if append is not None:
            write_own(self.root / _UNDO, append.undo.to_bytes())
        journal = Journal(
            self.job,
            not self.directory.exists(),
            tuple(removed),
            names,
            None if append is None else append.undo.record,
            None if ledger is None else dict(ledger),
        )
        journal.write(self.root)
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
        if append is not None:
            (self.root / _UNDO).unlink(missing_ok=True)
        forget_last_name(self.root, left)

    def discard(self) -> None:
        """Remove everything that the job staged; undo its commit if that did not finish.

        Tasks that still run find no directory to write into.
        Discarding twice, or after the commit, is harmless.
        """
        journal = Journal.read(self.root)
        if journal is not None and journal.job == self.job:
            with self._exclusive(ended=True):
                pass  # taking the lock undoes it
        _remove_job(self.path)
        _remove_root(self.root)

    def _check_names(self, present: set[str], new: Sequence[str], removed: Sequence[str]) -> None:
        for name in new:
            if name in present and name not in removed:
                raise RmqIndexError(f"{self.directory / name}: expected no such file, got one")
        for name in removed:
            if name not in present:
                raise RmqIndexError(f"{self.directory / name}: expected a file, got none")

    def _apply(self, new: Sequence[tuple[Path, str]], removed: Sequence[str]) -> None:
        self.directory.mkdir(exist_ok=True)
        for staged, name in new:
            staged.replace(self.directory / name)
        replaced = {name for _, name in new}
        for name in removed:
            if name not in replaced:
                (self.directory / name).unlink()
        if new or removed:
            sync_directory(self.directory)

    def _check_owner(self) -> None:
        """Notice, at the last moment, that nobody waits for this commit any more."""
        owner = OWNER_RECORD.read(self.path / _OWNER)
        if owner is None or owner.is_gone():
            raise RmqIndexError(f"{self.directory}: the application ended before the commit")

    @contextlib.contextmanager
    def _exclusive(self, *, create: bool = False, ended: bool = False) -> Iterator[None]:
        with _lock(self.root, create=create) as held:
            if held:
                _recover(self.root, self.directory)
            if not (create or ended or self.path.exists()):
                raise RmqIndexError(f"{self.path}: expected the staged job, got none: it was ended")
            yield


@contextlib.contextmanager
def _lock(root: Path, *, create: bool) -> Iterator[bool]:
    """Hold the lock of a staging root; yields False where the root is gone.

    Whoever leaves last removes the lock file, so the one that was locked must still be the one
    that has the name.
    """
    deadline = time.monotonic() + _LOCK_WAIT_SECONDS
    path = root / _LOCK
    while True:
        try:
            if create:
                root.mkdir(exist_ok=True)
            ensure_directory(root)
            descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:
            if not create:
                yield False
                return
            if not root.parent.exists():
                raise
        else:
            try:
                if _try_lock(descriptor) and _has_name(descriptor, path):
                    yield True
                    return
            finally:
                os.close(descriptor)
        if time.monotonic() > deadline:
            raise RmqIndexError(
                f"{path}: another write has been committing for ten minutes; end it, or run this "
                "again when it is done"
            )
        time.sleep(_POLL_SECONDS)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _has_name(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _recover(root: Path, directory: Path) -> None:
    """Undo an unfinished commit and remove the jobs of dead owners; the lock is held."""
    journal = Journal.read(root)
    if journal is not None:
        journal.undo(root, directory)
    # Of a commit that died before, or after, its journal.
    for name in (_NEXT_JOURNAL, _UNDO, NEXT_LAST_NAME):
        (root / name).unlink(missing_ok=True)
    for path in sorted(root.iterdir()):
        if path.is_symlink():
            continue
        if path.name.endswith(_TRASH):
            _remove_tree(path)
        elif path.is_dir() and _is_void(path):
            _remove_job(path)


def _root_beside(real: Path) -> Path:
    return real.parent / f".{real.name}.rmqindex"


def _listing(directory: Path) -> dict[str, Path]:
    return {path.name: path for path in directory.iterdir()}


def _names(directory: Path) -> set[str]:
    return set(_listing(directory))


def _is_void(job: Path) -> bool:
    """Tell whether nobody works on a job any more; one whose owner is unreadable may be alive."""
    try:
        owner = OWNER_RECORD.read(job / _OWNER)
    except (OSError, RmqIndexError):
        return False
    # A job without an owner died while it was made, since that happens under the lock.
    return owner is None or owner.is_gone()


def _remove_job(path: Path) -> None:
    """Remove a job directory: first its name, so that straggling tasks cannot add to it."""
    trash = path.with_name(path.name + _TRASH)
    if not os.path.lexists(path):  # which a read-only disk would not say
        return
    try:
        with open_directory(path.parent) as root:
            os.rename(path.name, trash.name, src_dir_fd=root, dst_dir_fd=root)
    except FileNotFoundError:
        return
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    _remove_tree(trash)


def _remove_tree(path: Path) -> None:
    with open_directory(path.parent) as root:
        shutil.rmtree(path.name, ignore_errors=True, dir_fd=root)


def _remove_root(root: Path) -> None:
    """Remove the staging root when no job is left in it and nobody holds its lock."""
    try:
        ensure_directory(root)
        descriptor = open_regular(root / _LOCK, os.O_RDWR)
    except (OSError, RmqIndexError):
        return
    try:
        if _try_lock(descriptor) and _names(root) == {_LOCK}:
            (root / _LOCK).unlink()
            root.rmdir()
    except OSError:  # a new job came in between, or the directory is not ours to remove
        pass
    finally:
        os.close(descriptor)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        target.unlink(missing_ok=True)
        copy_sparse(source, target)
