"""What fills the disk: messages and bytes by topic, queue and hour, and the folders of a store."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rmqindex.commitlog.log import MATCH_STATES
from rmqindex.commitlog.selection import Selection
from rmqindex.layout.index_file import INT64_MAX
from rmqindex.storage.location import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.errors import CorruptCommitLogError
    from rmqindex.indexfile.entries import Mode
    from rmqindex.storage.location import PathLike
    from rmqindex.store.snapshot import SnapshotFile

#: What messages can be counted by.
GROUPS = ("topic", "queue", "hour")
HOUR = 3_600_000  # milliseconds
Group = tuple[str | None, int | None, int | None]  # topic, queue, hour
_RECORD = MATCH_STATES.index("record")
# Path.stat() counts the space on disk in these units, whatever the file system's own are.
_DISK_BLOCK = 512


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The messages of one group; fields are None where messages are not grouped by them.

    Attributes:
        topic: The topic.
        queue_id: The queue.
        hour: When the hour of the store times begins, epoch milliseconds.
        message_count: How many messages.
        size: Their bytes in the CommitLog.
        entry_count: How many entries the index has of them; None without one.
    """

    topic: str | None
    queue_id: int | None
    hour: int | None
    message_count: int
    size: int
    entry_count: int | None = None


@dataclass(frozen=True, slots=True)
class FolderUsage:
    """A folder of a store root, or ``.`` for the files beside them.

    Attributes:
        name: Its name.
        file_count: The files in and below it.
        size: Their sizes in bytes.
        disk_size: What they take on disk in bytes.
    """

    name: str
    file_count: int
    size: int
    disk_size: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What the messages of a log take.

    Attributes:
        rows: The groups: hours in their order, else the largest first.
        message_count: All messages that were asked for.
        size: Their bytes.
        entry_count: Their entries in the index; None without one.
    """

    rows: tuple[UsageRow, ...]
    message_count: int
    size: int
    entry_count: int | None = None


def measure_usage(
    log: CommitLog,
    by: Sequence[str] = ("topic",),
    selection: Selection | None = None,
    *,
    mode: Mode = "FAILFAST",
    on_malformed: Callable[[CorruptCommitLogError], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Usage:
    """Count the messages of a log and their bytes.

    Args:
        log: The log.
        by: Some of ``topic``, ``queue`` (which goes with its topic) and ``hour``.
        selection: Which messages; None for all.
        mode: As :meth:`rmqindex.CommitLog.scan` takes it.
        on_malformed: As :meth:`rmqindex.CommitLog.scan` takes it.
        progress: Called with the bytes of the log that were read, and those that there are.

    Raises:
        ValueError: An unknown group.
        CorruptCommitLogError: Damage; only ``FAILFAST``.
    """
    for name in by:
        if name not in GROUPS:
            raise ValueError(f"by: expected some of {', '.join(GROUPS)}, got {name!r}")
    selection = selection or Selection()
    columns = ["phy_offset", "size", *_columns(by, selection)]
    counts: Counter[Group] = Counter()
    sizes: Counter[Group] = Counter()
    total = log.max_offset - log.min_offset if progress is not None else 0
    for batch in log.scan(
        selection.start, selection.stop, columns, mode=mode, on_malformed=on_malformed
    ):
        _count(batch, selection, by, counts, sizes)
        if progress is not None:
            progress(batch.column("phy_offset")[-1].as_py() - log.min_offset, total)
    rows = [UsageRow(*group, count, sizes[group]) for group, count in counts.items()]
    rows.sort(key=_order)
    return Usage(tuple(rows), sum(counts.values()), sum(sizes.values()))


def _columns(by: Sequence[str], selection: Selection) -> list[str]:
    """Return the columns of messages that tell their group, and whether they are asked for."""
    columns = ["topic"] if "topic" in by or "queue" in by else []
    columns += ["queue_id"] if "queue" in by else []
    columns += ["store_timestamp"] if "hour" in by else []
    return list(dict.fromkeys([*columns, *selection.columns]))


def with_entries(
    usage: Usage,
    files: Sequence[SnapshotFile],
    log: CommitLog,
    by: Sequence[str] = ("topic",),
    selection: Selection | None = None,
) -> Usage:
    """Count the entries of the messages, too; those whose message the log lacks are left out.

    Args:
        usage: What :func:`measure_usage` returns.
        files: The IndexFiles.
        log: As :func:`measure_usage` took it.
        by: Likewise.
        selection: Likewise.

    Raises:
        RmqIndexError: An IndexFile cannot be used.
        CorruptIndexError: Damage; only if the files were listed with ``FAILFAST``.
    """
    selection = selection or Selection()
    columns = ["size", *_columns(by, selection)]
    counts: Counter[Group] = Counter()
    low, high = selection.start or 0, INT64_MAX if selection.stop is None else selection.stop
    for planned in files:
        if planned.is_empty:
            continue
        with planned.open() as file:
            for batch in file.scan(stop=planned.stop, columns=["phy_offset"]):
                offsets = batch.column("phy_offset").to_numpy()
                offsets = offsets[(offsets >= low) & (offsets < high)]
                messages = log.read_at(offsets, columns, decompress_body=False)
                there = messages.column("state").indices.to_numpy() == _RECORD
                known = messages.take(pa.array(np.flatnonzero(there)))
                if known.num_rows:
                    _count(known, selection, by, counts, Counter())
    rows = [
        replace(row, entry_count=counts[row.topic, row.queue_id, row.hour]) for row in usage.rows
    ]
    return replace(usage, rows=tuple(rows), entry_count=sum(row.entry_count or 0 for row in rows))


def _count(
    batch: pa.RecordBatch,
    selection: Selection,
    by: Sequence[str],
    counts: Counter[Group],
    sizes: Counter[Group],
) -> None:
    keep = selection.matches(batch)
    names: list[Any] = [None]
    parts = np.zeros((3, batch.num_rows), np.int64)
    if "topic" in by or "queue" in by:
        encoded = batch.column("topic").dictionary_encode()
        names = encoded.dictionary.to_pylist()
        parts[0] = encoded.indices.to_numpy()
    if "queue" in by:
        parts[1] = batch.column("queue_id").to_numpy()
    if "hour" in by:
        parts[2] = batch.column("store_timestamp").to_numpy() // HOUR
    groups, rows, found = np.unique(parts[:, keep], axis=1, return_inverse=True, return_counts=True)
    bytes_of = np.zeros(len(found), np.int64)
    np.add.at(bytes_of, rows.reshape(-1), batch.column("size").to_numpy()[keep])
    for place, (topic, queue, hour) in enumerate(groups.T.tolist()):
        group = (
            names[topic],
            queue if "queue" in by else None,
            hour * HOUR if "hour" in by else None,
        )
        counts[group] += int(found[place])
        sizes[group] += int(bytes_of[place])


def _order(row: UsageRow) -> tuple[int, int, str, int]:
    return (row.hour or 0, -row.size, row.topic or "", row.queue_id or 0)


def folder_usage(
    store: PathLike, on_skipped: Callable[[str], None] | None = None
) -> tuple[FolderUsage, ...]:
    """Return what the folders of a local store take, the largest on disk first; none if remote.

    Args:
        store: A store root.
        on_skipped: Called with a sentence for each folder that cannot be listed.
    """

    def skip(error: OSError) -> None:
        # A broker may delete folders meanwhile.
        if on_skipped is not None and not isinstance(error, FileNotFoundError):
            why = f"{error.filename}: cannot be listed: {error.strerror}"
            on_skipped(f"{why}; what it takes is not counted")

    root = Location.of(store).local
    if root is None or not root.is_dir():
        return ()
    found: dict[str, list[int]] = {}
    for place, _, names in os.walk(root, onerror=skip):
        folder = Path(place)
        parts = folder.relative_to(root).parts
        sums = found.setdefault(parts[0] if parts else ".", [0, 0, 0])
        for name in names:
            try:
                stat = (folder / name).lstat()
            except FileNotFoundError:  # a broker may delete files meanwhile
                continue
            sums[0] += 1
            sums[1] += stat.st_size
            sums[2] += stat.st_blocks * _DISK_BLOCK
    rows = [FolderUsage(name, *sums) for name, sums in found.items() if sums[0] or name != "."]
    return tuple(sorted(rows, key=lambda row: (-row.disk_size, row.name)))
