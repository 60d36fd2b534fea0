"""Logs in DLedger's entries: what RocketMQ wrote is read whole, and DLedger's recovery decides.

RocketMQ's own classes wrote the stores, see ``tests/data/store_kinds``; other states are made from
them.
"""

import json
import random
import shutil
import struct
import zlib
from itertools import pairwise

import pytest
from tests.system.store_kinds import copy_store, told

import rmqindex
from commitlog_encoder import Message
from dledger_encoder import DLedgerLog
from permissions import mode_of
from remote_stores import under_uri
from rmqindex import (
    CommitLog,
    CorruptCommitLogError,
    RmqIndexError,
    rebuild_consume_queues,
    rebuild_index,
    verify,
)
from rmqindex.commitlog import LogMark, LogSnapshot, follow, walk
from rmqindex.commitlog.end import UnagreedTail
from rmqindex.export import export_messages
from rmqindex.storage import Location, Storage, from_json, to_json

KINDS = ("dledger", "dledger_after_plain", "dledger_batches")
HEAD = struct.Struct(">iiqqqiiii")
INDEX_UNIT = struct.Struct(">iqiqq")
FILE_SIZE = 10 * 1024


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    """Return a copy of each golden store with DLedger, with its kind as its parent's name."""
    return copy_store(request.param, tmp_path / request.param)


@pytest.fixture
def data(tmp_path):
    """Return the data folder of a store with three files of DLedger."""
    return copy_store("dledger", tmp_path) / "dledger-n0" / "data"


def stored(store):
    """Return the offsets of the messages that RocketMQ stored."""
    return [message[0] for message in told(store.parent.name)["messages"]]


def offsets_of(path, **options):
    """Return the offsets of the messages that a scan gives."""
    with CommitLog(path) as log:
        return [
            offset
            for batch in log.scan(columns=["phy_offset"], **options)
            for offset in batch["phy_offset"].to_pylist()
        ]


def entries(file):
    """Return position and head of each entry of a file."""
    content, at, found = file.read_bytes(), 0, []
    while at + HEAD.size <= len(content):
        head = HEAD.unpack_from(content, at)
        if head[0] == -1 or head[1] == 0:
            break
        found.append((at, head))
        at += head[1]
    return found


def write(file, at, content):
    """Write bytes into a file."""
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(content)


def with_head(file, at, **fields):
    """Change fields of the head of an entry."""
    names = ("magic", "size", "index", "term", "pos", "channel", "chain", "crc", "body")
    head = dict(zip(names, HEAD.unpack_from(file.read_bytes(), at), strict=True))
    write(file, at, HEAD.pack(*{**head, **fields}.values()))


def with_term(data, file, at, term):
    """Let another leader have written an entry: its head, and DLedger's own index."""
    with_head(file, at, term=term)
    magic, size, index, _, pos, *_ = HEAD.unpack_from(file.read_bytes(), at)
    place = index * INDEX_UNIT.size
    unit = next(
        each
        for each in (data.parent / "index").iterdir()
        if int(each.name) <= place < int(each.name) + each.stat().st_size
    )
    write(unit, place - int(unit.name), INDEX_UNIT.pack(magic, pos, size, index, term))


def undispatch(store):
    """Take index and queues away, which tell what the broker has dispatched."""
    for name in ("index", "consumequeue"):
        shutil.rmtree(store / name, ignore_errors=True)


def note(data, committed):
    """Note up to which entry the group agreed, as a broker does."""
    text = f"committedIndex={committed}\nendIndex=119\n"
    (data.parent / "checkpoint").write_text(text)


