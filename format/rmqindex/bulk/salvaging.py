"""Reads the entries of damaged IndexFiles by their own bytes, trusting no slot, link or count.

A rebuild keeps those of messages that its log no longer has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqindex.audit.audited import BLOCK, whole_entries
from rmqindex.bulk.resume import make_exact
from rmqindex.errors import SAID_GEOMETRY, RmqIndexError
from rmqindex.indexfile.committed import header_of, open_index_source, read_header
from rmqindex.indexfile.decoding import (
    ENTRY_SCHEMA,
    MILLISECONDS,
    EntryColumns,
    Links,
    links_of,
    odd_in_time,
)
from rmqindex.indexfile.geometry import (
    UnknownLayoutError,
    infer_layout,
    usual_layout,
)
from rmqindex.indexfile.uncounted import damaged_count, looks_emptied
from rmqindex.keys.messages import pack_pairs
from rmqindex.layout.index_file import ENTRY_SIZE, FIRST_POSITION, INT64_MAX
from rmqindex.query.message_keys import keys_at
from rmqindex.store.snapshot import layout_beside, open_in_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from rmqindex.bulk.roller import FileRoller
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.layout.index_file import IndexHeader
    from rmqindex.storage.location import Location, PathLike
    from rmqindex.storage.source import IndexSource
    from rmqindex.transaction.directories import FileEntry

_COLUMNS = ("key_hash", "phy_offset", "store_timestamp")


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


@dataclass(frozen=True, slots=True)
class Leftover:
    """Entries of messages that the log no longer has."""

    entry_count: int = 0
    unreadable: tuple[Path, ...] = ()
    damaged_count: int = 0


class _ExpiredPart(NamedTuple):
    """The first entries of a file, which are of expired messages but for damaged ones."""

    entry: FileEntry
    header: IndexHeader
    #: How many they are, of those that can be read.
    entry_count: int
    #: The seconds of the last one.
    seconds: int
    #: Whether it is the last one of the file; None where those of messages that the log has follow.
    is_end: bool | None
    #: Offsets of their messages, bytes: of the first one, one in the middle, and the greatest.
    first: int
    middle: int
    last: int
    #: How many more cannot be read.
    damaged_count: int


def keep_expired(
    files: Sequence[FileEntry], layout: Layout, log: CommitLog, roller: FileRoller
) -> Leftover:
    """Put the entries of expired messages into new files, before all others, in the log's order."""
    unreadable: list[Path] = []
    parts: list[_ExpiredPart] = []
    for entry in files if log.min_offset else ():
        try:
            part = _expired_part(entry, layout, log.min_offset)
        except RmqIndexError:
            unreadable.append(Path(entry.path))
        else:
            parts += [] if part is None else [part]
    parts.sort(key=lambda part: part.middle)
    damaged = end = 0
    for number, part in enumerate(parts):
        following = parts[number + 1].header.begin_timestamp if number + 1 < len(parts) else None
        try:
            begin = _begin_of(part, layout, log, end, following)
            end = _put_expired(part, begin, parts[:number], layout, log.min_offset, roller)
        except RmqIndexError:
            unreadable.append(Path(part.entry.path))
        else:
            damaged += part.damaged_count
    return Leftover(roller.count, tuple(unreadable), damaged)


def _expired_part(entry: FileEntry, layout: Layout, min_offset: int) -> _ExpiredPart | None:
    """Find where a file's entries of the log's messages begin; None if that is at once.

    A damaged offset may look like one of the other side: fewest are on the wrong one.
    """
    header = header_of(entry.path)
    read = balance = least = count = seconds = 0
    first = middle = last = -1
    behind = FIRST_POSITION
    for batch in replaced_entries(
        entry.path, layout, ("position", "phy_offset", "store_timestamp")
    ):
        positions, offsets, times = (column.to_numpy() for column in batch.columns)
        first = first if read else int(offsets[0])
        if not read and min_offset <= header.begin_phy_offset == first:
            return None
        expired = (offsets >= 0) & (offsets < min_offset)
        balances = balance + np.cumsum(np.where(expired, -1, offsets >= min_offset))
        place = int(np.argmin(balances))
        if balances[place] < least:
            inside = np.flatnonzero(expired[: place + 1])
            least, count, behind = int(balances[place]), read + place + 1, int(positions[place]) + 1
            seconds = int(times[place] - usable_begin(header)) // MILLISECONDS
            middle = int(np.median(offsets[inside])) if middle < 0 else middle
            last = max(last, int(offsets[inside].max()))
        read, balance = read + len(offsets), int(balances[-1])
    if not count:
        return None
    is_end = None
    if count == read:
        stop = min(header.index_count, layout.index_num)
        is_end, behind = behind >= stop, max(behind, stop)
    damaged = behind - FIRST_POSITION - count
    return _ExpiredPart(entry, header, count, seconds, is_end, first, middle, last, damaged)


