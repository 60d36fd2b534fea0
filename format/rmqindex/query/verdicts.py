"""Compares the entries found for one key with their messages in a CommitLog."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqindex.keys.hashing import KEY_SEPARATOR, index_key, key_hash
from rmqindex.query.verification import MATCH_CODES, EntryVerifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.query.verification import Comparison

__all__ = ["Judge", "Verdict"]


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


class Judge:
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

    def verdicts(self, phy_offsets: Sequence[int]) -> list[Verdict]:
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
