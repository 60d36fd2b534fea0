"""One IndexFile written: arguments, resuming, flushing, and what a crash leaves."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqindex import (
    CorruptIndexError,
    IndexFile,
    IndexFileWriter,
    IndexHeader,
    Layout,
    RmqIndexError,
    key_hash,
)
from rmqindex.indexwriter.appender import LINK_BATCH
from twin import BrokerFile, java_hash

LAYOUT = Layout(hash_slot_num=7, index_num=20)
NAME = "20240102030405678"
LONGS = st.integers(-(2**63), 2**63 - 1)
HASHES = st.integers(0, 2**31 - 1)


@pytest.fixture
def path(tmp_path):
    """A path at which nothing is."""
    return tmp_path / NAME


def test_one_writer_is_used_by_several_threads(path):
    """A put during a flush of another thread waits for its end."""
    layout, threads, each = Layout(17, 5000), 4, 400

    def put(thread):
        for place in range(each):
            assert writer.put(f"T#{thread}-{place}", thread * each + place, 1_700_000_000_000)
            if place % 10 == 0:
                writer.flush()

    with IndexFileWriter(path, layout) as writer, ThreadPoolExecutor(threads) as pool:
        list(pool.map(put, range(threads)))
    with IndexFile(path, layout) as file:
        offsets = [row for b in file.scan(columns=["phy_offset"]) for row in b["phy_offset"]]
    assert sorted(offset.as_py() for offset in offsets) == list(range(threads * each))


def twin_of(entries, layout=LAYOUT, prev_end_phy_offset=0, prev_end_timestamp=0):
    """Return the broker's file of the same entries."""
    twin = BrokerFile(
        layout.hash_slot_num, layout.index_num, prev_end_phy_offset, prev_end_timestamp
    )
    for entry in entries:
        twin.put(*entry)
    twin.flush()
    return twin


def put_all(writer, entries):
    """Put entries with one call."""
    return writer.put_many(*zip(*entries, strict=True)) if entries else 0


class TestPutting:
    """What the entries become."""

    def test_a_put_is_what_the_broker_puts(self, path):
        """The key is the whole index key."""
        with IndexFileWriter(path, LAYOUT) as writer:
            assert writer.put("T#a", 11, 1_700_000_000_000) is True
        assert path.read_bytes() == twin_of([(java_hash("T#a"), 11, 1_700_000_000_000)]).data

    @given(
        st.lists(st.tuples(HASHES | st.integers(0, 9), LONGS, LONGS), max_size=25),
        LONGS | st.just(0),
        LONGS | st.just(0),
    )
    def test_any_numbers_give_the_brokers_bytes(self, tmp_path_factory, entries, offset, timestamp):
        """Offsets and times of 64 bits wrap, clip and clamp as in Java."""
        path = tmp_path_factory.mktemp("any") / NAME
        with IndexFileWriter(path, LAYOUT, offset, timestamp) as writer:
            assert put_all(writer, entries) == min(len(entries), LAYOUT.capacity)
        twin = twin_of(entries, LAYOUT, offset, timestamp)
        assert path.read_bytes() == twin.data
        assert writer.header == IndexHeader.from_bytes(twin.data)

    @pytest.mark.parametrize("slots", [1, 97, 40_000])
    def test_many_batches_give_the_brokers_bytes(self, path, slots):
        """Chains go on from batch to batch, whether slots are crowded or not."""
        count = 2 * LINK_BATCH + 100
        layout = Layout(slots, count + 50)
        random = np.random.default_rng(7)
        hashes = random.integers(0, 2**31, count, dtype=np.int32)
        offsets = np.arange(count) * 211
        timestamps = 1_700_000_000_000 + random.integers(-5_000, 5_000_000, count)
        with IndexFileWriter(path, layout) as writer:
            assert writer.put_many(hashes, offsets, timestamps) == count
        entries = zip(hashes.tolist(), offsets.tolist(), timestamps.tolist(), strict=True)
        assert path.read_bytes() == twin_of(entries, layout).data

    def test_single_puts_and_bulk_puts_mix(self, path):
        """Single puts that are still in memory are written before what follows them."""
        entries = [(place % 5, place, 10_000 + 900 * place) for place in range(15)]
        keys = {java_hash(key): key for key in ("", "\x01", "\x02", "\x03", "\x04")}
        with IndexFileWriter(path, LAYOUT) as writer:
            for start in range(0, 15, 3):
                hashed, offset, timestamp = entries[start]
                writer.put(keys[hashed], offset, timestamp)
                put_all(writer, entries[start + 1 : start + 3])
        assert path.read_bytes() == twin_of(entries).data

    def test_more_single_puts_than_a_batch_are_written(self, path):
        """Memory stays bounded however many single puts come before a flush."""
        count = LINK_BATCH + 5
        with IndexFileWriter(path, Layout(100, count + 5)) as writer:
            for place in range(count):
                writer.put("k", place, 1000)
            assert len(writer._appender._pending) < 100 * LINK_BATCH
        assert IndexFile(path).entry_count == count

    def test_what_does_not_fit_is_told(self, path):
        """A file of index_num places holds one entry less, and then takes nothing more."""
        with IndexFileWriter(path, Layout(3, 4)) as writer:
            assert writer.put_many([1, 2], [10, 20], [1000, 1000]) == 2
            assert not writer.is_write_full
            assert writer.put_many([3, 4, 5], [30, 40, 50], [1000] * 3) == 1
            assert writer.is_write_full
            header = writer.header
            assert writer.put("k", 60, 1000) is False
            assert writer.put_many([6], [70], [1000]) == 0
            assert writer.header == header

    def test_a_file_without_places_is_always_full(self, path):
        """An index_num of 1 holds nothing."""
        with IndexFileWriter(path, Layout(3, 1)) as writer:
            assert writer.is_write_full
            assert writer.put("k", 1, 1000) is False
        assert IndexHeader.from_bytes(path.read_bytes()).index_count == 1


