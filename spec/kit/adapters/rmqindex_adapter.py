"""rmqindex behind the protocol of the conformance kit, by its public names alone."""

from __future__ import annotations

import sys
import tempfile
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import rmqindex
from rmqindex import (
    CorruptIndexError,
    IndexDirectory,
    IndexFile,
    IndexFileWriter,
    IndexHeader,
    Layout,
    RmqIndexError,
    StoreCheckpoint,
)
from rmqindex.store import is_index_name, list_index_files
from rmqindex_store import STORE_OPERATIONS
from serve import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqindex.indexfile import Mode

CLASSES = [
    "strict_writer",
    "mending_writer",
    "strict_reader",
    "lenient_reader",
    "broker_faithful_reader",
    "broker_faithful_loader",
]
EDITIONS = ["5.0", "5.4"]
COLUMNS = (
    "position",
    "key_hash",
    "phy_offset",
    "time_diff",
    "prev_position",
    "slot",
    "store_timestamp",
)
HEADER = (
    "begin_timestamp",
    "end_timestamp",
    "begin_phy_offset",
    "end_phy_offset",
    "hash_slot_count",
    "index_count",
)
CHECKPOINT = (
    "physic_msg_timestamp",
    "logics_msg_timestamp",
    "index_msg_timestamp",
    "master_flushed_offset",
    "confirm_phy_offset",
)
# What the text of a ValueError begins with, and what the specification calls it.
ARGUMENTS = {
    "hash_slot_num": "hash_slot_num",
    "index_num": "index_num",
    "file size": "file_size",
    "hashes": "key_hash",
}
HEADER_SIZE = 40
FILE_NAME = "20260101000000000"


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder for one request."""
    with tempfile.TemporaryDirectory(prefix="kit-") as folder:
        yield Path(folder)


def rejection(error: RmqIndexError | ValueError) -> dict[str, Any]:
    """Return a rejection with all that the error says; arguments are refused as ValueError."""
    if not isinstance(error, CorruptIndexError):
        named = ARGUMENTS.get(str(error).partition(":")[0])
        return {"reject": {"field": named, "found": str(error)}}
    return {
        "reject": {
            "file": Path(error.path).name,
            "field": error.field,
            "byte": error.byte,
            "expected": str(error.expected),
            "found": str(error.got),
        }
    }


def layout_of(request: dict[str, Any]) -> Layout:
    """Return the geometry of a request."""
    return Layout(request["hash_slot_num"], request["index_num"])


def stored(request: dict[str, Any], folder: Path) -> Path:
    """Write a request's file."""
    path = folder / request["file"]["name"]
    path.write_bytes(bytes.fromhex(request["file"]["hex"]))
    return path


def reading(
    request: dict[str, Any], answer: Callable[[IndexFile], dict[str, Any]]
) -> dict[str, Any]:
    """Open a request's file as its class does, and answer from it or reject it."""
    options: dict[str, Any] = {
        "strict_reader": {},
        "lenient_reader": {"mode": "DROPMALFORMED"},
        "broker_faithful_reader": {"mode": "DROPMALFORMED", "zero_extend": True},
    }[request["class"]]
    with scratch() as folder:
        try:
            layout = None if request.get("hash_slot_num") is None else layout_of(request)
            with IndexFile(stored(request, folder), layout, **options) as file:
                return answer(file)
        except (RmqIndexError, ValueError) as error:
            return rejection(error)


def hash_(request: dict[str, Any]) -> dict[str, Any]:
    """Hash a text."""
    return {"key_hash": rmqindex.key_hash(request["key"])}


def decode_text(request: dict[str, Any]) -> dict[str, Any]:
    """Decode bytes as the value of a property is, and hash the text."""
    name = "KEYS"
    data = bytes.fromhex(request["hex"])
    text = rmqindex.parse_properties(name.encode() + b"\1" + data + b"\2").get(name, "")
    return {"text": text, "key_hash": rmqindex.key_hash(text)}


def create(request: dict[str, Any]) -> dict[str, Any]:
    """Create a file, and close it."""
    seed = request["prev_end_phy_offset"], request["prev_end_timestamp"]
    with scratch() as folder:
        path = folder / FILE_NAME
        with IndexFileWriter(path, layout_of(request), *seed):
            created = path.read_bytes().hex()
        return {"created": created, "closed": path.read_bytes().hex()}


