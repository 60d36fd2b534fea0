"""The steps of the specification as a program: ``spec/tools/oracle.py`` behind the protocol.

It is no implementation to use. It shows what an adapter does, and its faults are what the
mutations of ``spec/tools/mutants.py`` are made from.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "tools"), str(Path(__file__).parent)]

import logs_oracle  # noqa: E402
import oracle  # noqa: E402
from oracle_store import ORACLE_STORE_OPERATIONS  # noqa: E402
from serve import serve  # noqa: E402

CLASSES = [
    "strict_writer",
    "mending_writer",
    "strict_reader",
    "lenient_reader",
    "broker_faithful_reader",
    "broker_faithful_loader",
]
CHECKPOINT, CHECKPOINT_SIZE = struct.Struct(">5q"), 4096
CHECKPOINT_FIELDS = (
    "physic_msg_timestamp",
    "logics_msg_timestamp",
    "index_msg_timestamp",
    "master_flushed_offset",
    "confirm_phy_offset",
)
MAX_FILE_SIZE = 2**31 - 1
EDITIONS = ["4.0", "4.7.1", "5.0", "5.4", "5.5"]
FLUSHED_WHEN_CLOSED = EDITIONS[2:]
WITH_TAGS = EDITIONS[3:]


def file_size(slots: int, places: int) -> int:
    """Return the size of a file of a geometry."""
    return 40 + 4 * slots + 20 * places


def check_geometry(slots: int, places: int) -> None:
    """Reject a geometry that no file has, IDX-LIM-1 and IDX-LIM-5."""
    if slots < 1 or places < 1 or file_size(slots, places) > MAX_FILE_SIZE:
        named = {"hash_slot_num": slots, "index_num": places}
        raise oracle.Rejected(next((name for name in named if named[name] < 1), "file_size"))


def reject(error: oracle.Rejected, name: str) -> dict[str, Any]:
    """Return a rejection that names what IDX-CON-2 asks for."""
    said = {"expected": "what the specification says", "found": str(error)}
    return {"reject": {"file": name, "field": error.field, "byte": error.byte, **said}}


def opened(request: dict[str, Any]) -> tuple[oracle.File, int]:
    """Return a request's file, zeros beyond its end, and the size that it has."""
    data = bytes.fromhex(request["file"]["hex"])
    slots, places = request["hash_slot_num"], request["index_num"]
    check_geometry(slots, places)
    return oracle.File(slots, places, bytearray(data.ljust(file_size(slots, places), b"\0"))), len(
        data
    )


def hash_(request: dict[str, Any]) -> dict[str, Any]:
    """Hash a text."""
    return {"key_hash": oracle.key_hash(request["key"])}


def decode_text(request: dict[str, Any]) -> dict[str, Any]:
    """Decode bytes, and hash the text."""
    text = oracle.decode_utf8(bytes.fromhex(request["hex"]))
    return {"text": text, "key_hash": oracle.key_hash(text)}


def mend(file: oracle.File) -> None:
    """Point slots that name what is not committed at the newest committed entry, IDX-PUT-9."""
    hashes = {position: file.entry(position)[0] for position in range(1, file.index_count)}
    newest = {each % file.hash_slot_num: p for p, each in hashes.items() if each >= 0}
    for slot in range(file.hash_slot_num):
        if not 0 <= file.slot(slot) < file.index_count:
            oracle.SLOT.pack_into(file.data, file.slot_at(slot), newest.get(slot, 0))


def put(request: dict[str, Any]) -> dict[str, Any]:
    """Put into a new file, or go on with one."""
    slots, places = request["hash_slot_num"], request["index_num"]
    check_geometry(slots, places)
    if "resume_hex" in request:
        file = oracle.File.resume(slots, places, bytearray.fromhex(request["resume_hex"]))
        if request["class"] == "mending_writer" and not file.is_full():
            mend(file)
    else:
        seed = request["prev_end_phy_offset"], request["prev_end_timestamp"]
        file = oracle.File.create(slots, places, *seed)
    results = []
    for each in request["puts"]:
        if "reopen" in each:
            file.flush()
            file = oracle.File(slots, places, bytearray(file.data))
        else:
            asked = (each[name] for name in ("key", "phy_offset", "store_timestamp"))
            results.append(file.put(*asked, counts_puts=request["edition"] == "4.0"))
    file.flush()
    data = file.data
    return {"results": results, "hex": data.hex()}


def create(request: dict[str, Any]) -> dict[str, Any]:
    """Create a file, and close it; before edition 5.0 closing changed nothing."""
    seed = request["prev_end_phy_offset"], request["prev_end_timestamp"]
    check_geometry(request["hash_slot_num"], request["index_num"])
    file = oracle.File.create(request["hash_slot_num"], request["index_num"], *seed)
    created = file.data.hex()
    if request["edition"] in FLUSHED_WHEN_CLOSED:
        file.flush()
    return {"created": created, "closed": file.data.hex()}


