"""What the command line prints, where, and with which exit code."""

import functools
import json
import os
import pty
import re
import shutil
import subprocess
import sys

import pytest

import rmqindex
from kinds import sampled
from recorded import ROCKETMQ_CLASSES
from rmqindex.cli.command import COMMANDS, load
from typed import typed

STORE = rmqindex.sample_store()
FILES = sorted((STORE / "index").iterdir())
# What the IndexFiles alone say.
NO_LOG = ("--commit-log", "none")


def shell(*arguments, **environment):
    """Run a command as a process of its own, at no terminal."""
    return typed(*arguments, environment=without_columns() | environment)


def without_columns():
    """Return the environment, without the width of the terminal that runs parallel tests."""
    return {name: value for name, value in os.environ.items() if name != "COLUMNS"}


def printed_at_a_terminal(columns, *arguments, **environment):
    """Run a command at a terminal of some width and return what it shows."""
    parent, child = pty.openpty()
    with os.fdopen(parent, "rb", buffering=0) as screen:
        settings = {"COLUMNS": str(columns), "TERM": "xterm-256color", **environment}
        done = typed(*arguments, stdout=child, environment=without_columns() | settings)
        os.close(child)
        assert done.returncode == 0, done.stderr
        shown = b""
        while True:
            try:
                part = screen.read(65536)
            except OSError:  # Linux reports the end of a terminal so
                break
            if not part:
                break
            shown += part
    return shown.decode().replace("\r\n", "\n")


