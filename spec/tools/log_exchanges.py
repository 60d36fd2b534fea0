"""Exchanges of logs at the bounds of comparisons, and of where readers go on behind damage."""

from __future__ import annotations

import struct
from typing import Any

import logs_oracle
from edge_exchanges import case, log_file, message, record_of
from store_exchanges import FILE_SIZE, LENIENT, STRICT, TIME, WRITER

READER = "broker_faithful_reader"
_V6 = "20010db8000000000000000000000005:10911"


def log_exchanges() -> list[dict[str, Any]]:
    """Return all of them."""
    return [
        *_bounds(),
        *_faults(),
        *_ends(),
        *_goes_on(),
        *_claims(),
        *_batches(),
        *_checked(),
        *_properties(),
    ]


def _walked(
    name: str, data: bytes, size: int, positions: list[int], end: dict[str, Any], shown: str
) -> dict[str, Any]:
    log = {"file_size": size, "file": log_file(data, size=size)}
    expected = {"answer": {"walk": positions, "end": end, "crc_faults": []}}
    return case(name, "walk_commitlog", log, expected, [shown], STRICT)


def _bounds() -> list[dict[str, Any]]:
    """The least record, a few zeros at the end, the longest topic, and digits that are none."""
    least = record_of(topic="", body="", properties={})
    assert len(least) == 91
    size = len(least)
    full = {"kind": "full", "position": 2 * size}
    both = least + record_of(size, 1, topic="", body="", properties={})
    zero = {"kind": "zero", "position": size}
    long = bytearray(record_of(topic="T" * 32767, body="", properties={}))
    long[88:90] = struct.pack(">H", 32768)
    long[90:90] = b"T"
    long[:4] = len(long).to_bytes(4, "big")
    fault = {"kind": "fault", "position": 0, "fault": {"field": "topic_length", "byte": 88}}
    digits = record_of(properties_text="__CRC32#\x01123456789x\x02")
    ended = {"kind": "zero", "position": len(digits)}
    return [
        _walked(
            "two records of 91 bytes fill a file", both, 2 * size, [0, size], full, "LOG-SND-1"
        ),
        _walked("five zeros end a file", least + bytes(5), size + 5, [0], zero, "LOG-WLK-1"),
        _walked("a topic of 32768 bytes", bytes(long), 1 << 16, [], fault, "LOG-REC-6"),
        _walked("a CRC that is no number", digits, FILE_SIZE, [0], ended, "LOG-CRC-4"),
    ]


def _faults() -> list[dict[str, Any]]:
    """A total size that ends before a length that must lie within it."""
    fault = {"kind": "fault", "position": 0, "fault": {"field": "total_size", "byte": 0}}
    cases = []
    for name, size, change in (
        ("body's", 110, {"body": "", "born_host": _V6, "store_host": _V6}),
        ("topic's", 91, {"body": b"one".hex()}),
        ("properties'", 93, {"body": b"one".hex()}),
    ):
        data = bytearray(record_of(**change))
        data[:4] = size.to_bytes(4, "big")
        told = f"a total size of {size} that ends before or within the {name} length"
        cases.append(_walked(told, bytes(data), FILE_SIZE, [], fault, "LOG-SND-1"))
    return cases


def _ends() -> list[dict[str, Any]]:
    """Where a log ends, and zeros with something behind them."""
    first = record_of()
    size = len(first)
    stale = first + bytes(100) + record_of(size + 100, 1, TIME - 1)
    found: list[tuple[str, list[dict[str, str]], dict[str, Any]]] = [
        ("a log without files", [], {"one_of": [{"answer": {"max_offset": 0}}, {"reject": {}}]}),
        (
            "a log of zeros that does not begin at 0",
            [log_file(b"", FILE_SIZE), log_file(b"", 2 * FILE_SIZE)],
            {"answer": {"max_offset": FILE_SIZE}},
        ),
        (
            "a full file and one of zeros behind a gap",
            [log_file(first, size=size), log_file(b"", FILE_SIZE)],
            {"answer": {"max_offset": FILE_SIZE}},
        ),
        (
            "zeros and then bytes that are no record",
            [log_file(first + bytes(100) + b"\x11")],
            {"reject": {"field": "total_size", "byte": size}},
        ),
        ("zeros and then an older record", [log_file(stale)], {"answer": {"max_offset": size}}),
    ]
    shown = ["LOG-WLK-2", "LOG-WLK-3"]
    return [
        case(
            name, "scan_commitlog", {"file_size": FILE_SIZE, "files": files}, expected,
            shown[:1] if number < 3 else shown, STRICT,
        )
        for number, (name, files, expected) in enumerate(found)
    ]  # fmt: skip


