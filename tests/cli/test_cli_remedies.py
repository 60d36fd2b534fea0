"""What to do about a finding can be typed as it stands, wherever index and CommitLog lie."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

import rmqindex
from command_line import advised
from commitlog_encoder import Log, Message, properties_text
from kinds import sampled
from recorded import STORE_KINDS
from trees import queue_files

SAMPLE = rmqindex.sample_store()


class Layout(NamedTuple):
    """Where a copy of a store has its index and its log, and how ``verify`` is called for it."""

    index: str
    log: str
    arguments: tuple[str, ...]
    folder: str = "."


LAYOUTS = {
    "store": Layout("store/index", "store/commitlog", ("store",)),
    "index": Layout("store/index", "store/commitlog", (".",), "store/index"),
    "apart": Layout("my index", "logs", ("my index", "--commit-log", "logs")),
    "named index": Layout("a/index", "b/commitlog", ("a/index", "--commit-log", "b/commitlog")),
    "old index": Layout(
        "store/old", "store/commitlog", ("store/old", "--commit-log", "store/commitlog")
    ),
    "without a log": Layout("store/index", "store/commitlog", ("store", "--commit-log", "none")),
}


def remove(*places):
    """Return what removes some IndexFiles."""

    def damage(index, _log):
        files = sorted(index.iterdir())
        for place in places:
            files[place].unlink()

    return damage


def overwrite(offset, data, place=1):
    """Return what overwrites bytes of an IndexFile."""

    def damage(index, _log):
        with sorted(index.iterdir())[place].open("r+b") as file:
            file.seek(offset)
            file.write(data)

    return damage


def cut(size, place=1):
    """Return what cuts an IndexFile."""
    return lambda index, _log: os.truncate(sorted(index.iterdir())[place], size)


def lose_log(place):
    """Return what removes a file of the log."""
    return lambda _index, log: sorted(log.iterdir())[place].unlink()


def add_directory(index, _log):
    """Make a directory with the name of an IndexFile."""
    (index / "20991231000000000").mkdir()


def write_beside(name, data):
    """Return what writes a file beside the index."""
    return lambda index, _log: (index.parent / name).write_bytes(data)


DAMAGES = {
    "oldest lost": remove(0),
    "middle lost": remove(2),
    "newest lost": remove(-1),
    "all lost": remove(0, 1, 2, 3, 4),
    "a slot": overwrite(40 + 4 * 85, bytes(4), 0),
    "a header": overwrite(0, b"\x7f" * 40),
    "zeros": overwrite(0, bytes(4000)),
    "cut": cut(2000),
    "cut header": cut(9),
    "another geometry": lambda index, _: shutil.copyfile(
        min((STORE_KINDS / "plain/store/index").iterdir()),
        index / "20261120182606804",
    ),
    "a directory": add_directory,
    "another file": write_beside("index/readme", b"x"),
    "checkpoint lost": lambda index, _: (index.parent / "checkpoint").unlink(missing_ok=True),
    "checkpoint cut": write_beside("checkpoint", bytes(8)),
    "checkpoint behind": write_beside("checkpoint", bytes(4096)),
    "checkpoint ahead": write_beside("checkpoint", b"\x01" * 4096),
    "abort": write_beside("abort", b"1"),
    "queues lost": lambda index, _: (index.parent / "consumequeue").mkdir(),
    "log begins late": lose_log(0),
    "log ends early": lose_log(-1),
}


@pytest.fixture
def placed(tmp_path, monkeypatch):
    """Return what makes a damaged copy of the sample, and goes where a user would type."""
    count = 0

    def place(layout, damage):
        nonlocal count
        count += 1
        base = tmp_path / str(count)
        index, log = base / layout.index, base / layout.log
        shutil.copytree(SAMPLE / "index", index)
        shutil.copytree(SAMPLE / "commitlog", log)
        if layout.index == "store/index":
            shutil.copyfile(SAMPLE / "checkpoint", index.parent / "checkpoint")
        if damage == "another file":
            (index / "readme").write_text("x")
        elif damage is not None:
            DAMAGES[damage](index, log)
        monkeypatch.chdir(base / layout.folder)
        return base

    return place


def typed(remedy):
    """Return the commands of a remedy as a shell splits them."""
    for text in re.findall(r"`rmqindex ([^`]*)`", remedy):
        arguments = shlex.split(text)
        if len(arguments) < 2:  # the name of a command, not a line to type
            continue
        if arguments[0] == "relayout":  # only the user knows the broker's numbers
            arguments += ["--slots", "97", "--entries", "200"]
        yield arguments


@pytest.mark.parametrize("layout", sampled(LAYOUTS, "store"))
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_command_of_a_remedy_runs(run, placed, damage, layout):
    """Each on a copy of its own; it is refused nowhere, and a rebuild leaves a sound index."""
    layout = LAYOUTS[layout]
    placed(layout, damage)
    code, out, err = run("verify", *layout.arguments, "--json")
    if damage == "all lost" and layout.index != "store/index":
        assert "is the disk mounted?" in err
        return
    assert code < 2, err
    remedies = {finding["remedy"] for finding in json.loads(out)["findings"]}
    commands = {tuple(arguments) for remedy in remedies for arguments in typed(remedy)}
    for command in sorted(commands):
        placed(layout, damage)
        code, _, err = run(*command)
        if damage == "log ends early" and command[0].startswith(
            "rebuild"
        ):  # it is to be restored first
            assert "leads to a message at offset 122928" in err or code < 2
            continue
        assert code < 2, (command, err)
        if command[0] == "rebuild" and "--replace" in command and "log" not in damage:
            _, out, _ = run("verify", *layout.arguments, "--json")
            assert json.loads(out)["counts"]["error"] == 0 or damage == "a directory"


def hole(store):
    """Write zeros over a unit."""
    with (store / "consumequeue" / "TopicTest" / "0" / ("0" * 20)).open("r+b") as file:
        file.seek(60)
        file.write(bytes(20))


def stray(store):
    """Append a unit that leads to no message."""
    path = store / "consumequeue" / "TopicTest" / "0" / ("0" * 20)
    data = path.read_bytes()
    end = next(at for at in range(0, len(data), 20) if not any(data[at + 8 : at + 12]))
    unit = (int.from_bytes(data[:8]) + 7).to_bytes(8) + data[8:20]
    path.write_bytes(data[:end] + unit + data[end + 20 :])


QUEUE_DAMAGES = {
    "a queue": lambda store: shutil.rmtree(store / "consumequeue" / "TopicTest" / "2"),
    "a topic": lambda store: shutil.rmtree(store / "consumequeue" / "TopicTest"),
    "a hole": hole,
    "a stray unit": stray,
}


@pytest.mark.parametrize("damage", QUEUE_DAMAGES)
def test_the_command_of_damaged_queues_makes_them_sound(run, store, monkeypatch, damage):
    """As it is printed, from the error to queues as the broker wrote them."""
    monkeypatch.chdir(store.parent)
    (store / "config").mkdir()
    topics = {path.name: {} for path in (store / "consumequeue").iterdir()}
    (store / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": topics}))
    before = queue_files(store)
    QUEUE_DAMAGES[damage](store)
    code, out, _ = run("verify", store.name, "--json")
    assert code == 1
    remedies = {each["remedy"] for each in json.loads(out)["findings"] if each["rule"][0] == "q"}
    commands = {tuple(each) for remedy in remedies for each in typed(remedy)}
    assert commands == {("rebuild-queues", store.name, "--replace")}
    assert run(*commands.pop())[0] == 0
    assert run("verify", store.name)[0] == 0
    assert queue_files(store) == before


def kill(base, damage=None):
    """Make a store that of a killed broker whose checkpoint covers no IndexFile."""
    store = base / "store"
    times = {"physic_msg_timestamp": 2**60, "logics_msg_timestamp": 2**60}
    rmqindex.StoreCheckpoint(**times).save(store / "checkpoint")
    (store / "abort").touch()
    if damage is not None:
        DAMAGES[damage](store / "index", store / "commitlog")
    return store


def told(run, store):
    """Return the exit code of ``verify``, and the commands that it prints, the first one first."""
    code, out, _ = run("verify", store.name)
    advice = " ".join(out[out.index("To do:") :].split())
    return code, [shlex.join(arguments) for arguments in typed(advice)]


@pytest.mark.parametrize(
    "damage", [None, "oldest lost", "middle lost", "newest lost", "a slot", "a header", "zeros"]
)
def test_the_first_command_after_a_kill_saves_the_index(run, placed, damage):
    """It is one, nothing says to start the broker, and then nothing is lost by its start (F0).

    The store has no queues, which are another matter.
    """
    store = kill(placed(LAYOUTS["store"], None), damage)
    code, commands = told(run, store)
    assert code == 1
    others = {f"verify {store.name}", f"rebuild-queues {store.name}"}
    assert set(commands[1:]) - {commands[0]} <= others
    assert run(*shlex.split(commands[0]))[0] == 0
    _, out, _ = run("verify", store.name, "--json")
    found = json.loads(out)
    assert found["counts"]["error"] == found["counts"]["warning"] == 0
    rules = {finding["rule"] for finding in found["findings"]}
    assert "abort_present" in rules
    assert not rules & {"restart_loses", "restart_rebuilds"}


def lose_newest_of_log(base):
    """Make a store that of a killed broker, and take the newest file of its log away."""
    store = kill(base)
    queues = base / "store" / "consumequeue"
    shutil.copytree(SAMPLE / "consumequeue", queues)
    newest = max((store / "commitlog").iterdir())
    return store, newest.rename(base / newest.name)


def of_rule(run, rule):
    """Return the commands that ``verify`` prints for the findings of a rule."""
    _, out, _ = run("verify", "store", "--json")
    found = [each for each in json.loads(out)["findings"] if each["rule"] == rule]
    assert found
    return [shlex.join(each) for each in typed(found[0]["remedy"])]


def sound(run):
    """Return whether ``verify`` finds nothing that is wrong, nor anything that a start loses."""
    _, out, _ = run("verify", "store", "--json")
    found = json.loads(out)
    rules = {each["rule"] for each in found["findings"]}
    return not found["counts"]["error"] and not rules & {"restart_loses", "restart_rebuilds"}


def test_a_log_that_lost_its_newest_file_in_a_crash_is_restored_first(run, placed):
    """Then the command that is printed keeps every entry."""
    store, kept = lose_newest_of_log(placed(LAYOUTS["store"], None))
    (command,) = of_rule(run, "restart_loses")
    kept.rename(store / "commitlog" / kept.name)
    before = {path.name: path.read_bytes() for path in (store / "index").iterdir()}
    assert run(*shlex.split(command))[0] == 0
    assert {path.name: path.read_bytes() for path in (store / "index").iterdir()} == before
    assert sound(run)


def test_a_refused_resume_behind_the_log_says_what_is_not_refused(run, placed):
    """The log comes first; where it is lost, what it says is typed."""
    lose_newest_of_log(placed(LAYOUTS["store"], None))
    code, _, err = run("rebuild", "store", "--resume")
    assert code == 2
    assert "restore the newest files of the CommitLog; if they are lost, --replace with" in err
    assert (
        run("rebuild", "store", *re.findall(r"--\w[\w-]*", err.partition("if they are")[2]))[0] == 0
    )


def test_a_log_whose_newest_file_is_lost_for_good_has_a_way_out(run, placed):
    """Its commands drop what leads behind its end, and the rest is sound then."""
    lose_newest_of_log(placed(LAYOUTS["store"], None))
    for rule in ("stop_barrier", "queue_beyond_log"):
        (command,) = of_rule(run, rule)
        code, _, err = run(*shlex.split(command))
        assert code == 0, err
    assert sound(run)


def noise(seed, offset, size, place=1):
    """Return what writes random bytes over a part of an IndexFile, as a bad disk does."""
    return lambda store: overwrite(offset, random.Random(seed).randbytes(size), place)(
        store / "index", store / "commitlog"
    )


ENDLESS = {
    **{f"noise {seed}": noise(seed, 440 + 20 * 30 * seed, 64) for seed in range(4)},
    "a page of the newest file": noise(9, 1000, 2000, -1),
    "a page of an unknown geometry": noise(7, 40, 3000),
    "newest of the log": lambda store: max((store / "commitlog").iterdir()).unlink(),
    "newest of the log, and noise": lambda store: (
        ENDLESS["newest of the log"](store), ENDLESS["noise 1"](store)
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", ENDLESS)
def test_who_types_what_the_last_line_says_comes_to_an_end(run, store, monkeypatch, damage):
    """Each command once, and then ``verify`` finds nothing that is wrong."""
    monkeypatch.chdir(store.parent)
    ENDLESS[damage](store)
    done = []
    while (to_do := json.loads(run("verify", "store", "--json")[1])["to_do"]) is not None:
        command = next(iter(typed(to_do)))
        assert command not in done, to_do
        code, _, err = run(*command)
        assert code == 0, err
        done.append(command)
    assert done
    assert sound(run)


def test_no_index_is_replaced_by_a_damaged_log(run, placed):
    """What the log has lost would be lost from the index, too."""
    base = placed(LAYOUTS["store"], "a slot")
    with (base / "store" / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(12_000)
        file.write(b"\xff" * 4000)
    _, out, _ = run("verify", "store", "--json")
    findings = json.loads(out)["findings"]
    assert "log_damaged" in {finding["rule"] for finding in findings}
    remedies = [finding["remedy"] for finding in findings if "--replace" in finding["remedy"]]
    assert remedies
    for remedy in remedies:
        assert remedy.startswith("Restore the CommitLog first; then run")


def test_a_log_that_was_not_compared_is_a_condition(run, placed):
    """Whether it is whole is not known."""
    placed(LAYOUTS["without a log"], "a slot")
    _, out, _ = run("verify", "store", "--commit-log", "none", "--json")
    remedies = {finding["remedy"] for finding in json.loads(out)["findings"]}
    assert any(
        remedy.startswith("If the CommitLog is whole, run `rmqindex rebuild") for remedy in remedies
    )


class Asked(NamedTuple):
    """A question to ``explain`` whose answer has a command, and the damage of the store."""

    damage: str | None
    topic: str
    key: str
    options: tuple[str, ...] = ()


# By the function that writes the command, and the command that it writes.
EXPLAINED = {
    ("rebuild", "rebuild"): Asked("all lost", "TopicTest", "order-49"),
    ("rebuild", "rebuild --resume"): Asked("newest lost", "TopicTest", "order-49"),
    ("rebuild", "rebuild --replace"): Asked("oldest lost", "TopicTest", "order-49"),
    ("verify", "verify"): Asked("cut", "TopicTest", "order-49"),
    ("search_all", "explain --search-log all"): Asked(None, "TopicTest", "nobody"),
    ("explain", "explain"): Asked(None, "TopicTes", "nobody"),
    ("lookup", "lookup"): Asked(None, "TopicTest", "uniq_key"),
    ("cat", "cat"): Asked(None, "TopicTest", "msg_id"),
    ("of_store", "rebuild-queues --replace"): Asked("queues lost", "TopicTest", "order-49"),
}


def test_each_function_that_writes_a_command_is_asked():
    """One that is new needs a question."""
    assert {name for name, _ in EXPLAINED} == advised()


@pytest.mark.parametrize(
    ("line", "layout"),
    [
        (line, layout)
        for line, asked in EXPLAINED.items()
        for layout in ("store", "named index")
        # An empty folder that no store is around is refused, and queues are those of a store.
        if asked.damage not in ("all lost", "queues lost") or layout == "store"
    ],
    ids=lambda each: each if isinstance(each, str) else each[1],
)
def test_a_command_of_an_explanation_runs(run, placed, tmp_path, line, layout):
    """As it is printed, and it leaves nothing to explain that it was printed for."""
    where, asked = LAYOUTS[layout], EXPLAINED[line]
    placed(where, asked.damage)
    key = asked.key
    if key in ("uniq_key", "msg_id"):
        with rmqindex.CommitLog(tmp_path / "1" / where.log) as log:
            rows = next(log.scan(columns=["topic", key])).to_pylist()
        key = next(row[key] for row in rows if row["topic"] == asked.topic)
    question = [
        "explain", where.arguments[0], asked.topic, key, *asked.options, *where.arguments[1:],
    ]  # fmt: skip
    _, out, _ = run(*question, "--json")
    reasons = json.loads(out)["reasons"]
    commands = {each["remedy"]: each["code"] for each in reasons if each["remedy"]}
    name, *options = line[1].split()
    lines = [
        each for each in commands
        if shlex.split(each)[1] == name and set(options) <= set(shlex.split(each))
    ]  # fmt: skip
    assert lines, commands
    code, out, err = run(*shlex.split(lines[0])[1:])
    assert code == (1 if name in ("explain", "verify") else 0), err
    assert out
    if name.startswith("rebuild"):
        _, out, _ = run(*question, "--json")
        assert commands[lines[0]] not in {each["code"] for each in json.loads(out)["reasons"]}


@pytest.mark.parametrize("layout", ["apart", "named index", "old index"])
def test_a_lookup_advises_what_mends_it(run, placed, layout):
    """By way of verify, of the index that was asked and the log that was named."""
    where = LAYOUTS[layout]
    placed(where, "oldest lost")
    question = ["lookup", where.arguments[0], "TopicTest", "order-49", *where.arguments[1:]]
    _, _, err = run(*question)
    (command,) = typed(err)
    code, out, _ = run(*command, "--json")
    assert (code, command[0]) == (1, "verify")
    remedies = [finding["remedy"] for finding in json.loads(out)["findings"]]
    rebuild = next(line for text in remedies for line in typed(text) if line[0] == "rebuild")
    assert run(*rebuild)[0] == 0
    code, _, err = run(*question)
    assert (code, err) == (0, "")


@pytest.mark.parametrize("layout", ["apart", "named index", "old index"])
def test_verify_knows_the_end_of_a_log_without_a_checkpoint(run, placed, layout):
    """A lookup does not: the log's last file may have zeros behind the index's last message."""
    where = LAYOUTS[layout]
    placed(where, "newest lost")
    question = ["lookup", where.arguments[0], "TopicTest", "order-49", *where.arguments[1:]]
    code, _, err = run(*question)
    assert (code, err) == (0, "")
    found = json.loads(run("verify", *where.arguments, "--json")[1])["findings"]
    (remedy,) = (each["remedy"] for each in found if each["rule"] == "index_behind")
    rebuild = next(line for line in typed(remedy) if line[0] == "rebuild")
    assert run(*rebuild)[0] == 0
    found = json.loads(run("verify", *where.arguments, "--json")[1])["findings"]
    assert "index_behind" not in {each["rule"] for each in found}


def test_an_index_without_a_log_names_what_is_to_be_given(run, placed):
    """Nobody else knows where it is."""
    placed(LAYOUTS["apart"], "oldest lost")
    os.truncate(min(Path("my index").iterdir()), 2000)
    _, out, _ = run("verify", "my index", "--json")
    remedies = " ".join(finding["remedy"] for finding in json.loads(out)["findings"])
    assert "`rmqindex rebuild COMMITLOG --out 'my index' --replace`" in remedies


def test_a_name_in_capitals_stays(run, placed):
    """STORE and FILE are replaced where they stand for something, not in a path."""
    base = placed(LAYOUTS["store"], "oldest lost")
    (base / "store").rename(base / "STORE FILE")
    _, out, _ = run("verify", "STORE FILE", "--json")
    remedies = " ".join(finding["remedy"] for finding in json.loads(out)["findings"])
    assert "`rmqindex rebuild 'STORE FILE' --replace`" in remedies


def test_a_rebuild_refused_for_a_light_queue_that_no_broker_has_says_how_to_leave_it_out(
    run, tmp_path
):
    """By default a broker reads nothing of these properties, and ``verify`` finds nothing."""
    pairs = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "--1"}
    message = Message(properties=properties_text(pairs.items()))
    log = Log(1 << 16)
    log.append(message)
    log.write_to(tmp_path / "commitlog")
    code, _, err = run("rebuild-queues", str(tmp_path))
    assert (code, "INNER_MULTI_QUEUE_OFFSET" in err) == (2, True)
    (command,) = typed(err)
    assert run(*command)[0] == 0
    assert [queue.topic for queue in rmqindex.ConsumeQueue.find(tmp_path)] == [message.topic]


def one_file(tmp_path, layout, keys):
    """Return a store of one IndexFile, and that file."""
    log = Log(1 << 16)
    for key in keys:
        log.append(Message(properties=properties_text([("UNIQ_KEY", key)])))
    log.write_to(tmp_path / "store" / "commitlog")
    rmqindex.rebuild_index(tmp_path / "store", tmp_path / "store/index", rmqindex.Layout(*layout))
    (path,) = (tmp_path / "store" / "index").iterdir()
    return tmp_path / "store", path


def test_where_no_file_shows_the_geometry_its_numbers_are_in_the_command(run, tmp_path):
    """Those of the default, to be replaced by those of broker.conf; without, it is refused."""
    store, path = one_file(tmp_path, (17, 100), [f"k{number}" for number in range(30)])
    path.write_bytes(bytes(40) + path.read_bytes()[40:])
    code, out, _ = run("verify", store)
    assert (code, "with the numbers of broker.conf if it has others" in out) == (1, True)
    (command,) = {tuple(each) for each in typed(out) if each[0] == "rebuild"}
    numbers = dict(zip(command[3::2], command[4::2], strict=True))
    assert numbers == {"--max-hash-slot-num": "5000000", "--max-index-num": "20000000"}
    own = [{"5000000": "17", "20000000": "100"}.get(word, word) for word in command]
    assert run(*own)[0] == 0
    assert run("verify", store)[0] == 0


def test_a_file_that_several_geometries_fit_is_not_an_index_without_entries(run, tmp_path):
    """Only the broker's numbers are missing."""
    store, _ = one_file(tmp_path, (5, 30), ["U4"])
    _, out, _ = run("verify", store, "--json")
    errors = [each["rule"] for each in json.loads(out)["findings"] if each["severity"] == "error"]
    assert errors == ["geometry"]
    code, _, _ = run("verify", store, "--max-hash-slot-num", 5, "--max-index-num", 30)
    assert code == 0


