"""Explains why the broker does or does not find a key: file by file, what its slot holds.

RocketMQ: ``IndexService.queryOffset``, ``IndexFile.selectPhyOffset``,
``DefaultMessageStore.queryMessage``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.commitlog.sibling import beside_index, commit_log_of
from rmqindex.errors import RmqIndexError
from rmqindex.folders import QUEUE_FOLDER
from rmqindex.indexfile.committed import open_index_source
from rmqindex.keys.hashing import index_key, key_hash
from rmqindex.layout import DEFAULT_MAX_MSGS_NUM_BATCH, FIRST_POSITION, INT64_MAX, INVALID_INDEX
from rmqindex.query.verdicts import Judge
from rmqindex.storage.identity import FileChangedError
from rmqindex.store.contents import rocksdb_queues
from rmqindex.store.planned_index import plan_index
from rmqindex.times import check_milliseconds
from rmqindex.transaction.directories import entries_or_none

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rmqindex.commitlog.files import LogFile
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.header import IndexHeader
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.indexfile.reader import IndexFile
    from rmqindex.storage.location import PathLike
    from rmqindex.store.planned_index import PlannedFile

__all__ = [
    "EXPLAIN_REASONS",
    "FileExplanation",
    "HitExplanation",
    "LookupExplanation",
    "OtherTopic",
    "explain_lookup",
]

#: What the reasons of :func:`rmqindex.explain_lookup` mean.
EXPLAIN_REASONS: dict[str, str] = {
    # For a file without an entry of the key.
    "no_entries": "The file has no entries.",
    "empty_slot": "The key's slot is empty.",
    "other_keys": "The key's slot has entries, all of other keys.",
    "damaged": "The file cannot be read, or the key's chain is broken.",
    # For an entry that the broker does not return.
    "outside_window": "The entry is not of the time asked for.",
    "file_skipped": "The file's header times do not meet the time asked for, so the broker does "
    "not open it.",
    "hidden_by_file": "The broker stopped after a newer file that begins before the time asked "
    "for.",
    "hidden_by_stop": "The broker stopped at an entry of the slot, of whatever key, that is older "
    "than the time asked for.",
    "hidden_by_limit": "The broker returns no more rows than maxMsgsNumBatch.",
    "read_late": "The broker reads the first entry of a rolled file too late, and so not in the "
    "time asked for.",
    "read_early": "The broker knows the entry's time in whole seconds, up to one too early, and so "
    "not in the time asked for.",
    # For an entry that the broker returns, but whose message does not have the key.
    "collision": "The message has another topic or other keys of the same hash; the client drops "
    "it.",
    "expired": "The message is not in the CommitLog any more.",
    "dangling": "No message starts at the offset, or its log file is not there.",
    # For the rest.
    "hit": "The entry answers the query.",
}

# TopicValidator, MixAll, TimerMessageStore: where the broker stores messages of other topics.
_SYSTEM_TOPICS = (
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "rmq_sys_wheel_timer",
)
# What a verdict means for an entry that the broker returns.
_TRUTHS = {
    "verified": "hit",
    "no_log": "hit",
    "mismatch": "collision",
    "unverified": "expired",
}
_GROUP_PREFIXES = ("%RETRY%", "%DLQ%")
# The most entries of a slot whose messages are read to name their keys.
_MAX_CHAIN = 10_000


@dataclass(frozen=True, slots=True)
class HitExplanation:
    """An entry with the key's hash.

    Attributes:
        position: Its number in the file, from 1.
        phy_offset: CommitLog offset at which the message starts, bytes.
        store_timestamp: Store time, epoch milliseconds; the message's own where a CommitLog has it,
            else cut to whole seconds after the file's first entry.
        reason: A name of ``EXPLAIN_REASONS``.
        message: The topic and keys of its message, where the reason is ``collision``.
    """

    position: int
    phy_offset: int
    store_timestamp: int
    reason: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class FileExplanation:
    """What one file holds for a key.

    Attributes:
        path: The file.
        name: Its name.
        reason: ``hit`` if an entry is a hit; else the reason of the newest entry of the key, or why
            there is no entry.
        detail: A sentence with the numbers.
        slot: The key's slot; None where the file has no entries.
        chain_length: The number of entries of that slot, counted up to 10,000.
        hits: The entries with the key's hash, newest first.
    """

    path: str
    name: str
    reason: str
    detail: str
    slot: int | None = None
    chain_length: int = 0
    hits: tuple[HitExplanation, ...] = ()


@dataclass(frozen=True, slots=True)
class OtherTopic:
    """Entries of the same key under a topic in which the broker keeps messages of other topics.

    Attributes:
        topic: A retry, dead letter, schedule, timer or transaction topic.
        phy_offsets: The CommitLog offsets of its messages, bytes; newest first.
        is_verified: Whether the messages were read and have the key.
    """

    topic: str
    phy_offsets: tuple[int, ...]
    is_verified: bool


@dataclass(frozen=True, slots=True)
class LookupExplanation:
    """Why a key has the hits it has.

    Attributes:
        topic: The topic queried.
        key: The key queried.
        key_hash: The hash of ``topic#key``.
        begin: The earliest store time queried, epoch milliseconds.
        end: The latest store time queried, epoch milliseconds.
        files: One explanation per file, newest first, the broker's order.
        other_topics: The other topics under which the key has entries.
        has_group_topics: Whether retry and dead letter topics were searched: not where the
            ConsumeQueues are in RocksDB, since only folders of ConsumeQueues name them.
    """

    topic: str
    key: str
    key_hash: int
    begin: int
    end: int
    files: tuple[FileExplanation, ...]
    other_topics: tuple[OtherTopic, ...]
    has_group_topics: bool = True

    @property
    def hits(self) -> tuple[HitExplanation, ...]:
        """The entries that answer the query, newest first."""
        return tuple(hit for file in self.files for hit in file.hits if hit.reason == "hit")


def explain_lookup(
    path: PathLike,
    topic: str,
    key: str,
    begin: int | None = None,
    end: int | None = None,
    commit_log: CommitLog | PathLike | Sequence[PathLike | LogFile] | None = None,
    layout: Layout | None = None,
    *,
    max_msgs_num_batch: int = DEFAULT_MAX_MSGS_NUM_BATCH,
) -> LookupExplanation:
    """Explain, file by file, why the broker does or does not find a key.

    Args:
        path: An IndexFile, an index directory, or a store root that has ``index/``.
        topic: The topic.
        key: The unique key or one of the keys of the message.
        begin: The earliest store time, epoch milliseconds, inclusive; None for 0.
        end: The latest store time, epoch milliseconds, inclusive; None for all times.
        commit_log: As :func:`verify` takes it; without it, collisions and expired messages count as
            hits.
        layout: The geometry of every file; None to infer it.
        max_msgs_num_batch: The broker's ``maxMsgsNumBatch``: no query returns more.

    Returns:
        The explanation.

    Raises:
        ValueError: ``begin`` is after ``end``, or one of them looks like seconds.
        RmqIndexError: Nothing is there, a store of another kind, or a file was replaced meanwhile.

    Example:
        >>> from rmqindex import explain_lookup, sample_store
        >>> explained = explain_lookup(sample_store(), "TopicTest", "no-such-key")
        >>> sorted({file.reason for file in explained.files})
        ['empty_slot', 'other_keys']
    """
    for bound in (begin, end):
        if bound is not None:
            check_milliseconds(bound)
    if begin is not None and end is not None and begin > end:
        raise ValueError(f"begin: expected at most end, {end}, got {begin}")
    window = _Window(0 if begin is None else begin, INT64_MAX if end is None else end)
    text = index_key(topic, key)
    log = commit_log_of(path, commit_log)
    try:
        judge = Judge(log, topic, key)
        broker = _Broker(window, text, max_msgs_num_batch)
        planned = plan_index(path, layout, "FAILFAST")[::-1]
        files = [_explain_file(each, broker, judge) for each in planned]
        group_topics = _group_topics(path)
        others = _other_topics(planned, topic, key, log, group_topics or ())
    finally:
        if log is not None and log is not commit_log:
            log.close()
    return LookupExplanation(
        topic,
        key,
        key_hash(text),
        window.begin,
        window.end,
        tuple(files),
        others,
        has_group_topics=group_topics is not None,
    )


@dataclass(frozen=True, slots=True)
class _Window:
    begin: int
    end: int

    def holds(self, time: int) -> bool:
        return self.begin <= time <= self.end


class _Broker:
    """The broker's search over the files, one after the other, newest first."""

    def __init__(self, window: _Window, text: str, limit: int) -> None:
        self.window = window
        self.hash = key_hash(text)
        self._text = text
        self._limit = limit
        self._returned = 0
        self._stopped_by: str | None = None

    def search(self, file: IndexFile) -> tuple[Counter[int], str]:
        """Search a file; return the offsets found, and the reason why others are missing."""
        begin, end = self.window.begin, self.window.end
        if self._stopped_by is not None:
            return Counter(), self._stopped_by
        reason = "hidden_by_stop"
        offsets: list[int] = []
        if file.is_time_matched(begin, end):
            rest = max(self._limit - self._returned, 0)
            offsets = file.select_phy_offset(self._text, rest, begin, end)
            if len(offsets) == rest:
                reason = "hidden_by_limit"
        else:
            reason = "file_skipped"
        self.leave(file.header, len(offsets))
        return Counter(offsets), reason

    def leave(self, header: IndexHeader, found: int = 0) -> None:
        """Note how many offsets a file gave, and whether the broker searches the next one."""
        if self._stopped_by is not None:
            return
        self._returned += found
        if self._returned >= self._limit:
            self._stopped_by = "hidden_by_limit"
        elif header.begin_timestamp < self.window.begin:
            self._stopped_by = "hidden_by_file"


