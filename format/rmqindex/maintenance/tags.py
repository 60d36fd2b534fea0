"""Whether an index holds entries of tags, which brokers from 5.4.0 on write and older ones do not.

No file says so: it shows in the entries of messages that have tags.
RocketMQ: ``IndexService.buildIndex``.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from rmqindex.bulk.index_state import index_entries, open_file
from rmqindex.commitlog.sibling import commit_log_of
from rmqindex.errors import RmqIndexError
from rmqindex.folders import INDEX_FOLDER, ROCKSDB_STORE_FOLDER
from rmqindex.keys.messages import expand_messages
from rmqindex.layout import FIRST_POSITION
from rmqindex.storage.location import Location
from rmqindex.transaction.directories import exists

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.transaction.directories import FileEntry

__all__ = ["Basis", "TagChoice", "choose_tags", "tags_of_index"]

# Entries that one look at a file reads.
_BLOCK = 1 << 14
# Blocks that are looked at where only the newest entries count.
_NEWEST_BLOCKS = 4
_HASH_BITS = np.int64(32)
_KEY_COLUMNS = ("topic", "uniq_key", "keys", "sys_flag")

#: What decided: an argument, the present files, the store's other folders, or nothing.
Basis = Literal["argument", "files", "store", "default"]


@dataclass(frozen=True, slots=True)
class TagChoice:
    """Which messages' tags are indexed, and what decided it.

    Attributes:
        start: The offset (bytes) of the first message whose tags are indexed; 0 for all messages,
            None for none.
        basis: ``argument``; ``files``: the present files show it; ``store``: the folder
            ``rocksdbstore``, which brokers make from 5.4.0 on; ``default``: nothing tells.
    """

    start: int | None
    basis: Basis

    def applies_to(self, phy_offsets: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Return of which messages the tags are indexed.

        Args:
            phy_offsets: Where each message starts, int64, bytes.

        Returns:
            One for each; None where no tags are indexed.
        """
        return None if self.start is None else phy_offsets >= self.start

    def masked(self, tags: pa.Array, phy_offsets: pa.Array) -> pa.Array | None:
        """Return the tags to index: null where a message comes before :attr:`start`.

        Args:
            tags: Of each message; strings or nulls.
            phy_offsets: Of each message; integers.

        Returns:
            As many strings or nulls; None where no tags are indexed.
        """
        kept = self.applies_to(np.asarray(phy_offsets))
        return None if kept is None else tags.take(pa.array(np.arange(len(kept)), mask=~kept))


def choose_tags(
    asked: bool | None,
    files: Sequence[FileEntry],
    layout: Layout | None,
    log: CommitLog | None,
    directories: Iterable[str | os.PathLike[str]] = (),
    *,
    newest_only: bool = False,
) -> TagChoice:
    """Decide which messages' tags an index shall hold, as its broker would.

    Args:
        asked: What the caller chose; None to find out.
        files: The files that are continued or replaced, oldest first.
        layout: Their geometry, if known.
        log: Their CommitLog; None without one, so that the files tell nothing.
        directories: Index directories of the store, which need not exist.
        newest_only: Whether the newest entries are enough, since rows are only appended.

    Raises:
        RmqIndexError: Old entries include those of tags, and newer ones do not.
    """
    if asked is not None:
        return TagChoice(0 if asked else None, "argument")
    if log is not None and files:
        shown = _Evidence(files, layout, log).tags_from(newest_only=newest_only)
        if shown is not None:
            return shown
    for directory in directories:
        place = Location.of(directory)
        if place.name == INDEX_FOLDER and exists(place.parent.child(ROCKSDB_STORE_FOLDER)):
            return TagChoice(0, "store")
    return TagChoice(None, "default")


def tags_of_index(directory: str | os.PathLike[str], *, newest_only: bool = False) -> TagChoice:
    """Find out which messages' tags an index holds, from its files and the CommitLog beside it.

    Args:
        directory: The index directory, which may be absent; a local path or a URI.
        newest_only: Whether the newest entries are enough, since rows are only appended.

    Raises:
        RmqIndexError: Old entries include those of tags, and newer ones do not.
    """
    files = index_entries(directory)
    log = commit_log_of(directory, "auto") if files else None
    with log or nullcontext():
        return choose_tags(None, files, None, log, [directory], newest_only=newest_only)


class _Witness(NamedTuple):
    """A message with tags whose entries show whether its broker indexed them."""

    offset: int
    indexed: bool


