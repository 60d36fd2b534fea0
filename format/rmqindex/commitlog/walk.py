"""The records of one CommitLog file: walked in blocks to where they end, or at given positions.

RocketMQ: ``CommitLog.recoverNormally`` and ``checkMessageAndReturnSize``.
"""

from __future__ import annotations

import enum
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqindex.commitlog.framing import DLedgerFrames, candidates, frames_of, hop
from rmqindex.errors import RmqIndexError
from rmqindex.layout.dledger import CONTROL_MAGICS, ENTRY_HEAD
from rmqindex.layout.record import MIN_RECORD_SIZE, PHYSICAL_OFFSET_OFFSET
from rmqindex.record.records import (
    Fault,
    check_record,
    claimed_sizes,
    crc_fault,
    parse_records,
    store_timestamp_of,
)
from rmqindex.storage.opening import open_found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.commitlog.framing import Frames, LogFile
    from rmqindex.record.records import Records
    from rmqindex.storage.source import ByteSource

#: The bytes that tell a frame from an unwritten place.
MARK_SIZE = 8
# Bytes read at once of a remote file.
_WINDOW = 16 * 1024 * 1024
# Bytes in which boundaries are searched for at once: more is faster, up to a point.
_HOP_SPAN = 64 * 1024 * 1024
# The bytes of records per block, so that a batch of large bodies stays bounded.
_BLOCK_SPAN = 32 * 1024 * 1024
#: The bytes of the largest message (maxMessageSize). A client may have put whole records into a
#: body: only after as many bytes of records, one behind the other, is one that a search found
#: believed.
LARGEST_MESSAGE = 4 * 1024 * 1024
# How many of a file's last records are parsed at once.
_MAX_LAST = 1024
# Bytes that a search for a record reads at once.
_SEARCH_WINDOW = 1024 * 1024
# What a broker's copy of records leaves unwritten at the least, but at its own ends.
_WORD = bytes(8)


class EndKind(enum.Enum):
    """What a file has where its records end."""

    #: A blank frame: the log continues in the next file.
    BLANK = "blank"
    #: The file's own end.
    FULL = "full"
    #: Zeros: not written yet, or a hole.
    ZERO = "zero"
    #: Anything else: a torn or damaged record, or remains of an earlier life of the log.
    FAULT = "fault"


class End(NamedTuple):
    """Where a file's records end.

    Attributes:
        kind: What the file has there.
        position: Bytes from the start of the file.
        fault: The error there, if any.
    """

    kind: EndKind
    position: int
    fault: Fault | None = None


def walk(
    source: ByteSource, file: LogFile, frames: Frames, start: int, stop: int, max_records: int
) -> Iterator[Records]:
    """Yield the sound records of a file in blocks, up to the first place without one.

    ``frames`` are told of each record. ``start`` is a frame's position in the file; records that
    start at ``stop`` or later are left out.
    """
    size = min(source.size, file.size)
    head = file.entry_head
    at = frames.first = frames.at = start
    stop = min(stop, size)
    while at < stop:
        window_stop = _window_stop(source, file, at, size)
        data = memoryview(source.read(at, window_stop - at))
        base = file.start + at
        inner = 0
        while True:
            while at + inner < stop and (skipped := frames.skip(data, inner, size)):
                inner += skipped
            limit = min(stop - at, inner + head + _HOP_SPAN, len(data))
            starts, after = hop(data, inner + head, limit, base, head)
            if not len(starts):
                break
            for part in _parts(starts, max_records):
                records, sound = parse_records(data, part, part + base)
                count = frames.accept(records, sound)
                if count < len(records):
                    if count:
                        yield records.take(slice(0, count))
                    return
                yield records
            inner = after - head
        if inner == 0:
            return
        at += inner


def _parts(starts: NDArray[np.int64], max_records: int) -> Iterator[NDArray[np.int64]]:
    """Split starts into runs of bounded length, in records and in bytes."""
    first = 0
    while first < len(starts):
        span_stop = int(np.searchsorted(starts, starts[first] + _BLOCK_SPAN))
        stop = max(first + 1, min(first + max_records, span_stop))
        yield starts[first:stop]
        first = stop