def _explain_file(each: PlannedFile, broker: _Broker, judge: Judge) -> FileExplanation:
    if each.is_empty:
        broker.leave(each.header)
        return FileExplanation(each.entry.path, each.entry.name, "no_entries", "no entries")
    try:
        with each.open() as file:
            return _explain_open_file(file, each, broker, judge)
    except FileChangedError:
        raise
    except RmqIndexError as error:
        return FileExplanation(each.entry.path, each.entry.name, "damaged", str(error))


def _explain_open_file(
    file: IndexFile, each: PlannedFile, broker: _Broker, judge: Judge
) -> FileExplanation:
    entry, layout = each.entry, each.layout
    assert layout is not None  # there are entries
    returned, missing = broker.search(file)
    slot = broker.hash % layout.hash_slot_num
    chain = _chain_hashes(file.path, layout, slot, each.entry_count)
    found = file.lookup([broker.hash], each.stop)
    if not len(found):
        reason = "other_keys" if chain else "empty_slot"
        others = len(set(chain))
        detail = f"slot {slot}: " + (
            f"{len(chain)} {'entry' if len(chain) == 1 else 'entries'} of {others} other key "
            f"{'hash' if others == 1 else 'hashes'}"
            if chain
            else "empty"
        )
        return FileExplanation(entry.path, entry.name, reason, detail, slot, len(chain))
    hits = _explain_hits(found, returned, missing, broker, judge, file)
    reasons = Counter(hit.reason for hit in hits)
    reason = "hit" if reasons["hit"] else hits[0].reason
    detail = f"slot {slot}: " + ", ".join(f"{count} {name}" for name, count in reasons.items())
    return FileExplanation(entry.path, entry.name, reason, detail, slot, len(chain), tuple(hits))


