"""The entries of one open IndexFile: read in file order, or found by their hashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa

from rmqindex.indexfile.chains import FEW_HASHES, MAX_STEPS, Hits, find, walk_one
from rmqindex.indexfile.decoding import (
    LOOKUP_SCHEMA,
    EntryColumns,
    corrupt_entry,
    links_of,
    malformed,
    slots_of,
    written,
)
from rmqindex.keys.hash_set import HashSet
from rmqindex.layout.index_file import FIRST_POSITION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from rmqindex.indexfile.decoding import Links
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.layout.index_file import IndexHeader
    from rmqindex.storage.source import IndexSource

Mode = Literal["FAILFAST", "DROPMALFORMED"]

# The most entries in a batch of a scan.
_BATCH_ENTRIES = 65_536
# Hashes that walk their chains together: their entries of one step stay in the processor's cache.
_BATCH_HASHES = 65_536
# After this many steps, hashes are deduplicated before they walk on.
_COMMON_STEPS = 64
# More hashes than this in crowded slots are found faster by one scan than by their chains.
_MAX_LONG_WALKS = 64
# Hashes of a search that walk together: their entries, `_COMMON_STEPS` each at most, are one batch.
_SEARCH_HASHES = 16_384

# Entries read to each side at first; most messages have fewer.
_REACH = 32


def check_mode(mode: str) -> None:
    """Raise for another mode."""
    if mode not in get_args(Mode):
        raise ValueError(f"mode: expected one of {', '.join(get_args(Mode))}, got {mode!r}")


class MessageRun(NamedTuple):
    """Consecutive entries of one offset.

    Attributes:
        first: The position of the first of them.
        hashes: Their key hashes, as stored.
    """

    first: int
    hashes: NDArray[np.int32]

    @property
    def stop(self) -> int:
        """The position behind the last of them."""
        return self.first + len(self.hashes)


class EntryReader:
    """Reads the entries of one open file, and looks up hashes."""

    def __init__(
        self, source: IndexSource, layout: Layout | None, header: IndexHeader, mode: Mode
    ) -> None:
        """Set the open file."""
        self._source = source
        self._layout = layout
        self._header = header
        self._mode = mode
        self._closed = False

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._closed = True
        self._source.close()

    def check_open(self) -> None:
        """Raise if the file was closed."""
        if self._closed:
            raise ValueError(f"{self._source.path}: the IndexFile is closed")

    def scan(self, start: int, stop: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read the entries from one position up to another as batches of a schema."""
        for first in range(start, stop, _BATCH_ENTRIES):
            assert self._layout is not None  # there are entries
            last = min(first + _BATCH_ENTRIES, stop)
            batch = EntryColumns(schema, last - first, self._layout, self._header.begin_timestamp)
            for entries, positions, links in self._sound_entries(first, last, batch.links_of):
                batch.append(entries, positions, links)
            finished = batch.finish()
            self._source.ensure_uncut()
            if finished.num_rows:  # none may be sound
                yield finished

    def lookup(self, hashes: NDArray[np.int32], limit: int) -> pa.RecordBatch:
        """Find the entries of hashes below a position, as :meth:`rmqindex.IndexFile.lookup`."""
        layout = self._layout
        if layout is None or limit <= FIRST_POSITION or not len(hashes):
            return _NO_ENTRIES
        if self._mode == "DROPMALFORMED":
            # Where a slot or a link was damaged, only the entries themselves show what it hides.
            distinct, places = np.unique(hashes, return_inverse=True)
            hits = _repeat(np.arange(len(hashes)), places, self._scan_for(distinct, limit))
            return self._answer([hits], layout)
        if self._lacks(hashes, limit, layout):
            return _NO_ENTRIES
        parts, unfinished = self._walk(hashes, limit, layout)
        if len(unfinished):
            distinct, places = np.unique(hashes[unfinished], return_inverse=True)
            hits = _repeat(unfinished, places, self._finish(distinct, limit, layout))
            parts = [Hits.join([*parts, hits]).by_query()]
        return self._answer(parts, layout)

    def message_run(self, position: int, stop: int) -> tuple[int, MessageRun]:
        """Read the entries around a position that have its offset."""
        assert self._layout is not None  # there are entries
        found = read_message_run(self._source, self._layout, position, stop)
        self._source.ensure_uncut()
        return found

    def search(self, wanted: HashSet, limit: int, *, by_scan: bool) -> Iterator[pa.RecordBatch]:
        """Find the entries of many hashes, as :meth:`rmqindex.IndexFile.search`."""
        layout = self._layout
        if layout is None or limit <= FIRST_POSITION or not len(wanted):
            return
        by_scan = by_scan or self._mode == "DROPMALFORMED"
        if not by_scan and self._lacks(wanted.hashes, limit, layout):
            return
        hits = self._matching(wanted, limit) if by_scan else self._probe(wanted, limit, layout)
        for several in _join_small(hits):
            yield self._answer(several, layout)

    def _sound_entries(
        self, start: int, stop: int, decode: Callable[[NDArray[Any]], Links] = links_of
    ) -> Iterator[tuple[NDArray[Any], NDArray[np.int32], Links]]:
        """Yield entries with their positions, the malformed ones raised or dropped by mode."""
        layout = self._layout
        if layout is None:
            return
        for first in range(start, stop, _BATCH_ENTRIES):
            self.check_open()
            last = min(first + _BATCH_ENTRIES, stop)
            entries = self._source.entry_range(layout, first, last)
            positions = np.arange(first, last, dtype=np.int32)
            links = decode(entries)
            bad = malformed(links, positions, self._header.begin_timestamp)
            if self._mode == "DROPMALFORMED":
                bad = _or_unwritten(bad, entries, positions, links)
            if bad is not None:
                if self._mode == "FAILFAST":
                    place = int(np.flatnonzero(bad)[0])
                    raise corrupt_entry(self._source.path, layout, first + place, links, place)
                sound = np.flatnonzero(~bad)
                entries, positions, links = entries[sound], positions[sound], links.take(sound)
            yield entries, positions, links

    def _answer(self, parts: list[Hits], layout: Layout) -> pa.RecordBatch:
        """Return the entries found, if the file was not truncated meanwhile."""
        batch = _lookup_batch(parts, layout, self._header)
        self._source.ensure_uncut()
        return batch

    def _lacks(self, hashes: NDArray[np.int32], limit: int, layout: Layout) -> bool:
        """Return whether a sound local file is quickly seen to have no entry of a few hashes.

        Most files of an index have none of a key's.
        """
        source, begin = self._source, self._header.begin_timestamp
        lacks = (
            len(hashes) <= FEW_HASHES
            and not source.remote
            and all(
                walk_one(source.read, layout, begin, key_hash, limit) == []
                for key_hash in hashes.tolist()
            )
        )
        if lacks:
            source.ensure_uncut()
        return lacks

    def _walk(
        self, hashes: NDArray[np.int32], limit: int, layout: Layout
    ) -> tuple[list[Hits], NDArray[np.int64]]:
        """Walk the chains of all hashes for as long as most chains are."""
        parts, unfinished = [], []
        for first in range(0, len(hashes), _BATCH_HASHES):
            some = hashes[first : first + _BATCH_HASHES]
            hits, rest = self._find(some, limit, layout, _COMMON_STEPS)
            parts.append(hits._replace(queries=hits.queries + first))
            unfinished.append(rest + first)
        return parts, np.concatenate(unfinished)

    def _finish(self, distinct: NDArray[np.int32], limit: int, layout: Layout) -> Hits:
        """Find hashes whose chains are long: a few by walking on, crowded ones by a scan."""
        if len(distinct) > _MAX_LONG_WALKS:
            return self._scan_for(distinct, limit)
        hits, unfinished = self._find(distinct, limit, layout, MAX_STEPS)
        if not len(unfinished):
            return hits
        rest = self._scan_for(distinct[unfinished], limit)
        return Hits.join([hits, rest._replace(queries=unfinished[rest.queries])]).by_query()

    def _find(
        self, hashes: NDArray[np.int32], limit: int, layout: Layout, max_steps: int
    ) -> tuple[Hits, NDArray[np.int64]]:
        return find(
            self._source,
            layout,
            hashes,
            limit=limit,
            header=self._header,
            index_count=self._source.latest_index_count,
            max_steps=max_steps,
        )

    def _scan_for(self, distinct: NDArray[np.int32], limit: int) -> Hits:
        """Find sorted distinct hashes by reading all entries; by hash and newest first."""
        hits = Hits.join(self._matching(HashSet(distinct), limit))
        return hits.take(np.lexsort((-hits.positions, hits.queries)))

    def _matching(self, wanted: HashSet, limit: int) -> Iterator[Hits]:
        """Read all entries, and yield those of a set of hashes."""
        for entries, positions, links in self._sound_entries(FIRST_POSITION, limit):
            near, places = wanted.match(links.key_hash)
            if len(near):
                yield Hits(places, positions.take(near), entries.take(near))

    def _probe(self, wanted: HashSet, limit: int, layout: Layout) -> Iterator[Hits]:
        """Find hashes by their slots, each page of which is touched once."""
        order = np.argsort(slots_of(wanted.hashes, layout))
        crowded = []
        for first in range(0, len(order), _SEARCH_HASHES):
            places = order[first : first + _SEARCH_HASHES]
            hits, unfinished = self._find(wanted.hashes.take(places), limit, layout, _COMMON_STEPS)
            yield hits._replace(queries=places.take(hits.queries))
            crowded.append(places.take(unfinished))
        rest = np.sort(np.concatenate(crowded))
        if len(rest) <= _MAX_LONG_WALKS:
            hits, unfinished = self._find(wanted.hashes.take(rest), limit, layout, MAX_STEPS)
            yield hits._replace(queries=rest.take(hits.queries))
            rest = rest.take(unfinished)
        if len(rest):
            for hits in self._matching(HashSet(wanted.hashes.take(rest)), limit):
                yield hits._replace(queries=rest.take(hits.queries))


