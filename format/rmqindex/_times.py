"""Epoch milliseconds to text and back, for people at a command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

__all__ = ["format_millis", "parse_millis"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MILLIS = re.compile(r"[+-]?[0-9]+")


def parse_millis(text: str, zone: tzinfo) -> int:
    """Read a time as epoch milliseconds.

    Args:
        text: Digits are epoch milliseconds; anything else is ISO 8601, such as ``2023-11-14``,
            ``2023-11-14T22:13:20.5`` or ``2023-11-14T22:13:20+08:00``.
        zone: The time zone of a text that names none.

    Returns:
        Epoch milliseconds; what is finer is cut off.

    Raises:
        ValueError: Neither of the two.
    """
    if _MILLIS.fullmatch(text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"expected epoch milliseconds or an ISO 8601 time such as 2023-11-14T22:13:20, "
            f"got {text!r}"
        ) from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=zone)
    return (time - _EPOCH) // _MILLISECOND


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
