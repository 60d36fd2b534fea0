"""Exchanges at the edges of the store chapters: numbers beyond 32 bits, limits, what is refused."""

from __future__ import annotations

import struct
from typing import Any

import logs_oracle
from store_exchanges import FILE_SIZE, LENIENT, MESSAGE, STRICT, TIME, WRITER
from store_exchanges import case as made_case

READER = "broker_faithful_reader"
#: A multiple of the size of a file, and more than 32 bits hold.
FAR = 1 << 32
_INT32_MAX = 2**31 - 1


def edge_exchanges() -> list[dict[str, Any]]:
    """Return all of them."""
    return [
        *_far(),
        *_written(),
        *_goes_on(),
        *_ids(),
        *_refused(),
        *_sizes(),
        *_keys(),
        *_unreadable(),
        *_forged(),
        *_folders(),
        *_gap(),
        *_skipped(),
    ]


def case(
    name: str,
    operation: str,
    told: dict[str, Any],
    expected: dict[str, Any],
    requirements: list[str],
    claimed: str | None,
    **more: Any,  # noqa: ANN401  (JSON)
) -> dict[str, Any]:
    """Return a case that is asked of a class, or of every one."""
    asked = {} if claimed is None else {"class": claimed}
    return made_case(name, operation, told, expected, requirements, **asked, **more)


def message(**change: Any) -> dict[str, Any]:  # noqa: ANN401  (a message's fields)
    """Return a message to be written."""
    return {**MESSAGE, **change}


def record_of(at: int = 0, number: int = 0, time: int = TIME, **change: Any) -> bytes:  # noqa: ANN401
    """Return a record, as it is written."""
    told = {**message(), "properties": {"KEYS": "a"}, **change}
    return logs_oracle.encode_record(told, at, number, time)


def log_file(data: bytes, start: int = 0, size: int = FILE_SIZE) -> dict[str, str]:
    """Return a file of a log, zeros behind the data."""
    return {"name": f"{start:020}", "hex": data.ljust(size, b"\0").hex()}


def _far() -> list[dict[str, Any]]:
    """A record behind the first 4 GiB of a log and of its queue, and ids of such places."""
    number = 2**31 + 7
    data = record_of(FAR, number, queue_id=3)
    file = log_file(data, FAR)
    walked = {"walk": [0], "end": {"kind": "zero", "position": len(data)}, "crc_faults": []}
    fields = ["position", "physical_offset", "queue_id", "queue_offset"]
    record = {"position": 0, "physical_offset": FAR, "queue_id": 3, "queue_offset": number}
    log = {"file_size": FILE_SIZE, "file": file}
    made = {"address": "0a000001", "port": 10911, "phy_offset": FAR + 5}
    text = "0A00000100002A9F0000000100000005"
    return [
        case(
            "the walk over a file behind 4 GiB",
            "walk_commitlog", log, {"answer": walked}, ["LOG-REC-5", "LOG-FIL-3"], STRICT,
        ),
        *(
            case(
                f"a record behind 4 GiB of the log and of its queue, {reader}",
                "decode_commitlog",
                {**log, "fields": fields},
                {"contains": {"records": [record]}},
                ["LOG-REC-1", "LOG-REC-5", "LOG-REC-9"],
                reader,
            )
            for reader in (STRICT, LENIENT)
        ),
        case(
            "the end of a log behind 4 GiB",
            "scan_commitlog",
            {"file_size": FILE_SIZE, "files": [file]},
            {"answer": {"max_offset": FAR + len(data)}},
            ["LOG-WLK-2"],
            STRICT,
        ),
        case(
            "an offset id behind 4 GiB",
            "make_offset_id", made, {"answer": {"message_id": text}}, ["MID-OID-1"], WRITER,
        ),
        case(
            "an offset id behind 4 GiB, read",
            "decode_offset_id",
            {"message_id": text},
            {"answer": made},
            ["MID-OID-3"],
            READER,
        ),
    ]  # fmt: skip


