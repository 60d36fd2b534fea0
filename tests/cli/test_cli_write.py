"""``rmqindex rebuild``, ``rebuild-queues``, ``expire`` and ``relayout``."""

import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

import rmqindex
from commitlog_encoder import Log, Message, properties_text
from other_broker import running_broker
from recorded import MESSAGE_KINDS
from trees import files_of

STORE = rmqindex.sample_store()
STORE2 = MESSAGE_KINDS / "store"
GEOMETRY = ("--max-hash-slot-num", 97, "--max-index-num", 200)
CONTENT = [path.read_bytes() for path in sorted((STORE / "index").iterdir())]


def content(directory):
    """Return the bytes of the files, oldest first."""
    return [path.read_bytes() for path in sorted(directory.iterdir())]


class TestRebuild:
    """``rmqindex rebuild``."""

    def test_a_lost_index_comes_back_byte_for_byte(self, run, store):
        """And the checkpoint lets a broker keep it after a crash."""
        shutil.rmtree(store / "index")
        code, out, err = run("rebuild", store, *GEOMETRY, "--time-zone", "UTC")
        assert (code, err) == (0, "")
        assert content(store / "index") == CONTENT
        assert min((store / "index").iterdir()).name == "20231114221324511"
        assert "430 messages from 0 to 123120: 959 entries in 5 files" in out
        checkpoint = rmqindex.StoreCheckpoint.load(store / "checkpoint")
        assert checkpoint.index_msg_timestamp == 1700022861666

    def test_a_stopped_rebuild_goes_on(self, run, store):
        """With --resume, from wherever it stopped."""
        for stop in (1, 26_249, 40_000, 123_000):
            shutil.rmtree(store / "index")
            run("rebuild", store, *GEOMETRY, "--to", stop)
            code, out, _ = run("rebuild", store, "--resume", "--json")
            assert code == 0
            assert json.loads(out)["stop"] == 123_120
            assert content(store / "index") == CONTENT

    def test_files_that_are_there_are_not_touched_unless_asked(self, run, store):
        """Resuming and replacing are asked for by name."""
        code, _, err = run("rebuild", store)
        assert code == 2
        assert "expected no IndexFiles, got 5" in err
        old = max((store / "index").iterdir()).name
        code, _, _ = run("rebuild", store, "--replace", "--time-zone", "UTC")
        assert code == 0
        assert content(store / "index") == CONTENT
        assert min((store / "index").iterdir()).name > old

    def test_a_range_of_offsets_into_another_directory(self, run, tmp_path):
        """Nothing of the store is written."""
        code, out, _ = run(
            "rebuild", STORE, "--out", tmp_path / "part", *GEOMETRY,
            "--from", 26_249, "--to", 53_564, "--json",
        )  # fmt: skip
        document = json.loads(out)
        assert code == 0
        assert document["start"] == 26_249
        assert document["stop"] == 53_564
        assert document["index_msg_timestamp"] is None

    def test_a_broker_is_not_disturbed(self, run, store):
        """One that runs is named, with the flag; what one that crashed left is rebuilt."""
        shutil.rmtree(store / "index")
        with running_broker(store) as pid:
            code, _, err = run("rebuild", store, *GEOMETRY)
            assert code == 2
            assert f"held by process {pid}: a broker runs on this store" in err
            assert "With --allow-live-store" in err
            assert not (store / "index").exists()
            assert run("rebuild", store, *GEOMETRY, "--allow-live-store")[0] == 0
        shutil.rmtree(store / "index")
        (store / "abort").touch()
        assert run("rebuild", store, *GEOMETRY)[0] == 0

    def test_a_damaged_log_stops_it_or_is_skipped(self, run, store):
        """With DROPMALFORMED each damage is a line on standard error."""
        with (store / "commitlog" / "00000000000000000000").open("r+b") as log:
            log.seek(30_000)
            log.write(bytes(300))
        code, _, _ = run("rebuild", store, "--out", store / "new", *GEOMETRY)
        assert code == 2
        code, out, err = run(
            "rebuild", store, "--out", store / "other", *GEOMETRY, "--mode", "DROPMALFORMED"
        )
        assert code == 0
        assert "at byte" in err
        assert "Indexed 42" in out

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--resume", "--replace"], "--resume"),
            (["--resume", "--from", "7"], "--resume"),
            (
                ["--replace", "--max-hash-slot-num", "97", "--max-index-num", "1"],
                "--max-index-num: expected at least 2",
            ),
        ],
    )
    def test_bad_usage(self, run, store, arguments, message):
        """What does not go together is told."""
        code, _, err = run("rebuild", store, *arguments)
        assert code == 2
        assert message in err

    def test_log_files_alone_need_a_directory_to_write(self, run, store):
        """There is no store to put an index into."""
        code, _, err = run("rebuild", store / "commitlog")
        assert code == 2
        assert "--out" in err


