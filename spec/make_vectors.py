"""Write ``spec/vectors`` from what RocketMQ's own classes produced.

``python spec/make_vectors.py [DIRECTORY]`` writes the same files every time.
Accept vectors are RocketMQ's own files with RocketMQ's own answers (``tests/golden``), or such a
file with one field changed to another legal value; reject vectors are such files with a rule
broken. Where RocketMQ was not asked, the answers come from ``oracle.py``, which the tests hold
against all of RocketMQ's answers.
"""

from __future__ import annotations

import json
import shutil
import struct
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import oracle  # noqa: E402

GOLDEN = HERE.parent / "tests" / "golden"
ROCKETMQ = "RocketMQ 5.3.3"
ALWAYS = (0, 2**63 - 1)

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
    "early_termination": ("", ["IDX-SEL-3", "IDX-LKP-2"], ["ERR-13"]),
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
    "exactly_full": ("", ["IDX-ENT-2"], ["ERR-1"]),
    "full_plus_one": ("", ["IDX-PUT-1", "IDX-ENT-2"], ["ERR-1"]),
    "index_num_2": ("", ["IDX-ENT-2"], ["ERR-1"]),
    "index_num_1": ("", ["IDX-LIM-2", "IDX-ENT-2"], ["ERR-1"]),
    "index_num_1_inherited": ("", ["IDX-LIM-2"], ["ERR-1"]),
    "one_slot_full": ("", ["IDX-LIM-4", "IDX-SEL-5"], []),
    "chain_with_other_keys": ("", ["IDX-LKP-2", "IDX-SEL-3"], ["ERR-13"]),
    "offsets_odd": ("", ["IDX-ENT-4"], ["ERR-8"]),
    "reopen_between_puts": ("", ["IDX-PUT-7"], []),
    "reopen_empty_inherited": ("", ["IDX-PUT-7", "IDX-ROL-3"], ["ERR-7"]),
    "slots_16_num_32": ("", ["IDX-LAY-2", "IDX-GEO-1"], ["ERR-10"]),
    "fuzz_3": ("worked_example", ["IDX-EXA-1", "IDX-LAY-2", "IDX-SEL-5"], []),
    "fuzz_2": ("random_puts", ["IDX-PUT-5", "IDX-LKP-1"], []),
    "fuzz_19": ("random_puts_inherited", ["IDX-PUT-3", "IDX-LKP-1"], []),
}

LOAD_CASES: dict[str, tuple[list[str], list[str]]] = {
    "three": (["IDX-EXP-1", "IDX-QRY-1", "IDX-QRY-4"], ["ERR-29"]),
    "delete_none": (["IDX-EXP-1"], ["ERR-29"]),
    "delete_all_but_last": (["IDX-EXP-2"], ["ERR-29"]),
    "delete_single": (["IDX-EXP-2"], ["ERR-29"]),
    "empty_dir": (["IDX-QRY-4"], []),
    "empty_inherited_last": (["IDX-QRY-3", "IDX-QRY-4"], ["ERR-19", "ERR-21"]),
    "all_zero_last": (["IDX-QRY-3", "IDX-HDR-7"], ["ERR-19"]),
    "empty_file_last": (["IDX-LOD-2"], ["ERR-28"]),
    "foreign_names": (["IDX-NAM-3", "IDX-LOD-3"], ["ERR-27"]),
    "odd_numeric_names": (["IDX-NAM-3", "IDX-NAM-4", "IDX-LOD-1"], ["ERR-27"]),
    "name_order": (["IDX-NAM-4", "IDX-LOD-1"], ["ERR-27"]),
    "sub_directory_numeric": (["IDX-LOD-1"], ["ERR-27"]),
    "sub_directory_named": (["IDX-LOD-3"], ["ERR-27"]),
    "crash_all_new": (["IDX-REC-1"], ["ERR-26"]),
    "crash_keep_two": (["IDX-REC-1"], ["ERR-26"]),
    "crash_just_below": (["IDX-REC-1"], ["ERR-26"]),
    "crash_empty_inherited": (["IDX-REC-1"], ["ERR-26"]),
    "crash_zero_file": (["IDX-REC-1"], ["ERR-26"]),
    "wrong_order_content": (["IDX-NAM-5", "IDX-QRY-1", "IDX-QRY-3"], ["ERR-19"]),
    "longer_shorter": (["IDX-LOD-2", "IDX-LAY-4", "IDX-LOD-4"], ["ERR-28"]),
}

