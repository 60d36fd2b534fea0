"""Exchanges of queues, checkpoints and ids at the bounds of comparisons."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import Any

import logs_oracle
from edge_exchanges import case, log_file, record_of
from store_exchanges import LENIENT, STRICT, WRITER

READER, LOADER = "broker_faithful_reader", "broker_faithful_loader"
_SIZE = 40
_DAY = 86_400_000


def queue_exchanges() -> list[dict[str, Any]]:
    """Return all of them."""
    return [*_units(), *_light(), *_steps(), *_checkpoints(), *_offset_ids(), *_unique_keys()]


def _unit(phy_offset: int, size: int = 200, tags_code: int = 5) -> bytes:
    return struct.pack(">qiq", phy_offset, size, tags_code)


def _queue(*files: bytes, start: int = 0) -> dict[str, Any]:
    told = [log_file(data, start + _SIZE * number, size=_SIZE) for number, data in enumerate(files)]
    return {"is_batch": False, "file_size": _SIZE, "files": told}


def _units() -> list[dict[str, Any]]:
    """A hole in a file before another one, and numbers of messages of two bytes."""
    told = {"is_batch": False, "file_size": 60, "folder": "TopicTest/2", "fields": ["queue_offset"]}
    kept = {"units": [{"queue_offset": 0}, {"queue_offset": 3}], "blank_units": 0}
    cases = [
        case(
            f"a file whose last places {name}, and another one, {reader}",
            "decode_consumequeue",
            {**told, "files": [log_file(data, size=60), log_file(_unit(1600), 60, size=60)]},
            {"contains": kept},
            ["CQ-UNT-4", "CQ-UNT-5"],
            reader,
        )
        for name, data in (
            ("hold no unit", _unit(1000)),
            ("are a hole and a unit", _unit(1000) + bytes(20) + _unit(1400)),
        )
        for reader in (STRICT, LENIENT)
    ]
    counts = (300, 32767, -32768)
    data = b"".join(
        struct.pack(">qiqqqhii", 1000 + number, 200, 5, 0, 7 * number, count, -1, 0)
        for number, count in enumerate(counts)
    )
    batch = {"is_batch": True, "file_size": 46 * 3, "folder": "TopicTest/2"}
    batch |= {"fields": ["batch_size"], "files": [log_file(data, size=46 * 3)]}
    kept = {"units": [{"batch_size": count} for count in counts[:2]], "blank_units": 0}
    shown = ["CQ-BAT-1", "CQ-BAT-2"]
    name = "numbers of messages of two bytes"
    return [*cases, case(name, "decode_consumequeue", batch, {"contains": kept}, shown, STRICT)]


def _light() -> list[dict[str, Any]]:
    """Which light queues a message has, and where."""
    cases = []
    for topic, names, places, asked, queue_offset in (
        ("T", "a", "4", ("a", 3), 4),
        ("T", "%LMQ%a", "4", ("%LMQ%a", 0), 4),
        ("T", "a,b,", "4,5", ("b", 3), 5),
        ("T", "a,b", "4,5,,", ("b", 3), 5),
        ("T", ",b", "4,5", ("b", 3), 5),
        ("T", "a,b", "4", ("a", 3), None),
        ("T", "a,a", "4,5", ("a", 3), 4),
        ("T", "T", "4", ("T", 3), 0),
        ("T", "a", " 4", ("a", 3), None),
        ("T", "a", "9223372036854775808", ("a", 3), None),
        ("T", "..", "4", ("..", 3), None),
        ("rmq_sys_x", "a", "4", ("a", 3), None),
        ("%RETRY%x", "a", "4", ("a", 3), None),
        (logs_oracle.SCHEDULE_TOPIC, "a", "4", ("a", 3), None),
        ("%DLQ%x", "a", "4", ("a", 3), 4),
    ):
        text = f"INNER_MULTI_DISPATCH\x01{names}\x02INNER_MULTI_QUEUE_OFFSET\x01{places}\x02"
        data = record_of(topic=topic, queue_id=3, properties_text=text)
        told = {"file": log_file(data), "batch_topics": [], "light_queues": True}
        told |= dict(zip(("topic", "queue_id"), asked, strict=True))
        units = [] if queue_offset is None else [[queue_offset, 0, len(data), 0]]
        shown = {" 4": "CQ-DSP-4", "9223372036854775808": "CQ-DSP-4"}.get(places, "CQ-DSP-2")
        cases.append(
            case(
                f"the light queues {names!a} at {places!a} of the topic {topic}, {asked[0]!a}",
                "build_consumequeue",
                told,
                {"answer": {"units": units}},
                ["CQ-SEC-1" if names == ".." else shown],
                WRITER,
            )
        )
    return cases


def _steps() -> list[dict[str, Any]]:
    """What a broker does with a queue where offsets are equal, or a file has no unit."""
    two = _unit(1000) + _unit(1200)
    asked: list[tuple[str, dict[str, Any], list[tuple[str, list[int]]], list[tuple[int, int]], str]]
    asked = [
        (
            "a message that is put again, at the next place",
            _queue(),
            [("put", [1000, 200, 1, 0]), ("put", [1000, 200, 1, 1]), ("put", [1100, 101, 1, 1])],
            [(0, 1), (0, 1), (0, 2)],
            "CQ-PUT-3",
        ),
        (
            "a log that begins at the last unit",
            _queue(two),
            [("correct_min_offset", [1200])],
            [(1, 2)],
            "CQ-MIN-1",
        ),
        (
            "a log that begins behind all units, before a last file without one",
            _queue(two, b""),
            [("correct_min_offset", [5000])],
            [(0, 2)],
            "CQ-MIN-2",
        ),
        (
            "a log that begins at the last unit of a file",
            _queue(two, _unit(1400)),
            [("expire", [1200]), ("expire", [1201])],
            [(1, 3), (2, 3)],
            "CQ-EXP-1",
        ),
        (
            "a put that ends before the last unit that truncation left",
            _queue(two),
            [("truncate", [1300]), ("put", [1250, 100, 1, 2]), ("put", [1250, 151, 1, 2])],
            [(0, 2), (0, 2), (0, 3)],
            "CQ-TRC-3",
        ),
        (
            "truncation of a last file without a unit",
            _queue(two, b""),
            [("truncate", [500]), ("put", [90, 50, 1, 3])],
            [(0, 3), (0, 4)],
            "CQ-TRC-3",
        ),
        (
            "truncation of all units",
            _queue(two),
            [("truncate", [1000]), ("put", [900, 100, 1, 0]), ("put", [900, 101, 1, 0])],
            [(0, 0), (0, 0), (0, 1)],
            "CQ-TRC-3",
        ),
        (
            "a hole in the third file from the end",
            _queue(two, bytes(20) + _unit(1600), _unit(1800) + _unit(2000), _unit(2200)),
            [("put", [5000, 200, 1, 2])],
            [(0, 3)],
            "CQ-RCV-1",
        ),
    ]
    cases = []
    for name, queue, steps, ends, shown in asked:
        told = [{"do": do, "arguments": arguments} for do, arguments in steps]
        cases.append(
            case(
                name,
                "change_consumequeue",
                {**queue, "steps": told},
                {"contains": {"steps": [_told(*each) for each in zip(told, ends, strict=True)]}},
                [shown],
                LOADER,
            )
        )
    return cases


def _told(step: dict[str, Any], end: tuple[int, int]) -> dict[str, Any]:
    return {**step, "min_offset": end[0], "max_offset": end[1]}


def _checkpoints() -> list[dict[str, Any]]:
    """A time of the index that is negative, of which nothing is made."""
    names = ("physic_msg_timestamp", "logics_msg_timestamp", "index_msg_timestamp")
    names += ("master_flushed_offset", "confirm_phy_offset")
    values = (5000, 9000, -7, 0, 0)
    told = {"hex": struct.pack(">5q", *values).hex()}
    made = {"fields": dict(zip(names, values, strict=True))}
    made |= {"min_timestamp": 2000, "min_timestamp_index": -7}
    name = "a time of the index that is negative"
    shown = ["CHK-MIN-1", "IDX-CKP-3"]
    return [case(name, "read_checkpoint", told, {"answer": made}, shown, READER)]


def _offset_ids() -> list[dict[str, Any]]:
    """Ports and offsets whose highest bit is set, and letters that are no digits."""
    cases = []
    for name, text, readers in (
        ("a negative port", "0A000001FFFFFFFF00000000000000CA", (READER, STRICT)),
        ("the letter G", "0G00000100002A9F00000000000000CA", (STRICT,)),
        ("a fullwidth digit", "\uff10A00000100002A9F00000000000000CA", (STRICT,)),
        ("a negative offset", "0A00000100002A9F80000000000000CA", (STRICT,)),
    ):
        cases += [
            case(
                f"an offset id with {name}, {reader}",
                "decode_offset_id", {"message_id": text}, {"reject": {}}, ["MID-OID-4"], reader,
            )
            for reader in readers
        ]  # fmt: skip
    return cases


def _unique_keys() -> list[dict[str, Any]]:
    """Ids near the ends of their month, and a gRPC client's greatest numbers."""

    def at(*date: int) -> int:
        return round(datetime(*date, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc]

    cases = []
    for name, milliseconds, near, month in (
        ("before the month begins", 5, at(2024, 2, 1) - 1, at(2024, 2, 1)),
        ("behind the month's end", 31 * _DAY - 1, at(2024, 2, 1) + 5, at(2024, 1, 1)),
        ("45 days, which no month has,", 45 * _DAY, at(2024, 3, 1), at(2024, 1, 1)),
    ):
        text = f"AC1003091F9018B4AAC2{milliseconds:08X}0007"
        told = {"unique_key": text, "near": near}
        made = {"timestamp": month + milliseconds}
        whole = f"an id of a client near a time {name}"
        cases.append(
            case(whole, "decode_unique_key", told, {"answer": made}, ["MID-UKY-3"], STRICT)
        )
    told = {"unique_key": "01AC10030900FFFFFF05FFFFFFFFFFFFFF"}
    made = {"version": 1, "mac": "ac10030900ff", "pid": 0xFFFF, "sequence": 0xFFFFFFFF}
    name = "an id of a gRPC client with its greatest numbers"
    return [*cases, case(name, "decode_unique_key", told, {"answer": made}, ["MID-GRP-1"], STRICT)]
