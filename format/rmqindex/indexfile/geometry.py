"""Finding a file's geometry from the file itself (spec: geometry).

A file of ``size`` bytes has ``hash_slot_num + 5 * index_num`` 32-bit words behind its header, so
every geometry that the size allows sees the same 20-byte rows, counted from the end of the file,
and they differ only in which row is entry 1.
The right one is found by evidence: the header's offsets stand in the first and the newest entry,
its counts agree with the slots, and the newest entries hang in the chains of their slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqindex.errors import SAID_GEOMETRY, CorruptIndexError, RmqIndexError
from rmqindex.indexfile.committed import open_index_source, read_header
from rmqindex.indexfile.decoding import links_of, malformed, slots_of
from rmqindex.indexfile.proof import inherits_end
from rmqindex.layout.index_file import (
    DEFAULT_HASH_SLOT_NUM,
    DEFAULT_INDEX_NUM,
    ENTRY_DTYPE,
    ENTRY_SIZE,
    FIRST_POSITION,
    HEADER_SIZE,
    INDEX_COUNT_OFFSET,
    INT32_MAX,
    INVALID_INDEX,
    SLOT_DTYPE,
    SLOT_SIZE,
    Geometry,
)
from rmqindex.storage.source import IndexSource

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rmqindex.layout.index_file import IndexHeader
    from rmqindex.storage.location import PathLike

_WORDS_PER_ENTRY = ENTRY_SIZE // SLOT_SIZE
# The ratio of the default geometry and of most others: four entries per slot.
_USUAL_RATIO = DEFAULT_INDEX_NUM // DEFAULT_HASH_SLOT_NUM
# How many of the newest entries must hang in their chains.
_EVIDENCE = 2_000
# The same in a large local file, where each slot is a page to be read from a disk, and in a remote
# one, where each is a request.
_LARGE_EVIDENCE = 5
# Slots from which on a file is large: they fill far more pages than a few lookups touch.
_LARGE_SLOT_NUM = 1 << 18
# With this many entries in their chains, no second geometry can fit as well.
_CONCLUSIVE = 8
_END = np.ones(1, np.bool_)
# Rows a step of the search reads.
_SEARCH_ROWS = 1 << 18
# Give up once this many geometries have passed the first check, and none the others.
_MOST_CANDIDATES = 10_000
# How many candidates an error names.
_NAMED = 4
_HINT = f"say which with {SAID_GEOMETRY}"
_DAMAGED_HINT = (
    "if the file is damaged, mode=DROPMALFORMED reads its sound part, with the geometry of the "
    f"files beside it or that of {SAID_GEOMETRY}"
)


class UnknownLayoutError(RmqIndexError):
    """A file's own bytes do not show its geometry."""


class AmbiguousLayoutError(UnknownLayoutError):
    """More than one geometry may be that of a file, which is not damaged: its broker knows."""


class OtherLayoutError(RmqIndexError):
    """A file shows another geometry than it was said to have."""


@dataclass(frozen=True, slots=True)
class Layout(Geometry):
    """The geometry of an IndexFile, which the file itself does not state.

    It comes from the broker's configuration: ``maxHashSlotNum`` and ``maxIndexNum``.

    Attributes:
        hash_slot_num: How many hash slots the file has, at least 1.
        index_num: How many entry places the file has, at least 1.
            Place 0 is never used, so the file holds at most ``index_num - 1`` entries.

    Raises:
        ValueError: A number below 1, or a file size beyond the broker's 32-bit int.
        TypeError: Not an int.
    """

    @classmethod
    def infer(cls, path: str | os.PathLike[str]) -> Layout:
        """Infer the geometry of a file from its size and the chains of its entries.

        There is no guess: a geometry is returned only if no other fits.

        Args:
            path: An IndexFile.

        Returns:
            The geometry.

        Raises:
            RmqIndexError: None or several fit, or the file has no entries; the message names the
                options ``maxHashSlotNum`` and ``maxIndexNum``.
        """
        return infer_layout(path)


