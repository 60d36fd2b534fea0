"""Exchanges that tell a step of the index from its neighbour, found by ``mutants_by_rule.py``."""

from __future__ import annotations

import struct
from typing import Any

import oracle
import spectext
from boundary_exchanges import (
    ALWAYS,
    COUNTS_SLOTS,
    FILE_NAME,
    LOADER,
    MENDER,
    entry,
    index,
    seed_case,
    sent,
    shape,
    unlinked_put_case,
)
from edge_exchanges import READER, case
from store_exchanges import LENIENT, STRICT, TIME, WRITER

_INT64_MIN = -(2**63)
_FAR = 1 << 32


def step_exchanges() -> list[dict[str, Any]]:
    """Return all of them."""
    return [
        *_texts(),
        seed_case(1, 1),
        unlinked_put_case("a put on a slot one above the count links to nothing", 3),
        *_mended(),
        *_walked(),
        *_read(),
        *_looked_up(),
        *_built(),
        *_queried(),
        *_expired(),
        *_geometries(),
    ]


def _texts() -> list[dict[str, Any]]:
    """Bytes beside the second and the third of a surrogate, names, and the shortest property."""
    cases = []
    for text in ("ed", "edc08041", "edc0", "eda07f", "eda0c0", "edbf7f41"):
        made = oracle.decode_utf8(bytes.fromhex(text))
        answer = {"answer": {"text": made, "key_hash": oracle.key_hash(made)}}
        name = f"the bytes {bytes.fromhex(text).hex(' ')}"
        cases.append(case(name, "decode_text", {"hex": text}, answer, ["IDX-HSH-6"], None))
    name = "a name with the character before a zero"
    told = {"name": "1\u0965"}
    refused = {"answer": {"accepted": False}}
    cases.append(case(name, "names", told, refused, ["IDX-NAM-3"], READER))
    shortest = {"answer": {"properties": {"a": "b"}}}
    told = {"text": "a\x01b\x02"}
    cases.append(
        case("the shortest property", "decode_properties", told, shortest, ["IDX-BLD-7"], None)
    )
    return cases


def _mended() -> list[dict[str, Any]]:
    """Slots that a mending writer leaves as they are."""
    first, other = entry(97, 100), entry(99, 200)
    added = entry(oracle.key_hash("T#a"), 300, 3)
    after = {"times": (TIME, TIME + 3000), "offsets": (100, 300)}
    placed = bytearray(index([0, 1], [first]))
    kept = bytearray(index([2, 1], [first, added], used=2, **after))
    placed[48:68] = kept[48:68] = b"\xff" * 20
    cases = []
    for name, before, expected in (
        (
            "a slot keeps an older committed entry",
            index([0, 1], [first, other]),
            index([3, 1], [first, other, added], used=2, **after),
        ),
        (
            "a slot of 0 stays",
            index([0, 0], [first]),
            index([2, 0], [first, added], used=2, **after),
        ),
        (
            "an entry with a hash below 0 is none to lead to",
            index([0, 77], [entry(-1, 100)]),
            index([2, 0], [entry(-1, 100), added], used=2, **after),
        ),
        ("place 0 is no slot", bytes(placed), bytes(kept)),
        (
            "a slot keeps the newest committed entry, though it is another slot's",
            index([0, 2], [first, entry(98, 200)]),
            index([3, 2], [first, entry(98, 200), added], used=2, **after),
        ),
    ):
        put = {"key": "T#a", "phy_offset": 300, "store_timestamp": TIME + 3000}
        told = {**shape(), "resume_hex": before.hex(), "puts": [put]}
        answer = {"answer": {"results": [True], "hex": expected.hex()}}
        whole = f"mending: {name}"
        cases.append(case(whole, "put", told, answer, ["IDX-PUT-9"], MENDER, editions=COUNTS_SLOTS))
    return cases


def _walked() -> list[dict[str, Any]]:
    """A slot of 0, though place 0, which none uses, holds what is asked for."""
    file = bytearray(index([0, 0], [entry(98, 100)]))
    file[48:68] = entry(98, 700)
    told = {**shape(), "file": sent(bytes(file)), "key": "b", "max_num": 64, **ALWAYS}
    nothing = {"answer": {"phy_offsets": []}}
    name = "a slot of 0, and an entry at place 0"
    return [case(name, "select", told, nothing, ["IDX-SEL-1", "IDX-SLT-5"], READER)]


