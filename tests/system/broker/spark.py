"""Spark on a store that a broker writes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

_SOUND = {"verified"}


def make_session(work: Path) -> SparkSession:
    """Start Spark on two cores, quietly."""
    # Before the JVM starts: its workers inherit this environment.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["RMQINDEX_LOG_LEVEL"] = "WARNING"
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("rmqindex-broker")
    for name, value in (
        ("spark.ui.enabled", "false"),
        ("spark.ui.showConsoleProgress", "false"),
        ("spark.sql.shuffle.partitions", "2"),
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.sql.warehouse.dir", str(work / "warehouse")),
        ("spark.driver.bindAddress", "127.0.0.1"),
        ("spark.driver.host", "127.0.0.1"),
    ):
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


class LiveReader:
    """Two streams that follow a store, and queries beside them."""

    def __init__(self, spark: SparkSession, store: Path, layout: dict[str, int]) -> None:
        """Begin to follow the CommitLog and the index.

        Args:
            spark: The session.
            store: The store, which has an index already.
            layout: ``maxHashSlotNum`` and ``maxIndexNum``.
        """
        self._spark = spark
        self._store = str(store)
        self._layout = layout
        messages = spark.readStream.format("rmqcommitlog").load(self._store)
        entries = spark.readStream.format("rmqindex").options(**layout).load(self._store)
        self._queries = [
            frame.select(*columns).writeStream.format("memory").queryName(name).start()
            for name, frame, columns in (
                ("messages", messages, ("phy_offset",)),
                ("entries", entries, ("phy_offset", "key_hash", "position")),
            )
        ]

    def look_up(self, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], set[int]]:
        """Look keys up by ``table()``, each message compared with its entry.

        Args:
            pairs: Topics and keys.

        Returns:
            Offsets by topic and key.
        """
        import pyspark_rmqindex

        wanted: dict[str, list[str]] = {}
        found: dict[tuple[str, str], set[int]] = {}
        for topic, key in pairs:
            wanted.setdefault(topic, []).append(key)
            found[topic, key] = set()
        for topic, keys in wanted.items():
            table = pyspark_rmqindex.table(self._spark, self._store, **self._layout)
            rows = table.where((table.topic == topic) & table.key.isin(keys))
            for row in rows.select("key", "phy_offset").collect():
                found[topic, row.key].add(row.phy_offset)
        return found

    def states(self) -> dict[str, int]:
        """Read the whole index, each entry compared with its message; return how many are what."""
        load = self._spark.read.format("rmqindex").options(commitLog="auto", **self._layout)
        counted = load.load(self._store).groupBy("match_state").count().collect()
        return {row.match_state: row["count"] for row in counted}

    def finish(self) -> tuple[list[int], list[tuple[int, int]]]:
        """Wait until the streams have read what is there, and end them.

        Returns:
            The offsets of all messages, and the offset and hash of all entries, each as often as
            the streams gave it.
        """
        for query in self._queries:
            query.processAllAvailable()
            query.stop()
        messages = [row.phy_offset for row in self._spark.table("messages").collect()]
        entries = self._spark.table("entries").collect()
        return sorted(messages), sorted((row.phy_offset, row.key_hash) for row in entries)


def look_up_all(
    spark: SparkSession, store: Path, pairs: Iterable[tuple[str, str]], **layout: int
) -> dict[tuple[str, str], list[int]]:
    """Look up any number of keys by ``lookup()``, each message compared with its entry."""
    import pyspark_rmqindex

    asked = sorted(set(pairs))
    keys = spark.createDataFrame(asked, "topic STRING, key STRING")
    found: dict[tuple[str, str], list[int]] = {pair: [] for pair in asked}
    rows = pyspark_rmqindex.lookup(keys, str(store), commitLog="auto", **layout)
    for row in rows.select("topic", "key", "phy_offset", "match_state").collect():
        assert row.match_state in _SOUND, row
        found[row.topic, row.key].append(row.phy_offset)
    return {pair: sorted(offsets) for pair, offsets in found.items()}


def rebuild(spark: SparkSession, store: Path, target: Path, **options: Any) -> None:
    """Build the index of a store's messages by ``write_index()``."""
    import pyspark_rmqindex

    log = spark.read.format("rmqcommitlog").load(str(store))
    pyspark_rmqindex.write_index(log, target, **options)
