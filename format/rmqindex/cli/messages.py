"""``rmqindex cat``: one message from the CommitLog."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow.compute as pc
import typer

from rmqindex.cli.options import (
    NOT_FOUND,
    JsonOption,
    ZoneOption,
    app,
    complain,
    print_json,
    zone_named,
)
from rmqindex.commitlog.log import CommitLog
from rmqindex.consumequeue.paths import queue_topics
from rmqindex.errors import RmqIndexError
from rmqindex.folders import INDEX_FOLDER
from rmqindex.keys.hashing import index_key, key_hash
from rmqindex.output.message_document import body_of, message_document, print_message, read_messages
from rmqindex.output.tables import make_console
from rmqindex.query.verdicts import Judge
from rmqindex.record.message_ids import decode_offset_msg_id
from rmqindex.storage.location import is_remote
from rmqindex.store.contents import refuse_rocksdb_index
from rmqindex.store.planned_index import plan_index

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__: list[str] = []

_READABLE = frozenset({"record", "bad_crc"})


@app.command(
    "cat",
    short_help="Print a message.",
    epilog="Examples:\n\n\b\n"
    "  rmqindex cat store 112033\n"
    "  rmqindex cat store 0A00000100002A9F000000000001B5A1\n"
    "  rmqindex cat store BE2A3B1D0F1E56FBFD39200400000560 --topic TopicTest\n"
    "  rmqindex cat store 112033 --raw > body.bin",
)
def cat(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="A store root, a commitlog directory, or several with commas."
        ),
    ],
    message: Annotated[
        str,
        typer.Argument(
            metavar="OFFSET|MSGID",
            help="An offset of the CommitLog, an offset message id, or a unique key.",
        ),
    ],
    *,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            metavar="TOPIC",
            help="The topic of a unique key; every topic that has a ConsumeQueue otherwise.",
        ),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write the body alone, byte for byte.")
    ] = False,
    as_json: JsonOption = False,
    zone_name: ZoneOption = "UTC",
) -> None:
    """Print a message from the CommitLog: its fields, its properties and its body, unpacked.

    A unique key (the message id that clients show) is found through the index. The exit code is 1
    if there is no such message.
    """
    zone_named(zone_name)  # a wrong name is told before anything is read
    with CommitLog(path) as log:
        offsets = _offsets(path, message, topic, log)
        rows = [row for row in read_messages(log, offsets) if row["state"] in _READABLE]
        states = [] if rows else read_messages(log, offsets)
    if not rows:
        why = f": {states[0]['state']}" if states else ""
        complain(f"{path}: no message {message}{why}")
        raise typer.Exit(NOT_FOUND)
    _print(rows, raw=raw, as_json=as_json, zone_name=zone_name)


def _print(rows: list[dict[str, Any]], *, raw: bool, as_json: bool, zone_name: str) -> None:
    if raw:
        sys.stdout.flush()
        for row in rows:
            sys.stdout.buffer.write(body_of(row))
        return
    if as_json:
        documents = [message_document(row) for row in rows]
        print_json(documents[0] if len(documents) == 1 else {"messages": documents})
        return
    console = make_console()
    for number, row in enumerate(rows):
        if number:
            typer.echo()
        if row["state"] == "bad_crc":
            complain(f"the CRC of the message at {row['phy_offset']} does not agree")
        print_message(console, row, zone_named(zone_name), zone_name)


def _offsets(path: str, message: str, topic: str | None, log: CommitLog) -> list[int]:
    """Return where the messages that a text names may start, the likeliest first."""
    if message.isdecimal() and message.isascii():
        return [int(message)]
    decoded = decode_offset_msg_id(message)
    if decoded is not None:
        (row,) = read_messages(log, [decoded.phy_offset])
        if row["state"] in _READABLE and row["msg_id"] == message.upper():
            return [decoded.phy_offset]
    if is_remote(path):
        raise RmqIndexError(
            f"{path}: expected an offset or an offset message id, got {message!r}: unique keys are "
            "found in local stores alone; 'rmqindex lookup' finds them in remote ones"
        )
    return _by_unique_key(path, message, _topics(path) if topic is None else [topic], log)


def _topics(path: str) -> list[str]:
    """Return the topics under which a unique key is looked up."""
    try:
        topics = queue_topics(path)
    except RmqIndexError as error:
        raise typer.BadParameter(f"needed. {error}", param_hint="--topic") from error
    if not topics:
        raise typer.BadParameter("needed: no ConsumeQueue tells the topics", param_hint="--topic")
    return topics


def _indexed_store(path: Path) -> Path:
    """Return the store of a root or a ``commitlog``, by the index that finds unique keys."""
    for store in (path, path.parent):
        if (store / INDEX_FOLDER).is_dir():
            return store
        refuse_rocksdb_index(str(store))
    raise RmqIndexError(
        f"{path}: expected a folder {INDEX_FOLDER}, by which a unique key is found, found none. "
        "Give the message's offset"
    )


def _by_unique_key(path: str, key: str, topics: Sequence[str], log: CommitLog) -> list[int]:
    """Find a unique key under any of some topics, in the index beside the log."""
    files = plan_index(_indexed_store(Path(path)), None, "FAILFAST")
    hashes = [key_hash(index_key(each, key)) for each in topics]
    found: list[int] = []
    for each in reversed(files):
        if each.is_empty:
            continue
        with each.open() as file:
            batch = file.lookup(hashes, each.stop)
        for query in sorted(set(batch["query"].to_pylist())):
            mine = batch.filter(pc.equal(batch["query"], query))["phy_offset"].to_pylist()
            verdicts = Judge(log, topics[query], key).verdicts(mine)
            found += [
                offset
                for offset, verdict in zip(mine, verdicts, strict=True)
                if verdict.state == "verified"
            ]
    return list(dict.fromkeys(found))
