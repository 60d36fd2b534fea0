"""Searches many IndexFiles for many keys of a topic, and compares the entries with a CommitLog."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from rmqindex.commitlog.bodies import bad_body
from rmqindex.keys.hash_set import distinct
from rmqindex.keys.hashing import index_key_hashes
from rmqindex.layout.columns import required_field
from rmqindex.layout.index_file import INT64_MAX, INT64_MIN
from rmqindex.query.message_keys import SearchedFile
from rmqindex.query.point_lookup import PointLog
from rmqindex.query.verification import (
    MATCH_CODES,
    MISMATCH,
    NO_LOG,
    VERIFIED,
    Verifier,
    pairs_kept,
)
from rmqindex.record.bodies import BadInnerBatchError
from rmqindex.storage.location import path_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.chains import PointEntry
    from rmqindex.store.snapshot import SnapshotFile

    #: The number of a file, and its entries.
    _Found = tuple[int, list[PointEntry] | pa.RecordBatch]
    #: Whether each candidate is kept, its state, and its time in epoch milliseconds.
    _Compared = tuple[NDArray[np.bool_], NDArray[np.int8], NDArray[np.int64]]

#: What a lookup of keys returns; ``store_timestamp`` is exact where ``match_state`` is
#: ``verified``, else cut to whole seconds after the file's first entry.
LOOKUP_SCHEMA = pa.schema(
    [
        required_field("topic", pa.string()),
        required_field("key", pa.string()),
        required_field("phy_offset", pa.int64()),
        required_field("store_timestamp", pa.timestamp("ms", "UTC")),
        required_field("match_state", pa.string()),
        required_field("file", pa.string()),
        required_field("position", pa.int32()),
    ]
)
# How many entries are compared with their messages at a time.
_PORTION = 65_536
# As many entries of one key are compared faster one by one than by the calls of NumPy and Arrow.
_FEW_ENTRIES = 8
_NO_LOG = MATCH_CODES.index(NO_LOG)
_ENTRY_COLUMNS = ("position", "key_hash", "phy_offset", "store_timestamp")


def lookup_keys(
    files: Sequence[SnapshotFile],
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
    """
    hashes = index_key_hashes(topic, keys)
    order = np.argsort(hashes)
    by_hash = hashes[order]
    found_of_key = np.zeros(len(keys), np.int64)
    verifier = Verifier("members", strict=all(planned.mode == "FAILFAST" for planned in files))
    bounds = (INT64_MIN if begin is None else begin, INT64_MAX if end is None else end)
    newest_first = [planned for planned in reversed(files) if not planned.is_empty]
    searched = [SearchedFile.planned(planned) for planned in newest_first]
    names = pa.array([path_text(planned.entry.name) for planned in newest_first], pa.string())
    tables = []
    waiting: list[_Found] = []
    waiting_count = 0
    wanted = distinct(hashes)
    enough = _PORTION if max_num is None else min(_PORTION, max_num * len(keys))
    for number, planned in enumerate(newest_first):
        if not len(wanted):
            break
        entries = _entries(planned, wanted)
        if len(entries):
            waiting.append((number, entries))
            waiting_count += len(entries)
        is_last = number == len(newest_first) - 1
        if not waiting or (not is_last and waiting_count < enough):
            continue
        found = _Candidates.of(waiting, by_hash, order)
        waiting = []
        waiting_count = 0
        compared = _compare_few(log, topic, keys, found)
        if compared is None:
            compared = _compare(verifier, log, searched, topic, keys, found)
        kept, states, times = compared
        kept &= (times >= bounds[0]) & (times <= bounds[1])
        answered = np.lexsort((found.key, -found.position, found.file))
        chosen = answered[kept[answered]]
        if max_num is not None:
            rank = found_of_key[found.key[chosen]] + _ranks(found.key[chosen])
            chosen = chosen[rank < max_num]
            found_of_key += np.bincount(found.key[chosen], minlength=len(keys))
            missing = hashes[found_of_key < max_num]
            wanted = distinct(missing)
            enough = min(_PORTION, max_num * len(missing))
        tables.append(
            pa.Table.from_arrays(
                [
                    pa.repeat(topic, len(chosen)),
                    keys.take(pa.array(found.key[chosen])),
                    pa.array(found.phy_offset[chosen]),
                    pa.array(times[chosen]).cast(LOOKUP_SCHEMA.field("store_timestamp").type),
                    pa.array(MATCH_CODES).take(pa.array(states[chosen])),
                    names.take(pa.array(found.file[chosen])),
                    pa.array(found.position[chosen]),
                ],
                schema=LOOKUP_SCHEMA,
            )
        )
    if log is not None:
        log.ensure_same()
    return pa.concat_tables(tables) if tables else LOOKUP_SCHEMA.empty_table()