_DEFAULT = Layout()
_LEAST_SIZE = Layout(1, 1).file_size
# The bytes of a slot with its entries in the usual ratio.
_USUAL_SHAPE = Layout(1, _USUAL_RATIO).file_size - HEADER_SIZE


def infer_layout(file: PathLike | IndexSource) -> Layout:
    """Find the geometry of a file; see :meth:`rmqindex.Layout.infer`."""
    if not isinstance(file, IndexSource):
        with open_index_source(file) as source:
            return infer_layout(source)
    source = file
    words, odd = divmod(source.size - HEADER_SIZE, SLOT_SIZE)
    if odd or not _LEAST_SIZE <= source.size <= INT32_MAX:
        raise UnknownLayoutError(
            f"{source.path}: no geometry has a file size of {source.size} bytes; {_DAMAGED_HINT}"
        )
    header = read_header(source)
    if not header.entry_count:
        raise AmbiguousLayoutError(
            f"{source.path}: the header counts no entries, so that any geometry fits; {_HINT}"
        )
    most = (words - 1) // _WORDS_PER_ENTRY
    if header.index_count > most:
        raise CorruptIndexError(
            source.path,
            "index_count",
            INDEX_COUNT_OFFSET,
            f"at most {most} in a file of {source.size} bytes",
            header.index_count,
            _DAMAGED_HINT,
        )
    usual = [
        layout
        for layout in _usual(source.size)
        if _fits(source, header, layout, _slot_use(source, header, layout))
    ]
    if usual and header.entry_count >= _CONCLUSIVE:
        return usual[0]
    if usual and source.remote:
        if _all_hashed(source, header, usual[0]):
            return usual[0]
        raise AmbiguousLayoutError(
            f"{source.path}: expected entries that tell maxHashSlotNum/maxIndexNum "
            f"{usual[0].hash_slot_num}/{usual[0].index_num} from others, got "
            f"{header.entry_count} of which some read as zeros; {_HINT}"
        )
    if source.remote:
        raise AmbiguousLayoutError(
            f"{source.path}: neither the default geometry nor one of {_USUAL_RATIO} entries a "
            f"slot fits, and others are searched for in local files only; {_HINT}"
        )
    return _only_fitting(source, header, words)


def usual_layout(size: int) -> Layout | None:
    """Return the geometry that brokers give a file of a size, or None for an unusual size."""
    return next(_usual(size), None)


def fits_layout(source: IndexSource, layout: Layout, *, may_be_longer: bool = False) -> bool:
    """Return whether a geometry known from other files fits a file too.

    A few entries fit many geometries, so this alone is not proof.

    Args:
        source: The open file.
        layout: The geometry.
        may_be_longer: Whether surplus bytes may follow the last place, which a broker does not map.

    Raises:
        RmqIndexError: The storage failed.
    """
    surplus = source.size - layout.file_size
    if surplus < 0 or (surplus and not may_be_longer):
        return False
    header = read_header(source)
    if not header.entry_count:
        return False
    if _slot_use(source, header, layout) is None:
        return _fits(source, header, layout, None)
    return any(
        _fits(source, header, layout, _SlotUse(source, header, is_counted=is_counted))
        for is_counted in _counted(header)
    )


def shows(source: IndexSource, header: IndexHeader, layout: Layout) -> bool:
    """Return whether a file shows the geometry that is said; raise where it shows another.

    With other slots, its entries read as those of other positions. One that shows no geometry,
    such as a damaged one, may have what is said; one that shows fewer places may have been cut.
    """
    if not header.entry_count or _seems(source, header, layout):
        return True
    # A search of the default's size takes seconds, and no broker has another geometry of that size.
    if layout == _DEFAULT and source.size == _DEFAULT.file_size:
        return False
    try:
        shown = infer_layout(source)
    except (UnknownLayoutError, CorruptIndexError):
        return False
    if shown.hash_slot_num != layout.hash_slot_num:
        raise OtherLayoutError(
            f"{source.path}: expected the geometry that the file shows, maxHashSlotNum "
            f"{shown.hash_slot_num} and maxIndexNum {shown.index_num}, got {layout.hash_slot_num} "
            f"and {layout.index_num}: say those of the file, or none"
        )
    return False


