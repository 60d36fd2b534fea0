"""Building the chains of the hash slots (spec: put; RocketMQ: ``IndexFile.putKey``).

A slot holds the position of its newest entry, and each entry the position of the next older one.
A batch is linked with one gather and one scatter; only entries whose slot repeats inside the batch
need more, and they are ordered by slot and then position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqindex.layout.index_file import INVALID_INDEX

if TYPE_CHECKING:
    from numpy.typing import NDArray

# How many entries are linked at a time: their working arrays stay in the processor's cache.
LINK_BATCH = 1 << 14

_SLOT_SHIFT = np.uint64(32)


def slot_numbers(key_hashes: NDArray[np.int32], hash_slot_num: int) -> NDArray[np.int32]:
    """Return the slot of every hash: ``key_hash % hash_slot_num``."""
    # NumPy divides by a scalar with vector instructions, but takes remainders one at a time.
    unsigned = key_hashes.view(np.uint32)
    divisor = np.uint32(hash_slot_num)
    return (unsigned - unsigned // divisor * divisor).view(np.int32)


def link(
    slots: NDArray[np.int32], numbers: NDArray[np.int32], first_position: int
) -> tuple[NDArray[np.int32], int]:
    """Link new entries into ``slots``; return previous positions, and how many slots were empty.

    Like the broker, it treats a slot value that is not positive, or greater than the entry's own
    position, as empty.
    """
    positions = np.arange(first_position, first_position + len(numbers), dtype=np.int32)
    wanted = numbers.astype(np.intp)  # once, not at each use
    previous = slots.take(wanted)
    previous[(previous < INVALID_INDEX) | (previous > positions)] = INVALID_INDEX
    slots[wanted] = positions  # of repeated slots, NumPy keeps the last assignment
    newest = slots.take(wanted)
    is_member = newest != positions
    overtaken = np.flatnonzero(is_member)
    if overtaken.size:
        is_member[newest[overtaken] - np.int32(first_position)] = True  # the entries that overtook
        # them
        members = np.flatnonzero(is_member).astype(np.uint64)
        order = np.sort((numbers[members].astype(np.uint64) << _SLOT_SHIFT) | members)
        places = order.astype(np.uint32)  # keeps the lower half: the place in the batch
        same_slot = np.diff(order >> _SLOT_SHIFT) == 0
        previous[places[1:][same_slot]] = positions[places[:-1][same_slot]]
    return previous, int(np.count_nonzero(previous == INVALID_INDEX))