def _written() -> list[dict[str, Any]]:
    """Records that fit a file and its blank record exactly, or no file; and long topics."""
    empty = len(record_of(body="", properties={}))
    shape = {"file_size": FILE_SIZE, "property_crc": False}

    def sized(size: int, number: int) -> dict[str, Any]:
        return message(body="00" * (size - empty), properties=[], queue_offset=number)

    def bytes_of(size: int, at: int, number: int) -> bytes:
        return record_of(at, number, body="00" * (size - empty), properties={})

    first, left = 400, FILE_SIZE - 400
    blank = struct.pack(">ii", left, logs_oracle.BLANK)
    second = log_file(bytes_of(left, FILE_SIZE, 1), FILE_SIZE)
    two = [log_file(bytes_of(first, 0, 0) + blank), second]
    largest = log_file(bytes_of(FILE_SIZE - 8, 0, 0))
    part = {"flag": 0, "body": b"part".hex(), "properties_text": "KEYS\x01b"}
    joined = {"properties_text": "KEYS\x01b", "body": part["body"]}
    with_crc = logs_oracle.encode_record({**message(), **joined}, 0, 0, TIME, has_property_crc=True)
    assert b"KEYS\x01b\x02__CRC32#" in with_crc
    cases = [
        (
            "a record that would end with its file begins the next one",
            {**shape, "messages": [sized(first, 0), sized(left, 1)]},
            {"answer": {"files": two}},
            ["LOG-BLK-1"],
        ),
        (
            "a record that leaves 8 bytes of its file",
            {**shape, "messages": [sized(FILE_SIZE - 8, 0)]},
            {"answer": {"files": [largest]}},
            ["LOG-BLK-1", "LOG-LIM-1"],
        ),
        (
            "a record that leaves 7 bytes of an empty file",
            {**shape, "messages": [sized(FILE_SIZE - 7, 0)]},
            {"reject": {}},
            ["LOG-LIM-1"],
        ),
        (
            "a record that is longer than a file",
            {**shape, "messages": [sized(first, 0), sized(2 * FILE_SIZE, 1)]},
            {"reject": {}},
            ["LOG-LIM-1"],
        ),
        (
            "a topic of 32,768 bytes",
            {"file_size": 1 << 17, "property_crc": False, "messages": [message(topic="T" * 32768)]},
            {"reject": {}},
            ["LOG-REC-7"],
        ),
        (
            "a batch without properties, and a last 02 that the CRC needs",
            {
                "file_size": FILE_SIZE,
                "property_crc": True,
                "messages": [message(properties=[], batch=[part])],
            },
            {"answer": {"files": [log_file(with_crc)]}},
            ["LOG-CRC-3"],
        ),
    ]
    return [
        case(name, "write_commitlog", told, expected, requirements, WRITER)
        for name, told, expected, requirements in cases
    ]


def _goes_on() -> list[dict[str, Any]]:
    """A fault, and behind it a record whose CRC is wrong: no reader goes on there."""
    first = record_of()
    place = len(first) + 100
    behind = bytearray(record_of(place, 1))
    behind[88] ^= 1
    file = log_file(first + b"\x11" * 100 + bytes(behind))
    third = place + len(behind)
    three = log_file(
        first + b"\x11" * 100 + bytes(behind) + b"\x22" * 40 + record_of(third + 40, 2)
    )
    alone = {"file_size": FILE_SIZE, "files": [file]}
    return [
        case(
            "a fault, and a record behind it whose CRC is wrong",
            "scan_commitlog", alone, {"answer": {"max_offset": len(first)}}, ["LOG-WLK-3"], STRICT,
        ),
        *(
            case(
                f"a fault, and behind it a record whose CRC is wrong{more}, read leniently",
                "decode_commitlog",
                {"file_size": FILE_SIZE, "file": each, "fields": ["position"]},
                {"contains": {"records": [{"position": at} for at in found]}},
                ["LOG-WLK-4", "LOG-SEC-1"],
                LENIENT,
            )
            for more, each, found in (
                ("", file, [0]),
                (" and a sound one", three, [0, third + 40]),
            )
        ),
    ]  # fmt: skip


def _ids() -> list[dict[str, Any]]:
    """The least and the greatest port, and parts of a unique key whose highest bit is set."""
    cases = []
    for port, digits in ((0, "00000000"), (65535, "0000FFFF"), (65536, "00010000")):
        text = f"0A000001{digits}00000000000000CA"
        parts = {"address": "0a000001", "port": port, "phy_offset": 202}
        cases.append(
            case(
                f"an offset id of the port {port}",
                "decode_offset_id",
                {"message_id": text},
                {"answer": parts} if port < 65536 else {"reject": {}},
                ["MID-OID-4"],
                READER,
            )
        )
    key = {"address": "ac100309", "pid": 65535, "class_loader_hash": 0x98B4AAC2 - (1 << 32)}
    key |= {"month_milliseconds": 2_678_399_999, "counter": 65535}
    text = "AC100309FFFF98B4AAC29FA523FFFFFF"
    assert logs_oracle.decode_unique_key(text) == {**key, "timestamp": None}
    cases.append(
        case(
            "a unique key whose numbers have their highest bits",
            "decode_unique_key", {"unique_key": text}, {"answer": key}, ["MID-UKY-1"], STRICT,
        )
    )  # fmt: skip
    return cases


