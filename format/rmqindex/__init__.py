"""Apache RocketMQ's IndexFile and CommitLog formats: bytes to arrays and back, with no Spark."""

from rmqindex._checkpoint import StoreCheckpoint
from rmqindex._commitlog import MATCH_STATES, CommitLog
from rmqindex._commitlog_bodies import (
    InnerMessage,
    decompress_bodies,
    decompress_body,
    inner_messages,
)
from rmqindex._commitlog_files import LogFile
from rmqindex._commitlog_layout import COMMITLOG_SCHEMA
from rmqindex._commitlog_properties import parse_properties, property_pairs
from rmqindex._decoding import ENTRY_SCHEMA
from rmqindex._errors import CorruptCommitLogError, CorruptIndexError, RmqIndexError
from rmqindex._hashing import index_key, index_key_hashes, key_hash, key_hashes
from rmqindex._header import IndexHeader
from rmqindex._index_directory import IndexDirectory, QueryOffsetResult
from rmqindex._index_file import IndexFile
from rmqindex._layout import Layout
from rmqindex._message import expand_messages, message_keys
from rmqindex._message_ids import (
    GrpcMessageId,
    OffsetMessageId,
    RemotingMessageId,
    decode_message_id,
    decode_offset_msg_id,
    decode_uniq_key,
)
from rmqindex._sample import sample_store
from rmqindex._writer import IndexFileWriter

__all__ = [
    "COMMITLOG_SCHEMA",
    "ENTRY_SCHEMA",
    "MATCH_STATES",
    "CommitLog",
    "CorruptCommitLogError",
    "CorruptIndexError",
    "GrpcMessageId",
    "IndexDirectory",
    "IndexFile",
    "IndexFileWriter",
    "IndexHeader",
    "InnerMessage",
    "Layout",
    "LogFile",
    "OffsetMessageId",
    "QueryOffsetResult",
    "RemotingMessageId",
    "RmqIndexError",
    "StoreCheckpoint",
    "decode_message_id",
    "decode_offset_msg_id",
    "decode_uniq_key",
    "decompress_bodies",
    "decompress_body",
    "expand_messages",
    "index_key",
    "index_key_hashes",
    "inner_messages",
    "key_hash",
    "key_hashes",
    "message_keys",
    "parse_properties",
    "property_pairs",
    "sample_store",
]
