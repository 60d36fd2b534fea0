"""How far an index should reach: whether it is missing, and how far it may lag behind its log.

RocketMQ: ``DefaultMessageStore.shutdown`` removes ``abort`` only after all messages were
dispatched; ``ReputMessageService`` indexes those of a running broker within moments.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqindex.audit.remedies import LOG_FILE_MISNAMED, LOG_FILE_NAME, LOG_FILE_SIZE, OWN_START
from rmqindex.commitlog.files import broker_file_size, foreign_files
from rmqindex.commitlog.framing import LogFile
from rmqindex.commitlog.snapshot import older_tail
from rmqindex.commitlog.walk import own_start, own_start_of
from rmqindex.errors import RmqIndexError
from rmqindex.explanation.reach import LONGEST_LAG
from rmqindex.indexfile.committed import header_of
from rmqindex.indexfile.decoding import MILLISECONDS
from rmqindex.keys.hash_set import distinct
from rmqindex.keys.messages import KEY_COLUMNS, expand_messages
from rmqindex.layout.dledger import DATA_FOLDER
from rmqindex.layout.index_file import FIRST_POSITION, INT64_MAX
from rmqindex.layout.store import CHECKPOINT_NAME, COMMITLOG_FOLDER, INDEX_FOLDER
from rmqindex.store.checkpoint import DISPATCHED_OFFSET, StoreCheckpoint
from rmqindex.store.store import index_entries, root_of
from rmqindex.transaction.broker_lock import BrokerLock, BrokerState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from rmqindex.audit.findings import Findings
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.errors import CorruptCommitLogError
    from rmqindex.layout.index_file import IndexHeader
    from rmqindex.storage.location import Location

# Clocks step back; by more than this, --since may look at one log file too few.
_CLOCK_STEP = 3_600_000  # milliseconds
# More entries, or places with some, than these are not looked at: a longer log left them.
_MOST_MISLED = 65_536
_MOST_PLACES = 64
# MessageStoreConfig.commitLogRecoverMaxNum.
_MOST_RECOVERED = 10
_COLUMNS = ("topic", "uniq_key", "keys", "sys_flag", "phy_offset", "store_timestamp")


def broker_of(directory: Location) -> BrokerState:
    """Return the state of an index's broker; running, too, where it may run or rmqindex writes."""
    if directory.absolute.name != INDEX_FOLDER:
        return BrokerState.NONE
    lock = BrokerLock.around(directory)
    state = lock.state
    return BrokerState.RUNNING if state.may_run or lock.writer is not None else state


def may_have_broker(directory: Location) -> bool:
    """Return whether a broker runs on an index's store, as far as anybody can tell."""
    is_of_store = directory.absolute.name == INDEX_FOLDER
    return is_of_store and BrokerLock.around(directory).state.may_run


def _end_rule(seconds: int, broker: BrokerState) -> str:
    """Return the rule for messages without entries, so many seconds older than the newest."""
    if seconds > LONGEST_LAG or broker in (BrokerState.CRASHED, BrokerState.STOPPED):
        return "index_ends_early"
    return "index_behind" if broker is BrokerState.NONE else "index_lags"


def recovered_from(checkpoint: StoreCheckpoint, root: Path, log: CommitLog) -> int:
    """Return from which offset a broker of any version indexes messages again.

    With ``messageIndexSafe=true``, it begins early enough for all entries.
    """
    path = root / CHECKPOINT_NAME
    dispatched = StoreCheckpoint.dispatched_offset(path) if path.is_file() else 0
    before_5_5 = since_5_5 = log.min_offset
    for number, file in enumerate(reversed(log.files), 1):
        first = log.first_store_timestamp(file) or INT64_MAX
        if before_5_5 == log.min_offset and first <= checkpoint.min_timestamp:
            before_5_5 = file.start
        is_flushed = (
            first < INT64_MAX and file.start <= dispatched
            if dispatched > 0
            else first <= checkpoint.logics_msg_timestamp
        )
        if since_5_5 == log.min_offset and (is_flushed or number == _MOST_RECOVERED):
            since_5_5 = file.start
    return max(before_5_5, since_5_5)


