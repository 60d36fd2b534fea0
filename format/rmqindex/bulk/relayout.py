"""Changes a whole index, all or nothing: relayout to another geometry, and expiry.

RocketMQ opens every file with the geometry of its configuration, so a broker whose
``maxHashSlotNum`` or ``maxIndexNum`` changes cannot read what it wrote before.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.arguments import ensure_flags
from rmqindex.bulk.committer import Committer
from rmqindex.bulk.losses import Replacement, summaries
from rmqindex.bulk.resume import make_exact
from rmqindex.bulk.roller import FileRoller, replace_files
from rmqindex.commitlog.snapshot import commit_log_of
from rmqindex.errors import CorruptIndexError, RmqIndexError, command_line
from rmqindex.indexfile.geometry import AmbiguousLayoutError, UnknownLayoutError
from rmqindex.indexfile.reader import IndexFile
from rmqindex.layout.index_file import BEGIN_TIMESTAMP_OFFSET, FIRST_POSITION
from rmqindex.layout.store import CHECKPOINT_NAME
from rmqindex.query.message_keys import SearchedFile
from rmqindex.query.verification import Verifier
from rmqindex.store.contents import hold_writable
from rmqindex.store.names import latest_name
from rmqindex.store.snapshot import IndexSnapshot, layout_beside, open_in_store
from rmqindex.store.store import Store
from rmqindex.times import zone_of
from rmqindex.transaction.jobs import recover
from rmqindex.transaction.local_staging import LocalStaging
from rmqindex.transaction.owner import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import tzinfo

    import pyarrow as pa

    from rmqindex.commitlog.framing import LogFile
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.storage.location import Location, PathLike
    from rmqindex.transaction.directories import FileEntry

_COLUMNS = ("key_hash", "phy_offset", "store_timestamp")
_ZEROS = ("time_diff", "position", "prev_position")


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
        replacement: The old files and the new ones.
        dry_run: Whether nothing was changed: the fields tell what would be.
    """

    files: tuple[Path, ...]
    replaced: tuple[str, ...]
    entry_count: int
    exact_times: int
    index_msg_timestamp: int | None
    replacement: Replacement
    dry_run: bool = False


