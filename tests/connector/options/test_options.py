"""The option table: what is accepted, and what an error says."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path

import numpy as np
import pytest

from pyspark_rmqindex.options import (
    OPTIONS,
    MessageOptions,
    MessageStreamOptions,
    QueueOptions,
    ReadOptions,
    SinkOptions,
    StreamOptions,
    message_options,
    message_stream_options,
    option_text,
    parse_options,
    queue_options,
    read_options,
    scopes_of,
    stream_options,
    wants_pushdown,
)
from rmqindex import Layout
from rmqindex.times import LocalTime


def test_a_plain_read_has_the_documented_defaults():
    """Nothing but a path: a scan of 96 MiB partitions that fails on malformed bytes."""
    options = read_options({"path": "/data"})
    assert options.paths == ("/data",)
    assert options.layout is None
    assert options.pairs is None
    assert options.key_hashes is None
    assert (options.begin, options.end) == (None, None)
    assert options.mode == "FAILFAST"
    assert options.max_partition_bytes == 96 * 2**20
    assert not options.pushdown
    assert not options.has_keys


def test_names_are_found_whatever_their_case():
    """Spark hands option names over in lower case."""
    options = read_options({"PATH": "/data", "maxhashslotnum": "97", "MAXINDEXNUM": "200"})
    assert options.layout == Layout(97, 200)


def test_several_paths_are_a_json_list():
    """``load([..])`` passes them so."""
    assert read_options({"paths": '["/a", "/b"]'}).paths == ("/a", "/b")


def test_keys_are_paired_with_the_topic_and_repeated_ones_count_once():
    """A key asked twice is answered once."""
    options = read_options({"path": "/d", "topic": "t", "keys": '["a", "b", "a"]'})
    assert options.pairs == (("t", "a"), ("t", "b"))
    assert options.has_keys


def test_key_hashes_are_one_integer_or_a_list():
    """Both spellings, each hash once."""
    assert read_options({"path": "/d", "keyHash": "7"}).key_hashes == (7,)
    assert read_options({"path": "/d", "keyHash": "[7, 3, 7]"}).key_hashes == (3, 7)


def test_digits_are_epoch_milliseconds_and_anything_else_is_a_timestamp():
    """Times are kept in microseconds; a text without a zone stays local."""
    options = read_options(
        {"path": "/d", "beginTimestamp": "1700000000123", "endTimestamp": "2024-01-02 03:04"}
    )
    assert options.begin == 1700000000123000
    assert options.end == LocalTime("2024-01-02 03:04", 1704164640000000)


def test_the_time_zone_option_places_local_times():
    """With it, nothing is left for the tasks to find out."""
    options = read_options(
        {
            "path": "/d",
            "beginTimestamp": "2024-01-02",
            "endTimestamp": "2024-01-02",
            "timeZone": "Asia/Shanghai",
        }
    )
    assert options.begin == (1704153600 - 8 * 3600) * 1_000_000
    assert options.end == options.begin + 24 * 3600 * 1_000_000 - 1


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"pth": "/d"}, "option 'pth': unknown; did you mean 'path'"),
        ({"frobnicate": "1"}, "option 'frobnicate': unknown. Known here: audit, beginTimestamp, "),
        ({"mode": "PERMISSIVE"}, "option 'mode': expected one of FAILFAST, DROPMALFORMED, got"),
        ({"maxIndexNum": "5"}, "option 'maxIndexNum': give 'maxHashSlotNum' as well, or neither"),
        ({"maxHashSlotNum": "5"}, "option 'maxHashSlotNum': give 'maxIndexNum' as well"),
        ({"maxHashSlotNum": "x", "maxIndexNum": "5"}, "expected an integer from 1 to 2147483647"),
        ({"maxHashSlotNum": "0", "maxIndexNum": "5"}, "expected an integer from 1 to 2147483647"),
        (
            {"maxHashSlotNum": "9", "maxIndexNum": "2000000000"},
            "'maxHashSlotNum' and 'maxIndexNum': file size",
        ),
        ({"key": "a"}, "option 'key': give 'topic' as well"),
        ({"keys": "[]"}, "option 'keys': give 'topic' as well"),
        ({"topic": "a"}, "option 'topic': give 'key' or 'keys' as well"),
        ({"topic": "t", "key": "a", "keys": "[]"}, "option 'key': not together with 'keys'"),
        ({"topic": "t", "keys": "a,b"}, "option 'keys': expected a JSON list of strings"),
        ({"topic": "t", "keys": "[" * 5000}, "option 'keys': expected a JSON list of strings"),
        ({"keyHash": "[" * 5000}, "option 'keyHash': expected an integer from 0 to 2147483647"),
        ({"topic": "t", "keys": "[1]"}, "option 'keys': expected a JSON list of strings"),
        ({"keyHash": "-1"}, "option 'keyHash': expected an integer from 0 to 2147483647"),
        ({"keyHash": "[true]"}, "option 'keyHash': expected an integer from 0 to 2147483647"),
        ({"beginTimestamp": "tomorrow"}, "option 'beginTimestamp': expected epoch milliseconds"),
        ({"endTimestamp": "2024-02-30"}, "option 'endTimestamp': expected epoch milliseconds"),
        ({"timeZone": "Nowhere/Land", "endTimestamp": "2024-01-01"}, "option 'timeZone': expected"),
        ({"timeZone": "+99:00"}, "option 'timeZone': expected a time zone such as Asia/Shanghai"),
        ({"pushdown": "yes"}, "option 'pushdown': expected true or false, got 'yes'"),
        ({"keyColumns": "false"}, "option 'keyColumns': only with pushdown=true"),
        ({"pushdown": "true", "topic": "t"}, "option 'topic': not with pushdown: bind topic and"),
        ({"pushdown": "true", "keyHash": "1"}, "option 'keyHash': not with pushdown"),
        ({"maxPartitionBytes": "0"}, "option 'maxPartitionBytes': expected a number of bytes"),
        ({"maxPartitionBytes": "5_0"}, "option 'maxPartitionBytes': expected a number of bytes"),
        ({"maxHashSlotNum": "5_0", "maxIndexNum": "5"}, "expected an integer from 1 to"),
        ({"maxHashSlotNum": "\u0665", "maxIndexNum": "5"}, "expected an integer from 1 to"),
        ({"maxPartitionBytes": "many"}, "option 'maxPartitionBytes': expected a number of bytes"),
        ({"maxPartitionBytes": "9" * 5000}, "option 'maxPartitionBytes': expected a number of"),
        ({"commitLog": ""}, "option 'commitLog': expected some text, got ''"),
        ({"unverified": "hide"}, "option 'unverified': expected one of keep, drop, error, got"),
        ({"message": "true"}, "option 'message': give 'commitLog' as well"),
        ({"audit": "true", "endTimestamp": "0"}, "option 'endTimestamp': not together with"),
        ({"audit": "true", "keyHash": "[]"}, "option 'keyHash': not together with 'audit'"),
        ({"beginOffset": "0"}, "option 'beginOffset': only for the format rmqcommitlog"),
        ({"indexMembers": "true"}, "option 'indexMembers': only for writing"),
        (
            {"pushdown": "true", "keyColumns": "false", "commitLog": "auto"},
            "option 'commitLog': not without the columns topic and key",
        ),
    ],
)
def test_an_error_names_the_option_and_what_is_allowed(raw, message):
    """Bad options are told apart before any file is looked at."""
    with pytest.raises(ValueError, match="option") as caught:
        read_options({"path": "/d", **raw})
    assert message in str(caught.value)


def test_the_commit_log_is_none_unless_asked_for_and_auto_for_tables():
    """The default depends on whether keys are looked up in WHERE."""
    assert read_options({"path": "/d"}).commit_log is None
    assert read_options({"path": "/d", "topic": "t", "key": "k"}).commit_log is None
    assert read_options({"path": "/d", "pushdown": "true"}).commit_log == "auto"
    assert read_options({"path": "/d", "pushdown": "true", "commitLog": "none"}).commit_log is None
    keyless = {"path": "/d", "pushdown": "true", "keyColumns": "false"}
    assert read_options(keyless).commit_log is None
    options = read_options({"path": "/d", "commitLog": "AUTO"})
    assert (options.commit_log, options.has_keys, options.unverified) == ("auto", True, "keep")
    assert read_options({"path": "/d", "commitLog": "/log"}).commit_log == "/log"


def test_messages_have_options_of_their_own():
    """Offsets, times and what is checked; everything else is refused by name."""
    options = message_options(
        {"path": "/d", "beginOffset": "5", "endTimestamp": "7", "checkCrc": "true"}
    )
    assert (options.paths, options.begin_offset, options.end_offset) == (("/d",), 5, None)
    assert (options.begin, options.end, options.max_clock_step) == (None, 7000, None)
    assert (options.check_crc, options.unpacks_bodies, options.mode) == (True, True, "FAILFAST")
    for raw, message in [
        ({"key": "k"}, "option 'key': not for the format rmqcommitlog"),
        ({"beginOfset": "1"}, "option 'beginOfset': unknown; did you mean 'beginOffset'"),
        ({"endOffset": "-1"}, "option 'endOffset': expected an integer from 0"),
    ]:
        with pytest.raises(ValueError, match="option") as caught:
            message_options({"path": "/d", **raw})
        assert message in str(caught.value)


def test_an_offset_of_a_load_of_messages_is_none_of_their_stream():
    """The error says what is, and does not call the format another."""
    with pytest.raises(
        ValueError, match=r"^option 'beginOffset': only for spark.read; a stream beg"
    ):
        message_stream_options({"path": "/d", "beginOffset": "5"})
    with pytest.raises(
        ValueError, match=r"^option 'beginOffset': only for the format rmqcommitlog"
    ):
        stream_options({"path": "/d", "beginOffset": "5"})


def test_messages_are_chosen_by_one_value_or_a_list():
    """Of topics, queues and tags; in loads and in streams."""
    for parse in (message_options, message_stream_options):
        options = parse({"path": "/d", "topic": "A", "queueId": "[3, 1]", "tags": '["a", "[b]"]'})
        assert (options.topics, options.queue_ids) == (("A",), (1, 3))
        assert options.tags == ("a", "[b]")
        for raw in ({"topic": ""}, {"topic": "[]"}, {"tags": "[a]"}, {"queueId": "-1"}):
            with pytest.raises(ValueError, match=f"option '{next(iter(raw))}': expected"):
                parse({"path": "/d", **raw})


def test_columns_are_names_with_commas_or_a_list():
    """Of every load and stream; ``table()`` needs those that its queries filter by."""
    for parse in (read_options, message_options, queue_options, stream_options):
        for text in ("topic, Tags", '["topic", "Tags"]'):
            assert parse({"path": "/d", "columns": text}).columns == ("topic", "Tags")
        for text in ("", "a,,b", "[]", "[a]"):
            with pytest.raises(ValueError, match="option 'columns': expected "):
                parse({"path": "/d", "columns": text})
    raw = {"path": "/d", "pushdown": "true", "columns": "tags,Position"}
    with pytest.raises(ValueError, match=r"write columns='topic,key,tags,Position'"):
        read_options(raw)
    assert read_options(raw | {"columns": "topic,key,tags,Position"}).columns is not None
    assert read_options(raw | {"keyColumns": "false"}).columns == ("tags", "Position")


def test_pushdown_is_seen_before_options_are_checked():
    """The data source must know it when it is made, when errors are not yet shown."""
    assert wants_pushdown({"PushDown": " TRUE "})
    assert not wants_pushdown({"pushdown": "false"})
    assert not wants_pushdown({})


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("64k", 65536), ("128MB", 128 * 2**20), ("1g", 2**30)]
)
def test_sizes_may_have_a_unit(text, size):
    """As Spark's own settings."""
    assert read_options({"path": "/d", "maxPartitionBytes": text}).max_partition_bytes == size


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (97, "97"),
        (np.int64(97), "97"),
        (["a", "b"], '["a", "b"]'),
        ([np.int32(3), 4], "[3, 4]"),
        ("x", "x"),
        (Path("/d"), "/d"),
        (dt.datetime(2024, 1, 2, 3, 4, 5, 6000, dt.UTC), "2024-01-02 03:04:05.006000+00:00"),
    ],
)
def test_python_values_become_option_texts(value, text):
    """``table(.., maxHashSlotNum=97)`` takes what Python users write."""
    assert option_text("columns", value) == text


