"""``df.write``: what tasks stage and what the commit makes of it, without a Spark session.

A last class writes through Spark itself.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StructType

import pyspark_rmqindex
from killing import before_each_change
from pyspark_rmqindex.write import job as writer_module
from pyspark_rmqindex.write.job import IndexWriter, TaskResult
from recorded import MESSAGE_KINDS
from rmqindex import IndexFile, IndexFileWriter, IndexHeader, Layout, RmqIndexError, key_hash
from rmqindex.bulk import BuiltFile, RunSlice, StagedRows, relayout_index
from rmqindex.storage import from_json, to_json
from rmqindex.transaction import effective_listing, staging_root

SCHEMA = (
    StructType()
    .add("key_hash", IntegerType())
    .add("phy_offset", LongType())
    .add("store_timestamp", LongType())
)
SMALL = Layout(97, 50)
GEOMETRY = {"maxHashSlotNum": "97", "maxIndexNum": "50"}
START = 1_700_000_000_000
SECOND_STORE = MESSAGE_KINDS / "store"


def batches(offsets, size=10):
    """Yield rows with the given offsets, hash and time made of them, as Spark would."""
    offsets = np.asarray(offsets, np.int64)
    for place in range(0, len(offsets), size):
        part = offsets[place : place + size]
        yield pa.record_batch(
            [
                pa.array((part * 7 % 1000).astype(np.int32)),
                pa.array(part),
                pa.array(START + part),
            ],
            names=SCHEMA.names,
        )


def start(path, *, overwrite=False, **options):
    """Make the writer of one job."""
    return IndexWriter(SCHEMA, overwrite, {"path": str(path), **GEOMETRY, **options})


def write(path, *tasks, overwrite=False, **options):
    """Run a whole job with one task for each list of offsets."""
    writer = start(path, overwrite=overwrite, **options)
    try:
        messages = [writer.write(batches(offsets)) for offsets in tasks]
    except BaseException:
        writer.abort([])
        raise
    writer.commit(messages)


def offsets_of(directory, layout=SMALL):
    """Return the offsets in each file, oldest first, and check each whole file on the way."""
    found = []
    for _, path in sorted(effective_listing(directory).items()):
        with IndexFile(path, layout) as file:
            rows = [row for batch in file.scan() for row in batch.to_pylist()]
            for row in rows:
                assert row["key_hash"] == row["phy_offset"] * 7 % 1000
            hashes = [row["key_hash"] for row in rows]
            found.append([row["phy_offset"] for row in rows])
            answers = Counter(file.lookup(list(dict.fromkeys(hashes)))["phy_offset"].to_pylist())
            assert answers == Counter(found[-1])
    return found


def offsets_in(directory):
    """Return all offsets in order of the files."""
    return [offset for file in offsets_of(directory) for offset in file]


@pytest.fixture
def index(tmp_path):
    """Where an index is to be."""
    yield tmp_path / "store" / "index"
    beside = {path.name for path in (tmp_path / "store").glob(".*")}
    assert not beside, "every test leaves the directory clean"


def test_a_result_travels_as_json_as_well():
    """The tasks of ``write_index`` answer with rows, which hold a text."""
    built = BuiltFile("file", 1, 2, IndexHeader())
    staged = StagedRows((RunSlice("run", 3, 0, 2, data=b"ab"),), (built,))
    result = TaskResult(4, staged, "store")
    assert from_json(TaskResult, to_json(result)) == result


class TestAppend:
    """New rows come after what is there."""

    def test_tasks_are_merged_by_offset_whatever_they_hold(self, index):
        """Small tasks that overlap become files in offset order, filled to their capacity."""
        write(index, range(1, 200, 2), range(0, 200, 2), [])
        files = offsets_of(index)
        assert [len(file) for file in files] == [49, 49, 49, 49, 4]
        assert [offset for file in files for offset in file] == list(range(200))

    def test_rows_of_one_offset_keep_the_order_of_their_arrival(self, index):
        """Tasks come in the order of their partitions, rows as they came."""
        writer = start(index)
        hashes = [[5, 3], [4, 1]]
        messages = []
        for part in hashes:
            columns = [pa.array(part, pa.int32()), pa.array([8, 8]), pa.array([START, START])]
            messages.append(writer.write(iter([pa.record_batch(columns, names=SCHEMA.names)])))
        writer.commit(messages)
        (path,) = effective_listing(index).values()
        with IndexFile(path, SMALL) as file:
            assert [row["key_hash"] for batch in file.scan() for row in batch.to_pylist()] == [
                5,
                3,
                4,
                1,
            ]

    def test_the_last_file_is_continued_and_full_ones_are_inherited_from(self, index):
        """Two writes give the bytes of one writer that goes on."""
        write(index, range(70))
        write(index, range(70, 130))
        expected = index.parent / "expected"
        expected.mkdir()
        offsets = np.arange(130)
        inherited = (0, 0)
        for number, first in enumerate(range(0, 130, 49)):
            part = offsets[first : first + 49]
            with IndexFileWriter(expected / str(number), SMALL, *inherited) as writer:
                writer.put_many(part * 7 % 1000, part, START + part)
            inherited = (int(part[-1]), START + int(part[-1]))
        assert [path.read_bytes() for path in sorted(index.iterdir())] == [
            path.read_bytes() for path in sorted(expected.iterdir())
        ]

    def test_names_are_the_first_entrys_time_in_the_brokers_zone(self, index):
        """A name is 17 digits of local time, after the last one there."""
        write(index, [0], timeZone="Asia/Shanghai")
        assert [path.name for path in index.iterdir()] == ["20231115061320000"]
        write(index, range(1, 60), timeZone="UTC")
        names = sorted(path.name for path in index.iterdir())
        assert names == ["20231115061320000", "20231115061320001"]

    def test_the_geometry_is_that_of_the_files_there(self, index):
        """Without options, files go on as they are."""
        write(index, range(60))
        writer = IndexWriter(SCHEMA, False, {"path": str(index)})
        writer.commit([writer.write(batches(range(60, 100)))])
        assert offsets_in(index) == list(range(100))

    def test_the_default_geometry_is_rocketmqs(self, index):
        """The first file of an index is sparse and has the broker's default size."""
        writer = IndexWriter(SCHEMA, False, {"path": str(index)})
        writer.commit([writer.write(batches([1, 2]))])
        (path,) = index.iterdir()
        assert path.stat().st_size == 420_000_040
        assert path.stat().st_blocks * 512 < 1 << 20

    def test_another_geometry_is_refused(self, index):
        """An index has one geometry."""
        write(index, range(60))
        with pytest.raises(RmqIndexError, match="expected maxHashSlotNum 102 and maxIndexNum 49"):
            start(index, maxHashSlotNum="102", maxIndexNum="49")
        with pytest.raises(RmqIndexError, match="maxHashSlotNum 97 and maxIndexNum 60"):
            start(index, maxIndexNum="60")

    def test_an_empty_job_adds_no_file(self, index):
        """Nothing to write leaves an index that can be read, and that is empty."""
        write(index, [], [])
        assert offsets_of(index) == []
        write(index, [1])
        write(index, [])
        assert offsets_of(index) == [[1]]

    def test_a_store_root_stands_for_its_index(self, index):
        """A store is written to in its folder ``index``, made if it is missing."""
        (index.parent / "commitlog").mkdir(parents=True)
        write(index.parent, [1])
        write(index.parent, [2])
        write(f"file:{index.parent}", [3])
        assert offsets_in(index) == [1, 2, 3]


