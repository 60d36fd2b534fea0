"""``lookup()`` in Spark: keys as rows, matches as rows; and what it refuses."""

from __future__ import annotations

import datetime as dt
import logging
from collections import Counter
from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as sf

from pyspark_rmqindex import lookup, table
from pyspark_rmqindex.join.lookup import _list, _list_files
from pyspark_rmqindex.options import read_options
from rmqindex import IndexFileWriter, Layout, RmqIndexError

ENTRY_COLUMNS = [
    "key_hash",
    "phy_offset",
    "store_timestamp",
    "time_diff",
    "slot",
    "position",
    "prev_position",
    "file_path",
]


@pytest.fixture(scope="module")
def keys(spark, store_pairs):
    """Every key of the sample store, some twice, an absent one and NULLs."""
    absent = [("TopicTest", "absent"), (None, "BB"), ("TopicTest", None)]
    rows = [*store_pairs, *store_pairs[::7], *absent]
    return spark.createDataFrame(rows, "topic STRING, key STRING")


def test_lookup_answers_what_table_answers(spark, store, store_pairs):
    """With the CommitLog: the same entries, and the message beside them."""
    some = store_pairs[::9]
    keys = spark.createDataFrame(some, "topic STRING, key STRING")
    topics, texts = ({pair[place] for pair in some} for place in (0, 1))
    by_table = (
        table(spark, store, message=True)
        .where(sf.col("topic").isin(*topics) & sf.col("key").isin(*texts))
        .join(sf.broadcast(keys), ["topic", "key"])
    )
    expected = Counter(map(repr, by_table.collect()))
    for strategy in ("probe", "scan"):
        found = lookup(keys, store, message=True, strategy=strategy)
        assert found.schema == by_table.schema
        assert Counter(map(repr, found.collect())) == expected


def test_rows_keep_their_columns_and_are_answered_each_time(store, keys):
    """Nested columns come through as they are; inner, left and anti fit together."""
    wide = keys.selectExpr(
        "*",
        "monotonically_increasing_id() AS number",
        "array(named_struct('a', key, 'b', 1.25BD)) AS nested",
        "map('k', topic) AS pairs",
        "timestamp_ntz'2024-01-01 00:00:00' AS local",
        "X'00ff' AS bytes",
    ).localCheckpoint()
    inner, left, anti = (
        lookup(wide, store, how=how, commitLog="none") for how in ("inner", "left", "anti")
    )
    assert inner.columns == [*wide.columns, *ENTRY_COLUMNS]
    assert left.schema == inner.schema
    assert anti.schema == wide.schema
    answered = set(map(repr, inner.select(wide.columns).collect()))
    unanswered = Counter(map(repr, anti.collect()))
    every = Counter(map(repr, wide.collect()))
    assert unanswered == Counter({row: n for row, n in every.items() if row not in answered})
    assert sum(unanswered.values()) == 3
    rows = Counter(map(repr, left.collect()))
    nulls = Counter(
        map(
            repr,
            left.where("position IS NULL AND file_path IS NULL").select(wide.columns).collect(),
        )
    )
    assert nulls == unanswered
    assert rows - Counter(map(repr, inner.collect())) == Counter(
        map(repr, left.where("position IS NULL").collect())
    )


def test_each_row_has_its_own_time_range_in_the_sessions_zone(spark, store):
    """The columns begin and end are inclusive; the options hold for every row besides."""
    base = table(spark, store).where("topic = 'TopicTest' AND key = 'order-49'")
    times = sorted(row[0] for row in base.select("store_timestamp").collect())
    spark.conf.set("spark.sql.session.timeZone", "Asia/Shanghai")
    rows = [(times[2], times[5]), (None, times[0]), (times[-1], None), (None, None)]
    ranges = spark.createDataFrame(
        [("TopicTest", "order-49", number) for number in range(len(rows))],
        "topic STRING, key STRING, number INT",
    ).selectExpr(
        "*",
        *(
            "timestamp_micros(CASE number "
            + " ".join(
                f"WHEN {number} THEN {(row[place].replace(tzinfo=dt.UTC).timestamp() * 1e6):.0f}"
                for number, row in enumerate(rows)
                if row[place] is not None
            )
            + f" END) AS {name}"
            for place, name in enumerate(("begin", "End"))
        ),
    )
    expected = [
        sum((low or times[0]) <= time <= (high or times[-1]) for time in times)
        for low, high in rows
    ]
    found = lookup(ranges, store).groupBy("number").count().orderBy("number").collect()
    assert [row["count"] for row in found] == expected
    late = lookup(ranges, store, beginTimestamp=times[-1].isoformat(sep=" "), timeZone="UTC")
    assert late.count() == sum(time == times[-1] for time in times) * 2


