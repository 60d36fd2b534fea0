"""Looks up one key after another in files that stay open: what ``rmq_lookup`` does in a task.

The common case is handled entry by entry, without arrays; everything else is left to the lookup
reader of ``table()``, so that both give the same answers.
"""

from __future__ import annotations

import datetime as dt
import resource
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_rmqindex.files.slices import changed_error
from pyspark_rmqindex.files.stores import store_of
from pyspark_rmqindex.read.planning import IndexPartition, Query
from pyspark_rmqindex.read.reader import IndexReader
from rmqindex import RmqIndexError, index_key, key_hash
from rmqindex.query import NO_LOG, VERIFIED, PointFile, PointLog
from rmqindex.storage import FileChangedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructType

    from pyspark_rmqindex.files.slices import FileSlice
    from pyspark_rmqindex.options import ReadOptions
    from rmqindex.commitlog import LogSnapshot
    from rmqindex.messagestore import Range
    from rmqindex.query import PointEntry

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)
# Each open file takes a descriptor; leave this many for others.
_SPARE_DESCRIPTORS = 256
_MAX_OPEN = 4096
# Java decodes bytes that are not UTF-8 to this character.
_REPLACEMENT = "\ufffd"


class KeyFinder:
    """Finds the entries of one key after another, keeping files and logs open in between."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """Prepare to look up keys."""
        self._options = options
        self._schema = schema
        self._reader = IndexReader(options, schema, {})
        self._files: dict[str, PointFile] = {}
        self._logs: dict[str, PointLog] = {}
        self._tails: dict[str, tuple[str, ...]] = {}
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._max_open = max(0, min(_MAX_OPEN, descriptors - _SPARE_DESCRIPTORS))

    def rows(
        self, slices: Sequence[FileSlice], topic: str, key: str, times: Range
    ) -> list[tuple[Any, ...]]:
        """Return the entries of a key as rows of the schema."""
        if times.is_empty:
            return []
        hash_ = key_hash(index_key(topic, key))
        rows: list[tuple[Any, ...]] = []
        for file_slice in slices:
            plain_rows = self._plain_rows(file_slice, topic, key, hash_, times)
            rows += (
                self._all_rows(file_slice, topic, key, times) if plain_rows is None else plain_rows
            )
        if rows and _REPLACEMENT in topic + key:
            raise ValueError(
                f"rmq_lookup: topic {topic!r} and key {key!r}: expected text without U+FFFD, as "
                "which Spark also hands over bytes that are not UTF-8, so that these entries may "
                "not be what was asked for; use table() or lookup()"
            )
        return rows

    def ensure_same(self) -> None:
        """Raise if a file changed while it was open, since the rows may then be wrong."""
        try:
            for file in self._files.values():
                file.ensure_same()
            for log in self._logs.values():
                log.ensure_same()
        except FileChangedError as error:
            raise changed_error(error.path, error.what) from error

    def close(self) -> None:
        """Close the files and the logs."""
        for file in self._files.values():
            file.close()
        for log in self._logs.values():
            log.close()
        self._files.clear()
        self._logs.clear()

    def _plain_rows(
        self, file_slice: FileSlice, topic: str, key: str, hash_: int, times: Range
    ) -> list[tuple[Any, ...]] | None:
        """Return the rows of one file, or None if the reader must be used."""
        options = self._options
        if options.mode != "FAILFAST" or options.columns is not None:
            return None  # only the reader handles damage, which may hide entries, and few columns
        if (
            not options.has_log
            and times.high is not None
            and file_slice.begin_timestamp > times.high
        ):
            return []
        entries = self._entries(file_slice, hash_)
        if entries and options.has_log:
            verified = self._verify(file_slice.commit_log, topic, key, entries)
            if verified is None or (
                options.unverified != "keep" and any(state != VERIFIED for _, state in verified)
            ):
                return None
            return self._as_rows(file_slice, topic, key, verified, times)
        if entries is None:
            return None
        return self._as_rows(file_slice, topic, key, [(entry,) for entry in entries], times)

    def _entries(self, file_slice: FileSlice, hash_: int) -> list[PointEntry] | None:
        open_file = self._files.get(file_slice.name_path)
        try:
            if open_file is not None:
                return open_file.lookup(hash_, file_slice.limit)
            file = PointFile(file_slice.path, file_slice.layout)
            if not file.matches(file_slice.fingerprint):
                file.close()
                return None
            if len(self._files) < self._max_open:
                self._files[file_slice.name_path] = file
                return file.lookup(hash_, file_slice.limit)
            try:
                entries = file.lookup(hash_, file_slice.limit)
                file.ensure_same()
                return entries
            finally:
                file.close()
        except FileChangedError:
            changed = self._files.pop(file_slice.name_path, None)
            if changed is not None:
                changed.close()
            return None
        except RmqIndexError:  # if something is wrong, the reader raises the error
            return None

    def _verify(
        self, planned: LogSnapshot | None, topic: str, key: str, entries: list[PointEntry]
    ) -> list[tuple[PointEntry, str]] | None:
        """Return the entries of the key, with ``match_state``.

        None if it is unclear whether an entry is of the key, or if other columns are requested.
        """
        options = self._options
        if options.message or options.body_text or options.check_crc:
            return None
        if planned is None:
            return [(entry, NO_LOG) for entry in entries]
        try:
            log = self._logs.get(planned.path)
            if log is None:
                log = self._logs[planned.path] = PointLog(planned.files_now())
            return log.verify(entries, topic, key)
        except RmqIndexError:
            return None

    def _as_rows(
        self,
        file_slice: FileSlice,
        topic: str,
        key: str,
        entries: Sequence[tuple[PointEntry, str] | tuple[PointEntry]],
        times: Range,
    ) -> list[tuple[Any, ...]]:
        tail = self._tails.get(file_slice.name_path)
        if tail is None:
            stores = (store_of(file_slice.name_path),) if self._options.has_store else ()
            tail = self._tails[file_slice.name_path] = (str(file_slice.name_path), *stores)
        low, high = times.low, times.high
        return [
            (
                topic,
                key,
                entry.key_hash,
                entry.phy_offset,
                _timestamp(file_slice, entry),
                entry.time_diff,
                entry.slot,
                entry.position,
                entry.prev_position,
                *tail,
                *state,
            )
            for entry, *state in entries
            if (low is None or entry.store_timestamp >= low)
            and (high is None or entry.store_timestamp <= high)
        ]

    def _all_rows(
        self, file_slice: FileSlice, topic: str, key: str, times: Range
    ) -> list[tuple[Any, ...]]:
        partition = IndexPartition((file_slice,), Query(pairs=((topic, key),), time=times))
        names = self._schema.names
        return [
            row
            for batch in self._reader.read(partition)
            for row in zip(*(_values(file_slice, batch, name) for name in names), strict=True)
        ]


def _values(file_slice: FileSlice, batch: pa.RecordBatch, name: str) -> list[Any]:
    """Return the values as the Python objects that Spark accepts, with maps as dicts."""
    column = batch.column(name)
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError) as error:
        raise RmqIndexError(
            f"{file_slice.name_path}: column {name!r}: expected times of the years 1 to 9999, got "
            "others; read it with table() or load()"
        ) from error
    if pa.types.is_map(column.type):
        return [pairs if pairs is None else dict(pairs) for pairs in values]
    return values


def _timestamp(file_slice: FileSlice, entry: PointEntry) -> dt.datetime:
    try:
        return _EPOCH + entry.store_timestamp * _MILLISECOND
    except OverflowError as error:
        raise RmqIndexError(
            f"{file_slice.name_path}: entry {entry.position}: expected a store time of the years 1 "
            f"to 9999, got {entry.store_timestamp} ms since 1970; read it with table() or load()"
        ) from error
