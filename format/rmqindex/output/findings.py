"""Prints the findings of an audit, whole at any width."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rmqindex.audit.rules import AUDIT_RULES, SEVERITIES
from rmqindex.display.folding import wrapped
from rmqindex.display.terminal import Table, fits, print_table, print_text
from rmqindex.display.text import counted, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.display.terminal import Console

__all__ = ["print_findings"]

_COLOURS = {"error": "red", "warning": "yellow", "info": "dim"}
_NOUNS = {"error": "error", "warning": "warning", "info": "remark"}
_INDENT = 12


def print_findings(
    console: Console,
    findings: Sequence[dict[str, Any]],
    *,
    has_log: bool,
    since: str | None = None,
) -> None:
    """Print the findings by file, the errors first, what the rules mean, and the counts.

    Args:
        console: Where to.
        findings: Rows with the columns of ``FINDING_SCHEMA``.
        has_log: Whether the index was compared with a CommitLog.
        since: The time from which on it was checked, if not from the beginning.
    """
    for file in dict.fromkeys(finding["file"] for finding in findings):
        print_text(console, file)
        mine = [finding for finding in findings if finding["file"] == file]
        mine.sort(key=lambda finding: SEVERITIES.index(finding["severity"]))
        table = _table(mine)
        if fits(table, console):
            print_table(console, table)
        else:
            for finding in mine:
                _print_paragraph(console, finding)
        print_text(console, "")
    meanings = {rule.name: rule.meaning for rule in AUDIT_RULES}
    # Of each rule its first finding: the advice names one file where it names any.
    firsts = reversed({each["rule"]: each for each in reversed(findings)}.values())
    for finding in sorted(firsts, key=lambda each: SEVERITIES.index(each["severity"])):
        name = finding["rule"]
        _print_wrapped(console, f"{name}: {meanings[name]}", "")
        _print_wrapped(console, f"  To do: {finding['remedy']}", "    ")
    counts = Counter(finding["severity"] for finding in findings)
    summary = ", ".join(counted(counts[severity], _NOUNS[severity]) for severity in SEVERITIES)
    if since is not None:
        summary += f"; of what was stored since {since}"
    if not has_log:
        summary += "; not compared with a CommitLog"
    _print_wrapped(console, summary, "", "\n" if findings else "")


def _table(findings: Sequence[dict[str, Any]]) -> Table:
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


def _print_paragraph(console: Console, finding: dict[str, Any]) -> None:
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
    return visible(" ".join(text.split()))
