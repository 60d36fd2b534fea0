"""Scans with a CommitLog know their keys, so that every predicate on them is right."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import pytest
from pyspark.errors import AnalysisException, PythonException
from table_queries import SHAPES, UNBOUND

from commitlog_encoder import Log, Message, properties_text
from kinds import sampled
from pyspark_rmqindex import last_plan, table
from recorded import MESSAGE_KINDS, ROCKETMQ_CLASSES
from rmqindex import (
    CommitLog,
    Layout,
    index_key,
    key_hash,
    message_keys,
    rebuild_index,
    sample_store,
)
from rows import milliseconds

STORES = {
    "golden": (ROCKETMQ_CLASSES, sample_store()),
    "golden2": (MESSAGE_KINDS, MESSAGE_KINDS / "store"),
}


def load(spark, path, schema=None, **options):
    """Scan entries with the CommitLog beside them."""
    reader = spark.read.format("rmqindex").options(**{"commitLog": "auto", **options})
    return (reader.schema(schema) if schema else reader).load(str(path))


@pytest.fixture(scope="module", params=STORES)
def told(request):
    """Return the path of each golden store, and its retained messages by offset."""
    folder, store = STORES[request.param]
    messages = json.loads((folder / "store_messages.json").read_text())["messages"]
    return store, {
        message["phy_offset"]: message["decoded"]
        for message in messages
        if message["indexed"] and message["decoded"] and not message.get("deleted")
    }


def keys_of(decoded):
    """Return the keys of a message in the order of its entries, without the topic."""
    whole = message_keys(decoded["topic"], decoded.get("uniq_key"), decoded.get("keys"))
    return [key.removeprefix(decoded["topic"] + "#") for key in whole]


@pytest.mark.parametrize("part", sampled(["128m", "1k"], "128m"))
def test_each_entry_has_its_own_key_and_time(spark, told, part):
    """The entries of a message, in their order, are its keys in theirs, also across partitions."""
    store, messages = told
    rows = load(spark, store, maxPartitionBytes=part).orderBy("file_path", "position").collect()
    by_message = {}
    for row in rows:
        by_message.setdefault(row.phy_offset, []).append(row)
    verified = Counter(row.match_state for row in rows)["verified"]
    assert verified == sum(len(keys_of(decoded)) for decoded in messages.values())
    for offset, decoded in messages.items():
        mine = by_message.get(offset, [])
        assert [row.key for row in mine] == keys_of(decoded)
        assert {row.topic for row in mine} <= {decoded["topic"]}
        assert {milliseconds(row.store_timestamp) for row in mine} <= {decoded["store_timestamp"]}
        for row in mine:
            assert row.key_hash == key_hash(index_key(row.topic, row.key))


@pytest.mark.parametrize(
    "condition",
    sampled(
        [
            "key = 'Aa' OR key = 'BB'",
            "key LIKE 'order-4%'",
            "upper(key) = 'AA'",
            "topic <> 'TopicTest' AND length(key) < 5",
            "key IS NULL",
        ],
        "upper(key) = 'AA'",
    ),
)
def test_any_predicate_on_keys_is_right(spark, told, condition):
    """Spark's own filters on texts that an index does not hold."""
    store, messages = told
    truth = spark.createDataFrame(
        [
            (decoded["topic"], key, offset)
            for offset, decoded in messages.items()
            for key in keys_of(decoded)
        ],
        "topic STRING, key STRING, phy_offset BIGINT",
    )
    expected = truth.where(condition).collect()
    found = load(spark, store).where("match_state = 'verified'").where(condition)
    assert sorted(found.select(truth.columns).collect()) == sorted(expected)


def test_what_has_expired_is_marked_and_has_no_key(spark):
    """Its entries are there all the same, with the time that they hold themselves."""
    store = STORES["golden2"][1]
    with CommitLog(store) as log:
        first = log.min_offset
    rows = load(spark, store).collect()
    expired = [row for row in rows if row.match_state == "unverified"]
    assert {row.phy_offset < first for row in expired} == {True}
    assert {(row.topic, row.key) for row in expired} == {(None, None)}
    assert len(rows) == spark.read.format("rmqindex").load(str(store)).count()
    plain = {
        (row.file_path, row.position): row.store_timestamp
        for row in spark.read.format("rmqindex").load(str(store)).collect()
    }
    assert all(plain[row.file_path, row.position] == row.store_timestamp for row in expired)


