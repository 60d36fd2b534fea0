"""Epoch milliseconds to text and back, for people at a command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from rmqindex.layout import INT64_MAX, INT64_MIN
from rmqindex.time_units import to_milliseconds

__all__ = ["format_millis", "parse_millis"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MICROSECOND = timedelta(microseconds=1)
_MILLIS = re.compile(r"[+-]?[0-9]{1,19}")


def parse_millis(text: str, zone: tzinfo, *, up: bool) -> int:
    """Read a time as epoch milliseconds.

    Args:
        text: Digits are epoch milliseconds; anything else is ISO 8601, such as ``2023-11-14``,
            ``2023-11-14T22:13:20.5`` or ``2023-11-14T22:13:20+08:00``.
        zone: The time zone of a text that names none.
        up: Whether what is finer than a millisecond is rounded up, as for the earliest time that
            is asked for, or down, as for the latest.

    Returns:
        Epoch milliseconds.

    Raises:
        ValueError: Neither of the two.
    """
    expected = (
        f"expected epoch milliseconds of 64 bits or an ISO 8601 time such as 2023-11-14T22:13:20, "
        f"got {text!r}"
    )
    if _MILLIS.fullmatch(text):
        millis = int(text)
        if not INT64_MIN <= millis <= INT64_MAX:
            raise ValueError(expected)
        return millis
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(expected) from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=zone)
    return to_milliseconds((time - _EPOCH) // _MICROSECOND, up=up)


def format_millis(millis: int, zone: tzinfo) -> str:
    """Write epoch milliseconds as ``2023-11-14 22:13:20.000`` in a time zone.

    Returns:
        The text, or ``-`` for a time that no calendar of four-digit years holds.
    """
    try:
        time = (_EPOCH + millis * _MILLISECOND).astimezone(zone)
    except OverflowError:
        return "-"
    return time.replace(tzinfo=None).isoformat(" ", "milliseconds")
