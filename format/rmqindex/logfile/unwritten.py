"""Tells a record that a broker is still writing from one that is damaged.

A broker copies a record, or the records of one batch, into a file of zeros, and no order of the
bytes of a copy is promised, so a record may be seen whole in its parts, but not in its bytes.
Only once the copy is done does a broker index the message and count it in a queue.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.logfile.leads import find_leads
from rmqindex.logfile.walk import record_crc_fault
from rmqindex.record.records import store_timestamp_of
from rmqindex.store.roots import root_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqindex.logfile.files import LogFile, OpenFiles
    from rmqindex.record.records import Records
    from rmqindex.storage.source import ByteSource

__all__ = ["UNSURE_BYTES", "UNSURE_RECORDS", "WrittenBlocks", "is_in_doubt"]

# A broker copies no more at once than one largest message (maxMessageSize), and a batch with more
# messages than this would consist of tiny ones.
UNSURE_BYTES = 4 * 1024 * 1024
UNSURE_RECORDS = 1024


def is_in_doubt(records: Records, place: int) -> bool:
    """Return whether a record looks as if bytes of it were not written yet.

    Args:
        records: A block of records.
        place: The record's place in it.
    """
    if record_crc_fault(records, place) is not None:
        return True
    texts = (
        (records.topic_start[place], records.topic_stop[place]),
        (records.properties_start[place], records.properties_stop[place]),
    )
    return any(0 in records.data[int(start) : int(stop)] for start, stop in texts)


class WrittenBlocks:
    """Passes on the blocks of a file of a log, but for what a broker is writing.

    A record is being written if bytes of it seem to lack, it and all behind it up to the log's end
    have one store time, as the records of one copy have, and nothing beside the log leads to it or
    to one behind it.
    """

    def __init__(
        self, files: OpenFiles, source: ByteSource, file: LogFile, *, is_live: bool
    ) -> None:
        """Begin.

        Args:
            files: The files of the log.
            source: One of them.
            file: What file it is.
            is_live: Whether a broker may be writing to it; else all blocks are passed on.
        """
        self._files = files
        self._source = source
        self._file = file
        self._is_live = is_live
        self._pending: deque[Records] = deque()

    def through(self, blocks: Iterable[Records]) -> Iterator[Records]:
        """Yield blocks, in their order, but for the last, in which a record may be unwritten."""
        if not self._is_live:
            yield from blocks
            return
        for records in blocks:
            self._pending.append(records)
            while len(self._pending) > 1 and self._is_far():
                yield self._pending.popleft()

    def rest(self, *, is_end: bool) -> tuple[list[Records], int | None]:
        """Return the blocks held back, and where the first record that is left out starts.

        Args:
            is_end: Whether the log ends behind them.

        Returns:
            The blocks; bytes from the start of the file, of its frame, None where none is left out.
        """
        pending = list(self._pending)
        self._pending.clear()
        offset = self._unwritten(pending) if is_end else None
        if offset is None:
            return pending, None
        kept = []
        for records in pending:
            count = int(np.searchsorted(records.phy_offset, offset))
            if count:
                kept.append(records.take(slice(0, count)))
        return kept, offset - self._file.start - self._file.entry_head

    def _is_far(self) -> bool:
        """Return whether the oldest block is further from the newest record than one copy."""
        first, last = self._pending[0], self._pending[-1]
        behind = sum(len(records) for records in self._pending) - len(first)
        size = int(last.phy_offset[-1] - first.phy_offset[-1])
        return behind >= UNSURE_RECORDS or size >= UNSURE_BYTES

    def _unwritten(self, pending: list[Records]) -> int | None:
        """Return the offset of the first record that a broker is writing."""
        found, checked = None, 0
        stored: int | None = None
        for records in reversed(pending):
            for place in reversed(range(len(records))):
                position = int(records.phy_offset[place]) - self._file.start
                time = store_timestamp_of(self._source.read, position)
                stored = time if stored is None else stored
                if checked >= UNSURE_RECORDS or time not in (0, stored):
                    return self._if_not_led_to(found)
                checked += 1
                if not time or is_in_doubt(records, place):
                    found = int(records.phy_offset[place])
        return self._if_not_led_to(found)

    def _if_not_led_to(self, offset: int | None) -> int | None:
        if offset is None:
            return None
        roots = list(dict.fromkeys(root_of(each.path.parent) for each in self._files.files))
        leads = find_leads(roots, self._files.files[-1].stop).newest
        return offset if not leads or leads[0].phy_offset < offset else None
