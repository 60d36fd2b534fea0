"""What an explanation consists of, and what the codes of its reasons mean."""

from __future__ import annotations

from dataclasses import dataclass

from rmqindex.consumequeue.progress import QUEUE_STATES
from rmqindex.errors import counted
from rmqindex.keys.hashing import index_key
from rmqindex.notebooks import html_table

Span = tuple[int, int]

#: What the reasons of :func:`rmqindex.explain_lookup` mean.
EXPLAIN_REASONS: dict[str, str] = {
    # Of a file without an entry of the key.
    "no_entries": "The file has no entries.",
    "empty_slot": "The key's slot is empty.",
    "other_keys": "The key's slot has entries, all of other keys.",
    "damaged": "The file is damaged, or the key's chain is broken.",
    "unreadable": "The file cannot be read, so that nothing is known of its entries.",
    # Of an entry that the broker does not return.
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
    # Of an entry that the broker returns, but whose message does not have the key.
    "collision": "The message has another topic or other keys of the same hash; the client drops "
    "it.",
    "zeroed": "Bytes of the message's topic or properties are zeros, so that it may have lost the "
    "key; the CommitLog is damaged there.",
    "expired": "The message is not in the CommitLog any more.",
    "dangling": "No message starts at the offset, or its log file is not there.",
    # Of an entry that the broker returns.
    "hit": "The entry answers the query.",
    # Of the index.
    "no_index": "There are no IndexFiles.",
    "no_entry": "No IndexFile that can be read has an entry of the key.",
    "not_indexed": "The CommitLog has a message with the key, and the index has no entry of it.",
    "entry_unknown": "The CommitLog has a message with the key, and only an IndexFile that was not "
    "read may have an entry of it.",
    "rolled_back": "The transaction of the message was rolled back; a broker does not index it.",
    "index_reach": "The index reaches from its first to its last entry; a miss beyond proves "
    "nothing.",
    "index_behind": "The CommitLog has messages behind the last entry of the index; a miss among "
    "them proves nothing.",
    "index_gap": "The CommitLog has messages before or between the entries of the IndexFiles; a "
    "miss among them proves nothing.",
    # Of the messages in their ConsumeQueues.
    **QUEUE_STATES,
    "not_for_consumers": "No consumer group is given what is in the topic.",
    "delay_over": "The broker has put the delayed message under its own topic, as another message.",
    "delay_pending": "The delay is not over; the broker will put the message under its own topic.",
    # Of the consumer groups.
    "passed": "Consumer groups have passed the message. That is not proof that it was consumed: "
    "one whose tag or filter a group does not ask for is passed, too.",
    "not_passed": "Consumer groups have not passed the message.",
    "offset_beyond_end": "The offset of a consumer group lies behind the end of the message's "
    "queue, so that it proves nothing of the message.",
    "no_group": "No consumer group has an offset of the topic; one that broadcasts keeps its "
    "offsets at its clients.",
    "offsets_unknown": "What the consumer groups have passed is not known.",
    # Of the CommitLog.
    "no_log": "No CommitLog was read, so that messages were neither compared nor searched.",
    "not_in_log": "No message in the CommitLog, as far as it reaches, has the key.",
    "not_searched": "A part of the CommitLog was not searched.",
    "log_damaged": "A part of the CommitLog cannot be read; only a replica or a backup has it.",
    "log_begins_later": "The CommitLog begins after the time in question; older messages have "
    "expired, unless it begins at offset 0.",
    # Of the topic.
    "swapped": "Topic and key may stand in each other's place.",
    "topic_unknown": "The store has no such topic, by its ConsumeQueues and config/topics.json.",
    "topic_spelling": "A topic that differs only in case or blanks has messages with the key.",
    "other_topic": "Another topic has messages with the key.",
    "retry_topic": "A consumer group receives the message again after it failed.",
    "dead_letter_topic": "A consumer group gave the message up after its last attempt.",
    "half_topic": "The first phase of a transaction; consumers get the message only once it is "
    "committed.",
    "half_committed": "The transaction was committed: the broker has put the message under its own "
    "topic, as another message.",
    "half_rolled_back": "The transaction was rolled back: the CommitLog has its end and no commit "
    "before it, so consumers do not get the message.",
    "op_topic": "The end of a transaction.",
    "schedule_topic": "A delayed message; it moves to its own topic when its delay is over.",
    "timer_topic": "A timer message; it moves to its own topic at its time.",
    "topics_unknown": "The ConsumeQueues, whose folders name the topics, are in RocksDB, so the "
    "other topics are not known.",
    # Of the key.
    "key_spelling": "A key that differs only in case or blanks has messages.",
    "key_with_spaces": "Spaces separate keys, so each part is a key of its own.",
    "part_of_key": "Messages have a key that contains the text; only whole keys are indexed.",
    "key_of_member": "A message inside a batch has the key; the broker indexes the batch's own "
    "keys.",
    "tag": "The text is the tag of messages, which is indexed as a tag and not as a key.",
    "tag_not_indexed": "Messages have the tags, and the index has no entries of tags, which "
    "brokers before 5.4.0 do not write.",
    "offset_message_id": "The text is an offset message id, which names a place in the CommitLog "
    "and is not indexed.",
    "unique_key_time": "The text has the form of a unique key, which tells when its client made "
    "it.",
    # Of the tools that ask a broker.
    "row_limit": "The broker returns the newest maxMsgsNumBatch rows, and so do the tools that ask "
    "it.",
    "three_days": "Clients from 5.0 on ask for a unique key (message id) only in the last three "
    "days.",
    "index_type": "Admin tools with the client of 5.5.0 may find nothing by key: they send "
    "no indexType.",
    "rocksdb_index": "The store also has an index in RocksDB, of which a broker asks only one: the "
    "IndexFiles, unless indexFileReadEnable is false.",
}


