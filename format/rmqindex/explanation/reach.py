"""How far an index and its CommitLog reach, so that an answer from either can say what it lacks.

An index is compared with its log by the ends of both and the checkpoint alone: no byte of a message
is read, so that each lookup can afford it. Whether messages outside the index have keys, and what
it lacks between its ends, is for ``verify`` and ``explain`` to find.

A broker writes to the log first, so an IndexFile or a ConsumeQueue that leads behind the log's end
proves that it had messages there. It deletes expired files of the log first, and within seconds the
IndexFiles and the files of ConsumeQueues whose messages are all gone.

RocketMQ: ``StoreCheckpoint``; ``DefaultMessageStore.shutdown`` dispatches what was stored before it
removes ``abort``; ``AllocateMappedFileService`` makes files ahead of the messages;
``DefaultMessageStore.CleanConsumeQueueService``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from rmqindex.commitlog.files import folders_of
from rmqindex.commitlog.leads import find_leads, proved_lead
from rmqindex.commitlog.log import CommitLog
from rmqindex.commitlog.snapshot import older_tail
from rmqindex.errors import RmqIndexError
from rmqindex.explanation.commands import Commands
from rmqindex.indexfile.committed import header_of
from rmqindex.indexfile.geometry import infer_layout
from rmqindex.layout.store import CHECKPOINT_NAME
from rmqindex.storage.filesystem import UnreadableError
from rmqindex.storage.opening import map_files, open_source
from rmqindex.store.checkpoint import DISPATCHED_OFFSET, StoreCheckpoint
from rmqindex.store.store import Store, index_entries, root_of
from rmqindex.transaction.broker_lock import BrokerLock, BrokerState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.commitlog.files import LogFile
    from rmqindex.commitlog.leads import Lead
    from rmqindex.commitlog.snapshot import LogArgument
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.layout.index_file import IndexHeader
    from rmqindex.record.records import Records
    from rmqindex.storage.location import Location, PathLike
    from rmqindex.store.snapshot import SnapshotFile
    from rmqindex.transaction.directories import FileEntry

    LogPath = PathLike | Sequence[PathLike | LogFile]

#: A broker under load, or one that has started and catches up, indexes so much later than it
#: stores, seconds.
LONGEST_LAG = 600
_MILLISECONDS = 1000
# The next file of a log, and the one after it, may have been made before any message is in them.
_FILES_MADE_AHEAD = 2
_CHECKPOINT_BYTES = DISPATCHED_OFFSET + 8


@dataclass(frozen=True, slots=True)
class Uncovered:
    """A part of the CommitLog that lies outside the index, so that no lookup finds its messages.

    Attributes:
        part: ``whole``: the index has no entries; ``start``: the part before its oldest entry;
            ``end``: behind its newest entry.
        file: The file in front of which, or behind which, the part lies; the index directory for
            ``whole``.
        start: Where the part begins, bytes; for ``end``, the offset of the newest entry's message,
            behind which it begins.
        stop: The offset of the oldest entry, bytes, for ``start``; else None.
        store_timestamp: None: whether a message of the part has keys, and when it was stored, takes
            reading the log.
        after: The offset of the newest entry, bytes, for ``end``; else None.
        log_start: Where the CommitLog begins, bytes.
        remedy: The command that reads the part, and says what to do.
    """

    part: Literal["whole", "start", "end"]
    file: str
    start: int
    stop: int | None
    store_timestamp: int | None
    after: int | None
    log_start: int
    remedy: str

    def text(self) -> str:
        """Return what an answer may lack and what to do about it."""
        what = {
            "whole": "the index has no entries, so no lookup finds the messages of the CommitLog, "
            f"which begins at offset {self.log_start}",
            "start": f"the oldest IndexFile begins at offset {self.stop}, the CommitLog at "
            f"{self.log_start}, and no lookup finds the messages between",
            "end": f"the newest IndexFile ends at offset {self.after}, the CommitLog goes on, and "
            "no lookup finds the messages behind",
        }[self.part]
        return (
            f"{self.file}: {what}. `{self.remedy}` says whether any of them has keys, and what to "
            "do; the command explain searches them for one key"
        )


def uncovered(
    path: PathLike | Store, files: Sequence[SnapshotFile], log: CommitLog | None
) -> tuple[Uncovered, ...]:
    """Return the parts of a log outside an index, in their order; none for a single file.

    Args:
        path: The path of the index that the user gave, or its store.
        files: Its files, oldest first.
        log: Its CommitLog; None for an answer of nothing.
    """
    if log is None or not log.files:
        return ()
    store = Store.open(path, needs_index=False)
    if store.file is not None:
        return ()
    headers = [(file.entry.path, file.error or file.header) for file in files]
    return _Ends.of(store, headers, log).parts()


def uncovered_in(
    directory: Location, log: CommitLog, layout: Layout | None = None
) -> tuple[Uncovered, ...]:
    """As :func:`uncovered`, of an index directory, of whose files the headers are read.

    Args:
        directory: The index directory.
        log: Its CommitLog.
        layout: The geometry of every file; None to infer it.

    Raises:
        RmqIndexError: The directory cannot be read.
    """
    if not log.files:
        return ()
    files = [entry for entry in index_entries(directory) if not entry.is_directory]
    headers = map_files(_end_of, files, (file.path for file in files))
    store = Store.open(directory, needs_index=False)
    return _Ends.of(store, headers, log, layout).parts()


def _end_of(file: FileEntry) -> tuple[Location, IndexHeader | RmqIndexError]:
    try:
        return file.path, header_of(file.path)
    except RmqIndexError as error:
        return file.path, error


@dataclass(frozen=True)
class _Ends:
    store: Store
    headers: dict[Location, IndexHeader]
    log: CommitLog
    layout: Layout | None
    has_unread: bool

    @classmethod
    def of(
        cls,
        store: Store,
        files: Iterable[tuple[Location, IndexHeader | RmqIndexError]],
        log: CommitLog,
        layout: Layout | None = None,
    ) -> _Ends:
        headers, has_unread = {}, False
        for path, header in files:
            if isinstance(header, RmqIndexError):
                has_unread |= isinstance(header, UnreadableError)
            elif header.entry_count:
                headers[path] = header
        return cls(store, headers, log, layout, has_unread)

    def parts(self) -> tuple[Uncovered, ...]:
        if self.has_unread:
            return ()  # a file that cannot be read may have the entries
        if not self.headers:
            return (self._part("whole", self.store.index),) if self._has_messages else ()
        parts = []
        # A file whose name puts it in the wrong place has its entries all the same.
        oldest, first = min(self.headers.items(), key=lambda file: file[1].begin_phy_offset)
        if first.begin_phy_offset > self.log.min_offset + self.log.files[0].entry_head:
            parts.append(self._part("start", oldest, stop=first.begin_phy_offset))
        newest, last = max(self.headers.items(), key=lambda file: file[1].end_phy_offset)
        if self._ends_early(newest, last):
            parts.append(self._part("end", newest, after=last.end_phy_offset))
        return tuple(parts)

    def _part(
        self,
        part: Literal["whole", "start", "end"],
        file: Location,
        *,
        stop: int | None = None,
        after: int | None = None,
    ) -> Uncovered:
        log_start = self.log.min_offset
        remedy = Commands.of(self.store, self.log, self.layout).verify()
        start = log_start if after is None else after
        return Uncovered(part, str(file), start, stop, None, after, log_start, remedy)

    @property
    def _has_messages(self) -> bool:
        """Whether the log has messages that a broker is not just about to index."""
        if len(self.log.files) > _FILES_MADE_AHEAD:
            return True
        if self._checkpoint is None:
            return not self._may_lag
        latest = max(self._latest, self._checkpoint.index_msg_timestamp)
        if self._may_lag:
            now = time.time_ns() // 1_000_000
            return 0 < latest < now - LONGEST_LAG * _MILLISECONDS
        return latest > 0 or self._dispatched > 0

    def _ends_early(self, newest: Location, header: IndexHeader) -> bool:
        """Return whether the log goes on further behind the newest entry than a sound index ends.

        Behind it, a broker that runs has messages that it is about to index, and one that stopped
        only messages without keys.
        """
        checkpoint = self._checkpoint
        behind = [file for file in self.log.files if file.start > header.end_phy_offset]
        if len(behind) > _FILES_MADE_AHEAD:
            return True
        lag = self._latest - header.end_timestamp
        if checkpoint is None or not (lag > 0 or self._dispatched > header.end_phy_offset):
            return False
        if lag > LONGEST_LAG * _MILLISECONDS:
            return True
        if self._may_lag:
            return False
        return (
            self._broker is BrokerState.CRASHED
            or checkpoint.index_msg_timestamp > header.end_timestamp
            or self._is_full(newest, header)
        )

    def _is_full(self, newest: Location, header: IndexHeader) -> bool:
        """Return whether a broker makes another file for whatever message follows."""
        try:
            layout = self.layout or infer_layout(newest)
        except RmqIndexError:
            return False
        return header.index_count >= layout.index_num

    @property
    def _may_lag(self) -> bool:
        """Whether a broker may be about to index what it stored."""
        return self._broker.may_run

    @cached_property
    def _broker(self) -> BrokerState:
        roots = tuple(root.local for root in self._roots if root.local is not None)
        return BrokerLock(roots).state

    @property
    def _latest(self) -> int:
        """A store time of the log's last messages, epoch milliseconds; 0 if none is known."""
        checkpoint = self._checkpoint
        if checkpoint is None:
            return 0
        return max(checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp)

    @property
    def _dispatched(self) -> int:
        """The offset of the last message that is known to be in a ConsumeQueue, bytes."""
        field = self._checkpoint_bytes[DISPATCHED_OFFSET:].ljust(8, b"\0")
        return int.from_bytes(field, "big", signed=True)

    @property
    def _checkpoint(self) -> StoreCheckpoint | None:
        data = self._checkpoint_bytes
        return StoreCheckpoint.from_bytes(data) if data else None

    @property
    def _roots(self) -> list[Location]:
        """The stores that the log and the index are in."""
        log_store = root_of(self.log.files[0].path.parent)
        return list(dict.fromkeys((log_store, self.store.root.absolute)))

    @cached_property
    def _checkpoint_bytes(self) -> bytes:
        """The checkpoint of the log's store, else of the index's; none if there is none."""
        for root in self._roots:
            try:
                with open_source(root.child(CHECKPOINT_NAME)) as source:
                    return bytes(source.read(0, min(source.size, _CHECKPOINT_BYTES)))
            except RmqIndexError:
                continue
        return b""


