"""The audit of the store around IndexFiles: file order, checkpoint, ``abort``, the log's end.

RocketMQ: ``IndexService.load``, ``IndexService.buildIndex``, ``DefaultMessageStore.load``.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from rmqindex.fileset.paths import index_entries, is_index_name
from rmqindex.folders import ABORT_NAME, INDEX_FOLDER, LOCK_NAME
from rmqindex.layout import BEGIN_PHY_OFFSET_OFFSET, END_PHY_OFFSET_OFFSET
from rmqindex.store.checkpoint import CHECKPOINT_NAME, StoreCheckpoint
from rmqindex.transaction.broker_lock import BrokerLock
from rmqindex.transaction.directories import directory_entries
from rmqindex.transaction.journal import staging_root

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.audit.rules import Findings
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.header import IndexHeader
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.storage.location import Location

__all__ = ["audit_barrier", "audit_files", "audit_names", "audit_state"]

# StoreCheckpoint.java: index_msg_timestamp is the third of five longs.
_INDEX_MSG_TIMESTAMP_OFFSET = 16
_CHECKPOINT_FIELDS_SIZE = 40


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
    """Compare files with each other.

    Args:
        files: The path, header and geometry of each, oldest first.
        findings: Collects the findings.
    """
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


def audit_state(directory: str, headers: Sequence[IndexHeader], findings: Findings) -> None:
    """Check a local store's ``checkpoint``, ``abort`` and ``lock``, and for unfinished writes.

    Args:
        directory: The index directory.
        headers: The headers of its files, oldest first.
        findings: Collects the findings.
    """
    root = Path(directory).absolute().parent
    if (staging_root(directory) / "journal.json").exists():
        findings.add(
            str(staging_root(directory)), "unfinished_write", None, "no journal", "a journal"
        )
    if Path(directory).absolute().name != INDEX_FOLDER:
        return  # by its names, not a store
    if (root / ABORT_NAME).exists():
        findings.add(str(root / ABORT_NAME), "abort_present", None, "no such file", "one")
    holder = BrokerLock.of(root).broker
    if holder is not None:
        findings.add(str(root / LOCK_NAME), "lock_held", None, "no lock", f"process {holder}")
    _audit_checkpoint(root / CHECKPOINT_NAME, headers, findings)


def _audit_checkpoint(path: Path, headers: Sequence[IndexHeader], findings: Findings) -> None:
    if not path.is_file():
        findings.add(str(path), "checkpoint_missing", None, "a checkpoint", "none")
        return
    size = path.stat().st_size
    if size < _CHECKPOINT_FIELDS_SIZE:
        findings.add(
            str(path), "checkpoint_size", size, f"{_CHECKPOINT_FIELDS_SIZE} bytes", f"{size} bytes"
        )
    flushed = StoreCheckpoint.load(path).index_msg_timestamp
    late = [header.end_timestamp for header in headers[:-1] if header.end_timestamp > flushed]
    if late:
        findings.add(
            str(path),
            "checkpoint_behind",
            _INDEX_MSG_TIMESTAMP_OFFSET,
            f"at least {max(late)}, the end of a file that is not the last",
            flushed,
        )
    latest = max((header.end_timestamp for header in headers), default=flushed)
    if flushed > latest:
        findings.add(
            str(path),
            "checkpoint_ahead",
            _INDEX_MSG_TIMESTAMP_OFFSET,
            f"at most {latest}, the last end of a file",
            flushed,
        )


def audit_barrier(path: str, last: IndexHeader, log: CommitLog, findings: Findings) -> None:
    """Check whether the last file would make the broker skip future messages.

    Args:
        path: The last file.
        last: Its header.
        log: The CommitLog.
        findings: Collects the findings.
    """
    end = log.max_offset
    # With an empty log, a broker restarts at 0: it skips all but a message at the very end.
    if last.end_phy_offset >= max(end, 1):
        findings.add(
            path,
            "stop_barrier",
            END_PHY_OFFSET_OFFSET,
            f"less than {end}, the end of the CommitLog" if end else "0: the CommitLog is empty",
            last.end_phy_offset,
        )
