"""``columns`` and the options that choose messages, in Spark: each reads only what is asked for."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from pyspark_rmqindex import MessagePlan, last_plan, lookup, register, table
from streams import run_to_end


@pytest.mark.system
def test_messages_are_chosen_by_options_as_by_where(spark, store):
    """With the columns named and their types known; the plan says what was read."""
    every = spark.read.format("rmqcommitlog").load(str(store))
    reader = spark.read.format("rmqcommitlog").option("columns", "topic,store_timestamp")
    narrow = reader.load(str(store))
    assert narrow.schema == every.select("topic", "store_timestamp").schema
    counts = every.groupBy("topic").count().collect()
    assert sorted(narrow.groupBy("topic").count().collect()) == sorted(counts)
    chosen = reader.option("topic", "TopicTest").option("queueId", "[0, 1]").load(str(store))
    where = every.where("topic = 'TopicTest' AND queue_id IN (0, 1)")
    assert sorted(chosen.collect()) == sorted(where.select("topic", "store_timestamp").collect())
    plan = last_plan(chosen)
    assert isinstance(plan, MessagePlan)
    assert plan.columns == ("topic", "store_timestamp")
    assert plan.filters == ("topic IN ['TopicTest']", "queue_id IN [0, 1]")


@pytest.mark.system
def test_lookups_and_audits_take_columns(spark, store):
    """Those of the message need a CommitLog alone."""
    names = {"commitLog": "auto", "topic": "TopicTest", "key": "order-49"}
    reader = spark.read.format("rmqindex")
    full = reader.options(**names, message="true").load(str(store)).select("tags", "phy_offset")
    found = reader.options(**names, columns="tags,phy_offset").load(str(store))
    assert found.columns == ["tags", "phy_offset"]
    assert sorted(found.collect(), key=repr) == sorted(full.collect(), key=repr)
    by_table = table(spark, store, columns=["topic", "key", "position", "phy_offset", "tags"])
    by_table = by_table.where("topic = 'TopicTest' AND key = 'order-49'")
    assert sorted(by_table.select("tags", "phy_offset").collect(), key=repr) == sorted(
        full.collect(), key=repr
    )
    keys = spark.createDataFrame([("order-49",)], "key STRING")
    joined = lookup(keys, store, topic="TopicTest", columns="tags,phy_offset")
    assert joined.columns == ["key", "tags", "phy_offset"]
    assert sorted(joined.drop("key").collect(), key=repr) == sorted(full.collect(), key=repr)
    audit = spark.read.format("rmqindex").options(audit="true", columns="rule,severity")
    assert audit.load(str(store)).columns == ["rule", "severity"]
    audit.load(str(store)).collect()


@pytest.mark.system
def test_a_call_in_sql_takes_columns(spark, store):
    """In the order of their names, for keys with entries and without."""
    register(spark)
    call = (
        f"SELECT * FROM rmq_lookup('{store}', 'TopicTest', '{{key}}', how => 'left', "
        "columns => 'tags,key,phy_offset')"
    )
    found = spark.sql(call.format(key="order-49"))
    assert found.columns == ["tags", "key", "phy_offset"]
    assert found.count() == 11
    assert [tuple(row) for row in spark.sql(call.format(key="absent")).collect()] == [
        (None, "absent", None)
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": "topik"}, "column 'topik': unknown; did you mean 'topic'"),
        ({"columns": "topic", "queueId": "x"}, "option 'queueId': expected an integer"),
    ],
)
def test_a_wrong_name_is_an_error_at_once(spark, store, options, message):
    """Before anything is read."""
    with pytest.raises(AnalysisException, match=message):
        spark.read.format("rmqcommitlog").options(**options).load(str(store))


@pytest.mark.system
@pytest.mark.spark_streams
def test_a_stream_of_messages_takes_them_too(spark, store):
    """Only these messages, of only these columns."""
    stream = (
        spark.readStream.format("rmqcommitlog")
        .options(columns="queue_id,topic", topic="TopicTest")
        .load(str(store))
    )
    run_to_end(stream.writeStream.format("memory").queryName("chosen"))
    every = spark.read.format("rmqcommitlog").load(str(store)).where("topic = 'TopicTest'")
    expected = every.select("queue_id", "topic").collect()
    assert sorted(spark.table("chosen").collect()) == sorted(expected)
