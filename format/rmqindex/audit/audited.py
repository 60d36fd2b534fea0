"""A file under audit, readable even if it is short, and the byte of each of its fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqindex.errors import CorruptIndexError, RmqIndexError
from rmqindex.indexfile.committed import open_found_index, open_index_source, read_header
from rmqindex.indexfile.decoding import MILLISECONDS, links_of, slots_of
from rmqindex.indexfile.entries import read_message_run
from rmqindex.indexfile.geometry import (
    AmbiguousLayoutError,
    Layout,
    UnknownLayoutError,
    infer_layout,
    usual_layout,
)
from rmqindex.indexfile.uncounted import looks_emptied
from rmqindex.indexwriter.appender import LINK_BATCH
from rmqindex.layout.index_file import (
    ENTRY_DTYPE,
    ENTRY_SIZE,
    FIRST_POSITION,
    HEADER_SIZE,
    INDEX_COUNT_OFFSET,
    INT32_MAX,
    INVALID_INDEX,
    SLOT_DTYPE,
    SLOT_SIZE,
    IndexHeader,
)
from rmqindex.storage.identity import FileChangedError
from rmqindex.transaction.directories import exists

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rmqindex.audit.findings import Findings
    from rmqindex.indexfile.entries import MessageRun
    from rmqindex.storage.location import Location
    from rmqindex.storage.opening import FileMark
    from rmqindex.storage.source import IndexSource

# Entries that are checked together.
BLOCK = 4 * LINK_BATCH
_SLOT_BLOCK = 1 << 18
_fields = ENTRY_DTYPE.fields
assert _fields is not None  # a structured dtype
_FIELD_OFFSETS = {name: int(field[1]) for name, field in _fields.items()}


def shown_layout(source: IndexSource, header: IndexHeader) -> Layout | None:
    """Return the geometry that a file shows, or its size; None for a file without entries."""
    usual = usual_layout(source.size)
    if not header.entry_count:
        return usual if usual is not None and looks_emptied(source) else None
    try:
        return infer_layout(source)
    except UnknownLayoutError:
        if usual == Layout():
            return usual
        raise


def entry_byte(layout: Layout, position: int, field: str) -> int:
    """Return the byte at which a field of an entry starts."""
    return layout.entry_offset(position) + _FIELD_OFFSETS[field]


def elapsed_seconds(store_timestamps: NDArray[np.int64] | int, begin: int) -> NDArray[np.int64]:
    """Return what ``time_diff`` holds for store times, counted from ``begin`` (spec: put)."""
    times = np.asarray(store_timestamps, np.int64)
    if begin <= 0:
        return np.zeros(times.shape, np.int64)
    seconds: NDArray[np.int64] = np.clip((times - np.int64(begin)) // MILLISECONDS, 0, INT32_MAX)
    return seconds


def whole_entries(size: int, layout: Layout) -> int:
    """Return how many entries a file of a size in bytes can hold, whatever its header says."""
    return min(layout.capacity, max((size - layout.entry_offset(0)) // ENTRY_SIZE - 1, 0))


@dataclass(frozen=True, slots=True)
class AuditedFile:
    """A file under audit; the caller closes its source.

    Attributes:
        path: Its path, as findings name it.
        source: Its bytes, with zeros behind the end of a short file.
        header: Its header.
        layout: Its geometry.
        count: How many entries are judged: counted by the header when it was read first, and inside
            the file.
        counts: The fewest and the most entries that the header counted while its other fields were
            read; both are ``count`` unless a writer is at work.
        is_live: Whether a writer may be at work: what lies behind ``count`` is not judged.
    """

    path: str
    source: IndexSource
    header: IndexHeader
    layout: Layout
    count: int
    counts: tuple[int, int]
    is_live: bool = False

    @property
    def last_places(self) -> NDArray[np.int64]:
        """The positions of the entries whose offset and time the header may repeat.

        A broker counts an entry before it writes its offset and time into the header.
        """
        fewest, most = self.counts
        lag = 1 if self.is_live else 0
        return np.arange(max(fewest - lag, FIRST_POSITION), most + FIRST_POSITION, dtype=np.int64)

    @property
    def has_end(self) -> bool:
        """Whether the header repeats an entry: a broker counts the first one before that."""
        return self.counts[0] > (FIRST_POSITION if self.is_live else 0)

    @property
    def end_phy_offset(self) -> int | None:
        """The offset of the last entry; None where the header has another."""
        if not self.has_end or self.is_live:
            return None
        end = self.header.end_phy_offset
        last = self.source.entries(self.layout, self.last_places)["phy_offset"]
        return end if int(last[-1]) == end else None

    @property
    def entry_count(self) -> int:
        """How many entries it has, as :attr:`rmqindex.IndexFile.entry_count`."""
        return self.count

    def message_run(self, position: int) -> tuple[int, MessageRun]:
        """Return the consecutive entries of one offset, as ``IndexFile.message_run``."""
        stop = max(self.count, position) + FIRST_POSITION
        return read_message_run(self.source, self.layout, position, stop)

    def blocks(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the position of each block's first entry, and its entries."""
        stop = self.count + FIRST_POSITION
        for first in range(FIRST_POSITION, stop, BLOCK):
            yield first, self.source.entry_range(self.layout, first, min(first + BLOCK, stop))

    def offsets_and_hashes(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32]]]:
        """Yield the offset and the hash of each entry, in the blocks of :meth:`blocks`."""
        for _, entries in self.blocks():
            yield entries["phy_offset"].astype(np.int64), entries["key_hash"].astype(np.int32)

    def slot_blocks(self) -> Iterator[tuple[int, NDArray[np.int32]]]:
        """Yield the number of each block's first slot, and the slots' values."""
        layout = self.layout
        for first in range(0, layout.hash_slot_num, _SLOT_BLOCK):
            stop = min(first + _SLOT_BLOCK, layout.hash_slot_num)
            data = self.source.read(layout.slot_offset(first), (stop - first) * SLOT_SIZE)
            yield first, np.frombuffer(data, SLOT_DTYPE).astype(np.int32)

    def byte(self, position: int, field: str) -> int:
        """Return the byte at which a field of an entry starts."""
        return entry_byte(self.layout, position, field)


