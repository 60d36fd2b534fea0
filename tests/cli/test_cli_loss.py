"""No command leaves out or throws away entries without saying so."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import struct

import pytest

from commitlog_encoder import Log, Message, properties_text
from rmqindex import IndexFileWriter, Layout, StoreCheckpoint
from trees import files_of

# Of the sample store, where a header is not to tell.
GEOMETRY = ("--max-hash-slot-num", 97, "--max-index-num", 200)
COUNTS = [-1, 0, 1, 50, 176, 2**31 - 1]


@pytest.fixture
def files(store):
    """The five IndexFiles of the sample store, oldest first."""
    return sorted((store / "index").iterdir())


def set_count(path, count):
    """Damage the ``index_count`` of a file."""
    with path.open("r+b") as file:
        file.seek(36)
        file.write(struct.pack(">i", count))


def salvaged(run, path):
    """Return how many entries can be salvaged."""
    code, out, err = run("scan", path, "--salvage", "--json")
    assert (code, err) == (0, "")
    return len(out.splitlines())


@pytest.mark.parametrize("count", COUNTS)
def test_a_damaged_count_stops_scan_info_and_export(run, store, files, tmp_path, count):
    """They would leave out the entries of the file; all of them are salvaged."""
    set_count(files[2], count)
    for command in (
        ["scan", store],
        ["info", store],
        ["export", store, tmp_path / "out", "--entries"],
    ):
        code, _, err = run(*command)
        assert code == 2
        assert files[2].name in err
    assert salvaged(run, store) == 959


@pytest.mark.parametrize("count", [-(1 << 31) + 4, 0, 1])
def test_salvaging_a_lone_file_whose_count_is_damaged_asks_for_its_geometry(
    run, store, files, count
):
    """Nothing else tells it, and no entries without a word would hide all of them."""
    for file in files[1:]:
        file.unlink()
    set_count(files[0], count)
    code, _, err = run("scan", store)
    assert code == 2
    assert "--salvage" in err
    code, out, err = run("scan", files[0], "--salvage", "--json")
    assert (code, out) == (2, "")
    assert "the header counts no entries" in err
    assert "--max-hash-slot-num and --max-index-num" in err
    code, out, _ = run("scan", files[0], "--salvage", "--json", *GEOMETRY)
    assert (code, len(out.splitlines())) == (0, 199)


def test_entries_behind_a_page_of_zeros_are_salvaged(run, store, files):
    """Where the count is damaged, too, an empty place does not end them."""
    set_count(files[2], 0)
    with files[2].open("r+b") as file:
        file.seek(40 + 97 * 4 + 20)
        file.write(bytes(20 * 100))
    assert salvaged(run, store) == 859


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("cut", range(0, 20, 4))
def test_the_remedy_of_zeros_that_begin_or_end_within_an_entry_is_accepted(
    run, store, files, number, cut
):
    """What is left of the two entries leads to a message whose key it does not have."""
    whole = files_of(store / "index")
    with files[number].open("r+b") as file:
        file.seek(40 + 97 * 4 + 60 * 20 + cut)
        file.write(bytes(40 * 20))
    code, out, _ = run("verify", store)
    (line,) = set(re.findall(r"^.*To do: Run `rmqindex ([^`]*)`", out, re.MULTILINE))
    assert (code, run(*shlex.split(line))[0]) == (1, 0)
    assert run("verify", store)[0] == 0
    assert sum(len(data) for data in files_of(store / "index").values()) == sum(
        len(data) for data in whole.values()
    )
    assert salvaged(run, store) == 959


def test_a_damaged_count_is_named_where_it_is_passed_over(run, store, files):
    """The rest is read, with a line of what is missing."""
    set_count(files[2], 0)
    code, out, err = run("scan", store, "--mode", "DROPMALFORMED", "--json")
    assert code == 0
    assert len(out.splitlines()) == 760
    assert f"{files[2].name}: the answer lacks the entries behind position 0" in err


def test_the_remedy_of_a_damaged_count_works_as_it_is_printed(run, store, files):
    """From the error to verify, and from there to an index that is whole again."""
    set_count(files[2], 0)
    code, out, _ = run("verify", store, "--json")
    assert code == 1
    assert f"rmqindex rebuild {store} --replace" in out
    assert run("rebuild", store, "--replace")[0] == 0
    code, out, _ = run("info", store, "--json")
    assert code == 0
    assert sum(file["entry_count"] for file in json.loads(out)["files"]) == 959


@pytest.mark.parametrize("count", COUNTS)
def test_nothing_is_said_to_be_harmless_of_a_file_whose_count_is_damaged(run, store, files, count):
    """Entries and slots behind the count are no torn put there."""
    set_count(files[2], count)
    findings = json.loads(run("verify", store, "--json")[1])["findings"]
    of_file = {each["rule"] for each in findings if each["file"].endswith(files[2].name)}
    assert "index_count" in of_file
    assert not of_file & {"slot_uncounted", "uncounted_entries", "hash_slot_count"}


def test_the_command_that_salvages_runs_as_it_is_printed(run, store, files):
    """The refusal of a damaged count names the file, too."""
    set_count(files[2], 0)
    _, _, err = run("scan", store)
    command = shlex.split(err.split("`rmqindex scan ")[1].split("`")[0])
    code, out, err = run("scan", *command, "--json")
    assert (code, len(out.splitlines()), err) == (0, 199, "")


@pytest.mark.parametrize("end", [122_929, 123_120, 131_071, 131_072, 2**31, 2**62])
def test_a_damaged_end_of_the_newest_file_is_no_damage_of_the_log(run, store, files, end):
    """Its entries say where it ends, and a rebuild needs no further option."""
    with files[-1].open("r+b") as file:
        file.seek(24)
        file.write(struct.pack(">q", end))
    _, out, _ = run("verify", store, "--json")
    errors = [each for each in json.loads(out)["findings"] if each["severity"] == "error"]
    assert {each["rule"] for each in errors} == {"end_phy_offset"}
    assert {each["remedy"] for each in errors} == {f"Run `rmqindex rebuild {store} --replace`."}
    assert run("usage", store)[0] == 0
    assert run("rebuild", store, "--replace")[0] == 0
    assert run("verify", store)[0] == 0


def lose_log_end(store):
    """Take away the newest file of the CommitLog, as a restored older backup lacks it."""
    max((store / "commitlog").iterdir()).unlink()


def content(store):
    """Return the name and the bytes of each file of the index."""
    return {path.name: path.read_bytes() for path in (store / "index").iterdir()}


def test_a_rebuild_that_loses_entries_is_refused_with_the_numbers(run, store):
    """The log ends before the index does; nothing is changed, and nothing is left behind."""
    lose_log_end(store)
    before = content(store)
    code, _, err = run("rebuild", store, "--replace")
    assert code == 2
    assert "entries for 959" in err
    assert "of messages at offsets 65536 to 122928, would be lost" in err
    assert "--allow-loss" in err
    assert content(store) == before
    assert not [path for path in store.iterdir() if "index" in path.name and path.name != "index"]


def test_a_loss_that_is_allowed_by_name_is_written(run, store):
    """The option is the one that the refusal names."""
    lose_log_end(store)
    code, _, err = run("rebuild", store, "--replace", "--allow-loss")
    assert code == 0
    assert "leads to a message at offset 122928, got the end of the log, at offset" in err
    _, out, _ = run("verify", store, "--json")
    errors = [each for each in json.loads(out)["findings"] if each["severity"] == "error"]
    # The queues still lead to messages that the log has lost, and one thing is to be done.
    assert {error["rule"] for error in errors} == {"log_damaged", "queue_beyond_log"}
    assert len({error["remedy"] for error in errors}) == 1
    code, _, err = run("rebuild-queues", store, "--replace")
    assert code == 2
    assert "give --allow-loss" in err
    assert run("rebuild-queues", store, "--replace", "--allow-loss")[0] == 0
    code, out, _ = run("verify", store, "--json")
    assert code == 0, out


def test_the_remedy_of_a_torn_unit_is_one_that_is_not_refused(run, store):
    """Its message has no unit, and it leads behind the log's end: one rebuild does for both."""
    path = store / f"consumequeue/TopicTest/0/{0:020d}"
    data = bytearray(path.read_bytes())
    data[3 * 20 : 3 * 20 + 8] = (1 << 56).to_bytes(8, "big")
    path.write_bytes(data)
    _, out, _ = run("verify", store)
    assert "queue_unit_missing" in out
    assert f"rebuild-queues {store} --replace`" not in out
    assert f"rebuild-queues {store} --replace --allow-loss`" in " ".join(out.split())
    assert run("rebuild-queues", store, "--replace", "--allow-loss")[0] == 0
    assert run("verify", store)[0] == 0


