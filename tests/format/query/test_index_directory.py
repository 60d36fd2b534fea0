"""An index directory run as the broker runs it: arguments, disk, names, crashes and guards."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from killing import script_environment
from other_broker import running_broker
from rmqindex import (
    IndexDirectory,
    IndexFile,
    IndexFileWriter,
    IndexHeader,
    Layout,
    MessageStore,
    QueryOffsetResult,
    RmqIndexError,
    StoreCheckpoint,
    key_hash,
    relayout_index,
    sample_store,
)
from rmqindex.store import timestamp_name
from rmqindex.transaction import LocalStaging, Owner
from trees import files_of
from twin import LONG_MAX, BrokerFile, java_hash

LAYOUT = Layout(hash_slot_num=4, index_num=6)
STORE_LAYOUT = Layout(hash_slot_num=97, index_num=200)
START = 1_700_000_000_000


def index_many(directory, count, first=0):
    """Index messages with one key each, 100 bytes and one second apart."""
    for place in range(first, first + count):
        directory.build_index("T", None, f"k{place}", 0, 100 * place, START + 1000 * place)


def offsets_of(directory, key, begin=0, end=LONG_MAX, max_num=64):
    """Return what a query finds."""
    return directory.query_offset("T", key, max_num, begin, end).phy_offsets


def names_in(path):
    """Return the names in a directory, sorted."""
    return sorted(entry.name for entry in path.iterdir())


@pytest.fixture
def path(tmp_path):
    """An empty index directory of a store."""
    directory = tmp_path / "index"
    directory.mkdir()
    return directory


@pytest.fixture
def filled(path):
    """An index directory with two full files and one of two entries."""
    with IndexDirectory(path, LAYOUT, writable=True) as directory:
        index_many(directory, 12)
    return path


class TestPaths:
    """What may be opened."""

    def test_a_store_root_stands_for_its_index(self):
        """Both paths give the same files."""
        with (
            IndexDirectory(sample_store()) as root,
            IndexDirectory(sample_store() / "index") as index,
        ):
            assert root.path == index.path == sample_store() / "index"
            assert [file.name for file in root.files] == [file.name for file in index.files]

    def test_a_missing_path_is_an_error_that_names_it(self, tmp_path):
        """Nothing is made to read it."""
        with pytest.raises(RmqIndexError, match=str(tmp_path / "missing")):
            IndexDirectory(tmp_path / "missing")
        assert names_in(tmp_path) == []

    @pytest.mark.parametrize("writable", [False, True])
    def test_a_file_is_no_directory(self, tmp_path, writable):
        """An IndexFile is opened with IndexFile."""
        path = tmp_path / "20240102030405678"
        IndexFileWriter(path, LAYOUT).close()
        with pytest.raises(RmqIndexError, match="expected an index directory or a store root"):
            IndexDirectory(path, LAYOUT, writable=writable)

    def test_a_new_directory_is_made_to_write_it(self, tmp_path):
        """Its parents too; a path that is not there is the index directory itself."""
        with IndexDirectory(tmp_path / "new" / "index", LAYOUT, writable=True) as directory:
            index_many(directory, 1)
        assert len(names_in(tmp_path / "new" / "index")) == 1

    @pytest.mark.parametrize("mark", ["commitlog", "checkpoint"])
    def test_a_store_root_without_an_index_gets_one_to_write(self, tmp_path, mark):
        """It is told by its CommitLog or its checkpoint."""
        if mark == "commitlog":
            (tmp_path / mark).mkdir()
        else:
            StoreCheckpoint().save(tmp_path / mark)
        with IndexDirectory(tmp_path, LAYOUT, writable=True) as directory:
            assert directory.path == tmp_path / "index"
        assert names_in(tmp_path) == sorted([mark, "index", "lock"])

    def test_a_file_uri_is_a_local_path(self, filled):
        """As everywhere in the package."""
        with IndexDirectory(filled.as_uri()) as directory:
            assert offsets_of(directory, "k7") == (700,)

    def test_a_remote_directory_can_be_read_and_not_written(self):
        """Any scheme that pyarrow.fs knows will do to read."""
        uri = "mock://index"
        with pytest.raises(ValueError, match="only a local index directory can be written"):
            IndexDirectory(uri, LAYOUT, writable=True)


class TestLayout:
    """Where the geometry comes from."""

    def test_it_is_inferred_from_the_fullest_file(self, filled):
        """The last file alone would not tell."""
        with IndexDirectory(filled) as directory:
            assert directory.layout == LAYOUT
            assert directory.total_size == 3 * LAYOUT.file_size

    def test_a_new_directory_has_the_brokers_default(self, path):
        """Files are sparse, so that costs nothing."""
        with IndexDirectory(path, writable=True) as directory:
            assert directory.layout == Layout()
            index_many(directory, 1)
            assert directory.total_size == 420_000_040

    def test_files_without_entries_need_none_to_be_read(self, path):
        """There is nothing to find in any geometry."""
        IndexFileWriter(path / "20240102030405678", LAYOUT).close()
        with IndexDirectory(path) as directory:
            assert directory.layout is None
            assert len(directory.files) == 1
            assert offsets_of(directory, "k") == ()
            assert directory.total_size == LAYOUT.file_size

    def test_files_without_entries_need_one_to_be_written(self, path):
        """The broker would map them in its own geometry, whatever theirs is."""
        IndexFileWriter(path / "20240102030405678", LAYOUT).close()
        with pytest.raises(RmqIndexError, match="maxHashSlotNum, maxIndexNum"):
            IndexDirectory(path, writable=True)
        assert (path / "20240102030405678").stat().st_size == LAYOUT.file_size

    def test_a_geometry_without_places_cannot_index(self, path):
        """The broker would make files for ever."""
        with (
            IndexDirectory(path, Layout(4, 1), writable=True) as directory,
            pytest.raises(ValueError, match="index_num: expected at least 2"),
        ):
            index_many(directory, 1)
        assert names_in(path) == []


class TestReading:
    """Read-only directories and queries."""

    def test_read_only_nothing_can_be_indexed(self, filled):
        """The message says what to pass."""
        with IndexDirectory(filled) as directory:
            with pytest.raises(ValueError, match="pass writable=True"):
                index_many(directory, 1)
            directory.flush()

    def test_a_query_gives_the_last_files_state_too(self, filled):
        """As the broker's result does."""
        with IndexDirectory(filled) as directory:
            assert directory.query_offset("T", "k3", 64, 0, LONG_MAX) == QueryOffsetResult(
                (300,), START + 11_000, 1100
            )

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("T", "k", -1, 0, 1), "max_num: expected at least 0, got -1"),
            (("T", "k", 1, -(2**63) - 1, 1), "begin: expected a 64-bit int"),
            (("T", "k", 1, 0, 2**63), "end: expected a 64-bit int"),
        ],
    )
    def test_a_query_refuses_numbers_that_the_broker_has_not(self, filled, arguments, message):
        """The argument is named."""
        with IndexDirectory(filled) as directory, pytest.raises(ValueError, match=message):
            directory.query_offset(*arguments)

    def test_no_more_than_the_batch_size_is_returned(self, path):
        """64 by default, whatever is asked for."""
        with IndexDirectory(path, Layout(4, 200), writable=True) as directory:
            for place in range(100):
                directory.build_index("T", "u", None, 0, place, START)
            assert len(offsets_of(directory, "u", max_num=1000)) == 64
        with IndexDirectory(path, max_msgs_num_batch=70) as directory:
            assert len(offsets_of(directory, "u", max_num=1000)) == 70
            assert len(offsets_of(directory, "u", max_num=3)) == 3
            assert offsets_of(directory, "u", max_num=0) == ()
        with pytest.raises(ValueError, match="max_msgs_num_batch"):
            IndexDirectory(path, max_msgs_num_batch=-1)

    def test_a_closed_directory_answers_nothing(self, filled):
        """Closing twice is harmless."""
        directory = IndexDirectory(filled)
        directory.close()
        directory.close()
        assert directory.files == ()
        for call in (
            lambda: offsets_of(directory, "k"),
            lambda: directory.delete_expired(0),
            directory.flush,
        ):
            with pytest.raises(ValueError, match="the index directory is closed"):
                call()

    def test_an_unfinished_write_of_ours_is_not_seen(self, filled):
        """Readers obey the journal: the old files are loaded, be they set aside or not."""
        names = names_in(filled)
        _die_while_committing(filled, names[-1])
        with IndexDirectory(filled) as directory:
            assert [file.name for file in directory.files] == names
            assert offsets_of(directory, "k11") == (1100,)
        with IndexDirectory(filled, writable=True) as directory:
            assert [file.name for file in directory.files] == names
            assert offsets_of(directory, "k11") == (1100,)
        assert names_in(filled) == names
        assert names_in(filled.parent) == ["index"]

    def test_a_file_that_may_not_be_read_ends_the_loading(self, filled, monkeypatch):
        """As an IOException does in the broker; to say so does not depend on who runs this."""
        names = names_in(filled)
        monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != names[1])
        with IndexDirectory(filled, LAYOUT) as directory:
            assert directory.load_result is False
            assert [file.name for file in directory.files] == names[:1]