class TestLargeTasks:
    """Tasks with more rows than one run build their files themselves."""

    @pytest.fixture(autouse=True)
    def _small_runs(self, monkeypatch):
        monkeypatch.setattr(writer_module, "_RUN_ROWS", 20)

    def test_files_roll_over_inside_a_task(self, index):
        """A large task fills its files, whatever the order of its rows."""
        rows = np.random.default_rng(1).permutation(120)
        write(index, rows)
        files = offsets_of(index)
        assert [len(file) for file in files] == [49, 49, 22]
        assert [offset for file in files for offset in file] == list(range(120))

    def test_large_and_small_tasks_are_ordered_by_offset(self, index):
        """Files of large tasks and merged rows of small ones follow each other."""
        write(index, range(200, 260), [270, 190, 10], range(20, 80), [300, 5], [])
        files = offsets_of(index)
        assert [offset for file in files for offset in file] == [
            5,
            10,
            *range(20, 80),
            190,
            *range(200, 260),
            270,
            300,
        ]
        assert [len(file) for file in files] == [2, 49, 11, 1, 49, 11, 2]

    def test_large_tasks_that_overlap_are_refused_with_advice(self, index):
        """A broker's search would miss rows, so nothing is written."""
        with pytest.raises(RmqIndexError, match=r"repartitionByRange.*allowOverlap=true"):
            write(index, range(0, 100, 2), range(1, 100, 2))
        assert not index.exists()

    def test_small_tasks_inside_a_large_one_are_refused(self, index):
        """Rows that lie within a built file cannot be put in order any more."""
        with pytest.raises(RmqIndexError, match="from offset 0 to 58, those of others from 31"):
            write(index, range(0, 60, 2), [31])

    def test_overlap_can_be_allowed(self, index):
        """Spark reads overlapping files as well as any."""
        write(index, range(0, 100, 2), range(1, 100, 2), [31], allowOverlap="true")
        assert sorted(offsets_in(index)) == sorted([*range(100), 31])

    def test_an_offset_may_stand_at_the_end_of_one_file_and_the_start_of_the_next(self, index):
        """One message can span two files."""
        write(index, [*range(30), 30, 30], [30, *range(31, 60)])
        assert offsets_in(index) == [*range(30), 30, 30, 30, *range(31, 60)]

    def test_rows_at_the_end_of_the_index_are_decided_on_in_the_commit(self, index):
        """What several large tasks hold of the last message is skipped once for each entry."""
        write(index, [1, 2, 3, 3])
        write(index, [3, *range(4, 40)], [3, 3, *range(40, 80)], onIndexed="skip")
        assert offsets_in(index) == [1, 2, 3, 3, 3, *range(4, 80)]

    def test_no_run_is_left_when_files_are_built(self, index):
        """The staging directory holds the files only."""
        writer = start(index)
        message = writer.write(batches(range(100)))
        names = sorted(path.name for path in writer._job.staging.path.iterdir())
        assert names == sorted([*(file.name for file in message.staged.files), "owner.json"])
        writer.abort([message])


