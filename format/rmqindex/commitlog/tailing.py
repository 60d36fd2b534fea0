"""Follows a CommitLog that a broker is writing, up to where its records are certainly whole.

A broker appends a record, or several of one batch, with one copy into a shared mapping of zeros
(RocketMQ: ``CommitLog.DefaultAppendMessageCallback``); no order of the bytes of a copy is promised.
So a record may be visible in part: its size and magic code before its body or its properties.
It is accepted when its parts agree with its size, and, at the end of the log, when its body agrees
with its CRC, its properties with theirs where they have one, neither its topic nor its properties
hold a zero byte, which is what an unwritten place holds, and it has a store time.
Where another record follows, fewer than eight zeros in a row are its own: a copy goes by words.
Where no broker can be writing it (:mod:`rmqindex.commitlog.end`), its zeros, or its wrong
CRC, are its own, and it is accepted anyhow.
So at whichever end a copy begins, no record is accepted before it is whole; only a hole within the
84 bytes of the head would go unnoticed, and no copy leaves one.

The last record that was taken is the log's mark. Whoever goes on behind it, be it a minute or a
month later, compares it first: after a crash, a fail-over or a restored copy, the place may hold
another message, also one of the same size and time.
"""

from __future__ import annotations

import zlib
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np

from rmqindex.commitlog.end import LogTail, damage_error
from rmqindex.commitlog.files import ExpiredFileError, OpenFiles, file_at
from rmqindex.commitlog.framing import DLedgerFrames, Frames, frames_of
from rmqindex.commitlog.reading import find_end, written_records
from rmqindex.commitlog.walk import (
    LARGEST_MESSAGE,
    EndKind,
    end_at,
    frame_of,
    last_run,
    record_at,
    walk,
)
from rmqindex.errors import CorruptCommitLogError, RmqIndexError
from rmqindex.indexfile.fingerprint import checksum_of
from rmqindex.layout.record import MIN_BLANK_SIZE, MIN_RECORD_SIZE
from rmqindex.record.records import Fault, store_timestamp_of
from rmqindex.transaction.broker_lock import BrokerState

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqindex.commitlog.framing import LogFile
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.entries import Mode
    from rmqindex.record.records import Records
    from rmqindex.storage.source import ByteSource

# Records per block of a walk, so that a small limit does not read much more than it allows.
_BLOCK_RECORDS = 8 * 1024
# A sound record behind a place without one is searched for within two of the largest messages.
_REACH = 2 * LARGEST_MESSAGE


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a log was followed.

    Attributes:
        end: Where the next record will start, bytes.
        last: The mark of the last record before; None where there was no record.
        unproved: Whether a record begins at the end that a broker may be writing, and no lock of a
            broker tells; another record behind it, or what leads to it, will.
    """

    end: int
    last: LogMark | None
    unproved: bool = False

    @property
    def wait(self) -> str | None:
        """The sentence about a record that is unproved; None where there is none."""
        return (
            f"the message at offset {self.end}, the CommitLog's last, waits: bytes of it seem to "
            "be missing, and nothing in the store proves that no broker is still writing it. It "
            "comes once another one follows"
            if self.unproved
            else None
        )


def follow(
    log: CommitLog,
    start: int,
    *,
    last: LogMark | None = None,
    stop: int | None = None,
    max_records: int | None = None,
    max_bytes: int | None = None,
    mode: Mode = "FAILFAST",
    on_malformed: Callable[[CorruptCommitLogError], None] | None = None,
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
        on_malformed: Called with each error that ``DROPMALFORMED`` does not raise.

    Returns:
        The end of the records: where none starts yet, at a limit, at a gap between files, or where
        DLedger's group has not agreed yet.

    Raises:
        CorruptCommitLogError: In ``FAILFAST``, damage: a place without a record before the log's
            end.
        RmqIndexError: The storage failed.
    """
    stop = log.agreed_stop(stop)
    skip = None if mode == "FAILFAST" else on_malformed or (lambda _error: None)
    files = OpenFiles(log.files)
    with closing(files):
        following = _Following(log, files, start, last, stop, max_records, max_bytes, skip)
        following.run()
    return Progress(following.at, following.last, following.is_unproved)


def whole_end(log: CommitLog) -> int:
    """Return how far the records of a log are certainly whole, bytes.

    Args:
        log: The log, listed just now.

    Returns:
        :attr:`rmqindex.CommitLog.max_offset`, or before it where a broker may be writing a record,
        and no lock of a broker tells.

    Raises:
        RmqIndexError: The storage failed.
    """
    with closing(OpenFiles(log.files)) as files:
        return find_end(files, waits=True)


def place_of(log: CommitLog, offset: int) -> int:
    """Return the first offset at or after another one that a file holds or will hold, bytes."""
    for file in log.files:
        if offset < file.stop:
            return max(offset, file.start)
    # The next file will begin where the last one ends; beyond that, the log has become shorter.
    return min(offset, log.files[-1].stop) if log.files else offset


