"""Rebuilds a store's index from its CommitLog, which RocketMQ itself cannot do.

RocketMQ: ``ReputMessageService``, ``IndexService.buildIndex``.
"""

from __future__ import annotations

import os
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.bulk.committer import Committer
from rmqindex.bulk.roller import FileRoller, replace_files
from rmqindex.commitlog.log import CommitLog
from rmqindex.errors import RmqIndexError
from rmqindex.indexfile.geometry import Layout, infer_layout
from rmqindex.indexfile.reader import IndexFile
from rmqindex.keys.messages import expand_messages
from rmqindex.layout import FIRST_POSITION
from rmqindex.store.contents import ensure_writable
from rmqindex.store.snapshot import Snapshot
from rmqindex.times import zone_of
from rmqindex.transaction.local_staging import LocalStaging
from rmqindex.transaction.owner import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import tzinfo

    from numpy.typing import NDArray

    from rmqindex.bulk.committer import Commit
    from rmqindex.commitlog.log import Mode
    from rmqindex.errors import CorruptCommitLogError
    from rmqindex.storage.location import PathLike
    from rmqindex.transaction.directories import FileEntry

__all__ = ["RebuildResult", "rebuild_index"]

_KEY_COLUMNS = ("topic", "uniq_key", "keys", "sys_flag")
_COLUMNS = (*_KEY_COLUMNS, "phy_offset", "store_timestamp")
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
        index_msg_timestamp: The checkpoint's value now, epoch milliseconds; None where it is
            unchanged.
    """

    files: tuple[Path, ...]
    entry_count: int
    message_count: int
    start: int
    stop: int
    index_msg_timestamp: int | None


@dataclass(frozen=True, slots=True)
class _Start:
    """Where indexing begins.

    Attributes:
        offset: The first message's offset, bytes.
        skip: How many of that message's entries exist already.
        resumed: The file to continue.
    """

    offset: int
    skip: int = 0
    resumed: Path | None = None


def rebuild_index(
    commit_log: CommitLog | PathLike,
    directory: str | os.PathLike[str],
    layout: Layout | None = None,
    *,
    start: int | None = None,
    stop: int | None = None,
    resume: bool = False,
    replace: bool = False,
    index_tags: bool = False,
    checkpoint: bool = False,
    time_zone: str | tzinfo | None = None,
    allow_live_store: bool = False,
    mode: Mode = "FAILFAST",
    on_malformed: Callable[[CorruptCommitLogError], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RebuildResult:
    """Index the messages of a CommitLog, byte for byte as the broker does.

    Only the names of the files differ: they are store times, not the time of writing.
    An empty or missing index directory is written in place.
    Use ``resume`` to continue an interrupted rebuild: it adds the entries missing behind the last
    one, and none twice.
    At every moment, even after a crash, rmqindex's readers find a correct index of the first
    messages; other writers wait meanwhile.

    Args:
        commit_log: What :class:`CommitLog` takes, or one.
        directory: The local index directory.
        layout: The geometry; by default that of the files there, else the broker's default.
        start: The offset (bytes) from which messages are indexed; None for the log's start.
        stop: The offset (bytes) from which on messages are left out; None for the log's end.
        resume: Continue behind the last entry of the present files.
        replace: Build all files aside, then replace the present ones in one step.
        index_tags: Index tags as well, as brokers from 5.4.0 on do and older ones do not.
        checkpoint: Raise the store's checkpoint, so that a broker that starts after a crash keeps
            the files.
        time_zone: The broker's time zone, in which new files are named; by default the system's.
        allow_live_store: Write even if a broker seems to hold the store.
        mode: ``FAILFAST`` stops at damage in the log, ``DROPMALFORMED`` continues behind it.
        on_malformed: Called with each error that ``DROPMALFORMED`` does not raise.
        progress: Called with the offset reached and the log's end, bytes.

    Returns:
        The result.

    Raises:
        RmqIndexError: There are files, and neither ``resume`` nor ``replace`` is given; a broker
            holds the store; the log is damaged; no name is left for a new file; another writer
            changed the index while it was built aside, or holds its lock for ten minutes.
        ValueError: ``resume`` together with ``replace`` or ``start``; a geometry without room for
            entries.
        OSError: The disk is full or broken.
    """
    if resume and (replace or start is not None):
        raise ValueError("resume: not together with replace or start")
    target = Path(os.path.abspath(directory))  # noqa: PTH100  (links stay)
    ensure_writable(target, allow_live_store=allow_live_store)
    with ExitStack() as stack:
        staging = _staging(target, aside=replace)
        committer = stack.enter_context(
            Committer(staging, target, allow_live_store=allow_live_store, checkpoint=checkpoint)
        )
        commit: Commit | None = None
        if not replace:
            commit = stack.enter_context(committer.begin(create=True))
            staging.make(Owner.current())
        there = Snapshot.of(target) if replace else _without_unfinished(target)
        if there.files and not (resume or replace):
            raise RmqIndexError(
                f"{target}: expected no IndexFiles, got {len(there.files)}: resume the rebuild, or "
                "replace them"
            )
        layout = layout or _layout_of(there.files)
        if not layout.capacity:
            raise ValueError(f"index_num: expected at least 2 to index messages, got {layout}")
        zone = zone_of(time_zone)
        log = commit_log if isinstance(commit_log, CommitLog) else CommitLog(commit_log)
        if log is not commit_log:
            stack.callback(log.close)
        begin = _resume_at(there.files, layout) if resume else None
        begin = begin or _Start(log.min_offset if start is None else start)
        stop = log.agreed_stop(stop)
        messages = _Messages(log, begin, stop, mode, on_malformed, progress, index_tags=index_tags)
        last_name = staging.last_name([entry.name for entry in there.files], replaced=replace)
        if commit is None:
            roller = FileRoller(staging.path, layout, zone, last_name=last_name)
            _build(roller, messages)
            said = replace_files(committer, there, roller)
        else:
            target.mkdir(exist_ok=True)
            roller = FileRoller(
                target,
                layout,
                zone,
                last_name=last_name,
                resumed=begin.resumed,
                commit=commit,
            )
            _build(roller, messages)
            said = commit.cover()
    files = tuple(target / path.name for path in roller.paths)
    return RebuildResult(files, roller.count, messages.count, begin.offset, messages.stop, said)


def _staging(target: Path, *, aside: bool) -> LocalStaging:
    """Return the staging in which files are built aside, or created before they grow in place."""
    if aside:
        return LocalStaging.create(target, Owner.current())
    return LocalStaging.at(target, f"rebuild-{uuid.uuid4().hex}")


def _without_unfinished(target: Path) -> Snapshot:
    """Remove a last file that an interrupted rebuild left empty; return the remaining files.

    Such a file has no size or no header, so it lacks the inherited end of the file before it.
    """
    there = Snapshot.of(target)
    if there.files:
        _, size, header = there.headers[-1]
        if not size or not any(header):
            Path(there.files[-1].path).unlink()
            there = Snapshot.of(target)
    return there


class _Messages:
    """The entries of a range of messages, in their order."""

    def __init__(
        self,
        log: CommitLog,
        begin: _Start,
        stop: int | None,
        mode: Mode,
        on_malformed: Callable[[CorruptCommitLogError], None] | None,
        progress: Callable[[int, int], None] | None,
        *,
        index_tags: bool,
    ) -> None:
        self._log = log
        self._key_columns = (*_KEY_COLUMNS, "tags") if index_tags else _KEY_COLUMNS
        self._begin = begin
        self._stop = stop
        self._mode: Mode = mode
        self._on_malformed = on_malformed
        self._progress = progress
        self.count = 0
        self.stop = begin.offset

    def entries(
        self,
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]]:
        """Yield hashes, offsets and store times."""
        end = self._log.files[-1].stop if self._log.files else 0
        end = end if self._stop is None else min(end, self._stop)
        batches = self._log.scan(
            self._begin.offset,
            self._stop,
            [*dict.fromkeys([*self._key_columns, *_COLUMNS, "size"])],
            mode=self._mode,
            on_malformed=self._on_malformed,
        )
        skip = self._begin.skip
        for batch in batches:
            rows, _, hashes = expand_messages(*(batch[name] for name in self._key_columns))
            offsets = batch["phy_offset"].to_numpy()
            if skip and offsets[0] == self._begin.offset:
                # A message that was indexed again, or with its members, has more entries than keys.
                there = min(skip, int(np.searchsorted(rows, 1)))
                rows, hashes = rows[there:], hashes[there:]
            skip = 0
            self.count += len(offsets)
            self.stop = int(offsets[-1]) + batch["size"][len(offsets) - 1].as_py()
            yield hashes, offsets[rows], batch["store_timestamp"].to_numpy()[rows]
            if self._progress is not None:
                self._progress(self.stop, end)


def _build(roller: FileRoller, messages: _Messages) -> None:
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


def _layout_of(there: Sequence[FileEntry]) -> Layout:
    for entry in there:
        try:
            return infer_layout(entry.path)
        except RmqIndexError:
            continue  # without entries, or damaged; another file may decide
    if there:
        raise RmqIndexError(
            f"{there[0].path}: no file tells the geometry: give maxHashSlotNum and maxIndexNum"
        )
    return Layout()


def _resume_at(there: Sequence[FileEntry], layout: Layout) -> _Start | None:
    """Find the last entry, and count the entries of its message at the end of the files."""
    skip = 0
    offset: int | None = None
    for entry in reversed(there):
        with IndexFile(entry.path, layout) as file:
            position = file.entry_count
            while position >= FIRST_POSITION:
                (batch,) = file.scan(position, position + 1, ["phy_offset"])
                found = batch["phy_offset"][0].as_py()
                offset = found if offset is None else offset
                if found != offset:
                    return _Start(offset, skip, Path(there[-1].path))
                skip += 1
                position -= 1
    if offset is None:
        return None
    return _Start(offset, skip, Path(there[-1].path))