class TestArguments:
    """What may be put, and what is refused before anything is put."""

    @pytest.mark.parametrize(
        "columns",
        [
            ([5, 6], [1, 2], [1000, 2000]),
            ((5, 6), (1, 2), (1000, 2000)),
            (np.array([5, 6], ">i4"), np.array([1, 2], ">i8"), np.array([1000, 2000], ">u4")),
            (np.array([5, 6], np.uint8), np.array([1, 2], np.uint64), np.array([1000, 2000])),
            (np.array([5, 0, 6])[::2], np.array([1, 2], np.int16), np.array([1000, 2000])),
            (pa.array([5, 6], pa.int32()), pa.array([1, 2]), pa.array([1000, 2000])),
            (pa.array([0, 5, 6], pa.int64())[1:], pa.array([1, 2], pa.uint8()), [1000, 2000]),
            (pa.chunked_array([[5], [6]]), pa.chunked_array([[1, 2]]), [1000, 2000]),
        ],
        ids=["list", "tuple", "big_endian", "unsigned", "strided", "arrow", "sliced", "chunked"],
    )
    def test_integers_of_any_kind_are_taken(self, path, columns):
        """Lists, NumPy and Arrow arrays of any integer type and byte order mean the same."""
        with IndexFileWriter(path, LAYOUT) as writer:
            assert writer.put_many(*columns) == 2
        assert path.read_bytes() == twin_of([(5, 1, 1000), (6, 2, 2000)]).data

    @pytest.mark.parametrize(
        "empty", [[], np.array([], np.int64), pa.array([], pa.int64()), pa.array([])]
    )
    def test_no_entries_are_no_entries(self, path, empty):
        """Empty columns put nothing."""
        with IndexFileWriter(path, LAYOUT) as writer:
            assert writer.put_many(empty, empty, empty) == 0

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            (([5, -1], [1, 2], [3, 4]), "key_hashes: expected 0 to 2147483647 at 1, got -1"),
            (([2**31], [1], [3]), "key_hashes: expected 0 to 2147483647 at 0, got 2147483648"),
            (
                ([5], [2**63], [3]),
                "phy_offsets: expected a 64-bit int at 0, got 9223372036854775808",
            ),
            (
                ([5, 5], np.array([0, 2**63], np.uint64), [3, 3]),
                r"phy_offsets: expected -\d+ to 9223372036854775807 at 1, got 9223372036854775808",
            ),
            (([5], [1], [-(2**63) - 1]), "store_timestamps: expected a 64-bit int at 0"),
            (([5, 6], [1], [3, 4]), "phy_offsets: expected 2, as many as key_hashes, got 1"),
            (([5], [1], [3, 4]), "store_timestamps: expected 1, as many as key_hashes, got 2"),
            (([5, None], [1, 2], [3, 4]), "key_hashes: expected an int at 1, got None"),
            ((pa.array([5, None]), [1, 2], [3, 4]), "key_hashes: expected an int at 1, got null"),
            ((np.array([[5]]), [1], [3]), "key_hashes: expected one dimension, got 2"),
        ],
    )
    def test_values_out_of_range_are_refused_with_their_place(self, path, columns, message):
        """Nothing of the call is put."""
        with IndexFileWriter(path, LAYOUT) as writer:
            with pytest.raises(ValueError, match=message):
                writer.put_many(*columns)
            assert writer.header == IndexHeader(index_count=1)

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            (([5.0], [1], [3]), r"key_hashes: expected an int at 0, got 5\.0"),
            ((["5"], [1], [3]), "key_hashes: expected an int at 0, got '5'"),
            (([True], [1], [3]), "key_hashes: expected an int at 0, got True"),
            ((np.array([5.0]), [1], [3]), "key_hashes: expected integers, got float64"),
            (([5], np.array([True]), [3]), "phy_offsets: expected integers, got bool"),
            (([5], [1], pa.array([3.0])), "store_timestamps: expected integers, got double"),
            (
                ([5], [1], np.array([3], "M8[ms]")),
                "store_timestamps: expected integers, got datetime",
            ),
        ],
    )
    def test_what_is_no_integer_is_refused(self, path, columns, message):
        """Floats, texts, booleans and times are not guessed at."""
        with IndexFileWriter(path, LAYOUT) as writer, pytest.raises(TypeError, match=message):
            writer.put_many(*columns)

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ((b"T#a", 1, 2), TypeError, "key: expected a text, got b'T#a'"),
            (("T#a", 1.0, 2), TypeError, r"phy_offset: expected an int, got 1\.0"),
            (("T#a", 1, True), TypeError, "store_timestamp: expected an int, got True"),
            (("T#a", 2**63, 2), ValueError, "phy_offset: expected a 64-bit int"),
            (("T#a", 1, -(2**63) - 1), ValueError, "store_timestamp: expected a 64-bit int"),
        ],
    )
    def test_a_put_refuses_what_the_file_cannot_hold(self, path, arguments, error, message):
        """The argument is named."""
        with IndexFileWriter(path, LAYOUT) as writer, pytest.raises(error, match=message):
            writer.put(*arguments)

    def test_a_key_may_hold_a_lone_surrogate(self, path):
        """Java's strings may, so the broker hashes such keys."""
        with IndexFileWriter(path, LAYOUT) as writer:
            writer.put("T#\ud800", 1, 1000)
        assert path.read_bytes() == twin_of([(java_hash("T#\ud800"), 1, 1000)]).data


