"""The arguments of ``rmq_lookup``, and its task, without Spark."""

from __future__ import annotations

import datetime as dt
import shutil

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    IntegerType,
    LongType,
    NullType,
    StringType,
)
from pyspark.sql.udtf import AnalyzeArgument

from kinds import sampled
from pyspark_rmqindex.join import hash_columns
from pyspark_rmqindex.options import read_options
from pyspark_rmqindex.read import IndexPartition, IndexReader, Query
from pyspark_rmqindex.sql import key_finder
from pyspark_rmqindex.sql.calls import bind, check_path, plan_call, plan_files_of, time_range
from pyspark_rmqindex.sql.functions import _LookupFunction
from pyspark_rmqindex.sql.key_finder import KeyFinder
from pyspark_rmqindex.sql.key_hash import hash_series
from rmqindex import IndexFileWriter, Layout, RmqIndexError, index_key, key_hash, sample_store
from rmqindex.messagestore import EVERYTHING, Range

TYPES = {str: StringType(), bool: BooleanType(), int: IntegerType(), type(None): NullType()}
STORE = str(sample_store())


def constant(value, type_=None):
    """Return a constant argument as Spark describes it."""
    if isinstance(value, list):
        type_ = ArrayType(StringType())
    return AnalyzeArgument(type_ or TYPES[type(value)], value, False, True)


def column(type_):
    """Return an argument that is not constant."""
    return AnalyzeArgument(type_, None, False, False)


def call(*args, **kwargs):
    """Plan a call with constants."""
    return plan_call(
        [arg if isinstance(arg, AnalyzeArgument) else constant(arg) for arg in args],
        {
            name: arg if isinstance(arg, AnalyzeArgument) else constant(arg)
            for name, arg in kwargs.items()
        },
    )


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """Return a store whose first log file has expired, beside an index without a log."""
    folder = tmp_path_factory.mktemp("half")
    shutil.copytree(STORE, folder / "a")
    min((folder / "a" / "commitlog").iterdir()).unlink()
    shutil.copytree(f"{STORE}/index", folder / "b" / "index")
    return folder


