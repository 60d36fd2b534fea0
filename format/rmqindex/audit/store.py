"""The audit of the store around IndexFiles: file order, checkpoint, ``abort``, the log's end.

A broker that starts after a crash deletes each IndexFile that ends after the checkpoint's
``indexMsgTimestamp``, the last one included, and indexes messages again from the newest log file
that begins before the checkpoint's other times or, from 5.5.0 on, its offset (RocketMQ:
``IndexService.load``, ``CommitLog.recoverAbnormally``).

RocketMQ: ``IndexService.load``, ``IndexService.buildIndex``, ``DefaultMessageStore.load``.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqindex.audit.audited import BLOCK
from rmqindex.audit.extent import recovered_from
from rmqindex.commitlog.leads import Lead, LeadKind, proved_lead
from rmqindex.commitlog.snapshot import commit_log_of
from rmqindex.errors import RmqIndexError
from rmqindex.indexfile.committed import open_index_source
from rmqindex.indexfile.decoding import MILLISECONDS
from rmqindex.layout.index_file import (
    BEGIN_PHY_OFFSET_OFFSET,
    END_PHY_OFFSET_OFFSET,
    FIRST_POSITION,
)
from rmqindex.layout.store import ABORT_NAME, CHECKPOINT_NAME, INDEX_FOLDER, LOCK_NAME
from rmqindex.storage.filesystem import unreadable
from rmqindex.storage.location import Location
from rmqindex.store.checkpoint import StoreCheckpoint
from rmqindex.store.names import is_index_name, local_time, timestamp_name
from rmqindex.store.store import index_entries
from rmqindex.transaction.broker_lock import BrokerLock, BrokerState
from rmqindex.transaction.directories import directory_entries
from rmqindex.transaction.jobs import dead_jobs
from rmqindex.transaction.journal import staging_root

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.audit.findings import Findings
    from rmqindex.audit.units import Member
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.layout.index_file import IndexHeader

# StoreCheckpoint.java: index_msg_timestamp is the third of five longs.
_INDEX_MSG_TIMESTAMP_OFFSET = 16
_CHECKPOINT_FIELDS_SIZE = 40
# Milliseconds.
_DAY = 86_400_000
_MOST_AHEAD_OF_UTC = 14 * 3_600_000


def audit_names(directory: Location, findings: Findings) -> None:
    """Check the names in an index directory."""
    for entry in index_entries(directory):
        if entry.is_directory:
            findings.add(entry.path, "directory_name", None, "an IndexFile", "a directory")
    for entry in directory_entries(directory):
        if not is_index_name(entry.name):
            findings.add(entry.path, "foreign_name", None, "IndexFiles alone", entry.name)


def audit_files(
    files: Sequence[tuple[str, IndexHeader, Layout | None]], findings: Findings
) -> None:
    """Compare files with each other."""
    layouts = Counter(layout for _, _, layout in files if layout is not None)
    common = max(layouts, key=lambda layout: layouts[layout], default=None)
    for path, _, layout in files:
        if layout is not None and layout != common:
            findings.add(path, "geometry_differs", None, common, layout)
    for (_, before, _), (path, header, _) in pairwise(files):
        if header.entry_count and header.begin_phy_offset < before.end_phy_offset:
            findings.add(
                path,
                "file_order",
                BEGIN_PHY_OFFSET_OFFSET,
                f"offsets from {before.end_phy_offset}",
                header.begin_phy_offset,
            )
    for path, header, layout in files[:-1]:
        if layout is not None and header.entry_count < layout.capacity:
            findings.add(path, "not_full", None, f"{layout.capacity} entries", header.entry_count)


def audit_name_times(
    directory: Location, members: Sequence[Member], log: CommitLog | None, findings: Findings
) -> None:
    """Check whether a file's name is a later time than messages and the file before it show.

    Names are local times of an unknown zone, and a file that was made long after its messages has
    such a name, too, but then so has the one before it.
    """
    newest = max((member.header.end_timestamp for member in members), default=0)
    if log is not None and log.files:
        newest = max(newest, log.first_store_timestamp(log.files[-1]) or 0)
    checkpoint = None if directory.local is None else directory.local.parent / CHECKPOINT_NAME
    if checkpoint is not None and checkpoint.is_file():
        try:
            newest = max(newest, StoreCheckpoint.load(checkpoint).physic_msg_timestamp)
        except OSError:
            return  # the audit of the store's state reports it
    times = [(each, local_time(each.name)) for each in members if each.header.entry_count]
    for (before, before_time), (member, time) in pairwise(times):
        if before_time is None or time is None:
            continue
        late = time - member.header.begin_timestamp
        late_before = before_time - before.header.begin_timestamp
        # Two names that follow each other at once are of one time, whatever the messages' clock.
        ahead = min(late - late_before, time - before_time)
        if ahead > _DAY and time - newest > _MOST_AHEAD_OF_UTC:
            findings.add(
                member.path,
                "file_name_ahead",
                None,
                f"a time before {timestamp_name(newest + _MOST_AHEAD_OF_UTC, UTC)}, that of the "
                "newest message in any zone",
                member.name,
            )


def audit_state(
    directory: str,
    members: Sequence[Member],
    broker: BrokerState,
    log: CommitLog | None,
    findings: Findings,
) -> None:
    """Check a local store's ``checkpoint``, ``abort`` and ``lock``, and for unfinished writes."""
    root = Path(directory).absolute().parent
    is_store = Path(directory).absolute().name == INDEX_FOLDER
    checkpoint = root / CHECKPOINT_NAME
    checkpoint_fields: StoreCheckpoint | None = StoreCheckpoint()
    try:
        if checkpoint.is_file():
            checkpoint_fields = StoreCheckpoint.load(checkpoint)
    except OSError as error:
        reason = unreadable(Location.of(checkpoint), error)
        findings.add(str(checkpoint), "unreadable", None, "a checkpoint", reason)
        checkpoint_fields = None
    if is_store and broker is BrokerState.CRASHED and checkpoint_fields is not None:
        own_log = commit_log_of(root, "auto") or log
        _audit_restart(members, checkpoint_fields, own_log, root, findings)
        if own_log is not None and own_log is not log:
            own_log.close()
    if is_store and log is not None and checkpoint_fields is not None:
        _audit_lost_log(root, log, checkpoint_fields, findings)
    if is_store and broker is BrokerState.RUNNING and _audit_lock(directory, findings):
        return  # who writes may be about to finish what is unfinished
    staging, jobs = staging_root(directory), dead_jobs(Path(directory))
    if (staging / "journal.json").exists():
        findings.add(str(staging), "unfinished_write", None, "no journal", "a journal")
    elif jobs:
        findings.add(
            str(jobs[0]), "unfinished_write", None, "no job of a dead process", f"{len(jobs)}"
        )
    if is_store and broker is not BrokerState.RUNNING and checkpoint_fields is not None:
        _audit_checkpoint(checkpoint, checkpoint_fields, members, broker, findings)


