"""Prunes files and divides them into partitions: pure functions.

A scan reads entry ranges of about ``max_bytes``; a lookup reads a few pages per key and file, so
many files share a partition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from pyspark_rmqindex.filters.filters import EVERYTHING, Range
from rmqindex import index_key, key_hash
from rmqindex.layout import ENTRY_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark_rmqindex.files.slices import FileSlice
    from pyspark_rmqindex.filters.filters import Wanted
    from pyspark_rmqindex.options import LocalBound
    from pyspark_rmqindex.scan.pushdown import PlanId

__all__ = ["IndexPartition", "Packing", "Query", "apportion", "matching_pairs", "prune"]


@dataclass(frozen=True, slots=True)
class Query:
    """What to search every slice of a scan for."""

    pairs: tuple[tuple[str, str], ...] | None = None
    key_hashes: tuple[int, ...] | None = None
    time: Range = EVERYTHING  # Store times to keep, epoch milliseconds
    phy_offset: Range = EVERYTHING  # CommitLog offsets to keep, bytes
    # A further lower bound of store time, inclusive, if it or ``end`` is a local time.
    begin: int | LocalBound | None = None
    end: int | LocalBound | None = None

    @property
    def is_lookup(self) -> bool:
        """Whether entries are looked up by their slots."""
        return self.pairs is not None or self.key_hashes is not None


@dataclass
class IndexPartition(InputPartition):
    """The work of one task."""

    slices: tuple[FileSlice, ...]
    query: Query
    # With the pushdown of Spark 4.1 to 4.3, the plan that the partition is of.
    plan: PlanId | None = None


# The cost of one hash in a file: a page of slots and one or two of entries.
_LOOKUP_BYTES = 12 * 1024


@dataclass(frozen=True, slots=True)
class Packing:
    """How slices are packed into partitions."""

    max_bytes: int
    open_bytes: int  # The cost of opening a file, as bytes read in the same time


def matching_pairs(
    pairs: Iterable[tuple[str, str]], key_hashes: Iterable[int]
) -> tuple[tuple[str, str], ...]:
    """Return the pairs whose hash is one of the given ones."""
    hashes = set(key_hashes)
    return tuple(pair for pair in pairs if key_hash(index_key(*pair)) in hashes)


def prune(files: Iterable[FileSlice], wanted: Wanted) -> list[FileSlice]:
    """Drop the files, and the ends of files, that cannot hold what is wanted.

    The header proves only one thing: no entry is earlier than its file's ``begin_timestamp``.
    The ``end_*`` fields are those of the last put, not the greatest, and offsets are in any
    order, so they prove nothing.
    """
    if (
        wanted.time.is_empty
        or wanted.phy_offset.is_empty
        or wanted.position.is_empty
        or wanted.pairs == frozenset()
        or wanted.key_hashes == frozenset()
        or wanted.stores == frozenset()
    ):
        return []
    kept = []
    low, high = wanted.position.low, wanted.position.high
    latest = wanted.time.high
    for file_slice in files:
        start = file_slice.start if low is None else max(file_slice.start, low)
        stop = file_slice.stop if high is None else min(file_slice.stop, high + 1)
        if start < stop and (latest is None or file_slice.begin_timestamp <= latest):
            is_whole = (start, stop) == (file_slice.start, file_slice.stop)
            kept.append(file_slice if is_whole else replace(file_slice, start=start, stop=stop))
    return kept


def apportion(slices: Sequence[FileSlice], query: Query, packing: Packing) -> list[IndexPartition]:
    """Divide slices among partitions, in order."""
    if query.is_lookup:
        hashes = len(query.pairs if query.pairs is not None else query.key_hashes or ())
        cost: Callable[[FileSlice], int] = lambda file_slice: min(  # noqa: E731
            hashes * _LOOKUP_BYTES, file_slice.limit * ENTRY_SIZE
        )
        pieces: Iterable[FileSlice] = slices
    else:
        cost = _scan_bytes
        pieces = (piece for file_slice in slices for piece in _split(file_slice, packing.max_bytes))
    sized = [(piece, packing.open_bytes + cost(piece)) for piece in pieces]
    count = filled = 0
    for _, size in sized:
        if not count or filled + size > packing.max_bytes:
            count, filled = count + 1, 0
        filled += size
    # As many partitions as that, but even ones: a task with the rest alone would be waited for.
    packs: list[list[FileSlice]] = [[] for _ in range(count)]
    total, before = sum(size for _, size in sized), 0
    for piece, size in sized:
        packs[(2 * before + size) * count // (2 * total)].append(piece)
        before += size
    return [IndexPartition(tuple(pack), query) for pack in packs if pack]


def _scan_bytes(file_slice: FileSlice) -> int:
    return (file_slice.stop - file_slice.start) * ENTRY_SIZE


def _split(file_slice: FileSlice, max_bytes: int) -> Iterable[FileSlice]:
    """Cut a slice into equal parts of at most ``max_bytes``, at least one entry each."""
    count = file_slice.stop - file_slice.start
    parts = -(-count // max(max_bytes // ENTRY_SIZE, 1))
    for part in range(parts):
        yield replace(
            file_slice,
            start=file_slice.start + count * part // parts,
            stop=file_slice.start + count * (part + 1) // parts,
        )
