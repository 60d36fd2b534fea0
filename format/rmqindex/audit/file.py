"""The audit of one IndexFile by itself (spec: layout, header, put, violations).

The entries' hashes decide everything else: relinking the entries in order yields the right value of
every link and every slot.
So one pass over the entries and one over the slots find each wrong byte, with memory for the slots
and two bytes per entry.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqindex.audit.audited import UncountedEntries, elapsed_seconds, entry_byte
from rmqindex.errors import RmqIndexError
from rmqindex.indexfile.decoding import links_of, slots_of
from rmqindex.indexfile.uncounted import damaged_count
from rmqindex.indexwriter.appender import LINK_BATCH, link
from rmqindex.layout.index_file import (
    BEGIN_PHY_OFFSET_OFFSET,
    BEGIN_TIMESTAMP_OFFSET,
    END_PHY_OFFSET_OFFSET,
    END_TIMESTAMP_OFFSET,
    FIRST_POSITION,
    HASH_SLOT_COUNT_OFFSET,
    INDEX_COUNT_OFFSET,
    INVALID_INDEX,
)
from rmqindex.storage.identity import FileChangedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rmqindex.audit.audited import AuditedFile
    from rmqindex.audit.findings import Findings
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.layout.index_file import IndexHeader

# A longer cycle is only reported as a link that does not lead to an older entry.
_CYCLE_STEPS = 4096
_NAME = re.compile(r"[0-9]{17}")


def audit_file(
    file: AuditedFile,
    name: str,
    previous: IndexHeader | None,
    findings: Findings,
    log: CommitLog | None = None,
) -> None:
    """Check every byte of a file that a reader uses; the log tells which times are possible."""
    if not _NAME.fullmatch(name):
        findings.add(file.path, "file_name", None, "17 digits, yyyyMMddHHmmssSSS", name)
    header, layout = file.header, file.layout
    if not 0 <= header.index_count <= layout.index_num:
        findings.add(
            file.path,
            "index_count",
            INDEX_COUNT_OFFSET,
            f"0 to {layout.index_num}",
            header.index_count,
        )
        is_counted = False
    else:
        damage = None if file.is_live else damaged_count(file.source, layout, header)
        if damage is not None:
            findings.add(file.path, "index_count", damage.byte, damage.expected, damage.got)
        is_counted = damage is None
    used, own_links = _audit_chains(file, findings, is_counted=is_counted)
    if is_counted:
        _audit_slot_count(file, used, own_links, findings)
    if file.count:
        _audit_ends(file, findings, log)
        _audit_first_time(file, previous, findings)
    elif previous is not None and not file.is_live:
        _audit_inherited(file, previous, findings)
    if is_counted:
        _audit_next_place(file, findings)


def _audit_slot_count(file: AuditedFile, used: int, own_links: int, findings: Findings) -> None:
    """Check the count of slots: those in use or, before RocketMQ 4.7.1, one per put.

    The slot of an entry that leads to itself may not be counted.
    """
    got = file.header.hash_slot_count
    # A broker counts a slot before its entry.
    more = file.counts[1] - file.count + 1 if file.is_live else 0
    if not (used - own_links <= got <= used + more or file.count <= got <= file.count + more):
        findings.add(
            file.path,
            "hash_slot_count",
            HASH_SLOT_COUNT_OFFSET,
            f"{used} slots in use, or as before 4.7.1 {file.count} entries",
            got,
        )


def _audit_ends(file: AuditedFile, findings: Findings, log: CommitLog | None) -> None:
    """Compare the header with the first and the last entry."""
    header = file.header
    places = file.last_places
    ends = file.source.entries(file.layout, np.concatenate([[FIRST_POSITION], places]))
    first, *lasts = ends["phy_offset"].tolist()
    if header.begin_phy_offset != first:
        findings.add(
            file.path, "begin_phy_offset", BEGIN_PHY_OFFSET_OFFSET, first, header.begin_phy_offset
        )
    if not file.has_end:
        return
    if header.end_phy_offset not in lasts:
        findings.add(
            file.path, "end_phy_offset", END_PHY_OFFSET_OFFSET, lasts[-1], header.end_phy_offset
        )
    if header.begin_timestamp <= 0:
        if not _is_stored(log, header):
            findings.add(
                file.path,
                "begin_timestamp",
                BEGIN_TIMESTAMP_OFFSET,
                "a time after 1970",
                header.begin_timestamp,
            )
        return
    if file.counts[1] == FIRST_POSITION:
        if header.end_timestamp != header.begin_timestamp:
            findings.add(file.path, "end_timestamp", END_TIMESTAMP_OFFSET,
                         header.begin_timestamp, header.end_timestamp)  # fmt: skip
        return
    seconds = np.where(places == FIRST_POSITION, 0, ends["time_diff"][1:])
    if int(elapsed_seconds(header.end_timestamp, header.begin_timestamp)) not in seconds:
        expected = f"{seconds[-1]} s (entry {places[-1]}) after {header.begin_timestamp}"
        findings.add(
            file.path, "end_timestamp", END_TIMESTAMP_OFFSET, expected, header.end_timestamp
        )


def _is_stored(log: CommitLog | None, header: IndexHeader) -> bool:
    """Return whether a log has the first message with the header's time, by a clock before 1970."""
    if log is None or header.begin_phy_offset < 0:
        return False
    try:
        found = log.read_at(np.array([header.begin_phy_offset]), ["store_timestamp"])
    except FileChangedError:
        raise
    except RmqIndexError:
        return False
    return bool(found["store_timestamp"].to_pylist() == [header.begin_timestamp])


