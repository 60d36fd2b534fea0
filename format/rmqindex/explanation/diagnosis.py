"""Draws reasons from what is known of a key, the outcome first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rmqindex.errors import counted
from rmqindex.explanation.index_search import (
    is_spelling,
    likely_topic,
    swapped_pairs,
    topic_code,
)
from rmqindex.explanation.result import EXPLAIN_REASONS, Reason, entries_text, outside
from rmqindex.explanation.wording import listed, ranges
from rmqindex.keys.hashing import index_key
from rmqindex.keys.messages import tag_key
from rmqindex.layout.index_file import INT64_MAX
from rmqindex.storage.location import Location
from rmqindex.transaction.broker_lock import BrokerState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqindex.explanation.commands import Commands
    from rmqindex.explanation.evidence import Evidence
    from rmqindex.explanation.log_search import Fit, LogMessage
    from rmqindex.explanation.result import LogReach, OtherTopic
    from rmqindex.explanation.wording import Times

_DAY = 24 * 3_600_000
# MQAdminImpl of clients from 5.0 on.
_CLIENT_WINDOW = 3 * _DAY
# The likeliest mistake first; the topics in which a broker keeps messages of others in between.
_TOPIC_ORDER = {"topic_spelling": 0, "other_topic": 2}
_ENTRY_NOUN = ("entry", "entries")
# How a text may fit the key without being it.
_LIKE: tuple[Fit, ...] = ("tag", "several", "spelling")


def diagnose(evidence: Evidence, commands: Commands, times: Times) -> tuple[Reason, ...]:
    """Return every reason that the evidence shows."""
    drawn = _Diagnosis(evidence, commands, times)
    return (
        *drawn.outcome(),
        *drawn.missing_entries(),
        *drawn.hidden_entries(),
        *evidence.consumption,
        *drawn.reach(),
        *_topic_reasons(evidence, commands),
        *drawn.keys(),
        *drawn.tools(),
        *drawn.log(),
    )


@dataclass(frozen=True, slots=True)
class _Diagnosis:
    evidence: Evidence
    commands: Commands
    times: Times

    @property
    def _name(self) -> str:
        return index_key(self.evidence.topic, self.evidence.forms.key)

    @property
    def _files(self) -> str:
        files, known = self.evidence.files, self.evidence.index
        unread = sum(file.reason == "unreadable" for file in files)
        text = f"{len(files) - unread} of " * bool(unread) + counted(len(files), "file")
        if known is not None:
            text += f" ({counted(known.entry_count, *_ENTRY_NOUN)})"
        return f"{text}; {unread} cannot be read" if unread else text

    def outcome(self) -> Iterator[Reason]:
        """Say how many entries answer the query."""
        evidence = self.evidence
        hits = [hit for hit in evidence.entries if hit.reason == "hit"]
        if hits:
            found = entries_text(len(hits), len(evidence.own_entries))
            sentence = f"{found} of {self._name} in {self._files}."
            yield Reason("hit", sentence, phy_offsets=tuple(hit.phy_offset for hit in hits))
        elif not evidence.files:
            yield Reason("no_index", EXPLAIN_REASONS["no_index"], self._rebuild_with())
        elif not evidence.own_entries:
            sentence = f"No entry of {self._name} in {self._files}."
            if any(hit.reason in ("zeroed", "dangling") for hit in evidence.entries):
                sentence = f"No entry in {self._files} leads to a message of {self._name}."
            yield Reason("no_entry", sentence)

    def missing_entries(self) -> Iterator[Reason]:
        """Name the messages that have the key and no entry."""
        known = {hit.phy_offset for hit in self.evidence.entries}
        messages = [
            message
            for message in self.evidence.own_messages("key")
            if message.phy_offset not in known
        ]
        plain = [message for message in messages if message.is_indexed]
        tagged = [] if self.evidence.indexes_tags else [each for each in plain if each.is_tag]
        plain = [message for message in plain if message not in tagged]
        may_hide = self.evidence.cover.may_hide
        hidden = [each for each in plain if may_hide(each.phy_offset, each.phy_offset + 1)]
        absent = [message for message in plain if message not in hidden]
        if absent:
            it = "it" if len(absent) == 1 else "them"
            yield Reason(
                "not_indexed",
                f"{self._logged(absent)}; the index has no entry of {it}.{self._state()}",
                self._mend(min(message.phy_offset for message in absent)),
                phy_offsets=tuple(message.phy_offset for message in absent),
            )
        if hidden:
            is_of_file = self.evidence.cover.is_of_file
            why = "a file that may have its entry cannot be read"
            if is_of_file:
                why = "the entry may be in another IndexFile"
            yield Reason(
                "entry_unknown",
                f"{self._logged(hidden)}; {why}.",
                self._explain_whole() if is_of_file else self.commands.verify(),
                phy_offsets=tuple(message.phy_offset for message in hidden),
            )
        kinds = {
            "rolled_back": [message for message in messages if message.is_rolled_back],
            "key_of_member": [message for message in messages if message.is_member],
            "tag_not_indexed": tagged,
        }
        for code, found in kinds.items():
            offsets = tuple(message.phy_offset for message in found)
            if offsets:
                yield Reason(
                    code,
                    f"{EXPLAIN_REASONS[code]} {counted(len(offsets), 'message')} at "
                    f"{listed(offsets)}.",
                    self.commands.cat(offsets[0]),
                    phy_offsets=offsets,
                )

    def _logged(self, messages: Sequence[LogMessage]) -> str:
        """Say where messages with the key are, and when they were stored."""
        search = self.evidence.search
        least = "at least " if search is not None and search.is_full("key") else ""
        stored = sorted(message.store_timestamp for message in messages)
        span = self.times.text(stored[0])
        if stored[-1] != stored[0]:
            span += f" to {self.times.text(stored[-1])}"
        return (
            f"The CommitLog has {least}{counted(len(messages), 'message')} of {self._name} at "
            f"{listed(message.phy_offset for message in messages)}, stored {span}"
        )

    def _explain_whole(self) -> str:
        """Return the command that asks the whole index of which a file was asked."""
        commands, store = self.commands, self.commands.store
        place = Location.of(commands.shown(store.root if commands.is_store else store.index))
        whole = replace(commands, store=replace(store, given=place, file=None))
        return whole.explain(self.evidence.topic, self.evidence.forms.key)

    def _mend(self, first: int) -> str | None:
        """Return the command that indexes what lies at an offset or behind it."""
        index, log = self.evidence.index, self.evidence.log
        is_tag = self.evidence.forms.tags is not None
        # Without it, a rebuild leaves out tags of which the files have no entries.
        tags = ("--index-tags",) * is_tag
        if index is None:
            replace = ("--replace",) if self.evidence.files else ()
            return self._rebuild_with(*replace, *tags)
        # Resuming adds keys that the last message lacks, and no tags of it.
        behind = first > index.end_phy_offset or (first == index.end_phy_offset and not is_tag)
        return self._rebuild(*tags, behind=behind and not (log and outside(index, log)[0]))

    def _rebuild(self, *options: str, behind: bool) -> str | None:
        if not behind or not self.evidence.can_resume:
            return self._rebuild_with("--replace", *options)
        is_running = self.evidence.broker is BrokerState.RUNNING
        return None if is_running else self._rebuild_with("--resume", *options)

    def _rebuild_with(self, *options: str) -> str | None:
        """Return a rebuild; where something else is to be mended first, what tells that."""
        log = self.evidence.log
        if (log is not None and log.faults) or not self.evidence.is_of_one_geometry:
            return self.commands.verify()
        return self.commands.rebuild(*options)

    def _state(self) -> str:
        """Return what the broker will do about messages that the index lacks."""
        if self.evidence.broker is BrokerState.RUNNING:
            return " The broker runs, and indexes its newest messages within moments."
        if self.evidence.broker is BrokerState.UNKNOWN:
            return " Whether a broker runs cannot be told, as the store's lock cannot be read."
        if self.evidence.broker is BrokerState.CRASHED:
            verify = self.commands.verify()
            return f" The broker was killed; before it starts, `{verify}` tells what it will do."
        return ""

    def hidden_entries(self) -> Iterator[Reason]:
        """Count the entries and the files without one, by reason."""
        entries = self.evidence.entries
        for code, count in Counter(hit.reason for hit in entries).items():
            if code not in ("hit", "hidden_by_limit"):
                offsets = tuple(hit.phy_offset for hit in entries if hit.reason == code)
                yield Reason(
                    code,
                    f"{EXPLAIN_REASONS[code]} {counted(count, *_ENTRY_NOUN)}: {listed(offsets)}.",
                    self.commands.verify() if code == "zeroed" else None,
                    phy_offsets=offsets,
                )
        without = [file.reason for file in self.evidence.files if not file.hits]
        for code, count in Counter(without).items():
            remedy = self.commands.verify() if code in ("damaged", "unreadable") else None
            yield Reason(code, f"{EXPLAIN_REASONS[code]} {counted(count, 'file')}.", remedy)

    def reach(self) -> Iterator[Reason]:
        """Say how far index and log reach."""
        index, log = self.evidence.index, self.evidence.log
        if index is not None:
            yield Reason(
                "index_reach",
                f"Indexed from offset {index.begin_phy_offset} to {index.end_phy_offset}, stored "
                f"{self.times.text(index.begin_timestamp)} to "
                f"{self.times.text(index.end_timestamp)}; a miss beyond proves nothing.",
            )
        if log is None:
            return
        before, behind = outside(index, log)
        if before:
            yield Reason(
                "index_gap",
                f"The CommitLog has messages at {ranges(before)}, before or between the entries of "
                "the IndexFiles.",
                self._rebuild(behind=False),
            )
        if behind and index is not None:
            yield Reason(
                "index_behind",
                f"The CommitLog has messages at {ranges(behind)}, behind the last entry of the "
                f"index.{self._state()}",
                None if before else self._rebuild(behind=True),
            )
        time = self._latest_time()
        if log.begin_timestamp is not None and time is not None and time < log.begin_timestamp:
            older = "older messages have expired" if log.min_offset else "it has no older message"
            yield Reason(
                "log_begins_later",
                f"The CommitLog begins at offset {log.min_offset}, stored "
                f"{self.times.text(log.begin_timestamp)}, after {self.times.text(time)}; {older}.",
            )

    def _not_in(self, log: LogReach) -> str:
        """Say what of the log was searched in vain: all of it only where it begins at 0."""
        none = f"No message of {self._name} in the"
        if not log.min_offset:
            return f"{none} whole CommitLog, offsets 0 to {log.max_offset}."
        return (
            f"{none} CommitLog from offset {log.min_offset}, where its "
            f"oldest file begins, to {log.max_offset}. What was before has expired, or its files "
            "are lost."
        )

    def _latest_time(self) -> int | None:
        """Return when the message was stored at the latest, as far as the question tells."""
        window, made = self.evidence.window, self.evidence.key_time
        if window.end < INT64_MAX:
            return window.end
        if made is not None and not self.evidence.own_entries:
            return made + _DAY
        return None

    def keys(self) -> Iterator[Reason]:
        """Name other forms of the key that have messages, and what the key itself tells."""
        evidence = self.evidence
        if evidence.id_offset is not None:
            yield Reason(
                "offset_message_id",
                f"{EXPLAIN_REASONS['offset_message_id']} Its message starts at "
                f"{evidence.id_offset}.",
                self.commands.cat(evidence.id_offset),
                phy_offsets=(evidence.id_offset,),
            )
        if evidence.own_entries or self.evidence.own_messages("key"):
            return
        yield from self._other_forms()
        longer = {
            message.text: message.phy_offset for message in self.evidence.own_messages("part")
        }
        if longer:
            yield Reason(
                "part_of_key",
                f"{EXPLAIN_REASONS['part_of_key']} Such keys: {listed(map(repr, longer))}.",
                self.commands.cat(next(iter(longer.values()))),
                phy_offsets=tuple(longer.values()),
            )
        if evidence.key_time is not None:
            yield Reason(
                "unique_key_time",
                "If the text is a unique key, its client made it at "
                f"{self.times.text(evidence.key_time)}, by the client's clock.",
            )

    def _other_forms(self) -> Iterator[Reason]:
        """Name the forms of the key under which the topic has messages."""
        topic, forms = self.evidence.topic, self.evidence.forms
        indexed = {variant.key: variant.phy_offsets for variant in self.evidence.variants}
        found = {text: set(offsets) for text, offsets in indexed.items()}
        for fit in _LIKE:
            for message in self.evidence.own_messages(fit):
                found.setdefault(message.text, set()).add(message.phy_offset)
        for text, places in found.items():
            offsets = tuple(sorted(places, reverse=True))
            code, arguments = "key_spelling", [text]
            if text == tag_key(forms.key):
                code, arguments = "tag", [forms.key, "--tag"]
            elif text in forms.parts:
                code = "key_with_spaces"
            yield Reason(
                code,
                f"{EXPLAIN_REASONS[code]} {text!r}: {counted(len(offsets), 'message')} at "
                f"{listed(offsets)}.",
                self.commands.lookup(topic, *arguments)
                if text in indexed
                else self.commands.cat(offsets[0]),
                phy_offsets=offsets,
            )

    def tools(self) -> Iterator[Reason]:
        """Say why the broker's own tools miss what is there."""
        evidence = self.evidence
        hidden = [hit for hit in evidence.entries if hit.reason == "hidden_by_limit"]
        topic, key = evidence.topic, evidence.forms.key
        if hidden:
            shown = sum(hit.reason in ("hit", "collision") for hit in evidence.entries)
            yield Reason(
                "hidden_by_limit",
                f"{EXPLAIN_REASONS['hidden_by_limit']} {counted(len(hidden), *_ENTRY_NOUN)}.",
                phy_offsets=tuple(hit.phy_offset for hit in hidden),
            )
            yield Reason(
                "row_limit",
                f"A dashboard and mqadmin show the newest {counted(shown, 'row')} and do not say "
                f"that {counted(len(hidden), 'older one')} "
                f"{'is' if len(hidden) == 1 else 'are'} missing.",
                self.commands.lookup(topic, key),
            )
        newest = max((hit.store_timestamp for hit in evidence.own_entries), default=None)
        if newest is None:
            newest_known = [
                message.store_timestamp for message in self.evidence.own_messages("key")
            ]
            newest = max(newest_known, default=None)
        is_old = newest is not None and newest < self.times.now - _CLIENT_WINDOW
        if newest is not None and is_old and evidence.is_uniq_key:
            yield Reason(
                "three_days",
                f"{EXPLAIN_REASONS['three_days']} This one was stored "
                f"{self.times.text(newest)}, so a search by message id may not find it.",
                self.commands.lookup(topic, key),
            )
        if evidence.indexes_tags and any(hit.reason == "hit" for hit in evidence.entries):
            yield Reason(
                "index_type",
                f"{EXPLAIN_REASONS['index_type']} The store is of a broker from 5.4.0 on; if a "
                "tool of 5.5.0 says that there is no message, use a newer or an older one "
                "(apache/rocketmq#10291).",
                self.commands.lookup(topic, key),
            )
        if evidence.rocksdb_index is not None:
            yield Reason(
                "rocksdb_index",
                f"{EXPLAIN_REASONS['rocksdb_index']} The one in RocksDB "
                f"({evidence.rocksdb_index}) has no messages without a unique key, and was not "
                "read here.",
            )

    def log(self) -> Iterator[Reason]:
        """Say what of the log is known."""
        log = self.evidence.log
        if log is None:
            yield Reason("no_log", EXPLAIN_REASONS["no_log"])
            return
        if log.faults:
            yield Reason(
                "log_damaged",
                f"{EXPLAIN_REASONS['log_damaged']} {listed(log.faults)}.",
                self.commands.verify(),
            )
        command = self.commands.search_all(self.evidence.topic, self.evidence.forms.key)
        has_message = bool(self.evidence.own_entries or self.evidence.own_messages("key"))
        asked = "file" if self.evidence.cover.is_of_file else "index"
        if not self.evidence.is_covered:
            searched = f"searched: {ranges(log.searched)}; " if log.searched else ""
            yield Reason(
                "not_searched",
                f"Parts of the CommitLog outside the {asked} were not searched: "
                f"{searched}not searched: {ranges(log.unsearched)}.",
                command,
            )
        elif log.unsearched and not has_message:
            size = sum(stop - start for start, stop in log.searched)
            yield Reason(
                "not_searched",
                f"Only {size} of {log.max_offset - log.min_offset} bytes of the CommitLog were "
                f"searched, where the {asked} has no entries; the rest lies between messages that "
                "it has.",
                command,
            )
        elif log.is_searched and not has_message:
            yield Reason("not_in_log", self._not_in(log))