class TestIndexed:
    """Rows that are indexed already."""

    def test_rows_before_the_end_are_refused(self, index):
        """By default a row that is indexed fails the write, in the task already."""
        write(index, range(60))
        with pytest.raises(ValueError, match=r"phy_offset 10: expected rows after 59.*onIndexed"):
            write(index, [100, 10])
        assert offsets_in(index) == list(range(60))

    def test_entries_at_the_very_end_are_refused_when_they_are_there(self, index):
        """Appending the last message again is an error; another key of it is none."""
        write(index, range(60))
        with pytest.raises(ValueError, match="phy_offset 59: expected rows after 59"):
            write(index, [59, 60])
        writer = start(index)
        columns = [pa.array([1], pa.int32()), pa.array([59]), pa.array([START])]
        writer.commit([writer.write(iter([pa.record_batch(columns, names=SCHEMA.names)]))])
        last = max(index.iterdir())
        with IndexFile(last, SMALL) as file:
            assert file.entry_count == 12

    def test_replays_are_idempotent_when_they_skip(self, index):
        """A replay adds only what is missing, also when it died within a message."""
        write(index, [1, 2, 3, 3])
        write(index, [1, 2, 3, 3, 3, 4], onIndexed="skip")
        assert offsets_in(index) == [1, 2, 3, 3, 3, 4]
        write(index, [1, 2, 3], [3, 3, 4], onIndexed="skip")
        assert offsets_in(index) == [1, 2, 3, 3, 3, 4]

    def test_the_last_message_is_found_across_files(self, index):
        """Its entries may stand in two files."""
        write(index, [*range(47), 50, 50, 50, 50])
        write(index, [50, 50, 50, 50, 50, 51], onIndexed="skip")
        assert offsets_in(index) == [*range(47), 50, 50, 50, 50, 50, 51]

    def test_the_brokers_own_rule_doubles_the_last_message(self, index):
        """A re-dispatch skips smaller offsets only."""
        write(index, [1, 2, 3])
        write(index, [1, 2, 3, 4], brokerRedispatch="true")
        assert offsets_in(index) == [1, 2, 3, 3, 4]

    def test_overlap_accepts_earlier_rows_in_new_files(self, index):
        """For Spark alone, rows of another broker can lie beside these."""
        write(index, [10, 20])
        write(index, [5, 15], allowOverlap="true")
        assert offsets_of(index) == [[10, 20], [5, 15]]

    def test_a_write_that_came_first_is_noticed(self, index, monkeypatch):
        """Rows and files that were staged for another state of the index are not committed."""
        monkeypatch.setattr(writer_module, "_RUN_ROWS", 20)
        write(index, [1])
        small, large, late = start(index), start(index), start(index)
        messages = [small.write(batches([5])), large.write(batches(range(5, 30)))]
        late.commit([late.write(batches([8]))])
        with pytest.raises(ValueError, match="phy_offset 5: expected rows after 8"):
            small.commit(messages[:1])
        with pytest.raises(RmqIndexError, match="another write came first"):
            large.commit(messages[1:])
        assert offsets_in(index) == [1, 8]

    def test_a_relayout_that_came_first_is_noticed(self, index):
        """No option named a geometry; the one of the index was another when the write began."""
        write(index, [1])
        late = IndexWriter(SCHEMA, False, {"path": str(index)})
        messages = [late.write(batches([8]))]
        other = Layout(31, 70)
        relayout_index(index, other)
        sizes = f"expected {SMALL.file_size} bytes for .*, as when this write began, got "
        with pytest.raises(RmqIndexError, match=f"{sizes}{other.file_size}.* write again"):
            late.commit(messages)
        late.abort(messages)
        assert offsets_of(index, other) == [[1]]
        again = IndexWriter(SCHEMA, False, {"path": str(index)})
        again.commit([again.write(batches([8]))])
        assert offsets_of(index, other) == [[1, 8]]


