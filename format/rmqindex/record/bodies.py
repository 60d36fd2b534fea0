"""Bodies: decompressing them, and the messages inside inner batches.

RocketMQ: ``Compressor``, ``MessageDecoder.decodeMessages`` and ``encodeMessage``.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rmqindex.arguments import int_of
from rmqindex.errors import RmqIndexError
from rmqindex.keys.hashing import KEY_SEPARATOR
from rmqindex.layout.index_file import INT32_MAX
from rmqindex.layout.record import (
    COMPRESSED_FLAG,
    COMPRESSION_TYPE_MASK,
    COMPRESSION_TYPE_SHIFT,
    CRC_MASK,
    INNER_BATCH_FLAG,
    INNER_MESSAGE_HEAD_SIZE,
    NEED_UNWRAP_FLAG,
    PROPERTIES_LENGTH_SIZE,
    PROPERTY_KEYS,
    PROPERTY_UNIQ_KEY,
)
from rmqindex.record.properties import property_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray


# Sixteen times the broker's maxMessageSize; a body that unpacks to more is a bomb, not a message.
MAX_BODY_SIZE = 64 * 1024 * 1024
# INNER_NUM, and a unit of a batch queue, count the messages of an inner batch in 16 bits.
_MAX_INNER_MESSAGES = 2**15 - 1
# Of an Arrow array, whose offsets have 32 bits.
MAX_TOTAL_SIZE = 2**31 - 1
_PIECE = 1024 * 1024
_INNER_HEAD = struct.Struct(">iiiii")
_PROPERTIES_LENGTH = struct.Struct(">h")

# CompressionType.java; 0 is what clients before 4.9 wrote for zlib. Arrow's "lz4" is LZ4's frame.
_ZLIB = "zlib"
_COMPRESSION_TYPES = {0: _ZLIB, 1: "lz4", 2: "zstd", 3: _ZLIB}


class UnpackedSizeError(RmqIndexError):
    """Bodies that are sound each, and too much together: fewer at once will do."""


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
        ValueError: A negative ``max_size``.
    """
    sys_flag = int_of("sys_flag", sys_flag)
    max_size = min(int_of("max_size", max_size, 0), INT32_MAX)  # no Java array is longer
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
        raise RmqIndexError(
            f"body: expected at most {max_size} bytes after unpacking {kind} data, got more"
        )
    return unpacked


def body_crc_faults(bodies: pa.Array, crcs: NDArray[np.int32]) -> dict[int, str]:
    """Compare bodies with their CRCs, as the broker does; return the faults by row."""
    if not len(bodies) or not bodies.nbytes:
        return {}
    _, places, buffer = bodies.buffers()
    if buffer is None:
        return {}
    data = memoryview(buffer)
    offsets = np.frombuffer(places, np.int32)[bodies.offset :][: len(bodies) + 1]
    ends = offsets.tolist()
    got = (
        np.array([zlib.crc32(data[start:stop]) for start, stop in pairwise(ends)], np.int64)
        & CRC_MASK
    )
    wrong = np.flatnonzero((got != crcs) & (np.diff(offsets) > 0))
    return {
        row: f"body: expected the CRC-32 {crcs[row]} of its record, got {got[row]}"
        for row in wrong.tolist()
        if bodies.is_valid().to_numpy(zero_copy_only=False)[row]
    }


