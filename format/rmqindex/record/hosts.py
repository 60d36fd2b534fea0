"""Hosts and message ids of many records at once (RocketMQ: ``MessageDecoder``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rmqindex.layout.record import IPV4_SIZE, IPV6_SIZE, PORT_SIZE
from rmqindex.record.message_ids import host_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["host_texts", "offset_message_ids"]

_OFFSET_SIZE = 8
_HEX = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), "S2")


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
