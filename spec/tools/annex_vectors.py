"""Vectors of the annexes: tiered storage, DLedger and RocksDB.

RocketMQ wrote all bytes; the decoded values are held against its answers by the tests.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from golden import ROOT, load_asked
from log_vectors import head
from oracle import hash_code

if TYPE_CHECKING:
    from vectorlib import Vectors

TIERED_HEADER = struct.Struct(">iqqii")
TIERED_FIELDS = ("magic", "begin_timestamp", "end_timestamp", "slot_count", "item_count")
ITEM = struct.Struct(">iiiqii")
ITEM_FIELDS = ("key_hash", "topic_id", "queue_id", "offset", "size", "time_diff")
ENTRY = struct.Struct(">iiqqqiiii")
ENTRY_FIELDS = (
    "magic", "size", "index", "term", "pos", "channel", "chain_crc", "body_crc", "body_size",
)  # fmt: skip
INDEX_UNIT = struct.Struct(">iqiqq")
INDEX_FIELDS = ("magic", "pos", "size", "index", "term")
NEWEST = "RocketMQ 5.5.1"
MOST_PAIRS = 24


def tiered_header(data: bytes) -> dict[str, int]:
    """Decode the header of either shape."""
    return dict(zip(TIERED_FIELDS, TIERED_HEADER.unpack_from(data), strict=True))


def items_written(data: bytes, slots: int) -> list[dict[str, int]]:
    """Decode the items of a file that is being written."""
    items = []
    for position in range(1, tiered_header(data)["item_count"] + 1):
        at = 28 + 8 * slots + 32 * position
        values = dict(zip(ITEM_FIELDS, ITEM.unpack_from(data, at), strict=True))
        items.append(
            {"position": position, **values, "prev": struct.unpack_from(">i", data, at + 28)[0]}
        )
    return items


def runs_compacted(data: bytes, slots: int) -> list[list[dict[str, int]]]:
    """Decode the items of each slot of a compacted file."""
    runs = []
    for slot in range(slots):
        start, length = struct.unpack_from(">ii", data, 28 + 8 * slot)
        places = range(start, start + length, ITEM.size)
        runs.append(
            [dict(zip(ITEM_FIELDS, ITEM.unpack_from(data, at), strict=True)) for at in places]
        )
    return runs


def tiered_hash(topic: str, key: str) -> int:
    """Hash as tiered storage does."""
    return abs(hash_code(f"{topic}#{key}"))


def query_written(data: bytes, slots: int, topic: str, key: str) -> list[dict[str, int]]:
    """Follow the chain of a key in a file that is being written."""
    hashed = tiered_hash(topic, key)
    items = {item["position"]: item for item in items_written(data, slots)}
    (position,) = struct.unpack_from(">i", data, 28 + 8 * (hashed % slots))
    found = []
    while position in items:
        if items[position]["key_hash"] == hashed:
            found.append(items[position])
        position = items[position]["prev"]
    return found


def entries(data: bytes) -> list[dict[str, int]]:
    """Decode the heads of DLedger's entries up to the end of them."""
    told, at = [], 0
    while at + ENTRY.size <= len(data):
        head_values = dict(zip(ENTRY_FIELDS, ENTRY.unpack_from(data, at), strict=True))
        if head_values["magic"] not in (1, 2, 3):
            break
        told.append({"position": at, **head_values})
        at += head_values["size"]
    return told


def index_pair(key: bytes, value: bytes) -> dict[str, Any]:
    """Decode a pair of the RocksDB index."""
    if key in (b"lastOffsetPy", b"lastStoreTimeStamp"):
        return {"name": key.decode(), "value": int.from_bytes(value, "big", signed=True)}
    return {
        "hour": int.from_bytes(key[:8], "big", signed=True),
        "text": key[8:-8].decode(),
        "phy_offset": int.from_bytes(key[-8:], "big", signed=True),
        "store_timestamp": int.from_bytes(value, "big", signed=True),
    }


