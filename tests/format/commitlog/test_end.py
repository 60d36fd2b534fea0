"""Where a log ends: proved, or a hole, which is damage."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from dataclasses import asdict, replace

import numpy as np
import pyarrow.fs as pafs
import pytest

import rmqindex
from commitlog_encoder import Log, Message, properties_text
from recorded import MESSAGE_KINDS
from rmqindex import CommitLog, CorruptCommitLogError, Layout, MessageStore
from rmqindex.commitlog import missing_parts, newest_messages, reading, selection
from rmqindex.commitlog.selection import Selection
from rmqindex.commitlog.snapshot import older_tail
from rmqindex.commitlog.tailing import follow, whole_end
from rmqindex.query import measure_usage

SAMPLE = rmqindex.sample_store()
UNIT = np.dtype([("phy_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
FILE_SIZE = 64 * 1024
PAGE = 4096
HELD = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""
WRITER = """
import mmap, os, pathlib, sys
folder, size = pathlib.Path(sys.argv[1]), int(sys.argv[2])
records = sys.stdin.buffer.read()
at = start = 0
while at < len(records):
    path = folder / f"{start:020d}"
    with open(path, "a+b") as file:
        file.truncate(size)
        with mmap.mmap(file.fileno(), size) as data:
            while at < len(records) and at < start + size:
                length = int.from_bytes(records[at : at + 4], "big")
                if records[at + 4 : at + 8] == bytes.fromhex("cbd43194"):
                    data[at - start : at - start + 8] = records[at : at + 8]
                else:
                    data[at - start : at - start + length] = records[at : at + length]
                at += length
    start += size
"""


def whole(store):
    """The offsets of all messages of a log that is read to its proved end."""
    with CommitLog(store) as log:
        return offsets(log)


def message(number, size=40):
    """A message with a key, stored one second after the one before."""
    return Message(
        body=b"%d" % number * size,
        properties=properties_text([("KEYS", f"k{number}"), ("UNIQ_KEY", f"u{number}")]),
        store_timestamp=1_700_000_000_000 + number * 1000,
    )


@pytest.fixture
def log(request):
    """Five hundred messages in two files, the second of them not full, or those of given times."""
    log = Log(FILE_SIZE)
    for number in getattr(request, "param", range(500)):
        log.append(message(number))
    return log


@pytest.fixture
def folder(log, tmp_path):
    """The log's files on disk."""
    return log.write_to(tmp_path / "store" / "commitlog")