def _read() -> list[dict[str, Any]]:
    """The earliest time that 64 bits hold, and a header without slots or entries."""
    times = (_INT64_MIN, _INT64_MIN)
    file = index([2, 0], [entry(98, 100), entry(98, 100, 0, 1)], times=times)
    told = {**shape(), "file": sent(file)}
    header = index([], [], offsets=(0, 0))[:40]
    both = {"answer": {"positions": [1, 2]}}
    return [
        case(f"the earliest time, {reader}", "scan", told, both, ["IDX-TIM-4"], reader)
        for reader in (STRICT, LENIENT)
    ] + [
        case(
            "a file of a header alone",
            "scan",
            {**shape(), "file": sent(header)},
            {"reject": {"field": "file_size", "byte": 40}},
            ["IDX-CON-2"],
            STRICT,
        ),
        case(
            "a header alone, read leniently",
            "read",
            {**shape(), "file": sent(header)},
            {"answer": {"header": _header(header), "entries": []}},
            ["IDX-LAY-7"],
            LENIENT,
        ),
        case(
            "an entry, and no geometry",
            "read",
            {"hash_slot_num": None, "index_num": None, "file": sent(index([1, 0], [entry(98, 1)]))},
            {"reject": {}},
            ["IDX-GEO-1"],
            STRICT,
        ),
        case(
            "a directory of which one file has the hash",
            "lookup_directory",
            {**shape(), "key_hash": 98, "directory": _listed(file, index([0, 0], []))},
            {"answer": {"found": [{"file": FILE_NAME, "positions": [2, 1]}]}},
            ["IDX-DIR-1"],
            STRICT,
        ),
    ]


def _header(data: bytes) -> dict[str, int]:
    return dict(zip(oracle.HEADER_FIELDS, oracle.HEADER.unpack_from(data), strict=True))


def _looked_up() -> list[dict[str, Any]]:
    """Slots and entries beside the committed ones, and chains that are no reason to scan."""
    first, other = entry(98, 100), entry(97, 200, 0, 1)
    cases = []
    for name, file, field, byte in (
        ("a slot one above the count", index([3, 0], [first]), "slot", 40),
        (
            "a slot that leads to another slot's entry behind the committed ones",
            index([2, 0], [first, other], count=2),
            "key_hash",
            40 + 8 + 2 * 20,
        ),
    ):
        told = {**shape(), "file": sent(file), "key_hash": 98}
        fault = {"reject": {"field": field, "byte": byte}}
        cases.append(case(name, "lookup", told, fault, ["IDX-OPS-8", "IDX-CON-2"], STRICT))
    broken = entry(-5, 100)
    for name, file, hashed, found in (
        ("a link of entry 1 to itself", index([1, 0], [entry(98, 100, 0, 1), broken]), 98, 1),
        ("a committed entry of zeros", index([2, 0], [broken, bytes(20)]), 0, 2),
    ):
        told = {**shape(), "file": sent(file), "key_hash": hashed}
        answer = {"answer": {"positions": [found]}}
        behind = f"{name}, beside an entry that a scan rejects"
        cases.append(case(behind, "lookup", told, answer, ["IDX-OPS-8", "IDX-LKP-5"], STRICT))
    return cases


def _message(offset: int, time: int) -> dict[str, Any]:
    told = {"topic": "T", "unique_key": None, "keys": "a", "sys_flag": 0}
    return {**told, "phy_offset": offset, "store_timestamp": time}


def _built() -> list[dict[str, Any]]:
    """Offsets beyond 31 and 32 bits, one just below the last, and files that end at 1."""
    hashed = oracle.key_hash("T#a")
    high = (1 << 31) + 5
    cases = []
    for name, messages, files, least, requirements in (
        (
            "messages at offsets of 32 bits",
            [_message(high, TIME)],
            [index([1], [entry(hashed, high)], offsets=(high, high), places=3)],
            0,
            ["IDX-BLD-3", "IDX-ENT-2"],
        ),
        (
            "a message one byte before the last",
            [_message(100, TIME), _message(99, TIME)],
            [index([1], [entry(hashed, 100)], places=3)],
            0,
            ["IDX-BLD-1", "IDX-OPS-12"],
        ),
        (
            "full files that end at 1",
            [_message(100, 1), _message(200, 1), _message(300, 1)],
            [
                index(
                    [2], [entry(hashed, 100), entry(hashed, 200, 0, 1)],
                    times=(1, 1), offsets=(100, 200), places=3,
                ),
                index([1], [entry(hashed, 300)], times=(1, 1), offsets=(300, 300), places=3),
            ],
            1,
            ["IDX-CKP-2", "IDX-ROL-2"],
        ),
    ):  # fmt: skip
        expected = {"hex": [file.hex() for file in files], "index_msg_timestamp": least}
        told = {**shape(1, 3), "messages": messages}
        answer = {"answer": expected}
        cases.append(case(name, "build", told, answer, requirements, WRITER, editions=COUNTS_SLOTS))
    return cases


