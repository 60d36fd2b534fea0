"""Apache RocketMQ's IndexFile and CommitLog formats: bytes to arrays and back, with no Spark.

A name is imported from its room when it is first used, so that ``import rmqindex`` costs nothing.
"""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.audit import AUDIT_RULES as AUDIT_RULES
    from rmqindex.audit import FINDING_SCHEMA as FINDING_SCHEMA
    from rmqindex.audit import AuditRule as AuditRule
    from rmqindex.audit import verify as verify
    from rmqindex.bulk import RebuildResult as RebuildResult
    from rmqindex.bulk import RelayoutResult as RelayoutResult
    from rmqindex.bulk import rebuild_index as rebuild_index
    from rmqindex.bulk import relayout_index as relayout_index
    from rmqindex.bulk import salvage as salvage
    from rmqindex.commitlog import MATCH_STATES as MATCH_STATES
    from rmqindex.commitlog import CommitLog as CommitLog
    from rmqindex.commitlog import LogFile as LogFile
    from rmqindex.consumequeue import ConsumeQueue as ConsumeQueue
    from rmqindex.consumequeue import QueueFile as QueueFile
    from rmqindex.consumequeue import QueueRebuildResult as QueueRebuildResult
    from rmqindex.consumequeue import rebuild_consume_queues as rebuild_consume_queues
    from rmqindex.errors import CorruptCommitLogError as CorruptCommitLogError
    from rmqindex.errors import CorruptIndexError as CorruptIndexError
    from rmqindex.errors import IncompleteIndexWarning as IncompleteIndexWarning
    from rmqindex.errors import IncompleteLogWarning as IncompleteLogWarning
    from rmqindex.errors import RmqIndexError as RmqIndexError
    from rmqindex.explanation import EXPLAIN_REASONS as EXPLAIN_REASONS
    from rmqindex.explanation import FileExplanation as FileExplanation
    from rmqindex.explanation import HitExplanation as HitExplanation
    from rmqindex.explanation import IndexReach as IndexReach
    from rmqindex.explanation import LogReach as LogReach
    from rmqindex.explanation import LookupExplanation as LookupExplanation
    from rmqindex.explanation import OtherTopic as OtherTopic
    from rmqindex.explanation import Reason as Reason
    from rmqindex.explanation import explain_lookup as explain_lookup
    from rmqindex.indexfile import ENTRY_SCHEMA as ENTRY_SCHEMA
    from rmqindex.indexfile import IndexFile as IndexFile
    from rmqindex.indexfile import Layout as Layout
    from rmqindex.indexwriter import IndexFileWriter as IndexFileWriter
    from rmqindex.keys import HashSet as HashSet
    from rmqindex.keys import expand_messages as expand_messages
    from rmqindex.keys import index_key as index_key
    from rmqindex.keys import index_key_hashes as index_key_hashes
    from rmqindex.keys import key_hash as key_hash
    from rmqindex.keys import key_hashes as key_hashes
    from rmqindex.keys import message_keys as message_keys
    from rmqindex.layout.index_file import IndexHeader as IndexHeader
    from rmqindex.layout.queue import CONSUME_QUEUE_SCHEMA as CONSUME_QUEUE_SCHEMA
    from rmqindex.layout.queue import CONSUMER_GROUP_SCHEMA as CONSUMER_GROUP_SCHEMA
    from rmqindex.layout.record import COMMITLOG_SCHEMA as COMMITLOG_SCHEMA
    from rmqindex.messagestore import MessageStore as MessageStore
    from rmqindex.query import IndexDirectory as IndexDirectory
    from rmqindex.query import QueryOffsetResult as QueryOffsetResult
    from rmqindex.record import GrpcMessageId as GrpcMessageId
    from rmqindex.record import InnerMessage as InnerMessage
    from rmqindex.record import OffsetMessageId as OffsetMessageId
    from rmqindex.record import RemotingMessageId as RemotingMessageId
    from rmqindex.record import decode_message_id as decode_message_id
    from rmqindex.record import decode_offset_msg_id as decode_offset_msg_id
    from rmqindex.record import decode_uniq_key as decode_uniq_key
    from rmqindex.record import decompress_bodies as decompress_bodies
    from rmqindex.record import decompress_body as decompress_body
    from rmqindex.record import inner_messages as inner_messages
    from rmqindex.record import parse_properties as parse_properties
    from rmqindex.record import property_pairs as property_pairs
    from rmqindex.store import StoreCheckpoint as StoreCheckpoint
    from rmqindex.store import cover_index as cover_index
    from rmqindex.store import sample_store as sample_store
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
