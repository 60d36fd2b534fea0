"""Times: units, zones, and the one grammar in which Spark's options and the command line have them.

RocketMQ counts milliseconds, Spark and Arrow count microseconds. Every conversion between the two
goes through here: what is written out by hand overflows at an end of 64 bits.
"""

from __future__ import annotations

import os
import re
import time as clock
from calendar import monthrange
from dataclasses import dataclass
from datetime import MINYEAR, UTC, datetime, time, timedelta, timezone, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, overload
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from rmqindex.layout.index_file import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from numpy.typing import NDArray

MILLISECOND = 1000  # microseconds
#: The last millisecond whose microseconds fit into 64 bits; the first is its negative.
LAST_MILLISECOND = INT64_MAX // MILLISECOND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ONE_MILLISECOND = timedelta(milliseconds=1)
# The calendar repeats itself, and with it the rules of zones.
_CYCLE = timedelta(days=146_097)
# The widest offsets are -18:00 and +18:00 in Java; a little more covers a gap at the end of one.
_WIDEST_OFFSET = 20 * 3600 * 1_000_000

_MILLIS = re.compile(r"[+-]?[0-9]+")
_MOST_DIGITS = 19
# Spark's SparkDateTimeUtils.stringToTimestamp, without signed or longer years and bare times.
_SPARK_TIMESTAMP = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
    r"(?:[ T](?:(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})"
    r"(?:\.(?P<fraction>\d{0,9}))?)?)?\s*(?P<zone>\S+)?)?)?",
    re.ASCII,
)
# What else ISO 8601 has, as Python reads it, but with a fraction of seconds alone.
_ISO_TIMESTAMP = re.compile(
    r"(?:\d{4}-\d\d-\d\d|\d{8}|\d{4}-W\d\d(?:-\d)?|\d{4}W\d\d\d?)"
    r"(?P<time>[ Tt]\d\d(?::?\d\d(?::?\d\d(?:[.,]\d+)?)?)?"
    r"(?: ?(?:Z|[+-]\d\d(?::?[0-5]\d(?::?[0-5]\d)?)?))?)?",
    re.ASCII,
)
_ISO_WEEK = re.compile(r"\d{4}-?W\d\d", re.ASCII)
_EXPECTED = (
    "epoch milliseconds or a timestamp such as 2024-01-31 12:30:00.250, with or without a zone "
    "(Z, +08:00, Asia/Shanghai), or now, today, yesterday 14:00, or an age such as -2h (s, m, h, "
    "d, w)"
)
# Numbers that as seconds, microseconds or nanoseconds are of the years 2001 to 2099, and as
# milliseconds are of 1970, or far in the future, when nobody stored a message; and by what such a
# number is multiplied and divided to get milliseconds.
_UNITS = (
    (range(10**9, 4_102_444_800), 1000, 1),
    (range(10**15, 4_102_444_800 * 10**6), 1, 1000),
    (range(10**18, 4_102_444_800 * 10**9), 1, 10**6),
)
# A date, a date and time, and the name of an IndexFile, without anything between the digits.
_DIGITS = re.compile(
    r"(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?:([01]\d|2[0-3])([0-5]\d)([0-5]\d)(\d{3})?)?"
)
# A year, or a year and a month; as milliseconds, they are of the first minutes of 1970.
_YEAR = re.compile(r"(20[1-9]\d)(0[1-9]|1[0-2])?", re.ASCII)
_UTC_NAMES = frozenset({"", "UTC", "UCT", "Universal", "Zulu", "GMT"})
# The beginning of a POSIX rule, such as CST-8 or <+08>-8.
_POSIX_RULE = re.compile(r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)[+-]?\d")
_LOCAL_TIME = "local time"
_DAYS = {"yesterday": -1, "today": 0}
_RELATIVE_DAY = re.compile("|".join(_DAYS), re.IGNORECASE)
_DAY_NAMES = {-1: "yesterday", 0: "today", 1: "tomorrow"}
_AGE = re.compile(r"(?P<past>(?:now\s*)?-\s*)?(?P<count>[0-9]+)(?P<unit>[smhdw])", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DAY = 86_400 * 1_000_000
# Of a duration without its unit; as epoch milliseconds, all are of the first 17 minutes of 1970.
_BARE_COUNT = re.compile(r"[0-9]{1,6}")
_OFFSET_ID = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?([0-5]\d))?")


