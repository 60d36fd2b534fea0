"""Writes entries into one IndexFile after the other (``getAndCreateLastIndexFile``).

The first ones may be those that replaced files have of messages that the log has no longer.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqindex.bulk.resume import make_exact
from rmqindex.bulk.salvaging import replaced_entries, usable_begin
from rmqindex.errors import RmqIndexError
from rmqindex.indexfile.committed import header_of
from rmqindex.indexfile.decoding import MILLISECONDS, odd_in_time
from rmqindex.indexwriter.appender import EntryAppender
from rmqindex.indexwriter.writer import InPlaceFlush, open_appender
from rmqindex.keys.messages import pack_pairs
from rmqindex.layout.index_file import FIRST_POSITION, INT64_MAX
from rmqindex.query.message_keys import keys_at
from rmqindex.store.names import next_names
from rmqindex.transaction.append_undo import HeaderMark

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from numpy.typing import NDArray

    from rmqindex.bulk.committer import Commit, Committer
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.layout.index_file import IndexHeader
    from rmqindex.store.snapshot import IndexSnapshot
    from rmqindex.transaction.directories import FileEntry

_COLUMNS = ("key_hash", "phy_offset", "store_timestamp")


class FileRoller:
    """Writes entries into files of a directory; each is flushed when it is full."""

    def __init__(
        self,
        directory: Path,
        layout: Layout,
        zone: tzinfo | None,
        *,
        last_name: str | None = None,
        resumed: Path | None = None,
        commit: Commit | None = None,
    ) -> None:
        """Begin with a new file, or continue a present one."""
        self._directory = directory
        self._layout = layout
        self._zone = zone
        self._last_name = last_name
        self._commit = commit
        self._appender = None if resumed is None else open_appender(resumed, layout)
        self._is_staged = False
        self._end = (0, 0)
        #: The files written to, oldest first.
        self.paths: list[Path] = [] if resumed is None else [resumed]
        #: How many entries were written.
        self.count = 0

    def put_many(
        self,
        key_hashes: NDArray[np.int32],
        phy_offsets: NDArray[np.int64],
        store_timestamps: NDArray[np.int64],
    ) -> None:
        """Append entries, into as many files as they need."""
        done = 0
        while done < len(key_hashes):
            if self._appender is None or not self._appender.free:
                self._roll(int(store_timestamps[done]))
            assert self._appender is not None  # just made
            done += self._appender.put_many(
                key_hashes[done:], phy_offsets[done:], store_timestamps[done:]
            )
        self.count += len(key_hashes)

    def _roll(self, first_timestamp: int) -> None:
        self._last_name = next_names([first_timestamp], self._last_name, zone=self._zone)[0]
        self.close()
        path = self._directory / self._last_name
        self._is_staged = self._commit is not None and self._commit.staging.can_move
        if self._commit is not None and self._is_staged:
            place = self._commit.staging.path / path.name
            self._appender = EntryAppender.create(place, self._layout, *self._end)
        else:
            self._appender = open_appender(path, self._layout, *self._end)
            self._tell_made(path, self._appender)
        self.paths.append(path)

    def flush(self) -> None:
        """Make the written entries visible, and sync them to disk."""
        appender = self._appender
        if appender is None:
            return
        path = self.paths[-1]
        if self._commit is None:
            appender.flush_unseen()
        elif self._is_staged:
            appender.publish(path)
            self._is_staged = False
            self._tell_made(path, appender)
        elif appender.has_changes:
            is_made = path.name in self._commit.made
            self._commit.flush(InPlaceFlush(path.name, appender))
            if is_made:
                self._tell_made(path, appender)

    def _tell_made(self, path: Path, appender: EntryAppender) -> None:
        """Tell the commit the state in which a new file is left."""
        if self._commit is not None:
            header = appender.written_header.to_bytes()
            self._commit.made[path.name] = HeaderMark(self._layout.file_size, header)

    def close(self) -> None:
        """Flush and close the last file."""
        if self._appender is not None:
            try:
                self.flush()
            finally:
                self._appender.close()
            header = self._appender.header
            self._end = (header.end_phy_offset, header.end_timestamp)
            self._appender = None

    def abandon(self) -> None:
        """Close the last file without a flush, after an error."""
        if self._appender is not None and not self._appender.closed:
            with contextlib.suppress(OSError), contextlib.closing(self._appender):
                self._appender.drop()
        self._appender = None


def replace_files(committer: Committer, old: IndexSnapshot, roller: FileRoller) -> int | None:
    """Replace the files that were present when a roller began by the roller's."""
    with committer.begin() as commit:
        old.ensure_unchanged(committer.directory)
        commit.place([path.name for path in roller.paths])
        commit.remove(old.names)
        return commit.finish()