def open_planned(path: Location, mark: FileMark | None) -> IndexSource:
    """Open a file of a planned audit."""
    try:
        return open_found_index(path, mark)
    except FileChangedError:
        raise
    except RmqIndexError as error:
        if mark is not None and not exists(path):
            raise FileChangedError(path, "removed") from error
        raise


def open_audited(
    path: Location,
    layout: Layout | None,
    findings: Findings,
    mark: FileMark | None = None,
    live_count: int | None = None,
) -> AuditedFile | None:
    """Open a file, or return None and add findings that say why it cannot be audited.

    A writer may have added to the ``live_count`` entries since.
    """
    try:
        source = open_planned(path, mark)
    except FileChangedError:
        raise
    except RmqIndexError as error:
        findings.add(path, "unreadable", None, "a file", error)
        return None
    size = source.size
    if live_count is not None and not size:
        source.close()  # a broker is about to extend a file that it has just made
        return None
    if size < HEADER_SIZE:
        findings.add(path, "header_size", 0, f"{HEADER_SIZE} bytes", f"{size} bytes")
        source.close()
        return None
    head = _read_head(source, layout, findings, is_live=live_count is not None)
    if head is None:
        source.close()
        return None
    header, layout = head
    whole = whole_entries(size, layout)
    count = min(header.entry_count, whole)
    counts = (count, count)
    is_live = live_count is not None
    if live_count is not None:
        fewest, count = count, min(live_count, count)
        header = _header_now(source)
        counts = (fewest, min(_header_now(source).entry_count, whole))
    if size < layout.file_size:
        findings.add(path, "file_size", size, f"{layout.file_size} bytes", f"{size} bytes")
        source.close()
        source = open_index_source(path, zero_extend_to=layout.file_size)
    elif size > layout.file_size:
        findings.add(
            path, "surplus_bytes", layout.file_size, f"{layout.file_size} bytes", f"{size} bytes"
        )
    return AuditedFile(path, source, header, layout, count, counts, is_live)


