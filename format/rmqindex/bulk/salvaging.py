"""Reads the entries of damaged IndexFiles by their own bytes, trusting no slot, link or count."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rmqindex.audit.audited import BLOCK, whole_entries
from rmqindex.errors import SAID_GEOMETRY, RmqIndexError
from rmqindex.indexfile.committed import open_index_source, read_header
from rmqindex.indexfile.decoding import (
    ENTRY_SCHEMA,
    MILLISECONDS,
    EntryColumns,
    Links,
    links_of,
)
from rmqindex.indexfile.geometry import (
    UnknownLayoutError,
    infer_layout,
    usual_layout,
)
from rmqindex.indexfile.uncounted import damaged_count, looks_emptied
from rmqindex.layout.index_file import ENTRY_SIZE, FIRST_POSITION, INT64_MAX
from rmqindex.store.snapshot import layout_beside, open_in_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.indexfile.geometry import Layout
    from rmqindex.layout.index_file import IndexHeader
    from rmqindex.storage.location import Location, PathLike
    from rmqindex.storage.source import IndexSource


def salvage(
    path: PathLike, layout: Layout | None = None, *, uncounted: bool = False
) -> Iterator[pa.RecordBatch]:
    """Read every plausible entry of a damaged file, reachable or not.

    Slots and links are ignored, a short file is read to its end, and a count beyond it is capped.
    Where a link is broken, the entry's hash, offset and time are still good:
    :class:`IndexFileWriter` needs no more to rewrite the file.
    Entries with a negative hash, offset or seconds, and those that are all zeros, are left out.

    Args:
        path: An IndexFile.
        layout: Its geometry; None to infer it, for which the file must be sound enough.
        uncounted: Also read the entries behind the header's count, which a kill or a damaged count
            can leave; not those of a writer that appends meanwhile.

    Yields:
        Batches with the columns of ``ENTRY_SCHEMA``, in file order; ``prev_position`` as stored.

    Raises:
        RmqIndexError: The file cannot be read, or no geometry fits.
    """
    with open_index_source(path) as source:
        header = read_header(source)
        yield from _salvage(source, layout, header, uncounted=uncounted)


def salvage_listed(
    path: PathLike, layout: Layout | None, header: IndexHeader
) -> Iterator[pa.RecordBatch]:
    """As :func:`salvage` with ``uncounted``, without entries that a writer has counted since.

    A file that nothing was written into needs no geometry.
    """
    with open_index_source(path) as source:
        if header.entry_count or looks_emptied(source):
            yield from _salvage(source, layout, header, uncounted=True)


def replaced_entries(
    path: Location, layout: Layout, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Read the entries of a file that is to be replaced, also of a damaged one.

    A file that counts none shows no geometry: then ``layout`` tells whether it has any.
    Times count from :func:`usable_begin`.

    Raises:
        RmqIndexError: The file cannot be read, or nothing tells the geometry of what it has.
    """
    done = 0
    try:
        with open_in_store(path, None, "FAILFAST") as file:
            if not file.entry_count:
                _ensure_empty(path, layout)
            _ensure_usable(file.header)
            for batch in file.scan(columns=columns):
                yield batch
                done += len(batch)
    except RmqIndexError:
        with open_index_source(path) as source:
            header = read_header(source)
            header = replace(header, begin_timestamp=usable_begin(header))
            known = _layout_of_replaced(path, source.size, layout)
            if known is None and not header.entry_count:
                raise
            known = known or layout  # of a file that was cut short
            if header.entry_count and not whole_entries(source.size, known):
                raise
            is_counted = damaged_count(source, known, header) is None
            for batch in _salvage(source, known, header, uncounted=not is_counted):
                left = batch.slice(int(np.searchsorted(batch["position"], done, side="right")))
                yield left.select(columns)


