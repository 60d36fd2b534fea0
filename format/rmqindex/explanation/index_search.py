"""The search of an index for a key: as the broker makes it, and under other topics and forms.

RocketMQ: ``IndexService.queryOffset``, ``IndexFile.selectPhyOffset``.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqindex.consumequeue.paths import nearest_topic
from rmqindex.errors import RmqIndexError, counted
from rmqindex.explanation.result import FileExplanation, HitExplanation, OtherTopic
from rmqindex.indexfile.committed import open_index_source
from rmqindex.keys.hashing import index_key, key_hash
from rmqindex.layout.index_file import FIRST_POSITION, INVALID_INDEX
from rmqindex.layout.queue import HALF_TOPIC, LMQ_PREFIX, OP_TOPIC, SCHEDULE_TOPIC
from rmqindex.layout.store import BATCH_FOLDER, QUEUE_FOLDER
from rmqindex.query.message_keys import SearchedFile
from rmqindex.query.verification import NO_LOG, Verdict, Verifier
from rmqindex.storage.filesystem import UnreadableError
from rmqindex.storage.identity import FileChangedError
from rmqindex.store.config import TopicTable
from rmqindex.store.contents import rocksdb_queues
from rmqindex.transaction.directories import entries_or_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.indexfile.reader import IndexFile
    from rmqindex.layout.index_file import IndexHeader
    from rmqindex.storage.location import Location, PathLike
    from rmqindex.store.snapshot import SnapshotFile

# What a verdict means for an entry that the broker returns.
_TRUTHS = {
    "verified": "hit",
    "ambiguous": "hit",
    "no_log": "hit",
    "mismatch": "collision",
    "zeroed": "zeroed",
    "unverified": "expired",
}
# Of more stores, nobody is told which topics they have; and more topics are not named.
_MOST_STORES, _MOST_HINTS = 8, 3
# The most entries of a slot whose messages are read to name their keys.
_MAX_CHAIN = 10_000


def truth_of(state: str) -> str:
    """Return the reason that a verdict's state stands for."""
    return _TRUTHS.get(state, "dangling")


class KeyTruths:
    """Compares the entries of keys with their messages, if there is a log."""

    def __init__(self, log: CommitLog | None) -> None:
        """Set the log."""
        self._log = log
        self._verifier = Verifier("members", strict=False)

    def verdicts(
        self, searched: SearchedFile, entries: pa.RecordBatch, pairs: Sequence[tuple[str, str]]
    ) -> list[Verdict]:
        """Return a verdict for each entry of a file."""
        if self._log is None or not len(entries):
            return [Verdict(NO_LOG)] * len(entries)
        columns = ("key_hash", "phy_offset", "position")
        compared = self._verifier.compare(
            self._log, [searched], *(entries[name].to_numpy() for name in columns)
        )
        return [
            compared.verdict(entry, *pairs[query])
            for entry, query in enumerate(entries["query"].to_pylist())
        ]


@dataclass(frozen=True, slots=True)
class Window:
    """The store times queried, epoch milliseconds, both inclusive."""

    begin: int
    end: int

    def holds(self, time: int) -> bool:
        """Return whether a time is queried."""
        return self.begin <= time <= self.end


class BrokerSearch:
    """The broker's search over the files, one after the other, newest first."""

    def __init__(self, window: Window, pair: tuple[str, str], limit: int) -> None:
        """Set the times, the topic and key, and the broker's ``maxMsgsNumBatch``."""
        self.window = window
        self.pair = pair
        self._text = index_key(*pair)
        self.hash = key_hash(self._text)
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

    def leave(self, header: IndexHeader, count: int = 0) -> None:
        """Note how many offsets a file gave, and whether the broker searches the next one."""
        if self._stopped_by is not None:
            return
        self._returned += count
        if self._returned >= self._limit:
            self._stopped_by = "hidden_by_limit"
        elif header.begin_timestamp < self.window.begin:
            self._stopped_by = "hidden_by_file"


def explain_file(planned: SnapshotFile, broker: BrokerSearch, truths: KeyTruths) -> FileExplanation:
    """Explain what a file holds for the key; go from the newest file to the oldest."""
    if planned.is_empty:
        broker.leave(planned.header)
        return FileExplanation(planned.entry.path, planned.entry.name, "no_entries", "no entries")
    try:
        with planned.open() as file:
            return _explain_open_file(file, planned, broker, truths)
    except FileChangedError:
        raise
    except RmqIndexError as error:
        reason = "unreadable" if isinstance(error, UnreadableError) else "damaged"
        detail = _without_mode(error)
        return FileExplanation(planned.entry.path, planned.entry.name, reason, detail)


def _without_mode(error: RmqIndexError) -> str:
    """Return what an error says, but for the hint at a mode, which an explanation does not take."""
    what, _, hint = str(error).rpartition("; ")
    return what if "mode=DROPMALFORMED" in hint else str(error)


