"""Stores that brokers wrote for real clients: read, rebuilt and audited as those said."""

from __future__ import annotations

import base64
import json

import pyarrow as pa
import pytest

from recorded import BROKER_VERSIONS
from rmqindex import (
    CommitLog,
    ConsumeQueue,
    IndexDirectory,
    Layout,
    decode_offset_msg_id,
    decompress_body,
    inner_messages,
    rebuild_consume_queues,
    rebuild_index,
    verify,
)
from rmqindex.query.many_keys import lookup_keys
from rmqindex.store import IndexSnapshot
from trees import queue_files

VERSIONS = sorted(path.name for path in BROKER_VERSIONS.iterdir() if path.is_dir())
LONG_MAX = 2**63 - 1
ROW = {
    "topic": "topic",
    "queueId": "queue_id",
    "queueOffset": "queue_offset",
    "commitLogOffset": "phy_offset",
    "storeSize": "size",
    "sysFlag": "sys_flag",
    "flag": "flag",
    "bornTimestamp": "born_timestamp",
    "storeTimestamp": "store_timestamp",
    "bornHost": "born_host",
    "storeHost": "store_host",
    "reconsumeTimes": "reconsume_times",
    "preparedTransactionOffset": "prepared_transaction_offset",
    "keys": "keys",
    "tags": "tags",
    "uniqKey": "uniq_key",
}


@pytest.fixture(scope="module", params=VERSIONS)
def folder(request):
    """One broker's store, and what was told of it."""
    return BROKER_VERSIONS / request.param


@pytest.fixture(scope="module")
def store(folder):
    """The store itself."""
    return folder / "store"


@pytest.fixture(scope="module")
def told(folder):
    """What the clients said and the broker answered."""
    return json.loads((folder / "told.json").read_text())


@pytest.fixture(scope="module")
def rows(store):
    """Every message, as this package reads it, by its offset."""
    with CommitLog(store) as log:
        batches = log.scan(check_crc=True, decompress_body=False)
        found = [row for batch in batches for row in batch.to_pylist()]
    return {row["phy_offset"]: row for row in found}


@pytest.fixture(scope="module")
def layout(told):
    """The geometry of the index."""
    return Layout(told["settings"]["maxHashSlotNum"], told["settings"]["maxIndexNum"])


def test_messages_are_read_as_rocketmq_decodes_them(told, rows):
    """Every field of every record, whatever wrote it: a client, or the broker for it."""
    assert [each["commitLogOffset"] for each in told["messages"]] == list(rows)
    for each in told["messages"]:
        row = rows[each["commitLogOffset"]]
        assert {name: row[column] for name, column in ROW.items()} == {
            name: each.get(name) for name in ROW
        }
        assert dict(row["properties"]) == each["properties"]
        assert row["body_crc"] == each["bodyCRC"]
        assert row["body"] == base64.b64decode(each["body"])


def test_messages_are_where_their_producers_were_told(told, rows):
    """Ids lead to what was sent; each message of a batch has its own, an inner batch has one.

    5.3.3 puts the batch's own id behind that of each of its messages, and takes it for theirs.
    """
    kinds = set()
    for each in told["sent"]:
        spec, result = each["spec"], each["result"]
        ids = result.get("offsetMsgId", "")
        found = [rows[decode_offset_msg_id(one).phy_offset] for one in ids.split(",") if one]
        assert [row["msg_id"] for row in found] == [one for one in ids.split(",") if one]
        if spec["topic"] == "InnerBatches":
            (batch,) = found
            sent = [(member["keys"], member["body"].encode()) for member in spec["members"]]
            inner = inner_messages(batch["body"], batch["sys_flag"], result["queueOffset"])
            assert [(one.property("KEYS"), one.body) for one in inner] == sent
            assert batch["uniq_key"] == result["msgId"]
        elif "members" in spec:
            sent = [(member["keys"], member["body"].encode()) for member in spec["members"]]
            assert [(row["keys"], row["body"]) for row in found] == sent
            own = [row["all_uniq_keys"][0] for row in found]
            assert own == result["msgId"].split(",")
            others = {key for row in found for key in row["all_uniq_keys"][1:]}
            assert len(others) == (told["version"] == "5.3.3")
            assert {row["uniq_key"] for row in found} == (others or {*own})
        else:
            named = [row for row in rows.values() if row["uniq_key"] == result["msgId"]]
            body = (spec["body"] * spec.get("times", 1)).encode()
            assert {row["keys"] for row in named} == {spec.get("keys")}
            assert {decompress_body(row["body"], row["sys_flag"]) for row in named} == {body}
            assert all(row in named for row in found)
        kinds.add(spec["topic"])
    assert {"Orders", "Batches", "Delayed", "Transactions", "Light", "Bodies", "Retries"} <= kinds


