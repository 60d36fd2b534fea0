"""What the audit finds, and that nothing that a reader uses escapes it."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import struct
from dataclasses import replace

import pytest
from tests.system.store_kinds import copy_store

import rmqindex
from commitlog_encoder import Log, Message, properties_text
from other_broker import running_broker
from permissions import mode_of
from recorded import MESSAGE_KINDS
from rmqindex import (
    AUDIT_RULES,
    FINDING_SCHEMA,
    CommitLog,
    IndexFile,
    IndexFileWriter,
    IndexHeader,
    Layout,
    RmqIndexError,
    StoreCheckpoint,
    key_hash,
    rebuild_index,
    salvage,
    verify,
)
from rmqindex.audit.findings import Findings
from rmqindex.transaction import BrokerLock, LocalStaging, Owner

LAYOUT = Layout(97, 200)
BEGIN = 1_700_000_000_000
GOLDEN2 = MESSAGE_KINDS / "store"


@pytest.fixture
def files(store):
    """Its IndexFiles, oldest first."""
    return sorted((store / "index").iterdir())


def write_header(path, **fields):
    """Change fields of a header."""
    with path.open("r+b") as file:
        header = replace(IndexHeader.from_bytes(file.read(40)), **fields)
        file.seek(0)
        file.write(header.to_bytes())


def write_int(path, offset, value):
    """Overwrite a 32-bit number."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(struct.pack(">i", value))


def read_int(path, offset):
    """Read a 32-bit number."""
    return struct.unpack_from(">i", path.read_bytes(), offset)[0]


def prev_byte(position):
    """Where an entry keeps the position of the next older one."""
    return LAYOUT.entry_offset(position) + 16


def found(path, commit_log=None, **arguments):
    """Return the findings that are more than information, by rule."""
    rules = {}
    for row in verify(path, commit_log, **arguments).to_pylist():
        if row["severity"] != "info":
            rules.setdefault(row["rule"], []).append(row)
    return rules


def every_finding(path, commit_log=None):
    """Return all findings as comparable rows."""
    return {tuple(row.values()) for row in verify(path, commit_log).to_pylist()}


class TestSoundStores:
    """What RocketMQ wrote is sound."""

    def test_the_sample_store_is_sound(self):
        """Steps of the clock and a late first entry are worth knowing, and no fault."""
        findings = verify(rmqindex.sample_store(), "auto")
        assert findings.schema == FINDING_SCHEMA
        assert set(findings["rule"].to_pylist()) == {"time_order", "first_entry_late"}
        assert set(findings["severity"].to_pylist()) == {"info"}

    def test_a_store_with_batches_delays_and_an_expired_head_is_sound(self):
        """Entries of the deleted head are told, and the others agree with their messages."""
        findings = verify(GOLDEN2, "auto")
        assert set(findings["rule"].to_pylist()) == {
            "time_order", "first_entry_late", "file_expired", "entry_expired",
        }  # fmt: skip

    def test_a_recovered_store_is_sound_by_itself(self, golden):
        """What the broker rebuilt after a crash keeps every rule of the format."""
        assert found(golden / "store_recovered" / "index") == {}

    def test_a_recovered_store_has_its_last_message_twice(self, golden, store):
        """The broker's re-dispatch begins with the message that the surviving file ends with."""
        shutil.rmtree(store / "index")
        shutil.copytree(golden / "store_recovered" / "index", store / "index")
        shutil.copy(golden / "store_recovered" / "checkpoint", store / "checkpoint")
        assert set(found(store, "auto")) <= {"entry_duplicate"}

    @pytest.mark.system
    def test_a_file_of_the_default_size_is_sound(self, default_size_file):
        """Five million slots and 300,000 entries."""
        assert found(default_size_file) == {}

    def test_an_index_without_files_is_missing_beside_its_log(self, store, files):
        """Nothing of the log is indexed."""
        for path in files:
            path.unlink()
        assert set(found(store, "auto")) == {"index_missing"}
        assert found(store / "index") == {}


