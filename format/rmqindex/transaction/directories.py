"""Lists a local or remote directory as the last finished commit left it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs

from rmqindex.errors import RmqIndexError
from rmqindex.storage.filesystem import open_filesystem, unreadable
from rmqindex.storage.identity import FileIdentity
from rmqindex.storage.location import child_uri, is_remote, local_path
from rmqindex.storage.steady import UnsteadyError, read_steady
from rmqindex.transaction.journal import effective_listing
from rmqindex.transaction.object_staging import committed_listing

if TYPE_CHECKING:
    from rmqindex.storage.location import PathLike

__all__ = ["FileEntry", "directory_entries", "entries_or_none", "exists", "kind_of"]

_NO_DIRECTORY = (FileNotFoundError, NotADirectoryError, PermissionError)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A name in a directory.

    Attributes:
        path: A local path or a URI, as :class:`rmqindex.IndexFile` takes it.
        name: The last part of the path.
        size: Bytes; 0 for a directory.
        is_directory: Whether it is a directory.
        identity: The identity of a local file; None where the listing does not have it.
    """

    path: str
    name: str
    size: int
    is_directory: bool = False
    identity: FileIdentity | None = field(default=None, compare=False, repr=False)


def kind_of(path: str) -> pafs.FileType:
    """Return whether a path is a file, a directory, or absent.

    Raises:
        RmqIndexError: The storage failed.
    """
    if not is_remote(path):
        if Path(path).is_dir():
            return pafs.FileType.Directory
        return pafs.FileType.File if Path(path).exists() else pafs.FileType.NotFound
    filesystem, inner_path = open_filesystem(path)
    try:
        return filesystem.get_file_info(inner_path).type
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error, expected="what is there") from error


def exists(path: PathLike) -> bool:
    """Return whether a file or a directory is at a local path or URI.

    Raises:
        RmqIndexError: The storage failed.
    """
    text = os.fspath(path) if is_remote(path) else str(local_path(path))
    return bool(kind_of(text) != pafs.FileType.NotFound)


def directory_entries(
    directory: PathLike, filesystem: pafs.FileSystem | None = None
) -> list[FileEntry]:
    """Return every entry of a directory, in no particular order.

    The entries are those of the last finished commit: while another one is under way, an entry's
    path can lie outside the directory, or deeper in it.

    Args:
        directory: A local path or a URI.
        filesystem: The file system of a directory that this project never writes to; None to find
            it by the URI.

    Raises:
        RmqIndexError: No such directory, or the storage failed.
    """
    is_given = filesystem is not None or is_remote(directory)
    text = os.fspath(directory) if is_given else str(local_path(directory))
    try:
        if filesystem is not None:
            return _listed_by(filesystem, text)
        return _remote_directory(text) if is_remote(text) else _local_directory(text)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(text, error, expected="the names in it", what="listed") from error


def _local_directory(path: str) -> list[FileEntry]:
    return read_steady(path, lambda: _local_entries(path))


def _local_entries(path: str) -> list[FileEntry]:
    entries = []
    for name, place in effective_listing(path).items():
        try:
            status = place.stat()
        except FileNotFoundError:
            if not place.is_symlink():
                # A commit may have ended, so that the file is listed elsewhere now.
                raise UnsteadyError(f"{name} was listed and then gone") from None
            entries.append(FileEntry(str(place), name, 0))  # opening it will raise
            continue
        is_directory = stat.S_ISDIR(status.st_mode)
        size = 0 if is_directory else status.st_size
        identity = None if is_directory else FileIdentity.of_stat(status)
        entries.append(
            FileEntry(str(place), name, size, is_directory=is_directory, identity=identity)
        )
    return entries


def _remote_directory(path: str) -> list[FileEntry]:
    return [
        FileEntry(
            child_uri(path, place),
            info.base_name,
            info.size or 0,
            is_directory=info.type == pafs.FileType.Directory,
        )
        for info, place in committed_listing(path)
    ]


def _listed_by(filesystem: pafs.FileSystem, path: str) -> list[FileEntry]:
    return [
        FileEntry(
            info.path,
            info.base_name,
            info.size or 0,
            is_directory=info.type == pafs.FileType.Directory,
        )
        for info in filesystem.get_file_info(pafs.FileSelector(path))
    ]


def entries_or_none(directory: str) -> list[FileEntry]:
    """Return every entry of a directory; none where it is absent or may not be listed.

    Raises:
        RmqIndexError: The listing is unknown: writes kept changing the directory, a journal is
            damaged, or the storage failed.
    """
    try:
        return directory_entries(directory)
    except RmqIndexError as error:
        if isinstance(error.__cause__, _NO_DIRECTORY):
            return []
        raise
