"""Exchanges that tell a step of the store chapters from its neighbour, as ``step_exchanges.py``."""

from __future__ import annotations

import struct
from typing import Any

import logs_oracle
from edge_exchanges import READER, case, log_file, record_of
from store_boundaries import built
from store_exchanges import FILE_SIZE, LENIENT, STRICT, TIME, WRITER

LOADER = "broker_faithful_loader"
#: A multiple of the sizes of files, and more than 32 bits hold.
_FAR = 1 << 32
_FAR_QUEUE = 40 << 30
_HIGH = (1 << 32) + (1 << 31) + 8
_V6 = "20010db8000000000000000000000005:10911"
_FIRST = record_of()
_SIZE = len(_FIRST)


def store_steps() -> list[dict[str, Any]]:
    """Return all of them."""
    return [
        *_walked(),
        *_scanned(),
        *_checked(),
        *_recovered(),
        *_inner(),
        *_ids(),
        *_decoded(),
        *_queues(),
        *_batch_queues(),
        *_units(),
        *_checkpoints(),
    ]


def _property_crc(more: int = 0) -> bytes:
    """Return a record whose property of the CRC is so much more than the CRC."""
    covered = _crc_record()[:-20]
    number = f"{logs_oracle.crc32(covered) + more:010}"[::-1]
    return covered + b"__CRC32#\1" + number.encode() + b"\2"


def _crc_record() -> bytes:
    told = {"topic": "T", "queue_id": 0, "born_timestamp": TIME, "body": b"one".hex()}
    told |= {"born_host": "0a000001:43210", "store_host": "0a000001:10911"}
    return logs_oracle.encode_record(
        {**told, "properties": {"KEYS": "a"}}, 0, 0, TIME, has_property_crc=True
    )


def _walked() -> list[dict[str, Any]]:
    """What is left of a file where no record fits, and properties that are nearly a CRC."""
    junk = {"kind": "fault", "position": _SIZE, "fault": {"field": "total_size", "byte": _SIZE}}
    second = record_of(_SIZE, 1)
    cases = []
    for name, data, requirement in (
        ("90 bytes that are no record end a file", _FIRST + b"\x11" * 90, "LOG-SND-1"),
        ("a record that lacks its last byte ends a file", _FIRST + second[:-1], "LOG-SND-1"),
        ("a byte ends a file", _FIRST + b"\x11", "LOG-WLK-1"),
    ):
        told = {"file_size": len(data), "file": log_file(data, size=len(data))}
        answer = {"answer": {"walk": [0], "end": junk, "crc_faults": []}}
        cases.append(case(name, "walk_commitlog", told, answer, [requirement], STRICT))
    faulty = [{"position": 0, "field": "property_crc"}]
    for name, data, faults in (
        ("a short property", record_of(properties_text="__CRC32#\x01123\x02"), []),
        ("another name", record_of(properties_text="ABCDEFGH\x010123456789\x02"), []),
        ("no end", record_of(properties_text="__CRC32#\x010123456789x"), []),
        ("2^32 more than the CRC", _property_crc(1 << 32), faulty),
    ):
        told = {"file_size": FILE_SIZE, "file": log_file(data)}
        end = {"kind": "zero", "position": len(data)}
        answer = {"answer": {"walk": [0], "end": end, "crc_faults": faults}}
        whole = f"a property of a CRC with {name}"
        cases.append(case(whole, "walk_commitlog", told, answer, ["LOG-CRC-4"], STRICT))
    return cases


def _blank(at: int) -> bytes:
    return struct.pack(">ii", FILE_SIZE - at, logs_oracle.BLANK)


