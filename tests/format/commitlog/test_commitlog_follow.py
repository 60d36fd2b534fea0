"""Following a CommitLog: only whole records, however they become visible."""

from __future__ import annotations

import random
import time

import pytest

from commitlog_encoder import Log, Message, properties_text
from file_reads import before_each_read
from rmqindex import CommitLog, CorruptCommitLogError
from rmqindex.commitlog import tailing, walk
from rmqindex.commitlog.tailing import LogMark, follow
from rmqindex.commitlog.walk import End, EndKind

NOW = time.time_ns() // 1_000_000
FILE_SIZE = 4096


def message(number, **fields):
    """Return a message with a body and properties, stored just now."""
    fields.setdefault("store_timestamp", NOW + number)
    return Message(
        body=b"body" * (number % 9 + 1),
        properties=properties_text([("UNIQ_KEY", f"ID{number}"), ("KEYS", f"k{number}")]),
        **fields,
    )


@pytest.fixture
def log():
    """Return forty messages in files of 4 KiB."""
    log = Log(FILE_SIZE)
    for number in range(40):
        log.append(message(number))
    return log


def written(log, folder):
    """Return the log as the package opens it."""
    return CommitLog(log.write_to(folder))


def test_everything_is_followed_to_the_end_of_the_log(log, tmp_path):
    """Over the ends of files, and the last record is remembered."""
    opened = written(log, tmp_path)
    progress = follow(opened, 0)
    assert progress.end == log.end
    assert (progress.last.phy_offset, progress.last.store_timestamp) == (log.offsets[-1], NOW + 39)
    assert follow(opened, log.end, last=progress.last) == progress


@pytest.mark.parametrize("count", [1, 2, 7, 39, 40, 100])
def test_a_limit_of_messages_ends_behind_as_many(log, tmp_path, count):
    """From batch to batch, each message is passed once."""
    opened = written(log, tmp_path)
    ends, at = [], 0
    while at < log.end:
        at = follow(opened, at, max_records=count).end
        ends.append(at)
    expected = [log.offsets[place] for place in range(count, 40, count)]
    # Behind a full file, the end is at its blank record or in the next file.
    assert len(ends) == len(expected) + 1
    assert all(
        sum(offset < end for offset in log.offsets) == place
        for end, place in zip(ends, range(count, 40, count), strict=False)
    )


@pytest.mark.parametrize("limit", [1, 150, 1_000, 10_000])
def test_a_limit_of_bytes_passes_at_least_one_message(log, tmp_path, limit):
    """And no more bytes than allowed, if one message is no more."""
    opened = written(log, tmp_path)
    at, rounds = 0, 0
    while at < log.end:
        end = follow(opened, at, max_bytes=limit).end
        passed = [offset for offset in log.offsets if at <= offset < end]
        assert passed or end % FILE_SIZE == 0
        assert len(passed) <= 1 or end - at <= limit + FILE_SIZE
        at, rounds = end, rounds + 1
    assert rounds <= 60


def test_a_target_is_not_passed(log, tmp_path):
    """Messages at or behind it are left for later."""
    opened = written(log, tmp_path)
    for target in (log.offsets[5], log.offsets[30]):
        assert follow(opened, 0, stop=target).end == target


HEAD = 84


def test_a_record_that_is_visible_in_part_is_never_taken(log, tmp_path):
    """Whether its bytes come from the front, from the back, or behind the head in any order."""
    last = log.offsets[-1]
    size = log.end - last
    written(log, tmp_path)
    start = max(log.files)
    whole = bytes(log.files[start])
    chance = random.Random(5)
    hidden = [range(first, size) for first in range(size)]
    hidden += [range(stop) for stop in range(1, size + 1)]
    hidden += [sorted(chance.sample(range(HEAD, size), 2)) for _ in range(100)]
    for places in hidden:
        data = bytearray(whole)
        for place in places:
            data[last - start + place] = 0
        (tmp_path / f"{start:020d}").write_bytes(data)
        end = follow(CommitLog(tmp_path), log.offsets[-2]).end
        assert end == (log.end if data == whole else last), places


@pytest.fixture
def batch(tmp_path):
    """Forty messages, the last five of which a broker copied at once; write them with changes."""
    log = Log(FILE_SIZE)
    for number in range(40):
        log.append(message(number, store_timestamp=NOW + min(number, 35)))

    def write(changes=()):
        written(log, tmp_path)
        start = max(log.files)
        data = bytearray(log.files[start])
        for place, value in changes:
            data[place - start] = value
        (tmp_path / f"{start:020d}").write_bytes(data)
        return CommitLog(tmp_path)

    return log, write


