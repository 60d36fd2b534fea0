"""What another user can put into a store: no link leads a write to another place."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from appends import append_of
from damage import DAMAGES, damaged
from killing import dies_before
from rmqindex import (
    CommitLog,
    IndexDirectory,
    IndexFile,
    IndexFileWriter,
    Layout,
    RmqIndexError,
    StoreCheckpoint,
    cover_index,
    rebuild_consume_queues,
    rebuild_index,
)
from rmqindex.storage.disk import is_plain_name
from rmqindex.storage.writable import write_own
from rmqindex.transaction import (
    BrokerLock,
    LocalStaging,
    Owner,
    effective_listing,
    recover,
    staging_root,
)
from trees import queue_files

LAYOUT = Layout(97, 200)
QUEUE_FILE = f"TopicTest/0/{0:020d}"
LINKED = "expected .* got a symbolic link, which is not followed here"
EVERYTHING = {
    "docs/letter": b"of mine",
    "docs/old/100": b"older",
    "lock": b"",
    "owner.json": b"{}",
    "journal.json": b"{}",
}


@pytest.fixture
def elsewhere(tmp_path):
    """A directory outside the store, of which nothing may change."""
    home = tmp_path / "elsewhere"
    for name, data in EVERYTHING.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(data)
    yield home
    there = {
        str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()
    }
    assert there == EVERYTHING


@pytest.fixture
def index(store):
    """Its index directory."""
    return store / "index"


def commit(index, *, job=None):
    """Replace the newest file, and add one."""
    names = sorted(path.name for path in index.iterdir())
    staging = (
        LocalStaging.create(index, Owner.current()) if job is None else LocalStaging.at(index, job)
    )
    if job is not None:
        staging.join(Owner.current())
    try:
        changes = []
        for name in (names[-1], "29991120182605197"):
            (staging.path / f"staged-{name}").write_bytes(b"new")
            changes.append((staging.path / f"staged-{name}", name))
        with staging.exclusive():
            staging.commit(changes, names[-1:], ledger={"n": 1} if job else None)
    finally:
        staging.discard()


class TestStaging:
    """The hidden directory beside an index."""

    def test_a_link_in_its_place_is_refused_by_writers(self, index, elsewhere):
        """Nothing is locked, made or cleared away where it leads."""
        staging_root(index).symlink_to(elsewhere)
        with pytest.raises(RmqIndexError, match=f"{staging_root(index)}: {LINKED}"):
            commit(index)
        with pytest.raises(RmqIndexError, match=LINKED):
            commit(index, job="stream-a-0")
        with pytest.raises(RmqIndexError, match=LINKED):
            LocalStaging.at(index, "docs").discard()
        with pytest.raises(RmqIndexError, match=LINKED):
            IndexDirectory(index, LAYOUT, writable=True, allow_live_store=True)

    def test_a_link_in_its_place_is_refused_by_readers_where_a_journal_is(self, index, elsewhere):
        """A journal elsewhere tells nothing about this index."""
        staging_root(index).symlink_to(elsewhere)
        with pytest.raises(RmqIndexError, match=LINKED):
            effective_listing(index)

    def test_links_in_it_are_not_followed_when_it_is_cleared(self, index, elsewhere):
        """Neither as a job nor as what is left of one."""
        root = staging_root(index)
        root.mkdir()
        for name in ("job-1", "job-2.trash"):
            (root / name).symlink_to(elsewhere)
        (root / "job-3").mkdir()
        (root / "job-3" / "old").symlink_to(elsewhere)
        commit(index)
        assert not (root / "job-3").exists()

    @pytest.mark.parametrize("name", ["lock", "journal.json", "ledger.json"])
    def test_a_link_in_the_place_of_what_is_read_is_refused(self, index, elsewhere, name):
        """What it leads to is neither locked nor believed."""
        root = staging_root(index)
        root.mkdir()
        (root / name).symlink_to(elsewhere / "journal.json")
        staging = LocalStaging.at(index, "stream-a-0")
        with (
            pytest.raises(RmqIndexError, match=f"{name}: {LINKED}"),
            staging.exclusive(create=True),
        ):
            staging.ledger()

    @pytest.mark.parametrize("name", ["journal.next", "undo", "ledger.json"])
    def test_a_link_in_the_place_of_what_is_written_is_replaced(self, index, elsewhere, name):
        """The link goes, and not what it leads to."""
        root = staging_root(index)
        root.mkdir()
        (root / name).symlink_to(elsewhere / "docs/letter")
        staging = LocalStaging.at(index, "stream-a-0")
        if name == "ledger.json":
            with staging.exclusive(create=True):
                staging.commit([], [], ledger={"n": 1})
            assert not (root / name).is_symlink()
        else:
            commit(index)

    def test_a_link_in_the_place_of_a_job_is_refused(self, index, elsewhere):
        """A job of a stream has a name that can be foretold."""
        root = staging_root(index)
        root.mkdir()
        (root / "stream-a-0").symlink_to(elsewhere / "docs")
        staging = LocalStaging.at(index, "stream-a-0")
        with (
            pytest.raises(RmqIndexError, match=f"stream-a-0: {LINKED}"),
            staging.exclusive(create=True),
        ):
            staging.make(Owner.current())
        staging.discard()

    @pytest.mark.parametrize("place", ["job-1", "job-1/old"])
    def test_a_journal_whose_job_is_a_link_is_refused(self, index, elsewhere, place):
        """Old files come from our own directory or from nowhere."""
        root = staging_root(index)
        root.mkdir()
        (root / place).parent.mkdir(exist_ok=True)
        (root / place).symlink_to(elsewhere / "docs")
        fields = {"job": "job-1", "created": False, "old": ["100"], "new": ["200"]}
        (root / "journal.json").write_text(json.dumps(fields))
        for act in (effective_listing, commit):
            with pytest.raises(RmqIndexError, match=f"{place}: {LINKED}"):
                act(index)

    def test_a_pipe_keeps_nobody_waiting(self, index):
        """Whatever it stands for."""
        root = staging_root(index)
        root.mkdir()
        os.mkfifo(root / "journal.json")
        with pytest.raises(
            RmqIndexError, match=r"journal\.json: expected a file, got neither a file nor"
        ):
            effective_listing(index)

    @pytest.mark.parametrize("job", ["", ".", "..", "a/b", "/a", "a\0", ".hidden", "a" * 300, "ä"])
    def test_a_job_is_a_name(self, index, job):
        """It is part of a path, and may come from a checkpoint."""
        with pytest.raises(ValueError, match="job: expected a name"):
            LocalStaging.at(index, job)


class TestJournal:
    """Whoever can write a journal can only say what a journal says."""

    FIELDS = {"job": "job-1", "created": False, "old": [], "new": []}  # noqa: RUF012  (read alone)
    APPEND = {  # noqa: RUF012  (read alone)
        "name": "1", "hash_slot_num": 97, "index_num": 200, "header": "00" * 40, "entries": 1,
        "end_phy_offset": 0, "end_timestamp": 0, "checksum": 0,
    }  # fmt: skip

    @pytest.mark.parametrize(
        "change",
        [
            {"job": 1},
            {"job": "../job"},
            {"job": "/tmp"},
            {"job": "a\0"},
            {"job": "\ud800"},
            {"created": 1},
            {"old": "100"},
            {"old": ["../100"]},
            {"old": ["/etc/passwd"]},
            {"old": [100]},
            {"new": {"100": 1}},
            {"new": ["lock"]},
            {"new": ["1/2"]},
            {"ledger": []},
            {"append": "1"},
            {"append": {}},
            {"append": {**APPEND, "name": "../1"}},
            {"append": {**APPEND, "name": 1}},
            {"append": {**APPEND, "entries": True}},
            {"append": {**APPEND, "entries": "1"}},
            {"append": {**APPEND, "entries": 2**31}},
            {"append": {**APPEND, "hash_slot_num": 2**31}},
            {"append": {**APPEND, "hash_slot_num": -1}},
            {"append": {**APPEND, "header": "zz"}},
        ],
    )
    def test_a_journal_with_other_fields_is_refused(self, index, change):
        """Each is an error that names the file."""
        staging_root(index).mkdir()
        text = json.dumps({**self.FIELDS, **change})
        (staging_root(index) / "journal.json").write_text(text)
        with pytest.raises(RmqIndexError, match=r"journal\.json: expected the journal of a write"):
            effective_listing(index)

    @pytest.mark.parametrize("text", ["[" * 100_000, "1" * 5000, '"' + "a" * (17 << 20) + '"'])
    def test_a_document_that_is_a_bomb_is_refused(self, index, text):
        """Neither depth nor length reaches the parser's end."""
        staging_root(index).mkdir()
        (staging_root(index) / "journal.json").write_text(text)
        with pytest.raises(RmqIndexError, match=r"journal\.json: expected"):
            effective_listing(index)

    def test_an_undo_writes_no_file_longer(self, index):
        """The places that a journal names must be in the file."""
        name = min(path.name for path in index.iterdir())
        before = (index / name).read_bytes()
        append = {**self.APPEND, "name": name, "hash_slot_num": 9700}
        staging_root(index).mkdir()
        text = json.dumps({**self.FIELDS, "append": append})
        (staging_root(index) / "journal.json").write_text(text)
        with pytest.raises(RmqIndexError, match="file size: expected at least"):
            LocalStaging.create(index, Owner.current())
        assert (index / name).read_bytes() == before


