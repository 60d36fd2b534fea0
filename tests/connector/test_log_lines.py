"""Log lines obey whatever the process in which they are written can know."""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace

import pytest

from pyspark_rmqindex import log_lines
from pyspark_rmqindex.log_lines import write_counts, write_line

LOGGER = logging.getLogger("pyspark_rmqindex")


@pytest.fixture(autouse=True)
def nothing_set_up(monkeypatch):
    """As in a process of Spark: no handler anywhere, no level, no variable, no session."""
    monkeypatch.delenv("RMQINDEX_LOG_LEVEL", raising=False)
    # pytest adds handlers of its own while a test runs.
    monkeypatch.setattr(LOGGER, "hasHandlers", lambda: False)
    monkeypatch.setattr(log_lines, "_spark_level", lambda: "")
    yield
    LOGGER.setLevel(logging.NOTSET)


def written(capsys, level=None):
    """Return the levels of a plan and a warning that reach standard error."""
    write_line(logging.INFO, "a plan", level)
    write_line(logging.WARNING, "a loss", level)
    return [line.split(" ")[2] for line in capsys.readouterr().err.splitlines()]


def test_a_process_that_knows_nothing_writes_warnings(capsys):
    """With time, level and name, to standard error."""
    assert written(capsys) == ["WARNING"]
    write_line(logging.WARNING, "100 % lost")
    assert capsys.readouterr().err.endswith(" WARNING pyspark_rmqindex: 100 % lost\n")


@pytest.mark.parametrize(
    ("name", "levels"),
    [("INFO", ["INFO", "WARNING"]), ("warning", ["WARNING"]), ("ERROR", []), ("OFF", [])],
)
def test_the_option_the_variable_and_spark_name_the_lowest_level(capsys, monkeypatch, name, levels):
    """The option before the variable, and both before Spark, whose default is INFO."""
    assert written(capsys, name) == levels
    monkeypatch.setattr(log_lines, "_spark_level", name.upper)
    assert written(capsys) == [level for level in levels if level != "INFO"]
    monkeypatch.setenv("RMQINDEX_LOG_LEVEL", name)
    monkeypatch.setattr(log_lines, "_spark_level", lambda: "WARN")
    assert written(capsys) == levels
    monkeypatch.setenv("RMQINDEX_LOG_LEVEL", "WARNING")
    assert written(capsys, name) == levels


def test_a_session_that_does_not_answer_changes_nothing(capsys, monkeypatch):
    """One that has ended, or whose Spark logs in another way."""
    monkeypatch.undo()
    monkeypatch.delenv("RMQINDEX_LOG_LEVEL", raising=False)
    monkeypatch.setattr(LOGGER, "hasHandlers", lambda: False)

    class Ended:
        @property
        def org(self):
            raise ConnectionRefusedError

    context = SimpleNamespace(
        SparkContext=SimpleNamespace(_active_spark_context=SimpleNamespace(_jvm=Ended()))
    )
    monkeypatch.setitem(sys.modules, "pyspark.core.context", context)
    assert written(capsys) == ["WARNING"]


def test_handlers_of_the_user_get_the_lines_and_standard_error_does_not(capsys, monkeypatch):
    """So that no line comes twice, whenever logging was set up."""
    assert written(capsys) == ["WARNING"]
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append((record.levelname, record.getMessage()))
    LOGGER.addHandler(handler)
    monkeypatch.setattr(LOGGER, "hasHandlers", lambda: True)
    try:
        for level in (logging.NOTSET, logging.INFO, logging.ERROR):
            LOGGER.setLevel(level)
            assert written(capsys) == []
    finally:
        LOGGER.removeHandler(handler)
    assert lines == [("WARNING", "a loss"), ("INFO", "a plan"), ("WARNING", "a loss")]


def test_a_level_of_the_logger_alone_counts(capsys, monkeypatch):
    """Before Spark's."""
    monkeypatch.setattr(log_lines, "_spark_level", lambda: "INFO")
    LOGGER.setLevel(logging.ERROR)
    assert written(capsys) == []


def test_logging_that_is_disabled_is_silent(capsys):
    """``logging.disable`` is above all."""
    logging.disable(logging.WARNING)
    try:
        assert written(capsys, "INFO") == []
    finally:
        logging.disable(logging.NOTSET)


def test_the_level_of_the_users_logger_is_left_alone():
    """A line of one lookup changes nothing for the next."""
    before = list(LOGGER.handlers)
    write_line(logging.INFO, "a plan", "INFO")
    assert LOGGER.level == logging.NOTSET
    assert before == LOGGER.handlers
    assert LOGGER.propagate


def test_spark_is_asked_in_the_driver_alone(monkeypatch):
    """Elsewhere there is no session."""
    monkeypatch.undo()
    pyspark_core = pytest.importorskip("pyspark.core.context")
    monkeypatch.setattr(pyspark_core.SparkContext, "_active_spark_context", None)
    assert log_lines._spark_level() == ""
    level = SimpleNamespace(name=lambda: "DEBUG")
    manager = SimpleNamespace(getRootLogger=lambda: SimpleNamespace(getLevel=lambda: level))
    jvm = SimpleNamespace(org=SimpleNamespace())
    jvm.org.apache = SimpleNamespace(logging=SimpleNamespace(log4j=SimpleNamespace()))
    jvm.org.apache.logging.log4j.LogManager = manager
    context = SimpleNamespace(_jvm=jvm)
    monkeypatch.setattr(pyspark_core.SparkContext, "_active_spark_context", context)
    assert log_lines._spark_level() == "DEBUG"


def test_the_level_of_a_session_is_read(spark, monkeypatch):
    """What ``setLogLevel`` set."""
    monkeypatch.undo()
    spark.sparkContext.setLogLevel("FATAL")
    try:
        assert log_lines._spark_level() == "FATAL"
    finally:
        spark.sparkContext.setLogLevel("ERROR")


def test_counts_are_rows_of_a_session_that_keeps_them_and_nothing_elsewhere(capsys, monkeypatch):
    """Whatever the level of lines; without rows, what has a text of its own is a line."""
    monkeypatch.delenv("PYSPARK_SPARK_SESSION_UUID", raising=False)
    monkeypatch.setenv("RMQINDEX_LOG_LEVEL", "WARNING")
    write_counts({"files": 2, "entries": 9})
    write_counts({"files": 2}, "looked up")
    assert capsys.readouterr().err == ""
    write_counts({"files": 2}, "looked up", "INFO")
    assert capsys.readouterr().err.endswith(" INFO pyspark_rmqindex: looked up\n")
    rows = []
    handler = logging.Handler()
    handler.emit = lambda record: rows.append((record.getMessage(), record.context))
    LOGGER.addHandler(handler)
    monkeypatch.setattr(LOGGER, "hasHandlers", lambda: True)
    monkeypatch.setenv("PYSPARK_SPARK_SESSION_UUID", "4f")
    try:
        write_counts({"files": 2, "entries": 9})
        write_counts({"files": 2}, "looked up", "OFF")
    finally:
        LOGGER.removeHandler(handler)
    counts = {"files": 2, "entries": 9}
    assert rows == [("read: files 2, entries 9", counts), ("looked up", {"files": 2})]
    assert capsys.readouterr().err == ""