class TestReading:
    """What a store of RocketMQ holds."""

    def test_every_message_is_read_with_its_own_offset(self, store):
        """In order, with sound CRCs."""
        assert offsets_of(store, check_crc=True) == stored(store)

    def test_records_are_those_that_consumers_got(self, tmp_path):
        """Batches too: each message has an entry of its own."""
        store = copy_store("dledger_batches", tmp_path)
        read = dict(told("dledger_batches")["read"])
        with CommitLog(store) as log:
            rows = log.read_at(list(read), ["phy_offset", "size"]).to_pylist()
            for row in rows:
                file = next(f for f in log.files if f.start <= row["phy_offset"] < f.stop)
                record = log.source(file).read(row["phy_offset"] - file.start, row["size"])
                assert zlib.crc32(record) == read[row["phy_offset"]]
        assert len(rows) == 160

    def test_the_log_ends_behind_its_last_entry(self, store):
        """As the broker's ``getMaxOffset`` has it, and without a gap between its parts."""
        with CommitLog(store) as log:
            (last,) = log.read_at([stored(store)[-1]], ["size"])["size"].to_pylist()
            assert log.max_offset == log.committed_offset == stored(store)[-1] + last
            assert log.gaps == ()
            assert log.mapped_file_size == FILE_SIZE

    def test_offsets_are_answered_exactly(self, store):
        """An entry's own place is not that of its record."""
        with CommitLog(store) as log:
            offsets = stored(store)
            assert set(log.read_at(offsets, ["size"])["state"].to_pylist()) == {"record"}
            heads = [offset - HEAD.size for offset in offsets[-50:]]
            assert set(log.read_at(heads, ["size"])["state"].to_pylist()) == {"not_a_record"}
            assert log.read_at([log.max_offset], ["size"])["state"].to_pylist() == ["beyond_end"]

    @pytest.mark.parametrize("size", [1, 500, 3000])
    def test_parts_between_boundaries_make_up_the_whole(self, store, size):
        """Wherever a file is cut."""
        with CommitLog(store) as log:
            cuts = [cut for file in log.files for cut in log.record_boundaries(file, size)]
            parts = zip(cuts, [*cuts[1:], log.max_offset], strict=True)
            found = [
                offset
                for start, stop in parts
                for batch in log.scan(start, stop, ["phy_offset"], at_boundaries=True)
                for offset in batch["phy_offset"].to_pylist()
            ]
        assert found == stored(store)

    def test_a_range_is_given_by_offsets_of_messages(self, store):
        """As everywhere."""
        offsets = stored(store)
        assert offsets_of(store, start=offsets[-30], stop=offsets[-3]) == offsets[-30:-3]

    def test_each_file_knows_its_first_time(self, store):
        """That of the record in its first entry."""
        with CommitLog(store) as log:
            rows = [row for batch in log.scan() for row in batch.to_pylist()]
            times = {row["phy_offset"]: row["store_timestamp"] for row in rows}
            for file in log.files:
                first = min(offset for offset in times if offset >= file.start)
                assert log.first_store_timestamp(file) == times[first]

    def test_a_remote_store_is_read_the_same(self, store, monkeypatch):
        """Whole, at points, and up to where the group agreed."""
        remote = under_uri(monkeypatch, store)
        assert offsets_of(remote) == stored(store)
        with CommitLog(remote) as log, CommitLog(store) as local:
            assert log.committed_offset == local.max_offset
            assert log.read_at(stored(store), ["body"]).equals(
                local.read_at(stored(store), ["body"])
            )

    def test_a_snapshot_keeps_how_files_are_framed(self, store):
        """Also as JSON, for other processes."""
        snapshot = LogSnapshot.of(str(store))
        told = json.loads(json.dumps(to_json(snapshot)))
        again = from_json(LogSnapshot, told, {Location: Storage().at})
        assert again == snapshot
        assert offsets_of(again.files_now()) == stored(store)

    def test_two_brokers_in_one_store_are_refused(self, data):
        """Their logs are copies of one another."""
        other = data.parents[1] / "dledger-n1" / "data"
        other.mkdir(parents=True)
        (other / f"{0:020d}").write_bytes((data / f"{0:020d}").read_bytes())
        with pytest.raises(RmqIndexError, match=r"of one DLedger broker, got .*n0.data and"):
            CommitLog(data.parents[1])
        assert len(offsets_of(other, mode="DROPMALFORMED")) == 53

    def test_a_log_that_lost_all_its_files_is_a_log(self, data):
        """So that an audit asks for its messages."""
        for file in data.iterdir():
            file.unlink()
        rules = set(rmqindex.verify(data.parents[1], "auto")["rule"].to_pylist())
        assert {"log_unreadable", "queue_beyond_log"} <= rules


