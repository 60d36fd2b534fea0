"""ConsumeQueues, read and rebuilt, judged by what RocketMQ's own store wrote and read."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import rmqindex
from commitlog_encoder import Message
from kinds import sampled
from other_broker import running_broker
from recorded import MESSAGE_KINDS
from rmqindex import (
    CONSUME_QUEUE_SCHEMA,
    CommitLog,
    ConsumeQueue,
    CorruptCommitLogError,
    RmqIndexError,
    rebuild_consume_queues,
)
from rmqindex.consumequeue import paths, reader
from rmqindex.consumequeue.dispatch import parse_delay_levels
from rmqindex.consumequeue.paths import queue_topics
from rmqindex.consumequeue.staging import QueueStaging
from trees import queue_files
from twin import java_hash_code

STORE = rmqindex.sample_store()
STORE2 = MESSAGE_KINDS / "store"
GOLDEN2 = json.loads((STORE2.parent / "consumequeue.json").read_text())["queues"]
BLANK = 2**31 - 1
FIELDS = ("queue_offset", "phy_offset", "size", "tags_code")


def units(queue, *, blanks=False):
    """Return a queue's units as tuples."""
    return [
        tuple(row[name] for name in FIELDS)
        for batch in queue.scan(blanks=blanks)
        for row in batch.to_pylist()
    ]


def by_name(path):
    """Return the queues of a path by topic and number."""
    return {(queue.topic, queue.queue_id): queue for queue in ConsumeQueue.find(path)}


def golden_units(queue, *, blanks=False):
    """Return what RocketMQ read from a queue, those before its minimum first."""
    rows = queue["below_min"] + queue["units"]
    kept = [row for row in rows if blanks or row["size"] != BLANK]
    return [tuple(row[name] for name in FIELDS) for row in kept]


def content(root):
    """Return every file below a directory."""
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


class TestReading:
    """``ConsumeQueue``."""

    @pytest.mark.parametrize(
        "queue", GOLDEN2, ids=lambda queue: f"{queue['topic'][:12]}-{queue['queue_id']}"
    )
    def test_every_unit_is_what_rocketmq_reads(self, queue):
        """Of plain, light, delayed, blank-headed and batch queues."""
        found = by_name(STORE2)[queue["topic"], queue["queue_id"]]
        theirs, mine = golden_units(queue), units(found)
        if found.is_batch:  # RocketMQ's own reading begins at the first message still in the log
            mine = [unit for unit in mine if unit[0] >= queue["min_offset"]]
        assert mine == theirs
        assert found.max_offset == queue["max_offset"]
        assert found.unit_size == queue["unit_size"]
        assert [Path(file.path).name for file in found.files] == queue["files"]

    def test_blank_units_are_given_if_asked_for(self):
        """They fill a queue's first file before its first message."""
        queue = next(q for q in GOLDEN2 if q["topic"] == "PreBlankTopic")
        found = by_name(STORE2)["PreBlankTopic", 0]
        assert units(found, blanks=True) == golden_units(queue, blanks=True)
        assert found.min_offset == 37

    def test_units_agree_with_the_messages(self):
        """Offset, size, queue and tags are those of the message in the log."""
        with CommitLog(STORE) as log:
            for queue in ConsumeQueue.find(STORE):
                for batch in queue.scan():
                    messages = log.read_at(
                        batch["phy_offset"],
                        ["topic", "queue_id", "queue_offset", "size", "tags"],
                    )
                    for name in ("topic", "queue_id", "queue_offset", "size"):
                        assert messages[name].to_pylist() == batch[name].to_pylist()
                    tags = messages["tags"].fill_null("").to_pylist()
                    codes = [java_hash_code(each) for each in tags]
                    assert codes == batch["tags_code"].to_pylist()

    def test_a_path_is_a_store_a_folder_a_topic_a_queue_or_a_file(self):
        """Local or a URI."""
        queues = STORE / "consumequeue"
        topic = queues / "TopicTest"
        for path, count in (
            (STORE, 20), (queues, 20), (topic, 4), (topic / "2", 1),
            (topic / "2" / "00000000000000000000", 1), (STORE.as_uri(), 20),
        ):  # fmt: skip
            found = ConsumeQueue.find(path)
            assert len(found) == count
        assert found[0].topic
        (one,) = ConsumeQueue.find(topic / "2" / "00000000000000000000")
        assert units(one) == units(by_name(topic)["TopicTest", 2])

    def test_a_file_of_several_is_read_alone(self):
        """Its units keep their queue offsets."""
        path = STORE2 / "consumequeue" / "HotTopic" / "0" / "00000000000000002500"
        (queue,) = ConsumeQueue.find(path)
        assert [unit[0] for unit in units(queue)] == list(range(125, 150))

    def test_batches_have_the_schema(self):
        """Seven columns, none null."""
        (queue,) = ConsumeQueue.find(STORE / "consumequeue" / "TopicTest" / "0")
        (batch,) = queue.scan()
        assert batch.schema == CONSUME_QUEUE_SCHEMA
        assert set(batch["file_path"].to_pylist()) == {queue.files[0].path}
        assert repr(queue) == "ConsumeQueue('TopicTest', 0, files=1)"

    def test_paths_that_are_no_queues(self, tmp_path):
        """A clear error says what was expected."""
        with pytest.raises(RmqIndexError, match="no such file"):
            ConsumeQueue.find(tmp_path / "nothing")
        with pytest.raises(RmqIndexError, match="expected a store with a folder consumequeue"):
            ConsumeQueue.find(tmp_path)
        (tmp_path / "00000000000000000000").write_bytes(bytes(2000))
        with pytest.raises(RmqIndexError, match="named by its number"):
            ConsumeQueue.find(tmp_path)

    def test_a_queue_without_units_has_none(self, tmp_path):
        """A file that was made and not written, and a torn unit at a file's end."""
        folder = tmp_path / "consumequeue" / "T" / "0"
        folder.mkdir(parents=True)
        (folder / "00000000000000000000").write_bytes(bytes(2007))
        (queue,) = ConsumeQueue.find(tmp_path)
        assert units(queue) == []
        assert (queue.min_offset, queue.max_offset) == (None, None)


