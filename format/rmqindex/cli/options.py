"""What the commands share: arguments, options and their parsing."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from rmqindex.cli.help import Argument, Command
from rmqindex.cli.several import SeveralCommand, complain_of_none, several_named
from rmqindex.display.text import complain
from rmqindex.indexfile.geometry import Layout
from rmqindex.keys.utf8 import is_utf8
from rmqindex.layout import INT32_MAX, INT64_MAX
from rmqindex.output.documents import JsonOutput
from rmqindex.output.interface import Zone
from rmqindex.times import parse_micros, system_zone, to_milliseconds, zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import tzinfo

    from click.shell_completion import CompletionItem

    from rmqindex.output.interface import Output
    from rmqindex.storage.location import PathLike

__all__ = [
    "BAD",
    "COUNT",
    "NOT_FOUND",
    "NUMBER",
    "OFFSET",
    "PATH",
    "SIZE",
    "TEXT",
    "allow_live_option",
    "allow_loss_option",
    "argument",
    "begin_option",
    "choose_output",
    "command",
    "commit_log_option",
    "complain_of_broker",
    "dry_run_option",
    "end_option",
    "entries_option",
    "from_option",
    "json_option",
    "key_argument",
    "layout_of",
    "local_zone_option",
    "log_argument",
    "logs_argument",
    "mode_option",
    "offset_range_of",
    "path_argument",
    "paths_argument",
    "rows_option",
    "slots_option",
    "stored_body_option",
    "time_of",
    "time_range_of",
    "to_option",
    "told_if_interrupted",
    "topic_argument",
    "zone_option",
]

NOT_FOUND = 1
BAD = 2
# Java's int and long: no number of a store, and no number of rows, is greater.
OFFSET = click.IntRange(0, INT64_MAX)
COUNT = click.IntRange(1, INT64_MAX)
NUMBER = click.IntRange(0, INT32_MAX)
SIZE = click.IntRange(1, INT32_MAX)
PATH = click.Path(path_type=Path)

_CSV = "rmqindex.csv"
_GEOMETRY = "--max-hash-slot-num, --max-index-num"


@contextmanager
def told_if_interrupted(folders: Sequence[Path], then: str) -> Iterator[None]:
    """Say, where a write is interrupted, whether it has changed any file.

    Args:
        folders: What it writes to.
        then: What to do if it has.
    """
    before = _files_in(folders)
    try:
        yield
    except KeyboardInterrupt:
        is_same = _files_in(folders) == before
        complain("interrupted; " + ("nothing was changed" if is_same else then))
        raise


def _files_in(folders: Sequence[Path]) -> list[tuple[str, int, int, int]]:
    found = []
    for folder in folders:
        for parent, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(parent, name)  # noqa: PTH118  (many files)
                with suppress(FileNotFoundError):
                    status = os.stat(path)  # noqa: PTH116
                    found.append((path, status.st_ino, status.st_size, status.st_mtime_ns))
    return sorted(found)


def complain_of_broker(directory: PathLike) -> None:
    """Say, of a dry run beside a running broker, that its numbers are those of this moment.

    Args:
        directory: A folder of the store.
    """
    from rmqindex.transaction.broker_lock import BrokerLock, BrokerState  # noqa: PLC0415  (few ask)

    state = BrokerLock.around(directory).state
    if state.may_run:
        runs = "runs" if state is BrokerState.RUNNING else "may run"
        complain(
            f"{directory}: a broker {runs} on the store, so these numbers may change; without "
            "--dry-run this is refused until it has stopped, unless --allow-live-store is given"
        )


def command(
    name: str,
    *examples: str,
    note: str = "",
    several: bool = False,
    is_search: bool = False,
    several_are: str = "store",
) -> Callable[[Callable[..., None]], Command]:
    """Make a function a command, whose docstring is the help.

    Args:
        name: What the user types.
        examples: Command lines for the end of the help.
        note: What to say below them.
        several: Whether its first argument may name several stores, each of which is answered for.
        is_search: Whether the answer of one of them is enough.
        several_are: What they are, which names a column where there are several.
    """
    heading = "Examples" if len(examples) > 1 else "Example"
    lines = "\n".join(f"  {line}" for example in examples for line in example.splitlines())
    epilog = f"{heading}:\n\n\b\n{lines}" + (f"\n\n{note}" if note else "")
    if several:
        kind = partial(SeveralCommand, is_search=is_search, several_are=several_are)
        return click.command(name, cls=cast("type[Command]", kind), epilog=epilog)
    return click.command(name, cls=Command, epilog=epilog)


def argument(
    name: str,
    metavar: str,
    text: str,
    type: click.ParamType[Any] | None = None,  # noqa: A002  (click's name)
    *,
    several: bool = False,
    required: bool = True,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add an argument that the help explains; several are a tuple."""
    return click.argument(
        name,
        metavar=metavar,
        text=text,
        type=type,
        cls=Argument,
        nargs=-1 if several else 1,
        required=required,
        shell_complete=_complete_file,
    )


