"""Which messages' tags an index holds: brokers from 5.4.0 on index tags, older ones do not.

No file says so: it shows in the entries of messages that have tags.
RocketMQ: ``IndexService.buildIndex``.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import groupby, islice, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from rmqindex.bulk.files import index_entries, open_file
from rmqindex.bulk.salvaging import replaced_entries
from rmqindex.commitlog.snapshot import commit_log_of
from rmqindex.errors import CorruptIndexError, RmqIndexError, command_line, options_of
from rmqindex.keys.messages import KEY_COLUMNS, expand_messages, pack_pairs
from rmqindex.layout.index_file import FIRST_POSITION
from rmqindex.layout.store import INDEX_FOLDER, ROCKSDB_STORE_FOLDER
from rmqindex.storage.location import Location
from rmqindex.store.naming import given_name
from rmqindex.transaction.directories import exists

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.transaction.directories import FileEntry

_COLUMNS = ("phy_offset", "key_hash")
# Entries that one look at a file reads.
_BLOCK = 1 << 14
_OVERLAP = 64
# Blocks that are looked at where only the newest entries count.
_NEWEST_BLOCKS = 4
# The entries of an index all of which are looked at.
_ALL_ENTRIES = 1 << 16
# Of a larger index, how many ranges are looked at, and of how many entries each.
_SAMPLES = 256
_FEWEST_SAMPLES, _MOST_SAMPLES = 4, 64
_WINDOW = 256
# For an answer, so many entries are looked at in so many places.
_ANSWER_SAMPLES, _ANSWER_WINDOW = 16, 64
# Tags that a printed command lists, and messages, instead of the few of its default.
_MOST_NAMED = 64
_MANY = 1_000_000
# Fewer witnesses between others say nothing of messages to come.
_LEAST_RUN = 3
# Brokers of so many versions do not take turns at one file.
_MOST_RUNS = 16
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
        changes: The offsets (bytes) behind ``start``, ascending, of the messages from which on tags
            are not indexed, are indexed again, and so on, as brokers of several versions left them.
    """

    start: int | None
    basis: Basis
    changes: tuple[int, ...] = ()

    def applies_to(self, phy_offsets: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Mask the messages whose tags are indexed.

        Args:
            phy_offsets: Where each message starts, int64, bytes.

        Returns:
            One for each; None where no tags are indexed.
        """
        if self.start is None:
            return None
        changes = np.array([self.start, *self.changes], np.int64)
        return np.asarray(np.searchsorted(changes, phy_offsets, side="right") % 2 == 1)

    def masked(self, tags: pa.Array, phy_offsets: pa.Array) -> pa.Array | None:
        """Return the tags to index: null where those of a message are not.

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
    continues: bool = False,
    typed_with: Callable[[str], str] | None = None,
) -> TagChoice:
    """Decide which messages' tags an index shall hold, as its broker would."""
    if asked is not None:
        return TagChoice(0 if asked else None, "argument")
    if log is not None and files:
        evidence = _TagEvidence(files, layout, log)
        shown = (
            evidence.newest()
            if newest_only
            else evidence.all(continues=continues, typed_with=typed_with)
        )
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
        RmqIndexError: The files contradict themselves.
    """
    files = index_entries(directory)
    log = commit_log_of(directory, "auto") if files else None
    with log or nullcontext():
        return choose_tags(None, files, None, log, [directory], newest_only=newest_only)


def untagged(
    topic: str,
    tags: Sequence[str],
    files: Sequence[FileEntry],
    layout: Layout | None,
    log: CommitLog,
    times: tuple[int | None, int | None] = (None, None),
    mode: Mode = "FAILFAST",
) -> str | None:
    """Return what an answer for tags may lack, where messages have no entries of their tags.

    Brokers before 5.4.0 leave such messages, before an upgrade and after a rollback. A few entries
    of all parts of the index are looked at, with their messages. The times asked for, epoch
    milliseconds, and the mode are those of the command that is named.
    """
    offset = _TagEvidence(files, layout, log).untagged()
    if offset is None:
        return None
    asked = {
        "--topic": topic,
        "--tag": tags if len(tags) <= _MOST_NAMED else None,
        "--begin": times[0],
        "--end": times[1],
        "--limit": _MANY,  # the oldest ones are listed last
        "--mode": None if mode == "FAILFAST" else mode,
    }
    options = options_of(asked)
    line = command_line(
        "messages", given_name(log.folders, [file.path for file in log.files]), options=options
    )
    return (
        f"{files[0].path.parent}: messages, as the one at {offset}, have no entries of their tags, "
        f"which brokers before 5.4.0 do not index; `{line}` reads the CommitLog for them"
    )


class _Witness(NamedTuple):
    """A message with tags whose entries show whether its broker indexed them."""

    offset: int
    indexed: bool


class _TagEvidence:
    """The messages with tags among those that files have entries of.

    Entries are counted through all files: ``place`` 0 is the oldest of all.
    """

    def __init__(self, files: Sequence[FileEntry], layout: Layout | None, log: CommitLog) -> None:
        self._log = log
        self._layout = layout
        #: Each file with entries, the place of its first one, and that behind its last one.
        self._files: list[tuple[Location, int, int]] = []
        self._count = 0
        #: The first entries of files whose headers do not count them: offsets and hashes.
        self._uncounted: dict[Location, tuple[NDArray[np.int64], NDArray[np.int32]]] = {}
        for entry in files:
            count = 0
            with suppress(RmqIndexError):  # another may tell
                count = self._count_of(entry.path)
            start, self._count = self._count, self._count + count
            if count:
                self._files.append((entry.path, start, self._count))

    def newest(self) -> TagChoice | None:
        """Return whether the newest entries include tags; None without evidence."""
        for block in range(_NEWEST_BLOCKS):
            stop = self._count - block * _BLOCK
            found = self._between(max(stop - _BLOCK, 0), stop)
            if found:
                return TagChoice(0 if found[-1].indexed else None, "files")
        return None

    def untagged(self) -> int | None:
        """Return the offset of a message whose tags are not indexed, of a few in each part."""
        last = max(self._count - _ANSWER_WINDOW, 0)
        spread = np.linspace(0, last, _ANSWER_SAMPLES).astype(np.int64)
        windows = [(start, start + _ANSWER_WINDOW) for start in np.unique(spread).tolist()]
        if self._count <= _ANSWER_SAMPLES * _ANSWER_WINDOW:
            windows = [(0, self._count)]
        for start, stop in windows:
            for witness in self._between(start, min(stop, self._count)):
                if not witness.indexed:
                    return witness.offset
        return None

    def all(self, *, continues: bool, typed_with: Callable[[str], str] | None) -> TagChoice | None:
        """Return the offsets from which tags are indexed or not; None without evidence."""
        found: dict[int, _Witness] = {}
        newest: _Witness | None = None
        last = 0
        for start, stop in self._windows():
            seen = [each for each in self._between(start, stop) if each.offset not in found]
            if not seen:
                continue
            if newest is not None and newest.indexed != seen[0].indexed:
                seen = [*self._change(last, start, indexed=newest.indexed), *seen]
            for witness in seen:
                found.setdefault(witness.offset, witness)
            newest, last = seen[-1], stop
        runs = _runs(list(found.values()), keeps_short=not continues)
        if not runs:
            return None
        for older, newer in pairwise(runs):
            if newer.offset <= older.offset or (continues and older.indexed):
                raise _contradiction(older, newer, typed_with)
        if len(runs) > _MOST_RUNS * max(len(self._files), 1):
            raise _contradiction(runs[0], runs[1], typed_with)
        changes = [run.offset for run in runs[1:]]
        if runs[0].indexed:
            return TagChoice(0, "files", tuple(changes))
        return TagChoice(changes[0] if changes else None, "files", tuple(changes[1:]))

    def _windows(self) -> list[tuple[int, int]]:
        """Return the ranges of places to read: all of a small index, else samples."""
        if self._count <= _ALL_ENTRIES:
            return [(first, stop) for _, first, stop in self._files]
        number = min(max(_SAMPLES // len(self._files), _FEWEST_SAMPLES), _MOST_SAMPLES)
        windows = []
        for _, first, stop in self._files:
            starts = np.linspace(first, max(stop - _WINDOW, first), number).astype(np.int64)
            windows += [(at, min(at + _WINDOW, stop)) for at in np.unique(starts).tolist()]
        return windows

    def _change(self, start: int, stop: int, *, indexed: bool) -> list[_Witness]:
        """Return the witnesses around a change between two places, by bisection."""
        while stop - start > _BLOCK:
            middle = (start + stop) // 2
            seen = self._between(middle, min(middle + _WINDOW, stop))
            if seen and seen[0].indexed == indexed:
                start = middle
            else:
                stop = min(middle + _WINDOW, stop) if seen else middle
        return self._between(start, stop)

    def _between(self, start: int, stop: int) -> list[_Witness]:
        """Return the witnesses of a range of places, in the order of their entries."""
        found: dict[int, _Witness] = {}
        for first in range(start, stop, _BLOCK):
            last = min(first + _BLOCK, stop)
            # A message that the end of a block cuts is whole with what follows.
            entries = self._entries(first, min(last + _OVERLAP, self._count))
            if len(entries[0]):
                for witness in _witnesses(*entries, self._log):
                    found.setdefault(witness.offset, witness)
        return list(found.values())

    def _entries(
        self, start: int, stop: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]:
        """Return offsets and hashes of a range of entries, and which are the last of a file."""
        parts = [(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.bool_))]
        for path, first, end in self._files:
            low, high = max(start, first), min(stop, end)
            # Damaged ones do not tell; others may.
            with suppress(RmqIndexError):
                if low < high:
                    offsets, hashes = self._of_file(path, low - first, high - first)
                    parts.append((offsets, hashes, np.arange(1, len(hashes) + 1) == len(hashes)))
        offsets, hashes, is_last = map(np.concatenate, zip(*parts, strict=True))
        return offsets, hashes, is_last

    def _of_file(
        self, path: Location, start: int, stop: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return offsets and hashes of a range of a file's entries, the first of which is 0."""
        if path in self._uncounted:
            offsets, hashes = self._uncounted[path]
            return offsets[start:stop], hashes[start:stop]
        with open_file(path, self._layout) as file:
            # At most one batch; of a damaged file, no entry of the range may be sound.
            batch = next(file.scan(start + FIRST_POSITION, stop + FIRST_POSITION, _COLUMNS), None)
        if batch is None:
            return np.empty(0, np.int64), np.empty(0, np.int32)
        return batch["phy_offset"].to_numpy(), batch["key_hash"].to_numpy()

    def _count_of(self, path: Location) -> int:
        """Return how many entries of a file can be looked at.

        A damaged header may not count them; what is replaced is judged with them all the same.
        """
        with open_file(path, self._layout) as file, suppress(CorruptIndexError):
            file.check_count(lambda: self._layout)
            return file.entry_count
        if self._layout is None:
            return 0
        blocks = replaced_entries(path, self._layout, _COLUMNS)
        for batch in islice(blocks, 1):
            self._uncounted[path] = batch["phy_offset"].to_numpy(), batch["key_hash"].to_numpy()
            return len(batch)
        return 0


