"""``rmqindex rebuild`` and ``rebuild-queues``: what a CommitLog is enough to make."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmqindex.answers.messages import topic_hint
from rmqindex.answers.terminal import explain_interrupt, progress_bar
from rmqindex.answers.text import complain, complain_of_missing
from rmqindex.answers.writes import broker_notes, queue_rebuild_answer, rebuild_answer
from rmqindex.bulk.rebuild import rebuild_index
from rmqindex.cli.invocation import command, typed_options
from rmqindex.cli.options import (
    PATH,
    SIZE,
    TEXT,
    allow_live_option,
    allow_loss_option,
    dry_run_option,
    json_option,
    layout_options,
    local_zone_option,
    log_argument,
    mode_option,
    offset_options,
    option,
)
from rmqindex.commitlog import CommitLog, missing_parts
from rmqindex.consumequeue.rebuild import rebuild_consume_queues
from rmqindex.errors import command_line, options_of
from rmqindex.layout.queue import DEFAULT_BATCH_FILE_SIZE, DEFAULT_DELAY_LEVELS, DEFAULT_FILE_SIZE
from rmqindex.layout.store import BATCH_FOLDER, COMMITLOG_FOLDER, INDEX_FOLDER, QUEUE_FOLDER
from rmqindex.storage.location import Location
from rmqindex.store.dledger import dledger_data

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from rmqindex.answers.answer import Answer, Form
    from rmqindex.errors import CorruptCommitLogError
    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.geometry import Layout

_out_option = partial(option, "--out", metavar="DIR", type=PATH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """Rebuild an index from its CommitLog, byte for byte as the broker writes it.

    A broker cannot do this itself. Stop it first. Geometry and tags are taken from the existing
    files; if there are none, give the broker's geometry. Use --resume to continue an interrupted
    rebuild. With --replace, entries that only the old files have are kept if their messages have
    expired, and left out, with their number, if they lead to no message with their key; a loss of
    any others is refused.
    """

    store: str = log_argument()
    out: Path | None = _out_option(help="The index directory to write; by default STORE/index.")
    offsets: tuple[int | None, int | None] = offset_options()
    resume: bool = option(
        "--resume",
        is_flag=True,
        help="Continue after the last entry, for example after an interrupted rebuild.",
    )
    replace: bool = option(
        "--replace",
        is_flag=True,
        help="Replace the existing files, in one step when the new ones are complete.",
    )
    index_tags: bool | None = option(
        "--index-tags/--no-index-tags",
        default=None,
        help="Whether to index tags, as brokers from 5.4.0 on do. By default as the existing files "
        "show; without files, if the store has the folder rocksdbstore, which these brokers make.",
    )
    checkpoint: bool | None = option(
        "--checkpoint/--no-checkpoint",
        default=None,
        help="Raise the checkpoint of the store, so that a broker keeps the files after a crash. "
        "By default only in the index of a store on which no broker runs.",
    )
    dry_run: bool = dry_run_option()
    allow_loss: bool = allow_loss_option()
    allow_live_store: bool = allow_live_option()
    form: Form = json_option()
    time_zone: tzinfo | None = local_zone_option()
    layout: Layout | None = layout_options()
    mode: Mode = mode_option()

    def answers(self) -> Iterator[Answer]:
        """Rebuild the index."""
        store, (start, stop) = self.store, self.offsets
        target = _local(store) / INDEX_FOLDER if self.out is None else self.out
        if self.resume and (self.replace or start is not None):
            raise click.BadParameter("not together with --replace or --from", param_hint="--resume")
        if self.dry_run and not self.replace:
            raise click.BadParameter(
                "only with --replace; a rebuild without it deletes nothing", param_hint="--dry-run"
            )
        if self.layout is not None and not self.layout.capacity:
            raise click.BadParameter(
                f"expected at least 2 to index messages, got {self.layout.index_num}",
                param_hint="--max-index-num",
            )
        _require_out("rebuild", store, self.out)
        interrupt = explain_interrupt([target], "--resume continues what was begun")
        with interrupt, CommitLog(store) as log, progress_bar("rebuild") as report:
            # Told before, since a refusal, too, may come of it.
            complain_of_missing(missing_parts(log, store, start=start, stop=stop), "the new index")
            begin = log.min_offset if start is None else start
            result = rebuild_index(
                log,
                target,
                self.layout,
                start=start,
                stop=stop,
                resume=self.resume,
                replace=self.replace,
                index_tags="auto" if self.index_tags is None else self.index_tags,
                checkpoint="auto" if self.checkpoint is None else self.checkpoint,
                time_zone=self.time_zone,
                allow_live_store=self.allow_live_store,
                allow_loss=self.allow_loss,
                dry_run=self.dry_run,
                mode=self.mode,
                on_malformed=_complain_of,
                progress=lambda done, total: report(done - begin, total - begin),
            )
        notes = broker_notes(target) if self.dry_run else []
        yield rebuild_answer(target, result, notes)
        if result.refusal is not None:
            raise result.refusal


rebuild = command(
    "rebuild",
    Rebuild,
    "rmqindex rebuild /data/rocketmq/store",
    "rmqindex rebuild store --resume",
    "rmqindex rebuild store --replace \\\n    --max-hash-slot-num 5000000 --max-index-num 20000000",
    "rmqindex rebuild backup/store --out /tmp/index \\\n    --from 1073741824 --to 2147483648",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildQueues:
    """Rebuild ConsumeQueues from a CommitLog, in the broker's folders, files and bytes.

    Stop the broker first. The new queues take their place when all of them are complete; an
    interrupted rebuild leaves the old queues unchanged, and starts from the beginning when it is
    run again. New queues that lack units of the old ones are refused, unless --allow-loss is given.
    """

    store: str = log_argument()
    out: Path | None = _out_option(
        help="The store root in which to write consumequeue/ and batchconsumequeue/; by default "
        "STORE.",
    )
    offsets: tuple[int | None, int | None] = offset_options()
    replace: bool = option(
        "--replace",
        is_flag=True,
        help="Replace all existing queues when the new ones are complete.",
    )
    file_size: int | None = option(
        "--file-size",
        metavar="BYTES",
        type=SIZE,
        help="The broker's mappedFileSizeConsumeQueue. By default that of the existing queues, "
        f"else {DEFAULT_FILE_SIZE}.",
    )
    batch_file_size: int | None = option(
        "--batch-file-size",
        metavar="BYTES",
        type=SIZE,
        help="The broker's mapperFileSizeBatchConsumeQueue. By default that of the existing "
        f"queues, else {DEFAULT_BATCH_FILE_SIZE}.",
    )
    batch_topics: tuple[str, ...] = option(
        "--batch-topic",
        metavar="TOPIC",
        type=TEXT,
        multiple=True,
        help="A topic with batch queues. Those that config/topics.json names are known, and "
        "without this file those that have batch queues, or inner batches in the log. May be "
        "repeated.",
    )
    leave_out: tuple[str, ...] = option(
        "--leave-out",
        metavar="TOPIC",
        type=TEXT,
        multiple=True,
        help="A topic that gets no queues, such as one that was deleted. May be repeated.",
    )
    delay_levels: str | None = option(
        "--delay-levels",
        metavar="LEVELS",
        help="The broker's messageDelayLevel, for what the present queues do not show. Default: "
        f"{DEFAULT_DELAY_LEVELS}.",
    )
    mend_due_times: bool = option(
        "--mend-due-times",
        is_flag=True,
        help="Let few delayed messages that are due otherwise than those of their level before and "
        "behind them be due as those.",
    )
    multi_dispatch: bool = option(
        "--multi-dispatch/--no-multi-dispatch",
        default=True,
        show_default=True,
        help="The broker's enableMultiDispatch: also fill the light queues that messages name.",
    )
    allow_loss: bool = allow_loss_option()
    dry_run: bool = dry_run_option()
    allow_live_store: bool = allow_live_option()
    form: Form = json_option()
    mode: Mode = mode_option()

    def answers(self) -> Iterator[Answer]:
        """Rebuild the queues."""
        store, (start, stop) = self.store, self.offsets
        root = _local(store) if self.out is None else self.out
        _require_out("rebuild-queues", store, self.out)
        queues = [root / name for name in (QUEUE_FOLDER, BATCH_FOLDER)]
        given = options_of({"--allow-live-store": self.allow_live_store})
        recover = command_line("recover", root, options=given)
        interrupt = explain_interrupt(queues, f"`{recover}` undoes what was begun")
        with interrupt, CommitLog(store) as log, progress_bar("rebuild") as report:
            complain_of_missing(missing_parts(log, store, start=start, stop=stop), "the new queues")
            begin = log.min_offset if start is None else start
            try:
                result = rebuild_consume_queues(
                    log,
                    root,
                    start=start,
                    stop=stop,
                    file_size=self.file_size,
                    batch_file_size=self.batch_file_size,
                    delay_levels=self.delay_levels,
                    mend_due_times=self.mend_due_times,
                    batch_topics=self.batch_topics,
                    multi_dispatch=self.multi_dispatch,
                    leave_out=self.leave_out,
                    allow_loss=self.allow_loss,
                    dry_run=self.dry_run,
                    replace=self.replace,
                    allow_live_store=self.allow_live_store,
                    mode=self.mode,
                    on_malformed=_complain_of,
                    progress=lambda done, total: report(done - begin, total - begin),
                )
            except ValueError as error:
                name, _, wrong = str(error).partition(": ")
                if name not in ("file_size", "batch_file_size", "delay_levels"):
                    raise
                option = f"--{name.replace('_', '-')}"
                raise click.BadParameter(wrong, param_hint=option) from error
        for topic in sorted({*self.leave_out} - {*result.left_out}):
            complain(f"--leave-out {topic}: no message is of it{topic_hint(str(root), [topic])}")
        notes = broker_notes(queues[0]) if self.dry_run else []
        yield queue_rebuild_answer(root, result, notes)
        if result.refusal is not None:
            raise result.refusal


rebuild_queues = command(
    "rebuild-queues",
    RebuildQueues,
    "rmqindex rebuild-queues /data/rocketmq/store",
    "rmqindex rebuild-queues store --replace",
    "rmqindex rebuild-queues store --replace --dry-run",
    "rmqindex rebuild-queues backup/store --out /tmp/store --file-size 6000000",
)


def _require_out(name: str, store: str, out: Path | None) -> None:
    """Raise unless a rebuild has a place to write to: ``--out``, or a store root."""
    if out is not None or (_local(store) / COMMITLOG_FOLDER).is_dir():
        return
    if dledger_data(Location.of(store)) is not None:
        return
    CommitLog(store).close()  # it refuses what is no log either
    if Location.of(store).local is None:
        # There is nothing in it to replace, or to continue.
        given = typed_options("--replace", "--resume", "--dry-run", "--allow-loss")
        again = command_line(name, store, options=["--out", "DIR", *given])
        where = f"{INDEX_FOLDER}/ of the store" if name == "rebuild" else "the store"
        raise click.BadParameter(
            f"needed, since only a local directory can be written: `{again}`; then copy what is in "
            f"DIR to {where}, while no broker uses it",
            param_hint="--out",
        )
    raise click.BadParameter(
        f"needed, since {store} is not a store root, which has {COMMITLOG_FOLDER}/",
        param_hint="--out",
    )


def _local(store: str) -> Path:
    """Return the local path of a store, also of a ``file:`` URI."""
    return Path(Location.of(store))


def _complain_of(error: CorruptCommitLogError) -> None:
    complain(str(error))
