"""How the records of a CommitLog file are framed: one behind the other, or in DLedger's entries.

Positions in a file are of two kinds: that of a record, and that of its frame, which begins with the
entry head before the record.
A plain log has no such head, so both are the same.
The frames of a pass know what it has read, by which they tell remains of an earlier life of the
log: those of a plain log are older, those of DLedger have an index or a term out of order.

Each record holds only its own size, so finding all of them means following one long chain.
To do that with NumPy, likely record starts are searched for at even distances, and the chains from
all of them are followed in step; a chain counts only if the one before it ends exactly at its
start.

DLedger: ``DLedgerMmapFileStore.recover``.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.layout.dledger import (
    BLANK_HEAD,
    BLANK_MAGIC,
    BODY_SIZE_OFFSET,
    CONTROL_MAGICS,
    ENTRY_HEAD,
    INDEX_OFFSET,
    MAGIC_NORMAL,
    MAGICS,
    POS_OFFSET,
    SIZE_OFFSET,
    TERM_OFFSET,
)
from rmqindex.layout.record import (
    BLANK_MAGIC_CODE,
    MAGIC_CODE_OFFSET,
    MAGIC_CODE_V1,
    MAGIC_CODE_V2,
    MIN_RECORD_SIZE,
    PHYSICAL_OFFSET_OFFSET,
)
from rmqindex.record.records import Fault, check_record, gather, store_timestamp_of
from rmqindex.storage.location import Location  # noqa: TC001  (read by from_json)
from rmqindex.storage.opening import FileMark  # noqa: TC001  (likewise)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from numpy.typing import NDArray

    from rmqindex.record.records import Records

    Read: TypeAlias = Callable[[int, int], bytes | memoryview]
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of a CommitLog.

    Attributes:
        start: The log's offset of its first byte, which is its name.
        size: Its size in bytes.
        path: Where it lies: a local path or a URI.
        mark: Its mark, checked on opening; None where only its size is known.
        entry_head: The bytes before each record: those of DLedger's entry head, else 0.
    """

    start: int
    size: int
    path: Location
    mark: FileMark | None = field(default=None, compare=False, repr=False)
    entry_head: int = 0

    @property
    def stop(self) -> int:
        """The log's offset behind its last byte."""
        return self.start + self.size


class Frames:
    """The frames of a plain file: records without anything between them."""

    def __init__(self, start: int, newest: int | None = None) -> None:
        """Begin a pass behind a record of the store timestamp ``newest``, if that is known."""
        #: Where the walk began, and where the next frame starts, bytes from the start of the file.
        self.first = self.at = 0
        self._start = start
        self._newest = newest
        self._last: int | None = None

    def accept(self, records: Records, sound: NDArray[np.bool_]) -> int:
        """Return how many of the first records of a block are sound, and remember the last."""
        count = len(sound) if sound.all() else int(np.argmin(sound))
        if count:
            self._last = int(records.phy_offset[count - 1]) - self._start
            self.at = self._last + int(records.size[count - 1])
        return count

    def skip(self, data: memoryview, at: int, size: int) -> int:
        """Return the size of a frame without a record, 0 where none is; remember it as read."""
        del data, at, size
        return 0

    def blank(self, head: bytes, left: int) -> int | Fault | None:
        """Return the size that a blank frame claims, a fault in it, or None where none is.

        ``head`` is its first eight bytes, ``left`` the bytes from there to the end of the file.
        """
        size, magic = BLANK_HEAD.unpack(head)
        if magic != BLANK_MAGIC_CODE:
            return None
        if size > left:
            return Fault("total_size", 0, f"at most {left} for a blank record", size)
        return int(size)

    def check(self, read: Read, position: int, size: int) -> int | Fault:
        """Return the size of the frame at a place with its record, or what is wrong with it."""
        return check_record(read, position, size, self._start + position)

    @property
    def tells_by_time(self) -> bool:
        """Whether remains are told by their times, which a clock that steps back misleads."""
        return True

    def goes_on_at(self, read: Read, position: int) -> bool:
        """Return whether the sound frame at a place is no older than the last one read."""
        newest = self.newest(read)
        return newest is None or store_timestamp_of(read, position) >= newest

    def newest(self, read: Read) -> int | None:
        """Return the store timestamp of the last frame read, epoch milliseconds; None before."""
        if self._last is not None:
            self._newest = store_timestamp_of(read, self._last)
            self._last = None
        return self._newest

    def resume_at(self, read: Read, position: int) -> None:
        """Go on at a sound frame behind damage."""