class TestInfo:
    """``rmqindex info``."""

    def test_its_json_has_the_facts_of_every_file(self, run):
        """Headers, geometry, sizes and totals are those that RocketMQ wrote."""
        code, out, err = run("info", STORE, "--json")
        golden = json.loads((ROCKETMQ_CLASSES / "store_messages.json").read_text())["index_files"]
        document = json.loads(out)
        assert (code, err) == (0, "")
        assert document["path"] == str(STORE)
        assert len(document["files"]) == len(golden)
        for file, expected in zip(document["files"], golden, strict=True):
            assert file["name"] == expected["name"]
            assert file["path"] == str(STORE / "index" / expected["name"])
            assert file["entry_count"] == expected["index_count"] - 1
            for field in (
                "begin_timestamp",
                "end_timestamp",
                "begin_phy_offset",
                "end_phy_offset",
                "hash_slot_count",
            ):
                assert file[field] == expected[field]
            assert (file["hash_slot_num"], file["index_num"], file["size"]) == (97, 200, 4428)
            assert file["load_factor"] == round(file["entry_count"] / 97, 4)
            assert file["disk_size"] == (STORE / "index" / file["name"]).stat().st_blocks * 512
            assert file["error"] is None
        assert document["totals"] == {
            "file_count": 5,
            "size": 5 * 4428,
            "disk_size": sum(file["disk_size"] for file in document["files"]),
            "entry_count": 959,
            "begin_timestamp": 1700000004511,
            "end_timestamp": 1700022861666,
            "begin_phy_offset": 0,
            "end_phy_offset": 122928,
        }

    def test_a_store_a_directory_and_a_file_are_paths(self, run):
        """A path is a store root, an index directory, an IndexFile, or a file: URI of one."""
        for path, files in (
            (STORE, 5),
            (STORE / "index", 5),
            (FILES[0], 1),
            (STORE.as_uri(), 5),
        ):
            code, out, _ = run("info", path, "--json")
            assert (code, json.loads(out)["totals"]["file_count"]) == (0, files)

    def test_its_table_shows_each_file_and_the_totals(self, run):
        """In a pipe the table is whole, whatever its width."""
        code, out, err = run("info", STORE)
        assert (code, err) == (0, "")
        assert out.splitlines()[2].split() == [
            "20261120182605197", "199", "81", "2.05", "2023-11-14", "22:13:24.511",
            "1700000004511", "0", "4.3", "KiB",
        ]  # fmt: skip
        assert "5 files, 959 entries, 21.6 KiB" in out
        assert "97 hash slots (maxHashSlotNum), 200 entry places (maxIndexNum)" in out
        assert "stored 2023-11-14 22:13:24.511 to 2023-11-15 04:34:21.666 UTC" in out

    def test_times_are_shown_in_the_zone_asked_for(self, run):
        """A zone has a name or an offset."""
        for zone in ("Asia/Shanghai", "+08:00"):
            _, out, _ = run("info", FILES[0], "--time-zone", zone)
            assert f"stored 2023-11-15 06:13:24.511 to 2023-11-15 07:17:50.642 {zone}" in out

    def test_an_empty_directory_is_refused(self, run, tmp_path):
        """It may be where a disk belongs that is not mounted."""
        code, out, err = run("info", tmp_path)
        assert (code, out) == (2, "")
        assert "got an empty directory; if it is where a disk belongs, is the disk mounted?" in err

    def test_a_store_without_index_files_has_none(self, run, tmp_path):
        """That is an answer, not an error."""
        (tmp_path / "index").mkdir()
        (tmp_path / "commitlog").mkdir()
        assert run("info", tmp_path) == (0, f"{tmp_path}: no IndexFiles\n", "")
        code, out, _ = run("info", tmp_path, "--json")
        document = json.loads(out)
        assert (code, document["files"], document["totals"]["entry_count"]) == (0, [], 0)

    def test_a_file_without_entries_needs_no_geometry(self, run, tmp_path):
        """What its header inherits from the previous file is not shown as an entry's."""
        header = rmqindex.IndexHeader(1700000000000, 1700000000000, 7, 7, 0, 1)
        (tmp_path / "1").write_bytes(header.to_bytes() + bytes(1000))
        code, out, err = run("info", tmp_path)
        assert (code, err) == (0, "")
        assert "1700000000000" not in out
        assert "1 file, 0 entries" in out

    def test_a_sparse_file_takes_less_on_disk(self, run, tmp_path):
        """The size on disk is told from the apparent one."""
        shutil.copy(FILES[0], tmp_path / "1")
        os.truncate(tmp_path / "1", 4428 + 20 * 100_000)
        layout = ("--max-hash-slot-num", 97, "--max-index-num", 200)
        code, out, _ = run("info", tmp_path, "--json", *layout)
        file = json.loads(out)["files"][0]
        assert code == 0
        assert file["size"] == 2_004_428
        assert file["disk_size"] < 100_000

    def test_a_bad_file_is_named_and_the_others_are_shown(self, run, tmp_path):
        """The exit code is 2, and the error one line."""
        shutil.copy(FILES[0], tmp_path / "1")
        (tmp_path / "2").write_bytes(FILES[1].read_bytes()[:39])
        code, out, err = run("info", tmp_path)
        assert code == 2
        assert "2 files, 199 entries" in out
        assert err == (
            f"rmqindex: {tmp_path}/2: header at byte 0: expected 40 bytes, got a file of 39 bytes; "
            "--mode DROPMALFORMED reads the sound part of a damaged file\n"
        )
        code, out, _ = run("info", tmp_path, "--json")
        document = json.loads(out)
        assert code == 2
        assert [file["error"] is None for file in document["files"]] == [True, False]
        assert document["files"][1]["entry_count"] is None


