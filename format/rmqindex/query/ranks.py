"""Ranks an entry among those of one hash and one message, in the order of the message's keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.fileset.geometry import open_in_store
from rmqindex.fileset.paths import list_index_files

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.indexfile.reader import IndexFile
    from rmqindex.storage.location import Location

__all__ = ["Ranks", "SearchedFile", "Shares"]

# The most cached answers about ambiguous entries.
_MAX_KEPT = 1024


@dataclass(frozen=True, slots=True)
class Shares:
    """How many entries of one hash a message should have.

    Attributes:
        indexed: In a broker's index; 0 where only members have the hash.
        every: In an index that has the keys of a batch's members as well.
        proof: A hash that only such an index contains; None without one.
        tagged: In an index that has tags as well; ``indexed`` where the tags have another hash.
    """

    indexed: int
    every: int
    proof: int | None
    tagged: int


@dataclass(frozen=True, slots=True)
class SearchedFile:
    """An open IndexFile whose entries are ranked.

    Attributes:
        file: The open file.
        path: The path it is listed under; the files beside it are read where it alone leaves a rank
            open.
        limit: The position after its last entry to consider.
    """

    file: IndexFile
    path: Location
    limit: int


class Ranks:
    """Ranks an entry among those with the same hash and offset."""

    def __init__(self, layout: Layout | None = None, mode: Mode = "FAILFAST") -> None:
        """Begin without reading any file.

        Args:
            layout: The geometry of the files beside a searched one; None to infer it.
            mode: Their mode, as :class:`rmqindex.IndexFile` takes it.
        """
        self._layout = layout
        self._mode: Mode = mode
        # The entries of one hash in one file, and those of one hash and offset in a directory.
        self._of_file: dict[tuple[str, int], tuple[NDArray[np.int64], NDArray[np.int32]]] = {}
        self._of_folder: dict[tuple[str, int, int], list[tuple[str, int]]] = {}

    def rank(
        self,
        searched: SearchedFile,
        key_hash: int,
        phy_offset: int,
        position: int,
        shares: Shares,
    ) -> int | None:
        """Return the rank of an entry among those of one dispatch of its message, from 0.

        A message that was dispatched again has all its entries again.

        Args:
            searched: The file that the entry is in.
            key_hash: The entry's hash.
            phy_offset: The offset of its message, bytes.
            position: Its position in the file.
            shares: How many entries of this hash its message should have.

        Returns:
            The rank; None where it is unknown, since entries are missing.

        Raises:
            RmqIndexError: A file beside it cannot be read.
        """
        counts = {shares.indexed, shares.every} - {0}
        if shares.tagged > shares.indexed:
            # Tags share the hash: only the count itself can show whether they are indexed.
            if shares.every > shares.tagged:
                return None
            counts |= {shares.tagged}
        elif len(counts) > 1 and shares.proof is not None:
            has_members = len(self._in_file(searched, shares.proof, phy_offset)) > 0
            counts = {shares.every if has_members else shares.indexed}
        mine = self._in_file(searched, key_hash, phy_offset)
        period = _period(len(mine), counts)
        if period is not None:
            return int(np.searchsorted(mine, position)) % period
        # A message's entries may be spread over two files.
        every = self._across(searched.path, key_hash, phy_offset)
        period = _period(len(every), counts)
        place = (searched.path.name, position)
        return None if period is None or place not in every else every.index(place) % period

    def _in_file(self, searched: SearchedFile, key_hash: int, phy_offset: int) -> NDArray[np.int32]:
        """Return the positions of the entries of a hash and offset in the file, oldest first."""
        key = (searched.path, key_hash)
        if key not in self._of_file:
            if len(self._of_file) >= _MAX_KEPT:
                self._of_file.clear()
            self._of_file[key] = _entries_of(searched.file, key_hash, searched.limit)
        offsets, positions = self._of_file[key]
        mine: NDArray[np.int32] = positions[offsets == phy_offset]
        return mine

    def _across(self, path: Location, key_hash: int, phy_offset: int) -> list[tuple[str, int]]:
        """Return all entries of a hash and offset in a directory: file names and positions."""
        folder = path.parent
        key = (folder, key_hash, phy_offset)
        if key not in self._of_folder:
            if len(self._of_folder) >= _MAX_KEPT:
                self._of_folder.clear()
            found: list[tuple[str, int]] = []
            for entry in list_index_files(folder, self._mode):
                with open_in_store(entry.path, self._layout, self._mode) as file:
                    offsets, positions = _entries_of(file, key_hash, None)
                mine = positions[offsets == phy_offset].tolist()
                found += [(entry.name, position) for position in mine]
            self._of_folder[key] = found
        return self._of_folder[key]


def _entries_of(
    file: IndexFile, hash_: int, limit: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the offsets and positions of the entries of a hash, oldest first."""
    found = file.lookup([hash_], limit)
    positions = found.column("position").to_numpy()
    order = np.argsort(positions)
    return found.column("phy_offset").to_numpy()[order], positions[order]


def _period(count: int, counts: set[int]) -> int | None:
    """Return how many entries one dispatch adds, if only one of the numbers fits."""
    fitting = [each for each in counts if count and count % each == 0]
    return fitting[0] if len(fitting) == 1 else None
