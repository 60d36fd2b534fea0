"""ConsumeQueues: found, read, and rebuilt from a CommitLog."""

from rmqindex.consumequeue.paths import QueueFile
from rmqindex.consumequeue.reader import ConsumeQueue, marked_queue_file, read_units
from rmqindex.consumequeue.rebuild import QueueRebuildResult, rebuild_consume_queues
from rmqindex.consumequeue.staging import QueueStaging, is_exchanging

__all__ = [
    "ConsumeQueue",
    "QueueFile",
    "QueueRebuildResult",
    "QueueStaging",
    "is_exchanging",
    "marked_queue_file",
    "read_units",
    "rebuild_consume_queues",
]
