"""Bounds of store time in the session's time zone, which only a running task knows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pyspark import TaskContext

from rmqindex.times import LocalTime, to_milliseconds, zone_of

__all__ = ["EXECUTION_ID", "LocalBound", "planned_bound", "system_zone", "task_bound"]

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
    """A bound of store time in the session's zone, which only a task knows.

    Attributes:
        time: The wall-clock time.
        in_system_zone: Microseconds since the epoch if the session has the default zone of the
            driver's host; None if that zone cannot be determined.
    """

    time: LocalTime
    in_system_zone: int | None


def planned_bound(bound: int | LocalTime | None, *, up: bool) -> int | LocalBound | None:
    """Return an option's bound as milliseconds, or as a bound for a task to convert.

    Args:
        bound: Epoch microseconds, a local time, or None for no bound.
        up: Whether to round up to whole milliseconds.
    """
    if bound is None:
        return None
    if isinstance(bound, int):
        return to_milliseconds(bound, up=up)
    zone = system_zone()
    return LocalBound(bound, None if zone is None else bound.in_zone(zone))


def task_bound(bound: LocalBound | None, *, up: bool) -> int | None:
    """Return a local bound as epoch milliseconds, in the session's time zone; None for no bound.

    Args:
        bound: What :func:`planned_bound` left to the task.
        up: Whether to round up to whole milliseconds.

    Raises:
        ValueError: The session's zone cannot be determined.
    """
    if bound is None:
        return None
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
        _, found, name = str(link.resolve()).partition("zoneinfo/")
        if not found:
            return None
    try:
        zone_of(name)
    except ValueError:
        return None
    return name
