"""A store whose broker runs, crashed or stopped; and whoever writes keeps brokers out."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import pickle
import shutil
import subprocess
import sys
import threading

import pytest

from other_broker import can_start, running_broker
from permissions import mode_of
from rmqindex import (
    CommitLog,
    IndexDirectory,
    IndexFileWriter,
    Layout,
    MessageStore,
    RmqIndexError,
    cover_index,
    rebuild_consume_queues,
    rebuild_index,
    relayout_index,
    sample_store,
    verify,
)
from rmqindex.bulk import expire_index
from rmqindex.transaction import BrokerLock, BrokerState, LocalStaging
from rmqindex.transaction import broker_lock as module

LAYOUT = Layout(97, 200)
WRITING = "held by process {}, by which rmqindex is writing into this store"
HOLD = """
import sys
from rmqindex.transaction import BrokerLock
hold = BrokerLock.of(sys.argv[1]).hold()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path):
    """A store that was stopped cleanly."""
    (tmp_path / "store" / "index").mkdir(parents=True)
    (tmp_path / "store" / "lock").write_bytes(b"lock")
    (tmp_path / "store" / "checkpoint").touch()
    return tmp_path / "store"


@pytest.fixture
def sample(tmp_path):
    """A copy of the sample store, with files that the log's head has left behind."""
    shutil.copytree(sample_store(), tmp_path / "sample")
    return tmp_path / "sample"


