"""Bounds of store time: what the driver knows of them, and what only a task can know."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import TaskContext

from pyspark_rmqindex.options.times import LocalTime, system_zone
from rmqindex.time_units import to_milliseconds

__all__ = ["EXECUTION_ID", "LocalBound", "planned_bound", "task_bound"]

EXECUTION_ID = "spark.sql.execution.id"
_TIME_ZONE_CONF = "spark.sql.session.timeZone"
_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")


def planned_bound(bound: int | LocalTime | None, *, up: bool) -> int | LocalBound | None:
    """Return an option's bound as milliseconds, or as what a task needs to find them.

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
    """Return a local bound as milliseconds, in the session's time zone; None for none.

    Args:
        bound: What :func:`planned_bound` left to the task.
        up: Whether to round up to whole milliseconds.

    Raises:
        ValueError: The session's zone cannot be known.
    """
    if bound is None:
        return None
    context = TaskContext.get()
    name = context.getLocalProperty(_TIME_ZONE_CONF) if context is not None else None
    if name is not None:
        return to_milliseconds(bound.time.in_zone(name), up=up)
    # Without the conf a session has the JVM's zone; that is the host's if nobody changed it, and
    # if the properties were passed to this task at all.
    if (
        context is None
        or context.getLocalProperty(EXECUTION_ID) is None
        or any(
            "user.timezone" in (context.getLocalProperty(option) or "") for option in _JAVA_OPTIONS
        )
        or bound.in_system_zone is None
    ):
        raise ValueError(
            f"options 'beginTimestamp' and 'endTimestamp': the session's time zone is not known "
            f"here, so {bound.time.text!r} has no meaning; give the option 'timeZone', a zone in "
            f"the text, or epoch milliseconds, or set {_TIME_ZONE_CONF}"
        )
    return to_milliseconds(bound.in_system_zone, up=up)


@dataclass(frozen=True, slots=True)
class LocalBound:
    """A bound of store time that only a task can place, since it knows the session's zone.

    Attributes:
        time: The wall-clock time.
        in_system_zone: Microseconds since the epoch where the session keeps the default zone of
            the driver's host; None where that zone is not plain.
    """

    time: LocalTime
    in_system_zone: int | None