BUILD_REQUIREMENTS = [
    "IDX-BLD-1", "IDX-BLD-2", "IDX-BLD-3", "IDX-BLD-4", "IDX-BLD-5", "IDX-BLD-6",
    "IDX-ROL-1", "IDX-ROL-2", "IDX-ROL-3", "IDX-QRY-1", "IDX-QRY-2", "IDX-QRY-3", "IDX-CKP-2",
]  # fmt: skip
BUILD_ERRATA = ["ERR-20", "ERR-22", "ERR-23", "ERR-24", "ERR-25"]


class Vectors:
    """A directory of vectors that is being written."""

    def __init__(self, root: Path) -> None:
        """Clear what an earlier run left."""
        self.root = root
        for name in ("accept", "reject"):
            shutil.rmtree(root / name, ignore_errors=True)
            (root / name).mkdir(parents=True)

    def write(
        self, group: str, name: str, description: dict[str, Any], data: bytes | None = None
    ) -> None:
        """Write a JSON file and, if there are bytes, the binary file beside it."""
        if data is not None:
            (self.root / group / f"{name}.bin").write_bytes(data)
            if len(data) <= 800:
                description["hex"] = data.hex()
        text = json_text({"name": name, **description})
        (self.root / group / f"{name}.json").write_text(text, encoding="ascii")

    def write_files(self, name: str, files: list[tuple[str, bytes]]) -> None:
        """Write the binary files of a file set."""
        for file_name, data in files:
            path = self.root / "accept" / name / file_name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)


def json_text(value: Any) -> str:
    """Return ASCII JSON with one element of a list of objects a line."""

    def lines(item: Any, indent: str) -> str:
        deeper = indent + "  "
        if isinstance(item, dict) and any(isinstance(part, (dict, list)) for part in item.values()):
            parts = [f"{deeper}{json.dumps(k)}: {lines(v, deeper)}" for k, v in item.items()]
            return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
        if isinstance(item, list) and any(isinstance(part, (dict, list)) for part in item):
            return "[\n" + ",\n".join(deeper + json.dumps(part) for part in item) + f"\n{indent}]"
        return json.dumps(item)

    return lines(value, "") + "\n"


def sample_queries(queries: list[dict[str, Any]], found: int = 24, nothing: int = 8) -> list[Any]:
    """Keep some of a case's queries, those that find something first of all."""
    some = {True: found, False: nothing}
    kept = []
    for query in queries:
        hit = bool(query["result"])
        if some[hit] and query not in kept:
            some[hit] -= 1
            kept.append(query)
    return kept


def attempt(action: Any) -> tuple[Any, oracle.Rejected | None]:
    """Return what a reader answers, ``"reject"`` where it rejects, with the reason."""
    try:
        return action(), None
    except oracle.Rejected as reason:
        return "reject", reason