@pytest.fixture
def broker(folder):
    """A process that holds the store's lock as a broker does."""
    lock = folder.parent / "lock"
    lock.write_bytes(b"")
    with subprocess.Popen(
        [sys.executable, "-c", HELD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"held\n"
        yield process


def zero(folder, at, size=PAGE):
    """Lose a page of the newest file; return the file."""
    newest = max(folder.iterdir())
    with newest.open("r+b") as file:
        file.seek(at)
        file.write(bytes(size))
    return newest


def offsets(log, **options):
    """Return the offsets that a scan gives."""
    return [o for b in log.scan(columns=["phy_offset"], **options) for o in b[0].to_pylist()]


def spared(log, newest, at, size=PAGE):
    """Return the offsets of the messages that a lost page did not touch."""
    start = int(newest.name) + at
    ends = [*log.offsets[1:], log.end]
    return [o for o, e in zip(log.offsets, ends, strict=True) if e <= start or o >= start + size]


@pytest.fixture(params=["local", "remote"])
def opened(request, folder):
    """Open the log, as files of this machine or by ranges."""
    remote = request.param == "remote"
    return lambda: CommitLog(str(folder), filesystem=pafs.LocalFileSystem() if remote else None)


class TestAHoleInTheNewestFile:
    """Zeros are the end of a log only if they reach to the end of the file."""

    def test_is_refused_or_passed_over_and_named(self, log, folder, opened):
        """With its file and byte; the records behind it are there."""
        at = log.offsets[-150] - FILE_SIZE
        newest = zero(folder, at)
        with opened() as found:
            with pytest.raises(CorruptCommitLogError, match="since one follows at byte") as caught:
                offsets(found)
            error = caught.value
            assert (error.path, error.field, error.byte) == (str(newest), "total_size", at)
            assert "restore the file from a replica or a backup" in error.hint
            named = []
            rest = offsets(found, mode="DROPMALFORMED", on_malformed=named.append)
            assert rest == spared(log, newest, at)
            (told,) = named
            assert str(told).startswith(str(error))
            assert "with which reading goes on, may be one that a client put" in told.hint
            assert found.max_offset == log.end

    @pytest.mark.parametrize("at", [0, 8 * PAGE])
    def test_may_be_anywhere(self, log, folder, opened, at):
        """At the begin of the file, too, which is then no unwritten one."""
        newest = zero(folder, at)
        with opened() as found:
            with pytest.raises(CorruptCommitLogError):
                offsets(found)
            assert offsets(found, mode="DROPMALFORMED") == spared(log, newest, at)
            file = found.files[-1]
            assert found.record_boundaries(file, 10_000)[-1] > file.start + at

    def test_is_told_by_every_way_to_read_to_the_end(self, log, folder, monkeypatch):
        """Usage, the newest messages, a store in Python, and a stream."""
        monkeypatch.setattr(selection, "_BACKWARD_CHUNK", PAGE)
        zero(folder, log.offsets[-150] - FILE_SIZE)
        with CommitLog(folder) as found:
            for read in (
                lambda: measure_usage(found, ("topic",)),
                lambda: newest_messages(found, Selection(), ["phy_offset"], 1000),
                lambda: follow(found, 0),
                lambda: follow(found, found.files[-1].start, max_records=1000),
                lambda: MessageStore(folder.parent).messages().read_all(),
                lambda: MessageStore(folder.parent).usage(),
            ):
                with pytest.raises(CorruptCommitLogError, match="since one follows at byte"):
                    read()
            assert follow(found, 0, mode="DROPMALFORMED").end == log.end
            # What lies behind it is whole.
            (row,) = newest_messages(found, Selection(), ["phy_offset"], 1).to_pylist()
            assert row["phy_offset"] == log.offsets[-1]

    def test_of_a_sparse_file_is_found_by_the_disk(self, tmp_path):
        """Without reading a gigabyte of zeros."""
        data = b""
        for number in range(5):
            data += message(number).encode(len(data))
        far = 700 << 20
        path = tmp_path / f"{0:020d}"
        path.write_bytes(data)
        os.truncate(path, 1 << 30)
        with CommitLog(tmp_path) as found:
            assert len(offsets(found)) == 5
            assert found.end_error() is None
        with path.open("r+b") as file:
            file.seek(far)
            file.write(message(9).encode(far))
        with CommitLog(tmp_path) as found:
            with pytest.raises(CorruptCommitLogError, match=f"one follows at byte {far}"):
                offsets(found)
            assert offsets(found, mode="DROPMALFORMED")[5:] == [far]

    def test_does_not_count_for_messages_behind_it(self, log, folder):
        """An answer that needs none of its messages is whole."""
        newest = zero(folder, log.offsets[-150] - FILE_SIZE)
        behind = [
            o for o in spared(log, newest, log.offsets[-150] - FILE_SIZE) if o > log.offsets[-150]
        ]
        with CommitLog(folder) as found:
            assert offsets(found, start=behind[0]) == behind
            with pytest.raises(CorruptCommitLogError):
                offsets(found, start=behind[0] - 1)

    def test_in_a_file_made_ahead_is_no_hole(self, log, folder):
        """A broker makes the next file before it writes to it."""
        (folder / f"{2 * FILE_SIZE:020d}").write_bytes(bytes(FILE_SIZE))
        with CommitLog(folder) as found:
            assert offsets(found) == log.offsets
            assert found.end_error() is None


class TestAClockThatStepsBack:
    """Messages behind a hole look older than the last one before it, as remains do."""

    BACK = 30_000

    @pytest.fixture
    def stepped(self, tmp_path):
        """Return what writes a log of so many late messages, and lost the first of them."""

        def write(late, *, units=0, index=False, queue_offset=10, sys_flag=0):
            root, log = tmp_path / "store", Log(FILE_SIZE)
            for number in range(10):
                log.append(replace(message(number), queue_offset=number))
            for number in range(late):
                at = queue_offset + number
                then = replace(message(10 + number), queue_offset=at, sys_flag=sys_flag)
                at = then.store_timestamp - (self.BACK if number < 5 else 0)
                log.append(replace(then, store_timestamp=at))
            folder = log.write_to(root / "commitlog")
            self.lead(root, log, units, index=index)
            hole = zero(folder, log.offsets[10], log.offsets[11] - log.offsets[10])
            return log, folder, hole

        return write

    def lead(self, root, log, units, *, index):
        """Write a queue with so many units, and an index of all messages."""
        if units:
            queue = root / "consumequeue" / "TopicTest" / "0"
            queue.mkdir(parents=True)
            table = np.zeros(300, UNIT)
            table["phy_offset"][:units] = log.offsets[:units]
            table["size"][:units] = np.diff([*log.offsets, log.end])[:units]
            (queue / f"{0:020d}").write_bytes(table.tobytes())
        if index:
            rmqindex.rebuild_index(root, root / "index", Layout(53, 400))

    def dropped(self, folder):
        """Return the offsets that a lenient scan gives, and the bytes of what it passed over."""
        named = []
        with CommitLog(folder) as found:
            return offsets(found, mode="DROPMALFORMED", on_malformed=named.append), [
                error.byte for error in named
            ]

    def refuses(self, folder, byte):
        """Return whether a strict scan names a byte."""
        with CommitLog(folder) as found, pytest.raises(CorruptCommitLogError) as caught:
            offsets(found)
        return caught.value.byte == byte

    def test_newer_messages_right_behind_prove_them(self, stepped):
        """Without anything that leads there."""
        log, folder, _ = stepped(8)
        assert self.refuses(folder, log.offsets[10])
        rest = [offset for offset in log.offsets if offset != log.offsets[10]]
        assert self.dropped(folder) == (rest, [log.offsets[10]])

    @pytest.mark.parametrize("led", [{"units": 14}, {"units": 12}, {"index": True}], ids=str)
    def test_what_leads_to_one_proves_those_around_it(self, stepped, led):
        """Where the clock was not past its step yet."""
        log, folder, _ = stepped(4, **led)
        assert self.refuses(folder, log.offsets[10])
        rest = [offset for offset in log.offsets if offset != log.offsets[10]]
        assert self.dropped(folder) == (rest, [log.offsets[10]])
        with CommitLog(folder) as found:
            assert found.max_offset == log.end
            assert follow(found, 0, mode="DROPMALFORMED").end == log.end

    @pytest.mark.parametrize("led", [{"units": 15}, {"index": True}], ids=str)
    def test_what_leads_to_those_between_two_holes_proves_them(self, stepped, led):
        """Though the index ends behind the second hole, and another of its files is the newest."""
        log, folder, _ = stepped(5, **led)
        zero(folder, log.offsets[12], log.offsets[13] - log.offsets[12])
        holes = [log.offsets[10], log.offsets[12]]
        rest = [offset for offset in log.offsets if offset not in holes]
        assert self.dropped(folder) == (rest, holes)
        if "index" in led:
            shutil.copy(min((SAMPLE / "index").iterdir()), folder.parent / "index" / ("9" * 17))
            assert self.dropped(folder)[0] == rest

    @pytest.mark.parametrize("is_start", [False, True])
    def test_a_unit_behind_one_of_another_message_proves_nothing(self, stepped, is_start):
        """Behind a cut, the bytes of units are left, as those of messages are."""
        log, folder, _ = stepped(4, units=14)
        (queue,) = (folder.parent / "consumequeue" / "TopicTest" / "0").iterdir()
        units = np.fromfile(queue, UNIT)
        units["phy_offset"][9] = log.offsets[8] + (not is_start)
        units.tofile(queue)
        with CommitLog(folder) as found:
            assert found.max_offset == log.offsets[10]

    def test_entries_of_other_messages_prove_nothing(self, stepped):
        """As of an earlier life of the log, in whose place these stand."""
        log, folder, _ = stepped(4, index=True)
        (file,) = (folder.parent / "index").iterdir()
        content = bytearray(file.read_bytes())
        for at in range(40 + 4 * 53, len(content), 20):
            content[at] ^= 1  # a bit of the hash
        file.write_bytes(content)
        with CommitLog(folder) as found:
            assert found.max_offset == log.offsets[10]

    def test_a_torn_message_is_as_zeros_are(self, stepped):
        """Bytes of it are other ones."""
        log, folder, path = stepped(4, units=14)
        with path.open("r+b") as file:
            file.seek(log.offsets[10])
            file.write(b"\xff" * 50)
        assert self.refuses(folder, log.offsets[10] + 4)
        assert self.dropped(folder)[0] == [o for o in log.offsets if o != log.offsets[10]]

    @pytest.mark.parametrize("kept", [0, 3])
    def test_where_nothing_leads_there_the_end_is_doubtful(self, stepped, kept, tmp_path):
        """Nothing proves an earlier life either: answers from the log, and an audit, say so."""
        log, folder, path = stepped(4, units=kept)
        tail = {"byte": log.offsets[10], "phy_offset": log.offsets[11], "count": 3}
        with CommitLog(folder) as found:
            assert offsets(found) == log.offsets[:10]
            assert asdict(older_tail(found)) == {"path": str(path), **tail}
            (part,) = missing_parts(found, folder.parent)
            assert (part.part, part.start, part.phy_offset) == (
                "older",
                log.offsets[10],
                log.offsets[11],
            )
            assert "the broker's clock stepped back" in part.text()
            assert missing_parts(found, folder.parent, stop=log.offsets[10]) == ()
        rows = rmqindex.verify(folder.parent, "auto").to_pylist()
        (row,) = [row for row in rows if row["rule"] == "log_remains"]
        assert (row["file"], row["byte"]) == (str(path), log.offsets[10])
        with pytest.warns(rmqindex.IncompleteLogWarning, match="clock stepped back"):
            MessageStore(folder.parent).messages()
        built = rmqindex.rebuild_index(folder.parent, tmp_path / "index", Layout(53, 400))
        queued = rmqindex.rebuild_consume_queues(folder.parent, tmp_path)
        assert built.missing == queued.missing == (part,)

    def test_numbers_of_half_messages_prove_no_other_life(self, stepped):
        """They have no queue, and all the offset 0."""
        _, folder, _ = stepped(4, sys_flag=4, queue_offset=0)
        with CommitLog(folder) as found:
            assert older_tail(found) is not None

    @pytest.mark.parametrize("led", [{}, {"units": 10}], ids=str)
    def test_remains_are_the_end(self, stepped, led):
        """Their queue offsets are those of messages that came since."""
        log, folder, _ = stepped(4, queue_offset=5, **led)
        with CommitLog(folder) as found:
            assert offsets(found) == log.offsets[:10]
            assert found.end_error() is None
            assert found.max_offset == log.offsets[10]
            assert older_tail(found) is None
            assert missing_parts(found, folder.parent) == ()

    def test_a_unit_that_leads_elsewhere_tells_more_than_an_index(self, stepped):
        """An index keeps entries of a tail that was cut; a broker cuts its queues."""
        log, folder, path = stepped(4, units=10, queue_offset=5)
        data = path.read_bytes()
        path.write_bytes(
            data[: log.offsets[10]]
            + bytes(log.files[0][log.offsets[10] : log.end]).ljust(
                FILE_SIZE - log.offsets[10], b"\0"
            )
        )
        rmqindex.rebuild_index(folder.parent, folder.parent / "index", Layout(53, 400))
        path.write_bytes(data)
        assert self.dropped(folder)[0] == log.offsets[:10]


class TestALogThatIsBeingWritten:
    """A broker copies records in while others read."""

    def test_has_no_hole(self, tmp_path):
        """However often it is read meanwhile: its messages are the first ones, in order."""
        log = Log(FILE_SIZE * 16)
        for number in range(8000):
            log.append(message(number, 1 + number % 40))
        folder = tmp_path / "store" / "commitlog"
        folder.mkdir(parents=True)
        (folder / f"{0:020d}").write_bytes(bytes(log.file_size))
        counts = [0]
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), str(log.file_size)], stdin=subprocess.PIPE
        ) as broker:
            broker.stdin.write(
                b"".join(bytes(log.files[at]) for at in sorted(log.files))[: log.end]
            )
            broker.stdin.close()
            while broker.poll() is None or counts[-1] < len(log.offsets):
                with CommitLog(folder) as found:
                    read = offsets(found)
                    assert read == log.offsets[: len(read)]
                    assert found.end_error() is None
                    assert follow(found, 0).end <= log.end
                assert len(read) >= counts[-1]
                counts.append(len(read))
        assert len(counts) > 2


