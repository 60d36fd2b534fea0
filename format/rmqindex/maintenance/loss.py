"""What is lost where an index is replaced by what its CommitLog gives."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.bulk.replacement import (
    COLUMNS,
    Entries,
    FileSummary,
    Replacement,
    lost_entries,
    summaries,
)
from rmqindex.commitlog.log import MATCH_STATES
from rmqindex.commitlog.zeroed import zeroed_messages
from rmqindex.errors import RmqIndexError
from rmqindex.indexfile.committed import open_index_source, read_header
from rmqindex.layout import HEADER_SIZE
from rmqindex.maintenance.intact_entries import replaced_entries
from rmqindex.maintenance.log_proof import keys_at
from rmqindex.store.snapshot import open_in_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.bulk.roller import FileRoller
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.record.records import Records
    from rmqindex.store.snapshot import Snapshot
    from rmqindex.transaction.directories import FileEntry

__all__ = ["LossJudge", "SoundSpans", "replacement_of"]

_NOT_A_RECORD = MATCH_STATES.index("not_a_record")
_RECORD = MATCH_STATES.index("record")
# An entry counts whole seconds, milliseconds; a relayout may move it by one.
_APART = 1000


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
    """Tells entries that are lost from wrong ones, by what the log has at their offsets."""

    def __init__(
        self,
        log: CommitLog,
        files: Sequence[FileEntry],
        layout: Layout,
        *,
        tags_are_chosen: bool,
        sound: SoundSpans | None = None,
    ) -> None:
        """Set what was indexed."""
        self.log = log
        self._files = files
        self._layout = layout
        self._sound = sound
        self._tags_are_chosen = tags_are_chosen

    def is_lost(self, name: str, missing: Entries) -> NDArray[np.bool_]:
        """Return which entries that new files lack are a loss.

        Those of messages that the log has are one if their hash is that of a key of the message;
        else they were damaged, or are of another history of the log, or the message was damaged:
        where bytes of it are zeroed, and where an entry that is sound itself has its time, and no
        history ends before it.
        Where the log is damaged, an entry may be all that is left of a message.
        """
        offsets, rows = np.unique(missing.offsets, return_inverse=True)
        found = keys_at(self.log, offsets, tags=True)
        states = found.states[rows]
        is_key = found.have(rows, missing.hashes)
        foreign = (states == _RECORD) & ~is_key
        if self._tags_are_chosen and is_key.any():
            is_key = keys_at(self.log, offsets, tags=False).have(rows, missing.hashes)
        lost = np.where(states == _RECORD, is_key, states != _NOT_A_RECORD)
        if foreign.any():
            suspects = Entries(missing.offsets[foreign], missing.hashes[foreign])
            damaged = np.isin(suspects.offsets, zeroed_messages(self.log, suspects.offsets))
            if not damaged.all():
                sound = self._are_sound(name, suspects, found.times[rows[foreign]])
                damaged |= sound & (suspects.offsets <= self._proved)
            lost[foreign] = damaged
        beyond = missing.offsets >= self.log.max_offset
        if beyond.any() and (end := self._end_of(name)) is not None:
            beyond &= missing.offsets > end  # of an entry before the last one: it was damaged
            lost &= ~beyond
        else:
            beyond[:] = False
        if self._sound is not None:
            lost |= ~beyond & ~self._sound.hold(missing.offsets) & (missing.offsets >= 0)
        return np.asarray(lost)

    def _end_of(self, name: str) -> int | None:
        """Return the offset of a file's last entry if the header agrees."""
        entry = next(file for file in self._files if file.name == name)
        last = -1
        for batch in self.entries(entry):
            last = int(batch.offsets[-1])
        with suppress(RmqIndexError), open_index_source(entry.path) as source:
            if last >= 0 and read_header(source).end_phy_offset == last:
                return last
        return None

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
            for batch in replaced_entries(file.path, self._layout, COLUMNS):
                yield Entries(*(batch[name].to_numpy() for name in COLUMNS))

    def _are_sound(
        self, name: str, entries: Entries, times: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return which entries are as they were written, for messages of some times.

        A damaged hash leads into another slot, whose chain does not have the entry; and a message
        of another history of the log was stored at another time.
        """
        entry = next(file for file in self._files if file.name == name)
        # A damaged hash contradicts the geometry that the file's own bytes show.
        layout = self._layout if entry.size == self._layout.file_size else None
        try:
            with open_in_store(entry.path, layout, "FAILFAST") as file:
                found = file.lookup(np.unique(entries.hashes))
        except RmqIndexError:
            return np.ones(len(times), np.bool_)
        names = ("key_hash", "phy_offset", "store_timestamp")
        stored: dict[tuple[int, int], list[int]] = {}
        for code, offset, time in zip(*(found[each].to_pylist() for each in names), strict=True):
            stored.setdefault((code, offset), []).append(time)
        asked = zip(entries.hashes.tolist(), entries.offsets.tolist(), times.tolist(), strict=True)
        return np.array(
            [
                any(-_APART <= time - each < 2 * _APART for each in stored.get((code, offset), ()))
                for code, offset, time in asked
            ]
        )


def replacement_of(
    there: Snapshot, roller: FileRoller, layout: Layout, judge: LossJudge
) -> Replacement:
    """Compare the files of an index with those that are to replace them."""
    unreadable: list[str] = []

    def old() -> Iterator[tuple[str, Entries]]:
        for entry in there.files:
            try:
                for batch in replaced_entries(entry.path, layout, COLUMNS):
                    yield entry.name, Entries(*(batch[name].to_numpy() for name in COLUMNS))
            except RmqIndexError:
                if entry.size > HEADER_SIZE and judge.log.min_offset:
                    unreadable.append(entry.name)

    lost = lost_entries(old(), roller.paths, layout, judge.is_lost)
    removed = tuple(
        FileSummary(name, size, 0 if header is None else header.entry_count)
        for name, size, header in there.headers
    )
    return Replacement(removed, summaries(roller.paths), lost, tuple(unreadable))