def column(queue, name):
    """Return the values of a column of all units."""
    return [value for batch in queue.scan() for value in batch[name].to_pylist()]


class TestBounded:
    """A file is read in pieces, whatever size another program gave it."""

    @pytest.fixture
    def queue(self, tmp_path):
        """A queue of one file, which has seven units and then a hole of 1 TiB."""
        path = tmp_path / "consumequeue" / "topic" / "0" / f"{0:020d}"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"".join(struct.pack(">qiq", 10 * n, 10, n) for n in range(7)))
        with path.open("r+b") as file:
            file.truncate(1 << 40)
        (found,) = ConsumeQueue.find(tmp_path)
        return found

    def test_no_more_is_read_than_units_are_there(self, queue):
        """The rest is a hole; all of it would not fit into the memory."""
        assert column(queue, "queue_offset") == list(range(7))
        assert (queue.min_offset, queue.max_offset) == (0, 7)

    @pytest.mark.parametrize("size", [1, 2, 3, 7, 8])
    def test_pieces_of_any_size_give_the_same(self, queue, monkeypatch, size):
        """Their ends are no ends of the queue."""
        monkeypatch.setattr(reader, "_BLOCK_UNITS", size)
        assert column(queue, "phy_offset") == list(range(0, 70, 10))
        assert queue.max_offset == 7

    def test_a_file_that_is_cut_between_two_pieces_is_an_error(self, queue, monkeypatch):
        """What was there when it was found must be there."""
        monkeypatch.setattr(reader, "_BLOCK_UNITS", 2)
        batches = queue.scan()
        next(batches)
        os.truncate(queue.files[0].path, 60)
        with pytest.raises(RmqIndexError, match=r"the file was cut from \d+ to 60 bytes"):
            list(batches)