def test_a_dry_run_of_a_rebuild_shows_files_entries_and_loss(run, store):
    """Files that go, files that come, and what is lost; nothing changes."""
    lose_log_end(store)
    before = content(store)
    code, out, err = run("rebuild", store, "--replace", "--dry-run")
    assert code == 2
    assert "Without --dry-run this is refused, unless --allow-loss is given" in out
    assert "expected new files with all entries of the old ones" in err
    assert run("rebuild", store, "--replace", "--dry-run", "--allow-loss")[0] == 0
    assert f"{min(before)} would go: 199 entries" in out
    assert "would come: 199 entries" in out
    assert "would be lost" in out
    code, out, _ = run("rebuild", store, "--replace", "--dry-run", "--json")
    replacement = json.loads(out)["replacement"]
    assert [file["name"] for file in replacement["removed"]] == sorted(before)
    assert sum(file["entry_count"] for file in replacement["removed"]) == 959
    added = sum(file["entry_count"] for file in replacement["added"])
    assert 0 < replacement["lost"]["count"] <= 959 - added
    assert content(store) == before
    code, _, err = run("rebuild", store, "--dry-run")
    assert code == 2
    assert "only with --replace" in err


def test_a_rebuild_tells_what_it_loses_as_its_dry_run_does(run, store):
    """The same numbers in the text of both; the new files alone show no more than a count."""
    lose_log_end(store)
    whole = ("rebuild", store, "--replace", "--allow-loss")
    shown, told = (run(*whole, *options)[1] for options in (("--dry-run",), ()))
    lines = [next(line for line in text.splitlines() if " lost" in line) for text in (shown, told)]
    assert lines[0].endswith("of messages at offsets 65536 to 122928, would be lost")
    assert lines[1] == lines[0].replace("would be lost", "are lost")


