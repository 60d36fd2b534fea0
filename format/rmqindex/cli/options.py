"""What the commands share: options, their parsing, output, progress and exit codes."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from rmqindex.indexfile.geometry import Layout
from rmqindex.output.visible import visible
from rmqindex.times import parse_millis, zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import tzinfo

__all__ = [
    "BAD",
    "NOT_FOUND",
    "AllowLiveOption",
    "BeginOption",
    "CommitLogOption",
    "EndOption",
    "EntriesOption",
    "FromOption",
    "JsonOption",
    "KeyArgument",
    "LocalZoneOption",
    "LogArgument",
    "Mode",
    "ModeOption",
    "PathArgument",
    "SlotsOption",
    "ToOption",
    "TopicArgument",
    "ZoneOption",
    "app",
    "commit_log_argument",
    "complain",
    "layout_of",
    "print_json",
    "progress_bar",
    "time_of",
    "zone_named",
]

NOT_FOUND = 1
BAD = 2

app = typer.Typer(
    name="rmqindex",
    help="Look into Apache RocketMQ IndexFiles, CommitLogs and ConsumeQueues, without a broker "
    "and without Spark.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class Mode(StrEnum):
    """What happens to malformed bytes."""

    FAILFAST = "FAILFAST"
    DROPMALFORMED = "DROPMALFORMED"


PathArgument = Annotated[
    str,
    typer.Argument(
        metavar="PATH",
        help="An IndexFile, an index directory, a store root that has index/, or a URI of one "
        "(s3://, hdfs://, gs://, file:).",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
SlotsOption = Annotated[
    int | None,
    typer.Option(
        "--max-hash-slot-num",
        metavar="N",
        help="The broker's maxHashSlotNum, with --max-index-num. Found from the file otherwise.",
    ),
]
EntriesOption = Annotated[
    int | None,
    typer.Option(
        "--max-index-num", metavar="N", help="The broker's maxIndexNum, with --max-hash-slot-num."
    ),
]
ModeOption = Annotated[
    Mode,
    typer.Option(
        "--mode",
        metavar="MODE",
        case_sensitive=False,
        help="FAILFAST stops at malformed bytes, DROPMALFORMED reads the sound part.",
    ),
]
ZoneOption = Annotated[
    str,
    typer.Option(
        "--time-zone",
        metavar="ZONE",
        help="The zone of times, such as Asia/Shanghai or +08:00.",
    ),
]
LocalZoneOption = Annotated[
    str | None,
    typer.Option(
        "--time-zone",
        metavar="ZONE",
        help="The broker's time zone, in which new files are named; the system's by default.",
    ),
]
TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The message's topic.")]
KeyArgument = Annotated[
    str, typer.Argument(metavar="KEY", help="One of its KEYS, or its unique key (message id).")
]
BeginOption = Annotated[
    str | None,
    typer.Option(
        "--begin",
        metavar="TIME",
        help="Stored at this time or later: epoch milliseconds, or a timestamp such as "
        "2023-11-14T22:13.",
    ),
]
EndOption = Annotated[
    str | None,
    typer.Option("--end", metavar="TIME", help="Stored at this time or earlier."),
]
CommitLogOption = Annotated[
    str,
    typer.Option(
        "--commit-log",
        metavar="PATH",
        help="A store, a commitlog directory, or several with commas; 'auto' is the one beside "
        "index, if it is there; 'none' for none.",
    ),
]
LogArgument = Annotated[
    str,
    typer.Argument(
        metavar="STORE", help="A store root that has commitlog/, or log files or directories."
    ),
]
FromOption = Annotated[
    int | None,
    typer.Option("--from", metavar="OFFSET", min=0, help="Begin with the message there."),
]
ToOption = Annotated[
    int | None,
    typer.Option("--to", metavar="OFFSET", min=0, help="End before this offset."),
]
AllowLiveOption = Annotated[
    bool,
    typer.Option(
        "--allow-live-store",
        help="Write although a broker holds the store (its lock or abort file is there).",
    ),
]


def layout_of(hash_slot_num: int | None, index_num: int | None) -> Layout | None:
    """Return the geometry of the two options, which come together or not at all."""
    hint = "--max-hash-slot-num, --max-index-num"
    if hash_slot_num is None and index_num is None:
        return None
    if hash_slot_num is None or index_num is None:
        raise typer.BadParameter("give both or neither", param_hint=hint)
    try:
        return Layout(hash_slot_num, index_num)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from error


def zone_named(name: str) -> tzinfo:
    """Return a time zone by its name."""
    try:
        return zone_of(name)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--time-zone") from error


def time_of(text: str, zone: tzinfo, option: str, *, up: bool) -> int:
    """Return an option's time as epoch milliseconds, rounded up or down."""
    try:
        return parse_millis(text, zone, up=up)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def print_json(document: dict[str, object]) -> None:
    """Write one JSON document to standard output."""
    typer.echo(json.dumps(document, indent=2))


def complain(message: str) -> None:
    """Write one line to standard error, whatever the message holds."""
    line = " ".join(message.split())
    if "maxHashSlotNum" in line:
        line += " (here --max-hash-slot-num and --max-index-num)"
    typer.echo(f"rmqindex: {visible(line)}", err=True)


def commit_log_argument(text: str) -> str | None:
    """Return what :func:`rmqindex.verify` takes as ``commit_log``."""
    return None if text == "none" else text


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error while something long runs, where that is a terminal.

    Args:
        what: What is being done, in a word or two.

    Yields:
        A function that takes how much is done, and of how much.
    """
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        # A bar that is disabled ends with an empty line in some versions of rich.
        yield lambda _done, _total: None
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report
