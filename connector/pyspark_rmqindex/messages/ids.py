"""Decodes the unique ids that clients give to messages, a column at a time.

The layouts are those of :func:`rmqindex.decode_uniq_key`.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqindex.record import host_text
from rmqindex.times import microseconds_of, to_microseconds, to_milliseconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["decode_uniq_keys"]

_HEX = np.full(256, 255, np.uint8)
for _digits in (b"0123456789abcdef", b"0123456789ABCDEF"):
    _HEX[np.frombuffer(_digits, np.uint8)] = np.arange(16, dtype=np.uint8)

_REMOTING, _GRPC = "remoting", "grpc"
# Sizes of ids, bytes; that of a remoting client begins with the client's address, whose size
# follows it here.
_IPV4 = 4
_ADDRESS_SIZES = {16: _IPV4, 28: 16}
_GRPC_SIZE = 17
_GRPC_VERSION = 1
_GRPC_EPOCH = 1_609_459_200  # 2021-01-01T00:00Z, seconds


def decode_uniq_keys(
    uniq_keys: pa.Array, store_timestamps: NDArray[np.int64], zone: dt.tzinfo, type_: pa.StructType
) -> pa.Array:
    """Decode ids.

    Args:
        uniq_keys: Strings; null if a message has none.
        store_timestamps: When each message was stored, epoch milliseconds; ids of remoting clients
            lack the month, so the nearest one is assumed.
        zone: The clients' time zone.
        type_: A struct of ``kind``, ``client``, ``pid``, ``timestamp`` (microseconds) and
            ``counter``.

    Returns:
        One struct per id; null for text that no client writes.
    """
    size = len(uniq_keys)
    kinds = np.full(size, -1, np.int8)
    clients = np.full(size, None, object)
    pids = np.zeros(size, np.int32)
    micros = np.zeros(size, np.int64)
    has_time = np.zeros(size, bool)
    counters = np.zeros(size, np.int64)
    lengths = pc.binary_length(uniq_keys).fill_null(0).to_numpy(zero_copy_only=False)
    for bytes_, address_size in _ADDRESS_SIZES.items():
        rows, ids = _from_hex(uniq_keys, np.flatnonzero(lengths == 2 * bytes_), bytes_)
        if not len(rows):
            continue
        kinds[rows] = 0
        addresses = ids[:, :address_size]
        clients[rows] = _ipv4(addresses) if address_size == _IPV4 else _texts(addresses, _address)
        pids[rows] = _unsigned(ids, address_size, 2)
        within = _unsigned(ids, address_size + 6, 4)
        times, known = _nearest(within, store_timestamps[rows], zone)
        micros[rows], has_time[rows] = to_microseconds(times)[0], known
        counters[rows] = _unsigned(ids, address_size + 10, 2)
    rows, ids = _from_hex(uniq_keys, np.flatnonzero(lengths == 2 * _GRPC_SIZE), _GRPC_SIZE)
    mine = ids[:, 0] == _GRPC_VERSION
    rows, ids = rows[mine], ids[mine]
    if len(rows):
        kinds[rows] = 1
        clients[rows] = _texts(ids[:, 1:7], lambda address: address.hex(":").upper())
        pids[rows] = _unsigned(ids, 7, 2)
        micros[rows] = (_unsigned(ids, 9, 4) + _GRPC_EPOCH) * 1_000_000
        has_time[rows] = True
        counters[rows] = _unsigned(ids, 13, 4)
    unknown = kinds < 0
    children = [
        pa.array([_REMOTING, _GRPC]).take(pa.array(kinds, mask=unknown)),
        pa.array(clients, pa.string()),
        pa.array(pids),
        pa.array(micros, pa.int64(), mask=~has_time).view(type_.field("timestamp").type),
        pa.array(counters),
    ]
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=pa.array(unknown))


def _from_hex(
    texts: pa.Array, rows: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the rows whose text is hexadecimal, and their bytes, one row each."""
    if not len(rows):
        return rows, np.empty((0, size), np.uint8)
    taken = texts.take(pa.array(rows)).cast(pa.binary())
    data = np.frombuffer(taken.buffers()[2], np.uint8, 2 * size * len(rows))
    digits = _HEX[data.reshape(len(rows), 2 * size)]
    good = (digits < 16).all(axis=1)
    digits = digits[good]
    return rows[good], (digits[:, ::2] << 4 | digits[:, 1::2]).astype(np.uint8)


def _unsigned(ids: NDArray[np.uint8], start: int, size: int) -> NDArray[np.int64]:
    """Return the big-endian integers in a range of byte columns."""
    value = np.zeros(len(ids), np.int64)
    for place in range(start, start + size):
        value = value << 8 | ids[:, place]
    return value


def _texts(addresses: NDArray[np.uint8], text: Any) -> NDArray[np.object_]:  # noqa: ANN401
    """Return the text of each address, formatting each distinct one only once."""
    distinct, places = np.unique(addresses, axis=0, return_inverse=True)
    texts = np.array([text(row.tobytes()) for row in distinct], object)
    return texts[places.reshape(-1)]


def _ipv4(addresses: NDArray[np.uint8]) -> NDArray[np.object_]:
    """Return the text of each address, made of whole columns: each may be another one."""
    numbers = np.ascontiguousarray(addresses).view(">u4").reshape(-1)
    distinct, places = np.unique(numbers, return_inverse=True)
    octets = [pa.array(distinct >> shift & 255).cast(pa.string()) for shift in (24, 16, 8, 0)]
    texts = pc.binary_join_element_wise(*octets, ".").to_numpy(zero_copy_only=False)
    return texts[places.reshape(-1)]  # type: ignore[no-any-return]


def _address(address: bytes) -> str:
    return host_text(address, 0).rpartition(":")[0].strip("[]")


def _nearest(
    within: NDArray[np.int64], near: NDArray[np.int64], zone: dt.tzinfo
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Place times within a month into the month that brings them nearest to ``near``.

    Args:
        within: Milliseconds since the start of a month.
        near: Epoch milliseconds.
        zone: Where months start.

    Returns:
        Epoch milliseconds, and whether the month could be determined.
    """
    months = near.astype("M8[ms]").astype("M8[M]").astype(np.int64)
    known = (months > -1969 * 12) & (months < 8029 * 12)  # with room within years 1 to 9999
    months[~known] = 0
    least, greatest = int(months.min()) - 2, int(months.max()) + 3
    starts = np.full(greatest - least + 1, 0, np.int64)
    used = np.unique(months[:, None] + np.arange(-2, 4))
    starts[used - least] = [_month_start(month, zone) for month in used.tolist()]
    # Near the start of a month, the month in the zone differs from that in UTC.
    months = months + (near >= starts[months + 1 - least]) - (near < starts[months - least])
    candidates = starts[months[:, None] + np.arange(-1, 2) - least] + within[:, None]
    best = np.abs(candidates - near[:, None]).argmin(axis=1)
    return candidates[np.arange(len(near)), best], known


def _month_start(month: int, zone: dt.tzinfo) -> int:
    """Return the start of a month, counted from January 1970, in epoch milliseconds."""
    year, number = divmod(month + 1970 * 12, 12)
    start = dt.datetime(year, number + 1, 1, tzinfo=zone)
    return to_milliseconds(microseconds_of(start), up=False)
