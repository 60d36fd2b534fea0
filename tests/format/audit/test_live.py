"""The audit of a store into which a broker writes all the time: nothing false, nothing missed."""

from __future__ import annotations

import contextlib
import os
import random
import struct
import subprocess
import sys

import pytest

from file_reads import before_each_read
from kinds import sampled
from live_writer import LiveWriter
from other_broker import running_broker
from rmqindex import CommitLog, IndexFile, Layout, verify

LAYOUT = Layout(53, 400)
LOG_FILE_SIZE = 1 << 14
# What is true of a live store: a rolled file's first entry, the lag, and what expires.
TRUE = {
    "lock_held",
    "queues_missing",  # the writer makes none
    "first_entry_late",
    "index_lags",
    "entry_expired",
    "file_expired",
}


@pytest.fixture
def live(tmp_path):
    """Return what begins a store whose writer makes some steps before each read of the audit."""
    stack, writers = contextlib.ExitStack(), []

    def begin(steps, messages=400, **settings):
        writer = LiveWriter(tmp_path / "store", LAYOUT, LOG_FILE_SIZE, **settings)
        writers.append(writer)
        writer.write(messages)
        reads = ("__init__", "read", "slots", "entries")
        stack.enter_context(before_each_read(lambda *_: writer.step(steps), *reads))
        return writer

    with stack:
        yield begin
    for writer in writers:
        writer.close()


def found(writer, log="auto"):
    """Return the findings of an audit beside a running broker."""
    with running_broker(writer.store):
        return verify(writer.store, log).to_pylist()


def false(rows):
    """Return the findings that are not true of a live store."""
    return [row for row in rows if row["rule"] not in TRUE]


@pytest.mark.parametrize("lag", [0, 5])
@pytest.mark.parametrize("steps", sampled([1, 3, 20], 1, 3))
def test_nothing_false_is_found(live, steps, lag):
    """Whatever the broker stores between two reads: it fills files, and begins new ones."""
    writer = live(steps, lag=lag, seed=steps)
    before = len(list((writer.store / "index").iterdir()))
    for _ in range(3):
        assert false(found(writer)) == []
    if steps > 2:
        assert len(list((writer.store / "index").iterdir())) > before


@pytest.mark.parametrize("steps", sampled([3, 11], 3))
def test_nothing_false_is_found_while_files_expire(live, steps):
    """Log files go first, then the IndexFiles of their messages."""
    writer = live(steps, messages=900, log_files=6, seed=steps)
    first = min((writer.store / "index").iterdir())
    for _ in range(6):
        assert false(found(writer)) == []
    assert not first.exists()


@pytest.mark.parametrize("start", range(0, 60, 6))
def test_any_moment_will_do(live, start):
    """The audit begins in the midst of a put, of a roll or of an append."""
    writer = live(1, messages=150, seed=start)
    writer.step(start)
    assert false(found(writer)) == []
    assert false(found(writer, None)) == []
    with running_broker(writer.store):
        assert false(verify(writer.store, "auto", since=1_700_000_040_000).to_pylist()) == []


def test_a_writer_without_a_lock_is_noticed(live):
    """As one on another machine."""
    writer = live(2)
    (writer.store / "abort").unlink()
    assert false(verify(writer.store, "auto").to_pylist()) == []


_WRITE = """
import fcntl, sys
from pathlib import Path
from live_writer import LiveWriter
from rmqindex import Layout
store = Path(sys.argv[1])
writer = LiveWriter(store, Layout(1009, 4000), 1 << 18, log_files=12, lag=3)
lock = open(store / "lock", "w")
fcntl.lockf(lock, fcntl.LOCK_EX, 1)
writer.write(4000)
print("ready", flush=True)
writer.write(200_000)
"""


