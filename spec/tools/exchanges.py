"""Requests with the answers they must get, for requirements that no vector of a file shows."""

from __future__ import annotations

import json
import struct
from typing import Any

import spectext
from boundary_exchanges import boundary_exchanges
from edge_exchanges import edge_exchanges
from log_exchanges import log_exchanges
from queue_exchanges import queue_exchanges
from step_exchanges import step_exchanges
from store_exchanges import case, store_exchanges
from store_steps import store_steps

WRITER, MENDER = "strict_writer", "mending_writer"
STRICT, LENIENT = "strict_reader", "lenient_reader"
LOADER = "broker_faithful_loader"
NEW = ["4.7.1", "5.0", "5.4", "5.5"]
ALL = ["4.0", *NEW]
FILE_NAME = "20260101000000000"


def exchanges() -> dict[str, bytes]:
    """Return the files of exchanges, by their paths in the archive."""
    made = {"limits": _limits(), "checkpoint": _checkpoint(), "geometry": _geometry()}
    made |= {"crash": [*_crash(), *_full()], "slots": _slots(), "positions": _positions()}
    made |= {"surplus": _surplus(), "directories": _directories(), "store": store_exchanges()}
    made |= {"resumed": _resumed(), "faults": _faults(), "edges": edge_exchanges()}
    made |= {"logs": log_exchanges(), "queues": queue_exchanges()}
    made |= {"boundaries": boundary_exchanges(), "steps": step_exchanges()}
    made |= {"store_steps": store_steps()}
    return {
        f"exchanges/{name}.json": (json.dumps({"cases": cases}, indent=1) + "\n").encode("ascii")
        for name, cases in made.items()
    }


def _limits() -> list[dict[str, Any]]:
    seed = {"prev_end_phy_offset": 0, "prev_end_timestamp": 0, "puts": []}
    return [
        case(
            f"a file of {slots} slots and {places} places",
            "put",
            {"hash_slot_num": slots, "index_num": places, **seed},
            {"reject": {}},
            ["IDX-LIM-1"],
            **{"class": WRITER, "editions": ALL},
        )
        for slots, places in ((0, 5), (5, 0), (-1, 5), (5, -1), (1, 107_374_181), (2, 107_374_180))
    ] + [*_one_place(), *_no_geometry(), *_read_without_a_geometry(), *_named_geometries()]


def _one_place() -> list[dict[str, Any]]:
    message = {"topic": "T", "unique_key": None, "keys": None, "sys_flag": 0}
    message |= {"phy_offset": 0, "store_timestamp": 1_700_000_000_000}
    return [
        case(
            "a set of files of one place",
            "build",
            {"hash_slot_num": 5, "index_num": 1, "messages": [message]},
            {"reject": {}},
            ["IDX-BLD-9"],
            **{"class": WRITER, "editions": ALL},
        )
    ]


def _no_geometry() -> list[dict[str, Any]]:
    """Geometries that no file has, for what makes a file, builds a set or loads one."""
    seed = {"prev_end_phy_offset": 0, "prev_end_timestamp": 0}
    loaded = {"directory": [], "writable": True, "last_exit_ok": True, "index_msg_timestamp": 0}
    return [
        case(
            f"{operation} with {slots} slots and {places} places",
            operation,
            {"hash_slot_num": slots, "index_num": places, **told},
            {"reject": {"field": "hash_slot_num" if slots < 1 else "index_num"}},
            ["IDX-LIM-1" if claimed == WRITER else "IDX-LIM-5"],
            **{"class": claimed, **({"editions": ALL} if claimed == WRITER else {})},
        )
        for operation, told, claimed in (
            ("create", seed, WRITER),
            ("build", {"messages": []}, WRITER),
            ("load", loaded, LOADER),
        )
        for slots, places in ((0, 5), (5, -1))
    ]


