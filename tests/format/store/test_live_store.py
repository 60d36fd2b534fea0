"""A store that a broker holds is told from one that nobody holds."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rmqindex import RmqIndexError
from rmqindex.store.live_store import ensure_not_live

HOLD_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, int(sys.argv[3]), int(sys.argv[2]))
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path):
    """A store that was stopped cleanly."""
    (tmp_path / "index").mkdir()
    (tmp_path / "lock").write_bytes(b"lock")
    return tmp_path


@pytest.fixture
def hold_lock(store):
    """Return a function that has another process lock bytes of the store's lock file."""
    holders = []

    def hold(start=0, length=1):
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD_LOCK, str(store / "lock"), str(start), str(length)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        holders.append(holder)
        assert holder.stdout.readline() == "locked\n"
        return holder

    yield hold
    for holder in holders:
        holder.communicate("")


def test_a_stopped_store_may_be_written(store):
    """The lock file alone, which the broker leaves, says nothing."""
    ensure_not_live(store / "index")


def test_a_directory_without_a_store_may_be_written(tmp_path):
    """A bare index directory, there or not."""
    ensure_not_live(tmp_path / "anything")


def test_a_locked_store_is_refused_with_the_holder(store, hold_lock):
    """The message names the lock file and the process, and the lock's end is noticed."""
    holder = hold_lock()
    with pytest.raises(RmqIndexError, match=rf"{store / 'lock'}: .* held by process {holder.pid}"):
        ensure_not_live(store / "index")
    holder.communicate("")
    ensure_not_live(store / "index")


def test_a_lock_on_other_bytes_is_not_the_brokers(store, hold_lock):
    """The broker locks the first byte."""
    hold_lock(start=1)
    ensure_not_live(store / "index")


def test_looking_does_not_take_the_lock(store):
    """A broker may start at the very moment."""
    before = (store / "lock").stat()
    ensure_not_live(store / "index")
    after = (store / "lock").stat()
    assert (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)


def test_a_store_that_did_not_stop_cleanly_is_refused(store):
    """``abort`` is there from start to clean stop."""
    (store / "abort").write_text("4711")
    with pytest.raises(RmqIndexError, match=rf"{store / 'abort'}: expected no such file"):
        ensure_not_live(store / "index")


def test_a_linked_index_is_judged_by_both_its_parents(store, tmp_path):
    """The broker comes by the link, and the target may belong to another store."""
    elsewhere = tmp_path / "elsewhere" / "index"
    elsewhere.mkdir(parents=True)
    (store / "index").rmdir()
    (store / "index").symlink_to(elsewhere)
    ensure_not_live(store / "index")
    (store / "abort").touch()
    with pytest.raises(RmqIndexError, match="abort"):
        ensure_not_live(store / "index")
    (store / "abort").rename(elsewhere.parent / "abort")
    with pytest.raises(RmqIndexError, match="abort"):
        ensure_not_live(store / "index")


def test_relative_paths_are_judged_from_here(store, monkeypatch):
    """``.`` inside the index directory is the index directory."""
    (store / "abort").touch()
    monkeypatch.chdir(store / "index")
    with pytest.raises(RmqIndexError, match="abort"):
        ensure_not_live(os.curdir)
