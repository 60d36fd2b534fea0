"""The recorder hears every kind of call that changes files, and a record gives what is there."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from .recorded import Recorder, failing, tree_of
from .states import tree_of_nodes

pytestmark = pytest.mark.system


def _names(folder):
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "file").touch()
    (folder / "file").rename(folder / "a" / "moved")
    os.link(folder / "a" / "moved", folder / "second")
    os.rename(folder / "second", folder / "a" / "moved")  # two names of one file: nothing changes
    (folder / "second").write_text("both names")
    (folder / "old").write_text("replaced")
    (folder / "second").replace(folder / "old")
    (folder / "link").symlink_to("old")
    (folder / "a" / "b").rename(folder / "c")
    (folder / "c").rmdir()
    Path(folder / "a" / "moved").unlink()
    os.makedirs(folder / "x" / "y" / "z")
    os.removedirs(folder / "x" / "y" / "z")
    with open(folder / "link", "a") as file:  # goes to what it leads to
        file.write("more")


def _descriptors(folder):
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.mkdir("below", dir_fd=at)
    file = os.open("below/file", os.O_RDWR | os.O_CREAT, dir_fd=at)
    os.write(file, b"hello")
    os.writev(file, [b"a", b"bc"])
    os.pwrite(file, b"far", 100)
    os.pwritev(file, [b"1", b"23"], 50)
    os.ftruncate(file, 101)
    os.posix_fallocate(file, 0, 300)
    os.fsync(file)
    os.fdatasync(file)
    other = os.open("other", os.O_WRONLY | os.O_CREAT, dir_fd=at)
    os.sendfile(other, file, 0, 30)
    ended = os.open("other", os.O_WRONLY | os.O_APPEND, dir_fd=at)
    os.write(ended, b"at the end")
    copy = os.open("copy", os.O_WRONLY | os.O_CREAT, dir_fd=at)
    os.copy_file_range(file, copy, 20, 3)
    os.truncate(f"/proc/self/fd/{copy}", 7)
    os.rename("other", "below/renamed", src_dir_fd=at, dst_dir_fd=at)
    os.unlink("copy", dir_fd=at)
    os.fsync(at)
    os.sync()
    for each in (file, other, ended, copy, at):
        os.close(each)


def _files(folder):
    (folder / "text").write_text("one\ntwo\n")
    with (folder / "text").open("r+b", buffering=0) as file:
        file.write(b"ONE")
        file.truncate(6)
    with open(folder / "lines", "w", buffering=1, newline="\r\n") as file:
        file.write("a\nb\n")
    with open(folder / "text", "w+b") as file:
        file.write(bytes(100_000))
        file.seek(10)
        file.write(b"x" * 10)
    with os.fdopen(os.open(folder / "by-descriptor", os.O_RDWR | os.O_CREAT), "wb") as file:
        file.write(b"data")
    descriptor, _ = tempfile.mkstemp(dir=folder)
    os.close(descriptor)
    with tempfile.TemporaryDirectory(dir=folder) as below:
        Path(below, "file").touch()


def _copies(folder):
    (folder / "tree" / "deep").mkdir(parents=True)
    (folder / "tree" / "deep" / "file").write_bytes(b"12" * 5000)
    shutil.copytree(folder / "tree", folder / "copied")
    shutil.move(folder / "tree" / "deep" / "file", folder / "moved")
    shutil.copyfile(folder / "moved", folder / "again")
    shutil.rmtree(folder / "tree")


def _arrow(folder):
    table = pa.table({"number": range(1000), "text": ["ab"] * 1000})
    with open(folder / "a.parquet", "wb") as file:
        parquet.write_table(table, file)
    with open(folder / "a.csv", "wb") as file, csv.CSVWriter(file, table.schema) as writer:
        writer.write_table(table)


@pytest.mark.parametrize("change", [_names, _descriptors, _files, _copies, _arrow])
def test_a_record_gives_what_the_calls_left(change, tmp_path):
    """A record gives what the calls left, byte by byte."""
    (tmp_path / "there").write_text("before")
    with Recorder(tmp_path) as recorder:
        change(tmp_path)
    assert tree_of_nodes(recorder.record.replayed()) == tree_of(tmp_path)
    assert len(recorder.calls) == len(recorder.changes) > 3
    assert os.open.__name__ == "open"
    assert "Recorder" not in repr(os.open)


def test_calls_elsewhere_are_not_heard(tmp_path):
    """Calls elsewhere are not heard."""
    (tmp_path / "here").mkdir()
    with Recorder(tmp_path / "here") as recorder:
        (tmp_path / "elsewhere").write_text("x")
        (tmp_path / "elsewhere").rename(tmp_path / "other")
    assert not recorder.calls


def test_each_call_can_fail_and_then_changes_nothing(tmp_path):
    """Each call can fail, as the disk would let it, and then changes nothing."""
    with Recorder(tmp_path) as recorder:
        (tmp_path / "file").write_text("x")
    names = [call.name for call in recorder.calls]
    assert names == ["os.open", "write"]
    (tmp_path / "file").unlink()
    for number, errors_name in ((1, str(tmp_path / "file")), (2, None)):
        with (
            Recorder(tmp_path, failing(number, errno.ENOSPC)) as recorder,
            pytest.raises(OSError, match="No space left") as raised,
        ):
            (tmp_path / "file").write_text("x")
        assert raised.value.errno == errno.ENOSPC
        assert raised.value.filename == errors_name
        assert recorder.changes[number - 1] == ()
        assert tree_of_nodes(recorder.record.replayed()) == tree_of(tmp_path)


def test_a_scheduler_decides_which_thread_goes_on(tmp_path):
    """A scheduler decides which thread goes on."""
    turns = {name: threading.Semaphore(0) for name in "ab"}
    waits = {name: threading.Semaphore(0) for name in "ab"}
    done = []

    def before(_call):
        name = threading.current_thread().name
        waits[name].release()
        turns[name].acquire()

    def user():
        name = threading.current_thread().name
        for number in range(3):
            (tmp_path / f"{name}{number}").mkdir()
            done.append(name)
        waits[name].release()

    with Recorder(tmp_path, before):
        threads = [threading.Thread(target=user, name=name) for name in "ab"]
        for thread in threads:
            thread.start()
        for name in "ab":
            waits[name].acquire()
        for name in "aabbab":
            turns[name].release()
            waits[name].acquire()
        for thread in threads:
            thread.join()
    assert "".join(done) == "aabbab"


def test_reads_are_handed_over_where_asked_for(tmp_path):
    """Reads are handed over where asked for, and have no numbers."""
    (tmp_path / "file").write_text("x")
    seen = []
    with Recorder(
        tmp_path, lambda call: seen.append((call.name, call.reads)), reads=True
    ) as recorder:
        (tmp_path / "file").read_text()
        os.listdir(tmp_path)
        list(os.scandir(tmp_path))
        (tmp_path / "file").write_text("y")
    assert seen == [
        ("os.open", True),
        ("os.listdir", True),
        ("os.scandir", True),
        ("os.open", False),
        ("write", False),
    ]
    assert [call.number for call in recorder.calls] == [1, 2]
