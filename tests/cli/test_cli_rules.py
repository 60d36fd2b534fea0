"""Whoever types the remedy of a finding gets rid of it, for every rule of the audit."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pytest

import rmqindex
from commitlog_encoder import Log, Message, properties_text
from kinds import sampled
from recorded import STORE_KINDS
from rmqindex import AUDIT_RULES, CommitLog, IndexHeader, Layout, StoreCheckpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SAMPLE = rmqindex.sample_store()
LAYOUT = Layout(97, 200)
FIELDS = {
    "key_hash": (0, ">i"),
    "phy_offset": (4, ">q"),
    "time_diff": (12, ">i"),
    "prev": (16, ">i"),
}
QUEUE = f"consumequeue/TopicTest/0/{0:020d}"
DEFAULT = f"commitlog/{0:020d}"


class Case(NamedTuple):
    """How a sound store gets a finding.

    Attributes:
        damage: Changes the store.
        by_hand: Does what the remedy says before the command, if there is one.
        base: Makes another store than the sample.
        arguments: What `verify` is given, instead of the store.
    """

    damage: Callable[[Path], object]
    by_hand: Callable[[Path], object] | None = None
    base: Callable[[Path], object] | None = None
    arguments: tuple[str, ...] = ("store",)


def files(store):
    """Return the IndexFiles, oldest first."""
    return sorted((store / "index").iterdir())


def patch(path, at, data):
    """Overwrite bytes of a file."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def header(place=1, **fields):
    """Return what changes fields of a header, by adding to them."""

    def damage(store):
        path = files(store)[place]
        known = IndexHeader.from_bytes(path.read_bytes()[:40])
        changed = {name: getattr(known, name) + value for name, value in fields.items()}
        patch(path, 0, replace(known, **changed).to_bytes())

    return damage


def entry(position, field, value, place=1):
    """Return what changes a field of an entry."""
    at, form = FIELDS[field]

    def damage(store):
        patch(files(store)[place], LAYOUT.entry_offset(position) + at, struct.pack(form, value))

    return damage


def slots(change, place=1):
    """Return what changes the slots of a file, given as a list of numbers."""

    def damage(store):
        path = files(store)[place]
        values = list(struct.unpack_from(">97i", path.read_bytes(), 40))
        change(values, [slot for slot, value in enumerate(values) if value])
        patch(path, 40, struct.pack(">97i", *values))

    return damage


def tear_slot(store):
    """Kill a put behind its slot, which has an older entry."""
    path = files(store)[4]
    count = IndexHeader.from_bytes(path.read_bytes()[:40]).index_count
    values = struct.unpack_from(">97i", path.read_bytes(), 40)
    slot = next(slot for slot, value in enumerate(values) if value)
    code = number(path, LAYOUT.entry_offset(values[slot]))
    patch(path, LAYOUT.entry_offset(count), struct.pack(">iqii", code, 0, 0, values[slot]))
    patch(path, LAYOUT.slot_offset(slot), struct.pack(">i", count))


def number(path, at):
    """Return a 32-bit number of a file."""
    return struct.unpack_from(">i", path.read_bytes(), at)[0]


def chained(change):
    """Return what changes the links of an entry with an older one, and of that one."""

    def damage(store):
        path = files(store)[1]
        at = [LAYOUT.entry_offset(position) + 16 for position in range(200)]
        position = next(each for each in range(199, 0, -1) if number(path, at[each]) > 0)
        for which, value in change(position, number(path, at[position])).items():
            patch(path, at[which], struct.pack(">i", value))

    return damage


def swap(store):
    """Give two files each other's names."""
    _, first, second, *_ = files(store)
    spare = first.with_name("x")
    first.rename(spare)
    second.rename(first)
    spare.rename(second)


def add_empty_file(store):
    """Add a file without entries that does not repeat where the one before it ends."""
    head = IndexHeader(1, 1, 1, 1, 0, 1).to_bytes()
    (store / "index" / "20991231000000000").write_bytes(head.ljust(LAYOUT.file_size, b"\0"))


