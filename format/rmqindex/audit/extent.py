"""How far an index should reach: whether it is missing, and how far it may lag behind its log.

RocketMQ: ``DefaultMessageStore.shutdown`` removes ``abort`` only after all messages were
dispatched; ``ReputMessageService`` indexes those of a running broker within moments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqindex.explanation.coverage import LONGEST_LAG
from rmqindex.folders import INDEX_FOLDER
from rmqindex.indexfile.decoding import MILLISECONDS
from rmqindex.keys.messages import expand_messages
from rmqindex.store.checkpoint import CHECKPOINT_NAME
from rmqindex.transaction.broker_lock import BrokerLock, BrokerState
from rmqindex.transaction.directories import exists

if TYPE_CHECKING:
    from rmqindex.audit.rules import Findings
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.storage.location import Location

__all__ = ["audit_missing", "is_at_rest", "is_late", "log_start"]

# Clocks step back; by more than this, --since may look at one log file too few.
_CLOCK_STEP = 3_600_000  # milliseconds
_COLUMNS = ("topic", "uniq_key", "keys", "sys_flag", "phy_offset", "store_timestamp")


def is_at_rest(directory: Location) -> bool:
    """Return whether an index is that of a local store whose broker stopped cleanly."""
    if directory.local is None or directory.name != INDEX_FOLDER:
        return False
    state = BrokerLock.around(directory).state
    return exists(directory.parent.child(CHECKPOINT_NAME)) and state is BrokerState.STOPPED


def is_late(seconds: int, *, at_rest: bool) -> bool:
    """Return whether a message without entries cannot be one that the broker is about to index.

    Args:
        seconds: How much older than the log's last message it is.
        at_rest: Whether the broker stopped cleanly.
    """
    return at_rest or seconds > LONGEST_LAG


def log_start(log: CommitLog, since: int | None) -> int:
    """Return an offset before which no message was stored at a time or later, bytes."""
    if since is None:
        return 0
    for file in reversed(log.files):
        first = log.first_store_timestamp(file)
        if first is not None and first < since - _CLOCK_STEP:
            return file.start
    return 0


class _Message(NamedTuple):
    phy_offset: int
    store_timestamp: int


def audit_missing(directory: str, log: CommitLog, findings: Findings, *, at_rest: bool) -> None:
    """Check that a log beside an index without entries has no message with keys.

    Args:
        directory: The index directory, which may be absent.
        log: The CommitLog.
        findings: Collects the findings.
        at_rest: Whether the broker stopped cleanly.
    """
    first = _first_with_keys(log)
    if first is None:
        return
    start = max(first.phy_offset, log.files[log.last_with_data()].start)
    latest = first.store_timestamp
    for batch in log.scan(start, None, ["store_timestamp"], mode="DROPMALFORMED"):
        latest = max(latest, int(batch["store_timestamp"].to_numpy().max(initial=0)))
    seconds = (latest - first.store_timestamp) // MILLISECONDS
    findings.add(
        directory,
        "index_missing" if is_late(seconds, at_rest=at_rest) else "index_behind",
        None,
        f"entries of the messages with keys from {first.phy_offset} to {log.max_offset}",
        f"none; the last of them was stored {seconds} s after the first" if seconds else "none",
    )


def _first_with_keys(log: CommitLog) -> _Message | None:
    for batch in log.scan(columns=list(_COLUMNS), mode="DROPMALFORMED"):
        rows, _, _ = expand_messages(*(batch[name] for name in _COLUMNS[:4]))
        times = batch["store_timestamp"].to_numpy()
        if len(rows):
            row = int(np.min(rows))
            return _Message(int(batch["phy_offset"][row].as_py()), int(times[row]))
    return None
