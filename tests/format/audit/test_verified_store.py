"""The audit of a whole store: does the index reach from the log's first message to its last?"""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import rmqindex
from commitlog_encoder import Log, Message, properties_text
from other_broker import running_broker
from recorded import BROKER_VERSIONS
from rmqindex import CommitLog, Layout, RmqIndexError, rebuild_index, verify
from rmqindex.explanation import uncovered
from rmqindex.store import IndexSnapshot, timestamp_name

SAMPLE = Path(rmqindex.sample_store())
NAMES = sorted(path.name for path in (SAMPLE / "index").iterdir())
BROKER = BROKER_VERSIONS / "5.5.0" / "store"


@pytest.fixture
def store(tmp_path):
    """Return a copy of the sample store."""
    shutil.copytree(SAMPLE, tmp_path / "store")
    return tmp_path / "store"


def errors(path, **options):
    """Return the rules of the errors of a store."""
    rows = verify(path, "auto", **options).to_pylist()
    return {row["rule"] for row in rows if row["severity"] == "error"}


def warnings(path):
    """Return the rules of the warnings of a store."""
    rows = verify(path, "auto").to_pylist()
    return {row["rule"] for row in rows if row["severity"] == "warning"}


def remove(store, *names):
    """Remove IndexFiles."""
    for name in names:
        (store / "index" / name).unlink()


def test_a_sound_store_has_no_errors(store):
    """As a broker left it."""
    assert errors(store) == errors(BROKER) == set()


@pytest.mark.parametrize("lost", ["files", "folder"])
def test_an_index_that_is_gone_is_an_error(store, lost):
    """With its files, or with its folder."""
    remove(store, *NAMES)
    if lost == "folder":
        (store / "index").rmdir()
    (row,) = verify(store, "auto").to_pylist()
    assert (row["rule"], row["severity"]) == ("index_missing", "error")
    assert row["file"] == str(store / "index")
    assert "rmqindex rebuild STORE" in row["remedy"]


def test_a_lost_oldest_file_is_an_error(store):
    """The broker's expiry deletes no file whose messages the log still has."""
    remove(store, NAMES[0])
    assert "index_begins_late" in errors(store)


def test_a_lost_newest_file_is_an_error(store):
    """The broker stopped cleanly, so nothing waits to be indexed."""
    remove(store, NAMES[-1])
    assert errors(store) == {"index_ends_early"}


def test_a_lost_file_in_the_middle_is_an_error(store):
    """Its messages have no entries."""
    remove(store, NAMES[2])
    assert "coverage_gap" in errors(store)


