"""What is lost where an index is replaced by what its CommitLog gives."""

from __future__ import annotations

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
from rmqindex.layout import HEADER_SIZE
from rmqindex.maintenance.intact_entries import replaced_entries
from rmqindex.maintenance.log_proof import keys_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rmqindex.bulk.roller import FileRoller
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.fileset.snapshot import Snapshot
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.record.records import Records

__all__ = ["LossJudge", "SoundSpans", "replacement_of"]

_NOT_A_RECORD = MATCH_STATES.index("not_a_record")
_RECORD = MATCH_STATES.index("record")


class SoundSpans:
    """The stretches of a log in which record follows record, as a walk found them.

    The last record of each does not count: what damaged the bytes behind it may begin in it.
    """

    def __init__(self, entry_head: int) -> None:
        """Set what lies between records.

        Args:
            entry_head: The bytes before each record.
        """
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
        *,
        tags_are_chosen: bool,
        sound: SoundSpans | None = None,
    ) -> None:
        """Set what was indexed.

        Args:
            log: The log.
            tags_are_chosen: Whether the caller said if tags are indexed.
            sound: Where the log is sound, if damage was passed over or not all of it was read; None
                for everywhere. Nobody knows what it had elsewhere.
        """
        self.log = log
        self._sound = sound
        self._tags_are_chosen = tags_are_chosen

    def is_lost(self, missing: Entries) -> NDArray[np.bool_]:
        """Return which entries that new files lack are a loss.

        Those of messages that the log has are one if their hash is that of a key of the message;
        else they were damaged, or are of another history of the log. Where bytes of the message
        are zeroed, it may have lost the key.
        Where the log is damaged, an entry may be all that is left of a message.

        Args:
            missing: Entries of the old files.
        """
        offsets, rows = np.unique(missing.offsets, return_inverse=True)
        found = keys_at(self.log, offsets, tags=not self._tags_are_chosen)
        states = found.states[rows]
        is_key = found.have(rows, missing.hashes)
        lost = np.where(states == _RECORD, is_key, states != _NOT_A_RECORD)
        foreign = (states == _RECORD) & ~is_key
        if foreign.any():
            lost |= foreign & np.isin(
                missing.offsets, zeroed_messages(self.log, missing.offsets[foreign])
            )
        if self._sound is not None:
            lost |= ~self._sound.hold(missing.offsets) & (missing.offsets >= 0)
        return np.asarray(lost)


def replacement_of(
    there: Snapshot, roller: FileRoller, layout: Layout, judge: LossJudge
) -> Replacement:
    """Compare the files of an index with those that are to replace them.

    Args:
        there: The files of the index.
        roller: The roller of the new files, closed.
        layout: Their geometry.
        judge: Judges the entries that they lack.

    Raises:
        RmqIndexError: The storage failed.
    """
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
