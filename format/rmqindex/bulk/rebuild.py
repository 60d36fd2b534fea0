"""Rebuilds a store's index from its CommitLog, which RocketMQ itself cannot do.

RocketMQ: ``ReputMessageService``, ``IndexService.buildIndex``.
"""

from __future__ import annotations

import os
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from rmqindex.arguments import ensure_flags, int_or_none
from rmqindex.bulk.committer import Committer
from rmqindex.bulk.files import index_beside, index_entries, shown_layout
from rmqindex.bulk.losses import LossJudge, SoundSpans, replacement_of
from rmqindex.bulk.resume import (
    Start,
    ensure_no_hole,
    present_files,
    resume_at,
)
from rmqindex.bulk.roller import FileRoller, Leftover, keep_expired, replace_files
from rmqindex.bulk.tags import choose_tags
from rmqindex.commitlog.log import CommitLog
from rmqindex.commitlog.snapshot import PassedOver, ensure_end, ensure_log_of, missing_parts
from rmqindex.errors import SAID_GEOMETRY, RmqIndexError, options_of
from rmqindex.indexfile.geometry import Layout
from rmqindex.layout.store import INDEX_FOLDER
from rmqindex.record.batches import store_timestamps
from rmqindex.record.index_keys import IndexKeys
from rmqindex.store.checkpoint import is_coverable
from rmqindex.store.contents import hold_writable
from rmqindex.store.names import latest_name
from rmqindex.store.naming import rebuild_line
from rmqindex.times import zone_of
from rmqindex.transaction.local_staging import LocalStaging
from rmqindex.transaction.owner import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import tzinfo

    from numpy.typing import NDArray

    from rmqindex.bulk.committer import Commit
    from rmqindex.bulk.losses import Replacement
    from rmqindex.bulk.tags import Basis, TagChoice
    from rmqindex.commitlog.end import UnagreedTail
    from rmqindex.commitlog.selection import MissingPart
    from rmqindex.errors import CorruptCommitLogError
    from rmqindex.indexfile.entries import Mode
    from rmqindex.storage.location import PathLike
    from rmqindex.store.snapshot import IndexSnapshot
    from rmqindex.transaction.directories import FileEntry

# The number of entries after which those written become visible: an interrupted rebuild resumes
# there.
_FLUSH_ENTRIES = 4_000_000


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """The result of a rebuild.

    Attributes:
        files: The files written to, oldest first.
        entry_count: How many entries were written.
        message_count: How many messages were read.
        start: The offset from which messages were read, bytes.
        stop: The offset behind the last message read, bytes; ``start`` without any.
        index_msg_timestamp: The checkpoint's value now, epoch milliseconds; None where it was not
            raised.
        layout: The geometry of the files.
        layout_basis: What decided it: ``argument``, ``files`` (those in the directory, or in the
            index beside the log), or ``default``, where the broker may have another.
        tags: Which messages' tags are indexed, and what decided it; None where no message has any.
        kept_count: How many entries of expired messages were kept, from the replaced files.
        replaced_count: How many entries the replaced files had.
        unreadable: The replaced files that may have had such entries, and cannot be read.
        unagreed: What was left out of a log of DLedger, since its group is not known to have
            agreed on it; None where nothing was.
        replacement: The files that were replaced, and what came in their place; None without
            ``replace``.
        dry_run: Whether nothing was changed: the fields tell what would be.
        refusal: The error that a run without ``dry_run`` raises; None where it writes.
        missing: The parts of the log that are lost, whose messages have no entries; the ``text`` of
            each says what proves it, and what to do.
        damaged_count: How many entries of expired messages are too damaged to be kept.
    """

    files: tuple[Path, ...]
    entry_count: int
    message_count: int
    start: int
    stop: int
    index_msg_timestamp: int | None
    layout: Layout
    layout_basis: Basis
    tags: TagChoice | None
    kept_count: int = 0
    replaced_count: int = 0
    unreadable: tuple[Path, ...] = ()
    unagreed: UnagreedTail | None = None
    replacement: Replacement | None = None
    dry_run: bool = False
    refusal: RmqIndexError | None = None
    missing: tuple[MissingPart, ...] = ()
    damaged_count: int = 0


