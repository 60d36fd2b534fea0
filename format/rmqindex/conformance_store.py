"""Run the vectors of the chapters on CommitLog, ConsumeQueue, checkpoint and message ids.

Each kind of vector has a function here, which ``rmqindex.conformance`` calls.
"""

from __future__ import annotations

import shutil
from datetime import UTC
from typing import TYPE_CHECKING, Any, Protocol

from rmqindex.commitlog.log import CommitLog
from rmqindex.consumequeue.reader import ConsumeQueue
from rmqindex.consumequeue.rebuild import rebuild_consume_queues
from rmqindex.errors import CorruptCommitLogError, RmqIndexError
from rmqindex.logfile.files import OpenFiles, find_files
from rmqindex.logfile.framing import frames_of
from rmqindex.logfile.walk import end_at, record_crc_fault, walk
from rmqindex.record.bodies import decompress_body, inner_messages
from rmqindex.record.message_ids import (
    GrpcMessageId,
    OffsetMessageId,
    RemotingMessageId,
    decode_offset_msg_id,
    decode_uniq_key,
)
from rmqindex.record.properties import parse_properties
from rmqindex.record_layout import INNER_BATCH_FLAG, NEED_UNWRAP_FLAG
from rmqindex.store.checkpoint import CHECKPOINT_NAME, StoreCheckpoint

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["STORE_KINDS"]

_STRICT = "strict reader"
_LENIENT = "lenient reader"
_BROKER = "broker-faithful reader"
_WRITER = "strict writer"
_MOST_RECORDS = 1024


class _Vector(Protocol):
    @property
    def fields(self) -> dict[str, Any]: ...
    @property
    def file(self) -> Path: ...
    def __getitem__(self, name: str) -> Any: ...  # noqa: ANN401  (JSON)


class _Report(Protocol):
    def check(self, conformance_class: str, what: str, expected: object, got: object) -> None: ...


def _run_commitlog(vector: _Vector, report: _Report, scratch: Path) -> None:
    """Walk one file of a log."""
    folder = scratch / "commitlog"
    folder.mkdir()
    shutil.copy(vector.file, folder / vector["file_name"])
    expected = vector["outcomes"]["strict_reader"]
    (file,) = find_files(folder, None)
    positions, crc_faults = [], []
    with OpenFiles((file,)).open_file(file) as source:
        frames = frames_of(file)
        for records in walk(source, file, frames, 0, file.size, _MOST_RECORDS):
            for place, start in enumerate((records.phy_offset - file.start).tolist()):
                positions.append(start)
                fault = record_crc_fault(records, place)
                if fault is not None:
                    crc_faults.append({"position": start, "field": fault.field})
        end = end_at(source, file, frames, frames.at)
    got: dict[str, Any] = {"kind": end.kind.value, "position": end.position}
    if end.fault is not None:
        byte = end.position + end.fault.byte
        got["fault"] = {"field": end.fault.field, "byte": byte}
    report.check(_STRICT, "walk", expected["walk"], positions)
    report.check(_STRICT, "end", expected["end"], got)
    report.check(_STRICT, "crc_faults", expected["crc_faults"], crc_faults)
    _check_records(vector, report, folder)


def _check_records(vector: _Vector, report: _Report, folder: Path) -> None:
    names = (
        [name for name in vector["records"][0] if name != "position"] if vector["records"] else []
    )
    renamed = {"total_size": "size", "physical_offset": "phy_offset"}
    rows: list[dict[str, Any]] = []
    with CommitLog(folder) as log:
        for batch in log.scan(mode="DROPMALFORMED", decompress_body=False):
            rows += batch.to_pylist()
    for record, row in zip(vector["records"], rows, strict=False):
        for name in names:
            if name == "all_properties":
                continue
            got = row[renamed.get(name, name)]
            if name == "body":
                got = got.hex()
            elif name.endswith("_host"):
                got = _host_of(row["msg_id"]) if name == "store_host" else record[name]
            elif name == "properties":
                got = dict(got)
            report.check(_LENIENT, f"record {record['position']}: {name}", record[name], got)


def _host_of(msg_id: str) -> str:
    found = decode_offset_msg_id(msg_id)
    assert found is not None
    return f"{found.address.hex()}:{found.port}"