class TestFlippedBytes:
    """A flipped byte is reported, or stands where no reader looks."""

    @staticmethod
    def unused(path):
        """Return the bytes that no reader uses: place 0, and the places behind the next one."""
        place_0 = range(LAYOUT.entry_offset(0), LAYOUT.entry_offset(1))
        count = IndexHeader.from_bytes(path.read_bytes()[:40]).index_count
        behind = range(LAYOUT.entry_offset(count + 1), LAYOUT.file_size)
        return {*place_0, *behind}

    @staticmethod
    def silent(path, places, sound):
        """Return the places of which the audit says nothing, first by the file's own bytes."""
        data = path.read_bytes()
        silent = []
        with CommitLog(path.parents[1]) as log:
            alone, beside_log = sound
            for place, mask in places:
                flipped = bytearray(data)
                flipped[place] ^= mask
                path.write_bytes(flipped)
                if every_finding(path) <= alone and every_finding(path, log) <= beside_log:
                    silent.append(place)
        path.write_bytes(data)
        return silent

    @pytest.mark.system
    def test_every_byte_of_a_file(self, store, files):
        """All 4,428 of them, each with all its bits flipped."""
        path = files[4]
        sound = every_finding(path), every_finding(path, CommitLog(store))
        places = [(place, 0xFF) for place in range(LAYOUT.file_size)]
        assert set(self.silent(path, places, sound)) == self.unused(path)

    @pytest.mark.system
    def test_random_bits_of_the_others(self, store, files):
        """One bit changed in random bytes."""
        chance = random.Random(20231114)
        for path in files[:4]:
            sound = every_finding(path), every_finding(path, CommitLog(store))
            places = [
                (chance.randrange(LAYOUT.file_size), 1 << chance.randrange(8)) for _ in range(300)
            ]
            assert set(self.silent(path, places, sound)) <= self.unused(path)

    def test_unused_bytes_change_no_answer(self, files, tmp_path):
        """With all of them flipped, scans, lookups and the broker's own search say the same."""
        path = files[4]
        changed = bytearray(path.read_bytes())
        for place in self.unused(path):
            changed[place] ^= 0xFF
        other = tmp_path / path.name
        other.write_bytes(changed)
        keys = [f"TopicTest#order-{number}" for number in range(200)]
        with IndexFile(path) as sound, IndexFile(other, LAYOUT) as harmless:
            for mine, theirs in zip(sound.scan(), harmless.scan(), strict=True):
                assert mine == theirs
            hashes = [*map(key_hash, keys), *range(97)]
            assert sound.lookup(hashes) == harmless.lookup(hashes)
            for key in keys:
                assert sound.select_phy_offset(key, 64, 0, 2**63 - 1) == harmless.select_phy_offset(
                    key, 64, 0, 2**63 - 1
                )


