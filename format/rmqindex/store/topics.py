"""The broker's topics (RocketMQ: ``TopicConfigManager``, ``QueueTypeUtils``)."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqindex.errors import RmqIndexError
from rmqindex.layout.queue import LMQ_PREFIX, SCHEDULE_TOPIC, SYSTEM_PREFIX
from rmqindex.layout.store import CONFIG_FOLDER
from rmqindex.storage.disk import open_to_read
from rmqindex.storage.filesystem import unreadable
from rmqindex.storage.location import Location

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TopicTable"]

_NAME = "topics.json"
_BACKUP_SUFFIX = ".bak"
_TABLE = "topicConfigTable"
_QUEUE_TYPE = "queue.type"
_BATCH = "BatchCQ"


@dataclass(frozen=True, slots=True)
class TopicTable:
    """The topics of a store's ``config/topics.json``.

    Attributes:
        path: The file.
        topics: The names of all topics.
        batch_topics: Those with batch queues.
    """

    path: Path
    topics: frozenset[str]
    batch_topics: frozenset[str]

    @classmethod
    def of(cls, root: Path) -> TopicTable | None:
        """Read the topics of a store, or their backup, as a broker does.

        Returns:
            The topics; None where the store has no such file.
        """
        path = root / CONFIG_FOLDER / _NAME
        candidates = (path, path.with_name(_NAME + _BACKUP_SUFFIX))
        present = [each for each in candidates if os.path.lexists(each)]
        for each in present:
            table = _read(each)
            if table is not None:
                return cls(each, *table)
        if present:
            raise RmqIndexError(
                f"{present[0]}: expected a JSON object with {_TABLE}, got something else; restore "
                "it from a backup, or move it out of the store"
            )
        return None

    def lacks(self, topic: str) -> bool:
        """Return whether a topic was deleted: the broker has no such topic, and would name it."""
        return topic not in self.topics and not (
            topic.startswith(LMQ_PREFIX)
            or topic.lower().startswith(SYSTEM_PREFIX)
            or topic == SCHEDULE_TOPIC
        )


def _read(path: Path) -> tuple[frozenset[str], frozenset[str]] | None:
    try:
        with open(path, "rb", opener=open_to_read) as file:
            table = json.load(file)[_TABLE]  # noqa: TID251  (a broker's document, checked here)
        return (
            frozenset(table),
            frozenset(topic for topic, config in table.items() if _is_batch(config)),
        )
    except OSError as error:  # what it says is unknown, and its backup may say something else
        raise unreadable(Location.of(path), error) from error
    except (RecursionError, RmqIndexError):
        return None
    except (ValueError, TypeError, KeyError, AttributeError):  # another document
        return None


def _is_batch(config: dict[str, dict[str, str]]) -> bool:
    attributes = config.get("attributes") or {}
    return attributes.get(_QUEUE_TYPE) == _BATCH