class DLedgerFrames(Frames):
    """The entries of a DLedger file, whose indexes ascend by one and whose terms do not descend."""

    def __init__(self, start: int, last: tuple[int, int] | None = None) -> None:
        """Begin a pass behind an entry of this index and term, if they are known."""
        super().__init__(start)
        self.last = last

    @classmethod
    def behind(cls, start: int, read: Read, record: int, stop: int) -> DLedgerFrames:
        """Begin a pass behind the entry of a record, and those up to a place that hold none.

        Both are positions in the file.
        """
        last, at = None, record - ENTRY_HEAD.size
        while at + ENTRY_HEAD.size <= stop:
            magic, size, *numbers = ENTRY_HEAD.unpack(read(at, ENTRY_HEAD.size))[:4]
            if last is not None and (magic not in CONTROL_MAGICS or size < ENTRY_HEAD.size):
                break
            last, at = (numbers[0], numbers[1]), at + size
        return cls(start, last)

    def accept(self, records: Records, sound: NDArray[np.bool_]) -> int:
        """Return how many of the first records follow sound heads in order."""
        heads = records.starts - ENTRY_HEAD.size
        data = records.data
        good = sound & (gather(data, heads, "i4") == MAGIC_NORMAL)
        good &= gather(data, heads + SIZE_OFFSET, "i4") == records.size + ENTRY_HEAD.size
        good &= gather(data, heads + POS_OFFSET, "i8") == records.phy_offset - ENTRY_HEAD.size
        good &= gather(data, heads + BODY_SIZE_OFFSET, "i4") == records.size
        indexes = gather(data, heads + INDEX_OFFSET, "i8")
        terms = gather(data, heads + TERM_OFFSET, "i8")
        index, term = self.last or (int(indexes[0]) - 1, int(terms[0]))
        good &= indexes == np.concatenate([[index], indexes[:-1]]) + 1
        good &= terms >= np.concatenate([[term], terms[:-1]])
        count = len(good) if good.all() else int(np.argmin(good))
        if count:
            self.last = int(indexes[count - 1]), int(terms[count - 1])
            self.at = int(records.phy_offset[count - 1] + records.size[count - 1]) - self._start
        return count

    def skip(self, data: memoryview, at: int, size: int) -> int:
        """Return the size of an entry without a record, or of a blank before the first entry."""
        left = len(data) - at
        if left < BLANK_HEAD.size:
            return 0
        magic, claimed = BLANK_HEAD.unpack_from(data, at)
        if magic == BLANK_MAGIC:
            # DLedgerMmapFileStore.reset blanks the part of a file before a snapshot.
            if self.at or not BLANK_HEAD.size <= claimed < size:
                return 0
        elif magic in CONTROL_MAGICS and left >= ENTRY_HEAD.size:
            head = ENTRY_HEAD.unpack_from(data, at)
            if self._head_fault(head, self.at, size) is not None:
                return 0
            self.last = head[2], head[3]
        else:
            return 0
        self.at += claimed
        return int(claimed)

    def blank(self, head: bytes, left: int) -> int | Fault | None:
        """Return the size that a blank claims, a fault in it, or None where none is."""
        magic, size = BLANK_HEAD.unpack(head)
        if magic != BLANK_MAGIC:
            return None
        if size != left:
            expected = f"{left}, up to the end of the file, for a blank"
            return Fault("size", SIZE_OFFSET, expected, size)
        return int(size)

    def check(self, read: Read, position: int, size: int) -> int | Fault:
        """Return the size of the entry at a place, or what is wrong with it or its record."""
        left = size - position
        if left < ENTRY_HEAD.size:
            expected = f"at least {ENTRY_HEAD.size} bytes for the head of an entry"
            return Fault("size", 0, expected, f"{left} to the end of the file")
        head = ENTRY_HEAD.unpack(read(position, ENTRY_HEAD.size))
        fault = self._head_fault(head, position, size)
        if fault is not None:
            return fault
        if head[0] != MAGIC_NORMAL:
            return int(head[1])
        record = position + ENTRY_HEAD.size
        checked = check_record(read, record, position + head[1], self._start + record)
        if isinstance(checked, Fault):
            return checked._replace(byte=ENTRY_HEAD.size + checked.byte)
        if checked != head[-1]:
            return Fault("body_size", BODY_SIZE_OFFSET, f"{checked}, its record", head[-1])
        return int(head[1])

    @property
    def tells_by_time(self) -> bool:
        """Entries have indexes and terms."""
        return False

    def goes_on_at(self, read: Read, position: int) -> bool:
        """Return whether the sound entry at a place is a later one than the last one read."""
        _, _, index, term, *_ = ENTRY_HEAD.unpack(read(position, ENTRY_HEAD.size))
        return self.last is None or (index > self.last[0] and term >= self.last[1])

    def resume_at(self, read: Read, position: int) -> None:
        """Go on at a sound entry behind damage, whose index need not be the next one."""
        _, _, index, term, *_ = ENTRY_HEAD.unpack(read(position, ENTRY_HEAD.size))
        self.last = index - 1, term

    def _head_fault(self, head: tuple[int, ...], position: int, size: int) -> Fault | None:
        magic, claimed, index, term, pos, _, _, _, body_size = head
        start, left = self._start + position, size - position
        next_index, least_term = (index, term) if self.last is None else self.last
        next_index += self.last is not None
        fields = (
            ("magic", 0, magic, magic in MAGICS, f"one of {', '.join(map(str, MAGICS))}"),
            (
                "size",
                SIZE_OFFSET,
                claimed,
                ENTRY_HEAD.size <= claimed <= left,
                f"{ENTRY_HEAD.size} to {left}",
            ),
            ("pos", POS_OFFSET, pos, pos == start, str(start)),
            (
                "body_size",
                BODY_SIZE_OFFSET,
                body_size,
                body_size == claimed - ENTRY_HEAD.size,
                f"{claimed - ENTRY_HEAD.size}, the size without the head",
            ),
            ("index", INDEX_OFFSET, index, index == next_index, str(next_index)),
            ("term", TERM_OFFSET, term, term >= least_term, f"at least {least_term}"),
        )
        for name, at, got, good, expected in fields:
            if not good:
                return Fault(name, at, expected, got)
        return None


