"""Vectors that are one file as RocketMQ wrote it."""

from __future__ import annotations

import struct
from typing import Any

import oracle
from golden import ROCKETMQ, load
from vectorlib import ALWAYS, Vectors, broker_queries, file_vector, sample_queries

# RocketMQ's cases on one file: new name, requirements, errata.
FILE_CASES: dict[str, tuple[str, list[str], list[str]]] = {
    "empty": ("", ["IDX-HDR-6", "IDX-HDR-7", "IDX-GEO-3", "IDX-LAY-3"], ["ERR-9"]),
    "empty_inherited": ("", ["IDX-ROL-2", "IDX-HDR-6"], ["ERR-9", "ERR-21"]),
    "empty_inherited_offset_only": ("", ["IDX-ROL-2"], []),
    "empty_inherited_timestamp_only": ("", ["IDX-ROL-2"], []),
    "empty_inherited_negative_ignored": ("", ["IDX-ROL-2"], []),
    "one_put": ("", ["IDX-HDR-1", "IDX-SLT-1", "IDX-SLT-2", "IDX-ENT-1"], []),
    "one_put_offset_big": ("", ["IDX-ENT-4", "IDX-LAY-1"], []),
    "several": ("", ["IDX-HDR-4", "IDX-PUT-5", "IDX-PUT-8", "IDX-LKP-1"], ["ERR-4"]),
    "collisions_in_slot_1": ("", ["IDX-HSH-4", "IDX-SLT-2", "IDX-ENT-6"], []),
    "collisions_in_slot_2": ("", ["IDX-HSH-4"], []),
    "collisions_in_slot_3": ("", ["IDX-HSH-4", "IDX-ENT-7"], []),
    "identical_keys": ("", ["IDX-SEL-5", "IDX-LKP-1"], ["ERR-8"]),
    "identical_keys_same_offset": ("", ["IDX-PUT-6", "IDX-REC-2"], ["ERR-8", "ERR-22"]),
    "hash_collision_AaBB": ("", ["IDX-LKP-4", "IDX-HSH-2"], ["ERR-18"]),
    "hash_min_value": ("", ["IDX-HSH-3"], ["ERR-2"]),
    "negative_hash": ("", ["IDX-HSH-3", "IDX-ENT-3"], ["ERR-2"]),
    "abs_collision": ("", ["IDX-HSH-3"], ["ERR-2", "ERR-18"]),
    "non_ascii": ("", ["IDX-HSH-2", "IDX-HSH-5"], []),
    "long_key": ("", ["IDX-HSH-2"], []),
    "empty_key": ("", ["IDX-HSH-1"], ["ERR-24"]),
    "timestamps_backwards": (
        "",
        ["IDX-HDR-2", "IDX-HDR-3", "IDX-PUT-4", "IDX-TMM-1", "IDX-TMM-2"],
        ["ERR-5", "ERR-8", "ERR-17"],
    ),
    "early_termination": ("", ["IDX-SEL-3", "IDX-SEL-8", "IDX-LKP-2"], ["ERR-13"]),
    "early_termination_2": ("", ["IDX-SEL-3", "IDX-LKP-2"], ["ERR-13"]),
    "time_diff_overflow": ("", ["IDX-PUT-4", "IDX-ENT-5"], ["ERR-5"]),
    "sub_second": ("", ["IDX-PUT-4", "IDX-TIM-1", "IDX-TIM-2"], ["ERR-5"]),
    "begin_timestamp_zero": ("", ["IDX-PUT-4"], ["ERR-6"]),
    "begin_timestamp_negative": ("", ["IDX-PUT-4"], ["ERR-6"]),
    "begin_timestamp_zero_second_put_kept": ("", ["IDX-PUT-4"], ["ERR-6"]),
    "begin_timestamp_one": ("", ["IDX-PUT-4"], ["ERR-6"]),
    "inherited_first_entry_quirk": (
        "",
        ["IDX-PUT-3", "IDX-ROL-3", "IDX-TIM-2", "IDX-TIM-3"],
        ["ERR-7"],
    ),
    "inherited_first_entry_earlier": ("", ["IDX-PUT-3", "IDX-ROL-3"], ["ERR-7"]),
    "inherited_sub_second": ("", ["IDX-PUT-3", "IDX-ROL-3"], ["ERR-7"]),
    "inherited_timestamp_only": ("", ["IDX-PUT-3"], ["ERR-7"]),
    "inherited_offset_only": ("", ["IDX-PUT-3"], ["ERR-7"]),
    "inherited_overflow": ("", ["IDX-PUT-3", "IDX-PUT-4", "IDX-TIM-2"], ["ERR-5", "ERR-7"]),
    "exactly_full": ("", ["IDX-ENT-2", "IDX-PUT-1"], ["ERR-1"]),
    "full_plus_one": ("", ["IDX-PUT-1", "IDX-ENT-2"], ["ERR-1"]),
    "index_num_2": ("", ["IDX-ENT-2"], ["ERR-1"]),
    "index_num_1": ("", ["IDX-LIM-2", "IDX-ENT-2"], ["ERR-1"]),
    "index_num_1_inherited": ("", ["IDX-LIM-2"], ["ERR-1"]),
    "one_slot_full": ("", ["IDX-LIM-4", "IDX-SEL-5"], []),
    "chain_with_other_keys": ("", ["IDX-LKP-2", "IDX-SEL-3"], ["ERR-13"]),
    "offsets_odd": ("", ["IDX-ENT-4"], ["ERR-8"]),
    "reopen_between_puts": ("", ["IDX-PUT-7"], []),
    "reopen_empty_inherited": ("", ["IDX-PUT-7", "IDX-ROL-3", "IDX-OPS-5"], ["ERR-7"]),
    "slots_16_num_32": ("", ["IDX-LAY-2", "IDX-GEO-1"], ["ERR-10"]),
    "fuzz_3": (
        "worked_example",
        ["IDX-EXA-1", "IDX-LAY-2", "IDX-SEL-5", "IDX-OPS-2", "IDX-OPS-3", "IDX-OPS-6"],
        [],
    ),
    "fuzz_2": (
        "random_puts",
        ["IDX-PUT-5", "IDX-LKP-1", "IDX-OPS-4", "IDX-OPS-7", "IDX-OPS-8"],
        [],
    ),
    "fuzz_19": (
        "random_puts_inherited",
        ["IDX-PUT-3", "IDX-LKP-1", "IDX-SEL-8", "IDX-OPS-2", "IDX-OPS-9"],
        [],
    ),
}


