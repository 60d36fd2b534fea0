"""A store in an object store is told apart as one on a disk is, and what is not done there is said.

What is asked of the server, and how failures end, is in tests/format/storage.
"""

from __future__ import annotations

import json
import shlex
import shutil

import pytest

import rmqindex
from kinds import sampled

pytestmark = pytest.mark.usefixtures("s3_environment")

SAMPLE = rmqindex.sample_store()
LAYOUT = ("--max-hash-slot-num", "97", "--max-index-num", "200")


@pytest.fixture(scope="module")
def damaged(s3, tmp_path_factory):
    """The same damage of a slot on a disk and in a bucket."""
    store = tmp_path_factory.mktemp("damaged") / "store"
    shutil.copytree(SAMPLE, store)
    with max((store / "index").iterdir()).open("r+b") as file:
        file.seek(40 + 4 * 85)
        file.write(b"\x7f\0\0\1")
    return store, s3.put(store, "damaged-slot")


@pytest.mark.parametrize(
    "command",
    sampled(
        [("lookup", "TopicTest", "order-49"), ("explain", "TopicTest", "order-49"), ("verify",)],
        ("verify",),
    ),
)
def test_another_geometry_than_the_usual_is_asked_for(run, s3_store, command):
    """It is searched for in local files only, and no file is called damaged for that."""
    name, *question = command
    code, out, err = run(name, s3_store, *question)
    assert (code, out) == (2, "")
    assert "say which with --max-hash-slot-num and --max-index-num" in err
    assert "damage" not in err
    code, out, err = run(name, s3_store, *question, *LAYOUT)
    assert (code, err) == (0, "")


def test_an_audit_in_python_asks_for_it_too(s3_store):
    """By the names of the options."""
    with pytest.raises(rmqindex.RmqIndexError, match="maxHashSlotNum and maxIndexNum"):
        rmqindex.verify(s3_store)


def test_damage_is_the_same_as_on_a_disk(run, damaged):
    """The same findings, reasons and refusal; the command that mends it writes a directory."""
    local, remote = damaged
    told = []
    for store in (local, remote):
        rows = json.loads(run("verify", store, *LAYOUT, "--json")[1])["findings"]
        explained = json.loads(run("explain", store, "TopicTest", "order-49", *LAYOUT, "--json")[1])
        code, _, err = run("lookup", store, "TopicTest", "order-49", *LAYOUT)
        told.append(
            (
                [
                    (row["rule"], row["byte"], row["got"])
                    for row in rows
                    if row["severity"] == "error"
                ],
                [file["reason"] for file in explained["files"]],
                (code, "slot at byte 380: expected 0 to 164 (slot 85), got 2130706433" in err),
            )
        )
    assert told[0] == told[1]
    assert told[0][1][0] == "damaged"
    assert told[0][2] == (2, True)


def test_the_remedy_makes_files_of_the_same_geometry(run, damaged, tmp_path, monkeypatch):
    """In a directory that is new, and shows none itself."""
    _, remote = damaged
    to_do = json.loads(run("verify", remote, *LAYOUT, "--json")[1])["to_do"]
    _, *command = shlex.split(to_do.split("`")[1])
    assert command == ["rebuild", remote, "--out", "DIR", *LAYOUT]
    monkeypatch.chdir(tmp_path)
    assert run(*command)[0] == 0
    made = [path.read_bytes() for path in sorted((tmp_path / "DIR").iterdir())]
    assert made == [path.read_bytes() for path in sorted((SAMPLE / "index").iterdir())]


@pytest.mark.parametrize("options", [(), ("--replace",)])
@pytest.mark.parametrize("name", ["rebuild", "rebuild-queues"])
def test_a_rebuild_says_that_it_writes_directories_alone(run, s3_store, name, options, tmp_path):
    """And what to type instead, with the options that were given."""
    given = ["--no-checkpoint", "--time-zone", "Asia/Shanghai", *LAYOUT]
    if name == "rebuild-queues":
        given = ["--file-size", "400", "--leave-out", "a b", "--leave-out", "c", "--json"]
    code, out, err = run(name, s3_store, *options, *given)
    assert (code, out) == (2, "")
    assert "only a local directory can be written" in err
    assert "`; then copy what is in DIR to " in err
    _, *command = shlex.split(err.split("`")[1])
    assert command[:4] == [name, s3_store, "--out", "DIR"]
    assert sorted(command[4:]) == sorted(given)
    where = str(tmp_path / "made")
    assert run(*(where if each == "DIR" else each for each in command))[0] == 0


def test_a_rebuild_takes_what_the_index_there_shows(run, s3_store, tmp_path):
    """Its tags; and its geometry is asked for, where the default would be another."""
    out = tmp_path / "made"
    code, _, err = run("rebuild", s3_store, "--out", out)
    assert code == 2
    assert "no file tells the geometry: give --max-hash-slot-num and --max-index-num" in err
    code, text, _ = run("rebuild", s3_store, "--out", out, *LAYOUT)
    assert code == 0
    assert "Tags are not indexed, as the existing files show" in text
