"""A CommitLog that one process plans to read and others read: which files it had.

Until it is read, a broker may append to it, begin new files, and delete the oldest, expired ones.
Whatever else becomes of the files is refused, since their messages may be others.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from rmqindex.commitlog.files import LogFile, find_files
from rmqindex.commitlog.log import CommitLog
from rmqindex.errors import RmqIndexError
from rmqindex.storage.identity import FileChangedError
from rmqindex.storage.location import is_remote
from rmqindex.storage.marks import FileMark
from rmqindex.storage.s3 import carried

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqindex.storage.source import ByteSource

__all__ = ["PlannedLog", "PlannedLogs", "marked_file", "marked_files"]

# Requests to a remote store wait more than they work.
_REMOTE_THREADS = 16
# A file begins with a message, whose fixed fields are no other message's.
_HEAD_BYTES = 64


@dataclass(frozen=True, slots=True)
class PlannedLog:
    """A CommitLog as it was when a query was planned; picklable.

    Attributes:
        path: What :class:`CommitLog` takes.
        files: The files that there were, marked.
    """

    path: str
    files: tuple[LogFile, ...]

    @classmethod
    def of(cls, path: str) -> PlannedLog:
        """Find the files of a log and mark them.

        Raises:
            RmqIndexError: Nothing is there, or a store of another kind.
        """
        with CommitLog(path) as log:
            return cls(path, marked_files(log))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PlannedLog:
        """Read what JSON made of ``dataclasses.asdict``, with bytes as hexadecimal digits."""
        files = (
            LogFile(**{**each, "mark": each["mark"] and FileMark.from_dict(each["mark"])})
            for each in data["files"]
        )
        return cls(data["path"], tuple(files))

    def files_now(self) -> tuple[LogFile, ...]:
        """Find the files anew; those that were planned are refused on opening if they are others.

        Raises:
            FileChangedError: A file is gone and older ones are not, or is there and was not.
            RmqIndexError: Nothing is there any more.
        """
        found = find_files(self.path)
        names = {file.start for file in found}
        oldest = min(names, default=0)
        for file in self.files:
            # A broker deletes expired files from the oldest on, and never the one it writes.
            if file.start not in names and (not found or file.start > oldest):
                raise FileChangedError(file.path, "removed")
        planned = {file.start: file for file in self.files}
        end = self.files[-1].stop if self.files else 0
        for file in found:
            if file.start < end and file.start not in planned:
                raise FileChangedError(file.path, "added to the log")
        return tuple(
            replace(file, mark=planned[file.start].mark) if file.start in planned else file
            for file in found
        )


class PlannedLogs:
    """Planned logs, each opened once; a context manager.

    On leaving it, the logs must still be those that were planned.
    """

    def __init__(self) -> None:
        """Start without any."""
        self._logs: dict[str, CommitLog] = {}

    def open(self, planned: PlannedLog) -> CommitLog:
        """Return a log, which stays open.

        Raises:
            FileChangedError: A file is gone, or was added, against the plan.
            RmqIndexError: Nothing is there any more.
        """
        log = self._logs.get(planned.path)
        if log is None:
            log = self._logs[planned.path] = CommitLog(planned.files_now())
        return log

    def __enter__(self) -> Self:
        """Return the logs."""
        return self

    def __exit__(self, exc_type: type[BaseException] | None, *_: object) -> None:
        """Check the logs again where nothing failed, and close them.

        Raises:
            FileChangedError: A file of a log was cut, replaced or rewritten.
        """
        try:
            if exc_type is None:
                for log in self._logs.values():
                    log.ensure_same()
        finally:
            for log in self._logs.values():
                log.close()


def marked_files(log: CommitLog) -> tuple[LogFile, ...]:
    """Return the files of a log, each with what it is recognised by later.

    A local file is opened for its first bytes; a remote one costs one request.

    Raises:
        RmqIndexError: A file was replaced since it was found.
    """

    def mark(file: LogFile) -> LogFile:
        try:
            with log.open_file(file) as source:
                return marked_file(file, source)
        except FileChangedError:
            raise
        except RmqIndexError:
            return file  # it expired meanwhile, or whoever needs it will say what is wrong

    if any(is_remote(file.path) for file in log.files):
        with ThreadPoolExecutor(_REMOTE_THREADS) as pool:
            return tuple(pool.map(carried(mark), log.files))
    return tuple(mark(file) for file in log.files)


def marked_file(
    file: LogFile, source: ByteSource, ranges: Iterable[tuple[int, int]] = ()
) -> LogFile:
    """Return a file with what it is recognised by later.

    Args:
        file: The file.
        source: Its bytes.
        ranges: Offsets of the log between which messages will be read.
    """
    stretches = [(0, min(file.size, _HEAD_BYTES))]
    stretches += [(start - file.start, stop - file.start) for start, stop in ranges]
    return replace(file, mark=FileMark.of(source, stretches))
