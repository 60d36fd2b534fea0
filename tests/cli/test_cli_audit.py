"""``rmqindex verify`` and ``rmqindex plot``."""

import json
import re
import shlex
import shutil
import subprocess
import sys

import pytest

import rmqindex
from commitlog_encoder import Log, Message
from kinds import sampled
from recorded import STORE_KINDS

STORE = rmqindex.sample_store()


def break_a_slot(store):
    """Empty the fullest slot of the first file."""
    path = min((store / "index").iterdir())
    with path.open("r+b") as file:
        file.seek(40 + 4 * 85)
        file.write(bytes(4))
    return path


class TestVerify:
    """``rmqindex verify``."""

    def test_a_sound_store_gives_0(self, run):
        """Remarks are no faults."""
        code, out, err = run("verify", STORE)
        assert (code, err) == (0, "")
        assert out.endswith("0 errors, 0 warnings, 4 remarks\n")
        assert "time_order: Clocks stepped back" in out

    def test_an_error_gives_1(self, run, store):
        """The finding names file, rule and byte."""
        path = break_a_slot(store)
        code, out, _ = run("verify", store)
        assert code == 1
        assert str(path) in out
        assert "slot_newest" in out
        code, out, _ = run("verify", store, "--json")
        document = json.loads(out)
        errors = [f for f in document["findings"] if f["severity"] == "error"]
        assert (code, document["counts"]["error"]) == (1, len(errors))
        assert ("slot_newest", 380) in {(error["rule"], error["byte"]) for error in errors}

    def test_a_warning_gives_0(self, run, store):
        """The index can be used."""
        (store / "checkpoint").unlink()
        code, out, _ = run("verify", store)
        assert code == 0
        assert "1 warning" in out

    @pytest.mark.parametrize("count", [2, 3])
    def test_files_with_each_others_names_get_their_own_as_it_says(self, run, tmp_path, count):
        """Each alone has its messages: none is to be moved out."""
        log = Log(2048)
        for place in range(60):
            log.append(Message(queue_offset=place))
        folder = log.write_to(tmp_path / "commitlog")
        whole = {path.name: path.read_bytes() for path in folder.iterdir()}
        names = sorted(whole)[:count]
        for name, other in zip(names, [*names[1:], names[0]], strict=True):
            (folder / other).write_bytes(whole[name])
        for _ in range(count - 1):
            _, out, _ = run("verify", tmp_path, "--json")
            (line,) = re.findall("`(mv [^`]*)`", json.loads(out)["to_do"])
            subprocess.run(line, shell=True, check=True)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole

    def test_a_file_to_be_moved_out_is_named(self, run, tmp_path):
        """Where the command says what to do first, too."""
        log = Log(2048)
        log.append(Message())
        odd = log.write_to(tmp_path / "commitlog") / "x"
        odd.write_bytes(b"any")
        _, out, _ = run("verify", tmp_path, "--json")
        assert f"move {odd} out of the folder" in json.loads(out)["to_do"]

    def test_without_the_log_it_says_so(self, run):
        """Less was compared."""
        _, out, _ = run("verify", STORE, "--commit-log", "none")
        assert out.endswith("not compared with a CommitLog\n")

    def test_findings_are_limited(self, run, store):
        """So many of one rule in one file."""
        path = min((store / "index").iterdir())
        with path.open("r+b") as file:
            file.seek(40)
            file.write(bytes(4 * 97))
        _, out, _ = run("verify", path, "--json", "--limit", 2)
        rules = [finding["rule"] for finding in json.loads(out)["findings"]]
        assert rules.count("slot_newest") == 3

    def test_a_damaged_page_is_short_and_ends_with_the_one_thing_to_do(self, run, store):
        """Findings of a rule and rules with one remedy stand together; JSON has each."""
        path = sorted((store / "index").iterdir())[1]
        with path.open("r+b") as file:
            file.seek(1200)
            file.write(bytes(800))
        code, out, _ = run("verify", store)
        document = json.loads(run("verify", store, "--json")[1])
        rebuild = f"Run `rmqindex rebuild {store} --replace`."
        assert code == 1
        assert document["counts"]["error"] > 100
        assert len(out.splitlines()) < 80
        assert out.count(f"To do: {rebuild}\n") == 2
        assert "   36 more, the last at byte 1968\n" in out
        assert out.splitlines()[-1] == document["to_do"]
        assert document["to_do"] == f"1 of 5 IndexFiles has errors. To do: {rebuild}"
        limited = run("verify", store, "--limit", 5)[1]
        assert re.search(r"entry_unwritten +at most 5 shown +39 findings", limited)
        csv_lines = run("verify", store, "--csv")[1].splitlines()
        assert len(csv_lines) - 1 == len(document["findings"])

    def test_a_message_whose_key_is_damaged_is_named_as_what_may_be_wrong(self, run, store):
        """Its entry is sound, so that the rebuild that would lose it is refused."""
        path = min((store / "commitlog").iterdir())
        data = bytearray(path.read_bytes())
        data[data.index(b"KEYS\x01uk11_0_0 ") + 7] ^= 1
        path.write_bytes(data)
        document = json.loads(run("verify", store, "--json")[1])
        errors = [each for each in document["findings"] if each["severity"] == "error"]
        assert {error["rule"] for error in errors} == {"entry_hash", "key_missing"}
        said = (
            "the message may be damaged, not the entry: restore the file of the CommitLog, or give"
        )
        assert said in document["to_do"]
        (line,) = re.findall("`rmqindex ([^`]*)`", document["to_do"])
        assert run(*shlex.split(line))[0] == 2
        assert "`--allow-loss`" in document["to_do"]
        assert run(*shlex.split(line), "--allow-loss")[0] == 0
        assert run("verify", store)[0] == 0

    def test_what_says_that_the_log_lacks_messages_has_its_turn_before_the_index(self, run, store):
        """A bit of a file's only unit, after which no rebuild of the index reads the log."""
        run("rebuild-queues", store, "--replace", "--file-size", 14 * 20)
        queue = max((store / "consumequeue" / "%RETRY%group1" / "0").iterdir())
        data = bytearray(queue.read_bytes())
        data[1] ^= 1
        queue.write_bytes(data)
        min((store / "index").iterdir()).unlink()
        for name, options in (("rebuild-queues", ["--replace", "--allow-loss"]), ("rebuild", [])):
            last = run("verify", store)[1].splitlines()[-1]
            (line, *_) = re.findall("To do: [^`]*`rmqindex ([^`]*)`", last)
            command = shlex.split(line)
            assert command[:2] == [name, str(store)]
            assert set(options) <= set(command)
            assert run(*command)[0] == 0
        assert run("verify", store)[0] == 0

    def test_two_things_to_do_are_done_one_after_the_other(self, run, store):
        """The index first, whose remedy is named; the next audit names the other."""
        break_a_slot(store)
        queue = min((store / "consumequeue" / "TopicTest" / "0").iterdir())
        queue.write_bytes(bytes(20) + queue.read_bytes()[20:])
        last = run("verify", store)[1].splitlines()[-1]
        assert last.endswith(f" Then `rmqindex verify {store}` tells what is left.")
        assert re.match(r"\d+ errors\. To do: ", last)

    def test_the_audit_that_tells_what_is_left_is_asked_as_this_one(self, run, store, tmp_path):
        """Of a log that lies elsewhere, it has to be named again."""
        log = shutil.move(store / "commitlog", tmp_path / "log")
        break_a_slot(store)
        shutil.rmtree(store / "consumequeue" / "TopicTest" / "1")
        last = run("verify", store, "--commit-log", log)[1].splitlines()[-1]
        first, again = re.findall("`rmqindex ([^`]*)`", last)
        assert again == f"verify {store} --commit-log {log}"
        assert run(*shlex.split(first))[0] == 0
        code, out, _ = run(*shlex.split(again))
        assert (code, "queue_missing" in out) == (1, True)

    def test_what_cannot_be_read_is_made_readable_first(self, run, store):
        """What lacks without it is no reason to rebuild the index."""
        path = sorted((store / "index").iterdir())[2]
        path.unlink()
        path.symlink_to("nothing")
        code, out, _ = run("verify", store)
        assert (code, "coverage_gap" in out) == (1, True)
        assert "errors. To do: Make the file readable" in out.splitlines()[-1]

    def test_a_checkpoint_is_no_index_file(self, run, store):
        """Though one with few fields looks like a file without entries."""
        for command in (["verify"], ["scan"], ["info"], ["lookup", "TopicTest", "order-49"]):
            name, *rest = command
            code, out, err = run(name, store / "checkpoint", *rest)
            assert (code, out) == (2, "")
            assert f"got a checkpoint. For its store's index give {store}; `rmqindex dump" in err

    def test_what_does_not_fail_has_nothing_to_do(self, run, store):
        """A warning has, where the audit is told to fail on it."""
        (store / "checkpoint").unlink()
        assert run("verify", store)[1].endswith("remarks\n")
        assert json.loads(run("verify", store, "--json")[1])["to_do"] is None
        strict = run("verify", store, "--fail-on", "warning")[1].splitlines()[-1]
        assert strict.startswith("1 warning. To do: ")

    @pytest.mark.parametrize(
        ("name", "severity", "expected"),
        [
            ("nothing", "error", 0),
            ("nothing", "warning", 0),
            ("nothing", "info", 1),
            ("checkpoint", "error", 0),
            ("checkpoint", "WARNING", 1),
            ("checkpoint", "info", 1),
        ],
    )
    def test_fail_on_says_what_gives_1(self, run, store, name, severity, expected):
        """A finding of that severity or a worse one; remarks are there in both cases."""
        (store / name).unlink(missing_ok=True)
        assert run("verify", store, "--fail-on", severity)[0] == expected

    @pytest.mark.parametrize("lost", ["oldest", "newest", "middle", "files", "folder"])
    def test_a_lost_index_gives_1(self, run, store, lost):
        """Be it a part of it, and the advice can be typed as it stands."""
        files = sorted((store / "index").iterdir())
        chosen = {"oldest": files[:1], "newest": files[-1:], "middle": files[2:3]}.get(lost, files)
        for file in chosen:
            file.unlink()
        if lost == "folder":
            (store / "index").rmdir()
        code, out, err = run("verify", store)
        assert (code, err) == (1, "")
        assert f"`rmqindex rebuild {store}" in out

    def test_since_leaves_out_what_is_older(self, run, store):
        """By a time or by how long ago, and the last line says so."""
        min((store / "index").iterdir()).unlink()
        assert run("verify", store)[0] == 1
        code, out, _ = run("verify", store, "--since", "2023-11-15 00:00")
        assert code == 0
        assert out.endswith("of what was stored since 2023-11-15 00:00:00.000 UTC\n")
        assert run("verify", store, "--since", "2h")[0] == 0
        document = json.loads(run("verify", store, "--since", "1700006400000", "--json")[1])
        assert document["since"] == 1_700_006_400_000
        assert run("verify", store, "--since", "yesterday")[0] == 0
        for slip in ("tomorrow", "2", "99999999999d"):
            code, _, err = run("verify", store, "--since", slip)
            assert (code, "--since: expected" in err) == (2, True)

    def test_the_remedy_names_a_dledger_store_without_an_index(self, run, tmp_path, monkeypatch):
        """It has no commitlog/, and is to be typed all the same."""
        shutil.copytree(STORE_KINDS / "dledger" / "store", tmp_path / "store")
        shutil.rmtree(tmp_path / "store" / "index")
        monkeypatch.chdir(tmp_path)
        (finding,) = json.loads(run("verify", "store", "--json")[1])["findings"]
        assert "`rmqindex rebuild store --replace`" in finding["remedy"]

    def test_paths_are_as_they_were_given(self, run, store, monkeypatch):
        """Relative where the user's is, the checkpoint's and the log's too."""
        (store / "checkpoint").unlink()
        (store / "abort").touch()
        monkeypatch.chdir(store.parent)
        files = {f["file"] for f in json.loads(run("verify", "store", "--json")[1])["findings"]}
        assert {"store/checkpoint", "store/abort"} < files
        assert all(file.startswith("store/") for file in files)
        monkeypatch.chdir(store / "index")
        files = {f["file"] for f in json.loads(run("verify", ".", "--json")[1])["findings"]}
        assert "../checkpoint" in files
        given = run("verify", store, "--json")[1]
        assert all(f["file"].startswith(f"{store}/") for f in json.loads(given)["findings"])

    @pytest.mark.parametrize("columns", [60, 80, 170])
    def test_nothing_is_cut_or_too_wide_for_a_terminal(self, run, store, columns, monkeypatch):
        """Offset and reason are whole at any width; only a path or a command may be longer."""
        (store / "index" / min(p.name for p in (store / "index").iterdir())).unlink()
        monkeypatch.chdir(store.parent)
        monkeypatch.setenv("COLUMNS", str(columns))
        _, out, _ = run("verify", "store")
        assert max(map(len, out.splitlines())) <= columns
        words = " ".join(out.split())
        got = json.loads(run("verify", "store", "--json")[1])["findings"]
        for finding in got:
            assert finding["got"] in words
            assert finding["remedy"] in words
            assert finding["byte"] is None or str(finding["byte"]) in words

    def test_nothing_is_cut_in_a_pipe(self, run, store):
        """Each finding is one line, however long."""
        path = min((store / "index").iterdir())
        path.unlink()
        path.symlink_to(store / ("x" * 200))
        _, out, _ = run("verify", store, "--commit-log", "none")
        (line,) = [line for line in out.splitlines() if line.startswith("error")]
        assert f"{path}: cannot be read" in line
        assert "\u2026" not in out

    def test_a_path_that_is_not_there_gives_2(self, run, tmp_path):
        """As everywhere."""
        code, out, err = run("verify", tmp_path / "nothing")
        assert (code, out) == (2, "")
        assert "no such file" in err


