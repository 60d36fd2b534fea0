"""Lists a local or remote directory as the last finished commit left it, and reads its files so."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs

from rmqindex.errors import RmqIndexError
from rmqindex.layout.record import FILE_NAME_DIGITS
from rmqindex.storage.filesystem import open_filesystem, status_of, unreadable
from rmqindex.storage.identity import FileIdentity
from rmqindex.storage.location import Location
from rmqindex.storage.opening import UnsteadyError, read_steady
from rmqindex.transaction.journal import (
    Journal,
    effective_listing,
    has_journal,
    journal_path,
    root_name,
    staging_root,
)
from rmqindex.transaction.object_staging import committed_listing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rmqindex.storage.location import PathLike
    from rmqindex.transaction.append_undo import AppendUndo

    #: Lists a directory, as :func:`directory_entries` does.
    Lister = Callable[[PathLike], list["FileEntry"]]

#: What a broker expects in a folder of its files.
NAMES = f"files that are named by {FILE_NAME_DIGITS} digits"
_EMPTY = "no empty file, unless nothing has a later name"
_NO_DIRECTORY = (FileNotFoundError, NotADirectoryError, PermissionError)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A name in a directory.

    Attributes:
        path: Where it lies, as :class:`rmqindex.IndexFile` takes it.
        name: The last part of the path.
        size: Bytes; 0 for a directory.
        is_directory: Whether it is a directory.
        identity: The identity of a local file; None where the listing does not have it.
    """

    path: Location
    name: str
    size: int
    is_directory: bool = False
    identity: FileIdentity | None = field(default=None, compare=False, repr=False)
    _name_path: Location | None = field(default=None, compare=False, repr=False)

    @property
    def name_path(self) -> Location:
        """Its path by its name, which differs from ``path`` while a commit is under way."""
        return self._name_path or self.path

    @classmethod
    def of_file(cls, path: Location, name_path: Location | None = None) -> FileEntry:
        """Return the entry of a file that was not listed, whose size is not asked for."""
        named = path if name_path is None else name_path
        return cls(path, named.name, 0, _name_path=None if named == path else named)


def unloadable_files(
    entries: Iterable[FileEntry], is_name: Callable[[str], bool]
) -> list[tuple[FileEntry, str]]:
    """Return the files of a folder with which a broker does not load it, and what it expects.

    They are named by no offset, or are empty and behind all that are not. An empty one that is the
    last of all entries by name is left out: a broker deletes it.

    Args:
        entries: What is in the folder.
        is_name: Whether a file of the folder can have a name.
    """
    listed = sorted(entries, key=lambda entry: entry.name)
    named = {entry.name for entry in listed if not entry.is_directory and is_name(entry.name)}
    newest = max((each.name for each in listed if each.size and each.name in named), default="")
    if listed and not listed[-1].is_directory and not listed[-1].size:
        del listed[-1]
    return [
        (entry, _EMPTY if entry.name in named else NAMES)
        for entry in listed
        if not entry.is_directory
        and (entry.name not in named or (not entry.size and entry.name > newest))
    ]


def exists(path: PathLike) -> bool:
    """Return whether a file or a directory is at a local path or URI.

    Raises:
        RmqIndexError: The storage failed, or a journal is damaged.
    """
    return bool(kind_of(Location.of(path)) != pafs.FileType.NotFound)


def kind_of(location: Location) -> pafs.FileType:
    """Return what is at a location, as the last finished commit left it.

    A local directory that an unfinished commit made is not there: what lists it finds none, too.
    """
    kind, local = status_of(location).kind, location.local
    if kind == pafs.FileType.Directory and local is not None and _is_uncommitted(local):
        return pafs.FileType.NotFound
    return kind


# Where a link leads to nothing, to itself, or through a file.
_NOWHERE = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR)


def directory_entries(directory: PathLike) -> list[FileEntry]:
    """Return every entry of a directory, in no particular order.

    The entries are those of the last finished commit: while another one is under way, an entry's
    path can lie outside the directory, or deeper in it.

    Args:
        directory: A local path or a URI.

    Raises:
        RmqIndexError: No such directory, or the storage failed.
    """
    location = Location.of(directory)
    try:
        if location.storage.filesystem is not None:  # this project never writes there
            return _uncommitted_directory(location)
        if location.local is None:
            return _remote_directory(location)
        return read_steady(location, lambda: _local_entries(location))
    except (OSError, pa.ArrowException) as error:
        raise unreadable(location, error, expected="the names in it", what="listed") from error


