"""The files of a CommitLog as of one moment; the log of an index is opened, and its end proved.

After that moment, a broker may append to the log, begin new files, and delete the oldest, expired
ones. Any other change of the files is refused, since their messages may differ.

A broker writes to the log first, so an IndexFile or a ConsumeQueue that leads behind the log's end
proves that it had messages there. It deletes expired files of the log first, and within seconds the
IndexFiles and the files of ConsumeQueues whose messages are all gone.
RocketMQ: ``DefaultMessageStore.CleanConsumeQueueService``.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.commitlog.end import ASKED_RECORDS
from rmqindex.commitlog.files import file_at, find_files, folders_of, own_name_advice
from rmqindex.commitlog.framing import LogFile, frames_of
from rmqindex.commitlog.leads import find_leads, led_by_unit, proved_lead
from rmqindex.commitlog.log import CommitLog
from rmqindex.commitlog.selection import MissingPart
from rmqindex.commitlog.walk import find_record, own_start_of, walk
from rmqindex.errors import CorruptCommitLogError, RmqIndexError, command_line
from rmqindex.layout.record import QUEUE_ID_OFFSET, QUEUE_OFFSET_OFFSET
from rmqindex.record.batches import store_timestamps
from rmqindex.record.records import gather, have_places
from rmqindex.storage.identity import FileChangedError
from rmqindex.storage.location import Location
from rmqindex.storage.opening import FileMark, map_files
from rmqindex.store.store import Store, log_in, root_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.record.records import Records
    from rmqindex.storage.location import PathLike
    from rmqindex.storage.source import ByteSource

    LogPath = PathLike | Sequence[PathLike | LogFile]
    LogArgument = CommitLog | PathLike | Sequence[PathLike | LogFile] | None
    from collections.abc import Callable
    from pathlib import Path

    from rmqindex.commitlog.leads import Lead
    from rmqindex.indexfile.entries import Mode

# A file begins with a message, whose fixed fields are unique.
_HEAD_BYTES = 64
# Records that are looked at at once.
_MOST_RECORDS = 8 * 1024
# What tells a record from others at its offset.
_IDENTITY = ("topic", "queue_id", "queue_offset", "store_timestamp", "size")


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """The files of a CommitLog as of one moment; picklable.

    Attributes:
        path: What :class:`CommitLog` takes.
        files: Its files, with their marks.
    """

    path: Location
    files: tuple[LogFile, ...]

    @classmethod
    def of(cls, path: Location) -> LogSnapshot:
        """Find the files of a log and mark them.

        Raises:
            RmqIndexError: Nothing is there, or a store of another kind.
        """
        with CommitLog(path) as log:
            return cls(path, marked_files(log))

    @contextmanager
    def open(self) -> Iterator[CommitLog]:
        """Open the log; check before and after that it is the listed one.

        Yields:
            The log, with the files that were appended since.

        Raises:
            FileChangedError: A file was truncated, replaced or rewritten, is gone, or was added.
            RmqIndexError: The log no longer exists.
        """
        with CommitLog(self.files_now()) as log:
            yield log
            log.ensure_same()

    def files_now(self) -> tuple[LogFile, ...]:
        """List the files again; opening one of the snapshot raises if it is another file now.

        Raises:
            FileChangedError: A file is gone though older ones remain, or an older one was added.
            RmqIndexError: The log no longer exists.
        """
        listed = find_files(self.path)
        names = {file.start for file in listed}
        oldest = min(names, default=0)
        for file in self.files:
            # A broker deletes expired files, oldest first, and never the one it writes to.
            if file.start not in names and (not listed or file.start > oldest):
                raise FileChangedError(file.path, "removed")
        marks = {file.start: file.mark for file in self.files}
        end = self.files[-1].stop if self.files else 0
        for file in listed:
            if file.start < end and file.start not in marks:
                raise FileChangedError(file.path, "added to the log")
        return tuple(
            replace(file, mark=marks[file.start]) if file.start in marks else file
            for file in listed
        )


def marked_files(log: CommitLog) -> tuple[LogFile, ...]:
    """Return the files of a log, each with its mark.

    A local file is opened for its first bytes; a remote one costs one request.
    """

    def mark(file: LogFile) -> LogFile:
        try:
            with log.open_file(file) as source:
                return marked_file(file, source)
        except FileChangedError:
            raise
        except RmqIndexError:
            return file  # it expired meanwhile, or opening it later will raise

    return tuple(map_files(mark, log.files, (file.path for file in log.files)))


def marked_file(
    file: LogFile, source: ByteSource, ranges: Iterable[tuple[int, int]] = ()
) -> LogFile:
    """Return a file with its mark.

    Args:
        file: The file.
        source: Its bytes.
        ranges: The ranges of offsets in which messages will be read.
    """
    stretches = [(0, min(file.size, _HEAD_BYTES))]
    stretches += [(start - file.start, stop - file.start) for start, stop in ranges]
    return replace(file, mark=FileMark.of(source, stretches))


def commit_log_of(path: PathLike | Store, commit_log: LogArgument) -> CommitLog | None:
    """Return the CommitLog that an argument of :func:`rmqindex.verify` means for an index."""
    if commit_log is None or isinstance(commit_log, CommitLog):
        return commit_log
    if isinstance(commit_log, str) and commit_log == "auto":
        log = Store.open(path, needs_index=False).log()
        return None if log is None else CommitLog(log)
    return CommitLog(commit_log)


def ensure_end(
    log: CommitLog,
    stop: int | None = None,
    *,
    mode: Mode = "FAILFAST",
    on_malformed: Callable[[CorruptCommitLogError], None] | None = None,
) -> None:
    """Raise if something proves that a log went on behind its last sound record.

    Args:
        log: The log.
        stop: The offset from which on nothing is asked for, bytes; None for the log's end.
        mode: As :meth:`rmqindex.CommitLog.scan` takes it.
        on_malformed: As :meth:`rmqindex.CommitLog.scan` takes it.

    Raises:
        CorruptCommitLogError: The log is damaged at its end; only ``FAILFAST``.
        RmqIndexError: The storage failed.
    """
    error = log.end_error() if stop is None or stop > log.max_offset else None
    if error is None:
        return
    if mode == "FAILFAST":
        raise error
    if on_malformed is not None:
        on_malformed(error)


def damage_at(log: CommitLog, offset: int) -> CorruptCommitLogError | None:
    """Return the damage in which an offset lies, where no message starts; None if it is sound.

    Raises:
        RmqIndexError: The storage failed.
    """
    if offset >= log.max_offset:
        return log.end_error()
    errors: list[CorruptCommitLogError] = []
    for _ in log.records(
        offset, offset + 1, mode="DROPMALFORMED", on_malformed=errors.append, proves_end=False
    ):
        pass
    return errors[0] if errors else None


def ensure_log_of(
    root: Path, log: CommitLog, name: str, options: Sequence[str], *, allow_loss: bool
) -> bool:
    """Refuse to write into a store that has a CommitLog of its own what another one tells.

    Copies of one log, such as those of backups and replicas, agree on the records that both have.

    Args:
        root: The local store root.
        log: The log to write from.
        name: The command, which writes from the store's own log if it is given the store.
        options: Those that were given, but for where to write.
        allow_loss: Whether to accept it.

    Returns:
        Whether the log is the store's own, or it has none.

    Raises:
        RmqIndexError: It is another log, and ``allow_loss`` is not given.
    """
    if not log.files or any(root_of(file.path.parent).local == root for file in log.files):
        return True
    try:
        place = log_in(Location(root))
        own = None if place is None else CommitLog(place)
    except RmqIndexError:  # without files, say: then a copy is all that is left
        return True
    if own is None:
        return True
    with own:
        if not any(file.size for file in own.files) or _agree(log, own):
            return True
    if not allow_loss:
        command = command_line(name, root, options=options)
        raise RmqIndexError(
            f"{root}: expected the CommitLog of this store ({place}), or a copy of it, got another "
            f"one ({log.files[0].path.parent}), whose messages it lacks: the index and the queues "
            f"of its own messages would be gone. `{command}` writes from its own log; for a store "
            "without one, give another directory; allow_loss=True writes nevertheless"
        )
    return False


def _agree(one: CommitLog, other: CommitLog) -> bool:
    """Return whether two logs have files in common, and no records there that differ."""
    starts = [{file.start for file in log.files if file.size} for log in (one, other)]
    shared = sorted(starts[0] & starts[1])
    if not shared or not _same_records(one, other, shared):
        return False
    shorter, longer = sorted((one, other), key=lambda log: log.max_offset)
    file = file_at(shorter.files, shorter.max_offset - 1)
    last = -1
    if file is not None:
        for records in shorter.records(file.start, mode="DROPMALFORMED", proves_end=False):
            last = int(records.phy_offset[-1])
    there = file_at(longer.files, last)
    if there is None:
        return True
    if longer.read_at([last], _IDENTITY)["state"][0].as_py() == "record":
        return _same_records(shorter, longer, [last])
    return damage_at(longer, last) is not None  # a hole is no other record


def _same_records(one: CommitLog, other: CommitLog, offsets: Sequence[int]) -> bool:
    """Return whether two logs have the same records at offsets, wherever both have one."""
    rows = zip(*(log.read_at(offsets, _IDENTITY).to_pylist() for log in (one, other)), strict=True)
    return all(
        ours == theirs for ours, theirs in rows if ours["state"] == theirs["state"] == "record"
    )


class PassedOver:
    """The damage of a log that a reading passes over; each place is told once.

    Attributes:
        is_any: Whether there was any.
    """

    def __init__(self, tell: Callable[[CorruptCommitLogError], None] | None) -> None:
        """Call a function with each place's error; None to call none."""
        self._tell = tell
        self._places: set[tuple[str, int, str]] = set()
        self.is_any = False

    def add(self, error: CorruptCommitLogError) -> None:
        """Pass over a place."""
        self.is_any = True
        place = (error.path, error.byte, error.field)
        if self._tell is not None and place not in self._places:
            self._places.add(place)
            self._tell(error)


