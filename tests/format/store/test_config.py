"""What a broker keeps in ``config/`` is read as the broker reads it."""

from __future__ import annotations

import json
import os

import pytest

from rmqindex import RmqIndexError
from rmqindex.storage import Location
from rmqindex.store.config import ConsumerOffsets, delay_offsets, parse_config

FASTJSON = """{
\t"dataVersion":{"counter":2,"stateVersion":0,"timestamp":1700000000000},
\t"offsetTable":{
\t\t"TopicTest@grpA":{0:12,1:3
\t\t},
\t\t"%RETRY%grpA@grpA":{0:0}
\t}
}"""
TABLE = {("TopicTest", "grpA"): {0: 12, 1: 3}, ("%RETRY%grpA", "grpA"): {0: 0}}


def write(root, text, name="consumerOffset.json", age=0):
    """Write a file of ``config/``, some seconds old."""
    path = root / "config" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.utime(path, (1_700_000_000 - age,) * 2)
    return path


def read(root):
    """Read the offsets of a store."""
    return ConsumerOffsets.of(Location.of(root))


class TestJson:
    """Both kinds of JSON that brokers write."""

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("{0:1,-7 : 2}", {"0": 1, "-7": 2}),
            ('{"a":[{3:4}, 5],"b":-6}', {"a": [{"3": 4}, 5], "b": -6}),
            (r'{"{0:1,2:\"3\\":{4:"{5:6}"}}', {'{0:1,2:"3\\': {"4": "{5:6}"}}),
            ('{"0":1}', {"0": 1}),
        ],
    )
    def test_integers_that_name_values_need_no_quotes(self, text, value):
        """Texts stay as they are, whatever they look like."""
        assert parse_config(text.encode()) == value

    @pytest.mark.parametrize("text", ['{0:1,22:3,"a" 4}', '{"a" 4}', "{0:1,22:3", "{0:1,x:2}"])
    def test_an_error_names_its_place_in_the_file(self, text):
        """And not in the text with quotes."""
        with pytest.raises(json.JSONDecodeError) as caught:
            parse_config(text.encode())
        assert caught.value.doc == text
        place = text.find("4}") if "4}" in text else text.find("x") if "x" in text else len(text)
        assert caught.value.pos == place


class TestOffsets:
    """Committed offsets by topic, group and queue."""

    def test_fastjson_and_json_say_the_same(self, tmp_path):
        """Integers with and without quotes."""
        write(tmp_path, FASTJSON)
        assert read(tmp_path).table == TABLE
        tables = {"@".join(pair): queues for pair, queues in TABLE.items()}
        write(tmp_path, json.dumps({"offsetTable": tables}))
        found = read(tmp_path)
        assert (found.table, found.modified, found.notes) == (TABLE, 1_700_000_000_000, ())
        assert found.groups("TopicTest") == {"grpA": {0: 12, 1: 3}}

    @pytest.mark.parametrize(
        ("data", "told"),
        [
            (b"", "an empty file"),
            (b"{", "at byte 1"),
            (b'{"offsetTable":{"T@g":{0:1.5}}}', "1.5"),
            (b'{"offsetTable":{"T@g":{0:99999999999999999999}}}', "not an integer"),
            (b'{"offsetTable":{"T@g":{"x":1}}}', "'x'"),
            (b'{"offsetTable":{"T@g":7}}', "not offsets by queue"),
            (b'{"offsetTable":[]}', "offsetTable"),
            (b"[]", "[]"),
            (b'"\xff"', "not UTF-8"),
            (b"[" * 100_000, "nested"),
        ],
    )
    def test_a_damaged_file_is_named_and_its_backup_read(self, tmp_path, data, told):
        """As a broker does; without a backup it is an error."""
        path = write(tmp_path, data)
        with pytest.raises(RmqIndexError, match="expected a JSON object") as caught:
            read(tmp_path)
        assert str(path) in str(caught.value)
        assert told in str(caught.value)
        backup = write(tmp_path, FASTJSON, "consumerOffset.json.bak")
        found = read(tmp_path)
        assert (found.table, str(found.path)) == (TABLE, str(backup))
        assert told in found.notes[0]

    def test_a_backup_alone_is_read(self, tmp_path):
        """And it is said that it is older."""
        write(tmp_path, FASTJSON, "consumerOffset.json.bak")
        assert read(tmp_path).table == TABLE
        assert "it is older" in read(tmp_path).notes[0]

    def test_a_directory_in_its_place_is_damage(self, tmp_path):
        """It is no file."""
        (tmp_path / "config" / "consumerOffset.json").mkdir(parents=True)
        with pytest.raises(RmqIndexError, match=r"consumerOffset\.json"):
            read(tmp_path)

    def test_no_file_is_no_error(self, tmp_path):
        """A copy of a log has none."""
        assert read(tmp_path) is None

    def test_of_two_files_that_which_was_written_last_counts(self, tmp_path):
        """A broker with light queues keeps its own, for all groups."""
        light = '{"offsetTable":{"T@g":{0:5}},"lmqOffsetTable":{"%LMQ%a@b@%LMQ%a@b":9}}'
        write(tmp_path, light, "lmqConsumerOffset.json")
        write(tmp_path, FASTJSON, age=60)
        found = read(tmp_path)
        assert found.table == {("T", "g"): {0: 5}, ("%LMQ%a@b", "%LMQ%a@b"): {0: 9}}
        assert "consumerOffset.json: not read" in found.notes[0]
        write(tmp_path, FASTJSON, age=-60)
        assert read(tmp_path).table == TABLE

    def test_names_without_a_topic_and_a_group_are_told(self, tmp_path):
        """A group may have the separator in its name, a topic never has."""
        names = ["T", "@g", "T@", "T@g@h", "T@[::1]:9876"]
        write(tmp_path, json.dumps({"offsetTable": {name: {"0": 1} for name in names}}))
        found = read(tmp_path)
        assert list(found.table) == [("T", "g@h"), ("T", "[::1]:9876")]
        assert "'T', '@g', 'T@'" in found.notes[0]

    def test_databases_beside_the_file_are_told(self, tmp_path):
        """They are not read, and may be newer."""
        write(tmp_path, FASTJSON)
        folder = tmp_path / "config" / "consumerOffsets"
        folder.mkdir()
        (folder / "CURRENT").touch()
        assert read(tmp_path).notes == ()
        (folder / "MANIFEST-000004").touch()
        assert f"{folder}: a RocksDB database" in read(tmp_path).notes[0]

    def test_delayed_messages_are_counted_by_queue(self, tmp_path):
        """The queue of level 1 is 0."""
        assert delay_offsets(Location.of(tmp_path)) is None
        write(tmp_path, '{"offsetTable":{1:4,18:7}}', "delayOffset.json")
        assert delay_offsets(Location.of(tmp_path)) == {0: 4, 17: 7}