@overload
def to_milliseconds(micros: int, *, up: bool) -> int: ...


@overload
def to_milliseconds(micros: NDArray[np.int64], *, up: bool) -> NDArray[np.int64]: ...


def to_milliseconds(micros: int | NDArray[np.int64], *, up: bool) -> int | NDArray[np.int64]:
    """Return whole milliseconds, right for every number of 64 bits."""
    # -(-micros // 1000) would overflow at the least number, which has no positive counterpart.
    whole = micros // MILLISECOND
    return whole + (micros % MILLISECOND > 0) if up else whole


def to_microseconds(
    millis: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Return microseconds, 0 where 64 bits cannot hold them, and the mask of those, if any."""
    if not len(millis) or (millis.max() <= LAST_MILLISECOND and millis.min() >= -LAST_MILLISECOND):
        return millis * MILLISECOND, None
    beyond = (millis > LAST_MILLISECOND) | (millis < -LAST_MILLISECOND)
    return np.where(beyond, 0, millis) * MILLISECOND, beyond


def zone_of(name: str | tzinfo | None) -> tzinfo:
    """Return a time zone by a name that Java or Python knows."""
    if name is None:
        return system_zone()[1]
    if isinstance(name, tzinfo):
        return name
    if name in {"Z", "z", "UTC", "GMT", "UT"}:
        return UTC
    offset = _OFFSET_ID.fullmatch(name)
    if offset:
        sign, hours, minutes = offset.groups()
        delta = timedelta(hours=int(hours), minutes=int(minutes or 0))
        if delta < timedelta(hours=24):
            return timezone(-delta if sign == "-" else delta)
    else:
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise ValueError(
        f"time zone: expected a name such as 'Asia/Shanghai' or an offset such as '+08:00', "
        f"got {name!r}"
    )


def system_zone() -> tuple[str, tzinfo]:
    """Return the name and zone of this system, by ``TZ`` or ``/etc/localtime``."""
    text = os.environ.get("TZ")
    if text is None:
        link = Path("/etc/localtime")
        if not link.exists():
            return "UTC", UTC
        name = str(link.resolve())
    else:
        name = text.removeprefix(":")
    name = name.rpartition("zoneinfo/")[2]
    if name.removeprefix("Etc/") in _UTC_NAMES:
        return "UTC", UTC
    try:
        return name, ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    if text is None:  # a copy of a zone's file, whose name nothing tells
        return _LOCAL_TIME, _SystemZone()
    zone = _SystemZone()
    try:
        is_zone = _POSIX_RULE.match(name) is not None and bool(datetime.now(zone))
    except ValueError:  # a day or more from UTC
        is_zone = False
    if not is_zone:
        raise ValueError(f"TZ: expected a time zone such as Asia/Shanghai, got {text!r}")
    return name, zone


class _SystemZone(tzinfo):
    """The system's zone, whatever it is, as the C library knows it."""

    def utcoffset(self, time: datetime | None) -> timedelta | None:
        """Return the offset from UTC at a local time."""
        return None if time is None else time.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, time: datetime | None) -> timedelta | None:  # noqa: ARG002  (the signature)
        """Return None, which stands for unknown."""
        return None

    def tzname(self, time: datetime | None) -> str | None:  # noqa: ARG002  (the signature)
        """Return a name for every time."""
        return _LOCAL_TIME

    def fromutc(self, time: datetime) -> datetime:
        """Return a time in UTC as local time."""
        local = time.replace(tzinfo=UTC).astimezone()
        naive = local.replace(tzinfo=None, fold=0)
        is_second = naive.astimezone().utcoffset() != local.utcoffset()
        return naive.replace(tzinfo=self, fold=int(is_second))


