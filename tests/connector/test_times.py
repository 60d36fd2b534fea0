"""Timestamps in options, with and without a zone."""

from __future__ import annotations

import datetime as dt
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyspark_rmqindex.options.bounds import planned_bound
from pyspark_rmqindex.options.times import LocalTime, microseconds_of, parse_time, system_zone
from rmqindex.layout import INT64_MAX, INT64_MIN

DAY = 1704067200  # 2024-01-01 in UTC


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("0", 0),
        ("1704067200123", DAY * 1_000_000 + 123_000),
        ("-5", -5000),
        ("2024-01-01T00:00:00Z", DAY * 1_000_000),
        ("2024-01-01 00:00:00.000001Z", DAY * 1_000_000 + 1),
        ("2024-01-01 08:00:00+08:00", DAY * 1_000_000),
        ("2024-01-01 08:00 Asia/Shanghai", DAY * 1_000_000),
        ("2023-12-31 19:00:00 GMT-5", DAY * 1_000_000),
        ("2024-1-1 1:2:3 UTC", (DAY + 3723) * 1_000_000),
    ],
)
def test_a_time_with_a_zone_is_known_at_once(text, micros):
    """Microseconds since the epoch."""
    assert parse_time(text) == micros


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2024-01-01", DAY),
        ("2024-01", DAY),
        ("2024-01-01 12:30", DAY + 45000),
        ("2024-01-01T12:30:01", DAY + 45001),
    ],
)
def test_a_time_without_a_zone_is_local(text, seconds):
    """Only a task knows the session's zone."""
    assert parse_time(text) == LocalTime(text, seconds * 1_000_000)


@pytest.mark.parametrize("text", ["", "now", "2024-13-01", "2024-01-01 25:00", "12:30", "1.5"])
def test_other_texts_are_refused(text):
    """The error shows what is expected."""
    with pytest.raises(ValueError, match="epoch milliseconds or a timestamp such as"):
        parse_time(text)


def test_a_local_time_is_placed_as_java_places_it():
    """In a gap it moves forward by the gap; in an overlap it is the earlier one."""
    gap = parse_time("2024-03-31 02:30:00")
    assert gap.in_zone("Europe/Berlin") == parse_time("2024-03-31 03:30:00+02:00")
    overlap = parse_time("2024-10-27 02:30:00")
    assert overlap.in_zone("Europe/Berlin") == parse_time("2024-10-27 02:30:00+02:00")


def test_no_zone_lies_outside_the_slack():
    """Planning leaves out a file only where it is too late in every zone."""
    local = parse_time("2024-06-01 00:00:00")
    for zone in ("-18:00", "+18:00", "Pacific/Kiritimati", "Etc/GMT+12"):
        assert local.earliest < local.in_zone(zone) < local.latest


def test_the_system_zone_is_none_where_java_may_have_another(monkeypatch):
    """A region in TZ is taken; a POSIX rule or an option of Java's own is not."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert system_zone() == "Asia/Tokyo"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Duser.timezone=UTC")
    assert system_zone() is None
    monkeypatch.delenv("JAVA_TOOL_OPTIONS")
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    assert system_zone() is None


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/New_York", "Pacific/Kiritimati"])
def test_a_time_without_a_zone_is_this_processs_own_in_the_first_and_the_last_year_too(
    zone, monkeypatch
):
    """Where the calendar ends within a zone's offset, Python's own conversion fails."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for day in (dt.datetime.min, dt.datetime.max, dt.datetime(2024, 7, 1, 12)):  # noqa: DTZ001, DTZ901
            expected = parse_time(f"{day.isoformat()} {zone}")
            assert microseconds_of(day) == expected
    finally:
        monkeypatch.undo()
        time.tzset()


@given(st.datetimes(timezones=st.just(dt.UTC)))
@example(dt.datetime.min.replace(tzinfo=dt.UTC))
@example(dt.datetime.max.replace(tzinfo=dt.UTC))
def test_a_time_with_a_zone_is_exact(moment):
    """To the microsecond, in every year."""
    back = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(
        microseconds=microseconds_of(moment)
    )
    assert back == moment


@pytest.mark.parametrize("millis", [INT64_MIN, -1, 0, 1, INT64_MAX])
def test_milliseconds_in_options_come_through_at_both_ends(millis):
    """As a bound of a scan, they are what was given."""
    for up in (True, False):
        assert planned_bound(parse_time(str(millis)), up=up) == millis
