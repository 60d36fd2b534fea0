"""The reasons of an explanation: what each code means, for every output."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EXPLAIN_REASONS", "OF_OTHERS", "Reason"]

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
    "entry_unknown": "The CommitLog has a message with the key, and only an IndexFile that cannot "
    "be read may have an entry of it.",
    "rolled_back": "The transaction of the message was rolled back; a broker does not index it.",
    "index_reach": "The index reaches from its first to its last entry; a miss beyond proves "
    "nothing.",
    "index_behind": "The CommitLog has messages behind the last entry of the index; a miss among "
    "them proves nothing.",
    "index_gap": "The CommitLog has messages before or between the entries of the IndexFiles; a "
    "miss among them proves nothing.",
    # Of the CommitLog.
    "no_log": "No CommitLog was read, so that messages were neither compared nor searched.",
    "not_in_log": "No message in the CommitLog, as far as it reaches, has the key.",
    "not_searched": "A part of the CommitLog was not searched.",
    "log_damaged": "A part of the CommitLog cannot be read.",
    "log_begins_later": "The CommitLog begins after the time in question; older messages have "
    "expired.",
    # Of the topic.
    "topic_spelling": "A topic that differs only in case or blanks has messages with the key.",
    "other_topic": "Another topic has messages with the key.",
    "retry_topic": "A consumer group receives the message again after it failed.",
    "dead_letter_topic": "A consumer group gave the message up after its last attempt.",
    "half_topic": "The first phase of a transaction; consumers see the message after the commit.",
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
