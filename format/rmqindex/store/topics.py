"""The broker's topics (RocketMQ: ``TopicConfigManager``, ``QueueTypeUtils``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqindex.layout.queue import LMQ_PREFIX, SCHEDULE_TOPIC, SYSTEM_PREFIX
from rmqindex.storage.location import Location
from rmqindex.store.config import read_config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqindex.storage.location import PathLike

_NAME = "topics.json"
_TABLE = "topicConfigTable"
_QUEUE_TYPE = "queue.type"
_BATCH = "BatchCQ"
_READ_QUEUES = "readQueueNums"
# TopicConfig.defaultReadQueueNums.
_DEFAULT_QUEUES = 16


@dataclass(frozen=True, slots=True)
class TopicTable:
    """The topics of a store's ``config/topics.json``.

    Attributes:
        path: The file.
        topics: The names of all topics.
        batch_topics: Those with batch queues.
        read_queue_nums: By topic, how many of its queues consumers read.
    """

    path: Location
    topics: frozenset[str]
    batch_topics: frozenset[str]
    read_queue_nums: Mapping[str, int]

    @classmethod
    def of(cls, root: PathLike) -> TopicTable | None:
        """Read the topics of a store, or their backup, as a broker does.

        Returns:
            The topics; None where the store has no such file.
        """
        read = read_config(Location.of(root), _NAME, f"a JSON object with {_TABLE}", _topics)
        return None if read is None else cls(read.path, *read.value)

    def lacks(self, topic: str) -> bool:
        """Return whether a topic was deleted: the broker has no such topic, and would name it."""
        return topic not in self.topics and not (
            topic.startswith(LMQ_PREFIX)
            or topic.lower().startswith(SYSTEM_PREFIX)
            or topic == SCHEDULE_TOPIC
        )


def _topics(document: Any) -> tuple[frozenset[str], frozenset[str], dict[str, int]]:  # noqa: ANN401
    try:
        table = document[_TABLE]
        return (
            frozenset(table),
            frozenset(topic for topic, config in table.items() if _is_batch(config)),
            {topic: _read_queue_num(config) for topic, config in table.items()},
        )
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError("something else") from error


def _is_batch(config: dict[str, dict[str, str]]) -> bool:
    attributes = config.get("attributes") or {}
    return attributes.get(_QUEUE_TYPE) == _BATCH


def _read_queue_num(config: dict[str, Any]) -> int:
    number = config.get(_READ_QUEUES)
    return number if type(number) is int else _DEFAULT_QUEUES
