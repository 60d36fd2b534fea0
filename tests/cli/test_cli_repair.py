"""An operator's stories: from a broken store to a working one, by what the messages themselves say.

Each begins with a copy of what a broker wrote, and ends with its bytes.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path

import pytest

from kinds import sampled
from other_broker import running_broker
from recorded import BROKER_VERSIONS, MESSAGE_KINDS
from rmqindex import CommitLog, IndexFile, Layout, StoreCheckpoint, rebuild_index
from trees import queue_files

GOLDEN = BROKER_VERSIONS
VERSIONS = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())
TAGGED = "5.5.0"
GEOMETRY = ("--max-hash-slot-num", 97, "--max-index-num", 200)


def copied(tmp_path, version=TAGGED):
    """Return a copy of a broker's store."""
    return Path(shutil.copytree(GOLDEN / version / "store", tmp_path / "store"))


@pytest.fixture
def tagged(tmp_path):
    """A store of a broker that indexes tags, with three files."""
    return copied(tmp_path)


def content(store):
    """Return the bytes of the files of the index, oldest first."""
    return [path.read_bytes() for path in sorted((store / "index").iterdir())]


BROKERS = {version: content(GOLDEN / version / "store") for version in VERSIONS}


def command_in(message):
    """Return the arguments of the command that a message quotes."""
    return shlex.split(re.search(r"`rmqindex ([^`]*)`", message)[1])


@pytest.mark.parametrize(
    ("command", "name"),
    [("rebuild", "index/20240101"), ("rebuild-queues", "commitlog/out"), ("export", "index/1")],
)
def test_nothing_is_written_into_a_folder_that_a_broker_lists(run, tagged, command, name):
    """A broker does not start with a directory of digits in ``index``."""
    target = (tagged / name,) if command == "export" else ("--out", tagged / name)
    code, _, err = run(command, tagged, *target)
    assert code == 2
    assert f"expected a directory outside of {(tagged / name).parent.resolve()}" in err
    assert not (tagged / name).exists()


class TestStories:
    """What is typed is what the output before it said."""

    def test_the_index_was_lost_in_a_crash(self, run, tagged):
        """The broker is killed, and an index with tags is gone."""
        shutil.rmtree(tagged / "index")
        (tagged / "rocksdbstore").mkdir()  # a broker from 5.4.0 on makes it; git keeps no folders
        (tagged / "abort").touch()
        StoreCheckpoint().save(tagged / "checkpoint")

        code, _, err = run("info", tagged)
        assert code == 2
        command = command_in(err)
        assert command == ["rebuild", str(tagged)]

        code, out, err = run(*command)
        assert "live" not in err
        assert code == 0
        assert "Tags are indexed, since the store has the folder rocksdbstore" in out
        assert "needs --max-hash-slot-num and --max-index-num" in out

        # This broker has other settings.
        code, _, err = run(*command, *GEOMETRY)
        assert code == 2
        assert "--replace indexes the whole log anew in their place" in err

        code, out, _ = run(*command, *GEOMETRY, "--replace")
        assert code == 0
        assert content(tagged) == BROKERS[TAGGED]
        assert "a broker that starts after a crash keeps them" in out
        assert StoreCheckpoint.load(tagged / "checkpoint").index_msg_timestamp == 1795246306181

    def test_the_oldest_file_is_gone(self, run, tagged):
        """A rebuild that resumes cannot put anything before the first file, and says so."""
        min((tagged / "index").iterdir()).unlink()
        code, out, err = run("rebuild", tagged, "--resume")
        assert (code, out) == (2, "")
        assert "expected entries of all messages before this file" in err
        assert err.endswith("--replace indexes the whole log anew\n")
        assert run("rebuild", tagged, "--replace")[0] == 0
        assert content(tagged) == BROKERS[TAGGED]

    def test_the_newest_file_is_gone(self, run, tagged):
        """A rebuild that resumes makes it again, with its tags."""
        max((tagged / "index").iterdir()).unlink()
        code, _, err = run("rebuild", tagged)
        assert code == 2
        assert "--resume continues behind their last entry" in err
        code, out, _ = run("rebuild", tagged, "--resume")
        assert code == 0
        assert "Tags are indexed, as the existing files show" in out
        assert content(tagged) == BROKERS[TAGGED]

    def test_there_is_a_hole_in_the_middle(self, run, tagged):
        """It is named, with the messages in it and the flag that fills it."""
        before, hole, after = sorted((tagged / "index").iterdir())
        hole.unlink()
        code, _, err = run("rebuild", tagged, "--resume")
        assert code == 2
        assert (
            f"{after}: expected entries of all messages between {before.name} and this file" in err
        )
        assert err.endswith("--replace indexes the whole log anew\n")
        assert run("rebuild", tagged, "--replace")[0] == 0
        assert content(tagged) == BROKERS[TAGGED]

    @pytest.mark.parametrize("size", [0, 17, 3000])
    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_a_file_was_cut(self, run, tagged, place, size):
        """The others show geometry and tags."""
        path = sorted((tagged / "index").iterdir())[place]
        path.write_bytes(path.read_bytes()[:size])
        code, _, err = run("rebuild", tagged, "--resume")
        if (place, size) == (2, 0):  # as an interrupted rebuild leaves it
            assert code == 0
        else:
            assert code == 2
            assert err.endswith("--replace indexes the whole log anew\n")
            assert run("rebuild", tagged, "--replace")[0] == 0
        assert content(tagged) == BROKERS[TAGGED]


