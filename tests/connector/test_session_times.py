"""Bounds of store time in the session's time zone."""

from __future__ import annotations

import pytest

from pyspark_rmqindex.options import planned_bound, read_options, system_zone
from rmqindex.layout import INT64_MAX, INT64_MIN
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