def _explain_open_file(
    file: IndexFile, planned: SnapshotFile, broker: BrokerSearch, truths: KeyTruths
) -> FileExplanation:
    entry, layout = planned.entry, planned.layout
    assert layout is not None  # there are entries
    returned, missing = broker.search(file)
    slot = broker.hash % layout.hash_slot_num
    chain = _chain_hashes(file.path, layout, slot, planned.entry_count)
    entries = file.lookup([broker.hash], planned.stop)
    if not len(entries):
        reason = "other_keys" if chain else "empty_slot"
        others = len(set(chain))
        detail = f"slot {slot}: " + (
            f"{counted(len(chain), 'entry', 'entries')} of "
            f"{counted(others, 'other key hash', 'other key hashes')}"
            if chain
            else "empty"
        )
        return FileExplanation(entry.path, entry.name, reason, detail, slot, len(chain))
    verdicts = truths.verdicts(SearchedFile.of(file, planned.name_path), entries, [broker.pair])
    hits = _explain_hits(entries, verdicts, returned, missing, broker, file)
    reasons = Counter(hit.reason for hit in hits)
    reason = "hit" if reasons["hit"] else hits[0].reason
    detail = f"slot {slot}: " + ", ".join(f"{count} {name}" for name, count in reasons.items())
    return FileExplanation(entry.path, entry.name, reason, detail, slot, len(chain), tuple(hits))


def _explain_hits(
    entries: pa.RecordBatch,
    verdicts: Sequence[Verdict],
    returned: Counter[int],
    missing: str,
    broker: BrokerSearch,
    file: IndexFile,
) -> list[HitExplanation]:
    """Explain, for each entry with the hash, whether the broker returns it, and why."""
    rows = entries.select(["position", "phy_offset", "store_timestamp", "time_diff"]).to_pylist()
    hits = []
    for row, verdict in zip(rows, verdicts, strict=True):
        truth, message = truth_of(verdict.state), verdict.message
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
            late_time = file.header.begin_timestamp + row["time_diff"] * 1000
            is_first = row["position"] == FIRST_POSITION
            reason = "read_late" if is_first and not broker.window.holds(late_time) else missing
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


# TopicValidator, MixAll, TimerMessageStore: where the broker stores messages of other topics, and
# the codes of such reasons.
SYSTEM_TOPICS = {
    SCHEDULE_TOPIC: "schedule_topic",
    HALF_TOPIC: "half_topic",
    OP_TOPIC: "op_topic",
    "rmq_sys_wheel_timer": "timer_topic",
}
_GROUP_PREFIXES = {"%RETRY%": "retry_topic", "%DLQ%": "dead_letter_topic"}
# MessageConst.PROPERTY_REAL_TOPIC, and PROPERTY_RETRY_TOPIC of what a consumer group failed on,
# whose real topic is that of the group's retries.
REAL_TOPIC, _RETRY_TOPIC = "REAL_TOPIC", "RETRY_TOPIC"


class PairOffsets(NamedTuple):
    """The messages of a topic and key, newest first.

    Attributes:
        topic: The topic.
        key: The key.
        phy_offsets: Their CommitLog offsets, bytes; without those known to have other keys.
        is_verified: Whether all were read and have the key.
    """

    topic: str
    key: str
    phy_offsets: tuple[int, ...]
    is_verified: bool


def topics_of(store: Location) -> list[str] | None:
    """Return the topics of a store, by the folders of its ConsumeQueues.

    None where the queues are in RocksDB, so that no folder names a topic.
    """
    folders = {
        entry.name
        for name in (QUEUE_FOLDER, BATCH_FOLDER)
        for entry in entries_or_none(store.child(name))
        if entry.is_directory
    }
    if not folders and rocksdb_queues(store) is not None:
        return None
    return sorted(folders)


def topic_names(root: Location) -> list[str]:
    """Return the topics that a store has, by its ConsumeQueues and its table of topics.

    None are known of a copy without both; a table that cannot be read names none.
    """
    names = {*(topics_of(root) or ())}
    with suppress(RmqIndexError):
        if root.local is not None and (table := TopicTable.of(root.local)):
            names |= table.topics
    return sorted(names)


