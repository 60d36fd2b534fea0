"""The audit of one IndexFile by itself (spec: layout, header, violations)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.audit.audited import elapsed_seconds
from rmqindex.audit.chains import audit_chains
from rmqindex.indexfile.uncounted import damaged_count
from rmqindex.layout import (
    BEGIN_PHY_OFFSET_OFFSET,
    BEGIN_TIMESTAMP_OFFSET,
    END_PHY_OFFSET_OFFSET,
    END_TIMESTAMP_OFFSET,
    FIRST_POSITION,
    HASH_SLOT_COUNT_OFFSET,
    INDEX_COUNT_OFFSET,
)

if TYPE_CHECKING:
    from rmqindex.audit.audited import AuditedFile
    from rmqindex.audit.rules import Findings
    from rmqindex.header import IndexHeader

__all__ = ["audit_file"]

_NAME = re.compile(r"[0-9]{17}")


def audit_file(
    file: AuditedFile, name: str, previous: IndexHeader | None, findings: Findings
) -> None:
    """Check every byte of a file that a reader uses.

    Args:
        file: The file.
        name: Its name.
        previous: The header of the file before it, where known.
        findings: Collects the findings.
    """
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
    elif not file.is_live:
        damage = damaged_count(file.source, layout, header)
        if damage is not None:
            findings.add(file.path, "index_count", damage.byte, damage.expected, damage.got)
    slots = audit_chains(file, findings)
    _audit_slot_count(file, int(np.count_nonzero(slots)), findings)
    if file.count:
        _audit_ends(file, findings)
        _audit_first_time(file, previous, findings)
    elif previous is not None and not file.is_live:
        _audit_inherited(file, previous, findings)
    _audit_next_place(file, findings)


def _audit_slot_count(file: AuditedFile, used: int, findings: Findings) -> None:
    """Check the count of slots: those in use or, before RocketMQ 4.7.1, one per put."""
    got = file.header.hash_slot_count
    # A broker counts a slot before its entry.
    more = file.counts[1] - file.count + 1 if file.is_live else 0
    if not (used <= got <= used + more or file.count <= got <= file.count + more):
        findings.add(
            file.path,
            "hash_slot_count",
            HASH_SLOT_COUNT_OFFSET,
            f"{used} slots in use, or as before 4.7.1 {file.count} entries",
            got,
        )


def _audit_ends(file: AuditedFile, findings: Findings) -> None:
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


def _audit_first_time(file: AuditedFile, previous: IndexHeader | None, findings: Findings) -> None:
    """Check the first entry's seconds, which are counted from the end of the file before."""
    seconds = int(file.source.entry_range(file.layout, 1, 2)["time_diff"][0])
    if seconds < 0:
        return  # reported with the other entries
    byte = file.byte(FIRST_POSITION, "time_diff")
    if previous is not None:
        begin = previous.end_timestamp
        expected = int(elapsed_seconds(file.header.begin_timestamp, begin))
        if seconds != expected:
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
