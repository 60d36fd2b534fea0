"""``rmqindex verify`` and ``plot``: the state of an index, as findings and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from rmqindex.audit.plan import plan_audit, run_audit
from rmqindex.audit.rules import FINDING_SCHEMA
from rmqindex.cli.options import (
    NOT_FOUND,
    PATH,
    choose_output,
    command,
    commit_log_option,
    entries_option,
    json_option,
    layout_of,
    mode_option,
    path_argument,
    slots_option,
    zone_option,
)
from rmqindex.commitlog.sibling import commit_log_of
from rmqindex.output.plot import IMAGE_TYPES, plot_counts
from rmqindex.output.plot_data import count_index
from rmqindex.output.terminal import progress_bar
from rmqindex.output.text import counted, write_line
from rmqindex.store.planned_index import plan_index

if TYPE_CHECKING:
    from rmqindex.indexfile.entries import Mode
    from rmqindex.output.interface import Zone

__all__ = ["plot", "verify"]


@command(
    "verify",
    "rmqindex verify /data/rocketmq/store",
    "rmqindex verify store/index/20231114221320000 --commit-log none",
    "rmqindex verify store --json \\\n    | jq '.findings[] | select(.severity == \"error\")'",
)
@path_argument
@commit_log_option
@click.option(
    "--max-findings",
    metavar="N",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Report at most this many findings per rule and file.",
)
@json_option
@slots_option
@entries_option
def verify(
    *,
    path: str,
    commit_log: str | None,
    max_findings: int,
    as_json: bool,
    max_hash_slot_num: int | None,
    max_index_num: int | None,
) -> None:
    """Check every byte of an index that a reader uses.

    These are header, slots, chains, hashes, times, file names, order and checkpoint, and whether
    the index agrees with the CommitLog. The exit code is 1 if an error is found; warnings and
    remarks do not change it.
    """
    layout = layout_of(max_hash_slot_num, max_index_num)
    output = choose_output(as_json)
    log = commit_log_of(path, commit_log)
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
    output.audit(path, findings, has_log=log is not None)
    if any(finding["severity"] == "error" for finding in findings):
        raise click.exceptions.Exit(NOT_FOUND)


@command(
    "plot",
    "rmqindex plot store --out index.png",
    "rmqindex plot store/index/20231114221320000 --out file.svg \\\n    --time-zone Asia/Shanghai",
)
@path_argument
@click.option(
    "--out",
    metavar="FILE",
    type=PATH,
    default=Path("rmqindex.png"),
    show_default=True,
    help="The image to write; its name ends in .png, .svg or .pdf.",
)
@zone_option
@slots_option
@entries_option
@mode_option
def plot(
    *,
    path: str,
    out: Path,
    zone: Zone,
    max_hash_slot_num: int | None,
    max_index_num: int | None,
    mode: Mode,
) -> None:
    """Plot how many entries the slots have, how full the files are, and when entries were stored.

    It needs matplotlib: pip install 'rmqindex[plot]'.
    """
    layout = layout_of(max_hash_slot_num, max_index_num)
    if out.suffix.lower() not in IMAGE_TYPES:
        raise click.BadParameter(f"expected {', '.join(IMAGE_TYPES)}", param_hint="--out")
    files = plan_index(path, layout, mode)
    with progress_bar("read") as report:
        counts = count_index(files, report)
    title = f"{path}: {counted(sum(counts.entry_counts), 'entry', 'entries')} in " + counted(
        len(files), "file"
    )
    plot_counts(counts, out, title, zone.info, zone.name)
    write_line(f"Wrote {out}")
