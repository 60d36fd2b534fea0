"""Ids of messages and the hosts in them: decoded one by one, and written for many records at once.

RocketMQ: ``MessageDecoder.createMessageId`` (offsetMsgId), ``MessageClientIDSetter`` (the property
``UNIQ_KEY`` of remoting clients) and ``MessageIdCodec`` of rocketmq-clients (that of gRPC clients).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rmqindex.arguments import int_or_none, text_of
from rmqindex.layout.index_file import INT64_MAX
from rmqindex.layout.record import IPV4_SIZE, IPV6_SIZE, PORT_SIZE

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OFFSET_SIZE = 8
_HEX = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), "S2")
_MAX_PORT = 0xFFFF
_OFFSET_ID_TAIL = struct.Struct(">iq")
_REMOTING_TAIL = struct.Struct(">HiIH")
_GRPC = struct.Struct(">B6sHII")
_GRPC_VERSION = 1
_GRPC_EPOCH = datetime(2021, 1, 1, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_V4_ID_SIZE = IPV4_SIZE + _OFFSET_ID_TAIL.size
_V6_ID_SIZE = IPV6_SIZE + _OFFSET_ID_TAIL.size
_MAPPED_V4 = bytes(10) + b"\xff\xff"


@dataclass(frozen=True, slots=True)
class OffsetMessageId:
    """An offsetMsgId: where a broker stored a message.

    Attributes:
        address: The store host's address, 4 or 16 bytes.
        port: Its port.
        phy_offset: Where the message starts in the CommitLog, bytes.
    """

    address: bytes
    port: int
    phy_offset: int

    @property
    def store_host(self) -> str:
        """The store host as text, ``10.0.0.1:10911``."""
        return host_text(self.address, self.port)

    def __str__(self) -> str:
        """Return the id as RocketMQ writes it: upper-case hex."""
        return (self.address + _OFFSET_ID_TAIL.pack(self.port, self.phy_offset)).hex().upper()


@dataclass(frozen=True, slots=True)
class RemotingMessageId:
    """A ``UNIQ_KEY`` of a remoting client.

    Attributes:
        address: The client's address, 4 or 16 bytes; a client without one puts the low half of
            its start time in milliseconds here.
        pid: The low 16 bits of its process id.
        class_loader_hash: The hash code of its class loader.
        month_milliseconds: Milliseconds since the start of the month in the client's time zone.
        counter: A running number of 16 bits.
        timestamp: Epoch milliseconds; None where the month is unknown.
    """

    address: bytes
    pid: int
    class_loader_hash: int
    month_milliseconds: int
    counter: int
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class GrpcMessageId:
    """A ``UNIQ_KEY`` of a gRPC client.

    Attributes:
        version: 1.
        mac: The client's hardware address, 6 bytes.
        pid: The low 16 bits of its process id.
        timestamp: Epoch milliseconds, exact to the second.
        sequence: A running number of 32 bits.
    """

    version: int
    mac: bytes
    pid: int
    timestamp: int
    sequence: int


def decode_message_id(
    text: str, *, near: int | None = None, zone: tzinfo = UTC
) -> OffsetMessageId | RemotingMessageId | GrpcMessageId | None:
    """Detect the kind of an id, and decode it.

    An id of 32 or 56 digits is an offsetMsgId if its port can be one, else a ``UNIQ_KEY``; a
    client whose process id ends in 16 zero bits is mistaken, about one in 65,536.

    Args:
        text: The id.
        near: As in :func:`decode_uniq_key`.
        zone: Likewise.

    Returns:
        The id's parts, or None for text that is no id.
    """
    return decode_offset_msg_id(text) or decode_uniq_key(text, near=near, zone=zone)


def decode_offset_msg_id(text: str) -> OffsetMessageId | None:
    """Decode an offsetMsgId.

    Args:
        text: 32 hex digits, or 56 with an IPv6 host; any case.

    Returns:
        Its parts; None for any other text, a port beyond 65,535, or a negative offset.
    """
    data = _from_hex(text)
    if len(data) not in (_V4_ID_SIZE, _V6_ID_SIZE):
        return None
    port, offset = _OFFSET_ID_TAIL.unpack(data[-_OFFSET_ID_TAIL.size :])
    if not (0 <= port <= _MAX_PORT and 0 <= offset <= INT64_MAX):
        return None
    return OffsetMessageId(data[: -_OFFSET_ID_TAIL.size], port, offset)


def decode_uniq_key(
    text: str, *, near: int | None = None, zone: tzinfo = UTC
) -> RemotingMessageId | GrpcMessageId | None:
    """Decode the ``UNIQ_KEY`` that a client made.

    A remoting client writes milliseconds since the start of its month and leaves the month out:
    it is the one that brings the time nearest to ``near``.

    Args:
        text: 32 or 56 hex digits (remoting), or 34 that begin with 01 (gRPC); any case.
        near: Epoch milliseconds near which the id was made, such as the record's store timestamp;
            None leaves the time of remoting ids undecided.
        zone: The client's time zone.

    Returns:
        Its parts; None for text that no client writes.
    """
    near = int_or_none("near", near)
    data = _from_hex(text)
    if len(data) == _GRPC.size and data[0] == _GRPC_VERSION:
        version, mac, pid, seconds, sequence = _GRPC.unpack(data)
        made = _GRPC_EPOCH + timedelta(seconds=seconds)
        return GrpcMessageId(version, mac, pid, (made - _EPOCH) // _MILLISECOND, sequence)
    if len(data) not in (_V4_ID_SIZE, _V6_ID_SIZE):
        return None
    pid, loader, milliseconds, counter = _REMOTING_TAIL.unpack(data[-_REMOTING_TAIL.size :])
    timestamp = None if near is None else _nearest(milliseconds, near, zone)
    address = data[: -_REMOTING_TAIL.size]
    return RemotingMessageId(address, pid, loader, milliseconds, counter, timestamp)


def host_text(address: bytes, port: int) -> str:
    """Return an address and a port as Java writes them.

    Args:
        address: 4 or 16 bytes; an IPv4 address inside an IPv6 one is written as the former.
        port: The port.

    Returns:
        ``10.0.0.1:10911``, ``[2001:db8:0:0:0:0:0:5]:40000``.
    """
    if len(address) == IPV6_SIZE and address.startswith(_MAPPED_V4):
        address = address[-IPV4_SIZE:]
    if len(address) == IPV4_SIZE:
        return f"{'.'.join(map(str, address))}:{port}"
    groups = [f"{int.from_bytes(address[i : i + 2]):x}" for i in range(0, IPV6_SIZE, 2)]
    return f"[{':'.join(groups)}]:{port}"


def _from_hex(text: str) -> bytes:
    if not text_of("text", text).isascii() or not text.isalnum():
        return b""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _nearest(milliseconds: int, near: int, zone: tzinfo) -> int | None:
    try:
        month = (_EPOCH + timedelta(milliseconds=near)).astimezone(zone)
        months = [month.year * 12 + month.month - 1 + shift for shift in (-2, -1, 0, 1)]
        starts = [datetime(m // 12, m % 12 + 1, 1, tzinfo=zone) for m in months]
    except (OverflowError, ValueError):  # before year 1 or after year 9999
        return None
    times = [(start - _EPOCH) // _MILLISECOND + milliseconds for start in starts]
    return min(times, key=lambda time: abs(time - near))


def host_texts(data: memoryview, starts: NDArray[np.int64], is_v6: NDArray[np.bool_]) -> pa.Array:
    """Return hosts as text: ``10.0.0.1:10911`` or ``[2001:db8:0:0:0:0:0:5]:40000``."""
    if not is_v6.any():
        return _v4_texts(data, starts)
    v6 = np.flatnonzero(is_v6)
    v4 = np.flatnonzero(~is_v6)
    texts = [
        *_v6_texts(data, starts[v6]),
        *(_v4_texts(data, starts[v4]).to_pylist() if v4.size else []),
    ]
    places = np.empty(len(starts), np.int64)
    places[np.concatenate([v6, v4])] = np.arange(len(starts))
    return pa.array(texts, pa.string()).take(pa.array(places))


def offset_message_ids(
    data: memoryview,
    starts: NDArray[np.int64],
    is_v6: NDArray[np.bool_],
    phy_offset: NDArray[np.int64],
) -> pa.Array:
    """Return offsetMsgIds: hex of the store host's address and port, and of the offset."""
    widths = np.where(is_v6, IPV6_SIZE, IPV4_SIZE) + PORT_SIZE + _OFFSET_SIZE
    stops = np.cumsum(widths)
    binary = np.empty(int(stops[-1]) if len(stops) else 0, np.uint8)
    offset_bytes = phy_offset.astype(">i8").view(np.uint8).reshape(-1, _OFFSET_SIZE)
    for flag, ip_size in ((False, IPV4_SIZE), (True, IPV6_SIZE)):
        rows = np.flatnonzero(is_v6 == flag)
        if not rows.size:
            continue
        host_size = ip_size + PORT_SIZE
        firsts = (stops - widths)[rows, None]
        binary[firsts + np.arange(host_size)] = _rows_of_bytes(data, starts[rows], host_size)
        binary[firsts + host_size + np.arange(_OFFSET_SIZE)] = offset_bytes[rows]
    offsets = np.zeros(len(stops) + 1, np.int32)
    offsets[1:] = stops * 2
    return pa.Array.from_buffers(
        pa.string(), len(stops), [None, pa.py_buffer(offsets), pa.py_buffer(_HEX[binary])]
    )


