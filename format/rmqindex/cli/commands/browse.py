"""``rmqindex messages``, ``usage`` and ``dump``: what is in a store, without a key."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from rmqindex.audit import missing_parts
from rmqindex.cli.options import (
    BAD,
    COUNT,
    NOT_FOUND,
    OFFSET,
    argument,
    choose_output,
    command,
    entries_option,
    layout_of,
    logs_argument,
    mode_option,
    rows_option,
    slots_option,
    stored_body_option,
    zone_option,
)
from rmqindex.cli.selection import selection_of, selection_options
from rmqindex.commitlog.log import CommitLog
from rmqindex.commitlog.selection import newest_messages
from rmqindex.display.terminal import progress_bar
from rmqindex.display.text import complain
from rmqindex.export.dump import dump_file
from rmqindex.export.usage import GROUPS, folder_usage, measure_usage
from rmqindex.output.messages import LISTED, read_messages
from rmqindex.output.notes import complain_of_missing

if TYPE_CHECKING:
    from rmqindex.errors import CorruptCommitLogError
    from rmqindex.indexfile.entries import Mode
    from rmqindex.output.interface import Zone

__all__ = ["dump", "messages", "usage"]


@command(
    "messages",
    "rmqindex messages store --topic TopicTest",
    "rmqindex messages store --topic TopicTest --queue 0 --limit 5 --body",
    "rmqindex messages store --tag TagA --begin 2023-11-14T22:00 --json",
    "rmqindex messages store --limit 1000 --csv > newest.csv",
    several=True,
    is_search=True,
)
@logs_argument
@selection_options
@click.option(
    "--limit",
    metavar="N",
    type=COUNT,
    default=20,
    show_default=True,
    help="Print at most this many messages.",
)
@click.option("--body", is_flag=True, help="Also print properties and bodies.")
@stored_body_option
@rows_option
@zone_option
@mode_option
def messages(
    *,
    store: str,
    limit: int,
    body: bool,
    as_stored: bool,
    as_json: bool,
    zone: Zone,
    mode: Mode,
    **options: object,
) -> None:
    """List messages from the CommitLog, those with the highest offsets first.

    No index is needed. The log is read from its end, until there are enough messages; a selection
    that few messages meet may need all of it. The exit code is 1 if no message is found.
    """
    selection = selection_of(zone, options)
    output = choose_output(as_json, zone)
    with CommitLog(store) as log, progress_bar("read") as report:
        missing = missing_parts(log, store, start=selection.start, stop=selection.stop)
        complain_of_missing(missing)
        table = newest_messages(
            log,
            selection,
            LISTED,
            limit,
            mode=mode,
            on_malformed=_complain_of,
            progress=report,
        )
        rows: list[dict[str, Any]] = table.to_pylist()
        if body:
            offsets = table["phy_offset"].to_pylist()
            rows = read_messages(log, offsets, mode=mode, as_stored=as_stored)
    output.message_list(store, rows, missing, whole=body)
    if not rows:
        raise click.exceptions.Exit(NOT_FOUND)


@command(
    "usage",
    "rmqindex usage /data/rocketmq/store",
    "rmqindex usage store --by topic --by queue --limit 20",
    "rmqindex usage store --by hour --topic TopicTest --time-zone Asia/Shanghai",
    "rmqindex usage store --csv > usage.csv",
    several=True,
)
@logs_argument
@click.option(
    "--by",
    metavar="GROUP",
    type=click.Choice(GROUPS),
    multiple=True,
    default=("topic",),
    show_default=True,
    help="What to count by: topic, queue or hour. May be repeated.",
)
@selection_options
@click.option("--limit", metavar="N", type=COUNT, help="Print at most N rows.")
@rows_option
@zone_option
@mode_option
def usage(
    *,
    store: str,
    by: tuple[str, ...],
    limit: int | None,
    as_json: bool,
    zone: Zone,
    mode: Mode,
    **options: object,
) -> None:
    """Show what fills the disk: messages and bytes by topic, queue and hour, and the folders.

    The largest groups come first; hours come in their order. Sizes are those of the messages in
    the CommitLog. Below them is what each folder of a local store takes, other files included.
    """
    selection = selection_of(zone, options)
    output = choose_output(as_json, zone)
    with CommitLog(store) as log, progress_bar("read") as report:
        missing = missing_parts(log, store, start=selection.start, stop=selection.stop)
        complain_of_missing(missing)
        found = measure_usage(
            log, by, selection, mode=mode, on_malformed=_complain_of, progress=report
        )
    output.usage(store, by, found, folder_usage(store, complain), missing, limit)


@command(
    "dump",
    "rmqindex dump store/index/20231114221320000",
    "rmqindex dump store/commitlog/00000000000000000000 --offset 112033 --limit 1",
    "rmqindex dump store/consumequeue/TopicTest/0/00000000000000000000 --csv",
    "rmqindex dump store/checkpoint --json",
    "rmqindex dump brokers/*/store/checkpoint",
    several=True,
    several_are="file",
)
@argument("file", "FILE...", "Any files of a store, or a pattern in quotes.", several=True)
@click.option(
    "--offset",
    metavar="BYTE",
    type=OFFSET,
    default=0,
    help="Begin at this byte of the file, with the item that holds it.",
)
@click.option(
    "--limit",
    metavar="N",
    type=COUNT,
    default=10,
    show_default=True,
    help="Print at most this many items: records, entries, slots, units or lines.",
)
@rows_option
@slots_option
@entries_option
def dump(
    *,
    file: str,
    offset: int,
    limit: int,
    as_json: bool,
    max_hash_slot_num: int | None,
    max_index_num: int | None,
) -> None:
    """Find out what a file is, and show its fields: byte, size, name and value.

    Known are IndexFiles, files of CommitLogs, ConsumeQueues and DLedger, the checkpoint, the abort
    file and the JSON of config/; other files are shown as hex. A damaged file is shown up to the
    damage, whose byte is named; the exit code is then 2.
    """
    layout = layout_of(max_hash_slot_num, max_index_num)
    found = dump_file(file, offset, layout)
    choose_output(as_json).dump(found, islice(found.items, limit))
    if found.error is not None:
        complain(found.error)
        raise click.exceptions.Exit(BAD)


def _complain_of(error: CorruptCommitLogError) -> None:
    complain(str(error))