def read(request: dict[str, Any]) -> dict[str, Any]:
    """Decode a file."""
    data = bytes.fromhex(request["file"]["hex"])
    if request["hash_slot_num"] is None:
        header = dict(zip(oracle.HEADER_FIELDS, oracle.HEADER.unpack_from(data), strict=True))
        if header["index_count"] > 1:
            raise oracle.Rejected("hash_slot_num")
        return {"header": header, "slots": [], "entries": []}
    file, size = opened(request)
    strict = request["class"] == "strict_reader"
    if strict:
        file.open_strictly(size)
    if size < oracle.HEADER.size:
        return {"header": dict.fromkeys(oracle.HEADER_FIELDS, 0), "slots": [], "entries": []}
    positions = file.scan(strict=strict, size=size)
    names = ("key_hash", "phy_offset", "time_diff", "prev_position")
    entries = [
        {
            "position": position,
            **dict(zip(names, file.entry(position), strict=True)),
            "slot": file.entry(position)[0] % file.hash_slot_num,
            "store_timestamp": file.time(position),
        }
        for position in positions
    ]
    slots = [file.slot(slot) for slot in range(file.hash_slot_num)]
    return {"header": file.header, "slots": slots, "entries": entries}


def scan(request: dict[str, Any]) -> dict[str, Any]:
    """Return the positions of the entries."""
    file, size = opened(request)
    strict = request["class"] == "strict_reader"
    if strict:
        file.open_strictly(size)
    return {"positions": file.scan(strict=strict, size=size) if size >= 40 else []}


def lookup(request: dict[str, Any]) -> dict[str, Any]:
    """Find the entries of a hash."""
    file, size = opened(request)
    hashed = request["key_hash"]
    if hashed < 0:
        raise oracle.Rejected("key_hash")
    if request["class"] == "strict_reader":
        file.open_strictly(size)
        return {"positions": file.lookup_strictly(hashed)}
    return {"positions": file.lookup_leniently(hashed, size)}


def mapped(request: dict[str, Any]) -> oracle.File:
    """Return a request's file as a broker maps it: of the geometry's size, and no more."""
    file, _ = opened(request)
    del file.data[file_size(file.hash_slot_num, file.index_num) :]
    return file


def select(request: dict[str, Any]) -> dict[str, Any]:
    """Walk as the broker does."""
    found: list[int] = []
    asked = (request[name] for name in ("key", "max_num", "begin", "end"))
    mapped(request).select(found, *asked)
    return {"phy_offsets": found}


def time_match(request: dict[str, Any]) -> dict[str, Any]:
    """Match times as the broker does."""
    return {"matched": mapped(request).is_time_matched(request["begin"], request["end"])}


def geometry(request: dict[str, Any]) -> dict[str, Any]:
    """Find the geometry, where only one agrees; null where there are no entries."""
    found = oracle.discover_geometry(bytes.fromhex(request["file"]["hex"])) or (None, None)
    return {"hash_slot_num": found[0], "index_num": found[1]}


def listed(request: dict[str, Any]) -> dict[str, bytes | None]:
    """Return what is in a request's directory; directories are None."""
    return {
        each["name"]: None if each["type"] == "directory" else bytes.fromhex(each["hex"])
        for each in request["directory"] or ()
    }


def loaded(request: dict[str, Any]) -> tuple[bool, list[str], oracle.Directory, dict[str, Any]]:
    """Load a directory: the result, the names, the files, and the sizes that are left."""
    slots, places = request["hash_slot_num"], request["index_num"]
    check_geometry(slots, places)
    time = request["index_msg_timestamp"]
    directory = oracle.Directory(slots, places, index_msg_timestamp=time)
    contents = listed(request)
    result, names, left = directory.load(contents, last_exit_ok=request["last_exit_ok"])
    sizes = {name: None if data is None else len(data) for name, data in contents.items()}
    if request["writable"]:
        size = file_size(slots, places)
        sizes = {name: sizes[name] for name in left}
        sizes |= {name: max(sizes[name] or 0, size) for name in names}
    return result, names, directory, sizes


def load(request: dict[str, Any]) -> dict[str, Any]:
    """Load a directory."""
    result, names, _, sizes = loaded(request)
    return {"load_result": result, "loaded": names, "directory": sizes}


def query(request: dict[str, Any]) -> dict[str, Any]:
    """Load a directory and search it."""
    _, _, directory, _ = loaded(request)
    asked = [request[name] for name in ("topic", "key", "max_num", "begin", "end")]
    offsets, time, offset = directory.query(*asked, request.get("index_type"))
    return {
        "phy_offsets": offsets,
        "index_last_update_timestamp": time,
        "index_last_update_phyoffset": offset,
    }


def total_size(request: dict[str, Any]) -> dict[str, Any]:
    """Load a directory and report the size of the index."""
    _, names, _, _ = loaded(request)
    return {"total_size": len(names) * file_size(request["hash_slot_num"], request["index_num"])}


