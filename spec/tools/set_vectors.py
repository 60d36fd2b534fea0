"""Vectors that are file sets: as RocketMQ loaded, searched, expired, recovered and built them."""

from __future__ import annotations

from dataclasses import dataclass

import oracle
from golden import GOLDEN, ROCKETMQ, ROCKETMQ_WITH_TAGS, load, message_of
from vectorlib import ALWAYS, Vectors, sample_queries

LOAD_CASES: dict[str, tuple[list[str], list[str]]] = {
    "three": (["IDX-EXP-1", "IDX-QRY-1", "IDX-QRY-4", "IDX-OPS-11", "IDX-OPS-16"], ["ERR-29"]),
    "delete_none": (["IDX-EXP-1"], ["ERR-29"]),
    "delete_all_but_last": (["IDX-EXP-2"], ["ERR-29"]),
    "delete_single": (["IDX-EXP-2", "IDX-OPS-16"], ["ERR-29"]),
    "empty_dir": (["IDX-QRY-4"], []),
    "empty_inherited_last": (["IDX-QRY-3", "IDX-QRY-4"], ["ERR-19", "ERR-21"]),
    "all_zero_last": (["IDX-QRY-3", "IDX-HDR-7"], ["ERR-19"]),
    "empty_file_last": (["IDX-LOD-2"], ["ERR-28"]),
    "foreign_names": (["IDX-NAM-3", "IDX-LOD-3"], ["ERR-27"]),
    "odd_numeric_names": (["IDX-NAM-3", "IDX-NAM-4", "IDX-LOD-1", "IDX-OPS-10"], ["ERR-27"]),
    "name_order": (["IDX-NAM-4", "IDX-LOD-1"], ["ERR-27"]),
    "sub_directory_numeric": (["IDX-LOD-1"], ["ERR-27"]),
    "sub_directory_named": (["IDX-LOD-3"], ["ERR-27"]),
    "crash_all_new": (["IDX-REC-1"], ["ERR-26"]),
    "crash_keep_two": (["IDX-REC-1", "IDX-OPS-10"], ["ERR-26"]),
    "crash_just_below": (["IDX-REC-1"], ["ERR-26"]),
    "crash_empty_inherited": (["IDX-REC-1"], ["ERR-26"]),
    "crash_zero_file": (["IDX-REC-1"], ["ERR-26"]),
    "wrong_order_content": (["IDX-NAM-5", "IDX-QRY-1", "IDX-QRY-3"], ["ERR-19"]),
    "longer_shorter": (["IDX-LOD-2", "IDX-LAY-4", "IDX-LOD-4"], ["ERR-28"]),
}

BUILD_REQUIREMENTS = [
    "IDX-BLD-1", "IDX-BLD-2", "IDX-BLD-3", "IDX-BLD-4", "IDX-BLD-5", "IDX-BLD-6",
    "IDX-OPS-11", "IDX-OPS-12", "IDX-OPS-13", "IDX-ROL-1", "IDX-ROL-2", "IDX-ROL-3",
    "IDX-QRY-1", "IDX-QRY-2", "IDX-QRY-3", "IDX-CKP-2",
]  # fmt: skip
BUILD_ERRATA = ["ERR-20", "ERR-22", "ERR-23", "ERR-24", "ERR-25"]


def _write_loads(out: Vectors) -> None:
    """Write file sets as RocketMQ loaded, searched, expired and recovered them."""
    for case in load("load_cases.json"):
        name = f"load_{case['name']}"
        requirements, errata = LOAD_CASES[case["name"]]
        out.write_files(
            name,
            [(f["name"], bytes.fromhex(f["hex"])) for f in case["dir"] if f["hex"] is not None],
        )
        description = {
            "kind": "load",
            "note": case["note"],
            "source": ROCKETMQ,
            "requirements": requirements,
            "errata": errata,
            "hash_slot_num": case["hash_slot_num"],
            "index_num": case["index_num"],
            "last_exit_ok": case["last_exit_ok"],
            "index_msg_timestamp": case["checkpoint_index_msg_timestamp"],
            "directory": [
                {"name": f["name"], "type": "directory" if f["hex"] is None else "file"}
                for f in case["dir"]
            ],
            "load_result": case["load_result"],
            "loaded": case["loaded"],
            "directory_after_load": case["dir_after_load"],
            "queries": case["queries"],
        }
        if "delete_expired_offset" in case:
            description["delete_expired_offset"] = case["delete_expired_offset"]
            description["loaded_after_delete"] = case["loaded_after_delete"]
            description["directory_after_delete"] = case["dir_after_delete"]
        out.write("accept", name, description)


def _write_builds(out: Vectors) -> None:
    """Write file sets as RocketMQ built them from messages."""
    for case in load("service_vectors.json"):
        out.write_files(case["name"], [(f["name"], bytes.fromhex(f["hex"])) for f in case["files"]])
        out.write(
            "accept",
            case["name"],
            {
                "kind": "build",
                "note": "",
                "source": ROCKETMQ,
                "requirements": BUILD_REQUIREMENTS,
                "errata": BUILD_ERRATA,
                "hash_slot_num": case["hash_slot_num"],
                "index_num": case["index_num"],
                "messages": [message_of(message) for message in case["messages"]],
                "files": [f["name"] for f in case["files"]],
                "index_msg_timestamp": case["checkpoint_index_msg_timestamp"],
                "queries": sample_queries(case["queries"], 16, 8),
            },
        )


