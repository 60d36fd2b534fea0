"""A rebuild in place that is refused undoes in one step what it made file by file."""

from __future__ import annotations

import os
import shutil

import pytest

from killing import before_each_step, kill_before, lives
from rmqindex import CorruptCommitLogError, IndexFile, Layout, RmqIndexError, rebuild_index
from rmqindex import sample_store as sample
from rmqindex.bulk import rebuild as rebuild_module
from rmqindex.transaction import effective_listing, recover, staging_root
from trees import files_of

LAYOUT = Layout(97, 200)
#: Where the log that refuses the rebuild is damaged, bytes in its second file.
HOLE = 20_000
#: How many of the last calls of a refused rebuild are looked at one by one.
UNDOING = 24


@pytest.fixture
def store(tmp_path):
    """A store whose index ends within a file, before a hole in the log."""
    root = shutil.copytree(sample(), tmp_path / "store")
    shutil.rmtree(root / "index")
    rebuild_index(root, root / "index", LAYOUT, stop=30_000)
    with max((root / "commitlog").iterdir()).open("r+b") as file:
        file.seek(HOLE)
        file.write(bytes(2000))
    return root


def go_on(root, fatal=None):
    """Go on with the index, which is refused; tell how many calls change files."""
    rebuild_module._FLUSH_ENTRIES = 100
    steps = []
    before_each_step(steps.append)
    if fatal is not None:
        kill_before(fatal)
    with pytest.raises(CorruptCommitLogError):
        rebuild_index(root, root / "index", LAYOUT, resume=True)
    (root.parent / "steps").write_text(str(len(steps)))


def listed(index):
    """Return how many entries readers find, each by its slot."""
    count = 0
    for path in effective_listing(index).values():
        with IndexFile(path, LAYOUT) as file:
            found = list(file.scan(columns=["key_hash"]))
            hashes = sorted({code for b in found for code in b["key_hash"].to_pylist()})
            total = sum(b.num_rows for b in found)
            assert file.lookup(hashes).num_rows == total
            count += total
    return count


def test_readers_find_more_and_more_and_then_at_once_what_was_there(store, monkeypatch):
    """Between any two calls that change files they find a sound index."""
    counts = []
    changes = ("pwrite", "rename", "replace", "link", "unlink", "mkdir", "fdatasync")
    plains = {name: getattr(os, name) for name in changes}

    def watched(name):
        def call(*arguments, **options):
            with monkeypatch.context() as undisturbed:
                for each, plain in plains.items():
                    undisturbed.setattr(os, each, plain)
                counts.append(listed(store / "index"))
            return plains[name](*arguments, **options)

        return call

    first = listed(store / "index")
    with monkeypatch.context() as during:
        during.setattr(rebuild_module, "_FLUSH_ENTRIES", 30)
        for name in changes:
            during.setattr(os, name, watched(name))
        with pytest.raises(CorruptCommitLogError):
            rebuild_index(store, store / "index", LAYOUT, resume=True)
    most = counts.index(max(counts))
    assert counts[0] == first < counts[most]
    assert counts[: most + 1] == sorted(counts[: most + 1])
    last = len(counts) - counts[::-1].index(counts[most])
    assert set(counts[most:last]) == {counts[most]}
    assert set(counts[last:]) == {first}


def test_a_kill_leaves_what_was_made_or_what_was_there(store):
    """Whatever call it comes before: what a killed rebuild made can be gone on with."""
    before = files_of(store)
    first = listed(store / "index")
    assert lives(go_on, shutil.copytree(store, store.parent / "whole"))
    steps = int((store.parent / "steps").read_text())
    counts = []
    for fatal in [*range(1, steps - UNDOING, 30), *range(steps - UNDOING, steps + 1)]:
        root = shutil.copytree(store, store.parent / f"killed-{fatal}")
        assert not lives(go_on, root, fatal)
        counts.append(listed(root / "index"))
        recover(root / "index")
        assert listed(root / "index") == counts[-1]
        if counts[-1] == first and max(counts) > first:
            assert files_of(root) == before
        shutil.rmtree(root)
    turned = len(counts) - counts[::-1].index(max(counts))
    assert counts[:turned] == sorted(counts[:turned])
    assert set(counts[turned:]) == {first}
    assert len(counts) - turned > 5


def test_what_another_program_went_on_with_is_not_taken_back(store, monkeypatch):
    """A broker that was allowed to run may have appended to the newest file."""
    flush = rebuild_module.FileRoller.flush

    def flush_and_append(roller):
        flush(roller)
        with roller.paths[-1].open("r+b") as file:
            header = bytearray(file.read(40))
            header[8] ^= 1  # of end_timestamp
            file.seek(0)
            file.write(header)

    monkeypatch.setattr(rebuild_module.FileRoller, "flush", flush_and_append)
    with pytest.raises(RmqIndexError):
        rebuild_index(store, store / "new" / "index", LAYOUT)
    assert len(list((store / "new" / "index").iterdir())) > 1
    assert not staging_root(store / "new" / "index").exists()