def test_several_records_of_one_copy_are_taken_up_to_the_first_that_is_not_whole(batch):
    """A batch of messages is copied at once, and those behind may be visible first."""
    log, write = batch
    found = follow(write([(log.offsets[-5] + HEAD + 4, 0)]), 0)
    assert (found.end, found.unproved) == (log.offsets[-5], True)


@pytest.mark.parametrize("first", [-5, -3, -1])
def test_a_batch_that_is_copied_from_its_end_on_is_no_hole(batch, first):
    """Its last records are there before the head of its first one."""
    log, write = batch
    place = log.offsets[first]
    behind = [*log.offsets, log.end][first + 40 + 1]
    for stop in (place + 8, place + HEAD, behind):
        found = follow(write([(at, 0) for at in range(place, stop)]), 0)
        assert (found.end, found.unproved) == (place, stop < behind or first < -1)
    assert follow(write(), 0).end == log.end


WRONG = [{"body_crc": 5}, {"properties": b"a\x01\0b\x02"}]


@pytest.mark.parametrize("fields", WRONG)
def test_a_record_in_doubt_waits_however_old_it_is(tmp_path, fields):
    """No clock tells whether a broker that no lock tells of is still writing it."""
    log = Log(FILE_SIZE)
    log.append(Message(store_timestamp=1))
    log.append(Message(store_timestamp=2, **fields))
    found = follow(written(log, tmp_path), 0)
    assert (found.end, found.unproved) == (log.offsets[1], True)


@pytest.mark.parametrize("fields", WRONG)
def test_a_record_that_another_follows_is_taken_as_it_is(tmp_path, fields):
    """The copy was done before: a wrong CRC, or zeros that are the sender's own, are final."""
    log = Log(FILE_SIZE)
    log.append(Message(store_timestamp=NOW, **fields))
    log.append(Message(store_timestamp=NOW + 1))
    found = follow(written(log, tmp_path), 0)
    assert (found.end, found.unproved) == (log.end, False)


@pytest.mark.parametrize("fields", WRONG)
def test_a_record_is_taken_as_it_is_where_no_broker_runs(tmp_path, fields):
    """The lock is free, so nobody is writing it."""
    (tmp_path / "lock").write_bytes(b"")
    log = Log(FILE_SIZE)
    log.append(Message(store_timestamp=NOW, **fields))
    found = follow(written(log, tmp_path / "commitlog"), 0)
    assert (found.end, found.unproved) == (log.end, False)


@pytest.mark.parametrize("text", [b"a\x01\0b\x02", b"a\x01b" + bytes(7) + b"c\x02"])
@pytest.mark.parametrize("later", [1, 3])
def test_zeros_that_no_copy_leaves_are_the_senders_own(tmp_path, text, later):
    """Fewer than a word of eight, before a record of the same store time."""
    log = Log(FILE_SIZE)
    log.append(Message(store_timestamp=NOW - 1))
    log.append(Message(store_timestamp=NOW, properties=text))
    for _ in range(later):
        log.append(Message(store_timestamp=NOW))
    found = follow(written(log, tmp_path), 0)
    assert (found.end, found.unproved) == (log.end, False)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (b"a\x01b" + bytes(8) + b"c\x02", {}),
        (b"a\x01b" + bytes(6), {}),
        (b"a\x01\0b\x02", {"body_crc": 5}),
        (b"a\x01\0b\x02", {"store_timestamp": 0}),
    ],
    ids=["a word", "a word that ends in the next record", "a wrong body", "no time"],
)
def test_zeros_of_a_word_wait_though_a_record_of_their_copy_follows(tmp_path, text, fields):
    """They may be bytes that are not copied yet, and so is what else seems torn."""
    log = Log(FILE_SIZE)
    log.append(Message(store_timestamp=NOW - 1))
    log.append(Message(**{"store_timestamp": NOW, **fields}, properties=text))
    log.append(Message(store_timestamp=NOW))
    found = follow(written(log, tmp_path), 0)
    assert (found.end, found.unproved) == (log.offsets[1], True)


def test_zeros_that_no_copy_leaves_do_not_hide_what_is_torn_before_them(tmp_path):
    """The log ends before the first record that may not be whole."""
    log = Log(FILE_SIZE)
    log.append(Message(store_timestamp=NOW, body_crc=5))
    log.append(Message(store_timestamp=NOW, properties=b"a\x01\0b\x02"))
    log.append(Message(store_timestamp=NOW))
    assert follow(written(log, tmp_path), 0).end == 0


