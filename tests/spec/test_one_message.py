"""The page that follows one message: its bytes are those that the steps and this package make."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

import logs_oracle
import oracle
import queue_oracle
import spectext
from rmqindex import CommitLog, IndexDirectory, Layout
from rmqindex.layout.queue import UNIT_DTYPE

if TYPE_CHECKING:
    from pathlib import Path

PAGE = spectext.SPEC / "one-message.md"
PLACE, SIZE, QUEUE_OFFSET, SLOTS, PLACES = 567, 170, 3, 4, 5


@pytest.fixture(scope="module")
def printed() -> dict[str, bytes]:
    """The bytes of each kind of block, one line after the other, and where they begin."""
    found: dict[str, bytes] = {}
    text = PAGE.read_text(encoding="utf-8")
    for name, block in re.findall(r"^```text\n# (\S+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            match = re.fullmatch(r"([0-9a-f]{4})  ((?:[0-9a-f]{2} )+) *[\w.\[\]]+ = (.+)", line)
            assert match, line
            place = int(match[1], 16)
            before = found.setdefault(name, bytes(0 if name == "index" else place))
            data = bytes.fromhex(match[2])
            assert place == len(before), line
            if not match[3].startswith('"'):
                assert int.from_bytes(data, "big", signed=True) == int(match[3]), line
            found[name] = before + data
    return found


@pytest.fixture(scope="module")
def log() -> bytes:
    """The file of the log."""
    return (spectext.VECTORS / "accept" / "dispatch.bin").read_bytes()


@pytest.fixture(scope="module")
def message(log: bytes) -> logs_oracle.Record:
    """The record, decoded."""
    return logs_oracle.sound(log, PLACE, PLACE)


def test_the_record_is_printed_whole_and_is_that_of_the_vector(
    printed: dict[str, bytes], log: bytes, message: logs_oracle.Record
) -> None:
    """And encoding what was decoded gives these bytes again."""
    assert printed["accept/dispatch"][PLACE:] == log[PLACE : PLACE + SIZE]
    told = {**message.values, "topic": "TopicTest", "body": message.body.hex()}
    told["properties"] = dict(logs_oracle.property_pairs(message.properties))
    times = (QUEUE_OFFSET, message.values["store_timestamp"])
    assert logs_oracle.encode_record(told, PLACE, *times) == log[PLACE : PLACE + SIZE]


def test_this_package_reads_the_record_as_it_is_told(log: bytes, tmp_path: Path) -> None:
    """Topic, keys, queue and queue offset are those of the page."""
    (tmp_path / f"{0:020}").write_bytes(log)
    with CommitLog(tmp_path) as found:
        rows = [row for batch in found.scan() for row in batch.to_pylist()]
    (row,) = (row for row in rows if row["phy_offset"] == PLACE)
    told = {name: row[name] for name in ("topic", "queue_id", "queue_offset", "size")}
    assert told == {"topic": "TopicTest", "queue_id": 0, "queue_offset": 3, "size": SIZE}


def test_the_unit_is_that_which_rocketmq_put(
    printed: dict[str, bytes], message: logs_oracle.Record
) -> None:
    """At the place of its queue offset, and with the code that the steps give."""
    ((_, data),) = (item for item in printed.items() if item[0].startswith("consumequeue"))
    queue = spectext.vectors()["accept/dispatch"]["queues"][0]
    offset, phy_offset, size, code, _ = queue["units"][QUEUE_OFFSET]
    assert (queue["topic"], offset) == ("TopicTest", QUEUE_OFFSET)
    assert data[20 * offset :] == struct.pack(">qiq", phy_offset, size, code)
    unit = np.frombuffer(data[20 * offset :], UNIT_DTYPE)[0]
    assert unit.tolist() == (PLACE, SIZE, code)
    pairs = dict(logs_oracle.property_pairs(message.properties))
    assert queue_oracle.tags_code("TopicTest", pairs, 0) == code


def test_the_index_file_is_that_of_the_steps_and_of_this_package(
    printed: dict[str, bytes], message: logs_oracle.Record, tmp_path: Path
) -> None:
    """All but its free place, which is zero."""
    pairs = dict(logs_oracle.property_pairs(message.properties))
    asked = ("TopicTest", pairs["UNIQ_KEY"], pairs["KEYS"], message.values["sys_flag"])
    times = (PLACE, message.values["store_timestamp"])
    directory = oracle.Directory(SLOTS, PLACES)
    directory.build(*asked, *times, pairs["TAGS"])
    whole = printed["index"] + bytes(20)
    assert bytes(directory.files[0].data) == whole
    with IndexDirectory(tmp_path / "index", Layout(SLOTS, PLACES), writable=True) as index:
        index.build_index(*asked, *times, tags=pairs["TAGS"])
    (path,) = (tmp_path / "index").iterdir()
    assert path.read_bytes() == whole


def test_the_hashes_and_slots_of_the_keys_are_right() -> None:
    """As the table tells them, in the order of the puts."""
    rows = spectext.table("one-message.md", "one-message-keys")
    for row in rows:
        key = row["index key"].strip("`")
        hashed = oracle.key_hash(key)
        told = (oracle.hash_code(key), hashed, hashed % SLOTS)
        assert told == tuple(
            int(row[name]) for name in ("hash code", "key hash", "slot, key hash % 4")
        )
