"""Files that a broker deletes from the head of a log while it is read."""

from __future__ import annotations

import io
import shutil

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from stores import CountingHandler

from commitlog_encoder import Log, Message, properties_text
from rmqindex import CommitLog, RmqIndexError, rebuild_index, verify
from rmqindex.commitlog import LogMark, Selection, newest_messages, select_messages
from rmqindex.commitlog.files import ExpiredFileError
from rmqindex.explanation import explain_lookup
from rmqindex.export import export_messages
from rmqindex.query import measure_usage
from rmqindex.storage import FileChangedError

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


@pytest.mark.parametrize("was_read", [False, True])
def test_a_deleted_file_has_no_boundaries_but_its_start(store, was_read):
    """The parts of the log, read by them, are those that are left."""
    with CommitLog(store) as log:
        if was_read:
            list(log.scan())
        parts = [log.record_boundaries(file, 700) for file in log.files]
    with CommitLog(store) as log:
        expire(store, 2)
        cuts = [log.record_boundaries(file, 700) for file in log.files]
        assert cuts == [[0], [FILE_SIZE], *parts[2:]]
        with CommitLog(store) as later:
            assert offsets(log.scan(0, None)) == offsets(later.scan())


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


class Objects(CountingHandler):
    """Serves a folder by ranges: what is deleted is gone, be it open."""

    def __init__(self, folder, error):
        """Serve a folder; reads of what is gone raise an error."""
        super().__init__(folder)
        self.folder, self.error = folder, error

    def open_input_file(self, path):
        """Open a file, which is opened anew by each read."""
        return pa.PythonFile(_Object(self, self.folder / path), "r")


class _Object(io.RawIOBase):
    def __init__(self, handler, path):
        super().__init__()
        self._handler, self._path, self._at = handler, path, 0
        self._size = path.stat().st_size

    def readable(self):
        """Read, and nothing else."""
        return True

    seekable = readable

    def seek(self, offset, whence=0):
        """Go to an offset."""
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self):
        """Return the offset."""
        return self._at

    def size(self):
        """Return the size when it was opened."""
        return self._size

    def read(self, size=-1):
        """Request a range."""
        if not self._path.exists():
            raise self._handler.error(str(self._path))
        data = self._path.read_bytes()[self._at :][: self._size if size < 0 else size]
        self._at += len(data)
        return data


class OwnError(Exception):
    """One that a file system in Python raises."""


@pytest.fixture(params=[FileNotFoundError, OwnError])
def objects(store, request):
    """The log as objects."""
    filesystem = pafs.PyFileSystem(Objects(store, request.param))
    with CommitLog("commitlog", filesystem=filesystem) as log:
        yield log


@pytest.mark.parametrize("name", READS)
def test_an_object_that_expires_while_it_is_open_is_left_out(store, objects, tmp_path, name):
    """It cannot be read on, as a local file can."""
    for file in objects.files:
        objects.source(file)
    expire(store)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    found = READS[name](objects, tmp_path / "a")
    with CommitLog(store) as later:
        if name in {"first time", "mark"}:
            assert found is None
        else:
            assert found == READS[name](later, tmp_path / "b")
            assert objects.min_offset == later.min_offset


def test_an_object_that_expires_during_a_scan_ends_there(store, objects, log):
    """What was read is given, and the next file follows."""
    batches = objects.scan(columns=["phy_offset"], max_records=3)
    first = offsets([next(batches)])
    expire(store)
    rest = offsets(batches)
    later = [offset for offset in log.offsets if offset >= FILE_SIZE]
    assert first == log.offsets[:3]
    assert rest[-len(later) :] == later
    assert first + rest == sorted(set(first + rest))


def test_an_object_that_is_gone_from_the_middle_is_an_error(store, objects):
    """By its name, whatever its file system raises."""
    for file in objects.files:
        objects.source(file)
    sorted((store / "commitlog").iterdir())[1].unlink()
    with pytest.raises(RmqIndexError, match="00004096: cannot be read: ") as caught:
        offsets(objects.scan(columns=["phy_offset"]))
    assert not isinstance(caught.value, ExpiredFileError)


def test_an_object_that_is_cut_while_it_is_open_is_named(store, objects):
    """With the size that it had, and the one that it has."""
    source = objects.source(objects.files[1])
    (store / "commitlog" / f"{FILE_SIZE:020d}").write_bytes(b"\1" * 100)
    with pytest.raises(FileChangedError, match="the file was cut from 4096 to 100 bytes"):
        source.read(0, 200)


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
