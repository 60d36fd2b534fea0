"""Readers of an index to which a whole commit comes between the listing and the opening."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pytest

from appends import append_of
from rmqindex import (
    IndexDirectory,
    IndexFileWriter,
    Layout,
    RmqIndexError,
    explain_lookup,
    index_key,
    key_hash,
    relayout_index,
)
from rmqindex.query import lookup_keys
from rmqindex.store import store as paths
from rmqindex.transaction import LocalStaging, Owner

LAYOUT = Layout(7, 12)
START = 1_700_000_000_000
HASH = key_hash(index_key("T", "k"))
FIRST, LAST, NEXT = "20231114221320000", "20231114221321000", "20231114221322000"


def write(path, offsets, layout=LAYOUT):
    """Write an IndexFile of one key, whose messages start at these offsets."""
    with IndexFileWriter(path, layout) as writer:
        for offset in offsets:
            writer.put("T#k", offset, START + offset)


def commit(directory, new, removed, append=None):
    """Run a whole commit of this project's writers."""
    staging = LocalStaging.create(directory, Owner.current())
    staged = []
    for name, offsets in new.items():
        write(staging.path / f"staged-{name}", offsets)
        staged.append((staging.path / f"staged-{name}", name))
    with staging.exclusive():
        staging.commit(staged, removed, append=append)
    staging.discard()


def append_in_place(directory):
    """Continue the last file where it stands, and add one."""
    append = append_of(directory / LAST, LAYOUT, [HASH], [600], [START + 600])
    commit(directory, {NEXT: [700]}, [], append)


def append_in_a_copy(directory):
    """Replace the last file by a longer copy, and add one."""
    commit(directory, {LAST: [300, 400, 600], NEXT: [700]}, [LAST])


def overwrite(directory):
    """Replace every file by another one of its name."""
    commit(directory, {FIRST: [600], LAST: [700]}, [FIRST, LAST])


def relayout(directory):
    """Give the index another geometry."""
    relayout_index(directory, Layout(11, 30), commit_log=None, time_zone="UTC")


WRITES = [append_in_place, append_in_a_copy, overwrite, relayout]


def lookup(directory, _run):
    """Look the key up in every file."""
    return sorted(found_in(plan(directory)))


def found_in(files, max_num=None):
    """Return the offsets of the key's entries, newest first."""
    found = lookup_keys(files, None, "T", pa.array(["k"]), max_num=max_num)
    return found["phy_offset"].to_pylist()


def offsets_of(files):
    """Return the offsets of all entries, as far as the files were counted."""
    found = []
    for planned in files:
        if not planned.is_empty:
            with planned.open() as file:
                found += [
                    o
                    for batch in file.scan(stop=planned.stop)
                    for o in batch["phy_offset"].to_pylist()
                ]
    return found


def printed(run, *arguments):
    """Run a command, and return what it prints; what it refuses is an error here."""
    code, out, err = run(*arguments, "--json")
    if code == 2:
        raise RmqIndexError(err)
    return out


def scan(directory, run):
    """Read every entry."""
    lines = printed(run, "scan", directory).splitlines()
    return [json.loads(line)["phy_offset"] for line in lines]


def salvage(directory, run):
    """Read every entry, and believe no slot or link."""
    lines = printed(run, "scan", directory, "--salvage").splitlines()
    return [json.loads(line)["phy_offset"] for line in lines]


def explain(directory, _run):
    """Ask why the key has the hits it has."""
    explained = explain_lookup(directory, "T", "k")
    assert {file.reason for file in explained.files} == {"hit"}
    assert all(file.chain_length == len(file.hits) for file in explained.files)
    return sorted(hit.phy_offset for hit in explained.hits)


def info(directory, run):
    """Ask what is in the files, by their headers."""
    files = json.loads(printed(run, "info", directory))["files"]
    assert [file["error"] for file in files] == [None] * len(files)
    fields = ("begin_phy_offset", "end_phy_offset", "entry_count")
    return [tuple(file[name] for name in fields) for file in files]


def broker(directory, _run):
    """Ask as the broker does."""
    with IndexDirectory(directory) as index:
        return sorted(index.query_offset("T", "k", 64, 0, 2 * START).phy_offsets)


def plan(directory):
    """List the files."""
    from rmqindex.store.snapshot import IndexSnapshot

    return IndexSnapshot.of(directory, None, "FAILFAST")


READS = [lookup, scan, salvage, explain, info, broker]


@pytest.fixture
def index(tmp_path):
    """An index of two files, the last of which has room."""
    directory = tmp_path / "index"
    directory.mkdir()
    write(directory / FIRST, [100, 200])
    write(directory / LAST, [300, 400])
    return directory


@pytest.fixture
def after_listing(monkeypatch):
    """A function that has a write run once, after a listing of so many."""

    def arrange(write, listings):
        left = [listings]
        original = paths.directory_entries

        def listing(directory):
            entries = original(directory)
            left[0] -= 1
            if left[0] == 0:
                write()
            return entries

        monkeypatch.setattr(paths, "directory_entries", listing)

    return arrange


@pytest.mark.parametrize("listings", [1, 2])
@pytest.mark.parametrize("change", WRITES)
@pytest.mark.parametrize("read", READS)
def test_an_answer_is_of_one_state_or_refused(
    index, tmp_path, run, after_listing, read, change, listings
):
    """Old rows, new rows, or an error that names the file and says what to do."""
    old = read(index, run)
    other = tmp_path / "other" / "index"
    shutil.copytree(index, other)
    change(other)
    new = read(other, run)
    done = []

    def write():
        done.append(change)
        change(index)

    after_listing(write, listings)
    try:
        found = read(index, run)
    except RmqIndexError as error:
        assert str(index) in str(error)  # noqa: PT017
        assert "run this again" in str(error)  # noqa: PT017
    else:
        assert found in (old, new)
    assert done


def test_files_without_entries_are_not_opened_again(index):
    """What has been listed as empty answers nothing, also where it is filled meanwhile."""
    for name in (FIRST, LAST):
        (index / name).unlink()
        write(index / name, [])
    files = plan(index)
    (index / FIRST).unlink()
    write(index / LAST, [500])
    assert found_in(files) == []
    assert offsets_of(files) == []


def test_a_removed_file_is_named(index):
    """A file that was expired meanwhile is no answer."""
    files = plan(index)
    (index / FIRST).unlink()
    with pytest.raises(RmqIndexError, match=f"{FIRST}: the file was removed .* run this again"):
        found_in(files)


def test_entries_that_a_broker_appends_are_not_read(index):
    """Each file is read as far as it was counted, whatever is put into its slots."""
    files = plan(index)
    append_in_place(index)
    assert found_in(files) == [400, 300, 200, 100]
    assert offsets_of(files) == [100, 200, 300, 400]


def test_a_damaged_file_is_told_when_its_turn_comes(index):
    """What newer files hold is found before."""
    (index / FIRST).write_bytes(b"x" * 10)
    files = plan(index)
    assert found_in(files, 2) == [400, 300]
    with pytest.raises(RmqIndexError, match=FIRST):
        found_in(files, 3)
