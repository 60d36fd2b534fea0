"""Lookups with a CommitLog: the truth, where the broker gives candidates, caps and seconds."""

from __future__ import annotations

import base64
import json
import shutil
from collections import Counter

import pytest
from pyspark.errors import AnalysisException, PythonException

from kinds import sampled
from pyspark_rmqindex import table, write_index
from recorded import MESSAGE_KINDS, ROCKETMQ_CLASSES
from rmqindex import (
    IndexDirectory,
    IndexFileWriter,
    Layout,
    index_key,
    key_hash,
    message_keys,
    sample_store,
)
from rows import milliseconds

STORES = {
    "golden": (ROCKETMQ_CLASSES, sample_store(), Layout(97, 200)),
    "golden2": (MESSAGE_KINDS, MESSAGE_KINDS / "store", Layout(53, 120)),
}
SAMPLE_GEOMETRY = {"maxHashSlotNum": 97, "maxIndexNum": 200}


class Truth:
    """What the broker's messages say, whatever its index says."""

    def __init__(self, name):
        """Read what RocketMQ decoded."""
        folder, self.store, self.layout = STORES[name]
        data = json.loads((folder / "store_messages.json").read_text())
        self.queries = json.loads((folder / "store_queries.json").read_text())
        self.messages = {}
        for message in data["messages"]:
            decoded = message["decoded"]
            if decoded is None or not message["indexed"] or message.get("deleted"):
                continue
            self.messages[message["phy_offset"]] = decoded
        self.first = data.get("min_phy_offset", 0)

    def keys_of(self, offset):
        """Return the whole index keys of a message, repeated ones too."""
        decoded = self.messages[offset]
        return message_keys(decoded["topic"], decoded.get("uniq_key"), decoded.get("keys"))

    def offsets(self, topic, key, begin, end):
        """Return the offsets of the messages with a key, as often as they have it."""
        whole = index_key(topic, key)
        return Counter(
            offset
            for offset, decoded in self.messages.items()
            if begin <= decoded["store_timestamp"] <= end
            for each in self.keys_of(offset)
            if each == whole
        )


@pytest.fixture(scope="module", params=STORES)
def truth(request):
    """Return each golden store."""
    return Truth(request.param)


@pytest.fixture(scope="module")
def answers(spark, truth):
    """Return the verified rows of every key that the golden queries name: one load a topic."""
    keys = {}
    for query in truth.queries["query_message"]:
        keys.setdefault(query["topic"], set()).add(query["key"])
    found = {}
    for topic, wanted in keys.items():
        rows = (
            spark.read.format("rmqindex")
            .option("commitLog", "auto")
            .option("topic", topic)
            .option("keys", json.dumps(sorted(wanted)))
            .load(str(truth.store))
            .collect()
        )
        for row in rows:
            found.setdefault((topic, row.key), []).append(row)
    return found


def test_every_query_of_the_broker_is_answered_with_the_truth(truth, answers):
    """Exactly the retained messages that have the key, at exactly the times asked for."""
    assert len(truth.queries["query_message"]) >= 150
    for query in truth.queries["query_message"]:
        topic, key, begin, end = (query[name] for name in ("topic", "key", "begin", "end"))
        rows = [
            row.phy_offset
            for row in answers.get((topic, key), [])
            if row.match_state == "verified" and begin <= milliseconds(row.store_timestamp) <= end
        ]
        assert Counter(rows) == truth.offsets(topic, key, begin, end), query


def test_each_difference_to_the_brokers_answer_has_its_reason(truth):
    """The broker returns collisions and is a second off; it misses what its search does not reach.

    What it misses, it misses because of its cap, because it takes an entry's second for its time,
    because it stops at the first entry that is too old, or because it reads the first entry of a
    rolled file too late.
    """
    reasons = Counter()
    with IndexDirectory(truth.store, truth.layout) as index:
        files = [
            (file.header.begin_timestamp, [row for b in file.scan() for row in b.to_pylist()])
            for file in index.files
        ]
        for query in truth.queries["query_message"]:
            topic, key, begin, end = (query[name] for name in ("topic", "key", "begin", "end"))
            right = truth.offsets(topic, key, begin, end)
            told = Counter(query["commitlog_offsets"])
            for offset in told - right:
                decoded = truth.messages[offset]
                if index_key(topic, key) not in truth.keys_of(offset):
                    reasons["collision"] += 1
                elif offset in right:
                    reasons["indexed twice"] += 1
                else:
                    stored = decoded["store_timestamp"]
                    assert not begin <= stored <= end
                    assert abs(stored - begin) < 1000 or abs(stored - end) < 1000, query
                    reasons["a second off, returned"] += 1
            walked = index.query_offset(topic, key, query["max_num"], begin, end).phy_offsets
            hash_ = key_hash(index_key(topic, key))
            for offset in right - told:
                entries = [
                    (begin_timestamp, row, rows)
                    for begin_timestamp, rows in files
                    for row in rows
                    if row["phy_offset"] == offset and row["key_hash"] == hash_
                ]
                assert entries, query
                if len(walked) >= min(query["max_num"], 64):
                    reasons["cap"] += 1
                elif all(row["store_timestamp"] < begin for _, row, _ in entries):
                    reasons["a second off, missed"] += 1
                elif any(row["position"] == 1 and row["time_diff"] for _, row, _ in entries):
                    reasons["late first entry"] += 1
                else:
                    assert any(
                        other["store_timestamp"] < begin
                        for begin_timestamp, rows in files
                        for other in rows
                        if begin_timestamp >= entries[0][0]
                    ), query
                    reasons["early stop"] += 1
    assert reasons["collision"]
    assert sum(reasons.values()) >= 10, reasons


