"""Apache RocketMQ's IndexFile and CommitLog formats: bytes to arrays and back, with no Spark."""

from rmqindex._audit_rules import AUDIT_RULES, FINDING_SCHEMA, AuditRule
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
from rmqindex._consume_queue import ConsumeQueue
from rmqindex._consume_queue_layout import CONSUME_QUEUE_SCHEMA
from rmqindex._consume_queue_paths import QueueFile
from rmqindex._cover import cover_index
from rmqindex._decoding import ENTRY_SCHEMA
from rmqindex._errors import CorruptCommitLogError, CorruptIndexError, RmqIndexError
from rmqindex._explain import (
    EXPLAIN_REASONS,
    FileExplanation,
    HitExplanation,
    LookupExplanation,
    OtherTopic,
    explain_lookup,
)
from rmqindex._hash_set import HashSet
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
from rmqindex._rebuild import RebuildResult, rebuild_index
from rmqindex._rebuild_queues import QueueRebuildResult, rebuild_consume_queues
from rmqindex._relayout import RelayoutResult, relayout_index
from rmqindex._salvage import salvage
from rmqindex._sample import sample_store
from rmqindex._verify import verify
from rmqindex._writer import IndexFileWriter

__all__ = [
    "AUDIT_RULES",
    "COMMITLOG_SCHEMA",
    "CONSUME_QUEUE_SCHEMA",
    "ENTRY_SCHEMA",
    "EXPLAIN_REASONS",
    "FINDING_SCHEMA",
    "MATCH_STATES",
    "AuditRule",
    "CommitLog",
    "ConsumeQueue",
    "CorruptCommitLogError",
    "CorruptIndexError",
    "FileExplanation",
    "GrpcMessageId",
    "HashSet",
    "HitExplanation",
    "IndexDirectory",
    "IndexFile",
    "IndexFileWriter",
    "IndexHeader",
    "InnerMessage",
    "Layout",
    "LogFile",
    "LookupExplanation",
    "OffsetMessageId",
    "OtherTopic",
    "QueryOffsetResult",
    "QueueFile",
    "QueueRebuildResult",
    "RebuildResult",
    "RelayoutResult",
    "RemotingMessageId",
    "RmqIndexError",
    "StoreCheckpoint",
    "cover_index",
    "decode_message_id",
    "decode_offset_msg_id",
    "decode_uniq_key",
    "decompress_bodies",
    "decompress_body",
    "expand_messages",
    "explain_lookup",
    "index_key",
    "index_key_hashes",
    "inner_messages",
    "key_hash",
    "key_hashes",
    "message_keys",
    "parse_properties",
    "property_pairs",
    "rebuild_consume_queues",
    "rebuild_index",
    "relayout_index",
    "salvage",
    "sample_store",
    "verify",
]
