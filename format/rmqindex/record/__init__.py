"""One record of a CommitLog: its fields, hosts, properties, body, inner messages and ids."""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.record.bodies import MAX_BODY_SIZE as MAX_BODY_SIZE
    from rmqindex.record.bodies import BadInnerBatchError as BadInnerBatchError
    from rmqindex.record.bodies import InnerMessage as InnerMessage
    from rmqindex.record.bodies import UnpackedSizeError as UnpackedSizeError
    from rmqindex.record.bodies import decompress_bodies as decompress_bodies
    from rmqindex.record.bodies import decompress_body as decompress_body
    from rmqindex.record.bodies import inner_messages as inner_messages
    from rmqindex.record.bodies import member_keys as member_keys
    from rmqindex.record.message_ids import GrpcMessageId as GrpcMessageId
    from rmqindex.record.message_ids import OffsetMessageId as OffsetMessageId
    from rmqindex.record.message_ids import RemotingMessageId as RemotingMessageId
    from rmqindex.record.message_ids import decode_message_id as decode_message_id
    from rmqindex.record.message_ids import decode_offset_msg_id as decode_offset_msg_id
    from rmqindex.record.message_ids import decode_uniq_key as decode_uniq_key
    from rmqindex.record.message_ids import host_text as host_text
    from rmqindex.record.properties import parse_properties as parse_properties
    from rmqindex.record.properties import property_pairs as property_pairs
    from rmqindex.record.text import java_text as java_text
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