def test_unverified_candidates_are_those_of_deleted_messages(truth, answers):
    """Nothing else in a golden store cannot be confirmed; they are marked, not dropped."""
    states = Counter()
    for rows in answers.values():
        for row in rows:
            states[row.match_state] += 1
            if row.match_state == "unverified":
                assert row.phy_offset < truth.first
                assert row.key_hash == key_hash(index_key(row.topic, row.key))
    assert set(states) <= {"verified", "unverified"}
    assert bool(states["unverified"]) == bool(truth.first)


def test_verified_rows_carry_the_messages_own_time(truth, answers):
    """To the millisecond, also for first entries and where the clock stepped back."""
    for rows in answers.values():
        for row in rows:
            if row.match_state == "verified":
                stored = truth.messages[row.phy_offset]["store_timestamp"]
                assert milliseconds(row.store_timestamp) == stored


class TestCollisionsInOneMessage:
    """Two keys of one message share a hash: the n-th entry is that of the n-th key."""

    @pytest.mark.parametrize("offset", sampled([63594, 39448], 63594))
    def test_each_key_finds_its_own_entries(self, spark, offset):
        """Neither is dropped, neither counts twice, and the positions follow the message."""
        truth = Truth("golden")
        decoded = truth.messages[offset]
        own = [key.partition("#")[2] for key in truth.keys_of(offset)]
        rows = (
            spark.read.format("rmqindex")
            .options(commitLog="auto", topic=decoded["topic"], keys=json.dumps(own))
            .load(str(truth.store))
            .where(f"phy_offset = {offset}")
            .orderBy("file_path", "position")
            .collect()
        )
        hashes = [key_hash(index_key(decoded["topic"], key)) for key in own]
        assert len(set(hashes)) < len(set(own))
        assert [row.key for row in rows] == own
        assert {row.match_state for row in rows} == {"verified"}

    def build(self, path, message_hashes, parts, offset=63594):
        """Write files that hold the entries of one message, and others around."""
        path.mkdir()
        other = key_hash(index_key("x", "y"))
        for number, places in enumerate(parts):
            with IndexFileWriter(path / f"2026112018260{number:04}", Layout(97, 200)) as writer:
                if number == 0:
                    writer.put_many([other], [1], [1_700_000_000_000])
                writer.put_many(
                    [message_hashes[place] for place in places],
                    [offset] * len(places),
                    [1_700_010_000_000] * len(places),
                )

    @pytest.fixture
    def case(self, tmp_path):
        """Return a message whose keys collide, its store, and a place for an index."""
        truth = Truth("golden")
        offset = 63594
        shutil.copytree(truth.store / "commitlog", tmp_path / "commitlog")
        keys = [key.partition("#")[2] for key in truth.keys_of(offset)]
        topic = truth.messages[offset]["topic"]
        hashes = [key_hash(index_key(topic, key)) for key in keys]
        return tmp_path / "index", keys, hashes

    def keys_read(self, spark, path):
        """Scan an index with its CommitLog."""
        frame = spark.read.format("rmqindex").options(commitLog="auto", **SAMPLE_GEOMETRY)
        rows = frame.load(str(path)).where("phy_offset = 63594")
        return [
            (row.key, row.match_state) for row in rows.orderBy("file_path", "position").collect()
        ]

    def test_a_message_that_was_indexed_again_starts_over(self, spark, case):
        """After a crash the broker dispatches the last message twice."""
        path, keys, hashes = case
        every = list(range(len(keys)))
        self.build(path, hashes, [every + every])
        assert self.keys_read(spark, path) == [(key, "verified") for key in keys + keys]

    @pytest.mark.parametrize("cut", sampled(range(1, 5), 2))
    def test_a_message_in_two_files_is_one(self, spark, case, cut):
        """The entries go on in the next file where one is full."""
        path, keys, hashes = case
        every = list(range(len(keys)))
        self.build(path, hashes, [every[:cut], every[cut:]])
        assert self.keys_read(spark, path) == [(key, "verified") for key in keys]

    def test_where_entries_are_missing_it_is_said(self, spark, case):
        """Which of two keys a lone entry belongs to cannot be known, so it is not."""
        path, _, hashes = case
        places = [place for place, hash_ in enumerate(hashes) if hashes.count(hash_) > 1]
        self.build(path, hashes, [places[:1]])
        assert self.keys_read(spark, path) == [(None, "ambiguous")]