class TestOverwrite:
    """Old files go when the new ones are complete."""

    def test_new_files_replace_old_ones_under_new_names(self, index):
        """A reader that planned before finds its files gone, not changed."""
        write(index, range(100))
        old = {path.name for path in index.iterdir()}
        write(index, range(100), overwrite=True)
        assert offsets_in(index) == list(range(100))
        assert not old & {path.name for path in index.iterdir()}

    def test_nothing_overwrites_as_well(self, index):
        """An empty DataFrame leaves an empty directory, and beside it the last name it had."""
        write(index, range(100))
        last = max(path.name for path in index.iterdir())
        write(index, [], overwrite=True)
        assert list(index.iterdir()) == []
        beside = staging_root(index)
        assert (beside / "last-name").read_text() == last
        shutil.rmtree(beside)

    def test_old_files_stay_until_the_commit_and_after_a_failure(self, index):
        """A write that fails hides nothing."""
        write(index, range(100))
        writer = start(index, overwrite=True)
        writer.write(batches([5]))
        assert offsets_in(index) == list(range(100))
        writer.abort([])
        assert offsets_in(index) == list(range(100))

    def test_a_damaged_index_can_be_overwritten(self, index):
        """Whatever became of the old files, the options say what the new ones are like."""
        index.mkdir(parents=True)
        (index / "20240101000000000").write_bytes(b"half a file")
        write(index, [1, 2], overwrite=True)
        assert offsets_in(index) == [1, 2]

    @pytest.mark.parametrize("folder", ["commitlog", "consumequeue/TopicTest/0"])
    def test_what_is_no_index_is_never_overwritten(self, tmp_path, store, folder):
        """A broker's other files have numeric names, too, and are worth more than an index."""
        shutil.copytree(store / folder, tmp_path / "copy")
        with pytest.raises(RmqIndexError, match="expected an IndexFile"):
            start(tmp_path / "copy", overwrite=True)

    def test_zeros_are_no_index(self, tmp_path):
        """A file that only looks like an index without entries is not replaced either."""
        (tmp_path / "00000000000000000000").write_bytes(b"\0" * 4096)
        with pytest.raises(RmqIndexError, match="expected an IndexFile to replace"):
            start(tmp_path, overwrite=True)

    def test_foreign_names_stay(self, index):
        """What the broker would skip is left alone."""
        write(index, [1])
        (index / "notes.txt").write_text("mine")
        write(index, [2], overwrite=True)
        (index / "notes.txt").unlink()
        assert offsets_in(index) == [2]