def test_a_rebuild_tells_which_files_it_could_not_read(run, store, files):
    """They may have had entries of messages before the log's begin."""
    min((store / "commitlog").iterdir()).unlink()
    for file in files[1:]:
        file.unlink()
    set_count(files[0], 0)
    whole = ("rebuild", store, "--replace", "--allow-loss")
    whole += ("--max-hash-slot-num", 50, "--max-index-num", 2000)
    for options, told in (
        (("--dry-run",), "cannot be read, and may have"),
        ((), "could not be read, and may have had"),
    ):
        code, out, _ = run(*whole, *options)
        assert code == 0
        assert f" {told} entries of messages that the CommitLog no longer has" in out


def keyed(key):
    """Return the properties of a message with a key."""
    return properties_text([("KEYS", key)])


@pytest.fixture
def another(tmp_path):
    """The store of another broker, whose log is longer than its first file."""
    log = Log(1 << 13)
    for place in range(60):
        log.append(Message(topic="Other", queue_offset=place, properties=keyed(f"x{place}")))
    log.write_to(tmp_path / "another/commitlog")
    (tmp_path / "another/lock").touch()  # as a broker leaves it
    return tmp_path / "another"


@pytest.mark.parametrize("has_some", [True, False])
@pytest.mark.parametrize(("command", "place"), [("rebuild", "index"), ("rebuild-queues", ".")])
def test_nothing_of_another_log_is_written(run, store, another, command, place, has_some):
    """A dry run says it, too, and what is printed is what the store needs."""
    if has_some:
        assert run("rebuild", another, *GEOMETRY)[0] == 0
        assert run("rebuild-queues", another)[0] == 0
    before = files_of(another)
    whole = (command, store, "--out", another / place, "--replace")
    for options in (("--dry-run",), ()):
        code, out, err = run(*whole, *options)
        assert (code, out) == (2, "")
        assert "--allow-loss" in err
    assert files_of(another) == before
    (line,) = re.findall("`rmqindex ([^`]*)`", err)
    assert run(*shlex.split(line))[0] == 0
    before = files_of(another)
    code, _, err = run(*whole, "--allow-loss")
    assert (code, err) == (0, "")
    after = files_of(another)
    assert after != before
    assert after.get("checkpoint") == before.get("checkpoint")


