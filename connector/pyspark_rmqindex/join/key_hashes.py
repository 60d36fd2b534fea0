"""Hashes of key columns, in which Spark allows NULL and bytes that are not UTF-8."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rmqindex import index_key_hashes
from rmqindex.keys import NotUtf8Error, not_utf8

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def hash_columns(topics: pa.Array, keys: pa.Array) -> pa.Array:
    """Hash a batch of columns; NULL and text that is not UTF-8 give NULL."""
    hashes, valid = hash_known(topics, keys)
    if valid is None:
        return pa.array(hashes)
    return pc.replace_with_mask(pa.nulls(len(valid), pa.int32()), valid, pa.array(hashes))


def hash_known(topics: pa.Array, keys: pa.Array) -> tuple[NDArray[np.int32], pa.Array | None]:
    """Hash the rows that can match an entry: no entry has a key that is NULL or not UTF-8."""
    valid = None
    if topics.null_count or keys.null_count:
        valid = pc.and_(topics.is_valid(), keys.is_valid())
    try:
        return _hashes(topics, keys, valid), valid
    except NotUtf8Error:
        valid = pc.and_(topics.is_valid(), keys.is_valid())
        for column in (topics, keys):
            invalid = not_utf8(column)
            if invalid is not None:
                valid = pc.and_not(valid, pa.array(invalid))
        return _hashes(topics, keys, valid), valid


def _hashes(topics: pa.Array, keys: pa.Array, valid: pa.Array | None) -> NDArray[np.int32]:
    if valid is None:
        return index_key_hashes(topics, keys)
    return index_key_hashes(topics.filter(valid), keys.filter(valid))