def reader_outcomes(
    file: oracle.File, size: int, keys: list[str], extra_hashes: tuple[int, ...] = ()
) -> dict[str, Any]:
    """Return what a strict and a lenient reader answer."""
    count = min(file.index_count, file.index_num)
    hashes = [oracle.key_hash(key) for key in keys]
    hashes += [file.entry(position)[0] for position in range(1, count)]
    hashes = sorted({value for value in [*hashes, *extra_hashes] if value >= 0})
    reasons = []
    opened, reason = attempt(lambda: file.open_strictly(size))
    reasons.append(reason)
    strict: dict[str, Any] = {"open": opened or "accept"}
    if opened != "reject":
        strict["scan"], reason = attempt(lambda: file.scan(strict=True, size=size))
        reasons.append(reason)
        strict["lookups"] = []
        for hashed in hashes:
            found, reason = attempt(lambda value=hashed: file.lookup_strictly(value))
            reasons.append(reason)
            strict["lookups"].append({"key_hash": hashed, "result": found})
    reason = next((reason for reason in reasons if reason), None)
    if reason:
        strict["error"] = {"field": reason.field, "byte": reason.byte}
    sound = file.scan(strict=False, size=size) if size >= 40 else []
    lenient = {
        "open": "accept",
        "scan": sound,
        "lookups": [
            {
                "key_hash": hashed,
                "result": [p for p in reversed(sound) if file.entry(p)[0] == hashed],
            }
            for hashed in hashes
        ],
    }
    return {"strict_reader": strict, "lenient_reader": lenient}


def decoded(file: oracle.File, size: int) -> dict[str, Any]:
    """Return the header, the slots and the sound entries as a reader decodes them."""
    entries = []
    for position in file.scan(strict=False, size=size) if size >= 40 else []:
        values = zip(
            ("key_hash", "phy_offset", "time_diff", "prev_position"),
            file.entry(position),
            strict=True,
        )
        entries.append(
            {
                "position": position,
                **dict(values),
                "slot": file.entry(position)[0] % file.hash_slot_num,
                "store_timestamp": file.time(position),
            }
        )
    return {
        "header": file.header,
        "slots": [file.slot(slot) for slot in range(file.hash_slot_num)],
        "entries": entries,
    }


def broker_queries(file: oracle.File, queries: list[tuple[str, int, int, int]]) -> list[Any]:
    """Return the broker's answers to (key, max_num, begin, end), by the oracle."""
    answers = []
    for key, max_num, begin, end in queries:

        def select(key: str = key, max_num: int = max_num, times: Any = (begin, end)) -> list[int]:
            found: list[int] = []
            file.select(found, key, max_num, *times)
            return found

        result, _ = attempt(select)
        answers.append(
            {"key": key, "max_num": max_num, "begin": begin, "end": end, "result": result}
        )
    return answers


def file_vector(
    file: oracle.File,
    *,
    note: str,
    source: str,
    requirements: list[str],
    errata: list[str],
    keys: list[str],
    broker: dict[str, Any],
    size: int | None = None,
    extra_hashes: tuple[int, ...] = (),
    **more: Any,
) -> dict[str, Any]:
    """Return the description of a vector that is one file."""
    size = len(file.data) if size is None else size
    return {
        "kind": "file",
        "note": note,
        "source": source,
        "requirements": requirements,
        "errata": errata,
        "hash_slot_num": file.hash_slot_num,
        "index_num": file.index_num,
        **more,
        **decoded(file, size),
        "outcomes": {
            **reader_outcomes(file, size, keys, extra_hashes),
            "broker_faithful_reader": broker,
        },
    }


def load(name: str) -> Any:
    """Return one of the golden JSON files."""
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


def golden_files(out: Vectors) -> dict[str, dict[str, Any]]:
    """Write RocketMQ's own single files; return the cases by name."""
    cases = {case["name"]: case for case in load("vectors.json")}
    for golden_name, (new_name, requirements, errata) in FILE_CASES.items():
        case = cases[golden_name]
        name = new_name or golden_name
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
    for name in ("empty", "empty_inherited"):
        case = cases[name]
        data = bytes.fromhex(case["file_hex_before_flush"])
        file = oracle.File(case["hash_slot_num"], case["index_num"], bytearray(data))
        out.write(
            "accept",
            f"{name}_before_flush",
            file_vector(
                file,
                note="as it stands on disk before the first flush: index_count is 0",
                source=ROCKETMQ,
                requirements=["IDX-HDR-6", "IDX-HDR-7", "IDX-GEO-3"],
                errata=["ERR-9"],
                keys=["TopicTest#order-1"],
                broker={"queries": broker_queries(file, [("TopicTest#order-1", 64, *ALWAYS)])},
            ),
            data,
        )
    return cases