def _runs(witnesses: Sequence[_Witness], *, keeps_short: bool) -> list[_Witness]:
    """Return the first witness of each run of equal ones.

    A broker indexed them, or did not, for a moment, which says nothing of messages to come.
    """
    groups = [list(group) for _, group in groupby(witnesses, key=attrgetter("indexed"))]
    runs: list[_Witness] = []
    for number, group in enumerate(groups):
        is_inside = 0 < number < len(groups) - 1
        if is_inside and len(group) < _LEAST_RUN and not keeps_short:
            continue
        if not runs or runs[-1].indexed != group[0].indexed:
            runs.append(group[0])
    return runs


def _witnesses(
    entry_offsets: NDArray[np.int64],
    hashes: NDArray[np.int32],
    is_last: NDArray[np.bool_],
    log: CommitLog,
) -> list[_Witness]:
    """Return what the messages of consecutive entries show, by offset.

    A message whose tags' hash is among the entries is indexed with them; where keys of its own have
    that hash, it is there once more. It is indexed without them if all its keys have their entries,
    and no entry of its own or behind these was damaged or lost, which may be that of its tags:
    behind the last entry of a file, a file may have been lost.
    """
    offsets, entry_rows = np.unique(entry_offsets, return_inverse=True)
    messages = log.read_at(offsets, [*KEY_COLUMNS, "tags", "size"])
    there = np.flatnonzero(messages["topic"].is_valid().to_numpy(zero_copy_only=False))
    messages = messages.take(pa.array(there))
    columns = [messages[name] for name in KEY_COLUMNS]
    tag_rows, _, tag_hashes = expand_messages(columns[0], None, None, columns[3], messages["tags"])
    own_rows, _, own_hashes = expand_messages(*columns)
    present = pack_pairs(entry_rows, hashes)
    tags, own = pack_pairs(there[tag_rows], tag_hashes), pack_pairs(there[own_rows], own_hashes)
    has_tags = _count(present, tags) > _count(own, tags)
    lacking = there[own_rows[_count(present, own) < _count(own, own)]]
    sizes = np.zeros(len(offsets), np.int64)
    sizes[there] = messages["size"].to_numpy()
    ends = np.stack([entry_offsets, entry_offsets + sizes[entry_rows]])
    is_next = (ends[:, :-1] == entry_offsets[1:]).any(axis=0)
    is_sound = np.isin(present, np.concatenate([own, tags]))
    is_followed = is_sound[1:] & (is_next | ~is_last[:-1])
    doubtful = entry_rows[~(is_sound & np.append(is_followed, False))]
    tells = has_tags | ~np.isin(there[tag_rows], np.append(lacking, doubtful))
    return [
        _Witness(int(offsets[row]), bool(indexed))
        for row, indexed in zip(there[tag_rows[tells]], has_tags[tells], strict=True)
    ]


def _count(among: NDArray[np.int64], sought: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often each of some numbers is among others."""
    ordered = np.sort(among)
    return np.searchsorted(ordered, sought, side="right") - np.searchsorted(ordered, sought)


def _contradiction(
    older: _Witness, newer: _Witness, typed_with: Callable[[str], str] | None
) -> RmqIndexError:
    typed = [
        "" if typed_with is None else f" (`{typed_with(option)}`)"
        for option in ("--index-tags", "--no-index-tags")
    ]
    return RmqIndexError(
        f"the IndexFiles have an entry of the tags of the message at {older.offset}, and none of "
        f"those at {newer.offset}, so that they do not tell whether the broker indexes tags: "
        f"index_tags=True indexes them, as brokers from 5.4.0 on do{typed[0]}, index_tags=False "
        f"does not{typed[1]}"
    )
