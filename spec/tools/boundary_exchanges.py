"""Exchanges on both sides of comparisons that no vector of a file meets exactly."""

from __future__ import annotations

import struct
from typing import Any

import oracle
from edge_exchanges import READER, case
from store_boundaries import store_boundaries
from store_exchanges import LENIENT, STRICT, TIME, WRITER

MENDER, LOADER = "mending_writer", "broker_faithful_loader"
FILE_NAME = "20260101000000000"
ALWAYS = {"begin": 0, "end": 2**63 - 1}
# From 4.7.1 on, a put is counted where its slot was empty alone.
COUNTS_SLOTS = ["4.7.1", "5.0", "5.4", "5.5"]
_INT32_MAX, _INT64_MAX, _INT64_MIN = 2**31 - 1, 2**63 - 1, -(2**63)
_PLACES = 6


def boundary_exchanges() -> list[dict[str, Any]]:
    """Return all of them."""
    return [
        *_texts(),
        *_largest(),
        *_sizes(),
        *_seeds(),
        *_put(),
        *_mended(),
        *_times(),
        *_unwritten(),
        *_walks(),
        *_far_end(),
        *_rolled(),
        *_keys(),
        *_geometries(),
        *_least_time(),
        *store_boundaries(),
    ]


def entry(key_hash: int, offset: int, time_diff: int = 0, prev: int = 0) -> bytes:
    """Return an entry."""
    return struct.pack(">iqii", key_hash, offset, time_diff, prev)


def index(
    slots: list[int],
    entries: list[bytes],
    *,
    times: tuple[int, int] = (TIME, TIME),
    offsets: tuple[int, int] = (100, 100),
    used: int = 1,
    count: int | None = None,
    places: int = _PLACES,
) -> bytes:
    """Return an IndexFile; without a count, it counts the entries."""
    counted = len(entries) + 1 if count is None else count
    header = struct.pack(">qqqqii", *times, *offsets, used, counted)
    table = b"".join([bytes(20), *entries]).ljust(20 * places, b"\0")
    return header + struct.pack(f">{len(slots)}i", *slots) + table


def shape(slots: int = 2, places: int = _PLACES) -> dict[str, int]:
    """Return a geometry, as a request has it."""
    return {"hash_slot_num": slots, "index_num": places}


def sent(data: bytes) -> dict[str, str]:
    """Return a file, as a request has it."""
    return {"name": FILE_NAME, "hex": data.hex()}


def _texts() -> list[dict[str, Any]]:
    """The bounds of the first and the second byte of a sequence of UTF-8."""
    rows = [(0xC2, 0xDF, 0x80, 0xBF, 2), (0xE0, 0xE0, 0xA0, 0xBF, 3), (0xE1, 0xEC, 0x80, 0xBF, 3)]
    rows += [(0xEE, 0xEF, 0x80, 0xBF, 3), (0xED, 0xED, 0x80, 0x9F, 3), (0xF0, 0xF0, 0x90, 0xBF, 4)]
    rows += [(0xF1, 0xF3, 0x80, 0xBF, 4), (0xF4, 0xF4, 0x80, 0x8F, 4)]
    texts = [bytes([first, 0x80]) for first in (0x80, 0xBF, 0xC0, 0xC1, 0xF5, 0xFF)]
    for low, high, least, most, length in rows:
        for first, second in ((low, least - 1), (low, least), (high, most), (high, most + 1)):
            texts.append(bytes([first, second] + [0xBF] * (length - 2)) + b"A")
        texts.append(bytes([low] + [least] * (length > 2) + [0xBF] * (length - 3)) + b"A")
    cases = []
    for data in texts:
        text = oracle.decode_utf8(data)
        made = {"text": text, "key_hash": oracle.key_hash(text)}
        told = {"hex": data.hex()}
        name = f"the bytes {data.hex(' ')}"
        cases.append(case(name, "decode_text", told, {"answer": made}, ["IDX-HSH-6"], None))
    return cases


def _largest() -> list[dict[str, Any]]:
    """The largest geometry; that of 4 more bytes is among the limits."""
    told = {"hash_slot_num": 1, "index_num": 107_374_180, "directory": [], "writable": True}
    told |= {"last_exit_ok": True, "index_msg_timestamp": 0}
    expected = {"answer": {"load_result": True, "loaded": [], "directory": {}}}
    return [case("the largest geometry", "load", told, expected, ["IDX-LOD-4"], LOADER)]


