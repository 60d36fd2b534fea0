"""The findings of an audit as an answer, whole at any width."""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

from rmqindex.answers.answer import NOT_FOUND, Answer
from rmqindex.answers.terminal import Table, fits, print_table, print_text, printable
from rmqindex.answers.text import visible, wrapped
from rmqindex.audit.findings import CUT
from rmqindex.audit.remedies import (
    FINDING_SCHEMA,
    LOG_FILE_MISNAMED,
    QUEUE_FILE_NAME,
    SEVERITIES,
)
from rmqindex.audit.rules import AUDIT_RULES
from rmqindex.errors import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rmqindex.answers.answer import Row, Zone
    from rmqindex.answers.terminal import Console

FINDING_COLUMNS = (*FINDING_SCHEMA.names,)

_COLOURS = {"error": "red", "warning": "yellow", "info": "dim"}
_NOUNS = {"error": "error", "warning": "warning", "info": "remark"}
_INDENT = 12
# The findings of one rule in a file that a person sees; one damaged page has dozens alike.
_SHOWN = 3
_QUOTED = re.compile(r"`[^`]+`")


def findings_answer(
    path: str,
    findings: Sequence[Row],
    *,
    has_log: bool,
    since: int | None,
    zone: Zone,
    failing: Collection[str],
    index_files: Collection[str],
    again: str,
) -> Answer:
    """Return the findings of an audit, of what was stored since some epoch milliseconds.

    Those of a severity in ``failing`` make it fail; it ends with the one thing to do against them,
    and the line ``again`` that tells what is left then.
    """
    failed = [finding for finding in findings if finding["severity"] in failing]
    to_do = _to_do(failed, index_files, again)
    counts = Counter(finding["severity"] for finding in findings)
    summary = ", ".join(counted(counts[severity], noun) for severity, noun in _NOUNS.items())
    if since is not None:
        summary += f"; of what was stored since {zone.format(since)} {zone.name}"
    if not has_log:
        summary += "; not compared with a CommitLog"
    return Answer(
        text=lambda console: _print_findings(console, findings, summary, to_do),
        columns=FINDING_COLUMNS,
        rows=findings,
        document=lambda: {
            "path": path,
            "commit_log": has_log,
            "since": since,
            "counts": {severity: counts[severity] for severity in _NOUNS},
            "to_do": to_do,
            "findings": findings,
        },
        exit_code=NOT_FOUND if failed else 0,
    )


#: The rules that an index fails whose message is damaged.
_OF_A_MESSAGE = {"entry_hash", "key_missing"}


def _to_do(failed: Sequence[Row], index_files: Collection[str], again: str) -> str | None:
    """Say how much is damaged, and the first thing to do; None if nothing failed."""
    if not failed:
        return None
    worst = min((finding["severity"] for finding in failed), key=SEVERITIES.index)
    failed = [finding for finding in failed if finding["severity"] == worst]
    files = {finding["file"] for finding in failed}
    subject = counted(len(failed), _NOUNS[worst])
    if files <= set(index_files) and worst == "error":
        verb = "has" if len(files) == 1 else "have"
        subject = f"{len(files)} of {counted(len(index_files), 'IndexFile')} {verb} errors"
    failed.sort(key=_turn)
    remedies = list(dict.fromkeys(finding["remedy"] for finding in failed))
    command = None if _is_unreadable(failed[0]) else _first_command(remedies[0])
    alike = [each for each in remedies if command and _first_command(each) == command]
    # Where nothing else tells of a damaged index, the message may be: the longest one says so.
    choose = max if {finding["rule"] for finding in failed} <= _OF_A_MESSAGE else min
    text = f"{subject}. To do: {choose(alike, key=len, default=remedies[0])}"
    if len(alike or remedies[:1]) < len(remedies):
        text += f" Then `{again}` tells what is left."
    return text


