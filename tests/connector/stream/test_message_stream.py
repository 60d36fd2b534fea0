"""The reader of message streams, called as Spark calls it, beside what writes like a broker."""

from __future__ import annotations

import json
import shutil
import struct
import time
from functools import partial
from itertools import chain

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from commitlog_encoder import Log, Message
from listings import after_listing
from live_broker import LiveLog, follow, started
from pyspark_rmqindex.messages import MessageReader
from pyspark_rmqindex.options import message_options, message_schema_options, message_stream_options
from pyspark_rmqindex.schema import message_schema
from pyspark_rmqindex.stream.messages import MessageStreamReader
from replacements import REPLACEMENTS, make_store
from rmqindex import RmqIndexError
from rows import rows_read

FILE_SIZE = 4096


def open_stream(path, **options):
    """Return the reader of a stream, as a process of Spark makes it."""
    checked = message_stream_options({"path": str(path), **options})
    return MessageStreamReader(checked, message_schema(store=checked.has_store))


def offsets_between(reader, start, end):
    """Return the offsets of the messages of a batch."""
    return [row["phy_offset"] for row in rows_read(reader, reader.partitions(start, end))]


def next_batch(reader, start):
    """Return the end of the next batch as it comes back from a checkpoint, and its rows."""
    end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
    return end, offsets_between(reader, start, end)


class Store:
    """A store whose log grows."""

    def __init__(self, root):
        """Begin empty."""
        self.root, self.log, self.offsets = root, LiveLog(root / "commitlog", FILE_SIZE), []

    def send(self, count):
        """Append messages."""
        now = time.time_ns() // 1_000_000
        for number in range(count):
            message = Message(body=b"x" * (number % 200), store_timestamp=now + number)
            self.offsets.append(self.log.append(message))


@pytest.fixture
def live(tmp_path):
    """Return a store whose log grows."""
    return Store(tmp_path / "store")


def test_new_messages_are_handed_out_once_over_the_ends_of_files_and_restarts(live):
    """Whoever continues from an offset finds what came since, and nothing else."""
    live.send(1)
    offset, rows = open_stream(live.root).initialOffset(), []
    for count in (3, 0, 5, 1, 100, 2, 40, 1):
        live.send(count)
        offset, more = next_batch(open_stream(live.root), offset)
        rows += more
    assert rows == live.offsets
    (entry,) = offset.values()
    assert entry["last_offset"] == live.offsets[-1]
    assert open_stream(live.root).latestOffset(offset, ReadAllAvailable()) == offset


def test_a_log_that_moved_is_not_read_again_without_a_word(live, tmp_path):
    """Its messages would all be rows once more; a link at the former path goes on."""
    live.send(20)
    begin = open_stream(live.root).initialOffset()
    offset, rows = next_batch(open_stream(live.root), begin)
    assert len(rows) == 20
    moved = tmp_path / "moved"
    live.root.rename(moved)
    with pytest.raises(RmqIndexError, match="got the same log at another path"):
        next_batch(open_stream(moved), offset)
    live.root.symlink_to(moved)
    live.send(3)
    assert len(next_batch(open_stream(live.root), offset)[1]) == 3


def test_limits_bound_a_batch(live):
    """Messages, or bytes; and not where Spark asks for everything."""
    live.send(100)
    by_count = open_stream(live.root, maxMessagesPerTrigger="30")
    assert by_count.getDefaultReadLimit() == ReadMaxRows(30)
    begin = by_count.initialOffset()
    counts, offset = [], begin
    while True:
        end, rows = next_batch(by_count, offset)
        if end == offset:
            break
        counts.append(len(rows))
        offset = end
    assert [count for count in counts if count] == [30, 30, 30, 10]
    by_size = open_stream(live.root, maxBytesPerTrigger="1000")
    assert by_size.getDefaultReadLimit() == ReadMaxBytes(1000)
    assert 1 <= len(next_batch(by_size, begin)[1]) < 15
    end = by_size.latestOffset(begin, ReadAllAvailable())
    assert offsets_between(by_size, begin, end) == live.offsets


def test_available_now_ends_where_it_began(live):
    """What comes after the start is left for the next run."""
    live.send(50)
    reader = open_stream(live.root, maxMessagesPerTrigger="20")
    reader.prepareForTriggerAvailableNow()
    offset, rows = reader.initialOffset(), []
    while True:
        live.send(7)
        end, more = next_batch(reader, offset)
        if end == offset:
            break
        offset, rows = end, rows + more
    assert rows == live.offsets[:50]


