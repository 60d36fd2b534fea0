"""The twin that answers for broken files agrees with RocketMQ on everything it was asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import oracle

if TYPE_CHECKING:
    from pathlib import Path


def load(golden: Path, name: str) -> Any:
    """Return one of the golden JSON files."""
    return json.loads((golden / name).read_text(encoding="utf-8"))


def test_hashes_are_rocketmqs(golden: Path) -> None:
    """Every hash code and every key hash is the one that RocketMQ computed."""
    for case in load(golden, "hashes.json"):
        assert oracle.hash_code(case["key"]) == case["hash_code"]
        assert oracle.key_hash(case["key"]) == case["index_hash"]


def test_puts_give_rocketmqs_bytes_and_selects_its_answers(golden: Path) -> None:
    """Every file is made byte for byte, before and after the flush, and answers as RocketMQ's."""
    for case in load(golden, "vectors.json"):
        seed = (case["prev_end_phy_offset"], case["prev_end_timestamp"])
        file = oracle.File.create(case["hash_slot_num"], case["index_num"], *seed)
        for put in case["puts"]:
            if put.get("reopen"):
                file.flush()
                continue
            done = file.put(put["key"], put["phy_offset"], put["store_timestamp"])
            assert done == put["returned_bool"]
        if "file_hex_before_flush" in case:
            assert file.data.hex() == case["file_hex_before_flush"]
        file.flush()
        assert file.data.hex() == case["file_hex"]
        for query in case["queries"]:
            found: list[int] = []
            file.select(found, query["key"], query["max_num"], query["begin"], query["end"])
            assert found == query["result"]
        for times in case["is_time_matched"]:
            assert file.is_time_matched(times["begin"], times["end"]) == times["result"]


def test_builds_give_rocketmqs_files_and_answers(golden: Path) -> None:
    """Files, bytes, answers and checkpoint are RocketMQ's after every message."""
    for case in load(golden, "service_vectors.json"):
        directory = oracle.Directory(case["hash_slot_num"], case["index_num"])
        for message in case["messages"]:
            directory.build(
                message["topic"],
                message["uniq_key"],
                message["keys"],
                message["sys_flag"],
                message["commitlog_offset"],
                message["store_timestamp"],
            )
            assert len(directory.files) == message["files_after"]
        for file, expected in zip(directory.files, case["files"], strict=True):
            file.flush()
            assert file.data.hex() == expected["hex"]
        assert directory.index_msg_timestamp == case["checkpoint_index_msg_timestamp"]
        for query in case["queries"]:
            asked = [query[name] for name in ("topic", "key", "max_num", "begin", "end")]
            assert directory.query(*asked) == (
                query["result"],
                query["index_last_update_timestamp"],
                query["index_last_update_phyoffset"],
            )


def test_loaded_directories_answer_as_rocketmqs(golden: Path) -> None:
    """The files that RocketMQ loaded, cut or extended to their geometry, answer as it did."""
    for case in load(golden, "load_cases.json"):
        slots, places = case["hash_slot_num"], case["index_num"]
        size = 40 + 4 * slots + 20 * places
        contents = {file["name"]: file["hex"] for file in case["dir"]}
        assert all(oracle.is_index_name(name) for name in case["loaded"])
        files = [
            oracle.File(
                slots, places, bytearray(bytes.fromhex(contents[name])[:size].ljust(size, b"\0"))
            )
            for name in case["loaded"]
        ]
        directory = oracle.Directory(slots, places, files)
        for query in case["queries"]:
            asked = [query[name] for name in ("topic", "key", "max_num", "begin", "end")]
            assert directory.query(*asked) == (
                query["result"],
                query["index_last_update_timestamp"],
                query["index_last_update_phyoffset"],
            )


@pytest.mark.requirement("IDX-BLD-7")
def test_properties_with_empty_values_are_absent() -> None:
    """A name whose value is empty is not in what is decoded, so its key is not indexed."""
    decoded = oracle.message_properties("UNIQ_KEY\x01\x02KEYS\x01a b\x02TAGS\x01\x02")
    assert decoded == {"KEYS": "a b"}
    keys = oracle.message_keys("T", decoded.get("UNIQ_KEY"), decoded.get("KEYS"), 0)
    assert keys == ["T#a", "T#b"]


@pytest.mark.requirement("IDX-BLD-8", "IDX-QRY-5")
def test_tags_are_indexed_from_5_4_0_on(golden: Path) -> None:
    """The same messages give the files of either kind of RocketMQ, and its answers."""
    cases = load(golden, "tag_vectors.json")
    assert [case["rocketmq"] for case in cases] == [["5.3.3"], ["5.4.0", "5.5.0", "5.5.1"]]
    for case, has_tags in zip(cases, (False, True), strict=True):
        directory = oracle.Directory(case["hash_slot_num"], case["index_num"])
        for message in case["messages"]:
            directory.build(
                message["topic"],
                message["uniq_key"],
                message["keys"],
                message["sys_flag"],
                message["commitlog_offset"],
                message["store_timestamp"],
                message["tags"] if has_tags else None,
            )
        for file in directory.files:
            file.flush()
        assert [file.data.hex() for file in directory.files] == case["files"]
        assert directory.index_msg_timestamp == case["checkpoint_index_msg_timestamp"]
        for query in case["queries"]:
            asked = {
                name: query[name]
                for name in ("topic", "key", "max_num", "begin", "end", "index_type")
            }
            found, time, offset = directory.query(**asked)
            assert found == query["phy_offsets"]
            assert time == query["index_last_update_timestamp"]
            assert offset == query["index_last_update_phyoffset"]
