"""The keys and the path of ``lookup()``: what is swapped, missing or of another type is said."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampType

from pyspark_rmqindex import lookup
from pyspark_rmqindex.join.arguments import check_arguments, key_columns, keys_frame
from pyspark_rmqindex.join.key_chunk import KeyColumns

KEYS = pa.table({"key": ["a"]})


TYPES = {"STRING": StringType(), "INT": IntegerType(), "TIMESTAMP": TimestampType()}


def schema_of(columns):
    """Return columns as a schema; PySpark's own parser needs a session."""
    pairs = (column.split() for column in columns.split(", "))
    return StructType([StructField(name, TYPES[type_]) for name, type_ in pairs])


class Session:
    """What a session has and a DataFrame has not."""

    def createDataFrame(self) -> None:  # noqa: N802  (Spark's name)
        """Exist."""


@pytest.mark.parametrize(
    ("keys", "path", "message"),
    [
        ("/data/store", KEYS, r"keys first|path second: lookup\(keys, '/data/store'\)"),
        (Path("/data/store"), pd.DataFrame(), r"path second: lookup\(keys, '/data/store'\)"),
        ("order-1", "/data/store", r"createDataFrame\(\[\('order-1',\)\], 'key STRING'\)"),
        (["order-1"], "/data/store", r"got list; .* lookup\(spark.createDataFrame\(\[\(key,\)"),
        ({"order-1"}, "/data/store", "got set; make a DataFrame of it"),
        (Session(), "/data/store", r"got a Spark session, .* lookup\(keys, path\)"),
        (None, "/data/store", "got NoneType"),
        (5, "/data/store", "or an Arrow table, got int"),
        (KEYS, KEYS, "path: expected a path, or a list of paths, got Table; the keys come first"),
        (KEYS, None, "path: expected a path, or a list of paths, got NoneType"),
        (KEYS["key"], "/data/store", "with named columns, got ChunkedArray"),
    ],
)
def test_swapped_and_strange_arguments_are_said(keys, path, message):
    """In one sentence, with the call to write."""
    with pytest.raises(TypeError, match=message):
        lookup(keys, path)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"topic": ["a"]}, "topic: expected a text, such as topic='Orders', got list"),
        ({"key": None}, "key: expected a text, such as key='order_id', got NoneType"),
    ],
)
def test_names_are_texts(names, message):
    """Of the topic and of the column of keys."""
    with pytest.raises(TypeError, match=message):
        lookup(KEYS, "/data/store", **names)


def test_columns_are_found_in_any_case():
    """The topic may be one for all rows."""
    schema = schema_of("Order_Id STRING, amount INT, BEGIN TIMESTAMP, topic STRING")
    assert key_columns(schema, None, "order_id") == KeyColumns(3, 0, 2)
    without = StructType(schema.fields[:3])
    assert key_columns(without, "Orders", "order_ID") == KeyColumns("Orders", 0, 2)


@pytest.mark.parametrize(
    ("columns", "topic", "key", "message"),
    [
        ("key STRING", None, "key", "'topic' .* missing; the columns are key; .* topic='Orders'"),
        (
            "topic STRING, id STRING",
            None,
            "key",
            "'key' .* missing; .* topic, id; .*key='order_id'",
        ),
        ("id STRING", "T", "order", "column 'order' of the keys: missing; the columns are id$"),
        ("id INT", "T", "id", r"expected STRING, got INT; .* keys\['id'\].cast\('string'\)"),
        ("topic STRING, key STRING", "T", "key", r"got 'T' and the column .* keys.drop\('topic'\)"),
        ("key STRING, KEY STRING", "T", "key", "expected once, got several"),
    ],
)
def test_a_missing_column_or_type_is_said_with_what_to_write(columns, topic, key, message):
    """An argument, a cast, or a column to drop."""
    with pytest.raises(ValueError, match=message):
        key_columns(schema_of(columns), topic, key)


def test_a_dataframe_of_spark_connect_is_one():
    """It has a column for every name that is asked of it, also for those of a session."""

    class ConnectFrame:
        def mapInArrow(self):  # noqa: N802
            """As every DataFrame."""

        def __getattr__(self, name):
            return f"Column<{name}>"

    frame = ConnectFrame()
    check_arguments(frame, "/data/store", None, "key")
    assert keys_frame(frame) is frame