def test_other_python_values_are_refused():
    """A float is no option; the error says of which it was."""
    expected = r"option 'maxIndexNum': expected bool, int, str, list, datetime or path, got 1\.5"
    with pytest.raises(TypeError, match=expected):
        option_text("maxIndexNum", 1.5)


def test_every_option_is_documented():
    """The documentation is generated from this table: each row has a text and a default."""
    for option in OPTIONS:
        assert option.doc.endswith("."), option.name
        assert option.kind.words, option.name
        if option.default is not None:
            option.kind.parse(option.default)
    assert len({option.name.lower() for option in OPTIONS}) == len(OPTIONS)


def test_an_option_of_another_scope_says_where_it_belongs():
    """An option for reading is not silently ignored by a write."""
    with pytest.raises(ValueError, match="option 'pathGlobFilter': only for reading"):
        parse_options(SinkOptions, {"path": "/d", "pathGlobFilter": "*"}, "write")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("path", "/log/a,s3://KEY:SECRET@b/a"),
        ("paths", "s3://KEY:SECRET@b/a"),
        ("paths", '["/a", "s3://KEY:SECRET@b/a"]'),
        ("commitLog", "/log/a,s3://KEY:SECRET@b/a"),
    ],
)
def test_keys_in_a_path_are_refused_and_not_shown(name, text):
    """Behind a comma, and in a text that is no list, too."""
    with pytest.raises(ValueError, match=r"another text|\*\*\*") as caught:
        read_options({"path": "/d", name: text})
    assert "SECRET" not in str(caught.value)