def read_message_run(
    source: IndexSource, layout: Layout, position: int, stop: int
) -> tuple[int, MessageRun]:
    """Read the entries around a position that have its offset, sound or not."""
    reach = _REACH
    while True:
        start, end = max(position - reach, FIRST_POSITION), min(position + reach, stop)
        entries = source.entry_range(layout, start, end)
        offsets = entries["phy_offset"]
        place = position - start
        other = np.flatnonzero(offsets != offsets[place])
        after = int(np.searchsorted(other, place))
        first = int(other[after - 1]) + 1 if after else 0
        last = int(other[after]) if after < len(other) else len(offsets)
        if (first or start == FIRST_POSITION) and (last < len(offsets) or end == stop):
            run = MessageRun(start + first, entries["key_hash"][first:last].astype(np.int32))
            return int(offsets[place]), run
        reach *= 8


def _or_unwritten(
    bad: NDArray[np.bool_] | None,
    entries: NDArray[Any],
    positions: NDArray[np.int32],
    links: Links,
) -> NDArray[np.bool_] | None:
    """Add the entries that were counted but never written: all their bytes are zeros."""
    if links.key_hash.all():
        return bad
    # The first message of a log may well hash to 0.
    blank = ~written(entries) & (positions > FIRST_POSITION)
    if not blank.any():
        return bad
    return blank if bad is None else bad | blank