@pytest.mark.parametrize("version", VERSIONS)
class TestAsTheBroker:
    """With no option but what is to be done, the files are those of each broker."""

    def test_replaced(self, run, tmp_path, version):
        """Delayed, retried and half messages, batches and dead letters included."""
        store = copied(tmp_path, version)
        code, out, err = run("rebuild", store, "--replace", "--json")
        assert (code, err) == (0, "")
        assert content(store) == BROKERS[version]
        done = json.loads(out)
        assert done["layout_basis"] == "files"
        assert done["tags_basis"] == "files"
        assert done["tags_from"] == (0 if version == TAGGED else None)
        assert done["replaced_count"] == done["entry_count"]

    def test_resumed(self, run, tmp_path, version):
        """The newest file was lost."""
        store = copied(tmp_path, version)
        max((store / "index").iterdir()).unlink()
        assert run("rebuild", store, "--resume")[0] == 0
        assert content(store) == BROKERS[version]

    def test_written_elsewhere(self, run, tmp_path, version):
        """The index of the store is the model."""
        store = copied(tmp_path, version)
        code, _, _ = run("rebuild", store, "--out", tmp_path / "other" / "index")
        assert code == 0
        assert content(tmp_path / "other") == BROKERS[version]


class TestTags:
    """Whether tags are indexed is taken from the files, or said."""

    def test_of_an_upgraded_broker(self, run, tagged):
        """Tags are indexed from the message on from which the old files have them."""
        shutil.rmtree(tagged / "index")
        run("rebuild", tagged, *GEOMETRY, "--no-index-tags", "--to", 14_000)
        run("rebuild", tagged, "--resume", "--index-tags")
        mixed = content(tagged)
        code, out, _ = run("rebuild", tagged, "--replace")
        assert code == 0
        assert re.search(r"Tags are indexed from offset 1\d{4} on, as the existing files show", out)
        assert content(tagged) == mixed
        assert mixed != BROKERS[TAGGED]

    def test_that_were_lost_on_the_way(self, run, tagged):
        """Files that had them and have them no more are not continued; the flags are named."""
        max((tagged / "index").iterdir()).unlink()
        run("rebuild", tagged, "--resume", "--no-index-tags", "--to", 36_000)
        code, _, err = run("rebuild", tagged, "--resume")
        assert code == 2
        assert "--index-tags indexes them" in err
        assert "--no-index-tags does not" in err
        assert f"`rmqindex rebuild {tagged} --resume --index-tags`" in err
        given = ["--no-checkpoint", "--time-zone", "Asia/Shanghai", *map(str, GEOMETRY)]
        _, _, err = run("rebuild", tagged, "--resume", *given)
        line = shlex.join(["rmqindex", "rebuild", str(tagged), "--resume", *given, "--index-tags"])
        assert f"`{line}`" in err
        assert run("rebuild", tagged, "--resume", "--no-index-tags")[0] == 0
        assert run("rebuild", tagged, "--replace", "--index-tags")[0] == 0
        assert content(tagged) == BROKERS[TAGGED]

    def test_where_nothing_tells(self, run, tagged):
        """What was taken is said, and how to choose."""
        shutil.rmtree(tagged / "index")
        code, out, _ = run("rebuild", tagged, *GEOMETRY)
        assert code == 0
        assert "Tags are not indexed, since nothing shows that the broker does" in out
        assert out.count("--index-tags") == 1

    def test_where_no_message_has_any(self, run, tagged):
        """There is nothing to say."""
        shutil.rmtree(tagged / "index")
        code, out, _ = run("rebuild", tagged, *GEOMETRY, "--from", 931, "--to", 1199)
        assert code == 0
        assert "Indexed 1 message" in out
        assert "Tags" not in out


