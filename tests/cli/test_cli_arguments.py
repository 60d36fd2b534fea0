"""Arguments at the limits of what they can be: numbers, texts, paths and zones."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import click
import pytest

import rmqindex
from rmqindex import Layout
from rmqindex.cli.command import COMMANDS, _rmqindex
from typed import typed

STORE = rmqindex.sample_store()
INT32, INT64 = 2**31 - 1, 2**63 - 1
NOT_UTF8 = os.fsdecode(b"n\xff")


def parameters():
    """Return each argument and option of each command."""
    with click.Context(_rmqindex) as context:
        commands = {name: _rmqindex.get_command(context, name) for name in COMMANDS}
    return [(name, param) for name, command in commands.items() for param in command.params]


class TestNumbers:
    """None is greater than one of a store can be."""

    def test_every_number_has_a_range_of_32_or_64_bits(self):
        """So that none overflows behind the command line."""
        numbers = [
            (name, param.name, param.type)
            for name, param in parameters()
            if isinstance(param.type, (click.types.IntParamType, click.types.FloatParamType))
        ]
        assert len(numbers) > 20
        for name, option, kind in numbers:
            assert isinstance(kind, click.IntRange), (name, option)
            assert kind.min in (0, 1, 2), (name, option)
            assert kind.max in (INT32, INT64), (name, option)

    @pytest.mark.parametrize("command", ["scan", "messages", "usage"])
    @pytest.mark.parametrize("number", [INT64, INT64 + 1, 2**70])
    def test_a_limit_is_taken_up_to_the_greatest_long(self, run, command, number):
        """A greater one is refused with the range."""
        code, _, err = run(command, STORE, "--limit", number)
        expected = f"expected a whole number from 1 to {INT64}, got {number}"
        assert (code, expected in err) == ((0, False) if number == INT64 else (2, True))

    @pytest.mark.parametrize("number", [INT64 + 1, 2**64, "9" * 32])
    def test_digits_that_are_no_offset_may_be_an_id(self, run, number):
        """All 32 digits of an id may be decimal."""
        code, out, err = run("cat", STORE, number)
        assert (code, out) == (1, "")
        assert f"no message {number}: the index leads to no message with this unique key" in err

    def test_the_greatest_offset_is_one(self, run):
        """It lies behind the end."""
        code, _, err = run("cat", STORE, INT64)
        assert (code, "the CommitLog ends at" in err) == (1, True)


class TestTexts:
    """Topics, keys and tags that no message can have are refused by name."""

    @pytest.mark.parametrize(
        ("arguments", "name"),
        [
            (["lookup", STORE, "TopicTest", NOT_UTF8], "KEY"),
            (["lookup", STORE, NOT_UTF8, "k"], "TOPIC"),
            (["explain", STORE, "TopicTest", NOT_UTF8], "KEY"),
            (["explain", STORE, NOT_UTF8, "k"], "TOPIC"),
            (["cat", STORE, NOT_UTF8], "OFFSET|MSGID"),
            (["cat", STORE, "U1", "--topic", NOT_UTF8], "--topic"),
            (["messages", STORE, "--topic", NOT_UTF8], "--topic"),
            (["messages", STORE, "--tag", NOT_UTF8], "--tag"),
            (["usage", STORE, "--topic", NOT_UTF8], "--topic"),
            (["export", STORE, "out", "--tag", NOT_UTF8], "--tag"),
            (["rebuild-queues", STORE, "--batch-topic", NOT_UTF8], "--batch-topic"),
        ],
    )
    def test_a_text_that_is_not_utf8_is_bad_usage(self, run, arguments, name):
        """Java reads and writes all of them as UTF-8."""
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert f"Invalid value for '{name}': expected UTF-8, got 'n\\udcff'" in err


class TestPaths:
    """A name in a path may have any bytes."""

    @pytest.fixture
    def store(self, tmp_path):
        """A copy of the sample store at such a path."""
        shutil.copytree(STORE, tmp_path / NOT_UTF8 / "store")
        return tmp_path / NOT_UTF8 / "store"

    @pytest.mark.parametrize("form", ["--json", "--csv", None])
    @pytest.mark.parametrize("command", ["verify", "lookup", "explain"])
    def test_every_reader_reads_there(self, store, command, form):
        """With each form of the answer."""
        asked = [] if command == "verify" else ["TopicTest", "order-49"]
        done = typed(command, store, *asked, *filter(None, [form]))
        assert (done.returncode, done.stderr) == (0, b"")

    @pytest.mark.parametrize(
        "command",
        [
            ("rebuild-queues", "--replace"),
            ("rebuild", "--replace"),
            ("relayout", "--slots", 101, "--entries", 300),
        ],
    )
    def test_every_writer_writes_there(self, store, command):
        """What it made is sound."""
        name, *options = command
        assert typed(name, store, *options).returncode == 0
        assert typed("verify", store).returncode == 0

    @pytest.mark.parametrize("what", [(), ("--entries",)])
    def test_an_export_goes_from_there_to_there(self, store, what):
        """Messages and entries."""
        assert typed("export", store, store.with_name("out"), *what).returncode == 0

    def test_the_command_that_a_finding_names_can_be_typed(self, store):
        """As it is printed, into a shell."""
        max((store / "index").iterdir()).unlink()
        done = typed("verify", store, "--csv")
        assert done.returncode == 1
        (line,) = {
            each for each in done.stdout.decode().split("`") if each.startswith("rmqindex rebuild")
        }
        words = subprocess.check_output(
            ["bash", "-c", line.replace("rmqindex", r"printf '%s\0'", 1)]
        ).split(b"\0")
        assert words[:2] == [b"rebuild", os.fsencode(store)]

    def test_an_index_file_of_any_name_is_looked_up(self, store):
        """One that was copied and named by hand."""
        copy = store / os.fsdecode(b"copy\xff")
        shutil.copy(min((store / "index").iterdir()), copy)
        asked = ("TopicTest", "order-49", "--commit-log", "none", "--json")
        assert typed("lookup", copy, *asked).returncode == 0


@pytest.mark.parametrize("zone", ["UTC+25", "XXX-24", "Nowhere/City"])
def test_a_zone_of_the_system_that_is_none_is_refused_before_it_names_files(
    run, monkeypatch, request, tmp_path, zone
):
    """By every command that shows times or writes IndexFiles; a zone that is given is taken."""
    shutil.copytree(STORE, tmp_path / "store")
    monkeypatch.setenv("TZ", zone)
    request.addfinalizer(lambda: (monkeypatch.undo(), time.tzset()))
    time.tzset()
    relayout = ("relayout", tmp_path / "store", "--slots", 101, "--entries", 300)
    commands = (
        ("explain", STORE, "TopicTest", "order-49"),
        ("scan", STORE, "--limit", 1),
        ("rebuild", tmp_path / "store", "--replace", "--dry-run"),
        (*relayout, "--dry-run"),
    )
    for command in commands:
        code, out, err = run(*command)
        assert (code, out) == (2, "")
        assert (
            f"--time-zone: needed. TZ: expected a time zone such as Asia/Shanghai, got {zone!r}"
            in err
        )
        assert run(*command, "--time-zone", "UTC")[0] == 0
    with pytest.raises(ValueError, match="TZ: expected a time zone"):
        rmqindex.rebuild_index(tmp_path / "store", Path(tmp_path / "new"), Layout(97, 200))


class TestHome:
    """``~`` where a shell leaves it, as in quotes and behind ``=``."""

    def test_it_is_the_home_directory_in_every_path(self, run, tmp_path, monkeypatch):
        """Of arguments and of options, in lists and in patterns."""
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        assert run("sample", "~/store")[0] == 0
        assert (tmp_path / "store" / "commitlog").is_dir()
        for path in ("~/store", "~/st*"):
            assert run("info", path)[0] == 0
        assert run("lookup", "~/store/index", "TopicTest", "order-49")[0] == 0
        assert run("lookup", "store/index", "TopicTest", "order-49", "--commit-log=~/store")[0] == 0
        assert run("rebuild", "~/store", "--out=~/again/index")[0] == 0
        assert (tmp_path / "again" / "index").is_dir()
        assert not (tmp_path / "~").exists()

    def test_a_name_that_is_there_stays(self, run, tmp_path, monkeypatch):
        """Whatever it begins with."""
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.chdir(tmp_path)
        (tmp_path / "~").mkdir()
        assert run("sample", "~/store")[0] == 0
        assert (tmp_path / "~" / "store" / "index").is_dir()


@pytest.mark.parametrize("geometry", [(92, 201), (102, 199), (98, 200), (200, 97)])
@pytest.mark.parametrize(
    "command",
    [
        ("info", "store"),
        ("scan", "store"),
        ("lookup", "store", "TopicTest", "order-49"),
        ("explain", "store", "TopicTest", "order-49"),
        ("verify", "store"),
        ("plot", "store", "--out", "plot.svg"),
        ("export", "store", "entries", "--entries"),
    ],
    ids=lambda command: command[0],
)
def test_a_geometry_that_is_not_the_files_is_refused(run, tmp_path, monkeypatch, command, geometry):
    """Two of them have the size of the file, and find other entries in its bytes."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(STORE, "store")
    slots, places = geometry
    numbers = ("--max-hash-slot-num", str(slots), "--max-index-num", str(places))
    code, out, err = run(*command, *numbers)
    assert (code, out) == (2, "")
    assert f"the file shows, maxHashSlotNum 97 and maxIndexNum 200, got {slots} and {places}" in err
    assert run(*command, "--max-hash-slot-num", "97", "--max-index-num", "200")[0] < 2


def test_a_working_directory_that_was_deleted_is_told(run, store, tmp_path, monkeypatch):
    """Of a relative path; an absolute one does not need it."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for command in (
        ("verify", "."),
        ("verify", "st*"),
        ("recover", "store"),
        ("groups", "store"),
        ("diff", "store", "other"),
        ("export", store, "new"),
        ("rebuild", store, "--out", "new"),
    ):
        code, _, err = run(*command)
        assert code == 2
        assert err.splitlines()[-1].startswith("rmqindex: .: expected the working directory of ")
    assert run("verify", store)[0] == 0
