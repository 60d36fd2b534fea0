"""Apache RocketMQ's IndexFile and CommitLog formats: bytes to arrays and back, with no Spark.

A name is imported from its room when it is first used, so that ``import rmqindex`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.audit import AUDIT_RULES, FINDING_SCHEMA, AuditRule, verify
    from rmqindex.commitlog import MATCH_STATES, CommitLog, LogFile
    from rmqindex.consumequeue import (
        ConsumeQueue,
        QueueFile,
        QueueRebuildResult,
        rebuild_consume_queues,
    )
    from rmqindex.errors import (
        CorruptCommitLogError,
        CorruptIndexError,
        IncompleteIndexWarning,
        IncompleteLogWarning,
        RmqIndexError,
    )
    from rmqindex.explanation import (
        EXPLAIN_REASONS,
        FileExplanation,
        HitExplanation,
        IndexReach,
        LogReach,
        LookupExplanation,
        OtherTopic,
        Reason,
        explain_lookup,
    )
    from rmqindex.fileset import cover_index
    from rmqindex.header import IndexHeader
    from rmqindex.indexfile import ENTRY_SCHEMA, IndexFile, Layout
    from rmqindex.indexwriter import IndexFileWriter
    from rmqindex.keys import (
        HashSet,
        expand_messages,
        index_key,
        index_key_hashes,
        key_hash,
        key_hashes,
        message_keys,
    )
    from rmqindex.maintenance import (
        RebuildResult,
        RelayoutResult,
        rebuild_index,
        relayout_index,
        salvage,
    )
    from rmqindex.messagestore import MessageStore
    from rmqindex.query import IndexDirectory, QueryOffsetResult
    from rmqindex.queue_layout import CONSUME_QUEUE_SCHEMA
    from rmqindex.record import (
        GrpcMessageId,
        InnerMessage,
        OffsetMessageId,
        RemotingMessageId,
        decode_message_id,
        decode_offset_msg_id,
        decode_uniq_key,
        decompress_bodies,
        decompress_body,
        inner_messages,
        parse_properties,
        property_pairs,
    )
    from rmqindex.record_layout import COMMITLOG_SCHEMA
    from rmqindex.store import StoreCheckpoint, sample_store

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
    "IncompleteIndexWarning",
    "IncompleteLogWarning",
    "IndexDirectory",
    "IndexFile",
    "IndexFileWriter",
    "IndexHeader",
    "IndexReach",
    "InnerMessage",
    "Layout",
    "LogFile",
    "LogReach",
    "LookupExplanation",
    "MessageStore",
    "OffsetMessageId",
    "OtherTopic",
    "QueryOffsetResult",
    "QueueFile",
    "QueueRebuildResult",
    "Reason",
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

_ROOMS = {
    "audit": (
        "AUDIT_RULES",
        "AuditRule",
        "FINDING_SCHEMA",
        "verify",
    ),
    "commitlog": (
        "CommitLog",
        "LogFile",
        "MATCH_STATES",
    ),
    "consumequeue": (
        "ConsumeQueue",
        "QueueFile",
        "QueueRebuildResult",
        "rebuild_consume_queues",
    ),
    "errors": (
        "CorruptCommitLogError",
        "CorruptIndexError",
        "IncompleteIndexWarning",
        "IncompleteLogWarning",
        "RmqIndexError",
    ),
    "explanation": (
        "EXPLAIN_REASONS",
        "FileExplanation",
        "HitExplanation",
        "IndexReach",
        "LogReach",
        "LookupExplanation",
        "OtherTopic",
        "Reason",
        "explain_lookup",
    ),
    "fileset": ("cover_index",),
    "header": ("IndexHeader",),
    "indexfile": (
        "ENTRY_SCHEMA",
        "IndexFile",
        "Layout",
    ),
    "indexwriter": ("IndexFileWriter",),
    "keys": (
        "HashSet",
        "expand_messages",
        "index_key",
        "index_key_hashes",
        "key_hash",
        "key_hashes",
        "message_keys",
    ),
    "maintenance": (
        "RebuildResult",
        "RelayoutResult",
        "rebuild_index",
        "relayout_index",
        "salvage",
    ),
    "messagestore": ("MessageStore",),
    "query": (
        "IndexDirectory",
        "QueryOffsetResult",
    ),
    "queue_layout": ("CONSUME_QUEUE_SCHEMA",),
    "record": (
        "GrpcMessageId",
        "InnerMessage",
        "OffsetMessageId",
        "RemotingMessageId",
        "decode_message_id",
        "decode_offset_msg_id",
        "decode_uniq_key",
        "decompress_bodies",
        "decompress_body",
        "inner_messages",
        "parse_properties",
        "property_pairs",
    ),
    "record_layout": ("COMMITLOG_SCHEMA",),
    "store": (
        "StoreCheckpoint",
        "sample_store",
    ),
}

__getattr__ = importer(__name__, _ROOMS)


def __dir__() -> list[str]:
    """List the public names."""
    return __all__
