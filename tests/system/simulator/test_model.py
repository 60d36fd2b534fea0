"""The model itself: what it writes is what RocketMQ wrote, and what it keeps is on the disk."""

from __future__ import annotations

import ast
import json
import struct
from pathlib import Path

import pytest

from recorded import BROKER_VERSIONS, MESSAGE_KINDS, ROCKETMQ_CLASSES, STORE_KINDS
from rmqindex import sample_store

from .history import History, World, run_history
from .model import records
from .model.broker import Config, ModelBroker, run
from .model.disk import Disk
from .model.index import IndexFile, key_hash
from .model.records import BLANK, check, encode, keys_of, properties_of
from .model.truth import Message

VERSIONS = {"4.9.7": (4, 9), "5.3.3": (5, 3), "5.5.0": (5, 5)}
STORES = {
    "sample": sample_store(),
    "kinds": MESSAGE_KINDS / "store",
    **{name: BROKER_VERSIONS / name / "store" for name in VERSIONS},
}


def records_of(folder, head=0):
    """Yield offset, bytes and the model's record of every record of a log."""
    for path in sorted(folder.iterdir()):
        data, at = path.read_bytes(), 0
        while True:
            checked = check(data, at + head)
            if checked.size <= 0:
                break
            at += head
            yield int(path.name) + at, data[at : at + checked.size], checked.record
            at += checked.size


def message_of(record, offset, size):
    """Return the message of a record, as far as queues and index need it."""
    read = properties_of(record.properties)
    count = int(read.get("INNER_NUM", "0"))
    return Message(
        offset=offset,
        size=size,
        store_time=record.store_time,
        topic=record.topic,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        keys=keys_of(read),
        tags=read.get("TAGS"),
        body=b"",
        kind="",
        sys_flag=record.sys_flag,
        properties=tuple(read.items()),
        inner=(None,) * count,
    )


@pytest.mark.parametrize("name", STORES)
def test_each_record_is_encoded_as_the_broker_did(name):
    """Decoded and encoded anew, every record of RocketMQ's stores is the same."""
    count = 0
    for offset, data, record in records_of(STORES[name] / "commitlog"):
        assert encode(record, offset) == data
        count += 1
    assert count


@pytest.mark.parametrize("kind", ["dledger", "dledger_batches"])
def test_records_of_dledger_stand_behind_heads(kind):
    """The same for the entries of DLedger."""
    folder = STORE_KINDS / kind / "store" / "dledger-n0" / "data"
    found = [encode(record, offset) == data for offset, data, record in records_of(folder, 48)]
    assert found
    assert all(found)


def test_hashes_are_those_of_the_broker():
    """The hash of a key is Java's, made positive."""
    for case in json.loads((ROCKETMQ_CLASSES / "hashes.json").read_text()):
        assert key_hash(case["key"]) == case["index_hash"]


def test_an_index_file_is_the_brokers_byte_for_byte(tmp_path):
    """What puts leave in a file."""
    cases = json.loads((ROCKETMQ_CLASSES / "vectors.json").read_text())
    for case in cases:
        disk = Disk(tmp_path / case["name"])
        file = IndexFile(disk, "1", case["hash_slot_num"], case["index_num"])
        run(file.create(case["prev_end_phy_offset"], case["prev_end_timestamp"]))
        for put in case["puts"]:
            if put.get("reopen"):
                run(file.flush())
                file = IndexFile(disk, "1", file.slots, file.places)
                file.load()
            elif not file.is_full:
                key = put["key"]
                run(file.put(key_hash(key), put["phy_offset"], put["store_timestamp"]))
        run(file.flush())
        assert disk.read("index/1").hex() == case["file_hex"], case["name"]
        disk.close()


