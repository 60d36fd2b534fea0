"""Exchanges of the chapters beside the index, which ``exchanges.py`` puts into the archive."""

from __future__ import annotations

import zlib
from typing import Any

import logs_oracle

WRITER, STRICT, LENIENT = "strict_writer", "strict_reader", "lenient_reader"
TIME = 1_700_000_000_000
FILE_SIZE = 1024
MESSAGE: dict[str, Any] = {
    "topic": "T",
    "queue_id": 0,
    "flag": 0,
    "sys_flag": 0,
    "born_timestamp": TIME,
    "born_host": "0a000001:43210",
    "store_host": "0a000001:10911",
    "reconsume_times": 0,
    "prepared_transaction_offset": 0,
    "body": b"one".hex(),
    "properties": [["KEYS", "a"]],
    "queue_offset": 0,
    "store_timestamp": TIME,
}


def case(
    name: str,
    operation: str,
    told: dict[str, Any],
    expected: dict[str, Any],
    requirements: list[str],
    **more: Any,  # noqa: ANN401  (JSON)
) -> dict[str, Any]:
    """Return a case as it stands in the archive."""
    return {
        "name": name,
        "op": operation,
        "request": told,
        "expected": expected,
        "requirements": requirements,
        **more,
    }


def store_exchanges() -> list[dict[str, Any]]:
    """Return all of them."""
    return [*_written(), *_ends(), *_inner(), *_ids()]


def _written() -> list[dict[str, Any]]:
    """Messages that no record can hold, and a batch whose properties end without 02."""
    shape = {"file_size": 1 << 16, "property_crc": False}
    batches = []
    for name, own, others in (
        ("are kept apart", "KEYS\x01b", MESSAGE["properties"]),
        ("stay without a last 02 where the batch has none", "KEYS\x01b", []),
        ("are those of the batch where the message has none", "", MESSAGE["properties"]),
    ):
        part = {"flag": 1, "body": b"part".hex(), "properties_text": own}
        pairs = "".join(f"{key}\x01{value}\x02" for key, value in others)
        joined = {**MESSAGE, "flag": 1, "body": part["body"]}
        joined["properties_text"] = f"{own}\x02{pairs}" if own and pairs else own + pairs
        record = logs_oracle.encode_record(joined, 0, 0, TIME).ljust(FILE_SIZE, b"\0")
        told = {"file_size": FILE_SIZE, "property_crc": False}
        told["messages"] = [{**MESSAGE, "properties": others, "batch": [part]}]
        made = {"answer": {"files": [{"name": f"{0:020}", "hex": record.hex()}]}}
        batches.append(
            case(
                f"properties of a message and of its batch {name}",
                "write_commitlog",
                told,
                made,
                ["LOG-BAT-2"],
                **{"class": WRITER},
            )
        )
    return [
        case(
            name,
            "write_commitlog",
            {**shape, "messages": [{**MESSAGE, **change}]},
            {"reject": {}},
            [requirement],
            **{"class": WRITER},
        )
        for name, change, requirement in (
            ("43 characters of 129 bytes for a topic", {"topic": "\u4e2d" * 43}, "LOG-REC-7"),
            ("32768 bytes of properties", {"properties": [["K", "v" * 32765]]}, "LOG-PRP-1"),
        )
    ] + batches


def _ends() -> list[dict[str, Any]]:
    """A fault in the last file, and behind it a record that is older or newer than that before."""
    cases = []
    for name, time in (("older", TIME - 1), ("as old", TIME), ("newer", TIME + 1)):
        first = logs_oracle.encode_record(_told(), 0, 0, TIME)
        place = len(first) + 100
        behind = logs_oracle.encode_record(_told(), place, 1, time)
        data = (first + b"\x11" * 100 + behind).ljust(FILE_SIZE, b"\0")
        file = {"name": f"{0:020}", "hex": data.hex()}
        goes_on = time >= TIME
        fault = {"field": "magic_code", "byte": len(first) + 4}
        cases.append(
            case(
                f"a fault, and a record behind it that is {name}",
                "scan_commitlog",
                {"file_size": FILE_SIZE, "files": [file]},
                {"reject": fault} if goes_on else {"answer": {"max_offset": len(first)}},
                ["LOG-WLK-3"] if goes_on else ["LOG-WLK-2", "LOG-WLK-3"],
                **{"class": STRICT},
            )
        )
        found = [{"position": 0}, {"position": place}][: 1 + goes_on]
        cases.append(
            case(
                f"a fault, and the record behind it that is {name}, or not",
                "decode_commitlog",
                {"file_size": FILE_SIZE, "file": file, "fields": ["position"]},
                {"contains": {"records": found}},
                ["LOG-WLK-4"],
                **{"class": LENIENT},
            )
        )
    return cases


def _told() -> dict[str, Any]:
    return {**MESSAGE, "properties": dict(MESSAGE["properties"])}


def _inner() -> list[dict[str, Any]]:
    """A body is one of inner messages if both bits say so, and compressed if bit 0 says so."""
    body = bytes.fromhex("00000019000000000000000000000000000000036f6e650000")
    message = {"flag": 0, "body": b"one".hex(), "properties": {}}
    return [
        case(
            f"system flag {flags}",
            "inner_messages",
            {"hex": data.hex(), "sys_flag": flags},
            {"answer": {"messages": messages}},
            ["LOG-BAT-3"],
            **{"class": STRICT},
        )
        for flags, data, messages in (
            (0, body, []),
            (64, body, []),
            (128, body, []),
            (192, body, [message]),
            (193, zlib.compress(body), [message]),
        )
    ]


def _ids() -> list[dict[str, Any]]:
    """34 digits of another version than 1."""
    key = "02AC10030900001F9000B4AAC205000007"
    return [
        case(
            "34 digits that begin with 02",
            "decode_unique_key",
            {"unique_key": key},
            {"reject": {}},
            ["MID-GRP-1"],
            **{"class": STRICT},
        )
    ]