def test_what_the_broker_wrote_by_itself_is_there(told, rows):
    """Messages that wait, halves of transactions and their ends, retries and dead letters."""
    topics = {row["topic"] for row in rows.values()}
    assert {
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "%RETRY%retriers",
        "%DLQ%retriers",
    } <= topics
    assert {each["reconsumeTimes"] for each in told["consumed"]} == {0, 1, 2}
    kept = sorted(
        (row["uniq_key"], row["reconsume_times"])
        for row in rows.values()
        if row["topic"] in {"Retries", "%RETRY%retriers"}
    )
    assert kept == sorted((each["uniqKey"], each["reconsumeTimes"]) for each in told["consumed"])


def test_the_index_is_rebuilt_byte_for_byte(store, layout, told, tmp_path):
    """With the entries of tags where the broker's version writes them."""
    has_tags = any(question[2] == "T" for question in questions_of(told))
    rebuild_index(store, tmp_path / "index", layout, index_tags=has_tags)
    rebuilt, own = (sorted((root / "index").iterdir()) for root in (tmp_path, store))
    assert [path.read_bytes() for path in rebuilt] == [path.read_bytes() for path in own]
    assert has_tags == (told["version"] == "5.5.0")


def test_consume_queues_are_rebuilt_byte_for_byte(store, told, tmp_path):
    """Plain ones, light ones, the delayed messages', and batch queues."""
    done = rebuild_consume_queues(
        store,
        tmp_path,
        file_size=told["settings"]["mappedFileSizeConsumeQueue"],
        batch_file_size=told["settings"]["mapperFileSizeBatchConsumeQueue"],
    )
    assert queue_files(tmp_path) == queue_files(store)
    assert not done.gaps
    topics = {queue.topic for queue in ConsumeQueue.find(store)}
    assert {"%LMQ%device-0", "SCHEDULE_TOPIC_XXXX", "%DLQ%retriers"} <= topics


def test_the_audit_finds_nothing_wrong(store):
    """What a broker leaves behind has no error, and nothing to be warned of."""
    findings = verify(store, store).to_pylist()
    assert [row for row in findings if row["severity"] != "info"] == []


def test_every_key_is_answered_as_the_broker_did(store, layout, told):
    """Keys, unique keys and tags, in the broker's order."""
    with IndexDirectory(store / "index", layout) as index:
        for each in told["answers"]:
            topic, key, index_type = each["question"]
            found = index.query_offset(topic, key, 32, 0, LONG_MAX, index_type).phy_offsets
            assert sorted(found) == each["offsets"], each


def test_every_key_is_found_where_its_messages_are(store, layout, told, rows):
    """Lookups that compare entries with their messages give those of the key, and no others."""
    files = IndexSnapshot.of(store, layout, "FAILFAST")
    with CommitLog(store) as log:
        for topic, key, index_type in questions_of(told):
            column = {"U": "uniq_key", "T": "tags", None: "keys"}[index_type]
            wanted = [
                offset
                for offset, row in rows.items()
                if row["topic"] == topic
                and key in ((row[column] or "").split(" ") if column == "keys" else [row[column]])
            ]
            asked = f"T#{key}" if index_type == "T" else key
            found = lookup_keys(files, log, topic, pa.array([asked]))
            assert sorted(set(found["phy_offset"].to_pylist())) == wanted, (topic, key)


def questions_of(told):
    """Return what the broker was asked: topic, key and type."""
    return [tuple(each["question"]) for each in told["answers"]]
