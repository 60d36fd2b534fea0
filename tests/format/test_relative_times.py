"""Times that are counted from now, and days as the ends of ranges, by one moment and in a zone."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pytest

from rmqindex.times import (
    LocalTime,
    is_relative,
    moment_now,
    parse_micros,
    parse_since,
    parse_time,
    zone_of,
)


def at(text):
    """Return epoch microseconds of a time with its zone."""
    return parse_time(text)


NOW = at("2026-11-25 14:30:15.5Z")


def placed(text, zone="UTC", now=NOW, *, is_end=False):
    """Return a time in UTC as a text."""
    micros = parse_micros(text, zone_of(zone), now, is_end=is_end)
    return str(datetime(1970, 1, 1) + timedelta(microseconds=micros))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("now", 0),
        (" NOW ", 0),
        ("-90s", 90),
        ("-30m", 1800),
        ("-2h", 7200),
        ("now-2h", 7200),
        ("now - 2H", 7200),
        ("-1d", 86_400),
        ("-1w", 604_800),
        ("-0s", 0),
    ],
)
def test_an_age_is_counted_from_one_moment(text, seconds):
    """Of seconds, minutes, hours, days of 24 hours, and weeks; no zone matters."""
    assert parse_time(text, NOW) == parse_time(text, NOW, is_end=True) == NOW - seconds * 1_000_000
    assert is_relative(text)


def test_without_a_moment_the_clock_is_asked(monkeypatch):
    """Once for a text, in microseconds."""
    monkeypatch.setattr("time.time_ns", lambda: NOW * 1000 + 999)
    assert moment_now() == parse_time("now") == NOW
    assert parse_since("2h", UTC) == parse_time("-2h") == NOW - 7_200_000_000


@pytest.mark.parametrize(
    ("zone", "today"),
    [
        ("UTC", "2026-11-25 00:00:00"),
        ("Asia/Shanghai", "2026-11-24 16:00:00"),
        ("Pacific/Kiritimati", "2026-11-25 10:00:00"),
        ("America/New_York", "2026-11-25 05:00:00"),
        ("-12:00", "2026-11-25 12:00:00"),
    ],
)
def test_today_begins_at_midnight_of_the_zone(zone, today):
    """It is another day already, or still, in some of them."""
    assert placed("today", zone) == placed("Today", zone) == today
    day_before = str(datetime.fromisoformat(today) - timedelta(days=1))
    assert placed("yesterday", zone) == day_before


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("yesterday 14:00", "UTC", "2026-11-24 14:00:00"),
        ("Yesterday 9:5", "UTC", "2026-11-24 09:05:00"),
        ("todayT09:30:15.25", "UTC", "2026-11-25 09:30:15.250000"),
        ("today 09:30", "Asia/Shanghai", "2026-11-25 01:30:00"),
        ("yesterday 14:00 Asia/Shanghai", "America/New_York", "2026-11-24 06:00:00"),
        ("yesterday +14:00", "UTC", "2026-11-24 10:00:00"),
    ],
)
def test_a_day_counted_from_today_takes_a_time_of_day(text, zone, moment):
    """As a date does, and a zone of its own; as the end of a range it is that moment."""
    assert placed(text, zone) == moment
    if ":" in text.partition("+")[0]:
        assert placed(text, zone, is_end=True) == moment
    assert is_relative(text)


@pytest.mark.parametrize("text", ["yesterday 14", "today 25:00", "today 9:30 pm", "yesterday14:00"])
def test_what_is_no_time_of_day_is_refused(text):
    """With what is expected."""
    with pytest.raises(ValueError, match=r"yesterday 14:00, .* got "):
        parse_micros(text, UTC, NOW)


def test_a_time_that_a_clock_change_skips_moves_forward():
    """As that of a date does."""
    now = at("2026-03-30 12:00Z")
    assert placed("yesterday 02:30", "Europe/Berlin", now) == "2026-03-29 01:30:00"
    assert placed("2026-03-29 02:30", "Europe/Berlin", now) == "2026-03-29 01:30:00"


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("yesterday", "2026-11-24 23:59:59.999999"),
        ("today", "2026-11-25 23:59:59.999999"),
        ("2026-11-24", "2026-11-24 23:59:59.999999"),
        ("2024-02", "2024-02-29 23:59:59.999999"),
        ("2024-W01", "2024-01-07 23:59:59.999999"),
        ("2024-W01-1", "2024-01-01 23:59:59.999999"),
        ("2024-01-01 +08", "2024-01-01 15:59:59.999999"),
        ("9999-12-31", "9999-12-31 23:59:59.999999"),
        ("2026-11-24 00:00", "2026-11-24 00:00:00"),
        ("2026-11-24T00", "2026-11-24 00:00:00"),
        ("20261124T0000", "2026-11-24 00:00:00"),
        ("now", "2026-11-25 14:30:15.500000"),
    ],
)
def test_a_day_that_ends_a_range_is_all_of_it(text, last):
    """So is a month or a week; a time of day stands for itself."""
    assert placed(text, is_end=True) == last


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", "2026-03-29", 23),
        ("Europe/Berlin", "2026-10-25", 25),
        ("America/Sao_Paulo", "2018-11-04", 23),  # midnight itself is skipped
        ("America/Sao_Paulo", "2018-02-17", 25),  # its last hour occurs twice
        ("America/Havana", "2023-11-05", 25),  # its first hour occurs twice
        ("Australia/Lord_Howe", "2024-04-07", 24.5),
        ("Pacific/Apia", "2011-12-29", 24),  # the next day never was
    ],
)
def test_a_day_of_a_clock_change_has_all_of_its_hours(zone, day, hours):
    """As a date, as today, and as yesterday."""
    info = zone_of(zone)
    first, last = parse_micros(day, info), parse_micros(day, info, is_end=True)
    assert (last + 1 - first) == hours * 3_600_000_000
    assert datetime.fromtimestamp(first / 1e6, info).date().isoformat() == day
    for now in (first, first + 3_600_000_000, last):
        assert parse_micros("today", info, now) == first
        assert parse_micros("today", info, now, is_end=True) == last
    after = last + 1_000_000
    if zone != "Pacific/Apia":
        assert parse_micros("yesterday", info, after) == first
        assert parse_micros("yesterday", info, after, is_end=True) == last


def test_a_day_whose_zone_is_not_known_yet_waits_for_it():
    """It travels to the task that knows it; no zone's reading lies outside the slack."""
    for text in ("today", "yesterday", "2026-11-24", "yesterday 23:59", "today 0:01"):
        for is_end in (False, True):
            time = pickle.loads(pickle.dumps(parse_time(text, NOW, is_end=is_end)))
            assert isinstance(time, LocalTime)
            assert time.less == (is_end and ":" not in text)
            for zone in ("-18:00", "+18:00", "Pacific/Kiritimati", "Europe/Berlin"):
                assert time.earliest < time.in_zone(zone) < time.latest


