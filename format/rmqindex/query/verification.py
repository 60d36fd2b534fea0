"""Whether an entry is its message's: the one rule, and the engine that applies it to batches.

An entry holds a hash and an offset, and is verified if the message at that offset has a key of that
hash.
Where several of its keys have the hash, which is rare, the n-th entry of one hash and offset
belongs to the n-th such key in the message's own order.
Brokers from 5.4.0 on write an entry of a message's tags behind those of its keys; messages are
asked for their tags once an entry matches none of their keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqindex.commitlog.log import MATCH_STATES
from rmqindex.indexfile.decoding import MILLISECONDS
from rmqindex.keys.hashing import index_key, key_hash
from rmqindex.keys.messages import is_rolled_back
from rmqindex.layout import INT32_MAX, INT64_MAX, INT64_MIN
from rmqindex.query.key_match import KEY_COLUMNS, KeySet
from rmqindex.record.batch_members import member_keys
from rmqindex.record.bodies import MAX_BODY_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.query.key_match import KeyMatches
    from rmqindex.query.ranks import Shares

    # Returns the rank of the n-th entry among those of its hash and message, or None.
    Rank = Callable[[int, Shares], int | None]

__all__ = [
    "EXPIRED",
    "MATCH_CODES",
    "NO_LOG",
    "VERIFIED",
    "VERIFIED_COLUMNS",
    "Comparison",
    "EntryVerifier",
    "KeyScope",
    "MatchState",
    "may_hold",
    "only_key",
    "pairs_kept",
]

MatchState = Literal[
    "verified",
    "unverified",
    "beyond_end",
    "missing",
    "not_a_record",
    "bad_crc",
    "mismatch",
    "ambiguous",
    "no_log",
]
VERIFIED: MatchState = "verified"
EXPIRED: MatchState = "unverified"
NO_LOG: MatchState = "no_log"
# What an entry's state is called where ``CommitLog.read_at`` has another word for its offset's.
_STATE_OF_LOG: dict[str, MatchState] = {"record": VERIFIED, "expired": EXPIRED}
#: The values of ``match_state``. ``verified``: the message has the key; ``unverified``: it lies
#: before the log; ``mismatch``: no key of it has the entry's hash; ``ambiguous``: several do, and
#: which one is the entry's cannot be known; ``no_log``: there is no log. The rest is as in
#: ``MATCH_STATES``, and each of those stands at the place of its state there.
MATCH_CODES: tuple[str, ...] = (
    *(_STATE_OF_LOG.get(state, state) for state in MATCH_STATES),
    "mismatch",
    "ambiguous",
    "no_log",
)
_VERIFIED, _MISMATCH, _AMBIGUOUS = (
    MATCH_CODES.index(state) for state in ("verified", "mismatch", "ambiguous")
)

#: Which keys of a message an entry may have. ``indexed``: those that a broker writes entries of,
#: tags included, so none of a message that was rolled back; ``properties``: every value of
#: ``UNIQ_KEY`` and ``KEYS``, and the tags; ``members``: besides, the keys of the messages inside an
#: inner batch.
KeyScope = Literal["indexed", "properties", "members"]

#: The columns of entries that verification needs.
VERIFIED_COLUMNS = ("key_hash", "phy_offset", "position", "store_timestamp")
_MESSAGE_COLUMNS = (*KEY_COLUMNS, "phy_offset", "sys_flag", "store_timestamp")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Entries beside their messages.

    Attributes:
        states: Of each entry, the place of its state in ``MATCH_CODES``.
        rows: Of each entry, the row of its message; negative for none.
        messages: The messages that are there, each once, with the columns asked for.
        keys: The keys that entries of these messages may have.
        key_rows: ``rows``, negative as well where the message has no keys in the scope.
        places: Of each verified entry, the place of its key in ``keys``; where several keys have
            its hash and ranks were not asked for, that of the first.
        matches: Which keys have the hashes of the entries.
        members: The row of each key of a batch's members, and these keys.
    """

    states: NDArray[np.int8]
    rows: NDArray[np.int64]
    messages: pa.RecordBatch
    keys: KeySet
    key_rows: NDArray[np.int64]
    places: NDArray[np.int64]
    matches: KeyMatches
    members: tuple[NDArray[np.int64], list[str]]

    @property
    def verified(self) -> NDArray[np.bool_]:
        """Which entries are verified."""
        verified: NDArray[np.bool_] = self.states == _VERIFIED
        return verified

    def hashes_of(self, entry: int) -> list[int]:
        """Return the hashes that an entry of the same message may have; ascending, each once."""
        return sorted(set(self.keys.hashes[self.keys.rows == self.key_rows[entry]].tolist()))

    def texts_of(self, entry: int) -> list[str]:
        """Return the keys of an entry's message that have its hash."""
        texts: list[str] = self.keys.texts.take(self.keys.group(self.matches, entry)).to_pylist()
        return texts