_NO_ENTRIES = pa.RecordBatch.from_arrays(
    [pa.array([], field.type) for field in LOOKUP_SCHEMA], schema=LOOKUP_SCHEMA
)


def _join_small(hits: Iterable[Hits]) -> Iterator[list[Hits]]:
    """Join small results, so that batches are not too small."""
    pending: list[Hits] = []
    count = 0
    for each in hits:
        pending.append(each)
        count += len(each.queries)
        if count >= _BATCH_ENTRIES:
            yield pending
            pending, count = [], 0
    if count:
        yield pending


def _repeat(queries: NDArray[np.int64], places: NDArray[np.int64], hits: Hits) -> Hits:
    """Repeat the hits of each distinct hash for all its queries."""
    starts = np.searchsorted(hits.queries, places, side="left")
    counts = np.searchsorted(hits.queries, places, side="right") - starts
    first = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    chosen = first + np.arange(int(counts.sum()))
    return Hits(np.repeat(queries, counts), hits.positions.take(chosen), hits.entries.take(chosen))


def _lookup_batch(parts: list[Hits], layout: Layout, header: IndexHeader) -> pa.RecordBatch:
    total = sum(len(part.queries) for part in parts)
    batch = EntryColumns(LOOKUP_SCHEMA, total, layout, header.begin_timestamp)
    for part in parts:
        batch.append(part.entries, part.positions, links_of(part.entries), part.queries)
    return batch.finish()
