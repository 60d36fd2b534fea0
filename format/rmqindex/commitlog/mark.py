"""The mark of a log: the last record that was taken from it, by which it is known again.

Whoever goes on behind a log, be it a minute or a month later, compares the mark first: after a
crash, a fail-over or a restored copy, the place may hold another message, also one of the same size
and time.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqindex.errors import RmqIndexError
from rmqindex.indexfile.fingerprint import checksum_of
from rmqindex.logfile.files import ExpiredFileError
from rmqindex.logfile.walk import is_record
from rmqindex.record.records import store_timestamp_of

if TYPE_CHECKING:
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.logfile.files import LogFile
    from rmqindex.storage.source import ByteSource

__all__ = ["LogMark"]


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
    def of(cls, source: ByteSource, file: LogFile, position: int, size: int) -> LogMark:
        """Take the mark of a sound record.

        Args:
            source: The open file.
            file: What file it is.
            position: Where the record starts, bytes from the start of the file.
            size: Its size, bytes.

        Raises:
            RmqIndexError: The storage failed.
        """
        return cls(
            file.start + position,
            store_timestamp_of(source.read, position),
            size,
            zlib.crc32(source.read(position, size)),
        )

    @classmethod
    def at(cls, log: CommitLog, phy_offset: int) -> LogMark | None:
        """Take the mark of the record at an offset; None where none starts, or where it expired.

        Raises:
            RmqIndexError: The storage failed.
        """
        file = _file_at(log, phy_offset)
        if file is None:
            return None
        try:
            source = log.source(file)
            size = is_record(source, file, phy_offset - file.start, crc=False)
            return None if size is None else cls.of(source, file, phy_offset - file.start, size)
        except ExpiredFileError:
            return None

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
        file = _file_at(log, self.phy_offset)
        try:
            source = None if file is None else log.open_file(file)
        except ExpiredFileError:
            source = None
        if file is None or source is None:
            has = f"from {log.min_offset} to {log.files[-1].stop}" if log.files else "of no offset"
            return f"files {has} without it"
        position = self.phy_offset - file.start
        with source:
            size = is_record(source, file, position, crc=False)
            if size is None:
                return "no message"
            found = LogMark.of(source, file, position, size)
            ends = checksum_of(source.read, position, position + size)
        if (
            found.store_timestamp != self.store_timestamp
            or self.size not in {None, size}
            or self.crc not in {None, found.crc}
            or self.checksum not in {None, ends}
        ):
            return f"another one ({found})"
        return _difference_behind(log, found.phy_offset + size, end)


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


def _file_at(log: CommitLog, offset: int) -> LogFile | None:
    return next((file for file in log.files if file.start <= offset < file.stop), None)
