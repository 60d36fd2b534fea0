"""``rmqindex expire``, ``relayout`` and ``recover``: what changes an existing index."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmqindex.answers.terminal import explain_interrupt, progress_bar
from rmqindex.answers.text import complain
from rmqindex.answers.writes import (
    broker_notes,
    expiry_answer,
    recovery_answer,
    relayout_answer,
)
from rmqindex.bulk.relayout import (
    expire_index,
    expired_files,
    relayout_index,
)
from rmqindex.cli.invocation import command
from rmqindex.cli.options import (
    OFFSET,
    PATH,
    SIZE,
    allow_live_option,
    allow_loss_option,
    argument,
    commit_log_option,
    dry_run_option,
    json_option,
    layout_options,
    local_zone_option,
    option,
)
from rmqindex.commitlog.snapshot import commit_log_of
from rmqindex.consumequeue.staging import QueueStaging, is_unfinished
from rmqindex.errors import RmqIndexError, command_line, counted, options_of
from rmqindex.indexfile.committed import header_of
from rmqindex.indexfile.geometry import Layout
from rmqindex.layout.store import INDEX_FOLDER
from rmqindex.storage.location import Location
from rmqindex.store.store import Store
from rmqindex.transaction.broker_lock import BrokerLock
from rmqindex.transaction.jobs import recover as recover_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from rmqindex.answers.answer import Answer, Form
    from rmqindex.transaction.directories import FileEntry

_store_argument = partial(argument, "STORE", "A local store root, or its index directory.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire:
    """Delete the IndexFiles whose messages have all expired, as the broker's expiry does.

    Files are deleted from the oldest on; the last one is always kept. A file whose header its
    entries contradict is not deleted. A broker does this itself within seconds after it deleted
    files of the CommitLog. What it has not deleted may be all that is left of files that were lost,
    so --before must name the offset. Files with entries of messages that the CommitLog still has
    are not deleted.
    """

    store: str = _store_argument()
    before: int | None = option(
        "--before",
        metavar="OFFSET",
        type=OFFSET,
        help="The offset before which messages have expired. Without it, that at which the "
        "CommitLog begins is shown, and nothing is deleted.",
    )
    commit_log: str | None = commit_log_option()
    dry_run: bool = dry_run_option()
    allow_loss: bool = allow_loss_option()
    allow_live_store: bool = allow_live_option()
    form: Form = json_option()

    def answers(self) -> Iterator[Answer]:
        """Delete the files, or refuse to."""
        store, before, commit_log = self.store, self.before, self.commit_log
        doubt = None
        if before is None:
            log = commit_log_of(store, commit_log)
            if log is None or not log.files:
                raise click.BadParameter("needed without a CommitLog", param_hint="--before")
            before = log.min_offset
            if not self.allow_loss:
                doubt = _doubt(self, before, expired_files(store, before, commit_log=commit_log))
        if doubt is not None and not self.dry_run:
            raise RmqIndexError(doubt)
        notes: list[str] = []
        if self.dry_run:
            if doubt is not None:
                complain(doubt)
            files = expired_files(
                store,
                before,
                commit_log=commit_log,
                allow_loss=self.allow_loss,
                on_loss=complain,
            )
            notes = broker_notes(Store.open(store).index)
        else:
            files = expire_index(
                store,
                before,
                commit_log=commit_log,
                allow_live_store=self.allow_live_store,
                allow_loss=self.allow_loss,
                on_loss=complain,
            )
        yield expiry_answer(store, before, files, dry_run=self.dry_run, notes=notes)


expire = command(
    "expire",
    Expire,
    "rmqindex expire store --dry-run",
    "rmqindex expire store --before 1073741824",
)


def _doubt(asked: Expire, before: int, files: Sequence[FileEntry]) -> str | None:
    """Return why files may not be deleted, though a log begins behind them; None without any."""
    if not files:
        return None
    headers = [header_of(file.path) for file in files]
    count = sum(header.entry_count for header in headers)
    first = min(header.begin_phy_offset for header in headers)
    last = max(header.end_phy_offset for header in headers)
    given = {
        "--before": before,
        "--commit-log": {"auto": None, None: "none"}.get(asked.commit_log, asked.commit_log),
        "--allow-live-store": asked.allow_live_store,
    }
    expire = command_line("expire", asked.store, options=options_of(given))
    return (
        f"{asked.store}: the CommitLog begins at offset {before}, and "
        f"{counted(len(files), 'IndexFile')} with {counted(count, 'entry', 'entries')}, "
        f"of the messages at {first} to {last}, {'is' if len(files) == 1 else 'are'} older. A "
        "broker deletes such files within seconds after the messages. Unless these have expired, "
        "the oldest files of the CommitLog are lost, and these entries are all that is left of "
        f"them: restore the files. If they have, `{expire}` deletes the IndexFiles"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Relayout:
    """Rewrite an index with a different number of slots and entries per file, all or nothing.

    Times come from the CommitLog if it still has the message. An IndexFile stores others as whole
    seconds behind its first one, up to a second early; each relayout counts them from the first one
    of another file, and may so make them up to another second earlier.
    """

    store: str = _store_argument()
    slots: int = option(
        "--slots", metavar="N", type=SIZE, required=True, help="The new maxHashSlotNum."
    )
    entries: int = option(
        "--entries",
        metavar="N",
        type=click.IntRange(2, SIZE.max),
        required=True,
        help="The new maxIndexNum.",
    )
    commit_log: str | None = commit_log_option()
    dry_run: bool = dry_run_option()
    allow_live_store: bool = allow_live_option()
    form: Form = json_option()
    time_zone: tzinfo | None = local_zone_option()
    old_layout: Layout | None = layout_options()

    def answers(self) -> Iterator[Answer]:
        """Rewrite the index."""
        store = self.store
        try:
            layout = Layout(self.slots, self.entries)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--slots, --entries") from error
        given = options_of({"--allow-live-store": self.allow_live_store})
        line = command_line("recover", store, options=given)
        interrupt = explain_interrupt(
            [_index_of(Path(Location.of(store)))], f"`{line}` undoes what was begun"
        )
        with interrupt, progress_bar("relayout") as report:
            result = relayout_index(
                store,
                layout,
                old_layout=self.old_layout,
                commit_log=self.commit_log,
                time_zone=self.time_zone,
                allow_live_store=self.allow_live_store,
                dry_run=self.dry_run,
                progress=report,
            )
        notes = broker_notes(Store.open(store).index) if self.dry_run else []
        yield relayout_answer(store, result, notes)


relayout = command(
    "relayout",
    Relayout,
    "rmqindex relayout store --slots 10000000 --entries 40000000",
    note="Then set the broker's maxHashSlotNum and maxIndexNum to the same numbers.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """Undo what an interrupted write left half done, as the next write would do.

    A write is finished instead if a broker has already continued what it brought in.

    Readers of an index do not need this; readers of ConsumeQueues refuse them until this command
    or the next rebuild has run. Run it before a broker starts on a store whose last write was
    interrupted.
    """

    store: Path = argument("STORE", "A local store root, or an index directory.", PATH)
    allow_live_store: bool = allow_live_option()
    form: Form = json_option()

    def answers(self) -> Iterator[Answer]:
        """Recover the index, and the queues of a store root."""
        given = Path(os.path.abspath(self.store))  # noqa: PTH100  (links stay)
        index = _index_of(given)
        if not given.is_dir():
            raise RmqIndexError(f"{given}: expected a store root or an index directory, got none")
        is_root = index == given and is_unfinished(given)
        lock = BrokerLock.of(given) if is_root else BrokerLock.around(index)
        with lock.hold(allow_live_store=self.allow_live_store):
            recovered = {"index": recover_index(index), "queues": None}
            if is_unfinished(given):
                with QueueStaging(given) as staging:  # which recovers as it is entered
                    recovered["queues"] = staging.recovered
        yield recovery_answer(given, recovered)


recover = command("recover", Recover, "rmqindex recover /data/rocketmq/store")


def _index_of(store: Path) -> Path:
    """Return the index directory of a store root or an index directory."""
    index = store / INDEX_FOLDER
    return index if index.is_dir() else store
