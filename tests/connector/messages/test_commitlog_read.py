"""``spark.read.format("rmqcommitlog")``: every message of a store, as RocketMQ decodes it."""

from __future__ import annotations

import base64
import datetime as dt
import json
import shutil
import zlib

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import functions as F  # noqa: N812  (Spark's custom)
from pyspark.sql.types import LongType, StringType, StructField, StructType

from kinds import sampled
from pyspark_rmqindex.messages.columns import as_timestamps
from pyspark_rmqindex.schema import MESSAGE_COLUMNS, message_schema
from recorded import MESSAGE_KINDS, ROCKETMQ_CLASSES
from rmqindex import CommitLog, RemotingMessageId, decode_uniq_key, sample_store
from rmqindex.times import LAST_MILLISECOND
from rows import milliseconds

STORES = {
    "golden": (ROCKETMQ_CLASSES, sample_store()),
    "golden2": (MESSAGE_KINDS, MESSAGE_KINDS / "store"),
}
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
PLAIN = (
    "topic", "queue_id", "queue_offset", "sys_flag", "flag", "body_crc", "reconsume_times",
    "prepared_transaction_offset",
)  # fmt: skip


def load(spark, path, schema=None, **options):
    """Read messages."""
    reader = spark.read.format("rmqcommitlog").options(**options)
    return (reader.schema(schema) if schema else reader).load(str(path))


def offsets(frame):
    """Return the offsets of messages in their order."""
    return sorted(row.phy_offset for row in frame.select("phy_offset").collect())


@pytest.fixture(scope="module", params=STORES)
def told(request):
    """Return the path of each golden store and what RocketMQ decoded of it."""
    folder, store = STORES[request.param]
    messages = json.loads((folder / "store_messages.json").read_text())["messages"]
    kept = {
        message["phy_offset"]: message
        for message in messages
        if message["decoded"] is not None and not message.get("deleted")
    }
    return store, kept


@pytest.fixture(scope="module")
def every_offset(told):
    """Return the offset of each record of the log."""
    with CommitLog(told[0]) as log:
        return [
            offset
            for batch in log.scan(columns=["phy_offset"])
            for offset in batch.column("phy_offset").to_pylist()
        ]


@pytest.mark.parametrize("part", sampled(["128m", "10k"], "128m"))
def test_every_record_is_what_rocketmq_decoded(spark, told, part):
    """All columns of all messages, in one partition and in many."""
    store, kept = told
    rows = {
        row.phy_offset: row
        for row in load(spark, store, maxPartitionBytes=part, decompressBody=False).collect()
    }
    assert rows.keys() >= kept.keys()
    for offset, message in kept.items():
        row, decoded = rows[offset], message["decoded"]
        assert {name: row[name] for name in PLAIN} == {name: decoded[name] for name in PLAIN}
        assert row.size == decoded["store_size"]
        assert milliseconds(row.store_timestamp) == decoded["store_timestamp"]
        assert milliseconds(row.born_timestamp) == decoded["born_timestamp"]
        assert "/" + row.born_host.replace("[", "").replace("]", "") == decoded[
            "born_host"
        ].replace("[", "").replace("]", "")
        assert row.properties == decoded["properties"]
        assert row.uniq_key == decoded.get("uniq_key")
        assert row["keys"] == decoded.get("keys")
        assert row.tags == decoded.get("tags")
        assert bytes(row.body) == base64.b64decode(decoded["stored_body_b64"] or "")
        assert row.msg_id == message["offset_msg_id"]


@pytest.mark.parametrize("part", sampled(["128m", "70k", "20k", "1k", "1"], "20k"))
def test_however_it_is_divided_each_message_comes_once(spark, told, every_offset, part):
    """Partitions end at record boundaries; blank records and stale bytes are passed over."""
    assert offsets(load(spark, told[0], maxPartitionBytes=part)) == every_offset


