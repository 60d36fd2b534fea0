"""Run the specification's test vectors against this package (spec: vectors, conformance).

``python -m rmqindex.conformance DIRECTORY`` prints one row per vector and one column per
conformance class, then what went wrong, and exits with 1 if anything did.

A cell is ``ok``, ``FAIL``, or ``-`` where the vector asks nothing of the class.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rmqindex.conformance_edges import EDGE_KINDS
from rmqindex.conformance_store import STORE_KINDS
from rmqindex.display.terminal import Styled, Table, make_console, print_table
from rmqindex.errors import CorruptIndexError, RmqIndexError
from rmqindex.fileset.paths import is_index_name
from rmqindex.indexfile.geometry import Layout
from rmqindex.indexfile.reader import IndexFile
from rmqindex.indexwriter.writer import IndexFileWriter
from rmqindex.keys.hashing import key_hash, key_hashes
from rmqindex.keys.messages import message_keys
from rmqindex.layout import HEADER_SIZE
from rmqindex.ownfiles.records import RecordKind
from rmqindex.query.index_directory import IndexDirectory
from rmqindex.record.properties import parse_properties
from rmqindex.store.checkpoint import CHECKPOINT_NAME, StoreCheckpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqindex.indexfile.entries import Mode

__all__ = ["CLASSES", "Report", "main", "run"]

STRICT_WRITER = "strict writer"
STRICT_READER = "strict reader"
LENIENT_READER = "lenient reader"
BROKER_FAITHFUL = "broker-faithful reader"
CLASSES = (STRICT_WRITER, STRICT_READER, LENIENT_READER, BROKER_FAITHFUL)

_Answer = TypeVar("_Answer")

_REJECT = "reject"
# Any name that the loader accepts; its value does not matter.
_FILE_NAME = "20260101000000000"


@dataclass(slots=True)
class Report:
    """The result of one vector.

    Attributes:
        name: The vector's name.
        problems: The deviations from the vector, for each conformance class that was tried.
    """

    name: str
    problems: dict[str, list[str]] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether every class that was tried did as the vector says."""
        return not any(self.problems.values())

    def check(self, conformance_class: str, what: str, expected: object, got: object) -> None:
        """Note that a class was tried, and its result if that was wrong."""
        problems = self.problems.setdefault(conformance_class, [])
        if expected != got:
            problems.append(f"{what}: expected {expected}, got {got}")


@dataclass(frozen=True, slots=True)
class _Vector:
    """A vector, with the directory of its files."""

    path: Path
    fields: dict[str, Any]

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  (JSON)
        if name not in self.fields:
            raise RmqIndexError(f"{self.path}: {name}: expected this field, got none")
        return self.fields[name]

    @property
    def layout(self) -> Layout:
        return Layout(self["hash_slot_num"], self["index_num"])

    @property
    def file(self) -> Path:
        return self.path.with_suffix(".bin")

    @property
    def files(self) -> Path:
        return self.path.with_suffix("")


_VECTOR = RecordKind("a test vector", lambda fields: fields.values, "take it from the spec again")


def run(directory: Path) -> list[Report]:
    """Run every vector below a directory.

    Args:
        directory: Where the JSON files of the vectors lie, at any depth.

    Returns:
        One report per vector, by path.

    Raises:
        ValueError: No vectors there, or one of an unknown kind.
        RmqIndexError: A vector is damaged, or lacks a field.
    """
    reports = []
    for path in sorted(directory.rglob("*.json")):
        with path.open("rb") as file:
            data = file.read(_VECTOR.limit + 1)
        vector = _Vector(path, _VECTOR.parse(str(path), data))
        run_kind = _KINDS.get(vector["kind"])
        if run_kind is None:
            known = ", ".join(_KINDS)
            raise ValueError(f"{path}: kind: expected one of {known}, got {vector['kind']}")
        report = Report(vector["name"])
        with tempfile.TemporaryDirectory() as scratch:
            run_kind(vector, report, Path(scratch))
        reports.append(report)
    if not reports:
        raise ValueError(f"{directory}: no vectors there")
    return reports


def _run_file(vector: _Vector, report: Report, scratch: Path) -> None:
    """Run a vector that is one file."""
    if "writer" in vector.fields:
        _write(vector, report, scratch / "index" / _FILE_NAME)
    outcomes = vector["outcomes"]
    _read(vector, report, STRICT_READER, "FAILFAST", outcomes["strict_reader"])
    _read(vector, report, LENIENT_READER, "DROPMALFORMED", outcomes["lenient_reader"])
    _ask(vector, report, outcomes["broker_faithful_reader"])