@pytest.mark.system
def test_a_process_that_writes_all_the_time(tmp_path):
    """At its own pace, over the ends of files, and files expire."""
    store = tmp_path / "store"
    with subprocess.Popen(
        [sys.executable, "-c", _WRITE, str(store)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            for _ in range(10):
                assert false(verify(store, "auto").to_pylist()) == []
        finally:
            process.kill()


def test_the_store_is_sound_when_the_writer_rests(live):
    """What was judged leniently is whole then."""
    writer = live(0)
    writer.settle()
    (writer.store / "abort").unlink()
    rules = {row["rule"] for row in verify(writer.store, "auto").to_pylist()}
    assert rules <= TRUE


def counted(path):
    """Return how many entries a file has."""
    with IndexFile(path, LAYOUT) as file:
        return file.header.entry_count


def plant(path, kind, rng):
    """Damage a counted entry, or what leads to one."""
    data = bytearray(path.read_bytes())
    position = rng.randrange(2, counted(path) - 10)
    entry = LAYOUT.entry_offset(position)
    key_hash, offset, seconds, prev = struct.unpack_from(">iqii", data, entry)
    slot = LAYOUT.slot_offset(key_hash % LAYOUT.hash_slot_num)
    place, value = {
        "slot to an older entry": (slot, struct.pack(">i", 1)),
        "empty slot": (slot, bytes(4)),
        "slot beyond the file": (slot, struct.pack(">i", 100_000)),
        "slot to a place not written": (slot, struct.pack(">i", LAYOUT.index_num - 1)),
        "negative slot": (slot, struct.pack(">i", -5)),
        "link": (entry + 16, struct.pack(">i", prev // 2 if prev > 3 else position)),
        "hash": (entry, struct.pack(">i", key_hash ^ 1)),
        "offset": (entry + 4, struct.pack(">q", offset + 1)),
        "seconds": (entry + 12, struct.pack(">i", seconds + 7)),
        "zeros": (entry, bytes(20)),
        "begin time": (0, struct.pack(">q", 5)),
        "begin offset": (16, struct.pack(">q", 5)),
    }[kind]
    with path.open("r+b") as file:
        file.seek(place)
        file.write(value)


KINDS = (
    "slot to an older entry",
    "empty slot",
    "slot beyond the file",
    "slot to a place not written",
    "negative slot",
    "link",
    "hash",
    "offset",
    "seconds",
    "zeros",
    "begin time",
    "begin offset",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", sampled([0, -1], -1))
def test_planted_damage_is_found(live, kind, place):
    """In the file that is written to, and in one that is full."""
    writer = live(2, messages=420, seed=3)
    path = sorted((writer.store / "index").iterdir())[place]
    assert counted(path) > 60
    plant(path, kind, random.Random(1))
    errors = [row for row in found(writer) if row["severity"] == "error"]
    assert errors
    assert {row["file"] for row in errors} <= {str(path), *map(str, path.parent.iterdir())}


def test_a_lost_file_is_found(live):
    """Of the middle, while the others go on."""
    writer = live(2, messages=700)
    sorted((writer.store / "index").iterdir())[1].unlink()
    assert "coverage_gap" in {row["rule"] for row in found(writer)}


def test_a_damaged_log_is_found(live):
    """Before the end of the index."""
    writer = live(2)
    with CommitLog(writer.store) as log, log.files[0].path.local.open("r+b") as file:
        file.seek(3000)
        file.write(b"\xff" * 600)
    assert "log_damaged" in {row["rule"] for row in found(writer)}


def test_the_first_entry_of_a_store_is_written_before_it_is_counted(live, tmp_path):
    """No file shows the geometry yet; once the broker has died, the count is damaged."""
    writer = live(0, messages=2, lag=0)
    writer.settle()
    (path,) = (writer.store / "index").iterdir()
    with path.open("r+b") as file:
        file.write(bytes(40))
    with running_broker(writer.store):
        assert not [row for row in verify(writer.store, None).to_pylist() if row["byte"] == 36]
    assert [
        row["rule"] for row in verify(tmp_path / "store", None).to_pylist() if row["byte"] == 36
    ]
