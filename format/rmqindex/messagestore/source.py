"""Where a store is and how it is read: what each call opens anew, and datasets are pickled with."""

from __future__ import annotations

import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from rmqindex.commitlog.selection import select_messages
from rmqindex.commitlog.snapshot import commit_log_of
from rmqindex.errors import IncompleteIndexWarning, RmqIndexError
from rmqindex.export.formats import as_table
from rmqindex.indexfile.geometry import Layout
from rmqindex.messagestore.answers import incomplete_index, unpacking
from rmqindex.query.key_usage import listed_index, store_of
from rmqindex.query.usage import with_entries
from rmqindex.store.snapshot import IndexSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.commitlog.selection import Selection
    from rmqindex.commitlog.snapshot import LogArgument
    from rmqindex.indexfile.entries import Mode
    from rmqindex.query.usage import Usage
    from rmqindex.storage.location import Location
    from rmqindex.store.store import Store


@dataclass(frozen=True, slots=True)
class StoreSource:
    """What :class:`rmqindex.MessageStore` was given.

    Attributes:
        path: The store root, the index directory or the IndexFile.
        commit_log: Its argument of this name.
        layout: The geometry of every file; None to infer it.
        mode: ``FAILFAST`` or ``DROPMALFORMED``.
    """

    path: Location
    commit_log: LogArgument
    layout: Layout | None
    mode: Mode

    def __post_init__(self) -> None:
        """Refuse a geometry of another type, such as a pair."""
        if self.layout is not None and not isinstance(self.layout, Layout):
            raise TypeError(f"layout: expected a Layout, got {self.layout!r}")

    def files(
        self, store: Store | None = None, before: IndexSnapshot | None = None
    ) -> IndexSnapshot:
        """List the IndexFiles; ``before`` as :meth:`IndexSnapshot.of` takes it."""
        return IndexSnapshot.of(store or self.path, self.layout, self.mode, before)

    @contextmanager
    def opened_log(self, store: Store | None = None) -> Iterator[CommitLog | None]:
        """Open the CommitLog for one call; one that was given stays open."""
        log = commit_log_of(store or self.path, self.commit_log)
        with nullcontext() if log is None or log is self.commit_log else log:
            yield log

    @contextmanager
    def needed_log(self) -> Iterator[CommitLog]:
        """Open the CommitLog, or raise if there is none."""
        with self.opened_log() as log:
            if log is None:
                raise RmqIndexError(
                    f"{self.path}: expected a CommitLog beside the index, found none; "
                    "commit_log says where it is"
                )
            yield log

    def with_entries(
        self, usage: Usage, log: CommitLog, groups: Sequence[str], selection: Selection
    ) -> Usage:
        """Count the entries of messages, too; null where no index can be read."""
        try:
            files = listed_index(store_of(self.path), self.layout, self.mode)
            if files is None:
                return usage
            incomplete_index(files, ())
            return with_entries(usage, files, log, groups, selection)
        except RmqIndexError as error:
            text = f"the entries are not counted: {error}"
            warnings.warn(text, IncompleteIndexWarning, stacklevel=3)
            return usage

    def messages(
        self, selection: Selection, columns: Sequence[str], told: dict[str, str] | None = None
    ) -> pa.RecordBatchReader:
        """Return a reader of messages, which opens the log when it is first asked.

        Args:
            selection: Which messages.
            columns: As :meth:`rmqindex.MessageStore.messages` takes them.
            told: The metadata of the schema.
        """
        bodies = unpacking(columns, self.mode)
        schema = as_table(bodies.schema.empty_table()).schema.with_metadata(told)

        def read() -> Iterator[pa.RecordBatch]:
            with self.needed_log() as log:
                for block in select_messages(log, selection, bodies.source.names, mode=self.mode):
                    if block.batch is not None:
                        for batch in bodies.batches(block.batch, log.files):
                            yield from as_table(batch).to_batches()
                log.ensure_same()

        return pa.RecordBatchReader.from_batches(schema, read())
