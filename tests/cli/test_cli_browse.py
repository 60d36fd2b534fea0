"""Messages, exports, usage and dumps on the command line, and several stores and keys at once."""

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import rmqindex
from commitlog_encoder import Log, Message
from rmqindex.cli.command import COMMANDS

STORE = rmqindex.sample_store()
FILE = min((STORE / "index").iterdir())
LOG_FILE = min((STORE / "commitlog").iterdir())


def rows_of(text):
    """Return the rows of a CSV."""
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def stores(tmp_path):
    """A folder with two stores and a file."""
    for name in ("a", "b"):
        shutil.copytree(STORE, tmp_path / "brokers" / name)
    (tmp_path / "brokers" / "notes.txt").touch()
    return tmp_path / "brokers"


class TestMessages:
    """``rmqindex messages``."""

    def test_the_newest_come_first(self, run):
        """As JSON, CSV and a table."""
        code, out, _ = run("messages", STORE, "--topic", "TopicTest", "--limit", 3, "--json")
        rows = json.loads(out)["messages"]
        offsets = [row["phy_offset"] for row in rows]
        assert (code, len(rows)) == (0, 3)
        assert offsets == sorted(offsets, reverse=True)
        _, out, _ = run("messages", STORE, "--topic", "TopicTest", "--limit", 3, "--csv")
        assert [int(row["phy_offset"]) for row in rows_of(out)] == offsets
        _, out, _ = run("messages", STORE, "--topic", "TopicTest", "--limit", 3)
        assert [line.split()[0] for line in out.splitlines()[2:5]] == [str(o) for o in offsets]

    def test_bodies_are_printed_on_request(self, run):
        """With the properties, as ``cat`` does."""
        _, out, _ = run("messages", STORE, "--limit", 1, "--body", "--json")
        (message,) = json.loads(out)["messages"]
        _, out, _ = run("cat", STORE, message["phy_offset"], "--json")
        assert json.loads(out) == message

    def test_none_is_exit_code_1(self, run):
        """And one line on standard error."""
        code, out, err = run("messages", STORE, "--topic", "nobody")
        assert (code, out) == (1, "")
        assert err == (
            f"rmqindex: {STORE}: no message matches; there is no queue of the topic nobody\n"
        )
        _, _, err = run("messages", STORE, "--topic", "TOPICTEST")
        assert "matches; there is no queue of the topic TOPICTEST, but of TopicTest\n" in err

    @pytest.mark.parametrize("by", [[], ["--by", "key"]])
    def test_a_misspelt_topic_is_told_where_nothing_is_counted(self, run, by):
        """With the one that it is most like."""
        for topic in ("TopicTests", "topictest"):
            code, _, err = run("usage", STORE, "--topic", topic, *by)
            assert code == 0
            assert f"there is no queue of the topic {topic}, but of TopicTest\n" in err
        assert "there is no queue" not in run("usage", STORE, "--topic", "TopicTest", *by)[2]


