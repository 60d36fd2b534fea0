"""One record of a CommitLog: its fields, hosts, properties, body, inner messages and ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
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

__getattr__ = importer(
    __name__,
    {
        "batch_members": (
            "BadInnerBatchError",
            "member_keys",
        ),
        "bodies": (
            "MAX_BODY_SIZE",
            "InnerMessage",
            "UnpackedSizeError",
            "decompress_bodies",
            "decompress_body",
            "inner_messages",
        ),
        "message_ids": (
            "GrpcMessageId",
            "OffsetMessageId",
            "RemotingMessageId",
            "decode_message_id",
            "decode_offset_msg_id",
            "decode_uniq_key",
            "host_text",
        ),
        "properties": (
            "parse_properties",
            "property_pairs",
        ),
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