def mutations(out: Vectors, cases: dict[str, dict[str, Any]]) -> None:
    """Write files with one thing changed: legal ones to accept, broken ones to reject."""
    case = cases["fuzz_3"]
    example = bytes.fromhex(case["file_hex"])
    keys = [put["key"] for put in case["puts"]]
    entry = [0, 80, 100, 120, 140]
    hash_offset, offset_offset, diff_offset, prev_offset = 0, 4, 12, 16
    slot_4 = 56

    def changed(*changes: tuple[int, str, int], base: bytes = example) -> bytearray:
        data = bytearray(base)
        for at, form, value in changes:
            struct.pack_into(form, data, at, value)
        return data

    def write(
        group: str,
        name: str,
        note: str,
        data: bytearray,
        requirements: list[str],
        errata: list[str] | None = None,
        *,
        queries: list[tuple[str, int, int, int]] | None = None,
        geometry: tuple[int, int] = (5, 5),
        on: str = "accept/worked_example",
        broker_data: bytearray | None = None,
        **more: Any,
    ) -> None:
        size = len(data)
        slots, places = geometry
        whole = 40 + 4 * slots + 20 * places
        file = oracle.File(slots, places, data + bytes(max(0, whole - size)))
        # A broker maps the size of the geometry and no more.
        broker_file = oracle.File(slots, places, file.data[:whole])
        if queries is None:
            queries = [(key, 64, *ALWAYS) for key in keys]
        out.write(
            group,
            name,
            file_vector(
                file,
                note=note,
                source=f"mutation of {on}; answers by the spec's steps",
                requirements=requirements + (["IDX-CON-1", "IDX-CON-2"] if group == "reject" else []),
                errata=errata or [],
                keys=[query[0] for query in queries],
                broker={"queries": broker_queries(broker_file, queries)},
                size=size,
                **more,
            ),
            bytes(data),
        )

    ours, other = keys[0], keys[3]
    by_time = [(ours, 64, *ALWAYS), (other, 64, *ALWAYS), (other, 1, *ALWAYS)]

    # Legal, though unusual.
    write("accept", "hash_slot_count_before_4_7_1", "counts entries, as RocketMQ did before 4.7.1",
          changed((32, ">i", 4)), ["IDX-HDR-5"], ["ERR-4"])  # fmt: skip
    write("accept", "hash_slot_count_absurd", "no reader may use this field",
          changed((32, ">i", -7)), ["IDX-HDR-5"], ["ERR-4"])  # fmt: skip
    write("accept", "index_count_negative", "taken for 1: a file without entries",
          changed((36, ">i", -3)), ["IDX-HDR-7", "IDX-SEL-1"], ["ERR-9", "ERR-11"])  # fmt: skip
    write("accept", "surplus_bytes", "50 bytes beyond the geometry, not zero",
          bytearray(example + b"\xa5" * 50), ["IDX-LAY-4"], ["ERR-28"])  # fmt: skip
    write("accept", "entry_place_0_not_zero", "the place that is never used holds something",
          changed((60, ">i", -1), (64, ">q", -1)), ["IDX-ENT-2"], ["ERR-1"])  # fmt: skip
    write("accept", "torn_first_put",
          "entry and slot of the first put are written, the header is not",
          changed((16, ">q", 0), (24, ">q", 0), (0, ">q", 0), (8, ">q", 0), (32, ">q", 0),
                  (52, ">i", 0), (44, ">i", 0), (slot_4, ">i", 1)),
          ["IDX-SEL-1", "IDX-ENT-8", "IDX-SLT-4"], ["ERR-11"])  # fmt: skip
    write("accept", "torn_put", "entry 4 and its slot are written, the header still counts three",
          changed((36, ">i", 4), (8, ">q", 1700000433446), (24, ">q", 235218248958)),
          ["IDX-SLT-4", "IDX-ENT-8", "IDX-SEL-2", "IDX-PUT-5"], ["ERR-12"])  # fmt: skip
    torn = changed((36, ">i", 4), (8, ">q", 1700000433446), (24, ">q", 235218248958))
    torn[140:160] = bytes(20)
    write("accept", "torn_put_entry_lost",
          "the slot names entry 4, which never reached the disk; entry 1 is found by a scan",
          torn, ["IDX-SLT-4", "IDX-LKP-3"], ["ERR-12"])  # fmt: skip
    one_put = cases["one_put"]
    write("accept", "phantom_entry",
          "slot 0 names entry 2, which was never written and reads as hash 0, offset 0",
          changed((40, ">i", 2), base=bytes.fromhex(one_put["file_hex"])),
          ["IDX-SEL-2", "IDX-SLT-4", "IDX-ENT-8"], ["ERR-12"], geometry=(8, 20),
          queries=[("", 64, *ALWAYS), ("polygenelubricants", 64, *ALWAYS),
                   (one_put["puts"][0]["key"], 64, *ALWAYS)],
          on="accept/one_put")  # fmt: skip
    # Broken.
    write("reject", "truncated_header", "39 bytes", bytearray(example[:39]), ["IDX-LAY-5"],
          ["ERR-28"])  # fmt: skip
    write("reject", "truncated_entries", "cut in the middle of entry 4: it keeps its hash",
          bytearray(example[:144]), ["IDX-LAY-5"], ["ERR-28"])  # fmt: skip
    write("reject", "index_count_beyond_geometry", "one more than the places there are",
          changed((36, ">i", 6)), ["IDX-HDR-8", "IDX-LIM-3"], ["ERR-16"])  # fmt: skip
    write("reject", "index_count_huge", "2147483647: nothing may be allocated for it",
          changed((36, ">i", 2**31 - 1)), ["IDX-HDR-8", "IDX-LIM-3", "IDX-SEC-1"],
          ["ERR-16"])  # fmt: skip
    write("reject", "position_wraps", "214748365 * 20 is 4 in 32 bits",
          changed((36, ">i", 2**31 - 1), (40, ">i", 214748365)),
          ["IDX-SEL-6", "IDX-HDR-8"], ["ERR-16"],
          queries=[*by_time, ("", 64, *ALWAYS)])  # fmt: skip
    write("reject", "slot_negative", "the broker takes the slot for empty",
          changed((slot_4, ">i", -1)), ["IDX-SLT-3", "IDX-PUT-2", "IDX-LKP-3"],
          ["ERR-3"])  # fmt: skip
    write("reject", "slot_beyond_index_count", "the broker takes the slot for empty",
          changed((slot_4, ">i", 2**31 - 1)), ["IDX-SLT-3", "IDX-LKP-3"], ["ERR-3"])  # fmt: skip
    write("reject", "entry_of_other_slot", "slot 4 names entry 3, which belongs to slot 1",
          changed((slot_4, ">i", 3)), ["IDX-ENT-7", "IDX-LKP-3"], [])  # fmt: skip
    write("reject", "key_hash_negative", "entry 4",
          changed((entry[4] + hash_offset, ">i", -5)), ["IDX-ENT-3"], ["ERR-14"])  # fmt: skip
    write("reject", "time_diff_negative", "entry 4: the broker stops before testing it",
          changed((entry[4] + diff_offset, ">i", -1)), ["IDX-ENT-5", "IDX-SEL-4"],
          ["ERR-14"])  # fmt: skip
    write("reject", "prev_position_negative", "entry 4",
          changed((entry[4] + prev_offset, ">i", -1)), ["IDX-ENT-6", "IDX-SEL-4"],
          ["ERR-14"])  # fmt: skip
    write("reject", "prev_position_self", "entry 4 names itself",
          changed((entry[4] + prev_offset, ">i", 4)), ["IDX-ENT-6", "IDX-SEL-4"],
          ["ERR-14"])  # fmt: skip
    write("reject", "prev_position_newer", "entry 1 names entry 3",
          changed((entry[1] + prev_offset, ">i", 3)), ["IDX-ENT-6"], ["ERR-14"])  # fmt: skip
    write("reject", "prev_position_beyond_index_count", "entry 4 names entry 1000",
          changed((entry[4] + prev_offset, ">i", 1000)), ["IDX-ENT-6", "IDX-SEL-4"],
          ["ERR-14"])  # fmt: skip
    loop = changed((entry[1] + prev_offset, ">i", 4))
    write("reject", "cycle_with_match", "entries 4 and 1 name each other",
          loop, ["IDX-SEL-7", "IDX-ENT-6", "IDX-LIM-4"], ["ERR-15"], queries=by_time)  # fmt: skip
    absent = next(
        f"TopicTest#absent-{i}" for i in range(100) if oracle.key_hash(f"TopicTest#absent-{i}") % 5 == 4
    )
    write("reject", "cycle_without_match",
          "entries 4 and 1 name each other, and the key asked for is neither",
          loop, ["IDX-SEL-7", "IDX-CON-3", "IDX-LIM-4", "IDX-SEC-1"], ["ERR-15"],
          queries=[(absent, 64, *ALWAYS)])  # fmt: skip
    square = cases["slots_16_num_32"]
    write("reject", "same_size_other_geometry",
          "the bytes of slots_16_num_32 in another geometry of the same size: a scan is content",
          bytearray.fromhex(square["file_hex"]), ["IDX-GEO-1", "IDX-LOD-4", "IDX-ENT-7"],
          ["ERR-10"], geometry=(11, 33), on="accept/slots_16_num_32",
          queries=[(put["key"], 64, *ALWAYS) for put in square["puts"]])  # fmt: skip
    write("reject", "time_beyond_i64", "begin_timestamp is so late that entries 2 to 4 overflow",
          changed((0, ">q", 2**63 - 1000)), ["IDX-TIM-3", "IDX-TIM-4"], [],
          queries=[(ours, 64, *ALWAYS), (other, 64, -(2**63), 2**63 - 1)])  # fmt: skip


