"""What beside a log leads to its messages, and whether that proves what the log had.

A broker writes to the CommitLog first, so an IndexFile or a ConsumeQueue that leads behind the
log's end proves that the log had messages there.
So does the checkpoint's ``confirmPhyOffset``, which a broker never sets behind the end of its own
log, if a file of the log has that offset; ``masterFlushedOffset`` is another broker's, and times of
messages prove no offset.
With DLedger, the entry that the group had agreed on last is in the log; where its own index does
not tell the offset, the indexes of the entries tell whether the log reaches it.

A header or a unit that is damaged leads anywhere, and so does a queue in the folder of another
kind; the log itself is whole then.
So a header must name the message of an entry that is there; of a remote file, of one of the last.
Units must follow one that leads to its record, and are none if the log has the message of their
queue offset elsewhere.
Where the log has a message, its header or unit must name that one.
"""

from __future__ import annotations

import enum
import os
import re
from bisect import bisect_left
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from rmqindex.commitlog.files import find_files
from rmqindex.commitlog.walk import lost_entry
from rmqindex.errors import RmqIndexError
from rmqindex.indexfile.committed import entry_rows, header_of, open_index_source, read_header
from rmqindex.indexfile.geometry import infer_layout
from rmqindex.layout.dledger import ENTRY_HEAD
from rmqindex.layout.index_file import (
    END_PHY_OFFSET_OFFSET,
    FIRST_POSITION,
    HEADER_SIZE,
    INT64_MAX,
)
from rmqindex.layout.queue import (
    BLANK_SIZE,
    NO_COMPACTED_OFFSET,
    UNIT_DTYPE,
    unit_dtype,
)
from rmqindex.layout.record import (
    FILE_NAME_DIGITS,
    MIN_RECORD_SIZE,
    QUEUE_ID_OFFSET,
    QUEUE_OFFSET_OFFSET,
)
from rmqindex.layout.store import BATCH_FOLDER, CHECKPOINT_NAME, INDEX_FOLDER, QUEUE_FOLDER
from rmqindex.record.index_keys import queue_offsets_in
from rmqindex.record.records import gather, have_places, store_timestamp_of
from rmqindex.storage.disk import open_to_read
from rmqindex.storage.location import Location
from rmqindex.store.checkpoint import StoreCheckpoint
from rmqindex.store.dledger import committed_index, dledger_data, entry_place
from rmqindex.store.store import index_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

from rmqindex.record.records import Records

T = TypeVar("T")
_QUEUE_FILE = re.compile(rf"[0-9]{{{FILE_NAME_DIGITS}}}")


class LeadKind(enum.Enum):
    """What kind of file leads to a message."""

    INDEX = "index"
    QUEUE = "queue"
    BATCH_QUEUE = "batch queue"
    ENTRY = "entry"
    NOTE = "note"


_QUEUE_KINDS = LeadKind.QUEUE, LeadKind.BATCH_QUEUE


class Lead(NamedTuple):
    """A file that leads to a message.

    Attributes:
        phy_offset: The message's offset, bytes.
        path: The file.
        kind: What it is.
        place: Where an IndexFile or a queue's file is; the store of an entry.
        entry: The index of an entry, whose offset only the log itself can tell.
    """

    phy_offset: int
    path: str
    kind: LeadKind = LeadKind.NOTE
    place: Location | None = None
    entry: int = -1


class Leads(NamedTuple):
    """What leads to a log's messages.

    Attributes:
        first: The oldest file that a broker deletes with its messages, by its last message.
        newest: The one of each queue, and of each index all that reach as far as the last file, the
            newest first; :func:`proved_lead` says which to believe.
    """

    first: Lead | None
    newest: tuple[Lead, ...]