def is_indexed_by_a_start(
    directory: Location, log: CommitLog, offset: int, broker: BrokerState
) -> bool:
    """Return whether a broker that was killed indexes a message, and what follows, when it starts.

    It has no entry yet, and so lies behind the end of the files that the broker keeps.
    """
    root = directory.parent.local
    if broker is not BrokerState.CRASHED or root is None or directory.name != INDEX_FOLDER:
        return False
    path = root / CHECKPOINT_NAME
    try:
        checkpoint = StoreCheckpoint.load(path) if path.is_file() else StoreCheckpoint()
    except OSError:
        return False  # the audit of the store's state reports it
    return offset >= max(recovered_from(checkpoint, root, log), log.min_offset)


def index_end(directory: Location) -> int:
    """Return the offset of the last message that has an entry now, bytes; -1 for none."""
    end = -1
    for entry in index_entries(directory):
        if entry.is_directory:
            continue
        with suppress(RmqIndexError):
            header = header_of(entry.path)
            if header.entry_count > FIRST_POSITION:
                end = max(end, header.end_phy_offset)
    return end


def log_start(log: CommitLog, since: int | None) -> int:
    """Return an offset before which no message was stored at a time or later, bytes."""
    if since is None:
        return 0
    for file in reversed(log.files):
        first = log.first_store_timestamp(file)
        if first is not None and first < since - _CLOCK_STEP:
            return file.start
    return 0


def audit_missing(directory: str, log: CommitLog, findings: Findings, broker: BrokerState) -> None:
    """Check that a log beside an index without entries is whole, and has no message with keys."""
    # As a rebuild does, which leaves out what DLedger's group is not known to have agreed on.
    stop = log.agreed_stop(log.max_offset)
    assert stop is not None
    first: int | None = None  # the offset of the first message with keys
    earliest = latest = 0  # the store times of that and of those behind it
    # No file of the index has a part of the log in which to look for damage.
    for batch in log.scan(
        columns=list(_COLUMNS), mode="DROPMALFORMED", on_malformed=partial(add_damage, findings)
    ):
        times = batch["store_timestamp"].to_numpy()
        if first is None and len(rows := rows_with_keys(batch)):
            row = int(rows[0])
            first, earliest = int(batch["phy_offset"][row].as_py()), int(times[row])
            times = times[row:]
        if first is not None:
            latest = max(latest, int(times.max(initial=0)))
    if first is None or first >= stop:
        return
    seconds = (latest - earliest) // MILLISECONDS
    rule = _end_rule(seconds, broker)
    findings.add(
        directory,
        rule if rule == "index_lags" else "index_missing",
        None,
        f"entries of the messages with keys from {first} to {stop}",
        f"none; the last of them was stored {seconds} s after the first" if seconds else "none",
    )


def audit_gaps(log: CommitLog, findings: Findings) -> None:
    """Say which files a log lacks between others: what was made anew since has no entry of them."""
    behind = {file.start: str(file.path) for file in log.files}
    for start, stop in log.gaps:
        if stop < log.max_offset:
            findings.add(
                behind[stop], "log_damaged", None, f"a file before it, from {start}", "none"
            )


def audit_log_files(log: CommitLog, broker: BrokerState, findings: Findings) -> None:
    """Say which files of a log are not as they are named, or have another size."""
    _audit_log_names(log, findings)
    _audit_log_size(log, broker, findings)


def _audit_log_size(log: CommitLog, broker: BrokerState, findings: Findings) -> None:
    """Say that a log's newest file has another size than those of its kind before it.

    That of an earlier file is damage between the records. A running broker may be making the file.
    """
    size, last = broker_file_size(log.files), log.files[-1] if log.files else None
    if size is None or last is None or last.path.local is None:  # no broker loads an object
        return
    if last.size > size or (last.size < size and broker is not BrokerState.RUNNING):
        expected = f"{size} bytes, as those before it have"
        findings.add(str(last.path), LOG_FILE_SIZE, last.size, expected, f"{last.size} bytes")


def _audit_log_names(log: CommitLog, findings: Findings) -> None:
    """Say which files in a log's folders are none of it, or another's copies."""
    local = [file for file in log.files if file.path.local is not None]
    heads = {file.path.parent: file.entry_head for file in local}
    # Only of the broker's own folder is it known that nothing else belongs there.
    own = [folder for folder in heads if folder.name in (COMMITLOG_FOLDER, DATA_FOLDER)]
    for entry, expected in [each for folder in own for each in foreign_files(folder)]:
        head = heads.get(entry.path.parent, 0)
        start = own_start_of(LogFile(0, entry.size, entry.path, entry_head=head))
        if start is None:
            findings.add(str(entry.path), LOG_FILE_NAME, None, expected, entry.name)
        else:
            findings.add(str(entry.path), LOG_FILE_MISNAMED, 0, expected, f"{OWN_START}{start}")
    for file in local:
        start = None
        with suppress(RmqIndexError), log.open_file(file) as source:  # a broker expires files
            start = own_start(source, file)
        if start not in (None, file.start):
            expected = f"a message at offset {file.start}, as its name says"
            findings.add(str(file.path), LOG_FILE_MISNAMED, 0, expected, f"{OWN_START}{start}")


