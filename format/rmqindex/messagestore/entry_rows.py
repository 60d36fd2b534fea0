"""The rows of the dataset of entries: found by slots or read in order, compared with messages."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rmqindex.commitlog.bodies import bad_body
from rmqindex.errors import RmqIndexError
from rmqindex.explanation.reach import uncovered
from rmqindex.export.entries import entry_schema
from rmqindex.indexfile.decoding import ENTRY_SCHEMA
from rmqindex.keys.hash_set import HashSet, distinct
from rmqindex.keys.hashing import index_key_hashes
from rmqindex.layout.index_file import FIRST_POSITION
from rmqindex.messagestore.answers import incomplete_index, untagged_keys
from rmqindex.messagestore.wanted import EVERYTHING
from rmqindex.query.many_keys import of_equal_hash
from rmqindex.query.message_keys import SearchedFile
from rmqindex.query.verification import (
    MATCH_CODES,
    NO_LOG,
    VERIFIED_COLUMNS,
    Verifier,
    may_hold,
)
from rmqindex.record.bodies import BadInnerBatchError
from rmqindex.storage.location import path_text
from rmqindex.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.reader import IndexFile
    from rmqindex.messagestore.source import StoreSource
    from rmqindex.messagestore.wanted import Wanted
    from rmqindex.store.snapshot import IndexSnapshot, SnapshotFile

_TIME, _FILE, _STATE = "store_timestamp", "file", "match_state"
_TEXTS = ("topic", "key")
# What the messages tell, or tell better.
_OF_MESSAGES = frozenset({*_TEXTS, _STATE, _TIME})
_FIELDS = (*_TEXTS, _STATE)
# How many entries are compared with their messages at a time.
_PORTION = 65_536


@cache
def _schema() -> pa.Schema:
    """Return all columns; those that need no text of a message come first."""
    own = entry_schema()
    return pa.schema(
        [
            *(own.field(name) for name in (*ENTRY_SCHEMA.names, _FILE)),
            *(pa.field(name, pa.string(), nullable=name != _STATE) for name in _FIELDS),
        ]
    )


@dataclass(frozen=True, slots=True)
class EntryRows:
    """All entries of a store, with the keys of their messages.

    Attributes:
        source: Where the store is.
    """

    source: StoreSource

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return _schema()

    def read(self, names: Sequence[str], wanted: Wanted) -> pa.RecordBatchReader:
        """List the files, and return a reader of some columns of at least the wanted rows."""
        store = Store.open(self.source.path, needs_index=False, allow_empty=True)
        pairs, has_log, lacks = wanted.bound_pairs, False, []
        if _OF_MESSAGES.isdisjoint(names):
            files = self._listed(store)
        else:
            with self.source.opened_log(store) as log:
                has_log = log is not None
                files = self._listed(store)
                if not has_log and pairs is None and not set(_TEXTS).isdisjoint(names):
                    raise self._unbound(wanted)
                if log is not None and pairs is not None:
                    lacks = self._lacks(store, files, log, pairs)
        incomplete_index(files, lacks)
        if wanted.is_empty:
            files = files[:0]
        rows = _Rows(self, tuple(names), wanted, _Search.of(wanted), has_log)
        schema = pa.schema([_schema().field(name) for name in names])
        return pa.RecordBatchReader.from_batches(schema, rows.read(files))

    def _listed(self, store: Store) -> IndexSnapshot:
        """List the files, all of which can be used."""
        files = self.source.files(store)
        for planned in files:
            if planned.error is not None:
                raise planned.error
        return files

    def _lacks(
        self,
        store: Store,
        files: Sequence[SnapshotFile],
        log: CommitLog,
        pairs: frozenset[tuple[str, str]],
    ) -> list[str]:
        lacks = [part.text() for part in uncovered(store, files, log)]
        for topic in sorted({topic for topic, _ in pairs}):
            keys = pa.array([key for own, key in pairs if own == topic], pa.string())
            lacks += untagged_keys(topic, keys, files, self.source.layout, log)
        return lacks

    def _unbound(self, wanted: Wanted) -> RmqIndexError:
        bound = {"topic": wanted.topics, "key": wanted.keys}
        missing = [name for name, values in bound.items() if values is None]
        what = f"{' and '.join(missing)} not bound" if missing else "too many topics and keys"
        store = f"MessageStore({str(self.source.path)!r}"
        return RmqIndexError(
            f"{self.source.path}: {what}: an index holds no text of keys, and there is no "
            "CommitLog that does, so a query of dataset() that reads topic or key must bind both "
            "with =, IN or an OR of pairs. Write instead\n"
            "for some keys:\n"
            "    WHERE topic = 'TopicTest' AND key IN ('a', 'b')\n"
            "for many keys, a join or IN (SELECT ..):\n"
            f"    {store}).lookup('TopicTest', keys)\n"
            "for key_hash, times, offsets or positions alone, without topic and key:\n"
            "    SELECT key_hash, phy_offset, store_timestamp\n"
            "for all keys, with the CommitLog:\n"
            f"    {store}, commit_log='/data/store/commitlog').dataset()"
        )


@dataclass(frozen=True, slots=True)
class _Search:
    """What is looked up by slots.

    Attributes:
        hashes: The hashes.
        pairs: The pairs of topic and key, by hash; None where hashes alone are looked up.
        pair_hashes: The hash of each pair, ascending.
    """

    hashes: HashSet
    pairs: tuple[pa.Array, pa.Array] | None = None
    pair_hashes: NDArray[np.int32] | None = None

    @classmethod
    def of(cls, wanted: Wanted) -> _Search | None:
        pairs, hashes = wanted.bound_pairs, wanted.key_hashes
        if pairs is None:
            if hashes is None:
                return None
            return cls(HashSet(np.array(sorted(hashes), np.int32)))
        ordered = sorted(pairs)
        topics, keys = (pa.array([pair[at] for pair in ordered], pa.string()) for at in (0, 1))
        found = index_key_hashes(topics, keys)
        if hashes is not None:
            kept = np.flatnonzero(np.isin(found, list(hashes)))
            topics, keys, found = topics.take(kept), keys.take(kept), found[kept]
        order = np.argsort(found, kind="stable")
        texts = (topics.take(pa.array(order)), keys.take(pa.array(order)))
        return cls(HashSet(distinct(found)), texts, found[order])

    def bound(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """Return each entry once for each pair of its hash, with the pair's texts."""
        assert self.pairs is not None
        assert self.pair_hashes is not None
        row, place = of_equal_hash(entries.column("key_hash").to_numpy(), self.pair_hashes)
        rows = entries.take(pa.array(row))
        for name, texts in zip(_TEXTS, self.pairs, strict=True):
            rows = rows.append_column(name, texts.take(pa.array(place)))
        return rows


