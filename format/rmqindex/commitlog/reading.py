"""One pass over a range of a CommitLog: its records, the damage between them, and where they end.

How much of a log DLedger's group has agreed on is the later one of two: a broker notes the last
entry every three seconds, and dispatches entries to index and queues in their order as soon as the
group has agreed on them. Another leader may replace the entries behind.
RocketMQ: ``DLedgerCommitLog.getMaxOffset``, ``ReputMessageService``.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.commitlog.end import LogTail, damage_error, last_with_data, zeroed_before
from rmqindex.commitlog.files import ExpiredFileError, file_at
from rmqindex.commitlog.framing import frames_of
from rmqindex.commitlog.leads import LeadKind, find_leads, named_stop, proved_lead
from rmqindex.commitlog.walk import (
    LARGEST_MESSAGE,
    End,
    EndKind,
    end_at,
    find_record,
    frame_of,
    is_record,
    lost_entry,
    record_at,
    record_crc_fault,
    search_start,
    walk,
)
from rmqindex.errors import CorruptCommitLogError
from rmqindex.layout.dledger import ENTRY_HEAD, INDEX_OFFSET
from rmqindex.layout.index_file import INT64_MAX
from rmqindex.record.records import Fault, gather, store_timestamp_of
from rmqindex.storage.opening import ensure_same
from rmqindex.store.dledger import committed_index, entry_place
from rmqindex.store.store import root_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqindex.commitlog.files import OpenFiles
    from rmqindex.commitlog.framing import Frames, LogFile
    from rmqindex.commitlog.leads import Lead
    from rmqindex.record.records import Records
    from rmqindex.storage.source import ByteSource

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
        is_proved: bool = False,
        is_settled: bool = False,
        waits: bool = False,
    ) -> None:
        """Plan a pass; most arguments are those of :meth:`rmqindex.CommitLog.records`.

        ``is_proved`` is ``proves_end``; with ``is_settled`` all records of the range are known to
        be written; with ``waits`` a broker may be writing where no lock tells.
        """
        self._files = files
        self._start = start
        self._stop = stop
        self._check_crc = check_crc
        self._drop = drop
        self._at_boundaries = at_boundaries
        self._on_malformed = on_malformed
        self._max_records = max_records
        self._is_proved = is_proved
        self._is_settled = is_settled
        self._waits = waits
        #: The last file read, and the end of its records; a broker may have begun one meanwhile.
        self.end: tuple[LogFile, End] | None = None
        # The end of the log, if the pass has come to it.
        self._log_end: int | None = None
        # Whether that is damage by itself, which was told.
        self._is_end_damaged = False
        self._has_records = False

    def records(self) -> Iterator[Records]:
        """Yield the records of the range in blocks."""
        last: int | None = None
        for number, file in enumerate(self._files.files):
            if file.stop <= self._start or file.start >= self._stop:
                continue
            if last is None:
                last = last_with_data(self._files)
            if number > last:
                break
            # Use an own source: two scans of a log may run at once.
            try:
                with self._files.open_file(file) as source:
                    yield from self._records_of(source, file, is_last=number == last)
                    ensure_same(source, file.mark)
            except ExpiredFileError:
                continue
        if self._is_proved and not self._is_end_damaged:
            self._prove_end()

    def _records_of(self, source: ByteSource, file: LogFile, *, is_last: bool) -> Iterator[Records]:
        stop = min(self._stop - file.start, file.size)
        at: int | None = self._first(source, file, is_last=is_last)
        frames = frames_of(file)
        tail = self._tail(source, file, frames, is_last=is_last)
        tried = -1
        while at is not None and at < stop:
            blocks = walk(source, file, frames, at, stop, self._max_records)
            last = None
            for records in tail.written(blocks):
                last = records
                yield from self._in_range(file, records)
            at = frames.at
            if tail.start is not None or (at + file.entry_head >= stop and stop < file.size):
                break
            end = end_at(source, file, frames, at)
            self.end = file, end
            fault = None if is_last else self._fault_of(file, end)
            verdict = tail.judge(end) if is_last else tail.judge_middle(end, fault)
            resume, fault, is_doubtful = verdict
            if fault is None:
                if resume is None or resume == tried:
                    break
                tried = resume  # a broker was writing it during the walk
                continue
            if resume is None or file.start + resume + file.entry_head > self._start:
                self._tell_zeroed(source, file, at, last)
                self._report_malformed(file, at, fault, resume if is_doubtful else None)
            self._is_end_damaged = is_last and resume is None
            at = resume
            if at is not None:
                frames.resume_at(source.read, at)
        if is_last:
            self._note_end(file, frames, tail)
        if self._at_boundaries and at is not None and at != stop < file.size:
            expected = f"that the records before end at the boundary {stop}"
            self._report_malformed(file, stop, Fault("phy_offset", 0, expected, at))

    def _note_end(self, file: LogFile, frames: Frames, tail: LogTail) -> None:
        if tail.start is not None:
            self.end = file, End(EndKind.ZERO, tail.start)
            self._log_end = file.start + tail.start
        elif self._stop > file.start + frames.at + file.entry_head:
            self._log_end = file.start + frames.at

    def _tail(self, source: ByteSource, file: LogFile, frames: Frames, *, is_last: bool) -> LogTail:
        # Records that end at a boundary were written when that was found.
        is_written = self._is_settled or (self._at_boundaries and self._stop < file.stop)
        return LogTail(
            self._files,
            source,
            file,
            frames,
            partial(written_records, self._files),
            is_possible=is_last and not is_written,
            waits=self._waits,
        )

    def _prove_end(self) -> None:
        """Report that something beside the log leads to a message of the range behind its end."""
        end = self._log_end
        if end is None:
            if self._has_records:
                return  # the range ends before the log does
            end = find_end(self._files)
            if self._start < end:
                return  # the range ends before the log does
        lead = _missing_tail(self._files, max(end, self._start))
        if lead is not None and lead.phy_offset < self._stop:
            self._raise_or_tell(_tail_error(self._files, end, lead))

    def _first(self, source: ByteSource, file: LogFile, *, is_last: bool) -> int:
        """Return where to begin: at the range's start, if a record of the log starts there.

        One to which no records lead is in the body of another. In the last file it might be a
        remnant behind the log's end, which only a walk from the file's start can tell.
        """
        first = self._start - file.start
        if first <= 0:
            return 0
        if self._at_boundaries:
            return frame_of(source, file, first)
        if is_last or is_record(source, file, first, crc=True) is None:
            return 0
        frame = first - file.entry_head
        return frame if _boundary(source, file, 0, frame, frame + 1) == frame else 0

    def _fault_of(self, file: LogFile, end: End) -> Fault | None:
        """Return the fault at the end of the records of a file before the last, if any."""
        if end.kind is EndKind.FAULT:
            return end.fault
        if end.kind is EndKind.BLANK:
            return None
        if end.kind is EndKind.ZERO:
            return Fault("total_size", 0, "a record, since later files hold some", 0)
        mapped = self._files.mapped_file_size
        if mapped is not None and file.size < mapped:
            return Fault("file_size", 0, f"{mapped} bytes", file.size)
        return None

    def _report_malformed(
        self, file: LogFile, at: int, fault: Fault, doubtful: int | None = None
    ) -> None:
        # Who is refused reads no further.
        self._raise_or_tell(damage_error(file, at, fault, doubtful if self._drop else None))

    def _tell_zeroed(
        self, source: ByteSource, file: LogFile, at: int, last: Records | None
    ) -> None:
        fault = zeroed_before(source, file, at, last) if self._drop else None
        if fault is not None:
            self._report_malformed(file, at, fault)

    def _raise_or_tell(self, error: CorruptCommitLogError) -> None:
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
            self._has_records = True
            yield records


def written_records(files: OpenFiles, start: int, stop: int) -> Iterator[Records]:
    """Yield the records of a range that are known to be written, over damage."""
    return Reading(files, start, stop, drop=True, is_settled=True).records()


def find_end(
    files: OpenFiles,
    on_malformed: Callable[[CorruptCommitLogError], None] | None = None,
    *,
    waits: bool = False,
) -> int:
    """Return the offset behind a log's last sound record: where the next message would start.

    ``on_malformed`` is called with damage at the end itself, behind which is no sound record;
    ``waits`` says that a broker may be writing where no lock tells.
    """
    last = last_with_data(files)
    if last < 0:
        return files.files[0].start if files.files else 0
    start = files.files[last].start
    errors: list[CorruptCommitLogError] = []
    reading = Reading(files, start, INT64_MAX, drop=True, on_malformed=errors.append, waits=waits)
    for _ in reading.records():
        pass
    if reading.end is None:
        return start
    file, end = reading.end
    place = str(file.path), end.position
    if on_malformed is not None and errors and (errors[-1].path, errors[-1].byte) == place:
        on_malformed(errors[-1])
    following = files.files[files.files.index(file) + 1 :]
    if end.kind in (EndKind.BLANK, EndKind.FULL) and following:
        return following[0].start
    return file.start + end.position


def end_error(files: OpenFiles, end: int, *, queues: bool = True) -> CorruptCommitLogError | None:
    """Return what :meth:`rmqindex.CommitLog.end_error` does, for a known end."""
    lead = _missing_tail(files, end, queues=queues)
    return None if lead is None else _tail_error(files, end, lead)


def _missing_tail(files: OpenFiles, end: int, *, queues: bool = True) -> Lead | None:
    """Return what leads to a message behind a log's end, if anything does that can be believed.

    The log is looked at again before: a broker may have written the message, and indexed it, since
    its files were listed and read.
    """
    if not files.folders:
        return None
    log_stop = files.files[-1].stop if files.files else 0
    leads = find_leads(files.roots, log_stop, queues=queues).newest
    if not leads or leads[0].phy_offset < end:
        return None
    now = files.found_again()
    try:
        return proved_lead(leads, find_end(now), partial(written_records, now))
    finally:
        now.close()


def _tail_error(files: OpenFiles, end: int, lead: Lead) -> CorruptCommitLogError:
    """Return the error of a log that ends before a message to which something leads."""
    file = next((file for file in reversed(files.files) if file.start <= end), None)
    return CorruptCommitLogError(
        files.folders[0] if file is None else file.path,
        "total_size",
        end if file is None else end - file.start,
        f"a record, since {lead.path} leads to a message at offset {lead.phy_offset}",
        f"the end of the log, at offset {end}",
        "unless that file is wrong, or another store's, messages are lost; restore the newest "
        "files of the log from a replica or a backup, or read what is left with DROPMALFORMED",
    )


# A record start is searched for within the length of two of the largest messages.
_SEARCH = 2 * LARGEST_MESSAGE


def boundaries_of(files: OpenFiles, file: LogFile, chunk_size: int) -> list[int]:
    """Return what :meth:`rmqindex.CommitLog.record_boundaries` does, of checked arguments."""
    with suppress(ExpiredFileError):  # nothing is left to be split
        number = files.files.index(file)
        last = last_with_data(files)
        if number < last:
            return _searched(files, file, chunk_size)
        if number == last:
            return _walked(files, file, chunk_size)
    return [file.start]


def _searched(files: OpenFiles, file: LogFile, chunk_size: int) -> list[int]:
    source = files.source(file)
    boundaries = [file.start]
    for target in range(chunk_size, file.size, chunk_size):
        stop = target + min(chunk_size, _SEARCH)
        found = _boundary(source, file, boundaries[-1] - file.start, target, stop)
        if found is not None:
            boundaries.append(file.start + found)
    return boundaries


def _boundary(source: ByteSource, file: LogFile, known: int, target: int, stop: int) -> int | None:
    """Return the first frame at or behind a target, to which frames lead from well before it."""
    stop += file.entry_head  # of the record in the frame
    if find_record(source, file, target + file.entry_head, stop) is None:
        return None  # nor what looks like a record
    at: int | None = known
    found = None
    if target - known > _SEARCH:
        at = found = find_record(source, file, target - _SEARCH, stop)
    while at is not None and at < target:
        frames = frames_of(file)
        for records in walk(source, file, frames, at, stop, DEFAULT_MAX_RECORDS):
            starts = records.phy_offset - file.start - file.entry_head
            if starts[-1] >= target:
                return int(starts[np.searchsorted(starts, target)])
        end = end_at(source, file, frames, frames.at)
        if end.kind is EndKind.BLANK:
            return None
        first, is_doubtful = search_start(source, file, end, found)
        at = find_record(source, file, first, stop)
        found = at if is_doubtful else None
    return at


def _walked(files: OpenFiles, file: LogFile, chunk_size: int) -> list[int]:
    boundaries = [file.start]
    for records in Reading(files, file.start, file.stop, drop=True).records():
        frames = records.phy_offset - file.entry_head
        while (target := boundaries[-1] + chunk_size) <= frames[-1]:
            boundaries.append(int(frames[np.searchsorted(frames, target)]))
    return boundaries


def first_store_timestamp(files: OpenFiles, file: LogFile) -> int | None:
    """Return what :meth:`rmqindex.CommitLog.first_store_timestamp` does."""
    try:
        source = files.source(file)
        if is_record(source, file, file.entry_head, crc=False) is None:
            return None
        return store_timestamp_of(source.read, file.entry_head)
    except ExpiredFileError:
        return None


def committed_offset(files: OpenFiles, *, queues: bool = True) -> int | None:
    """Return the offset behind the last entry that the group is known to have agreed on.

    It is behind the log's end where a message is lost that index or queues lead to, and None for a
    plain log, and where no broker noted an entry.
    """
    noted = _noted_offset(files)
    return None if noted is None else max(noted, _dispatched_offset(files, noted, queues=queues))


def _dispatched_offset(files: OpenFiles, noted: int, *, queues: bool) -> int:
    """Return the offset behind the last message to which index or queues lead; 0 before a note.

    What leads to another message than the log has there is of another history of the log.
    """
    roots = list(dict.fromkeys(root_of(file.path.parent) for file in files.files))
    reached = 0
    for lead in find_leads(roots, files.files[-1].stop, queues=queues).newest:
        if lead.phy_offset < max(noted, reached):
            break
        if lead.kind in (LeadKind.ENTRY, LeadKind.NOTE):
            continue  # it proves a record, not that others have it
        # Of an older message of a queue whose newest is not there: another queue may lead further.
        reached = max(reached, named_stop(lead, noted, partial(_record_at, files)) or 0)
        if reached <= lead.phy_offset and _record_at(files, lead.phy_offset) is None:
            lost = proved_lead((lead,), find_end(files), partial(written_records, files))
            reached = max(reached, 0 if lost is None else lost.phy_offset + 1)
    return reached


def _record_at(files: OpenFiles, offset: int) -> Records | None:
    file = file_at(files.files, offset)
    if file is None:
        return None
    with suppress(ExpiredFileError):
        return record_at(files.source(file), file, offset - file.start, crc=True)
    return None


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
    if reached >= agreed:
        return end
    # The group agreed on an entry that the log no longer shows: that is damage, and no tail that
    # another leader may replace.
    if place is not None:
        return max(end, place[0] + place[1])
    lost = lost_entry(framed, agreed, find_end(files))
    return end if lost is None else lost + 1


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