def _scanned() -> list[dict[str, Any]]:
    """Files behind 4 GiB, and files of zeros before and behind others."""
    far = record_of(_FAR)
    ended = log_file(_FIRST + _blank(_SIZE))
    third = log_file(record_of(2 * FILE_SIZE, 1), 2 * FILE_SIZE)
    fault = {"field": "magic_code", "byte": _SIZE + 4}
    return [
        case(
            name,
            "scan_commitlog", {"file_size": FILE_SIZE, "files": files}, expected, [shown], STRICT,
        )
        for name, files, expected, shown in (
            (
                "zeros behind 4 GiB",
                [log_file(b"", _FAR)], {"answer": {"max_offset": _FAR}}, "LOG-WLK-2",
            ),
            (
                "a blank record and zeros behind 4 GiB",
                [log_file(far + _blank(_SIZE), _FAR), log_file(b"", _FAR + FILE_SIZE)],
                {"answer": {"max_offset": _FAR + FILE_SIZE}}, "LOG-WLK-2",
            ),
            (
                "a file that zeros end, and one of zeros",
                [log_file(_FIRST), log_file(b"", FILE_SIZE)],
                {"answer": {"max_offset": _SIZE}}, "LOG-WLK-2",
            ),
            (
                "a file of zeros between two with records",
                [ended, log_file(b"", FILE_SIZE), third],
                {"reject": {"field": "total_size", "byte": 0}}, "LOG-WLK-3",
            ),
            (
                "a fault in a file before the last one",
                [log_file(_FIRST + b"\x11" * 200), log_file(record_of(FILE_SIZE, 1), FILE_SIZE)],
                {"reject": fault}, "LOG-WLK-3",
            ),
        )
    ]  # fmt: skip


def _checked() -> list[dict[str, Any]]:
    """Sizes below those of hosts, a magic code that is none, and what of the CRCs is checked."""
    second_version = record_of(topic="T" * 128)
    assert second_version[7] == logs_oracle.V2 & 0xFF
    other = second_version[:7] + b"\x77" + second_version[8:]
    wraps = _property_crc(1 << 32)

    def sized(**hosts: str) -> bytes:
        return struct.pack(">i", 10) + record_of(**hosts)[4:]

    cases = []
    for name, data, checks_crc, checks_property, first, shown in (
        ("a total size of 10", sized(), True, False, [0, 10, False], "LOG-BRK-1"),
        (
            "a total size of 10 and a born host of IPv6",
            sized(born_host=_V6),
            True,
            False,
            None,
            "LOG-BRK-1",
        ),
        (
            "a total size of 10 and a store host of IPv6",
            sized(store_host=_V6),
            True,
            False,
            None,
            "LOG-BRK-1",
        ),
        ("a magic code of no version", other, True, False, None, "LOG-BRK-1"),
        ("a property of a CRC that wraps", wraps, True, True, [0, len(wraps), True], "LOG-CRC-5"),
        ("no CRC, where none is checked", _FIRST, False, True, [0, _SIZE, True], "LOG-CRC-5"),
    ):
        told = {"file": log_file(data), "file_size": FILE_SIZE}
        told |= {"check_crc": checks_crc, "check_property_crc": checks_property}
        checks = [first or [0, -1, False]]
        if checks[0][2]:
            checks.append([len(data), -1, False])
        answer = {"answer": {"checks": checks}}
        cases.append(case(name, "check_commitlog", told, answer, [shown], READER))
    return cases


