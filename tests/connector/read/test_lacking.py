"""What a plan says of indexes that lack entries of messages in their CommitLogs."""

from __future__ import annotations

import shutil

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual

import rmqindex
from file_reads import counted_log_reads
from pyspark_rmqindex.options import read_options
from pyspark_rmqindex.read.plan_leak import create_state
from pyspark_rmqindex.read.plan_leak_reader import SharedPlanReader
from pyspark_rmqindex.read.reader import IndexReader
from pyspark_rmqindex.schema import full_schema

SAMPLE = rmqindex.sample_store()
NAMES = sorted(path.name for path in (SAMPLE / "index").iterdir())
KEY = {"topic": "TopicTest", "keys": '["order-49"]'}


@pytest.fixture
def store(tmp_path):
    """A copy of the sample store without its oldest file."""
    shutil.copytree(SAMPLE, tmp_path / "store")
    (tmp_path / "store" / "index" / NAMES[0]).unlink()
    return tmp_path / "store"


def warnings(caplog, **options):
    """Return the warnings of the plan of a load."""
    given = {name: str(value) for name, value in options.items()}
    IndexReader(read_options(given), full_schema(keys=True, log=True), given).partitions()
    found = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    caplog.clear()
    return found


def test_a_lost_file_is_a_warning_of_each_plan(store, caplog):
    """With both ends and the command that says what to do."""
    (line,) = warnings(caplog, path=store, commitLog="auto", **KEY)
    assert f"{NAMES[1]}: the oldest IndexFile begins at offset 26249, the CommitLog at 0" in line
    assert f"`rmqindex verify {store / 'index'}`" in line


def test_an_index_without_files_is_one(store, caplog):
    """It answers each lookup with nothing."""
    for name in NAMES[1:]:
        (store / "index" / name).unlink()
    (line,) = warnings(caplog, path=store, commitLog="auto", **KEY)
    assert "the index has no entries" in line


def test_a_pattern_of_stores_is_looked_at_store_by_store(store, caplog):
    """One of two is whole."""
    shutil.copytree(SAMPLE, store.parent / "whole")
    (line,) = warnings(caplog, path=store.parent / "*", commitLog="auto", **KEY)
    assert str(store) in line


@pytest.mark.parametrize("options", [{"path": SAMPLE, "commitLog": "auto"}, {"path": None}])
def test_whole_indexes_and_indexes_without_a_log_are_no_warning(store, caplog, options):
    """There is nothing to say, or nothing to compare with."""
    assert warnings(caplog, **{**options, "path": options["path"] or store}, **KEY) == []


def test_a_file_chosen_by_its_name_is_no_warning(store, caplog):
    """The user left the others out."""
    path = store / "index" / NAMES[2]
    assert warnings(caplog, path=path, commitLog="auto", **KEY) == []


def test_the_rest_of_a_file_that_is_cut_is_a_warning(store, caplog):
    """DROPMALFORMED reads what is left; the file is named, and with a log the ends."""
    cut = store / "index" / NAMES[2]
    cut.write_bytes(cut.read_bytes()[:2000])
    options = {"path": store / "index", "mode": "DROPMALFORMED"}
    (line,) = warnings(caplog, **options, **KEY)
    assert f"{cut}: the answer lacks 122 of 199 entries that the header counts" in line
    assert f"`rmqindex verify {cut}` says what to do" in line
    _, start = warnings(caplog, **options, commitLog=store / "commitlog", **KEY)
    assert "the oldest IndexFile begins at offset 26249" in start


@pytest.mark.parametrize("size", [0, 39, 40, 300])
def test_a_file_of_which_nothing_is_left_is_a_warning(store, caplog, size):
    """It has no entries to read, and is no file without entries."""
    cut = store / "index" / NAMES[-1]
    cut.write_bytes(cut.read_bytes()[:size])
    (line,) = warnings(caplog, path=store, mode="DROPMALFORMED", **KEY)
    assert f"{cut}: the answer lacks all" in line


def test_a_plan_reads_no_message(store, tmp_path, monkeypatch):
    """Neither that of a load nor that of a table, whatever their indexes lack."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    given = {"path": str(store), "commitLog": "auto", **KEY}
    options, schema = read_options(given), full_schema(keys=True, log=True)
    with counted_log_reads() as reads:
        assert IndexReader(options, schema, given).partitions()
        table = {"path": str(store), "commitLog": "auto"}
        reader = SharedPlanReader(read_options(table), schema, table, create_state())
        bound = [EqualTo(("topic",), "TopicTest"), EqualTo(("key",), "order-49")]
        reader.pushFilters([*bound, GreaterThanOrEqual(("position",), 1)])
        assert reader.partitions()
    assert reads == []


@pytest.mark.parametrize(
    ("topic", "key", "hint"),
    [
        ("order-49", "TopicTest", "'TopicTest' is a topic: the two may be in each other's place"),
        ("TopicTes", "order-49", "the nearest topic is 'TopicTest'"),
        ("Nope", "order-49", "there is no queue of the topic 'Nope'"),
    ],
)
def test_a_topic_that_the_store_does_not_have_is_a_warning(caplog, topic, key, hint):
    """It answers with no row, so the log line is all that tells why."""
    (line,) = warnings(caplog, path=SAMPLE, topic=topic, keys=f'["{key}"]')
    assert line.startswith(f"{SAMPLE}: there is no queue of the topic {topic!r}")
    assert line.endswith(hint)


def test_topics_that_nothing_tells_are_no_warning(store, caplog):
    """In a copy of an index alone, and where one of two stores has the topic."""
    shutil.copytree(store, store.parent / "other")
    shutil.rmtree(store.parent / "other" / "consumequeue" / "TopicTest")
    assert warnings(caplog, path=store.parent / "*", **KEY) == []
    shutil.rmtree(store / "consumequeue")
    assert warnings(caplog, path=store, topic="order-49", keys='["TopicTest"]') == []
