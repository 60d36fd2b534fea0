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

__all__ = ["audit_chains", "audit_slots"]

# A longer cycle is only reported as a link that does not lead to an older entry.
_CYCLE_STEPS = 4096


def audit_chains(file: AuditedFile, findings: Findings) -> NDArray[np.int32]:
    """Check every entry and link of a file.

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
        self._check_reached()
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

    def _check_reached(self) -> None:
        """Report the entries that neither a slot nor a newer entry points to."""
        file = self._file
        newest = self._slots[:-1]
        for first, heads in file.slot_blocks():
            wanted = newest[first : first + len(heads)]
            self._led_to[wanted[(heads == wanted) & (wanted > 0)]] = True
            places = np.flatnonzero((heads != wanted) & (heads > 0) & (heads <= file.count))
            self._led_to[heads[places][self._is_own(heads[places], first + places)]] = True
        lost = np.flatnonzero(~self._led_to & self._belongs).astype(np.int32)
        lost = lost[lost >= FIRST_POSITION]
        if len(lost):
            hashes = file.source.entries(file.layout, lost)["key_hash"]
            self._add("entry_unreachable", "key_hash", lost, "a slot or entry that leads here",
                      hashes)  # fmt: skip

    def _is_own(
        self, positions: NDArray[np.int32], numbers: NDArray[np.integer]
    ) -> NDArray[np.bool_]:
        """Return which entries belong to the slots of these numbers."""
        file = self._file
        hashes = links_of(file.source.entries(file.layout, positions)).key_hash
        own: NDArray[np.bool_] = slots_of(np.maximum(hashes, 0), file.layout) == numbers
        own &= hashes >= 0
        return own


def audit_slots(file: AuditedFile, expected: NDArray[np.int32], findings: Findings) -> None:
    """Compare every slot with its right value."""
    layout = file.layout
    for first, heads in file.slot_blocks():
        wanted = expected[first : first + len(heads)]
        wrong = np.flatnonzero(heads != wanted)
        if not len(wrong):
            continue
        values, right, numbers = heads[wrong], wanted[wrong], wrong + first
        uncounted = (values > file.count) & (right == 0)
        outside = ((values < 0) | (values > file.count)) & ~uncounted
        inside = ~uncounted & ~outside & (values > 0)
        hashes = np.full(len(values), -1, np.int32)
        hashes[inside] = links_of(file.source.entries(layout, values[inside])).key_hash
        strangers = inside & (slots_of(np.maximum(hashes, 0), layout) != numbers)
        strangers |= inside & (hashes < 0)
        for rule, chosen in (
            ("slot_range", outside),
            ("slot_uncounted", uncounted),
            ("slot_cross_link", strangers),
            ("slot_newest", ~(outside | uncounted | strangers)),
        ):
            places = (
                (
                    layout.slot_offset(int(numbers[i])),
                    f"{right[i]} (slot {numbers[i]})",
                    int(values[i]),
                )
                for i in np.flatnonzero(chosen).tolist()
            )
            findings.each(file.path, rule, places, int(np.count_nonzero(chosen)))