def _recovered() -> list[dict[str, Any]]:
    """Logs behind 4 GiB, files that a start passes over, and files of a wrong size."""
    junk = b"\x11" * 100
    names = [_FAR, _FAR + FILE_SIZE]
    far = [log_file(junk, names[0]), log_file(record_of(names[1]), names[1])]
    blank = struct.pack(">ii", FILE_SIZE, logs_oracle.BLANK) + bytes(48) + struct.pack(">q", 5)
    forged = [log_file(junk), log_file(blank, FILE_SIZE)]
    full = log_file(_FIRST + _blank(_SIZE))
    empty = {"name": f"{FILE_SIZE:020}", "hex": ""}
    third = log_file(record_of(2 * FILE_SIZE, 1), 2 * FILE_SIZE)
    short = log_file(b"", _FAR + FILE_SIZE, FILE_SIZE - 1)
    at_far = log_file(record_of(_FAR) + _blank(_SIZE), _FAR)
    cases = []
    for name, files, is_ok, least, most, is_loaded, end, left, shown in (
        ("queues that lead to the last file", far, True, 0, names[1] + 1, True, names[1] + _SIZE, 2,
         "LOG-RCV-1"),
        ("queues that lead to the first file", far, True, 0, _FAR + 1, True, _FAR, 1, "LOG-RCV-1"),
        ("queues that lead before the first file", [at_far], True, 0, 0, True, _FAR + _SIZE, 1,
         "LOG-RCV-1"),
        ("queues that lead before the first of two files", far, True, 0, 0, True, _FAR, 1,
         "LOG-RCV-1"),
        ("a file that begins with a blank record", forged, False, TIME, 0, True, 0, 1, "LOG-RCV-1"),
        ("an empty file before the last one", [full, empty, third], True, 0, 0, False, FILE_SIZE, 3,
         "LOG-FIL-4"),
        ("a first file of another size", [log_file(b"", 0, 8)], True, 0, 0, False, 0, 1,
         "LOG-FIL-4"),
        ("a second file of another size, far", [at_far, short], True, 0, 0, False, names[1], 2,
         "LOG-FIL-4"),
    ):  # fmt: skip
        told = {"file_size": FILE_SIZE, "files": files, "last_exit_ok": is_ok, "check_crc": True}
        told |= {"min_timestamp": least, "queue_max_phy_offset": most}
        kept = [file["name"] for file in files[:left]]
        answer = {"load_result": is_loaded, "max_offset": end, "files_after": kept}
        whole = f"a start on {name}"
        cases.append(case(whole, "recover_commitlog", told, {"answer": answer}, [shown], LOADER))
    return cases


def _inner() -> list[dict[str, Any]]:
    """What is left of a body where no message fits."""
    message = struct.pack(">iiiiih", 22, 0, 0, 0, 0, 0)
    return [
        case(
            f"an inner message and {name}",
            "inner_messages", {"hex": (message + more).hex(), "sys_flag": 192}, {"reject": {}},
            ["LOG-BAT-4"], STRICT,
        )
        for name, more in (
            ("a byte", b"\0"),
            ("20 bytes", message[:20]),
            ("one that lacks its last byte", message[:21]),
        )
    ]  # fmt: skip


def _ids() -> list[dict[str, Any]]:
    """Offset ids that a strict reader takes."""
    return [
        case(
            f"an offset id of the offset {offset}",
            "decode_offset_id",
            {"message_id": "0A00000100002A9F" + struct.pack(">q", offset).hex().upper()},
            {"answer": {"address": "0a000001", "port": 10911, "phy_offset": offset}},
            ["MID-OID-4"],
            STRICT,
        )
        for offset in (202, 0)
    ]


def _unit(phy_offset: int, size: int = 200, code: int = 7) -> bytes:
    return struct.pack(">qiq", phy_offset, size, code)


def _batch_unit(phy_offset: int, base: int, count: int = 1, size: int = 500) -> bytes:
    return struct.pack(">qiqqqhii", phy_offset, size, 5, TIME, base, count, -1, 0)


def _queue_file(data: bytes, start: int = 0, size: int = 40) -> dict[str, str]:
    return log_file(data, start, size)


