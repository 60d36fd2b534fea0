"""The index keys of many records, hashed where they lie.

RocketMQ: ``IndexService.buildIndex``.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rmqindex.keys.hashing import (
    KEY_SEPARATOR,
    appended_hash_codes,
    ascii_hash_codes,
    index_key,
    joined_hashes,
)
from rmqindex.keys.messages import expand_messages, is_rolled_back, tag_key
from rmqindex.layout.record import (
    DISPATCH_OFFSETS,
    DISPATCH_QUEUES,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    QUEUE_ID_OFFSET,
    QUEUE_OFFSET_OFFSET,
)
from rmqindex.record.batches import build_batch, schema_of
from rmqindex.record.properties import PropertyPairs, Values
from rmqindex.record.records import gather
from rmqindex.record.text import cut, java_integer, java_split

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqindex.record.records import Records


_COLUMNS = ("topic", "uniq_key", "keys", "sys_flag", "tags")
_SPACE = ord(KEY_SEPARATOR)


class IndexKeys:
    """The index keys of records."""

    def __init__(self, records: Records) -> None:
        """Split the properties of records, which are not decoded."""
        self._records = records
        fields = cut(records.data, records.properties_start, records.properties_stop)
        self._pairs = PropertyPairs.split(fields)

    @cached_property
    def _tags(self) -> Values:
        return self._pairs.last_values(PROPERTY_TAGS)

    @property
    def has_tags(self) -> bool:
        """Whether any of the messages has tags."""
        return bool(len(self._tags.rows))

    def hashes(
        self, tagged: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the row of each key, ascending, and its hash, as ``expand_messages`` does."""
        return self._of_ascii(tagged) or self._of_texts(tagged)

    def _of_ascii(
        self, tagged: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """Hash bytes, which is right where all are ASCII; else return None."""
        records = self._records
        topics = ascii_hash_codes(records.data, records.topic_start, records.topic_stop)
        if topics is None:
            return None
        values = [("", self._pairs.last_values(PROPERTY_UNIQ_KEY)), ("", self._parts())]
        if tagged is not None:
            values.append((tag_key(""), self._tags.kept(tagged[self._tags.rows])))
        indexed = ~is_rolled_back(pa.array(records.sys_flag))
        rows, hashes = [], []
        for prefix, found in values:
            kept = found.kept(indexed[found.rows])
            codes = ascii_hash_codes(self._pairs.data, kept.starts, kept.stops)
            if codes is None:
                return None
            prefixes = appended_hash_codes(topics, index_key("", prefix))[kept.rows]
            rows.append(kept.rows)
            hashes.append(joined_hashes(prefixes, codes, kept.stops - kept.starts))
        all_rows = np.concatenate(rows)
        order = np.argsort(all_rows, kind="stable")  # a message's keys in the order of above
        return all_rows[order], np.concatenate(hashes)[order]

    def _parts(self) -> Values:
        """Return the parts of ``KEYS``, split at single spaces, without empty ones."""
        rows, starts, stops = values = self._pairs.last_values(PROPERTY_KEYS)
        spaces = np.flatnonzero(np.frombuffer(self._pairs.data, np.uint8) == _SPACE)
        if not len(spaces) or not len(rows):
            return values
        places = np.searchsorted(starts, spaces, side="right") - 1
        inside = (places >= 0) & (spaces < stops[places])
        spaces, places = spaces[inside], places[inside]
        counts = 1 + np.bincount(places, minlength=len(rows))
        # Values ascend, so that the nth start of a part is that of the nth stop.
        starts = np.sort(np.concatenate([starts, spaces + 1]))
        stops = np.sort(np.concatenate([stops, spaces]))
        return Values(np.repeat(rows, counts), starts, stops).kept(stops > starts)

    def _of_texts(
        self, tagged: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Decode the columns, as Java does, and hash those."""
        batch = build_batch(self._records, schema_of(_COLUMNS))
        *columns, tags = (batch[name] for name in _COLUMNS)
        if tagged is not None:
            columns.append(tags.take(pa.array(np.arange(len(tagged)), mask=~tagged)))
        rows, _, hashes = expand_messages(*columns)
        return rows, hashes


def queue_offsets_in(records: Records, topic: str, queue: str) -> NDArray[np.int64]:
    """Return the queue offsets of records in a queue, by topic or by name."""
    name = os.fsencode(topic)
    number = int(queue) if queue.isdecimal() else -1
    queue_ids = gather(records.data, records.starts + QUEUE_ID_OFFSET, "i4").astype(np.int64)
    lengths = records.topic_stop - records.topic_start
    places = np.flatnonzero((queue_ids == number) & (lengths == len(name)))
    mine = [place for place in places.tolist() if records.topic(place) == name]
    starts = records.starts[mine] + QUEUE_OFFSET_OFFSET
    own = gather(records.data, starts, "i8").astype(np.int64)
    return np.concatenate([own, _named_offsets(records, topic)])


def _named_offsets(records: Records, queue: str) -> NDArray[np.int64]:
    """Return the queue offsets in a light queue of the messages that name it."""
    names = [name.encode() for name in (DISPATCH_QUEUES, DISPATCH_OFFSETS)]
    found = []
    for row in build_batch(records, schema_of(("properties",)), names)["properties"]:
        properties = dict(row.as_py())
        queues = java_split(properties.get(DISPATCH_QUEUES, ""))
        offsets = java_split(properties.get(DISPATCH_OFFSETS, ""))
        if queue in queues and len(queues) == len(offsets):
            found.append(java_integer(offsets[queues.index(queue)], 64))
    return np.array([each for each in found if each is not None], np.int64)
