"""Times in WHERE that Spark cannot pass to a Python data source.

Before Spark calls ``pushFilters``, it converts every TIMESTAMP in a filter to a ``datetime``; one
outside the years 1 to 9999 raises a bare ``OverflowError`` that no data source can catch.
In Spark's planning process, only the data source's ``reader()`` runs before that.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from pyspark.sql.variant_utils import VariantUtils

from rmqindex.times import microseconds_of

__all__ = ["explain_distant_times"]

_READING = "_get_timestamp"
_SIZE = 8  # bytes of a TIMESTAMP, after one byte for its type
_BASE = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
_CYCLE_YEARS, _CYCLE_MICROS = 400, 146_097 * 86_400 * 1_000_000


def explain_distant_times() -> None:
    """Make Spark's error name the time and say what to write instead.

    Nothing else changes in this process, and nothing at all if Spark decodes times in another way.
    """
    reading: Any = getattr(VariantUtils, _READING, None)
    if reading is None or getattr(reading, "explains", False):
        return

    def explained(value: bytes, pos: int, zone_id: str) -> dt.datetime:
        try:
            time: dt.datetime = reading(value, pos, zone_id)
        except OverflowError as error:
            micros = int.from_bytes(value[pos + 1 : pos + 1 + _SIZE], "little", signed=True)
            raise ValueError(_refusal(micros)) from error
        return time

    explained.explains = True  # type: ignore[attr-defined]
    setattr(VariantUtils, _READING, staticmethod(explained))


def _refusal(micros: int) -> str:
    return (
        f"WHERE: expected a TIMESTAMP of the years 1 to 9999, as Spark hands no other to a data "
        f"source in Python, got {_literal(micros)}; leave the condition out if it is always true, "
        f"or compare unix_micros(store_timestamp) with {micros}"
    )


def _literal(micros: int) -> str:
    """Return a time in any year, written as Spark writes it."""
    cycles, rest = divmod(micros - microseconds_of(_BASE), _CYCLE_MICROS)
    time = _BASE + dt.timedelta(microseconds=rest)
    year = time.year + cycles * _CYCLE_YEARS
    sign = "-" if year < 0 else "+" if year > dt.MAXYEAR else ""
    return f"TIMESTAMP '{sign}{abs(year):04d}{time.strftime('-%m-%d %H:%M:%S.%f')} UTC'"
