"""``table()``: WHERE finds entries by their slots, and every query gives what a scan gives.

The answers are compared with those of the same SQL text on a plain view that holds every entry of
the sample store with each of its known keys.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time

import pytest
from pyspark.errors import AnalysisException, PythonException
from table_queries import SHAPES, UNBOUND, A, B, C

import pyspark_rmqindex
from kinds import sampled
from pyspark_rmqindex import last_plan
from rmqindex import index_key, key_hash

PUSHDOWN_CONF = "spark.sql.python.filterPushdown.enabled"
TIME_ZONE_CONF = "spark.sql.session.timeZone"


def table(spark, path, **options):
    """Make a table over the index alone: what it finds is what its entries say."""
    return pyspark_rmqindex.table(spark, path, **{"commitLog": "none", **options})


@pytest.fixture(autouse=True)
def _another_zone(spark):
    """Run everything in a zone that is neither UTC nor the machine's."""
    spark.conf.set(TIME_ZONE_CONF, "Asia/Tokyo")


@pytest.fixture(scope="module")
def truth(spark, store_entries, store_pairs):
    """The right answer of every shape, from a view that knows everything."""
    by_hash = {}
    for entry in store_entries:
        by_hash.setdefault(entry.key_hash, []).append(entry)
    rows = [
        (topic, key, *entry)
        for topic, key in store_pairs
        for entry in by_hash.get(key_hash(index_key(topic, key)), [])
    ]
    frame = spark.createDataFrame(
        rows,
        "topic STRING, key STRING, key_hash INT, phy_offset BIGINT, ms BIGINT, time_diff INT, "
        "slot INT, position INT, prev_position INT, file_path STRING",
    )
    columns = [
        "timestamp_millis(ms) AS store_timestamp" if name == "ms" else name
        for name in frame.columns
    ]
    frame.selectExpr(*columns).createOrReplaceTempView("truth")
    return Truth(spark)


class Truth(dict):
    """The right answer of a shape, asked for when it is first needed."""

    def __init__(self, spark):
        """Answer from the view ``truth`` of a session."""
        super().__init__()
        self._spark = spark

    def __missing__(self, name):
        """Ask the view, in the zone of these tests."""
        zone = self._spark.conf.get(TIME_ZONE_CONF)
        self._spark.conf.set(TIME_ZONE_CONF, "Asia/Tokyo")
        self[name] = answer(self._spark.sql(SHAPES[name].format(v="truth")))
        self._spark.conf.set(TIME_ZONE_CONF, zone)
        return self[name]


def answer(df):
    """Return the rows of a DataFrame in one order."""
    return sorted((tuple(row) for row in df.collect()), key=repr)


def view_of(frame, name="v"):
    """Register a DataFrame and return the name."""
    frame.createOrReplaceTempView(name)
    return name


@pytest.mark.system
def test_every_shape_is_right_on_one_table_in_any_order(spark, store, truth):
    """Each is asked, then some again backwards, all on one relation."""
    v = view_of(table(spark, store))
    for name in [*SHAPES, *list(SHAPES)[::-4]]:
        assert answer(spark.sql(SHAPES[name].format(v=v))) == truth[name], name
    assert sum(len(truth[name]) > 0 for name in SHAPES) > len(SHAPES) - 8


@pytest.mark.parametrize(
    "name", sampled(SHAPES, "one key", "a list", "keys of one hash", "union all", "exists", "times")
)
def test_every_shape_is_right_on_a_fresh_table(spark, store, truth, name):
    """Nothing came before it."""
    v = view_of(table(spark, store))
    assert answer(spark.sql(SHAPES[name].format(v=v))) == truth[name]


@pytest.mark.system
def test_pauses_between_the_steps_change_nothing(spark, store, truth):
    """All are written, then all explained, then all cached, then all run, seconds apart."""
    v = view_of(table(spark, store))
    frames = {name: spark.sql(text.format(v=v)) for name, text in SHAPES.items()}
    time.sleep(2)
    with contextlib.redirect_stdout(None):
        for frame in frames.values():
            frame.explain()
    time.sleep(2)
    first = {name: answer(frames[name]) for name in list(SHAPES)[::3]}
    for frame in frames.values():
        frame.cache()
    time.sleep(2)
    for name in reversed(frames):
        assert answer(frames[name]) == truth[name], name
    time.sleep(1)
    assert {name: answer(frames[name]) for name in first} == first


def test_two_that_are_planned_before_either_runs_are_both_right(spark, store, truth):
    """Whichever runs first, and when one is asked again after a third."""
    t = table(spark, store)
    one, two = t.where(A), t.where(B)
    with contextlib.redirect_stdout(None):
        one.explain()
        two.explain()
    assert answer(one) == truth["one key"]
    assert answer(two) == truth["another key"]
    assert t.where(C).count() > 0
    assert answer(one) == truth["one key"]
    assert answer(two.unionAll(one)) == sorted(truth["one key"] + truth["another key"], key=repr)


