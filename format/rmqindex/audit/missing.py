"""What files of a CommitLog are missing, so that an answer from the log can say what it lacks.

A broker writes to the CommitLog first, so an IndexFile or a ConsumeQueue that leads behind the
log's end proves that the log had messages there. It deletes expired files of the log first, and
within seconds the IndexFiles and the files of ConsumeQueues whose messages are all gone (RocketMQ:
``DefaultMessageStore.CleanConsumeQueueService``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from rmqindex.commitlog.files import folders_of
from rmqindex.commitlog.leads import find_leads, proved_lead
from rmqindex.commitlog.log import CommitLog
from rmqindex.store.store import Store, root_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.commitlog.files import LogFile
    from rmqindex.commitlog.leads import Lead
    from rmqindex.commitlog.snapshot import LogArgument
    from rmqindex.record.records import Records
    from rmqindex.storage.location import Location, PathLike

    LogPath = PathLike | Sequence[PathLike | LogFile]

__all__ = ["MissingPart", "missing_beside", "missing_parts"]


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
                f"{self.folder}: no file has offsets before {self.stop}, but {self.proof} is "
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

    def without(self, start: int, stop: int) -> MissingPart | None:
        """Return the part without a range of offsets; None if nothing is left of it.

        Args:
            start: The first offset of the range, bytes.
            stop: The offset behind it.
        """
        if self.part == "start":
            is_inside = self.phy_offset is not None and self.phy_offset >= start
            return None if is_inside else replace(self, stop=min(start, self.stop or start))
        if self.stop is None or self.start is None or self.start >= stop:
            return self
        if self.stop <= stop:
            return None
        return replace(self, start=stop)


def missing_parts(
    log: CommitLog,
    path: LogPath,
    index: Location | None = None,
    *,
    start: int | None = None,
    stop: int | None = None,
    taken: tuple[int, int] | None = None,
) -> tuple[MissingPart, ...]:
    """Return the parts of a log that are lost, in their order.

    Of a remote store, ConsumeQueues are not looked at: that takes a request for each.

    Args:
        log: The log.
        path: What the user gave for it: nothing is said of files that were chosen by their names.
        index: The directory of an index that goes with the log, if it is not beside it.
        start: The first offset that is asked for, bytes; parts before it do not count.
        stop: The offset from which on nothing is asked for, bytes; None for the log's end.
        taken: The range of offsets, as start and stop in bytes, that an earlier run read, to which
            this one adds: what was lost since is not missing.

    Raises:
        RmqIndexError: The log cannot be read.
    """
    folders = folders_of(path)
    if not folders:
        return ()
    roots = list(dict.fromkeys(map(root_of, folders)))
    folder = str(log.files[-1].path.parent if log.files else folders[0])
    log_stop = log.files[-1].stop if log.files else 0
    first, newest = find_leads(roots, log_stop, index=index)
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
    end = _end_before(log, path, newest[0].phy_offset) if newest else None
    last = None if end is None else _proved(log, newest, end)
    if last is not None and end is not None:
        found.append(MissingPart("end", folder, end, None, last.path, last.phy_offset))
    if taken is not None:
        found = [left for part in found if (left := part.without(*taken)) is not None]
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
    store = Store.open(path, needs_index=False)
    if given is None or isinstance(given, CommitLog):
        folders = list(dict.fromkeys(file.path.parent for file in log.files))
        return missing_parts(log, folders, store.index, start=start, stop=stop)
    where = store.root if given == "auto" else given
    return missing_parts(log, where, store.index, start=start, stop=stop)


def _end_before(log: CommitLog, path: LogPath, phy_offset: int) -> int | None:
    """Return where a log ends if a message lies behind that; None if it does not."""
    offsets = np.array([phy_offset], np.int64)
    if not _is_behind(log, offsets):
        return None
    # A broker may have begun another file since the log's were listed.
    with CommitLog(path) as now:
        return now.max_offset if _is_behind(now, offsets) else None


def _proved(log: CommitLog, leads: Sequence[Lead], end: int) -> Lead | None:
    def read(start: int, stop: int) -> Iterator[Records]:
        return log.records(start, stop, mode="DROPMALFORMED", proves_end=False)

    return proved_lead(leads, end, read)


def _is_behind(log: CommitLog, offsets: NDArray[np.int64]) -> bool:
    """Return whether reading a log ends before an offset."""
    (state,) = log.read_at(offsets, ["size"])["state"].to_pylist()
    return bool(state == "beyond_end")