@pytest.mark.parametrize(
    ("command", "place", "options"),
    [
        ("rebuild", "index", ("--no-checkpoint", "--time-zone", "+08:00", *GEOMETRY)),
        ("rebuild", "index", ("--replace", "--from", 100, "--mode", "DROPMALFORMED", *GEOMETRY)),
        ("rebuild", "index", ("--replace", "--dry-run", *GEOMETRY, "--no-index-tags")),
        ("rebuild", "index", ("--resume", "--allow-live-store", *GEOMETRY, "--index-tags")),
        ("rebuild-queues", ".", ("--no-multi-dispatch", "--to", 9000, "--file-size", 400)),
        ("rebuild-queues", ".", ("--replace", "--leave-out", "Other", "--dry-run")),
    ],
)
def test_a_store_is_written_from_its_own_log_with_what_was_given(
    run, store, another, command, place, options
):
    """A dry run stays one, and no file is of another geometry; nothing is replaced unasked."""
    before = files_of(another)
    _, _, err = run(command, store, "--out", another / place, *options)
    (line,) = re.findall("`rmqindex ([^`]*)`", err)
    name, path, *given = shlex.split(line.replace("UTC+08:00", "+08:00"))
    assert (name, path, given) == (command, str(another), [str(each) for each in options])
    assert run(*shlex.split(line))[0] == 0
    assert (files_of(another) == before) == ("--dry-run" in options)


def test_the_log_of_a_backup_writes_the_index_of_its_store(run, store, tmp_path):
    """Whether it is older, or the store's own log is damaged or gone."""
    backup = shutil.copytree(store, tmp_path / "backup")
    zero(store, 0, 4096)
    with max((store / "commitlog").iterdir()).open("r+b") as file:
        file.seek(30_000)
        file.write(bytes(4096))
    before = content(store)
    for _ in range(2):
        code, _, err = run("rebuild", backup, "--out", store / "index", "--replace")
        assert (code, err) == (0, "")
        code, _, err = run("rebuild-queues", backup, "--out", store, "--replace")
        assert (code, err) == (0, "")
        assert sorted(content(store).values()) == sorted(before.values())
        for path in (store / "commitlog").iterdir():
            path.unlink()


def test_the_log_of_a_backup_that_went_on_by_itself_is_another_one(run, tmp_path):
    """Both have the first messages, and each has others behind them."""
    stores = [tmp_path / name for name in ("one", "other")]
    for number, store in enumerate(stores):
        log = Log(1 << 16)
        for place in range(50):
            log.append(Message(queue_offset=place, properties=keyed(f"k{place}")))
        for place in range(50, 60 + 10 * number):
            log.append(Message(queue_offset=place, body=bytes(7 + number), properties=keyed("n")))
        log.write_to(store / "commitlog")
    for one, other in (stores, reversed(stores)):
        code, _, err = run("rebuild", one, "--out", other / "index")
        assert (code, "or a copy of it, got another one" in err) == (2, True)


@pytest.mark.parametrize(
    ("lost", "command"), [("consumequeue", "rebuild-queues"), ("index", "rebuild")]
)
def test_a_dry_run_refuses_a_log_without_the_end_that_the_other_half_knows(
    run, store, lost, command
):
    """With the error and the exit code of the run that it stands for."""
    shutil.rmtree(store / lost)
    lose_log_end(store)
    whole = (command, store, "--replace", *(GEOMETRY if lost == "index" else ()))
    code, _, refused = run(*whole)
    assert (code, "got the end of the log" in refused) == (2, True)
    code, out, err = run(*whole, "--dry-run")
    assert code == 2
    assert err == refused
    assert out.startswith("Would ") or "would come" in out
    assert "Without --dry-run this is refused, unless --allow-loss is given" in out
    code, out, err = run(*whole, "--dry-run", "--json")
    assert code == 2
    assert json.loads(out)["refusal"] in err
    code, out, _ = run(*whole, "--dry-run", "--allow-loss", "--json")
    assert (code, json.loads(out)["refusal"]) == (0, None)
    assert not (store / lost).exists()