class TestClosing:
    """What a closed writer still does."""

    def test_nothing_can_be_put_after_closing(self, path):
        """Every way to write is refused, closing again is not."""
        writer = IndexFileWriter(path, LAYOUT)
        writer.put("k", 1, 1000)
        writer.close()
        writer.close()
        for call in (
            lambda: writer.put("k", 1, 1000),
            lambda: writer.put_many([1], [1], [1000]),
            writer.flush,
        ):
            with pytest.raises(ValueError, match=f"{path}: the writer is closed"):
                call()
        assert (writer.path, writer.layout) == (path, LAYOUT)
        assert writer.header.entry_count == 1

    def test_an_exception_leaves_what_the_last_flush_left(self, path):
        """Entries put after it are not visible."""

        def write():
            with IndexFileWriter(path, LAYOUT) as writer:
                writer.put("T#a", 1, 1000)
                writer.flush()
                flushed = path.read_bytes()
                writer.put_many([key_hash("T#a")] * 3, [2, 3, 4], [1000] * 3)
                raise KeyError(flushed)

        with pytest.raises(KeyError) as caught:
            write()
        flushed = caught.value.args[0]
        end_of_counted = LAYOUT.entry_offset(2)
        assert path.read_bytes()[:end_of_counted] == flushed[:end_of_counted]
        with IndexFile(path, LAYOUT) as file:
            assert file.lookup([key_hash("T#a")])["phy_offset"].to_pylist() == [1]


