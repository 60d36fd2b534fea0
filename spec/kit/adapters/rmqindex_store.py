"""The operations of the CommitLog, the ConsumeQueue, checkpoints and message ids, by rmqindex."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rmqindex
from rmqindex import CommitLog, ConsumeQueue, OffsetMessageId, RmqIndexError, StoreCheckpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RECORD = {
    "total_size": "size",
    "magic_code": "magic_code",
    "body_crc": "body_crc",
    "queue_id": "queue_id",
    "flag": "flag",
    "queue_offset": "queue_offset",
    "physical_offset": "phy_offset",
    "sys_flag": "sys_flag",
    "born_timestamp": "born_timestamp",
    "store_timestamp": "store_timestamp",
    "reconsume_times": "reconsume_times",
    "prepared_transaction_offset": "prepared_transaction_offset",
    "topic": "topic",
}
UNIT = ("queue_offset", "phy_offset", "size", "tags_code")
HEAD = 64


@contextmanager
def folder_of(name: str, files: list[dict[str, Any]]) -> Iterator[Path]:
    """Write files into a folder of this name."""
    with tempfile.TemporaryDirectory(prefix="kit-") as scratch:
        folder = Path(scratch) / name
        folder.mkdir(parents=True)
        for file in files:
            (folder / file["name"]).write_bytes(bytes.fromhex(file["hex"]))
        yield folder


def decode_commitlog(request: dict[str, Any]) -> dict[str, Any]:
    """Decode the records of a file."""
    if request["class"] == "broker_faithful_reader":
        return {"unsupported": "records as the broker's check takes them"}
    if not set(request["fields"]) <= {"position", "store_host", "body", "properties", *RECORD}:
        return {"unsupported": "a public name for these fields"}
    start = int(request["file"]["name"])
    records = []
    with folder_of("commitlog", [request["file"]]) as folder, CommitLog(folder) as log:
        mode = "DROPMALFORMED" if request["class"] == "lenient_reader" else "FAILFAST"
        for batch in log.scan(decompress_body=False, mode=mode):
            for row in batch.to_pylist():
                store_host = rmqindex.decode_offset_msg_id(row["msg_id"])
                assert store_host is not None
                records.append(
                    {
                        "position": row["phy_offset"] - start,
                        **{name: row[column] for name, column in RECORD.items()},
                        "store_host": f"{store_host.address.hex()}:{store_host.port}",
                        "body": row["body"].hex(),
                        "properties": dict(row["properties"]),
                    }
                )
    return {"records": records}


def scan_commitlog(request: dict[str, Any]) -> dict[str, Any]:
    """Read a whole log, and tell where it ends."""
    with folder_of("commitlog", request["files"]) as folder, CommitLog(folder) as log:
        for _ in log.scan(columns=["phy_offset"]):
            pass
        return {"max_offset": log.max_offset}


def decode_property_bytes(request: dict[str, Any]) -> dict[str, Any]:
    """Decode the properties of a message."""
    return {"properties": rmqindex.parse_properties(bytes.fromhex(request["hex"]))}


def inner_messages(request: dict[str, Any]) -> dict[str, Any]:
    """Take the messages out of the body of a batch."""
    if request["class"] != "strict_reader":
        return {"unsupported": "batches as the broker takes them"}
    found = rmqindex.inner_messages(bytes.fromhex(request["hex"]), request["sys_flag"])
    messages = [
        {"flag": each.flag, "body": each.body.hex(), "properties": dict(each.properties)}
        for each in found
    ]
    return {"messages": messages}


def decompress_body(request: dict[str, Any]) -> dict[str, Any]:
    """Decompress a body as its flags say."""
    body = rmqindex.decompress_body(bytes.fromhex(request["hex"]), request["sys_flag"])
    return {"hex": body.hex()}


def decode_consumequeue(request: dict[str, Any]) -> dict[str, Any]:
    """Decode the units of a queue."""
    if not set(request["fields"]) <= {*UNIT, "topic", "queue_id"}:
        return {"unsupported": "a public name for these fields"}
    kind = "batchconsumequeue" if request["is_batch"] else "consumequeue"
    with folder_of(f"{kind}/{request['folder']}", request["files"]) as folder:
        queues = ConsumeQueue.find(folder)
        rows = [
            {**row, "topic": queue.topic, "queue_id": queue.queue_id}
            for queue in queues
            for batch in queue.scan()
            for row in batch.to_pylist()
        ]
        every = sum(len(batch) for queue in queues for batch in queue.scan(blanks=True))
    units = [{name: row[name] for name in request["fields"]} for row in rows]
    return {"units": units, "blank_units": every - len(rows)}


def build_consumequeue(request: dict[str, Any]) -> dict[str, Any]:
    """Build the queues of a log, and give the units of one."""
    with folder_of("commitlog", [request["file"]]) as folder:
        store = folder.parent
        rmqindex.rebuild_consume_queues(
            store,
            store / "built",
            batch_topics=request["batch_topics"],
            multi_dispatch=request["light_queues"],
            # A unit that a message's numbers do not give is left out, as a broker leaves it out.
            mode="DROPMALFORMED",
            allow_loss=True,
        )
        if not (store / "built").exists():
            return {"units": []}
        of_batches = store / "built" / "batchconsumequeue" / request["topic"]
        if request["topic"] not in request["batch_topics"] and of_batches.exists():
            return {
                "unsupported": "a topic with an inner batch whose queues are of single messages"
            }
        found = [
            [row[name] for name in UNIT]
            for queue in ConsumeQueue.find(store / "built")
            if (queue.topic, queue.queue_id) == (request["topic"], request["queue_id"])
            for batch in queue.scan()
            for row in batch.to_pylist()
        ]
    return {"units": found}


def change_checkpoint(request: dict[str, Any]) -> dict[str, Any]:
    """Read a checkpoint or begin one, change fields, and write it."""
    before = request["before"]
    with folder_of("store", []) as folder:
        path = folder / "checkpoint"
        checkpoint = StoreCheckpoint()
        if before is not None:
            data = bytes.fromhex(before["hex"])
            filler = b"\0" * min(before["size"], 4096) + b"x" * max(before["size"] - 4096, 0)
            path.write_bytes(data + filler[len(data) : before["size"]])
            checkpoint = StoreCheckpoint.load(path)
        values = {name: getattr(checkpoint, name) for name in StoreCheckpoint.__slots__}
        # A field of another edition is ignored.
        values |= {name: value for name, value in request["set"].items() if name in values}
        changed = StoreCheckpoint(**values)
        changed.save(path)
        after = path.read_bytes()
    least = ("min_timestamp", "min_timestamp_index")
    fields = {name: getattr(changed, name) for name in (*values, *least)}
    return {"fields": fields, "after": {"hex": after[:HEAD].hex(), "size": len(after)}}


def make_offset_id(request: dict[str, Any]) -> dict[str, Any]:
    """Write an offset id."""
    address = bytes.fromhex(request["address"])
    return {"message_id": str(OffsetMessageId(address, request["port"], request["phy_offset"]))}


def decode_offset_id(request: dict[str, Any]) -> dict[str, Any]:
    """Read an offset id."""
    found = rmqindex.decode_offset_msg_id(request["message_id"])
    if found is None:
        return {"reject": {"found": request["message_id"]}}
    return {"address": found.address.hex(), "port": found.port, "phy_offset": found.phy_offset}


def decode_unique_key(request: dict[str, Any]) -> dict[str, Any]:
    """Read a unique key of either kind of client."""
    found = rmqindex.decode_uniq_key(request["unique_key"], near=request.get("near"))
    if found is None:
        return {"reject": {"found": request["unique_key"]}}
    names = ("pid", "class_loader_hash", "month_milliseconds", "counter", "version", "sequence")
    parts = {name: getattr(found, name) for name in names if hasattr(found, name)}
    if isinstance(found, rmqindex.RemotingMessageId):
        parts["timestamp"] = found.timestamp
    parts |= {
        name: getattr(found, name).hex() for name in ("address", "mac") if hasattr(found, name)
    }
    return parts


def rejecting(
    handler: Callable[[dict[str, Any]], dict[str, Any]],
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a handler that answers with a rejection where rmqindex raises its own error."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        try:
            return handler(request)
        except RmqIndexError as error:
            # What is no file names its field at the start of its text.
            field = getattr(error, "field", str(error).partition(":")[0])
            told = {"field": field, "byte": getattr(error, "byte", None)}
            return {"reject": {**told, "found": str(error)}}

    return answer


STORE_OPERATIONS = {
    handler.__name__: rejecting(handler)
    for handler in (
        decode_commitlog,
        scan_commitlog,
        decode_property_bytes,
        inner_messages,
        decompress_body,
        decode_consumequeue,
        build_consumequeue,
        change_checkpoint,
        make_offset_id,
        decode_offset_id,
        decode_unique_key,
    )
}
