"""``rmqindex verify`` and ``plot``: the state of an index, as findings and as a picture."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmqindex.audit.plan import whole_audit
from rmqindex.audit.rules import SEVERITIES
from rmqindex.cli.options import (
    COUNT,
    NOT_FOUND,
    PATH,
    choose_output,
    command,
    commit_log_option,
    entries_option,
    layout_of,
    mode_option,
    path_argument,
    paths_argument,
    rows_option,
    slots_option,
    time_of,
    zone_option,
)
from rmqindex.cli.remedies import Remedies, as_given
from rmqindex.commitlog.sibling import commit_log_of
from rmqindex.display.plot import IMAGE_TYPES, plot_counts
from rmqindex.display.plot_data import count_index
from rmqindex.display.terminal import progress_bar
from rmqindex.display.text import counted, write_line
from rmqindex.output.notes import complain_of_lacking
from rmqindex.store.snapshot import IndexSnapshot
from rmqindex.times import MILLISECOND, parse_duration

if TYPE_CHECKING:
    from rmqindex.audit.rules import Severity
    from rmqindex.indexfile.entries import Mode
    from rmqindex.output.interface import Zone

__all__ = ["plot", "verify"]


@command(
    "verify",
    "rmqindex verify /data/rocketmq/store",
    "rmqindex verify store/index/20231114221320000 --commit-log none",
    "rmqindex verify store --since 2h --fail-on warning",
    "rmqindex verify store --json \\\n    | jq '.findings[] | select(.severity == \"error\")'",
    several=True,
)
@paths_argument
@commit_log_option
@click.option(
    "--max-findings",
    metavar="N",
    type=COUNT,
    default=100,
    show_default=True,
    help="Report at most this many findings per rule and file.",
)
@click.option(
    "--fail-on",
    metavar="SEVERITY",
    type=click.Choice(SEVERITIES, case_sensitive=False),
    default="error",
    show_default=True,
    help="Exit with 1 at a finding of this severity or a worse one: error, warning or info.",
)
@click.option(
    "--since",
    metavar="TIME",
    help="Check only what was stored at this time or later, or in the last 30m, 2h or 1d.",
)
@click.option(
    "--bodies",
    is_flag=True,
    help="Also read the bodies of all messages and compare them with their CRCs.",
)
@rows_option
@zone_option
@slots_option
@entries_option
def verify(
    *,
    path: str,
    commit_log: str | None,
    max_findings: int,
    fail_on: Severity,
    since: str | None,
    bodies: bool,
    as_json: bool,
    zone: Zone,
    max_hash_slot_num: int | None,
    max_index_num: int | None,
) -> None:
    """Check every byte of an index that a reader uses.

    These are header, slots, chains, hashes, times, file names, order and checkpoint, and whether
    the index agrees with the CommitLog and reaches from its first message to its last one. Of a
    store whose broker runs, what was added since the start is not judged; of one whose broker was
    killed, the first finding is which files the broker would delete when it starts. The
    ConsumeQueues of a store are compared with the CommitLog, too. The exit code is 1 if an error is
    found, or what --fail-on names, and 2 if nothing can be checked.
    """
    layout = layout_of(max_hash_slot_num, max_index_num)
    output = choose_output(as_json, zone)
    start = _since(since, zone)
    log = commit_log_of(path, commit_log)
    if bodies and log is None:
        raise click.BadParameter("needs a CommitLog, found none", param_hint="--bodies")
    try:
        with progress_bar("verify") as report:
            table = whole_audit(
                path, log, layout, max_findings, start, bodies=bodies, progress=report
            )
    finally:
        if log is not None:
            log.close()
    findings = table.to_pylist()
    errors = [each["remedy"] for each in findings if each["severity"] == "error"]
    remedies = Remedies(path, log, commit_log, errors, layout)
    for finding in findings:
        finding["file"] = as_given(finding["file"], path)
        finding["remedy"] = remedies.text(finding["remedy"], finding["file"])
    output.audit(path, findings, has_log=log is not None, since=start)
    failing = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    if any(finding["severity"] in failing for finding in findings):
        raise click.exceptions.Exit(NOT_FOUND)


def _since(text: str | None, zone: Zone) -> int | None:
    """Return epoch milliseconds of a time, or of how long ago it is."""
    if text is None:
        return None
    ago = parse_duration(text)
    if ago is None:
        return time_of(text, zone, "--since", up=True)
    return int((datetime.now(UTC) - ago).timestamp() * MILLISECOND)


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
    files = IndexSnapshot.of(path, layout, mode)
    complain_of_lacking(files)
    with progress_bar("read") as report:
        counts = count_index(files, report)
    title = f"{path}: {counted(sum(counts.entry_counts), 'entry', 'entries')} in " + counted(
        len(files), "file"
    )
    plot_counts(counts, out, title, zone.info, zone.name)
    write_line(f"Wrote {out}")
