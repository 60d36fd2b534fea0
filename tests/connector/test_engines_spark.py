"""The engines of Spark find the entries that a slow twin does, for every key of a store."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql.functions import col

from engines import RECORDED_STORES, Row
from kinds import sampled
from pyspark_rmqindex import lookup, register, table

CASES = [
    "sample",
    "sample, indexed twice at its end",
    "message kinds",
    "5.5.0",
    "dledger",
]
COLUMNS = [
    "topic",
    "key",
    "regexp_extract(file_path, '[^/]+$', 0) AS file",
    "position",
    "phy_offset",
    "unix_millis(store_timestamp) AS store_timestamp",
    "match_state",
]


@pytest.fixture(scope="module", params=sampled(CASES, "sample, indexed twice at its end"))
def case(request):
    """Return each store."""
    return RECORDED_STORES[request.param]


def rows_of(frame):
    """Return the entries that a query found."""
    return Counter(Row(*row) for row in frame.selectExpr(*COLUMNS).collect())


def log_of(case):
    """Return the option that names the log."""
    return str(case.commit_log or "auto")


@pytest.fixture
def keys(spark, twin):
    """Return all keys as a DataFrame."""
    return spark.createDataFrame(twin.pairs(), "topic STRING, key STRING")


def test_lookup_finds_the_entries_of_every_key(case, twin, keys):
    """``lookup()``, by slots and by scan."""
    for strategy in ("probe", "scan"):
        found = lookup(keys, str(case.path), commitLog=log_of(case), strategy=strategy)
        assert rows_of(found) == twin.expected(twin.pairs())


def test_a_load_with_a_filter_finds_those_that_are_verified(case, spark, twin, keys):
    """A scan joined with the keys: what nobody can confirm has none."""
    loaded = spark.read.format("rmqindex").option("commitLog", log_of(case)).load(str(case.path))
    found = loaded.join(keys, ["topic", "key"], "left_semi")
    expected = twin.expected(twin.pairs())
    verified = {row: n for row, n in expected.items() if row.state == "verified"}
    assert rows_of(found) == verified


@pytest.mark.spark_pushdown
def test_table_finds_the_entries_of_keys(case, spark, twin):
    """All topics with as many keys as one ``table()`` takes at once."""
    pairs = twin.pairs()
    topics = sorted({topic for topic, _ in pairs})
    some = ["Aa", "BB", *(key for _, key in pairs[:: 1 + len(pairs) * len(topics) // 3000])]
    some = list(dict.fromkeys(some))
    frame = table(spark, str(case.path), commitLog=log_of(case))
    found = frame.where(col("topic").isin(topics) & col("key").isin(some))
    assert rows_of(found) == twin.expected([(topic, key) for topic in topics for key in some])


def test_rmq_lookup_finds_the_entries_of_every_key(case, spark, twin, keys):
    """A call for each row of keys."""
    register(spark)
    keys.createOrReplaceTempView("asked")
    found = spark.sql(
        "SELECT found.* FROM asked, LATERAL rmq_lookup("
        f"'{case.path}', asked.topic, asked.key, commitLog => '{log_of(case)}') AS found"
    )
    assert rows_of(found) == twin.expected(twin.pairs())