class TestLookup:
    """``rmqindex lookup``."""

    def test_it_finds_every_entry_newest_first(self, run):
        """All files are searched; entries that one message wrote twice are there twice."""
        code, out, err = run("lookup", STORE, "TopicTest", "BB", "--json", *NO_LOG)
        hits = json.loads(out)["hits"]
        assert (code, err, len(hits)) == (0, "", 26)
        places = [(hit["name"], hit["position"]) for hit in hits]
        assert places == sorted(places, reverse=True)
        assert hits[0] == {
            "path": str(FILES[4]),
            "name": "20261120182606803",
            "position": 163,
            "phy_offset": 122928,
            "store_timestamp": 1700022860911,
            "state": "no_log",
        }

    def test_its_table_shows_where_and_when(self, run):
        """A row an entry, then how many there are."""
        code, out, _ = run("lookup", STORE, "TopicTest", "order-49", "--limit", 1, *NO_LOG)
        header, _, row, empty, count = out.splitlines()
        assert code == 0
        assert header.split() == ["File", "Position", "Offset", "Stored", "(UTC)", "Epoch", "ms"]
        assert row.split() == [
            "20261120182606803", "79", "112033", "2023-11-15", "04:32:58.911", "1700022778911",
        ]  # fmt: skip
        assert (empty, count) == ("", "1 entry in 1 file")

    def test_a_time_range_is_inclusive_and_takes_milliseconds_or_text(self, run):
        """The same range in four notations gives the same entries."""
        ranges = [
            ("--begin=1700000004511", "--end=1700000167511"),
            ("--begin=2023-11-14T22:13:24.511", "--end=2023-11-14 22:16:07.511"),
            ("--begin=2023-11-14T22:13:24.511Z", "--end=2023-11-15T06:16:07.511+08:00"),
            (
                "--time-zone=Asia/Shanghai",
                "--begin=2023-11-15T06:13:24.511",
                "--end=2023-11-15T06:16:07.511",
            ),
        ]
        for bounds in ranges:
            code, out, _ = run("lookup", STORE, "TopicTest", "order-49", "--json", *bounds, *NO_LOG)
            document = json.loads(out)
            assert code == 0
            assert (document["begin"], document["end"]) == (1700000004511, 1700000167511)
            assert [hit["phy_offset"] for hit in document["hits"]] == [19997, 0]

    def test_a_key_that_is_not_there_gives_1(self, run):
        """The answer is a line on standard error, or an empty list in JSON."""
        why = f"`rmqindex explain {STORE} TopicTest nobody` tells why"
        said = f"rmqindex: {STORE}: no entry of TopicTest#nobody; {why}\n"
        assert run("lookup", STORE, "TopicTest", "nobody") == (1, "", said)
        code, out, err = run("lookup", STORE, "TopicTest", "nobody", "--json")
        assert (code, json.loads(out)["hits"], err) == (1, [], "")

    def test_the_brokers_answer_is_the_brokers(self, run):
        """``--broker`` gives what RocketMQ's own queryOffset gave."""
        golden = json.loads((ROCKETMQ_CLASSES / "store_queries.json").read_text())["query_offset"]
        asked = [query for query in golden if query["begin"] >= 0 and query["max_num"] > 0]
        for query in asked[:: len(asked) // 40]:
            code, out, _ = run(
                "lookup", STORE, query["topic"], query["key"], "--broker", "--json",
                "--limit", query["max_num"], "--begin", query["begin"], "--end", query["end"],
            )  # fmt: skip
            document = json.loads(out)
            assert code == (0 if query["result"] else 1)
            assert document["phy_offsets"] == query["result"]
            assert document["index_last_update_timestamp"] == 1700022861666
            assert document["index_last_update_phy_offset"] == 122928

    def test_the_brokers_answer_for_people_ends_with_the_last_update(self, run):
        """Offsets one a line, then what the broker sends along."""
        code, out, _ = run("lookup", STORE, "TopicTest", "order-49", "--broker", "--limit", 2)
        assert code == 0
        assert [line.strip() for line in out.splitlines()[2:4]] == ["112033", "109318"]
        assert out.endswith(
            "2 offsets; the index was last updated 2023-11-15 04:34:21.666 UTC at offset 122928\n"
        )

    def test_a_damaged_chain_stops_or_is_read_around(self, run, tmp_path):
        """FAILFAST names the byte; DROPMALFORMED finds the entry all the same."""
        layout = rmqindex.Layout(97, 200)
        damaged = bytearray(FILES[0].read_bytes())
        slot = rmqindex.key_hash("TopicTest#BB") % 97
        at = layout.slot_offset(slot)
        damaged[at : at + 4] = (100_000).to_bytes(4, "big")
        file = tmp_path / FILES[0].name
        file.write_bytes(damaged)
        geometry = ("--max-hash-slot-num", 97, "--max-index-num", 200)
        code, out, err = run("lookup", file, "TopicTest", "BB", *geometry)
        assert (code, out) == (2, "")
        assert err.startswith(f"rmqindex: {file}: ")
        assert f"at byte {at}: expected" in err
        assert err.count("\n") == 1
        code, out, _ = run(
            "lookup", file, "TopicTest", "BB", *geometry, "--mode", "dropmalformed", "--json"
        )
        assert code == 0
        assert [hit["phy_offset"] for hit in json.loads(out)["hits"]] == [9740, 9119, 2290, 412]


class TestErrors:
    """What the user is told, and that nothing else is."""

    def test_a_missing_path_is_one_line(self, run, tmp_path):
        """No traceback, nothing on standard output, exit code 2."""
        for command in (("info",), ("lookup",)):
            more = ("T", "k") if command == ("lookup",) else ()
            code, out, err = run(*command, tmp_path / "gone", *more)
            assert (code, out) == (2, "")
            assert err == f"rmqindex: {tmp_path}/gone: no such file or directory\n"

    def test_a_geometry_that_does_not_show_names_the_command_lines_own_options(self, run, tmp_path):
        """The hint has this program's names of the options."""
        entries = rmqindex.IndexHeader(1, 1, 0, 0, 1, 2).to_bytes()
        (tmp_path / "1").write_bytes(entries + bytes(4 * 97 + 20 * 200))
        code, _, err = run("info", tmp_path)
        assert code == 2
        assert "--max-hash-slot-num and --max-index-num" in err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["info"], "Missing argument 'PATH'"),
            (["info", STORE, "--max-index-num", "200"], "give both or neither"),
            (
                ["info", STORE, "--max-index-num", "0", "--max-hash-slot-num", "1"],
                "from 1 to 2147483647",
            ),
            (["info", STORE, "--time-zone", "Mars"], "'Mars'"),
            (["info", STORE, "--mode", "PERMISSIVE"], "PERMISSIVE"),
            (["lookup", STORE, "T", "k", "--begin", "noon"], "'noon'"),
            (["lookup", STORE, "T", "k", "--limit", "0"], "--limit"),
            (["lookup", STORE, "T", "k", "--broker", "--mode", "DROPMALFORMED"], "--mode"),
            (["lookup", "s3://bucket/store", "T", "k", "--broker"], "only for a local directory"),
            (["no-such-command"], "no-such-command"),
        ],
    )
    def test_bad_usage_gives_2_and_says_what_is_wrong(self, run, arguments, message):
        """Usage errors point to the help."""
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert message in err
        assert "Try 'rmqindex" in err
        assert "Traceback" not in err