def test_several_paths_and_options_are_those_of_a_load(spark, store, tmp_path):
    """The column store tells several stores apart; missing paths can be ignored."""
    one = spark.createDataFrame([("TopicTest", "BB")], "topic STRING, key STRING")
    assert lookup(one, store).count() == 15
    assert lookup(one, store, commitLog="none").count() == 26
    several = lookup(one, [store, tmp_path / "none"], ignoreMissingFiles=True, storeColumn=True)
    assert [row["store"] for row in several.select("store").distinct().collect()] == [str(store)]
    (tmp_path / "index").mkdir()
    (tmp_path / "checkpoint").touch()
    assert lookup(one, tmp_path / "index").count() == 0
    assert lookup(one, tmp_path / "index", how="left").select("phy_offset").collect()[0][0] is None
    plan = several._jdf.queryExecution().toString()
    assert "rmqindex_lookup_auto_in_5_files" in plan
    stream = spark.readStream.format("rate").load().selectExpr("'T' AS topic", "'k' AS key")
    assert lookup(stream, store).isStreaming


def test_few_partitions_are_divided_where_that_is_worth_a_shuffle(spark, tmp_path):
    """A hot range of keys in one partition does not keep one core alone busy."""
    with IndexFileWriter(tmp_path / "20231114221320000", Layout(3, 60)) as writer:
        writer.put("T#7", 0, 1_700_000_000_000)
    many = spark.range(0, 50_000_000, 1, 1).selectExpr("'T' AS topic", "string(id) AS key")
    few = spark.range(0, 1_000, 1, 1).selectExpr("'T' AS topic", "string(id) AS key")
    options = {"maxHashSlotNum": 3, "maxIndexNum": 60}
    assert "RoundRobin" in lookup(many, tmp_path, **options)._jdf.queryExecution().toString()
    found = lookup(few, tmp_path, **options)
    assert "RoundRobin" not in found._jdf.queryExecution().toString()
    assert found.count() == 1


@pytest.mark.parametrize(
    ("select", "arguments", "message"),
    [
        ("'a' AS key", {}, "column 'topic' of the keys: missing; the columns are key"),
        ("'a' AS topic, 1 AS key", {}, "'key' of the keys: expected STRING, got INT"),
        ("'a' AS topic, 'k' AS key, 'x' AS KEY", {}, "'key' of the keys: expected once"),
        ("'a' AS topic, 'k' AS key, '1' AS begin", {}, "'begin' .* expected TIMESTAMP, got STRING"),
        (
            "'a' AS topic, 'k' AS key, timestamp_ntz'2024-01-01' AS `end`",
            {},
            "'end' .* expected TIMESTAMP, got TIMESTAMP_NTZ",
        ),
        (
            "'a' AS topic, 'k' AS key, 1 AS Position",
            {},
            "column 'Position' of the keys: the entries that are found have a column of this name",
        ),
        ("'a' AS topic, 'k' AS key", {"how": "outer"}, "how: expected one of inner, left, semi"),
        ("'a' AS topic, 'k' AS key", {"strategy": "fast"}, "strategy: expected one of auto, probe"),
        ("'a' AS topic, 'k' AS key", {"keyHash": 5}, "option 'keyHash': not for lookup"),
        ("'a' AS topic, 'k' AS key", {"mod": "x"}, "option 'mod': unknown; did you mean 'mode'"),
    ],
)
def test_what_makes_no_sense_is_an_error_at_once(spark, store, select, arguments, message):
    """Before any key is read."""
    with pytest.raises(ValueError, match=message):
        lookup(spark.sql(f"SELECT {select}"), store, **arguments)


def test_keys_of_pandas_and_arrow_are_those_of_a_dataframe(spark, store):
    """One topic for all rows, and the name of the column of keys."""
    ids = {"order_id": ["order-49", "BB", "absent", None], "amount": [1, 2, 3, 4]}
    rows = spark.createDataFrame(list(zip(*ids.values(), strict=True)), list(ids))
    names = {"topic": "TopicTest", "key": "order_id"}
    expected = {how: lookup(rows, store, how=how, **names).collect() for how in ("semi", "anti")}
    assert sorted(row.order_id for row in expected["semi"]) == ["BB", "order-49"]
    assert sorted(row.amount for row in expected["anti"]) == [3, 4]
    categories = pa.table(ids).set_column(
        0, "order_id", pa.array(ids["order_id"]).dictionary_encode()
    )
    for given in (pd.DataFrame(ids, index=list("wxyz")), pa.table(ids), categories):
        for how, answer in expected.items():
            found = lookup(given, store, how=how, **names)
            assert found.columns == ["order_id", "amount"]
            assert sorted(found.collect(), key=repr) == sorted(answer, key=repr)


