"""The findings of an audit as an answer, whole at any width."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rmqindex.answers.answer import Answer
from rmqindex.answers.terminal import Table, fits, print_table, print_text, printable
from rmqindex.answers.text import counted, visible, wrapped
from rmqindex.audit.rules import AUDIT_RULES, FINDING_SCHEMA, SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.answers.answer import Row, Zone
    from rmqindex.answers.terminal import Console

__all__ = ["FINDING_COLUMNS", "findings_answer"]

FINDING_COLUMNS = (*FINDING_SCHEMA.names,)

_COLOURS = {"error": "red", "warning": "yellow", "info": "dim"}
_NOUNS = {"error": "error", "warning": "warning", "info": "remark"}
_INDENT = 12


def findings_answer(
    path: str,
    findings: Sequence[Row],
    *,
    has_log: bool,
    since: int | None,
    zone: Zone,
    exit_code: int,
) -> Answer:
    """Return the findings of an audit, of what was stored since some epoch milliseconds."""
    counts = Counter(finding["severity"] for finding in findings)
    summary = ", ".join(counted(counts[severity], noun) for severity, noun in _NOUNS.items())
    if since is not None:
        summary += f"; of what was stored since {zone.format(since)} {zone.name}"
    if not has_log:
        summary += "; not compared with a CommitLog"
    return Answer(
        text=lambda console: _print_findings(console, findings, summary),
        columns=FINDING_COLUMNS,
        rows=findings,
        document=lambda: {
            "path": path,
            "commit_log": has_log,
            "since": since,
            "counts": {severity: counts[severity] for severity in _NOUNS},
            "findings": findings,
        },
        exit_code=exit_code,
    )


def _print_findings(console: Console, findings: Sequence[Row], summary: str) -> None:
    """Print the findings by file, the errors first, what the rules mean, and the counts."""
    for file in dict.fromkeys(finding["file"] for finding in findings):
        print_text(console, file)
        of_file = [finding for finding in findings if finding["file"] == file]
        of_file.sort(key=lambda finding: SEVERITIES.index(finding["severity"]))
        table = _table(of_file)
        if fits(table, console):
            print_table(console, table)
        else:
            for finding in of_file:
                _print_paragraph(console, finding)
        print_text(console, "")
    meanings = {rule.name: rule.meaning for rule in AUDIT_RULES}
    # The first finding of each rule: advice that names a file names the first one.
    firsts = reversed({finding["rule"]: finding for finding in reversed(findings)}.values())
    for finding in sorted(firsts, key=lambda first: SEVERITIES.index(first["severity"])):
        name = finding["rule"]
        _print_wrapped(console, f"{name}: {meanings[name]}", "")
        _print_wrapped(console, f"  To do: {finding['remedy']}", "    ")
    _print_wrapped(console, summary, "", "\n" if findings else "")


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
        text = f"  {label:<{_INDENT - 2}}{_line(finding[label])}"
        _print_wrapped(console, text, " " * _INDENT)


def _print_wrapped(console: Console, text: str, indent: str, before: str = "") -> None:
    """Print a text, broken between words where a terminal is narrower; a long name stays whole."""
    lines = wrapped(visible(text), max(console.width, 2 * _INDENT), indent)
    print_text(console, before + "\n".join(lines))


def _line(text: str) -> str:
    return printable(" ".join(text.split()))
