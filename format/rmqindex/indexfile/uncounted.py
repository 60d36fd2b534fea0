"""Entries that an IndexFile holds and its header does not count: they prove a damaged count.

A broker writes the entry, then the slot, then the count, so a kill leaves one entry uncounted.
Where a slot leads further behind the count than that, the count was lost: it was set back, or it
never reached the disk. So it was where the header's end is that one entry's, which comes last.
Entries to which no slot leads prove nothing: writers put entries before they flush slots and count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmqindex.errors import CorruptIndexError, command_line
from rmqindex.indexfile.committed import read_header
from rmqindex.indexfile.decoding import slots_of, written
from rmqindex.indexfile.geometry import (
    Layout,
    UnknownLayoutError,
    infer_layout,
    shows,
    usual_layout,
)
from rmqindex.indexfile.proof import inherits_end, last_written
from rmqindex.layout.index_file import (
    BEGIN_PHY_OFFSET_OFFSET,
    END_PHY_OFFSET_OFFSET,
    ENTRY_DTYPE,
    ENTRY_SIZE,
    FIRST_POSITION,
    HEADER_SIZE,
    INDEX_COUNT_OFFSET,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from rmqindex.layout.index_file import IndexHeader
    from rmqindex.storage.source import IndexSource

# Places behind the counted entries whose slots are asked: in the first, a kill leaves an entry.
_ASKED = 8
# Bytes behind the header of a file without entries that are looked at for others than zeros.
_LOOKED_AT = 1 << 16


def damaged_count(
    source: IndexSource, layout: Layout | None, header: IndexHeader
) -> CorruptIndexError | None:
    """Return the error of a count below 0, or behind which slots lead; None for one that may be."""
    if header.index_count < 0:  # no broker writes one
        return _uncounted(source, "a number from 0 on", header)
    count = max(header.index_count, FIRST_POSITION)
    if layout is None:
        used = header.hash_slot_count
        expected = f"more than {used}, the slots in use"
        return _uncounted(source, expected, header) if used > count else None
    return _damage_behind(source, layout, header, count)


def _damage_behind(
    source: IndexSource, layout: Layout, header: IndexHeader, count: int
) -> CorruptIndexError | None:
    """Return the error of a count that the first places behind it contradict."""
    entries, slots = _led_to_behind(source, layout, count, _ASKED)
    if not len(slots):
        return None
    newest = int(slots.max())
    if newest == count and _is_ended_by(source, layout, header, entries[0]):
        expected = f"{count + 1}, behind the last entry, which end_phy_offset is of"
    else:
        expected = f"more than {newest}, to which a slot leads"
        if not count < newest < layout.index_num:
            return None
    # A writer may have counted them meanwhile.
    if source.latest_index_count() >= (count + 1 if newest == count else newest):
        return None
    return _uncounted(source, expected, header)


def _is_ended_by(
    source: IndexSource, layout: Layout, header: IndexHeader, behind: NDArray[Any]
) -> bool:
    """Return whether a header's end is of the entry behind the counted ones, and of none of these.

    A broker counts an entry before it sets the end.
    """
    count = header.index_count
    # The end of a file without entries may be inherited.
    if count <= FIRST_POSITION or int(behind["phy_offset"]) != header.end_phy_offset:
        return False
    last = source.entry_range(layout, count - 1, count)["phy_offset"]
    return int(last[0]) != header.end_phy_offset


def layout_of_put(
    source: IndexSource,
    layout: Layout | None,
    header: IndexHeader,
    layout_beside: Callable[[], Layout | None],
) -> Layout | None:
    """Return the geometry of a file whose next entry was put but for its count; None for others.

    The entry's slot leads to it, so a broker finds it: a kill came before the count, or this was
    damaged.
    """
    if layout is None and looks_emptied(source):
        layout = usual_layout(source.size) or layout_beside()
    position = max(header.index_count, FIRST_POSITION)
    if layout is None:
        return None
    entries, slots = _led_to_behind(source, layout, position, 1)
    if not len(slots) or not 0 <= int(entries["prev_position"][0]) < position:
        return None
    return layout if int(slots[0]) == position else None


def _led_to_behind(
    source: IndexSource, layout: Layout, position: int, most: int
) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Return the first places behind a count, and to where the slots lead of those written."""
    there = (source.size - layout.entry_offset(0)) // ENTRY_SIZE
    stop = min(position + most, layout.index_num, there)
    if stop <= position:
        return np.empty(0, ENTRY_DTYPE), np.empty(0, np.int32)
    entries = source.entry_range(layout, position, stop)
    hashes = entries["key_hash"][written(entries) & (entries["key_hash"] >= 0)].astype(np.int32)
    slots = slots_of(hashes, layout)
    return entries, source.slots(layout, slots) if len(slots) else np.empty(0, np.int32)


def error_of_count(
    source: IndexSource,
    layout: Layout | None,
    header: IndexHeader,
    layout_beside: Callable[[], Layout | None],
) -> CorruptIndexError | None:
    """As :func:`damaged_count`, of a file whose geometry the files beside it may show."""
    if layout is not None:
        return damaged_count(source, layout, header)
    error = damaged_count(source, usual_layout(source.size), header)
    if error is None and looks_emptied(source):
        error = damaged_count(source, layout_beside(), header)
    return error


