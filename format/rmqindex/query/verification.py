"""Whether an entry is a key's, told by the message it points to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from rmqindex.keys.hashing import KEY_SEPARATOR
from rmqindex.keys.messages import tag_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.commitlog.log import CommitLog

__all__ = ["STATE_OF_LOG", "Judge", "Verdict"]

State = Literal[
    "verified", "unverified", "beyond_end", "missing", "not_a_record", "mismatch", "no_log"
]
#: What ``match_state`` calls those of ``MATCH_STATES`` that an entry has other words for.
STATE_OF_LOG: dict[str, State] = {"record": "verified", "expired": "unverified"}


class Verdict(NamedTuple):
    """What the CommitLog says of an entry.

    Attributes:
        state: ``verified``: the message has the key; ``mismatch``: it has others of the same
            hash; ``unverified``: it is not in the log any more; ``beyond_end``, ``missing``,
            ``not_a_record``: no message starts there, as in ``MATCH_STATES``; ``no_log``: there is
            no log to ask.
        message: Topic and keys of the message, where there is one.
        store_timestamp: Its store time, epoch milliseconds, where there is one.
    """

    state: State
    message: str | None = None
    store_timestamp: int | None = None


class Judge:
    """Tells by a CommitLog which entries are one key's."""

    def __init__(self, log: CommitLog | None, topic: str, key: str) -> None:
        """Take what to judge by.

        Args:
            log: The CommitLog, or None.
            topic: The topic asked for.
            key: The key asked for: a unique key, one of ``KEYS``, or ``T#`` and the tags.
        """
        self._log = log
        self._topic = topic
        self._key = key

    def verdicts(self, phy_offsets: Sequence[int]) -> list[Verdict]:
        """Return a verdict for each offset, in their order."""
        if self._log is None or not phy_offsets:
            return [Verdict("no_log")] * len(phy_offsets)
        columns = ["topic", "all_uniq_keys", "all_keys", "tags", "store_timestamp"]
        found = self._log.read_at(np.array(phy_offsets, np.int64), columns)
        return [self._verdict(row) for row in found.to_pylist()]

    def _verdict(self, row: dict[str, Any]) -> Verdict:
        if row["state"] != "record":
            return Verdict(STATE_OF_LOG.get(row["state"], row["state"]))
        keys = [*row["all_uniq_keys"]]
        keys += [part for text in row["all_keys"] for part in text.split(KEY_SEPARATOR) if part]
        tags = [tag_key(row["tags"])] if row["tags"] else []
        is_mine = row["topic"] == self._topic and self._key in [*keys, *tags]
        return Verdict(
            "verified" if is_mine else "mismatch",
            f"{row['topic']}: {' '.join(keys)}",
            row["store_timestamp"],
        )
