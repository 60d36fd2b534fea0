"""Entries compared with their messages: exact keys, exact times, and what could not be confirmed.

An entry holds a hash and an offset.
The message at that offset says which of its keys has the hash; where several have, which is rare,
the n-th entry of one hash and offset belongs to the n-th such key in the message's own order.
Brokers from 5.4.0 on write an entry of a message's tags behind those of its keys; messages are
asked for their tags once an entry is met that is none of the keys'.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_rmqindex.messages.columns import Messages, ensure_fits, in_halves, log_columns
from pyspark_rmqindex.scan.ranks import PLACING, Ranks, Shares
from pyspark_rmqindex.schema import EXTRA_MESSAGE_COLUMNS, MATCH_COLUMN
from rmqindex import MATCH_STATES, CommitLog, IndexFile, RmqIndexError, index_key_hashes
from rmqindex.indexfile import MILLISECONDS
from rmqindex.keys import indexed_tags
from rmqindex.layout import INT32_MAX, INT64_MAX, INT64_MIN
from rmqindex.query import STATE_OF_LOG
from rmqindex.record import indexed_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pyspark_rmqindex.files.slices import FileSlice
    from pyspark_rmqindex.filters.filters import Range
    from pyspark_rmqindex.options import ReadOptions

__all__ = ["NEEDED", "STATES", "VERIFIED", "Verifier", "may_hold", "settled"]

#: What is read of each message to know its keys.
_KEY_SOURCES = (
    "topic",
    "phy_offset",
    "sys_flag",
    "store_timestamp",
    "all_uniq_keys",
    "all_keys",
)
#: The columns of entries that are compared.
NEEDED = ("key_hash", "phy_offset", "position", "store_timestamp")

VERIFIED = "verified"
#: The values of ``match_state``: those of a log's ``MATCH_STATES``, and what only keys can show.
STATES = (
    *(STATE_OF_LOG.get(state, state) for state in MATCH_STATES),
    "mismatch",
    "ambiguous",
    "no_log",
)
_VERIFIED = STATES.index(VERIFIED)
_MISMATCH, _AMBIGUOUS, _NO_LOG = (
    STATES.index(state) for state in ("mismatch", "ambiguous", "no_log")
)
# So many bytes of messages are held at a time where bodies or properties are asked for.
_MAX_BYTES = 32 * 1024 * 1024
_HEAVY = frozenset({"body", "properties"})


class Verifier:
    """Compares the entries of one task with their messages; a context manager.

    On leaving it, the logs must still be those that were compared with.
    """

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        """Take what is asked for.

        Args:
            options: The options of the read.
            schema: The requested columns, in lower case, with Spark's Arrow types.
        """
        self._options = options
        self._fields = [field for field in schema if field.name in EXTRA_MESSAGE_COLUMNS]
        names = [field.name for field in self._fields]
        self._columns = log_columns([*_KEY_SOURCES, *names], decompress=options.decompress_body)
        self._is_heavy = not _HEAVY.isdisjoint(names)
        self._logs: dict[str, CommitLog] = {}
        self._ranks = Ranks(options)
        self._has_tags = False

    def check(
        self, file: IndexFile, each: FileSlice, entries: pa.RecordBatch
    ) -> Iterator[pa.RecordBatch]:
        """Compare entries of one file with their messages.

        Args:
            file: The open file.
            each: The slice that is read of it.
            entries: At least the columns ``NEEDED``.

        Yields:
            The same rows in the same order, with ``match_state``, ``topic`` and ``key`` (null
            where not verified), and the message's columns that are asked for; ``store_timestamp``
            is the message's where verified.

        Raises:
            RmqIndexError: The log cannot be read or is not the planned one, or a body does not
                unpack in the mode ``FAILFAST``.
        """
        if each.commit_log is None:
            yield self._unchecked(entries)
            return
        log = self._logs.get(each.commit_log.path)
        if log is None:
            log = self._logs[each.commit_log.path] = CommitLog(each.commit_log.files_now())
        for part in self._portions(log, entries):
            yield from in_halves(part, partial(self._checked, log, file, each))

    def __enter__(self) -> Self:
        """Return the verifier itself."""
        return self

    def __exit__(self, exc_type: type[BaseException] | None, *_: object) -> None:
        """Check the logs again where nothing failed, and close them.

        Raises:
            FileChangedError: A file of a log was cut, replaced or rewritten.
        """
        try:
            if exc_type is None:
                for log in self._logs.values():
                    log.ensure_same()
        finally:
            for log in self._logs.values():
                log.close()

    def _portions(self, log: CommitLog, entries: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Cut a batch so that the messages of each piece fit into memory."""
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

    def _unchecked(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        size = entries.num_rows
        columns = {
            MATCH_COLUMN: pa.repeat(STATES[_NO_LOG], size),
            "topic": pa.nulls(size, pa.string()),
            "key": pa.nulls(size, pa.string()),
        }
        columns |= {field.name: pa.nulls(size, field.type) for field in self._fields}
        return _with_columns(entries, columns)

    def _checked(
        self, log: CommitLog, file: IndexFile, each: FileSlice, entries: pa.RecordBatch
    ) -> pa.RecordBatch:
        offsets, rows = np.unique(entries.column("phy_offset").to_numpy(), return_inverse=True)
        found = log.read_at(offsets, self._columns, check_crc=self._options.check_crc)
        codes = found.column("state").indices.to_numpy()
        sound = np.flatnonzero(codes == _VERIFIED)
        batch = found.drop_columns(["state"])
        if len(sound) < len(offsets):
            batch = batch.take(pa.array(sound))
        messages = Messages(
            log,
            batch,
            mode=self._options.mode,
            decompress=self._options.decompress_body,
            max_body_size=self._options.max_body_size,
        )
        of_offset = np.full(len(offsets), -1, np.int64)
        of_offset[sound] = np.arange(len(sound))
        message = of_offset[rows]
        hashes = entries.column("key_hash").to_numpy()
        keys = _Keys.of(messages, self._tags(log, messages) if self._has_tags else None)
        matches = keys.match(message, hashes)
        if not self._has_tags and ((message >= 0) & (matches.count == 0)).any():
            keys = _Keys.of(messages, self._tags(log, messages))
            strange, matches = matches.count == 0, keys.match(message, hashes)
            self._has_tags = bool((strange & (matches.count > 0)).any())
        states = codes[rows]
        states[(message >= 0) & (matches.count == 0)] = _MISMATCH
        place = matches.place
        for entry in np.flatnonzero(matches.several).tolist():
            group = keys.group(matches, entry)
            row = {name: int(entries.column(name)[entry].as_py()) for name in PLACING}
            rank = self._ranks.rank(file, each, row, keys.shares(group))
            if rank is None:
                states[entry] = _AMBIGUOUS
            else:
                place[entry] = group[rank]
        return self._enriched(entries, messages, keys, message, place, states)

    @staticmethod
    def _tags(log: CommitLog, messages: Messages) -> pa.Array:
        return log.read_at(messages.batch.column("phy_offset"), ["tags"]).column("tags")

    def _enriched(
        self,
        entries: pa.RecordBatch,
        messages: Messages,
        keys: _Keys,
        message: NDArray[np.int64],
        place: NDArray[np.int64],
        states: NDArray[np.int8],
    ) -> pa.RecordBatch:
        verified = states == _VERIFIED
        unknown = None if verified.all() else ~verified
        taken = pa.array(message, mask=unknown)
        batch = messages.batch
        times = entries.column("store_timestamp").to_numpy().copy()
        times[verified] = batch.column("store_timestamp").to_numpy()[message[verified]]
        columns = {
            MATCH_COLUMN: pa.array(STATES).take(pa.array(states)),
            "topic": batch.column("topic").take(taken),
            "key": keys.texts.take(pa.array(place, mask=unknown)),
            "store_timestamp": pa.array(times),
        }
        for field in self._fields:
            array = messages.column(field.name, field.type)
            if field.name == "body":
                ensure_fits(array, np.where(verified, message, -1))
            columns[field.name] = array.take(taken)
        return _with_columns(entries, columns)


def may_hold(entries: pa.RecordBatch, times: Range) -> pa.RecordBatch:
    """Leave out entries whose messages cannot be of the times asked for.

    Entries say whole seconds, 0 where the broker's clock stepped back behind the file's start or
    while that start is not after 1970, and no more than 31 bits.

    Args:
        entries: At least ``store_timestamp`` and ``time_diff``.
        times: Store times, epoch milliseconds.
    """
    if times.is_everything:
        return entries
    read = entries.column("store_timestamp").to_numpy()
    diff = entries.column("time_diff").to_numpy()
    kept = np.ones(len(read), bool)
    if times.low is not None:
        earliest = _in_64_bits(times.low - MILLISECONDS)
        kept &= (read > earliest) | (diff == INT32_MAX) | (read <= 0)
    if times.high is not None:
        kept &= (read <= _in_64_bits(times.high)) | (diff == 0)
    return entries if kept.all() else entries.take(pa.array(np.flatnonzero(kept)))


def _in_64_bits(number: int) -> int:
    """Return the nearest number that NumPy can compare with."""
    return min(max(number, INT64_MIN), INT64_MAX)


def settled(entries: pa.RecordBatch, each: FileSlice, options: ReadOptions) -> pa.RecordBatch:
    """Do with unverified entries what the options say.

    Args:
        entries: What :meth:`Verifier.check` returned.
        each: The slice that they are of.
        options: The options of the read.

    Returns:
        The entries that are returned to the user.

    Raises:
        RmqIndexError: There is one that is not verified, and that is an error.
    """
    if options.unverified == "keep":
        return entries
    verified = pc.equal(entries.column(MATCH_COLUMN), VERIFIED)
    if pc.all(verified).as_py():
        return entries
    if options.unverified == "drop":
        return entries.filter(verified)
    first = entries.filter(pc.invert(verified)).slice(0, 1).to_pylist()[0]
    raise RmqIndexError(
        f"{each.name_path}: entry {first['position']}: expected a message at offset "
        f"{first['phy_offset']} that has its key, got {MATCH_COLUMN} {first[MATCH_COLUMN]!r}; the "
        "option unverified=keep returns such entries, marked, and unverified=drop leaves them out"
    )


def _with_columns(batch: pa.RecordBatch, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    every = dict(zip(batch.schema.names, batch.columns, strict=True)) | columns
    return pa.RecordBatch.from_arrays(list(every.values()), names=list(every))


@dataclass(frozen=True, slots=True)
class _Matches:
    """Which keys of their messages have the hashes of entries.

    Attributes:
        first: Where in the order of the keys those of each entry begin.
        count: How many there are.
        place: The first of them; anything where there is none.
        several: Whether they differ.
    """

    first: NDArray[np.int64]
    count: NDArray[np.int64]
    place: NDArray[np.int64]
    several: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys of messages, ordered by message and hash.

    Attributes:
        texts: The keys without their topics: those that every broker indexes, then ``T#`` and the
            tags, which some do, then those of members.
        rows: The message of each.
        hashes: The hash of each with its topic.
        indexed: How many of them every broker indexes.
        tagged: How many of them brokers index that index tags.
        order: The places of the keys, by message, hash and place in the message.
        sorted: The message and the hash of each, in this order, as one number.
    """

    texts: pa.Array
    rows: NDArray[np.int64]
    hashes: NDArray[np.int32]
    indexed: int
    tagged: int
    order: NDArray[np.int64]
    sorted: NDArray[np.int64]

    @classmethod
    def of(cls, messages: Messages, tags: pa.Array | None) -> _Keys:
        """Take the keys of messages, and their tags or None."""
        batch = messages.batch
        rows, texts = indexed_keys(batch.column("all_uniq_keys"), batch.column("all_keys"))
        indexed = len(texts)
        if tags is not None:
            tag_rows, tag_keys = indexed_tags(tags)
            rows, texts = np.concatenate([rows, tag_rows]), pa.concat_arrays([texts, tag_keys])
        tagged = len(texts)
        member_rows, members = messages.members
        if members:
            rows = np.concatenate([rows, member_rows])
            texts = pa.concat_arrays([texts, pa.array(members, pa.string())])
        topics = batch.column("topic").dictionary_encode()
        hashes = index_key_hashes(topics.take(pa.array(rows)), texts)
        both = _joined(rows, hashes)
        order = np.argsort(both, kind="stable")
        return cls(texts, rows, hashes, indexed, tagged, order, both[order])

    def match(self, message: NDArray[np.int64], hashes: NDArray[np.int32]) -> _Matches:
        """Find the keys of entries.

        Args:
            message: The row of each entry's message; negative for none.
            hashes: Each entry's hash.
        """
        both = np.where(message < 0, np.int64(-1), _joined(message, hashes))
        first = np.searchsorted(self.sorted, both, side="left")
        count = np.searchsorted(self.sorted, both, side="right") - first
        found = count > 0
        place = np.zeros(len(both), np.int64)
        place[found] = self.order[first[found]]
        several = count > 1
        if several.any():
            several[several] = self._differ(first[several], count[several])
        return _Matches(first, count, place, several)

    def group(self, matches: _Matches, entry: int) -> NDArray[np.int64]:
        """Return the places of the keys of one entry, in the message's order."""
        first = matches.first[entry]
        return self.order[first : first + matches.count[entry]]

    def shares(self, group: NDArray[np.int64]) -> Shares:
        """Return how many entries the message of a group of keys has of them."""
        mine = self.rows == self.rows[group[0]]
        own = np.arange(len(mine)) < self.tagged
        of_members = self.hashes[mine & ~own]
        proofs = of_members[~np.isin(of_members, self.hashes[mine & own])]
        return Shares(
            int((group < self.indexed).sum()),
            len(group),
            int(proofs[0]) if proofs.size else None,
            int((group < self.tagged).sum()),
        )

    def _differ(self, first: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell where not all keys in a stretch of the order have one text."""
        codes = self.texts.dictionary_encode().indices.to_numpy(zero_copy_only=False)[self.order]
        changes = np.append(0, np.cumsum(codes[1:] != codes[:-1]))
        differ: NDArray[np.bool_] = changes[first + count - 1] > changes[first]
        return differ


def _joined(rows: NDArray[np.int64], hashes: NDArray[np.int32]) -> NDArray[np.int64]:
    return rows << 32 | hashes.astype(np.int64)
