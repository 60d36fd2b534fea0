"""Offsets, sizes, marks and columns of a CommitLog record.

RocketMQ: ``MessageDecoder``, ``MessageExtEncoder.calMsgLength``, ``MessageSysFlag``, ``CommitLog``.
No other module holds a number of the record format.
All integers are big-endian and signed.
"""

from __future__ import annotations

import pyarrow as pa

from rmqindex.layout.columns import required_field

# MessageDecoder.MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2 and BLANK_MAGIC_CODE.
MAGIC_CODE_V1 = -626843481
MAGIC_CODE_V2 = -626843477
BLANK_MAGIC_CODE = -875286124

# Fields before the born host stand at the same place in every record.
SIZE_WIDTH = 4
MAGIC_CODE_OFFSET = 4
BODY_CRC_OFFSET = 8
QUEUE_ID_OFFSET = 12
FLAG_OFFSET = 16
QUEUE_OFFSET_OFFSET = 20
PHYSICAL_OFFSET_OFFSET = 28
SYS_FLAG_OFFSET = 36
BORN_TIMESTAMP_OFFSET = 40
BORN_HOST_OFFSET = 48
# The rest as in a record with two IPv4 hosts; each IPv6 host moves what follows by V6_EXTRA.
STORE_TIMESTAMP_OFFSET = 56
STORE_HOST_OFFSET = 64
RECONSUME_TIMES_OFFSET = 72
PREPARED_TRANSACTION_OFFSET_OFFSET = 76
BODY_LENGTH_OFFSET = 84
# The sizes of two length fields; that of the topic's depends on the message version.
BODY_LENGTH_SIZE = 4
PROPERTIES_LENGTH_SIZE = 2

IPV4_SIZE = 4
IPV6_SIZE = 16
PORT_SIZE = 4
V6_EXTRA = IPV6_SIZE - IPV4_SIZE

# Empty body, topic and properties, IPv4 hosts, message version 1.
MIN_RECORD_SIZE = 91
# CommitLog.END_FILE_MIN_BLANK_LENGTH.
MIN_BLANK_SIZE = 8
# MappedFile sizes are a 32-bit int in the broker.
MAX_FILE_SIZE = 2**31 - 1
# UtilAll.offset2FileName; files of queues are named alike.
FILE_NAME_DIGITS = 20

# MessageSysFlag.java.
COMPRESSED_FLAG = 0x1
# Of a transaction: none of the bits for a message outside of one, one of them for a half message.
TRANSACTION_MASK = 0x3 << 2
TRANSACTION_COMMIT = 0x2 << 2
TRANSACTION_ROLLBACK = 0x3 << 2
BORN_HOST_V6_FLAG = 0x1 << 4
STORE_HOST_V6_FLAG = 0x1 << 5
NEED_UNWRAP_FLAG = 0x1 << 6
INNER_BATCH_FLAG = 0x1 << 7
COMPRESSION_TYPE_SHIFT = 8
COMPRESSION_TYPE_MASK = 0x7 << COMPRESSION_TYPE_SHIFT

# UtilAll.crc32 drops the sign.
CRC_MASK = 0x7FFFFFFF
# CommitLog.CRC32_RESERVED_LEN: name, separator, ten digits with the least significant first,
# separator.
PROPERTY_CRC32 = b"__CRC32#"
CRC_DIGITS = 10
CRC_RESERVED_SIZE = len(PROPERTY_CRC32) + 1 + CRC_DIGITS + 1

# MessageDecoder.string2messageProperties, MessageConst.
NAME_VALUE_SEPARATOR = 1
PROPERTY_SEPARATOR = 2
PROPERTY_KEYS = b"KEYS"
PROPERTY_UNIQ_KEY = b"UNIQ_KEY"
PROPERTY_TAGS = b"TAGS"

# MessageDecoder.encodeMessage: total size, magic code 0, body CRC 0, flag, body length.
INNER_MESSAGE_HEAD_SIZE = 20
# MessageConst.PROPERTY_INNER_NUM: how many messages an inner batch has.
INNER_NUM = "INNER_NUM"
# A light message's queues, and its offset in each (MessageConst.PROPERTY_INNER_MULTI_DISPATCH).
DISPATCH_QUEUES = "INNER_MULTI_DISPATCH"
DISPATCH_OFFSETS = "INNER_MULTI_QUEUE_OFFSET"


_TEXTS = pa.list_(required_field("element", pa.string()))

#: The columns of a message, as :meth:`rmqindex.CommitLog.scan` gives them.
#: Times are epoch milliseconds; ``phy_offset`` and ``size`` count bytes.
COMMITLOG_SCHEMA = pa.schema(
    [
        required_field("topic", pa.string()),
        # Of several properties of one name the last, as the broker takes them; null for none.
        pa.field("uniq_key", pa.string()),
        pa.field("keys", pa.string()),
        pa.field("tags", pa.string()),
        required_field("phy_offset", pa.int64()),
        required_field("size", pa.int32()),
        required_field("queue_id", pa.int32()),
        required_field("queue_offset", pa.int64()),
        required_field("sys_flag", pa.int32()),
        required_field("flag", pa.int32()),
        required_field("born_timestamp", pa.int64()),
        required_field("store_timestamp", pa.int64()),
        # "10.0.0.1:10911", "[2001:db8:0:0:0:0:0:5]:40000", as Java writes addresses.
        required_field("born_host", pa.string()),
        required_field("store_host", pa.string()),
        required_field("reconsume_times", pa.int32()),
        required_field("prepared_transaction_offset", pa.int64()),
        required_field("properties", pa.map_(pa.string(), pa.string())),
        # As it was sent, or, with decompress_body=False, as stored; body_crc is of the stored one.
        required_field("body", pa.binary()),
        required_field("body_crc", pa.int32()),
        # offsetMsgId: upper-case hex of the store host's address, its port and the offset.
        required_field("msg_id", pa.string()),
        # -626843481 is message version 1, -626843477 version 2 (topics beyond 127 characters).
        required_field("magic_code", pa.int32()),
        # Every value of the property in byte order: batches carry names twice.
        required_field("all_uniq_keys", _TEXTS),
        required_field("all_keys", _TEXTS),
    ]
)