@contextlib.contextmanager
def full_disk(writes=0):
    """Let the disk be full when so many parts of IndexFiles were written."""
    pwrite, numbers = os.pwrite, itertools.count()

    def write_or_fail(*arguments):
        if next(numbers) >= writes:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(*arguments)

    with mock.patch.object(os, "pwrite", write_or_fail):
        yield


class TestFailures:
    """Failed, aborted and late tasks."""

    def test_a_task_that_fails_half_way_leaves_nothing(self, index, monkeypatch):
        """Its runs and files are removed, and the job can still be aborted or go on."""
        monkeypatch.setattr(writer_module, "_RUN_ROWS", 20)
        writer = start(index)

        def failing():
            yield from batches(range(90))
            raise OSError("the input broke")

        with pytest.raises(OSError, match="the input broke"):
            writer.write(failing())
        assert [path.name for path in writer._job.staging.path.iterdir()] == ["owner.json"]
        writer.commit([writer.write(batches(range(90)))])
        assert offsets_in(index) == list(range(90))

    def test_a_build_that_fails_leaves_nothing(self, index, monkeypatch):
        """A disk that is full while files are built leaves no half file."""
        monkeypatch.setattr(writer_module, "_RUN_ROWS", 20)
        writer = start(index)
        with full_disk(writes=1), pytest.raises(OSError, match="No space left"):
            writer.write(batches(range(90)))
        assert [path.name for path in writer._job.staging.path.iterdir()] == ["owner.json"]
        writer.abort([])

    def test_a_commit_that_fails_leaves_the_old_state(self, index):
        """An error while files are assembled changes nothing and cleans up."""
        write(index, range(60))
        before = [path.read_bytes() for path in sorted(index.iterdir())]
        with full_disk(), pytest.raises(OSError, match="No space left"):
            write(index, range(60, 120))
        assert [path.read_bytes() for path in sorted(index.iterdir())] == before

    def test_a_slow_duplicate_finds_its_job_ended(self, index):
        """A loser of speculation that writes after the commit leaves no trace."""
        writer = start(index)

        def slow():
            yield from batches(range(5))
            writer.commit([writer.write(batches(range(5)))])
            yield from batches(range(5, 9))

        with pytest.raises(RmqIndexError, match="the write was ended"):
            writer.write(slow())
        assert offsets_in(index) == list(range(5))

    def test_a_duplicate_that_finished_is_ignored(self, index):
        """Only what the messages name is committed."""
        writer = start(index)
        writer.write(batches(range(5)))
        writer.commit([writer.write(batches(range(5)))])
        assert offsets_in(index) == list(range(5))

    def test_a_write_after_abort_is_refused(self, index):
        """Siblings of a failed task go on for seconds after the abort."""
        writer = start(index)
        writer.abort([None])
        with pytest.raises(RmqIndexError, match="the write was ended"):
            writer.write(batches(range(5)))
        with pytest.raises(RmqIndexError, match="it was ended"):
            writer.commit([])

    def test_the_job_directory_belongs_to_the_jvm(self, index):
        """The staging names the process whose death ends the job: without a JVM, this one."""
        writer = start(index)
        text = (writer._job.staging.path / "owner.json").read_text()
        assert f'"pid": {os.getpid()}' in text
        writer.abort([])