def test_available_now_says_that_the_last_message_waits(live, caplog):
    """Its body was not written yet, and no lock tells that no broker writes it."""
    live.send(5)
    path = max(live.log.directory.iterdir())
    data = path.read_bytes()
    body = data.rindex(b"xx")
    path.write_bytes(data[:body] + bytes(2) + data[body + 2 :])
    reader = open_stream(live.root)
    reader.prepareForTriggerAvailableNow()
    assert next_batch(reader, reader.initialOffset())[1] == live.offsets[:4]
    assert caplog.text.count(f"the message at offset {live.offsets[4]}, the CommitLog's last") == 1


def test_a_stream_may_begin_at_the_end_or_at_a_message(live):
    """An offset at which no message starts is refused."""
    live.send(60)
    end = open_stream(live.root, startingPosition="latest").initialOffset()
    middle = open_stream(live.root, startingPosition=str(live.offsets[40])).initialOffset()
    live.send(5)
    assert next_batch(open_stream(live.root), end)[1] == live.offsets[60:]
    assert next_batch(open_stream(live.root), middle)[1] == live.offsets[40:]
    wrong = open_stream(live.root, startingPosition=str(live.offsets[40] + 1))
    with pytest.raises(RmqIndexError, match=r"where a message starts, got \d+ \(not_a_record\)"):
        wrong.initialOffset()


def test_a_batch_is_divided_at_messages(live):
    """Large ones among several tasks, in files that are full and in the last."""
    live.send(200)
    reader = open_stream(live.root, maxPartitionBytes="1500")
    begin = reader.initialOffset()
    end = reader.latestOffset(begin, ReadAllAvailable())
    assert len(reader.partitions(begin, end)) > len(list(live.log.directory.iterdir()))
    assert offsets_between(reader, begin, end) == live.offsets


def test_messages_that_expired_are_an_error_or_passed_over(live, caplog):
    """The error names the offsets; a stream that goes on says once what is lost."""
    live.send(30)
    begin = open_stream(live.root).initialOffset()
    offset, _ = next_batch(open_stream(live.root, maxMessagesPerTrigger="5"), begin)
    live.send(100)
    min(live.log.directory.iterdir()).unlink()
    lost = f"from offset {live.offsets[5]} to {FILE_SIZE} are lost"
    with pytest.raises(RmqIndexError, match=lost):
        next_batch(open_stream(live.root), offset)
    reader = open_stream(live.root, failOnDataLoss="false")
    rows = []
    for _ in range(3):
        offset, more = next_batch(reader, offset)
        rows += more
    assert rows == [each for each in live.offsets if each >= FILE_SIZE]
    assert caplog.text.count("are lost") == 1


@pytest.mark.parametrize("fails", ["true", "false"])
def test_an_expired_end_of_a_file_in_which_no_message_had_room_is_no_loss(live, caplog, fails):
    """A broker fills it with a blank, and begins the next message in the next file."""
    now = time.time_ns() // 1_000_000
    for body in (b"x" * 3900, b"y"):
        live.offsets.append(live.log.append(Message(body=body, store_timestamp=now)))
    first = min(live.log.directory.iterdir())
    only = open_stream(live.root, maxMessagesPerTrigger="1", failOnDataLoss=fails)
    offset, rows = next_batch(only, only.initialOffset())
    (place,) = offset.values()
    assert rows == live.offsets[:1]
    assert FILE_SIZE - place["offset"] < 99
    first.unlink()
    reader = open_stream(live.root, failOnDataLoss=fails)
    rows = []
    for _ in range(2):
        offset, more = next_batch(reader, offset)
        rows += more
    assert rows == live.offsets[1:]
    assert "lost" not in caplog.text


def test_a_file_that_expires_between_planning_and_reading_is_passed_over(live, caplog):
    """Where loss is no error; the others are read."""
    live.send(100)
    reader = open_stream(live.root, failOnDataLoss="false")
    begin = reader.initialOffset()
    partitions = reader.partitions(begin, reader.latestOffset(begin, ReadAllAvailable()))
    min(live.log.directory.iterdir()).unlink()
    rows = [
        offset
        for partition in partitions
        for batch in reader.read(partition)
        for offset in batch.column("phy_offset").to_pylist()
    ]
    assert rows == [each for each in live.offsets if each >= FILE_SIZE]
    assert "the file is gone" in caplog.text