class TestRebuildQueues:
    """``rmqindex rebuild-queues``."""

    def test_lost_queues_come_back_byte_for_byte(self, run, store):
        """The broker's own files, where the log is whole."""
        before = files_of(store / "consumequeue")
        shutil.rmtree(store / "consumequeue")
        code, out, err = run("rebuild-queues", store, "--file-size", 2000)
        assert (code, err) == (0, "")
        assert out == f"Wrote 406 units into 20 queues of {store}, 20 files\n"
        assert files_of(store / "consumequeue") == before

    def test_queues_that_are_there_are_replaced_if_asked(self, run, store):
        """Nothing is touched otherwise."""
        before = files_of(store / "consumequeue")
        victim = store / "consumequeue" / "TopicTest" / "0" / ("0" * 20)
        victim.write_bytes(bytes(2000))
        code, _, err = run("rebuild-queues", store)
        assert (code, victim.read_bytes()) == (2, bytes(2000))
        assert "expected no ConsumeQueues" in err
        code, out, _ = run("rebuild-queues", store, "--replace", "--file-size", 2000, "--json")
        assert code == 0
        assert json.loads(out) == {
            "directory": str(store),
            "queue_count": 20,
            "unit_count": 406,
            "file_count": 20,
            "unagreed": None,
            "gaps": [],
            "file_size": 2000,
            "batch_file_size": 13_800_000,
            "is_default_size": False,
            "default_delay_count": 0,
            "mended_due_count": 0,
            "added_light": [],
            "kept": [],
            "superseded": [],
            "doubtful": [],
            "dropped": [],
            "lost": [],
            "stray": [],
            "replaced_count": 362,
            "kept_count": 0,
            "deleted_topics": [],
            "left_out": [],
            "foreign": [],
            "dry_run": False,
            "refusal": None,
            "missing": [],
        }
        assert files_of(store / "consumequeue") == before
        assert not [path for path in store.iterdir() if path.name.startswith(".")]

    def test_what_the_brokers_configuration_decides_is_told(self, run, tmp_path):
        """Where nothing shows it: when delayed messages are due, and whether light queues are."""
        light = [("INNER_MULTI_DISPATCH", "%LMQ%a"), ("INNER_MULTI_QUEUE_OFFSET", "0")]
        log = Log(1 << 16)
        log.append(Message(properties=properties_text(light)))
        delay = properties_text([("DELAY", "2")])
        log.append(Message(topic="SCHEDULE_TOPIC_XXXX", queue_id=1, properties=delay))
        log.write_to(tmp_path / "commitlog")
        out = run("rebuild-queues", tmp_path, "--file-size", 2000, "--no-multi-dispatch")[1]
        assert "\n1 delayed message due by the default levels; a broker with a message" in out
        out = run("rebuild-queues", tmp_path, "--replace")[1]
        assert "\nLight queues that were not there: %LMQ%a; a broker without enableMulti" in out
        assert "delayed" not in out
        assert len(run("rebuild-queues", tmp_path, "--replace")[1].splitlines()) == 1

    def test_queues_that_would_lose_units_are_kept(self, run, store):
        """The error names the numbers and the flag; a dry run shows them and changes nothing."""
        before = files_of(store / "consumequeue")
        log = store / "commitlog" / ("0" * 20)
        with log.open("r+b") as file:
            file.seek(60_000)
            file.write(bytes(log.stat().st_size - 60_000))
        for newer in sorted((store / "commitlog").iterdir())[1:]:
            newer.unlink()
        whole = ["rebuild-queues", store, "--replace", "--mode", "DROPMALFORMED"]
        code, out, err = run(*whole)
        assert (code, out) == (2, "")
        assert "of their 406 units" in err
        assert "give --allow-loss" in err
        refused = err
        code, out, err = run(*whole, "--dry-run")
        assert (code, err) == (2, refused)
        assert out.startswith("Would write ")
        assert "units of the old queue would be lost, from queue offset" in out
        assert "unless --allow-loss is given" in out
        assert files_of(store / "consumequeue") == before
        code, out, _ = run(*whole, "--allow-loss")
        assert code == 0
        assert ", in place of 406 units" in out
        assert files_of(store / "consumequeue") != before

    def test_what_is_no_queues_stays_and_is_named(self, run, store):
        """Beside the new queues, as foreign names stay in an index."""
        folder = store / "consumequeue"
        shutil.rmtree(folder / "TopicTest/0")
        kept = {
            "readme.txt": b"notes",
            "TopicTest/0/00000000000000000000.bak": b"precious",
            "TopicTest/0/old/00000000000000000000": b"x",
            "TopicTest/set aside/1/00000000000000000020": b"y",
            "TopicTest/00/00000000000000000020": bytes(100),  # a broker opens 0 for it
        }
        for name, content in kept.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        code, out, err = run("rebuild-queues", store, "--replace", "--dry-run", "--json")
        assert (code, err) == (0, "")
        foreign = json.loads(out)["foreign"]
        assert {f"consumequeue/{name}" for name in kept} <= set(foreign)
        code, out, _ = run("rebuild-queues", store, "--replace")
        assert code == 0
        assert all(path in " ".join(out.split()) for path in foreign)
        assert {name: (folder / name).read_bytes() for name in kept} == kept
        assert (folder / "TopicTest/0/00000000000000000000").exists()

    @pytest.mark.parametrize("kind", ["link", "pipe", "file in the way"])
    def test_what_cannot_be_kept_is_refused_by_its_name(self, run, store, kind):
        """In a dry run, too."""
        path = store / "consumequeue" / "TopicTest" / "0"
        if kind == "link":
            path = path / "link"
            path.symlink_to("nowhere")
        elif kind == "pipe":
            path = path / "pipe"
            os.mkfifo(path)
        else:
            shutil.rmtree(path)
            path.write_text("notes")
        before = files_of(store / "index")
        for options in (("--dry-run",), ()):
            code, _, err = run("rebuild-queues", store, "--replace", *options)
            assert code == 2
            assert f"{path}: expected a" in err
            assert os.path.lexists(path)
        assert files_of(store / "index") == before

    @pytest.mark.parametrize("name", ["consumequeue", "batchconsumequeue"])
    @pytest.mark.parametrize("is_link", [True, False])
    def test_what_stands_in_the_place_of_a_folder_is_not_replaced(self, run, store, name, is_link):
        """A file, or a link to a disk that is not mounted."""
        path = store / name
        shutil.rmtree(path, ignore_errors=True)
        if is_link:
            path.symlink_to("nowhere")
        else:
            path.write_text("notes")
        for options in (("--dry-run",), (), ("--replace", "--allow-loss")):
            code, _, err = run("rebuild-queues", store, *options)
            assert code == 2
            assert f"{path}: expected a folder" in err
            assert os.path.lexists(path)

    def test_a_topic_that_was_made_again_is_named(self, run, tmp_path):
        """Its queue has the new messages, and the deleted ones are counted."""
        log = Log(1 << 16)
        for place in [*range(10), *range(5)]:
            log.append(Message(topic="Orders", queue_offset=place))
        log.write_to(tmp_path / "commitlog")
        code, out, err = run("rebuild-queues", tmp_path)
        assert (code, err) == (0, "")
        assert "Orders, queue 0: left out 10 units of older messages, since" in out

    def test_a_deleted_topic_is_named_with_the_flag_that_leaves_it_out(self, run, tmp_path):
        """Which works as it is printed."""
        log = Log(1 << 16)
        log.append(Message(topic="Gone"))
        log.append(Message())
        log.write_to(tmp_path / "commitlog")
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "topics.json").write_text('{"topicConfigTable":{"TopicTest":{}}}')
        _, out, _ = run("rebuild-queues", tmp_path)
        assert "config/topics.json does not have Gone" in out
        assert "--leave-out TOPIC" in out
        assert (tmp_path / "consumequeue" / "Gone").is_dir()
        code, out, _ = run("rebuild-queues", tmp_path, "--replace", "--leave-out", "Gone")
        assert code == 0
        assert "No queues of Gone" in out
        assert not (tmp_path / "consumequeue" / "Gone").exists()

    def test_a_topic_to_leave_out_that_has_no_message_is_named(self, run, store):
        """It may be misspelt."""
        code, _, err = run("rebuild-queues", store, "--replace", "--leave-out", "topicOrder")
        assert code == 0
        assert err == (
            "rmqindex: --leave-out topicOrder: no message is of it; there is no queue of the topic "
            "topicOrder, but of TopicOrder\n"
        )

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--file-size", 30), "--file-size: expected a multiple of 20"),
            (("--delay-levels", "soon"), "--delay-levels: expected such as 1s"),
        ],
    )
    def test_bad_usage(self, run, store, arguments, message):
        """Told before anything is written."""
        code, _, err = run("rebuild-queues", store, "--replace", *arguments)
        assert code == 2
        assert message in err

    def test_log_files_alone_need_a_directory_to_write(self, run, store, tmp_path):
        """Where the queues go is not guessed."""
        code, _, err = run("rebuild-queues", store / "commitlog")
        assert code == 2
        assert "--out" in err
        code, _, _ = run("rebuild-queues", store / "commitlog", "--out", tmp_path / "out")
        assert code == 0
        assert (tmp_path / "out" / "consumequeue" / "TopicTest").is_dir()

    def test_a_broker_is_not_disturbed(self, run, store):
        """It holds the store."""
        with running_broker(store):
            code, _, err = run("rebuild-queues", store, "--replace")
        assert code == 2
        assert "a broker runs" in err