@dataclass(frozen=True, slots=True)
class OlderTail:
    """Sound records behind a log's end, older than its last one, of which nothing tells the life.

    An earlier life of the log left them, or the broker's clock stepped back and the end is a hole.

    Attributes:
        path: The file of the log that has them.
        byte: Where the log ends, from the start of the file.
        phy_offset: The offset of the first one, bytes.
        count: How many there are.
    """

    path: str
    byte: int
    phy_offset: int
    count: int


def older_tail(log: CommitLog) -> OlderTail | None:
    """Return what older records lie behind a log's end, unless something proves whose they are.

    A later life of the log uses queue offsets again. Of a remote log, and of DLedger's, whose
    entries have an order, none are looked for.

    Raises:
        RmqIndexError: The storage failed.
    """
    end = log.max_offset
    file = file_at(log.files, end)
    if file is None or file.entry_head or file.path.local is None:
        return None
    stores = {root_of(each.path.parent).local for each in log.files}
    roots = [store for store in stores if store is not None]
    with log.open_file(file) as source:
        runs = list(_runs_behind(source, file, end - file.start))
        if not runs:
            return None
        places = {(t, q): n for run in runs for t, q, n in reversed(_queue_places(run))}
        newest = None
        for records in log.records(file.start, end, mode="DROPMALFORMED", proves_end=False):
            newest = int(store_timestamps(records)[-1])
            ids = _queue_ids(records)
            mine = np.flatnonzero(np.isin(ids, [queue_id for _, queue_id in places]))
            for topic, queue_id, number in _queue_places(records.take(mine)):
                if places.get((topic, queue_id), number + 1) <= number:
                    return None
        for run in runs:
            if newest is None or (store_timestamps(run) >= newest).any():
                return None  # a broker has written on
            asked = range(min(len(run), ASKED_RECORDS))
            nothing = range(0), lambda _: None
            led = (led_by_unit(root, run, place, *nothing) for root in roots for place in asked)
            if any(each is False for each in led):
                return None
    count = sum(map(len, runs))
    return OlderTail(str(file.path), end - file.start, int(runs[0].phy_offset[0]), count)


