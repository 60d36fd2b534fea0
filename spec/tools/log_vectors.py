"""Vectors of CommitLogs: files, recovery, properties, bodies and inner batches.

All bytes and the broker's answers are in ``tests/data/store_formats``, as RocketMQ gave them to
``ask_rocketmq.py``; what strict and lenient readers answer comes from ``logs_oracle.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import logs_oracle
from golden import ROCKETMQ, load_asked
from oracle import Rejected

if TYPE_CHECKING:
    from vectorlib import Vectors

# What each file shows: requirements, errata.
LOGS: dict[str, tuple[str, str]] = {
    "log_worked_example": (
        (
            "LOG-FIL-1 LOG-FIL-2 LOG-REC-1 LOG-REC-4 LOG-REC-5 LOG-BLK-1 LOG-CRC-1 LOG-CRC-2 "
            "LOG-PRP-1 LOG-SND-1 LOG-WLK-1 LOG-WLK-2 LOG-BRK-1 LOG-REC-9"
        ),
        "LOG-ERR-7",
    ),
    "log_version_2": ("LOG-REC-3 LOG-REC-7", ""),
    "log_hosts": ("LOG-REC-2 LOG-SYS-2", ""),
    "log_fields": ("LOG-REC-8 LOG-SYS-1", ""),
    "log_transactions": ("LOG-REC-8 LOG-SYS-1", ""),
    "log_batch": ("LOG-BAT-1 LOG-BAT-2 LOG-PRP-5", ""),
    "log_inner_batch": ("LOG-BAT-3", ""),
    "log_property_crc": ("LOG-CRC-3 LOG-CRC-4 LOG-CRC-5 LOG-CRC-6", "LOG-ERR-6"),
    "log_odd_properties": ("LOG-PRP-2 LOG-PRP-3 LOG-PRP-4 LOG-PRP-5", ""),
    "log_exact_fit": ("LOG-BLK-1", ""),
    "log_utf8_topic": ("LOG-REC-7 LOG-PRP-6", ""),
    "log_stale_behind_blank": ("LOG-BLK-2", "LOG-ERR-5"),
    "log_topic_beyond_127_bytes": ("LOG-REC-6 LOG-REC-7", "LOG-ERR-1"),
    "log_batch_properties_beyond_32767": ("LOG-PRP-1 LOG-SND-1", "LOG-ERR-2"),
    "log_magic_unknown": ("LOG-SND-1", ""),
    "log_total_size_short": ("LOG-SND-1 LOG-BRK-1", ""),
    "log_total_size_long": ("LOG-SND-1 LOG-BRK-1", ""),
    "log_total_size_of_two": ("LOG-SND-1 LOG-REC-4", ""),
    "log_total_size_beyond_file": ("LOG-SND-1 LOG-BRK-1", ""),
    "log_total_size_small": ("LOG-SND-1 LOG-BRK-1", ""),
    "log_total_size_zero": ("LOG-SND-1", ""),
    "log_total_size_negative": ("LOG-SND-1", ""),
    "log_physical_offset_other": ("LOG-REC-5 LOG-BRK-2", "LOG-ERR-3"),
    "log_body_crc_wrong": ("LOG-CRC-1 LOG-CRC-4 LOG-CRC-5 LOG-CRC-6", ""),
    "log_body_length_beyond_record": ("LOG-SND-1 LOG-BRK-1", ""),
    "log_body_length_beyond_file": ("LOG-SND-1 LOG-BRK-1", ""),
    "log_body_length_negative": ("LOG-REC-6", ""),
    "log_topic_length_negative": ("LOG-REC-6", ""),
    "log_topic_length_other": ("LOG-SND-1", ""),
    "log_properties_length_negative": ("LOG-REC-6", ""),
    "log_properties_length_other": ("LOG-SND-1", ""),
    "log_host_bits_of_other": ("LOG-REC-2 LOG-SYS-2", ""),
    "log_torn_record": ("LOG-WLK-2", ""),
    "log_blank_first": ("LOG-BLK-2", ""),
    "log_blank_beyond_file": ("LOG-BLK-3", ""),
    "log_blank_negative": ("LOG-BLK-3 LOG-BRK-3", ""),
    "log_blank_size_short": ("LOG-BLK-3 LOG-BRK-3", ""),
    "log_all_zero": ("LOG-WLK-1", ""),
    "log_crc_of_empty_body": ("LOG-CRC-2", "LOG-ERR-7"),
    "log_property_crc_wrong": ("LOG-CRC-4 LOG-CRC-5 LOG-CRC-6", "LOG-ERR-6"),
    "log_numbers": ("LOG-BRK-1 LOG-NUM-1", ""),
    "log_number_delay_text": ("LOG-BRK-1 LOG-NUM-1", "LOG-ERR-8"),
    "log_number_delay_space": ("LOG-BRK-1 LOG-NUM-1", "LOG-ERR-8"),
    "log_number_delay_beyond": ("LOG-BRK-1 LOG-NUM-1", "LOG-ERR-8"),
    "log_number_base_text": ("LOG-BRK-1 LOG-NUM-1", "LOG-ERR-8"),
    "log_number_base_beyond": ("LOG-BRK-1 LOG-NUM-1", "LOG-ERR-8"),
    "log_number_num_text": ("LOG-BRK-1 LOG-NUM-1", "LOG-ERR-8"),
    "log_number_num_beyond": ("LOG-BRK-1 LOG-NUM-1", "LOG-ERR-8"),
    "log_number_delay_text_and_size": ("LOG-BRK-1", "LOG-ERR-8"),
    "log_number_num_text_and_size": ("LOG-BRK-1", "LOG-ERR-8"),
}
# Logs whose records the script that asked RocketMQ made.
NUMBERS = "records with numbers in their properties, as RocketMQ reads them or not"
RECOVERY = {
    "recovery_clean": ("LOG-RCV-1", ""),
    "recovery_unclean": ("LOG-RCV-1", ""),
    "recovery_torn_last": ("LOG-RCV-1", ""),
    "recovery_last_body_crc": ("LOG-RCV-1 LOG-RCV-4", "LOG-ERR-4"),
    "recovery_last_body_crc_unchecked": ("LOG-RCV-1", "LOG-ERR-4"),
    "recovery_first_body_crc": ("LOG-RCV-2", "LOG-ERR-4"),
    "recovery_first_body_crc_clean_exit": ("LOG-RCV-2", "LOG-ERR-4"),
    "recovery_physical_offset_other": ("LOG-BRK-2 LOG-RCV-4", "LOG-ERR-3"),
    "recovery_magic_unknown": ("LOG-RCV-1", ""),
    "recovery_blank_missing": ("LOG-RCV-1 LOG-RCV-2 LOG-BLK-1", ""),
    "recovery_stale_after_blank": ("LOG-BLK-2", "LOG-ERR-5"),
    "recovery_last_all_zero": ("LOG-RCV-1", ""),
    "recovery_last_empty": ("LOG-FIL-4", ""),
    "recovery_last_short": ("LOG-FIL-4", ""),
    "recovery_first_missing": ("LOG-FIL-3", "LOG-ERR-9"),
    "recovery_gap": ("LOG-RCV-1", ""),
    "recovery_no_files": ("LOG-RCV-1", ""),
    "recovery_damage_before_the_checkpoint": ("LOG-RCV-3", "LOG-ERR-4"),
    "recovery_damage_before_the_queues": ("LOG-RCV-3", "LOG-ERR-4"),
    "recovery_number_delay_text": ("LOG-RCV-1", "LOG-ERR-8"),
    "recovery_number_num_text": ("LOG-RCV-1", "LOG-ERR-8"),
    "recovery_time_equal": ("LOG-RCV-1 LOG-RCV-3", ""),
    "recovery_time_greater": ("LOG-RCV-1", ""),
    "recovery_time_zero": ("LOG-RCV-1", ""),
    "recovery_version_2_first": ("LOG-RCV-1 LOG-REC-3", ""),
    "recovery_ipv6_first": ("LOG-RCV-1 LOG-REC-2", ""),
    "recovery_queues_end_at_the_file": ("LOG-RCV-1 LOG-RCV-3", ""),
    "recovery_queues_end_before_the_file": ("LOG-RCV-1", ""),
}
BEGINNINGS = "a log of two files, the first one damaged, and with which of them recovery begins"
# Records of version 1 or 2; the names of what a reader decodes.
RECORD_FIELDS = (
    "total_size", "magic_code", "body_crc", "queue_id", "flag", "queue_offset", "physical_offset",
    "sys_flag", "born_timestamp", "born_host", "store_timestamp", "store_host", "reconsume_times",
    "prepared_transaction_offset",
)  # fmt: skip


def head(kind: str, note: str, shown: tuple[str, str], source: str = ROCKETMQ) -> dict[str, Any]:
    """Return the first fields of a vector."""
    return {
        "kind": kind,
        "note": note,
        "source": source,
        "requirements": shown[0].split(),
        "errata": shown[1].split(),
    }


def decoded(position: int, record: logs_oracle.Record) -> dict[str, Any]:
    """Return what a reader decodes of a record."""
    return {
        "position": position,
        **{name: record.values[name] for name in RECORD_FIELDS},
        "body": record.body.hex(),
        "topic": record.topic.decode("utf-8", "replace"),
        "properties": dict(logs_oracle.property_pairs(record.properties)),
        "all_properties": logs_oracle.property_pairs(record.properties),
    }


def _checks(told: list[dict[str, Any]]) -> list[list[Any]]:
    return [[each["position"], each["size"], each["success"]] for each in told]


def _outcomes(data: bytes, start: int, case: dict[str, Any]) -> dict[str, Any]:
    walk = logs_oracle.walk(data, start)
    strict: dict[str, Any] = {
        "walk": [position for position, _ in walk.records],
        "end": {"kind": walk.kind, "position": walk.position},
    }
    if walk.fault:
        strict["end"]["fault"] = {"field": walk.fault.field, "byte": walk.fault.byte}
    faults = []
    for position, record in walk.records:
        fault = logs_oracle.crc_fault(record, data[position : position + record.size])
        if fault:
            faults.append({"position": position, "field": fault})
    strict["crc_faults"] = faults
    # As the only file of its log, LOG-WLK-2 and LOG-WLK-3.
    try:
        logs_oracle.read_log({f"{start:020}": data})
        strict["scan"] = "accept"
    except Rejected:
        strict["scan"] = "reject"
    broker = {
        "checks": _checks(case["checks"]),
        "checks_without_crc": _checks(case["checks_without_crc"]),
    }
    if "checks_of_property_crc" in case:
        broker["checks_of_property_crc"] = _checks(case["checks_of_property_crc"])
    lenient = [position for position, _ in logs_oracle.read_leniently(data, start)]
    return {
        "strict_reader": strict,
        "lenient_reader": {"positions": lenient},
        "broker_faithful_reader": broker,
    }


def _write_log(out: Vectors, name: str, note: str, case: dict[str, Any], file_size: int) -> None:
    base = name.removesuffix("_2").removesuffix("_3") if name not in LOGS else name
    data = bytes.fromhex(case["hex"])
    start = int(case["name"])
    walk = logs_oracle.walk(data, start)
    outcomes = _outcomes(data, start, case)
    accepts = not (walk.fault or outcomes["strict_reader"]["crc_faults"])
    shown, errata = LOGS[base]
    if outcomes["strict_reader"]["scan"] == "reject":
        shown += " LOG-WLK-3 LOG-WLK-4"
    out.write(
        "accept" if accepts else "reject",
        name,
        {
            **head("commitlog", note, (shown, errata)),
            "file_name": f"{start:020}",
            "file_size": file_size,
            "records": [decoded(*each) for each in walk.records],
            "outcomes": outcomes,
        },
        data,
    )


def _write_logs(out: Vectors) -> None:
    for case in load_asked("logs"):
        if case["name"] not in LOGS:
            continue  # log_dispatch is a vector of ConsumeQueues
        for number, file in enumerate(case["files"], 1):
            name = case["name"] + (f"_{number}" if number > 1 else "")
            _write_log(out, name, f"file {number} of {len(case['files'])}", file, case["file_size"])
    for case in load_asked("damaged_logs"):
        note = "the first file of log_worked_example with one thing changed"
        if case["name"].startswith("log_property"):
            note = "log_property_crc with another flag in its first record"
        _write_log(out, case["name"], note, {**case, "name": case["file_name"]}, case["file_size"])
    for case in load_asked("number_logs"):
        told = {**case, "name": case["file_name"]}
        _write_log(out, case["name"], NUMBERS, told, case["file_size"])


WRITTEN = {
    "log_worked_example": "LOG-FIL-1 LOG-FIL-2 LOG-REC-1 LOG-REC-4 LOG-REC-5 LOG-CRC-1 LOG-PRP-1",
    "log_version_2": "LOG-REC-3 LOG-REC-7",
    "log_hosts": "LOG-REC-2 LOG-SYS-2",
    "log_fields": "LOG-REC-4 LOG-CRC-1",
    "log_transactions": "LOG-REC-4",
    "log_batch": "LOG-BAT-1 LOG-BAT-2",
    "log_property_crc": "LOG-CRC-3",
    "log_exact_fit": "LOG-BLK-1 LOG-REC-4 LOG-FIL-1",
    "log_utf8_topic": "LOG-REC-7 LOG-PRP-1",
    "log_surrogates": "LOG-PRP-7",
}
_PUT_FIELDS = (
    "topic", "queue_id", "flag", "sys_flag", "born_timestamp", "born_host", "store_host",
    "reconsume_times", "prepared_transaction_offset", "body",
)  # fmt: skip


def _pairs(properties: dict[str, str]) -> list[list[str]]:
    return [list(pair) for pair in sorted(properties.items())]


def _write_written(out: Vectors) -> None:
    """Write the messages that RocketMQ was given, and the files that it made of them."""
    for case in [*load_asked("logs"), *load_asked("surrogate_logs")]:
        if case["name"] not in WRITTEN:
            continue
        records = [record for file in case["files"] for record in file["records"]]
        messages, at = [], 0
        for put in case["puts"]:
            first = records[at]
            message = {"flag": 0, "sys_flag": 0, "reconsume_times": 0}
            message |= {"prepared_transaction_offset": 0}
            message |= {name: put[name] for name in _PUT_FIELDS if name in put}
            message |= {name: first[name] for name in ("queue_offset", "store_timestamp")}
            message["properties"] = _pairs(put["properties"])
            if "batch" in put:
                message["batch"] = [
                    {"flag": part["flag"], "body": part["body"]}
                    | {"properties_text": _text(part["properties"])}
                    for part in put["batch"]
                ]
            messages.append(message)
            at += len(put.get("batch", [0]))
        files = [{name: file[name] for name in ("name", "hex")} for file in case["files"]]
        has_property_crc = case["name"] == "log_property_crc"
        made = logs_oracle.write_log(messages, case["file_size"], has_property_crc=has_property_crc)
        assert {file["name"]: file["hex"] for file in files} == {
            name: data.hex() for name, data in made.items()
        }
        out.write(
            "accept",
            case["name"].replace("log_", "written_"),
            {
                **head("written_log", "messages, and the log", (WRITTEN[case["name"]], "")),
                "file_size": case["file_size"],
                "property_crc": has_property_crc,
                "messages": messages,
                "files": files,
            },
        )


def _text(properties: dict[str, str]) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in sorted(properties.items()))


def _read_strictly(case: dict[str, Any]) -> dict[str, Any]:
    files = {file["name"]: bytes.fromhex(file["hex"]) for file in case["files"]}
    try:
        return {"scan": "accept", "max_offset": logs_oracle.read_log(files)}
    except Rejected as reason:
        return {"scan": "reject", "error": {"field": reason.field, "byte": reason.byte}}


def _write_recovery(out: Vectors) -> None:
    changed = load_asked("recovery")
    for case in [*changed, *load_asked("further_recovery")]:
        broker = {name: case[name] for name in ("load_result", "max_offset", "files_after")}
        asked = {name: value for name, value in case.items() if name not in {"name", *broker}}
        strict = _read_strictly(case)
        shown, errata = RECOVERY[case["name"]]
        note = NUMBERS if "number" in case["name"] else BEGINNINGS
        if case in changed:
            note = "log_worked_example, changed"
        shown += " LOG-WLK-2" if strict["scan"] == "accept" else " LOG-WLK-3"
        out.write(
            "accept",
            case["name"],
            {
                **head("commitlog_recovery", note, (shown, errata)),
                **asked,
                "outcomes": {
                    "strict_reader": strict,
                    "broker_faithful_reader": broker,
                },
            },
        )
        if case["name"] == "recovery_stale_after_blank":
            file = case["files"][-2]
            data = bytes.fromhex(file["hex"])
            checks = [
                {"position": at, "size": size, "success": success}
                for at, size, success in logs_oracle.check_all(data, check_crc=True)
            ]
            note = "records behind the blank one, as a file that is used again keeps them"
            told = {**file, "checks": checks, "checks_without_crc": checks}
            _write_log(out, "log_stale_behind_blank", note, told, case["file_size"])


def _write_properties(out: Vectors) -> None:
    shown = ("LOG-PRP-2 LOG-PRP-3 LOG-PRP-4 LOG-PRP-5 LOG-PRP-6", "")
    out.write(
        "accept",
        "property_bytes",
        {
            **head("property_bytes", "what is read from the bytes of properties", shown),
            "cases": [*load_asked("properties"), *load_asked("malformed_properties")],
        },
    )


def _write_inner(out: Vectors) -> None:
    sound, broken = [], []
    for case in load_asked("inner_batches"):
        one = {"note": case["name"], "hex": case["hex"]}
        broker = case["messages"] if case["messages"] is not None else "reject"
        try:
            messages = [
                {
                    "flag": flag,
                    "body": body.hex(),
                    "properties": dict(logs_oracle.property_pairs(text)),
                }
                for flag, body, text in logs_oracle.inner_messages(bytes.fromhex(case["hex"]))
            ]
        except Rejected as reason:
            error = {"field": reason.field, "byte": reason.byte}
            broken.append(
                one | {"strict_reader": "reject", "error": error, "broker_faithful_reader": broker}
            )
        else:
            assert messages == broker
            sound.append(one | {"strict_reader": messages, "broker_faithful_reader": broker})
    shown = ("LOG-BAT-3 LOG-BAT-4 LOG-BAT-6", "")
    note = "the messages in bodies of inner batches"
    out.write("accept", "inner_batches", {**head("inner_batches", note, shown), "cases": sound})
    shown = ("LOG-BAT-4 LOG-BAT-5", "")
    note = "bodies that do not add up"
    out.write(
        "reject", "inner_batches_broken", {**head("inner_batches", note, shown), "cases": broken}
    )


def _write_bodies(out: Vectors) -> None:
    sound = [case for case in load_asked("bodies") if case["body"] is not None]
    broken = [case for case in load_asked("bodies") if case["body"] is None]
    shown = ("LOG-BOD-1 LOG-BOD-2 LOG-SYS-1", "")
    note = "bodies as stored and as sent"
    out.write(
        "accept", "compressed_bodies", {**head("compressed_bodies", note, shown), "cases": sound}
    )
    shown = ("LOG-BOD-3", "")
    note = "what does not decompress"
    out.write(
        "reject",
        "compressed_bodies_broken",
        {**head("compressed_bodies", note, shown), "cases": broken},
    )


def write_logs(out: Vectors) -> None:
    """Write all of them."""
    _write_logs(out)
    _write_written(out)
    _write_recovery(out)
    _write_properties(out)
    _write_inner(out)
    _write_bodies(out)
