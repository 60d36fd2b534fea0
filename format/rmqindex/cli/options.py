"""The parameters of the commands: fields of dataclasses, each with its options and its value."""

from __future__ import annotations

import sys
from codecs import BOM_UTF8
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from rmqindex.cli.invocation import OPTIONS, VALUE, Argument
from rmqindex.cli.times import (
    RANGE,
    parse_local_zone,
    parse_zone,
    since_of,
    time_range_of,
)
from rmqindex.indexfile.geometry import Layout
from rmqindex.keys.utf8 import is_utf8
from rmqindex.layout.index_file import INT32_MAX, INT64_MAX
from rmqindex.storage.location import Location, home_expanded

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from click.shell_completion import CompletionItem

    from rmqindex.answers.answer import Form
    from rmqindex.commitlog.selection import Selection

    Values = Mapping[str, Any]

# Java's int and long: no number of a store, and no number of rows, is greater.
OFFSET = click.IntRange(0, INT64_MAX)
COUNT = click.IntRange(1, INT64_MAX)
NUMBER = click.IntRange(0, INT32_MAX)
SIZE = click.IntRange(1, INT32_MAX)

_GEOMETRY = "--max-hash-slot-num, --max-index-num"


def option(*names: str, **attributes: Any) -> Any:  # noqa: ANN401  (any field's type)
    """Return a field with the value of one option; it takes what ``click.Option`` takes."""
    return _field(click.Option(names, **attributes))


def argument(
    metavar: str,
    text: str,
    type: click.ParamType[Any] | None = None,  # noqa: A002  (click's name)
    *,
    several: bool = False,
) -> Any:  # noqa: ANN401
    """Return a field with the value of an argument, or a tuple of several, and its help."""
    return _field(_argument(metavar, text, type, several=several))


def options(value: Callable[[Values], Any], *parameters: click.Parameter) -> Any:  # noqa: ANN401
    """Return a field with several options, whose value is computed from those of all options."""
    return field(metadata={OPTIONS: parameters, VALUE: value})


def _field(parameter: click.Parameter) -> Any:  # noqa: ANN401
    return field(metadata={OPTIONS: (parameter,)})