def test_which_of_two_days_is_later_is_told_only_if_it_holds_in_every_zone():
    """Today is the 25th in some, and the 24th or the 26th in others."""
    today, last = parse_time("today", NOW), parse_time("2026-11-24", NOW, is_end=True)
    assert not today.is_after(last)
    assert today.is_after(parse_time("2026-11-20", NOW, is_end=True))
    assert not today.is_after(parse_time("today", NOW, is_end=True))
    day = parse_time("2026-11-24", NOW)
    assert not day.is_after(last)
    assert day.is_after(parse_time("2026-11-23", NOW, is_end=True))


class TestSince:
    """A time, or how long ago it is."""

    @pytest.mark.parametrize("text", ["2h", " 2H ", "-2h", "now-2h", "120m", "7200s"])
    def test_an_age_needs_no_sign(self, text):
        """With one it is the same."""
        assert parse_since(text, UTC, NOW) == NOW - 7_200_000_000

    @pytest.mark.parametrize("text", ["yesterday", "2026-11-24", "1795478400000"])
    def test_it_takes_every_time(self, text):
        """In its zone."""
        assert parse_since(text, UTC, NOW) == at("2026-11-24 Z")

    @pytest.mark.parametrize("text", ["2", "90", "3600", "0"])
    def test_a_number_without_a_unit_is_refused(self, text):
        """As milliseconds, it would stand for 1970, and for everything."""
        with pytest.raises(ValueError, match=f"its unit such as {text}h, got '{text}'"):
            parse_since(text, UTC, NOW)

    @pytest.mark.parametrize("text", ["99999999999d", "21000d", "9" * 5000 + "s", "-999999w"])
    def test_an_age_that_reaches_beyond_1970_is_refused(self, text):
        """No message is older; the most is named."""
        with pytest.raises(ValueError, match=r"an age of at most \d+[swd], which .*got '-?9|2"):
            parse_since(text, UTC, NOW)

    @pytest.mark.parametrize("text", ["2x", "h", "1.5h", "1h30m", "--2h", "+2h", "now+2h", "٢h"])
    def test_garbage_is_refused(self, text):
        """With what is expected."""
        with pytest.raises(ValueError, match="expected epoch milliseconds or a timestamp such as"):
            parse_since(text, UTC, NOW)


def test_an_age_without_a_sign_is_no_time():
    """It may be meant as one in the future; the error has the sign."""
    with pytest.raises(ValueError, match="expected a time, such as -2h for 2h ago, got '2h'"):
        parse_micros("2h", UTC, NOW)


@pytest.mark.parametrize("text", ["1700000000000", "2024-01-31", "2024-01-31 12:00Z", "2h30"])
def test_other_times_are_the_same_at_every_moment(text):
    """Whether they can be read or not."""
    assert not is_relative(text)
