"""Reads records at given positions of one CommitLog file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqindex.record.records import check_record, parse_records
from rmqindex.record_layout import MIN_RECORD_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rmqindex.logfile.files import LogFile
    from rmqindex.record.records import Records
    from rmqindex.storage.source import ByteSource

__all__ = ["records_at"]

# Bytes of the first read of a record from a remote store, enough for most; records nearer to each
# other than that are read together, up to a bound.
_FIRST_READ = 4 * 1024
_MAX_REQUEST = 4 * 1024 * 1024
_THREADS = 8


def records_at(
    source: ByteSource, file: LogFile, positions: NDArray[np.int64]
) -> tuple[Records, NDArray[np.bool_]]:
    """Return the sound records at given positions.

    Args:
        source: The open file.
        file: Its place in the log.
        positions: Bytes from the start of the file, ascending, without duplicates.

    Returns:
        The sound records, and their positions, ascending.
    """
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
