"""The chapters on CommitLog, ConsumeQueue, checkpoint and message ids, held against RocketMQ.

The twin of their numbered steps agrees with everything that RocketMQ's classes were asked, and
their tables with the code.
"""

from __future__ import annotations

import json
import re
import struct
from typing import TYPE_CHECKING, Any

import pytest

import logs_oracle
import oracle
import queue_oracle
import spectext
from recorded import BROKER_VERSIONS, MESSAGE_KINDS, STORE_FORMATS
from rmqindex import (
    CommitLog,
    ConsumeQueue,
    CorruptCommitLogError,
    StoreCheckpoint,
)
from rmqindex.layout import queue as queue_layout
from rmqindex.layout import record as record_layout
from store_exchanges import MESSAGE

if TYPE_CHECKING:
    from pathlib import Path

CHAPTERS = ("commitlog", "consumequeue", "checkpoint", "message-ids")
STORES = [MESSAGE_KINDS / "store", *sorted(BROKER_VERSIONS.glob("*/store"))]
STORE_NAMES = [store.parent.name for store in STORES]
KINDS_OF_INDEX = {
    "file",
    "load",
    "build",
    "hashes",
    "names",
    "messages",
    "properties",
    "checkpoint",
}


def asked(name: str) -> Any:
    """Return what RocketMQ told."""
    return json.loads((STORE_FORMATS / f"{name}.json").read_text(encoding="utf-8"))


def named(cases: list[dict[str, Any]]) -> list[Any]:
    """Return cases as parameters with their names."""
    return [pytest.param(case, id=case["name"]) for case in cases]


def log_files() -> list[dict[str, Any]]:
    """Return every file of a log that RocketMQ was asked about."""
    written = [
        {**file, "name": f"{case['name']}-{number}"}
        for case in asked("logs")
        for number, file in enumerate(case["files"], 1)
    ]
    return [*written, *asked("damaged_logs"), *asked("number_logs")]


@pytest.mark.parametrize("case", named(log_files()))
@pytest.mark.requirement("LOG-BRK-1", "LOG-BRK-2", "LOG-BRK-3", "LOG-CRC-5")
def test_the_steps_of_the_check_answer_as_rocketmq(case: dict[str, Any]) -> None:
    """Position, size and success are the broker's, with either CRC and without."""
    data = bytes.fromhex(case["hex"])
    for name, how in {
        "checks": {"check_crc": True},
        "checks_without_crc": {"check_crc": False},
        "checks_of_property_crc": {"check_crc": True, "property_crc_alone": True},
    }.items():
        if name in case:
            expected = [(each["position"], each["size"], each["success"]) for each in case[name]]
            assert logs_oracle.check_all(data, **how) == expected, name


@pytest.mark.parametrize("case", named(log_files()))
def test_records_are_decoded_as_rocketmq_decodes_them(case: dict[str, Any]) -> None:
    """Every field, the topic, the properties and the offset id."""
    data = bytes.fromhex(case["hex"])
    places = [each["position"] for each in case["checks"] if each["success"] and each["size"] > 0]
    for at, expected in zip(places, case["records"], strict=True):
        record = logs_oracle.decode_record(data, at)
        for name, value in record.values.items():
            if name in expected:
                assert value == expected[name], name
        assert logs_oracle.text_of(record.topic) == expected["topic"]
        assert dict(logs_oracle.property_pairs(record.properties)) == expected["properties"]
        assert record.body.hex() == (expected["stored_body"] or "")
        address, _, port = record.values["store_host"].partition(":")
        offset = record.values["physical_offset"]
        made = logs_oracle.offset_id(bytes.fromhex(address), int(port), offset)
        assert made == expected["msg_id"]


def replayable() -> list[Any]:
    """Return the logs whose messages are single ones, without what a store adds to properties."""
    skipped = {"log_dispatch", "log_property_crc", "log_topic_beyond_127_bytes"}
    return [
        case
        for case in [*asked("logs"), *asked("surrogate_logs")]
        if case["name"] not in skipped and not any("batch" in put for put in case["puts"])
    ]


