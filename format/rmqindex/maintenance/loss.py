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

__all__ = ["LossJudge", "replacement_of"]

_NOT_A_RECORD = MATCH_STATES.index("not_a_record")
_RECORD = MATCH_STATES.index("record")


class LossJudge:
    """Tells entries that are lost from wrong ones, by what the log has at their offsets."""

    def __init__(self, log: CommitLog, agreed: int | None, *, tags_are_chosen: bool) -> None:
        """Set what was indexed.

        Args:
            log: The log.
            agreed: The offset (bytes) behind which a group of DLedger is not known to have agreed;
                None where nothing was left out for that.
            tags_are_chosen: Whether the caller said if tags are indexed.
        """
        self.log = log
        self._agreed = agreed
        self._tags_are_chosen = tags_are_chosen

    def is_lost(self, missing: Entries) -> NDArray[np.bool_]:
        """Return which entries that new files lack are a loss.

        Those of messages that the log has are one if their hash is that of a key of the message;
        else they were damaged, or are of another history of the log.

        Args:
            missing: Entries of the old files.
        """
        offsets, rows = np.unique(missing.offsets, return_inverse=True)
        found = keys_at(self.log, offsets, tags=not self._tags_are_chosen)
        states = found.states[rows]
        is_key = found.have(rows, missing.hashes)
        lost = np.where(states == _RECORD, is_key, states != _NOT_A_RECORD)
        if self._agreed is not None:
            lost &= missing.offsets < self._agreed
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
