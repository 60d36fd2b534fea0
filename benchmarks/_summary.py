"""What a newcomer wants to know of the figures: one sentence, and one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks._chart import draw_bars

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks._rounds import Comparison

__all__ = ["write_summary"]

#: What is shown, in plain words: how a line's work begins, against what, and both as they are
#: called.
_SHOWN = (
    ("one key through table(), 19,999,999", "Parquet with a bloom filter", "find one key"),
    ("look up 1,000,000 keys", "IndexFile.selectPhyOffset", "look up a million keys"),
    ("join 10,000,000 keys", "Parquet", "join ten million keys"),
    ("rebuild index and queues", "a message store of RocketMQ's", "rebuild index and queues"),
    ("export 1,048,576 messages", "Spark's own write", "export messages to Parquet"),
    ("write_index of 19,999,999", "Parquet, sorted by offset", "write an index of 20 million rows"),
    ("scan 19,999,999 entries through Spark, four", "Parquet", "read every row through Spark"),
)
_CALLED = {
    "IndexFile.selectPhyOffset": "RocketMQ's own classes",
    "a message store of RocketMQ's": "the broker's own start",
}


def write_summary(directory: Path, results: Sequence[Comparison]) -> None:
    """Write ``summary.svg`` and ``summary.inc``; nothing where a line of them was not measured."""
    bars = []
    for work, against, name in _SHOWN:
        for each in results:
            if each.work.startswith(work) and each.against.startswith(against):
                bars.append((f"{name}\nagainst {_CALLED.get(against, against)}", each.figure))
                break
        else:
            return
    draw_bars(directory / "summary.svg", bars)
    find, look_up, *_, rebuild, _, _, scan = (figure for _, figure in bars)
    (directory / "summary.inc").write_text(
        f"rmqindex finds a key {find:.0f} times as fast as Spark does in Parquet with a bloom "
        f"filter, a million keys {look_up:.0f} times as fast as RocketMQ's own classes, and makes "
        f"index and queues anew {rebuild:.1f} times as fast as a broker that starts; reading "
        f"every row through Spark takes {1 / scan:.1f} times as long as Parquet.\n"
    )
