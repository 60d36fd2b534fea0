"""The audit of IndexFiles against the CommitLog they map.

There are two passes, since each finds what the other cannot: from the entries to their messages
(dangling offsets, wrong hashes, wrong times), and from the messages to their entries (missing and
duplicate ones).
Both work in batches, whatever the size of the log and of the files.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from rmqindex.audit.audited import BLOCK, AuditedFile, elapsed_seconds
from rmqindex.audit.extent import (
    MissingRun,
    add_damage,
    damaged_offsets,
    index_end,
    is_indexed_by_a_start,
    log_start,
    rows_with_keys,
)
from rmqindex.indexfile.decoding import MILLISECONDS, odd_in_time
from rmqindex.keys.messages import expand_messages, message_keys
from rmqindex.layout.index_file import BEGIN_TIMESTAMP_OFFSET, END_TIMESTAMP_OFFSET, FIRST_POSITION
from rmqindex.query.message_keys import SearchedFile
from rmqindex.query.verification import MATCH_CODES, Verifier
from rmqindex.storage.location import Location
from rmqindex.store.names import has_next_name
from rmqindex.store.store import index_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.audit.extent import LogRange
    from rmqindex.audit.findings import Findings
    from rmqindex.audit.units import AuditUnit
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.errors import CorruptCommitLogError
    from rmqindex.query.verification import Comparison

_KEY_COLUMNS = ("topic", "uniq_key", "keys", "sys_flag", "tags")
_TAGS = _KEY_COLUMNS.index("tags")
_UNVERIFIED, _BEYOND_END, _MISSING, _MISMATCH, _ZEROED = (
    MATCH_CODES.index(state)
    for state in ("unverified", "beyond_end", "missing", "mismatch", "zeroed")
)
_DANGLING = {
    _BEYOND_END: ("entry_beyond_log", "an offset inside the CommitLog"),
    _MISSING: ("entry_in_gap", "an offset inside a log file"),
}
_HASH_BITS = np.int64(32)


def _pairs(rows: NDArray[np.int64], hashes: NDArray[np.int32]) -> NDArray[np.int64]:
    return (rows << _HASH_BITS) | hashes.astype(np.int64)


def audit_entries(
    file: AuditedFile, log: CommitLog, findings: Findings, since: int | None = None
) -> None:
    """Compare every entry of a file with the message at its offset."""
    _Entries(file, log, findings).audit(since)


class _Entries:
    """The pass from the entries of a file to their messages."""

    def __init__(self, file: AuditedFile, log: CommitLog, findings: Findings) -> None:
        self._file = file
        self._log = log
        self._findings = findings
        # Brokers from 5.4.0 on index tags as well; which version wrote an entry is unknown.
        self._verifier = Verifier("indexed")

    def audit(self, since: int | None) -> None:
        """Compare the entries of a time or later, or of all times."""
        file, expired = self._file, 0
        for first, entries in file.blocks():
            if since is not None and _newest(file, entries) < since:
                continue
            expired += self._audit_block(first, entries)
        self._audit_end_time()
        if expired:
            rule = "file_expired" if expired == file.count else "entry_expired"
            expected = f"offsets from {self._log.min_offset}"
            got = f"{expired} of {file.count} entries before it"
            self._findings.add(file.path, rule, None, expected, got)

    def _compare(self, entries: NDArray[Any], positions: NDArray[np.int32]) -> Comparison:
        file = self._file
        searched = SearchedFile(Location.of(file.path), lambda: nullcontext(file), file.layout)
        return self._verifier.compare(
            self._log,
            [searched],
            entries["key_hash"].astype(np.int32),
            entries["phy_offset"].astype(np.int64),
            positions,
        )

    def _audit_end_time(self) -> None:
        """Compare the header's last time with the message of its last entry."""
        file = self._file
        if not file.has_end:
            return
        places = file.last_places
        compared = self._compare(file.source.entries(file.layout, places), places.astype(np.int32))
        if (compared.rows < 0).any():
            return  # reported with the other entries
        times = compared.messages["store_timestamp"].to_numpy()[compared.rows].tolist()
        if file.header.end_timestamp not in times:
            self._findings.add(
                file.path,
                "end_timestamp",
                END_TIMESTAMP_OFFSET,
                f"{times[-1]} (entry {places[-1]})",
                file.header.end_timestamp,
            )

    def _audit_block(self, first: int, entries: NDArray[Any]) -> int:
        """Compare entries with their messages; return how many lie before the log."""
        file = self._file
        hashes, offsets = entries["key_hash"], entries["phy_offset"].astype(np.int64)
        compared = self._compare(entries, np.arange(first, first + len(entries), dtype=np.int32))
        self._report_dangling(first, offsets, compared)

        def of_message(place: int) -> str:
            wanted = compared.hashes_of(place)
            listed = " or ".join(map(str, wanted)) or "no entry"
            return f"{listed} (entry {first + place}, message at {offsets[place]})"

        _report_zeroed(self._log, offsets[compared.states == _ZEROED], self._findings)
        wrong = np.flatnonzero(compared.states == _MISMATCH).tolist()
        self._findings.each(
            file.path,
            "entry_hash",
            ((file.byte(first + i, "key_hash"), of_message(i), int(hashes[i])) for i in wrong),
            len(wrong),
        )
        seen = np.flatnonzero(compared.rows >= 0)
        times = compared.messages["store_timestamp"].to_numpy()[compared.rows[seen]]
        self._audit_times(seen + first, entries["time_diff"].astype(np.int64)[seen], times)
        return self._audit_expired(first, entries, compared.states == _UNVERIFIED)

    def _audit_expired(self, first: int, entries: NDArray[Any], expired: NDArray[np.bool_]) -> int:
        """Compare seconds that only the message's other entries tell; return how many expired."""
        seconds = entries["time_diff"].astype(np.int64)
        seconds[: first == FIRST_POSITION] = 0  # of a rolled file, counted from another time
        odd = odd_in_time(entries["phy_offset"].astype(np.int64), seconds)
        byte, places = self._file.byte, np.flatnonzero(odd & expired).tolist()
        rows = (
            (byte(first + i, "time_diff"), f"{seconds[i - 1]} (entry {first + i})", seconds[i])
            for i in places
        )
        self._findings.each(self._file.path, "time_diff", rows, len(places))
        return int(np.count_nonzero(expired))

    @cached_property
    def _damaged_offsets(self) -> NDArray[np.int64]:
        return damaged_offsets(self._log, self._file.offsets_and_hashes, self._file.header)

    def _report_dangling(
        self, first: int, offsets: NDArray[np.int64], compared: Comparison
    ) -> None:
        states = compared.states
        disproved = states == _BEYOND_END
        if disproved.any() and (end := self._file.end_phy_offset) is not None:
            disproved &= np.isin(offsets, self._damaged_offsets)
            expected = f"at most {end}, that of the last entry"
            self._report_offsets(first, offsets, disproved, ("entry_dangling", expected))
            states = np.where(disproved, _UNVERIFIED, states)
        for state in np.unique(states[compared.rows < 0]).tolist():
            if state == _UNVERIFIED:
                continue
            rule = _DANGLING.get(state, ("entry_dangling", "an offset of a message"))
            self._report_offsets(first, offsets, states == state, rule)

    def _report_offsets(
        self,
        first: int,
        offsets: NDArray[np.int64],
        wrong: NDArray[np.bool_],
        rule: tuple[str, str],
    ) -> None:
        """Report the offsets of some entries by a rule, with what was expected."""
        file, (name, expected) = self._file, rule
        places = np.flatnonzero(wrong).tolist()
        self._findings.each(
            file.path,
            name,
            ((file.byte(first + i, "phy_offset"), f"{expected} (entry {first + i})",
              int(offsets[i]))
             for i in places),
            len(places),
        )  # fmt: skip

    def _audit_times(
        self,
        positions: NDArray[np.int64],
        got: NDArray[np.int64],
        store_timestamps: NDArray[np.int64],
    ) -> None:
        """Compare entries' seconds, and the header's first time, with messages' store times."""
        file, begin = self._file, self._file.header.begin_timestamp
        expected = elapsed_seconds(store_timestamps, begin)
        wrong = np.flatnonzero((positions > FIRST_POSITION) & (expected != got)).tolist()
        self._findings.each(
            file.path,
            "time_diff",
            ((file.byte(int(positions[i]), "time_diff"),
              f"{expected[i]} (entry {positions[i]}, stored {store_timestamps[i]})", int(got[i]))
             for i in wrong),
            len(wrong),
        )  # fmt: skip
        for stored in store_timestamps[positions == FIRST_POSITION].tolist():
            if stored != begin:
                self._findings.add(
                    file.path,
                    "begin_timestamp",
                    BEGIN_TIMESTAMP_OFFSET,
                    f"{stored} (entry {FIRST_POSITION})",
                    begin,
                )


