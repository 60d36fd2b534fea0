"""Going on with an index: what its last message has too much, and what readers find meanwhile."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from commitlog_encoder import Log, Message, properties_text
from rmqindex import (
    CorruptIndexError,
    IndexFile,
    IndexFileWriter,
    Layout,
    RmqIndexError,
    rebuild_index,
    sample_store,
    verify,
)
from rmqindex.bulk import IndexState
from rmqindex.bulk import rebuild as rebuild_module
from rmqindex.storage import Location
from rmqindex.store import open_in_store
from rmqindex.transaction import effective_listing

LAYOUT = Layout(97, 200)
STORE = sample_store()


def entries(directory):
    """Return hash and offset of all entries, counted."""
    found = Counter()
    for path in directory.iterdir():
        with IndexFile(path, LAYOUT) as file:
            for batch in file.scan(columns=["key_hash", "phy_offset"]):
                found.update((row["key_hash"], row["phy_offset"]) for row in batch.to_pylist())
    return found


@pytest.mark.parametrize("more", [["uniq", "again"], ["member"]])
def test_what_the_last_message_has_too_much_takes_nothing_from_the_next(tmp_path, more):
    """A broker indexes it twice after a crash, and members of a batch have keys of their own."""
    index = tmp_path / "index"
    stop = 40_000
    done = rebuild_index(STORE, index, LAYOUT, stop=stop)
    with IndexFile(done.files[-1], LAYOUT) as file:
        offset, time = file.header.end_phy_offset, file.header.end_timestamp
    with IndexFileWriter(done.files[-1], LAYOUT) as writer:
        written = [writer.put(f"TopicTest#{key}", offset, time) for key in [*more, *"abcdefgh"]]
    assert all(written)
    extra = entries(index)
    rebuild_index(STORE, index, resume=True)
    assert entries(STORE / "index") - entries(index) == Counter()
    assert entries(index) - entries(STORE / "index") == extra - entries(STORE / "index")


def test_a_dry_run_calls_nothing_lost_that_a_broker_adds_meanwhile(tmp_path):
    """It compares what the index had when the log was opened."""
    index, stop = tmp_path / "index", 40_000
    newest = max(rebuild_index(STORE, index, LAYOUT, stop=stop).files)
    added = []

    def add(*_):
        with IndexFileWriter(newest, LAYOUT) as writer:
            added.append(writer.put("TopicTest#later", stop, 1700000100000))

    whole = rebuild_index(
        STORE, index, replace=True, dry_run=True, stop=stop, time_zone="UTC", progress=add
    )
    assert any(added)
    assert whole.refusal is None
    assert whole.replacement.lost is None
    whole = rebuild_index(STORE, index, replace=True, dry_run=True, stop=stop, time_zone="UTC")
    assert whole.replacement.lost.count == len(added)


def test_a_resume_behind_a_last_name_that_is_not_the_newest_is_refused(tmp_path):
    """A clock stepped back: what stands behind that name has entries in another file."""
    index = tmp_path / "index"
    files = sorted(rebuild_index(STORE, index, LAYOUT).files)
    earlier = files[0].with_name(str(int(files[0].name) - 1))
    files[-1].rename(earlier)
    before = entries(index)
    with pytest.raises(RmqIndexError, match=rf"{files[-2].name}: .* in {earlier.name}, .*clock"):
        rebuild_index(STORE, index, resume=True)
    assert entries(index) == before
    earlier.unlink()
    rebuild_index(STORE, index, resume=True)
    assert entries(index) == before


def test_a_resume_goes_on_behind_files_whose_names_are_in_another_order(tmp_path):
    """All of their entries are there."""
    index = tmp_path / "index"
    files = sorted(rebuild_index(STORE, index, LAYOUT, stop=100_000).files)
    assert len(files) > 2
    files[1].rename(files[0].with_name(str(int(files[0].name) - 1)))
    rebuild_index(STORE, index, resume=True)
    assert entries(index) == entries(STORE / "index")


@pytest.mark.parametrize("count", [0, 1, 60])
def test_a_resume_goes_on_behind_no_file_whose_count_its_slots_contradict(tmp_path, count):
    """Else what it does not count stays in the index for no reader, and is written again."""
    index = tmp_path / "index"
    layout = Layout(97, 2000)
    (file,) = rebuild_index(STORE, index, layout, stop=40_000).files
    with file.open("r+b") as stream:
        stream.seek(36)
        stream.write(count.to_bytes(4, "big"))
    before = file.read_bytes()
    with pytest.raises(CorruptIndexError, match=r"index_count at byte 36: expected more than "):
        rebuild_index(STORE, index, layout, resume=True)
    assert [path.read_bytes() for path in index.iterdir()] == [before]
    with pytest.raises(CorruptIndexError, match=r"index_count at byte 36: expected more than "):
        IndexState.read(index, layout)  # as Spark's writes do, which would put rows over them


@pytest.fixture
def expired(tmp_path):
    """Return a store whose oldest messages have expired, and its one IndexFile.

    Each message has four entries.
    """
    written = Log(file_size=1 << 12)
    for number in range(40):
        properties = properties_text([("UNIQ_KEY", f"u{number}"), ("KEYS", "a b c")])
        time = 1_700_000_000_000 + 60_000 * number
        written.append(Message("T", properties=properties, store_timestamp=time))
    oldest = min(written.write_to(tmp_path / "commitlog").iterdir())
    (file,) = rebuild_index(tmp_path, tmp_path / "index", LAYOUT).files
    oldest.unlink()
    return tmp_path, file


@pytest.mark.parametrize("position", [2, 3, 7])
def test_a_time_that_the_other_entries_of_an_expired_message_contradict_is_mended(
    expired, position
):
    """They are all put with the one store time of the message."""
    root, file = expired
    before = file.read_bytes()
    byte = LAYOUT.entry_offset(position) + 12
    file.write_bytes(before[:byte] + b"\x01" + before[byte + 1 :])
    found = {(row["rule"], row["byte"]) for row in verify(root, "auto").to_pylist()}
    assert ("time_diff", byte) in found
    (mended,) = rebuild_index(root, root / "index", LAYOUT, replace=True).files
    assert mended.read_bytes() == before


def test_a_begin_of_expired_messages_that_no_engine_has_is_taken_from_the_end(expired):
    """Spark and Arrow count times in microseconds, of 64 bits."""
    root, file = expired
    before = file.read_bytes()
    file.write_bytes(b"\x08" + before[1:])
    (mended,) = rebuild_index(root, root / "index", LAYOUT, replace=True).files
    assert mended.read_bytes() == before


def test_a_time_that_nothing_contradicts_is_kept(expired):
    """The last entries of a message may be of another one, which was stored in its place."""
    root, file = expired
    byte = LAYOUT.entry_offset(8) + 12
    damaged = file.read_bytes()[:byte] + b"\x01" + file.read_bytes()[byte + 1 :]
    file.write_bytes(damaged)
    assert "error" not in verify(root, "auto")["severity"].to_pylist()
    (kept,) = rebuild_index(root, root / "index", LAYOUT, replace=True).files
    assert kept.read_bytes() == damaged


def test_files_of_several_geometries_do_not_say_which_is_the_brokers(tmp_path):
    """A file that is longer by an entry seems to have been made for one more."""
    written = Log(file_size=1 << 16)
    for number in range(300):
        properties = properties_text([("KEYS", f"k{number}")])
        written.append(Message("T", properties=properties, store_timestamp=10**12 + number))
    written.write_to(tmp_path / "commitlog")
    files = rebuild_index(tmp_path, tmp_path / "index", LAYOUT).files
    before = [file.read_bytes() for file in files]
    files[-1].write_bytes(before[-1] + bytes(20))
    told = r"expected the 97 slots and 200 entries of \d+, got 97 and 201: say which with"
    with pytest.raises(RmqIndexError, match=told):
        rebuild_index(tmp_path, tmp_path / "index", replace=True)
    mended = rebuild_index(tmp_path, tmp_path / "index", LAYOUT, replace=True).files
    assert [file.read_bytes() for file in mended] == before


def test_a_file_that_the_log_lacks_is_told_where_no_entry_points_into_it(tmp_path):
    """What is made anew of such a log has no entry of what was lost."""
    written = Log(file_size=1 << 12)
    for number in range(120):
        properties = properties_text([("KEYS", f"k{number}")])
        written.append(Message("T", properties=properties, store_timestamp=10**12 + number))
    _, lost, behind, *_ = sorted(written.write_to(tmp_path / "commitlog").iterdir())
    lost.unlink()
    rebuild_index(tmp_path, tmp_path / "index", LAYOUT)
    found = {row["rule"]: row for row in verify(tmp_path, "auto").to_pylist()}["log_damaged"]
    assert (found["severity"], found["file"]) == ("error", str(behind))
    assert found["expected"] == f"a file before it, from {1 << 12}"


CHANGES = ("pwrite", "ftruncate", "rename", "replace", "link", "unlink", "mkdir", "fdatasync")


def watch(monkeypatch, look):
    """Have ``look`` called before each call that changes a file, and after the last one."""

    def watched(function):
        def call(*arguments, **options):
            with monkeypatch.context() as undisturbed:
                for name, plain in plains.items():
                    undisturbed.setattr(os, name, plain)
                look()
            return function(*arguments, **options)

        return call

    plains = {name: getattr(os, name) for name in CHANGES}
    for name, plain in plains.items():
        monkeypatch.setattr(os, name, watched(plain))


@pytest.mark.parametrize("flush_entries", [4_000_000, 30], ids=["files", "parts of files"])
def test_readers_find_a_beginning_of_the_entries_at_every_moment_of_a_rebuild(
    tmp_path, monkeypatch, flush_entries
):
    """Whatever call it dies before: no file without a header, and no chain into what is not there.

    What the rebuild goes on with in place was visible before, and must stay so.
    """
    whole = Path(STORE) / "index"
    wanted = [row for path in sorted(whole.iterdir()) for row in chained(path)]
    index = tmp_path / "index"
    counts = []

    def look():
        found = []
        if index.exists():
            for _, path in sorted(effective_listing(index).items()):
                found += chained(path)
        assert found == wanted[: len(found)]
        counts.append(len(found))

    monkeypatch.setattr(rebuild_module, "_FLUSH_ENTRIES", flush_entries)
    with monkeypatch.context() as during:
        watch(during, look)
        rebuild_index(STORE, index, LAYOUT, stop=40_000)
        rebuild_index(STORE, index, resume=True)
    look()
    assert counts == sorted(counts)
    assert counts[-1] == len(wanted)


def mounted(monkeypatch, folder):
    """Have a folder be on another file system than the one that it is in."""
    stat = Path.stat

    def told(path, **options):
        found = stat(path, **options)
        if path != folder:
            return found
        fields = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
        return SimpleNamespace(**{**fields, "st_dev": found.st_dev + 1})

    monkeypatch.setattr(Path, "stat", told)


@pytest.mark.parametrize("begun", ["by a broker", "on a mount point"])
def test_readers_find_a_beginning_while_a_file_without_entries_gets_its_first(
    tmp_path, monkeypatch, begun
):
    """It has its name before its entries, so that its slots must not lead beyond the count."""
    index = tmp_path / "index"
    if begun == "by a broker":
        done = rebuild_index(STORE, index, LAYOUT, stop=40_000)
        names = sorted(path.name for path in done.files)
        (index / names[-1]).unlink()
        with IndexFile(index / names[-2], LAYOUT) as last:
            header = last.header
        IndexFileWriter(
            index / names[-1], LAYOUT, header.end_phy_offset, header.end_timestamp
        ).close()
    else:
        index.mkdir()
        mounted(monkeypatch, index)
    wanted = [row for path in sorted((STORE / "index").iterdir()) for row in chained(path)]
    counts = []

    def look():
        listing = sorted(effective_listing(index).items()) if index.exists() else []
        found = [row for _, path in listing if path.stat().st_size for row in chained(path)]
        assert found == wanted[: len(found)]
        counts.append(len(found))

    with monkeypatch.context() as during:
        watch(during, look)
        rebuild_index(STORE, index, LAYOUT, resume=begun == "by a broker")
    look()
    assert counts == sorted(counts)
    assert counts[-1] == len(wanted)


def chained(path):
    """Return the entries of a file as readers open it, after every one was found by its slot."""
    with open_in_store(Location.of(path), LAYOUT, "FAILFAST") as file:
        found = [
            row for b in file.scan(columns=["key_hash", "phy_offset"]) for row in b.to_pylist()
        ]
        hashes = sorted({row["key_hash"] for row in found})
        assert file.lookup(hashes).num_rows == len(found)
    return found