@pytest.mark.parametrize("kept", [0, 10, 29])
def test_a_log_that_was_truncated_and_written_anew_is_a_loss(live, tmp_path, kept):
    """Fewer messages, or others in their place, whether or not there are as many again."""
    live.send(30)
    begin = open_stream(live.root).initialOffset()
    offset, _ = next_batch(open_stream(live.root), begin)
    other = Store(tmp_path / "other")
    now = time.time_ns() // 1_000_000
    for number in range(kept):
        other.offsets.append(other.log.append(Message(body=b"y" * number, store_timestamp=now)))
    other.log.append(Message(body=b"z" * 11, store_timestamp=now))
    for path in live.log.directory.iterdir():
        path.unlink()
    for path in other.log.directory.iterdir():
        path.rename(live.log.directory / path.name)
    with pytest.raises(RmqIndexError, match="truncated or replaced"):
        next_batch(open_stream(live.root), offset)
    reader = open_stream(live.root, failOnDataLoss="false")
    moved, rows = next_batch(reader, offset)
    assert rows == []
    behind = other.log.append(Message(store_timestamp=now + 1))
    assert next_batch(reader, moved)[1][-1:] == [behind]


def test_two_stores_have_offsets_of_their_own(tmp_path):
    """A pattern stands for both, and rows say whose they are."""
    stores = [Store(tmp_path / f"broker-{name}") for name in "ab"]
    for number, each in enumerate(stores):
        each.send(10 + number)
    reader = open_stream(tmp_path / "broker-*")
    begin = reader.initialOffset()
    end = reader.latestOffset(begin, ReadAllAvailable())
    assert sorted(end) == [str(each.root) for each in stores]
    rows = [
        row
        for partition in reader.partitions(begin, end)
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]
    assert [row["store"] for row in rows].count(str(stores[1].root)) == 11


def test_a_stream_of_the_sample_store_is_what_a_load_returns(store):
    """Every column of every message."""
    options = message_options({"path": str(store)})
    load = MessageReader(options, message_schema())
    expected = [
        row for part in load.partitions() for batch in load.read(part) for row in batch.to_pylist()
    ]
    reader = open_stream(store, maxMessagesPerTrigger="100")
    offset, rows = reader.initialOffset(), []
    while True:
        end = reader.latestOffset(offset, reader.getDefaultReadLimit())
        if end == offset:
            break
        for part in reader.partitions(offset, end):
            rows += [row for batch in reader.read(part) for row in batch.to_pylist()]
        offset = end
    assert rows == expected


def test_the_offset_of_another_source_is_refused(live):
    """Its error shows what was found."""
    live.send(1)
    with pytest.raises(ValueError, match="expected that of a stream of rmqcommitlog"):
        open_stream(live.root).latestOffset({"/store/index": {"file": "1"}}, ReadAllAvailable())


@pytest.mark.parametrize("name", ["offset", "last_offset", "last_store_timestamp"])
def test_an_offset_with_a_value_of_another_type_is_refused(live, name):
    """What is no offset of ours is told before anything is read by it."""
    live.send(1)
    stream = open_stream(live.root)
    offset, _ = next_batch(stream, stream.initialOffset())
    (entry,) = offset.values()
    entry[name] = None
    with pytest.raises(ValueError, match="expected that of a stream of rmqcommitlog"):
        stream.latestOffset(offset, ReadAllAvailable())


def test_options_of_loads_that_make_no_sense_are_refused():
    """A stream begins where startingPosition says."""
    with pytest.raises(ValueError, match=r"only for spark\.read;"):
        message_stream_options({"path": "/d", "endOffset": "5"})
    with pytest.raises(ValueError, match=r"only for spark\.readStream"):
        message_options({"path": "/d", "maxBytesPerTrigger": "5"})
    assert message_schema_options({"path": "/d", "startingPosition": "5"}).paths == ("/d",)


@pytest.mark.system
def test_a_writing_process_is_followed_with_readers_that_die_at_any_moment(tmp_path):
    """Thousands of messages a second, some of which stand half written for a moment."""
    root = tmp_path / "store"
    limits = ("maxMessagesPerTrigger", [50, 2_000])
    with started(root, "commitlog", seconds=3, rate=2000) as writer:
        offset = open_stream(root).initialOffset()
        opened = partial(open_stream, root)
        rows, batches = follow(writer, offset, opened, limits, next_batch, offsets_between)
        count = int(writer.communicate()[0])
    load = MessageReader(message_options({"path": str(root)}), message_schema())
    expected = [
        offset
        for part in load.partitions()
        for batch in load.read(part)
        for offset in batch.column("phy_offset").to_pylist()
    ]
    assert len(expected) == count
    assert rows == expected
    assert batches > 10


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """Return two stores whose messages have the same offsets, sizes and times."""
    root = tmp_path_factory.mktemp("twins")
    return [make_store(root / name, name) for name in "ab"]