def _local_entries(location: Location) -> list[FileEntry]:
    entries = []
    listing = effective_listing(location)
    directory = Path(location)
    for name, place in listing.items():
        path = location.storage.at(place)
        name_path = None if place.parent == directory else location.child(name)
        try:
            status = place.stat()
        except OSError as error:
            if error.errno not in _NOWHERE:
                raise
            if not place.is_symlink():
                # A commit may have ended, so that the file is listed elsewhere now.
                raise UnsteadyError(f"{name} was listed and then gone") from None
            entries.append(FileEntry(path, name, 0, _name_path=name_path))  # opening it will raise
            continue
        is_directory = stat.S_ISDIR(status.st_mode)
        # A commit makes the staging root before the directory beside it.
        may_be_uncommitted = is_directory and (root_name(name) in listing or place.is_symlink())
        if may_be_uncommitted and _is_uncommitted(place):
            continue
        size = 0 if is_directory else status.st_size
        identity = None if is_directory else FileIdentity.of_stat(status)
        entries.append(FileEntry(path, name, size, is_directory, identity, name_path))
    return entries


def _remote_directory(location: Location) -> list[FileEntry]:
    listing = committed_listing(location)
    return [
        _remote_entry(
            location.child(place),
            info,
            None if place == info.base_name else location.child(info.base_name),
        )
        for info, place in listing
    ]


def _uncommitted_directory(location: Location) -> list[FileEntry]:
    filesystem, inner_path = open_filesystem(location)
    return [
        _remote_entry(location.storage.at(info.path), info)
        for info in filesystem.get_file_info(pafs.FileSelector(inner_path))
    ]


def _remote_entry(
    path: Location, info: pafs.FileInfo, name_path: Location | None = None
) -> FileEntry:
    is_directory = info.type == pafs.FileType.Directory
    return FileEntry(path, info.base_name, info.size or 0, is_directory, _name_path=name_path)


def list_once() -> Lister:
    """Return a function that lists as :func:`directory_entries` does, each directory once."""
    known: dict[Location, list[FileEntry]] = {}

    def listed(directory: PathLike) -> list[FileEntry]:
        location = Location.of(directory)
        if location not in known:
            known[location] = directory_entries(location)
        return known[location]

    return listed


def entries_or_none(directory: PathLike, listed: Lister = directory_entries) -> list[FileEntry]:
    """Return every entry of a directory; none where it is absent or may not be listed.

    Args:
        directory: The directory.
        listed: Lists a directory.

    Raises:
        RmqIndexError: The listing is unknown: writes kept changing the directory, a journal is
            damaged, or the storage failed.
    """
    try:
        return listed(directory)
    except RmqIndexError as error:
        if isinstance(error.__cause__, _NO_DIRECTORY):
            return []
        raise


def append_place(path: str | os.PathLike[str]) -> tuple[str, str, str]:
    """Return a file's directory and name, links followed, and the journal that may append to it."""
    if os.path.islink(path):  # noqa: PTH114  (pathlib costs as much again)
        path = os.path.realpath(path)
    directory, name = os.path.split(path)
    return directory, name, journal_path(directory)


def unfinished_append(
    path: str | os.PathLike[str], place: tuple[str, str, str] | None = None
) -> AppendUndo | None:
    """Return the append in place that an unfinished commit, dead or alive, makes to a file.

    Returns:
        The state of the file before; None where there is no such commit.
    """
    directory, name, journal_place = place or append_place(path)
    if not has_journal(journal_place):
        return None
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


def _is_uncommitted(directory: str | os.PathLike[str]) -> bool:
    """Return whether an unfinished commit made a directory, so that it was not there before."""
    # A commit writes its journal before it makes the directory: without one, none is unfinished.
    if not os.path.lexists(journal_path(directory)):
        return False
    try:
        effective_listing(directory)
    except FileNotFoundError:
        return True
    return False
