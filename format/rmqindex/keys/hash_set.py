"""Many key hashes at once, to be found among the entries of a scan.

A filter that fits into the processor's cache rejects most other hashes in one step; the rest is
searched for in a small bucket of the sorted hashes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Integer = TypeVar("_Integer", bound=np.integer)
# Key hashes have 31 bits: they are never negative.
_HASH_BITS = 31
# Filter places per hash, as a power of two: about one in 16 other hashes passes.
_FILTER_SHARE = 4
_FILTER_BITS = (16, 26)
_BUCKET_BITS = (1, 21)
# Hashes of short keys lie close together; in fuller buckets halving is faster than counting.
_FULL_BUCKET = 24


def distinct(numbers: NDArray[_Integer]) -> NDArray[_Integer]:
    """Return numbers in ascending order, each once.

    Without counts, ``np.unique`` does not sort but hashes from NumPy 2.3 on, which for a million
    numbers takes 70 times as long.
    """
    ordered: NDArray[_Integer] = np.unique(numbers, return_counts=True)[0]
    return ordered


class HashSet:
    """Distinct key hashes, arranged to be found in arrays of other hashes.

    Attributes:
        hashes: The hashes, int32, ascending; none negative.
    """

    hashes: NDArray[np.int32]

    def __init__(self, hashes: NDArray[np.int32]) -> None:
        """Arrange hashes.

        Args:
            hashes: int32, ascending, each once; none negative.

        Raises:
            ValueError: They are not.
        """
        hashes = np.asarray(hashes)
        if hashes.dtype != np.int32 or np.any(hashes[1:] <= hashes[:-1]) or np.any(hashes[:1] < 0):
            raise ValueError("hashes: expected int32, ascending, each once, none negative")
        self.hashes = hashes
        count = len(hashes)
        self._mask = np.int32((1 << _clip(count.bit_length() + _FILTER_SHARE, _FILTER_BITS)) - 1)
        self._maybe = np.zeros(int(self._mask) + 1, np.bool_)
        self._maybe[hashes & self._mask] = True
        bits = _clip(count.bit_length(), _BUCKET_BITS)
        self._shift = np.int32(_HASH_BITS - bits)
        counts = np.bincount(hashes >> self._shift, minlength=1 << bits)
        self._fullest = int(counts.max())
        self._starts = np.zeros(len(counts), np.int32)
        np.cumsum(counts[:-1], out=self._starts[1:])

    def __len__(self) -> int:
        """Return how many hashes there are."""
        return len(self.hashes)

    def match(self, others: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find which of some hashes are in the set.

        Args:
            others: int32, none negative, in any order and any number of times.

        Returns:
            The places in ``others`` of those that are, int64, in no order; and of each its place
            in ``hashes``, int64.
        """
        near = np.flatnonzero(self._maybe.take(others & self._mask))
        if not len(near):
            return near, near
        wanted = others.take(near)
        if self._fullest > _FULL_BUCKET:
            # In order, the searches of neighbours meet in the processor's cache.
            order = np.argsort(wanted)
            near, wanted = near.take(order), wanted.take(order)
            places = np.searchsorted(self.hashes, wanted)
        else:
            places = self._starts.take(wanted >> self._shift).astype(np.int64)
            for _ in range(self._fullest - 1):
                smaller = self.hashes.take(places, mode="clip") < wanted
                if not smaller.any():
                    break
                places += smaller
        # A place behind the last hash belongs to one that is greater than all of them.
        hit = np.flatnonzero(self.hashes.take(places, mode="clip") == wanted)
        return near.take(hit), places.take(hit)


def _clip(bits: int, bounds: tuple[int, int]) -> int:
    return min(max(bits, bounds[0]), bounds[1])