@dataclass(frozen=True, slots=True)
class Leftover:
    """Entries of messages that the log no longer has."""

    entry_count: int = 0
    unreadable: tuple[Path, ...] = ()
    damaged_count: int = 0


class _ExpiredPart(NamedTuple):
    """The first entries of a file, which are of expired messages but for damaged ones."""

    entry: FileEntry
    header: IndexHeader
    #: How many they are, of those that can be read.
    entry_count: int
    #: The seconds of the last one.
    seconds: int
    #: Whether it is the last one of the file; None where those of messages that the log has follow.
    is_end: bool | None
    #: Offsets of their messages, bytes: of the first one, one in the middle, and the greatest.
    first: int
    middle: int
    last: int
    #: How many more cannot be read.
    damaged_count: int


def keep_expired(
    files: Sequence[FileEntry], layout: Layout, log: CommitLog, roller: FileRoller
) -> Leftover:
    """Put the entries of expired messages into new files, before all others, in the log's order."""
    unreadable: list[Path] = []
    parts: list[_ExpiredPart] = []
    for entry in files if log.min_offset else ():
        try:
            part = _expired_part(entry, layout, log.min_offset)
        except RmqIndexError:
            unreadable.append(Path(entry.path))
        else:
            parts += [] if part is None else [part]
    parts.sort(key=lambda part: part.middle)
    damaged = end = 0
    for number, part in enumerate(parts):
        following = parts[number + 1].header.begin_timestamp if number + 1 < len(parts) else None
        try:
            begin = _begin_of(part, layout, log, end, following)
            end = _put_expired(part, begin, parts[:number], layout, log.min_offset, roller)
        except RmqIndexError:
            unreadable.append(Path(part.entry.path))
        else:
            damaged += part.damaged_count
    return Leftover(roller.count, tuple(unreadable), damaged)


def _expired_part(entry: FileEntry, layout: Layout, min_offset: int) -> _ExpiredPart | None:
    """Find where a file's entries of the log's messages begin; None if that is at once.

    A damaged offset may look like one of the other side: fewest are on the wrong one.
    """
    header = header_of(entry.path)
    read = balance = least = count = seconds = 0
    first = middle = last = -1
    behind = FIRST_POSITION
    for batch in replaced_entries(
        entry.path, layout, ("position", "phy_offset", "store_timestamp")
    ):
        positions, offsets, times = (column.to_numpy() for column in batch.columns)
        first = first if read else int(offsets[0])
        if not read and min_offset <= header.begin_phy_offset == first:
            return None
        expired = (offsets >= 0) & (offsets < min_offset)
        balances = balance + np.cumsum(np.where(expired, -1, offsets >= min_offset))
        place = int(np.argmin(balances))
        if balances[place] < least:
            inside = np.flatnonzero(expired[: place + 1])
            least, count, behind = int(balances[place]), read + place + 1, int(positions[place]) + 1
            seconds = int(times[place] - usable_begin(header)) // MILLISECONDS
            middle = int(np.median(offsets[inside])) if middle < 0 else middle
            last = max(last, int(offsets[inside].max()))
        read, balance = read + len(offsets), int(balances[-1])
    if not count:
        return None
    is_end = None
    if count == read:
        stop = min(header.index_count, layout.index_num)
        is_end, behind = behind >= stop, max(behind, stop)
    damaged = behind - FIRST_POSITION - count
    return _ExpiredPart(entry, header, count, seconds, is_end, first, middle, last, damaged)