class TestExpiredMessages:
    """Entries of messages that the log no longer has come from the files that are replaced."""

    STORE = MESSAGE_KINDS / "store"

    def test_are_kept(self, run, tmp_path):
        """The rebuilt files are the broker's, byte for byte."""
        store = Path(shutil.copytree(self.STORE, tmp_path / "store"))
        before = content(store)
        with CommitLog(store) as log:
            first = log.min_offset
        code, out, _ = run("rebuild", store, "--replace")
        assert code == 0
        assert f"messages before {first}, where the log begins" in out
        assert content(store) == before

    def test_of_an_unreadable_file_are_named(self, run, tmp_path):
        """The others are kept."""
        store = Path(shutil.copytree(self.STORE, tmp_path / "store"))
        oldest = min((store / "index").iterdir())
        oldest.write_bytes(oldest.read_bytes()[:30])
        code, out, _ = run("rebuild", store, "--replace")
        assert code == 0
        assert f"{oldest.name} could not be read" in out

    @pytest.mark.parametrize("damaged", [(2,), (1, 5, 6), (-1,), (1, -2, -1)])
    def test_that_are_damaged_are_counted(self, damaged, run, tmp_path):
        """The others are kept, and those of messages that the log has are made anew."""
        store = Path(shutil.copytree(self.STORE, tmp_path / "store"))
        oldest = min((store / "index").iterdir())
        with IndexFile(oldest) as file:
            layout, count = file.layout, file.entry_count
        kept = re.search(r"Kept (\d+) entries", run("rebuild", store, "--replace", "--dry-run")[1])
        data = bytearray(oldest.read_bytes())
        for number in damaged:
            place = layout.entry_offset(number % (count + 1))
            data[place : place + 4] = b"\xff\xff\xff\xff"
        oldest.write_bytes(data)
        code, out, _ = run("rebuild", store, "--replace")
        assert code == 0
        assert f"Left out {len(damaged)} damaged entr" in out
        assert f"Kept {int(kept[1]) - len(damaged)} entr" in out


def entries_of(store):
    """Return the times of the entries of each hash and offset."""
    found = defaultdict(list)
    for path in sorted((store / "index").iterdir()):
        with IndexFile(path) as file:
            for batch in file.scan(columns=["key_hash", "phy_offset", "store_timestamp"]):
                for *entry, time in zip(*(each.to_pylist() for each in batch.columns), strict=True):
                    found[tuple(entry)].append(time)
    return found


def put(name, at, number):
    """Return what puts eight bytes into an IndexFile."""

    def damage(index):
        with (index / name).open("r+b") as file:
            file.seek(at)
            file.write(number.to_bytes(8, "big", signed=True))

    return damage


def renamed(old, new):
    """Return what gives an IndexFile another name."""
    return lambda index: (index / old).rename(index / new)


OLDEST, SECOND, THIRD, NEWEST = (
    f"20261120200{number}" for number in (238514, 238727, 239783, 246187)
)
OFFSET = 40 + 53 * 4 + 5 * 20 + 4  # of entry 5
# Damage among entries of expired messages, with the entries that are lost by it.
EXPIRED = {
    "an offset behind the log": (put(OLDEST, OFFSET, 2**63 - 1), 1),
    "an offset within the log": (put(OLDEST, OFFSET, 200_000), 1),
    "the offset of a message": (put(OLDEST, OFFSET, 131_072), 1),
    "an offset below 0": (put(OLDEST, OFFSET, -1), 1),
    "the newest file has the oldest name": (renamed(NEWEST, "20261120200237514"), 0),
    "an older file has the oldest name": (renamed(THIRD, "20261119200239783"), 0),
    "a file and its copy": (
        lambda index: shutil.copy(index / THIRD, index / "20261120200239782"),
        0,
    ),
    **{
        f"a begin_timestamp of {number}": (put(SECOND, 0, number), 0)
        for number in (1, 0, -1, 1 << 40, 1 << 62, 2**63 - 1)
    },
    "a begin_phy_offset of 0": (put(SECOND, 16, 0), 0),
    "a file that was cut": (lambda index: os.truncate(index / SECOND, 2572), 4),
    "an older offset in a newer file": (put("20261120200244303", OFFSET, 5), 0),
}


