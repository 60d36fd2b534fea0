"""Times: microseconds to milliseconds and back at both ends of 64 bits, texts, and zones."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from math import ceil, floor
from time import tzset

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqindex import IndexFile, IndexFileWriter, Layout
from rmqindex.layout import INT64_MAX, INT64_MIN
from rmqindex.times import (
    LAST_MILLISECOND,
    LocalTime,
    TimeUnitError,
    check_milliseconds,
    format_millis,
    microseconds_of,
    parse_micros,
    parse_time,
    system_zone,
    to_microseconds,
    to_milliseconds,
    zone_of,
)

ENDS = [INT64_MIN, INT64_MIN + 1, -1001, -1000, -999, -1, 0, 1, 999, 1000, INT64_MAX - 1, INT64_MAX]
NUMBERS = st.lists(st.sampled_from(ENDS) | st.integers(INT64_MIN, INT64_MAX))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 1704067200  # 2024-01-01 in UTC


def parse_millis(text, zone, *, up):
    """Return epoch milliseconds, as the command line has them."""
    return to_milliseconds(parse_micros(text, zone), up=up)


@given(NUMBERS)
@example(ENDS)
def test_milliseconds_are_rounded_as_exact_fractions_are(micros):
    """Up and down, of one number and of an array, without an overflow."""
    array = np.array(micros, np.int64)
    for up, rounded in ((True, ceil), (False, floor)):
        expected = [rounded(Fraction(each, 1000)) for each in micros]
        assert [to_milliseconds(each, up=up) for each in micros] == expected
        assert to_milliseconds(array, up=up).tolist() == expected


@given(NUMBERS)
@example(ENDS)
@example([LAST_MILLISECOND, -LAST_MILLISECOND])
@example([LAST_MILLISECOND + 1, -LAST_MILLISECOND - 1])
def test_microseconds_are_exact_or_masked(millis):
    """What 64 bits cannot hold is told, never wrapped around."""
    micros, beyond = to_microseconds(np.array(millis, np.int64))
    fits = [INT64_MIN <= each * 1000 <= INT64_MAX for each in millis]
    assert (beyond is None) == all(fits)
    assert [not each for each in (beyond if beyond is not None else np.zeros(len(fits)))] == fits
    assert micros.tolist() == [
        each * 1000 if fit else 0 for each, fit in zip(millis, fits, strict=True)
    ]


class TestTexts:
    """Times of a command line."""

    @pytest.mark.parametrize("millis", [INT64_MIN, -1, 0, INT64_MAX])
    def test_digits_reach_both_ends(self, millis):
        """Whatever the rounding."""
        assert parse_millis(str(millis), UTC, up=True) == millis
        assert parse_millis(str(millis), UTC, up=False) == millis

    @pytest.mark.parametrize("text", [str(INT64_MIN - 1), str(INT64_MAX + 1), "9" * 5000])
    def test_digits_beyond_are_refused(self, text):
        """No file holds such a time, so it is a slip."""
        with pytest.raises(ValueError, match="expected epoch milliseconds of 64 bits"):
            parse_millis(text, UTC, up=False)

    @given(st.datetimes())
    @example(datetime.min)  # noqa: DTZ901
    @example(datetime.max)  # noqa: DTZ901
    def test_texts_are_rounded_to_the_side_that_is_asked_for(self, time):
        """In any zone, the years 1 and 9999 included."""
        for hours in (-14, 0, 14):
            zone = timezone(timedelta(hours=hours))
            micros = (time.replace(tzinfo=zone) - EPOCH) // timedelta(microseconds=1)
            for up in (True, False):
                expected = to_milliseconds(micros, up=up)
                assert parse_millis(time.isoformat(), zone, up=up) == expected

    @given(st.sampled_from(ENDS) | st.integers(INT64_MIN, INT64_MAX))
    def test_every_time_has_a_text(self, millis):
        """A dash where there is no calendar for it."""
        text = format_millis(millis, timezone(timedelta(hours=14)))
        assert text == "-" or parse_millis(text, timezone(timedelta(hours=14)), up=True) == millis


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


@pytest.mark.parametrize("text", ["", "tomorrow", "2024-13-01", "2024-01-01 25:00", "12:30", "1.5"])
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


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2024-01", 0),
        ("2024-1-1", 0),
        (" 2024-01-01 ", 0),
        ("2024-01-01 +08", -8 * 3600),
        ("2024-01-01T08:00 Asia/Shanghai", 0),
        ("2024-01-01T08:00+8", 0),
        ("2024-01-01T08", 8 * 3600),
        ("2024-01-01 08Z", 8 * 3600),
        ("2024-01-01T08+0100", 7 * 3600),
        ("2024-01-01T08:00:00,9999999+08:00", 1),
        ("2024-01-01T08:00+08:00:30", -30),
        ("20240101T080000", 8 * 3600),
        ("2024-W01-1", 0),
        ("2024W011T0800", 8 * 3600),
    ],
)
def test_a_command_and_an_option_read_the_same_times(text, seconds):
    """What Spark's CAST reads and what ISO 8601 has; a text without a zone is in UTC here."""
    millis = (DAY + seconds) * 1000
    assert parse_millis(text, UTC, up=True) == millis


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-01-08:00",
        "2024-01-01+08:00",
        "2024-01-01x08:00",
        "2024-01-01T08:00.5",
        "2024-01-01T08:00+08:99",
        "2024-01-01T08:00+0860",
        "2024-01-01T08:00 Nowhere/Land",
        "٢٠٢٤-01-01",
    ],
)
def test_a_time_that_may_be_two_is_refused(text):
    """A time or a zone after a date, half a second or half a minute, an hour of 99 minutes."""
    with pytest.raises(ValueError, match="expected epoch milliseconds or a timestamp such as"):
        parse_millis(text, UTC, up=True)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/New_York", "Pacific/Kiritimati"])
