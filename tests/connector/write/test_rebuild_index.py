"""A lost index is rebuilt from the CommitLog, byte for byte as the broker wrote it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import functions as F  # noqa: N812  (Spark's custom)

from kinds import sampled
from other_broker import running_broker
from pyspark_rmqindex import write_index
from recorded import BROKER_VERSIONS, MESSAGE_KINDS
from rmqindex import (
    CommitLog,
    IndexDirectory,
    IndexFile,
    Layout,
    RmqIndexError,
    StoreCheckpoint,
    cover_index,
    index_key,
    key_hash,
)

GEOMETRY = {"maxHashSlotNum": 97, "maxIndexNum": 200}
GEOMETRY2 = {"maxHashSlotNum": 53, "maxIndexNum": 120}

# What a running broker does.
HOLDS_LOCK = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX, 1)
    print("held", flush=True)
    sys.stdin.read()
"""


def index_files(directory):
    """Return the bytes of the files of an index, oldest first."""
    return [path.read_bytes() for path in sorted(Path(directory).iterdir())]


@pytest.fixture
def messages(spark, store):
    """Return the messages of the sample store, all columns."""
    return spark.read.format("rmqcommitlog").load(str(store))


@pytest.fixture
def lost(store, tmp_path):
    """Return a copy of the sample store that has lost its index."""
    copy = tmp_path / "lost"
    for name in ("commitlog", "consumequeue"):
        shutil.copytree(store / name, copy / name)
    for name in ("checkpoint", "lock"):
        shutil.copyfile(store / name, copy / name)
    return copy


@pytest.mark.parametrize("tasks", sampled([1, 3, 8], 3))
def test_write_index_gives_the_brokers_bytes_whatever_the_tasks(spark, store, lost, tasks):
    """The messages are dealt out at random, and every file comes out as the broker wrote it."""
    messages = spark.read.format("rmqcommitlog").load(str(lost)).repartition(tasks, F.rand(7))
    write_index(messages, lost, **GEOMETRY)
    assert index_files(lost / "index") == index_files(store / "index")


@pytest.mark.parametrize("part", sampled(["128m", "48k", "16k"], "128m"))
def test_save_gives_the_brokers_bytes_too(spark, store, lost, part):
    """A plain write of what is read, in one task and in several."""
    messages = spark.read.format("rmqcommitlog").option("maxPartitionBytes", part).load(str(lost))
    messages.write.format("rmqindex").mode("append").options(**GEOMETRY).save(str(lost))
    assert index_files(lost / "index") == index_files(store / "index")


def test_four_columns_are_enough(spark, store, lost):
    """What a rebuild needs can be named, so that nothing else is decoded."""
    messages = (
        spark.read.format("rmqcommitlog")
        .schema(
            "topic STRING, uniq_key STRING, keys STRING, sys_flag INT, phy_offset BIGINT, "
            "store_timestamp TIMESTAMP"
        )
        .load(str(lost))
    )
    write_index(messages, lost, **GEOMETRY)
    assert index_files(lost / "index") == index_files(store / "index")


def test_a_range_of_offsets_is_rebuilt_and_appended(spark, store, lost):
    """First the messages up to an offset, then the rest, each with its own read."""
    middle = 63594
    for bounds in ({"endOffset": middle}, {"beginOffset": middle}):
        part = spark.read.format("rmqcommitlog").options(**bounds).load(str(lost))
        write_index(part, lost, **GEOMETRY)
    assert index_files(lost / "index") == index_files(store / "index")


def test_an_interrupted_rebuild_is_resumed(spark, store, lost):
    """With ``onIndexed=skip`` everything is offered again, and only what lacks is written."""
    read = spark.read.format("rmqcommitlog")
    write_index(read.option("endOffset", 90_000).load(str(lost)), lost, **GEOMETRY)
    messages = spark.read.format("rmqcommitlog").load(str(lost))
    with pytest.raises(Exception, match="onIndexed=skip"):
        write_index(messages, lost, **GEOMETRY)
    write_index(messages, lost, onIndexed="skip", **GEOMETRY)
    write_index(messages, lost, onIndexed="skip", **GEOMETRY)
    assert index_files(lost / "index") == index_files(store / "index")


