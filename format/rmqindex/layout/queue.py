"""Units, files and names of ConsumeQueues.

RocketMQ: ``ConsumeQueue``, ``BatchConsumeQueue``, ``MessageStoreConfig``, ``TopicValidator``.
No other module holds a number of these formats.
All integers are big-endian and signed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rmqindex.layout.columns import required_field

if TYPE_CHECKING:
    from typing import Any

# ConsumeQueue.CQ_STORE_UNIT_SIZE: 20 bytes.
UNIT_DTYPE = np.dtype([("phy_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
# BatchConsumeQueue.CQ_STORE_UNIT_SIZE: 46 bytes.
BATCH_UNIT_DTYPE = np.dtype(
    [
        ("phy_offset", ">i8"),
        ("size", ">i4"),
        ("tags_code", ">i8"),
        ("store_timestamp", ">i8"),
        ("msg_base_offset", ">i8"),
        ("batch_size", ">i2"),
        ("compacted_offset", ">i4"),
        ("reserved", ">i4"),
    ]
)


def unit_dtype(*, is_batch: bool) -> np.dtype[Any]:
    """Return the dtype of a unit of a queue."""
    return BATCH_UNIT_DTYPE if is_batch else UNIT_DTYPE


# BatchConsumeQueue.INVALID_POS.
NO_COMPACTED_OFFSET = -1
# ConsumeQueue.fillPreBlank: units before a queue's first message.
BLANK_SIZE = 2**31 - 1

# MessageStoreConfig.mappedFileSizeConsumeQueue, mapperFileSizeBatchConsumeQueue.
DEFAULT_FILE_SIZE = 300_000 * UNIT_DTYPE.itemsize
DEFAULT_BATCH_FILE_SIZE = 300_000 * BATCH_UNIT_DTYPE.itemsize
# MessageStoreConfig.messageDelayLevel.
DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

# TopicValidator, MixAll.
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
#: The topics of the first phase of transactions, and of their ends.
HALF_TOPIC, OP_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
SYSTEM_PREFIX = "rmq_sys_"
RETRY_PREFIX = "%RETRY%"
LMQ_PREFIX = "%LMQ%"


#: The columns of a ConsumeQueue's units, as :meth:`rmqindex.ConsumeQueue.scan` gives them.
CONSUME_QUEUE_SCHEMA = pa.schema(
    [
        required_field("topic", pa.string()),
        required_field("queue_id", pa.int32()),
        # The place of the message in its queue, counted in messages.
        required_field("queue_offset", pa.int64()),
        # Where the message starts in the CommitLog, and its size, both in bytes.
        required_field("phy_offset", pa.int64()),
        required_field("size", pa.int32()),
        # String.hashCode of TAGS; of delayed messages, when they are due in epoch milliseconds.
        required_field("tags_code", pa.int64()),
        required_field("file_path", pa.string()),
    ]
)

#: The columns of consumer groups in queues, as :meth:`rmqindex.MessageStore.consumer_groups` gives
#: them; offsets are places in the queue, counted in messages.
CONSUMER_GROUP_SCHEMA = pa.schema(
    [
        required_field("group", pa.string()),
        required_field("topic", pa.string()),
        required_field("queue_id", pa.int32()),
        # The next message of the group.
        pa.field("committed_offset", pa.int64()),
        pa.field("min_offset", pa.int64()),
        pa.field("max_offset", pa.int64()),
        pa.field("lag", pa.int64()),
        # Messages of the lag that the queue does not have any more.
        required_field("expired", pa.int64()),
        required_field("state", pa.string()),
    ]
)
