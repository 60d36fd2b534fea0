"""Sail, a server of Spark Connect without Java, answers as Spark does or refuses by name."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tests.support.sail import sail_environment

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
#: Some ten times what the longest program takes.
HANG_SECONDS = 300
LIST = "a query on table() must bind both topic and key with =, <=> or IN"


def run(command, environment, tries=3):
    """Run a program that asks Sail, anew where Sail never answers.

    Once in some thousand queries its server takes one and then stands, all of its threads idle and
    none of them in Python.
    """
    try:
        return subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG_SECONDS,
        )
    except subprocess.TimeoutExpired:
        if tries == 1:
            raise
        return run(command, environment, tries - 1)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Return the environment of a program that runs Sail."""
    return sail_environment(tmp_path_factory.mktemp("sail"))


@pytest.fixture(scope="module")
def answers(environment, tmp_path_factory):
    """Return what a session answered to each way in."""
    written = tmp_path_factory.mktemp("written")
    program = Path(__file__).with_name("sail_answers.py")
    done = run([sys.executable, program, written], environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_the_guide_prints_what_it_shows(environment):
    """Its program runs as it stands, in a session of its own."""
    program = ROOT / "docs" / "use" / "sail.py"
    done = run([sys.executable, program], environment)
    assert done.stdout == program.with_suffix(".txt").read_text(), done.stderr[-2000:]


ANSWERED = {
    "version": "4.2.0",
    "load": 959,
    "key": 11,
    "keys": 37,
    "two paths": 959,
    "a log": 11,
    "columns": ["position", "phy_offset"],
    "times": 461,
    "messages": 430,
    "a message": {
        "phy_offset": 0,
        "kind": "remoting",
        "size(all_keys)": 1,
        "length(body)": 26,
    },
    "queues": 406,
    "audit": ["first_entry_late", "time_order"],
    "UTC": ["2023-11-14 22:13:24.511", 1_700_000_004_511, 1_700_000_004_511],
    "Asia/Shanghai": ["2023-11-15 06:13:24.511", 1_700_000_004_511, 1_700_000_004_511],
    "table": 11,
    "table, used again": [11, 26, 11],
    "table, four keys": 26,
    "table of two paths": 11,
    "the option pushdown": 11,
    "last_plan": (
        "looking up 1 pair [('TopicTest', 'order-49')] in 5 of 5 files (959 entries), 1 partition"
    ),
    "lookup": 11,
    "lookup, anti": 1,
    "lookup of Arrow": 11,
    "hashes": [[870_421_146, 870_421_146]],
    "a catalog table": [[[True]], [959]],
    "a view": [[[True]], [959]],
    "df.write": 503,
    "df.write, overwrite": 134,
    "write_index": 959,
}
REFUSED = {
    "two paths in load()": "Of load(['a', 'b']) Sail passes none: give the option paths instead",
    "times without a zone": "give the option 'timeZone', a zone in the text",
    "an unknown option": "option 'colums': unknown; did you mean 'columns'",
    "no such path": "/nonexistent: no such file or directory",
    "table, two keys": LIST,
    "the option pushdown, no key": LIST,
    "rmq_lookup": "use pyspark_rmqindex.lookup(keys, path), or a load with the options topic",
    "rmq_explain": "use rmqindex.explain_lookup(path, topic, key), or the command rmqindex explain",
    "writeStream": "has no streams into an index: use df.write",
}


@pytest.mark.parametrize("asked", ANSWERED)
def test_sail_answers(answers, asked):
    """What Spark Connect answers."""
    assert answers[asked] == ANSWERED[asked]


@pytest.mark.parametrize("asked", REFUSED)
def test_sail_is_refused_by_name(answers, asked):
    """With what to write instead."""
    assert REFUSED[asked] in answers[asked]


def test_every_answer_is_expected(answers):
    """None is asked for and looked at by nobody."""
    assert set(answers) == {*ANSWERED, *REFUSED}


def test_random_sql_makes_no_difference(environment):
    """Whatever Sail pushes down, the rows are those of decoded files."""
    command = [sys.executable, "-m", "tests.system.random_sql", "--session", "sail"]
    done = run([*command, "--queries", "60", "--seed", "3"], environment)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "60 queries in" in done.stdout
    assert ", 0 different" in done.stdout


def test_sail_finds_the_data_sources_by_their_entry_points():
    """Under the name of each format."""
    project = import_module("tomllib").loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, place in project["entry-points"]["pysail.datasources"].items():
        module, _, source = place.partition(":")
        assert getattr(import_module(module), source).name() == name