class TestRebuild:
    """``rebuild_consume_queues``."""

    def test_a_whole_log_gives_the_brokers_files(self, tmp_path):
        """Byte for byte, file for file."""
        done = rebuild_consume_queues(STORE, tmp_path, file_size=2000)
        assert content(tmp_path / "consumequeue") == content(STORE / "consumequeue")
        assert (done.queue_count, done.file_count, done.unit_count) == (20, 20, 406)
        assert done.gaps == ()
        assert {path.name for path in tmp_path.iterdir()} == {"consumequeue"}

    def test_a_log_without_its_head_gives_the_brokers_units(self, tmp_path):
        """Those of messages that are still in the log; what lies before is blank."""
        rebuild_consume_queues(STORE2, tmp_path, file_size=500, batch_file_size=368)
        rebuilt = by_name(tmp_path)
        start = CommitLog(STORE2).min_offset
        compared = 0
        for queue in GOLDEN2:
            wanted = [unit for unit in golden_units(queue) if unit[1] >= start]
            found = rebuilt.pop((queue["topic"], queue["queue_id"]), None)
            assert (units(found) if found else []) == wanted
            compared += len(wanted)
            if found is not None and not found.is_batch:
                assert {unit[2] for unit in units(found, blanks=True)[: -len(wanted)]} <= {BLANK}
        assert rebuilt == {}
        assert compared > 600

    def test_batch_queues_hold_what_the_broker_wrote(self, tmp_path):
        """All 46 bytes of each unit of a retained message."""
        rebuild_consume_queues(STORE2, tmp_path, batch_file_size=368)
        start = CommitLog(STORE2).min_offset
        for number in ("0", "1"):

            def retained(store, number=number):
                folder = store / "batchconsumequeue" / "BatchCqTopic" / number
                data = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
                parts = [data[at : at + 46] for at in range(0, len(data), 46)]
                return [part for part in parts if int.from_bytes(part[:8]) >= start]

            assert retained(tmp_path) == retained(STORE2)

    def test_default_files_have_the_brokers_size(self, tmp_path):
        """300,000 units, of a log without queues; sparse, so that few units take little."""
        log = shutil.copytree(STORE / "commitlog", tmp_path / "commitlog")
        rebuild_consume_queues(log, tmp_path)
        path = tmp_path / "consumequeue" / "TopicTest" / "0" / "00000000000000000000"
        assert path.stat().st_size == 6_000_000
        assert path.stat().st_blocks * 512 < 100_000

    def test_a_range_of_offsets(self, tmp_path):
        """Only its messages have units; blank ones stand before them."""
        rebuild_consume_queues(STORE, tmp_path, start=40_000, stop=80_000, file_size=2000)
        offsets = [unit[1] for queue in ConsumeQueue.find(tmp_path) for unit in units(queue)]
        assert 40_000 <= min(offsets) <= max(offsets) < 80_000
        whole = by_name(STORE)
        for name, queue in by_name(tmp_path).items():
            wanted = [unit for unit in units(whole[name]) if 40_000 <= unit[1] < 80_000]
            assert units(queue) == wanted

    def test_messages_lost_in_the_middle_leave_blank_units(self, tmp_path):
        """The units behind keep their places, and the gap is told."""
        shutil.copytree(STORE / "commitlog", tmp_path / "commitlog")
        with (tmp_path / "commitlog" / "00000000000000000000").open("r+b") as log:
            log.seek(30_000)
            log.write(bytes(3000))
        with pytest.raises(CorruptCommitLogError):
            rebuild_consume_queues(tmp_path, tmp_path / "strict", file_size=2000)
        assert not (tmp_path / "strict").exists()
        errors = []
        done = rebuild_consume_queues(
            tmp_path, tmp_path, file_size=2000, mode="DROPMALFORMED", on_malformed=errors.append
        )
        assert errors
        assert done.gaps
        whole = by_name(STORE)
        for name, queue in by_name(tmp_path).items():
            assert set(units(queue)) <= set(units(whole[name]))

    def test_light_queues_can_be_left_out(self, tmp_path):
        """As in a broker without enableMultiDispatch."""
        rebuild_consume_queues(STORE2, tmp_path, multi_dispatch=False)
        assert not any(topic.startswith("%LMQ%") for topic, _ in by_name(tmp_path))

    def test_other_delay_levels(self, tmp_path):
        """Deliver times follow the broker's own configuration, where no queue shows any."""
        shutil.copytree(STORE2 / "commitlog", tmp_path / "commitlog")
        rebuild_consume_queues(tmp_path, tmp_path, delay_levels="1h")
        queue = by_name(tmp_path)["SCHEDULE_TOPIC_XXXX", 1]
        with CommitLog(STORE2) as log:
            for batch in queue.scan():
                stored = log.read_at(batch["phy_offset"], ["store_timestamp"])["store_timestamp"]
                waits = [
                    due - time
                    for due, time in zip(
                        batch["tags_code"].to_pylist(), stored.to_pylist(), strict=True
                    )
                ]
                assert set(waits) == {3_600_000}

    def test_queues_that_are_there_are_not_touched(self, tmp_path):
        """Neither are those of a store that a broker holds."""
        rebuild_consume_queues(STORE, tmp_path, file_size=2000)
        with pytest.raises(RmqIndexError, match="expected no ConsumeQueues"):
            rebuild_consume_queues(STORE, tmp_path, file_size=2000)
        shutil.rmtree(tmp_path / "consumequeue")
        with running_broker(tmp_path):
            with pytest.raises(RmqIndexError, match="a broker runs"):
                rebuild_consume_queues(STORE, tmp_path, file_size=2000)
            rebuild_consume_queues(STORE, tmp_path, file_size=2000, allow_live_store=True)

    def test_queues_of_a_store_that_crashed_are_rebuilt(self, tmp_path):
        """The file ``abort`` alone is in nobody's way."""
        (tmp_path / "abort").touch()
        assert rebuild_consume_queues(STORE, tmp_path, file_size=2000).queue_count

    def test_queues_that_are_there_are_replaced(self, tmp_path):
        """All of them, also those that the log has no messages for, if that is allowed."""
        shutil.copytree(STORE2, tmp_path / "store")
        shutil.rmtree(tmp_path / "store" / "commitlog")
        before = queue_files(tmp_path / "store")
        with pytest.raises(RmqIndexError, match=r"690 of their 1038 units.* allow_loss=True"):
            rebuild_consume_queues(STORE, tmp_path / "store", file_size=2000, replace=True)
        assert queue_files(tmp_path / "store") == before
        rebuild_consume_queues(
            STORE, tmp_path / "store", file_size=2000, replace=True, allow_loss=True
        )
        assert not (tmp_path / "store" / "batchconsumequeue").exists()
        assert queue_files(tmp_path / "store") == queue_files(STORE)

    @pytest.mark.parametrize("moves", sampled(range(5), 2))
    def test_a_rebuild_that_was_killed_is_undone_or_finished_by_the_next(self, tmp_path, moves):
        """Two old folders go, then two new ones come: it is finished once a new one is in place."""
        store = tmp_path / "store"
        shutil.copytree(STORE2, store, ignore=shutil.ignore_patterns("commitlog", "index"))
        before = queue_files(store)
        code = f"""
import os, pathlib
from rmqindex import rebuild_consume_queues
rename, left = pathlib.Path.rename, [{moves}]
def dying(self, target):
    if not left[0]:
        os._exit(9)
    left[0] -= 1
    return rename(self, target)
pathlib.Path.rename = dying
unlink = pathlib.Path.unlink
def ending(self, missing_ok=False):
    if self.name == "undo.json":
        os._exit(9)
    unlink(self, missing_ok)
pathlib.Path.unlink = ending
rebuild_consume_queues({str(STORE2)!r}, {str(store)!r}, file_size=1000, replace=True)
"""
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
        with pytest.raises(RmqIndexError, match="expected no ConsumeQueues"):
            rebuild_consume_queues(STORE2, store)
        whole = tmp_path / "whole"
        shutil.copytree(STORE2, whole, ignore=shutil.ignore_patterns("commitlog", "index"))
        rebuild_consume_queues(STORE2, whole, file_size=1000, replace=True)
        assert queue_files(whole) != before
        assert queue_files(store) == (before if moves < 3 else queue_files(whole))
        rebuild_consume_queues(STORE2, store, file_size=500, batch_file_size=368, replace=True)
        # Units of expired messages are kept, and so is a queue that has no others: it holds the
        # next queue offset.
        assert queue_files(store) == before
        assert {path.name for path in store.iterdir()} <= {path.name for path in STORE2.iterdir()}

    def test_only_one_rebuild_at_a_time(self, tmp_path):
        """A second one is refused while the first is under way."""

        def again(*_):
            with pytest.raises(RmqIndexError, match="under way"):
                rebuild_consume_queues(STORE, tmp_path)

        rebuild_consume_queues(STORE, tmp_path, progress=again)

    @pytest.mark.parametrize(
        ("field", "message"),
        [
            ("topic", Message(topic="../../outside", queue_offset=1)),
            ("topic", Message(topic="..", queue_offset=1)),
            ("topic", Message(queue_id=-1, queue_offset=1)),
            ("queue_offset", Message(queue_offset=2**60)),
            ("queue_offset", Message(queue_offset=-7)),
        ],
    )
    def test_what_no_queue_can_take_is_refused(self, tmp_path, field, message):
        """No folder outside the store, and no blank units without end."""
        records = [Message(), message, Message(queue_offset=1)]
        log = tmp_path / "log"
        log.mkdir()
        data = b""
        for record in records:
            data += record.encode(len(data))
        (log / ("0" * 20)).write_bytes(data)
        with pytest.raises(CorruptCommitLogError, match=field):
            rebuild_consume_queues(log, tmp_path / "store")
        errors = []
        done = rebuild_consume_queues(
            log, tmp_path / "store", mode="DROPMALFORMED", on_malformed=errors.append
        )
        assert [error.field for error in errors] == [field]
        assert errors[0].byte == len(records[0].encode(0))
        assert (done.queue_count, done.unit_count, done.gaps) == (1, 2, ())
        assert {path.name for path in tmp_path.iterdir()} == {"log", "store"}

    def test_progress_is_told(self, tmp_path):
        """From the first batch to the end."""
        calls = []
        rebuild_consume_queues(
            STORE, tmp_path, file_size=2000, progress=lambda *call: calls.append(call)
        )
        assert calls == sorted(calls)
        assert calls[-1][0] <= calls[-1][1]

    @pytest.mark.parametrize("arguments", [{"file_size": 30}, {"batch_file_size": 0}])
    def test_file_sizes_are_whole_units(self, tmp_path, arguments):
        """As the broker's configuration must be."""
        with pytest.raises(ValueError, match="expected a multiple of"):
            rebuild_consume_queues(STORE, tmp_path, **arguments)

    def test_delay_levels(self):
        """Numbers with a unit, separated by spaces."""
        assert parse_delay_levels("1s 2m 3h 1d") == (1000, 120_000, 10_800_000, 86_400_000)
        with pytest.raises(ValueError, match="1x"):
            parse_delay_levels("1s 1x")


