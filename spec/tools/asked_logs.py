"""What RocketMQ is asked about CommitLogs: files that it wrote, and such files changed."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ask_rocketmq import RocketMQ

FILE_SIZE = 1024
SMALL_FILES = {"mappedFileSizeCommitLog": FILE_SIZE, "mappedFileSizeConsumeQueue": 200}
V4_CLIENT, V4_BROKER = "ac100309:43210", "0a000001:10911"
V6_CLIENT = "20010db8000000000000000000000005:40000"
V6_BROKER = "fd000000000000000000000000000007:10911"
ID = "AC10030900002A9F0000018BCFE56800"

Put = dict[str, Any]


def put(topic: str = "TopicTest", body: bytes | None = b"hello", **more: Any) -> Put:  # noqa: ANN401
    """Return a message to be put."""
    message = {
        "topic": topic,
        "queue_id": 0,
        "born_timestamp": 1_700_000_000_123,
        "born_host": V4_CLIENT,
        "store_host": V4_BROKER,
        "body": None if body is None else body.hex(),
        "properties": {"KEYS": "order-1", "TAGS": "TagA", "UNIQ_KEY": ID},
    }
    return message | more


def part(number: int, **properties: str) -> Put:
    """Return a message of a batch."""
    return {"flag": number, "body": f"part {number}".encode().hex(), "properties": properties}


BATCH = [part(0, KEYS="a"), part(1, KEYS="b c", UNIQ_KEY="part-1"), part(2)]

#: The queues that are asked for.
QUEUES = {
    "log_dispatch": [
        ("TopicTest", 0),
        ("TopicTest", 1),
        ("SCHEDULE_TOPIC_XXXX", 0),
        ("%LMQ%a", 0),
        ("%LMQ%b", 0),
        ("Inner", 0),
    ]
}
#: Each makes a log: settings, topics of batch queues, messages.
LOGS: dict[str, tuple[dict[str, Any], list[str], list[Put]]] = {
    "log_worked_example": (
        {},
        [],
        [
            put(),
            put(queue_id=1, body=b"", properties={}),
            *(put(body=b"x" * 100, queue_id=n % 4, flag=n) for n in range(8)),
        ],
    ),
    "log_version_2": (
        {},
        [],
        [put("T" * 127), put("T" * 128), put("T" * 200, b"")],
    ),
    "log_hosts": (
        {},
        [],
        [
            put(born_host=V6_CLIENT),
            put(store_host=V6_BROKER),
            put(born_host=V6_CLIENT, store_host=V6_BROKER),
            put(),
        ],
    ),
    "log_fields": (
        {},
        [],
        [
            put(
                flag=-7,
                queue_id=3,
                reconsume_times=16,
                prepared_transaction_offset=987_654_321_012,
                born_timestamp=-1,
            ),
            put(sys_flag=2, body=bytes(range(256))),
        ],
    ),
    "log_transactions": (
        {},
        [],
        [put(sys_flag=flag, prepared_transaction_offset=flag) for flag in (0, 4, 8, 12, 0)],
    ),
    "log_batch": (
        {},
        [],
        [
            put(batch=BATCH, properties={}),
            put(batch=BATCH, properties={"UNIQ_KEY": "batch-id", "KEYS": "of-the-batch"}),
        ],
    ),
    "log_inner_batch": (
        {},
        ["Inner"],
        [
            put(
                "Inner",
                batch=BATCH,
                inner=True,
                sys_flag=0xC0,
                properties={"UNIQ_KEY": "batch-id", "INNER_NUM": "3"},
            ),
            put(
                "Inner",
                batch=BATCH[:2],
                inner=True,
                sys_flag=0xC0,
                properties={"UNIQ_KEY": "batch-2", "INNER_NUM": "2"},
            ),
        ],
    ),
    "log_property_crc": (
        {"enabledAppendPropCRC": "true"},
        [],
        [put(), put(properties={}), put(body=b""), put(batch=BATCH, properties={})],
    ),
    "log_odd_properties": (
        {},
        [],
        [
            put(properties_text="KEYS\x01k"),
            put(properties_text="A\x01\x02KEYS\x01a\x01b\x02x\x02\x01v\x02KEYS\x01last\x02"),
            put(properties_text="\x02\x02\x01\x02"),
            put(properties_text="\u4e2d\x01\U0001f600\x02"),
        ],
    ),
    "log_exact_fit": (
        {},
        [],
        # 91 bytes and the topic: the first file is left with 8 bytes, the second with 7.
        [
            put("T", bytes(FILE_SIZE - 8 - 92), properties={}),
            put("T", bytes(FILE_SIZE - 7 - 92 - 92), properties={}),
            put("T", b"", properties={}),
        ],
    ),
    "log_dispatch": (
        {
            "mappedFileSizeCommitLog": 8192,
            "enableLmq": "true",
            "enableMultiDispatch": "true",
            "mappedFileSizeConsumeQueue": 200,
            "mapperFileSizeBatchConsumeQueue": 138,
        },
        ["Inner"],
        [
            put(),
            put(properties={}),
            put(properties={"TAGS": "\u4e2d\u6587 || x"}),
            put(sys_flag=4),
            put(sys_flag=8),
            put(sys_flag=12),
            *(
                put("SCHEDULE_TOPIC_XXXX", properties={"DELAY": level, "TAGS": "TagA"})
                for level in ("1", "3", "18", "19", "0", "-1")
            ),
            put("SCHEDULE_TOPIC_XXXX", properties={"TAGS": "TagA"}),
            put(properties={"DELAY": "3", "TAGS": "TagA"}),
            put(properties={"INNER_MULTI_DISPATCH": "%LMQ%a", "TAGS": "TagA"}),
            put(queue_id=1, properties={"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"}),
            put(
                "Inner",
                batch=BATCH,
                inner=True,
                sys_flag=0xC0,
                properties={"UNIQ_KEY": "batch-id", "INNER_NUM": "3", "TAGS": "TagA"},
            ),
            put(
                "Inner",
                batch=BATCH[:2],
                inner=True,
                sys_flag=0xC0,
                properties={"UNIQ_KEY": "batch-2", "INNER_NUM": "2"},
            ),
            put(batch=BATCH, properties={}),
        ],
    ),
    "log_utf8_topic": ({}, [], [put("\u8ba2\u5355"), put("\u00e9" * 63)]),
    "log_topic_beyond_127_bytes": ({}, [], [put("\u4e2d" * 43), put()]),
    "log_batch_properties_beyond_32767": (
        {"mappedFileSizeCommitLog": 40960},
        [],
        [
            put(
                batch=[part(0, KEYS="k" * 20_000)],
                properties={"UNIQ_KEY": "u" * 20_000},
            ),
            put(),
        ],
    ),
}


def _files(root: Path) -> list[dict[str, str]]:
    found = sorted((root / "commitlog").iterdir())
    return [{"name": path.name, "hex": path.read_bytes().hex()} for path in found]


def _records(judge: RocketMQ, file: dict[str, str], checks: list[dict[str, Any]]) -> list[Any]:
    data = bytes.fromhex(file["hex"])
    told = []
    for check in checks:
        if check["success"] and check["size"] > 0:
            record = data[check["position"] : check["position"] + check["size"]]
            told.append(judge.ask("decode", hex=record.hex()))
    return told


def ask_of_file(judge: RocketMQ, file: dict[str, str], *, force: bool = False) -> dict[str, Any]:
    """Return what recovery says of each record, with and without the CRC, and the records."""
    settings = {"forceVerifyPropCRC": "true"} if force else {}
    checks = judge.ask("check", hex=file["hex"], check_crc=True, settings=settings)
    return {
        **file,
        "checks": checks,
        "checks_without_crc": judge.ask("check", hex=file["hex"], check_crc=False),
        "records": _records(judge, file, checks),
    }


def ask_written(
    judge: RocketMQ,
    name: str,
    settings: dict[str, Any],
    batch_topics: list[str],
    puts: list[Put],
) -> dict[str, Any]:
    """Return the files of a log that a broker writes, with what it says of them."""
    root = judge.folder()
    told = judge.ask(
        "store",
        root=str(root),
        settings={"mappedFileSizeCommitLog": FILE_SIZE, **settings},
        batch_topics=batch_topics,
        puts=puts,
        queues=QUEUES.get(name, []),
    )
    force = settings.get("enabledAppendPropCRC") == "true"
    files = [ask_of_file(judge, file) for file in _files(root)]
    if force:
        for file in files:
            file["checks_of_property_crc"] = judge.ask(
                "check", hex=file["hex"], check_crc=True, settings={"forceVerifyPropCRC": "true"}
            )
    size = int(settings.get("mappedFileSizeCommitLog", FILE_SIZE))
    return {"name": name, "file_size": size, "puts": puts, "told": told, "files": files}


def _set(at: int, data: bytes) -> Callable[[bytearray], None]:
    def change(file: bytearray) -> None:
        file[at : at + len(data)] = data

    return change


def _i32(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def damages(sizes: list[int], parts: dict[str, int]) -> dict[str, Callable[[bytearray], None]]:
    """Return ways to damage a file of records of these sizes.

    Args:
        sizes: Of its first records.
        parts: Where the first record has its body length, topic length and properties length.
    """
    first, second = sizes[:2]

    def body_crc(file: bytearray) -> None:
        file[parts["body_length"] + 4] ^= 1

    def torn(file: bytearray) -> None:
        file[first + 60 :] = bytes(len(file) - first - 60)

    def body_empty_with_crc(file: bytearray) -> None:
        file[first + 8 : first + 12] = _i32(12345)

    return {
        "log_magic_unknown": _set(4, _i32(0x11223344)),
        "log_total_size_short": _set(0, _i32(first - 1)),
        "log_total_size_long": _set(0, _i32(first + 1)),
        "log_total_size_of_two": _set(0, _i32(first + second)),
        "log_total_size_beyond_file": _set(0, _i32(1_000_000)),
        "log_total_size_small": _set(0, _i32(90)),
        "log_total_size_zero": _set(0, _i32(0)),
        "log_total_size_negative": _set(0, _i32(-1)),
        "log_physical_offset_other": _set(28, (4096).to_bytes(8, "big")),
        "log_body_crc_wrong": body_crc,
        "log_body_length_beyond_record": _set(parts["body_length"], _i32(first)),
        "log_body_length_beyond_file": _set(parts["body_length"], _i32(1 << 30)),
        "log_body_length_negative": _set(parts["body_length"], _i32(-5)),
        "log_topic_length_negative": _set(parts["topic_length"], b"\xff"),
        "log_topic_length_other": _set(parts["topic_length"], b"\x05"),
        "log_properties_length_negative": _set(parts["properties_length"], b"\xff\xfe"),
        "log_properties_length_other": _set(parts["properties_length"], b"\x00\x01"),
        "log_host_bits_of_other": _set(36, _i32(0x10)),
        "log_torn_record": torn,
        "log_blank_first": _set(0, _i32(FILE_SIZE) + _i32(-875286124)),
        "log_blank_beyond_file": _set(0, _i32(FILE_SIZE + 1) + _i32(-875286124)),
        "log_blank_negative": _set(0, _i32(-3) + _i32(-875286124)),
        "log_blank_size_short": _set(0, _i32(8) + _i32(-875286124)),
        "log_all_zero": _set(0, bytes(FILE_SIZE)),
        "log_crc_of_empty_body": body_empty_with_crc,
    }


def _parts(file: bytes) -> dict[str, int]:
    """Return where the lengths of the first record stand; it has IPv4 hosts and version 1."""
    body = 84
    topic = body + 4 + int.from_bytes(file[body : body + 4], "big")
    return {
        "body_length": body,
        "topic_length": topic,
        "properties_length": topic + 1 + file[topic],
    }


def _damaged(judge: RocketMQ, base: dict[str, Any]) -> list[dict[str, Any]]:
    file = base["files"][0]
    data = bytes.fromhex(file["hex"])
    sizes = [check["size"] for check in file["checks"]]
    cases = []
    for name, change in damages(sizes, _parts(data)).items():
        changed = bytearray(data)
        change(changed)
        one = {"name": file["name"], "hex": bytes(changed).hex()}
        cases.append({"name": name, "file_size": FILE_SIZE, **ask_of_file(judge, one)})
        cases[-1]["name"] = name
        cases[-1]["file_name"] = file["name"]
    return cases


def _property_crc_damaged(judge: RocketMQ, base: dict[str, Any]) -> dict[str, Any]:
    """Change a field that only the CRC of the properties covers."""
    file = base["files"][0]
    data = bytearray.fromhex(file["hex"])
    data[16:20] = _i32(99)  # FLAG
    one = {"name": file["name"], "hex": bytes(data).hex()}
    settings = {"forceVerifyPropCRC": "true"}
    return {
        **ask_of_file(judge, one),
        "name": "log_property_crc_wrong",
        "file_name": file["name"],
        "file_size": FILE_SIZE,
        "checks_of_property_crc": judge.ask(
            "check", hex=one["hex"], check_crc=True, settings=settings
        ),
    }


def _queues_of(judge: RocketMQ, base: dict[str, Any]) -> dict[str, bytes]:
    """Return the ConsumeQueues that a broker makes of the log, by their paths in the store."""
    root = judge.folder()
    (root / "commitlog").mkdir()
    for file in base["files"]:
        (root / "commitlog" / file["name"]).write_bytes(bytes.fromhex(file["hex"]))
    judge.ask("store", root=str(root), settings=SMALL_FILES, puts=[])
    found = (path for path in (root / "consumequeue").rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def _recovery(judge: RocketMQ, base: dict[str, Any]) -> list[dict[str, Any]]:
    """Return how far recovery believes a log, and what it leaves of the files."""
    files = {file["name"]: bytes.fromhex(file["hex"]) for file in base["files"]}
    names = sorted(files)
    ends = [file["checks"][-1]["position"] + int(file["name"]) for file in base["files"]]
    last, first = names[-1], names[0]
    last_records = [c for c in base["files"][-1]["checks"] if c["success"] and c["size"] > 0]
    tail = last_records[-1]["position"]

    def changed(name: str, at: int, data: bytes) -> dict[str, bytes]:
        file = files[name]
        return {**files, name: file[:at] + data + file[at + len(data) :]}

    body = 84 + 4
    cases: dict[str, tuple[dict[str, bytes], bool, dict[str, str]]] = {
        "recovery_clean": (files, True, {}),
        "recovery_unclean": (files, False, {}),
        "recovery_torn_last": (changed(last, tail + 60, bytes(FILE_SIZE - tail - 60)), False, {}),
        "recovery_last_body_crc": (changed(last, tail + body, b"?"), False, {}),
        "recovery_last_body_crc_unchecked": (
            changed(last, tail + body, b"?"), False, {"checkCRCOnRecover": "false"}
        ),
        "recovery_first_body_crc": (changed(first, body, b"?"), False, {}),
        "recovery_first_body_crc_clean_exit": (changed(first, body, b"?"), True, {}),
        "recovery_physical_offset_other": (
            changed(last, tail + 28, (1 << 40).to_bytes(8, "big")), False, {}
        ),
        "recovery_magic_unknown": (changed(last, tail + 4, _i32(7)), False, {}),
        "recovery_blank_missing": (
            changed(names[-2], ends[-2] - int(names[-2]), bytes(8)), False, {}
        ),
        "recovery_stale_after_blank": (
            changed(
                names[-2],
                ends[-2] - int(names[-2]) + 8,
                files[first][: FILE_SIZE - (ends[-2] - int(names[-2]) + 8)],
            ),
            False,
            {},
        ),
        "recovery_last_all_zero": ({**files, last: bytes(FILE_SIZE)}, False, {}),
        "recovery_last_empty": ({**files, last: b""}, False, {}),
        "recovery_last_short": ({**files, last: files[last][:-100]}, False, {}),
        "recovery_first_missing": ({n: files[n] for n in names[1:]}, False, {}),
        "recovery_gap": ({n: files[n] for n in names if n != names[1]}, False, {}),
        "recovery_no_files": ({}, False, {}),
        "recovery_damage_before_the_checkpoint": (changed(first, body, b"?"), False, {}),
        "recovery_damage_before_the_queues": (changed(first, body, b"?"), True, {}),
    }  # fmt: skip
    newest = max(record["store_timestamp"] for file in base["files"] for record in file["records"])
    checkpoints = {"recovery_damage_before_the_checkpoint": newest + 3000}
    queues = _queues_of(judge, base)
    told = []
    for name, (contents, is_clean, settings) in cases.items():
        root = judge.folder()
        (root / "commitlog").mkdir()
        has_queues = name == "recovery_damage_before_the_queues"
        for path, data in queues.items() if has_queues else ():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
        for file_name, data in contents.items():
            (root / "commitlog" / file_name).write_bytes(data)
        if not is_clean:
            (root / "abort").write_bytes(b"")
        time = checkpoints.get(name, 0)
        if time:
            (root / "checkpoint").write_bytes(struct.pack(">qq", time, time).ljust(4096, b"\0"))
        before = _files(root)
        answer = judge.ask(
            "store",
            root=str(root),
            settings={**SMALL_FILES, **settings},
        )
        told.append(
            {
                "name": name,
                "file_size": FILE_SIZE,
                "last_exit_ok": is_clean,
                "check_crc": settings.get("checkCRCOnRecover") != "false",
                "min_timestamp": max(time - 3000, 0),
                # The end of the last message that has a unit.
                "queue_max_phy_offset": ends[-1] if has_queues else 0,
                "files": before,
                "load_result": answer["loaded"],
                "max_offset": answer["max_offset"],
                "files_after": sorted(path.name for path in (root / "commitlog").iterdir()),
            }
        )
        shutil.rmtree(root)
    return told


def ask_about_logs(judge: RocketMQ) -> dict[str, list[dict[str, Any]]]:
    """Return the golden cases of CommitLogs, by file."""
    written = [ask_written(judge, name, *told) for name, told in LOGS.items()]
    by_name = {case["name"]: case for case in written}
    base = by_name["log_worked_example"]
    damaged = _damaged(judge, base)
    damaged.append(_property_crc_damaged(judge, by_name["log_property_crc"]))
    for case in written:
        assert all(each["status"] == "PUT_OK" for each in case["told"]["puts"]), case["name"]
    return {"logs": written, "damaged_logs": damaged, "recovery": _recovery(judge, base)}
