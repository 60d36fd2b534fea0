"""``rmqindex groups``, and what ``cat`` says of consumers."""

from __future__ import annotations

import csv
import io
import json
import shutil

import pytest

from rmqindex import sample_store

MESSAGE = "112033"  # in queue 3 of TopicTest, at queue offset 54


@pytest.fixture
def store(tmp_path):
    """A copy of the sample store, with offsets as fastjson writes them."""
    root = shutil.copytree(sample_store(), tmp_path / "store")
    (root / "config").mkdir()
    text = '{"offsetTable":{"TopicTest@pay":{3:55},"TopicTest@ship":{3:54,1:9999}}}'
    (root / "config" / "consumerOffset.json").write_text(text)
    return root


class TestGroups:
    """Each form tells each queue, the totals, and what was not read."""

    def test_text_has_the_queues_the_totals_and_the_states(self, run, store):
        """It fits a terminal of 80 columns."""
        _, out, _ = run("groups", store)
        assert max(map(len, out.splitlines()[:12])) <= 80
        assert "beyond_end: The group's offset lies behind the queue's end" in out
        assert "2 groups, lag" in out

    def test_what_a_negative_lag_takes_off_the_sum_is_said(self, run, store):
        """RocketMQ adds it as it is, so that a group may seem to have passed everything."""
        out = " ".join(run("groups", store, "--group", "ship")[1].split())
        rows = json.loads(run("groups", store, "--group", "ship", "--json")[1])["rows"]
        lags = [row["lag"] for row in rows]
        assert min(lags) < 0
        assert f"1 group, lag {sum(lags)};" in out
        rest = sum(lag for lag in lags if lag > 0)
        assert f"without 1 such queue, the lag is {rest}." in out
        assert "negative lag" not in run("groups", store, "--group", "pay")[1]

    def test_a_lag_that_is_not_known_is_not_called_none(self, run, store):
        """The total has a dash, and the last line counts such queues."""
        text = '{"offsetTable":{"Nowhere@pay":{0:3},"TopicTest@pay":{3:57}}}'
        (store / "config" / "consumerOffset.json").write_text(text)
        out = run("groups", store, "--topic", "Nowhere")[1]
        assert out.splitlines()[6].split() == ["pay", "Nowhere", "1", "-", "0"]
        assert "1 group, lag 0, not known of 1 queue; offsets of" in out

    def test_json_has_rows_and_totals(self, run, store):
        """And from where the offsets are."""
        found = json.loads(run("groups", store, "--group", "pay", "--json")[1])
        assert found["offsets_path"] == str(store / "config" / "consumerOffset.json")
        row = next(row for row in found["rows"] if row["queue_id"] == 3)
        assert (row["committed_offset"], row["max_offset"], row["lag"]) == (55, 57, 2)
        (total,) = found["totals"]
        assert total["lag"] == sum(row["lag"] for row in found["rows"])

    def test_csv_has_a_line_for_each_queue(self, run, store):
        """Empty where nothing is known."""
        rows = [*csv.DictReader(io.StringIO(run("groups", store, "--csv")[1]))]
        assert [(row["group"], row["queue_id"]) for row in rows if row["committed_offset"]] == [
            ("pay", "3"), ("ship", "1"), ("ship", "3"),
        ]  # fmt: skip

    def test_nothing_asked_for_is_there(self, run, store):
        """The exit code is 1."""
        code, out, err = run("groups", store, "--topic", "Nope")
        assert (code, out) == (1, "")
        assert "no consumer group has an offset of the topic Nope in " in err
        assert "only of " in err
        assert "TopicTest" in err

    def test_a_group_that_was_misspelt_is_told_from_those_that_are_there(self, run, store):
        """Not that there is none."""
        code, _, err = run("groups", store, "--group", "Pay")
        assert code == 1
        assert "no consumer group Pay in " in err
        assert "which has pay, ship" in err
        code, _, err = run("groups", store, "--group", "pay", "--topic", "Nope")
        assert code == 1
        assert "the consumer group pay has no offset of the topic Nope in " in err

    @pytest.mark.parametrize("text", ["", "{]", '{"offsetTable":{"T@g":{0:"x"}}}'])
    def test_damage_is_one_line(self, run, store, text):
        """With the file's name; its backup is read in its place, and that is said."""
        path = store / "config" / "consumerOffset.json"
        shutil.copy(path, f"{path}.bak")
        path.write_text(text)
        code, _, err = run("groups", store)
        assert (code, f"{path}: expected a JSON object" in err) == (0, True)
        (store / "config" / "consumerOffset.json.bak").unlink()
        code, out, err = run("groups", store)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert str(path) in err


class TestCat:
    """A message with its place in its queue, and the groups."""

    def test_text_and_json_and_csv_name_the_groups(self, run, store):
        """Those that have passed it, and those that have not."""
        out = run("cat", store, MESSAGE)[1]
        assert "passed                      pay (next is 55)" in out
        assert "not_passed                  ship (next is 54)" in out
        found = json.loads(run("cat", store, MESSAGE, "--json")[1])
        assert found["queue_state"] == "in_queue"
        assert found["passed"] == [{"group": "pay", "committed_offset": 55}]
        assert found["not_passed"] == [{"group": "ship", "committed_offset": 54}]
        (row,) = csv.DictReader(io.StringIO(run("cat", store, MESSAGE, "--csv")[1]))
        assert json.loads(row["passed"]) == found["passed"]

    def test_offsets_say_nothing_of_a_message_of_a_former_topic(self, run, store):
        """Its place has another message, or none: it is not said that no group has passed it."""
        (unit,) = (store / "consumequeue" / "TopicTest" / "3").glob("*0")
        data = bytearray(unit.read_bytes())
        data[54 * 20 : 54 * 20 + 8] = bytes(8)
        unit.write_bytes(data)
        out = run("cat", store, MESSAGE)[1]
        assert "other_in_queue: " in out
        assert "passed  " not in out
        assert "passed" not in json.loads(run("cat", store, MESSAGE, "--json")[1])

    def test_without_offsets_it_is_said_that_nothing_is_known(self, run, store):
        """No group is not the same as none known."""
        shutil.rmtree(store / "config")
        assert "not known: " in run("cat", store, MESSAGE)[1]
        assert "passed" not in json.loads(run("cat", store, MESSAGE, "--json")[1])
