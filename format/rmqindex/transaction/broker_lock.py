"""The lock of a store, which its broker or a writer holds (RocketMQ: ``DefaultMessageStore``).

A running broker holds a POSIX record lock on the first byte of ``<store root>/lock``, and keeps
``<store root>/abort`` from start to clean stop.
Writers hold the same byte by an open-file-description lock, which conflicts with the broker's, and
which no other descriptor of the file releases when it is closed.
A second byte, far behind the file's end, tells which process writes.

Writers of one directory, in a store or not, also share a lock of it, but for one that must be
alone, as a broker is: an :class:`rmqindex.IndexDirectory`.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import functools
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Self

from rmqindex.errors import RmqIndexError
from rmqindex.layout.store import (
    ABORT_NAME,
    CHECKPOINT_NAME,
    COMMITLOG_FOLDER,
    DLEDGER_PREFIX,
    LOCK_NAME,
)
from rmqindex.storage.disk import (
    ensure_opener,
    lock_byte,
    lock_directory,
    locked_by,
    open_to_read,
    unlock,
)
from rmqindex.storage.location import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A writer also locks this byte plus its process id.
_WRITERS = 1 << 40
_MOST_PIDS = 1 << 32
# How often a lock that has neither a process nor a writer's byte is looked at: a writer may have
# ended in between, and a lock of another machine never has them.
_LOOKS = 8

_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)
_NO_LOCKS = (errno.ENOLCK, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)


class BrokerState(enum.Enum):
    """What a store tells about its broker.

    Attributes:
        RUNNING: A broker runs on the store: it holds the lock.
        CRASHED: None runs, and the last one did not stop cleanly: the file ``abort`` is there, the
            lock is free.
        STOPPED: None runs, and the last one stopped cleanly: it left a checkpoint.
        UNKNOWN: The lock cannot be asked, so that a broker may run.
        NONE: Nothing tells of a broker, as in a copy of an index or in an object store, in which
            no broker writes.
    """

    RUNNING = "running"
    CRASHED = "crashed"
    STOPPED = "stopped"
    UNKNOWN = "unknown"
    NONE = "none"

    @property
    def may_run(self) -> bool:
        """Whether a broker runs, as far as anybody can tell."""
        return self in (BrokerState.RUNNING, BrokerState.UNKNOWN)


class _Holder(NamedTuple):
    """Who holds a lock: a process, 0 where it is unknown, and whether it is a writer of ours."""

    path: Path
    pid: int
    is_writer: bool


@dataclass(frozen=True, slots=True)
class BrokerLock:
    """The lock of a store; asking opens and closes the file, which releases no lock of ours.

    Each question looks anew, so an answer is as of its moment; only :meth:`hold` keeps it true.
    A classic POSIX lock (``fcntl.lockf``) that the asking process itself has on the file is lost
    when it asks, as POSIX has it.

    Attributes:
        roots: The store roots whose lock counts; none for an object store, where no broker writes.
        directory: The folder that is written to, where it is known.
    """

    roots: tuple[Path, ...]
    directory: Path | None = None

    @classmethod
    def of(cls, root: str | os.PathLike[str]) -> Self:
        """Return the lock of a store root, which may be absent."""
        local = Location.of(root).absolute.local
        return cls(() if local is None else (local,))

    @classmethod
    def around(cls, directory: str | os.PathLike[str]) -> Self:
        """Return the lock of the store that a folder such as ``index`` is in.

        Args:
            directory: The folder, which may be absent. For a symbolic link, the lock is that of
                both the link's parent and the target's.
        """
        link = Location.of(directory).absolute.local
        if link is None:
            return cls(())
        # The broker's own path is tried first, with links unresolved.
        return cls(tuple(dict.fromkeys((link.parent, Path(os.path.realpath(link)).parent))), link)

    @property
    def state(self) -> BrokerState:
        """What is known of the broker: the one judgement of it."""
        if self.broker is not None:
            return BrokerState.RUNNING
        if self.fault is not None:
            return BrokerState.UNKNOWN
        if not self._has(ABORT_NAME):
            return BrokerState.STOPPED if self._has(CHECKPOINT_NAME) else BrokerState.NONE
        # A broker makes abort once it has the lock: it may have started in between.
        return BrokerState.CRASHED if self.broker is None else BrokerState.RUNNING

    @property
    def is_told(self) -> bool:
        """Whether there is a lock file that tells if a broker runs."""
        return any(os.access(root / LOCK_NAME, os.R_OK, effective_ids=True) for root in self.roots)

    @property
    def broker(self) -> int | None:
        """The process of the broker that runs; 0 where it is unknown, None where none runs."""
        holders = self._holders()
        return next((each.pid for each in holders if not each.is_writer), None)

    @property
    def writer(self) -> int | None:
        """The process of rmqindex that writes into the store, maybe this one; None where none."""
        return next((each.pid for each in self._holders() if each.is_writer), None)

    @property
    def fault(self) -> tuple[Path, OSError] | None:
        """A lock file that cannot be asked, and why; None where all tell."""
        for path, answer in self._answers():
            if isinstance(answer, OSError):
                return path, answer
        return None

    def ensure_free(self, *, allow_live_store: bool = False) -> None:
        """Raise if a broker runs on the store, or another process writes into it.

        Args:
            allow_live_store: Whether a broker may run.

        Raises:
            RmqIndexError: A broker runs, or may run, and that is not allowed, or another process
                writes.
        """
        fault = self.fault
        if fault is not None and not allow_live_store:
            raise _no_lock(*fault)
        for holder in self._holders():
            if not (holder.is_writer and _is_own(holder.path)):
                _refuse(holder, allow_live_store=allow_live_store)

    def hold(self, *, allow_live_store: bool = False, alone: bool = False) -> StoreHold:
        """Keep brokers from starting, and other processes from writing, until it is closed.

        It can be held any number of times in one process, by any thread; the last to close it
        releases it. A process that is forked meanwhile does not hold it.
        A store whose broker has not made the file ``lock`` yet gets it.

        Args:
            allow_live_store: Whether to go on where a broker runs.
            alone: Whether the caller will lock the directory for itself, once it is there.

        Returns:
            The hold, a context manager.

        Raises:
            RmqIndexError: A broker runs, and that is not allowed; another process writes; the file
                cannot be locked; or a writer must be alone in the directory.
        """
        hold = StoreHold()
        try:
            for root in self.roots:
                hold.add(root / LOCK_NAME, allow_live_store=allow_live_store)
            if self.directory is not None and not alone:
                hold.share(self.directory)
        except BaseException:
            hold.close()
            raise
        return hold

    def _has(self, name: str) -> bool:
        return any(os.path.lexists(root / name) for root in self.roots)

    def _holders(self) -> Iterator[_Holder]:
        return (answer for _, answer in self._answers() if isinstance(answer, _Holder))

    def _answers(self) -> Iterator[tuple[Path, _Holder | OSError | None]]:
        for root in self.roots:
            path = root / LOCK_NAME
            yield path, _holder(path)


class StoreHold:
    """What :meth:`BrokerLock.hold` returns: the locks that one caller of this process holds.

    Attributes:
        is_live: Whether a broker runs on the store, where that was allowed.
    """

    def __init__(self) -> None:
        """Begin without a lock."""
        self.is_live = False
        self._held: list[_Held] = []
        self._process = os.getpid()

    def ensure_own(self, path: Path) -> None:
        """Raise in a forked process, whose parent has the locks with which a path is written."""
        ensure_opener(path, self._process)

    def add(self, path: Path, *, allow_live_store: bool) -> None:
        """Hold one more lock file, as :meth:`BrokerLock.hold` does."""
        for _ in range(_LOOKS):
            try:
                descriptor = _open(path)
                held = None if descriptor is None else _hold(descriptor, _lock_store)
            except OSError as error:
                if not allow_live_store:
                    raise _no_lock(path, error) from error
                self.is_live = True  # as far as anybody can tell
                return
            if held is not None:
                self._held.append(held)
            if held is not None or descriptor is None:
                return
            holder = _holder(path)
            if isinstance(holder, _Holder):
                _refuse(holder, allow_live_store=allow_live_store)
                self.is_live = True
                return
            # It was released in between.
        _refuse(_Holder(path, 0, is_writer=False), allow_live_store=allow_live_store)
        self.is_live = True

    def share(self, directory: Path, *, alone: bool = False) -> None:
        """Hold a directory that is there, as one of its writers, or alone."""
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:  # absent, or to be refused by whoever writes into it
            return
        lock = functools.partial(lock_directory, alone=alone)
        held = _hold(descriptor, lock, alone=alone)
        if held is None:
            other = "other writer" if alone else "writer that must be alone in it"
            raise RmqIndexError(
                f"{directory}: expected no {other}, got one, such as a writable IndexDirectory, of "
                "this process or another; close it first, or share it, as threads may"
            )
        self._held.append(held)

    def close(self) -> None:
        """Release the locks, unless another caller of this process still holds them."""
        held, self._held = self._held, []
        for each in held:
            _release(each)

    def __enter__(self) -> Self:
        """Return the hold."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def __reduce__(self) -> NoReturn:
        """Refuse to be sent to another process, which would not hold anything."""
        raise TypeError("StoreHold: expected to stay in its process")

    def __del__(self) -> None:
        """Close it, where a caller forgot to."""
        self.close()


