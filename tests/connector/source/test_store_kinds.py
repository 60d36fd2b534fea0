"""Every format on stores of every kind: right rows, or refused with what was found.

Most tests run the readers in this process, as Spark's planner and its tasks would.
"""

import shutil
from dataclasses import replace
from unittest import TestCase

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from tests.system.store_kinds import KINDS, bytes_of, copy_store, told, units_of

from pyspark_rmqindex import lookup, table
from pyspark_rmqindex.files import list_files, list_slices, logs_of, store_of_log, with_logs
from pyspark_rmqindex.options import message_stream_options, read_options
from pyspark_rmqindex.schema import message_schema
from pyspark_rmqindex.source.index import DefaultSource
from pyspark_rmqindex.source.messages import MessageSource
from pyspark_rmqindex.source.queues import QueueSource
from pyspark_rmqindex.stream import MessageStreamReader
from pyspark_rmqindex.write import write_options
from rmqindex import CommitLog, CorruptCommitLogError, RmqIndexError
from rmqindex.storage import Location
from rows import rows_read

ROCKSDB_QUEUES = ("rocksdb_queue", "separate_path", "rocksdb_alone", "rocksdb_killed")
INDEX_IN_ROCKSDB = ("rocksdb_index_alone", "rocksdb_alone")
NO_INDEX_FILES = (*INDEX_IN_ROCKSDB, "rocksdb_killed")
DLEDGER = ("dledger", "dledger_after_plain", "dledger_batches")
WITH_INDEX_FILES = tuple(kind for kind in KINDS if kind not in NO_INDEX_FILES)


@pytest.fixture
def kept(tmp_path):
    """Copies a store of a kind."""
    return lambda kind: copy_store(kind, tmp_path)


def rows_without_spark(source, path, **options):
    """Return what a format gives for a path, without Spark."""
    made = source({"path": str(path), **options})
    reader = made.reader(made.schema())
    return rows_read(reader, reader.partitions())


@pytest.mark.parametrize("kind", WITH_INDEX_FILES)
def test_entries_are_read_from_index_files(kept, kind):
    """Whatever keeps the queues, another index or the CommitLog."""
    offsets = {row["phy_offset"] for row in rows_without_spark(DefaultSource, kept(kind))}
    assert offsets == {message[0] for message in told(kind)["messages"]}


@pytest.mark.parametrize("kind", WITH_INDEX_FILES)
def test_an_audit_finds_nothing(kept, kind):
    """Also against the CommitLog of DLedger."""
    assert rows_without_spark(DefaultSource, kept(kind), audit="true", commitLog="auto") == []


@pytest.mark.parametrize("kind", INDEX_IN_ROCKSDB)
def test_an_index_in_rocksdb_alone_is_refused(kept, kind):
    """Also below a folder, and where a missing index is no error, as in a stream."""
    store = kept(kind)
    message = "an index in RocksDB"
    with pytest.raises(RmqIndexError, match=message):
        rows_without_spark(DefaultSource, store)
    with pytest.raises(RmqIndexError, match=message):
        rows_without_spark(DefaultSource, store, audit="true")
    with pytest.raises(RmqIndexError, match=message):
        rows_without_spark(DefaultSource, store.parent, recursiveFileLookup="true")
    options = replace(read_options({"path": str(store)}), ignore_missing=True)
    with pytest.raises(RmqIndexError, match=message):
        list_files(options)


@pytest.mark.parametrize("kind", KINDS)
def test_queues_are_read_from_files_or_refused(kept, kind):
    """Never no rows for messages that are in RocksDB."""
    store = kept(kind)
    if kind in ROCKSDB_QUEUES:
        with pytest.raises(RmqIndexError, match="expected files of ConsumeQueues, found those of"):
            rows_without_spark(QueueSource, store)
        return
    found = sorted(
        (r["topic"], r["queue_id"], r["phy_offset"]) for r in rows_without_spark(QueueSource, store)
    )
    assert found == sorted(
        (topic, queue_id, unit[1])
        for (topic, queue_id), units in units_of(kind).items()
        for unit in units
        if not topic.startswith("%LMQ%")  # with combineCQUseRocksdbForLmq in RocksDB alone
    )


