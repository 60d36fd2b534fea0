"""Whether a file has the size of its geometry, and which entries its header proves.

A row's time is the header's ``begin_timestamp`` plus the entry's seconds, so a wrong header makes
every row wrong. The file itself shows it: the last entry's seconds lead from ``begin_timestamp`` to
``end_timestamp``, and the first and the last entry have its two offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.errors import CorruptIndexError
from rmqindex.indexfile.decoding import MILLISECONDS, written
from rmqindex.layout import ENTRY_SIZE, FIRST_POSITION, INDEX_COUNT_OFFSET, INT32_MAX

if TYPE_CHECKING:
    from rmqindex.header import IndexHeader
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.storage.source import IndexSource

__all__ = ["ensure_fits", "proved_count"]

_BLOCK = 65_536


def ensure_fits(source: IndexSource, layout: Layout, header: IndexHeader, hint: str) -> None:
    """Raise unless a file is large enough for its geometry and the entries that it counts.

    Args:
        source: The open file.
        layout: Its geometry.
        header: Its header.
        hint: What to do, for the error.

    Raises:
        CorruptIndexError: It is shorter, or counts more entries than fit.
    """
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


def proved_count(source: IndexSource, layout: Layout, header: IndexHeader) -> int:
    """Return how many entries to read: those counted and inside the file, 0 if no time is sure.

    Args:
        source: The open file.
        layout: Its geometry.
        header: Its header.

    Raises:
        RmqIndexError: The storage failed.
    """
    there = (source.size - layout.entry_offset(0)) // ENTRY_SIZE - 1
    count = max(0, min(header.entry_count, layout.capacity, there))
    if not count:
        return 0
    if source.size >= layout.file_size:
        last = _last_written(source, layout, count)
        if last == count or (last and _agreed_end(source, layout, header, last) == last):
            return _agreed_end(source, layout, header, last)
        count = last - 1  # the zeros behind it may begin inside it
    if count < FIRST_POSITION or header.begin_timestamp <= 0:
        return 0
    first = source.entry_range(layout, FIRST_POSITION, FIRST_POSITION + 1)
    return count if int(first["phy_offset"][0]) == header.begin_phy_offset else 0


def _agreed_end(source: IndexSource, layout: Layout, header: IndexHeader, last: int) -> int:
    """Return the position of the entry at which the header's fields of the end were set, else 0.

    A broker that is writing counts an entry before it sets them.
    """
    elapsed = 0
    if header.begin_timestamp > 0:
        elapsed = (header.end_timestamp - header.begin_timestamp) // MILLISECONDS
    expected = min(max(elapsed, 0), INT32_MAX), header.end_phy_offset
    for position in range(last, max(last - 2, 0), -1):
        (entry,) = source.entry_range(layout, position, position + 1)
        # The first entry's seconds are counted from another time.
        seconds = 0 if position == FIRST_POSITION else int(entry["time_diff"])
        if (seconds, int(entry["phy_offset"])) == expected:
            return position
    return 0


def _last_written(source: IndexSource, layout: Layout, count: int) -> int:
    """Return the position of the last counted entry that was written, 0 if none was."""
    stop = count + FIRST_POSITION
    while stop > FIRST_POSITION:
        start = max(stop - _BLOCK, FIRST_POSITION)
        there = written(source.entry_range(layout, start, stop)).nonzero()[0]
        if len(there):
            return start + int(there[-1])
        stop = start
    return 0