def rebuild_index(
    commit_log: CommitLog | PathLike,
    directory: str | os.PathLike[str],
    layout: Layout | None = None,
    *,
    start: int | None = None,
    stop: int | None = None,
    resume: bool = False,
    replace: bool = False,
    index_tags: bool | Literal["auto"] = "auto",
    checkpoint: bool | Literal["auto"] = "auto",
    time_zone: str | tzinfo | None = None,
    allow_live_store: bool = False,
    allow_loss: bool = False,
    dry_run: bool = False,
    mode: Mode = "FAILFAST",
    on_malformed: Callable[[CorruptCommitLogError], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RebuildResult:
    """Index the messages of a CommitLog, byte for byte as the broker does.

    Only the names of the files differ: they are store times, not the time of writing.
    An empty or missing index directory is written in place.
    Use ``resume`` to continue an interrupted rebuild: it adds the entries missing behind the last
    one, and none twice; where files lack entries before it, it raises.
    ``replace`` keeps the entries of messages that the log no longer has, as the broker would, and
    refuses to lose others.
    At every moment, even after a crash, rmqindex's readers find a correct index of the first
    messages; other writers wait meanwhile.
    Where it raises :class:`RmqIndexError`, what it wrote in place is taken back, and every file is
    as it was; where it dies, or the disk fails, ``resume`` continues what it wrote.

    Args:
        commit_log: What :class:`CommitLog` takes, or one.
        directory: The local index directory.
        layout: The geometry; by default that of the newest file there or in the index beside the
            log, else the broker's default.
        start: The offset (bytes) from which messages are indexed; None for the log's start.
        stop: The offset (bytes) from which on messages are left out; None for the log's end.
        resume: Continue behind the last entry of the present files.
        replace: Build all files aside, then replace the present ones in one step.
        index_tags: Whether to index tags, as brokers from 5.4.0 on do and older ones do not.
            ``auto`` for what the files there, or in the index beside the log, show: the tags of the
            messages whose tags they have. Where they do not tell, tags are indexed if the store has
            the folder ``rocksdbstore``, which brokers make from 5.4.0 on.
            :attr:`RebuildResult.tags` has what was chosen.
        checkpoint: Whether to raise the store's checkpoint, so that a broker that starts after a
            crash keeps the files. ``auto`` for the index of a store on which no broker runs, and
            whose log this is.
        time_zone: The broker's time zone, in which new files are named; by default the system's.
        allow_live_store: Write even if a broker runs on the store.
        allow_loss: Replace files even if the new ones lack entries of theirs: of messages behind
            the log's end or outside ``start`` and ``stop``, or that cannot be read; or write the
            index of a store that has a log of its own, which this is no copy of.
        dry_run: Build the new files and compare them, but replace none; only with ``replace``. A
            loss, or a lost end of the log, is the result's ``refusal``. A broker may run meanwhile:
            what it adds is not counted.
        mode: ``FAILFAST`` stops at damage in the log, ``DROPMALFORMED`` continues behind it.
        on_malformed: Called with each error that ``DROPMALFORMED`` does not raise.
        progress: Called with the offset reached and the log's end, bytes.

    Returns:
        The result.

    Raises:
        RmqIndexError: There are files, and neither ``resume`` nor ``replace`` is given; files to
            resume lack entries before the last one, or that is of no message; a broker holds the
            store; the log is damaged, or another one than the store's own; the files contradict
            each other about tags; no name is left for a new file; the new files lack entries of the
            replaced ones; another writer changed the index while it was built aside, or holds its
            lock for ten minutes.
        ValueError: ``resume`` together with ``replace`` or ``start``; ``dry_run`` without
            ``replace``; a geometry without room for entries.
        OSError: The disk is full or broken.
    """
    ensure_flags(
        resume=resume,
        replace=replace,
        index_tags=_flag(index_tags),
        checkpoint=_flag(checkpoint),
        allow_live_store=allow_live_store,
        allow_loss=allow_loss,
        dry_run=dry_run,
    )
    start, stop = _range(start, stop, resume=resume, replace=replace, dry_run=dry_run)
    options = options_of(
        {
            "--resume": resume,
            "--replace": replace,
            "--from": start,
            "--to": stop,
            "--checkpoint": checkpoint is True,
            "--no-checkpoint": checkpoint is False,
            "--dry-run": dry_run,
            "--allow-loss": allow_loss,
            "--allow-live-store": allow_live_store,
            "--mode": None if mode == "FAILFAST" else mode,
            "--time-zone": None if time_zone is None else str(time_zone),
            "--max-hash-slot-num": None if layout is None else layout.hash_slot_num,
            "--max-index-num": None if layout is None else layout.index_num,
            "--index-tags": index_tags is True,
            "--no-index-tags": index_tags is False,
        }
    )
    target = Path(os.path.abspath(directory))  # noqa: PTH100  (links stay)
    log = commit_log if isinstance(commit_log, CommitLog) else CommitLog(commit_log)
    with (
        hold_writable(target, allow_live_store=allow_live_store, dry_run=dry_run),
        ExitStack() as stack,
    ):
        if log is not commit_log:
            stack.callback(log.close)
        is_own = target.name != INDEX_FOLDER or ensure_log_of(
            target.parent, log, "rebuild", options, allow_loss=allow_loss
        )
        missing = missing_parts(log, log.folders, start=start, stop=stop)
        raises = is_own and is_coverable(target) if checkpoint == "auto" else checkpoint
        staging = _staging(target, aside=replace)
        committer = stack.enter_context(
            Committer(staging, target, allow_live_store=allow_live_store, checkpoint=raises)
        )
        commit: Commit | None = None
        if not replace:
            commit = stack.enter_context(committer.begin(create=True))
            staging.make(Owner.current())
        present, unfinished = present_files(target, log, resume=resume, replace=replace)
        beside = index_beside(log)
        models = present.entries or ([] if beside is None else index_entries(beside))
        is_elsewhere = beside is None or beside.local is None

        log_files = [file.path for file in log.files]
        again = partial(rebuild_line, "rebuild", log.folders, log_files, target, *options)
        layout, basis = _chosen_layout(layout, models, is_elsewhere or bool(present.entries))
        if not layout.capacity:
            raise ValueError(f"index_num: expected at least 2 to index messages, got {layout}")
        zone = zone_of(time_zone)
        is_own_index = beside is not None and target == beside.local
        begin = _resume(present, layout, log, mode, own=is_own_index) if resume else None
        begin = begin or Start(log.min_offset if start is None else start)
        unagreed, takes_all = log.unagreed_tail(stop), start is None and stop is None
        stop = log.agreed_stop(stop)
        roots: list[PathLike] = [target] if beside is None else [target, beside]
        tags = partial(
            choose_tags,
            None if index_tags == "auto" else index_tags,
            models,
            layout,
            log,
            roots,
            continues=resume,
            typed_with=again,
        )
        messages = _LogEntries(
            log, begin, stop, mode, on_malformed, progress, tags, proves_end=commit is not None
        )
        last_name = staging.last_name(present.names, replaced=replace, latest=latest_name(zone))
        kept, replacement, refusal = Leftover(), None, None
        if commit is None:
            roller = FileRoller(staging.path, layout, zone, last_name=last_name)
            stack.callback(roller.abandon)
            kept, replacement, refusal = _build_aside(
                target,
                present,
                layout,
                roller,
                messages,
                keeps_expired=start is None,
                is_partial=not takes_all or unagreed is not None,
                tags_are_chosen=index_tags != "auto",
                allow_loss=allow_loss,
                dry_run=dry_run,
            )
            checkpoint_time = None if dry_run else replace_files(committer, present, roller)
        else:
            commit.open_directory(unfinished)
            roller = FileRoller(
                target,
                layout,
                zone,
                last_name=last_name,
                resumed=begin.resumed,
                commit=commit,
            )
            _build(roller, messages)
            checkpoint_time = commit.cover()
    return RebuildResult(
        tuple(target / path.name for path in roller.paths),
        roller.count,
        messages.count,
        begin.offset,
        messages.stop,
        checkpoint_time,
        layout,
        basis,
        messages.tags,
        kept.entry_count,
        present.entry_count if replace else 0,
        kept.unreadable,
        unagreed,
        replacement,
        dry_run,
        refusal,
        missing,
        kept.damaged_count,
    )


def _flag(value: object) -> object:
    return False if isinstance(value, str) and value == "auto" else value


def _range(
    start: int | None, stop: int | None, *, resume: bool, replace: bool, dry_run: bool
) -> tuple[int | None, int | None]:
    """Check arguments that exclude each other; return the range of offsets."""
    if resume and (replace or start is not None):
        raise ValueError("resume: not together with replace or start")
    if dry_run and not replace:
        raise ValueError("dry_run: expected replace, without which no file is deleted")
    return int_or_none("start", start, 0), int_or_none("stop", stop, 0)


def _resume(
    present: IndexSnapshot, layout: Layout, log: CommitLog, mode: Mode, *, own: bool
) -> Start | None:
    begin = resume_at(present.entries, layout, log)
    if begin is not None:
        ensure_no_hole(present.entries, layout, log, mode, from_start=own)
    return begin


def _staging(target: Path, *, aside: bool) -> LocalStaging:
    if aside:
        return LocalStaging.create(target, Owner.current())
    return LocalStaging.at(target, f"rebuild-{uuid.uuid4().hex}")


class _LogEntries:
    def __init__(
        self,
        log: CommitLog,
        begin: Start,
        stop: int | None,
        mode: Mode,
        on_malformed: Callable[[CorruptCommitLogError], None] | None,
        progress: Callable[[int, int], None] | None,
        choose: Callable[[], TagChoice],
        *,
        proves_end: bool,
    ) -> None:
        self.log = log
        self._proves_end = proves_end
        self._choose = choose
        #: Which tags are indexed; None until a message has some.
        self.tags: TagChoice | None = None
        self._begin = begin
        self._stop = stop
        self._mode: Mode = mode
        self.passed_over = PassedOver(on_malformed)
        self._progress = progress
        #: Where the log is sound, as far as it was read.
        self.sound = SoundSpans(log.files[0].entry_head if log.files else 0)
        self.count = 0
        self.stop = begin.offset

    def entries(
        self,
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]]:
        """Yield hashes, offsets and store times."""
        end = self.log.files[-1].stop if self.log.files else 0
        end = end if self._stop is None else min(end, self._stop)
        blocks = self.log.records(
            self._begin.offset,
            self._stop,
            mode=self._mode,
            on_malformed=self.passed_over.add,
            proves_end=self._proves_end,
        )
        skip = self._begin.skip
        for records in blocks:
            keys = IndexKeys(records)
            offsets = records.phy_offset
            self.sound.add(records)
            if self.tags is None and keys.has_tags:
                self.tags = self._choose()
            tagged = None if self.tags is None else self.tags.applies_to(offsets)
            rows, hashes = keys.hashes(tagged)
            if skip and offsets[0] == self._begin.offset:
                # A message that was indexed again, or with its members, has more entries than keys.
                there = min(skip, int(np.searchsorted(rows, 1)))
                rows, hashes = rows[there:], hashes[there:]
            skip = 0
            self.count += len(records)
            self.stop = int(offsets[-1] + records.size[-1])
            yield hashes, offsets[rows], store_timestamps(records)[rows]
            if self._progress is not None:
                self._progress(self.stop, end)

    def prove_end(self, *, strictly: bool) -> None:
        """Raise, or say, that the log lacks messages to which something beside it leads."""
        ensure_end(
            self.log,
            self._stop,
            mode=self._mode if strictly else "DROPMALFORMED",
            on_malformed=self.passed_over.add,
        )


def _build_aside(
    target: Path,
    present: IndexSnapshot,
    layout: Layout,
    roller: FileRoller,
    messages: _LogEntries,
    *,
    keeps_expired: bool,
    is_partial: bool,
    tags_are_chosen: bool,
    allow_loss: bool,
    dry_run: bool,
) -> tuple[Leftover, Replacement, RmqIndexError | None]:
    """Build all files anew, and compare them with the present ones, which they may replace."""
    log = messages.log
    kept = keep_expired(present.entries, layout, log, roller) if keeps_expired else Leftover()
    _build(roller, messages)
    is_whole = not messages.passed_over.is_any and not is_partial
    judge = LossJudge(
        log,
        present.entries,
        layout,
        tags_are_chosen=tags_are_chosen,
        sound=None if is_whole else messages.sound,
    )
    replacement = replacement_of(present, roller, layout, judge)
    try:
        if not allow_loss:
            if not dry_run:
                present.ensure_unchanged(target)
            replacement.ensure_nothing_lost(target)
        messages.prove_end(strictly=not allow_loss)
    except RmqIndexError as error:
        if not dry_run:
            raise
        return kept, replacement, error
    return kept, replacement, None


def _build(roller: FileRoller, messages: _LogEntries) -> None:
    flushed = 0
    try:
        for entries in messages.entries():
            roller.put_many(*entries)
            if roller.count - flushed >= _FLUSH_ENTRIES:
                roller.flush()
                flushed = roller.count
        roller.close()
    finally:
        roller.abandon()


def _chosen_layout(
    asked: Layout | None, models: Sequence[FileEntry], must_tell: bool
) -> tuple[Layout, Basis]:
    """Return the geometry of new files, and what decided it."""
    if asked is not None:
        return asked, "argument"
    if (shown := shown_layout(models)) is not None:
        return shown[1], "files"
    default = Layout()
    if models and must_tell and all(entry.size != default.file_size for entry in models):
        raise RmqIndexError(
            f"{models[0].path}: no file tells the geometry: give {SAID_GEOMETRY} of "
            f"broker.conf, whose defaults are {default.hash_slot_num} and {default.index_num}"
        )
    return default, "default"