def test_a_range_of_the_log_does_not_replace_the_whole(run, store):
    """The entries outside it would be lost."""
    code, _, err = run("rebuild", store, "--replace", "--to", 60_000)
    assert code == 2
    assert "would be lost" in err
    assert run("rebuild", store, "--replace", "--to", 60_000, "--allow-loss")[0] == 0


def zero(store, start, stop):
    """Zero bytes of the log's first file."""
    with min((store / "commitlog").iterdir()).open("r+b") as file:
        file.seek(start)
        file.write(bytes(stop - start))


@pytest.mark.parametrize(("start", "stop"), [(20_480, 24_576), (0, 4096), (61_440, 65_536)])
def test_entries_that_lead_into_damage_are_lost(run, store, start, stop):
    """Of some messages in a hole of the log they are all that is left."""
    zero(store, start, stop)
    before = content(store)
    whole = ["rebuild", store, "--replace", "--mode", "DROPMALFORMED"]
    code, _, err = run(*whole)
    assert code == 2
    assert "--allow-loss" in err
    assert content(store) == before
    code, out, _ = run(*whole, "--dry-run", "--json")
    replacement = json.loads(out)["replacement"]
    added, lost = sum(file["entry_count"] for file in replacement["added"]), replacement["lost"]
    assert 959 - added - 9 < lost["count"] <= 959 - added + 1  # a repeated entry counts once
    assert (lost["first"] >= start - 1000, lost["last"] < stop) == (True, True)
    assert run(*whole, "--allow-loss")[0] == 0


def test_wrong_entries_are_no_loss_beside_damage_either(run, store, files):
    """Only those that lead into what was passed over are kept from a rebuild."""
    with files[1].open("r+b") as file:
        for position, field in ((5, struct.pack(">i", 77)), (9, struct.pack(">iq", 5, 12_345))):
            file.seek(40 + 4 * 97 + 20 * position)
            file.write(field)
    zero(store, 20_480, 24_576)
    _, out, _ = run("rebuild", store, "--replace", "--mode", "DROPMALFORMED", "--dry-run", "--json")
    lost = json.loads(out)["replacement"]["lost"]
    assert (lost["first"] > 20_000, lost["last"] < 24_576) == (True, True)


def test_wrong_entries_are_no_loss(run, store, files):
    """A damaged hash, an offset of no message and an entry twice are mended without a warning."""
    with files[1].open("r+b") as file:
        for position, field in ((5, struct.pack(">i", 77)), (9, struct.pack(">iq", 5, 12_345))):
            file.seek(40 + 4 * 97 + 20 * position)
            file.write(field)
    code, _, err = run("rebuild", store, "--replace")
    assert (code, err) == (0, "")


def test_what_leads_to_no_message_is_left_out_with_its_number(run, store, files):
    """As after the log's tail was written anew: the total would hide it behind new entries."""
    path = files[0]
    content = bytearray(path.read_bytes())
    geometry = 40 + 4 * 97
    for place, offset in ((50, 45_000), (60, 45_001)):
        struct.pack_into(">q", content, geometry + 20 * place + 4, offset)
    path.write_bytes(content)
    said = f"Left out 2 entries in {path.name}, of offsets 45000 to 45001, without a message"
    before = {each.name: each.read_bytes() for each in files}
    for options in (("--dry-run",), ()):
        code, out, err = run("rebuild", str(store), "--replace", *options)
        assert code == 0, err
        assert said in " ".join(out.split())
        if options:
            assert {each.name: each.read_bytes() for each in files} == before
    code, out, _ = run("rebuild", str(store), "--replace", "--dry-run", "--json")
    assert json.loads(out)["replacement"]["stray"] is None