class TestEntriesWithoutMessages:
    """What DLedger writes between messages."""

    @pytest.mark.parametrize("magic", [2, 3])
    def test_control_entries_are_passed_over(self, data, magic):
        """No-ops and changes of the group, in the middle, at the end and before a boundary."""
        first, last = min(data.iterdir()), max(data.iterdir())
        at, head = entries(first)[20]
        body = b"\0" * (head[-1] - HEAD.size)
        write(first, at, HEAD.pack(magic, HEAD.size + len(body), *head[2:-1], len(body)) + body)
        # The rest of the old entry is one more, so that the indexes go on from there.
        rest = at + HEAD.size + len(body)
        write(first, rest, HEAD.pack(magic, HEAD.size, head[2] + 1, 0, rest, 0, 0, 0, 0))
        for place, each in entries(first)[22:]:
            with_head(first, place, index=each[2] + 1)
        end, tail = entries(last)[-1]
        end += tail[1]
        write(last, end, HEAD.pack(magic, HEAD.size, tail[2] + 1, 0, 20480 + end, 0, 0, 0, 0))
        wanted = [message[0] for message in told("dledger")["messages"]]
        wanted.remove(at + HEAD.size)
        assert offsets_of(data) == wanted
        with CommitLog(data) as log:
            assert log.max_offset == 20480 + end + HEAD.size
            for file in log.files:
                cuts = [*log.record_boundaries(file, 1), min(file.stop, log.max_offset)]
                for start, stop in pairwise(cuts):
                    assert len(list(log.scan(start, stop, ["size"], at_boundaries=True))) <= 1
            assert log.committed_offset < follow(log, 0, stop=None).end + HEAD.size

    def test_who_stopped_behind_one_goes_on_there(self, tmp_path):
        """The mark is of the message before it, whose entry has a smaller index."""
        log = DLedgerLog(2_000)
        first = log.append(Message())
        for _ in range(2):
            log.noop()
        data = log.write_to(tmp_path / "dledger-n0" / "data")
        with CommitLog(data) as opened:
            progress = follow(opened, 0)
        assert (progress.end, progress.last.phy_offset) == (log.end, first)
        second = log.append(Message())
        log.write_to(tmp_path / "dledger-n0" / "data")
        with CommitLog(data) as opened:
            then = follow(opened, progress.end, last=progress.last)
        assert (then.end, then.last.phy_offset) == (log.end, second)

    def test_a_blank_before_the_first_entry_is_passed_over(self, data):
        """A snapshot blanks what is before it in its file."""
        first = min(data.iterdir())
        at, _ = entries(first)[10]
        write(first, 0, struct.pack(">ii", -1, at))
        assert offsets_of(data) == [message[0] for message in told("dledger")["messages"]][10:]


class TestDamage:
    """Places without a sound entry before the log's end."""

    @pytest.mark.parametrize(
        ("field", "value", "byte", "expected"),
        [
            ("magic", 7, 0, "one of 1, 2, 3"),
            ("size", 5, 4, "48 to "),
            ("index", 99, 8, "30"),
            ("term", -1, 16, "at least 0"),
            ("pos", 5, 24, "pos at byte"),
            ("body", 5, 44, "the size without the head"),
        ],
    )
    def test_a_damaged_head_is_named_with_its_byte(self, data, field, value, byte, expected):
        """And skipped with its message alone, if that is asked for."""
        file = min(data.iterdir())
        at, _ = entries(file)[30]
        with_head(file, at, **{field: value})
        with pytest.raises(CorruptCommitLogError, match=expected) as caught:
            offsets_of(data)
        name = "body_size" if field == "body" else field
        assert (caught.value.path, caught.value.field) == (str(file), name)
        assert caught.value.byte == at + byte
        wanted = [message[0] for message in told("dledger")["messages"]]
        wanted.remove(at + HEAD.size)
        faults = []
        found = offsets_of(data, mode="DROPMALFORMED", on_malformed=faults.append)
        assert found == wanted
        assert [fault.byte for fault in faults] == [at + byte]

    def test_an_entry_with_a_damaged_index_is_passed_over_by_who_follows_the_log(self, data):
        """Its record is whole, and still not counted."""
        file = min(data.iterdir())
        at, _ = entries(file)[30]
        with_head(file, at, index=99)
        wanted = [message[0] for message in told("dledger")["messages"]]
        wanted.remove(at + HEAD.size)
        with CommitLog(data) as log:
            progress = follow(log, 0, max_records=40, mode="DROPMALFORMED")
        assert progress.last is not None
        assert progress.last.phy_offset == wanted[39]

    def test_a_damaged_record_is_named_with_its_byte(self, data):
        """Not with that of its entry."""
        file = min(data.iterdir())
        at, _ = entries(file)[30]
        write(file, at + HEAD.size + 28, b"\xff" * 8)
        with pytest.raises(CorruptCommitLogError) as caught:
            offsets_of(data)
        assert (caught.value.field, caught.value.byte) == ("physical_offset", at + HEAD.size + 28)
        assert len(offsets_of(data, mode="DROPMALFORMED")) == 119

    def test_a_body_with_a_wrong_crc_is_found(self, data):
        """By the record's own CRC; DLedger computes none."""
        file = min(data.iterdir())
        at, _ = entries(file)[30]
        write(file, at + HEAD.size + 88, b"B")
        assert len(offsets_of(data)) == 120
        with pytest.raises(CorruptCommitLogError) as caught:
            offsets_of(data, check_crc=True)
        assert (caught.value.field, caught.value.byte) == ("body_crc", at + HEAD.size + 8)

    def test_a_log_is_known_by_its_other_files(self, data):
        """Where the first one begins with damage."""
        write(min(data.iterdir()), 0, b"\xee" * 60)
        assert len(offsets_of(data, mode="DROPMALFORMED")) == 119

    def test_damage_in_the_last_file_is_told_from_its_end(self, data):
        """By a later entry behind it."""
        file = max(data.iterdir())
        at, _ = entries(file)[5]
        write(file, at + 8, b"\xff" * 8)
        with pytest.raises(CorruptCommitLogError):
            offsets_of(data)
        assert len(offsets_of(data, mode="DROPMALFORMED")) == 119


