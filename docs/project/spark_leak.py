"""Pushed filters leak between the scans of one load(): run it with any PySpark from 4.1 on."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, InputPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType


class Ten(DataSource):
    """The numbers from 0 to 9, one partition each."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "ten"

    def schema(self) -> str:
        """Return the columns."""
        return "n INT"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """Return the reader."""
        return TenReader()


class TenReader(DataSourceReader):
    """Reads one number alone if ``n = ..`` is pushed down."""

    numbers: Sequence[int] = range(10)

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802
        """Narrow the read, and leave every filter with Spark as well."""
        for each in filters:
            if isinstance(each, EqualTo):
                self.numbers = [each.value]
        return filters

    def partitions(self) -> list[InputPartition]:
        """Return a partition for each number."""
        return [InputPartition(number) for number in self.numbers]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        """Return one row."""
        yield (partition.value,)


def main() -> int:
    """Print what each query should and does return.

    Returns:
        1 if any is wrong.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.dataSource.register(Ten)
    found = []

    df = spark.read.format("ten").load()
    df.where("n = 3").count()
    found.append(("a count after a filtered one", 10, df.count()))

    df = spark.read.format("ten").load()
    df.where("n = 4").count()
    either = df.where("n = 3 OR n = 5")
    found.append(("OR, which is not pushed, after a filtered count", 2, either.count()))

    spark.read.format("ten").load().createOrReplaceTempView("ten")
    both = "SELECT n FROM ten WHERE n = 3 UNION ALL SELECT n FROM ten WHERE n = 5"
    found.append(("UNION ALL of two filtered scans", 2, spark.sql(both).count()))

    print(f"Spark {spark.version}")
    for query, expected, got in found:
        verdict = "ok" if got == expected else "WRONG"
        print(f"{verdict:5}  {query}: expected {expected} rows, got {got}")
    spark.stop()
    return 0 if all(got == expected for _, expected, got in found) else 1


if __name__ == "__main__":
    sys.exit(main())
