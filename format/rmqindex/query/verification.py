"""Whose entry an entry is: the one rule, and the one engine that applies it.

An entry holds a hash and an offset, and is verified if the message at that offset has a key of that
hash.
Where several of its keys have the hash, which is rare, the n-th entry of that hash and message
belongs to the n-th such key in the message's own order: the unique key, the parts of ``KEYS``, the
tags, which brokers from 5.4.0 on index, and the keys of a batch's members.
So an entry belongs to one key, and each search finds it for that key alone.
Entries are counted in the index, not among those that a search found (see
:mod:`rmqindex.query.message_keys`).

A message that has a key twice, or that a broker indexed again after a crash, has two entries of the
key: a lookup gives one row for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from rmqindex.commitlog.log import MATCH_STATES
from rmqindex.commitlog.selection import zeroed_messages
from rmqindex.indexfile.decoding import MILLISECONDS
from rmqindex.keys.hashing import KEY_SEPARATOR, index_key, key_hash
from rmqindex.keys.messages import is_rolled_back
from rmqindex.layout.index_file import INT32_MAX, INT64_MAX, INT64_MIN
from rmqindex.query.message_keys import ALL_KEY_COLUMNS, KeySet, Ranks, choose_key, hash_tags
from rmqindex.record.bodies import MAX_BODY_SIZE, member_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.query.message_keys import KeyMatches, SearchedFile

MatchState = Literal[
    "verified",
    "unverified",
    "beyond_end",
    "missing",
    "not_a_record",
    "bad_crc",
    "mismatch",
    "zeroed",
    "ambiguous",
    "no_log",
]
VERIFIED: MatchState = "verified"
EXPIRED: MatchState = "unverified"
NO_LOG: MatchState = "no_log"
MISMATCH: MatchState = "mismatch"
# The states of entries whose name differs from that of ``CommitLog.read_at``.
_STATE_OF_LOG: dict[str, MatchState] = {"record": VERIFIED, "expired": EXPIRED}
#: The values of ``match_state``. ``verified``: the message has the key; ``unverified``: it lies
#: before the log; ``mismatch``: no key of it has the entry's hash; ``zeroed``: likewise, and its
#: topic or properties lost bytes to zeros, which is damage of the log; ``ambiguous``: several have
#: it, and the entry's cannot be determined; ``no_log``: there is no log. The others are those of
#: ``MATCH_STATES``, each at the same place.
MATCH_CODES: tuple[str, ...] = (
    *(_STATE_OF_LOG.get(state, state) for state in MATCH_STATES),
    MISMATCH,
    "zeroed",
    "ambiguous",
    NO_LOG,
)
_VERIFIED, _MISMATCH, _ZEROED, _AMBIGUOUS = (
    MATCH_CODES.index(state) for state in (VERIFIED, MISMATCH, "zeroed", "ambiguous")
)

#: Which keys of a message an entry may have. ``indexed``: those that a broker writes entries of,
#: tags included, so none of a message that was rolled back; ``members``: every value of
#: ``UNIQ_KEY`` and ``KEYS``, the tags, and the keys of the messages inside an inner batch.
KeyScope = Literal["indexed", "members"]

#: The columns of entries that verification needs.
VERIFIED_COLUMNS = ("key_hash", "phy_offset", "position", "store_timestamp")
_MESSAGE_COLUMNS = (*ALL_KEY_COLUMNS, "tags", "phy_offset", "sys_flag", "store_timestamp")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Entries with their messages.

    Attributes:
        states: The place in ``MATCH_CODES`` of each entry's state.
        rows: The row of each entry's message; negative without one.
        messages: The messages found, each once, with the requested columns.
        keys: The keys that entries of these messages may have.
        key_rows: ``rows``, but also negative where the message has no keys in the scope.
        places: The place in ``keys`` of each verified entry's key.
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

    def found_pairs(self) -> tuple[pa.Array, pa.Array]:
        """Return the topic and the key of each entry; null unless it is verified."""
        unknown = ~self.verified
        return (
            self.messages.column("topic").take(pa.array(self.rows, mask=unknown)),
            self.keys.texts.take(pa.array(self.places, mask=unknown)),
        )

    def verdict(self, entry: int, topic: str, key: str) -> Verdict:
        """Return whether an entry belongs to one key, and describe its message.

        Args:
            entry: Its number.
            topic: The topic.
            key: A key of its hash.
        """
        state, row = MATCH_CODES[self.states[entry]], int(self.rows[entry])
        if row < 0:
            return Verdict(state)
        message = {
            name: self.messages.column(name)[row].as_py()
            for name in ("topic", "all_uniq_keys", "all_keys", "store_timestamp")
        }
        fitting = self.texts_of(entry)
        if state == VERIFIED:
            fitting = [self.keys.texts[int(self.places[entry])].as_py()]
        if state != "zeroed" and (message["topic"] != topic or key not in fitting):
            state = MISMATCH
        keys = [*message["all_uniq_keys"]]
        keys += [part for text in message["all_keys"] for part in text.split(KEY_SEPARATOR) if part]
        return Verdict(state, f"{message['topic']}: {' '.join(keys)}", message["store_timestamp"])

    def hashes_of(self, entry: int) -> list[int]:
        """Return the distinct hashes that entries of the same message may have, ascending."""
        return sorted(set(self.keys.hashes[self.keys.rows == self.key_rows[entry]].tolist()))

    def texts_of(self, entry: int) -> list[str]:
        """Return the keys of an entry's message that have its hash."""
        texts: list[str] = self.keys.texts.take(self.keys.group(self.matches, entry)).to_pylist()
        return texts


