"""The stores that are queried: the sample, and two small ones with what the sample lacks."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from tests.support.commitlog_encoder import Log, Message, properties_text

import rmqindex

from .decoder import Store, decode

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["KEYS", "TOPICS", "Made", "make_stores"]

#: What queries bind: keys of one hash, of other case, empty, absent, with quotes; and topics.
KEYS = (
    "Aa",
    "BB",
    "aa",
    "AA",
    "AaBB",
    "BBAa",
    "order-49",
    "ORDER:68",
    "k'1",
    "k%_2",
    "5",
    "订单",
    "absent",
    "",
)
TOPICS = ("TopicTest", "TopicOrder", "订单主题", "topictest", "absent")

_SLOTS = 97
_BEGIN = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Made:
    """A store, and its rows as they are decoded independently."""

    name: str
    path: Path
    rows: Store


def make_stores(directory: Path, seed: int) -> list[Made]:
    """Make the stores and decode them."""
    sample = directory / "sample"
    shutil.copytree(rmqindex.sample_store(), sample)
    paths = [sample, _small(directory / "small", seed), _expired(directory / "expired", seed)]
    return [Made(path.name, path, decode(path, _SLOTS)) for path in paths]


def _small(root: Path, seed: int) -> Path:
    """Make a store of a few dozen messages: NULL keys and tags, clocks that step back."""
    random = Random(f"{seed}/{root.name}")
    log = Log(1 << 14)
    queues: dict[tuple[str, int], int] = {}
    now = _BEGIN
    for number in range(60):
        topic, queue = random.choice(TOPICS[:3]), random.randrange(2)
        now += random.choice([0, 1, 999, 1000, 60_000, 3_600_000, -5000])
        # No two keys of one message have one hash, so that no entry's key is in doubt.
        keys = random.sample([key for key in KEYS if key and key != "BB"], random.randrange(4))
        keys = [key for key in keys if not (key == "BBAa" and "AaBB" in keys)]
        properties = [("UNIQ_KEY", f"u{number}")] * (random.random() < 0.8)
        properties += [("KEYS", " ".join(keys))] * bool(keys)
        properties += [("TAGS", random.choice(["TagA", "TagB", "tagA"]))] * (random.random() < 0.7)
        turn = queues.get((topic, queue), 0)
        queues[topic, queue] = turn + 1
        log.append(
            Message(
                topic=topic,
                body=b"x" * random.randrange(400),
                properties=properties_text(properties),
                queue_id=queue,
                queue_offset=turn,
                store_timestamp=now,
                born_timestamp=now - random.randrange(50),
                reconsume_times=random.randrange(3),
            )
        )
    log.write_to(root / "commitlog")
    layout = rmqindex.Layout(_SLOTS, 40)
    rmqindex.rebuild_index(root, root / "index", layout, index_tags=False)
    rmqindex.rebuild_consume_queues(root, root, file_size=20 * 30)
    return root


def _expired(root: Path, seed: int) -> Path:
    """Make a store whose first log file has expired: its entries have no messages."""
    _small(root, seed + 1)
    first = min((root / "commitlog").iterdir())
    first.unlink()
    return root
