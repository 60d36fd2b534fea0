"""The CommitLog's files, ends and damage, on logs that an independent encoder wrote."""

from __future__ import annotations

import os
import pickle
import random
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from itertools import pairwise

import pyarrow.fs as pafs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commitlog_encoder import (
    Log,
    Message,
    expected_row,
    java_properties,
    properties_text,
)
from examples import examples
from kinds import sampled
from rmqindex import COMMITLOG_SCHEMA, CommitLog, CorruptCommitLogError, LogFile, RmqIndexError
from rmqindex.commitlog import walk
from rmqindex.commitlog.files import own_name_advice
from rmqindex.storage import Location

# The property that ends a record, ``__CRC32#`` \1, ten digits, \2.
PROPERTY_CRC32 = "__CRC32#"
CRC_RESERVED_SIZE = len(PROPERTY_CRC32) + 1 + 10 + 1

V6 = bytes.fromhex("20010db8000000000000000000000005")
REBUILD = ["topic", "uniq_key", "keys", "sys_flag", "phy_offset", "store_timestamp"]


def simple(number, size=40):
    """A message with keys, its store time one second after the one before."""
    return Message(
        topic=f"Topic{number % 3}",
        body=b"%d" % number * size,
        properties=properties_text([("KEYS", f"k{number}"), ("UNIQ_KEY", f"u{number}")]),
        store_timestamp=1_700_000_000_000 + number * 1000,
    )


def small_log(count=70, file_size=4096, start=0):
    """A log of a few files."""
    log = Log(file_size, start)
    for number in range(count):
        log.append(simple(number))
    return log


@pytest.fixture
def log():
    """The encoder's log; its offsets are the truth."""
    return small_log()


@pytest.fixture
def folder(log, tmp_path):
    """The log's files on disk."""
    return log.write_to(tmp_path / "commitlog")


def offsets_of(batches):
    """Return the offsets of all rows."""
    return [offset for batch in batches for offset in batch["phy_offset"].to_pylist()]


def scanned(path, **options):
    """Return the offsets that a scan gives."""
    return offsets_of(CommitLog(path).scan(columns=["phy_offset"], **options))


def patch(folder, log, offset, data):
    """Change bytes at an offset of the log."""
    start = offset - offset % log.file_size
    path = folder / f"{start:020d}"
    content = bytearray(path.read_bytes())
    content[offset - start : offset - start + len(data)] = data
    path.write_bytes(content)


