"""The files of a CommitLog: names, offsets and gaps (RocketMQ: ``MappedFileQueue``).

A file is named after the log's offset of its first byte, in 20 digits.
The first need not start at 0, since expired files are deleted from the head.
Several directories (``storePathCommitLog`` with commas) hold files of one log.
So do ``commitlog`` and the data folder of DLedger in a store that was plain before.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from rmqindex.commitlog.framing import LogFile
from rmqindex.commitlog.walk import own_start_of
from rmqindex.errors import RmqIndexError, rename_line, truncate_line
from rmqindex.layout.dledger import DATA_FOLDER
from rmqindex.layout.index_file import INT64_MAX
from rmqindex.layout.record import FILE_NAME_DIGITS, MAX_FILE_SIZE
from rmqindex.layout.store import (
    COMMITLOG_FOLDER,
    DLEDGER_PREFIX,
    INDEX_FOLDER,
    MULTI_PATH_SPLITTER,
)
from rmqindex.storage.disk import refuse_lost_link
from rmqindex.storage.filesystem import UnreadableError, status_of
from rmqindex.storage.identity import FileChangedError
from rmqindex.storage.location import Location
from rmqindex.storage.opening import FileMark, UnsteadyError, ensure_same, open_found
from rmqindex.storage.source import ByteSource
from rmqindex.store.contents import refuse_other_log
from rmqindex.store.dledger import dledger_data, entry_head_of
from rmqindex.store.store import root_of
from rmqindex.store.surroundings import ensure_may_be_empty
from rmqindex.transaction.broker_lock import BrokerLock, BrokerState
from rmqindex.transaction.directories import (
    NAMES,
    FileEntry,
    directory_entries,
    entries_or_none,
    exists,
    unloadable_files,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqindex.storage.location import PathLike

_EXPECTED = f"log files, or a store with a folder {COMMITLOG_FOLDER}"
_NAME = re.compile(rf"[0-9]{{{FILE_NAME_DIGITS}}}")


class ExpiredFileError(UnsteadyError, RmqIndexError):
    """A file was deleted from the head of a log since it was listed, as brokers do.

    Whoever reads on passes over it, as if the log had been listed later; whoever plans lists anew.
    """


def find_files(
    path: PathLike | Sequence[PathLike | LogFile], filesystem: pafs.FileSystem | None = None
) -> tuple[LogFile, ...]:
    """Find the files of a log, by offset.

    ``path`` is a store root that has ``commitlog/``, a DLedger log or both, the folder
    ``dledger-*`` of such a log, a directory of log files, one such file, or several of them: a
    sequence, or one text with commas as RocketMQ writes it. Files found before are used without
    listing them again. A file that several paths name counts once, and empty ones behind the last
    that has bytes, which the broker deletes, are left out.
    """
    given = [path] if isinstance(path, (str, os.PathLike)) else path
    found: dict[Location, LogFile] = {}
    for one in given:
        for file in _found(one, filesystem):
            found.setdefault(file.path.absolute, file)
    known = {one.start for one in given if isinstance(one, LogFile)}
    known |= {file.start for file in found.values() if file.size}
    last = max(known, default=-1)
    files = sorted(found.values(), key=lambda file: (file.start, file.path))
    files = [file for file in files if file.start <= last]
    for before, after in pairwise(files):
        if before.stop > after.start:
            raise RmqIndexError(_overlap(before, after, files))
    return tuple(files)


def _overlap(before: LogFile, after: LogFile, files: Sequence[LogFile]) -> str:
    """Return which of two files that share offsets is wrong, as far as they and others tell."""
    pairs = (after, before), (before, after)
    folders = [file.path.parent for file in files]
    own = {file.path: own_start_of(file) for file in (before, after)}
    for file, other in pairs:
        start = own[file.path]
        if start not in (None, file.start):
            return (
                f"{file.path}: expected a message at offset {file.start}, as its name says, got "
                f"one at offset {start}, so that its name overlaps {other.path}. While no broker "
                f"runs, {own_name_advice(file.path, start, folders)}"
            )
    if after.start == before.start:
        return (
            f"{after.path}: expected offsets that no other file has, got those from {after.start} "
            f"on, which {before.path} has too; give only one of the two, or its folder"
        )
    common, count = Counter(file.size for file in files).most_common(1)[0]
    for file, other in pairs:
        if own[file.path] is None and count * 2 > len(files) and common and file.start % common:
            return (
                f"{file.path}: expected a name that is a multiple of {common}, the size of most "
                f"files, got {file.start}, so that it overlaps {other.path}. While no broker runs, "
                "move it out of the folder"
            )
    return _surplus(before, after, files, is_certain=None not in own.values())


def _surplus(before: LogFile, after: LogFile, files: Sequence[LogFile], *, is_certain: bool) -> str:
    """Return that a file is too long; ``is_certain`` if both have the messages of their names."""
    size = after.start - before.start
    distances = [b.start - a.start for a, b in pairwise(files)]
    if distances.count(size) == 1 and size not in {file.size for file in files}:
        return (
            f"{after.path}: expected a file that starts at {before.stop} or later, where "
            f"{before.path} ends, got {after.start}"
        )
    error = f"{before.path}: expected {size} bytes, as far as {after.path}, got {before.size}"
    if before.path.local is None:
        return error
    if not is_certain:
        return f"{error}; restore both from a replica or a backup, as nothing tells which is wrong"
    return (
        f"{error}. A broker does not load with the rest, whose offsets are those of the next file: "
        f"keep a copy, stop the broker and run `{truncate_line(size, before.path)}`"
    )


def own_name_advice(path: Location, start: int, folders: Iterable[Location] = ()) -> str:
    """Return what to do about a file of a log whose first message is of another offset.

    Args:
        path: The file.
        start: The offset where it starts by that message.
        folders: Those of the log, if it has several.
    """
    name = f"{start:0{FILE_NAME_DIGITS}}"
    listed = {at.absolute: at for at in (*folders, path.parent)}.values()
    entries = [entry for at in listed for entry in _log_entries(entries_or_none(at))]
    others = [file for file in _log_files(entries) if file.path.absolute != path.absolute]
    holder = next((file for file in others if file.start == start), None)
    # Bytes behind the size of most files are none of a file's own.
    sizes = Counter(file.size for file in others)
    size = max((count, size) for size, count in [(0, 0), *sizes.items()])[1]
    in_its_way = any(
        file.start < start + size
        and start < file.start + min(file.size, size)
        # One with another's name leaves the place, too.
        and own_start_of(file) in (None, file.start)
        for file in others
    )
    if holder is not None and own_start_of(holder) != start:
        advice = (
            f"exchange its name with that of {holder.path}, which begins with none of that offset"
        )
        aside = path.parent.child(f"{path.name}.other")
        moves = [(path, aside), (holder.path, path), (aside, holder.path)]
    elif holder is not None or in_its_way:
        has_it = "" if holder is None else f", since {holder.path} has that offset"
        lacking = "restore what then lacks from a replica or a backup"
        return f"move {path} out of the folder{has_it}; {lacking}"
    else:
        advice = f"give it the name {name}, which no file has"
        moves = [(path, path.parent.child(name))]
    if path.local is None:
        return advice
    return f"{advice}: `{' && '.join(rename_line(*each) for each in moves)}`"


def folders_of(
    path: PathLike | Sequence[PathLike | LogFile], filesystem: pafs.FileSystem | None = None
) -> tuple[Location, ...]:
    """Return the directories among what :func:`find_files` was given for a log."""
    given = [path] if isinstance(path, (str, os.PathLike)) else path
    return tuple(
        each
        for one in given
        if not isinstance(one, LogFile)
        for each in several_logs(Location.of(one, filesystem))
        if status_of(each).kind == pafs.FileType.Directory
    )


def gaps_of(files: Sequence[LogFile]) -> tuple[tuple[int, int], ...]:
    """Return the ranges of offsets between files, as start and stop in bytes."""
    return tuple((a.stop, b.start) for a, b in pairwise(files) if a.stop < b.start)


def broker_file_size(files: Sequence[LogFile]) -> int | None:
    """Return the size with which a broker made the newest of a log's files; None if none tells it.

    Those tell of the same kind, plain or DLedger's, that end where the next one begins.
    """
    alike = [file for file in files if file.entry_head == files[-1].entry_head]
    whole = Counter(a.size for a, b in pairwise(alike) if a.stop == b.start)
    return max(whole, key=lambda size: whole[size], default=None)


def file_at(files: Sequence[LogFile], offset: int) -> LogFile | None:
    """Return the file that holds an offset, bytes; None where none does."""
    return next((file for file in files if file.start <= offset < file.stop), None)


def _found(one: PathLike | LogFile, filesystem: pafs.FileSystem | None) -> list[LogFile]:
    """Return the files that one given path, or file, stands for."""
    if isinstance(one, LogFile):
        return [replace(one, path=Location.of(one.path, filesystem))]
    location = Location.of(one, filesystem)
    return [file for each in several_logs(location) for file in _files_of(each)]


def several_logs(location: Location) -> list[Location]:
    """Split a text with commas, as RocketMQ writes several directories of one log."""
    local = location.local
    if MULTI_PATH_SPLITTER not in location or (local is not None and local.exists()):
        return [location]
    parts = [part.strip() for part in location.split(MULTI_PATH_SPLITTER)]
    return [Location.of(location.storage.at(part)) for part in parts if part] or [location]


def _files_of(location: Location) -> list[LogFile]:
    kind, size, identity = status_of(location)
    if kind == pafs.FileType.File:
        if not _NAME.fullmatch(location.name):
            raise RmqIndexError(
                f"{location}: expected a file named by {FILE_NAME_DIGITS} digits, got "
                f"{location.name!r}"
            )
        refuse_other_log(location, location.absolute.parent)
        return _log_files([FileEntry(location, location.name, size, identity=identity)])
    if kind != pafs.FileType.Directory:
        raise RmqIndexError(f"{location}: no such file or directory")
    entries = directory_entries(location)
    found = _log_entries(entries)
    if found:
        refuse_other_log(location, location)
        return _log_files(found)
    folders = _folders_in(location, entries)
    if location.absolute.name.startswith(DLEDGER_PREFIX) and DATA_FOLDER in folders:
        return _files_of(folders[DATA_FOLDER])
    data = dledger_data(location, directory_entries)
    parts = [each for each in (folders.get(COMMITLOG_FOLDER), data) if each is not None]
    if parts:
        listed = [_log_entries(directory_entries(part)) for part in parts]
        if not any(listed):
            tops = [part if part.name == COMMITLOG_FOLDER else part.parent for part in parts]
            empty = {top.name: top for top in tops}
            ensure_may_be_empty(location, empty, entries, _EXPECTED)
        return [file for part in listed for file in _log_files(part)]
    for name in sorted(folders):
        if name.startswith(DLEDGER_PREFIX):
            raise RmqIndexError(
                f"{location}: expected log files in the folder {name}/{DATA_FOLDER} of DLedger, "
                "found none. If storePathDLedgerCommitLog names another folder, give that one"
            )
    ensure_may_be_empty(location, {COMMITLOG_FOLDER: location}, entries, _EXPECTED)
    return []


def _folders_in(location: Location, entries: list[FileEntry]) -> dict[str, Location]:
    """Return the folders in a directory by their names; refuse a log whose disk is away."""
    folders = {entry.name: entry.path for entry in entries if entry.is_directory}
    if COMMITLOG_FOLDER not in folders and location.local is not None:
        refuse_lost_link(location.local / COMMITLOG_FOLDER)
    return folders


def foreign_files(folder: Location) -> list[tuple[FileEntry, str]]:
    """Return what is in a folder of a log with which no broker loads it, and what it expects."""
    entries = directory_entries(folder)
    if folder.name != DATA_FOLDER:
        return unloadable_files(entries, lambda name: _NAME.fullmatch(name) is not None)
    # DLedger takes a folder for a file, and deletes no empty one; its own index is as strict.
    entries += entries_or_none(folder.parent.child(INDEX_FOLDER))
    return [
        (entry, NAMES)
        for entry in entries
        if entry.is_directory or not entry.size or not _NAME.fullmatch(entry.name)
    ]


def _log_entries(entries: list[FileEntry]) -> list[FileEntry]:
    return [entry for entry in entries if not entry.is_directory and _NAME.fullmatch(entry.name)]


def _log_files(entries: list[FileEntry]) -> list[LogFile]:
    head = entry_head_of(entry for entry in entries if entry.size)
    files = []
    for entry in entries:
        start = int(entry.name)
        if start > INT64_MAX - MAX_FILE_SIZE:
            raise RmqIndexError(
                f"{entry.path}: expected a name that is an offset of 64 bits, got {entry.name}, "
                "which no broker can have. While no broker runs, move it out of the folder"
            )
        if entry.size > MAX_FILE_SIZE:
            raise RmqIndexError(
                f"{entry.path}: expected at most {MAX_FILE_SIZE} bytes, got {entry.size}"
            )
        mark = None if entry.identity is None else FileMark(entry.identity)
        files.append(LogFile(start, entry.size, entry.path, mark, head))
    return files


# Bytes of the size and the magic code, which are not both 0 in a written record.
_MARK_SIZE = 8


class OpenFiles:
    """The files of a log, by offset; each stays open from its first use until all are closed."""

    def __init__(
        self,
        files: tuple[LogFile, ...],
        path: PathLike | Sequence[PathLike | LogFile] = (),
        filesystem: pafs.FileSystem | None = None,
    ) -> None:
        """Set the files, without opening any; ``path`` is what :func:`find_files` was given."""
        self.files = files
        self._given = path, filesystem
        self._sources: dict[int, ByteSource] = {}
        self._unwritten: set[int] = set()
        #: The starts of files that were searched for records of this log, and had none.
        self.without_records: set[int] = set()
        self._expired_stop = 0

    @property
    def min_offset(self) -> int:
        """The offset of the first byte that was not found to have expired; 0 without files."""
        return max(self.files[0].start, self._expired_stop) if self.files else 0

    @property
    def mapped_file_size(self) -> int | None:
        """The size of the broker's files (``mappedFileSizeCommitLog``), in bytes.

        It follows from the distances of the names, or from the size of the only file; None without
        files.
        """
        if not self.files:
            return None
        distances = [b.start - a.start for a, b in pairwise(self.files)]
        return min(distances) if distances else self.files[0].size

    @cached_property
    def folders(self) -> tuple[Location, ...]:
        """The directories in which the files were looked for; none for files chosen by name."""
        return folders_of(*self._given)

    @property
    def roots(self) -> list[Location]:
        """The roots of the stores that the folders are in."""
        return list(dict.fromkeys(map(root_of, self.folders)))

    def found_again(self) -> OpenFiles:
        """Return the files that are there now, those in which a plain log goes on included."""
        folders = [*self.folders]
        for root in self.roots:
            with suppress(RmqIndexError):  # several brokers share the store
                data = dledger_data(root, entries_or_none)
                folders += [data] if data is not None and entries_or_none(data) else []
        return OpenFiles(find_files(folders), folders)

    def broker(self) -> BrokerState:
        """Return the state of the broker of the stores that the files are in.

        Unknown, too, where nothing proves it: no store has a lock, or the lock is free and the
        broker did not stop cleanly. Such a broker was killed, or runs where its lock is not seen,
        as behind a network mount.
        """
        found = {root_of(file.path.parent).local for file in self.files}
        lock = BrokerLock(tuple(root for root in found if root))
        state = lock.state if lock.is_told else BrokerState.UNKNOWN
        return BrokerState.UNKNOWN if state is BrokerState.CRASHED else state

    def source(self, file: LogFile) -> ByteSource:
        """Return one of the files, which stays open until the log is closed."""
        source = self._sources.get(file.start)
        if source is not None:
            return source
        opened = self.open_file(file)
        source = self._sources.setdefault(file.start, opened)
        if source is not opened:  # another thread was faster
            opened.close()
        return source

    def open_file(self, file: LogFile) -> ByteSource:
        """Open one of the files anew; the caller closes it.

        An :class:`ExpiredFileError` says that it was deleted with all files before it, and that a
        later one is there.
        """
        try:
            source = open_found(file.path, file.size, file.mark)
        except FileChangedError:
            raise
        except RmqIndexError as error:
            self.ensure_not_expired(file, error)
            raise
        return _Object(source, self, file) if source.remote else source

    def ensure_not_expired(self, file: LogFile, error: RmqIndexError) -> None:
        """Raise :class:`ExpiredFileError` where that is why a file cannot be read."""
        first = next((each for each in self.files if exists(each.path)), None)
        if first is None or first.start <= file.start:
            return
        self._expired_stop = max(self._expired_stop, first.start)
        raise ExpiredFileError(str(error)) from error

    def ensure_same(self) -> None:
        """Raise if an open file was changed since it was opened."""
        for file in self.files:
            if file.start in self._sources:
                ensure_same(self._sources[file.start], file.mark)

    def close(self) -> None:
        """Close all files; they are reopened when needed."""
        sources, self._sources = self._sources, {}
        for source in tuple(sources.values()):
            source.close()

    def holds_bytes(self, file: LogFile) -> bool:
        """Return whether anything was written to a file, be it behind a hole."""
        source = self.source(file)
        size = min(source.size, file.size)
        if any(bytes(source.read(0, min(_MARK_SIZE, size)))):
            return True
        if file.start not in self._unwritten and source.first_nonzero(0, size) is None:
            self._unwritten.add(file.start)
        return file.start not in self._unwritten


class _Object(ByteSource):
    """A remote file of a log, which is gone while it is open as soon as a broker deletes it.

    A local one can be read on; of this one, what was not read has expired.
    """

    remote = True

    def __init__(self, source: ByteSource, files: OpenFiles, file: LogFile) -> None:
        self._source, self._files, self._file = source, files, file
        self.path, self.size, self.identity = source.path, source.size, source.identity

    def read(self, offset: int, length: int) -> bytes | memoryview:
        try:
            return self._source.read(offset, length)
        except UnreadableError as error:
            self._files.ensure_not_expired(self._file, error)
            raise

    def is_current(self) -> bool:
        try:
            return self._source.is_current()
        except UnreadableError as error:
            self._files.ensure_not_expired(self._file, error)
            raise

    def ensure_uncut(self) -> None:
        self._source.ensure_uncut()

    def close(self) -> None:
        self._source.close()
