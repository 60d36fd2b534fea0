"""Lookups by options: safe on every Spark version, since each ``load()`` is its own relation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest
from pyspark.errors import PythonException

from kinds import sampled
from rmqindex import index_key, key_hash

TIME_ZONE_CONF = "spark.sql.session.timeZone"


def load(spark, store, **options):
    """Load the sample store with options."""
    return spark.read.format("rmqindex").options(**options).load(str(store))


def hashed(entries, topic, *keys):
    """Return the entries of some keys of a topic."""
    hashes = {key_hash(index_key(topic, key)) for key in keys}
    return [entry for entry in entries if entry.key_hash in hashes]


@pytest.mark.system
def test_one_key_is_looked_up_in_every_file(spark, store, store_entries):
    """The columns topic and key carry what was asked for."""
    rows = load(spark, store, topic="TopicTest", key="order-49").collect()
    expected = hashed(store_entries, "TopicTest", "order-49")
    assert {(row.topic, row.key) for row in rows} == {("TopicTest", "order-49")}
    assert sorted((row.file_path, row.position) for row in rows) == sorted(
        (entry.file_path, entry.position) for entry in expected
    )


def test_an_entry_that_answers_two_keys_is_two_rows(spark, store, store_entries):
    """Aa and BB have one hash; a repeated key has not."""
    keys = json.dumps(["Aa", "BB", "Aa", "absent"])
    rows = load(spark, store, topic="TopicTest", keys=keys).groupBy("key").count().collect()
    count = len(hashed(store_entries, "TopicTest", "Aa"))
    assert sorted(tuple(row) for row in rows) == [("Aa", count), ("BB", count)]


def test_no_keys_are_no_rows(spark, store):
    """An empty list asks for nothing."""
    assert load(spark, store, topic="TopicTest", keys="[]").collect() == []


def test_hashes_are_looked_up_with_and_without_keys(spark, store, store_entries):
    """Together they mean both."""
    some, other = store_entries[0].key_hash, store_entries[10].key_hash
    df = load(spark, store, keyHash=f"[{some}, {other}, {some}]")
    assert "key" not in df.columns
    assert df.count() == sum(entry.key_hash in {some, other} for entry in store_entries)
    wanted = key_hash(index_key("TopicTest", "k"))
    both = load(spark, store, topic="TopicTest", keys='["k", "a#b"]', keyHash=str(wanted))
    assert {row.key for row in both.collect()} == {"k"}


def test_a_narrower_schema_reads_fewer_columns_of_a_lookup(spark, store, store_entries):
    """The key column alone, too."""
    df = (
        spark.read.format("rmqindex")
        .options(topic="TopicTest", key="k")
        .schema("key STRING NOT NULL")
        .load(str(store))
    )
    expected = len(hashed(store_entries, "TopicTest", "k"))
    assert [tuple(row) for row in df.collect()] == [("k",)] * expected


def test_times_are_inclusive_at_both_ends(spark, store, store_entries):
    """In lookups and in scans, given as epoch milliseconds."""
    begin, end = store_entries[100].store_timestamp, store_entries[700].store_timestamp
    times = {"beginTimestamp": str(begin), "endTimestamp": str(end)}
    inside = [entry for entry in store_entries if begin <= entry.store_timestamp <= end]
    assert load(spark, store, **times).count() == len(inside)
    lookup = load(spark, store, topic="TopicTest", key="k", **times)
    assert lookup.count() == len(hashed(inside, "TopicTest", "k"))
    exactly = load(spark, store, beginTimestamp=str(begin), endTimestamp=str(begin))
    assert exactly.count() == sum(entry.store_timestamp == begin for entry in store_entries)


@pytest.mark.parametrize("zone", sampled(["UTC", "Asia/Tokyo", "America/New_York"], "Asia/Tokyo"))
def test_a_text_is_a_time_in_the_session_zone(spark, store, zone):
    """As Spark's own CAST reads it, fractions included."""
    spark.conf.set(TIME_ZONE_CONF, zone)
    begin, end = "2023-11-14 23:30:00", "2023-11-15 09:00:00.5"
    df = load(spark, store, beginTimestamp=begin, endTimestamp=end)
    scan = load(spark, store).where(f"store_timestamp BETWEEN '{begin}' AND '{end}'")
    assert df.count() == scan.count() > 0


def test_the_zone_of_a_text_or_of_an_option_comes_first(spark, store):
    """Then the session's does not matter."""
    counts = set()
    for zone in ("UTC", "Asia/Tokyo"):
        spark.conf.set(TIME_ZONE_CONF, zone)
        counts.add(load(spark, store, beginTimestamp="2023-11-15 01:00:00Z").count())
        named = load(spark, store, beginTimestamp="2023-11-15 10:00", timeZone="Asia/Tokyo")
        counts.add(named.count())
    assert len(counts) == 1


def test_a_text_is_refused_where_its_zone_cannot_be_known(spark, store):
    """Tasks of an RDD do not see the session's confs."""
    df = load(spark, store, beginTimestamp="2023-11-15 01:00:00")
    with pytest.raises(PythonException, match="the session's time zone is not known here"):
        df.rdd.count()
    known = load(spark, store, beginTimestamp="2023-11-15 01:00:00", timeZone="UTC")
    assert known.rdd.count() == known.count()


def test_files_that_begin_later_are_not_read(spark, store, store_entries):
    """What is left out holds nothing that is asked for."""
    from pyspark_rmqindex import last_plan

    begins = [entry.store_timestamp for entry in store_entries if entry.position == 1]
    df = load(spark, store, endTimestamp=str(begins[2] - 1))
    assert df.count() == sum(entry.store_timestamp < begins[2] for entry in store_entries)
    plan = last_plan(df)
    assert (plan.files_kept, plan.files_total) == (2, 5)


@pytest.mark.system
def test_without_a_conf_a_text_is_in_the_zone_of_the_drivers_host(tmp_path, store):
    """Unless Java was told another one, which is refused."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            import pyspark_rmqindex
            from pyspark.sql import SparkSession
            builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
            builder = builder.config("spark.driver.host", "127.0.0.1")
            if len(sys.argv) > 2:
                builder = builder.config("spark.driver.extraJavaOptions", sys.argv[2])
            spark = builder.getOrCreate()
            spark.sparkContext.setLogLevel("OFF")
            load = spark.read.format("rmqindex")
            df = load.option("beginTimestamp", "2023-11-15 10:00:00").load(sys.argv[1])
            right = load.load(sys.argv[1]).where("store_timestamp >= '2023-11-15 10:00:00'")
            try:
                print(df.count() == right.count() > 0)
            except Exception as error:
                print("is not known here" in str(error))
            """
        )
    )
    for arguments in ([], ["-Duser.timezone=America/New_York"]):
        done = subprocess.run(
            [sys.executable, str(script), str(store), *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "TZ": "Asia/Tokyo", "RMQINDEX_LOG_LEVEL": "WARNING"},
            cwd=tmp_path,
            check=True,
        )
        assert done.stdout.split() == ["True"], done.stderr