@pytest.mark.parametrize(
    "case",
    sampled(
        EXPIRED,
        "an offset behind the log",
        "the newest file has the oldest name",
        "a begin_timestamp of 0",
        "a begin_phy_offset of 0",
        "a file that was cut",
    ),
)
def test_damage_costs_no_sound_entry_of_an_expired_message(case, run, tmp_path):
    """What ``verify`` says is typed, and verify then finds no error."""
    store = Path(shutil.copytree(MESSAGE_KINDS / "store", tmp_path / "store"))
    before = entries_of(store)
    damage, lost = EXPIRED[case]
    damage(store / "index")
    code, out, _ = run("verify", store)
    assert code == 1
    line = re.search(r"`rmqindex (rebuild [^`]*)`", out)[1]
    code, out, err = run(*shlex.split(line))
    assert (code, "Kept" in out) == (0, True), err
    assert run("verify", store)[0] == 0
    after = entries_of(store)
    assert after.keys() <= before.keys()
    assert sum(len(times) for times in after.values()) == 2674 - lost
    assert all(abs(time - before[entry][0]) < 2000 for entry in after for time in after[entry])


class TestRefusals:
    """Nothing is lost by a wrong path."""

    def test_a_mistyped_path(self, run, tmp_path):
        """It is told as such."""
        code, _, err = run("rebuild", tmp_path / "nope")
        assert (code, err) == (2, f"rmqindex: {tmp_path / 'nope'}: no such file or directory\n")

    def test_an_empty_directory(self, run, tmp_path):
        """A disk that is not mounted is no store."""
        for command in ("rebuild", "rebuild-queues"):
            code, _, err = run(command, tmp_path)
            assert code == 2
            assert "a store with a folder commitlog, got an empty directory" in err
        code, _, err = run("relayout", tmp_path, "--slots", 31, "--entries", 500)
        assert code == 2
        assert "expected IndexFiles, or a store with a folder index, got an empty" in err

    def test_an_empty_log_replaces_nothing(self, run, tagged):
        """An index is never exchanged for that of no messages."""
        shutil.rmtree(tagged / "commitlog")
        (tagged / "commitlog").mkdir()
        for command in ("rebuild", "rebuild-queues"):
            code, _, err = run(command, tagged, "--replace")
            assert code == 2
            assert "is its disk mounted?" in err
        assert content(tagged) == BROKERS[TAGGED]

    def test_the_log_of_another_broker_is_not_continued(self, run, tagged):
        """The last entry points to none of its messages."""
        shutil.rmtree(tagged / "commitlog")
        shutil.copytree(GOLDEN / "4.9.7/store/commitlog", tagged / "commitlog")
        code, _, err = run("rebuild", tagged, "--resume")
        assert code == 2
        assert "expected a last entry that points to a message of the CommitLog" in err
        assert content(tagged) == BROKERS[TAGGED]

    def test_a_path_is_shown_as_it_is(self, run, tmp_path):
        """Also where a folder is named like an argument."""
        store = copied(tmp_path / "replace=True")
        _, _, err = run("rebuild", store)
        assert err.startswith(f"rmqindex: {store}/index: expected no IndexFiles, got 3: --resume")

    def test_an_empty_index_names_the_command_that_fills_it(self, run, tagged):
        """Where a CommitLog stands beside it."""
        for path in (tagged / "index").iterdir():
            path.unlink()
        code, out, err = run("info", tagged)
        assert (code, out) == (0, f"{tagged}: no IndexFiles\n")
        assert command_in(err) == ["rebuild", str(tagged)]

    @pytest.mark.parametrize("command", ["info", "lookup"])
    def test_a_store_without_an_index_names_the_command_that_makes_it(self, run, tagged, command):
        """Wherever an index is expected."""
        shutil.rmtree(tagged / "index")
        key = ("Orders", "order-0") if command == "lookup" else ()
        code, _, err = run(command, tagged, *key)
        assert code == 2
        assert command_in(err) == ["rebuild", str(tagged)]


