"""Jobs that take long, beside other writers, after dead ones, and on a full disk."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from killing import script_environment
from other_broker import running_broker
from rmqindex import (
    IndexFile,
    IndexFileWriter,
    Layout,
    RmqIndexError,
    rebuild_consume_queues,
    rebuild_index,
    relayout_index,
    sample_store,
)
from rmqindex.bulk.relayout import expire_index
from rmqindex.transaction import LocalStaging, Owner, effective_listing, staging_root

STORE = sample_store()
LAYOUT = Layout(97, 200)
OTHER = Layout(31, 500)

DIE = """
import sys
from killing import kill_when
from rmqindex import Layout, relayout_index
kill_when(lambda _, path: path.name == "journal.json")
relayout_index(sys.argv[1], Layout(50, 120))
"""
DIE_REMOVING = """
import os, pathlib, signal, sys
from rmqindex import Layout, relayout_index
unlink = pathlib.Path.unlink
def die(self, missing_ok=False):
    unlink(self, missing_ok)
    if self.parent.name == "index":
        os.kill(os.getpid(), signal.SIGKILL)
pathlib.Path.unlink = die
relayout_index(sys.argv[1], Layout(97, 200))
"""
EXPIRE_AND_DIE = """
import sys
from killing import kill_when
from rmqindex.bulk import expire_index
kill_when(lambda call, path: call == "rename" and path.name.startswith("job-"))
expire_index(sys.argv[1], 60000, allow_loss=True)
"""
APPEND_AND_DIE = """
import pathlib, sys
from appends import append_of
from killing import kill_when
from rmqindex import Layout
from rmqindex.transaction import LocalStaging
index = pathlib.Path(sys.argv[1], "index")
staging = LocalStaging.at(index, "stream-test-0")
kill_when(lambda _, path: path.name == "journal.json")
with staging.exclusive(create=True):
    path = max(index.iterdir())
    append = append_of(path, Layout(97, 200), range(3), [10**9] * 3, [1_800_000_000_000] * 3)
    staging.commit([], [], append=append, ledger={"done": 1})
