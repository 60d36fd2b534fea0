"""What ``last_plan()`` tells of a lookup."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pyspark_rmqindex import LookupSummary, last_plan, lookup
from pyspark_rmqindex.join import summary as summary_module
from pyspark_rmqindex.join.summary import register_lookup, summary_of

KEYS = [("TopicTest", "order-49"), ("TopicTest", "BB"), ("TopicTest", "absent")]


class ConnectSession:
    """A session without a JVM."""


def test_spark_connect_has_no_tally():
    """It has no accumulators; the name in its plans is the same."""
    name, tally = register_lookup(ConnectSession(), LookupSummary("auto", 2, 5, 90))
    assert (name, tally) == ("rmqindex_lookup_auto_in_2_files", None)


def test_a_notebook_shows_what_print_shows():
    """A cell that ends with a summary has its sentence."""
    shown = LookupSummary("auto", 2, 5, 90)
    assert repr(shown) == str(shown)
    assert repr(shown).startswith("looking up by auto in 2 of 5 files")


def test_a_lookup_that_is_forgotten_is_never_taken_for_another(monkeypatch):
    """Numbers are of one process and never given twice, over sessions too."""
    monkeypatch.setattr(summary_module, "_KEPT", 2)
    session = SimpleNamespace(
        _jsparkSession=None,
        sparkContext=SimpleNamespace(accumulator=lambda value, _: SimpleNamespace(value=value)),
    )
    names = []
    for number in range(4):
        name, tally = register_lookup(session, LookupSummary("auto", number, 5, 90))
        tally.value["keys"] = number
        names.append(name)
    assert len(set(names)) == 4
    found = [summary_of(SimpleNamespace(toString=lambda name=name: name)) for name in names]
    assert [[each.keys for each in summaries] for summaries in found] == [[], [], [2], [3]]


def test_the_tasks_of_a_lookup_are_added_up(spark, store):
    """Over all queries on its DataFrame, and over no other's."""
    keys = spark.createDataFrame(KEYS, "topic STRING, key STRING").coalesce(1)
    found = lookup(keys, store)
    other = lookup(keys, store, commitLog="none")
    assert (last_plan(found).keys, last_plan(found).candidates) == (0, 0)
    rows = found.count()
    summary = last_plan(found)
    assert (summary.keys, summary.hashes, summary.files_kept, summary.files_total) == (3, 3, 5, 5)
    assert summary.probed + summary.scanned == 5 * summary.tasks
    assert (summary.entries, summary.strategy) == (959, "auto")
    assert summary.candidates == rows + summary.dropped == summary.verified
    assert summary.dropped > 0
    assert last_plan(other).candidates == 0
    assert other.count() == last_plan(other).candidates == summary.candidates
    assert last_plan(other).verified == last_plan(other).dropped == 0
    found.where("key = 'BB'").count()
    assert last_plan(found).keys == 2 * summary.keys
    assert f"{2 * summary.candidates} candidates" in str(last_plan(found))
    with pytest.raises(ValueError, match="got one over 2 of them"):
        last_plan(found.drop("match_state").unionAll(other))
