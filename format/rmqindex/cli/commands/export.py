"""``rmqindex export``: messages or entries for other tools."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from rmqindex.answers.answer import NOT_FOUND, Nothing
from rmqindex.answers.messages import topic_hint
from rmqindex.answers.terminal import progress_bar
from rmqindex.answers.text import complain, complain_of_lacking, complain_of_missing
from rmqindex.answers.writes import export_answer
from rmqindex.cli.invocation import command, several_named
from rmqindex.cli.options import (
    NUMBER,
    argument,
    json_option,
    layout_options,
    mode_option,
    option,
    options,
    selection_options,
    zone_option,
)
from rmqindex.cli.times import words_of
from rmqindex.commitlog import missing_parts
from rmqindex.commitlog.log import CommitLog
from rmqindex.errors import RmqIndexError
from rmqindex.export import (
    DEFAULT_COLUMNS,
    FORMATS,
    EntrySelection,
    OtherExportError,
    export_entries,
    export_messages,
    exported_range,
)
from rmqindex.storage.location import Location
from rmqindex.store.snapshot import IndexSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rmqindex.answers.answer import Answer, Form, Zone
    from rmqindex.commitlog import MissingPart
    from rmqindex.commitlog.selection import Selection
    from rmqindex.export import ExportResult
    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.geometry import Layout

_SIZE = re.compile(r"(\d{1,15})\s*(B|KB|KiB|K|MB|MiB|M|GB|GiB|G)?", re.IGNORECASE)
_POWERS = {"B": 0, "K": 1, "M": 2, "G": 3}
_LEAST_SIZE = 1024
# By the names of what an export was begun with.
_OPTIONS = {
    "begin": "--begin",
    "columns": "--columns",
    "end": "--end",
    "format": "--format",
    "key_hash": "--key-hash",
    "queue_ids": "--queue",
    "raw_bodies": "--raw-bodies",
    "start": "--from",
    "stop": "--to",
    "tags": "--tag",
    "topics": "--topic",
    "what": "--entries",
}
_FLAGS = {"what": "entries", "raw_bodies": True}


def _parse_size(_ctx: click.Context, _param: click.Parameter, text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise click.BadParameter(f"expected bytes or a size such as 256MiB, got {text!r}")
    unit = (match[2] or "B").upper()
    base = 1000 if unit in {"KB", "MB", "GB"} else 1024
    size = int(match[1]) * int(base ** _POWERS[unit[0]])
    if size < _LEAST_SIZE:
        raise click.BadParameter(f"expected at least {_LEAST_SIZE} bytes, got {text!r}")
    return size


def _directory_of(store: str, directory: str) -> str:
    """Return where a store is exported to: a partition of the directory if there are several."""
    if not several_named():
        return directory
    given = Path(Location.of(directory))
    others = [] if not given.is_dir() else [p for p in given.iterdir() if p.name[:6] != "store="]
    if others:
        raise RmqIndexError(
            f"{given}: expected an empty directory or one of exports of several stores, found "
            f"{others[0].name}; export to another directory"
        )
    # Of the whole path, so that a store has one partition however it is given.
    whole = Location.of(store).absolute
    name = quote(os.fsencode(str(whole.local or whole)), safe="")
    return str(given / f"store={name}")


def _parse_columns(
    _ctx: click.Context, _param: click.Parameter, text: str | None
) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(","))


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """Write messages, or the entries of an index, to files that other tools read.

    Each file is complete when it appears. A run that was stopped, or killed, goes on behind the
    last file when it is started again; no row is lost and none comes twice. The directory remembers
    what was asked for and the last message or entry that it has, and refuses other filters, and a
    log or an index that is not proved to be the same, such as one that was truncated or laid out
    anew since. What was left out, since it was damaged or no file had it, is told by each run; once
    the log has it again, only an export to another directory gets it. With DLedger, what the group
    has not agreed on waits. Times relative to now are fixed when an export is begun: the same words
    go on with it. Where nothing is found, nothing is written, and the exit code is 1. Times are
    timestamps in Parquet, epoch milliseconds in JSON and CSV, where bodies that are not UTF-8 are
    in the column body_base64. Of several stores, each has a
    directory store=PATH of its own, which Spark, DuckDB and Arrow read as a column.
    """

    store: str = argument(
        "STORE...",
        "Store roots, or log files or directories, with --entries indexes; a pattern in quotes, or "
        "a folder of stores.",
        several=True,
    )
    directory: str = argument("DIR", "A local directory that is new, empty, or of the same export.")
    kind: str = option(
        "--format",
        metavar="FORMAT",
        type=click.Choice(FORMATS),
        default=FORMATS[0],
        show_default=True,
        help="parquet, jsonl or csv.",
    )
    entries: bool = option(
        "--entries", is_flag=True, help="Export the entries of the index, not the messages."
    )
    selection: Selection = selection_options()
    words: Mapping[str, str] = options(words_of)
    key_hash: int | None = option(
        "--key-hash",
        metavar="N",
        type=NUMBER,
        help="With --entries: only entries with this key hash.",
    )
    columns: tuple[str, ...] | None = option(
        "--columns",
        metavar="NAMES",
        callback=_parse_columns,
        help="The columns of messages, separated by commas; by default all but body_text, which is "
        "the body where that is text.",
    )
    raw_bodies: bool = option(
        "--raw-bodies",
        is_flag=True,
        help="Keep compressed bodies as they are; else they are unpacked.",
    )
    max_file_size: int = option(
        "--max-file-size",
        metavar="SIZE",
        default="256MiB",
        show_default=True,
        callback=_parse_size,
        help="Begin another file at about this size.",
    )
    form: Form = json_option()
    zone: Zone = zone_option()
    layout: Layout | None = layout_options()
    mode: Mode = mode_option()

    def answers(self) -> Iterator[Answer]:
        """Export what the directory does not have yet."""
        directory = _directory_of(self.store, self.directory)
        export = self._export_entries if self.entries else self._export_messages
        try:
            yield export(directory)
        except OtherExportError as error:
            raise RmqIndexError(
                f"{error.directory}: expected {self._typed(error.name, error.before, error.words)}"
                f", as the export was begun, got {self._typed(error.name, error.got)}; go on with "
                "the same, or give a directory that is new or empty"
            ) from error

    def _typed(self, name: str, value: object, words: str | None = None) -> str:
        """Return what an export was asked for as it is typed."""
        option = _OPTIONS.get(name, name)
        if name in _FLAGS:
            return option if value == _FLAGS[name] else f"no {option}"
        if value is None or value == []:
            return f"no {option}"
        if name in ("begin", "end") and isinstance(value, int):
            time = f"{self.zone.format(value)!r} ({self.zone.name})"
            return f"{option} {time}" if words is None else f"{words}, which was {time}"
        if name == "columns" and isinstance(value, list):
            return f"{option} {','.join(value)}"
        return " ".join(
            f"{option} {each}" for each in (value if isinstance(value, list) else [value])
        )

    def _answer(self, result: ExportResult, missing: Sequence[MissingPart]) -> Answer:
        """Return the answer, with what relative times stood for when the export was begun."""
        answer = export_answer(result, missing)
        what = "entry" if self.entries else "message"
        notes = [] if result.unagreed is None else [f"left out {result.unagreed}"]
        window = self.zone.window(result.begin, result.end)
        if not result.file_count:
            hint = topic_hint(self.store, self.selection.topics)
            text = f"no {what}{window} matches; nothing was exported{hint}"
            return replace(
                answer,
                nothing=(self.store, Nothing(text)),
                notes=notes,
                exit_code=NOT_FOUND,
            )
        asked = self.selection.begin, self.selection.end
        if (result.begin, result.end) == asked:
            return answer
        words = " and ".join(self.words.values())
        if self.words.get("end") and result.end != asked[1] and not result.files:
            text = (
                f"complete: it has each {what}{window}, which {words} stood for when it was begun; "
                "for what that stands for now, give a directory that is new or empty"
            )
            return replace(
                answer, nothing=(str(result.directory), Nothing(text)), exit_code=NOT_FOUND
            )
        note = f"went on with each {what}{window}, which {words} stood for when it was begun"
        return replace(answer, notes=[f"{result.directory}: {note}"])

    def _export_entries(self, directory: str) -> Answer:
        selection = self.selection
        for name, value in (
            ("--topic", selection.topics),
            ("--queue", selection.queue_ids),
            ("--tag", selection.tags),
            ("--columns", self.columns),
            ("--raw-bodies", self.raw_bodies),
        ):
            if value:
                raise click.BadParameter("not together with --entries", param_hint=name)
        with progress_bar("export") as report:
            files = IndexSnapshot.of(self.store, self.layout, self.mode)
            complain_of_lacking(files)
            result = export_entries(
                files,
                directory,
                EntrySelection(
                    selection.begin, selection.end, selection.start, selection.stop, self.key_hash
                ),
                kind=self.kind,
                max_file_size=self.max_file_size,
                words=self.words,
                progress=report,
            )
        return self._answer(result, ())

    def _export_messages(self, directory: str) -> Answer:
        if self.key_hash is not None:
            raise click.BadParameter("only with --entries", param_hint="--key-hash")
        selection = self.selection
        with progress_bar("export") as report, CommitLog(self.store) as log:
            missing = missing_parts(
                log,
                self.store,
                start=selection.start,
                stop=selection.stop,
                taken=exported_range(directory),
            )
            complain_of_missing(missing, "the export")
            try:
                result = export_messages(
                    log,
                    directory,
                    selection,
                    kind=self.kind,
                    columns=DEFAULT_COLUMNS if self.columns is None else self.columns,
                    raw_bodies=self.raw_bodies,
                    max_file_size=self.max_file_size,
                    mode=self.mode,
                    words=self.words,
                    on_skipped=complain,
                    progress=report,
                )
            except ValueError as error:
                text = str(error).removeprefix("columns: ")
                raise click.BadParameter(text, param_hint="--columns") from error
        return self._answer(result, missing)


export = command(
    "export",
    Export,
    "rmqindex export store messages",
    "rmqindex export store orders --topic Orders --begin 2023-11-14 --format csv",
    "rmqindex export store sizes --columns topic,size --format jsonl",
    "rmqindex export store entries --entries",
    "rmqindex export broker-a/store broker-b/store messages",
    note="The same command again goes on where a run was stopped, or adds what is new.",
    several="store",
    is_search=True,
)