@pytest.mark.parametrize("case", named(replayable()))
@pytest.mark.requirement(
    "LOG-REC-2", "LOG-REC-3", "LOG-REC-4", "LOG-REC-5", "LOG-REC-7", "LOG-CRC-1", "LOG-BLK-1"
)
def test_the_messages_of_a_log_give_its_bytes(case: dict[str, Any]) -> None:
    """Encoded and placed as the text says, they make the files that RocketMQ wrote."""
    files, at = [bytearray(case["file_size"])], 0
    records = [record for file in case["files"] for record in file["records"]]
    for put, told, record in zip(case["puts"], case["told"]["puts"], records, strict=True):
        encoded = logs_oracle.encode_record(
            put, told["phy_offset"], record["queue_offset"], record["store_timestamp"]
        )
        at = logs_oracle.append(files, case["file_size"], encoded, at)
    assert [bytes(file).hex() for file in files] == [file["hex"] for file in case["files"]]


@pytest.mark.parametrize("case", named(asked("recovery") + asked("further_recovery")))
@pytest.mark.requirement("LOG-RCV-1", "LOG-RCV-2", "LOG-RCV-3")
def test_the_steps_of_recovery_end_a_log_where_rocketmq_ends_it(case: dict[str, Any]) -> None:
    """The end of the log, and the files that are left."""
    files = {file["name"]: bytes.fromhex(file["hex"]) for file in case["files"]}
    loaded = {name: data for name, data in files.items() if data or name != max(files)}
    fails = any(len(data) != case["file_size"] for data in loaded.values())
    assert case["load_result"] != fails
    if fails:
        assert case["files_after"] == sorted(files)
        return
    end = logs_oracle.recover_log(
        loaded,
        last_exit_ok=case["last_exit_ok"],
        check_crc=case["check_crc"],
        min_time=case["min_timestamp"],
        queue_max=case["queue_max_phy_offset"],
    )
    assert end == case["max_offset"]
    assert case["files_after"] == sorted(name for name in loaded if int(name) <= end)


@pytest.mark.parametrize(
    "case", named(asked("queues") + asked("damaged_queues") + asked("edge_queues"))
)
@pytest.mark.requirement(
    "CQ-PUT-1", "CQ-MIN-1", "CQ-EXP-1", "CQ-TRC-1", "CQ-TRC-2", "CQ-RCV-1", "CQ-RCV-2"
)
def test_the_steps_of_a_queue_do_as_rocketmq(case: dict[str, Any]) -> None:
    """Least and next offset and the units after each step, and the bytes at the end."""
    files = {int(file["name"]): bytearray.fromhex(file["hex"]) for file in case["files"]}
    if files and not files[max(files)]:
        del files[max(files)]
    loaded = all(len(file) == case["file_size"] for file in files.values())
    assert case["answers"][0]["loaded"] == loaded
    if not loaded:
        if case["is_batch"]:
            assert (case["answers"][0]["min_offset"], case["answers"][0]["max_offset"]) == (-1, 0)
        assert case["files_after"] == case["files"]
        return
    queue = queue_oracle.Queue(case["file_size"], case["is_batch"], files)
    queue.recover()
    for step, answer in zip([None, *case["steps"]], case["answers"], strict=True):
        if step is not None:
            getattr(queue, step[0])(*step[1:])
        assert (queue.min_offset, queue.max_offset) == (answer["min_offset"], answer["max_offset"])
        # CQ-ERR-2 and CQ-ERR-4: RocketMQ gives none, or fails.
        if answer["units"]:
            assert queue.units() == answer["units"]
    written = [
        {"name": f"{at:020}", "hex": bytes(queue.files[at]).hex()} for at in sorted(queue.files)
    ]
    assert written == case["files_after"]


@pytest.mark.parametrize("case", named(asked("checkpoints")))
@pytest.mark.requirement("CHK-MIN-1", "CHK-MIN-2")
def test_the_least_timestamps_are_rocketmqs(case: dict[str, Any]) -> None:
    """Computed as the text says, for both versions asked."""
    for version in ("5.3.3", "5.5.1"):
        told = case[version]["fields"]
        least = logs_oracle.min_timestamp(told["PhysicMsgTimestamp"], told["LogicsMsgTimestamp"])
        assert least == told["min_timestamp"]
        assert min(least, told["IndexMsgTimestamp"]) == told["min_timestamp_index"]


def test_properties_are_read_as_rocketmq_reads_them() -> None:
    """Bytes in, names and values out, malformed text included."""
    for case in [*asked("properties"), *asked("malformed_properties")]:
        pairs = logs_oracle.property_pairs(bytes.fromhex(case["hex"]))
        assert dict(pairs) == case["decoded"], case