def _topic_reasons(evidence: Evidence, commands: Commands) -> Iterator[Reason]:
    """Say that the store does not have the topic, and name the other topics with the key."""
    yield from _unknown_topic(evidence, commands)
    reasons = [_other_topic(other, evidence, commands) for other in evidence.others]
    drawn = {reason.code for reason in reasons}
    # A topic that was misspelt explains more than others with the same key.
    left_out = "other_topic" if "topic_spelling" in drawn else None
    rest = [reason for reason in reasons if reason.code != left_out]
    yield from sorted(rest, key=lambda reason: _TOPIC_ORDER.get(reason.code, 1))
    if not evidence.topics_known:
        yield Reason(
            "topics_unknown",
            "Retry and dead letter topics were not looked at: the ConsumeQueues, whose folders "
            "name them, are in RocksDB.",
            commands.search_all(evidence.topic, evidence.forms.key),
        )


def _unknown_topic(evidence: Evidence, commands: Commands) -> Iterator[Reason]:
    topic, key, names = evidence.topic, evidence.forms.key, evidence.topic_names
    if not names or topic in names or evidence.own_entries or evidence.own_messages("key"):
        return
    swapped = swapped_pairs(topic, key, names)
    if swapped:
        hits = next(iter(evidence.swapped), None)
        meant = swapped[0] if hits is None else (hits.topic, hits.key)
        sentence = f"{EXPLAIN_REASONS['swapped']} {meant[0]} is a topic of the store."
        if hits is None:
            yield Reason("swapped", sentence, commands.explain(*meant), meant[0])
            return
        offsets = hits.phy_offsets
        count = counted(len(offsets), "message")
        sentence += f" {index_key(*meant)} has {count}: {listed(offsets)}."
        yield Reason("swapped", sentence, commands.lookup(*meant), meant[0], offsets)
        return
    if any(is_spelling(other.topic, topic) for other in evidence.others):
        return  # that reason says it
    near = likely_topic(topic, names)
    if near is None:
        yield Reason("topic_unknown", f"The store has no queue of the topic {topic}.")
        return
    remedy = commands.lookup if near in evidence.indexed_topics else commands.explain
    sentence = f"The store has no queue of the topic {topic}; the nearest topic is {near}."
    yield Reason("topic_unknown", sentence, remedy(near, key), near)


def _other_topic(other: OtherTopic, evidence: Evidence, commands: Commands) -> Reason:
    code = topic_code(other.topic, evidence.topic)
    kind = "messages" if other.is_verified else "candidates"
    sentence = f"Under the topic {other.topic}: {kind} with this key at "
    sentence += listed(other.phy_offsets)
    if other.real_topics:
        sentence += f", of {listed(other.real_topics)}"
    if code in ("topic_spelling", "other_topic"):
        ending = "topics are case-sensitive" if code == "topic_spelling" else ""
        sentence += f"; {ending}." if ending else "."
    else:
        sentence += f". {EXPLAIN_REASONS[code]}"
    return Reason(
        code,
        sentence,
        commands.lookup(other.topic, evidence.forms.key)
        if other.topic in evidence.indexed_topics
        else commands.cat(other.phy_offsets[0]),
        other.topic,
        other.phy_offsets,
    )
