"""Cases of the chapters beside the index: CommitLog, ConsumeQueue, checkpoint, message ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmq_index_conformance.case import (
    BROKER,
    EDITIONS,
    LENIENT,
    LOADER,
    STRICT,
    WRITER,
    answer,
    make_case,
    or_reject,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmq_index_conformance.archive import Vector
    from rmq_index_conformance.case import Case

_BEFORE_5_5, _FROM_5_5 = EDITIONS[:-1], EDITIONS[-1:]
_RECORD = (
    "position",
    "total_size",
    "magic_code",
    "body_crc",
    "queue_id",
    "flag",
    "queue_offset",
    "physical_offset",
    "sys_flag",
    "born_timestamp",
    "store_timestamp",
    "store_host",
    "reconsume_times",
    "prepared_transaction_offset",
    "body",
    "topic",
    "properties",
)
# A program need not give all fields: it answers those that it lacks with "unsupported".
_DECODED_PARTS = {
    "": tuple(name for name in _RECORD if name != "magic_code"),
    "born_host": ("born_host",),
}
_RECORD_PARTS = {"": _RECORD, "born_host": ("born_host",), "all_properties": ("all_properties",)}
_UNIT = ("queue_offset", "phy_offset", "size", "tags_code")
_UNIT_PARTS = {
    "": _UNIT,
    "of a batch": ("store_timestamp", "msg_base_offset", "batch_size", "compacted_offset"),
}

_FIRST_FIELDS = (
    "physic_msg_timestamp",
    "logics_msg_timestamp",
    "index_msg_timestamp",
    "min_timestamp",
    "min_timestamp_index",
)

# The directory that a queue's files are in, and what it says of their units.
_FOLDER = "TopicTest/2"
_INNER_BATCH = 192
_TEN_DAYS = 864_000_000
_OF_FOLDER = {"topic": "TopicTest", "queue_id": 2}
_FOLDER_PARTS = ("topic", "queue_id")


def _some(item: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: item[name] for name in names if name in item}


def _contains(**fields: Any) -> dict[str, Any]:  # noqa: ANN401  (JSON)
    return {"contains": fields}


def _of_log(vector: Vector) -> Iterator[Case]:
    fields = vector.fields
    file = {"name": fields["file_name"], "hex": (vector.data or b"").hex()}
    request = {"file": file, "file_size": fields["file_size"]}
    strict = fields["outcomes"][STRICT]
    walked = answer(**{name: strict[name] for name in ("walk", "end", "crc_faults")})
    yield make_case(vector, "walk_commitlog", STRICT, request, walked)
    for detail, names in _RECORD_PARTS.items():
        parts = [_some(record, names) for record in fields["records"]]
        told = {**request, "fields": list(names)}
        is_rejected = strict["scan"] == "reject"
        expected = {"reject": {}} if is_rejected else _contains(records=parts)
        yield make_case(vector, "decode_commitlog", STRICT, told, expected, detail)
    yield from _of_decoding_broker(vector, request)
    found = [{"position": each} for each in fields["outcomes"][LENIENT]["positions"]]
    told = {**request, "fields": ["position"]}
    yield make_case(vector, "decode_commitlog", LENIENT, told, _contains(records=found))
    for name, checks in fields["outcomes"][BROKER].items():
        told = {
            **request,
            "check_crc": name != "checks_without_crc",
            "check_property_crc": name == "checks_of_property_crc",
        }
        yield make_case(vector, "check_commitlog", BROKER, told, answer(checks=checks), name)


def _of_decoding_broker(vector: Vector, request: dict[str, Any]) -> Iterator[Case]:
    """Ask for what a broker decodes of the records that it takes, where all are sound."""
    by_position = {record["position"]: record for record in vector.fields["records"]}
    checks = vector.fields["outcomes"][BROKER]["checks_without_crc"]
    taken = [position for position, size, success in checks if success and size > 0]
    if not set(taken) <= set(by_position):
        return
    for detail, names in _DECODED_PARTS.items():
        parts = [_some(by_position[position], names) for position in taken]
        told = {**request, "fields": list(names)}
        expected = _contains(records=parts)
        yield make_case(vector, "decode_commitlog", BROKER, told, expected, detail)


def _of_written_log(vector: Vector) -> Iterator[Case]:
    fields = vector.fields
    request = {name: fields[name] for name in ("file_size", "property_crc", "messages")}
    yield make_case(vector, "write_commitlog", WRITER, request, answer(files=fields["files"]))


def _of_recovery(vector: Vector) -> Iterator[Case]:
    fields = vector.fields
    files = {"files": fields["files"], "file_size": fields["file_size"]}
    outcomes = fields["outcomes"]
    if STRICT in outcomes and fields["files"]:
        strict = dict(outcomes[STRICT])
        is_rejected = strict.pop("scan") == "reject"
        expected = {"reject": strict.get("error", {})} if is_rejected else answer(**strict)
        yield make_case(vector, "scan_commitlog", STRICT, files, expected)
    names = ("last_exit_ok", "check_crc", "min_timestamp", "queue_max_phy_offset")
    told = {**files, **{name: fields[name] for name in names}}
    # From 5.5 on the least timestamp does not say where a broker begins.
    editions = _BEFORE_5_5 if fields["min_timestamp"] else ()
    expected = answer(**outcomes[BROKER])
    yield make_case(vector, "recover_commitlog", LOADER, told, expected, editions=editions)


def _of_property_bytes(vector: Vector) -> Iterator[Case]:
    for each in vector.fields["cases"]:
        request = {"hex": each["hex"]}
        expected = answer(properties=each["decoded"])
        yield make_case(vector, "decode_property_bytes", None, request, expected, each["hex"])


def _of_inner_batches(vector: Vector) -> Iterator[Case]:
    for each in vector.fields["cases"]:
        for reader in (STRICT, BROKER):
            expected = or_reject(each[reader], "messages")
            if "reject" in expected and reader == STRICT:
                expected = {"reject": each["error"]}
            request = {"hex": each["hex"], "sys_flag": _INNER_BATCH}
            yield make_case(vector, "inner_messages", reader, request, expected, each["note"])


def _of_bodies(vector: Vector) -> Iterator[Case]:
    for number, each in enumerate(vector.fields["cases"], 1):
        request = {"hex": each["stored"], "sys_flag": each["sys_flag"]}
        body = "reject" if each["body"] is None else each["body"]
        for reader in (STRICT, BROKER):
            expected = or_reject(body, "hex")
            yield make_case(vector, "decompress_body", reader, request, expected, number)


def _of_queue(vector: Vector) -> Iterator[Case]:
    fields = vector.fields
    shape = {name: fields[name] for name in ("is_batch", "file_size")}
    reader = fields["reader"]
    if reader["files"]:
        blanks = reader["blank_units"]
        parts = _UNIT_PARTS if fields["is_batch"] else {"": _UNIT, "of the folder": _FOLDER_PARTS}
        for detail, names in parts.items():
            units = [_some({**unit, **_OF_FOLDER}, names) for unit in reader["units"]]
            expected = _contains(units=units, blank_units=blanks)
            request = {**shape, "files": reader["files"], "fields": list(names)}
            request |= {"folder": _FOLDER}
            for each in (STRICT, LENIENT):
                yield make_case(vector, "decode_consumequeue", each, request, expected, detail)
    broker = fields["broker"]
    steps = [{name: step[name] for name in ("do", "arguments")} for step in broker["steps"]]
    request = {**shape, "files": fields["files"], "steps": steps}
    expected = answer(**broker)
    if broker["recovered"]["units"] is None:
        # CQ-ERR-4: it may give what is there, as other readers do.
        names = ("queue_offset", "phy_offset", "size", "tags_code", "batch_size")
        units = [[unit[name] for name in names] for unit in reader["units"]]
        recovered = {**broker["recovered"], "units": units}
        expected = {"one_of": [expected, answer(**{**broker, "recovered": recovered})]}
    yield make_case(vector, "change_consumequeue", LOADER, request, expected)


def _of_dispatch(vector: Vector) -> Iterator[Case]:
    fields = vector.fields
    request = {
        "file": {"name": fields["file_name"], "hex": (vector.data or b"").hex()},
        **{name: fields[name] for name in ("batch_topics", "light_queues")},
    }
    for queue in fields["queues"]:
        name = {part: queue[part] for part in ("topic", "queue_id")}
        expected = answer(units=[unit[:4] for unit in queue["units"]])
        detail = f"{queue['topic']}-{queue['queue_id']}"
        told = {**request, **name}
        yield make_case(vector, "build_consumequeue", WRITER, told, expected, detail)


def _of_checkpoint_file(vector: Vector) -> Iterator[Case]:
    fields = vector.fields
    for name, outcome in fields["editions"].items():
        editions = _FROM_5_5 if name in _FROM_5_5 else _BEFORE_5_5
        request = {"before": fields["before"], "set": fields["set"]}
        # Brokers before 5.0.0 have the first fields alone.
        parts = {
            "first fields": (
                _FIRST_FIELDS,
                _contains(fields=_some(outcome["fields"], _FIRST_FIELDS)),
            ),
            "fields": (tuple(outcome["fields"]), answer(fields=outcome["fields"])),
            "after": ((), answer(after=outcome["after"])),
        }
        for part, (names, expected) in parts.items():
            told = {**request, "fields": list(names)}
            detail = f"{part} {name}"
            yield make_case(
                vector, "change_checkpoint", WRITER, told, expected, detail, editions=editions
            )


def _of_offset_ids(vector: Vector) -> Iterator[Case]:
    for each in vector.fields["offset_ids"]:
        request = {name: each[name] for name in ("address", "port", "phy_offset")}
        expected = answer(message_id=each["id"])
        yield make_case(vector, "make_offset_id", WRITER, request, expected, each["id"])


def _of_ids_decoded(vector: Vector) -> Iterator[Case]:
    for each in vector.fields["ids"]:
        parts = each["broker"]
        expected = {"reject": {}} if parts is None else answer(**parts)
        request = {"message_id": each["id"]}
        yield make_case(vector, "decode_offset_id", BROKER, request, expected, repr(each["id"]))


def _of_unique_keys(vector: Vector) -> Iterator[Case]:
    for each in vector.fields["unique_keys"]:
        names = ("address", "pid", "class_loader_hash", "month_milliseconds", "counter")
        expected = answer(**{name: each[name] for name in names})
        request = {"unique_key": each["id"]}
        yield make_case(vector, "decode_unique_key", STRICT, request, expected, each["id"])
        # What a broker asks of a key.
        expected = answer(**_some(each, ("address", "pid")))
        yield make_case(vector, "decode_unique_key", BROKER, request, expected, each["id"])
        for detail, near in (
            ("without a time", None),
            ("at its time", each["created_after"]),
            ("ten days later", each["created_after"] + _TEN_DAYS),
        ):
            request = {"unique_key": each["id"], "near": near}
            expected = answer(timestamp=None if near is None else each["timestamp"])
            name = f"{each['id']} {detail}"
            yield make_case(vector, "decode_unique_key", STRICT, request, expected, name)


def _of_grpc_ids(vector: Vector) -> Iterator[Case]:
    for each in vector.fields["grpc_ids"]:
        expected = answer(**{name: each[name] for name in ("version", "mac", "pid", "sequence")})
        request = {"unique_key": each["id"]}
        yield make_case(vector, "decode_unique_key", STRICT, request, expected, each["id"])


def _of_annex(_: Vector) -> Iterator[Case]:
    """Annexes ask nothing of anyone."""
    return iter(())


#: What makes the cases of each kind of vector.
STORE_KINDS: dict[str, Callable[[Vector], Iterator[Case]]] = {
    "commitlog": _of_log,
    "commitlog_recovery": _of_recovery,
    "written_log": _of_written_log,
    "property_bytes": _of_property_bytes,
    "inner_batches": _of_inner_batches,
    "compressed_bodies": _of_bodies,
    "consumequeue": _of_queue,
    "dispatch": _of_dispatch,
    "checkpoint_file": _of_checkpoint_file,
    "offset_ids": _of_offset_ids,
    "ids_decoded": _of_ids_decoded,
    "unique_keys": _of_unique_keys,
    "grpc_ids": _of_grpc_ids,
    "tiered_index": _of_annex,
    "dledger_entries": _of_annex,
    "rocksdb_pairs": _of_annex,
}
