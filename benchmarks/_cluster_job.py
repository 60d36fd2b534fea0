"""What the line of two workers submits to its cluster: a scan or a lookup, and how long it took.

Its arguments are ``scan`` or ``lookup``, an index, a Parquet file of keys, and how many rounds.
"""

from __future__ import annotations

import statistics
import sys

from pyspark.sql import SparkSession

from benchmarks._rounds import timed
from pyspark_rmqindex import lookup

__all__ = ["main"]


def main(work: str, index: str, keys: str, rounds: str) -> None:
    """Do the work once, then measure it, and print the median of its seconds."""
    spark = SparkSession.builder.getOrCreate()
    if work == "scan":
        # Four columns, as in the other scans.
        columns = ["key_hash", "phy_offset", "store_timestamp", "position"]
        df = spark.read.format("rmqindex").option("columns", ",".join(columns)).load(index)
    else:
        df = lookup(spark.read.parquet(keys), index)
    run = timed(lambda: df.write.format("noop").mode("overwrite").save())
    run()
    print(f"seconds={statistics.median(run() for _ in range(int(rounds)))}")


if __name__ == "__main__":
    main(*sys.argv[1:])
