"""What a write deletes and what it brings in its place: no entry is thrown away unasked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqindex.errors import RmqIndexError
from rmqindex.indexfile.committed import open_index_source, read_header
from rmqindex.indexfile.reader import IndexFile
from rmqindex.layout import FIRST_POSITION, INT32_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from rmqindex.indexfile.geometry import Layout

__all__ = [
    "COLUMNS",
    "Entries",
    "FileSummary",
    "LostEntries",
    "Replacement",
    "lost_entries",
    "summaries",
]

# Entries that are compared at a time.
_BLOCK = 65_536
_HASH_BITS = np.int64(32)
#: The columns of :class:`Entries`, in its order.
COLUMNS = ("phy_offset", "key_hash")


@dataclass(frozen=True, slots=True)
class FileSummary:
    """An IndexFile that a write deletes or adds.

    Attributes:
        name: Its name.
        size: Its size, bytes.
        entry_count: How many entries it has.
    """

    name: str
    size: int
    entry_count: int


@dataclass(frozen=True, slots=True)
class LostEntries:
    """Entries that are replaced by none.

    Attributes:
        count: How many.
        first: The least offset of their messages, bytes.
        last: The greatest one, bytes.
        files: The names of the files that have them.
    """

    count: int
    first: int
    last: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Replacement:
    """What a write deletes, and what it brings in its place.

    Attributes:
        removed: The files that go, oldest first.
        added: The files that come, oldest first.
        lost: What those that come lack; None for nothing.
        unreadable: Files that go and cannot be read, so that nobody knows what they lose.
    """

    removed: tuple[FileSummary, ...]
    added: tuple[FileSummary, ...]
    lost: LostEntries | None = None
    unreadable: tuple[str, ...] = ()

    @property
    def removed_count(self) -> int:
        """How many entries go."""
        return sum(file.entry_count for file in self.removed)

    @property
    def added_count(self) -> int:
        """How many entries come."""
        return sum(file.entry_count for file in self.added)

    def warnings(self) -> list[str]:
        """Return a line for what would be lost; none for nothing."""
        lines = []
        if self.lost is not None:
            lost = self.lost
            lines.append(
                f"{lost.count} entries in {_range_of(lost.files)}, of messages at offsets "
                f"{lost.first} to {lost.last}, would be lost"
            )
        if self.unreadable:
            lines.append(
                f"{_range_of(self.unreadable)} cannot be read, and may have entries of messages "
                "that the CommitLog no longer has"
            )
        return lines

    def ensure_nothing_lost(self, directory: object) -> None:
        """Refuse a replacement that lacks entries.

        Raises:
            RmqIndexError: It does.
        """
        warnings = self.warnings()
        if warnings:
            raise RmqIndexError(
                f"{directory}: expected new files with all entries of the old ones, got "
                f"{self.added_count} entries for {self.removed_count}: {'; '.join(warnings)}. "
                "Nothing was changed. If the CommitLog is damaged or lacks files, restore it "
                "first; allow_loss=True writes nevertheless"
            )


def _range_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def summaries(paths: Sequence[Path]) -> tuple[FileSummary, ...]:
    """Return what complete local files hold."""
    found = []
    for path in paths:
        with open_index_source(path) as source:
            count = read_header(source).entry_count
            found.append(FileSummary(path.name, source.size, count))
    return tuple(found)


class Entries(NamedTuple):
    """Offsets and hashes of consecutive entries."""

    offsets: NDArray[np.int64]
    hashes: NDArray[np.int32]

    def from_(self, start: int) -> Entries:
        """Return the entries from a place on."""
        return Entries(self.offsets[start:], self.hashes[start:])


def lost_entries(
    old: Iterable[tuple[str, Entries]],
    new: Sequence[Path],
    layout: Layout,
    is_lost: Callable[[str, Entries], NDArray[np.bool_]],
) -> LostEntries | None:
    """Return which entries of old files the new ones lack; repeated ones count once."""
    count, files = 0, dict[str, None]()
    offsets: list[NDArray[np.int64]] = []
    present = _Same(new, layout)
    others: _Blocks | None = None
    for name, batch in old:
        entries = batch
        if others is None:
            entries = entries.from_(present.skip(entries))
            if not len(entries.offsets):
                continue
            others = _Blocks(new, layout)
        missing = others.lacking(entries)
        lost = missing.offsets[is_lost(name, missing)] if len(missing.offsets) else missing.offsets
        if len(lost):
            count += len(lost)
            offsets.append(lost)
            files[name] = None
    if not count:
        return None
    together = np.concatenate(offsets)
    return LostEntries(count, int(together.min()), int(together.max()), tuple(files))


def _read(path: Path, layout: Layout) -> Iterator[Entries]:
    with IndexFile(path, layout) as file:
        for batch in file.scan(columns=COLUMNS):
            yield Entries(*(batch[name].to_numpy() for name in COLUMNS))


class _Same:
    """Reads new files in step with the old ones until their entries differ."""

    def __init__(self, paths: Sequence[Path], layout: Layout) -> None:
        self._rest = (entries for path in paths for entries in _read(path, layout))
        self._entries = Entries(np.empty(0, np.int64), np.empty(0, np.int32))

    def skip(self, entries: Entries) -> int:
        """Return how many of the next old entries are followed by the same new ones."""
        done = 0
        while done < len(entries.offsets):
            if not len(self._entries.offsets):
                following = next(self._rest, None)
                if following is None:
                    break
                self._entries = following
            size = min(len(entries.offsets) - done, len(self._entries.offsets))
            ahead = self._entries
            if not (
                np.array_equal(entries.offsets[done : done + size], ahead.offsets[:size])
                and np.array_equal(entries.hashes[done : done + size], ahead.hashes[:size])
            ):
                break
            done, self._entries = done + size, self._entries.from_(size)
        return done


class _Blocks:
    """The new files' entries, searched by offset."""

    def __init__(self, paths: Sequence[Path], layout: Layout) -> None:
        self._layout = layout
        #: File, first position, and least and greatest offset of each block.
        self._places: list[tuple[Path, int]] = []
        least, greatest = [], []
        for path in paths:
            first = FIRST_POSITION
            for entries in _read(path, layout):
                self._places.append((path, first))
                least.append(int(entries.offsets.min()))
                greatest.append(int(entries.offsets.max()))
                first += len(entries.offsets)
        self._least, self._greatest = np.array(least, np.int64), np.array(greatest, np.int64)

    def lacking(self, old: Entries) -> Entries:
        """Return the entries that the new files lack, each once."""
        wanted = np.unique(old.offsets)
        inside = np.searchsorted(wanted, self._greatest, side="right") > np.searchsorted(
            wanted, self._least
        )
        new = self._entries_of(np.flatnonzero(inside).tolist(), wanted)
        ours = np.unique(_pairs(wanted, old))
        missing = ours[~np.isin(ours, _pairs(wanted, new))]
        hashes = (missing & np.int64(INT32_MAX)).astype(np.int32)
        return Entries(wanted[missing >> _HASH_BITS], hashes)

    def _entries_of(self, places: list[int], wanted: NDArray[np.int64]) -> Entries:
        """Return the entries of blocks that have one of the sorted offsets."""
        offsets, hashes = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
        for place in places:
            path, first = self._places[place]
            with IndexFile(path, self._layout) as file:
                stop = min(first + _BLOCK, file.entry_count + FIRST_POSITION)
                for batch in file.scan(first, stop, COLUMNS):
                    entries = Entries(*(batch[name].to_numpy() for name in COLUMNS))
                    at = np.minimum(np.searchsorted(wanted, entries.offsets), len(wanted) - 1)
                    kept = wanted[at] == entries.offsets
                    offsets.append(entries.offsets[kept])
                    hashes.append(entries.hashes[kept])
        return Entries(np.concatenate(offsets), np.concatenate(hashes))


def _pairs(offsets: NDArray[np.int64], entries: Entries) -> NDArray[np.int64]:
    """Combine each entry's place among sorted offsets and its hash into one number."""
    places = np.searchsorted(offsets, entries.offsets).astype(np.int64)
    return (places << _HASH_BITS) | entries.hashes.astype(np.int64)
