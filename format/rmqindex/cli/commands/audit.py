"""``rmqindex verify`` and ``plot``: the state of an index, as findings and as a picture."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmqindex.answers.answer import NOT_FOUND
from rmqindex.answers.findings import findings_answer
from rmqindex.answers.plot import IMAGE_TYPES, count_index, plot_counts
from rmqindex.answers.terminal import progress_bar
from rmqindex.answers.text import complain_of_lacking, counted
from rmqindex.answers.writes import written_answer
from rmqindex.audit.plan import whole_audit
from rmqindex.audit.rules import SEVERITIES
from rmqindex.cli.invocation import command
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
from rmqindex.errors import RmqIndexError, command_line
from rmqindex.explanation.wording import Commands
from rmqindex.indexfile.geometry import Layout, infer_layout
from rmqindex.layout.store import INDEX_FOLDER
from rmqindex.storage.location import Location
from rmqindex.store.snapshot import IndexSnapshot, layout_beside
from rmqindex.store.store import Store, index_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqindex.answers.answer import Answer, Form, Zone
    from rmqindex.audit.rules import Severity
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.entries import Mode

__all__ = ["plot", "verify"]

_LAYOUT_OPTION = "--max-hash-slot-num"
# In a rule's remedy: a command with what stands for the user's own store or file, or a call.
_TYPED = re.compile(
    r"`rmqindex (?P<name>[a-z-]+) (?P<what>STORE|FILE)(?P<options>[^`]*)`|cover_index\(STORE\)"
)
_REBUILDS = "`rmqindex rebuild STORE"
# The commands that look for the CommitLog beside the index unless they are told.
_WITH_LOG = ("verify", "expire", "relayout")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Check every byte of an index that a reader uses.

    These are header, slots, chains, hashes, times, file names, order and checkpoint, and whether
    the index agrees with the CommitLog and reaches from its first message to its last one. Of a
    store whose broker runs, what was added since the start is not judged; of one whose broker was
    killed, the first finding is which files the broker would delete when it starts. The
    ConsumeQueues of a store are compared with the CommitLog, too. The exit code is 1 if an error is
    found, or what --fail-on names, and 2 if nothing can be checked.
    """

    path: str = paths_argument()
    commit_log: str | None = commit_log_option()
    max_findings: int = option(
        "--max-findings",
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
                    self.max_findings,
                    start,
                    bodies=self.bodies,
                    progress=report,
                )
        finally:
            if log is not None:
                log.close()
        findings = table.to_pylist()
        errors = [finding["remedy"] for finding in findings if finding["severity"] == "error"]
        remedies = _Remedies(self.path, log, self.commit_log, errors, self.layout)
        for finding in findings:
            finding["file"] = _as_given(finding["file"], self.path)
            finding["remedy"] = remedies.text(finding["remedy"], finding["file"])
        failing = SEVERITIES[: SEVERITIES.index(self.fail_on) + 1]
        is_failed = any(finding["severity"] in failing for finding in findings)
        yield findings_answer(
            self.path,
            findings,
            has_log=log is not None,
            since=start,
            zone=self.zone,
            exit_code=NOT_FOUND if is_failed else 0,
        )


verify = command(
    "verify",
    Verify,
    "rmqindex verify /data/rocketmq/store",
    "rmqindex verify store/index/20231114221320000 --commit-log none",
    "rmqindex verify store --since 2h --fail-on warning",
    "rmqindex verify store --json \\\n    | jq '.findings[] | select(.severity == \"error\")'",
    several="store",
)


class _Remedies:
    """Writes the remedies of the findings of one path."""

    def __init__(
        self,
        path: str,
        log: CommitLog | None,
        given: str | None,
        errors: Sequence[str],
        layout: Layout | None,
    ) -> None:
        self._store = Store.open(path, needs_index=False)
        rebuilds = [remedy for remedy in errors if _REBUILDS in remedy]
        self._is_unknown = layout is None and (
            any(_LAYOUT_OPTION in remedy for remedy in rebuilds)
            or (bool(rebuilds) and not _shows_geometry(self._store.index))
        )
        self._layout = Layout() if self._is_unknown else layout
        self._path = path
        commands = Commands.of(self._store, log)
        named = given if given != "auto" else None
        self._is_store = commands.is_store or (
            named is None and self._store.index.absolute.name == INDEX_FOLDER
        )
        self._log = commands.log or named

    def text(self, remedy: str, file: str) -> str:
        """Return the remedy of a finding in a file."""

        def typed(match: re.Match[str]) -> str:
            if match["name"] is None:
                return f"cover_index({self._shown(self._store.root)!r})"
            options = shlex.split(match["options"])
            layout = self._layout
            if layout is not None and match["name"] == "rebuild" and _LAYOUT_OPTION not in options:
                options += [_LAYOUT_OPTION, str(layout.hash_slot_num)]
                options += ["--max-index-num", str(layout.index_num)]
            if match["name"] == "relayout" and (beside := layout or _layout_beside(file)):
                options += ["--slots", str(beside.hash_slot_num)]
                options += ["--entries", str(beside.index_num)]
            if match["what"] == "FILE":
                return f"`{command_line(match['name'], file, options=options)}`"
            return f"`{self._of_store(match['name'], options)}`"

        if self._is_unknown and "broker.conf" not in remedy:
            numbers = "with the numbers of broker.conf if it has others"
            remedy = remedy.replace(f"run {_REBUILDS}", f"run, {numbers}, {_REBUILDS}")
        return _TYPED.sub(typed, remedy)

    def _of_store(self, name: str, options: list[str]) -> str:
        store = self._store
        if name == "rebuild" and store.root.local is None:
            return command_line(name, self._log or store.root, options=["--out", "DIR"])
        if self._is_store:
            return command_line(name, self._shown(store.root), options=options)
        if name == "rebuild":
            out = ["--out", self._shown(store.index)]
            return command_line(name, self._log or "COMMITLOG", options=[*out, *options])
        if name == "rebuild-queues":
            out = ["--out", self._shown(store.index.parent)]
            return command_line(name, self._log or "COMMITLOG", options=[*out, *options])
        if name in _WITH_LOG and self._log is not None:
            options = [*options, "--commit-log", self._log]
        where = self._path if name == "verify" else self._shown(store.index)
        return command_line(name, where, options=options)

    def _shown(self, location: Location) -> str:
        return _as_given(str(location), self._path)


def _layout_beside(file: str) -> Layout | None:
    """Return the geometry that the files beside a file show, if they can be listed."""
    try:
        return layout_beside(Location.of(file))
    except RmqIndexError:
        return None


def _shows_geometry(index: Location) -> bool:
    """Return whether a rebuild finds the geometry of an index by itself, as a new one does."""
    try:
        files = [entry for entry in index_entries(index) if not entry.is_directory]
    except RmqIndexError:
        return True
    for file in files:
        if file.size == Layout().file_size:
            return True
        with suppress(RmqIndexError):
            infer_layout(file.path)
            return True
    return not files


def _as_given(file: str, path: str) -> str:
    """Return a path relative to the working directory if the user's is, else absolute."""
    if Location.of(file).local is None:
        return file
    return os.path.abspath(file) if os.path.isabs(path) else os.path.relpath(file)  # noqa: PTH100, PTH117


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