@pytest.mark.parametrize("bit", [37, 52, 62])
def test_an_offset_behind_that_of_the_last_entry_is_no_loss(run, store, files, bit):
    """Its entry was damaged: the log need not be restored, and the printed rebuild mends it."""
    place = 40 + 4 * 97 + 20 * 7 + 4
    with files[1].open("r+b") as file:
        file.seek(place)
        (offset,) = struct.unpack(">q", file.read(8))
        file.seek(place)
        file.write(struct.pack(">q", offset ^ (1 << bit)))
    code, out, _ = run("verify", store)
    assert (code, "entry_dangling" in out, "entry_beyond_log" in out) == (1, True, False)
    (line,) = set(re.findall("`rmqindex (rebuild [^`]*)`", out))
    code, _, err = run(*shlex.split(line))
    assert (code, err) == (0, "")
    assert run("verify", store)[0] == 0


@pytest.mark.parametrize("bit", [0, 30])
def test_an_entry_behind_the_log_is_a_loss_unless_a_message_lacks_it(run, store, files, bit):
    """Where its hash is damaged too, it may be all that is left of a longer log."""
    place = 40 + 4 * 97 + 20 * 7
    with files[1].open("r+b") as file:
        file.seek(place)
        code, offset = struct.unpack(">iq", file.read(12))
        file.seek(place)
        file.write(struct.pack(">iq", code ^ (1 << bit), offset ^ (1 << 52)))
    code, _, err = run("rebuild", store, "--replace")
    assert (code, f"1 entry in {files[1].name}" in err) == (2, True)
    assert run("rebuild", store, "--replace", "--allow-loss")[0] == 0
    assert run("verify", store)[0] == 0


@pytest.mark.parametrize("where", ["before", "behind", "before one entry"])
def test_offsets_of_a_longer_log_are_a_loss_though_a_shorter_one_follows(run, store, files, where):
    """As ``relayout`` puts them into one file, where a log was truncated and has gone on.

    Also where the file begins with them, or ends with the first message that was indexed again.
    """
    counts = [int.from_bytes(file.read_bytes()[36:40], "big") - 1 for file in files]
    held = sum(counts) + 9 + 1
    name = int(files[0].name) - 1 if where == "before" else int(files[-1].name) + 1
    beyond = store / "index" / f"{name}"
    with IndexFileWriter(beyond, Layout(97, 200)) as writer:
        for place in range(9):
            writer.put(f"k{place}", 10**9 + 100 * place, 1_795_000_000_000)
    if where != "before":
        again = files[-1 if where == "behind" else 0]
        shutil.copyfile(again, beyond.with_name(f"{name + 1}"))
    entries = held + 1 if where == "before one entry" else 2000
    assert run("relayout", store, "--slots", 97, "--entries", entries)[0] == 0
    code, out, _ = run("verify", store)
    assert (code, "entry_beyond_log" in out, "entry_dangling" in out) == (1, True, False)
    code, _, err = run("rebuild", store, "--replace")
    assert code == 2
    assert "9 entries" in err


@pytest.mark.parametrize("count", [0, 1, 50, 198])
def test_relayout_refuses_a_damaged_count(run, store, files, count):
    """The entries that it does not count would be gone for ever."""
    set_count(files[2], count)
    before = content(store)
    code, _, err = run("relayout", store, "--slots", 50, "--entries", 300)
    assert code == 2
    assert files[2].name in err
    assert f"`rmqindex verify {store}` says how" in err
    assert content(store) == before


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (("scan", "STORE", *GEOMETRY), [["verify"], ["scan", "--salvage"]]),
        (("lookup", "STORE", "TopicTest", "BB", *GEOMETRY), [["verify"], ["scan", "--salvage"]]),
        (("relayout", "STORE", "--slots", 50, "--entries", 300), [["verify"]]),
        (("expire", "STORE", "--before", 60_000), [["verify"]]),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_a_damaged_header_names_commands_that_run_as_printed(run, store, command, lines):
    """Each with the path in question, quoted for the shell."""
    moved = store.rename(store.with_name("it's my store"))
    set_count(min((moved / "index").iterdir()), 50)
    code, _, err = run(*(moved if each == "STORE" else each for each in command))
    assert code == 2
    typed = [shlex.split(line) for line in re.findall("`rmqindex ([^`]*)`", err)]
    assert [[name, *options] for name, _, *options in typed] == lines
    for arguments in typed:
        code, out, err = run(*arguments)
        assert code in (0, 1), err
        assert "index_count" in out or arguments[0] == "scan"