def _audit_lost_log(
    root: Path, log: CommitLog, checkpoint: StoreCheckpoint, findings: Findings
) -> None:
    """Say that a log has lost all its files, which index and queues need not show."""
    stored = checkpoint.physic_msg_timestamp
    if stored > 0 and not log.files:
        expected = f"a CommitLog, of which messages up to {stored} were flushed"
        findings.add(str(root), "log_unreadable", None, expected, "one without files")


def _audit_lock(directory: str, findings: Findings) -> bool:
    """Say who holds the lock, or why nobody can tell; return whether it is held still."""
    lock = BrokerLock.around(directory)
    if lock.fault is not None:
        path, reason = lock.fault
        expected, got = "a lock that can be read", unreadable(Location.of(path), reason)
        findings.add(str(path), "unreadable", None, expected, got)
        return True
    broker, writer = lock.broker, lock.writer
    if broker is not None:
        who = f"process {broker}" if broker else "a process of another machine"
    elif writer is not None:
        who = f"process {writer}, by which rmqindex is writing"
    elif lock.state is BrokerState.CRASHED:
        who = "a broker that was killed since the audit began"
    else:
        return False
    path = Path(directory).parent / LOCK_NAME
    findings.add(str(path), "lock_held", None, "no lock", who)
    return broker is not None or writer is not None


def _audit_restart(
    members: Sequence[Member],
    checkpoint: StoreCheckpoint,
    log: CommitLog | None,
    root: Path,
    findings: Findings,
) -> None:
    """Say which files a broker deletes when it starts, and which entries it does not make again.

    Without a log, nobody can tell which messages it indexes again.
    """
    end = checkpoint.index_msg_timestamp
    deleted = [member for member in members if member.header.end_timestamp > end]
    bounds = None
    if log is not None:
        remaining = [member for member in members if member not in deleted]
        # It skips what lies before the end of the last file that it keeps.
        barrier = remaining[-1].header.end_phy_offset if remaining else 0
        begin = max(recovered_from(checkpoint, root, log), barrier, log.min_offset)
        bounds = log.min_offset, min(begin, log.max_offset), log.max_offset
    lost = 0
    for member in deleted:
        count = member.header.entry_count
        if not count:
            continue
        expired, skipped, again, beyond = _fates(member, bounds)
        lost += skipped + beyond
        got = f"{end}: deletes {count} entries, indexes {again} again"
        if expired:
            got += f"; {expired} are of expired messages"
        if beyond:
            got += f"; {beyond} lead behind the end of the CommitLog"
        findings.add(
            member.path,
            "restart_loses" if skipped or beyond else "restart_rebuilds",
            None,
            f"index_msg_timestamp from {member.header.end_timestamp} on",
            got,
        )
    if not lost:
        findings.add(str(root / ABORT_NAME), "abort_present", None, "no such file", "one")