def decompress_bodies(
    bodies: pa.Array,
    sys_flags: pa.Array | Sequence[int] | NDArray[np.int32],
    *,
    max_size: int = MAX_BODY_SIZE,
    max_total_size: int = MAX_TOTAL_SIZE,
) -> pa.Array:
    """Return the bodies of many messages as they were sent.

    Args:
        bodies: A ``binary`` array, as stored; nulls stay.
        sys_flags: As many ``SYSFLAG`` values, int32.
        max_size: The most bytes that one body may unpack to.
        max_total_size: The most bytes that all of several may have in the end.

    Returns:
        A ``binary`` array; ``bodies`` itself where none is compressed.

    Raises:
        RmqIndexError: As :func:`decompress_body`; or all of them have more bytes than an array
            can hold: unpack fewer at once.
        ValueError: Another number of flags.
    """
    max_size = int_of("max_size", max_size, 0)
    max_total_size = int_of("max_total_size", max_total_size, 0)
    if len(bodies) != len(sys_flags):
        raise ValueError(f"sys_flags: expected {len(bodies)}, got {len(sys_flags)}")
    flags = pa.array(sys_flags, pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
    packed = np.flatnonzero(flags & COMPRESSED_FLAG)
    if not packed.size:
        return bodies
    values = bodies.to_pylist()
    total = sum(len(value) for value in values if value is not None)
    for place in packed.tolist():
        if values[place] is None:
            continue
        total -= len(values[place])
        values[place] = decompress_body(values[place], int(flags[place]), max_size=max_size)
        total += len(values[place])
        if total > max_total_size and len(values) > 1:
            raise UnpackedSizeError(
                f"bodies: expected at most {max_total_size} bytes in all after unpacking, got more"
            )
    return pa.array(values, bodies.type)


def is_inner_batch(sys_flag: int) -> bool:
    """Return whether a record is an inner batch, whose body holds messages."""
    both = INNER_BATCH_FLAG | NEED_UNWRAP_FLAG
    return sys_flag & both == both


def inner_messages(
    body: bytes,
    sys_flag: int,
    queue_offset: int = 0,
    *,
    max_size: int = MAX_BODY_SIZE,
    decompress: bool = True,
) -> list[InnerMessage]:
    """Return the messages inside an inner batch; batches inside are not opened in their turn.

    Args:
        body: The record's body.
        sys_flag: The record's ``SYSFLAG``.
        queue_offset: The record's queue offset, which is its first message's.
        max_size: The most bytes that the body may unpack to.
        decompress: Whether the body is as stored, so that a compressed one is decompressed here;
            False for one that was decompressed before, as :meth:`CommitLog.scan` returns it.

    Returns:
        The messages in their order; none for a record that is no inner batch.

    Raises:
        RmqIndexError: The body does not unpack, or is not a sequence of messages, of which a
            broker can count 32,767.
    """
    flags = int_of("sys_flag", sys_flag)
    queue_offset = int_of("queue_offset", queue_offset)
    if not decompress:
        flags &= ~COMPRESSED_FLAG
    return list(iterate_inner_messages(body, flags, queue_offset, max_size=max_size))


def iterate_inner_messages(
    body: bytes, sys_flag: int, queue_offset: int = 0, *, max_size: int = MAX_BODY_SIZE
) -> Iterator[InnerMessage]:
    """Yield what :func:`inner_messages` returns, one at a time."""
    if not is_inner_batch(sys_flag):
        return
    data = decompress_body(body, sys_flag, max_size=max_size)
    at = number = 0
    while at < len(data):
        if number == _MAX_INNER_MESSAGES:
            expected = f"at most {_MAX_INNER_MESSAGES} messages"
            raise _BadMessageError("total_size", at, at, expected, "one more")
        message, at = _inner_message(data, at, queue_offset + number)
        yield message
        number += 1


def _inner_message(data: bytes, start: int, queue_offset: int) -> tuple[InnerMessage, int]:
    if len(data) - start < INNER_MESSAGE_HEAD_SIZE:
        told = ("a head of 20 bytes", len(data) - start)
        raise _BadMessageError("total_size", start, start, *told)
    total_size, _, _, flag, body_length = _INNER_HEAD.unpack_from(data, start)
    body_start = start + INNER_MESSAGE_HEAD_SIZE
    body_stop = body_start + body_length
    if body_length < 0 or body_stop + PROPERTIES_LENGTH_SIZE > len(data):
        told = ("a body inside the batch", body_length)
        raise _BadMessageError("body_length", body_start - 4, start, *told)
    (properties_length,) = _PROPERTIES_LENGTH.unpack_from(data, body_stop)
    properties_start = body_stop + PROPERTIES_LENGTH_SIZE
    stop = properties_start + properties_length
    if properties_length < 0 or stop > len(data):
        told = ("properties inside the batch", properties_length)
        raise _BadMessageError("properties_length", body_stop, start, *told)
    if stop - start != total_size:
        told = (f"a total size of {stop - start}", total_size)
        raise _BadMessageError("total_size", start, start, *told)
    pairs = tuple(property_pairs(data[properties_start:stop]))
    return InnerMessage(queue_offset, flag, data[body_start:body_stop], pairs), stop


class _BadMessageError(RmqIndexError):
    """A message of an inner batch that is none: the field that says so, and its byte."""

    def __init__(self, field: str, byte: int, start: int, expected: str, got: object) -> None:
        super().__init__(f"inner batch: message at byte {start}: expected {expected}, got {got}")
        self.field, self.byte = field, byte


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


_UNIQ_KEY = PROPERTY_UNIQ_KEY.decode()
_KEYS = PROPERTY_KEYS.decode()
# So many bodies are held at a time; the largest messages have 4 MiB.
_MAX_BODIES = 64


class BadInnerBatchError(RmqIndexError):
    """An inner batch that cannot be unpacked.

    Attributes:
        phy_offset: Where its message starts in the log, bytes.
    """

    def __init__(self, phy_offset: int, error: RmqIndexError) -> None:
        """Take the message's offset, and what is wrong with its body."""
        super().__init__(f"message at offset {phy_offset}: {error}")
        self.phy_offset = phy_offset


def indexed_keys(all_uniq_keys: pa.Array, all_keys: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the row of each key that a broker indexes, and the keys, without topics."""
    import pyarrow.compute as pc  # noqa: PLC0415  (a command may not need it)

    uniq_rows, uniq_keys = _last_of(all_uniq_keys)
    rows, texts = _last_of(all_keys)
    parts = pc.split_pattern(texts, KEY_SEPARATOR)
    part_rows = rows[pc.list_parent_indices(parts).to_numpy(zero_copy_only=False)]
    keys = parts.flatten()
    filled = pc.greater(pc.binary_length(keys), 0)
    if not pc.all(filled).as_py():
        part_rows = part_rows[filled.to_numpy(zero_copy_only=False)]
        keys = keys.filter(filled)
    return np.concatenate([uniq_rows, part_rows]), pa.concat_arrays([uniq_keys, keys])


def member_keys(
    all_uniq_keys: pa.Array,
    all_keys: pa.Array,
    sys_flags: NDArray[np.int32],
    phy_offsets: NDArray[np.int64],
    bodies: Callable[[NDArray[np.int64]], pa.Array] | None,
    *,
    strict: bool = True,
    max_body_size: int = MAX_BODY_SIZE,
    on_bad: Callable[[BadInnerBatchError], None] | None = None,
) -> tuple[NDArray[np.int64], list[str]]:
    """Return the keys of members of batches by which a broker's index does not lead to them.

    These are, in this order: earlier values of ``UNIQ_KEY``; the parts of earlier values of
    ``KEYS``; of each message of an inner batch its ``UNIQ_KEY`` and the parts of its ``KEYS``.
    What the broker indexes is left out, and each key counts once a message.

    Args:
        all_uniq_keys: Of each message every ``UNIQ_KEY``; lists of strings without nulls.
        all_keys: Of each message every ``KEYS``.
        sys_flags: Of each message its ``SYSFLAG``.
        phy_offsets: Of each message its offset in the log, bytes.
        bodies: Returns the bodies, as stored, of the messages at given offsets; None to leave out
            the messages of inner batches.
        strict: Whether an inner batch that cannot be unpacked is an error; else it has no members.
        max_body_size: The most bytes that a body may unpack to.
        on_bad: Called with the error of each inner batch that has no members for it.

    Returns:
        The row of each key (int64, ascending), and the keys.

    Raises:
        BadInnerBatchError: An inner batch cannot be unpacked.
    """
    inner = np.array([is_inner_batch(flag) for flag in np.unique(sys_flags).tolist()], bool)
    is_inner = inner[np.unique(sys_flags, return_inverse=True)[1]]
    several = (_lengths(all_uniq_keys) > 1) | (_lengths(all_keys) > 1)
    if bodies is None:
        is_inner[:] = False
    inner_bodies = _in_portions(phy_offsets[is_inner], bodies)
    rows: list[int] = []
    keys: list[str] = []
    for row in np.flatnonzero(several | is_inner).tolist():
        uniq_texts, key_texts = all_uniq_keys[row].as_py(), all_keys[row].as_py()
        indexed = {*uniq_texts[-1:], *_parts(key_texts[-1:])}
        found = [*uniq_texts[:-1], *_parts(key_texts[:-1])]
        if is_inner[row]:
            body = next(inner_bodies)
            try:
                found += _inner_keys(body, int(sys_flags[row]), max_body_size)
            except RmqIndexError as error:
                bad = BadInnerBatchError(int(phy_offsets[row]), error)
                if strict:
                    raise bad from error
                if on_bad is not None:
                    on_bad(bad)
        fresh = [key for key in dict.fromkeys(found) if key not in indexed]
        rows += [row] * len(fresh)
        keys += fresh
    return np.array(rows, np.int64), keys


def _in_portions(
    offsets: NDArray[np.int64], bodies: Callable[[NDArray[np.int64]], pa.Array] | None
) -> Iterator[bytes]:
    if bodies is None:
        return
    for first in range(0, len(offsets), _MAX_BODIES):
        yield from bodies(offsets[first : first + _MAX_BODIES]).to_pylist()


def _inner_keys(body: bytes, sys_flag: int, max_size: int) -> list[str]:
    found = []
    for message in iterate_inner_messages(body, sys_flag, max_size=max_size):
        uniq_key, keys = message.property(_UNIQ_KEY), message.property(_KEYS)
        found += [uniq_key] if uniq_key is not None else []
        found += _parts([keys] if keys is not None else [])
    return found


def _parts(texts: list[str]) -> list[str]:
    return [part for text in texts for part in text.split(KEY_SEPARATOR) if part]


def _lengths(lists: pa.Array) -> NDArray[np.int32]:
    lengths: NDArray[np.int32] = np.diff(_offsets(lists))
    return lengths


def _offsets(lists: pa.Array) -> NDArray[Any]:
    offsets: NDArray[Any] = lists.offsets.to_numpy()
    return offsets


def _last_of(lists: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the rows that have a value, and the last value of each."""
    offsets = _offsets(lists)
    values = lists.values
    rows = np.flatnonzero(np.diff(offsets)).astype(np.int64)
    last = offsets[1:][rows] - 1
    if len(last) == len(values) and (not len(last) or last[0] == 0):
        return rows, values  # one each
    return rows, values.take(pa.array(last))