@pytest.fixture
def followed(twins, tmp_path):
    """Return a copy of the first, and the offset of a stream that has read two thirds of it."""
    shutil.copytree(twins[0], tmp_path / "store")
    reader = open_stream(tmp_path / "store", maxMessagesPerTrigger="40")
    offset, rows = next_batch(reader, reader.initialOffset())
    assert len(rows) == 40
    return tmp_path / "store", offset


@pytest.mark.parametrize("replace", REPLACEMENTS, ids=lambda each: each.__name__)
class TestReplacedLogs:
    """Logs that are replaced by others of the same shape, at every step of a stream."""

    def test_between_batches(self, twins, followed, replace):
        """The stream is refused, or told to go on with what is there."""
        store, offset = followed
        replace(twins[1] / "commitlog", store / "commitlog")
        with pytest.raises(RmqIndexError, match=f"{store}: .* one that was truncated or replaced"):
            next_batch(open_stream(store), offset)
        reader, rows = open_stream(store, failOnDataLoss="false"), []
        for _ in range(3):
            offset, more = next_batch(reader, offset)
            rows += more
        assert len(rows) in {19, 20}

    def test_between_the_end_of_a_batch_and_its_plan(self, twins, followed, replace):
        """As when a batch that was begun is planned again by another process."""
        store, offset = followed
        end = open_stream(store).latestOffset(offset, ReadAllAvailable())
        begin = {name: {"offset": each["offset"]} for name, each in offset.items()}
        replace(twins[1] / "commitlog", store / "commitlog")
        with pytest.raises(RmqIndexError, match=f"{store}: .* truncated or replaced since then"):
            open_stream(store).partitions(begin, end)
        assert offsets_between(open_stream(store, failOnDataLoss="false"), begin, end) == []

    def test_between_the_plan_of_a_batch_and_its_tasks(self, twins, followed, replace):
        """The rows are those of the plan, or a file is named."""
        store, offset = followed
        reader = open_stream(store)
        end = reader.latestOffset(offset, ReadAllAvailable())
        partitions = reader.partitions(offset, end)
        replace(twins[1] / "commitlog", store / "commitlog")
        with pytest.raises(RmqIndexError, match=f"{store}/commitlog/.* since the query was"):
            list(chain.from_iterable(map(reader.read, partitions)))


def test_a_copy_of_the_same_log_is_gone_on_with(twins, followed):
    """As after a restore: the messages before are those that were read."""
    store, offset = followed
    REPLACEMENTS[0](twins[0] / "commitlog", store / "commitlog")
    assert len(next_batch(open_stream(store), offset)[1]) == 20


@pytest.mark.parametrize("checksum", [True, False])
def test_the_offset_of_an_earlier_release_is_gone_on_with(followed, checksum):
    """It has a checksum of the last message's ends, or where it starts and when it was stored."""
    store, offset = followed
    (entry,) = offset.values()
    del entry["last_size"]
    crc = entry.pop("last_crc")
    if checksum:  # of a message as short as this one, that of the ends is that of the whole
        entry["last_checksum"] = crc
    assert len(next_batch(open_stream(store), offset)[1]) == 20


def test_the_checksum_of_an_earlier_release_tells_another_log(followed):
    """As that of the whole message does."""
    store, offset = followed
    (entry,) = offset.values()
    del entry["last_size"]
    entry["last_checksum"] = entry.pop("last_crc") ^ 1
    with pytest.raises(RmqIndexError, match="truncated or replaced"):
        next_batch(open_stream(store), offset)


