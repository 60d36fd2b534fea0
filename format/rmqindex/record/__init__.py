"""One record of a CommitLog: its fields, hosts, properties, body, inner messages and ids."""

from rmqindex.record.batch_members import BadInnerBatchError, member_keys
from rmqindex.record.bodies import (
    MAX_BODY_SIZE,
    InnerMessage,
    UnpackedSizeError,
    decompress_bodies,
    decompress_body,
    inner_messages,
)
from rmqindex.record.message_ids import (
    GrpcMessageId,
    OffsetMessageId,
    RemotingMessageId,
    decode_message_id,
    decode_offset_msg_id,
    decode_uniq_key,
    host_text,
)
from rmqindex.record.properties import parse_properties, property_pairs

__all__ = [
    "MAX_BODY_SIZE",
    "BadInnerBatchError",
    "GrpcMessageId",
    "InnerMessage",
    "OffsetMessageId",
    "RemotingMessageId",
    "UnpackedSizeError",
    "decode_message_id",
    "decode_offset_msg_id",
    "decode_uniq_key",
    "decompress_bodies",
    "decompress_body",
    "host_text",
    "inner_messages",
    "member_keys",
    "parse_properties",
    "property_pairs",
]
