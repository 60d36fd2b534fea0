"""Ranges of entries of one file, as planned, and the errors of tasks whose file has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from rmqindex import Layout, RmqIndexError
from rmqindex.commitlog import LogSnapshot  # noqa: TC001  (read by from_json)
from rmqindex.indexfile import Fingerprint  # noqa: TC001  (likewise)
from rmqindex.layout import FIRST_POSITION
from rmqindex.storage import FileChangedError, Location

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqindex.store import SnapshotFile


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A range of entries of one file, as found during planning.

    It is what a task needs of a :class:`rmqindex.store.SnapshotFile`, and small, since a plan
    pickles one for each task.

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
    commit_log: LogSnapshot | None = None

    @property
    def layout(self) -> Layout:
        """The geometry of the file."""
        return Layout(self.hash_slot_num, self.index_num)

    @classmethod
    def of(cls, file: SnapshotFile) -> FileSlice | None:
        """Return the slice of a whole file; None without entries."""
        if file.layout is None or file.fingerprint is None:
            return None
        return cls(
            path=file.entry.path,
            name_path=file.name_path,
            hash_slot_num=file.layout.hash_slot_num,
            index_num=file.layout.index_num,
            begin_timestamp=file.header.begin_timestamp,
            fingerprint=file.fingerprint,
            limit=file.fingerprint.stop,
            start=FIRST_POSITION,
            stop=file.fingerprint.stop,
        )


T = TypeVar("T")


def changed_error(path: str, what: str) -> RmqIndexError:
    """Return the error for a file that changed between planning and reading."""
    return RmqIndexError(
        f"{path}: the file was {what} since the query was planned; run the query again, on a "
        "fresh DataFrame"
    )


def as_planned(items: Iterator[T]) -> Iterator[T]:
    """Yield the items of a task; if a file changed, raise an error that says what to do."""
    try:
        yield from items
    except FileChangedError as error:
        raise changed_error(error.path, error.what) from error