def test_the_working_directory_may_be_a_queue(monkeypatch):
    """A relative path is enough."""
    monkeypatch.chdir(STORE / "consumequeue" / "TopicTest" / "1")
    (queue,) = ConsumeQueue.find(os.curdir)
    assert (queue.topic, queue.queue_id) == ("TopicTest", 1)


def test_a_folder_whose_number_is_no_int_is_no_queue(tmp_path):
    """A broker does not load it either; named itself, it is an error of ours."""
    folder = tmp_path / "consumequeue" / "T"
    for queue_id in ("0", "2147483647", "2147483648", "9999999999"):
        shutil.copytree(STORE / "consumequeue" / "TopicTest" / "0", folder / queue_id)
    queues = ConsumeQueue.find(tmp_path)
    assert [queue.queue_id for queue in queues] == [0, 2**31 - 1]
    assert next(queues[1].scan())["queue_id"][0].as_py() == 2**31 - 1
    with pytest.raises(RmqIndexError, match="named by its number"):
        ConsumeQueue.find(folder / "2147483648")


def test_the_root_of_the_disk_is_no_queue():
    """A path without any name is refused like any other that is none."""
    with pytest.raises(RmqIndexError, match="expected a store"):
        ConsumeQueue.find("/")


def test_what_a_dead_rebuild_left_and_cannot_be_removed_is_named(tmp_path, monkeypatch):
    """As on a disk that is read-only by now."""
    left = tmp_path / ".consumequeue.rmqindex"
    (left / "new" / "consumequeue").mkdir(parents=True)

    def refused(*_arguments, **_options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), "consumequeue")

    monkeypatch.setattr(shutil, "rmtree", refused)
    with pytest.raises(OSError, match="Read-only") as caught, QueueStaging(tmp_path):
        pass
    assert caught.value.filename == str(left)