def swapped_pairs(topic: str, key: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the topics and keys that are meant where the two are in each other's place.

    Only a key that is a topic, maybe in other case, and a topic that is none show that.
    """
    if topic in names:
        return []
    meant = (name for name in names if name == key or is_spelling(name, key))
    return [(name, topic) for name in meant if not name.startswith(LMQ_PREFIX)]


def likely_topic(topic: str, names: Sequence[str]) -> str | None:
    """Return the topic that is nearest to one that a store lacks.

    No light queue is: its messages are indexed under the topics that they were sent to.
    """
    return nearest_topic(topic, [name for name in names if not name.startswith(LMQ_PREFIX)])


def topic_hints(roots: Iterable[Location], pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return a sentence for each topic asked for that none of some local stores has.

    Nothing is said where a store does not tell its topics, nor of more stores than a few: each
    costs two listings and a table.

    Args:
        roots: The store roots.
        pairs: The topics and keys that are looked up.
    """
    stores = list(dict.fromkeys(roots))
    if len(stores) > _MOST_STORES or any(root.local is None for root in stores):
        return []
    keys: dict[str, str] = {}
    for topic, key in pairs:
        keys.setdefault(topic, key)
    if not keys:
        return []
    told = [topic_names(root) for root in stores]
    names = {name for each in told for name in each} if all(told) else set()
    texts = []
    for topic, key in keys.items() if names else ():
        if topic in names:
            continue
        # Messages of a topic that was deleted are still found.
        text = f"there is no queue of the topic {topic!r}"
        if swapped := swapped_pairs(topic, key, sorted(names)):
            text += f"; {swapped[0][0]!r} is a topic: the two may be in each other's place"
        elif (near := likely_topic(topic, sorted(names))) is not None:
            text += f"; the nearest topic is {near!r}"
        texts.append(text)
    return texts[:_MOST_HINTS]


def is_spelling(name: str, topic: str) -> bool:
    """Return whether a topic differs from another in case or blanks alone."""
    return name != topic and name.strip().casefold() == topic.strip().casefold()


def holds_other_topics(topic: str) -> bool:
    """Return whether a broker keeps messages of other topics under a topic."""
    return topic in SYSTEM_TOPICS or topic.startswith((*_GROUP_PREFIXES,))


def topic_code(topic: str, asked: str) -> str:
    """Return the code of the reason that another topic than the one asked for has the key."""
    if is_spelling(topic, asked):
        return "topic_spelling"
    prefixed = (code for prefix, code in _GROUP_PREFIXES.items() if topic.startswith(prefix))
    return SYSTEM_TOPICS.get(topic) or next(prefixed, "other_topic")


def topics_to_try(topic: str, topics: Sequence[str]) -> list[str]:
    """Return the topics under which a key may be besides its own, the broker's own first."""
    names = [name for name in topics if holds_other_topics(name)]
    names += [name for name in (topic.strip(), *topics) if name and not holds_other_topics(name)]
    return [name for name in dict.fromkeys((*SYSTEM_TOPICS, *names)) if name != topic]


def look_up_pairs(
    files: Sequence[SnapshotFile], pairs: Iterable[tuple[str, str]], log: CommitLog | None
) -> list[PairOffsets]:
    """Look up topics and keys, and return those that have entries; their messages are compared."""
    wanted = list(dict.fromkeys(pairs))
    hashes = [key_hash(index_key(*pair)) for pair in wanted]
    truths = KeyTruths(log)
    truths_of: dict[int, dict[int, str]] = {}
    for file in reversed(files):
        if file.is_empty or not wanted:
            continue
        try:
            with file.open() as opened:
                entries = opened.lookup(hashes, file.stop)
        except FileChangedError:
            raise
        except RmqIndexError:
            continue  # its own explanation reports it
        verdicts = truths.verdicts(SearchedFile.planned(file), entries, wanted)
        for query, offset, verdict in zip(
            entries["query"].to_pylist(), entries["phy_offset"].to_pylist(), verdicts, strict=True
        ):
            truth = truth_of(verdict.state)
            if truth in ("hit", "expired"):
                truths_of.setdefault(query, {})[offset] = truth
    return [
        PairOffsets(
            *wanted[query],
            tuple(truths_of[query]),
            log is not None and set(truths_of[query].values()) <= {"hit"},
        )
        for query in sorted(truths_of)
    ]


def as_other_topic(pair: PairOffsets, log: CommitLog | None) -> OtherTopic:
    """Add the topics to which the messages belong."""
    name = _RETRY_TOPIC if pair.topic.startswith((*_GROUP_PREFIXES,)) else REAL_TOPIC
    known = holds_other_topics(pair.topic)
    real = _read_property(log, pair.phy_offsets, name) if known else ()
    return OtherTopic(pair.topic, pair.phy_offsets, pair.is_verified, real)


def _read_property(log: CommitLog | None, phy_offsets: Sequence[int], name: str) -> tuple[str, ...]:
    """Return the distinct values of a property of messages."""
    if log is None or not phy_offsets:
        return ()
    rows = log.read_at(np.array(phy_offsets, np.int64), ["properties"])["properties"].to_pylist()
    values = [dict(row).get(name) for row in rows if row is not None]
    return tuple(dict.fromkeys(value for value in values if value))
