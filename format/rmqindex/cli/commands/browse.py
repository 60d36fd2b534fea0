"""``rmqindex messages``, ``usage`` and ``dump``: what is in a store, without a key."""

from __future__ import annotations

import re
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import click

from rmqindex.answers.answer import BAD, Answer
from rmqindex.answers.contents import dump_answer, key_usage_answer, usage_answer
from rmqindex.answers.messages import (
    LISTED,
    add_consumption,
    followed_answer,
    message_list_answer,
    read_messages,
    topic_hint,
)
from rmqindex.answers.terminal import progress_bar
from rmqindex.answers.text import complain, complain_of_lacking, complain_of_missing
from rmqindex.cli.invocation import command, several_named
from rmqindex.cli.options import (
    COUNT,
    OFFSET,
    argument,
    commit_log_option,
    layout_options,
    logs_argument,
    mode_option,
    option,
    rows_options,
    selection_options,
    stored_body_option,
    zone_option,
)
from rmqindex.cli.streams import ensure_output_is_read
from rmqindex.commitlog import missing_parts
from rmqindex.commitlog.log import CommitLog
from rmqindex.commitlog.selection import newest_messages
from rmqindex.errors import RmqIndexError
from rmqindex.export.dump import dump_file
from rmqindex.messagestore.following import Follower
from rmqindex.query.key_usage import (
    KEY_GROUPS,
    KEY_ROWS,
    listed_index,
    log_of,
    measure_keys,
    store_of,
)
from rmqindex.query.usage import GROUPS, folder_usage, measure_usage, with_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rmqindex.answers.answer import Form, Row, Zone
    from rmqindex.commitlog import MissingPart
    from rmqindex.commitlog.selection import Selection
    from rmqindex.errors import CorruptCommitLogError
    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.storage.location import PathLike
    from rmqindex.store.store import Store

_LIMIT = 20
_INTERVAL = re.compile(r"[0-9]{1,5}(?:\.[0-9]{1,3})?")
_LEAST_INTERVAL = 0.1