def has_room(start: int, stop: int) -> bool:
    """Return whether a file that ended at ``stop`` may have had a message at ``start``, bytes."""
    return stop - start >= MIN_RECORD_SIZE + MIN_BLANK_SIZE


def next_record(log: CommitLog, offset: int) -> Progress:
    """Return where the first message at or after an offset starts or will start.

    The mark of the one before it tells it from what an earlier life of the log left behind its end.
    """
    file = file_at(log.files, offset)
    last: LogMark | None = None
    start = file.start if file is not None else log.files[-1].start if log.files else offset
    for records in log.records(start, mode="DROPMALFORMED", proves_end=False):
        place = int(np.searchsorted(records.phy_offset, offset))
        if place:
            last = LogMark.of(records, place - 1)
        if place < len(records):
            return Progress(int(records.phy_offset[place]), last)
    return Progress(log.max_offset, last)


def written_end(log: CommitLog, mode: Mode = "FAILFAST") -> Progress:
    """Return how far the records of a log are certainly whole, and the mark of the last."""
    number = log.last_with_data()
    if number < 0:
        return Progress(log.min_offset, None)
    return follow(log, log.files[number].start, mode=mode)


class _Following:
    """One pass over a log."""

    def __init__(
        self,
        log: CommitLog,
        files: OpenFiles,
        start: int,
        last: LogMark | None,
        stop: int | None,
        max_records: int | None,
        max_bytes: int | None,
        skip: Callable[[CorruptCommitLogError], None] | None,
    ) -> None:
        self._log = log
        self._files = files
        self._stop = stop
        self._records_left = max_records
        self._bytes_left = max_bytes
        self._skip = skip
        self._has_moved = False
        self._is_at_end = False
        self.is_unproved = False
        self.at = start
        self.last = last

    @property
    def _is_limited(self) -> bool:
        return self._records_left is not None or self._bytes_left is not None

    def run(self) -> None:
        unread = self._go_on()
        error = self._log.end_error(self.at, queues=False) if self._is_at_end else None
        if error is not None:
            self._report(error)
        if unread is None or (self.last is not None and self.last.phy_offset >= unread.stop):
            return
        self.last = _last_mark(self._log, unread) or self.last

    def _report(self, error: CorruptCommitLogError) -> None:
        if self._skip is None:
            raise error
        self._skip(error)

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
        read = partial(written_records, self._files)
        tail = LogTail(self._files, source, file, frames, read, is_possible=is_last, waits=True)
        while True:
            blocks = walk(source, file, frames, self.at - file.start, stop, _BLOCK_RECORDS)
            if not all(map(self._pass, tail.written(blocks))):
                return False
            if tail.start is not None:
                self._note_wait(tail)
                return False
            self.at = file.start + frames.at
            if self._is_done() or (stop < file.size and frames.at + file.entry_head >= stop):
                return False
            end = end_at(source, file, frames, frames.at)
            if end.kind in (EndKind.BLANK, EndKind.FULL):
                self._is_at_end = is_last
                return True
            if is_last:
                verdict = tail.judge(end, _REACH)
            else:
                torn = Fault("total_size", 0, "a record, since later ones follow", 0)
                verdict = tail.judge_middle(end, end.fault or torn)
            resume, fault, is_doubtful = verdict
            if fault is not None:
                doubtful = resume if is_doubtful and self._skip else None
                self._report(damage_error(file, end.position, fault, doubtful))
            if resume is None or resume == tried:
                # A file before the last is done; in the last, this is the log's end, as is a place
                # where a record was found once but not again.
                self._is_at_end = is_last and fault is None
                self._note_wait(tail)
                return not is_last
            tried = resume
            self.at = file.start + resume
            frames.resume_at(source.read, resume)

    def _frames_of(self, source: ByteSource, file: LogFile) -> Frames:
        """Begin a pass over a file, behind the last record if that is in it."""
        if not file.entry_head:
            return Frames(file.start, None if self.last is None else self.last.store_timestamp)
        if self.last is not None and file.start < self.last.phy_offset < file.stop:
            places = self.last.phy_offset - file.start, self.at - file.start
            return DLedgerFrames.behind(file.start, source.read, *places)
        return frames_of(file)

    def _note_wait(self, tail: LogTail) -> None:
        self.is_unproved = tail.start is not None and self._files.broker() is BrokerState.UNKNOWN

    def _pass(self, records: Records) -> bool:
        """Accept as many whole records as the limits allow; return whether these were all."""
        count = len(records)
        if self._records_left is not None:
            count = min(count, self._records_left)
        if self._bytes_left is not None:
            ends = records.phy_offset + records.size - self.at
            within = int(np.searchsorted(ends, self._bytes_left, side="right"))
            count = min(count, within if self._has_moved else max(within, 1))
        if count:
            end = int(records.phy_offset[count - 1] + records.size[count - 1])
            if self._records_left is not None:
                self._records_left -= count
            if self._bytes_left is not None:
                self._bytes_left -= end - self.at
            self.last = LogMark.of(records, count - 1)
            self.at, self._has_moved = end, True
        return count == len(records)