def _seems(source: IndexSource, header: IndexHeader, layout: Layout) -> bool:
    """Return whether the place that is never used is empty, and header and newest entries fit."""
    if source.size < layout.entry_offset(header.index_count):
        return False
    unused = source.entry_range(layout, INVALID_INDEX, FIRST_POSITION).tobytes()
    return not any(unused) and _fits(source, header, layout, None)


def _counted(header: IndexHeader) -> tuple[bool, ...]:
    """Return whether the header counts the slots in use, for each count to be tried in turn.

    No answer comes of hashSlotCount, so that many entries speak for their slots without it.
    """
    return (True, False) if header.entry_count >= _CONCLUSIVE else (True,)


def _slot_use(source: IndexSource, header: IndexHeader, layout: Layout) -> _SlotUse | None:
    """Return a counter of a file's slots; None where reading all of them would take long."""
    if source.remote or layout.hash_slot_num >= _LARGE_SLOT_NUM:
        return None
    return _SlotUse(source, header)


def _only_fitting(source: IndexSource, header: IndexHeader, words: int) -> Layout:
    """Try every geometry that the size allows, and return the one that fits."""
    found: list[Layout] = []
    for is_counted in _counted(header):
        slot_use = _SlotUse(source, header, is_counted=is_counted)
        for layout in islice(_search(source, header, words), _MOST_CANDIDATES):
            if _fits(source, header, layout, slot_use):
                found.append(layout)
            if len(found) > _NAMED:
                break
        if found:
            break
    if len(found) == 1:
        return found[0]
    if not found:
        raise UnknownLayoutError(
            f"{source.path}: no geometry fits its entries and slots; {_DAMAGED_HINT}"
        )
    named = ", ".join(f"{lay.hash_slot_num}/{lay.index_num}" for lay in found[:_NAMED])
    more = " and more" if len(found) > _NAMED else ""
    raise AmbiguousLayoutError(
        f"{source.path}: several geometries fit: maxHashSlotNum/maxIndexNum {named}{more}; {_HINT}"
    )


def _all_hashed(source: IndexSource, header: IndexHeader, layout: Layout) -> bool:
    """Return whether no entry has the hash 0, as one has that is read from a place without any.

    A message at offset 0 is found in such a place too, since its header's offsets are zeros.
    """
    entries = source.entry_range(layout, FIRST_POSITION, header.index_count)
    return bool(entries["key_hash"].all())


def _usual(size: int) -> Iterator[Layout]:
    """Yield the default geometry and the one of the usual shape, where the size allows them."""
    if size == _DEFAULT.file_size:
        yield _DEFAULT
        return
    slots, rest = divmod(size - HEADER_SIZE, _USUAL_SHAPE)
    if not rest and slots and size <= INT32_MAX:
        yield Layout(slots, slots * _USUAL_RATIO)


def _fits(
    source: IndexSource, header: IndexHeader, layout: Layout, slot_use: _SlotUse | None
) -> bool:
    """Return whether the evidence speaks for a geometry.

    Without ``slot_use``, only the newest few entries are checked.
    """
    newest = header.entry_count
    if header.index_count > layout.index_num:
        return False
    evidence = _EVIDENCE if slot_use else _LARGE_EVIDENCE
    checked = min(newest, evidence)
    entries = source.entry_range(layout, newest - checked + 1, newest + 1)
    first = source.entry_range(layout, FIRST_POSITION, FIRST_POSITION + 1)
    return (
        _agrees_with_header(header, first, entries)
        and _is_chained(source, layout, newest, entries)
        and (slot_use is None or slot_use.agrees(layout))
    )


