"""Exchanges on both sides of comparisons of the store chapters."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import logs_oracle
from edge_exchanges import READER, case
from store_exchanges import FILE_SIZE, LENIENT, MESSAGE, STRICT, TIME, WRITER
from store_exchanges import case as made_case

_INT32_MAX, _INT64_MAX, _INT64_MIN = 2**31 - 1, 2**63 - 1, -(2**63)


def store_boundaries() -> list[dict[str, Any]]:
    """Return all of them."""
    return [
        *_ids(),
        *_records(),
        *_fields(),
        *_written(),
        *_holes(),
        *_properties(),
        *_inner(),
        *_units(),
        *_far_units(),
        *_dispatched(),
        *_light(),
    ]


def _ids() -> list[dict[str, Any]]:
    """An offset below 0, spaces, numbers with their highest bits, and a month's end."""
    negative = "0A00000100002A9FFFFFFFFFFFFFFFFF"
    grpc = {"version": 1, "mac": "f06291e2d8ff", "pid": 65535, "sequence": 2**32 - 1}
    key = "AC1003091F9018B4AAC2000000320007"
    december = 1_701_388_800_000
    return [
        case(
            "an offset id of a negative offset",
            "decode_offset_id", {"message_id": negative}, {"reject": {}}, ["MID-OID-4"], STRICT,
        ),
        *(
            case(
                f"the offset id {text!r}",
                "decode_offset_id", {"message_id": text}, {"reject": {}}, ["MID-OID-4"], READER,
            )
            for text in (
                "0A000001FFFFFFFF00000000000000CA",
                "0A000001 00002A9F 00000000000000CA", "0A00000100002A9F00000000000000CA ",
            )
        ),
        case(
            "a key of 34 digits whose numbers have their highest bits",
            "decode_unique_key",
            {"unique_key": "01F06291E2D8FFFFFFFFFFFFFFFFFFFFFF"},
            {"answer": grpc},
            ["MID-GRP-1"],
            STRICT,
        ),
        case(
            "a key of the next month",
            "decode_unique_key",
            {"unique_key": key, "near": december - 100},
            {"answer": {"timestamp": december + 50}},
            ["MID-UKY-3"],
            STRICT,
        ),
    ]  # fmt: skip


def _record(at: int = 0, number: int = 0, time: int = TIME, **change: Any) -> bytes:  # noqa: ANN401
    told = {**MESSAGE, "properties": {"KEYS": "a"}, **change}
    return logs_oracle.encode_record(told, at, number, time)


def _with(data: bytes, form: str, at: int, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, at, value)
    return bytes(changed)


def _log_file(data: bytes, start: int = 0, size: int = FILE_SIZE) -> dict[str, str]:
    return {"name": f"{start:020}", "hex": data.ljust(size, b"\0").hex()}


def _decoded(
    name: str, data: bytes, fields: dict[str, Any], requirements: list[str], *readers: str
) -> list[dict[str, Any]]:
    """Return how readers decode the first record of a file, which is followed by a second one."""
    size = struct.unpack_from(">i", data)[0]
    records = [{"position": 0, **fields}, {"position": size, **fields}]
    second = _with(data, ">q", 28, size)
    told = {"file": _log_file(data + second), "file_size": FILE_SIZE}
    told["fields"] = ["position", *fields]
    return [
        case(
            f"{name}, {reader}",
            "decode_commitlog",
            told,
            {"contains": {"records": records}},
            requirements,
            reader,
        )
        for reader in readers
    ]