class TestExistingFiles:
    """Resuming a file."""

    def test_a_file_goes_on_where_it_ended(self, path):
        """Written in two parts it is the same file, with the geometry given or inferred."""
        entries = [(place % 9, place, 1_000_000 + place * 700) for place in range(12)]
        with IndexFileWriter(path, LAYOUT, 5, 6) as writer:
            put_all(writer, entries[:7])
        with IndexFileWriter(path, None) as writer:
            assert writer.layout == LAYOUT
            put_all(writer, entries[7:])
        assert path.read_bytes() == twin_of(entries, LAYOUT, 5, 6).data

    def test_a_new_file_needs_a_layout(self, path):
        """Nothing is made without one."""
        with pytest.raises(ValueError, match=f"{path}: a new file needs a layout"):
            IndexFileWriter(path, None)
        assert not path.exists()

    def test_a_file_without_entries_tells_no_geometry(self, path):
        """Resuming it needs the layout."""
        IndexFileWriter(path, LAYOUT).close()
        with pytest.raises(RmqIndexError, match="maxHashSlotNum"):
            IndexFileWriter(path, None)
        with IndexFileWriter(path, LAYOUT) as writer:
            assert writer.header == IndexHeader(index_count=1)

    @pytest.mark.parametrize("inherited", [(1, 0), (0, 1), (-1, 0)])
    def test_a_file_that_is_there_inherits_nothing(self, path, inherited):
        """Giving prev_* for it is an error, and the file stays."""
        IndexFileWriter(path, LAYOUT).close()
        before = path.read_bytes()
        with pytest.raises(ValueError, match="give no prev_end_phy_offset"):
            IndexFileWriter(path, LAYOUT, *inherited)
        assert path.read_bytes() == before

    def test_an_empty_file_is_a_new_one(self, path):
        """A kill between making the file and giving it its size leaves one."""
        path.touch()
        with IndexFileWriter(path, LAYOUT, 7, 8) as writer:
            assert writer.header.begin_phy_offset == 7
        assert path.stat().st_size == LAYOUT.file_size

    @pytest.mark.parametrize("change", [-1, 1, -400])
    def test_a_file_of_another_size_is_refused(self, path, change):
        """The geometry given is not the file's."""
        IndexFileWriter(path, LAYOUT).close()
        size = LAYOUT.file_size + change
        os.truncate(path, size)
        expected = (
            f"{path}: file_size at byte {size}: expected {LAYOUT.file_size} bytes, got {size}"
        )
        with pytest.raises(CorruptIndexError, match=expected):
            IndexFileWriter(path, LAYOUT)

    def test_a_count_beyond_the_layout_is_refused(self, path):
        """The header lies, or the geometry is another of the same size."""
        IndexFileWriter(path, LAYOUT).close()
        data = bytearray(path.read_bytes())
        data[:40] = IndexHeader(index_count=21).to_bytes()
        path.write_bytes(data)
        with pytest.raises(
            CorruptIndexError, match="index_count at byte 36: expected at most 20, got 21"
        ):
            IndexFileWriter(path, LAYOUT)

    def test_a_count_of_the_last_place_is_a_full_file(self, path):
        """The broker's full files are resumed, and take nothing."""
        with IndexFileWriter(path, LAYOUT) as writer:
            put_all(writer, [(1, 1, 1000)] * 19)
        with IndexFileWriter(path, LAYOUT) as writer:
            assert writer.is_write_full

    def test_a_file_uri_is_a_local_path_and_another_is_refused(self, path):
        """As everywhere in the package."""
        IndexFileWriter(path.as_uri(), LAYOUT).close()
        assert path.stat().st_size == LAYOUT.file_size
        with pytest.raises(ValueError, match="s3://bucket/1: only a local file can be written"):
            IndexFileWriter("s3://bucket/1", LAYOUT)

    def test_a_directory_that_is_missing_is_pythons_own_error(self, tmp_path):
        """Folders are not made."""
        with pytest.raises(FileNotFoundError):
            IndexFileWriter(tmp_path / "missing" / NAME, LAYOUT)


