"""Ranges of entries of one file, as found during planning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqindex.commitlog import PlannedLog
    from rmqindex.indexfile import Fingerprint
    from rmqindex.storage import Location

__all__ = ["FileSlice"]


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A range of entries of one file, as found during planning.

    Attributes:
        path: The path to read.
        name_path: The path as listed, for the column ``file_path``; the two differ while a
            commit is under way.
        hash_slot_num: The number of hash slots in the file.
        index_num: The number of entry places in the file.
        begin_timestamp: The header's field.
        fingerprint: Lets a task check that the file is still the planned one.
        limit: The position after the last entry at the time of planning.
        start: The first position to read.
        stop: The position after the last one to read.
        commit_log: The log with its messages, the same object in all slices of a store, so that it
            is pickled once; None if there is none or messages are not needed.
    """

    path: Location
    name_path: Location
    hash_slot_num: int
    index_num: int
    begin_timestamp: int
    fingerprint: Fingerprint
    limit: int
    start: int
    stop: int
    commit_log: PlannedLog | None = None