class TestArguments:
    """What may be said, and how."""

    def test_names_are_in_any_case_and_order(self):
        """Positions first."""
        assert bind(("p", "t"), {"KEY": "k", "commitLog": "none", "End": 5}) == (
            {"path": "p", "topic": "t", "key": "k", "end": 5},
            {"commitlog": "none"},
        )

    @pytest.mark.parametrize(
        ("args", "kwargs", "message"),
        [
            (("p", "t"), {}, "expected path, topic and key, got no key"),
            ((), {"key": "k"}, "got no path and no topic"),
            (("p", "t", "k"), {"Topic": "t"}, "argument 'Topic' is given twice"),
            (("p", "t", "k", None, None, 1), {}, "at most 5 arguments without names"),
            (("p", "t", "k"), {"mod": "x"}, "argument 'mod': unknown; did you mean 'mode'"),
            (("p", "t", "k"), {"keys": "[]"}, "unknown; did you mean 'key'"),
            (("p", "t", "k"), {"beginTimestamp": 5}, "'begintimestamp': unknown here; write begin"),
            (("p", "t", "k"), {"endingOffsets": "x"}, "unknown here; write end$"),
            (("p", "t", "k"), {"modifiedAfter": "x"}, "unknown here; write begin$"),
            (("p", "t", "k"), {"how": "anti"}, "'how': expected one of inner, left, got 'anti'"),
            (("p", 1, "k"), {}, "argument 'topic': expected STRING, got INT"),
            ((None, "t", "k"), {}, "argument 'path': expected STRING or ARRAY<STRING>, got VOID"),
            (([], "t", "k"), {}, r"argument 'path': expected a path, got \[\]"),
            (("", "t", "k"), {}, "argument 'path': expected a path, got ''"),
            (("p", "t", "k"), {"begin": "2024"}, "'begin': expected TIMESTAMP, or BIGINT epoch"),
            (("p", "t", "k"), {"begin": column(DateType())}, "epoch milliseconds, got DATE"),
            (("p", "t", "k"), {"mode": column(StringType())}, "option 'mode': expected a constant"),
            ((STORE, "t", "k"), {"mode": "x"}, "option 'mode': expected one of FAILFAST"),
            ((STORE, "t", "k"), {"maxIndexNum": 5}, "give 'maxHashSlotNum' as well"),
        ],
    )
    def test_anything_else_is_an_error_that_says_what_is_allowed(self, args, kwargs, message):
        """Before anything runs."""
        with pytest.raises(ValueError, match=message):
            call(*args, **kwargs)

    def test_a_missing_path_is_an_error_at_once(self):
        """Where it is constant."""
        with pytest.raises(RmqIndexError, match="/nowhere: no such file"):
            call("/nowhere", "t", "k")
        assert call("/nowhere", "t", "k", ignoreMissingFiles=True).slices == []

    def test_the_columns_follow_from_the_options(self):
        """As those of ``table()`` do."""
        plain = call(STORE, column(StringType()), column(StringType()), commitLog="none")
        assert plain.schema.names[-1] == "file_path"
        assert len(plain.slices) == 5
        assert {each.commit_log for each in plain.slices} == {None}
        verified = call(STORE, "t", "k", mode=None)
        assert verified.schema.names[-1] == "match_state"
        assert {each.commit_log.path for each in verified.slices} == {f"{STORE}/commitlog"}
        with_message = call(STORE, "t", "k", message=True).schema.names
        assert ("body" in with_message, "body_text" in with_message) == (True, False)
        assert call(STORE, "t", "k", bodyText=True).schema.names[-2:] == [
            "match_state",
            "body_text",
        ]
        several = call([STORE, f"{STORE}/index"], "t", "k", None, column(LongType()))
        assert "store" in several.schema.names
        assert len(several.slices) == 5

    def test_a_path_of_its_own_in_each_row_is_listed_later(self):
        """And gives the column ``store``."""
        plan = call(column(StringType()), "t", "k")
        assert plan.slices is None
        assert "store" in plan.schema.names
        assert len(plan_files_of(plan.options, STORE)) == 5
        assert len(plan_files_of(plan.options, [STORE, f"{STORE}/index"])) == 5
        assert "store" not in call(column(StringType()), "t", "k", storeColumn=False).schema.names

    def test_times_are_epoch_milliseconds_or_what_spark_makes_of_timestamps(self):
        """Rounded to the milliseconds within."""
        assert time_range(None, None) == EVERYTHING
        assert time_range(5, 7) == Range(5, 7)
        assert time_range(-(2**63), 2**63 - 1) == Range(-(2**63), 2**63 - 1)
        local = dt.datetime(2023, 11, 14, 22, 13, 20, 1500).astimezone()
        milliseconds = int(local.timestamp()) * 1000
        naive = local.replace(tzinfo=None)
        assert time_range(naive, naive) == Range(milliseconds + 2, milliseconds + 1)


def _properties(row):
    """Return the one column that is a map, where a row has it, as a dictionary."""
    return {"properties": dict(row["properties"])} if row.get("properties") is not None else {}


