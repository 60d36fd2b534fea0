"""Ranks an entry among those of its message, by all entries that the index has of the message.

A broker writes the entries of a message one behind the other; where a file is full, the rest
begins the next file.
So the entries of a message are the run of one offset around any of them, over the borders of files.
A run is read from the entries themselves: it is the same whichever entries a search found, and
whatever slots, links, a range of times or a part of the file hid from it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from rmqindex.errors import RmqIndexError
from rmqindex.layout.index_file import FIRST_POSITION
from rmqindex.store.snapshot import open_in_store
from rmqindex.store.store import list_index_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from rmqindex.indexfile.entries import MessageRun
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.indexfile.reader import IndexFile
    from rmqindex.storage.location import Location
    from rmqindex.store.snapshot import SnapshotFile
    from rmqindex.transaction.directories import FileEntry

#: Pairs of an entry and a key of its message that are compared to tell broken dispatches apart.
_MOST_COMPARED = 1 << 18


class HasRuns(Protocol):
    """An open IndexFile."""

    @property
    def entry_count(self) -> int:
        """How many entries it has."""

    def message_run(self, position: int) -> tuple[int, MessageRun]:
        """Return the offset of an entry, and the consecutive entries that have it."""


@dataclass(frozen=True, slots=True)
class SearchedFile:
    """An IndexFile whose entries are compared with their messages, be it listed or opened alone.

    Attributes:
        path: The path it is listed under, beside the other files of its index.
        open: Opens it, or returns it where it is open; called only for messages with several keys
            of one hash.
        layout: Its geometry.
    """

    path: Location
    open: Callable[[], AbstractContextManager[HasRuns]]
    layout: Layout | None

    @classmethod
    def of(cls, file: IndexFile, path: Location) -> Self:
        """Return an open file that is listed under a path."""
        return cls(path, lambda: nullcontext(file), file.layout)

    @classmethod
    def planned(cls, planned: SnapshotFile) -> Self:
        """Return a file of a plan, which is opened again."""
        return cls(planned.name_path, planned.open, planned.layout)


class EntryRun(NamedTuple):
    """All entries of a message."""

    hashes: NDArray[np.int32]
    place: int


class Ranks:
    """Finds all entries of the message of an entry."""

    def __init__(self) -> None:
        """Begin without reading anything."""
        self._listings: dict[Location, list[FileEntry]] = {}

    def runs(self, searched: SearchedFile, positions: Sequence[int]) -> list[EntryRun]:
        """Return all entries of the message of each entry, in its file and in those beside it.

        Entries in a file that cannot be read are left out.
        """
        found: list[EntryRun] = []
        run: MessageRun | None = None
        hashes, before = np.empty(0, np.int32), 0
        with searched.open() as file:
            stop = file.entry_count + FIRST_POSITION
            for position in positions:
                if run is None or not run.first <= position < run.stop:
                    offset, run = file.message_run(position)
                    earlier = run.first == FIRST_POSITION
                    older = self._beside(searched, offset, -1) if earlier else []
                    newer = self._beside(searched, offset, 1) if run.stop == stop else []
                    hashes = np.concatenate([*reversed(older), run.hashes, *newer])
                    before = sum(map(len, older))
                found.append(EntryRun(hashes, before + position - run.first))
        return found

    def _beside(
        self, searched: SearchedFile, phy_offset: int, step: int
    ) -> list[NDArray[np.int32]]:
        """Return the hashes of a run's continuation in the files before or behind one."""
        parts: list[NDArray[np.int32]] = []
        with suppress(RmqIndexError):  # then entries are missing, and the rank shows it
            entries = self._listing(searched.path.parent)
            names = [entry.name for entry in entries]
            if searched.path.name not in names:
                return parts
            place = names.index(searched.path.name) + step
            while 0 <= place < len(entries):
                with _open_beside(entries[place], searched.layout) as file:
                    count = file.entry_count
                    if count:
                        edge = FIRST_POSITION if step > 0 else count
                        offset, run = file.message_run(edge)
                        if offset != phy_offset:
                            break
                        parts.append(run.hashes)
                        if len(run.hashes) < count:
                            break
                place += step
        return parts

    def _listing(self, folder: Location) -> list[FileEntry]:
        if folder not in self._listings:
            self._listings[folder] = list_index_files(folder, "DROPMALFORMED")
        return self._listings[folder]


def _open_beside(entry: FileEntry, layout: Layout | None) -> IndexFile:
    """Open a file with the geometry of the one beside it, if it has its size."""
    same = layout is not None and entry.size == layout.file_size
    return open_in_store(entry.path, layout if same else None, "FAILFAST")


def choose_key(
    run: EntryRun, dispatches: Sequence[tuple[NDArray[np.int32], NDArray[np.int64]]]
) -> int | None:
    """Return the key of one entry of a message.

    The n-th entry of a hash belongs to the n-th key of it. A message that was dispatched again has
    all its entries again, behind those that a kill left of the dispatch before.
    """
    hash_ = run.hashes[run.place]
    count = np.count_nonzero(run.hashes == hash_)
    before = np.count_nonzero(run.hashes[: run.place] == hash_)
    every = np.sort(run.hashes)
    fitting: set[int] = set()
    exact: set[int] = set()
    possible: set[int] = set()
    for hashes, keys in dispatches:
        mine = keys[hashes == hash_]
        if len(mine):
            possible |= set(keys[_places(run, hashes)].tolist())
        if not len(mine) or count % len(mine):
            continue
        key = int(mine[before % len(mine)])
        fitting.add(key)
        if np.array_equal(np.sort(np.tile(hashes, count // len(mine))), every):
            exact.add(key)
    for keys_left in (possible, fitting, exact):
        if len(keys_left) == 1:
            return keys_left.pop()
    return None


def _places(run: EntryRun, dispatch: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Mask the keys of a dispatch that an entry may be of, where the last one is whole.

    Those before broke off, and the first one may lack its beginning, if its file has expired.
    """
    first = len(run.hashes) - len(dispatch)
    if first < 0 or not np.array_equal(run.hashes[first:], dispatch):
        return np.zeros(len(dispatch), np.bool_)
    last: NDArray[np.bool_] = np.arange(first, len(run.hashes)) == run.place
    if run.place >= first or first * len(dispatch) > _MOST_COMPARED:
        return last
    fits: NDArray[np.bool_] = run.hashes[:first, None] == dispatch
    here, behind = fits[0], np.ones(len(dispatch), np.bool_)
    for equal in fits[1 : run.place + 1]:
        here = np.append(here.any(), here[:-1]) & equal
    for equal in fits[: run.place : -1]:
        then = behind & equal
        behind = np.append(then[1:], False) | then[0]
    may_be: NDArray[np.bool_] = here & behind
    return may_be
