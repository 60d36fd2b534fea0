"""Whether what leads behind a log's end can be believed.

A header or a unit that is damaged leads anywhere, and so does a queue in the folder of another
kind; the log itself is whole then.
So a header must name the message of an entry that is there; of a remote file, of one of the last.
Units must follow one that leads to its record, and are none if the log has the message of their
queue offset elsewhere.
Where the log has a message, its header or unit must name that one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqindex.errors import RmqIndexError
from rmqindex.indexfile.committed import open_index_source, read_header
from rmqindex.indexfile.geometry import infer_layout
from rmqindex.layout import ENTRY_DTYPE, ENTRY_SIZE, FIRST_POSITION, HEADER_SIZE
from rmqindex.logfile.leads import Lead, LeadKind, last_units
from rmqindex.queue_layout import BATCH_UNIT_DTYPE, BLANK_SIZE, NO_COMPACTED_OFFSET, UNIT_DTYPE
from rmqindex.record.batches import build_batch, schema_of
from rmqindex.record.numbers import java_integer
from rmqindex.record.records import gather, store_timestamp_of
from rmqindex.record_layout import MIN_RECORD_SIZE, QUEUE_ID_OFFSET, QUEUE_OFFSET_OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from rmqindex.record.records import Records

__all__ = ["named_stop", "proved_lead"]

# How many of a queue's newest units are looked at.
_UNITS = 1_024
# How many units before the log's end may be damaged, one after the other.
_ANCHORS = 8
_BLOCK_ROWS = 1 << 18
_DISPATCH_QUEUES = "INNER_MULTI_DISPATCH"
_DISPATCH_OFFSETS = "INNER_MULTI_QUEUE_OFFSET"


def proved_lead(
    leads: Iterable[Lead], end: int, read: Callable[[int, int], Iterator[Records]]
) -> Lead | None:
    """Return the first of what leads behind a log's end that can be believed.

    Args:
        leads: What leads to messages, the newest first.
        end: Where the log ends, bytes.
        read: Reads the log's records from an offset up to another one, over damage.
    """
    for lead in leads:
        if lead.phy_offset < end:
            break
        proved = _proved(lead, end, read)
        if proved is not None:
            return proved
    return None


def named_stop(lead: Lead, start: int, record_at: Callable[[int], Records | None]) -> int | None:
    """Return where the newest message ends that an IndexFile or a queue's file names.

    Args:
        lead: The file.
        start: Messages before this offset do not count, bytes.
        record_at: Returns the log's record that starts at an offset, alone; None without one.

    Returns:
        The offset, bytes; None if the log has none of the newest messages that the file names.
    """
    if lead.kind is LeadKind.INDEX:
        return _stop_by_header(lead, record_at)
    if lead.place is None or lead.place.local is None:
        return None
    path, is_batch = lead.place.local, lead.kind is LeadKind.BATCH_QUEUE
    _, units = last_units(path, BATCH_UNIT_DTYPE if is_batch else UNIT_DTYPE, _ANCHORS)
    for unit in units[(units["phy_offset"] >= start) & (units["size"] != BLANK_SIZE)][::-1]:
        found = record_at(int(unit["phy_offset"]))
        if found is not None and found.size[0] == unit["size"]:
            queue_offsets = _queue_offsets(found, path.parent.parent.name, path.parent.name)
            if len(queue_offsets):
                return int(found.phy_offset[0] + found.size[0])
    return None


def _stop_by_header(lead: Lead, record_at: Callable[[int], Records | None]) -> int | None:
    """Return where the message ends whose offset and store time the header of a file has."""
    with suppress(RmqIndexError), open_index_source(lead.place) as source:  # type: ignore[arg-type]
        header = read_header(source)
        found = record_at(header.end_phy_offset)
        if found is not None:

            def read(at: int, size: int) -> memoryview:
                return found.data[at : at + size]

            if store_timestamp_of(read, 0) == header.end_timestamp:
                return int(found.phy_offset[0] + found.size[0])
    return None


def _proved(lead: Lead, end: int, read: Callable[[int, int], Iterator[Records]]) -> Lead | None:
    if lead.place is None:
        return lead
    if lead.kind is LeadKind.INDEX:
        has_entry = _has_last_entry if lead.place.local is None else _has_entry
        return lead if has_entry(lead) else None
    if lead.place.local is not None and lead.kind in (LeadKind.QUEUE, LeadKind.BATCH_QUEUE):
        offset = _proved_unit(lead.place.local, lead.kind, end, read)
        return None if offset is None else lead._replace(phy_offset=offset)
    return lead


def _has_last_entry(lead: Lead) -> bool:
    """Return whether one of the last entries of a remote IndexFile leads where its header does.

    All are read where the geometry is not one of those that remote files show.
    """
    with suppress(RmqIndexError), open_index_source(lead.place) as source:  # type: ignore[arg-type]
        count = read_header(source).entry_count
        try:
            layout = infer_layout(source)
        except RmqIndexError:
            return _has_entry(lead)
        # A broker that is writing counts an entry before it raises the header's offset.
        last = source.entries(layout, np.array([max(count - 1, FIRST_POSITION), count], np.int64))
        return bool((last["phy_offset"] == lead.phy_offset).any())
    return False


def _has_entry(lead: Lead) -> bool:
    """Return whether any entry of an IndexFile leads where its header does.

    All geometries that its size allows have the same rows, counted from its end.
    """
    with suppress(RmqIndexError), open_index_source(lead.place) as source:  # type: ignore[arg-type]
        stop = source.size
        while stop >= HEADER_SIZE + ENTRY_SIZE:
            rows = min((stop - HEADER_SIZE) // ENTRY_SIZE, _BLOCK_ROWS)
            stop -= rows * ENTRY_SIZE
            block = np.frombuffer(source.read(stop, rows * ENTRY_SIZE), ENTRY_DTYPE)
            if (block["phy_offset"] == lead.phy_offset).any():
                return True
    return False


def _proved_unit(
    path: Path, kind: LeadKind, end: int, read: Callable[[int, int], Iterator[Records]]
) -> int | None:
    """Return the newest message behind a log's end to which a queue can be believed to lead."""
    is_batch = kind is LeadKind.BATCH_QUEUE
    dtype = BATCH_UNIT_DTYPE if is_batch else UNIT_DTYPE
    first, units = last_units(path, dtype, _UNITS)
    sound = _is_sound(units, is_batch=is_batch)
    numbers = np.arange(len(units), dtype=np.int64) + first + int(path.name) // dtype.itemsize
    queue_offsets = units["msg_base_offset"].astype(np.int64) if is_batch else numbers
    offsets, sizes = units["phy_offset"].astype(np.int64), units["size"].astype(np.int64)
    behind = np.flatnonzero(sound & (offsets >= end))
    before = np.flatnonzero(sound & (offsets < end))
    if not len(behind):
        return None
    if not len(before):
        follows = (offsets[a] + sizes[a] <= offsets[b] for a, b in pairwise(behind.tolist()))
        return int(offsets[behind[-1]]) if all(follows) else None
    for anchor in reversed(before[-_ANCHORS:].tolist()):
        at = int(offsets[anchor])
        if _size_at(read, at) == sizes[anchor]:
            topic, queue = path.parent.parent.name, path.parent.name
            elsewhere = np.concatenate(
                [np.empty(0, np.int64)]
                + [_queue_offsets(records, topic, queue) for records in read(at, end)]
            )
            left = behind[~np.isin(queue_offsets[behind], elsewhere)]
            return int(offsets[left].max()) if len(left) else None
    return None


