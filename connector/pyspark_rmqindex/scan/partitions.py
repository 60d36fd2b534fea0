"""What travels from the planning process to the tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from pyspark_rmqindex.scan.filters import EVERYTHING, Range

if TYPE_CHECKING:
    from pyspark_rmqindex.options.times import LocalTime
    from rmqindex.commitlog.planned_log import PlannedLog
    from rmqindex.storage.identity import Fingerprint

__all__ = ["FileSlice", "IndexPartition", "LocalBound", "Query"]


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A range of entries of one file, as the planning found it.

    Attributes:
        path: Where the file is read from.
        name_path: The path as listed, for the column ``file_path``; the two differ while a
            commit is under way.
        hash_slot_num: Hash slots of the file.
        index_num: Entry places of the file.
        begin_timestamp: The header's field.
        fingerprint: What tells in a task whether the file is still the planned one.
        limit: The position after the last entry that was counted.
        start: The first position to read.
        stop: The position after the last one to read.
        commit_log: Where its messages are, the same object in all slices of a store, so that it is
            pickled once; None where they are not asked for, or not there.
    """

    path: str
    name_path: str
    hash_slot_num: int
    index_num: int
    begin_timestamp: int
    fingerprint: Fingerprint
    limit: int
    start: int
    stop: int
    commit_log: PlannedLog | None = None


@dataclass(frozen=True, slots=True)
class LocalBound:
    """A bound of store time that only a task can place, since it knows the session's zone.

    Attributes:
        time: The wall-clock time.
        in_system_zone: Microseconds since the epoch where the session keeps the default zone of
            the driver's host; None where that zone is not plain.
    """

    time: LocalTime
    in_system_zone: int | None


@dataclass(frozen=True, slots=True)
class Query:
    """What every slice of a scan is searched for.

    Attributes:
        pairs: (topic, key) pairs to look up; None to look none up.
        key_hashes: Key hashes to look up; None for no such lookup.
        time: Store times to keep, epoch milliseconds.
        phy_offset: CommitLog offsets to keep, bytes.
        begin: A further lower bound of store time, inclusive.
        end: A further upper bound of store time, inclusive.
    """

    pairs: tuple[tuple[str, str], ...] | None = None
    key_hashes: tuple[int, ...] | None = None
    time: Range = EVERYTHING
    phy_offset: Range = EVERYTHING
    begin: LocalBound | None = None
    end: LocalBound | None = None

    @property
    def is_lookup(self) -> bool:
        """Whether entries are found by their slots."""
        return self.pairs is not None or self.key_hashes is not None


@dataclass
class IndexPartition(InputPartition):
    """The work of one task.

    Attributes:
        slices: What it reads.
        query: What it searches for.
        generation: Of a relation with pushdown: how many wider plans there were before this one.
    """

    slices: tuple[FileSlice, ...]
    query: Query
    generation: int = 0
