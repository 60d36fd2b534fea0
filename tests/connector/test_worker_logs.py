"""What tasks count becomes rows of ``spark.tvf.python_worker_logs()`` where they are kept."""

from __future__ import annotations

import time
from collections import Counter
from typing import NamedTuple

import pytest

from pyspark_rmqindex import last_plan, lookup, table
from rmqindex import index_key, key_hash

# The rows are as old as pushdown.
pytestmark = pytest.mark.spark_pushdown

CONF = "spark.sql.pyspark.worker.logging.enabled"
PAIRS = [("TopicTest", "order-49"), ("TopicTest", "BB"), ("TopicTest", "absent")]
# Spark reads the workers' output while they run on; nobody waits that long.
SECONDS = 120


class Told(NamedTuple):
    """What the tasks of a query told: their lines, and their counts, added up."""

    lines: list[str]
    counts: Counter


@pytest.fixture
def run(spark):
    """Run a query in a session that keeps rows, and return its rows and what its tasks told."""
    spark.conf.set(CONF, "true")

    def records():
        found = spark.tvf.python_worker_logs().where("logger = 'pyspark_rmqindex'").orderBy("ts")
        return [record for record in found.collect() if record.level == "INFO"]

    def run_query(frame, lines=1):
        before = len(records())
        rows = frame.collect()
        limit = time.monotonic() + SECONDS
        while len(found := records()[before:]) < lines and time.monotonic() < limit:
            time.sleep(0.1)
        counts = Counter()
        for record in found:
            texts = {name: text for name, text in record.context.items() if text.isdecimal()}
            counts.update({name: int(text) for name, text in texts.items()})
        assert len(found) == lines
        return rows, Told([record.msg for record in found], counts)

    yield run_query
    spark.conf.unset(CONF)


def candidates(store_entries, pairs):
    """Return how many entries have the hash of one of the pairs."""
    hashes = Counter(key_hash(index_key(*pair)) for pair in pairs)
    return sum(hashes[entry.key_hash] for entry in store_entries)


def test_a_scan_tells_what_it_read_and_what_its_filters_dropped(run, spark, store, store_entries):
    """Each task for itself, in a line and in its context."""

    def load(**options):
        return spark.read.format("rmqindex").options(**options).load(str(store))

    rows, told = run(load())
    assert len(rows) == len(store_entries)
    assert told.counts == Counter(files=5, entries=len(rows), verified=0, dropped=0)
    assert told.lines == [f"read: files 5, entries {len(rows)}, verified 0, dropped 0"]
    assert run(load(maxPartitionBytes="8000"), lines=5)[1].counts == told.counts
    times = sorted(entry.store_timestamp for entry in store_entries)
    some, told = run(load(beginTimestamp=str(times[400])))
    assert 0 < len(some) < len(rows)
    assert told.counts["entries"] - told.counts["dropped"] == len(some)
    assert told.counts["dropped"] > 0


@pytest.mark.system
def test_a_scan_tells_how_many_entries_a_message_confirmed(run, spark, store):
    """By the column that says so."""
    frame = spark.read.format("rmqindex").option("commitLog", "auto").load(str(store))
    rows, told = run(frame)
    verified = sum(row.match_state == "verified" for row in rows)
    assert verified
    assert (told.counts["entries"], told.counts["verified"]) == (len(rows), verified)


def test_a_lookup_by_key_tells_its_candidates(run, spark, store, store_entries):
    """Entries of the key's hash, of which those of another key are dropped."""
    where = "topic = 'TopicTest' AND key = 'BB'"
    rows, told = run(table(spark, store).where(where))
    found = candidates(store_entries, [("TopicTest", "BB")])
    assert 0 < len(rows) < found
    dropped = found - len(rows)
    assert told.counts == Counter(
        files=5, slots=5, candidates=found, verified=found, dropped=dropped
    )


@pytest.mark.system
def test_a_lookup_of_rows_tells_what_its_summary_adds_up(run, spark, store, store_entries):
    """One line and its counts for each task, in place of the line that other sessions log."""
    keys = spark.createDataFrame(PAIRS, "topic STRING, key STRING").repartition(1)
    frame = lookup(keys, store)
    rows, told = run(frame)
    found = candidates(store_entries, PAIRS)
    assert (told.counts["candidates"], told.counts["keys"]) == (found, 3)
    assert told.counts["candidates"] - told.counts["dropped"] == len(rows)
    summary = last_plan(frame)
    assert told.counts == {name: getattr(summary, name) for name in told.counts}
    assert told.lines[0].startswith("looked 3 keys up")


@pytest.mark.system
def test_messages_and_queues_tell_rows_and_bytes(run, spark, store):
    """The bytes of the log are those of the plan."""
    chosen = spark.read.format("rmqcommitlog").option("queueId", "[0]").load(str(store))
    rows, told = run(chosen)
    assert told.counts == Counter(bytes=last_plan(chosen).bytes, messages=len(rows))
    rows, told = run(spark.read.format("rmqconsumequeue").load(str(store)))
    queues = [path for path in (store / "consumequeue").rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in queues)
    assert told.counts == Counter(files=len(queues), bytes=size, units=len(rows))


@pytest.mark.system
def test_a_plan_is_a_row_with_its_level(run, spark, store):
    """Spark keeps the lines of planning, too."""
    frame = spark.read.format("rmqindex").option("logLevel", "INFO").load(str(store))
    _, told = run(frame, lines=2)
    assert told.lines[0] == str(last_plan(frame))