@pytest.mark.parametrize(("starts", "count"), [(False, 2), (True, 2), (True, 3)])
def test_a_lookup_of_a_tag_says_where_older_brokers_indexed_none(run, tmp_path, starts, count):
    """And what is typed then finds the others in the CommitLog."""
    log = Log(1 << 16)
    for number in range(40):
        pairs = [("UNIQ_KEY", f"k{number}"), ("TAGS", "TagA")]
        log.append(Message(properties=properties_text(pairs)))
    log.write_to(tmp_path / "commitlog")
    geometry = ("--max-hash-slot-num", 17, "--max-index-num", 100)
    stop = log.offsets[15]
    turns = (("--index-tags", "--no-index-tags") * 2)[not starts :][:count]
    assert run("rebuild", tmp_path, "--to", stop, turns[0], *geometry)[0] == 0
    for turn, end in zip(turns[1:], [log.offsets[25], log.end][-len(turns[1:]) :], strict=True):
        assert run("rebuild", tmp_path, "--resume", "--to", end, turn, *geometry)[0] == 0
    code, out, err = run("lookup", tmp_path, "TopicTest", "TagA", "--tag", "--json")
    document = json.loads(out)
    assert code == 0
    assert 0 < len(document["hits"]) < 40
    assert document["lacking"][0] in err
    (command,) = typed(err)
    assert len(run(*command, "--csv")[1].splitlines()) == 1 + 40


