"""Use an installed rmqindex as a stranger's script would, from outside the source tree.

Nothing is registered and nothing of ours is imported before Spark starts: Spark must find the
data source by itself, and its workers must run the Python that runs this.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

ENTRIES = 959


def main() -> None:
    """Read the sample store with Spark and look one key up."""
    site = Path(sys.prefix).resolve()
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    import pyspark_rmqindex  # noqa: PLC0415  (after Spark has started, as the point is)
    import rmqindex  # noqa: PLC0415

    for module in (rmqindex, pyspark_rmqindex):
        assert site in Path(str(module.__file__)).resolve().parents, module.__file__
    path = str(rmqindex.sample_store())
    entries = spark.read.format("rmqindex").load(path).count()
    assert entries == ENTRIES, entries
    found = (
        spark.read.format("rmqindex").option("topic", "TopicTest").option("key", "BB").load(path)
    )
    hits = found.count()
    assert hits > 0
    spark.stop()
    print(f"installed at {site.name}: {entries} entries, {hits} of TopicTest#BB")


if __name__ == "__main__":
    main()