class TestOneFile:
    """Faults of a file by itself."""

    def test_a_circle_of_entries(self, files):
        """The broker would walk it for ever."""
        position = next(p for p in range(199, 0, -1) if read_int(files[0], prev_byte(p)) > 0)
        older = read_int(files[0], prev_byte(position))
        write_int(files[0], prev_byte(older), position)
        (finding,) = found(files[0])["chain_cycle"]
        assert finding["byte"] == prev_byte(older)
        assert (finding["file"], finding["got"]) == (str(files[0]), str(position))

    def test_an_entry_that_leads_to_a_newer_one_of_another_chain(self, files):
        """No circle, and yet no order."""
        heads = {read_int(files[0], LAYOUT.slot_offset(s)) for s in range(97)} - {0}
        position = next(p for p in range(1, 50) if p not in heads)
        write_int(files[0], prev_byte(position), max(heads) + 10)
        assert {"chain_order", "chain_cycle"} & set(found(files[0]))

    def test_an_entry_that_leads_into_another_chain(self, files):
        """What it should lead to is hidden."""
        position = next(p for p in range(199, 0, -1) if read_int(files[0], prev_byte(p)) > 0)
        sound = read_int(files[0], prev_byte(position))
        write_int(files[0], prev_byte(position), 1 if sound != 1 else 2)
        rules = found(files[0])
        assert rules["chain_cross_link"][0]["expected"] == f"{sound} (entry {position})"
        assert rules["entry_unreachable"][0]["byte"] == LAYOUT.entry_offset(sound)

    def test_an_entry_that_skips_older_ones(self, files):
        """The chain ends too early."""
        position = next(p for p in range(199, 0, -1) if read_int(files[0], prev_byte(p)) > 0)
        write_int(files[0], prev_byte(position), 0)
        assert set(found(files[0])) == {"chain_link", "entry_unreachable"}

    def test_slots(self, files):
        """Out of range, emptied, and with another slot's entry."""
        used = [s for s in range(97) if read_int(files[0], LAYOUT.slot_offset(s)) > 0]
        first, second, third = (LAYOUT.slot_offset(s) for s in used[:3])
        write_int(files[0], second, read_int(files[0], first))
        write_int(files[0], third, 0)
        write_int(files[0], first, -5)
        rules = found(files[0])
        assert rules["slot_range"][0]["byte"] == first
        assert rules["slot_cross_link"][0]["byte"] == second
        assert rules["slot_newest"][0]["byte"] == third

    def test_a_slot_left_by_a_kill(self, files):
        """It points at an entry that the header does not count; the broker takes it for empty."""
        slot = next(s for s in range(97) if read_int(files[4], LAYOUT.slot_offset(s)) == 0)
        write_int(files[4], LAYOUT.slot_offset(slot), 190)
        assert set(found(files[4])) == {"slot_uncounted"}

    @pytest.mark.requirement("IDX-SLT-3")
    @pytest.mark.parametrize("value", [200, 201, 2**31 - 1, -1])
    def test_an_unused_slot_with_no_position_of_the_file(self, files, value):
        """No kill leaves it, in a full file or in another; a search that meets it is refused."""
        for file in (files[0], files[4]):
            slot = next(s for s in range(97) if read_int(file, LAYOUT.slot_offset(s)) == 0)
            write_int(file, LAYOUT.slot_offset(slot), value)
            assert set(found(file, layout=LAYOUT)) == {"slot_range"}

    def test_an_entry_behind_the_count(self, files):
        """The entry was written, the slot and the header were not."""
        count = IndexHeader.from_bytes(files[4].read_bytes()[:40]).index_count
        write_int(files[4], LAYOUT.entry_offset(count), 1)
        assert set(found(files[4])) == {"uncounted_entries"}

    def test_a_header_that_counts_what_was_never_written(self, files):
        """All zeros are no entry, whatever the header says."""
        count = IndexHeader.from_bytes(files[4].read_bytes()[:40]).index_count
        write_header(files[4], index_count=count + 2)
        rules = found(files[4])
        assert len(rules["entry_unwritten"]) == 2
        assert "end_phy_offset" in rules

    def test_both_conventions_of_the_slot_count(self, files):
        """Before RocketMQ 4.7.1 the field rose with every put."""
        write_header(files[0], hash_slot_count=199)
        assert found(files[0]) == {}
        write_header(files[0], hash_slot_count=198)
        assert set(found(files[0])) == {"hash_slot_count"}

    def test_the_header_and_the_entries(self, files):
        """Each of the four ends is compared."""
        for field in ("begin_phy_offset", "end_phy_offset"):
            data = files[1].read_bytes()
            header = IndexHeader.from_bytes(data)
            write_header(files[1], **{field: getattr(header, field) + 1})
            assert set(found(files[1])) == {field}
            files[1].write_bytes(data)
        write_header(files[1], end_timestamp=0)
        assert set(found(files[1])) == {"end_timestamp"}

    def test_a_fault_that_two_checks_find_is_one_finding(self, files):
        """The last entry's seconds and its message's time both give the header's last time."""
        write_header(files[1], end_timestamp=7)
        assert len(found(files[1], "auto")["end_timestamp"]) == 1

    def test_a_short_file(self, files):
        """It is looked at as far as it goes."""
        os.truncate(files[0], 3000)
        rules = found(files[0], layout=LAYOUT)
        assert rules["file_size"][0]["got"] == "3000 bytes"

    def test_a_short_file_has_the_geometry_of_those_beside_it(self, files):
        """As the broker, which opens all with one, and fills it up with zeros."""
        os.truncate(files[4], LAYOUT.entry_offset(101) + 7)
        for path in (files[4], files[0].parent):
            rules = found(path)
            assert "geometry" not in rules
            assert "geometry_differs" not in rules
            (row,) = rules["file_size"]
            size = files[4].stat().st_size
            assert (row["file"], row["byte"]) == (str(files[4]), size)
            assert (row["expected"], row["got"]) == ("4428 bytes", f"{size} bytes")

    def test_a_long_file_has_the_geometry_of_those_beside_it(self, files):
        """No reader uses what is behind its last place."""
        with files[1].open("ab") as file:
            file.write(b"surplus")
        assert found(files[0].parent, "auto") == {}
        rules = verify(files[1], "auto")["rule"].to_pylist()
        assert "surplus_bytes" in rules

    def test_a_long_last_file_is_not_to_be_written_on(self, files):
        """A rebuild that goes on refuses it, and whole files are written without it."""
        store = files[0].parent.parent
        files[-1].unlink()
        with files[-2].open("ab") as file:
            file.write(b"surplus")
        rows = verify(store, "auto").to_pylist()
        (row,) = [row for row in rows if row["rule"] == "index_ends_early"]
        assert "rebuild STORE --replace" in row["remedy"]
        assert "--resume" not in row["remedy"]
        told = rmqindex.explain_lookup(store, "TopicTest", "absent", commit_log="auto")
        assert "--resume" not in str(told)

    def test_a_short_file_alone(self, files, tmp_path):
        """What its header counts is more than it can hold, in any geometry."""
        alone = tmp_path / "20231114221320000"
        alone.write_bytes(files[0].read_bytes()[:2000])
        (row,) = found(alone)["index_count"]
        assert (row["byte"], row["got"]) == (36, "200")

    def test_a_file_shorter_than_a_header(self, tmp_path):
        """There is nothing more to say of it."""
        (tmp_path / "20231114221320000").write_bytes(bytes(12))
        assert set(found(tmp_path)) == {"header_size"}

    def test_a_file_without_a_geometry(self, files, tmp_path):
        """No file beside it tells it either."""
        alone = tmp_path / "alone"
        alone.mkdir()
        shutil.copy(files[0], alone / "20231114221320000")
        with (alone / "20231114221320000").open("r+b") as file:
            file.seek(40)
            file.write(bytes(97 * 4))
        assert set(found(alone)) == {"geometry"}

    def test_the_files_beside_it_tell_the_geometry_of_a_damaged_one(self, files):
        """One of the same size that is sound is enough."""
        with files[2].open("r+b") as file:
            file.seek(40)
            file.write(bytes(97 * 4))
        rules = found(files[2])
        assert "geometry" not in rules
        assert len(rules["slot_newest"]) == len(rules["entry_unreachable"])

    def test_many_findings_of_one_rule_are_counted(self, files):
        """So many are shown, and one more row says how many there are."""
        with files[2].open("r+b") as file:
            file.seek(40)
            file.write(bytes(97 * 4))
        rows = found(files[2], max_findings=3)["slot_newest"]
        assert len(rows) == 4
        assert rows[3]["byte"] is None
        assert int(rows[3]["got"].split()[0]) > 3
        with pytest.raises(ValueError, match="max_findings"):
            verify(files[2], max_findings=0)

    def test_a_live_file_with_one_entry(self, tmp_path):
        """Its two times are one."""
        path = tmp_path / "20231114221320000"
        with IndexFileWriter(path, LAYOUT) as writer:
            writer.put("TopicTest#a", 0, 1_700_000_000_000)
        assert found(tmp_path) == {}
        write_header(path, end_timestamp=1_700_000_000_001)
        assert set(found(tmp_path)) == {"end_timestamp"}

    def test_times_before_1970_are_sound_where_the_log_has_them(self, tmp_path):
        """No rebuild would write others."""
        log = Log(1 << 16)
        for number in range(20):
            properties = properties_text([("KEYS", f"k{number}")])
            log.append(Message(properties=properties, store_timestamp=-5_000_000 + 1000 * number))
        log.write_to(tmp_path / "commitlog")
        rebuild_index(tmp_path / "commitlog", tmp_path / "index", Layout(11, 20))
        assert "begin_timestamp" not in found(tmp_path, "auto")
        assert "begin_timestamp" in found(tmp_path / "index", None)
        write_header(min((tmp_path / "index").iterdir()), begin_timestamp=-5_000_001)
        assert "begin_timestamp" in found(tmp_path, "auto")

    def test_a_path_may_be_relative(self, files, monkeypatch):
        """Files are named as the path names them."""
        monkeypatch.chdir(files[0].parent)
        write_header(files[0], hash_slot_count=-1)
        assert found(files[0].name)["hash_slot_count"][0]["file"] == files[0].name
        assert "hash_slot_count" in found(".", "auto")