def _chain(*times: int | None, bad: int | None = None) -> tuple[bytes, list[int]]:
    """Return records of these store times, 50 bytes of a fault for None, and their places.

    The body of the record of the number `bad` has a wrong CRC.
    """
    data, places = b"", []
    for time in times:
        if time is None:
            data += b"\x11" * 50
            continue
        record = bytearray(record_of(len(data), len(places), TIME + time))
        if len(places) == bad:
            record[88] ^= 1
        places.append(len(data))
        data += bytes(record)
    return data, places


def _goes_on() -> list[dict[str, Any]]:
    """An older record behind a fault, alone, before a newer one, and before a wrong CRC."""
    cases = []
    for name, chain, kept in (
        ("an older record that leads to a newer one", _chain(5, None, 1, 5), [0, 1, 2]),
        ("an older record that leads to a wrong CRC", _chain(5, None, 1, 9, bad=2), [0]),
        (
            "an older record that leads to a wrong CRC, and a newer one",
            _chain(5, None, 1, 9, None, 9, bad=2),
            [0, 3],
        ),
        ("a record between the first and the last", _chain(9, 1, None, 5), [0, 1, 2]),
        ("a second fault before a record as old as the last", _chain(1, None, 9, None, 5), [0, 1]),
    ):
        data, places = chain
        log = {"file_size": FILE_SIZE, "file": log_file(data)}
        found = [{"position": places[number]} for number in kept]
        cases.append(
            case(
                f"behind a fault, {name}, read leniently",
                "decode_commitlog",
                {**log, "fields": ["position"]},
                {"contains": {"records": found}},
                ["LOG-WLK-4"],
                LENIENT,
            )
        )
    return cases


def _forged(at: int, **change: Any) -> tuple[bytearray, int]:  # noqa: ANN401
    """Return a record at a place with a sound one in its body, and where that stands in it."""
    inside = 88 + 10
    inner = record_of(at + inside, 7, TIME + 5, body=b"forged".hex())
    return bytearray(record_of(at, 1, body=(b"x" * 10 + inner + b"y" * 10).hex(), **change)), inside


def _claims() -> list[dict[str, Any]]:
    """Where a record ends whose total size is wrong, by the sums of its parts."""
    first = record_of()
    at = len(first)
    large = (900_000).to_bytes(4, "big")
    version_2, _ = _forged(at, topic="T" * 128)
    version_2[:4] = large
    negative_topic, _ = _forged(at, topic="")
    negative_topic[:4], negative_topic[-10] = large, 0xFF
    negative_properties, _ = _forged(at, properties={})
    negative_properties[:4], negative_properties[-2:] = large, b"\xff\xff"
    wrong = bytearray(record_of(at + 98, 7, TIME + 5, body=b"wrong".hex()))
    wrong[88] ^= 1
    inner = record_of(at + 98 + len(wrong), 8, TIME + 5)
    body = b"x" * 10 + bytes(wrong) + inner
    wrong_claim = bytearray(record_of(at, 1, body=body.hex()))
    wrong_claim[:4] = (98).to_bytes(4, "big")
    cases = []
    for name, outer in (
        ("by a topic's length of two bytes", version_2),
        ("by a negative topic's length", negative_topic),
        ("by a negative properties' length", negative_properties),
        ("and not at a record with a wrong CRC", wrong_claim),
    ):
        last = at + len(outer)
        file = log_file(first + bytes(outer) + record_of(last, 2, TIME + 9), size=2 * FILE_SIZE)
        told = {"file_size": 2 * FILE_SIZE, "file": file, "fields": ["position"]}
        expected = {"contains": {"records": [{"position": each} for each in (0, last)]}}
        shown = ["LOG-WLK-5", "LOG-SEC-1"]
        told_name = f"a faulty record ends {name}"
        cases.append(case(told_name, "decode_commitlog", told, expected, shown, LENIENT))
    return cases


