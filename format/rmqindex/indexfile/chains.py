"""Walking the chains of many hashes at once (spec: lookup).

All hashes advance together, one entry per step: gather, check, compare, follow.
A chain leads from its slot to ever older entries, so a sound one always ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqindex.errors import CorruptIndexError
from rmqindex.indexfile.decoding import corrupt_entry, links_of, malformed, slots_of
from rmqindex.layout.index_file import ENTRY_DTYPE, FIRST_POSITION, INVALID_INDEX

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rmqindex.indexfile.decoding import Links
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.layout.index_file import IndexHeader
    from rmqindex.storage.source import IndexSource

__all__ = ["MAX_STEPS", "Found", "find"]

# A chain this long belongs to a crowded slot; reading on in file order is then faster.
MAX_STEPS = 2000


class Found(NamedTuple):
    """The entries that a walk found, and the hashes that it left to a scan.

    Attributes:
        queries: The place in the input of each found entry's hash; ascending.
        positions: The entries' positions, int32; descending within a query.
        entries: The entries as ``ENTRY_DTYPE``.
        unfinished: Places of the hashes whose walk was given up; nothing is returned for them.
    """

    queries: NDArray[np.int64]
    positions: NDArray[np.int32]
    entries: NDArray[Any]
    unfinished: NDArray[np.int64]


def find(
    source: IndexSource,
    layout: Layout,
    hashes: NDArray[np.int32],
    *,
    limit: int,
    header: IndexHeader,
    index_count: Callable[[], int],
    max_steps: int,
) -> Found:
    """Follow the chain of every hash, newest entry first."""
    slots = slots_of(hashes, layout)
    heads = source.slots(layout, slots)
    highest = header.index_count
    if len(heads) and int(heads.max()) > highest:
        highest = index_count()
        if int(heads.max()) > highest:  # unless an append in place was undone in between
            heads = source.slots(layout, slots)
    _check_heads(source, layout, slots, heads, min(highest, layout.index_num - 1))
    walk = _Walk(np.arange(len(hashes)), heads, hashes, slots).take(np.flatnonzero(heads))
    given_up = np.zeros(len(hashes), np.bool_)
    hits = _Hits()
    for _ in range(max_steps):
        if not len(walk.queries):
            break
        entries = source.entries(layout, walk.positions)
        beyond = int(walk.positions.max()) >= limit
        if beyond:
            torn = (walk.positions >= limit) & _never_written(entries, walk.positions)
            given_up[walk.queries[torn]] = True
            sound = np.flatnonzero(~torn)
            walk, entries = walk.take(sound), entries.take(sound)
        links = links_of(entries)
        _check_entries(source, layout, walk, links, header)
        matching = links.key_hash == walk.hashes
        if beyond:
            matching &= walk.positions < limit
        places = np.flatnonzero(matching)
        hits.add(walk.queries.take(places), walk.positions.take(places), entries.take(places))
        ends = links.prev_position == walk.positions
        # Older entries of the slot, which such a link cuts off, are found in file order.
        given_up[walk.queries[ends & (walk.positions > FIRST_POSITION)]] = True
        walk = walk._replace(positions=links.prev_position)
        walk = walk.take(np.flatnonzero(~ends & (links.prev_position != INVALID_INDEX)))
    given_up[walk.queries] = True
    return Found(*hits.in_order(given_up), np.flatnonzero(given_up))


class _Walk(NamedTuple):
    """The position of each hash on its chain."""

    queries: NDArray[np.int64]
    positions: NDArray[np.int32]
    hashes: NDArray[np.int32]
    slots: NDArray[np.int32]

    def take(self, places: NDArray[np.int64]) -> _Walk:
        """Return the walk of some of the hashes."""
        return _Walk(*(values.take(places) for values in self))  # type: ignore[arg-type]


class _Hits:
    """Entries found step by step, to put in the order of their queries."""

    def __init__(self) -> None:
        self._steps = [(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, ENTRY_DTYPE))]

    def add(
        self, owners: NDArray[np.int64], positions: NDArray[np.int32], entries: NDArray[Any]
    ) -> None:
        """Add the hits of one step, by ascending owners."""
        self._steps.append((owners, positions, entries))

    def in_order(
        self, given_up: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
        """Return owners, positions and entries of all other queries, each newest first."""
        owners, positions, entries = map(np.concatenate, zip(*self._steps, strict=True))
        order = np.argsort(owners, kind="stable")  # merges the steps, ascending as they are
        if given_up.any():
            order = order.take(np.flatnonzero(~given_up.take(owners.take(order))))
        return owners.take(order), positions.take(order), entries.take(order)


def _check_heads(
    source: IndexSource,
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


def _check_entries(
    source: IndexSource, layout: Layout, walk: _Walk, links: Links, header: IndexHeader
) -> None:
    bad = malformed(links, walk.positions, header.begin_timestamp)
    if bad is not None:
        place = int(np.flatnonzero(bad)[0])
        raise corrupt_entry(source.path, layout, int(walk.positions[place]), links, place)
    strangers = slots_of(links.key_hash, layout) != walk.slots
    if strangers.any():
        place = int(np.flatnonzero(strangers)[0])
        position = int(walk.positions[place])
        raise CorruptIndexError(
            source.path,
            "key_hash",
            layout.entry_offset(position),
            f"a hash of slot {int(walk.slots[place])} (entry {position})",
            int(links.key_hash[place]),
        )


def _never_written(entries: NDArray[Any], positions: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which entries are all zeros although others precede them.

    A crash can leave a slot that points to an entry which never reached the disk.
    """
    words = entries.view(np.uint32).reshape(len(entries), -1)
    return ~words.any(axis=1) & (positions > FIRST_POSITION)