def _die_while_committing(path, replaced):
    """Leave a directory as a killed commit does that replaces one file and adds another."""
    script = """
import os, sys
from pathlib import Path
from killing import before_each_change
from rmqindex.transaction import LocalStaging, Owner
directory, replaced = Path(sys.argv[1]), sys.argv[2]
staging = LocalStaging.create(directory, Owner.current())
(staging.path / "a").write_bytes(bytes(160))
(staging.path / "b").write_bytes(bytes(160))

def die(_, path):
    if path.name == "journal.json":
        os._exit(9)

with before_each_change(die), staging.exclusive():
    staging.commit([(staging.path / "a", replaced), (staging.path / "b", "3")], [replaced])
"""
    run = subprocess.run(
        [sys.executable, "-c", script, str(path), replaced],
        env=script_environment(),
        check=False,
    )
    assert run.returncode == 9
    assert "3" in names_in(path)


class TestIndexing:
    """Building the index on disk."""

    def test_what_was_indexed_is_found_before_any_flush(self, path):
        """Queries and files see every message at once."""
        with IndexDirectory(path, LAYOUT, writable=True) as directory:
            for place in range(12):
                index_many(directory, 1, first=place)
                assert offsets_of(directory, f"k{place}") == (100 * place,)
                assert sum(file.entry_count for file in directory.files) == place + 1
            assert offsets_of(directory, "k0") == (0,)

    def test_a_flush_makes_it_readable_for_others(self, path):
        """Another reader finds it while the writer goes on."""
        with IndexDirectory(path, LAYOUT, writable=True) as directory:
            index_many(directory, 2)
            directory.flush()
            with IndexDirectory(path, LAYOUT) as other:
                assert offsets_of(other, "k1") == (100,)

    def test_smaller_offsets_are_skipped_and_equal_ones_are_not(self, path):
        """So a repeated message stands twice."""
        with IndexDirectory(path, LAYOUT, writable=True) as directory:
            for offset in (100, 99, 100):
                directory.build_index("T", "u", None, 0, offset, START)
            assert offsets_of(directory, "u") == (100, 100)

    def test_the_next_file_is_made_before_the_message_is_looked_at(self, path):
        """Even a skipped or keyless message follows a full file with an empty one."""
        with IndexDirectory(path, LAYOUT, writable=True) as directory:
            index_many(directory, 5)
            assert len(directory.files) == 1
            directory.build_index("T", None, None, 0, 0, START)
            assert [file.entry_count for file in directory.files] == [5, 0]
            inherited = directory.files[-1].header
        assert inherited == IndexHeader(START + 4000, START + 4000, 400, 400, 0, 0)
        last = path / names_in(path)[-1]
        assert IndexHeader.from_bytes(last.read_bytes()).index_count == 1

    def test_one_message_may_span_two_files(self, path):
        """Its later keys go into the next file."""
        with IndexDirectory(path, LAYOUT, writable=True) as directory:
            directory.build_index("T", "u", "a b c d e f", 0, 7, START)
            assert [file.entry_count for file in directory.files] == [5, 2]
            assert offsets_of(directory, "a") == offsets_of(directory, "f") == (7,)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("T", "u", None, 0, 2**63, 0), "phy_offset: expected a 64-bit int"),
            (("T", "u", None, 0, 0, -(2**63) - 1), "store_timestamp: expected a 64-bit int"),
            (("T", "u", ["a b"], 0, 0, 0), "expected parts without a space"),
        ],
    )
    def test_what_cannot_be_indexed_is_refused_before_anything_is_done(
        self, path, arguments, message
    ):
        """No file is made for it."""
        with (
            IndexDirectory(path, LAYOUT, writable=True) as directory,
            pytest.raises(ValueError, match=message),
        ):
            directory.build_index(*arguments)
        assert names_in(path) == []

    def test_an_exception_leaves_what_the_last_flush_left(self, path):
        """As a writer does."""

        def index():
            with IndexDirectory(path, LAYOUT, writable=True) as directory:
                index_many(directory, 2)
                directory.flush()
                index_many(directory, 2, first=2)
                raise KeyError

        with pytest.raises(KeyError):
            index()
        with IndexDirectory(path, LAYOUT) as directory:
            assert offsets_of(directory, "k1") == (100,)
            assert offsets_of(directory, "k3") == ()

    def test_the_checkpoint_follows_full_files(self, path):
        """Its other fields stay; without a checkpoint none is made."""
        StoreCheckpoint(1, 2, 3, 4, 5).save(path.parent / "checkpoint")
        with IndexDirectory(path, LAYOUT, writable=True) as directory:
            assert directory.index_msg_timestamp == 3
            index_many(directory, 5)
            directory.flush()
            assert directory.index_msg_timestamp == 3
            index_many(directory, 1, first=5)
            assert directory.index_msg_timestamp == START + 4000
        checkpoint = StoreCheckpoint.load(path.parent / "checkpoint")
        assert checkpoint == StoreCheckpoint(1, 2, START + 4000, 4, 5)

    def test_a_full_file_without_a_time_says_nothing_to_the_checkpoint(self, path):
        """The broker sets only a positive time."""
        StoreCheckpoint(index_msg_timestamp=3).save(path.parent / "checkpoint")
        with IndexDirectory(path, LAYOUT, writable=True) as directory:
            for offset in range(6):
                directory.build_index("T", "u", None, 0, offset, 0)
            assert len(directory.files) == 2
            assert directory.index_msg_timestamp == 3
        assert StoreCheckpoint.load(path.parent / "checkpoint").index_msg_timestamp == 3

    def test_after_a_crash_the_stores_own_checkpoint_decides(self, filled):
        """Files that end after it are deleted, and indexing goes on from there."""
        StoreCheckpoint(index_msg_timestamp=START + 4000).save(filled.parent / "checkpoint")
        names = names_in(filled)
        with IndexDirectory(filled, last_exit_ok=False) as directory:
            assert [file.name for file in directory.files] == names[:1]
        assert names_in(filled) == names
        with IndexDirectory(filled, writable=True, last_exit_ok=False) as directory:
            assert names_in(filled) == names[:1]
            index_many(directory, 12)
            assert offsets_of(directory, "k4") == (400, 400)
            assert offsets_of(directory, "k11") == (1100,)

    def test_expiry_deletes_files_only_when_writable(self, filled):
        """The last file stays in any case."""
        names = names_in(filled)
        with IndexDirectory(filled) as directory:
            directory.delete_expired(10**9)
            assert [file.name for file in directory.files] == names[-1:]
        assert names_in(filled) == names
        with IndexDirectory(filled, writable=True) as directory:
            directory.delete_expired(401)
            assert names_in(filled) == names[1:]
            assert [file.name for file in directory.files] == names[1:]


