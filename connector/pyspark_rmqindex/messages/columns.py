"""Messages as columns of exactly the Arrow types that Spark asks for, their unique ids decoded.

The layouts of the ids that clients give to messages are those of
:func:`rmqindex.decode_uniq_key`; they are decoded a column at a time.
"""

from __future__ import annotations

import datetime as dt
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqindex import COMMITLOG_SCHEMA
from rmqindex.commitlog import BODY_TEXT, BadBodies, bad_body, body_texts, unpack_bodies
from rmqindex.record import (
    MAX_BODY_SIZE,
    BadInnerBatchError,
    UnpackedSizeError,
    host_text,
    member_keys,
)
from rmqindex.times import microseconds_of, to_microseconds, to_milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from rmqindex import CommitLog, RmqIndexError
    from rmqindex.indexfile import Mode

#: Columns that hold times.
TIMES = frozenset({"born_timestamp", "store_timestamp"})
#: What the error for a damaged body recommends.
BODY_ADVICE = (
    "The option mode=DROPMALFORMED gives null for such a body, and an inner batch no members; "
    "decompressBody=false returns every body as it is stored, and maxBodySize is the largest that "
    "is unpacked"
)
#: What that for a body whose CRC is wrong recommends.
_CRC_ADVICE = (
    "The option mode=DROPMALFORMED gives null for such a body; decompressBody=false returns every "
    "body as it is stored"
)
# The most bytes of decompressed bodies in a batch, unless it holds a single message.
_MAX_UNPACKED = 256 * 1024 * 1024
# The sources of columns that are not in the format; bodies of inner batches are read separately.
_MADE_OF = {
    "member_keys": ("all_uniq_keys", "all_keys", "sys_flag", "phy_offset"),
    "decoded_uniq_key": ("uniq_key", "store_timestamp"),
    BODY_TEXT: ("body", "body_crc", "sys_flag", "phy_offset"),
}


def log_columns(names: Iterable[str], *, decompress: bool = True) -> list[str]:
    """Return the columns to read from a CommitLog for some of ``MESSAGE_COLUMNS``."""
    wanted: list[str] = []
    for name in names:
        wanted += _MADE_OF.get(name, (name,))
        if name == "body" and decompress:
            wanted += ["body_crc", "sys_flag", "phy_offset"]
    return [name for name in COMMITLOG_SCHEMA.names if name in wanted]


class MessageColumns:
    """Messages as a CommitLog returns them, and the columns derived from them."""

    def __init__(
        self,
        log: CommitLog,
        batch: pa.RecordBatch,
        *,
        mode: Mode,
        decompress: bool = True,
        max_body_size: int = MAX_BODY_SIZE,
        zone: dt.tzinfo = dt.UTC,
        members: tuple[NDArray[np.int64], list[str]] | None = None,
        on_bad: Callable[[RmqIndexError], None] | None = None,
    ) -> None:
        """Wrap a batch of the columns that :func:`log_columns` named.

        A body whose CRC is wrong, or that cannot be decompressed, raises in the mode ``FAILFAST``;
        in ``DROPMALFORMED`` it is null, an inner batch has no members, and ``on_bad`` is called.
        ``members`` are the keys of batch members, after the row of each, ascending; None to read
        them when they are needed.
        """
        self.batch = batch
        self._log = log
        self._strict = mode == "FAILFAST"
        self._decompress = decompress
        self._max_body_size = max_body_size
        self._zone = zone
        self._members = members
        self._on_bad = on_bad

    def column(self, name: str, type_: pa.DataType) -> pa.Array:
        """Return a column of ``MESSAGE_COLUMNS``, of Spark's Arrow type for it.

        An ``UnpackedSizeError`` says that the bodies are too large for one batch; see
        :func:`in_halves`.
        """
        if name == "decoded_uniq_key":
            return _decode_uniq_keys(
                self.batch.column("uniq_key"), self._numbers("store_timestamp"), self._zone, type_
            )
        if name == "member_keys":
            return self._member_lists(type_)
        if name == BODY_TEXT:
            return body_texts(self._sent, self._numbers("sys_flag"))
        array = self.batch.column(name)
        if name in TIMES:
            return as_timestamps(array, type_)
        if name == "body" and self._decompress:
            return self._sent
        return array if array.type == type_ else array.cast(type_)

    def _member_keys(self) -> tuple[NDArray[np.int64], list[str]]:
        try:
            return member_keys(
                self.batch.column("all_uniq_keys"),
                self.batch.column("all_keys"),
                self._numbers("sys_flag"),
                self._numbers("phy_offset"),
                self._stored_bodies,
                strict=self._strict,
                max_body_size=self._max_body_size,
                on_bad=self._tell_inner,
            )
        except BadInnerBatchError as error:
            raise self._named(error) from error

    def _named(self, error: BadInnerBatchError) -> RmqIndexError:
        return bad_body(self._log.files, error.phy_offset, str(error), BODY_ADVICE)

    def _tell_inner(self, error: BadInnerBatchError) -> None:
        if self._on_bad is not None:
            self._on_bad(self._named(error))

    def _stored_bodies(self, offsets: NDArray[np.int64]) -> pa.Array:
        return self._log.read_at(offsets, ["body"], decompress_body=False).column("body")

    def _numbers(self, name: str) -> Any:  # noqa: ANN401  (arrays of several dtypes)
        return self.batch.column(name).to_numpy()

    def _member_lists(self, type_: pa.ListType) -> pa.Array:
        rows, keys = self._member_keys() if self._members is None else self._members
        offsets = np.zeros(self.batch.num_rows + 1, np.int32)
        np.cumsum(np.bincount(rows, minlength=self.batch.num_rows), out=offsets[1:])
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(keys, pa.string()), type=type_)

    @cached_property
    def _sent(self) -> pa.Array:
        """The bodies as they were sent."""
        return unpack_bodies(
            self.batch.column("body"),
            self._numbers("sys_flag"),
            self._numbers("phy_offset"),
            BadBodies(
                self._log.files,
                strict=self._strict,
                advice=BODY_ADVICE,
                crc_advice=_CRC_ADVICE,
                on_bad=self._on_bad,
            ),
            crcs=self._numbers("body_crc"),
            max_size=self._max_body_size,
            # A larger body gets a batch of its own.
            max_total_size=_MAX_UNPACKED,
        )


def ensure_fits(bodies: pa.Array, rows: NDArray[np.int64]) -> None:
    """Raise ``UnpackedSizeError`` if the bodies of all rows would make too large a batch.

    ``rows`` has the index of each row's body; negative for none.
    """
    sizes = pc.binary_length(bodies).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if len(rows) > 1 and int(sizes[rows[rows >= 0]].sum()) > _MAX_UNPACKED:
        raise UnpackedSizeError("bodies: expected fewer rows at once")


def as_timestamps(milliseconds: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return times as TIMESTAMP; null if that type cannot hold a time."""
    micros, beyond = to_microseconds(milliseconds.to_numpy(zero_copy_only=False))
    return pa.array(micros, mask=beyond).view(type_)


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


def _decode_uniq_keys(
    uniq_keys: pa.Array, store_timestamps: NDArray[np.int64], zone: dt.tzinfo, type_: pa.StructType
) -> pa.Array:
    """Return a struct for each id; null for text that no client writes.

    Ids of remoting clients lack the month, so the one nearest to the store time is assumed.
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

    Return epoch milliseconds, and whether the month could be determined.
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
