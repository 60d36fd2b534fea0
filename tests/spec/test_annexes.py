"""The annexes, held against what RocketMQ answered of the same bytes."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

import annex_vectors
import logs_oracle
import spectext
from recorded import STORE_FORMATS, STORE_KINDS
from rmqindex.indexfile.committed import TIERED_MAGICS
from rmqindex.layout import dledger as dledger_layout

VECTORS = spectext.vectors()
TIERED = VECTORS["accept/tiered_index_written"]


def data_of(name: str) -> bytes:
    """Return the bytes of a vector."""
    return (spectext.VECTORS / "accept" / f"{name}.bin").read_bytes()


def asked(name: str) -> Any:
    """Return what RocketMQ told of an annex."""
    cases = json.loads((STORE_FORMATS / "annexes.json").read_text(encoding="utf-8"))
    return next(case for case in cases if case["name"] == name)


def told(kind: str) -> Any:
    """Return what RocketMQ told of a golden store."""
    return json.loads((STORE_KINDS / kind / "told.json").read_text(encoding="utf-8"))


def test_the_items_of_tiered_storage_are_the_puts() -> None:
    """Each put gives one item, in its order, with its hash and its difference."""
    items = annex_vectors.items_written(data_of("tiered_index_written"), TIERED["hash_slot_num"])
    for put, item in zip(TIERED["puts"], items, strict=True):
        assert item["key_hash"] == annex_vectors.tiered_hash(put["topic"], put["key"])
        assert {name: item[name] for name in ("topic_id", "queue_id", "offset", "size")} == {
            name: put[name] for name in ("topic_id", "queue_id", "offset", "size")
        }
        seconds = (put["store_timestamp"] - TIERED["begin_timestamp"]) / 1000
        assert item["time_diff"] == int(seconds)


@pytest.mark.parametrize("query", TIERED["queries"], ids=lambda query: repr(query["key"]))
def test_a_chain_of_tiered_storage_is_what_rocketmq_finds(query: dict[str, Any]) -> None:
    """Newest first, of the hash alone."""
    data, slots = data_of("tiered_index_written"), TIERED["hash_slot_num"]
    found = annex_vectors.query_written(data, slots, "TopicTest", query["key"])
    got = [[item["queue_id"], item["offset"], item["time_diff"]] for item in found]
    assert got == query["found"]


def test_a_compacted_file_has_the_same_items_by_slot() -> None:
    """Each run is the slot's chain, and the runs fill the file."""
    slots = TIERED["hash_slot_num"]
    written = annex_vectors.items_written(data_of("tiered_index_written"), slots)
    runs = annex_vectors.runs_compacted(data_of("tiered_index_compacted"), slots)
    for slot, run in enumerate(runs):
        chain = [item for item in reversed(written) if item["key_hash"] % slots == slot]
        assert run == [{name: item[name] for name in annex_vectors.ITEM_FIELDS} for item in chain]
    assert len(data_of("tiered_index_compacted")) == 28 + 8 * slots + 28 * len(written)
    magics = [data_of(f"tiered_index_{shape}")[:4] for shape in ("written", "compacted")]
    assert magics == list(TIERED_MAGICS)


def test_the_records_of_entries_are_where_rocketmq_stored_the_messages() -> None:
    """48 bytes behind each head; the index of the entries names the heads."""
    data, vector = data_of("dledger_entries"), VECTORS["accept/dledger_entries"]
    found = annex_vectors.entries(data)
    assert found == vector["entries"]
    places = [message[0] for message in told("dledger")["messages"]]
    assert [entry["pos"] + 48 for entry in found] == places[: len(found)]
    for entry, unit in zip(found, vector["index_units"], strict=True):
        start = entry["pos"] + 48
        assert logs_oracle.sound(data, start, start).size == entry["body_size"]
        assert {name: unit[name] for name in unit} == {name: entry[name] for name in unit}
    assert vector["end"]["position"] + vector["end"]["size"] == len(data)


def test_the_heads_of_the_text_are_those_of_the_code() -> None:
    """Offsets and sizes."""
    rows = spectext.table("annexes.md", "dledger-fields")
    sizes = [struct.calcsize(f">{code}") for code in dledger_layout.ENTRY_HEAD.format[1:]]
    assert [int(row["Size"]) for row in rows] == sizes
    for name in ("size", "index", "term", "pos", "body_size"):
        (row,) = [row for row in rows if row["Name"] == name]
        assert int(row["Offset"]) == getattr(dledger_layout, f"{name.upper()}_OFFSET")


def test_the_units_in_rocksdb_are_those_that_rocketmq_gave() -> None:
    """Every unit of the whole database, light queues included."""
    pairs = [
        annex_vectors.queue_pair(family, bytes.fromhex(key), bytes.fromhex(value))
        for family, key, value in asked("rocksdb_queue")["pairs"]
        if family == "default"
    ]
    queues = told("rocksdb_queue")["queues"]
    assert len(pairs) == sum(len(queue["units"]) for queue in queues) == 126
    for queue in queues:
        mine = [
            [pair["queue_offset"], pair["phy_offset"], pair["size"], pair["tags_code"]]
            for pair in pairs
            if (pair["topic"], pair["queue_id"]) == (queue["topic"], queue["queue_id"])
        ]
        assert mine == queue["units"]


def test_the_pairs_of_the_index_lead_to_the_messages() -> None:
    """Offsets and exact store times are those of the messages, hours those of the times."""
    messages = {offset: time for offset, _, _, time in told("rocksdb_index")["messages"]}
    texts = set()
    for _, key, value in asked("rocksdb_index")["pairs"]:
        pair = annex_vectors.index_pair(bytes.fromhex(key), bytes.fromhex(value))
        if "name" in pair:
            assert pair["value"] in messages or pair["value"] in messages.values()
            continue
        assert messages[pair["phy_offset"]] == pair["store_timestamp"]
        assert pair["hour"] == pair["store_timestamp"] // 3_600_000 * 3_600_000
        texts.add(pair["text"])
    assert "@TopicTest@K@a@b@UNIQ0007@" in texts
