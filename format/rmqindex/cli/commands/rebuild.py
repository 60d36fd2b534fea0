"""``rmqindex rebuild`` and ``rebuild-queues``: what a CommitLog is enough to make."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmqindex.audit import missing_parts
from rmqindex.bulk.rebuild import rebuild_index
from rmqindex.cli.options import (
    PATH,
    SIZE,
    TEXT,
    allow_live_option,
    allow_loss_option,
    choose_output,
    command,
    complain_of_broker,
    dry_run_option,
    entries_option,
    from_option,
    json_option,
    layout_of,
    local_zone_option,
    log_argument,
    mode_option,
    offset_range_of,
    slots_option,
    to_option,
    told_if_interrupted,
)
from rmqindex.command_line import command_line
from rmqindex.commitlog.log import CommitLog
from rmqindex.consumequeue.rebuild import rebuild_consume_queues
from rmqindex.display.terminal import progress_bar
from rmqindex.display.text import complain
from rmqindex.folders import BATCH_FOLDER, COMMITLOG_FOLDER, INDEX_FOLDER, QUEUE_FOLDER
from rmqindex.output.notes import complain_of_missing
from rmqindex.queue_layout import DEFAULT_BATCH_FILE_SIZE, DEFAULT_DELAY_LEVELS, DEFAULT_FILE_SIZE
from rmqindex.storage.location import Location
from rmqindex.store.dledger import dledger_data

if TYPE_CHECKING:
    from datetime import tzinfo

    from rmqindex.errors import CorruptCommitLogError
    from rmqindex.indexfile.entries import Mode

__all__ = ["rebuild", "rebuild_queues"]


@command(
    "rebuild",
    "rmqindex rebuild /data/rocketmq/store",
    "rmqindex rebuild store --resume",
    "rmqindex rebuild store --replace \\\n    --max-hash-slot-num 5000000 --max-index-num 20000000",
    "rmqindex rebuild backup/store --out /tmp/index \\\n    --from 1073741824 --to 2147483648",
)
@log_argument
@click.option(
    "--out", metavar="DIR", type=PATH, help="The index directory to write; by default STORE/index."
)
@from_option
@to_option
@click.option(
    "--resume",
    is_flag=True,
    help="Continue after the last entry, for example after an interrupted rebuild.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Replace the existing files, in one step when the new ones are complete.",
)
@click.option(
    "--index-tags/--no-index-tags",
    default=None,
    help="Whether to index tags, as brokers from 5.4.0 on do. By default as the existing files "
    "show; without files, if the store has the folder rocksdbstore, which these brokers make.",
)
@click.option(
    "--checkpoint/--no-checkpoint",
    default=None,
    help="Raise the checkpoint of the store, so that a broker keeps the files after a crash. By "
    "default only in the index of a store on which no broker runs.",
)
@dry_run_option
@allow_loss_option
@allow_live_option
@json_option
@local_zone_option
@slots_option
@entries_option
@mode_option
def rebuild(
    *,
    store: str,
    out: Path | None,
    from_offset: int | None,
    to_offset: int | None,
    resume: bool,
    replace: bool,
    index_tags: bool | None,
    checkpoint: bool | None,
    dry_run: bool,
    allow_loss: bool,
    allow_live_store: bool,
    as_json: bool,
    time_zone: tzinfo,
    max_hash_slot_num: int | None,
    max_index_num: int | None,
    mode: Mode,
) -> None:
    """Rebuild an index from its CommitLog, byte for byte as the broker writes it.

    A broker cannot do this itself. Stop it first. Geometry and tags are taken from the existing
    files; if there are none, give the broker's geometry. Use --resume to continue an interrupted
    rebuild. With --replace, entries that only the old files have are kept if their messages have
    expired; a loss of any others is refused.
    """
    layout = layout_of(max_hash_slot_num, max_index_num)
    output = choose_output(as_json)
    target = Path(store) / INDEX_FOLDER if out is None else out
    if resume and (replace or from_offset is not None):
        raise click.BadParameter("not together with --replace or --from", param_hint="--resume")
    if dry_run and not replace:
        raise click.BadParameter("only with --replace", param_hint="--dry-run")
    offset_range_of(from_offset, to_offset)
    _require_out(store, out)
    interrupt = told_if_interrupted([target], "--resume continues what was begun")
    with interrupt, CommitLog(store) as log, progress_bar("rebuild") as report:
        missing = missing_parts(log, store, start=from_offset, stop=to_offset)
        complain_of_missing(missing, "the new index")
        begin = log.min_offset if from_offset is None else from_offset
        result = rebuild_index(
            log,
            target,
            layout,
            start=from_offset,
            stop=to_offset,
            resume=resume,
            replace=replace,
            index_tags="auto" if index_tags is None else index_tags,
            checkpoint="auto" if checkpoint is None else checkpoint,
            time_zone=time_zone,
            allow_live_store=allow_live_store,
            allow_loss=allow_loss,
            dry_run=dry_run,
            mode=mode,
            on_malformed=_complain_of,
            progress=lambda done, total: report(done - begin, total - begin),
        )
    if dry_run:
        complain_of_broker(target)
    output.rebuild(target, result, missing)


@command(
    "rebuild-queues",
    "rmqindex rebuild-queues /data/rocketmq/store",
    "rmqindex rebuild-queues store --replace",
    "rmqindex rebuild-queues store --replace --dry-run",
    "rmqindex rebuild-queues backup/store --out /tmp/store --file-size 6000000",
)
@log_argument
@click.option(
    "--out",
    metavar="DIR",
    type=PATH,
    help="The store root in which to write consumequeue/ and batchconsumequeue/; by default STORE.",
)
@from_option
@to_option
@click.option(
    "--replace",
    is_flag=True,
    help="Replace all existing queues when the new ones are complete.",
)
@click.option(
    "--file-size",
    metavar="BYTES",
    type=SIZE,
    help="The broker's mappedFileSizeConsumeQueue. By default that of the existing queues, "
    f"else {DEFAULT_FILE_SIZE}.",
)
@click.option(
    "--batch-file-size",
    metavar="BYTES",
    type=SIZE,
    help="The broker's mapperFileSizeBatchConsumeQueue. By default that of the existing queues, "
    f"else {DEFAULT_BATCH_FILE_SIZE}.",
)
@click.option(
    "--batch-topic",
    "batch_topics",
    metavar="TOPIC",
    type=TEXT,
    multiple=True,
    help="A topic with batch queues. Those that config/topics.json names are known, and without "
    "this file those that have batch queues, or inner batches in the log. May be repeated.",
)
@click.option(
    "--leave-out",
    "leave_out",
    metavar="TOPIC",
    type=TEXT,
    multiple=True,
    help="A topic that gets no queues, such as one that was deleted. May be repeated.",
)
@click.option(
    "--delay-levels",
    metavar="LEVELS",
    default=DEFAULT_DELAY_LEVELS,
    show_default=True,
    help="The broker's messageDelayLevel.",
)
@click.option(
    "--multi-dispatch/--no-multi-dispatch",
    default=True,
    show_default=True,
    help="The broker's enableMultiDispatch: also fill the light queues that messages name.",
)
@allow_loss_option
@dry_run_option
@allow_live_option
@json_option
@mode_option
def rebuild_queues(
    *,
    store: str,
    out: Path | None,
    from_offset: int | None,
    to_offset: int | None,
    replace: bool,
    file_size: int | None,
    batch_file_size: int | None,
    batch_topics: tuple[str, ...],
    delay_levels: str,
    multi_dispatch: bool,
    leave_out: tuple[str, ...],
    allow_loss: bool,
    dry_run: bool,
    allow_live_store: bool,
    as_json: bool,
    mode: Mode,
) -> None:
    """Rebuild ConsumeQueues from a CommitLog, in the broker's folders, files and bytes.

    Stop the broker first. The new queues take their place when all of them are complete; an
    interrupted rebuild leaves the old queues unchanged, and starts from the beginning when it is
    run again. New queues that lack units of the old ones are refused, unless --allow-loss is given.
    """
    output = choose_output(as_json)
    offset_range_of(from_offset, to_offset)
    root = Path(store) if out is None else out
    _require_out(store, out)
    queues = [root / name for name in (QUEUE_FOLDER, BATCH_FOLDER)]
    interrupt = told_if_interrupted(
        queues, f"`{command_line('recover', root)}` undoes what was begun"
    )
    with interrupt, CommitLog(store) as log, progress_bar("rebuild") as report:
        missing = missing_parts(log, store, start=from_offset, stop=to_offset)
        complain_of_missing(missing, "the new queues")
        begin = log.min_offset if from_offset is None else from_offset
        try:
            result = rebuild_consume_queues(
                log,
                root,
                start=from_offset,
                stop=to_offset,
                file_size=file_size,
                batch_file_size=batch_file_size,
                delay_levels=delay_levels,
                batch_topics=batch_topics,
                multi_dispatch=multi_dispatch,
                leave_out=leave_out,
                allow_loss=allow_loss,
                dry_run=dry_run,
                replace=replace,
                allow_live_store=allow_live_store,
                mode=mode,
                on_malformed=_complain_of,
                progress=lambda done, total: report(done - begin, total - begin),
            )
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    if dry_run:
        complain_of_broker(queues[0])
    output.queue_rebuild(root, result, missing)


def _require_out(store: str, out: Path | None) -> None:
    """Raise unless a rebuild has a place to write to: ``--out``, or a store root."""
    if out is not None or (Path(store) / COMMITLOG_FOLDER).is_dir():
        return
    if dledger_data(Location.of(store)) is not None:
        return
    CommitLog(store).close()  # it refuses what is no log either
    raise click.BadParameter(
        f"needed, since {store} is not a store root, which has {COMMITLOG_FOLDER}/",
        param_hint="--out",
    )


def _complain_of(error: CorruptCommitLogError) -> None:
    complain(str(error))