def _refused() -> list[dict[str, Any]]:
    """What a rejection of the store chapters names."""
    told = {"file_size": 1 << 17, "property_crc": False}
    return [
        case(
            f"the field of a rejection: {field}, {name}",
            operation,
            request,
            {"reject": {"field": field}},
            ["LOG-LIM-3"],
            claimed,
        )
        for name, operation, request, field, claimed in (
            ("kind", "decompress_body", {"sys_flag": 1 | 4 << 8, "hex": "00"}, "body", STRICT),
            ("ZLIB", "decompress_body", {"sys_flag": 1, "hex": "00"}, "body", STRICT),
            *(
                (name, "write_commitlog", {**told, **change}, name, WRITER)
                for name, change in (
                    ("topic", {"messages": [message(topic="T" * 32768)]}),
                    ("properties", {"messages": [message(properties=[["K", "v" * 32765]])]}),
                    ("file_size", {"file_size": 64, "messages": [message()]}),
                )
            ),
        )
    ]


def _sizes() -> list[dict[str, Any]]:
    """Lengths whose sum with their place is more than 32 bits hold."""
    cases = []
    for field, at in (("total_size", 0), ("body_length", 84)):
        data = bytearray(record_of())
        data[at : at + 4] = _INT32_MAX.to_bytes(4, "big")
        log = {"file_size": FILE_SIZE, "file": log_file(bytes(data))}
        end = {"kind": "fault", "position": 0, "fault": {"field": field, "byte": at}}
        walked = {"walk": [], "end": end, "crc_faults": []}
        cases += [
            case(
                f"a {field} of 2147483647",
                "walk_commitlog", log, {"answer": walked}, ["LOG-LIM-2", "LOG-SND-1"], STRICT,
            ),
            case(
                f"a {field} of 2147483647, checked",
                "check_commitlog",
                {**log, "check_crc": False, "check_property_crc": False},
                {"answer": {"checks": [[0, -1, False]]}},
                ["LOG-LIM-2", "LOG-BRK-1"],
                READER,
            ),
        ]  # fmt: skip
    return cases


def _unreadable() -> list[dict[str, Any]]:
    """A message with a number that a broker cannot read gives no unit; those around it do."""
    data, places = b"", []
    for number, change in enumerate(
        (
            {},
            {"topic": logs_oracle.SCHEDULE_TOPIC, "properties": {"DELAY": "x"}},
            {"properties": {"INNER_BASE": "0", "INNER_NUM": "x"}},
            {},
        )
    ):
        places.append(len(data))
        data += record_of(len(data), max(number - 2, 0), **change)
    told = {"file": log_file(data), "queue_id": 0, "batch_topics": [], "light_queues": False}
    size = places[1]
    return [
        case(
            f"messages with unreadable numbers, {topic}",
            "build_consumequeue",
            {**told, "topic": topic},
            {"answer": {"units": units}},
            ["CQ-DSP-4"],
            WRITER,
        )
        for topic, units in (
            ("T", [[0, 0, size, 0], [1, places[3], size, 0]]),
            (logs_oracle.SCHEDULE_TOPIC, []),
        )
    ]