def queue_pair(family: str, key: bytes, value: bytes) -> dict[str, Any]:
    """Decode a pair of the RocksDB queue."""
    length = int.from_bytes(key[:4], "big")
    topic, rest = key[5 : 5 + length].decode(), key[6 + length :]
    if family == "offset":
        which, queue_id = rest[:3].decode(), int.from_bytes(rest[4:8], "big")
        decoded: dict[str, Any] = {"topic": topic, "bound": which, "queue_id": queue_id}
        decoded["phy_offset"] = int.from_bytes(value[:8], "big", signed=True)
        if len(value) == 16:
            decoded["queue_offset"] = int.from_bytes(value[8:], "big", signed=True)
        return decoded
    names = ("phy_offset", "size", "tags_code", "store_timestamp")
    return {
        "topic": topic,
        "queue_id": int.from_bytes(rest[:4], "big"),
        "queue_offset": int.from_bytes(rest[5:13], "big", signed=True),
        **dict(zip(names, struct.unpack(">qiqq", value), strict=True)),
    }


def _write_tiered(out: Vectors, case: dict[str, Any]) -> None:
    slots = case["hash_slot_num"]
    asked = {name: case[name] for name in ("hash_slot_num", "index_num", "begin_timestamp")}
    data = bytes.fromhex(case["written"])
    out.write(
        "accept",
        "tiered_index_written",
        {
            **head("tiered_index", "an index of tiered storage while it is written", ("", "")),
            **asked,
            "puts": case["puts"],
            "queries": case["queries"],
            "header": tiered_header(data),
            "slots": [struct.unpack_from(">i", data, 28 + 8 * slot)[0] for slot in range(slots)],
            "items": items_written(data, slots),
        },
        data,
    )
    data = bytes.fromhex(case["compacted"])
    out.write(
        "accept",
        "tiered_index_compacted",
        {
            **head("tiered_index", "the same index, compacted", ("", "")),
            **asked,
            "header": tiered_header(data),
            "slots": [list(struct.unpack_from(">ii", data, 28 + 8 * s)) for s in range(slots)],
            "runs": runs_compacted(data, slots),
        },
        data,
    )


def _write_dledger(out: Vectors) -> None:
    store = ROOT / "tests" / "data" / "store_kinds" / "dledger" / "store" / "dledger-n0"
    data = (store / "data" / f"{0:020}").read_bytes()
    found = entries(data)
    end = found[-1]["position"] + found[-1]["size"]
    magic, size = struct.unpack_from(">ii", data, end)
    index = (store / "index" / f"{0:020}").read_bytes()
    units = [
        dict(zip(INDEX_FIELDS, INDEX_UNIT.unpack_from(index, 32 * number), strict=True))
        for number in range(len(found))
    ]
    out.write(
        "accept",
        "dledger_entries",
        {
            **head("dledger_entries", "the first file of a log of DLedger", ("", ""), NEWEST),
            "entries": found,
            "end": {"position": end, "magic": magic, "size": size},
            "index_units": units,
            "index_hex": index[: 32 * len(found)].hex(),
        },
        data,
    )


def _write_pairs(out: Vectors, name: str, note: str, pairs: list[dict[str, Any]]) -> None:
    described = head("rocksdb_pairs", note, ("", ""), NEWEST)
    out.write("accept", name, {**described, "pairs": pairs})


def write_annexes(out: Vectors) -> None:
    """Write all of them."""
    cases = {case["name"]: case for case in load_asked("annexes")}
    _write_tiered(out, cases["tiered_index"])
    _write_dledger(out)
    pairs = [
        {"family": family, "key": key, "value": value}
        | {"decoded": index_pair(bytes.fromhex(key), bytes.fromhex(value))}
        for family, key, value in cases["rocksdb_index"]["pairs"]
    ]
    some = [*pairs[:MOST_PAIRS], *pairs[-MOST_PAIRS:]]
    _write_pairs(out, "rocksdb_index", "keys and values of an index in RocksDB", some)
    pairs = [
        {"family": family, "key": key, "value": value}
        | {"decoded": queue_pair(family, bytes.fromhex(key), bytes.fromhex(value))}
        for family, key, value in cases["rocksdb_queue"]["pairs"]
    ]
    some = [*pairs[:MOST_PAIRS], *pairs[-MOST_PAIRS:]]
    _write_pairs(out, "rocksdb_queue", "keys and values of ConsumeQueues in RocksDB", some)
