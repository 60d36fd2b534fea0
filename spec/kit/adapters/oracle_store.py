"""The steps of the chapters beside the index behind the protocol, as ``oracle_adapter.py`` is.

``spec/tools/logs_oracle.py`` and ``queue_oracle.py`` hold the steps.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "tools"), str(Path(__file__).parent)]

import logs_oracle  # noqa: E402
import queue_oracle  # noqa: E402
from oracle import Rejected  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    Handler = Callable[[dict[str, Any]], dict[str, Any]]

CHECKPOINT_FIELDS = (
    "physic_msg_timestamp",
    "logics_msg_timestamp",
    "index_msg_timestamp",
    "master_flushed_offset",
    "confirm_phy_offset",
    "logics_physical_offset",
)
CHECKPOINT_SIZE, HEAD = 4096, 64
WITH_SIXTH_FIELD = ("5.5",)
PREPARED, ROLLED_BACK, INNER_BATCH = 4, 12, 192


def _data(request: dict[str, Any]) -> bytes:
    return bytes.fromhex(request["file"]["hex"])


def _walk(request: dict[str, Any]) -> logs_oracle.Walk:
    return logs_oracle.walk(_data(request), int(request["file"]["name"]))


def decode_commitlog(request: dict[str, Any]) -> dict[str, Any]:
    """Decode the records of a file that is the only one of its log."""
    if request["class"] == "lenient_reader":
        found = logs_oracle.read_leniently(_data(request), int(request["file"]["name"]))
    elif request["class"] == "broker_faithful_reader":
        found = _taken(request)
    else:
        logs_oracle.read_log({request["file"]["name"]: _data(request)})
        found = _walk(request).records
    records = []
    for position, record in found:
        pairs = logs_oracle.property_pairs(record.properties)
        fields = {
            "position": position,
            **record.values,
            "body": record.body.hex(),
            "topic": logs_oracle.text_of(record.topic),
            "properties": dict(pairs),
            "all_properties": [list(pair) for pair in pairs],
        }
        records.append({name: fields[name] for name in request["fields"]})
    return {"records": records}


def _taken(request: dict[str, Any]) -> list[tuple[int, logs_oracle.Record]]:
    """Return the records that a broker's check takes, as far as they are sound."""
    sound = dict(_walk(request).records)
    checks = logs_oracle.check_all(_data(request), check_crc=False, property_crc_alone=False)
    return [(at, sound[at]) for at, size, is_success in checks if is_success and size > 0]


def walk_commitlog(request: dict[str, Any]) -> dict[str, Any]:
    """Walk over a file."""
    data, found = _data(request), _walk(request)
    end: dict[str, Any] = {"kind": found.kind, "position": found.position}
    if found.fault:
        end["fault"] = {"field": found.fault.field, "byte": found.fault.byte}
    crc_faults = [
        {"position": position, "field": fault}
        for position, record in found.records
        if (fault := logs_oracle.crc_fault(record, data[position : position + record.size]))
    ]
    return {"walk": [position for position, _ in found.records], "end": end} | {
        "crc_faults": crc_faults
    }


def check_commitlog(request: dict[str, Any]) -> dict[str, Any]:
    """Check place after place, as a broker does."""
    told = logs_oracle.check_all(
        _data(request),
        check_crc=request["check_crc"],
        property_crc_alone=request["check_property_crc"],
    )
    return {"checks": [list(each) for each in told]}


def _contents(request: dict[str, Any]) -> dict[str, bytes]:
    return {file["name"]: bytes.fromhex(file["hex"]) for file in request["files"]}


def scan_commitlog(request: dict[str, Any]) -> dict[str, Any]:
    """End a log as a strict reader does."""
    return {"max_offset": logs_oracle.read_log(_contents(request))}


def _load(files: dict[str, bytes], file_size: int) -> tuple[bool, dict[str, bytes], list[str]]:
    """Load files in order: the result, those before the first failure, and the names kept."""
    loaded: dict[str, bytes] = {}
    for name in sorted(files):
        if not files[name] and name == max(files):
            break
        if len(files[name]) != file_size:
            return False, loaded, sorted(files)
        loaded[name] = files[name]
    return True, loaded, sorted(loaded)


