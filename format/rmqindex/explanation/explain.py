"""Explains why a key is or is not found, with all that a store tells.

RocketMQ: ``DefaultMessageStore.queryMessage``, ``MQAdminImpl.queryMessage``.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from rmqindex.arguments import int_of, int_or_none
from rmqindex.commitlog.snapshot import commit_log_of
from rmqindex.consumequeue.progress import MessagePlace
from rmqindex.errors import RmqIndexError
from rmqindex.explanation.commands import Commands
from rmqindex.explanation.consumption import (
    consumption_of,
    consumption_reasons,
    transaction_reasons,
)
from rmqindex.explanation.diagnosis import diagnose
from rmqindex.explanation.evidence import Evidence
from rmqindex.explanation.index_search import (
    REAL_TOPIC,
    BrokerSearch,
    KeyTruths,
    PairOffsets,
    Window,
    as_other_topic,
    explain_file,
    holds_other_topics,
    is_spelling,
    look_up_pairs,
    swapped_pairs,
    topic_names,
    topics_of,
    topics_to_try,
)
from rmqindex.explanation.log_search import (
    KeyForms,
    LogParts,
    LogSearch,
    choose_parts,
    cover_of,
    default_limit,
    gaps_of,
)
from rmqindex.explanation.result import OF_OTHERS, IndexReach, LookupExplanation, Reason
from rmqindex.explanation.wording import Times
from rmqindex.indexfile.geometry import AmbiguousLayoutError
from rmqindex.keys.hashing import index_key, key_hash
from rmqindex.keys.messages import tag_key
from rmqindex.keys.utf8 import check_text, check_topic
from rmqindex.layout.index_file import DEFAULT_MAX_MSGS_NUM_BATCH, FIRST_POSITION, INT64_MAX
from rmqindex.layout.queue import HALF_TOPIC, SCHEDULE_TOPIC
from rmqindex.record.message_ids import (
    GrpcMessageId,
    RemotingMessageId,
    decode_message_id,
    decode_offset_msg_id,
)
from rmqindex.store.names import has_next_name
from rmqindex.store.snapshot import IndexSnapshot
from rmqindex.store.store import Store
from rmqindex.times import check_milliseconds, zone_of
from rmqindex.transaction.broker_lock import BrokerLock, BrokerState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import tzinfo

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.commitlog.snapshot import LogArgument
    from rmqindex.explanation.log_search import IndexCover, LogMessage
    from rmqindex.explanation.result import (
        FileExplanation,
        HitExplanation,
        LogReach,
        OtherTopic,
    )
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.storage.location import PathLike
from rmqindex.store.snapshot import SnapshotFile

#: What of a CommitLog :func:`rmqindex.explain_lookup` searches.
Search = Literal["gaps", "all", "none"]
#: Its values, the default first.
SEARCHES: tuple[Search, ...] = ("gaps", "all", "none")

_DAY = 24 * 3_600_000
# MessageClientIDSetter counts from the start of a month.
_MONTH = 31 * _DAY
# How many of the messages found are read to learn what kind of key and store it is.
_SAMPLED = 64


def explain_lookup(
    path: PathLike,
    topic: str,
    key: str,
    begin: int | None = None,
    end: int | None = None,
    commit_log: LogArgument = None,
    layout: Layout | None = None,
    *,
    max_msgs_num_batch: int = DEFAULT_MAX_MSGS_NUM_BATCH,
    search_log: Search = "gaps",
    time_zone: str | tzinfo = "UTC",
    now: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> LookupExplanation:
    """Explain why the broker and its tools do or do not find a key.

    The files are searched as the broker does it, one after the other.
    With a CommitLog, the messages outside the index are searched too, and the key is tried under
    the other topics of the store.

    Args:
        path: An IndexFile, an index directory, or a store root, with or without ``index/``.
        topic: The topic.
        key: The unique key or one of the keys of the message.
        begin: The earliest store time, epoch milliseconds, inclusive; None for 0.
        end: The latest store time, epoch milliseconds, inclusive; None for all times.
        commit_log: As :func:`verify` takes it; without it, collisions and expired messages count as
            hits.
        layout: The geometry of every file; None to infer it.
        max_msgs_num_batch: The broker's ``maxMsgsNumBatch``: no query returns more.
        search_log: What of the CommitLog is searched: ``gaps``: what lies outside the entries of
            the index, at most 8 GiB, or 1 GiB in an object store; ``all``; ``none``. With ``begin``
            or ``end``, only log files that may have messages of these times.
        time_zone: The zone of the times in the sentences.
        now: The present time, epoch milliseconds; None for the clock's.
        progress: Called with how many bytes of the CommitLog are searched, and of how many.

    Returns:
        The explanation; ``str()`` makes it a text.

    Raises:
        RmqIndexError: Nothing is there, a store of another kind, a file was replaced meanwhile, or
            more than one geometry may be that of a file.
        ValueError: An empty topic, a text that is not UTF-8, another ``search_log``, ``begin``
            after ``end``, or a time that looks like seconds.

    Example:
        >>> from rmqindex import explain_lookup, sample_store
        >>> explained = explain_lookup(sample_store(), "TopicTest", "no-such-key")
        >>> sorted({file.reason for file in explained.files})
        ['empty_slot', 'other_keys']
        >>> explained.reasons[0].sentence
        'No entry of TopicTest#no-such-key in 5 files (959 entries).'
    """
    check_topic(topic)
    check_text("key", key)
    if search_log not in SEARCHES:
        raise ValueError(f"search_log: expected one of {', '.join(SEARCHES)}, got {search_log!r}")
    begin, end = int_or_none("begin", begin), int_or_none("end", end)
    now = int_or_none("now", now)
    max_msgs_num_batch = int_of("max_msgs_num_batch", max_msgs_num_batch, 0)
    for bound in (begin, end):
        if bound is not None:
            check_milliseconds(bound)
    if begin is not None and end is not None and begin > end:
        raise ValueError(f"begin: expected at most end, {end}, got {begin}")
    times = Times(zone_of(time_zone), time.time_ns() // 1_000_000 if now is None else now)
    store = Store.open(path, needs_index=False)
    planned = IndexSnapshot.of(store, layout, "FAILFAST") if store.has_index else ()
    for file in planned:
        if isinstance(file.error, AmbiguousLayoutError):
            raise file.error
    with ExitStack() as stack:
        log = commit_log_of(store, commit_log)
        if log is not None and log is not commit_log:
            stack.callback(log.close)
        case = _Case(
            store,
            topic,
            KeyForms(key),
            Window(0 if begin is None else begin, INT64_MAX if end is None else end),
            planned,
            log,
            Commands.of(store, log, layout, commit_log, (begin, end)),
        )
        evidence = case.collect(max_msgs_num_batch, search_log, times, progress)
        reasons = diagnose(evidence, case.commands, times)
    return LookupExplanation(
        topic,
        key,
        key_hash(index_key(topic, key)),
        evidence.window.begin,
        evidence.window.end,
        evidence.files,
        evidence.others,
        evidence.topics_known,
        reasons,
        evidence.index,
        evidence.log,
    )


def spelled_otherwise(
    path: PathLike,
    topic: str,
    key: str,
    files: Sequence[SnapshotFile],
    log: CommitLog | None,
) -> PairOffsets | None:
    """Return a topic and key that differ in case or blanks alone and have entries in some files.

    So do the two in each other's place, where the key is a topic of the store.
    The names of a store's topics and a few slots of each file are read, and nothing else.
    """
    names = topic_names(Store.open(path, needs_index=False).root)
    topics = [name for name in names if is_spelling(name, topic)]
    forms = (key, *KeyForms(key).spellings)
    pairs = [(name, form) for name in (topic, *topics) for form in forms][1:]
    pairs += swapped_pairs(topic, key, names)
    return next(iter(look_up_pairs(files, pairs, log)), None)


@dataclass(frozen=True, slots=True)
class _Case:
    store: Store
    topic: str
    forms: KeyForms
    window: Window
    planned: Sequence[SnapshotFile]
    log: CommitLog | None
    commands: Commands

    def collect(
        self,
        max_msgs_num_batch: int,
        search_log: Search,
        times: Times,
        progress: Callable[[int, int], None] | None,
    ) -> Evidence:
        """Search the index as the broker does, the log, and the index under other names."""
        topic, key, log = self.topic, self.forms.key, self.log
        broker = BrokerSearch(self.window, (topic, key), max_msgs_num_batch)
        state = BrokerLock.around(self.store.index).state
        truths = KeyTruths(log)
        files = tuple(explain_file(file, broker, truths) for file in reversed(self.planned))
        index, cover = self._index_reach(), self._cover(files)
        key_time = self._key_time(times.now if index is None else index.end_timestamp, times.now)
        search = None if log is None else LogSearch(topic, self.forms)
        reach, is_covered = None, True
        if log is not None and search is not None:
            dangling = [
                hit.phy_offset for file in files for hit in file.hits if hit.reason == "dangling"
            ]
            reach, is_covered = self._search_log(
                log, search, cover, search_log, key_time, progress, dangling
            )
        hits = [hit for file in files for hit in file.hits if hit.reason not in OF_OTHERS]
        messages = [] if search is None else [*search.messages("key")]
        own_offsets = [message.phy_offset for message in messages if message.topic == topic]
        topics = topics_of(self.store.root)
        names = topic_names(self.store.root)
        is_missing = not hits and not own_offsets
        others, indexed = self._others(topics or (), messages, is_missing=is_missing)
        return Evidence(
            topic=topic,
            forms=self.forms,
            window=self.window,
            files=files,
            index=index,
            can_resume=self._can_resume(files),
            is_of_one_geometry=len({file.layout for file in self.planned if file.layout}) <= 1,
            cover=cover,
            log=reach,
            search=search,
            others=others,
            indexed_topics=indexed,
            variants=self._variants() if is_missing else (),
            swapped=self._swapped(names) if is_missing else (),
            topic_names=names,
            topics_known=topics is not None,
            is_covered=is_covered,
            broker=state,
            consumption=self._consumption(
                [*(hit.phy_offset for hit in hits), *own_offsets],
                [each for other in others for each in other.phy_offsets],
                times,
                state,
            ),
            rocksdb_index=self.store.rocksdb_index,
            indexes_tags=self.store.has_rocksdb_store or self._has_tag_entries(hits),
            is_uniq_key=self._is_uniq_key(
                [*(hit.phy_offset for hit in hits), *own_offsets], key_time
            ),
            key_time=key_time,
            id_offset=self._id_offset(),
        )

    def _consumption(
        self, own: Sequence[int], others: Sequence[int], times: Times, broker: BrokerState
    ) -> tuple[Reason, ...]:
        """Find the messages with the key in their ConsumeQueues, and those that wait for it."""
        if self.log is None:
            return ()
        offsets = sorted({*own, *others})
        names = list(MessagePlace._fields)
        read = self.log.read_at(np.array(offsets, np.int64), [*names, "properties"])
        rows = [row for row in read.to_pylist() if row["topic"] is not None]
        places = [MessagePlace(*(row[name] for name in names)) for row in rows]
        # Messages of other topics are told of apart, except those that are kept for this one.
        kept = [place for place in places if place.topic == self.topic]
        kept += [place for place in places if place.topic == SCHEDULE_TOPIC != self.topic]
        halves = [
            place
            for place, row in zip(places, rows, strict=True)
            if place.topic == HALF_TOPIC and dict(row["properties"]).get(REAL_TOPIC) == self.topic
        ]
        found = consumption_of(self.store.root, kept, self.log)
        mends = self.commands.is_store and self.commands.log is not None
        rebuild = self.commands.of_store("rebuild-queues", "--replace") if mends else None
        return (
            *consumption_reasons(found, times, rebuild, broker),
            *transaction_reasons(
                consumption_of(self.store.root, halves, self.log) if halves else None
            ),
        )

    def _cover(self, files: Sequence[FileExplanation]) -> IndexCover:
        paths = {
            reason: [file.path for file in files if file.reason == reason]
            for reason in ("damaged", "unreadable")
        }
        is_of_file = self.store.file is not None
        damaged, unreadable = paths["damaged"], paths["unreadable"]
        return cover_of(self.planned, damaged, unreadable, is_of_file=is_of_file)

    def _index_reach(self) -> IndexReach | None:
        filled = [file for file in self.planned if file.error is None and not file.is_empty]
        if not filled:
            return None
        headers = [file.header for file in filled]
        return IndexReach(
            len(self.planned),
            sum(file.entry_count for file in filled),
            min(header.begin_phy_offset for header in headers),
            max(header.end_phy_offset for header in headers),
            min(header.begin_timestamp for header in headers),
            max(header.end_timestamp for header in headers),
        )

    def _can_resume(self, files: Sequence[FileExplanation]) -> bool:
        ends = [file.header.end_phy_offset for file in self.planned if not file.is_empty]
        is_sound = not any(file.reason in ("damaged", "unreadable") for file in files)
        is_sound &= not any(  # those are not written on
            file.layout is not None and file.entry.size > file.layout.file_size
            for file in self.planned[-1:]
        )
        is_sound &= all(has_next_name(file.entry.name) for file in self.planned[-1:])
        return is_sound and bool(ends) and ends[-1] == max(ends)

    def _search_log(
        self,
        log: CommitLog,
        search: LogSearch,
        cover: IndexCover,
        search_log: Search,
        key_time: int | None,
        progress: Callable[[int, int], None] | None,
        dangling: Sequence[int],
    ) -> tuple[LogReach, bool]:
        """Search the log; return its reach, and whether all gaps of the index were searched."""
        gaps = gaps_of(cover.spans, log)
        spans = [(gap.start, gap.stop) for gap in gaps]
        parts = LogParts((), ((log.min_offset, log.max_offset),))
        if search_log == "all":
            parts = choose_parts(log, [(log.min_offset, log.max_offset)], self.window)
        elif search_log == "gaps":
            likely = None if key_time is None else Window(key_time - _DAY, key_time + _DAY)
            parts = choose_parts(log, spans, self.window, likely, default_limit(log))
        readable_gaps = [gap for gap in gaps if not cover.may_hide(gap.start, gap.stop)]
        reach = search.run(log, parts, readable_gaps, progress, dangling=dangling)
        is_covered = not any(
            start < stop and first < stop and start < last
            for start, stop in reach.unsearched
            for first, last in spans
        )
        return reach, is_covered

    def _key_time(self, near: int, now: int) -> int | None:
        """Return when a client made the key, if it has the form of a unique key."""
        decoded = decode_message_id(self.forms.bare, near=near)
        if isinstance(decoded, RemotingMessageId) and 0 <= decoded.month_milliseconds < _MONTH:
            return decoded.timestamp
        if isinstance(decoded, GrpcMessageId) and decoded.timestamp <= now + _DAY:
            return decoded.timestamp
        return None

    def _others(
        self, topics: Sequence[str], messages: Sequence[LogMessage], *, is_missing: bool
    ) -> tuple[tuple[OtherTopic, ...], frozenset[str]]:
        """Return the other topics with the key, and the names of those with entries.

        Those in which a broker keeps messages of other topics always, and all others where the
        topic has no message with the key. Without a log, hashes alone would name too many.
        """
        key = self.forms.key
        tried = topics_to_try(self.topic, topics)
        if not is_missing or self.log is None:
            tried = [
                name
                for name in tried
                if holds_other_topics(name) or (is_missing and is_spelling(name, self.topic))
            ]
        pairs = {
            pair.topic: pair
            for pair in look_up_pairs(self.planned, [(name, key) for name in tried], self.log)
        }
        indexed = frozenset(pairs)
        for message in messages:
            name = message.topic
            if name == self.topic or not (is_missing or holds_other_topics(name)):
                continue
            if not message.is_indexed:
                continue
            known = pairs.get(name, PairOffsets(name, key, (), True))
            if message.phy_offset not in known.phy_offsets:
                offsets = sorted((*known.phy_offsets, message.phy_offset), reverse=True)
                pairs[name] = known._replace(phy_offsets=tuple(offsets))
        return tuple(as_other_topic(pair, self.log) for pair in pairs.values()), indexed

    def _variants(self) -> Sequence[PairOffsets]:
        """Return the other forms of the key that have entries."""
        forms = (*self.forms.spellings, *self.forms.parts, tag_key(self.forms.key))
        return look_up_pairs(self.planned, [(self.topic, form) for form in forms], self.log)

    def _swapped(self, names: Sequence[str]) -> Sequence[PairOffsets]:
        """Return the entries of topic and key in each other's place."""
        pairs = swapped_pairs(self.topic, self.forms.key, names)
        return look_up_pairs(self.planned, pairs, self.log)

    def _has_tag_entries(self, hits: Sequence[HitExplanation]) -> bool:
        """Return whether the index has tags of the messages found, as from 5.4.0 on.

        Where a tag has no entry, the oldest and the newest messages of the index tell.
        """
        if self.log is None or not (hits or self.forms.tags):
            return False
        sampled = [hit.phy_offset for hit in hits[:_SAMPLED]] or self._ends_of_index()
        messages = self.log.read_at(np.array(sampled, np.int64), ["topic", "tags"]).to_pylist()
        pairs = {(row["topic"], tag_key(row["tags"])) for row in messages if row["tags"]}
        return bool(look_up_pairs(self.planned, sorted(pairs), self.log))

    def _ends_of_index(self) -> list[int]:
        """Return the offsets of some messages of the oldest and the newest entries."""
        filled = [file for file in self.planned if file.error is None and not file.is_empty]
        offsets: set[int] = set()
        ends = [(file, FIRST_POSITION) for file in filled[:1]]
        ends += [(file, max(file.stop - _SAMPLED, FIRST_POSITION)) for file in filled[-1:]]
        for planned, first in ends:
            stop = min(first + _SAMPLED, planned.stop)
            with suppress(RmqIndexError), planned.open() as file:  # a damaged one does not tell
                for batch in file.scan(first, stop, ["phy_offset"]):
                    offsets.update(batch["phy_offset"].to_pylist())
        return sorted(offsets)

    def _is_uniq_key(self, phy_offsets: Sequence[int], key_time: int | None) -> bool:
        """Return whether the key is a unique key: of the messages found, or by its form."""
        if self.log is None:
            return key_time is not None
        offsets = np.array(phy_offsets[:_SAMPLED], np.int64)
        rows = self.log.read_at(offsets, ["all_uniq_keys"])["all_uniq_keys"].to_pylist()
        return any(self.forms.key in row for row in rows if row)

    def _id_offset(self) -> int | None:
        """Return the offset of the message whose offset message id the key is."""
        decoded = decode_offset_msg_id(self.forms.bare)
        if decoded is None or self.log is None:
            return None
        offset = np.array([decoded.phy_offset], np.int64)
        (row,) = self.log.read_at(offset, ["msg_id"]).to_pylist()
        is_id = row["msg_id"] == self.forms.bare.upper()
        return decoded.phy_offset if is_id else None
