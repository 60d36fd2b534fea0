"""Walking the chains of many hashes at once (spec: lookup).

All hashes advance together, one entry per step: gather, check, compare, follow.
A chain leads from its slot to ever older entries, so a sound one always ends.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqindex.errors import CorruptIndexError
from rmqindex.indexfile.decoding import MILLISECONDS, corrupt_entry, links_of, malformed, slots_of
from rmqindex.indexfile.fingerprint import checksum_below
from rmqindex.layout.index_file import (
    ENTRY_DTYPE,
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

    from numpy.typing import NDArray

    from rmqindex.indexfile.decoding import Links
    from rmqindex.indexfile.fingerprint import Fingerprint
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.layout.index_file import IndexHeader
    from rmqindex.storage.source import IndexSource


# A chain this long belongs to a crowded slot; reading on in file order is then faster.
MAX_STEPS = 2000


class Hits(NamedTuple):
    """Entries found for some hashes.

    Attributes:
        queries: The place in the input of each entry's hash.
        positions: The entries' positions, int32.
        entries: The entries as ``ENTRY_DTYPE``.
    """

    queries: NDArray[np.int64]
    positions: NDArray[np.int32]
    entries: NDArray[Any]

    @classmethod
    def join(cls, parts: Iterable[Hits]) -> Hits:
        """Return the hits of all parts, which may be none."""
        none = cls(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, ENTRY_DTYPE))
        return cls(*map(np.concatenate, zip(none, *parts, strict=True)))

    def take(self, order: NDArray[np.int64]) -> Hits:
        """Return the hits at places."""
        return Hits(self.queries.take(order), self.positions.take(order), self.entries.take(order))

    def by_query(self) -> Hits:
        """Return the hits by ascending queries; those of one query keep their order."""
        return self.take(np.argsort(self.queries, kind="stable"))


def find(
    source: IndexSource,
    layout: Layout,
    hashes: NDArray[np.int32],
    *,
    limit: int,
    header: IndexHeader,
    index_count: Callable[[], int],
    max_steps: int,
) -> tuple[Hits, NDArray[np.int64]]:
    """Follow the chain of every hash, newest entry first.

    Return the hits by ascending queries, and the places of the hashes whose walk was given up, of
    which there are no hits.
    """
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
    steps = []
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
        steps.append(Hits(walk.queries, walk.positions, entries).take(places))
        ends = links.prev_position == walk.positions
        # Older entries of the slot, which such a link cuts off, are found in file order.
        given_up[walk.queries[ends & (walk.positions > FIRST_POSITION)]] = True
        walk = walk._replace(positions=links.prev_position)
        walk = walk.take(np.flatnonzero(~ends & (links.prev_position != INVALID_INDEX)))
    given_up[walk.queries] = True
    hits = Hits.join(steps).by_query()
    if given_up.any():
        hits = hits.take(np.flatnonzero(~given_up.take(hits.queries)))
    return hits, np.flatnonzero(given_up)


class _Walk(NamedTuple):
    """The position of each hash on its chain."""

    queries: NDArray[np.int64]
    positions: NDArray[np.int32]
    hashes: NDArray[np.int32]
    slots: NDArray[np.int32]

    def take(self, places: NDArray[np.int64]) -> _Walk:
        """Return the walk of some of the hashes."""
        return _Walk(*(values.take(places) for values in self))  # type: ignore[arg-type]


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