def test_relayout_refuses_a_damaged_begin_timestamp(run, store, files):
    """All times of the file are counted from it, and would be wrong for ever."""
    with files[1].open("r+b") as file:
        file.write(struct.pack(">q", 1_500_000_000_000))
    before = content(store)
    code, _, err = run("relayout", store, "--slots", 50, "--entries", 300)
    assert (code, "begin_timestamp at byte 0: expected 17" in err) == (2, True)
    assert content(store) == before


def test_relayout_names_no_option_that_it_lacks(run, store, files):
    """Slots of zeros show no geometry, and DROPMALFORMED would lose entries."""
    with files[0].open("r+b") as file:
        file.seek(40)
        file.write(bytes(4 * 97))
    code, _, err = run("relayout", store, "--slots", 50, "--entries", 300)
    assert (code, "DROPMALFORMED" in err) == (2, False)
    assert f"`rmqindex verify {store}` says how" in err


def test_a_file_of_another_geometry_gets_that_of_the_others(run, store, files):
    """As printed, without numbers to be filled in."""
    files[2].write_bytes(files[2].read_bytes() + b"\1" * 20)
    code, out, _ = run("verify", store)
    assert (code, "geometry_differs" in out) == (1, True)
    (line,) = set(re.findall("`rmqindex (relayout [^`]*)`", out))
    code, _, err = run(*shlex.split(line))
    assert (code, err) == (0, "")
    assert run("verify", store)[0] == 0


@pytest.mark.parametrize("is_damaged", [False, True])
def test_files_of_two_geometries_beside_a_damaged_one_are_rebuilt(run, store, files, is_damaged):
    """A relayout is refused for that one; one rebuild does for both, with the others' numbers."""
    files[3].write_bytes(files[3].read_bytes() + bytes(400))
    if is_damaged:
        set_count(files[1], 0)
    else:
        (store / "index/20261120182606804").write_bytes(bytes(10))
    code, _, err = run("relayout", store, "--slots", 97, "--entries", 200)
    assert (code, f"`rmqindex verify {store}` says how to write the index anew" in err) == (2, True)
    code, out, _ = run("verify", store)
    assert (code, "geometry_differs" in out) == (1, True)
    (line,) = set(re.findall("`rmqindex (re[^`]*)`", out))
    assert line == f"rebuild {store} --replace --max-hash-slot-num 97 --max-index-num 200"
    assert "with the numbers of broker.conf if it has others" in " ".join(out.split())
    assert run(*shlex.split(line))[0] == 0
    assert run("verify", store)[0] == 0


def test_a_longer_file_of_a_broker_that_was_killed_is_rebuilt_not_continued(run, store, files):
    """The checkpoint alone would need a rebuild that resumes, which such a file does not allow."""
    (store / "abort").touch()
    StoreCheckpoint(1700022861666, 1700022861666, 1700003000000).save(store / "checkpoint")
    files[-1].write_bytes(files[-1].read_bytes() + bytes(100))
    code, _, err = run("rebuild", store, "--resume", *GEOMETRY)
    assert (code, err.endswith("got 4528; --replace indexes the whole log anew\n")) == (2, True)
    code, out, _ = run("verify", store)
    assert (code, "restart_loses" in out) == (1, True)
    (line,) = set(re.findall("`rmqindex (re[^`]*)`", out))
    assert run(*shlex.split(line))[0] == 0
    assert run("verify", store)[0] == 0


def test_a_dry_run_of_a_relayout_shows_both_states(run, store):
    """The new files are written aside and discarded."""
    before = content(store)
    code, out, _ = run("relayout", store, "--slots", 50, "--entries", 300, "--dry-run")
    assert code == 0
    assert "would go: 199 entries" in out
    assert "would come: 299 entries" in out
    assert "Would write 959 entries into 4 files in place of 5" in out
    assert content(store) == before