def _records() -> list[dict[str, Any]]:
    """The smallest record, lengths below 0, an offset of more bits, one that the file cuts."""
    smallest = _record(body="", topic="", properties={})
    no_body = _record(body="")
    no_properties = _record(properties={})
    first = _record()
    at = len(first)
    other = _record(at, 1)
    far = _with(other, ">q", 28, at + (1 << 32)) + _record(2 * at, 2)
    no_topic = _with(_record(at, 1, topic="", properties={}), ">b", 88 + 3, -1)
    left = FILE_SIZE - at
    cut = _record(at, 1, body="00" * (left - len(_record(body="")) + 20))[:left]
    readers = (STRICT, LENIENT)
    cases = [
        *_decoded("the smallest record", smallest, {"topic": ""}, ["LOG-SND-1"], *readers, READER),
        *_decoded(
            "a body length of -1",
            _with(no_body, ">i", 84, -1), {"body": "", "topic": "T"}, ["LOG-REC-6"], *readers,
        ),
        *_decoded(
            "a properties length of -1",
            _with(no_properties, ">h", len(no_properties) - 2, -1), {"properties": {}},
            ["LOG-REC-6"], *readers,
        ),
    ]  # fmt: skip
    fault = {"field": "physical_offset", "byte": at + 28}
    for name, data, expected, requirements in (
        (
            "an offset that differs behind its lower 32 bits",
            first + far,
            {"reject": fault},
            ["LOG-REC-5", "LOG-WLK-3"],
        ),
        ("a topic length of -1", first + no_topic, at, ["LOG-REC-6"]),
        ("a record that the end of the file cuts", first + cut, at, ["LOG-SND-1", "LOG-WLK-2"]),
    ):
        ended = expected if isinstance(expected, dict) else {"answer": {"max_offset": expected}}
        told = {"files": [_log_file(data)], "file_size": FILE_SIZE}
        cases.append(case(name, "scan_commitlog", told, ended, requirements, STRICT))
    return cases


def _fields() -> list[dict[str, Any]]:
    """Fields with their highest bits, and what is given as it is stored or replaced."""
    readers = (STRICT, LENIENT, READER)
    numbers = {"queue_id": -1, "flag": -2, "queue_offset": (1 << 40) + 1, "sys_flag": -256}
    numbers |= {"born_timestamp": -3, "store_timestamp": -4, "reconsume_times": -5}
    numbers |= {"prepared_transaction_offset": (1 << 40) + 2}
    others = {
        name: numbers[name] for name in numbers if "queue_off" not in name and "store" not in name
    }
    data = _record(0, numbers["queue_offset"], numbers["store_timestamp"], **others)
    numbers["body_crc"] = -7
    data = _with(data, ">i", 8, -7)
    hosts: dict[str, Any] = {"born_host": "0" * 31 + "1:43210", "store_host": "0" * 31 + "2:10911"}
    body = zlib.compress(b"hello").hex()
    torn = _record(topic="TT").replace(b"\2TT", b"\2T\xff")
    far = _record(1 << 32)
    told = {"file": _log_file(far, 1 << 32), "file_size": FILE_SIZE, "fields": ["physical_offset"]}
    record = {"physical_offset": 1 << 32}
    return [
        *_decoded("numbers with their highest bits", data, numbers, ["LOG-REC-8"], *readers),
        *_decoded(
            "hosts of IPv6 that begin with zeros", _record(**hosts),
            {"store_host": hosts["store_host"]}, ["LOG-SYS-2", "LOG-REC-2"], *readers,
        ),
        *_decoded(
            "the born host of IPv6 that begins with zeros", _record(**hosts),
            {"born_host": hosts["born_host"]}, ["LOG-SYS-2", "LOG-REC-2"], *readers,
        ),
        *_decoded(
            "a compressed body", _record(body=body, sys_flag=1), {"body": body}, ["LOG-REC-9"],
            *readers,
        ),
        *_decoded(
            "a topic that is no UTF-8", torn, {"topic": "T\ufffd"}, ["LOG-PRP-6"], *readers,
        ),
        case(
            "a record behind 4 GiB of the log, as a broker decodes it", "decode_commitlog", told,
            {"contains": {"records": [record]}}, ["LOG-REC-1"], READER,
        ),
    ]  # fmt: skip


def _written() -> list[dict[str, Any]]:
    """A message to be written whose numbers have more than 32 bits, and no whole seconds."""
    change = {"prepared_transaction_offset": (1 << 32) + 9, "queue_offset": (1 << 32) + 7}
    change |= {"store_timestamp": TIME + 123, "born_timestamp": TIME - 456, "flag": -2}
    change |= {"reconsume_times": 1 << 20}
    message = {**MESSAGE, **change}
    data = logs_oracle.encode_record(
        {**message, "properties": {"KEYS": "a"}},
        0, change["queue_offset"], change["store_timestamp"],
    )  # fmt: skip
    return [
        case(
            "a message whose numbers have more than 32 bits",
            "write_commitlog",
            {"file_size": FILE_SIZE, "property_crc": False, "messages": [message]},
            {"answer": {"files": [_log_file(data)]}},
            ["LOG-REC-1", "LOG-REC-9"],
            WRITER,
        )
    ]


