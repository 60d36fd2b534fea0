"""Vectors as cases: one request each, with what its answer must be."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rmq_index_conformance.case import (
    BROKER,
    CLASSES,
    EDITIONS,
    FROM_4_7_1,
    FROM_5_0,
    FROM_5_4,
    LENIENT,
    LOADER,
    MENDER,
    STRICT,
    WRITER,
    Case,
    answer,
    make_case,
    or_reject,
)
from rmq_index_conformance.store_cases import STORE_KINDS

__all__ = ["CLASSES", "EDITIONS", "Case", "cases_of", "shown_by"]

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmq_index_conformance.archive import Archive, Vector

FILE_NAME = "20260101000000000"
_NO_GEOMETRY = {"hash_slot_num": None, "index_num": None}
_HEADER_SIZE = 40
_HASH_SLOT_COUNT, _INDEX_COUNT = 32, 36

# Which operations can show a requirement, by the area in its name; of other areas all can.
_READS = {"read", "scan", "lookup", "select"}
_SETS = {"load", "query", "expire"}
_AREAS: dict[str, set[str]] = {
    "LAY": {*_READS, *_SETS, "put", "build"},
    "HDR": {*_READS, "put", "build", "create", "time_match"},
    "SLT": {*_READS, "put"},
    "ENT": {*_READS, "put"},
    "HSH": {"hash", "decode_text", "message_keys", "put", "lookup", "select"},
    "PUT": {*_READS, "put"},
    "SEL": {"select", "query"},
    "LKP": {"lookup"},
    "TMM": {"time_match", "lookup"},
    "NAM": {"names", "load", "build_names", "query"},
    "LOD": {"load", "total_size", "query", "select", "read_checkpoint"},
    "QRY": {"query"},
    "BLD": {"build", "message_keys", "decode_properties", "query"},
    "ROL": {"build", "put"},
    "CKP": {"build", "read_checkpoint", "write_checkpoint"},
    "REC": {"load", "query", "lookup", "select", "build"},
    "EXP": {"expire"},
    "TIM": {"read", "scan", "select", "put"},
    "LIM": {*_READS, "put", "build"},
    "GEO": {"geometry", "read", "select", "query", "scan", "lookup"},
    "SEC": {"scan", "lookup", "select"},
    "EDN": {"scan", "put", "create", "build"},
}
# The requirements that name an operation's steps.
_STEPS: dict[str, set[str]] = {
    "IDX-OPS-2": {"create"},
    "IDX-OPS-3": {"read", "scan", "lookup"},
    "IDX-OPS-4": {"put"},
    "IDX-OPS-5": {"create"},
    "IDX-OPS-6": {"scan"},
    "IDX-OPS-7": {"select"},
    "IDX-OPS-8": {"lookup"},
    "IDX-OPS-9": {"time_match"},
    "IDX-OPS-10": {"load"},
    "IDX-OPS-11": {"query"},
    "IDX-OPS-12": {"build"},
    "IDX-OPS-13": {"build"},
    "IDX-OPS-14": {"build"},
    "IDX-OPS-15": {"load"},
    "IDX-OPS-16": {"expire"},
    "IDX-OPS-17": {"geometry"},
    "IDX-EDN-1": {"put", "create", "build"},
    "IDX-EDN-2": {"scan"},
}
_SUBJECTS = (
    (re.compile(r"\bbroker-faithful reader", re.IGNORECASE), {BROKER, LOADER}),
    (re.compile(r"\bbroker-faithful loader", re.IGNORECASE), {LOADER}),
    (re.compile(r"\bstrict (?:reader|lookup|or lenient)", re.IGNORECASE), {STRICT}),
    (re.compile(r"\blenient (?:reader|lookup)", re.IGNORECASE), {LENIENT}),
    (re.compile(r"\ba reader\b|\breaders\b", re.IGNORECASE), {STRICT, LENIENT, BROKER, LOADER}),
    (re.compile(r"\ba (?:broker-faithful )?writer\b", re.IGNORECASE), {WRITER, MENDER}),
)


def shown_by(requirement: dict[str, Any], operation: str, conformance_class: str | None) -> bool:
    """Return whether an operation of a class can show a requirement that its vector names.

    Args:
        requirement: Its ``name`` and its ``text``.
        operation: The operation.
        conformance_class: The class, or None for all.
    """
    chapter, area, _ = requirement["name"].split("-")
    areas = _AREAS if chapter == "IDX" else {}
    operations = _STEPS.get(requirement["name"]) or areas.get(area, {operation})
    subjects: set[str] = set()
    for pattern, classes in _SUBJECTS:
        if pattern.search(requirement["text"]):
            subjects |= classes
    if operation in ("expire", "change_checkpoint"):
        # Deletion is the broker's, whose reader keeps the list of files; a checkpoint that is
        # changed is read before.
        subjects = set()
    if operation == "change_consumequeue" and WRITER in subjects:
        subjects.add(LOADER)  # It puts.
    return operation in operations and (
        not subjects or conformance_class is None or conformance_class in subjects
    )


def cases_of(archive: Archive) -> list[Case]:
    """Return the cases of all vectors and exchanges, in the order of their names.

    A question that a vector asks twice is one case.

    Raises:
        ValueError: A vector of a kind that this kit does not know; two cases of one name.
    """
    texts = {each["name"]: each for each in archive.manifest["requirements"]}
    found: dict[str, Case] = {}
    for case in [*_of_vectors(archive, texts), *_of_exchanges(archive)]:
        if found.setdefault(case.name, case).request != case.request:
            raise ValueError(f"two cases are named {case.name}")
    return list(found.values())


def _of_vectors(archive: Archive, texts: dict[str, dict[str, Any]]) -> Iterator[Case]:
    for vector in archive.vectors:
        kind = vector.fields["kind"]
        if kind not in _KINDS:
            known = ", ".join(_KINDS)
            raise ValueError(
                f"{vector.name}: kind: expected one of {known}, got {kind}; "
                "take the runner that was built with this archive"
            )
        for case in _KINDS[kind](vector):
            shown = tuple(
                name
                for name in vector.fields["requirements"]
                if name != "IDX-CON-2"
                and name in texts
                and shown_by(texts[name], case.operation, case.conformance_class)
            )
            yield replace(case, requirements=case.requirements or shown)


def _of_exchanges(archive: Archive) -> Iterator[Case]:
    for name, exchange in archive.exchanges.items():
        stem = name.removesuffix(".json")
        for each in exchange["cases"]:
            request = {"op": each["op"], **each["request"]}
            if each.get("class"):
                request["class"] = each["class"]
            yield Case(
                f"{stem}: {each['name']}",
                stem,
                each["op"],
                each.get("class"),
                request,
                each["expected"],
                tuple(each["requirements"]),
                tuple(each.get("editions", ())),
            )


def _geometry(vector: Vector) -> dict[str, Any]:
    return {name: vector.fields[name] for name in ("hash_slot_num", "index_num")}


def _of_file(vector: Vector) -> Iterator[Case]:
    fields = vector.fields
    data = vector.data or b""
    file = {**_geometry(vector), "file": {"name": FILE_NAME, "hex": data.hex()}}
    if "writer" in fields:
        yield from _of_writer(vector, data)
    for reader in (STRICT, LENIENT):
        yield from _of_reader(vector, reader, file)
    broker = fields["outcomes"][BROKER]
    for query in broker["queries"]:
        asked = {name: query[name] for name in ("key", "max_num", "begin", "end")}
        expected = or_reject(query["result"], "phy_offsets")
        yield make_case(vector, "select", BROKER, {**file, **asked}, expected, list(asked.values()))
    for times in broker.get("time_matched", ()):
        asked = {name: times[name] for name in ("begin", "end")}
        expected = answer(matched=times["result"])
        yield make_case(
            vector, "time_match", BROKER, {**file, **asked}, expected, list(asked.values())
        )
    if vector.name.startswith("accept/"):
        yield from _of_no_entries(vector, file)


def _of_writer(vector: Vector, data: bytes) -> Iterator[Case]:
    writer = vector.fields["writer"]
    puts = [{k: v for k, v in put.items() if k != "result"} for put in writer["puts"]]
    results = [put["result"] for put in writer["puts"] if "reopen" not in put]
    request = {
        **_geometry(vector),
        **{name: writer[name] for name in writer if name != "puts"},
        "puts": puts,
    }
    made = answer(results=results, hex=data.hex())
    yield make_case(vector, "put", WRITER, request, made, editions=FROM_4_7_1)
    if "resume_hex" not in writer:
        # Before 4.7.1 every put was counted.
        older = bytearray(data)
        struct.pack_into(">i", older, _HASH_SLOT_COUNT, sum(results))
        made = answer(results=results, hex=older.hex())
        yield make_case(vector, "put", WRITER, request, made, "4.0", editions=EDITIONS[:1])


def _of_reader(vector: Vector, reader: str, file: dict[str, Any]) -> Iterator[Case]:
    fields, outcome = vector.fields, vector.fields["outcomes"][reader]
    is_rejected = outcome["open"] == "reject"
    scan = "reject" if is_rejected else outcome["scan"]
    size = len(vector.data or b"")
    if size < _HEADER_SIZE and reader == LENIENT:
        empty = {"header": dict.fromkeys(fields["header"], 0), "entries": []}
        yield make_case(vector, "read", reader, file, _with_either_count(empty))
    if size >= _HEADER_SIZE and scan != "reject":
        whole = size >= _HEADER_SIZE + 4 * fields["hash_slot_num"]
        parts = ("header", "slots", "entries") if whole else ("header", "entries")
        most = fields["index_num"]
        decoded = _with_either_count({name: fields[name] for name in parts}, most)
        yield make_case(vector, "read", reader, file, decoded)
    scanned = make_case(vector, "scan", reader, file, or_reject(scan, "positions"))
    yield scanned
    rejected = [scanned] if scan == "reject" else []
    by_scan = {each["key_hash"]: each for each in fields["outcomes"][LENIENT]["lookups"]}
    for lookup in outcome.get("lookups", ()):
        request = {**file, "key_hash": lookup["key_hash"]}
        expected = or_reject(lookup["result"], "positions")
        found = by_scan[lookup["key_hash"]]["result"]
        may_scan = "reject" not in (scan, lookup["result"])
        if may_scan and set(found) > set(lookup["result"]):
            # A strict reader may scan, and then finds what a chain passes over.
            expected = {"one_of": [expected, answer(positions=found)]}
        case = make_case(vector, "lookup", reader, request, expected, lookup["key_hash"])
        yield case
        if lookup["result"] == "reject":
            rejected.append(case)
    if "error" in outcome:
        first = rejected[0]
        named = {"reject": {"file": FILE_NAME, **outcome["error"], "said": ["expected", "found"]}}
        yield Case(
            f"{first.name}, the error",
            vector.name,
            first.operation,
            reader,
            first.request,
            named,
            ("IDX-CON-2",),
        )


def _of_no_entries(vector: Vector, file: dict[str, Any]) -> Iterator[Case]:
    fields = vector.fields
    if fields["header"]["index_count"] <= 1:
        bare = {**_NO_GEOMETRY, "file": file["file"]}
        expected = _with_either_count({"header": fields["header"], "entries": []})
        yield make_case(vector, "read", STRICT, bare, expected, "in no geometry")


def _with_either_count(decoded: dict[str, Any], most: int = 1) -> dict[str, Any]:
    """Expect an ``index_count`` as it stands or as what it is taken for: 1 to the most there are.

    Only a lenient reader answers for more.
    """
    header = decoded["header"]
    taken = min(max(header["index_count"], 1), most)
    if header["index_count"] == taken:
        return answer(**decoded)
    other = {**decoded, "header": {**header, "index_count": taken}}
    return {"one_of": [answer(**decoded), answer(**other)]}


def _directory(vector: Vector) -> list[dict[str, Any]]:
    return [
        {"name": item["name"], "type": "directory"}
        if item["type"] == "directory"
        else {"name": item["name"], "type": "file", "hex": vector.files[item["name"]].hex()}
        for item in vector.fields["directory"]
    ]


def _of_load(vector: Vector) -> Iterator[Case]:
    fields = vector.fields
    loaded = fields["loaded"]
    size = _HEADER_SIZE + 4 * fields["hash_slot_num"] + 20 * fields["index_num"]
    sizes = {
        item["name"]: len(vector.files[item["name"]]) if item["type"] == "file" else None
        for item in fields["directory"]
    }
    request = {
        **_geometry(vector),
        "directory": _directory(vector),
        **{name: fields[name] for name in ("last_exit_ok", "index_msg_timestamp")},
    }
    # What is loaded has the size of the geometry then, at least.
    written = {name: sizes[name] for name in fields["directory_after_load"]}
    written |= {name: max(sizes[name] or 0, size) for name in loaded}
    for reader, after in ((BROKER, sizes), (LOADER, written)):
        asked = {**request, "writable": reader == LOADER}
        expected = answer(load_result=fields["load_result"], loaded=loaded, directory=after)
        yield make_case(vector, "load", reader, asked, expected)
        if "delete_expired_offset" in fields:
            expire = {**asked, "min_phy_offset": fields["delete_expired_offset"]}
            left = fields["directory_after_delete"] if reader == LOADER else sizes
            expected = answer(
                loaded=fields["loaded_after_delete"], directory={name: after[name] for name in left}
            )
            yield make_case(vector, "expire", reader, expire, expected)
    if "total_size" in fields:
        asked = {**request, "writable": False}
        expected = answer(total_size=fields["total_size"])
        yield make_case(vector, "total_size", BROKER, asked, expected, editions=FROM_5_0)
    for entry in fields.get("entries", ()):
        yield _of_entry(vector, entry)
    for query in fields["queries"]:
        yield _query(vector, {**request, "writable": False}, query)


def _of_entry(vector: Vector, entry: dict[str, Any]) -> Case:
    """Look up the hash of an entry in its file, which is sound."""
    data, hashed = vector.files[entry["file"]], entry["key_hash"]
    places = data[_HEADER_SIZE + 4 * vector.fields["hash_slot_num"] :]
    (count,) = struct.unpack_from(">i", data, _INDEX_COUNT)
    hashes = [struct.unpack_from(">i", places, 20 * position)[0] for position in range(count)]
    found = [position for position in range(count - 1, 0, -1) if hashes[position] == hashed]
    file = {"name": entry["file"], "hex": data.hex()}
    request = {**_geometry(vector), "file": file, "key_hash": hashed}
    expected = answer(positions=found)
    return make_case(vector, "lookup", STRICT, request, expected, entry["file"])


def _query(vector: Vector, request: dict[str, Any], query: dict[str, Any]) -> Case:
    asked = {name: query[name] for name in ("topic", "key", "max_num", "begin", "end")}
    editions: tuple[str, ...] = ()
    if query.get("index_type") is not None:
        asked["index_type"] = query["index_type"]
        editions = FROM_5_4
    expected = or_reject(query["result"], "phy_offsets")
    if "answer" in expected:
        for name in ("index_last_update_timestamp", "index_last_update_phyoffset"):
            expected["answer"][name] = query[name]
    request = {**request, **asked}
    detail = list(asked.values())
    return make_case(vector, "query", BROKER, request, expected, detail, editions=editions)


def _of_build(vector: Vector) -> Iterator[Case]:
    fields = vector.fields
    messages = fields["messages"]
    has_tags = any("tags" in message for message in messages)
    files = [vector.files[name] for name in fields["files"]]
    request = {**_geometry(vector), "messages": messages}
    variants = [("", FROM_5_4 if has_tags else FROM_4_7_1, files)]
    if not has_tags:
        variants.append(("4.0", EDITIONS[:1], [_counting_puts(data) for data in files]))
    for detail, editions, expected in variants:
        made = answer(
            hex=[data.hex() for data in expected],
            index_msg_timestamp=fields["index_msg_timestamp"],
        )
        yield make_case(vector, "build", WRITER, request, made, detail, editions=editions)
    names = {"names": len(files)}
    rules = ("IDX-NAM-1", "IDX-NAM-2")
    editions = FROM_5_4 if has_tags else EDITIONS
    yield make_case(
        vector, "build_names", WRITER, request, names, editions=editions, requirements=rules
    )
    stored = [
        {"name": name, "type": "file", "hex": data.hex()}
        for name, data in zip(fields["files"], files, strict=True)
    ]
    there = {
        **_geometry(vector),
        "directory": stored,
        "writable": False,
        "last_exit_ok": True,
        "index_msg_timestamp": fields["index_msg_timestamp"],
    }
    for query in fields["queries"]:
        yield _query(vector, there, query)


def _counting_puts(data: bytes) -> bytes:
    """Return a file as it was before 4.7.1, when every put was counted."""
    older = bytearray(data)
    (index_count,) = struct.unpack_from(">i", data, _INDEX_COUNT)
    struct.pack_into(">i", older, _HASH_SLOT_COUNT, max(index_count, 1) - 1)
    return bytes(older)


def _of_hashes(vector: Vector) -> Iterator[Case]:
    for each in vector.fields["hashes"]:
        expected = answer(key_hash=each["key_hash"])
        yield make_case(vector, "hash", None, {"key": each["key"]}, expected, _short(each["key"]))


def _of_names(vector: Vector) -> Iterator[Case]:
    for group, accepted in (("accepted", True), ("refused", False)):
        for name in vector.fields[group]:
            expected = answer(accepted=accepted)
            yield make_case(vector, "names", BROKER, {"name": name}, expected, _short(name))


def _of_messages(vector: Vector) -> Iterator[Case]:
    for number, message in enumerate(vector.fields["messages"], 1):
        request = {k: v for k, v in message.items() if k != "index_keys"}
        expected = answer(index_keys=message["index_keys"])
        yield make_case(vector, "message_keys", WRITER, {"message": request}, expected, number)


def _of_properties(vector: Vector) -> Iterator[Case]:
    for number, each in enumerate(vector.fields["properties"], 1):
        expected = answer(properties=each["decoded"])
        request = {"text": each["text"]}
        yield make_case(vector, "decode_properties", None, request, expected, number)


def _of_checkpoint(vector: Vector) -> Iterator[Case]:
    fields = vector.fields
    data = vector.data or b""
    least = {name: fields[name] for name in ("min_timestamp", "min_timestamp_index")}
    expected = answer(fields=fields["fields"], **least)
    yield make_case(vector, "read_checkpoint", BROKER, {"hex": data.hex()}, expected)
    request = {"hex": data.hex(), "fields": fields["fields"]}
    yield make_case(vector, "write_checkpoint", WRITER, request, answer(hex=data.hex()))


def _of_editions(vector: Vector) -> Iterator[Case]:
    fields = vector.fields
    request = {**_geometry(vector), "messages": fields["messages"]}
    for each in fields["editions"]:
        editions, made = _editions_of(each["rocketmq"]), each["edition"]
        expected = answer(hex=each["files"], index_msg_timestamp=each["index_msg_timestamp"])
        yield make_case(vector, "build", WRITER, request, expected, made, editions=editions)
        for number, data in enumerate(each["files"], 1):
            (count,) = struct.unpack_from(">i", bytes.fromhex(data), _INDEX_COUNT)
            file = {**_geometry(vector), "file": {"name": FILE_NAME, "hex": data}}
            for reader in (STRICT, LENIENT):
                expected = answer(positions=[*range(1, count)])
                yield make_case(vector, "scan", reader, file, expected, f"{made} {number}")
    for each in fields["files_without_entries"]:
        editions = _editions_of(each["rocketmq"])
        told = ("created", "closed")
        seeded = {k: v for k, v in each.items() if k not in ("rocketmq", *told)}
        expected = answer(**{name: each[name] for name in told})
        yield make_case(vector, "create", WRITER, seeded, expected, editions[0], editions=editions)


def _editions_of(versions: list[str]) -> tuple[str, ...]:
    """Return the editions that versions of RocketMQ write, the checkpoint's as well."""

    def numbers(version: str) -> list[int]:
        return [int(number) for number in version.partition("-")[0].split(".")]

    return tuple(
        dict.fromkeys(
            max((each for each in EDITIONS if numbers(each) <= numbers(version)), key=numbers)
            for version in versions
        )
    )