class TimeUnitError(ValueError):
    """A number that is no milliseconds of any message; the text says what was probably meant."""


def check_milliseconds(number: int) -> None:
    """Refuse a number that was probably not meant as epoch milliseconds."""
    for known, factor, divisor in _UNITS:
        if number in known:
            meant = number * factor // divisor
            raise _unit_error(number, f"{meant} ({format_millis(meant, UTC)} UTC)")
    digits = _DIGITS.fullmatch(str(number))
    if digits is None:
        return
    year, month, day, *rest = digits.groups()
    hour, minute, second, fraction = (part or "" for part in rest)
    meant_text = f"{year}-{month}-{day}"
    if hour:
        meant_text += f" {hour}:{minute}:{second}" + (f".{fraction}" if fraction else "")
    raise _unit_error(number, meant_text)


def _unit_error(number: int, meant: str) -> TimeUnitError:
    read = format_millis(number, UTC)
    what = "beyond the year 9999" if read == "-" else f"{read} UTC"
    return TimeUnitError(
        f"expected epoch milliseconds, got {number}, which is {what}; did you mean {meant}?"
    )


@dataclass(frozen=True, slots=True)
class LocalTime:
    """A wall-clock time whose zone is not known yet.

    Attributes:
        text: The time as it was given.
        micros: What its microseconds since the epoch would be in UTC.
        less: How many microseconds before that it is, in whichever zone: 1 for the last moment of a
            day, which is the one before the next.
    """

    text: str
    micros: int
    less: int = 0

    def in_zone(self, zone: str | tzinfo) -> int:
        """Return microseconds since the epoch in a zone.

        A time in the gap of a clock change moves forward by the gap, one in an overlap is the
        earlier of the two, as in Java.
        """
        naive = _EPOCH.replace(tzinfo=None) + timedelta(microseconds=self.micros)
        return microseconds_of(naive.replace(tzinfo=zone_of(zone))) - self.less

    def is_after(self, other: LocalTime) -> bool:
        """Return whether a time is later than another one in every zone."""
        if isinstance(self, _RelativeDay) or isinstance(other, _RelativeDay):
            return self.earliest > other.latest
        return self.micros - self.less > other.micros - other.less

    @property
    def wall_time(self) -> str:
        """The wall-clock time before which it lies by :attr:`less`, as Spark's CAST reads it."""
        if not self.less:
            return self.text
        return str(_EPOCH.replace(tzinfo=None) + timedelta(microseconds=self.micros))

    @property
    def time_of_day(self) -> str:
        """What of a time is not part of :attr:`wall_time`."""
        return ""

    @property
    def earliest(self) -> int:
        """Microseconds since the epoch that no zone's reading comes before."""
        return self.micros - _WIDEST_OFFSET - self.less

    @property
    def latest(self) -> int:
        """Microseconds since the epoch that no zone's reading comes after."""
        return self.micros + _WIDEST_OFFSET


@dataclass(frozen=True, slots=True)
class _RelativeDay(LocalTime):
    """A day counted from the one that it is now, which differs between zones, or a time of it.

    Attributes:
        micros: Now.
        days: How many days later it begins.
        of_day: The time of the day.
    """

    days: int = 0
    of_day: time = time()

    def in_zone(self, zone: str | tzinfo) -> int:
        """Return the microseconds of the time in a zone, clock changes minded."""
        info = zone_of(zone)
        now = (_EPOCH + timedelta(microseconds=self.micros)).astimezone(info)
        day = now.date() + timedelta(days=self.days)
        return microseconds_of(datetime.combine(day, self.of_day, info)) - self.less

    @property
    def wall_time(self) -> str:
        """The name of the day."""
        return _DAY_NAMES[self.days]

    @property
    def time_of_day(self) -> str:
        """The time of the day; empty for its first moment."""
        return str(self.of_day) if self.of_day != time() else ""

    @property
    def earliest(self) -> int:
        """Microseconds since the epoch that no zone's reading comes before."""
        return self.micros + (self.days - 1) * _DAY - _WIDEST_OFFSET - self.less

    @property
    def latest(self) -> int:
        """Microseconds since the epoch that no zone's reading comes after."""
        return self.micros + (self.days + 1) * _DAY + _WIDEST_OFFSET


