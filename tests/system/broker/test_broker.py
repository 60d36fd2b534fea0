"""A real broker's store is read while it is written, rebuilt, and served by the broker again."""

from __future__ import annotations

import os

import pytest
from tests.support.maven import REQUIRED, UnavailableError

from rmqindex import Layout

from . import VERSIONS
from .campaigns import Kills, LiveAudits
from .consumers import GROUPS, Consumers
from .processes import Cluster
from .report import Report
from .round_trip import RoundTrip
from .stories import Stories

SENDINGS = 150


@pytest.fixture
def cluster(tmp_path):
    """The newest version's name server, and its broker, not started."""
    try:
        made = Cluster(VERSIONS[0], tmp_path)
    except UnavailableError as error:
        if os.environ.get(REQUIRED):
            raise
        pytest.skip(f"RocketMQ {VERSIONS[0]}: {error}")
    with made as started:
        yield started


@pytest.mark.spark_streams
def test_a_broker_and_its_store_go_through_all_steps_without_a_difference(cluster, tmp_path, spark):
    """Every key is answered the same by the broker's index, ours, and a larger one of ours."""
    report = Report()
    RoundTrip(cluster, tmp_path, report, spark, print).run(SENDINGS)
    assert not report.differences, "\n".join(report.lines())
    for what in ("messages sent", "keys in the CommitLog", "IndexFiles expired"):
        assert report.counts[what], what


def test_an_operator_mends_the_store_by_what_is_printed(cluster):
    """The index lost in a crash, the oldest file gone, a file cut, the topic misspelt."""
    report = Report()
    Stories(cluster, report, print).run(SENDINGS)
    assert not report.differences, "\n".join(report.lines())
    assert report.counts["keys under the right topic"]


def test_an_operator_mends_the_store_of_a_dledger_broker(cluster):
    """The index is lost when the broker is killed, and its group has no other broker."""
    report = Report()
    Stories(cluster, report, print).run_dledger(SENDINGS)
    assert not report.differences, "\n".join(report.lines())
    assert report.counts["keys answered as before, after the index was lost"]


def test_a_broker_that_is_killed_keeps_its_index_by_what_is_printed(cluster):
    """Under load, once with nothing damaged and once with its index gone."""
    report = Report()
    Kills(cluster, report, print).run(1, 300, ["index gone"])
    assert not report.differences, "\n".join(report.lines())
    assert report.counts["entries kept, after a kill and index gone"] > 1


@pytest.mark.spark_streams
def test_a_live_store_is_audited(cluster, spark):
    """By the command and by Spark: nothing false is found, and planted damage is."""
    report = Report()
    LiveAudits(cluster, report, spark, print).run(5, 300, 2, Layout(499, 2_000))
    assert not report.differences, "\n".join(report.lines())
    assert report.counts["planted damages found"] == 2


@pytest.mark.parametrize("light", [True, False], ids=["light queues", "no light queues"])
def test_consumer_groups_are_as_far_as_mqadmin_shows(cluster, light):
    """Group by group and queue by queue, in the store of the broker after it was stopped."""
    report = Report()
    Consumers(cluster, report, print).run(SENDINGS, light=light)
    assert not report.differences, "\n".join(report.lines())
    assert report.counts["offsets of groups in queues"] > 3 * len(GROUPS)


def test_a_report_tells_differences_from_agreement():
    """Of two dictionaries every item is compared, on either side."""
    report = Report()
    report.compare("answers", {"a": [1], "b": [2]}, {"a": [1], "c": [3]})
    report.compare("answers", [1], [1])
    assert report.counts["answers"] == 4
    assert report.differences == [
        "answers 'b': expected [2], got None",
        "answers 'c': expected None, got [3]",
    ]
