"""A Spark application that writes one kind of thing as often as it is told to.

    python tests/system/faults/spark_app.py KIND FOLDER

Numbers come in by standard input; what became of each goes out as a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import rmqindex
from pyspark_rmqindex import write_index

ROWS = 150
GEOMETRY = {"maxHashSlotNum": 97, "maxIndexNum": 200, "timeZone": "UTC"}
_COLUMNS = (
    "CAST(id * 7919 % 613 AS INT) AS key_hash",
    "id * 100 AS phy_offset",
    "1700000000000 + id * 700 AS store_timestamp",
)


def session(master="local[2,4]"):
    """Return a quiet session, of two cores, in which a task may fail three times."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["RMQINDEX_LOG_LEVEL"] = "WARNING"
    built = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    built.sparkContext.setLogLevel("OFF")
    return built


def rows(spark, start, stop):
    """Return rows by their numbers, in three tasks."""
    return spark.range(start, stop, 1, 3).selectExpr(*_COLUMNS)


def append(spark, folder, number):
    """Append the rows of a number."""
    frame = rows(spark, ROWS * number, ROWS * (number + 1))
    options = {**GEOMETRY, "onIndexed": "skip"}
    frame.write.format("rmqindex").options(**options).mode("append").save(str(folder / "index"))


def overwrite(spark, folder, number):
    """Replace everything by the rows of a number, three times as many."""
    frame = rows(spark, ROWS * number, ROWS * (number + 3))
    frame.write.format("rmqindex").options(**GEOMETRY).mode("overwrite").save(str(folder / "index"))


def index_append(spark, folder, number):
    """Do what ``append`` does with ``write_index``."""
    frame = rows(spark, ROWS * number, ROWS * (number + 1))
    write_index(frame, folder / "index", onIndexed="skip", **GEOMETRY)


def index_overwrite(spark, folder, number):
    """Do what ``overwrite`` does with ``write_index``."""
    frame = rows(spark, ROWS * number, ROWS * (number + 3))
    write_index(frame, folder / "index", mode="overwrite", **GEOMETRY)


def stream(spark, folder, number):  # noqa: ARG001  (the checkpoint knows where to go on)
    """Index the sample store's messages, ten a batch, from where the checkpoint is."""
    messages = spark.readStream.format("rmqcommitlog").option("maxMessagesPerTrigger", 10)
    query = (
        messages.load(str(rmqindex.sample_store()))
        .writeStream.format("rmqindex")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .options(**GEOMETRY)
        .trigger(availableNow=True)
        .start(str(folder / "index"))
    )
    query.awaitTermination()


WRITES = {
    "df.write, append": append,
    "df.write, overwrite": overwrite,
    "write_index, append": index_append,
    "write_index, overwrite": index_overwrite,
    "writeStream": stream,
}


def main(kind, folder):
    """Write once for each number that comes in, and say what became of it."""
    spark = session()
    # Kills are to meet the writes, not the search for data sources, which Spark does once.
    spark.read.format("rmqindex").load(str(rmqindex.sample_store())).count()
    _say(ready=True)
    for line in sys.stdin:
        try:
            WRITES[kind](spark, Path(folder), int(line))
        except Exception as error:  # noqa: BLE001  (it is told)
            _say(error=str(error)[-2000:])
        else:
            _say(error=None)


def _say(**what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