@pytest.mark.parametrize("name", sampled(UNBOUND, "everything", "a join"))
def test_an_unbound_query_is_refused_and_spoils_nothing(spark, store, truth, name):
    """Before and after a lookup, with what to write instead."""
    v = view_of(table(spark, store))
    for _ in range(2):
        with pytest.raises(AnalysisException, match="not bound: a query on table") as caught:
            spark.sql(UNBOUND[name].format(v=v)).collect()
        assert "WHERE topic = 'TopicTest' AND key IN ('a', 'b')" in str(caught.value)
        assert answer(spark.sql(SHAPES["one key"].format(v=v))) == truth["one key"]


LATERAL = (
    "SELECT o.id, l.n FROM VALUES (1, 20000), (2, 110000) AS o(id, low), "
    "LATERAL (SELECT count(*) AS n FROM {source} m WHERE {more} m.phy_offset > o.low) l ORDER BY id"
)


@pytest.mark.system
def test_a_lateral_comparison_needs_the_keys_one_level_deeper(spark, store):
    """Spark pushes nothing of a level that compares with the outer row; the refusal says so."""
    v = view_of(table(spark, store))
    beside = LATERAL.format(source=v, more=f"{A} AND")
    with pytest.raises(AnalysisException, match="one level deeper") as caught:
        spark.sql(beside).collect()
    assert "Spark pushed down position >= 1:" in str(caught.value)
    deeper = LATERAL.format(source=f"(SELECT * FROM {v} WHERE {A})", more="")
    offsets = [row.phy_offset for row in table(spark, store).where(A).collect()]
    expected = [(id_, sum(x > low for x in offsets)) for id_, low in ((1, 20000), (2, 110000))]
    assert [tuple(row) for row in spark.sql(deeper).collect()] == expected


@pytest.mark.system
def test_turning_the_conf_off_is_right_or_refused(spark, store, truth):
    """Between planning and running, and between two queries."""
    t = table(spark, store)
    planned, other = t.where(A), t.where(B)
    with contextlib.redirect_stdout(None):
        planned.explain()
    spark.conf.set(PUSHDOWN_CONF, "false")
    for frame in (planned, other, t.where(C)):
        with pytest.raises(
            (PythonException, AnalysisException), match=f"{PUSHDOWN_CONF}: expected true"
        ):
            frame.collect()
    with pytest.raises(PythonException, match="got an RDD action"):
        other.rdd.collect()
    spark.conf.set(PUSHDOWN_CONF, "true")
    assert answer(planned) == truth["one key"]
    assert answer(t.where(B)) == truth["another key"]
    fresh = table(spark, store)
    spark.conf.set(PUSHDOWN_CONF, "false")
    with pytest.raises(AnalysisException, match="DATA_SOURCE_PUSHDOWN_DISABLED"):
        fresh.where(A).collect()


def run_in_threads(jobs):
    """Run jobs at once, and return what each one returned or raised."""
    results = [None] * len(jobs)

    def run(place, job):
        try:
            results[place] = job()
        except (PythonException, AnalysisException) as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=item) for item in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.system
@pytest.mark.spark_pushdown
def test_threads_with_a_table_each_are_right(spark, store, truth):
    """Each with its own relation, many lookups at once."""
    shapes = {A: "one key", B: "another key"}

    def job():
        t = table(spark, store)
        return [
            answer(t.where(text)) == truth[name] for _ in range(3) for text, name in shapes.items()
        ]

    for result in run_in_threads([job] * 4):
        assert result == [True] * 6


@pytest.mark.system
def test_threads_that_share_a_table_are_right_or_refused(spark, store, truth):
    """Plannings that overlap wait for each other."""
    t = table(spark, store)

    def job(text, name):
        return lambda: [answer(t.where(text)) == truth[name] for _ in range(4)]

    jobs = [job(A, "one key"), job(B, "another key"), job(A, "one key"), job(B, "another key")]
    for result in run_in_threads(jobs):
        assert isinstance(result, Exception) or result == [True] * 4


@pytest.mark.system
def test_actions_of_every_kind_see_the_conf(spark, store, truth):
    """What runs as a DataFrame works; what runs as a plain RDD is refused."""
    expected = len(truth["one key"])
    t = table(spark, store)
    assert len(list(t.where(A).toLocalIterator())) == expected
    assert t.where(A).toArrow().num_rows == expected
    assert t.where(A).localCheckpoint().count() == expected
    assert not t.where(A).isEmpty()
    assert t.where(A).first().topic == "TopicTest"
    assert len(t.where(A).take(2)) == 2
    cached = t.where(A).cache()
    assert cached.count() == expected
    assert t.where(B).count() == len(truth["another key"])
    assert len(cached.collect()) == expected
    t.where(A).write.format("noop").mode("overwrite").save()
    with pytest.raises(PythonException, match="got an RDD action"):
        t.where(C).foreach(print)