def _read_without_a_geometry() -> list[dict[str, Any]]:
    data = (spectext.VECTORS / "accept/worked_example.bin").read_bytes()
    return [
        case(
            f"a {reader.replace('_', ' ')} of {slots} slots and {places} places",
            "scan",
            {
                "hash_slot_num": slots,
                "index_num": places,
                "file": {"name": FILE_NAME, "hex": data.hex()},
            },
            {"reject": {}},
            ["IDX-LIM-5"],
            **{"class": reader},
        )
        for reader in (STRICT, LENIENT)
        for slots, places in ((0, 5), (5, 0), (-1, 5), (1, 214_748_365))
    ]


def _named_geometries() -> list[dict[str, Any]]:
    """What a rejection of a geometry or of an argument names."""
    data = (spectext.VECTORS / "accept/worked_example.bin").read_bytes()
    file = {"file": {"name": FILE_NAME, "hex": data.hex()}}
    shape = {"hash_slot_num": 5, "index_num": 5}
    told = [
        (
            f"{slots} slots and {places} places",
            "scan",
            {"hash_slot_num": slots, "index_num": places},
            field,
        )
        for slots, places, field in (
            (0, 0, "hash_slot_num"),
            (5, 0, "index_num"),
            (1, 107_374_181, "file_size"),
        )
    ]
    told.append(("a negative hash", "lookup", {**shape, "key_hash": -1}, "key_hash"))
    return [
        case(
            f"{name} asked of a {reader.replace('_', ' ')}, the error",
            operation,
            {**asked, **file},
            {"reject": {"field": field, "said": ["found"]}},
            ["IDX-CON-2", "IDX-LIM-5" if operation == "scan" else "IDX-OPS-1"],
            **{"class": reader},
        )
        for reader in (STRICT, LENIENT)
        for name, operation, asked, field in told
    ]


def _checkpoint() -> list[dict[str, Any]]:
    names = (
        "physic_msg_timestamp",
        "logics_msg_timestamp",
        "index_msg_timestamp",
        "master_flushed_offset",
        "confirm_phy_offset",
    )

    def of(*values: int, rest: bytes = b"") -> tuple[str, dict[str, int]]:
        data = b"".join(value.to_bytes(8, "big", signed=True) for value in values) + rest
        return data.ljust(4096, b"\0").hex(), dict(zip(names, values, strict=True))

    sixth = (123_456_789).to_bytes(8, "big") + b"\x5a" * 16
    before, _ = of(5, 6, 7, 8, 9, rest=sixth)
    after, fields = of(1_700_000_000_000, 1_700_000_000_500, 1_600_000_000_000, -1, 2, rest=sixth)
    young, young_fields = of(2999, 5000, 9, 0, 0)
    old, old_fields = of(1_700_000_000_000, 1_700_000_900_000, 1_600_000_000_000, 0, 0)
    wrapped, wrapped_fields = of(-(2**63), 0, 5, 0, 0)
    # It ends within the third field.
    short = bytes.fromhex(old)[:20]
    third = int.from_bytes(short[16:] + bytes(4), "big")
    short_fields = {**old_fields, "index_msg_timestamp": third}
    return [
        case(
            "what stands behind the five fields is kept",
            "write_checkpoint",
            {"hex": before, "fields": fields},
            {"answer": {"hex": after}},
            ["IDX-CKP-4", "IDX-CKP-1"],
            **{"class": WRITER},
        ),
        case(
            "a short checkpoint is extended",
            "write_checkpoint",
            {"hex": before[:96], "fields": fields},
            {"answer": {"hex": (after[:80] + before[80:96]).ljust(8192, "0")}},
            ["CHK-FIL-3", "IDX-CKP-1"],
            **{"class": WRITER},
        ),
        case(
            "the least timestamp is never negative",
            "read_checkpoint",
            {"hex": young},
            {"answer": {"fields": young_fields, "min_timestamp": 0, "min_timestamp_index": 0}},
            ["IDX-CKP-3"],
            **{"class": "broker_faithful_reader"},
        ),
        case(
            "a short checkpoint reads as if zeros followed",
            "read_checkpoint",
            {"hex": short.hex()},
            {
                "answer": {
                    "fields": short_fields,
                    "min_timestamp": 1_699_999_997_000,
                    "min_timestamp_index": short_fields["index_msg_timestamp"],
                }
            },
            ["IDX-LOD-7"],
            **{"class": "broker_faithful_reader"},
        ),
        case(
            "nothing is subtracted from the index's",
            "read_checkpoint",
            {"hex": old},
            {
                "answer": {
                    "fields": old_fields,
                    "min_timestamp": 1_699_999_997_000,
                    "min_timestamp_index": 1_600_000_000_000,
                }
            },
            ["IDX-CKP-3"],
            **{"class": "broker_faithful_reader"},
        ),
        case(
            "the least timestamp wraps",
            "read_checkpoint",
            {"hex": wrapped},
            {
                "answer": {
                    "fields": wrapped_fields,
                    "min_timestamp": 2**63 - 3000,
                    "min_timestamp_index": 5,
                }
            },
            ["CHK-MIN-2", "IDX-CKP-3"],
            **{"class": "broker_faithful_reader"},
        ),
    ]


