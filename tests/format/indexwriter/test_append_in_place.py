"""Appending to a file where it stands: the bytes of one writer, undone without a trace."""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from killing import assert_one_turn, before_each_change, dies_before, kill_before, lives
from rmqindex import (
    CorruptIndexError,
    IndexDirectory,
    IndexFile,
    IndexFileWriter,
    IndexHeader,
    Layout,
    RmqIndexError,
    verify,
)
from rmqindex.indexfile import open_index_source
from rmqindex.indexwriter.appender import EntryAppender
from rmqindex.indexwriter.writer import InPlaceAppend
from rmqindex.transaction import LocalStaging, Owner, effective_listing, staging_root

NAME = "20240102030405678"
LAYOUT = Layout(7, 40)
BEGIN = 1_700_000_000_000


def entries_of(count, *, first=0, seed=1):
    """Return entries whose hashes collide and repeat."""
    random = np.random.default_rng(seed)
    numbers = np.arange(first, first + count)
    hashes = random.integers(0, 12, first + count)[first:].astype(np.int32)
    return hashes, numbers.astype(np.int64) * 100, BEGIN + numbers.astype(np.int64) * 700


def write_file(path, *entries, layout=LAYOUT, inherited=()):
    """Write a file in one go."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with IndexFileWriter(path, layout, *inherited) as writer:
        for each in entries:
            writer.put_many(*each)
    return path


def planned(path, entries, *, layout=LAYOUT, trusted=False):
    """Plan to append entries to a file."""
    end = (int(entries[1][-1]), int(entries[2][-1]))
    return InPlaceAppend(path, layout, [entries[0]], lambda: [entries], end, trusted=trusted)


def seen(directory):
    """Return all that readers find in a directory of one file, which must be sound."""
    (path,) = effective_listing(directory).values()
    with IndexFile(path, LAYOUT) as file:
        rows = [row for batch in file.scan() for row in batch.to_pylist()]
        hits = file.lookup(list(range(12))).to_pylist()
        alone = [[hit["position"] for hit in file.lookup([n]).to_pylist()] for n in range(12)]
        header = file.header
    for wanted in range(12):
        expected = [row["position"] for row in rows if row["key_hash"] == wanted]
        assert [hit["position"] for hit in hits if hit["query"] == wanted] == expected[::-1]
        assert alone[wanted] == expected[::-1]
    return header, [row["phy_offset"] for row in rows]


class TestBytes:
    """What an append writes."""

    @pytest.mark.parametrize("trusted", [True, False])
    @pytest.mark.parametrize("before", [0, 1, 5])
    @pytest.mark.parametrize("inherited", [(), (4, BEGIN - 90_000)])
    def test_appending_writes_what_one_writer_would_have_written(
        self, tmp_path, trusted, before, inherited
    ):
        """The bytes are those of one writer, also where the file had no entry yet."""
        first, second = entries_of(before), entries_of(9, first=before)
        path = write_file(tmp_path / "a" / NAME, first, inherited=inherited)
        expected = write_file(tmp_path / "b" / NAME, first, second, inherited=inherited)
        append = planned(path, second, trusted=trusted)
        header = append.apply()
        assert path.read_bytes() == expected.read_bytes()
        assert header == IndexHeader.from_bytes(path.read_bytes())

    @settings(max_examples=examples(60), deadline=None)
    @given(data=st.data())
    def test_any_appends_equal_one_write_and_are_undone_exactly(self, tmp_path_factory, data):
        """Random entries, in random portions: each portion is undone, done again, and kept."""
        layout = Layout(data.draw(st.integers(1, 2000)), 60)
        rows = data.draw(
            st.lists(
                st.tuples(
                    st.integers(0, 2**31 - 1) | st.integers(0, 5),
                    st.integers(-(2**63), 2**63 - 1),
                    st.integers(-(2**63), 2**63 - 1) | st.integers(BEGIN, BEGIN + 10**6),
                ),
                max_size=59,
            )
        )
        cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
        parts = [
            rows[start:stop]
            for start, stop in itertools.pairwise([0, *cuts, len(rows)])
            if start < stop
        ]
        directory = tmp_path_factory.mktemp("append")
        path = write_file(directory / NAME, layout=layout)
        for part in parts:
            entries = tuple(
                np.array(column, dtype)
                for column, dtype in zip(
                    zip(*part, strict=True), (np.int32, np.int64, np.int64), strict=True
                )
            )
            before = path.read_bytes()
            append = planned(path, entries, layout=layout, trusted=data.draw(st.booleans()))
            append.apply()
            append.undo.restore(path)
            assert path.read_bytes() == before
            append.undo.restore(path)
            assert path.read_bytes() == before
            planned(path, entries, layout=layout, trusted=True).apply()
        whole = directory / "whole"
        with IndexFileWriter(whole, layout) as writer:
            for key_hash, phy_offset, store_timestamp in rows:
                writer.put_many([key_hash], [phy_offset], [store_timestamp])
        assert path.read_bytes() == whole.read_bytes()

    def test_many_blocks_are_appended_as_one(self, tmp_path):
        """Hashes and entries may come in blocks, cut in other places."""
        hashes, offsets, timestamps = entries_of(30)
        path = write_file(tmp_path / "a" / NAME)
        append = InPlaceAppend(
            path,
            LAYOUT,
            [hashes[20:], hashes[:7], hashes[7:20]],
            lambda: [
                (hashes[:11], offsets[:11], timestamps[:11]),
                (hashes[11:], offsets[11:], timestamps[11:]),
            ],
            (int(offsets[-1]), int(timestamps[-1])),
        )
        append.apply()
        expected = write_file(tmp_path / "b" / NAME, (hashes, offsets, timestamps))
        assert path.read_bytes() == expected.read_bytes()

    def test_slots_that_a_dead_writer_left_beyond_the_count_are_mended_and_undone(self, tmp_path):
        """Slots without a counted entry lead to the newest one that is counted."""
        first, second = entries_of(8), entries_of(3, first=8)
        path = write_file(tmp_path / "a" / NAME, first)
        expected = write_file(tmp_path / "b" / NAME, first, second)
        torn = bytearray(path.read_bytes())
        for slot in (0, 3, 5):
            torn[40 + 4 * slot : 44 + 4 * slot] = (30 + slot).to_bytes(4, "big")
        path.write_bytes(torn)
        append = planned(path, second)
        append.apply()
        assert path.read_bytes() == expected.read_bytes()
        append.undo.restore(path)
        assert path.read_bytes() == torn

    def test_a_small_append_to_a_large_file_touches_few_pages(self, tmp_path):
        """A file of the default size stays sparse, and only some of its slots are read."""
        layout = Layout()
        entries = (np.array([5, 4_999_999], np.int32), *entries_of(2)[1:])
        path = write_file(tmp_path / NAME, entries_of(3), layout=layout)
        planned(path, entries, layout=layout, trusted=True).apply()
        assert path.stat().st_blocks * 512 < 200_000
        with IndexFile(path, layout) as file:
            assert file.lookup([4_999_999])["position"].to_pylist() == [5]

    def test_more_entries_than_fit_are_refused_before_anything_changes(self, tmp_path):
        """A plan that does not fit is a ValueError."""
        path = write_file(tmp_path / NAME, entries_of(30))
        before = path.read_bytes()
        with pytest.raises(ValueError, match="9 entries fit, got 10"):
            planned(path, entries_of(10, first=30))
        assert path.read_bytes() == before


class TestUndo:
    """What undoing refuses and survives."""

    def test_a_file_that_another_program_went_on_writing_is_left_alone(self, tmp_path):
        """The header must be the old one or the new one; else nothing is touched."""
        path = write_file(tmp_path / NAME, entries_of(5))
        append = planned(path, entries_of(3, first=5))
        append.apply()
        with IndexFileWriter(path, LAYOUT) as writer:
            writer.put("Another#writer", 10**6, BEGIN + 10**6)
        before = path.read_bytes()
        with pytest.raises(RmqIndexError, match="another program"):
            append.undo.restore(path)
        assert path.read_bytes() == before


def commit(directory, entries, *, ledger=None):
    """Append entries to the one file of a directory, as one commit."""
    staging = LocalStaging.at(directory, "stream-test-0")
    with staging.exclusive(create=True):
        append = planned(directory / NAME, entries)
        staging.commit([], [], append=append, ledger=ledger or {"done": 1})


def commit_new_file_as_well(directory, entries):
    """Append entries and bring in another file, as one commit."""
    staging = LocalStaging.create(directory, Owner.current())
    staged = write_file(staging.path / "built", entries_of(4, first=50))
    with staging.exclusive():
        append = planned(directory / NAME, entries)
        staging.commit([(staged, "20250102030405678")], [], append=append, ledger={"done": 1})
    staging.discard()


def unfinished(directory, entries, stop_after):
    """Begin to append in a commit that dies after some writes, and leave its journal."""
    staging = LocalStaging.at(directory, "stream-test-0")
    calls = itertools.count()

    def is_fatal(name, path):
        """Whether it is one write too many, or the end of the commit."""
        return path.name == "journal.json" or (name == "pwrite" and next(calls) == stop_after)

    with dies_before(is_fatal), staging.exclusive(create=True):
        staging.commit([], [], append=planned(directory / NAME, entries), ledger={"done": 1})
    return staging


@pytest.fixture
def directory(tmp_path):
    """A directory of one file with 20 entries."""
    return write_file(tmp_path / "store" / "index" / NAME, entries_of(20)).parent


ADDED = entries_of(9, first=20)


# Of the entries, the slots and the header, which then counts them.
WRITES = 3


class TestReaders:
    """Readers see the old state while an append is not finished."""

    @pytest.mark.parametrize("stop_after", range(4))
    def test_everything_that_reads_sees_the_file_as_it_was(self, directory, stop_after):
        """Scans, lookups, the broker's search, audits and raw reads, after every write."""
        old = (directory / NAME).read_bytes()
        state = seen(directory)
        with IndexDirectory(directory, LAYOUT) as index:
            answers = [index.query_offset("T", f"k{n}", 64, 0, 2**62) for n in range(9)]
        findings = verify(directory, layout=LAYOUT).to_pylist()
        unfinished(directory, ADDED, stop_after)
        assert seen(directory) == state
        with open_index_source(directory / NAME) as source:
            assert bytes(source.read(0, 68)) == old[:68]
            assert bytes(source.header()) == old[:40]
            for start in range(0, len(old) - 9, 3):
                assert bytes(source.read(start, 9)) == old[start : start + 9]
        found = verify(directory, layout=LAYOUT).to_pylist()
        assert [each for each in found if each["rule"] != "unfinished_write"] == findings
        with IndexDirectory(directory, LAYOUT) as index:
            assert [index.query_offset("T", f"k{n}", 64, 0, 2**62) for n in range(9)] == answers

    def test_it_is_so_however_the_directory_is_called(self, directory, tmp_path, monkeypatch):
        """By links to it or to the store, from within it, and relative to another place."""
        unfinished(directory, ADDED, WRITES)
        (tmp_path / "link").symlink_to(directory)
        (tmp_path / "beside").symlink_to(directory.parent)
        (directory / "below").mkdir()
        for start, path in (
            (tmp_path, "link"),
            (tmp_path, "beside/index"),
            (tmp_path, "beside/../store/index"),
            (tmp_path, "store/index/below/.."),
            (directory.parent, "index"),
            (directory.parent, "./index/."),
            (directory, ""),
            (directory, "."),
            (directory / "below", ".."),
        ):
            monkeypatch.chdir(start)
            with IndexFile(os.path.join(path, NAME), LAYOUT) as file:  # noqa: PTH118
                assert file.header.entry_count == 20

    def test_it_is_so_for_a_link_to_the_file(self, directory, tmp_path, monkeypatch):
        """The commit is the file's, whatever leads to it: links to links, and a folder of links."""
        unfinished(directory, ADDED, WRITES)
        (tmp_path / "links").mkdir()
        (tmp_path / "links" / NAME).symlink_to(directory / NAME)
        (tmp_path / "another name").symlink_to(Path("links") / NAME)
        monkeypatch.chdir(tmp_path)
        for path in (tmp_path / "links" / NAME, tmp_path / "another name", Path("another name")):
            with IndexFile(path, LAYOUT) as file:
                assert file.header.entry_count == 20
                assert sum(batch.num_rows for batch in file.scan()) == 20

    def test_a_file_that_was_opened_before_gives_what_it_had_then(self, directory):
        """Chains that begin at newer entries are walked through, during and after the commit."""
        hashes = list(range(12))
        with (
            IndexFile(directory / NAME, LAYOUT) as file,
            IndexDirectory(directory, LAYOUT) as index,
        ):
            before = file.lookup(hashes)
            one_by_one = [file.lookup([each]) for each in hashes]
            selected = [file.select_phy_offset(f"T#k{n}", 64, 0, 2**62) for n in range(30)]
            staging = unfinished(directory, ADDED, 2)
            assert file.lookup(hashes) == before
            assert [file.select_phy_offset(f"T#k{n}", 64, 0, 2**62) for n in range(30)] == selected
            assert [file.lookup([each]) for each in hashes] == one_by_one
            with staging.exclusive(create=True):
                assert not (staging_root(directory) / "journal.json").exists()
            assert file.lookup(hashes) == before
            assert [file.lookup([each]) for each in hashes] == one_by_one
            commit(directory, ADDED)
            assert file.lookup(hashes) == before
            assert [file.lookup([each]) for each in hashes] == one_by_one
            assert index.files[0].header.entry_count == 20
        with IndexFile(directory / NAME, LAYOUT) as file:
            assert file.header.entry_count == 29

    def test_slots_beyond_what_any_append_explains_stay_an_error(self, directory):
        """A broken slot is told apart from one that a commit under way has changed."""
        data = bytearray((directory / NAME).read_bytes())
        data[40:44] = (39).to_bytes(4, "big")
        (directory / NAME).write_bytes(data)
        with IndexFile(directory / NAME, LAYOUT) as file, pytest.raises(CorruptIndexError):
            file.lookup([0])

    def test_a_reader_beside_a_writer_never_sees_part_of_a_commit(self, tmp_path):
        """Readers that open the file over and over see whole commits of three entries only."""
        layout = Layout(7, 2000)
        path = write_file(tmp_path / "index" / NAME, entries_of(3), layout=layout)
        stop = threading.Event()
        counts = []

        def read():
            while not stop.is_set():
                with IndexFile(path, layout) as file:
                    found = file.lookup(range(12))
                    counts.append(file.entry_count)
                    assert found.num_rows == file.entry_count

        reader = threading.Thread(target=read)
        reader.start()
        deadline = time.monotonic() + 20
        number = 1
        while number < 60 and time.monotonic() < deadline:
            staging = LocalStaging.at(path.parent, "stream-test-0")
            with staging.exclusive(create=True):
                entries = entries_of(3, first=3 * number)
                append = planned(path, entries, layout=layout)
                staging.commit([], [], append=append, ledger={"done": number})
            number += 1
        stop.set()
        reader.join()
        assert counts
        assert all(count % 3 == 0 for count in counts)
        assert counts == sorted(counts)