def _sizes() -> list[dict[str, Any]]:
    """A file that lacks its last byte, and a geometry beyond the greatest file."""
    whole = index([1], [entry(7, 100)], offsets=(0, 0), places=4)
    own, beyond = shape(1, 4), shape(2, 107_374_180)
    return [
        case(name, "scan", {**held, "file": sent(data)}, expected, [requirement], reader)
        for name, data, held, expected, requirement, reader in (
            (
                "a file without its last byte",
                whole[:-1], own, {"reject": {"field": "file_size", "byte": len(whole) - 1}},
                "IDX-LAY-5", STRICT,
            ),
            (
                "a file whose only entry lacks its last byte",
                whole[: 44 + 39], own, {"answer": {"positions": []}}, "IDX-LAY-7", LENIENT,
            ),
            (
                "a file that ends with its only entry",
                whole[: 44 + 40], own, {"answer": {"positions": [1]}}, "IDX-LAY-7", LENIENT,
            ),
            (
                "a geometry of 2147483648 bytes",
                whole, beyond, {"reject": {"field": "file_size"}}, "IDX-LIM-5", LENIENT,
            ),
        )
    ]  # fmt: skip


def seed_case(offset: int, time: int, *, is_taken: bool = True) -> dict[str, Any]:
    """Return the case of a file that is created with a seed, and closed without an entry."""
    seed = {"prev_end_phy_offset": offset, "prev_end_timestamp": time}
    held = {"times": (time, time), "offsets": (offset, offset)} if is_taken else {}
    told = {"times": (0, 0), "offsets": (0, 0), **held, "used": 0}
    created, closed = (index([0, 0], [], count=count, places=3, **told).hex() for count in (0, 1))
    return case(
        f"a file with the seed {offset}",
        "create",
        {**shape(2, 3), **seed},
        {"answer": {"created": created, "closed": closed}},
        ["IDX-OPS-2", "IDX-ROL-2"],
        WRITER,
        editions=COUNTS_SLOTS[1:],
    )


def _seeds() -> list[dict[str, Any]]:
    """A seed of more than 32 bits, and one below 0, of which nothing is taken."""
    return [seed_case((1 << 32) + 7, TIME), seed_case(-5, -TIME, is_taken=False)]


def put_case(name: str, before: bytes, expected: bytes, requirements: list[str]) -> dict[str, Any]:
    """Return the case of a put of ``T#a`` at the offset 300, three seconds after :data:`TIME`."""
    put = {"key": "T#a", "phy_offset": 300, "store_timestamp": TIME + 3000}
    return case(
        name,
        "put",
        {**shape(), "resume_hex": before.hex(), "puts": [put]},
        {"answer": {"results": [True], "hex": expected.hex()}},
        requirements,
        WRITER,
        editions=COUNTS_SLOTS,
    )


def unlinked_put_case(name: str, slot: int) -> dict[str, Any]:
    """Return the case of a put on a slot that leads to no entry of its file, which has one."""
    hashed = oracle.key_hash("T#a")
    after = {"times": (TIME, TIME + 3000), "offsets": (100, 300)}
    linked = index([2, 0], [entry(98, 100), entry(hashed, 300, 3)], used=2, **after)
    before = index([slot, 0], [entry(98, 100)])
    return put_case(name, before, linked, ["IDX-PUT-2", "IDX-ENT-6"])


def _put() -> list[dict[str, Any]]:
    """A put on a slot below 0, and one into a file whose count is below 0."""
    began = {"times": (TIME + 3000, TIME + 3000), "offsets": (300, 300)}
    begun = index([1, 0], [entry(oracle.key_hash("T#a"), 300, 3)], used=2, **began)
    before = index([0, 0], [], count=-3)
    return [
        unlinked_put_case("a put on a slot below 0 links to nothing", -7),
        put_case("a put into a file that counts -3", before, begun, ["IDX-OPS-18", "IDX-HDR-7"]),
    ]


def _mended() -> list[dict[str, Any]]:
    """Slots that are mended to an entry with the hash 0, and to none."""
    after = {"times": (TIME, TIME + 3000), "offsets": (100, 300)}
    cases = []
    for name, key, before, expected in (
        (
            "a slot is mended to an entry with the hash 0",
            "b",
            index([77, 0], [entry(0, 100)]),
            index([2, 0], [entry(0, 100), entry(98, 300, 3, 1)], **after),
        ),
        (
            "slots without an entry are mended to 0",
            "a",
            index([1, 2, -5, 9], [entry(100, 100)]),
            index([1, 2, 0, 0], [entry(100, 100), entry(97, 300, 3)], used=2, **after),
        ),
    ):
        slots = (len(before) - 40) // 4 - 5 * _PLACES
        put = {"key": key, "phy_offset": 300, "store_timestamp": TIME + 3000}
        cases.append(
            case(
                name,
                "put",
                {**shape(slots), "resume_hex": before.hex(), "puts": [put]},
                {"answer": {"results": [True], "hex": expected.hex()}},
                ["IDX-PUT-9"],
                MENDER,
                editions=COUNTS_SLOTS,
            )
        )
    return cases


