"""Spark's own fault, pinned: pushed filters leak between the scans of one relation.

Where Spark plans each scan by itself, ``table()`` takes no care: there, the test must pass.
"""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, InputPartition

from pyspark_rmqindex.spark_version import plans_each_scan


def narrowing_source():
    """Return a source that narrows by what is pushed, as Spark's documentation shows it.

    The classes are local, so that they are pickled whole and need no module in the workers.
    """

    class Reader(DataSourceReader):
        values = range(10)

        def pushFilters(self, filters):  # noqa: N802
            for each in filters:
                if isinstance(each, EqualTo):
                    self.values = [each.value]
            return filters

        def partitions(self):
            return [InputPartition(value) for value in self.values]

        def read(self, partition):
            yield (partition.value,)

    class Narrowing(DataSource):
        @classmethod
        def name(cls):
            return "rmqindex_narrowing"

        def schema(self):
            return "a INT"

        def reader(self, schema):  # noqa: ARG002
            return Reader()

    return Narrowing


@pytest.mark.xfail(
    not plans_each_scan(),
    reason="Spark 4.1 to 4.3 keep one plan for all scans of a relation",
    strict=True,
)
def test_a_narrowed_scan_does_not_change_the_next_one(spark):
    """The count after a filtered one is the whole count."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(narrowing_source())
    df = spark.read.format("rmqindex_narrowing").load()
    assert df.where("a = 3").count() == 1
    assert df.count() == 10


@pytest.mark.skipif(plans_each_scan(), reason="this Spark plans each scan by itself")
def test_the_narrowing_source_does_narrow(spark):
    """So that the test above fails for the reason it names."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(narrowing_source())
    df = spark.read.format("rmqindex_narrowing").load()
    assert df.count() == 10
    assert df.where("a = 3").count() == 1
    assert df.count() == 1