@pytest.mark.parametrize("kind", KINDS)
def test_messages_are_read(kept, kind):
    """Of a plain log and of DLedger's, whose parts begin at the heads of entries."""
    store = kept(kind)
    for size in ("1g", "2k"):
        rows = rows_without_spark(MessageSource, store, maxPartitionBytes=size)
        assert sorted(row["phy_offset"] for row in rows) == [m[0] for m in told(kind)["messages"]]


@pytest.mark.parametrize("path", ["", "dledger-n0/data", "dledger-n0/data/00000000000000010240"])
def test_rows_name_the_store_of_a_log_in_dledger(kept, path):
    """By its root, by the folder of DLedger or by a file."""
    store = kept("dledger")
    assert [log.store for log in logs_of([Location.of(store / path)])] == [str(store)]


def test_a_store_in_a_folder_named_like_one_of_dledger_is_a_store(tmp_path):
    """The name alone does not make it DLedger's."""
    store = tmp_path / "dledger-cluster" / "store"
    assert store_of_log(Location.of(store)) == str(store)
    assert store_of_log(Location.of(store / "commitlog")) == str(store)


def _undispatch(store):
    """Take index and queues away, which prove on what the group has agreed."""
    for name in ("index", "consumequeue"):
        shutil.rmtree(store / name)


def test_a_read_beyond_what_a_dledger_group_agreed_on_is_a_warning(kept):
    """With the option that leaves the rest out, which ends the warning."""
    store = kept("dledger")
    _undispatch(store)
    (store / "dledger-n0" / "checkpoint").write_text("committedIndex=107\nendIndex=119\n")
    with CommitLog(store) as log:
        tail = log.unagreed_tail()
    case = TestCase()
    with case.assertLogs("pyspark_rmqindex", "WARNING") as logs:
        assert len(rows_without_spark(MessageSource, store)) == 120
    assert f"the last {tail.byte_count} bytes of the CommitLog" in logs.output[0]
    assert f"endOffset={tail.offset}" in logs.output[0]
    with case.assertNoLogs("pyspark_rmqindex", "WARNING"):
        assert len(rows_without_spark(MessageSource, store, endOffset=str(tail.offset))) == 108


def test_a_damaged_note_of_a_dledger_group_is_a_warning_of_a_read_and_stops_a_stream(kept):
    """A read shows what is behind the agreed end, too; a stream must not go on behind it."""
    store = kept("dledger")
    checkpoint = store / "dledger-n0" / "checkpoint"
    checkpoint.write_bytes(b"")
    with TestCase().assertLogs("pyspark_rmqindex", "WARNING") as logs:
        assert len(rows_without_spark(MessageSource, store)) == 120
    assert f"{checkpoint}: committedIndex at byte 0" in logs.output[0]
    checked = message_stream_options({"path": str(store), "startingPosition": "earliest"})
    reader = MessageStreamReader(checked, message_schema(store=checked.has_store))
    with pytest.raises(CorruptCommitLogError, match="committedIndex at byte 0"):
        reader.latestOffset(reader.initialOffset(), ReadAllAvailable())


