"""``rmqindex lookup``: where the messages of a key are, and what they say."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqindex.cli.options import (
    NOT_FOUND,
    BeginOption,
    CommitLogOption,
    EndOption,
    EntriesOption,
    JsonOption,
    KeyArgument,
    Mode,
    ModeOption,
    PathArgument,
    SlotsOption,
    TopicArgument,
    ZoneOption,
    app,
    commit_log_argument,
    complain,
    layout_of,
    print_json,
    time_of,
    zone_named,
)
from rmqindex.commitlog.sibling import commit_log_of, refuse_sibling_dledger
from rmqindex.keys.hashing import index_key, key_hash
from rmqindex.keys.messages import tag_key
from rmqindex.layout import DEFAULT_MAX_MSGS_NUM_BATCH, INT64_MAX, INT64_MIN
from rmqindex.output.message_document import message_document, print_message, read_messages
from rmqindex.output.tables import make_console, print_broker_answer, print_hits
from rmqindex.query.index_directory import IndexDirectory
from rmqindex.query.search import search
from rmqindex.query.verdicts import Judge
from rmqindex.storage.location import is_remote, local_path
from rmqindex.store.planned_index import plan_index

if TYPE_CHECKING:
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.query.search import Hit

__all__: list[str] = []

# A message whose CRC does not agree is still better than none.
_READABLE = frozenset({"record", "bad_crc"})


@app.command(
    short_help="Find a key's messages in the CommitLog.",
    epilog="Examples:\n\n\b\n"
    "  rmqindex lookup /data/rocketmq/store TopicTest order-49\n"
    "  rmqindex lookup store TopicTest order-49 --begin 2023-11-14T22:00 --end 2023-11-14T23:00\n"
    "  rmqindex lookup store TopicTest order-49 --json | jq '.hits[].phy_offset'\n"
    "  rmqindex lookup store TopicTest order-49 --message --max-num 1\n"
    "  rmqindex lookup store TopicTest order-49 --broker",
)
def lookup(
    path: PathArgument,
    topic: TopicArgument,
    key: KeyArgument,
    *,
    begin: BeginOption = None,
    end: EndOption = None,
    max_num: Annotated[
        int | None,
        typer.Option("--max-num", metavar="N", min=1, help="At most so many, the newest."),
    ] = None,
    tag: Annotated[
        bool,
        typer.Option(
            "--tag", help="KEY is the tags of the messages, which brokers from 5.4.0 on index."
        ),
    ] = False,
    broker: Annotated[
        bool,
        typer.Option(
            "--broker",
            help="Answer as the broker's own search does: at most 64, and with its quirks.",
        ),
    ] = False,
    with_message: Annotated[
        bool, typer.Option("--message", help="Print the messages, too, from the CommitLog.")
    ] = False,
    commit_log: CommitLogOption = "auto",
    as_json: JsonOption = False,
    zone_name: ZoneOption = "UTC",
    max_hash_slot_num: SlotsOption = None,
    max_index_num: EntriesOption = None,
    mode: ModeOption = Mode.FAILFAST,
) -> None:
    """Find where the messages with a key start in the CommitLog, newest first.

    An IndexFile stores a 31-bit hash of TOPIC#KEY and not its text. With the CommitLog beside it,
    other keys' messages are left out and times are exact; without it, a hit may be another key's
    message, and its time is cut to whole seconds after the file's first entry. The exit code is
    1 if nothing is found.
    """
    layout = layout_of(max_hash_slot_num, max_index_num)
    zone = zone_named(zone_name)
    key = tag_key(key) if tag else key
    first = None if begin is None else time_of(begin, zone, "--begin", up=True)
    last = None if end is None else time_of(end, zone, "--end", up=False)
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
        if with_message:
            raise typer.BadParameter("not together with --message", param_hint="--broker")
        found = _ask_as_the_broker(question, layout, mode, first or 0, last, as_json, zone_name)
    else:
        with ExitStack() as stack:
            log = commit_log_of(path, commit_log_argument(commit_log))
            if log is not None:
                stack.enter_context(log)
            elif with_message:
                refuse_sibling_dledger(path)
                raise typer.BadParameter("needs a CommitLog, found none", param_hint="--message")
            every_hit = search(
                plan_index(path, layout, mode.value),
                key_hash(index_key(topic, key)),
                begin=INT64_MIN if first is None else first,
                end=last,
                judge=Judge(log, topic, key),
            )
            hits = list(islice(every_hit, max_num))
            found = bool(hits)
            messages = _messages(log, hits) if with_message else None
            _print_hits(question, hits, messages, as_json=as_json, zone_name=zone_name)
    if not found:
        if not as_json:
            complain(f"{path}: no entry of {index_key(topic, key)}")
        raise typer.Exit(NOT_FOUND)


def _ask_as_the_broker(
    question: dict[str, Any],
    layout: Layout | None,
    mode: Mode,
    begin: int,
    end: int,
    as_json: bool,
    zone_name: str,
) -> bool:
    """Answer with the broker's own search; return whether anything was found."""
    if mode is not Mode.FAILFAST:
        raise typer.BadParameter("not together with --mode", param_hint="--broker")
    path, max_num = question["path"], question["max_num"]
    if is_remote(path):
        raise typer.BadParameter("only for a local directory", param_hint="--broker")
    limit = DEFAULT_MAX_MSGS_NUM_BATCH if max_num is None else max_num
    with IndexDirectory(local_path(path), layout) as directory:
        answer = directory.query_offset(question["topic"], question["key"], limit, begin, end)
    found = bool(answer.phy_offsets)
    if as_json:
        print_json({**question, **asdict(answer)})
    elif found:
        print_broker_answer(make_console(), answer, zone_named(zone_name), zone_name)
    return found


def _messages(log: CommitLog | None, hits: list[Hit]) -> list[dict[str, Any] | None]:
    """Return the message of each hit, None where it is not in the log."""
    if log is None or not hits:
        return [None] * len(hits)
    rows = read_messages(log, [hit.phy_offset for hit in hits])
    return [row if row["state"] in _READABLE else None for row in rows]


def _print_hits(
    question: dict[str, Any],
    hits: list[Hit],
    messages: list[dict[str, Any] | None] | None,
    *,
    as_json: bool,
    zone_name: str,
) -> None:
    if as_json:
        documents = [asdict(hit) for hit in hits]
        for document, message in zip(documents, messages or (), strict=False):
            document["message"] = None if message is None else message_document(message)
        print_json({**question, "hits": documents})
    elif hits:
        console, zone = make_console(), zone_named(zone_name)
        print_hits(console, hits, zone, zone_name)
        for message in messages or ():
            if message is not None:
                typer.echo()
                print_message(console, message, zone, zone_name)