def _window_stop(source: ByteSource, file: LogFile, at: int, size: int) -> int:
    """Return how far to read: to the end of a mapped file, else a window that holds a record."""
    if not source.remote:
        return size
    stop = min(size, at + _WINDOW)
    if stop < size:
        # A record larger than the window is read whole once its parts agree with its size.
        record = at + file.entry_head
        checked = check_record(source.read, record, size, file.start + record)
        if isinstance(checked, int):
            return max(stop, record + checked)
    return stop


def end_at(source: ByteSource, file: LogFile, frames: Frames, position: int) -> End:
    """Classify a place where no sound frame starts; ``frames`` were read up to there."""
    size = min(source.size, file.size)
    left = size - position
    if left <= 0:
        return End(EndKind.FULL, position)
    head = bytes(source.read(position, min(left, MARK_SIZE)))
    if not any(head):
        return End(EndKind.ZERO, position)
    if left >= MARK_SIZE:
        blank = frames.blank(head, left)
        if blank is not None:
            if isinstance(blank, Fault):
                return End(EndKind.FAULT, position, blank)
            return End(EndKind.BLANK, position)
    checked = frames.check(source.read, position, size)
    if isinstance(checked, Fault):
        return End(EndKind.FAULT, position, checked)
    # A broker has written a record here since the walk.
    return End(EndKind.ZERO, position)


def lost_entry(files: Sequence[LogFile], index: int, end: int) -> int | None:
    """Return the least offset of the record of an entry that DLedger's log, up to its end, lacks.

    None if the log has it. Each entry before it has its head at least, so that one behind damage,
    which is not looked for, lies no nearer.
    """
    before = [file for file in files if file.entry_head and file.start < end]
    for file in reversed(before):
        frames = DLedgerFrames(file.start)
        with open_found(file.path, file.size, file.mark) as source:
            for _ in walk(source, file, frames, 0, end - file.start, _MAX_LAST):
                pass
        if frames.last is not None:
            missing = index - frames.last[0]
            return file.start + frames.at + missing * ENTRY_HEAD.size if missing > 0 else None
    return (before[0].start if before else end) + ENTRY_HEAD.size


def begins_soundly(source: ByteSource, file: LogFile) -> bool:
    """Return whether a sound frame starts at the beginning of a file, or a blank one."""
    frames, size = frames_of(file), min(source.size, file.size)
    if not isinstance(frames.check(source.read, 0, size), Fault):
        return True
    return end_at(source, file, frames, 0).kind is EndKind.BLANK


def is_full(source: ByteSource, file: LogFile) -> bool:
    """Return whether the last records of a file lead to its end, so that the log goes on behind it.

    Of a file of any size, little is read, where records near its end can be believed.
    """
    size = min(source.size, file.size)
    at: int | None = last_run(source, file)
    found = None
    while at is not None:
        frames = frames_of(file)
        for _ in walk(source, file, frames, at, size, _MAX_LAST):
            pass
        end = end_at(source, file, frames, frames.at)
        if end.kind in (EndKind.BLANK, EndKind.FULL):
            return True
        first, is_doubtful = search_start(source, file, end, found)
        at = find_record(source, file, first, size)
        found = at if is_doubtful else None
    return False


def last_run(source: ByteSource, file: LogFile) -> int:
    """Return from which frame on to read the last records of a file, bytes from its start.

    Of a long file that is one near its end, if records lead from there over more bytes than a body
    has; else its first.
    """
    size = min(source.size, file.size)
    # The blank at the end may be as long as a message, too.
    first = size - 3 * LARGEST_MESSAGE
    found = find_record(source, file, first, first + LARGEST_MESSAGE) if first > 0 else None
    if found is not None:
        frames = frames_of(file)
        for _ in walk(source, file, frames, found, size, _MAX_LAST):
            if frames.at - found > LARGEST_MESSAGE:
                return found
    return 0


def is_record(source: ByteSource, file: LogFile, position: int, *, crc: bool) -> int | None:
    """Return the size in bytes of the record at a place, or None where no sound one starts.

    With ``crc``, its CRCs must agree, too.
    """
    size = min(source.size, file.size)
    if position < file.entry_head:
        return None
    frame = frames_of(file).check(source.read, position - file.entry_head, size)
    # An entry of DLedger need not hold a record.
    if isinstance(frame, Fault) or frame == file.entry_head:
        return None
    checked = frame - file.entry_head
    if crc:
        data = memoryview(source.read(position, checked))
        starts = np.zeros(1, np.int64)
        records, _ = parse_records(data, starts, starts + file.start + position)
        if record_crc_fault(records, 0) is not None:
            return None
    return checked


