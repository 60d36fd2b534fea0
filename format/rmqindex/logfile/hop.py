"""Finds the record boundaries of a CommitLog file, many at a time.

Each record holds only its own size, so finding them all means following one long chain.
To do that with NumPy, likely record starts are searched for at even distances, and the chains from
all of them are followed in step; a chain counts only if the one before it ends exactly at its
start.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.record_layout import (
    MAGIC_CODE_OFFSET,
    MAGIC_CODE_V1,
    MAGIC_CODE_V2,
    MIN_RECORD_SIZE,
    PHYSICAL_OFFSET_OFFSET,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["candidates", "hop"]

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
    """Return where consecutive records start.

    Only sizes and magic codes are checked; the caller must check the rest of each record, and what
    is between them.

    Args:
        data: Bytes of a file.
        start: The position of the first record in ``data``.
        stop: No record at or beyond this is returned; at most ``len(data)``.
        base: The log's offset of the first byte of ``data``.
        gap: The bytes between a record and the next one.

    Returns:
        The starts (int64, ascending), and where the next record may start.
        Records before ``stop`` may be missing, but at least one is returned if there is one.
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

    Returns:
        The starts in all chains up to the first that does not end at the next head, and where it
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