class TestExpire:
    """``rmqindex expire``."""

    def test_a_dry_run_deletes_nothing(self, run, tmp_path):
        """It names the files that would go."""
        shutil.copytree(STORE2, tmp_path / "store")
        names = sorted(path.name for path in (tmp_path / "store" / "index").iterdir())
        code, out, err = run("expire", tmp_path / "store", "--dry-run", "--json")
        gone = json.loads(out)["files"]
        assert code == 0
        assert gone == names[: len(gone)]
        assert gone
        assert sorted(path.name for path in (tmp_path / "store" / "index").iterdir()) == names
        (line,) = re.findall("`rmqindex ([^`]*)`", err)
        code, out, _ = run(*shlex.split(line))
        assert code == 0
        assert re.search(rf"{len(gone)} files? gone, [0-9.]+ [KM]iB; offsets before ", out)
        left = sorted(path.name for path in (tmp_path / "store" / "index").iterdir())
        assert left == names[len(gone) :]

    def test_it_does_what_the_broker_does(self, run, store):
        """For any offset, and never with the last file."""
        for offset in (0, 26_249, 26_250, 80_000, 10**9):
            with rmqindex.IndexDirectory(store) as directory:
                directory.delete_expired(offset)
                kept = [file.name for file in directory.files]
            options = ("--before", offset, "--dry-run", "--allow-loss", "--json")
            _, out, _ = run("expire", store, *options)
            gone = json.loads(out)["files"]
            names = sorted(path.name for path in (store / "index").iterdir())
            assert [name for name in names if name not in gone] == kept

    def test_a_log_that_lost_its_oldest_file_deletes_nothing(self, run, store):
        """It looks like one whose messages have expired, and the entries are all that is left."""
        min((store / "commitlog").iterdir()).unlink()
        names = sorted((store / "index").iterdir())
        code, out, err = run("expire", store)
        assert (code, out) == (2, "")
        assert "begins at offset 65536, and 2 IndexFiles with 398 entries, of the messages" in err
        assert "all that is left of them: restore the files" in err
        assert sorted((store / "index").iterdir()) == names
        code, out, told = run("expire", store, "--dry-run")
        assert (code, told) == (0, err)
        assert "2 files would go" in out

    def test_what_has_expired_is_named_and_deleted(self, run, store):
        """By the command that the refusal prints, or by a flag that accepts a loss."""
        min((store / "commitlog").iterdir()).unlink()
        shutil.copytree(store, store.with_name("copy of it"))
        given = ("--commit-log", store / "commitlog", "--allow-live-store")
        _, _, err = run("expire", store.with_name("copy of it"), *given)
        (line,) = re.findall("`rmqindex ([^`]*)`", err)
        assert shlex.split(line)[4:] == [str(each) for each in given]
        for arguments in (shlex.split(line), ("expire", store, "--allow-loss")):
            assert run(*arguments)[0] == 0
            assert len(list((Path(arguments[1]) / "index").iterdir())) == 3

    def test_entries_of_messages_that_the_log_has_are_not_deleted(self, run, store):
        """An offset within the log does not tell what has expired."""
        names = sorted((store / "index").iterdir())
        for options in ((), ("--dry-run",)):
            code, out, err = run("expire", store, "--before", 60_000, *options)
            assert (code, out) == (2, "")
            assert (
                "expected messages before 60000 to have expired, got a CommitLog that begins at "
                "offset 0: entries of messages that it still has would be lost, 398 in 2 "
                "IndexFiles; --allow-loss deletes them"
            ) in err
        assert sorted((store / "index").iterdir()) == names
        loss = err.partition("; --allow-loss")[0]
        for options in (("--dry-run",), ()):
            code, _, err = run("expire", store, "--before", 60_000, "--allow-loss", *options)
            assert (code, err) == (0, f"{loss}\n")
        assert sorted((store / "index").iterdir()) == names[2:]

    def test_without_expired_files_it_needs_no_offset(self, run, store):
        """It has nothing to do."""
        code, out, err = run("expire", store)
        assert (code, out, err) == (0, "No file to delete: offsets before 0\n", "")

    def test_without_a_log_it_asks_where_the_log_begins(self, run, store):
        """It guesses nothing."""
        shutil.rmtree(store / "commitlog")
        code, _, err = run("expire", store)
        assert code == 2
        assert "--before" in err

    def test_a_broker_is_not_disturbed(self, run, store):
        """It holds the store."""
        with running_broker(store):
            assert run("expire", store, "--before", 10**9)[0] == 2


