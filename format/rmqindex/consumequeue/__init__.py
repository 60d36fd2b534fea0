"""ConsumeQueues: found, read, and rebuilt from a CommitLog."""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.consumequeue.paths import QueueFile as QueueFile
    from rmqindex.consumequeue.paths import is_queue_file as is_queue_file
    from rmqindex.consumequeue.places import LostUnits as LostUnits
    from rmqindex.consumequeue.progress import GROUP_STATES as GROUP_STATES
    from rmqindex.consumequeue.progress import QUEUE_STATES as QUEUE_STATES
    from rmqindex.consumequeue.progress import ConsumerProgress as ConsumerProgress
    from rmqindex.consumequeue.progress import GroupProgress as GroupProgress
    from rmqindex.consumequeue.progress import MessagePlace as MessagePlace
    from rmqindex.consumequeue.progress import consumer_progress as consumer_progress
    from rmqindex.consumequeue.reader import ConsumeQueue as ConsumeQueue
    from rmqindex.consumequeue.reader import marked_queue_file as marked_queue_file
    from rmqindex.consumequeue.reader import read_units as read_units
    from rmqindex.consumequeue.rebuild import QueueRebuildResult as QueueRebuildResult
    from rmqindex.consumequeue.rebuild import rebuild_consume_queues as rebuild_consume_queues
    from rmqindex.consumequeue.staging import QueueStaging as QueueStaging
    from rmqindex.consumequeue.staging import is_exchanging as is_exchanging
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
