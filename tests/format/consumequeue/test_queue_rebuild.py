"""Rebuilt ConsumeQueues: topics made again, kinds of queues, numbers in properties, losses."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import struct

import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.system.store_kinds import copy_store

import rmqindex
from commitlog_encoder import Log, Message, properties_text
from permissions import mode_of
from recorded import MESSAGE_KINDS
from rmqindex import (
    ConsumeQueue,
    CorruptCommitLogError,
    RmqIndexError,
    rebuild_consume_queues,
)
from rmqindex.layout.queue import SCHEDULE_TOPIC
from trees import queue_files

STORE = rmqindex.sample_store()
INNER_BATCH = 0x1 << 7
BLANK = 2**31 - 1


def store_of(root, messages, file_size=1 << 16):
    """Write a store with a log of messages, and return where each starts."""
    log = Log(file_size)
    for message in messages:
        log.append(message)
    log.write_to(root / "commitlog")
    return log.offsets


def numbered(count, **fields):
    """Return messages with the queue offsets from 0 on."""
    return [Message(queue_offset=place, **fields) for place in range(count)]


def places(root, topic="TopicTest", queue_id=0):
    """Return the queue offset and log offset of each unit of a queue."""
    return [
        (row["queue_offset"], row["phy_offset"])
        for queue in ConsumeQueue.find(root)
        if (queue.topic, queue.queue_id) == (topic, queue_id)
        for batch in queue.scan()
        for row in batch.to_pylist()
    ]


def all_units(root):
    """Return the places and messages of all units, by queue."""
    return {
        (queue.topic, queue.queue_id): places(root, queue.topic, queue.queue_id)
        for queue in ConsumeQueue.find(root)
    }


def write_queue(root, offsets, topic="TopicTest", queue_id=0):
    """Write a plain queue with one unit for each offset; None for a blank one."""
    folder = root / "consumequeue" / topic / str(queue_id)
    folder.mkdir(parents=True)
    units = [struct.pack(">qiq", 0, BLANK, 0) if at is None else struct.pack(">qiq", at, 150, 0)
             for at in offsets]  # fmt: skip
    (folder / f"{0:020d}").write_bytes(b"".join(units).ljust(2000, b"\0"))


def damage_unit(root, topic, place, offset):
    """Let a unit of a queue with five units a file lead elsewhere."""
    path = root / f"consumequeue/{topic}/0" / f"{place // 5 * 100:020d}"
    with path.open("r+b") as file:
        file.seek(place % 5 * 20)
        file.write(struct.pack(">q", offset))


def write_topics(root, topics):
    """Write the broker's table of topics."""
    table = {
        topic: {"attributes": {"queue.type": "BatchCQ"} if batch else {}, "topicName": topic}
        for topic, batch in topics.items()
    }
    (root / "config").mkdir(parents=True, exist_ok=True)
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


class TestTopicsMadeAgain:
    """A queue offset that falls back."""

    def test_a_topic_that_was_deleted_and_made_again_keeps_its_live_queue(self, tmp_path):
        """Its present units are those of the new messages, at their queue offsets."""
        offsets = store_of(tmp_path, numbered(10) + numbered(5))
        live = list(enumerate(offsets[10:]))
        write_queue(tmp_path, offsets[10:])
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert places(tmp_path) == live
        assert done.superseded == (("TopicTest", 0, 10),)
        assert (done.unit_count, done.lost, done.dropped, done.gaps) == (5, (), (), ())

    def test_queues_begin_anew_without_present_ones(self, tmp_path):
        """However often, and in whatever blocks the log is read."""
        offsets = store_of(tmp_path, numbered(10) + numbered(7) + numbered(1) + numbered(3))
        done = rebuild_consume_queues(tmp_path, tmp_path)
        assert places(tmp_path) == list(enumerate(offsets[18:]))
        assert done.superseded == (("TopicTest", 0, 18),)

    def test_a_queue_begins_anew_in_a_later_block(self, tmp_path):
        """What was written before is removed, also further files."""
        first, second = numbered(9000), numbered(3)
        offsets = store_of(tmp_path, first + second, 1 << 22)
        done = rebuild_consume_queues(tmp_path, tmp_path, file_size=2000)
        assert places(tmp_path) == list(enumerate(offsets[9000:]))
        assert (done.file_count, done.superseded) == (1, (("TopicTest", 0, 9000),))

    def test_the_present_queue_proves_a_beginning_whose_first_message_is_lost(self, tmp_path):
        """The unit at a queue offset that falls back leads to that very message."""
        offsets = store_of(tmp_path, numbered(6) + numbered(4)[1:])
        write_queue(tmp_path, [None, *offsets[6:]])
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert places(tmp_path) == [(1, offsets[6]), (2, offsets[7]), (3, offsets[8])]
        assert done.superseded == (("TopicTest", 0, 6),)

    def test_taken_queue_offsets_are_refused_with_their_number(self, tmp_path):
        """They are never dropped in silence; the broker's rule needs a flag."""
        messages = [*numbered(6), *numbered(8)[3:]]
        offsets = store_of(tmp_path, messages)
        with pytest.raises(RmqIndexError, match=rf"3 of TopicTest, queue 0, .* {offsets[6]}\)"):
            rebuild_consume_queues(tmp_path, tmp_path)
        assert not (tmp_path / "consumequeue").exists()
        done = rebuild_consume_queues(tmp_path, tmp_path, allow_loss=True)
        assert done.dropped == (("TopicTest", 0, 3, 3, offsets[6], 0),)
        assert places(tmp_path) == list(enumerate(offsets[:6] + offsets[9:]))

    def test_deleted_topics_come_back_by_name(self, tmp_path):
        """Where the broker's table of topics does not have them; they can be left out."""
        store_of(tmp_path, [*numbered(2, topic="Gone"), *numbered(2), *numbered(1, topic="%LMQ%a")])
        write_topics(tmp_path, {"TopicTest": False})
        done = rebuild_consume_queues(tmp_path, tmp_path)
        assert (done.deleted_topics, done.left_out) == (("Gone",), ())
        shutil.rmtree(tmp_path / "consumequeue")
        done = rebuild_consume_queues(tmp_path, tmp_path, leave_out=["Gone"])
        assert (done.deleted_topics, done.left_out) == ((), ("Gone",))
        assert places(tmp_path, "Gone") == []

    def test_deleted_topics_stay_away_where_the_queues_have_none_of_them_either(self, tmp_path):
        """Two witnesses: the table of topics, and the present queues."""
        offsets = store_of(tmp_path, [*numbered(2, topic="Gone"), *numbered(2)])
        write_topics(tmp_path, {"TopicTest": False})
        write_queue(tmp_path, offsets[2:])
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert (done.deleted_topics, done.left_out) == ((), ("Gone",))
        assert {queue.topic for queue in ConsumeQueue.find(tmp_path)} == {"TopicTest"}


def dealt(queues, **fields):
    """Return messages of queues by their numbers, each with its next queue offset."""
    return [
        Message(queue_id=queue, queue_offset=queues[:place].count(queue), **fields)
        for place, queue in enumerate(queues)
    ]