@pytest.fixture
def writer(store):
    """Another process that writes into the store."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.communicate("")


@pytest.fixture(params=[errno.EACCES, errno.EIO], ids=os.strerror)
def unreadable(request, monkeypatch):
    """The error of each lock file that is opened, whoever asks."""
    opened = module.open_to_read

    def refuse(path, flags):
        if path.name == "lock":
            raise OSError(request.param, os.strerror(request.param), str(path))
        return opened(path, flags)

    monkeypatch.setattr(module, "open_to_read", refuse)
    return os.strerror(request.param)


class TestState:
    """One judgement of a store's broker."""

    def test_a_broker_runs_while_the_lock_is_held(self, store):
        """Whether or not ``abort`` is there; the process is named, and its end is noticed."""
        with running_broker(store) as pid:
            lock = BrokerLock.of(store)
            assert (lock.state, lock.broker, lock.writer) == (BrokerState.RUNNING, pid, None)
            (store / "abort").unlink()
            assert lock.state is BrokerState.RUNNING
        assert lock.state is BrokerState.STOPPED

    def test_a_broker_crashed_where_abort_is_there_and_the_lock_is_free(self, store):
        """A kill leaves the file, and the kernel drops the lock."""
        (store / "abort").write_text("4711")
        assert BrokerLock.of(store).state is BrokerState.CRASHED

    def test_a_store_is_stopped_where_a_broker_left_its_checkpoint_alone(self, store):
        """A folder without one is a copy, of which no broker is known."""
        assert BrokerLock.of(store).state is BrokerState.STOPPED
        (store / "lock").unlink()
        assert BrokerLock.of(store).state is BrokerState.STOPPED
        (store / "checkpoint").unlink()
        assert BrokerLock.of(store).state is BrokerState.NONE

    @pytest.mark.parametrize("abort", [False, True])
    def test_a_lock_that_cannot_be_read_gives_none(self, store, unreadable, abort):
        """A broker may run: it holds a lock that another user cannot see."""
        if abort:
            (store / "abort").write_text("4711")
        with running_broker(store):
            lock = BrokerLock.of(store)
            assert (lock.state, lock.broker, lock.writer) == (BrokerState.UNKNOWN, None, None)
            assert lock.fault[0] == store / "lock"
            assert lock.fault[1].strerror == unreadable

    def test_writes_are_refused_where_the_lock_cannot_be_read(self, sample, unreadable):
        """Whoever writes says that no broker runs."""
        expected = f"{sample}/lock: expected a file that can be locked.*got {unreadable}"
        with pytest.raises(RmqIndexError, match=expected):
            BrokerLock.of(sample).ensure_free()
        with pytest.raises(RmqIndexError, match=expected):
            MessageStore(sample).rebuild(replace=True)
        MessageStore(sample).rebuild(replace=True, allow_live_store=True)

    def test_an_audit_names_a_lock_that_cannot_be_read(self, sample, unreadable):
        """And judges nothing that a broker may be about to write."""
        findings = verify(sample, commit_log="auto").to_pylist()
        (told,) = [finding for finding in findings if finding["file"].endswith("/lock")]
        assert told["rule"] == "unreadable"
        assert told["severity"] == "error"
        assert unreadable in told["got"]
        assert {"lock_held", "unfinished_write"}.isdisjoint({each["rule"] for each in findings})

    def test_an_explanation_says_that_the_lock_cannot_be_read(self, sample, unreadable):
        """Instead of that nobody indexes the message."""
        assert unreadable
        with CommitLog(sample / "commitlog") as log:
            newest = log.scan(columns=["topic", "uniq_key"]).__next__().to_pylist()[-1]
        shutil.rmtree(sample / "index")
        explained = MessageStore(sample).explain(newest["topic"], newest["uniq_key"])
        assert "Whether a broker runs cannot be told" in str(explained)

    def test_a_lock_on_other_bytes_is_not_the_brokers(self, store):
        """The broker locks the first byte."""
        with running_broker(store, start=1):
            assert BrokerLock.of(store).broker is None

    def test_a_broker_that_starts_while_it_is_asked_for_runs(self, store, monkeypatch):
        """It makes ``abort`` once it has the lock."""
        with running_broker(store):
            holders = module._holder
            answers = iter([None])
            monkeypatch.setattr(module, "_holder", lambda path: next(answers, holders(path)))
            assert BrokerLock.of(store).state is BrokerState.RUNNING

    def test_a_linked_index_is_judged_by_both_its_parents(self, store, tmp_path):
        """The broker comes by the link, and the target may belong to another store."""
        elsewhere = tmp_path / "elsewhere" / "index"
        elsewhere.mkdir(parents=True)
        (store / "index").rmdir()
        (store / "index").symlink_to(elsewhere)
        lock = BrokerLock.around(store / "index")
        assert lock.roots == (store, elsewhere.parent)
        assert lock.state is BrokerState.STOPPED
        (store / "abort").touch()
        assert lock.state is BrokerState.CRASHED
        (store / "abort").rename(elsewhere.parent / "abort")
        assert lock.state is BrokerState.CRASHED
        with running_broker(elsewhere.parent), pytest.raises(RmqIndexError, match="a broker runs"):
            lock.hold()

    def test_relative_paths_are_judged_from_here(self, store, monkeypatch):
        """``.`` inside the index directory is the index directory."""
        monkeypatch.chdir(store / "index")
        assert BrokerLock.around(os.curdir).roots == (store,)

    def test_an_object_store_has_no_lock(self):
        """No broker writes there."""
        lock = BrokerLock.around("s3://bucket/store/index")
        assert (lock.roots, lock.state) == ((), BrokerState.NONE)

    def test_asking_changes_nothing(self, store):
        """A broker may start at the very moment."""
        before = (store / "lock").stat()
        assert BrokerLock.of(store).state is BrokerState.STOPPED
        after = (store / "lock").stat()
        assert (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
        (store / "lock").unlink()
        BrokerLock.of(store).ensure_free()
        assert not (store / "lock").exists()


class TestHold:
    """Whoever writes holds the lock."""

    def test_no_broker_starts_meanwhile(self, store):
        """Its own lock is refused, and granted afterwards."""
        with BrokerLock.of(store).hold() as hold:
            assert not hold.is_live
            assert not can_start(store)
        assert can_start(store)

    def test_asking_in_another_thread_does_not_drop_it(self, store):
        """Opening and closing the file drops POSIX locks; this is none."""
        with BrokerLock.of(store).hold():
            answers = []
            asks = threading.Thread(target=lambda: answers.append(BrokerLock.of(store).state))
            asks.start()
            asks.join()
            (store / "lock").read_bytes()
            assert answers == [BrokerState.STOPPED]
            assert BrokerLock.of(store).writer == os.getpid()
            assert not can_start(store)

    def test_it_can_be_held_again_by_any_thread(self, store):
        """The last one to close it releases it; closing twice is harmless."""
        lock = BrokerLock.around(store / "index")
        outer = lock.hold()
        held = []
        thread = threading.Thread(target=lambda: held.append(lock.hold()))
        thread.start()
        thread.join()
        lock.ensure_free()
        outer.close()
        outer.close()
        assert not can_start(store)
        held[0].close()
        assert can_start(store)

    def test_a_hold_that_was_forgotten_ends(self, store):
        """With the object that had it."""
        hold = BrokerLock.of(store).hold()
        assert hold
        del hold
        gc.collect()
        assert can_start(store)

    def test_a_running_broker_is_refused_by_name(self, store):
        """Unless that is allowed; then nothing is held."""
        with running_broker(store) as pid:
            told = rf"{store / 'lock'}: .* held by process {pid}: a broker runs on this store"
            for refused in (BrokerLock.of(store).hold, BrokerLock.of(store).ensure_free):
                with pytest.raises(RmqIndexError, match=told):
                    refused()
            BrokerLock.of(store).ensure_free(allow_live_store=True)
            with BrokerLock.of(store).hold(allow_live_store=True) as hold:
                assert hold.is_live

    def test_another_writer_is_refused_by_name_whatever_is_allowed(self, store, writer):
        """It is no broker, and ends by itself."""
        lock = BrokerLock.of(store)
        assert (lock.broker, lock.writer) == (None, writer.pid)
        assert lock.state is BrokerState.STOPPED
        for refused in (lock.hold, lock.ensure_free):
            for allowed in (False, True):
                with pytest.raises(RmqIndexError, match=WRITING.format(writer.pid)):
                    refused(allow_live_store=allowed)
        writer.kill()
        writer.wait()
        lock.hold().close()

    def test_a_crashed_store_needs_no_permission(self, store):
        """Nobody is in the way."""
        (store / "abort").touch()
        with BrokerLock.of(store).hold() as hold:
            assert not hold.is_live
            assert not can_start(store)

    @pytest.mark.parametrize("name", ["abort", "checkpoint", "commitlog", "dledger-n0"])
    def test_a_store_without_a_lock_file_gets_one(self, store, name):
        """As from its broker, which else would start beside the write."""
        (store / "lock").unlink()
        (store / name).mkdir() if name in ("commitlog", "dledger-n0") else (store / name).touch()
        with BrokerLock.of(store).hold():
            assert not can_start(store)
        assert (store / "lock").stat().st_uid == store.stat().st_uid
        assert can_start(store)

    @pytest.mark.parametrize("name", [None, "checkpoint/"])
    def test_a_directory_that_is_no_store_gets_none(self, store, name):
        """An index directory alone, and one with the checkpoints of Spark."""
        for left in ("lock", "checkpoint"):
            (store / left).unlink()
        if name:
            (store / name).mkdir()
        with BrokerLock.of(store).hold():
            assert not (store / "lock").exists()

    def test_a_lock_file_that_cannot_be_written_is_held_all_the_same(self, store, monkeypatch):
        """A shared lock keeps a broker out as well."""
        opened = module.open_to_read

        def read_only(path, flags):
            if flags & os.O_ACCMODE == os.O_RDWR:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return opened(path, flags)

        monkeypatch.setattr(module, "open_to_read", read_only)
        with BrokerLock.of(store).hold():
            assert not can_start(store)
            assert BrokerLock.of(store).writer == os.getpid()

    def test_a_file_system_without_locks_is_told(self, store, monkeypatch):
        """Nothing keeps a broker out there, so somebody has to say that none starts."""

        def no_locks(*_):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

        monkeypatch.setattr(module, "lock_byte", no_locks)
        with pytest.raises(RmqIndexError, match=r"can be locked.*No locks.*allow_live_store=True"):
            BrokerLock.of(store).hold()
        with BrokerLock.of(store).hold(allow_live_store=True) as hold:
            assert hold.is_live

    def test_a_pipe_in_its_place_keeps_nobody_waiting(self, store):
        """No broker could lock it."""
        (store / "lock").unlink()
        os.mkfifo(store / "lock")
        assert BrokerLock.of(store).state is BrokerState.STOPPED
        BrokerLock.of(store).hold().close()

    def test_a_lock_is_sent_to_other_processes_unheld(self, store):
        """It is the name of a lock; the hold is none."""
        lock = BrokerLock.of(store)
        assert pickle.loads(pickle.dumps(lock)) == lock
        with lock.hold() as hold, pytest.raises(TypeError):
            pickle.dumps(hold)


class TestFork:
    """A child has copies of the descriptors, and of the objects."""

    @pytest.fixture
    def fork(self):
        """Return a function that runs another one in a forked child, and returns its answer."""

        def run(work):
            reading, writing = os.pipe()
            child = os.fork()
            if not child:
                try:
                    os.write(writing, repr(work()).encode())
                except BaseException as error:  # noqa: BLE001  (it is the answer)
                    os.write(writing, repr(error).encode())
                os._exit(0)
            os.close(writing)
            os.waitpid(child, 0)
            with os.fdopen(reading) as file:
                return file.read()

        return run

    @pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
    def test_a_child_neither_holds_nor_releases(self, store, fork):
        """It is another process, which may not write."""
        with BrokerLock.of(store).hold() as hold:
            assert "rmqindex is writing" in fork(BrokerLock.of(store).hold)
            assert fork(hold.close) == "None"
            assert not can_start(store)

    @pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
    def test_the_parent_releases_while_the_child_lives(self, store):
        """The child has closed its copy."""
        reading, writing = os.pipe()
        with BrokerLock.of(store).hold():
            child = os.fork()
            if not child:
                os.close(writing)
                os.read(reading, 1)
                os._exit(0)
            os.close(reading)
        assert can_start(store)
        os.close(writing)
        os.waitpid(child, 0)


class TestWriters:
    """From the first byte to the last rename."""

    @pytest.mark.filterwarnings("ignore::rmqindex.IncompleteIndexWarning")
    def test_a_rebuild_holds_it(self, sample):
        """Into the place of the old index, and into an empty one, while lookups are made."""
        starts = []

        def probe(*_):
            MessageStore(sample).lookup("TopicTest", "order-49")
            starts.append(can_start(sample))

        rebuild_index(sample, sample / "index", LAYOUT, replace=True, progress=probe)
        shutil.rmtree(sample / "index")
        rebuild_index(sample, sample / "index", LAYOUT, progress=probe)
        assert set(starts) == {False}
        assert can_start(sample)

    def test_a_relayout_holds_it(self, sample):
        """While the new files are built."""
        starts = []
        relayout_index(
            sample, Layout(31, 500), progress=lambda *_: starts.append(can_start(sample))
        )
        assert set(starts) == {False}
        assert can_start(sample)

    def test_an_expiry_holds_it(self, sample, monkeypatch):
        """Before it looks for what has expired."""
        starts = []
        create = LocalStaging.create

        def probe(*arguments):
            starts.append(can_start(sample))
            return create(*arguments)

        monkeypatch.setattr(LocalStaging, "create", probe)
        assert expire_index(sample, 60_000, allow_loss=True)
        assert starts == [False]
        assert can_start(sample)

    def test_a_rebuild_of_queues_holds_it(self, sample):
        """Until the folders are exchanged."""
        starts = []
        rebuild_consume_queues(
            sample, sample, replace=True, progress=lambda *_: starts.append(can_start(sample))
        )
        assert set(starts) == {False}
        assert can_start(sample)

    def test_an_index_directory_holds_it_until_it_is_closed(self, sample):
        """It does what a broker does, in its place; one that only reads holds nothing."""
        with IndexDirectory(sample):
            assert can_start(sample)
        with IndexDirectory(sample, writable=True) as directory:
            assert not can_start(sample)
            directory.build_index("T", "k", None, 0, 10**9, 1_800_000_000_000)
            assert verify(sample)
            assert not can_start(sample)
        assert can_start(sample)

    def test_a_writer_of_one_file_of_a_store_holds_it_until_it_is_closed(self, sample):
        """Whether or not it can be opened, and however it ends."""
        path = sample / "index" / "20990101000000000"
        with IndexFileWriter(path, LAYOUT) as writer:
            writer.put_many([1], [1], [1])
            assert not can_start(sample)
        assert can_start(sample)
        with pytest.raises(KeyboardInterrupt), IndexFileWriter(path, LAYOUT):
            raise KeyboardInterrupt
        assert can_start(sample)
        with pytest.raises(RmqIndexError) as caught:
            IndexFileWriter(path, Layout(7, 11))
        assert caught.tb
        assert can_start(sample)
        with running_broker(sample), pytest.raises(RmqIndexError, match="a broker runs"):
            IndexFileWriter(path, LAYOUT)

    def test_a_file_beside_a_store_is_nobodys(self, sample):
        """As those that tasks build aside."""
        (sample / "aside").mkdir()
        with IndexFileWriter(sample / "aside" / "1", LAYOUT):
            assert can_start(sample)

    def test_an_index_directory_that_fails_to_open_releases_it(self, sample):
        """The error is kept by whoever caught it, and the lock is not."""
        first = min((sample / "index").iterdir())
        first.write_bytes(bytes(1000))
        for path in (sample / "index").iterdir():
            path.write_bytes(bytes(1000))
        with pytest.raises(RmqIndexError) as caught:
            IndexDirectory(sample, writable=True)
        assert caught.tb
        assert can_start(sample)

    def test_raising_the_checkpoint_holds_it(self, sample, monkeypatch):
        """A broker would write its own over it."""
        starts = []
        raised = module.BrokerLock.hold

        def probe(lock, **options):
            hold = raised(lock, **options)
            starts.append(can_start(sample))
            return hold

        monkeypatch.setattr(BrokerLock, "hold", probe)
        cover_index(sample)
        assert starts == [False]

    def test_a_broker_that_runs_is_met_before_anything_is_made(self, tmp_path):
        """By each of them, with its process."""
        store = tmp_path / "store"
        shutil.copytree(sample_store(), store)
        shutil.rmtree(store / "index")
        with running_broker(store) as pid:
            for write in (
                lambda: rebuild_index(store, store / "index", LAYOUT),
                lambda: rebuild_consume_queues(store, store, replace=True),
                lambda: IndexDirectory(store, LAYOUT, writable=True),
                lambda: cover_index(store),
            ):
                with pytest.raises(RmqIndexError, match=f"held by process {pid}: a broker runs"):
                    write()
        assert not (store / "index").exists()

    def test_a_lock_of_this_process_itself_counts(self, store):
        """A classic one, made by hand: whoever has it may be about to write."""
        with (store / "lock").open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            assert BrokerLock.of(store).broker == os.getpid()


class TestUnreadableLocks:
    """The lock file is another user's, who keeps it to itself."""

    def test_readers_need_none(self, sample):
        """They read on, and an audit says that nobody can tell whether a broker runs."""
        assert BrokerLock.of(sample).is_told
        with mode_of(sample / "lock", 0):
            assert not BrokerLock.of(sample).is_told
            assert BrokerLock.of(sample).state is BrokerState.UNKNOWN
            assert MessageStore(sample).lookup("TopicTest", "order-49").num_rows == 11
            assert sum(batch.num_rows for batch in MessageStore(sample).messages()) > 0
            rules = {each["file"]: each["rule"] for each in verify(sample).to_pylist()}
            assert rules[str(sample / "lock")] == "unreadable"

    def test_writers_are_refused_by_name(self, sample):
        """Nothing would keep a broker from starting meanwhile."""
        before = sorted((sample / "index").iterdir())
        with mode_of(sample / "lock", 0):
            with pytest.raises(RmqIndexError, match="lock: expected a file that can be locked"):
                rebuild_index(sample / "commitlog", sample / "index", LAYOUT, replace=True)
            with pytest.raises(RmqIndexError, match="lock: expected a file that can be locked"):
                cover_index(sample)
        assert sorted((sample / "index").iterdir()) == before