def _rows_of_bytes(data: memoryview, starts: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    windows: NDArray[Any] = np.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))
    return windows[starts].view(np.uint8).reshape(-1, size)


def _v4_texts(data: memoryview, starts: NDArray[np.int64]) -> pa.Array:
    import pyarrow.compute as pc  # noqa: PLC0415  (a command may not need it)

    rows = _rows_of_bytes(data, starts, IPV4_SIZE + PORT_SIZE)
    # Hosts repeat: each is written once.
    hosts, places = np.unique(rows.view(">u8").ravel(), return_inverse=True)
    rows = hosts.astype(">u8").view(np.uint8).reshape(-1, IPV4_SIZE + PORT_SIZE)
    octets = [
        pa.array(np.ascontiguousarray(rows[:, place])).cast(pa.string())
        for place in range(IPV4_SIZE)
    ]
    ports = rows[:, IPV4_SIZE:].copy().view(">i4").ravel().astype(np.int32)
    addresses = pc.binary_join_element_wise(*octets, ".")
    texts = pc.binary_join_element_wise(addresses, pa.array(ports).cast(pa.string()), ":")
    return texts.take(pa.array(places))


def _v6_texts(data: memoryview, starts: NDArray[np.int64]) -> list[str]:
    known: dict[bytes, str] = {}
    texts = []
    for row in _rows_of_bytes(data, starts, IPV6_SIZE + PORT_SIZE):
        host = row.tobytes()
        if host not in known:
            port = int.from_bytes(host[IPV6_SIZE:], "big", signed=True)
            known[host] = host_text(host[:IPV6_SIZE], port)
        texts.append(known[host])
    return texts