def _times() -> list[dict[str, Any]]:
    """The latest times that 64 bits hold, and those a second later."""
    cases = []
    for seconds in (5, _INT32_MAX):
        begin = _INT64_MAX - 1000 * seconds
        first = entry(98, 100, _INT32_MAX)  # of which only the header's time counts
        latest = entry(98, 200, seconds, 1)
        for name, entries, later, found in (
            ("the latest time", [first, latest], 0, [1, 2]),
            ("a millisecond beyond", [first, latest], 1, [1]),
        ):
            times = (begin + later, begin + later)
            file = index([2, 0], entries, times=times, offsets=(100, 200))
            told = {**shape(), "file": sent(file)}
            rejected = {"reject": {"field": "time_diff", "byte": 40 + 8 + 40 + 12}}
            answer = {"answer": {"positions": found}}
            for reader, expected in (
                (STRICT, rejected if later else answer),
                (LENIENT, answer),
            ):
                told_name = f"{name}, {seconds} seconds behind the first entry, {reader}"
                cases.append(case(told_name, "scan", told, expected, ["IDX-TIM-4"], reader))
    return cases


def _unwritten() -> list[dict[str, Any]]:
    """Entries of zeros, which may never have been written, and with all but one field 0."""
    first, zeros = entry(7, 100), bytes(20)
    held, short = shape(1, 4), {"offsets": (0, 0), "places": 4}
    asked = [
        (f"an entry with {name}", held, index([2], [first, unused], **short), [1, 2], kept)
        for name, unused, kept in (
            ("20 zero bytes", zeros, [1]),
            ("a time alone", entry(0, 0, 5), [1, 2]),
            ("a link alone", entry(0, 0, 0, 1), [1, 2]),
        )
    ]
    asked += [
        ("20 zero bytes at position 1", held, index([1], [zeros], **short), [1], [1]),
        (
            "entries of zeros at positions 1 and 2",
            shape(),
            index([3, 0], [zeros, zeros, entry(98, 100)], offsets=(0, 100)),
            [1, 2, 3],
            [1, 3],
        ),
    ]
    return [
        case(
            f"{name}, {reader}",
            "scan",
            {**told, "file": sent(file)},
            {"answer": {"positions": found}},
            ["IDX-ENT-9"],
            reader,
        )
        for name, told, file, strict, lenient in asked
        for reader, found in ((STRICT, strict), (LENIENT, lenient))
    ]


def _walks() -> list[dict[str, Any]]:
    """Slots and links that equal the count, and that are one more."""
    committed = [entry(98, 100), entry(98, 200, 0, 3)]
    beyond = [entry(98, 100), entry(98, 200, 0, 4)]
    cases = []
    for name, file, found, requirements in (
        (
            "a count of 1, and a slot that leads to an entry",
            index([1, 0], [entry(98, 100)], count=1),
            [],
            ["IDX-SEL-1"],
        ),
        (
            "a slot one above the count",
            index([4, 0], [*committed, entry(98, 300), entry(98, 400)], count=3),
            [],
            ["IDX-SLT-5"],
        ),
        (
            "a link to the place that equals the count",
            index([2, 0], [*committed, entry(98, 300)], count=3),
            [200, 300],
            ["IDX-SEL-4", "IDX-SEL-2"],
        ),
        (
            "a link to the place behind that",
            index([2, 0], [*beyond, entry(98, 300), entry(98, 400)], count=3),
            [200],
            ["IDX-SEL-4"],
        ),
    ):
        asked = {"key": "b", "max_num": 64, **ALWAYS}
        told = {**shape(), "file": sent(file), **asked}
        expected = {"answer": {"phy_offsets": found}}
        cases.append(case(name, "select", told, expected, requirements, READER))
    return cases


def _far_end() -> list[dict[str, Any]]:
    """The end of an index that is behind 4 GiB of the log."""
    far = (1 << 32) + 5
    file = index([1, 0], [entry(98, far)], offsets=(far, far))
    told = {**shape(), "directory": [{"type": "file", **sent(file)}], "writable": False}
    told |= {"last_exit_ok": True, "index_msg_timestamp": 0}
    told |= {"topic": "T", "key": "k", "max_num": 64, **ALWAYS}
    answer = {"phy_offsets": [], "index_last_update_timestamp": TIME}
    answer["index_last_update_phyoffset"] = far
    return [
        case(
            "the last update behind 4 GiB", "query", told, {"answer": answer}, ["IDX-QRY-4"], READER
        )
    ]