class TestDecoding:
    """Records of all shapes."""

    @pytest.mark.parametrize(
        "message",
        [
            Message(),
            Message(body=b"", topic=""),
            Message(born_ip=V6),
            Message(store_ip=V6),
            Message(born_ip=V6, store_ip=bytes(15) + b"\x01", born_port=0, store_port=65_535),
            Message(topic="t" * 127),
            Message(topic="t" * 201),
            Message(topic="订" * 42, version=1),
            Message(topic="short", version=2),
            Message(property_crc=True, properties=b"KEYS\x01k\x02"),
            Message(property_crc=True, topic="t" * 201, store_ip=V6),
            Message(
                queue_id=-1,
                flag=-(2**31),
                queue_offset=2**62,
                sys_flag=0xC,
                born_timestamp=-1,
                store_timestamp=2**63 - 1,
                reconsume_times=16,
                prepared_transaction_offset=-1,
            ),
        ],
    )
    def test_a_record_decodes_to_what_was_stored(self, message, tmp_path):
        """Beside another one, in one batch with it."""
        log = Log(4096)
        offsets = [log.append(message), log.append(Message()), log.append(message)]
        folder = log.write_to(tmp_path)
        (batch,) = CommitLog(folder).scan(check_crc=True)
        assert batch.schema == COMMITLOG_SCHEMA
        batch.validate(full=True)
        rows = batch.to_pylist()
        for offset, sent, row in zip(offsets, [message, Message(), message], rows, strict=True):
            expected = expected_row(sent, offset)
            assert {name: row[name] for name in expected} == expected
            if sent.property_crc:
                assert PROPERTY_CRC32 in dict(row["properties"])

    def test_duplicate_properties_are_all_there(self, tmp_path):
        """The broker takes the last; the lists have all, in byte order."""
        properties = properties_text(
            [("UNIQ_KEY", "part"), ("KEYS", "a b"), ("KEYS", "c"), ("UNIQ_KEY", "batch")]
        )
        log = Log(4096)
        log.append(Message(properties=properties))
        (batch,) = CommitLog(log.write_to(tmp_path)).scan()
        (row,) = batch.to_pylist()
        assert (row["uniq_key"], row["keys"], row["tags"]) == ("batch", "c", None)
        assert (row["all_uniq_keys"], row["all_keys"]) == (["part", "batch"], ["a b", "c"])
        assert row["properties"] == [("KEYS", "c"), ("UNIQ_KEY", "batch")]

    def test_columns_come_as_asked(self, folder):
        """Any subset, in any order, each like in a scan of all."""
        everything = next(CommitLog(folder).scan())
        for columns in (["body", "topic"], ["keys"], REBUILD, ["msg_id", "born_host"]):
            batch = next(CommitLog(folder).scan(columns=columns))
            assert batch.schema.names == columns
            assert batch.to_pylist() == everything.select(columns).to_pylist()

    @pytest.mark.parametrize(
        ("columns", "error", "text"),
        [
            (["topics"], ValueError, "columns: expected names of topic, uniq_key"),
            ([], ValueError, "at least one"),
            (["topic", "topic"], ValueError, "each once"),
            ("topic", TypeError, "a sequence of names"),
        ],
    )
    def test_wrong_columns_are_refused_at_once(self, folder, columns, error, text):
        """Before anything is read."""
        with pytest.raises(error, match=text):
            CommitLog(folder).scan(columns=columns)

    @settings(max_examples=examples(60))
    @given(st.data())
    def test_random_logs_decode_to_what_was_sent(self, tmp_path_factory, data):
        """Any mixture of shapes, in batches of any size."""
        text = st.text(st.characters(codec="utf-8"), max_size=20)
        address = st.binary(min_size=4, max_size=4) | st.just(V6)
        messages = st.builds(
            Message,
            topic=text | st.just("t" * 140),
            body=st.binary(max_size=300),
            properties=st.lists(
                st.tuples(st.sampled_from(["KEYS", "UNIQ_KEY", "TAGS", "x"]), text), max_size=5
            ).map(properties_text),
            queue_offset=st.integers(-(2**63), 2**63 - 1),
            born_ip=address,
            store_ip=address,
            property_crc=st.booleans(),
        )
        log = Log(2048, data.draw(st.sampled_from([0, 2048, 2**40])))
        sent = data.draw(st.lists(messages, min_size=1, max_size=25))
        for message in sent:
            log.append(message)
        path = tmp_path_factory.mktemp("log")
        try:
            opened = CommitLog(log.write_to(path))
            size = data.draw(st.integers(1, 30))
            rows = [
                row
                for batch in opened.scan(check_crc=True, max_records=size)
                for row in batch.to_pylist()
            ]
            assert opened.max_offset == log.end
            again = opened.read_at(log.offsets).to_pylist()
        finally:
            shutil.rmtree(path)
        assert [{k: v for k, v in row.items() if k != "state"} for row in again] == rows
        for offset, message, row in zip(log.offsets, sent, rows, strict=True):
            expected = expected_row(message, offset)
            assert {name: row[name] for name in expected} == expected
            properties = dict(row["properties"])
            properties.pop(PROPERTY_CRC32, None)
            assert properties == java_properties(message.properties.decode())