class TestDamaged:
    """Records of dead and living writes that are not what was written."""

    @pytest.fixture
    def job(self, index):
        """What a job of another writer has staged; the writer is dead."""
        staging = LocalStaging.create(
            index, Owner(**{**Owner.current().to_dict(), "start_time": 1})
        )
        (staging.path / "staged").write_bytes(b"of another")
        return staging.path

    def test_a_job_of_a_dead_owner_is_removed(self, index, job):
        """As long as the owner can be read."""
        commit(index)
        assert not job.exists()

    @pytest.mark.parametrize("how", DAMAGES)
    def test_a_job_whose_owner_is_damaged_stays(self, index, job, how):
        """It may be alive, and is nothing to other writes; a recovery leaves it as well."""
        (job / "owner.json").write_bytes(damaged(Owner.current().to_dict(), how))
        commit(index)
        recover(index)
        assert (job / "staged").read_bytes() == b"of another"
        assert (index / "29991120182605197").exists()

    @pytest.mark.parametrize("how", DAMAGES)
    def test_a_write_whose_own_owner_is_damaged_is_refused(self, index, how):
        """Nobody can tell whether its application still runs."""
        staging = LocalStaging.create(index, Owner.current())
        (staging.path / "owner.json").write_bytes(damaged(Owner.current().to_dict(), how))
        expected = r"owner\.json: expected the owner of a job"
        with pytest.raises(RmqIndexError, match=expected), staging.exclusive():
            staging.commit([], [])
        staging.discard()

    def test_who_dies_while_a_job_is_made_leaves_no_half_of_an_owner(self, index):
        """What has the name is whole; the next write removes the job."""
        with dies_before(lambda name, _: name in {"rename", "replace"}):
            LocalStaging.create(index, Owner.current())
        (job,) = staging_root(index).glob("job-*")
        assert not (job / "owner.json").exists()
        commit(index)
        assert not job.exists()

    @pytest.mark.parametrize("how", DAMAGES)
    def test_a_damaged_journal_stops_readers_and_writers(self, index, how):
        """The old state is not known without it."""
        staging_root(index).mkdir()
        (staging_root(index) / "journal.json").write_bytes(damaged(TestJournal.FIELDS, how))
        for act in (effective_listing, commit, recover):
            with pytest.raises(
                RmqIndexError, match=r"journal\.json: expected the journal .* remove"
            ):
                act(index)

    @pytest.mark.parametrize("how", DAMAGES)
    def test_a_damaged_ledger_stops_streams(self, index, how):
        """A batch would be written twice."""
        staging_root(index).mkdir()
        (staging_root(index) / "ledger.json").write_bytes(damaged(TestJournal.FIELDS, how))
        staging = LocalStaging.at(index, "stream-a-0")
        expected = r"ledger\.json: expected .* a ledger that is removed forgets"
        with pytest.raises(RmqIndexError, match=expected), staging.exclusive(create=True):
            staging.ledger()

    @pytest.mark.parametrize("how", DAMAGES)
    def test_a_damaged_note_stops_a_rebuild_of_queues(self, store, how):
        """Which folders were moved is not known without it."""
        home = store / ".consumequeue.rmqindex"
        home.mkdir()
        (home / "undo.json").write_bytes(damaged({"old": ["consumequeue"], "new": []}, how))
        with pytest.raises(RmqIndexError, match=r"undo\.json: expected the note .* remove"):
            rebuild_consume_queues(store, store, replace=True)

    @pytest.mark.parametrize("data", [b"\0" * 7, b"\0" * 8, b"\0" * 800])
    def test_damaged_old_slots_stop_readers_and_writers(self, index, data):
        """Undoing without them would leave slots that lead to nothing."""
        name = min(path.name for path in index.iterdir())
        before = (index / name).read_bytes()
        append = {**TestJournal.APPEND, "name": name, "header": before[:40].hex()}
        append = {**append, "entries": 0, "checksum": 97}
        staging_root(index).mkdir()
        text = json.dumps({**TestJournal.FIELDS, "append": append})
        (staging_root(index) / "journal.json").write_text(text)
        (staging_root(index) / "undo").write_bytes(data)
        for act in (lambda _: IndexFile(index / name, LAYOUT), commit, recover):
            with pytest.raises(RmqIndexError, match=r"undo: expected the old slots of the file"):
                act(index)
        assert (index / name).read_bytes() == before