@pytest.mark.system
def test_times_follow_the_session_zone_of_the_query(spark, store):
    """The same text means another hour in another zone."""
    t = table(spark, store)
    counts = {}
    for zone in ("UTC", "America/New_York", "Asia/Tokyo"):
        spark.conf.set(TIME_ZONE_CONF, zone)
        scan = spark.read.format("rmqindex").load(str(store))
        hour = (
            "store_timestamp >= '2023-11-14 23:30:00' AND store_timestamp < '2023-11-15 09:00:00'"
        )
        hashes = [key_hash(index_key("TopicTest", key)) for key in ("order-49", "k", "a#b")]
        right = scan.where(f"key_hash IN {tuple(hashes)} AND {hour}").count()
        keys = "topic = 'TopicTest' AND key IN ('order-49', 'k', 'a#b')"
        counts[zone] = t.where(f"{keys} AND {hour}").count()
        assert counts[zone] == right
    assert len(set(counts.values())) == 3


def test_last_plan_shows_pairs_files_and_filters(spark, store):
    """A repeated pair counts once, earlier lookups of the same table are in it."""
    t = table(spark, store)
    two = t.where("topic = 'TopicTest' AND key IN ('k', 'k', 'order-49')")
    plan = last_plan(two)
    two.collect()
    assert last_plan(t) == plan
    assert plan.pairs == (("TopicTest", "k"), ("TopicTest", "order-49"))
    assert (plan.files_kept, plan.files_total, plan.partitions) == (5, 5, 1)
    assert "topic = 'TopicTest'" in plan.filters
    t.where(f"{B} AND store_timestamp < timestamp_millis(1700000004511)").collect()
    plan = last_plan(t)
    assert ("TopicTest", "a#b") in plan.pairs
    assert plan.files_kept == 5
    fresh = table(spark, store)
    fresh.where(f"{B} AND store_timestamp < timestamp_millis(1700000004511)").collect()
    plan = last_plan(fresh)
    assert (plan.pairs, plan.files_kept, plan.partitions) == ((("TopicTest", "a#b"),), 0, 0)
    assert str(plan).startswith("looking up 1 pair [('TopicTest', 'a#b')] in 0 of 5 files")


def test_at_the_bound_a_fresh_table_is_asked_for(spark, store, truth):
    """A relation repeats its earlier lookups, so they are counted."""
    t = table(spark, store)
    keys = ", ".join(f"'{n}'" for n in range(4096))
    assert t.where(f"topic = 'TopicTest' AND key IN ({keys})").count() >= 0
    with pytest.raises(AnalysisException, match=r"make a fresh table\(\) for the next ones"):
        t.where(A).collect()
    assert answer(table(spark, store).where(A)) == truth["one key"]


def test_without_keys_hashes_times_offsets_and_positions_are_pushed(spark, store, store_entries):
    """Nothing must be bound; a full read is right as well, before and after."""
    t = table(spark, store, keys=False)
    assert "key" not in t.columns
    some = store_entries[100]
    by_hash = [e for e in store_entries if e.key_hash == some.key_hash]
    assert t.where(t.key_hash == some.key_hash).count() == len(by_hash)
    assert last_plan(t).key_hashes == (some.key_hash,)
    assert t.where("position BETWEEN 5 AND 9").count() == 25
    assert t.where("phy_offset = 0").count() == sum(e.phy_offset == 0 for e in store_entries)
    assert t.where("key_hash < 0 OR position = 7").count() == 5
    assert t.count() == len(store_entries)
    assert last_plan(t).key_hashes is None
    assert t.where(t.key_hash == some.key_hash).count() == len(by_hash)
    cut = some.store_timestamp
    early = t.where(f"store_timestamp <= timestamp_millis({cut})")
    assert early.count() == sum(e.store_timestamp <= cut for e in store_entries)
    fresh = table(spark, store, keys=False)
    assert fresh.where("position > 190").count() == sum(e.position > 190 for e in store_entries)
    plan = last_plan(fresh)
    assert (plan.key_hashes, plan.entries) == (None, sum(e.position > 190 for e in store_entries))


def test_options_take_python_values(spark, store, truth):
    """Geometry as integers, several paths, a time; an option of its own is refused."""
    t = table(spark, [store, store / "index"], maxHashSlotNum=97, maxIndexNum=200)
    assert answer(t.where(A).drop("store")) == truth["one key"]
    late = table(spark, str(store), beginTimestamp=1_700_010_000_000, ignoreMissingFiles=True)
    expected = t.where(f"{A} AND store_timestamp >= timestamp_millis(1700010000000)")
    assert answer(late.where(A)) == answer(expected.drop("store"))
    with pytest.raises(ValueError, match=r"option 'pushdown': table\(\) sets it itself"):
        table(spark, store, pushdown=False)
    with pytest.raises(AnalysisException, match="option 'topic': not with pushdown"):
        table(spark, store, topic="TopicTest", key="k")
    with pytest.raises(AnalysisException, match="'timezon': unknown; did you mean 'timeZone'"):
        table(spark, store, timeZon="UTC")


