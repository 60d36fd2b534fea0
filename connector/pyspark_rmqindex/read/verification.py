"""Compares entries with their messages, and handles those that cannot be verified."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_rmqindex.log_lines import Warnings
from pyspark_rmqindex.messages.columns import BODY_ADVICE, MessageColumns, ensure_fits, log_columns
from pyspark_rmqindex.read.batches import keep
from pyspark_rmqindex.schema import EXTRA_MESSAGE_COLUMNS, KEY_COLUMNS, MATCH_COLUMN
from rmqindex import RmqIndexError
from rmqindex.commitlog import BODY_TEXT, bad_body, in_halves
from rmqindex.query import MATCH_CODES, NO_LOG, VERIFIED, SearchedFile, Verifier, pairs_kept
from rmqindex.record import BadInnerBatchError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from pyspark_rmqindex.files.slices import FileSlice
    from pyspark_rmqindex.options import ReadOptions
    from rmqindex import CommitLog, IndexFile
    from rmqindex.messagestore import Range
    from rmqindex.query import Comparison

# The most bytes of messages held at once if bodies or properties are requested.
_MAX_BYTES = 32 * 1024 * 1024
_BODIES = frozenset({"body", BODY_TEXT})
_HEAVY = _BODIES | {"properties"}


class MessageCheck:
    """Compares the entries of one task with their messages; a context manager.

    On exit, it checks that the logs are still those it compared with.

    Attributes:
        verified: How many entries a message confirmed until now, of whatever key.
    """

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        """Prepare to return the requested columns."""
        self.verified = 0
        self._options = options
        self._fields = [field for field in schema if field.name in EXTRA_MESSAGE_COLUMNS]
        names = [field.name for field in self._fields]
        self._is_heavy = not _HEAVY.isdisjoint(names)
        self._opened = ExitStack()
        self._logs: dict[str, CommitLog] = {}
        self._warn = Warnings()
        self._verifier = Verifier(
            "members",
            log_columns(names, decompress=options.unpacks_bodies),
            check_crc=options.check_crc,
            strict=options.mode == "FAILFAST",
            max_body_size=options.max_body_size,
        )

    def matches(
        self, file: IndexFile, file_slice: FileSlice, entries: pa.RecordBatch, times: Range
    ) -> Iterator[pa.RecordBatch]:
        """Yield the entries that match their keys and times, with the columns of their messages.

        Those that were looked up have the columns ``bound_topic`` and ``bound_key``.
        """
        # The time that counts is the message's: an index of another history has others.
        ranges = {} if times.is_everything else {"store_timestamp": times}
        for checked in self.check(file, file_slice, entries):
            batch = _bound(checked) if "bound_key" in checked.schema.names else checked
            for within in keep(batch, ranges):
                yield handle_unverified(within, file_slice, self._options)

    def check(
        self, file: IndexFile, file_slice: FileSlice, entries: pa.RecordBatch
    ) -> Iterator[pa.RecordBatch]:
        """Compare entries of one file with their messages."""
        if file_slice.commit_log is None:
            yield self._without_check(entries)
            return
        snapshot = file_slice.commit_log
        log = self._logs.get(snapshot.path)
        if log is None:
            log = self._logs[snapshot.path] = self._opened.enter_context(snapshot.open())
        searched = SearchedFile.of(file, file_slice.name_path)
        for part in self._portions(log, entries):
            yield from in_halves(part, partial(self._check, log, searched))

    def __enter__(self) -> Self:
        """Return the check itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the logs, after checking them again if nothing failed."""
        self._logs.clear()
        self._opened.__exit__(exc_type, exc, traceback)

    def _portions(self, log: CommitLog, entries: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Split a batch so that the messages of each piece fit into memory."""
        if not self._is_heavy:
            yield entries
            return
        sizes = log.read_at(entries.column("phy_offset"), ["size"]).column("size").fill_null(0)
        filled = np.cumsum(sizes.to_numpy(zero_copy_only=False), dtype=np.int64)
        start = 0
        while start < entries.num_rows:
            before = int(filled[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(filled, before + _MAX_BYTES, side="right")))
            yield entries.slice(start, stop - start)
            start = stop

    def _without_check(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        size = entries.num_rows
        columns = {
            MATCH_COLUMN: pa.repeat(NO_LOG, size),
            "topic": pa.nulls(size, pa.string()),
            "key": pa.nulls(size, pa.string()),
        }
        columns |= {field.name: pa.nulls(size, field.type) for field in self._fields}
        return _with_columns(entries, columns)

    def _check(
        self, log: CommitLog, searched: SearchedFile, entries: pa.RecordBatch
    ) -> pa.RecordBatch:
        columns = ("key_hash", "phy_offset", "position")
        arrays = (entries.column(name).to_numpy() for name in columns)
        try:
            compared = self._verifier.compare(log, [searched], *arrays)
        except BadInnerBatchError as error:
            raise bad_body(log.files, error.phy_offset, str(error), BODY_ADVICE) from error
        return self._enrich(log, entries, compared)

    def _enrich(
        self, log: CommitLog, entries: pa.RecordBatch, compared: Comparison
    ) -> pa.RecordBatch:
        messages = MessageColumns(
            log,
            compared.messages,
            mode=self._options.mode,
            decompress=self._options.unpacks_bodies,
            max_body_size=self._options.max_body_size,
            members=compared.members,
            on_bad=self._warn,
        )
        topics, keys = compared.found_pairs()
        verified, rows = compared.verified, compared.rows
        unknown = None if verified.all() else ~verified
        taken = pa.array(rows, mask=unknown)
        batch = messages.batch
        times = entries.column("store_timestamp").to_numpy().copy()
        times[verified] = batch.column("store_timestamp").to_numpy()[rows[verified]]
        columns = {
            MATCH_COLUMN: pa.array(MATCH_CODES).take(pa.array(compared.states)),
            "topic": topics,
            "key": keys,
            "store_timestamp": pa.array(times),
        }
        for field in self._fields:
            array = messages.column(field.name, field.type)
            if field.name in _BODIES:
                ensure_fits(array, np.where(verified, rows, -1))
            columns[field.name] = array.take(taken)
        # After all that may fail, since rows that are too large come again in halves.
        self.verified += int(np.count_nonzero(verified))
        return _with_columns(entries, columns)


def _bound(checked: pa.RecordBatch) -> pa.RecordBatch:
    """Drop hash collisions, and show the keys that were looked up."""
    entries = of_keys(checked, (checked.column("bound_topic"), checked.column("bound_key")))
    columns = dict(zip(entries.schema.names, entries.columns, strict=True))
    for name in KEY_COLUMNS:
        columns[name] = columns.pop(f"bound_{name}")
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def of_keys(checked: pa.RecordBatch, asked: tuple[pa.Array, pa.Array]) -> pa.RecordBatch:
    """Leave out the entries of other keys; one that is not verified may be of the key looked up."""
    verified = pc.equal(checked.column(MATCH_COLUMN), VERIFIED).to_numpy(zero_copy_only=False)
    matches = pairs_kept(verified, (checked.column("topic"), checked.column("key")), asked)
    return checked.filter(pa.array(matches))


def handle_unverified(
    entries: pa.RecordBatch, file_slice: FileSlice, options: ReadOptions
) -> pa.RecordBatch:
    """Keep, drop or reject unverified entries, as the options say."""
    if options.unverified == "keep":
        return entries
    verified = pc.equal(entries.column(MATCH_COLUMN), VERIFIED)
    if pc.all(verified).as_py():
        return entries
    if options.unverified == "drop":
        return entries.filter(verified)
    first = entries.filter(pc.invert(verified)).slice(0, 1).to_pylist()[0]
    raise RmqIndexError(
        f"{file_slice.name_path}: entry {first['position']}: expected a message at offset "
        f"{first['phy_offset']} that has its key, got {MATCH_COLUMN} {first[MATCH_COLUMN]!r}; the "
        "option unverified=keep returns such entries, marked, and unverified=drop leaves them out"
    )


def _with_columns(batch: pa.RecordBatch, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    every = dict(zip(batch.schema.names, batch.columns, strict=True)) | columns
    return pa.RecordBatch.from_arrays(list(every.values()), names=list(every))
