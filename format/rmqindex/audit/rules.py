"""The rules of the audit: their names, severities and meanings.

The documentation is generated from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["AUDIT_RULES", "FINDING_SCHEMA", "AuditRule", "Findings", "Severity"]

Severity = Literal["error", "warning", "info"]

#: The columns of :func:`rmqindex.verify`.
FINDING_SCHEMA = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("rule", pa.string(), nullable=False),
        pa.field("severity", pa.string(), nullable=False),
        pa.field("byte", pa.int64()),
        pa.field("expected", pa.string(), nullable=False),
        pa.field("got", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class AuditRule:
    """One rule of the audit.

    Attributes:
        name: Its name in findings, which does not change between versions.
        severity: ``error``: answers are wrong or missing; ``warning``: the bytes are not what a
            broker writes, or a restart will do harm; ``info``: worth knowing, but normal.
        meaning: What a finding means.
    """

    name: str
    severity: Severity
    meaning: str


#: Every rule that a finding can name.
AUDIT_RULES: tuple[AuditRule, ...] = (
    # One file by itself.
    AuditRule("unreadable", "error", "The file cannot be opened or is of another kind."),
    AuditRule("header_size", "error", "The file is too short for a header."),
    AuditRule("geometry", "error", "No geometry, or more than one, fits the file."),
    AuditRule("file_size", "error", "The file is shorter than its geometry."),
    AuditRule("surplus_bytes", "info", "Bytes follow the last entry place; no reader uses them."),
    AuditRule("file_name", "warning", "The name is not a time of 17 digits."),
    AuditRule("index_count", "error", "The header counts more entries than the file can hold."),
    AuditRule("uncounted_entries", "warning", "Bytes stand where the next entry will be written."),
    AuditRule("hash_slot_count", "warning", "Neither the slots in use nor, as before 4.7.1, the "
              "entries are so many; no search reads the field."),
    AuditRule("begin_phy_offset", "error", "The header does not have the first entry's offset."),
    AuditRule("end_phy_offset", "error", "The header does not have the last entry's offset, at "
              "which the broker goes on indexing."),
    AuditRule("begin_timestamp", "error", "The header does not have the first message's store "
              "time, from which all times of the file are counted."),
    AuditRule("end_timestamp", "error", "The header does not have the last message's store time, "
              "by which the broker chooses files."),
    AuditRule("inherited_header", "error", "A file without entries does not have the end of the "
              "file before it, by which the broker goes on to older files and with indexing."),
    AuditRule("slot_range", "error", "A slot holds no position of an entry."),
    AuditRule("slot_uncounted", "warning", "A slot holds a position that the header does not "
              "count, as after a kill; the broker takes it for empty."),
    AuditRule("slot_cross_link", "error", "A slot holds an entry of another slot."),
    AuditRule("slot_newest", "error", "A slot does not hold its newest entry, which is hidden "
              "from every search."),
    AuditRule("key_hash_range", "error", "A key hash is negative, so no search finds the entry."),
    AuditRule("entry_unwritten", "error", "A counted entry was never written: all its bytes are "
              "zero."),
    AuditRule("chain_order", "error", "An entry does not lead to an older one."),
    AuditRule("chain_cycle", "error", "A chain runs in a circle, in which the broker hangs."),
    AuditRule("chain_cross_link", "error", "An entry leads into the chain of another slot."),
    AuditRule("chain_link", "error", "An entry does not lead to the next older one of its slot, "
              "which is hidden from every search."),
    AuditRule("entry_unreachable", "error", "No slot and no newer entry leads to an entry."),
    AuditRule("time_diff_range", "error", "An entry's seconds are negative, at which the broker "
              "stops."),
    AuditRule("time_diff", "error", "An entry's seconds are not what its message's store time "
              "gives."),
    AuditRule("first_entry_late", "info", "The broker reads the first entry of a rolled file as "
              "so many seconds later than it is."),
    AuditRule("time_order", "info", "Clocks stepped back inside the file: the broker's search "
              "with a begin time may stop early."),
    AuditRule("phy_offset_range", "error", "An offset is negative."),
    AuditRule("phy_offset_order", "warning", "An entry's offset is smaller than the one before."),
    # Files beside each other, and the store around them.
    AuditRule("directory_name", "error", "A directory has a numeric name, at which the broker "
              "stops loading."),
    AuditRule("foreign_name", "info", "Something that the broker skips stands among the files."),
    AuditRule("geometry_differs", "error", "A file has another geometry than the files beside "
              "it, which a broker opens all with one."),
    AuditRule("file_order", "error", "A file begins before the file before it ends, so that the "
              "broker's search may miss entries."),
    AuditRule("not_full", "info", "A file that is not the last one is not full."),
    AuditRule("unfinished_write", "warning", "A write into the directory has not finished."),
    AuditRule("checkpoint_missing", "warning", "A store has no checkpoint."),
    AuditRule("checkpoint_size", "warning", "The checkpoint is shorter than its fields."),
    AuditRule("checkpoint_behind", "warning", "A file that is not the last one ends after the "
              "checkpoint's index_msg_timestamp: after a crash the broker deletes it."),
    AuditRule("checkpoint_ahead", "warning", "The checkpoint's index_msg_timestamp is later than "
              "every file's end."),
    AuditRule("abort_present", "warning", "A broker runs on the store, or did not stop cleanly."),
    AuditRule("lock_held", "info", "A process holds the store's lock."),
    # Against the CommitLog.
    AuditRule("log_unreadable", "error", "The CommitLog cannot be read."),
    AuditRule("log_damaged", "error", "The CommitLog has no sound record where one should be."),
    AuditRule("file_expired", "info", "All entries of a file lie before the CommitLog; the "
              "broker's next expiry deletes the file, unless it is the last."),
    AuditRule("entry_expired", "info", "Entries lie before the CommitLog's first message."),
    AuditRule("entry_dangling", "error", "No message starts at an entry's offset."),
    AuditRule("entry_beyond_log", "error", "An entry's offset lies behind the CommitLog's end."),
    AuditRule("entry_in_gap", "warning", "An entry's offset lies in a gap between log files."),
    AuditRule("entry_hash", "error", "The entry's key hash matches no key of its message."),
    AuditRule("entry_duplicate", "warning", "A message's key is indexed more often than it has "
              "it, as after a recovery or a replay."),
    AuditRule("key_missing", "error", "A key of a message has no entry."),
    AuditRule("coverage_gap", "error", "Messages with keys have no entries at all."),
    AuditRule("index_begins_late", "info", "The CommitLog begins before the first file."),
    AuditRule("index_behind", "warning", "Messages behind the last entry are not indexed yet."),
    AuditRule("stop_barrier", "error", "The last file ends behind the CommitLog: the broker skips "
              "every message until the log has passed that offset."),
)  # fmt: skip

_SEVERITIES = {rule.name: rule.severity for rule in AUDIT_RULES}


class Findings:
    """Collects findings: a limited number per rule and file, and a count of the rest."""

    def __init__(self, limit: int) -> None:
        """Start without findings.

        Args:
            limit: The most findings of one rule in one file to keep.
        """
        self._limit = limit
        self._rows: list[tuple[str, str, int | None, str, str]] = []
        self._counts: dict[tuple[str, str], int] = {}

    def room(self, file: str, rule: str) -> int:
        """Return how many more findings of a rule will be kept for a file."""
        return max(self._limit - self._counts.get((file, rule), 0), 0)

    def add(self, file: str, rule: str, byte: int | None, expected: object, got: object) -> None:
        """Add one finding.

        Args:
            file: The file.
            rule: A name of ``AUDIT_RULES``.
            byte: The offset in the file, bytes; None where no byte is at fault.
            expected: The content of a sound file there.
            got: The content of this one.
        """
        assert rule in _SEVERITIES, rule
        count = self._counts.get((file, rule), 0)
        self._counts[file, rule] = count + 1
        if count < self._limit:
            self._rows.append((file, rule, byte, str(expected), str(got)))

    def add_uncounted(self, file: str, rule: str, more: int) -> None:
        """Count findings beyond the limit, without adding them."""
        if more > 0:
            key = (file, rule)
            self._counts[key] = self._counts.get(key, 0) + more

    def each(
        self, file: str, rule: str, places: Iterable[tuple[int | None, object, object]], total: int
    ) -> None:
        """Add many findings of one rule, generating only those within the limit.

        Args:
            file: The file.
            rule: A name of ``AUDIT_RULES``.
            places: The byte, expected and got of each, generated lazily.
            total: How many there are.
        """
        room = min(self.room(file, rule), total)
        for (byte, expected, got), _ in zip(places, range(room), strict=False):
            self.add(file, rule, byte, expected, got)
        self.add_uncounted(file, rule, total - room)

    def batch(self) -> pa.RecordBatch:
        """Return all findings; those beyond the limit as one last row per rule."""
        rows = [*self._rows, *self._cut()]
        files, rules, bytes_, expected, got = (
            map(list, zip(*rows, strict=True)) if rows else ([], [], [], [], [])
        )
        severities = [_SEVERITIES[rule] for rule in rules]
        arrays = [
            pa.array(values, field.type)
            for values, field in zip(
                (files, rules, severities, bytes_, expected, got), FINDING_SCHEMA, strict=True
            )
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=FINDING_SCHEMA)

    def _cut(self) -> Iterator[tuple[str, str, int | None, str, str]]:
        for (file, rule), count in self._counts.items():
            if count > self._limit:
                yield file, rule, None, f"at most {self._limit} shown", f"{count} findings"
