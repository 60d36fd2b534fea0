"""The jobs of a staging root: each has a directory, and is void once its owner is dead.

Whoever commits, recovers or makes a job holds the root's lock.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rmqindex.errors import RmqIndexError
from rmqindex.storage.disk import ensure_directory, naming, open_directory, open_regular
from rmqindex.storage.writable import write_own
from rmqindex.transaction.journal import Journal, remove_leftovers, root_beside
from rmqindex.transaction.owner import OWNER_RECORD, Owner

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK = "lock"
_LOCK_WAIT_SECONDS = 600.0
_POLL_SECONDS = 0.02
_OWNER = "owner.json"
_NEXT_OWNER = "owner.next"
_TRASH = ".trash"


@contextlib.contextmanager
def hold_lock(root: Path, *, create: bool) -> Iterator[bool]:
    """Hold the lock of a staging root; yields False where the root is gone.

    The last holder removes the lock file, so the locked file must still be the one with the name.
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
                if _try_lock(descriptor, path) and _has_name(descriptor, path):
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


def remove_root(root: Path) -> None:
    """Remove the staging root when no job is left in it and nobody holds its lock."""
    try:
        ensure_directory(root)
        descriptor = open_regular(root / _LOCK, os.O_RDWR)
    except (OSError, RmqIndexError):
        return
    try:
        if _try_lock(descriptor, root / _LOCK) and list(root.iterdir()) == [root / _LOCK]:
            (root / _LOCK).unlink()
            root.rmdir()
    except OSError:  # a new job came in between, or this process may not remove the directory
        pass
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, path: Path) -> bool:
    try:
        with naming(path):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _has_name(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


class Recovery(enum.StrEnum):
    """What was done about a dead write."""

    UNDONE = "undone"
    FINISHED = "finished"
    REMOVED = "removed"


def recover(directory: str | os.PathLike[str]) -> Recovery | None:
    """Undo a dead commit, as the next write would, and remove the files of dead jobs.

    Programs that do not know the journal, such as a broker, then find the old state as well.
    Where such a program has gone on with what the commit brought in, the commit is finished.
    """
    real = Path(os.path.realpath(directory))
    root = root_beside(real)
    done = None
    with hold_lock(root, create=False) as held:
        if held:
            jobs = [path for path in root.iterdir() if path.is_dir()]
            done = recover_root(root, real)
            if done is None and not all(path.exists() for path in jobs):
                done = Recovery.REMOVED
    remove_root(root)
    return done


def recover_root(root: Path, directory: Path) -> Recovery | None:
    """Undo or finish a dead commit and remove the jobs of dead owners; needs the lock."""
    journal, done = Journal.read(root), None
    if journal is not None:
        is_finished = journal.recover(root, directory)
        done = Recovery.FINISHED if is_finished else Recovery.UNDONE
    remove_leftovers(root)
    for path in sorted(root.iterdir()):
        if path.is_symlink():
            continue
        if path.name.endswith(_TRASH):
            _remove_tree(path)
        elif path.is_dir() and _is_void(path):
            remove_job(path)
    return done


def dead_jobs(directory: Path) -> list[Path]:
    """Return the directories that dead jobs left beside a local index directory."""
    try:
        paths = sorted(root_beside(Path(os.path.realpath(directory))).iterdir())
    except OSError:
        return []
    return [path for path in paths if path.is_dir() and not path.is_symlink() and _is_void(path)]


def make_job(path: Path, owner: Owner) -> None:
    """Make the directory of a job unless it exists; needs the lock.

    That of a dead run of the same job, such as of the same batch of a stream, is made anew: what
    joins it would else be removed with it.
    """
    ensure_directory(path)
    if path.exists() and _is_void(path):
        journal = Journal.read(path.parent)
        if journal is None or journal.job != path.name or not journal.old:
            remove_job(path)
    if not path.exists():
        path.mkdir()
        # Make it in one step: nobody could judge a half-made job of a dead process.
        write_own(path / _NEXT_OWNER, OWNER_RECORD.encode(str(path / _OWNER), owner.to_dict()))
        (path / _NEXT_OWNER).replace(path / _OWNER)


def has_owner(path: Path) -> bool:
    """Return whether the process that a job belongs to may still run."""
    owner = OWNER_RECORD.read(path / _OWNER)
    return owner is not None and not owner.is_gone


def _is_void(job: Path) -> bool:
    """Return whether a job is dead; one whose owner's record is damaged may be alive."""
    try:
        # A job without an owner died while it was being made, since that happens under the lock.
        return not has_owner(job)
    except (OSError, RmqIndexError):
        return False


def remove_job(path: Path) -> None:
    """Remove a job directory, its name first, so that late tasks cannot add to it."""
    trash = path.with_name(path.name + _TRASH)
    if not os.path.lexists(path):  # a read-only disk does not report it
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
