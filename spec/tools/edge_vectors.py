"""Vectors of the edges: what RocketMQ's classes did there (``edge_cases.json``)."""

from __future__ import annotations

import struct
from typing import Any

import oracle
from golden import load
from vectorlib import ALWAYS, Vectors, broker_queries, file_vector

T0 = 1_700_000_000_000
KEYS = ("T#a", "T#f", "T#k", "T#p")
SLOTS, PLACES = 5, 8


def edge_cases() -> dict[str, dict[str, Any]]:
    """Return the newest versions' answers, by case."""
    return {case["name"]: case["answers"][-1]["answer"] for case in load("edge_cases.json")}


def versions_of(name: str) -> str:
    """Return the versions that gave the newest answer of a case, for a vector's source."""
    (case,) = (each for each in load("edge_cases.json") if each["name"] == name)
    return "RocketMQ " + ", ".join(case["answers"][-1]["rocketmq"])


def file_of(keys: list[str], slots: int = SLOTS, places: int = PLACES) -> oracle.File:
    """Return a file of puts that come a second apart, each at the offset of its number."""
    file = oracle.File.create(slots, places)
    for number, key in enumerate(keys, 1):
        assert file.put(key, 1000 * number, T0 + 1000 * number)
    return file


def offsets(answer: str) -> list[int]:
    """Return the offsets that an answer lists."""
    return [int(each) for each in answer.strip("[]").split(", ") if each]


def _write_puts(out: Vectors, cases: dict[str, Any]) -> None:
    """Write files that were gone on with."""
    for name, case_name, note, requirements, errata in (
        (
            "put_on_torn_put",
            "put_on_a_torn_put",
            "put 3 was torn; the next one on its slot names itself and cuts off entry 1",
            ["IDX-PUT-2", "IDX-ENT-6", "IDX-ENT-12", "IDX-HDR-4", "IDX-OPS-4"],
            ["ERR-31"],
        ),
        (
            "put_on_torn_first_put",
            "put_on_a_torn_first_put",
            "the same for the first put: a file with an entry in which no slot is counted",
            ["IDX-PUT-2", "IDX-ENT-6", "IDX-ENT-12", "IDX-HDR-4"],
            ["ERR-31"],
        ),
    ):
        case = cases[case_name]
        data = bytes.fromhex(case["hex"])
        file = oracle.File(SLOTS, PLACES, bytearray(data))
        answers = broker_queries(file, [(key, 64, *ALWAYS) for key in KEYS[:3]])
        for answer, told in zip(answers, case["selected_after"], strict=False):
            assert answer["result"] == offsets(told)
        description = file_vector(
            file,
            note=note,
            source=versions_of(case_name),
            requirements=[*requirements, "IDX-CON-1", "IDX-CON-2"],
            errata=errata,
            keys=list(KEYS[:3]),
            broker={"queries": answers},
            writer={"resume_hex": case["torn_hex"], "puts": [{**case["put"], "result": True}]},
        )
        out.write("reject", name, description, data)
    case = cases["put_counts_that_wrap"]
    data = bytes.fromhex(case["hex"])
    file = oracle.File(SLOTS, PLACES, bytearray(data))
    description = file_vector(
        file,
        note="hash_slot_count goes from 2147483647 to -2147483648; a store time 2^63 earlier "
        "gives a difference that wraps around and is clipped",
        source=versions_of("put_counts_that_wrap"),
        requirements=["IDX-OPS-4", "IDX-PUT-4", "IDX-HDR-5"],
        errata=["ERR-5"],
        keys=[put["key"] for put in case["puts"]],
        broker={"queries": broker_queries(file, [(KEYS[1], 64, *ALWAYS)])},
        writer={
            "resume_hex": case["resume_hex"],
            "puts": [put | {"result": True} for put in case["puts"]],
        },
    )
    out.write("accept", "put_counts_that_wrap", description, data)