def _geometry() -> list[dict[str, Any]]:
    def asked(name: str) -> dict[str, Any]:
        data = (spectext.VECTORS / f"{name}.bin").read_bytes()
        return {"file": {"name": FILE_NAME, "hex": data.hex()}}

    return [
        case(
            "31 entries prove 16 slots and 32 places",
            "geometry",
            asked("accept/slots_16_num_32"),
            {"answer": {"hash_slot_num": 16, "index_num": 32}},
            ["IDX-GEO-1"],
            **{"class": STRICT},
        ),
        case(
            "no geometry agrees with a file whose chain is broken",
            "geometry",
            asked("reject/prev_position_newer"),
            {"reject": {}},
            ["IDX-GEO-2"],
            **{"class": STRICT},
        ),
    ]


def _resumed() -> list[dict[str, Any]]:
    """A short file that a writer goes on with, and a message before the last one's offset."""
    time = 1_700_000_000_000
    header = struct.pack(">qqqqii", time, time, 100, 100, 1, 2) + struct.pack(">ii", 1, 0)
    short = header + bytes(20) + struct.pack(">iqii", 98, 100, 0, 0)
    shape = {"hash_slot_num": 2, "index_num": 4}
    hashed = 84 * 31 * 31 + 35 * 31 + 97
    put = {"key": "T#a", "phy_offset": 300, "store_timestamp": time + 3000}
    after = struct.pack(">qqqqii", time, time + 3000, 100, 300, 1, 3) + struct.pack(">ii", 2, 0)
    after += bytes(20) + short[-20:] + struct.pack(">iqii", hashed, 300, 3, 1) + bytes(20)
    full = struct.pack(">qqqqii", time, time, 100, 100, 1, 2) + header[40:]
    message = {"topic": "T", "unique_key": None, "keys": "a", "sys_flag": 0}
    message |= {"phy_offset": -5, "store_timestamp": time}
    unused = struct.pack(">qqqqii", 0, 0, 0, 0, 0, 1) + bytes(64)
    # A slot that equals index_count, which a crash left: the entry before is that of its text.
    torn = short.ljust(128, b"\0")
    torn = torn[:40] + struct.pack(">i", 2) + torn[44:]
    mended = after[:40] + struct.pack(">i", 2) + after[44:]
    return [
        case(
            "a short file is extended with zeros",
            "put",
            {**shape, "resume_hex": short.hex(), "puts": [put]},
            {"answer": {"results": [True], "hex": after.hex()}},
            ["IDX-OPS-18"],
            **{"class": WRITER, "editions": NEW},
        ),
        case(
            "a short file that is full is extended, and takes nothing",
            "put",
            {"hash_slot_num": 2, "index_num": 2, "resume_hex": full.hex(), "puts": [put]},
            {"answer": {"results": [False], "hex": full.ljust(88, b"\0").hex()}},
            ["IDX-OPS-18", "IDX-PUT-1"],
            **{"class": WRITER, "editions": NEW},
        ),
        case(
            "a slot that equals index_count is mended before the put",
            "put",
            {**shape, "resume_hex": torn.hex(), "puts": [put]},
            {"answer": {"results": [True], "hex": mended.hex()}},
            ["IDX-PUT-9"],
            **{"class": MENDER, "editions": NEW},
        ),
        case(
            "a negative offset is less than that of a file without entries",
            "build",
            {"hash_slot_num": 1, "index_num": 3, "messages": [message]},
            {"answer": {"hex": [unused.hex()]}},
            ["IDX-BLD-2"],
            **{"class": WRITER, "editions": NEW},
        ),
    ]


