"""The CommitLog: its files, records, properties, bodies and batches, as Arrow arrays."""

from rmqindex.commitlog.batch_members import BadInnerBatchError, indexed_keys, member_keys
from rmqindex.commitlog.bodies import (
    MAX_BODY_SIZE,
    InnerMessage,
    UnpackedSizeError,
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
    host_text,
)
from rmqindex.commitlog.planned_log import PlannedLog, marked_file
from rmqindex.commitlog.properties import parse_properties, property_pairs
from rmqindex.commitlog.sibling import sibling_log
from rmqindex.commitlog.tailing import LastRecord, ends_with, follow

__all__ = [
    "MATCH_STATES",
    "MAX_BODY_SIZE",
    "BadInnerBatchError",
    "CommitLog",
    "GrpcMessageId",
    "InnerMessage",
    "LastRecord",
    "LogFile",
    "OffsetMessageId",
    "PlannedLog",
    "RemotingMessageId",
    "UnpackedSizeError",
    "decode_message_id",
    "decode_offset_msg_id",
    "decode_uniq_key",
    "decompress_bodies",
    "decompress_body",
    "ends_with",
    "follow",
    "host_text",
    "indexed_keys",
    "inner_messages",
    "marked_file",
    "member_keys",
    "parse_properties",
    "property_pairs",
    "sibling_log",
]