def put(request: dict[str, Any]) -> dict[str, Any]:
    """Put into a new file, or go on with one as a broker does."""
    layout = layout_of(request)
    results = []
    with scratch() as folder:
        path = folder / FILE_NAME
        if "resume_hex" in request:
            path.write_bytes(bytes.fromhex(request["resume_hex"]))
        if "resume_hex" in request and request["class"] == "strict_writer":
            if IndexHeader.from_bytes(path.read_bytes()).index_count >= layout.index_num:
                return {"unsupported": "a full file, behind which IndexDirectory begins another"}
            # The broker keeps a broken slot; IndexFileWriter repairs it first.
            with IndexDirectory(folder, layout, writable=True) as index:
                for each in request["puts"]:
                    topic, _, key = each["key"].partition("#")
                    offset, time = each["phy_offset"], each["store_timestamp"]
                    index.build_index(topic, None, key, 0, offset, time)
                    results.append(True)
            return {"results": results, "hex": path.read_bytes().hex()}
        seed = request.get("prev_end_phy_offset", 0), request.get("prev_end_timestamp", 0)
        file = IndexFileWriter(path, layout, *seed)
        for each in request["puts"]:
            if "reopen" in each:
                file.close()
                file = IndexFileWriter(path, layout)
            else:
                results.append(file.put(each["key"], each["phy_offset"], each["store_timestamp"]))
        file.close()
        return {"results": results, "hex": path.read_bytes().hex()}


def read(request: dict[str, Any]) -> dict[str, Any]:
    """Decode a file."""

    def answer(file: IndexFile) -> dict[str, Any]:
        rows = [row for batch in file.scan() for row in batch.to_pylist()]
        data = bytes.fromhex(request["file"]["hex"])
        slots = request["hash_slot_num"] or 0
        ends = range(HEADER_SIZE, min(HEADER_SIZE + 4 * slots, len(data) - 3), 4)
        return {
            "header": {name: getattr(file.header, name) for name in HEADER},
            # No public name gives the slots; they are read as they stand.
            "slots": [int.from_bytes(data[at : at + 4], "big", signed=True) for at in ends],
            "entries": [{name: row[name] for name in COLUMNS} for row in rows],
        }

    return reading(request, answer)


def scan(request: dict[str, Any]) -> dict[str, Any]:
    """Return the positions of the entries."""

    def answer(file: IndexFile) -> dict[str, Any]:
        found = [p for batch in file.scan() for p in batch["position"].to_pylist()]
        return {"positions": found}

    return reading(request, answer)


def lookup(request: dict[str, Any]) -> dict[str, Any]:
    """Find the entries of a hash."""

    def answer(file: IndexFile) -> dict[str, Any]:
        return {"positions": file.lookup([request["key_hash"]])["position"].to_pylist()}

    return reading(request, answer)


def select(request: dict[str, Any]) -> dict[str, Any]:
    """Walk as the broker does."""
    asked = [request[name] for name in ("key", "max_num", "begin", "end")]
    return reading(request, lambda file: {"phy_offsets": file.select_phy_offset(*asked)})


def time_match(request: dict[str, Any]) -> dict[str, Any]:
    """Match times as the broker does."""
    asked = request["begin"], request["end"]
    return reading(request, lambda file: {"matched": file.is_time_matched(*asked)})


def geometry(request: dict[str, Any]) -> dict[str, Any]:
    """Find the geometry; a file without entries is rejected, as it may be."""
    with scratch() as folder:
        try:
            found = Layout.infer(stored(request, folder))
        except RmqIndexError as error:
            return rejection(error)
    return {"hash_slot_num": found.hash_slot_num, "index_num": found.index_num}


def fill(root: Path, directory: list[dict[str, Any]]) -> None:
    """Make a directory of a request."""
    root.mkdir()
    for item in directory:
        if item["type"] == "directory":
            (root / item["name"]).mkdir()
        else:
            (root / item["name"]).write_bytes(bytes.fromhex(item["hex"]))


@contextmanager
def opened(request: dict[str, Any]) -> Iterator[tuple[IndexDirectory, Path]]:
    """Open a request's directory."""
    with scratch() as folder:
        root = folder / "index"
        if request["directory"] is not None:
            fill(root, request["directory"])
        with IndexDirectory(
            root,
            layout_of(request),
            writable=request["writable"],
            last_exit_ok=request["last_exit_ok"],
            index_msg_timestamp=request["index_msg_timestamp"],
        ) as index:
            yield index, root


def state(index: IndexDirectory, root: Path) -> dict[str, Any]:
    """Return what is loaded, and what is on the disk."""
    sizes = {each.name: None if each.is_dir() else each.stat().st_size for each in root.iterdir()}
    return {"loaded": [file.name for file in index.files], "directory": sizes}


def load(request: dict[str, Any]) -> dict[str, Any]:
    """Load a directory."""
    with opened(request) as (index, root):
        return {"load_result": index.load_result, **state(index, root)}


def query(request: dict[str, Any]) -> dict[str, Any]:
    """Load a directory and search it."""
    asked = [request[name] for name in ("topic", "key", "max_num", "begin", "end")]
    with opened(request) as (index, _):
        try:
            found = index.query_offset(*asked, request.get("index_type"))
        except (CorruptIndexError, ValueError) as error:
            return rejection(error)
    return {
        "phy_offsets": list(found.phy_offsets),
        "index_last_update_timestamp": found.index_last_update_timestamp,
        "index_last_update_phyoffset": found.index_last_update_phy_offset,
    }