@pytest.mark.requirement("LOG-PRP-1", "LOG-FIL-2", "LOG-FIL-3")
@pytest.mark.parametrize("store", STORES, ids=STORE_NAMES)
def test_the_files_of_a_store_follow_each_other(store: Path) -> None:
    """Names are multiples of the one size, records fill them up to the blank one."""
    paths = sorted((store / "commitlog").iterdir())
    (size,) = {path.stat().st_size for path in paths}
    for path in paths:
        assert re.fullmatch(r"\d{20}", path.name)
        assert int(path.name) % size == 0
        found = logs_oracle.walk(path.read_bytes(), int(path.name))
        assert found.kind == ("blank" if path != paths[-1] else "zero"), path
        assert all(len(record.properties) <= 32767 for _, record in found.records)


@pytest.mark.requirement("LOG-FIL-6")
def test_a_log_is_read_over_a_gap_and_over_files_of_other_sizes(tmp_path: Path) -> None:
    """Each file has the size that it has, and the next one need not begin where it ends."""
    told = {**MESSAGE, "properties": {"KEYS": "a"}}
    first = logs_oracle.encode_record(told, 0, 0, 5)
    blank = struct.pack(">ii", 512 - len(first), logs_oracle.BLANK)
    last = logs_oracle.encode_record(told, 4096, 1, 5)
    for start, size, data in ((0, 512, first + blank), (4096, 256, last)):
        (tmp_path / f"{start:020}").write_bytes(data.ljust(size, b"\0"))
    with CommitLog(tmp_path) as log:
        found = [place for batch in log.scan() for place in batch["phy_offset"].to_pylist()]
        assert (found, log.max_offset) == ([0, 4096], 4096 + len(last))


@pytest.mark.requirement("CQ-PUT-4", "CQ-PUT-5")
def test_a_skipped_queue_offset_is_rejected_by_a_strict_writer_alone() -> None:
    """It leaves the queue as it was; a loader writes the unit at the next place."""
    queue = queue_oracle.Queue(60, is_batch=False)
    queue.put(1000, 200, 5, 0)
    before = {start: bytes(data) for start, data in queue.files.items()}
    with pytest.raises(oracle.Rejected):
        queue.put(1200, 200, 5, 2, is_strict=True)
    assert (queue.files, queue.end, queue.most_phy) == (before, 20, 1200)
    queue.put(1200, 200, 5, 2)
    assert queue.units() == [[0, 1000, 200, 5, 1], [1, 1200, 200, 5, 1]]


@pytest.mark.requirement("CQ-FIL-3", "CQ-RCV-3")
@pytest.mark.parametrize("store", STORES, ids=STORE_NAMES)
def test_the_units_of_a_store_name_records_of_their_queue(store: Path) -> None:
    """Where the log is still there, size, topic and queue of the record are the unit's."""
    log = {int(path.name): path.read_bytes() for path in (store / "commitlog").iterdir()}
    size = len(next(iter(log.values())))
    checked = 0
    for queue in ConsumeQueue.find(store):
        for row in (row for batch in queue.scan() for row in batch.to_pylist()):
            start = row["phy_offset"] - row["phy_offset"] % size
            if start not in log:
                continue
            record = logs_oracle.sound(log[start], row["phy_offset"] - start, row["phy_offset"])
            assert record.size == row["size"]
            if not queue.topic.startswith("%LMQ%"):
                assert record.topic.decode() == queue.topic
                assert record.values["queue_id"] == queue.queue_id
            checked += 1
    assert checked > 30


@pytest.mark.requirement("CHK-WRT-1")
@pytest.mark.parametrize("store", STORES, ids=STORE_NAMES)
def test_the_checkpoint_of_a_stopped_store_names_its_last_messages(store: Path) -> None:
    """The times are those of records of the log, or 0 (CHK-ERR-3); what is behind is 0."""
    found = StoreCheckpoint.load(store / "checkpoint")
    times = {
        record.values["store_timestamp"]
        for path in (store / "commitlog").iterdir()
        for _, record in logs_oracle.walk(path.read_bytes(), int(path.name)).records
    }
    assert found.physic_msg_timestamp in times
    assert found.logics_msg_timestamp in {0, *times}
    rest = (store / "checkpoint").read_bytes()[48:]
    assert not any(rest)