class TestRemains:
    """What another leader truncated stays behind the log's end, since DLedger writes no zeros."""

    @pytest.fixture
    def data(self, data):
        """Return the folder of a log whose group had not agreed on its last entries."""
        note(data, 105)
        undispatch(data.parents[1])
        return data

    def test_entries_of_an_older_term_end_the_log(self, data):
        """Though they stand exactly where the next entry would, with the next index."""
        file = max(data.iterdir())
        for place, _ in entries(file)[:9]:
            with_term(data, file, place, 3)
        wanted = [message[0] for message in told("dledger")["messages"]][: 106 + 9]
        assert offsets_of(data) == wanted
        with CommitLog(data) as log:
            assert log.max_offset == 20480 + entries(file)[9][0]
            (data.parent / "checkpoint").unlink()
            progress = follow(log, 0)
            assert progress.end == log.max_offset
            # A later batch begins there, and knows the entry before.
            assert follow(log, progress.end, last=progress.last) == progress

    def test_a_term_that_is_greater_than_in_the_index_is_damage(self, data):
        """Else sound entries behind it would be taken for an older leader's."""
        file = max(data.iterdir())
        wanted = [message[0] for message in told("dledger")["messages"]]
        place, _ = entries(file)[3]
        with_head(file, place, term=1 << 40)
        with pytest.raises(CorruptCommitLogError, match=r"term at byte.*as in DLedger's") as raised:
            offsets_of(data)
        assert raised.value.byte == place + 16
        assert offsets_of(data, mode="DROPMALFORMED") == wanted
        told_of = []
        with CommitLog(data) as log:
            for _ in log.records(mode="DROPMALFORMED", on_malformed=told_of.append):
                pass
            (data.parent / "checkpoint").unlink()
            assert follow(log, 0, mode="DROPMALFORMED").end == log.max_offset
        assert [(error.field, error.byte) for error in told_of] == [("term", place + 16)]

    @pytest.mark.parametrize("number", [-1, -2])
    @pytest.mark.parametrize("index", [0, 1 << 40])
    def test_another_index_than_in_dledgers_own_is_damage(self, data, index, number):
        """In the first entry of a file nothing before it tells so, and the next one looks older."""
        file = sorted(data.iterdir())[number]
        wanted = [message[0] for message in told("dledger")["messages"]]
        with_head(file, 0, index=index)
        with pytest.raises(CorruptCommitLogError, match=r"index at byte 8.*as in DLedger's"):
            offsets_of(data)
        told_of = []
        assert offsets_of(data, mode="DROPMALFORMED", on_malformed=told_of.append) == wanted
        assert [(error.field, error.byte) for error in told_of] == [("index", 8)]

    @pytest.mark.parametrize("has_index", [True, False])
    def test_before_the_last_file_a_greater_term_hides_no_message(self, data, has_index):
        """Without DLedger's own index it is the next entry that is named."""
        if not has_index:
            shutil.rmtree(data.parent / "index")
        file = sorted(data.iterdir())[-2]
        wanted = [message[0] for message in told("dledger")["messages"]]
        (place, _), (behind, _) = entries(file)[3:5]
        with_head(file, place, term=1 << 40)
        with pytest.raises(CorruptCommitLogError) as raised:
            offsets_of(data)
        assert raised.value.byte == (place if has_index else behind) + 16
        assert offsets_of(data, mode="DROPMALFORMED") == wanted

    def test_entries_of_an_older_index_end_the_log(self, data):
        """Whatever the clock of their leader was."""
        file = max(data.iterdir())
        for place, head in entries(file)[4:]:
            with_head(file, place, index=head[2] - 50)
        assert len(offsets_of(data)) == 106 + 4

    def test_a_leader_whose_clock_is_behind_is_no_damage(self, data):
        """The order of entries counts, not their store times."""
        file = max(data.iterdir())
        at, _ = entries(file)[5]
        write(file, at + 8, b"\xff" * 8)  # damage
        for place, _ in entries(file)[6:]:
            write(file, place + HEAD.size + 56, struct.pack(">q", 1_000))
        with pytest.raises(CorruptCommitLogError):
            offsets_of(data)


