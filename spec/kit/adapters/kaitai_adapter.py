"""The parser that Kaitai makes of ``spec/indexfile.ksy`` behind the protocol of the kit.

``python kaitai_adapter.py FOLDER``: the folder holds what ``spec/kaitai/compile.js`` wrote. A
definition of bytes has no searches and no broken chains: it claims to decode sound files, no more.
"""

from __future__ import annotations

import io
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kaitaistruct import KaitaiStream, KaitaiStructError

sys.path[:0] = [str(Path(__file__).resolve().parent), sys.argv[1]]

import indexfile  # noqa: E402

from serve import serve  # noqa: E402

HEADER = (
    "begin_timestamp",
    "end_timestamp",
    "begin_phy_offset",
    "end_phy_offset",
    "hash_slot_count",
    "index_count",
)
ENTRY = (
    "position",
    "key_hash",
    "phy_offset",
    "time_diff",
    "prev_position",
    "slot",
    "store_timestamp",
)


def read(request: dict[str, Any]) -> dict[str, Any]:
    """Decode a file; without a geometry its header alone."""
    stream = KaitaiStream(io.BytesIO(bytes.fromhex(request["file"]["hex"])))
    slots, places = request["hash_slot_num"], request["index_num"]
    try:
        if slots is None:
            header = indexfile.Indexfile.Header(stream)
            if header.index_count > 1:
                return {"unsupported": "a definition cannot search for a geometry"}
            return {"header": fields(header, HEADER), "slots": [], "entries": []}
        file = indexfile.Indexfile(slots, places, stream)
    except (KaitaiStructError, EOFError) as error:
        return {"reject": {"file": request["file"]["name"], "found": str(error)}}
    entries = [fields(entry, ENTRY) for entry in file.entries]
    return {"header": fields(file.header, HEADER), "slots": file.slots, "entries": entries}


def fields(part: object, names: tuple[str, ...]) -> dict[str, Any]:
    """Return some fields of a parsed part."""
    return {name: getattr(part, name) for name in names}


def hello(_: dict[str, Any]) -> dict[str, Any]:
    """Say what this is."""
    return {
        "protocol": 1,
        "name": "Kaitai Struct",
        "version": version("kaitaistruct"),
        "classes": ["strict_reader"],
        "editions": ["4.0", "4.7.1", "5.0", "5.4", "5.5"],
        "operations": ["read"],
    }


if __name__ == "__main__":
    serve({"hello": hello, "read": read})