@dataclass(frozen=True, slots=True)
class MissingPart:
    """A range of offsets that no file of a CommitLog has, though it had messages there.

    Attributes:
        part: ``start``: before the log's first file; ``middle``: between two; ``end``: behind the
            log's end; ``older``: the same, which nothing proves but older records behind it.
        folder: The folder of the log's files.
        start: The first offset that is missing, bytes; None for ``start``, where nothing tells.
        stop: The offset behind the last one, bytes; None for ``end`` and ``older``, where nothing
            tells.
        proof: The IndexFile, or the file of a ConsumeQueue, that leads there; the file of the log
            behind the hole for ``middle``, and that with the records for ``older``.
        phy_offset: The offset of the message to which ``proof`` leads, bytes; None for ``middle``.
    """

    part: Literal["start", "middle", "end", "older"]
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
        if self.part == "older":
            return (
                f"{self.proof}: the CommitLog ends at offset {self.start}, and older messages "
                f"follow, from offset {self.phy_offset} on. Unless an earlier life of the log left "
                f"them, the broker's clock stepped back, and they are missing from {what}; restore "
                "the file from a replica or a backup"
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
    parts: list[MissingPart] = []
    if first is not None and log.files and first.phy_offset < log.min_offset:
        parts.append(
            MissingPart("start", folder, None, log.min_offset, first.path, first.phy_offset)
        )
    behind = {file.start: file for file in log.files}
    parts += [
        MissingPart("middle", folder, start, stop, str(behind[stop].path), None)
        for start, stop in log.gaps
    ]
    end = _end_before(log, path, newest[0].phy_offset) if newest else None
    last = None if end is None else _proved(log, newest, end)
    if last is not None and end is not None:
        parts.append(MissingPart("end", folder, end, None, last.path, last.phy_offset))
    older = older_tail(log) if last is None else None
    if older is not None:
        end = log.max_offset
        parts.append(MissingPart("older", folder, end, None, older.path, older.phy_offset))
    if taken is not None:
        parts = [left for part in parts if (left := part.without(*taken)) is not None]
    return tuple(
        part
        for part in parts
        if (part.stop is None or start is None or part.stop > start)
        and (part.start is None or stop is None or part.start < stop)
    )


def missing_beside(path: PathLike, log: CommitLog, given: LogArgument) -> tuple[MissingPart, ...]:
    """As :func:`missing_parts`, of the log that goes with an index."""
    store = Store.open(path, needs_index=False)
    if given is None or isinstance(given, CommitLog):
        folders = list(dict.fromkeys(file.path.parent for file in log.files))
        return missing_parts(log, folders, store.index)
    where = store.root if given == "auto" else given
    return missing_parts(log, where, store.index)


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
    (state,) = log.read_at(offsets, ["size"])["state"].to_pylist()
    return bool(state == "beyond_end")
