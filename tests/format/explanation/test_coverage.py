"""What an index lacks of its CommitLog, which no lookup passes over in silence."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

import rmqindex
from commitlog_encoder import Log, Message, properties_text
from permissions import mode_of
from recorded import BROKER_VERSIONS, MESSAGE_KINDS, STORE_KINDS
from rmqindex import CommitLog, IncompleteIndexWarning, MessageStore, rebuild_index
from rmqindex.explanation import coverage, uncovered
from rmqindex.storage.location import Location
from rmqindex.store.snapshot import plan_index

SAMPLE = rmqindex.sample_store()
NAMES = sorted(path.name for path in (SAMPLE / "index").iterdir())
HEALTHY = [
    SAMPLE,
    MESSAGE_KINDS / "store",
    *(BROKER_VERSIONS / version / "store" for version in ("4.9.7", "5.3.3", "5.5.0")),
    *(
        STORE_KINDS / kind / "store"
        for kind in ("plain", "dledger", "dledger_after_plain", "dledger_batches", "double_write")
    ),
]


@pytest.fixture
def store(tmp_path):
    """A copy of the sample store."""
    shutil.copytree(SAMPLE, tmp_path / "store")
    return tmp_path / "store"


def remove(store, *names):
    """Remove IndexFiles."""
    for name in names:
        (store / "index" / name).unlink()


def lacking(store, mode="FAILFAST"):
    """Return what the index of a store lacks."""
    log_path = store if any(store.glob("dledger-*")) else store / "commitlog"
    with CommitLog(log_path) as log:
        return uncovered(store, plan_index(store, None, mode), log)


def parts(store):
    """Return the parts that the index of a store lacks, with their first offsets."""
    return [(part.part, part.start) for part in lacking(store)]


@pytest.mark.parametrize("name", [NAMES[0], NAMES[2], NAMES[-1]])
@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED"])
def test_a_file_that_cannot_be_read_may_have_the_entries(store, name, mode):
    """So that nothing is missing for sure; the answer names the file as it is."""
    with mode_of(store / "index" / name, 0), CommitLog(store / "commitlog") as log:
        assert lacking(store, mode) == ()
        assert coverage.uncovered_in(Location.of(store / "index"), log, mode=mode) == ()


class TestWholeIndexes:
    """Nothing is said of them."""

    @pytest.mark.parametrize("path", HEALTHY, ids=lambda path: str(path.parent.name))
    def test_the_index_of_a_broker_lacks_nothing(self, path):
        """Of every version and kind of store."""
        assert lacking(path) == ()

    def test_messages_without_keys_need_no_entries(self, tmp_path):
        """Before, between and behind those that have some."""
        log = Log(4096)
        for number in range(14):
            pairs = [("KEYS", f"k{number}")] if number % 4 == 2 else []
            log.append(Message(properties=properties_text(pairs)))
        log.write_to(tmp_path / "commitlog")
        layout = rmqindex.Layout(4, 3)
        rebuild_index(tmp_path / "commitlog", tmp_path / "index", layout)
        assert len(list((tmp_path / "index").iterdir())) == 2
        assert lacking(tmp_path) == ()

    def test_expired_messages_need_no_entries(self, store):
        """The oldest log file is gone, then the IndexFiles of its messages."""
        (store / "commitlog" / "00000000000000000000").unlink()
        assert lacking(store) == ()
        remove(store, *NAMES[:2])
        assert lacking(store) == ()

    def test_a_single_file_is_answered_for_itself(self, store):
        """The user chose to leave the others out."""
        path = store / "index" / NAMES[2]
        with CommitLog(store / "commitlog") as log:
            assert uncovered(path, plan_index(path, None, "FAILFAST"), log) == ()


class TestLostFiles:
    """Each is named, with the messages and with what indexes them again."""

    def test_the_oldest(self, store):
        """Both ends are told: the log's and the index's."""
        remove(store, NAMES[0])
        (part,) = lacking(store)
        assert (part.part, part.start, part.stop, part.log_start) == ("start", 0, 26249, 0)
        assert part.text() == (
            f"{store / 'index' / NAMES[1]}: the oldest IndexFile begins at offset 26249, the "
            "CommitLog at 0. Messages with keys from offset 0 to before 26249, the first stored "
            "2023-11-14 22:13:24.511 UTC, have no entries, so no lookup finds them. Stop the "
            f"broker and run `rmqindex rebuild {store} --replace`"
        )

    @pytest.mark.parametrize("name", NAMES[1:-1])
    def test_one_in_the_middle(self, store, name):
        """The file behind the hole is named."""
        remove(store, name)
        (part,) = lacking(store)
        assert (part.part, part.is_certain) == ("middle", True)
        assert part.file == str(store / "index" / NAMES[NAMES.index(name) + 1])
        assert part.after < part.start < part.stop

    def test_the_newest(self, store):
        """The broker has stopped, so nothing waits to be indexed; a rebuild can continue."""
        remove(store, NAMES[-1])
        (part,) = lacking(store)
        assert (part.part, part.stop) == ("end", None)
        assert part.remedy == f"rmqindex rebuild {store} --resume"

    def test_all(self, store):
        """The command is the one that works for what is left: no files, or files of nothing."""
        remove(store, *NAMES)
        (part,) = lacking(store)
        assert (part.part, part.start, part.remedy) == ("whole", 0, f"rmqindex rebuild {store}")

    def test_several(self, store):
        """Each hole is told."""
        remove(store, NAMES[0], NAMES[2], NAMES[-1])
        assert [part.part for part in lacking(store)] == ["start", "middle", "end"]

    @pytest.mark.parametrize(("place", "part"), [(2, "middle"), (-1, "end")])
    def test_the_rest_of_a_file_that_is_cut(self, store, place, part):
        """DROPMALFORMED reads what is left of it, and its header still counts all entries.

        The message of the last entry left counts as lacking: the cut may have taken other entries.
        """
        path = store / "index" / NAMES[place]
        path.write_bytes(path.read_bytes()[:2000])
        (found,) = lacking(store, "DROPMALFORMED")
        assert found.part == part
        assert found.after < found.start
        assert found.remedy == f"rmqindex rebuild {store} --replace"
        with rmqindex.IndexFile(path, rmqindex.Layout(97, 200), mode="DROPMALFORMED") as file:
            left = [o for batch in file.scan() for o in batch["phy_offset"].to_pylist()]
        assert found.after == max(offset for offset in left if offset < left[-1])
        assert found.start <= left[-1]

    @pytest.mark.parametrize("place", [0, 1, -1])
    def test_of_a_dledger_store(self, tmp_path, place):
        """Its entries have heads of 48 bytes between the records."""
        shutil.copytree(STORE_KINDS / "dledger_batches" / "store", tmp_path / "store")
        names = sorted(path.name for path in (tmp_path / "store" / "index").iterdir())
        remove(tmp_path / "store", names[place])
        (part,) = lacking(tmp_path / "store")
        assert part.part == {0: "start", 1: "middle", -1: "end"}[place]


class TestRunningBrokers:
    """They index moments after they store."""

    @pytest.fixture
    def running(self, store):
        """A store whose lock a broker holds, as far as this process can tell."""
        code = (
            "import fcntl, sys, os; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX, 1); "
            "print('held', flush=True); sys.stdin.read()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code, str(store / "lock")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            process.stdout.readline()
            yield store
            process.stdin.close()

    def test_what_was_just_stored_may_wait(self, running):
        """The newest file has messages of some minutes."""
        remove(running, NAMES[-1])
        assert lacking(running) == ()

    def test_what_was_stored_long_ago_may_not(self, running):
        """The two newest files have messages of an hour."""
        remove(running, *NAMES[-2:])
        assert [part.part for part in lacking(running)] == ["end"]

    def test_a_broker_that_was_killed_indexes_nothing(self, store):
        """It left ``abort``, and holds no lock."""
        (store / "abort").touch()
        remove(store, NAMES[-1])
        assert [part.part for part in lacking(store)] == ["end"]


def test_remains_behind_the_end_of_the_log_are_no_messages(store):
    """A log that was cut has them, and its last file is walked to tell."""
    with CommitLog(store / "commitlog") as log:
        offsets = [o for b in log.scan() for o in b["phy_offset"].to_pylist()]
    path = store / "commitlog" / "00000000000000065536"
    data = bytearray(path.read_bytes())
    place = offsets[-3] - 65536
    data[place : place + 8] = bytes(8)
    path.write_bytes(data)
    remove(store, NAMES[-1])
    (part,) = lacking(store)
    assert part.start < offsets[-3]


def test_a_search_that_is_cut_short_says_so(tmp_path, monkeypatch):
    """Whether there are messages with keys is not known, and the audit tells."""
    monkeypatch.setattr(coverage, "_MAX_LOCAL", 300)
    monkeypatch.setattr(coverage, "_RECORDS", 1)
    log = Log(4096)
    for number in range(10):
        pairs = [("KEYS", "k")] if number == 9 else []
        log.append(Message(properties=properties_text(pairs)))
    log.write_to(tmp_path / "commitlog")
    rebuild_index(tmp_path / "commitlog", tmp_path / "index", rmqindex.Layout(4, 3))
    (part,) = lacking(tmp_path)
    assert (part.part, part.is_certain) == ("start", False)
    assert part.text().endswith(
        f"no lookup would find, is not known; `rmqindex verify {tmp_path}` checks it"
    )


class TestPython:
    """``MessageStore.lookup``."""

    def test_its_answer_carries_what_it_lacks(self, store):
        """As a warning, and in the metadata of the table."""
        remove(store, NAMES[0])
        with pytest.warns(IncompleteIndexWarning, match="begins at offset 26249") as caught:
            found = MessageStore(store).lookup("TopicTest", "order-49")
        assert found.num_rows == 8
        assert json.loads(found.schema.metadata[b"uncovered"]) == [str(caught[0].message)]

    def test_an_answer_of_a_whole_index_carries_nothing(self):
        """No warning, no metadata."""
        assert MessageStore(SAMPLE).lookup("TopicTest", "order-49").schema.metadata is None


class TestFilesOfAnotherLog:
    """Their offsets are those of other messages."""

    def test_an_index_of_another_store_is_one(self, store):
        """Said once, whatever the number of its files."""
        shutil.rmtree(store / "index")
        shutil.copytree(MESSAGE_KINDS / "store" / "index", store / "index")
        (part,) = lacking(store)
        assert (part.part, part.is_certain) == ("other", False)
        assert part.text().endswith(
            "where no message of the CommitLog starts: the index is another CommitLog's, or one of "
            f"them is damaged, so that lookups may miss messages; `rmqindex verify {store}` checks "
            "it"
        )

    def test_a_file_among_others_is_one(self, store):
        """The others are compared with the log."""
        victim = store / "index" / NAMES[1]
        victim.write_bytes(min((MESSAGE_KINDS / "store" / "index").iterdir()).read_bytes())
        found = lacking(store)
        assert (found[0].part, found[0].file) == ("other", str(victim))
        assert {part.part for part in found[1:]} == {"middle"}

    def test_a_file_under_another_name_is_none(self, store):
        """Its entries are found, wherever its name puts it."""
        (store / "index" / NAMES[0]).rename(store / "index" / "99991120182605197")
        assert lacking(store) == ()
