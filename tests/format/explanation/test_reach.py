"""What lies outside an index, told by the ends of index and CommitLog alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

import rmqindex
from commitlog_encoder import Log, Message, properties_text
from file_reads import counted_log_reads
from permissions import mode_of
from recorded import HEALTHY_STORES, MESSAGE_KINDS, STORE_KINDS
from rmqindex import (
    CommitLog,
    IncompleteIndexWarning,
    MessageStore,
    StoreCheckpoint,
    rebuild_index,
    verify,
)
from rmqindex.explanation import uncovered, uncovered_in
from rmqindex.storage import Location
from rmqindex.store import IndexSnapshot

SAMPLE = rmqindex.sample_store()
NAMES = sorted(path.name for path in (SAMPLE / "index").iterdir())
HEALTHY = [SAMPLE, MESSAGE_KINDS / "store", *HEALTHY_STORES]


@pytest.fixture
def store(tmp_path):
    """A copy of the sample store."""
    shutil.copytree(SAMPLE, tmp_path / "store")
    return tmp_path / "store"


def remove(store, *names):
    """Remove IndexFiles."""
    for name in names:
        (store / "index" / name).unlink()


def lacking(store, mode="FAILFAST"):
    """Return what lies outside the index of a store, as a lookup and as a plan tell it."""
    log_path = store if any(store.glob("dledger-*")) else store / "commitlog"
    with CommitLog(log_path) as log:
        parts = uncovered(store, IndexSnapshot.of(store, None, mode), log)
        planned = uncovered_in(Location.of(store / "index"), log)
    assert [(part.part, part.start) for part in planned] == [(p.part, p.start) for p in parts]
    return parts


def append(log, count, keys=None, first_time=1_700_000_000_001):
    """Store messages a second apart, with keys where a number divides the message's own."""
    for number in range(count):
        pairs = [("KEYS", f"k{number}")] if keys and number % keys == 0 else []
        time = first_time + 1000 * number
        log.append(Message(properties=properties_text(pairs), store_timestamp=time))


@pytest.fixture
def ahead(tmp_path):
    """Return how a store is made whose log goes on behind the 10 messages of its index."""

    def build(count, keys=None, file_size=1 << 22):
        log = Log(file_size)
        append(log, 10, keys=1)
        stop = log.end
        append(log, count, keys, first_time=1_700_000_010_001)
        log.write_to(tmp_path / "commitlog")
        rebuild_index(
            tmp_path / "commitlog", tmp_path / "index", rmqindex.Layout(16, 100), stop=stop
        )
        return tmp_path

    return build


def stopped(store, latest, **fields):
    """Write the checkpoint that a broker leaves which has dispatched everything."""
    path = store / "checkpoint"
    before = StoreCheckpoint.load(path) if path.exists() else StoreCheckpoint()
    times = {"physic_msg_timestamp": latest, "logics_msg_timestamp": latest}
    replace(before, **{**times, **fields}).save(path)


class TestReads:
    """A lookup and a plan read no message to tell what lies outside the index."""

    def test_a_lookup_without_hits_reads_nothing_of_the_log(self, ahead):
        """Whatever lies behind the index."""
        path = ahead(5_000)
        with counted_log_reads() as reads:
            assert MessageStore(path).lookup("TopicTest", "none").num_rows == 0
        assert reads == []

    def test_nor_does_the_command(self, ahead, run):
        """Beside tables, JSON and CSV alike."""
        path = ahead(1_000)
        with counted_log_reads() as reads:
            for option in ((), ("--json",), ("--csv",)):
                assert run("lookup", path, "TopicTest", "none", *option)[0] == 1
        assert reads == []

    def test_verify_reads_what_a_lookup_leaves(self, ahead):
        """It tells whether the messages behind the index have keys."""
        path = ahead(1_000, keys=1)
        assert "index_ends_early" in verify(path, "auto")["rule"].to_pylist()