def _explain_hits(
    found: pa.RecordBatch,
    returned: Counter[int],
    missing: str,
    broker: _Broker,
    judge: Judge,
    file: IndexFile,
) -> list[HitExplanation]:
    """Explain, for each entry with the hash, whether the broker returns it, and why."""
    rows = found.select(["position", "phy_offset", "store_timestamp", "time_diff"]).to_pylist()
    hits = []
    verdicts = judge.verdicts([row["phy_offset"] for row in rows])
    for row, verdict in zip(rows, verdicts, strict=True):
        truth, message = _TRUTHS.get(verdict.state, "dangling"), verdict.message
        offset, read = row["phy_offset"], row["store_timestamp"]
        time = read if verdict.store_timestamp is None else verdict.store_timestamp
        if returned[offset]:
            returned[offset] -= 1
            reason = truth if broker.window.holds(read) else "outside_window"
        elif not (broker.window.holds(read) or broker.window.holds(time)):
            reason = "outside_window"
        elif truth != "hit":
            reason = truth
        elif not broker.window.holds(read):
            reason = "read_early"
        else:
            late = file.header.begin_timestamp + row["time_diff"] * 1000
            is_first = row["position"] == FIRST_POSITION
            reason = "read_late" if is_first and not broker.window.holds(late) else missing
        hits.append(
            HitExplanation(
                row["position"], offset, time, reason, message if reason == "collision" else None
            )
        )
    return hits


