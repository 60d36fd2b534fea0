"""Whether consumers can get a message, and which groups have passed it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from rmqindex import CommitLog, ConsumeQueue, explain_lookup, sample_store, verify
from rmqindex.consumequeue import MessagePlace
from rmqindex.explanation import consumption_of
from rmqindex.explanation.consumption import consumption_reasons
from rmqindex.explanation.wording import Times
from rmqindex.storage import Location
from rmqindex.times import zone_of
from rmqindex.transaction import BrokerState

TOPIC, KEY, OFFSET = "TopicTest", "order-49", 112033
QUEUE, PLACE = 3, 54
HALF, SCHEDULE = "RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"


@pytest.fixture
def store(tmp_path):
    """A copy of the sample store, whose queues RocketMQ wrote."""
    return shutil.copytree(sample_store(), tmp_path / "store")


def config(store, name, **content):
    """Write a file of ``config/``."""
    (store / "config").mkdir(exist_ok=True)
    (store / "config" / name).write_text(json.dumps(content))


def commit(store, **groups):
    """Write what groups have committed for the message's queue."""
    table = {f"{TOPIC}@{group}": {QUEUE: offset} for group, offset in groups.items()}
    config(store, "consumerOffset.json", offsetTable=table)


def explained(store, topic=TOPIC, key=KEY):
    """Return the reasons of a key by code."""
    return {
        reason.code: reason
        for reason in explain_lookup(store, topic, key, commit_log="auto").reasons
    }


def told(store, **changed):
    """Return what is known of the message, or of one that differs from it."""
    place = MessagePlace(TOPIC, QUEUE, PLACE, OFFSET)._replace(**changed)
    found = consumption_of(Location.of(store), [place])
    return found.states[0], found


class TestQueues:
    """Where a message stands in its ConsumeQueue."""

    def test_every_message_of_the_sample_is_in_its_queue(self, store):
        """RocketMQ wrote both."""
        with CommitLog(store) as log:
            rows = [row for batch in log.scan(columns=[*MessagePlace._fields])
                    for row in batch.to_pylist()]  # fmt: skip
        found = consumption_of(Location.of(store), [MessagePlace(**row) for row in rows])
        assert {*found.states} <= {"in_queue", "no_unit"}
        in_queues = sum(batch.num_rows for queue in ConsumeQueue.find(store)
                        for batch in queue.scan())  # fmt: skip
        assert found.states.count("in_queue") == in_queues

    def test_a_lost_queue_and_a_lost_folder_are_missing(self, store):
        """They are made anew from the CommitLog."""
        shutil.rmtree(store / "consumequeue" / TOPIC / str(QUEUE))
        reason = explained(store)["queue_missing"]
        assert OFFSET in reason.phy_offsets
        assert reason.remedy == f"rmqindex rebuild-queues {store} --replace"
        shutil.rmtree(store / "consumequeue" / TOPIC)
        assert told(store)[0] == "queue_missing"

    def test_a_store_without_queues_needs_no_rebuild(self, store):
        """A broker that starts builds them all; an audit advises nothing either."""
        commit(store, g=100)
        shutil.rmtree(store / "consumequeue")
        reason = explained(store)["queue_missing"]
        assert "The store has none: its broker builds them from the log" in reason.sentence
        assert reason.remedy is None
        (advised,) = {
            row["remedy"]
            for row in verify(store, "auto").to_pylist()
            if row["rule"] == "queues_missing"
        }
        assert advised.startswith("Nothing, unless")

    def test_a_topic_that_the_broker_does_not_know_was_deleted(self, store):
        """Nothing is advised, and no group's offset is of it."""
        commit(store, g=100)
        config(store, "topics.json", topicConfigTable={"Other": {}})
        reasons = explained(store)
        assert reasons["topic_deleted"].remedy is None
        assert not {"passed", "not_passed", "no_group"} & {*reasons}

    def test_a_queue_that_ends_before_the_message(self, store):
        """It was not dispatched."""
        path = store / "consumequeue" / TOPIC / str(QUEUE) / f"{0:020d}"
        data = path.read_bytes()
        path.write_bytes(data[: PLACE * 20].ljust(len(data), b"\0"))
        assert told(store)[0] == "behind_queue"
        assert told(store, queue_offset=PLACE - 1)[0] == "other_in_queue"

    def test_a_queue_that_begins_behind_the_message(self, store):
        """Its first file has expired."""
        folder = store / "consumequeue" / TOPIC / str(QUEUE)
        data = (folder / f"{0:020d}").read_bytes()
        (folder / f"{0:020d}").unlink()
        (folder / f"{(PLACE + 1) * 20:020d}").write_bytes(data[(PLACE + 1) * 20 :])
        assert told(store)[0] == "left_queue"

    def test_another_message_in_its_place(self, store):
        """As of a topic that was made again."""
        assert told(store, phy_offset=OFFSET + 1)[0] == "other_in_queue"

    @pytest.mark.parametrize(("flag", "state"), [(4, "no_unit"), (12, "no_unit"), (8, "in_queue")])
    def test_transactions(self, store, flag, state):
        """Prepared ones and those rolled back are in no queue, committed ones are."""
        assert told(store, sys_flag=flag)[0] == state

    def test_queues_that_cannot_be_read_are_told_as_unread(self, store):
        """In RocksDB, or with a table of topics that is damaged."""
        config(store, "topics.json", other=1)
        state, found = told(store)
        assert (state, "topicConfigTable" in found.fault) == ("queue_unread", True)
        (store / "config/topics.json").unlink()
        shutil.rmtree(store / "consumequeue")
        (store / "consumequeue").mkdir()
        for name in ("CURRENT", "MANIFEST-000001"):
            (store / "consumequeue" / name).touch()
        assert told(store)[0] == "queue_unread"

    def test_a_log_alone_says_nothing(self, store):
        """It has neither queues nor ``config``."""
        shutil.rmtree(store / "consumequeue")
        assert consumption_of(Location.of(store), []) is None
        assert not {"queue_missing", "offsets_unknown"} & {*explained(store)}


