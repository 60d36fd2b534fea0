"""Writing to a broker, and waiting until it has done what is left to it."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from rmqindex import CommitLog, ConsumeQueue, Layout
from rmqindex.layout import QUEUE_FOLDER, SCHEDULE_TOPIC

from . import scenario, truth

if TYPE_CHECKING:
    from pathlib import Path

    from .processes import Cluster

LAYOUT = Layout(97, 200)
QUEUE_FILE_SIZE = 100 * 20
BATCH_QUEUE_FILE_SIZE = 20 * 46
#: So small that everything rolls over; no timer wheel, whose files are large.
STORE_SETTINGS: dict[str, object] = {
    "mappedFileSizeCommitLog": 1 << 15,
    "mappedFileSizeConsumeQueue": QUEUE_FILE_SIZE,
    "mapperFileSizeBatchConsumeQueue": BATCH_QUEUE_FILE_SIZE,
    "timerWheelEnable": "false",
    "transactionCheckInterval": 3_600_000,
    "transactionOpBatchInterval": 100,
    "flushDelayOffsetInterval": 500,
}
#: So many sendings at once.
CHUNK = 50
_SETTLE_SECONDS = 300
_POLL_SECONDS = 0.05
# Nothing comes of itself after a longer silence.
_QUIET_SECONDS = 0.7


def settings_of(layout: Layout) -> dict[str, object]:
    """Return a broker's settings for a geometry."""
    return {
        **STORE_SETTINGS,
        "maxHashSlotNum": layout.hash_slot_num,
        "maxIndexNum": layout.index_num,
    }


class Sent:
    """What was sent, and what the producers were told; it grows while others look."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []

    @property
    def specs(self) -> list[dict[str, Any]]:
        """What was sent."""
        return [spec for spec, _ in self.pairs]

    def send(self, cluster: Cluster, specs: list[dict[str, Any]], pause: float = 0) -> None:
        """Send messages, a chunk at a time, so that others see how far it has come.

        Args:
            cluster: The broker.
            specs: What to send, as ``Client.java`` takes it.
            pause: Seconds between chunks.
        """
        for start in range(0, len(specs), CHUNK):
            chunk = specs[start : start + CHUNK]
            results = cluster.client.ask("send", messages=chunk)
            self.pairs += zip(chunk, results, strict=True)
            time.sleep(pause)

    def findable(self) -> dict[tuple[str, str], set[int | str]]:
        """Return :func:`.scenario.findable` of it all."""
        return scenario.findable(self.pairs[:])


def make_topics(cluster: Cluster) -> None:
    """Make the topics of the scenario."""
    for topic in scenario.topics(cluster.version):
        cluster.client.ask("topic", **topic)


def consume(cluster: Cluster) -> None:
    """Begin to consume the messages that are retried."""
    cluster.client.ask(
        "consume",
        group=scenario.GROUP,
        topic=scenario.RETRIES,
        most=scenario.MOST_RECONSUME_TIMES,
    )


def settle(
    cluster: Cluster, specs: list[dict[str, Any]], *, tags: bool, repeated: bool = False
) -> None:
    """Wait until late messages have come, and all of them are in the index.

    Args:
        cluster: The broker.
        specs: All that was sent.
        tags: Whether it indexes tags.
        repeated: Whether it has died, and indexed its last message again.
    """
    late = (scenario.DELAYED, scenario.TRANSACTIONS)
    wanted = [scenario.arrived_count(specs, topic) for topic in late]
    wanted.append(scenario.consumed_count(specs))
    deadline = time.monotonic() + _SETTLE_SECONDS
    before = 0
    while time.monotonic() < deadline:
        time.sleep(_QUIET_SECONDS)
        with CommitLog(cluster.store) as log:
            topics = [row["topic"] for row in truth.rows_of(log, ["topic"])]
        there = [topics.count(topic) for topic in late]
        there.append(len(cluster.client.ask("consumed")))
        entries = truth.entry_count(cluster.store, tags=tags)
        indexed = truth.indexed_count(cluster.store)
        is_whole = indexed == entries or (repeated and indexed > entries)
        if there == wanted and is_whole and len(topics) == before:
            return
        before = len(topics)
    raise RuntimeError(
        f"the broker did not settle: late messages {there} of {wanted}, "
        f"{indexed} entries of {entries}"
    )


def await_index(store: Path, offset: int) -> None:
    """Wait until a broker has indexed the message at an offset, which it does soon after."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while truth.indexed_until(store) < offset:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{store}: no message at {offset} or later was indexed")
        time.sleep(_POLL_SECONDS)


def await_delivered(store: Path) -> None:
    """Wait until a broker has put down how many delayed messages it has delivered.

    It does so now and then, and what is not put down when it dies it delivers once more.
    """
    queues = ConsumeQueue.find(store / QUEUE_FOLDER / SCHEDULE_TOPIC)
    # ScheduleMessageService.queueId2DelayLevel
    wanted = {queue.queue_id + 1: queue.max_offset for queue in queues}
    deadline = time.monotonic() + _SETTLE_SECONDS
    while (there := _delivered(store)) != wanted:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{store}: delivered until {there}, expected {wanted}, by level")
        time.sleep(_POLL_SECONDS)


def _delivered(store: Path) -> dict[int, int]:
    path = store / "config" / "delayOffset.json"
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}  # before the first time, and while it is exchanged
    # No JSON: its keys are numbers.
    _, _, table = text.partition('"offsetTable"')
    return {int(level): int(offset) for level, offset in re.findall(r"(\d+):(\d+)", table)}
