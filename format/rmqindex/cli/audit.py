"""``rmqindex verify`` and ``plot``: the state of an index, as findings and as a picture."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer
from rich.markup import escape

from rmqindex.audit.plan import plan_audit, run_audit
from rmqindex.audit.rules import AUDIT_RULES, FINDING_SCHEMA
from rmqindex.cli.options import (
    NOT_FOUND,
    CommitLogOption,
    EntriesOption,
    JsonOption,
    Mode,
    ModeOption,
    PathArgument,
    SlotsOption,
    ZoneOption,
    app,
    commit_log_argument,
    layout_of,
    print_json,
    progress_bar,
    zone_named,
)
from rmqindex.commitlog.sibling import commit_log_of
from rmqindex.output.plot import IMAGE_TYPES, plot_counts
from rmqindex.output.plot_data import count_index
from rmqindex.output.tables import counted, make_console, plain_table, print_table, print_text
from rmqindex.output.visible import visible
from rmqindex.store.planned_index import plan_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

__all__: list[str] = []

_COLOURS = {"error": "red", "warning": "yellow", "info": "dim"}
_ORDER = tuple(_COLOURS)
_MEANINGS = {rule.name: rule.meaning for rule in AUDIT_RULES}
# Text of a finding that a table shows.
_LONGEST_TEXT = 48


@app.command(
    short_help="Check an index, byte by byte and against its CommitLog.",
    epilog="Examples:\n\n\b\n"
    "  rmqindex verify /data/rocketmq/store\n"
    "  rmqindex verify store/index/20231114221320000 --commit-log none\n"
    "  rmqindex verify store --json | jq '.findings[] | select(.severity == \"error\")'",
)
def verify(
    path: PathArgument,
    *,
    commit_log: CommitLogOption = "auto",
    max_findings: Annotated[
        int,
        typer.Option("--max-findings", metavar="N", min=1, help="So many of one rule in one file."),
    ] = 100,
    as_json: JsonOption = False,
    max_hash_slot_num: SlotsOption = None,
    max_index_num: EntriesOption = None,
) -> None:
    """Check every byte of an index that a reader uses.

    That is header, slots, chains, hashes, times, names, order, the checkpoint, and whether index
    and CommitLog say the same. The exit code is 1 if an error was found; warnings and remarks leave
    it 0.
    """
    layout = layout_of(max_hash_slot_num, max_index_num)
    log = commit_log_of(path, commit_log_argument(commit_log))
    batches: list[pa.RecordBatch] = []
    try:
        units = plan_audit(path, log, layout)
        with progress_bar("verify") as report:
            for number, unit in enumerate(units):
                report(number, len(units))
                batches.append(run_audit(unit, max_findings, log))
    finally:
        if log is not None:
            log.close()
    findings = pa.Table.from_batches(batches, FINDING_SCHEMA).to_pylist()
    counts = Counter(finding["severity"] for finding in findings)
    if as_json:
        totals = {severity: counts[severity] for severity in _ORDER}
        print_json({"path": path, "commit_log": log is not None, "counts": totals,
                    "findings": findings})  # fmt: skip
    else:
        _print_findings(make_console(), findings, counts, has_log=log is not None)
    if counts["error"]:
        raise typer.Exit(NOT_FOUND)


def _print_findings(
    console: Console, findings: Sequence[dict[str, Any]], counts: Counter[str], *, has_log: bool
) -> None:
    """Print one table a file, the errors first, and what the rules mean."""
    files = list(dict.fromkeys(finding["file"] for finding in findings))
    for file in files:
        print_text(console, file)
        table = plain_table()
        for head in ("", "Rule", "Byte", "Expected", "Got"):
            table.add_column(head, no_wrap=True, justify="right" if head == "Byte" else "left")
        mine = [finding for finding in findings if finding["file"] == file]
        for finding in sorted(mine, key=lambda each: _ORDER.index(each["severity"])):
            byte = finding["byte"]
            table.add_row(
                finding["severity"],
                finding["rule"],
                "" if byte is None else str(byte),
                _cut(finding["expected"]),
                _cut(finding["got"]),
                style=_COLOURS[finding["severity"]],
            )
        print_table(console, table)
        print_text(console, "")
    for rule in dict.fromkeys(finding["rule"] for finding in findings):
        print_text(console, f"{rule}: {_MEANINGS[rule]}")
    summary = ", ".join(
        counted(counts[severity], noun)
        for severity, noun in zip(_ORDER, ("error", "warning", "remark"), strict=True)
    )
    beside = "" if has_log else "; not compared with a CommitLog"
    print_text(console, ("\n" if findings else "") + summary + beside)


def _cut(text: str) -> str:
    line = visible(" ".join(text.split()))
    return escape(line if len(line) <= _LONGEST_TEXT else line[: _LONGEST_TEXT - 1] + "\u2026")


@app.command(
    short_help="Draw slots, chains and times.",
    epilog="Examples:\n\n\b\n"
    "  rmqindex plot store --out index.png\n"
    "  rmqindex plot store/index/20231114221320000 --out file.svg --time-zone Asia/Shanghai",
)
def plot(
    path: PathArgument,
    *,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE", help="The picture: .png, .svg or .pdf by its name."),
    ] = Path("rmqindex.png"),
    zone_name: ZoneOption = "UTC",
    max_hash_slot_num: SlotsOption = None,
    max_index_num: EntriesOption = None,
    mode: ModeOption = Mode.FAILFAST,
) -> None:
    """Draw how many entries the slots have, how full the files are, and when entries were stored.

    It needs matplotlib: pip install 'rmqindex[plot]'.
    """
    layout = layout_of(max_hash_slot_num, max_index_num)
    zone = zone_named(zone_name)
    if out.suffix.lower() not in IMAGE_TYPES:
        raise typer.BadParameter(f"expected {', '.join(IMAGE_TYPES)}", param_hint="--out")
    files = plan_index(path, layout, mode.value)
    with progress_bar("read") as report:
        counts = count_index(files, report)
    title = f"{path}: {counted(sum(counts.entry_counts), 'entry', 'entries')} in " + counted(
        len(files), "file"
    )
    plot_counts(counts, out, title, zone, zone_name)
    typer.echo(f"Wrote {out}")