def _rolled() -> list[dict[str, Any]]:
    """Full files that end at no time: the checkpoint keeps that of the file before."""
    cases = []
    for time in (0, -1):
        messages = [
            {
                "topic": "T",
                "unique_key": None,
                "keys": "a",
                "sys_flag": 0,
                "phy_offset": 100 * number,
                "store_timestamp": stored,
            }
            for number, stored in enumerate((TIME, time, TIME + 5000), 1)
        ]
        hashed = 84 * 31 * 31 + 35 * 31 + 97
        entries = [entry(hashed, offset) for offset in (100, 200, 300)]
        ends = [TIME, time, TIME + 5000]
        files = [
            index(
                [1],
                [each],
                times=(end, end),
                offsets=(100 * number, 100 * number),
                places=2,
            ).hex()
            for number, (each, end) in enumerate(zip(entries, ends, strict=True), 1)
        ]
        cases.append(
            case(
                f"a full file that ends at {time}",
                "build",
                {**shape(1, 2), "messages": messages},
                {"answer": {"hex": files, "index_msg_timestamp": TIME}},
                ["IDX-CKP-2"],
                WRITER,
                editions=COUNTS_SLOTS,
            )
        )
    return cases


def _keys() -> list[dict[str, Any]]:
    """Keys with a comma and a tab, built into a file."""
    message = {"topic": "T", "unique_key": None, "keys": "a,b c\td", "sys_flag": 0}
    message |= {"phy_offset": 100, "store_timestamp": TIME}
    hashes = [oracle.key_hash(key) for key in ("T#a,b", "T#c\td")]
    file = index([2], [entry(hashes[0], 100), entry(hashes[1], 100, 0, 1)])
    return [
        case(
            "keys with a comma and a tab",
            "build",
            {**shape(1), "messages": [message]},
            {"answer": {"hex": [file.hex()], "index_msg_timestamp": 0}},
            ["IDX-BLD-5"],
            WRITER,
            editions=COUNTS_SLOTS,
        )
    ]


def _geometries() -> list[dict[str, Any]]:
    """Files whose slots or links agree with no geometry, and one that agrees with several."""
    two = [entry(98, 100), entry(97, 200, 0, 0)]
    led = [entry(98, 100), entry(97, 200, 0, 1)]
    ends = {"offsets": (100, 200), "used": 2}
    return [
        case(
            name,
            "geometry",
            {"file": sent(file)},
            {"reject": {}},
            ["IDX-GEO-2", "IDX-OPS-17"],
            STRICT,
        )
        for name, file in (
            (
                "a slot without an entry has the position of another slot's",
                index([1, 2, 1, 0], two, **ends),
            ),
            (
                "a slot has the number of places",
                index([_PLACES, 2, 1, 0], two, **ends),
            ),
            (
                "the oldest entry of a slot leads to an entry of another one",
                index([0, 2, 1, 0], led, **ends),
            ),
            (
                "a time below that of the file's begin",
                index([2], [entry(7, 0), entry(7, 0, -1, 1)], offsets=(0, 0), places=4),
            ),
            (
                "an entry of zeros, in a file of a usual shape",
                index([1, 0, 0, 0], [bytes(20)], offsets=(0, 0), places=16),
            ),
        )
    ]


def _least_time() -> list[dict[str, Any]]:
    """The least time from which the margin can be subtracted, and one of the index below 0."""
    fields = {"physic_msg_timestamp": _INT64_MIN + 3000, "logics_msg_timestamp": TIME}
    fields |= {"index_msg_timestamp": -5, "master_flushed_offset": 0, "confirm_phy_offset": 0}
    return [
        case(
            "the least time that does not wrap",
            "read_checkpoint",
            {"hex": struct.pack(">5q", *fields.values()).ljust(4096, b"\0").hex()},
            {"answer": {"fields": fields, "min_timestamp": 0, "min_timestamp_index": -5}},
            ["CHK-MIN-1", "CHK-MIN-2"],
            READER,
        ),
        case(
            "a checkpoint that ends within its first field",
            "read_checkpoint",
            {"hex": "0000018bcfe5"},
            {
                "answer": {
                    "fields": {**dict.fromkeys(fields, 0), "physic_msg_timestamp": 0x18BCFE50000},
                    "min_timestamp": 0,
                    "min_timestamp_index": 0,
                }
            },
            ["CHK-FIL-2"],
            READER,
        ),
    ]