@pytest.mark.parametrize("more", [-700, 1, 8192])
@pytest.mark.parametrize("name", ["store", "my store", "-s"])
def test_the_newest_file_of_a_log_gets_the_size_of_the_others(
    run, tmp_path, monkeypatch, name, more
):
    """With a command of the system, whose size and file are in it."""
    monkeypatch.chdir(tmp_path)
    store = shutil.copytree(SAMPLE, tmp_path / name)
    last = max((store / "commitlog").iterdir())
    with last.open("r+b") as file:
        file.truncate(65_536 + more)
        if more > 1:
            file.seek(70_000)
            file.write(b"no part of the log")
    code, out, _ = run("verify", "--json", "--", name)
    assert code == 1
    (remedy,) = {
        row["remedy"] for row in json.loads(out)["findings"] if row["rule"] == "log_file_size"
    }
    (line,) = re.findall("`(truncate [^`]*)`", remedy)
    subprocess.run(shlex.split(line), check=True)
    assert last.stat().st_size == 65_536
    assert run("verify", "--", name)[0] == 0


@pytest.mark.parametrize("to", [65_537, 131_072, 200_000])
@pytest.mark.parametrize("name", ["store", "my store", "-s"])
def test_a_renamed_file_of_a_log_gets_its_name_back_first(run, tmp_path, monkeypatch, name, to):
    """Until then nothing is advised that would drop what leads to its messages."""
    monkeypatch.chdir(tmp_path)
    store = shutil.copytree(SAMPLE, tmp_path / name)
    queues = queue_files(store)
    file = max((store / "commitlog").iterdir())
    file.rename(store / "commitlog" / f"{to:020d}")
    code, out, _ = run("verify", "--json", "--", name)
    assert code == 1
    document = json.loads(out)
    others = {
        row["remedy"] for row in document["findings"] if row["rule"].startswith(("queue_", "log_d"))
    }
    assert len(others) == 1
    assert "Mend the names of the CommitLog's files first; then run" in min(others)
    assert run(*next(typed(min(others))))[0] == 1
    assert not any("--allow-loss" in row["remedy"] for row in document["findings"])
    (line,) = re.findall("`(mv [^`]*)`", document["to_do"])
    subprocess.run(shlex.split(line), check=True)
    assert file.exists()
    assert run("verify", "--", name)[0] == 0
    assert queue_files(store) == queues


