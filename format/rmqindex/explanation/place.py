"""What surrounds the index of a path: its store, its CommitLog, its topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqindex.commitlog.sibling import commit_log_of
from rmqindex.explanation.wording import Commands
from rmqindex.folders import (
    INDEX_FOLDER,
    MULTI_PATH_SPLITTER,
    ROCKSDB_STORE_FOLDER,
)
from rmqindex.storage.location import Location
from rmqindex.store.contents import rocksdb_index
from rmqindex.store.store import lacks_index, resolve, root_of
from rmqindex.transaction.broker_lock import BrokerLock
from rmqindex.transaction.directories import entries_or_none, exists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.logfile.files import LogFile
    from rmqindex.storage.location import PathLike
    from rmqindex.transaction.broker_lock import BrokerState

    LogArgument = CommitLog | PathLike | Sequence[PathLike | LogFile] | None

__all__ = ["LogArgument", "Place"]


def _is_same(one: Location, other: Location) -> bool:
    """Return whether two directories are one local directory, by whatever links."""
    first, second = one.local, other.local
    return first is not None and second is not None and first.resolve() == second.resolve()


@dataclass(frozen=True, slots=True)
class Place:
    """A path of an index, and the store around it.

    Attributes:
        path: The path that the user gave.
        index: The index directory; absent where ``has_index`` is false.
        store: The store root.
        has_index: Whether there is an index directory, or a file of one.
    """

    path: Location
    index: Location
    store: Location
    has_index: bool

    @classmethod
    def of(cls, path: PathLike) -> Place:
        """Resolve a path; a store with a CommitLog and without an index is one, too.

        Raises:
            RmqIndexError: As for any path of an index; or the index is in RocksDB alone.
        """
        given = Location.of(path)
        if lacks_index(given):
            return cls(given, given.child(INDEX_FOLDER), given, has_index=False)
        folders = {entry.name for entry in entries_or_none(given) if entry.is_directory}
        index = resolve(given).directory
        store = given if INDEX_FOLDER in folders else index.parent
        return cls(given, index, store, has_index=True)

    def open_log(self, commit_log: LogArgument) -> CommitLog | None:
        """Return the CommitLog that an argument of :func:`rmqindex.verify` means."""
        return commit_log_of(self.path, commit_log)

    def commands(self, log: CommitLog | None) -> Commands:
        """Return the command lines for this index and a log, which rebuild only on local disks."""
        files = () if log is None else log.files
        folders = list(dict.fromkeys(file.path.parent for file in files))
        if not folders or any(each.local is None for each in (*folders, self.store)):
            return Commands(self.path, self.index, None, is_store=False)
        is_store = self.index.absolute.name == INDEX_FOLDER and all(
            _is_same(root_of(folder), self.store) for folder in folders
        )
        where = self.store if is_store else MULTI_PATH_SPLITTER.join(folders)
        return Commands(self.path, self.index, where, is_store=is_store)

    @property
    def broker(self) -> BrokerState:
        """Whether a broker runs on the store, crashed or stopped; elsewhere it stopped."""
        return BrokerLock.around(self.index).state

    @property
    def rocksdb_index(self) -> Location | None:
        """A file that proves that the store has an index in RocksDB as well."""
        return rocksdb_index(self.store)

    @property
    def has_rocksdb_store(self) -> bool:
        """Whether a broker from 5.4.0 on opened the store, which always makes this folder."""
        return exists(self.store.child(ROCKSDB_STORE_FOLDER))