class _Candidates(NamedTuple):
    """Entries, each with each key that has its hash: arrays of equal length."""

    file: NDArray[np.int64]
    position: NDArray[np.int32]
    key_hash: NDArray[np.int32]
    phy_offset: NDArray[np.int64]
    #: Of the entry, epoch milliseconds.
    time: NDArray[np.int64]
    #: The place of the key among those that are looked up.
    key: NDArray[np.int64]

    @classmethod
    def of(
        cls, found: Sequence[_Found], by_hash: NDArray[np.int32], order: NDArray[np.int64]
    ) -> _Candidates:
        """Pair the entries of files with the keys, whose hashes ``order`` sorts."""
        walked = [
            (number, each.position, each.key_hash, each.phy_offset, each.store_timestamp)
            for number, entries in found
            if isinstance(entries, list)
            for each in entries
        ]
        parts = [np.array(walked, np.int64).reshape(-1, 5).T]
        for number, entries in found:
            if not isinstance(entries, list):
                columns = (entries.column(name).to_numpy() for name in _ENTRY_COLUMNS)
                parts.append(np.stack([np.full(len(entries), number), *columns]))
        file, position, key_hash, phy_offset, time = np.concatenate(parts, axis=1)
        row, place = of_equal_hash(key_hash, by_hash)
        return cls(
            file[row],
            position[row].astype(np.int32),
            key_hash[row].astype(np.int32),
            phy_offset[row],
            time[row],
            order[place],
        )


def of_equal_hash(
    found: NDArray[np.int32] | NDArray[np.int64], ordered: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pair each hash that was found with each equal one of those asked for, which are in order.

    Returns:
        The rows of the found ones, in their order, and the places of those asked for.
    """
    first = np.searchsorted(ordered, found, side="left")
    count = np.searchsorted(ordered, found, side="right") - first
    row = np.repeat(np.arange(len(found)), count)
    within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    return row, first[row] + within


def _entries(planned: SnapshotFile, wanted: NDArray[np.int32]) -> list[PointEntry] | pa.RecordBatch:
    """Return the entries that a file has of hashes."""
    walked = planned.walk(wanted)
    if walked is not None:
        return walked
    with planned.open() as file:
        return file.lookup(wanted, planned.stop)


def _compare_few(
    log: CommitLog | None, topic: str, keys: pa.Array, found: _Candidates
) -> _Compared | None:
    """As :func:`_compare`, of a few entries of one key; None where it has to decide."""
    if log is None or len(keys) != 1 or len(found.key) > _FEW_ENTRIES:
        return None
    key, times = keys[0].as_py(), found.time.copy()
    kept, states = np.ones(len(times), np.bool_), np.zeros(len(times), np.int8)
    with PointLog(log) as point:
        for place, offset in enumerate(found.phy_offset.tolist()):
            judged = point.judge(offset, int(found.key_hash[place]), topic, key)
            if judged is None:
                return None
            state, stored = judged
            kept[place], states[place] = state != MISMATCH, MATCH_CODES.index(state)
            if state == VERIFIED:
                times[place] = stored
        point.ensure_same()
    return kept, states, times


def _compare(
    verifier: Verifier,
    log: CommitLog | None,
    files: Sequence[SearchedFile],
    topic: str,
    keys: pa.Array,
    found: _Candidates,
) -> _Compared:
    """Compare candidates with their messages."""
    kept = np.ones(len(found.key), np.bool_)
    states = np.full(len(found.key), _NO_LOG, np.int8)
    times = found.time.copy()
    if log is None:
        return kept, states, times
    for start in range(0, len(found.key), _PORTION):
        part = slice(start, start + _PORTION)
        try:
            compared = verifier.compare(
                log,
                files,
                found.key_hash[part],
                found.phy_offset[part],
                found.position[part],
                found.file[part],
            )
        except BadInnerBatchError as error:
            raise bad_body(log.files, error.phy_offset, str(error)) from error
        states[part] = compared.states
        asked = (pa.scalar(topic), keys.take(pa.array(found.key[part])))
        kept[part] = pairs_kept(compared.verified, compared.found_pairs(), asked)
        verified = compared.verified
        if verified.any():
            stored = compared.messages.column("store_timestamp").to_numpy()
            times[part][verified] = stored[compared.rows[verified]]
    return kept, states, times


def _ranks(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.searchsorted(ordered, ordered, side="left")
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - starts
    return ranks
