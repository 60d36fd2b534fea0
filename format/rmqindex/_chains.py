"""Walking the chains of many hashes at once (spec: lookup).

All hashes advance together, one entry a step: gather, check, compare, follow.
A chain leads from its slot to ever older entries, so a sound one always ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqindex._decoding import corrupt_entry, links_of, malformed, slots_of
from rmqindex._errors import CorruptIndexError
from rmqindex._layout import ENTRY_DTYPE, FIRST_POSITION, INVALID_INDEX

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rmqindex._header import IndexHeader
    from rmqindex._layout import Layout
    from rmqindex._storage import ByteSource

__all__ = ["MAX_STEPS", "Found", "find"]

# A chain this long belongs to a crowded slot; reading on in file order is then faster.
MAX_STEPS = 2000


class Found(NamedTuple):
    """What a walk found, and what it left to a scan.

    Attributes:
        queries: Of each entry found, the place of its hash in the input; ascending.
        positions: The entries' positions, int32; descending within a query.
        entries: The entries as ``ENTRY_DTYPE``.
        unfinished: Places of the hashes whose walk was given up; nothing is returned for them.
    """

    queries: NDArray[np.int64]
    positions: NDArray[np.int32]
    entries: NDArray[Any]
    unfinished: NDArray[np.int64]


def find(
    source: ByteSource,
    layout: Layout,
    hashes: NDArray[np.int32],
    *,
    limit: int,
    header: IndexHeader,
    index_count: Callable[[], int],
    max_steps: int,
) -> Found:
    """Follow the chain of every hash, newest entry first.

    Args:
        source: The file.
        layout: Its geometry.
        hashes: int32, none negative; repeated ones are each answered.
        limit: Entries at this position and beyond are walked through but not returned.
        header: The header when the file was opened.
        index_count: Reads the header's ``index_count`` anew: a broker that is writing stores the
            entry, then the slot, then the header, so a slot that is ahead of ``header`` is judged
            by a header read after it.
        max_steps: After so many entries a hash is left to a scan.

    Returns:
        The entries found.

    Raises:
        CorruptIndexError: A slot or an entry on the way breaks a rule of the format.
    """
    slots = slots_of(hashes, layout)
    heads = source.slots(layout, slots)
    highest = header.index_count
    if len(heads) and int(heads.max()) > highest:
        highest = index_count()
    _check_heads(source, layout, slots, heads, min(highest, layout.index_num - 1))
    queries = np.flatnonzero(heads > INVALID_INDEX)
    positions = heads[queries]
    found_count = np.zeros(len(hashes), np.int64)
    steps: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[Any]]] = []
    given_up = np.zeros(len(hashes), np.bool_)
    for _ in range(max_steps):
        if not len(queries):
            break
        entries = source.entries(layout, positions)
        links = links_of(entries)
        if int(positions.max()) >= limit:
            torn = (positions >= limit) & _never_written(entries, positions)
            if torn.any():
                given_up[queries[torn]] = True
                sound = ~torn
                queries, positions, entries = queries[sound], positions[sound], entries[sound]
                links = links_of(entries)
        bad = malformed(links, positions, header.begin_timestamp)
        if bad is not None:
            place = int(np.flatnonzero(bad)[0])
            raise corrupt_entry(source.path, layout, int(positions[place]), links, place)
        strangers = slots_of(links.key_hash, layout) != slots[queries]
        if strangers.any():
            place = int(np.flatnonzero(strangers)[0])
            raise CorruptIndexError(
                source.path,
                "key_hash",
                layout.entry_offset(int(positions[place])),
                f"a hash of slot {int(slots[queries[place]])} (entry {int(positions[place])})",
                int(links.key_hash[place]),
            )
        hits = np.flatnonzero((links.key_hash == hashes[queries]) & (positions < limit))
        if len(hits):
            owners = queries[hits]
            steps.append((owners, found_count[owners], positions[hits], entries[hits]))
            found_count[owners] += 1
        going_on = np.flatnonzero(links.prev_position > INVALID_INDEX)
        queries, positions = queries[going_on], links.prev_position[going_on]
    given_up[queries] = True
    found_count[given_up] = 0
    return Found(*_in_order(found_count, steps), np.flatnonzero(given_up))


def _check_heads(
    source: ByteSource,
    layout: Layout,
    slots: NDArray[np.int32],
    heads: NDArray[np.int32],
    highest: int,
) -> None:
    bad = np.flatnonzero((heads < INVALID_INDEX) | (heads > highest))
    if len(bad):
        slot = int(slots[bad[0]])
        raise CorruptIndexError(
            source.path,
            "slot",
            layout.slot_offset(slot),
            f"0 to {highest} (slot {slot})",
            int(heads[bad[0]]),
        )


def _never_written(entries: NDArray[Any], positions: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which entries are all zeros though others stand before them.

    A crash can leave a slot that points to an entry which never reached the disk.
    """
    words = entries.view(np.uint32).reshape(len(entries), -1)
    return ~words.any(axis=1) & (positions > FIRST_POSITION)


def _in_order(
    found_count: NDArray[np.int64],
    steps: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[Any]]],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
    """Bring hits, gathered step by step, into the order of their queries, newest first.

    Each hit knows how many its query had before, so its place is known without sorting.
    """
    ends = np.cumsum(found_count)
    total = int(ends[-1]) if len(ends) else 0
    starts = ends - found_count
    positions = np.empty(total, np.int32)
    entries = np.empty(total, ENTRY_DTYPE)
    for owners, ranks, step_positions, step_entries in steps:
        wanted = found_count[owners] > 0
        places = (starts[owners] + ranks)[wanted]
        positions[places] = step_positions[wanted]
        entries[places] = step_entries[wanted]
    return np.repeat(np.arange(len(found_count)), found_count), positions, entries