def _faults() -> list[dict[str, Any]]:
    """Which fault of an entry is named, of several that it has."""
    time = 1_700_000_000_000
    header = struct.pack(">qqqqiiii", time, time, 100, 200, 1, 3, 2, 0)
    cases = []
    for key_hash, time_diff, prev, field, at in (
        (-1, -1, -1, "key_hash", 88),
        (100, -1, -1, "prev_position", 104),
        (100, -1, 5, "prev_position", 104),
        (100, -1, 1, "time_diff", 100),
    ):
        entries = struct.pack(">iqii", 98, 100, 0, 0)
        entries += struct.pack(">iqii", key_hash, 200, time_diff, prev)
        file = {"name": FILE_NAME, "hex": (header + bytes(20) + entries).hex()}
        cases.append(
            case(
                f"an entry with {key_hash}, {time_diff} and {prev} is rejected for its {field}",
                "scan",
                {"hash_slot_num": 2, "index_num": 3, "file": file},
                {"reject": {"field": field, "byte": at}},
                ["IDX-CON-2", "IDX-OPS-6"],
                **{"class": STRICT},
            )
        )
    return cases


def _slots() -> list[dict[str, Any]]:
    header = "0000018bcfe56800" * 2 + f"{1:016x}{2:016x}{1:08x}{3:08x}"
    slots = f"{2:08x}{0:08x}"
    # The hashes of the texts "b" and "d": 98 and 100, both even.
    entries = "00" * 20 + f"{98:08x}{1:016x}{0:08x}{0:08x}" + f"{100:08x}{2:016x}{0:08x}{1:08x}"
    puts = [
        {"key": key, "phy_offset": offset, "store_timestamp": 1_700_000_000_000}
        for key, offset in (("b", 1), ("d", 2))
    ]
    return [
        case(
            "two puts in one slot count one slot",
            "put",
            {
                "hash_slot_num": 2,
                "index_num": 3,
                "prev_end_phy_offset": 0,
                "prev_end_timestamp": 0,
                "puts": puts,
            },
            {"answer": {"results": [True, True], "hex": header + slots + entries}},
            ["IDX-HDR-4"],
            **{"class": WRITER, "editions": NEW},
        )
    ]


def _positions() -> list[dict[str, Any]]:
    """Positions beyond the file: 2^30 + 4 wraps around to the byte of entry 4."""
    vector = spectext.vectors()["accept/worked_example"]
    whole = bytearray((spectext.VECTORS / "accept/worked_example.bin").read_bytes())
    whole[36:40] = (2**31 - 1).to_bytes(4, "big")
    cases = []
    for name, position, found in (
        ("a position that wraps around to an entry", 2**30 + 4, [235218249530]),
        ("a position beyond the file ends the walk", 1000, []),
        ("a position that wraps around to before the file ends the walk", 2**30 - 9, []),
    ):
        data = bytearray(whole)
        data[56:60] = position.to_bytes(4, "big")
        told = {name: vector[name] for name in ("hash_slot_num", "index_num")}
        told |= {"file": {"name": FILE_NAME, "hex": data.hex()}, "key": "TopicTest#%q6cR"}
        told |= {"max_num": 64, "begin": 0, "end": 2**63 - 1}
        cases.append(
            case(
                name,
                "select",
                told,
                {"answer": {"phy_offsets": found}},
                ["IDX-SEL-6"],
                **{"class": "broker_faithful_reader"},
            )
        )
    return cases