def _audit_first_time(file: AuditedFile, previous: IndexHeader | None, findings: Findings) -> None:
    """Check the first entry's seconds, which are counted from the end of the file before."""
    seconds = int(file.source.entry_range(file.layout, 1, 2)["time_diff"][0])
    if seconds < 0:
        return  # reported with the other entries
    byte = file.byte(FIRST_POSITION, "time_diff")
    if previous is not None:
        begin = previous.end_timestamp
        expected = int(elapsed_seconds(file.header.begin_timestamp, begin))
        # After a kill within its put, it was put again, and counted from its own time.
        if seconds not in (0, expected):
            findings.add(file.path, "time_diff", byte, f"{expected} (entry 1)", seconds)
    if seconds:
        findings.add(file.path, "first_entry_late", byte, "0 seconds (entry 1)", seconds)


def _audit_inherited(file: AuditedFile, previous: IndexHeader, findings: Findings) -> None:
    """Check that a file without entries has the end of the one before it, or zeros."""
    header = file.header
    for byte, expected, got in (
        (BEGIN_TIMESTAMP_OFFSET, previous.end_timestamp, header.begin_timestamp),
        (END_TIMESTAMP_OFFSET, previous.end_timestamp, header.end_timestamp),
        (BEGIN_PHY_OFFSET_OFFSET, previous.end_phy_offset, header.begin_phy_offset),
        (END_PHY_OFFSET_OFFSET, previous.end_phy_offset, header.end_phy_offset),
    ):
        if got != max(expected, 0):
            findings.add(file.path, "inherited_header", byte, max(expected, 0), got)


def _audit_next_place(file: AuditedFile, findings: Findings) -> None:
    """Check the place after the last counted entry, where a torn put leaves its bytes."""
    if file.is_live:
        return  # a broker is about to count it
    position = max(file.header.index_count, FIRST_POSITION)
    if position >= file.layout.index_num or position != file.count + FIRST_POSITION:
        return
    entries = file.source.entry_range(file.layout, position, position + 1)
    if entries.view(np.uint8).any():
        findings.add(
            file.path,
            "uncounted_entries",
            file.layout.entry_offset(position),
            f"zeros (place {position})",
            bytes(entries.view(np.uint8)).hex(),
        )


def _audit_chains(file: AuditedFile, findings: Findings, *, is_counted: bool) -> tuple[int, int]:
    return _Chains(file, findings, is_counted=is_counted).audit()


