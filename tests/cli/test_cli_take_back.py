"""A refused write leaves every byte as it was, and what it tells to type then works."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import struct
from collections import Counter

import pytest

from kinds import sampled
from limits import small
from permissions import mode_of
from rmqindex import sample_store

# Of the sample store, whose log has two files of this size.
GEOMETRY = ("--max-hash-slot-num", "97", "--max-index-num", "200", "--time-zone", "UTC")
FILE_SIZE = 65_536
DROP = ("--mode", "DROPMALFORMED")


def tree(root, *left_out):
    """Return all folders and the bytes of all files below a folder."""
    return {
        path.relative_to(root).as_posix(): None if path.is_dir() else path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path not in left_out
    }


@pytest.fixture
def store(tmp_path):
    """A copy of the sample store, with the lock that a broker's first start makes."""
    shutil.copytree(sample_store(), tmp_path / "all" / "store")
    (tmp_path / "all" / "store" / "lock").touch()
    return tmp_path / "all" / "store"


def log_files(store):
    """Return the files of the CommitLog, oldest first."""
    return sorted((store / "commitlog").iterdir())


def index_files(store):
    """Return the IndexFiles, oldest first."""
    return sorted((store / "index").iterdir())


def hole(store, at, size=2000):
    """Zero bytes of the log."""
    with log_files(store)[at // FILE_SIZE].open("r+b") as file:
        file.seek(at % FILE_SIZE)
        file.write(bytes(size))


LOGS = {
    "a hole at the start": lambda store: hole(store, 0),
    "a hole in the middle": lambda store: hole(store, 40_000),
    "a hole in the newest file": lambda store: hole(store, FILE_SIZE + 20_000),
    "a hole at the end": lambda store: hole(store, FILE_SIZE + 57_000),
    "a lost end": lambda store: hole(store, FILE_SIZE + 30_000, FILE_SIZE - 30_000),
}


def no_index(store, _run):
    """Take the index away."""
    shutil.rmtree(store / "index")


def empty_index(store, run):
    """Leave its folder."""
    no_index(store, run)
    (store / "index").mkdir()


def first_files(store, _run):
    """Take the newest files away."""
    for path in index_files(store)[2:]:
        path.unlink()


def part_of_a_file(store, run):
    """End within a file."""
    no_index(store, run)
    assert run("rebuild", store, *GEOMETRY, "--to", 30_000)[0] == 0


def killed_within_a_put(store, run):
    """End within a file, as a broker leaves it that is killed before it counts an entry."""
    part_of_a_file(store, run)
    path = index_files(store)[-1]
    data = bytearray(path.read_bytes())
    (count,) = struct.unpack_from(">i", data, 36)
    struct.pack_into(">i", data, 40 + 4 * 5, count)
    struct.pack_into(">iqii", data, 40 + 4 * 97 + 20 * count, 97 + 5, 29_999, 1, 0)
    path.write_bytes(data)


def without_entries(store, run):
    """End in a file without a byte, as a rebuild may leave it where the power fails."""
    first_files(store, run)
    (store / "index" / "20261122000000000").touch()


INDEXES = {
    "none": no_index,
    "an empty folder": empty_index,
    "its first files": first_files,
    "a part of a file": part_of_a_file,
    "an uncounted entry": killed_within_a_put,
    "a file without entries": without_entries,
}


def entries(run, store):
    """Return offsets and hashes of all entries, counted."""
    code, out, err = run("scan", store, "--json")
    assert (code, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    return Counter((row["phy_offset"], row["key_hash"]) for row in rows)


def told(command, error):
    """Return a command again, with what its refusal tells to give."""
    if DROP[1] not in command and ("DROPMALFORMED" in error or "/commitlog/" in error):
        return [*command, *DROP]
    if "--allow-loss" in error:
        return [*command, "--allow-loss"]
    assert "--replace" in error
    return [*(part for part in command if part != "--resume"), "--replace"]


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("log", sampled(LOGS, *list(LOGS)[:1]))
@small(flush_entries=30)  # several flushes of each file
def test_a_refused_rebuild_in_place_leaves_nothing_behind_and_its_remedy_works(
    run, store, log, index
):
    """What its refusals tell to give, one after the other, indexes what the log still has."""
    INDEXES[index](store, run)
    LOGS[log](store)
    other = shutil.copytree(store, store.parents[1] / "other")
    shutil.rmtree(other / "index", ignore_errors=True)
    assert run("rebuild", other, *GEOMETRY, *DROP)[0] == 0
    before = tree(store.parent)
    is_there = (store / "index").exists() and any(index_files(store))
    command = ["rebuild", store, *GEOMETRY, *(["--resume"] if is_there else [])]
    refusals = 0
    while (end := run(*command))[0] == 2:
        assert tree(store.parent) == before
        command = told(command, end[2])
        refusals += 1
    assert refusals
    assert entries(run, store) >= entries(run, other)


def test_where_no_name_is_left_the_last_file_is_as_it_was(run, store):
    """It had room for some entries, and the next file would need a name in the future."""
    part_of_a_file(store, run)
    last = index_files(store)[-1]
    last.rename(last.with_name("20991231235959999"))
    before = tree(store.parent)
    code, _, err = run("rebuild", store, *GEOMETRY, "--resume")
    assert code == 2
    assert "no name is left" in err
    assert tree(store.parent) == before
    assert run("rebuild", store, *GEOMETRY, "--replace")[0] == 0
    assert entries(run, store).total() == 959


@pytest.mark.parametrize(
    "command",
    [
        ["rebuild", "STORE", *GEOMETRY, "--out", "NEW/deep/index"],
        ["rebuild-queues", "STORE", "--out", "NEW/deep"],
        ["export", "STORE", "NEW/deep"],
    ],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize("log", LOGS)
def test_a_refused_command_leaves_no_new_folder(run, store, log, command):
    """Nor the ones that it made for it; in the mode that it names it makes them all."""
    LOGS[log](store)
    before = tree(store.parent)
    typed = [
        part.replace("STORE", str(store)).replace("NEW", str(store.parent / "new"))
        for part in command
    ]
    code, _, err = run(*typed)
    assert code == 2, err
    assert tree(store.parent) == before
    assert run(*typed, *DROP)[0] == 0
    assert (store.parent / "new" / "deep").exists()


@pytest.mark.parametrize("what", ["unreadable", "a pipe"])
@pytest.mark.parametrize(
    "command",
    [["rebuild"], ["rebuild", "--replace"], ["relayout", "--slots", "10", "--entries", "40"]],
    ids=" ".join,
)
def test_a_checkpoint_that_cannot_be_raised_is_named_before_anything_is_changed(
    run, store, command, what
):
    """With what it is for, and what to do."""
    name, *options = command
    if command == ["rebuild"]:
        no_index(store, run)
    checkpoint = store / "checkpoint"
    if what == "a pipe":
        checkpoint.unlink()
        os.mkfifo(checkpoint)
    typed = [name, store, *(GEOMETRY if name == "rebuild" else []), *options]
    before = tree(store, checkpoint)
    with contextlib.nullcontext() if what == "a pipe" else mode_of(checkpoint, 0):
        code, _, err = run(*typed)
        assert code == 2
        assert str(checkpoint) in err
        assert "a broker that starts after a crash keeps the IndexFiles" in err
        assert tree(store, checkpoint) == before
        assert ("--no-checkpoint" in err) == (name == "rebuild")
        if name == "rebuild":
            assert run(*typed, "--no-checkpoint")[0] == 0