def _write_one_millisecond(out: Vectors, cases: dict[str, Any]) -> None:
    data = bytes.fromhex(cases["one_millisecond"]["first_flushed"])
    file = oracle.File(2, 3, bytearray(data))
    description = file_vector(
        file,
        note="a full file of two entries, opened as its own successor: entry 1 is overwritten",
        source=versions_of("one_millisecond"),
        requirements=["IDX-NAM-2", "IDX-ENT-12", "IDX-CON-1", "IDX-CON-2"],
        errata=["ERR-32"],
        keys=["a", "b", "c"],
        broker={"queries": broker_queries(file, [(key, 64, *ALWAYS) for key in "abc"])},
    )
    out.write("reject", "two_files_of_one_millisecond", description, data)


OUTSIDE = {
    "surplus": "the slot names the place behind the last one, where surplus bytes hold an entry",
    "last_place": "the slot names the last place, which was never written: hash 0, offset 0",
    "header": "position 1073741821 wraps to byte 0: the header is read as an entry",
    "slots": "position 1073741823 wraps to byte 40: slots are read as an entry",
    "before_the_header": "position 1073741820 wraps to byte -20",
    "sum_wraps": "20 * 107374180 fits an i32, 60 more does not",
}


def _write_outside(out: Vectors, cases: dict[str, Any]) -> None:
    for name, case in cases["outside"]["cases"].items():
        data = bytes.fromhex(case["hex"])
        file = oracle.File(SLOTS, PLACES, bytearray(data))
        answers = broker_queries(file, [(case["key"], 64, *ALWAYS)])
        assert answers[0]["result"] == offsets(case["result"])
        description = file_vector(
            file,
            note=f"index_count is 2147483647; {OUTSIDE[name]}",
            source=versions_of("outside"),
            requirements=["IDX-SEL-6", "IDX-ENT-9", "IDX-OPS-7", "IDX-CON-1", "IDX-CON-2"],
            errata=["ERR-16"],
            keys=[case["key"]],
            broker={"queries": answers},
        )
        title = name.replace("_the_", "_")
        title = title if title.startswith(("sum", "before")) else f"in_{title}"
        out.write("reject", f"position_{title}", description, data)


def _write_loops(out: Vectors, cases: dict[str, Any]) -> None:
    case = cases["loops"]
    data = bytes.fromhex(case["hex"])
    file = oracle.File(1, PLACES, bytearray(data))
    asked = [(*told.split(), *ALWAYS) for told in case["select"]]
    queries = [(key, int(number), begin, end) for key, number, begin, end in asked]
    answers = broker_queries(file, [*queries, ("x", 64, T0 + 3500, ALWAYS[1])])
    told = [*case["select"].values(), case["late"]]
    for answer, expected in zip(answers, told, strict=True):
        assert answer["result"] == ("reject" if expected == "hangs" else offsets(expected))
    description = file_vector(
        file,
        note="entry 3 names entry 4; a match before the loop does not save the lookup, "
        "a full list or a time before begin does",
        source=f"{versions_of('loops')}, where the broker hangs rejected",
        requirements=["IDX-SEL-7", "IDX-SEL-8", "IDX-OPS-7", "IDX-CON-1", "IDX-CON-2"],
        errata=["ERR-15"],
        keys=list("abcdefx"),
        broker={"queries": answers},
    )
    out.write("reject", "loop_behind_a_match", description, data)


def _load_vector(
    out: Vectors,
    name: str,
    note: str,
    source: str,
    requirements: list[str],
    errata: list[str],
    contents: dict[str, bytes | None],
    queries: list[tuple[str, int]],
    *,
    slots: int = SLOTS,
    last_exit_ok: bool = True,
    extra: dict[str, Any] | None = None,
) -> list[Any]:
    """Write a directory with what the steps answer; return the answers."""
    directory = oracle.Directory(slots, PLACES)
    result, loaded, left = directory.load(contents, last_exit_ok=last_exit_ok)
    answers = []
    for key, max_num in queries:
        asked = {"topic": "T", "key": key, "max_num": max_num, "begin": 0, "end": ALWAYS[1]}
        try:
            found, time, offset = directory.query(**asked)
        except oracle.Rejected:
            told = ("reject", None, None)
        else:
            told = (found, time, offset)
        names = ("result", "index_last_update_timestamp", "index_last_update_phyoffset")
        answers.append(asked | dict(zip(names, told, strict=True)))
    out.write_files(name, [(each, data) for each, data in contents.items() if data is not None])
    out.write(
        "accept",
        name,
        {
            "kind": "load",
            "note": note,
            "source": source,
            "requirements": requirements,
            "errata": errata,
            "hash_slot_num": slots,
            "index_num": PLACES,
            "last_exit_ok": last_exit_ok,
            "index_msg_timestamp": 0,
            "directory": [
                {"name": each, "type": "directory" if data is None else "file"}
                for each, data in contents.items()
            ],
            "load_result": result,
            "loaded": loaded,
            "directory_after_load": left,
            "queries": answers,
            **(extra or {}),
        },
    )
    return answers


