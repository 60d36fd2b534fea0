"""What an audit found: each fault once, with remedies that agree."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from rmqindex.audit.queue_rules import BEYOND_LOG, QUEUES, TOPICS
from rmqindex.audit.rules import AUDIT_RULES, FINDING_SCHEMA, RESTORE_LOG, SURPLUS, WHOLE_LOG
from rmqindex.errors import CorruptCommitLogError
from rmqindex.layout.dledger import COMMITTED_INDEX_KEY
from rmqindex.storage.location import path_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rmqindex.errors import RmqIndexError

__all__ = ["Findings", "place_of", "with_agreeing_remedies"]

_RULES = {rule.name: rule for rule in AUDIT_RULES}
_REBUILD = "`rmqindex rebuild-queues STORE --replace"
_COMMAND = re.compile(f"{_REBUILD}(?P<options>[^`]*)`")
_REPLACE = "`rmqindex rebuild STORE --replace"
# A rebuild that is refused, or not enough, where another finding needs one that replaces.
_CONTINUE = re.compile("`rmqindex rebuild STORE(?: --resume)?`")
_CONDITION = re.compile(f"(?P<first>[Ii]){WHOLE_LOG[1:]}(?P<then>.)")
_OPTION = re.compile(r" --[a-z-]+(?: [^- ]\S*)?")


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
        remedies = _with_one_rebuild([_RULES[rule].remedy for rule in rules], self._options)
        if self._needs_replace:
            remedies = [_CONTINUE.sub(f"{_REPLACE}`", remedy) for remedy in remedies]
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
                yield file, rule, None, f"at most {self._limit} shown", f"{count} findings"


def _with_one_rebuild(remedies: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return the remedies of one store's queues with one command that none of them has refused."""
    options: dict[str, None] = {}
    for remedy in remedies:
        for command in _COMMAND.finditer(remedy):
            for option in _OPTION.findall(command["options"]):
                name = option.split()[0]
                options[f" {name} {values[name]}" if name in values else option] = None
    rebuild = f"{_REBUILD}{''.join(options)}`"
    first = "restore `config/topics.json`, " if TOPICS in remedies else ""
    united = []
    for remedy in remedies:
        text = remedy.replace(QUEUES, BEYOND_LOG) if BEYOND_LOG in remedies else remedy
        text = text.replace("stop the broker", f"{first}stop the broker")
        united.append(_COMMAND.sub(rebuild, text))
    return united


def with_agreeing_remedies(findings: pa.Table, *, has_log: bool) -> pa.Table:
    """Return the findings of all parts of an audit with remedies that none of them has refused.

    Args:
        findings: What was found, with the columns of ``FINDING_SCHEMA``.
        has_log: Whether a CommitLog was compared, and so is whole if no finding says otherwise.
    """
    remedies = findings["remedy"].to_pylist()
    severities = findings["severity"].to_pylist()
    errors = {each for each, of in zip(remedies, severities, strict=True) if of == "error"}
    # What has to be replaced cannot be continued, and one rebuild does for all.
    replaces = any(f"{_REPLACE}{after}" in each for each in errors for after in ("`", " --max"))
    replaces |= SURPLUS in findings["rule"].to_pylist()  # a file that no rebuild writes on
    needs_log = RESTORE_LOG in errors

    def agreed(remedy: str) -> str:
        if replaces:
            remedy = _CONTINUE.sub(f"{_REPLACE}`", remedy)
        if needs_log:
            remedy = remedy.replace("; else restore it first", "")
        elif has_log and remedy.startswith(WHOLE_LOG):
            remedy, _, without_log = remedy.partition("; without ")
            remedy += "." if without_log else ""
        return remedy if not needs_log and not has_log else _CONDITION.sub(settled, remedy)

    def settled(condition: re.Match[str]) -> str:
        """Return what stands in place of the condition that the log is whole, which is known."""
        is_start = condition["first"].isupper()
        if needs_log:
            first = "Restore" if is_start else "restore"
            return f"{first} the CommitLog first; then {condition['then']}"
        return condition["then"].upper() if is_start else condition["then"]

    column = pa.array(map(agreed, remedies), pa.string())
    return findings.set_column(
        FINDING_SCHEMA.get_field_index("remedy"), FINDING_SCHEMA.field("remedy"), column
    )
