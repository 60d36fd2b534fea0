"""What a broker will do to an index when it starts after a crash, and what keeps it from that."""

from __future__ import annotations

import re
import shutil
import struct
from dataclasses import replace
from itertools import pairwise

import pytest

import rmqindex
from kinds import sampled
from live_writer import LiveWriter
from other_broker import running_broker
from rmqindex import CommitLog, IndexFile, Layout, StoreCheckpoint, rebuild_index, verify

FAR = 2**60


@pytest.fixture
def crashed(store):
    """A store whose broker was killed: everything was flushed, and no IndexFile is covered."""
    (store / "abort").touch()
    set_times(store, physic=FAR, logics=FAR, index=0)
    return store


def set_times(store, **times):
    """Change times of the checkpoint."""
    path = store / "checkpoint"
    fields = {f"{name}_msg_timestamp": value for name, value in times.items()}
    replace(StoreCheckpoint.load(path), **fields).save(path)


def rows(store, log="auto", *, worst=("error", "warning")):
    """Return the findings of some severities."""
    return [row for row in verify(store, log).to_pylist() if row["severity"] in worst]


def headers(store):
    """Return the header of each IndexFile."""
    found = []
    for path in sorted((store / "index").iterdir()):
        with IndexFile(path) as file:
            found.append(file.header)
    return found


def surviving(store):
    """Return the offsets that a broker's start leaves in the index, by RocketMQ's own steps."""
    checkpoint = StoreCheckpoint.load(store / "checkpoint")
    kept, lost, barrier = [], [], 0
    for path in sorted((store / "index").iterdir()):
        with IndexFile(path) as file:
            offsets = [o for b in file.scan(columns=["phy_offset"]) for o in b[0].to_pylist()]
            if file.header.end_timestamp > checkpoint.index_msg_timestamp:
                lost += offsets
            else:
                kept += offsets
                barrier = file.header.end_phy_offset
    with CommitLog(store) as log:
        newest_first = [(file.start, log.first_store_timestamp(file)) for file in log.files[::-1]]
    dispatched = struct.unpack_from(">q", (store / "checkpoint").read_bytes(), 40)[0]
    old = next((o for o, time in newest_first if time <= checkpoint.min_timestamp), 0)
    new = next(
        (
            offset
            for offset, time in newest_first
            if (offset <= dispatched if dispatched else time <= checkpoint.logics_msg_timestamp)
        ),
        0,
    )
    start = max(old, new)
    return kept + [offset for offset in lost if offset >= max(start, barrier)]


def test_the_first_finding_is_what_the_start_will_delete(crashed):
    """With how many entries, as an error (F0)."""
    first, *others = rows(crashed)
    assert (first["rule"], first["severity"]) == ("restart_loses", "error")
    assert first["got"] == "0: deletes 199 entries, indexes 0 again"
    assert {row["rule"] for row in others} == {"restart_loses"}
    assert first["remedy"].startswith("Do not start the broker yet: `rmqindex rebuild STORE --res")


FLUSHED = [0, 1_700_000_010_000, FAR]
DISPATCHED = [0, 50_000, 100_000]


@pytest.mark.parametrize(
    "state",
    # Each pair of two of the three meets.
    sampled(
        [
            (covered, DISPATCHED[each], FLUSHED[(covered + each) % 3])
            for covered in range(6)
            for each in range(3)
        ],
        *((covered, DISPATCHED[0], FLUSHED[covered % 3]) for covered in range(6)),
    ),
)
def test_it_counts_the_entries_that_do_not_come_back(crashed, state):
    """As the own steps of brokers before 5.5.0, and of those since, leave them."""
    covered, dispatched, flushed = state
    known = headers(crashed)
    index = known[covered - 1].end_timestamp if covered else 0
    set_times(crashed, physic=flushed, logics=flushed, index=index)
    with (crashed / "checkpoint").open("r+b") as file:
        file.seek(40)
        file.write(struct.pack(">q", dispatched))
    found = rows(crashed, worst=("error", "info"))
    lost = 0
    for row in found:
        if row["rule"] in ("restart_loses", "restart_rebuilds"):
            deleted, again = (int(word) for word in row["got"].split() if word.isdigit())
            lost += deleted - again
            assert (row["rule"] == "restart_loses") == (again < deleted)
    total = sum(header.entry_count for header in known)
    assert total - lost == len(surviving(crashed))
    assert ("abort_present" in {row["rule"] for row in found}) == (lost == 0)