def _holes() -> list[dict[str, Any]]:
    """Zeros and a sound record behind them, as old as that before; a full file before a gap."""
    first = _record()
    hole = len(first) + 100
    full = _record(body="00" * (FILE_SIZE - len(_record(body=""))))
    start = 4 * FILE_SIZE
    cases = []
    for name, between in (("zeros", bytes(100)), ("a fault", b"\x11" * 100)):
        file = _log_file(first + between + _record(hole, 1))
        field = "total_size" if name == "zeros" else "magic_code"
        fault = {"field": field, "byte": len(first) + (0 if name == "zeros" else 4)}
        told = {"files": [file], "file_size": FILE_SIZE}
        both = f"{name}, and a record of the same time"
        cases.append(case(both, "scan_commitlog", told, {"reject": fault}, ["LOG-WLK-3"], STRICT))
        positions = [{"position": 0}, {"position": hole}]
        told = {"file": file, "file_size": FILE_SIZE, "fields": ["position"]}
        expected = {"contains": {"records": positions}}
        cases.append(
            case(f"{both}, leniently", "decode_commitlog", told, expected, ["LOG-WLK-4"], LENIENT)
        )
    told = {"file": _log_file(full), "file_size": FILE_SIZE}
    told |= {"check_crc": True, "check_property_crc": False}
    checks = [[0, FILE_SIZE, True], [FILE_SIZE, -1, False]]
    cases.append(
        case(
            "a full file, checked",
            "check_commitlog",
            told,
            {"answer": {"checks": checks}},
            ["LOG-BRK-1"],
            READER,
        )
    )
    files = [_log_file(full), _log_file(b"", start)]
    cases.append(
        case(
            "a full file, and one of zeros behind a gap",
            "scan_commitlog",
            {"files": files, "file_size": FILE_SIZE},
            {"answer": {"max_offset": start}},
            ["LOG-WLK-2"],
            STRICT,
        )
    )
    return cases


def _properties() -> list[dict[str, Any]]:
    """Names with spaces, and pairs without a value in a record."""
    text = "A\x01\x02B\x01b\x02\x01c\x02"
    return [
        *(
            made_case(
                f"a name with spaces, {operation}",
                operation, told, {"answer": {"properties": {" K ": " v "}}}, ["LOG-PRP-4"],
            )
            for operation, told in (
                ("decode_property_bytes", {"hex": b" K \1 v \2".hex()}),
                ("decode_properties", {"text": " K \1 v \2"}),
            )
        ),
        *_decoded(
            "pairs without a name or a value",
            _record(properties_text=text), {"properties": {"B": "b"}}, ["LOG-PRP-2"],
            STRICT, LENIENT, READER,
        ),
    ]  # fmt: skip


def _inner() -> list[dict[str, Any]]:
    """A bit beside the kind of a compression, and lengths of properties below 0."""
    body = zlib.compress(b"hello").hex()
    cases = [
        case(
            f"bit 11 beside a compressed body, {reader}",
            "decompress_body",
            {"sys_flag": 1 | 1 << 11, "hex": body},
            {"answer": {"hex": b"hello".hex()}},
            ["LOG-BOD-1", "LOG-SYS-1"],
            reader,
        )
        for reader in (STRICT, READER)
    ]
    for length, behind in ((-22, 0), (-32768, 32768)):
        size = 22 + (behind or length)
        data = struct.pack(">iiiiih", size, 0, 0, 0, 0, length) + b"a" * behind
        cases.append(
            case(
                f"an inner message with a properties length of {length}",
                "inner_messages",
                {"hex": data.hex(), "sys_flag": 192},
                {"reject": {}},
                ["LOG-BAT-4", "LOG-BAT-6"],
                STRICT,
            )
        )
    return cases


def _units() -> list[dict[str, Any]]:
    """A unit whose size is one less than that of a blank one."""
    unit = {"queue_offset": 0, "phy_offset": 0, "size": _INT32_MAX - 1, "tags_code": 5}
    data = struct.pack(">qiq", 0, _INT32_MAX - 1, 5)
    told = {"is_batch": False, "file_size": 40, "files": [_log_file(data, size=40)]}
    told |= {"folder": "TopicTest/2", "fields": [*unit]}
    return [
        case(
            f"a unit of the size 2147483646, {reader}",
            "decode_consumequeue",
            told,
            {"contains": {"units": [unit], "blank_units": 0}},
            ["CQ-UNT-3"],
            reader,
        )
        for reader in (STRICT, LENIENT)
    ]


