"""Judges a place of a log's newest file where no sound record starts: its end, or damage.

Zeros are the end only if they reach to the end of the file.
A page that never reached the disk leaves a hole of zeros, and what was written behind it is there.
Where a broker is writing, the log ends before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqindex.logfile.walk import MARK_SIZE, EndKind, begins_soundly, find_record, is_full
from rmqindex.record.records import Fault

if TYPE_CHECKING:
    from rmqindex.logfile.files import LogFile, OpenFiles
    from rmqindex.logfile.framing import Frames
    from rmqindex.logfile.unwritten import UnwrittenTail
    from rmqindex.logfile.walk import End
    from rmqindex.storage.source import ByteSource

__all__ = ["DAMAGE_HINT", "Verdict", "judge_end", "judge_middle", "last_with_data"]

#: What to do about records that damage has swallowed.
DAMAGE_HINT = (
    "restore the file from a replica or a backup, or read what is left of it with the mode "
    "DROPMALFORMED"
)


class Verdict(NamedTuple):
    """What a place without a sound record is.

    Attributes:
        resume: Where the frames go on, bytes from the start of the file; None if they do not.
        fault: The damage; None where the records end soundly, or where a broker has written on.
    """

    resume: int | None = None
    fault: Fault | None = None


def last_with_data(files: OpenFiles) -> int:
    """Return the place of the last file that a log has reached; -1 for none.

    A file that was made ahead may have bytes of an earlier life. It is the log's if it has a record
    at its own offset, or if the log goes on where it begins.
    """
    for number in range(len(files.files) - 1, -1, -1):
        if files.holds_bytes(files.files[number]) and _is_reached(files, number):
            return number
    return -1


def _is_reached(files: OpenFiles, number: int) -> bool:
    """Return whether a file with bytes has a record, or follows a file that is full."""
    file = files.files[number]
    before = files.files[number - 1] if number else None
    if before is None or before.stop != file.start:
        return True
    source = files.source(file)
    if begins_soundly(source, file):
        return True
    if file.start not in files.without_records:
        if find_record(source, file, file.entry_head, file.size) is not None:
            return True
        files.without_records.add(file.start)
    return is_full(files.source(before), before)


def judge_end(
    source: ByteSource,
    file: LogFile,
    frames: Frames,
    end: End,
    tail: UnwrittenTail,
    reach: int | None = None,
) -> Verdict:
    """Judge the end of the records in the newest file that has data.

    What an earlier life of the log left is neither damage nor records, nor is what a broker is
    writing.
    A broker may be writing: a place is read again once what is behind it has been found.

    Args:
        source: The open file.
        file: What file it is.
        frames: Its frames as the pass has read them up to there.
        end: What :func:`rmqindex.logfile.walk.end_at` found there.
        tail: What a broker may be writing there.
        reach: How far behind a torn record others are searched for, bytes; None for all of the
            file.
    """
    verdict = _judge(source, file, frames, end, reach)
    if verdict.fault is None:
        return verdict
    if tail.begins_at(end.position):
        return Verdict()
    return _judge(source, file, frames, end, reach)


def judge_middle(source: ByteSource, file: LogFile, end: End, fault: Fault) -> Verdict:
    """Return where the records go on behind damage in a file before the last."""
    return Verdict(find_record(source, file, _behind(file, end), file.size), fault)


def _behind(file: LogFile, end: End) -> int:
    """Return the first byte at which another record may start; that of a broken frame is none."""
    return end.position + file.entry_head + 1


def _judge(
    source: ByteSource, file: LogFile, frames: Frames, end: End, reach: int | None
) -> Verdict:
    if end.kind is EndKind.FAULT:
        return _judge_fault(source, file, frames, end, reach)
    if end.kind is EndKind.ZERO:
        return _judge_zeros(source, file, frames, end.position)
    return Verdict()


def _judge_fault(
    source: ByteSource, file: LogFile, frames: Frames, end: End, reach: int | None
) -> Verdict:
    size = min(source.size, file.size)
    stop = size if reach is None else end.position + reach
    resume = find_record(source, file, _behind(file, end), stop, frames=frames)
    if resume is None:
        return Verdict()  # a torn record, or remains of an earlier life
    if not isinstance(frames.check(source.read, end.position, size), Fault):
        return Verdict(end.position)
    return Verdict(resume, end.fault)


def _judge_zeros(source: ByteSource, file: LogFile, frames: Frames, at: int) -> Verdict:
    size = min(source.size, file.size)
    other = source.first_nonzero(at, size)
    if other is None:
        return Verdict()
    # The first bytes of a record may be zero, too.
    behind = max(at + 1, other - MARK_SIZE) + file.entry_head
    resume = find_record(source, file, behind, size, frames=frames)
    if any(bytes(source.read(at, min(size - at, MARK_SIZE)))):
        return Verdict(at)
    if resume is not None:
        expected = f"a record, since one follows at byte {resume}"
        return Verdict(resume, Fault("total_size", 0, expected, 0))
    if find_record(source, file, behind, size) is not None:
        return Verdict()  # remains of an earlier life
    expected = "a record, or zeros to the end of the file"
    return Verdict(None, Fault("total_size", 0, expected, f"zeros and other bytes at {other}"))
