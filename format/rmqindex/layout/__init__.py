"""The numbers of the formats: offsets, sizes, marks, dtypes, columns; and names in a store.

A module has one format, and cites RocketMQ's class beside its numbers; no other room holds one.
The room exports the numbers of IndexFiles and the names in a store, and of records and queues what
other packages use.
"""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.layout.index_file import BEGIN_PHY_OFFSET_OFFSET as BEGIN_PHY_OFFSET_OFFSET
    from rmqindex.layout.index_file import BEGIN_TIMESTAMP_OFFSET as BEGIN_TIMESTAMP_OFFSET
    from rmqindex.layout.index_file import DEFAULT_HASH_SLOT_NUM as DEFAULT_HASH_SLOT_NUM
    from rmqindex.layout.index_file import DEFAULT_INDEX_NUM as DEFAULT_INDEX_NUM
    from rmqindex.layout.index_file import DEFAULT_MAX_MSGS_NUM_BATCH as DEFAULT_MAX_MSGS_NUM_BATCH
    from rmqindex.layout.index_file import END_PHY_OFFSET_OFFSET as END_PHY_OFFSET_OFFSET
    from rmqindex.layout.index_file import END_TIMESTAMP_OFFSET as END_TIMESTAMP_OFFSET
    from rmqindex.layout.index_file import ENTRY_DTYPE as ENTRY_DTYPE
    from rmqindex.layout.index_file import ENTRY_SIZE as ENTRY_SIZE
    from rmqindex.layout.index_file import FIRST_POSITION as FIRST_POSITION
    from rmqindex.layout.index_file import HASH_SLOT_COUNT_OFFSET as HASH_SLOT_COUNT_OFFSET
    from rmqindex.layout.index_file import HEADER_DTYPE as HEADER_DTYPE
    from rmqindex.layout.index_file import HEADER_SIZE as HEADER_SIZE
    from rmqindex.layout.index_file import HEADER_STRUCT as HEADER_STRUCT
    from rmqindex.layout.index_file import INDEX_COUNT_OFFSET as INDEX_COUNT_OFFSET
    from rmqindex.layout.index_file import INT32_MAX as INT32_MAX
    from rmqindex.layout.index_file import INT64_MAX as INT64_MAX
    from rmqindex.layout.index_file import INT64_MIN as INT64_MIN
    from rmqindex.layout.index_file import INVALID_INDEX as INVALID_INDEX
    from rmqindex.layout.index_file import SLOT_DTYPE as SLOT_DTYPE
    from rmqindex.layout.index_file import SLOT_SIZE as SLOT_SIZE
    from rmqindex.layout.index_file import Geometry as Geometry
    from rmqindex.layout.index_file import IndexHeader as IndexHeader
    from rmqindex.layout.queue import CONSUME_QUEUE_SCHEMA as CONSUME_QUEUE_SCHEMA
    from rmqindex.layout.queue import CONSUMER_GROUP_SCHEMA as CONSUMER_GROUP_SCHEMA
    from rmqindex.layout.queue import HALF_TOPIC as HALF_TOPIC
    from rmqindex.layout.queue import OP_TOPIC as OP_TOPIC
    from rmqindex.layout.queue import SCHEDULE_TOPIC as SCHEDULE_TOPIC
    from rmqindex.layout.record import BLANK_MAGIC_CODE as BLANK_MAGIC_CODE
    from rmqindex.layout.record import BODY_CRC_OFFSET as BODY_CRC_OFFSET
    from rmqindex.layout.record import BODY_LENGTH_OFFSET as BODY_LENGTH_OFFSET
    from rmqindex.layout.record import BORN_TIMESTAMP_OFFSET as BORN_TIMESTAMP_OFFSET
    from rmqindex.layout.record import COMMITLOG_SCHEMA as COMMITLOG_SCHEMA
    from rmqindex.layout.record import FILE_NAME_DIGITS as FILE_NAME_DIGITS
    from rmqindex.layout.record import MAGIC_CODE_OFFSET as MAGIC_CODE_OFFSET
    from rmqindex.layout.record import MAGIC_CODE_V1 as MAGIC_CODE_V1
    from rmqindex.layout.record import PHYSICAL_OFFSET_OFFSET as PHYSICAL_OFFSET_OFFSET
    from rmqindex.layout.record import QUEUE_OFFSET_OFFSET as QUEUE_OFFSET_OFFSET
    from rmqindex.layout.record import STORE_TIMESTAMP_OFFSET as STORE_TIMESTAMP_OFFSET
    from rmqindex.layout.store import ABORT_NAME as ABORT_NAME
    from rmqindex.layout.store import BATCH_FOLDER as BATCH_FOLDER
    from rmqindex.layout.store import CHECKPOINT_NAME as CHECKPOINT_NAME
    from rmqindex.layout.store import COMMITLOG_FOLDER as COMMITLOG_FOLDER
    from rmqindex.layout.store import CONFIG_FOLDER as CONFIG_FOLDER
    from rmqindex.layout.store import DLEDGER_PREFIX as DLEDGER_PREFIX
    from rmqindex.layout.store import INDEX_FOLDER as INDEX_FOLDER
    from rmqindex.layout.store import LOCK_NAME as LOCK_NAME
    from rmqindex.layout.store import MULTI_PATH_SPLITTER as MULTI_PATH_SPLITTER
    from rmqindex.layout.store import QUEUE_FOLDER as QUEUE_FOLDER
    from rmqindex.layout.store import ROCKSDB_QUEUE_FOLDER as ROCKSDB_QUEUE_FOLDER
    from rmqindex.layout.store import ROCKSDB_STORE_FOLDER as ROCKSDB_STORE_FOLDER
    from rmqindex.layout.store import STORE_FOLDERS as STORE_FOLDERS
    from rmqindex.layout.store import TIERED_FOLDERS as TIERED_FOLDERS
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