class TestAgreement:
    """How much of the log the group has agreed on, by what the broker noted."""

    @pytest.fixture
    def data(self, data):
        """Return the folder of a log of which nothing was dispatched."""
        undispatch(data.parents[1])
        return data

    @pytest.mark.parametrize("has_index", [True, False], ids=["index", "walk"])
    @pytest.mark.parametrize("committed", [0, 52, 53, 110, 119])
    def test_it_ends_behind_the_entry_that_the_broker_noted(self, data, committed, has_index):
        """By DLedger's own index, or by the entries."""
        note(data, committed)
        if not has_index:
            min((data.parent / "index").iterdir()).unlink()
        offsets = [message[0] for message in told("dledger")["messages"]]
        with CommitLog(data) as log:
            last = offsets[committed]
            (size,) = log.read_at([last], ["size"])["size"].to_pylist()
            assert log.committed_offset == last + size

    @pytest.mark.parametrize("has_index", [True, False], ids=["index", "walk"])
    @pytest.mark.parametrize("noted", [119, 500])
    def test_an_agreed_entry_behind_the_log_is_a_loss(self, data, noted, has_index, tmp_path):
        """Whether DLedger's own index tells where it was, or only that the entries end before."""
        note(data, noted)
        if not has_index:
            shutil.rmtree(data.parent / "index")
        max(data.iterdir()).unlink()
        store = data.parents[1]
        offsets = [message[0] for message in told("dledger")["messages"]]
        with CommitLog(store) as log:
            assert log.unagreed_tail() is None
            assert log.agreed_stop() > log.max_offset
            writers = {
                "scan": lambda _where: list(log.scan()),
                "index": lambda where: rebuild_index(log, where, layout=rmqindex.Layout(97, 200)),
                "queues": lambda where: rebuild_consume_queues(store, where),
                "export": lambda where: export_messages(log, where),
                "stream": lambda _where: follow(log, log.min_offset),
            }
            for name, write in writers.items():
                with pytest.raises(CorruptCommitLogError, match="dledger-n0 leads to a message"):
                    write(tmp_path / name)
            faults = []
            found = offsets_of(store, mode="DROPMALFORMED", on_malformed=faults.append)
            assert len(found) == sum(offset < log.max_offset for offset in offsets)
            assert len(faults) == 1
        rmqindex.rebuild_index(
            store, store / "index", layout=rmqindex.Layout(97, 200), mode="DROPMALFORMED"
        )
        assert "log_damaged" in verify(store, "auto")["rule"].to_pylist()

    @pytest.mark.parametrize("has_index", [True, False], ids=["index", "walk"])
    def test_an_agreed_entry_without_a_message_may_be_the_last(self, has_index, tmp_path):
        """As one that a new leader begins with."""
        log = DLedgerLog(2_000)
        for _ in range(9):
            log.append(Message(body=bytes(300)))
        log.noop()
        store = tmp_path
        data = log.write_to(store / "dledger-n0" / "data")
        if has_index:
            index = data.parent / "index" / f"{0:020d}"
            index.parent.mkdir()
            units = bytes(9 * INDEX_UNIT.size) + INDEX_UNIT.pack(
                2, log.end - HEAD.size, HEAD.size, 9, 0
            )
            index.write_bytes(units + INDEX_UNIT.pack(2, log.end, HEAD.size, 10, 0))
        note(data, 9)
        assert offsets_of(store) == log.offsets
        note(data, 10)
        lost = log.end if has_index else log.end + HEAD.size
        with pytest.raises(CorruptCommitLogError, match=f"at offset {lost}, got"):
            offsets_of(store)

    def test_an_agreed_entry_behind_damage_is_no_loss(self, data):
        """Since what is behind damage was not looked for."""
        shutil.rmtree(data.parent / "index")
        note(data, 119)
        file = max(data.iterdir())
        at, _ = entries(file)[2]
        write(file, at, bytes(HEAD.size))
        faults = []
        assert len(offsets_of(data, mode="DROPMALFORMED", on_malformed=faults.append)) == 119
        assert len(faults) == 1

    def test_a_log_that_lost_all_entries_is_a_loss(self, data):
        """Be it that not even a file is left."""
        note(data, 0)
        shutil.rmtree(data.parent / "index")
        for file in data.iterdir():
            file.unlink()
        with pytest.raises(CorruptCommitLogError, match="dledger-n0 leads to a message"):
            offsets_of(data.parents[1])
        note(data, -1)
        assert offsets_of(data.parents[1]) == []

    def test_nothing_is_agreed_on_before_the_first_entry(self, data):
        """A plain part before is."""
        note(data, -1)
        with CommitLog(data.parents[1]) as log:
            assert log.committed_offset == log.min_offset == 0
            assert follow(log, 0).end == 0

    def test_without_a_note_nothing_is_known(self, data):
        """The text beside it counts while the broker replaces it."""
        note(data, 5)
        (data.parent / "checkpoint").rename(data.parent / "checkpoint.bak")
        with CommitLog(data) as log:
            assert log.committed_offset is not None
        (data.parent / "checkpoint.bak").unlink()
        with CommitLog(data) as log:
            assert log.committed_offset is None
            assert follow(log, 0).end == log.max_offset

    def test_a_stream_waits_for_agreement(self, data):
        """Since another leader may replace what is behind."""
        note(data, 107)
        with CommitLog(data) as log:
            progress = follow(log, 0)
            assert progress.end == log.committed_offset < log.max_offset
            assert isinstance(progress.last, LogMark)
        note(data, 119)
        with CommitLog(data) as log:
            assert follow(log, progress.end, last=progress.last).end == log.max_offset

    def test_index_and_queues_are_rebuilt_up_to_there(self, data, tmp_path, run):
        """As far as the broker has dispatched."""
        note(data, 107)
        log = data.parents[1]
        layout = rmqindex.Layout(97, 200)
        result = rmqindex.rebuild_index(log, tmp_path / "index", layout=layout)
        assert result.message_count == 108
        queues = rmqindex.rebuild_consume_queues(log, tmp_path / "made")
        assert queues.unit_count == 108
        with CommitLog(data) as opened:
            agreed, end = opened.committed_offset, opened.max_offset
        assert result.unagreed == queues.unagreed == UnagreedTail(agreed, end - agreed)
        words = f"Left out the last {end - agreed} bytes of the CommitLog, from "
        geometry = ["--max-hash-slot-num", 97, "--max-index-num", 200]
        for command, name, *more in (("rebuild", "index", *geometry), ("rebuild-queues", "made")):
            shutil.rmtree(tmp_path / name)
            code, out, err = run(command, log, "--out", tmp_path / name, *more)
            assert code == 0, err
            assert words in " ".join((out + err).split())

    def test_nothing_is_left_out_of_a_log_that_is_agreed_on(self, data, tmp_path):
        """Nor of one of which less was asked for."""
        with CommitLog(data) as log:
            agreed = log.committed_offset
            assert log.unagreed_tail() is None
            note(data, 107)
            assert log.committed_offset < agreed
            assert log.unagreed_tail(log.committed_offset) is None
        plain = rmqindex.rebuild_index(rmqindex.sample_store(), tmp_path / "plain")
        assert plain.unagreed is None

    def test_an_agreed_entry_whose_head_is_damaged_is_no_tail(self, data):
        """At the start of a file, where nothing before it shows the damage."""
        file = max(data.iterdir())
        (_, first), *_ = entries(file)
        note(data, first[2])
        (data.parents[1] / "checkpoint").unlink()
        with CommitLog(data) as log:
            agreed = log.committed_offset
        with_head(file, 0, size=first[1] ^ 4)
        write(file, first[1], bytes(file.stat().st_size - first[1]))
        with CommitLog(data) as log:
            assert log.committed_offset == agreed
            assert log.unagreed_tail() is None

    def test_an_audit_does_not_ask_for_more_entries(self, data, tmp_path):
        """Than the group agreed on."""
        note(data, 107)
        store = data.parents[1]
        layout = rmqindex.Layout(97, 200)
        rmqindex.rebuild_index(store, tmp_path / "index", layout=layout, index_tags=True)
        findings = rmqindex.verify(tmp_path / "index", commit_log=store).to_pylist()
        assert [finding["rule"] for finding in findings if finding["severity"] == "error"] == []