class TestInterrupts:
    """Ctrl-C says whether a file was changed."""

    @pytest.mark.parametrize(
        ("module", "command"),
        [
            ("rebuild", ("rebuild", "--replace")),
            ("rebuild", ("rebuild-queues", "--replace")),
            ("maintenance", ("relayout", "--slots", 31, "--entries", 500)),
        ],
    )
    def test_before_the_end_nothing_is_changed(self, run, tagged, monkeypatch, module, command):
        """What was there stays, byte for byte."""
        monkeypatch.setattr(f"rmqindex.cli.commands.{module}.progress_bar", interrupting)
        before = content(tagged), queue_files(tagged)
        name, *options = command
        code, out, err = run(name, tagged, *options)
        assert (code, out, err) == (130, "", "rmqindex: interrupted; nothing was changed\n")
        assert (content(tagged), queue_files(tagged)) == before

    def test_what_was_begun_is_continued(self, run, tagged, monkeypatch):
        """A rebuild keeps the files that it has written."""
        shutil.rmtree(tagged / "index")
        with monkeypatch.context() as patch:
            patch.setattr("rmqindex.cli.commands.rebuild.progress_bar", interrupting)
            code, _, err = run("rebuild", tagged, *GEOMETRY, "--index-tags")
        assert code == 130
        assert run("rebuild", tagged, *GEOMETRY, "--index-tags", "--resume")[0] == 0
        assert content(tagged) == BROKERS[TAGGED]
        changed = "rmqindex: interrupted; --resume continues what was begun\n"
        assert err in {changed, "rmqindex: interrupted; nothing was changed\n"}

    @pytest.mark.parametrize(
        ("module", "command"),
        [
            ("rebuild", ("rebuild-queues", "--replace")),
            ("maintenance", ("relayout", "--slots", 31, "--entries", 500)),
        ],
    )
    def test_beside_a_broker_it_is_undone_as_it_was_begun(
        self, run, tagged, monkeypatch, module, command
    ):
        """The printed command may write there, too."""

        def changing(_what):
            (tagged / "index" / "begun").touch()
            (tagged / "consumequeue" / "begun").touch()
            return interrupting(_what)

        monkeypatch.setattr(f"rmqindex.cli.commands.{module}.progress_bar", changing)
        with running_broker(tagged):
            name, *options = command
            _, _, err = run(name, tagged, *options, "--allow-live-store")
            line = command_in(err)
            assert line == ["recover", str(tagged), "--allow-live-store"]
            assert run(*line)[0] == 0


@contextmanager
def interrupting(_what):
    """Stands in for a progress bar: Ctrl-C is typed when something was done."""

    def report(done, _total):
        if done:
            raise KeyboardInterrupt

    yield report


class TestQueues:
    """A rebuild of ConsumeQueues takes from the present ones what a log does not say."""

    @pytest.mark.parametrize("version", VERSIONS)
    def test_file_sizes_are_those_of_the_present_queues(self, run, tmp_path, version):
        """The files are the broker's, byte for byte, here and elsewhere."""
        store = copied(tmp_path, version)
        before = queue_files(store)
        code, out, err = run("rebuild-queues", store, "--replace")
        assert (code, err) == (0, "")
        assert "default" not in out
        assert queue_files(store) == before
        assert run("rebuild-queues", store, "--out", tmp_path / "other")[0] == 0
        assert queue_files(tmp_path / "other") == before

    def test_the_default_is_said(self, run, tagged):
        """Where no queue is left."""
        shutil.rmtree(tagged / "consumequeue")
        shutil.rmtree(tagged / "batchconsumequeue")
        code, out, _ = run("rebuild-queues", tagged)
        assert code == 0
        assert "a broker with other settings needs --file-size or --batch-file-size" in out

    def test_several_sizes_are_refused(self, run, tagged):
        """The error names the option that chooses."""
        path = next((tagged / "consumequeue" / "Orders" / "0").iterdir())
        path.write_bytes(path.read_bytes()[:1000])
        code, _, err = run("rebuild-queues", tagged, "--replace")
        assert code == 2
        assert err.endswith("choose the broker's with --file-size BYTES\n")

    def test_a_queue_whose_messages_have_all_expired_keeps_its_next_offset(self, run, tagged):
        """Else the broker would count from 0 again, before what consumers have read."""
        files = sorted((tagged / "commitlog").iterdir())
        assert len(files) == 2
        files[0].unlink()
        before = queue_files(tagged)
        code, out, _ = run("rebuild-queues", tagged, "--replace")
        assert code == 0
        after = queue_files(tagged)
        assert {path.rsplit("/", 1)[0] for path in after} >= {
            path.rsplit("/", 1)[0] for path in before
        }
        assert "kept, since all messages have expired" in out
        orders = "consumequeue/Orders/0/" + "0" * 20
        assert after[orders] == before[orders]

    def test_queues_that_are_there_name_the_flag(self, run, tagged):
        """Nothing is replaced unasked."""
        code, _, err = run("rebuild-queues", tagged)
        assert code == 2
        assert err.endswith("move them, or give --replace\n")


