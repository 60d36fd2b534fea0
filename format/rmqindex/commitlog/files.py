"""The files of a CommitLog: names, offsets and gaps (RocketMQ: ``MappedFileQueue``).

A file is named after the log's offset of its first byte, in 20 digits.
The first need not start at 0, since expired files are deleted from the head.
Several directories (``storePathCommitLog`` with commas) hold files of one log.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs

from rmqindex.errors import RmqIndexError
from rmqindex.folders import COMMITLOG_FOLDER, MULTI_PATH_SPLITTER
from rmqindex.layout import INT64_MAX
from rmqindex.record_layout import FILE_NAME_DIGITS, MAX_FILE_SIZE
from rmqindex.storage.filesystem import open_filesystem, unreadable
from rmqindex.storage.identity import FileIdentity
from rmqindex.storage.location import is_remote, local_path
from rmqindex.storage.marks import FileMark
from rmqindex.store.contents import refuse_dledger_file, refuse_dledger_log
from rmqindex.transaction.directories import FileEntry, directory_entries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.storage.location import PathLike

__all__ = ["LogFile", "find_files", "gaps_of", "mapped_file_size_of"]

_NAME = re.compile(rf"[0-9]{{{FILE_NAME_DIGITS}}}")


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of a CommitLog.

    Attributes:
        start: The log's offset of its first byte, which is its name.
        size: Its size in bytes.
        path: A local path or a URI.
        mark: Its mark, checked on opening; None where only its size is known.
    """

    start: int
    size: int
    path: str
    mark: FileMark | None = field(default=None, compare=False, repr=False)

    @property
    def stop(self) -> int:
        """The log's offset behind its last byte."""
        return self.start + self.size


def find_files(
    path: PathLike | Sequence[PathLike | LogFile], filesystem: pafs.FileSystem | None = None
) -> tuple[LogFile, ...]:
    """Find the files of a log.

    Args:
        path: A store root that has ``commitlog/``, a directory of log files, one such file, or
            several of them: a sequence, or one text with commas as RocketMQ writes it.
            Files found before are used without listing them again.
        filesystem: The file system of the paths; None to find it by their URIs.

    Returns:
        The files by offset; one that several paths name counts once, and empty ones, which the
        broker deletes, are left out.

    Raises:
        RmqIndexError: No files, a store of another kind, or files that overlap.
    """
    found: dict[str, LogFile] = {}
    for one in _paths(path, filesystem):
        for file in [one] if isinstance(one, LogFile) else _files_of(one, filesystem):
            found.setdefault(_whole_path(file.path, filesystem), file)
    files = sorted(found.values(), key=lambda file: (file.start, file.path))
    for before, after in pairwise(files):
        if before.stop > after.start:
            raise RmqIndexError(
                f"{after.path}: expected a file that starts at {before.stop} or later, where "
                f"{before.path} ends, got {after.start}"
            )
    return tuple(files)


def _whole_path(path: str, filesystem: pafs.FileSystem | None) -> str:
    """Return the absolute path, which identifies a file; links are not followed."""
    if filesystem is not None or is_remote(path):
        return path
    return os.path.abspath(local_path(path))  # noqa: PTH100


def mapped_file_size_of(files: Sequence[LogFile]) -> int | None:
    """Return the size of the broker's files (``mappedFileSizeCommitLog``), in bytes.

    It follows from the distances of the names, or from the size of the only file; None without
    files.
    """
    if not files:
        return None
    distances = [b.start - a.start for a, b in pairwise(files)]
    return min(distances) if distances else files[0].size


def gaps_of(files: Sequence[LogFile]) -> tuple[tuple[int, int], ...]:
    """Return the ranges of offsets between files, as start and stop in bytes."""
    return tuple((a.stop, b.start) for a, b in pairwise(files) if a.stop < b.start)


def _paths(
    path: PathLike | Sequence[PathLike | LogFile], filesystem: pafs.FileSystem | None
) -> list[PathLike | LogFile]:
    if not isinstance(path, (str, os.PathLike)):
        return list(path)
    text = os.fspath(path)
    if MULTI_PATH_SPLITTER not in text or (filesystem is None and _exists_locally(text)):
        return [path]
    return [part.strip() for part in text.split(MULTI_PATH_SPLITTER) if part.strip()]


def _exists_locally(text: str) -> bool:
    return not is_remote(text) and local_path(text).exists()


def _files_of(path: PathLike, filesystem: pafs.FileSystem | None) -> list[LogFile]:
    kind, size, text, identity = _look_at(path, filesystem)
    if kind == pafs.FileType.File:
        name = _last_name(text)
        if not _NAME.fullmatch(name):
            raise RmqIndexError(
                f"{text}: expected a file named by {FILE_NAME_DIGITS} digits, got {name!r}"
            )
        refuse_dledger_file(text, filesystem)
        return _log_files([FileEntry(text, name, size, identity=identity)])
    if kind != pafs.FileType.Directory:
        raise RmqIndexError(f"{text}: no such file or directory")
    entries = directory_entries(text, filesystem)
    found = _log_entries(entries)
    if found:
        refuse_dledger_file(min(found, key=lambda entry: entry.name).path, filesystem)
        return _log_files(found)
    folders = {entry.name: entry for entry in entries if entry.is_directory}
    refuse_dledger_log(text, lambda folder: directory_entries(folder, filesystem))
    if COMMITLOG_FOLDER in folders:
        return _log_files(
            _log_entries(directory_entries(folders[COMMITLOG_FOLDER].path, filesystem))
        )
    if entries:
        raise RmqIndexError(
            f"{text}: expected log files or a folder {COMMITLOG_FOLDER}, found neither"
        )
    return []


def _log_entries(entries: list[FileEntry]) -> list[FileEntry]:
    return [entry for entry in entries if not entry.is_directory and _NAME.fullmatch(entry.name)]


def _log_files(entries: list[FileEntry]) -> list[LogFile]:
    files = []
    for entry in entries:
        start = int(entry.name)
        if entry.size > MAX_FILE_SIZE or start > INT64_MAX - MAX_FILE_SIZE:
            raise RmqIndexError(
                f"{entry.path}: expected at most {MAX_FILE_SIZE} bytes within 64-bit offsets, got "
                f"{entry.size}"
            )
        if entry.size:
            mark = None if entry.identity is None else FileMark(entry.identity)
            files.append(LogFile(start, entry.size, entry.path, mark))
    return files


def _look_at(
    path: PathLike, filesystem: pafs.FileSystem | None
) -> tuple[pafs.FileType, int, str, FileIdentity | None]:
    """Return the kind of a path, its size in bytes, its text, and a local file's identity."""
    if filesystem is None and not is_remote(path):
        place = local_path(path)
        if place.is_dir():
            return pafs.FileType.Directory, 0, str(place), None
        if not place.exists():
            return pafs.FileType.NotFound, 0, str(place), None
        identity = FileIdentity.of_stat(place.stat())
        return pafs.FileType.File, identity.size, str(place), identity
    text = os.fspath(path)
    found, inner_path = open_filesystem(path, filesystem)
    try:
        info = found.get_file_info(inner_path)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(text, error, expected="what is there") from error
    return info.type, info.size or 0, text, None


def _last_name(text: str) -> str:
    return Path(text.partition("?")[0]).name