class TestWholeIndexes:
    """Nothing is said of them."""

    @pytest.mark.parametrize("path", HEALTHY, ids=lambda path: str(path.parent.name))
    def test_the_index_of_a_broker_lacks_nothing(self, path):
        """Of every version and kind of store."""
        assert lacking(path) == ()

    def test_zeros_behind_the_last_message_are_no_messages(self, ahead):
        """Be they of a file that was made ahead."""
        path = ahead(0)
        (path / "commitlog" / f"{1 << 22:020d}").write_bytes(bytes(1 << 12))
        assert lacking(path) == ()

    def test_a_broker_that_stopped_has_indexed_the_messages_with_keys(self, ahead):
        """Its checkpoint tells of later messages, which have none."""
        path = ahead(100)
        stopped(path, 1_700_000_110_001)
        assert lacking(path) == ()

    def test_expired_messages_need_no_entries(self, store):
        """The oldest log file is gone, then the IndexFiles of its messages."""
        (store / "commitlog" / "00000000000000000000").unlink()
        assert lacking(store) == ()
        remove(store, *NAMES[:2])
        assert lacking(store) == ()

    def test_a_single_file_is_answered_for_itself(self, store):
        """The user chose to leave the others out."""
        path = store / "index" / NAMES[2]
        with CommitLog(store / "commitlog") as log:
            assert uncovered(path, IndexSnapshot.of(path, None, "FAILFAST"), log) == ()

    def test_a_file_under_another_name_is_none(self, store):
        """Its entries are found, wherever its name puts it."""
        (store / "index" / NAMES[0]).rename(store / "index" / "99991120182605197")
        assert lacking(store) == ()

    @pytest.mark.parametrize("name", [NAMES[0], NAMES[2], NAMES[-1]])
    @pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED"])
    def test_a_file_that_cannot_be_read_may_have_the_entries(self, store, name, mode):
        """The answer names the file as it is."""
        with mode_of(store / "index" / name, 0):
            assert lacking(store, mode) == ()

    def test_a_fresh_store_has_no_messages(self, tmp_path):
        """Its broker made files ahead, and has stored nothing."""
        (tmp_path / "index").mkdir()
        (tmp_path / "commitlog").mkdir()
        (tmp_path / "commitlog" / f"{0:020d}").write_bytes(bytes(4096))
        StoreCheckpoint().save(tmp_path / "checkpoint")
        assert lacking(tmp_path) == ()


