"""Counts of hashes, of the entries in the chains of their slots, and of topics with keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from rmqindex.layout.index_file import ENTRY_SIZE, INT32_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.store.snapshot import SnapshotFile

#: A topic and a key.
Pair: TypeAlias = "tuple[str, str]"
# Distinct hashes that are counted in one pass; more are counted by ranges, a pass for each.
_MOST_HASHES = 1 << 24
# Hashes that are sorted at a time.
_SORTED = 1 << 25
_COUNT_BITS = 32
_COUNT_MASK = (1 << _COUNT_BITS) - 1
_BEHIND = INT32_MAX + 1
_PAGE_SIZE = 4096  # bytes, of the page cache


class Frequent(NamedTuple):
    """The hashes with the highest counts, the highest first, these, and the sum of all counts."""

    hashes: NDArray[np.int32]
    counts: NDArray[np.int64]
    total: int


def most_frequent(
    read: Callable[[], Iterable[NDArray[np.int32]]], limit: int, *, most: int = _MOST_HASHES
) -> Frequent:
    """Return the most frequent of any number of hashes; of equal counts the lower hashes.

    Args:
        read: Begins to read the hashes, which are at least 0; called once for each range of them.
        limit: At most how many are returned.
        most: At most how many distinct ones are held in memory: where there are more, the upper
            half of the range is left to another pass.
    """
    first, total = 0, 0
    hashes, counts = np.empty(0, np.int64), np.empty(0, np.int64)
    while first < _BEHIND:
        held = _Held(first, most)
        seen = 0
        for part in read():
            seen += len(part)
            held.add(part)
        held.merge()
        total = total if first else seen
        best = held.packed[_highest(held.packed & _COUNT_MASK, limit)]
        hashes = np.concatenate([hashes, best >> _COUNT_BITS])
        counts = np.concatenate([counts, best & _COUNT_MASK])
        order = np.lexsort((hashes, -counts))[:limit]
        hashes, counts = hashes[order], counts[order]
        first = held.stop
    return Frequent(hashes.astype(np.int32), counts, total)


def _highest(counts: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Return the places of the highest counts, of equal ones the first, without sorting all."""
    above = 0
    while np.count_nonzero(counts > 2 * above + 1) >= limit:
        above = 2 * above + 1
    places = np.flatnonzero(counts > above)
    if len(places) <= limit:
        return places
    found = counts[places]
    least = np.partition(found, len(found) - limit)[len(found) - limit]
    higher, equal = places[found > least], places[found == least]
    return np.concatenate([higher, equal[: limit - len(higher)]])


class _Held:
    """Counts of the hashes of one range, whose end moves down where there are too many."""

    def __init__(self, first: int, most: int) -> None:
        self.first, self.stop, self._most = first, _BEHIND, most
        self.packed = np.empty(0, np.int64)  # hash and count, by hash
        self._parts: list[NDArray[np.int32]] = []
        self._size = 0

    def add(self, hashes: NDArray[np.int32]) -> None:
        """Count hashes, those of the range."""
        if self.first or self.stop < _BEHIND:
            hashes = hashes[(hashes >= self.first) & (hashes < self.stop)]
        self._parts.append(hashes)
        self._size += len(hashes)
        if self._size >= _SORTED:
            self.merge()

    def merge(self) -> None:
        """Count what was added."""
        if not self._size:
            return
        found = np.concatenate(self._parts)
        self._parts, self._size = [], 0
        found.sort()
        starts = np.append(0, np.flatnonzero(found[1:] != found[:-1]) + 1)
        packed = found[starts].astype(np.int64) << _COUNT_BITS
        packed |= np.diff(np.append(starts, len(found)))
        if len(self.packed):
            packed = np.concatenate([self.packed, packed])
            packed.sort()
            hashes = packed >> _COUNT_BITS
            starts = np.append(0, np.flatnonzero(hashes[1:] != hashes[:-1]) + 1)
            counts = np.add.reduceat(packed & _COUNT_MASK, starts)
            packed = hashes[starts] << _COUNT_BITS | counts
        if len(packed) > self._most:
            packed = packed[: self._most]
            self.stop = int(packed[-1] >> _COUNT_BITS) + 1
        self.packed = packed


@dataclass(frozen=True, slots=True)
class SlotChains:
    """The chains of one slot, in all files.

    Attributes:
        slot: The slot; None where files have different numbers of slots.
        longest: The entries of the longest chain in one file.
        entries: Those of the chains in all files.
        pages: The pages in which they lie.
    """

    slot: int | None
    longest: int
    entries: int
    pages: int

    @property
    def size(self) -> int:
        """The bytes of the entries."""
        return self.entries * ENTRY_SIZE