def _forged() -> list[dict[str, Any]]:
    """A record in the body of another one, which is broken in one field, and how a log goes on."""
    first = record_of()
    at = len(first)
    inner_at = at + 88 + 10
    inner = record_of(inner_at, 7, TIME + 5, topic="Salary", body=b"forged".hex())
    outer = record_of(at, 1, TIME + 1, body=(b"x" * 10 + inner + b"y" * 10).hex())
    behind = record_of(at + len(outer), 2, TIME + 2)
    last = at + len(outer)
    cases = []
    for name, field, place, value in (
        ("magic code", "magic_code", 4, bytes(4)),
        ("size", "total_size", 0, (900_000).to_bytes(4, "big")),
        ("body length", "body_length", 84, (900_000).to_bytes(4, "big")),
        ("offset", "physical_offset", 28, b"\1" * 8),
        ("topic length", "topic_length", len(outer) - 11, b"\xff"),
    ):
        data = bytearray(first + outer + behind)
        data[at + place : at + place + len(value)] = value
        file = log_file(bytes(data))
        fault = {"field": field, "byte": at + place}
        cases += _read_both(
            f"a record in the body of one whose {name} is broken", file, [0, last], fault
        )
        left = FILE_SIZE - last
        blank = struct.pack(">ii", left, logs_oracle.BLANK)
        file = log_file(bytes(data[:last]) + blank)
        ended = {"max_offset": at}
        cases += _read_both(
            f"the same of a broken {name} before a blank record", file, [0], None, ended
        )
    for name, place in (("magic code", 4), ("offset", 28)):
        data = bytearray(first + outer)
        data[at + place] ^= 0x40
        cases += _read_both(
            f"the same of a broken {name} at the end", log_file(bytes(data)), [0], None,
            {"max_offset": at},
        )  # fmt: skip
    return cases


def _read_both(
    name: str,
    file: dict[str, str],
    positions: list[int],
    fault: dict[str, Any] | None,
    ended: dict[str, int] | None = None,
) -> list[dict[str, Any]]:
    """Return how a lenient and a strict reader read the file as the only one of its log."""
    shown = ["LOG-WLK-5", "LOG-SEC-1"]
    return [
        case(
            f"{name}, read leniently",
            "decode_commitlog",
            {"file_size": FILE_SIZE, "file": file, "fields": ["position"]},
            {"contains": {"records": [{"position": each} for each in positions]}},
            [*shown, "LOG-WLK-4"],
            LENIENT,
        ),
        case(
            name,
            "scan_commitlog",
            {"file_size": FILE_SIZE, "files": [file]},
            {"reject": fault} if fault else {"answer": ended},
            [*shown, "LOG-WLK-3"],
            STRICT,
        ),
    ]


def _folders() -> list[dict[str, Any]]:
    """Topics that are no name of one folder."""
    cases = []
    for topic in ("../T", ".", "..", "a/b", "a\0b"):
        data = record_of(topic=topic)
        told = {"file": log_file(data), "queue_id": 0, "batch_topics": [], "light_queues": False}
        cases.append(
            case(
                f"the topic {topic!a}",
                "build_consumequeue",
                {**told, "topic": topic},
                {"answer": {"units": []}},
                ["CQ-SEC-1"],
                WRITER,
            )
        )
    return cases


def _gap() -> list[dict[str, Any]]:
    """A log of two files, of which one is missing between them and none has the told size."""
    first, start = record_of(), 4 * FILE_SIZE
    blank = struct.pack(">ii", FILE_SIZE - len(first), logs_oracle.BLANK)
    last = record_of(start, 1)
    files = [log_file(first + blank), log_file(last, start, FILE_SIZE // 2)]
    return [
        case(
            "a log with a gap between two files of other sizes",
            "scan_commitlog",
            {"file_size": 2 * FILE_SIZE, "files": files},
            {"answer": {"max_offset": start + len(last)}},
            ["LOG-FIL-3", "LOG-FIL-6"],
            STRICT,
        )
    ]


def _skipped() -> list[dict[str, Any]]:
    """A put into a queue of one unit, whose queue offset is not the next one."""
    unit = struct.pack(">qiq", 1000, 200, 5)
    shape = {"is_batch": False, "file_size": 40, "files": [log_file(unit, size=40)]}
    steps = [{"do": "put", "arguments": [1200, 200, 5, 2]}]
    return [
        case(
            "a put of a skipped queue offset",
            "change_consumequeue",
            {**shape, "steps": steps},
            {"reject": {}},
            ["CQ-PUT-4"],
            WRITER,
        )
    ]


def _keys() -> list[dict[str, Any]]:
    """A separator behind the second place of a key is a part of it, as any other character is."""
    told = {"topic": "T#t", "unique_key": "abc#d", "keys": "ef#g# #h", "sys_flag": 0}
    keys = ["T#t#abc#d", "T#t#ef#g#", "T#t##h"]
    return [
        case(
            "keys that contain the separator",
            "message_keys",
            {"message": told},
            {"answer": {"index_keys": keys}},
            ["IDX-HSH-1", "IDX-BLD-5"],
            WRITER,
        )
    ]
