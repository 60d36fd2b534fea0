"""Entries to the RecordBatches that Spark asks for."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_rmqindex.read.batches import MAX_ROWS, BatchBuilder, keep, merge
from pyspark_rmqindex.schema import arrow_schema, full_schema
from rmqindex import CorruptIndexError
from rmqindex.messagestore import NOTHING, Range
from rmqindex.storage import Location
from rmqindex.times import LAST_MILLISECOND

TIMES = [1_700_000_000_123, -1, 0]


def entries(**columns):
    """Make a batch of entries."""
    types = {"phy_offset": pa.int64(), "store_timestamp": pa.int64()}
    return pa.record_batch(
        {name: pa.array(values, types.get(name, pa.int32())) for name, values in columns.items()}
    )


EVERYTHING = entries(
    key_hash=[1, 2, 3],
    phy_offset=[10, 20, 30],
    store_timestamp=TIMES,
    time_diff=[0, 1, 2],
    slot=[1, 2, 3],
    position=[1, 2, 3],
    prev_position=[0, 0, 0],
)


def test_a_batch_has_exactly_the_schema_that_spark_compares_it_with():
    """Every column, and a subset in another order with NOT NULL."""
    batch = BatchBuilder(full_schema(keys=False)).build(EVERYTHING, Location("/f"))
    assert batch.schema.equals(arrow_schema(full_schema(keys=False)))
    assert batch.schema.field("store_timestamp").type == pa.timestamp("us", tz="UTC")
    subset = StructType(
        [
            StructField("file_path", StringType(), nullable=False),
            StructField("Store_Timestamp", TimestampType(), nullable=False),
            StructField("phy_offset", LongType()),
        ]
    )
    builder = BatchBuilder(subset)
    assert builder.entry_columns == ["store_timestamp", "phy_offset"]
    batch = builder.build(EVERYTHING, Location("/f"))
    assert batch.schema.equals(arrow_schema(subset))
    assert batch.column(0).to_pylist() == [Location("/f")] * 3
    assert batch.column(1).cast(pa.int64()).to_pylist() == [time * 1000 for time in TIMES]


def test_the_columns_of_a_lookup_carry_what_was_asked_for():
    """Topic and key are given beside the entries."""
    keys = {"topic": pa.array(["t", "t", "u"]), "key": pa.array(["a", "b", "a"])}
    batch = BatchBuilder(full_schema(keys=True)).build(EVERYTHING, Location("/f"), keys)
    assert batch.column("topic").to_pylist() == ["t", "t", "u"]
    assert batch.column("key").to_pylist() == ["a", "b", "a"]


def test_paths_of_another_file_or_length_are_not_mixed_up():
    """The repeated path is kept between batches."""
    builder = BatchBuilder(StructType([StructField("file_path", StringType())]))
    for path, count in (("/a", 2), ("/a", 5), ("/b", 3), ("/b", 1), ("/a", 4)):
        batch = builder.build(entries(position=range(count)), path)
        assert batch.column(0).to_pylist() == [path] * count


@pytest.mark.parametrize("time", [2**62, -(2**62)])
def test_a_time_that_timestamp_cannot_hold_is_an_error(time):
    """Rather than another time."""
    builder = BatchBuilder(StructType([StructField("store_timestamp", TimestampType())]))
    with pytest.raises(CorruptIndexError, match=f"/f: begin_timestamp at byte 0: .* got {time}"):
        builder.build(entries(store_timestamp=[0, time]), Location("/f"))


LIMITS = st.one_of(
    st.none(), st.integers(-5, 5), st.sampled_from([-(2**63), 2**63, 2**31, -(2**40)])
)


@given(
    st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), max_size=12),
    st.builds(Range, LIMITS, LIMITS),
    st.builds(Range, LIMITS, LIMITS),
)
def test_ranges_keep_what_lies_inside_all_of_them(rows, positions, offsets):
    """Also bounds beyond the column's type."""
    batch = entries(position=[row[0] for row in rows], phy_offset=[row[1] for row in rows])
    kept = [
        row
        for part in keep(batch, {"position": positions, "phy_offset": offsets})
        for row in zip(*(column.to_pylist() for column in part.columns), strict=True)
    ]

    def inside(value, bounds):
        return (bounds.low is None or bounds.low <= value) and (
            bounds.high is None or value <= bounds.high
        )

    assert kept == [row for row in rows if inside(row[0], positions) and inside(row[1], offsets)]


def test_a_large_batch_is_cut_to_size():
    """A lookup can return a whole file at once."""
    batch = entries(position=range(2 * MAX_ROWS + 5))
    assert [part.num_rows for part in keep(batch, {})] == [MAX_ROWS, MAX_ROWS, 5]
    assert list(keep(batch, {"position": NOTHING})) == []


@given(st.lists(st.integers(0, MAX_ROWS), max_size=8))
def test_small_batches_are_united_in_order(counts):
    """Into batches that are no larger than others."""
    total = sum(counts)
    numbers = pa.array(range(total), pa.int32())
    batches, start = [], 0
    for count in counts:
        batches.append(pa.record_batch({"position": numbers.slice(start, count)}))
        start += count
    merged = list(merge(batches))
    assert all(0 < batch.num_rows <= MAX_ROWS for batch in merged)
    assert pa.concat_arrays([*(b.column(0) for b in merged), pa.array([], pa.int32())]) == numbers
    assert all(one.num_rows + two.num_rows > MAX_ROWS for one, two in itertools.pairwise(merged))


def test_an_unknown_column_never_reaches_a_batch():
    """check_schema refuses it before; the builder only meets known ones."""
    builder = BatchBuilder(StructType([StructField("position", IntegerType())]))
    assert builder.build(entries(position=[7]), Location("/f")).column(0).to_pylist() == [7]


BEYOND = [-(2**63), -LAST_MILLISECOND - 1, LAST_MILLISECOND + 1, 2**63 - 1]


@pytest.mark.parametrize("stored", [-LAST_MILLISECOND, LAST_MILLISECOND, *BEYOND])
def test_store_times_are_exact_or_refused(stored):
    """Up to the ends of TIMESTAMP, and nothing beyond them wraps around."""
    builder = BatchBuilder(StructType([StructField("store_timestamp", TimestampType())]))
    batch = entries(store_timestamp=[0, stored])
    if stored in BEYOND:
        with pytest.raises(CorruptIndexError, match=f"got {stored}"):
            builder.build(batch, Location("/f"))
    else:
        built = builder.build(batch, Location("/f")).column(0).cast(pa.int64())
        assert built.to_pylist() == [0, stored * 1000]
