"""Messages as they are appended: each once, in order, whatever a broker does to its log."""

from __future__ import annotations

import shutil

import pytest

from commitlog_encoder import Log, Message, properties_text
from recorded import STORE_KINDS
from rmqindex import CommitLog, CorruptCommitLogError, RmqIndexError
from rmqindex.commitlog import Selection
from rmqindex.messagestore import Follower
from rmqindex.messagestore import following as rules

BEGIN = 1_700_000_000_000
FILE_SIZE = 4096


def message(number, **fields):
    """Return a message with a key, stored at its own time."""
    fields.setdefault("store_timestamp", BEGIN + number)
    return Message(
        topic="A" if number % 2 else "B",
        body=b"body" * (number % 9 + 1),
        properties=properties_text([("UNIQ_KEY", f"ID{number}"), ("KEYS", f"k{number}")]),
        **fields,
    )


class Broker:
    """A broker that appends to a log in a folder, and what a follower of it reads and tells."""

    def __init__(self, folder, **selection):
        """Begin an empty log, which the follower follows once it is there."""
        self.folder = folder
        self.log = Log(FILE_SIZE)
        self.told = []
        self.follower = Follower(folder, Selection(**selection), ["keys"], tell=self.told.append)

    def append(self, *numbers, **fields):
        """Append messages."""
        for number in numbers:
            self.log.append(message(number, **fields))
        self.log.write_to(self.folder)

    def poll(self):
        """Return the numbers of the messages that came."""
        return [
            int(key[1:])
            for _, batch in self.follower.poll()
            for key in batch.column("keys").to_pylist()
        ]

    def cut(self, count, *, remains=False):
        """Cut the last messages, as a recovery does; their bytes may remain until others come."""
        before = {path.name: path.read_bytes() for path in self.folder.iterdir()}
        kept = Log(FILE_SIZE)
        for number in range(len(self.log.offsets) - count):
            kept.append(message(number))
        self.log = kept
        shutil.rmtree(self.folder)
        kept.write_to(self.folder)
        if remains:
            self.remains = before

    def append_over_remains(self, *numbers):
        """Append messages over what a cut left in the file."""
        at = self.log.end
        self.append(*numbers)
        for path in self.folder.iterdir():
            data, old = bytearray(path.read_bytes()), self.remains[path.name]
            if int(path.name) <= at < int(path.name) + FILE_SIZE:
                end = self.log.end - int(path.name)
                data[end:] = old[end:]
                path.write_bytes(data)


@pytest.fixture
def broker(tmp_path):
    """Return a broker with ten messages."""
    made = Broker(tmp_path / "log")
    made.folder.mkdir()
    made.append(*range(10))
    return made


def test_it_begins_at_the_end_and_goes_on_over_files(broker):
    """A message that was there comes not; a poll without a new one has none."""
    assert broker.poll() == []
    broker.append(10)
    assert (broker.poll(), broker.poll()) == ([10], [])
    broker.append(*range(11, 80))
    assert len(list(broker.folder.iterdir())) > 2
    assert broker.poll() == list(range(11, 80))
    broker.append(80, 81)
    assert (broker.poll(), broker.told) == ([80, 81], [])


@pytest.mark.parametrize("selection", [{"begin": BEGIN}, {"start": 0}, {"start": 1}])
def test_it_begins_with_what_is_there_if_asked(broker, selection):
    """From a time or an offset on, which need not be that of a message."""
    broker.follower = Follower(broker.folder, Selection(**selection), ["keys"])
    first = int(selection.get("start", 0) > 0)
    assert broker.poll() == list(range(first, 10))
    broker.append(10)
    assert broker.poll() == [10]


def test_an_offset_that_is_not_reached_yet_is_waited_for(broker):
    """What lies before it comes not."""
    start = broker.log.end + 1
    broker.follower = Follower(broker.folder, Selection(start=start), ["keys"])
    assert broker.poll() == []
    broker.append(10, 11, 12)
    assert broker.poll() == [11, 12]