class TestGroups:
    """Which consumer groups have passed a message."""

    def test_passed_is_an_offset_behind_the_message(self, store):
        """The committed offset is the next one."""
        commit(store, at=PLACE, behind=PLACE + 1, broken=1_000, never=-1)
        reasons = explained(store)
        sentence = reasons["passed"].sentence
        assert "behind (" in sentence
        assert "not proof that it was consumed" in sentence
        assert "at (" in reasons["not_passed"].sentence
        assert "never (" in reasons["not_passed"].sentence
        assert "broken (" in reasons["offset_beyond_end"].sentence
        assert told(store)[1].groups() == {
            "passed": {"behind": 1},
            "not_passed": {"at": 1, "never": 1},
            "offset_beyond_end": {"broken": 1},
        }

    def test_no_group_of_the_topic(self, store):
        """One that broadcasts is not known to the broker."""
        config(store, "consumerOffset.json", offsetTable={"Other@g": {0: 1}})
        assert "broadcasts" in explained(store)["no_group"].sentence

    @pytest.mark.parametrize("text", ["", "{", "[]"])
    def test_a_damaged_file_of_offsets_is_named(self, store, text):
        """And the rest is told."""
        config(store, "consumerOffset.json")
        (store / "config" / "consumerOffset.json").write_text(text)
        reasons = explained(store)
        assert str(store / "config" / "consumerOffset.json") in reasons["offsets_unknown"].sentence
        assert "in_queue" in reasons

    def test_no_file_of_offsets(self, store):
        """Databases in its place are named."""
        assert "has no consumerOffset.json" in explained(store)["offsets_unknown"].sentence
        folder = store / "config" / "consumerOffsets"
        folder.mkdir(parents=True)
        for name in ("CURRENT", "MANIFEST-000001"):
            (folder / name).touch()
        assert str(folder) in explained(store)["offsets_unknown"].sentence

    def test_the_backup_is_named(self, store):
        """It is older than what the broker knew."""
        commit(store, g=1)
        path = store / "config" / "consumerOffset.json"
        path.rename(f"{path}.bak")
        assert "it is older" in explained(store)["not_passed"].sentence

    def test_what_a_broker_keeps_for_later_is_for_no_group(self, store):
        """A half message is consumed once it is committed, under its own topic."""
        commit(store, g=1_000)
        place = MessagePlace(HALF, 0, 0, 0)
        found = consumption_of(Location.of(store), [place])
        assert found.groups() == {}

    @pytest.mark.parametrize(("next_offset", "code"), [(5, "delay_pending"), (6, "delay_over")])
    def test_a_delayed_message_waits_until_the_broker_has_passed_it(self, store, next_offset, code):
        """By ``delayOffset.json``, whose levels are queues of the schedule topic."""
        config(store, "delayOffset.json", offsetTable={3: next_offset})
        found = consumption_of(Location.of(store), [MessagePlace(SCHEDULE, 2, 5, 0)])
        times = Times(zone_of("UTC"), 0)
        codes = [
            reason.code for reason in consumption_reasons(found, times, None, BrokerState.STOPPED)
        ]
        assert codes == ["queue_missing", "not_for_consumers", code]
        found = replace(found, states=("in_queue",))
        codes = [
            reason.code for reason in consumption_reasons(found, times, None, BrokerState.STOPPED)
        ]
        assert codes == ["not_for_consumers", code]  # not "where consumers get it"