class TestStore:
    """Faults of files beside each other and of what is around them."""

    def test_names(self, store, files):
        """A numeric directory stops the broker's loading; other names it skips."""
        (store / "index" / "7").mkdir()
        (store / "index" / "notes.txt").touch()
        shutil.copy(files[4], store / "index" / "99999999999999999999"[:18])
        findings = verify(store)
        assert {"directory_name", "foreign_name", "file_name"} <= set(findings["rule"].to_pylist())

    def test_files_in_the_wrong_order(self, files):
        """The broker goes by names."""
        aside = files[0].with_name("1")
        files[0].rename(aside)
        files[1].rename(files[0])
        aside.rename(files[1])
        (row,) = found(files[0].parent)["file_order"]
        assert (row["byte"], row["expected"], row["got"]) == (16, "offsets from 53564", "0")

    def test_a_name_before_all_others_hides_no_entries(self, files):
        """A clock that stepped back gives the newest file one; nothing of the log is missing."""
        earlier = files[0].with_name(str(int(files[0].name) - 1))
        files[4].rename(earlier)
        (row,) = found(files[0].parent, "auto").pop("file_order")
        assert row["file"] == str(files[0])
        assert "index_begins_late" not in found(files[0].parent, "auto")
        files[0].unlink()
        assert "index_begins_late" in found(files[0].parent, "auto")

    def test_files_of_two_geometries(self, files):
        """A broker opens all with one."""
        path = files[0].with_name("20991231235959999")
        with IndexFileWriter(path, Layout(11, 20), 122_928, 1_700_022_861_666) as writer:
            writer.put("TopicTest#a", 122_928, 1_700_022_861_666)
        rules = {"geometry_differs", "checkpoint_behind", "file_name_ahead"}
        assert set(found(files[0].parent)) == rules

    def test_a_last_file_without_entries(self, files):
        """It has the end of the file before it."""
        path = files[0].with_name("20991231235959999")
        last = IndexHeader.from_bytes(files[4].read_bytes()[:40])
        with IndexFileWriter(path, LAYOUT, last.end_phy_offset, last.end_timestamp):
            pass
        (files[0].parents[1] / "checkpoint").unlink()
        assert set(found(files[0].parent)) == {"checkpoint_missing"}
        write_header(path, end_timestamp=5)
        rules = found(files[0].parent)
        assert set(rules) == {"checkpoint_missing", "inherited_header"}
        assert rules["inherited_header"][0]["severity"] == "error"

    def test_the_checkpoint(self, store):
        """Full files that end after it would be deleted after a crash."""
        checkpoint = StoreCheckpoint.load(store / "checkpoint")
        replace(checkpoint, index_msg_timestamp=0).save(store / "checkpoint")
        assert set(found(store)) == {"checkpoint_behind"}
        replace(checkpoint, index_msg_timestamp=2**60).save(store / "checkpoint")
        assert set(found(store)) == {"checkpoint_ahead"}
        (store / "checkpoint").write_bytes(bytes(8))
        assert set(found(store)) == {"checkpoint_size", "checkpoint_behind"}
        (store / "checkpoint").unlink()
        assert set(found(store)) == {"checkpoint_missing"}

    def test_a_checkpoint_of_the_time_before_a_clock_stepped_back_is_sound(self, tmp_path):
        """The header has the time of the last entry, and the checkpoint that of an older one."""
        path = tmp_path / "index" / "20231114221320000"
        path.parent.mkdir()
        with IndexFileWriter(path, LAYOUT) as writer:
            for place, time in enumerate((BEGIN, BEGIN + 7_000_500, BEGIN + 1)):
                writer.put(f"T#{place}", 100 * place, time)
        for time, expected in ((7_000_500, set()), (7_001_000, {"checkpoint_ahead"})):
            StoreCheckpoint(index_msg_timestamp=BEGIN + time).save(tmp_path / "checkpoint")
            assert set(found(tmp_path)) == expected

    def test_abort(self, store):
        """The broker was killed, and loses nothing when it starts."""
        (store / "abort").touch()
        assert found(store) == {}
        assert "abort_present" in verify(store)["rule"].to_pylist()

    def test_abort_of_a_running_broker(self, store):
        """It is there while a broker runs, and worth no word."""
        with running_broker(store):
            assert found(store) == {}
            rules = verify(store)["rule"].to_pylist()
        assert "lock_held" in rules
        assert "abort_present" not in rules

    def test_the_lock_of_another_machine(self, store):
        """It tells no process, as where the broker is in another container, and is held."""
        with (store / "lock").open("wb") as lock:
            first_byte = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
            fcntl.fcntl(lock, fcntl.F_OFD_SETLK, first_byte)
            held = [row for row in verify(store).to_pylist() if row["rule"] == "lock_held"]
        assert [row["got"] for row in held] == ["a process of another machine"]

    def test_the_lock_of_one_who_writes(self, store):
        """It is told apart from a broker's: the process that writes may be this one."""
        with BrokerLock.of(store).hold():
            held = [row for row in verify(store).to_pylist() if row["rule"] == "lock_held"]
        expected = f"process {os.getpid()}, by which rmqindex is writing"
        assert [row["got"] for row in held] == [expected]

    def test_an_unfinished_write(self, store):
        """A journal stands while a commit has not finished."""
        staging = store / ".index.rmqindex"
        (staging / "job").mkdir(parents=True)
        (staging / "journal.json").write_text(
            '{"job": "job", "created": false, "old": [], "new": []}'
        )
        assert set(found(store)) == {"unfinished_write"}

    def test_a_log_that_lost_all_its_files(self, tmp_path):
        """Where no entry and no unit leads to it, the checkpoint tells."""
        data = tmp_path / "dledger-n0" / "data"
        data.mkdir(parents=True)
        StoreCheckpoint().save(tmp_path / "checkpoint")
        assert "log_unreadable" not in verify(tmp_path, "auto")["rule"].to_pylist()
        StoreCheckpoint(physic_msg_timestamp=BEGIN).save(tmp_path / "checkpoint")
        assert "log_unreadable" in verify(tmp_path, "auto")["rule"].to_pylist()

    def test_what_a_dead_job_left(self, store):
        """The process that staged files is no more; a job that runs is no finding."""
        job = LocalStaging.create(store / "index", Owner.current())
        assert found(store) == {}
        (job.path / "owner.json").unlink()
        assert set(found(store)) == {"unfinished_write"}

    def test_a_path_that_is_not_there(self, tmp_path):
        """That is an error, not a finding."""
        with pytest.raises(RmqIndexError, match="no such file"):
            verify(tmp_path / "nothing")