def _fates(member: Member, bounds: tuple[int, int, int] | None) -> tuple[int, int, int, int]:
    """Return how many entries of a file a start leaves out as expired, skips, and makes again.

    The last number is of those that lead behind the log's end. ``bounds`` are the log's start,
    from where the broker indexes again, and the log's end; None if nobody can tell.
    """
    count = member.header.entry_count
    skipped = 0, count, 0, 0
    if bounds is None or member.layout is None:
        return skipped
    _, resumed, end = bounds
    is_whole = member.count == count
    if is_whole and member.first >= resumed and member.header.end_phy_offset < end:
        return 0, 0, count, 0  # their offsets ascend, or other rules say so
    fates = np.zeros(len(bounds) + 1, np.int64)
    try:
        for entries in _blocks(member, member.layout):
            offsets = entries["phy_offset"].astype(np.int64)
            fates += np.bincount(np.digitize(offsets, bounds), minlength=len(fates))
    except RmqIndexError:
        return skipped  # the file's own unit reports why
    expired, before, again, beyond = fates.tolist()
    return expired, before + count - int(fates.sum()), again, beyond


def _has_entry_at(member: Member, time: int) -> bool:
    """Return whether an entry has a time, or a later one: clocks step back, and header ends too."""
    seconds = (time - member.header.begin_timestamp) // MILLISECONDS
    try:
        return member.layout is not None and any(
            (entries["time_diff"] >= seconds).any() for entries in _blocks(member, member.layout)
        )
    except RmqIndexError:
        return False  # the file's own unit reports why


def _blocks(member: Member, layout: Layout) -> Iterator[NDArray[Any]]:
    stop = member.count + FIRST_POSITION
    with open_index_source(member.path, zero_extend_to=layout.file_size) as source:
        for position in range(FIRST_POSITION, stop, BLOCK):
            yield source.entry_range(layout, position, min(position + BLOCK, stop))


def _audit_checkpoint(
    path: Path,
    checkpoint: StoreCheckpoint,
    members: Sequence[Member],
    broker: BrokerState,
    findings: Findings,
) -> None:
    if not path.is_file():
        got = "a directory" if path.is_dir() else "none"
        findings.add(str(path), "checkpoint_missing", None, "a checkpoint", got)
        return
    size = path.stat().st_size
    if size < _CHECKPOINT_FIELDS_SIZE:
        findings.add(
            str(path), "checkpoint_size", size, f"{_CHECKPOINT_FIELDS_SIZE} bytes", f"{size} bytes"
        )
    flushed = checkpoint.index_msg_timestamp
    headers = [member.header for member in members]
    late = [header.end_timestamp for header in headers[:-1] if header.end_timestamp > flushed]
    if late and broker is not BrokerState.CRASHED:  # where it counts already
        findings.add(
            str(path),
            "checkpoint_behind",
            _INDEX_MSG_TIMESTAMP_OFFSET,
            f"at least {max(late)}, the end of a file that is not the last",
            flushed,
        )
    latest = max((header.end_timestamp for header in headers), default=flushed)
    if flushed > latest and not any(_has_entry_at(member, flushed) for member in members):
        findings.add(
            str(path),
            "checkpoint_ahead",
            _INDEX_MSG_TIMESTAMP_OFFSET,
            f"at most {latest}, the last end of a file",
            flushed,
        )


def audit_barrier(path: Location, last: IndexHeader, log: CommitLog, findings: Findings) -> None:
    """Check whether the last file would make the broker skip future messages."""
    end = log.max_offset
    # With an empty log, a broker restarts at 0: it skips all but a message at the very end.
    if last.end_phy_offset >= max(end, 1) and _leads_behind(path, last, end):
        findings.add(
            path,
            "stop_barrier",
            END_PHY_OFFSET_OFFSET,
            f"less than {end}, the end of the CommitLog" if end else "0: the CommitLog is empty",
            last.end_phy_offset,
        )


def _leads_behind(path: Location, last: IndexHeader, end: int) -> bool:
    """Return whether entries lead behind the log's end, too; else the header is damaged."""
    lead = Lead(last.end_phy_offset, str(path), LeadKind.INDEX, path)
    return proved_lead([lead], end, lambda _start, _stop: iter(())) is not None