class TestLedger:
    """What a commit records is there exactly when its entries are."""

    def test_the_ledger_changes_with_the_commit_and_not_before(self, directory):
        """An unfinished commit has recorded nothing; a finished one has, and the next adds."""
        staging = unfinished(directory, ADDED, 3)
        with staging.exclusive(create=True):
            assert staging.ledger() == {}
        commit(directory, ADDED, ledger={"batch": 7})
        with staging.exclusive(create=True):
            assert staging.ledger() == {"batch": 7}
        staging.discard()
        assert sorted(path.name for path in staging_root(directory).iterdir()) == [
            "ledger.json",
            "lock",
        ]

    def test_a_commit_that_fails_is_undone_and_recorded_nowhere(self, directory, monkeypatch):
        """A full disk in the middle leaves the old bytes and the old record."""
        old = (directory / NAME).read_bytes()
        pwrite = os.pwrite
        calls = itertools.count()

        def fail_once(*arguments):
            if next(calls) == 1:
                raise OSError(28, "No space left on device")
            return pwrite(*arguments)

        monkeypatch.setattr(os, "pwrite", fail_once)
        with pytest.raises(OSError, match="No space left"):
            commit(directory, ADDED)
        assert (directory / NAME).read_bytes() == old
        staging = LocalStaging.at(directory, "stream-test-0")
        with staging.exclusive(create=True):
            assert staging.ledger() == {}

    @pytest.mark.parametrize(
        "change",
        [{"name": "../x"}, {"header": "00"}, {"entries": -1}, {"entries": 50}, {"index_num": "x"}],
    )
    def test_a_journal_with_a_broken_append_is_an_error(self, directory, change):
        """Nothing that a journal says is believed unseen."""
        unfinished(directory, ADDED, 1)
        journal = staging_root(directory) / "journal.json"
        fields = json.loads(journal.read_text())
        fields["append"].update(change)
        journal.write_text(json.dumps(fields))
        with pytest.raises(RmqIndexError, match=r"journal\.json: expected"):
            seen(directory)