def _put_expired(
    part: _ExpiredPart,
    begin: int,
    before: Sequence[_ExpiredPart],
    layout: Layout,
    min_offset: int,
    roller: FileRoller,
) -> int:
    """Put a file's entries of expired messages; return the time of the last one.

    What files before it have, too, is put once: the file is a copy, or was indexed again.
    """
    header, left, end = part.header, part.entry_count, begin
    present = [_pairs_of(each, layout) for each in before if each.last > part.middle]
    for batch in replaced_entries(part.entry.path, layout, ("position", *_COLUMNS)):
        positions, hashes, offsets, times = (column.to_numpy()[:left] for column in batch.columns)
        times = times + (begin - usable_begin(part.header))
        if positions[0] == FIRST_POSITION:
            times[0] = begin
            header = replace(header, begin_timestamp=begin, begin_phy_offset=int(offsets[0]))
        odd = odd_in_time(offsets, times // MILLISECONDS)
        times[odd] = times[np.flatnonzero(odd) - 1]  # of a damaged one nothing else tells
        make_exact(header, offsets, times, None)
        kept = (offsets >= 0) & (offsets < min_offset)
        for pairs in present:
            kept &= ~_are_among(offsets, hashes, pairs)
        roller.put_many(hashes[kept], offsets[kept], times[kept])
        end = int(times[-1])
        left -= len(offsets)
        if not left:
            break
    return end


def _pairs_of(part: _ExpiredPart, layout: Layout) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the offset and the hash of each entry."""
    batches = [*replaced_entries(part.entry.path, layout, ("phy_offset", "key_hash"))]
    offsets, hashes = (
        np.concatenate([batch[name].to_numpy() for batch in batches])[: part.entry_count]
        for name in ("phy_offset", "key_hash")
    )
    return offsets, hashes


def _are_among(
    offsets: NDArray[np.int64],
    hashes: NDArray[np.int32],
    others: tuple[NDArray[np.int64], NDArray[np.int32]],
) -> NDArray[np.bool_]:
    """Return which entries have the offset and the hash of one of others."""
    wanted, rows = np.unique(offsets, return_inverse=True)
    places = np.minimum(np.searchsorted(wanted, others[0]), len(wanted) - 1)
    there = wanted[places] == others[0]
    return np.isin(pack_pairs(rows, hashes), pack_pairs(places[there], others[1][there]))


def _begin_of(
    part: _ExpiredPart, layout: Layout, log: CommitLog, end: int, following: int | None
) -> int:
    """Return the time from which a file's entries count, also where that of its header is damaged.

    The header's times prove each other; else one of them has to lie behind the entries of the file
    before and, with all entries of this one, before ``following``.
    """
    if part.is_end is None:
        begin = _begin_by_messages(part, layout, log)
        if begin is not None:
            return begin
    else:
        begin = part.header.begin_timestamp
        by_end = part.header.end_timestamp - part.seconds * MILLISECONDS
        late = by_end - begin  # up to a second; one more after a relayout; any where others follow
        is_one = part.is_end or part.header.begin_phy_offset != part.first
        if begin > 0 and late >= -MILLISECONDS and (late < 2 * MILLISECONDS or not is_one):
            return begin
        if following is None:
            first = log.read_at([log.min_offset], ["store_timestamp"])["store_timestamp"][0]
            following = first.as_py()
        latest = (following or INT64_MAX) - (part.seconds - 1) * MILLISECONDS
        told = (begin, by_end) if part.is_end else (begin,)
        fitting = [each for each in told if max(1, end - MILLISECONDS) <= each <= latest]
        if len(fitting) == 1:
            return fitting[0]
    raise RmqIndexError(f"{part.entry.path}: the times of its entries are not known")


def _begin_by_messages(part: _ExpiredPart, layout: Layout, log: CommitLog) -> int | None:
    """Return the time from which a file's entries count, by their messages; None if unknown."""
    begin = usable_begin(part.header)
    is_proved = begin > 0 and part.header.begin_phy_offset == part.first
    for batch in replaced_entries(part.entry.path, layout, _COLUMNS):
        hashes, offsets, times = (batch[name].to_numpy() for name in _COLUMNS)
        wanted, rows = np.unique(offsets, return_inverse=True)
        found = keys_at(log, wanted, tags=True)
        # A message from before a clock stepped back counts as one of the first second.
        told = found.have(rows, hashes) & (times > begin)
        if told.any():
            begins = found.times[rows[told]] - (times[told] - begin)
            # A relayout moves entries by a second.
            agree = (begins > begin - MILLISECONDS) & (begins < begin + 2 * MILLISECONDS)
            if is_proved and agree.any():
                return begin
            middle = int(np.sort(begins)[len(begins) // 2])  # others were damaged
            return int(begins[np.abs(begins - middle) < MILLISECONDS].min())
    return begin if is_proved else None
