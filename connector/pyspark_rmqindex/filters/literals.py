"""Times in WHERE that Spark cannot pass to a Python data source.

Before Spark calls ``pushFilters``, it converts every TIMESTAMP in a filter to a ``datetime``; one
outside the years 1 to 9999 raises a bare ``OverflowError``, for every data source while
``spark.sql.python.filterPushdown.enabled`` is on, whether it takes filters or not.
In Spark's planning process, only the data source's ``reader()`` runs before that.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from pyspark.sql.variant_utils import VariantUtils

from rmqindex.times import microseconds_of

__all__ = ["DistantTime", "pass_distant_times"]

_READING = "_get_timestamp"
_SIZE = 8  # bytes of a TIMESTAMP, after one byte for its type
_BASE = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
_CYCLE_YEARS, _CYCLE_MICROS = 400, 146_097 * 86_400 * 1_000_000


@dataclass(frozen=True, slots=True)
class DistantTime:
    """A TIMESTAMP that is no ``datetime``."""

    microseconds: int

    def __repr__(self) -> str:
        """Return it as Spark writes it, in any year."""
        cycles, rest = divmod(self.microseconds - microseconds_of(_BASE), _CYCLE_MICROS)
        time = _BASE + dt.timedelta(microseconds=rest)
        year = time.year + cycles * _CYCLE_YEARS
        sign = "-" if year < 0 else "+" if year > dt.MAXYEAR else ""
        return f"TIMESTAMP '{sign}{abs(year):04d}{time.strftime('-%m-%d %H:%M:%S.%f')} UTC'"


def pass_distant_times() -> None:
    """Make Spark pass them as a :class:`DistantTime`.

    Nothing else changes in this process, and nothing at all if Spark decodes times in another way.
    """
    reading: Any = getattr(VariantUtils, _READING, None)
    if reading is None or getattr(reading, "passes_distant_times", False):
        return

    def passed(value: bytes, pos: int, zone_id: str) -> dt.datetime | DistantTime:
        try:
            time: dt.datetime = reading(value, pos, zone_id)
        except OverflowError:
            return DistantTime(
                int.from_bytes(value[pos + 1 : pos + 1 + _SIZE], "little", signed=True)
            )
        return time

    passed.passes_distant_times = True  # type: ignore[attr-defined]
    setattr(VariantUtils, _READING, staticmethod(passed))
