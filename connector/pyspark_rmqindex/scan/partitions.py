"""What the planning process sends to the tasks."""

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
    """What to search every slice of a scan for.

    Attributes:
        pairs: (topic, key) pairs to look up; None for no lookup by pairs.
        key_hashes: Key hashes to look up; None for no lookup by hashes.
        time: Store times to keep, epoch milliseconds.
        phy_offset: CommitLog offsets to keep, bytes.
        begin: A further lower bound of store time, inclusive, if it or ``end`` is a local time.
        end: A further upper bound of store time, likewise.
    """

    pairs: tuple[tuple[str, str], ...] | None = None
    key_hashes: tuple[int, ...] | None = None
    time: Range = EVERYTHING
    phy_offset: Range = EVERYTHING
    begin: int | LocalBound | None = None
    end: int | LocalBound | None = None

    @property
    def is_lookup(self) -> bool:
        """Whether entries are looked up by their slots."""
        return self.pairs is not None or self.key_hashes is not None


@dataclass
class IndexPartition(InputPartition):
    """The work of one task.

    Attributes:
        slices: The slices to read.
        query: What to search them for.
        generation: With pushdown, the number of times that the relation's plan was widened before.
    """

    slices: tuple[FileSlice, ...]
    query: Query
    generation: int = 0
