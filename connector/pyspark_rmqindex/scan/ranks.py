"""Which of the entries of one hash and one message an entry is, counted in the message's order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pyspark_rmqindex.files.logs import folder_of
from rmqindex import IndexFile
from rmqindex.storage import is_remote
from rmqindex.store import list_index_files

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyspark_rmqindex.files.slices import FileSlice
    from pyspark_rmqindex.options import ReadOptions

__all__ = ["PLACING", "Ranks", "Shares"]

#: What of an entry is asked for.
PLACING = ("key_hash", "phy_offset", "position")
# How many answers about ambiguous entries are kept.
_MAX_KEPT = 1024


@dataclass(frozen=True, slots=True)
class Shares:
    """How many entries of one hash a message has.

    Attributes:
        indexed: As a broker indexes it; 0 where only members have the hash.
        every: Where the keys of members of a batch are indexed as well.
        proof: A hash that is in the index in the second case alone; None where no key has one.
        tagged: Where the tags are indexed as well; ``indexed`` where they have another hash.
    """

    indexed: int
    every: int
    proof: int | None
    tagged: int


class Ranks:
    """Ranks an entry among those with the same hash and offset."""

    def __init__(self, options: ReadOptions) -> None:
        """Keep how files are opened; nothing is read yet."""
        self._options = options
        # The entries of one hash in one file, and those of one hash and offset in a directory.
        self._of_file: dict[tuple[str, int], tuple[NDArray[np.int64], NDArray[np.int32]]] = {}
        self._of_folder: dict[tuple[str, int, int], list[tuple[str, int]]] = {}

    def rank(
        self, file: IndexFile, each: FileSlice, entry: dict[str, int], shares: Shares
    ) -> int | None:
        """Return the rank of an entry among those that its message got at a time, from 0.

        A message that was dispatched again has all its entries again.

        Args:
            file: The open file.
            each: The slice that is read of it.
            entry: Its hash, offset and position.
            shares: How many entries its message has of this hash.

        Returns:
            The rank; None where entries are missing, so that it cannot be known.
        """
        hash_, offset, position = (entry[name] for name in PLACING)
        counts = {shares.indexed, shares.every} - {0}
        if shares.tagged > shares.indexed:
            # Tags share the hash: nothing says whether they are indexed but the count itself.
            if shares.every > shares.tagged:
                return None
            counts |= {shares.tagged}
        elif len(counts) > 1 and shares.proof is not None:
            has_members = len(self._in_file(file, each, shares.proof, offset)) > 0
            counts = {shares.every if has_members else shares.indexed}
        mine = self._in_file(file, each, hash_, offset)
        period = _period(len(mine), counts)
        if period is not None:
            return int(np.searchsorted(mine, position)) % period
        # A message's entries may stand in two files.
        every = self._across(each, hash_, offset)
        period = _period(len(every), counts)
        place = (_name(each.name_path), position)
        return None if period is None or place not in every else every.index(place) % period

    def _in_file(
        self, file: IndexFile, each: FileSlice, hash_: int, offset: int
    ) -> NDArray[np.int32]:
        """Return the positions of the entries of a hash and offset in the file, oldest first."""
        key = (each.name_path, hash_)
        if key not in self._of_file:
            if len(self._of_file) >= _MAX_KEPT:
                self._of_file.clear()
            self._of_file[key] = _entries_of(file, hash_, each.limit)
        offsets, positions = self._of_file[key]
        mine: NDArray[np.int32] = positions[offsets == offset]
        return mine

    def _across(self, each: FileSlice, hash_: int, offset: int) -> list[tuple[str, int]]:
        """Return all entries of a hash and offset in a directory: file names and positions."""
        folder = folder_of(each.name_path)
        key = (folder, hash_, offset)
        if key not in self._of_folder:
            if len(self._of_folder) >= _MAX_KEPT:
                self._of_folder.clear()
            found: list[tuple[str, int]] = []
            for entry in list_index_files(folder):
                options = self._options
                with IndexFile(entry.path, options.layout, mode=options.mode) as file:
                    offsets, positions = _entries_of(file, hash_, None)
                mine = positions[offsets == offset].tolist()
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
    """Return how many entries the message got at a time, if only one number fits."""
    fitting = [each for each in counts if count and count % each == 0]
    return fitting[0] if len(fitting) == 1 else None


def _name(path: str) -> str:
    return (path.partition("?")[0] if is_remote(path) else path).rpartition("/")[2]