class TestSample:
    """``rmqindex sample``."""

    def test_it_writes_the_whole_store(self, run, tmp_path):
        """Every file, byte for byte, also those with names that are not ASCII."""
        code, _, err = run("sample", tmp_path / "new" / "store")
        assert (code, err) == (0, "")
        written = {
            path.relative_to(tmp_path / "new" / "store"): path.read_bytes()
            for path in (tmp_path / "new" / "store").rglob("*")
            if path.is_file()
        }
        packaged = {
            path.relative_to(STORE): path.read_bytes()
            for path in STORE.rglob("*")
            if path.is_file()
        }
        assert written == packaged
        assert run("info", tmp_path / "new" / "store")[0] == 0

    def test_an_empty_directory_will_do(self, run, tmp_path):
        """A directory that is there and empty is filled."""
        assert run("sample", tmp_path)[0] == 0
        assert (tmp_path / "index" / FILES[0].name).exists()

    def test_what_is_there_is_left_alone(self, run, tmp_path):
        """A directory with anything in it, or a file, is refused and stays as it is."""
        (tmp_path / "mine").write_text("mine")
        for target in (tmp_path, tmp_path / "mine"):
            code, out, err = run("sample", target)
            assert (code, out) == (2, "")
            assert err == f"rmqindex: {target}: expected a new or empty directory\n"
        assert [path.name for path in tmp_path.iterdir()] == ["mine"]

    def test_a_place_that_cannot_be_written_is_one_line(self, run):
        """The system's error, with the path and without a traceback."""
        code, _, err = run("sample", "/proc/rmqindex/store")
        assert code == 2
        assert err == "rmqindex: /proc/rmqindex: No such file or directory\n"


