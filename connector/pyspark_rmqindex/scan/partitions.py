"""What travels from the planning process to the tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from pyspark_rmqindex.filters.filters import EVERYTHING, Range

if TYPE_CHECKING:
    from pyspark_rmqindex.files.slices import FileSlice
    from pyspark_rmqindex.options import LocalBound

__all__ = ["IndexPartition", "Query"]


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
