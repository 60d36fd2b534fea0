"""Use an installed rmqindex as a stranger's script would, from outside the source tree.

Nothing is registered: Spark must find the data source by itself.
In an activated environment nothing of ours is imported before Spark starts.
In one that is not (``try_installed.py import``), importing ours first is what makes Spark's workers
run the Python that runs this.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

ENTRIES = 959


def main() -> None:
    """Read the sample store with Spark and look one key up."""
    site = Path(sys.prefix).resolve()
    if sys.argv[1:] == ["import"]:
        import pyspark_rmqindex  # noqa: PLC0415
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    import pyspark_rmqindex  # noqa: PLC0415
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
