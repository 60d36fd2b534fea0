"""The line of a stream: what a small micro-batch costs."""

from __future__ import annotations

import shutil
import statistics
import time
from typing import TYPE_CHECKING

from benchmarks._rounds import Goal, compared, interleaved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks._context import Context
    from benchmarks._rounds import Comparison

__all__ = ["micro_batch"]

_ROWS = 1_000
_BATCHES = 30
_SETTLING = 5
_PATIENCE = 300


def micro_batch(context: Context) -> Iterator[Comparison]:
    """Write micro-batches of a thousand rows."""
    numbered = (
        context.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", _ROWS).load()
    )
    rows = numbered.selectExpr(
        "'orders' AS topic",
        "CAST(value AS STRING) AS key",
        "value * 1000 AS phy_offset",
        "timestamp AS store_timestamp",
    )
    target, checkpoint = context.work / "streamed", context.work / "stream-checkpoint"

    def seconds(source: str) -> Callable[[], float]:
        def run() -> float:
            for folder in (target, checkpoint):
                shutil.rmtree(folder, ignore_errors=True)
            writer = rows.writeStream.format(source).option("checkpointLocation", str(checkpoint))
            query = writer.start(str(target))
            try:
                until = time.monotonic() + _PATIENCE
                while (query.lastProgress or {"batchId": 0})["batchId"] < _BATCHES:
                    if query.exception() or time.monotonic() > until:
                        raise RuntimeError(f"{source}: {query.exception()}")
                    time.sleep(0.1)
                batches = query.recentProgress[_SETTLING:]
            finally:
                query.stop()
            return statistics.median(each["durationMs"]["addBatch"] for each in batches) / 1e3

        return run

    measured = interleaved(
        {"rmqindex": seconds("rmqindex"), "an empty Python sink": seconds("floor")},
        context.sizes.slow_rounds,
    )
    for folder in (target, checkpoint):
        shutil.rmtree(folder, ignore_errors=True)
    yield compared(
        measured,
        "rmqindex",
        "an empty Python sink",
        work=f"a micro-batch of {_ROWS:,} rows",
        goal=Goal(2, at_least=False),
        note="addBatch of Spark's progress, the median of the batches behind the first five",
    )