def resumed(out: Vectors, cases: dict[str, dict[str, Any]]) -> None:
    """Write a put onto a file whose slot is broken."""
    case = cases["exactly_full"]
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
            requirements=["IDX-PUT-2", "IDX-LKP-3"],
            errata=["ERR-3"],
            keys=[put["key"]],
            broker={"queries": broker_queries(after, [(put["key"], 64, *ALWAYS)])},
            writer={"resume_hex": before.data.hex(), "puts": [{**put, "result": True}]},
        ),
        bytes(after.data),
    )


def directories(out: Vectors) -> None:
    """Write file sets as RocketMQ loaded, searched, expired and recovered them."""
    for case in load("load_cases.json"):
        name = f"load_{case['name']}"
        requirements, errata = LOAD_CASES[case["name"]]
        out.write_files(
            name, [(f["name"], bytes.fromhex(f["hex"])) for f in case["dir"] if f["hex"] is not None]
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


def message_of(case: dict[str, Any]) -> dict[str, Any]:
    """Return a golden message in the vectors' own terms."""
    return {
        "topic": case["topic"],
        "unique_key": case["uniq_key"],
        "keys": case["keys"],
        "sys_flag": case["sys_flag"],
        "phy_offset": case["commitlog_offset"],
        "store_timestamp": case["store_timestamp"],
    }


def builds(out: Vectors) -> None:
    """Write file sets as RocketMQ built them from messages, and a few by the spec's steps."""
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

    def by_steps(
        name: str, note: str, slots: int, places: int, messages: list[dict[str, Any]],
        queries: list[tuple[str, str, int, int, int]], requirements: list[str], errata: list[str],
    ) -> None:  # fmt: skip
        directory = oracle.Directory(slots, places)
        for m in messages:
            directory.build(m["topic"], m["unique_key"], m["keys"], m["sys_flag"],
                            m["phy_offset"], m["store_timestamp"])  # fmt: skip
        names = [f"2026010100000{number:04d}" for number in range(len(directory.files))]
        for file in directory.files:
            file.flush()
        out.write_files(
            name, [(n, bytes(f.data)) for n, f in zip(names, directory.files, strict=True)]
        )
        answers = []
        for query in queries:
            found, time, offset = directory.query(*query)
            answers.append(
                dict(zip(("topic", "key", "max_num", "begin", "end"), query, strict=True))
                | {
                    "result": found,
                    "index_last_update_timestamp": time,
                    "index_last_update_phyoffset": offset,
                }
            )
        out.write(
            "accept",
            name,
            {
                "kind": "build",
                "note": note,
                "source": "by the spec's steps",
                "requirements": requirements,
                "errata": errata,
                "hash_slot_num": slots,
                "index_num": places,
                "messages": messages,
                "files": names,
                "index_msg_timestamp": directory.index_msg_timestamp,
                "queries": answers,
            },
        )

    def message(offset: int, keys: str | None, flag: int = 0) -> dict[str, Any]:
        return {
            "topic": "T", "unique_key": None, "keys": keys, "sys_flag": flag,
            "phy_offset": offset, "store_timestamp": 1_700_000_000_000 + offset,
        }  # fmt: skip

    by_steps("build_rolls_for_a_skipped_message",
             "two keys fill the file; the rolled-back message is not indexed but creates the next one",
             3, 3, [message(100, "a b"), message(200, "c", 12)], [("T", "a", 64, *ALWAYS)],
             ["IDX-BLD-1", "IDX-BLD-3"], ["ERR-21"])  # fmt: skip
    by_steps("query_cap", "seventy messages with one key: a query gives 64, whatever it asks for",
             3, 40, [message(100 + 100 * number, "hot") for number in range(70)],
             [("T", "hot", 1000, *ALWAYS), ("T", "hot", 65, *ALWAYS), ("T", "hot", 3, *ALWAYS)],
             ["IDX-QRY-1", "IDX-QRY-2"], ["ERR-20"])  # fmt: skip


def redispatch(out: Vectors) -> None:
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
            "requirements": ["IDX-REC-2", "IDX-BLD-2"],
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


def tables(out: Vectors) -> None:
    """Write the vectors that are tables: hashes, names, message keys, properties, checkpoint."""
    hashes = [case for case in load("hashes.json") if len(case["key"]) <= 60][:200]
    present = {case["key"] for case in hashes}
    hashes += [
        {"key": key, "hash_code": oracle.hash_code(key), "index_hash": oracle.key_hash(key)}
        for key in ("TopicTest#order-1", "AaTopic#BB", "BBTopic#Aa", "AaTopic#Aa", "T#a#b",
                    "polygenelubricants", "\u4e2d\u6587", "\ud83d\ude00", "\ud83d", "\u00e9",
                    "e\u0301")
        if key not in present
    ]  # fmt: skip
    out.write("accept", "key_hashes", {
        "kind": "hashes",
        "note": "hash code and key hash of texts, some with unpaired surrogates",
        "source": ROCKETMQ,
        "requirements": ["IDX-HSH-1", "IDX-HSH-2", "IDX-HSH-3", "IDX-HSH-5"],
        "errata": ["ERR-2"],
        "hashes": [{"key": case["key"], "hash_code": case["hash_code"],
                    "key_hash": case["index_hash"]} for case in hashes],
    })  # fmt: skip
    accepted = ["20231114221320000", "0", "10", "9", "+5", "-7", "-0", "00000000000000000000001",
                "9223372036854775807", "-9223372036854775808", "\u0661\u0662", "\uff11"]  # fmt: skip
    refused = ["", "+", "-", " 12", "12 ", "1_0", "1.0", "0x10", "1e3", "x.tmp", ".DS_Store",
               "20231114221322222.bak", "99999999999999999999", "9223372036854775808",
               "-9223372036854775809", "--1", "\u00b2", "\u4e00", "1,000", "12\n"]  # fmt: skip
    assert all(map(oracle.is_index_name, accepted))
    assert not any(map(oracle.is_index_name, refused))
    out.write("accept", "index_names", {
        "kind": "names",
        "note": "names that Java's Long.parseLong accepts and refuses",
        "source": "java.lang.Long.parseLong, as documented; some of them also in the load vectors",
        "requirements": ["IDX-NAM-3"],
        "errata": ["ERR-27"],
        "accepted": accepted,
        "refused": refused,
    })  # fmt: skip
    messages = []
    for case in load("service_vectors.json"):
        for golden in case["messages"]:
            message = {key: value for key, value in message_of(golden).items()
                       if key not in ("phy_offset", "store_timestamp")}  # fmt: skip
            if message not in messages and len(messages) < 60:
                messages.append(message)
    messages += [
        {"topic": "T", "unique_key": "", "keys": None, "sys_flag": 0},
        {"topic": "T", "unique_key": None, "keys": "a,b", "sys_flag": 4},
        {"topic": "T", "unique_key": None, "keys": "a\tb  c ", "sys_flag": 8},
        {"topic": "T", "unique_key": "u", "keys": "u u", "sys_flag": 3},
        {"topic": "T", "unique_key": "u", "keys": "k", "sys_flag": 12},
        {"topic": "a#b", "unique_key": None, "keys": "c#d", "sys_flag": 0},
    ]
    out.write("accept", "message_keys", {
        "kind": "messages",
        "note": "the index keys of messages, in the order of the puts",
        "source": f"messages given to {ROCKETMQ}, whose files have these entries; some by the steps",
        "requirements": ["IDX-BLD-3", "IDX-BLD-4", "IDX-BLD-5", "IDX-HSH-1"],
        "errata": ["ERR-23", "ERR-24"],
        "messages": [m | {"index_keys": oracle.message_keys(m["topic"], m["unique_key"], m["keys"],
                                                            m["sys_flag"])}
                     for m in messages],
    })  # fmt: skip
    properties = [
        ("UNIQ_KEY\x01\x02KEYS\x01\x02TAGS\x01\x02", {}),
        ("EMPTY\x01\x02junk\x02KEYS\x01first\x02a\x01b\x01c\x02x\x01\x02"
         "UNIQ_KEY\x01B171EA409686C576733AC29C0000025D\x02\x01noname\x02"
         "KEYS\x01second third\x02TAGS\x01T",
         {"KEYS": "second third", "TAGS": "T", "UNIQ_KEY": "B171EA409686C576733AC29C0000025D",
          "a": "b\x01c"}),
    ]  # fmt: skip
    assert all(oracle.message_properties(text) == expected for text, expected in properties)
    out.write("accept", "message_properties", {
        "kind": "properties",
        "note": "empty values, pieces without a name or a separator, repeated names, no final one",
        "source": ROCKETMQ,
        "requirements": ["IDX-BLD-7"],
        "errata": ["ERR-30"],
        "properties": [{"text": text, "decoded": expected} for text, expected in properties],
    })  # fmt: skip
    data = (HERE.parent / "format" / "rmqindex" / "sample" / "store" / "checkpoint").read_bytes()
    fields = dict(zip(("physic_msg_timestamp", "logics_msg_timestamp", "index_msg_timestamp",
                       "master_flushed_offset", "confirm_phy_offset"),
                      struct.unpack(">5q", data[:40]), strict=True))  # fmt: skip
    least = max(0, min(fields["physic_msg_timestamp"], fields["logics_msg_timestamp"]) - 3000)
    out.write("accept", "checkpoint", {
        "kind": "checkpoint",
        "note": "the checkpoint of a store after a clean shutdown",
        "source": ROCKETMQ,
        "requirements": ["IDX-CKP-1", "IDX-CKP-3"],
        "errata": ["ERR-26"],
        "fields": fields,
        "min_timestamp": least,
        "min_timestamp_index": min(least, fields["index_msg_timestamp"]),
    }, data)  # fmt: skip


def main(root: Path) -> None:
    """Write everything below a directory."""
    out = Vectors(root)
    cases = golden_files(out)
    mutations(out, cases)
    resumed(out, cases)
    directories(out)
    builds(out)
    redispatch(out)
    tables(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "vectors")
