"""Units of expired messages, and the order of batches: a broker that starts goes by both."""

from __future__ import annotations

from pathlib import Path

import pytest

from commitlog_encoder import Log, Message, properties_text
from rmqindex import CommitLog, ConsumeQueue, RmqIndexError, rebuild_consume_queues, verify

COUNT, FILE_SIZE = 30, 2048
KINDS = pytest.mark.parametrize("is_batch", [False, True], ids=["plain", "batch"])


def found(store):
    """Return the rule and the place of each finding about queues."""
    return [
        (row["rule"], str(Path(row["file"]).relative_to(store)), row["expected"])
        for row in verify(store, "auto").to_pylist()
        if row["rule"].startswith("queue") and row["severity"] in ("error", "warning")
    ]


def batch(place):
    """Return a message that is a batch of two."""
    numbers = properties_text([("INNER_NUM", "2"), ("INNER_BASE", str(2 * place))])
    return Message(sys_flag=0x80, properties=numbers)


def expired_store(root, is_batch, units=COUNT):
    """Write a store of one queue whose log has lost its first file.

    Return the queue, whose files have a number of units, and how many of all lead to the file.
    """
    log = Log(FILE_SIZE)
    for place in range(COUNT):
        log.append(batch(place) if is_batch else Message(queue_offset=place))
    log.write_to(root / "commitlog")
    (root / "index").mkdir()
    (root / "checkpoint").write_bytes(bytes(4096))
    rebuild_consume_queues(root, root, file_size=20 * units, batch_file_size=46 * units)
    (root / "commitlog" / f"{0:020d}").unlink()
    assert found(root) == []
    (queue,) = (queue for queue in ConsumeQueue.find(root) if queue.files)
    assert queue.is_batch == is_batch
    with CommitLog(root) as kept:
        start = kept.min_offset
    offsets = [int(offset) for rows in queue.scan() for offset in rows["phy_offset"].to_pylist()]
    return queue, sum(offset < start for offset in offsets)


def expire_all(root):
    """Let the log of a store have one message of another topic alone."""
    for path in (root / "commitlog").iterdir():
        path.unlink()
    log = Log(FILE_SIZE, start=16 * FILE_SIZE)
    log.append(Message(topic="Other"))
    log.write_to(root / "commitlog")
    rebuild_consume_queues(root, root, replace=True)
    assert found(root) == []


def file_of(queue, place):
    """Return the file of a queue that has a unit, and the byte at which it starts there."""
    byte = place * queue.unit_size
    file = [file for file in queue.files if file.start <= byte][-1]
    return Path(file.path), byte - file.start


def write_unit(queue, place, unit):
    """Overwrite one unit of a queue."""
    path, byte = file_of(queue, place)
    with path.open("r+b") as file:
        file.seek(byte)
        file.write(unit)


def unit_at(queue, place):
    """Return the bytes of one unit."""
    path, byte = file_of(queue, place)
    return path.read_bytes()[byte:][: queue.unit_size]


@KINDS
@pytest.mark.parametrize("which", ["first", "second", "last expired"])
def test_an_expired_message_without_a_unit_is_an_error(tmp_path, is_batch, which):
    """A broker that starts ends the queue there, before all the messages that the log has."""
    queue, expired = expired_store(tmp_path, is_batch)
    place = {"first": 0, "second": 1, "last expired": expired - 1}[which]
    write_unit(queue, place, bytes(queue.unit_size))
    ((rule, name, expected),) = found(tmp_path)
    assert (rule, name) == (
        "queue_unit_missing",
        f"{'batch' * is_batch}consumequeue/TopicTest/0",
    )
    if is_batch:
        place = max(2 * place + 1, 1)
    assert expected == f"the unit of an expired message, queue offset {place}"
    rebuild_consume_queues(tmp_path, tmp_path, replace=True)
    assert found(tmp_path) == []


@KINDS
def test_a_file_that_another_follows_has_a_unit_in_each_place(tmp_path, is_batch):
    """The place of an expired message may be the last of a file."""
    queue, expired = expired_store(tmp_path, is_batch, units=2)
    place = (expired - 2) // 2 * 2 + 1
    write_unit(queue, place, bytes(queue.unit_size))
    ((rule, _, expected),) = found(tmp_path)
    place = 2 * place + 1 if is_batch else place
    assert (rule, expected) == (
        "queue_unit_missing",
        f"the unit of an expired message, queue offset {place}",
    )
    rebuild_consume_queues(tmp_path, tmp_path, replace=True)
    assert found(tmp_path) == []


@KINDS
def test_the_last_unit_counts_where_all_has_expired(tmp_path, is_batch):
    """No message of the log tells that the queue goes on."""
    queue, _ = expired_store(tmp_path, is_batch)
    expire_all(tmp_path)
    unit = bytearray(unit_at(queue, COUNT - 1))
    unit[8:12] = bytes(4)  # its size
    write_unit(queue, COUNT - 1, unit)
    ((rule, _, expected),) = found(tmp_path)
    place = 2 * (COUNT - 1) if is_batch else COUNT - 1
    assert (rule, expected) == (
        "queue_unit_missing",
        f"the unit of an expired message, queue offset {place}",
    )


@KINDS
def test_the_first_message_of_the_log_is_told_by_itself(tmp_path, is_batch):
    """It is in the log, so that its unit is not that of an expired one."""
    queue, expired = expired_store(tmp_path, is_batch)
    write_unit(queue, expired, bytes(queue.unit_size))
    ((rule, _, expected),) = found(tmp_path)
    assert rule == "queue_unit_missing"
    assert "expired" not in expected


def exchange(queue, first, second):
    """Exchange two units of a queue."""
    units = unit_at(queue, first), unit_at(queue, second)
    write_unit(queue, second, units[0])
    write_unit(queue, first, units[1])


