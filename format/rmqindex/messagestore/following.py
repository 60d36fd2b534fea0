"""The messages of a log that a broker is writing, in order, as they are appended.

Each poll opens the log anew and proves by the last :class:`LogMark` that it still is the one that
was read. Where it is not, a broker has cut it as it started again: reading goes on behind the
newest message that is still there, so that no message comes twice, and none of those that took the
place of others is passed over. Where expired files, or others, were never read, or where no mark is
left, reading goes on with the next message there is. All this is told.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING

from rmqindex.commitlog.files import file_at
from rmqindex.commitlog.log import CommitLog
from rmqindex.commitlog.selection import select_messages
from rmqindex.commitlog.snapshot import PassedOver
from rmqindex.commitlog.tailing import LogMark, follow, has_room, next_record, place_of, written_end
from rmqindex.storage.identity import FileChangedError
from rmqindex.storage.opening import UnsteadyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from rmqindex.commitlog.selection import Selection
    from rmqindex.errors import CorruptCommitLogError
    from rmqindex.indexfile.entries import Mode
    from rmqindex.record.records import Records
    from rmqindex.storage.location import PathLike

# Of the last messages, how many are known by their marks: a broker cuts what was not on disk yet.
_MARKS = 4096
# Up to so many bytes of them are compared by each poll, and the whole of the last file by one poll
# of so many: a cut further back, with nothing written since, is found by that.
_PROVED_BYTES = 16 * 1024 * 1024
_FULL_CHECK = 32
# Polls in a row that files which change under them may end.
_MOST_UNSTEADY = 5


class Follower:
    """Reads what is appended to a log, poll by poll; nothing is open between two."""

    def __init__(
        self,
        path: PathLike,
        selection: Selection,
        columns: Sequence[str],
        *,
        mode: Mode = "FAILFAST",
        tell: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Set what is read; the first poll begins.

        Args:
            path: What :class:`rmqindex.CommitLog` takes.
            selection: Which messages. With a first offset or an earliest time, those that are there
                are read first, else only those that come.
            columns: Names of ``COMMITLOG_SCHEMA``.
            mode: ``FAILFAST`` raises at damage; ``DROPMALFORMED`` tells of it and goes on.
            tell: Called with a sentence for what is lost, cut, damaged, or waited for.
        """
        self._path = path
        self._selection = selection
        self._columns = columns
        self._mode: Mode = mode
        self._tell = tell
        self._damage = PassedOver(lambda error: tell(str(error)))
        self._at: int | None = None
        self._last: LogMark | None = None
        self._marks: deque[LogMark] = deque(maxlen=_MARKS)
        # Where the bytes of the last messages are, bytes, and their checksum; None if not known.
        self._proof: tuple[int, int, int | None] | None = None
        self._polls = 0
        self._unsteady = 0
        # What is waited for, told once.
        self._waits_for: str | None = None
        self._was_empty = False

    def poll(self) -> Iterator[tuple[CommitLog, pa.RecordBatch]]:
        """Read what was appended since the last poll, which must have been read to its end.

        Yields:
            The log, open until the next one is asked for, and messages with the columns, their
            bodies as they are stored.

        Raises:
            CorruptCommitLogError: Damage before the log's end; only ``FAILFAST``.
            RmqIndexError: The log is gone, or the storage failed.
        """
        try:
            with CommitLog(self._path) as log:
                if log.files:
                    yield from self._appended(log)
                else:
                    self._was_empty |= self._at is None
                    self._wait_for("the CommitLog has no file; is its disk mounted?")
            self._unsteady = 0
        except (UnsteadyError, FileChangedError):  # the next one lists it anew
            self._unsteady += 1
            if self._unsteady >= _MOST_UNSTEADY:
                raise

    def _appended(self, log: CommitLog) -> Iterator[tuple[CommitLog, pa.RecordBatch]]:
        begin = self._begin(log)
        errors: list[CorruptCommitLogError] = []
        progress = follow(
            log, begin, last=self._last, mode="DROPMALFORMED", on_malformed=errors.append
        )
        starts = {str(file.path): file.start for file in log.files}
        for error in errors:
            # What lies before the end is found, or refused, as it is read.
            if starts.get(error.path, progress.end) + error.byte >= progress.end:
                self._damage.add(error)
        if progress.end > begin:
            earlier, recent, count = list(self._marks), deque[tuple[int, int]](maxlen=2), 0
            for block in select_messages(
                log,
                self._selection,
                self._columns,
                within=(begin, progress.end),
                mode=self._mode,
                on_malformed=self._damage.add,
            ):
                mark = LogMark.at(log, block.last)  # while its file is there
                if block.batch is not None:
                    yield log, block.batch
                self._at = block.stop
                self._last = mark or self._last
                self._marks.clear()  # with a gap between them, they would not tell where a cut is
                recent.append((block.first, block.stop))
                count += 1
            if recent:
                marks = _marks_of(log, recent[0][0], recent[-1][1])
                self._marks.extend([*(earlier if count == len(recent) else []), *marks])
            self._at = progress.end
            self._last = progress.last or self._last
            self._prove(log)
        self._wait_for(progress.wait)

    def _wait_for(self, what: str | None) -> None:
        if what is not None and what != self._waits_for:
            self._tell(f"{self._path}: {what}")
        self._waits_for = what

    def _begin(self, log: CommitLog) -> int:
        """Return where to go on, which is told where it is not where the last poll ended."""
        if self._at is None:
            self._at = self._first(log)
            return self._at
        at = place_of(log, self._at)
        if at > self._at:
            if has_room(self._at, at):
                self._tell(
                    f"{self._path}: the messages from offset {self._at} to {at} are lost: their "
                    "files are gone"
                )
            self._marks.clear()
            self._go_on(at, None)
        elif at < self._at or not self._is_same(log):
            self._go_on_behind_a_cut(log, self._at)
        return self._at

    def _prove(self, log: CommitLog) -> None:
        """Remember the bytes of the last messages: where they did not change, nothing was cut."""
        assert self._at is not None
        stop, self._proof = self._at, None
        file = file_at(log.files, stop - 1)
        begin = max(stop - _PROVED_BYTES, 0 if file is None else file.start)
        start = next((mark.phy_offset for mark in self._marks if mark.phy_offset >= begin), stop)
        if start < stop:
            self._proof = start, stop, _checksum(log, start, stop)

    def _is_same(self, log: CommitLog) -> bool:
        self._polls += 1
        if self._proof is not None and self._polls % _FULL_CHECK:
            start, stop, checksum = self._proof
            if stop == self._at and _checksum(log, start, stop) == checksum:
                return True
        last = self._last
        return last is None or last.is_of(log, self._at) or last.is_gone(log)

    def _go_on_behind_a_cut(self, log: CommitLog, at: int) -> None:
        marks = [mark for mark in self._marks if not mark.is_gone(log)]
        kept = bisect_left(marks, True, key=lambda mark: not mark.is_of(log))
        had = f"{self._path}: expected the messages before offset {at} that were read, got a log "
        if kept:
            mark = marks[kept - 1]
            behind = mark.phy_offset + (mark.size or 0)
            self._marks = deque(marks[:kept], _MARKS)
            self._tell(
                f"{had}that was cut at offset {behind}, as by a broker that started again: those "
                "from there on are no longer in it; what takes their place follows"
            )
            self._go_on(behind, mark)
            return
        found = next_record(log, at)
        self._tell(
            f"{had}that was truncated or replaced, of which none of them is known: it is read from "
            f"offset {found.end} on, and what lies before it there is passed over"
        )
        self._marks.clear()
        self._go_on(found.end, found.last)

    def _go_on(self, at: int, last: LogMark | None) -> None:
        self._at, self._last, self._proof = at, last, None

    def _first(self, log: CommitLog) -> int:
        """Return where the first poll begins."""
        start = self._selection.start
        if self._was_empty or (start is None and self._selection.begin is not None):
            return log.min_offset
        end = written_end(log, self._mode)
        if start is not None and start < end.end:
            found = next_record(log, max(start, log.min_offset))
            self._last = found.last
            return found.end
        self._last = end.last
        file = None if end.last is None else file_at(log.files, end.last.phy_offset)
        if file is not None:
            before = file_at(log.files, file.start - 1)
            if before is not None:
                # From one of its last messages on.
                near = log.record_boundaries(before)[-1]
                self._marks += _marks_of(log, near, file.start)
            self._marks += _marks_of(log, max(file.start, log.min_offset), end.end)
        self._at = end.end
        self._prove(log)
        return end.end


def _checksum(log: CommitLog, start: int, stop: int) -> int | None:
    """Return the CRC-32 of a range of one file; None where no file has it."""
    file = file_at(log.files, start)
    if file is None or stop > file.stop:
        return None
    with log.open_file(file) as source:
        return zlib.crc32(source.read(start - file.start, stop - start))


def _marks_of(log: CommitLog, start: int, stop: int) -> list[LogMark]:
    """Return the marks of the last messages of a range that was read."""
    last: deque[Records] = deque(maxlen=2)
    for records in log.records(
        start, stop, mode="DROPMALFORMED", max_records=_MARKS, at_boundaries=True
    ):
        last.append(records)
    marks = [LogMark.of(records, place) for records in last for place in range(len(records))]
    return marks[-_MARKS:]