class EntryVerifier:
    """Compares entries with their messages, many at a time."""

    def __init__(
        self,
        scope: KeyScope,
        columns: Sequence[str] = (),
        *,
        check_crc: bool = False,
        strict: bool = True,
        max_body_size: int = MAX_BODY_SIZE,
    ) -> None:
        """Take what is asked of messages.

        Args:
            scope: Which keys of a message count.
            columns: Further columns of ``COMMITLOG_SCHEMA`` to read.
            check_crc: Whether the CRCs of messages are checked.
            strict: Whether an inner batch that cannot be unpacked is an error; else it has no
                members.
            max_body_size: The most bytes that a body may unpack to.
        """
        self._scope = scope
        self._columns = list(dict.fromkeys([*_MESSAGE_COLUMNS, *columns]))
        self._check_crc = check_crc
        self._strict = strict
        self._max_body_size = max_body_size
        self._has_tags = False

    def compare(
        self,
        log: CommitLog,
        key_hashes: NDArray[np.int32],
        phy_offsets: NDArray[np.int64],
        rank: Rank | None = None,
    ) -> Comparison:
        """Compare entries with their messages.

        Args:
            log: The log.
            key_hashes: Of each entry its hash.
            phy_offsets: Of each entry the offset of its message, bytes.
            rank: Ranks an entry, given by its number, of whose message several keys have the hash.
                Without it, such an entry is verified, and any of these keys may be its own.

        Raises:
            BadInnerBatchError: An inner batch cannot be unpacked, where that is an error.
            RmqIndexError: The storage failed.
        """
        offsets, of_entry = np.unique(phy_offsets, return_inverse=True)
        has_tags = self._has_tags
        columns = list(dict.fromkeys([*self._columns, *(["tags"] if has_tags else [])]))
        found = log.read_at(offsets, columns, check_crc=self._check_crc)
        codes = found.column("state").indices.to_numpy()
        sound = np.flatnonzero(codes == _VERIFIED)
        messages = found.drop_columns(["state"])
        if len(sound) < len(offsets):
            messages = messages.take(pa.array(sound))
        row_of_offset = np.full(len(offsets), -1, np.int64)
        row_of_offset[sound] = np.arange(len(sound))
        rows = row_of_offset[of_entry]
        key_rows = self._key_rows(messages, rows)
        members = self._members(log, messages)
        keys = KeySet.of(messages, messages.column("tags") if has_tags else None, members)
        matches = keys.match(key_rows, key_hashes)
        if not has_tags and ((key_rows >= 0) & (matches.count == 0)).any():
            tags = log.read_at(messages.column("phy_offset"), ["tags"]).column("tags")
            keys = KeySet.of(messages, tags, members)
            strange, matches = matches.count == 0, keys.match(key_rows, key_hashes)
            self._has_tags = bool((strange & (matches.count > 0)).any())
        states = codes[of_entry]
        states[(rows >= 0) & (matches.count == 0)] = _MISMATCH
        places = matches.place
        if rank is not None:
            for entry in np.flatnonzero(matches.several).tolist():
                group = keys.group(matches, entry)
                place = rank(entry, keys.shares(group))
                if place is None:
                    states[entry] = _AMBIGUOUS
                else:
                    places[entry] = group[place]
        return Comparison(states, rows, messages, keys, key_rows, places, matches, members)

    def _key_rows(self, messages: pa.RecordBatch, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of the message that has an entry's key, if any may."""
        if self._scope != "indexed" or not messages.num_rows:
            return rows
        rolled_back = is_rolled_back(messages.column("sys_flag"))
        return np.where((rows >= 0) & rolled_back[rows], np.int64(-1), rows)

    def _members(
        self, log: CommitLog, messages: pa.RecordBatch
    ) -> tuple[NDArray[np.int64], list[str]]:
        if self._scope == "indexed":
            return np.empty(0, np.int64), []

        def bodies(offsets: NDArray[np.int64]) -> pa.Array:
            return log.read_at(offsets, ["body"]).column("body")

        return member_keys(
            messages.column("all_uniq_keys"),
            messages.column("all_keys"),
            messages.column("sys_flag").to_numpy(),
            messages.column("phy_offset").to_numpy(),
            bodies if self._scope == "members" else None,
            strict=self._strict,
            max_body_size=self._max_body_size,
        )


def only_key(topic: str, keys: Sequence[str], hash_: int, asked: tuple[str, str]) -> str | None:
    """Return the key of one message that an entry has, where no other can be meant.

    This is what :class:`EntryVerifier` decides, for one message and without arrays.

    Args:
        topic: The message's topic.
        keys: The keys that a broker indexes of it, without tags.
        hash_: The entry's hash.
        asked: A topic and a key that have this hash, which are then not hashed again.

    Returns:
        The key; None where none of these has the hash or several have, so that tags, members or
        ranks decide.
    """
    fitting = {
        key for key in keys if (topic, key) == asked or key_hash(index_key(topic, key)) == hash_
    }
    return fitting.pop() if len(fitting) == 1 else None


def pairs_kept(
    states: pa.Array,
    found: tuple[pa.Array, pa.Array],
    asked: tuple[pa.Array, pa.Array],
) -> pa.Array:
    """Return which entries of a lookup are kept: all but the hash collisions.

    Args:
        states: ``match_state`` of each entry.
        found: The topic and the key of each; null where it is not verified.
        asked: The topic and the key that it was looked up for.

    Returns:
        Booleans: an entry that is not verified is kept, since it may be the one asked for.
    """
    same = pc.and_(pc.equal(found[0], asked[0]), pc.equal(found[1], asked[1])).fill_null(False)
    return pc.or_(pc.not_equal(states, VERIFIED), same)


def may_hold(entries: pa.RecordBatch, earliest: int | None, latest: int | None) -> pa.RecordBatch:
    """Leave out entries whose messages cannot be of the times asked for.

    Entries say whole seconds, 0 where the broker's clock stepped back behind the file's start or
    while that start is not after 1970, and no more than 31 bits.

    Args:
        entries: At least ``store_timestamp`` and ``time_diff``.
        earliest: The earliest store time, epoch milliseconds; None for no bound.
        latest: The latest store time, epoch milliseconds; None for no bound.
    """
    if earliest is None and latest is None:
        return entries
    read = entries.column("store_timestamp").to_numpy()
    diff = entries.column("time_diff").to_numpy()
    kept = np.ones(len(read), bool)
    if earliest is not None:
        kept &= (read > _in_64_bits(earliest - MILLISECONDS)) | (diff == INT32_MAX) | (read <= 0)
    if latest is not None:
        kept &= (read <= _in_64_bits(latest)) | (diff == 0)
    return entries if kept.all() else entries.take(pa.array(np.flatnonzero(kept)))


def _in_64_bits(number: int) -> int:
    """Return the nearest number that NumPy can compare with."""
    return min(max(number, INT64_MIN), INT64_MAX)
