"""What files of a CommitLog are lost, which no answer from the log passes over in silence."""

from __future__ import annotations

import json
import shutil

import pytest

import rmqindex
from commitlog_encoder import Log, Message, properties_text
from listings import after_listing
from recorded import HEALTHY_STORES, MESSAGE_KINDS, STORE_KINDS
from rmqindex import CommitLog, CorruptCommitLogError, IncompleteLogWarning, MessageStore
from rmqindex.commitlog import missing_parts

SAMPLE = rmqindex.sample_store()
HEALTHY = [SAMPLE, *HEALTHY_STORES]


@pytest.fixture
def store(tmp_path):
    """A copy of the sample store."""
    shutil.copytree(SAMPLE, tmp_path / "store")
    return tmp_path / "store"


def log_files(store):
    """Return the files of the log, oldest first."""
    return sorted(path for path in store.glob("**/data/*") or () if path.is_file()) or sorted(
        (store / "commitlog").iterdir()
    )


def lost(path, **within):
    """Return what the log of a path lacks."""
    with CommitLog(path) as log:
        return missing_parts(log, path, **within)


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: str(path.parent.name))
def test_the_log_of_a_broker_lacks_nothing(path, tmp_path):
    """Of every version and kind of store, by its index, and by its queues."""
    assert lost(path) == ()
    store = shutil.copytree(path, tmp_path / "store")
    shutil.rmtree(store / "index")
    assert lost(store) == ()


class TestTheNewestFile:
    """The index and the queues lead behind the log's end."""

    def test_is_told_by_the_index(self, store):
        """With the log's end, the file that proves it, and what to do."""
        newest = max((store / "index").iterdir())
        log_files(store)[-1].unlink()
        (part,) = lost(store)
        assert (part.part, part.start, part.stop, part.phy_offset) == ("end", 65504, None, 122928)
        assert part.text("the export") == (
            f"{store / 'commitlog'}: the CommitLog ends at offset 65504, but {newest} leads to a "
            "message at 122928. Unless that file is another store's, the messages from offset "
            "65504 on are missing from the export; restore the newest files of the CommitLog from "
            "a replica or a backup"
        )

    def test_is_told_by_a_queue_without_an_index(self, store):
        """Messages without keys are in no index at all."""
        shutil.rmtree(store / "index")
        log_files(store)[-1].unlink()
        (part,) = lost(store)
        assert (part.part, part.phy_offset) == ("end", 122928)
        assert "consumequeue" in part.proof

    @pytest.mark.parametrize("kind", ["dledger", "dledger_after_plain", "plain"])
    def test_is_told_of_every_kind_of_store(self, tmp_path, kind):
        """DLedger's offsets are those behind the head of the entry."""
        store = shutil.copytree(STORE_KINDS / kind / "store", tmp_path / "store")
        newest = log_files(store)[-1]
        newest.write_bytes(newest.read_bytes()[:400])
        (part,) = lost(store)
        assert part.part == "end"
        assert part.start < part.phy_offset

    def test_may_be_cut_or_the_only_one(self, store):
        """What is left of a cut one is read; without any, no message is."""
        oldest, newest = log_files(store)
        newest.write_bytes(newest.read_bytes()[:1000])
        assert [(part.part, part.start) for part in lost(store)] == [("end", 66451)]
        oldest.unlink()
        newest.unlink()
        (part,) = lost(store)
        assert part.start == 0
        assert "the CommitLog has no messages, but" in part.text()

    @pytest.mark.parametrize("size", [8, 4096])
    def test_may_have_lost_its_first_page(self, store, size):
        """A file that begins with zeros has a hole there, since messages follow."""
        newest = log_files(store)[-1]
        with newest.open("r+b") as file:
            file.write(bytes(size))
        assert lost(store) == ()
        with CommitLog(store) as log:
            with pytest.raises(CorruptCommitLogError, match="since one follows at byte") as caught:
                list(log.scan(columns=["phy_offset"]))
            assert (caught.value.path, caught.value.byte) == (str(newest), 0)
            assert log.max_offset == 123120

    def test_is_looked_for_again_before_it_is_missed(self, store, monkeypatch):
        """A broker may have begun it, and indexed it, since the log's files were listed."""
        newest = log_files(store)[-1]
        content = newest.read_bytes()
        newest.unlink()
        after_listing(monkeypatch, store / "index", lambda: newest.write_bytes(content))
        assert lost(store) == ()
        newest.unlink()
        with CommitLog(store) as log:
            assert sum(batch.num_rows for batch in log.scan(columns=["phy_offset"])) == 223