def _run_recovery(vector: _Vector, report: _Report, scratch: Path) -> None:
    """Read a whole log; to recover one is a broker's business."""
    if not vector["files"]:
        return
    folder = scratch / "commitlog"
    folder.mkdir()
    for file in vector["files"]:
        (folder / file["name"]).write_bytes(bytes.fromhex(file["hex"]))
    got: dict[str, Any]
    with CommitLog(folder) as log:
        try:
            for _ in log.scan():
                pass
            got = {"scan": "accept", "max_offset": log.max_offset}
        except CorruptCommitLogError as error:
            got = {"scan": "reject", "error": {"field": error.field, "byte": error.byte}}
    report.check(_STRICT, "log", vector["outcomes"]["strict_reader"], got)


def _run_properties(vector: _Vector, report: _Report, _scratch: Path) -> None:
    for case in vector["cases"]:
        got = parse_properties(bytes.fromhex(case["hex"]))
        for name in (_STRICT, _LENIENT, _BROKER):
            report.check(name, f"properties {case['hex']}", case["decoded"], got)


def _run_inner(vector: _Vector, report: _Report, _scratch: Path) -> None:
    flags = INNER_BATCH_FLAG | NEED_UNWRAP_FLAG
    for case in vector["cases"]:
        got: object
        try:
            got = [
                {"flag": one.flag, "body": one.body.hex(), "properties": dict(one.properties)}
                for one in inner_messages(bytes.fromhex(case["hex"]), flags)
            ]
        except RmqIndexError:
            got = "reject"
        report.check(_STRICT, case["note"], case["strict_reader"], got)


def _run_bodies(vector: _Vector, report: _Report, _scratch: Path) -> None:
    for case in vector["cases"]:
        try:
            got = decompress_body(bytes.fromhex(case["stored"]), case["sys_flag"]).hex()
        except RmqIndexError:
            got = None
        report.check(_STRICT, f"body with flags {case['sys_flag']}", case["body"], got)


def _run_queue(vector: _Vector, report: _Report, scratch: Path) -> None:
    """Read the units of a queue's files."""
    kind = "batchconsumequeue" if vector["is_batch"] else "consumequeue"
    folder = scratch / kind / "TopicTest" / "2"
    folder.mkdir(parents=True)
    reader = vector["reader"]
    for file in reader["files"]:
        (folder / file["name"]).write_bytes(bytes.fromhex(file["hex"]))
    if not reader["files"]:
        return
    queues = ConsumeQueue.find(folder)
    rows = [row for queue in queues for batch in queue.scan() for row in batch.to_pylist()]
    names = ("queue_offset", "phy_offset", "size", "tags_code")
    expected = [{name: unit[name] for name in names} for unit in reader["units"]]
    got = [{name: row[name] for name in names} for row in rows]
    for name in (_STRICT, _LENIENT):
        report.check(name, "units", expected, got)
    every = sum(len(batch) for queue in queues for batch in queue.scan(blanks=True))
    report.check(_STRICT, "blank units", reader["blank_units"], every - len(rows))


def _run_dispatch(vector: _Vector, report: _Report, scratch: Path) -> None:
    """Build the queues of a log."""
    (scratch / "commitlog").mkdir()
    shutil.copy(vector.file, scratch / "commitlog" / vector["file_name"])
    rebuild_consume_queues(
        scratch, scratch / "built", batch_topics=vector["batch_topics"], multi_dispatch=True
    )
    built = {(queue.topic, queue.queue_id): queue for queue in ConsumeQueue.find(scratch / "built")}
    for expected in vector["queues"]:
        queue = built.get((expected["topic"], expected["queue_id"]))
        rows = [] if queue is None else [r for b in queue.scan() for r in b.to_pylist()]
        names = ("queue_offset", "phy_offset", "size", "tags_code")
        report.check(
            _WRITER,
            f"units of {expected['topic']}-{expected['queue_id']}",
            [unit[:4] for unit in expected["units"]],
            [[row[name] for name in names] for row in rows],
        )