class TestAgainstTheLog:
    """What only the CommitLog tells."""

    def test_a_hash_of_another_key_of_the_same_slot(self, store, files):
        """By itself the file is sound."""
        byte = LAYOUT.entry_offset(50)
        write_int(files[0], byte, read_int(files[0], byte) + 97)
        assert found(files[0]) == {}
        rules = found(files[0], store / "commitlog")
        assert rules["entry_hash"][0]["byte"] == byte
        assert "key_missing" in rules

    def test_a_time_that_is_a_second_off(self, store, files):
        """By itself it is plausible."""
        byte = LAYOUT.entry_offset(50) + 12
        write_int(files[0], byte, read_int(files[0], byte) + 1)
        assert found(files[0]) == {}
        assert set(found(files[0], CommitLog(store))) == {"time_diff"}

    def test_an_offset_inside_a_message(self, files):
        """No message starts there."""
        offset = struct.unpack_from(">q", files[0].read_bytes(), LAYOUT.entry_offset(50) + 4)[0]
        write_int(files[0], LAYOUT.entry_offset(50) + 8, offset + 1)
        assert "entry_dangling" in found(files[0], "auto")

    def test_a_file_that_is_gone(self, store, files):
        """Its messages are one gap, named by the file before."""
        files[2].unlink()
        (finding,) = found(store, "auto")["coverage_gap"]
        assert finding["file"] == str(files[1])
        assert "none of" in finding["got"]

    def test_a_last_file_that_is_gone(self, store, files):
        """The broker stopped cleanly, so its newest messages were indexed once."""
        files[4].unlink()
        (finding,) = found(store, "auto")["index_ends_early"]
        assert "messages from" in finding["got"]

    def test_a_first_file_that_is_gone(self, store, files):
        """The log begins before the index, which loses no file before the log does."""
        files[0].unlink()
        (finding,) = found(store, "auto")["index_begins_late"]
        assert finding["got"].startswith("none of ")

    def test_the_stop_barrier(self, store, files):
        """A broker that lost the log's end skips messages until the log has passed the index."""
        with (store / "commitlog" / "00000000000000065536").open("r+b") as log:
            log.truncate(20_000)
            log.truncate(65_536)
        rules = found(store, "auto")
        assert rules["stop_barrier"][0]["file"] == str(files[4])
        assert "entry_beyond_log" in rules or "entry_dangling" in rules

    @pytest.mark.parametrize("left", [None, 0, 65_536])
    def test_an_empty_log_is_a_stop_barrier(self, store, files, left):
        """A broker begins it anew at 0, and skips messages until it has passed the index."""
        for path in (store / "commitlog").iterdir():
            path.unlink()
        if left is not None:
            (store / "commitlog" / f"{0:020d}").write_bytes(bytes(left))
        rules = found(store, "auto")
        assert rules["stop_barrier"][0]["expected"] == "0: the CommitLog is empty"
        assert rules["stop_barrier"][0]["file"] == str(files[4])
        assert "entry_beyond_log" in rules

    def test_a_damaged_log(self, store):
        """Entries into a log file that is not there, and into bytes that are no message."""
        (store / "commitlog" / "00000000000000000000").rename(store / "commitlog" / "old")
        assert "file_expired" in verify(store, "auto")["rule"].to_pylist()
        (store / "commitlog" / "old").rename(store / "commitlog" / "00000000000000000000")
        with (store / "commitlog" / "00000000000000000000").open("r+b") as log:
            log.seek(30_000)
            log.write(bytes(200))
        rules = found(store, "auto")
        assert {"log_damaged", "entry_dangling"} <= set(rules)

    def test_a_log_that_is_not_there(self, store):
        """Asked for by name it is an error; found by itself it is just not there."""
        shutil.rmtree(store / "commitlog")
        assert found(store, "auto") == {}
        with pytest.raises(RmqIndexError, match="no such file"):
            verify(store, store / "commitlog")


