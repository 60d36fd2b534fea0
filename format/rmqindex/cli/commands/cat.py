"""``rmqindex cat``: one message from the CommitLog."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmqindex.answers.answer import NOT_FOUND, Answer, Nothing
from rmqindex.answers.messages import (
    add_consumption,
    complain_of_crc,
    is_readable,
    messages_answer,
    read_messages,
)
from rmqindex.answers.text import complain, complain_of_missing
from rmqindex.cli.invocation import command, several_named
from rmqindex.cli.options import (
    TEXT,
    argument,
    mode_option,
    option,
    rows_options,
    stored_body_option,
    zone_option,
)
from rmqindex.commitlog import damage_at, missing_parts
from rmqindex.commitlog.log import CommitLog
from rmqindex.consumequeue.paths import queue_topics
from rmqindex.errors import RmqIndexError, command_line
from rmqindex.explanation import uncovered
from rmqindex.keys.hashing import index_key, key_hash
from rmqindex.layout.index_file import INT64_MAX
from rmqindex.layout.store import INDEX_FOLDER
from rmqindex.query.message_keys import SearchedFile
from rmqindex.query.verification import VERIFIED, Verifier
from rmqindex.record.message_ids import decode_offset_msg_id
from rmqindex.storage.location import Location
from rmqindex.store.contents import refuse_rocksdb_index
from rmqindex.store.snapshot import IndexSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqindex.answers.answer import Form, Row, Zone
    from rmqindex.indexfile.entries import Mode

# The states of entries whose messages damage may have taken.
_OF_DAMAGE = ("not_a_record", "beyond_end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cat:
    """Print a message from the CommitLog: its fields, properties and decompressed body.

    It is said whether the message is in its ConsumeQueue, and which consumer groups have passed
    it. A unique key (the message id that clients show) is found through the index. The exit code
    is 1 if there is no such message, and 2 where the CommitLog is damaged in its place.
    """

    path: str = argument(
        "PATH...",
        "Store roots or commitlog directories, or several of one broker separated by commas; a "
        "pattern in quotes, or a folder of stores.",
        several=True,
    )
    message: str = argument(
        "OFFSET|MSGID", "A CommitLog offset, an offset message id, or a unique key.", TEXT
    )
    topic: str | None = option(
        "--topic",
        metavar="TOPIC",
        type=TEXT,
        help="The topic of a unique key; by default every topic that has a ConsumeQueue is "
        "searched.",
    )
    raw: bool = option("--raw", is_flag=True, help="Write only the body, byte for byte.")
    as_stored: bool = stored_body_option()
    form: Form = rows_options()
    zone: Zone = zone_option()
    mode: Mode = mode_option()

    def answers(self) -> Iterator[Answer]:
        """Read the message, or explain why there is none."""
        if self.raw and self.form != "text":
            raise click.BadParameter(f"not together with --{self.form}", param_hint="--raw")
        if self.raw and several_named():
            raise click.BadParameter("only for one store", param_hint="--raw")
        with CommitLog(self.path) as log:
            offsets = self._offsets(log)
            rows = read_messages(log, offsets, mode=self.mode, as_stored=self.as_stored)
            why = _why_not(rows[0]["state"] if rows else "", log)
            if not rows:
                self._complain_of_index(log)
            elif not is_readable(rows[0]):
                missing = missing_parts(log, self.path, start=offsets[0])
                complain_of_missing(missing, is_read=False)
                why = self._damage(log, offsets[0]) or why
        readable = [row for row in rows if is_readable(row)]
        if not readable:
            nothing = (self.path, Nothing(f"no message {self.message}: {why}"))
            empty = Answer() if self.raw else messages_answer([], self.zone)
            yield replace(empty, nothing=nothing, is_told=True, exit_code=NOT_FOUND)
        elif self.raw:
            _write_bodies(readable)
        else:
            add_consumption(log, readable)
            yield messages_answer(readable, self.zone)

    def _damage(self, log: CommitLog, offset: int) -> str | None:
        """Raise, or tell, the damage in which a message may have been; None if there is none."""
        damage = damage_at(log, offset) if log.min_offset <= offset else None
        if damage is None:
            return None
        if self.mode == "FAILFAST":
            raise damage
        complain(str(damage))
        return "the CommitLog is damaged there"

    def _complain_of_index(self, log: CommitLog) -> None:
        """Explain a missing unique key by gaps in the index."""
        store = _indexed_store(Path(Location.of(self.path)))
        for part in uncovered(store, IndexSnapshot.of(store, None, "FAILFAST"), log):
            complain(part.text())

    def _offsets(self, log: CommitLog) -> list[int]:
        """Return where the messages that a text names may start, the likeliest first."""
        path, message = self.path, self.message
        # A greater number is no offset, but the digits of an id, of which all may be decimal.
        if message.isdecimal() and message.isascii() and int(message) <= INT64_MAX:
            return [int(message)]
        decoded = decode_offset_msg_id(message)
        if decoded is not None:
            (row,) = read_messages(log, [decoded.phy_offset], as_stored=True)
            if is_readable(row) and row["msg_id"] == message.upper():
                return [decoded.phy_offset]
        if Location.of(path).local is None:
            lookup = command_line("lookup", path, self.topic or "TOPIC", message)
            raise RmqIndexError(
                f"{path}: expected an offset or an offset message id, got {message!r}: unique keys "
                f"are found in local stores alone; `{lookup}` finds it in a remote one"
            )
        topics = _topics(path) if self.topic is None else [self.topic]
        return _by_unique_key(path, message, topics, log)


cat = command(
    "cat",
    Cat,
    "rmqindex cat store 112033",
    "rmqindex cat store 0A00000100002A9F000000000001B5A1",
    "rmqindex cat store BE2A3B1D0F1E56FBFD39200400000560 --topic TopicTest",
    "rmqindex cat store 112033 --raw > body.bin",
    "rmqindex cat 'brokers/*/store' BE2A3B1D0F1E56FBFD39200400000560 --csv",
    several="store",
    is_search=True,
)


def _why_not(state: str, log: CommitLog) -> str:
    """Return why there is no message, by the state that its offset has, if one is known."""
    if state == "expired":
        return f"it has expired, the CommitLog begins at {log.min_offset}"
    if state == "beyond_end":
        return f"the CommitLog ends at {log.max_offset}"
    if state == "missing":
        return "the file of the CommitLog that should have it is missing"
    if state == "not_a_record":
        return "none starts at this byte; the command messages shows where messages start"
    return "the index leads to no message with this unique key"


def _write_bodies(rows: Sequence[Row]) -> None:
    sys.stdout.flush()
    for row in rows:
        complain_of_crc(row)
        sys.stdout.buffer.write(row["body"] or b"")


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
    """Return the offsets of a unique key under some topics, by the index beside the log.

    Without any, those of entries of its hash that lead into damage.
    """
    files = IndexSnapshot.of(_indexed_store(Path(Location.of(path))), None, "FAILFAST")
    pairs = [(topic, key) for topic in topics]
    hashes = [key_hash(index_key(*pair)) for pair in pairs]
    verifier = Verifier("members", strict=False)
    columns = ("key_hash", "phy_offset", "position")
    offsets: list[int] = []
    others: list[int] = []
    for listed in reversed(files):
        if listed.is_empty:
            continue
        with listed.open() as file:
            batch = file.lookup(hashes, listed.stop)
        searched = SearchedFile.planned(listed)
        compared = verifier.compare(log, [searched], *(batch[name].to_numpy() for name in columns))
        for entry, (query, offset) in enumerate(
            zip(batch["query"].to_pylist(), batch["phy_offset"].to_pylist(), strict=True)
        ):
            state = compared.verdict(entry, *pairs[query]).state
            if state in (VERIFIED, *_OF_DAMAGE):
                (offsets if state == VERIFIED else others).append(offset)
    if not offsets:
        offsets = [offset for offset in others if damage_at(log, offset) is not None]
    return list(dict.fromkeys(offsets))
