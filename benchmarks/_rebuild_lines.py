"""The lines that index a CommitLog anew, without Spark: against the broker's own classes."""

from __future__ import annotations

import multiprocessing
import shutil
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

from benchmarks._broker import start_broker
from benchmarks._rounds import Goal, compared, interleaved, timed
from rmqindex import Layout, rebuild_consume_queues, rebuild_index

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks._context import Context
    from benchmarks._rounds import Comparison

__all__ = ["rebuild", "recovery"]

_NANOS = 1e9


def rebuild(context: Context) -> Iterator[Comparison]:
    """Index a log, on one core."""
    broker = start_broker(context.work.parent)
    target, theirs_root = context.work / "rebuilt", context.work / "theirs"
    for size in context.sizes.message_sizes:
        store = context.store(size)
        (log,) = (store / "commitlog").iterdir()

        def ours(store: Path = store) -> float:
            shutil.rmtree(target, ignore_errors=True)
            return timed(lambda: rebuild_index(store, target, Layout()))()

        def theirs(log: Path = log) -> float:
            shutil.rmtree(theirs_root, ignore_errors=True)
            return float(broker.rebuild(str(theirs_root), str(log))) / _NANOS

        against = "checkMessageAndReturnSize and IndexService.buildIndex"
        yield compared(
            interleaved({"rmqindex": ours, against: theirs}, context.sizes.slow_rounds),
            "rmqindex",
            against,
            work=f"index a log of {context.sizes.messages:,} messages of {size:,} bytes, one core",
            goal=Goal(2),
            rows=context.sizes.messages,
            note="ours until the files are on the disk, theirs until their bytes are in the page "
            "cache",
        )
    shutil.rmtree(target)
    shutil.rmtree(theirs_root, ignore_errors=True)


def recovery(context: Context) -> Iterator[Comparison]:
    """Make a store's index and queues anew, and let the broker do the same when it starts."""
    broker = start_broker(context.work.parent)
    store = context.store()
    (log,) = (store / "commitlog").iterdir()

    def stripped() -> Path:
        root = context.work / "stripped"
        shutil.rmtree(root, ignore_errors=True)
        (root / "commitlog").mkdir(parents=True)
        (root / "commitlog" / log.name).hardlink_to(log)
        return root

    # A fork would take the JVM's threads for its own.
    processes = ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))

    def ours() -> float:
        root = stripped()

        def make() -> None:
            made = [
                processes.submit(rebuild_index, root, root / "index", Layout()),
                processes.submit(rebuild_consume_queues, root, root),
            ]
            for each in made:
                each.result()

        return timed(make)()

    def theirs() -> float:
        return float(broker.recover(str(stripped()), log.stat().st_size)) / _NANOS

    against = "a message store of RocketMQ's that starts on the same log"
    yield compared(
        interleaved({"rmqindex": ours, against: theirs}, context.sizes.slow_rounds),
        "rmqindex",
        against,
        work=f"rebuild index and queues of {context.sizes.messages:,} messages",
        goal=Goal(3),
        rows=context.sizes.messages,
        note="ours with a process each for index and queues, which run already; theirs until it "
        "has dispatched every message, and would serve",
    )
    processes.shutdown()
    shutil.rmtree(context.work / "stripped")
