"""How transactions ended, as the CommitLog proves it."""

from __future__ import annotations

import base64
import json
import shutil

import pytest

from commitlog_encoder import Log, Message
from recorded import MESSAGE_KINDS
from rmqindex import CommitLog, explain_lookup, rebuild_consume_queues
from rmqindex.consumequeue import MessagePlace
from rmqindex.explanation import consumption_of
from rmqindex.storage import Location

HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
STORE = MESSAGE_KINDS / "store"
ROLLED_BACK, COMMITTED, OPEN = (232960, 24), (149385, 22), (149019, 21)


def recorded():
    """Return the messages that RocketMQ's classes stored."""
    return json.loads((MESSAGE_KINDS / "store_messages.json").read_text())["messages"]


def ends(store, *places):
    """Return how the transactions of half messages ended."""
    with CommitLog(store) as log:
        halves = [MessagePlace(HALF, 0, number, offset) for offset, number in places]
        return [*consumption_of(Location.of(store), halves, log).transactions]


def test_every_transaction_ended_as_its_broker_wrote_it():
    """An op message says that it ended; whether by a commit, the message of the commit."""
    found = {"committed": 0, "rolled_back": 0, None: 0}
    done, commits, halves = set(), set(), []
    for each in recorded():
        stored = each["decoded"]
        if each["kind"] == "op":
            done |= {int(n) for n in base64.b64decode(each["sent"]["body_b64"]).split(b",") if n}
        elif each["kind"] == "commit":
            commits.add(stored["prepared_transaction_offset"])
        elif each["kind"] == "half" and not each.get("deleted"):
            halves.append((stored["commitlog_offset"], stored["queue_offset"]))
    for (offset, number), state in zip(halves, ends(STORE, *halves), strict=True):
        expected = "committed" if offset in commits else "rolled_back"
        assert state == (expected if number in done else None)
        found[state] += 1
    assert min(found.values()) >= 5


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("915E5794EE23FAA719321EDD0000026A", "half_rolled_back"),
        ("A37ACD786519161F25CB498E00000221", "half_committed"),
        ("6EC59D80A6B14FC5AB5B2E8400000220", None),
    ],
)
def test_an_explanation_tells_it_under_the_real_topic_and_under_the_half_one(key, code):
    """The half message itself is named all the same."""
    for topic in ("TopicOrder", HALF):
        reasons = explain_lookup(STORE, topic, key, commit_log="auto").reasons
        codes = {reason.code for reason in reasons if reason.code.startswith("half_")}
        assert codes - {"half_topic"} == ({code} - {None})
    other = explain_lookup(STORE, "Other", key, commit_log="auto").reasons
    assert "half_rolled_back" not in {reason.code for reason in other}


def test_what_is_not_in_the_log_is_not_guessed(tmp_path):
    """Without the op queue, or with the log cut off or damaged before the op message."""
    assert ends(STORE, ROLLED_BACK, COMMITTED, OPEN) == ["rolled_back", "committed", None]
    store = shutil.copytree(STORE, tmp_path / "store")
    (file,) = [path for path in (store / "commitlog").iterdir() if int(path.name) == 131072]
    data = bytearray(file.read_bytes())
    place = 149699 - 131072 + 4
    data[place : place + 4] = bytes(4)
    file.write_bytes(data)
    assert ends(store, COMMITTED) == [None]
    assert ends(store, ROLLED_BACK) == ["rolled_back"]
    shutil.rmtree(store / "consumequeue" / OP)
    assert ends(store, ROLLED_BACK) == [None]


@pytest.mark.parametrize("body", [b"0,1,", b"1,0", b"0"])
def test_an_op_message_may_end_several(tmp_path, body):
    """As brokers from 5.0 on write them; one of an earlier broker has one number, bare."""
    log = Log(1 << 16)
    log.append(Message(topic=HALF, queue_offset=0))
    log.append(Message(topic=HALF, queue_offset=1))
    log.append(Message(topic="T", sys_flag=8, prepared_transaction_offset=log.offsets[1]))
    log.append(Message(topic=OP, properties=b"TAGS\1d\2", body=body))
    log.write_to(tmp_path / "commitlog")
    rebuild_consume_queues(tmp_path / "commitlog", tmp_path)
    states = ends(tmp_path, (log.offsets[0], 0), (log.offsets[1], 1))
    assert states == ["rolled_back", "committed" if b"1" in body else None]


@pytest.mark.parametrize(
    "op",
    [
        Message(topic=OP, properties=b"TAGS\1x\2", body=b"0"),
        Message(topic=OP, properties=b"TAGS\1d\2", body=b"7,"),
        Message(topic=OP, properties=b"TAGS\1d\2", body=b"\xff"),
        Message(topic=OP, properties=b"TAGS\1d\2", body=b""),
        Message(topic=OP, properties=b"TAGS\1d\2", body=b"0", queue_id=1),
    ],
)
def test_other_op_messages_end_nothing(tmp_path, op):
    """Of another tag, another half message, or another queue."""
    log = Log(1 << 16)
    log.append(Message(topic=HALF, queue_offset=0))
    log.append(op)
    log.write_to(tmp_path / "commitlog")
    rebuild_consume_queues(tmp_path / "commitlog", tmp_path)
    assert ends(tmp_path, (log.offsets[0], 0)) == [None]