class TestDispatched:
    """How much of it, by index and queues: a broker that is killed has noted less."""

    @pytest.fixture
    def store(self, tmp_path):
        """Return a store whose broker noted 100 of 120 messages, and had dispatched all."""
        store = copy_store("dledger", tmp_path)
        note(store / "dledger-n0" / "data", 99)
        return store

    @pytest.mark.parametrize("gone", [(), ("index",), ("consumequeue",)])
    def test_what_index_or_queues_have_is_agreed_on(self, store, gone):
        """Either proves it, since a broker dispatches nothing else."""
        for name in gone:
            shutil.rmtree(store / name)
        with CommitLog(store) as log:
            assert log.committed_offset == log.max_offset
            assert log.unagreed_tail() is None
            assert follow(log, 0).end == log.max_offset

    def test_the_index_has_what_an_earlier_name_has(self, store):
        """Where the clock stepped back, the last name is not of the last messages."""
        shutil.rmtree(store / "consumequeue")
        files = sorted((store / "index").iterdir())
        aside = store / "index" / "aside"
        files[-1].rename(aside)
        for older, newer in zip(reversed(files[:-1]), reversed(files[1:]), strict=True):
            older.rename(newer)
        aside.rename(files[0])
        with CommitLog(store) as log:
            assert log.unagreed_tail() is None

    def test_a_queue_that_leads_behind_the_end_hides_no_other(self, store):
        """Its older units lead less far than those of other queues."""
        shutil.rmtree(store / "index")
        (file,) = (store / "consumequeue" / "TopicTest" / "0").iterdir()
        write(file, 29 * 20, struct.pack(">q", 1 << 20))
        with CommitLog(store) as log:
            assert log.committed_offset == log.max_offset
            assert log.unagreed_tail() is None

    @pytest.mark.parametrize("gone", ["index", "consumequeue"])
    def test_what_leads_to_another_message_proves_nothing(self, store, gone):
        """It is of another history of the log."""
        shutil.rmtree(store / gone)
        for file in (store / "index").glob("*"):
            write(file, 8, struct.pack(">q", 1_000))  # endTimestamp
        for number, file in enumerate(sorted((store / "consumequeue").glob("*/*/*"))):
            content = bytearray(file.read_bytes())
            for at in range(0, len(content), 20):
                (size,) = struct.unpack_from(">i", content, at + 8)
                struct.pack_into(">i", content, at + 8, size + (1 if size else 0))
            file.write_bytes(content)
            assert number < 100
        with CommitLog(store) as log:
            offsets = [message[0] for message in told("dledger")["messages"]]
            assert log.committed_offset == offsets[100] - HEAD.size

    def test_a_message_behind_the_end_to_which_they_lead_is_damage(self, store):
        """And no tail that another leader may replace."""
        file = max((store / "dledger-n0" / "data").iterdir())
        at, _ = entries(file)[4]
        write(file, at, bytes(file.stat().st_size - at))
        with CommitLog(store) as log:
            assert log.unagreed_tail() is None
            with pytest.raises(CorruptCommitLogError, match="a record, since"):
                list(log.scan(stop=log.agreed_stop()))
        layout = rmqindex.Layout(97, 200)
        with pytest.raises(RmqIndexError, match="would be lost"):
            rmqindex.rebuild_index(store, store / "index", layout=layout, replace=True)

    def test_a_damaged_message_that_was_dispatched_is_no_tail(self, data):
        """At the start of a file, where nothing before it shows the damage."""
        file = max(data.iterdir())
        (_, first), *_ = entries(file)
        note(data, first[2])
        (data.parents[1] / "checkpoint").unlink()
        with_head(file, 0, size=first[1] ^ 4)
        write(file, first[1], bytes(file.stat().st_size - first[1]))
        store = data.parents[1]
        with pytest.raises(RmqIndexError, match="would be lost"):
            rmqindex.rebuild_index(
                store, store / "index", layout=rmqindex.Layout(97, 200), replace=True
            )

    def test_replaced_files_lack_nothing_that_was_dispatched(self, store):
        """Neither entries nor units, and nothing is left out."""
        layout = rmqindex.Layout(97, 200)
        done = rmqindex.rebuild_index(store, store / "index", layout=layout, replace=True)
        assert (done.message_count, done.unagreed) == (120, None)
        made = rmqindex.rebuild_consume_queues(store, store, replace=True)
        assert (made.unit_count, made.lost, made.unagreed) == (made.replaced_count, (), None)

    def test_an_entry_behind_the_agreed_end_is_a_loss(self, store):
        """Of a message that the log has: a header that does not name it proves nothing."""
        shutil.rmtree(store / "consumequeue")
        for file in (store / "index").glob("*"):
            write(file, 8, struct.pack(">q", 1_000))  # endTimestamp
        with pytest.raises(RmqIndexError, match="would be lost"):
            rmqindex.rebuild_index(
                store, store / "index", layout=rmqindex.Layout(97, 200), replace=True
            )


