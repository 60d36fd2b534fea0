"""One pass over a range of a CommitLog: its records, and the damage between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqindex.errors import CorruptCommitLogError
from rmqindex.logfile.framing import frames_of
from rmqindex.logfile.walk import (
    End,
    EndKind,
    end_at,
    find_record,
    frame_of,
    is_record,
    record_crc_fault,
    walk,
)
from rmqindex.record.records import Fault
from rmqindex.storage.opening import ensure_same

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqindex.logfile.files import LogFile, OpenFiles
    from rmqindex.logfile.framing import Frames
    from rmqindex.record.records import Records
    from rmqindex.storage.source import ByteSource

__all__ = ["DEFAULT_MAX_RECORDS", "Reading"]

# Records whose properties stay in a core's cache while they are split.
DEFAULT_MAX_RECORDS = 8 * 1024


class Reading:
    """One pass over a range of a log."""

    def __init__(
        self,
        files: OpenFiles,
        start: int,
        stop: int,
        *,
        check_crc: bool = False,
        drop: bool = False,
        at_boundaries: bool = False,
        on_malformed: Callable[[CorruptCommitLogError], None] | None = None,
        max_records: int = DEFAULT_MAX_RECORDS,
    ) -> None:
        """Plan a pass; the arguments are those of :meth:`rmqindex.CommitLog.scan`.

        Args:
            files: The files of the log.
            start: The first offset, bytes.
            stop: The offset before which it ends.
            check_crc: Whether to check CRCs.
            drop: Whether to skip damage.
            at_boundaries: Whether records start at ``start`` and at ``stop``.
            on_malformed: Called with each skipped error.
            max_records: The most records in a block.
        """
        self._files = files
        self._start = start
        self._stop = stop
        self._check_crc = check_crc
        self._drop = drop
        self._at_boundaries = at_boundaries
        self._on_malformed = on_malformed
        self._max_records = max_records
        #: The end of the records of the last file read.
        self.end: End | None = None

    def records(self) -> Iterator[Records]:
        """Yield the records of the range in blocks."""
        last: int | None = None
        for number, file in enumerate(self._files.files):
            if file.stop <= self._start or file.start >= self._stop:
                continue
            if last is None:
                last = self._files.last_with_data()
            if number > last:
                return
            # Use an own source: two scans of a log may run at once.
            with self._files.open_file(file) as source:
                yield from self._records_of(source, file, is_last=number == last)
                ensure_same(source, file.mark)

    def _records_of(self, source: ByteSource, file: LogFile, *, is_last: bool) -> Iterator[Records]:
        stop = min(self._stop - file.start, file.size)
        at: int | None = self._first(source, file, is_last=is_last)
        frames = frames_of(file)
        while at is not None and at < stop:
            for records in walk(source, file, frames, at, stop, self._max_records):
                yield from self._in_range(file, records)
            at = frames.at
            if at + file.entry_head >= stop and stop < file.size:
                break
            end = end_at(source, file, frames, at)
            self.end = end
            fault = self._fault_of(file, end, is_last=is_last)
            if fault is None:
                break
            resume = self._resume(source, file, at, frames if is_last else None)
            if is_last and resume is None:
                break  # a torn or stale tail: the end of the log
            if is_last and not isinstance(frames.check(source.read, at, file.size), Fault):
                continue  # a broker was writing it during the walk
            self._report_malformed(file, at, fault)
            at = resume
            if at is not None:
                frames.resume_at(source.read, at)
        if self._at_boundaries and at is not None and at != stop < file.size:
            expected = f"that the records before end at the boundary {stop}"
            self._report_malformed(file, stop, Fault("phy_offset", 0, expected, at))

    def _first(self, source: ByteSource, file: LogFile, *, is_last: bool) -> int:
        """Return where to begin: at the range's start, if a record is known to start there.

        It may be named by its own place or by its frame's.

        In the last file it might be a remnant behind the log's end, which only a walk from the
        file's start can tell.
        """
        first = self._start - file.start
        if first <= 0:
            return 0
        if self._at_boundaries:
            return frame_of(source, file, first)
        if is_last or is_record(source, file, first, crc=True) is None:
            return 0
        return first - file.entry_head

    def _fault_of(self, file: LogFile, end: End, *, is_last: bool) -> Fault | None:
        """Return the fault at the end of a file's records, if any."""
        if end.kind is EndKind.FAULT:
            return end.fault
        if is_last or end.kind is EndKind.BLANK:
            return None
        if end.kind is EndKind.ZERO:
            return Fault("total_size", 0, "a record, since later files hold some", 0)
        mapped = self._files.mapped_file_size
        if mapped is not None and file.size < mapped:
            return Fault("file_size", 0, f"{mapped} bytes", file.size)
        return None

    def _resume(
        self, source: ByteSource, file: LogFile, at: int, frames: Frames | None
    ) -> int | None:
        """Return where the frames continue behind a place without one, if anywhere."""
        behind = at + file.entry_head + 1  # the record of a broken frame is not to be given
        return find_record(source, file, behind, file.size, frames=frames)

    def _report_malformed(self, file: LogFile, at: int, fault: Fault) -> None:
        error = CorruptCommitLogError(
            file.path, fault.field, at + fault.byte, fault.expected, fault.got
        )
        if not self._drop:
            raise error
        if self._on_malformed is not None:
            self._on_malformed(error)

    def _in_range(self, file: LogFile, records: Records) -> Iterator[Records]:
        """Yield the records of a block that lie in the range."""
        if records.phy_offset[0] < self._start:
            first = int(np.searchsorted(records.phy_offset, self._start))
            records = records.take(slice(first, None))
        if self._check_crc:
            kept = np.ones(len(records), bool)
            for place in range(len(records)):
                fault = record_crc_fault(records, place)
                if fault is not None:
                    kept[place] = False
                    at = int(records.phy_offset[place]) - file.start
                    self._report_malformed(file, at, fault)
            if not kept.all():
                records = records.take(kept)
        if len(records):
            yield records