def built(
    name: str,
    messages: list[tuple[int, dict[str, Any]]],
    expected: dict[tuple[str, int], list[tuple[int, int]]],
    requirements: list[str],
    *,
    batch_topics: tuple[str, ...] = (),
    is_light: bool = True,
    codes: tuple[int, ...] = (0,) * 3,
) -> list[dict[str, Any]]:
    """Return the units of queues, each a queue offset and the number of its message."""
    data, places = b"", []
    for offset, change in messages:
        places.append(len(data))
        data += _record(len(data), offset, **change)
    sizes = [stop - start for start, stop in zip(places, [*places[1:], len(data)], strict=True)]
    told = {"file": _log_file(data), "batch_topics": [*batch_topics], "light_queues": is_light}
    return [
        case(
            f"{name}, {topic}-{number}",
            "build_consumequeue",
            {**told, "topic": topic, "queue_id": number},
            {"answer": {"units": [[each, places[of], sizes[of], codes[of]] for each, of in units]}},
            requirements,
            WRITER,
        )
        for (topic, number), units in expected.items()
    ]


def _far_units() -> list[dict[str, Any]]:
    """Units that lead behind 4 GiB of the log, and a batch of more than 255 messages."""
    far = 1 << 32
    units = [[number, far + 100 * number, 100, 7, 1] for number in range(4)]

    def file(first: int) -> dict[str, str]:
        data = b"".join(struct.pack(">qiq", *unit[1:4]) for unit in units[first : first + 2])
        return _log_file(data, 20 * first, 40)

    files = [file(0), file(2)]
    told = {"is_batch": False, "file_size": 40, "files": files}
    recovered = {"min_offset": 0, "max_offset": 4, "units": units}
    cases = []
    for do, at, least, most, left in (
        ("correct_min_offset", far + 100, 1, 4, files),
        ("expire", far + 100, 1, 4, files),
        ("expire", far + 101, 2, 4, files[1:]),
        ("truncate", far + 300, 0, 3, files),
    ):
        step = {"do": do, "arguments": [at]}
        done = {**step, "min_offset": least, "max_offset": most, "units": units[least:most]}
        answer = {"loaded": True, "recovered": recovered, "steps": [done], "files_after": left}
        cases.append(
            case(
                f"behind 4 GiB of the log, {do} {at}",
                "change_consumequeue",
                {**told, "steps": [step]},
                {"answer": answer},
                [{"correct_min_offset": "CQ-MIN-1", "expire": "CQ-EXP-1"}.get(do, "CQ-TRC-1")],
                "broker_faithful_loader",
            )
        )
    batch = struct.pack(">qiqqqhii", far, 500, 5, TIME, 0, 300, -1, 0)
    put = {"do": "put", "arguments": [far, 500, 5, 0, 300]}
    done = {**put, "min_offset": 0, "max_offset": 300, "units": [[0, far, 500, 5, 300]]}
    answer = {"loaded": True, "recovered": {"min_offset": -1, "max_offset": 0, "units": []}}
    answer |= {"steps": [done], "files_after": [_log_file(batch, size=92)]}
    cases.append(
        case(
            "a batch of 300 messages",
            "change_consumequeue",
            {"is_batch": True, "file_size": 92, "files": [], "steps": [put]},
            {"answer": answer},
            ["CQ-BAT-1"],
            "broker_faithful_loader",
        )
    )
    return cases


