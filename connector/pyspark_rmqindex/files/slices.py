"""Ranges of entries of one file, as the planning found them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqindex.commitlog import PlannedLog
    from rmqindex.indexfile import Fingerprint

__all__ = ["FileSlice"]


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A range of entries of one file, as the planning found it.

    Attributes:
        path: Where the file is read from.
        name_path: The path as listed, for the column ``file_path``; the two differ while a
            commit is under way.
        hash_slot_num: Hash slots of the file.
        index_num: Entry places of the file.
        begin_timestamp: The header's field.
        fingerprint: What tells in a task whether the file is still the planned one.
        limit: The position after the last entry that was counted.
        start: The first position to read.
        stop: The position after the last one to read.
        commit_log: Where its messages are, the same object in all slices of a store, so that it is
            pickled once; None where they are not asked for, or not there.
    """

    path: str
    name_path: str
    hash_slot_num: int
    index_num: int
    begin_timestamp: int
    fingerprint: Fingerprint
    limit: int
    start: int
    stop: int
    commit_log: PlannedLog | None = None