class TestLiveStores:
    """Stores that a broker holds."""

    HOLDER = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'r+b');"
        "fcntl.lockf(f, fcntl.LOCK_EX, 1, 0); print('held', flush=True); time.sleep(60)"
    )

    @pytest.fixture
    def broker(self, index):
        """A process that holds the store's lock as a broker does."""
        index.parent.mkdir()
        lock = index.parent / "lock"
        lock.write_bytes(b"lock")
        with subprocess.Popen(
            [sys.executable, "-c", self.HOLDER, lock], stdout=subprocess.PIPE
        ) as process:
            process.stdout.readline()
            yield process
            process.kill()

    def test_a_store_that_a_broker_holds_is_refused(self, index, broker):
        """The write fails before anything is made."""
        assert broker.poll() is None
        with pytest.raises(RmqIndexError, match="a broker runs on this store"):
            start(index)
        assert not index.exists()

    def test_a_store_that_was_not_stopped_cleanly_is_written(self, index):
        """The file ``abort`` is there, and nobody holds the lock."""
        index.parent.mkdir()
        (index.parent / "abort").write_bytes(b"")
        write(index, [2, 3])
        assert offsets_of(index) == [[2, 3]]

    def test_a_live_store_can_be_written_without_touching_the_brokers_file(self, index, broker):
        """The file into which the broker writes is left as it is."""
        index.mkdir()
        with pytest.raises(RmqIndexError, match="a broker runs on this store"):
            IndexFileWriter(index / "20200101000000000", SMALL)
        brokers = IndexFileWriter(index / "20200101000000000", SMALL, allow_live_store=True)
        with brokers as writer:
            writer.put_many([7], [1], [START])
        before = (index / "20200101000000000").stat().st_ino
        assert broker.poll() is None
        write(index, [2, 3], allowLiveStore="true")
        assert offsets_of(index) == [[1], [2, 3]]
        assert (index / "20200101000000000").stat().st_ino == before

    def test_no_broker_starts_in_the_middle_of_a_commit(self, index):
        """The store's own lock is held while the files change."""
        index.parent.mkdir()
        (index.parent / "lock").write_bytes(b"lock")
        probe = (
            "import fcntl, sys; f = open(sys.argv[1], 'r+b');"
            "fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)"
        )
        outcomes = []

        def try_to_start(call, path):
            if call == "pwrite" or path.name == "journal.json":
                command = [sys.executable, "-c", probe, index.parent / "lock"]
                outcomes.append(subprocess.run(command, stderr=subprocess.DEVNULL, check=False))

        with before_each_change(try_to_start):
            write(index, [1])
        assert {outcome.returncode for outcome in outcomes} == {1}
        with (index.parent / "lock").open("r+b") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)


class TestOptions:
    """Options and paths that are refused before a row is read."""

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"onIndexd": "skip"}, "did you mean 'onIndexed'"),
            ({"onIndexed": "ignore"}, "one of error, skip"),
            ({"timeZone": "Mars/Olympus"}, "option 'timeZone': expected a time zone"),
            ({"allowOverlap": "maybe"}, "option 'allowOverlap': expected true or false"),
            ({"mode": "FAILFAST"}, "only for reading"),
            ({"path": "hdfs://host/index"}, "expected a local directory or one on S3 to write to"),
            ({"maxIndexNum": "0"}, "an integer from 1"),
        ],
    )
    def test_bad_options_are_refused(self, index, options, message):
        """The error names the option and what is allowed."""
        with pytest.raises(ValueError, match=message):
            start(**{"path": index, **options})

    def test_a_path_is_needed(self):
        """INSERT INTO a table without a path has none."""
        with pytest.raises(ValueError, match="option 'path'"):
            IndexWriter(SCHEMA, False, {})

    def test_a_file_is_no_place_to_write_to(self, tmp_path):
        """An index is a directory."""
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(RmqIndexError, match="expected an index directory"):
            start(tmp_path / "file")

    @pytest.mark.parametrize("size", [0, 39, 40, 4096])
    def test_what_is_no_index_is_not_appended_to(self, tmp_path, size):
        """A numeric name that is no IndexFile stops the write."""
        (tmp_path / "20240101000000000").write_bytes(bytes(size))
        with pytest.raises(RmqIndexError, match="20240101000000000: "):
            start(tmp_path)
        with pytest.raises(RmqIndexError, match="20240101000000000: "):
            IndexWriter(SCHEMA, False, {"path": str(tmp_path)})

    def test_room_for_no_entry_is_no_geometry(self, index):
        """Place 0 is never used, so one place holds nothing."""
        with pytest.raises(ValueError, match="option 'maxIndexNum': expected at least 2"):
            write(index, [1], maxIndexNum="1")