@dataclass(slots=True, eq=False)
class _Held:
    """A lock that this process holds, by whichever of its callers."""

    identity: tuple[int, int]
    descriptor: int
    alone: bool
    count: int = 1


class _Process:
    """The locks of this process, by the file's device and inode."""

    def __init__(self) -> None:
        self.mutex = threading.RLock()  # a finalizer may release while its thread holds
        self.held: dict[tuple[int, int], _Held] = {}

    def begin_fork(self) -> None:
        """Wait until no lock is being taken or released."""
        self.mutex.acquire()

    def end_fork(self) -> None:
        """Go on in the parent."""
        self.mutex.release()

    def forget(self) -> None:
        """Leave the locks to the parent, in its child: they end when the parent releases them."""
        for held in self.held.values():
            with contextlib.suppress(OSError):
                os.close(held.descriptor)
        self.mutex = threading.RLock()
        self.held = {}


_PROCESS = _Process()
os.register_at_fork(
    before=_PROCESS.begin_fork, after_in_parent=_PROCESS.end_fork, after_in_child=_PROCESS.forget
)


def _open(path: Path) -> int | None:
    """Open a lock file to hold it; None where there is no store, or none that can have one."""
    try:
        return open_to_read(path, os.O_RDWR)
    except RmqIndexError:  # a pipe, which no broker locks
        return None
    except OSError as error:
        if error.errno in _NO_FILE:
            return _create(path)
        if error.errno not in _NOT_WRITABLE:
            raise
    return open_to_read(path, os.O_RDONLY)  # a shared lock keeps a broker out as well