class TestOutput:
    """How the output suits where it goes."""

    def test_help_has_examples(self, run):
        """Each command says how it is used."""
        for command in ("info", "lookup", "sample"):
            code, out, _ = run(command, "--help")
            assert code == 0
            assert f"  rmqindex {command} " in out

    def test_the_version_is_the_distributions(self, run):
        """``--version`` prints it and nothing else."""
        from importlib.metadata import version

        assert run("--version") == (0, f"rmqindex {version('rmqindex')}\n", "")

    def test_a_pipe_gets_no_colours_and_no_folding(self):
        """Lines are whole whatever the terminal's width was."""
        out = shell("info", STORE).stdout.decode()
        assert "\x1b" not in out
        assert all(file.name in out for file in FILES)
        assert "122928" in out

    def test_an_encoding_without_lines_gets_hyphens(self):
        """And no escapes in their place."""
        for arguments in (("info", STORE), ("scan", STORE, "--limit", 1)):
            out = shell(*arguments, PYTHONIOENCODING="ascii").stdout.decode()
            assert out.splitlines()[1].strip("-") == ""
            assert "\\" not in out

    def test_closed_standard_input_has_no_keys(self):
        """It is said in a sentence."""
        command = f"{sys.executable} -m rmqindex lookup {STORE} TopicTest --keys-file - <&-"
        done = subprocess.run(
            ["/bin/sh", "-c", command], capture_output=True, check=False, timeout=60
        )
        assert done.returncode == 2
        assert b"standard input, which is closed" in done.stderr
        assert b"Traceback" not in done.stderr

    def test_a_locale_without_the_characters_of_a_topic_is_named(self, tmp_path):
        """As of no system that a broker runs on by default."""
        argv = [
            sys.executable,
            "-m",
            "rmqindex",
            "rebuild-queues",
            STORE,
            "--out",
            tmp_path / "new",
        ]
        plain = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
        env = {**os.environ, **plain}
        done = subprocess.run(argv, capture_output=True, check=False, timeout=60, env=env)
        assert done.returncode == 2
        assert b"got the encoding ascii: set LC_ALL=C.UTF-8" in done.stderr

    def test_no_color_keeps_colours_out(self):
        """With NO_COLOR a terminal gets text without colours."""
        shown = printed_at_a_terminal(200, "info", STORE, NO_COLOR="1")
        assert "\x1b[3" not in shown
        assert FILES[0].name in shown

    @pytest.mark.parametrize("columns", [40, 80, 200])
    def test_no_digit_is_cut_at_any_width(self, columns):
        """A narrow terminal gets another arrangement, never half a number."""
        facts = printed_at_a_terminal(columns, "info", FILES[0])
        for text in (FILES[0].name, "1700000004511", "1700003870642", "26249", "2.05"):
            assert text in facts
        hits = printed_at_a_terminal(
            columns, "lookup", STORE, "TopicTest", "BB", "--limit", "1", *NO_LOG
        )
        for text in (FILES[4].name, "1700022860911", "122928"):
            assert text in hits
        assert "…" not in facts + hits

    def test_a_terminal_of_60_columns_fits_what_a_relayout_did(self, tmp_path):
        """Its sentences are broken between words, as those of a rebuild."""
        shutil.copytree(STORE, tmp_path / "store")
        shown = printed_at_a_terminal(
            60, "relayout", tmp_path / "store", "--slots", 31, "--entries", 500
        )
        assert max(map(len, shown.splitlines())) <= 60

    def test_a_terminal_of_80_columns_has_no_longer_line(self):
        """The usual width shows whole lines."""
        shown = printed_at_a_terminal(80, "info", STORE, NO_COLOR="1", TERM="dumb")
        assert max(map(len, shown.splitlines())) <= 80

    def test_at_60_columns_values_that_do_not_fit_have_lines_of_their_own(self):
        """No line is longer than the terminal is wide."""
        for arguments in (
            ("cat", STORE, 0),
            ("dump", STORE / "checkpoint"),
            ("dump", STORE / "commitlog" / f"{0:020}", "--limit", 1),
            ("usage", STORE, "--topic", "TopicTest"),
        ):
            shown = printed_at_a_terminal(60, *arguments, NO_COLOR="1")
            lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
            lines = lines.replace(f"{STORE}", "store").splitlines()
            assert max(map(len, lines)) <= 60, arguments

    @pytest.mark.parametrize("columns", [60, 80])
    def test_notes_on_standard_error_are_wrapped(self, tmp_path, columns):
        """Between words, with commands whole; in a pipe a note is one line."""
        store = shutil.copytree(STORE, tmp_path / "store")
        max((store / "index").iterdir()).unlink()
        question = ("lookup", store, "TopicTest", "nobody")
        _, piped = shell(*question).stderr.decode().splitlines()
        parent, child = pty.openpty()
        settings = {**os.environ, "COLUMNS": str(columns)}
        typed(*question, stderr=child, environment=settings)
        os.close(child)
        with os.fdopen(parent, "rb", buffering=0) as screen:
            lines = screen.read(65536).decode().splitlines()
        notes = lines[max(n for n, line in enumerate(lines) if line.startswith("rmqindex:")) :]
        assert " ".join(line.strip() for line in notes) == piped
        whole = f"`rmqindex verify {store}`"
        assert any(whole in line for line in notes)
        assert all(len(line) <= columns or str(store) in line for line in notes)

    def test_a_file_that_is_no_index_has_an_error_alone(self, run, tmp_path):
        """No totals of nothing."""
        (tmp_path / "passwd").write_bytes(b"x" * 1294)
        code, out, err = run("info", tmp_path / "passwd")
        assert (code, out) == (2, "")
        assert "no geometry has a file size of 1294 bytes" in err

    def test_an_encoding_without_lines_gets_ascii(self):
        """An ASCII terminal sees ASCII, with what it lacks escaped."""
        done = shell("lookup", STORE, "订单主题", "order-49", PYTHONIOENCODING="ascii")
        assert done.returncode == 0
        assert done.stdout.isascii()

    def test_spark_is_not_imported(self):
        """The command line starts without Spark, and without its connector."""
        code = (
            "import sys, rmqindex.cli.command as command; "
            "[command.load(name) for name in command.COMMANDS]; "
            "print([m for m in sys.modules if m.startswith('pyspark')])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        assert done.stdout.strip() == b"[]"


class TestCommands:
    """The list of commands, and what is loaded for one."""

    @staticmethod
    @functools.cache
    def loaded(*arguments):
        """Return the modules that a command imports."""
        code = (
            "import atexit, sys; from rmqindex.cli import main; "
            "assert 'click' not in sys.modules; "
            "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main()"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=True,
        )
        return set(done.stderr.split())

    def test_every_command_of_the_list_is_there(self, run):
        """Each under its own name; the help lists them in order."""
        _, out, _ = run("--help")
        part = out.partition("Commands:\n")[2].partition("\n\n")[0]
        listed = [line.split()[0] for line in part.splitlines()]
        assert listed == list(COMMANDS)
        assert [load(name).name for name in COMMANDS] == listed

    def test_a_command_imports_only_the_rooms_that_it_uses(self):
        """Others cost a third of the time that it takes to print a table."""
        loaded = self.loaded("info", STORE)
        assert not loaded & {
            "pyarrow.compute",
            "rmqindex.audit.plan",
            "rmqindex.bulk.rebuild",
            "rmqindex.commitlog.log",
            "rmqindex.explanation.explain",
        }

    @pytest.mark.parametrize(
        "command",
        sampled(
            [
                (("info", STORE), False),
                (("scan", STORE, "--limit", 1), False),
                (("dump", STORE / "checkpoint"), False),
                (("usage", STORE, "--topic", "TopicTest"), True),
                (("messages", STORE, "--limit", 1), True),
                (("cat", STORE, 112033), True),
                (("lookup", STORE, "TopicTest", "order-49"), True),
                (("explain", STORE, "TopicTest", "order-49"), True),
                (("verify", STORE), True),
            ],
            (("info", STORE), False),
            (("lookup", STORE, "TopicTest", "order-49"), True),
            (("verify", STORE), True),
        ),
        ids=lambda command: command[0][0],
    )
    def test_a_command_imports_nothing_heavy(self, command):
        """Each of these takes longer to load than a small store to read."""
        arguments, needs_compute = command
        heavy = {"asyncio", "concurrent.futures", "email", "multiprocessing", "pandas", "rich"}
        heavy |= {"pyarrow.csv", "pyarrow.dataset", "pyarrow.parquet", "subprocess", "tempfile"}
        if not needs_compute:
            heavy.add("pyarrow.compute")
        assert not heavy & self.loaded(*arguments)

    def test_the_help_loads_no_command(self):
        """It starts as fast as click does."""
        loaded = self.loaded("--help")
        modules = {name for name in loaded if name.startswith("rmqindex.cli.")}
        assert modules == {f"rmqindex.cli.{name}" for name in ("command", "invocation", "streams")}
        assert not {"numpy", "pyarrow", "rich"} & loaded

    def test_a_lookup_loads_no_other_command(self):
        """Neither the audit nor what rebuilds an index, and for machines no tables."""
        loaded = self.loaded("lookup", STORE, "TopicTest", "order-49", "--json")
        modules = {name for name in loaded if name.startswith("rmqindex.cli.")}
        assert {name for name in modules if name.startswith("rmqindex.cli.commands.")} == {
            "rmqindex.cli.commands.lookup"
        }
        assert {name for name in modules if not name.startswith("rmqindex.cli.commands")} == {
            f"rmqindex.cli.{name}"
            for name in ("command", "invocation", "options", "streams", "times")
        }
        unused = {"pydantic", "rich", "rmqindex.audit", "rmqindex.bulk", "rmqindex.export"}
        assert not unused & loaded

    def test_without_a_command_the_help_is_an_error(self, run):
        """It goes to standard error, with exit code 2."""
        code, out, err = run()
        assert (code, out) == (2, "")
        assert err == run("--help")[1]

    @pytest.mark.parametrize("command", COMMANDS)
    def test_no_option_name_is_broken_at_a_hyphen(self, run, command, monkeypatch):
        """A name can be copied from the help at any width."""
        for columns in (60, 80, 120):
            monkeypatch.setenv("COLUMNS", str(columns))
            _, out, _ = run(command, "--help")
            assert not [line for line in out.splitlines() if line.endswith("-")]

    @pytest.mark.parametrize("command", COMMANDS)
    def test_no_line_of_the_help_is_wider_than_80_columns(self, run, command, monkeypatch):
        """Neither are the examples, which are never broken."""
        monkeypatch.setenv("COLUMNS", "80")
        _, out, _ = run(command, "--help")
        assert max(map(len, out.splitlines())) <= 80

    def test_a_command_that_is_misspelt_is_suggested(self, run):
        """As its nearest name, where there is one."""
        code, _, err = run("inf")
        assert (code, "Did you mean 'info'?" in err) == (2, True)
        code, _, err = run("zzz")
        assert (code, "Did you mean" in err) == (2, False)

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (("messages", STORE, "--topics"), "'--topics'. Did you mean '--topic'?"),
            (("messages", STORE, "--bodies"), "'--bodies'. Did you mean '--body'?"),
            (("messages", STORE, "--kye"), "'--kye'."),
            (("messages", STORE, "-k"), "'-k'."),
            (
                ("messages", STORE, "--key=x"),
                "'--key'. The command lookup finds the messages with a key.",
            ),
            (
                ("explain", STORE, "--topic", "T"),
                "'--topic'. TOPIC is an argument: rmqindex explain PATH... TOPIC KEY",
            ),
        ],
    )
    def test_an_option_that_is_none_is_answered_by_its_letters(self, run, arguments, expected):
        """Not by its hyphens, which would make `--end` of `--key`."""
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert " ".join(err.splitlines()[-1].split()).endswith(f"No such option {expected}")

    def test_an_interrupt_gives_130(self, run, monkeypatch):
        """As shells have it, without a traceback."""

        def interrupt(_file):
            raise KeyboardInterrupt

        monkeypatch.setattr("rmqindex.cli.commands.info.describe", interrupt)
        assert run("info", STORE) == (130, "", "")