class TestCrashes:
    """What is left when the process or the disk fails."""

    ENTRIES = ((3, 1, 1000), (10, 2, 1000), (3, 3, 1000), (4, 4, 1000))

    @pytest.mark.parametrize("writes", range(4))
    def test_a_flush_that_dies_between_two_writes_hides_nothing_that_was_counted(
        self, path, monkeypatch, writes
    ):
        """Entries, slots and header are written one after the other, and any may be the last."""
        with IndexFileWriter(path, LAYOUT) as writer:
            put_all(writer, self.ENTRIES)
        writer = IndexFileWriter(path, LAYOUT)
        writer.put("\x03", 5, 1000)
        writer.put("\x05", 6, 1000)
        self._fail_write(monkeypatch, writes)
        if writes < 3:
            with pytest.raises(OSError, match="No space left"):
                writer.flush()
            counted = 4
        else:
            writer.close()
            counted = 6
        monkeypatch.undo()
        assert IndexHeader.from_bytes(path.read_bytes()).entry_count == counted
        more = [(5, 7, 2000), (3, 8, 3000)]
        with IndexFileWriter(path, LAYOUT) as resumed:
            assert resumed.header.entry_count == counted
            put_all(resumed, more)
        put = [*self.ENTRIES, (3, 5, 1000), (5, 6, 1000)][:counted] + more
        end = LAYOUT.entry_offset(counted + 3)
        assert path.read_bytes()[:end] == twin_of(put).data[:end]

    @staticmethod
    def _fail_write(monkeypatch, writes):
        """Let so many writes through, and then the disk is full."""
        left = iter(range(writes))
        real = os.pwrite

        def pwrite(*arguments):
            if next(left, None) is None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments)

        monkeypatch.setattr(os, "pwrite", pwrite)

    def test_after_a_failed_write_the_writer_is_closed(self, path, monkeypatch):
        """What is in memory may then be more than what is in the file."""
        writer = IndexFileWriter(path, LAYOUT)
        self._fail_write(monkeypatch, 0)
        with pytest.raises(OSError, match="No space left"):
            put_all(writer, self.ENTRIES)
        monkeypatch.undo()
        with pytest.raises(ValueError, match="the writer is closed"):
            writer.flush()
        writer.close()
        assert IndexHeader.from_bytes(path.read_bytes()) == IndexHeader()

    def test_slots_beyond_the_count_are_repaired_from_the_entries(self, path):
        """Whatever an unfinished flush left: the counted entries say where the chains begin."""
        with IndexFileWriter(path, LAYOUT) as writer:
            put_all(writer, self.ENTRIES)
        sound = path.read_bytes()
        broken = bytearray(sound)
        slots = slice(LAYOUT.slot_offset(0), LAYOUT.slot_offset(7))
        broken[slots] = np.array([5, 19, -3, 2**31 - 1, 20, 0, 7], ">i4").tobytes()
        path.write_bytes(broken)
        IndexFileWriter(path, LAYOUT).close()
        assert path.read_bytes() == sound

    def test_an_entry_with_a_negative_hash_is_the_newest_of_no_slot(self, path):
        """A broken slot names the newest entry that can be of it."""
        layout = Layout(1, 9)
        with IndexFileWriter(path, layout) as writer:
            put_all(writer, [(97, 1, 1000), (98, 2, 2000), (99, 3, 3000)])
        broken = bytearray(path.read_bytes())
        broken[layout.entry_offset(3)] |= 0x80
        broken[layout.slot_offset(0)] = 0x7F
        path.write_bytes(broken)
        IndexFileWriter(path, layout).close()
        assert np.frombuffer(path.read_bytes(), ">i4", 1, layout.slot_offset(0)) == 2

    def test_reading_the_slots_of_a_resumed_file_writes_none(self, path):
        """Without anything to repair or put, resuming changes nothing, holes included."""
        layout = Layout(100_000, 1000)
        with IndexFileWriter(path, layout) as writer:
            put_all(writer, self.ENTRIES)
        before, blocks = path.read_bytes(), path.stat().st_blocks
        IndexFileWriter(path, layout).close()
        assert path.read_bytes() == before
        assert path.stat().st_blocks == blocks

    SCRIPT = """
import os, signal, sys
from rmqindex import IndexFileWriter, Layout
writer = IndexFileWriter(sys.argv[1], Layout(7, 2000))
for place in range(1000):
    writer.put_many([place % 9], [place], [1000 + place])
    if place == 499:
        writer.flush()
        print("flushed", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""

    def test_a_killed_process_leaves_what_the_last_flush_left(self, path):
        """Entries put after it are in the file and not counted; going on overwrites them."""
        killed = subprocess.run(
            [sys.executable, "-c", self.SCRIPT, str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "flushed\n"), killed.stderr
        layout = Layout(7, 2000)
        entries = [(place % 9, place, 1000 + place) for place in range(500)]
        twin = twin_of(entries, layout)
        end = layout.entry_offset(501)
        assert path.read_bytes()[:end] == twin.data[:end]
        with IndexFile(path, layout) as file:
            found = file.lookup([0])["phy_offset"].to_pylist()
        assert found == twin.select(0, 2000, 0, 2**63 - 1)
        again = [(place % 11, place, 1000 + place) for place in range(500, 1999)]
        with IndexFileWriter(path, layout) as writer:
            put_all(writer, again)
        assert path.read_bytes() == twin_of(entries + again, layout).data


class TestDisk:
    """How much is written."""

    def test_a_file_with_few_entries_stays_sparse(self, path):
        """A default file of 420 MB with one entry takes a few pages."""
        with IndexFileWriter(path, Layout()) as writer:
            writer.put("T#a", 1, 1000)
        assert path.stat().st_size == 420_000_040
        assert path.stat().st_blocks * 512 <= 16 * 4096

    def test_what_comes_later_reaches_the_disk_later(self, path, monkeypatch):
        """The disk is waited for between entries and slots, and between slots and header."""
        log = []
        real_write, real_sync = os.pwrite, os.fdatasync
        slots, entries = LAYOUT.slot_offset(0), LAYOUT.entry_offset(0)

        def pwrite(descriptor, data, offset):
            kind = "header" if offset < slots else "slots" if offset < entries else "entries"
            log.append(kind)
            return real_write(descriptor, data, offset)

        def fdatasync(descriptor):
            log.append("sync")
            return real_sync(descriptor)

        writer = IndexFileWriter(path, LAYOUT)
        monkeypatch.setattr(os, "pwrite", pwrite)
        monkeypatch.setattr(os, "fdatasync", fdatasync)
        writer.put("T#a", 1, 1000)
        writer.close()
        assert log[:5] == ["entries", "sync", "slots", "sync", "header"]

    def test_a_flush_writes_only_what_changed_since_the_last_one(self, path, monkeypatch):
        """Of 20 MB of slots, one page for one entry; and nothing when nothing changed."""
        with IndexFileWriter(path, Layout()) as writer:
            writer.put_many(range(0, 2**31, 2**16), [1] * 2**15, [1000] * 2**15)
            writer.flush()
            sizes = []
            real = os.pwrite

            def pwrite(descriptor, data, offset):
                sizes.append(len(data))
                return real(descriptor, data, offset)

            monkeypatch.setattr(os, "pwrite", pwrite)
            writer.put("T#a", 1, 1000)
            writer.flush()
            assert sizes == [20, 4096, 40]
            writer.flush()
            assert sizes == [20, 4096, 40]


def test_memory_stays_bounded(tmp_path):
    """A full default file of 20 million entries needs little more than its slots."""
    script = """
import resource, sys
import numpy as np
from rmqindex import IndexFileWriter, Layout
batch = 100_000
hashes = np.arange(batch, dtype=np.int32) * 20_011
def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
before = anonymous()
peak = 0
with IndexFileWriter(sys.argv[1], Layout()) as writer:
    for place in range(20):
        writer.put_many(hashes + place, np.arange(batch), np.arange(batch) + 1_700_000_000_000)
        peak = max(peak, anonymous())
    writer.flush()
    peak = max(peak, anonymous())
print(peak - before)
"""
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / NAME)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(run.stdout) < 60_000
    (tmp_path / NAME).unlink()