def test_a_broker_goes_back_ten_files_at_most(tmp_path):
    """From 5.5.0 on (``commitLogRecoverMaxNum``), whatever the checkpoint says."""
    writer = LiveWriter(tmp_path / "store", Layout(53, 400), 1 << 12)
    writer.write(400)
    writer.settle()
    writer.close()
    StoreCheckpoint().save(writer.store / "checkpoint")
    with CommitLog(writer.store) as log:
        start = log.files[-10].start
    (lost, *_) = rows(writer.store)
    assert lost["rule"] == "restart_loses"
    again = sum(
        int(row["got"].split()[-2])
        for row in rows(writer.store, worst=("error", "info"))
        if row["rule"].startswith("restart")
    )
    offsets = []
    for path in (writer.store / "index").iterdir():
        with IndexFile(path) as file:
            offsets += [o for b in file.scan(columns=["phy_offset"]) for o in b[0].to_pylist()]
    assert again == sum(offset >= start for offset in offsets)


def test_the_last_file_is_deleted_too(crashed):
    """Not only those that are full: it is the one that dies."""
    set_times(crashed, index=headers(crashed)[-2].end_timestamp)
    (row,) = [row for row in rows(crashed, worst=("info",)) if row["rule"] == "restart_rebuilds"]
    assert row["file"] == str(max((crashed / "index").iterdir()))
    assert row["got"].endswith("deletes 163 entries, indexes 163 again")


def test_a_log_elsewhere_does_not_tell_what_the_broker_indexes(crashed):
    """It reads its own."""
    with_log = rows(crashed)
    without = [row for row in rows(crashed, None) if row["rule"] == "restart_loses"]
    remedies = {row.pop("remedy") for row in with_log}
    conditional = {row.pop("remedy") for row in without}
    assert without == with_log
    assert {each.replace("if the CommitLog is whole, ", "") for each in conditional} == remedies


def counts(row):
    """Return the numbers of what a restart does to the entries of a file, by their words."""
    words = row["got"].replace(";", "").split()
    names = {"entries,": "deleted", "again": "again", "are": "expired", "lead": "beyond"}
    return {
        names[after]: int(word)
        for word, after in pairwise(words)
        if word.isdigit() and after in names
    }


def entry_offsets(path):
    """Return the offset of each entry of an IndexFile."""
    with IndexFile(path) as file:
        return [o for b in file.scan(columns=["phy_offset"]) for o in b[0].to_pylist()]


def test_entries_behind_the_end_of_the_log_do_not_come_back(crashed):
    """Their messages are in no file of it, so that nothing can index them again."""
    known = headers(crashed)
    set_times(crashed, index=known[2].end_timestamp)
    max((crashed / "commitlog").iterdir()).unlink()
    with CommitLog(crashed) as log:
        end = log.max_offset
    found = [row for row in rows(crashed, worst=("error", "info")) if "restart" in row["rule"]]
    assert [row["file"] for row in found] == [
        str(p) for p in sorted((crashed / "index").iterdir())[3:]
    ]
    for row in found:
        offsets = entry_offsets(row["file"])
        beyond = sum(offset >= end for offset in offsets)
        told = counts(row)
        assert told["deleted"] == len(offsets)
        assert told.get("beyond", 0) == beyond
        assert told["again"] <= len(offsets) - beyond
        assert row["rule"] == (
            "restart_loses" if told["again"] < len(offsets) else "restart_rebuilds"
        )
    assert found[-1]["rule"] == "restart_loses"
    assert found[-1]["remedy"].startswith(
        "Do not start the broker yet: restore the CommitLog first; then `rmqindex rebuild STORE"
    )


