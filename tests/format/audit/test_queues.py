"""The audit of ConsumeQueues against their CommitLog."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import rmqindex
from commitlog_encoder import Log, Message, properties_text
from recorded import MESSAGE_KINDS
from rmqindex import (
    ConsumeQueue,
    CorruptCommitLogError,
    RmqIndexError,
    rebuild_consume_queues,
    verify,
)
from rmqindex.transaction import BrokerLock

SAMPLE = rmqindex.sample_store()
UNIT = 20


def found(store, severities=("error", "warning")):
    """Return the rule and the place of each finding about queues."""
    return {
        (row["rule"], str(Path(row["file"]).relative_to(store)))
        for row in verify(store, "auto").to_pylist()
        if row["rule"].startswith(("queue", "property", "topic")) and row["severity"] in severities
    }


@pytest.fixture
def store(tmp_path):
    """Return a copy of the sample store, whose broker stopped cleanly."""
    return shutil.copytree(SAMPLE, tmp_path / "store")


@pytest.mark.parametrize("left", ["new", "undo.json"])
def test_what_a_writer_has_begun_is_no_unfinished_write(store, left):
    """It may be about to finish it; once it is dead, it is one."""
    (store / ".consumequeue.rmqindex").mkdir()
    (store / ".consumequeue.rmqindex" / left).touch()
    with BrokerLock.around(store / "index").hold(allow_live_store=False):
        assert "unfinished_write" not in verify(store, "auto")["rule"].to_pylist()
    assert "unfinished_write" in verify(store, "auto")["rule"].to_pylist()


def queue_file(store, topic="TopicTest", queue_id=0):
    """Return the only file of a queue."""
    (path,) = (store / "consumequeue" / topic / str(queue_id)).iterdir()
    return path


def write_unit(path, place, unit):
    """Overwrite one unit of a queue's file."""
    data = bytearray(path.read_bytes())
    data[place * UNIT : (place + 1) * UNIT] = unit
    path.write_bytes(data)


def unit_at(path, place):
    """Return the fields of one unit."""
    return struct.unpack_from(">qiq", path.read_bytes(), place * UNIT)


