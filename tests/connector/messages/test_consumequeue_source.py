"""``spark.read.format("rmqconsumequeue")`` gives what ``rmqindex.ConsumeQueue`` reads."""

import shutil

import pytest

import rmqindex
from kinds import sampled
from pyspark_rmqconsumequeue import DefaultSource
from pyspark_rmqindex.messages import queues
from recorded import MESSAGE_KINDS
from rmqindex import ConsumeQueue, RmqIndexError

STORE = rmqindex.sample_store()
STORE2 = MESSAGE_KINDS / "store"


def expected(path):
    """Return the units of a path, sorted."""
    rows = [
        tuple(row.values())
        for queue in ConsumeQueue.find(path)
        for batch in queue.scan()
        for row in batch.to_pylist()
    ]
    return sorted(rows)


def loaded(spark, path, **options):
    """Return what Spark reads, sorted."""
    frame = spark.read.format("rmqconsumequeue").options(**options).load(str(path))
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.parametrize(
    "below",
    sampled(
        ["", "consumequeue", "consumequeue/TopicOrder", "consumequeue/TopicOrder/1"],
        "",
        "consumequeue/TopicOrder/1",
    ),
)
@pytest.mark.parametrize("store", [STORE, STORE2], ids=["first", "second"])
def test_a_path_is_a_store_or_a_folder_of_queues(spark, store, below):
    """Every unit of every queue below it."""
    assert loaded(spark, store / below) == expected(store / below) != []


def test_several_stores_are_told_apart(spark, tmp_path):
    """By the column ``store``; a pattern stands for those that fit it."""
    for broker, store in (("a", STORE), ("b", STORE2)):
        (tmp_path / broker).symlink_to(store)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "lost+found").mkdir()
    counts = {str(tmp_path / "a"): len(expected(STORE)), str(tmp_path / "b"): len(expected(STORE2))}
    read = spark.read.format("rmqconsumequeue")
    for frame in (read.load(f"{tmp_path}/*"), read.load([*counts])):
        assert dict(frame.groupBy("store").count().collect()) == counts
    assert "store" not in read.option("storeColumn", "false").load(f"{tmp_path}/*").columns
    assert read.schema("store STRING").load(str(tmp_path / "a")).first().store == f"{tmp_path}/a"


def test_a_pattern_hides_no_store(tmp_path):
    """What fits it must be one; and something must fit."""
    (tmp_path / "a").symlink_to(STORE)
    (tmp_path / "b" / "store").mkdir(parents=True)
    (tmp_path / "b" / "store" / "consumequeue").mkdir()
    for path, said in (
        (f"{tmp_path}/*", f"Give one of the stores in it, such as {tmp_path}/b/store"),
        (f"{tmp_path}/c*", "c.: no store and no file of a queue fits the pattern"),
    ):
        source = DefaultSource({"path": path})
        with pytest.raises(RmqIndexError, match=said):
            source.reader(source.schema()).partitions()


def test_the_columns(spark):
    """Seven, and any subset of them."""
    frame = spark.read.format("rmqconsumequeue").load(str(STORE))
    assert frame.dtypes == [
        ("topic", "string"),
        ("queue_id", "int"),
        ("queue_offset", "bigint"),
        ("phy_offset", "bigint"),
        ("size", "int"),
        ("tags_code", "bigint"),
        ("file_path", "string"),
    ]
    some = spark.read.format("rmqconsumequeue").schema("size INT NOT NULL, topic STRING")
    assert some.load(str(STORE)).columns == ["size", "topic"]
    assert some.load(str(STORE)).count() == 406
    with pytest.raises(Exception, match="Known columns: topic STRING"):
        spark.read.format("rmqconsumequeue").schema("body BINARY").load(str(STORE)).collect()


@pytest.mark.system
def test_units_join_with_their_messages(spark):
    """Every unit leads to a message of its own topic and queue."""
    units = spark.read.format("rmqconsumequeue").load(str(STORE))
    messages = spark.read.format("rmqcommitlog").load(str(STORE))
    joined = units.join(messages, ["phy_offset", "topic", "queue_id", "queue_offset", "size"])
    assert joined.count() == units.count() == 406


@pytest.mark.system
def test_small_partitions(spark):
    """Files are packed by their bytes, and read once."""
    frame = (
        spark.read.format("rmqconsumequeue").option("maxPartitionBytes", 70_000).load(str(STORE))
    )
    assert frame.rdd.getNumPartitions() == 20
    assert loaded(spark, STORE, maxPartitionBytes="70000") == expected(STORE)


def test_several_paths_count_each_file_once(spark):
    """Paths may overlap."""
    queues = STORE / "consumequeue"
    frame = spark.read.format("rmqconsumequeue").load([str(queues / "TopicTest"), str(queues)])
    assert frame.count() == 406


def test_errors(spark, tmp_path):
    """A missing path, a folder of something else, an option of another format."""
    with pytest.raises(Exception, match="no such file or directory"):
        loaded(spark, tmp_path / "gone")
    with pytest.raises(Exception, match="expected a store with a folder consumequeue"):
        loaded(spark, tmp_path)
    with pytest.raises(Exception, match="'topic': not for the format rmqconsumequeue"):
        loaded(spark, STORE, topic="T")
    with pytest.raises(Exception, match="did you mean 'maxPartitionBytes'"):
        loaded(spark, STORE, maxPartitionByte="1")


def test_a_topic_that_is_deleted_while_its_files_are_planned_is_left_out(tmp_path, monkeypatch):
    """As a broker deletes it; a file that is there and cannot be read is an error."""
    store = shutil.copytree(STORE, tmp_path / "store")
    original = queues.marked_queue_file

    def mark(file, **options):
        shutil.rmtree(store / "consumequeue" / "TopicTest", ignore_errors=True)
        return original(file, **options)

    monkeypatch.setattr(queues, "marked_queue_file", mark)
    source = DefaultSource({"path": str(store)})
    reader = source.reader(source.schema())
    parts = [part for partition in reader.partitions() for part in partition.parts]
    assert {part.topic for part in parts} == {
        queue.topic for queue in ConsumeQueue.find(STORE) if queue.topic != "TopicTest"
    }

    def refuse(file, **_):
        raise RmqIndexError(file.path)

    monkeypatch.setattr(queues, "marked_queue_file", refuse)
    with pytest.raises(RmqIndexError):
        reader.partitions()
