"""Every format on stores of every kind: right rows, or refused with what was found.

Most tests run the readers in this process, as Spark's planner and its tasks would.
"""

from dataclasses import replace

import pytest
from tests.store_kinds import KINDS, bytes_of, copy_store, told, units_of

from pyspark_rmqindex import lookup, table
from pyspark_rmqindex.files.listing import list_files, list_slices
from pyspark_rmqindex.options import read_options
from pyspark_rmqindex.scan.reader import with_logs
from pyspark_rmqindex.source.index import DefaultSource
from pyspark_rmqindex.source.messages import MessageSource
from pyspark_rmqindex.source.queues import QueueSource
from pyspark_rmqindex.write.job import write_options
from rmqindex import RmqIndexError
from rows import rows_read

ROCKSDB_QUEUES = ("rocksdb_queue", "separate_path", "rocksdb_alone", "rocksdb_killed")
INDEX_IN_ROCKSDB = ("rocksdb_index_alone", "rocksdb_alone")
NO_INDEX_FILES = (*INDEX_IN_ROCKSDB, "rocksdb_killed")
DLEDGER = ("dledger", "dledger_after_plain")
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
    """The CommitLog of DLedger is left out of it."""
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
def test_messages_are_read_from_a_plain_log_or_refused(kept, kind):
    """Those of DLedger for the head before each record."""
    store = kept(kind)
    if kind in DLEDGER:
        with pytest.raises(RmqIndexError, match="an entry head of 48 bytes"):
            rows_without_spark(MessageSource, store)
        return
    offsets = [row["phy_offset"] for row in rows_without_spark(MessageSource, store)]
    assert sorted(offsets) == [message[0] for message in told(kind)["messages"]]


@pytest.mark.parametrize("kind", DLEDGER)
def test_entries_are_not_compared_with_a_log_that_goes_on_in_dledger(kept, kind):
    """Its plain part, if there is one, lacks the messages of the newer entries."""
    options = read_options({"path": str(kept(kind)), "commitLog": "auto"})
    slices = with_logs(list_slices(options).slices, "auto")
    assert {each.commit_log for each in slices} == {None}


@pytest.mark.parametrize(
    ("kind", "folder", "message"),
    [
        *(
            (kind, folder, "to write to, got a DLedger")
            for kind in DLEDGER
            for folder in ("", "index")
        ),
        ("dledger", "dledger-n0/index", "DLedger"),
        ("dledger", "dledger-n0/data", "DLedger"),
        ("rocksdb_index", "rocksdbstore", "a RocksDB database"),
        ("rocksdb_queue", "consumequeue", "RocksDB"),
        ("separate_path", "consumequeue_rocksdb", "RocksDB"),
    ],
)
def test_a_write_is_refused_before_anything_is_changed(kept, kind, folder, message):
    """Into a store of DLedger, and into a folder of RocksDB or DLedger."""
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