def own_start(source: ByteSource, file: LogFile) -> int | None:
    """Return where a file's first record says that the file starts; None if it is not sound.

    Where DLedger's first entry has no record, its head says so.
    """
    place = file.entry_head
    if place:
        magic, size, *_, pos, _, _, _, body_size = ENTRY_HEAD.unpack(source.read(0, place))
        if magic in CONTROL_MAGICS:
            return int(pos) if pos >= 0 <= body_size == size - place else None
    head = source.read(place, PHYSICAL_OFFSET_OFFSET + 8)
    start = int.from_bytes(head[PHYSICAL_OFFSET_OFFSET:], signed=True) - place
    moved = replace(file, start=start)
    is_sound = start >= 0 and is_record(source, moved, place, crc=True) is not None
    return start if is_sound else None


def own_start_of(file: LogFile) -> int | None:
    """Return the same of a file that is not open; None, too, if it cannot be read."""
    with suppress(RmqIndexError), open_found(file.path, file.size, file.mark) as source:
        return own_start(source, file)
    return None


def record_at(source: ByteSource, file: LogFile, position: int, *, crc: bool) -> Records | None:
    """Return the sound record at a place, alone; as :func:`is_record` takes the arguments."""
    size = is_record(source, file, position, crc=crc)
    if size is None:
        return None
    start = np.zeros(1, np.int64)
    data = memoryview(source.read(position, size))
    return parse_records(data, start, start + file.start + position)[0]


def is_copied(source: ByteSource, file: LogFile, frame: int) -> bool:
    """Return whether the record of a frame is whole, as one that follows it shows.

    A copy goes by words, and only its last bytes are fewer: zeros that are no word are the sender's
    where another record follows, were it of the same copy.
    """
    at = frame + file.entry_head
    size = is_record(source, file, at, crc=False)
    if size is None or is_record(source, file, at + size + file.entry_head, crc=False) is None:
        return False
    # What follows is there: only now are the bytes final that are no word of zeros.
    records = record_at(source, file, at, crc=True)
    if records is None or not store_timestamp_of(source.read, at):
        return False
    # Some of the word may be of the length before the topic, or of what follows.
    text = at + int(records.topic_start[0]) - 2
    return _WORD not in bytes(source.read(text, at + size + len(_WORD) - text))


def frame_of(source: ByteSource, file: LogFile, position: int) -> int:
    """Return where the frame starts at a place that is its start or that of its record."""
    if file.entry_head and is_record(source, file, position, crc=False) is not None:
        return position - file.entry_head
    return position


def record_crc_fault(records: Records, place: int) -> Fault | None:
    """Check the CRCs of one of many records; see :func:`crc_fault`."""
    start = int(records.starts[place])
    record = records.data[start : start + int(records.size[place])]
    return crc_fault(
        record, int(records.body_start[place]) - start, int(records.body_stop[place]) - start
    )


def claimed_stop(source: ByteSource, file: LogFile, position: int) -> int | None:
    """Return where the broken record of the frame at a place ends, None if that cannot be known.

    A client may have put whole records into its body, which no search behind the damage may take
    for the log's. It ends where its own size and its parts agree, or else at the first end that
    either of them claims at which the log goes on.
    """
    size, at = min(source.size, file.size), position + file.entry_head
    if size - at < MIN_RECORD_SIZE:
        return None
    total, sums = claimed_sizes(source.read, at, size)
    if total in sums and MIN_RECORD_SIZE <= total <= size - at:
        return at + total
    for claimed in sorted({total, *sums}):
        stop = at + claimed
        if MIN_RECORD_SIZE <= claimed <= size - at and (
            is_record(source, file, stop + file.entry_head, crc=True) is not None
            or end_at(source, file, frames_of(file), stop).kind is EndKind.BLANK
        ):
            return stop
    return None


def search_start(
    source: ByteSource, file: LogFile, end: End, found: int | None = None
) -> tuple[int, bool]:
    """Return the first byte behind damage at which another record may start.

    Return with it whether that may lie in the body of the broken record. ``found`` is where the
    records before it begin, if a search found them: they may lie in a body, too, and what seems to
    be a broken record behind them is a client's.
    """
    is_believed = found is None or end.position - found > LARGEST_MESSAGE
    if end.kind is EndKind.FAULT and is_believed:
        stop = claimed_stop(source, file, end.position)
        if stop is not None:
            return stop + file.entry_head, False
    # A broken frame's own start is none.
    return end.position + file.entry_head + 1, True


