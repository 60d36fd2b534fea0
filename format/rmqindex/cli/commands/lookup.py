"""``rmqindex lookup``: where the messages with a key are."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from rmqindex.cli.keys import keys_argument, keys_file_option, keys_of
from rmqindex.cli.options import (
    COUNT,
    NOT_FOUND,
    begin_option,
    choose_output,
    command,
    commit_log_option,
    end_option,
    entries_option,
    layout_of,
    mode_option,
    path_argument,
    rows_option,
    slots_option,
    stored_body_option,
    time_range_of,
    topic_argument,
    zone_option,
)
from rmqindex.command_line import command_line
from rmqindex.commitlog.sibling import commit_log_of
from rmqindex.display.text import complain
from rmqindex.explanation.coverage import uncovered
from rmqindex.keys.hashing import index_key
from rmqindex.keys.messages import tag_key
from rmqindex.layout import DEFAULT_MAX_MSGS_NUM_BATCH, INT64_MAX
from rmqindex.output.hits import Hit
from rmqindex.output.interface import Question
from rmqindex.output.messages import is_readable, read_messages
from rmqindex.output.notes import complain_of_lacking
from rmqindex.query.many_keys import lookup_keys
from rmqindex.query.verification import VERIFIED
from rmqindex.storage.location import Location, path_text
from rmqindex.store.snapshot import IndexSnapshot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.output.interface import Zone
    from rmqindex.query.index_directory import QueryOffsetResult
    from rmqindex.store.snapshot import SnapshotFile

__all__ = ["lookup"]

# Messages that a printed command lists, instead of the few of its default.
_MANY = 1_000_000


@command(
    "lookup",
    "rmqindex lookup /data/rocketmq/store TopicTest order-49",
    "rmqindex lookup store TopicTest order-49 \\\n"
    "    --begin 2023-11-14T22:00 --end 2023-11-14T23:00",
    "rmqindex lookup store TopicTest order-49 --json | jq '.hits[].phy_offset'",
    "rmqindex lookup store TopicTest order-49 --message --max-num 1",
    "rmqindex lookup store TopicTest order-49 --broker",
    "rmqindex lookup 'brokers/*/store' TopicTest order-49",
    "rmqindex lookup store TopicTest --keys-file ids.txt --csv > found.csv",
    several=True,
    is_search=True,
)
@path_argument
@topic_argument
@keys_argument
@keys_file_option
@begin_option
@end_option
@click.option(
    "--max-num",
    metavar="N",
    type=COUNT,
    help="Return at most this many entries, the newest.",
)
@click.option(
    "--tag",
    is_flag=True,
    help="Look KEY up as the messages' tags, which brokers from 5.4.0 on index.",
)
@click.option(
    "--broker",
    is_flag=True,
    help="Answer as the broker's own search does: at most 64, and with its quirks.",
)
@click.option(
    "--message", "with_message", is_flag=True, help="Also print the messages from the CommitLog."
)
@stored_body_option
@commit_log_option
@rows_option
@zone_option
@slots_option
@entries_option
@mode_option
def lookup(
    *,
    path: str,
    topic: str,
    keys: tuple[str, ...],
    keys_file: BinaryIO | None,
    begin: str | None,
    end: str | None,
    max_num: int | None,
    tag: bool,
    broker: bool,
    with_message: bool,
    as_stored: bool,
    commit_log: str | None,
    as_json: bool,
    zone: Zone,
    max_hash_slot_num: int | None,
    max_index_num: int | None,
    mode: Mode,
) -> None:
    """Find where the messages with a key start in the CommitLog, newest first.

    An IndexFile stores a 31-bit hash of TOPIC#KEY, not its text. With a CommitLog, messages with
    other keys are left out and times are exact; without one, a hit may be a message with another
    key, and its time is truncated to whole seconds after the first entry of the file. PATH may be
    a pattern in quotes, or a folder of stores. The exit code is 1 if nothing is found.
    """
    layout = layout_of(max_hash_slot_num, max_index_num)
    asked = keys_of(keys, keys_file)
    times = time_range_of(begin, end, zone)
    questions = [
        Question(path, topic, tag_key(key) if tag else key, *times, max_num) for key in asked
    ]
    output = choose_output(as_json, zone)
    found = False
    with ExitStack() as stack:
        if broker:
            if with_message:
                raise click.BadParameter("not together with --message", param_hint="--broker")
            _check_broker(path, mode)
        log = commit_log_of(path, commit_log)
        if log is not None:
            stack.enter_context(log)
        elif with_message:
            raise click.BadParameter("needs a CommitLog, found none", param_hint="--message")
        files = IndexSnapshot.of(path, layout, mode)
        gaps = uncovered(path, files, log)
        lacking = [file.lacking for file in files if file.lacking is not None]
        untagged = _untagged(topic, asked if tag else [], files, layout, log)
        lacking += untagged
        for number, question in enumerate(questions):
            if broker:
                answer = _ask_as_the_broker(question, layout)
                others = None if answer.phy_offsets else _at_other_times(question, files, None)
                output.broker_answer(question, answer, others, gaps)
                found |= bool(answer.phy_offsets)
            else:
                hits = _search(question, files, log)
                messages = _messages(log, hits, mode, as_stored) if with_message else None
                if hits and len(questions) > 1:
                    output.heading(index_key(question.topic, question.key), is_first=not number)
                others = None if hits else _at_other_times(question, files, log)
                output.hits(question, hits, messages, others, gaps, lacking)
                found |= bool(hits)
        complain_of_lacking(files)
        for text in (*untagged, *(part.text() for part in gaps)):
            complain(text)
    if not found:
        raise click.exceptions.Exit(NOT_FOUND)


def _untagged(
    topic: str,
    tags: Sequence[str],
    files: Sequence[SnapshotFile],
    layout: Layout | None,
    log: CommitLog | None,
) -> list[str]:
    """Return what to say where the index begins with entries of brokers that index no tags."""
    if not tags or log is None or not log.files:
        return []
    from rmqindex.bulk.tags import begins_without_tags  # noqa: PLC0415  (few ask for tags)

    entries = [file.entry for file in files]
    if not begins_without_tags(entries, layout, log):
        return []
    options = ["--topic", topic, *(word for each in tags for word in ("--tag", each))]
    options += ["--limit", str(_MANY)]  # the oldest ones are listed last
    line = command_line("messages", log.files[0].path.parent, options=options)
    expected = (
        "the oldest messages have no entries of their tags, which brokers before 5.4.0 do not"
    )
    return [f"{entries[0].path.parent}: {expected} index; `{line}` reads the CommitLog for them"]


def _search(question: Question, files: Sequence[SnapshotFile], log: CommitLog | None) -> list[Hit]:
    """Return the entries of a key, newest first, without those of other keys if a log tells."""
    table = lookup_keys(
        files,
        log,
        question.topic,
        pa.array([question.key], pa.string()),
        begin=question.begin,
        end=question.end,
        max_num=question.max_num,
    )
    paths = {path_text(planned.entry.name): planned.entry.path for planned in files}
    columns = (
        table["file"],
        table["position"],
        table["phy_offset"],
        table["store_timestamp"].cast(pa.int64()),
        table["match_state"],
    )
    return [
        Hit(paths[name], name, *rest)
        for name, *rest in zip(*(column.to_pylist() for column in columns), strict=True)
    ]


def _at_other_times(
    question: Question, files: Sequence[SnapshotFile], log: CommitLog | None
) -> int | None:
    """Return how many entries a question without its bounds of time finds; None without bounds."""
    if question.begin is None and question.end is None:
        return None
    return len(_search(replace(question, begin=None, end=None, max_num=None), files, log))


def _check_broker(path: str, mode: Mode) -> None:
    """Refuse what a broker cannot search."""
    if mode != "FAILFAST":
        raise click.BadParameter("not together with --mode", param_hint="--broker")
    if Location.of(path).local is None:
        raise click.BadParameter("only for a local directory", param_hint="--broker")


def _ask_as_the_broker(question: Question, layout: Layout | None) -> QueryOffsetResult:
    """Answer with the broker's own search."""
    from rmqindex.query.index_directory import IndexDirectory  # noqa: PLC0415  (few ask for it)

    local = Location.of(question.path).local
    assert local is not None  # _check_broker
    limit = DEFAULT_MAX_MSGS_NUM_BATCH if question.max_num is None else question.max_num
    end = INT64_MAX if question.end is None else question.end
    with IndexDirectory(local, layout) as directory:
        return directory.query_offset(question.topic, question.key, limit, question.begin or 0, end)


def _messages(
    log: CommitLog | None,
    hits: list[Hit],
    mode: Mode,
    as_stored: bool,
) -> list[dict[str, Any] | None]:
    """Return the message of each hit, None unless it is the key's and in the log."""
    if log is None or not hits:
        return [None] * len(hits)
    offsets = [hit.phy_offset for hit in hits]
    rows = read_messages(log, offsets, mode=mode, as_stored=as_stored)
    return [
        row if hit.state == VERIFIED and is_readable(row) else None
        for hit, row in zip(hits, rows, strict=True)
    ]