class TestQueuesThatATopicMadeAgainDoesNotUse:
    """A broker has none, and the log has messages of the time before."""

    def left(self, root, done):
        """Return the numbers of the topic's queues, and of those left out or doubtful."""
        there = sorted(queue.queue_id for queue in ConsumeQueue.find(root))
        return there, [queue for _, queue, _ in done.superseded], [
            queue for _, queue, _ in done.doubtful
        ]  # fmt: skip

    def test_they_stay_away_where_the_present_queues_lack_them_too(self, tmp_path):
        """Queue 0 begins with the new topic, and queue 1 is not there."""
        offsets = store_of(tmp_path, dealt([0, 1, 1, 0]) + numbered(3))
        write_queue(tmp_path, offsets[4:])
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert self.left(tmp_path, done) == ([0], [0, 1], [])
        assert done.superseded == (("TopicTest", 0, 2), ("TopicTest", 1, 2))
        assert (done.queue_count, done.unit_count, done.file_count) == (1, 3, 1)

    def test_they_stay_away_however_often_the_topic_was_made_again(self, tmp_path):
        """All units of each are counted."""
        offsets = store_of(tmp_path, dealt([0, 1, 0]) + dealt([1, 0, 1, 0]) + numbered(2))
        write_queue(tmp_path, offsets[7:])
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert done.superseded == (("TopicTest", 0, 4), ("TopicTest", 1, 3))

    def test_batch_queues_stay_away_alike(self, tmp_path):
        """Their first queue offsets stand in the messages' properties."""

        def batch(queue, base):
            text = properties_text([("INNER_NUM", "2"), ("INNER_BASE", str(base))])
            return Message(sys_flag=INNER_BATCH, queue_id=queue, properties=text)

        store_of(tmp_path, [batch(0, 0), batch(1, 0), batch(0, 2), batch(0, 0)])
        done = rebuild_consume_queues(tmp_path, tmp_path)
        assert self.left(tmp_path, done) == ([0, 1], [0], [1])
        shutil.rmtree(tmp_path / "batchconsumequeue/TopicTest/1")
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert self.left(tmp_path, done) == ([0], [0, 1], [])

    def test_a_present_one_stays(self, tmp_path):
        """Nothing that is there is lost."""
        offsets = store_of(tmp_path, dealt([0, 1, 1, 0]) + numbered(3))
        write_queue(tmp_path, offsets[4:])
        write_queue(tmp_path, offsets[1:3], queue_id=1)
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert self.left(tmp_path, done) == ([0, 1], [0], [])

    def test_one_with_a_message_since_comes_back(self, tmp_path):
        """The topic was not deleted, but its queue 0 lost."""
        offsets = store_of(tmp_path, [*dealt([0, 1, 1, 0]), *numbered(3), *dealt([1] * 3)[2:]])
        write_queue(tmp_path, offsets[4:7])
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert self.left(tmp_path, done) == ([0, 1], [0], [1])
        assert done.doubtful == (("TopicTest", 1, 3),)

    @pytest.mark.parametrize(
        "queues", [[0, 1, 0], [0, 0, 1]], ids=["lost queues", "begun behind the last of the others"]
    )
    def test_one_of_which_nothing_tells_comes_back_by_name(self, tmp_path, queues):
        """Where all queues are lost, and where the new topic may have it."""
        offsets = store_of(tmp_path, dealt(queues) + numbered(3))
        if queues[1] == 0:
            write_queue(tmp_path, offsets[3:])
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert self.left(tmp_path, done) == ([0, 1], [0], [1])
        assert done.doubtful == (("TopicTest", 1, 1),)

    def test_a_queue_that_is_not_begun_with_the_new_topic_proves_nothing(self, tmp_path):
        """As a broker leaves it that builds its queues anew: behind the deleted messages."""
        offsets = store_of(tmp_path, dealt([0, 1, 0]) + numbered(3))
        write_queue(tmp_path, [offsets[0], offsets[2], offsets[3]])
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True, allow_loss=True)
        assert self.left(tmp_path, done) == ([0, 1], [0], [1])

    def test_moved_out_as_advised_it_stays_away(self, tmp_path):
        """What comes back by name, and is a finding."""
        store_of(tmp_path, dealt([0, 1, 0]) + numbered(3))
        rebuild_consume_queues(tmp_path, tmp_path, file_size=2000)
        shutil.rmtree(tmp_path / "consumequeue/TopicTest/1")
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert self.left(tmp_path, done) == ([0], [0, 1], [])

    def test_other_topics_have_lives_of_their_own(self, tmp_path):
        """Light queues too."""
        names = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "0"}
        light = Message(queue_id=0, properties=properties_text(list(names.items())))
        other = Message(topic="Other", queue_id=1)
        offsets = store_of(tmp_path, [light, other, *numbered(3)[1:], *numbered(2)])
        write_queue(tmp_path, offsets[4:])
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert {queue.topic for queue in ConsumeQueue.find(tmp_path)} == {
            "%LMQ%a", "Other", "TopicTest",
        }  # fmt: skip
        assert done.doubtful == ()

    def test_the_lives_of_queues_do_not_depend_on_blocks(self, tmp_path):
        """The log is read in parts."""
        offsets = store_of(tmp_path, dealt([0, 1] * 5000) + numbered(3), 1 << 22)
        write_queue(tmp_path, offsets[10_000:])
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert self.left(tmp_path, done) == ([0], [0, 1], [])


def test_a_topic_whose_name_is_as_long_as_a_file_name_can_be_has_queues_like_others(tmp_path):
    """Beside its folder, a longer name fits no more."""
    topic = "d" * os.pathconf(tmp_path, "PC_NAME_MAX")
    messages = [Message(topic="A"), Message(topic=topic, version=2)]
    offsets = store_of(tmp_path, messages)
    for _ in range(2):
        assert rebuild_consume_queues(tmp_path, tmp_path, replace=True).unit_count == 2
        assert places(tmp_path, "A") == [(0, offsets[0])]
        assert places(tmp_path, topic) == [(0, offsets[1])]