def test_a_time_without_a_zone_is_this_processs_own_in_the_first_and_the_last_year_too(
    zone, monkeypatch
):
    """Where the calendar ends within a zone's offset, Python's own conversion fails."""
    monkeypatch.setenv("TZ", zone)
    tzset()
    try:
        for day in (datetime.min, datetime.max, datetime(2024, 7, 1, 12)):  # noqa: DTZ001, DTZ901
            expected = parse_time(f"{day.isoformat()} {zone}")
            assert microseconds_of(day) == expected
    finally:
        monkeypatch.undo()
        tzset()


@given(st.datetimes(timezones=st.just(UTC)))
@example(datetime.min.replace(tzinfo=UTC))
@example(datetime.max.replace(tzinfo=UTC))
def test_a_time_with_a_zone_is_exact(moment):
    """To the microsecond, in every year."""
    back = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds_of(moment))
    assert back == moment


@pytest.mark.parametrize("stored", [INT64_MIN, -1, 0, 1_700_000_000_000, INT64_MAX])
def test_a_broker_is_asked_for_any_range(tmp_path, stored):
    """The two searches of a file compare exactly, whatever the bounds."""
    path = tmp_path / "20231114221320000"
    with IndexFileWriter(path, Layout(7, 20)) as writer:
        writer.put("T#a", 5, stored)
    with IndexFile(path, Layout(7, 20)) as file:
        for begin, end in itertools.product([INT64_MIN, 0, stored, INT64_MAX], repeat=2):
            is_inside = begin <= stored <= end
            assert file.select_phy_offset("T#a", 64, begin, end) == ([5] if is_inside else [])
            if begin <= end:
                assert file.is_time_matched(begin, end) == is_inside


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (
            1700000000,
            "which is 1970-01-20 16:13:20.000 UTC; did you mean 1700000000000 (2023-11-14 22:13:20",
        ),
        (1700000000123456, "which is beyond the year 9999; did you mean 1700000000123 ("),
        (1700000000123456789, "did you mean 1700000000123 (2023-11-14 22:13:20.123 UTC)?"),
        (20231114, "which is 1970-01-01 05:37:11.114 UTC; did you mean 2023-11-14?"),
        (20231114221320, "did you mean 2023-11-14 22:13:20?"),
        (20231114221320123, "did you mean 2023-11-14 22:13:20.123?"),
    ],
)
def test_a_number_of_another_unit_is_refused_with_what_was_probably_meant(number, message):
    """Seconds, micro- and nanoseconds, a date, the name of an IndexFile; as text and as number."""
    for check in (check_milliseconds, lambda it: parse_time(str(it))):
        with pytest.raises(TimeUnitError) as error:
            check(number)
        assert message in str(error.value)


