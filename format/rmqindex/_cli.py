"""The command line: ``rmqindex info``, ``rmqindex lookup``, ``rmqindex sample``.

Standard output carries the answer, as a table for people or as one JSON document for machines.
Standard error carries errors, one line each.
The exit code is 0 for an answer, 1 for a lookup that found nothing, 2 for bad usage or a bad file.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from importlib.metadata import version
from io import TextIOWrapper
from itertools import islice
from pathlib import Path  # noqa: TC003  (typer reads annotations when it runs)
from typing import TYPE_CHECKING, Annotated

import typer

from rmqindex._describe import describe, total
from rmqindex._errors import RmqIndexError
from rmqindex._hashing import index_key, key_hash
from rmqindex._index_directory import IndexDirectory
from rmqindex._layout import DEFAULT_MAX_MSGS_NUM_BATCH, INT64_MAX, INT64_MIN, Layout
from rmqindex._names import zone_of
from rmqindex._paths import index_files
from rmqindex._render import make_console, print_broker_answer, print_facts, print_hits
from rmqindex._sample import write_sample_store
from rmqindex._search import search
from rmqindex._storage import is_remote, local_path
from rmqindex._times import parse_millis

if TYPE_CHECKING:
    from datetime import tzinfo

__all__ = ["main"]

NOT_FOUND = 1
BAD = 2

app = typer.Typer(
    name="rmqindex",
    help="Look into Apache RocketMQ IndexFiles, without a broker and without Spark.",
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


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rmqindex {version('rmqindex')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


@app.command(
    short_help="Say what is in each IndexFile.",
    epilog="Examples:\n\n\b\n"
    "  rmqindex info /data/rocketmq/store\n"
    "  rmqindex info s3://backup/broker-a/store/index --json\n"
    "  rmqindex info store/index/20231114221320000 --time-zone Asia/Shanghai",
)
def info(
    path: PathArgument,
    *,
    as_json: JsonOption = False,
    zone_name: ZoneOption = "UTC",
    max_hash_slot_num: SlotsOption = None,
    max_index_num: EntriesOption = None,
    mode: ModeOption = Mode.FAILFAST,
) -> None:
    """Say what is in each IndexFile: geometry, entries, slots in use, times, offsets, sizes.

    Times and offsets are those of the first and of the last entry, as the header has them; they
    are not minimum and maximum. Load is entries per slot. Only headers and what the geometry
    needs are read.
    """
    layout = _layout(max_hash_slot_num, max_index_num)
    zone = _zone(zone_name)
    facts = [describe(entry, layout, mode.value) for entry in index_files(path)]
    if as_json:
        _print_json(
            {
                "path": path,
                "files": [asdict(file) for file in facts],
                "totals": asdict(total(facts)),
            }
        )
    elif facts:
        print_facts(make_console(), facts, zone, zone_name)
    else:
        typer.echo(f"{path}: no IndexFiles")
    errors = [file.error for file in facts if file.error is not None]
    for error in errors:
        _complain(error)
    if errors:
        raise typer.Exit(BAD)


@app.command(
    short_help="Find a key's messages in the CommitLog.",
    epilog="Examples:\n\n\b\n"
    "  rmqindex lookup /data/rocketmq/store TopicTest order-49\n"
    "  rmqindex lookup store TopicTest order-49 --begin 2023-11-14T22:00 --end 2023-11-14T23:00\n"
    "  rmqindex lookup store TopicTest order-49 --json | jq '.hits[].phy_offset'\n"
    "  rmqindex lookup store TopicTest order-49 --broker",
)
def lookup(
    path: PathArgument,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The message's topic.")],
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="One of its KEYS, or its unique key (message id).")
    ],
    *,
    begin: Annotated[
        str | None,
        typer.Option(
            "--begin",
            metavar="TIME",
            help="Stored at this time or later: epoch milliseconds or ISO 8601.",
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--end", metavar="TIME", help="Stored at this time or earlier."),
    ] = None,
    max_num: Annotated[
        int | None,
        typer.Option("--max-num", metavar="N", min=1, help="At most so many, the newest."),
    ] = None,
    broker: Annotated[
        bool,
        typer.Option(
            "--broker",
            help="Answer as the broker's own search does: at most 64, and with its quirks.",
        ),
    ] = False,
    as_json: JsonOption = False,
    zone_name: ZoneOption = "UTC",
    max_hash_slot_num: SlotsOption = None,
    max_index_num: EntriesOption = None,
    mode: ModeOption = Mode.FAILFAST,
) -> None:
    """Find where the messages with a key start in the CommitLog, newest first.

    An IndexFile stores a 31-bit hash of TOPIC#KEY and not its text, so a hit may be another
    key's message; the message itself tells. Its time is cut to whole seconds after the file's
    first entry. The exit code is 1 if nothing is found.
    """
    layout = _layout(max_hash_slot_num, max_index_num)
    zone = _zone(zone_name)
    first = None if begin is None else _time(begin, zone, "--begin")
    last = None if end is None else _time(end, zone, "--end")
    question: dict[str, object] = {
        "path": path,
        "topic": topic,
        "key": key,
        "begin": first,
        "end": last,
        "max_num": max_num,
    }
    last = INT64_MAX if last is None else last
    if broker:
        if mode is not Mode.FAILFAST:
            raise typer.BadParameter("not together with --mode", param_hint="--broker")
        if is_remote(path):
            raise typer.BadParameter("only for a local directory", param_hint="--broker")
        limit = DEFAULT_MAX_MSGS_NUM_BATCH if max_num is None else max_num
        with IndexDirectory(local_path(path), layout) as directory:
            answer = directory.query_offset(topic, key, limit, first or 0, last)
        found = bool(answer.phy_offsets)
        if as_json:
            _print_json({**question, **asdict(answer)})
        elif found:
            print_broker_answer(make_console(), answer, zone, zone_name)
    else:
        every_hit = search(
            index_files(path),
            key_hash(index_key(topic, key)),
            layout=layout,
            mode=mode.value,
            begin=INT64_MIN if first is None else first,
            end=last,
        )
        hits = list(islice(every_hit, max_num))
        found = bool(hits)
        if as_json:
            _print_json({**question, "hits": [asdict(hit) for hit in hits]})
        elif found:
            print_hits(make_console(), hits, zone, zone_name)
    if not found:
        if not as_json:
            _complain(f"{path}: no entry of {index_key(topic, key)}")
        raise typer.Exit(NOT_FOUND)


@app.command(
    short_help="Write out a small store to try things on.",
    epilog="Example:\n\n\b\n  rmqindex sample store && rmqindex info store",
)
def sample(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A directory that is new or empty.")
    ],
) -> None:
    """Write out a small broker store to try things on: 430 messages, about 200 KB.

    It was written by Apache RocketMQ 5.3.3's own classes, with 97 slots and 200 entry places a
    file, and has a CommitLog and ConsumeQueues.
    """
    write_sample_store(directory)
    typer.echo(f"Wrote a broker store with five IndexFiles to {directory}")


def main() -> None:
    """Run the command line, with an error as one line on standard error."""
    if isinstance(sys.stdout, TextIOWrapper):
        # A name that the terminal's encoding lacks is shown escaped, not as a traceback.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="rmqindex")
    except RmqIndexError as error:
        _complain(str(error))
    except OSError as error:
        _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    sys.exit(BAD)


def _layout(hash_slot_num: int | None, index_num: int | None) -> Layout | None:
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


def _zone(name: str) -> tzinfo:
    try:
        zone = zone_of(name)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--time-zone") from error
    assert zone is not None  # only None stands for the system's zone
    return zone


def _time(text: str, zone: tzinfo, option: str) -> int:
    try:
        return parse_millis(text, zone)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def _print_json(document: dict[str, object]) -> None:
    typer.echo(json.dumps(document, indent=2))


def _complain(message: str) -> None:
    """Write one line to standard error, whatever the message holds."""
    line = " ".join(message.split())
    if "maxHashSlotNum" in line:
        line += " (here --max-hash-slot-num and --max-index-num)"
    typer.echo(f"rmqindex: {line}", err=True)