def test_a_record_in_doubt_waits_where_a_lock_may_not_be_seen(tmp_path):
    """Behind a network mount a broker that runs looks as one that was killed."""
    for name in ("lock", "abort"):
        (tmp_path / name).touch()
    log = Log(FILE_SIZE)
    log.append(Message(store_timestamp=NOW))
    whole = Message(store_timestamp=NOW + 1, body=b"body", properties=b"KEYS\1key\2")
    log.append(whole)
    folder = tmp_path / "commitlog"
    data = bytearray(log.files[0])
    stop = log.end
    data[stop - 5 : stop] = bytes(5)
    found = written(log, folder)
    (folder / f"{0:020d}").write_bytes(data)
    assert follow(found, 0).end == log.offsets[1]
    (folder / f"{0:020d}").write_bytes(log.files[0])
    assert follow(found, 0).end == stop


def test_what_an_earlier_life_of_the_log_left_is_its_end(log, tmp_path):
    """Older records behind a torn one are no damage."""
    opened = written(log, tmp_path)
    start = max(log.files)
    data = bytearray(log.files[start])
    at = log.offsets[-3] - start
    data[at + 20 : at + 40] = bytes(range(1, 21))
    (tmp_path / f"{start:020d}").write_bytes(data)
    later = LogMark(log.offsets[-4], NOW + 1_000)
    assert follow(opened, log.offsets[-3], last=later).end == log.offsets[-3]


def test_damage_before_the_end_is_an_error_or_passed_over(log, tmp_path):
    """By the mode; records that follow prove that it is damage."""
    written(log, tmp_path)
    for place in (3, -3):
        offset = log.offsets[place]
        start = offset - offset % FILE_SIZE
        data = bytearray(log.files[start])
        data[offset - start + 28] ^= 1
        (tmp_path / f"{start:020d}").write_bytes(data)
    opened = CommitLog(tmp_path)
    with pytest.raises(CorruptCommitLogError, match="physical_offset"):
        follow(opened, 0, max_records=100)
    assert follow(opened, 0, max_records=100, mode="DROPMALFORMED").end == log.end
    assert follow(opened, 0, max_records=3).end == log.offsets[3]


def test_an_empty_log_is_followed_to_where_it_begins(tmp_path):
    """Files that a broker made ahead hold nothing yet."""
    (tmp_path / f"{0:020d}").write_bytes(bytes(FILE_SIZE))
    assert follow(CommitLog(tmp_path), 0).end == 0
    assert follow(CommitLog(tmp_path), 0, stop=0).last is None


def test_a_record_that_is_found_where_the_walk_finds_none_is_the_end(log, tmp_path, monkeypatch):
    """It is tried once more, since a broker may have been writing it, and then left."""
    opened = written(log, tmp_path)
    walks = []
    monkeypatch.setattr(tailing, "walk", lambda *_: iter(walks.append(1) or ()))
    monkeypatch.setattr(tailing, "end_at", lambda *_: End(EndKind.FAULT, 0, None))
    assert follow(opened, opened.files[-1].start).end == opened.files[-1].start
    assert len(walks) == 2


def test_files_that_are_passed_over_unread_are_known_again(log, tmp_path):
    """By the last record of the last of them, where the log's last file has no whole one yet."""
    newest = max(log.files)
    place = sum(offset < newest for offset in log.offsets)
    at = log.offsets[place] - newest
    log.files[newest][at + 8] ^= 1  # of a record that is being copied, as its CRC says
    log.files[newest] = log.files[newest][: at + 200].ljust(FILE_SIZE, b"\0")
    opened = written(log, tmp_path / "a")
    progress = follow(opened, 0)
    assert (progress.end, progress.last.phy_offset) == (newest, log.offsets[place - 1])
    assert progress.last.is_of(opened, progress.end)
    before, start = log.offsets[place - 3 : place - 1]  # of the same file
    assert follow(opened, start, last=LogMark.at(opened, before)) == progress
    cut = Log(FILE_SIZE)
    for number in range(40):
        cut.append(message(number, queue_id=int(number == place - 1)))
    assert not progress.last.is_of(written(cut, tmp_path / "b"), progress.end)


@pytest.mark.parametrize("reach", [100, 900])
def test_of_files_that_are_passed_over_only_the_end_is_read(log, tmp_path, monkeypatch, reach):
    """As much as it takes to find the last record, however large they are."""
    newest = max(log.files)
    log.files[newest] = bytearray(FILE_SIZE)
    log.files[newest][500] = 1  # of a record that is being copied
    opened = written(log, tmp_path)
    last = max(offset for offset in log.offsets if offset < newest)
    monkeypatch.setattr(walk, "LARGEST_MESSAGE", reach)
    begins = []

    def note(source, offset, _length):
        begins.append(offset + int(source.path.name))

    with before_each_read(note, "read"):
        assert follow(opened, 0).last.phy_offset == last
    assert min(begins) > last - 3 * reach - 200
