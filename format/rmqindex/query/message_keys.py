"""The keys of messages, and which of them entries belong to by their hash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from rmqindex.commitlog.log import MATCH_STATES
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
from rmqindex.record.bodies import indexed_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog

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