def _argument(
    metavar: str,
    text: str,
    type: click.ParamType[Any] | None = None,  # noqa: A002
    *,
    several: bool = False,
    required: bool = True,
) -> Argument:
    return Argument(
        [metavar.partition("|")[0].rstrip(".").lower()],
        text,
        metavar=metavar,
        type=_PATH_TEXT if type is None else type,
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


if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:  # generic from click 8.4 on
    _TextType = click.ParamType


class _LocalPath(click.Path):
    """A local path."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        """Return the path, also of a ``file:`` URI; ``~`` is a home directory."""
        try:
            location = Location.of(home_expanded(value))
        except ValueError as error:  # it names another machine
            self.fail(str(error), param, ctx)
        if location.local is None:
            self.fail(f"expected a local path, got {location}", param, ctx)
        return super().convert(location.local, param, ctx)


class _PathText(_TextType):
    """A path, a URI or a pattern, as a text."""

    name = "path"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002  (click's signature)
        """Return the text; ``~`` is a home directory."""
        return home_expanded(value)


PATH = _LocalPath(path_type=Path)
_PATH_TEXT = _PathText()


class StoredText(_TextType):
    """A topic, key or tag as a message has it: a text, which Java reads and writes as UTF-8."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text, if it is UTF-8."""
        if not is_utf8(value):
            self.fail(f"expected UTF-8, got {value!r}", param, ctx)
        return value


TEXT = StoredText()


class TopicType(StoredText):
    """A topic: a text that is not empty."""

    name = "topic"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the topic, if it is not empty."""
        if not value:
            self.fail("expected the name of a topic, got an empty text", param, ctx)
        return super().convert(value, param, ctx)


def _form_of(values: Values) -> Form:
    if values["as_json"] and values.get("as_csv"):
        raise click.UsageError("--json and --csv: give one of them")
    if values["as_json"]:
        return "json"
    return "csv" if values.get("as_csv") else "text"


def _layout_of(values: Values) -> Layout | None:
    """Return the geometry of the two options, which come together or not at all."""
    hash_slot_num, index_num = values["max_hash_slot_num"], values["max_index_num"]
    if hash_slot_num is None and index_num is None:
        return None
    if hash_slot_num is None or index_num is None:
        raise click.BadParameter("give both or neither", param_hint=_GEOMETRY)
    try:
        return Layout(hash_slot_num, index_num)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=_GEOMETRY) from error


def _offset_range_of(values: Values) -> tuple[int | None, int | None]:
    """Return ``--from``, inclusive, and ``--to``, exclusive, in bytes."""
    start, stop = values["from_offset"], values["to_offset"]
    if start is not None and stop is not None and start > stop:
        raise click.BadParameter(f"{start} is behind --to {stop}", param_hint="--from")
    return start, stop


def _selection_of(values: Values) -> Selection:
    from rmqindex.commitlog.selection import Selection  # noqa: PLC0415  (help needs no Arrow)

    begin, end = time_range_of(values)
    start, stop = _offset_range_of(values)
    return Selection(
        topics=values["topics"],
        queue_ids=values["queue_ids"],
        tags=values["tags"],
        begin=begin,
        end=end,
        start=start,
        stop=stop,
    )


class _KeysFile(click.File):
    """A file, or standard input unless that is closed."""

    def convert(
        self,
        value: str | os.PathLike[str] | IO[Any],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> IO[Any]:
        """Open the file."""
        if value == "-" and sys.stdin is None:
            self.fail("expected keys on standard input, which is closed", param, ctx)
        return super().convert(
            home_expanded(value) if isinstance(value, str) else value, param, ctx
        )


def _keys_of(values: Values) -> list[str]:
    """Return the keys that were given, each once, without empty lines of a file."""
    keys, file = list(values["key"]), values["keys_file"]
    if file is not None:
        for number, line in enumerate(file.read().removeprefix(BOM_UTF8).splitlines(), 1):
            try:
                keys.append(line.decode().rstrip("\r"))
            except UnicodeDecodeError as error:
                raise click.BadParameter(
                    f"line {number}: expected UTF-8, got {line[:20]!r}", param_hint="--keys-file"
                ) from error
        keys = [key for key in keys if key]
    if not keys:
        raise click.UsageError("Missing KEY: give at least one, or a --keys-file that has some.")
    return list(dict.fromkeys(keys))


def _parse_commit_log(_ctx: click.Context, _param: click.Parameter, text: str) -> str | None:
    return None if text == "none" else home_expanded(text)


_JSON = click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON document.")


def offset_options(
    start: str = "Start at the message at this offset.", stop: str = "Stop before this offset."
) -> Any:  # noqa: ANN401
    """Return a field with the range of ``--from`` and ``--to``, whose help is given."""
    return options(_offset_range_of, *_offset_range(start, stop))


def _offset_range(start: str, stop: str) -> tuple[click.Option, click.Option]:
    return (
        click.Option(["--from", "from_offset"], metavar="OFFSET", type=OFFSET, help=start),
        click.Option(["--to", "to_offset"], metavar="OFFSET", type=OFFSET, help=stop),
    )


json_option = partial(options, _form_of, _JSON)
rows_options = partial(
    options,
    _form_of,
    _JSON,
    click.Option(
        ["--csv", "as_csv"], is_flag=True, help="Print the rows as CSV, with a line of names."
    ),
)
time_options = partial(options, time_range_of, *RANGE)
since_option = partial(
    options,
    since_of,
    click.Option(
        ["--since"],
        metavar="TIME",
        help="Check only what was stored at this time or later, or in the last 30m, 2h or 1d.",
    ),
)
layout_options = partial(
    options,
    _layout_of,
    click.Option(
        ["--max-hash-slot-num"],
        metavar="N",
        type=SIZE,
        help="The broker's maxHashSlotNum; give --max-index-num, too. By default inferred from the "
        "file.",
    ),
    click.Option(
        ["--max-index-num"],
        metavar="N",
        type=SIZE,
        help="The broker's maxIndexNum; give --max-hash-slot-num, too.",
    ),
)
selection_options = partial(
    options,
    _selection_of,
    click.Option(
        ["--topic", "topics"],
        metavar="TOPIC",
        type=TEXT,
        multiple=True,
        help="Only messages of this topic. May be repeated.",
    ),
    click.Option(
        ["--queue", "queue_ids"],
        metavar="N",
        type=NUMBER,
        multiple=True,
        help="Only messages of this queue. May be repeated.",
    ),
    click.Option(
        ["--tag", "tags"],
        metavar="TAG",
        type=TEXT,
        multiple=True,
        help="Only messages with this tag. May be repeated.",
    ),
    *RANGE,
    *_offset_range("Start at the message at this offset.", "Stop before this offset."),
)
keys_options = partial(
    options,
    _keys_of,
    _argument(
        "KEY...",
        "One or several of the messages' KEYS, or unique keys (message ids).",
        TEXT,
        several=True,
        required=False,
    ),
    click.Option(
        ["--keys-file"],
        metavar="FILE",
        type=_KeysFile("rb"),
        help="Read the keys from a file, one a line; '-' is standard input.",
    ),
)
path_argument = partial(
    argument,
    "PATH",
    "An IndexFile, an index directory, a store root that contains index/, or the URI of one "
    "(s3://, hdfs://, gs://, file:).",
)
log_argument = partial(
    argument, "STORE", "A store root that contains commitlog/, or log files or directories."
)
paths_argument = partial(
    argument,
    "PATH...",
    "IndexFiles, index directories, store roots that contain index/, or their URIs; a pattern in "
    "quotes, or a folder of stores.",
    several=True,
)
logs_argument = partial(
    argument,
    "STORE...",
    "Store roots that contain commitlog/, or log files or directories; a pattern in quotes, or a "
    "folder of stores.",
    several=True,
)
topic_argument = partial(argument, "TOPIC", "The topic of the message.", TopicType())
key_argument = partial(
    argument, "KEY", "One of the message's KEYS, or its unique key (message id).", TEXT
)
mode_option = partial(
    option,
    "--mode",
    metavar="MODE",
    type=click.Choice(["FAILFAST", "DROPMALFORMED"], case_sensitive=False),
    default="FAILFAST",
    show_default=True,
    help="FAILFAST stops at malformed bytes; DROPMALFORMED skips them and reads the rest.",
)
zone_option = partial(
    option,
    "--time-zone",
    metavar="ZONE",
    envvar="RMQINDEX_TIME_ZONE",
    callback=parse_zone,
    help="The time zone of times, such as Asia/Shanghai or +08:00; by default that of "
    "RMQINDEX_TIME_ZONE, or else the system's.",
)
local_zone_option = partial(
    option,
    "--time-zone",
    metavar="ZONE",
    callback=parse_local_zone,
    help="The broker's time zone, used to name new files; by default the system's.",
)
commit_log_option = partial(
    option,
    "--commit-log",
    metavar="PATH",
    default="auto",
    show_default=True,
    callback=_parse_commit_log,
    help="A store, a commitlog directory, or several separated by commas; 'auto' uses the one "
    "beside the index, if any; 'none' uses none.",
)
stored_body_option = partial(
    option,
    "--no-decompress",
    is_flag=True,
    help="Leave compressed bodies as they are stored.",
)
allow_live_option = partial(
    option,
    "--allow-live-store",
    is_flag=True,
    help="Write although a broker runs on the store, which sees it only when it starts again.",
)
allow_loss_option = partial(
    option,
    "--allow-loss",
    is_flag=True,
    help="Write even if the new files hold less than those that they replace, or that are deleted.",
)
dry_run_option = partial(
    option,
    "--dry-run",
    is_flag=True,
    help="Show which files would be deleted, and what would replace them; change nothing. A broker "
    "may run meanwhile.",
)