#: Reasons of entries whose messages do not have the key.
OF_OTHERS = ("collision", "zeroed", "dangling")


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason why a key has the answer that it has.

    Attributes:
        code: A name of ``EXPLAIN_REASONS``.
        sentence: What it means here, with numbers.
        remedy: A command that helps; None where none does.
        topic: The topic of the messages, where it is another than the one queried.
        phy_offsets: The CommitLog offsets of the messages, bytes; newest first.
    """

    code: str
    sentence: str
    remedy: str | None = None
    topic: str | None = None
    phy_offsets: tuple[int, ...] = ()


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
        real_topics: The topics to which the messages belong, by their property ``REAL_TOPIC``, or
            ``RETRY_TOPIC`` of those that a consumer group failed on.
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
        faults: What cannot be read in the searched ranges, and where entries of the key dangle.
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


def entries_text(count: int, total: int) -> str:
    """Return how many entries are meant, and of how many where others are not."""
    return f"{count} of " * (count != total) + counted(total, "entry", "entries")


def outside(index: IndexReach | None, log: LogReach) -> tuple[list[Span], list[Span]]:
    """Return the ranges of ``log.not_indexed`` before or between the entries, and those behind."""
    end = -1 if index is None else index.end_phy_offset
    before = [span for span in log.not_indexed if span[0] <= end]
    return before, [span for span in log.not_indexed if span[0] > end]


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
        count, total = len(self.hits), sum(len(file.hits) for file in self.files)
        verb = "answers" if count == 1 else "answer"
        return f"{entries_text(count, total)} of hash {self.key_hash} {verb} the query."

    def lines(self) -> list[str]:
        """Return the reasons as text, each remedy below the first one it helps, and the outcome."""
        lines: list[str] = []
        for reason in self.reasons:
            lines.append(f"{reason.code}: {reason.sentence}")
            remedy = f"    {reason.remedy}"
            if reason.remedy is not None and remedy not in lines:
                lines.append(remedy)
        return [*lines, self._outcome()]
