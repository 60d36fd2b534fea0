"""Follows a CommitLog that a broker is writing, up to where its records are certainly whole.

A broker appends a record, or several of one batch, with one copy into a shared mapping of zeros
(RocketMQ: ``CommitLog.DefaultAppendMessageCallback``); no order of the bytes of a copy is promised.
So a record may be visible in part: its size and magic code before its body or its properties.
It is accepted when its parts agree with its size, and, near the end of the log, when its body
agrees
with its CRC, its properties with theirs where they have one, neither its topic nor its properties
hold a zero byte, which is what an unwritten place holds, and it has a store time.
A record older than a minute by this host's clock is accepted anyhow: no copy takes that long, so
its zeros, or its wrong CRC, are its own.
So at whichever end a copy begins, no record is accepted before it is whole; only a hole within the
84 bytes of the head would go unnoticed, and no copy leaves one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from rmqindex.commitlog.mark import LogMark
from rmqindex.errors import CorruptCommitLogError
from rmqindex.logfile.end import HOLE_HINT, Verdict, judge_end
from rmqindex.logfile.framing import DLedgerFrames, Frames, frames_of
from rmqindex.logfile.unwritten import UNSURE_BYTES, UNSURE_RECORDS, is_in_doubt
from rmqindex.logfile.walk import EndKind, end_at, find_record, frame_of, walk
from rmqindex.record.records import Fault, store_timestamp_of

if TYPE_CHECKING:
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.logfile.files import LogFile
    from rmqindex.logfile.walk import End
    from rmqindex.record.records import Records
    from rmqindex.storage.source import ByteSource

__all__ = ["Progress", "follow", "whole_end"]

# Records per block of a walk, so that a small limit does not read much more than it allows.
_BLOCK_RECORDS = 8 * 1024
# A sound record behind a place without one is searched for within two of the largest messages.
_REACH = 8 * 1024 * 1024
_SETTLED_MILLISECONDS = 60_000


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a log was followed.

    Attributes:
        end: Where the next record will start, bytes.
        last: The mark of the last record before; None where there was no record.
    """

    end: int
    last: LogMark | None


def follow(
    log: CommitLog,
    start: int,
    *,
    last: LogMark | None = None,
    stop: int | None = None,
    max_records: int | None = None,
    max_bytes: int | None = None,
    mode: Literal["FAILFAST", "DROPMALFORMED"] = "FAILFAST",
) -> Progress:
    """Determine how far the records behind an offset are whole.

    Files before the last one are only walked where there is a limit.

    Args:
        log: The log, listed just now.
        start: Where a record starts or will start: in one of the files, or behind the last.
        last: The mark of the record before, if known.
        stop: The offset from which on records are left out; None for the log's end.
        max_records: The most records to read, at least 1; None for no limit.
        max_bytes: The most bytes to read, but at least one record; None for no limit.
        mode: ``FAILFAST`` raises at damage; ``DROPMALFORMED`` skips it.

    Returns:
        The end of the records: where none starts yet, at a limit, at a gap between files, or where
        DLedger's group has not agreed yet.

    Raises:
        CorruptCommitLogError: In ``FAILFAST``, damage: a place without a record before the log's
            end.
        RmqIndexError: The storage failed.
    """
    stop = log.agreed_stop(stop)
    following = _Following(log, start, last, stop, max_records, max_bytes, drop=mode != "FAILFAST")
    following.run()
    return Progress(following.at, following.last)


def whole_end(log: CommitLog, start: int | None = None) -> int:
    """Return how far the records of a log are certainly whole, bytes.

    Args:
        log: The log, listed just now.
        start: Where a record starts from which on they are looked at; None for the log's start.

    Returns:
        The log's end, or before it where a broker seems to be writing a record.

    Raises:
        RmqIndexError: The storage failed.
    """
    number = log.last_with_data()
    if number < 0:
        return log.min_offset
    file = log.files[number]
    first = max(file.start, log.min_offset if start is None else start)
    with log.open_file(file) as source:
        for records in log.records(first, mode="DROPMALFORMED", at_boundaries=True):
            count = _whole(records, source, file)
            if count < len(records):
                return int(records.phy_offset[count])
    return log.max_offset