@pytest.mark.parametrize("name", VERSIONS)
def test_a_store_is_the_brokers_byte_for_byte(name, tmp_path):
    """From the messages of a log, index and queues are as a whole broker wrote them."""
    store = STORES[name]
    size = (store / "commitlog" / f"{0:020d}").stat().st_size
    batch_topics = {path.name for path in (store / "batchconsumequeue").glob("*")}
    config = Config(VERSIONS[name], size, 100, 20, 97, 200, batch_topics=batch_topics)
    broker = ModelBroker(tmp_path / "store", config, 1_700_000_000_000)
    run(broker.start())
    for offset, data, record in records_of(store / "commitlog"):
        broker.waiting.append(message_of(record, offset, len(data)))
    run(broker.dispatch())
    run(broker.stop())
    for part in ("consumequeue", "batchconsumequeue"):
        for path in sorted((store / part).rglob("0" * 10 + "*")):
            mine = broker.root / path.relative_to(store)
            assert mine.read_bytes() == path.read_bytes(), path
    mine, theirs = (sorted((root / "index").iterdir()) for root in (broker.root, store))
    assert [path.read_bytes() for path in mine] == [path.read_bytes() for path in theirs]


@pytest.mark.parametrize("seed", range(6))
def test_what_the_model_keeps_is_on_the_disk(seed, tmp_path):
    """After each step, the lists that steps keep are those that the files give."""
    history = History.of(f"kept/{seed}", 40)
    world = World(tmp_path, history.config)
    for step in history.steps:
        world.take(step)
        kept = {kind: set(world.truth.surely(kind)) for kind in ("messages", "entries", "units")}
        most = {kind: world.truth.possibly(kind) for kind in kept}
        world.adopt()
        for kind, known in kept.items():
            assert set(world.truth.surely(kind)) <= most[kind], step
            assert known <= world.truth.possibly(kind), step
    world.broker.kill()


def test_a_history_is_replayed_to_the_same_bytes(tmp_path):
    """A history is data: what is read from its text leaves the same files."""
    history = History.of("replayed", 60)
    for name in ("a", "b"):
        run_history(History.read(history.text()), tmp_path / name).broker.kill()
    files = [
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (tmp_path / "a", tmp_path / "b")
    ]
    assert files[0]
    assert files[0] == files[1]


def test_the_lock_is_held_from_start_to_end(tmp_path):
    """A second broker does not start, until the first one is killed."""
    first, second = (World(tmp_path).broker for _ in range(2))
    run(first.start())
    run(second.start())
    assert (first.truth.running, second.truth.running, second.failure) == (True, False, "locked")
    first.kill()
    run(second.start())
    assert second.truth.running
    second.kill()


@pytest.mark.parametrize(("at", "is_read"), [(0, False), (8, False), (40, True), (44, False)])
def test_a_reader_may_pass_over_a_record_behind_a_damaged_head(at, is_read, tmp_path):
    """It is there still, but its entry is none; nobody reads the head's CRCs."""
    broker = ModelBroker(tmp_path, Config((5, 3), 4096, 10, 8, 17, 29, dledger=True), 1_700_000_000)
    run(broker.start())
    run(broker.put({"topic": "Orders", "queue": 0, "properties": [], "body": ""}))
    run(broker.stop())
    (message,) = broker.truth.messages
    path = tmp_path / "dledger-n0" / "data" / f"{0:020d}"
    data = path.read_bytes()
    path.write_bytes(data[:at] + b"\x7f" * 4 + data[at + 4 :])
    broker.refresh()
    found = (broker.truth.messages, broker.truth.altered)
    assert found == (([message], []) if is_read else ([], [message]))


@pytest.mark.parametrize("seed", range(6))
def test_entries_of_dledger_are_numbered_without_gaps(seed, tmp_path):
    """Whatever was cut, expired and recovered, each entry has the next number and its place."""
    history = History.of(f"dledger/{seed}", 60)
    history.config["dledger"] = True
    steps = [step for step in history.steps if step["name"] != "damage"]
    world = run_history(History(history.config, [*steps, {"name": "start"}]), tmp_path)
    world.broker.kill()
    before = None
    for path in sorted((tmp_path / "store" / "dledger-n0" / "data").glob("*")):
        data, at = path.read_bytes(), 0
        while at + 48 <= len(data):
            magic, size, number, _, place = struct.unpack_from(">iiqqq", data, at)
            if magic not in {1, 2} or int(path.name) + at >= world.broker.end:
                break
            assert (place, number) == (
                int(path.name) + at,
                number if before is None else before + 1,
            )
            before, at = number, at + size


