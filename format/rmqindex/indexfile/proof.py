"""Whether a file has the size of its geometry, and which entries its header proves.

A row's time is the header's ``begin_timestamp`` plus the entry's seconds, so a wrong header makes
every row wrong. The file itself shows it: the last entry's seconds lead from ``begin_timestamp`` to
``end_timestamp``, and the first and the last entry have its two offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqindex.errors import CorruptIndexError
from rmqindex.indexfile.decoding import MILLISECONDS, written
from rmqindex.layout.index_file import ENTRY_SIZE, FIRST_POSITION, INDEX_COUNT_OFFSET, INT32_MAX

if TYPE_CHECKING:
    from rmqindex.layout.index_file import Geometry, IndexHeader
    from rmqindex.storage.source import IndexSource

_BLOCK = 65_536
# Which of the last entries the header's last offset and last time are of, -1 for the last one and
# -2 for the one before: a broker stores the count, then the offset, then the time, and a reader or
# a kill may come in between.
_PUT_STATES = ((-1, -1), (-1, -2), (-2, -2))


def ensure_fits(source: IndexSource, layout: Geometry, header: IndexHeader, hint: str) -> None:
    """Raise unless a file is large enough for its geometry and the entries that it counts."""
    if source.size < layout.file_size:
        raise CorruptIndexError(
            source.path,
            "file_size",
            source.size,
            f"{layout.file_size} bytes, as maxHashSlotNum {layout.hash_slot_num} and "
            f"maxIndexNum {layout.index_num} make it",
            source.size,
            hint,
        )
    if header.index_count > layout.index_num:
        raise CorruptIndexError(
            source.path,
            "index_count",
            INDEX_COUNT_OFFSET,
            f"at most {layout.index_num}",
            header.index_count,
            hint,
        )


def proved_count(source: IndexSource, layout: Geometry, header: IndexHeader) -> int:
    """Return how many entries to read: those counted and inside the file, 0 if no time is sure."""
    there = (source.size - layout.entry_offset(0)) // ENTRY_SIZE - 1
    count = max(0, min(header.entry_count, layout.capacity, there))
    if not count:
        return 0
    if source.size >= layout.file_size:
        last = last_written(source, layout, count)
        if last == count:
            return count if _ends_at(source, layout, header, last, _PUT_STATES) else 0
        if last and _ends_at(source, layout, header, last, _PUT_STATES[:1]):
            return last
        count = last - 1  # the zeros behind it may begin inside it
    if count < FIRST_POSITION or header.begin_timestamp <= 0:
        return 0
    first = source.entry_range(layout, FIRST_POSITION, FIRST_POSITION + 1)
    return count if int(first["phy_offset"][0]) == header.begin_phy_offset else 0


def inherits_end(header: IndexHeader) -> bool:
    """Return whether a header's one entry is counted, but its end is still the file before's."""
    return header.entry_count == FIRST_POSITION and header.end_phy_offset <= header.begin_phy_offset


def _ends_at(
    source: IndexSource,
    layout: Geometry,
    header: IndexHeader,
    last: int,
    states: tuple[tuple[int, int], ...],
) -> bool:
    """Return whether the header's end is that of the last entry, in one of the states of a put."""
    elapsed = 0
    if header.begin_timestamp > 0:
        elapsed = (header.end_timestamp - header.begin_timestamp) // MILLISECONDS
    elapsed = min(max(elapsed, 0), INT32_MAX)
    entries = source.entry_range(layout, max(last - 1, FIRST_POSITION), last + 1)
    has_offset = (entries["phy_offset"] == header.end_phy_offset).tolist()
    # The first entry's seconds are counted from another time.
    seconds = np.where(np.arange(last - len(entries), last) == 0, 0, entries["time_diff"])
    has_time = (seconds == elapsed).tolist()
    if last == FIRST_POSITION:
        has_offset.insert(0, inherits_end(header))
        has_time.insert(0, elapsed == 0)
    return any(has_offset[offset_of] and has_time[time_of] for offset_of, time_of in states)


def last_written(source: IndexSource, layout: Geometry, count: int) -> int:
    """Return the position of the last counted entry that was written, 0 if none was."""
    stop = count + FIRST_POSITION
    while stop > FIRST_POSITION:
        start = max(stop - _BLOCK, FIRST_POSITION)
        there = written(source.entry_range(layout, start, stop)).nonzero()[0]
        if len(there):
            return start + int(there[-1])
        stop = start
    return 0
