"""Times in filters that Spark cannot pass, beside those that it can."""

from __future__ import annotations

import pytest
from pyspark.sql.variant_utils import VariantUtils

from pyspark_rmqindex.read.filters import DistantTime, pass_distant_times

READING = "_get_timestamp"
SECOND = 1_000_000
# Microseconds: the years 1 and 9999, beyond both, and in between.
READABLE = (-62_135_500_000 * SECOND, -1, 0, 1_700_000_000_123_456, 253_402_200_000 * SECOND)
DISTANT = (-62_200_000_000 * SECOND, 253_500_000_000 * SECOND, -(2**63), 2**63 - 1)


def encoded(micros):
    """Return a TIMESTAMP as a filter holds it, after one byte for its type."""
    return bytes([VariantUtils.TIMESTAMP << 2]) + micros.to_bytes(8, "little", signed=True)


@pytest.fixture
def spark_reads(monkeypatch):
    """Return Spark's own reading, which comes back after the test."""
    original = VariantUtils.__dict__[READING]
    monkeypatch.setattr(VariantUtils, READING, original)
    return getattr(VariantUtils, READING)


def test_every_time_that_spark_reads_is_read_by_spark(spark_reads):
    """For every data source of the process, in any zone; only its errors become values."""
    expected = [spark_reads(encoded(micros), 0, "UTC") for micros in READABLE]
    pass_distant_times()
    passed = getattr(VariantUtils, READING)
    assert [passed(encoded(micros), 0, "UTC") for micros in READABLE] == expected
    found = [passed(encoded(micros), 0, "UTC") for micros in DISTANT]
    assert found == [DistantTime(micros) for micros in DISTANT]


def test_asking_again_changes_nothing(spark_reads):  # noqa: ARG001
    """A planning process is used for many queries."""
    pass_distant_times()
    once = getattr(VariantUtils, READING)
    pass_distant_times()
    assert getattr(VariantUtils, READING) is once


def test_a_spark_that_decodes_times_in_another_way_is_left_alone(monkeypatch):
    """Nothing is put where nothing was."""
    monkeypatch.delattr(VariantUtils, READING)
    pass_distant_times()
    assert not hasattr(VariantUtils, READING)
