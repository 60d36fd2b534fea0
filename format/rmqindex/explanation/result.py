"""What an explanation consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqindex.keys.hashing import index_key
from rmqindex.markup import html_table

if TYPE_CHECKING:
    from rmqindex.explanation.reasons import Reason

__all__ = [
    "FileExplanation",
    "HitExplanation",
    "IndexReach",
    "LogReach",
    "LookupExplanation",
    "OtherTopic",
]


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
    """Messages with the same key under another topic.

    Attributes:
        topic: A retry, dead letter, schedule, timer or transaction topic, in which the broker keeps
            messages of other topics; where the queried topic has no entry of the key, any topic.
        phy_offsets: The CommitLog offsets of its messages, bytes; newest first.
        is_verified: Whether the messages were read and have the key.
        real_topics: The topics to which the messages belong, by their property ``REAL_TOPIC``.
    """

    topic: str
    phy_offsets: tuple[int, ...]
    is_verified: bool
    real_topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexReach:
    """How far an index reaches; nothing outside is indexed.

    Attributes:
        file_count: The number of IndexFiles, damaged and empty ones too.
        entry_count: The number of their entries.
        begin_phy_offset: The CommitLog offset of the first entry, bytes.
        end_phy_offset: That of the last entry.
        begin_timestamp: The store time of the first entry, epoch milliseconds.
        end_timestamp: That of the last entry.
    """

    file_count: int
    entry_count: int
    begin_phy_offset: int
    end_phy_offset: int
    begin_timestamp: int
    end_timestamp: int


@dataclass(frozen=True, slots=True)
class LogReach:
    """How far a CommitLog reaches, and what of it was searched for the key.

    Attributes:
        min_offset: The offset of its first byte.
        max_offset: The offset behind its last message.
        begin_timestamp: The store time of its first message, epoch milliseconds; None if unknown.
        searched: The ranges of offsets that were searched, as start and stop in bytes.
        unsearched: The other ranges.
        not_indexed: The ranges of offsets, as first and last, of messages that have keys and lie
            outside the index; as far as searched.
        not_indexed_count: The number of these messages.
        faults: What cannot be read in the searched ranges.
    """

    min_offset: int
    max_offset: int
    begin_timestamp: int | None = None
    searched: tuple[tuple[int, int], ...] = ()
    unsearched: tuple[tuple[int, int], ...] = ()
    not_indexed: tuple[tuple[int, int], ...] = ()
    not_indexed_count: int = 0
    faults: tuple[str, ...] = ()

    @property
    def is_searched(self) -> bool:
        """Whether the whole log was searched and could be read."""
        return not self.unsearched and not self.faults


@dataclass(frozen=True, slots=True)
class LookupExplanation:
    """Why a key has the hits it has; its ``str()`` is a text for people.

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
        reasons: All reasons, the outcome first.
        index: How far the index reaches; None without entries.
        log: How far the CommitLog reaches, and what of it was searched; None without one.
    """

    topic: str
    key: str
    key_hash: int
    begin: int
    end: int
    files: tuple[FileExplanation, ...]
    other_topics: tuple[OtherTopic, ...]
    has_group_topics: bool = True
    reasons: tuple[Reason, ...] = ()
    index: IndexReach | None = None
    log: LogReach | None = None

    @property
    def hits(self) -> tuple[HitExplanation, ...]:
        """The entries that answer the query, newest first."""
        return tuple(hit for file in self.files for hit in file.hits if hit.reason == "hit")

    def __str__(self) -> str:
        """Return what ``rmqindex explain`` prints, without the single entries."""
        files = [f"  {file.name}  {file.reason}: {file.detail}" for file in self.files]
        return "\n".join([index_key(self.topic, self.key), *files, *self.lines()])

    def _repr_html_(self) -> str:
        title = f"{index_key(self.topic, self.key)}: {self._outcome()}"
        rows = [(reason.code, reason.sentence, reason.remedy) for reason in self.reasons]
        reasons = html_table(title, ("reason", "what it means", "what to do"), rows)
        files = [
            (file.name, file.reason, file.detail, len(file.hits), file.slot, file.chain_length)
            for file in self.files
        ]
        names = ("file", "reason", "detail", "entries of the hash", "slot", "entries of the slot")
        return reasons + html_table("IndexFiles, newest first", names, files)

    def _outcome(self) -> str:
        count = len(self.hits)
        noun, verb = ("entry", "answers") if count == 1 else ("entries", "answer")
        return f"{count} {noun} of hash {self.key_hash} {verb} the query."

    def lines(self) -> list[str]:
        """Return the reasons as text, each remedy below the first one it helps, and the outcome."""
        lines: list[str] = []
        for reason in self.reasons:
            lines.append(f"{reason.code}: {reason.sentence}")
            remedy = f"    {reason.remedy}"
            if reason.remedy is not None and remedy not in lines:
                lines.append(remedy)
        return [*lines, self._outcome()]