def find_record(
    source: ByteSource,
    file: LogFile,
    start: int,
    stop: int,
    *,
    frames: Frames | None = None,
) -> int | None:
    """Return where the frame of the first record in a range of a file starts, or None.

    The record is proved by its own offset, its frame, its parts and its CRCs. With the ``frames``
    of a pass, records of an earlier life of the log are skipped.
    """
    size = min(source.size, file.size)
    stop = min(stop, size)
    at = start
    while at < stop:
        window_stop = min(stop, at + _SEARCH_WINDOW)
        # Read beyond the window, for the last record that starts in it.
        data = memoryview(source.read(at, min(size, window_stop + MIN_RECORD_SIZE) - at))
        if not source.remote and not np.frombuffer(data, np.uint8).any():
            other = source.first_nonzero(window_stop, stop)
            if other is None:
                return None
            at = max(window_stop, other - MARK_SIZE)
            continue
        for found in candidates(data, 0, window_stop - at, file.start + at):
            place = at + found
            if is_record(source, file, place, crc=True) is None:
                continue
            frame = place - file.entry_head
            if frames is None or frames.goes_on_at(source.read, frame):
                return frame
        at = window_stop
    return None


# Bytes of the first read of a record from a remote store, enough for most; records nearer to each
# other than that are read together, up to a bound.
_FIRST_READ = 4 * 1024
_MAX_REQUEST = 4 * 1024 * 1024
_THREADS = 8


def records_at(
    source: ByteSource, file: LogFile, positions: NDArray[np.int64]
) -> tuple[Records, NDArray[np.bool_]]:
    """Return the sound records at ascending positions of a file, and which positions have one."""
    size = min(source.size, file.size)
    sound = positions + MIN_RECORD_SIZE <= size
    inside = positions[sound]
    if not source.remote and size >= MIN_RECORD_SIZE:
        data = memoryview(source.read(0, size))
        records, good = parse_records(data, inside, inside + file.start)
        if not good.all():
            sound[sound] = good
            records = records.take(good)
        ends = records.starts + records.size
        if (ends[:-1] <= records.starts[1:]).all():
            return records, sound
        # Some lie inside the bodies of others: not real records, but each offset gets its answer.
        inside = positions[sound]
    reads = _reads(source, inside, size)
    copies: list[bytes] = []
    found = np.zeros(len(inside), bool)
    for place, (position, read) in enumerate(zip(inside.tolist(), reads, strict=True)):
        checked = check_record(read, position, size, file.start + position)
        if isinstance(checked, int):
            copies.append(bytes(read(position, checked)))
            found[place] = True
    sound[sound] = found
    sizes = np.array([len(copy) for copy in copies], np.int64)
    starts = np.cumsum(sizes) - sizes
    records, _ = parse_records(
        memoryview(b"".join(copies).ljust(MIN_RECORD_SIZE, b"\0")),
        starts,
        inside[found] + file.start,
    )
    return records, sound


def _reads(
    source: ByteSource, positions: NDArray[np.int64], size: int
) -> list[Callable[[int, int], bytes | memoryview]]:
    """Return a reader for each record: of bytes shared by several, or of the file."""
    if not source.remote:
        return [source.read] * len(positions)
    spans = _spans(positions.tolist(), size)
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  (remote)

    with ThreadPoolExecutor(_THREADS) as pool:
        pieces = list(pool.map(lambda span: source.read(span[0], span[1] - span[0]), spans))
    reads = []
    span = 0
    for position in positions.tolist():
        while position >= spans[span][1]:
            span += 1
        reads.append(_reader(source, spans[span][0], memoryview(pieces[span])))
    return reads


def _spans(positions: list[int], size: int) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for position in positions:
        stop = min(size, position + _FIRST_READ)
        if spans and position <= spans[-1][1] and stop - spans[-1][0] <= _MAX_REQUEST:
            spans[-1] = (spans[-1][0], stop)
        else:
            spans.append((position, stop))
    return spans


def _reader(
    source: ByteSource, start: int, piece: memoryview
) -> Callable[[int, int], bytes | memoryview]:
    def read(offset: int, length: int) -> bytes | memoryview:
        inner = offset - start
        if inner >= 0 and inner + length <= len(piece):
            return piece[inner : inner + length]
        return source.read(offset, length)

    return read