@pytest.mark.system
def test_a_log_without_its_head_continues_the_old_files(spark, tmp_path):
    """Entries of deleted messages come from the old files, the rest from the log.

    Files before the log's first offset are kept, the one in which it begins is cut there, and the
    log's messages are appended: the broker's index, byte for byte.
    """
    old = MESSAGE_KINDS / "store" / "index"
    with CommitLog(MESSAGE_KINDS / "store") as log:
        first = log.min_offset
    fresh = tmp_path / "index"
    fresh.mkdir()
    cut = None
    for path in sorted(old.iterdir()):
        with IndexFile(path, Layout(53, 120)) as file:
            if file.header.end_phy_offset < first:
                shutil.copyfile(path, fresh / path.name)
            elif cut is None:
                cut = path
    entries = spark.read.format("rmqindex").options(**GEOMETRY2).load(str(cut))
    write_index(entries.where(F.col("phy_offset") < first), fresh, **GEOMETRY2)
    messages = spark.read.format("rmqcommitlog").load(str(MESSAGE_KINDS / "store"))
    write_index(messages.repartition(3), fresh, **GEOMETRY2)
    assert index_files(fresh) == index_files(old)


@pytest.mark.system
def test_the_log_alone_gives_every_retained_entry(spark, tmp_path):
    """From the first retained message on, hashes and offsets are those of the broker's entries."""

    def entries(path):
        frame = spark.read.format("rmqindex").options(**GEOMETRY2).load(str(path))
        rows = frame.orderBy("file_path", "position").select("key_hash", "phy_offset").collect()
        return [tuple(row) for row in rows]

    with CommitLog(MESSAGE_KINDS / "store") as log:
        first = log.min_offset
    messages = spark.read.format("rmqcommitlog").load(str(MESSAGE_KINDS / "store"))
    write_index(messages, tmp_path / "index", **GEOMETRY2)
    retained = [entry for entry in entries(MESSAGE_KINDS / "store") if entry[1] >= first]
    assert entries(tmp_path / "index") == retained


def test_members_of_batches_are_indexed_when_asked(spark, tmp_path):
    """Their own ids, which the broker's index does not hold, are found in the rebuilt one."""
    told = json.loads((MESSAGE_KINDS / "store_messages.json").read_text())["messages"]
    messages = spark.read.format("rmqcommitlog").load(str(MESSAGE_KINDS / "store"))
    path = tmp_path / "index"
    write_index(messages, path, indexMembers=True, **GEOMETRY2)
    members = set()
    for message in told:
        if message["deleted"] or message["decoded"] is None or not message["indexed"]:
            continue
        topic, offset = message["decoded"]["topic"], message["phy_offset"]
        pairs = [pair for pair in message["properties_raw"] if pair[0] == "UNIQ_KEY"]
        members |= {(topic, value, offset) for _, value in pairs}
        for inner in message.get("inner_messages") or []:
            members.add((topic, inner["properties"]["UNIQ_KEY"], offset))
    assert len(members) > 700
    entries = spark.read.format("rmqindex").options(**GEOMETRY2).load(str(path))
    found = {tuple(row) for row in entries.select("key_hash", "phy_offset").collect()}
    assert {(key_hash(index_key(topic, key)), offset) for topic, key, offset in members} <= found


@pytest.mark.system
def test_members_come_behind_the_keys_of_their_message(spark, tmp_path):
    """Without the added entries, the rebuilt index holds the broker's in the broker's order."""
    messages = spark.read.format("rmqcommitlog").load(str(MESSAGE_KINDS / "store"))
    order = {}
    for members in (False, True):
        path = tmp_path / str(members)
        write_index(messages, path, indexMembers=members, **GEOMETRY2)
        frame = spark.read.format("rmqindex").options(**GEOMETRY2).load(str(path))
        order[members] = [
            (row.phy_offset, row.key_hash)
            for row in frame.orderBy("file_path", "position").collect()
        ]
    by_message = {}
    for offset, hash_ in order[True]:
        by_message.setdefault(offset, []).append(hash_)
    own = {}
    for offset, hash_ in order[False]:
        own.setdefault(offset, []).append(hash_)
    assert len(order[True]) > len(order[False])
    assert all(by_message[offset][: len(hashes)] == hashes for offset, hashes in own.items())


@pytest.mark.parametrize(
    "columns", sampled([["topic", "keys"], ["key_hash"], ["topic", "key"]], ["topic", "keys"])
)
def test_indexing_members_needs_their_column(spark, tmp_path, columns):
    """Rows without ``member_keys`` cannot say what is asked for."""
    rows = spark.range(1).select(
        F.lit(0).cast("bigint").alias("phy_offset"),
        F.lit(1).cast("bigint").alias("store_timestamp"),
        *(
            F.lit(5).alias(name) if name == "key_hash" else F.lit("a").alias(name)
            for name in columns
        ),
    )
    with pytest.raises(ValueError, match="'indexMembers': expected messages with the column"):
        write_index(rows, tmp_path / "index", indexMembers=True)
    with pytest.raises(AnalysisException, match="'indexMembers': expected messages"):
        rows.write.format("rmqindex").mode("append").option("indexMembers", True).save(
            str(tmp_path / "index")
        )


