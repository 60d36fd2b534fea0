"""What a write deletes and what it brings in its place: no entry is thrown away unasked."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqindex.audit.extent import damaged_offsets
from rmqindex.bulk.salvaging import entries_in_order, replaced_entries
from rmqindex.commitlog.log import MATCH_STATES
from rmqindex.commitlog.selection import zeroed_messages
from rmqindex.errors import RmqIndexError, counted
from rmqindex.indexfile.committed import header_of, open_index_source, read_header
from rmqindex.indexfile.reader import IndexFile
from rmqindex.keys.hash_set import distinct
from rmqindex.keys.messages import HASH_BITS, pack_pairs
from rmqindex.layout.index_file import FIRST_POSITION, HEADER_SIZE, INT32_MAX
from rmqindex.query.message_keys import keys_at
from rmqindex.store.snapshot import open_in_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from rmqindex.bulk.roller import FileRoller
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.record.records import Records
    from rmqindex.store.snapshot import IndexSnapshot
    from rmqindex.transaction.directories import FileEntry

# Entries that are compared at a time.
_BLOCK = 65_536
# The columns of :class:`Entries`, in its order.
_COLUMNS = ("phy_offset", "key_hash")
_NOT_A_RECORD = MATCH_STATES.index("not_a_record")
_RECORD = MATCH_STATES.index("record")
# An entry counts whole seconds, milliseconds; a relayout may move it by one.
_APART = 1000
_NOUN = ("entry", "entries")


@dataclass(frozen=True, slots=True)
class FileSummary:
    """An IndexFile that a write deletes or adds.

    Attributes:
        name: Its name.
        size: Its size, bytes.
        entry_count: How many entries it has.
    """

    name: str
    size: int
    entry_count: int


@dataclass(frozen=True, slots=True)
class LostEntries:
    """Entries that have no replacement.

    Attributes:
        count: How many.
        first: The least offset of their messages, bytes.
        last: The greatest one, bytes.
        files: The names of the files that have them.
    """

    count: int
    first: int
    last: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Replacement:
    """What a write deletes, and what it brings in its place.

    Attributes:
        removed: The files that go, oldest first.
        added: The files that come, oldest first.
        lost: The entries that the new files lack; None without any.
        unreadable: Files that go and cannot be read, so that nobody knows what they lose.
        stray: The entries that the new files lack, and that led to no message with their key: they
            were damaged, or are of another history of the log. None without any.
    """

    removed: tuple[FileSummary, ...]
    added: tuple[FileSummary, ...]
    lost: LostEntries | None = None
    unreadable: tuple[str, ...] = ()
    stray: LostEntries | None = None

    @property
    def removed_count(self) -> int:
        """How many entries go."""
        return sum(file.entry_count for file in self.removed)

    @property
    def added_count(self) -> int:
        """How many entries come."""
        return sum(file.entry_count for file in self.added)

    def warnings(self, *, is_done: bool = False) -> list[str]:
        """Return a line for what would be lost, or is once it is done; none for nothing."""
        lines = []
        if self.lost is not None:
            lost = self.lost
            goes = "would be" if not is_done else "is" if lost.count == 1 else "are"
            lines.append(
                f"{counted(lost.count, *_NOUN)} in {_range_of(lost.files)}, of messages at "
                f"{_span_of(lost)}, {goes} lost"
            )
        if self.unreadable:
            state = (
                "could not be read, and may have had" if is_done else "cannot be read, and may have"
            )
            lines.append(
                f"{_range_of(self.unreadable)} {state} entries of messages that the CommitLog no "
                "longer has"
            )
        return lines

    def notes(self) -> list[str]:
        """Return a line for what goes and is no loss; none for nothing."""
        if self.stray is None:
            return []
        stray = self.stray
        line = (
            f"Left out {counted(stray.count, *_NOUN)} in {_range_of(stray.files)}, of "
            f"{_span_of(stray)}, without a message with their key: damaged ones, or those of "
            "another history of the CommitLog"
        )
        return [line]

    def ensure_nothing_lost(self, directory: object) -> None:
        """Refuse a replacement that lacks entries.

        Raises:
            RmqIndexError: It does.
        """
        warnings = self.warnings()
        if warnings:
            raise RmqIndexError(
                f"{directory}: expected new files with all entries of the old ones, got "
                f"{self.added_count} entries for {self.removed_count}: {'; '.join(warnings)}. "
                "Nothing was changed. If the CommitLog is damaged or lacks files, restore it "
                "first; allow_loss=True writes nevertheless"
            )


def _span_of(entries: LostEntries) -> str:
    """Return the offsets of entries as a text."""
    first, last = entries.first, entries.last
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def _range_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def summaries(paths: Sequence[Path]) -> tuple[FileSummary, ...]:
    """Return what complete local files hold."""
    found = []
    for path in paths:
        with open_index_source(path) as source:
            count = read_header(source).entry_count
            found.append(FileSummary(path.name, source.size, count))
    return tuple(found)


class Entries(NamedTuple):
    """Offsets and hashes of consecutive entries."""

    offsets: NDArray[np.int64]
    hashes: NDArray[np.int32]

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Entries:
        """Return the entries of a batch with ``_COLUMNS``."""
        return cls(*(batch[name].to_numpy() for name in _COLUMNS))

    def from_(self, start: int) -> Entries:
        """Return the entries from a place on."""
        return Entries(self.offsets[start:], self.hashes[start:])


class Missing(NamedTuple):
    """Which of some entries that new files lack are a loss, and which lead to no message."""

    lost: NDArray[np.bool_]
    stray: NDArray[np.bool_]


def _lacking_entries(
    old: Iterable[tuple[str, Entries]],
    new: Sequence[Path],
    layout: Layout,
    judge: Callable[[str, Entries], Missing],
) -> tuple[LostEntries | None, LostEntries | None]:
    """Return which entries of old files the new ones lack, each once: the lost ones, the stray."""
    lost: list[tuple[str, NDArray[np.int64]]] = []
    stray: list[tuple[str, NDArray[np.int64]]] = []
    present = _Same(new, layout)
    others: _Blocks | None = None
    for name, batch in old:
        entries = batch
        if others is None:
            entries = entries.from_(present.skip(entries))
            if not len(entries.offsets):
                continue
            others = _Blocks(new, layout)
        missing = others.lacking(entries)
        if len(missing.offsets):
            judged = judge(name, missing)
            lost.append((name, missing.offsets[judged.lost]))
            stray.append((name, missing.offsets[judged.stray]))
    return _summed_up(lost), _summed_up(stray)


def _summed_up(found: Sequence[tuple[str, NDArray[np.int64]]]) -> LostEntries | None:
    """Return entries, given as files with offsets, as one; None for no entry."""
    files = dict.fromkeys(name for name, offsets in found if len(offsets))
    if not files:
        return None
    offsets = np.concatenate([offsets for _, offsets in found])
    return LostEntries(len(offsets), int(offsets.min()), int(offsets.max()), tuple(files))


def _read(path: Path, layout: Layout) -> Iterator[Entries]:
    with IndexFile(path, layout) as file:
        yield from map(Entries.of, file.scan(columns=_COLUMNS))


class _Same:
    """Reads new files in step with the old ones until their entries differ."""

    def __init__(self, paths: Sequence[Path], layout: Layout) -> None:
        self._rest = (entries for path in paths for entries in _read(path, layout))
        self._entries = Entries(np.empty(0, np.int64), np.empty(0, np.int32))

    def skip(self, entries: Entries) -> int:
        """Return how many of the next old entries are followed by the same new ones."""
        done = 0
        while done < len(entries.offsets):
            if not len(self._entries.offsets):
                following = next(self._rest, None)
                if following is None:
                    break
                self._entries = following
            size = min(len(entries.offsets) - done, len(self._entries.offsets))
            ahead = self._entries
            if not (
                np.array_equal(entries.offsets[done : done + size], ahead.offsets[:size])
                and np.array_equal(entries.hashes[done : done + size], ahead.hashes[:size])
            ):
                break
            done, self._entries = done + size, self._entries.from_(size)
        return done


class _Blocks:
    """The new files' entries, searched by offset."""

    def __init__(self, paths: Sequence[Path], layout: Layout) -> None:
        self._layout = layout
        #: File, first position, and least and greatest offset of each block.
        self._places: list[tuple[Path, int]] = []
        least, greatest = [], []
        for path in paths:
            first = FIRST_POSITION
            for entries in _read(path, layout):
                self._places.append((path, first))
                least.append(int(entries.offsets.min()))
                greatest.append(int(entries.offsets.max()))
                first += len(entries.offsets)
        self._least, self._greatest = np.array(least, np.int64), np.array(greatest, np.int64)

    def lacking(self, old: Entries) -> Entries:
        """Return the entries that the new files lack, each once."""
        wanted = distinct(old.offsets)
        inside = np.searchsorted(wanted, self._greatest, side="right") > np.searchsorted(
            wanted, self._least
        )
        new = self._entries_of(np.flatnonzero(inside).tolist(), wanted)
        ours = distinct(_packed(wanted, old))
        missing = ours[~np.isin(ours, _packed(wanted, new))]
        hashes = (missing & np.int64(INT32_MAX)).astype(np.int32)
        return Entries(wanted[missing >> HASH_BITS], hashes)

    def _entries_of(self, places: list[int], wanted: NDArray[np.int64]) -> Entries:
        """Return the entries of blocks that have one of the sorted offsets."""
        offsets, hashes = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
        for place in places:
            path, first = self._places[place]
            with IndexFile(path, self._layout) as file:
                stop = min(first + _BLOCK, file.entry_count + FIRST_POSITION)
                for batch in file.scan(first, stop, _COLUMNS):
                    entries = Entries.of(batch)
                    at = np.minimum(np.searchsorted(wanted, entries.offsets), len(wanted) - 1)
                    kept = wanted[at] == entries.offsets
                    offsets.append(entries.offsets[kept])
                    hashes.append(entries.hashes[kept])
        return Entries(np.concatenate(offsets), np.concatenate(hashes))