class TestTable:
    """``table()`` takes the CommitLog beside the index, if there is one."""

    def test_collisions_are_dropped_by_default(self, spark, store):
        """``Aa`` and ``BB`` share a hash, and each finds only its own messages."""
        truth = Truth("golden")
        frame = table(spark, store)
        for key in ("Aa", "BB"):
            rows = frame.where(f"topic = 'TopicTest' AND key = '{key}'").collect()
            assert Counter(row.phy_offset for row in rows) == truth.offsets(
                "TopicTest", key, 0, 2**63
            )
            assert {row.match_state for row in rows} == {"verified"}

    def test_without_the_log_they_are_candidates(self, spark, store):
        """``commitLog=none`` asks the index alone; ``match_state`` is not there then."""
        frame = table(spark, store, commitLog="none")
        rows = frame.where("topic = 'TopicTest' AND key = 'Aa'").collect()
        verified = table(spark, store).where("topic = 'TopicTest' AND key = 'Aa'").count()
        assert len(rows) > verified
        assert "match_state" not in frame.columns

    def test_an_index_without_a_log_says_so(self, spark, store, tmp_path):
        """Its rows are candidates, each marked."""
        shutil.copytree(store / "index", tmp_path / "index")
        rows = table(spark, tmp_path).where("topic = 'TopicTest' AND key = 'Aa'").collect()
        assert {row.match_state for row in rows} == {"no_log"}
        candidates = table(spark, store, commitLog="none")
        assert len(rows) == candidates.where("topic = 'TopicTest' AND key = 'Aa'").count()

    def test_exact_times_are_filtered_exactly(self, spark, store):
        """A message is found by its own millisecond, which no entry holds."""
        truth = Truth("golden")
        frame = table(spark, store)
        key = "topic = 'TopicTest' AND key = 'order-49'"
        for offset, stored in [
            (offset, truth.messages[offset]["store_timestamp"])
            for offset in truth.offsets("TopicTest", "order-49", 0, 2**63)
        ][:4]:
            exact = frame.where(f"{key} AND store_timestamp = timestamp_millis({stored})")
            assert offset in [row.phy_offset for row in exact.collect()]
            later = f"store_timestamp > timestamp_millis({stored})"
            assert offset not in [
                row.phy_offset for row in frame.where(f"{key} AND {later}").collect()
            ]

    def test_keys_must_still_be_bound(self, spark, store):
        """Entries of expired messages have keys that nobody knows: a scan might miss them."""
        with pytest.raises((AnalysisException, PythonException), match="must bind both"):
            table(spark, store).where("key = 'Aa'").collect()

    def test_without_key_columns_there_is_no_log(self, spark, store):
        """They are what it is for."""
        assert "match_state" not in table(spark, store, keys=False).columns
        with pytest.raises(AnalysisException, match="'commitLog': not without the columns"):
            table(spark, store, keys=False, commitLog="auto")

    @pytest.mark.system
    def test_a_lookup_is_what_a_scan_and_a_filter_give(self, spark, store, store_pairs):
        """For every key of the store, in one query each way."""
        scanned = spark.read.format("rmqindex").option("commitLog", "auto").load(str(store))
        topics = sorted({topic for topic, _ in store_pairs})
        columns = ["topic", "key", "phy_offset", "store_timestamp", "position", "match_state"]
        frame = table(spark, store)
        for topic in topics[:3]:
            keys = [key for each, key in store_pairs if each == topic][:1000]
            condition = (frame.topic == topic) & frame.key.isin(keys)
            looked_up = frame.where(condition).select(columns).collect()
            other = (scanned.topic == topic) & scanned.key.isin(keys)
            assert sorted(looked_up) == sorted(scanned.where(other).select(columns).collect())
            assert looked_up


