"""Names of a store root (RocketMQ: ``StorePathConfigHelper``, ``MessageStoreConfig``)."""

from __future__ import annotations

#: Where the IndexFiles are.
INDEX_FOLDER = "index"
#: Where the ConsumeQueues are, and those of batch topics
#: (RocketMQ: ``getStorePathConsumeQueue``, ``getStorePathBatchConsumeQueue``).
QUEUE_FOLDER = "consumequeue"
BATCH_FOLDER = "batchconsumequeue"
#: Where ``enableConsumeQueueExt`` puts what filters of consumers need, of each queue
#: (RocketMQ: ``getStorePathConsumeQueueExt``).
EXTENSION_FOLDER = "consumequeue_ext"
#: Where the messages are.
COMMITLOG_FOLDER = "commitlog"
#: Where the broker keeps the state of topics and consumers.
CONFIG_FOLDER = "config"
#: The names that only a store root has beside ``index``; none of them holds IndexFiles.
STORE_FOLDERS = frozenset({COMMITLOG_FOLDER, QUEUE_FOLDER, CONFIG_FOLDER})
#: How the folder begins that holds the log of a DLedger store.
DLEDGER_PREFIX = "dledger-"
#: Where RocksDB keeps index, timers and transactions; a broker from 5.4.0 on always makes it.
ROCKSDB_STORE_FOLDER = "rocksdbstore"
#: Where RocksDB keeps ConsumeQueues with ``useSeparateStorePathForRocksdbCQ``, else in theirs.
ROCKSDB_QUEUE_FOLDER = "consumequeue_rocksdb"
#: Where the tiered storage keeps its index files before they are uploaded.
TIERED_FOLDERS = frozenset({"tiered_index_file", "compacting"})
#: Between the directories of one CommitLog (RocketMQ: ``MixAll.MULTI_PATH_SPLITTER``).
MULTI_PATH_SPLITTER = ","
#: The file that a running broker locks, that which is there from its start to its clean stop, and
#: that which says how far everything was flushed
#: (RocketMQ: ``getLockFile``, ``getAbortFile``, ``getStoreCheckpoint``).
LOCK_NAME = "lock"
ABORT_NAME = "abort"
CHECKPOINT_NAME = "checkpoint"