class TestTask:
    """Rows of one key after the other."""

    @pytest.mark.parametrize(
        "given",
        sampled(
            [
                {"commitLog": "none"},
                {"commitLog": "auto"},
                {"commitLog": "auto", "unverified": "drop"},
                {"commitLog": "auto", "message": "true"},
                {"commitLog": "auto", "checkCrc": "true"},
                {"commitLog": "none", "mode": "DROPMALFORMED"},
            ],
            {"commitLog": "none"},
            {"commitLog": "auto", "unverified": "drop"},
        ),
        ids=lambda given: "-".join(given.values()),
    )
    def test_rows_are_those_of_the_reader_of_lookups(self, half, store_pairs, given):
        """For present and absent keys, with and without times."""
        plan = call(f"{half}/*", "t", "k", **given)
        finder = KeyFinder(plan.options, plan.schema)
        reader = IndexReader(plan.options, plan.schema, {})
        pairs = [*store_pairs[::40], ("TopicTest", "absent"), ("TopicTest", "k")]
        pairs += [("TopicTest", "Aa"), ("TopicTest", "BB")]
        middle = 1_700_040_000_000
        for times in (EVERYTHING, Range(None, middle), Range(middle, None), Range(5, 4)):
            for topic, key in pairs:
                query = Query(pairs=((topic, key),), time=times)
                expected = [
                    tuple({**row, **_properties(row)}.values())
                    for batch in reader.read(IndexPartition(tuple(plan.slices), query))
                    for row in batch.to_pylist()
                ]
                found = finder.rows(plan.slices, topic, key, times)
                assert sorted(found, key=str) == sorted(expected, key=str)
        finder.close()

    def test_an_unverified_entry_is_an_error_if_asked(self, half):
        """As in lookups."""
        plan = call(f"{half}/a", "t", "k", unverified="error")
        with pytest.raises(RmqIndexError, match="got match_state 'unverified'"):
            KeyFinder(plan.options, plan.schema).rows(plan.slices, "TopicTest", "k", EVERYTHING)

    def test_a_file_that_was_replaced_or_removed_since_is_told(self, tmp_path):
        """Never read as what it is now; one that is open stays what it was."""
        shutil.copytree(f"{STORE}/index", tmp_path / "index")
        plan = call(str(tmp_path), "t", "k")
        finder = KeyFinder(plan.options, plan.schema)
        rows = finder.rows(plan.slices, "TopicTest", "order-49", EVERYTHING)
        assert rows
        for path in (tmp_path / "index").iterdir():
            path.unlink()
        assert finder.rows(plan.slices, "TopicTest", "order-49", EVERYTHING) == rows
        fresh = KeyFinder(plan.options, plan.schema)
        with pytest.raises(RmqIndexError, match="the file was removed since"):
            fresh.rows(plan.slices, "TopicTest", "order-49", EVERYTHING)

    def test_more_files_than_may_be_open_are_read_as_well(self, monkeypatch):
        """One after the other."""
        monkeypatch.setattr(key_finder, "_MAX_OPEN", 2)
        plan = call(STORE, "t", "k")
        finder = KeyFinder(plan.options, plan.schema)
        monkeypatch.undo()
        whole = KeyFinder(plan.options, plan.schema)
        for key in ("order-49", "absent"):
            rows = finder.rows(plan.slices, "TopicTest", key, EVERYTHING)
            assert rows == whole.rows(plan.slices, "TopicTest", key, EVERYTHING)
        assert len(finder._files) == 2

    def test_a_year_beyond_pythons_is_told(self, tmp_path):
        """Spark's own reader can hold it."""
        path = tmp_path / "20240101000000000"
        with IndexFileWriter(path, Layout(97, 200)) as writer:
            writer.put_many([key_hash(index_key("t", "k"))], [0], [2**48])
        plan = call(str(path), "t", "k")
        with pytest.raises(RmqIndexError, match="expected a store time of the years 1 to 9999"):
            KeyFinder(plan.options, plan.schema).rows(plan.slices, "t", "k", EVERYTHING)


def test_a_path_must_be_one():
    """Also where each row has its own."""
    for path in (None, "", [], ["a", None], ["a", ""]):
        with pytest.raises(ValueError, match="argument 'path': expected a path, got"):
            check_path(path)
    check_path("a")
    check_path(["a", "b"])


@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED"])
def test_entries_of_a_text_that_may_stand_for_other_bytes_are_refused(tmp_path, mode):
    """Spark hands over U+FFFD for what is not UTF-8; without entries that matters to nobody."""
    with IndexFileWriter(tmp_path / "20231114221320000", Layout(7, 20)) as writer:
        writer.put("T#\ufffd", 5, 1_700_000_000_000)
    plan = call(str(tmp_path), "T", "k", commitLog="none", mode=mode)
    finder = KeyFinder(plan.options, plan.schema)
    everything = time_range(-(2**63), 2**63 - 1)
    with pytest.raises(ValueError, match=r"text without U\+FFFD, .*; use table\(\) or lookup\(\)"):
        finder.rows(plan.slices, "T", "\ufffd", everything)
    assert finder.rows(plan.slices, "T", "a\ufffd", everything) == []
    finder.close()


@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED"])
def test_a_time_that_a_function_cannot_return_is_an_error_of_ours(tmp_path, mode):
    """TIMESTAMP reaches further than Python's calendar."""
    with IndexFileWriter(tmp_path / "20231114221320000", Layout(7, 20)) as writer:
        writer.put("T#a", 5, 2**50)
    plan = call(str(tmp_path), "T", "a", commitLog="none", mode=mode)
    finder = KeyFinder(plan.options, plan.schema)
    with pytest.raises(RmqIndexError, match=r"of the years 1 to 9999, got .*; read it with table"):
        finder.rows(plan.slices, "T", "a", EVERYTHING)
    finder.close()


@pytest.mark.parametrize(
    ("begin", "end", "message"),
    [
        (
            1700000000,
            None,
            r"argument 'begin': .* did you mean 1700000000000 \(2023-11-14 22:13:20",
        ),
        (None, 1700000000, r"argument 'end': .* did you mean 1700000000000 \(2023-11-14 22:13:20"),
        (1700000000002, 1700000000000, "argument 'begin': expected a time at or before 'end'"),
    ],
)
def test_constant_times_that_nobody_means_are_refused(begin, end, message):
    """Seconds, and a range that ends before it begins, before anything runs."""
    with pytest.raises(ValueError, match=message):
        call(STORE, "t", "k", begin, end)