class TestThroughSpark:
    """The same through Spark: registration, batches, commit and abort in other processes."""

    COLUMNS = "topic STRING, key STRING, phy_offset BIGINT, store_timestamp BIGINT"

    def rows(self, spark, first, last, partitions=3):
        """Return some rows."""
        data = [("T", f"k{n}", n * 10, START + n) for n in range(first, last)]
        return spark.createDataFrame(data, self.COLUMNS).repartition(partitions)

    def test_what_is_written_is_read_back(self, spark, index):
        """Append, append again, and read: every row once, its time exact to the second."""
        options = {"maxHashSlotNum": 97, "maxIndexNum": 50}
        for first in (0, 100):
            df = self.rows(spark, first, first + 100)
            df.write.format("rmqindex").options(**options).mode("append").save(str(index))
        read = spark.read.format("rmqindex").load(str(index))
        found = sorted((row.phy_offset, row.key_hash) for row in read.collect())
        assert found == [(n * 10, key_hash(f"T#k{n}")) for n in range(200)]

    def test_what_is_read_can_be_written_back(self, spark, index, store, store_entries):
        """A copy of a store's index through Spark holds the same rows."""
        spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
        read = spark.read.format("rmqindex").load(str(store))
        read.write.format("rmqindex").options(maxHashSlotNum=97, maxIndexNum=200).mode(
            "overwrite"
        ).save(str(index))
        copy = spark.read.format("rmqindex").load(str(index))
        expected = Counter((entry.key_hash, entry.phy_offset) for entry in store_entries)
        assert Counter((row.key_hash, row.phy_offset) for row in copy.collect()) == expected

    def test_the_order_of_entries_survives_a_shuffle(self, spark, index):
        """Entries of one offset keep their order, so files begin and times read as they did."""
        read = spark.read.format("rmqindex").load(str(SECOND_STORE))
        read.repartition(4).write.format("rmqindex").options(
            maxHashSlotNum=53, maxIndexNum=120
        ).mode("append").save(str(index))
        copy = spark.read.format("rmqindex").load(str(index))
        columns = ["key_hash", "phy_offset", "store_timestamp"]
        assert Counter(copy.select(columns).collect()) == Counter(read.select(columns).collect())

    def test_a_failed_task_fails_the_job_and_nothing_is_left(self, spark, index):
        """The error shows the row; siblings that go on writing leave nothing."""
        df = self.rows(spark, 0, 100).selectExpr(
            "topic", "if(key = 'k77', NULL, key) AS key", "phy_offset", "store_timestamp"
        )
        with pytest.raises(Exception, match="key: expected a value, got NULL, in the row"):
            df.write.format("rmqindex").mode("append").save(str(index))
        deadline = time.monotonic() + 30
        while list(index.parent.glob(".*")) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not index.exists()

    @pytest.mark.system
    def test_a_refused_commit_says_why(self, spark, index):
        """The message of the commit reaches the user."""
        df = self.rows(spark, 0, 10)
        df.write.format("rmqindex").mode("append").save(str(index))
        with pytest.raises(Exception, match="onIndexed=skip"):
            df.write.format("rmqindex").mode("append").save(str(index))
        df.write.format("rmqindex").option("onIndexed", "skip").mode("append").save(str(index))
        assert spark.read.format("rmqindex").load(str(index)).count() == 10

    @pytest.mark.parametrize("is_stream", [False, True])
    def test_a_thread_of_its_own_writes_as_the_guide_says(self, spark, store, tmp_path, is_stream):
        """Spark looks data sources up in the session that is active in the thread."""
        page = Path(__file__).resolve().parents[3] / "docs" / "reference" / "errors.md"
        way_out = "pyspark_rmqindex.register(spark)"
        assert f"Call `{way_out}` in the thread first" in page.read_text(encoding="utf-8")
        written = str(tmp_path / "written")

        def write():
            eval(way_out, {"spark": spark, "pyspark_rmqindex": pyspark_rmqindex})
            if is_stream:
                rows = spark.readStream.format("rmqcommitlog").load(str(store))
                writer = rows.writeStream.format("rmqindex").trigger(availableNow=True)
                writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
                writer.start(written).awaitTermination()
            else:
                self.rows(spark, 0, 10).write.format("rmqindex").mode("append").save(written)

        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        assert spark.read.format("rmqindex").load(written).count() >= 10

    @pytest.mark.parametrize("mode", ["append", "overwrite"])
    def test_an_empty_dataframe_writes_an_empty_index(self, spark, index, mode):
        """It can be read, and has no rows until it is given some."""
        rows = self.rows(spark, 0, 10)
        rows.where("phy_offset < 0").write.format("rmqindex").mode(mode).save(str(index))
        assert spark.read.format("rmqindex").load(str(index)).count() == 0
        rows.write.format("rmqindex").mode("append").save(str(index))
        assert spark.read.format("rmqindex").load(str(index)).count() == 10