def test_a_selection_holds(broker):
    """Those that are not asked for count as read."""
    broker.follower = Follower(broker.folder, Selection(topics=("A",)), ["keys"])
    assert broker.poll() == []
    broker.append(10, 11, 12)
    assert broker.poll() == [11]
    broker.cut(1)
    broker.append(13)
    assert broker.poll() == [13]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_cut_is_told_and_what_takes_the_place_comes(broker, count):
    """Be it seen before or after other messages are there; none comes twice."""
    broker.poll()
    broker.append(*range(10, 16))
    assert broker.poll() == list(range(10, 16))
    broker.cut(count)
    if count == 1:
        assert broker.poll() == []
    broker.append(*range(100, 110))
    assert broker.poll() == list(range(100, 110))
    (told,) = broker.told
    assert "got a log that was cut at offset" in told
    assert "what takes their place follows" in told
    broker.append(110)
    assert (broker.poll(), len(broker.told)) == ([110], 1)


def test_a_message_over_the_remains_of_longer_ones_comes(broker):
    """A broker cuts its log in memory: what it had written stays in the file behind the new end."""
    broker.poll()
    broker.append(*range(10, 15))
    assert broker.poll() == list(range(10, 15))
    broker.cut(4, remains=True)
    broker.append_over_remains(100)
    with CommitLog(broker.folder) as log:
        assert log.max_offset == broker.log.end
    assert broker.poll() == [100]
    assert "cut at offset" in broker.told[0]


