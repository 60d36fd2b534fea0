"""What an audit found: each fault once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from rmqindex.audit.remedies import FINDING_SCHEMA, with_one_rebuild, with_replacing
from rmqindex.audit.rules import AUDIT_RULES
from rmqindex.errors import CorruptCommitLogError
from rmqindex.layout.dledger import COMMITTED_INDEX_KEY
from rmqindex.storage.location import path_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqindex.errors import RmqIndexError

#: What the last row of a rule expects where some of its findings are left out.
CUT = "at most "
_RULES = {rule.name: rule for rule in AUDIT_RULES}


def place_of(file: str, rule: str, byte: int | None, expected: str) -> tuple[object, ...]:
    """Return what two findings of one fault share."""
    return file, rule, expected if byte is None else byte


class Findings:
    """Collects findings: a limited number per rule and file, and a count of the rest.

    Each place violates a rule once, however many checks find it.
    """

    def __init__(self, limit: int) -> None:
        """Start without findings; keep at most so many of one rule in one file."""
        self._limit = limit
        self._rows: list[tuple[str, str, int | None, str, str]] = []
        self._counts: dict[tuple[str, str], int] = {}
        self._places: set[tuple[object, ...]] = set()
        self._options: dict[str, str] = {}
        self._needs_replace = False

    def __bool__(self) -> bool:
        """Whether there is a finding."""
        return bool(self._counts)

    def room(self, file: str, rule: str) -> int:
        """Return how many more findings of a rule will be kept for a file."""
        return max(self._limit - self._counts.get((file, rule), 0), 0)

    def add(self, file: str, rule: str, byte: int | None, expected: object, got: object) -> None:
        """Add one finding."""
        assert rule in _RULES, rule
        place = place_of(file, rule, byte, str(expected))
        if place in self._places:
            return
        count = self._counts.get((file, rule), 0)
        self._counts[file, rule] = count + 1
        if count < self._limit:
            self._places.add(place)
            self._rows.append((file, rule, byte, str(expected), str(got)))

    def add_error(self, file: str, rule: str, expected: object, error: RmqIndexError) -> None:
        """Add what kept a part of the audit from its end."""
        if isinstance(error, CorruptCommitLogError) and error.field == COMMITTED_INDEX_KEY:
            self.add(error.path, "dledger_checkpoint", error.byte, error.expected, error.got)
        else:
            self.add(file, rule, None, expected, error)

    def set_option(self, option: str, value: object) -> None:
        """Give an option of a remedy's rebuild of queues its value in this store."""
        self._options[option] = str(value)

    def need_replace(self) -> None:
        """Advise to replace the index where a rebuild that continues it is refused."""
        self._needs_replace = True

    def each(
        self, file: str, rule: str, places: Iterable[tuple[int | None, object, object]], total: int
    ) -> None:
        """Add many findings of one rule, generating only those within the limit."""
        room = min(self.room(file, rule), total)
        for (byte, expected, got), _ in zip(places, range(room), strict=False):
            self.add(file, rule, byte, expected, got)
        if total > room:
            self._counts[file, rule] = self._counts.get((file, rule), 0) + total - room

    def batch(self) -> pa.RecordBatch:
        """Return all findings; those beyond the limit as one last row per rule."""
        rules = dict.fromkeys(rule for _, rule in self._counts)
        remedies = with_one_rebuild([_RULES[rule] for rule in rules], self._options)
        if self._needs_replace:
            remedies = [with_replacing(remedy) for remedy in remedies]
        by_rule = dict(zip(rules, remedies, strict=True))
        return pa.RecordBatch.from_pylist(
            [
                {
                    "file": path_text(file),
                    "rule": rule,
                    "byte": byte,
                    "expected": path_text(expected),
                    "got": path_text(got),
                    "severity": _RULES[rule].severity,
                    "remedy": by_rule[rule],
                }
                for file, rule, byte, expected, got in [*self._rows, *self._cut()]
            ],
            FINDING_SCHEMA,
        )

    def _cut(self) -> Iterator[tuple[str, str, int | None, str, str]]:
        for (file, rule), count in self._counts.items():
            if count > self._limit:
                yield file, rule, None, f"{CUT}{self._limit} shown", f"{count} findings"
