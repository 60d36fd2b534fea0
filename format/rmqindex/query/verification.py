"""The rule of which key of its message an entry belongs to, and the engine that applies it.

An entry holds a hash and an offset, and is verified if the message at that offset has a key of that
hash.
Where several of its keys have the hash, which is rare, the n-th entry of one hash and offset
belongs to the n-th such key in the message's own order.
Brokers from 5.4.0 on write an entry for a message's tags behind those for its keys; tags are read
only once an entry matches none of its message's keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from rmqindex.commitlog.log import MATCH_STATES
from rmqindex.indexfile.decoding import MILLISECONDS
from rmqindex.keys.hashing import KEY_SEPARATOR, index_key, key_hash
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

    # Returns the rank of entry number n among those of its hash and message, or None.
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
    "KeyVerifier",
    "MatchState",
    "Verdict",
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
# The states of entries whose name differs from that of ``CommitLog.read_at``.
_STATE_OF_LOG: dict[str, MatchState] = {"record": VERIFIED, "expired": EXPIRED}
#: The values of ``match_state``. ``verified``: the message has the key; ``unverified``: it lies
#: before the log; ``mismatch``: no key of it has the entry's hash; ``ambiguous``: several do, and
#: and the entry's cannot be determined; ``no_log``: there is no log. The others are those of
#: ``MATCH_STATES``, each at the same place.
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
    """Entries with their messages.

    Attributes:
        states: The place in ``MATCH_CODES`` of each entry's state.
        rows: The row of each entry's message; negative without one.
        messages: The messages found, each once, with the requested columns.
        keys: The keys that entries of these messages may have.
        key_rows: ``rows``, but also negative where the message has no keys in the scope.
        places: The place in ``keys`` of each verified entry's key; without ranks, the first of
            several keys with its hash.
        matches: The keys with the hash of each entry.
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
        """Whether each entry is verified."""
        verified: NDArray[np.bool_] = self.states == _VERIFIED
        return verified

    def belong_to(self, topic: str, keys: pa.Array) -> NDArray[np.bool_]:
        """Return whether each entry's message has a topic, and a key that has the entry's hash.

        Args:
            topic: The topic.
            keys: The key for each entry, ``string``.
        """
        import pyarrow.compute as pc  # noqa: PLC0415  (a command may not need it)

        found: NDArray[np.bool_] = self.verified.copy()
        if not found.any():
            return found
        unknown = ~found
        topics = self.messages.column("topic").take(pa.array(self.rows, mask=unknown))
        texts = self.keys.texts.take(pa.array(self.places, mask=unknown))
        same = pc.equal(texts, keys).fill_null(False).to_numpy(zero_copy_only=False).copy()
        for entry in np.flatnonzero(found & self.matches.several).tolist():
            same[entry] = keys[entry].as_py() in self.texts_of(entry)
        found &= same & pc.equal(topics, topic).fill_null(False).to_numpy(zero_copy_only=False)
        return found

    def hashes_of(self, entry: int) -> list[int]:
        """Return the distinct hashes that entries of the same message may have, ascending."""
        return sorted(set(self.keys.hashes[self.keys.rows == self.key_rows[entry]].tolist()))

    def texts_of(self, entry: int) -> list[str]:
        """Return the keys of an entry's message that have its hash."""
        texts: list[str] = self.keys.texts.take(self.keys.group(self.matches, entry)).to_pylist()
        return texts


