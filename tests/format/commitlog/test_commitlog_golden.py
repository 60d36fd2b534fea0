"""Every record of two stores that RocketMQ itself wrote."""

from __future__ import annotations

import base64
import json

import pytest

from recorded import MESSAGE_KINDS
from rmqindex import CommitLog, decompress_bodies, decompress_body, inner_messages, sample_store

SAME_NAMES = (
    "topic",
    "uniq_key",
    "keys",
    "tags",
    "queue_id",
    "queue_offset",
    "sys_flag",
    "flag",
    "born_timestamp",
    "store_timestamp",
    "body_crc",
    "reconsume_times",
    "prepared_transaction_offset",
)


@pytest.fixture(scope="module", params=["sample", "second"])
def store(request, golden):
    """A log and what RocketMQ says of it."""
    if request.param == "sample":
        return CommitLog(sample_store()), json.loads((golden / "store_messages.json").read_text())
    messages = json.loads((MESSAGE_KINDS / "store_messages.json").read_text())
    return CommitLog(MESSAGE_KINDS / "store"), messages


@pytest.fixture(scope="module")
def rows(store):
    """All messages of the log, with their CRCs checked."""
    batches = store[0].scan(check_crc=True, decompress_body=False)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def messages(store):
    """What RocketMQ says of those that are still there."""
    return [message for message in store[1]["messages"] if not message.get("deleted")]


def test_every_record_is_found_and_no_other(rows, messages):
    """In the order of their offsets."""
    assert [row["phy_offset"] for row in rows] == [m["phy_offset"] for m in messages]


def test_every_field_is_what_message_decoder_reads(rows, messages):
    """Times, hosts, flags, sizes, ids, properties and bodies."""
    for row, message in zip(rows, messages, strict=True):
        decoded = message["decoded"]
        assert {name: row[name] for name in SAME_NAMES} == {n: decoded[n] for n in SAME_NAMES}
        assert row["size"] == decoded["store_size"]
        assert "/" + row["born_host"] == decoded["born_host"]
        assert "/" + row["store_host"] == decoded["store_host"]
        assert row["msg_id"] == message["offset_msg_id"]
        assert dict(row["properties"]) == decoded["properties"]
        assert row["body"] == base64.b64decode(decoded["stored_body_b64"] or "")
        assert row["magic_code"] == message.get("magic", row["magic_code"])


def test_bodies_unpack_to_what_was_sent(rows, messages):
    """LZ4, ZSTD, ZLIB, and ZLIB without type bits; one by one and all at once."""
    sent = [base64.b64decode(m["sent"]["body_b64"] or "") for m in messages]
    assert [decompress_body(row["body"], row["sys_flag"]) for row in rows] == sent


def test_bodies_are_read_as_they_were_sent(store, messages):
    """By a scan and by offset, without being asked to unpack them."""
    sent = [base64.b64decode(m["sent"]["body_b64"] or "") for m in messages]
    scanned = [body for batch in store[0].scan(columns=["body"]) for body in batch["body"]]
    assert [body.as_py() for body in scanned] == sent
    read = store[0].read_at([m["phy_offset"] for m in messages], ["body"])
    assert read.column("body").to_pylist() == sent


def test_bodies_of_a_batch_unpack_at_once(store, messages):
    """What is not compressed stays."""
    sent = [base64.b64decode(m["sent"]["body_b64"] or "") for m in messages]
    unpacked = []
    for batch in store[0].scan(columns=["body", "sys_flag"], decompress_body=False):
        bodies = decompress_bodies(batch["body"], batch["sys_flag"].to_pylist())
        unpacked += bodies.to_pylist()
    assert unpacked == sent


def test_all_values_of_a_repeated_name_are_there(rows, messages):
    """In byte order, so that the ids of a batch's parts are not lost."""
    for row, message in zip(rows, messages, strict=True):
        pairs = message.get("properties_raw")
        if pairs is None:
            continue
        for column, name in (("all_uniq_keys", "UNIQ_KEY"), ("all_keys", "KEYS")):
            assert row[column] == [value for found, value in pairs if found == name and value]


def test_inner_batches_hold_their_messages(rows, messages):
    """Plain and compressed; WAIT is what RocketMQ adds while it unwraps them."""
    for row, message in zip(rows, messages, strict=True):
        found = inner_messages(row["body"], row["sys_flag"], row["queue_offset"])
        expected = message.get("inner_messages") or []
        assert [
            {
                "queue_offset": inner.queue_offset,
                "properties": dict(inner.properties) | {"WAIT": "true"},
                "body_b64": base64.b64encode(inner.body).decode(),
            }
            for inner in found
        ] == expected


def test_the_log_ends_where_the_broker_says(store):
    """And starts with the first file that is left."""
    log, facts = store
    assert (log.min_offset, log.max_offset) == (
        facts.get("min_phy_offset", 0),
        facts["max_phy_offset"],
    )
    assert log.mapped_file_size == facts["config"]["mapped_file_size_commitlog"]
    assert log.gaps == ()


def test_records_end_at_the_blank_ones(store, rows):
    """What stale bytes stand behind them is not read."""
    log, facts = store
    for blank in facts.get("blank_records", []):
        start = int(blank["file"])
        (file,) = [file for file in log.files if file.start == start]
        last = max(
            (r for r in rows if start <= r["phy_offset"] < file.stop), key=lambda r: r["phy_offset"]
        )
        assert last["phy_offset"] + last["size"] == start + blank["blank_at"]
        assert file.size - blank["blank_at"] == blank["blank_size"]


def test_any_offset_gives_its_record(store, rows):
    """Also shuffled and repeated; messages of deleted files are expired."""
    log, facts = store
    offsets = [m["phy_offset"] for m in facts["messages"]] * 2
    offsets.sort(key=lambda offset: offset * 7919 % 1009)
    by_offset = {row["phy_offset"]: row for row in rows}
    read = log.read_at(offsets, check_crc=True, decompress_body=False)
    for offset, row in zip(offsets, read.to_pylist(), strict=True):
        state = row.pop("state")
        assert state == ("record" if offset in by_offset else "expired")
        assert row == by_offset.get(offset, dict.fromkeys(row))


def test_offsets_between_records_give_none(store, rows):
    """Every byte of the log is asked for."""
    log, _ = store
    offsets = list(range(log.min_offset, log.max_offset))
    found = log.read_at(offsets, ["phy_offset"])
    assert found["phy_offset"].drop_null().to_pylist() == [row["phy_offset"] for row in rows]
    assert set(found["state"].to_pylist()) == {"record", "not_a_record"}