def _last_mark(log: CommitLog, file: LogFile) -> LogMark | None:
    """Return the mark of the last record of a file that is not the log's last, reading its end."""
    with log.open_file(file) as source:
        start = file.start + last_run(source, file)
    last = None
    for records in log.records(start, file.stop, mode="DROPMALFORMED", at_boundaries=True):
        last = int(records.phy_offset[-1])
    return None if last is None else LogMark.at(log, last)


@dataclass(frozen=True, slots=True)
class LogMark:
    """The last record that was taken from a log; its fields are JSON values.

    Attributes:
        phy_offset: Where it starts, bytes.
        store_timestamp: Epoch milliseconds.
        size: Its size, bytes; None in a mark of an earlier release.
        crc: CRC-32 of the whole record; None in a mark of an earlier release.
        checksum: CRC-32 of its first and its last bytes, as earlier releases recorded; else None.
    """

    phy_offset: int
    store_timestamp: int
    size: int | None = None
    crc: int | None = None
    checksum: int | None = None

    @classmethod
    def of(cls, records: Records, place: int) -> Self:
        """Take the mark of one of some sound records."""
        start, size = int(records.starts[place]), int(records.size[place])
        data = records.data[start : start + size]
        time = store_timestamp_of(lambda at, length: data[at : at + length], 0)
        return cls(int(records.phy_offset[place]), time, size, zlib.crc32(data))

    @classmethod
    def at(cls, log: CommitLog, phy_offset: int) -> Self | None:
        """Take the mark of the record at an offset; None where none starts, or where it expired.

        Raises:
            RmqIndexError: The storage failed.
        """
        file = file_at(log.files, phy_offset)
        if file is None:
            return None
        try:
            found = record_at(log.source(file), file, phy_offset - file.start, crc=False)
        except ExpiredFileError:
            return None
        return None if found is None else cls.of(found, 0)

    def is_gone(self, log: CommitLog) -> bool:
        """Return whether the record's file was deleted from the head of a log.

        That proves nothing: brokers delete what expired.
        """
        return not log.files or self.phy_offset < log.min_offset

    def is_of(self, log: CommitLog, end: int | None = None) -> bool:
        """Return whether a log has the record.

        Args:
            log: The log.
            end: How far the log was read, bytes, without another record behind this one; None for
                the end of this one.

        Raises:
            RmqIndexError: The storage failed.
        """
        return not self._difference(log, end)

    def ensure(self, log: CommitLog, where: object, remedy: str) -> None:
        """Raise unless a log has the record.

        Args:
            log: The log.
            where: What has the mark, which the error names first.
            remedy: What to do, in the words of the interface.

        Raises:
            RmqIndexError: It has another one in that place, none, or no such place; or the storage
                failed.
        """
        found = self._difference(log, None)
        if found:
            why = "the log was truncated and written anew, or is another one"
            if self.is_gone(log):
                why = "nothing is left that shows whether the log is the same"
            raise RmqIndexError(
                f"{where}: expected the message at offset {self.phy_offset}, the last that was "
                f"taken ({self}), got {found}: {why}. {remedy}"
            )

    def __str__(self) -> str:
        """Return what tells the record from others, but for its place."""
        parts = [] if self.size is None else [f"{self.size} bytes"]
        parts.append(f"stored at {self.store_timestamp}")
        parts += [] if self.crc is None else [f"with CRC-32 {self.crc}"]
        return ", ".join(parts)

    def _difference(self, log: CommitLog, end: int | None) -> str:
        """Return what a log has instead of the record; empty if it has the record."""
        file = file_at(log.files, self.phy_offset)
        try:
            source = None if file is None else log.open_file(file)
        except ExpiredFileError:
            source = None
        if file is None or source is None:
            has = f"from {log.min_offset} to {log.files[-1].stop}" if log.files else "of no offset"
            return f"files {has} without it"
        position = self.phy_offset - file.start
        with source:
            record = record_at(source, file, position, crc=False)
            if record is None:
                return "no message"
            found = LogMark.of(record, 0)
            stop = position + int(record.size[0])
            ends = checksum_of(source.read, position, stop)
        if (
            found.store_timestamp != self.store_timestamp
            or self.size not in {None, found.size}
            or self.crc not in {None, found.crc}
            or self.checksum not in {None, ends}
        ):
            return f"another one ({found})"
        return _difference_behind(log, file.start + stop, end)


def _difference_behind(log: CommitLog, behind: int, end: int | None) -> str:
    """Return what a log has instead of a record's end, or of nothing between it and an end."""
    if log.max_offset < behind:
        return f"a log that ends at {log.max_offset}, and remains of an earlier one"
    if end is None or end == behind:
        return ""
    # A blank record, skipped damage, or entries of DLedger without one may lie between.
    if end < behind or any(log.records(behind, end, mode="DROPMALFORMED", at_boundaries=True)):
        return f"one that ends at {behind}"
    return ""
