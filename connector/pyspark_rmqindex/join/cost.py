"""Decides whether to probe a file's slots for many keys or to scan the file: pure functions.

A probe reads a slot and walks its chain for each key, all over the file; a scan reads each entry
once, in order, however many keys there are.
The costs were measured by ``python -m benchmarks --only crossover``; only their ratios matter.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from rmqindex.layout import ENTRY_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark_rmqindex.files.slices import FileSlice

Strategy = Literal["auto", "probe", "scan"]
STRATEGIES = ("auto", "probe", "scan")

# Nanoseconds for a local file in the page cache.
_SLOT_COST = 90
_STEP_COST = 45
_ENTRY_COST = 5.2
_KEY_COST = 40
# How much more an entry costs each time the number of keys doubles, once their filter no longer
# fits into the processor's nearest caches; where that begins, in keys; and the most it adds.
_FILTER_COST = 3.0
_CACHED_KEYS = 1 << 17
_FILTER_COST_AT_MOST = 12.0
_EVERY_HASH = 2**31
# For a remote store: a request, several of which run at once, and each byte of a long read.
_REQUEST_COST = 5_000_000
_BYTE_COST = 10


def probe_cost(keys: int, file_slice: FileSlice, *, remote: bool) -> float:
    """Return the cost of probing the slots of keys, nanoseconds."""
    load = (file_slice.limit - 1) / file_slice.hash_slot_num
    # A key walks the entries of its slot, whether any of them is its own or not.
    return keys * (_page_cost(_SLOT_COST, remote) + load * _page_cost(_STEP_COST, remote))


def scan_cost(keys: int, file_slice: FileSlice, *, remote: bool) -> float:
    """Return the cost of reading all entries and comparing them with keys, nanoseconds."""
    doublings = max(0.0, math.log2(max(keys, 1) / _CACHED_KEYS))
    entry = _ENTRY_COST + min(_FILTER_COST * doublings, _FILTER_COST_AT_MOST)
    if remote:
        entry += ENTRY_SIZE * _BYTE_COST
    return (file_slice.limit - 1) * entry + keys * _KEY_COST


def crossover(file_slice: FileSlice, *, remote: bool) -> int:
    """Return the number of distinct key hashes up to which a probe is cheaper than a scan."""
    low, high = 0, _EVERY_HASH
    while high - low > 1:
        middle = (low + high) // 2
        if is_scanned(middle, file_slice, "auto", remote=remote):
            high = middle
        else:
            low = middle
    return low


def is_scanned(keys: int, file_slice: FileSlice, strategy: Strategy, *, remote: bool) -> bool:
    """Return whether a file is scanned for keys rather than probed."""
    if strategy != "auto":
        return strategy == "scan"
    return probe_cost(keys, file_slice, remote=remote) > scan_cost(keys, file_slice, remote=remote)


def lookup_cost(keys: int, slices: Iterable[FileSlice], *, remote: bool) -> float:
    """Return the lowest cost for one task to find keys in some files, nanoseconds."""
    return sum(
        min(probe_cost(keys, file_slice, remote=remote), scan_cost(keys, file_slice, remote=remote))
        for file_slice in slices
    )


def _page_cost(local: int, remote: bool) -> int:
    return _REQUEST_COST if remote else local