class TestIndexFiles:
    """Files of the index that are links: they are read, and never written to."""

    @pytest.fixture
    def linked(self, index, tmp_path):
        """The newest file, which is a link, and what it leads to."""
        name = max(path.name for path in index.iterdir())
        target = tmp_path / "target"
        (index / name).rename(target)
        (index / name).symlink_to(target)
        before = target.read_bytes()
        yield index / name
        assert target.read_bytes() == before

    def test_a_link_is_read(self, linked):
        """As the broker reads it."""
        with IndexFile(linked, LAYOUT) as file:
            assert file.entry_count

    def test_a_link_is_not_appended_to(self, linked):
        """Neither as the broker does it nor in one step."""
        with (
            IndexDirectory(linked.parent, LAYOUT, writable=True, time_zone="UTC") as opened,
            pytest.raises(RmqIndexError, match=LINKED),
        ):
            opened.build_index("t", "u", "k", 0, 10**12, 10**13)
        with pytest.raises(RmqIndexError, match=LINKED):
            append_of(linked, LAYOUT)

    def test_a_link_is_not_lengthened_on_loading(self, linked):
        """Short files are, as by the broker."""
        target = linked.resolve()
        data = target.read_bytes()
        target.write_bytes(data[:100])
        with pytest.raises(RmqIndexError, match=LINKED):
            IndexDirectory(linked.parent, LAYOUT, writable=True)
        assert target.read_bytes() == data[:100]
        target.write_bytes(data)

    def test_a_rebuild_does_not_go_on_in_a_link(self, linked, store):
        """The missing entries would stand elsewhere."""
        with CommitLog(store) as log, IndexFile(linked, LAYOUT) as file:
            (batch,) = file.scan(file.entry_count, file.entry_count + 1, ["phy_offset"])
            assert log.max_offset >= batch["phy_offset"][0].as_py()
        with pytest.raises(RmqIndexError, match=LINKED):
            rebuild_index(store, linked.parent, LAYOUT, resume=True)

    def test_a_dangling_link_makes_no_file(self, tmp_path):
        """A name that can be foretold may be taken by a link to what is not there yet."""
        target = tmp_path / "made"
        (tmp_path / "100").symlink_to(target)
        with pytest.raises(RmqIndexError, match=LINKED):
            IndexFileWriter(tmp_path / "100", LAYOUT)
        assert not target.exists()

    def test_a_link_is_replaced_and_not_what_it_leads_to(self, linked):
        """A commit and an expiry take the name away."""
        commit(linked.parent)
        assert not linked.is_symlink()
        assert linked.read_bytes() == b"new"

    def test_an_undone_append_does_not_write_through_a_link(self, linked, index):
        """The journal may name a file that is a link by now."""
        staging_root(index).mkdir()
        append = {**TestJournal.APPEND, "name": linked.name}
        append["header"] = linked.read_bytes()[:40].hex()
        text = json.dumps({**TestJournal.FIELDS, "append": append})
        (staging_root(index) / "journal.json").write_text(text)
        with pytest.raises(RmqIndexError, match=LINKED):
            LocalStaging.create(index, Owner.current())

    def test_an_index_or_a_store_that_is_a_link_is_written(self, store, tmp_path):
        """Operators move them to other disks; the staging lies beside the real directory."""
        (store / "index").rename(tmp_path / "index")
        (store / "index").symlink_to(tmp_path / "index")
        (tmp_path / "link").symlink_to(store)
        commit(tmp_path / "link" / "index")
        assert (tmp_path / "index" / "29991120182605197").read_bytes() == b"new"
        assert (store / "index").is_symlink()
        shutil.rmtree(tmp_path / "index")
        (tmp_path / "index").mkdir()
        assert rebuild_index(store, tmp_path / "link" / "index", LAYOUT).entry_count
        assert rebuild_consume_queues(store, tmp_path / "link", replace=True).unit_count


