"""Bodies: unpacking, to a bound, and the messages of inner batches."""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa

from rmqindex import decompress_bodies, decompress_body, inner_messages, property_pairs

from ..outcome import outcome

MAX_LENGTH = 512
SHORT = 20_000
_INNER = 0xC0
_COMPRESSED = 0x1
_BOUND = 4096
_HEAD = struct.Struct(">iiiii")


def seeds():
    """Return bodies of each compression, sound, torn and wrong, and inner batches."""
    batch = _inner(b"one", b"KEYS\x01k\x02") + _inner(b"", b"") + _inner(b"two", b"a\x01b")
    plain = b"hello " * 50
    packed = [
        zlib.compress(plain),
        pa.compress(plain, "lz4", asbytes=True),
        pa.compress(plain, "zstd", asbytes=True),
    ]
    flags = (0x001, 0x101, 0x201, 0x301, 0x401)
    return [
        *(struct.pack(">H", flag) + body for flag in flags for body in packed),
        struct.pack(">H", _INNER) + batch,
        struct.pack(">H", _INNER | 0x201) + pa.compress(batch, "zstd", asbytes=True),
        struct.pack(">H", 0x001) + zlib.compress(bytes(2 * _BOUND)),
        struct.pack(">H", 0x201) + pa.compress(bytes(2 * _BOUND), "zstd", asbytes=True),
        struct.pack(">H", 0x101) + packed[1][:-9],
    ]


def mutate(data, random):
    """Change a field of an inner message, or the flags; else bytes of the body."""
    changed = bytearray(data.ljust(2, b"\0"))
    kind = random.randrange(4)
    if kind == 0:
        struct.pack_into(
            ">H", changed, 0, random.choice((1, 0x101, 0x201, 0x301, 0xC0, 0xC1, 0x2C1))
        )
    elif kind == 1:
        changed += _inner(random.randbytes(random.randrange(4)), b"k\x01v")
    elif kind == 2 and len(changed) > 26:
        place = 2 + 4 * random.randrange((len(changed) - 2) // 4)
        value = random.choice((0, 1, -1, 22, len(changed) - 2, 2**31 - 1, -(2**31)))
        struct.pack_into(">i", changed, min(place, len(changed) - 4), value)
    else:
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def check(data):
    """Unpack, and take an inner batch apart."""
    if len(data) < 2:
        return
    (sys_flag,) = struct.unpack_from(">H", data)
    body = data[2:]
    unpacked = outcome(decompress_body, body, sys_flag, max_size=_BOUND)
    if unpacked.is_value:
        assert isinstance(unpacked.value, bytes)
        assert len(unpacked.value) <= max(_BOUND, len(body))
        if sys_flag & _COMPRESSED and body:
            _check_unpacked(body, sys_flag >> 8 & 7, unpacked.value)
        several = pa.array([body, None, b"", body], pa.binary())
        flags = [sys_flag, sys_flag, sys_flag, 0]
        together = decompress_bodies(several, flags)
        assert together.to_pylist() == [unpacked.value, None, b"", body]
    inner = outcome(inner_messages, body, sys_flag, 100)
    if inner.is_value and inner.value:
        assert sys_flag & _INNER == _INNER
        assert [each.queue_offset for each in inner.value] == list(
            range(100, 100 + len(inner.value))
        )
        if unpacked.is_value:
            _check_inner(inner.value, unpacked.value)


def _check_unpacked(body, kind, value):
    """Zlib and, where Arrow's one-shot way takes it, the others agree."""
    if kind in {0, 3}:
        assert zlib.decompressobj().decompress(body) == value


def _check_inner(messages, data):
    at = 0
    for message in messages:
        size, _, _, flag, length = _HEAD.unpack_from(data, at)
        assert (message.flag, len(message.body)) == (flag, length)
        start = at + _HEAD.size
        assert message.body == data[start : start + length]
        assert message.properties == tuple(property_pairs(data[start + length + 2 : at + size]))
        at += size
    assert at == len(data)


def _inner(body, properties):
    size = _HEAD.size + len(body) + 2 + len(properties)
    head = _HEAD.pack(size, 0, 0, 7, len(body))
    return head + body + struct.pack(">h", len(properties)) + properties