def run_killed(function, directory, fatal):
    """Run a commit in this process, which dies before its n-th step."""
    kill_before(fatal)
    function(directory, ADDED)


def run_killed_recovery(directory, fatal):
    """Begin another job in this process, which dies before its n-th step."""
    kill_before(fatal)
    LocalStaging.create(directory, Owner.current())


def run_without_commit_point(directory):
    """Append in this process, which dies when nothing but the commit point is missing."""

    def die(_, path):
        if path.name == "journal.json":
            os.kill(os.getpid(), signal.SIGKILL)

    with before_each_change(die):
        commit(directory, ADDED)


def state_of(directory):
    """Return the files that readers see, and how many entries each has."""
    state = {}
    for name, path in effective_listing(directory).items():
        with IndexFile(path, LAYOUT) as file:
            assert file.lookup(range(12)).num_rows == file.entry_count
            state[name] = file.entry_count
    return state


@pytest.mark.parametrize(
    ("function", "new"),
    [
        pytest.param(commit, {NAME: 29}, marks=pytest.mark.system),
        (commit_new_file_as_well, {NAME: 29, "20250102030405678": 4}),
    ],
    ids=["append", "append and a new file"],
)
def test_a_process_killed_at_any_step_leaves_the_old_state_or_the_new_one(tmp_path, function, new):
    """Kill a commit before each of its steps: readers, the record and the retry find order."""
    outcomes = []
    for fatal in itertools.count(1):
        path = write_file(tmp_path / str(fatal) / "index" / NAME, entries_of(20))
        old = path.read_bytes()
        finished = lives(run_killed, function, path.parent, fatal)
        state = state_of(path.parent)
        assert state in ({NAME: 20}, new), f"killed before step {fatal}"
        outcomes.append(state == new)
        staging = LocalStaging.at(path.parent, "stream-test-0")
        with staging.exclusive(create=True):
            assert staging.ledger() == ({"done": 1} if outcomes[-1] else {})
            if not outcomes[-1]:
                assert path.read_bytes() == old
        if not outcomes[-1]:
            function(path.parent, ADDED)
        staging.discard()
        assert state_of(path.parent) == new
        assert {path.name for path in staging.root.iterdir()} == {"lock", "ledger.json"}
        if finished:
            break
    assert_one_turn(outcomes, more_than=6)


