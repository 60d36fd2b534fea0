"""Turns messages into columns of exactly the Arrow types that Spark asks for."""

from __future__ import annotations

import datetime as dt
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_rmqindex.messages.ids import decode_uniq_keys
from rmqindex import COMMITLOG_SCHEMA
from rmqindex.commitlog import BODY_TEXT, BadBodies, bad_body, body_texts, unpack_bodies
from rmqindex.record import MAX_BODY_SIZE, BadInnerBatchError, UnpackedSizeError, member_keys
from rmqindex.times import to_microseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from rmqindex import CommitLog, RmqIndexError
    from rmqindex.indexfile import Mode

__all__ = [
    "BODY_ADVICE",
    "TIMES",
    "Messages",
    "as_timestamps",
    "ensure_fits",
    "log_columns",
]

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
    """Return the columns to read from a CommitLog.

    Args:
        names: Columns of ``MESSAGE_COLUMNS``.
        decompress: Whether to decompress bodies.
    """
    wanted: list[str] = []
    for name in names:
        wanted += _MADE_OF.get(name, (name,))
        if name == "body" and decompress:
            wanted += ["body_crc", "sys_flag", "phy_offset"]
    return [name for name in COMMITLOG_SCHEMA.names if name in wanted]


class Messages:
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
        """Wrap a batch of messages.

        Args:
            log: The log of the messages.
            batch: The columns that :func:`log_columns` named, without nulls where the format has
                no nulls.
            mode: What to do with bodies whose CRC is wrong, or that cannot be decompressed:
                ``FAILFAST`` raises; ``DROPMALFORMED`` returns null, and an inner batch that cannot
                be decompressed has no members.
            decompress: Whether to decompress the column ``body``; ``body_text`` always is.
            max_body_size: The most bytes that a body may decompress to.
            zone: The time zone of the clients.
            members: The keys of batch members, after the row of each, ascending; None to read them
                when they are needed.
            on_bad: Called with the error of each body that becomes null, or has no members for it.
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
        """Return a column of ``MESSAGE_COLUMNS``.

        Args:
            name: Its name.
            type_: Spark's Arrow type for it.

        Raises:
            UnpackedSizeError: The bodies are too large for one batch; see :func:`in_halves`.
            RmqIndexError: A body cannot be decompressed, in the mode ``FAILFAST``.
        """
        if name == "decoded_uniq_key":
            return decode_uniq_keys(
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
    """Raise if repeating bodies for all rows would make too large a batch.

    Args:
        bodies: The bodies.
        rows: For each row, the index of its body; negative for none.

    Raises:
        UnpackedSizeError: There are several rows, and their bodies are too large together.
    """
    sizes = pc.binary_length(bodies).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if len(rows) > 1 and int(sizes[rows[rows >= 0]].sum()) > _MAX_UNPACKED:
        raise UnpackedSizeError("bodies: expected fewer rows at once")


def as_timestamps(milliseconds: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return times as TIMESTAMP; null if that type cannot hold a time."""
    micros, beyond = to_microseconds(milliseconds.to_numpy(zero_copy_only=False))
    return pa.array(micros, mask=beyond).view(type_)