def damaged_log(tmp_path: Path, at: int, value: bytes) -> Path:
    """Write the worked example with some bytes of its last file changed."""
    folder = tmp_path / "commitlog"
    folder.mkdir(parents=True)
    (case,) = [each for each in asked("logs") if each["name"] == "log_worked_example"]
    for file in case["files"]:
        data = bytearray.fromhex(file["hex"])
        if file is case["files"][-1]:
            data[at : at + len(value)] = value
        (folder / file["name"]).write_bytes(data)
    return folder


@pytest.mark.requirement("LOG-FIL-5")
def test_offset_0_leads_to_no_message_once_its_file_is_deleted(tmp_path: Path) -> None:
    """Nor does any other offset before the first file; its own leads to the first message."""
    folder = tmp_path / "commitlog"
    folder.mkdir()
    (case,) = [each for each in asked("recovery") if each["name"] == "recovery_first_missing"]
    for file in case["files"]:
        (folder / file["name"]).write_bytes(bytes.fromhex(file["hex"]))
    first = int(case["files"][0]["name"])
    with CommitLog(folder) as log:
        found = log.read_at([0, 1, first])
    assert found["state"].to_pylist() == ["expired", "expired", "record"]


@pytest.mark.requirement("LOG-WLK-3", "LOG-WLK-4")
def test_damage_before_newer_records_is_rejected_or_passed_over(tmp_path: Path) -> None:
    """A strict reader names field and byte, a lenient one goes on behind the record."""
    folder = damaged_log(tmp_path, 4, b"\0\0\0\1")
    with CommitLog(folder) as log:
        with pytest.raises(CorruptCommitLogError) as caught:
            list(log.scan())
        assert (caught.value.field, caught.value.byte) == ("magic_code", 4)
        every = [
            offset
            for batch in log.scan(mode="DROPMALFORMED", columns=["phy_offset"])
            for offset in batch["phy_offset"].to_pylist()
        ]
    assert 2048 not in every
    assert 2048 + 265 in every


@pytest.mark.requirement("LOG-WLK-2", "LOG-WLK-3", "LOG-WLK-4")
def test_zeros_before_newer_records_are_rejected_or_passed_over(tmp_path: Path) -> None:
    """As are zeros before bytes of no record; behind zeros up to the end of the file is nothing."""
    folder = damaged_log(tmp_path, 0, bytes(265))
    with CommitLog(folder) as log:
        with pytest.raises(CorruptCommitLogError) as caught:
            list(log.scan())
        assert (caught.value.field, caught.value.byte) == ("total_size", 0)
        assert log.max_offset > 2048 + 265
    folder = damaged_log(tmp_path / "torn", 265, bytes(60) + b"x" + bytes(1024 - 265 - 61))
    with CommitLog(folder) as log:
        with pytest.raises(CorruptCommitLogError):
            list(log.scan())
        assert log.max_offset == 2048 + 265


@pytest.mark.requirement("LOG-WLK-2")
def test_a_torn_record_at_the_end_is_the_end(tmp_path: Path) -> None:
    """A strict reader gives all records before it."""
    folder = damaged_log(tmp_path, 265 + 60, bytes(1024 - 265 - 60))
    with CommitLog(folder) as log:
        assert sum(len(batch) for batch in log.scan()) == 8
        assert log.max_offset == 2048 + 265


def numbers(rows: list[dict[str, str]]) -> dict[str, int]:
    """Return a table of constants."""
    return {row["Constant"]: int(row["Value"]) for row in rows}


def test_the_constants_of_the_log_are_those_of_the_code() -> None:
    """Magic codes, sizes and digits."""
    for name, value in numbers(spectext.table("commitlog.md", "log-constants")).items():
        if name != "DEFAULT_LOG_FILE_SIZE":
            assert getattr(record_layout, name) == value, name


def test_the_fields_of_a_record_are_those_of_the_code() -> None:
    """Each offset has a constant, and each field begins where the one before ends."""
    at = 0
    for row in spectext.table("commitlog.md", "record-fields"):
        assert int(row["Offset"]) == at
        at += int(row["Size"])
        name = {"total_size": None, "body_length": "BODY_LENGTH_OFFSET"}.get(
            row["Name"], f"{row['Name'].upper()}_OFFSET"
        )
        if name:
            assert getattr(record_layout, name) == int(row["Offset"]), row
    assert at + 1 + 2 == record_layout.MIN_RECORD_SIZE