def _write_sets(out: Vectors, cases: dict[str, Any]) -> None:
    numbers = (0, -1, -(2**31), 2**31 - 1)
    for name, told in cases["max_num"]["query"].items():
        contents: dict[str, bytes | None] = {}
        if name == "filled":
            contents["20260101000000000"] = bytes(file_of(list(KEYS)).data)
        answers = _load_vector(
            out,
            f"query_max_num_{name}",
            "0 gives none; fewer than 0 fails, with files or without",
            versions_of("max_num"),
            ["IDX-QRY-6", "IDX-SEL-5", "IDX-OPS-11"],
            ["ERR-33"],
            contents,
            [("a", number) for number in numbers],
        )
        for answer, expected in zip(answers, told.values(), strict=True):
            assert (answer["result"] == "reject") == expected.startswith("throws")
    case = cases["loop_in_an_older_file"]
    names = ("20260101000000000", "20260101000000001")
    answers = _load_vector(
        out,
        "query_over_a_loop",
        "the newer file answers, the older one has a loop: one result is enough, two reject",
        f"{versions_of('loop_in_an_older_file')}, where the broker hangs rejected",
        ["IDX-QRY-7", "IDX-SEL-7", "IDX-OPS-11"],
        ["ERR-15"],
        dict(zip(names, map(bytes.fromhex, case["files"]), strict=True)),
        [("a", 1), ("a", 2)],
        slots=1,
    )
    assert [answer["result"] for answer in answers] == [[1000], "reject"]
    file = bytes(file_of(["T#a"]).data)
    load_case = cases["load"]["failure_after_a_crash"]
    _load_vector(
        out,
        "load_failure_after_a_crash",
        "1 is deleted before the directory 2 ends the load; 3 is not looked at",
        versions_of("load"),
        ["IDX-LOD-1", "IDX-LOD-6", "IDX-REC-1", "IDX-OPS-10"],
        ["ERR-26", "ERR-27"],
        {"1": file, "2": None, "3": file},
        [("a", 64)],
        last_exit_ok=False,
    )
    assert load_case["directory"] == ["2", "3"]
    assert load_case["files"] == "files"
    _load_vector(
        out,
        "load_failure",
        "what was loaded before the directory 2 answers",
        versions_of("load"),
        ["IDX-LOD-1", "IDX-LOD-6"],
        ["ERR-27"],
        {"1": file, "2": None, "3": file},
        [("a", 64)],
    )
    _load_vector(
        out,
        "load_total_size",
        "files of 220, 320 and 60 bytes count 220 each",
        versions_of("total_size"),
        ["IDX-LOD-8"],
        ["ERR-28"],
        {"1": file, "2": file + bytes(100), "3": file[:60]},
        [("a", 64)],
        extra={"total_size": int(cases["total_size"]["total_size"])},
    )