def _newest(file: AuditedFile, entries: NDArray[Any]) -> int:
    """Return the latest time of a block's entries, epoch milliseconds, up to a second late."""
    seconds = int(entries["time_diff"].max()) + 1
    return file.header.begin_timestamp + seconds * MILLISECONDS


def _report_zeroed(log: CommitLog, offsets: NDArray[np.int64], findings: Findings) -> None:
    """Report messages that lost keys to zeros, by the entries that the index has of them."""
    for offset, count in zip(*_counted(offsets), strict=True):
        file = next(each for each in log.files if each.start <= offset < each.stop)
        findings.add(
            str(file.path),
            "log_damaged",
            offset - file.start,
            f"a topic and properties with the keys of {count} entries of the index",
            f"bytes of 0 in them (message at {offset})",
        )


def _counted(numbers: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    """Return each number once, and how many there are of it."""
    distinct, counts = np.unique(numbers, return_counts=True)
    return distinct.tolist(), counts.tolist()


def _key_columns(messages: pa.RecordBatch) -> list[pa.Array]:
    return [messages[name] for name in _KEY_COLUMNS]


def audit_coverage(
    file: AuditedFile,
    others: Sequence[AuditedFile],
    log: CommitLog,
    unit: AuditUnit,
    findings: Findings,
) -> None:
    """Compare every message of a unit's part of the log with its entries."""
    span = unit.span
    assert span is not None
    spans = [_Spans.of(file, exact=True), *(_Spans.of(other, exact=False) for other in others)]
    highest = max((each.highest for each in spans), default=-1)
    missing = MissingRun(file.path, findings, unit.broker)
    start, stop = max(span.start, log_start(log, unit.since)), span.stop
    is_last = stop is None
    if is_last:
        stop = log.agreed_stop()
    reading = _AuditedMessages(log, span, start, stop, unit.since, findings)
    for batch in reading.batches():
        messages = reading.judged(batch, missing)
        if is_last:
            offsets = messages["phy_offset"].to_numpy()
            missing.add_behind(messages.filter(pa.array(offsets > highest)))
            missing.see(batch)
            # The last message that a running broker counts may have keys to come.
            is_whole = offsets < highest if unit.is_live else offsets <= highest
            messages = messages.filter(pa.array(is_whole))
        if messages.num_rows:
            _audit_messages(messages, spans, missing, findings)
    if unit.is_live and missing.behind and missing.behind_from <= index_end(unit.path.parent):
        missing.behind = 0  # the broker has indexed it meanwhile, and will do so with the rest
    missing.waits_for_start = bool(missing.behind) and is_indexed_by_a_start(
        unit.path.parent, log, missing.behind_from, unit.broker
    )
    missing.finish(log.min_offset, span.begin)
    last = index_entries(unit.path.parent)[-1:] if missing.behind else []
    if any(not has_next_name(entry.name) for entry in last):
        findings.need_replace()


@dataclass(frozen=True, slots=True)
class _AuditedMessages:
    """A reading of messages, in which damage is a finding."""

    log: CommitLog
    span: LogRange
    start: int
    stop: int | None
    since: int | None
    findings: Findings

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the messages."""
        return self.log.scan(
            self.start,
            self.stop,
            [*_KEY_COLUMNS, "phy_offset", "store_timestamp"],
            mode="DROPMALFORMED",
            on_malformed=self._damaged,
        )

    def _damaged(self, error: CorruptCommitLogError) -> None:
        starts = {str(file.path): file.start for file in self.log.files}
        begin = starts.get(str(error.path), self.span.start) + error.byte
        # The audit of an older file finds what begins before, unless it is left out.
        if begin >= self.span.start or self.since is not None:
            add_damage(self.findings, error)

    def judged(self, batch: pa.RecordBatch, missing: MissingRun) -> pa.RecordBatch:
        """Return the messages that must have entries; count those before the index begins."""
        begin = self.span.begin
        if self.since is not None:
            batch = batch.filter(pa.array(batch["store_timestamp"].to_numpy() >= self.since))
        if self.log.min_offset < begin and self.span.start < begin:
            offsets = batch["phy_offset"].to_numpy()
            early = batch.filter(pa.array(offsets < begin))
            missing.early += len(rows_with_keys(early))
            # A removed file may have held the first entries of the very first message.
            batch = batch.filter(pa.array(offsets > begin))
        return batch


@dataclass(frozen=True, slots=True)
class _Spans:
    """The range of offsets of each block of a file."""

    file: AuditedFile
    lowest: NDArray[np.int64]
    upmost: NDArray[np.int64]

    @classmethod
    def of(cls, file: AuditedFile, *, exact: bool) -> _Spans:
        """Read every entry or, trusting their order, only a few."""
        lowest, upmost = [], []
        if exact:
            for _, entries in file.blocks():
                offsets = entries["phy_offset"].astype(np.int64)
                lowest.append(int(offsets.min()))
                upmost.append(int(offsets.max()))
        else:
            firsts = np.arange(FIRST_POSITION, file.count + FIRST_POSITION, BLOCK)
            lasts = np.minimum(firsts + BLOCK - 1, file.count)
            edges = [file.source.entries(file.layout, places) for places in (firsts, lasts)]
            lowest = np.minimum(*(each["phy_offset"].astype(np.int64) for each in edges)).tolist()
            upmost = np.maximum(*(each["phy_offset"].astype(np.int64) for each in edges)).tolist()
        return cls(file, np.array(lowest, np.int64), np.array(upmost, np.int64))

    @property
    def highest(self) -> int:
        """The greatest offset of the file; -1 without entries."""
        return int(self.upmost.max()) if len(self.upmost) else -1

    def entries(self, first: int, last: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the positions and entries of the blocks that may hold offsets in a range."""
        stop = self.file.count + FIRST_POSITION
        for block in np.flatnonzero((self.lowest <= last) & (self.upmost >= first)).tolist():
            start = FIRST_POSITION + block * BLOCK
            yield (
                start,
                self.file.source.entry_range(self.file.layout, start, min(start + BLOCK, stop)),
            )


def _audit_messages(
    batch: pa.RecordBatch, spans: Sequence[_Spans], missing: MissingRun, findings: Findings
) -> None:
    """Compare the keys of messages with the entries of their offsets."""
    offsets = batch["phy_offset"].to_numpy()
    columns = _key_columns(batch)
    # Whether a broker indexes tags is unknown: an entry for the tags is neither missing nor too
    # many.
    rows, ordinals, hashes = expand_messages(*columns[:_TAGS])
    tag_rows, _, tag_hashes = expand_messages(columns[0], None, None, *columns[_TAGS - 1 :])
    expected, firsts, wanted = np.unique(
        _pairs(rows, hashes), return_index=True, return_counts=True
    )
    entries = _RangeEntries.between(offsets, spans)
    order = np.argsort(entries.pairs, kind="stable")
    indexed, starts, counts = np.unique(entries.pairs[order], return_index=True, return_counts=True)
    have = np.zeros(len(expected), np.int64)
    if len(indexed):
        places = np.searchsorted(indexed, expected)
        places[places == len(indexed)] = 0
        same = indexed[places] == expected
        have[same] = counts[places[same]]

    with_keys = np.zeros(len(offsets), np.bool_)
    with_keys[rows] = True
    with_entries = np.zeros(len(offsets), np.bool_)
    with_entries[entries.pairs >> _HASH_BITS] = True
    if (with_keys & ~with_entries).any():
        for row in np.flatnonzero(with_keys).tolist():
            if with_entries[row]:
                missing.end()
            else:
                missing.add(int(offsets[row]))
    elif with_keys.any():
        missing.end()

    is_missing = (have < wanted) & with_entries[expected >> _HASH_BITS]
    chosen = np.flatnonzero(is_missing).tolist()

    def missing_keys() -> Iterator[tuple[None, str, str]]:
        for place in chosen:
            row, ordinal = int(rows[firsts[place]]), int(ordinals[firsts[place]])
            message = [column[row].as_py() for column in columns[:_TAGS]]
            key = message_keys(*message)[ordinal]
            told = f"{key} (hash {hashes[firsts[place]]}, message at {offsets[row]})"
            yield None, f"{wanted[place]} of {told}", f"{have[place]}"

    findings.each(missing.path, "key_missing", missing_keys(), len(chosen))
    allowed = np.unique(
        np.concatenate([_pairs(rows, hashes), _pairs(tag_rows, tag_hashes)]), return_counts=True
    )
    _report_duplicates(entries, order, (indexed, starts, counts), allowed, findings)


class _RangeEntries(NamedTuple):
    """The entries of a range of the log: their messages, hashes and positions."""

    pairs: NDArray[np.int64]
    owners: NDArray[np.int64]
    positions: NDArray[np.int64]
    files: Sequence[_Spans]

    @classmethod
    def between(cls, offsets: NDArray[np.int64], spans: Sequence[_Spans]) -> _RangeEntries:
        """Gather the entries of messages, given by ascending offsets."""
        pairs, owners, positions = [], [], []
        for owner, span in enumerate(spans):
            for first, entries in span.entries(int(offsets[0]), int(offsets[-1])):
                there = entries["phy_offset"].astype(np.int64)
                rows = np.searchsorted(offsets, there)
                rows[rows == len(offsets)] = 0
                mine = np.flatnonzero(offsets[rows] == there)
                pairs.append(_pairs(rows[mine], entries["key_hash"].astype(np.int32)[mine]))
                owners.append(np.full(len(mine), owner, np.int64))
                positions.append(mine + first)
        return cls(_join(pairs), _join(owners), _join(positions), spans)


def _join(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _report_duplicates(
    entries: _RangeEntries,
    order: NDArray[np.int64],
    indexed: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    messages: tuple[NDArray[np.int64], NDArray[np.int64]],
    findings: Findings,
) -> None:
    """Report surplus entries of a message's keys; hashes of no key are reported elsewhere.

    ``indexed`` has the distinct pairs of the entries, the first place of each in ``order``, and how
    many there are; ``messages`` those of the messages' keys, and how many.
    """
    pairs, starts, counts = indexed
    expected, wanted = messages
    if not len(expected):
        return
    places = np.searchsorted(expected, pairs)
    places[places == len(expected)] = 0
    is_key = expected[places] == pairs
    surplus = np.flatnonzero(is_key & (counts > wanted[places]))
    for place in surplus.tolist():
        last = int(order[starts[place] + counts[place] - 1])
        file = entries.files[int(entries.owners[last])].file
        position = int(entries.positions[last])
        findings.add(
            file.path,
            "entry_duplicate",
            file.byte(position, "phy_offset"),
            f"{wanted[places[place]]} of hash {int(pairs[place]) & 0xFFFFFFFF}",
            f"{counts[place]} (entry {position})",
        )