def test_a_copy_of_a_file_of_a_log_is_moved_out_first(run, placed):
    """The file of its messages' offset is there, and keeps its name."""
    log = placed(LAYOUTS["store"], None) / "store" / "commitlog"
    copy = log / f"{300_000:020d}"
    first = min(log.iterdir())
    shutil.copyfile(first, copy)
    to_do = json.loads(run("verify", "store", "--json")[1])["to_do"]
    copied = f"store/commitlog/{copy.name}"
    assert f"To do: While no broker runs, move {copied} out of the folder, since {first}" in to_do
    copy.unlink()
    assert sound(run)


def test_a_file_that_is_none_of_the_log_keeps_no_remedy_waiting(run, store, monkeypatch):
    """The log is whole with it."""
    monkeypatch.chdir(store.parent)
    (store / "commitlog" / ".DS_Store").write_bytes(b"any")
    shutil.rmtree(store / "consumequeue/TopicTest/2")
    assert of_rule(run, "queue_missing") == ["rebuild-queues store --replace"]


@pytest.mark.parametrize(
    ("name", "put"),
    [
        *(
            (name, put)
            for name in ("", "TopicTest", "TopicTest/0")
            for put in (os.mkfifo, Path.touch)
        ),
        (f"TopicTest/0/{0:020d}", Path.mkdir),
    ],
)
def test_what_is_no_folder_in_the_place_of_one_is_moved_out_first(
    run, store, monkeypatch, name, put
):
    """New queues need its place, and it may be somebody's."""
    monkeypatch.chdir(store.parent)
    (store / "config").mkdir()
    (store / "config" / "topics.json").write_text('{"topicConfigTable": {"TopicTest": {}}}')
    units = units_of(store)
    place = Path("store/consumequeue") / name
    place.rename("old")
    put(place)
    assert run("rebuild-queues", "store", "--replace")[0] == 2
    to_do = json.loads(run("verify", "store", "--json")[1])["to_do"]
    assert f"While no broker runs, move {place} out of the folder" in to_do
    place.rename("moved")
    to_do = json.loads(run("verify", "store", "--json")[1])["to_do"]
    command = "rebuild-queues store --replace"
    assert to_do is None if not name else command in to_do
    assert run(*shlex.split(command))[0] == 0
    assert sound(run)
    assert units_of(store) == units