def _write_tagged(out: Vectors) -> None:
    """Write the file set that RocketMQ built from messages with tags, where it indexes them."""
    (case,) = (each for each in load("tag_vectors.json") if "5.5.1" in each["rocketmq"])
    name = "build_with_tags"
    names = [f"2026010100000{number:04d}" for number in range(len(case["files"]))]
    data = [bytes.fromhex(each) for each in case["files"]]
    out.write_files(name, list(zip(names, data, strict=True)))
    messages = [message_of(each) | {"tags": each["tags"]} for each in case["messages"]]
    queries = [
        {("result" if key == "phy_offsets" else key): value for key, value in query.items()}
        for query in case["queries"]
    ]
    out.write(
        "accept",
        name,
        {
            "kind": "build",
            "note": "tags have entries behind those of the keys; asked for as tags and as keys",
            "source": ROCKETMQ_WITH_TAGS,
            "requirements": ["IDX-BLD-8", "IDX-QRY-5", "IDX-EDN-1"],
            "errata": [],
            "hash_slot_num": case["hash_slot_num"],
            "index_num": case["index_num"],
            "messages": messages,
            "files": names,
            "index_msg_timestamp": case["checkpoint_index_msg_timestamp"],
            "queries": queries,
        },
    )


@dataclass(frozen=True)
class Build:
    """A file set that is built by the spec's steps.

    Attributes:
        name: The vector's name.
        note: What to notice.
        geometry: Slots and places.
        messages: Offset, keys and SYSFLAG of each message of the topic T.
        queries: Key and number of results asked for.
        requirements: What it shows.
        errata: Likewise.
    """

    name: str
    note: str
    geometry: tuple[int, int]
    messages: list[tuple[int, str, int]]
    queries: list[tuple[str, int]]
    requirements: list[str]
    errata: list[str]


BUILDS = [
    Build(
        "build_rolls_for_a_skipped_message",
        "two keys fill the file; a rolled-back message is skipped but creates the next one",
        (3, 3),
        [(100, "a b", 0), (200, "c", 12)],
        [("a", 64)],
        ["IDX-BLD-1", "IDX-BLD-3"],
        ["ERR-21"],
    ),
    Build(
        "query_cap",
        "seventy messages with one key: a query gives 64, whatever it asks for",
        (3, 40),
        [(100 + 100 * number, "hot", 0) for number in range(70)],
        [("hot", 1000), ("hot", 65), ("hot", 3)],
        ["IDX-QRY-1", "IDX-QRY-2"],
        ["ERR-20"],
    ),
]


def _write_build(out: Vectors, build: Build) -> None:
    """Build a file set, ask it, and write both."""
    directory = oracle.Directory(*build.geometry)
    messages = [
        {
            "topic": "T",
            "unique_key": None,
            "keys": keys,
            "sys_flag": sys_flag,
            "phy_offset": offset,
            "store_timestamp": 1_700_000_000_000 + offset,
        }
        for offset, keys, sys_flag in build.messages
    ]
    for message in messages:
        directory.build(**message)
    for file in directory.files:
        file.flush()
    names = [f"2026010100000{number:04d}" for number in range(len(directory.files))]
    data = [bytes(file.data) for file in directory.files]
    out.write_files(build.name, list(zip(names, data, strict=True)))
    queries = []
    for key, max_num in build.queries:
        query = {
            "topic": "T",
            "key": key,
            "max_num": max_num,
            "begin": ALWAYS[0],
            "end": ALWAYS[1],
        }
        found, time, offset = directory.query(**query)
        answer = {
            "result": found,
            "index_last_update_timestamp": time,
            "index_last_update_phyoffset": offset,
        }
        queries.append(query | answer)
    out.write(
        "accept",
        build.name,
        {
            "kind": "build",
            "note": build.note,
            "source": "by the spec's steps",
            "requirements": build.requirements,
            "errata": build.errata,
            "hash_slot_num": directory.hash_slot_num,
            "index_num": directory.index_num,
            "messages": messages,
            "files": names,
            "index_msg_timestamp": directory.index_msg_timestamp,
            "queries": queries,
        },
    )


def _write_redispatch(out: Vectors) -> None:
    """Write the two files that RocketMQ left when it recovered from an unclean exit."""
    index = GOLDEN / "store_recovered" / "index"
    names = sorted(path.name for path in index.iterdir())[-2:]
    name = "redispatch_doubles_the_last_message"
    files = [(each, (index / each).read_bytes()) for each in names]
    out.write_files(name, files)
    directory = oracle.Directory(97, 200, [oracle.File(97, 200, bytearray(d)) for _, d in files])
    out.write(
        "accept",
        name,
        {
            "kind": "load",
            "note": "the last entry of the first file and the first of the second are one: "
            "hash 733646041 at offset 101565",
            "source": f"{ROCKETMQ}, the last two files of a recovered store",
            "requirements": ["IDX-REC-2", "IDX-BLD-2", "IDX-OPS-15"],
            "errata": ["ERR-22"],
            "hash_slot_num": 97,
            "index_num": 200,
            "last_exit_ok": True,
            "index_msg_timestamp": 0,
            "directory": [{"name": each, "type": "file"} for each in names],
            "load_result": True,
            "loaded": names,
            "directory_after_load": names,
            "entries": [
                {"file": each, "position": position, "key_hash": 733646041, "phy_offset": 101565}
                for each, position in zip(names, (199, 1), strict=True)
            ],
            "queries": [],
        },
    )
    first, second = directory.files
    assert first.entry(199)[:2] == second.entry(1)[:2] == (733646041, 101565)


def write_sets(out: Vectors) -> None:
    """Write all of them."""
    _write_loads(out)
    _write_builds(out)
    _write_tagged(out)
    for build in BUILDS:
        _write_build(out, build)
    _write_redispatch(out)