class TestExport:
    """``rmqindex export``."""

    def test_it_says_what_it_wrote_and_goes_on(self, run, tmp_path):
        """The same again has nothing to add; another filter is refused."""
        out_dir = tmp_path / "out"
        code, out, _ = run("export", STORE, out_dir)
        assert (code, out.partition(" in ")[0]) == (0, "Exported 430 rows to 1 file")
        code, out, _ = run("export", STORE, out_dir)
        assert (code, out) == (0, f"{out_dir}: complete, nothing new to export\n")
        code, _, err = run("export", STORE, out_dir, "--topic", "TopicTest")
        assert code == 2
        assert "expected no --topic, as the export was begun, got --topic TopicTest" in err

    def test_messages_that_expired_after_their_export_are_not_missing(self, run, store, tmp_path):
        """Though files beside the log still lead to them."""
        assert run("export", store, tmp_path / "out")[0] == 0
        min((store / "commitlog").iterdir()).unlink()
        code, out, err = run("export", store, tmp_path / "out", "--json")
        assert (code, json.loads(out)["missing"], err) == (0, [], "")

    def test_a_file_that_is_back_is_refused_with_what_to_do(self, run, tmp_path):
        """While it is away, each run says so."""
        log, store = Log(4096), tmp_path / "store"
        for _ in range(60):
            log.append(Message(body=b"x" * 100))
        path = sorted(log.write_to(store / "commitlog").iterdir())[1]
        path.rename(tmp_path / path.name)
        assert run("export", store, tmp_path / "out")[0] == 0
        code, out, err = run("export", store, tmp_path / "out")
        assert (code, out) == (0, f"{tmp_path / 'out'}: lacks messages, nothing new to export\n")
        assert f"messages from offset {int(path.name)} to before" in err
        (part,) = json.loads(run("export", store, tmp_path / "out", "--json")[1])["left_out"]
        assert part["start"] == int(path.name)
        (tmp_path / path.name).rename(path)
        code, out, err = run("export", store, tmp_path / "out")
        assert (code, out) == (2, "")
        assert err.endswith(
            "it was restored since, and the export lacks its messages. Export to "
            "another directory\n"
        )

    def test_messages_that_an_export_never_had_stay_missing(self, run, store, tmp_path):
        """Also for the run that adds to it, up to where the export begins."""
        min((store / "commitlog").iterdir()).unlink()
        first = run("export", store, tmp_path / "out", "--json")
        again = run("export", store, tmp_path / "out", "--json")
        for code, out, err in (first, again):
            assert (code, err.count("no file has offsets before 65536")) == (0, 1)
            (part,) = json.loads(out)["missing"]
            assert (part["part"], part["stop"]) == ("start", 65536)

    def test_a_file_that_was_lost_after_its_export_is_not_missing(self, run, tmp_path):
        """One behind what was exported is, with its offsets."""
        log = Log(4096)
        for _ in range(60):
            log.append(Message(body=b"x" * 100))
        log.write_to(tmp_path / "commitlog")
        assert run("export", tmp_path, tmp_path / "out", "--to", 9000)[0] == 0
        (tmp_path / "commitlog" / f"{4096:020}").unlink()
        code, out, err = run("export", tmp_path, tmp_path / "out", "--to", 9000, "--json")
        assert (code, json.loads(out)["missing"], err) == (0, [], "")

    def test_entries_are_exported(self, run, tmp_path):
        """As many as the index has."""
        _, out, _ = run("export", STORE, tmp_path / "out", "--entries", "--json")
        assert json.loads(out)["row_count"] == 959

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--entries", "--topic", "T"], "not together with --entries"),
            (["--key-hash", "5"], "only with --entries"),
            (["--columns", "topic,nope"], "got 'nope'"),
            (["--max-file-size", "many"], "expected bytes or a size such as 256MiB"),
            (["--format", "xml"], "expected parquet, jsonl or csv, got 'xml'"),
        ],
    )
    def test_bad_usage_says_what_is_wrong(self, run, tmp_path, arguments, message):
        """Nothing is written."""
        code, _, err = run("export", STORE, tmp_path / "out", *arguments)
        assert code == 2
        assert message in err
        assert not list(tmp_path.glob("out/*-*"))

    @pytest.mark.system
    def test_a_killed_export_goes_on(self, tmp_path):
        """SIGKILL while files are written, again and again: every row is there once."""
        log = tmp_path / "store" / "commitlog"
        log.mkdir(parents=True)
        encoder = Log(1 << 20)
        for number in range(20_000):
            encoder.append(Message(body=b"%d" % number * 40))
        encoder.write_to(log)
        command = [
            sys.executable, "-m", "rmqindex", "export", tmp_path / "store", tmp_path / "out",
            "--max-file-size", "4KiB",
        ]  # fmt: skip
        kills = 0
        while True:
            process = subprocess.Popen(command)
            count = len(list(tmp_path.glob("out/messages-*")))
            # Each run is killed when it has added a file, so that it always gets further.
            deadline = time.monotonic() + 60
            while process.poll() is None and time.monotonic() < deadline:
                if kills < 3 and len(list(tmp_path.glob("out/messages-*"))) > count:
                    process.send_signal(signal.SIGKILL)
                    kills += 1
                    break
            if process.wait() == 0:
                break
        paths = sorted(tmp_path.glob("out/messages-*"))
        offsets = [
            value for path in paths for value in pq.read_table(path)["phy_offset"].to_pylist()
        ]
        assert offsets == encoder.offsets