@pytest.fixture
def exchanged(tmp_path):
    """Return a store whose exchange of ConsumeQueues died before its last step."""
    shutil.copytree(STORE / "consumequeue", tmp_path / "consumequeue")
    staging = QueueStaging(tmp_path)
    shutil.copytree(STORE / "consumequeue" / "TopicTest", staging.path / "consumequeue" / "Other")
    staging._forget = lambda: None
    staging.exchange()
    return tmp_path


@pytest.mark.parametrize("place", ["", "consumequeue", "consumequeue/Other/0"])
def test_queues_that_are_being_exchanged_are_refused(run, exchanged, place):
    """New folders may still go back, so that neither they nor their absence is an answer."""
    with pytest.raises(RmqIndexError, match=r"exchange of ConsumeQueues") as caught:
        ConsumeQueue.find(exchanged / place)
    with pytest.raises(RmqIndexError, match="exchange of ConsumeQueues"):
        queue_topics(str(exchanged))
    (line,) = re.findall("`rmqindex ([^`]*)`", str(caught.value))
    assert shlex.split(line) == ["recover", str(exchanged)]
    code, out, _ = run(*shlex.split(line))
    assert (code, out) == (0, "Finished an unfinished write of: queues\n")
    assert {queue.topic for queue in ConsumeQueue.find(exchanged)} == {"Other"}
    assert queue_topics(str(exchanged)) == ["Other"]