def _agrees_with_header(header: IndexHeader, first: NDArray[Any], newest: NDArray[Any]) -> bool:
    """Return whether the header's offsets are those of its first and its last entry.

    A broker that is writing raises ``index_count`` before ``end_phy_offset``, so the newest entry
    but one will do, or what a file of one entry inherited.
    """
    ends = newest["phy_offset"][-2:].tolist()
    return int(first["phy_offset"][0]) == header.begin_phy_offset and (
        header.end_phy_offset in ends or inherits_end(header)
    )


def _is_chained(source: IndexSource, layout: Layout, newest: int, entries: NDArray[Any]) -> bool:
    """Return whether the chains lead to the newest entries, newest to oldest."""
    positions = np.arange(newest - len(entries) + 1, newest + 1, dtype=np.int32)
    links = links_of(entries)
    if malformed(links, positions, 0) is not None:
        return False
    slots = slots_of(links.key_hash, layout)
    # By slot, then from the oldest to the newest; NumPy sorts narrow integers fastest.
    narrow = np.min_scalar_type(layout.hash_slot_num - 1)
    order = slots.astype(narrow).argsort(kind="stable")
    slots, positions, previous = slots[order], positions[order], links.prev_position[order]
    together = slots[1:] == slots[:-1]
    is_linked = (previous[1:] == positions[:-1]) | (previous[1:] == positions[1:])
    if (together & ~is_linked).any():
        return False
    ends = np.concatenate([_END, ~together, _END])
    oldest, last = ends[:-1], ends[1:]
    if len(entries) == newest and ((previous != 0) & (previous != positions))[oldest].any():
        return False
    heads, expected = source.slots(layout, slots[last]), positions[last]
    others = np.flatnonzero(heads != expected)
    return all(
        head > newest and _first_counted(source, layout, head, newest) in (position, None)
        for head, position in zip(heads[others].tolist(), expected[others].tolist(), strict=True)
    )


def _first_counted(source: IndexSource, layout: Layout, head: int, newest: int) -> int | None:
    """Follow a chain down to the entries that the header counts; None where it breaks.

    A broker that is writing, or a crash, leaves entries in slots that the header does not count;
    after a crash such an entry may never have reached the disk.
    """
    for _ in range(_EVIDENCE):
        if head <= newest:
            break
        if head >= layout.index_num:
            return INVALID_INDEX
        entry = source.entry_range(layout, head, head + 1)
        prev = int(entry["prev_position"][0])
        if not any(entry.tobytes()) or prev == head:
            return None
        if prev > head:
            return INVALID_INDEX
        head = prev
    return head


class _SlotUse:
    """The slots read so far, so that candidates with ever more slots read each only once."""

    def __init__(
        self, source: IndexSource, header: IndexHeader, *, is_counted: bool = True
    ) -> None:
        """Begin; the slots in use are counted by the header, or else by the entries."""
        self._source = source
        self._header = header
        self._is_counted = is_counted
        self._read = self._used = self._ahead = self._lowest = self._highest = 0

    def agrees(self, layout: Layout) -> bool:
        """Return whether all slots point into the file, and as many are in use as counted.

        Before RocketMQ 4.7.1 the header counted puts instead of slots.
        """
        while self._read < layout.hash_slot_num:
            stop = min(self._read + _SEARCH_ROWS, layout.hash_slot_num)
            data = self._source.read(
                layout.slot_offset(self._read), (stop - self._read) * SLOT_SIZE
            )
            slots = np.frombuffer(data, SLOT_DTYPE).astype(np.int32)
            self._lowest = min(self._lowest, int(slots.min()))
            self._highest = max(self._highest, int(slots.max()))
            self._used += int(np.count_nonzero(slots))
            self._ahead += int(np.count_nonzero(slots > self._header.entry_count))
            self._read = stop
        if self._lowest < INVALID_INDEX or self._highest >= layout.index_num:
            return False
        counted, puts = self._header.hash_slot_count, self._header.entry_count
        if not self._is_counted:
            counted, puts = self._slots_of_entries(layout), INT32_MAX
        fewest = self._used - self._ahead
        # Of more entries, the newest alone are looked at.
        if self._header.entry_count <= _EVIDENCE and fewest > self._slots_of_entries(layout):
            return False
        return (
            fewest <= counted <= self._used
            or puts <= counted <= puts + 1
            or (counted < fewest and fewest - counted <= self._own_links(layout))
        )

    def _slots_of_entries(self, layout: Layout) -> int:
        """Return how many slots the entries belong to."""
        is_used = np.zeros(layout.hash_slot_num, np.bool_)
        stop = self._header.entry_count + FIRST_POSITION
        for start in range(FIRST_POSITION, stop, _SEARCH_ROWS):
            entries = self._source.entry_range(layout, start, min(start + _SEARCH_ROWS, stop))
            is_used[entries["key_hash"] % layout.hash_slot_num] = True
        return int(np.count_nonzero(is_used))

    def _own_links(self, layout: Layout) -> int:
        """Return how many entries lead to themselves: their slots may not be counted."""
        count = 0
        stop = self._header.index_count
        for start in range(FIRST_POSITION, stop, _SEARCH_ROWS):
            positions = np.arange(start, min(start + _SEARCH_ROWS, stop))
            entries = self._source.entry_range(layout, start, start + len(positions))
            count += int(np.count_nonzero(entries["prev_position"] == positions))
        return count


