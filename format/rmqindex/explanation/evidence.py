"""What an explanation is drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.explanation.broker import Window
    from rmqindex.explanation.log_search import KeyForms, LogSearch
    from rmqindex.explanation.other_pairs import PairOffsets
    from rmqindex.explanation.result import (
        FileExplanation,
        HitExplanation,
        IndexReach,
        LogReach,
        OtherTopic,
    )

__all__ = ["Evidence"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of a key.

    Attributes:
        topic: The topic queried.
        forms: The key queried.
        window: The store times queried.
        files: What each file holds, newest first.
        index: How far the index reaches; None without entries.
        log: How far the log reaches; None without one.
        search: What the log has; None without one.
        others: Other topics with the key.
        indexed_topics: Those of them of which the index has entries.
        variants: Other forms of the key with entries under the topic.
        topics_known: Whether the store's other topics are known.
        is_covered: Whether each message is in the reach of the index or was searched.
        is_live: Whether a broker seems to run on the store.
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
    log: LogReach | None
    search: LogSearch | None
    others: tuple[OtherTopic, ...]
    indexed_topics: frozenset[str]
    variants: Sequence[PairOffsets]
    topics_known: bool
    is_covered: bool
    is_live: bool
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
        return [hit for hit in self.entries if hit.reason not in ("collision", "dangling")]