class TestPlot:
    """``rmqindex plot``."""

    @pytest.mark.parametrize(
        "kind",
        sampled(
            [("index.png", b"\x89PNG"), ("index.SVG", b"<?xml"), ("i.pdf", b"%PDF")],
            ("index.SVG", b"<?xml"),
        ),
    )
    def test_the_name_says_which_kind_of_picture(self, run, tmp_path, kind):
        """PNG, SVG and PDF."""
        name, magic = kind
        code, out, err = run("plot", STORE, "--out", tmp_path / name)
        assert (code, out, err) == (0, f"Wrote {tmp_path / name}\n", "")
        assert (tmp_path / name).read_bytes().startswith(magic)

    def test_each_picture_has_a_title(self, run, tmp_path, monkeypatch):
        """Above each of the three."""
        matplotlib = pytest.importorskip("matplotlib")
        monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
        assert run("plot", STORE, "--out", tmp_path / "index.svg")[0] == 0
        drawn = (tmp_path / "index.svg").read_text()
        for title in ("Slot occupancy: ", "Slots in use by file: 80 % of all", "Entries over time"):
            assert title in drawn

    def test_an_index_without_entries_has_a_picture(self, run, tmp_path):
        """An empty one."""
        (tmp_path / "index").mkdir()
        (tmp_path / "commitlog").mkdir()
        code, _, _ = run("plot", tmp_path, "--out", tmp_path / "empty.png")
        assert code == 0

    @pytest.mark.parametrize("stored", [-(2**63), 2**50, 2**63 - 1])
    def test_times_beyond_the_calendar_leave_one_picture_empty(self, run, tmp_path, stored):
        """The others are drawn."""
        with rmqindex.IndexFileWriter(
            tmp_path / "20231114221320000", rmqindex.Layout(7, 28)
        ) as file:
            file.put("T#a", 0, stored)
        code, out, err = run("plot", tmp_path, "--out", tmp_path / "index.png")
        assert (code, out, err) == (0, f"Wrote {tmp_path / 'index.png'}\n", "")

    def test_another_suffix_is_bad_usage(self, run, tmp_path):
        """The message lists those that are known."""
        code, _, err = run("plot", STORE, "--out", tmp_path / "index.bmp")
        assert code == 2
        assert ".png, .svg, .pdf" in err

    def test_without_matplotlib_it_says_what_to_install(self, run, tmp_path, monkeypatch):
        """One line, no traceback."""
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        code, _, err = run("plot", STORE, "--out", tmp_path / "index.png")
        assert code == 2
        assert "pip install 'rmqindex[plot]'" in err
