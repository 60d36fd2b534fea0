"""How transactions ended, by what a broker writes at their ends.

RocketMQ: ``EndTransactionProcessor``, ``TransactionalMessageBridge``.
A half message is stored under a topic of its own. At a commit the broker writes the message under
its real topic, with the half message's offset as ``PREPARED TRANSACTION OFFSET``. Then, and at a
rollback only this, it writes a message into the queue of the same number of the op topic, whose
body has the queue offsets of half messages that are done with: one before 5.0, several since.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from rmqindex.errors import RmqIndexError
from rmqindex.layout.queue import HALF_TOPIC, OP_TOPIC
from rmqindex.layout.record import TRANSACTION_COMMIT, TRANSACTION_MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.consumequeue.progress import MessagePlace
    from rmqindex.consumequeue.reader import ConsumeQueue

#: How a transaction ended; None where the log does not prove it, as while it is open.
TransactionState = Literal["committed", "rolled_back"]

# TransactionalMessageUtil.REMOVE_TAG, OFFSET_SEPARATOR.
_REMOVE_TAG, _SEPARATOR = "d", ","
# What is read of a log at most: op messages behind a half message, and bytes up to its own one,
# which a broker writes seconds behind the commit.
_MOST_OPS = 200_000
_MOST_BYTES = 1 << 28
_BLOCK = 4096


def transaction_states(
    log: CommitLog,
    queues_of: Callable[[str], Mapping[int, ConsumeQueue]],
    places: Sequence[MessagePlace],
) -> list[TransactionState | None]:
    """Return how the transactions of messages ended; None for those of other topics.

    Args:
        log: The CommitLog with the messages.
        queues_of: Finds the queues of a topic, by number.
        places: The messages.
    """
    states: list[TransactionState | None] = [None] * len(places)
    by_queue: dict[int, dict[int, int]] = {}
    for place in places:
        if place.topic == HALF_TOPIC:
            by_queue.setdefault(place.queue_id, {})[place.queue_offset] = place.phy_offset
    commits: dict[int, bool] = {}
    for queue_id, halves in by_queue.items():
        with suppress(RmqIndexError):  # what cannot be read proves nothing
            queue = queues_of(OP_TOPIC).get(queue_id)
            if queue is not None:
                commits |= _committed(log, _ends(log, queue, halves))
    for number, place in enumerate(places):
        is_committed = commits.get(place.phy_offset)
        if is_committed is not None and place.topic == HALF_TOPIC:
            states[number] = "committed" if is_committed else "rolled_back"
    return states


def _ends(log: CommitLog, queue: ConsumeQueue, halves: Mapping[int, int]) -> dict[int, int]:
    """Return where half messages are said to be done with, by their own offsets, in bytes.

    Args:
        log: The CommitLog.
        queue: The op queue.
        halves: The offsets of the half messages in the log, bytes, by those in their queue.
    """
    ends: dict[int, int] = {}
    names = ["topic", "queue_id", "tags", "body"]
    for offsets in _offsets_behind(queue, min(halves.values())):
        rows = log.read_at(offsets, names).select(names).to_pylist()
        for offset, row in zip(offsets.tolist(), rows, strict=True):
            if (row["topic"], row["queue_id"], row["tags"]) != (
                OP_TOPIC,
                queue.queue_id,
                _REMOVE_TAG,
            ):
                continue
            for number in _numbers(row["body"]):
                half = halves.get(number)
                if half is not None and half < offset:
                    ends.setdefault(half, offset)
        if len(ends) == len({*halves.values()}):
            break
    return ends


def _offsets_behind(queue: ConsumeQueue, phy_offset: int) -> Iterator[NDArray[np.int64]]:
    """Yield where the op messages behind a place of the log start, bytes, in blocks."""
    count = 0
    for batch in queue.scan():
        offsets = batch["phy_offset"].to_numpy()
        offsets = offsets[offsets > phy_offset]
        for start in range(0, len(offsets), _BLOCK):
            if count >= _MOST_OPS:
                return
            block = offsets[start : start + _BLOCK]
            count += len(block)
            yield block


def _numbers(body: bytes | None) -> list[int]:
    parts = (body or b"").decode("ascii", errors="replace").split(_SEPARATOR)
    return [int(part) for part in parts if part.isascii() and part.isdecimal()]


def _committed(log: CommitLog, ends: Mapping[int, int]) -> dict[int, bool]:
    """Return whether half messages were committed, by their offsets, of those that can be told.

    Args:
        log: The CommitLog.
        ends: Up to where each one's commit would be, bytes, by its offset.
    """
    commits: dict[int, bool] = {}
    found: set[int] = set()
    read, left = 0, _MOST_BYTES  # nothing before is to be read again
    for half, end in sorted(ends.items()):
        start = max(half, read)
        if end > start:
            left -= end - start
            if left < 0:
                break
            for batch in log.scan(start, end, ["prepared_transaction_offset", "sys_flag"]):
                flags = batch["sys_flag"].to_numpy()
                is_commit = (flags & TRANSACTION_MASK) == TRANSACTION_COMMIT
                prepared = batch["prepared_transaction_offset"].to_numpy()
                found.update(prepared[is_commit].tolist())
            read = end
        commits[half] = half in found
    return commits
