"""Looks a key up under other topics and in other forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqindex.errors import RmqIndexError
from rmqindex.explanation.broker import KeyTruths, truth_of
from rmqindex.explanation.result import OtherTopic
from rmqindex.folders import BATCH_FOLDER, QUEUE_FOLDER
from rmqindex.keys.hashing import index_key, key_hash
from rmqindex.query.ranks import SearchedFile
from rmqindex.storage.identity import FileChangedError
from rmqindex.store.contents import rocksdb_queues
from rmqindex.transaction.directories import entries_or_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.storage.location import Location
    from rmqindex.store.snapshot import SnapshotFile

__all__ = [
    "PairOffsets",
    "as_other_topic",
    "holds_other_topics",
    "look_up_pairs",
    "read_real_topics",
    "topics_of",
    "topics_to_try",
]

# TopicValidator, MixAll, TimerMessageStore: where the broker stores messages of other topics.
_SYSTEM_TOPICS = (
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "rmq_sys_wheel_timer",
)
_GROUP_PREFIXES = ("%RETRY%", "%DLQ%")
# MessageConst.PROPERTY_REAL_TOPIC.
_REAL_TOPIC = "REAL_TOPIC"


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


def holds_other_topics(topic: str) -> bool:
    """Return whether a broker keeps messages of other topics under a topic."""
    return topic in _SYSTEM_TOPICS or topic.startswith(_GROUP_PREFIXES)


def topics_to_try(topic: str, topics: Sequence[str]) -> list[str]:
    """Return the topics under which a key may be besides its own, the broker's own first."""
    names = [name for name in topics if holds_other_topics(name)]
    names += [name for name in (topic.strip(), *topics) if name and not holds_other_topics(name)]
    return [name for name in dict.fromkeys((*_SYSTEM_TOPICS, *names)) if name != topic]


def look_up_pairs(
    files: Sequence[SnapshotFile], pairs: Iterable[tuple[str, str]], log: CommitLog | None
) -> list[PairOffsets]:
    """Look up topics and keys, and return those that have entries; their messages are compared."""
    wanted = list(dict.fromkeys(pairs))
    hashes = [key_hash(index_key(*pair)) for pair in wanted]
    truths = KeyTruths(log)
    kept: dict[int, dict[int, str]] = {}
    for file in reversed(files):
        if file.is_empty or not wanted:
            continue
        try:
            with file.open() as opened:
                found = opened.lookup(hashes, file.stop)
        except FileChangedError:
            raise
        except RmqIndexError:
            continue  # its own explanation reports it
        verdicts = truths.verdicts(SearchedFile.planned(file), found, wanted)
        for query, offset, verdict in zip(
            found["query"].to_pylist(), found["phy_offset"].to_pylist(), verdicts, strict=True
        ):
            truth = truth_of(verdict.state)
            if truth in ("hit", "expired"):
                kept.setdefault(query, {})[offset] = truth
    return [
        PairOffsets(
            *wanted[query],
            tuple(kept[query]),
            log is not None and set(kept[query].values()) <= {"hit"},
        )
        for query in sorted(kept)
    ]


def as_other_topic(found: PairOffsets, log: CommitLog | None) -> OtherTopic:
    """Add the topics to which the messages belong."""
    real = read_real_topics(log, found.phy_offsets) if holds_other_topics(found.topic) else ()
    return OtherTopic(found.topic, found.phy_offsets, found.is_verified, real)


def read_real_topics(log: CommitLog | None, phy_offsets: Sequence[int]) -> tuple[str, ...]:
    """Return the distinct ``REAL_TOPIC`` of messages."""
    if log is None or not phy_offsets:
        return ()
    rows = log.read_at(np.array(phy_offsets, np.int64), ["properties"])["properties"].to_pylist()
    named = [dict(row).get(_REAL_TOPIC) for row in rows if row is not None]
    return tuple(dict.fromkeys(name for name in named if name))