@pytest.mark.parametrize(("gone", "rule"), [(1, "restart_indexes"), (3, "index_ends_early")])
def test_messages_behind_the_recovery_point_are_indexed_by_the_start(crashed, gone, rule):
    """A broker that is killed has not indexed its newest messages yet, which is no loss.

    Here it recovers from the second file of the log on.
    """
    set_times(crashed, index=headers(crashed)[-gone - 1].end_timestamp)
    for path in sorted((crashed / "index").iterdir())[-gone:]:
        path.unlink()
    (row,) = [
        row for row in rows(crashed) if row["rule"] in ("restart_indexes", "index_ends_early")
    ]
    assert (row["rule"], row["severity"]) == (rule, "warning" if gone == 1 else "error")


def test_entries_of_expired_messages_are_not_indexed_again(crashed):
    """Nor are they lost."""
    min((crashed / "commitlog").iterdir()).unlink()
    with CommitLog(crashed) as log:
        start = log.min_offset
    expired = 0
    for row in rows(crashed, worst=("error", "info")):
        if "restart" in row["rule"]:
            early = sum(offset < start for offset in entry_offsets(row["file"]))
            told = counts(row)
            assert told.get("expired", 0) == early
            assert told["again"] <= told["deleted"] - early
            expired += early
    assert expired


def test_the_remedies_of_one_table_agree(crashed):
    """An index that has to be replaced is not continued: the two refuse each other."""
    min((crashed / "index").iterdir()).unlink()
    found = rows(crashed)
    assert {"restart_loses", "index_begins_late"} <= {row["rule"] for row in found}
    commands = {
        command
        for row in found
        for command in re.findall(r"`rmqindex rebuild [^`]*`", row["remedy"])
    }
    assert commands == {"`rmqindex rebuild STORE --replace`"}


def test_the_remedy_keeps_every_file(crashed):
    """It raises the checkpoint, and no flag is needed."""
    rebuild_index(crashed, crashed / "index", resume=True)
    assert rows(crashed) == []
    assert len(surviving(crashed)) == sum(header.entry_count for header in headers(crashed))


def test_a_damaged_checkpoint_is_no_second_advice(crashed):
    """The checkpoint is written anew by what keeps the files."""
    (crashed / "checkpoint").write_bytes(bytes(8))
    rules = {row["rule"] for row in rows(crashed, worst=("error", "warning", "info"))}
    assert "restart_rebuilds" in rules  # from the log's start
    assert "checkpoint_behind" not in rules
    for row in rows(crashed):
        assert "tart the broker," not in row["remedy"]


def test_a_running_broker_deletes_nothing(crashed):
    """Its checkpoint may be behind while it writes a file."""
    with running_broker(crashed):
        assert rows(crashed) == []


def test_a_broker_that_stopped_is_warned_of_its_next_crash(crashed):
    """Until then it keeps the files."""
    (crashed / "abort").unlink()
    assert [row["rule"] for row in rows(crashed)] == ["checkpoint_behind"]


@pytest.mark.system
def test_a_default_size_file_without_a_header_has_the_default_geometry(tmp_path):
    """The remedy says no word of a geometry that nobody knows (F7)."""
    store = tmp_path / "store"
    (store / "index").mkdir(parents=True)
    (store / "commitlog").symlink_to(rmqindex.sample_store() / "commitlog")
    rebuild_index(store, store / "index")
    (path,) = (store / "index").iterdir()
    with path.open("r+b") as file:
        file.write(bytes(4096))
    rules = {row["rule"] for row in rows(store)}
    assert "index_count" in rules
    assert "geometry" not in rules
    assert rebuild_index(store, store / "index", replace=True).layout == Layout()
    assert "index_count" not in {row["rule"] for row in rows(store)}


def test_entries_behind_a_header_that_is_gone_are_damage(crashed):
    """Also where nothing tells the geometry any more."""
    for path in sorted((crashed / "index").iterdir())[1:]:
        path.unlink()
    (path,) = (crashed / "index").iterdir()
    with path.open("r+b") as file:
        file.write(bytes(40))
        file.truncate(path.stat().st_size - 12)
    assert "index_count" in {row["rule"] for row in rows(crashed)}


def test_a_killed_store_without_an_index_has_lost_it(crashed):
    """With the folder or without it: the broker starts, and indexes the last messages alone."""
    shutil.rmtree(crashed / "index")
    (row,) = rows(crashed)
    assert row["rule"] == "index_missing"
    (crashed / "index").mkdir()
    assert rows(crashed) == [row]
