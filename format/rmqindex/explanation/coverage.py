"""What part of the CommitLog an index does not cover, so that a lookup can say what it lacks.

A broker deletes an IndexFile only when all its messages have left the CommitLog (RocketMQ:
``IndexService.deleteExpiredFile``), and indexes every message with keys. So a message with keys and
without entries proves that a file was lost, or that the index was switched off for a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from rmqindex.errors import RmqIndexError
from rmqindex.explanation.log_parts import IndexCover, IndexSpan, cover_of, inner_gaps
from rmqindex.explanation.wording import Commands
from rmqindex.indexfile.committed import open_index_source, read_header
from rmqindex.keys.messages import expand_messages
from rmqindex.layout import INT64_MAX
from rmqindex.storage.opening import map_files
from rmqindex.store.snapshot import plan_index
from rmqindex.store.store import Store, index_entries
from rmqindex.times import format_millis
from rmqindex.transaction.broker_lock import BrokerLock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.explanation.log_parts import Gap
    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.storage.location import Location, PathLike
    from rmqindex.store.snapshot import PlannedFile
    from rmqindex.transaction.directories import FileEntry

__all__ = ["LONGEST_LAG", "Uncovered", "uncovered", "uncovered_in"]

#: A broker under load, or one that has started and catches up, indexes so much later than it
#: stores, seconds.
LONGEST_LAG = 600
_MILLISECONDS = 1000
# What is read at most to find a message with keys in one part, bytes.
_MAX_LOCAL = 64 << 20
_MAX_REMOTE = 4 << 20
# The records that are decoded at a time: the first ones usually tell.
_RECORDS = 1024
_KEY_COLUMNS = ("topic", "uniq_key", "keys", "sys_flag")


@dataclass(frozen=True, slots=True)
class Uncovered:
    """A part of the CommitLog whose messages have no entries.

    Attributes:
        part: ``whole``: the index has no entries; ``start``: the part before its oldest entry;
            ``middle``: between two files; ``end``: behind its newest entry; ``other``: what a
            file of another log, or of a damaged one, should have, as far as that is known.
        file: The file in front of which, or behind which for ``end``, entries are missing; the
            index directory for ``whole``, the file itself for ``other``.
        start: The offset of the first message with keys, bytes; where none was found within the
            bytes that are read for that, the offset from which on it is unknown; for ``other``,
            where the file leads and no message starts.
        stop: The offset of the next entry, bytes; None where none follows.
        store_timestamp: When the message at ``start`` was stored, epoch milliseconds; None where
            none was found.
        after: The offset of the entry before, bytes; None for ``whole`` and ``start``.
        log_start: Where the CommitLog begins, bytes.
        remedy: The command that indexes the messages, or decides whether there are any.
    """

    part: Literal["whole", "start", "middle", "end", "other"]
    file: str
    start: int
    stop: int | None
    store_timestamp: int | None
    after: int | None
    log_start: int
    remedy: str

    @property
    def is_certain(self) -> bool:
        """Whether a message with keys was found."""
        return self.store_timestamp is not None

    def text(self, zone: tzinfo = UTC, zone_name: str = "UTC") -> str:
        """Return what an answer lacks and what to do about it, with times of a zone."""
        if self.part == "other":
            return (
                f"{self.file}: the file leads to offset {self.start}, where no message of the "
                "CommitLog starts: the index is another CommitLog's, or one of them is damaged, so "
                f"that lookups may miss messages; `{self.remedy}` checks it"
            )
        what = {
            "whole": "the index has no entries",
            "start": f"the oldest IndexFile begins at offset {self.stop}, the CommitLog at "
            f"{self.log_start}",
            "middle": f"this IndexFile begins at offset {self.stop}, the one before it ends at "
            f"{self.after}",
            "end": f"the newest IndexFile ends at offset {self.after}, and the CommitLog goes on",
        }[self.part]
        if self.store_timestamp is None:
            return (
                f"{self.file}: {what}. Whether messages with keys follow from offset {self.start} "
                f"on, which no lookup would find, is not known; `{self.remedy}` checks it"
            )
        stored = f"{format_millis(self.store_timestamp, zone)} {zone_name}"
        range_ = f"from offset {self.start} " + (
            "on" if self.stop is None else f"to before {self.stop}"
        )
        return (
            f"{self.file}: {what}. Messages with keys {range_}, the first stored {stored}, have "
            f"no entries, so no lookup finds them. Stop the broker and run `{self.remedy}`"
        )


def uncovered(
    path: PathLike | Store, files: Sequence[PlannedFile], log: CommitLog | None
) -> tuple[Uncovered, ...]:
    """Return the parts of a log that an index lacks, in their order; none for a single file.

    Args:
        path: The path of the index that the user gave, or its store.
        files: Its files, oldest first.
        log: Its CommitLog; None for an answer of nothing, since only the log tells.

    Raises:
        RmqIndexError: The log cannot be read.
    """
    if log is None or not log.files:
        return ()
    store = Store.open(path, needs_index=False)
    if store.file is not None:
        return ()
    return tuple(_Comparison(store, cover_of(files), log, bool(files)).parts())


def uncovered_in(
    directory: Location, log: CommitLog, layout: Layout | None = None, mode: Mode = "FAILFAST"
) -> tuple[Uncovered, ...]:
    """As :func:`uncovered`, of an index directory, of whose files mostly the headers are read.

    Args:
        directory: The index directory.
        log: Its CommitLog.
        layout: The geometry of every file; None to infer it.
        mode: How the files are read: with ``DROPMALFORMED``, a file may be cut, or left out, which
            its header does not show. Otherwise reading such a file raises.

    Raises:
        RmqIndexError: The directory or the log cannot be read.
    """
    if mode == "DROPMALFORMED":
        return uncovered(directory, plan_index(directory, layout, mode), log)
    if not log.files:
        return ()
    files = [entry for entry in index_entries(directory) if not entry.is_directory]
    cover = IndexCover.of(map_files(_span, files, (file.path for file in files)))
    store = Store.open(directory, needs_index=False)
    return tuple(_Comparison(store, cover, log, bool(files)).parts())


def _span(file: FileEntry) -> IndexSpan | RmqIndexError | None:
    """Return the span of a file; None where it has no entries, the error of one without header."""
    try:
        with open_index_source(file.path) as source:
            header = read_header(source)
    except RmqIndexError as error:
        return error
    if not header.entry_count:
        return None
    return IndexSpan(file.path, header.begin_phy_offset, header.end_phy_offset)


class _Found(NamedTuple):
    """The first message with keys of a part, or how far the part was read without one."""

    offset: int
    store_timestamp: int | None


@dataclass(frozen=True, slots=True)
class _Comparison:
    store: Store
    cover: IndexCover
    log: CommitLog
    has_files: bool

    def parts(self) -> Iterator[Uncovered]:
        """Yield the parts that the index lacks, but for those that an unread file may have."""
        spans = self.cover.spans
        if not spans:
            if self.cover.unread:
                return
            found = self._end(self.log.min_offset, None)
            if found is not None:
                option = "--replace" if self.has_files else None
                yield self._part("whole", self.store.index, found, None, None, option)
            return
        strangers, is_own = self._strangers()
        if strangers and not is_own:
            yield strangers[0]  # of another log, so that its offsets tell nothing of this one
            return
        yield from strangers
        file_of = {span.begin: span.path for span in reversed(spans)}
        for gap in self._wide(list(inner_gaps(spans, self.log))):
            found = None if self.cover.may_hide(gap.start, gap.stop) else self._first(gap)
            if found is not None:
                part: Literal["start", "middle"] = "start" if gap.after is None else "middle"
                before = gap.before
                assert before is not None
                yield self._part(part, file_of[before], found, before, gap.after, "--replace")
        last = max(spans, key=lambda span: span.end)
        if self.cover.may_hide(last.end, INT64_MAX):
            return
        found = self._end(max(last.end, self.log.min_offset), last.end)
        if found is not None:
            option = "--replace" if last.is_cut else "--resume"
            yield self._part("end", last.path, found, None, last.end, option)

    def _strangers(self) -> tuple[list[Uncovered], bool]:
        """Return the files of whose ends one has no message, and whether any other file fits."""
        ends = [
            (span.path, offset) for span in self.cover.spans for offset in (span.begin, span.end)
        ]
        offsets = np.array([offset for _, offset in ends], np.int64)
        states = self.log.read_at(offsets, ["size"])["state"].to_pylist()
        found: dict[str, int] = {}
        for (path, offset), state in zip(ends, states, strict=True):
            if state == "not_a_record":
                found.setdefault(path, offset)
        parts = [
            self._part("other", path, _Found(offset, None), None, None, None)
            for path, offset in found.items()
        ]
        return parts, any(
            state == "record" and path not in found
            for (path, _), state in zip(ends, states, strict=True)
        )

    def _part(
        self,
        part: Literal["whole", "start", "middle", "end", "other"],
        file: Location | str,
        found: _Found,
        stop: int | None,
        after: int | None,
        option: str | None,
    ) -> Uncovered:
        commands = Commands.of(self.store, self.log)
        verify = commands.verify()
        remedy = verify if found.store_timestamp is None else commands.rebuild(option) or verify
        return Uncovered(
            part,
            str(file),
            found.offset,
            stop,
            found.store_timestamp,
            after,
            self.log.min_offset,
            remedy,
        )

    def _wide(self, gaps: list[Gap]) -> list[Gap]:
        """Leave out gaps of nothing: the message behind an entry's own has the next entry."""
        known = [gap for gap in gaps if gap.after is not None and gap.after >= self.log.min_offset]
        if not known:
            return gaps
        after = np.array([gap.after for gap in known], np.int64)
        found = self.log.read_at(after, ["size"])
        narrow = {
            gap
            for gap, size in zip(known, found["size"].to_pylist(), strict=True)
            if size is not None and gap.before == self._behind(gap.start + size)
        }
        return [gap for gap in gaps if gap not in narrow]

    def _behind(self, offset: int) -> int:
        """Return where the message starts that follows one which ends at an offset."""
        file = next((file for file in self.log.files if file.start <= offset < file.stop), None)
        return offset + (0 if file is None else file.entry_head)

    def _first(self, gap: Gap) -> _Found | None:
        """Return the first message with keys inside a gap."""
        is_record = gap.after == gap.start
        for offsets, times, reached in self._keyed(gap.start, gap.stop, at_record=is_record):
            inside = gap.holds(offsets)
            if inside.any():
                row = int(np.argmax(inside))
                return _Found(int(offsets[row]), int(times[row]))
            if reached - gap.start > self._limit:
                return _Found(reached, None)
        return None

    def _end(self, begin: int, after: int | None) -> _Found | None:
        """Return the first message with keys behind the last entry, unless it is in the works."""
        found: _Found | None = None
        is_running = self._is_running
        latest = 0
        for offsets, times, reached in self._keyed(begin, None, at_record=after == begin):
            behind = offsets > (-1 if after is None else after)
            if found is None and behind.any():
                row = int(np.argmax(behind))
                found = _Found(int(offsets[row]), int(times[row]))
                latest = self._time_of_later_file(found) if is_running else 0
            if found is not None:
                # Not of those before it: the broker's clock may have stepped back since.
                latest = max(latest, int(times[offsets >= found.offset].max(initial=0)))
                if not (is_running and self._may_follow(found, latest)):
                    break
            if reached - begin > self._limit:
                # A broker that is so far behind has stopped to index, or will take long.
                return _Found(reached, None) if found is None else found
        if found is None or (is_running and self._may_follow(found, latest)):
            return None
        # Behind the end of a log that was cut lie remains of an earlier life.
        stop = self.log.agreed_stop(self.log.max_offset)
        assert stop is not None
        return found if found.offset < stop else None

    @staticmethod
    def _may_follow(found: _Found, latest: int) -> bool:
        """Return whether a broker may be about to index a message."""
        assert found.store_timestamp is not None
        return latest - found.store_timestamp <= LONGEST_LAG * _MILLISECONDS

    def _time_of_later_file(self, found: _Found) -> int:
        """Return when the first message of the last file was stored; 0 if it is not behind one."""
        last = self.log.last_with_data()
        if last < 0 or self.log.files[last].start <= found.offset:
            return 0
        return self.log.first_store_timestamp(self.log.files[last]) or 0

    @property
    def _is_running(self) -> bool:
        """Whether a broker may index what it has stored: elsewhere nobody can tell."""
        store = self.store.root.local
        return store is None or BrokerLock.of(store).state.may_run

    @property
    def _limit(self) -> int:
        is_local = all(file.path.local is not None for file in self.log.files)
        return _MAX_LOCAL if is_local else _MAX_REMOTE

    def _keyed(
        self, begin: int, stop: int | None, *, at_record: bool
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], int]]:
        """Yield the offsets and store times of messages with keys, and how far was read."""
        batches = self.log.scan(
            begin,
            INT64_MAX if stop is None else stop,
            [*_KEY_COLUMNS, "phy_offset", "store_timestamp"],
            mode="DROPMALFORMED",
            at_boundaries=at_record,
            max_records=_RECORDS,
        )
        for batch in batches:
            rows = np.unique(expand_messages(*(batch[name] for name in _KEY_COLUMNS))[0])
            offsets = batch["phy_offset"].to_numpy()
            times = batch["store_timestamp"].to_numpy()
            yield offsets[rows], times[rows], int(offsets[-1])