class _Evidence:
    """The messages with tags among those that files have entries of."""

    def __init__(self, files: Sequence[FileEntry], layout: Layout | None, log: CommitLog) -> None:
        self._log = log
        self._layout = layout
        #: File and first position of each block, oldest first.
        self._blocks: list[tuple[str, int, int]] = []
        for entry in files:
            with suppress(RmqIndexError), open_file(entry.path, layout) as file:  # another may tell
                stop = file.entry_count + FIRST_POSITION
                self._blocks += [
                    (entry.path, first, min(first + _BLOCK, stop))
                    for first in range(FIRST_POSITION, stop, _BLOCK)
                ]

    def tags_from(self, *, newest_only: bool) -> TagChoice | None:
        """Return from where on the entries include those of tags; None if they do not tell."""
        count = len(self._blocks)
        reach = _NEWEST_BLOCKS if newest_only else count
        last, newest = self._nearest(range(count - 1, max(count - reach, 0) - 1, -1))
        if not newest:
            return None
        if newest_only:
            return TagChoice(0 if newest[-1].indexed else None, "files")
        _, oldest = self._nearest(range(count))
        if oldest[0].indexed and not newest[-1].indexed:
            raise _contradiction(oldest[0], newest[-1])
        if oldest[0].indexed == newest[-1].indexed:
            return TagChoice(0 if oldest[0].indexed else None, "files")
        return TagChoice(self._first_indexed(last), "files")

    def _first_indexed(self, last: int) -> int:
        """Return the offset from which on tags are indexed, which lies before a block's end.

        A bisection: up to there no witness is indexed, and behind it all are.
        """
        low, high = 0, last + 1
        while high - low > 1:
            middle = (low + high) // 2
            _, found = self._nearest(range(middle, last + 1))
            if found[0].indexed:
                high = middle
            else:
                low = middle
        return next(
            witness.offset
            for place in range(low, last + 1)
            for witness in self._witnesses(place)
            if witness.indexed
        )

    def _nearest(self, places: range) -> tuple[int, list[_Witness]]:
        """Return the first of some blocks that has witnesses, and these; -1 without any."""
        for place in places:
            found = self._witnesses(place)
            if found:
                return place, found
        return -1, []

    def _witnesses(self, place: int) -> list[_Witness]:
        """Return the witnesses of a block, by offset."""
        path, first, stop = self._blocks[place]
        try:
            with open_file(path, self._layout) as file:
                (entries,) = file.scan(first, stop, ["key_hash", "phy_offset"])
        except RmqIndexError:  # damaged; other entries may tell
            return []
        return _witnesses(entries["phy_offset"].to_numpy(), entries["key_hash"], self._log)


def _witnesses(
    entry_offsets: NDArray[np.int64], entry_hashes: pa.Array, log: CommitLog
) -> list[_Witness]:
    """Return what the messages of consecutive entries show, by offset.

    A message whose tags' hash is among the entries is indexed with them, unless a key of its own
    has that hash, which shows nothing. It is indexed without them if all its keys have their
    entries; the last message may have more entries behind these.
    """
    offsets, entry_rows = np.unique(entry_offsets, return_inverse=True)
    messages = log.read_at(offsets, [*_KEY_COLUMNS, "tags"])
    there = np.flatnonzero(messages["topic"].is_valid().to_numpy(zero_copy_only=False))
    messages = messages.take(pa.array(there))
    columns = [messages[name] for name in _KEY_COLUMNS]
    tag_rows, _, tag_hashes = expand_messages(columns[0], None, None, columns[3], messages["tags"])
    own_rows, _, own_hashes = expand_messages(*columns)
    present = _pairs(entry_rows, entry_hashes.to_numpy())
    tags, own = _pairs(there[tag_rows], tag_hashes), _pairs(there[own_rows], own_hashes)
    lacking = np.unique(there[own_rows[~np.isin(own, present)]])
    has_tags = np.isin(tags, present)
    tells = ~np.isin(tags, own)
    unfinished = np.append(lacking, np.flatnonzero(offsets == entry_offsets[-1]))
    tells &= has_tags | ~np.isin(there[tag_rows], unfinished)
    return [
        _Witness(int(offsets[row]), bool(indexed))
        for row, indexed in zip(there[tag_rows[tells]], has_tags[tells], strict=True)
    ]


def _pairs(rows: NDArray[np.int64], hashes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Combine each row and hash into one number."""
    return (rows.astype(np.int64) << _HASH_BITS) | hashes.astype(np.int64)


def _contradiction(older: _Witness, newer: _Witness) -> RmqIndexError:
    return RmqIndexError(
        f"the IndexFiles have an entry of the tags of the message at {older.offset}, and none of "
        f"those at {newer.offset}, so that they do not tell whether the broker indexes tags: "
        "index_tags=True indexes them, as brokers from 5.4.0 on do, index_tags=False does not"
    )
