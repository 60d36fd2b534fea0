"""The audit of a file's entries, chains and slots (spec: put, violations).

The entries' hashes decide everything else: relinking the entries in order yields the right value of
every link and every slot.
So one pass over the entries and one over the slots find each wrong byte, with memory for the slots
and two bytes per entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmqindex.audit.audited import entry_byte
from rmqindex.indexfile.decoding import links_of, slots_of
from rmqindex.indexwriter.linking import LINK_BATCH, link
from rmqindex.layout import FIRST_POSITION, INVALID_INDEX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rmqindex.audit.audited import AuditedFile
    from rmqindex.audit.rules import Findings

__all__ = ["audit_chains"]

# A longer cycle is only reported as a link that does not lead to an older entry.
_CYCLE_STEPS = 4096


def audit_chains(file: AuditedFile, findings: Findings) -> NDArray[np.int32]:
    """Check every entry, link and slot of a file.

    Args:
        file: The file.
        findings: Collects the findings.

    Returns:
        The right value of each slot, int32.
    """
    return _Chains(file, findings).audit()[:-1]


class _Chains:
    """One pass over the entries, which relinks them."""

    def __init__(self, file: AuditedFile, findings: Findings) -> None:
        self._file = file
        self._findings = findings
        # The right values of the slots; an extra one collects the entries that belong to no slot.
        self._nowhere = file.layout.hash_slot_num
        self._slots = np.zeros(self._nowhere + 1, np.int32)
        self._led_to = np.zeros(file.count + 1, np.bool_)
        self._belongs = np.ones(file.count + 1, np.bool_)
        self._backward = 0
        self._backward_at = 0

    def audit(self) -> NDArray[np.int32]:
        """Check every entry; return the right value of each slot, and of the extra one."""
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
        return self._slots

    def _add(
        self,
        rule: str,
        field: str,
        positions: NDArray[np.int32],
        expected: NDArray[Any] | str,
        got: NDArray[Any],
    ) -> None:
        """Add a finding for each of the entries."""
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
        right = expected == prev
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
        unordered = (prev < INVALID_INDEX) | (prev >= positions)
        cyclic = unordered & np.array(
            [
                bool(is_unordered) and self._is_cycle(position, target)
                for is_unordered, position, target in zip(
                    unordered.tolist(), positions.tolist(), prev.tolist(), strict=True
                )
            ],
            np.bool_,
        )
        targets = np.where(unordered, INVALID_INDEX, prev)
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
        newer = _Newer(file)
        for first, heads in file.slot_blocks():
            wanted = self._slots[first : first + len(heads)]
            counted = newer.counted(heads, first) if file.is_live else heads
            self._led_to[wanted[(counted == wanted) & (wanted > 0)]] = True
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
        uncounted = (counted > file.count) & (wanted == 0)
        outside = ((counted < 0) | (counted > file.count)) & ~uncounted
        inside = ~uncounted & ~outside & (counted > 0)
        own = np.zeros(len(heads), np.bool_)
        own[inside] = self._is_own(counted[inside], numbers[inside])
        self._led_to[counted[own]] = True
        strangers = inside & ~own
        for rule, chosen in (
            ("slot_range", outside),
            ("slot_uncounted", uncounted),
            ("slot_cross_link", strangers),
            ("slot_newest", ~(outside | uncounted | strangers)),
        ):
            places = (
                (
                    file.layout.slot_offset(int(numbers[i])),
                    f"{wanted[i]} (slot {numbers[i]})",
                    int(heads[i]),
                )
                for i in np.flatnonzero(chosen).tolist()
            )
            self._findings.each(file.path, rule, places, int(np.count_nonzero(chosen)))

    def _is_own(
        self, positions: NDArray[np.int32], numbers: NDArray[np.integer]
    ) -> NDArray[np.bool_]:
        """Return which entries belong to the slots of these numbers."""
        file = self._file
        hashes = links_of(file.source.entries(file.layout, positions)).key_hash
        own: NDArray[np.bool_] = slots_of(np.maximum(hashes, 0), file.layout) == numbers
        own &= hashes >= 0
        return own


class _Newer:
    """The entries that a writer adds while a file is audited, as far as slots lead to them.

    A broker writes an entry before the slot that leads to it (RocketMQ: ``IndexFile.putKey``), so
    entries that are read after the slots are final.
    """

    def __init__(self, file: AuditedFile) -> None:
        self._file = file
        self._slots = np.empty(0, np.int64)  # of each entry behind the count, -1 for none
        self._counted = np.empty(0, np.int64)  # the counted entry that its chain leads to

    def counted(self, heads: NDArray[np.int32], first: int) -> NDArray[np.int32]:
        """Return the counted entries that slots lead to, and other values as they are.

        Args:
            heads: The values of slots.
            first: The number of the first one.
        """
        file = self._file
        newer = np.flatnonzero((heads > file.count) & (heads < file.layout.index_num))
        if not len(newer):
            return heads
        places = heads[newer].astype(np.int64) - file.count - FIRST_POSITION
        self._read_to(int(places.max()) + 1)
        own = self._slots[places] == newer + first
        led = self._counted[places]
        found = heads.copy()
        known = own & (led >= 0)
        found[newer[known]] = led[known]
        return found

    def _read_to(self, number: int) -> None:
        """Read so many entries behind the count, and follow their links."""
        if number <= len(self._slots):
            return
        file = self._file
        start = file.count + FIRST_POSITION
        links = links_of(file.source.entry_range(file.layout, start, start + number))
        positions = np.arange(start, start + number, dtype=np.int64)
        prev = links.prev_position.astype(np.int64)
        hashes = links.key_hash.astype(np.int64)
        slots = slots_of(np.maximum(links.key_hash, 0), file.layout).astype(np.int64)
        slots[hashes < 0] = -1
        broken = (prev < INVALID_INDEX) | (prev >= positions)
        inside = ~broken & (prev >= start)
        stranger = np.zeros(number, np.bool_)
        stranger[inside] = slots[prev[inside] - start] != slots[inside]
        led = np.where(broken | stranger, -1, prev)
        while (further := np.flatnonzero(led >= start)).size:
            led[further] = led[led[further] - start]
        self._slots, self._counted = slots, led