class TestOtherFiles:
    """The oldest and those between."""

    def test_the_oldest_may_have_expired(self, store):
        """But the broker would have deleted the IndexFile of its messages moments later."""
        log_files(store)[0].unlink()
        (part,) = lost(store)
        assert (part.part, part.start, part.stop) == ("start", None, 65536)
        assert part.proof == str(min((store / "index").iterdir()))
        assert "If they have not expired, the oldest files of the CommitLog are lost" in part.text()

    def test_the_oldest_is_told_by_a_queue(self, tmp_path):
        """One that begins with a file of expired messages alone, where there is no index."""
        store = shutil.copytree(MESSAGE_KINDS / "store", tmp_path / "store")
        shutil.rmtree(store / "index")
        (part,) = lost(store)
        assert (part.part, "ExpiredTopic" in part.proof) == ("start", True)

    def test_an_expired_file_goes_with_its_messages(self, store):
        """What the broker deletes then proves nothing."""
        log_files(store)[0].unlink()
        for name in sorted((store / "index").iterdir())[:2]:
            name.unlink()
        assert lost(store) == ()

    def test_one_between_is_a_hole(self, tmp_path):
        """Nothing but the names is needed."""
        log = Log(4096)
        for number in range(60):
            log.append(
                Message(body=b"x" * 100, properties=properties_text([("KEYS", str(number))]))
            )
        log.write_to(tmp_path / "commitlog")
        (tmp_path / "commitlog" / f"{4096:020}").unlink()
        copied = shutil.copytree(tmp_path / "commitlog", tmp_path / "copied")
        for path in (tmp_path, tmp_path / "commitlog", copied):
            (part,) = lost(path)
            assert (part.part, part.start, part.stop) == ("middle", 4096, 8192)


class TestAFileOfAnotherName:
    """Behind the log's end, its name hides its messages as well as a loss does."""

    def made(self, root, of):
        """Write a log of some files; let one have the name of the next one."""
        log = Log(2048)
        for place in range(60):
            log.append(Message(queue_offset=place))
        folder = log.write_to(root / "commitlog")
        assert lost(root) == ()
        files = sorted(folder.iterdir())
        return files[of].rename(folder / f"{2048 * len(files):020d}"), files[of]

    def test_is_told_with_its_own(self, tmp_path):
        """The oldest one leaves no hole."""
        renamed, own = self.made(tmp_path, 0)
        (part,) = lost(tmp_path)
        assert (part.part, part.start, part.stop) == ("misnamed", 0, 2048)
        assert part.text("the export") == (
            f"{renamed}: expected a message at the offset of its name, got "
            "one at offset 0. Its messages are missing from the export. While no broker runs, give "
            f"it the name {own.name}, which no file has: `mv -n {renamed} {own}`"
        )
        assert lost(tmp_path, start=2048) == ()

    def test_is_told_beside_the_hole(self, tmp_path):
        """It has what lacks there."""
        self.made(tmp_path, 1)
        assert {part.part for part in lost(tmp_path)} >= {"middle", "misnamed"}

    def test_a_copy_hides_nothing(self, tmp_path):
        """Its messages are where their own name is."""
        renamed, own = self.made(tmp_path, 0)
        shutil.copy(renamed, own)
        assert "misnamed" not in {part.part for part in lost(tmp_path)}


class TestWhatDoesNotCount:
    """Nothing is said of what was not asked for."""

    def test_files_that_were_chosen_by_name(self, store):
        """The user left the others out."""
        assert lost(log_files(store)[0]) == ()

    def test_a_range_of_offsets_before_it(self, store):
        """The answer is whole."""
        log_files(store)[-1].unlink()
        assert lost(store, stop=60000) == ()
        assert lost(store, stop=65505) != ()

    def test_a_range_of_offsets_behind_it(self, store):
        """Likewise."""
        log_files(store)[0].unlink()
        assert lost(store, start=65536) == ()
        assert lost(store, start=65535) != ()


class TestMessageStore:
    """Answers in Python."""

    def test_messages_and_usage_warn(self, store):
        """And have it in their metadata."""
        log_files(store)[-1].unlink()
        opened = MessageStore(store, mode="DROPMALFORMED")
        with pytest.warns(IncompleteLogWarning, match="ends at offset 65504"):
            reader = opened.messages()
        (told,) = json.loads(reader.schema.metadata[b"missing"])
        assert "leads to a message at 122928" in told
        with pytest.warns(IncompleteLogWarning, match="ends at offset 65504"):
            usage = opened.usage()
        assert json.loads(usage.schema.metadata[b"missing"]) == [told]

    def test_a_log_elsewhere_is_compared_with_the_index(self, store, tmp_path):
        """However it is given."""
        log_files(store)[-1].unlink()
        elsewhere = (store / "commitlog").rename(tmp_path / "log")
        for given in (elsewhere, CommitLog(elsewhere)):
            with pytest.warns(IncompleteLogWarning, match="ends at offset 65504"):
                MessageStore(store / "index", commit_log=given).usage()

    def test_a_whole_log_has_no_warning(self):
        """Nor anything in the metadata."""
        assert MessageStore(SAMPLE).messages().schema.metadata in ({}, None)
        assert MessageStore(SAMPLE).usage().schema.metadata in ({}, None)