class TestUsage:
    """``rmqindex usage``."""

    def test_the_largest_topic_comes_first(self, run):
        """With its share, the sums and the folders."""
        code, out, _ = run("usage", STORE)
        assert code == 0
        assert out.splitlines()[2].split() == ["TopicTest", "225", "60.3", "KiB", "50.2%", "503"]
        assert "430 messages, 120.2 KiB, 959 entries" in out
        assert "commitlog" in out

    def test_machines_get_every_number(self, run):
        """Hours are epoch milliseconds."""
        _, out, _ = run("usage", STORE, "--by", "hour", "--by", "queue", "--json")
        document = json.loads(out)
        assert sum(row["message_count"] for row in document["rows"]) == 430
        assert all(row["hour"] % 3_600_000 == 0 for row in document["rows"])
        _, out, _ = run("usage", STORE, "--by", "hour", "--by", "queue", "--csv")
        assert len(rows_of(out)) == len(document["rows"])

    def test_the_hottest_keys_are_named_with_their_chains(self, run):
        """Which keys crowd the index, and what they cost."""
        code, out, err = run("usage", STORE, "--by", "key", "--limit", 2)
        assert (code, err) == (0, "")
        assert out.splitlines()[2].split() == [
            "TopicTest", "DV[XZAX", "16", "3.6", "KiB", "3.0%", "16", "1.7%", "9", "7",
        ]  # fmt: skip
        assert "430 messages, 120.2 KiB, 959 entries" in out
        _, out, _ = run("usage", STORE, "--by", "key", "--json")
        document = json.loads(out)
        assert (document["by"], len(document["rows"])) == (["key"], 20)

    def test_an_index_alone_has_hashes(self, run, tmp_path):
        """A copied file or directory; keys are its default, and tags need a log."""
        shutil.copytree(STORE / "index", tmp_path / "index")
        for path in (tmp_path / "index", min((tmp_path / "index").iterdir())):
            code, out, _ = run("usage", path)
            assert code == 0
            assert out.split()[:2] == ["Key", "hash"]
        assert out.endswith("4 KiB each.\n")
        for by in ("tag", "topic"):
            code, out, err = run("usage", tmp_path / "index", "--by", by)
            assert (code, out) == (2, "")
            assert "expected a CommitLog" in err

    def test_keys_stand_alone(self, run):
        """They have their topics already."""
        code, _, err = run("usage", STORE, "--by", "key", "--by", "topic")
        assert code == 2
        assert "key stands alone" in err

    def test_a_damaged_index_hides_no_messages(self, run, tmp_path):
        """What fills the disk is told, and what is not; keys are refused."""
        shutil.copytree(STORE, tmp_path / "store")
        file = min((tmp_path / "store" / "index").iterdir())
        data = bytearray(file.read_bytes())
        data[40 + 4 * 97 + 20 * 7 : 40 + 4 * 97 + 20 * 8] = b"\xff" * 20
        file.write_bytes(data)
        code, out, err = run("usage", tmp_path / "store")
        assert (code, "430 messages, 120.2 KiB\n" in out) == (0, True)
        assert "the entries are not counted: " in err
        code, out, err = run("usage", tmp_path / "store", "--by", "key")
        assert (code, out) == (2, "")
        assert str(file) in err
        assert run("usage", tmp_path / "store", "--by", "key", "--mode", "DROPMALFORMED")[0] == 0