def _search(source: IndexSource, header: IndexHeader, words: int) -> Iterator[Layout]:
    """Yield every geometry under which the first and the newest entry look right.

    Rows are read once, a bounded number at a time, and compared as whole columns.
    """
    newest = header.entry_count
    # The lowest number of slots that the size allows; each further five take one entry's place.
    fewest = (words - 1) % _WORDS_PER_ENTRY + 1
    most_entries = (words - fewest) // _WORDS_PER_ENTRY
    rows = Layout(fewest, most_entries)
    # Candidate c has fewest + 5c slots, and its entry p is row c + p.
    candidates = most_entries - header.index_count + 1
    for start in range(0, candidates, _SEARCH_ROWS):
        stop = min(start + _SEARCH_ROWS, candidates)
        first = _rows(source, rows, start + FIRST_POSITION, stop + FIRST_POSITION)
        last = _rows(source, rows, start + newest, stop + newest)
        # Where there is one entry, it stands for the one before it too.
        older = max(newest - 1, FIRST_POSITION)
        before = _rows(source, rows, start + older, stop + older)
        right = (
            (first["phy_offset"] == header.begin_phy_offset)
            & (
                (last["phy_offset"] == header.end_phy_offset)
                | (before["phy_offset"] == header.end_phy_offset)
                | inherits_end(header)
            )
            & _plausible(last, newest)
            & _plausible(before, older)
        )
        chosen = np.flatnonzero(right)
        if not len(chosen):
            continue
        slot_nums = fewest + _WORDS_PER_ENTRY * (start + chosen)
        slots = last["key_hash"][chosen] % slot_nums
        older_slots = before["key_hash"][chosen] % slot_nums
        linked = slots == older_slots
        linked &= np.isin(last["prev_position"][chosen], (older, newest)) | (older == newest)
        hanging = (source.slots(rows, slots) >= newest) & (
            linked | ((slots != older_slots) & (source.slots(rows, older_slots) >= older))
        )
        for slot_num in slot_nums[hanging].tolist():
            yield Layout(slot_num, (words - slot_num) // _WORDS_PER_ENTRY)


def _rows(source: IndexSource, rows: Layout, start: int, stop: int) -> NDArray[Any]:
    return np.frombuffer(
        source.read(rows.entry_offset(start), (stop - start) * ENTRY_SIZE), ENTRY_DTYPE
    )


def _plausible(entries: NDArray[Any], position: int) -> NDArray[np.bool_]:
    """Return which rows could be the entry at a position."""
    prev = entries["prev_position"]
    return (
        (entries["key_hash"] >= 0)
        & (entries["time_diff"] >= 0)
        & (prev >= INVALID_INDEX)
        & (prev <= position)
    )