def test_the_bits_of_the_system_flag_are_those_of_the_code() -> None:
    """Each value is what its bits are worth."""
    values = [int(row["Value"]) for row in spectext.table("commitlog.md", "sys-flag-bits")]
    assert sum(values) == 2**11 - 1
    assert {
        record_layout.COMPRESSED_FLAG,
        record_layout.BORN_HOST_V6_FLAG,
        record_layout.STORE_HOST_V6_FLAG,
        record_layout.NEED_UNWRAP_FLAG,
        record_layout.INNER_BATCH_FLAG,
        record_layout.COMPRESSION_TYPE_MASK,
    } <= set(values)


@pytest.mark.parametrize(
    ("label", "dtype"),
    [
        ("unit-fields", queue_layout.UNIT_DTYPE),
        ("batch-unit-fields", queue_layout.BATCH_UNIT_DTYPE),
    ],
)
def test_the_fields_of_a_unit_are_those_of_the_code(label: str, dtype: Any) -> None:
    """Names, offsets and sizes."""
    rows = spectext.table("consumequeue.md", label)
    assert [(row["Name"], int(row["Offset"]), int(row["Size"])) for row in rows] == [
        (name, offset, field.itemsize) for name, (field, offset) in dtype.fields.items()
    ]


def test_the_constants_of_the_queues_are_those_of_the_code() -> None:
    """Units, files, and the size of a blank unit."""
    found = numbers(spectext.table("consumequeue.md", "queue-constants"))
    assert found["UNIT_SIZE"] == queue_layout.UNIT_DTYPE.itemsize
    assert found["BATCH_UNIT_SIZE"] == queue_layout.BATCH_UNIT_DTYPE.itemsize
    for name in ("BLANK_SIZE", "DEFAULT_FILE_SIZE", "DEFAULT_BATCH_FILE_SIZE"):
        assert found[name] == getattr(queue_layout, name)
    text = (spectext.SPEC / "consumequeue.md").read_text(encoding="utf-8")
    assert f"`{queue_layout.DEFAULT_DELAY_LEVELS}`" in text


def test_the_fields_of_the_checkpoint_are_those_of_the_code() -> None:
    """The five that the code knows, and the one of newer brokers behind them."""
    rows = spectext.table("checkpoint.md", "checkpoint-file-fields")
    assert [row["Name"] for row in rows][:-1] == list(StoreCheckpoint.__slots__)
    assert [int(row["Offset"]) for row in rows] == [8 * place for place in range(6)]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_erratum_of_a_chapter_says_versions_origin_and_vectors(chapter: str) -> None:
    """Each has them, and a requirement that says what to do."""
    text = (spectext.SPEC / f"{chapter}.md").read_text(encoding="utf-8")
    sections = re.split(r"^### (?=\w+-ERR-)", text, flags=re.MULTILINE)[1:]
    assert sections
    existing = {name.partition("/")[2] for name in spectext.vectors()}
    for section in sections:
        assert re.search(r"^Versions: .+; (produced|accepted|reader)\b", section, re.MULTILINE)
        line = re.search(r"^Vectors: (.+)$", section, re.MULTILINE)
        assert line, section[:60]
        assert set(re.findall(r"`(\w+)`", line[1])) <= existing, section[:60]
        assert spectext.REQUIREMENT_NAME.search(section), section[:60]


def test_every_reject_vector_of_the_log_has_a_violation() -> None:
    """The table names all of them, and no other."""
    rows = spectext.table("commitlog.md", "log-violation-vectors")
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row["Vectors"])}
    existing = {
        name.partition("/")[2]
        for name, vector in spectext.vectors().items()
        if name.startswith("reject/") and vector["kind"] not in KINDS_OF_INDEX
    }
    assert told == existing


def test_a_record_of_the_least_size_is_sound() -> None:
    """91 bytes hold no body, no topic and no properties."""
    data = struct.pack(">ii", 91, logs_oracle.V1) + bytes(83)
    assert logs_oracle.sound(data, 0, 0).size == len(data) == record_layout.MIN_RECORD_SIZE