def recover_commitlog(request: dict[str, Any]) -> dict[str, Any]:
    """Load a log and end it as a broker does that starts."""
    is_loaded, loaded, kept = _load(_contents(request), request["file_size"])
    if is_loaded:
        end = logs_oracle.recover_log(
            loaded,
            last_exit_ok=request["last_exit_ok"],
            check_crc=request["check_crc"],
            min_time=request["min_timestamp"],
            queue_max=request["queue_max_phy_offset"],
        )
        kept = [name for name in kept if int(name) <= end]
    else:
        end = int(max(loaded)) + request["file_size"] if loaded else 0
    return {"load_result": is_loaded, "max_offset": end, "files_after": kept}


def change_consumequeue(request: dict[str, Any]) -> dict[str, Any]:
    """Load a queue, recover it, and take steps."""
    size, contents = request["file_size"], _contents(request)
    is_loaded, loaded, kept = _load(contents, size)
    files = {int(name): bytearray(data) for name, data in loaded.items()}
    queue = queue_oracle.Queue(size, request["is_batch"], files)
    if is_loaded:
        queue.recover()
    else:
        queue.fail_to_load()
    steps = []

    def told(**more: Any) -> dict[str, Any]:  # noqa: ANN401  (JSON)
        return {"min_offset": queue.min_offset, "max_offset": queue.max_offset, **more}

    def units() -> list[list[int]]:
        # CQ-ERR-2: nothing is found where no file holds the least offset.
        is_missing = queue.files and not queue.is_batch and queue.least < min(queue.files)
        return [] if is_missing else queue.units()

    recovered = told(units=units())
    for number, step in enumerate(request["steps"], 1):
        is_strict = step["do"] == "put" and request["class"] == "strict_writer"
        told_more = {"is_strict": True} if is_strict else {}
        getattr(queue, step["do"])(*step["arguments"], **told_more)
        more = {"units": units()} if number == len(request["steps"]) else {}
        steps.append({"do": step["do"], "arguments": step["arguments"], **told(**more)})
    after = {f"{at:020}": bytes(data) for at, data in sorted(queue.files.items())}
    if not is_loaded:
        after = {name: contents[name] for name in kept}
    written = [{"name": name, "hex": data.hex()} for name, data in after.items()]
    return {"loaded": is_loaded, "recovered": recovered, "steps": steps, "files_after": written}


def build_consumequeue(request: dict[str, Any]) -> dict[str, Any]:
    """Give the units that a file of a log gives to one queue."""
    start, asked = int(request["file"]["name"]), (request["topic"], request["queue_id"])
    units = []
    for position, record in _walk(request).records:
        topic, flags = logs_oracle.text_of(record.topic), record.values["sys_flag"]
        properties = dict(logs_oracle.property_pairs(record.properties))
        if flags & ROLLED_BACK in (PREPARED, ROLLED_BACK):
            continue
        code = queue_oracle.tags_code(topic, properties, record.values["store_timestamp"])
        size, success = logs_oracle.check(_data(request), position, check_crc=False)
        if size != record.size or not success:
            continue
        offset = record.values["queue_offset"]
        if topic in request["batch_topics"]:
            offset = queue_oracle.base_of(properties, offset)
        queue_id = record.values["queue_id"]
        queues = [(topic, queue_id, offset)] if queue_oracle.is_folder(topic) else []
        if request["light_queues"]:
            queues += queue_oracle.light_queues(topic, properties, queue_id)
        found = [each for name, number, each in queues if (name, number) == asked]
        # A put leaves out what ends where the last one ends, and a place that is taken, CQ-PUT-3.
        is_plain = asked[0] not in request["batch_topics"]
        taken = units[-1][0] if units and is_plain else -1
        units += [
            [each, start + position, record.size, code]
            for each in found[:1]
            if not each or each > taken
        ]
    return {"units": units}


def write_commitlog(request: dict[str, Any]) -> dict[str, Any]:
    """Write messages into a new log."""
    files = logs_oracle.write_log(
        request["messages"], request["file_size"], has_property_crc=request["property_crc"]
    )
    return {"files": [{"name": name, "hex": data.hex()} for name, data in files.items()]}


def decode_property_bytes(request: dict[str, Any]) -> dict[str, Any]:
    """Decode the properties of a message."""
    return {"properties": dict(logs_oracle.property_pairs(bytes.fromhex(request["hex"])))}