def moment_now() -> int:
    """Return the time, in microseconds since the epoch, from which relative times are counted.

    A command or a call asks once, so that both of its bounds are counted from one moment.
    """
    return clock.time_ns() // 1000


def microseconds_of(time: datetime) -> int:
    """Return microseconds since the epoch, for every datetime there is."""
    if time.tzinfo is not None:
        return (time - _EPOCH) // _MICROSECOND
    try:
        return (time.astimezone(UTC) - _EPOCH) // _MICROSECOND
    except (OverflowError, ValueError):  # in UTC it lies outside the years 1 to 9999
        moved = _CYCLE if time.year == MINYEAR else -_CYCLE
        return ((time + moved).astimezone(UTC) - _EPOCH - moved) // _MICROSECOND


def parse_time(text: str, now: int | None = None, *, is_end: bool = False) -> int | LocalTime:
    """Parse a time as people give it, to epoch microseconds, or a local time without a zone.

    Args:
        text: Epoch milliseconds, a timestamp, ``now``, ``today`` or ``yesterday``, also with a time
            of day as in ``yesterday 14:00``, or an age such as ``-2h`` or ``now-2h``: in seconds,
            minutes, hours, days of 24 hours, or weeks.
        now: What relative times are counted from, epoch microseconds; None to ask the clock.
        is_end: Whether it ends a range, of which it is part: then a day, or a month, that is given
            without a time of day stands for its last moment, else for its first.

    Raises:
        ValueError: Another text; the message says what was expected.
    """
    text = text.strip()
    if _MILLIS.fullmatch(text):
        if len(text) > _MOST_DIGITS + 1 or not INT64_MIN <= int(text) <= INT64_MAX:
            raise ValueError("epoch milliseconds of 64 bits")
        check_milliseconds(int(text))
        if year := _YEAR.fullmatch(text):
            raise _unit_error(int(text), f"{year[1]}-{year[2] or '01-01'}")
        return int(text) * MILLISECOND
    now = moment_now() if now is None else now
    for parse in (_relative, _spark_timestamp, _iso_timestamp):
        time = parse(text, now, is_end)
        if time is not None:
            return time
    raise ValueError(_EXPECTED)


def is_relative(text: str) -> bool:
    """Return whether a text stands for another time at another moment."""
    word = text.strip().lower()
    return (
        word == "now" or _AGE.fullmatch(word) is not None or _RELATIVE_DAY.match(word) is not None
    )


def is_day(text: str) -> bool:
    """Return whether a text, or the day that it names, is counted from today in a range's zone."""
    word = text.strip()
    is_named = _RELATIVE_DAY.match(word) is not None
    return is_named and isinstance(_spark_timestamp(word, 0, is_end=False), LocalTime)


def _relative(text: str, now: int, _is_end: bool) -> int | None:
    word = text.lower()
    if word == "now":
        return now
    age = _AGE.fullmatch(word)
    if age is None:
        return None
    if not age["past"]:
        raise ValueError(f"a time, such as -{text} for {text} ago")
    return _before(now, age)


def _before(now: int, age: re.Match[str]) -> int:
    """Return the time that lies an age before another one."""
    seconds = _SECONDS[age["unit"]]
    limit = now // (seconds * 1_000_000)
    if len(age["count"]) > _MOST_DIGITS or int(age["count"]) > limit:
        raise ValueError(f"an age of at most {limit}{age['unit']}, which reaches back to 1970")
    return now - int(age["count"]) * seconds * 1_000_000