def find_leads(
    roots: Sequence[Location],
    log_stop: int,
    *,
    index: Location | None = None,
    queues: bool = True,
) -> Leads:
    """Return the oldest and the newest of what leads to messages of a log.

    Of a remote store, ConsumeQueues are not looked at: that takes a request for each. Without
    ``queues``, they are looked at only where no IndexFile has entries. ``index`` is the directory
    of an index that goes with the log but is in none of the roots.
    """
    roots = [root for root in roots if not _is_shared(root)]
    indexes = [root.child(INDEX_FOLDER) for root in roots]
    if index is not None and index not in indexes:
        indexes.append(index)
    expiring: list[Lead] = []
    newest: list[Lead] = []
    for each in indexes:
        of_index = index_files(each)
        before = len(newest)
        _add(of_index, _index_lead, expiring, newest)
        if len(newest) > before and each.local is not None:  # a remote one takes a request a file
            newest += _further_leads(of_index, newest[-1])
    # A queue without new messages keeps a file until the next of them, however old it is.
    of_queues: list[Lead] = [] if newest else expiring
    queues = queues or not newest
    for root in roots:
        newest += _agreed_lead(root)
        if root.local is not None:
            newest += _checkpoint_lead(root.local, log_stop)
            for files, kind in _queues_of(root.local) if queues else ():
                _add(files, partial(_unit_lead, kind=kind), of_queues, newest)
    newest.sort(key=lambda lead: lead.phy_offset, reverse=True)
    first = min(expiring, key=lambda lead: lead.phy_offset, default=None)
    return Leads(first, tuple(newest))


def _is_shared(root: Location) -> bool:
    """Return whether several DLedger brokers share a store: nothing tells whose index it has."""
    try:
        dledger_data(root)
    except RmqIndexError:
        return True
    return False


def _add(
    files: Sequence[T], lead: Callable[[T], list[Lead]], expiring: list[Lead], newest: list[Lead]
) -> None:
    """Add where the files of an index or a queue lead, which are given oldest first."""
    # A broker never deletes the last file.
    for path in files[:1] if len(files) > 1 else ():
        expiring += lead(path)
    for path in reversed(files):
        found = lead(path)
        newest += found
        if found:
            return


def index_files(index: Location) -> list[Location]:
    """Return the IndexFiles of a directory in the broker's order; none where it is not there."""
    with suppress(RmqIndexError):
        return [entry.path for entry in index_entries(index) if not entry.is_directory]
    return []


def _index_lead(path: Location) -> list[Lead]:
    """Return to which message the last entry of a file leads; nothing where it has none."""
    with suppress(RmqIndexError):
        header = header_of(path)
        if header.entry_count:
            return [Lead(header.end_phy_offset, str(path), LeadKind.INDEX, path)]
    return []


def _further_leads(files: Sequence[Location], last: Lead) -> Iterator[Lead]:
    """Yield what leads as far as the last file: where a clock stepped back, an earlier one does.

    Of each of what may be thousands of files, one field is read.
    """
    for path in files:
        with suppress(OSError, RmqIndexError):
            descriptor = open_to_read(path, os.O_RDONLY)
            try:
                data = os.pread(descriptor, HEADER_SIZE, 0)
            finally:
                os.close(descriptor)
            end = int.from_bytes(data[END_PHY_OFFSET_OFFSET:][:8], "big", signed=True)
            if len(data) == HEADER_SIZE and end >= last.phy_offset and path != last.place:
                yield from _index_lead(path)


def _agreed_lead(root: Location) -> list[Lead]:
    """Return the last entry that DLedger's group had agreed on, by DLedger's own index if it can.

    Else only the log itself can tell whether it has it. One without a message leads to its head.
    """
    with suppress(RmqIndexError):
        data = dledger_data(root)
        agreed = None if data is None else committed_index(data)
        if data is not None and agreed is not None and agreed >= 0:
            lead = Lead(INT64_MAX, str(data.parent), LeadKind.ENTRY, root, agreed)
            place = entry_place(data, agreed)
            head = ENTRY_HEAD.size if place and place[1] > ENTRY_HEAD.size else 0
            return [lead if place is None else Lead(place[0] + head, lead.path)]
    return []


def _checkpoint_lead(root: Path, log_stop: int) -> list[Lead]:
    """Return the last byte that is confirmed."""
    path = root / CHECKPOINT_NAME
    with suppress(OSError, RmqIndexError):
        confirmed = StoreCheckpoint.load(path).confirm_phy_offset
        if 0 < confirmed <= log_stop:
            return [Lead(confirmed - 1, str(path))]
    return []


