"""Which keys and tags crowd an index and its log: the hottest, and what their chains cost a lookup.

Keys are counted by their hashes first, which are in the entries; only the hottest hashes get their
texts, from the messages of their entries. So memory does not grow with the keys, however many.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from rmqindex.commitlog.log import MATCH_STATES, CommitLog
from rmqindex.commitlog.selection import Selection
from rmqindex.commitlog.snapshot import commit_log_of
from rmqindex.errors import RmqIndexError
from rmqindex.keys.hash_set import distinct
from rmqindex.keys.hashing import index_key_hashes
from rmqindex.keys.messages import indexed_tags
from rmqindex.layout.index_file import INT64_MAX, INT64_MIN
from rmqindex.query.hash_counts import (
    Chains,
    Frequent,
    count_pairs,
    most_frequent,
    number_pairs,
)
from rmqindex.query.message_keys import ALL_KEY_COLUMNS, KeySet, SearchedFile, hash_tags
from rmqindex.query.verification import Verifier
from rmqindex.record.batches import build_batch, schema_of
from rmqindex.record.index_keys import IndexKeys
from rmqindex.store.snapshot import IndexSnapshot
from rmqindex.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.commitlog.snapshot import LogArgument
    from rmqindex.errors import CorruptCommitLogError
    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.query.hash_counts import Pair
    from rmqindex.record.records import Records
    from rmqindex.storage.location import PathLike
    from rmqindex.store.snapshot import SnapshotFile

KeyGroup = Literal["key", "tag"]
#: What :func:`measure_keys` counts by.
KEY_GROUPS: tuple[KeyGroup, ...] = ("key", "tag")
#: How many rows are found unless told: there may be millions of keys.
KEY_ROWS = 20

_RECORD = MATCH_STATES.index("record")


@dataclass(frozen=True, slots=True)
class KeyUsageRow:
    """A key, or a hash where no message tells the key.

    Attributes:
        topic: The topic; None where the log has no message of the hash, or there is no log.
        key: The key as a lookup takes it, ``T#`` and the tags for tags; None likewise.
        key_hash: The hash of ``topic#key``.
        slot: Its slot; None without an index, or where files have different numbers of slots.
        message_count: The messages that have the key; None without a log.
        size: Their bytes in the CommitLog; None likewise.
        size_share: Their share of the bytes of all messages that are asked for.
        entry_count: The entries that a lookup of the key returns; None without an index.
        unverified_count: Those of them that no message proves, since it has expired: they may be of
            another key of the hash. None without an index or a log.
        entry_share: The share of all entries that are asked for.
        longest_chain: The longest chain of the slot, entries, in one file.
        entries_read: The entries of the chains of the slot in all files, which a lookup reads that
            wants all entries of a key of this slot.
        bytes_read: Their bytes.
        pages_read: The pages of 4 KiB in which they lie.
    """

    topic: str | None
    key: str | None
    key_hash: int
    slot: int | None = None
    message_count: int | None = None
    size: int | None = None
    size_share: float | None = None
    entry_count: int | None = None
    unverified_count: int | None = None
    entry_share: float | None = None
    longest_chain: int | None = None
    entries_read: int | None = None
    bytes_read: int | None = None
    pages_read: int | None = None


@dataclass(frozen=True, slots=True)
class KeyUsage:
    """The hottest keys or tags.

    Attributes:
        rows: The hottest first: by entries where there is an index, by messages where not; tags by
            messages.
        message_count: All messages that are asked for; None without a log.
        size: Their bytes; None without a log.
        entry_count: All entries that are asked for; None without an index.
    """

    rows: tuple[KeyUsageRow, ...]
    message_count: int | None
    size: int | None
    entry_count: int | None


def measure_keys(
    files: Sequence[SnapshotFile] | None,
    log: CommitLog | None,
    by: KeyGroup = "key",
    selection: Selection | None = None,
    *,
    limit: int = KEY_ROWS,
    mode: Mode = "FAILFAST",
    on_malformed: Callable[[CorruptCommitLogError], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> KeyUsage:
    """Find the keys, or the tags, with the most entries and messages.

    Args:
        files: The IndexFiles; None for none.
        log: The log; None for none.
        by: ``key``: unique keys, ``KEYS`` and, of an index, tags. ``tag``: tags, which needs a log.
        selection: Which messages, and so which entries; None for all. Without a log, the times are
            those of entries.
        limit: The most rows, 1 or more; memory grows with it.
        mode: As :meth:`rmqindex.CommitLog.scan` takes it.
        on_malformed: As :meth:`rmqindex.CommitLog.scan` takes it.
        progress: Called with the bytes of the log that a pass has read, and those that there are.

    Raises:
        ValueError: Another ``by``, or a limit below 1.
        RmqIndexError: A file cannot be used, there are neither files nor a log, or tags, topics or
            queues are asked for without a log.
        CorruptIndexError: An IndexFile is damaged; only ``FAILFAST``.
        CorruptCommitLogError: The log is damaged; only ``FAILFAST``.
    """
    if by not in KEY_GROUPS:
        raise ValueError(f"by: expected one of {', '.join(KEY_GROUPS)}, got {by!r}")
    if limit < 1:
        raise ValueError(f"limit: expected at least 1, got {limit}")
    selection = selection or Selection()
    if log is None and files is None:
        raise RmqIndexError("usage: expected IndexFiles or a CommitLog, got neither")
    if log is None and (by == "tag" or selection.topics or selection.queue_ids or selection.tags):
        raise RmqIndexError(
            "tags, topics and queues: expected a CommitLog, which has them, found none beside the "
            "index; count by key, or give the CommitLog"
        )
    count = _Count(files or (), log, by, selection, _Reading(mode, on_malformed), progress)
    # Several keys of one hash share its count, so that hashes behind it may have come before them.
    taken = limit
    while True:
        hashes, counts, total = count.hottest(taken + 1)
        rows = count.rows(hashes[:taken], total)
        rows.sort(key=lambda row: _order(row, by))
        last = _heat(rows[limit - 1], by) if len(rows) >= limit else 0
        if len(hashes) <= taken or last >= counts[taken]:
            break
        taken *= 2
    return KeyUsage(
        tuple(rows[:limit]),
        None if log is None else count.message_count,
        None if log is None else count.size,
        total if files else None,
    )


def store_of(path: PathLike) -> Store | None:
    """Return the store of a path of a store or an index; None for others, such as that of a log."""
    try:
        return Store.open(path, needs_index=False)
    except RmqIndexError:
        return None


def log_of(
    path: PathLike, store: Store | None, commit_log: LogArgument = "auto"
) -> tuple[CommitLog | None, PathLike]:
    """Return the log of a path that may be of a store, an index or a log, and where it is.

    Args:
        path: A store root, an index directory, an IndexFile, or what :class:`CommitLog` takes.
        store: Its :func:`store_of`.
        commit_log: As :func:`rmqindex.verify` takes it.

    Raises:
        RmqIndexError: Neither an index nor a log is there.
    """
    if commit_log != "auto":
        return commit_log_of(path, commit_log), path
    place = None if store is None else store.log()
    if store is None or (place is None and not store.has_index):
        return CommitLog(path), path
    return (None, path) if place is None else (CommitLog(place), store.root)


def listed_index(store: Store | None, layout: Layout | None, mode: Mode) -> IndexSnapshot | None:
    """Return the IndexFiles of a store; None where it has no index.

    Raises:
        RmqIndexError: The index cannot be listed.
    """
    if store is None or not store.has_index:
        return None
    return IndexSnapshot.of(store, layout, mode)


class _Reading(NamedTuple):
    """How a log is read."""

    mode: Mode
    on_malformed: Callable[[CorruptCommitLogError], None] | None


def _heat(row: KeyUsageRow, by: KeyGroup) -> int:
    """Return what rows are ordered by."""
    if by == "key" and row.entry_count is not None:
        return row.entry_count
    return row.message_count or 0


def _order(row: KeyUsageRow, by: KeyGroup) -> tuple[int, int, str, str]:
    return (-_heat(row, by), row.key_hash, row.topic or "", row.key or "")


def _pairs_by_place(found: Iterable[tuple[int, Pair | None]]) -> dict[int, set[Pair]]:
    """Return the pairs of each place that has any, all in one pass: both may be many."""
    pairs: defaultdict[int, set[Pair]] = defaultdict(set)
    for place, pair in found:
        if pair is not None:
            pairs[place].add(pair)
    return pairs


def _chosen_entries(
    batch: pa.RecordBatch, selection: Selection, log: CommitLog | None
) -> NDArray[np.bool_] | None:
    """Return which entries are of messages that are asked for; None if all are.

    Where the log lacks the message, the entry's own time decides, and it has no topic.

    Args:
        batch: Entries with ``phy_offset`` and ``store_timestamp``.
        selection: Which messages.
        log: The log; None for none.
    """
    low = INT64_MIN if selection.start is None else selection.start
    high = INT64_MAX if selection.stop is None else selection.stop
    if (low, high) == (INT64_MIN, INT64_MAX) and not selection.columns:
        return None
    offsets = batch.column("phy_offset").to_numpy()
    kept: NDArray[np.bool_] = (offsets >= low) & (offsets < high)
    if not selection.columns:
        return kept
    places = np.flatnonzero(kept)
    times = batch.column("store_timestamp").to_numpy()[places]
    own = Selection(begin=selection.begin, end=selection.end)
    by_entry = own.matches(pa.record_batch({"store_timestamp": times}))
    if selection.topics or selection.queue_ids or selection.tags:
        by_entry = np.zeros(len(places), bool)
    if log is not None:
        messages = log.read_at(offsets[places], selection.columns, decompress_body=False)
        there = messages.column("state").indices.to_numpy() == _RECORD
        known = messages.take(pa.array(np.flatnonzero(there)))
        by_entry[there] = selection.matches(known)
    kept[places] = by_entry
    return kept


@dataclass(slots=True)
class _Count:
    """Counts of the hashes of one question."""

    files: Sequence[SnapshotFile]
    log: CommitLog | None
    by: KeyGroup
    selection: Selection
    reading: _Reading
    progress: Callable[[int, int], None] | None
    message_count: int = 0
    size: int = 0
    entry_count: int | None = None

    def hottest(self, limit: int) -> Frequent:
        """Return the hashes with the highest counts, these, and how many entries there are."""
        if self.by == "key" and (self.files or self.log is None):
            return most_frequent(self._entry_hashes, limit)
        hashes, counts, _ = most_frequent(self._message_hashes, limit)
        if self.entry_count is None:  # it is the same for every limit
            self.entry_count = sum(map(len, self._entry_hashes()))
        return Frequent(hashes, counts, self.entry_count)

    def rows(self, hashes: NDArray[np.int32], total: int) -> list[KeyUsageRow]:
        """Return the keys of some hashes."""
        hashes = np.sort(hashes)
        messages = self._messages(hashes) if self.log is not None else {}
        if not len(hashes):  # such as tags of messages without any
            return []
        entries: Counter[tuple[int, Pair | None]] = Counter()
        chains = Chains(hashes)
        self._count_entries(hashes, entries)
        chains.add(self.files)
        pairs = _pairs_by_place(chain(messages, entries if self.by == "key" else ()))
        rows = []
        for place in range(len(hashes)):
            row = KeyUsageRow(None, None, int(hashes[place]))
            if self.files:
                own = chains.of(place)
                row = replace(
                    row,
                    slot=own.slot,
                    longest_chain=own.longest,
                    entries_read=own.entries,
                    bytes_read=own.size,
                    pages_read=own.pages,
                )
            known: list[Pair | None] = [*sorted(pairs.get(place, ()))] or [None]
            for pair in known:
                named = self._named(row, pair, messages.get((place, pair), (0, 0)))
                counted = self._counted(named, place, pair, entries, total)
                # A key without entries is asked for by no lookup, whatever hash it shares.
                if self.by == "tag" or counted.entry_count != 0:
                    rows.append(counted)
        return rows

    def _named(self, row: KeyUsageRow, pair: Pair | None, found: tuple[int, int]) -> KeyUsageRow:
        topic, key = pair or (None, None)
        if self.log is None:
            return replace(row, topic=topic, key=key)
        count, size = found
        share = size / self.size if self.size else 0.0
        return replace(row, topic=topic, key=key, message_count=count, size=size, size_share=share)

    def _counted(
        self,
        row: KeyUsageRow,
        place: int,
        pair: Pair | None,
        entries: Counter[tuple[int, Pair | None]],
        total: int,
    ) -> KeyUsageRow:
        if not self.files:
            return row
        unverified = entries[place, None]
        count = unverified + (entries[place, pair] if pair else 0)
        return replace(
            row,
            entry_count=count,
            unverified_count=None if self.log is None else unverified,
            entry_share=count / total if total else 0.0,
        )

    # -- the entries

    def _batches(self, columns: Iterable[str]) -> Iterator[tuple[SearchedFile, pa.RecordBatch]]:
        """Read the entries that are asked for, with the file that they are in."""
        narrow = ["phy_offset", "store_timestamp"] if self._is_narrow else []
        names = list(dict.fromkeys([*columns, *narrow]))
        for planned in self.files:
            if planned.is_empty:
                continue
            with planned.open() as file:
                searched = SearchedFile.of(file, planned.name_path)
                for batch in file.scan(stop=planned.stop, columns=names):
                    kept = _chosen_entries(batch, self.selection, self.log) if narrow else None
                    yield searched, batch if kept is None else batch.filter(pa.array(kept))

    @property
    def _is_narrow(self) -> bool:
        chosen = self.selection
        return bool(chosen.columns) or chosen.start is not None or chosen.stop is not None

    def _entry_hashes(self) -> Iterator[NDArray[np.int32]]:
        for _, batch in self._batches(["key_hash"]):
            yield batch.column("key_hash").to_numpy()

    def _count_entries(
        self, hashes: NDArray[np.int32], found: Counter[tuple[int, Pair | None]]
    ) -> None:
        """Count the entries of some hashes by their keys; None for those that nothing proves."""
        verifier = Verifier("indexed")
        columns = ("key_hash", "phy_offset", "position")
        for searched, batch in self._batches(columns):
            own, offsets, positions = (batch.column(name).to_numpy() for name in columns)
            places = np.searchsorted(hashes, own)
            hit = np.flatnonzero(hashes[np.minimum(places, len(hashes) - 1)] == own)
            if not len(hit):
                continue
            places = places[hit]
            if self.log is None:
                found.update(count_pairs(places))
                continue
            compared = verifier.compare(
                self.log, [searched], own[hit], offsets[hit], positions[hit]
            )
            pairs = number_pairs(*compared.found_pairs())
            found.update(count_pairs(places, pairs))

    # -- the messages

    def _blocks(self) -> Iterator[tuple[Records, NDArray[np.int64]]]:
        """Read the records of the log, and which of them are asked for."""
        assert self.log is not None
        chosen, (mode, on_malformed) = self.selection, self.reading
        count = size = 0
        for records in self.log.records(
            chosen.start, chosen.stop, mode=mode, on_malformed=on_malformed
        ):
            rows = np.arange(len(records))
            if chosen.columns:
                rows = np.flatnonzero(
                    chosen.matches(build_batch(records, schema_of(chosen.columns)))
                )
            count += len(rows)
            size += int(records.size[rows].sum())
            if len(rows):
                yield records, rows
            if self.progress is not None:
                begin = self.log.min_offset
                done = int(records.phy_offset[-1]) - begin
                self.progress(done, self.log.max_offset - begin)
        self.message_count, self.size = count, size

    def _hashes_of(self, records: Records) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the row and the hash of each key, or of the tags."""
        if self.by == "key":
            tagged = np.ones(len(records), bool) if self.files else None
            return IndexKeys(records).hashes(tagged)
        hashes = hash_tags(build_batch(records, schema_of(("topic", "tags"))))
        rows = np.flatnonzero(hashes >= 0)
        return rows, hashes[rows]

    def _message_hashes(self) -> Iterator[NDArray[np.int32]]:
        for records, chosen in self._blocks():
            rows, hashes = self._hashes_of(records)
            asked = np.zeros(len(records), bool)
            asked[chosen] = True
            yield hashes[asked[rows]]

    def _messages(
        self, hashes: NDArray[np.int32]
    ) -> dict[tuple[int, Pair | None], tuple[int, int]]:
        """Count the messages with keys of some hashes, and their bytes, by key."""
        found: dict[tuple[int, Pair | None], tuple[int, int]] = {}
        names = (*ALL_KEY_COLUMNS, "tags") if self.by == "key" else ("topic", "tags")
        for records, chosen in self._blocks():
            rows, own = self._hashes_of(records)
            asked = np.zeros(len(records), bool)
            asked[rows[np.isin(own, hashes)]] = True
            taken = chosen[asked[chosen]]
            if not len(taken):
                continue
            kept = records.take(taken)
            batch = build_batch(kept, schema_of(names))
            if self.by == "key":
                keys = KeySet.of(batch, hash_tags(batch))
                rows, own, texts = keys.rows, keys.hashes, keys.texts
            else:
                rows, texts = indexed_tags(batch.column("tags"))
                own = index_key_hashes(batch.column("topic").take(pa.array(rows)), texts)
            places = np.minimum(np.searchsorted(hashes, own), len(hashes) - 1)
            hit = np.flatnonzero(hashes[places] == own)
            topics = batch.column("topic").take(pa.array(rows[hit]))
            pairs = number_pairs(topics, texts.take(pa.array(hit)))
            # A message that has a key twice counts once.
            each = (places[hit] * len(pairs.pairs) + pairs.codes) * len(kept) + rows[hit]
            both, row = np.divmod(distinct(each), len(kept))
            at, codes = np.divmod(both, len(pairs.pairs))
            pairs = pairs._replace(codes=codes)
            sizes = count_pairs(at, pairs, kept.size[row])
            for group, count in count_pairs(at, pairs).items():
                before = found.get(group, (0, 0))
                found[group] = before[0] + count, before[1] + sizes[group]
        return found
