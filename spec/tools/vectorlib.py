"""What the scripts that write vectors share: answers of each class, and the files themselves."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import oracle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Every time there is.
ALWAYS = (0, 2**63 - 1)
# Files up to this size stand as hex in their JSON too.
_MAX_HEX_BYTES = 800

Query = tuple[str, int, int, int]


class Vectors:
    """A directory of vectors that is being written."""

    def __init__(self, root: Path) -> None:
        """Clear what an earlier run left."""
        self.root = root
        for name in ("accept", "reject"):
            shutil.rmtree(root / name, ignore_errors=True)
            (root / name).mkdir(parents=True)

    def write(
        self, group: str, name: str, description: dict[str, Any], data: bytes | None = None
    ) -> None:
        """Write a JSON file and, if there are bytes, the binary file beside it."""
        if data is not None:
            (self.root / group / f"{name}.bin").write_bytes(data)
            if len(data) <= _MAX_HEX_BYTES:
                description["hex"] = data.hex()
        text = json_text({"name": name, **description})
        (self.root / group / f"{name}.json").write_text(text, encoding="ascii")

    def write_files(self, name: str, files: list[tuple[str, bytes]]) -> None:
        """Write the binary files of a file set."""
        for file_name, data in files:
            path = self.root / "accept" / name / file_name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)


def json_text(value: object) -> str:
    """Return ASCII JSON with one element of a list of objects a line."""

    def lines(item: object, indent: str) -> str:
        deeper = indent + "  "
        if isinstance(item, dict) and any(isinstance(part, (dict, list)) for part in item.values()):
            parts = [f"{deeper}{json.dumps(k)}: {lines(v, deeper)}" for k, v in item.items()]
            return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
        if isinstance(item, list) and any(isinstance(part, (dict, list)) for part in item):
            return "[\n" + ",\n".join(deeper + json.dumps(part) for part in item) + f"\n{indent}]"
        return json.dumps(item)

    return lines(value, "") + "\n"


def sample_queries(queries: list[dict[str, Any]], found: int = 24, nothing: int = 8) -> list[Any]:
    """Keep some of a case's queries, those that find something first of all."""
    some = {True: found, False: nothing}
    kept = []
    for query in queries:
        hit = bool(query["result"])
        if some[hit] and query not in kept:
            some[hit] -= 1
            kept.append(query)
    return kept


def attempt(action: Callable[[], object]) -> tuple[Any, oracle.Rejected | None]:
    """Return what a reader answers, ``"reject"`` where it rejects, with the reason."""
    try:
        return action(), None
    except oracle.Rejected as reason:
        return "reject", reason


def reader_outcomes(
    file: oracle.File, size: int, keys: list[str], extra_hashes: tuple[int, ...] = ()
) -> dict[str, Any]:
    """Return what a strict and a lenient reader answer."""
    count = min(file.index_count, file.index_num)
    hashes = [oracle.key_hash(key) for key in keys]
    hashes += [file.entry(position)[0] for position in range(1, count)]
    hashes = sorted({value for value in [*hashes, *extra_hashes] if value >= 0})
    reasons = []
    opened, reason = attempt(lambda: file.open_strictly(size))
    reasons.append(reason)
    strict: dict[str, Any] = {"open": opened or "accept"}
    if opened != "reject":
        strict["scan"], reason = attempt(lambda: file.scan(strict=True, size=size))
        reasons.append(reason)
        strict["lookups"] = []
        for hashed in hashes:
            found, reason = attempt(lambda value=hashed: file.lookup_strictly(value))
            reasons.append(reason)
            strict["lookups"].append({"key_hash": hashed, "result": found})
    reason = next((reason for reason in reasons if reason), None)
    if reason:
        strict["error"] = {"field": reason.field, "byte": reason.byte}
    sound = file.scan(strict=False, size=size) if size >= 40 else []
    lenient = {
        "open": "accept",
        "scan": sound,
        "lookups": [
            {"key_hash": hashed, "result": file.lookup_leniently(hashed, size)} for hashed in hashes
        ],
    }
    return {"strict_reader": strict, "lenient_reader": lenient}


def decoded(file: oracle.File, size: int) -> dict[str, Any]:
    """Return the header, the slots and the sound entries as a reader decodes them."""
    entries = []
    for position in file.scan(strict=False, size=size) if size >= 40 else []:
        values = zip(
            ("key_hash", "phy_offset", "time_diff", "prev_position"),
            file.entry(position),
            strict=True,
        )
        entries.append(
            {
                "position": position,
                **dict(values),
                "slot": file.entry(position)[0] % file.hash_slot_num,
                "store_timestamp": file.time(position),
            }
        )
    return {
        "header": file.header,
        "slots": [file.slot(slot) for slot in range(file.hash_slot_num)],
        "entries": entries,
    }


def broker_queries(file: oracle.File, queries: list[Query]) -> list[Any]:
    """Return the broker's answers to (key, max_num, begin, end), by the oracle."""
    answers = []
    for key, max_num, begin, end in queries:

        def select(query: Query = (key, max_num, begin, end)) -> list[int]:
            found: list[int] = []
            file.select(found, *query)
            return found

        result, _ = attempt(select)
        answers.append(
            {"key": key, "max_num": max_num, "begin": begin, "end": end, "result": result}
        )
    return answers


def file_vector(
    file: oracle.File,
    *,
    note: str,
    source: str,
    requirements: list[str],
    errata: list[str],
    keys: list[str],
    broker: dict[str, Any],
    size: int | None = None,
    extra_hashes: tuple[int, ...] = (),
    writer: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the description of a vector that is one file."""
    size = len(file.data) if size is None else size
    return {
        "kind": "file",
        "note": note,
        "source": source,
        "requirements": requirements,
        "errata": errata,
        "hash_slot_num": file.hash_slot_num,
        "index_num": file.index_num,
        **({} if writer is None else {"writer": writer}),
        **decoded(file, size),
        "outcomes": {
            **reader_outcomes(file, size, keys, extra_hashes),
            "broker_faithful_reader": broker,
        },
    }
