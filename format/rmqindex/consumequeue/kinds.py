"""Which topics have batch queues: one topic, one kind (RocketMQ: ``QueueTypeUtils.getCQType``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.errors import RmqIndexError

if TYPE_CHECKING:
    from collections.abc import Collection

    from rmqindex.store.topics import TopicTable

__all__ = ["TopicKinds"]


class TopicKinds:
    """Decides the kind of a topic's queues before its first unit.

    A broker does not start with queues of another kind than ``config/topics.json`` says, so that
    this file decides.
    Without it, topics have batch queues that have some now, or an inner batch anywhere in the log.
    """

    def __init__(
        self,
        named: Collection[str],
        present: Collection[str],
        table: TopicTable | None,
        *,
        strict: bool = True,
    ) -> None:
        """Begin with what is known before the log is read."""
        self._strict = strict
        #: Topics with inner batches that must have no batch queues, and the first such message.
        self.conflicts: dict[str, int] = {}
        self._table = table
        known = present if table is None else table.batch_topics
        self._batch = {*named, *known}
        self._plain: set[str] = set()
        #: Whether a topic had plain units before its first inner batch: they must be built again.
        self.is_late = False

    def is_batch(self, topic: str) -> bool:
        """Return whether a topic's units go into batch queues."""
        if topic in self._batch:
            return True
        self._plain.add(topic)
        return False

    def see_inner_batch(self, topic: str, phy_offset: int) -> None:
        """Take note of a topic with an inner batch, before units are made of it."""
        if topic in self._batch:
            return
        if self._table is not None and not self._strict:
            self.conflicts.setdefault(topic, phy_offset)
            return
        if self._table is not None:
            got = "no such topic" if topic not in self._table.topics else "one without"
            raise RmqIndexError(
                f"{self._table.path}: expected the topic {topic} with queue.type=BatchCQ, since "
                f"the message at offset {phy_offset} is an inner batch of it, got {got}: a broker "
                "does not start with batch queues of such a topic. Restore the file, or give "
                f"leave_out={topic}, which rebuilds all other queues"
            )
        self._batch.add(topic)
        self.is_late |= topic in self._plain

    def restart(self) -> None:
        """Begin again with the topics that are known by now."""
        self._plain.clear()
        self.is_late = False
