"""Apache RocketMQ's IndexFile and CommitLog formats: bytes to arrays and back, with no Spark."""

from rmqindex.audit.plan import verify
from rmqindex.audit.rules import AUDIT_RULES, FINDING_SCHEMA, AuditRule
from rmqindex.bulk.rebuild import RebuildResult, rebuild_index
from rmqindex.bulk.relayout import RelayoutResult, relayout_index
from rmqindex.bulk.salvage import salvage
from rmqindex.commitlog.bodies import (
    InnerMessage,
    decompress_bodies,
    decompress_body,
    inner_messages,
)
from rmqindex.commitlog.files import LogFile
from rmqindex.commitlog.log import MATCH_STATES, CommitLog
from rmqindex.commitlog.message_ids import (
    GrpcMessageId,
    OffsetMessageId,
    RemotingMessageId,
    decode_message_id,
    decode_offset_msg_id,
    decode_uniq_key,
)
from rmqindex.commitlog.properties import parse_properties, property_pairs
from rmqindex.consumequeue.paths import QueueFile
from rmqindex.consumequeue.reader import ConsumeQueue
from rmqindex.consumequeue.rebuild import QueueRebuildResult, rebuild_consume_queues
from rmqindex.errors import CorruptCommitLogError, CorruptIndexError, RmqIndexError
from rmqindex.header import IndexHeader
from rmqindex.indexfile.decoding import ENTRY_SCHEMA
from rmqindex.indexfile.geometry import Layout
from rmqindex.indexfile.reader import IndexFile
from rmqindex.indexfile.writer import IndexFileWriter
from rmqindex.keys.hash_set import HashSet
from rmqindex.keys.hashing import index_key, index_key_hashes, key_hash, key_hashes
from rmqindex.keys.message_keys import expand_messages, message_keys
from rmqindex.query.explain import (
    EXPLAIN_REASONS,
    FileExplanation,
    HitExplanation,
    LookupExplanation,
    OtherTopic,
    explain_lookup,
)
from rmqindex.query.index_directory import IndexDirectory, QueryOffsetResult
from rmqindex.queue_layout import CONSUME_QUEUE_SCHEMA
from rmqindex.record_layout import COMMITLOG_SCHEMA
from rmqindex.store.checkpoint import StoreCheckpoint
from rmqindex.store.cover import cover_index
from rmqindex.store.sample import sample_store

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