def total_size(request: dict[str, Any]) -> dict[str, Any]:
    """Load a directory and report the size of the index."""
    with opened(request) as (index, _):
        return {"total_size": index.total_size}


def lookup_directory(request: dict[str, Any]) -> dict[str, Any]:
    """Find the entries of a hash in every file of a directory, the newest file first."""
    mode: Mode = "FAILFAST" if request["class"] == "strict_reader" else "DROPMALFORMED"
    found = []
    with scratch() as folder:
        root = folder / "index"
        fill(root, request["directory"])
        try:
            for entry in reversed(list_index_files(root, mode)):
                with IndexFile(entry.path, layout_of(request), mode=mode) as file:
                    positions = file.lookup([request["key_hash"]])["position"].to_pylist()
                    if positions:
                        found.append({"file": file.name, "positions": positions})
        except RmqIndexError as error:
            return rejection(error)
    return {"found": found}


def expire(request: dict[str, Any]) -> dict[str, Any]:
    """Load a directory and delete what is expired."""
    with opened(request) as (index, root):
        index.delete_expired(request["min_phy_offset"])
        return state(index, root)


def build(request: dict[str, Any]) -> dict[str, Any]:
    """Build a file set from messages."""
    names = ("topic", "unique_key", "keys", "sys_flag", "phy_offset", "store_timestamp")
    with scratch() as folder:
        root = folder / "index"
        with IndexDirectory(root, layout_of(request), writable=True) as index:
            for message in request["messages"]:
                tags = message.get("tags") if request["edition"] in ("5.4", "5.5") else None
                try:
                    index.build_index(*(message[name] for name in names), tags)
                except ValueError as error:
                    return rejection(error)
            index.flush()
            time = index.index_msg_timestamp
        files = sorted(root.iterdir())
        return {
            "names": [file.name for file in files],
            "hex": [file.read_bytes().hex() for file in files],
            "index_msg_timestamp": time,
        }


def names(request: dict[str, Any]) -> dict[str, Any]:
    """Tell the name of an IndexFile."""
    return {"accepted": is_index_name(request["name"])}


def message_keys(request: dict[str, Any]) -> dict[str, Any]:
    """Return the index keys of a message."""
    fields = [request["message"][name] for name in ("topic", "unique_key", "keys", "sys_flag")]
    return {"index_keys": rmqindex.message_keys(*fields)}


def decode_properties(request: dict[str, Any]) -> dict[str, Any]:
    """Decode the properties of a message."""
    text = request["text"].encode("utf-8", "surrogatepass")
    return {"properties": rmqindex.parse_properties(text)}


def read_checkpoint(request: dict[str, Any]) -> dict[str, Any]:
    """Decode a checkpoint."""
    with scratch() as folder:
        path = folder / "checkpoint"
        path.write_bytes(bytes.fromhex(request["hex"]))
        found = StoreCheckpoint.load(path)
    return {
        "fields": {name: getattr(found, name) for name in CHECKPOINT},
        "min_timestamp": found.min_timestamp,
        "min_timestamp_index": found.min_timestamp_index,
    }


def write_checkpoint(request: dict[str, Any]) -> dict[str, Any]:
    """Replace the fields of a checkpoint."""
    with scratch() as folder:
        path = folder / "checkpoint"
        path.write_bytes(bytes.fromhex(request["hex"]))
        StoreCheckpoint(**request["fields"]).save(path)
        return {"hex": path.read_bytes().hex()}


def with_geometry(handler: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:  # noqa: ANN401
    """Return a handler that answers with a rejection where the geometry is none."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        try:
            layout_of(request)
        except ValueError as error:
            return rejection(error)
        return handler(request)

    return answer


def hello(_: dict[str, Any]) -> dict[str, Any]:
    """Say what this is."""
    return {
        "protocol": 1,
        "name": "rmqindex",
        "version": version("rmqindex"),
        "classes": CLASSES,
        "editions": EDITIONS,
        "operations": [name for name in OPERATIONS if name != "hello"],
    }


OPERATIONS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "hello": hello,
    "hash": hash_,
    "decode_text": decode_text,
    "create": with_geometry(create),
    "put": with_geometry(put),
    "read": read,
    "scan": scan,
    "lookup": lookup,
    "select": select,
    "time_match": time_match,
    "geometry": geometry,
    "load": with_geometry(load),
    "total_size": with_geometry(total_size),
    "lookup_directory": lookup_directory,
    "query": with_geometry(query),
    "expire": with_geometry(expire),
    "build": with_geometry(build),
    "build_names": with_geometry(build),
    "names": names,
    "message_keys": message_keys,
    "decode_properties": decode_properties,
    "read_checkpoint": read_checkpoint,
    "write_checkpoint": write_checkpoint,
    **STORE_OPERATIONS,
}

if __name__ == "__main__":
    serve(OPERATIONS)
