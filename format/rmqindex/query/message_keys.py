"""The keys of messages, and which of them an entry is: by its hash, and by its rank.

The rank of an entry is that among all entries that the index has of its message.
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
import pyarrow as pa

from rmqindex.commitlog.log import MATCH_STATES
from rmqindex.errors import RmqIndexError
from rmqindex.keys.hashing import index_key, index_key_hashes, key_hash
from rmqindex.keys.messages import (
    HASH_BITS,
    KEY_COLUMNS,
    expand_messages,
    indexed_tags,
    is_rolled_back,
    pack_pairs,
    tag_key,
)
from rmqindex.layout.index_file import FIRST_POSITION
from rmqindex.record.bodies import indexed_keys
from rmqindex.store.snapshot import open_in_store
from rmqindex.store.store import list_index_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.entries import MessageRun
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.indexfile.reader import IndexFile
    from rmqindex.storage.location import Location
    from rmqindex.store.snapshot import SnapshotFile
    from rmqindex.transaction.directories import FileEntry


#: The columns of messages that their keys are made of.
ALL_KEY_COLUMNS = ("topic", "all_uniq_keys", "all_keys")
# As many messages are hashed faster one by one than by the calls of NumPy and Arrow.
_FEW_MESSAGES = 16
_RECORD = MATCH_STATES.index("record")


@dataclass(frozen=True, slots=True)
class KeyMatches:
    """The keys of each entry's message that have its hash."""

    first: NDArray[np.int64]  # the place of the first in ``KeySet.order``
    count: NDArray[np.int64]
    place: NDArray[np.int64]  # the first key's place in the set; undefined where there is none
    several: NDArray[np.bool_]  # whether their texts differ


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys of messages: those that every broker indexes, ``T#`` and tags, those of members."""

    texts: pa.Array  # without topics
    rows: NDArray[np.int64]
    hashes: NDArray[np.int32]
    indexed: int  # how many keys every broker indexes
    tagged: int  # how many keys a broker that indexes tags indexes
    order: NDArray[np.int64]  # by message, hash and place in the message
    sorted: NDArray[np.int64]  # message and hash of each in this order, packed

    @classmethod
    def of(
        cls,
        messages: pa.RecordBatch,
        tag_hashes: NDArray[np.int32] | None,
        members: tuple[NDArray[np.int64], list[str]] | None = None,
    ) -> KeySet:
        """Collect the keys of messages."""
        rows, texts = indexed_keys(messages.column("all_uniq_keys"), messages.column("all_keys"))
        indexed = len(texts)
        if tag_hashes is not None:
            tag_rows, tag_keys = indexed_tags(messages.column("tags"))
            rows, texts = np.concatenate([rows, tag_rows]), pa.concat_arrays([texts, tag_keys])
        tagged = len(texts)
        if members is not None and members[1]:
            member_rows, member_texts = members
            rows = np.concatenate([rows, member_rows])
            texts = pa.concat_arrays([texts, pa.array(member_texts, pa.string())])
        topics = messages.column("topic").dictionary_encode().take(pa.array(rows))
        if tag_hashes is None:
            hashes = index_key_hashes(topics, texts)
        else:
            others = (slice(indexed), slice(tagged, None))
            before, after = (index_key_hashes(topics[part], texts[part]) for part in others)
            hashes = np.concatenate([before, tag_hashes[rows[indexed:tagged]], after])
        both = pack_pairs(rows, hashes)
        order = np.argsort(both, kind="stable")
        return cls(texts, rows, hashes, indexed, tagged, order, both[order])

    def match(self, message: NDArray[np.int64], hashes: NDArray[np.int32]) -> KeyMatches:
        """Find the keys of each entry's message that have its hash."""
        both = np.where(message < 0, np.int64(-1), pack_pairs(message, hashes))
        first = np.searchsorted(self.sorted, both, side="left")
        count = np.searchsorted(self.sorted, both, side="right") - first
        found = count > 0
        place = np.zeros(len(both), np.int64)
        place[found] = self.order[first[found]]
        several = count > 1
        if several.any():
            several[several] = self._differ(first[several], count[several])
        return KeyMatches(first, count, place, several)

    def group(self, matches: KeyMatches, entry: int) -> NDArray[np.int64]:
        """Return the places of the keys of one entry, in the message's order."""
        first = matches.first[entry]
        return self.order[first : first + matches.count[entry]]

    def dispatches(self, row: int) -> list[tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """Return what brokers and writers of other versions index of one message."""
        first, last = np.searchsorted(self.sorted, [row << HASH_BITS, row + 1 << HASH_BITS])
        places = np.sort(self.order[first:last])
        own = places < self.indexed
        tag = (places >= self.indexed) & (places < self.tagged)
        chosen = (own, own | tag, ~tag, own | True)
        distinct = {tuple(places[each].tolist()): places[each] for each in chosen}
        return [(self.hashes[each], each) for each in distinct.values()]

    def _differ(self, first: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.bool_]:
        codes = self.texts.dictionary_encode().indices.to_numpy(zero_copy_only=False)[self.order]
        changes = np.append(0, np.cumsum(codes[1:] != codes[:-1]))
        differ: NDArray[np.bool_] = changes[first + count - 1] > changes[first]
        return differ


def hash_tags(messages: pa.RecordBatch) -> NDArray[np.int32]:
    """Return the hash of each message's tags, each distinct topic and tags hashed once."""
    found = np.full(messages.num_rows, -1, np.int32)
    if messages.num_rows <= _FEW_MESSAGES:
        columns = (messages.column(name).to_pylist() for name in ("topic", "tags"))
        for row, (topic, text) in enumerate(zip(*columns, strict=True)):
            if text:
                found[row] = key_hash(index_key(topic, tag_key(text)))
        return found
    topics, tags = (messages.column(name).dictionary_encode() for name in ("topic", "tags"))
    rows, keys = indexed_tags(tags.dictionary)
    key_of_tags = np.full(len(tags.dictionary) + 1, -1, np.int64)
    key_of_tags[rows] = np.arange(len(rows))
    codes = key_of_tags[tags.indices.fill_null(len(tags.dictionary)).to_numpy()]
    there = np.flatnonzero(codes >= 0)
    if len(there):
        both = topics.indices.to_numpy()[there] * np.int64(len(keys)) + codes[there]
        pairs = pa.array(both).dictionary_encode()
        topic, key = np.divmod(pairs.dictionary.to_numpy(), len(keys))
        texts = (topics.dictionary.take(pa.array(topic)), keys.take(pa.array(key)))
        found[there] = index_key_hashes(*texts)[pairs.indices.to_numpy()]
    return found


class LogKeys(NamedTuple):
    """States (places in ``MATCH_STATES``), times and keys of the messages at offsets."""

    states: NDArray[np.int8]
    times: NDArray[np.int64]  # epoch milliseconds; 0 without a message
    keys: NDArray[np.int64]  # row and key hash, packed
    rolled_back: NDArray[np.bool_]  # of which a broker indexes none

    def have(self, rows: NDArray[np.int64], hashes: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which hashes are of a key of the message in their row."""
        return np.isin(pack_pairs(rows, hashes), self.keys)


def keys_at(log: CommitLog, offsets: NDArray[np.int64], *, tags: bool) -> LogKeys:
    """Read the keys of messages."""
    columns = [*KEY_COLUMNS, *(["tags"] if tags else [])]
    found = log.read_at(offsets, [*columns, "store_timestamp"])
    states = found["state"].indices.to_numpy()
    times = found["store_timestamp"].fill_null(0).to_numpy(zero_copy_only=False)
    there = np.flatnonzero(states == _RECORD)
    messages = found.take(pa.array(there))
    rows, _, hashes = expand_messages(*(messages[name] for name in columns))
    rolled_back = is_rolled_back(found["sys_flag"])
    return LogKeys(states, times, pack_pairs(there[rows], hashes), rolled_back)


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
