"""Bodies: decompressing them, and the messages inside inner batches.

RocketMQ: ``Compressor``, ``MessageDecoder.decodeMessages`` and ``encodeMessage``.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rmqindex._commitlog_layout import (
    COMPRESSED_FLAG,
    COMPRESSION_TYPE_MASK,
    COMPRESSION_TYPE_SHIFT,
    INNER_BATCH_FLAG,
    INNER_MESSAGE_HEAD_SIZE,
    NEED_UNWRAP_FLAG,
    PROPERTIES_LENGTH_SIZE,
)
from rmqindex._commitlog_properties import property_pairs
from rmqindex._errors import RmqIndexError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "MAX_BODY_SIZE",
    "InnerMessage",
    "decompress_bodies",
    "decompress_body",
    "inner_messages",
    "is_inner_batch",
]

# Far beyond maxMessageSize (4 MiB); a body that unpacks to more is a bomb, not a message.
MAX_BODY_SIZE = 256 * 1024 * 1024
_PIECE = 1024 * 1024
_INNER_HEAD = struct.Struct(">iiiii")
_PROPERTIES_LENGTH = struct.Struct(">h")

# CompressionType.java; 0 is what clients before 4.9 wrote for zlib. Arrow's "lz4" is LZ4's frame.
_ZLIB = "zlib"
_COMPRESSION_TYPES = {0: _ZLIB, 1: "lz4", 2: "zstd", 3: _ZLIB}


@dataclass(frozen=True, slots=True)
class InnerMessage:
    """One message of an inner batch.

    Attributes:
        queue_offset: Its place in its queue.
        flag: The user's flag.
        body: Its body, decompressed.
        properties: Names and values in byte order, as stored.
    """

    queue_offset: int
    flag: int
    body: bytes
    properties: tuple[tuple[str, str], ...]

    def property(self, name: str) -> str | None:
        """Return the property of a name, the last of several, or None."""
        return dict(self.properties).get(name)


def decompress_body(body: bytes, sys_flag: int, *, max_size: int = MAX_BODY_SIZE) -> bytes:
    """Return a body as it was sent.

    Args:
        body: As stored.
        sys_flag: The record's ``SYSFLAG``: whether the body is compressed, and how (zlib, LZ4
            frame, Zstandard).
        max_size: The most bytes that the body may unpack to.

    Returns:
        The body; one that is not compressed, or empty, as it is.

    Raises:
        RmqIndexError: It does not unpack, unpacks to more, or its compression is unknown.
    """
    if not sys_flag & COMPRESSED_FLAG or not body:
        return body
    number = (sys_flag & COMPRESSION_TYPE_MASK) >> COMPRESSION_TYPE_SHIFT
    kind = _COMPRESSION_TYPES.get(number)
    if kind is None:
        raise RmqIndexError(f"body: expected a compression type from 0 to 3, got {number}")
    try:
        unpacked = _inflate(body, max_size) if kind == _ZLIB else _unpack(body, kind, max_size)
    except (OSError, ValueError, zlib.error, pa.ArrowException) as error:
        raise RmqIndexError(f"body: expected {kind} data: {error}") from error
    if len(unpacked) > max_size:
        raise RmqIndexError(f"body: expected at most {max_size} bytes after unpacking, got more")
    return unpacked


def decompress_bodies(
    bodies: pa.Array, sys_flags: pa.Array | Sequence[int] | NDArray[np.int32]
) -> pa.Array:
    """Return the bodies of many messages as they were sent.

    Args:
        bodies: A ``binary`` array, as stored; nulls stay.
        sys_flags: As many ``SYSFLAG`` values, int32.

    Returns:
        A ``binary`` array; ``bodies`` itself where none is compressed.

    Raises:
        RmqIndexError: As :func:`decompress_body`.
        ValueError: Another number of flags.
    """
    if len(bodies) != len(sys_flags):
        raise ValueError(f"sys_flags: expected {len(bodies)}, got {len(sys_flags)}")
    flags = pa.array(sys_flags, pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
    packed = np.flatnonzero(flags & COMPRESSED_FLAG)
    if not packed.size:
        return bodies
    values = bodies.to_pylist()
    for place in packed.tolist():
        if values[place] is not None:
            values[place] = decompress_body(values[place], int(flags[place]))
    return pa.array(values, bodies.type)


def is_inner_batch(sys_flag: int) -> bool:
    """Return whether a record is an inner batch, whose body holds messages."""
    both = INNER_BATCH_FLAG | NEED_UNWRAP_FLAG
    return sys_flag & both == both


def inner_messages(body: bytes, sys_flag: int, queue_offset: int = 0) -> list[InnerMessage]:
    """Return the messages inside an inner batch.

    Args:
        body: The record's body as stored; decompressed here where it is compressed.
        sys_flag: The record's ``SYSFLAG``.
        queue_offset: The record's queue offset, which is its first message's.

    Returns:
        The messages in their order; none for a record that is no inner batch.

    Raises:
        RmqIndexError: The body does not unpack, or is not a sequence of messages.
    """
    if not is_inner_batch(sys_flag):
        return []
    data = decompress_body(body, sys_flag)
    messages: list[InnerMessage] = []
    at = 0
    while at < len(data):
        message, at = _inner_message(data, at, queue_offset + len(messages))
        messages.append(message)
    return messages


def _inner_message(data: bytes, start: int, queue_offset: int) -> tuple[InnerMessage, int]:
    if len(data) - start < INNER_MESSAGE_HEAD_SIZE:
        raise _no_message(start, "a head of 20 bytes", len(data) - start)
    total_size, _, _, flag, body_length = _INNER_HEAD.unpack_from(data, start)
    body_start = start + INNER_MESSAGE_HEAD_SIZE
    body_stop = body_start + body_length
    if body_length < 0 or body_stop + PROPERTIES_LENGTH_SIZE > len(data):
        raise _no_message(start, "a body inside the batch", body_length)
    (properties_length,) = _PROPERTIES_LENGTH.unpack_from(data, body_stop)
    properties_start = body_stop + PROPERTIES_LENGTH_SIZE
    stop = properties_start + properties_length
    if properties_length < 0 or stop > len(data):
        raise _no_message(start, "properties inside the batch", properties_length)
    if stop - start != total_size:
        raise _no_message(start, f"a total size of {stop - start}", total_size)
    pairs = tuple(property_pairs(data[properties_start:stop]))
    return InnerMessage(queue_offset, flag, data[body_start:body_stop], pairs), stop


def _no_message(at: int, expected: str, got: int) -> RmqIndexError:
    return RmqIndexError(f"inner batch: message at byte {at}: expected {expected}, got {got}")


def _inflate(body: bytes, max_size: int) -> bytes:
    inflater = zlib.decompressobj()
    unpacked = inflater.decompress(body, max_size + 1)
    if not inflater.eof and len(unpacked) <= max_size:
        raise ValueError("it ends too early")
    return unpacked


def _unpack(body: bytes, kind: str, max_size: int) -> bytes:
    pieces = []
    left = max_size + 1
    with pa.CompressedInputStream(pa.BufferReader(body), kind) as stream:
        while left > 0:
            # A read into bytes that fails never gives them back.
            piece = stream.read_buffer(min(left, _PIECE))
            if not piece.size:
                break
            pieces.append(piece)
            left -= piece.size
    return b"".join(pieces)