def lay_newest_out_anew(store):
    """Give the newest file another geometry than those before it."""
    apart = store.parent / "apart"
    apart.mkdir()
    newest = files(store)[-1]
    newest.rename(apart / newest.name)
    rmqindex.relayout_index(apart, Layout(53, 400))
    shutil.copy(min(apart.iterdir()), newest)


def no_slots(store):
    """Leave nothing that shows a geometry."""
    for path in files(store)[1:]:
        path.unlink()
    patch(files(store)[0], 40, bytes(97 * 4))


def unlink(*places):
    """Return what removes IndexFiles."""
    return lambda store: [files(store)[place].unlink() for place in sorted(places, reverse=True)]


def overwritten(path, at, data):
    """Return what damages a file of the store, and what restores it."""

    def damage(store):
        shutil.copyfile(store / path, store.parent / "backup")
        patch(store / path, at, data)

    return damage, lambda store: shutil.copyfile(store.parent / "backup", store / path)


def checkpoint(**times):
    """Return what writes a checkpoint."""
    return lambda store: StoreCheckpoint(**times).save(store / "checkpoint")


def kill(store):
    """Leave what a broker leaves that was killed, and whose checkpoint covers nothing."""
    checkpoint(physic_msg_timestamp=2**60, logics_msg_timestamp=2**60)(store)
    (store / "abort").touch()


def write_unit(place, offset, size=100, tags=0):
    """Return what overwrites a unit."""
    return lambda store: patch(store / QUEUE, place * 20, struct.pack(">qiq", offset, size, tags))


def unit(store, place):
    """Return a unit of the queue."""
    return struct.unpack_from(">qiq", (store / QUEUE).read_bytes(), place * 20)


def small(messages, **topics):
    """Return what makes a store of some messages with the queues of a rebuild."""

    def make(store):
        shutil.rmtree(store)
        log = Log(1 << 16)
        for message in messages:
            log.append(message)
        log.write_to(store / "commitlog")
        (store / "index").mkdir()
        (store / "checkpoint").write_bytes(bytes(4096))
        if topics:
            (store / "config").mkdir()
            table = {
                topic: {"attributes": {"queue.type": "BatchCQ"} if is_batch else {}}
                for topic, is_batch in topics.items()
            }
            text = json.dumps({"topicConfigTable": table})
            (store / "config/topics.json").write_text(text)
        rmqindex.rebuild_consume_queues(
            store, store, file_size=2000, mode="DROPMALFORMED", allow_loss=True
        )

    return make


def table(text):
    """Return what writes the table of topics."""

    def write(store):
        (store / "config").mkdir(exist_ok=True)
        (store / "config/topics.json").write_text(text)

    return write


def move_to_batch(store):
    """Put a topic's queues into the folder of the other kind."""
    (store / "batchconsumequeue").mkdir()
    (store / "consumequeue/TopicTest").rename(store / "batchconsumequeue/TopicTest")
    names = [each.name for each in (store / "consumequeue").iterdir()]
    table(json.dumps({"topicConfigTable": {name: {} for name in [*names, "TopicTest"]}}))(store)


def exchange(store):
    """Leave an exchange of queues unfinished, as a rebuild that died."""
    home = store / ".consumequeue.rmqindex"
    for name in ("old", "new"):
        (home / name).mkdir(parents=True)
    (home / "undo.json").write_text('{"old": [], "new": []}')


def copy_index(store):
    """Copy an index without its newest file, to where no broker is seen."""
    shutil.copytree(store / "index", store.parent / "copy")
    max((store.parent / "copy").iterdir()).unlink()


def dledger(store):
    """Put a store of a DLedger broker in its place."""
    shutil.rmtree(store)
    shutil.copytree(STORE_KINDS / "dledger" / "store", store)


def count(store):
    """Return how many units the queue has."""
    return next(place for place in range(10_000) if not unit(store, place)[1])


def stale_unit(store):
    """Append a unit of a message that its topic had before it was made again."""
    (first, size, _), (second, *_) = unit(store, 0), unit(store, 1)
    write_unit(2, 2 * first - second, size)(store)