class TestBytesOfNoRecord:
    """Zeros that end in something that is no record."""

    @pytest.fixture
    def torn(self, log, folder):
        """The last record has lost its first bytes."""
        zero(folder, log.offsets[-1] - FILE_SIZE, 60)
        return folder

    def test_are_named(self, log, torn):
        """The log ends before them, if it is read at all."""
        with CommitLog(torn) as found:
            with pytest.raises(CorruptCommitLogError, match="zeros and other bytes at") as caught:
                offsets(found)
            assert caught.value.byte == log.offsets[-1] - FILE_SIZE
            named = []
            kept = offsets(found, mode="DROPMALFORMED", on_malformed=named.append)
            assert kept == log.offsets[:-1]
            assert [str(each) for each in named] == [str(caught.value)]
            assert found.max_offset == log.offsets[-1]
            assert str(found.end_error()) == str(caught.value)

    def test_may_be_a_copy_while_a_broker_runs(self, log, torn):
        """It copies a record in, in no promised order."""
        lock = torn.parent / "lock"
        lock.write_bytes(b"")
        with (
            CommitLog(torn) as found,
            subprocess.Popen(
                [sys.executable, "-c", HELD, str(lock)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            ) as broker,
        ):
            assert broker.stdout.readline() == b"held\n"
            assert offsets(found) == log.offsets[:-1]
            assert follow(found, 0).end == log.offsets[-1]
            broker.stdin.close()
            broker.wait()
            with pytest.raises(CorruptCommitLogError):
                offsets(found)
            with pytest.raises(CorruptCommitLogError):
                follow(found, 0)

    def test_a_stream_waits_where_no_lock_tells(self, log, torn):
        """The record may become whole."""
        with CommitLog(torn) as found:
            assert follow(found, 0).end == log.offsets[-1]

    def test_of_an_earlier_life_are_the_end(self, log, folder):
        """Older records follow behind the zeros."""
        newest = max(folder.iterdir())
        data = bytearray(newest.read_bytes())
        at = log.end - FILE_SIZE + 100
        data[at + 20 : at + 40] = b"x" * 20
        data[at + 40 : at + 40 + 300] = message(-9).encode(FILE_SIZE + at + 40).ljust(300, b"\0")
        newest.write_bytes(data)
        with CommitLog(folder) as found:
            assert offsets(found) == log.offsets
            assert found.end_error() is None
            assert follow(found, 0).end == log.end


class TestAWitness:
    """What leads behind the end of a log that is whole."""

    @pytest.fixture
    def store(self, tmp_path):
        """A copy of the sample store."""
        return shutil.copytree(SAMPLE, tmp_path / "store")

    def last_unit(self, store):
        """The file of a queue of several messages, and the number of its last unit."""
        path = store / "consumequeue/TopicTest/0/00000000000000000000"
        sizes = np.frombuffer(path.read_bytes(), UNIT)["size"]
        return path, int(np.flatnonzero(sizes)[-1])

    @pytest.mark.parametrize("offset", [10_000_000, 1 << 56])
    def test_is_no_unit_of_a_message_that_the_log_has(self, store, offset):
        """A torn unit leads anywhere; the log has the message of its queue offset elsewhere."""
        expected = whole(store)
        path, number = self.last_unit(store)
        with path.open("r+b") as file:
            file.seek(number * UNIT.itemsize)
            file.write(struct.pack(">q", offset))
        assert whole(store) == expected

    def test_is_a_unit_of_a_message_that_the_log_lacks(self, store):
        """The unit follows one whose message is there."""
        path, number = self.last_unit(store)
        with path.open("r+b") as file:
            file.seek((number + 1) * UNIT.itemsize)
            file.write(struct.pack(">qiq", 10_000_000, 200, 0))
        with pytest.raises(CorruptCommitLogError, match="leads to a message at offset 10000000"):
            whole(store)

    def test_is_no_unit_behind_one_that_leads_into_a_message(self, store):
        """Both are left from before a cut of the log, which wrote on over their messages."""
        expected = whole(store)
        path, number = self.last_unit(store)
        (at,) = np.fromfile(path, UNIT)["phy_offset"][number - 1 : number].tolist()
        with path.open("r+b") as file:
            file.seek(number * UNIT.itemsize)
            file.write(struct.pack(">qiq", at + 1, 200, 0))
            file.write(struct.pack(">qiq", 10_000_000, 200, 0))
        assert whole(store) == expected

    def test_is_a_unit_before_a_torn_one(self, store):
        """Each unit of a queue is judged by itself."""
        path, number = self.last_unit(store)
        with path.open("r+b") as file:
            file.seek(number * UNIT.itemsize)
            file.write(struct.pack(">qiq", 1 << 56, 200, 0))
            file.write(struct.pack(">qiq", 10_000_000, 200, 0))
        with pytest.raises(CorruptCommitLogError, match="leads to a message at offset 10000000"):
            whole(store)

    @pytest.mark.parametrize("is_torn", [True, False])
    def test_is_a_unit_of_a_light_queue_by_the_messages_that_name_it(self, tmp_path, is_torn):
        """A torn one is of a message that the log has elsewhere; one behind it is of a lost one."""
        log, name = Log(FILE_SIZE), "%LMQ%light"
        for number in range(3):
            named = [("INNER_MULTI_DISPATCH", name), ("INNER_MULTI_QUEUE_OFFSET", str(number))]
            log.append(Message(queue_offset=number, properties=properties_text(named)))
        log.write_to(tmp_path / "commitlog")
        rmqindex.rebuild_consume_queues(tmp_path, tmp_path, file_size=2000)
        with (tmp_path / "consumequeue" / name / "0" / f"{0:020}").open("r+b") as file:
            file.seek((2 if is_torn else 3) * UNIT.itemsize)
            file.write(struct.pack(">qiq", 10_000_000, 200, 0))
        if is_torn:
            assert whole(tmp_path) == log.offsets
        else:
            with pytest.raises(CorruptCommitLogError, match="message at offset 10000000"):
                whole(tmp_path)

    def test_is_no_queue_in_the_folder_of_another_kind(self, store):
        """Its units are read as units of batches, which they are not."""
        expected = whole(store)
        (store / "batchconsumequeue").mkdir()
        (store / "consumequeue/TopicTest").rename(store / "batchconsumequeue/TopicTest")
        assert whole(store) == expected

    def test_is_no_batch_queue_in_the_folder_of_the_others(self, tmp_path):
        """Nor the other way round."""
        store = shutil.copytree(MESSAGE_KINDS / "store", tmp_path / "store")
        expected = whole(store)
        for topic in (store / "batchconsumequeue").iterdir():
            shutil.rmtree(store / "consumequeue" / topic.name, ignore_errors=True)
            topic.rename(store / "consumequeue" / topic.name)
        assert whole(store) == expected

    def test_is_no_header_that_contradicts_its_entries(self, store):
        """No entry leads where a raised ``end_phy_offset`` does."""
        expected = whole(store)
        with max((store / "index").iterdir()).open("r+b") as file:
            file.seek(24)
            file.write(struct.pack(">q", 10_000_000))
        assert whole(store) == expected
        with CommitLog(store) as log:
            assert log.end_error() is None
            assert missing_parts(log, store) == ()

    def test_is_no_remote_header_that_contradicts_its_last_entry(self, store):
        """It is asked of few bytes; a header that agrees with its entry is believed."""
        expected = whole(store)
        newest = max((store / "index").iterdir())
        with newest.open("r+b") as file:
            file.seek(24)
            file.write(struct.pack(">q", 10_000_000))
        with CommitLog(str(store), filesystem=pafs.LocalFileSystem()) as log:
            assert offsets(log) == expected
        count = rmqindex.IndexHeader.from_bytes(newest.read_bytes()[:40]).entry_count
        last = rmqindex.Layout(97, 200).entry_offset(count)
        with newest.open("r+b") as file:
            file.seek(last + 4)
            file.write(struct.pack(">q", 10_000_000))
        with (
            CommitLog(str(store), filesystem=pafs.LocalFileSystem()) as log,
            pytest.raises(CorruptCommitLogError, match="message at offset 10000000"),
        ):
            offsets(log)


class TestWhatLiesBeside:
    """An IndexFile, a ConsumeQueue or the checkpoint that leads behind the log's end."""

    @pytest.fixture
    def store(self, tmp_path):
        """A copy of the sample store whose log has lost its last page."""
        store = shutil.copytree(SAMPLE, tmp_path / "store")
        newest = max((store / "commitlog").iterdir())
        size = newest.stat().st_size
        os.truncate(newest, 40_000)
        os.truncate(newest, size)
        return store

    def keep(self, store, *names):
        """Leave nothing beside the log but what is named."""
        for path in store.iterdir():
            if path.name not in {"commitlog", *names}:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    @pytest.mark.parametrize("witness", ["index", "consumequeue", "checkpoint"])
    def test_proves_that_messages_are_lost(self, store, witness):
        """Though zeros reach to the end of the file."""
        self.keep(store, witness)
        if witness == "checkpoint":
            with (store / witness).open("r+b") as file:
                file.seek(32)
                file.write(struct.pack(">q", 123120))
        with CommitLog(store) as log:
            with pytest.raises(CorruptCommitLogError, match="leads to a message at") as caught:
                offsets(log)
            error = caught.value
            assert witness in str(error.expected)
            assert int(error.path[-20:]) + error.byte == log.max_offset
            named = []
            kept = offsets(log, mode="DROPMALFORMED", on_malformed=named.append)
            assert kept[-1] < log.max_offset
            assert [str(each) for each in named] == [str(error)]
            assert str(log.end_error()) == str(error)
            assert offsets(log, stop=log.max_offset) == kept

    def test_is_told_where_nothing_is_left(self, store):
        """A log without any messages."""
        for path in (store / "commitlog").iterdir():
            os.truncate(path, 0)
        with CommitLog(store) as log, pytest.raises(CorruptCommitLogError, match="leads to"):
            offsets(log)

    def test_holds_a_stream_up(self, store):
        """In the strict mode."""
        with CommitLog(store) as log:
            with pytest.raises(CorruptCommitLogError, match="leads to a message at"):
                follow(log, 0)
            assert follow(log, 0, mode="DROPMALFORMED").end == log.max_offset

    def test_says_nothing_of_files_chosen_by_name(self, store):
        """The user left the others out."""
        with CommitLog(sorted((store / "commitlog").iterdir())) as log:
            assert offsets(log)[-1] < log.max_offset
            assert log.end_error() is None

    def test_is_not_asked_of_a_part_before_it(self, store):
        """The answer is whole."""
        with CommitLog(store) as log:
            assert offsets(log, stop=90_000)


class TestTheLastRecordOfALiveLog:
    """A broker copies a record in, in no promised order, and indexes it only when it is whole."""

    @staticmethod
    def half_write(folder, offset, first, size=20):
        """Take bytes of a record away; return what puts them back."""
        newest = max(folder.iterdir())
        at = offset - int(newest.name) + first
        whole = newest.read_bytes()[at : at + size]
        zero(folder, at, size)

        def finish():
            with newest.open("r+b") as file:
                file.seek(at)
                file.write(whole)

        return finish

    @staticmethod
    def read(folder, columns=("phy_offset", "body"), **options):
        """Return the offsets that a scan with bodies gives, and the log's end."""
        with CommitLog(folder) as found:
            batches = list(found.scan(columns=list(columns), **options))
            return [o for batch in batches for o in batch[0].to_pylist()], found.max_offset

    @pytest.mark.usefixtures("broker")
    @pytest.mark.parametrize("first", [90, 300], ids=["body", "properties"])
    @pytest.mark.parametrize("max_records", [1, 7, 8192])
    @pytest.mark.parametrize("columns", [["phy_offset"], ["phy_offset", "body", "keys"]])
    def test_waits_until_it_is_whole(self, log, folder, first, max_records, columns):
        """With bodies and without, in either mode, and no clock is asked."""
        size = log.end - log.offsets[-1]
        finish = self.half_write(folder, log.offsets[-1], min(first, size - 20))
        for mode in ("FAILFAST", "DROPMALFORMED"):
            options = {"mode": mode, "max_records": max_records}
            assert self.read(folder, columns, **options) == (log.offsets[:-1], log.offsets[-1])
        finish()
        assert self.read(folder, columns, max_records=max_records) == (log.offsets, log.end)

    def test_is_damaged_where_no_broker_runs(self, log, folder):
        """Nobody is writing it."""
        self.half_write(folder, log.offsets[-1], 90)
        with pytest.raises(CorruptCommitLogError, match="expected the CRC-32"):
            self.read(folder)

    @pytest.mark.usefixtures("broker")
    def test_is_damaged_where_the_checkpoint_leads_to_it(self, log, folder):
        """A broker had written it."""
        self.half_write(folder, log.offsets[-1], 90)
        values = [0, 0, 0, 0, log.end]
        (folder.parent / "checkpoint").write_bytes(struct.pack(">5q", *values).ljust(4096, b"\0"))
        with pytest.raises(CorruptCommitLogError, match="expected the CRC-32"):
            self.read(folder)

    @pytest.mark.usefixtures("broker")
    def test_is_damaged_where_a_later_message_follows(self, log, folder):
        """A broker copies one message, or batch, after the other."""
        self.half_write(folder, log.offsets[-2], 90)
        with pytest.raises(CorruptCommitLogError, match="expected the CRC-32"):
            self.read(folder)

    @pytest.mark.parametrize("log", [(0, 1, 2, 2, 2)], indirect=True)
    @pytest.mark.usefixtures("broker")
    def test_is_left_out_with_the_batch_that_it_is_in(self, log, folder):
        """Messages of one batch are copied together, and have one store time."""
        finish = self.half_write(folder, log.offsets[3], 90)
        assert self.read(folder) == (log.offsets[:3], log.offsets[3])
        finish()
        assert self.read(folder) == (log.offsets, log.end)

    @pytest.mark.usefixtures("broker")
    def test_is_left_out_where_the_range_ends_in_it(self, log, folder):
        """As it is where the range goes on."""
        finish = self.half_write(folder, log.offsets[-1], 90)
        for stop in (log.offsets[-1] + 1, log.end):
            assert self.read(folder, stop=stop) == (log.offsets[:-1], log.offsets[-1])
        finish()
        assert self.read(folder, stop=log.end) == (log.offsets, log.end)

    @pytest.mark.usefixtures("broker")
    def test_is_left_out_where_a_header_leads_behind_it_that_no_entry_proves(self, log, folder):
        """A damaged header leads anywhere."""
        index = folder.parent / "index"
        index.mkdir()
        sample = min((SAMPLE / "index").iterdir())
        data = bytearray(sample.read_bytes())
        struct.pack_into(">q", data, 24, log.end + 1_000_000)
        (index / sample.name).write_bytes(data)
        self.half_write(folder, log.offsets[-1], 90)
        assert self.read(folder) == (log.offsets[:-1], log.offsets[-1])


class TestABatchThatIsBeingCopied:
    """A later record of one copy may be there before the head of an earlier one."""

    @pytest.fixture
    def log(self):
        """Two hundred messages, the last four of which are one batch, behind which is much room."""
        log = Log(8 * 1024 * 1024)
        for number in range(200):
            log.append(message(min(number, 196)))
        return log

    def hide(self, folder, start, stop):
        """Take bytes away that are not copied yet; return what copies them."""
        newest = max(folder.iterdir())
        data = newest.read_bytes()
        zero(folder, start - int(newest.name), stop - start)
        return lambda: newest.write_bytes(data)

    def read(self, folder, **options):
        """Return the offsets that a scan gives, the log's end, and where a stream's batch ends."""
        with CommitLog(folder) as found:
            return offsets(found, **options), found.max_offset, follow(found, 0).end

    @pytest.mark.usefixtures("broker")
    @pytest.mark.parametrize("size", [8, 84, 200, None], ids=["mark", "head", "part", "record"])
    @pytest.mark.parametrize("first", [196, 198])
    @pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED"])
    def test_ends_the_log(self, log, folder, first, size, mode):
        """Before its first record that is not whole, in either mode, until the copy is done."""
        start = log.offsets[first]
        copy = self.hide(folder, start, log.offsets[first + 1] if size is None else start + size)
        assert self.read(folder, mode=mode) == (log.offsets[:first], start, start)
        copy()
        assert self.read(folder, mode=mode) == (log.offsets, log.end, log.end)

    @pytest.mark.parametrize("is_killed", [False, True])
    def test_has_no_end_at_a_zero_that_a_client_wrote(self, folder, broker, is_killed):
        """No copy leaves a single one: all readers agree, also once the broker was killed."""
        log = Log(FILE_SIZE)
        for number in range(6):
            text = properties_text([("TAGS", "\0z" if number == 2 else "t")])
            log.append(replace(message(min(number, 2)), properties=text))
        shutil.rmtree(folder)
        log.write_to(folder)
        (folder.parent / "abort").touch()
        if is_killed:
            broker.kill()
            broker.wait()
        assert self.read(folder) == (log.offsets, log.end, log.end)
        with CommitLog(folder) as found:
            assert whole_end(found) == log.end
            assert len(newest_messages(found, Selection(), ["tags"], 9)) == len(log.offsets)
        assert MessageStore(folder.parent).messages().read_all().num_rows == len(log.offsets)

    def refused(self, folder):
        """Ensure that the hole is damage for a scan and for a stream."""
        for read in (offsets, lambda found: follow(found, 0)):
            with (
                CommitLog(folder) as found,
                pytest.raises(CorruptCommitLogError, match="since one follows"),
            ):
                read(found)

    def test_is_a_hole_where_no_broker_runs(self, log, folder):
        """Nobody is copying."""
        (folder.parent / "lock").write_bytes(b"")
        self.hide(folder, log.offsets[196], log.offsets[197])
        self.refused(folder)

    @pytest.mark.usefixtures("broker")
    def test_is_a_hole_where_a_queue_leads_to_it(self, log, folder):
        """A broker had copied all of it."""
        queue = folder.parent / "consumequeue/TopicTest/0"
        queue.mkdir(parents=True)
        ends = [*log.offsets[1:], log.end]
        units = [(o, e - o, 0) for o, e in zip(log.offsets, ends, strict=True)]
        (queue / f"{0:020d}").write_bytes(np.array(units, UNIT).tobytes())
        self.hide(folder, log.offsets[197], log.offsets[198])
        self.refused(folder)

    @pytest.mark.usefixtures("broker")
    def test_is_a_hole_where_messages_of_two_copies_follow(self, log, folder):
        """A broker copies one batch after the other."""
        self.hide(folder, log.offsets[194], log.offsets[195])
        self.refused(folder)

    @pytest.mark.usefixtures("broker")
    def test_is_a_hole_where_more_than_a_copy_lies_behind(self, folder):
        """No message is so large."""
        newest = max(folder.iterdir())
        far = 5 * 1024 * 1024
        with newest.open("r+b") as file:
            file.seek(far)
            file.write(message(196).encode(far))
        self.refused(folder)


def make_ahead(folder, content):
    """Make the next file ahead, with bytes of an earlier life; return it."""
    newest = max(folder.iterdir())
    path = folder / f"{int(newest.name) + FILE_SIZE:020d}"
    path.write_bytes(content.ljust(FILE_SIZE, b"\0"))
    return path


class TestAFileMadeAheadWithBytesOfAnEarlierLife:
    """It is none of the log's unless it has a record of the log, or the log goes on there."""

    @pytest.fixture(params=["records", "noise", "noise behind zeros"])
    def content(self, request, folder):
        """Records of other offsets, or bytes of none."""
        return {
            "records": min(folder.iterdir()).read_bytes(),
            "noise": b"\x07" * FILE_SIZE,
            "noise behind zeros": bytes(500) + b"\x07" * 900,
        }[request.param]

    def test_leaves_the_end_where_it_is(self, log, folder, opened, content):
        """The newest file ends in zeros, and nothing proves that the log went on."""
        make_ahead(folder, content)
        with opened() as read:
            assert offsets(read) == offsets(read, mode="DROPMALFORMED") == log.offsets
            assert read.max_offset == log.end
            assert read.end_error() is None
            assert follow(read, 0).end == log.end

    @pytest.mark.usefixtures("broker")
    def test_leaves_it_where_it_is_while_a_broker_runs(self, log, folder, opened, content):
        """Which makes the next file long before it is needed."""
        make_ahead(folder, content)
        with opened() as read:
            assert offsets(read) == log.offsets

    def test_makes_a_hole_of_the_zeros_once_a_record_of_the_log_follows(
        self, folder, opened, content
    ):
        """Wherever in the file it is."""
        start = int(max(folder.iterdir()).name) + FILE_SIZE
        record = message(900).encode(start + 600)
        make_ahead(folder, content[:600].ljust(600, b"\0") + record + content[600 + len(record) :])
        with opened() as read, pytest.raises(CorruptCommitLogError, match="later files hold some"):
            offsets(read)

    @pytest.mark.parametrize("log", [range(800)], indirect=True)
    def test_is_the_logs_where_the_file_before_is_full(self, log, folder, opened, content):
        """A record that is torn there is the log's end, as in the middle of a file."""
        newest = max(folder.iterdir())
        start = int(newest.name)
        newest.write_bytes(content.ljust(FILE_SIZE, b"\0"))
        before = [offset for offset in log.offsets if offset < start]
        with opened() as read:
            assert read.last_with_data() == len(read.files) - 1
            assert read.max_offset == start
            assert offsets(read, mode="DROPMALFORMED") == before

    def test_is_damage_where_the_index_leads_into_it(self, tmp_path):
        """The messages are lost, wherever they were."""
        store = shutil.copytree(SAMPLE, tmp_path / "store")
        with CommitLog(store) as log:
            newest = log.files[-1]
            kept = log.max_offset - 4_000 - newest.start
        folder = store / "commitlog"
        whole_file = (folder / newest.path.name).read_bytes()
        (folder / newest.path.name).write_bytes(whole_file[:kept].ljust(newest.size, b"\0"))
        (folder / f"{newest.stop:020d}").write_bytes(b"\x07" * newest.size)
        with pytest.raises(CorruptCommitLogError, match="leads to a message at offset"):
            whole(store)


class TestReadersAndAuditOfAFileMadeAhead:
    """They agree, with the broker's lock and without."""

    @pytest.fixture
    def store(self, tmp_path):
        """Return a store of RocketMQ, of which the log has room in its newest file."""
        return shutil.copytree(SAMPLE, tmp_path / "store")

    @pytest.fixture
    def ahead(self, store):
        """Return the path of the next file, and its size."""
        with CommitLog(store) as log:
            newest = log.files[-1]
        return store / "commitlog" / f"{newest.stop:020d}", newest.size

    @pytest.fixture(params=[True, False], ids=["live", "stopped"])
    def is_live(self, request, store):
        """Have a broker hold the store, or not."""
        if not request.param:
            yield False
            return
        (store / "lock").write_bytes(b"")
        (store / "abort").touch()
        with subprocess.Popen(
            [sys.executable, "-c", HELD, str(store / "lock")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout.readline() == b"held\n"
            yield True

    @pytest.mark.usefixtures("is_live")
    def test_bytes_of_an_earlier_life_are_nothing(self, store, ahead):
        """Neither finds damage in the log; that they are of another file is a finding alone."""
        known = whole(store)
        rules = rmqindex.verify(store, "auto")["rule"].to_pylist()
        path, size = ahead
        path.write_bytes(min(path.parent.iterdir()).read_bytes().ljust(size, b"\0"))
        assert whole(store) == known
        found = rmqindex.verify(store, "auto")["rule"].to_pylist()
        assert found.count("log_file_misnamed") == 1
        assert [rule for rule in found if rule != "log_file_misnamed"] == rules

    @pytest.mark.usefixtures("is_live")
    def test_a_record_of_the_log_makes_a_hole_of_the_zeros_before(self, store, ahead):
        """Both say so."""
        path, size = ahead
        path.write_bytes(message(9).encode(int(path.name)).ljust(size, b"\0"))
        with pytest.raises(CorruptCommitLogError, match="later files hold some"):
            whole(store)
        assert "log_damaged" in rmqindex.verify(store, "auto")["rule"].to_pylist()


class TestAnEndThatIsDamagedAndLedBehind:
    """Zeros that other bytes follow, and an index that leads behind: one damage, told once."""

    @pytest.fixture
    def store(self, tmp_path):
        """Return a store whose newest file has zeros and noise instead of its last messages."""
        store = shutil.copytree(SAMPLE, tmp_path / "store")
        with CommitLog(store) as log:
            newest = log.files[-1]
            (*_, at) = (offset for offset in offsets(log) if offset < log.max_offset - 4_000)
        path = store / "commitlog" / newest.path.name
        data = path.read_bytes()[: at - newest.start].ljust(newest.size - 900, b"\0")
        path.write_bytes(data.ljust(newest.size, b"\x07"))
        return store

    def test_by_a_pass_over_the_log(self, store):
        """Read to its end, or followed."""
        told = []
        with CommitLog(store) as log:
            offsets(log, mode="DROPMALFORMED", on_malformed=told.append)
            assert [error.got for error in told] == [f"zeros and other bytes at {64_636}"]
            follow(log, 0, mode="DROPMALFORMED", on_malformed=told.append)
        assert len(told) == 2

    def test_by_an_audit_and_an_explanation(self, store):
        """Neither names the place twice."""
        rules = rmqindex.verify(store, "auto")["rule"].to_pylist()
        assert rules.count("log_damaged") == 1
        explained = rmqindex.explain_lookup(store, "T", "k", commit_log="auto", search_log="all")
        (damaged,) = (each for each in explained.reasons if each.code == "log_damaged")
        assert damaged.sentence.count("expected a record") == 1

    def test_by_a_rebuild(self, store):
        """Which asks for the end again once it has read the log."""
        told = []
        options = {"replace": True, "dry_run": True, "mode": "DROPMALFORMED"}
        rmqindex.rebuild_index(store, store / "index", on_malformed=told.append, **options)
        assert len(told) == 1


@pytest.mark.parametrize("whole", [True, False])
def test_a_file_that_a_broker_begins_while_the_end_is_found(log, folder, monkeypatch, whole):
    """The end is in the file that was read last, be it begun since the log was looked at."""
    newest = max(folder.iterdir())
    data = newest.read_bytes()
    newest.write_bytes(bytes(FILE_SIZE))
    find = reading.last_with_data

    def found_before_the_write(files):
        last = find(files)
        newest.write_bytes(data if whole else data[:4] + bytes(FILE_SIZE - 4))
        return last

    monkeypatch.setattr(reading, "last_with_data", found_before_the_write)
    with CommitLog(folder) as found:
        assert found.max_offset == (log.end if whole else FILE_SIZE)
