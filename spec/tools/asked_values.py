"""What RocketMQ is asked about numbers in properties, and about the edges of queues.

The records are made by ``logs_oracle.py``, as no broker takes some of them; all else is RocketMQ's.
"""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING, Any

import logs_oracle
from asked_logs import FILE_SIZE, V4_BROKER, V4_CLIENT, ask_of_file, ask_written, put
from asked_queues import (
    BATCH_UNIT,
    UNIT,
    ask_of_queue,
    batches,
    changed,
    puts,
)

if TYPE_CHECKING:
    from ask_rocketmq import RocketMQ
    from asked_logs import Put
    from asked_queues import Step

SCHEDULE, TIME = "SCHEDULE_TOPIC_XXXX", 1_700_000_000_456
INNER = 192
# What a broker takes off the times of its checkpoint, milliseconds.
MARGIN = 3000
#: What each message has: topic, properties, system flag.
Told = tuple[str, dict[str, str], int]
_PLAIN: Told = ("TopicTest", {"TAGS": "TagA"}, 0)

#: Numbers that a broker can read, or has no reason to.
READABLE: list[Told] = [
    *(
        (SCHEDULE, {"DELAY": text, "TAGS": "TagA"}, 0)
        for text in ("+3", "03", "-3", "0", "", "\u0663", "2147483647")
    ),
    ("TopicTest", {"DELAY": "x"}, 0),
    *(
        ("Inner", {"INNER_BASE": base, "INNER_NUM": number}, flags)
        for flags in (0, INNER)
        for base, number in (("5", "3"), ("+5", "+03"), ("-5", "-3"), ("0", "0"))
    ),
    ("Inner", {"INNER_BASE": "x"}, 0),
    ("Inner", {"INNER_NUM": "x"}, INNER),
]
#: Each of these is a fault of its own, in the second of three messages.
UNREADABLE: dict[str, Told] = {
    "delay_text": (SCHEDULE, {"DELAY": "x"}, 0),
    "delay_space": (SCHEDULE, {"DELAY": " 3"}, 0),
    "delay_beyond": (SCHEDULE, {"DELAY": "2147483648"}, 0),
    "base_text": ("Inner", {"INNER_BASE": "x", "INNER_NUM": "3"}, INNER),
    "base_beyond": ("Inner", {"INNER_BASE": "9223372036854775808", "INNER_NUM": "3"}, INNER),
    "num_text": ("Inner", {"INNER_BASE": "5", "INNER_NUM": "x"}, 0),
    "num_beyond": ("Inner", {"INNER_BASE": "5", "INNER_NUM": "32768"}, INNER),
}