def test_a_load_with_pushdown_is_a_scan_with_the_same_rows(spark, store):
    """It could be handed the plan of another query, so every plan of it has all rows."""
    table(spark, store)
    raw = spark.read.format("rmqindex").option("pushdown", "true").load(str(store))
    assert raw.where(A).count() == table(spark, store).where(A).count() > 0
    assert raw.count() == 959


@pytest.mark.parametrize(
    "where",
    sampled(
        [
            "key_hash = -5",
            "key_hash <=> -5",
            "key_hash IN (-5, -6)",
            "key_hash <=> NULL",
            "key_hash < 0",
            "slot = -1",
            "position = -7 AND position >= 1",
            "position = 2147483647",
            "prev_position = -1",
            "phy_offset = -9223372036854775808",
            "phy_offset > 9223372036854775806",
            "time_diff = -1",
            "store_timestamp < TIMESTAMP '0001-01-01 00:00:00 UTC'",
            "store_timestamp > TIMESTAMP '9999-12-31 23:59:59.999999 UTC'",
            "store_timestamp = TIMESTAMP '2023-11-14 22:13:20.0001'",
        ],
        "key_hash = -5",
        "key_hash <=> NULL",
        "phy_offset > 9223372036854775806",
        "store_timestamp = TIMESTAMP '2023-11-14 22:13:20.0001'",
    ),
)
def test_a_value_that_no_entry_has_is_no_rows_and_spoils_nothing(spark, store, where):
    """Of every column and kind of filter; the same table() answers on."""
    frame = table(spark, store, keys=False)
    assert frame.where(where).collect() == []
    assert frame.where("key_hash >= 0 AND phy_offset >= 0").count() == 959


@pytest.mark.parametrize(
    "key",
    sampled(
        ["NULL", "''", "cast(X'ff' AS STRING)", "cast(X'eda080' AS STRING)", "repeat('k', 70000)"],
        "NULL",
        "cast(X'ff' AS STRING)",
    ),
)
def test_a_key_that_no_message_has_is_no_rows_and_spoils_nothing(spark, store, key):
    """NULL, nothing, bytes that are no text, and a key longer than any."""
    frame = table(spark, store)
    for where in (f"key = {key}", f"key <=> {key}", f"key IN ({key}, 'absent')"):
        assert frame.where(f"topic = 'TopicTest' AND {where}").collect() == []
    assert frame.where(A).count() > 0


def test_a_planning_that_fails_leaves_nothing_behind(spark, store, tmp_path):
    """A file that is no IndexFile, or one that is gone, is an error of the moment."""
    copy = tmp_path / "store"
    shutil.copytree(store, copy)
    frame = table(spark, copy)
    before = frame.where(A).collect()
    bad = copy / "index" / "20991231235959999"
    bad.write_bytes(b"no index")
    with pytest.raises(AnalysisException, match="20991231235959999"):
        frame.where(B).collect()
    bad.unlink()
    (copy / "index").rename(copy / "away")
    with pytest.raises(AnalysisException, match="expected a store with a folder index"):
        frame.where(B).collect()
    (copy / "away").rename(copy / "index")
    assert sorted(map(str, frame.where(A).collect())) == sorted(map(str, before))
    assert last_plan(frame).pairs == (("TopicTest", "order-49"),)


@pytest.mark.parametrize(
    ("literal", "micros"),
    [
        ("0000-12-31 23:59:59.999999", -62135596800000001),
        pytest.param("-0001-03-01 00:00:00", -62193657600000000, marks=pytest.mark.system),
        pytest.param("+10000-01-01 00:00:00", 253402300800000000, marks=pytest.mark.system),
        pytest.param("+294247-01-10 04:00:54.775807", 2**63 - 1, marks=pytest.mark.system),
    ],
)
def test_a_time_beyond_pythons_is_compared_by_spark(spark, store, literal, micros):
    """Whether or not the format takes filters: Spark hands them to all while the conf is on."""
    frame = table(spark, store, keys=False)
    where = f"store_timestamp >= TIMESTAMP '{literal} UTC'"
    assert frame.where(where).count() == (959 if micros < 0 else 0)
    assert frame.count() == 959
    messages = (
        spark.read.format("rmqcommitlog").option("columns", "store_timestamp").load(str(store))
    )
    assert messages.where(where).count() == (430 if micros < 0 else 0)