def test_queues_that_a_broker_continued_since_stay(run, exchanged):
    """The new folder was in place, and only the note of the exchange was left."""
    continued = exchanged / "consumequeue" / "Other" / "0" / "late"
    continued.write_bytes(b"units of a broker")
    assert run("recover", exchanged)[0] == 0
    assert continued.read_bytes() == b"units of a broker"


@pytest.mark.parametrize("begin", ["recover", "rebuild-queues"])
def test_queues_that_a_broker_made_while_the_old_ones_were_aside_stay(run, tmp_path, begin):
    """The refusal prints how to set them aside, and every command of it works as it stands."""
    store = tmp_path / "store"
    shutil.copytree(STORE, store)
    before = queue_files(store)
    home = store / ".consumequeue.rmqindex"
    (home / "new" / "consumequeue").mkdir(parents=True)
    (home / "old").mkdir()
    (store / "consumequeue").rename(home / "old" / "consumequeue")
    (home / "undo.json").write_text('{"old": ["consumequeue"], "new": ["consumequeue"]}')
    unit = store / "consumequeue" / "TopicTest" / "0" / f"{0:020d}"
    unit.parent.mkdir(parents=True)
    unit.write_bytes(b"units of a broker")
    (store / "consumequeue.1").mkdir()
    code, _, err = run(begin, store)
    assert code == 2
    assert f"{store / 'consumequeue'}: expected none" in err
    assert unit.read_bytes() == b"units of a broker"
    move, recover, rebuild = map(shlex.split, re.findall("`([^`]*)`", err))
    subprocess.run(move, check=True)
    assert run(*recover[1:])[:2] == (0, "Undid an unfinished write of: queues\n")
    assert queue_files(store) == before
    assert run(*rebuild[1:])[0] == 0
    assert (store / "consumequeue.2/TopicTest/0" / unit.name).read_bytes() == b"units of a broker"
    assert not home.exists()


@pytest.mark.parametrize("left", ["new", "old"])
def test_what_a_rebuild_left_that_died_before_the_exchange_is_told_and_removed(run, tmp_path, left):
    """It may be as large as all queues."""
    store = tmp_path / "store"
    shutil.copytree(STORE, store)
    home = store / ".consumequeue.rmqindex"
    (home / left / "consumequeue" / "TopicTest").mkdir(parents=True)
    answer = json.loads(run("verify", store, "--json")[1])
    (finding,) = (each for each in answer["findings"] if each["rule"] == "unfinished_write")
    (line,) = re.findall("`rmqindex ([^`]*)`", finding["remedy"])
    done = "Removed what was left of an unfinished write of: queues\n"
    assert run(*shlex.split(line))[:2] == (0, done)
    assert not home.exists()
    assert run("recover", store)[:2] == (0, "Nothing to undo\n")


def test_queues_that_are_exchanged_while_they_are_listed_are_listed_again(tmp_path, monkeypatch):
    """So that topics of the old folder and files of the new one never meet."""
    shutil.copytree(STORE / "consumequeue", tmp_path / "consumequeue")
    original, listings = paths.directory_entries, []

    def list_and_exchange(path):
        entries = original(path)
        listings.append(path)
        if len(listings) == 1:
            with QueueStaging(tmp_path) as staging:
                shutil.copytree(
                    STORE / "consumequeue" / "TopicTest",
                    staging.path / "consumequeue" / "TopicTest",
                )
                staging.exchange()
        return entries

    monkeypatch.setattr(paths, "directory_entries", list_and_exchange)
    assert {queue.topic for queue in ConsumeQueue.find(tmp_path)} == {"TopicTest"}
    assert listings.count(str(tmp_path)) == 2
