"""Follow a store that a process writes like a broker, and kill the stream again and again.

At random moments the query is stopped, or its whole driver process and all its children are killed
with ``kill -9``; then it goes on from its checkpoint.
At the end every entry, or message, must be in the sink exactly once.

    python tests/system/soak_stream.py --minutes 5
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
COLUMNS = {
    "rmqindex": ["file_path", "position", "key_hash", "phy_offset", "store_timestamp", "slot"],
    "rmqcommitlog": ["phy_offset", "topic", "uniq_key", "keys", "store_timestamp", "body"],
}
FORMATS = {"rmqindex": "maxEntriesPerTrigger", "rmqcommitlog": "maxMessagesPerTrigger"}


def session():
    """Return a quiet session of two cores."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["RMQINDEX_LOG_LEVEL"] = "WARNING"
    built = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    built.sparkContext.setLogLevel("OFF")
    return built


def start(spark, root, name, **trigger):
    """Start one stream of a store into Parquet files."""
    limit = FORMATS[name]
    return (
        spark.readStream.format(name)
        .option(limit, 20_000)
        .load(str(root))
        .writeStream.format("parquet")
        .option("path", f"{root}/out-{name}")
        .option("checkpointLocation", f"{root}/checkpoint-{name}")
        .trigger(**trigger)
        .start()
    )


def drive(root, seconds):
    """Run both streams, stopping and starting them, until the time is over or a kill comes."""
    spark = session()
    chance = random.Random()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        queries = [start(spark, root, name, processingTime="0 seconds") for name in FORMATS]
        time.sleep(chance.uniform(0.5, 6))
        for query in queries:
            query.stop()
            if query.exception() is not None:
                raise query.exception()


def finish(root):
    """Read what is left, and compare the sinks with the store."""
    spark = session()
    bad = 0
    for name in FORMATS:
        query = start(spark, root, name, availableNow=True)
        query.awaitTermination()
        sink = spark.read.parquet(f"{root}/out-{name}")
        there = spark.read.format(name).load(str(root))
        columns = COLUMNS[name]
        sink, there = sink.select(columns), there.select(columns)
        missing, more = there.exceptAll(sink).count(), sink.exceptAll(there).count()
        rows, written = sink.count(), there.count()
        found = f"{rows} in the sink, {missing} missing, {more} more"
        sys.stdout.write(f"{name}: {written} written, {found}\n")
        bad += missing + more
    return bad


def main(argv=None):
    """Write, follow, kill, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--rate", type=float, default=2_000.0, help="messages per second")
    parser.add_argument("--drive", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    seconds = arguments.minutes * 60
    if arguments.drive is not None:
        drive(arguments.drive, seconds)
        return 0
    chance = random.Random()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "store"
        command = [
            sys.executable,
            TESTS / "support" / "live_broker.py",
            root,
            "--index-num",
            "20000",
        ]
        command += ["--seconds", str(seconds), "--rate", str(arguments.rate)]
        broker = subprocess.Popen(command)
        time.sleep(1)
        kills = 0
        while broker.poll() is None:
            driver = subprocess.Popen(
                [sys.executable, __file__, "--drive", root, "--minutes", str(arguments.minutes)],
                start_new_session=True,
            )
            until = time.monotonic() + chance.uniform(8, 30)
            while time.monotonic() < until and broker.poll() is None and driver.poll() is None:
                time.sleep(0.1)
            if driver.poll() is not None:
                broker.kill()
                sys.stdout.write(f"the driver ended with {driver.returncode}\n")
                return 1
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
            kills += 1
        bad = finish(root)
        sys.stdout.write(f"{kills} kills of the driver\n")
        return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
