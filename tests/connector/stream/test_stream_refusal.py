"""Streams that cannot be are refused with the reason."""

from __future__ import annotations

import sys

import pyspark
import pytest

from pyspark_rmqcommitlog import DefaultSource as MessageSource
from pyspark_rmqconsumequeue import DefaultSource as QueueSource
from pyspark_rmqindex import DefaultSource


def test_consume_queues_are_not_streamed(store):
    """Every question is answered with what to do; PySpark hides an error of ``streamReader``."""
    asked = QueueSource({"path": str(store)})
    reader = asked.streamReader(asked.schema())
    for question in (reader.latestOffset, reader.initialOffset):
        with pytest.raises(ValueError, match="rmqconsumequeue is not streamed; load it with"):
            question()


@pytest.mark.parametrize("source", [MessageSource, QueueSource])
def test_what_is_only_read_says_so(source, store):
    """To a batch and to a stream that would write it."""
    asked = source({"path": str(store)})
    for write in (asked.writer, asked.streamWriter):
        with pytest.raises(ValueError, match=f"the format {source.name()} is only read; an index"):
            write(asked.schema(), False)


@pytest.mark.parametrize("source", [DefaultSource, MessageSource])
def test_an_older_pyspark_is_named(source, monkeypatch, store):
    """PySpark 4.1 has no limits of streams; the first question is answered with what is needed."""
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    asked = source({"path": str(store)})
    reader = asked.streamReader(asked.schema())
    # The first question is the last offset there; PySpark 4.1 asks for it without arguments.
    for question in (reader.latestOffset, reader.initialOffset):
        with pytest.raises(ValueError, match=r"expected PySpark 4\.2 or later, got") as refusal:
            question()
        assert pyspark.__version__ in str(refusal.value)
