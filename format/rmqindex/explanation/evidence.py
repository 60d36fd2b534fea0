"""What is known of a key: of this alone reasons are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqindex.explanation.result import OF_OTHERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.explanation.index_search import PairOffsets, Window
    from rmqindex.explanation.log_search import Fit, IndexCover, KeyForms, LogMessage, LogSearch
    from rmqindex.explanation.result import (
        FileExplanation,
        HitExplanation,
        IndexReach,
        LogReach,
        OtherTopic,
        Reason,
    )
    from rmqindex.transaction.broker_lock import BrokerState


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of a key.

    Attributes:
        topic: The topic queried.
        forms: The key queried.
        window: The store times queried.
        files: What each file holds, newest first.
        index: How far the index reaches; None without entries.
        can_resume: Whether all files are sound, and the last one has the last messages and name.
        is_of_one_geometry: Whether all files that show their geometry have the same.
        cover: Of which messages the index has entries, and those of which nobody knows.
        log: How far the log reaches; None without one.
        search: What the log has; None without one.
        others: Other topics with the key.
        indexed_topics: Those of them of which the index has entries.
        variants: Other forms of the key with entries under the topic.
        swapped: Those of the topic as a key and the key as a topic, if there are any.
        topic_names: The topics that the store has; empty where nothing tells.
        topics_known: Whether the store's other topics are known.
        is_covered: Whether each message is in the reach of the index or was searched.
        broker: Whether a broker runs on the store, crashed or stopped.
        consumption: Why consumers can get the messages found, or not.
        rocksdb_index: A file that proves an index in RocksDB, if any.
        indexes_tags: Whether the store is of a broker from 5.4.0 on.
        is_uniq_key: Whether the key is the unique key of a message found.
        key_time: When the key was made, if it is a unique key; epoch milliseconds.
        id_offset: The offset of the message whose offset message id the key is.
    """

    topic: str
    forms: KeyForms
    window: Window
    files: tuple[FileExplanation, ...]
    index: IndexReach | None
    can_resume: bool
    is_of_one_geometry: bool
    cover: IndexCover
    log: LogReach | None
    search: LogSearch | None
    others: tuple[OtherTopic, ...]
    indexed_topics: frozenset[str]
    variants: Sequence[PairOffsets]
    swapped: Sequence[PairOffsets]
    topic_names: Sequence[str]
    topics_known: bool
    is_covered: bool
    broker: BrokerState
    consumption: tuple[Reason, ...]
    rocksdb_index: str | None
    indexes_tags: bool
    is_uniq_key: bool
    key_time: int | None
    id_offset: int | None

    @property
    def entries(self) -> list[HitExplanation]:
        """The entries with the key's hash, newest first."""
        return [hit for file in self.files for hit in file.hits]

    @property
    def own_entries(self) -> list[HitExplanation]:
        """Those of them that may be the key's own."""
        return [hit for hit in self.entries if hit.reason not in OF_OTHERS]

    def own_messages(self, fit: Fit) -> list[LogMessage]:
        """Return the messages of the topic that the log has with a text that fits the key so."""
        found = self.search.messages(fit) if self.search is not None else ()
        return [message for message in found if message.topic == self.topic]
