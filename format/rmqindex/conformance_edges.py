"""Run the vectors of editions, malformed texts and geometries (spec: vectors).

Each kind of vector has a function here, which ``rmqindex.conformance`` calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from rmqindex.errors import RmqIndexError
from rmqindex.indexfile.geometry import Layout
from rmqindex.indexfile.reader import IndexFile
from rmqindex.keys.hashing import key_hash
from rmqindex.query.index_directory import IndexDirectory
from rmqindex.record.text import java_text

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["EDGE_KINDS"]

_READER = "strict reader"
_BROKER = "broker-faithful reader"
_WRITER = "strict writer"
# The editions whose files IndexDirectory writes, and whether they index tags.
_WRITTEN = {"4.7.1": False, "5.4": True}


class _Vector(Protocol):
    def __getitem__(self, name: str) -> Any: ...  # noqa: ANN401  (JSON)


class _Report(Protocol):
    def check(self, conformance_class: str, what: str, expected: object, got: object) -> None: ...


def _run_editions(vector: _Vector, report: _Report, scratch: Path) -> None:
    """Read the files of every edition, and write those of two."""
    layout = Layout(vector["hash_slot_num"], vector["index_num"])
    path = scratch / "20260101000000000"
    for edition in vector["editions"]:
        name = edition["edition"]
        for number, data in enumerate(edition["files"]):
            path.write_bytes(bytes.fromhex(data))
            with IndexFile(path, layout) as file:
                rows = sum(len(batch) for batch in file.scan())
                what = f"entries of file {number}, edition {name}"
                report.check(_READER, what, file.header.index_count - 1, rows)
        if name in _WRITTEN:
            _write_edition(vector, edition, report, scratch / name)


def _write_edition(
    vector: _Vector, edition: dict[str, Any], report: _Report, directory: Path
) -> None:
    name = edition["edition"]
    layout = Layout(vector["hash_slot_num"], vector["index_num"])
    with IndexDirectory(directory, layout, writable=True) as index:
        for message in vector["messages"]:
            index.build_index(
                message["topic"],
                message["unique_key"],
                message["keys"],
                message["sys_flag"],
                message["phy_offset"],
                message["store_timestamp"],
                message["tags"] if _WRITTEN[name] else None,
            )
    files = [path.read_bytes().hex() for path in sorted(directory.iterdir())]
    report.check(_WRITER, f"files of edition {name}", edition["files"], files)
    checkpoint = edition["index_msg_timestamp"]
    report.check(_WRITER, f"checkpoint of edition {name}", checkpoint, index.index_msg_timestamp)


def _run_texts(vector: _Vector, report: _Report, _scratch: Path) -> None:
    """Decode bytes and hash the text."""
    for case in vector["texts"]:
        text = java_text(bytes.fromhex(case["hex"]))
        for name in (_WRITER, _READER, _BROKER):
            expected = (case["text"], case["key_hash"])
            report.check(name, f"text {case['hex']}", expected, (text, key_hash(text)))


def _run_geometries(vector: _Vector, report: _Report, scratch: Path) -> None:
    """Look for geometries; a reader may reject any file, but must not find another geometry."""
    path = scratch / "20260101000000000"
    for case in vector["geometries"]:
        path.write_bytes(bytes.fromhex(case["hex"]))
        try:
            layout = Layout.infer(path)
        except RmqIndexError:
            continue
        got = {"hash_slot_num": layout.hash_slot_num, "index_num": layout.index_num}
        report.check(_READER, f"geometry of {case['name']}", case["result"], got)


EDGE_KINDS = {
    "editions": _run_editions,
    "texts": _run_texts,
    "geometries": _run_geometries,
}
