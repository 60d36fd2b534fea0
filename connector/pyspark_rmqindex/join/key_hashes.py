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

__all__ = ["hash_columns", "hash_known"]


def hash_columns(topics: pa.Array, keys: pa.Array) -> pa.Array:
    """Hash a batch of columns; NULL and text that is not UTF-8 give NULL."""
    hashes, known = hash_known(topics, keys)
    if known is None:
        return pa.array(hashes)
    return pc.replace_with_mask(pa.nulls(len(known), pa.int32()), known, pa.array(hashes))


def hash_known(topics: pa.Array, keys: pa.Array) -> tuple[NDArray[np.int32], pa.Array | None]:
    """Hash the rows that can match an entry: no entry has a key that is NULL or not UTF-8."""
    known = None
    if topics.null_count or keys.null_count:
        known = pc.and_(topics.is_valid(), keys.is_valid())
    try:
        return _hashes(topics, keys, known), known
    except NotUtf8Error:
        known = pc.and_(topics.is_valid(), keys.is_valid())
        for column in (topics, keys):
            found = not_utf8(column)
            if found is not None:
                known = pc.and_not(known, pa.array(found))
        return _hashes(topics, keys, known), known


def _hashes(topics: pa.Array, keys: pa.Array, known: pa.Array | None) -> NDArray[np.int32]:
    if known is None:
        return index_key_hashes(topics, keys)
    return index_key_hashes(topics.filter(known), keys.filter(known))