class TestLosses:
    """What is replaced is compared with what replaces it."""

    @pytest.fixture
    def store(self, tmp_path):
        """Return a copy of the sample store."""
        return shutil.copytree(STORE, tmp_path / "store")

    def cut(self, store):
        """Cut the log's end, as in an older backup."""
        (path,) = (store / "commitlog").glob("*0000")
        with path.open("r+b") as log:
            log.seek(60_000)
            log.write(bytes(path.stat().st_size - 60_000))
        for newer in sorted((store / "commitlog").iterdir())[1:]:
            newer.unlink()

    def test_units_of_a_whole_log_are_replaced_without_a_word(self, store):
        """By the same ones."""
        before = queue_files(store)
        done = rebuild_consume_queues(store, store, replace=True)
        assert (done.lost, done.replaced_count, done.unit_count) == ((), 406, 406)
        assert queue_files(store) == before

    def test_units_behind_the_end_of_the_log_are_refused_with_their_number(self, store):
        """The queues stay as they are; with allow_loss they are replaced."""
        self.cut(store)
        before = queue_files(store)
        with pytest.raises(RmqIndexError, match=r"of their 406 units, \d+ of them .* end of the"):
            rebuild_consume_queues(store, store, replace=True, mode="DROPMALFORMED")
        assert queue_files(store) == before
        assert not (store / ".consumequeue.rmqindex").exists()
        done = rebuild_consume_queues(
            store, store, replace=True, mode="DROPMALFORMED", allow_loss=True
        )
        assert sum(each.units for each in done.lost) == 406 - done.unit_count > 0

    def test_a_unit_of_a_message_whose_topic_was_damaged_is_a_loss(self, store):
        """The message has the unit's size and place, and is of a queue that never was."""
        (path,) = (store / "commitlog").glob("*0000")
        content = bytearray(path.read_bytes())
        first = content.index(b"TopicTest", 11_053)
        content[first] ^= 1
        path.write_bytes(content)
        before = queue_files(store)
        with pytest.raises(RmqIndexError, match="got none of 1 of their 406 units: 1 of TopicTest"):
            rebuild_consume_queues(store, store, replace=True)
        assert queue_files(store) == before
        assert "queue_left_out" in rmqindex.verify(store, "auto")["rule"].to_pylist()
        done = rebuild_consume_queues(store, store, replace=True, allow_loss=True)
        assert [each.units for each in done.lost] == [1]

    @pytest.mark.parametrize("place", [0, 3])
    def test_units_behind_a_hole_in_a_queue_are_compared_too(self, store, place):
        """As many are refused as without the hole."""
        self.cut(store)
        options = {"replace": True, "mode": "DROPMALFORMED", "dry_run": True}
        lost = rebuild_consume_queues(store, store, **options)
        with (store / f"consumequeue/TopicTest/0/{0:020d}").open("r+b") as file:
            file.seek(place * 20)
            file.write(bytes(20))
        again = rebuild_consume_queues(store, store, **options)
        assert again.lost == lost.lost
        assert again.replaced_count == lost.replaced_count - 1

    def test_a_queue_in_the_folder_of_the_other_kind_has_nothing_to_lose(self, store):
        """Its bytes are no units there."""
        (store / "batchconsumequeue").mkdir()
        (store / "consumequeue/TopicTest").rename(store / "batchconsumequeue/TopicTest")
        (store / "config").mkdir()
        table = {name.name: {} for name in (store / "consumequeue").iterdir()}
        table["TopicTest"] = {}
        (store / "config/topics.json").write_text(json.dumps({"topicConfigTable": table}))
        done = rebuild_consume_queues(store, store, replace=True)
        assert (done.lost, done.unit_count) == ((), 406)

    def test_a_dry_run_compares_and_changes_nothing(self, store):
        """It tells what would be lost, and refuses nothing."""
        self.cut(store)
        before = queue_files(store)
        done = rebuild_consume_queues(
            store, store, replace=True, mode="DROPMALFORMED", dry_run=True
        )
        assert done.dry_run
        assert done.lost
        assert queue_files(store) == before
        assert not (store / ".consumequeue.rmqindex").exists()

    @pytest.mark.parametrize("file_size", [None, 140, 6000])
    def test_units_of_messages_before_the_log_are_kept(self, store, file_size):
        """They have expired, or the oldest files are lost, and these are all that is left."""
        before = queue_files(store)
        units = all_units(store)
        min((store / "commitlog").iterdir()).unlink()
        done = rebuild_consume_queues(store, store, file_size=file_size, replace=True)
        assert (done.unit_count, done.kept_count, done.replaced_count) == (196, 210, 406)
        assert all_units(store) == units
        assert not done.lost
        rebuild_consume_queues(store, store, file_size=2000, replace=True)
        assert queue_files(store) == before

    @pytest.mark.parametrize("cut", [None, 20])
    def test_a_queue_that_has_expired_gets_files_of_the_size_of_the_others(self, tmp_path, cut):
        """Also where its own were cut: a broker starts with no queue of two sizes."""
        offsets = store_of(tmp_path, [*numbered(8, topic="Old"), *numbered(12)], 1024)
        rebuild_consume_queues(tmp_path, tmp_path, file_size=200)
        old = tmp_path / "consumequeue/Old/0"
        if cut is not None:
            os.truncate(min(old.iterdir()), cut)
        for path in sorted((tmp_path / "commitlog").iterdir())[:-1]:
            path.unlink()
        size = 200 if cut else 100
        done = rebuild_consume_queues(tmp_path, tmp_path, file_size=size, replace=True)
        assert done.kept == (("Old", 0),)
        assert {path.stat().st_size for path in (tmp_path / "consumequeue").rglob("0*0")} == {size}
        assert places(tmp_path, "Old") == list(enumerate(offsets[: 1 if cut else 8]))

    @pytest.mark.parametrize("offset", [2**63 - 1, 2100])
    @pytest.mark.parametrize("place", [0, 3, 7])
    def test_a_damaged_unit_of_a_queue_that_has_expired_is_mended(
        self, tmp_path, run, place, offset
    ):
        """What verify prints keeps the other units, and the place behind the last one."""
        offsets = store_of(tmp_path, [*numbered(8, topic="Old"), *numbered(14)], 1024)
        rebuild_consume_queues(tmp_path, tmp_path, file_size=100)
        for path in sorted((tmp_path / "commitlog").iterdir())[:-1]:
            path.unlink()
        damage_unit(tmp_path, "Old", place, offset)
        printed = run("verify", tmp_path)[1].splitlines()[-1]
        (command,) = re.findall("`rmqindex ([^`]*--replace[^`]*)`", printed)
        code, out, err = run(*shlex.split(command))
        assert code == 0, err
        assert f"1 unit of the old queue{' is lost' * (offset > 2100)}, from queue offset" in out
        assert run("verify", tmp_path)[0] == 0
        # As the last one, a blank unit would end behind what the broker is to dispatch.
        mended = [(7, 0)] * (place == 7)
        others = [(at, to) for at, to in enumerate(offsets[:8]) if at != place]
        assert places(tmp_path, "Old") == others + mended
        (old,) = ConsumeQueue.find(tmp_path / "consumequeue/Old")
        assert old.max_offset == 8
        before = queue_files(tmp_path)
        assert rebuild_consume_queues(tmp_path, tmp_path, replace=True).stray == ()
        assert queue_files(tmp_path) == before

    def test_a_damaged_unit_that_is_the_only_one_tells_the_next_queue_offset(self, tmp_path):
        """Its place is all that is left of the queue."""
        store_of(tmp_path, [Message(topic="Old"), *numbered(20)], 1024)
        rebuild_consume_queues(tmp_path, tmp_path, file_size=100)
        for path in sorted((tmp_path / "commitlog").iterdir())[:-1]:
            path.unlink()
        damage_unit(tmp_path, "Old", 0, 2100)
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert done.stray == (("Old", 0, 1, 0, 2100, 0),)
        (old,) = ConsumeQueue.find(tmp_path / "consumequeue/Old")
        assert old.max_offset == 1

    def test_a_damaged_unit_before_the_log_takes_no_file_behind_it_along(self, tmp_path):
        """It stands in front of units of other expired messages."""
        offsets = store_of(tmp_path, numbered(40), 1024)
        rebuild_consume_queues(tmp_path, tmp_path, file_size=100)
        for path in sorted((tmp_path / "commitlog").iterdir())[:-1]:
            path.unlink()
        damage_unit(tmp_path, "TopicTest", 2, 2**63 - 1)
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True, allow_loss=True)
        assert [each[:4] for each in done.lost] == [("TopicTest", 0, 1, 2)]
        whole = [(at, to) for at, to in enumerate(offsets) if at != 2]
        assert places(tmp_path) == whole

    @pytest.mark.parametrize("place", [3, 7])
    @pytest.mark.parametrize("topic", ["Old", "TopicTest"])
    @pytest.mark.parametrize("damage", [(0, b"\xff" * 8), (8, bytes(4))])
    def test_what_is_no_unit_any_more_is_counted(self, tmp_path, topic, place, damage):
        """It becomes blank before the log, and its queue keeps what follows."""
        store_of(
            tmp_path,
            [
                *numbered(9),
                *numbered(8, topic="Old"),
                *(Message(queue_offset=place) for place in range(9, 21)),
            ],
            1024,
        )
        rebuild_consume_queues(tmp_path, tmp_path, file_size=100)
        for path in sorted((tmp_path / "commitlog").iterdir())[:-1]:
            path.unlink()
        before = all_units(tmp_path)
        path = tmp_path / f"consumequeue/{topic}/0" / f"{place // 5 * 100:020d}"
        content = bytearray(path.read_bytes())
        at = place % 5 * 20 + damage[0]
        content[at : at + len(damage[1])] = damage[1]
        path.write_bytes(content)
        folder = str(path.parent)
        rows = rmqindex.verify(tmp_path, "auto").filter(pc.field("file") == folder).to_pylist()
        assert [row["rule"] for row in rows] == ["queue_unit_missing"]
        assert rows[0]["remedy"].endswith("Run `rmqindex rebuild-queues STORE --replace`.")
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert folder not in rmqindex.verify(tmp_path, "auto")["file"].to_pylist()
        assert [each[:4] for each in done.stray] == [(topic, 0, 1, place)]
        assert done.replaced_count == 29
        after = all_units(tmp_path)
        whole = [unit for unit in before[topic, 0] if unit[0] != place]
        assert [unit for unit in after.pop((topic, 0)) if unit[0] != place] == whole
        assert after.items() <= before.items()

    @pytest.mark.parametrize("place", [5, 30])
    def test_units_that_lead_again_to_a_message_are_counted(self, tmp_path, place):
        """In the place of another message's, and where nothing was written."""
        offsets = store_of(tmp_path, numbered(12))
        rebuild_consume_queues(tmp_path, tmp_path, file_size=2000)
        before = queue_files(tmp_path)
        (path,) = (tmp_path / "consumequeue/TopicTest/0").iterdir()
        content = bytearray(path.read_bytes())
        content[20 * place : 20 * place + 12] = struct.pack(">qi", offsets[0], 150)
        path.write_bytes(content)
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert done.stray == (("TopicTest", 0, 1, place, offsets[0], 0),)
        assert queue_files(tmp_path) == before

    def test_units_of_batches_before_the_log_are_kept(self, tmp_path):
        """In front of the new ones."""
        store_of(tmp_path, [batch_of("3", str(3 * place)) for place in range(12)], 1024)
        rebuild_consume_queues(tmp_path, tmp_path, batch_file_size=92)
        before = queue_files(tmp_path)
        min((tmp_path / "commitlog").iterdir()).unlink()
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert done.kept_count
        assert queue_files(tmp_path) == before

    @pytest.mark.parametrize("place", [2, 7])
    @pytest.mark.parametrize(
        "damage", [(0, b"\xff" * 8), (0, bytes(6) + b"\x08\x34"), (8, bytes(4))]
    )
    def test_a_damaged_unit_of_batches_that_have_expired_is_counted(self, tmp_path, place, damage):
        """The last one keeps its queue offsets, the others stand behind one another."""
        batches = [batch_of("3", str(3 * place), topic="Old") for place in range(8)]
        store_of(tmp_path, [*batches, *(batch_of("3", str(3 * at)) for at in range(8))], 1024)
        rebuild_consume_queues(tmp_path, tmp_path, batch_file_size=92)
        for path in sorted((tmp_path / "commitlog").iterdir())[:-1]:
            path.unlink()
        before = places(tmp_path, "Old")
        path = tmp_path / f"batchconsumequeue/Old/0/{place // 2 * 92:020d}"
        content = bytearray(path.read_bytes())
        at = place % 2 * 46 + damage[0]
        content[at : at + len(damage[1])] = damage[1]
        path.write_bytes(content)
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert [each[:4] for each in done.stray] == [("Old", 0, 1, 3 * place)]
        last = [(21, 0)] * (place == 7)
        assert places(tmp_path, "Old") == [unit for unit in before if unit[0] != 3 * place] + last
        (old,) = ConsumeQueue.find(tmp_path / "batchconsumequeue/Old")
        assert old.max_offset == 24

    def test_lost_places_between_kept_units_and_new_ones_are_blank(self, tmp_path):
        """Whatever the size of the files is."""
        offsets = store_of(tmp_path, numbered(24), 1024)
        first = 1024 * (offsets[8] // 1024 + 1)  # of the log that is left
        older = [at for at in offsets if at < first]
        write_queue(tmp_path, [None, *older[1:3], None, older[4]])
        for path in (tmp_path / "commitlog").iterdir():
            if int(path.name) < first:
                path.unlink()
        done = rebuild_consume_queues(tmp_path, tmp_path, file_size=60, replace=True)
        assert done.kept_count == 3
        kept = {1: older[1], 2: older[2], 4: older[4]}
        new = {place: at for place, at in enumerate(offsets) if at >= first}
        assert dict(places(tmp_path)) == kept | new
        names = sorted(path.name for path in (tmp_path / "consumequeue/TopicTest/0").iterdir())
        assert names == [f"{60 * number:020d}" for number in range(8)]

    def test_a_topic_made_again_keeps_no_units_of_the_deleted_one(self, tmp_path):
        """Its own units have their places."""
        offsets = store_of(tmp_path, [*numbered(20), *numbered(12)], 1024)
        rebuild_consume_queues(tmp_path, tmp_path, file_size=200)
        before = queue_files(tmp_path)
        write_queue(tmp_path / "other", offsets[:20])
        shutil.rmtree(tmp_path / "consumequeue")
        shutil.move(tmp_path / "other" / "consumequeue", tmp_path)
        min((tmp_path / "commitlog").iterdir()).unlink()
        done = rebuild_consume_queues(
            tmp_path, tmp_path, file_size=200, replace=True, allow_loss=True
        )
        assert done.kept_count == 0
        assert queue_files(tmp_path) == before

    def test_units_that_lead_to_no_message_are_no_loss(self, tmp_path, run):
        """Damage in the queues is what a rebuild mends."""
        offsets = store_of(tmp_path, numbered(5) + numbered(2, topic="Other"))
        write_queue(tmp_path, [offsets[0], offsets[1] + 7, offsets[5], *offsets[3:5]])
        shutil.copytree(tmp_path, copy := tmp_path.with_name(f"{tmp_path.name}-copy"))
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert done.lost == ()
        assert done.stray == (("TopicTest", 0, 2, 1, offsets[1] + 7, 0),)
        assert places(tmp_path) == list(enumerate(offsets[:5]))
        code, out, err = run("rebuild-queues", copy, "--replace")
        assert code == 0, err
        (note,) = (line for line in (out + err).splitlines() if "left out 2 units" in line)
        assert "from queue offset 1 on, since no message of the queue is where" in note
        assert rebuild_consume_queues(tmp_path, tmp_path, replace=True).stray == ()

    def test_units_before_the_log_in_a_renamed_folder_are_a_loss(self, tmp_path):
        """Its own queue has no place for them, and nobody has their messages."""
        offsets = store_of(tmp_path, numbered(24), 1024)
        write_queue(tmp_path, offsets, topic="TopicTest.bak")
        min((tmp_path / "commitlog").iterdir()).unlink()
        with pytest.raises(
            RmqIndexError, match=r"none of 9 of their 24 units: 9 of TopicTest\.bak"
        ):
            rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        (tmp_path / "consumequeue/TopicTest.bak").rename(tmp_path / "consumequeue/TopicTest")
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert (done.lost, done.stray, done.unit_count) == ((), (), 24 - done.kept_count)
        assert places(tmp_path) == list(enumerate(offsets))

    def test_damaged_units_before_the_log_are_no_loss(self, tmp_path):
        """The new queue has its own message at their place."""
        offsets = store_of(tmp_path, numbered(24), 1024)
        write_queue(tmp_path, [*offsets[:20], 17, 18, *offsets[22:]])
        min((tmp_path / "commitlog").iterdir()).unlink()
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert (done.lost, done.stray) == ((), (("TopicTest", 0, 2, 20, 17, 0),))
        assert places(tmp_path) == list(enumerate(offsets))

    def test_units_behind_what_a_broker_noted_are_made_again(self, tmp_path):
        """They prove that its DLedger group agreed, as a kill leaves them."""
        store = copy_store("dledger", tmp_path)
        shutil.rmtree(store / "index")
        note = store / "dledger-n0" / "checkpoint"
        note.write_text("committedIndex=100\nendIndex=119\n")
        done = rebuild_consume_queues(store, store, replace=True)
        assert (done.lost, done.unagreed) == ((), None)
        assert done.unit_count == done.replaced_count

    def test_files_written_elsewhere_have_the_size_of_those_beside_the_log(self, tmp_path):
        """Also where the log is DLedger's, in a folder within the store's own."""
        store = copy_store("dledger", tmp_path)
        rebuild_consume_queues(store, store, file_size=400, replace=True)
        rebuild_consume_queues(store, tmp_path / "elsewhere")
        files = (tmp_path / "elsewhere" / "consumequeue").rglob("0*0")
        assert {path.stat().st_size for path in files} == {400}

    def test_units_of_messages_that_are_left_out_are_a_loss(self, tmp_path):
        """By a range of offsets, or of light queues."""
        store = shutil.copytree(MESSAGE_KINDS / "store", tmp_path / "store")
        for options in ({"start": 160_000}, {"stop": 160_000}, {"multi_dispatch": False}):
            with pytest.raises(RmqIndexError, match="allow_loss=True"):
                rebuild_consume_queues(store, store, replace=True, **options)
        assert rebuild_consume_queues(store, store, replace=True).lost == ()

    def test_a_deleted_message_that_a_queue_still_has_is_a_loss(self, tmp_path):
        """The present queue says that it never began anew."""
        offsets = store_of(tmp_path, numbered(3) + numbered(2))
        write_queue(tmp_path, offsets[:4])
        with pytest.raises(RmqIndexError, match=r"none of 3 of their 4 units"):
            rebuild_consume_queues(tmp_path, tmp_path, replace=True)


def batch_of(number, base, **fields):
    """Return an inner batch."""
    properties = properties_text([("INNER_NUM", number), ("INNER_BASE", base)])
    return Message(sys_flag=INNER_BATCH, properties=properties, queue_offset=int(base), **fields)


def kinds_of(root):
    """Return whether each queue is a batch queue."""
    return {(queue.topic, queue.queue_id): queue.is_batch for queue in ConsumeQueue.find(root)}


class TestKinds:
    """One topic, one kind of queue."""

    def test_all_queues_of_a_topic_with_an_inner_batch_are_batch_queues(self, tmp_path):
        """Also those without one, and units that came before it."""
        messages = [*numbered(2, queue_id=1), batch_of("3", "0"), *numbered(1, topic="Plain")]
        offsets = store_of(tmp_path, messages)
        rebuild_consume_queues(tmp_path, tmp_path)
        assert kinds_of(tmp_path) == {
            ("TopicTest", 0): True,
            ("TopicTest", 1): True,
            ("Plain", 0): False,
        }
        assert places(tmp_path, queue_id=1) == list(enumerate(offsets[:2]))

    def test_the_kind_does_not_depend_on_how_far_apart_messages_are(self, tmp_path):
        """Also beyond a block of the log."""
        singles = numbered(9000)
        later = [batch_of("3", "9000"), Message(queue_offset=9003)]
        told = []
        offsets = store_of(tmp_path, [*singles, *later], 1 << 22)
        done = rebuild_consume_queues(tmp_path, tmp_path, on_malformed=told.append)
        assert kinds_of(tmp_path) == {("TopicTest", 0): True}
        assert not (tmp_path / "consumequeue").exists()
        places_there = places(tmp_path)
        assert places_there[-2:] == [(9000, offsets[9000]), (9003, offsets[9001])]
        assert (done.queue_count, done.unit_count, done.gaps, told) == (1, 9002, (), [])

    def test_the_brokers_topics_decide(self, tmp_path):
        """A topic without any inner batch left may have batch queues."""
        store_of(tmp_path, numbered(2))
        write_topics(tmp_path, {"TopicTest": True})
        rebuild_consume_queues(tmp_path, tmp_path)
        assert kinds_of(tmp_path) == {("TopicTest", 0): True}

    @pytest.mark.parametrize("live", [0, 8])
    def test_a_queue_of_the_other_kind_keeps_its_next_queue_offset(self, tmp_path, run, live):
        """What verify prints mends it, also where all its messages have expired."""
        old = [batch_of("3", str(3 * place), topic="Old") for place in range(4)]
        old += [Message(topic="Old", queue_offset=place) for place in range(12, 12 + live)]
        plain = [Message(topic="Plain", queue_offset=place) for place in range(5)]
        offsets = store_of(tmp_path, [*old[:4], *plain, *numbered(20), *old[4:]], 1024)
        rebuild_consume_queues(tmp_path, tmp_path, file_size=2000, batch_file_size=92)
        for path in sorted((tmp_path / "commitlog").iterdir())[:-1]:
            path.unlink()
        write_topics(tmp_path, {"Old": False, "Plain": True, "TopicTest": False})
        code, out, _ = run("verify", tmp_path)
        assert code == 1
        (command,) = set(re.findall("`rmqindex ([^`]*--replace[^`]*)`", out.splitlines()[-1]))
        assert run(*shlex.split(command))[0] == 0
        assert run("verify", tmp_path)[0] == 0
        assert kinds_of(tmp_path) == {
            ("Old", 0): False,
            ("Plain", 0): True,
            ("TopicTest", 0): False,
        }
        last = [(11, 0)] * (not live)
        kept = [(3 * place, offsets[place]) for place in range(4)] + last
        assert places(tmp_path, "Old")[: len(kept)] == kept
        assert places(tmp_path, "Plain") == list(enumerate(offsets[4:9]))
        ends = {queue.topic: queue.max_offset for queue in ConsumeQueue.find(tmp_path)}
        assert ends == {"Old": 12 + live, "Plain": 5, "TopicTest": 20}

    @pytest.mark.parametrize("topics", [{"TopicTest": False}, {"Other": False}])
    def test_batches_of_a_topic_that_the_broker_does_not_know_as_such_are_refused(
        self, tmp_path, topics
    ):
        """It would not start; without the topic all others are rebuilt."""
        store_of(tmp_path, [batch_of("3", "0"), *numbered(1, topic="Other")])
        write_topics(tmp_path, topics)
        with pytest.raises(RmqIndexError, match=r"queue\.type=BatchCQ.* leave_out=TopicTest,"):
            rebuild_consume_queues(tmp_path, tmp_path)
        rebuild_consume_queues(tmp_path, tmp_path, leave_out=["TopicTest"])
        assert kinds_of(tmp_path) == {("Other", 0): False}

    def test_a_table_of_topics_is_read_from_its_backup(self, tmp_path):
        """As a broker does; where neither can be read, the kinds are not guessed."""
        store_of(tmp_path, numbered(1))
        write_topics(tmp_path, {"TopicTest": True})
        (tmp_path / "config" / "topics.json").rename(tmp_path / "config" / "topics.json.bak")
        (tmp_path / "config" / "topics.json").write_bytes(b"")
        rebuild_consume_queues(tmp_path, tmp_path)
        assert kinds_of(tmp_path) == {("TopicTest", 0): True}
        (tmp_path / "config" / "topics.json.bak").write_bytes(b"[]")
        with pytest.raises(RmqIndexError, match="topicConfigTable"):
            rebuild_consume_queues(tmp_path, tmp_path, replace=True)

    def test_a_table_of_topics_that_cannot_be_read_has_no_other_in_its_place(self, tmp_path):
        """Its backup may be older, and its content is not to blame."""
        store_of(tmp_path, numbered(1))
        for name in ("topics.json.bak", "topics.json"):
            write_topics(tmp_path, {"TopicTest": True})
            table = (tmp_path / "config" / "topics.json").rename(tmp_path / "config" / name)
        with (
            mode_of(table, 0),
            pytest.raises(RmqIndexError, match=r"topics\.json: cannot be read: Permission denied"),
        ):
            rebuild_consume_queues(tmp_path, tmp_path)


# Topic, properties, and the property that a broker cannot read.
DAMAGED = [
    ("SCHEDULE_TOPIC_XXXX", {"DELAY": "+-5"}, "DELAY"),
    ("SCHEDULE_TOPIC_XXXX", {"DELAY": "9" * 25}, "DELAY"),
    ("SCHEDULE_TOPIC_XXXX", {"DELAY": "2147483648"}, "DELAY"),
    ("SCHEDULE_TOPIC_XXXX", {"DELAY": " 3"}, "DELAY"),
    ("T", {"INNER_BASE": "yy", "INNER_NUM": "1"}, "INNER_BASE"),
    ("T", {"INNER_BASE": "1", "INNER_NUM": "99999999999"}, "INNER_NUM"),
    ("T", {"INNER_BASE": "1", "INNER_NUM": "32768"}, "INNER_NUM"),
]
LIGHT = [
    {"INNER_MULTI_DISPATCH": "%LMQ%x", "INNER_MULTI_QUEUE_OFFSET": text}
    for text in ("abc", "9" * 25, "--1", "٣x", "1,2")
]
LIGHT += [
    {"INNER_MULTI_DISPATCH": "%LMQ%x,%LMQ%y", "INNER_MULTI_QUEUE_OFFSET": "1"},
    {"INNER_MULTI_DISPATCX": "%LMQ%x", "INNER_MULTI_QUEUE_OFFSET": "1"},
]


class TestNumbers:
    """Numbers in properties are read as a broker reads them."""

    @pytest.mark.parametrize(("topic", "properties", "field"), DAMAGED)
    def test_what_a_broker_cannot_read_is_damage(self, tmp_path, topic, properties, field):
        """With the record's file and byte; DROPMALFORMED passes over the message, and names it."""
        bad = Message(topic=topic, properties=properties_text(properties.items()))
        offsets = store_of(tmp_path, [Message(), bad, Message(queue_offset=1)])
        with pytest.raises(
            CorruptCommitLogError, match=r"a broker dispatches no message"
        ) as caught:
            rebuild_consume_queues(tmp_path, tmp_path)
        assert (caught.value.field, caught.value.byte) == (field, offsets[1])
        told = []
        done = rebuild_consume_queues(
            tmp_path, tmp_path, mode="DROPMALFORMED", on_malformed=told.append
        )
        assert [(error.field, error.byte) for error in told] == [(field, offsets[1])]
        assert done.unit_count == 2
        assert places(tmp_path) == [(0, offsets[0]), (1, offsets[2])]

    @pytest.mark.parametrize("properties", LIGHT, ids=lambda each: list(each.values())[1][:5])
    def test_a_light_queue_offset_that_is_no_number_is_damage(self, tmp_path, properties):
        """The message keeps its unit in the queue of its topic."""
        bad = Message(properties=properties_text(properties.items()), queue_offset=1)
        offsets = store_of(tmp_path, [Message(), bad])
        typed = {
            "": {},
            " --replace": {"replace": True},
            " --replace --allow-loss": {"replace": True, "allow_loss": True},
            " --to 9000 --file-size 500 --batch-file-size 138": {
                "stop": 9000, "file_size": 500, "batch_file_size": 138
            },
            " --batch-topic B --leave-out a --leave-out b --delay-levels 1s --dry-run": {
                "batch_topics": ["B"], "leave_out": ["a", "b"], "delay_levels": "1s",
                "dry_run": True,
            },
        }  # fmt: skip
        for flags, options in typed.items():
            line = rf"`rmqindex rebuild-queues {tmp_path} --no-multi-dispatch{flags}`"
            with pytest.raises(CorruptCommitLogError, match=f"INNER_MULTI_QUEUE_OFFSET.*{line}"):
                rebuild_consume_queues(tmp_path, tmp_path, **options)
        told = []
        rebuild_consume_queues(tmp_path, tmp_path, mode="DROPMALFORMED", on_malformed=told.append)
        assert [error.byte for error in told] == [offsets[1]]
        assert places(tmp_path) == list(enumerate(offsets))

    def test_a_printed_rebuild_reads_all_folders_of_a_log(self, run, tmp_path):
        """As they were given, with the other options."""
        names = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "x"}
        log = Log(1 << 10)
        for place in range(12):
            bad = properties_text(list(names.items())) if place == 1 else b""
            log.append(Message(queue_offset=place, properties=bad))
        log.write_to(tmp_path / "one")
        (tmp_path / "other").mkdir()
        last = max((tmp_path / "one").iterdir())
        last.rename(tmp_path / "other" / last.name)
        given, made = f"{tmp_path}/one,{tmp_path}/other", tmp_path / "made"
        code, _, err = run("rebuild-queues", given, "--out", made, "--file-size", 400)
        assert code == 2
        line = shlex.split(re.search("`rmqindex (.*?)`", err)[1])
        assert line[1:4] == [given, "--out", str(made)]
        assert run(*line)[0] == 0
        assert [place for place, _ in places(made)] == list(range(12))

    def test_an_offset_that_is_no_number_leaves_the_other_light_queues(self, tmp_path):
        """The message has a unit in each of them."""
        names = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b", "INNER_MULTI_QUEUE_OFFSET": "x,0"}
        store_of(tmp_path, [Message(properties=properties_text(list(names.items())))])
        rebuild_consume_queues(tmp_path, tmp_path, mode="DROPMALFORMED")
        found = [queue.topic for queue in ConsumeQueue.find(tmp_path)]
        assert found == ["%LMQ%b", "TopicTest"]

    @pytest.mark.parametrize("topic", ["%RETRY%g", "rmq_sys_x", "SCHEDULE_TOPIC_XXXX"])
    def test_messages_of_some_topics_have_no_light_queues(self, tmp_path, topic):
        """Whatever their properties say."""
        names = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "0"}
        light = Message(topic=topic, properties=properties_text(list(names.items())))
        store_of(tmp_path, [light])
        rebuild_consume_queues(tmp_path, tmp_path)
        assert [queue.topic for queue in ConsumeQueue.find(tmp_path)] == [topic]

    @pytest.mark.parametrize(("number", "base"), [("-3", "0"), ("0", "0"), ("1", "-1")])
    def test_a_batch_of_no_messages_gets_no_unit(self, tmp_path, number, base):
        """Such a unit would end the queue for every reader."""
        offsets = store_of(tmp_path, [batch_of("2", "0"), batch_of(number, base)])
        with pytest.raises(CorruptCommitLogError, match=r"INNER_(NUM|BASE)") as caught:
            rebuild_consume_queues(tmp_path, tmp_path)
        assert caught.value.byte == offsets[1]

    def test_signs_zeros_and_other_scripts_are_numbers(self, tmp_path):
        """Delay levels that Integer.parseInt takes."""
        levels = ["+3", "03", "٣"]
        messages = [
            Message(
                topic="SCHEDULE_TOPIC_XXXX",
                properties=properties_text([("DELAY", level)]),
                queue_offset=place,
                store_timestamp=1000,
            )
            for place, level in enumerate(levels)
        ]
        store_of(tmp_path, messages)
        rebuild_consume_queues(tmp_path, tmp_path)
        (queue,) = ConsumeQueue.find(tmp_path)
        codes = [code for batch in queue.scan() for code in batch["tags_code"].to_pylist()]
        assert codes == [11_000] * 3

    def test_a_message_without_a_batch_has_its_own_queue_offset_in_a_batch_queue(self, tmp_path):
        """As RocketMQ's DispatchRequest: its queue offset, and one message."""
        store_of(tmp_path, [batch_of("3", "0"), Message(queue_offset=3)])
        rebuild_consume_queues(tmp_path, tmp_path)
        (queue,) = ConsumeQueue.find(tmp_path)
        assert queue.max_offset == 4

    @settings(
        max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["T", "SCHEDULE_TOPIC_XXXX", "U"]),
                st.dictionaries(
                    st.sampled_from(
                        [
                            *("DELAY", "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET"),
                            *("INNER_NUM", "INNER_BASE"),
                        ]
                    ),
                    st.one_of(
                        st.integers(-(2**70), 2**70).map(str),
                        st.sampled_from(["%LMQ%a", "a,b", "0,1", ",", "/", "..", "T", "U,T"]),
                        st.text(
                            st.characters(exclude_characters="\x01\x02", codec="utf-8"), max_size=9
                        ),
                    ),
                ),
                st.sampled_from([0, 0, INNER_BATCH, 4, 8]),
                st.one_of(st.integers(0, 5), st.integers(-(2**63), 2**63 - 1)),
                st.one_of(st.integers(0, 10), st.integers(-(2**63), 2**63 - 1)),
            ),
            min_size=1,
            max_size=8,
        )
    )
    def test_no_property_raises_an_exception_of_another_kind(self, tmp_path, messages):
        """Whatever a client sets; DROPMALFORMED goes to the end."""
        root = tmp_path / "store"
        shutil.rmtree(root, ignore_errors=True)
        store_of(
            root,
            [
                Message(
                    topic=topic,
                    properties=properties_text(properties.items()),
                    sys_flag=flag,
                    queue_offset=place,
                    store_timestamp=time,
                )
                for topic, properties, flag, place, time in messages
            ],
        )
        told = []
        rebuild_consume_queues(
            root,
            tmp_path / "out",
            file_size=2000,
            mode="DROPMALFORMED",
            on_malformed=told.append,
            allow_loss=True,
            dry_run=True,
        )
        assert {type(error) for error in told} <= {CorruptCommitLogError}


