"""Apache RocketMQ's IndexFile format: bytes to arrays and back, with no Spark."""

from rmqindex._errors import CorruptIndexError, RmqIndexError
from rmqindex._hashing import index_key, index_key_hashes, key_hash, key_hashes
from rmqindex._header import IndexHeader
from rmqindex._layout import Layout
from rmqindex._sample import sample_store
from rmqindex._writer import IndexFileWriter

__all__ = [
    "CorruptIndexError",
    "IndexFileWriter",
    "IndexHeader",
    "Layout",
    "RmqIndexError",
    "index_key",
    "index_key_hashes",
    "key_hash",
    "key_hashes",
    "sample_store",
]