def audit_remains(log: CommitLog, findings: Findings) -> None:
    """Say which messages behind a log's end nothing proves to be of an earlier life of it."""
    tail = older_tail(log)
    if tail is not None:
        expected = "no messages behind it, or newer ones"
        got = f"{tail.count} older ones, from offset {tail.phy_offset} on"
        findings.add(tail.path, "log_remains", tail.byte, expected, got)


def audit_flushed(log: CommitLog, findings: Findings) -> None:
    """Say that a log ends before what was flushed to its queues, by the checkpoint of its store.

    That proves no loss: a broker that cuts its log when it starts leaves the checkpoint as it is.
    Where something else proves one, that is the finding.
    """
    for root in dict.fromkeys(root_of(file.path.parent).local for file in log.files):
        if root is None or not (path := root / CHECKPOINT_NAME).is_file():
            continue
        flushed = 0
        with suppress(OSError):  # the audit of the store's state reports it
            flushed = StoreCheckpoint.dispatched_offset(path)
        if flushed >= max(log.max_offset, 1) and log.end_error() is None:
            expected = f"less than {log.max_offset}, the end of the CommitLog"
            findings.add(str(path), "log_ends_early", DISPATCHED_OFFSET, expected, flushed)


def add_damage(findings: Findings, error: CorruptCommitLogError) -> None:
    """Add what is damaged in a log."""
    findings.add(error.path, "log_damaged", error.byte, error.expected, error.got)