def _complete_file(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Leave it to the shell, which knows files best."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415  (few ask for it)

    return [CompletionItem(incomplete, type="file")]


def layout_of(hash_slot_num: int | None, index_num: int | None) -> Layout | None:
    """Return the geometry of the two options, which come together or not at all."""
    if hash_slot_num is None and index_num is None:
        return None
    if hash_slot_num is None or index_num is None:
        raise click.BadParameter("give both or neither", param_hint=_GEOMETRY)
    try:
        return Layout(hash_slot_num, index_num)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=_GEOMETRY) from error


def offset_range_of(start: int | None, stop: int | None) -> tuple[int | None, int | None]:
    """Return ``--from``, inclusive, and ``--to``, exclusive, in bytes."""
    if start is not None and stop is not None and start > stop:
        raise click.BadParameter(f"{start} is behind --to {stop}", param_hint="--from")
    return start, stop


def time_of(text: str | None, zone: Zone, option: str, *, up: bool) -> int | None:
    """Return an option's time as epoch milliseconds, rounded up or down."""
    micros = _micros_of(text, zone, option)
    return None if micros is None else to_milliseconds(micros, up=up)


def time_range_of(begin: str | None, end: str | None, zone: Zone) -> tuple[int | None, int | None]:
    """Return ``--begin`` and ``--end`` as epoch milliseconds, both inclusive."""
    low, high = _micros_of(begin, zone, "--begin"), _micros_of(end, zone, "--end")
    first = None if low is None else to_milliseconds(low, up=True)
    last = None if high is None else to_milliseconds(high, up=False)
    if low is not None and high is not None and low > high:
        raise click.BadParameter(f"{begin!r} is after --end {end!r}", param_hint="--begin")
    if first is not None and last is not None and first > last:
        raise click.BadParameter(
            f"there is no whole millisecond from {begin!r} to --end {end!r}", param_hint="--begin"
        )
    return first, last


def _micros_of(text: str | None, zone: Zone, option: str) -> int | None:
    if text is None:
        return None
    try:
        return parse_micros(text, zone.info)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def choose_output(as_json: bool, zone: Zone | None = None) -> Output:
    """Return the output for machines, or the one for people, with times in a zone.

    Args:
        as_json: Whether it is for machines.
        zone: The zone; None for a command that shows no times.
    """
    context = click.get_current_context(silent=True)
    named = several_named()
    if context is not None and context.meta.get(_CSV):
        if as_json:
            raise click.UsageError("--json and --csv: give one of them")
        from rmqindex.output.separated import CsvOutput  # noqa: PLC0415  (few ask for it)

        return CsvOutput(named, context.meta)
    if as_json:
        return JsonOutput(named, {} if context is None else context.meta)
    from rmqindex.output.console import ConsoleOutput  # noqa: PLC0415  (machines need no rich)

    return ConsoleOutput(zone or _zone("UTC"), complain_of_none)


if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:  # generic from click 8.4 on
    _TextType = click.ParamType


class StoredText(_TextType):
    """A topic, key or tag as a message has it: a text, which Java reads and writes as UTF-8."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text.

        Raises:
            BadParameter: It is not UTF-8.
        """
        if not is_utf8(value):
            self.fail(f"expected UTF-8, got {value!r}", param, ctx)
        return value


TEXT = StoredText()


class TopicType(StoredText):
    """A topic: a text that is not empty."""

    name = "topic"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the topic.

        Raises:
            BadParameter: It is empty, or not UTF-8.
        """
        if not value:
            self.fail("expected the name of a topic, got an empty text", param, ctx)
        return super().convert(value, param, ctx)


def rows_option(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options for machines to a command whose answer is rows."""
    csv_option = click.option(
        "--csv",
        is_flag=True,
        expose_value=False,
        callback=_remember_csv,
        help="Print the rows as CSV, with a line of names.",
    )
    return json_option(csv_option(function))


def _remember_csv(context: click.Context, _param: click.Parameter, is_asked: bool) -> None:
    context.meta[_CSV] = is_asked