@pytest.mark.parametrize(
    "command",
    [
        ("expire", "--before", 10**9, "--allow-loss"),
        ("relayout", "--slots", 50, "--entries", 300),
        ("rebuild", "--replace"),
        ("rebuild-queues", "--replace"),
    ],
    ids=lambda command: command[0],
)
def test_a_dry_run_beside_a_running_broker_says_so(run, store, command):
    """It is no disturbance, so that it needs no flag; what it shows is of this moment."""
    name, *options = command
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    with running_broker(store):
        assert run(name, store, *options)[0] == 2
        code, out, err = run(name, store, *options, "--dry-run")
        assert (code, err.count("a broker runs on the store, so these numbers may change")) == (
            0,
            1,
        )
        assert out
    after = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    assert {path: after[path] for path in before} == before
    _, _, err = run(name, store, *options, "--dry-run")
    assert "a broker runs" not in err


class TestRelayout:
    """``rmqindex relayout``."""

    def test_the_entries_are_those_of_a_broker_with_the_new_geometry(self, run, store, tmp_path):
        """With the CommitLog, byte for byte."""
        code, out, _ = run("relayout", store, "--slots", 31, "--entries", 500)
        assert code == 0
        assert "959 entries into 2 files in place of 5; 959 with their exact times" in out
        run(
            "rebuild", STORE, "--out", tmp_path / "broker",
            "--max-hash-slot-num", 31, "--max-index-num", 500,
        )  # fmt: skip
        assert content(store / "index") == content(tmp_path / "broker")

    def test_without_a_log_entries_keep_their_place_and_second(self, run, store):
        """A time may come out up to a second early."""
        before = rmqindex.verify(store, "auto").num_rows
        run("relayout", store, "--slots", 31, "--entries", 500, "--commit-log", "none")
        after = rmqindex.verify(store, "auto").to_pylist()
        assert {row["rule"] for row in after if row["severity"] == "error"} <= {
            "time_diff", "begin_timestamp", "end_timestamp",
        }  # fmt: skip
        assert before

    def test_without_a_log_each_run_makes_times_at_most_a_second_earlier(self, run, store):
        """And none later than its message; the help says so."""
        with rmqindex.CommitLog(store) as log:
            batches = list(log.scan(columns=["phy_offset", "store_timestamp"]))
        stored = {
            row["phy_offset"]: row["store_timestamp"] for b in batches for row in b.to_pylist()
        }

        def early():
            for path in sorted((store / "index").iterdir()):
                with rmqindex.IndexFile(path) as file:
                    for batch in file.scan(columns=["phy_offset", "store_timestamp"]):
                        offsets, times = (column.to_pylist() for column in batch.columns)
                        yield from (stored[o] - t for o, t in zip(offsets, times, strict=True))

        assert all(0 <= each < 1000 for each in early())
        for number, (slots, entries) in enumerate(((31, 370), (97, 200), (53, 610)), 2):
            run("relayout", store, "--slots", slots, "--entries", entries, "--commit-log", "none")
            assert all(0 <= each < 1000 * number for each in early())

    def test_there_and_back_is_where_it_was(self, run, store):
        """With the exact times nothing is lost."""
        run("relayout", store, "--slots", 31, "--entries", 500)
        _, out, _ = run("relayout", store, "--slots", 97, "--entries", 200, "--json")
        assert json.loads(out)["entry_count"] == 959
        assert content(store / "index") == CONTENT

    def test_a_broker_that_starts_after_a_crash_keeps_the_new_files(self, run, store):
        """The checkpoint covers them: it was set for files that ended elsewhere."""
        _, out, _ = run("relayout", store, "--slots", 31, "--entries", 950, "--json")
        checkpoint = rmqindex.StoreCheckpoint.load(store / "checkpoint")
        assert json.loads(out)["index_msg_timestamp"] == 1700022861666
        assert checkpoint.index_msg_timestamp == 1700022861666
        assert "checkpoint_behind" not in rmqindex.verify(store, "auto")["rule"].to_pylist()
        before = content(store / "index")
        geometry = rmqindex.Layout(31, 950)
        with rmqindex.IndexDirectory(store, geometry, writable=True, last_exit_ok=False) as index:
            assert len(index.files) == 2
        assert content(store / "index") == before

    def test_an_index_of_no_store_has_no_checkpoint(self, run, store):
        """And gets none."""
        (store / "checkpoint").unlink()
        _, out, _ = run("relayout", store / "index", "--slots", 31, "--entries", 950, "--json")
        assert json.loads(out)["index_msg_timestamp"] is None
        assert not (store / "checkpoint").exists()

    def test_a_damaged_file_stops_it_and_nothing_is_changed(self, run, store):
        """All or nothing."""
        last = max((store / "index").iterdir())
        data = bytearray(last.read_bytes())
        data[40 + 4 * 97 + 20 * 3 + 16] = 0x7F
        last.write_bytes(data)
        before = content(store / "index")
        assert run("relayout", store, "--slots", 31, "--entries", 500)[0] == 2
        assert content(store / "index") == before
        assert not (store / ".index.rmqindex").exists()

    def test_bad_numbers(self, run, store):
        """A file size beyond the broker's is told."""
        code, _, err = run("relayout", store, "--slots", 1, "--entries", 2**31 - 1)
        assert code == 2
        assert "--slots, --entries" in err