def test_a_missing_path_and_an_unconfirmed_entry_are_errors(spark, store, tmp_path, caplog):
    """The first when the lookup is planned, the second when it runs, if it is to be one."""
    one = spark.createDataFrame([("TopicTest", "BB")], "topic STRING, key STRING")
    with pytest.raises(RmqIndexError, match="no such file"):
        lookup(one, tmp_path / "none")
    (tmp_path / "index").mkdir()
    for file in (store / "index").iterdir():
        (tmp_path / "index" / file.name).write_bytes(file.read_bytes())
    with pytest.raises(PythonException, match="match_state 'no_log'"):
        lookup(one, tmp_path, unverified="error").collect()
    assert lookup(one, tmp_path, unverified="drop").count() == 0
    states = lookup(one, tmp_path).select("match_state").distinct().collect()
    assert [row[0] for row in states] == ["no_log"]
    logger = logging.getLogger("pyspark_rmqindex")
    logger.addHandler(caplog.handler)
    try:
        lookup(one, tmp_path, logLevel="INFO")
    finally:
        logger.removeHandler(caplog.handler)
    assert "looking up the keys of a DataFrame in 5 of 5 files (959 entries), by slots up to" in (
        caplog.text
    )


def test_files_are_listed_where_tasks_see_them_if_the_client_may_not(spark, store):
    """The client of Spark Connect may be on another host: a task lists the same files."""
    options = read_options({"path": str(store), "commitLog": "auto"})
    client = SimpleNamespace(sparkSession=spark)  # a DataFrame of Spark Connect has no _jdf
    assert _list_files(client, options) == _list(options)


@pytest.mark.parametrize("log", ["none", "auto"])
def test_the_ends_of_timestamp_are_no_bounds(spark, store, log):
    """Neither in columns nor, as milliseconds, in options."""
    least, most = (f"timestamp_micros({number})" for number in (-(2**63), 2**63 - 1))
    one = "'TopicTest' AS topic, 'BB' AS key"
    count = lookup(spark.sql(f"SELECT {one}"), store, commitLog=log).count()
    keys = spark.sql(f"SELECT {one}, {least} AS begin, {most} AS end")
    assert count == lookup(keys, store, commitLog=log).count() > 10
    options = {"beginTimestamp": -(2**63), "endTimestamp": 2**63 - 1}
    assert lookup(keys, store, commitLog=log, **options).count() == count
    loaded = spark.read.format("rmqindex").options(topic="TopicTest", key="BB", commitLog=log)
    assert loaded.options(**options).load(str(store)).count() == count
    nothing = spark.sql(f"SELECT {one}, {most} AS begin, {least} AS end")
    assert lookup(nothing, store, commitLog=log).count() == 0


@pytest.mark.parametrize("log", ["none", "auto"])
def test_a_key_or_a_topic_that_is_no_text_matches_nothing(spark, store, log):
    """The other rows of its batch are answered, and the row itself comes back as it is."""
    keys = spark.sql("""
        SELECT * FROM VALUES ('TopicTest', 'BB'), ('TopicTest', cast(X'ff' AS STRING)),
        (cast(X'eda080' AS STRING), 'BB') AS keys(topic, key)
    """)
    counts = [lookup(keys, store, how=how, commitLog=log).count() for how in ("inner", "left")]
    assert counts[1] == counts[0] + 2 > 12
    anti = lookup(keys, store, how="anti", commitLog=log)
    assert {tuple(row) for row in anti.selectExpr("hex(topic)", "hex(key)").collect()} == {
        ("546F70696354657374", "FF"),
        ("EDA080", "4242"),
    }


def test_whether_keys_are_spread_changes_no_row(spark, store, monkeypatch):
    """The text of a plan decides that, and it may have the word in the name of a column."""
    rows = [("TopicTest", "order-49"), ("TopicTest", "BB")]
    keys = spark.createDataFrame(rows, "topic STRING, key STRING").coalesce(1)
    monkeypatch.setattr("pyspark_rmqindex.join.lookup._WORTH_SHUFFLING", 0)
    named = keys.selectExpr("*", "key AS Exchange")
    found = [lookup(frame, store).select("key", "phy_offset") for frame in (keys, named)]
    assert found[0].rdd.getNumPartitions() > found[1].rdd.getNumPartitions() == 1
    assert Counter(found[0].collect()) == Counter(found[1].collect())


def test_columns_have_any_names(spark, store):
    """Those of a nested field, of none, or of several at once, and in the answer as they were."""
    names = ["order.id", "a`b", "*", "x", "x", ""]
    keys = spark.sql("SELECT 'BB', 1, 2, 3, 4, 5").toDF(*names)
    found = lookup(keys, store, topic="TopicTest", key="order.id")
    assert found.columns[: len(names)] == names
    assert {tuple(row)[: len(names)] for row in found.collect()} == {("BB", 1, 2, 3, 4, 5)}
    kept = lookup(keys, store, topic="TopicTest", key="order.id", how="semi")
    assert [tuple(row) for row in kept.collect()] == [("BB", 1, 2, 3, 4, 5)]


def test_a_type_that_arrow_lacks_is_named(spark, store):
    """With the cast that helps."""
    rows = spark.sql("SELECT 'BB' AS key, array(INTERVAL '3' MONTH) AS z")
    with pytest.raises(ValueError, match=r"column 'z' of the keys: .*INTERVAL MONTH.*cast it"):
        lookup(rows, store, topic="TopicTest")
    variant = spark.sql("SELECT 'BB' AS key, parse_json('{}') AS z")
    assert lookup(variant, store, topic="TopicTest", how="semi").count() == 1