def _read_head(
    source: IndexSource, layout: Layout | None, findings: Findings, *, is_live: bool
) -> tuple[IndexHeader, Layout] | None:
    """Return a file's header and geometry, or add findings that say why they are unknown."""
    try:
        header = read_header(source)
        if layout is None:
            layout = shown_layout(source, header)
    except CorruptIndexError as error:
        findings.add(source.path, error.field, error.byte, error.expected, error.got)
        return None
    except RmqIndexError as error:
        if source.remote and isinstance(error, AmbiguousLayoutError):
            raise  # not damaged: what the file does not show is asked for, as by a lookup
        is_geometry = "maxHashSlotNum" in str(error)
        rule, expected = ("geometry", "one") if is_geometry else ("unreadable", "an IndexFile")
        findings.add(source.path, rule, None, expected, error)
        return None
    if layout is None:
        if not is_live and looks_emptied(source):
            findings.add(
                source.path,
                "index_count",
                INDEX_COUNT_OFFSET,
                "the number of entries, whose bytes follow",
                header.index_count,
            )
        return None
    return header, layout


def _header_now(source: IndexSource) -> IndexHeader:
    """Return the header as a writer has it now; fields may be of neighbouring entries."""
    return IndexHeader.from_bytes(source.read(0, HEADER_SIZE))


class UncountedEntries:
    """Entries behind the count, as far as slots lead to them.

    A writer adds them while the file is audited, or was killed between the slot and the count of
    one.
    A broker writes an entry before the slot that leads to it (RocketMQ: ``IndexFile.putKey``), so
    entries that are read after the slots are final.
    """

    def __init__(self, file: AuditedFile) -> None:
        """Read nothing yet."""
        self._file = file
        self._stop = file.layout.index_num
        if not file.is_live:  # searches accept a slot that leads to the entry counted next
            next_place = max(file.header.index_count, FIRST_POSITION)
            self._stop = min(self._stop, next_place + 1)
        self._slots = np.empty(0, np.int64)  # of each entry behind the count, -1 for none
        self._counted = np.empty(0, np.int64)  # the counted entry that its chain leads to

    def counted(self, heads: NDArray[np.int32], first: int) -> NDArray[np.int32]:
        """Return the counted entries that slots lead to, and other values as they are."""
        file = self._file
        newer = np.flatnonzero((heads > file.count) & (heads < self._stop))
        if not len(newer):
            return heads
        places = heads[newer].astype(np.int64) - file.count - FIRST_POSITION
        self._read_to(int(places.max()) + 1)
        own = self._slots[places] == newer + first
        led = self._counted[places]
        found = heads.copy()
        known = own & (led >= 0)
        found[newer[known]] = led[known]
        return found

    def _read_to(self, number: int) -> None:
        """Read so many entries behind the count, and follow their links."""
        if number <= len(self._slots):
            return
        file = self._file
        start = file.count + FIRST_POSITION
        links = links_of(file.source.entry_range(file.layout, start, start + number))
        positions = np.arange(start, start + number, dtype=np.int64)
        prev = links.prev_position.astype(np.int64)
        hashes = links.key_hash.astype(np.int64)
        slots = slots_of(np.maximum(links.key_hash, 0), file.layout).astype(np.int64)
        slots[hashes < 0] = -1
        prev[prev == positions] = INVALID_INDEX  # the chain ends there
        broken = (prev < INVALID_INDEX) | (prev > positions)
        inside = ~broken & (prev >= start)
        stranger = np.zeros(number, np.bool_)
        stranger[inside] = slots[prev[inside] - start] != slots[inside]
        led = np.where(broken | stranger, -1, prev)
        while (further := np.flatnonzero(led >= start)).size:
            led[further] = led[led[further] - start]
        self._slots, self._counted = slots, led