def made(root, messages, topics=None):
    """Write a store of messages with the queues that a rebuild makes, and a table of topics."""
    log = Log(1 << 16)
    for message in messages:
        log.append(message)
    log.write_to(root / "commitlog")
    (root / "index").mkdir()
    (root / "checkpoint").write_bytes(bytes(4096))
    if topics is not None:
        table = {
            topic: {"attributes": {"queue.type": "BatchCQ"} if batch else {}}
            for topic, batch in topics.items()
        }
        (root / "config").mkdir()
        (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    return log.offsets


@pytest.mark.parametrize("source", [SAMPLE, MESSAGE_KINDS / "store"], ids=["sample", "kinds"])
def test_a_brokers_own_queues_are_sound(source):
    """Plain, light, delayed, blank-headed, expired and batch queues."""
    assert found(source, ("error", "warning", "info")) == set()


@pytest.mark.parametrize("source", [SAMPLE, MESSAGE_KINDS / "store"], ids=["sample", "kinds"])
def test_every_queue_of_a_store_is_compared(tmp_path, source):
    """A changed size is found in each one whose last message is in the log."""
    store = shutil.copytree(source, tmp_path / "store")
    with rmqindex.CommitLog(store) as log:
        start = log.min_offset
    changed = set()
    for queue in ConsumeQueue.find(store):
        path = Path(queue.files[-1].path)
        data = bytearray(path.read_bytes())
        places = range(0, len(data), queue.unit_size)
        last = max((at for at in places if any(data[at + 8 : at + 12])), default=None)
        if last is None or int.from_bytes(data[last : last + 8]) < start:
            continue
        data[last + 11] ^= 1
        path.write_bytes(data)
        changed.add(("queue_unit", str(path.parent.relative_to(store))))
    assert len(changed) >= 20
    assert found(store) == changed


def test_a_lost_folder_of_a_queue_is_an_error(store):
    """As is a whole topic's, where the broker's table of topics has it."""
    shutil.rmtree(store / "consumequeue" / "TopicTest" / "2")
    assert found(store) == {("queue_missing", "consumequeue/TopicTest/2")}
    shutil.rmtree(store / "consumequeue" / "TopicTest")
    places = {f"consumequeue/TopicTest/{number}" for number in range(4)}
    assert found(store) == {("queue_unknown", place) for place in places}
    (store / "config").mkdir()
    table = store / "config" / "topics.json"
    table.write_text('{"topicConfigTable": {"TopicTest": {}}}')
    assert found(store) == {("queue_missing", place) for place in places}
    table.write_text('{"topicConfigTable": {"Other": {}}}')
    assert found(store) == set()  # deleted


def test_a_hole_in_a_queue_is_an_error(store):
    """Units behind it are there, and no consumer gets to them."""
    write_unit(queue_file(store), 3, bytes(UNIT))
    assert found(store) == {("queue_unit_missing", "consumequeue/TopicTest/0")}


def test_a_unit_of_another_message_is_an_error(store):
    """Its own message has none, and the other's two."""
    other = queue_file(store, queue_id=1).read_bytes()[:UNIT]
    write_unit(queue_file(store), 3, other)
    place = "consumequeue/TopicTest/0"
    assert found(store) == {("queue_unit_missing", place), ("queue_stray", place)}


def test_a_unit_of_no_message_is_an_error(store):
    """Behind those of all messages."""
    path = queue_file(store)
    count = next(n for n in range(100) if unit_at(path, n)[1] == 0)
    write_unit(path, count, struct.pack(">qiq", unit_at(path, 0)[0] + 7, 100, 0))
    assert found(store) == {("queue_dangling", "consumequeue/TopicTest/0")}


@pytest.mark.parametrize(("queue_id", "place"), [(0, 0), (1, 2)], ids=["again", "other queue"])
def test_a_unit_behind_all_others_that_is_not_of_the_next_message_is_an_error(
    store, queue_id, place
):
    """It leads to an older message of the queue again, or to one of another queue."""
    path = queue_file(store)
    count = next(n for n in range(100) if unit_at(path, n)[1] == 0)
    other = struct.pack(">qiq", *unit_at(queue_file(store, queue_id=queue_id), place))
    write_unit(path, count, other)
    assert found(store) == {("queue_stray", "consumequeue/TopicTest/0")}
    (row,) = (row for row in verify(store, "auto").to_pylist() if row["rule"] == "queue_stray")
    assert row["expected"].endswith(f"(queue offset {count})")
    assert advised(store) == ""
    rebuild_consume_queues(store, store, replace=True)
    assert found(store) == set()


def test_a_unit_behind_the_end_of_the_log_is_an_error(store):
    """The log lost what it leads to."""
    path = queue_file(store)
    count = next(n for n in range(100) if unit_at(path, n)[1] == 0)
    write_unit(path, count, struct.pack(">qiq", 10**9, 100, 0))
    assert found(store) == {("queue_beyond_log", "consumequeue/TopicTest/0")}


def test_units_behind_a_hole_in_a_queue_are_judged_too(store):
    """Those that lead behind the log's end, and those of no message."""
    path = queue_file(store)
    count = next(n for n in range(100) if unit_at(path, n)[1] == 0)
    write_unit(path, 3, bytes(UNIT))
    missing = ("queue_unit_missing", "consumequeue/TopicTest/0")
    write_unit(path, count, struct.pack(">qiq", 10**9, 100, 0))
    assert found(store) == {missing, ("queue_beyond_log", "consumequeue/TopicTest/0")}
    write_unit(path, count, struct.pack(">qiq", unit_at(path, 0)[0] + 7, 100, 0))
    assert found(store) == {missing, ("queue_dangling", "consumequeue/TopicTest/0")}


@pytest.mark.parametrize("change", [(4, "size"), (12, "tags code")])
def test_a_unit_that_deviates_from_its_message_is_an_error(store, change):
    """By its size, or by its tags code."""
    path = queue_file(store)
    data = bytearray(path.read_bytes())
    data[2 * UNIT + 11 if change[1] == "size" else 2 * UNIT + 19] ^= 1
    path.write_bytes(data)
    assert found(store) == {("queue_unit", "consumequeue/TopicTest/0")}


def test_the_address_of_an_extension_is_no_tags_code(store):
    """With enableConsumeQueueExt, which makes a folder for it."""
    path = queue_file(store)
    offset, size, _ = unit_at(path, 2)
    write_unit(path, 2, struct.pack(">qiq", offset, size, -(2**40)))
    assert found(store) == {("queue_unit", "consumequeue/TopicTest/0")}
    (store / "consumequeue_ext" / "TopicTest" / "0").mkdir(parents=True)
    assert found(store) == set()


def test_units_at_other_places_are_a_warning(tmp_path):
    """A broker puts the message behind a skipped queue offset at the next place."""
    offsets = made(tmp_path, [Message(queue_offset=place) for place in (0, 1, 3)])
    folder = tmp_path / "consumequeue" / "TopicTest" / "0"
    folder.mkdir(parents=True)
    size = (offsets[1], 0)[0] - offsets[0]
    units = b"".join(struct.pack(">qiq", offset, size, 0) for offset in offsets)
    (folder / ("0" * 20)).write_bytes(units.ljust(2000, b"\0"))
    assert found(tmp_path) == {("queue_offset", "consumequeue/TopicTest/0")}


class TestTopicsMadeAgain:
    """Deleted messages have no units."""

    MESSAGES = (
        *(Message(queue_offset=place, queue_id=queue) for place in range(6) for queue in (1, 0)),
        *(Message(queue_offset=place) for place in range(3)),
    )

    def test_the_live_queue_is_sound(self, tmp_path):
        """Also where a queue has no message since."""
        made(tmp_path, self.MESSAGES, {"TopicTest": False})
        rebuild_consume_queues(tmp_path, tmp_path, file_size=2000)
        shutil.rmtree(tmp_path / "consumequeue" / "TopicTest" / "1")
        assert found(tmp_path, ("error", "warning", "info")) == set()
        rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert not (tmp_path / "consumequeue" / "TopicTest" / "1").exists()

    def test_a_queue_of_deleted_messages_alone_is_a_warning(self, tmp_path):
        """Its folder is moved out of the store, as the remedy says."""
        made(tmp_path, self.MESSAGES, {"TopicTest": False})
        rebuild_consume_queues(tmp_path, tmp_path, file_size=2000)
        assert found(tmp_path) == {("queue_deleted", "consumequeue/TopicTest/1")}

    def test_a_queue_that_either_topic_may_have_had_is_named(self, tmp_path):
        """It begins behind the last message of the others, and has none since."""
        messages = [*self.MESSAGES[:12], Message(queue_id=2), *self.MESSAGES[12:]]
        made(tmp_path, messages, {"TopicTest": False})
        rebuild_consume_queues(tmp_path, tmp_path, file_size=2000)
        for queue in (1, 2):
            shutil.rmtree(tmp_path / "consumequeue" / "TopicTest" / str(queue))
        assert found(tmp_path, ("error", "warning", "info")) == {
            ("queue_doubtful", "consumequeue/TopicTest/2")
        }

    def test_a_lost_queue_of_the_new_topic_is_an_error(self, tmp_path):
        """It began anew before another one did."""
        newer = [Message(queue_id=1, queue_offset=place) for place in range(2)]
        made(tmp_path, [*self.MESSAGES[:12], *newer, *self.MESSAGES[12:]], {"TopicTest": False})
        rebuild_consume_queues(tmp_path, tmp_path, file_size=2000)
        shutil.rmtree(tmp_path / "consumequeue" / "TopicTest" / "1")
        assert found(tmp_path) == {("queue_missing", "consumequeue/TopicTest/1")}

    def test_live_messages_behind_deleted_ones_are_missed(self, tmp_path):
        """As a broker leaves them that builds its queues anew."""
        offsets = made(tmp_path, self.MESSAGES, {"TopicTest": False})
        folder = tmp_path / "consumequeue" / "TopicTest" / "0"
        folder.mkdir(parents=True)
        kept = [*offsets[1:12:2], offsets[12]]
        size = offsets[1] - offsets[0]
        units = b"".join(struct.pack(">qiq", offset, size, 0) for offset in kept)
        (folder / ("0" * 20)).write_bytes(units.ljust(2000, b"\0"))
        assert found(tmp_path) == {
            ("queue_unit_missing", "consumequeue/TopicTest/0"),
            ("queue_left_out", "consumequeue/TopicTest/0"),
        }


def queue_zero(root, offsets, size=2000):
    """Write a queue of units of messages, None for a blank one."""
    folder = root / "consumequeue" / "TopicTest" / "0"
    folder.mkdir(parents=True)
    length = sorted(offsets)[1] - min(offsets)
    units = b"".join(struct.pack(">qiq", offset, length, 0) for offset in offsets)
    (folder / ("0" * 20)).write_bytes(units.ljust(size, b"\0"))


def advised(store):
    """Return the options of the rebuild of queues that is advised, in one command alone."""
    commands = {
        command
        for row in verify(store, "auto").to_pylist()
        for command in re.findall(
            r"`rmqindex rebuild-queues STORE --replace([^`]*)`", row["remedy"]
        )
    }
    assert len(commands) == 1
    return commands.pop()


def test_a_part_of_the_log_may_have_queue_offsets_alone_that_no_queue_has(tmp_path):
    """A damaged one; each queue is compared by the places that it can have."""
    bad = Message(topic="Bad", queue_offset=2**62)
    made(tmp_path, [Message(), bad])
    rebuild_consume_queues(tmp_path, tmp_path, file_size=2000, mode="DROPMALFORMED")
    folder = tmp_path / "consumequeue/Bad/0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ("0" * 20)).write_bytes(bytes(2000))
    assert ("queue_number", f"commitlog/{0:020}") in found(tmp_path)


class TestWhatARebuildRefuses:
    """It is found by itself, and no remedy is a command that would be refused."""

    @pytest.mark.parametrize(
        "message",
        [
            Message(queue_offset=2**62),
            Message(queue_offset=-5),
            Message(queue_offset=10_000),
            Message(queue_id=-1),
            Message(topic="a/b"),
        ],
    )
    def test_a_message_that_no_queue_can_have(self, tmp_path, message):
        """A damaged queue offset, number or topic."""
        offsets = made(tmp_path, [Message(), message, Message(queue_offset=1)])
        with pytest.raises(CorruptCommitLogError):
            rebuild_consume_queues(tmp_path, tmp_path)
        rebuild_consume_queues(tmp_path, tmp_path, file_size=2000, mode="DROPMALFORMED")
        assert found(tmp_path) == {("queue_number", f"commitlog/{0:020}")}
        (row,) = (row for row in verify(tmp_path, "auto").to_pylist() if row["severity"] == "error")
        assert row["byte"] == offsets[1]
        assert advised(tmp_path) == " --mode DROPMALFORMED"
        write_unit(queue_file(tmp_path), 1, bytes(UNIT))
        assert ("queue_unit_missing", "consumequeue/TopicTest/0") in found(tmp_path)
        assert advised(tmp_path) == " --mode DROPMALFORMED"
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True, mode="DROPMALFORMED")
        assert (done.unit_count, done.lost, done.dropped) == (2, (), ())

    def test_queue_offsets_that_older_messages_have(self, tmp_path):
        """They fall back by a few; the topic was not made again."""
        messages = [Message(queue_offset=place) for place in (0, 1, 2, 3, 4, 3, 4, 5)]
        offsets = made(tmp_path, messages)
        queue_zero(tmp_path, [*offsets[:5], offsets[7]])
        assert found(tmp_path) == {("queue_offset_taken", "consumequeue/TopicTest/0")}
        with pytest.raises(RmqIndexError, match="queue offsets older messages have"):
            rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert advised(tmp_path) == " --allow-loss"
        done = rebuild_consume_queues(tmp_path, tmp_path, replace=True, allow_loss=True)
        assert (done.unit_count, done.lost) == (6, ())

    def test_a_queue_that_proves_a_beginning_and_has_older_units(self, tmp_path):
        """A rebuild begins it anew at the proved message, and would lose those before."""
        messages = [Message(queue_offset=place) for place in (0, 1, 2, 3, 4, 3, 4, 5)]
        offsets = made(tmp_path, messages)
        queue_zero(tmp_path, [*offsets[:3], *offsets[5:]])
        assert found(tmp_path) == {("queue_left_out", "consumequeue/TopicTest/0")}
        with pytest.raises(RmqIndexError, match="got none of 3 of their 6 units"):
            rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        assert advised(tmp_path) == " --allow-loss"
        rebuild_consume_queues(tmp_path, tmp_path, replace=True, allow_loss=True)
        assert found(tmp_path) == set()

    def test_units_of_messages_that_have_none(self, tmp_path):
        """As a rolled back message, which no consumer may get."""
        offsets = made(tmp_path, [Message(), Message(sys_flag=0xC), Message(queue_offset=1)])
        queue_zero(tmp_path, [offsets[0], offsets[2], offsets[1]])
        assert found(tmp_path) == {("queue_left_out", "consumequeue/TopicTest/0")}
        with pytest.raises(RmqIndexError, match="got none of 1 of their 3 units"):
            rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        rebuild_consume_queues(tmp_path, tmp_path, replace=True, allow_loss=True)
        assert found(tmp_path) == set()

    def test_files_of_several_sizes(self, store):
        """A rebuild asks for the broker's, and so does a remedy."""
        path = queue_file(store)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        place = str(path.relative_to(store))
        assert ("queue_file_size", place) in found(store)
        with pytest.raises(RmqIndexError, match="of one size"):
            rebuild_consume_queues(store, store, replace=True)
        assert advised(store) == " --file-size 2000 --batch-file-size 13800000"
        rebuild_consume_queues(store, store, replace=True, file_size=2000)
        assert found(store) == set()

    @pytest.mark.parametrize("last", ["another one", "a folder", "none"])
    def test_an_empty_file_behind_the_units(self, store, last):
        """A broker deletes the last of all by name when it starts, and refuses others."""
        path = queue_file(store)
        size = path.stat().st_size
        empty, behind = (path.with_name(f"{size * number:020d}") for number in (1, 2))
        empty.touch()
        if last == "none":
            assert found(store) == set()
            return
        behind.touch() if last == "another one" else path.with_name("lost+found").mkdir()
        assert found(store) == {("queue_file_name", str(empty.relative_to(store)))}
        empty.unlink()
        assert found(store) == set()

    def test_an_empty_file_before_units(self, store):
        """A broker refuses it by its size."""
        path = queue_file(store)
        path.rename(path.with_name(f"{path.stat().st_size:020d}"))
        path.touch()
        assert ("queue_file_size", str(path.relative_to(store))) in found(store)

    def test_a_name_beyond_64_bits(self, store):
        """A broker does not start with it."""
        path = queue_file(store)
        odd = path.with_name("9" * 20)
        odd.write_bytes(bytes(path.stat().st_size))
        assert found(store) == {("queue_file_name", str(odd.relative_to(store)))}
        odd.unlink()
        assert found(store) == set()

    def test_the_only_file_has_no_whole_number_of_units(self, tmp_path):
        """No broker has such a size, were it within what was never written."""
        made(tmp_path, [Message()], {})
        rebuild_consume_queues(tmp_path, tmp_path, file_size=2000)
        path = queue_file(tmp_path)
        os.truncate(path, 1990)
        assert ("queue_file_size", str(path.relative_to(tmp_path))) in found(tmp_path)

    @pytest.mark.parametrize("other", [".DS_Store", f"{0:020d}.bak", "x"])
    @pytest.mark.parametrize("is_alone", [False, True])
    def test_a_file_that_is_named_by_no_offset(self, store, other, is_alone):
        """A broker stops at it, but does not look at folders, nor at files of a topic's folder."""
        path = queue_file(store)
        stray = path.with_name(other)
        stray.write_bytes(b"any")
        (path.parent / "folder").mkdir()
        (path.parent.parent / other).write_bytes(b"any")
        if is_alone:
            path.unlink()
        name = ("queue_file_name", str(stray.relative_to(store)))
        assert name in found(store)
        rebuild_consume_queues(store, store, replace=True, file_size=2000, allow_loss=is_alone)
        assert found(store) == {name}
        stray.unlink()
        assert found(store) == set()

    @pytest.mark.parametrize("kind", ["file", "link"])
    def test_an_empty_file_that_is_the_last_by_name(self, store, kind):
        """A broker deletes it when it starts, but stops at one before another name."""
        path = queue_file(store)
        stray = path.with_name("x")
        if kind == "file":
            stray.touch()
        else:
            stray.symlink_to("nothing")
        assert found(store) == set()
        (path.parent / "y").mkdir()
        assert found(store) == {("queue_file_name", str(stray.relative_to(store)))}

    def test_the_sizes_that_are_advised_are_those_of_most_files(self, tmp_path):
        """Of each kind of queues, and in the remedies of all findings."""
        batch = TestKinds.BATCH
        messages = [Message(topic="Plain", queue_id=n % 3, queue_offset=n // 3) for n in range(9)]
        made(tmp_path, [batch, *messages], {"TopicTest": True, "Plain": False})
        rebuild_consume_queues(tmp_path, tmp_path, file_size=2000, batch_file_size=4600)
        path = queue_file(tmp_path, "Plain")
        path.write_bytes(path.read_bytes()[:1000])
        write_unit(path, 1, bytes(UNIT))
        assert len(found(tmp_path)) == 2
        assert advised(tmp_path) == " --file-size 2000 --batch-file-size 4600"
        done = rebuild_consume_queues(
            tmp_path, tmp_path, replace=True, file_size=2000, batch_file_size=4600
        )
        assert (done.unit_count, found(tmp_path)) == (10, set())

    @pytest.mark.parametrize("byte", [12, 19, 20, 27], ids=lambda byte: f"byte {byte}")
    def test_a_batch_unit_has_the_tags_code_and_the_time_of_its_message(self, tmp_path, byte):
        """As an ordinary unit has its tags code."""
        made(tmp_path, [TestKinds.BATCH], {"TopicTest": True})
        rebuild_consume_queues(tmp_path, tmp_path, batch_file_size=4600)
        (path,) = (tmp_path / "batchconsumequeue").rglob("0*0")
        data = bytearray(path.read_bytes())
        data[byte] ^= 1
        path.write_bytes(data)
        assert {rule for rule, _ in found(tmp_path)} == {"queue_unit"}

    def test_a_file_whose_size_is_no_multiple_of_a_unit(self, store):
        """A broker does not start with it, as with any other size."""
        path = queue_file(store)
        usual = path.stat().st_size
        with path.open("r+b") as file:
            file.truncate(usual - 1)
        rows = [
            row for row in verify(store, "auto").to_pylist() if row["rule"] == "queue_file_size"
        ]
        assert [(Path(row["file"]), row["expected"], row["got"]) for row in rows] == [
            (path, f"{usual} bytes, as most files have", f"{usual - 1} bytes")
        ]
        rebuild_consume_queues(store, store, replace=True)
        assert found(store) == set()


class TestKinds:
    """A broker does not start with queues of the wrong kind."""

    BATCH = Message(
        sys_flag=0x80, properties=properties_text([("INNER_NUM", "3"), ("INNER_BASE", "0")])
    )

    def test_a_topic_in_both_folders_is_an_error(self, tmp_path):
        """As an earlier rebuild left it."""
        made(tmp_path, [self.BATCH, Message(queue_id=1)], {"TopicTest": True})
        rebuild_consume_queues(tmp_path, tmp_path, file_size=2000, batch_file_size=4600)
        assert found(tmp_path) == set()
        moved = tmp_path / "consumequeue" / "TopicTest"
        moved.mkdir(parents=True)
        (tmp_path / "batchconsumequeue" / "TopicTest" / "1").rename(moved / "1")
        assert found(tmp_path) == {("queue_kind", "consumequeue/TopicTest/1")}

    def test_inner_batches_of_a_plain_topic_are_an_error(self, tmp_path):
        """The table of topics and the log contradict each other."""
        made(tmp_path, [self.BATCH], {"TopicTest": True})
        rebuild_consume_queues(tmp_path, tmp_path, file_size=2000, batch_file_size=4600)
        table = tmp_path / "config" / "topics.json"
        table.write_text('{"topicConfigTable": {"TopicTest": {}}}')
        assert found(tmp_path) == {
            ("queue_kind", "batchconsumequeue/TopicTest/0"),
            ("topic_kind", "config/topics.json"),
        }
        with pytest.raises(RmqIndexError, match="is an inner batch of it"):
            rebuild_consume_queues(tmp_path, tmp_path, replace=True)
        with pytest.raises(RmqIndexError, match=r"TopicTest with .* got one without"):
            rebuild_consume_queues(tmp_path, tmp_path, replace=True, batch_topics=["TopicTest"])
        (remedy,) = (
            row["remedy"]
            for row in verify(tmp_path, "auto").to_pylist()
            if row["rule"] == "queue_kind"
        )
        assert remedy.startswith("Restore `config/topics.json`, then run `rmqindex")


@pytest.mark.parametrize(("later", "rules"), [(-1, {"queue_unit"}), (0, set()), (7_000, set())])
def test_a_delayed_message_is_due_no_earlier_than_it_was_stored(tmp_path, later, rules):
    """How much later is the broker's own configuration."""
    delayed = Message(topic="SCHEDULE_TOPIC_XXXX", properties=properties_text([("DELAY", "2")]))
    made(tmp_path, [delayed])
    rebuild_consume_queues(tmp_path, tmp_path)
    path = tmp_path / "consumequeue" / delayed.topic / "0" / ("0" * 20)
    offset, size, _ = unit_at(path, 0)
    write_unit(path, 0, struct.pack(">qiq", offset, size, delayed.store_timestamp + later))
    assert {rule for rule, _ in found(tmp_path)} == rules


@pytest.mark.parametrize(
    ("seconds", "odd"),
    [
        pytest.param([5, 5, 7, 5, 5], [2], id="one between others"),
        pytest.param([5, 6, 8, 8, 5], [1, 2], id="several in a row"),
        pytest.param([7, 7, 9, 7], [2], id="another table than by default"),
        pytest.param([*[5] * 12, *[7] * 9, 5], [12], id="a few"),
        pytest.param([*[5] * 12, *[7] * 10, 5], [], id="another table for a while"),
        pytest.param([5, 5, 7], [], id="another table from the last one on"),
        pytest.param([7, 5, 5], [], id="another table before"),
        pytest.param([7, 7, 7, 9, 9, 5], [], id="two changes"),
    ],
)
def test_a_few_messages_are_due_as_those_of_their_level_around_them(tmp_path, seconds, odd):
    """A broker's delays may change, but not for a few messages in between."""
    pairs = properties_text([("DELAY", "2")])
    messages = [
        Message(topic="SCHEDULE_TOPIC_XXXX", queue_id=1, queue_offset=place, properties=pairs)
        for place in range(len(seconds))
    ]
    offsets = made(tmp_path, messages)
    rebuild_consume_queues(tmp_path, tmp_path)
    path = queue_file(tmp_path, "SCHEDULE_TOPIC_XXXX", 1)
    for place, (message, delay) in enumerate(zip(messages, seconds, strict=True)):
        offset, size, _ = unit_at(path, place)
        due = message.store_timestamp + 1000 * delay
        write_unit(path, place, struct.pack(">qiq", offset, size, due))
    rows = [row for row in verify(tmp_path, "auto").to_pylist() if "queue" in row["rule"]]
    assert {(row["rule"], row["severity"]) for row in rows} <= {("queue_due_time", "warning")}
    assert [row["got"].split()[0] for row in rows] == [str(seconds[place]) for place in odd]
    told = [int(re.search(r"message at (\d+)", row["expected"])[1]) for row in rows]
    assert told == [offsets[place] for place in odd]


@pytest.mark.parametrize("millis", [1, 999, 5_001])
def test_a_delay_is_of_whole_seconds(tmp_path, millis):
    """As a broker's table writes it, so that a damaged bit is found in the only unit, too."""
    delayed = Message(topic="SCHEDULE_TOPIC_XXXX", properties=properties_text([("DELAY", "2")]))
    made(tmp_path, [delayed])
    rebuild_consume_queues(tmp_path, tmp_path)
    path = queue_file(tmp_path, delayed.topic)
    offset, size, _ = unit_at(path, 0)
    write_unit(path, 0, struct.pack(">qiq", offset, size, delayed.store_timestamp + millis))
    assert {rule for rule, _ in found(tmp_path)} == {"queue_unit"}


def test_a_number_at_which_a_broker_stops_is_an_error(tmp_path):
    """It dispatches nothing behind that message, and after a crash its log ends there."""
    bad = Message(topic="SCHEDULE_TOPIC_XXXX", properties=properties_text([("DELAY", "x")]))
    offsets = made(tmp_path, [Message(), bad, Message(queue_offset=1)])
    rebuild_consume_queues(tmp_path, tmp_path, mode="DROPMALFORMED")
    (row,) = (
        row for row in verify(tmp_path, "auto").to_pylist() if row["rule"] == "property_number"
    )
    assert (row["severity"], row["byte"]) == ("error", offsets[1])


def test_such_a_number_is_found_behind_what_a_killed_broker_had_dispatched(tmp_path):
    """A rebuild reads on to it, and so does the broker when it starts."""
    bad = Message(topic="SCHEDULE_TOPIC_XXXX", properties=properties_text([("DELAY", "--1")]))
    offsets = made(tmp_path, [Message(), bad, Message(queue_offset=1)])
    rebuild_consume_queues(tmp_path, tmp_path, stop=offsets[1])
    (tmp_path / "abort").touch()
    rows = [row for row in verify(tmp_path, "auto").to_pylist() if row["severity"] == "error"]
    assert [(row["rule"], row["byte"]) for row in rows] == [("property_number", offsets[1])]


@pytest.mark.parametrize(
    ("names", "numbers", "rule"),
    [
        ("%LMQ%a", "x", "property_number"),
        ("%LMQ%a", "1,2", "queue_number"),
        ("%LMQ%a,%LMQ%b", "1", "queue_number"),
        ("", "1", "queue_number"),
        ("%LMQ%a", "", None),
        ("%LMQ%a", "1", None),
    ],
)
def test_light_queues_have_a_number_each(tmp_path, names, numbers, rule):
    """A broker without enableMultiDispatch gives none at all, and reads nothing."""
    pairs = {"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": numbers}
    named = Message(properties=properties_text(pair for pair in pairs.items() if pair[1]))
    sound = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "0"}
    light = Message(queue_id=1, properties=properties_text(sound.items()))
    offsets = made(tmp_path, [light, named])
    rebuild_consume_queues(tmp_path, tmp_path, mode="DROPMALFORMED")
    rows = [row for row in verify(tmp_path, "auto").to_pylist() if row["severity"] == "error"]
    expected = [] if rule is None else [(rule, offsets[1])]
    assert [(row["rule"], row["byte"]) for row in rows] == expected
    shutil.rmtree(tmp_path / "consumequeue")
    rebuild_consume_queues(tmp_path, tmp_path, multi_dispatch=False)
    assert found(tmp_path) == set()


def test_a_store_without_any_queues_is_told(store):
    """Its broker builds them when it starts; a copy that is no broker's store may have none."""
    shutil.rmtree(store / "consumequeue")
    assert found(store, ("info",)) == {("queues_missing", "consumequeue")}
    (store / "checkpoint").unlink()
    assert found(store, ("info",)) == set()


class TestLag:
    """What a broker has yet to dispatch is not judged."""

    @pytest.fixture
    def cut(self, store):
        """Remove the newest units of all queues, as if they were not dispatched yet."""
        offsets = [
            offset
            for queue in ConsumeQueue.find(store)
            for batch in queue.scan()
            for offset in batch["phy_offset"].to_pylist()
        ]
        reach = sorted(offsets)[-40]
        for queue in ConsumeQueue.find(store):
            (file,) = queue.files
            path = Path(file.path)
            data = bytearray(path.read_bytes())
            for at in range(0, len(data), UNIT):
                if int.from_bytes(data[at : at + 8]) > reach:
                    data[at : at + UNIT] = bytes(UNIT)
            path.write_bytes(data)
        return store

    def test_after_a_clean_stop_all_messages_have_units(self, cut):
        """A broker dispatches them before it stops."""
        assert {rule for rule, _ in found(cut)} == {"queue_unit_missing"}

    def test_after_a_crash_the_broker_dispatches_the_rest(self, cut):
        """What lies before the newest unit of all queues is judged."""
        (cut / "abort").touch()
        assert found(cut) == set()
        write_unit(queue_file(cut), 3, bytes(UNIT))
        assert found(cut) == {("queue_unit_missing", "consumequeue/TopicTest/0")}

    def test_beside_a_running_broker_only_what_it_dispatched_is_judged(self, cut):
        """Damage is found all the same."""
        (cut / "abort").touch()
        code = (
            "import fcntl, sys\n"
            f"lock = open({str(cut / 'lock')!r}, 'r+b')\n"
            "fcntl.lockf(lock, fcntl.LOCK_EX, 1)\n"
            "print('held', flush=True)\nsys.stdin.read()"
        )
        (cut / "lock").touch()
        with subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as broker:
            assert broker.stdout.readline() == b"held\n"
            assert found(cut) == set()
            write_unit(queue_file(cut), 3, bytes(UNIT))
            assert found(cut) == {("queue_unit_missing", "consumequeue/TopicTest/0")}
            broker.stdin.close()


def test_other_paths_have_no_queues(store):
    """A file of an index is audited by itself."""
    shutil.rmtree(store / "consumequeue" / "TopicTest")
    (first, *_) = sorted((store / "index").iterdir())
    assert "queue_unknown" not in verify(first, "auto")["rule"].to_pylist()
    assert "queue_unknown" in verify(store / "index", "auto")["rule"].to_pylist()