@dataclass(frozen=True, slots=True)
class _Rows:
    """One reading."""

    entries: EntryRows
    names: tuple[str, ...]
    wanted: Wanted
    search: _Search | None
    has_log: bool

    def read(self, files: Sequence[SnapshotFile]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some files."""
        source = self.entries.source
        # The exact time of a message may be earlier than that of its entry.
        asked = replace(self.wanted, time=EVERYTHING) if self.has_log else self.wanted
        verifier = Verifier("members", strict=source.mode == "FAILFAST")
        with ExitStack() as stack:
            log = stack.enter_context(source.needed_log()) if self.has_log else None
            for planned in files:
                if planned.is_empty:
                    continue
                begin = planned.header.begin_timestamp
                part = asked.part(begin, FIRST_POSITION, planned.stop)
                if part is None:
                    continue
                with planned.open() as file:
                    searched = SearchedFile.of(file, planned.name_path)
                    name = path_text(planned.entry.name)
                    for batch in self._found(file, planned.stop, part):
                        for start in range(0, batch.num_rows, _PORTION):
                            rows = batch.slice(start, _PORTION)
                            if log is not None:
                                rows = self._compared(verifier, log, searched, rows)
                            elif self.search is not None and self.search.pairs is not None:
                                rows = self.search.bound(rows)
                            if rows.num_rows:
                                yield self._row(rows, name)
            if log is not None:
                log.ensure_same()

    def _found(self, file: IndexFile, stop: int, part: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        """Look up, or read the wanted positions."""
        if self.search is not None:
            return file.search(self.search.hashes, stop)
        more = (*VERIFIED_COLUMNS, "time_diff") if self.has_log else ()
        columns = [name for name in ENTRY_SCHEMA.names if name in self.names or name in more]
        return file.scan(*part, columns or ["position"])

    def _compared(
        self, verifier: Verifier, log: CommitLog, searched: SearchedFile, entries: pa.RecordBatch
    ) -> pa.RecordBatch:
        """Return the entries whose messages may be of the wanted times, with what these tell."""
        rows = may_hold(entries, self.wanted.time.low, self.wanted.time.high)
        columns = ("key_hash", "phy_offset", "position")
        arrays = (rows.column(name).to_numpy() for name in columns)
        try:
            compared = verifier.compare(log, [searched], *arrays)
        except BadInnerBatchError as error:
            raise bad_body(log.files, error.phy_offset, str(error)) from error
        verified = compared.verified
        times = rows.column(_TIME).to_numpy().copy()
        stored = compared.messages.column(_TIME).to_numpy()
        times[verified] = stored[compared.rows[verified]]
        states = pa.array(MATCH_CODES).take(pa.array(compared.states))
        told = dict(zip(_FIELDS, (*compared.found_pairs(), states), strict=True))
        every = dict(zip(rows.schema.names, rows.columns, strict=True))
        every |= told | {_TIME: pa.array(times)}
        return pa.RecordBatch.from_arrays(list(every.values()), names=list(every))

    def _row(self, rows: pa.RecordBatch, file: str) -> pa.RecordBatch:
        """Return the columns that are asked for."""
        fields = [_schema().field(name) for name in self.names]
        arrays = []
        for field in fields:
            if field.name == _FILE:
                array = pa.repeat(file, rows.num_rows)
            elif field.name == _STATE and not self.has_log:
                array = pa.repeat(NO_LOG, rows.num_rows)
            else:
                array = rows.column(field.name)
            arrays.append(array.view(field.type) if field.name == _TIME else array)
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
