"""ConsumeQueues: found, read, and rebuilt from a CommitLog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.consumequeue.paths import QueueFile
    from rmqindex.consumequeue.places import LeftUnits
    from rmqindex.consumequeue.reader import ConsumeQueue, marked_queue_file, read_units
    from rmqindex.consumequeue.rebuild import QueueRebuildResult, rebuild_consume_queues
    from rmqindex.consumequeue.staging import QueueStaging, is_exchanging

__all__ = [
    "ConsumeQueue",
    "LeftUnits",
    "QueueFile",
    "QueueRebuildResult",
    "QueueStaging",
    "is_exchanging",
    "marked_queue_file",
    "read_units",
    "rebuild_consume_queues",
]

__getattr__ = importer(
    __name__,
    {
        "paths": ("QueueFile",),
        "places": ("LeftUnits",),
        "reader": (
            "ConsumeQueue",
            "marked_queue_file",
            "read_units",
        ),
        "rebuild": (
            "QueueRebuildResult",
            "rebuild_consume_queues",
        ),
        "staging": (
            "QueueStaging",
            "is_exchanging",
        ),
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