def _chain_hashes(path: PathLike, layout: Layout, slot: int, count: int) -> list[int]:
    """Return the hashes of a slot's counted entries, newest first, as far as its chain goes."""
    hashes: list[int] = []
    with open_index_source(path) as source:
        position = int(source.slots(layout, np.array([slot]))[0])
        while INVALID_INDEX < position <= layout.capacity and len(hashes) < _MAX_CHAIN:
            entry = source.entry_range(layout, position, position + 1)
            if position <= count:  # entries were added since
                hashes.append(int(entry["key_hash"][0]))
            previous = int(entry["prev_position"][0])
            position = previous if previous < position else INVALID_INDEX
    return hashes


def _other_topics(
    files: Sequence[PlannedFile],
    topic: str,
    key: str,
    log: CommitLog | None,
    group_topics: Sequence[str],
) -> tuple[OtherTopic, ...]:
    """Look the key up under the topics in which a broker keeps messages of other topics."""
    topics = [each for each in (*_SYSTEM_TOPICS, *group_topics) if each != topic]
    hashes = [key_hash(index_key(each, key)) for each in topics]
    offsets: dict[str, list[int]] = {each: [] for each in topics}
    for each in files:
        if each.is_empty:
            continue
        try:
            with each.open() as file:
                found = file.lookup(hashes, each.stop)
        except FileChangedError:
            raise
        except RmqIndexError:
            continue  # its own explanation reports it
        for query, offset in zip(
            found["query"].to_pylist(), found["phy_offset"].to_pylist(), strict=True
        ):
            offsets[topics[query]].append(offset)
    others = []
    for other, found_offsets in offsets.items():
        truths = [
            _TRUTHS.get(v.state, "dangling") for v in Judge(log, other, key).verdicts(found_offsets)
        ]
        kept: list[int] = []
        kept_truths: set[str] = set()
        for offset, truth in zip(found_offsets, truths, strict=True):
            if truth in ("hit", "expired"):
                kept.append(offset)
                kept_truths.add(truth)
        if kept:
            confirmed = log is not None and kept_truths <= {"hit"}
            others.append(OtherTopic(other, tuple(dict.fromkeys(kept)), confirmed))
    return tuple(others)


def _group_topics(path: PathLike) -> list[str] | None:
    """Return the retry and dead letter topics of a store, named by its queues' folders.

    None where the queues are in RocksDB, so that no folder names a topic.
    """
    queues = beside_index(path, QUEUE_FOLDER)
    folders = [entry.name for entry in entries_or_none(queues) if entry.is_directory]
    if not folders and rocksdb_queues(queues.parent) is not None:
        return None
    return sorted(name for name in folders if name.startswith(_GROUP_PREFIXES))