@pytest.mark.system
def test_what_is_not_verified_can_be_left_out_or_fail(spark):
    """The option says which."""
    store = STORES["golden2"][1]
    kept = load(spark, store)
    dropped = load(spark, store, unverified="drop")
    assert dropped.count() == kept.where("match_state = 'verified'").count() < kept.count()
    with pytest.raises(PythonException, match="match_state 'unverified'"):
        load(spark, store, unverified="error").collect()
    assert load(spark, sample_store(), unverified="error").count() == 959


def test_another_stores_log_verifies_nothing_that_is_not_so(spark, told):
    """A log that does not belong to the index gives no wrong key; the entries say why."""
    store, _ = told
    other = next(each for _, each in STORES.values() if each != store)
    states = {row.match_state for row in load(spark, store, commitLog=str(other)).collect()}
    assert "verified" not in states
    assert states <= {"unverified", "beyond_end", "missing", "not_a_record", "mismatch"}


def test_times_are_exact_in_options_too(spark, told):
    """Also where the clock stepped back behind the start of a file."""
    store, messages = told
    times = sorted(decoded["store_timestamp"] for decoded in messages.values())
    for begin, end in [
        (times[len(times) // 3], times[len(times) // 2]),
        (times[5], times[5]),
        (times[-1] + 1, times[-1] + 1000),
        (0, times[len(times) // 4]),
    ]:
        rows = load(
            spark, store, beginTimestamp=begin, endTimestamp=end, unverified="drop"
        ).collect()
        expected = Counter(
            offset
            for offset, decoded in messages.items()
            if begin <= decoded["store_timestamp"] <= end
            for _ in keys_of(decoded)
        )
        assert Counter(row.phy_offset for row in rows) == expected


def test_times_are_exact_where_a_file_begins_before_1970(spark, tmp_path):
    """Its entries say nothing of their times, but their messages do."""
    log = Log(1024)
    times = (0, 1_700_000_000_000, 1_700_000_001_500)
    for time in times:
        log.append(Message(store_timestamp=time, properties=properties_text([("KEYS", "key")])))
    log.write_to(tmp_path / "commitlog")
    rebuild_index(tmp_path, tmp_path / "index", Layout(7, 10))
    rows = load(spark, tmp_path, beginTimestamp=1_700_000_000_001).collect()
    assert [milliseconds(row.store_timestamp) for row in rows] == [times[2]]


def test_hashes_are_looked_up_and_told_apart(spark, told):
    """``keyHash`` finds every key of the hash, each under its own name."""
    store, messages = told
    wanted = key_hash(index_key("TopicTest", "Aa"))
    rows = load(spark, store, keyHash=wanted, unverified="drop").collect()
    expected = Counter(
        (decoded["topic"], key, offset)
        for offset, decoded in messages.items()
        for key in keys_of(decoded)
        if key_hash(index_key(decoded["topic"], key)) == wanted
    )
    assert Counter((row.topic, row.key, row.phy_offset) for row in rows) == expected


def test_the_log_is_not_read_where_nothing_depends_on_it(spark, tmp_path):
    """Columns of entries alone come from a log that is damaged from its first byte."""
    shutil.copytree(sample_store() / "index", tmp_path / "index")
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / "00000000000000000000").write_bytes(b"\xff" * 65536)
    assert load(spark, tmp_path, "key_hash INT, phy_offset BIGINT").count() == 959
    states = {row.match_state for row in load(spark, tmp_path, "match_state STRING").collect()}
    assert states == {"beyond_end"}


def test_a_log_that_is_named_must_be_there(spark, store, tmp_path):
    """A new store's folder is a log without messages, a missing one is an error."""
    (tmp_path / "new" / "commitlog").mkdir(parents=True)
    (tmp_path / "new" / "checkpoint").touch()
    empty = load(spark, store, commitLog=str(tmp_path / "new"))
    assert {row.match_state for row in empty.collect()} == {"beyond_end"}
    with pytest.raises(AnalysisException, match="missing: no such file"):
        load(spark, store, commitLog=str(tmp_path / "missing")).collect()


@pytest.mark.system
def test_several_stores_each_have_their_own_log(spark):
    """``auto`` finds the one beside each index."""
    paths = [str(store) for _, store in STORES.values()]
    together = (
        spark.read.format("rmqindex").option("commitLog", "auto").load(paths).groupBy("match_state")
    )
    alone = Counter()
    for path in paths:
        alone += Counter(row.match_state for row in load(spark, path).collect())
    assert {row.match_state: row["count"] for row in together.count().collect()} == dict(alone)


def test_what_is_read_with_a_log_can_be_written_back(spark, store, tmp_path):
    """Keys and hashes agree, and ``match_state`` is no hindrance."""
    frame = load(spark, store)
    frame.repartition(1).sortWithinPartitions("file_path", "position").write.format(
        "rmqindex"
    ).mode("append").options(maxHashSlotNum=97, maxIndexNum=200).save(str(tmp_path / "index"))
    again = spark.read.format("rmqindex").load(str(tmp_path / "index"))
    columns = ["key_hash", "phy_offset"]
    assert sorted(again.select(columns).collect()) == sorted(frame.select(columns).collect())


class TestTable:
    """``table()`` with the CommitLog gives what a scan with it and Spark's filter give."""

    @pytest.fixture
    def views(self, spark, store):
        """Return a table and what it is compared with, which Spark holds itself."""
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        scanned = load(spark, store)
        truth = spark.createDataFrame(scanned.collect(), scanned.schema)
        truth.createOrReplaceTempView("verified_truth")
        table(spark, store).createOrReplaceTempView("verified_table")
        yield "verified_table", "verified_truth"
        for view in ("verified_table", "verified_truth"):
            spark.catalog.dropTempView(view)

    @pytest.mark.system
    def test_every_shape_of_query_on_one_table_is_right(self, spark, views):
        """One after the other, each widening the next."""
        for name, text in SHAPES.items():
            answers = [sorted(map(str, spark.sql(text.format(v=v)).collect())) for v in views]
            assert answers[0] == answers[1], name

    @pytest.mark.parametrize("name", sampled(UNBOUND, "everything", "a join"))
    def test_unbound_queries_are_refused(self, spark, views, name):
        """As without a log."""
        with pytest.raises((AnalysisException, PythonException), match="not bound"):
            spark.sql(UNBOUND[name].format(v=views[0])).collect()

    def test_times_leave_out_no_files(self, spark, store):
        """A message may be older than its file's first entry, where the clock stepped back."""
        frame = table(spark, store)
        frame.where(
            "topic = 'TopicTest' AND key = 'BB' AND store_timestamp < timestamp_millis(1)"
        ).count()
        assert last_plan(frame).files_kept == 5


def test_entries_of_tags_are_their_messages_own(spark, tmp_path):
    """Brokers from 5.4.0 on write them, under the key T#tags."""
    log = sample_store() / "commitlog"
    rebuild_index(log, tmp_path / "index", Layout(97, 200), index_tags=True)
    rows = load(spark, tmp_path / "index", commitLog=str(log)).collect()
    assert {row["match_state"] for row in rows} == {"verified"}
    with CommitLog(log) as opened:
        columns = ["topic", "uniq_key", "keys", "sys_flag", "tags", "phy_offset"]
        messages = [row for each in opened.scan(columns=columns) for row in each.to_pylist()]
    expected = Counter(
        (offset, key) for *message, offset in map(dict.values, messages)
        for key in message_keys(*message)
    )  # fmt: skip
    got = Counter((row["phy_offset"], f"{row['topic']}#{row['key']}") for row in rows)
    assert got == expected
    assert any(row["key"].startswith("T#") for row in rows)
