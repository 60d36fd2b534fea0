"""The queue offsets that records name (RocketMQ: ``MessageDispatch``, light queues)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.layout.record import (
    DISPATCH_OFFSETS,
    DISPATCH_QUEUES,
    QUEUE_ID_OFFSET,
    QUEUE_OFFSET_OFFSET,
)
from rmqindex.record.batches import build_batch, schema_of
from rmqindex.record.records import gather
from rmqindex.record.text import java_integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqindex.record.records import Records


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
        queues = properties.get(DISPATCH_QUEUES, "").split(",")
        offsets = properties.get(DISPATCH_OFFSETS, "").split(",")
        if queue in queues and len(queues) == len(offsets):
            found.append(java_integer(offsets[queues.index(queue)], 64))
    return np.array([each for each in found if each is not None], np.int64)