def _write(vector: _Vector, report: Report, path: Path) -> None:
    """Make the file as a strict writer."""
    path.parent.mkdir()
    writer = vector["writer"]
    if "resume_hex" in writer:
        # The broker keeps a broken slot; IndexFileWriter would repair it first.
        path.write_bytes(bytes.fromhex(writer["resume_hex"]))
        with IndexDirectory(path.parent, vector.layout, writable=True) as index:
            for put in writer["puts"]:
                topic, _, key = put["key"].partition("#")
                index.build_index(topic, None, key, 0, put["phy_offset"], put["store_timestamp"])
    else:
        seed = (writer["prev_end_phy_offset"], writer["prev_end_timestamp"])
        file = IndexFileWriter(path, vector.layout, *seed)
        for put in writer["puts"]:
            if "reopen" in put:
                file.close()
                file = IndexFileWriter(path, vector.layout)
                continue
            done = file.put(put["key"], put["phy_offset"], put["store_timestamp"])
            report.check(STRICT_WRITER, f"put {put['key']!r}", put["result"], done)
        file.close()
    same = path.read_bytes() == vector.file.read_bytes()
    report.check(
        STRICT_WRITER, "bytes", "those of the vector", "those of the vector" if same else "others"
    )


def _read(
    vector: _Vector, report: Report, conformance_class: str, mode: Mode, outcome: dict[str, Any]
) -> None:
    """Open, scan and look up as a strict or a lenient reader."""
    faults: list[CorruptIndexError] = []

    def check(what: str, expected: object, got: object) -> None:
        report.check(conformance_class, what, expected, got)

    file = _attempt(faults, lambda: IndexFile(vector.file, vector.layout, mode=mode))
    check("open", outcome["open"], _REJECT if file is None else "accept")
    if file is not None:
        with file:
            if vector.file.stat().st_size >= HEADER_SIZE:
                header = {name: getattr(file.header, name) for name in vector["header"]}
                check("header", vector["header"], header)
            rows = _attempt(faults, partial(_rows, file))
            if rows is not None:
                check("entries", vector["entries"], rows)
            scan = _REJECT if rows is None else [row["position"] for row in rows]
            check("scan", outcome["scan"], scan)
            for lookup in outcome["lookups"]:
                found = _attempt(faults, partial(_looked_up, file, lookup["key_hash"]))
                got = _REJECT if found is None else found
                check(f"lookup {lookup['key_hash']}", lookup["result"], got)
    if "error" in outcome:
        first = [{"field": fault.field, "byte": fault.byte} for fault in faults[:1]]
        check("error", [outcome["error"]], first)
    if conformance_class == STRICT_READER and vector.path.parent.name == "accept":
        check("geometry", expected=True, got=_geometry(vector) in (None, vector.layout))


def _attempt(faults: list[CorruptIndexError], action: Callable[[], _Answer]) -> _Answer | None:
    """Do something, or note why it was rejected."""
    try:
        return action()
    except CorruptIndexError as error:
        faults.append(error)
        return None


def _looked_up(file: IndexFile, hashed: int) -> list[int]:
    positions: list[int] = file.lookup([hashed])["position"].to_pylist()
    return positions


def _geometry(vector: _Vector) -> Layout | None:
    """Infer the geometry; None where that is impossible."""
    try:
        with IndexFile(vector.file) as file:
            return file.layout
    except RmqIndexError:
        return None


def _rows(file: IndexFile) -> list[dict[str, int]]:
    return [row for batch in file.scan() for row in _in_order(batch.to_pylist())]


def _in_order(rows: list[dict[str, int]]) -> list[dict[str, int]]:
    """Bring the columns into the order of the vectors."""
    names = (
        "position",
        "key_hash",
        "phy_offset",
        "time_diff",
        "prev_position",
        "slot",
        "store_timestamp",
    )
    return [{name: row[name] for name in names} for row in rows]