def _queues_of(root: Path) -> Iterator[tuple[list[Path], LeadKind]]:
    """Yield the files of each queue of a store, oldest first, and what they are."""
    for name, kind in ((QUEUE_FOLDER, LeadKind.QUEUE), (BATCH_FOLDER, LeadKind.BATCH_QUEUE)):
        for topic in _names_in(root / name):
            for queue in _names_in(root / name / topic):
                folder = root / name / topic / queue
                files = [each for each in _names_in(folder) if _QUEUE_FILE.fullmatch(each)]
                yield [folder / each for each in sorted(files)], kind


def _names_in(folder: Path) -> Iterable[str]:
    with suppress(OSError):  # none, or a broker deletes it meanwhile
        return os.listdir(folder)  # noqa: PTH208  (of thousands)
    return []


def _unit_lead(path: Path, kind: LeadKind) -> list[Lead]:
    """Return where the last unit of a file leads; nothing if there is none, or a blank one."""
    _, units = _last_units(path, kind, 1)
    if len(units):
        last = units[-1]
        if last["phy_offset"] or last["size"] != BLANK_SIZE:
            return [Lead(int(last["phy_offset"]), str(path), kind, Location.of(path))]
    return []


def _last_units(path: Path, kind: LeadKind, most: int) -> tuple[int, NDArray[Any]]:
    """Read the last written units of a queue's file, at most this many.

    Return the number of the first one, and the units; none where the file cannot be read.
    """
    dtype = unit_dtype(is_batch=kind is LeadKind.BATCH_QUEUE)
    size_at, width = dtype.fields["size"][1], dtype["size"].itemsize  # type: ignore[index]
    with suppress(OSError, RmqIndexError), open(path, "rb", 0, opener=open_to_read) as file:
        descriptor = file.fileno()

        def is_unwritten(number: int) -> bool:
            data = os.pread(descriptor, width, number * dtype.itemsize + size_at)
            return int.from_bytes(data, "big", signed=True) <= 0

        count = os.fstat(descriptor).st_size // dtype.itemsize
        # Units are written one after the other: the unwritten ones are behind the others.
        written = bisect_left(range(count), True, key=is_unwritten)
        first = max(0, written - most)
        data = os.pread(descriptor, (written - first) * dtype.itemsize, first * dtype.itemsize)
        return first, np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)
    return 0, np.empty(0, dtype)


# How many of a queue's newest units are looked at.
_UNITS = 1_024
# How many units before the log's end may be damaged, one after the other.
_ANCHORS = 8


def proved_lead(
    leads: Iterable[Lead], end: int, read: Callable[[int, int], Iterator[Records]]
) -> Lead | None:
    """Return the first of what leads behind a log's end that can be believed.

    The leads are given the newest first; ``read`` reads the log's records from an offset up to
    another one, over damage.
    """
    for lead in leads:
        if lead.phy_offset < end:
            break
        if (proved := _proved(lead, end, read)) is not None:
            return proved
    return None


def named_stop(lead: Lead, start: int, record_at: Callable[[int], Records | None]) -> int | None:
    """Return where the newest message ends that an IndexFile or a queue's file names.

    None if the log has none of the newest messages that the file names; messages before ``start``
    do not count. ``record_at`` returns the log's record that starts at an offset, alone.
    """
    if lead.kind is LeadKind.INDEX:
        return _stop_by_header(lead, record_at)
    if lead.place is None or lead.place.local is None:
        return None
    path = lead.place.local
    _, units = _last_units(path, lead.kind, _ANCHORS)
    for unit in units[(units["phy_offset"] >= start) & (units["size"] != BLANK_SIZE)][::-1]:
        found = record_at(int(unit["phy_offset"]))
        if found is not None and found.size[0] == unit["size"]:
            queue_offsets = queue_offsets_in(found, path.parent.parent.name, path.parent.name)
            if len(queue_offsets):
                return int(found.phy_offset[0] + found.size[0])
    return None


