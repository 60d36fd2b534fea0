"""What files of a CommitLog are missing, so that an answer from the log can say what it lacks.

A broker writes to the CommitLog first, so an IndexFile or a ConsumeQueue that leads behind the
log's end proves that the log had messages there. It deletes expired files of the log first, and
within seconds the IndexFiles and the files of ConsumeQueues whose messages are all gone (RocketMQ:
``DefaultMessageStore.CleanConsumeQueueService``).
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow.fs as pafs

from rmqindex.commitlog.log import CommitLog
from rmqindex.consumequeue.reader import last_offset
from rmqindex.errors import RmqIndexError
from rmqindex.explanation.place import Place
from rmqindex.fileset.paths import index_entries
from rmqindex.folders import BATCH_FOLDER, INDEX_FOLDER, QUEUE_FOLDER
from rmqindex.indexfile.committed import open_index_source, read_header
from rmqindex.logfile.files import LogFile, several_logs
from rmqindex.queue_layout import FILE_NAME_DIGITS
from rmqindex.storage.filesystem import status_of
from rmqindex.storage.location import Location
from rmqindex.store.roots import root_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from rmqindex.explanation.place import LogArgument
    from rmqindex.storage.location import PathLike

    LogPath = PathLike | Sequence[PathLike | LogFile]

__all__ = ["MissingPart", "missing_beside", "missing_parts"]

_QUEUE_FILE = re.compile(rf"[0-9]{{{FILE_NAME_DIGITS}}}")


@dataclass(frozen=True, slots=True)
class MissingPart:
    """A range of offsets that no file of a CommitLog has, though it had messages there.

    Attributes:
        part: ``start``: before the log's first file; ``middle``: between two; ``end``: behind the
            log's end.
        folder: The folder of the log's files.
        start: The first offset that is missing, bytes; None for ``start``, where nothing tells.
        stop: The offset behind the last one, bytes; None for ``end``, where nothing tells.
        proof: The IndexFile, or the file of a ConsumeQueue, that leads there; the file of the log
            behind the hole for ``middle``.
        phy_offset: The offset of the message to which ``proof`` leads, bytes; None for ``middle``.
    """

    part: Literal["start", "middle", "end"]
    folder: str
    start: int | None
    stop: int | None
    proof: str
    phy_offset: int | None

    def text(self, what: str = "the answer") -> str:
        """Return what comes of the log without these messages, and what to do about it."""
        if self.part == "start":
            return (
                f"{self.folder}: the CommitLog begins at offset {self.stop}, but {self.proof} is "
                f"of older messages alone, up to the one at {self.phy_offset}, and a broker "
                "deletes such a file within seconds after the messages. If they have not expired, "
                "the oldest files of the CommitLog are lost and their messages are missing from "
                f"{what}; restore the files from a replica or a backup"
            )
        if self.part == "middle":
            return (
                f"{self.folder}: no file has the offsets from {self.start} to before {self.stop}. "
                f"Their messages are missing from {what}; restore the files from a replica or a "
                "backup"
            )
        end = f"ends at offset {self.start}" if self.start else "has no messages"
        return (
            f"{self.folder}: the CommitLog {end}, but {self.proof} leads to a message at "
            f"{self.phy_offset}. Unless that file is another store's, the messages from offset "
            f"{self.start} on are missing from {what}; restore the newest files of the CommitLog "
            "from a replica or a backup"
        )


class _Proof(NamedTuple):
    """A file that leads to a message."""

    phy_offset: int
    path: str


def missing_parts(
    log: CommitLog,
    path: LogPath,
    index: Location | None = None,
    *,
    start: int | None = None,
    stop: int | None = None,
) -> tuple[MissingPart, ...]:
    """Return the parts of a log that are lost, in their order.

    The ConsumeQueues are looked at where no IndexFile has entries, and not those of a remote store:
    that takes a request for each.

    Args:
        log: The log.
        path: What the user gave for it: nothing is said of files that were chosen by their names.
        index: The directory of an index that goes with the log, if it is not beside it.
        start: The first offset that is asked for, bytes; parts before it do not count.
        stop: The offset from which on nothing is asked for, bytes; None for the log's end.

    Raises:
        RmqIndexError: The log cannot be read.
    """
    given = [path] if isinstance(path, (str, os.PathLike)) else path
    folders = [
        each
        for one in given
        if not isinstance(one, LogFile)
        for each in several_logs(Location.of(one))
        if status_of(each).kind == pafs.FileType.Directory
    ]
    if not folders:
        return ()
    roots = list(dict.fromkeys(map(root_of, folders)))
    folder = str(log.files[-1].path.parent if log.files else folders[0])
    indexes = [root.child(INDEX_FOLDER) for root in roots]
    if index is not None and index not in indexes:
        indexes.append(index)
    first, last = _proofs(indexes, roots)
    found: list[MissingPart] = []
    if first is not None and log.files and first.phy_offset < log.min_offset:
        found.append(
            MissingPart("start", folder, None, log.min_offset, first.path, first.phy_offset)
        )
    behind = {file.start: file for file in log.files}
    found += [
        MissingPart("middle", folder, start, stop, str(behind[stop].path), None)
        for start, stop in log.gaps
    ]
    end = None if last is None else _end_before(log, path, last.phy_offset)
    if last is not None and end is not None:
        found.append(MissingPart("end", folder, end, None, last.path, last.phy_offset))
    return tuple(
        part
        for part in found
        if (part.stop is None or start is None or part.stop > start)
        and (part.start is None or stop is None or part.start < stop)
    )


def missing_beside(
    path: PathLike,
    log: CommitLog,
    given: LogArgument,
    *,
    start: int | None = None,
    stop: int | None = None,
) -> tuple[MissingPart, ...]:
    """As :func:`missing_parts`, of the log that goes with an index.

    Args:
        path: The path of the index, or of its store.
        log: The log.
        given: What the user gave for it, as :func:`rmqindex.verify` takes it.
        start: As :func:`missing_parts` takes it.
        stop: As :func:`missing_parts` takes it.

    Raises:
        RmqIndexError: The path or the log cannot be read.
    """
    place = Place.of(path)
    if given is None or isinstance(given, CommitLog):
        folders = list(dict.fromkeys(file.path.parent for file in log.files))
        return missing_parts(log, folders, place.index, start=start, stop=stop)
    where = place.store if given == "auto" else given
    return missing_parts(log, where, place.index, start=start, stop=stop)


def _proofs(
    indexes: Sequence[Location], roots: Sequence[Location]
) -> tuple[_Proof | None, _Proof | None]:
    """Return the oldest file that a broker deletes with its messages, and the newest message."""
    expiring: list[_Proof] = []
    newest: list[_Proof] = []
    for index in indexes:
        _add_index(index, expiring, newest)
    # Nearly every message has a key, and a store may have thousands of queues.
    for root in () if newest else roots:
        if root.local is not None:
            for files, is_batch in _queues_of(root.local):
                _add_queue(files, expiring, newest, is_batch=is_batch)
    return min(expiring, default=None), max(newest, default=None)


def _add_index(index: Location, expiring: list[_Proof], newest: list[_Proof]) -> None:
    files = _index_files(index)
    # A broker never deletes the last file.
    for path in files[:1] if len(files) > 1 else ():
        expiring += _index_proof(path)
    for path in reversed(files):
        proof = _index_proof(path)
        newest += proof
        if proof:
            return


def _index_files(index: Location) -> list[Location]:
    with suppress(RmqIndexError):  # none
        return [entry.path for entry in index_entries(index) if not entry.is_directory]
    return []


def _index_proof(path: Location) -> list[_Proof]:
    """Return to which message the last entry of a file leads; nothing where it has none."""
    with suppress(RmqIndexError), open_index_source(path) as source:
        header = read_header(source)
        if header.entry_count:
            return [_Proof(header.end_phy_offset, str(path))]
    return []


def _queues_of(root: Path) -> Iterator[tuple[list[Path], bool]]:
    """Yield the files of each queue of a store, oldest first, and whether it is a batch queue."""
    for name in (QUEUE_FOLDER, BATCH_FOLDER):
        for topic in _names_in(root / name):
            for queue in _names_in(root / name / topic):
                folder = root / name / topic / queue
                files = [each for each in _names_in(folder) if _QUEUE_FILE.fullmatch(each)]
                yield [folder / each for each in sorted(files)], name == BATCH_FOLDER


def _names_in(folder: Path) -> list[str]:
    with suppress(OSError):  # none, or a broker deletes it meanwhile
        return os.listdir(folder)  # noqa: PTH208  (of thousands)
    return []


def _add_queue(
    files: list[Path], expiring: list[_Proof], newest: list[_Proof], *, is_batch: bool
) -> None:
    for path in files[:1] if len(files) > 1 else ():
        expiring += _queue_proof(path, is_batch=is_batch)
    for path in reversed(files):
        proof = _queue_proof(path, is_batch=is_batch)
        newest += proof
        if proof:
            return


def _queue_proof(path: Path, *, is_batch: bool) -> list[_Proof]:
    """Return to which message the last unit of a file leads; nothing where it has none."""
    with suppress(OSError):  # a broker may delete it meanwhile
        offset = last_offset(path, is_batch=is_batch)
        if offset is not None:
            return [_Proof(offset, str(path))]
    return []


def _end_before(log: CommitLog, path: LogPath, phy_offset: int) -> int | None:
    """Return where a log ends if a message lies behind that; None if it does not."""
    offsets = np.array([phy_offset], np.int64)
    if not _is_behind(log, offsets):
        return None
    # A broker may have begun another file since the log's were listed.
    with CommitLog(path) as now:
        return now.max_offset if _is_behind(now, offsets) else None


def _is_behind(log: CommitLog, offsets: NDArray[np.int64]) -> bool:
    """Return whether reading a log ends before an offset."""
    if any(file.start <= offsets[0] for file in log.files[log.last_with_data() + 1 :]):
        return True  # the file begins with zeros, whatever is behind them
    (state,) = log.read_at(offsets, ["size"])["state"].to_pylist()
    return bool(state == "beyond_end")
