"""Proves that an index is that of a CommitLog, before a rebuild goes on behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from rmqindex.audit.audited import elapsed_seconds
from rmqindex.commitlog.log import MATCH_STATES
from rmqindex.errors import RmqIndexError
from rmqindex.keys.messages import expand_messages
from rmqindex.layout import FIRST_POSITION

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.reader import IndexFile

__all__ = ["KEY_COLUMNS", "LogKeys", "ensure_of_log", "keys_at"]

#: The columns of a message that make its keys, without tags.
KEY_COLUMNS = ("topic", "uniq_key", "keys", "sys_flag")
_RECORD = MATCH_STATES.index("record")
_EXPIRED = MATCH_STATES.index("expired")
_HASH_BITS = np.int64(32)
# Entries that are compared at each end of a file.
_COMPARED = 128
# A relayout without the messages' own times may move an entry by as many seconds.
_TOLERANCE = 1
_COLUMNS = ("position", "key_hash", "phy_offset", "store_timestamp")


class LogKeys(NamedTuple):
    """States (places in ``MATCH_STATES``), times and keys of the messages at offsets."""

    states: NDArray[np.int8]
    times: NDArray[np.int64]  # epoch milliseconds; 0 without a message
    keys: NDArray[np.int64]  # row and key hash, packed

    def have(self, rows: NDArray[np.int64], hashes: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which hashes are of a key of the message in their row."""
        return np.isin((rows << _HASH_BITS) | hashes.astype(np.int64), self.keys)


def keys_at(log: CommitLog, offsets: NDArray[np.int64], *, tags: bool) -> LogKeys:
    """Read the keys of messages."""
    columns = [*KEY_COLUMNS, *(["tags"] if tags else [])]
    found = log.read_at(offsets, [*columns, "store_timestamp"])
    states = found["state"].indices.to_numpy()
    times = found["store_timestamp"].fill_null(0).to_numpy(zero_copy_only=False)
    there = np.flatnonzero(states == _RECORD)
    messages = found.take(pa.array(there))
    rows, _, hashes = expand_messages(*(messages[name] for name in columns))
    return LogKeys(states, times, (there[rows] << _HASH_BITS) | hashes.astype(np.int64))


def ensure_of_log(file: IndexFile, log: CommitLog, remedy: str) -> None:
    """Refuse a file unless its first and its last entries are of messages of a log.

    After a crash or a fail-over a log may hold other messages in the places of those indexed, also
    of the same size; their keys and times tell. Those of messages that have expired prove nothing.
    """
    stop = file.entry_count + FIRST_POSITION
    middle = min(FIRST_POSITION + _COMPARED, stop)
    for start, end in ((FIRST_POSITION, middle), (max(stop - _COMPARED, middle), stop)):
        for batch in file.scan(start, end, _COLUMNS):
            columns = [batch[name].to_numpy() for name in _COLUMNS]
            wrong = _first_foreign(columns, file.header.begin_timestamp, log, is_cut=start > middle)
            if wrong is not None:
                place, state = wrong
                position, key_hash, offset, _ = (int(column[place]) for column in columns)
                got = "another message" if state == _RECORD else f"none ({MATCH_STATES[state]})"
                raise RmqIndexError(
                    f"{file.path}: expected the message of entry {position} (key hash {key_hash}) "
                    f"at offset {offset} of the CommitLog, got {got}: the log was truncated and "
                    "written anew, or is another one, or the entry is damaged; a rebuild cannot "
                    f"continue behind it; {remedy}"
                )


def _first_foreign(
    columns: list[NDArray[Any]], begin: int, log: CommitLog, *, is_cut: bool
) -> tuple[int, int] | None:
    """Return the place of the first entry whose message is no message of a log, and its state.

    A message may have entries beside those of its keys, such as those of a batch's members: one
    that is its own proves it.
    """
    _, hashes, entry_offsets, times = columns
    offsets, rows = np.unique(entry_offsets, return_inverse=True)
    found = keys_at(log, offsets, tags=True)
    apart = elapsed_seconds(times, begin) - elapsed_seconds(found.times[rows], begin)
    is_own = found.have(rows, hashes) & (np.abs(apart) <= _TOLERANCE)
    proved = np.isin(np.arange(len(offsets)), rows[is_own])
    proved |= found.states == _EXPIRED
    proved |= (found.states == _RECORD) & ~np.isin(
        np.arange(len(offsets)), found.keys >> _HASH_BITS
    )
    if is_cut and len(rows):
        proved[rows[0]] = True  # its own entries may come before
    foreign = np.flatnonzero(~proved[rows])
    return (int(foreign[0]), int(found.states[rows[foreign[0]]])) if len(foreign) else None