class _Following:
    """One pass over a log."""

    def __init__(
        self,
        log: CommitLog,
        start: int,
        last: LogMark | None,
        stop: int | None,
        max_records: int | None,
        max_bytes: int | None,
        *,
        drop: bool,
    ) -> None:
        self._log = log
        self._stop = stop
        self._records_left = max_records
        self._bytes_left = max_bytes
        self._drop = drop
        self._has_moved = False
        self._is_at_end = False
        self.at = start
        self.last = last

    @property
    def _is_limited(self) -> bool:
        return self._records_left is not None or self._bytes_left is not None

    def run(self) -> None:
        unread = self._go_on()
        error = self._log.end_error(self.at, queues=False) if self._is_at_end else None
        if error is not None and not self._drop:
            raise error
        if unread is None or (self.last is not None and self.last.phy_offset >= unread.start):
            return
        last = None
        for records in self._log.records(unread.start, unread.stop, mode="DROPMALFORMED"):
            last = int(records.phy_offset[-1])
        if last is not None:
            self.last = LogMark.at(self._log, last)

    def _go_on(self) -> LogFile | None:
        """Follow the log; return the last file that was skipped unread."""
        unread: LogFile | None = None
        last_with_data = self._log.last_with_data()
        for number, file in enumerate(self._log.files[: last_with_data + 1]):
            if file.stop <= self.at:
                continue
            is_last = number == last_with_data
            if file.start > self.at or self._is_done():
                break
            is_whole = self._stop is None or self._stop >= file.stop
            if not is_last and not self._is_limited and is_whole:
                self.at, unread = file.stop, file
                continue
            with self._log.open_file(file) as source:
                if self.at > file.start:
                    self.at = file.start + frame_of(source, file, self.at - file.start)
                goes_on = self._follow_file(source, file, is_last=is_last)
            if not goes_on:
                break
            self.at = file.stop
        return unread

    def _is_done(self) -> bool:
        return (
            (self._stop is not None and self.at >= self._stop)
            or (self._records_left is not None and self._records_left <= 0)
            or (self._has_moved and self._bytes_left is not None and self._bytes_left <= 0)
        )

    def _follow_file(self, source: ByteSource, file: LogFile, *, is_last: bool) -> bool:
        """Follow the records of a file; return whether the log continues in the next."""
        stop = file.size if self._stop is None else min(file.size, self._stop - file.start)
        tried = -1
        frames = self._frames_of(source, file)
        while True:
            for records in walk(source, file, frames, self.at - file.start, stop, _BLOCK_RECORDS):
                if not self._pass(records, source, file, is_last=is_last):
                    return False
            self.at = file.start + frames.at
            if self._is_done() or (stop < file.size and frames.at + file.entry_head >= stop):
                return False
            end = end_at(source, file, frames, frames.at)
            if end.kind in (EndKind.BLANK, EndKind.FULL):
                self._is_at_end = is_last
                return True
            resume = self._resume(source, file, frames, end, is_last=is_last)
            if resume is None or resume == tried:
                # A file before the last is done; in the last, this is the log's end, as is a place
                # where a record was found once but not again.
                self._is_at_end = is_last
                return not is_last
            tried = resume
            self.at = file.start + resume
            frames.resume_at(source.read, resume)

    def _frames_of(self, source: ByteSource, file: LogFile) -> Frames:
        """Begin a pass over a file, behind the last record if that is in it."""
        if not file.entry_head:
            return Frames(file.start, None if self.last is None else self.last.store_timestamp)
        if self.last is not None and file.start < self.last.phy_offset < file.stop:
            return DLedgerFrames.behind(file.start, source.read, self.last.phy_offset - file.start)
        return frames_of(file)

    def _pass(self, records: Records, source: ByteSource, file: LogFile, *, is_last: bool) -> bool:
        """Accept as many whole records as the limits allow; return whether these were all."""
        count = len(records)
        if self._records_left is not None:
            count = min(count, self._records_left)
        if self._bytes_left is not None:
            ends = records.phy_offset + records.size - self.at
            within = int(np.searchsorted(ends, self._bytes_left, side="right"))
            count = min(count, within if self._has_moved else max(within, 1))
        if is_last:
            count = min(count, _whole(records, source, file))
        if count:
            end = int(records.phy_offset[count - 1] + records.size[count - 1])
            if self._records_left is not None:
                self._records_left -= count
            if self._bytes_left is not None:
                self._bytes_left -= end - self.at
            position = int(records.phy_offset[count - 1]) - file.start
            self.last = LogMark.of(source, file, position, int(records.size[count - 1]))
            self.at, self._has_moved = end, True
        return count == len(records)

    def _resume(
        self, source: ByteSource, file: LogFile, frames: Frames, end: End, *, is_last: bool
    ) -> int | None:
        """Return where the records continue behind a place without one, if anywhere."""
        at = end.position
        if is_last:
            verdict = judge_end(source, file, frames, end, _REACH)
            fault = verdict.fault
            if verdict.is_partial and self._log.is_held is not False:
                fault = None  # a broker may be copying a record in
        else:
            behind = at + file.entry_head + 1  # the record of a broken frame is none
            fault = end.fault or Fault("total_size", 0, "a record, since later ones follow", 0)
            verdict = Verdict(find_record(source, file, behind, file.size), fault)
        if fault is not None and not self._drop:
            hint = HOLE_HINT if end.kind is EndKind.ZERO else ""
            raise CorruptCommitLogError(
                file.path, fault.field, at + fault.byte, fault.expected, fault.got, hint
            )
        return verdict.resume


def _whole(records: Records, source: ByteSource, file: LogFile) -> int:
    """Return how many of a block's first records are certainly whole."""
    count = len(records)
    end = int(records.phy_offset[-1] + records.size[-1]) - file.start
    settled = time.time_ns() // 1_000_000 - _SETTLED_MILLISECONDS
    for place in range(max(0, count - UNSURE_RECORDS), count):
        if int(records.phy_offset[place]) - file.start < end - UNSURE_BYTES:
            continue
        start = int(records.phy_offset[place]) - file.start
        stored = store_timestamp_of(source.read, start)
        if not stored or (stored > settled and is_in_doubt(records, place)):
            return place
    return count