def _run_checkpoint(vector: _Vector, report: _Report, scratch: Path) -> None:
    """Read, change and write a checkpoint; this package knows the fields of edition 4.0."""
    path = scratch / CHECKPOINT_NAME
    before, edition = vector["before"], vector["editions"]["4.0"]
    if before is not None:
        data = bytes.fromhex(before["hex"])
        filler = b"\0" * min(before["size"], 4096) + b"x" * max(before["size"] - 4096, 0)
        path.write_bytes(data + filler[len(data) : before["size"]])
    checkpoint = StoreCheckpoint.load(path) if before is not None else StoreCheckpoint()
    values = {name: getattr(checkpoint, name) for name in StoreCheckpoint.__slots__}
    changed = StoreCheckpoint(**{**values, **vector["set"]})
    for name, value in edition["fields"].items():
        report.check(_BROKER, name, value, getattr(changed, name))
    changed.save(path)
    after = path.read_bytes()
    report.check(_WRITER, "bytes", edition["after"]["hex"], after[:64].hex())
    if before is None or before["size"] <= 4096:
        report.check(_WRITER, "size", edition["after"]["size"], len(after))


def _run_offset_ids(vector: _Vector, report: _Report, _scratch: Path) -> None:
    for case in vector["offset_ids"]:
        made = OffsetMessageId(bytes.fromhex(case["address"]), case["port"], case["phy_offset"])
        report.check(_WRITER, f"id {case['id']}", case["id"], str(made))
        expected = made if case["phy_offset"] >= 0 else None
        for text in (case["id"], case["id"].lower()):
            report.check(_STRICT, f"decode {text}", expected, decode_offset_msg_id(text))


def _run_unique_keys(vector: _Vector, report: _Report, _scratch: Path) -> None:
    for case in vector["unique_keys"]:
        near = case["created_after"]
        found = decode_uniq_key(case["id"], near=near, zone=UTC)
        assert isinstance(found, RemotingMessageId)
        for name in ("pid", "class_loader_hash", "month_milliseconds", "counter"):
            report.check(_STRICT, f"{case['id']}: {name}", case[name], getattr(found, name))
        report.check(_STRICT, f"{case['id']}: address", case["address"], found.address.hex())
        assert found.timestamp is not None
        in_time = near <= found.timestamp <= case["created_before"]
        report.check(_STRICT, f"{case['id']}: time", expected=True, got=in_time)


def _run_grpc_ids(vector: _Vector, report: _Report, _scratch: Path) -> None:
    for case in vector["grpc_ids"]:
        found = decode_uniq_key(case["id"])
        assert isinstance(found, GrpcMessageId)
        for name in ("version", "pid", "sequence"):
            report.check(_STRICT, f"{case['id']}: {name}", case[name], getattr(found, name))
        report.check(_STRICT, f"{case['id']}: mac", case["mac"], found.mac.hex())
        in_time = -2000 < found.timestamp - case["created_after"] <= 1000
        report.check(_STRICT, f"{case['id']}: time", expected=True, got=in_time)


def _run_ids_decoded(vector: _Vector, report: _Report, _scratch: Path) -> None:
    for case in vector["ids"]:
        found = decode_offset_msg_id(case["id"])
        got = None
        if found is not None:
            got = {
                "address": found.address.hex(),
                "port": found.port,
                "phy_offset": found.phy_offset,
            }
        report.check(_STRICT, f"decode {case['id']!r}", case["broker"], got)


def _run_dledger(vector: _Vector, report: _Report, scratch: Path) -> None:
    """Read the records of entries; the annexes ask nothing of a class, so this is lenient."""
    folder = scratch / "dledger-n0" / "data"
    folder.mkdir(parents=True)
    shutil.copy(vector.file, folder / f"{0:020}")
    with CommitLog(folder) as log:
        found = [offset for batch in log.scan() for offset in batch["phy_offset"].to_pylist()]
    expected = [entry["pos"] + 48 for entry in vector["entries"] if entry["magic"] == 1]
    report.check(_LENIENT, "records", expected, found)


def _run_nothing(vector: _Vector, report: _Report, scratch: Path) -> None:
    """Take a vector of an annex that no class has to answer."""


#: What runs each kind of vector.
STORE_KINDS = {
    "commitlog": _run_commitlog,
    "commitlog_recovery": _run_recovery,
    "property_bytes": _run_properties,
    "inner_batches": _run_inner,
    "compressed_bodies": _run_bodies,
    "consumequeue": _run_queue,
    "dispatch": _run_dispatch,
    "checkpoint_file": _run_checkpoint,
    "offset_ids": _run_offset_ids,
    "unique_keys": _run_unique_keys,
    "grpc_ids": _run_grpc_ids,
    "ids_decoded": _run_ids_decoded,
    "dledger_entries": _run_dledger,
    "tiered_index": _run_nothing,
    "rocksdb_pairs": _run_nothing,
}
