"""Message ids: text to parts, and back where the parts are all."""

from __future__ import annotations

import struct
from datetime import UTC, timedelta, timezone

from rmqindex import (
    GrpcMessageId,
    OffsetMessageId,
    RemotingMessageId,
    decode_message_id,
    decode_offset_msg_id,
    decode_uniq_key,
)

MAX_LENGTH = 80
SHORT = 40_000
_NEAR = struct.Struct(">q")
_HEAD = 1 + _NEAR.size
_DIGITS = [bytes([each]) for each in b"0123456789ABCDEFabcdefg"]
_ZONES = (UTC, timezone(timedelta(hours=8)), timezone(timedelta(hours=-12, minutes=-30)))


def seeds():
    """Return an id of each kind and length, each behind a time and a zone."""
    ids = (
        "0A00000100002A9F00000000000003E8",
        "20010DB800000000000000000000000500002A9F00000000000003E8",
        "7F0000010ABC18B4AAC2491E3F5C0001",
        "20010DB80000000000000000000000050ABC18B4AAC2491E3F5C0001",
        "0156F7E71C361B21BC024CCDBE00000000",
        "no id",
    )
    times = (1_700_000_000_000, -1, 2**63 - 1, -(2**63))
    return [
        bytes([zone]) + _NEAR.pack(near) + text.encode()
        for text in ids
        for zone, near in enumerate(times)
    ]


def mutate(data, random):
    """Change digits, the length to another kind's, the time or the zone."""
    changed = bytearray(data.ljust(_HEAD, b"0"))
    kind = random.randrange(5)
    if kind == 0:
        changed[random.randrange(_HEAD)] = random.randrange(256)
    elif kind == 1:
        length = random.choice((32, 34, 56, random.randrange(60)))
        changed[_HEAD:] = changed[_HEAD : _HEAD + length].ljust(length, random.choice(_DIGITS))
    elif kind == 2:
        place = random.choice((0, 8, 16, 24, 40))
        changed[_HEAD + place : _HEAD + place + 8] = random.choice((b"00000000", b"FFFFFFFF"))
    elif len(changed) > _HEAD:
        changed[random.randrange(_HEAD, len(changed))] = random.choice(_DIGITS)[0]
    return bytes(changed)


def check(data):
    """Decode a text as each kind."""
    head, text = data[:_HEAD].ljust(_HEAD, b"\0"), data[_HEAD:].decode("utf-8", "surrogateescape")
    zone = _ZONES[head[0] % len(_ZONES)]
    near = _NEAR.unpack_from(head, 1)[0] if head[0] < 128 else None
    by_offset = decode_offset_msg_id(text)
    by_client = decode_uniq_key(text, near=near, zone=zone)
    found = decode_message_id(text, near=near, zone=zone)
    assert found == (by_offset or by_client)
    if by_offset is not None:
        assert isinstance(by_offset, OffsetMessageId)
        assert str(by_offset) == text.upper()
        assert decode_offset_msg_id(str(by_offset)) == by_offset
        assert by_offset.store_host.endswith(f":{by_offset.port}")
    if isinstance(by_client, RemotingMessageId):
        assert near is not None or by_client.timestamp is None
    elif by_client is not None:
        assert isinstance(by_client, GrpcMessageId)