def _of_texts(vector: Vector) -> Iterator[Case]:
    for each in vector.fields["texts"]:
        expected = answer(text=each["text"], key_hash=each["key_hash"])
        yield make_case(vector, "decode_text", None, {"hex": each["hex"]}, expected, each["hex"])


def _of_geometries(vector: Vector) -> Iterator[Case]:
    for each in vector.fields["geometries"]:
        result = _NO_GEOMETRY if each["result"] == "no entries" else each["result"]
        rejected: dict[str, Any] = {"reject": {}}
        expected = rejected if result == "reject" else {"one_of": [answer(**result), rejected]}
        request = {"file": {"name": FILE_NAME, "hex": each["hex"]}}
        yield make_case(vector, "geometry", STRICT, request, expected, each["name"])


def _short(text: str) -> str:
    shown = ascii(text)
    return shown if len(shown) <= 60 else f"{shown[:50]}..({len(text)})"


_KINDS = {
    "file": _of_file,
    "load": _of_load,
    "build": _of_build,
    "hashes": _of_hashes,
    "names": _of_names,
    "messages": _of_messages,
    "properties": _of_properties,
    "checkpoint": _of_checkpoint,
    "editions": _of_editions,
    "texts": _of_texts,
    "geometries": _of_geometries,
    **STORE_KINDS,
}