def _write_editions(out: Vectors) -> None:
    """Write the same messages as each edition writes them."""
    (case,) = (each for each in load("edge_cases.json") if each["name"] == "editions")
    editions = []
    for group in case["answers"]:
        answer = group["answer"]
        editions.append(
            {
                "edition": EDITION_OF[group["rocketmq"][0]],
                "rocketmq": group["rocketmq"],
                "files": answer["files"],
                "index_msg_timestamp": int(answer["index_msg_timestamp"]),
            }
        )
    (headers,) = (
        each for each in load("edge_cases.json") if each["name"] == "header_reaches_bytes"
    )
    closed = []
    for group in headers["answers"]:
        file = group["answer"]["files"]["rolled"]
        told = {"rocketmq": group["rocketmq"], "hash_slot_num": 2, "index_num": 3}
        seed = dict(zip(("prev_end_phy_offset", "prev_end_timestamp"), file["seed"], strict=True))
        closed.append(told | seed | {"created": file["created"], "closed": file["closed"]})
    out.write(
        "accept",
        "editions",
        {
            "kind": "editions",
            "note": "the same messages, written by eight versions and shut down",
            "source": "RocketMQ, the versions named",
            "requirements": [
                "IDX-EDN-1",
                "IDX-EDN-2",
                "IDX-HDR-4",
                "IDX-HDR-6",
                "IDX-OPS-2",
                "IDX-OPS-5",
                "IDX-BLD-8",
                "IDX-OPS-12",
                "IDX-OPS-13",
                "IDX-OPS-14",
            ],
            "errata": ["ERR-4"],
            "hash_slot_num": SLOTS,
            "index_num": PLACES,
            "messages": case["answers"][-1]["answer"]["messages"],
            "editions": editions,
            "files_without_entries": closed,
        },
    )


EDITION_OF = {"4.0.0-incubating": "4.0", "4.7.1": "4.7.1", "5.4.0": "5.4"}


def _write_texts(out: Vectors, cases: dict[str, Any]) -> None:
    decoded = {
        bytes.fromhex(data): bytes.fromhex(units).decode("utf-16-be", "surrogatepass")
        for data, units in cases["utf8"]["decoded"].items()
    }
    for data, text in decoded.items():
        assert oracle.decode_utf8(data) == text, data.hex()
    out.write(
        "accept",
        "malformed_utf8",
        {
            "kind": "texts",
            "note": "bytes, the text that they decode to, and its key hash",
            "source": "Java 17, which RocketMQ decodes with",
            "requirements": ["IDX-HSH-6"],
            "errata": [],
            "texts": [
                {"hex": data.hex(), "text": text, "key_hash": oracle.key_hash(text)}
                for data, text in decoded.items()
            ],
        },
    )


def _write_geometries(out: Vectors) -> None:
    """Write files with the geometry that is found in them."""
    files = {
        path.stem: path.read_bytes()
        for path in sorted((out.root / "accept").glob("*.bin"))
        if path.stem != "checkpoint" and path.stat().st_size <= 1200
    }
    example, torn = files["worked_example"], files["torn_put"]
    files |= {
        "header_only": bytes(40),
        "one_byte_short_of_a_header": bytes(39),
        "one_surplus_byte": example + b"\0",
        "twenty_surplus_bytes": example + bytes(20),
        "slot_at_the_end": example[:56] + struct.pack(">i", 5) + example[60:],
        "torn_put_beyond_the_end": torn[:56] + struct.pack(">i", 5) + torn[60:],
        "put_on_torn_put": (out.root / "reject" / "put_on_torn_put.bin").read_bytes(),
    }
    cases = []
    for name, data in files.items():
        result: Any
        try:
            found = oracle.discover_geometry(data)
        except oracle.Rejected:
            result = "reject"
        else:
            names = ("hash_slot_num", "index_num")
            result = "no entries" if found is None else dict(zip(names, found, strict=True))
        cases.append({"name": name, "hex": data.hex(), "result": result})
    out.write(
        "accept",
        "geometries",
        {
            "kind": "geometries",
            "note": "files, and the geometry that agrees with each; a reader may reject any",
            "source": "the accept vectors and changes of them; by the spec's steps",
            "requirements": ["IDX-GEO-2", "IDX-GEO-3", "IDX-GEO-4", "IDX-OPS-17"],
            "errata": ["ERR-10"],
            "geometries": cases,
        },
    )


def write_edges(out: Vectors) -> None:
    """Write all of them, behind the files of which some are made."""
    cases = edge_cases()
    _write_puts(out, cases)
    _write_one_millisecond(out, cases)
    _write_outside(out, cases)
    _write_loops(out, cases)
    _write_sets(out, cases)
    _write_editions(out)
    _write_texts(out, cases)
    _write_geometries(out)
