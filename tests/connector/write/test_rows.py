"""Input columns become entries: the shapes, what NULL means, and rows that are refused."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_rmqindex.schema import full_schema
from pyspark_rmqindex.write.input_shapes import BadRowError, InputShape
from rmqindex import index_key, key_hash
from rmqindex.times import LAST_MILLISECOND

KEY = "topic STRING, key STRING, phy_offset BIGINT, store_timestamp TIMESTAMP"
HASH = "key_hash INT, phy_offset BIGINT, store_timestamp BIGINT"
MESSAGE = (
    "topic STRING, uniq_key STRING, keys STRING, sys_flag INT, phy_offset BIGINT, "
    "store_timestamp BIGINT"
)
ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", "Asia/Shanghai"),
    "array<string>": pa.list_(pa.string()),
}


TYPES = {
    "STRING": StringType(),
    "INT": IntegerType(),
    "BIGINT": LongType(),
    "TIMESTAMP": TimestampType(),
    "TIMESTAMP_NTZ": TimestampNTZType(),
    "BINARY": BinaryType(),
    "DOUBLE": DoubleType(),
    "ARRAY<STRING>": ArrayType(StringType()),
    "ARRAY<INT>": ArrayType(IntegerType()),
}


def schema_of(ddl):
    """Return the schema that a list of columns names, without a Spark session."""
    schema = StructType()
    for column in ddl.split(", "):
        name, data_type = column.split(" ")
        schema.add(name, TYPES[data_type])
    return schema


def shape_of(ddl):
    """Return the shape of a schema given as DDL."""
    return InputShape.of(schema_of(ddl))


def read(ddl, rows):
    """Read rows as Spark hands them over."""
    schema = schema_of(ddl)
    columns = list(zip(*rows, strict=True))
    arrays = [
        pa.array(column, ARROW[field.dataType.simpleString()])
        for column, field in zip(columns, schema.fields, strict=True)
    ]
    return InputShape.of(schema).read(pa.record_batch(arrays, names=schema.names))


class TestShapes:
    """Which shape a schema is."""

    @pytest.mark.parametrize(
        ("ddl", "kind"),
        [
            (KEY, "key"),
            (KEY.upper(), "key"),
            (KEY.replace("BIGINT", "INT"), "key"),
            (HASH, "hash"),
            (HASH.replace("key_hash INT", "key_hash BIGINT"), "hash"),
            (MESSAGE, "message"),
            (MESSAGE.replace("keys STRING", "keys ARRAY<STRING>"), "message"),
            (MESSAGE.replace("sys_flag INT, ", ""), "message"),
            (MESSAGE.replace("uniq_key STRING, ", ""), "message"),
            (MESSAGE.replace("keys STRING, ", ""), "message"),
        ],
    )
    def test_each_shape_is_recognised_by_its_columns(self, ddl, kind):
        """The columns alone decide, whatever their case."""
        assert shape_of(ddl).kind == kind

    @pytest.mark.parametrize("keys", [False, True])
    def test_what_load_reads_can_be_written(self, keys):
        """Every column of a load is accepted, in the order of its entries."""
        shape = InputShape.of(full_schema(keys=keys))
        assert shape.kind == "hash"
        assert shape.by_position

    @pytest.mark.parametrize(
        ("ddl", "message"),
        [
            ("key_hash INT, phy_offset BIGINT", "'store_timestamp': missing"),
            ("key_hash INT, store_timestamp TIMESTAMP", "'phy_offset': missing"),
            ("phy_offset BIGINT, store_timestamp BIGINT", "'topic': missing"),
            ("key STRING, phy_offset BIGINT, store_timestamp BIGINT", "'topic': missing"),
            ("topic STRING, phy_offset BIGINT, store_timestamp BIGINT", "all missing"),
            (f"{KEY}, uniq_key STRING", "columns of both"),
            (f"{MESSAGE}, key_hash INT", "columns of both"),
            (f"{KEY}, colour STRING", "'colour': unknown"),
            (f"{KEY}, TOPIC STRING", "'TOPIC': named twice"),
        ],
    )
    def test_a_schema_that_is_no_shape_is_refused_with_the_shapes(self, ddl, message):
        """The error says what is wrong and what could be written."""
        with pytest.raises(ValueError, match=message) as caught:
            shape_of(ddl)
        assert "topic STRING, uniq_key STRING, keys STRING" in str(caught.value)

    @pytest.mark.parametrize(
        ("ddl", "message"),
        [
            (KEY.replace("TIMESTAMP", "TIMESTAMP_NTZ"), "TIMESTAMP, or BIGINT milliseconds"),
            (KEY.replace("TIMESTAMP", "INT"), "TIMESTAMP, or BIGINT milliseconds, got INT"),
            (KEY.replace("phy_offset BIGINT", "phy_offset STRING"), "expected BIGINT, got STRING"),
            (KEY.replace("key STRING", "key BINARY"), "expected STRING, got BINARY"),
            (HASH.replace("key_hash INT", "key_hash DOUBLE"), "expected INT, got DOUBLE"),
            (MESSAGE.replace("keys STRING", "keys ARRAY<INT>"), "STRING or ARRAY<STRING>, got"),
        ],
    )
    def test_a_column_of_another_type_is_refused(self, ddl, message):
        """The error names the type that is wanted."""
        with pytest.raises(ValueError, match=message):
            shape_of(ddl)


class TestEntries:
    """What rows become."""

    def test_topic_and_key_are_hashed_and_times_become_milliseconds(self):
        """An instant is the same in every zone; microseconds are cut off."""
        moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678999, tzinfo=dt.UTC)
        rows = read(KEY, [("T", "k1", 5, moment), ("订单", "", 7, moment)])
        assert rows.key_hash.tolist() == [key_hash("T#k1"), key_hash("订单#")]
        assert rows.phy_offset.tolist() == [5, 7]
        assert rows.store_timestamp.tolist() == [1704164645678] * 2
        assert rows.key_hash.dtype == np.int32
        assert rows.phy_offset.dtype == rows.store_timestamp.dtype == np.int64

    def test_narrow_and_wide_integers_are_taken(self):
        """INT offsets and BIGINT hashes are common where literals make columns."""
        ddl = "key_hash BIGINT, phy_offset INT, store_timestamp BIGINT"
        rows = read(ddl, [(2**31 - 1, 2**31 - 1, LAST_MILLISECOND), (0, 0, 0)])
        assert rows.key_hash.tolist() == [2**31 - 1, 0]
        assert rows.phy_offset.tolist() == [2**31 - 1, 0]
        assert rows.key_hash.dtype == np.int32
        assert rows.phy_offset.dtype == np.int64

    def test_a_message_gives_an_entry_for_each_of_its_keys_in_order(self):
        """Unique key first, also an empty one; no key and a rollback give nothing."""
        rows = read(
            MESSAGE,
            [
                ("T", "u", "a  b", 0, 100, 1),
                ("T", None, None, 0, 200, 2),
                ("T", "u", "c", 12, 300, 3),
                ("T", "", None, None, 400, 4),
                ("T", None, "d", 8, 500, 5),
            ],
        )
        expected = [("u", 100, 0), ("a", 100, 1), ("b", 100, 2), ("", 400, 0), ("d", 500, 0)]
        assert rows.key_hash.tolist() == [key_hash(index_key("T", key)) for key, _, _ in expected]
        assert rows.phy_offset.tolist() == [offset for _, offset, _ in expected]
        assert rows.ordinal.tolist() == [ordinal for _, _, ordinal in expected]
        assert rows.store_timestamp.tolist() == [1, 1, 1, 4, 5]

    def test_keys_may_be_a_list(self):
        """The elements of a list are the keys, as they are."""
        ddl = "topic STRING, keys ARRAY<STRING>, phy_offset BIGINT, store_timestamp BIGINT"
        rows = read(ddl, [("T", ["a", "", None, "b"], 1, 1), ("T", None, 2, 1), ("T", [], 3, 1)])
        assert rows.key_hash.tolist() == [key_hash("T#a"), key_hash("T#b")]
        assert rows.phy_offset.tolist() == [1, 1]

    def test_rows_of_a_load_keep_their_place(self):
        """File and position say in which order entries of one offset stood."""
        ddl = f"{HASH}, position INT, file_path STRING"
        rows = read(ddl, [(1, 2, 3, 9, "f2"), (4, 5, 6, 7, "f1")])
        assert rows.ordinal.tolist() == [9, 7]
        assert rows.file_path.to_pylist() == ["f2", "f1"]

    def test_no_rows_are_no_entries(self):
        """An empty batch is nothing special."""
        schema = pa.schema([("key_hash", pa.int32()), ("phy_offset", pa.int64())])
        batch = pa.RecordBatch.from_pylist(
            [], schema.append(pa.field("store_timestamp", pa.int64()))
        )
        assert len(shape_of(HASH).read(batch).key_hash) == 0


class TestBadRows:
    """Rows that are refused, with their values."""

    @pytest.mark.parametrize(
        ("ddl", "row", "message"),
        [
            (HASH, (1, None, 5), "phy_offset: expected a value, got NULL"),
            (HASH, (1, -1, 5), "phy_offset: expected 0 to 9223372036854775807, got -1"),
            (HASH, (1, 2, None), "store_timestamp: expected a value, got NULL"),
            (HASH, (1, 2, -1), "store_timestamp: expected 0 to 9223372036854775 milliseconds"),
            (
                HASH,
                (1, 2, LAST_MILLISECOND + 1),
                "milliseconds since 1970, got 9223372036854776",
            ),
            (
                HASH,
                (1, 2, 1_700_000_000),
                "store_timestamp: expected epoch milliseconds, got 1700000000, which is 1970-01-20",
            ),
            (HASH, (1, 2, 1_700_000_000_000_000), "did you mean 1700000000000 "),
            (HASH, (None, 2, 5), "key_hash: expected a value, got NULL"),
            (HASH, (-7, 2, 5), "key_hash: expected 0 to 2147483647, got -7"),
            (KEY, (None, "k", 2, 5), "topic: expected a value, got NULL"),
            (KEY, ("T", None, 2, 5), "key: expected a value, got NULL"),
            (KEY, ("T", "k", 2, -1), "got -1"),
            (MESSAGE, (None, "u", None, 0, 2, 5), "topic: expected a string, got null"),
            (
                MESSAGE.replace("sys_flag INT", "sys_flag BIGINT"),
                ("T", "u", None, 2**32 + 12, 2, 5),
                "sys_flag: expected -2147483648 to 2147483647, got 4294967308",
            ),
            (MESSAGE, (None, None, None, 0, None, 5), "phy_offset: expected a value"),
            (
                MESSAGE.replace("keys STRING", "keys ARRAY<STRING>"),
                ("T", None, ["a b"], 0, 2, 5),
                "keys: expected parts without a space",
            ),
            (f"topic STRING, key STRING, {HASH}", ("T", "k", 1, 2, 5), "the hash of topic and key"),
            (f"{HASH}, position INT, file_path STRING", (1, 2, 5, None, "f"), "position: expected"),
            (f"{HASH}, position INT, file_path STRING", (1, 2, 5, 1, None), "file_path: expected"),
        ],
    )
    def test_a_bad_row_is_named_with_its_values(self, ddl, row, message):
        """The error names the column, and shows the row, not the first of its batch."""
        good = {
            "topic": "T",
            "key": "k",
            "key_hash": key_hash("T#k"),
            "phy_offset": 1,
            "store_timestamp": 1,
            "uniq_key": "u",
            "keys": ["a"] if "ARRAY" in ddl else "a",
            "sys_flag": 0,
            "position": 1,
            "file_path": "f",
        }
        names = schema_of(ddl).names
        with pytest.raises(BadRowError, match=message) as caught:
            read(ddl, [tuple(good[name] for name in names), row])
        text = str(caught.value).partition("in the row ")[2]
        for name, value in zip(names, row, strict=True):
            if name != "store_timestamp" or value is None:
                assert f"{name}={'NULL' if value is None else repr(value)}" in text

    def test_a_time_beyond_pythons_is_shown_as_a_number(self):
        """A year that Python cannot name does not hide the error."""
        batch = pa.record_batch(
            [pa.array(["T"]), pa.array([None], pa.string()), pa.array([1]), pa.array([2**60])],
            names=["topic", "key", "phy_offset", "store_timestamp"],
        )
        batch = batch.set_column(3, "store_timestamp", batch[3].cast(pa.timestamp("us", "UTC")))
        with pytest.raises(BadRowError, match="1152921504606846976 microseconds"):
            shape_of(KEY).read(batch)


BAD = b"x\xff"


class TestBytes:
    """Spark's STRING holds any bytes; a key is UTF-8."""

    @pytest.mark.parametrize(
        ("name", "ddl"),
        [
            ("topic", KEY),
            ("key", KEY),
            ("key", f"{KEY}, key_hash INT"),
            ("topic", MESSAGE),
            ("uniq_key", MESSAGE),
            ("keys", MESSAGE),
            ("keys", MESSAGE.replace("keys STRING", "keys ARRAY<STRING>")),
            ("file_path", f"{HASH}, position INT, file_path STRING"),
        ],
    )
    def test_what_is_no_text_is_an_error_of_its_row(self, name, ddl):
        """The error names the column and shows the bytes."""
        good = {
            "topic": "T",
            "key": "é",
            "key_hash": key_hash("T#é"),
            "phy_offset": 1,
            "store_timestamp": 1,
            "uniq_key": "é",
            "keys": "é",
            "sys_flag": 0,
            "position": 1,
            "file_path": "é",
        }
        arrays = []
        schema = schema_of(ddl)
        for field in schema:
            values = [good[field.name], BAD if field.name == name else good[field.name]]
            if isinstance(field.dataType, StringType):
                texts = [value.encode() if isinstance(value, str) else value for value in values]
                array = pa.array(texts, pa.binary()).view(pa.string())
            elif isinstance(field.dataType, ArrayType):
                texts = [value.encode() if isinstance(value, str) else value for value in values]
                inner = pa.array(texts, pa.binary()).view(pa.string())
                array = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), inner)
            else:
                array = pa.array(values, ARROW[field.dataType.simpleString()])
            arrays.append(array)
        batch = pa.record_batch(arrays, names=schema.names)
        expected = r"expected UTF-8, got b'x\\xff', in the row \(.*" + f"{name}=\\[?b'x"
        with pytest.raises(BadRowError, match=f"^{name}: {expected}"):
            shape_of(ddl).read(batch)

    def test_a_message_that_is_not_indexed_may_hold_any_bytes(self):
        """As its keys are not hashed."""
        rolled_back = 3 << 2
        keys = pa.array([BAD], pa.binary()).view(pa.string())
        batch = pa.record_batch(
            [pa.array(["T"]), keys, keys, pa.array([rolled_back], pa.int32()), [1], [5]],
            names=schema_of(MESSAGE).names,
        )
        assert len(shape_of(MESSAGE).read(batch).key_hash) == 0


@pytest.mark.parametrize("value", [-(2**63), -1, 2**63 - 1])
def test_a_time_at_an_end_of_64_bits_is_refused_or_exact(value):
    """Of both types: milliseconds beyond what TIMESTAMP holds are named, and none wrap around."""
    micros = pa.array([value], pa.int64()).view(pa.timestamp("us", "UTC"))
    batch = pa.record_batch(
        [pa.array(["T"]), pa.array(["k"]), pa.array([1]), micros], names=schema_of(KEY).names
    )
    if value > 0:
        assert shape_of(KEY).read(batch).store_timestamp.tolist() == [LAST_MILLISECOND]
    else:
        with pytest.raises(BadRowError, match=f"got {value // 1000}, in the row"):
            shape_of(KEY).read(batch)
    with pytest.raises(BadRowError, match=f"got {value}, in the row"):
        read(HASH, [(1, 2, value)])