def test_of_several_faults_of_queues_what_is_in_the_way_has_its_turn_first(run, store, monkeypatch):
    """Until it is moved out, the queues that are lost are not made."""
    monkeypatch.chdir(store.parent)
    shutil.rmtree("store/consumequeue/TopicTest/1")
    place = Path("store/consumequeue/TopicTest/2")
    shutil.rmtree(place)
    os.mkfifo(place)
    to_do = json.loads(run("verify", "store", "--json")[1])["to_do"]
    assert f"To do: While no broker runs, move {place} out of the folder." in to_do
    place.rename("moved")
    assert of_rule(run, "queue_missing") == ["rebuild-queues store --replace"]
    assert run("rebuild-queues", "store", "--replace")[0] == 0
    assert sound(run)


@pytest.mark.parametrize("put", [os.mkfifo, lambda place: place.symlink_to("away")])
def test_what_is_no_file_in_the_place_of_a_queues_file_is_moved_out(run, store, monkeypatch, put):
    """It may be a file that is away, so that nothing is made in its place before."""
    monkeypatch.chdir(store.parent)
    units = units_of(store)
    place = Path("store/consumequeue/TopicTest/0") / f"{0:020d}"
    place.rename("old")
    put(place)
    to_do = json.loads(run("verify", "store", "--json")[1])["to_do"]
    assert "restore it, or move what is none out of the folder; then run" in to_do
    assert run("rebuild-queues", "store", "--replace")[0] == 2
    place.rename("moved")
    to_do = json.loads(run("verify", "store", "--json")[1])["to_do"]
    assert "rebuild-queues store --replace" in to_do
    assert run("rebuild-queues", "store", "--replace")[0] == 0
    assert sound(run)
    assert units_of(store) == units


def units_of(store):
    """Return what the files of queues hold, of whatever sizes they are."""
    return {path: data.rstrip(b"\0") for path, data in queue_files(store).items()}