class TestDroppedDamage:
    """What DROPMALFORMED passes over is named in the log."""

    def write(self, root, damage):
        """Write forty messages in a file of 8 KiB, changed; return their offsets."""
        log = Log(2 * FILE_SIZE)
        for number in range(40):
            log.append(Message(body=b"x" * 50, store_timestamp=number + 1))
        damage(log)
        log.write_to(root / "commitlog")
        return log.offsets

    def rows(self, reader):
        """Return the offsets of all messages, and those whose body is null."""
        begin = reader.initialOffset()
        end = reader.latestOffset(begin, reader.getDefaultReadLimit())
        rows = rows_read(reader, reader.partitions(begin, end))
        return [row["phy_offset"] for row in rows], [
            row["phy_offset"] for row in rows if row["body"] is None
        ]

    def load(self, root):
        """Return the reader of a load."""
        options = message_options({"path": str(root), "mode": "DROPMALFORMED"})
        return MessageReader(options, message_schema(store=False))

    def test_a_hole(self, tmp_path, caplog):
        """With the byte where it begins, and that where the records go on."""

        def damage(log):
            first, behind = log.offsets[20], log.offsets[22]
            log.files[0][first:behind] = bytes(behind - first)

        offsets = self.write(tmp_path, damage)
        kept = offsets[:20] + offsets[22:]
        reader = open_stream(tmp_path, mode="DROPMALFORMED")
        assert self.rows(reader) == (kept, [])
        said = f"total_size at byte {offsets[20]}: expected a record, since one follows at byte"
        assert said in caplog.text
        caplog.clear()
        load = self.load(tmp_path)
        assert [row["phy_offset"] for row in rows_read(load, load.partitions())] == kept
        assert said in caplog.text

    def test_a_lost_end(self, tmp_path, caplog):
        """By what leads to a message behind it."""
        offsets = self.write(tmp_path, lambda _: None)
        (tmp_path / "checkpoint").write_bytes(struct.pack(">5q", 0, 0, 0, 0, 8000).ljust(4096))
        reader = open_stream(tmp_path, mode="DROPMALFORMED")
        assert self.rows(reader) == (offsets, [])
        assert "leads to a message at offset 7999" in caplog.text

    def test_a_body_that_becomes_null(self, tmp_path, caplog):
        """Once, by its message."""

        def damage(log):
            log.files[0][log.offsets[20] + 90] ^= 1

        offsets = self.write(tmp_path, damage)
        assert self.rows(open_stream(tmp_path, mode="DROPMALFORMED")) == (offsets, [offsets[20]])
        assert caplog.text.count(f"message at offset {offsets[20]}: ") == 1

    def test_a_message_of_which_nothing_tells_whether_it_is_being_written(self, tmp_path, caplog):
        """In either mode, once."""

        def damage(log):
            log.files[0][log.offsets[-1] + 90] ^= 1

        offsets = self.write(tmp_path, damage)
        reader = open_stream(tmp_path)
        for _ in range(2):
            assert self.rows(reader) == (offsets[:-1], [])
        assert caplog.text.count(f"the message at offset {offsets[-1]}, the CommitLog's last") == 1


class TestAFileThatExpiresBesideAReader:
    """A plan is made of what is there by then; a task never has fewer rows without a word."""

    @pytest.fixture
    def expiring(self, live, monkeypatch):
        """A store whose oldest file goes the moment that its log is first listed."""
        live.send(100)
        files = sorted((live.root / "commitlog").iterdir())

        def expire():
            if len(files) > 1 and not live.has_expired:
                live.has_expired = True
                files.pop(0).unlink()

        live.has_expired = False
        after_listing(monkeypatch, live.root / "commitlog", expire)
        return live

    def test_a_load_is_planned_without_it(self, expiring):
        """As one that is planned a moment later."""
        reader = MessageReader(
            message_options({"path": str(expiring.root)}), message_schema(store=False)
        )
        rows = rows_read(reader, reader.partitions())
        assert [row["phy_offset"] for row in rows] == [
            offset for offset in expiring.offsets if offset >= FILE_SIZE
        ]

    def test_a_stream_calls_it_lost(self, expiring):
        """As any other file that expired before it was read."""
        expiring.has_expired = True
        reader = open_stream(expiring.root, maxMessagesPerTrigger="30")
        begin = reader.initialOffset()
        end = reader.latestOffset(begin, reader.getDefaultReadLimit())
        for call in (
            lambda: reader.latestOffset(begin, reader.getDefaultReadLimit()),
            lambda: reader.partitions(begin, end),
        ):
            expiring.has_expired = False
            with pytest.raises(RmqIndexError, match="are lost: the files are gone"):
                call()

    def test_a_task_names_it(self, live):
        """Between the plan and the task, or during it."""
        live.send(100)
        reader = MessageReader(
            message_options({"path": str(live.root)}), message_schema(store=False)
        )
        parts = reader.partitions()
        first = min((live.root / "commitlog").iterdir())
        first.unlink()
        with pytest.raises(RmqIndexError, match=f"{first.name}: the file was removed since"):
            rows_read(reader, parts)


@pytest.mark.spark_streams
@pytest.mark.parametrize("data", [{"offset": "0"}, {"offset": True}, {"offset": 1.5}])
def test_an_offset_of_messages_has_its_own_fields(data):
    """Likewise."""
    from pyspark_rmqindex.stream.messages import LogOffset

    with pytest.raises(ValueError, match="offset: expected an integer of 64 bits, got"):
        LogOffset.from_json(data)