class TestCheckpoint:
    """A broker that starts after a crash keeps what was rebuilt."""

    def started_after_a_crash(self, store):
        """Return how many files such a broker keeps."""
        with IndexDirectory(store, Layout(97, 200), last_exit_ok=False) as index:
            return len(index.files)

    def test_without_it_the_broker_deletes_new_files(self, messages, lost):
        """The checkpoint knows of the full files that the broker itself wrote, and of no others."""
        StoreCheckpoint().save(lost / "checkpoint")
        write_index(messages, lost, checkpoint=False, **GEOMETRY)
        assert self.started_after_a_crash(lost) == 0

    def test_by_default_the_broker_keeps_them(self, messages, lost):
        """Nobody has to know of the checkpoint to rebuild the index of a store."""
        StoreCheckpoint().save(lost / "checkpoint")
        write_index(messages, lost, **GEOMETRY)
        assert self.started_after_a_crash(lost) == 5

    @pytest.mark.parametrize(
        "way", sampled(["write_index", "save", "cover_index"], "write_index", "save")
    )
    def test_with_it_the_broker_keeps_them(self, messages, lost, way):
        """The index's time becomes the end of its last file; the other fields stay."""
        before = StoreCheckpoint(1, 2, 3, 4, 5)
        before.save(lost / "checkpoint")
        if way == "save":
            writer = messages.write.format("rmqindex").mode("append").options(**GEOMETRY)
            writer.option("checkpoint", True).save(str(lost))
        else:
            checkpoint = "auto" if way == "write_index" else False
            write_index(messages, lost, checkpoint=checkpoint, **GEOMETRY)
        if way == "cover_index":
            cover_index(lost)
        after = StoreCheckpoint.load(lost / "checkpoint")
        assert after.index_msg_timestamp == 1700022861666
        assert (after.physic_msg_timestamp, after.confirm_phy_offset) == (1, 5)
        assert self.started_after_a_crash(lost) == 5

    def test_a_crashed_store_is_covered_too(self, messages, lost):
        """``abort`` is what the crash left; only a running broker is in the way."""
        (lost / "abort").write_text("1")
        StoreCheckpoint().save(lost / "checkpoint")
        write_index(messages, lost, checkpoint=True, **GEOMETRY)
        assert self.started_after_a_crash(lost) == 5

    def test_a_running_broker_is_in_the_way(self, messages, lost):
        """It would write its own checkpoint over this one, so nothing is written at all."""
        holder = subprocess.Popen(
            [
                sys.executable,
                "-c",
                HOLDS_LOCK,
                str(lost / "lock"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert holder.stdout.readline() == b"held\n"
            before = (lost / "checkpoint").read_bytes()
            with pytest.raises(RmqIndexError, match="a broker runs on this store"):
                write_index(messages, lost, checkpoint=True, **GEOMETRY)
            with pytest.raises(RmqIndexError, match="a broker runs on this store"):
                cover_index(lost)
            assert (lost / "checkpoint").read_bytes() == before
            assert not (lost / "index").exists()
        finally:
            holder.communicate()

    def test_a_later_checkpoint_stays(self, lost, store):
        """Nothing is taken back."""
        shutil.copytree(store / "index", lost / "index")
        later = StoreCheckpoint(1, 2, 2**50, 4, 5)
        later.save(lost / "checkpoint")
        assert cover_index(lost / "index") == later
        assert StoreCheckpoint.load(lost / "checkpoint") == later

    def test_a_directory_that_is_no_store_has_none(self, messages, tmp_path):
        """There is nothing that a broker would read."""
        with pytest.raises(RmqIndexError, match="expected a store, with a checkpoint"):
            write_index(messages, tmp_path / "alone" / "index", checkpoint=True, **GEOMETRY)
        assert not (tmp_path / "alone" / "index").exists()


def test_tags_are_indexed_when_asked_for(spark, tmp_path):
    """The files are those of rebuild_index, which is a broker's from 5.4.0 on."""
    from rmqindex import rebuild_index, sample_store

    log = sample_store() / "commitlog"
    messages = spark.read.format("rmqcommitlog").load(str(log))
    layout = {"maxHashSlotNum": 97, "maxIndexNum": 200}
    write_index(messages, tmp_path / "spark", indexTags=True, **layout)
    rebuild_index(log, tmp_path / "format", Layout(97, 200), index_tags=True)
    got, expected = (
        [path.read_bytes() for path in sorted((tmp_path / name).glob("2*"))]
        for name in ("spark", "format")
    )
    assert got == expected
    with pytest.raises(ValueError, match="'indexTags': expected messages with the column tags"):
        write_index(messages.drop("tags"), tmp_path / "other", indexTags=True)


def test_bodies_are_not_unpacked_to_be_left_out(spark, lost):
    """A body that does not unpack is none of an index's business, and costs it nothing."""
    with CommitLog(lost) as log:
        batch = next(log.scan(columns=["phy_offset", "sys_flag", "body"], decompress_body=False))
    packed = next(row for row in batch.to_pylist() if row["sys_flag"] & 1)
    path = lost / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    at = data.index(packed["body"], packed["phy_offset"])
    data[at : at + len(packed["body"])] = bytes(len(packed["body"]))
    path.write_bytes(data)
    damaged = spark.read.format("rmqcommitlog").load(str(lost))
    with pytest.raises(PythonException, match=r"body: expected the CRC-32"):
        damaged.collect()
    write_index(damaged, lost, **GEOMETRY)
    with IndexDirectory(lost / "index", Layout(97, 200)) as written:
        assert written.query_offset("TopicTest", "order-49", 64, 0, 2**62).phy_offsets


class TestTags:
    """An index of a broker from 5.4.0 on keeps the entries of tags, without being told."""

    @pytest.fixture
    def tagged(self, tmp_path):
        """Return a copy of a store of RocketMQ 5.5.0."""
        return Path(shutil.copytree(BROKER_VERSIONS / "5.5.0/store", tmp_path / "s"))

    def read(self, spark, store):
        """Return the messages of a store."""
        return spark.read.format("rmqcommitlog").load(str(store))

    @pytest.mark.parametrize("way", ["write_index", "save"])
    def test_the_replaced_files_show_them(self, spark, tagged, way):
        """The files are the broker's, byte for byte."""
        before = index_files(tagged / "index")
        messages = self.read(spark, tagged)
        if way == "write_index":
            write_index(messages, tagged, mode="overwrite")
        else:
            messages.write.format("rmqindex").mode("overwrite").save(str(tagged))
        assert index_files(tagged / "index") == before

    def test_the_continued_files_show_them(self, spark, tagged):
        """The newest file is lost, and comes back with the tags that it had."""
        before = index_files(tagged / "index")
        max((tagged / "index").iterdir()).unlink()
        write_index(self.read(spark, tagged), tagged, onIndexed="skip")
        assert index_files(tagged / "index") == before

    def test_rows_without_the_column_are_refused(self, spark, tagged):
        """The error names the column and the option."""
        before = index_files(tagged / "index")
        messages = self.read(spark, tagged).drop("tags")
        with pytest.raises(ValueError, match=r"column 'tags': missing.*indexTags=false"):
            write_index(messages, tagged, mode="overwrite")
        assert index_files(tagged / "index") == before
        write_index(messages, tagged, mode="overwrite", indexTags=False)
        assert len(index_files(tagged / "index")) == len(before) - 1

    def test_what_was_taken_is_said_where_nothing_tells(self, spark, tagged, caplog):
        """Tags and geometry, with the options that choose; the folder of a new broker tells."""
        before = index_files(tagged / "index")
        shutil.rmtree(tagged / "index")
        lines = []
        for folder in (None, "rocksdbstore"):
            if folder is not None:
                (tagged / folder).mkdir()
            write_index(self.read(spark, tagged), tagged, **GEOMETRY)
            lines.append(caplog.text)
            caplog.clear()
            made = index_files(tagged / "index")
            shutil.rmtree(tagged / "index")
        assert "tags are not indexed" in lines[0]
        assert "indexTags=true" in lines[0]
        assert "has the folder rocksdbstore" in lines[1]
        assert made == before


def test_a_store_on_which_a_broker_runs_names_the_option(messages, lost):
    """In Spark's words."""
    with (
        running_broker(lost),
        pytest.raises(RmqIndexError, match="With allowLiveStore=true this is written"),
    ):
        write_index(messages, lost, **GEOMETRY)
