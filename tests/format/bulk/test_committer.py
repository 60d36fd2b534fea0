"""Jobs and their one committer, without an engine: rows staged by tasks, files in one step."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from killing import before_each_change, dies_before
from other_broker import can_start, running_broker
from rmqindex import IndexFile, Layout, RmqIndexError, relayout_index
from rmqindex.bulk import (
    CONTENT,
    Committer,
    EntryRows,
    RowStager,
    WriteJob,
    WriteOptions,
    commit_staged,
)
from rmqindex.bulk.relayout import expire_index
from rmqindex.transaction import Journal, LocalStaging, Owner

LAYOUT = Layout(7, 11)
CHECKPOINT = "checkpoint"


def rows_of(offsets):
    """Return one entry for each offset, whose hash is the offset."""
    offsets = np.array(offsets, np.int64)
    count = len(offsets)
    stamps = np.full(count, 1_700_000_000_000, np.int64)
    return EntryRows(offsets.astype(np.int32), offsets, stamps, np.zeros(count, np.int32))


def write(directory, *tasks, limit=100, **options):
    """Write the rows of several tasks in one job; what they share and answer is pickled."""
    checked = WriteOptions(directory, LAYOUT, **options)
    job = WriteJob.start(checked, overwrite=False, owner=Owner.current())
    staged = []
    with Committer.of(job):
        for number, offsets in enumerate(tasks):
            remote = pickle.loads(pickle.dumps(job))
            stager = RowStager(remote, f"task-{number}", CONTENT, limit)
            with remote.attempt(stager.remove):
                stager.add(rows_of(offsets))
                staged.append(pickle.loads(pickle.dumps(stager.stage_files())))
        commit_staged(
            job,
            [run for each in staged for run in each.runs],
            [file for each in staged for file in each.files],
            CONTENT,
        )


def offsets_in(directory):
    """Return the offsets of all entries, file by file."""
    offsets = []
    for path in sorted(directory.iterdir()):
        with IndexFile(path, LAYOUT) as file:
            for batch in file.scan(columns=["phy_offset"]):
                offsets += batch["phy_offset"].to_pylist()
    return offsets


@pytest.fixture
def store(tmp_path):
    """A store that was stopped cleanly, with an index of 25 entries."""
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "lock").write_bytes(b"lock")
    write(tmp_path / "index", range(25))
    return tmp_path


class TestWrite:
    """A job as another engine runs it."""

    @pytest.mark.parametrize("limit", [100, 6])
    def test_rows_of_several_tasks_come_in_order(self, store, limit):
        """Small tasks are merged, large ones build files; the rows are those of one broker."""
        write(store / "index", range(25, 40), range(40, 60), limit=limit)
        assert offsets_in(store / "index") == list(range(60))
        assert {path.name for path in store.iterdir()} == {"commitlog", "index", "lock"}

    def test_a_failed_commit_leaves_nothing_staged(self, store):
        """The rows that were there stay, and the staging goes."""
        with pytest.raises(ValueError, match="phy_offset 3: expected rows after 24"):
            write(store / "index", [30, 3])
        with pytest.raises(RmqIndexError, match="their files would overlap"):
            write(store / "index", range(30, 60), range(40, 70), limit=6)
        assert offsets_in(store / "index") == list(range(25))
        assert not list(store.glob(".*"))


class TestCheckpoint:
    """The checkpoint of the store that the path names."""

    def test_that_of_a_linked_index_lies_beside_the_link(self, tmp_path):
        """A broker follows the link from its store root, and looks for the checkpoint there."""
        (tmp_path / "store" / "commitlog").mkdir(parents=True)
        (tmp_path / "disk" / "index").mkdir(parents=True)
        (tmp_path / "store" / "index").symlink_to(tmp_path / "disk" / "index")
        write(tmp_path / "store" / "index", range(5), checkpoint=True)
        assert (tmp_path / "store" / CHECKPOINT).exists()
        assert not (tmp_path / "disk" / CHECKPOINT).exists()


class TestBrokers:
    """Brokers and writes keep each other out."""

    def test_none_starts_while_a_write_clears_up_or_commits(self, store):
        """Both change files of the index: undoing a dead commit, too."""
        starts = []

        def probe(_, path):
            if path.name.startswith("journal."):
                starts.append(can_start(store))

        with before_each_change(probe):
            write(store / "index", range(25, 30))
        assert len(starts) > 2
        assert not any(starts)
        assert can_start(store)

    def test_a_task_that_joins_a_job_undoes_nothing(self, store):
        """It does not hold the store, and may run beside a broker that has started since."""
        with dies_before(lambda _, path: path.name == "journal.json"):
            write(store / "index", range(25, 30))
        names = sorted(path.name for path in (store / "index").iterdir())
        staging = LocalStaging.at(store / "index", "stream-a-0")
        staging.join(Owner.current())
        assert staging.path.is_dir()
        assert Journal.read(staging.root) is not None
        assert sorted(path.name for path in (store / "index").iterdir()) == names
        write(store / "index", range(25, 30))
        assert offsets_in(store / "index") == list(range(30))

    def test_nothing_is_changed_under_one_that_runs(self, store):
        """It has read the files, and may have opened those that would go."""
        names = sorted(path.name for path in (store / "index").iterdir())
        with running_broker(store):
            with pytest.raises(RmqIndexError, match="a broker runs on this store"):
                relayout_index(store, Layout(5, 9), old_layout=LAYOUT)
            with pytest.raises(RmqIndexError, match="a broker runs on this store"):
                expire_index(store, 15)
        assert sorted(path.name for path in (store / "index").iterdir()) == names
        assert offsets_in(store / "index") == list(range(25))
        assert not list(store.glob(".*"))

    def test_what_one_that_crashed_left_is_changed(self, store):
        """The file ``abort`` alone is in nobody's way."""
        (store / "abort").touch()
        expire_index(store, 15)
        assert offsets_in(store / "index") == list(range(10, 25))
