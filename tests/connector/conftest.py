"""Confs that every test of the connector starts with, and what answers are compared with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

import rmqindex
from engines import Twin
from recorded import ROCKETMQ_CLASSES
from twin import BrokerFile

PUSHDOWN_CONF = "spark.sql.python.filterPushdown.enabled"
TIME_ZONE_CONF = "spark.sql.session.timeZone"


class Entry(NamedTuple):
    """One row of a plain load, its time in epoch milliseconds."""

    key_hash: int
    phy_offset: int
    store_timestamp: int
    time_diff: int
    slot: int
    position: int
    prev_position: int
    file_path: str


def read_entries(path: Path, hash_slot_num: int) -> list[Entry]:
    """Decode a file as the broker's twin does, what fast code is compared with."""
    data = path.read_bytes()
    places = (len(data) - 40 - 4 * hash_slot_num) // 20
    twin = BrokerFile.load(data, hash_slot_num, places)
    return [Entry(**row, file_path=str(path)) for row in twin.entries()]


@pytest.fixture(autouse=True)
def _same_confs_for_every_test(request):
    """Undo what a test set, and start with pushdown off, which is Spark's default."""
    if "spark" not in request.fixturenames:
        yield
        return
    session = request.getfixturevalue("spark")
    session.conf.set(TIME_ZONE_CONF, "UTC")
    session.conf.unset(PUSHDOWN_CONF)
    yield
    session.catalog.clearCache()
    session.conf.unset(PUSHDOWN_CONF)


@pytest.fixture(scope="module")
def twin(case):
    """Return whose each entry of a recorded store is."""
    return Twin(case)


@pytest.fixture(scope="session")
def store() -> Path:
    """Return the sample store: 97 slots, 200 entry places, five files."""
    return Path(rmqindex.sample_store())


@pytest.fixture(scope="session")
def store_entries(store) -> list[Entry]:
    """Return every entry of the sample store."""
    files = sorted(path for path in (store / "index").iterdir() if path.name.isdigit())
    return [entry for path in files for entry in read_entries(path, 97)]


@pytest.fixture(scope="session")
def store_pairs() -> list[tuple[str, str]]:
    """Return every distinct topic and key of the sample store's messages."""
    messages = json.loads((ROCKETMQ_CLASSES / "store_messages.json").read_text())["messages"]
    pairs = set()
    for message in messages:
        decoded = message["decoded"]
        if not message["indexed"] or decoded is None:
            continue
        keys = (decoded.get("keys") or "").split(" ")
        pairs |= {(decoded["topic"], key) for key in [*keys, decoded.get("uniq_key")] if key}
    return sorted(pairs)