def lookup_directory(request: dict[str, Any]) -> dict[str, Any]:
    """Find the entries of a hash in every file of a directory, the newest file first."""
    found = []
    contents = listed(request)
    is_strict = request["class"] == "strict_reader"
    for name in sorted(filter(oracle.is_index_name, contents), key=oracle.code_units):
        data = contents[name]
        if data is None:
            if is_strict:
                return {"reject": {"file": name, "expected": "a file", "found": "a directory"}}
            continue
        answer = lookup({**request, "file": {"name": name, "hex": data.hex()}})
        found.insert(0, {"file": name, "positions": answer["positions"]})
    return {"found": [each for each in found if each["positions"]]}


def expire(request: dict[str, Any]) -> dict[str, Any]:
    """Load a directory and delete what is expired."""
    _, names, directory, sizes = loaded(request)
    directory.delete_expired(request["min_phy_offset"])
    kept = names[len(names) - len(directory.files) :]
    for name in set(names) - set(kept):
        if request["writable"]:
            del sizes[name]
    return {"loaded": kept, "directory": sizes}


def build(request: dict[str, Any]) -> dict[str, Any]:
    """Build a file set from messages."""
    shape = request["hash_slot_num"], request["index_num"]
    check_geometry(*shape)
    directory = oracle.Directory(*shape, counts_puts=request["edition"] == "4.0")
    for message in request["messages"]:
        tags = message.get("tags") if request["edition"] in WITH_TAGS else None
        names = ("topic", "unique_key", "keys", "sys_flag", "phy_offset", "store_timestamp")
        try:
            directory.build(*(message[name] for name in names), tags)
        except ValueError:
            return {"reject": {"field": "index_num"}}
    for file in directory.files:
        file.flush()
    return {
        "names": [f"{20260101000000000 + number}" for number in range(len(directory.files))],
        "hex": [file.data.hex() for file in directory.files],
        "index_msg_timestamp": directory.index_msg_timestamp,
    }


def names(request: dict[str, Any]) -> dict[str, Any]:
    """Tell the name of an IndexFile."""
    return {"accepted": oracle.is_index_name(request["name"])}


def message_keys(request: dict[str, Any]) -> dict[str, Any]:
    """Return the index keys of a message."""
    fields = ("topic", "unique_key", "keys", "sys_flag", "tags")
    return {"index_keys": oracle.message_keys(*(request["message"].get(name) for name in fields))}


def decode_properties(request: dict[str, Any]) -> dict[str, Any]:
    """Decode the properties of a message."""
    return {"properties": oracle.message_properties(request["text"])}


def read_checkpoint(request: dict[str, Any]) -> dict[str, Any]:
    """Decode a checkpoint."""
    values = CHECKPOINT.unpack_from(bytes.fromhex(request["hex"]).ljust(CHECKPOINT.size, b"\0"))
    fields = dict(zip(CHECKPOINT_FIELDS, values, strict=True))
    least = logs_oracle.min_timestamp(
        fields["physic_msg_timestamp"], fields["logics_msg_timestamp"]
    )
    return {
        "fields": fields,
        "min_timestamp": least,
        "min_timestamp_index": min(least, fields["index_msg_timestamp"]),
    }


def write_checkpoint(request: dict[str, Any]) -> dict[str, Any]:
    """Replace the fields of a checkpoint."""
    data = bytearray.fromhex(request["hex"]).ljust(CHECKPOINT_SIZE, b"\0")
    CHECKPOINT.pack_into(data, 0, *(request["fields"][name] for name in CHECKPOINT_FIELDS))
    return {"hex": data.hex()}


def hello(_: dict[str, Any]) -> dict[str, Any]:
    """Say what this is."""
    return {
        "protocol": 1,
        "name": "the specification's oracle",
        "version": "1",
        "classes": CLASSES,
        "editions": EDITIONS,
        "operations": [name for name in OPERATIONS if name != "hello"],
    }


Handler = Callable[[dict[str, Any]], dict[str, Any]]


def rejecting(handler: Handler) -> Handler:
    """Return a handler that answers with a rejection where the oracle rejects."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        try:
            return handler(request)
        except oracle.Rejected as error:
            return reject(error, request.get("file", {}).get("name", ""))

    return answer


OPERATIONS: dict[str, Handler] = {
    "hello": hello,
    "hash": hash_,
    "decode_text": decode_text,
    "create": create,
    "put": put,
    "read": read,
    "scan": scan,
    "lookup": lookup,
    "select": select,
    "time_match": time_match,
    "geometry": geometry,
    "load": load,
    "total_size": total_size,
    "lookup_directory": lookup_directory,
    "query": query,
    "expire": expire,
    "build": build,
    "build_names": build,
    "names": names,
    "message_keys": message_keys,
    "decode_properties": decode_properties,
    "read_checkpoint": read_checkpoint,
    "write_checkpoint": write_checkpoint,
    **ORACLE_STORE_OPERATIONS,
}
OPERATIONS = {name: rejecting(handler) for name, handler in OPERATIONS.items()}

if __name__ == "__main__":
    serve(OPERATIONS)
