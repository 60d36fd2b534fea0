"""Streams through Spark: from a store that grows, through stops and restarts, into files."""

from __future__ import annotations

import random
import time

import pytest
from pyspark.errors import StreamingQueryException

from live_broker import LiveIndex, started
from streams import is_impatience, run_to_end

pytestmark = pytest.mark.spark_streams
LIMITS = {"rmqindex": "maxEntriesPerTrigger", "rmqcommitlog": "maxMessagesPerTrigger"}


def growing(spark, root, name):
    """Return a stream of a store into Parquet files."""
    return (
        spark.readStream.format(name)
        .option(LIMITS[name], 20_000)
        .load(str(root))
        .writeStream.format("parquet")
        .option("path", f"{root}/out-{name}")
        .option("checkpointLocation", f"{root}/checkpoint-{name}")
    )


@pytest.mark.system
def test_streams_that_are_stopped_at_any_moment_hold_exactly_what_was_written(spark, tmp_path):
    """Entries and messages of a store that is written meanwhile, each once."""
    root = tmp_path / "store"
    chance = random.Random()
    with started(root, "index", seconds=6, rate=2000) as writer:
        while writer.poll() is None:
            queries = {name: growing(spark, root, name).start() for name in LIMITS}
            time.sleep(chance.uniform(0.5, 3))
            for name, query in queries.items():
                # Spark itself refuses a checkpoint of which it was about to write the first offset.
                while query.isActive and not (root / f"checkpoint-{name}/offsets/0").exists():
                    time.sleep(0.05)
                query.stop()
                failure = query.exception()
                assert failure is None or is_impatience(failure)
    for name in LIMITS:
        run_to_end(growing(spark, root, name))
        place = ["file_path", "position"] if name == "rmqindex" else ["topic"]
        columns = [*place, "phy_offset", "store_timestamp"]
        found = spark.read.parquet(f"{root}/out-{name}").select(columns).collect()
        written = spark.read.format(name).load(str(root)).select(columns).collect()
        assert written
        assert sorted(found) == sorted(written)


def test_a_stream_takes_a_schema_and_filters_and_ends_where_nothing_is_new(spark, store, tmp_path):
    """Batches of at most as many entries as the option says; the second run has nothing to do."""
    stream = (
        spark.readStream.format("rmqindex")
        .schema("position INT, key STRING")
        .options(topic="TopicTest", key="order-49", beginTimestamp="2023-11-14 00:00:00")
        .option("maxFilesPerTrigger", 3)
        .load(str(store))
    )
    rows = []

    def keep(batch, number):
        rows.append((number, len(batch.collect())))

    for _ in range(2):
        writer = stream.writeStream.foreachBatch(keep)
        run_to_end(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
    load = spark.read.format("rmqindex").options(topic="TopicTest", key="order-49")
    assert [number for number, _ in rows] == [0, 1]
    assert sum(count for _, count in rows) == load.load(str(store)).count() > 0


@pytest.mark.system
def test_lost_entries_end_a_stream_with_an_error_that_names_them(spark, tmp_path):
    """The exception of the query carries the file, the position and what to do."""
    index = LiveIndex(tmp_path / "index", 5, 12)
    for number in range(1, 31):
        index.put(number * 7919, number * 100, 1_700_000_000_000 + number)
    stream = spark.readStream.format("rmqindex").option("maxEntriesPerTrigger", 15)

    def run():
        run_to_end(
            stream.load(str(index.directory))
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
        )

    run()
    min(index.directory.iterdir()).unlink()
    run()  # what was read may go
    for path in list(index.directory.iterdir()):
        path.unlink()
    index.end = (9_000, index.end[1])
    index.roll("99990101000000000")
    index.put(5, 9_100, 1_700_000_001_000)
    with pytest.raises(StreamingQueryException, match=r"the file is gone.*failOnDataLoss=false"):
        run()
