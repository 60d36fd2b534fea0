"""``rmq_explain``: its arguments and its rows, without Spark."""

from __future__ import annotations

import shutil

import pytest
from pyspark.sql.types import IntegerType, StringType
from pyspark.sql.udtf import AnalyzeArgument

from pyspark_rmqindex.sql.explain import ExplainFunction, plan_explain
from rmqindex import RmqIndexError, explain_lookup, sample_store

STORE = str(sample_store())


def constant(value):
    """Return a constant argument as Spark describes it."""
    type_ = IntegerType() if isinstance(value, int) else StringType()
    return AnalyzeArgument(type_, value, False, True)


def rows(*args, **options):
    """Return the rows of a call with constants, as dictionaries."""
    plan = plan_explain(
        [constant(arg) for arg in args],
        {name: constant(value) for name, value in options.items()},
    )
    found = ExplainFunction(plan).eval(*args, **options)
    return [dict(zip(plan.schema.names, row, strict=True)) for row in found]


def test_each_reason_is_a_row():
    """As explain_lookup gives them, with the log beside the index."""
    found = rows(STORE, "topictest", "order-49")
    explained = explain_lookup(STORE, "topictest", "order-49", commit_log="auto")
    assert [
        (row["code"], row["sentence"], row["remedy"], row["other_topic"], row["phy_offsets"])
        for row in found
    ] == [
        (each.code, each.sentence, each.remedy, each.topic, list(each.phy_offsets))
        for each in explained.reasons
    ]
    assert {(row["path"], row["topic"], row["key"]) for row in found} == {
        (STORE, "topictest", "order-49")
    }


def test_options_have_their_names():
    """In any case."""
    searched = rows(STORE, "TopicTest", "nobody", searchLog="all")
    assert "not_in_log" in {row["code"] for row in searched}
    blind = rows(STORE, "TopicTest", "nobody", COMMITLOG="none")
    assert "no_log" in {row["code"] for row in blind}
    zoned = rows(STORE, "TopicTest", "nobody", timeZone="Asia/Shanghai")
    (reach,) = [row for row in zoned if row["code"] == "index_reach"]
    assert "2023-11-15 06:13:24.511 +08:00" in reach["sentence"]


def test_times_are_bounds():
    """Epoch milliseconds, both inclusive."""
    found = rows(STORE, "TopicTest", "order-49", 0, 1_700_000_004_511)
    assert found[0]["phy_offsets"] == [0]
    assert "outside_window" in {row["code"] for row in found}


def test_a_pattern_stands_for_several_stores(tmp_path):
    """One that fits nothing is an error."""
    for name in ("a", "b"):
        shutil.copytree(STORE, tmp_path / name)
    found = rows(f"{tmp_path}/*", "TopicTest", "order-49")
    assert {row["path"] for row in found} == {f"{tmp_path}/a", f"{tmp_path}/b"}
    with pytest.raises(RmqIndexError, match="nothing fits the pattern"):
        rows(f"{tmp_path}/none*", "TopicTest", "order-49")


def test_a_null_has_no_rows():
    """A topic or a key that is not there."""
    plan = plan_explain([constant(STORE), constant("T"), constant("k")], {})
    assert list(ExplainFunction(plan).eval(STORE, None, "k")) == []
    assert list(ExplainFunction(plan).eval(STORE, "T", None)) == []


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((STORE, "", "k"), {}, "rmq_explain: argument 'topic': expected the name of a topic"),
        ((STORE, "T"), {}, "rmq_explain: expected path, topic and key, got no key"),
        ((STORE, "T", 1), {}, "rmq_explain: argument 'key': expected STRING, got INT"),
        (("", "T", "k"), {}, "rmq_explain: argument 'path': expected a path, got ''"),
        (
            (STORE, "T", "k"),
            {"searchlog": "some"},
            "argument 'searchLog': expected one of gaps, all, none, got 'some'",
        ),
        ((STORE, "T", "k"), {"timezone": "Mars"}, "rmq_explain: argument 'timeZone'"),
        (
            (STORE, "T", "k"),
            {"searchlogs": "all"},
            "argument 'searchlogs': unknown; did you mean 'searchLog'",
        ),
    ],
)
def test_a_bad_argument_is_refused_before_it_runs(args, options, message):
    """With what was expected."""
    with pytest.raises(ValueError, match=message):
        plan_explain(
            [constant(arg) for arg in args],
            {name: constant(value) for name, value in options.items()},
        )


def test_relative_paths_are_those_of_the_planning(tmp_path, monkeypatch):
    """A task may run in another directory."""
    shutil.copytree(STORE, tmp_path / "a" / "store")
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    args = ("store", "TopicTest", "order-49")
    plan = plan_explain([constant(arg) for arg in args], {"commitLog": constant("store/commitlog")})
    monkeypatch.chdir(tmp_path / "b")
    for path in ("store", "st*e"):
        found = list(ExplainFunction(plan).eval(path, *args[1:], commitLog="store/commitlog"))
        assert found[0][0] == str(tmp_path / "a" / "store")
        assert found[0][3] == "hit"