class TestMessageBeside:
    """The message can be returned with the entry."""

    def test_the_option_adds_its_columns(self, spark, store):
        """Body, properties and the rest, as the CommitLog has them."""
        truth = Truth("golden")
        (row,) = (
            spark.read.format("rmqindex")
            .options(commitLog="auto", message=True, topic="TopicTest", key="uk2_0_0")
            .load(str(store))
            .collect()
        )
        decoded = truth.messages[row.phy_offset]
        assert row.properties == decoded["properties"]
        assert (row.queue_id, row.queue_offset) == (decoded["queue_id"], decoded["queue_offset"])
        assert row.tags == decoded["tags"]
        assert (row.topic, row.key) == ("TopicTest", "uk2_0_0")
        assert "uk2_0_0" in row["keys"].split(" ")

    def test_a_schema_names_what_is_wanted_without_the_option(self, spark, store):
        """Nothing else is decoded."""
        frame = (
            spark.read.format("rmqindex")
            .schema("body BINARY, key STRING, match_state STRING")
            .options(commitLog=str(store), topic="TopicTest", key="uk2_0_0")
            .load(str(store / "index"))
        )
        (row,) = frame.collect()
        assert row.body
        assert (row.key, row.match_state) == ("uk2_0_0", "verified")

    @pytest.mark.system
    def test_bodies_come_as_they_were_sent(self, spark):
        """Or as they are stored, if that is asked for; the text is of the one that was sent."""
        data = json.loads((MESSAGE_KINDS / "store_messages.json").read_text())["messages"]
        store = MESSAGE_KINDS / "store"
        packed = [
            message
            for message in data
            if not message["deleted"]
            and message["indexed"]
            and message["decoded"]
            and message["decoded"]["sys_flag"] & 1
            and message["decoded"].get("uniq_key")
            and message["kind"] != "inner_batch"
        ]
        for message in packed[:3]:
            decoded = message["decoded"]
            sent = base64.b64decode(message["sent"]["body_b64"])
            for raw in ({"decompressBody": False}, {}):
                row = (
                    spark.read.format("rmqindex")
                    .schema("body BINARY, body_text STRING")
                    .options(commitLog="auto", topic=decoded["topic"], key=decoded["uniq_key"])
                    .options(**raw)
                    .load(str(store))
                    .first()
                )
                stored = base64.b64decode(decoded["stored_body_b64"])
                assert row.body == (stored if raw else sent)
                assert row.body_text == sent.decode()

    @pytest.mark.system
    def test_what_is_not_verified_has_no_message(self, spark):
        """Its columns are NULL."""
        frame = (
            spark.read.format("rmqindex")
            .options(commitLog="auto", message=True)
            .load(str(MESSAGE_KINDS / "store"))
        )
        assert frame.where("match_state != 'verified' AND msg_id IS NOT NULL").count() == 0
        assert frame.where("match_state = 'verified' AND msg_id IS NULL").count() == 0

    @pytest.mark.parametrize(
        "name", sampled(["message", "bodyText", "checkCrc", "decompressBody"], "message")
    )
    def test_messages_need_a_log(self, spark, store, name):
        """The option that names it is asked for."""
        with pytest.raises(AnalysisException, match=f"'{name}': give 'commitLog' as well"):
            spark.read.format("rmqindex").option(name, True).load(str(store))
        with pytest.raises(AnalysisException, match="give the option commitLog"):
            spark.read.format("rmqindex").schema("body BINARY").load(str(store)).collect()


@pytest.mark.system
def test_members_are_found_by_their_own_ids_where_the_index_leads_to_the_batch(spark, tmp_path):
    """An index that holds the ids of members, and a log that confirms them inside the batch."""
    store = MESSAGE_KINDS / "store"
    messages = spark.read.format("rmqcommitlog").load(str(store))
    write_index(messages, tmp_path / "index", indexMembers=True, maxHashSlotNum=53, maxIndexNum=120)
    members = [
        (row.topic, key, row.phy_offset)
        for row in messages.where("size(member_keys) > 0").collect()
        for key in row.member_keys
    ]
    assert len(members) > 100
    by_topic = {}
    for topic, key, offset in members:
        by_topic.setdefault(topic, []).append((key, offset))
    for topic, wanted in by_topic.items():
        rows = (
            spark.read.format("rmqindex")
            .options(commitLog=str(store), topic=topic)
            .option("keys", json.dumps([key for key, _ in wanted]))
            .load(str(tmp_path / "index"))
            .collect()
        )
        verified = {(row.key, row.phy_offset) for row in rows if row.match_state == "verified"}
        assert set(wanted) <= verified
