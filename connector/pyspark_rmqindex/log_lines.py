"""Where log lines go, and which are written.

In the driver, Python's logging and Spark's log level decide. The processes in which Spark plans and
runs tasks know neither: there, an option or an environment variable does. What tasks count becomes
rows of ``spark.tvf.python_worker_logs()``, in sessions that keep such rows.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOGGER = logging.getLogger("pyspark_rmqindex")
_LEVEL_VARIABLE = "RMQINDEX_LOG_LEVEL"
# Spark sets it, from 4.1 on, in the processes whose log records become rows of a session.
_ROWS_VARIABLE = "PYSPARK_SPARK_SESSION_UUID"
# Log4j's names where Python's differ.
_SPARK_LEVELS = {"ALL": logging.NOTSET, "TRACE": 5, "WARN": 30, "FATAL": 50, "OFF": 100}
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def write_line(
    severity: int,
    text: str,
    level: str | None = None,
    counts: Mapping[str, int] | None = None,
) -> None:
    """Write one line to the handlers of Python's logging, or to standard error if it has none.

    The ``counts`` are the ``context`` of Spark's row.
    """
    is_set_up = _LOGGER.hasHandlers()
    if severity < _lowest(level, is_set_up=is_set_up) or severity <= logging.root.manager.disable:
        return
    extra = None if counts is None else {"context": {**counts}}
    record = _LOGGER.makeRecord(_LOGGER.name, severity, __file__, 0, text, (), None, extra=extra)
    if is_set_up:
        _LOGGER.handle(record)
    else:
        _standard_error().handle(record)


def log_warning(text: str) -> None:
    """Log a line at the level WARNING."""
    write_line(logging.WARNING, text)


def write_counts(counts: Mapping[str, int], text: str = "", level: str | None = None) -> None:
    """Make a row of what a task has counted, where the session keeps rows.

    Elsewhere it is a line at the level INFO, if it has a text.
    """
    if _ROWS_VARIABLE in os.environ:
        told = ", ".join(f"{name} {count}" for name, count in counts.items())
        # Whoever keeps rows has asked for them, whatever the level of lines is.
        write_line(logging.INFO, text or f"read: {told}", "INFO", counts)
    elif text:
        write_line(logging.INFO, text, level)


class Warnings:
    """Logs each text once."""

    def __init__(self) -> None:
        """Begin without any."""
        self._told: set[str] = set()

    def __call__(self, what: object) -> None:
        """Log an error, or another text, at the level WARNING, unless it was logged before."""
        text = str(what)
        if text not in self._told:
            self._told.add(text)
            log_warning(text)


def _lowest(level: str | None, *, is_set_up: bool) -> int:
    known = {**logging.getLevelNamesMapping(), **_SPARK_LEVELS}
    for name in (level, os.environ.get(_LEVEL_VARIABLE)):
        named = known.get((name or "").upper())
        if named is not None:
            return named
    if is_set_up or _LOGGER.level:
        return _LOGGER.getEffectiveLevel()
    # Spark's own default is INFO, which nobody has asked for.
    return max(known.get(_spark_level(), logging.WARNING), logging.WARNING)


def _spark_level() -> str:
    """Return what ``setLogLevel`` set, in the driver of a classic session."""
    context = getattr(sys.modules.get("pyspark.core.context"), "SparkContext", None)
    active = getattr(context, "_active_spark_context", None)
    if active is None or active._jvm is None:  # noqa: SLF001  (Spark has no other way to ask)
        return ""
    with contextlib.suppress(Exception):  # a session that ended, or that logs in another way
        logs = active._jvm.org.apache.logging.log4j.LogManager  # noqa: SLF001
        return str(logs.getRootLogger().getLevel().name())
    return ""


def _standard_error() -> logging.Handler:
    """Return a handler for the current ``sys.stderr``, which Spark replaces between plannings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT))
    return handler