class TestSalvage:
    """Entries of damaged files."""

    def test_a_sound_file_is_read_as_it_is(self, files):
        """Salvage and scan say the same."""
        with IndexFile(files[0]) as file:
            assert list(salvage(files[0])) == list(file.scan())

    def test_entries_behind_broken_links_and_slots_are_kept(self, files):
        """Their own bytes are good."""
        with IndexFile(files[0]) as file:
            (sound,) = file.scan(columns=["key_hash", "phy_offset", "store_timestamp"])
        for position in range(1, 200):
            write_int(files[0], prev_byte(position), 10_000)
        for slot in range(97):
            write_int(files[0], LAYOUT.slot_offset(slot), -1)
        (saved,) = salvage(files[0], LAYOUT)
        assert saved.select(sound.schema.names) == sound

    def test_what_cannot_be_an_entry_is_left_out(self, files):
        """A negative hash, offset or time."""
        write_int(files[0], LAYOUT.entry_offset(5), -1)
        write_int(files[0], LAYOUT.entry_offset(6) + 4, -1)
        write_int(files[0], LAYOUT.entry_offset(7) + 12, -1)
        (saved,) = salvage(files[0], LAYOUT)
        assert sorted(set(range(1, 200)) - set(saved["position"].to_pylist())) == [5, 6, 7]

    def test_entries_behind_the_count_are_read_if_asked_for(self, files):
        """After a kill the header may count less than was written."""
        header = IndexHeader.from_bytes(files[4].read_bytes()[:40])
        write_header(files[4], index_count=header.index_count - 20)
        (less,) = salvage(files[4], LAYOUT)
        (all_,) = salvage(files[4], LAYOUT, uncounted=True)
        assert len(all_) == len(less) + 20 == header.entry_count

    def test_a_short_file_is_read_as_far_as_it_goes(self, files):
        """And one shorter than a header is an error."""
        os.truncate(files[0], LAYOUT.entry_offset(10) + 3)
        (saved,) = salvage(files[0], LAYOUT)
        assert saved["position"].to_pylist() == list(range(1, 10))
        os.truncate(files[0], 39)
        with pytest.raises(RmqIndexError, match="header at byte 0: expected 40 bytes"):
            list(salvage(files[0], LAYOUT))