def _surplus() -> list[dict[str, Any]]:
    """A file with bytes beyond its geometry, which a writer goes on with."""
    vector = spectext.vectors()["accept/worked_example"]
    whole = (spectext.VECTORS / "accept/worked_example.bin").read_bytes()
    empty = bytes(len(whole))
    puts = [{k: v for k, v in put.items() if k != "result"} for put in vector["writer"]["puts"]]
    told = {name: vector[name] for name in ("hash_slot_num", "index_num")}
    told |= {"resume_hex": (empty + b"\xa5" * 30).hex(), "puts": puts}
    return [
        case(
            "bytes beyond the geometry stay as they are",
            "put",
            told,
            {"answer": {"results": [True] * len(puts), "hex": (whole + b"\xa5" * 30).hex()}},
            ["IDX-LAY-6"],
            **{"class": WRITER, "editions": NEW},
        )
    ]


def _directories() -> list[dict[str, Any]]:
    """Directories as strict and lenient readers take them, and one that is not there."""
    vector = spectext.vectors()["accept/worked_example"]
    data = (spectext.VECTORS / "accept/worked_example.bin").read_bytes()
    shape = {name: vector[name] for name in ("hash_slot_num", "index_num")}
    hashed = vector["entries"][0]["key_hash"]
    every = [each["position"] for each in vector["entries"] if each["key_hash"] == hashed][::-1]
    # Of the geometry's places only the first two are whole: place 0 and entry 1.
    cut = data[: 40 + 4 * vector["hash_slot_num"] + 40]
    at = 40 + 4 * (hashed % vector["hash_slot_num"])
    torn = data[:at] + b"\xff" * 4 + data[at + 4 :]
    two = [("10", data), ("9", data), ("notes.txt", b"")]
    cases = []
    for name, contents, strict, lenient, requirement in (
        (
            "every file is asked, the newest first",
            two,
            [("9", every), ("10", every)],
            [("9", every), ("10", every)],
            "IDX-DIR-3",
        ),
        (
            "a directory with the name of an IndexFile",
            [*two, ("8", None)],
            None,
            [("9", every), ("10", every)],
            "IDX-DIR-1",
        ),
        (
            "a file that is cut",
            [("10", data), ("9", cut)],
            None,
            [("9", [p for p in every if p == 1]), ("10", every)],
            "IDX-DIR-1",
        ),
        (
            "a file with a negative slot",
            [("10", data), ("9", torn)],
            None,
            [("9", every), ("10", every)],
            "IDX-DIR-4",
        ),
    ):
        listed = [
            {"name": each, "type": "directory"}
            if content is None
            else {"name": each, "type": "file", "hex": content.hex()}
            for each, content in contents
        ]
        for reader, found in ((STRICT, strict), (LENIENT, lenient)):
            answered = [
                {"file": file, "positions": positions}
                for file, positions in found or ()
                if positions
            ]
            cases.append(
                case(
                    f"{name}, {reader.replace('_', ' ')}",
                    "lookup_directory",
                    {**shape, "directory": listed, "key_hash": hashed},
                    {"reject": {}} if found is None else {"answer": {"found": answered}},
                    [requirement if found == strict or reader == STRICT else "IDX-DIR-2"],
                    **{"class": reader},
                )
            )
    missing = {**shape, "directory": None, "writable": True}
    missing |= {"last_exit_ok": True, "index_msg_timestamp": 0}
    cases.append(
        case(
            "a directory that is missing",
            "load",
            missing,
            {"answer": {"load_result": True, "loaded": []}},
            ["IDX-LOD-5"],
            **{"class": LOADER},
        )
    )
    return cases