def inner_messages(request: dict[str, Any]) -> dict[str, Any]:
    """Take the messages out of the body of a batch."""
    if request["sys_flag"] & INNER_BATCH != INNER_BATCH:
        return {"messages": []}
    is_broker = request["class"] == "broker_faithful_reader"
    data = logs_oracle.decompress(bytes.fromhex(request["hex"]), request["sys_flag"])
    found = logs_oracle.inner_messages(data, is_broker=is_broker)
    messages = [
        {
            "flag": flag,
            "body": body.hex(),
            "properties": dict(logs_oracle.property_pairs(properties)),
        }
        for flag, body, properties in found
    ]
    return {"messages": messages}


def decompress_body(request: dict[str, Any]) -> dict[str, Any]:
    """Decompress a body as its flags say."""
    body = logs_oracle.decompress(bytes.fromhex(request["hex"]), request["sys_flag"])
    return {"hex": body.hex()}


def decode_consumequeue(request: dict[str, Any]) -> dict[str, Any]:
    """Decode the units of a queue."""
    found = queue_oracle.read_units(request["files"], is_batch=request["is_batch"])
    topic, _, queue_id = request["folder"].rpartition("/")
    of_folder = {"topic": topic, "queue_id": int(queue_id)}
    units = [
        {name: ({**unit, **of_folder})[name] for name in request["fields"]}
        for unit in found["units"]
    ]
    return {"units": units, "blank_units": found["blank_units"]}


def change_checkpoint(request: dict[str, Any]) -> dict[str, Any]:
    """Read a checkpoint or begin one, change fields, and write it."""
    before = request["before"] or {"hex": "", "size": 0}
    size = max(before["size"], CHECKPOINT_SIZE)
    data = bytearray.fromhex(before["hex"])[: before["size"]].ljust(HEAD, b"\0")
    names = CHECKPOINT_FIELDS[: 6 if request["edition"] in WITH_SIXTH_FIELD else 5]
    for name, value in request["set"].items():
        if name in names:
            struct.pack_into(">q", data, 8 * names.index(name), value)
    fields = dict(zip(names, struct.unpack_from(">6q", data), strict=False))
    least = logs_oracle.min_timestamp(
        fields["physic_msg_timestamp"], fields["logics_msg_timestamp"]
    )
    fields["min_timestamp"] = least
    fields["min_timestamp_index"] = min(least, fields["index_msg_timestamp"])
    return {"fields": fields, "after": {"hex": data[:HEAD].hex(), "size": size}}


def make_offset_id(request: dict[str, Any]) -> dict[str, Any]:
    """Write an offset id."""
    address = bytes.fromhex(request["address"])
    return {"message_id": logs_oracle.offset_id(address, request["port"], request["phy_offset"])}


def decode_offset_id(request: dict[str, Any]) -> dict[str, Any]:
    """Read an offset id."""
    address, port, offset = logs_oracle.decode_offset_id(request["message_id"])
    if offset < 0 and request["class"] == "strict_reader":
        raise Rejected("message_id")
    return {"address": address.hex(), "port": port, "phy_offset": offset}


def decode_unique_key(request: dict[str, Any]) -> dict[str, Any]:
    """Read a unique key of either kind of client."""
    return logs_oracle.decode_unique_key(request["unique_key"], request.get("near"))


def rejecting(handler: Handler) -> Handler:
    """Return a handler that answers with a rejection where the oracle rejects."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        try:
            return handler(request)
        except Rejected as error:
            return {"reject": {"field": error.field, "byte": error.byte, "found": str(error)}}

    return answer


#: The operations of whole logs and queues.
ORACLE_STORE_OPERATIONS: dict[str, Handler] = {
    handler.__name__: rejecting(handler)
    for handler in (
        decode_commitlog,
        walk_commitlog,
        check_commitlog,
        scan_commitlog,
        recover_commitlog,
        change_consumequeue,
        build_consumequeue,
        write_commitlog,
        decode_property_bytes,
        inner_messages,
        decompress_body,
        decode_consumequeue,
        change_checkpoint,
        make_offset_id,
        decode_offset_id,
        decode_unique_key,
    )
}