def entries_in_order(path: Location, layout: Layout, key_hashes: NDArray[np.int32]) -> pa.Table:
    """Read a file's entries of some hashes, but for those of a lesser offset than both around them.

    A broker appends by offset; so these were not written as they are. Nor were those of the hash 0,
    which no key is likely to have and a zeroed page leaves. Offsets of 0 tell nothing of others.

    Raises:
        RmqIndexError: As of :func:`replaced_entries`.
    """
    rows, lows, highs, firsts = [], [], [], []
    last = 0
    for batch in replaced_entries(path, layout, ("key_hash", "phy_offset", "store_timestamp")):
        hashes, offsets = batch["key_hash"].to_numpy(), batch["phy_offset"].to_numpy()
        is_known = offsets > 0
        wanted = np.flatnonzero(np.isin(hashes, key_hashes) & (hashes != 0))
        around = np.concatenate([[last], offsets[is_known], [0]])
        upto = np.cumsum(is_known)[wanted]
        lows.append(around[upto - is_known[wanted]])
        highs.append(around[upto + 1])
        rows.append(batch.take(pa.array(wanted)))
        firsts.append(around[1])
        last = around[-2]
    behind = 0
    for high, first in zip(reversed(highs), reversed(firsts), strict=True):
        high[high == 0] = behind
        behind = first or behind
    if not rows:
        return ENTRY_SCHEMA.empty_table()
    table = pa.Table.from_batches(rows)
    low, high = np.concatenate(lows), np.concatenate(highs)
    is_stray = (low > 0) & (table["phy_offset"].to_numpy() < low) & (low <= high)
    return table.filter(pa.array(~is_stray))


def usable_begin(header: IndexHeader) -> int:
    """Return the time from which a file's entries count, ms; 0 for one that no engine has."""
    begin = header.begin_timestamp
    return begin if 0 <= begin <= INT64_MAX // MILLISECONDS else 0


def _ensure_usable(header: IndexHeader) -> None:
    if usable_begin(header) != header.begin_timestamp:
        raise RmqIndexError("the times of the entries are none that any engine has")


def _ensure_empty(path: Location, layout: Layout) -> None:
    """Raise unless a file that counts no entries has none."""
    with open_index_source(path) as source:
        known = _layout_of_replaced(path, source.size, layout)
        if known is not None:
            error = damaged_count(source, known, read_header(source))
            if error is not None:
                raise error
        elif looks_emptied(source):
            raise UnknownLayoutError(
                f"{path}: the header counts no entries, but other bytes follow, and nothing tells "
                f"their geometry: give {SAID_GEOMETRY} of this file"
            )


def _layout_of_replaced(path: Location, size: int, layout: Layout) -> Layout | None:
    """Return the geometry of a file that does not show it; None where nothing else does."""
    if size == layout.file_size:
        return layout
    return layout_beside(path) or usual_layout(size)


def _salvage(
    source: IndexSource, layout: Layout | None, header: IndexHeader, *, uncounted: bool
) -> Iterator[pa.RecordBatch]:
    layout = layout or _layout_of(source)
    there = (source.size - layout.entry_offset(0)) // ENTRY_SIZE - 1
    room = min(layout.capacity, there)
    stop = (room if uncounted else min(header.entry_count, room)) + FIRST_POSITION
    yield from _scan(source, layout, header, stop)


def _layout_of(source: IndexSource) -> Layout:
    """Return the geometry that the entries show, or the file's size where none are counted."""
    try:
        return infer_layout(source)
    except UnknownLayoutError:
        known = usual_layout(source.size)
        if known is None or read_header(source).entry_count:
            raise
        return known


def _scan(
    source: IndexSource, layout: Layout, header: IndexHeader, stop: int
) -> Iterator[pa.RecordBatch]:
    for first in range(FIRST_POSITION, stop, BLOCK):
        entries = source.entry_range(layout, first, min(first + BLOCK, stop))
        positions = np.arange(first, first + len(entries), dtype=np.int32)
        written = np.asarray(entries.view(np.uint32).reshape(len(entries), -1).any(axis=1))
        links = links_of(entries)
        good = np.flatnonzero(written & _plausible(entries, links, header.begin_timestamp))
        if not len(good):
            continue
        builder = EntryColumns(ENTRY_SCHEMA, len(good), layout, header.begin_timestamp)
        builder.append(entries[good], positions[good], links.take(good))
        batch = builder.finish()
        if first + len(entries) > header.index_count < source.latest_index_count():
            # A writer has counted more since, so what lies behind the count is not left over.
            yield batch.slice(0, int(np.count_nonzero(positions[good] < header.index_count)))
            return
        yield batch


def _plausible(entries: NDArray[Any], links: Links, begin: int) -> NDArray[np.bool_]:
    latest = (INT64_MAX - max(begin, 0)) // MILLISECONDS
    return (
        (links.key_hash >= 0)
        & (links.time_diff >= 0)
        & (links.time_diff <= latest)
        & (entries["phy_offset"].astype(np.int64) >= 0)
    )