def write_files(out: Vectors) -> None:
    """Write all of them."""
    cases = {case["name"]: case for case in load("vectors.json")}
    for golden_name in FILE_CASES:
        _write_golden(out, cases[golden_name])
    for name in ("empty", "empty_inherited"):
        _write_unflushed(out, cases[name])
    _write_resumed(out, cases["exactly_full"])


def _write_golden(out: Vectors, case: dict[str, Any]) -> None:
    """Write a file that was closed, with what RocketMQ was asked of it."""
    new_name, requirements, errata = FILE_CASES[case["name"]]
    name = new_name or case["name"]
    data = bytes.fromhex(case["file_hex"])
    file = oracle.File(case["hash_slot_num"], case["index_num"], bytearray(data))
    puts = [
        {"reopen": True}
        if put.get("reopen")
        else {
            "key": put["key"],
            "phy_offset": put["phy_offset"],
            "store_timestamp": put["store_timestamp"],
            "result": put["returned_bool"],
        }
        for put in case["puts"]
    ]
    keys = [put["key"] for put in puts if "key" in put]
    out.write(
        "accept",
        name,
        file_vector(
            file,
            note=case["note"],
            source=ROCKETMQ,
            requirements=requirements,
            errata=errata,
            keys=keys,
            broker={
                "queries": sample_queries(case["queries"]),
                "time_matched": case["is_time_matched"],
            },
            writer={
                "prev_end_phy_offset": case["prev_end_phy_offset"],
                "prev_end_timestamp": case["prev_end_timestamp"],
                "puts": puts,
            },
        ),
        data,
    )


def _write_unflushed(out: Vectors, case: dict[str, Any]) -> None:
    """Write a file as it stands before it is flushed or closed."""
    data = bytes.fromhex(case["file_hex_before_flush"])
    file = oracle.File(case["hash_slot_num"], case["index_num"], bytearray(data))
    out.write(
        "accept",
        f"{case['name']}_before_flush",
        file_vector(
            file,
            note="as it stands on disk before the first flush: index_count is 0",
            source=ROCKETMQ,
            requirements=["IDX-HDR-6", "IDX-HDR-7", "IDX-GEO-3", "IDX-OPS-2"],
            errata=["ERR-9"],
            keys=["TopicTest#order-1"],
            broker={"queries": broker_queries(file, [("TopicTest#order-1", 64, *ALWAYS)])},
        ),
        data,
    )


def _write_resumed(out: Vectors, case: dict[str, Any]) -> None:
    """Write a put onto a file whose slot is broken."""
    slots, places = case["hash_slot_num"], case["index_num"]
    before = oracle.File.create(slots, places)
    for put in case["puts"][:4]:
        before.put(put["key"], put["phy_offset"], put["store_timestamp"])
    slot = oracle.key_hash(case["puts"][4]["key"]) % slots
    struct.pack_into(">i", before.data, 40 + 4 * slot, 77)
    after = oracle.File(slots, places, bytearray(before.data))
    put = {key: case["puts"][4][key] for key in ("key", "phy_offset", "store_timestamp")}
    after.put(**put)
    out.write(
        "accept",
        "put_on_broken_slot",
        file_vector(
            after,
            note="a put on a slot that named entry 77: the older chain of the slot is lost",
            source="accept/exactly_full before its last put, the slot changed; by the spec's steps",
            requirements=["IDX-PUT-2", "IDX-LKP-3", "IDX-LKP-5"],
            errata=["ERR-3"],
            keys=[put["key"]],
            broker={"queries": broker_queries(after, [(put["key"], 64, *ALWAYS)])},
            writer={"resume_hex": before.data.hex(), "puts": [{**put, "result": True}]},
        ),
        bytes(after.data),
    )