class TestDelays:
    """When delayed messages are due, of a broker with a ``messageDelayLevel`` of its own."""

    @pytest.fixture
    def due(self, tmp_path):
        """Make a store whose messages of level 2 wait for some seconds; return what units say."""

        def made(seconds):
            pairs = properties_text([("DELAY", "2")])
            messages = [
                Message(topic=SCHEDULE_TOPIC, queue_id=1, queue_offset=place, properties=pairs)
                for place in range(len(seconds))
            ]
            store_of(tmp_path, [*messages, *numbered(3)])
            rebuild_consume_queues(tmp_path, tmp_path, file_size=2000)
            path = tmp_path / f"consumequeue/{SCHEDULE_TOPIC}/1" / f"{0:020d}"
            data = bytearray(path.read_bytes())
            for place, delay in enumerate(seconds):
                stored = messages[place].store_timestamp
                struct.pack_into(">q", data, 20 * place + 12, stored + int(1000 * delay))
            path.write_bytes(data)

        def waits():
            path = tmp_path / f"consumequeue/{SCHEDULE_TOPIC}/1" / f"{0:020d}"
            units = struct.iter_unpack(">qiq", path.read_bytes())
            return [(due - Message().store_timestamp) // 1000 for _, size, due in units if size]

        return made, waits

    @pytest.mark.parametrize(
        ("present", "rebuilt", "odd"),
        [
            pytest.param([7, 7, 7], [7, 7, 7], 0, id="another table"),
            pytest.param([5] * 12 + [7] * 12, [5] * 12 + [7] * 12, 0, id="changed once"),
            pytest.param([7, 7, 60, 60, 7], [7, 7, 60, 60, 7], 2, id="another for a while"),
            pytest.param([7, 7, 7.5, 7], [7, 7, 7, 7], 0, id="no whole seconds"),
            pytest.param([7, 7, -1, 7], [7, 7, 7, 7], 0, id="before it was stored"),
        ],
    )
    def test_present_units_tell_them(self, tmp_path, due, present, rebuilt, odd):
        """And what another level, or a damaged unit, would say does not."""
        made, waits = due
        made(present)
        result = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert waits()[: len(rebuilt)] == rebuilt
        assert (result.default_delay_count, result.mended_due_count) == (0, 0)
        result = rebuild_consume_queues(tmp_path, tmp_path, replace=True, mend_due_times=True)
        assert result.mended_due_count == odd
        assert waits()[: len(rebuilt)] == ([7] * 5 if odd else rebuilt)

    def test_a_message_without_a_unit_is_due_as_those_before_it(self, tmp_path, due):
        """Or as those behind it, where it is the first."""
        made, waits = due
        made([7] * 12 + [9] * 12)
        for place in (0, 5, 14, 23):
            damage_schedule_unit(tmp_path, place)
        rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert waits()[:24] == [7] * 12 + [9] * 12

    @pytest.mark.parametrize("size", [20 * 4, 20 * 4 + 15, 20 * 30])
    def test_files_of_any_size_tell_them(self, tmp_path, due, size):
        """What is left of one that was cut, and those behind it."""
        made, waits = due
        made([7] * 12 + [9] * 12)
        path = tmp_path / f"consumequeue/{SCHEDULE_TOPIC}/1" / f"{0:020d}"
        data = path.read_bytes()
        path.write_bytes(data[:size])
        path.with_name(f"{200:020d}").write_bytes(data[200:400])
        path.with_name(f"{400:020d}").write_bytes(data[400:600])
        rebuild_consume_queues(tmp_path, tmp_path, replace=True, file_size=2000)
        assert waits()[:24] == [7] * 12 + [9] * 12

    def test_a_unit_in_another_queue_tells_them(self, tmp_path, due):
        """It leads to its message all the same."""
        made, waits = due
        made([7] * 3)
        folder = tmp_path / "consumequeue" / SCHEDULE_TOPIC
        (folder / "1").rename(folder / "5")
        rebuild_consume_queues(tmp_path, tmp_path, replace=True, allow_loss=True, file_size=2000)
        assert waits()[:3] == [7] * 3

    def test_levels_that_are_given_are_those_of_the_rest(self, tmp_path, due):
        """What units show was the broker's own decision."""
        made, waits = due
        made([7, 7, 7])
        levels = {"replace": True, "delay_levels": "1s 8s"}
        result = rebuild_consume_queues(tmp_path, tmp_path, **levels)
        assert (waits()[:3], result.default_delay_count) == ([7, 7, 7], 0)
        shutil.rmtree(tmp_path / "consumequeue" / SCHEDULE_TOPIC)
        result = rebuild_consume_queues(tmp_path, tmp_path, **levels)
        assert (waits()[:3], result.default_delay_count) == ([8, 8, 8], 0)

    def test_queues_beside_the_log_tell_them_elsewhere_too(self, tmp_path, due):
        """As for the sizes of files."""
        made, _ = due
        made([7, 7, 7])
        rebuild_consume_queues(tmp_path, tmp_path / "out")
        path = f"consumequeue/{SCHEDULE_TOPIC}/1/{0:020d}"
        assert (tmp_path / "out" / path).read_bytes() == (tmp_path / path).read_bytes()

    def test_without_any_the_default_ones_are_told(self, tmp_path, due):
        """How many messages are due by them is said, too."""
        made, waits = due
        made([7, 7, 7])
        shutil.rmtree(tmp_path / "consumequeue")
        result = rebuild_consume_queues(tmp_path, tmp_path)
        assert waits()[:3] == [5, 5, 5]
        assert result.default_delay_count == 3


def damage_schedule_unit(root, place):
    """Let a delayed message have no unit."""
    path = root / f"consumequeue/{SCHEDULE_TOPIC}/1" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[20 * place : 20 * place + 20] = bytes(20)
    path.write_bytes(data)


class TestWhatTheLogDoesNotSay:
    """What units that are replaced have, and no message."""

    def test_places_of_bitmaps_are_kept(self, tmp_path):
        """Where a broker with ``enableConsumeQueueExt`` stored them, and only there."""
        store_of(tmp_path, numbered(4))
        rebuild_consume_queues(tmp_path, tmp_path, file_size=2000)
        path = tmp_path / "consumequeue/TopicTest/0" / f"{0:020d}"
        whole = bytearray(path.read_bytes())
        addressed = bytearray(whole)
        for place in (0, 1, 3):
            struct.pack_into(">q", addressed, 20 * place + 12, -(2**63) + 100 * place)
        path.write_bytes(addressed)
        rebuild_consume_queues(tmp_path, tmp_path / "out", file_size=2000)
        assert (tmp_path / "out" / path.relative_to(tmp_path)).read_bytes() == whole
        (tmp_path / "consumequeue_ext/TopicTest/0").mkdir(parents=True)
        hurt = bytearray(addressed)
        hurt[20:40] = bytes(20)
        path.write_bytes(hurt)
        rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        addressed[20:40] = whole[20:40]
        assert path.read_bytes() == addressed
        os.truncate(path, 75)
        rebuild_consume_queues(tmp_path, tmp_path, replace=True, file_size=2000)
        addressed[60:80] = whole[60:80]
        assert path.read_bytes() == addressed

    def test_light_queues_that_were_not_there_are_named(self, tmp_path):
        """A broker that has none would not have made them."""
        names = [("INNER_MULTI_DISPATCH", "%LMQ%a"), ("INNER_MULTI_QUEUE_OFFSET", "0")]
        store_of(tmp_path, [Message(properties=properties_text(names))])
        rebuild_consume_queues(tmp_path, tmp_path, multi_dispatch=False)
        result = rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert result.added_light == ("%LMQ%a",)
        assert rebuild_consume_queues(tmp_path, tmp_path, replace=True).added_light == ()
