"""Exchanges of the index at the bounds of comparisons, which no file of a broker reaches."""

from __future__ import annotations

import struct
from typing import Any

import oracle
from edge_exchanges import case
from store_exchanges import LENIENT, STRICT, WRITER

BROKER = "broker_faithful_reader"
FILE_NAME = "20260101000000000"
TIME = 1_700_000_000_000
FAR = 1 << 32
EDITIONS = ["5.0", "5.4", "5.5"]
_INT64_MAX = 2**63 - 1
_SHAPE = {"hash_slot_num": 1, "index_num": 4}


def bound_exchanges() -> list[dict[str, Any]]:
    """Return all of them."""
    return [*_texts(), *_sizes(), *_zeros(), *_times(), *_walked(), *_written(), *_proved()]


def file_of(
    count: int, slot: int, entries: list[tuple[int, int, int, int]], begin: int = TIME
) -> bytes:
    """Return a file of one slot and four places."""
    head = struct.pack(">qqqqii", begin, begin, 0, 0, 1, count) + struct.pack(">i", slot)
    places = b"".join(struct.pack(">iqii", *entry) for entry in entries)
    return (head + bytes(20) + places).ljust(40 + 4 + 20 * 4, b"\0")


def _file(data: bytes) -> dict[str, Any]:
    return {**_SHAPE, "file": {"name": FILE_NAME, "hex": data.hex()}}


def _found(positions: list[int]) -> dict[str, Any]:
    return {"answer": {"positions": positions}}


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


def _sizes() -> list[dict[str, Any]]:
    """A file that lacks its last byte, and a geometry beyond the greatest file."""
    whole = file_of(2, 1, [(7, 100, 0, 0)])
    short = {"reject": {"field": "file_size", "byte": len(whole) - 1}}
    beyond = {"hash_slot_num": 2, "index_num": 107_374_180}
    return [
        case(
            "a file without its last byte",
            "scan", _file(whole[:-1]), short, ["IDX-LAY-5"], STRICT,
        ),
        case(
            "a file whose only entry lacks its last byte",
            "scan", _file(whole[: 44 + 39]), _found([]), ["IDX-LAY-7"], LENIENT,
        ),
        case(
            "a file that ends with its only entry",
            "scan", _file(whole[: 44 + 40]), _found([1]), ["IDX-LAY-7"], LENIENT,
        ),
        case(
            "a geometry of 2147483648 bytes",
            "scan",
            {**_file(whole), **beyond},
            {"reject": {"field": "file_size"}},
            ["IDX-LIM-5"],
            LENIENT,
        ),
    ]  # fmt: skip


def _zeros() -> list[dict[str, Any]]:
    """Entries at position 2 with 20 zero bytes, and with all but one field 0."""
    first = (7, 100, 0, 0)
    cases = []
    for name, entry, kept in (
        ("20 zero bytes", (0, 0, 0, 0), [1]),
        ("a time alone", (0, 0, 5, 0), [1, 2]),
        ("a link alone", (0, 0, 0, 1), [1, 2]),
    ):
        told = _file(file_of(3, 2, [first, entry]))
        shown = ["IDX-ENT-9"]
        cases += [
            case(f"an entry with {name}", "scan", told, _found([1, 2]), shown, STRICT),
            case(
                f"an entry with {name}, read leniently", "scan", told, _found(kept), shown, LENIENT
            ),
        ]
    told = _file(file_of(2, 1, [(0, 0, 0, 0)]))
    name = "20 zero bytes at position 1"
    return [*cases, case(name, "scan", told, _found([1]), ["IDX-ENT-9"], LENIENT)]


