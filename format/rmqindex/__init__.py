"""Apache RocketMQ's IndexFile format: bytes to arrays and back, with no Spark."""

from rmqindex._checkpoint import StoreCheckpoint
from rmqindex._decoding import ENTRY_SCHEMA
from rmqindex._errors import CorruptIndexError, RmqIndexError
from rmqindex._hashing import index_key, index_key_hashes, key_hash, key_hashes
from rmqindex._header import IndexHeader
from rmqindex._index_directory import IndexDirectory, QueryOffsetResult
from rmqindex._index_file import IndexFile
from rmqindex._layout import Layout
from rmqindex._message import expand_messages, message_keys
from rmqindex._sample import sample_store
from rmqindex._writer import IndexFileWriter

__all__ = [
    "ENTRY_SCHEMA",
    "CorruptIndexError",
    "IndexDirectory",
    "IndexFile",
    "IndexFileWriter",
    "IndexHeader",
    "Layout",
    "QueryOffsetResult",
    "RmqIndexError",
    "StoreCheckpoint",
    "expand_messages",
    "index_key",
    "index_key_hashes",
    "key_hash",
    "key_hashes",
    "message_keys",
    "sample_store",
]