OPTIONS_OF = {
    "read": (ReadOptions, read_options),
    "table": (ReadOptions, lambda raw: read_options({**raw, "pushdown": "true"})),
    "write": (SinkOptions, lambda raw: parse_options(SinkOptions, raw, "write")),
    "messages": (MessageOptions, message_options),
    "queues": (QueueOptions, queue_options),
    "stream": (StreamOptions, stream_options),
    "message_stream": (MessageStreamOptions, message_stream_options),
}


@pytest.mark.parametrize("scope", OPTIONS_OF)
def test_options_travel_to_tasks(scope):
    """They are pickled with readers and writers, hold nothing but fields, and never show keys."""
    options, parse = OPTIONS_OF[scope]
    checked = parse({"path": "/d", "fs.s3a.secret.key": "SECRET"})
    assert type(checked) is options
    assert pickle.loads(pickle.dumps(checked)) == checked
    assert checked.storage.s3.secret_key == "SECRET"
    assert "SECRET" not in repr(checked)
    assert not hasattr(checked, "__dict__")


@pytest.mark.parametrize("scope", OPTIONS_OF)
def test_what_is_listed_as_known_is_what_is_taken(scope):
    """Options that only this package sets are taken, and no error names them."""
    _, parse = OPTIONS_OF[scope]
    with pytest.raises(ValueError, match="option 'nonesuch': unknown") as caught:
        parse({"path": "/d", "nonesuch": "1"})
    listed = str(caught.value).partition("Known here: ")[2].split(", ")
    here = [option for option in OPTIONS if scope in scopes_of(option)]
    assert listed == sorted(option.name for option in here if not option.internal)
    for option in OPTIONS:
        if option not in here and option.name != "pushdown":
            said = "unknown" if option.internal else "(only|not) "
            with pytest.raises(ValueError, match=f"option '{option.name}': {said}"):
                parse({"path": "/d", option.name: "1"})