def test_expire_refuses_a_file_without_a_header(run, store, files):
    """A broker deletes it; what it had, nobody knows."""
    files[0].write_bytes(bytes(10))
    for options in (("--before", 1), ("--before", 1, "--dry-run")):
        code, out, err = run("expire", store, *options)
        assert (code, out) == (2, "")
        assert f"`rmqindex verify {store}` says how to write the index anew" in err
        assert "--allow-loss deletes the file as the broker would" in err
    code, _, err = run("expire", store, "--before", 1, "--allow-loss")
    assert (code, "got a file of 10 bytes" in err) == (0, True)
    assert sorted((store / "index").iterdir()) == files[1:]


def test_expire_refuses_a_file_whose_end_is_damaged(run, store, files):
    """Its entries are of messages that the log has."""
    with files[0].open("r+b") as file:
        file.seek(24)
        file.write(struct.pack(">q", 5))
    for options in ((), ("--dry-run",)):
        code, _, err = run("expire", store, "--before", 10_000, *options)
        assert code == 2
        assert "end_phy_offset at byte 24" in err
        assert f"`rmqindex verify {store}` says how" in err
    assert files[0].exists()
    assert run("expire", store, "--before", 10_000, "--allow-loss")[0] == 0
    assert not files[0].exists()


def test_a_refused_rebuild_deletes_no_empty_file(run, store, files):
    """An empty last file stays until the rebuild is allowed to write."""
    empty = files[4].with_name("20991231000000000")
    empty.write_bytes(b"")
    before = content(store)
    assert run("rebuild", store)[0] == 2
    assert content(store) == before


def test_a_header_of_zeros_is_no_empty_file(run, store, files):
    """A rebuild that resumes would take its entries for an unfinished write, and delete it."""
    with files[4].open("r+b") as file:
        file.write(bytes(40))
    before = content(store)
    code, _, err = run("rebuild", store, "--resume")
    assert code == 2
    assert "index_count at byte 36" in err
    assert content(store) == before
    assert run("rebuild", store, "--replace")[0] == 0


@pytest.mark.parametrize("name", ["20991231235959999", "99991231235959999"])
@pytest.mark.parametrize(
    "command",
    [("rebuild", "--replace"), ("relayout", "--slots", 50, "--entries", 300)],
)
def test_a_name_in_the_future_blocks_no_replacement(run, store, files, name, command):
    """The broker's clock was ahead once: the files get other names, and later ones follow them."""
    files[1].rename(files[1].with_name(name))
    code, _, err = run(command[0], store, *command[1:])
    assert code == 0, err
    assert max(content(store)) < name
    code, _, err = run("rebuild", store, "--replace")
    assert (code, err) == (0, "")
    assert run("verify", store)[0] == 0


def test_a_name_in_the_future_blocks_new_files_with_what_to_do(run, store, files):
    """A new file would sort before it; the command that is named mends that."""
    lost = max((store / "index").iterdir())
    lost.unlink()
    files[3].rename(files[3].with_name("20991231235959999"))
    code, _, err = run("rebuild", store, "--resume")
    assert code == 2
    assert "rebuild all files from the CommitLog with --replace" in err
    assert run("rebuild", store, "--replace")[0] == 0
    assert run("verify", store)[0] == 0


def test_a_file_of_the_default_size_has_the_default_geometry(run, store):
    """Also where its header is gone, and no other file tells."""
    shutil.rmtree(store / "index")
    assert run("rebuild", store)[0] == 0
    (path,) = (store / "index").iterdir()
    with path.open("r+b") as file:
        file.write(bytes(4096))
    code, _, err = run("lookup", store, "TopicTest", "BB")
    assert code == 2
    assert "index_count at byte 36" in err
    code, out, err = run("rebuild", store, "--replace", "--json")
    assert code == 0, err
    assert json.loads(out)["hash_slot_num"] == 5_000_000
    assert run("verify", store)[0] == 0
