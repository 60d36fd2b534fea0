"""Walking the chain of one hash without arrays (spec: lookup).

For a single hash, the calls of NumPy and Arrow cost many times the work itself.
This module answers the sound and simple cases, which are nearly all, and leaves any other to
:mod:`rmqindex.indexfile.chains`.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, NamedTuple

from rmqindex.indexfile.decoding import MILLISECONDS
from rmqindex.indexfile.fingerprint import checksum_below
from rmqindex.layout.index_file import (
    ENTRY_SIZE,
    ENTRY_STRUCT,
    FIRST_POSITION,
    INT64_MAX,
    INVALID_INDEX,
    SLOT_STRUCT,
)
from rmqindex.storage.local import advise_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rmqindex.indexfile.fingerprint import Fingerprint
    from rmqindex.indexfile.geometry import Layout

#: As many hashes walk faster one by one than by the calls of NumPy and Arrow.
FEW_HASHES = 8

# Longer chains are faster to walk for many keys at once, or to replace by a scan.
_MAX_STEPS = 256


class PointEntry(NamedTuple):
    """An entry: the columns of ``ENTRY_SCHEMA``."""

    key_hash: int
    phy_offset: int
    store_timestamp: int
    time_diff: int
    slot: int
    position: int
    prev_position: int


def walk_one(
    read: Callable[[int, int], bytes | memoryview],
    layout: Layout,
    begin: int,
    key_hash: int,
    limit: int,
) -> list[PointEntry] | None:
    """Return the entries of a hash, newest first; None for a long, broken or growing chain."""
    slot_num, entries = layout.hash_slot_num, layout.entry_offset(0)
    slot = key_hash % slot_num
    (position,) = SLOT_STRUCT.unpack(read(layout.slot_offset(slot), SLOT_STRUCT.size))
    if not INVALID_INDEX <= position < limit:
        return None
    found: list[PointEntry] = []
    for _ in range(_MAX_STEPS):
        if position == INVALID_INDEX:
            return found
        data = read(entries + position * ENTRY_SIZE, ENTRY_SIZE)
        hash_, phy_offset, time_diff, previous = ENTRY_STRUCT.unpack(data)
        stored = begin + (time_diff * MILLISECONDS if position != FIRST_POSITION else 0)
        if (
            hash_ < 0
            or time_diff < 0
            or not INVALID_INDEX <= previous <= position
            or previous == position > FIRST_POSITION  # older ones are cut off
            or hash_ % slot_num != slot
            or stored > INT64_MAX
        ):
            return None
        if hash_ == key_hash:
            found.append(PointEntry(hash_, phy_offset, stored, time_diff, slot, position, previous))
        position = previous if previous != position else INVALID_INDEX
    return None


def walk_full_file(
    path: str, layout: Layout, begin: int, hashes: Iterable[int], known: Fingerprint
) -> list[PointEntry] | None:
    """Return the entries of hashes in a local file that was full when its fingerprint was taken.

    No append changes a full file, so that neither a journal nor its count is asked for.

    Returns:
        The entries, each hash's newest first; None where the file is gone or changed, or a chain is
        not simple: opening the file tells.
    """
    try:
        # A pipe that has taken the name is not waited for.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None

    def read(offset: int, length: int) -> bytes:
        return os.pread(file, length, offset)

    try:
        if not known.identity.is_of(os.fstat(file)):
            return None
        advise_file(file, "POSIX_FADV_RANDOM")
        found: list[PointEntry] = []
        for key_hash in hashes:
            entries = walk_one(read, layout, begin, key_hash, known.stop)
            if entries is None:
                return None
            found += entries
        is_same = checksum_below(read, layout, known.stop) == known.checksum
        return found if is_same and known.identity.is_of(os.fstat(file)) else None
    except (OSError, struct.error):  # it was cut
        return None
    finally:
        os.close(file)
