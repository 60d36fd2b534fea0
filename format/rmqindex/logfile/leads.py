"""What lies beside a log and leads to its messages, by which it proves what the log had.

A broker writes to the CommitLog first, so an IndexFile or a ConsumeQueue that leads behind the
log's end proves that the log had messages there.
So does the checkpoint's ``confirmPhyOffset``, which a broker never sets behind the end of its own
log, if a file of the log has that offset; ``masterFlushedOffset`` is another broker's, and times of
messages prove no offset.
With DLedger, the entry that the group had agreed on last is in the log.
"""

from __future__ import annotations

import enum
import os
import re
from bisect import bisect_left
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from rmqindex.dledger_layout import ENTRY_HEAD
from rmqindex.errors import RmqIndexError
from rmqindex.folders import BATCH_FOLDER, INDEX_FOLDER, QUEUE_FOLDER
from rmqindex.indexfile.committed import open_index_source, read_header
from rmqindex.queue_layout import BATCH_UNIT_DTYPE, BLANK_SIZE, FILE_NAME_DIGITS, UNIT_DTYPE
from rmqindex.storage.location import Location
from rmqindex.store.checkpoint import CHECKPOINT_NAME, StoreCheckpoint
from rmqindex.store.dledger import committed_index, dledger_data, entry_place
from rmqindex.store.store import index_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["Lead", "LeadKind", "Leads", "find_leads", "last_units"]

T = TypeVar("T")

_QUEUE_FILE = re.compile(rf"[0-9]{{{FILE_NAME_DIGITS}}}")


class LeadKind(enum.Enum):
    """What kind of file leads to a message."""

    INDEX = "index"
    QUEUE = "queue"
    BATCH_QUEUE = "batch queue"
    NOTE = "note"


class Lead(NamedTuple):
    """A file that leads to a message.

    Attributes:
        phy_offset: The message's offset, bytes.
        path: The file.
        kind: What it is.
        place: Where an IndexFile or a queue's file is.
    """

    phy_offset: int
    path: str
    kind: LeadKind = LeadKind.NOTE
    place: Location | None = None


class Leads(NamedTuple):
    """What leads to a log's messages.

    Attributes:
        first: The oldest file that a broker deletes with its messages, by its last message.
        newest: The one of each index and queue, the newest first;
            :func:`rmqindex.logfile.witness.proved_lead` says which to believe.
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

    Of a remote store, ConsumeQueues are not looked at: that takes a request for each.

    Args:
        roots: The roots of the log's store, or stores.
        log_stop: The offset behind the log's last file.
        index: The directory of an index that goes with the log, if it is not in one of them.
        queues: Whether ConsumeQueues are looked at where an IndexFile has entries, too.
    """
    roots = [root for root in roots if not _is_shared(root)]
    indexes = [root.child(INDEX_FOLDER) for root in roots]
    if index is not None and index not in indexes:
        indexes.append(index)
    expiring: list[Lead] = []
    newest: list[Lead] = []
    for each in indexes:
        _add(_index_files(each), _index_lead, expiring, newest)
    # A queue without new messages keeps a file until the next of them, however old it is.
    of_queues: list[Lead] = [] if newest else expiring
    queues = queues or not newest
    for root in roots:
        newest += _agreed_lead(root)
        if root.local is not None:
            newest += _checkpoint_lead(root.local, log_stop)
            for files, is_batch in _queues_of(root.local) if queues else ():
                lead = _batch_queue_lead if is_batch else _queue_lead
                _add(files, lead, of_queues, newest)
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


def _index_files(index: Location) -> list[Location]:
    with suppress(RmqIndexError):  # none
        return [entry.path for entry in index_entries(index) if not entry.is_directory]
    return []


def _index_lead(path: Location) -> list[Lead]:
    """Return to which message the last entry of a file leads; nothing where it has none."""
    with suppress(RmqIndexError), open_index_source(path) as source:
        header = read_header(source)
        if header.entry_count:
            return [Lead(header.end_phy_offset, str(path), LeadKind.INDEX, path)]
    return []


def _agreed_lead(root: Location) -> list[Lead]:
    """Return the last entry that DLedger's group had agreed on, by DLedger's own index."""
    with suppress(RmqIndexError):
        data = dledger_data(root)
        agreed = None if data is None else committed_index(data)
        if data is not None and agreed is not None and agreed >= 0:
            place = entry_place(data, agreed)
            if place is not None:
                return [Lead(place[0] + ENTRY_HEAD.size, str(data.parent))]
    return []


def _checkpoint_lead(root: Path, log_stop: int) -> list[Lead]:
    """Return the last byte that is confirmed."""
    path = root / CHECKPOINT_NAME
    with suppress(OSError, RmqIndexError):
        confirmed = StoreCheckpoint.load(path).confirm_phy_offset
        if 0 < confirmed <= log_stop:
            return [Lead(confirmed - 1, str(path))]
    return []


def _queues_of(root: Path) -> Iterator[tuple[list[Path], bool]]:
    """Yield the files of each queue of a store, oldest first, and whether it is a batch queue."""
    for name in (QUEUE_FOLDER, BATCH_FOLDER):
        for topic in _names_in(root / name):
            for queue in _names_in(root / name / topic):
                folder = root / name / topic / queue
                files = [each for each in _names_in(folder) if _QUEUE_FILE.fullmatch(each)]
                yield [folder / each for each in sorted(files)], name == BATCH_FOLDER


def _names_in(folder: Path) -> Iterable[str]:
    with suppress(OSError):  # none, or a broker deletes it meanwhile
        return os.listdir(folder)  # noqa: PTH208  (of thousands)
    return []


def _queue_lead(path: Path) -> list[Lead]:
    return _unit_lead(path, UNIT_DTYPE, LeadKind.QUEUE)


def _batch_queue_lead(path: Path) -> list[Lead]:
    return _unit_lead(path, BATCH_UNIT_DTYPE, LeadKind.BATCH_QUEUE)


def _unit_lead(path: Path, dtype: np.dtype[Any], kind: LeadKind) -> list[Lead]:
    """Return to which message the last unit of a file leads, reading few bytes.

    Nothing where the file has no unit, or a blank one last.
    """
    _, units = last_units(path, dtype, 1)
    if len(units):
        last = units[-1]
        if last["phy_offset"] or last["size"] != BLANK_SIZE:
            return [Lead(int(last["phy_offset"]), str(path), kind, Location.of(path))]
    return []


def last_units(path: Path, dtype: np.dtype[Any], most: int) -> tuple[int, NDArray[Any]]:
    """Read the last written units of a queue's file.

    Args:
        path: The file.
        dtype: The layout of its units.
        most: How many are read at most.

    Returns:
        The number of the first one, and the units; none where the file cannot be read.
    """
    size_at, width = dtype.fields["size"][1], dtype["size"].itemsize  # type: ignore[index]
    with suppress(OSError), open(path, "rb", buffering=0) as file:  # noqa: PTH123  (of thousands)
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