class TestFiles:
    """Which files make a log."""

    def test_a_store_a_folder_and_a_file_will_do(self, log, folder):
        """A store root has ``commitlog/``."""
        assert scanned(folder.parent) == scanned(folder) == log.offsets
        first = folder / f"{0:020d}"
        assert scanned(first) == [offset for offset in log.offsets if offset < 4096]
        assert scanned(folder.as_uri()) == log.offsets

    def test_several_folders_hold_one_log(self, log, folder, tmp_path):
        """As a list, or with RocketMQ's commas."""
        other = tmp_path / "other"
        other.mkdir()
        for path in sorted(folder.iterdir())[1::2]:
            path.rename(other / path.name)
        assert scanned([folder, other]) == log.offsets
        assert scanned(f"{folder},{other}") == log.offsets
        assert CommitLog([folder, other]).gaps == ()
        assert CommitLog(folder).gaps

    def test_a_file_that_several_paths_name_counts_once(self, log, folder, monkeypatch):
        """However it is written, so that a store and what is in it can be given together."""
        first = folder / f"{0:020d}"
        monkeypatch.chdir(folder.parent)
        for paths in (
            [folder.parent, folder],
            [folder, first, first.as_uri()],
            ["commitlog", folder, f"{folder}/../commitlog/"],
            f"{folder},{folder.parent}",
            [*CommitLog(folder).files, folder],
        ):
            assert scanned(paths) == log.offsets
            assert len(CommitLog(paths).files) == len(CommitLog(folder).files)

    @pytest.mark.parametrize("kind", ["copy", "link"])
    def test_two_files_of_one_place_are_refused(self, folder, tmp_path, kind):
        """A copy, and a link too: what a path leads to is not looked at, as elsewhere."""
        other = tmp_path / "other"
        if kind == "copy":
            shutil.copytree(folder, other)
        else:
            other.symlink_to(folder)
        with pytest.raises(RmqIndexError) as refused:
            CommitLog([folder, other])
        first = f"{0:020d}"
        assert str(refused.value) == (
            f"{other / first}: expected offsets that no other file has, got those from 0 on, which "
            f"{folder / first} has too; give only one of the two, or its folder"
        )

    @pytest.mark.parametrize("place", [0, 1])
    def test_a_file_with_more_bytes_than_its_place_has_is_cut_as_its_error_says(
        self, log, folder, place
    ):
        """The other files tell the size; the file behind it is sound."""
        path = sorted(folder.iterdir())[place]
        os.truncate(path, 4097)
        with pytest.raises(RmqIndexError, match=r"expected 4096 bytes, .* got 4097") as refused:
            CommitLog(folder)
        assert str(refused.value).startswith(f"{path}: ")
        (line,) = re.findall("`(.*)`", str(refused.value))
        subprocess.run(shlex.split(line), check=True)
        assert scanned(folder) == log.offsets

    def test_of_two_files_that_overlap_nothing_tells_the_wrong_one_but_their_sizes(self, folder):
        """One that begins within another may have a wrong name."""
        first, second, *others = sorted(folder.iterdir())
        for path in others:
            path.unlink()
        os.truncate(first, 5000)
        os.truncate(second, 5000)
        with pytest.raises(RmqIndexError, match="expected a file that starts at 5000 or later"):
            CommitLog(folder)

    @pytest.mark.parametrize("place", [0, 1])
    def test_no_file_is_cut_where_one_of_two_is_unreadable(self, folder, place):
        """Which of them is wrong cannot be known."""
        paths = sorted(folder.iterdir())
        os.truncate(paths[0], 4097)
        with paths[place].open("r+b") as file:
            file.write(bytes(8))
        with pytest.raises(RmqIndexError, match=r"got 4097; restore both from a replica"):
            CommitLog(folder)

    @pytest.mark.parametrize(("of", "to"), [(0, 1024), (0, 4097), (2, 4000), (1, 5000), (-1, 1)])
    def test_a_copy_is_wrong_whose_name_overlaps_another_file(self, log, folder, of, to):
        """Its first message tells that it is none of its name; the other file is not touched."""
        copied = sorted(folder.iterdir())[of]
        copy = folder / f"{to:020d}"
        shutil.copy(copied, copy)
        advice = f"move {copy} out of the folder, since {copied} has that offset"
        with pytest.raises(RmqIndexError, match=rf"{advice}; restore ") as refused:
            CommitLog(folder)
        assert str(refused.value).startswith(
            f"{copy}: expected a message at offset {to}, as its name says, got one at offset "
            f"{int(copied.name)}, so that its name overlaps {folder}/"
        )
        copy.unlink()
        assert scanned(folder) == log.offsets

    @pytest.mark.parametrize(("of", "to"), [(0, 1024), (0, 8191), (1, 1), (1, 4095), (2, 1000)])
    def test_a_renamed_file_gets_its_name_back_as_its_error_says(self, log, folder, of, to):
        """No other file has the offset of its first message."""
        file = sorted(folder.iterdir())[of]
        renamed = file.rename(folder / f"{to:020d}")
        with pytest.raises(RmqIndexError, match="which no file has") as refused:
            CommitLog(folder)
        assert str(refused.value).startswith(f"{renamed}: ")
        (line,) = re.findall("`(.*)`", str(refused.value))
        subprocess.run(shlex.split(line), check=True)
        assert scanned(folder) == log.offsets

    @pytest.mark.parametrize(("of", "to", "longer"), [(1, 4097, 1), (1, 4095, 0), (-1, 8193, 1)])
    def test_surplus_bytes_leave_no_renamed_file_without_its_name(
        self, log, folder, of, to, longer
    ):
        """Neither its own, nor those of the file before it."""
        paths = sorted(folder.iterdir())
        os.truncate(paths[longer], 4196)
        paths[of].rename(folder / f"{to:020d}")
        for _ in range(2):
            with pytest.raises(RmqIndexError) as refused:
                CommitLog(folder)
            (line,) = re.findall("`(.*)`", str(refused.value))
            subprocess.run(shlex.split(line), check=True)
        assert scanned(folder) == log.offsets

    def test_a_name_that_is_taken_wrongly_is_exchanged(self, folder):
        """Also with what was put aside before; where it is free, the file gets it."""
        first, last = min(folder.iterdir()), max(folder.iterdir())
        aside = first.rename(folder / "aside")
        last.rename(first)
        own = int(first.name)
        assert own_name_advice(Location.of(aside), own) == (
            f"exchange its name with that of {first}, which begins with none of that offset: "
            f"`mv -n {aside} {aside}.other && mv -n {first} {aside} && mv -n {aside}.other {first}`"
        )
        for path in folder.iterdir():
            if path != aside:
                path.unlink()
        assert own_name_advice(Location.of(aside), own).endswith(f"`mv -n {aside} {first}`")

    def test_a_file_of_another_name_is_in_nobodys_way(self, log, folder):
        """It leaves the place; moved out, the other one's messages would be lost."""
        first, second, *_ = sorted(folder.iterdir())
        aside = second.rename(folder / f"{second.name}.other")
        first.rename(folder / f"{20:020d}")
        advice = own_name_advice(Location.of(aside), int(second.name))
        assert advice.endswith(f"which no file has: `mv -n {aside} {second}`")
        aside.rename(second)
        with pytest.raises(RmqIndexError, match="which no file has") as refused:
            CommitLog(folder)
        (line,) = re.findall("`(.*)`", str(refused.value))
        subprocess.run(shlex.split(line), check=True)
        assert scanned(folder) == log.offsets

    @pytest.fixture
    def folders(self, folder, tmp_path):
        """Return two folders with every second file of a log."""
        other = tmp_path / "other"
        other.mkdir()
        for path in sorted(folder.iterdir())[1::2]:
            path.rename(other / path.name)
        return folder, other

    def test_a_name_is_free_if_no_folder_of_the_log_has_it(self, folders):
        """A copy in another folder is moved out."""
        first, copy = min(folders[0].iterdir()), folders[1] / f"{1 << 20:020d}"
        shutil.copy(first, copy)
        assert own_name_advice(Location.of(copy), 0, [*map(Location.of, folders)]).startswith(
            f"move {copy} out of the folder, since {first} has that offset"
        )

    def test_of_two_files_of_one_name_the_wrong_one_is_told(self, folders):
        """By its first message."""
        first, second = (min(each.iterdir()) for each in folders)
        copy = shutil.copy(second, folders[1] / first.name)
        with pytest.raises(RmqIndexError, match="at offset 0, as its name says") as told:
            CommitLog(",".join(map(str, folders)))
        assert str(told.value).startswith(f"{copy}: ")

    def test_names_are_exchanged_between_the_folders_of_a_log(self, log, folders, tmp_path):
        """Each is of one of them."""
        first, second = (min(each.iterdir()) for each in folders)
        second.rename(tmp_path / "aside")
        first.rename(second)
        (tmp_path / "aside").rename(first)
        advice = own_name_advice(Location.of(second), 0, [*map(Location.of, folders)])
        (lines,) = re.findall("`(.*)`", advice)
        for line in lines.split(" && "):
            subprocess.run(shlex.split(line), check=True)
        assert scanned(",".join(map(str, folders))) == log.offsets

    def test_an_object_of_another_name_has_no_command(self, folder):
        """Its name is said alone."""
        file = min(folder.iterdir())
        file.rename(folder / f"{1024:020d}")
        with pytest.raises(RmqIndexError, match=rf"the name {file.name}, which no file has$"):
            CommitLog(str(folder), filesystem=pafs.LocalFileSystem())

    def test_of_files_without_messages_that_is_wrong_whose_name_is_no_multiple(self, log, folder):
        """A broker names them by multiples of their size."""
        noise = folder / f"{1024:020d}"
        noise.write_bytes(bytes(4096))
        with pytest.raises(RmqIndexError, match="a multiple of 4096, the size of most") as refused:
            CommitLog(folder)
        assert str(refused.value).startswith(f"{noise}: ")
        noise.unlink()
        assert scanned(folder) == log.offsets

    def test_a_name_beyond_64_bits_is_no_offset(self, folder):
        """Whatever it holds."""
        (folder / ("9" * 20)).write_bytes(bytes(4096))
        with pytest.raises(RmqIndexError, match=r"9{20}: expected a name that is .* move it out"):
            CommitLog(folder)

    def test_an_object_that_is_too_long_has_no_command(self, folder):
        """Nothing cuts it in place."""
        os.truncate(min(folder.iterdir()), 4097)
        with pytest.raises(RmqIndexError, match=r"got 4097$"):
            CommitLog(str(folder), filesystem=pafs.LocalFileSystem())

    def test_files_found_before_are_not_listed_again(self, log, folder):
        """They are small and can be pickled."""
        files = pickle.loads(pickle.dumps(CommitLog(folder).files))
        assert files[0] == LogFile(0, 4096, str(folder / f"{0:020d}"))
        assert scanned(files) == log.offsets

    def test_a_log_need_not_start_at_0(self, tmp_path):
        """Expired files are gone."""
        log = small_log(start=3 * 4096)
        opened = CommitLog(log.write_to(tmp_path))
        assert (opened.min_offset, opened.max_offset) == (3 * 4096, log.end)
        assert opened.mapped_file_size == 4096
        assert opened.read_at([0, log.offsets[0]], ["phy_offset"])["state"].to_pylist() == [
            "expired",
            "record",
        ]

    def test_gaps_are_told_and_passed(self, log, folder):
        """What is there is read."""
        (folder / f"{4096:020d}").unlink()
        opened = CommitLog(folder)
        assert opened.gaps == ((4096, 8192),)
        assert offsets_of(opened.scan()) == [o for o in log.offsets if o // 4096 != 1]
        states = opened.read_at([4096, 8192], ["size"])["state"].to_pylist()
        assert states == ["missing", "record"]

    def test_a_file_below_a_folder_with_a_question_mark_is_read(self, log, folder, tmp_path):
        """Only a URI has a query."""
        first = shutil.copytree(folder, tmp_path / "a?b") / f"{0:020d}"
        assert scanned(first) == [offset for offset in log.offsets if offset < 4096]

    def test_other_names_and_empty_files_are_no_part(self, log, folder):
        """The broker deletes an empty last file."""
        (folder / "00000000000000000000.gz").write_bytes(b"x")
        (folder / f"{10**15:020d}").touch()
        assert scanned(folder) == log.offsets

    def test_an_empty_file_before_those_of_another_folder_is_a_part(self, tmp_path):
        """Its messages are lost; behind all others it is one that a broker deletes."""
        folders = [tmp_path / "a", tmp_path / "b"]
        for folder, start in zip(folders, (0, 1024), strict=True):
            folder.mkdir()
            (folder / f"{start:020d}").write_bytes(b"")
        for full, starts in ((1, [0, 1024]), (0, [0])):
            files = [next(folder.iterdir()) for folder in folders]
            for number, file in enumerate(files):
                file.write_bytes(bytes(1024 * (number == full)))
            with CommitLog([str(folder) for folder in folders]) as log:
                assert [file.start for file in log.files] == starts

    def test_an_empty_folder_is_refused(self, tmp_path):
        """Unless its name is that of a store's, it may be where a disk belongs."""
        (tmp_path / "disk").mkdir()
        for path in (tmp_path, tmp_path / "disk"):
            with pytest.raises(RmqIndexError, match="expected log files, or a store with a folder"):
                CommitLog(path)

    def test_an_empty_commitlog_alone_is_refused(self, tmp_path):
        """Its name alone does not tell it from a disk that is not mounted."""
        (tmp_path / "store" / "commitlog").mkdir(parents=True)
        for path in (tmp_path / "store", tmp_path / "store" / "commitlog"):
            with pytest.raises(RmqIndexError, match="is the disk mounted"):
                CommitLog(path)

    def test_an_empty_log_of_a_store_has_no_messages(self, tmp_path):
        """No rows, and every offset lies beyond its end."""
        (tmp_path / "commitlog").mkdir()
        (tmp_path / "consumequeue").mkdir()
        assert CommitLog(tmp_path).files == ()
        log = CommitLog(tmp_path / "commitlog")
        assert (log.files, log.min_offset, log.max_offset) == ((), 0, 0)
        assert log.mapped_file_size is None
        assert list(log.scan()) == []
        assert log.read_at([0, 5], ["size"])["state"].to_pylist() == ["beyond_end"] * 2
        assert log.read_at([], ["size"]).num_rows == 0

    def test_what_is_no_log_is_refused(self, tmp_path, folder):
        """With what was expected."""
        with pytest.raises(RmqIndexError, match="no such file or directory"):
            CommitLog(tmp_path / "nothing")
        (tmp_path / "a" / "dledger-n0").mkdir(parents=True)
        with pytest.raises(RmqIndexError, match="DLedger"):
            CommitLog(tmp_path / "a")
        (tmp_path / "b" / "index").mkdir(parents=True)
        with pytest.raises(RmqIndexError, match="with neither"):
            CommitLog(tmp_path / "b")
        shutil.copy(folder / f"{0:020d}", folder / f"{100:020d}")
        with pytest.raises(RmqIndexError, match="at offset 100, as its name says"):
            CommitLog(folder)

    def test_a_file_system_can_be_given(self, log, folder):
        """Files are then read by ranges, with the same rows."""
        with CommitLog(str(folder), filesystem=pafs.LocalFileSystem()) as opened:
            assert opened.source(opened.files[0]).remote
            rows = [row for batch in opened.scan(check_crc=True) for row in batch.to_pylist()]
            assert rows == [row for b in CommitLog(folder).scan() for row in b.to_pylist()]
            offsets = [*reversed(log.offsets), 1, log.end]
            found = opened.read_at(offsets)
            assert found.equals(CommitLog(folder).read_at(offsets))
            assert opened.max_offset == log.end

    @pytest.mark.parametrize("window", [91, 300, 1000])
    def test_windows_of_any_size_give_the_same_rows(self, log, folder, window, monkeypatch):
        """Records that cross a window's end, or are larger than one, are read whole."""
        monkeypatch.setattr(walk, "_WINDOW", window)
        monkeypatch.setattr(walk, "_SEARCH_WINDOW", window)
        patch(folder, log, log.offsets[7], bytes.fromhex("7fffffff"))
        opened = CommitLog(str(folder), filesystem=pafs.LocalFileSystem())
        found = offsets_of(opened.scan(mode="DROPMALFORMED"))
        assert found == [o for o in log.offsets if o != log.offsets[7]]


class TestRanges:
    """Parts of a log."""

    def test_any_range_gives_its_records(self, log, folder):
        """Whatever bytes the limits fall on."""
        opened = CommitLog(folder)
        for start in range(0, log.end, 61):
            for stop in (start, start + 1, start + 5000, log.end):
                expected = [offset for offset in log.offsets if start <= offset < stop]
                assert offsets_of(opened.scan(start, stop, ["phy_offset"])) == expected

    @pytest.mark.parametrize("chunk_size", [1, 100, 1000, 4096, 10**6])
    def test_boundaries_split_a_log(self, log, folder, chunk_size):
        """The parts together are the whole."""
        opened = CommitLog(folder)
        found = []
        for file in opened.files:
            cuts = [*opened.record_boundaries(file, chunk_size), file.stop]
            assert cuts[0] == file.start
            assert set(cuts[:-1]) <= set(log.offsets)
            for start, stop in pairwise(cuts):
                found += offsets_of(opened.scan(start, stop, ["phy_offset"], at_boundaries=True))
        assert found == log.offsets

    def test_a_false_boundary_is_noticed(self, tmp_path):
        """A body may hold what looks like a record at that very place."""
        log = Log(4096)
        log.append(simple(0))
        inner = simple(1).encode(log.end + 88 + 30)
        fake = log.end + 88 + 30
        log.append(Message(body=b"x" * 30 + inner + b"y" * 30))
        log.append(simple(2))
        while log.end < 4096:
            log.append(simple(3))
        opened = CommitLog(log.write_to(tmp_path))
        assert fake not in opened.record_boundaries(opened.files[0], fake)
        with pytest.raises(CorruptCommitLogError, match=f"boundary {fake}"):
            list(opened.scan(0, fake, at_boundaries=True))
        assert scanned(tmp_path, start=fake - 1) == [o for o in log.offsets if o >= fake]

    def test_wrong_arguments_are_refused_at_once(self, folder):
        """Before anything is read."""
        opened = CommitLog(folder)
        with pytest.raises(ValueError, match="start: expected at least 0, got -1"):
            opened.scan(-1)
        with pytest.raises(ValueError, match="mode: expected one of FAILFAST, DROPMALFORMED"):
            opened.scan(mode="PERMISSIVE")
        with pytest.raises(ValueError, match="chunk_size"):
            opened.record_boundaries(opened.files[0], 0)
        with pytest.raises(ValueError, match="file: expected one of the log's files"):
            opened.record_boundaries(replace(opened.files[0], size=7))

    def test_a_file_knows_its_first_store_time(self, folder):
        """That of its first record."""
        opened = CommitLog(folder)
        times = [opened.first_store_timestamp(file) for file in opened.files]
        assert times[0] == 1_700_000_000_000
        assert times == sorted(times)

    @pytest.mark.system
    def test_long_logs_are_walked_in_step(self, tmp_path):
        """Chains from many places meet, also over records of all sizes."""
        chance = random.Random(1)
        log = Log(1 << 22)
        while log.end < 3 << 22:
            log.append(simple(0, chance.choice([1, 5, 20, 20, 20, 60, 2000])))
        opened = CommitLog(log.write_to(tmp_path))
        assert offsets_of(opened.scan(columns=["phy_offset"])) == log.offsets
        assert opened.max_offset == log.end


class TestEnds:
    """Where a log ends."""

    def test_zeros_end_it(self, log, folder):
        """Also whole files of them, which the broker makes ahead."""
        (folder / f"{max(log.files) + 4096:020d}").write_bytes(bytes(4096))
        opened = CommitLog(folder)
        assert opened.max_offset == log.end
        assert offsets_of(opened.scan()) == log.offsets
        states = opened.read_at([log.end, log.end + 50, log.end + 10**6], ["size"])
        assert states["state"].to_pylist() == ["beyond_end"] * 3

    def test_a_blank_record_at_the_very_end_is_followed_by_the_next_file(self, log, folder):
        """The next message starts there."""
        end = log.end
        log.blank()
        log.write_to(folder)
        assert CommitLog(folder).max_offset == end
        (folder / f"{log.end:020d}").write_bytes(bytes(4096))
        assert CommitLog(folder).max_offset == log.end
        assert scanned(folder) == log.offsets

    def test_stale_bytes_behind_a_blank_record_are_not_read(self, log, folder):
        """Even whole records at their places."""
        blank = max(offset for offset in log.offsets if offset < 4096)
        size = len(simple(0).encode(0))
        at = blank + len(simple(log.offsets.index(blank)).encode(blank)) + 8
        if at + size < 4096:
            patch(folder, log, at, simple(99).encode(at))
        assert scanned(folder) == log.offsets

    @pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED"])
    @pytest.mark.parametrize("kept", [1, 4, 8, 40, 90, 100])
    def test_a_torn_record_ends_it(self, log, folder, kept, mode):
        """The broker truncates there when it starts again."""
        record = simple(50).encode(log.end)
        patch(folder, log, log.end, record[:kept])
        opened = CommitLog(folder)
        assert opened.max_offset == log.end
        assert offsets_of(opened.scan(mode=mode)) == log.offsets

    def test_what_an_earlier_life_left_is_not_read(self, log, folder):
        """Older records behind the end, at their own places."""
        at = log.end + 30
        patch(folder, log, log.end, b"stale" * 6)
        patch(folder, log, at, simple(-9).encode(at))
        opened = CommitLog(folder)
        assert opened.max_offset == log.end
        for mode in ("FAILFAST", "DROPMALFORMED"):
            assert offsets_of(opened.scan(mode=mode)) == log.offsets
        assert opened.record_boundaries(opened.files[-1], 1)[-1] == log.offsets[-1]

    def test_a_truncated_file_ends_it_if_it_is_the_last(self, log, folder):
        """Anywhere else it is damage."""
        last = folder / f"{max(log.files):020d}"
        last.write_bytes(last.read_bytes()[: log.offsets[-1] % 4096 + 50])
        assert scanned(folder) == log.offsets[:-1]
        assert CommitLog(folder).max_offset == log.offsets[-1]
        first = folder / f"{0:020d}"
        first.write_bytes(first.read_bytes()[: log.offsets[3]])
        with pytest.raises(CorruptCommitLogError, match=r"file_size at byte .*4096 bytes"):
            scanned(folder)
        expected = [o for o in log.offsets[:-1] if o < log.offsets[3] or o >= 4096]
        assert scanned(folder, mode="DROPMALFORMED") == expected


class TestDamage:
    """Bytes that break the rules, in the middle of a log."""

    @pytest.mark.parametrize(
        ("at", "data", "field"),
        [
            (0, "00000000", "total_size"),
            (0, "7fffffff", "total_size"),
            (0, "0000005b", "body_length"),
            (0, "ffffffff", "total_size"),
            (4, "00000000", "magic_code"),
            (28, "0000000000000001", "physical_offset"),
            (36, "00000010", "total_size|body_length|topic_length|properties_length"),
            (84, "7fffffff", "body_length"),
            (84, "00000001", "topic_length|properties_length|total_size"),
            (84, "ffffffff", "topic_length|properties_length|total_size"),
        ],
    )
    @pytest.mark.parametrize("place", [2, -3])
    def test_a_bad_record_is_named_or_dropped(self, log, folder, place, at, data, field):
        """In any file; the records behind it are found again."""
        offset = log.offsets[place]
        patch(folder, log, offset + at, bytes.fromhex(data))
        with pytest.raises(CorruptCommitLogError, match=f"({field}) at byte") as caught:
            scanned(folder)
        assert caught.value.byte >= offset % 4096
        errors = []
        rest = scanned(folder, mode="DROPMALFORMED", on_malformed=errors.append)
        assert rest == [found for found in log.offsets if found != offset]
        assert [str(error) for error in errors] == [str(caught.value)]
        (state,) = CommitLog(folder).read_at([offset], ["size"])["state"].to_pylist()
        assert state == "not_a_record"

    def test_a_hole_before_later_files_is_damage(self, log, folder):
        """Zeros end a log only where nothing follows."""
        patch(folder, log, log.offsets[2], bytes(4096 - log.offsets[2]))
        with pytest.raises(CorruptCommitLogError, match=r"total_size .*later files hold some"):
            scanned(folder)
        expected = log.offsets[:2] + [o for o in log.offsets if o >= 4096]
        assert scanned(folder, mode="DROPMALFORMED") == expected

    def test_a_blank_record_cannot_reach_beyond_its_file(self, log, folder):
        """The broker stops there, too."""
        offset = max(o for o in log.offsets if o < 4096)
        blank = offset + len(simple(log.offsets.index(offset)).encode(offset))
        patch(folder, log, blank, bytes.fromhex("00001001"))
        with pytest.raises(CorruptCommitLogError, match=r"total_size .*for a blank record"):
            scanned(folder)
        assert scanned(folder, mode="DROPMALFORMED") == log.offsets

    def test_crcs_are_checked_on_request(self, log, folder):
        """Those of bodies, and of whole records where they are there."""
        patch(folder, log, log.offsets[4] + 90, b"?")
        log.append(Message(property_crc=True))
        log.write_to(folder)
        patch(folder, log, log.offsets[4] + 90, b"?")
        patch(folder, log, log.offsets[-1] + 16, b"\1")
        assert scanned(folder) == log.offsets
        with pytest.raises(CorruptCommitLogError, match="body_crc at byte"):
            scanned(folder, check_crc=True)
        with pytest.raises(CorruptCommitLogError, match="property_crc at byte"):
            scanned(folder, check_crc=True, start=log.offsets[5])
        kept = scanned(folder, check_crc=True, mode="DROPMALFORMED")
        assert kept == [o for o in log.offsets if o not in (log.offsets[4], log.offsets[-1])]
        states = CommitLog(folder).read_at(log.offsets, ["size"], check_crc=True)["state"]
        bad = [o for o, s in zip(log.offsets, states.to_pylist(), strict=True) if s == "bad_crc"]
        assert bad == [log.offsets[4], log.offsets[-1]]

    def test_each_bit_of_a_record_that_ends_with_its_crc_is_checked(self, tmp_path):
        """Those of its name and of its end, too, and digits that are damaged into other bytes."""
        log = Log(file_size=65536)
        keys = b"KEYS\1k\2"
        count = CRC_RESERVED_SIZE * 8
        for _ in range(count + 1):
            log.append(Message(properties=keys, property_crc=True))
        log.append(Message(properties=keys + b"n\x010123456789\2"))
        log.write_to(tmp_path)
        assert scanned(tmp_path, check_crc=True) == log.offsets
        size = log.offsets[1]
        content = (tmp_path / f"{0:020d}").read_bytes()
        for bit in range(count):
            at = (bit + 1) * size - CRC_RESERVED_SIZE + bit // 8
            patch(tmp_path, log, at, bytes([content[at] ^ 1 << bit % 8]))
        kept = scanned(tmp_path, check_crc=True, mode="DROPMALFORMED")
        assert kept == log.offsets[count:]
        with pytest.raises(CorruptCommitLogError, match="property_crc at byte"):
            scanned(tmp_path, check_crc=True)

    def test_records_inside_bodies_are_answered_when_asked_for(self, tmp_path):
        """They are no messages of the log, but nothing breaks."""
        log = Log(4096)
        inner = log.end + 88
        outer = log.append(Message(body=simple(1).encode(inner)))
        found = CommitLog(log.write_to(tmp_path)).read_at([inner, outer, inner], ["size", "body"])
        assert found["state"].to_pylist() == ["record"] * 3
        assert found["size"].to_pylist() == [
            len(simple(1).encode(0)),
            len(Message(body=simple(1).encode(inner)).encode(0)),
            len(simple(1).encode(0)),
        ]

    @pytest.mark.parametrize("remote", sampled([False, True], False))
    @settings(max_examples=examples(150))
    @given(
        changes=st.lists(st.tuples(st.integers(0, 3 * 1024 - 1), st.integers(0, 255)), max_size=4)
    )
    def test_any_changed_byte_is_sound_or_our_error(self, tmp_path_factory, changes, remote):
        """No hang, no crash, no foreign exception; what is read is checked against the truth."""
        log = Log(1024)
        while log.end < 2600:
            log.append(simple(len(log.offsets), 5))
        path = log.write_to(tmp_path_factory.mktemp("log"))
        for place, value in changes:
            patch(path, log, place, bytes([value]))
        opened = CommitLog(str(path), filesystem=pafs.LocalFileSystem() if remote else None)
        try:
            for options in ({}, {"check_crc": True}, {"columns": REBUILD}):
                try:
                    found = offsets_of(opened.scan(**options))
                except CorruptCommitLogError:
                    pass
                else:
                    assert found == sorted(set(found))
            dropped = offsets_of(opened.scan(mode="DROPMALFORMED"))
            assert set(dropped) <= set(log.offsets)
            touched = {max(o for o in log.offsets if o <= place) for place, _ in changes}
            if not changes:
                assert dropped == log.offsets
            states = opened.read_at(log.offsets, ["size"])["state"].to_pylist()
            for offset, state in zip(log.offsets, states, strict=True):
                assert state == "record" or offset in touched
            assert opened.max_offset <= log.end
            for file in opened.files:
                opened.record_boundaries(file, 300)
        finally:
            opened.close()
            shutil.rmtree(path)