def test_a_range_of_a_row_that_ends_before_it_begins_is_empty():
    """As with BETWEEN, so that one row does not end a query; seconds are refused in each."""
    assert time_range(2000, 1000).is_empty
    with pytest.raises(ValueError, match="argument 'end': expected epoch milliseconds"):
        time_range(None, 1700000000)


class TestPlacesAndTopics:
    """The same for ``rmq_lookup`` and ``rmq_explain``."""

    def test_relative_paths_of_rows_are_those_of_the_planning(self, tmp_path, monkeypatch):
        """A task may run in another directory."""
        shutil.copytree(STORE, tmp_path / "a" / "store")
        (tmp_path / "b").mkdir()
        monkeypatch.chdir(tmp_path / "a")
        plan = call(column(StringType()), "TopicTest", "order-49", commitLog="store/commitlog")
        monkeypatch.chdir(tmp_path / "b")
        found = _LookupFunction(plan).eval(
            "store", "TopicTest", "order-49", commitLog="store/commitlog"
        )
        assert len(found) == 11

    def test_an_empty_topic_is_refused_as_a_constant_and_has_no_rows_in_one(self):
        """RocketMQ has none; and one row of a table is not to end the query, as in ``lookup()``."""
        message = "rmq_lookup: argument 'topic': expected the name of a topic, got ''"
        with pytest.raises(ValueError, match=message):
            call(STORE, "", "order-49")
        plan = call(STORE, column(StringType()), "order-49")
        assert _LookupFunction(plan).eval(STORE, "", "order-49") == []
        assert _LookupFunction(plan).eval(STORE, None, "order-49") == []

    def test_an_empty_topic_of_a_load_is_refused(self):
        """As everywhere else."""
        with pytest.raises(ValueError, match="option 'topic': expected the name of a topic"):
            read_options({"path": STORE, "topic": "", "key": "order-49"})

    def test_what_the_index_lacks_is_a_warning(self, tmp_path, caplog):
        """Once for the call, or for each path of rows."""
        shutil.copytree(STORE, tmp_path / "store")
        min((tmp_path / "store" / "index").iterdir()).unlink()
        call(str(tmp_path / "store"), "TopicTest", "order-49")
        assert caplog.text.count("the oldest IndexFile begins at offset") == 1
        caplog.clear()
        task = _LookupFunction(call(column(StringType()), "TopicTest", "order-49"))
        for _ in range(2):
            assert len(task.eval(str(tmp_path / "store"), "TopicTest", "order-49")) == 8
        assert caplog.text.count("the oldest IndexFile begins at offset") == 1

    @pytest.mark.parametrize(
        ("topic", "key", "hints"),
        [
            ("TopicTes", "k", ["the nearest topic is 'TopicTest'"]),
            ("TopicTes", column(StringType()), ["the nearest topic is 'TopicTest'"]),
            ("order-49", "TopicTest", ["'TopicTest' is a topic: the two may be in each other's"]),
            (column(StringType()), "k", []),
            ("TopicTest", None, []),
        ],
    )
    def test_a_topic_that_the_store_does_not_have_is_a_warning(self, caplog, topic, key, hints):
        """As it is of ``table()``, where the topic is constant."""
        call(STORE, topic, key)
        told = [record.getMessage() for record in caplog.records]
        assert len(told) == len(hints)
        for line, hint in zip(told, hints, strict=True):
            assert line.startswith(f"{STORE}: there is no queue of the topic {topic!r}")
            assert hint in line


def test_pandas_columns_have_the_same_hashes():
    """NULL included."""
    topics, keys = ["TopicTest", None, "é", "TopicTest"], ["k", "k", "\U0001f600", None]
    hashes = hash_series(pd.Series(topics), pd.Series(keys))
    assert pa.array(hashes).equals(hash_columns(pa.array(topics), pa.array(keys)))


class OtherText:
    """STRING of a second copy of PySpark, which is no instance of the first one's type."""

    typeName = staticmethod(lambda: "string")  # noqa: N815  (Spark's name)


def test_types_of_a_second_copy_of_pyspark_are_known_by_name():
    """As serverless workers have one."""
    given = [constant(text, OtherText()) for text in (str(sample_store()), "TopicTest", "order-49")]
    assert plan_call(given, {}).slices
