"""The mark of a log, by which it is known again."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest

from commitlog_encoder import Log, Message
from rmqindex import CommitLog, RmqIndexError
from rmqindex.commitlog import LogMark, follow
from rmqindex.storage import from_json, to_json

FILE_SIZE = 4096
LONG = 200_000


def log_of(count=40, file_size=FILE_SIZE, **changed):
    """Return a log of messages, of which fields of the last may differ."""
    log = Log(file_size)
    for number in range(count):
        fields = changed if number == count - 1 else {}
        log.append(Message(**{"body": b"body" * 5, "store_timestamp": 1_000 + number} | fields))
    return log


def opened(log, folder):
    """Return the log as the package opens it."""
    return CommitLog(log.write_to(folder))


@pytest.fixture
def mark(tmp_path):
    """Return the mark of a log of forty messages."""
    return follow(opened(log_of(), tmp_path / "marked"), 0).last


def test_a_mark_is_of_the_log_it_was_taken_from_and_of_its_copies(mark, tmp_path):
    """Also when the log has grown."""
    log = log_of()
    assert mark.is_of(opened(log, tmp_path / "copy"))
    assert LogMark.at(opened(log, tmp_path / "copy"), log.offsets[-1]) == mark
    log.append(Message())
    assert mark.is_of(opened(log, tmp_path / "grown"))
    assert not mark.is_of(opened(log, tmp_path / "grown"), log.end)


@pytest.mark.parametrize(
    "changed",
    [
        {"body": b"YDOB" * 5},
        {"queue_id": 1},
        {"store_timestamp": 5},
        {"body": b"body" * 6},
        {"properties": b"a\x01b\x02"},
    ],
)
def test_a_mark_is_not_of_a_log_whose_end_was_written_anew(mark, tmp_path, changed):
    """With another message in its place, also one of the same size and time."""
    other = opened(log_of(**changed), tmp_path / "other")
    assert not mark.is_of(other)
    with pytest.raises(RmqIndexError, match=rf"expected .* {mark.phy_offset}.*got another one"):
        mark.ensure(other, "here", "Begin anew")


def test_a_mark_covers_the_middle_of_a_large_message(tmp_path):
    """Where the checksum of earlier releases read the first and the last bytes alone."""
    body = bytes(LONG)
    changed = body[: LONG // 2] + b"x" + body[LONG // 2 + 1 :]
    log = log_of(file_size=2 * LONG, body=body)
    other = log_of(file_size=2 * LONG, body=changed, body_crc=0)
    same = log_of(file_size=2 * LONG, body=body, body_crc=0)
    whole = opened(same, tmp_path / "a")
    mark = LogMark.at(whole, log.offsets[-1])
    assert mark.is_of(whole)
    assert not mark.is_of(opened(other, tmp_path / "b"))


def test_a_mark_is_not_of_a_log_that_is_shorter(mark, tmp_path):
    """Neither where the file ends, nor where it has zeros."""
    for name, count in (("zeros", 39), ("files", 10)):
        shorter = opened(log_of(count), tmp_path / name)
        assert not mark.is_of(shorter)
        assert not mark.is_gone(shorter)
        with pytest.raises(RmqIndexError, match=r"got no message|without it"):
            mark.ensure(shorter, "here", "Begin anew")


def test_a_mark_is_not_of_a_log_that_was_cut_and_has_not_grown_back_to_it(tmp_path):
    """A broker that cuts a log leaves the old bytes behind its new end."""
    old, cut = log_of(40, 16_384), log_of(20, 16_384)
    mark = follow(opened(old, tmp_path / "cut"), 0).last
    start = cut.offsets[-1]
    for number in range(3):
        cut.append(Message(body=b"anew" * 7, store_timestamp=5_000 + number))
    folder = tmp_path / "cut"
    with next(folder.iterdir()).open("r+b") as file:
        file.seek(start)
        file.write(cut.files[0][start : cut.end])
    with CommitLog(folder) as log:
        assert log.max_offset == cut.end
        assert LogMark.at(log, mark.phy_offset) == mark
        assert not mark.is_of(log)
        with pytest.raises(RmqIndexError, match=f"got a log that ends at {cut.end}, and remains"):
            mark.ensure(log, "here", "Start anew")


def test_a_mark_whose_file_expired_proves_nothing(mark, tmp_path):
    """It is gone, and no proof."""
    log = log_of(80)
    folder = log.write_to(tmp_path / "expired")
    for start in log.files:
        if start <= mark.phy_offset:
            (folder / f"{start:020d}").unlink()
    rest = CommitLog(folder)
    assert mark.is_gone(rest)
    assert not mark.is_of(rest)
    with pytest.raises(RmqIndexError, match="without it"):
        mark.ensure(rest, "here", "Begin anew")


def test_nothing_but_a_blank_may_lie_between_a_mark_and_the_end_that_was_read(tmp_path):
    """A message there was written since, after the log was cut."""
    log = log_of(20)
    log.append(Message(body=bytes(FILE_SIZE // 2)))
    whole = opened(log, tmp_path / "whole")
    mark = LogMark.at(whole, log.offsets[-2])
    assert mark.is_of(whole, FILE_SIZE)
    grown = log_of(20)
    grown.append(Message())
    assert grown.end < FILE_SIZE == log.offsets[-1]
    grown.files[FILE_SIZE] = log.files[FILE_SIZE]
    assert not mark.is_of(opened(grown, tmp_path / "grown"), FILE_SIZE)


def test_marks_of_earlier_releases_are_compared_by_what_they_have(mark, tmp_path):
    """By a checksum of the ends, or by the time alone."""
    log = log_of()
    whole = opened(log, tmp_path / "a")
    other = opened(log_of(queue_id=1), tmp_path / "b")
    (file,) = [each for each in whole.files if each.start <= mark.phy_offset < each.stop]
    at = mark.phy_offset - file.start
    record = bytes(whole.source(file).read(at, mark.size))
    whole_checksum = zlib.crc32(record)  # of 1280 bytes at either end, if it is longer
    second = LogMark(mark.phy_offset, mark.store_timestamp, checksum=whole_checksum)
    assert second.is_of(whole)
    assert not second.is_of(other)
    first = replace(second, checksum=None)
    assert first.is_of(whole)
    assert first.is_of(other)
    assert not first.is_of(opened(log_of(store_timestamp=5), tmp_path / "c"))


def test_a_mark_is_json(mark):
    """And comes back as it was."""
    assert from_json(LogMark, to_json(mark)) == mark
