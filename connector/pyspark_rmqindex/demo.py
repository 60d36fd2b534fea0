"""``python -m pyspark_rmqindex.demo``: Spark on the sample store, step by step.

It scans, looks a key up in SQL, writes an index and reads it back, and prints each step with its
result.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from rich.console import Console
from rich.text import Text

import pyspark_rmqindex
import rmqindex
from pyspark_rmqindex.spark_version import check_pushdown_support, check_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# What the steps look up and write.
TOPIC, KEY = "TopicTest", "order-49"
NEW_MESSAGES = 1_000
LOG_LINES_SHOWN = 40
_LOG_BYTES_SHOWN = 1 << 20

_console = Console(highlight=False)


def main() -> None:
    """Run every step; on failure, show Spark's log."""
    try:
        check_spark()
        check_pushdown_support("the demo")
    except (ImportError, ValueError) as error:
        sys.exit(str(error))
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="rmqindex-demo-") as directory,
        tempfile.TemporaryFile() as log,
    ):
        try:
            spark = _start_spark(Path(directory), log)
            try:
                run_steps(spark, Path(directory))
            finally:
                spark.stop()
        except BaseException:
            _show_log(log)
            raise
    _say(f"\nAll steps done in {time.monotonic() - started:.0f} s.", style="bold")


def run_steps(spark: SparkSession, directory: Path) -> None:
    """Scan the sample store, look a key up, then write an index to ``directory`` and read it.

    Raises:
        RuntimeError: The rows read back are not those that were written.
    """
    store = rmqindex.sample_store()
    _say(f"The store is one that RocketMQ 5.3.3 wrote: {store}")
    _scan(spark, store)
    _look_up(spark, store)
    _write_and_read_back(spark, directory / "index")


def _scan(spark: SparkSession, store: Path) -> None:
    _step(
        "1. Scan every entry and sum up each file",
        "entries = spark.read.format('rmqindex').load(store)",
    )
    entries = spark.read.format("rmqindex").load(str(store))
    entries.createOrReplaceTempView("entries")
    spark.sql("""
        SELECT element_at(split(file_path, '/'), -1) AS file,
               count(*) AS entries,
               count(DISTINCT slot) AS slots_in_use,
               min(store_timestamp) AS first_stored,
               max(store_timestamp) AS last_stored
        FROM entries GROUP BY file_path ORDER BY file_path
    """).show(truncate=False)


def _look_up(spark: SparkSession, store: Path) -> None:
    query = (
        "SELECT topic, key, phy_offset, store_timestamp\n"
        f"FROM messages WHERE topic = '{TOPIC}' AND key = '{KEY}'\n"
        "ORDER BY phy_offset DESC LIMIT 5"
    )
    _step(
        "2. Find a key's messages by its hash slot, in SQL",
        f"table(spark, store).createOrReplaceTempView('messages')\n{query}",
    )
    messages = pyspark_rmqindex.table(spark, store)
    messages.createOrReplaceTempView("messages")
    spark.sql(query).show(truncate=False)
    _say(f"What Spark was told to read: {pyspark_rmqindex.last_plan(messages)}")
    _say("phy_offset is where the message starts in the CommitLog, in bytes.")


def _write_and_read_back(spark: SparkSession, index: Path) -> None:
    _step(
        f"3. Write IndexFiles for {NEW_MESSAGES:,} new messages, as one broker would",
        "write_index(messages, index, maxHashSlotNum=499, maxIndexNum=600)",
    )
    # 2023-11-14 22:13:20 UTC, and a message of 256 bytes every 20 ms.
    messages = spark.sql(f"""
        SELECT 'Orders' AS topic,
               concat('id-', id) AS uniq_key,
               concat('order-', id % 100, ' customer-', id % 7) AS keys,
               0 AS sys_flag,
               id * 256 AS phy_offset,
               1700000000000 + id * 20 AS store_timestamp
        FROM range({NEW_MESSAGES})
    """)  # noqa: S608  (a number of this module)
    pyspark_rmqindex.write_index(
        messages, index, maxHashSlotNum=499, maxIndexNum=600, timeZone="UTC"
    )
    for path in sorted(index.iterdir()):
        with rmqindex.IndexFile(path) as file:
            _say(f"{path.name}  {path.stat().st_size} bytes, {file.entry_count} entries")
    _step(
        "4. Read them back",
        "table(spark, index).where(\"topic = 'Orders' AND key = 'customer-3'\").count()",
    )
    written = spark.read.format("rmqindex").load(str(index)).count()
    customer = pyspark_rmqindex.table(spark, index).where("topic = 'Orders' AND key = 'customer-3'")
    found = customer.count()
    expected = len(range(3, NEW_MESSAGES, 7))
    _say(f"{written} entries in all (each message has three keys), {found} of customer-3")
    if (written, found) != (3 * NEW_MESSAGES, expected):
        raise RuntimeError(f"expected {3 * NEW_MESSAGES} and {expected}, got {written} and {found}")


def _start_spark(directory: Path, log: IO[bytes]) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415  (it takes a while to import)

    _say("rmqindex: Apache RocketMQ's message index in Spark", style="bold")
    _say("Starting Spark ..")
    # The demo must not fail because the host name does not resolve.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with _standard_error_to(log):
        spark = (
            SparkSession.builder.master("local[2]")
            .appName("rmqindex demo")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
            .config("spark.local.dir", str(directory))
            .config("spark.ui.enabled", "false")
            .getOrCreate()
        )
    _say(f"Spark {spark.version} runs.\n")
    return spark


@contextmanager
def _standard_error_to(log: IO[bytes]) -> Iterator[None]:
    """Redirect the standard error of processes started meanwhile to ``log``."""
    kept = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _show_log(log: IO[bytes]) -> None:
    log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_BYTES_SHOWN))
    lines = log.read().decode(errors="replace").splitlines()
    for line in lines[-LOG_LINES_SHOWN:]:
        sys.stderr.write(f"{line}\n")


def _step(title: str, code: str) -> None:
    _say(f"\n{title}", style="bold")
    _say("".join(f"     {line}\n" for line in code.splitlines()))


def _say(text: str, style: str = "") -> None:
    _console.print(Text(text, style=style), soft_wrap=True)


if __name__ == "__main__":
    main()