class Chains:
    """The chains of the slots of some hashes."""

    def __init__(self, hashes: NDArray[np.int32]) -> None:
        """Begin without entries."""
        self._hashes = hashes
        self._slots: set[int] = set()  # numbers of slots
        self._longest, self._entries, self._pages = np.zeros((3, len(hashes)), np.int64)

    def add(self, files: Sequence[SnapshotFile]) -> None:
        """Count the entries of all files, whatever hashes they have.

        Raises:
            RmqIndexError: A file cannot be used.
        """
        for planned in files:
            if planned.is_empty:
                continue
            with planned.open() as file:
                assert file.layout is not None  # there are entries
                slots = file.layout.hash_slot_num
                at = file.layout.entry_offset(0)
                batches = file.scan(stop=planned.stop, columns=["key_hash", "position"])
                self._slots.add(slots)
                self._add_file(
                    slots,
                    at,
                    ((b.column(0).to_numpy(), b.column(1).to_numpy()) for b in batches),
                )

    def _add_file(
        self,
        slot_num: int,
        at: int,
        batches: Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]],
    ) -> None:
        wanted, group = np.unique(self._hashes % slot_num, return_inverse=True)
        group_of_slot = np.full(slot_num, -1, np.int32)
        group_of_slot[wanted] = np.arange(len(wanted))
        counts, pages, last = np.zeros((3, len(wanted)), np.int64)
        last[:] = -1
        for hashes, positions in batches:
            groups = group_of_slot[hashes % slot_num]
            hit = np.flatnonzero(groups >= 0)
            if not len(hit):
                continue
            groups = groups[hit]
            counts += np.bincount(groups, minlength=len(wanted))
            page = (at + positions[hit].astype(np.int64) * ENTRY_SIZE) // _PAGE_SIZE
            order = np.argsort(groups, kind="stable")  # pages ascend within a group
            groups, page = groups[order], page[order]
            is_first = np.append(True, groups[1:] != groups[:-1])
            is_new = is_first | np.append(True, page[1:] != page[:-1])
            is_new[is_first] = page[is_first] != last[groups[is_first]]
            pages += np.bincount(groups[is_new], minlength=len(wanted))
            is_last = np.append(is_first[1:], True)
            last[groups[is_last]] = page[is_last]
        self._longest = np.maximum(self._longest, counts[group])
        self._entries += counts[group]
        self._pages += pages[group]

    def of(self, place: int) -> SlotChains:
        """Return the chains of the slot of a hash, by its place."""
        slot = int(self._hashes[place]) % next(iter(self._slots)) if len(self._slots) == 1 else None
        numbers = (int(each[place]) for each in (self._longest, self._entries, self._pages))
        return SlotChains(slot, *numbers)


class Pairs(NamedTuple):
    """Topics and keys, each pair once; the last, None, stands for those without."""

    codes: NDArray[np.int64]
    pairs: list[Pair | None]


def number_pairs(topics: pa.Array, keys: pa.Array) -> Pairs:
    """Number pairs of topic and key, both of which may be null."""
    known = np.flatnonzero(keys.is_valid().to_numpy(zero_copy_only=False))
    some = pa.array(known)
    topic, key = (each.take(some).dictionary_encode() for each in (topics, keys))
    both = topic.indices.to_numpy().astype(np.int64) * max(len(key.dictionary), 1)
    both += key.indices.to_numpy()
    distinct, codes = np.unique(both, return_inverse=True)
    numbers = np.divmod(distinct, max(len(key.dictionary), 1))
    texts = (
        each.dictionary.take(pa.array(place)).to_pylist()
        for each, place in zip((topic, key), numbers, strict=True)
    )
    all_codes = np.full(len(keys), len(distinct), np.int64)
    all_codes[known] = codes
    return Pairs(all_codes, [*zip(*texts, strict=True), None])


def count_pairs(
    places: NDArray[np.int64],
    pairs: Pairs | None = None,
    weights: NDArray[np.int64] | None = None,
) -> dict[tuple[int, Pair | None], int]:
    """Count, or sum weights, by place and pair."""
    pairs = pairs or Pairs(np.zeros(len(places), np.int64), [None])
    packed = places.astype(np.int64) * len(pairs.pairs) + pairs.codes
    distinct, groups = np.unique(packed, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, groups, 1 if weights is None else weights)
    where = np.divmod(distinct, len(pairs.pairs))
    return {
        (place, pairs.pairs[code]): number
        for place, code, number in zip(
            *(each.tolist() for each in where), sums.tolist(), strict=True
        )
    }