def _put_expired(
    part: _ExpiredPart,
    begin: int,
    before: Sequence[_ExpiredPart],
    layout: Layout,
    min_offset: int,
    roller: FileRoller,
) -> int:
    """Put a file's entries of expired messages; return the time of the last one.

    What files before it have, too, is put once: the file is a copy, or was indexed again.
    """
    header, left, end = part.header, part.entry_count, begin
    present = [_pairs_of(each, layout) for each in before if each.last > part.middle]
    for batch in replaced_entries(part.entry.path, layout, ("position", *_COLUMNS)):
        positions, hashes, offsets, times = (column.to_numpy()[:left] for column in batch.columns)
        times = times + (begin - usable_begin(part.header))
        if positions[0] == FIRST_POSITION:
            times[0] = begin
            header = replace(header, begin_timestamp=begin, begin_phy_offset=int(offsets[0]))
        odd = odd_in_time(offsets, times // MILLISECONDS)
        times[odd] = times[np.flatnonzero(odd) - 1]  # of a damaged one nothing else tells
        make_exact(header, offsets, times, None)
        kept = (offsets >= 0) & (offsets < min_offset)
        for pairs in present:
            kept &= ~_are_among(offsets, hashes, pairs)
        roller.put_many(hashes[kept], offsets[kept], times[kept])
        end = int(times[-1])
        left -= len(offsets)
        if not left:
            break
    return end


def _pairs_of(part: _ExpiredPart, layout: Layout) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the offset and the hash of each entry."""
    batches = [*replaced_entries(part.entry.path, layout, ("phy_offset", "key_hash"))]
    offsets, hashes = (
        np.concatenate([batch[name].to_numpy() for batch in batches])[: part.entry_count]
        for name in ("phy_offset", "key_hash")
    )
    return offsets, hashes


def _are_among(
    offsets: NDArray[np.int64],
    hashes: NDArray[np.int32],
    others: tuple[NDArray[np.int64], NDArray[np.int32]],
) -> NDArray[np.bool_]:
    """Return which entries have the offset and the hash of one of others."""
    wanted, rows = np.unique(offsets, return_inverse=True)
    places = np.minimum(np.searchsorted(wanted, others[0]), len(wanted) - 1)
    there = wanted[places] == others[0]
    return np.isin(pack_pairs(rows, hashes), pack_pairs(places[there], others[1][there]))


def _begin_of(
    part: _ExpiredPart, layout: Layout, log: CommitLog, end: int, following: int | None
) -> int:
    """Return the time from which a file's entries count, also where that of its header is damaged.

    The header's times prove each other; else one of them has to lie behind the entries of the file
    before and, with all entries of this one, before ``following``.
    """
    if part.is_end is None:
        begin = _begin_by_messages(part, layout, log)
        if begin is not None:
            return begin
    else:
        begin = part.header.begin_timestamp
        by_end = part.header.end_timestamp - part.seconds * MILLISECONDS
        late = by_end - begin  # up to a second; one more after a relayout; any where others follow
        is_one = part.is_end or part.header.begin_phy_offset != part.first
        if begin > 0 and late >= -MILLISECONDS and (late < 2 * MILLISECONDS or not is_one):
            return begin
        if following is None:
            first = log.read_at([log.min_offset], ["store_timestamp"])["store_timestamp"][0]
            following = first.as_py()
        latest = (following or INT64_MAX) - (part.seconds - 1) * MILLISECONDS
        told = (begin, by_end) if part.is_end else (begin,)
        fitting = [each for each in told if max(1, end - MILLISECONDS) <= each <= latest]
        if len(fitting) == 1:
            return fitting[0]
    raise RmqIndexError(f"{part.entry.path}: the times of its entries are not known")


def _begin_by_messages(part: _ExpiredPart, layout: Layout, log: CommitLog) -> int | None:
    """Return the time from which a file's entries count, by their messages; None if unknown."""
    begin = usable_begin(part.header)
    is_proved = begin > 0 and part.header.begin_phy_offset == part.first
    for batch in replaced_entries(part.entry.path, layout, _COLUMNS):
        hashes, offsets, times = (batch[name].to_numpy() for name in _COLUMNS)
        wanted, rows = np.unique(offsets, return_inverse=True)
        found = keys_at(log, wanted, tags=True)
        # A message from before a clock stepped back counts as one of the first second.
        told = found.have(rows, hashes) & (times > begin)
        if told.any():
            begins = found.times[rows[told]] - (times[told] - begin)
            # A relayout moves entries by a second.
            agree = (begins > begin - MILLISECONDS) & (begins < begin + 2 * MILLISECONDS)
            if is_proved and agree.any():
                return begin
            middle = int(np.sort(begins)[len(begins) // 2])  # others were damaged
            return int(begins[np.abs(begins - middle) < MILLISECONDS].min())
    return begin if is_proved else None