class TestRules:
    """The table of rules."""

    def test_names_are_unique_and_say_something(self):
        """Each rule has a severity and a sentence."""
        names = [rule.name for rule in AUDIT_RULES]
        assert len(set(names)) == len(names)
        for rule in AUDIT_RULES:
            assert rule.severity in {"error", "warning", "info"}
            assert rule.meaning.endswith(".")

    def test_findings_name_rules_of_the_table(self):
        """A rule that is not there cannot be reported."""
        with pytest.raises(AssertionError):
            Findings(1).add("file", "no_such_rule", None, "", "")


@pytest.mark.parametrize("log", [(), ("auto",)], ids=["index", "with its log"])
def test_a_checkpoint_that_cannot_be_read_is_one_finding(tmp_path, log):
    """The rest of the store is audited all the same, and nothing is said of what it may hold."""
    shutil.copytree(rmqindex.sample_store(), tmp_path / "store")
    checkpoint = tmp_path / "store" / "checkpoint"
    (tmp_path / "store" / "abort").touch()
    of_it = ("restart_loses", "restart_rebuilds", "checkpoint_behind", "checkpoint_ahead")
    before = [
        row for row in verify(tmp_path / "store", *log).to_pylist() if row["rule"] not in of_it
    ]
    with mode_of(checkpoint, 0):
        *others, found = sorted(
            verify(tmp_path / "store", *log).to_pylist(),
            key=lambda row: row["rule"] == "unreadable",
        )
    assert [row for row in before if row["rule"] != "abort_present"] == others
    assert (found["file"], found["rule"]) == (str(checkpoint), "unreadable")
    assert found["got"] == f"{checkpoint}: cannot be read: Permission denied"


@pytest.mark.parametrize("committed", [0, 119])
def test_messages_on_which_no_group_agreed_are_not_missing_in_an_index(tmp_path, committed):
    """A rebuild leaves them out, so that no command would clear the finding."""
    store = copy_store("dledger", tmp_path / "store")
    for file in (store / "index").iterdir():
        file.unlink()
    checkpoint = store / "dledger-n0" / "checkpoint"
    checkpoint.write_text(f"committedIndex={committed}\nendIndex=119\n")
    with CommitLog(store) as log:
        agreed = log.committed_offset
    expected = [
        row["expected"]
        for row in verify(store, "auto").to_pylist()
        if row["rule"].startswith("index_")
    ]
    assert expected == [f"entries of the messages with keys from 48 to {agreed}"]
    rebuild_index(store, store / "index", Layout(97, 200))
    rules = {row["rule"] for row in verify(store, "auto").to_pylist()}
    assert rules.isdisjoint({"index_missing", "index_behind", "index_ends_early"})