def frames_of(file: LogFile) -> Frames:
    """Begin a pass over a file of which nothing was read before."""
    return DLedgerFrames(file.start) if file.entry_head else Frames(file.start)


_SIZE_AND_MAGIC = struct.Struct(">ii")
_INT64 = struct.Struct(">q")
_MAGIC_CODES = [struct.pack(">i", code) for code in (MAGIC_CODE_V1, MAGIC_CODE_V2)]
# Both have a common prefix, which makes the regular expression fast.
_MAGIC = re.compile(
    re.escape(_MAGIC_CODES[0][:3]) + b"[" + re.escape(b"".join(c[3:] for c in _MAGIC_CODES)) + b"]"
)
# Records walked one by one first, to learn their average size.
_PROBE = 64
# The average number of records of a chain, and the number of chains followed in step.
_CHAIN_RECORDS = 96
_MAX_CHAINS = 1024
_MIN_CHAINS = 16
# How far to search for a record start, in records of average size.
_SEARCH_RECORDS = 8


def hop(
    data: memoryview, start: int, stop: int, base: int, gap: int = 0
) -> tuple[NDArray[np.int64], int]:
    """Return where consecutive records start, ascending, and where the next record may start.

    Only sizes and magic codes are checked; the caller must check the rest of each record, and what
    is between them, which is ``gap`` bytes. ``base`` is the log's offset of the first byte of
    ``data``. Records before ``stop`` may be missing, but at least one is returned if there is one.
    """
    first, at = _walk(data, start, stop, _PROBE, gap)
    if len(first) < _PROBE or at >= stop:
        return np.array(first, np.int64), at
    average = (at - start) // len(first)
    stride = average * _CHAIN_RECORDS
    chains = min(_MAX_CHAINS, (stop - at) // stride)
    if chains < _MIN_CHAINS:
        rest, at = _walk(data, at, stop, _MIN_CHAINS * _CHAIN_RECORDS * 2, gap)
        return np.array(first + rest, np.int64), at
    heads = [at]
    reach = average * _SEARCH_RECORDS
    for target in range(at + stride, at + stride * chains, stride):
        for found in candidates(data, target, min(target + reach, stop), base):
            heads.append(found)
            break
    heads.append(min(stop, at + stride * chains))
    found_starts, at = _follow(data, np.unique(np.array(heads, np.int64)), gap)
    return np.concatenate([np.array(first, np.int64), found_starts]), at


def candidates(data: memoryview, start: int, stop: int, base: int) -> Iterator[int]:
    """Yield the places at ``start`` or later, before ``stop``, where a record may start.

    Such a place has a magic code and its own offset where a record has them.
    """
    last = len(data) - MIN_RECORD_SIZE
    behind = max(start, stop) + _SIZE_AND_MAGIC.size - 1
    for match in _MAGIC.finditer(data, start + MAGIC_CODE_OFFSET, behind):
        at = match.start() - MAGIC_CODE_OFFSET
        if at > last or at >= stop:
            return
        if _INT64.unpack_from(data, at + PHYSICAL_OFFSET_OFFSET)[0] == base + at:
            yield at


def _walk(data: memoryview, start: int, stop: int, count: int, gap: int) -> tuple[list[int], int]:
    """Walk at most ``count`` records one by one."""
    starts: list[int] = []
    append = starts.append
    unpack = _SIZE_AND_MAGIC.unpack_from
    end = len(data)
    last = min(stop - 1, end - MIN_RECORD_SIZE)
    at = start
    for _ in range(count):
        if at > last:
            break
        size, magic = unpack(data, at)
        if magic not in (MAGIC_CODE_V1, MAGIC_CODE_V2) or not MIN_RECORD_SIZE <= size <= end - at:
            break
        append(at)
        at += size + gap
    return starts, at


def _follow(data: memoryview, heads: NDArray[np.int64], gap: int) -> tuple[NDArray[np.int64], int]:
    """Follow the chains from all heads but the last, each up to the next head.

    Return the starts in all chains up to the first that does not end at the next head, and where it
    leads.
    """
    end = len(data)
    words = np.ndarray((end - 7,), ">i8", data, 0, (1,))  # size and magic code as one number
    limits = heads[1:]
    ends = heads[:-1].copy()
    alive = np.arange(len(ends))
    at = ends.copy()
    steps: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    while len(alive):
        word = words[np.minimum(at, end - MIN_RECORD_SIZE)].astype(np.int64)
        size = word >> 32
        magic = word.astype(np.int32)
        good = (magic == MAGIC_CODE_V1) | (magic == MAGIC_CODE_V2)
        good &= (size >= MIN_RECORD_SIZE) & (at + size <= end) & (at <= end - MIN_RECORD_SIZE)
        if not good.all():
            alive, at, size = alive[good], at[good], size[good]
        steps.append((alive, at))
        at = at + size + gap
        ends[alive] = at
        going = at < limits[alive]
        if not going.all():
            alive, at = alive[going], at[going]
    met = ends == limits
    used = len(ends) if met.all() else int(np.argmin(met)) + 1
    chain = np.concatenate([step[0] for step in steps])
    starts = np.concatenate([step[1] for step in steps])
    if used < len(ends):
        kept = chain < used
        chain, starts = chain[kept], starts[kept]
    # A chain's starts are in order, and NumPy sorts narrow integers fastest.
    order = np.argsort(chain.astype(np.uint16), kind="stable")
    return starts.take(order), int(ends[used - 1])