class TestFollowing:
    """Streams over a log in DLedger."""

    @pytest.mark.parametrize("limit", [{"max_records": 7}, {"max_bytes": 900}, {"stop": 9000}])
    def test_limits_divide_it_without_loss(self, store, limit):
        """Each step begins where the one before it ended."""
        found, at, last = [], 0, None
        with CommitLog(store) as log:
            while True:
                step = follow(log, at, last=last, **limit)
                found += offsets_of(store, start=at, stop=step.end)
                if step.end == at:
                    break
                at, last = step.end, step.last
                if "stop" in limit:
                    limit = {}
        assert found == stored(store)

    def test_it_begins_at_a_message(self, store):
        """Which a user names by the offset of its record."""
        offsets = stored(store)
        with CommitLog(store) as log:
            assert follow(log, offsets[-20]).end == log.max_offset


@pytest.fixture
def large(tmp_path):
    """Return a log of 6,000 messages of many sizes and some entries without, and its folder."""
    log, chance = DLedgerLog(1 << 20), random.Random(7)
    for number in range(6_000):
        if chance.random() < 0.01:
            log.noop()
            log.term += chance.random() < 0.2
        log.append(Message(body=chance.randbytes(chance.choice([0, 9, 90, 300])), flag=number))
    return log, log.write_to(tmp_path / "dledger-n0" / "data")


