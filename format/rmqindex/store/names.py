"""Names of IndexFiles (spec: file names; RocketMQ: ``UtilAll.timeMillisToHumanString``).

A name is a time in the broker's own time zone with 17 digits, ``yyyyMMddHHmmssSSS``.
The broker loads files in the order of their names, so a new name must come after the last one, but
not after the present moment, since the broker's own next file is named after that.
"""

from __future__ import annotations

import bisect
import time
import unicodedata
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING

from rmqindex.errors import RmqIndexError
from rmqindex.layout.index_file import INT64_MAX, INT64_MIN
from rmqindex.times import zone_of

if TYPE_CHECKING:
    from rmqindex.transaction.directories import FileEntry

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  (local times are counted as if they were UTC)
_MILLISECOND = timedelta(milliseconds=1)
_FIRST_LOCAL = (datetime.min - _EPOCH) // _MILLISECOND  # noqa: DTZ901
_LAST_LOCAL = (datetime.max - _EPOCH) // _MILLISECOND  # noqa: DTZ901
_DIGITS = 17
# How long to wait for the clock to pass the last name: one millisecond may see several files.
_PATIENCE_MS = 1000
# Where clocks show the latest time.
_EASTMOST = timezone(timedelta(hours=14))
# So many decimal digits are always within 64 bits.
_ALWAYS_FIT = len(str(INT64_MAX)) - 1


def timestamp_name(timestamp: int, zone: tzinfo | None = None) -> str:
    """Return the file name of a time.

    Args:
        timestamp: Epoch milliseconds; times outside the years 1 to 9999 are clipped to them.
        zone: The broker's time zone; ``None`` is the system's.

    Returns:
        17 digits.
    """
    return _local_name(_local(timestamp, zone))


def local_time(name: str) -> int | None:
    """Return the milliseconds from 1970-01-01 00:00 to a name's time, both on the broker's clocks.

    Args:
        name: The name; None is returned where it is no time of 17 digits.
    """
    try:
        moment = datetime.strptime(f"{name}000", "%Y%m%d%H%M%S%f")  # noqa: DTZ007
    except ValueError:
        return None
    return (moment - _EPOCH) // _MILLISECOND if len(name) == _DIGITS else None


def latest_name(zone: tzinfo | None = None) -> str:
    """Return the greatest name that is not in the future, but for a moment that writers wait.

    Args:
        zone: The broker's time zone; ``None`` is the system's.
    """
    return timestamp_name(_clock() + _PATIENCE_MS, zone)


def next_names(
    first_timestamps: list[int],
    last_name: str | None,
    now: int | None = None,
    zone: tzinfo | None = None,
) -> list[str]:
    """Return names for new files that come after the present ones.

    Each is the time of the file's first entry, raised past the name before it, and lowered where
    it would lie after now.

    Args:
        first_timestamps: The store time of each new file's first entry, in the order of the files,
            epoch milliseconds.
        last_name: The greatest name that the directory has or had, by string order, if any.
        now: The present moment, epoch milliseconds.
            ``None`` asks the clock, and waits up to a second for it to pass ``last_name``.
        zone: The broker's time zone; ``None`` is the system's.

    Returns:
        As many names of 17 digits, strictly increasing, all after ``last_name``.

    Raises:
        RmqIndexError: No names are left between ``last_name`` and now.
    """
    if not first_timestamps:
        return []
    if now is None:
        lacking = _lacking(len(first_timestamps), last_name, _clock(), zone)
        if 0 < lacking <= _PATIENCE_MS:
            time.sleep((lacking + 1) / 1000)
        now = _clock()
    lacking = _lacking(len(first_timestamps), last_name, now, zone)
    if lacking > 0:
        raise RmqIndexError(
            f"no name is left for {len(first_timestamps)} new files: expected the last name that "
            f"the directory used before {timestamp_name(now, zone)} (now, in the broker's time "
            f"zone), got {last_name}; give the broker's time zone (timeZone, --time-zone), or, if "
            "a clock was ahead, rebuild all files from the CommitLog with --replace (replace=True)"
        )
    names = []
    earliest = _after(last_name)
    latest = _local(now, zone) - len(first_timestamps) + 1
    for timestamp in first_timestamps:
        local = min(max(_local(timestamp, zone), earliest), latest)
        names.append(_local_name(local))
        earliest, latest = local + 1, latest + 1
    return names


def has_next_name(last_name: str) -> bool:
    """Return whether :func:`next_names` has a name for one more file, in some broker's time zone.

    Args:
        last_name: The name of the directory's last file.
    """
    return _lacking(1, last_name, _clock(), _EASTMOST) <= _PATIENCE_MS


def _lacking(count: int, last_name: str | None, now: int, zone: tzinfo | None) -> int:
    """Return how many milliseconds must pass before ``count`` names fit after the last one."""
    return _after(last_name) + count - 1 - _local(now, zone)


def _after(last_name: str | None) -> int:
    """Return the first local time whose name comes after ``last_name`` in string order."""
    locals_ = range(_FIRST_LOCAL, _LAST_LOCAL + 1)
    return locals_[0] + bisect.bisect_right(locals_, last_name or "", key=_local_name)


def _clock() -> int:
    return time.time_ns() // 1_000_000


def _local(timestamp: int, zone: tzinfo | None) -> int:
    """Return the milliseconds from 1970-01-01 00:00 to a time, both on the zone's own clocks."""
    clocks = zone_of(zone)
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp)
        local = moment.astimezone(clocks).replace(tzinfo=None)
    except (OverflowError, ValueError):
        return _FIRST_LOCAL if timestamp < 0 else _LAST_LOCAL
    return (local - _EPOCH) // _MILLISECOND


def _local_name(local: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=local)
    # strftime does not pad the year everywhere.
    return (
        f"{moment.year:04d}{moment.month:02d}{moment.day:02d}{moment.hour:02d}"
        f"{moment.minute:02d}{moment.second:02d}{moment.microsecond // 1000:03d}"
    )


def is_index_name(name: str) -> bool:
    """Return whether the broker loads a file of this name, that is, ``Long.parseLong`` accepts it.

    It accepts an optional sign and decimal digits of any script of the basic plane, within 64 bits.
    """
    digits = name[1:] if name[:1] in ("+", "-") else name
    if len(digits) <= _ALWAYS_FIT and digits.isascii():
        return digits.isdigit()
    value = 0
    for character in digits:
        digit = unicodedata.decimal(character, None)
        if digit is None or ord(character) > 0xFFFF:
            return False
        value = min(value * 10 + int(digit), INT64_MAX + 2)
    if not digits:
        return False
    return -value >= INT64_MIN if name.startswith("-") else value <= INT64_MAX


def broker_order(entry: FileEntry) -> bytes:
    """Return a sort key that orders names as Java compares strings."""
    return entry.name.encode("utf-16-be", "surrogatepass")
