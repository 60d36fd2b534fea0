"""The columns of CSV are those of the command, whatever its rows are."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path

import pytest

import rmqindex
from typed import typed

SAMPLE = rmqindex.sample_store()
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "command-line.md"
FILE = "index/20261120182605197"

#: The columns of each kind of answer, as the page has them.
CSV_COLUMNS = {
    kind: tuple(re.findall("`([^`]+)`", names))
    for kind, names in re.findall(r"^\| `([a-z -]+)` \| (`.*`) \|$", PAGE.read_text(), re.MULTILINE)
}
#: Of each kind of answer: arguments that give no row, where there are any, one or some, and many.
ANSWERS = {
    "info": [("info", "EMPTY"), ("info", f"STORE/{FILE}"), ("info", "STORE")],
    "scan": [
        ("scan", "STORE", "--from", 10**12),
        ("scan", "STORE", "--limit", 1),
        ("scan", "STORE", "--salvage"),
    ],
    "lookup": [
        ("lookup", "STORE", "TopicTest", "nobody"),
        ("lookup", "STORE", "TopicTest", "order-49"),
        ("lookup", "STORE", "TopicTest", "nobody", "order-49", "BB"),
        ("lookup", "STORE", "TopicTest", "order-49", "--commit-log", "none"),
    ],
    "lookup --message": [
        ("lookup", "STORE", "TopicTest", "nobody", "--message"),
        ("lookup", "STORE", "TopicTest", "order-49", "--message"),
        ("lookup", "EXPIRED", "TopicTest", "order-49", "--message"),
    ],
    "lookup --broker": [
        ("lookup", "STORE", "TopicTest", "nobody", "--broker"),
        ("lookup", "STORE", "TopicTest", "order-49", "--broker"),
    ],
    "explain": [
        ("explain", "STORE", "TopicTest", "nobody"),
        ("explain", "STORE", "TopicTest", "order-49"),
    ],
    "cat": [("cat", "STORE", 5), ("cat", "STORE", 0)],
    "messages": [
        ("messages", "STORE", "--topic", "nobody"),
        ("messages", "STORE", "--limit", 1),
        ("messages", "STORE", "--limit", 999),
    ],
    "messages --body": [
        ("messages", "STORE", "--topic", "nobody", "--body"),
        ("messages", "STORE", "--limit", 999, "--body"),
    ],
    "usage": [
        ("usage", "STORE", "--topic", "nobody"),
        ("usage", "STORE"),
        ("usage", "STORE", "--by", "hour"),
        ("usage", "STORE", "--by", "queue", "--by", "hour"),
    ],
    "usage --by key": [
        ("usage", "STORE", "--by", "key", "--topic", "nobody"),
        ("usage", "STORE", "--by", "key"),
        ("usage", "STORE", "--by", "tag"),
        ("usage", "STORE/index", "--by", "key", "--commit-log", "none"),
    ],
    "diff": [
        ("diff", "STORE", "STORE"),
        ("diff", "STORE", "EXPIRED", "--limit", 1),
        ("diff", "STORE", "EXPIRED"),
    ],
    "groups": [
        ("groups", "GROUPS", "--group", "nobody"),
        ("groups", "GROUPS", "--topic", "T"),
        ("groups", "GROUPS"),
    ],
    "dump": [
        ("dump", "STORE/checkpoint"),
        ("dump", f"STORE/{FILE}"),
        ("dump", "STORE/commitlog/00000000000000000000"),
    ],
    "verify": [("verify", "WHOLE"), ("verify", "STORE"), ("verify", "EXPIRED")],
}


@pytest.fixture
def places(tmp_path):
    """The sample; it without its first log file and first IndexFile; an index without files."""
    store, expired = tmp_path / "store", tmp_path / "expired"
    shutil.copytree(SAMPLE, store)
    shutil.copytree(SAMPLE, expired)
    min((expired / "commitlog").iterdir()).unlink()
    (tmp_path / "empty" / "index").mkdir(parents=True)
    (tmp_path / "empty" / "commitlog").mkdir()
    offsets = tmp_path / "groups" / "config" / "consumerOffset.json"
    offsets.parent.mkdir(parents=True)
    offsets.write_text('{"offsetTable":{"T@g":{0:1},"U@g":{0:1},"U@h":{0:1,1:2}}}')
    names = {
        "STORE": "store", "EXPIRED": "expired", "EMPTY": "empty", "WHOLE": "empty",
        "GROUPS": "groups",
    }  # fmt: skip
    return {name: str(tmp_path / folder) for name, folder in names.items()}


@pytest.mark.parametrize("kind", ANSWERS)
def test_the_names_depend_on_the_command_alone(run, places, kind):
    """On none, one, several rows; each row has as many cells."""
    for arguments in ANSWERS[kind]:
        line = [re.sub("^[A-Z]{5,}", lambda name: places[name[0]], str(each)) for each in arguments]
        code, out, err = run(*line, "--csv")
        assert code < 2, err
        names, *rows = csv.reader(io.StringIO(out))
        assert tuple(names) == CSV_COLUMNS[kind], arguments
        assert {len(row) for row in rows} <= {len(names)}


@pytest.mark.parametrize("kind", ["info", "scan", "messages", "usage", "verify"])
def test_the_names_are_those_of_json(run, places, kind):
    """Of each row, in their order."""
    out = run(kind, places["STORE"], "--json")[1]
    lists = {"info": "files", "messages": "messages", "usage": "rows", "verify": "findings"}
    rows = json.loads(out)[lists[kind]] if kind in lists else map(json.loads, out.splitlines())
    assert {tuple(row) for row in rows} <= {tuple(CSV_COLUMNS[kind])}


def test_keys_of_a_file_are_looked_up_in_each_of_several_stores(run, places, tmp_path):
    """The file is read once."""
    keys = tmp_path / "keys.txt"
    keys.write_text("order-49\nBB\n")
    found = [
        run("lookup", store, "TopicTest", "--keys-file", keys, "--csv")[1].splitlines()[1:]
        for store in (places["EXPIRED"], places["STORE"])
    ]
    code, out, err = run("lookup", tmp_path, "TopicTest", "--keys-file", keys, "--csv")
    assert code == 0, err
    rows = [line.partition(",") for line in out.splitlines()[1:]]
    for store, expected in zip(("EXPIRED", "STORE"), found, strict=True):
        assert [row for name, _, row in rows if name == places[store]] == expected


def test_several_stores_have_a_first_column(run, places):
    """Under one line of names."""
    for kind in ("info", "usage"):
        first, *rows = run(kind, places["STORE"], places["EXPIRED"], "--csv")[1].splitlines()
        assert first.split(",") == ["store", *CSV_COLUMNS[kind]]
        assert {row.split(",")[0] for row in rows} == {places["STORE"], places["EXPIRED"]}


def test_a_terminal_of_another_encoding_gets_utf_8():
    """An escape could not be told from a text."""
    latin = typed("usage", SAMPLE, "--csv", environment={"PYTHONIOENCODING": "latin-1"})
    assert "订单主题," in latin.stdout.decode()


def test_the_page_has_each_kind_of_answer():
    """So that none is left out above."""
    assert CSV_COLUMNS.keys() == ANSWERS.keys()