@pytest.mark.parametrize(("hours", "option"), [(13, "--resume"), (48, "--replace")])
def test_a_last_name_behind_which_no_new_one_fits_is_to_be_replaced(store, hours, option):
    """In the broker's zone it may be past; a rebuild that continues finds no name elsewhere."""
    remove(store, NAMES[-1])
    ahead = timestamp_name(time.time_ns() // 1_000_000 + hours * 3_600_000, UTC)
    (store / "index" / NAMES[-2]).rename(store / "index" / ahead)
    (row,) = [row for row in verify(store, "auto").to_pylist() if row["severity"] == "error"]
    assert row["rule"] == "index_ends_early"
    assert f"`rmqindex rebuild STORE {option}`" in row["remedy"]
    zone = "Pacific/Kiritimati"
    rebuild_index(store, store / "index", time_zone=zone, resume=hours == 13, replace=hours == 48)
    assert errors(store) == set()


@pytest.mark.parametrize(("hours", "rules"), [(13, set()), (48, {"file_name_ahead"})])
def test_a_name_that_lies_ahead_of_all_messages_is_told(store, hours, rules):
    """By messages and the file before it, in any zone, whatever the present time is."""
    for name in NAMES:
        with rmqindex.IndexFile(store / "index" / name) as file:
            begin = file.header.begin_timestamp
        own = timestamp_name(begin, UTC)
        (store / "index" / name).rename(store / "index" / own)
    newest = max((store / "index").iterdir())
    newest.rename(newest.with_name(timestamp_name(begin + hours * 3_600_000, UTC)))
    assert warnings(store) == rules


def test_the_index_of_a_running_broker_may_lag(store):
    """By minutes: its newest messages are a remark, and older ones an error."""
    remove(store, NAMES[-1])
    with running_broker(store):
        assert errors(store) == warnings(store) == set()
        assert "index_lags" in verify(store, "auto")["rule"].to_pylist()
        remove(store, NAMES[-2])
        assert errors(store) == {"index_ends_early"}


@pytest.mark.parametrize("indexed", [1, 2])
def test_a_clock_that_stepped_back_makes_no_message_old(tmp_path, indexed):
    """Only what is stored behind a message tells how long it has waited for its entries."""
    log = Log(4096)
    for number, seconds in enumerate((300_000, 0, 1, 300)):
        pairs = properties_text([("KEYS", f"k{number}")] if number else [])
        log.append(Message(properties=pairs, store_timestamp=(1_700_000_000 + seconds) * 1000))
    log.write_to(tmp_path / "commitlog")
    stop = log.offsets[indexed]
    (tmp_path / "lock").touch()
    rebuild_index(tmp_path, tmp_path / "index", Layout(4, 30), stop=stop, allow_loss=True)
    with running_broker(tmp_path):
        found = set(verify(tmp_path, "auto")["rule"].to_pylist())
        assert "index_lags" in found
        assert errors(tmp_path) == set()
        with CommitLog(tmp_path) as opened:
            outside = uncovered(tmp_path, IndexSnapshot.of(tmp_path, None, "FAILFAST"), opened)
        assert "end" not in {part.part for part in outside}


def test_a_broker_that_was_killed_indexes_nothing(store):
    """Nobody holds its lock, so nothing changes in a few minutes (F6)."""
    (store / "abort").touch()
    remove(store, NAMES[-1])
    assert errors(store) == set()
    assert "restart_indexes" in verify(store, "auto")["rule"].to_pylist()
    remove(store, *NAMES[2:-1])
    assert errors(store) == {"index_ends_early"}
    remove(store, *NAMES[:2])
    assert errors(store) == {"index_missing"}


def test_a_copy_elsewhere_may_lag(store):
    """Where no broker is seen, nobody tells whether it is about to index."""
    (store / "index").rename(store / "copy")
    (store / "copy" / NAMES[-1]).unlink()
    rows = verify(store / "copy", store / "commitlog").to_pylist()
    assert [row["severity"] for row in rows if row["rule"] == "index_behind"] == ["warning"]


def test_an_expired_log_needs_no_older_entries(store):
    """The broker deletes log files, and later the index files of their messages."""
    log = sorted((store / "commitlog").iterdir())
    log[0].unlink()
    assert errors(store) == set()
    first = int(log[1].name)
    for name in NAMES[:-1]:
        with rmqindex.IndexFile(store / "index" / name) as file:
            if file.header.end_phy_offset < first:
                remove(store, name)
    assert errors(store) == set()


def test_messages_without_keys_need_no_index(keyless_store):
    """Neither a folder nor a file."""
    assert verify(keyless_store, "auto").to_pylist() == []
    (keyless_store / "index").mkdir()
    assert errors(keyless_store) == set()


@pytest.fixture
def keyless_store(store):
    """Return a store whose messages have lost their keys."""
    shutil.rmtree(store / "index")
    for file in (store / "commitlog").iterdir():
        data = file.read_bytes().replace(b"UNIQ_KEY\x01", b"UNIQ_KEX\x01")
        file.write_bytes(data.replace(b"KEYS\x01", b"KEYX\x01"))
    (store / "checkpoint").touch()
    return store


def test_a_store_without_a_log_needs_its_index(store):
    """Nothing tells what the index should hold."""
    shutil.rmtree(store / "index")
    shutil.rmtree(store / "commitlog")
    with pytest.raises(RmqIndexError, match="expected a store with a folder index, found none"):
        verify(store, "auto")


def test_an_empty_folder_is_refused(tmp_path):
    """Its disk may not be mounted."""
    with pytest.raises(RmqIndexError, match="got an empty directory"):
        verify(tmp_path, "auto")


def test_an_index_in_rocksdb_is_refused(store):
    """There are no IndexFiles to check, and none is missing."""
    shutil.rmtree(store / "index")
    (store / "rocksdbstore").mkdir()
    (store / "rocksdbstore" / "000013.sst").write_bytes(b"rocksdb.column.family.namedefault")
    with pytest.raises(RmqIndexError, match="an index in RocksDB"):
        verify(store, "auto")


class TestSince:
    """Only what was stored at a time or later is checked."""

    def end_of(self, name):
        """Return the last time of a file."""
        with rmqindex.IndexFile(SAMPLE / "index" / name) as file:
            return file.header.end_timestamp

    def test_older_files_are_left_out(self, store):
        """The damage in them is not seen, and that in later ones is."""
        path = store / "index" / NAMES[0]
        path.write_bytes(path.read_bytes()[:-1])
        since = self.end_of(NAMES[1])
        assert errors(store, since=since) == set()
        assert "file_size" in errors(store)
        remove(store, NAMES[-1])
        assert errors(store, since=since) == {"index_ends_early"}

    def test_a_lost_index_is_an_error_at_any_time(self, store):
        """An idle broker's, too."""
        remove(store, *NAMES)
        assert errors(store, since=timedelta(hours=2)) == {"index_missing"}

    @pytest.mark.parametrize("number", [0, -1])
    def test_a_lost_file_counts_by_the_times_of_its_messages(self, store, number):
        """One that ended earlier is none of its business."""
        since = self.end_of(NAMES[number])
        remove(store, NAMES[number])
        assert errors(store, since=since + 1) == set()
        assert errors(store, since=since - 60_000) != set()

    def test_it_is_a_time_or_how_long_ago(self, store):
        """All forms mean the same moment."""
        remove(store, NAMES[-1])
        end = self.end_of(NAMES[-1])
        moment = datetime.fromtimestamp(end / 1000, UTC)
        assert errors(store, since=moment - timedelta(minutes=1)) == {"index_ends_early"}
        assert errors(store, since=timedelta(days=365 * 100)) == {"index_ends_early"}
        assert errors(store, since=timedelta(hours=2)) == set()


def test_every_rule_says_what_to_do():
    """In a sentence, and the finding repeats it."""
    for rule in rmqindex.AUDIT_RULES:
        assert rule.remedy.endswith(".")
    remedies = {rule.name: rule.remedy for rule in rmqindex.AUDIT_RULES}
    for row in verify(SAMPLE, "auto").to_pylist():
        assert row["remedy"] == remedies[row["rule"]]


def test_a_missing_index_says_over_what_time(store):
    """Nothing where the messages were stored within a second."""
    remove(store, *NAMES)
    (row,) = (row for row in verify(store, "auto").to_pylist() if row["rule"] == "index_missing")
    assert row["got"] == "none; the last of them was stored 22857 s after the first"
    first, last = sorted((store / "commitlog").iterdir())
    last.unlink()
    with rmqindex.CommitLog(first) as log:
        second = next(log.scan(columns=["phy_offset"]))["phy_offset"][1].as_py()
    first.write_bytes(first.read_bytes()[:second])
    (row,) = (row for row in verify(store, "auto").to_pylist() if row["rule"] == "index_missing")
    assert row["got"] == "none"


@pytest.mark.parametrize("gone", [(), ("consumequeue", "checkpoint")])
@pytest.mark.parametrize("lost", ["files", "folder"])
def test_a_hole_in_the_log_of_an_index_that_is_gone_is_reported(store, lost, gone):
    """No file of the index has a part of the log in which it could be found."""
    log = min((store / "commitlog").iterdir())
    log.write_bytes(bytes(log.stat().st_size))
    remove(store, *NAMES)
    if lost == "folder":
        (store / "index").rmdir()
    for name in gone:
        place = store / name
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    rows = verify(store, "auto").to_pylist()
    assert {row["rule"] for row in rows if "queue" not in row["rule"]} >= {
        "index_missing",
        "log_damaged",
    }
    (damage,) = (row for row in rows if row["rule"] == "log_damaged")
    assert (damage["file"], damage["byte"], damage["severity"]) == (str(log), 0, "error")


@pytest.mark.parametrize("folder", ["commitlog", "dledger-n0/data"])
@pytest.mark.parametrize("index", ["whole", "gone"])
def test_a_log_of_files_without_bytes_lost_its_end(store, folder, index):
    """It is a log, to which its store's files lead, be it one of DLedger; not none."""
    shutil.rmtree(store / "commitlog")
    (store / folder).mkdir(parents=True)
    (store / folder / f"{0:020d}").touch()
    if index == "gone":
        shutil.rmtree(store / "index")
    assert "log_damaged" in errors(store)
