"""``rmqindex verify`` and ``plot``: the state of an index, as findings and as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmqindex.answers.findings import findings_answer
from rmqindex.answers.plot import IMAGE_TYPES, count_index, plot_counts
from rmqindex.answers.terminal import progress_bar
from rmqindex.answers.text import complain_of_lacking
from rmqindex.answers.writes import written_answer
from rmqindex.audit.plan import whole_audit
from rmqindex.audit.remedies import SEVERITIES, typed_findings
from rmqindex.cli.invocation import command, typed_options
from rmqindex.cli.options import (
    COUNT,
    PATH,
    commit_log_option,
    layout_options,
    mode_option,
    option,
    path_argument,
    paths_argument,
    rows_options,
    since_option,
    zone_option,
)
from rmqindex.commitlog.snapshot import commit_log_of
from rmqindex.errors import RmqIndexError, command_line, counted
from rmqindex.explanation.commands import Commands
from rmqindex.store.snapshot import IndexSnapshot
from rmqindex.store.store import Store, index_entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqindex.answers.answer import Answer, Form, Zone
    from rmqindex.audit.remedies import Severity
    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.geometry import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Check every byte of an index that a reader uses.

    These are header, slots, chains, hashes, times, file names, order and checkpoint, and whether
    the index agrees with the CommitLog and reaches from its first message to its last one. Of a
    store whose broker runs, what was added since the start is not judged; of one whose broker was
    killed, the first finding is which files the broker would delete when it starts. The
    ConsumeQueues of a store are compared with the CommitLog, too. Of many findings alike, three of
    a file are shown; --json and --csv have each. The last line is the one thing to do. The exit
    code is 1 if an error is found, or what --fail-on names, and 2 if nothing can be checked.
    """

    path: str = paths_argument()
    commit_log: str | None = commit_log_option()
    limit: int = option(
        "--limit",
        metavar="N",
        type=COUNT,
        default=100,
        show_default=True,
        help="Report at most this many findings per rule and file.",
    )
    fail_on: Severity = option(
        "--fail-on",
        metavar="SEVERITY",
        type=click.Choice(SEVERITIES, case_sensitive=False),
        default="error",
        show_default=True,
        help="Exit with 1 at a finding of this severity or a worse one: error, warning or info.",
    )
    since: int | None = since_option()
    bodies: bool = option(
        "--bodies",
        is_flag=True,
        help="Also read the bodies of all messages and compare them with their CRCs.",
    )
    form: Form = rows_options()
    zone: Zone = zone_option()
    layout: Layout | None = layout_options()

    def answers(self) -> Iterator[Answer]:
        """Audit the index."""
        start = self.since
        log = commit_log_of(self.path, self.commit_log)
        if self.bodies and log is None:
            raise click.BadParameter("needs a CommitLog, found none", param_hint="--bodies")
        try:
            with progress_bar("verify") as report:
                table = whole_audit(
                    self.path,
                    log,
                    self.layout,
                    self.limit,
                    start,
                    bodies=self.bodies,
                    progress=report,
                )
        finally:
            if log is not None:
                log.close()
        store = Store.open(self.path, needs_index=False)
        commands = Commands.of(store, log, self.layout, self.commit_log)
        findings = typed_findings(table, commands)
        failing = SEVERITIES[: SEVERITIES.index(self.fail_on) + 1]
        yield findings_answer(
            self.path,
            findings,
            has_log=log is not None,
            since=start,
            zone=self.zone,
            failing=failing,
            index_files=_index_files(commands),
            again=command_line("verify", self.path, options=typed_options("--json", "--csv")),
        )


def _index_files(commands: Commands) -> set[str]:
    """Return the audited IndexFiles, as findings name them."""
    store = commands.store
    try:
        files = [entry.path for entry in index_entries(store.index) if not entry.is_directory]
    except RmqIndexError:
        return set()
    return {commands.shown(file) for file in files if store.file in (None, file)}


verify = command(
    "verify",
    Verify,
    "rmqindex verify /data/rocketmq/store",
    "rmqindex verify store/index/20231114221320000 --commit-log none",
    "rmqindex verify store --since 2h --fail-on warning",
    "rmqindex verify store --json \\\n    | jq '.findings[] | select(.severity == \"error\")'",
    several="store",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Plot how many entries the slots have, how full the files are, and when entries were stored.

    It needs matplotlib: pip install 'rmqindex[plot]'.
    """

    path: str = path_argument()
    out: Path = option(
        "--out",
        metavar="FILE",
        type=PATH,
        default=Path("rmqindex.png"),
        show_default=True,
        help="The image to write; its name ends in .png, .svg or .pdf.",
    )
    zone: Zone = zone_option()
    layout: Layout | None = layout_options()
    mode: Mode = mode_option()

    def answers(self) -> Iterator[Answer]:
        """Draw the picture."""
        if self.out.suffix.lower() not in IMAGE_TYPES:
            raise click.BadParameter(f"expected {', '.join(IMAGE_TYPES)}", param_hint="--out")
        files = IndexSnapshot.of(self.path, self.layout, self.mode)
        complain_of_lacking(files)
        with progress_bar("read") as report:
            counts = count_index(files, report)
        entries = counted(sum(counts.entry_counts), "entry", "entries")
        title = f"{self.path}: {entries} in {counted(len(files), 'file')}"
        plot_counts(counts, self.out, title, self.zone.info, self.zone.name)
        yield written_answer(f"Wrote {self.out}")


plot = command(
    "plot",
    Plot,
    "rmqindex plot store --out index.png",
    "rmqindex plot store/index/20231114221320000 --out file.svg \\\n    --time-zone Asia/Shanghai",
)
