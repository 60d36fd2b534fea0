"""Turns what a scan must find into a query, prunes files and divides them into partitions.

A scan reads entry ranges of about ``max_bytes``; a lookup reads a few pages per key and file, so
many files share a partition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import InputPartition

from pyspark_rmqindex.files.stores import with_logs
from pyspark_rmqindex.options import LocalBound, planned_bound
from rmqindex import index_key, key_hash
from rmqindex.keys import is_utf8
from rmqindex.layout import ENTRY_SIZE
from rmqindex.messagestore import EVERYTHING, Range, Wanted
from rmqindex.times import to_milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark_rmqindex.files.slices import FileSlice
    from pyspark_rmqindex.options import ReadOptions

# The cost of one hash in a file: a page of slots and one or two of entries.
_LOOKUP_BYTES = 12 * 1024
# The cost of opening a file, as bytes read in the same time.
_OPEN_BYTES, _REMOTE_OPEN_BYTES = 2**17, 4 * 2**20


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


class PlannedFiles(NamedTuple):
    """The plan for some files."""

    query: Query
    slices: list[FileSlice]
    partitions: list[IndexPartition]


def matching_pairs(
    pairs: Iterable[tuple[str, str]], key_hashes: Iterable[int]
) -> tuple[tuple[str, str], ...]:
    """Return the pairs whose hash is one of the given ones."""
    hashes = set(key_hashes)
    return tuple(pair for pair in pairs if key_hash(index_key(*pair)) in hashes)


def wanted_by(options: ReadOptions) -> Wanted:
    """Return what the options of a read without pushdown ask for, except for times."""
    pairs, hashes = options.pairs, options.key_hashes
    if pairs is not None and hashes is not None:
        pairs, hashes = matching_pairs(pairs, hashes), None
    return Wanted(
        pairs=None if pairs is None else frozenset(pairs),
        key_hashes=None if hashes is None else frozenset(hashes),
    )


def plan_files(
    options: ReadOptions, wanted: Wanted, files: Sequence[FileSlice], *, remote: bool
) -> PlannedFiles:
    """Prune some files, and divide the rest among tasks."""
    query, wanted = query_of(options, wanted)
    if options.commit_log is not None:
        files = with_logs(files, options.commit_log)
        # A message's exact time may be earlier than that of its entry.
        if not wanted.time.is_empty:
            wanted = replace(wanted, time=EVERYTHING)
    slices = prune(files, wanted)
    open_bytes = _REMOTE_OPEN_BYTES if remote else _OPEN_BYTES
    partitions = apportion(slices, query, options.max_partition_bytes, open_bytes)
    return PlannedFiles(query, slices, partitions)


def query_of(options: ReadOptions, wanted: Wanted) -> tuple[Query, Wanted]:
    """Return what to search every slice for, and what to choose files by."""
    begin, end = planned_bound(options.begin, up=True), planned_bound(options.end, up=False)
    if wanted.pairs is not None:  # a STRING cannot hold any other key
        wanted = replace(
            wanted, pairs=frozenset(pair for pair in wanted.pairs if is_utf8("".join(pair)))
        )
    # The zone of a local time is not known here, so allow for all of them.
    wanted = replace(
        wanted,
        time=wanted.time
        & Range(
            begin if isinstance(begin, int) else None,
            to_milliseconds(end.time.latest, up=False) if isinstance(end, LocalBound) else end,
        ),
    )
    is_local = isinstance(begin, LocalBound) or isinstance(end, LocalBound)
    query = Query(
        pairs=None if wanted.pairs is None else tuple(sorted(wanted.pairs)),
        key_hashes=None if wanted.key_hashes is None else tuple(sorted(wanted.key_hashes)),
        time=wanted.time,
        phy_offset=wanted.phy_offset,
        begin=begin if is_local else None,
        end=end if is_local else None,
    )
    return query, wanted


def prune(files: Iterable[FileSlice], wanted: Wanted) -> list[FileSlice]:
    """Drop the files, and the ends of files, that cannot hold what is wanted."""
    if wanted.is_empty:
        return []
    pruned = []
    for file_slice in files:
        part = wanted.part(file_slice.begin_timestamp, file_slice.start, file_slice.stop)
        if part is None:
            continue
        start, stop = part
        is_whole = part == (file_slice.start, file_slice.stop)
        pruned.append(file_slice if is_whole else replace(file_slice, start=start, stop=stop))
    return pruned


def apportion(
    slices: Sequence[FileSlice], query: Query, max_bytes: int, open_bytes: int
) -> list[IndexPartition]:
    """Divide slices among partitions of about ``max_bytes``, in order."""
    if query.is_lookup:
        hashes = len(query.pairs if query.pairs is not None else query.key_hashes or ())
        cost: Callable[[FileSlice], int] = lambda file_slice: min(  # noqa: E731
            hashes * _LOOKUP_BYTES, file_slice.limit * ENTRY_SIZE
        )
        pieces: Iterable[FileSlice] = slices
    else:
        cost = _scan_bytes
        pieces = (piece for file_slice in slices for piece in _split(file_slice, max_bytes))
    sized = [(piece, open_bytes + cost(piece)) for piece in pieces]
    count = filled = 0
    for _, size in sized:
        if not count or filled + size > max_bytes:
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