"""


def is_locked(root):
    """Return whether a process holds the lock of a staging root."""
    with (root / "lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def content(directory):
    """Return the bytes of the files, oldest first."""
    return [path.read_bytes() for path in sorted(directory.iterdir())]


def killed(code, store):
    """Run code that kills itself in the middle of a commit."""
    command = [sys.executable, "-c", code, str(store)]
    ended = subprocess.run(command, env=script_environment(), check=False)
    assert ended.returncode == -signal.SIGKILL


def put_one(store):
    """Append an entry to the last file, as another writer."""
    with IndexFileWriter(max((store / "index").iterdir()), LAYOUT) as writer:
        assert writer.put("TopicTest#late", 122928, 1_800_000_000_000)


class TestMeanwhile:
    """What another writer does while a job runs is not lost, and not mixed with its files."""

    @pytest.mark.parametrize(
        "job",
        [
            lambda store, progress: relayout_index(store, OTHER, progress=progress),
            lambda store, progress: rebuild_index(
                store, store / "index", replace=True, allow_loss=True, progress=progress
            ),
        ],
        ids=["relayout", "rebuild"],
    )
    def test_an_index_that_changed_meanwhile_is_not_replaced(self, store, job):
        """The entry that came in between would be lost: the job is refused instead."""
        done = []

        def progress(*_):
            if not done:
                put_one(store)
                done.append(content(store / "index"))

        with pytest.raises(RmqIndexError, match=r"index: the index was changed .* run this again"):
            job(store, progress)
        assert content(store / "index") == done[0]
        assert not staging_root(store / "index").exists()
        job(store, None)

    def test_others_wait_while_a_rebuild_grows_in_place(self, store):
        """It holds the lock of the directory, and gives it back."""
        shutil.rmtree(store / "index")
        held = []
        root = staging_root(store / "index")
        rebuild_index(
            store, store / "index", LAYOUT, progress=lambda *_: held.append(is_locked(root))
        )
        assert held
        assert all(held)
        assert not root.exists()
        assert content(store / "index") == content(STORE / "index")


class TestAfterADeath:
    """What a killed process left is no hindrance."""

    def test_a_relayout_after_a_dead_commit_starts_from_the_old_files(self, store):
        """They had been set aside, and are put back before they are read."""
        killed(DIE, store)
        relayout_index(store, OTHER, commit_log="auto")
        relayout_index(store, LAYOUT, commit_log="auto")
        assert content(store / "index") == content(STORE / "index")

    def test_an_expiry_with_nothing_left_to_delete_clears_up_after_a_dead_one(self, store):
        """The first had deleted the files, and died before it removed its own."""
        killed(EXPIRE_AND_DIE, store)
        left = content(store / "index")
        assert staging_root(store / "index").exists()
        assert expire_index(store, 60_000, allow_loss=True) == []
        assert content(store / "index") == left
        assert not staging_root(store / "index").exists()

    def test_a_resumed_rebuild_first_undoes_a_dead_commit(self, store):
        """Entries of the dead commit are not gone on behind."""
        killed(APPEND_AND_DIE, store)
        assert content(store / "index") != content(STORE / "index")
        rebuild_index(store, store / "index", resume=True)
        assert content(store / "index") == content(STORE / "index")
        assert not staging_root(store / "index").joinpath("journal.json").exists()

    @pytest.mark.parametrize("size", [0, LAYOUT.file_size])
    @pytest.mark.parametrize("stop", [40_000, 0])
    def test_a_rebuild_that_died_as_it_began_a_file_is_gone_on_with(self, store, size, stop):
        """A file that had no time to inherit is begun anew: byte for byte the broker's."""
        shutil.rmtree(store / "index")
        rebuild_index(store, store / "index", LAYOUT, stop=stop)
        names = sorted(path.name for path in (store / "index").iterdir())
        if names:
            last = store / "index" / names[-1]
            with IndexFile(last, LAYOUT) as file:
                last_is_full = file.entry_count == LAYOUT.capacity
            if not last_is_full:
                last.unlink()
                names = names[:-1]
        with (store / "index" / "20991231235959999").open("wb") as file:
            file.truncate(size)
        rebuild_index(store, store / "index", LAYOUT, resume=True)
        assert content(store / "index") == content(STORE / "index")