def test_blank_records_end_files(tmp_path):
    """A record that does not fit begins the next file."""
    world = World(tmp_path, {"log_file_size": 1024})
    world.take({"name": "start"})
    for _ in range(8):
        world.take({"name": "put", "topic": "T", "body": "00" * 200})
    files = sorted((world.store / "commitlog").iterdir())
    assert len(files) > 1
    data = files[0].read_bytes()
    end = [one for one in world.truth.messages if one.offset < 1024][-1]
    at = end.offset + end.size
    assert struct.unpack_from(">iI", data, at) == (1024 - at, BLANK)
    world.broker.kill()


def test_the_model_shares_no_code_with_the_package():
    """What judges is not what is judged."""
    for path in sorted((Path(__file__).parent / "model").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            used = {name.split(".")[0] for name in names}
            assert not used & {"rmqindex", "pyspark_rmqindex", "numpy", "pyarrow"}, path


def test_a_truncation_leaves_bytes_until_they_are_written_over(tmp_path):
    """Whoever cuts the log, or starts behind half a record, the model knows what is left."""
    world = World(tmp_path)
    world.take({"name": "start"})
    put = {"name": "put", "topic": "T", "body": "00" * 20}
    seen = []
    for step in (put, put, {"name": "cut", "messages": 1}, put):
        world.take(step)
        seen.append(world.truth.has_remains)
    assert seen == [False, False, True, False]
    world.take({"name": "kill", "during": put, "after": 0})
    assert world.truth.has_remains
    world.take({"name": "start"})
    assert world.truth.has_remains
    world.broker.kill()


@pytest.mark.parametrize(("number", "is_odd"), [("1", False), ("+-5", True), ("7", True)])
def test_a_light_queue_has_its_unit_at_the_next_place(number, is_odd, tmp_path):
    """Whatever number a client wrote, and none where no broker reads it."""
    world = World(tmp_path)
    world.take({"name": "start"})
    for given in ("0", number):
        properties = [["INNER_MULTI_DISPATCH", "%LMQ%a"], ["INNER_MULTI_QUEUE_OFFSET", given]]
        world.take({"name": "put", "topic": "T", "properties": properties})
    last = world.truth.messages[-1]
    assert world.truth.misnumbered() == ({last.offset: ["%LMQ%a"]} if is_odd else {})
    world.broker.kill()


def test_a_restored_index_has_the_geometry_of_its_time(tmp_path):
    """Though the store was laid out anew in between."""
    world = World(tmp_path, {"slots": 16, "places": 20})
    put = {"name": "put", "topic": "T", "properties": [["KEYS", "a"]]}
    for step in ({"name": "start"}, put, {"name": "stop"}, {"name": "backup", "to": "monday"}):
        world.take(step)
    world.broker.config.slots, world.broker.config.places = 5, 9
    world.take({"name": "restore", "index": "monday"})
    truth = world.truth
    assert (truth.hash_slot_num, truth.index_num, len(truth.entries)) == (16, 20, 1)


@pytest.mark.parametrize(("topics", "goes_on"), [("AAA", False), ("ABA", True)])
def test_units_from_before_a_cut_may_follow_one_of_the_log(topics, goes_on, tmp_path):
    """Unless the unit before them leads to where another message stands now."""
    world = World(tmp_path)
    world.take({"name": "start"})
    for topic in topics:
        world.take({"name": "put", "topic": topic, "body": "00" * 40})
    for step in ({"name": "cut", "messages": 2}, {"name": "put", "topic": "C", "wait": 7}):
        world.take(step)
    assert world.truth.seems_to_go_on == goes_on
    world.broker.kill()


@pytest.mark.parametrize("body", ["01", "00"], ids=["of another end", "of the same end"])
def test_a_message_may_be_read_as_a_mixture_with_the_one_that_it_replaces(tmp_path, body):
    """While it is written over one that was cut, from its end on."""
    world = World(tmp_path)
    world.take({"name": "start"})
    put = {"name": "put", "topic": "T", "body": "00" * 20, "dispatch": False}
    world.take(put)
    world.take({"name": "cut", "messages": 1})
    step = world.step({**put, "body": body * 20, "tail_first": True, "cut": 60})
    times = [{one.store_time - world.broker.now for one in world.truth.maybe} for _ in step]
    assert times == [{-1, 0}, {0}]
    assert world.truth.maybe == set()


def test_a_unit_whose_message_another_replaced_is_stale(tmp_path):
    """A broker that starts takes it for the end of the queue."""
    world = World(tmp_path)
    put = {"name": "put", "topic": "A", "body": "00" * 40}
    steps = ({"name": "cut", "messages": 1}, put | {"topic": "B"}, {"name": "stop"})
    for step in ({"name": "start"}, put, put, *steps, {"name": "start"}):
        world.take(step)
    assert world.truth.states == {"abort", "torn", "queues_stale", "no_index"}
    assert not world.truth.has_remains
    world.broker.kill()


def test_a_log_that_was_plain_goes_on_with_dledger_whatever_was_lost_of_it(tmp_path):
    """A broker looks for the end in the files of DLedger alone."""
    world = World(tmp_path)
    put = {"name": "put", "topic": "T", "body": "00" * 20}
    for step in ({"name": "start"}, put, {"name": "stop"}, {"name": "start", "dledger": True}, put):
        world.take(step)
    first, second = world.truth.messages
    world.take({"name": "kill"})
    (plain,) = (world.store / "commitlog").iterdir()
    data = plain.read_bytes()
    plain.write_bytes(data[: first.size] + bytes(len(data) - first.size))  # without its blank
    world.take({"name": "start"})
    world.take(put)
    assert world.truth.messages[:2] == [first, second]
    assert world.truth.messages[2].offset == second.offset + second.size + 48
    world.broker.kill()


@pytest.mark.parametrize("agreed", [0, 1])
def test_a_new_leader_has_what_the_group_agreed_on(agreed, tmp_path):
    """Be it nothing."""
    world = World(tmp_path, {"dledger": True})
    put = {"name": "put", "topic": "A"}
    steps = ({"name": "start"}, *[put] * agreed, {"name": "isolate"}, put, {"name": "elect"})
    for step in steps:
        world.take(step)
    assert len(world.truth.messages) == agreed
    world.broker.kill()


def test_a_head_that_a_kill_left_before_an_older_message_alters_it(tmp_path):
    """DLedger writes it over the one from before a cut, and no CRC of it tells."""
    world = World(tmp_path, {"dledger": True})
    put = {"name": "put", "topic": "A", "body": "00" * 40}
    longer = put | {"body": "01" * 50, "cut": 30}
    kill = {"name": "kill", "during": longer, "after": 0}
    lost = (put, {"name": "isolate"}, put, {"name": "elect"})
    for step in ({"name": "start"}, *lost, kill, {"name": "start"}):
        assert "altered" not in world.truth.states
        world.take(step)
    assert "altered" in world.truth.states
    world.broker.kill()


def test_a_checkpoint_is_damaged_while_a_field_of_it_is(tmp_path):
    """Commands write one field of it, and a broker those of its version."""
    world = World(tmp_path)
    for step in ({"name": "start"}, {"name": "put", "topic": "T"}, {"name": "stop"}):
        world.take(step)
    world.take({"name": "damage", "part": "checkpoint", "kind": "noise", "number": 0, "at": 0,
                "size": 48})  # fmt: skip
    path = world.store / "checkpoint"
    for at in range(0, 48, 8):
        assert len(world.damages) == 1
        data = path.read_bytes()
        path.write_bytes(data[:at] + bytes(7) + b"\1" + data[at + 8 :])
        world.adopt()
    assert world.damages == []


@pytest.mark.parametrize("again", [False, True])
def test_entries_stand_twice_whatever_a_message_that_is_rolled_back_repeats(again, tmp_path):
    """It has no entries, so its keys are no reason for two of another message."""
    world = World(tmp_path, {})
    for flags in (0, records.ROLLBACK):
        world.take({"name": "start"})
        sent = {"topic": "Orders", "queue": 0, "properties": [["KEYS", "k0 k1 k1"]], "body": "00"}
        world.take({"name": "put", "flags": flags, **sent})
    truth = world.truth
    truth.entries += truth.entries[:1] if again else []
    assert ("doubled" in truth.states) == again
