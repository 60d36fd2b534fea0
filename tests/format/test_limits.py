"""What small or sparse files that lie can take of memory, and what they cannot."""

from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress

import pyarrow as pa
import pytest

from commitlog_encoder import Message
from rmqindex import (
    CommitLog,
    CorruptCommitLogError,
    CorruptIndexError,
    IndexFile,
    IndexHeader,
    Layout,
    RmqIndexError,
    key_hash,
    rebuild_consume_queues,
    rebuild_index,
    salvage,
    verify,
)
from rmqindex.indexfile import open_index_source

MIB = 1 << 20
LARGEST = 2**31 - 1


@pytest.fixture(autouse=True)
def memory():
    """Return what Python, NumPy and Arrow took at most since the test began, in bytes."""
    tracemalloc.start()
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    yield lambda: tracemalloc.get_traced_memory()[1] + max(0, pool.bytes_allocated() - before)
    tracemalloc.stop()


def index_file(folder, header, size=1000, tail=b""):
    """Write a sparse file with a header."""
    path = folder / "20231114221320000"
    with path.open("wb") as file:
        file.write(header.to_bytes() + tail)
        file.truncate(size)
    return path


class TestIndexFiles:
    """Headers and slots that claim more than the file has."""

    @pytest.mark.parametrize("count", [LARGEST, 2**31 - 2, 100_000])
    @pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED"])
    def test_a_count_beyond_the_file(self, tmp_path, memory, count, mode):
        """It is an error that names the byte, or what the file has is read."""
        path = index_file(tmp_path, IndexHeader(1, 2, 0, 9, count - 1, count))
        layout = Layout(97, (1000 - 40 - 97 * 4) // 20)
        with pytest.raises(CorruptIndexError, match="index_count at byte 36: expected at most"):
            Layout.infer(path)
        opened = None
        with suppress(RmqIndexError):
            opened = IndexFile(path, layout, mode=mode)
        if opened is not None:
            with opened:
                assert sum(batch.num_rows for batch in opened.scan()) < 100
                assert opened.lookup([key_hash("a#b")]).num_rows < 100
        else:
            assert mode == "FAILFAST"
        verify(tmp_path)
        assert sum(batch.num_rows for batch in salvage(path, layout)) < 100
        assert memory() < 64 * MIB

    @pytest.mark.parametrize("slots", [LARGEST // 4 - 1000, 5_000_000])
    def test_a_number_of_slots_beyond_the_file(self, tmp_path, memory, slots):
        """Whoever names it: nothing is taken for slots that are not there."""
        path = index_file(tmp_path, IndexHeader(1, 2, 0, 9, LARGEST, 3))
        with (
            pytest.raises(RmqIndexError, match=r"file[_ ]size"),
            IndexFile(path, Layout(slots, 10)) as file,
        ):
            file.lookup([key_hash("a#b")])
        assert memory() < 16 * MIB

    @pytest.mark.parametrize("value", [LARGEST, -LARGEST, 200])
    def test_a_slot_that_points_beyond_the_file(self, tmp_path, memory, value):
        """The chain begins nowhere."""
        layout = Layout(7, 20)
        slots = struct.pack(">7i", *([value] * 7))
        path = index_file(tmp_path, IndexHeader(1, 2, 0, 9, 7, 3), layout.file_size, slots)
        with IndexFile(path, layout) as file, pytest.raises(CorruptIndexError, match="at byte 4"):
            file.lookup([0])
        assert memory() < 16 * MIB

    def test_the_search_for_a_geometry_takes_bounded_memory(self, tmp_path, memory):
        """Every row of a sparse file can look like an entry, and every slot like a candidate."""
        layout = Layout(1, 600_000)
        header = IndexHeader(1, 2, 0, 0, 1, 3)
        path = index_file(tmp_path, header, layout.file_size, struct.pack(">i", 2))
        with pytest.raises(RmqIndexError, match="maxHashSlotNum"):
            Layout.infer(path)
        assert memory() < 96 * MIB

    def test_the_search_for_a_geometry_reads_a_file_a_bounded_number_of_times(self, tmp_path):
        """However many geometries look right at first."""
        layout = Layout(1, 600_000)
        path = index_file(
            tmp_path, IndexHeader(1, 2, 0, 0, 1, 3), layout.file_size, struct.pack(">i", 2)
        )
        with open_index_source(path) as source:
            read, total = source.read, [0]

            def counted(offset, length):
                total[0] += length
                return read(offset, length)

            source.read = counted
            with pytest.raises(RmqIndexError):
                Layout.infer(source)
        assert total[0] < 8 * layout.file_size


def log_file(folder, *records, size=None, at=0):
    """Write a log file of records, and holes behind them."""
    path = folder / f"{at:020d}"
    with path.open("wb") as file:
        for record in records:
            file.write(record)
        if size is not None:
            file.truncate(size)
    return path


class TestCommitLogs:
    """Records that claim more than the file has."""

    @pytest.mark.parametrize("size", [LARGEST, 10_000, -1, 0, 90])
    def test_a_size_beyond_the_file(self, tmp_path, memory, size):
        """It is an error that names the byte, where a message stands behind it."""
        record = bytearray(Message().encode(0))
        record[:4] = struct.pack(">i", size)
        log_file(tmp_path, record, Message().encode(len(record)), size=5000)
        with (
            CommitLog(tmp_path) as log,
            pytest.raises(CorruptCommitLogError, match="total_size at byte 0: expected"),
        ):
            list(log.scan())
        assert memory() < 16 * MIB

    @pytest.mark.parametrize("length", [LARGEST, 10_000])
    def test_a_body_beyond_the_record(self, tmp_path, memory, length):
        """Likewise."""
        record = bytearray(Message().encode(0))
        record[84:88] = struct.pack(">i", length)
        log_file(tmp_path, record, Message().encode(len(record)))
        with (
            CommitLog(tmp_path) as log,
            pytest.raises(CorruptCommitLogError, match="body_length at byte 84: expected"),
        ):
            list(log.scan())
        assert memory() < 16 * MIB

    def test_a_sparse_log_of_the_largest_size(self, tmp_path, memory):
        """Two gigabytes of holes behind one record are not read into memory."""
        log_file(tmp_path, Message().encode(0), size=LARGEST)
        with CommitLog(tmp_path) as log:
            assert sum(batch.num_rows for batch in log.scan()) == 1
        assert memory() < 64 * MIB

    def test_as_many_properties_as_fit(self, tmp_path, memory):
        """The length of a message's properties has 16 bits, and so has that of its topic."""
        message = Message(topic="t" * 32_767, properties=b"a\x01b\x02" * 8191, version=2)
        records, at = [], 0
        for _ in range(100):
            records.append(message.encode(at))
            at += len(records[-1])
        log_file(tmp_path, *records)
        with CommitLog(tmp_path) as log:
            (batch,) = log.scan(columns=["topic", "properties", "keys"])
        assert batch["properties"][99].as_py() == [("a", "b")]
        assert len(batch["topic"][0].as_py()) == 32_767
        assert memory() < 256 * MIB

    @pytest.mark.requirement("CQ-SEC-1")
    def test_a_topic_that_names_no_folder_makes_none(self, tmp_path):
        """Neither one elsewhere nor one with too long a name."""
        (tmp_path / "log").mkdir()
        topics = ["../../elsewhere", "/elsewhere", "..", ".", "", "a/b", "a\0b", "é" * 128]
        for topic in topics:
            log_file(tmp_path / "log", Message(topic=topic).encode(0))
            out = tmp_path / "out"
            with pytest.raises(
                CorruptCommitLogError, match=r"topic at byte .* the name of a folder"
            ):
                rebuild_consume_queues(tmp_path / "log", out)
            assert not list(out.glob("*"))
            result = rebuild_consume_queues(tmp_path / "log", out, mode="DROPMALFORMED")
            assert result.queue_count == 0
        assert sorted(path.name for path in tmp_path.iterdir()) == ["log"]

    def test_a_queue_of_a_negative_number_makes_no_folder(self, tmp_path):
        """Its name would be another one."""
        (tmp_path / "log").mkdir()
        log_file(tmp_path / "log", Message(queue_id=-1).encode(0))
        with pytest.raises(
            CorruptCommitLogError, match="and a queue's number, got 'TopicTest' and"
        ):
            rebuild_consume_queues(tmp_path / "log", tmp_path / "out")

    def test_a_gap_in_a_queue_takes_bounded_memory(self, tmp_path, memory):
        """As many blank units as messages could stand between two that are gigabytes apart."""
        (tmp_path / "log").mkdir()
        far = 2**30
        log_file(tmp_path / "log", Message(queue_offset=0).encode(0), size=far)
        log_file(tmp_path / "log", Message(queue_offset=2_000_000).encode(far), at=far)
        result = rebuild_consume_queues(
            tmp_path / "log", tmp_path / "out", mode="DROPMALFORMED", file_size=20_000_000
        )
        assert result.gaps == (("TopicTest", 0, 1, 2_000_000),)
        assert memory() < 64 * MIB

    def test_a_rebuilt_index_is_named_by_numbers(self, tmp_path):
        """Store times of any size give names in the directory, and no path."""
        (tmp_path / "log").mkdir()
        for time in (-(2**63), 2**63 - 1, 0):
            log_file(tmp_path / "log", Message(store_timestamp=time).encode(0))
            with suppress(RmqIndexError):
                rebuild_index(tmp_path / "log", tmp_path / "index", Layout(7, 20), replace=True)
        assert all(path.name.isdecimal() for path in (tmp_path / "index").iterdir())