def _listed(*files: bytes) -> list[dict[str, str]]:
    first = int(FILE_NAME)
    return [
        {"type": "file", "name": str(first + number), "hex": file.hex()}
        for number, file in enumerate(files)
    ]


def _queried() -> list[dict[str, Any]]:
    """A file whose entries lie outside the header's times, and one that begins just before."""
    hashed = oracle.key_hash("T#k")
    late = index([2, 0], [entry(98, 100), entry(hashed, 200, 100)], offsets=(100, 200))
    older = index([1, 0], [entry(hashed, 100, 0)], times=(TIME, TIME))
    newer = index([1, 0], [entry(98, 200)], times=(TIME - 1, TIME + 5000), offsets=(200, 200))
    cases = []
    for name, files, begin, end, time in (
        (
            "an entry behind the times of its file's header",
            [late], TIME + 50_000, TIME + 200_000, TIME,
        ),
        ("a file that begins just before the range", [older, newer], TIME, TIME, TIME + 5000),
    ):  # fmt: skip
        told = {**shape(), "directory": _listed(*files), "writable": False, "last_exit_ok": True}
        told |= {"index_msg_timestamp": 0, "topic": "T", "key": "k", "max_num": 64}
        told |= {"begin": begin, "end": end}
        answer = {"phy_offsets": [], "index_last_update_timestamp": time}
        answer["index_last_update_phyoffset"] = 200
        requirements = ["IDX-QRY-3", "IDX-OPS-11"]
        cases.append(case(name, "query", told, {"answer": answer}, requirements, READER))
    return cases


def _expired() -> list[dict[str, Any]]:
    """Files behind 4 GiB of the log."""
    ends = (_FAR + 5, _FAR + 9)
    files = [index([1, 0], [entry(98, end)], offsets=(end, end)) for end in ends]
    told = {**shape(), "directory": _listed(*files), "writable": True, "last_exit_ok": True}
    told |= {"index_msg_timestamp": 0, "min_phy_offset": _FAR + 6}
    last = str(int(FILE_NAME) + 1)
    answer = {"answer": {"loaded": [last], "directory": {last: len(files[1])}}}
    name = "files behind 4 GiB of the log, of which one expires"
    return [case(name, "expire", told, answer, ["IDX-EXP-1", "IDX-OPS-16"], LOADER)]


def _geometries() -> list[dict[str, Any]]:
    """What agrees with no geometry by one comparison alone, and five slots, which none may be."""
    two = [entry(98, 100), entry(97, 200)]
    proved = (spectext.VECTORS / "accept/slots_16_num_32.bin").read_bytes()
    begins, ends = bytearray(proved), bytearray(proved)
    struct.pack_into(">q", begins, 16, 1)
    struct.pack_into(">q", ends, 24, 1)
    of_five = index([0, 0, 0, 1, 0], [entry(3, 0)], offsets=(0, 0), places=4)
    named = {"answer": {"hash_slot_num": 5, "index_num": 4}}
    cases = [
        (
            "five slots, and an entry at offset 0",
            of_five,
            {"one_of": [named, {"reject": {}}]},
        )
    ]
    cases += [
        (name, bytes(file), {"reject": {}})
        for name, file in (
            ("a first offset that is not the header's", begins),
            ("a last offset that is not the header's", ends),
            ("a hash of -1", index([0, 1], [entry(-1, 100)])),
            (
                "a slot without an entry has the position of the last one",
                index([2, 2, 1, 0], two, offsets=(100, 200), used=2),
            ),
        )
    ]
    return [
        case(name, "geometry", {"file": sent(file)}, expected, ["IDX-GEO-2", "IDX-OPS-17"], STRICT)
        for name, file, expected in cases
    ]
