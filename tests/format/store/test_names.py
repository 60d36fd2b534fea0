"""File names come after the last one, and not after now."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqindex import RmqIndexError
from rmqindex.store.names import has_next_name, next_names, timestamp_name
from rmqindex.times import zone_of

NOW = 1_704_164_645_678
NOW_NAME = "20240102030405678"


def test_a_name_has_the_time_in_seventeen_digits():
    """Year, month, day, hour, minute, second and millisecond, padded."""
    assert timestamp_name(NOW, UTC) == NOW_NAME
    assert timestamp_name(0, UTC) == "19700101000000000"
    assert timestamp_name(-1, UTC) == "19691231235959999"


def test_a_name_is_the_brokers_local_time():
    """The zone shifts the digits."""
    assert timestamp_name(NOW, ZoneInfo("Asia/Shanghai")) == "20240102110405678"
    assert timestamp_name(NOW, timezone(-timedelta(hours=5))) == "20240101220405678"


def test_without_a_zone_the_systems_is_taken(monkeypatch):
    """None means the time zone of this machine."""
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        assert timestamp_name(NOW) == "20240102110405678"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("timestamp", "name"),
    [(2**63 - 1, "99991231235959999"), (-(2**63), "00010101000000000")],
)
@pytest.mark.parametrize(
    "zone", [UTC, timezone(timedelta(hours=14)), timezone(-timedelta(hours=12))]
)
def test_times_that_no_calendar_has_are_clipped(timestamp, name, zone):
    """Any 64-bit time has a name."""
    assert timestamp_name(timestamp, zone) == name


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("UTC", 0),
        ("Z", 0),
        ("Asia/Shanghai", 8),
        ("+08:00", 8),
        ("GMT+8", 8),
        ("GMT", 0),
        ("z", 0),
        ("-3:30", -3.5),
        ("UTC-05:30", -5.5),
        ("+0800", 8),
    ],
)
def test_a_zone_is_a_name_or_an_offset(text, hours):
    """Both Java's and Python's ways of writing a zone are understood."""
    offset = datetime(2024, 1, 2, tzinfo=zone_of(text)).utcoffset()
    assert offset == timedelta(hours=hours)


@pytest.mark.parametrize(
    "text", ["Nowhere/City", "+25:00", "", "../etc/passwd", "UTC+", "+8:00:00x"]
)
def test_an_unknown_zone_is_refused(text):
    """The message says what is expected."""
    with pytest.raises(ValueError, match="expected a name such as 'Asia/Shanghai'"):
        zone_of(text)


def test_a_zone_object_is_taken_as_it_is():
    """A tzinfo passes through."""
    assert zone_of(UTC) is UTC


def test_no_zone_is_the_systems(monkeypatch, request):
    """By TZ, of which nonsense is refused before it names a file."""
    request.addfinalizer(lambda: (monkeypatch.undo(), time.tzset()))
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    assert timestamp_name(NOW, None) == timestamp_name(NOW, zone_of("+08:00"))
    for text in ("UTC+25", "UTC-24", "Nowhere/City"):
        monkeypatch.setenv("TZ", text)
        time.tzset()
        with pytest.raises(ValueError, match="TZ: expected a time zone such as Asia/Shanghai, got"):
            timestamp_name(NOW, None)


def test_each_file_is_named_by_its_first_entry():
    """With room enough the names are the times themselves."""
    firsts = [NOW - 5000, NOW - 3000, NOW - 10]
    assert next_names(firsts, None, NOW, UTC) == [timestamp_name(first, UTC) for first in firsts]


def test_names_are_raised_past_the_last_one():
    """Entries older than the last file still give names after it, one millisecond apart."""
    names = next_names([5, 6, NOW - 1000], timestamp_name(NOW - 2000, UTC), NOW, UTC)
    assert names == [timestamp_name(NOW - back, UTC) for back in (1999, 1998, 1000)]


def test_names_are_never_later_than_now():
    """Entries from a clock that runs ahead are named just before now."""
    names = next_names([NOW + 10**9] * 3, None, NOW, UTC)
    assert names == [timestamp_name(NOW - back, UTC) for back in (2, 1, 0)]


def test_no_files_need_no_names():
    """Nothing to name is no error, wherever the last name lies."""
    assert next_names([], timestamp_name(NOW + 10**9, UTC), NOW, UTC) == []


def test_without_room_between_the_last_name_and_now_it_is_an_error():
    """The message gives both ends."""
    with pytest.raises(RmqIndexError, match=f"before {NOW_NAME}.*got {NOW_NAME}"):
        next_names([NOW], NOW_NAME, NOW, UTC)


@pytest.mark.parametrize("last_name", ["9", "99999999999999999", "٣"])
def test_a_last_name_beyond_all_times_is_an_error(last_name):
    """The broker would load the new file before the last one."""
    with pytest.raises(RmqIndexError, match="no name is left"):
        next_names([NOW], last_name, NOW, UTC)


@pytest.mark.parametrize("last_name", ["+5", "-7", "10", "0", "20231301000000000"])
def test_other_last_names_count_by_string_order(last_name):
    """The broker orders names as strings, whatever they say."""
    assert next_names([NOW - 1], last_name, NOW, UTC) == [timestamp_name(NOW - 1, UTC)]


def test_the_clock_is_waited_for_when_it_must_pass_the_last_name():
    """Files made within one millisecond get different names, none of them later than the clock."""
    last = timestamp_name(time.time_ns() // 1_000_000 + 20, UTC)
    [name] = next_names([0], last, zone=UTC)
    assert last < name <= timestamp_name(time.time_ns() // 1_000_000, UTC)


def test_a_last_name_in_the_far_future_is_not_waited_for():
    """A clock that was hours ahead is an error, not a hang."""
    last = timestamp_name(time.time_ns() // 1_000_000 + 3_600_000, UTC)
    with pytest.raises(RmqIndexError, match="no name is left"):
        next_names([0], last, zone=UTC)


@pytest.mark.parametrize(("hours", "has_next"), [(-1, True), (13.9, True), (14.1, False)])
def test_a_name_follows_one_that_is_past_in_some_zone(hours, has_next):
    """Where none does, no zone helps a writer that needs one."""
    last = timestamp_name(time.time_ns() // 1_000_000 + int(hours * 3_600_000), UTC)
    assert has_next_name(last) is has_next
    if has_next:
        assert next_names([0], last, zone=zone_of("Pacific/Kiritimati")) > [last]
    else:
        with pytest.raises(RmqIndexError, match="no name is left"):
            next_names([0], last, zone=zone_of("Pacific/Kiritimati"))


ZONES = st.sampled_from(["UTC", "Asia/Shanghai", "America/New_York", "Europe/Berlin", "+05:45"])


@given(
    st.lists(st.integers(NOW - 10**10, NOW + 10**10), max_size=6),
    st.none() | st.integers(NOW - 10**10, NOW),
    ZONES,
)
def test_names_ascend_between_the_last_one_and_now(firsts, last, zone_name):
    """In every zone, over changes of the clocks too, or it is an error."""
    zone = zone_of(zone_name)
    last_name = None if last is None else timestamp_name(last, zone)
    try:
        names = next_names(firsts, last_name, NOW, zone)
    except RmqIndexError:
        assert last is not None
        assert timestamp_name(NOW - len(firsts), zone) < last_name
        return
    assert len(names) == len(firsts)
    ladder = [last_name or "", *names]
    assert all(below < above for below, above in itertools.pairwise(ladder))
    assert not names or names[-1] <= timestamp_name(NOW, zone)