def set_due(store):
    """Let one delayed message be due a day later than those around it."""
    path = store / f"consumequeue/SCHEDULE_TOPIC_XXXX/0/{0:020d}"
    (due,) = struct.unpack_from(">q", path.read_bytes(), 32)
    patch(path, 32, struct.pack(">q", due + 86_400_000))


BATCH = Message(
    sys_flag=0x80, properties=properties_text([("INNER_NUM", "3"), ("INNER_BASE", "0")])
)
NO_NUMBER = Message(topic="SCHEDULE_TOPIC_XXXX", properties=properties_text([("DELAY", "x")]))
FALLS_BACK = [Message(queue_offset=place) for place in (0, 1, 2, 3, 2, 4)]
DELAYED = [
    Message(
        topic="SCHEDULE_TOPIC_XXXX",
        queue_offset=place,
        properties=properties_text([("DELAY", "1")]),
    )
    for place in range(3)
]
MADE_AGAIN = [Message(queue_offset=place) for place in (0, 1, 2, 0, 1)]
HOLE, MEND_HOLE = overwritten(DEFAULT, 30_000, bytes(200))
NAME = "20231114231954799"

CASES = {
    # One file by itself.
    "unreadable": Case(
        lambda store: (files(store)[1].unlink(), (store / "index" / NAME).symlink_to("nothing")),
        lambda store: (store / "index" / NAME).unlink(),
    ),
    "header_size": Case(lambda store: os.truncate(files(store)[1], 9)),
    "geometry": Case(no_slots),
    "file_size": Case(lambda store: os.truncate(files(store)[1], 2000)),
    "file_name": Case(
        lambda store: files(store)[4].rename(store / "index" / "209912310"),
        lambda store: files(store)[4].rename(store / "index" / "20991231000000000"),
    ),
    "index_count": Case(header(index_count=1000)),
    "begin_phy_offset": Case(header(begin_phy_offset=1)),
    "end_phy_offset": Case(header(end_phy_offset=1)),
    "begin_timestamp": Case(header(begin_timestamp=7000)),
    "end_timestamp": Case(header(end_timestamp=7000)),
    "inherited_header": Case(add_empty_file),
    "slot_range": Case(slots(lambda values, used: values.__setitem__(used[0], -5))),
    "slot_torn": Case(tear_slot),
    "slot_cross_link": Case(
        slots(lambda values, used: values.__setitem__(used[0], values[used[1]]))
    ),
    "slot_newest": Case(slots(lambda values, used: values.__setitem__(used[0], 0))),
    "key_hash_range": Case(entry(50, "key_hash", -7)),
    "entry_unwritten": Case(header(4, index_count=2)),
    "chain_order": Case(chained(lambda newer, _: {newer: -9})),
    "chain_cycle": Case(chained(lambda newer, older: {older: newer})),
    "chain_cross_link": Case(chained(lambda newer, older: {newer: 1 if older != 1 else 2})),
    "chain_link": Case(chained(lambda newer, _: {newer: 0})),
    "entry_unreachable": Case(chained(lambda newer, _: {newer: 0})),
    "time_diff_range": Case(entry(50, "time_diff", -1)),
    "time_diff": Case(entry(50, "time_diff", 2**30)),
    "phy_offset_range": Case(entry(50, "phy_offset", -1)),
    "phy_offset_order": Case(entry(50, "phy_offset", 0)),
    # Files beside each other, and the store around them.
    "directory_name": Case(
        lambda store: (store / "index" / "20991231000000000").mkdir(),
        lambda store: (store / "index" / "20991231000000000").rmdir(),
    ),
    "geometry_differs": Case(lay_newest_out_anew),
    "file_order": Case(swap),
    "file_name_ahead": Case(
        lambda store: files(store)[4].rename(store / "index" / "20991231000000000")
    ),
    "unfinished_write": Case(exchange),
    "restart_loses": Case(kill),
    "restart_indexes": Case(lambda store: (kill(store), unlink(4)(store))),
    "checkpoint_size": Case(lambda store: (store / "checkpoint").write_bytes(bytes(8))),
    "checkpoint_behind": Case(checkpoint()),
    "checkpoint_ahead": Case(checkpoint(index_msg_timestamp=2**60)),
    # Against the CommitLog.
    "dledger_checkpoint": Case(
        lambda store: (store / "dledger-n0/checkpoint").write_bytes(b""),
        lambda store: (store / "dledger-n0/checkpoint").unlink(),
        base=dledger,
    ),
    "log_file_name": Case(
        lambda store: (store / "commitlog/x").write_bytes(b"any"),
        lambda store: (store / "commitlog/x").unlink(),
    ),
    "log_file_misnamed": Case(
        lambda store: shutil.copy(
            store / f"commitlog/{65_536:020d}", store / f"commitlog/{131_072:020d}"
        ),
        lambda store: (store / f"commitlog/{131_072:020d}").unlink(),
    ),
    "log_damaged": Case(HOLE, MEND_HOLE),
    "entry_dangling": Case(entry(50, "phy_offset", 45_000)),
    "entry_hash": Case(entry(50, "key_hash", 12345)),
    "key_missing": Case(entry(50, "key_hash", 12345)),
    "coverage_gap": Case(unlink(2)),
    "index_begins_late": Case(unlink(0)),
    "index_missing": Case(unlink(0, 1, 2, 3, 4)),
    "index_ends_early": Case(unlink(4)),
    "index_behind": Case(copy_index, arguments=("copy", "--commit-log", "store/commitlog")),
    "stop_barrier": Case(lambda store: max((store / "commitlog").iterdir()).unlink()),
    "entry_beyond_log": Case(lambda store: patch(files(store)[1], 428 + 20 * 10, b"\1" * 20)),
    # ConsumeQueues.
    "queues_missing": Case(lambda store: shutil.rmtree(store / "consumequeue")),
    "queue_missing": Case(lambda store: shutil.rmtree(store / "consumequeue/TopicTest/2")),
    "queue_unknown": Case(lambda store: shutil.rmtree(store / "consumequeue/TopicTest")),
    "queue_doubtful": Case(
        lambda store: shutil.rmtree(store / "consumequeue/TopicTest/1"),
        base=small([*MADE_AGAIN[:3], Message(queue_id=1), *MADE_AGAIN[3:]]),
    ),
    "queue_kind": Case(move_to_batch),
    "topic_kind": Case(
        table('{"topicConfigTable": {"TopicTest": {}}}'),
        table('{"topicConfigTable": {"TopicTest": {"attributes": {"queue.type": "BatchCQ"}}}}'),
        base=small([BATCH], TopicTest=True),
    ),
    "queue_file_size": Case(lambda store: os.truncate(store / QUEUE, 3_000_000)),
    "queue_file_name": Case(
        lambda store: (store / QUEUE).with_name("x").write_bytes(b"any"),
        lambda store: (store / QUEUE).with_name("x").unlink(),
    ),
    "queue_unit_missing": Case(lambda store: patch(store / QUEUE, 60, bytes(20))),
    "queue_unit": Case(lambda store: patch(store / QUEUE, 68, struct.pack(">i", 7777))),
    "queue_due_time": Case(set_due, base=small(DELAYED)),
    "queue_dangling": Case(lambda store: write_unit(count(store), unit(store, 0)[0] + 7)(store)),
    "queue_stray": Case(lambda store: write_unit(count(store), unit(store, 0)[0])(store)),
    "queue_beyond_log": Case(lambda store: write_unit(count(store), 10**9)(store)),
    "queue_left_out": Case(stale_unit, base=small(MADE_AGAIN)),
    "queue_offset_taken": Case(lambda _: None, base=small(FALLS_BACK)),
    "property_number": Case(lambda _: None, base=small([Message(), NO_NUMBER])),
    "queue_number": Case(lambda _: None, base=small([Message(), Message(queue_offset=-5)])),
    "queues_unreadable": Case(table("nothing"), lambda store: shutil.rmtree(store / "config")),
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return a copy of the sample in the working directory."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(SAMPLE, tmp_path / "store")


def commands(remedy):
    """Return the commands of a remedy that change a store, as a shell splits them."""
    found = []
    for text in re.findall(r"`rmqindex ([^`]*)`", remedy):
        arguments = shlex.split(text)
        is_reading = arguments[0] in ("verify", "scan") or "--dry-run" in arguments
        if len(arguments) < 2 or is_reading:
            continue
        if arguments[0] == "relayout":  # only the user knows the broker's numbers
            arguments += ["--slots", "97", "--entries", "200"]
        found.append(arguments)
    return found


def test_every_rule_whose_remedy_is_a_command_is_tried():
    """A new one, too; those of the others are done by hand, or nothing is to be done."""
    assert {rule.name for rule in AUDIT_RULES if commands(rule.remedy)} <= set(CASES)
    assert set(CASES) <= {rule.name for rule in AUDIT_RULES}


@pytest.mark.parametrize("rule", sampled(CASES, *list(CASES)[::5]))
def test_who_does_what_a_finding_says_is_rid_of_it(run, place, rule):
    """Each command runs as it is printed; what nothing clears says so."""
    case = CASES[rule]
    if case.base is not None:
        case.base(place)
    case.damage(place)

    def remedies():
        code, out, err = run("verify", *case.arguments, "--json")
        assert code < 2, err
        findings = json.loads(out)["findings"]
        return {each["remedy"] for each in findings if each["rule"] == rule}

    (remedy,) = remedies()
    if case.by_hand is not None:
        case.by_hand(place)
    for command in commands(remedy):
        code, _, err = run(*command)
        assert code == 0, (command, err)
    assert remedies() == ({remedy} if "Nothing clears" in remedy else set())


def test_the_remedy_of_a_lost_index_takes_a_file_without_entries_for_none(run, place):
    """As zeros leave one over header, slots and entries."""
    first, *others = sorted((place / "index").iterdir())
    for path in others:
        path.unlink()
    data = first.read_bytes()
    first.write_bytes(bytes(len(data) - 1) + b"x")
    found = json.loads(run("verify", "store", "--json")[1])["findings"]
    (row,) = (each for each in found if each["rule"] == "index_missing")
    for command in commands(row["remedy"]):
        code, _, err = run(*command)
        assert code == 0, err
    assert run("verify", "store")[0] == 0


@pytest.mark.parametrize("gone", [("index",), ("index", "consumequeue", "checkpoint")])
def test_the_remedy_of_a_lost_index_waits_for_the_log_where_that_is_damaged(run, place, gone):
    """A rebuild is refused until then, and is typed as it is printed afterwards."""
    HOLE(place)
    for name in gone:
        each = place / name
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    code, out, err = run("verify", "store", "--json")
    assert code == 1, err
    remedies = {each["rule"]: each["remedy"] for each in json.loads(out)["findings"]}
    assert remedies["log_damaged"].startswith("Restore the CommitLog from")
    assert remedies["index_missing"].startswith("Restore the CommitLog first; then run")
    MEND_HOLE(place)
    for command in commands(remedies["index_missing"]):
        code, _, err = run(*command)
        assert code == 0, err
    assert run("verify", "store")[0] == 0


def test_a_checkpoint_that_leads_behind_a_whole_log_is_moved_away(run, place):
    """Nothing tells whether the log or the checkpoint is wrong, so both are named."""
    checkpoint = place / "checkpoint"
    with CommitLog(place) as log:
        confirmed = log.max_offset + 100
    patch(checkpoint, 32, struct.pack(">q", confirmed))  # confirmPhyOffset
    code, out, err = run("verify", "store", "--json")
    assert code == 1, err
    errors = [each for each in json.loads(out)["findings"] if each["severity"] == "error"]
    assert [each["rule"] for each in errors] == ["log_damaged"]
    assert f"{checkpoint} leads to a message at offset {confirmed - 1}" in errors[0]["expected"]
    assert errors[0]["remedy"].endswith("move it away while no broker runs.")
    _, _, err = run("messages", "store")
    assert "unless that file is wrong" in err
    checkpoint.rename(place.parent / "checkpoint")
    assert run("messages", "store")[0] == 0
    code, out, _ = run("verify", "store", "--json")
    assert (code, "checkpoint_missing" in out) == (0, True)