def test_a_stream_follows_what_a_dledger_group_agreed_on(kept):
    """In steps, from the start or from a message on; the rest comes once it is agreed on."""
    store = kept("dledger")
    _undispatch(store)
    checkpoint = store / "dledger-n0" / "checkpoint"
    offsets = [message[0] for message in told("dledger")["messages"]]
    for position, wanted in (("earliest", offsets), (str(offsets[30]), offsets[30:])):
        checkpoint.write_text("committedIndex=99\nendIndex=119\n")
        options = {"path": str(store), "startingPosition": position, "maxPartitionBytes": "2k"}
        checked = message_stream_options(options)
        reader = MessageStreamReader(checked, message_schema(store=checked.has_store))
        start, found = reader.initialOffset(), []
        for limit in (ReadMaxRows(7), ReadAllAvailable(), ReadAllAvailable()):
            end = reader.latestOffset(start, limit)
            rows = rows_read(reader, reader.partitions(start, end)) if end != start else []
            found += [row["phy_offset"] for row in rows]
            start = end
        assert found == wanted[:-20]
        checkpoint.write_text("committedIndex=119\nendIndex=119\n")
        end = reader.latestOffset(start, ReadAllAvailable())
        found += [row["phy_offset"] for row in rows_read(reader, reader.partitions(start, end))]
        assert found == wanted


@pytest.mark.parametrize("kind", DLEDGER)
def test_entries_are_compared_with_a_log_in_dledger(kept, kind):
    """The whole one, where it begins plain and goes on in DLedger."""
    store = kept(kind)
    options = read_options({"path": str(store), "commitLog": "auto"})
    slices = with_logs(list_slices(options).slices, "auto")
    assert {each.commit_log.path for each in slices} == {str(store)}
    rows = rows_without_spark(DefaultSource, store, commitLog="auto")
    assert {row["match_state"] for row in rows} == {"verified"}


@pytest.mark.parametrize(
    ("kind", "folder", "message"),
    [
        ("dledger", "dledger-n0", "DLedger"),
        ("dledger", "dledger-n0/index", "DLedger"),
        ("dledger", "dledger-n0/data", "DLedger"),
        ("rocksdb_index", "rocksdbstore", "a RocksDB database"),
        ("rocksdb_queue", "consumequeue", "RocksDB"),
        ("separate_path", "consumequeue_rocksdb", "RocksDB"),
    ],
)
def test_a_write_is_refused_before_anything_is_changed(kept, kind, folder, message):
    """Into a folder of RocksDB or DLedger."""
    store = kept(kind)
    before = bytes_of(store)
    with pytest.raises(RmqIndexError, match=message):
        write_options({"path": str(store / folder)})
    assert bytes_of(store) == before


def test_a_write_does_not_replace_a_tiered_file_of_the_same_size(tmp_path):
    """It is told by its magic number."""
    file = tmp_path / "1700000000000"
    file.write_bytes(bytes.fromhex("bcc50285").ljust(40 + 4 * 10 + 20 * 20, b"\0"))
    with pytest.raises(RmqIndexError, match="tiered storage"):
        write_options({"path": str(tmp_path), "maxHashSlotNum": "10", "maxIndexNum": "20"})


@pytest.mark.parametrize("kind", DLEDGER)
def test_index_files_can_be_written_into_a_store_of_dledger(kept, kind):
    """A broker loads them as any other."""
    store = kept(kind)
    assert write_options({"path": str(store)}).directory == store / "index"


@pytest.mark.parametrize("kind", NO_INDEX_FILES)
@pytest.mark.parametrize("has_folder", [False, True], ids=["no folder", "empty folder"])
def test_index_files_can_be_written_beside_an_index_in_rocksdb(kept, kind, has_folder):
    """A broker loads them, and nothing of RocksDB is touched."""
    store = kept(kind)
    if has_folder:
        (store / "index").mkdir()
    assert write_options({"path": str(store)}).directory == store / "index"


@pytest.mark.parametrize("kind", ["rocksdb_queue", "dledger"])
def test_keys_are_found_as_the_broker_found_them(spark, kept, kind):
    """By ``table`` and by ``lookup``."""
    store = str(kept(kind))
    answer = told(kind)["answers"]["order-3"]
    rows = table(spark, store).where("topic = 'TopicTest' AND key = 'order-3'").collect()
    assert sorted(row["phy_offset"] for row in rows) == answer
    keys = spark.createDataFrame([("TopicTest", "order-3")], "topic STRING, key STRING")
    assert sorted(row["phy_offset"] for row in lookup(keys, store).collect()) == answer
