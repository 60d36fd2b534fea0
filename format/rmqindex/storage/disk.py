"""Local files: opened safely, synced so that a power failure undoes nothing; errors name them.

Whoever may write into a store's directory can put a link there that leads elsewhere.
So a file that is changed, removed or trusted must itself have the name, and must be a regular file
or a directory: opening a pipe would block for ever.

A file that is synced may still lose its name: fsync(2) promises a name only once the directory that
holds it is synced as well.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import re
import stat
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from rmqindex.errors import RmqIndexError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
#: The names in an index directory that a record may contain.
INDEX_NAME = re.compile(r"[+-]?\d{1,40}")
# Linux's struct flock: l_type, l_whence, l_start, l_len, l_pid.
_FLOCK = struct.Struct("hhqqi4x")
_HELD = (errno.EAGAIN, errno.EACCES)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add a file's name to the errors of calls that know only its descriptor.

    Args:
        path: The file.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = os.fspath(path)
        raise


def sync_directory(path: Path) -> None:
    """Sync the names in a directory to disk."""
    _sync(path, os.O_DIRECTORY)


def sync_name(path: Path) -> None:
    """Sync the name of a file or directory to disk, or that it was removed."""
    sync_directory(path.parent)


def refuse_lost_link(path: Path) -> None:
    """Raise where an absent path, or a folder that it is in, is a link to what is not there."""
    for link in absent_directories(path):
        if link.is_symlink():
            raise RmqIndexError(
                f"{link}: expected a folder, got a link to {link.readlink()}, which is not there; "
                "if it is where a disk belongs, is the disk mounted? Else make the folder, or "
                "remove the link"
            )


def make_directories(path: Path) -> None:
    """Make a directory unless it exists, and its missing parents; sync their names to disk.

    Raises:
        RmqIndexError: One of them is a link to what is not there.
    """
    if path.is_dir():
        return
    refuse_lost_link(path)
    make_directories(path.parent)
    path.mkdir(exist_ok=True)
    sync_name(path)


def absent_directories(path: Path) -> tuple[Path, ...]:
    """Return a directory and its parents as far as they are absent, the innermost first."""
    return tuple(itertools.takewhile(lambda each: not each.exists(), (path, *path.parents)))


def remove_empty(paths: Iterable[Path]) -> None:
    """Remove directories that are empty, in this order; others stay, and are no error."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.rmdir()


def move_synced(source: Path, target: Path) -> None:
    """Give a synced file another name, in place of what has it, and sync that name to disk."""
    source.replace(target)
    sync_name(target)


def sync_tree(path: Path) -> None:
    """Sync a directory, and all files and directories in it, to disk."""
    for folder, _, names in os.walk(path):
        for name in names:
            _sync(Path(folder, name), 0)
        sync_directory(Path(folder))


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        with naming(path):
            os.fsync(descriptor)  # noqa: TID251  (with files, the one place)
    finally:
        os.close(descriptor)


def is_plain_name(name: str) -> bool:
    """Return whether a text can be the name of a file of this project: no path, not hidden."""
    return _PLAIN_NAME.fullmatch(name) is not None


def ensure_directory(path: Path) -> None:
    """Raise unless a path is absent or a real directory."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        mode = path.lstat().st_mode
        if not stat.S_ISDIR(mode):
            raise _refusal(path, "a directory", mode)


@contextlib.contextmanager
def open_directory(path: Path) -> Iterator[int]:
    """Yield the descriptor of a directory of this project, which no other can replace."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _SAFE)
    except NotADirectoryError as error:
        ensure_directory(path)
        raise NotADirectoryError(error.errno, error.strerror, str(path)) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_to_read(path: str | os.PathLike[str], flags: int) -> int:
    """Open a broker's file for reading, without blocking; links are followed."""
    return _regular(path, os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK))


def open_regular(path: str | os.PathLike[str], flags: int, mode: int = 0o666) -> int:
    """Open a file to write, or to trust its content."""
    try:
        descriptor = os.open(path, flags | _SAFE, mode)
    except OSError as error:
        if error.errno == errno.ELOOP and Path(path).is_symlink():
            raise _refusal(path, "a file", stat.S_IFLNK) from error
        raise
    return _regular(path, descriptor)


def read_own(path: Path, limit: int, what: str, remedy: str) -> bytes | None:
    """Read a whole file of this project; None where there is none."""
    try:
        descriptor = open_regular(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG and _has_impossible_name(path):
            return None
        raise
    with naming(path), os.fdopen(descriptor, "rb") as file:
        check_size(path, os.fstat(file.fileno()).st_size, limit, what, remedy)
        data = file.read(limit + 1)
    check_size(path, len(data), limit, what, remedy)
    ensure_directory(path.parent)
    return data


def _has_impossible_name(path: Path) -> bool:
    """Return whether a name in a path is too long for any file, not the path for the system."""
    return len(os.fsencode(path)) < os.pathconf(os.sep, "PC_PATH_MAX")


def check_size(name: object, size: int, limit: int, what: str, remedy: str) -> None:
    """Refuse a file or object larger than this project writes, before reading it."""
    if size > limit:
        raise RmqIndexError(
            f"{name}: expected {what} of at most {limit:,} bytes, got {size:,} bytes; {remedy}"
        )


def _regular(path: str | os.PathLike[str], descriptor: int) -> int:
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise _refusal(path, "a file", kind)


def _refusal(path: str | os.PathLike[str], expected: str, mode: int) -> RmqIndexError:
    if stat.S_ISLNK(mode):
        return RmqIndexError(
            f"{os.fspath(path)}: expected {expected} of its own, got a symbolic link, which is not "
            "followed here: find out who made it, and remove it"
        )
    kind = "a file" if stat.S_ISREG(mode) else "neither a file nor a directory"
    return RmqIndexError(f"{os.fspath(path)}: expected {expected}, got {kind}")


def lock_byte(descriptor: int, start: int) -> bool:
    """Lock a byte of an open file, shared where it is read-only; False where another holds it."""
    access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
    kind = fcntl.F_RDLCK if access == os.O_RDONLY else fcntl.F_WRLCK
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, start, 1, 0))
    except OSError as error:
        if error.errno in _HELD:
            return False
        raise
    return True


def unlock(descriptor: int) -> None:
    """Unlock all of a file, before it is closed: that leaves the locks to forked copies."""
    with contextlib.suppress(OSError):
        whole = _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, whole)


def locked_by(descriptor: int, start: int, length: int = 1) -> tuple[int, int] | None:
    """Return start and process of a lock that somebody holds on some of a file's bytes."""
    wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
    answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, wanted)
    kind, _, start, _, pid = _FLOCK.unpack(answer)
    return None if kind == fcntl.F_UNLCK else (start, pid)


def ensure_opener(path: str | os.PathLike[str], process: int) -> None:
    """Raise in a process that was forked from the one which opened a path to write."""
    if process != os.getpid():
        raise RmqIndexError(
            f"{os.fspath(path)}: expected to be written by process {process}, which opened it, "
            f"got process {os.getpid()}, forked from it; write in one of the two"
        )


def lock_directory(descriptor: int, *, alone: bool) -> bool:
    """Lock an open directory, with others or alone; False where another one holds it."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # of a file system without such locks
        pass
    return True