class TestDiff:
    """``rmqindex diff``."""

    def test_the_same_is_exit_code_0(self, run, tmp_path):
        """And says whether the files are equal."""
        shutil.copytree(STORE, tmp_path / "store")
        for other in (STORE, tmp_path / "store"):
            code, out, err = run("diff", STORE, other)
            assert (code, err) == (0, "")
            assert out.splitlines()[2].split() == ["entries", "959", "959", "0", "0", "0"]
            assert out.endswith("byte for byte, and so are their names.\nThe same.\n")

    def test_a_difference_is_exit_code_1(self, run, tmp_path):
        """Counted, and the first are told from both sides."""
        shutil.copytree(STORE, tmp_path / "store")
        min((tmp_path / "store" / "index").iterdir()).unlink()
        asked = ("diff", STORE, tmp_path / "store", "--limit", 2)
        code, out, err = run(*asked)
        assert (code, err) == (1, "")
        assert "197 differences more" in out
        assert out.endswith("not equal byte for byte.\nDifferent.\n")
        document = json.loads(run(*asked, "--json")[1])
        assert (document["same"], document["files"]) == (False, "different")
        assert [(part["part"], part["only_a"]) for part in document["parts"]] == [
            ("entries", 199),
            ("messages", 0),
            ("units", 0),
        ]
        assert [each["difference"] for each in document["differences"]] == ["only in A"] * 2
        assert len(rows_of(run(*asked, "--csv")[1])) == 2
        code, out, _ = run(*asked, "--common")
        assert code == 0

    def test_an_error_is_exit_code_2(self, run, tmp_path):
        """Neither the same nor different."""
        for other in (tmp_path / "nothing", LOG_FILE.parent):
            code, out, err = run("diff", STORE / "index", other)
            assert (code, out) == (2, "")
            assert "expected" in err or "no such file" in err


class TestDump:
    """``rmqindex dump``."""

    def test_a_file_is_named_and_its_fields_are_listed(self, run):
        """The byte, the size, the name and the value of each."""
        code, out, err = run("dump", LOG_FILE, "--limit", 1)
        assert (code, err) == (0, "")
        lines = out.splitlines()
        assert lines[:4] == [str(LOG_FILE), "CommitLog, 65536 bytes", "", "record, byte 0"]
        assert lines[4].split() == ["0", "4", "total_size", "202"]

    def test_damage_is_an_error_behind_what_is_sound(self, run, tmp_path):
        """With exit code 2."""
        (tmp_path / "checkpoint").write_bytes(bytes(20))
        code, out, err = run("dump", tmp_path / "checkpoint")
        assert (code, out.count("_msg_timestamp")) == (2, 2)
        assert "checkpoint at byte 20: expected 40 bytes, got 20" in err


