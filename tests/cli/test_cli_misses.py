"""A key that is not found leads on: to what explains it, and to the name that was meant."""

from __future__ import annotations

import csv
import io
import json
import shlex
import shutil

import pytest

import rmqindex

SAMPLE = rmqindex.sample_store()
KEY = ("lookup", SAMPLE, "TopicTest", "order-49")


def why(err):
    """Return the command in a sentence, as a shell splits it."""
    return shlex.split(err.split("`")[1])


@pytest.mark.parametrize("key", ["nobody", "it's here", "-x", "订单", "tab\there"])
def test_a_miss_names_the_command_that_tells_why(run, key):
    """As it was typed, quoted for a shell."""
    code, out, err = run("lookup", SAMPLE, "TopicTest", "--", key)
    assert (code, out) == (1, "")
    if key.isprintable():
        name, *arguments = why(err)
        assert (name, arguments[0]) == ("rmqindex", "explain")
        assert arguments[-3:] == [str(SAMPLE), "TopicTest", key]
        assert "no_entry" in run(*arguments)[1]
    else:
        assert "TopicTest $'tab\\011here'`" in err


def test_the_command_asks_the_same_question(run):
    """Of the same times, with the same log and geometry."""
    asked = ("--begin", "2023-11-14", "--end", "2023-11-15T04", "--commit-log", "none")
    layout = ("--max-hash-slot-num", "97", "--max-index-num", "200")
    _, _, err = run("lookup", SAMPLE, "TopicTest", "nobody", *asked, *layout)
    assert why(err)[5:] == [
        *("--begin", "1699920000000", "--end", "1700020800000", "--commit-log", "none"),
        *layout,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("topic", "key", "found"),
    [
        ("topictest", "order-49", "11 of TopicTest#order-49"),
        ("TopicTest", "ORDER-49", "11 of TopicTest#order-49"),
        ("TOPICTEST ", " Order-49", "11 of TopicTest#order-49"),
        ("order-49", "TopicTest", "11 of TopicTest#order-49"),
        ("order-49", "topictest", "11 of TopicTest#order-49"),
        ("TopicTes", "order-49", None),
        ("TopicTest", "rder-49", None),
    ],
)
def test_the_name_in_another_case_or_place_is_said(run, topic, key, found):
    """With how many entries it has, so that none is guessed; others are for `explain`."""
    code, out, err = run("lookup", SAMPLE, topic, key)
    assert (code, out) == (1, "")
    if found is None:
        assert ", but" not in err
    else:
        asked = " ".join(f"{topic}#{key}".split())
        assert f"no entry of {asked}, but {found}; `rmqindex explain " in err
    document = json.loads(run("lookup", SAMPLE, topic, key, "--json")[1])
    assert document["nearest"] == (found and {"topic": "TopicTest", "key": "order-49"})
    assert document["explain"].startswith(f"rmqindex explain {SAMPLE} ")


def test_a_store_without_queues_names_its_topics_too(run, tmp_path):
    """By the table of its topics; one that cannot be read names none."""
    store = shutil.copytree(SAMPLE, tmp_path / "store")
    shutil.rmtree(store / "consumequeue")
    topics = store / "config" / "topics.json"
    topics.parent.mkdir(exist_ok=True)
    topics.write_text(json.dumps({"topicConfigTable": {"TopicTest": {}}}))
    asked = ("lookup", store, "topictest", "order-49")
    assert ", but 11 of TopicTest#order-49;" in run(*asked)[2]
    topics.write_text("[]")
    code, _, err = run(*asked)
    assert code == 1
    assert ", but" not in err


@pytest.mark.parametrize("how", [(), ("--broker",), ("--message",), ("--commit-log", "none")])
def test_of_two_keys_the_missing_one_is_in_every_form(run, how):
    """The exit code is that of the one that was found."""
    code, out, err = run(*KEY, "nobody", *how)
    assert code == 0
    assert "no entry of TopicTest#nobody; `rmqindex explain" in err
    assert "112033" in out
    code, out, err = run(*KEY, "nobody", *how, "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    (missing,) = [row for row in rows if row["key"] == "nobody"]
    filled = {name: value for name, value in missing.items() if value}
    states = {} if how == ("--broker",) else {"state": "no_entry"}
    assert filled == {"topic": "TopicTest", "key": "nobody", **states}
    code, out, err = run(*KEY, "nobody", *how, "--json")
    found, missed = json.loads(out)["answers"]
    assert code == 0
    assert (found["explain"], found["nearest"]) == (None, None)
    assert missed["explain"].startswith("rmqindex explain ")
    assert not missed["phy_offsets" if how == ("--broker",) else "hits"]


def test_none_of_two_keys_gives_1(run):
    """Each is named."""
    code, _, err = run("lookup", SAMPLE, "TopicTest", "nobody", "no-one")
    assert code == 1
    assert [line.split("; ")[0].split("#")[1] for line in err.splitlines()] == ["nobody", "no-one"]


def test_several_stores_have_one_command(run, tmp_path):
    """Which asks them all."""
    for name in "ab":
        shutil.copytree(SAMPLE, tmp_path / name)
    code, _, err = run("lookup", tmp_path, "TopicTest", "nobody")
    assert code == 1
    stores = [str(tmp_path / name) for name in "ab"]
    assert why(err) == ["rmqindex", "explain", *stores, "TopicTest", "nobody"]


def test_an_explanation_says_of_how_many_entries_some_answer(run):
    """Where the broker returns no more than 64, or those of other times are left out."""
    out = run("explain", SAMPLE, "TopicTest", "order-49", "--begin", "2023-11-15")[1]
    assert out.splitlines()[-1].startswith("7 of 11 entries of hash ")
    assert "hit: 7 of 11 entries of TopicTest#order-49 in 5 files" in out
    explained = rmqindex.explain_lookup(
        SAMPLE, "TopicTest", "order-49", commit_log=SAMPLE, max_msgs_num_batch=4
    )
    assert str(explained).splitlines()[-1].startswith("4 of 11 entries of hash ")