def _turn(finding: Row) -> int:
    """Return when a finding has its turn: others may lack only what it has, or wait for the log."""
    if _is_unreadable(finding):  # what cannot be read may be sound
        return 0
    if finding["rule"] == LOG_FILE_MISNAMED:  # before that, nothing tells what the log lacks
        return 1
    if finding["rule"].startswith("log_") and _first_command(finding["remedy"]):
        return 2
    return 3 if finding["rule"] == QUEUE_FILE_NAME else 4  # new queues may need its place


def _is_unreadable(finding: Row) -> bool:
    return bool(finding["rule"].endswith("unreadable"))


def _first_command(remedy: str) -> str:
    found = _QUOTED.search(remedy)
    return "" if found is None else found[0]


def _print_findings(
    console: Console, findings: Sequence[Row], summary: str, to_do: str | None
) -> None:
    """Print the findings by file, the errors first, what the rules mean, and the counts."""
    for file in dict.fromkeys(finding["file"] for finding in findings):
        print_text(console, file)
        of_file = [finding for finding in findings if finding["file"] == file]
        of_file.sort(key=lambda finding: SEVERITIES.index(finding["severity"]))
        shown = [row for _, rows in groupby(of_file, _rule_of) for row in _few(list(rows))]
        table = _table(shown)
        if fits(table, console):
            print_table(console, table)
        else:
            for finding in shown:
                _print_paragraph(console, finding)
        print_text(console, "")
    meanings = {rule.name: rule.meaning for rule in AUDIT_RULES}
    # The first finding of each rule: advice that names a file names the first one.
    firsts = [*reversed({finding["rule"]: finding for finding in reversed(findings)}.values())]
    firsts.sort(key=lambda first: SEVERITIES.index(first["severity"]))
    for remedy in dict.fromkeys(finding["remedy"] for finding in firsts):
        for name in (finding["rule"] for finding in firsts if finding["remedy"] == remedy):
            _print_wrapped(console, f"{name}: {meanings[name]}", "")
        _print_wrapped(console, f"  To do: {remedy}", "    ")
    _print_wrapped(console, summary, "", "\n" if findings else "")
    if to_do is not None:
        _print_wrapped(console, to_do, "")


def _rule_of(finding: Row) -> str:
    rule: str = finding["rule"]
    return rule


def _few(findings: list[Row]) -> list[Row]:
    """Return findings of one rule; of many only the first ones, and how many more there are."""
    left = findings[_SHOWN:]
    if len(left) < 2:  # a line for one is no shorter
        return findings
    if left[-1]["expected"].startswith(CUT):
        return [*findings[:_SHOWN], left[-1]]
    more = f"{len(left)} more"
    if left[-1]["byte"] is not None:
        more += f", the last at byte {left[-1]['byte']}"
    return [*findings[:_SHOWN], {**left[0], "byte": None, "expected": more, "got": ""}]


def _table(findings: Sequence[Row]) -> Table:
    table = Table()
    for head in ("", "Rule", "Byte", "Expected", "Got"):
        table.add_column(head, right=head == "Byte")
    for finding in findings:
        table.add_row(
            finding["severity"],
            finding["rule"],
            "" if finding["byte"] is None else str(finding["byte"]),
            _line(finding["expected"]),
            _line(finding["got"]),
            style=_COLOURS[finding["severity"]],
        )
    return table


def _print_paragraph(console: Console, finding: Row) -> None:
    """Print one finding on a line a field, for a terminal too narrow for the table."""
    byte = "" if finding["byte"] is None else f", byte {finding['byte']}"
    colour = _COLOURS[finding["severity"]]
    severity = console.styled(finding["severity"], colour)
    console.write(f"{severity} {finding['rule']}{byte}")
    for label in ("expected", "got"):
        if not finding[label]:
            continue
        text = f"  {label:<{_INDENT - 2}}{_line(finding[label])}"
        _print_wrapped(console, text, " " * _INDENT)


def _print_wrapped(console: Console, text: str, indent: str, before: str = "") -> None:
    """Print a text, broken between words where a terminal is narrower; a long name stays whole."""
    lines = wrapped(visible(text), max(console.width, 2 * _INDENT), indent)
    print_text(console, before + "\n".join(lines))


def _line(text: str) -> str:
    return printable(" ".join(text.split()))
