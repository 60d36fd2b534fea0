"""``rmqindex cat``: one message from the CommitLog."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqindex.audit import missing_parts
from rmqindex.cli.options import (
    NOT_FOUND,
    TEXT,
    argument,
    choose_output,
    command,
    mode_option,
    rows_option,
    stored_body_option,
    zone_option,
)
from rmqindex.cli.several import complain_of_none, several_named
from rmqindex.command_line import command_line
from rmqindex.commitlog.log import CommitLog
from rmqindex.consumequeue.paths import queue_topics
from rmqindex.display.text import complain
from rmqindex.errors import RmqIndexError
from rmqindex.explanation import uncovered
from rmqindex.folders import INDEX_FOLDER
from rmqindex.keys.hashing import index_key, key_hash
from rmqindex.layout import INT64_MAX
from rmqindex.output.messages import complain_of_crc, is_readable, read_messages
from rmqindex.output.notes import complain_of_missing
from rmqindex.query.ranks import SearchedFile
from rmqindex.query.verification import VERIFIED, Verifier
from rmqindex.record.message_ids import decode_offset_msg_id
from rmqindex.storage.location import Location
from rmqindex.store.contents import refuse_rocksdb_index
from rmqindex.store.snapshot import IndexSnapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.indexfile.entries import Mode
    from rmqindex.output.interface import Zone

__all__ = ["cat"]


@command(
    "cat",
    "rmqindex cat store 112033",
    "rmqindex cat store 0A00000100002A9F000000000001B5A1",
    "rmqindex cat store BE2A3B1D0F1E56FBFD39200400000560 --topic TopicTest",
    "rmqindex cat store 112033 --raw > body.bin",
    "rmqindex cat 'brokers/*/store' BE2A3B1D0F1E56FBFD39200400000560 --csv",
    several=True,
    is_search=True,
)
@argument(
    "path",
    "PATH...",
    "Store roots or commitlog directories, or several of one broker separated by commas; a pattern "
    "in quotes, or a folder of stores.",
    several=True,
)
@argument(
    "message",
    "OFFSET|MSGID",
    "A CommitLog offset, an offset message id, or a unique key.",
    TEXT,
)
@click.option(
    "--topic",
    metavar="TOPIC",
    type=TEXT,
    help="The topic of a unique key; by default every topic that has a ConsumeQueue is searched.",
)
@click.option("--raw", is_flag=True, help="Write only the body, byte for byte.")
@stored_body_option
@rows_option
@zone_option
@mode_option
def cat(
    *,
    path: str,
    message: str,
    topic: str | None,
    raw: bool,
    as_stored: bool,
    as_json: bool,
    zone: Zone,
    mode: Mode,
) -> None:
    """Print a message from the CommitLog: its fields, properties and decompressed body.

    A unique key (the message id that clients show) is found through the index. The exit code is 1
    if there is no such message.
    """
    if raw and several_named():
        raise click.BadParameter("only for one store", param_hint="--raw")
    with CommitLog(path) as log:
        offsets = _offsets(path, message, topic, log)
        found = read_messages(log, offsets, mode=mode, as_stored=as_stored)
        why = _why_not(found[0]["state"] if found else "", log)
        if not found:
            _complain_of_index(path, log)
        elif not is_readable(found[0]):
            complain_of_missing(missing_parts(log, path, start=offsets[0]), is_read=False)
    rows = [row for row in found if is_readable(row)]
    if not rows:
        complain_of_none(path, f"no message {message}: {why}")
        if not (raw or as_json):
            choose_output(as_json, zone).messages(rows)  # the names of a CSV
        raise click.exceptions.Exit(NOT_FOUND)
    if raw:
        _write_bodies(rows)
    else:
        choose_output(as_json, zone).messages(rows)


def _why_not(state: str, log: CommitLog) -> str:
    """Return why there is no message, by the state that its offset has, if one is known."""
    if state == "expired":
        return f"it has expired, the CommitLog begins at {log.min_offset}"
    if state == "beyond_end":
        if log.end_error() is not None:
            return f"the CommitLog is damaged from offset {log.max_offset} on"
        return f"the CommitLog ends at {log.max_offset}"
    if state == "missing":
        return "the file of the CommitLog that should have it is missing"
    if state == "not_a_record":
        return "none starts at this byte; the command messages shows where messages start"
    return "the index leads to no message with this unique key"


def _complain_of_index(path: str, log: CommitLog) -> None:
    """Say what the index lacks, by which a unique key was not found."""
    store = _indexed_store(Path(path))
    for part in uncovered(store, IndexSnapshot.of(store, None, "FAILFAST"), log):
        complain(part.text())


def _write_bodies(rows: Sequence[dict[str, Any]]) -> None:
    sys.stdout.flush()
    for row in rows:
        complain_of_crc(row)
        sys.stdout.buffer.write(row["body"] or b"")


def _offsets(path: str, message: str, topic: str | None, log: CommitLog) -> list[int]:
    """Return where the messages that a text names may start, the likeliest first."""
    # A greater number is no offset, but the digits of an id, of which all may be decimal.
    if message.isdecimal() and message.isascii() and int(message) <= INT64_MAX:
        return [int(message)]
    decoded = decode_offset_msg_id(message)
    if decoded is not None:
        (row,) = read_messages(log, [decoded.phy_offset], as_stored=True)
        if is_readable(row) and row["msg_id"] == message.upper():
            return [decoded.phy_offset]
    if Location.of(path).local is None:
        lookup = command_line("lookup", path, topic or "TOPIC", message)
        raise RmqIndexError(
            f"{path}: expected an offset or an offset message id, got {message!r}: unique keys are "
            f"found in local stores alone; `{lookup}` finds it in a remote one"
        )
    return _by_unique_key(path, message, _topics(path) if topic is None else [topic], log)


def _topics(path: str) -> list[str]:
    """Return the topics under which a unique key is looked up."""
    try:
        topics = queue_topics(path)
    except RmqIndexError as error:
        raise click.BadParameter(f"needed. {error}", param_hint="--topic") from error
    if not topics:
        raise click.BadParameter("needed: no ConsumeQueue tells the topics", param_hint="--topic")
    return topics


def _indexed_store(path: Path) -> Path:
    """Return the store of a root or a ``commitlog``, by the index that finds unique keys."""
    for store in (path, path.parent):
        if (store / INDEX_FOLDER).is_dir():
            return store
        refuse_rocksdb_index(Location.of(store))
    raise RmqIndexError(
        f"{path}: expected a folder {INDEX_FOLDER}, by which a unique key is found, found none. "
        "Give the message's offset"
    )


def _by_unique_key(path: str, key: str, topics: Sequence[str], log: CommitLog) -> list[int]:
    """Find a unique key under any of some topics, in the index beside the log."""
    files = IndexSnapshot.of(_indexed_store(Path(path)), None, "FAILFAST")
    pairs = [(each, key) for each in topics]
    hashes = [key_hash(index_key(*pair)) for pair in pairs]
    verifier = Verifier("members", strict=False)
    columns = ("key_hash", "phy_offset", "position")
    found: list[int] = []
    for each in reversed(files):
        if each.is_empty:
            continue
        with each.open() as file:
            batch = file.lookup(hashes, each.stop)
        searched = SearchedFile.planned(each)
        compared = verifier.compare(log, [searched], *(batch[name].to_numpy() for name in columns))
        found += [
            offset
            for entry, (query, offset) in enumerate(
                zip(batch["query"].to_pylist(), batch["phy_offset"].to_pylist(), strict=True)
            )
            if compared.verdict(entry, *pairs[query]).state == VERIFIED
        ]
    return list(dict.fromkeys(found))
