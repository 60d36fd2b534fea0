"""The names that an index directory has used: no new file reuses one.

A reader, a cached path or a stream's offset may still hold the name of a removed file.
New names always come after those present, so the present ones usually suffice; a commit that
removes a name and leaves no later one, such as an overwrite without rows, keeps that name in a
file. So does a commit without rows into a new directory, whose name is one that comes before all
others: it tells the empty index from the folder of a disk that is not mounted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from rmqindex.errors import RmqIndexError
from rmqindex.storage.disk import check_size, move_synced, read_own
from rmqindex.storage.writable import write_own

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

#: The name of that file in the staging root.
LAST_NAME = "last-name"
#: The file's name while it is being written.
NEXT_LAST_NAME = "last-name.next"
_NAME = re.compile(r"[0-9]{17}")
# What is kept where no name was ever used.
_BEFORE_ALL = "0" * 17
_MAX_BYTES = 64
_WHAT = "the last name of an emptied index"
_REMEDY = "remove it; new files may then take names that were used before"


def greatest(names: Iterable[str]) -> str | None:
    """Return the greatest name of 17 digits, the form of all new names, if any."""
    return max((name for name in names if _NAME.fullmatch(name)), default=None)


def last_used(
    there: Sequence[str], recorded: Iterable[str], *, replaced: bool, latest: str | None = None
) -> str | None:
    """Return the name that new names must come after; None for any.

    A name in the future, which a broker's clock gave that was ahead, binds only while its file
    stays: no new file takes it before that time.
    """
    stays = set() if replaced else set(there)
    names = [
        name for name in [*there, *recorded] if latest is None or name <= latest or name in stays
    ]
    last = greatest(names)
    if replaced or not there:
        return last
    return there[-1] if last is None else max(there[-1], last)


def keep_last_name(root: Path, present: Iterable[str], left: Iterable[str]) -> None:
    """Keep the last name before a commit that removes it, or has none, and adds none after it."""
    before, after = greatest(present), greatest(left)
    kept = read_last_name(root)
    if not left and not before:
        before = _BEFORE_ALL
    if before is not None and before > max(after or "", kept or ""):
        write_own(root / NEXT_LAST_NAME, before.encode())
        move_synced(root / NEXT_LAST_NAME, root / LAST_NAME)


def forget_last_name(root: Path, left: Iterable[str]) -> None:
    """Remove the kept name once a commit leaves a later one."""
    after, kept = greatest(left), read_last_name(root)
    if kept is not None and after is not None and after > kept:
        (root / LAST_NAME).unlink()


def read_last_name(root: Path) -> str | None:
    """Return the kept name, if any."""
    path = root / LAST_NAME
    data = read_own(path, _MAX_BYTES, _WHAT, _REMEDY)
    return None if data is None else _parse(str(path), data)


def read_remote_last_name(filesystem: pafs.FileSystem, path: str) -> str | None:
    """Return the name kept in an object store, if any."""
    if filesystem.get_file_info(path).type == pafs.FileType.NotFound:
        return None
    with filesystem.open_input_file(path) as file:
        check_size(path, file.size(), _MAX_BYTES, _WHAT, _REMEDY)
        return _parse(path, file.read(_MAX_BYTES))


def _parse(path: str, data: bytes) -> str:
    name = data.decode("ascii", "replace")
    if not _NAME.fullmatch(name):
        raise RmqIndexError(f"{path}: expected {_WHAT}, 17 digits, got {name!r}; {_REMEDY}")
    return name