#: What queues a broker gives to messages whose topic, bits and numbers do not agree.
DISPATCHED: list[Told] = [
    _PLAIN,
    ("Other", {"INNER_BASE": "40", "INNER_NUM": "3", "TAGS": "TagA"}, INNER),
    ("TopicTest", {"INNER_BASE": "40", "INNER_NUM": "3"}, 0),
    ("Inner", {"TAGS": "TagA"}, 0),
    ("Inner", {"INNER_BASE": "45"}, INNER),
    ("Inner", {"INNER_BASE": "40", "INNER_NUM": "3"}, 0),
    ("Inner", {"INNER_BASE": "43", "INNER_NUM": "2"}, INNER),
    (SCHEDULE, {"DELAY": "+3", "TAGS": "TagA"}, 0),
    (SCHEDULE, {"DELAY": "\u0663", "TAGS": "TagA"}, 0),
    ("TopicTest", {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "+0"}, 0),
    ("TopicTest", {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b", "INNER_MULTI_QUEUE_OFFSET": "1"}, 0),
    ("TopicTest", {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "1,0"}, 0),
    (
        "TopicTest",
        {"INNER_MULTI_DISPATCH": "../a,%LMQ%c", "INNER_MULTI_QUEUE_OFFSET": "0,0"},
        0,
    ),
]
QUEUES = [
    ("TopicTest", 0), ("Other", 0), ("Inner", 0), (SCHEDULE, 0), ("%LMQ%a", 0), ("%LMQ%b", 0),
    ("%LMQ%c", 0), ("../a", 0),
]  # fmt: skip
_DISPATCH_FILE = 8192
_SETTINGS = {
    "mappedFileSizeCommitLog": _DISPATCH_FILE,
    "enableLmq": "true",
    "enableMultiDispatch": "true",
    "mappedFileSizeConsumeQueue": 400,
    "mapperFileSizeBatchConsumeQueue": 10 * BATCH_UNIT,
}

#: Edges of queues that are written: whether of batches, and the steps.
EDGES: dict[str, tuple[bool, list[Step]]] = {
    "queue_least_offset_behind_the_first_file": (
        False,
        [
            *puts(5),
            ["correct_min_offset", 5000],
            *puts(2, first=5, phy_offset=5200),
            *(["correct_min_offset", at] for at in (1200, 5200, 5201)),
        ],
    ),
    "queue_least_offset_within_the_first_file": (
        False,
        [*puts(7), *(["correct_min_offset", at] for at in (1400, 1200, 1600))],
    ),
    "batch_queue_first_file_before_the_log": (
        True,
        [*batches(5), *(["correct_min_offset", at] for at in (2400, 2501, 3000, 9000))],
    ),
    "queue_expire_all": (False, [*puts(12), ["expire", 100_000]]),
    "batch_queue_expire_all": (True, [*batches(6), ["expire", 100_000]]),
    "queue_offset_taken": (
        False,
        [*puts(3), ["put", 5000, 200, 5, 1], ["put", 6000, 200, 5, 0], ["put", 7000, 200, 5, 3]],
    ),
    "queue_offset_of_more_than_32_bits": (
        False,
        [["put", 5000, 200, 5, 200_000_000], ["put", 5200, 200, 6, 200_000_001]],
    ),
    "queue_size_of_a_blank_unit": (
        False,
        [["put", 5, 2**31 - 1, 5, 0], ["put", 2**33 + 5, 200, 6, 1]],
    ),
    "queue_sum_wraps": (
        False,
        [
            ["put", 2**63 - 100, 200, 5, 0],
            ["put", 2**63 - 200, 199, 5, 0],
            ["put", 2**63 - 1, 200, 6, 1],
        ],
    ),
}


V6_CLIENT = "20010db8000000007fffffffffffffff:40000"
#: What the first record of the second file is, and by how much the store time that the checkpoint
#: names is later than its own; the first file has a body that is damaged.
BEGINNINGS: dict[str, tuple[dict[str, Any], int]] = {
    "recovery_time_equal": ({}, 0),
    "recovery_time_greater": ({}, -1),
    "recovery_time_zero": ({"store_timestamp": 0}, TIME),
    "recovery_version_2_first": ({"topic": "T" * 128}, 0),
    "recovery_ipv6_first": ({"born_host": V6_CLIENT}, 0),
}
#: Where the units of the ConsumeQueues end, as a distance from the start of the second file.
CLEAN_BEGINNINGS = {"recovery_queues_end_at_the_file": 0, "recovery_queues_end_before_the_file": -1}


def _record(told: Told, at: int, number: int, **change: Any) -> bytes:  # noqa: ANN401
    topic, properties, flags = told
    message = {
        "topic": topic,
        "queue_id": 0,
        "sys_flag": flags,
        "born_timestamp": TIME - 333,
        "born_host": V4_CLIENT,
        "store_host": V4_BROKER,
        "body": b"one".hex(),
        "properties": properties,
        "store_timestamp": TIME + number,
        **change,
    }
    return logs_oracle.encode_record(message, at, number, message["store_timestamp"])


def _file(messages: list[Told], size: int) -> bytes:
    data, count = b"", dict.fromkeys((topic for topic, _, _ in messages), 0)
    for told in messages:
        data += _record(told, len(data), count[told[0]])
        count[told[0]] += 1
    assert len(data) < size
    return data.ljust(size, b"\0")


def _numbers(judge: RocketMQ) -> list[dict[str, Any]]:
    """Return what a broker's check says of numbers in properties."""
    files = {"log_numbers": (_file(READABLE, 4096), 4096)}
    for name, told in UNREADABLE.items():
        files[f"log_number_{name}"] = (_file([_PLAIN, told, _PLAIN], FILE_SIZE), FILE_SIZE)
    for name in ("delay_text", "num_text"):
        data = bytearray(_record(UNREADABLE[name], 0, 0))
        data[:4] = (len(data) + 3).to_bytes(4, "big")
        files[f"log_number_{name}_and_size"] = (bytes(data).ljust(FILE_SIZE, b"\0"), FILE_SIZE)
    cases = []
    for name, (data, size) in files.items():
        file = {"name": f"{0:020}", "hex": data.hex()}
        asked = ask_of_file(judge, file)
        cases.append({**asked, "name": name, "file_name": file["name"], "file_size": size})
    return cases


def _recovered(
    judge: RocketMQ,
    name: str,
    files: list[bytes],
    *,
    min_time: int = 0,
    queue_max: int | None = None,
) -> dict[str, Any]:
    """Return where a broker ends a log that it loads, after a clean exit if queues are given."""
    root = judge.folder()
    (root / "commitlog").mkdir()
    names = [f"{number * FILE_SIZE:020}" for number in range(len(files))]
    for file_name, data in zip(names, files, strict=True):
        (root / "commitlog" / file_name).write_bytes(data)
    if queue_max is None:
        (root / "abort").write_bytes(b"")
        if min_time:
            times = struct.pack(">qq", min_time + MARGIN, min_time + MARGIN)
            (root / "checkpoint").write_bytes(times.ljust(4096, b"\0"))
    else:
        queue = root / "consumequeue" / "TopicTest" / "0"
        queue.mkdir(parents=True)
        unit = struct.pack(">qiq", queue_max - 100, 100, 0)
        (queue / f"{0:020}").write_bytes(unit.ljust(200, b"\0"))
    settings = {"mappedFileSizeCommitLog": FILE_SIZE, "mappedFileSizeConsumeQueue": 200}
    answer = judge.ask("store", root=str(root), settings=settings)
    left = sorted(path.name for path in (root / "commitlog").iterdir())
    shutil.rmtree(root)
    return {
        "name": name,
        "file_size": FILE_SIZE,
        "last_exit_ok": queue_max is not None,
        "check_crc": True,
        "min_timestamp": min_time,
        "queue_max_phy_offset": queue_max or 0,
        "files": [
            {"name": file_name, "hex": data.hex()}
            for file_name, data in zip(names, files, strict=True)
        ],
        "load_result": answer["loaded"],
        "max_offset": answer["max_offset"],
        "files_after": left,
    }


def _recovery(judge: RocketMQ) -> list[dict[str, Any]]:
    """Return where a broker ends a log at such a number, and with which file it begins."""
    told = []
    for name in ("delay_text", "num_text"):
        data = _file([_PLAIN, _PLAIN, UNREADABLE[name], _PLAIN, _PLAIN], FILE_SIZE)
        told.append(_recovered(judge, f"recovery_number_{name}", [data]))
    damaged = bytearray(_record(_PLAIN, 0, 0))
    damaged[88] ^= 1
    left = FILE_SIZE - len(damaged)
    damaged += struct.pack(">ii", left, logs_oracle.BLANK)
    first = bytes(damaged).ljust(FILE_SIZE, b"\0")

    def second(**change: Any) -> bytes:  # noqa: ANN401  (a message's fields)
        return _record(_PLAIN, FILE_SIZE, 1, **change).ljust(FILE_SIZE, b"\0")

    for name, (change, later) in BEGINNINGS.items():
        time = change.get("store_timestamp", TIME + 1) + later
        told.append(_recovered(judge, name, [first, second(**change)], min_time=time))
    for name, distance in CLEAN_BEGINNINGS.items():
        files = [first, second()]
        told.append(_recovered(judge, name, files, queue_max=FILE_SIZE + distance))
    return told


def _dispatched(judge: RocketMQ) -> list[dict[str, Any]]:
    """Return the units that a broker gives to the messages of a log that it loads."""
    data = _file(DISPATCHED, _DISPATCH_FILE)
    root = judge.folder()
    (root / "commitlog").mkdir()
    (root / "commitlog" / f"{0:020}").write_bytes(data)
    answer = judge.ask(
        "store",
        root=str(root),
        settings=_SETTINGS,
        batch_topics=["Inner"],
        puts=[],
        queues=QUEUES,
    )
    file = ask_of_file(judge, {"name": f"{0:020}", "hex": data.hex()})
    return [{"name": "dispatch_values", "file_size": _DISPATCH_FILE, "told": answer, "file": file}]


def _queues(judge: RocketMQ) -> list[dict[str, Any]]:
    told = [
        ask_of_queue(judge, name, {}, steps, is_batch=is_batch)
        for name, (is_batch, steps) in EDGES.items()
    ]

    def written(count: int, *, is_batch: bool) -> dict[str, bytes]:
        steps = batches(count) if is_batch else puts(count)
        made = ask_of_queue(judge, "written", {}, steps, is_batch=is_batch)
        return {file["name"]: bytes.fromhex(file["hex"]) for file in made["files_after"]}

    four, two = written(18, is_batch=False), written(5, is_batch=True)
    first, last = min(two), max(two)
    damaged: dict[str, tuple[bool, dict[str, bytes]]] = {
        "queue_zero_unit_in_the_first_of_four_files": (
            False, changed(four, min(four), UNIT, bytes(UNIT)),
        ),
        "batch_queue_file_short": (True, {**two, last: two[last][:-BATCH_UNIT]}),
        "batch_queue_first_file_short": (True, {**two, first: two[first][:-BATCH_UNIT]}),
    }  # fmt: skip
    told += [
        ask_of_queue(judge, name, contents, [], is_batch=is_batch)
        for name, (is_batch, contents) in damaged.items()
    ]
    return told


#: A log whose texts have unpaired surrogates.
SURROGATES: list[Put] = [
    put("T\ud83d", properties={"KEYS": "a\ud83d b\ude00c", "TAGS": "\ud83d\ude00"}),
]


#: Values of a property that are no UTF-8: surrogates, whole and cut, and what is behind them.
MALFORMED = ("eda041", "eda0", "edbf", "eda0eda080", "eda08041", "edbfbf", "eda0c3a9", "f09f41")


def _malformed(judge: RocketMQ) -> list[dict[str, Any]]:
    texts = [f"4b01{value}02" for value in MALFORMED]
    told = judge.ask("properties", texts=texts)
    return [{"hex": text, "decoded": each} for text, each in zip(texts, told, strict=True)]


def ask_about_values(judge: RocketMQ) -> dict[str, list[dict[str, Any]]]:
    """Return the golden cases of numbers, texts and edges."""
    return {
        "number_logs": _numbers(judge),
        "further_recovery": _recovery(judge),
        "value_dispatch": _dispatched(judge),
        "edge_queues": _queues(judge),
        "malformed_properties": _malformed(judge),
        "surrogate_logs": [ask_written(judge, "log_surrogates", {}, [], SURROGATES)],
    }