def _packed(offsets: NDArray[np.int64], entries: Entries) -> NDArray[np.int64]:
    """Combine each entry's place among sorted offsets and its hash into one number."""
    return pack_pairs(np.searchsorted(offsets, entries.offsets), entries.hashes)


class SoundSpans:
    """The stretches of a log in which record follows record, as a walk found them.

    The last record of each does not count: what damaged the bytes behind it may begin in it.
    """

    def __init__(self, entry_head: int) -> None:
        """Set what lies between records."""
        self._entry_head = entry_head
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._last_start = self._last_stop = -1

    def add(self, records: Records) -> None:
        """Add the next records of the walk, in the order of their offsets."""
        starts = records.phy_offset
        before = np.concatenate(([self._last_start], starts[:-1]))
        behind = np.concatenate(([self._last_stop], starts[:-1] + records.size[:-1]))
        torn = np.flatnonzero((starts - behind > self._entry_head) | (before < 0))
        self._starts += starts[torn].tolist()
        self._stops += before[torn].tolist()
        self._last_start, self._last_stop = int(starts[-1]), int(starts[-1] + records.size[-1])

    def hold(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which offsets (bytes) lie in a stretch."""
        if not self._starts:
            return np.zeros(len(offsets), np.bool_)
        starts = np.array(self._starts, np.int64)
        stops = np.array([*self._stops[1:], self._last_start], np.int64)
        places = np.searchsorted(starts, offsets, side="right") - 1
        return np.asarray((places >= 0) & (offsets < stops[np.maximum(places, 0)]))


class LossJudge:
    """Tells lost entries from damaged ones, by the log's messages at their offsets."""

    def __init__(
        self,
        log: CommitLog,
        files: Sequence[FileEntry],
        layout: Layout,
        *,
        tags_are_chosen: bool,
        sound: SoundSpans | None = None,
    ) -> None:
        """Set the replaced files and their log."""
        self.log = log
        self._files = files
        self._layout = layout
        self._sound = sound
        self._tags_are_chosen = tags_are_chosen
        self._damaged: dict[str, NDArray[np.int64]] = {}

    def judge(self, name: str, missing: Entries) -> Missing:
        """Return which entries that new files lack are a loss, and which are stray.

        Those of messages that the log has are one if their hash is that of a key of the message;
        else they were damaged, or are of another history of the log, or the message was damaged:
        where bytes of it are zeroed, and where an entry that is sound itself has its time, and no
        history ends before it.
        Where the log is damaged, an entry may be all that is left of a message.
        Entries of tags that are left out because an argument says so are neither.
        """
        offsets, rows = np.unique(missing.offsets, return_inverse=True)
        found = keys_at(self.log, offsets, tags=True)
        states = found.states[rows]
        is_key = found.have(rows, missing.hashes)
        foreign = (states == _RECORD) & ~is_key
        chosen = np.zeros(len(rows), np.bool_)
        if self._tags_are_chosen and is_key.any():
            chosen = is_key
            is_key = keys_at(self.log, offsets, tags=False).have(rows, missing.hashes)
        lost = np.where(states == _RECORD, is_key, states != _NOT_A_RECORD)
        if foreign.any():
            suspects = Entries(missing.offsets[foreign], missing.hashes[foreign])
            damaged = np.isin(suspects.offsets, zeroed_messages(self.log, suspects.offsets))
            if not damaged.all():
                sound = self._are_sound(name, suspects, found.times[rows[foreign]])
                damaged |= sound & (suspects.offsets <= self._proved)
            lost[foreign] = damaged
        misled = missing.offsets >= self.log.max_offset
        misled |= missing.offsets < self.log.min_offset
        if misled.any():
            misled &= np.isin(missing.offsets, self._damaged_offsets(name))
            lost &= ~misled
        if self._sound is not None:
            lost |= ~misled & ~self._sound.hold(missing.offsets) & (missing.offsets >= 0)
        lost = np.asarray(lost, np.bool_)
        return Missing(lost, ~lost & ~chosen)

    def _damaged_offsets(self, name: str) -> NDArray[np.int64]:
        """Return the offsets of a file that lead elsewhere since they were damaged."""
        if name not in self._damaged:
            entry = next(file for file in self._files if file.name == name)
            damaged = np.empty(0, np.int64)
            with suppress(RmqIndexError):
                header = header_of(entry.path)
                damaged = damaged_offsets(self.log, partial(self.entries, entry), header)
            self._damaged[name] = damaged
        return self._damaged[name]

    @cached_property
    def _proved(self) -> int:
        """The greatest offset (bytes) of an entry whose message is in the log; -1 without one."""
        for file in reversed(self._files):
            proved = -1
            for batch in self.entries(file):
                offsets, rows = np.unique(batch.offsets, return_inverse=True)
                own = keys_at(self.log, offsets, tags=True).have(rows, batch.hashes)
                proved = max(proved, int(batch.offsets[own].max(initial=-1)))
            if proved >= 0:
                return proved
        return -1

    def entries(self, file: FileEntry) -> Iterator[Entries]:
        """Yield what can be read of a file that is replaced; nothing of a foreign one."""
        with suppress(RmqIndexError):
            yield from map(Entries.of, replaced_entries(file.path, self._layout, _COLUMNS))

    def _are_sound(
        self, name: str, entries: Entries, times: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return which entries are as they were written, for messages of some times.

        A damaged hash leads into another slot, whose chain does not have the entry; a damaged
        offset is out of order; and a message of another history of the log was stored at another
        time. Where a chain cannot be followed, the other two tell.
        """
        entry = next(file for file in self._files if file.name == name)
        # A damaged hash contradicts the geometry that the file's own bytes show.
        layout = self._layout if entry.size == self._layout.file_size else None
        try:
            written = entries_in_order(entry.path, self._layout, entries.hashes)
        except RmqIndexError:
            return np.ones(len(times), np.bool_)
        chained = written
        with suppress(RmqIndexError), open_in_store(entry.path, layout, "FAILFAST") as file:
            chained = file.lookup(distinct(entries.hashes))
        names = ("key_hash", "phy_offset")
        there = set(zip(*(chained[name].to_pylist() for name in names), strict=True))
        stored: dict[tuple[int, int], list[int]] = {}
        rows = zip(*(written[name].to_pylist() for name in written.column_names), strict=True)
        for code, offset, time in rows:
            if (code, offset) in there:
                stored.setdefault((code, offset), []).append(time)
        asked = zip(entries.hashes.tolist(), entries.offsets.tolist(), times.tolist(), strict=True)
        return np.array(
            [
                any(-_APART <= time - each < 2 * _APART for each in stored.get((code, offset), ()))
                for code, offset, time in asked
            ]
        )


def replacement_of(
    present: IndexSnapshot, roller: FileRoller, layout: Layout, judge: LossJudge
) -> Replacement:
    """Compare the files of an index with those that are to replace them."""
    unreadable: list[str] = []

    def old() -> Iterator[tuple[str, Entries]]:
        for file in present:
            entry = file.entry
            try:
                # Of a file that a broker fills, what it had when the log was opened.
                left = file.entry_count if header_of(entry.path) != file.header else None
                for batch in replaced_entries(entry.path, layout, _COLUMNS):
                    yield entry.name, Entries.of(batch.slice(0, left))
                    left = None if left is None else max(left - len(batch), 0)
            except RmqIndexError:
                if entry.size > HEADER_SIZE and judge.log.min_offset:
                    unreadable.append(entry.name)

    lost, stray = _lacking_entries(old(), roller.paths, layout, judge.judge)
    removed = tuple(
        FileSummary(file.entry.name, file.entry.size, file.entry_count) for file in present
    )
    return Replacement(removed, summaries(roller.paths), lost, tuple(unreadable), stray)