class _Chains:
    """One pass over the entries, which relinks them."""

    def __init__(self, file: AuditedFile, findings: Findings, *, is_counted: bool) -> None:
        self._file = file
        self._findings = findings
        self._is_counted = is_counted
        # The right values of the slots; an extra one collects the entries that belong to no slot.
        self._nowhere = file.layout.hash_slot_num
        self._slots = np.zeros(self._nowhere + 1, np.int32)
        self._led_to = np.zeros(file.count + 1, np.bool_)
        self._belongs = np.ones(file.count + 1, np.bool_)
        self._own_links = 0
        self._backward = 0
        self._backward_at = 0

    def audit(self) -> tuple[int, int]:
        """Check every entry; return the number of slots in use, and of entries' own links."""
        file = self._file
        latest = -1
        highest = -1
        for first, entries in file.blocks():
            positions = np.arange(first, first + len(entries), dtype=np.int32)
            self._check_links(entries, positions)
            latest = self._check_times(entries, positions, latest)
            highest = self._check_offsets(entries, positions, highest)
        if self._backward:
            self._findings.add(
                file.path,
                "time_order",
                file.byte(self._backward_at, "time_diff"),
                "no entry older than the one before",
                f"{self._backward} of them (the first is entry {self._backward_at})",
            )
        self._check_slots()
        return int(np.count_nonzero(self._slots[:-1])), self._own_links

    def _add(
        self,
        rule: str,
        field: str,
        positions: NDArray[np.int32],
        expected: NDArray[Any] | str,
        got: NDArray[Any],
    ) -> None:
        layout = self._file.layout

        def places() -> Iterator[tuple[int, str, int]]:
            for place, position in enumerate(positions.tolist()):
                wanted = expected if isinstance(expected, str) else str(expected[place])
                byte = entry_byte(layout, position, field)
                yield byte, f"{wanted} (entry {position})", int(got[place])

        self._findings.each(self._file.path, rule, places(), len(positions))

    def _check_links(self, entries: NDArray[Any], positions: NDArray[np.int32]) -> None:
        hashes = entries["key_hash"].astype(np.int32)
        prev = entries["prev_position"].astype(np.int32)
        numbers = slots_of(np.maximum(hashes, 0), self._file.layout)
        negative = hashes < 0
        if negative.any():
            self._add("key_hash_range", "key_hash", positions[negative], "0 to 2147483647",
                      hashes[negative])  # fmt: skip
        blank = ~entries.view(np.uint8).reshape(len(entries), -1).any(axis=1)
        # The first message of a log may well hash to 0.
        blank &= positions > FIRST_POSITION
        if blank.any():
            self._add("entry_unwritten", "key_hash", positions[blank], "an entry", hashes[blank])
        outside = negative | blank
        numbers[outside] = self._nowhere
        self._belongs[positions[outside]] = False
        expected = np.concatenate(
            [
                link(self._slots, numbers[start : start + LINK_BATCH], int(positions[start]))[0]
                for start in range(0, len(numbers), LINK_BATCH)
            ]
        )
        expected[outside] = prev[outside]
        is_own = (prev == positions) & ~outside
        self._own_links += int(np.count_nonzero(is_own))
        harmless = is_own & (expected == INVALID_INDEX)
        if harmless.any():
            self._add("chain_own_link", "prev_position", positions[harmless], "0", prev[harmless])
        right = (expected == prev) | harmless
        led = expected[right & ~outside]
        self._led_to[led[led > 0]] = True
        if not right.all():
            wrong = np.flatnonzero(~right)
            self._check_wrong_links(positions[wrong], numbers[wrong], expected[wrong], prev[wrong])

    def _check_wrong_links(
        self,
        positions: NDArray[np.int32],
        numbers: NDArray[np.int32],
        expected: NDArray[np.int32],
        prev: NDArray[np.int32],
    ) -> None:
        unordered = (prev < INVALID_INDEX) | (prev > positions)
        cyclic = unordered & np.array(
            [
                bool(is_unordered) and self._is_cycle(position, target)
                for is_unordered, position, target in zip(
                    unordered.tolist(), positions.tolist(), prev.tolist(), strict=True
                )
            ],
            np.bool_,
        )
        targets = np.where(unordered | (prev == positions), INVALID_INDEX, prev)
        same = self._is_own(targets, numbers)
        strangers = (targets > INVALID_INDEX) & ~same
        self._led_to[targets[same & (targets > INVALID_INDEX)]] = True
        rest = ~unordered & ~strangers
        for rule, chosen in (
            ("chain_cycle", cyclic),
            ("chain_order", unordered & ~cyclic),
            ("chain_cross_link", strangers),
            ("chain_link", rest),
        ):
            if chosen.any():
                self._add(rule, "prev_position", positions[chosen], expected[chosen], prev[chosen])

    def _is_cycle(self, position: int, target: int) -> bool:
        """Return whether following a link to a newer entry leads back."""
        file = self._file
        if self._findings.room(file.path, "chain_cycle") == 0:
            return False
        for _ in range(_CYCLE_STEPS):
            if target == position:
                return True
            if not INVALID_INDEX < target <= file.count:
                return False
            entry = file.source.entry_range(file.layout, target, target + 1)
            target = int(entry["prev_position"][0])
        return False

    def _check_times(self, entries: NDArray[Any], positions: NDArray[np.int32], latest: int) -> int:
        seconds = entries["time_diff"].astype(np.int32)
        negative = seconds < 0
        if negative.any():
            self._add("time_diff_range", "time_diff", positions[negative], "0 to 2147483647",
                      seconds[negative])  # fmt: skip
        later = positions > FIRST_POSITION  # the first one's are counted from another time
        if self._file.header.begin_timestamp <= 0:
            wrong = later & (seconds > 0)
            if wrong.any():
                self._add("time_diff", "time_diff", positions[wrong], "0", seconds[wrong])
        counted = seconds[later]
        if not len(counted):
            return latest
        steps = np.diff(counted, prepend=np.int32(latest) if latest >= 0 else counted[0])
        back = np.flatnonzero(steps < 0)
        if len(back) and not self._backward:
            self._backward_at = int(positions[later][back[0]])
        self._backward += len(back)
        return int(counted[-1])

    def _check_offsets(
        self, entries: NDArray[Any], positions: NDArray[np.int32], highest: int
    ) -> int:
        offsets = entries["phy_offset"].astype(np.int64)
        negative = offsets < 0
        if negative.any():
            self._add("phy_offset_range", "phy_offset", positions[negative], "0 or more",
                      offsets[negative])  # fmt: skip
        before = np.concatenate([[highest], offsets[:-1]])
        back = np.flatnonzero((offsets < before) & ~negative)
        if len(back):
            self._add(
                "phy_offset_order",
                "phy_offset",
                positions[back],
                np.array([f"at least {value}" for value in before[back].tolist()]),
                offsets[back],
            )
        return int(offsets[-1])

    def _check_slots(self) -> None:
        """Compare every slot with its right value, and report entries that nothing leads to."""
        file = self._file
        newer = UncountedEntries(file)
        for first, heads in file.slot_blocks():
            wanted = self._slots[first : first + len(heads)]
            is_known = file.is_live or self._is_counted
            counted = newer.counted(heads, first) if is_known else heads
            self._led_to[wanted[(counted == wanted) & (wanted > 0)]] = True
            if not file.is_live:
                torn = np.flatnonzero((counted != heads) & (counted == wanted))
                for rule, some in (
                    ("slot_uncounted", torn[wanted[torn] == 0]),
                    ("slot_torn", torn[wanted[torn] > 0]),
                ):
                    self._report_slots(rule, heads[some], wanted[some], some + first)
            wrong = np.flatnonzero(counted != wanted)
            if len(wrong):
                self._check_wrong_slots(heads[wrong], counted[wrong], wanted[wrong], wrong + first)
        lost = np.flatnonzero(~self._led_to & self._belongs).astype(np.int32)
        lost = lost[lost >= FIRST_POSITION]
        if len(lost):
            hashes = file.source.entries(file.layout, lost)["key_hash"]
            self._add("entry_unreachable", "key_hash", lost, "a slot or entry that leads here",
                      hashes)  # fmt: skip

    def _check_wrong_slots(
        self,
        heads: NDArray[np.int32],
        counted: NDArray[np.int32],
        wanted: NDArray[np.int32],
        numbers: NDArray[np.int64],
    ) -> None:
        file = self._file
        # No kill leaves a position that the file does not have.
        uncounted = (counted > file.count) & (counted < file.layout.index_num) & (wanted == 0)
        outside = ((counted < 0) | (counted > file.count)) & ~uncounted
        inside = ~uncounted & ~outside & (counted > 0)
        own = np.zeros(len(heads), np.bool_)
        own[inside] = self._is_own(counted[inside], numbers[inside])
        self._led_to[counted[own]] = True
        strangers = inside & ~own
        for rule, chosen in (
            ("slot_range", outside),
            ("slot_uncounted", uncounted & self._is_counted),
            ("slot_cross_link", strangers),
            ("slot_newest", ~(outside | uncounted | strangers)),
        ):
            self._report_slots(rule, heads[chosen], wanted[chosen], numbers[chosen])

    def _report_slots(
        self,
        rule: str,
        heads: NDArray[np.int32],
        wanted: NDArray[np.int32],
        numbers: NDArray[np.integer],
    ) -> None:
        path, layout = self._file.path, self._file.layout
        places = (
            (layout.slot_offset(number), f"{value} (slot {number})", head)
            for head, value, number in zip(
                heads.tolist(), wanted.tolist(), numbers.tolist(), strict=True
            )
        )
        self._findings.each(path, rule, places, len(heads))

    def _is_own(
        self, positions: NDArray[np.int32], numbers: NDArray[np.integer]
    ) -> NDArray[np.bool_]:
        """Return which entries belong to the slots of these numbers."""
        file = self._file
        hashes = links_of(file.source.entries(file.layout, positions)).key_hash
        own: NDArray[np.bool_] = slots_of(np.maximum(hashes, 0), file.layout) == numbers
        own &= hashes >= 0
        return own