def _times() -> list[dict[str, Any]]:
    """The greatest time that an i64 holds, and the next one."""
    cases = []
    for begin, is_sound in ((_INT64_MAX - 5000, True), (_INT64_MAX - 4999, False)):
        told = _file(file_of(3, 2, [(7, 100, 0, 0), (7, 200, 5, 1)], begin))
        fault = {"reject": {"field": "time_diff", "byte": 44 + 40 + 12}}
        expected = _found([1, 2]) if is_sound else fault
        shown = ["IDX-TIM-4"]
        name = f"an entry of {begin} ms and 5 s"
        cases += [
            case(name, "scan", told, expected, shown, STRICT),
            case(
                f"{name}, read leniently",
                "scan",
                told,
                _found([1, 2][: 1 + is_sound]),
                shown,
                LENIENT,
            ),
        ]
    return cases


def _walked() -> list[dict[str, Any]]:
    """A link to the position `index_count`, which the broker's walk follows."""
    key, h = "a", 97
    told = _file(file_of(2, 1, [(h, 100, 0, 2), (h, 200, 0, 0)]))
    told |= {"key": key, "max_num": 9, "begin": 0, "end": _INT64_MAX}
    expected = {"answer": {"phy_offsets": [100, 200]}}
    return [case("a link to the next place", "select", told, expected, ["IDX-SEL-2"], BROKER)]


def _written() -> list[dict[str, Any]]:
    """Seeds beyond 32 bits, a count below 0, and a full file of the time -5."""
    seed = {"prev_end_phy_offset": FAR + 5, "prev_end_timestamp": FAR + 9}
    made = struct.pack(">qqqqii", FAR + 9, FAR + 9, FAR + 5, FAR + 5, 0, 0).ljust(124, b"\0")
    closed = made[:36] + struct.pack(">i", 1) + made[40:]
    resumed = file_of(-3, 0, [], 0)
    after = struct.pack(">qqqqii", TIME, TIME, 100, 100, 2, 2) + struct.pack(">i", 1)
    after += bytes(20) + struct.pack(">iqii", oracle.key_hash("T#a"), 100, 0, 0)
    puts = [{"key": "T#a", "phy_offset": 100, "store_timestamp": TIME}]
    message = {"topic": "T", "unique_key": "u", "keys": None, "sys_flag": 0}
    messages = [
        {**message, "phy_offset": number, "store_timestamp": -5 + number} for number in range(2)
    ]
    by_edition = {"editions": EDITIONS}
    first, second = (
        struct.pack(">qqqqii", -5 + n, -5 + n, n, n, 1, 2)
        + struct.pack(">i", 1)
        + bytes(20)
        + struct.pack(">iqii", oracle.key_hash("T#u"), n, 0, 0)
        for n in range(2)
    )
    built = {"hex": [first.hex(), second.hex()], "index_msg_timestamp": 0}
    return [
        case(
            "a seed beyond 32 bits",
            "create",
            {**_SHAPE, **seed},
            {"answer": {"created": made.hex(), "closed": closed.hex()}},
            ["IDX-OPS-2", "IDX-ROL-2"],
            WRITER,
            **by_edition,
        ),
        case(
            "a put into a file of a negative count",
            "put",
            {**_SHAPE, "resume_hex": resumed.hex(), "puts": puts},
            {"answer": {"results": [True], "hex": after.ljust(124, b"\0").hex()}},
            ["IDX-OPS-18"],
            WRITER,
            **by_edition,
        ),
        case(
            "a full file whose last time is negative leaves the checkpoint",
            "build",
            {"hash_slot_num": 1, "index_num": 2, "messages": messages},
            {"answer": built},
            ["IDX-CKP-2"],
            WRITER,
            **by_edition,
        ),
    ]


def _proved() -> list[dict[str, Any]]:
    """A file that its geometry would agree with, but for a negative time."""
    data = file_of(3, 2, [(7, 0, 0, 0), (7, 0, -1, 1)])
    told = {"file": {"name": FILE_NAME, "hex": data.hex()}}
    name = "a negative time proves no geometry"
    return [case(name, "geometry", told, {"reject": {}}, ["IDX-OPS-17"], STRICT)]
