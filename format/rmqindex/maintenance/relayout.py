"""Changes a whole index, all or nothing: relayout to another geometry, and expiry.

RocketMQ opens every file with the geometry of its configuration, so a broker whose
``maxHashSlotNum`` or ``maxIndexNum`` changes cannot read what it wrote before.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.audit.audited import elapsed_seconds
from rmqindex.bulk.committer import Committer
from rmqindex.bulk.roller import FileRoller, replace_files
from rmqindex.commitlog.log import MATCH_STATES, CommitLog
from rmqindex.commitlog.sibling import commit_log_of
from rmqindex.errors import CorruptIndexError, RmqIndexError
from rmqindex.fileset.geometry import open_in_store
from rmqindex.fileset.paths import list_index_files, resolve
from rmqindex.fileset.snapshot import Snapshot
from rmqindex.indexfile.committed import open_index_source, read_header
from rmqindex.store.checkpoint import CHECKPOINT_NAME
from rmqindex.store.contents import hold_writable
from rmqindex.times import zone_of
from rmqindex.transaction.jobs import recover
from rmqindex.transaction.local_staging import LocalStaging
from rmqindex.transaction.owner import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import tzinfo
    from pathlib import Path

    from numpy.typing import NDArray

    from rmqindex.header import IndexHeader
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.indexfile.reader import IndexFile
    from rmqindex.logfile.files import LogFile
    from rmqindex.storage.location import Location, PathLike
    from rmqindex.transaction.directories import FileEntry

__all__ = ["RelayoutResult", "expire_index", "expired_files", "make_exact", "relayout_index"]

_RECORD = MATCH_STATES.index("record")
_DAMAGED_HINT = (
    "a damaged file cannot get another geometry without loss; `rmqindex verify` says how "
    "to write the index anew from the CommitLog"
)
_COLUMNS = ("key_hash", "phy_offset", "store_timestamp")


@dataclass(frozen=True, slots=True)
class RelayoutResult:
    """The result of a change of geometry.

    Attributes:
        files: The new files, oldest first.
        replaced: The names of the old ones.
        entry_count: How many entries they have.
        exact_times: How many of them have the exact store time of their message.
        index_msg_timestamp: The value of the store's checkpoint now, epoch milliseconds; None where
            the index does not belong to a store.
    """

    files: tuple[Path, ...]
    replaced: tuple[str, ...]
    entry_count: int
    exact_times: int
    index_msg_timestamp: int | None


def relayout_index(
    path: PathLike,
    layout: Layout,
    *,
    old_layout: Layout | None = None,
    commit_log: CommitLog | PathLike | Sequence[PathLike | LogFile] | None = None,
    time_zone: str | tzinfo | None = None,
    allow_live_store: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> RelayoutResult:
    """Rewrite an index with another geometry.

    The new files are complete before the first old one is removed; a crash leaves either the old
    index or the new one.
    An IndexFile stores times as whole seconds: an entry that moves to another file may be up to a
    second early, unless its message is in the CommitLog.
    A store's checkpoint is raised, since files now end elsewhere: a broker that starts after a
    crash deletes those that end after it.

    Args:
        path: A local index directory, or a store root that has ``index/``.
        layout: The new geometry.
        old_layout: The geometry of the present files; None to infer it.
        commit_log: As :func:`verify` takes it; the source of the exact times.
        time_zone: The broker's time zone, in which new files are named; by default the system's.
        allow_live_store: Write even if a broker runs on the store.
        progress: Called with the number of entries done and the total.

    Returns:
        The result.

    Raises:
        RmqIndexError: No local index directory, a damaged file, a broker holds the store, or
            another writer changed the index meanwhile.
        ValueError: A geometry without room for entries.
        OSError: The disk is full or broken.
    """
    if not layout.capacity:
        raise ValueError(f"index_num: expected at least 2 to index messages, got {layout}")
    directory = _local_directory(path)
    log = commit_log_of(path, commit_log)
    exact = 0
    is_store = (directory.parent / CHECKPOINT_NAME).exists()
    with hold_writable(directory, allow_live_store=allow_live_store), ExitStack() as stack:
        if log is not None and log is not commit_log:
            stack.callback(log.close)
        staging = LocalStaging.create(directory, Owner.current())
        committer = stack.enter_context(
            Committer(staging, directory, allow_live_store=allow_live_store, checkpoint=is_store)
        )
        old = Snapshot.of(directory)
        if not old.files:
            raise RmqIndexError(f"{directory}: expected IndexFiles to change, found none")
        last_name = staging.last_name(old.names, replaced=True)
        roller = FileRoller(staging.path, layout, zone_of(time_zone), last_name=last_name)
        stack.callback(roller.abandon)
        total = sum(_header(entry).entry_count for entry in old.files)
        for entry in old.files:
            with _whole(entry.path, old_layout) as file:
                for batch in file.scan(columns=_COLUMNS):
                    hashes, offsets, times = (batch[name].to_numpy() for name in _COLUMNS)
                    times = times.copy()
                    exact += make_exact(file.header, offsets, times, log)
                    roller.put_many(hashes, offsets, times)
                    if progress is not None:
                        progress(roller.count, total)
        roller.close()
        said = replace_files(committer, old, roller)
    files = tuple(directory / made.name for made in roller.paths)
    return RelayoutResult(files, tuple(old.names), roller.count, exact, said)


@contextmanager
def _whole(path: Location, layout: Layout | None) -> Iterator[IndexFile]:
    """Open a file of which no entry may be lost.

    Raises:
        CorruptIndexError: It is damaged; reading it, too, raises this.
    """
    try:
        with open_in_store(path, layout, "FAILFAST") as file:
            yield file
    except CorruptIndexError as error:
        parts = (error.path, error.field, error.byte, error.expected, error.got)
        raise CorruptIndexError(*parts, _DAMAGED_HINT) from error


def make_exact(
    header: IndexHeader,
    offsets: NDArray[np.int64],
    times: NDArray[np.int64],
    log: CommitLog | None,
) -> int:
    """Replace times in whole seconds by the messages' own; return how many are exact now."""
    is_exact = times == header.begin_timestamp
    if log is not None:
        wanted, rows = np.unique(offsets, return_inverse=True)
        found = log.read_at(wanted, ["store_timestamp"])
        record = found["state"].indices.to_numpy() == _RECORD
        stored = found["store_timestamp"].fill_null(0).to_numpy(zero_copy_only=False)[rows]
        # A message with another time is not the indexed one.
        agrees = record[rows] & (
            elapsed_seconds(stored, header.begin_timestamp)
            == elapsed_seconds(times, header.begin_timestamp)
        )
        times[agrees] = stored[agrees]
        is_exact |= agrees
    # The header has the exact time of the last put.
    ends = (offsets == header.end_phy_offset) & (
        elapsed_seconds(times, header.begin_timestamp)
        == elapsed_seconds(header.end_timestamp, header.begin_timestamp)
    )
    times[ends] = header.end_timestamp
    return int(np.count_nonzero(is_exact | ends))