def relayout_index(
    path: PathLike,
    layout: Layout,
    *,
    old_layout: Layout | None = None,
    commit_log: CommitLog | PathLike | Sequence[PathLike | LogFile] | None = None,
    time_zone: str | tzinfo | None = None,
    allow_live_store: bool = False,
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> RelayoutResult:
    """Rewrite an index with another geometry.

    The new files are complete before the first old one is removed; a crash leaves either the old
    index or the new one.
    An IndexFile stores times as whole seconds behind its first one, up to a second early. Those of
    messages that the CommitLog lacks are counted from the first one of another file, by each
    relayout anew, which may make them up to another second earlier.
    The last entry of all is kept, too, where its slot leads to it and a kill came before its count:
    a lookup finds it.
    A store's checkpoint is raised, since files now end elsewhere: a broker that starts after a
    crash deletes those that end after it.

    Args:
        path: A local index directory, or a store root that has ``index/``.
        layout: The new geometry.
        old_layout: The geometry of the present files; None to infer it.
        commit_log: As :func:`verify` takes it; the source of the exact times.
        time_zone: The broker's time zone, in which new files are named; by default the system's.
        allow_live_store: Write even if a broker runs on the store.
        dry_run: Write the new files aside, and replace none. A broker may run meanwhile, which
            changes the numbers.
        progress: Called with the number of entries done and the total.

    Returns:
        The result.

    Raises:
        RmqIndexError: No local index directory, a damaged file, a broker holds the store, or
            another writer changed the index meanwhile.
        ValueError: A geometry without room for entries.
        OSError: The disk is full or broken.
    """
    ensure_flags(allow_live_store=allow_live_store, dry_run=dry_run)
    if not layout.capacity:
        raise ValueError(f"index_num: expected at least 2 to index messages, got {layout}")
    directory = _local_directory(path)
    log = commit_log_of(path, commit_log)
    exact = 0
    checkpoint = directory.parent / CHECKPOINT_NAME
    is_store = checkpoint.exists() and not checkpoint.is_dir()
    with (
        hold_writable(directory, allow_live_store=allow_live_store, dry_run=dry_run),
        ExitStack() as stack,
    ):
        if log is not None and log is not commit_log:
            stack.callback(log.close)
        staging = LocalStaging.create(directory, Owner.current())
        committer = stack.enter_context(
            Committer(staging, directory, allow_live_store=allow_live_store, checkpoint=is_store)
        )
        old = IndexSnapshot.of_headers(directory)
        if not old.entries:
            raise RmqIndexError(f"{directory}: expected IndexFiles to change, found none")
        zone = zone_of(time_zone)
        last_name = staging.last_name(old.names, replaced=True, latest=latest_name(zone))
        roller = FileRoller(staging.path, layout, zone, last_name=last_name)
        stack.callback(roller.abandon)
        total = old.entry_count
        hint = f"a damaged file cannot get another geometry without loss; {_how_to_rebuild(path)}"
        for entry in old.entries:
            with _whole(entry.path, old_layout, hint, is_last=entry == old.entries[-1]) as file:
                if log is not None and file.header.entry_count:
                    _ensure_times(file, entry.path, log, hint)
                for batch in file.scan(columns=(*_COLUMNS, *_ZEROS)):
                    _ensure_written(file, batch, hint)
                    hashes, offsets, times = (batch[name].to_numpy() for name in _COLUMNS)
                    times = times.copy()
                    exact += make_exact(file.header, offsets, times, log)
                    roller.put_many(hashes, offsets, times)
                    if progress is not None:
                        progress(min(roller.count, total), total)
        roller.close()
        replacement = Replacement(
            summaries([Path(e.path) for e in old.entries]), summaries(roller.paths)
        )
        checkpoint_time = None if dry_run else replace_files(committer, old, roller)
    files = tuple(directory / made.name for made in roller.paths)
    return RelayoutResult(
        files, tuple(old.names), roller.count, exact, checkpoint_time, replacement, dry_run
    )


def _how_to_rebuild(path: PathLike) -> str:
    verify = command_line("verify", path)
    return f"`{verify}` says how to write the index anew from the CommitLog"


@contextmanager
def _whole(
    path: Location, layout: Layout | None, hint: str, *, is_last: bool
) -> Iterator[IndexFile]:
    """Open a file that must be read completely."""
    try:
        with _opened(path, layout, is_last=is_last) as file:
            file.check_header(is_last=is_last)
            if is_last:
                file.count_put(lambda: layout_beside(path))
            yield file
    except CorruptIndexError as error:
        parts = (error.path, error.field, error.byte, error.expected, error.got, hint)
        raise CorruptIndexError(*parts) from error
    except AmbiguousLayoutError:
        raise  # its broker's numbers can be given
    except UnknownLayoutError as error:
        reason = str(error).partition("; ")[0]
        raise RmqIndexError(f"{reason}; {hint}") from error


def _ensure_times(file: IndexFile, path: Location, log: CommitLog, hint: str) -> None:
    """Refuse a file whose ``begin_timestamp`` is not its first message's store time."""
    (first,) = file.scan(FIRST_POSITION, FIRST_POSITION + 1, ["key_hash", "phy_offset", "position"])
    columns = [column.to_numpy() for column in first.columns]
    compared = Verifier("indexed").compare(log, [SearchedFile.of(file, path)], *columns)
    if compared.rows[0] < 0:
        return  # its message has expired, or is another one now
    stored = compared.messages["store_timestamp"][int(compared.rows[0])].as_py()
    if stored != file.header.begin_timestamp:
        expected = f"{stored}, the store time of the first entry's message"
        got = file.header.begin_timestamp
        at = BEGIN_TIMESTAMP_OFFSET
        raise CorruptIndexError(str(path), "begin_timestamp", at, expected, got, hint)


def _ensure_written(file: IndexFile, batch: pa.RecordBatch, hint: str) -> None:
    """Refuse entries of zeros to which their slot does not lead: those that were there are lost."""
    named = ("key_hash", "phy_offset", "time_diff", "prev_position")
    zeros = np.logical_and.reduce([batch[name].to_numpy() == 0 for name in named])
    if not zeros.any():
        return
    found = file.lookup(np.zeros(1, np.int32))["position"].to_numpy()
    lost = np.setdiff1d(batch["position"].to_numpy()[zeros], found)
    if len(lost):
        assert file.layout is not None  # there are entries
        at = file.layout.entry_offset(int(lost[0]))
        expected = f"an entry that was written (entry {lost[0]})"
        raise CorruptIndexError(file.path, "key_hash", at, expected, "zeros", hint)


def _opened(path: Location, layout: Layout | None, *, is_last: bool) -> IndexFile:
    """Open a file; where its header hides its geometry, the error names the header's field."""
    try:
        return open_in_store(path, layout, "FAILFAST")
    except CorruptIndexError:
        raise
    except RmqIndexError:
        known = layout or layout_beside(path)
        if known is not None:
            with IndexFile(path, known) as file:
                file.check_header(is_last=is_last)
        raise


def expired_files(
    path: PathLike,
    offset: int,
    *,
    commit_log: CommitLog | PathLike | Sequence[PathLike | LogFile] | None = "auto",
    allow_loss: bool = False,
    on_loss: Callable[[str], None] | None = None,
) -> list[FileEntry]:
    """Return the files that the broker's next expiry deletes (``IndexService.deleteExpiredFile``).

    These are the oldest files, up to the first that does not end before an offset, and never the
    last file. ``on_loss`` is called with each loss that is allowed.
    """
    index = Store.open(path).directory()
    expired = []
    for file in IndexSnapshot.of_headers(index)[:-1]:
        if file.header.end_phy_offset >= offset:  # of one without a header 0, as in the broker
            break
        expired.append(file.entry)
    if expired and (not allow_loss or on_loss is not None):
        for error in _losses(expired, offset, path, commit_log):
            if not allow_loss:
                raise error
            if on_loss is not None:
                on_loss(str(error).partition("; ")[0])  # without what to do against it
    return expired


def _losses(
    expired: Sequence[FileEntry],
    offset: int,
    given: PathLike,
    commit_log: CommitLog | PathLike | Sequence[PathLike | LogFile] | None,
) -> Iterator[RmqIndexError]:
    """Yield why not to delete files: entries of messages behind an offset, or still in the log."""
    hint = (
        f"a damaged file is not deleted by its header; {_how_to_rebuild(given)}, and "
        "allow_loss=True deletes the file as the broker would"
    )
    log = commit_log_of(given, commit_log)
    begin = offset if log is None or not log.files else min(offset, log.min_offset)
    if log is not None and log is not commit_log:
        log.close()
    kept = 0
    for entry in expired:
        greatest = -1
        try:
            with _whole(entry.path, None, hint, is_last=False) as file:
                for batch in file.scan(columns=["phy_offset"]):
                    offsets = batch["phy_offset"].to_numpy()
                    greatest = max(greatest, int(offsets.max()))
                    kept += int(np.count_nonzero(offsets >= begin))
        except RmqIndexError as error:
            yield error
        if greatest >= offset:
            yield RmqIndexError(
                f"{entry.path}: expected entries of messages before {offset}, got one at "
                f"{greatest}, though the last one is before; allow_loss=True deletes the file, as "
                "the broker would"
            )
    if kept:
        yield RmqIndexError(
            f"{given}: expected messages before {offset} to have expired, got a CommitLog that "
            f"begins at offset {begin}: entries of messages that it still has would be lost, "
            f"{kept} in {len(expired)} IndexFiles; allow_loss=True deletes them"
        )


def expire_index(
    path: PathLike,
    offset: int,
    *,
    commit_log: CommitLog | PathLike | Sequence[PathLike | LogFile] | None = "auto",
    allow_live_store: bool = False,
    allow_loss: bool = False,
    on_loss: Callable[[str], None] | None = None,
) -> list[FileEntry]:
    """Delete the files of ``expired_files``, all or none."""
    ensure_flags(allow_live_store=allow_live_store, allow_loss=allow_loss)
    directory = _local_directory(path)
    find = partial(expired_files, path, offset, commit_log=commit_log, allow_loss=allow_loss)
    with hold_writable(directory, allow_live_store=allow_live_store):
        if not find():
            recover(directory)  # a run that died after its commit has left nothing else to do
            return []
        staging = LocalStaging.create(directory, Owner.current())
        committer = Committer(staging, directory, allow_live_store=allow_live_store)
        with committer, committer.begin() as commit:
            # Others may have written in between.
            expired = find(on_loss=on_loss)
            if expired:
                commit.remove([entry.name for entry in expired])
                commit.finish()
        return expired


def _local_directory(path: PathLike) -> Path:
    store = Store.open(path)
    local = store.path.absolute.local
    if local is None:
        raise RmqIndexError(f"{path}: only a local index directory can be written")
    store.directory()
    return local
