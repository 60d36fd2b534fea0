"""Files that a broker deletes from the head of a log while it is read."""

from __future__ import annotations

import shutil

import pytest

from commitlog_encoder import Log, Message, properties_text
from rmqindex import CommitLog, RmqIndexError, rebuild_index, verify
from rmqindex.commitlog import LogMark, Selection, newest_messages, select_messages
from rmqindex.explanation import explain_lookup
from rmqindex.export import export_messages
from rmqindex.inspection.usage import measure_usage
from rmqindex.logfile.files import ExpiredFileError

FILE_SIZE = 4096


@pytest.fixture
def log():
    """Eighty messages with keys, in several files."""
    log = Log(FILE_SIZE)
    for number in range(80):
        text = properties_text([("KEYS", f"k{number}"), ("UNIQ_KEY", f"u{number}")])
        log.append(Message(body=b"b" * 60, properties=text, store_timestamp=1000 + number))
    return log


@pytest.fixture
def store(log, tmp_path):
    """The log on disk, in a store."""
    log.write_to(tmp_path / "store" / "commitlog")
    return tmp_path / "store"


def expire(store, count=1):
    """Delete the oldest files, as a broker does."""
    for path in sorted((store / "commitlog").iterdir())[:count]:
        path.unlink()


def offsets(batches):
    """Return the offsets of the messages of batches."""
    return [offset for batch in batches for offset in batch["phy_offset"].to_pylist()]


def read_sparsely(log):
    """Return the offsets of two messages that are read one by one."""
    wanted = Selection(begin=1002, end=1003)
    blocks = select_messages(log, wanted, ["phy_offset", "body"])
    return offsets(block.batch for block in blocks if block.batch is not None)


READS = {
    "scan": lambda log, _: offsets(log.scan(columns=["phy_offset"])),
    "newest": lambda log, _: newest_messages(log, Selection(), ["phy_offset"], 99).to_pydict(),
    "selected": lambda log, _: read_sparsely(log),
    "by offset": lambda log, _: log.read_at([0, FILE_SIZE], ["size"]).to_pylist(),
    "usage": lambda log, _: measure_usage(log, ("topic",)),
    "first time": lambda log, _: log.first_store_timestamp(log.files[0]) and None,
    "mark": lambda log, _: LogMark.at(log, 0),
    "export": lambda log, folder: export_messages(log, folder / "out").row_count,
}


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", READS)
def test_the_answer_is_that_of_the_log_without_them(store, tmp_path, name, count):
    """As whoever lists the files later gets it, also if the log was read before."""
    read = READS[name]
    listed = CommitLog(store)
    expire(store, count)
    with listed, CommitLog(store) as later:
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        found = read(listed, tmp_path / "a")
        if name not in {"first time", "mark"}:
            assert found == read(later, tmp_path / "b")
            assert listed.min_offset == later.min_offset
        else:
            assert found is None


def test_an_offset_of_such_a_file_has_expired(store, log):
    """The usual state says so."""
    with CommitLog(store) as listed:
        expire(store)
        states = listed.read_at([0, log.offsets[-1]], ["size"])["state"].to_pylist()
        assert states == ["expired", "record"]


def test_messages_that_expire_during_a_read_are_left_out(store, log, monkeypatch):
    """Where they were found, and their columns are read behind that."""
    read_at = CommitLog.read_at

    def read_later(self, *args, **options):
        expire(store)
        return read_at(self, *args, **options)

    monkeypatch.setattr(CommitLog, "read_at", read_later)
    with CommitLog(store) as listed:
        assert read_sparsely(listed) == []
        assert log.offsets[3] < listed.min_offset


@pytest.mark.parametrize("name", ["scan", "newest", "by offset", "usage", "export"])
def test_a_file_that_is_lost_from_the_middle_is_an_error(store, tmp_path, name):
    """By its name."""
    with CommitLog(store) as listed:
        lost = sorted((store / "commitlog").iterdir())[1]
        lost.unlink()
        with pytest.raises(RmqIndexError, match=f"{lost.name}: cannot be read") as caught:
            READS[name](listed, tmp_path)
        assert not isinstance(caught.value, ExpiredFileError)


def test_a_log_that_is_gone_is_an_error(store):
    """No later file shows that a broker deleted the oldest."""
    with CommitLog(store) as listed:
        shutil.rmtree(store / "commitlog")
        with pytest.raises(RmqIndexError, match="cannot be read"):
            offsets(listed.scan())


def test_an_index_is_rebuilt_verified_and_explained_without_them(store):
    """Whatever of the log they have listed by then."""
    with CommitLog(store) as listed:
        expire(store)
        rebuild_index(listed, store / "index")
        expire(store)
        rules = {row["rule"] for row in verify(store, commit_log=listed).to_pylist()}
        assert rules == {"entry_expired", "queues_missing"}
        expire(store)
        found = explain_lookup(store, "TopicTest", "k0", commit_log=listed)
        assert found.log.min_offset == listed.min_offset == 3 * FILE_SIZE