def _ask(vector: _Vector, report: Report, outcome: dict[str, Any]) -> None:
    """Select and match times as a broker-faithful reader."""
    layout = vector.layout
    with IndexFile(vector.file, layout, mode="DROPMALFORMED", zero_extend=True) as file:
        for query in outcome["queries"]:
            what = f"select {query['key']!r} {query['max_num']} {query['begin']} {query['end']}"
            result: object
            try:
                result = file.select_phy_offset(
                    query["key"], query["max_num"], query["begin"], query["end"]
                )
            except CorruptIndexError:
                result = _REJECT
            report.check(BROKER_FAITHFUL, what, query["result"], result)
        for times in outcome.get("time_matched", ()):
            what = f"is_time_matched {times['begin']} {times['end']}"
            matched = file.is_time_matched(times["begin"], times["end"])
            report.check(BROKER_FAITHFUL, what, times["result"], matched)


def _run_load(vector: _Vector, report: Report, scratch: Path) -> None:
    """Load, search and expire a file set, first looking only, then on disk."""

    def check(what: str, expected: object, got: object) -> None:
        report.check(BROKER_FAITHFUL, what, expected, got)

    names = sorted(item["name"] for item in vector["directory"])
    for writable in (False, True):
        mode = "writable" if writable else "read-only"
        directory = scratch / mode / "index"
        directory.mkdir(parents=True)
        for item in vector["directory"]:
            if item["type"] == "directory":
                (directory / item["name"]).mkdir()
            else:
                shutil.copy(vector.files / item["name"], directory / item["name"])
        after = vector["directory_after_load"] if writable else names
        with IndexDirectory(
            directory,
            vector.layout,
            writable=writable,
            last_exit_ok=vector["last_exit_ok"],
            index_msg_timestamp=vector["index_msg_timestamp"],
        ) as index:
            check(f"load ({mode})", vector["load_result"], index.load_result)
            check(f"loaded ({mode})", vector["loaded"], [file.name for file in index.files])
            check(f"directory after load ({mode})", sorted(after), _names(directory))
            for entry in vector.fields.get("entries", ()):
                file = next(file for file in index.files if file.name == entry["file"])
                row = _in_order(next(file.scan(entry["position"])).slice(0, 1).to_pylist())[0]
                wanted = {name: row[name] for name in ("position", "key_hash", "phy_offset")}
                check(f"entry ({mode})", entry, {"file": file.name, **wanted})
            _check_queries(index, vector["queries"], report)
            if "total_size" in vector.fields:
                check(f"total size ({mode})", vector["total_size"], index.total_size)
            if "delete_expired_offset" in vector.fields:
                index.delete_expired(vector["delete_expired_offset"])
                left = vector["loaded_after_delete"]
                after = vector["directory_after_delete"] if writable else names
                check(f"loaded after expiry ({mode})", left, [file.name for file in index.files])
                check(f"directory after expiry ({mode})", sorted(after), _names(directory))


def _check_queries(
    index: IndexDirectory, queries: Sequence[dict[str, Any]], report: Report
) -> None:
    for query in queries:
        asked = [query[name] for name in ("topic", "key", "max_num", "begin", "end")]
        topic, key, max_num, begin, end = asked
        index_type = query.get("index_type")
        if query["result"] == _REJECT:
            report.check(BROKER_FAITHFUL, f"query {asked}", _REJECT, _query_or_reject(index, asked))
            continue
        result = index.query_offset(topic, key, max_num, begin, end, index_type)
        expected = (
            query["result"],
            query["index_last_update_timestamp"],
            query["index_last_update_phyoffset"],
        )
        got = (
            list(result.phy_offsets),
            result.index_last_update_timestamp,
            result.index_last_update_phy_offset,
        )
        report.check(BROKER_FAITHFUL, f"query {asked}", expected, got)


def _query_or_reject(index: IndexDirectory, asked: list[Any]) -> object:
    try:
        return list(index.query_offset(*asked).phy_offsets)
    except (CorruptIndexError, ValueError):  # a loop; a negative max_num
        return _REJECT


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def _run_build(vector: _Vector, report: Report, scratch: Path) -> None:
    """Build a file set from messages, and search it."""
    directory = scratch / "index"
    with IndexDirectory(directory, vector.layout, writable=True) as index:
        for message in vector["messages"]:
            index.build_index(
                message["topic"],
                message["unique_key"],
                message["keys"],
                message["sys_flag"],
                message["phy_offset"],
                message["store_timestamp"],
                message.get("tags"),
            )
        index.flush()
        report.check(
            STRICT_WRITER,
            "index_msg_timestamp",
            vector["index_msg_timestamp"],
            index.index_msg_timestamp,
        )
        _check_queries(index, vector["queries"], report)
    written = [(directory / name).read_bytes() for name in _names(directory)]
    report.check(STRICT_WRITER, "number of files", len(vector["files"]), len(written))
    for name, data in zip(vector["files"], written, strict=False):
        same = data == (vector.files / name).read_bytes()
        report.check(STRICT_WRITER, f"bytes of {name}", expected=True, got=same)