def _decoded() -> list[dict[str, Any]]:
    """Units of small sizes and of far places."""
    cases = []
    for name, is_batch, file, unit in (
        ("a unit of the size 1", False, _queue_file(_unit(100, 1)), {"size": 1}),
        (
            "a batch unit of a blank one's size",
            True, _queue_file(_batch_unit(0, 3, 1, 2**31 - 1), size=92), {"size": 2**31 - 1},
        ),
        (
            "a batch unit of messages behind 6 * 2^30",
            True, _queue_file(_batch_unit(100, _HIGH), size=92), {"msg_base_offset": _HIGH},
        ),
        (
            "a unit behind 40 GiB of a queue",
            False, _queue_file(_unit(100), _FAR_QUEUE), {"queue_offset": _FAR_QUEUE // 20},
        ),
    ):  # fmt: skip
        told = {"is_batch": is_batch, "file_size": 92 if is_batch else 40, "files": [file]}
        told |= {"folder": "TopicTest/2", "fields": [*unit]}
        expected = {"contains": {"units": [unit], "blank_units": 0}}
        cases += [
            case(f"{name}, {reader}", "decode_consumequeue", told, expected, ["CQ-UNT-2"], reader)
            for reader in (STRICT, LENIENT)
        ]
    return cases


Steps = list[tuple[str, list[int], int, int]]


def _changed(
    name: str,
    files: list[dict[str, str]],
    steps: Steps,
    shown: str,
    **more: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """Return what a queue does, each step with the offsets that it leads to."""
    told = [{"do": do, "arguments": arguments} for do, arguments, _, _ in steps]
    made = [
        {**step, "min_offset": least, "max_offset": most}
        for step, (_, _, least, most) in zip(told, steps, strict=True)
    ]
    how: dict[str, Any] = {"claimed": LOADER, "is_batch": False, "expected": {}, **more}
    made[-1] |= how.get("last", {})
    size = 92 if how["is_batch"] else 40
    request = {"is_batch": how["is_batch"], "file_size": size, "files": files, "steps": told}
    expected = {"contains": {"steps": made, **how["expected"]}}
    return case(name, "change_consumequeue", request, expected, [shown], how["claimed"])


def _queues() -> list[dict[str, Any]]:
    """Steps on queues at each edge of a comparison."""
    two = _unit(1000) + _unit(1200)
    both = [_queue_file(two), _queue_file(_unit(1400), 40)]
    far = [_queue_file(_unit(_FAR + 1000), _FAR_QUEUE)]
    first = _FAR_QUEUE // 20
    put = _unit(_FAR + 1000, 200, 1 << 33)
    return [
        _changed(
            "a put below a unit behind 4 GiB of the log", [_queue_file(_unit(_FAR + 1000))],
            [("put", [5000, 200, 1, 1], 0, 1)], "CQ-PUT-3",
        ),
        _changed(
            "a log that begins one byte behind the last unit", [_queue_file(two)],
            [("correct_min_offset", [1201], 2, 2)], "CQ-MIN-1",
        ),
        _changed(
            "a log that begins behind the first file's units", both,
            [("correct_min_offset", [1300], 0, 3)], "CQ-MIN-1",
        ),
        _changed(
            "no file, and a log that begins", [], [("correct_min_offset", [5], 0, 0)], "CQ-MIN-1"
        ),
        _changed(
            "truncation one byte behind the first unit", [_queue_file(two)],
            [("truncate", [1001], 0, 1)], "CQ-TRC-1",
        ),
        _changed(
            "truncation one byte behind the second unit", [_queue_file(two)],
            [("truncate", [1201], 0, 2)], "CQ-TRC-1",
        ),
        _changed(
            "truncation of a queue that does not begin at 0", [_queue_file(two, 40)],
            [("truncate", [500], 0, 0)], "CQ-TRC-3",
        ),
        _changed(
            "a first put behind 80 GiB of a queue", [],
            [("put", [1000, 200, 1, 2 * first], 2 * first, 2 * first + 1)], "CQ-PUT-1",
        ),
        _changed(
            "a put of numbers of more than 32 bits", [],
            [("put", [_FAR + 1000, 200, 1 << 33, 0], 0, 1)], "CQ-PUT-1",
            expected={"files_after": [_queue_file(put)]},
        ),
        _changed(
            "a put into a queue behind 40 GiB", far,
            [("put", [_FAR + 1200, 200, 1, first + 1], 0, first + 2)], "CQ-PUT-1",
        ),
        _changed(
            "a strict writer's first put, at an offset", [],
            [("put", [1000, 200, 1, 4], 4, 5)], "CQ-PUT-4", claimed=WRITER,
        ),
        _changed(
            "a strict writer's next put", [_queue_file(_unit(1000))],
            [("put", [1200, 200, 1, 1], 0, 2)], "CQ-PUT-4", claimed=WRITER,
        ),
    ]  # fmt: skip


def _batch_queues() -> list[dict[str, Any]]:
    """Batch queues without units, with part of a file, and with great numbers."""
    base = 1 << 33
    put = struct.pack(">qiqqqhii", 1000, 500, base, TIME + base, base, 3, -1, 0)
    one = _batch_unit(1000, 10, 3)
    units = [[10, 1000, 500, 5, 3]]
    recovered = {"recovered": {"min_offset": 10, "max_offset": 13, "units": units}}
    pair = _batch_unit(1000, 0) + _batch_unit(2000, 1)
    return [
        _changed(
            "a batch queue whose first message is gone",
            [_queue_file(pair, size=92)],
            [("correct_min_offset", [2000], 1, 2)],
            "CQ-BAT-2",
            is_batch=True,
            last={"units": [[1, 2000, 500, 5, 1]]},
        )
    ] + [
        _changed(name, files, steps, "CQ-BAT-2", is_batch=True, expected=expected)
        for name, files, steps, expected in (
            (
                "a batch queue of a file of zeros", [_queue_file(b"", size=92)],
                [("correct_min_offset", [0], -1, 0)], {},
            ),
            ("a batch queue without files", [], [("correct_min_offset", [5], -1, 0)], {}),
            (
                "a batch queue behind which the log begins", [_queue_file(one, size=92)],
                [("correct_min_offset", [5000], 13, 13)],
                recovered,
            ),
            (
                "a batch queue that does not begin at 0", [_queue_file(one, 92, 92)],
                [("correct_min_offset", [0], 10, 13)],
                recovered,
            ),
            (
                "a batch put of numbers of more than 32 bits", [],
                [("put", [1000, 500, base, base, 3], base, base + 3)],
                {"files_after": [_queue_file(put, size=92)]},
            ),
        )
    ]  # fmt: skip


def _units() -> list[dict[str, Any]]:
    """A level of delay, a light queue's far offset, and a unit behind 4 GiB."""
    schedule, ten_minutes = logs_oracle.SCHEDULE_TOPIC, 600_000
    light = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": str(_HIGH)}
    far = {"name": f"{_FAR:020}", "hex": record_of(_FAR).ljust(FILE_SIZE, b"\0").hex()}
    told = {"file": far, "batch_topics": [], "light_queues": False, "topic": "T", "queue_id": 0}
    return [
        *built(
            "a DELAY of 14",
            [(0, {"topic": schedule, "properties": {"DELAY": "14"}})], {(schedule, 0): [(0, 0)]},
            ["CQ-TAG-1"], codes=(TIME + ten_minutes,),
        ),
        *built(
            "a light queue's offset of more than 32 bits",
            [(0, {"properties": light})], {("%LMQ%a", 0): [(_HIGH, 0)]}, ["CQ-DSP-2"],
        ),
        case(
            "a unit of a record behind 4 GiB", "build_consumequeue", told,
            {"answer": {"units": [[0, _FAR, _SIZE, 0]]}}, ["CQ-DSP-1"], WRITER,
        ),
    ]  # fmt: skip


def _checkpoints() -> list[dict[str, Any]]:
    """Fields of more than 32 bits, and a sixth field where there are five."""
    values = [TIME, TIME, TIME, _HIGH, _HIGH + 1, _HIGH + 2]
    names = ["physic_msg_timestamp", "logics_msg_timestamp", "index_msg_timestamp"]
    names += ["master_flushed_offset", "confirm_phy_offset", "logics_physical_offset"]
    data = struct.pack(">6q", *values)
    before = {"hex": data.ljust(64, b"\0").hex(), "size": 4096}
    made = dict(zip(names, values, strict=True))
    ignored = {"before": None, "set": {names[5]: 5, names[4]: 7}, "fields": [names[4]]}
    five = {names[4]: 7}
    fields = {name: made[name] for name in names[:5]}
    return [
        case(
            "offsets of more than 32 bits", "change_checkpoint",
            {"before": before, "set": {}, "fields": names}, {"contains": {"fields": made}},
            ["CHK-FLD-1"], WRITER, editions=["5.5"],
        ),
        case(
            "a sixth field where there are five", "change_checkpoint", ignored,
            {"contains": {"fields": five}}, ["CHK-FLD-1"], WRITER, editions=["4.7.1", "5.0", "5.4"],
        ),
        case(
            "a checkpoint with offsets of more than 32 bits", "read_checkpoint",
            {"hex": data[:40].ljust(4096, b"\0").hex()},
            {"contains": {"fields": fields}}, ["IDX-CKP-3"], READER,
        ),
    ]  # fmt: skip