def rows_with_keys(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Return which messages of a batch have keys, and so need entries."""
    columns = (batch[name] for name in ("topic", "uniq_key", "keys", "sys_flag"))
    return distinct(expand_messages(*columns)[0])


@dataclass(frozen=True, slots=True)
class LogRange:
    """The part of the log whose entries one file must hold.

    Attributes:
        start: The first offset, bytes.
        stop: The offset before which it ends; None for the log's end.
        begin: The offset of the first entry of all files.
    """

    start: int
    stop: int | None
    begin: int


class MissingRun:
    """A run of consecutive messages without entries, reported as one finding."""

    def __init__(self, path: str, findings: Findings, broker: BrokerState) -> None:
        """Begin without messages."""
        self.path = path
        self._findings = findings
        self._broker = broker
        self._first = 0
        self._last = 0
        self._count = 0
        self.behind = 0
        self.behind_from = 0
        self._behind_time = 0
        self._latest = 0
        self.early = 0
        #: Whether the messages behind the last entry are indexed when a killed broker starts.
        self.waits_for_start = False

    def see(self, batch: pa.RecordBatch) -> None:
        """Note the store times of messages after the first one behind the last entry.

        Those of messages before it tell nothing: the broker's clock may have stepped back since.
        """
        if self.behind:
            times = batch["store_timestamp"].to_numpy()
            is_later = batch["phy_offset"].to_numpy() >= self.behind_from
            self._latest = max(self._latest, int(times[is_later].max(initial=0)))

    def add_behind(self, batch: pa.RecordBatch) -> None:
        """Add the messages with keys of a batch behind the last entry."""
        if not batch.num_rows:
            return
        rows = rows_with_keys(batch)
        if len(rows) and not self.behind:
            first = int(rows[0])
            self.behind_from = batch["phy_offset"][first].as_py()
            self._behind_time = batch["store_timestamp"][first].as_py()
        self.behind += len(rows)

    def add(self, offset: int) -> None:
        """Add a message without any entry."""
        if not self._count:
            self._first = offset
        self._last = offset
        self._count += 1

    def end(self) -> None:
        """Note that a message with entries follows."""
        if self._count:
            self._findings.add(
                self.path,
                "coverage_gap",
                None,
                f"entries of the messages at {self._first} to {self._last}",
                f"none of {self._count} messages",
            )
        self._count = 0

    def finish(self, log_start: int, begin: int) -> None:
        """Report the runs, given the log's ends."""
        self.end()
        if self.early:
            self._findings.add(
                self.path,
                "index_begins_late",
                None,
                f"entries from {log_start}",
                f"none of {self.early} messages with keys before {begin}, where the first entry "
                "points",
            )
        if self.behind:
            seconds = (self._latest - self._behind_time) // MILLISECONDS
            self._findings.add(
                self.path,
                "restart_indexes" if self.waits_for_start else _end_rule(seconds, self._broker),
                None,
                "no message with keys behind the last entry",
                f"{self.behind} messages from {self.behind_from}, the oldest stored "
                f"{f'{seconds} s' if seconds else 'less than a second'} before the last message "
                "of the CommitLog",
            )


class _Misled(NamedTuple):
    """Consecutive entries with offsets outside of the file's range, between two without.

    ``start`` and ``stop`` are the range of offsets of the messages that may be theirs.
    """

    offsets: NDArray[np.int64]
    hashes: NDArray[np.int32]
    start: int
    stop: int


def damaged_offsets(
    log: CommitLog,
    blocks: Callable[[], Iterable[tuple[NDArray[np.int64], NDArray[np.int32]]]],
    header: IndexHeader,
) -> NDArray[np.int64]:
    """Return the offsets outside of a file's range that damage alone explains, bytes.

    Such entries stand for messages between those of the entries around them, which have no other
    entry: each has the hash of a key that lacks one there. Else they are what a longer log left,
    which was truncated and has gone on, also where the file begins with them.
    Nothing is known of the first and the last message, whose entries may be in two files.

    Args:
        log: The log.
        blocks: Yields the offsets and the hashes of all entries of a file.
        header: The file's header.
    """
    places = _misled(blocks(), header)
    held = [Counter[tuple[int, int]]() for _ in places]
    for offsets, hashes in blocks() if places else ():
        for place, pairs in zip(places, held, strict=True):
            pairs.update(_pairs_of(place, offsets, hashes))
    found = []
    for place, pairs in zip(places, held, strict=True):
        owed = Counter[tuple[int, int]]()
        for batch in log.scan(
            place.start, place.stop, [*KEY_COLUMNS, "tags", "phy_offset"], mode="DROPMALFORMED"
        ):
            rows, _, hashes = expand_messages(*(batch[name] for name in (*KEY_COLUMNS, "tags")))
            owed.update(_pairs_of(place, batch["phy_offset"].to_numpy()[rows], hashes))
        lacking = Counter(code for _, code in (owed - pairs).elements())
        if Counter(place.hashes.tolist()) <= lacking:
            found.append(place.offsets)
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _misled(
    blocks: Iterable[tuple[NDArray[np.int64], NDArray[np.int32]]], header: IndexHeader
) -> list[_Misled]:
    """Return the misled entries of a file; none where they are too many for damage."""
    begin, end = header.begin_phy_offset, header.end_phy_offset
    found: list[_Misled] = []
    pending: list[tuple[NDArray[np.int64], NDArray[np.int32]]] = []
    before, count = begin, 0
    for offsets, hashes in blocks:
        is_misled = (offsets > end) | (offsets < begin)
        edges = np.flatnonzero(is_misled[1:] != is_misled[:-1]) + 1
        for first, stop in pairwise([0, *edges.tolist(), len(offsets)]):
            if is_misled[first]:
                pending.append((offsets[first:stop], hashes[first:stop]))
                count += stop - first
                if count > _MOST_MISLED:
                    return []
                continue
            if pending:
                stretch = max(before, begin + 1, 0), min(int(offsets[first]) + 1, end)
                ours, codes = (np.concatenate(part) for part in zip(*pending, strict=True))
                found.append(_Misled(ours, codes, *stretch))
                pending = []
                if len(found) > _MOST_PLACES:
                    return []
            before = int(offsets[stop - 1])
    return [place for place in found if place.start < place.stop]


def _pairs_of(
    place: _Misled, offsets: NDArray[np.int64], hashes: NDArray[np.int32]
) -> Iterator[tuple[int, int]]:
    """Yield the offsets and hashes of the entries, or keys, that a place's own may be."""
    kept = (offsets >= place.start) & (offsets < place.stop) & np.isin(hashes, place.hashes)
    return zip(offsets[kept].tolist(), hashes[kept].tolist(), strict=True)