def led_by_unit(
    root: Path, records: Records, place: int, known: range, find: Callable[[int], Records | None]
) -> bool | None:
    """Return whether the unit of a record's queue offset leads to it, in a plain queue of a store.

    False where that leads elsewhere, None without one: a broker that ends its log before a record
    ends the queues there, too. The bytes of units stay: one counts for none if the unit before it
    that leads into a range of offsets, where all records are known, leads to none of the queue.
    """
    start = records.starts[place : place + 1]
    queue_id = int(gather(records.data, start + QUEUE_ID_OFFSET, "i4")[0])
    number = int(gather(records.data, start + QUEUE_OFFSET_OFFSET, "i8")[0])
    topic = bytes(records.topic(place))
    if b"\0" in topic or b"/" in topic or number < 0 or not have_places(records)[place]:
        return None
    folder = root / QUEUE_FOLDER / os.fsdecode(topic) / str(queue_id)
    units = _units_up_to(folder, number)
    if not len(units) or units["size"][-1] <= 0 or units["size"][-1] == BLANK_SIZE:
        return None
    if units["phy_offset"][-1] != records.phy_offset[place]:
        return False
    for back, offset in enumerate(reversed(units["phy_offset"][:-1].tolist()), start=1):
        if offset in known:
            found = find(offset)
            names = os.fsdecode(topic), str(queue_id)
            return (found is not None and number - back in queue_offsets_in(found, *names)) or None
    return True


def _units_up_to(folder: Path, number: int) -> NDArray[Any]:
    """Return the unit of a queue offset, and those before it in its file, at most so many."""
    position = number * UNIT_DTYPE.itemsize
    files = sorted(name for name in _names_in(folder) if _QUEUE_FILE.fullmatch(name))
    for name in [name for name in files if int(name) <= position][-1:]:
        path = folder / name
        with suppress(OSError, RmqIndexError), open(path, "rb", 0, opener=open_to_read) as file:
            stop = position - int(name) + UNIT_DTYPE.itemsize
            first = max(stop - _UNITS * UNIT_DTYPE.itemsize, 0)
            data = os.pread(file.fileno(), stop - first, first)
            if len(data) == stop - first:
                return np.frombuffer(data, UNIT_DTYPE)
    return np.empty(0, UNIT_DTYPE)


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
    if lead.kind is LeadKind.ENTRY:
        least = lost_entry(find_files(lead.place), lead.entry, end)
        return None if least is None or least < end else lead._replace(phy_offset=least)
    if lead.kind is LeadKind.INDEX:
        has_entry = _has_last_entry if lead.place.local is None else _has_entry
        return lead if has_entry(lead) else None
    if lead.place.local is not None and lead.kind in _QUEUE_KINDS:
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
    """Return whether any entry of an IndexFile leads where its header does."""
    with suppress(RmqIndexError), open_index_source(lead.place) as source:  # type: ignore[arg-type]
        return any((rows["phy_offset"] == lead.phy_offset).any() for rows in entry_rows(source))
    return False


def _proved_unit(
    path: Path, kind: LeadKind, end: int, read: Callable[[int, int], Iterator[Records]]
) -> int | None:
    """Return the newest message behind a log's end to which a queue can be believed to lead."""
    is_batch = kind is LeadKind.BATCH_QUEUE
    first, units = _last_units(path, kind, _UNITS)
    sound = _is_sound(units, is_batch=is_batch)
    numbers = np.arange(len(units), dtype=np.int64) + first + int(path.name) // units.itemsize
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
            passed, elsewhere = offsets[before[before > anchor]], np.empty(0, np.int64)
            for records in read(at, end):
                around = np.searchsorted(records.phy_offset, passed, side="left") - 1
                stops = records.phy_offset + records.size
                if (passed < np.where(around < 0, 0, stops[around])).any():
                    return None  # it leads into a message, and is left from before a cut
                more = queue_offsets_in(records, topic, queue)
                elsewhere = np.concatenate([elsewhere, more])
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