def then_counted(
    batches: Iterator[pa.RecordBatch],
    source: IndexSource,
    layout: Layout | None,
    header: IndexHeader,
) -> Iterator[pa.RecordBatch]:
    """Yield batches up to the last counted entry; then raise if slots lead behind the count."""
    yield from batches
    error = None if layout is None else damaged_count(source, layout, header)
    if error is not None:
        raise error


def damaged_header(
    source: IndexSource, layout: Layout, header: IndexHeader, *, is_last: bool
) -> CorruptIndexError | None:
    """Return the error of a header that its entries contradict; None for one that may be right."""
    error = damaged_count(source, layout, header)
    count = header.entry_count
    if error is not None or not count:
        return error
    if count > layout.capacity:
        return _wrong_count(source, f"at most {layout.index_num}", header)
    first = source.entry_range(layout, FIRST_POSITION, FIRST_POSITION + 1)["phy_offset"]
    if int(first[0]) != header.begin_phy_offset:
        return _wrong(source, "begin_phy_offset", BEGIN_PHY_OFFSET_OFFSET, int(first[0]), header)
    least = max(count - 1, FIRST_POSITION) if is_last else count
    ends = source.entry_range(layout, least, count + 1)["phy_offset"].tolist()
    # A broker counts an entry before it sets the end.
    if header.end_phy_offset in ends or (is_last and inherits_end(header)):
        return _unwritten_end(source, layout, header)
    # No broker sets the end before it counts the entry, nor counts an entry before it writes it.
    last = last_written(source, layout, min(count + 1, layout.capacity))
    end = int(source.entry_range(layout, last, last + 1)["phy_offset"][0]) if last else ends[-1]
    if last in (0, count) or end != header.end_phy_offset:
        expected = end if last < count else ends[-1]
        return _wrong(source, "end_phy_offset", END_PHY_OFFSET_OFFSET, expected, header)
    expected = f"{last + FIRST_POSITION}, behind the last entry, which end_phy_offset is of"
    return _wrong_count(source, expected, header)


def ensure_said(source: IndexSource, layout: Layout, *, is_strict: bool) -> None:
    """Raise where a file shows another geometry than is said.

    Args:
        source: The open file.
        layout: The geometry.
        is_strict: Whether to raise also where the header contradicts the entries that it finds.
    """
    if source.size < HEADER_SIZE:
        return
    header = read_header(source)
    if shows(source, header, layout) or not is_strict or source.size < layout.file_size:
        return
    error = damaged_header(source, layout, header, is_last=True)
    if error is not None:
        said = f"maxHashSlotNum {layout.hash_slot_num} and maxIndexNum {layout.index_num}"
        hint = f"if {said} are not the broker's, say none; else {error.hint}"
        parts = (error.path, error.field, error.byte, error.expected, error.got)
        raise CorruptIndexError(*parts, hint)


def _unwritten_end(
    source: IndexSource, layout: Layout, header: IndexHeader
) -> CorruptIndexError | None:
    """Return the error of a last entry of zeros: no broker counts one before it writes it."""
    count = header.entry_count
    last = source.entry_range(layout, count, count + 1)
    if last.tobytes().strip(b"\0"):
        return None
    # A key of the message at 0 may well hash to 0; its slot leads to it then.
    if header.end_phy_offset or int(source.slots(layout, np.zeros(1, np.int32))[0]) < count:
        return _wrong_count(source, f"{count}, behind which the entry is of zeros", header)
    return None


def _wrong_count(source: IndexSource, expected: str, header: IndexHeader) -> CorruptIndexError:
    return CorruptIndexError(
        source.path, "index_count", INDEX_COUNT_OFFSET, expected, header.index_count, _hint(source)
    )


def known_layout(source: IndexSource, header: IndexHeader) -> Layout:
    """Return the geometry that a file with entries shows; name what its header has wrong."""
    try:
        return infer_layout(source)
    except UnknownLayoutError:
        default = usual_layout(source.size)
        if default != Layout():
            raise
        error = damaged_header(source, default, header, is_last=False)
        if error is None:
            raise
        raise error from None


def _wrong(
    source: IndexSource, field: str, byte: int, entry_offset: int, header: IndexHeader
) -> CorruptIndexError:
    expected = f"{entry_offset}, the offset of its entry"
    return CorruptIndexError(
        source.path, field, byte, expected, getattr(header, field), _hint(source)
    )


def _hint(source: IndexSource) -> str:
    return f"`{command_line('verify', source.path)}` says what to do"


def looks_emptied(source: IndexSource) -> bool:
    """Return whether the first bytes behind the header show that a file had entries."""
    first = INDEX_COUNT_OFFSET + np.dtype(np.int32).itemsize
    length = min(_LOOKED_AT, source.size - first)
    return length > 0 and any(bytes(source.read(first, length)))


def _uncounted(source: IndexSource, expected: str, header: IndexHeader) -> CorruptIndexError:
    salvage = command_line("scan", source.path, options=["--salvage"])
    return CorruptIndexError(
        source.path,
        "index_count",
        INDEX_COUNT_OFFSET,
        expected,
        header.index_count,
        f"{_hint(source)}, `{salvage}` prints all entries, and mode=DROPMALFORMED passes the "
        "uncounted ones over",
    )
