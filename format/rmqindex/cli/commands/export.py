"""``rmqindex export``: messages or entries for other tools."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from rmqindex.audit import missing_parts
from rmqindex.cli.options import (
    NUMBER,
    argument,
    choose_output,
    command,
    entries_option,
    json_option,
    layout_of,
    mode_option,
    slots_option,
    zone_option,
)
from rmqindex.cli.selection import selection_of, selection_options
from rmqindex.cli.several import several_named
from rmqindex.commitlog.log import CommitLog
from rmqindex.display.terminal import progress_bar
from rmqindex.display.text import complain
from rmqindex.errors import RmqIndexError
from rmqindex.export import (
    DEFAULT_COLUMNS,
    FORMATS,
    EntrySelection,
    export_entries,
    export_messages,
    exported_range,
)
from rmqindex.output.notes import complain_of_lacking, complain_of_missing
from rmqindex.storage.location import Location
from rmqindex.store.snapshot import IndexSnapshot

if TYPE_CHECKING:
    from rmqindex.audit import MissingPart
    from rmqindex.export import ExportResult
    from rmqindex.indexfile.entries import Mode
    from rmqindex.output.interface import Zone

__all__ = ["export"]

_SIZE = re.compile(r"(\d{1,15})\s*(B|KB|KiB|K|MB|MiB|M|GB|GiB|G)?", re.IGNORECASE)
_POWERS = {"B": 0, "K": 1, "M": 2, "G": 3}
_LEAST_SIZE = 1024


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
    given = Path(directory)
    others = [] if not given.is_dir() else [p for p in given.iterdir() if p.name[:6] != "store="]
    if others:
        raise RmqIndexError(
            f"{given}: expected an empty directory or one of exports of several stores, found "
            f"{others[0].name}; export to another directory"
        )
    # Of the whole path, so that a store has one partition however it is given.
    whole = Location.of(store).absolute
    name = quote(str(whole.local or whole), safe="")
    return str(given / f"store={name}")


def _parse_columns(
    _ctx: click.Context, _param: click.Parameter, text: str | None
) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(","))


@command(
    "export",
    "rmqindex export store messages",
    "rmqindex export store orders --topic Orders --begin 2023-11-14 --format csv",
    "rmqindex export store sizes --columns topic,size --format jsonl",
    "rmqindex export store entries --entries",
    "rmqindex export broker-a/store broker-b/store messages",
    note="The same command again goes on where a run was stopped, or adds what is new.",
    several=True,
)
@argument(
    "store",
    "STORE...",
    "Store roots, or log files or directories, with --entries indexes; a pattern in quotes, or a "
    "folder of stores.",
    several=True,
)
@argument("directory", "DIR", "A local directory that is new, empty, or of the same export.")
@click.option(
    "--format",
    "kind",
    metavar="FORMAT",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="parquet, jsonl or csv.",
)
@click.option(
    "--entries", "entries", is_flag=True, help="Export the entries of the index, not the messages."
)
@selection_options
@click.option(
    "--key-hash",
    metavar="N",
    type=NUMBER,
    help="With --entries: only entries with this key hash.",
)
@click.option(
    "--columns",
    metavar="NAMES",
    callback=_parse_columns,
    help="The columns of messages, separated by commas; by default all.",
)
@click.option(
    "--raw-bodies", is_flag=True, help="Keep compressed bodies as they are; else they are unpacked."
)
@click.option(
    "--max-file-size",
    metavar="SIZE",
    default="256MiB",
    show_default=True,
    callback=_parse_size,
    help="Begin another file at about this size.",
)
@json_option
@zone_option
@slots_option
@entries_option
@mode_option
def export(
    *,
    store: str,
    directory: str,
    kind: str,
    entries: bool,
    key_hash: int | None,
    columns: tuple[str, ...] | None,
    raw_bodies: bool,
    max_file_size: int,
    as_json: bool,
    zone: Zone,
    max_hash_slot_num: int | None,
    max_index_num: int | None,
    mode: Mode,
    **options: object,
) -> None:
    """Write messages, or the entries of an index, to files that other tools read.

    Each file is complete when it appears. A run that was stopped, or killed, goes on behind the
    last file when it is started again; no row is lost and none comes twice. The directory remembers
    what was asked for and the last message or entry that it has, and refuses other filters, and a
    log or an index that is not proved to be the same, such as one that was truncated or laid out
    anew since. With DLedger, what the group has not agreed on waits. Times are timestamps
    in Parquet, epoch milliseconds in JSON and CSV, where bodies that are not UTF-8 are in the
    column body_base64. Of several stores, each has a directory store=PATH of its own, which Spark,
    DuckDB and Arrow read as a column.
    """
    layout = layout_of(max_hash_slot_num, max_index_num)
    output = choose_output(as_json, zone)
    directory = _directory_of(store, directory)
    selection = selection_of(zone, options)
    with progress_bar("export") as report:
        result: ExportResult
        missing: tuple[MissingPart, ...] = ()
        if entries:
            for name, value in (
                ("--topic", selection.topics),
                ("--queue", selection.queue_ids),
                ("--tag", selection.tags),
                ("--columns", columns),
                ("--raw-bodies", raw_bodies),
            ):
                if value:
                    raise click.BadParameter("not together with --entries", param_hint=name)
            files = IndexSnapshot.of(store, layout, mode)
            complain_of_lacking(files)
            result = export_entries(
                files,
                directory,
                EntrySelection(
                    selection.begin, selection.end, selection.start, selection.stop, key_hash
                ),
                kind=kind,
                max_file_size=max_file_size,
                progress=report,
            )
        else:
            if key_hash is not None:
                raise click.BadParameter("only with --entries", param_hint="--key-hash")
            with CommitLog(store) as log:
                missing = missing_parts(
                    log,
                    store,
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
                        kind=kind,
                        columns=DEFAULT_COLUMNS if columns is None else columns,
                        raw_bodies=raw_bodies,
                        max_file_size=max_file_size,
                        mode=mode,
                        on_skipped=complain,
                        progress=report,
                    )
                except ValueError as error:
                    text = str(error).removeprefix("columns: ")
                    raise click.BadParameter(text, param_hint="--columns") from error
    output.export(result, missing)
