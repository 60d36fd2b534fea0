"""How far consumer groups are, and where messages stand in their ConsumeQueues."""

from __future__ import annotations

import json
import shutil
import struct

import pytest

from rmqindex import ConsumeQueue, MessageStore, RmqIndexError, sample_store
from rmqindex.consumequeue import GROUP_STATES, consumer_progress
from rmqindex.layout import CONSUMER_GROUP_SCHEMA

UNIT = 20


def write_queue(root, count, topic="T", queue_id=0, first=0, kind="consumequeue"):
    """Write a queue with a unit for each 100 bytes of the log."""
    folder = root / kind / topic / str(queue_id)
    folder.mkdir(parents=True)
    units = b"".join(struct.pack(">qiq", 100 * at, 100, 0) for at in range(first, first + count))
    (folder / f"{first * UNIT:020d}").write_bytes(units.ljust(1000 * UNIT, b"\0"))


def commit(root, **offsets):
    """Write what groups have committed; ``T@g`` is written ``T__g``."""
    table = {name.replace("__", "@"): queues for name, queues in offsets.items()}
    (root / "config").mkdir(exist_ok=True)
    (root / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": table}))


def write_topics(root, **queues):
    """Write the broker's table of topics, and how many queues each has."""
    table = {topic: {"topicName": topic, "readQueueNums": n} for topic, n in queues.items()}
    (root / "config").mkdir(exist_ok=True)
    (root / "config/topics.json").write_text(json.dumps({"topicConfigTable": table}))


def rows(root, **asked):
    """Return the rows as tuples without the group."""
    found = consumer_progress(root, **asked).rows
    return [
        (row.topic, row.queue_id, row.committed_offset, row.min_offset, row.max_offset, row.lag,
         row.expired, row.state)
        for row in found
    ]  # fmt: skip


class TestProgress:
    """Lag is counted as mqadmin does it, and what it cannot mean has a name."""

    @pytest.mark.parametrize(
        ("committed", "lag", "expired", "state"),
        [
            (30, 0, 0, "at_end"),
            (29, 1, 0, "behind"),
            (10, 20, 0, "behind"),
            (9, 21, 1, "before_queue"),
            (0, 30, 10, "before_queue"),
            (31, -1, 0, "beyond_end"),
            (-1, 30, 10, "negative"),
            (-(2**63), 30, 10, "negative"),
        ],
    )
    def test_an_offset_in_a_queue_that_was_rolled(self, tmp_path, committed, lag, expired, state):
        """The queue has the messages 10 to 29."""
        write_queue(tmp_path, 20, first=10)
        commit(tmp_path, T__g={"0": committed})
        assert rows(tmp_path) == [("T", 0, committed, 10, 30, lag, expired, state)]

    def test_a_queue_begins_where_the_log_does(self, tmp_path):
        """Its units before lead nowhere, and no consumer is given them."""
        write_queue(tmp_path, 20)
        (tmp_path / "commitlog").mkdir()
        (tmp_path / "commitlog" / f"{500:020d}").write_bytes(bytes(500))
        commit(tmp_path, T__g={"0": 2})
        assert rows(tmp_path) == [("T", 0, 2, 5, 20, 18, 3, "before_queue")]

    def test_queues_without_an_offset_count_from_0(self, tmp_path):
        """As in mqadmin; a queue without messages and offset has no row."""
        write_queue(tmp_path, 5)
        write_queue(tmp_path, 0, queue_id=1)
        write_queue(tmp_path, 7, queue_id=2)
        write_topics(tmp_path, T=3)
        commit(tmp_path, T__g={"2": 7})
        assert rows(tmp_path) == [
            ("T", 0, None, 0, 5, 5, 0, "no_offset"),
            ("T", 2, 7, 0, 7, 0, 0, "at_end"),
        ]

    def test_queues_that_are_not_there(self, tmp_path):
        """A queue that never had a message is no lost one."""
        commit(tmp_path, T__g={"0": 0, "1": 4})
        assert rows(tmp_path) == [
            ("T", 0, 0, 0, 0, 0, 0, "at_end"),
            ("T", 1, 4, None, None, None, 0, "no_queue"),
        ]

    def test_no_total_is_made_of_what_is_not_known(self, tmp_path):
        """It would say that nothing waits; of known queues it is their sum."""
        write_queue(tmp_path, 5)
        commit(tmp_path, T__g={"0": 2, "1": 4}, U__g={"0": 3})
        assert consumer_progress(tmp_path).totals() == [("g", "T", 2, 3, 0), ("g", "U", 1, None, 0)]
        write_topics(tmp_path, T=1)
        assert consumer_progress(tmp_path).totals() == [("g", "T", 2, 3, 0), ("g", "U", 1, 0, 0)]

    def test_a_topic_that_was_deleted_counts_nothing(self, tmp_path):
        """The broker does not know it, whether its queues are there or not."""
        write_queue(tmp_path, 5)
        write_topics(tmp_path, Other=1)
        commit(tmp_path, T__g={"0": 3, "1": 2})
        assert [row[-3:] for row in rows(tmp_path)] == [(None, 0, "topic_deleted")] * 2

    def test_queues_that_no_consumer_reads_count_nothing(self, tmp_path):
        """Those of a topic that was made smaller."""
        write_queue(tmp_path, 5)
        write_queue(tmp_path, 5, queue_id=1)
        write_topics(tmp_path, T=1)
        commit(tmp_path, T__g={"0": 3, "1": 2})
        assert [row[-3:] for row in rows(tmp_path)] == [(2, 0, "behind"), (None, 0, "not_read")]

    def test_queues_in_rocksdb_are_not_read(self, tmp_path):
        """Their ends are not known."""
        (tmp_path / "consumequeue").mkdir()
        for name in ("CURRENT", "MANIFEST-000001"):
            (tmp_path / "consumequeue" / name).touch()
        commit(tmp_path, T__g={"0": 3})
        assert rows(tmp_path) == [("T", 0, 3, None, None, None, 0, "queue_unread")]

    def test_every_state_is_explained(self):
        """And the tests above have shown all of them."""
        assert set(GROUP_STATES) == {
            *("at_end", "behind", "no_offset", "before_queue", "beyond_end", "negative"),
            *("no_queue", "topic_deleted", "not_read", "queue_unread"),
        }

    @pytest.mark.parametrize("name", ["..", "a/b", ".", "x" * 300, "T\0"])
    def test_a_topic_that_no_folder_can_have_has_no_queue(self, tmp_path, name):
        """Whatever the file of offsets says, nothing outside of the queues is looked at."""
        write_queue(tmp_path, 5)
        commit(tmp_path, **{f"{name}__g": {"0": 1}})
        assert [row[-1] for row in rows(tmp_path)] == ["no_queue"]

    def test_the_groups_and_topics_asked_for(self, tmp_path):
        """By group, then by topic."""
        write_queue(tmp_path, 5)
        write_queue(tmp_path, 5, topic="U")
        commit(tmp_path, U__g={"0": 1}, T__g={"0": 2}, T__h={"0": 3}, **{"T__g@x": {"0": 4}})
        found = consumer_progress(tmp_path)
        assert [(row.group, row.topic) for row in found.rows] == [
            ("g", "T"), ("g", "U"), ("g@x", "T"), ("h", "T"),
        ]  # fmt: skip
        assert found.totals()[0] == ("g", "T", 1, 3, 0)
        assert [row.group for row in consumer_progress(tmp_path, topic="T").rows] == [
            "g", "g@x", "h",
        ]  # fmt: skip
        assert rows(tmp_path, group="h") == [("T", 0, 3, 0, 5, 2, 0, "behind")]
        assert rows(tmp_path, group="none") == []

    def test_batch_queues_count_messages(self, tmp_path):
        """And not units."""
        folder = tmp_path / "batchconsumequeue/T/0"
        folder.mkdir(parents=True)
        units = [struct.pack(">qiqqqhii", 100 * at, 100, 0, 1, 3 * at, 3, -1, 0) for at in range(4)]
        (folder / f"{0:020d}").write_bytes(b"".join(units).ljust(460, b"\0"))
        commit(tmp_path, T__g={"0": 7})
        assert rows(tmp_path) == [("T", 0, 7, 0, 12, 5, 0, "behind")]

    def test_without_offsets_it_is_said_what_was_looked_for(self, tmp_path):
        """Databases in its place are named."""
        with pytest.raises(RmqIndexError, match="found none; give the store root"):
            consumer_progress(tmp_path)
        folder = tmp_path / "config" / "rdb"
        folder.mkdir(parents=True)
        for name in ("CURRENT", "MANIFEST-000001"):
            (folder / name).touch()
        with pytest.raises(RmqIndexError, match=f"RocksDB databases .{folder}"):
            consumer_progress(tmp_path)
        with pytest.raises(RmqIndexError, match="no such file"):
            consumer_progress(tmp_path / "absent")

    def test_a_store_answers_with_a_table(self, tmp_path):
        """Of the sample, whose queues RocketMQ wrote."""
        store = shutil.copytree(sample_store(), tmp_path / "store")
        ends = {
            queue.queue_id: queue.max_offset
            for queue in ConsumeQueue.find(store / "consumequeue/TopicTest")
        }
        commit(store, TopicTest__g={str(number): end - 2 for number, end in ends.items()})
        table = MessageStore(store).consumer_groups("g", "TopicTest")
        assert table.schema == CONSUMER_GROUP_SCHEMA
        assert {row["queue_id"]: row["max_offset"] for row in table.to_pylist()} == ends
        assert table["lag"].to_pylist() == [2] * 4
        assert table.schema.metadata[b"notes"] == b"[]"
        assert MessageStore(store).consumer_groups("absent").num_rows == 0