def _zone(name: str) -> Zone:
    try:
        return Zone(name, zone_of(name))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--time-zone") from error


def _parse_zone(_ctx: click.Context, _param: click.Parameter, text: str | None) -> Zone:
    if text is not None:
        return _zone(text)
    try:
        return Zone(*system_zone())
    except ValueError as error:
        raise click.BadParameter(f"needed. {error}", param_hint="--time-zone") from error


def _parse_local_zone(ctx: click.Context, param: click.Parameter, text: str | None) -> tzinfo:
    return _parse_zone(ctx, param, text).info


def _parse_commit_log(_ctx: click.Context, _param: click.Parameter, text: str) -> str | None:
    return None if text == "none" else text


path_argument = argument(
    "path",
    "PATH",
    "An IndexFile, an index directory, a store root that contains index/, or the URI of one "
    "(s3://, hdfs://, gs://, file:).",
)
log_argument = argument(
    "store", "STORE", "A store root that contains commitlog/, or log files or directories."
)
paths_argument = argument(
    "path",
    "PATH...",
    "IndexFiles, index directories, store roots that contain index/, or their URIs; a pattern in "
    "quotes, or a folder of stores.",
    several=True,
)
logs_argument = argument(
    "store",
    "STORE...",
    "Store roots that contain commitlog/, or log files or directories; a pattern in quotes, or a "
    "folder of stores.",
    several=True,
)
topic_argument = argument("topic", "TOPIC", "The topic of the message.", TopicType())
key_argument = argument(
    "key", "KEY", "One of the message's KEYS, or its unique key (message id).", TEXT
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
slots_option = click.option(
    "--max-hash-slot-num",
    metavar="N",
    type=SIZE,
    help="The broker's maxHashSlotNum; give --max-index-num, too. By default inferred from the "
    "file.",
)
entries_option = click.option(
    "--max-index-num",
    metavar="N",
    type=SIZE,
    help="The broker's maxIndexNum; give --max-hash-slot-num, too.",
)
mode_option = click.option(
    "--mode",
    metavar="MODE",
    type=click.Choice(["FAILFAST", "DROPMALFORMED"], case_sensitive=False),
    default="FAILFAST",
    show_default=True,
    help="FAILFAST stops at malformed bytes; DROPMALFORMED skips them and reads the rest.",
)
zone_option = click.option(
    "--time-zone",
    "zone",
    metavar="ZONE",
    envvar="RMQINDEX_TIME_ZONE",
    callback=_parse_zone,
    help="The time zone of times, such as Asia/Shanghai or +08:00; by default that of "
    "RMQINDEX_TIME_ZONE, or else the system's.",
)
local_zone_option = click.option(
    "--time-zone",
    "time_zone",
    metavar="ZONE",
    callback=_parse_local_zone,
    help="The broker's time zone, used to name new files; by default the system's.",
)
begin_option = click.option(
    "--begin",
    metavar="TIME",
    help="Only messages stored at this time or later: epoch milliseconds, or ISO 8601 in the time "
    "zone of --time-zone. Of a local time that occurs twice, the first is meant; one that a clock "
    "change skips moves forward by as much.",
)
end_option = click.option(
    "--end", metavar="TIME", help="Only messages stored at this time or earlier."
)
commit_log_option = click.option(
    "--commit-log",
    metavar="PATH",
    default="auto",
    show_default=True,
    callback=_parse_commit_log,
    help="A store, a commitlog directory, or several separated by commas; 'auto' uses the one "
    "beside the index, if any; 'none' uses none.",
)
stored_body_option = click.option(
    "--no-decompress",
    "as_stored",
    is_flag=True,
    help="Leave compressed bodies as they are stored.",
)
from_option = click.option(
    "--from",
    "from_offset",
    metavar="OFFSET",
    type=OFFSET,
    help="Start at the message at this offset.",
)
to_option = click.option(
    "--to",
    "to_offset",
    metavar="OFFSET",
    type=OFFSET,
    help="Stop before this offset.",
)
allow_live_option = click.option(
    "--allow-live-store",
    is_flag=True,
    help="Write although a broker runs on the store, which sees it only when it starts again.",
)
allow_loss_option = click.option(
    "--allow-loss",
    is_flag=True,
    help="Write even if the new files hold less than those that they replace, or that are deleted.",
)
dry_run_option = click.option(
    "--dry-run",
    is_flag=True,
    help="Show which files would be deleted, and what would replace them; change nothing. A broker "
    "may run meanwhile.",
)
