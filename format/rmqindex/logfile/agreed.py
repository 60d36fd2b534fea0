"""How much of a log DLedger's group has agreed on.

Entries behind that are in the log of one broker; another leader may replace them.
A broker notes the last entry every three seconds, and dispatches entries to index and queues in
their order as soon as the group has agreed on them, so the later one of both tells.
RocketMQ: ``DLedgerCommitLog.getMaxOffset``, ``ReputMessageService``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.dledger_layout import ENTRY_HEAD, INDEX_OFFSET
from rmqindex.logfile.end import last_with_data
from rmqindex.logfile.files import ExpiredFileError
from rmqindex.logfile.leads import LeadKind, find_leads
from rmqindex.logfile.reading import Reading, find_end, written_records
from rmqindex.logfile.walk import is_record
from rmqindex.logfile.witness import named_stop, proved_lead
from rmqindex.record.records import gather, parse_records
from rmqindex.store.dledger import committed_index, entry_place
from rmqindex.store.store import root_of

if TYPE_CHECKING:
    from rmqindex.logfile.files import LogFile, OpenFiles
    from rmqindex.record.records import Records

__all__ = ["UnagreedTail", "committed_offset"]


@dataclass(frozen=True, slots=True)
class UnagreedTail:
    """The end of a log on which DLedger's group is not known to have agreed.

    Attributes:
        offset: Where it begins, bytes.
        byte_count: How long it is.
    """

    offset: int
    byte_count: int

    def __str__(self) -> str:
        """Return what it is, and why it may not last."""
        return (
            f"the last {self.byte_count} bytes of the CommitLog, from offset {self.offset} on, on "
            "which the DLedger group is not known to have agreed, so that another leader may "
            "replace them"
        )


def committed_offset(files: OpenFiles, *, queues: bool = True) -> int | None:
    """Return the offset behind the last entry that the group is known to have agreed on.

    It is behind the log's end where a message is lost that index or queues lead to.

    Args:
        files: The files of the log.
        queues: Whether ConsumeQueues are looked at, of which there may be thousands, where an
            IndexFile has entries, too.

    Returns:
        The offset, bytes; None for a plain log, and where no broker noted an entry.
    """
    noted = _noted_offset(files)
    return None if noted is None else max(noted, _dispatched_offset(files, noted, queues=queues))


def _dispatched_offset(files: OpenFiles, noted: int, *, queues: bool) -> int:
    """Return the offset behind the last message to which index or queues lead; 0 before a note.

    What leads to another message than the log has there is of another history of the log.
    """
    roots = list(dict.fromkeys(root_of(file.path.parent) for file in files.files))
    for lead in find_leads(roots, files.files[-1].stop, queues=queues).newest:
        if lead.phy_offset < noted:
            break
        if lead.kind is LeadKind.NOTE:
            continue  # it proves a record, not that others have it
        stop = named_stop(lead, noted, lambda offset: _record_at(files, offset))
        if stop is not None:
            return stop
        if _record_at(files, lead.phy_offset) is None:
            lost = proved_lead(
                (lead,), find_end(files), lambda start, stop: written_records(files, start, stop)
            )
            if lost is not None:
                return lost.phy_offset + 1
    return 0


def _record_at(files: OpenFiles, offset: int) -> Records | None:
    """Return the record that starts at an offset, alone; None where none does."""
    file = next((file for file in files.files if file.start <= offset < file.stop), None)
    if file is None:
        return None
    try:
        source = files.source(file)
        size = is_record(source, file, offset - file.start, crc=True)
        if size is None:
            return None
        data = memoryview(source.read(offset - file.start, size))
    except ExpiredFileError:
        return None
    start = np.zeros(1, np.int64)
    return parse_records(data, start, start + offset)[0]


def _noted_offset(files: OpenFiles) -> int | None:
    """Return the offset behind the last entry that a broker noted; None without a note."""
    last = last_with_data(files)
    if last < 0 or not files.files[last].entry_head:
        return None
    data = files.files[last].path.parent
    agreed = committed_index(data)
    if agreed is None:
        return None
    framed = [file for file in files.files[: last + 1] if file.entry_head]
    place = entry_place(data, agreed) if agreed >= 0 else None
    if place is not None and _is_at(files, framed, place, agreed):
        return place[0] + place[1]
    end, reached = _by_walk(files, framed, agreed)
    if place is None or reached >= agreed:
        return end
    # The group agreed on an entry that the log no longer shows: that is damage, and no tail that
    # another leader may replace.
    return max(end, place[0] + place[1])


def _is_at(
    files: OpenFiles, framed: list[LogFile], place: tuple[int, int, int], agreed: int
) -> bool:
    """Tell whether an entry is where DLedger's own index has it."""
    pos, size, term = place
    for file in framed:
        if file.start <= pos <= file.stop - ENTRY_HEAD.size:
            head = ENTRY_HEAD.unpack(files.source(file).read(pos - file.start, ENTRY_HEAD.size))
            return bool(head[1:5] == (size, agreed, term, pos))
    return False


def _by_walk(files: OpenFiles, framed: list[LogFile], agreed: int) -> tuple[int, int]:
    """Return the end of an entry, or of the last one before it that has a record, and its index."""
    for file in reversed(framed):
        end, reached = None, -1
        for records in Reading(files, file.start, file.stop, drop=True).records():
            heads = records.starts - ENTRY_HEAD.size
            indexes = gather(records.data, heads + INDEX_OFFSET, "i8")
            count = int(np.searchsorted(indexes, agreed, side="right"))
            if count:
                end = int(records.phy_offset[count - 1] + records.size[count - 1])
                reached = int(indexes[count - 1])
            if count < len(records):
                break
        if end is not None:
            return end, reached
    return framed[0].start, -1