def _runs_behind(source: ByteSource, file: LogFile, end: int) -> Iterator[Records]:
    """Yield the sound records behind a place of a file, in which anything may lie between them."""
    at, size = end, min(source.size, file.size)
    while (found := find_record(source, file, at, size)) is not None:
        frames = frames_of(file)
        yield from walk(source, file, frames, found, size, _MOST_RECORDS)
        at = max(frames.at, found + 1)


def _queue_ids(records: Records) -> NDArray[np.int64]:
    return gather(records.data, records.starts + QUEUE_ID_OFFSET, "i4").astype(np.int64)


def _queue_places(records: Records) -> list[tuple[bytes, int, int]]:
    """Return topic, queue and queue offset of each record that has a place."""
    records = records.take(have_places(records))
    numbers = gather(records.data, records.starts + QUEUE_OFFSET_OFFSET, "i8").tolist()
    topics = (
        bytes(records.data[start:stop])
        for start, stop in zip(
            records.topic_start.tolist(), records.topic_stop.tolist(), strict=True
        )
    )
    return list(zip(topics, _queue_ids(records).tolist(), numbers, strict=True))


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
    parts += _misnamed_behind(log, folder)
    if taken is not None:
        parts = [left for part in parts if (left := part.without(*taken)) is not None]
    return tuple(
        part
        for part in parts
        if (part.stop is None or start is None or part.stop > start)
        and (part.start is None or stop is None or part.start < stop)
    )


def _misnamed_behind(log: CommitLog, folder: str) -> Iterator[MissingPart]:
    """Yield what the files behind a log's end have that lies where no file is, by their names.

    A file that lies there, but begins with another message, is as good as none.
    """
    behind = [file for file in log.files if file.start >= log.max_offset]
    for file in behind if log.max_offset else ():
        start = own_start_of(file)
        if start in (None, file.start):
            continue
        holder = file_at(log.files, start)
        if holder is None or own_start_of(holder) not in (None, holder.start):
            advice = own_name_advice(file.path, start, [each.path.parent for each in log.files])
            given = folder, start, start + file.size, str(file.path), None
            yield MissingPart("misnamed", *given, advice)


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
