"""Bounds of store time in the session's time zone."""

from __future__ import annotations

from unittest.mock import Mock, patch

import pytest
from pyspark import TaskContext

from pyspark_rmqindex.options import (
    message_options,
    message_stream_options,
    planned_bound,
    read_options,
    sql_times,
    stream_options,
    system_zone,
    task_range,
    time_texts,
)
from rmqindex.layout import INT64_MAX, INT64_MIN
from rmqindex.messagestore import Range
from rmqindex.times import parse_time


def test_the_system_zone_is_none_where_java_may_have_another(monkeypatch):
    """A region in TZ is taken; a POSIX rule or an option of Java's own is not."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert system_zone() == "Asia/Tokyo"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Duser.timezone=UTC")
    assert system_zone() is None
    monkeypatch.delenv("JAVA_TOOL_OPTIONS")
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    assert system_zone() is None


@pytest.mark.parametrize("millis", [INT64_MIN, -1, 0, 1, INT64_MAX])
def test_milliseconds_in_options_come_through_at_both_ends(millis):
    """As a bound of a scan, they are what was given."""
    for up in (True, False):
        assert planned_bound(parse_time(str(millis)), up=up) == millis


def test_an_option_takes_what_the_command_line_takes():
    """Both have one grammar: here ISO 8601 in its basic format, which Spark's CAST refuses."""
    options = read_options({"path": "/d", "beginTimestamp": "20240101T083020+0800"})
    assert options.begin == parse_time("2024-01-01 08:30:20 Asia/Shanghai")


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("2023-11-15", "2023-11-14"),
        ("2023-11-15 00:00Z", "2023-11-14 00:00Z"),
        ("1700006400001", "1700006400000"),
        ("1700006400000", "2023-11-14 00:00Z"),
    ],
)
def test_a_begin_after_the_end_is_refused(begin, end):
    """Of entries, of messages, and of streams of both; equal bounds are a range."""
    for parse in (read_options, message_options, stream_options, message_stream_options):
        with pytest.raises(ValueError, match="'beginTimestamp': expected a time at or before"):
            parse({"path": "/d", "beginTimestamp": begin, "endTimestamp": end})
        parse({"path": "/d", "beginTimestamp": begin, "endTimestamp": begin})
        parse({"path": "/d", "beginTimestamp": end, "endTimestamp": begin})


def test_a_begin_offset_behind_the_end_is_refused():
    """Equal offsets are a range of nothing."""
    with pytest.raises(ValueError, match="'beginOffset': expected an offset at or before"):
        message_options({"path": "/d", "beginOffset": "500", "endOffset": "100"})
    message_options({"path": "/d", "beginOffset": "500", "endOffset": "500"})


def test_times_of_which_one_is_local_are_compared_in_the_task():
    """Which alone knows the session's zone."""
    options = {"path": "/d", "beginTimestamp": "2023-11-15", "endTimestamp": "2023-11-14 00:00Z"}
    checked = read_options(options)
    begin, end = planned_bound(checked.begin, up=True), planned_bound(checked.end, up=False)
    with (
        patch.object(TaskContext, "get", return_value=Mock(getLocalProperty=lambda _name: "UTC")),
        pytest.raises(ValueError, match="expected a time at or before 'endTimestamp'"),
    ):
        task_range(begin, end)
    assert task_range(5, 5) == Range(5, 5)
    assert task_range(5, None) == Range(5, None)


def test_relative_times_of_a_load_are_counted_from_one_moment(monkeypatch):
    """So that a begin of now is not after an end of now; days are those of the session's zone."""
    ticks = iter(range(1_700_021_800 * 10**9, 1_700_021_900 * 10**9, 10**9))
    monkeypatch.setattr("time.time_ns", lambda: next(ticks))
    for parse in (read_options, message_options, stream_options, message_stream_options):
        options = parse({"path": "/d", "endTimestamp": "now", "beginTimestamp": "now"})
        assert options.begin == options.end
        options = parse({"path": "/d", "beginTimestamp": "-2h", "endTimestamp": "NOW"})
        assert options.end - options.begin == 7_200_000_000
    day = read_options({"path": "/d", "beginTimestamp": "today", "endTimestamp": "today"})
    with patch.object(
        TaskContext, "get", return_value=Mock(getLocalProperty=lambda _name: "Asia/Shanghai")
    ):
        found = task_range(planned_bound(day.begin, up=True), planned_bound(day.end, up=False))
    begin = parse_time("2023-11-15 Asia/Shanghai") // 1000
    assert found == Range(begin, begin + 24 * 3_600_000 - 1)


def test_a_range_of_times_is_written_for_sql():
    """A day as the end is what comes before the next one, in whichever zone."""
    assert sql_times({"beginTimestamp": "2023-11-14", "endTimestamp": "2023-11-14"}) == {
        "begin": "TIMESTAMP '2023-11-14'",
        "end": "TIMESTAMP '2023-11-15 00:00:00' - INTERVAL '0.001' SECOND",
    }
    assert sql_times({"beginTimestamp": "yesterday", "endTimestamp": "Today"}) == {
        "begin": "TIMESTAMP 'yesterday'",
        "end": "TIMESTAMP 'tomorrow' - INTERVAL '0.001' SECOND",
    }
    assert sql_times({"beginTimestamp": "yesterday 14:00"}) == {
        "begin": "CAST(CONCAT(CAST(TIMESTAMP 'yesterday' AS DATE), ' 14:00:00') AS TIMESTAMP)",
    }
    zoned = {"endTimestamp": "2023-11-14", "timeZone": "UTC"}
    assert sql_times(zoned) == {"end": "timestamp_millis(1700006399999)"}


def test_seconds_are_refused_with_what_was_probably_meant():
    """As on the command line."""
    with pytest.raises(ValueError, match=r"'endTimestamp': .* did you mean 1700000000000 \(2023"):
        read_options({"path": "/d", "endTimestamp": "1700000000"})


def test_a_plan_says_the_range_of_times():
    """An answer without rows is explained by it."""
    options = {"path": "/d", "beginTimestamp": "1700006400000", "endTimestamp": "2023-11-16"}
    assert time_texts(read_options(options)) == (
        "store_timestamp >= '2023-11-15 00:00:00.000 UTC'",
        "store_timestamp <= '2023-11-16' (session's time zone)",
    )
    assert time_texts(read_options({"path": "/d"})) == ()