class TestNames:
    """How new files are called."""

    def test_a_new_file_is_named_now_in_the_brokers_zone(self, path):
        """17 digits of local time."""
        before = timestamp_name(time.time_ns() // 1_000_000, UTC)
        with IndexDirectory(path, LAYOUT, writable=True, time_zone="UTC") as directory:
            index_many(directory, 11)
        after = timestamp_name(time.time_ns() // 1_000_000, UTC)
        names = names_in(path)
        assert len(set(names)) == 3
        assert before <= names[0] <= names[-1] <= after

    def test_a_new_file_must_come_after_the_last(self, path):
        """The broker would otherwise load it in the wrong order ever after."""
        with IndexFileWriter(path / "99990101000000000", LAYOUT) as writer:
            writer.put_many([1] * 5, [0] * 5, [START] * 5)
        with (
            IndexDirectory(path, LAYOUT, writable=True) as directory,
            pytest.raises(RmqIndexError, match="no name is left"),
        ):
            index_many(directory, 1)
        assert names_in(path) == ["99990101000000000"]

    def test_an_unknown_zone_is_refused(self, path):
        """Before anything is loaded."""
        with pytest.raises(ValueError, match="time zone"):
            IndexDirectory(path, time_zone="Nowhere/City")


class TestRefusals:
    """What is refused leaves nothing of it."""

    @pytest.mark.parametrize("keys", ["new", "new and more"])
    def test_a_message_whose_file_gets_no_name_leaves_none_of_its_keys(self, filled, keys):
        """Nor does it raise the checkpoint."""
        last = filled / names_in(filled)[-1]
        last.rename(filled / "20991231235959999")
        StoreCheckpoint(1, 2, 3).save(filled.parent / "checkpoint")
        with IndexDirectory(filled, LAYOUT, writable=True) as directory:
            index_many(directory, 2 if keys == "new and more" else 3, first=12)
        before = files_of(filled.parent)
        directory = IndexDirectory(filled, LAYOUT, writable=True)
        with pytest.raises(RmqIndexError, match="no name is left"):
            directory.build_index("T", None, keys, 0, 5000, START + 50_000)
        directory.close()
        assert files_of(filled.parent) == before

    def test_an_index_that_cannot_be_opened_is_as_it_was(self, filled):
        """No file before the one that is refused is extended, or deleted as after a crash."""
        first, *_, last = (filled / name for name in names_in(filled))
        with first.open("r+b") as file:
            file.truncate(100)
        last.unlink()
        os.mkfifo(last)
        before = {path.name: path.stat().st_size for path in filled.iterdir()}
        with pytest.raises(RmqIndexError, match=last.name):
            IndexDirectory(filled, LAYOUT, writable=True, last_exit_ok=False, index_msg_timestamp=0)
        assert {path.name: path.stat().st_size for path in filled.iterdir()} == before


class TestLiveStores:
    """Stores that a broker holds."""

    def test_they_are_read_and_not_written(self, filled):
        """Unless that is allowed."""
        with running_broker(filled.parent):
            with IndexDirectory(filled) as directory:
                assert len(directory.files) == 3
            with pytest.raises(RmqIndexError, match="a broker runs"):
                IndexDirectory(filled, writable=True)
            with IndexDirectory(filled, writable=True, allow_live_store=True) as directory:
                index_many(directory, 1, first=12)

    def test_what_a_crash_left_is_written(self, filled):
        """``abort`` without a lock is no broker's any more."""
        (filled.parent / "abort").touch()
        with IndexDirectory(filled, writable=True) as directory:
            index_many(directory, 1, first=12)

    def test_a_refused_store_is_not_touched(self, tmp_path):
        """Not even the index directory is made."""
        (tmp_path / "commitlog").mkdir()
        with running_broker(tmp_path):
            with pytest.raises(RmqIndexError, match="a broker runs"):
                IndexDirectory(tmp_path, LAYOUT, writable=True)
            assert names_in(tmp_path) == ["abort", "commitlog", "lock"]


def test_two_of_one_process_do_not_write_into_one_directory(path):
    """What one of them put would be lost; nor is a file replaced under a writer."""
    with IndexDirectory(path, LAYOUT, writable=True) as first:
        for again in (path, os.path.relpath(path)):  # also where there is no file yet
            with pytest.raises(RmqIndexError, match="expected no other writer"):
                IndexDirectory(again, LAYOUT, writable=True)
        first.build_index("T", None, "k1", 0, 7, START)
        for write in (
            lambda: IndexFileWriter(first.files[-1].path, None),
            lambda: relayout_index(path, Layout(11, 50)),
        ):
            with pytest.raises(RmqIndexError, match="must be alone in it"):
                write()
        first.build_index("T", None, "k3", 0, 9, START)
        with IndexDirectory(path) as reader:
            assert len(reader.files) == 1
        child = os.fork()  # which has the file open for longer
        if not child:
            time.sleep(600)
    try:
        second = IndexDirectory(path, LAYOUT, writable=True)
        second.build_index("T", None, "k2", 0, 10, START)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with second:
        assert [offsets_of(second, f"k{number}") for number in (1, 2, 3)] == [(7,), (10,), (9,)]
    abandoned = IndexDirectory(path, LAYOUT, writable=True)
    del abandoned
    IndexDirectory(path, LAYOUT, writable=True).close()


def test_a_file_that_a_writer_has_open_is_not_deleted(path):
    """Neither as expired, nor as one of a crash, nor by a relayout, though newer ones follow."""
    with IndexDirectory(path, LAYOUT, writable=True) as directory:
        for offset in range(12):
            directory.build_index("T", None, f"k{offset}", 0, offset, START)
        oldest = directory.files[0].path
    for file in sorted(Path(path).iterdir())[-1:]:
        file.unlink()
    with IndexFileWriter(oldest, None):
        with pytest.raises(RmqIndexError, match="expected no writer, got one"):
            relayout_index(path, Layout(11, 50))
        for last_exit_ok in (True, False):
            with pytest.raises(RmqIndexError, match="expected no other writer"):
                IndexDirectory(path, LAYOUT, writable=True, last_exit_ok=last_exit_ok)
    assert oldest.exists()


def test_a_relayout_waits_for_a_directory_that_is_open_also_where_nothing_was_put_yet(path):
    """Be there a file to go on with, or a full one: the next put would be of the old index."""
    for count in (1, 3 * LAYOUT.capacity):
        with IndexDirectory(path, LAYOUT, writable=True) as directory:
            for _ in range(count):
                directory.build_index("T", None, f"k{count}", 0, count, START)
        with IndexDirectory(path, LAYOUT, writable=True) as directory:
            with pytest.raises(RmqIndexError, match="must be alone in it"):
                relayout_index(path, Layout(11, 50))
            directory.build_index("T", None, "more", 0, count, START)


def test_two_processes_do_not_write_into_one_directory(path):
    """In no store, whose lock would tell, either."""
    with IndexDirectory(path, LAYOUT, writable=True) as directory:
        directory.build_index("T", None, "k", 0, 7, START)
        code = f"""
import rmqindex
from rmqindex.bulk import relayout_index
path, layout = {str(path)!r}, rmqindex.Layout(11, 50)
for write in (
    lambda: rmqindex.IndexDirectory(path, layout, writable=True),
    lambda: rmqindex.IndexFileWriter(path + '/20240101000000000', layout),
    lambda: relayout_index(path, layout),
):
    try:
        write()
    except rmqindex.RmqIndexError as error:
        print("of this process or another" in str(error))
"""
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        assert ended.stdout == b"True\n" * 3


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_forked_process_does_not_write_where_its_parent_does(path, kind):
    """Each would write over what the other put; and the parent's lock stays."""
    name = path / "20240101000000000"
    writer = (
        IndexDirectory(path, LAYOUT, writable=True)
        if kind == "directory"
        else IndexFileWriter(name, LAYOUT)
    )

    def put(offset):
        if isinstance(writer, IndexDirectory):
            writer.build_index("T", None, "k", 0, offset, START)
        else:
            writer.put("T#k", offset, START)

    put(1)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        said = ""
        for call in (lambda: put(2), writer.close):
            try:
                call()
            except RmqIndexError as error:
                said += str(error)
        os.write(write, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 10_000).decode().count("which opened it, got process") == 2
    with pytest.raises(RmqIndexError, match="expected no"):
        IndexFileWriter(writer.files[-1].path if kind == "directory" else name, LAYOUT)
    put(3)
    writer.close()
    with IndexDirectory(path) as index:
        assert offsets_of(index, "k") == (3, 1)


@pytest.mark.parametrize("call", ["build_index", "delete_expired", "close"])
def test_a_forked_process_changes_nothing_of_a_directory_without_an_open_file(path, call):
    """The parent alone rolls and deletes its files, as the lock of the directory is its own."""
    with IndexDirectory(path, LAYOUT, writable=True) as index:
        for number in range(2 * LAYOUT.capacity):
            index.build_index("T", None, "k", 0, number, START)
    index = IndexDirectory(path, LAYOUT, writable=True)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    arguments = {"build_index": ("T", None, "k", 0, 10_000, START), "delete_expired": (10_000,)}
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            getattr(index, call)(*arguments.get(call, ()))
        except RmqIndexError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    assert b"which opened it, got process" in os.read(read, 10_000)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    index.close()


class TestThreads:
    """Threads of one process share a directory."""

    @pytest.fixture(autouse=True)
    def _often_switched(self):
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        yield
        sys.setswitchinterval(interval)

    def test_each_indexes_queries_flushes_and_expires_as_if_alone(self, path):
        """No entry is lost or doubled, files roll once, and a query finds what was indexed."""
        threads, each = 4, 20
        together = threading.Barrier(threads)

        def use(thread):
            together.wait()
            for place in range(each):
                # One offset, since the broker skips smaller ones.
                directory.build_index("T", None, f"k{thread}-{place}", 0, 7, START)
                assert offsets_of(directory, f"k{thread}-{place}") == (7,)
                if place % 10 == 0:
                    directory.flush()
                    directory.delete_expired(7)
                    assert repr(directory).startswith("IndexDirectory")

        with (
            IndexDirectory(path, Layout(97, 12), writable=True) as directory,
            ThreadPoolExecutor(threads) as pool,
        ):
            list(pool.map(use, range(threads)))
        entries = MessageStore(path, commit_log=None).entries().read_all()
        wanted = {f"T#k{thread}-{place}" for thread in range(threads) for place in range(each)}
        assert sorted(entries["key_hash"].to_pylist()) == sorted(map(key_hash, wanted))
        assert len(names_in(path)) == -(-threads * each // 11)

    def test_one_that_closes_it_leaves_the_others_a_directory_that_is_closed(self, path):
        """Not files that are cut under a query."""
        threads = 4
        with IndexDirectory(path, STORE_LAYOUT, writable=True) as directory:
            index_many(directory, 150)
        for _ in range(4):
            directory = IndexDirectory(path, STORE_LAYOUT)
            together = threading.Barrier(threads)

            def use(thread, directory=directory, together=together):
                together.wait()
                if not thread:
                    directory.close()
                    return None
                try:
                    return offsets_of(directory, "k7")
                except ValueError as error:
                    return str(error)

            with ThreadPoolExecutor(threads) as pool:
                answers = set(pool.map(use, range(threads)))
            assert answers <= {None, (700,), f"{path}: the index directory is closed"}


class TestReadersBesideAFlush:
    """Between slots and header, the file of a living writer looks like one of a damaged count."""

    @staticmethod
    def flush_beside(monkeypatch, directory, read):
        """Flush, with a reader from between slots and header on; return what it read."""
        waiting, answers = threading.Event(), []
        real_flock, real_pwrite = fcntl.flock, os.pwrite

        def flock(*arguments):
            try:
                return real_flock(*arguments)
            except BlockingIOError:
                waiting.set()
                raise

        def run():
            try:
                answers.append(read())
            except RmqIndexError as error:
                answers.append(error)

        def pwrite(file, data, offset):
            if offset == 0:  # the header, behind the slots
                reader.start()
                while reader.is_alive() and not waiting.wait(0.01):
                    pass
            return real_pwrite(file, data, offset)

        reader = threading.Thread(target=run)
        with monkeypatch.context() as patch:
            patch.setattr(fcntl, "flock", flock)
            patch.setattr(os, "pwrite", pwrite)
            directory.flush()
            reader.join()
        return answers

    @pytest.mark.parametrize("counted", [0, 3])
    def test_entries_are_read_as_they_were_counted(self, path, monkeypatch, counted):
        """Before a file's first flush, and before a further one."""
        store = MessageStore(path, layout=STORE_LAYOUT, commit_log=None)
        with IndexDirectory(path, STORE_LAYOUT, writable=True) as directory:
            index_many(directory, counted)
            directory.flush()
            index_many(directory, 30, counted)
            read = self.flush_beside(
                monkeypatch, directory, lambda: store.entries().read_all().num_rows
            )
            assert read == [counted]
        assert store.entries().read_all().num_rows == counted + 30

    def test_keys_are_found_in_a_file_that_was_opened_before(self, path, monkeypatch):
        """Their chains begin at entries that are not counted yet."""
        with IndexDirectory(path, STORE_LAYOUT, writable=True) as directory:
            index_many(directory, 3)
            directory.flush()
            with IndexFile(next(path.iterdir()), STORE_LAYOUT) as file:
                for _ in range(20):
                    directory.build_index("T", None, "k1", 0, 400, START + 4000)
                hashes = [key_hash("T#k1")]
                read = self.flush_beside(
                    monkeypatch, directory, lambda: file.lookup(hashes).num_rows
                )
        assert read == [1]


class TestBrokenFiles:
    """The broker takes whatever it finds."""

    SIZE = LAYOUT.file_size
    POSITIONS = st.integers(-1, 7)
    FILES = st.builds(
        lambda header, slots, entries: (
            struct.pack(">qqqqii4i", *header, *slots)
            + bytes(20)
            + b"".join(struct.pack(">iqii", *entry) for entry in entries)
        ),
        st.tuples(
            st.integers(START - 5000, START + 5000),
            st.integers(START - 5000, START + 5000),
            st.integers(0, 500),
            st.integers(0, 500),
            st.integers(-1, 6) | st.just(2**31 - 1),
            POSITIONS,
        ),
        st.lists(POSITIONS, min_size=4, max_size=4),
        st.lists(
            st.tuples(
                st.sampled_from([java_hash("T#k0"), java_hash("T#k1"), 0, 1, -5]),
                st.integers(0, 500),
                st.integers(-1, 5),
                POSITIONS,
            ),
            min_size=5,
            max_size=5,
        ),
    )

    @given(FILES, st.integers(0, 180), st.lists(st.sampled_from(["k0", "k1", "k2"]), max_size=6))
    def test_any_last_file_is_continued_as_the_broker_does(
        self, tmp_path_factory, data, length, keys
    ):
        """Slots beyond the count, self-links and short files included; nothing is repaired."""
        path = tmp_path_factory.mktemp("store") / "index"
        path.mkdir()
        (path / "20240102030405678").write_bytes(data[:length])
        twins = [BrokerFile.load(data[:length], LAYOUT.hash_slot_num, LAYOUT.index_num)]
        with IndexDirectory(path, LAYOUT, writable=True) as directory:
            for place, key in enumerate(keys):
                offset, timestamp = 1000 + place, START + 700 * place
                directory.build_index("T", None, key, 0, offset, timestamp)
                if twins[-1].index_count >= LAYOUT.index_num:
                    last = twins[-1]
                    twins.append(BrokerFile(4, 6, last.end_phy_offset, last.end_timestamp))
                assert twins[-1].put(java_hash(f"T#{key}"), offset, timestamp)
            for file, twin in zip(directory.files, twins, strict=True):
                for key in ("k0", "k1", "k2"):
                    assert self.select_or_hang(file, twin, key)
        for twin in twins:
            twin.flush()
        written = [(path / name).read_bytes() for name in names_in(path)]
        assert written == [bytes(twin.data) for twin in twins]

    @staticmethod
    def select_or_hang(file, twin, key):
        """Compare a search; where the broker hangs ours is an error."""
        try:
            expected = twin.select(java_hash(f"T#{key}"), 64, 0, LONG_MAX)
        except RuntimeError:
            with pytest.raises(RmqIndexError, match="a cycle"):
                file.select_phy_offset(f"T#{key}", 64, 0, LONG_MAX)
            return True
        return file.select_phy_offset(f"T#{key}", 64, 0, LONG_MAX) == expected


def test_the_sample_stores_index_goes_on(tmp_path):
    """A copy of the broker's own index takes new messages, in the geometry it has."""
    shutil.copytree(sample_store() / "index", tmp_path / "index")
    with IndexDirectory(tmp_path, writable=True) as directory:
        assert directory.layout == STORE_LAYOUT
        index_many(directory, 40, first=1300)
        assert [file.entry_count for file in directory.files] == [199, 199, 199, 199, 199, 4]
        assert offsets_of(directory, "k1300") == (130_000,)


def test_staging_left_by_a_dead_write_is_cleaned_up(filled):
    """Opening to write does what the next write would do."""
    staging = LocalStaging.create(filled, Owner.current())
    assert staging.path.is_dir()
    script = """
import sys
from rmqindex.transaction import LocalStaging, Owner
LocalStaging.create(sys.argv[1], Owner.current())
"""
    subprocess.run([sys.executable, "-c", script, str(filled)], check=True)
    assert len([entry for entry in staging.root.iterdir() if entry.is_dir()]) == 2
    IndexDirectory(filled, writable=True).close()
    assert [entry for entry in staging.root.iterdir() if entry.is_dir()] == [Path(staging.path)]
    staging.discard()