def _is_sound(units: NDArray[Any], *, is_batch: bool) -> NDArray[np.bool_]:
    """Return which units a broker can have written for a message."""
    sizes = units["size"]
    sound = (units["phy_offset"] >= 0) & (sizes >= MIN_RECORD_SIZE) & (sizes != BLANK_SIZE)
    if is_batch:
        sound &= (units["store_timestamp"] > 0) & (units["msg_base_offset"] >= 0)
        sound &= (units["batch_size"] > 0) & (units["reserved"] == 0)
        sound &= units["compacted_offset"] == NO_COMPACTED_OFFSET
    return np.asarray(sound, np.bool_)


def _size_at(read: Callable[[int, int], Iterator[Records]], at: int) -> int | None:
    """Return the size of the record that starts at an offset; None without one."""
    for records in read(at, at + 1):
        if len(records) and records.phy_offset[0] == at:
            return int(records.size[0])
    return None


def _queue_offsets(records: Records, topic: str, queue: str) -> NDArray[np.int64]:
    """Return the queue offsets of records in a queue, by topic or by name."""
    name = os.fsencode(topic)
    number = int(queue) if queue.isdecimal() else -1
    queue_ids = gather(records.data, records.starts + QUEUE_ID_OFFSET, "i4").astype(np.int64)
    lengths = records.topic_stop - records.topic_start
    places = np.flatnonzero((queue_ids == number) & (lengths == len(name)))
    mine = [
        place
        for place in places.tolist()
        if records.data[records.topic_start[place] : records.topic_stop[place]] == name
    ]
    starts = records.starts[mine] + QUEUE_OFFSET_OFFSET
    own = gather(records.data, starts, "i8").astype(np.int64)
    return np.concatenate([own, _named_offsets(records, topic)])


def _named_offsets(records: Records, queue: str) -> NDArray[np.int64]:
    """Return the queue offsets in a light queue of the messages that name it."""
    names = [name.encode() for name in (_DISPATCH_QUEUES, _DISPATCH_OFFSETS)]
    found = []
    for row in build_batch(records, schema_of(("properties",)), names)["properties"]:
        properties = dict(row.as_py())
        queues = properties.get(_DISPATCH_QUEUES, "").split(",")
        offsets = properties.get(_DISPATCH_OFFSETS, "").split(",")
        if queue in queues and len(queues) == len(offsets):
            found.append(java_integer(offsets[queues.index(queue)], 64))
    return np.array([each for each in found if each is not None], np.int64)