class TestLostFiles:
    """The ends tell, with the command that finds out what is lost."""

    def test_the_oldest(self, store):
        """Both ends are told: the log's and the index's."""
        remove(store, NAMES[0])
        (part,) = lacking(store)
        assert (part.part, part.start, part.stop, part.log_start) == ("start", 0, 26249, 0)
        assert part.store_timestamp is None
        assert part.text() == (
            f"{store / 'index' / NAMES[1]}: the oldest IndexFile begins at offset 26249, the "
            "CommitLog at 0, and no lookup finds the messages between. "
            f"`rmqindex verify {store}` says whether any of them has keys, and what to do; the "
            "command explain searches them for one key"
        )

    @pytest.mark.parametrize("name", NAMES[1:-1])
    def test_one_in_the_middle_is_for_verify(self, store, name):
        """Both ends are there."""
        remove(store, name)
        assert lacking(store) == ()
        assert "coverage_gap" in verify(store, "auto")["rule"].to_pylist()

    def test_the_newest(self, store):
        """The file before it is full, and the checkpoint tells of later messages."""
        remove(store, NAMES[-1])
        (part,) = lacking(store)
        assert (part.part, part.start, part.stop) == ("end", 101565, None)
        assert part.text().startswith(
            f"{store / 'index' / NAMES[-2]}: the newest IndexFile ends at offset 101565, the "
            "CommitLog goes on, and no lookup finds the messages behind. "
        )

    def test_the_newest_after_a_full_one_that_the_checkpoint_knows(self, ahead):
        """The broker has flushed a later file than those that are left."""
        path = ahead(100)
        stopped(path, 1_700_000_110_001, index_msg_timestamp=1_700_000_100_001)
        assert [part.part for part in lacking(path)] == ["end"]

    def test_all(self, store):
        """Without files there are no ends to compare."""
        remove(store, *NAMES)
        (part,) = lacking(store)
        assert (part.part, part.start, part.remedy) == ("whole", 0, f"rmqindex verify {store}")

    def test_both_ends(self, store):
        """Each is told."""
        remove(store, NAMES[0], NAMES[2], NAMES[-1])
        assert [part.part for part in lacking(store)] == ["start", "end"]

    @pytest.mark.parametrize("place", [0, -1])
    def test_of_a_dledger_store(self, tmp_path, place):
        """Its entries have heads of 48 bytes between the records."""
        shutil.copytree(STORE_KINDS / "dledger_batches" / "store", tmp_path / "store")
        names = sorted(path.name for path in (tmp_path / "store" / "index").iterdir())
        remove(tmp_path / "store", names[place])
        (part,) = lacking(tmp_path / "store")
        assert part.part == {0: "start", -1: "end"}[place]

    def test_an_index_that_ends_files_before_its_log(self, ahead):
        """Without a checkpoint the files' names tell: a broker makes two of them ahead at most."""
        path = ahead(200, file_size=4096)
        assert [part.part for part in lacking(path)] == ["end"]

    def test_an_index_that_ends_long_before_its_log(self, ahead):
        """No broker goes on for so long without any message with keys."""
        path = ahead(1_000)
        stopped(path, 1_700_000_010_001 + 999_000)
        assert [part.part for part in lacking(path)] == ["end"]

    def test_after_a_crash_any_later_message_counts(self, ahead):
        """A broker that crashed may have left messages without entries."""
        path = ahead(10)
        stopped(path, 1_700_000_019_001)
        assert lacking(path) == ()
        (path / "abort").touch()
        assert [part.part for part in lacking(path)] == ["end"]

    def test_a_checkpoint_that_cannot_be_read_tells_nothing(self, store):
        """Spark's own checkpoints are folders of this name."""
        remove(store, NAMES[-1])
        (store / "checkpoint").unlink()
        (store / "checkpoint").mkdir()
        assert lacking(store) == ()


class TestRunningBrokers:
    """They index moments after they store."""

    @pytest.fixture
    def running(self, store):
        """A store whose lock a broker holds, as far as this process can tell."""
        code = (
            "import fcntl, sys, os; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX, 1); "
            "print('held', flush=True); sys.stdin.read()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code, str(store / "lock")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            process.stdout.readline()
            yield store
            process.stdin.close()

    def test_what_was_just_stored_may_wait(self, running):
        """The newest file has messages of some minutes."""
        remove(running, NAMES[-1])
        assert lacking(running) == ()

    def test_what_was_stored_long_ago_may_not(self, running):
        """The two newest files have messages of an hour."""
        remove(running, *NAMES[-2:])
        assert [part.part for part in lacking(running)] == ["end"]

    def test_a_broker_that_has_just_begun_may_index_at_once(self, running):
        """Its first messages are younger than its longest lag."""
        remove(running, *NAMES)
        stopped(running, 4_000_000_000_000)
        assert lacking(running) == ()
        stopped(running, 1_700_000_000_000)
        assert [part.part for part in lacking(running)] == ["whole"]


class TestPython:
    """``MessageStore.lookup``."""

    def test_its_answer_carries_what_it_lacks(self, store):
        """As a warning, and in the metadata of the table."""
        remove(store, NAMES[0])
        with pytest.warns(IncompleteIndexWarning, match="begins at offset 26249") as caught:
            found = MessageStore(store).lookup("TopicTest", "order-49")
        assert found.num_rows == 8
        assert json.loads(found.schema.metadata[b"uncovered"]) == [str(caught[0].message)]

    def test_an_answer_of_a_whole_index_carries_nothing(self):
        """No warning, no metadata."""
        assert MessageStore(SAMPLE).lookup("TopicTest", "order-49").schema.metadata is None