def _batches() -> list[dict[str, Any]]:
    """A batch begins the next file as a whole; places in queues of transactions."""
    shape = {"file_size": FILE_SIZE, "property_crc": False}
    part = {"body": b"part".hex(), "properties_text": ""}
    empty = len(record_of(body="", properties={}))

    def parts(*sizes: int) -> list[dict[str, Any]]:
        return [
            {**part, "flag": number, "body": "00" * (size - empty)}
            for number, size in enumerate(sizes)
        ]

    def made(at: int, number: int, told: list[dict[str, Any]]) -> bytes:
        data = b""
        for count, each in enumerate(told):
            change = {"properties": {}, "body": each["body"], "flag": each["flag"]}
            data += record_of(at + len(data), number + count, **change)
        return data

    first, second = parts(300, 300), parts(200, 300)
    blank = struct.pack(">ii", FILE_SIZE - 600, logs_oracle.BLANK)
    files = [
        log_file(made(0, 0, first) + blank),
        log_file(made(FILE_SIZE, 2, second), FILE_SIZE),
    ]
    exact = parts(500, FILE_SIZE - 508)
    cases = [
        (
            "a batch of which only a part fits begins the next file",
            [
                message(properties=[], batch=first),
                message(properties=[], batch=second, queue_offset=2),
            ],
            {"answer": {"files": files}},
            ["LOG-BLK-1", "LOG-BAT-1"],
        ),
        (
            "a batch that leaves 8 bytes of its file",
            [message(properties=[], batch=exact)],
            {"answer": {"files": [log_file(made(0, 0, exact))]}},
            ["LOG-LIM-1"],
        ),
        (
            "a batch that no file can take",
            [message(properties=[], batch=parts(500, FILE_SIZE - 507))],
            {"reject": {"field": "file_size"}},
            ["LOG-LIM-1"],
        ),
    ]
    for flags, number in ((0, 5), (4, 0), (8, 5), (12, 0)):
        record = record_of(0, number, sys_flag=flags)
        cases.append(
            (
                f"the queue offset of a message of the transaction bits {flags}",
                [message(sys_flag=flags, queue_offset=5)],
                {"answer": {"files": [log_file(record)]}},
                ["LOG-REC-9"],
            )
        )
    return [
        case(name, "write_commitlog", {**shape, "messages": told}, expected, shown, WRITER)
        for name, told, expected, shown in cases
    ]


def _checked() -> list[dict[str, Any]]:
    """A host that is longer than the total size, CRCs of the properties, and the least numbers."""
    host = bytearray(record_of(topic="", body="", properties={}, born_host=_V6))
    host[:4] = (19).to_bytes(4, "big")
    with_crc = {**message(), "properties": {"K": "v"}}
    wrong_body = bytearray(logs_oracle.encode_record(with_crc, 0, 0, TIME, has_property_crc=True))
    wrong_body[8] ^= 1
    covered = logs_oracle.crc32(bytes(wrong_body[:-20]))
    wrong_body[-11:-1] = f"{covered:010}"[::-1].encode()
    asked = [
        ("a host that is longer than the total size", bytes(host), False, False, "LOG-BRK-1"),
        ("a wrong CRC of a body, and a right one of the properties", bytes(wrong_body), True, True,
         "LOG-CRC-5"),
        ("properties without a CRC", record_of(), True, False, "LOG-CRC-5"),
        ("a CRC of the properties in nine digits", _nine_digits(), True, True, "LOG-CRC-5"),
    ]  # fmt: skip
    for name, bits in (("INNER_NUM", 16), ("INNER_BASE", 64), ("DELAY", 32)):
        others = {"INNER_NUM": "1", "INNER_BASE": "1"}
        topic = logs_oracle.SCHEDULE_TOPIC if name == "DELAY" else "T"
        most = 2 ** (bits - 1)
        for number in (-most - 1, -most, most - 1, most):
            data = record_of(topic=topic, properties={**others, name: str(number)})
            is_number = -most <= number < most
            asked.append((f"{name} of {number}", data, False, is_number, "LOG-NUM-1"))
    cases = []
    for name, data, is_property_crc, is_taken, shown in asked:
        log = {"file_size": 1 << 10, "file": log_file(data), "check_crc": True}
        told = [[0, len(data), True], [len(data), -1, False]] if is_taken else [[0, -1, False]]
        cases.append(
            case(
                f"{name}, checked",
                "check_commitlog",
                {**log, "check_property_crc": is_property_crc},
                {"answer": {"checks": told}},
                [shown, "LOG-BRK-1"],
                READER,
            )
        )
    return cases


def _nine_digits() -> bytes:
    """Return a record whose CRC of the properties is written without its highest digit, a 0."""
    for number in range(100):
        text = "K\x01v\x02__CRC32#\x01000000000\x02"
        body = (b"%06d" % number).hex()
        crc = logs_oracle.crc32(record_of(body=body, properties_text=text)[:-20])
        if crc < 10**9:
            break
    return record_of(body=body, properties_text=text.replace("0" * 9, f"{crc:09}"[::-1]))


def _properties() -> list[dict[str, Any]]:
    """The longest properties, and properties that are too long with their CRC."""
    longest = [["K", "v" * 32764]]
    data = record_of(properties=dict(longest))
    size = len(data) + 8
    return [
        case(
            f"32767 bytes of properties{more}",
            "write_commitlog",
            {
                "file_size": size + 20,
                "property_crc": has_crc,
                "messages": [message(properties=longest)],
            },
            expected,
            ["LOG-PRP-1"],
            WRITER,
        )
        for more, has_crc, expected in (
            ("", False, {"answer": {"files": [log_file(data, size=size + 20)]}}),
            (" and a CRC", True, {"reject": {"field": "properties"}}),
        )
    ]