def _spark_timestamp(text: str, now: int, is_end: bool) -> int | LocalTime | None:
    named = _RELATIVE_DAY.match(text)
    # What follows the name of a day is what follows a date.
    match = _SPARK_TIMESTAMP.fullmatch(
        text if named is None else f"1970-01-01{text[named.end() :]}"
    )
    if match is None:
        return None
    parts = match.groupdict()
    try:
        naive = datetime(  # noqa: DTZ001  (a wall-clock time)
            int(parts["year"]),
            int(parts["month"]),
            int(parts["day"] or 1),
            int(parts["hour"] or 0),
            int(parts["minute"] or 0),
            int(parts["second"] or 0),
            int((parts["fraction"] or "").ljust(6, "0")[:6]),
        )
        days = 0
        if is_end and parts["hour"] is None:
            days = 1 if parts["day"] else monthrange(naive.year, naive.month)[1]
        if named is None:
            local = _local_time(text, naive, days)
        else:
            local = _RelativeDay(text, now, days, _DAYS[named[0].lower()] + days, naive.time())
        return local if parts["zone"] is None else local.in_zone(parts["zone"])
    except ValueError:
        return None


def _iso_timestamp(text: str, _now: int, is_end: bool) -> int | LocalTime | None:
    match = _ISO_TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    if time.tzinfo is not None:
        return microseconds_of(time)
    days = 0
    if is_end and match["time"] is None:
        days = 7 if _ISO_WEEK.fullmatch(text) else 1
    return _local_time(text, time, days)


def _local_time(text: str, naive: datetime, days: int) -> LocalTime:
    """Return a local time, or the last moment of some days that begin with it."""
    try:
        behind = naive + timedelta(days=days)
    except OverflowError:  # the last day there is
        return _local_time(text, datetime.max, 0)  # noqa: DTZ901  (a wall-clock time)
    return LocalTime(text, microseconds_of(behind.replace(tzinfo=UTC)), int(days > 0))


def parse_since(text: str, zone: tzinfo, now: int | None = None) -> int:
    """Parse the begin of a range: a time, or how long ago, such as ``2h``, to epoch microseconds.

    ``now`` is that of :func:`parse_time`.
    """
    word = text.strip()
    if _BARE_COUNT.fullmatch(word):
        raise ValueError(f"expected a time, or an age with its unit such as {word}h, got {text!r}")
    age = _AGE.fullmatch(word.lower())
    if age is None:
        return parse_micros(text, zone, now)
    try:
        return _before(moment_now() if now is None else now, age)
    except ValueError as error:
        raise ValueError(f"expected {error}, got {text!r}") from None


def parse_micros(text: str, zone: tzinfo, now: int | None = None, *, is_end: bool = False) -> int:
    """Parse a time, as :func:`parse_time` does, to epoch microseconds."""
    try:
        time = parse_time(text, now, is_end=is_end)
    except TimeUnitError:
        raise
    except ValueError as error:
        raise ValueError(f"expected {error}, got {text!r}") from None
    return time.in_zone(zone) if isinstance(time, LocalTime) else time


def time_text(micros: int) -> str:
    """Write epoch microseconds for an error."""
    millis = micros // MILLISECOND
    text = format_millis(millis, UTC)
    return f"{millis} ms" if text == "-" else f"{text} UTC"


def format_millis(millis: int, zone: tzinfo) -> str:
    """Write epoch milliseconds as ``2023-11-14 22:13:20.000`` in a zone; ``-`` beyond 9999."""
    try:
        time = (_EPOCH + millis * _ONE_MILLISECOND).astimezone(zone)
        occurs_twice = time.replace(fold=1 - time.fold).utcoffset() != time.utcoffset()
    except (OverflowError, ValueError, OSError):  # the last two are the C library's
        return "-"
    shown = time if occurs_twice else time.replace(tzinfo=None)
    return shown.isoformat(" ", "milliseconds")
