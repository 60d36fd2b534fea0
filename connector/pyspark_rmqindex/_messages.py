"""Messages to columns of exactly the Arrow types that Spark asks for."""

from __future__ import annotations

import datetime as dt
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pyspark_rmqindex._ids import decode_uniq_keys
from pyspark_rmqindex._times import MILLISECOND
from rmqindex import COMMITLOG_SCHEMA, RmqIndexError, decompress_bodies, decompress_body
from rmqindex._layout import INT64_MAX
from rmqindex._members import member_keys

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from rmqindex import CommitLog
    from rmqindex._index_file import Mode

__all__ = ["TIMES", "Messages", "as_timestamps", "log_columns"]

#: Columns that hold times.
TIMES = frozenset({"born_timestamp", "store_timestamp"})
_LAST_MILLISECOND = INT64_MAX // MILLISECOND
# What columns that the format has not are made of; the bodies of inner batches are read apart.
_MADE_OF = {
    "member_keys": ("all_uniq_keys", "all_keys", "sys_flag", "phy_offset"),
    "decoded_uniq_key": ("uniq_key", "store_timestamp"),
}


def log_columns(names: Iterable[str], *, decompress: bool = False) -> list[str]:
    """Return the columns to read of a CommitLog.

    Args:
        names: Columns of ``MESSAGE_COLUMNS``.
        decompress: Whether bodies are decompressed.
    """
    wanted: list[str] = []
    for name in names:
        wanted += _MADE_OF.get(name, (name,))
        if name == "body" and decompress:
            wanted += ["sys_flag", "phy_offset"]
    return [name for name in COMMITLOG_SCHEMA.names if name in wanted]


class Messages:
    """Messages as a CommitLog returns them, and the columns that are made of them."""

    def __init__(
        self,
        log: CommitLog,
        batch: pa.RecordBatch,
        *,
        mode: Mode,
        decompress: bool = False,
        zone: dt.tzinfo = dt.UTC,
    ) -> None:
        """Take a batch.

        Args:
            log: The log that they are of.
            batch: The columns that :func:`log_columns` named, without nulls where the format has
                none.
            mode: What to do with bodies that do not unpack: ``FAILFAST`` raises, ``DROPMALFORMED``
                gives null, and an inner batch has no members.
            decompress: Whether bodies are decompressed.
            zone: The zone of the clients.
        """
        self.batch = batch
        self._log = log
        self._strict = mode == "FAILFAST"
        self._decompress = decompress
        self._zone = zone

    def column(self, name: str, type_: pa.DataType) -> pa.Array:
        """Return a column of ``MESSAGE_COLUMNS``.

        Args:
            name: Its name.
            type_: Spark's Arrow type for it.

        Raises:
            RmqIndexError: A body does not unpack, in the mode ``FAILFAST``.
        """
        if name == "decoded_uniq_key":
            return decode_uniq_keys(
                self.batch.column("uniq_key"), self._numbers("store_timestamp"), self._zone, type_
            )
        if name == "member_keys":
            return self._member_lists(type_)
        array = self.batch.column(name)
        if name in TIMES:
            return as_timestamps(array, type_)
        if name == "body" and self._decompress:
            return self._decompressed(array)
        return array if array.type == type_ else array.cast(type_)

    @cached_property
    def members(self) -> tuple[NDArray[np.int64], list[str]]:
        """The keys of members: the row of each, ascending, and the keys.

        Raises:
            RmqIndexError: An inner batch does not unpack, in the mode ``FAILFAST``.
        """
        return member_keys(
            self.batch.column("all_uniq_keys"),
            self.batch.column("all_keys"),
            self._numbers("sys_flag"),
            self._numbers("phy_offset"),
            lambda offsets: self._log.read_at(offsets, ["body"]).column("body"),
            strict=self._strict,
        )

    def _numbers(self, name: str) -> Any:  # noqa: ANN401  (arrays of several dtypes)
        return self.batch.column(name).to_numpy()

    def _member_lists(self, type_: pa.ListType) -> pa.Array:
        rows, keys = self.members
        offsets = np.zeros(self.batch.num_rows + 1, np.int32)
        np.cumsum(np.bincount(rows, minlength=self.batch.num_rows), out=offsets[1:])
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(keys, pa.string()), type=type_)

    def _decompressed(self, bodies: pa.Array) -> pa.Array:
        flags = self._numbers("sys_flag")
        try:
            return decompress_bodies(bodies, flags)
        except RmqIndexError:
            offsets = self._numbers("phy_offset")
            each = zip(bodies.to_pylist(), flags.tolist(), offsets.tolist(), strict=True)
            return pa.array([self._unpacked(*one) for one in each], bodies.type)

    def _unpacked(self, body: bytes, flag: int, offset: int) -> bytes | None:
        try:
            return decompress_body(body, flag)
        except RmqIndexError as error:
            if self._strict:
                raise RmqIndexError(f"message at offset {offset}: {error}") from error
        return None


def as_timestamps(milliseconds: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return times as TIMESTAMP; null where that type cannot hold them."""
    values = milliseconds.to_numpy(zero_copy_only=False)
    beyond = (values > _LAST_MILLISECOND) | (values < -_LAST_MILLISECOND)
    if beyond.any():
        micros = pa.array(np.where(beyond, 0, values) * MILLISECOND, mask=beyond)
    else:
        micros = pa.array(values * MILLISECOND)
    return micros.view(type_)