@pytest.mark.parametrize(
    "number",
    [0, 1, -1, 999_999_999, 4_102_444_800, 1700000000000, 9999999999999, INT64_MAX, INT64_MIN],
)
def test_a_number_that_may_be_milliseconds_is_taken(number):
    """The ends that people write for an open range, and every time since 1973."""
    check_milliseconds(number)
    assert parse_time(str(number)) == number * 1000


@pytest.mark.parametrize(
    ("text", "meant"), [("2026", "2026-01-01"), ("202611", "2026-11"), ("2012", "2012-01-01")]
)
def test_a_year_or_a_month_without_a_sign_is_refused_as_a_text(text, meant):
    """It would be a moment of 1970; as a number it may be one."""
    with pytest.raises(TimeUnitError, match=f"which is 1970-01-01 .*; did you mean {meant}"):
        parse_time(text)
    check_milliseconds(int(text))
    assert parse_time(meant) is not None


def test_a_time_of_1970_is_taken_as_a_text():
    """Only the digits are refused."""
    assert parse_time("1970-01-20 16:13:20Z") == 1700000000 * 1000


class TestSystemZone:
    """The zone of the command line, where none is given."""

    @pytest.mark.parametrize(
        ("text", "name", "hours"),
        [
            ("Asia/Shanghai", "Asia/Shanghai", 8),
            (":Asia/Shanghai", "Asia/Shanghai", 8),
            ("/usr/share/zoneinfo/Asia/Shanghai", "Asia/Shanghai", 8),
            ("", "UTC", 0),
            ("Etc/UTC", "UTC", 0),
            ("CST-8", "CST-8", 8),
            ("<+0530>-5:30", "<+0530>-5:30", 5.5),
        ],
    )
    def test_it_is_the_one_of_the_variable(self, monkeypatch, text, name, hours):
        """A name, a file or a POSIX rule, whose sign is the other way round."""
        monkeypatch.setenv("TZ", text)
        tzset()
        try:
            found, zone = system_zone()
            assert found == name
            for noon in (datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 7, 1, tzinfo=UTC)):
                assert noon.astimezone(zone).utcoffset() == timedelta(hours=hours)
                assert noon.astimezone(zone).astimezone(UTC) == noon
        finally:
            monkeypatch.undo()
            tzset()

    def test_a_rule_with_clock_changes_is_kept(self, monkeypatch):
        """Each of the two hours that look alike is itself again, and is told from the other."""
        monkeypatch.setenv("TZ", "EST5EDT,M3.2.0,M11.1.0")
        tzset()
        try:
            _, zone = system_zone()
            first = 1699162200000  # 2023-11-05 05:30 in UTC
            assert format_millis(first, zone) == "2023-11-05 01:30:00.000-04:00"
            assert format_millis(first + 3_600_000, zone) == "2023-11-05 01:30:00.000-05:00"
            assert format_millis(first + 7_200_000, zone) == "2023-11-05 02:30:00.000"
            assert parse_millis("2023-11-05 01:30", zone, up=True) == first
            assert parse_millis("2023-03-12 02:30", zone, up=True) == 1678606200000  # 03:30 there
        finally:
            monkeypatch.undo()
            tzset()

    def test_a_name_that_is_none_is_refused(self, monkeypatch):
        """The C library would take it for UTC."""
        monkeypatch.setenv("TZ", "Asia/Nowhere")
        with pytest.raises(ValueError, match="TZ: expected a time zone such as Asia/Shanghai"):
            system_zone()


@pytest.mark.parametrize("name", ["../../../etc/passwd", "/etc/passwd", "a\0b"])
def test_a_time_zone_is_no_path(name):
    """It names a file of the zone database."""
    with pytest.raises(ValueError, match="time zone: expected"):
        zone_of(name)