def _full() -> list[dict[str, Any]]:
    """Puts that are refused: a count beyond the geometry is kept, and no slot has to be mended."""
    vector = spectext.vectors()["accept/exactly_full"]
    whole = (spectext.VECTORS / "accept/exactly_full.bin").read_bytes()
    shape = {name: vector[name] for name in ("hash_slot_num", "index_num")}
    put = {"key": "T#a", "phy_offset": 5, "store_timestamp": 1_700_000_000_000}
    slot = next(number for number, value in enumerate(vector["slots"]) if value)
    at = 40 + 4 * slot
    broken = whole[:at] + (77).to_bytes(4, "big") + whole[at + 4 :]
    beyond = whole[:36] + (vector["index_num"] + 1).to_bytes(4, "big") + whole[40:]

    def made(data: bytes) -> dict[str, Any]:
        return {"answer": {"results": [False], "hex": data.hex()}}

    return [
        case(
            name,
            "put",
            {**shape, "resume_hex": data.hex(), "puts": [put]},
            expected,
            requirements,
            **{"class": writer, "editions": editions},
        )
        for name, writer, data, expected, requirements, editions in (
            (
                "a count beyond the geometry is kept",
                WRITER, beyond, made(beyond), ["IDX-PUT-1", "IDX-OPS-4"], ALL,
            ),
            (
                "a full file is not mended by a put, or was when it was opened",
                MENDER, broken, {"one_of": [made(broken), made(whole)]}, ["IDX-PUT-9"], NEW,
            ),
        )
    ]  # fmt: skip


def _crash() -> list[dict[str, Any]]:
    vector = spectext.vectors()["accept/put_on_broken_slot"]
    puts = [{k: v for k, v in put.items() if k != "result"} for put in vector["writer"]["puts"]]
    whole = (spectext.VECTORS / "accept/exactly_full.bin").read_bytes()
    told = {name: vector[name] for name in ("hash_slot_num", "index_num")}
    told |= {"resume_hex": vector["writer"]["resume_hex"], "puts": puts}
    # The slot that named entry 77 becomes -1.
    negative = bytearray.fromhex(vector["writer"]["resume_hex"])
    at = negative.index((77).to_bytes(4, "big"), 40)
    negative[at : at + 4] = (-1).to_bytes(4, "big", signed=True)
    same = {"answer": {"results": [True], "hex": whole.hex()}}
    return [
        case(
            f"a slot {name} is mended before the put",
            "put",
            {**told, "resume_hex": bytes(data).hex()},
            same,
            ["IDX-PUT-9"],
            **{"class": MENDER, "editions": NEW},
        )
        for name, data in (
            ("beyond index_count", bytes.fromhex(vector["writer"]["resume_hex"])),
            ("below 0", negative),
        )
    ] + _mended_past_broken_entries()


def _mended_past_broken_entries() -> list[dict[str, Any]]:
    """Of two slots, slot 1 is broken; entry 2 is of it and broken, and entry 3 is of no slot."""
    time = (1_700_000_000_000).to_bytes(8, "big")

    def entry(key_hash: int, offset: int, time_diff: int, prev: int) -> bytes:
        return struct.pack(">iqii", key_hash, offset, time_diff, prev)

    old = [entry(97, 1, 0, 0), entry(99, 2, -1, 1), entry(-101, 3, 0, 2)]

    def file(count: int, end: int, slot: int, *new: bytes) -> bytes:
        header = time * 2 + struct.pack(">qqii", 1, end, 1, count)
        places = b"".join([bytes(20), *old, *new])
        return header + struct.pack(">ii", 0, slot) + places.ljust(6 * 20, b"\0")

    put = {"key": "a", "phy_offset": 9, "store_timestamp": 1_700_000_000_000}
    return [
        case(
            "a slot is mended to a broken entry, and not to one with a negative hash",
            "put",
            {
                "hash_slot_num": 2,
                "index_num": 6,
                "resume_hex": file(4, 3, 77).hex(),
                "puts": [put],
            },
            {"answer": {"results": [True], "hex": file(5, 9, 4, entry(97, 9, 0, 2)).hex()}},
            ["IDX-PUT-9"],
            **{"class": MENDER, "editions": NEW},
        )
    ]
