"""Ranges of store time, and their bounds in the session's zone, which only a task knows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext

from pyspark_rmqindex.options.kinds import END_TIME, TIME
from rmqindex.messagestore import Range
from rmqindex.times import (
    MILLISECOND,
    LocalTime,
    moment_now,
    time_text,
    to_milliseconds,
    zone_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark_rmqindex.options.shared import RecordOptions

EXECUTION_ID = "spark.sql.execution.id"
_TIME_ZONE_CONF = "spark.sql.session.timeZone"
_JAVA_CONFS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_JAVA_VARIABLES = (
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "SPARK_SUBMIT_OPTS",
)


@dataclass(frozen=True, slots=True)
class LocalBound:
    """A bound of store time in the session's zone, which only a task knows."""

    time: LocalTime
    # Microseconds since the epoch if the session has the default zone of the driver's host;
    # None if that zone cannot be determined.
    in_system_zone: int | None


def planned_bound(bound: int | LocalTime | None, *, up: bool) -> int | LocalBound | None:
    """Return an option's bound as milliseconds, or as a bound for a task to convert."""
    if bound is None:
        return None
    if isinstance(bound, int):
        return to_milliseconds(bound, up=up)
    zone = system_zone()
    return LocalBound(bound, None if zone is None else bound.in_zone(zone))


def task_range(begin: int | LocalBound | None, end: int | LocalBound | None) -> Range:
    """Return the store times as epoch milliseconds, local bounds in the session's zone."""
    low = _task_bound(begin, up=True) if isinstance(begin, LocalBound) else begin
    high = _task_bound(end, up=False) if isinstance(end, LocalBound) else end
    # Two times within one millisecond pass each other when they are rounded.
    if low is not None and high is not None and low > high + 1:
        raise ValueError(
            f"option 'beginTimestamp': expected a time at or before 'endTimestamp', "
            f"{time_text(high * MILLISECOND)}, got {time_text(low * MILLISECOND)}"
        )
    return Range(low, high)


def sql_times(given: Mapping[str, str]) -> dict[str, str]:
    """Return ``beginTimestamp`` and ``endTimestamp`` as arguments of ``rmq_lookup``, in SQL."""
    zone, now = given.get("timeZone"), moment_now()
    arguments = {}
    for option, argument, kind in (
        ("beginTimestamp", "begin", TIME),
        ("endTimestamp", "end", END_TIME),
    ):
        if option not in given:
            continue
        time = kind.parse(given[option], now)
        if isinstance(time, LocalTime) and zone is not None:
            time = time.in_zone(zone)
        if isinstance(time, LocalTime):
            arguments[argument] = _literal(time)
        else:
            milliseconds = to_milliseconds(time, up=argument == "begin")
            arguments[argument] = f"timestamp_millis({milliseconds})"
    return arguments


def _literal(time: LocalTime) -> str:
    """Write a local time in SQL, which has names for days and none for times of such a day."""
    named = f"TIMESTAMP '{time.wall_time}'"
    if time.time_of_day:
        return f"CAST(CONCAT(CAST({named} AS DATE), ' {time.time_of_day}') AS TIMESTAMP)"
    return named + (" - INTERVAL '0.001' SECOND" if time.less else "")


def time_texts(options: RecordOptions) -> tuple[str, ...]:
    """Return the bounds of store time as the texts of filters, for the plan of a scan."""
    return tuple(
        f"store_timestamp {operator} {_shown(bound)}"
        for operator, bound in ((">=", options.begin), ("<=", options.end))
        if bound is not None
    )


def _shown(bound: int | LocalTime) -> str:
    if isinstance(bound, LocalTime):
        return f"'{bound.text}' (session's time zone)"
    return f"'{time_text(bound)}'"


def _task_bound(bound: LocalBound, *, up: bool) -> int:
    context = TaskContext.get()
    name = context.getLocalProperty(_TIME_ZONE_CONF) if context is not None else None
    if name is not None:
        return to_milliseconds(bound.time.in_zone(name), up=up)
    # Without the conf, a session has the JVM's zone. That is the host's zone only if nobody changed
    # it, and is known only if the properties were passed to this task at all.
    if (
        context is None
        or context.getLocalProperty(EXECUTION_ID) is None
        or any("user.timezone" in (context.getLocalProperty(conf) or "") for conf in _JAVA_CONFS)
        or bound.in_system_zone is None
    ):
        raise ValueError(
            f"options 'beginTimestamp' and 'endTimestamp': the session's time zone is not known "
            f"here, so {bound.time.text!r} has no meaning; give the option 'timeZone', a zone in "
            f"the text, or epoch milliseconds, or set {_TIME_ZONE_CONF}"
        )
    return to_milliseconds(bound.in_system_zone, up=up)


def system_zone() -> str | None:
    """Return the default time zone of a JVM on this host, or None if it cannot be determined.

    Java and Python agree on a region name in ``TZ``, and on the link ``/etc/localtime``.
    """
    if any("user.timezone" in os.environ.get(name, "") for name in _JAVA_VARIABLES):
        return None
    name = os.environ.get("TZ")
    if name is None:
        link = Path("/etc/localtime")
        if not link.exists():
            return "UTC"
        _, is_zoneinfo, name = str(link.resolve()).partition("zoneinfo/")
        if not is_zoneinfo:
            return None
    try:
        zone_of(name)
    except ValueError:
        return None
    return name