class TestSeveral:
    """Several stores, several keys."""

    def test_a_folder_a_pattern_and_paths_name_the_same_stores(self, run, stores):
        """Each row says which store it is of."""
        answers = {
            run("info", *paths, "--csv")[1]
            for paths in ([stores], [f"{stores}/[ab]"], [stores / "a", stores / "b"])
        }
        (answer,) = answers
        assert [row["store"] for row in rows_of(answer)] == (
            [str(stores / "a")] * 5 + [str(stores / "b")] * 5
        )

    def test_json_is_one_document(self, run, stores):
        """Of several stores, several keys, or both, it has a list of answers."""
        keys = ("TopicTest", "order-49", "BB")
        for paths, count in (([stores / "a"], 2), ([stores], 4)):
            _, out, _ = run("lookup", *paths, *keys, "--json")
            answers = json.loads(out)["answers"]
            assert len(answers) == count
            assert {answer["key"] for answer in answers} == set(keys[1:])
        _, out, _ = run("usage", stores, "--json")
        assert [each["store"] for each in json.loads(out)["answers"]] == [
            str(stores / "a"),
            str(stores / "b"),
        ]
        assert json.loads(run("lookup", stores / "a", *keys[:2], "--json")[1])["key"] == "order-49"

    @pytest.mark.parametrize(
        "command", [("messages",), ("usage",), ("export", "out"), ("scan",), ("lookup", "T", "k")]
    )
    def test_a_range_of_times_that_ends_before_it_begins_is_refused(
        self, run, stores, command, tmp_path, monkeypatch
    ):
        """It is a slip, and an answer without rows would hide it."""
        monkeypatch.chdir(tmp_path)
        name, *rest = command
        times = ("--begin", "2026-11-22", "--end", "2026-11-21")
        code, out, err = run(name, stores / "a", *rest, *times)
        assert (code, out) == (2, "")
        assert "'2026-11-22' is after --end '2026-11-21'" in err
        assert not (tmp_path / "out").exists()

    def test_people_see_a_heading(self, run, stores):
        """One for each store."""
        _, out, _ = run("usage", stores)
        assert out.startswith(f"{stores / 'a'}\n\n")
        assert f"\n\n{stores / 'b'}\n\n" in out

    def test_an_answer_of_one_store_is_an_answer(self, run, stores):
        """And a bad store is an error, while the others answer."""
        shutil.rmtree(stores / "a" / "index")
        (stores / "a" / "index").mkdir()
        code, out, _ = run("lookup", stores, "TopicTest", "order-49", "--csv")
        stores_of = {row["state"]: row["store"] for row in rows_of(out)}
        assert code == 0
        assert stores_of == {"no_entry": str(stores / "a"), "verified": str(stores / "b")}
        shutil.rmtree(stores / "a" / "commitlog")
        code, out, err = run("messages", stores, "--csv", "--limit", 1)
        assert (code, {row["store"] for row in rows_of(out)}) == (2, {str(stores / "b")})
        assert str(stores / "a") in err

    def test_a_pattern_without_a_match_is_refused(self, run, stores):
        """It is no empty answer."""
        code, _, err = run("info", f"{stores}/x*")
        assert code == 2
        assert "no path matches" in err

    @pytest.mark.parametrize(
        ("name", "rest"),
        [("explain", ("TopicTest", "order-49")), ("cat", (112033,))],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_explain_and_cat_answer_for_each(self, run, stores, name, rest):
        """As CSV under one line of names, as JSON and for people; the answer of one is enough."""
        for paths in ([stores], [f"{stores}/[ab]"], [stores / "a", stores / "b"]):
            code, out, err = run(name, *paths, *rest, "--csv")
            assert (code, err) == (0, "")
            rows = rows_of(out)
            assert {row["store"] for row in rows} == {str(stores / "a"), str(stores / "b")}
            counts = Counter(row["store"] for row in rows)
            assert len(set(counts.values())) == 1
        assert json.dumps(str(stores / "a")) in run(name, stores, *rest, "--json")[1]
        assert run(name, stores, *rest)[1].startswith(f"{stores / 'a'}\n\n")
        shutil.rmtree(stores / "a" / "commitlog")
        if name == "explain":
            code, out, _ = run(name, stores, "TopicTest", "nobody", "--csv")
            assert (code, {row["kind"] for row in rows_of(out)}) == (1, {"file", "reason"})
        else:
            assert run(name, stores, *rest)[0] == 2

    def test_messages_that_differ_have_the_same_columns(self, run, stores):
        """A body that is no text is in another column, under the same line of names."""
        log = stores / "b" / "commitlog" / f"{0:020}"
        log.write_bytes(Message(body=b"\xff").encode(0))
        code, out, _ = run("cat", stores, 0, "--csv")
        text, base64 = rows_of(out)
        assert (code, text["body_base64"], base64["body"]) == (0, "", "")
        assert base64["body_base64"] == "/w=="

    def test_stores_are_exported_to_partitions(self, run, stores, tmp_path, monkeypatch):
        """Which other tools read as a column; a directory with other files is refused."""
        code, out, err = run("export", stores, tmp_path / "out")
        assert (code, err, out.count("Exported 430 rows")) == (0, "", 2)
        table = ds.dataset(tmp_path / "out", partitioning="hive").to_table()
        assert table.num_rows == 860
        assert set(table["store"].unique().to_pylist()) == {str(stores / x) for x in "ab"}
        monkeypatch.chdir(stores)
        for again in (stores, "."):
            code, out, _ = run("export", again, tmp_path / "out")
            assert (code, out.count("complete, nothing new")) == (0, 2)
        assert run("export", stores / "a", tmp_path / "one")[0] == 0
        code, _, err = run("export", stores, tmp_path / "one")
        assert code == 2
        assert "one of exports of several stores" in err

    def test_several_files_are_dumped(self, run, stores):
        """Each row says which file it is of."""
        code, out, _ = run("dump", f"{stores}/*/checkpoint", "--csv")
        assert (code, {row["file"] for row in rows_of(out)}) == (
            0, {str(stores / x / "checkpoint") for x in "ab"},
        )  # fmt: skip

    def test_a_dump_without_a_geometry_asks_for_one(self, run, tmp_path):
        """It has no mode, which other commands advise for a damaged file."""
        path = tmp_path / "20231114221320000"
        layout = rmqindex.Layout(5, 20)
        with rmqindex.IndexFileWriter(path, layout) as writer:
            for number in range(1, 4):
                writer.put(f"T#k{number}", 100 * number, 1_700_000_000_000)
        with path.open("r+b") as file:
            file.seek(layout.slot_offset(0))
            file.write(b"\x7f" * 20)
        code, _, err = run("dump", path)
        assert (code, "--mode" in err) == (2, False)
        assert err.strip().endswith("say which with --max-hash-slot-num and --max-index-num")

    @pytest.mark.parametrize(
        "command", ["plot", "rebuild", "rebuild-queues", "expire", "relayout", "recover"]
    )
    def test_a_second_path_is_refused_where_there_can_be_one(self, run, stores, command):
        """The error says what to do."""
        more = ("--slots", 3, "--entries", 5) if command == "relayout" else ()
        code, out, err = run(command, stores / "a", stores / "b", *more)
        assert (code, out) == (2, "")
        assert f"got also {stores / 'b'}: run {command!r} for each" in err

    def test_raw_bodies_of_several_stores_are_refused(self, run, stores):
        """Nothing would tell where one ends."""
        code, out, err = run("cat", stores, 112033, "--raw")
        assert (code, out) == (2, "")
        assert "--raw: only for one store" in err

    def test_a_missing_argument_is_not_taken_for_the_first(self, run):
        """Any of them may be the one that is missing."""
        code, _, err = run("explain", STORE, "TopicTest")
        assert code == 2
        assert "Expected PATH... TOPIC KEY: an argument is missing" in err

    def test_several_keys_are_looked_up(self, run, tmp_path):
        """As arguments and from a file, each once; what marks a file as UTF-8 is of no key."""
        (tmp_path / "keys").write_text("BB\n\norder-49\nnobody\n", "utf-8-sig")
        code, out, _ = run(
            "lookup", STORE, "TopicTest", "order-49", "--keys-file", tmp_path / "keys", "--csv"
        )
        rows = rows_of(out)
        keys = list(dict.fromkeys(row["key"] for row in rows))
        assert (code, keys) == (0, ["order-49", "BB", "nobody"])
        for key in ("order-49", "BB"):
            _, out, _ = run("lookup", STORE, "TopicTest", key, "--json")
            offsets = [hit["phy_offset"] for hit in json.loads(out)["hits"]]
            assert [int(row["phy_offset"]) for row in rows if row["key"] == key] == offsets

    def test_a_key_among_many_is_answered_as_if_it_were_alone(self, run, tmp_path):
        """In their order; with a key of the same hash beside it, bounds of time and a limit."""
        keys = [f"nobody-{number}" for number in range(40)]
        keys[3:3], keys[20:20], keys[30:30] = ["Aa"], ["BB", "order-49"], ["ORDER:68"]
        (tmp_path / "keys").write_text("\n".join(keys))
        narrowed = ("--limit", 2, "--end", "2023-11-14T22:20", "--json")
        _, out, _ = run("lookup", STORE, "TopicTest", "--keys-file", tmp_path / "keys", *narrowed)
        answers = json.loads(out)["answers"]
        assert [answer["key"] for answer in answers] == keys
        assert [len(answer["hits"]) for answer in answers if answer["hits"]] == [1, 2, 2, 2]
        for number in (0, 3, 20, 21, 30, 43):
            _, out, _ = run("lookup", STORE, "TopicTest", keys[number], *narrowed)
            alone = json.loads(out)
            assert {name: answers[number][name] for name in alone} == alone, keys[number]

    def test_no_command_has_a_key_that_none_can_have(self, run, tmp_path):
        """A shell ends an argument at the byte 0."""
        (tmp_path / "keys").write_bytes(b"order-49\0x\n")
        code, out, err = run("lookup", STORE, "TopicTest", "--keys-file", tmp_path / "keys")
        assert (code, "explain" in out + err) == (1, False)

    def test_no_key_is_refused(self, run, tmp_path):
        """Nor is a line that is not UTF-8 one."""
        assert "Missing KEY" in run("lookup", STORE, "TopicTest")[2]
        (tmp_path / "keys").write_bytes(b"sound\n\xff\n")
        code, _, err = run("lookup", STORE, "TopicTest", "--keys-file", tmp_path / "keys")
        assert code == 2
        assert "line 2: expected UTF-8" in err


class TestShell:
    """Help and completion."""

    @pytest.mark.parametrize("arguments", [(), *((name,) for name in COMMANDS)], ids=str)
    def test_h_is_help(self, run, arguments):
        """Everywhere."""
        assert run(*arguments, "-h") == run(*arguments, "--help")

    @pytest.mark.parametrize("shell", ["zsh", "fish"])
    def test_the_script_of_a_shell_is_printed(self, run, shell):
        """It asks the command itself."""
        code, out, _ = run("--completion", shell)
        assert code == 0
        assert f"_RMQINDEX_COMPLETE={shell}_complete" in out

    def test_commands_are_completed(self):
        """As the script asks for them."""
        done = subprocess.run(
            [sys.executable, "-c", "from rmqindex.cli import main; main()"],
            env={
                **os.environ,
                "_RMQINDEX_COMPLETE": "bash_complete",
                "COMP_WORDS": "rmqindex me",
                "COMP_CWORD": "1",
            },
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "plain,messages\n"


class TestLostLogFiles:
    """Answers from a log without its newest file."""

    @pytest.fixture
    def store(self, stores):
        """A store without it."""
        max((stores / "a" / "commitlog").iterdir()).unlink()
        return stores / "a"

    @pytest.mark.parametrize(
        "command",
        [
            ["messages"],
            ["usage"],
            ["export", "OUT"],
            ["rebuild", "--out", "OUT"],
            ["rebuild-queues", "--out", "OUT"],
        ],
        ids=lambda value: value[0],
    )
    def test_are_refused_or_named(self, run, store, tmp_path, command):
        """Once, on standard error; and in JSON."""

        def ran(out, *options):
            arguments = [tmp_path / out if each == "OUT" else each for each in command[1:]]
            return run(command[0], store, *arguments, "--json", *options)

        code, out, err = ran("strict")
        assert (code, out) == (2, "")
        newest = max((store / "commitlog").iterdir())
        assert f"{newest}: total_size at byte 65504: expected a record, since " in err
        assert "leads to a message at offset 122928, got the end of the log, at offset" in err
        code, out, again = ran("lenient", "--mode", "DROPMALFORMED")
        assert (code, again) == (0, err)
        (part,) = json.loads(out)["missing"]
        assert (part["part"], part["start"], part["phy_offset"]) == ("end", 65504, 122928)

    @pytest.mark.parametrize("command", ["messages", "usage", "verify"])
    def test_that_are_empty_have_not_expired(self, run, stores, command):
        """An expiry deletes files; a broker makes one of 0 bytes behind all others alone."""
        oldest = min((stores / "a" / "commitlog").iterdir())
        oldest.write_bytes(b"")
        code, out, err = run(command, stores / "a")
        is_audit = command == "verify"
        assert (code, "offset inside a log file" in out) == (int(is_audit), is_audit)
        assert "no file has the offsets from 0 to before 65536" in err or is_audit
        code, _, err = run("rebuild", stores / "a", "--replace")
        assert (code, "would be lost" in err) == (2, True)

    @pytest.mark.parametrize("command", [["messages"], ["usage"], ["export", "out"]])
    def test_that_are_not_asked_for_do_not_count(self, run, store, tmp_path, command, monkeypatch):
        """Nor in a store that has all of them."""
        monkeypatch.chdir(tmp_path)
        _, out, err = run(command[0], store, *command[1:], "--to", 60_000, "--json")
        assert (json.loads(out)["missing"], err) == ([], "")


class TestDamagedIndexFiles:
    """Answers that leave out what cannot be read."""

    @pytest.mark.parametrize(
        "command",
        [
            ["info"],
            ["scan"],
            ["lookup", "TopicTest", "order-49", "--commit-log", "none"],
            ["export", "out", "--entries"],
            ["plot"],
        ],
        ids=lambda command: command[0],
    )
    @pytest.mark.parametrize(("size", "lacks"), [(2000, "86 of 163"), (40, "all 163"), (9, "all")])
    def test_say_so(self, run, stores, tmp_path, command, size, lacks, monkeypatch):
        """With what to type for what can be done about it."""
        if command[0] == "plot":
            pytest.importorskip("matplotlib")
        monkeypatch.chdir(tmp_path)
        path = max((stores / "a" / "index").iterdir())
        path.write_bytes(path.read_bytes()[:size])
        name, *arguments = command
        code, _, err = run(name, stores / "a", *arguments, "--mode", "DROPMALFORMED")
        assert code == 0
        assert f"rmqindex: {path}: the answer lacks {lacks} entries" in err
        assert f"`rmqindex verify {path}` says what to do" in err

    def test_json_of_a_lookup_says_so_too(self, run, stores):
        """A program that reads standard output alone is told what no lookup can find."""
        path = max((stores / "a" / "index").iterdir())
        path.write_bytes(path.read_bytes()[:2000])
        asked = ["lookup", stores / "a", "TopicTest", "order-49", "--commit-log", "none", "--json"]
        code, out, err = run(*asked, "--mode", "DROPMALFORMED")
        (sentence,) = json.loads(out)["lacking"]
        assert code == 0
        assert sentence.startswith(f"{path}: the answer lacks 86 of 163 entries")
        assert sentence in err


class TestSeveralStoresWithoutAnAnswer:
    """One sentence names them; a heading stands above answers alone."""

    @pytest.mark.parametrize(
        ("command", "text"),
        [
            (["lookup", "PATH", "TopicTest", "nobody"], "no entry of TopicTest#nobody"),
            (["messages", "PATH", "--topic", "nobody"], "no message matches"),
            (["cat", "PATH", "5"], "no message 5: none starts at this byte; the command messages "),
        ],
        ids=["lookup", "messages", "cat"],
    )
    def test_all_of_them(self, run, stores, command, text):
        """On standard error, and nothing else."""
        code, out, err = run(*(stores if each == "PATH" else each for each in command))
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert err.startswith(f"rmqindex: {stores / 'a'}, {stores / 'b'}: {text}")

    def test_one_of_them(self, run, stores):
        """The other has its heading and its answer."""
        (stores / "b" / "commitlog" / f"{0:020}").unlink()
        code, out, err = run("cat", stores, 0)
        assert (code, out.startswith(f"{stores / 'a'}\n\ntopic")) == (0, True)
        assert str(stores / "b") not in out
        assert f"\nrmqindex: {stores / 'b'}: no message 0: it has expired" in f"\n{err}"