def test_python_says_what_was_taken(tmp_path):
    """The result has it, and errors name arguments."""
    store = copied(tmp_path)
    shutil.rmtree(store / "index")
    done = rebuild_index(store, store / "index", Layout(97, 200))
    assert (done.layout_basis, done.tags.basis, done.tags.start) == ("argument", "default", None)
    assert done.index_msg_timestamp == 1795246306181
    with pytest.raises(Exception, match="resume=True continues behind their last entry"):
        rebuild_index(store, store / "index")


class TestALookupOnAnIncompleteIndex:
    """What it may lack is said on standard error, with the command that finds out."""

    @pytest.mark.parametrize("option", [(), ("--json",), ("--csv",), ("--broker",)])
    def test_it_names_both_ends_and_the_command(self, tagged, run, option):
        """Whatever the answer's form, and once, however many keys are asked for."""
        first, second, *_ = sorted((tagged / "index").iterdir())
        first.unlink()
        code, out, err = run("lookup", tagged, "Orders", "TagA", "none", "--tag", *option)
        assert (code, err.count("the oldest IndexFile begins at offset")) == (0, 1)
        assert f"rmqindex: {second}: the oldest IndexFile begins at offset" in err
        assert "the CommitLog at 0, and no lookup finds the messages between" in err
        assert f"`rmqindex verify {tagged}`" in err
        if option == ("--json",):
            for answer in json.loads(out)["answers"]:
                (part,) = answer["uncovered"]
                assert (part["part"], part["start"], part["store_timestamp"]) == ("start", 0, None)

    def test_its_command_makes_the_answer_whole(self, tagged, run):
        """Then nothing is lacking, and nothing is said."""
        _, whole, _ = run("lookup", tagged, "Orders", "TagA", "--tag", "--csv")
        min((tagged / "index").iterdir()).unlink()
        _, part, err = run("lookup", tagged, "Orders", "TagA", "--tag", "--csv")
        assert len(part.splitlines()) < len(whole.splitlines())
        command = re.search("`rmqindex (.*?)`", err)[1].split()
        code, out, _ = run(*command)
        assert (code, command[0]) == (1, "verify")
        rebuild = re.search("`rmqindex (rebuild .*?)`", " ".join(out.split()))[1].split()
        assert run(*rebuild)[0] == 0
        _, again, err = run("lookup", tagged, "Orders", "TagA", "--tag", "--csv")
        assert (len(again.splitlines()), err) == (len(whole.splitlines()), "")


@pytest.mark.parametrize(
    "command",
    [("messages",), ("usage",), ("rebuild", "--replace"), ("rebuild-queues", "--replace")],
    ids=lambda command: command[0],
)
def test_a_log_that_lacks_a_file_in_the_middle_is_named(run, tmp_path, command):
    """What was read is not the whole log."""
    store = shutil.copytree(MESSAGE_KINDS / "store", tmp_path / "store")
    _, lost, following, *_ = sorted((store / "commitlog").iterdir())
    lost.unlink()
    _, _, err = run(command[0], store, *command[1:])
    offsets = f"from {int(lost.name)} to before {int(following.name)}"
    assert f"{store / 'commitlog'}: no file has the offsets {offsets}" in err