@KINDS
@pytest.mark.parametrize("pair", ["of the log", "of both"])
def test_units_in_another_order_are_an_error(tmp_path, is_batch, pair):
    """A broker looks for a queue offset or a time between those of the first and the last."""
    queue, expired = expired_store(tmp_path, is_batch)
    places = (expired + 1, expired + 4) if pair == "of the log" else (expired - 1, expired)
    exchange(queue, *places)
    assert {each[0] for each in found(tmp_path)} == {"queue_unit"}
    rebuild_consume_queues(tmp_path, tmp_path, replace=True)
    assert found(tmp_path) == []


@KINDS
def test_the_order_of_expired_messages_changes_no_answer(tmp_path, is_batch):
    """A rebuild puts their batches in order."""
    queue, _ = expired_store(tmp_path, is_batch)
    exchange(queue, 1, 2)
    assert found(tmp_path) == []
    rebuild_consume_queues(tmp_path, tmp_path, replace=True)
    assert found(tmp_path) == []


@KINDS
@pytest.mark.parametrize("which", ["first", "last expired"])
@pytest.mark.parametrize("place", ["next", "of the last message"])
def test_an_expired_unit_behind_those_of_the_log_is_an_error(tmp_path, is_batch, which, place):
    """A broker that starts takes it for the last of the expired ones, and all before for those."""
    queue, expired = expired_store(tmp_path, is_batch, units=COUNT + 5)
    copied = unit_at(queue, {"first": 0, "last expired": expired - 1}[which])
    before = Path(queue.files[0].path).read_bytes()
    write_unit(queue, COUNT if place == "next" else COUNT - 1, copied)
    assert found(tmp_path)
    rebuild_consume_queues(tmp_path, tmp_path, replace=True)
    assert found(tmp_path) == []
    assert Path(queue.files[0].path).read_bytes() == before


@pytest.mark.parametrize("place", [1, 3])
def test_a_batch_of_which_a_copy_stands_elsewhere_has_its_place_alone(tmp_path, place):
    """Where it is no answer's, no error tells of it, and a rebuild leaves it out."""
    queue, expired = expired_store(tmp_path, is_batch=True)
    write_unit(queue, place, unit_at(queue, place - 1))
    rebuild_consume_queues(tmp_path, tmp_path, replace=True)
    assert found(tmp_path) == []
    bases = [int.from_bytes(unit_at(queue, at)[28:36], "big") for at in range(expired - 1)]
    assert bases == sorted({*range(0, 2 * expired, 2)} - {2 * place})


def test_the_last_batch_counts_where_all_has_expired_in_another_order(tmp_path):
    """It tells the next queue offset."""
    queue, _ = expired_store(tmp_path, is_batch=True)
    expire_all(tmp_path)
    exchange(queue, COUNT - 2, COUNT - 1)
    assert {each[0] for each in found(tmp_path)} == {"queue_unit"}
    rebuild_consume_queues(tmp_path, tmp_path, replace=True)
    assert found(tmp_path) == []
    assert unit_at(queue, COUNT - 1)[28:36] == (2 * (COUNT - 1)).to_bytes(8, "big")


def test_an_expired_batch_with_a_queue_offset_of_the_log_is_dropped(tmp_path):
    """A broker would look for the messages of the log before it; a rebuild must be told to."""
    queue, _ = expired_store(tmp_path, is_batch=True)
    unit = bytearray(unit_at(queue, 2))
    unit[28:36] = (1 << 40).to_bytes(8, "big")
    write_unit(queue, 2, unit)
    assert {each[0] for each in found(tmp_path)} == {"queue_unit", "queue_left_out"}
    remedies = verify(tmp_path, "auto")["remedy"].to_pylist()
    assert all("rebuild-queues STORE --replace --allow-loss" in each for each in remedies)
    with pytest.raises(RmqIndexError, match="got none of 1 of their 30 units"):
        rebuild_consume_queues(tmp_path, tmp_path, replace=True)
    rebuild_consume_queues(tmp_path, tmp_path, replace=True, allow_loss=True)
    assert found(tmp_path) == []


def test_a_folder_without_files_is_of_a_kind_too(tmp_path):
    """A broker that starts compares it with the topic's."""
    expired_store(tmp_path, is_batch=True)
    Path(tmp_path / "consumequeue/TopicTest/0").mkdir(parents=True)
    assert [each[:2] for each in found(tmp_path)] == [("queue_kind", "consumequeue/TopicTest/0")]
    rebuild_consume_queues(tmp_path, tmp_path, replace=True)
    assert found(tmp_path) == []


def test_a_light_queue_outlives_the_topic_of_its_messages(tmp_path):
    """Who deletes the topic leaves it as it is."""
    names = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "0"}
    log = Log(FILE_SIZE)
    log.append(Message(topic="Gone", properties=properties_text(list(names.items()))))
    log.append(Message())
    log.write_to(tmp_path / "commitlog")
    (tmp_path / "index").mkdir()
    (tmp_path / "checkpoint").write_bytes(bytes(4096))
    rebuild_consume_queues(tmp_path, tmp_path, file_size=2000, leave_out=["Gone"])
    (tmp_path / "config").mkdir()
    (tmp_path / "config/topics.json").write_text('{"topicConfigTable": {"TopicTest": {}}}')
    topics = ["%LMQ%a", "TopicTest"]
    assert [queue.topic for queue in ConsumeQueue.find(tmp_path)] == topics
    assert found(tmp_path) == []
    rebuild_consume_queues(tmp_path, tmp_path, replace=True)
    assert [queue.topic for queue in ConsumeQueue.find(tmp_path)] == topics
