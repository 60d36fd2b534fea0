"""Vectors of ConsumeQueues, of what messages give to them, of checkpoints and of message ids.

As in ``log_vectors.py``, RocketMQ wrote the bytes and gave the broker's answers.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import logs_oracle
import queue_oracle
from golden import ROCKETMQ, ROOT, load_asked
from log_vectors import head

if TYPE_CHECKING:
    from vectorlib import Vectors

QUEUES: dict[str, tuple[str, str]] = {
    "queue_worked_example": ("CQ-FIL-1 CQ-FIL-2 CQ-FIL-3 CQ-UNT-1 CQ-UNT-2 CQ-PUT-1", ""),
    "queue_one_unit": ("CQ-UNT-2 CQ-PUT-1", ""),
    "queue_blank_units": ("CQ-UNT-3 CQ-PUT-2 CQ-FIL-1", ""),
    "queue_starts_at_file": ("CQ-PUT-2 CQ-FIL-1", ""),
    "queue_repeated_units": ("CQ-PUT-3", ""),
    "queue_skipped_offset": ("CQ-PUT-5", "CQ-ERR-1"),
    "queue_tags_codes": ("CQ-UNT-1", ""),
    "queue_correct_min_offset": ("CQ-MIN-1", ""),
    "queue_all_expired": ("CQ-MIN-2", ""),
    "queue_expire": ("CQ-EXP-1", ""),
    "queue_truncate": ("CQ-TRC-1", ""),
    "queue_truncate_between": ("CQ-TRC-1", ""),
    "queue_truncate_at_file": ("CQ-TRC-1 CQ-TRC-2", ""),
    "queue_truncate_all": ("CQ-TRC-2", ""),
    "queue_truncate_blank_units": ("CQ-TRC-1 CQ-UNT-3", ""),
    "batch_queue_worked_example": ("CQ-BAT-1 CQ-BAT-2 CQ-BAT-3 CQ-FIL-2", ""),
    "batch_queue_repeated": ("CQ-BAT-3", ""),
    "batch_queue_correct_min_offset": ("CQ-MIN-3", ""),
    "batch_queue_truncate": ("CQ-TRC-1", ""),
    "batch_queue_truncate_at_file": ("CQ-TRC-1 CQ-TRC-2", ""),
    "queue_put_after_truncate": ("CQ-TRC-3 CQ-PUT-3", ""),
    "queue_put_after_truncate_all": ("CQ-TRC-3 CQ-PUT-3", ""),
    "batch_queue_put_after_truncate": ("CQ-TRC-3 CQ-BAT-3", ""),
    "batch_queue_put_after_truncate_all": ("CQ-TRC-3 CQ-BAT-3", ""),
    "queue_zero_unit": ("CQ-UNT-2 CQ-UNT-4 CQ-RCV-1", ""),
    "queue_size_negative": ("CQ-UNT-2 CQ-UNT-4 CQ-RCV-1", ""),
    "queue_phy_offset_negative": ("CQ-UNT-2 CQ-UNT-4 CQ-RCV-1", ""),
    "queue_unit_torn": ("CQ-UNT-2 CQ-RCV-1", "CQ-ERR-3"),
    "queue_zero_unit_in_the_first_file": ("CQ-UNT-2 CQ-UNT-4 CQ-UNT-5 CQ-RCV-1 CQ-RCV-2", ""),
    "queue_blank_unit_inside": ("CQ-UNT-3 CQ-UNT-6", ""),
    "queue_offsets_descend": ("CQ-RCV-3", "CQ-ERR-3"),
    "queue_file_short": ("CQ-RCV-4", ""),
    "queue_file_empty": ("CQ-RCV-4", ""),
    "queue_first_file_short": ("CQ-RCV-4", ""),
    "queue_first_file_missing": ("CQ-MIN-4", "CQ-ERR-2"),
    "queue_all_zero": ("CQ-RCV-1", ""),
    "batch_queue_size_zero": ("CQ-BAT-2 CQ-RCV-1", "CQ-ERR-4"),
    "batch_queue_base_negative": ("CQ-BAT-2 CQ-RCV-1", "CQ-ERR-4"),
    "batch_queue_count_zero": ("CQ-BAT-2 CQ-RCV-1", "CQ-ERR-4"),
    "batch_queue_count_negative": ("CQ-BAT-2 CQ-RCV-1", "CQ-ERR-4"),
    "batch_queue_unit_torn": ("CQ-BAT-2", "CQ-ERR-3"),
    "queue_least_offset_behind_the_first_file": ("CQ-MIN-1", ""),
    "queue_least_offset_within_the_first_file": ("CQ-MIN-1", ""),
    "batch_queue_first_file_before_the_log": ("CQ-MIN-3", ""),
    "queue_expire_all": ("CQ-EXP-1 CQ-MIN-2", ""),
    "batch_queue_expire_all": ("CQ-EXP-1", ""),
    "queue_offset_taken": ("CQ-PUT-3", ""),
    "queue_offset_of_more_than_32_bits": ("CQ-PUT-1 CQ-PUT-2 CQ-FIL-1", ""),
    "queue_size_of_a_blank_unit": ("CQ-UNT-3", ""),
    "queue_sum_wraps": ("CQ-PUT-1 CQ-LIM-1", ""),
    "queue_zero_unit_in_the_first_of_four_files": ("CQ-RCV-1", ""),
    "batch_queue_file_short": ("CQ-RCV-4 CQ-RCV-5", ""),
    "batch_queue_first_file_short": ("CQ-RCV-4 CQ-RCV-5", ""),
}
CHECKPOINTS = {
    "checkpoint_fields": ("CHK-FLD-1 CHK-MIN-1", ""),
    "checkpoint_sixth_field": ("CHK-FLD-2 CHK-WRT-1", "CHK-ERR-1"),
    "checkpoint_new": ("CHK-FIL-1 CHK-WRT-1", ""),
    "checkpoint_below_margin": ("CHK-MIN-1", ""),
    "checkpoint_negative": ("CHK-MIN-2", "CHK-ERR-2"),
    "checkpoint_wraps": ("CHK-MIN-2", "CHK-ERR-2"),
    "checkpoint_index_least": ("CHK-MIN-1", ""),
    "checkpoint_zero_bytes": ("CHK-FIL-1 CHK-FIL-3 CHK-FIL-2", ""),
    "checkpoint_short": ("CHK-FIL-2", ""),
    "checkpoint_bytes_beyond": ("CHK-FIL-3 CHK-FIL-2 CHK-FLD-2 CHK-WRT-1", ""),
}
FIELDS = {
    "PhysicMsgTimestamp": "physic_msg_timestamp",
    "LogicsMsgTimestamp": "logics_msg_timestamp",
    "IndexMsgTimestamp": "index_msg_timestamp",
    "MasterFlushedOffset": "master_flushed_offset",
    "ConfirmPhyOffset": "confirm_phy_offset",
    "LogicsPhysicalOffset": "logics_physical_offset",
}
GRPC_CLIENT = "rocketmq-client-java 5.0.7"
BEFORE_5_5, SINCE_5_5 = "5.3.3", "5.5.1"


def _write_queues(out: Vectors) -> None:
    for group in ("queues", "damaged_queues", "edge_queues"):
        for case in load_asked(group):
            steps = [
                {"do": do, "arguments": arguments, **answer}
                for (do, *arguments), answer in zip(case["steps"], case["answers"][1:], strict=True)
            ]
            for step in steps[:-1]:
                del step["units"]
            read = case["files"] or case["files_after"]
            first = case["answers"][0]
            data = bytes.fromhex(read[0]["hex"]) if read else None
            out.write(
                "accept",
                case["name"],
                {
                    **head("consumequeue", "", QUEUES[case["name"]]),
                    "is_batch": case["is_batch"],
                    "file_size": case["file_size"],
                    "files": case["files"],
                    "reader": {
                        "files": read,
                        **queue_oracle.read_units(read, is_batch=case["is_batch"]),
                    },
                    "broker": {
                        "loaded": first.pop("loaded"),
                        "recovered": first,
                        "steps": steps,
                        "files_after": case["files_after"],
                    },
                },
                data,
            )


def _write_dispatches(out: Vectors) -> None:
    (case,) = [each for each in load_asked("logs") if each["name"] == "log_dispatch"]
    shown = ("CQ-TAG-1 CQ-TAG-2 CQ-DSP-1 CQ-DSP-2 CQ-DSP-3", "CQ-ERR-5")
    _write_dispatch(out, "dispatch", shown, case["files"][0], case["told"])
    (case,) = load_asked("value_dispatch")
    shown = ("CQ-TAG-1 CQ-DSP-2 CQ-DSP-3 CQ-DSP-4 LOG-NUM-1", "")
    _write_dispatch(out, case["name"], shown, case["file"], case["told"])


def _write_dispatch(
    out: Vectors,
    name: str,
    shown: tuple[str, str],
    file: dict[str, Any],
    told: dict[str, Any],
) -> None:
    data = bytes.fromhex(file["hex"])
    walk = logs_oracle.walk(data, 0)
    codes = [each["tags_code"] for each in file["checks"] if each["size"] > 0]
    messages = []
    for (position, record), code in zip(walk.records, codes, strict=True):
        properties = dict(logs_oracle.property_pairs(record.properties))
        topic = record.topic.decode()
        store_timestamp = record.values["store_timestamp"]
        assert queue_oracle.tags_code(topic, properties, store_timestamp) == code
        messages.append(
            {
                "position": position,
                "topic": topic,
                "queue_id": record.values["queue_id"],
                "queue_offset": record.values["queue_offset"],
                "sys_flag": record.values["sys_flag"],
                "store_timestamp": store_timestamp,
                "properties": properties,
                "tags_code": code,
            }
        )
    queues = [
        {
            "topic": each["topic"],
            "queue_id": each["queue_id"],
            "is_batch": each["topic"] == "Inner",
            **(each["queue"] or {"min_offset": 0, "max_offset": 0, "units": []}),
        }
        for each in told["queues"]
    ]
    out.write(
        "accept",
        name,
        {
            **head("dispatch", "messages and the units that they give to the queues", shown),
            "file_name": file["name"],
            "batch_topics": ["Inner"],
            "light_queues": True,
            "messages": messages,
            "queues": queues,
        },
        data,
    )


def _checkpoint_fields(told: dict[str, Any]) -> dict[str, Any]:
    return {
        FIELDS.get(name, name): value
        for name, value in told["fields"].items()
        if value is not None and name != "length"
    }


def _write_checkpoints(out: Vectors) -> None:
    for case in load_asked("checkpoints"):
        before = None if case["hex"] is None else {"hex": case["hex"], "size": case["size"]}
        out.write(
            "accept",
            case["name"],
            {
                **head(
                    "checkpoint_file",
                    "hex holds the first 64 bytes; all behind them are zero, or x beyond 4096",
                    CHECKPOINTS[case["name"]],
                    f"{ROCKETMQ}, RocketMQ {SINCE_5_5}",
                ),
                "before": before,
                "set": {FIELDS[name]: value for name, value in case["set"].items()},
                "editions": {
                    edition: {
                        "fields": _checkpoint_fields(case[version]),
                        "after": {
                            "hex": case[version]["hex_after"],
                            "size": case[version]["size_after"],
                        },
                    }
                    for edition, version in (("4.0", BEFORE_5_5), ("5.5", SINCE_5_5))
                },
            },
            bytes.fromhex(case[SINCE_5_5]["hex_after"]),
        )


def _write_ids(out: Vectors) -> None:
    (told,) = load_asked("message_ids")
    offset_ids = [
        {"address": address, "port": port, "phy_offset": offset, "id": text}
        for (address, port, offset), text in zip(told["offset_ids"], told["made"], strict=True)
    ]
    for each in offset_ids:
        address = bytes.fromhex(each["address"])
        assert logs_oracle.offset_id(address, each["port"], each["phy_offset"]) == each["id"]
    shown = ("MID-OID-1 MID-OID-2", "")
    note = "ids that a broker makes"
    out.write("accept", "offset_ids", {**head("offset_ids", note, shown), "offset_ids": offset_ids})
    shown = ("MID-UKY-1 MID-UKY-2 MID-UKY-3", "MID-ERR-1")
    unique_keys = [
        {"id": text, "created_after": before, "created_before": after, "zone": "UTC"}
        | _unique_key(text, before, after)
        for text, before, after in told["created"]
    ]
    out.write(
        "accept",
        "unique_keys",
        {
            **head("unique_keys", "ids that a remoting client made", shown),
            "unique_keys": unique_keys,
        },
    )
    decoded = []
    for each in told["decoded"]:
        host, offset = each["as_offset_id"] or (None, None)
        decoded.append(
            {
                "id": each["id"],
                "broker": None
                if host is None
                else {
                    "address": host.partition(":")[0],
                    "port": int(host.partition(":")[2]),
                    "phy_offset": offset,
                },
            }
        )
    shown = ("MID-OID-3 MID-OID-4", "MID-ERR-2")
    note = "texts that a broker takes for offset ids, and texts that it does not"
    out.write("accept", "ids_decoded", {**head("ids_decoded", note, shown), "ids": decoded})


def _write_grpc_ids(out: Vectors) -> None:
    ids = []
    for told in load_asked("grpc_ids"):
        data = bytes.fromhex(told["id"])
        ids.append(
            told
            | {
                "version": data[0],
                "mac": data[1:7].hex(),
                "pid": int.from_bytes(data[7:9], "big"),
                "seconds": int.from_bytes(data[9:13], "big"),
                "sequence": int.from_bytes(data[13:], "big"),
            }
        )
    description = head("grpc_ids", "ids that a gRPC client made", ("MID-GRP-1", ""), GRPC_CLIENT)
    out.write("accept", "grpc_ids", {**description, "grpc_ids": ids})


def _write_stopped_checkpoint(out: Vectors) -> None:
    store = ROOT / "tests" / "data" / "broker_versions" / "5.5.0" / "store"
    data = (store / "checkpoint").read_bytes()
    values = struct.unpack_from(">6q", data)
    physic, logics, index = values[:3]
    least = logs_oracle.min_timestamp(physic, logics)
    names = [name for name in FIELDS.values() if name != "logics_physical_offset"]
    out.write(
        "accept",
        "checkpoint_of_5_5_0",
        {
            **head(
                "checkpoint",
                "a whole broker of 5.5.0 that was stopped within a minute of its start",
                ("CHK-FLD-1 CHK-MIN-1", "CHK-ERR-3"),
                "RocketMQ 5.5.0",
            ),
            "fields": dict(zip(names, values, strict=False)),
            "min_timestamp": least,
            "min_timestamp_index": min(least, index),
        },
        data,
    )


def _unique_key(text: str, before: int, after: int) -> dict[str, Any]:
    data = bytes.fromhex(text)
    timestamp = logs_oracle.nearest_time(int.from_bytes(data[-6:-2], "big"), before)
    assert before <= timestamp <= after
    return {
        "timestamp": timestamp,
        "address": data[:-12].hex(),
        "pid": int.from_bytes(data[-12:-10], "big"),
        "class_loader_hash": int.from_bytes(data[-10:-6], "big", signed=True),
        "month_milliseconds": int.from_bytes(data[-6:-2], "big"),
        "counter": int.from_bytes(data[-2:], "big"),
    }


def write_queues(out: Vectors) -> None:
    """Write all of them."""
    _write_queues(out)
    _write_dispatches(out)
    _write_checkpoints(out)
    _write_stopped_checkpoint(out)
    _write_ids(out)
    _write_grpc_ids(out)