class TestStoreFiles:
    """The broker's own files around the index."""

    def test_a_checkpoint_that_is_a_link_is_read_and_not_written(self, store, elsewhere):
        """Nor are bytes of what it leads to copied into a new one."""
        (store / "checkpoint").unlink(missing_ok=True)
        (store / "checkpoint").symlink_to(elsewhere / "docs/letter")
        assert StoreCheckpoint.load(store / "checkpoint").physic_msg_timestamp
        with pytest.raises(RmqIndexError, match=f"checkpoint: {LINKED}"):
            StoreCheckpoint().save(store / "checkpoint")
        with pytest.raises(RmqIndexError, match=f"checkpoint: {LINKED}"):
            cover_index(store)

    def test_a_checkpoint_keeps_what_is_behind_its_fields(self, store):
        """It is a newer broker's, however much it is."""
        (store / "checkpoint").write_bytes(b"\1" * 10_000)
        StoreCheckpoint().save(store / "checkpoint")
        assert (store / "checkpoint").read_bytes() == bytes(40) + b"\1" * 9960

    @pytest.mark.parametrize("name", ["lock", "checkpoint"])
    def test_pipes_keep_nobody_waiting(self, store, name):
        """A file that is none is no lock, and no checkpoint."""
        (store / name).unlink(missing_ok=True)
        os.mkfifo(store / name)
        BrokerLock.of(store).hold().close()
        with pytest.raises(RmqIndexError, match="expected a file, got neither a file nor"):
            StoreCheckpoint.load(store / name)


