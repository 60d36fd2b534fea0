"""Where log lines go, and which are written.

In the driver, Python's logging and Spark's log level decide. The processes in which Spark plans and
runs tasks know neither: there, an option or an environment variable does.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys

_LOGGER = logging.getLogger("pyspark_rmqindex")
_LEVEL_VARIABLE = "RMQINDEX_LOG_LEVEL"
# Log4j's names where Python's differ.
_SPARK_LEVELS = {"ALL": logging.NOTSET, "TRACE": 5, "WARN": 30, "FATAL": 50, "OFF": 100}
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def write_line(severity: int, text: str, level: str | None = None) -> None:
    """Write one line to the handlers of Python's logging, or to standard error if it has none."""
    is_set_up = _LOGGER.hasHandlers()
    if severity < _lowest(level, is_set_up=is_set_up) or severity <= logging.root.manager.disable:
        return
    record = _LOGGER.makeRecord(_LOGGER.name, severity, __file__, 0, text, (), None)
    if is_set_up:
        _LOGGER.handle(record)
    else:
        _standard_error().handle(record)


def log_warning(text: str) -> None:
    """Log a line at the level WARNING."""
    write_line(logging.WARNING, text)


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