def test_a_cut_into_the_file_before_is_known_from_the_first_poll_on(broker):
    """Messages of both are known by their marks, though none was read."""
    while broker.log.end % FILE_SIZE < 3000 or broker.log.end < FILE_SIZE:
        broker.append(len(broker.log.offsets))
    while broker.log.end % FILE_SIZE > 1000:
        broker.append(len(broker.log.offsets))
    assert broker.poll() == []
    inside = sum(offset >= broker.log.end // FILE_SIZE * FILE_SIZE for offset in broker.log.offsets)
    broker.cut(inside + 2)
    broker.append(500, 501)
    assert broker.poll() == [500, 501]
    assert "cut at offset" in broker.told[0]


def test_remains_behind_a_cut_that_no_mark_tells_do_not_come_again(broker, monkeypatch):
    """The message before the place where reading goes on tells them from new ones."""
    monkeypatch.setattr(rules, "_MARKS", 2)
    monkeypatch.setattr(rules, "_FULL_CHECK", 1)
    broker.follower = Follower(broker.folder, Selection(), ["keys"], tell=broker.told.append)
    broker.poll()
    broker.append(*range(10, 16))
    assert broker.poll() == list(range(10, 16))
    broker.cut(5, remains=True)
    broker.append_over_remains(100)
    assert broker.poll() == []
    assert "truncated or replaced" in broker.told[0]
    broker.append_over_remains(101, 102)
    assert broker.poll() == [101, 102]


def test_another_log_is_told_and_read_from_the_next_message_on(broker):
    """As a stream does where no mark is left that proves what was read."""
    broker.poll()
    broker.append(10)
    assert broker.poll() == [10]
    end = broker.log.end
    broker.log = Log(FILE_SIZE)
    broker.append(*range(200, 240), store_timestamp=BEGIN + 10**6)
    assert broker.poll() == [
        200 + number for number, offset in enumerate(broker.log.offsets) if offset >= end
    ]
    assert "truncated or replaced" in broker.told[0]
    assert "passed over" in broker.told[0]


def test_more_than_is_remembered_may_be_cut(broker, monkeypatch):
    """Then the rule is that of a stream, and said."""
    monkeypatch.setattr(rules, "_MARKS", 3)
    broker.follower = Follower(broker.folder, Selection(), ["keys"], tell=broker.told.append)
    broker.poll()
    broker.append(*range(10, 20))
    assert broker.poll() == list(range(10, 20))
    broker.cut(8)
    assert broker.poll() == []
    assert "truncated or replaced" in broker.told[0]
    broker.append(300)
    assert broker.poll() == [300]


def test_files_that_expire_read_are_no_loss_and_unread_ones_are_told(broker):
    """The oldest first, as a broker deletes them."""
    broker.poll()
    broker.append(*range(10, 60))
    assert broker.poll() == list(range(10, 60))
    oldest = sorted(broker.folder.iterdir())
    oldest[0].unlink()
    broker.log.append(message(60))
    write_kept(broker, 1)
    assert (broker.poll(), broker.told) == ([60], [])
    for number in range(61, 140):
        broker.log.append(message(number))
    write_kept(broker, 4)
    kept = [n for n, offset in enumerate(broker.log.offsets) if offset >= 4 * FILE_SIZE]
    assert broker.poll() == kept
    assert f"to {4 * FILE_SIZE} are lost: their files are gone" in broker.told[0]


def write_kept(broker, first):
    """Write the log without its first files."""
    broker.log.write_to(broker.folder)
    for path in sorted(broker.folder.iterdir())[:first]:
        path.unlink()


def test_a_log_that_is_gone_ends_it_and_one_without_files_is_waited_for(tmp_path):
    """The latter is told once."""
    broker = Broker(tmp_path / "log")
    with pytest.raises(RmqIndexError):
        broker.poll()
    broker.folder.mkdir()
    store = tmp_path / "store"
    (store / "commitlog").mkdir(parents=True)
    (store / "index").mkdir()
    broker.follower = Follower(store, Selection(), ["keys"], tell=broker.told.append)
    assert (broker.poll(), broker.poll()) == ([], [])
    assert [text.split(": ", 1)[1] for text in broker.told] == [
        "the CommitLog has no file; is its disk mounted?"
    ]
    broker.folder = store / "commitlog"
    broker.append(0, 1)
    assert broker.poll() == [0, 1]
    shutil.rmtree(store)
    with pytest.raises(RmqIndexError):
        broker.poll()


def test_a_message_that_may_not_be_whole_waits_and_is_told_once(broker):
    """No lock says whether a broker is writing it; it comes once another one follows."""
    broker.poll()
    broker.append(10)
    path = max(broker.folder.iterdir())
    whole = path.read_bytes()
    at = broker.log.offsets[-1] - int(path.name)
    body = whole.index(b"body", at)
    path.write_bytes(whole[:body] + bytes(4) + whole[body + 4 :])
    assert (broker.poll(), broker.poll()) == ([], [])
    (told,) = broker.told
    assert f"the message at offset {broker.log.offsets[-1]}" in told
    path.write_bytes(whole)
    assert (broker.poll(), len(broker.told)) == ([10], 1)


def test_damage_ends_it_unless_it_is_to_be_dropped(broker):
    """Then it is told, and the next messages come."""
    broker.poll()
    broker.append(*range(10, 14))
    path = max(broker.folder.iterdir())
    data = bytearray(path.read_bytes())
    at = broker.log.offsets[11] - int(path.name)
    data[at + 4] ^= 0xFF
    path.write_bytes(data)
    start = broker.log.offsets[10]
    lenient = Follower(
        broker.folder, Selection(start=start), ["keys"], mode="DROPMALFORMED", tell=print
    )
    with pytest.raises(CorruptCommitLogError):
        broker.poll()
    found = [key for _, batch in lenient.poll() for key in batch.column("keys").to_pylist()]
    assert found == ["k10", "k12", "k13"]


def test_a_dledger_store_is_followed_as_far_as_its_group_agreed():
    """From its first message on, which is all that it has."""
    store = STORE_KINDS / "dledger" / "store"
    with CommitLog(store) as log:
        expected = sum(b.num_rows for b in log.scan(stop=log.agreed_stop(), columns=["size"]))
    follower = Follower(store, Selection(start=0), ["size"])
    assert sum(batch.num_rows for _, batch in follower.poll()) == expected
    assert list(follower.poll()) == []
