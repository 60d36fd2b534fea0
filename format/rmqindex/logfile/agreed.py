"""How much of a log DLedger's group has agreed on.

Entries behind that are in the log of one broker; another leader may replace them.
RocketMQ: ``DLedgerCommitLog.getMaxOffset``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.dledger_layout import ENTRY_HEAD, INDEX_OFFSET
from rmqindex.logfile.reading import Reading
from rmqindex.record.records import gather
from rmqindex.store.dledger import committed_index, entry_place

if TYPE_CHECKING:
    from rmqindex.logfile.files import LogFile, OpenFiles

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


def committed_offset(files: OpenFiles) -> int | None:
    """Return the offset behind the last entry that the group is known to have agreed on.

    Args:
        files: The files of the log.

    Returns:
        The offset, bytes; None for a plain log, and where no broker noted an entry.
    """
    last = files.last_with_data()
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
