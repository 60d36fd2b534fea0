"""Watching the memory of Spark's Python workers."""

from __future__ import annotations

import os
import re
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["anonymous_bytes_above_idle"]

_INTERVAL = 0.02
_KILOBYTE = 1024


def anonymous_bytes_above_idle(spark: SparkSession, work: Callable[[], object]) -> int:
    """Do some work, and return how much memory a worker needed beyond that of an idle one.

    Args:
        spark: The session, local to this machine.
        work: What is watched.
    """
    _fresh_workers(spark)
    idle = max(_anonymous_bytes(spark).values())
    most = idle
    stop = threading.Event()

    def watch() -> None:
        nonlocal most
        while not stop.wait(_INTERVAL):
            most = max(most, *_anonymous_bytes(spark).values(), 0)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        stop.set()
        watcher.join()
    return most - idle


def _fresh_workers(spark: SparkSession) -> None:
    """Have idle workers at hand that have imported what every worker imports, and nothing else.

    A worker that has worked keeps the memory it needed, so those of earlier work are ended.
    """
    workers = _anonymous_bytes(spark)
    for pid in workers:
        if _parent(pid) in workers:  # not Spark's daemon, of which they are forked
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    spark.range(1000, numPartitions=2).mapInArrow(nothing, "id BIGINT").collect()


def _anonymous_bytes(spark: SparkSession) -> dict[int, int]:
    """Return the anonymous memory of each Python worker of the session's JVM."""
    jvm = spark.sparkContext._gateway.proc.pid  # noqa: SLF001
    parents = {}
    for process in Path("/proc").glob("[0-9]*"):
        parent = _parent(int(process.name))
        if parent is not None:
            parents[int(process.name)] = parent
    found = {}
    for pid in parents:
        if jvm in _ancestors(pid, parents):
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            except OSError:
                continue
            match = re.search(r"^Anonymous:\s+(\d+) kB", text, re.MULTILINE)
            if match and b"python" in command:
                found[pid] = int(match[1]) * _KILOBYTE
    return found


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return None


def _ancestors(pid: int, parents: dict[int, int]) -> set[int]:
    found = set()
    while pid in parents:
        pid = parents[pid]
        found.add(pid)
    return found