class Verifier:
    """Decides which key an entry belongs to, by its message and by all entries of that message."""

    def __init__(
        self,
        scope: KeyScope,
        columns: Sequence[str] = (),
        *,
        check_crc: bool = False,
        strict: bool = True,
        max_body_size: int = MAX_BODY_SIZE,
    ) -> None:
        """Choose the keys that count and the message columns to read.

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
        self._ranks = Ranks()

    def compare(
        self,
        log: CommitLog,
        files: Sequence[SearchedFile],
        key_hashes: NDArray[np.int32],
        phy_offsets: NDArray[np.int64],
        positions: NDArray[np.int32],
        file_numbers: NDArray[np.int64] | None = None,
    ) -> Comparison:
        """Compare entries with their messages.

        Args:
            log: The log.
            files: The files that the entries are in.
            key_hashes: The hash of each entry.
            phy_offsets: The offset of each entry's message, bytes.
            positions: The position of each entry in its file.
            file_numbers: The place of that file among ``files``; None where there is only one.

        Raises:
            BadInnerBatchError: An inner batch cannot be unpacked, and ``strict`` is set.
        """
        offsets, of_entry = np.unique(phy_offsets, return_inverse=True)
        found = log.read_at(
            offsets, self._columns, check_crc=self._check_crc, decompress_body=False
        )
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
        tag_hashes = hash_tags(messages)
        read = np.flatnonzero(key_rows >= 0)
        has_tags = bool((tag_hashes[key_rows[read]] == key_hashes[read]).any())
        keys = KeySet.of(messages, tag_hashes if has_tags else None, members)
        matches = keys.match(key_rows, key_hashes)
        if not has_tags and ((key_rows >= 0) & ((matches.count == 0) | matches.several)).any():
            keys = KeySet.of(messages, tag_hashes, members)
            matches = keys.match(key_rows, key_hashes)
        states, places = codes[of_entry], matches.place
        foreign = np.flatnonzero((rows >= 0) & (matches.count == 0))
        lost = np.isin(phy_offsets[foreign], zeroed_messages(log, phy_offsets[foreign]))
        states[foreign] = np.where(lost, _ZEROED, _MISMATCH)
        several = np.flatnonzero(matches.several)
        owners = file_numbers[several] if file_numbers is not None else np.zeros_like(several)
        for number in np.unique(owners).tolist():
            mine = several[owners == number]
            runs = self._ranks.runs(files[number], positions[mine].tolist())
            for entry, run in zip(mine.tolist(), runs, strict=True):
                place = choose_key(run, keys.dispatches(int(key_rows[entry])))
                if place is None:
                    states[entry] = _AMBIGUOUS
                else:
                    places[entry] = place
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
            bodies,
            strict=self._strict,
            max_body_size=self._max_body_size,
        )


def only_key(topic: str, keys: Sequence[str], hash_: int, asked: tuple[str, str]) -> str | None:
    """Return the key of a message that an entry belongs to, where only one has its hash.

    It decides as :class:`Verifier`, but for one message, without arrays.
    """
    fitting = {
        key for key in keys if (topic, key) == asked or key_hash(index_key(topic, key)) == hash_
    }
    return fitting.pop() if len(fitting) == 1 else None


def pairs_kept(
    verified: NDArray[np.bool_],
    found: tuple[pa.Array, pa.Array],
    asked: tuple[pa.Array | pa.Scalar, pa.Array],
) -> NDArray[np.bool_]:
    """Mask the entries of a lookup that are kept: all but other keys' entries.

    Args:
        verified: Whether each entry is verified.
        found: The topic and key of each; null where it is not verified.
        asked: The topic and key that each was looked up for.

    Returns:
        One for each. An entry that is not verified is kept, since it may belong to the key.
    """
    import pyarrow.compute as pc  # noqa: PLC0415  (a command may not need it)

    same = pc.and_(pc.equal(found[0], asked[0]), pc.equal(found[1], asked[1])).fill_null(False)
    kept: NDArray[np.bool_] = ~verified | same.to_numpy(zero_copy_only=False)
    return kept


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
    """Return the nearest number of 64 bits."""
    return min(max(number, INT64_MIN), INT64_MAX)


class Verdict(NamedTuple):
    """Whether an entry belongs to one key.

    Attributes:
        state: One of ``MATCH_CODES``; ``mismatch`` also where it belongs to another key of the
            hash.
        message: The topic and keys of the message, if any.
        store_timestamp: Its store time, epoch milliseconds, if any.
    """

    state: str
    message: str | None = None
    store_timestamp: int | None = None