class TestLargeFiles:
    """Files whose entries are followed in many chains at once."""

    def test_every_message_is_found(self, large):
        """In files of thousands of entries."""
        log, folder = large
        assert offsets_of(folder, check_crc=True) == log.offsets
        with CommitLog(folder) as opened:
            assert opened.max_offset == log.end

    def test_every_message_is_found_by_windows(self, large, monkeypatch):
        """As of a remote file, where an entry may be cut anywhere."""
        log, folder = large
        monkeypatch.setattr(walk, "_WINDOW", 1_000)
        monkeypatch.setattr(walk, "_HOP_SPAN", 5_000)
        assert offsets_of(under_uri(monkeypatch, folder)) == log.offsets

    def test_damage_costs_what_it_touches(self, large):
        """Wherever it is."""
        log, folder = large
        chance = random.Random(11)
        lost = sorted(chance.sample(range(100, 5_900), 40))
        for number in lost:
            at = log.offsets[number]
            file = folder / f"{at - at % log.file_size:020d}"
            write(file, at % log.file_size - chance.choice([48, 44, 24, 4, -4, -84]), b"\xff" * 4)
        faults = []
        found = offsets_of(folder, mode="DROPMALFORMED", on_malformed=faults.append)
        kept = set(log.offsets) - {log.offsets[number] for number in lost}
        assert set(found) == kept
        assert found == sorted(found)
        assert len(faults) == len(lost)


DAMAGED_NOTES = {
    b"": (0, "the end of the file"),
    bytes(32): (0, "'" + "\\x00" * 32 + "'"),
    b"committedInd": (0, "'committedInd'"),
    b"endIndex=119\n": (13, "the end of the file"),
    b"endIndex=119\ncommittedIndex=10": (13, "'committedIndex=10'"),
    b"committedIndex=x\nendIndex=119\n": (30, "the end of the file"),
}


class TestDamagedNote:
    """DLedger's checkpoint is there, and says nothing, as after a power cut."""

    @pytest.mark.parametrize("text", DAMAGED_NOTES, ids=repr)
    def test_it_is_named_by_its_byte(self, store, text):
        """It is not taken for none, behind which everything would count as agreed on."""
        path = store / "dledger-n0" / "checkpoint"
        path.write_bytes(text)
        byte, got = DAMAGED_NOTES[text]
        with CommitLog(store) as log:
            for ask in (log.agreed_stop, log.unagreed_tail, lambda: log.committed_offset):
                with pytest.raises(CorruptCommitLogError, match="move it away") as error:
                    ask()
                found = error.value
                assert (found.path, found.byte, found.got) == (str(path), byte, got)
            assert sum(batch.num_rows for batch in log.scan()) == len(stored(store))  # shows all

    @pytest.mark.parametrize("text", [b"", bytes(32), b"committedIndex=1"])
    def test_the_text_that_a_broker_put_aside_tells(self, store, text):
        """It is the one of three seconds before."""
        note(store / "dledger-n0" / "data", 99)
        with CommitLog(store) as log:
            undispatch(store)
            expected = log.committed_offset
        path = store / "dledger-n0" / "checkpoint"
        path.rename(path.with_name("checkpoint.bak"))
        path.write_bytes(text)
        with CommitLog(store) as log:
            assert log.committed_offset == expected
        path.with_name("checkpoint.bak").write_bytes(b"")
        with CommitLog(store) as log, pytest.raises(CorruptCommitLogError, match="committedIndex"):
            log.agreed_stop()

    def test_every_writer_refuses_it_and_its_way_out_works(self, store, tmp_path):
        """Moved away, it is no note, as for the broker that starts."""
        path = store / "dledger-n0" / "checkpoint"
        path.write_bytes(bytes(32))
        with CommitLog(store) as log:
            writers = {
                "index": lambda where: rebuild_index(log, where),
                "queues": lambda where: rebuild_consume_queues(store, where),
                "export": lambda where: export_messages(log, where),
                "stream": lambda _where: follow(log, log.min_offset),
            }
            for name, write in writers.items():
                with pytest.raises(CorruptCommitLogError, match="committedIndex at byte 0"):
                    write(tmp_path / name)
                assert not (tmp_path / name).exists()
            path.unlink()
            for name, write in writers.items():
                write(tmp_path / name)

    def test_an_audit_finds_it_once(self, store):
        """By its file and byte, whatever else is audited."""
        path = store / "dledger-n0" / "checkpoint"
        before = verify(store, "auto", bodies=True).to_pylist()
        path.write_bytes(b"")
        (found,) = (
            row for row in verify(store, "auto", bodies=True).to_pylist() if row not in before
        )
        assert (found["rule"], found["file"], found["byte"]) == ("dledger_checkpoint", str(path), 0)
        path.unlink()
        assert verify(store, "auto", bodies=True).to_pylist() == before

    def test_a_note_that_nobody_may_read_is_not_none(self, store):
        """The error of the storage says so."""
        path = store / "dledger-n0" / "checkpoint"
        with (
            mode_of(path, 0),
            CommitLog(store) as log,
            pytest.raises(RmqIndexError, match="denied"),
        ):
            log.agreed_stop()