class TestRecover:
    """``rmqindex recover``, for programs that know nothing of the journal."""

    def test_a_dead_append_is_taken_out_of_the_file(self, run, store):
        """A broker that starts now finds the file as it was."""
        killed(APPEND_AND_DIE, store)
        assert content(store / "index") != content(STORE / "index")
        code, out, _ = run("recover", store)
        assert (code, out) == (0, "Undid an unfinished write of: index\n")
        assert content(store / "index") == content(STORE / "index")
        assert run("recover", store / "index")[:2] == (0, "Nothing to undo\n")

    def test_queues_that_were_being_exchanged_are_put_back(self, run, store):
        """The folder that was set aside is there again."""
        before = sorted(path.name for path in (store / "consumequeue").iterdir())
        home = store / ".consumequeue.rmqindex"
        (home / "old").mkdir(parents=True)
        (home / "new").mkdir()
        (home / "undo.json").write_text(json.dumps({"old": ["consumequeue"], "new": []}))
        (store / "consumequeue").rename(home / "old" / "consumequeue")
        code, out, _ = run("recover", store, "--json")
        assert code == 0
        assert json.loads(out) == {"path": str(store), "index": None, "queues": "undone"}
        assert sorted(path.name for path in (store / "consumequeue").iterdir()) == before
        assert not home.exists()

    @pytest.mark.parametrize("act", ["recover", "expire"])
    def test_what_a_broker_appended_since_to_a_new_file_stays(self, run, store, act):
        """A relayout died while it removed the old files, and the newest file went on."""
        killed(DIE_REMOVING, store)
        put_one(store)
        newest = max((store / "index").iterdir())
        data = newest.read_bytes()
        if act == "recover":
            done = "Finished an unfinished write of: index\n"
            assert run("recover", store)[:2] == (0, done)
        else:
            assert run("expire", store, "--before", "0")[0] == 0
        assert newest.read_bytes() == data
        assert json.loads(run("lookup", store, "TopicTest", "late", "--json")[1])["hits"]
        assert not staging_root(store / "index").exists()

    def test_a_store_that_a_broker_holds_is_left_alone(self, run, store):
        """Undoing under a broker's mapping would harm what it writes."""
        with running_broker(store):
            assert run("recover", store)[0] == 2
            assert run("recover", store, "--allow-live-store")[0] == 0
        (store / "abort").touch()
        assert run("recover", store)[0] == 0

    def test_a_path_that_is_not_there(self, run, tmp_path):
        """One line says so."""
        code, _, err = run("recover", tmp_path / "nothing")
        assert code == 2
        assert "expected a store root or an index directory" in err

    def test_a_file_that_went_on_is_refused_with_what_to_remove(self, run, store):
        """The error names the file, and the commands that go on work as they are printed."""
        killed(APPEND_AND_DIE, store)
        last = max((store / "index").iterdir())
        data = bytearray(last.read_bytes())
        data[24:32] = (2 * 10**9).to_bytes(8, "big")
        last.write_bytes(data)
        code, _, err = run("recover", store)
        assert code == 2
        assert f"{last}: byte 0: expected the header that an interrupted write left" in err
        assert last.read_bytes() == data
        remove, verify = map(shlex.split, re.findall("`([^`]*)`", err))
        subprocess.run(remove, check=True)
        assert run("recover", store)[:2] == (0, "Nothing to undo\n")
        assert last.read_bytes() == data
        assert run(*verify[1:])[0] == 1


class TestDisk:
    """Errors of the disk name the file, and what is exchanged is on the disk before."""

    @pytest.mark.parametrize("name", ["pwrite", "fsync", "ftruncate"])
    def test_a_disk_that_fails_is_an_error_that_names_the_file(self, store, monkeypatch, name):
        """Calls that know only a descriptor say which file it was."""

        def fail(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        before = content(store / "index")
        monkeypatch.setattr(os, name, fail)
        with pytest.raises(OSError, match=r"No space left on device: .*rmqindex/") as caught:
            relayout_index(store, OTHER)
        assert Path(caught.value.filename).is_relative_to(staging_root(store / "index"))
        monkeypatch.undo()
        assert content(store / "index") == before
        relayout_index(store, OTHER)
        assert [path.name for path in store.iterdir() if path.name.startswith(".")] == []

    def test_new_queues_are_on_the_disk_before_the_old_ones_go(self, store, monkeypatch):
        """Every new file and directory is synced before the first folder is moved."""
        synced, moved = set(), []
        fsync, rename = os.fsync, Path.rename

        def see(descriptor):
            synced.add(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
            fsync(descriptor)

        def move(self, target):
            if not moved:
                new = store / ".consumequeue.rmqindex" / "new"
                moved.extend(str(path) for path in [new, *new.rglob("*")])
                assert set(moved) <= synced
            return rename(self, target)

        monkeypatch.setattr(os, "fsync", see)
        monkeypatch.setattr(Path, "rename", move)
        rebuild_consume_queues(store, store, replace=True, file_size=2000)
        assert len(moved) > 20

    def test_a_job_without_room_for_its_owner_leaves_nothing(self, store, monkeypatch):
        """A staging directory that cannot be made is taken away again."""
        fsync = os.fsync

        def fail(descriptor):
            if "owner.next" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match=r"owner\.next"):
            LocalStaging.create(store / "index", Owner.current())
        assert not staging_root(store / "index").exists()
        assert len(effective_listing(store / "index")) == 5