class TestQueues:
    """Where ConsumeQueues are built."""

    @pytest.mark.parametrize("place", ["", "new", "old"])
    def test_a_link_in_the_place_of_the_staging_is_refused(self, store, elsewhere, place):
        """Nothing is built or cleared away where it leads."""
        home = store / ".consumequeue.rmqindex"
        if place:
            home.mkdir()
        (home / place if place else home).symlink_to(elsewhere / "docs")
        with pytest.raises(RmqIndexError, match=LINKED):
            rebuild_consume_queues(store, store, replace=True)

    @pytest.mark.parametrize(
        "text",
        [
            "[]",
            "{}",
            '{"old": ["../elsewhere"], "new": []}',
            '{"old": [], "new": ["../elsewhere"]}',
            '{"old": "consumequeue", "new": []}',
            '{"old": [["consumequeue"]], "new": []}',
        ],
    )
    def test_a_note_that_names_other_folders_is_refused(self, store, text):
        """Only the two folders are ever moved."""
        home = store / ".consumequeue.rmqindex"
        home.mkdir()
        (home / "undo.json").write_text(text)
        with pytest.raises(RmqIndexError, match=r"undo\.json: expected"):
            rebuild_consume_queues(store, store, replace=True)

    @pytest.mark.parametrize("linked", ["", "TopicTest", "TopicTest/0", QUEUE_FILE])
    @pytest.mark.parametrize("is_interrupted", [False, True])
    def test_a_link_is_neither_followed_nor_replaced(self, store, tmp_path, linked, is_interrupted):
        """New queues would not be where it leads; the command puts a copy in its place.

        Typed again, it makes a copy whole that was interrupted.
        """
        before = queue_files(store)
        place = store / "consumequeue" / linked
        target = place.rename(tmp_path / "queues")
        place.symlink_to(target)
        with pytest.raises(RmqIndexError, match=f"^{place}: expected no link, got one to") as error:
            rebuild_consume_queues(store, store, replace=True)
        assert place.is_symlink()
        command = re.search("`([^`]*)`", str(error.value))[1]
        if is_interrupted:
            part = command.rpartition(" && rm ")[0]
            subprocess.run(["bash", "-c", part], check=True)
            copy = place.with_name(f"{place.name}.copy")
            for file in [copy] if copy.is_file() else filter(Path.is_file, copy.rglob("*")):
                os.truncate(file, 10)
        subprocess.run(["bash", "-c", command], check=True)
        assert not place.is_symlink()
        subprocess.run(["bash", "-c", command], check=False)
        assert not place.with_name(f"{place.name}.copy").exists()
        rebuild_consume_queues(store, store, replace=True)
        assert queue_files(store) == before
        assert target.exists()

    def test_a_link_that_leads_nowhere_is_refused(self, store, elsewhere):
        """What it led to may be on a disk that is not there."""
        shutil.rmtree(store / "consumequeue")
        (store / "consumequeue").symlink_to(elsewhere / "nowhere")
        with pytest.raises(RmqIndexError, match=r"got a link to .*, which is not there"):
            rebuild_consume_queues(store, store, replace=True)
        assert (store / "consumequeue").is_symlink()
        assert not (elsewhere / "nowhere").exists()


def test_what_is_written_anew_takes_the_place_of_a_link(tmp_path, elsewhere):
    """The one way in which our own files are written."""
    (tmp_path / "note").symlink_to(elsewhere / "docs/letter")
    write_own(tmp_path / "note", b"new")
    assert (tmp_path / "note").read_bytes() == b"new"
    assert not (tmp_path / "note").is_symlink()


@pytest.mark.parametrize(("name", "is_name"), [("job-1", True), ("..", False), ("a\n", False)])
def test_plain_names_are_told_from_paths(name, is_name):
    """Also from those that only look like one."""
    assert is_plain_name(name) is is_name
    assert Path(name).name == name or not is_name