def expired_files(path: PathLike, offset: int) -> list[FileEntry]:
    """Return the files that the broker's next expiry deletes (``IndexService.deleteExpiredFile``).

    These are the oldest files, up to the first that does not end before an offset, and never the
    last file.

    Args:
        path: An index directory, or a store root that has ``index/``.
        offset: Where the CommitLog begins, bytes.

    Raises:
        RmqIndexError: No index directory.
    """
    resolved = resolve(path)
    if resolved.is_file:
        raise RmqIndexError(f"{path}: expected an index directory or a store root, got a file")
    expired = []
    for entry in list_index_files(resolved.path)[:-1]:
        if _header(entry).end_phy_offset >= offset:
            break
        expired.append(entry)
    return expired


def expire_index(path: PathLike, offset: int, *, allow_live_store: bool = False) -> list[FileEntry]:
    """Delete the files of :func:`expired_files`, all or none.

    Args:
        path: A local index directory, or a store root that has ``index/``.
        offset: Where the CommitLog begins, bytes.
        allow_live_store: Delete even if a broker runs on the store.

    Returns:
        The files that are gone.

    Raises:
        RmqIndexError: No local index directory, or a broker holds the store.
        OSError: A file cannot be deleted.
    """
    directory = _local_directory(path)
    with hold_writable(directory, allow_live_store=allow_live_store):
        if not expired_files(path, offset):
            recover(directory)  # a run that died after its commit has left nothing else to do
            return []
        staging = LocalStaging.create(directory, Owner.current())
        committer = Committer(staging, directory, allow_live_store=allow_live_store)
        with committer, committer.begin() as commit:
            expired = expired_files(path, offset)  # others may have written in between
            if expired:
                commit.remove([entry.name for entry in expired])
                commit.finish()
        return expired


def _local_directory(path: PathLike) -> Path:
    resolved = resolve(path)
    local = resolved.path.absolute.local
    if local is None:
        raise RmqIndexError(f"{path}: only a local index directory can be written")
    if resolved.is_file:
        raise RmqIndexError(f"{path}: expected an index directory or a store root, got a file")
    return local


def _header(entry: FileEntry) -> IndexHeader:
    with open_index_source(entry.path) as source:
        return read_header(source)
