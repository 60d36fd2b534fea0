"""Rows written as Spark's tasks and its commit do, without a session."""

from __future__ import annotations

import contextlib
import pickle

import numpy as np
import pyarrow as pa
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from pyspark_rmqindex.write import IndexWriter
from rmqindex import Layout, RmqIndexError

__all__ = ["GEOMETRY", "LAYOUT", "SCHEMA", "batch", "write"]

LAYOUT = Layout(97, 64)
GEOMETRY = {"maxHashSlotNum": "97", "maxIndexNum": "64", "timeZone": "UTC"}
BEGIN = 1_700_000_000_000
SCHEMA = StructType(
    [
        StructField("key_hash", IntegerType()),
        StructField("phy_offset", LongType()),
        StructField("store_timestamp", LongType()),
    ]
)


def batch(start, stop):
    """Return rows whose offsets are 100 apart."""
    numbers = np.arange(start, stop)
    return pa.record_batch(
        {
            "key_hash": pa.array(numbers * 7 % 1000, pa.int32()),
            "phy_offset": pa.array(numbers * 100, pa.int64()),
            "store_timestamp": pa.array(BEGIN + numbers * 1000, pa.int64()),
        }
    )


def write(path, *ranges, overwrite=False, **options):
    """Write rows as Spark does, one task for each range."""
    given = {"path": str(path), **GEOMETRY, **options}
    writer = IndexWriter(SCHEMA, overwrite, given)
    try:
        tasks = [pickle.loads(pickle.dumps(writer)).write(iter([batch(*each)])) for each in ranges]
        pickle.loads(pickle.dumps(writer)).commit(tasks)
    except BaseException:
        with contextlib.suppress(RmqIndexError):  # the store may still fail
            writer.abort([])
        raise