def _create(path: Path) -> int | None:
    """Make the lock file of a store, as its broker would."""
    root = path.parent
    if path.is_dir() or not _is_store(root):
        return None
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno in _NOT_WRITABLE:  # a broker cannot start here, either
            return None
        raise
    owner = root.stat()
    if owner.st_uid != os.geteuid():
        with contextlib.suppress(PermissionError):  # a broker of another user opens it, too
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


def _is_store(root: Path) -> bool:
    """Return whether a broker ran in a directory, or would find a log there."""
    try:
        with os.scandir(root) as entries:
            return any(
                entry.name == COMMITLOG_FOLDER or entry.name.startswith(DLEDGER_PREFIX)
                if entry.is_dir()
                else entry.name in (ABORT_NAME, CHECKPOINT_NAME)
                for entry in entries
            )
    except OSError:
        return False


def _hold(descriptor: int, lock: Callable[[int], bool], *, alone: bool = False) -> _Held | None:
    """Lock an open file, or count one more caller; None, and closed, where another holds it."""
    status = os.fstat(descriptor)
    identity = (status.st_dev, status.st_ino)
    with _PROCESS.mutex:
        held = _PROCESS.held.get(identity)
        if held is not None:
            os.close(descriptor)
            if alone or held.alone:
                return None
            held.count += 1
            return held
        is_locked = False
        try:
            is_locked = lock(descriptor)
        finally:
            if not is_locked:
                os.close(descriptor)
        if not is_locked:
            return None
        _PROCESS.held[identity] = held = _Held(identity, descriptor, alone)
        return held


def _lock_store(descriptor: int) -> bool:
    return all(lock_byte(descriptor, start) for start in (_WRITERS + os.getpid(), 0))


def _release(held: _Held) -> None:
    with _PROCESS.mutex:
        held.count -= 1
        if held.count or _PROCESS.held.get(held.identity) is not held:  # of the process forked from
            return
        del _PROCESS.held[held.identity]
        unlock(held.descriptor)
        os.close(held.descriptor)


def _holder(path: Path) -> _Holder | OSError | None:
    """Return who holds a lock file, if anybody does; an error where that cannot be asked."""
    try:
        descriptor = open_to_read(path, os.O_RDONLY)
    except RmqIndexError:  # not a file
        return None
    except OSError as error:
        return None if error.errno in _NO_FILE else error
    try:
        return _holder_of(path, descriptor)
    except OSError as error:
        return None if error.errno in _NO_LOCKS else error
    finally:
        os.close(descriptor)


def _holder_of(path: Path, descriptor: int) -> _Holder | None:
    for _ in range(_LOOKS):
        lock = locked_by(descriptor, 0)
        if lock is None:
            return None
        _, pid = lock
        if pid > 0:  # a process lock: none of ours
            return _Holder(path, pid, is_writer=False)
        writer = locked_by(descriptor, _WRITERS, _MOST_PIDS)
        if writer is not None:
            start, _ = writer
            return _Holder(path, start - _WRITERS, is_writer=True)
    return _Holder(path, 0, is_writer=False)


def _is_own(path: Path) -> bool:
    """Return whether this process holds a lock file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    return (status.st_dev, status.st_ino) in _PROCESS.held


def _refuse(holder: _Holder, *, allow_live_store: bool) -> None:
    """Raise for a holder unless it is allowed."""
    who = f"process {holder.pid}" if holder.pid else "a process of another machine"
    got = f"{holder.path}: expected no lock, got one held by {who}"
    if holder.is_writer:
        raise RmqIndexError(
            f"{got}, by which rmqindex is writing into this store; run this again when it has ended"
        )
    if not allow_live_store:
        raise RmqIndexError(
            f"{got}: a broker runs on this store; stop it first. With allow_live_store=True this "
            "is written all the same, and the broker does not see it before its next start"
        )


def _no_lock(path: Path, error: OSError) -> RmqIndexError:
    """Return the error of a lock file that cannot be locked, so that nothing keeps a broker out."""
    return RmqIndexError(
        f"{path}: expected a file that can be locked, to keep a broker from starting meanwhile, "
        f"got {error.strerror}. Make sure that no broker starts, and give allow_live_store=True"
    )