@pytest.mark.system
def test_a_recovery_killed_at_any_step_is_finished_by_the_next(tmp_path):
    """Undoing a dead append may itself die, and still ends in the old bytes."""
    for fatal in itertools.count(1):
        path = write_file(tmp_path / str(fatal) / "index" / NAME, entries_of(20))
        old = path.read_bytes()
        assert not lives(run_without_commit_point, path.parent)
        assert path.read_bytes() != old
        assert state_of(path.parent) == {NAME: 20}
        finished = lives(run_killed_recovery, path.parent, fatal)
        assert state_of(path.parent) == {NAME: 20}
        LocalStaging.create(path.parent, Owner.current()).discard()
        assert path.read_bytes() == old
        assert [each.name for each in path.parent.parent.iterdir()] == ["index"]
        if finished:
            break
    assert fatal > 5


def test_a_directory_that_was_removed_is_no_hindrance_to_the_next_write(directory):
    """An unfinished append to a file that is gone is forgotten."""
    assert not lives(run_without_commit_point, directory)
    (directory / NAME).unlink()
    LocalStaging.create(directory, Owner.current()).discard()
    assert [Path(path).name for path in directory.parent.iterdir()] == ["index"]


@pytest.mark.parametrize("size", [0, 1, 39])
def test_a_file_without_a_whole_header_is_named(tmp_path, size):
    """By whatever opens it for writing."""
    path = tmp_path / "100"
    path.write_bytes(bytes(size))
    expected = f"{path}: expected a header of 40 bytes, got {size}: the file was cut"
    with pytest.raises(RmqIndexError, match=expected):
        EntryAppender.resume(path, LAYOUT)
    with pytest.raises(RmqIndexError, match=expected):
        InPlaceAppend(path, LAYOUT, [], list, (0, 0))