def _parse_interval(_ctx: click.Context, _param: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    if not _INTERVAL.fullmatch(text) or float(text) < _LEAST_INTERVAL:
        raise click.BadParameter(f"expected seconds from 0.1 to 99999, such as 2.5, got {text!r}")
    return float(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """List messages from the CommitLog, those with the highest offsets first.

    No index is needed. The log is read from its end, until there are enough messages; a selection
    that few messages meet may need all of it. The exit code is 1 if no message is found.

    With --follow, messages are printed as a broker appends them, until Ctrl-C (exit code 130) or
    --limit: from now on, or after those that are there from --begin, --since or --from on. Of a log
    that a broker cuts as it starts again, and of files that expire unread, standard error tells; no
    message comes twice. With DLedger, one comes once the group has agreed on it.
    """

    store: str = logs_argument()
    selection: Selection = selection_options()
    limit: int | None = option(
        "--limit",
        metavar="N",
        type=COUNT,
        help=f"Print at most this many messages; {_LIMIT} by default, with --follow any number.",
    )
    follow: bool = option(
        "--follow", "-f", is_flag=True, help="Go on with messages as they are appended."
    )
    interval: float | None = option(
        "--interval",
        metavar="SECONDS",
        callback=_parse_interval,
        help="With --follow: look for new messages this often; every second by default.",
    )
    body: bool = option("--body", is_flag=True, help="Also print properties and bodies.")
    as_stored: bool = stored_body_option()
    form: Form = rows_options()
    zone: Zone = zone_option()
    mode: Mode = mode_option()

    def answers(self) -> Iterator[Answer]:
        """Read the log backward, or follow it."""
        selection = self.selection
        if self.follow:
            yield from self._followed()
            return
        if self.interval is not None:
            raise click.BadParameter("only with --follow", param_hint="--interval")
        with CommitLog(self.store) as log, progress_bar("read") as report:
            missing = missing_parts(log, self.store, start=selection.start, stop=selection.stop)
            complain_of_missing(missing)
            table = newest_messages(
                log,
                selection,
                LISTED,
                _LIMIT if self.limit is None else self.limit,
                mode=self.mode,
                on_malformed=_complain_of,
                progress=report,
            )
            rows: list[Row] = table.to_pylist()
            if self.body:
                offsets = table["phy_offset"].to_pylist()
                rows = read_messages(log, offsets, mode=self.mode, as_stored=self.as_stored)
                add_consumption(log, rows)
        hint = "" if rows else topic_hint(self.store, selection.topics)
        yield message_list_answer(self.store, rows, missing, self.zone, whole=self.body, hint=hint)

    def _followed(self) -> Iterator[Answer]:
        """Read the log forward, again and again."""
        selection, left = self.selection, self.limit
        for name, bound in (("--end", selection.end), ("--to", selection.stop)):
            if bound is not None:
                raise click.BadParameter("not together with --follow", param_hint=name)
        if several_named():
            raise click.BadParameter("expected one STORE, got several", param_hint="--follow")
        follower = Follower(self.store, selection, LISTED, mode=self.mode, tell=complain)
        if hint := topic_hint(self.store, selection.topics):
            complain(f"{self.store}: waiting for messages{hint}")
        is_first = True
        while True:
            for log, batch in follower.poll():
                rows: list[Row] = batch.slice(0, left).to_pylist()
                if self.body:
                    offsets = [row["phy_offset"] for row in rows]
                    rows = read_messages(log, offsets, mode=self.mode, as_stored=self.as_stored)
                    add_consumption(log, rows)
                yield followed_answer(rows, self.zone, whole=self.body, is_first=is_first)
                is_first = False
                left = None if left is None else left - len(rows)
                if left == 0:
                    return
            sys.stdout.flush()
            ensure_output_is_read()
            time.sleep(1 if self.interval is None else self.interval)


messages = command(
    "messages",
    Messages,
    "rmqindex messages store --topic TopicTest",
    "rmqindex messages store --topic TopicTest --queue 0 --limit 5 --body",
    "rmqindex messages store --tag TagA --begin 2023-11-14T22:00 --json",
    "rmqindex messages store --limit 1000 --csv > newest.csv",
    "rmqindex messages store --topic TopicTest --follow",
    "rmqindex messages store --since 10m --follow --json | jq .keys",
    several="store",
    is_search=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Show what fills the disk and crowds the index: messages, bytes and entries.

    They are counted by topic, queue and hour, or by key or tag, the hottest first; hours come in
    their order. Sizes are those of the messages in the CommitLog. Below them is what each folder of
    a local store takes, other files included. Of a key, the chain of its slot is shown, too, which
    a lookup of any key of the slot walks. An IndexFile or an index directory without a CommitLog
    has no keys: their hashes are counted.
    """

    store: str = argument(
        "STORE...",
        "Store roots, index directories, IndexFiles, or log files or directories; a pattern in "
        "quotes, or a folder of stores.",
        several=True,
    )
    by: tuple[str, ...] = option(
        "--by",
        metavar="GROUP",
        type=click.Choice((*GROUPS, *KEY_GROUPS)),
        multiple=True,
        help="What to count by: topic, queue or hour, which may be repeated, or key or tag; by "
        "default topic, or key without a CommitLog.",
    )
    selection: Selection = selection_options()
    limit: int | None = option(
        "--limit",
        metavar="N",
        type=COUNT,
        help=f"Print at most N rows; of keys and tags, by default {KEY_ROWS}.",
    )
    commit_log: str | None = commit_log_option()
    form: Form = rows_options()
    zone: Zone = zone_option()
    layout: Layout | None = layout_options()
    mode: Mode = mode_option()

    def answers(self) -> Iterator[Answer]:
        """Read the log and the index."""
        key_groups = [name for name in self.by if name in KEY_GROUPS]
        if key_groups and len(set(self.by)) > 1:
            raise click.BadParameter(f"{key_groups[0]} stands alone", param_hint="--by")
        store = store_of(self.store)
        log, path = log_of(self.store, store, self.commit_log)
        with log or nullcontext(), progress_bar("read") as report:
            missing = self._missing(log, path)
            by = self.by or (("topic",) if log else ("key",))
            if by[0] in KEY_GROUPS:
                yield self._keys(by[0], store, log, missing, report)
            elif log is None:
                raise RmqIndexError(
                    f"{self.store}: expected a CommitLog to count by {by[0]}, found none; "
                    "--by key counts the entries by the hashes of their keys"
                )
            else:
                yield self._groups(by, store, log, missing, report)

    def _keys(
        self,
        by: str,
        store: Store | None,
        log: CommitLog | None,
        missing: Sequence[MissingPart],
        report: Callable[[int, int], None],
    ) -> Answer:
        files = listed_index(store, self.layout, self.mode)
        complain_of_lacking(files or ())
        measured = measure_keys(
            files,
            log,
            "tag" if by == "tag" else "key",
            self.selection,
            limit=self.limit or KEY_ROWS,
            mode=self.mode,
            on_malformed=_complain_of,
            progress=report,
        )
        hint = "" if measured.rows else topic_hint(self.store, self.selection.topics)
        notes = [f"no message matches{hint}"] if hint else []
        return key_usage_answer(self.store, by, measured, missing, notes)

    def _groups(
        self,
        by: tuple[str, ...],
        store: Store | None,
        log: CommitLog,
        missing: Sequence[MissingPart],
        report: Callable[[int, int], None],
    ) -> Answer:
        measured = measure_usage(
            log,
            by,
            self.selection,
            mode=self.mode,
            on_malformed=_complain_of,
            progress=report,
        )
        notes = []
        try:
            files = listed_index(store, self.layout, self.mode)
            if files is not None:
                complain_of_lacking(files)
                measured = with_entries(measured, files, log, by, self.selection)
        except RmqIndexError as error:  # what fills the disk is told without an index
            notes.append(f"the entries are not counted: {error}")
        if not measured.rows and (hint := topic_hint(self.store, self.selection.topics)):
            notes.append(f"no message matches{hint}")
        folders = folder_usage(self.store, complain)
        return usage_answer(
            self.store, by, measured, folders, missing, self.limit, self.zone, notes
        )

    def _missing(self, log: CommitLog | None, path: PathLike) -> tuple[MissingPart, ...]:
        if log is None:
            return ()
        selection = self.selection
        missing = missing_parts(log, path, start=selection.start, stop=selection.stop)
        complain_of_missing(missing)
        return missing


usage = command(
    "usage",
    Usage,
    "rmqindex usage /data/rocketmq/store",
    "rmqindex usage store --by topic --by queue --limit 20",
    "rmqindex usage store --by key",
    "rmqindex usage store --by tag --topic TopicTest --json",
    "rmqindex usage store/index/20231114221320000",
    "rmqindex usage store --by hour --topic TopicTest --time-zone Asia/Shanghai",
    "rmqindex usage store --csv > usage.csv",
    several="store",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """Find out what a file is, and show its fields: byte, size, name and value.

    Known are IndexFiles, files of CommitLogs, ConsumeQueues and DLedger, the checkpoint, the abort
    file and the JSON of config/; other files are shown as hex. A damaged file is shown up to the
    damage, whose byte is named; the exit code is then 2.
    """

    file: str = argument("FILE...", "Any files of a store, or a pattern in quotes.", several=True)
    offset: int = option(
        "--offset",
        metavar="BYTE",
        type=OFFSET,
        default=0,
        help="Begin at this byte of the file, with the item that holds it.",
    )
    limit: int = option(
        "--limit",
        metavar="N",
        type=COUNT,
        default=10,
        show_default=True,
        help="Print at most this many items: records, entries, slots, units or lines.",
    )
    form: Form = rows_options()
    layout: Layout | None = layout_options()

    def answers(self) -> Iterator[Answer]:
        """Decode the items as they are written, up to the damage."""
        dumped = dump_file(self.file, self.offset, self.layout)
        yield dump_answer(dumped, islice(dumped.items, self.limit))
        if dumped.error is not None:
            yield Answer(notes=(dumped.error,), exit_code=BAD)


dump = command(
    "dump",
    Dump,
    "rmqindex dump store/index/20231114221320000",
    "rmqindex dump store/commitlog/00000000000000000000 --offset 112033 --limit 1",
    "rmqindex dump store/consumequeue/TopicTest/0/00000000000000000000 --csv",
    "rmqindex dump store/checkpoint --json",
    "rmqindex dump brokers/*/store/checkpoint",
    several="file",
)


def _complain_of(error: CorruptCommitLogError) -> None:
    complain(str(error))
