"""Files that are written, and those that are ours: never through a symbolic link.

Whoever may write into a store's directory can put a link there that leads elsewhere.
So what is changed, removed or trusted is opened under the very name that it has, and only as a
file or a directory: a pipe in its place would keep us waiting for ever.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqindex._disk import naming
from rmqindex._errors import RmqIndexError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ensure_directory",
    "is_plain_name",
    "open_directory",
    "open_regular",
    "open_to_read",
    "parse_own_json",
    "read_own",
    "read_own_json",
    "write_own",
]

# What is written of all names of a directory stays far below; a larger file is none of ours.
_MAX_JSON_SIZE = 16 * 1024 * 1024
_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")


def is_plain_name(name: str) -> bool:
    """Tell whether a text is the name of a file that we could have made: no path, not hidden."""
    return _PLAIN_NAME.fullmatch(name) is not None


def ensure_directory(path: Path) -> None:
    """Refuse what stands in the place of a directory of ours and is none.

    Args:
        path: The place; there may be nothing.

    Raises:
        RmqIndexError: A symbolic link is there, or a file.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        mode = path.lstat().st_mode
        if not stat.S_ISDIR(mode):
            raise _refused(path, "a directory", mode)


@contextlib.contextmanager
def open_directory(path: Path) -> Iterator[int]:
    """Open a directory of ours, so that what is done in it is done in no other; yields its number.

    Args:
        path: The directory.

    Raises:
        RmqIndexError: A symbolic link is there, or a file.
        OSError: Nothing is there, or it cannot be opened.
    """
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
    """Open a file of the broker's to read it; links are followed, and nothing is waited for.

    Args:
        path: A local path.
        flags: As ``os.open`` takes them.

    Raises:
        RmqIndexError: Something is there that is no file.
        OSError: It cannot be opened.
    """
    return _regular(path, os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK))


def open_regular(path: str | os.PathLike[str], flags: int, mode: int = 0o666) -> int:
    """Open a file that is to be written, or trusted.

    Args:
        path: A local path.
        flags: As ``os.open`` takes them.
        mode: The permissions of a file that is made.

    Returns:
        The number of the open file.

    Raises:
        RmqIndexError: A symbolic link is there, or something else that is no file.
        OSError: It cannot be opened.
    """
    try:
        descriptor = os.open(path, flags | _SAFE, mode)
    except OSError as error:
        if error.errno == errno.ELOOP and Path(path).is_symlink():
            raise _refused(path, "a file", stat.S_IFLNK) from error
        raise
    return _regular(path, descriptor)


def read_own(path: Path, limit: int) -> bytes | None:
    """Read a file of ours whole.

    Args:
        path: The file.
        limit: The most bytes that it can have.

    Returns:
        Its bytes; None where nothing is there.

    Raises:
        RmqIndexError: It is longer, or no file.
        OSError: It cannot be read.
    """
    try:
        descriptor = open_regular(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise RmqIndexError(f"{path}: expected at most {limit} bytes, got more")
    ensure_directory(path.parent)
    return data


def read_own_json(path: Path, what: str) -> dict[str, Any] | None:
    """Read a JSON object that we wrote; what its fields hold is for the caller to check.

    Args:
        path: The file.
        what: What it should be, in words.

    Returns:
        The object; None where nothing is there.

    Raises:
        RmqIndexError: Another document, or no file.
        OSError: It cannot be read.
    """
    data = read_own(path, _MAX_JSON_SIZE)
    return None if data is None else parse_own_json(path, data, what)


def parse_own_json(path: Path, data: bytes, what: str) -> dict[str, Any]:
    """Do what :func:`read_own_json` does with the bytes of a file.

    Raises:
        RmqIndexError: Another document.
    """
    try:
        document = json.loads(data)  # noqa: TID251  (bounded, and checked by who asks)
    except (ValueError, RecursionError) as error:
        raise RmqIndexError(f"{path}: expected {what}, got {error}") from error
    if not isinstance(document, dict):
        raise RmqIndexError(f"{path}: expected {what}, got {type(document).__name__}")
    return document


def write_own(path: Path, data: bytes) -> None:
    """Write a file of ours anew, and wait until it is on the disk.

    Args:
        path: The file; what has its name goes, and is not followed.
        data: All that it holds.

    Raises:
        OSError: It cannot be written.
    """
    path.unlink(missing_ok=True)
    descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with naming(path), os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _regular(path: str | os.PathLike[str], descriptor: int) -> int:
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise _refused(path, "a file", kind)


def _refused(path: str | os.PathLike[str], expected: str, mode: int) -> RmqIndexError:
    if stat.S_ISLNK(mode):
        return RmqIndexError(
            f"{os.fspath(path)}: expected {expected} of its own, got a symbolic link, which is not "
            "followed here: see to it who made it, and remove it"
        )
    kind = "a file" if stat.S_ISREG(mode) else "neither a file nor a directory"
    return RmqIndexError(f"{os.fspath(path)}: expected {expected}, got {kind}")