class EntryVerifier:
    """Compares many entries with their messages at a time."""

    def __init__(
        self,
        scope: KeyScope,
        columns: Sequence[str] = (),
        *,
        check_crc: bool = False,
        strict: bool = True,
        max_body_size: int = MAX_BODY_SIZE,
    ) -> None:
        """Set what is read of messages.

        Args:
            scope: Which keys of a message count.
            columns: Further columns of ``COMMITLOG_SCHEMA`` to read; bodies are read as stored.
            check_crc: Whether to check the CRCs of messages.
            strict: Whether an inner batch that cannot be unpacked is an error; otherwise it has no
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
            key_hashes: The hash of each entry.
            phy_offsets: The offset of each entry's message, bytes.
            rank: Returns the rank of an entry, given by its number; called where several keys of
                its message have the hash. Without it, such an entry is verified, and any of these
                keys may be its own.

        Raises:
            BadInnerBatchError: An inner batch cannot be unpacked, and ``strict`` is set.
            RmqIndexError: The storage failed.
        """
        offsets, of_entry = np.unique(phy_offsets, return_inverse=True)
        has_tags = self._has_tags
        columns = list(dict.fromkeys([*self._columns, *(["tags"] if has_tags else [])]))
        found = log.read_at(offsets, columns, check_crc=self._check_crc, decompress_body=False)
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
        """Return the row of each entry's message; negative where it has no keys in the scope."""
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
            return log.read_at(offsets, ["body"], decompress_body=False).column("body")

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
    """Return the key of a message that an entry belongs to, where only one has its hash.

    It decides as :class:`EntryVerifier`, but for one message, without arrays.

    Args:
        topic: The message's topic.
        keys: Its keys that a broker indexes, without tags.
        hash_: The entry's hash.
        asked: A topic and key known to have this hash, which need not be hashed again.

    Returns:
        The key; None where none or several have the hash, so that tags, members or ranks decide.
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
        found: The topic and key of each; null where it is not verified.
        asked: The topic and key that each was looked up for.

    Returns:
        Booleans. An entry that is not verified is kept, since it may belong to the key.
    """
    import pyarrow.compute as pc  # noqa: PLC0415  (a command may not need it)

    same = pc.and_(pc.equal(found[0], asked[0]), pc.equal(found[1], asked[1])).fill_null(False)
    return pc.or_(pc.not_equal(states, VERIFIED), same)


def may_hold(entries: pa.RecordBatch, earliest: int | None, latest: int | None) -> pa.RecordBatch:
    """Leave out entries whose messages cannot lie in a range of times.

    An entry's ``time_diff`` is in whole seconds of at most 31 bits, and 0 where the clock stepped
    back behind the file's start, or where that start is not after 1970.

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
    """Return the nearest 64-bit number, which NumPy can compare."""
    return min(max(number, INT64_MIN), INT64_MAX)


class Verdict(NamedTuple):
    """The result of comparing an entry with its message.

    Attributes:
        state: ``verified``: the message has the key; ``mismatch``: it has another key of the same
            hash; ``unverified``: it is no longer in the log; ``beyond_end``, ``missing``,
            ``not_a_record``: no message starts there, as in ``MATCH_STATES``; ``no_log``: there is
            no log to compare with.
        message: The topic and keys of the message, if any.
        store_timestamp: Its store time, epoch milliseconds, if any.
    """

    state: str
    message: str | None = None
    store_timestamp: int | None = None


class KeyVerifier:
    """Decides by a CommitLog which entries belong to one key."""

    def __init__(self, log: CommitLog | None, topic: str, key: str) -> None:
        """Set the log and the key.

        Args:
            log: The CommitLog, or None.
            topic: The topic.
            key: The key: a unique key, one of ``KEYS``, or ``T#`` with the tags.
        """
        self._log = log
        self._topic = topic
        self._key = key
        self._verifier = EntryVerifier("properties")

    def compare(self, phy_offsets: Sequence[int]) -> list[Verdict]:
        """Return a verdict for each offset, in their order."""
        if self._log is None or not phy_offsets:
            return [Verdict("no_log")] * len(phy_offsets)
        hash_ = key_hash(index_key(self._topic, self._key))
        compared = self._verifier.compare(
            self._log,
            np.full(len(phy_offsets), hash_, np.int32),
            np.array(phy_offsets, np.int64),
        )
        return [self._verdict(compared, entry) for entry in range(len(phy_offsets))]

    def _verdict(self, compared: Comparison, entry: int) -> Verdict:
        state, row = MATCH_CODES[compared.states[entry]], int(compared.rows[entry])
        if row < 0:
            return Verdict(state)
        message = {
            name: compared.messages.column(name)[row].as_py()
            for name in ("topic", "all_uniq_keys", "all_keys", "store_timestamp")
        }
        if message["topic"] != self._topic or self._key not in compared.texts_of(entry):
            state = "mismatch"
        keys = [*message["all_uniq_keys"]]
        keys += [part for text in message["all_keys"] for part in text.split(KEY_SEPARATOR) if part]
        return Verdict(state, f"{message['topic']}: {' '.join(keys)}", message["store_timestamp"])