def _run_hashes(vector: _Vector, report: Report, _scratch: Path) -> None:
    """Hash texts one at a time and all at once."""
    keys = [case["key"] for case in vector["hashes"]]
    together = key_hashes(keys).tolist()
    for case, at_once in zip(vector["hashes"], together, strict=True):
        for conformance_class in CLASSES:
            got = (key_hash(case["key"]), at_once)
            expected = (case["key_hash"],) * 2
            report.check(conformance_class, f"hash of {case['key']!r}", expected, got)


def _run_names(vector: _Vector, report: Report, _scratch: Path) -> None:
    """Tell the names of IndexFiles from others."""
    for group, expected in (("accepted", True), ("refused", False)):
        for name in vector[group]:
            report.check(BROKER_FAITHFUL, f"name {name!r}", expected, is_index_name(name))


def _run_messages(vector: _Vector, report: Report, _scratch: Path) -> None:
    """Expand messages into index keys."""
    for message in vector["messages"]:
        keys = message_keys(
            message["topic"], message["unique_key"], message["keys"], message["sys_flag"]
        )
        report.check(STRICT_WRITER, f"keys of {message}", message["index_keys"], keys)


def _run_properties(vector: _Vector, report: Report, _scratch: Path) -> None:
    """Decode the properties of messages."""
    for case in vector["properties"]:
        decoded = parse_properties(case["text"].encode())
        report.check(BROKER_FAITHFUL, f"properties {case['text']!r}", case["decoded"], decoded)


def _run_checkpoint(vector: _Vector, report: Report, scratch: Path) -> None:
    """Read and write a checkpoint."""
    checkpoint = StoreCheckpoint.load(vector.file)
    for name, value in vector["fields"].items():
        report.check(BROKER_FAITHFUL, name, value, getattr(checkpoint, name))
    for name in ("min_timestamp", "min_timestamp_index"):
        report.check(BROKER_FAITHFUL, name, vector[name], getattr(checkpoint, name))
    checkpoint.save(scratch / CHECKPOINT_NAME)
    same = (scratch / CHECKPOINT_NAME).read_bytes() == vector.file.read_bytes()
    report.check(STRICT_WRITER, "bytes", expected=True, got=same)


_KINDS: dict[str, Callable[[_Vector, Report, Path], None]] = {
    "file": _run_file,
    "load": _run_load,
    "build": _run_build,
    "hashes": _run_hashes,
    "names": _run_names,
    "messages": _run_messages,
    "properties": _run_properties,
    "checkpoint": _run_checkpoint,
    **EDGE_KINDS,
    **STORE_KINDS,
}


def main(arguments: Sequence[str]) -> int:
    """Run the vectors of a directory and print the results.

    Args:
        arguments: The directory, and nothing else.

    Returns:
        The exit status, 0 if all is as the vectors say, 1 if not, 2 if they could not be run.
    """
    console = make_console()
    if len(arguments) != 1:
        console.write("usage: python -m rmqindex.conformance DIRECTORY")
        return 2
    try:
        reports = run(Path(arguments[0]))
    except ValueError as error:
        console.write(f"error: {error}")
        return 2
    table = Table()
    for heading in ("vector", *CLASSES):
        table.add_column(heading)
    for report in reports:
        table.add_row(report.name, *(_cell(report, name) for name in CLASSES))
    print_table(console, table)
    for report in reports:
        for name, problems in report.problems.items():
            for problem in problems:
                console.write(f"{report.name}, {name}: {problem}")
    failed = sum(not report.passed for report in reports)
    console.write(f"{len(reports)} vectors, {failed} failed")
    return 1 if failed else 0


def _cell(report: Report, conformance_class: str) -> str | Styled:
    problems = report.problems.get(conformance_class)
    if problems is None:
        return "-"
    return Styled("FAIL", "red") if problems else Styled("ok", "green")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
