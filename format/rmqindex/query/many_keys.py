"""Searches many IndexFiles for many keys of a topic, and compares the entries with a CommitLog."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rmqindex.keys.hashing import index_key_hashes
from rmqindex.layout import INT64_MAX, INT64_MIN
from rmqindex.query.verification import MATCH_CODES, NO_LOG, EntryVerifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.fileset.planned_index import PlannedFile

__all__ = ["LOOKUP_SCHEMA", "lookup_keys"]

#: What a lookup of keys returns; ``store_timestamp`` is exact where ``match_state`` is
#: ``verified``, else cut to whole seconds after the file's first entry.
LOOKUP_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("phy_offset", pa.int64(), nullable=False),
        pa.field("store_timestamp", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("match_state", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
    ]
)
# How many entries are compared with their messages at a time.
_PORTION = 65_536
_NO_LOG = MATCH_CODES.index(NO_LOG)


def lookup_keys(
    files: Sequence[PlannedFile],
    log: CommitLog | None,
    topic: str,
    keys: pa.Array,
    *,
    begin: int | None = None,
    end: int | None = None,
    max_num: int | None = None,
) -> pa.Table:
    """Find the entries of keys; each is answered as if it were the only one.

    Args:
        files: The files, oldest first.
        log: The CommitLog; None to compare with no messages.
        topic: The topic.
        keys: ``string``, each once, without nulls.
        begin: The earliest store time, epoch milliseconds, inclusive.
        end: The latest store time, epoch milliseconds, inclusive.
        max_num: At most how many entries of each key, the newest.

    Returns:
        A table of ``LOOKUP_SCHEMA``: the newest file's entries first, and in each file the newest
        first; entries of several keys in the order of the keys.

    Raises:
        RmqIndexError: A file cannot be used, or was changed since it was listed.
    """
    hashes = index_key_hashes(topic, keys)
    order = np.argsort(hashes, kind="stable")
    by_hash = hashes[order]
    found_of_key = np.zeros(len(keys), np.int64)
    verifier = EntryVerifier("properties")
    bounds = (INT64_MIN if begin is None else begin, INT64_MAX if end is None else end)
    tables = []
    for planned in reversed(files):
        if planned.is_empty:
            continue
        wanted = by_hash
        if max_num is not None:
            wanted = hashes[found_of_key < max_num]
            if not len(wanted):
                break
        wanted = np.unique(wanted)
        with planned.open() as file:
            entries = file.lookup(wanted, planned.stop)
        row, key = _pairs(entries.column("key_hash").to_numpy(), by_hash, order)
        parts = [
            _judged(verifier, log, topic, keys, entries, row[part], key[part])
            for part in (slice(at, at + _PORTION) for at in range(0, len(row), _PORTION))
        ]
        if not parts:
            continue
        kept, states, times = (np.concatenate(each) for each in zip(*parts, strict=True))
        kept &= (times >= bounds[0]) & (times <= bounds[1])
        positions = entries.column("position").to_numpy()[row]
        newest_first = np.lexsort((key, -positions))
        chosen = newest_first[kept[newest_first]]
        if max_num is not None:
            rank = found_of_key[key[chosen]] + _ranks(key[chosen])
            chosen = chosen[rank < max_num]
            found_of_key += np.bincount(key[chosen], minlength=len(keys))
        tables.append(
            pa.Table.from_arrays(
                [
                    pa.repeat(topic, len(chosen)),
                    keys.take(pa.array(key[chosen])),
                    entries.column("phy_offset").take(pa.array(row[chosen])),
                    pa.array(times[chosen]).cast(LOOKUP_SCHEMA.field("store_timestamp").type),
                    pa.array(MATCH_CODES).take(pa.array(states[chosen])),
                    pa.repeat(planned.entry.name, len(chosen)),
                    pa.array(positions[chosen]),
                ],
                schema=LOOKUP_SCHEMA,
            )
        )
    if log is not None:
        log.ensure_same()
    return pa.concat_tables(tables) if tables else LOOKUP_SCHEMA.empty_table()


def _pairs(
    found: NDArray[np.int32], by_hash: NDArray[np.int32], order: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each entry with each key of its hash, as rows of both."""
    first = np.searchsorted(by_hash, found, side="left")
    count = np.searchsorted(by_hash, found, side="right") - first
    row = np.repeat(np.arange(len(found)), count)
    within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    return row, order[first[row] + within]


def _judged(
    verifier: EntryVerifier,
    log: CommitLog | None,
    topic: str,
    keys: pa.Array,
    entries: pa.RecordBatch,
    row: NDArray[np.int64],
    key: NDArray[np.int64],
) -> tuple[NDArray[np.bool_], NDArray[np.int8], NDArray[np.int64]]:
    """Return of each pair whether it is kept, its state, and its time, epoch milliseconds."""
    times = entries.column("store_timestamp").to_numpy()[row]
    if log is None:
        return np.ones(len(row), np.bool_), np.full(len(row), _NO_LOG, np.int8), times
    compared = verifier.compare(
        log,
        entries.column("key_hash").to_numpy()[row],
        entries.column("phy_offset").to_numpy()[row],
    )
    has_message = compared.rows >= 0
    kept = ~has_message | compared.belong_to(topic, keys.take(pa.array(key)))
    if has_message.any():
        stored = compared.messages.column("store_timestamp").to_numpy()
        times = times.copy()
        times[has_message] = stored[compared.rows[has_message]]
    return kept, compared.states, times


def _ranks(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each place how many before it are of the same group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.searchsorted(ordered, ordered, side="left")
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - starts
    return ranks
