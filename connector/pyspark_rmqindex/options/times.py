"""Timestamps in options: epoch milliseconds, or text as Spark's CAST reads it.

A text without a zone is local to the session, which only a running task can know; until then it is
a :class:`LocalTime`.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from dataclasses import dataclass
from pathlib import Path

from rmqindex.store import zone_of
from rmqindex.time_units import MILLISECOND

__all__ = ["LocalTime", "microseconds_of", "parse_time", "system_zone"]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
# The calendar repeats itself, and with it the rules of zones.
_CYCLE = dt.timedelta(days=146_097)
# The widest offsets are -18:00 and +18:00 in Java; a little more covers a gap at the end of one.
_WIDEST_OFFSET = 20 * 3600 * 1_000_000

# Spark's SparkDateTimeUtils.stringToTimestamp, without signed or longer years and bare times.
_TIMESTAMP = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
    r"(?:[ T](?:(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})"
    r"(?:\.(?P<fraction>\d{0,9}))?)?)?\s*(?P<zone>\S+)?)?)?)?"
)
_EXPECTED = (
    "epoch milliseconds or a timestamp such as 2024-01-31 12:30:00.250, with or without a zone "
    "(Z, +08:00, Asia/Shanghai)"
)


@dataclass(frozen=True, slots=True)
class LocalTime:
    """A wall-clock time whose zone is not known yet.

    Attributes:
        text: The time as the option gave it.
        micros: What its microseconds since the epoch would be in UTC.
    """

    text: str
    micros: int

    def in_zone(self, zone: str | dt.tzinfo) -> int:
        """Return microseconds since the epoch in a zone.

        A time in the gap of a clock change moves forward by the gap, one in an overlap is the
        earlier of the two, as in Java.

        Raises:
            ValueError: An unknown zone.
        """
        tzinfo = zone_of(zone)
        naive = _EPOCH.replace(tzinfo=None) + dt.timedelta(microseconds=self.micros)
        return microseconds_of(naive.replace(tzinfo=tzinfo))

    @property
    def earliest(self) -> int:
        """Microseconds since the epoch that no zone's reading comes before."""
        return self.micros - _WIDEST_OFFSET

    @property
    def latest(self) -> int:
        """Microseconds since the epoch that no zone's reading comes after."""
        return self.micros + _WIDEST_OFFSET


def microseconds_of(time: dt.datetime) -> int:
    """Return microseconds since the epoch, for every datetime there is.

    Args:
        time: One without a zone is of this process's own.
    """
    if time.tzinfo is not None:
        return (time - _EPOCH) // _MICROSECOND
    try:
        return (time.astimezone(dt.UTC) - _EPOCH) // _MICROSECOND
    except (OverflowError, ValueError):  # in UTC it lies outside the years 1 to 9999
        moved = _CYCLE if time.year == dt.MINYEAR else -_CYCLE
        return ((time + moved).astimezone(dt.UTC) - _EPOCH - moved) // _MICROSECOND


def parse_time(text: str) -> int | LocalTime:
    """Parse the text of an option.

    Args:
        text: Digits are epoch milliseconds; anything else is a timestamp as Spark's CAST reads
            it, with or without a zone.

    Returns:
        Microseconds since the epoch, or a local time where the text names no zone.

    Raises:
        ValueError: Neither, with what was expected.
    """
    text = text.strip()
    if re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        return int(text) * MILLISECOND
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(_EXPECTED)
    parts = match.groupdict()
    try:
        naive = dt.datetime(  # noqa: DTZ001  (a wall-clock time)
            int(parts["year"]),
            int(parts["month"] or 1),
            int(parts["day"] or 1),
            int(parts["hour"] or 0),
            int(parts["minute"] or 0),
            int(parts["second"] or 0),
            int((parts["fraction"] or "").ljust(6, "0")[:6]),
        )
    except ValueError as error:
        raise ValueError(_EXPECTED) from error
    local = LocalTime(text, microseconds_of(naive.replace(tzinfo=dt.UTC)))
    if parts["zone"] is None:
        return local
    try:
        return local.in_zone(parts["zone"])
    except ValueError as error:
        raise ValueError(_EXPECTED) from error


def system_zone() -> str | None:
    """Return the zone that a JVM on this host takes as its default, or None if that is not plain.

    Java and Python agree on a region name in ``TZ``, and on the link ``/etc/localtime``.
    """
    options = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
    if any("user.timezone" in os.environ.get(name, "") for name in options):
        return None
    name = os.environ.get("TZ")
    if name is None:
        link = Path("/etc/localtime")
        if not link.exists():
            return "UTC"
        _, found, name = str(link.resolve()).partition("zoneinfo/")
        if not found:
            return None
    try:
        zone_of(name)
    except ValueError:
        return None
    return name