def _dispatched() -> list[dict[str, Any]]:
    """A queue offset that is taken, numbers at the ends of their types, and a time that wraps."""
    schedule = logs_oracle.SCHEDULE_TOPIC

    def batch(**numbers: int) -> dict[str, Any]:
        return {"properties": {f"INNER_{name}": str(value) for name, value in numbers.items()}}

    cases = built(
        "a queue offset that is taken",
        [(0, {}), (1, {}), (1, {})], {("T", 0): [(0, 0), (1, 1)]}, ["CQ-PUT-3"],
    )  # fmt: skip
    for name, messages, units, requirement in (
        (
            "an INNER_NUM of 32767",
            [(3, batch(NUM=32767, BASE=5)), (32772, {})],
            [(5, 0), (32772, 1)],
            "LOG-NUM-1",
        ),
        (
            "an INNER_BASE of more than 32 bits",
            [(3, batch(NUM=2, BASE=1 << 32)), (2 + (1 << 32), {})],
            [(1 << 32, 0), (2 + (1 << 32), 1)],
            "LOG-NUM-1",
        ),
        (
            "one number of a batch without the other",
            [(3, batch(NUM=2)), (4, batch(BASE=9)), (5, {})],
            [(3, 0), (4, 1), (5, 2)],
            "CQ-DSP-3",
        ),
    ):
        cases += built(name, messages, {("T", 0): units}, [requirement], batch_topics=("T",))
    cases += built(
        "messages with unreadable numbers, an INNER_NUM of 32768",
        [(0, batch(NUM=32768, BASE=0)), (1, {})], {("T", 0): [(1, 1)]}, ["LOG-NUM-1", "CQ-DSP-4"],
    )  # fmt: skip
    # Digits of Arabic count, superscripts and characters beyond U+FFFF do not.
    for text in ("2147483648", "\u00b2", "\U0001d7d3"):
        cases += built(
            f"messages with unreadable numbers, a DELAY of {text!a}",
            [(0, {"topic": schedule, "properties": {"DELAY": text}}), (1, {"topic": schedule})],
            {(schedule, 0): [(1, 1)]},
            ["LOG-NUM-1", "CQ-DSP-4"],
        )
    two_hours, minute = 7_200_000, 60_000
    for text, delay in (
        ("2147483647", two_hours),
        ("\u0665", minute),
        ("-3", 0),
        ("-2147483648", 0),
    ):
        cases += built(
            f"a DELAY of {text!a}",
            [(0, {"topic": schedule, "properties": {"DELAY": text}})],
            {(schedule, 0): [(0, 0)]},
            ["LOG-NUM-1", "CQ-TAG-1"],
            codes=(TIME + delay if delay else 0,),
        )
    cases += built(
        "a time of delivery that wraps",
        [(0, {"topic": schedule, "properties": {"DELAY": "1"}, "time": _INT64_MAX - 500})],
        {(schedule, 0): [(0, 0)]},
        ["CQ-TAG-1"],
        codes=(_INT64_MIN + 499,),
    )
    return cases


def _light() -> list[dict[str, Any]]:
    """Light queues: their numbers, empty names, and topics whose messages have none."""

    def light(names: str, offsets: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
        told = {"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": offsets}
        return {"properties": told, **more}

    cases: list[dict[str, Any]] = []
    asked: list[tuple[str, dict[str, Any], dict[tuple[str, int], int | None], str]] = [
        (
            "names with and without %LMQ%",
            light("q,%LMQ%x", "7,2", queue_id=3),
            {("q", 3): 7, ("q", 0): None, ("%LMQ%x", 0): 2},
            "CQ-DSP-2",
        ),
        (
            "an empty name among others",
            light("%LMQ%a,,%LMQ%b", "1,2,3"),
            {("%LMQ%a", 0): 1, ("%LMQ%b", 0): 3},
            "CQ-DSP-4",
        ),
        (
            "empty names at the end",
            light("%LMQ%a,,", "1"),
            {("%LMQ%a", 0): 1},
            "CQ-DSP-2",
        ),
        (
            "a queue that is named twice",
            light("%LMQ%a,%LMQ%a", "4,5"),
            {("%LMQ%a", 0): 4},
            "CQ-PUT-3",
        ),
        ("a queue of its own topic", light("T,%LMQ%a", "1,4"), {("T", 0): 0}, "CQ-PUT-3"),
        *(
            (
                f"a light queue of {topic}",
                light("%LMQ%a", "1", topic=topic),
                {("%LMQ%a", 0): None},
                "CQ-DSP-2",
            )
            for topic in ("%RETRY%g", "rmq_sys_x", logs_oracle.SCHEDULE_TOPIC)
        ),
    ]
    for name, change, expected, requirement in asked:
        units = {queue: [] if at is None else [(at, 0)] for queue, at in expected.items()}
        cases += built(name, [(0, change)], units, [requirement])
    return cases + built(
        "light queues that are off",
        [(0, light("%LMQ%a", "1"))], {("%LMQ%a", 0): []}, ["CQ-DSP-2"], is_light=False,
    )  # fmt: skip
