"""ConsumeQueues from a CommitLog (RocketMQ: ``ConsumeQueue.putMessagePositionInfo``)."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqindex.arguments import ensure_flags, int_or_none, text_of, texts_of
from rmqindex.commitlog.log import CommitLog
from rmqindex.commitlog.snapshot import ensure_end, ensure_log_of, missing_parts
from rmqindex.consumequeue.deviations import PresentUnits
from rmqindex.consumequeue.dispatch import (
    Damage,
    Dispatcher,
    OmittedTopics,
    TopicKinds,
    parse_delay_levels,
    topics_of,
)
from rmqindex.consumequeue.places import Life, named_units
from rmqindex.consumequeue.predecessors import Predecessors, unit_count
from rmqindex.consumequeue.reader import ConsumeQueue
from rmqindex.consumequeue.staging import QueueStaging
from rmqindex.consumequeue.writers import QueueWriters, keep_foreign
from rmqindex.errors import RmqIndexError, options_of
from rmqindex.layout.queue import BATCH_UNIT_DTYPE, DEFAULT_DELAY_LEVELS, LMQ_PREFIX, UNIT_DTYPE
from rmqindex.layout.store import BATCH_FOLDER, QUEUE_FOLDER
from rmqindex.store.contents import hold_writable
from rmqindex.store.naming import rebuild_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from rmqindex.commitlog.end import UnagreedTail
    from rmqindex.commitlog.selection import MissingPart
    from rmqindex.consumequeue.places import LostUnits
    from rmqindex.errors import CorruptCommitLogError
    from rmqindex.indexfile.entries import Mode
    from rmqindex.storage.location import PathLike


@dataclass(frozen=True, slots=True)
class QueueRebuildResult:
    """The result of a rebuild of ConsumeQueues.

    Attributes:
        queue_count: How many queues were written.
        unit_count: How many units, without blank ones.
        file_count: How many files.
        gaps: Topic, queue, and the queue offsets between which messages are missing in the log;
            blank units stand there.
        file_size: The size of the queues' files, bytes.
        batch_file_size: That of batch queues' files, bytes.
        is_default_size: Whether one of these, used for files, is only the broker's default.
        kept: Topic and queue of those that were kept, since all their messages have expired, and
            they hold the queue offset of the next one.
        unagreed: What was left out of a log of DLedger, since its group is not known to have
            agreed on it; None where nothing was.
        superseded: Topic, queue, and how many units of messages are left out that the topic had
            before it was deleted and made again: a queue offset that falls back to 0 begins the
            queue anew, and another queue of the topic that begins before and has no message since
            is left out where the present queues lack it, too.
        doubtful: Topic, queue, and how many units, of queues that the present ones lack, and that
            came back since nothing proves whether the topic was deleted and made again behind
            their messages.
        dropped: The units that are left out since older messages have their queue offsets.
        lost: The units of the replaced queues that the new ones lack.
        replaced_count: How many units the replaced queues had, without blank ones.
        kept_count: How many units of the replaced queues the new ones have, too, of messages that
            the log no longer has; those of :attr:`kept` do not count.
        deleted_topics: Topics that ``config/topics.json`` does not have, and whose queues came
            back all the same.
        left_out: Topics without queues: those of ``leave_out``, and those that neither
            ``config/topics.json`` nor the replaced queues have.
        foreign: What is no queue's and stood in the replaced folders, by its path from the store
            root; it stays there.
        dry_run: Whether nothing was written.
        refusal: The error that a run without ``dry_run`` raises; None where it writes.
        stray: The units of the replaced queues that the new ones lack, and that led to no message
            of their queue, or again to one: they are no loss.
        missing: The parts of the log that are lost, whose messages have no units; the ``text`` of
            each says what proves it, and what to do.
        default_delay_count: How many delayed messages are due by the broker's default levels, since
            no unit shows another delay of their level, and none was given.
        mended_due_count: How many delayed messages are due as those of their level before and
            behind them, and not as their units say.
        added_light: The light queues that messages name and the replaced queues did not have.
    """

    queue_count: int
    unit_count: int
    file_count: int
    gaps: tuple[tuple[str, int, int, int], ...]
    file_size: int
    batch_file_size: int
    is_default_size: bool = False
    kept: tuple[tuple[str, int], ...] = ()
    unagreed: UnagreedTail | None = None
    superseded: tuple[tuple[str, int, int], ...] = ()
    doubtful: tuple[tuple[str, int, int], ...] = ()
    dropped: tuple[LostUnits, ...] = ()
    lost: tuple[LostUnits, ...] = ()
    replaced_count: int = 0
    kept_count: int = 0
    deleted_topics: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    dry_run: bool = False
    refusal: RmqIndexError | None = None
    stray: tuple[LostUnits, ...] = ()
    missing: tuple[MissingPart, ...] = ()
    default_delay_count: int = 0
    mended_due_count: int = 0
    added_light: tuple[str, ...] = ()


def rebuild_consume_queues(
    commit_log: CommitLog | PathLike,
    store: str | os.PathLike[str],
    *,
    start: int | None = None,
    stop: int | None = None,
    file_size: int | None = None,
    batch_file_size: int | None = None,
    delay_levels: str | None = None,
    mend_due_times: bool = False,
    batch_topics: Sequence[str] = (),
    multi_dispatch: bool = True,
    leave_out: Sequence[str] = (),
    replace: bool = False,
    allow_loss: bool = False,
    dry_run: bool = False,
    allow_live_store: bool = False,
    mode: Mode = "FAILFAST",
    on_malformed: Callable[[CorruptCommitLogError], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> QueueRebuildResult:
    """Write the ConsumeQueues of a CommitLog's messages, into the broker's folders and files.

    They are built aside and put into their place when they are complete.
    A rebuild after an interrupted one first restores the old queues, then starts from the
    beginning.
    What is no queue's and stands in their folders stays there.
    As in the broker, files have one fixed size and are named by where they begin, units before a
    queue's first message are blank, delayed messages have the time at which they are due in the
    place of their tags, and prepared and rolled back messages have no unit.
    Queues that are there, and all of whose messages have expired, are kept, since they hold the
    queue offset of the next message; damaged units of them become blank.
    For a log whose head is gone, the units are the broker's, and the places before them are blank;
    but the units that queues have there that are replaced are kept.
    A queue offset that falls back to 0 begins the queue anew, since the topic was deleted and made
    again: the units of the deleted messages are left out, and so are other queues of the topic that
    have no other messages, if the present queues show that it has not used them since.
    A broker that builds such a queue puts the first of the new messages behind the deleted ones,
    and drops the others.

    Args:
        commit_log: What :class:`CommitLog` takes, or one.
        store: The local store root in which ``consumequeue`` and ``batchconsumequeue`` are made.
        start: Messages that start before this offset (bytes) are left out; None for the log's
            start.
        stop: Messages that start here or later are left out; None for all.
        file_size: The broker's ``mappedFileSizeConsumeQueue``, bytes; by default that of the
            present queues, or of those beside the log, else the broker's default.
        batch_file_size: The broker's ``mapperFileSizeBatchConsumeQueue``, bytes; by default alike.
        delay_levels: The broker's ``messageDelayLevel``, for delayed messages without a unit in the
            present queues that shows when they are due, or one of their level; by default, the
            broker's default.
        mend_due_times: Let few delayed messages that are due otherwise than those of their level
            before and behind them be due as those.
        batch_topics: Topics whose queues are batch queues, beside those of which
            ``config/topics.json`` says so; without that file, those with an inner batch anywhere in
            the log, and those that have batch queues now.
        multi_dispatch: The broker's ``enableMultiDispatch``: messages also go into the light
            queues that they name.
        leave_out: Topics, and light queues, that get no queues, such as deleted ones.
        replace: Replace all present queues by the new ones.
        allow_loss: Write the queues even if units of messages are lost that the log has or once
            had: of the present queues, or since older messages have their queue offsets; or those
            of a store that has a log of its own, which this is no copy of.
        dry_run: Build the queues aside, compare them, and change nothing; a loss, or a lost end of
            the log, is the result's ``refusal``.
        allow_live_store: Write even if a broker runs on the store.
        mode: ``FAILFAST`` stops at damage in the log, ``DROPMALFORMED`` continues behind it.
        on_malformed: Called with each error that ``DROPMALFORMED`` does not raise.
        progress: Called with the offset reached and the log's end, bytes.

    Returns:
        The result.

    Raises:
        RmqIndexError: There are ConsumeQueues and ``replace`` is not given, the store has
            them in RocksDB, a broker holds it, another rebuild is under way,
            the log is damaged: a message's topic cannot name a folder, its queue offset is beyond
            what the log has room for, or a number in its properties is none to a broker;
            or units would be lost and ``allow_loss`` is not given.
        ValueError: A file size that is no multiple of a unit's, or bad delay levels.
        OSError: The disk is full or broken.
    """
    start, stop = int_or_none("start", start, 0), int_or_none("stop", stop, 0)
    file_size = _file_size("file_size", file_size, UNIT_DTYPE)
    batch_file_size = _file_size("batch_file_size", batch_file_size, BATCH_UNIT_DTYPE)
    levels = parse_delay_levels(
        text_of("delay_levels", DEFAULT_DELAY_LEVELS if delay_levels is None else delay_levels)
    )
    batch_topics, leave_out = (
        texts_of("batch_topics", batch_topics),
        texts_of("leave_out", leave_out),
    )
    ensure_flags(
        mend_due_times=mend_due_times,
        multi_dispatch=multi_dispatch,
        replace=replace,
        allow_loss=allow_loss,
        dry_run=dry_run,
        allow_live_store=allow_live_store,
    )
    options = options_of(
        {
            "--no-multi-dispatch": not multi_dispatch,
            "--replace": replace,
            "--allow-loss": allow_loss,
            "--from": start,
            "--to": stop,
            "--file-size": file_size,
            "--batch-file-size": batch_file_size,
            "--batch-topic": batch_topics,
            "--leave-out": leave_out,
            "--delay-levels": delay_levels,
            "--mend-due-times": mend_due_times,
            "--dry-run": dry_run,
            "--allow-live-store": allow_live_store,
            "--mode": None if mode == "FAILFAST" else mode,
        }
    )
    root = Path(os.path.abspath(store))  # noqa: PTH100  (links stay)
    log = commit_log if isinstance(commit_log, CommitLog) else CommitLog(commit_log)
    hold = hold_writable(root / QUEUE_FOLDER, allow_live_store=allow_live_store, dry_run=dry_run)
    with hold, ExitStack() as stack:
        if log is not commit_log:
            stack.callback(log.close)
        staging = stack.enter_context(QueueStaging(root))
        there = _replaced(root, staging, log, options, replace=replace, allow_loss=allow_loss)
        missing = missing_parts(log, log.folders, start=start, stop=stop)
        old = Predecessors.of(root, there, log)
        table = topics_of(root, log)
        omitted = OmittedTopics(leave_out, table, {queue.topic for queue in old.queues})
        kinds = TopicKinds(batch_topics, old.batch_topics, table)
        sizes = {
            is_batch: old.file_size(asked, is_batch=is_batch)
            for is_batch, asked in ((False, file_size), (True, batch_file_size))
        }
        damage = Damage(
            log,
            on_malformed,
            mode,
            rebuild_line(
                "rebuild-queues",
                log.folders,
                [file.path for file in log.files],
                root,
                "--no-multi-dispatch",
                *options,
            ),
        )
        present = stack.enter_context(
            PresentUnits(root, old.queues, levels, mends_odd=mend_due_times)
        )
        dispatcher = Dispatcher(
            levels,
            kinds,
            damage.refuse,
            multi_dispatch=multi_dispatch,
            leave_out=omitted,
            delay_of=present.delay_of,
        )
        writers = QueueWriters(
            staging.path,
            {kind: size for kind, (size, _) in sizes.items()},
            damage.refuse,
            old.proves,
            # Without the messages, they are all that is left of them.
            partial(old.units_before, phy_offset=log.min_offset if there else 0),
        )
        unagreed, stop = log.unagreed_tail(stop), log.agreed_stop(stop)
        end = log.files[-1].stop if log.files else 0

        def fill() -> None:
            for records in log.records(
                start, stop, mode=mode, on_malformed=damage.add, proves_end=False
            ):
                for units in dispatcher.dispatch(records):
                    writers.append(present.keep(units))
                if progress is not None:
                    progress(int(records.phy_offset[-1]), end if stop is None else min(end, stop))

        fill()
        if present.settle() or kinds.is_late:
            kinds.restart()
            writers.clear()
            fill()
        left_out, doubtful = _leave_out_deleted(writers, old)
        kept = writers.keep(
            old.expired(writers.places.queues, log, kinds, omitted) if there else {},
            log.min_offset,
        )
        result = _result(writers, sizes)
        result = replace_fields(
            result,
            superseded=(*result.superseded, *left_out),
            doubtful=tuple(doubtful),
            kept=tuple(kept),
            unagreed=unagreed,
            deleted_topics=tuple(sorted(omitted.deleted)),
            left_out=tuple(sorted(omitted.left_out)),
            dry_run=dry_run,
            missing=missing,
            default_delay_count=present.unshown_count if delay_levels is None else 0,
            mended_due_count=present.odd_count,
        )
        if there:
            result = _with_losses(result, root, there, staging, old, log, damage, leave_out)
        refusal = _refusal(root, result, log, stop, damage, allow_loss=allow_loss)
        if not dry_run:
            if refusal is not None:
                raise refusal
            staging.exchange()
    return replace_fields(result, refusal=refusal)


def _replaced(
    root: Path,
    staging: QueueStaging,
    log: CommitLog,
    options: Sequence[str],
    *,
    replace: bool,
    allow_loss: bool,
) -> list[Path]:
    """Return the queue folders to replace; refuse where that is not allowed or impossible."""
    ensure_log_of(root, log, "rebuild-queues", options, allow_loss=allow_loss)
    there = staging.there()
    if there and not replace:
        raise RmqIndexError(
            f"{there[0]}: expected no ConsumeQueues, got some: move them, or give replace=True"
        )
    if there and not log.files:
        raise RmqIndexError(
            f"{there[0]}: expected a CommitLog with files to replace these queues from, got "
            "one without; is its disk mounted?"
        )
    return there


def _result(writers: QueueWriters, sizes: dict[bool, tuple[int, bool]]) -> QueueRebuildResult:
    queues = writers.places.queues
    return QueueRebuildResult(
        queue_count=len(queues),
        unit_count=sum(queue.unit_count for queue in queues.values()),
        file_count=writers.file_count,
        kept_count=writers.kept_count,
        gaps=tuple(
            (topic, queue_id, *gap)
            for (topic, queue_id, _), queue in queues.items()
            for gap in queue.gaps
        ),
        file_size=sizes[False][0],
        batch_file_size=sizes[True][0],
        is_default_size=any(sizes[is_batch][1] for _, _, is_batch in queues),
        superseded=tuple(
            (topic, queue_id, queue.superseded_count)
            for (topic, queue_id, _), queue in queues.items()
            if queue.superseded_count
        ),
        dropped=tuple(queue.dropped for queue in queues.values() if queue.dropped is not None),
    )


def _leave_out_deleted(
    writers: QueueWriters, old: Predecessors
) -> tuple[list[tuple[str, int, int]], list[tuple[str, int, int]]]:
    """Remove the queues of deleted topics; return the removed and the doubtful ones."""
    present = {(queue.topic, queue.queue_id) for queue in old.queues if queue.files}
    topics = {topic for topic, _ in present}
    left_out, doubtful = [], []
    for (topic, queue_id, is_batch), life in writers.places.lives().items():
        if (topic, queue_id) in present:
            continue
        queue = writers.places.queues[topic, queue_id, is_batch]
        if life is Life.PROVED_DELETED:
            left_out.append((topic, queue_id, queue.superseded_count + queue.unit_count))
            writers.remove((topic, queue_id, is_batch))
        elif life is not Life.PRESENT or topic in topics:
            doubtful.append((topic, queue_id, queue.unit_count))
    return left_out, doubtful


def _queues_in(root: Path) -> list[ConsumeQueue]:
    folders = [root / name for name in (QUEUE_FOLDER, BATCH_FOLDER)]
    return [queue for each in folders if each.is_dir() for queue in ConsumeQueue.find(each)]


def _with_losses(
    result: QueueRebuildResult,
    root: Path,
    there: Sequence[Path],
    staging: QueueStaging,
    old: Predecessors,
    log: CommitLog,
    damage: Damage,
    leave_out: Sequence[str],
) -> QueueRebuildResult:
    """Return the result with what the new queues lack of the old ones, and what stays."""
    new = _queues_in(staging.path)
    light = {queue.topic for queue in new if queue.topic.startswith(LMQ_PREFIX)}
    lost, stray = old.lacking(new, log, is_damaged=damage.is_any, leave_out=leave_out)
    return replace_fields(
        result,
        lost=tuple(lost),
        stray=tuple(stray),
        replaced_count=sum(map(unit_count, old.queues)),
        foreign=keep_foreign(root, there, staging.path),
        added_light=tuple(sorted(light - {queue.topic for queue in old.queues})),
    )


def _refusal(
    root: Path,
    result: QueueRebuildResult,
    log: CommitLog,
    stop: int | None,
    damage: Damage,
    *,
    allow_loss: bool,
) -> RmqIndexError | None:
    """Return why complete queues must not take their place, if anything forbids it."""
    try:
        if not allow_loss:
            _ensure_no_loss(root, result)
        mode = "DROPMALFORMED" if allow_loss else damage.mode
        ensure_end(log, stop, mode=mode, on_malformed=damage.add)
    except RmqIndexError as error:
        return error
    return None


def _ensure_no_loss(root: Path, result: QueueRebuildResult) -> None:
    if result.lost:
        count = sum(each.units for each in result.lost)
        beyond = sum(each.beyond_log for each in result.lost)
        behind = f", {beyond} of them of messages behind the end of the log" if beyond else ""
        raise RmqIndexError(
            f"{root}: expected new ConsumeQueues with the units of the present ones, got none of "
            f"{count} of their {result.replaced_count} units{behind}: {named_units(result.lost)}. "
            "If the log is not whole, restore it first; to write the queues without these units, "
            "give allow_loss=True"
        )
    if result.dropped:
        count = sum(each.units for each in result.dropped)
        raise RmqIndexError(
            f"{root}: expected ascending queue offsets, got {count} messages whose queue offsets "
            f"older messages have: {named_units(result.dropped)}. To leave them out of the "
            "queues, as a broker does, give allow_loss=True"
        )


def _file_size(name: str, size: int | None, dtype: np.dtype[Any]) -> int | None:
    size = int_or_none(name, size)
    if size is not None and (size < 1 or size % dtype.itemsize):
        raise ValueError(f"{name}: expected a multiple of {dtype.itemsize}, got {size}")
    return size
