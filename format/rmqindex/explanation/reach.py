"""How far an index reaches into its CommitLog, so that its answers can say what they lack.

An index is compared with its log by the ends of both and the checkpoint alone: no byte of a message
is read, so that each lookup can afford it. Whether messages outside the index have keys, and what
it lacks between its ends, is for ``verify`` and ``explain`` to find.

RocketMQ: ``StoreCheckpoint``; ``DefaultMessageStore.shutdown`` dispatches what was stored before it
removes ``abort``; ``AllocateMappedFileService`` makes files ahead of the messages.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

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
    from collections.abc import Iterable, Sequence

    from rmqindex.commitlog.framing import LogFile
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.layout.index_file import IndexHeader
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