@pytest.mark.parametrize("part", sampled(["128m", "10k"], "10k"))
def test_a_range_of_offsets_is_exact(spark, told, every_offset, part):
    """The begin counts, the end does not, whether or not a record starts there."""
    middle = every_offset[len(every_offset) // 2]
    for begin, end in [
        (0, middle),
        (middle, 2**62),
        (middle - 1, middle + 1),
        (every_offset[3] + 1, every_offset[-3]),
        (middle, middle),
        (2**62, 2**63 - 1),
    ]:
        frame = load(
            spark,
            told[0],
            "phy_offset BIGINT",
            beginOffset=begin,
            endOffset=end,
            maxPartitionBytes=part,
        )
        assert offsets(frame) == [offset for offset in every_offset if begin <= offset < end]


def test_ranges_of_offsets_prune_files(spark, told):
    """Partitions of other files are not even planned."""
    with CommitLog(told[0]) as log:
        last = log.files[-1]
    whole = load(spark, told[0], maxPartitionBytes="20k").rdd.getNumPartitions()
    part = load(spark, told[0], maxPartitionBytes="20k", beginOffset=last.start)
    assert part.rdd.getNumPartitions() < whole


def test_a_range_of_times_is_exact(spark, told):
    """Both ends count, though the broker's clock stepped back."""
    store, _ = told
    times = {
        row.phy_offset: milliseconds(row.store_timestamp)
        for row in load(spark, store, "phy_offset BIGINT, store_timestamp TIMESTAMP").collect()
    }
    ordered = sorted(times.values())
    begin, end = ordered[len(ordered) // 4], ordered[len(ordered) // 2]
    frame = load(spark, store, "phy_offset BIGINT", beginTimestamp=begin, endTimestamp=end)
    assert offsets(frame) == sorted(o for o, time in times.items() if begin <= time <= end)
    late = load(spark, store, beginTimestamp=end, maxClockStep=10**12)
    assert offsets(late) == sorted(o for o, time in times.items() if time >= end)


def test_times_prune_files_only_within_the_step_that_is_named(spark, tmp_path):
    """Where the clock never stepped back, older files are not read."""
    shutil.copytree(sample_store() / "commitlog", tmp_path / "commitlog")
    first = tmp_path / "commitlog" / "00000000000000000000"
    with CommitLog(tmp_path) as log:
        second_starts = log.first_store_timestamp(log.files[1])
    data = bytearray(first.read_bytes())
    data[:4] = b"\xff\xff\xff\xff"
    damaged = load(spark, tmp_path, beginTimestamp=second_starts + 1000, maxClockStep=0)
    before = offsets(damaged)
    first.write_bytes(data)
    assert offsets(damaged) == before
    with pytest.raises(PythonException, match="CorruptCommitLogError"):
        load(spark, tmp_path, beginTimestamp=second_starts + 1000).collect()


def test_local_times_are_those_of_the_session(spark):
    """A time without a zone is read in the session's."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    text = "2023-11-15 10:00:00"
    instant = dt.datetime.fromisoformat(f"{text}+09:00")
    frame = load(spark, sample_store(), "phy_offset BIGINT", beginTimestamp=text)
    expected = load(
        spark,
        sample_store(),
        "phy_offset BIGINT",
        beginTimestamp=(instant - EPOCH) // dt.timedelta(milliseconds=1),
    )
    assert 0 < frame.count() < 430
    assert offsets(frame) == offsets(expected)


class TestSchema:
    """Any subset of the columns can be asked for."""

    @pytest.mark.parametrize(
        "name", sampled(MESSAGE_COLUMNS, "topic", "store_timestamp", "properties", "body")
    )
    def test_each_column_comes_alone_as_with_the_others(self, spark, name):
        """Nothing depends on what else is asked for."""
        store = STORES["golden2"][1]
        alone = load(spark, store, StructType([message_schema(text=True)[name]]))
        column = F.col(name).cast("string") if name == "properties" else F.col(name)
        everything = load(spark, store, bodyText=True)
        assert sorted(map(str, alone.select(column).collect())) == sorted(
            map(str, everything.select(column).collect())
        )

    def test_order_case_and_not_null_are_kept(self, spark):
        """The schema asked for is the schema that comes."""
        schema = StructType(
            [StructField("TOPIC", StringType(), False), StructField("phy_offset", LongType())]
        )
        frame = load(spark, sample_store(), schema)
        assert frame.schema.names == ["TOPIC", "phy_offset"]
        assert frame.count() == 430

    def test_null_where_not_null_is_asked_for_is_an_error(self, spark):
        """Spark would take it for granted."""
        schema = StructType([StructField("keys", StringType(), False)])
        with pytest.raises(PythonException, match="'keys': expected values"):
            load(spark, sample_store(), schema).collect()

    @pytest.mark.parametrize(
        ("schema", "message"),
        [
            ("bodyy BINARY", "did you mean 'body'"),
            ("body STRING", "column 'body': expected BINARY, got STRING"),
            ("key_hash INT", "column 'key_hash': unknown"),
        ],
    )
    def test_anything_else_is_refused(self, spark, schema, message):
        """With the known columns."""
        with pytest.raises(AnalysisException, match=message):
            load(spark, sample_store(), schema).collect()


class TestIds:
    """What the ids of messages say."""

    def test_ids_of_clients_are_decoded(self, spark, told):
        """As the format package decodes them one by one."""
        store, kept = told
        frame = load(
            spark, store, "phy_offset BIGINT, uniq_key STRING, "
            "decoded_uniq_key STRUCT<kind: STRING, client: STRING, pid: INT, timestamp: TIMESTAMP, "
            "counter: BIGINT>, store_timestamp TIMESTAMP",
        )  # fmt: skip
        decoded = 0
        for row in frame.collect():
            stored = milliseconds(row.store_timestamp)
            expected = decode_uniq_key(row.uniq_key or "", near=stored)
            got = row.decoded_uniq_key
            if expected is None:
                assert got is None
                continue
            decoded += 1
            remoting = isinstance(expected, RemotingMessageId)
            assert got.kind == ("remoting" if remoting else "grpc")
            assert got.pid == expected.pid
            assert milliseconds(got.timestamp) == expected.timestamp
            assert got.counter == (expected.counter if remoting else expected.sequence)
        assert decoded > len(kept) // 2

    def test_member_keys_are_what_the_index_does_not_hold(self, spark):
        """Earlier ids of duplicates, and those inside inner batches."""
        store, kept = STORES["golden2"][1], json.loads(
            (MESSAGE_KINDS / "store_messages.json").read_text()
        )["messages"]  # fmt: skip
        rows = {row.phy_offset: row for row in load(spark, store).collect()}
        members = 0
        for message in kept:
            row = rows.get(message["phy_offset"])
            if row is None or message["deleted"] or message["decoded"] is None:
                continue
            ids = [value for name, value in message["properties_raw"] if name == "UNIQ_KEY"]
            ids += [
                inner["properties"]["UNIQ_KEY"] for inner in message.get("inner_messages") or []
            ]
            own = set(message.get("index_keys") or [])
            assert {key for key in ids if key and key not in own and key != row.uniq_key} <= set(
                row.member_keys
            )
            assert own.isdisjoint(row.member_keys)
            members += len(row.member_keys)
        assert members > 100


class TestBodies:
    """Bodies come as they were sent, or as they are stored."""

    def test_bodies_come_as_they_were_sent(self, spark, told):
        """zlib, LZ4 and Zstandard; and as text, where a schema names it."""
        store, kept = told
        columns = "phy_offset BIGINT, body BINARY, body_text STRING"
        rows = load(spark, store, columns).collect()
        inner = {offset for offset, message in kept.items() if message.get("inner_messages")}
        for row in rows:
            try:
                text = None if row.phy_offset in inner else bytes(row.body).decode()
            except UnicodeDecodeError:
                text = None
            assert row.body_text == text
        bodies = {row.phy_offset: bytes(row.body) for row in rows}
        compared = 0
        for offset, message in kept.items():
            sent = message["sent"]
            if sent.get("body_b64") is not None and not message.get("inner_messages"):
                assert bodies[offset] == base64.b64decode(sent["body_b64"])
                compared += 1
        assert compared > 300

    def test_the_bytes_as_stored_are_to_be_had(self, spark, told):
        """The text is of what was sent all the same, and only an option adds it to all columns."""
        store, kept = told
        frame = load(spark, store, decompressBody=False, bodyText=True)
        assert frame.columns == [*load(spark, store).columns, "body_text"]
        stored = {row.phy_offset: (bytes(row.body), row.body_text) for row in frame.collect()}
        packed = 0
        for offset, message in kept.items():
            if message["decoded"] and offset in stored:
                body, text = stored[offset]
                assert body == base64.b64decode(message["decoded"]["stored_body_b64"] or "")
                if message["decoded"]["sys_flag"] & 1 and text is not None:
                    assert text.encode() == base64.b64decode(message["sent"]["body_b64"])
                    packed += 1
        assert packed

    @pytest.fixture
    def flipped(self, tmp_path):
        """Return a store with one byte of one body flipped, and that message's offset."""
        shutil.copytree(sample_store() / "commitlog", tmp_path / "commitlog")
        with CommitLog(tmp_path) as log:
            (batch, *_) = log.scan(columns=["phy_offset", "body"])
        place = 40
        offset = batch.column("phy_offset")[place].as_py()
        body = batch.column("body")[place].as_py()
        path = tmp_path / "commitlog" / "00000000000000000000"
        data = bytearray(path.read_bytes())
        at = data.index(body, offset)
        data[at] ^= 0xFF
        assert zlib.crc32(data[at : at + len(body)]) != zlib.crc32(body)
        path.write_bytes(data)
        return tmp_path, offset

    def test_a_body_whose_crc_is_wrong_is_refused_or_null(self, spark, flipped):
        """By its file and offset, with options that work; without bodies nothing is checked."""
        store, offset = flipped
        with pytest.raises(PythonException, match=f"message at offset {offset}: body: expected"):
            load(spark, store).collect()
        schema = "phy_offset long, body_text string"
        with pytest.raises(PythonException, match="mode=DROPMALFORMED gives null"):
            spark.read.format("rmqcommitlog").schema(schema).load(str(store)).collect()
        assert spark.read.format("rmqcommitlog").schema("topic string").load(str(store)).count()
        rows = load(spark, store, mode="DROPMALFORMED").collect()
        assert [row.phy_offset for row in rows if row.body is None] == [offset]
        assert len(rows) == 430
        stored = load(spark, store, decompressBody=False)
        assert stored.where("body IS NULL").count() == 0

    def test_crcs_are_checked_when_asked(self, spark, flipped):
        """Also where no body is; ``DROPMALFORMED`` leaves the message out."""
        store, offset = flipped
        with pytest.raises(PythonException, match="body_crc"):
            load(spark, store, checkCrc=True).collect()
        dropped = offsets(load(spark, store, checkCrc=True, mode="DROPMALFORMED"))
        assert len(dropped) == 429
        assert offset not in dropped

    def test_an_entry_of_a_damaged_message_says_so(self, spark, flipped):
        """Its key cannot be trusted, so it is not verified."""
        store, offset = flipped
        frame = (
            spark.read.format("rmqindex")
            .options(commitLog=str(store), checkCrc=True)
            .load(str(sample_store()))
        )
        bad = frame.where("match_state = 'bad_crc'").collect()
        assert {row.phy_offset for row in bad} == {offset}
        assert {(row.topic, row.key) for row in bad} == {(None, None)}


class TestPaths:
    """A store, a directory, a file, or several."""

    def test_a_directory_a_file_and_several_paths(self, spark, tmp_path):
        """As RocketMQ's ``storePathCommitLog`` names them."""
        log = sample_store() / "commitlog"
        files = sorted(log.iterdir())
        assert load(spark, log).count() == 430
        first = load(spark, files[0]).count()
        assert first + load(spark, files[1]).count() == 430
        for place, file in enumerate(files):
            (tmp_path / str(place)).mkdir()
            shutil.copyfile(file, tmp_path / str(place) / file.name)
        assert load(spark, f"{tmp_path / '0'},{tmp_path / '1'}").count() == 430
        both = spark.read.format("rmqcommitlog").load([str(file) for file in files])
        assert both.count() == 430

    @pytest.mark.parametrize("name", ["missing", "index"])
    def test_what_is_no_log_is_an_error(self, spark, name):
        """It names the path."""
        with pytest.raises(AnalysisException, match=name):
            load(spark, sample_store() / name).collect()

    def test_a_path_must_be_given(self, spark):
        """Nothing is guessed."""
        with pytest.raises(AnalysisException, match="'path': expected a path"):
            spark.read.format("rmqcommitlog").load()

    def test_an_empty_log_has_no_messages(self, spark, tmp_path):
        """As a broker's before its first message."""
        (tmp_path / "commitlog").mkdir()
        (tmp_path / "checkpoint").touch()
        assert load(spark, tmp_path).collect() == []

    def test_messages_that_come_after_the_plan_are_not_read(self, spark, tmp_path):
        """A live broker appends; what was planned stays what it is."""
        log = sample_store() / "commitlog"
        (tmp_path / "commitlog").mkdir()
        first, second = sorted(log.iterdir())
        for file in (first, second):
            shutil.copyfile(file, tmp_path / "commitlog" / file.name)
        data = bytearray(second.read_bytes())
        with CommitLog(sample_store()) as whole:
            every = [o for b in whole.scan(columns=["phy_offset"]) for o in b[0].to_pylist()]
        cut = every[-10] - 65536
        (tmp_path / "commitlog" / second.name).write_bytes(data[:cut] + bytes(65536 - cut))
        frame = load(spark, tmp_path)
        assert offsets(frame) == every[:-10]
        planned = frame.select("phy_offset").rdd
        planned.getNumPartitions()
        (tmp_path / "commitlog" / second.name).write_bytes(data)
        assert sorted(row.phy_offset for row in planned.collect()) == every[:-10]
        assert offsets(load(spark, tmp_path)) == every


def test_a_file_that_several_paths_name_counts_once(spark):
    """A store, its log and a file of it; copies that stand for one store are refused."""
    store = sample_store()
    first = min((store / "commitlog").iterdir())
    expected = offsets(load(spark, store))
    for paths in ([store, store / "commitlog"], [store, first], [first, store / "commitlog"]):
        frame = spark.read.format("rmqcommitlog").load([str(path) for path in paths])
        assert offsets(frame) == expected


def test_milliseconds_at_both_ends_are_no_bounds(spark):
    """Of a read that knows nothing of clocks, and of one that leaves out files by them."""
    least, most = str(-(2**63)), str(2**63 - 1)
    expected = load(spark, sample_store()).count()
    for options in ({}, {"maxClockStep": "0"}):
        wide = load(spark, sample_store(), beginTimestamp=least, endTimestamp=most, **options)
        assert wide.count() == expected
        for bound in ({"beginTimestamp": most}, {"endTimestamp": least}):
            assert load(spark, sample_store(), **bound, **options).count() == 0


def test_times_are_exact_or_null():
    """A client can send any time."""
    beyond = [-(2**63), -LAST_MILLISECOND - 1, LAST_MILLISECOND + 1, 2**63 - 1]
    values = pa.array([*beyond, -LAST_MILLISECOND, 0, LAST_MILLISECOND])
    times = as_timestamps(values, pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
    assert times == [None] * 4 + [-LAST_MILLISECOND * 1000, 0, LAST_MILLISECOND * 1000]
