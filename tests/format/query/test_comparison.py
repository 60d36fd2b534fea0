"""Whether two stores hold the same, however their files are called and cut."""

from __future__ import annotations

import shutil
from dataclasses import asdict

import pytest
from tests.system.store_kinds import copy_store

import rmqindex
from remote_stores import under_uri
from rmqindex import IndexFileWriter, Layout, RmqIndexError, rebuild_index
from rmqindex.bulk import relayout_index
from rmqindex.query import compare_stores
from rmqindex.query import compared_parts as parts_module

STORE = rmqindex.sample_store()
TIME = 1_700_000_000_000
LAYOUT = Layout(5, 20)
ENTRIES = [(5, 100, TIME), (7, 100, TIME), (5, 300, TIME + 2_500), (9, 500, TIME + 9_000)]


def write_index(root, *files):
    """Write files of entries, each a hash, an offset and a time, and return the directory."""
    root.mkdir(parents=True, exist_ok=True)
    for number, entries in enumerate(files):
        with IndexFileWriter(root / f"{20260101000000000 + number}", LAYOUT) as writer:
            for hash_, offset, time in entries:
                writer.put_many([hash_], [offset], [time])
    return root


def compare(a, b, *, geometry=(LAYOUT, LAYOUT), **names):
    """Compare two indexes, and return the counts of their entries and the differences."""
    found = compare_stores(a, b, layouts=geometry, **names)
    (part,) = found.parts
    counts = (part.only_a, part.only_b, part.differing)
    return counts, [(each.difference, each.offset, each.key_hash) for each in found.differences]


@pytest.fixture
def copy(tmp_path):
    """A copy of the sample store."""
    shutil.copytree(STORE, tmp_path / "copy")
    return tmp_path / "copy"


class TestSame:
    """Stores that hold the same."""

    def test_a_path_is_the_same_as_itself(self):
        """All parts, and the bytes."""
        found = compare_stores(STORE, STORE)
        assert (found.same, found.files, found.differences) == (True, "equal", ())
        assert [(part.part, part.a_count, part.b_count) for part in found.parts] == [
            ("entries", 959, 959),
            ("messages", 430, 430),
            ("units", 406, 406),
        ]

    def test_a_rebuilt_index_is_the_brokers_but_for_its_names(self, copy):
        """Which proves the rebuild."""
        shutil.rmtree(copy / "index")
        rebuild_index(copy, copy / "index", Layout(97, 200), time_zone="UTC")
        found = compare_stores(STORE, copy)
        assert (found.same, found.files) == (True, "equal but for names")

    @pytest.mark.parametrize("layout", [Layout(50, 61), Layout(13, 2000)])
    def test_other_files_may_hold_the_same(self, copy, layout):
        """A rebuild with another geometry has other first times, and so others read back."""
        shutil.rmtree(copy / "index")
        rebuild_index(copy, copy / "index", layout, time_zone="UTC")
        found = compare_stores(STORE, copy)
        assert (found.same, found.files) == (True, "different")

    def test_a_relayout_without_a_log_keeps_the_times(self, copy):
        """Up to the second that an IndexFile leaves out."""
        relayout_index(copy, Layout(20, 80), commit_log=None)
        assert compare_stores(STORE, copy, parts=["entries"]).same

    def test_a_store_and_an_index_have_entries_in_common(self, copy):
        """The rest is not compared."""
        for other in (copy / "index", STORE):
            found = compare_stores(STORE / "index", other)
            assert ([part.part for part in found.parts], found.same) == (["entries"], True)

    def test_a_log_and_queues_stand_alone(self, copy):
        """As does a file of either."""
        for name, part in (("commitlog", "messages"), ("consumequeue", "units")):
            found = compare_stores(STORE / name, copy)
            assert ([each.part for each in found.parts], found.same) == ([part], True)

    def test_a_store_of_dledger_has_messages(self, tmp_path):
        """To the end that the group agreed on or beyond, as a scan reads it."""
        store = copy_store("dledger", tmp_path / "a")
        shutil.copytree(store, tmp_path / "b")
        found = compare_stores(store, tmp_path / "b")
        assert found.same
        assert next(part.a_count for part in found.parts if part.part == "messages")

    def test_a_remote_store_is_compared_with_a_local_one(self, copy, monkeypatch):
        """The geometry of a remote file is given, or inferred by the default alone."""
        remote = under_uri(monkeypatch, copy)
        layouts = (None, Layout(97, 200))
        found = compare_stores(STORE, remote, layouts=layouts, parts=["entries", "messages"])
        assert (found.same, found.files, len(found.parts)) == (True, "equal", 2)
        queue = "consumequeue/TopicTest"
        assert compare_stores(STORE / queue, f"{remote}/{queue}").same

    def test_two_empty_indexes_are_the_same(self, tmp_path):
        """Files without entries hold nothing."""
        a, b = (write_index(tmp_path / name / "index", []) for name in "ab")
        assert compare(a, b) == ((0, 0, 0), [])

    def test_the_order_of_files_and_entries_does_not_count(self, tmp_path):
        """What a clock or a second broker put out of order is put in order."""
        a = write_index(tmp_path / "a", ENTRIES[2:], ENTRIES[:2])
        b = write_index(tmp_path / "b", ENTRIES)
        assert compare(a, b) == ((0, 0, 0), [])

    def test_times_before_the_first_one_of_a_file_are_unknown(self, tmp_path):
        """A clock that stepped back: they are stored as 0 seconds."""
        early = (9, 700, TIME - 60_000)
        a = write_index(tmp_path / "a", [*ENTRIES, early])
        b = write_index(tmp_path / "b", ENTRIES, [early])
        assert compare(a, b) == ((0, 0, 0), [])


class TestDifferent:
    """What is told, by offset."""

    @pytest.mark.parametrize("size", [1, 2, 1 << 22])
    def test_what_one_side_has_and_what_differs(self, tmp_path, monkeypatch, size):
        """However few entries are compared at a time."""
        monkeypatch.setattr(parts_module, "_BLOCK_ENTRIES", size)
        monkeypatch.setattr(parts_module, "_SAMPLED", 1)
        a = write_index(tmp_path / "a", ENTRIES[:3], [ENTRIES[3], (4, 900, TIME + 20_000)])
        changed = (5, 300, TIME + 7_000)
        b = write_index(tmp_path / "b", [ENTRIES[0], changed, ENTRIES[3], (1, 901, TIME)])
        assert compare(a, b) == (
            (2, 1, 1),
            [
                ("only in A", 100, 7),
                ("time", 300, 5),
                ("only in A", 900, 4),
                ("only in B", 901, 1),
            ],
        )
        assert compare(b, a)[0] == (1, 2, 1)
        assert compare(a, b, limit=1) == ((2, 1, 1), [("only in A", 100, 7)])

    def test_an_entry_twice_is_not_an_entry_once(self, tmp_path):
        """A broker that indexed again after a crash has it twice."""
        a = write_index(tmp_path / "a", [ENTRIES[0], ENTRIES[0]])
        b = write_index(tmp_path / "b", ENTRIES[:1])
        assert compare(a, b) == ((1, 0, 0), [("only in A", 100, 5)])

    def test_one_entry_against_none(self, tmp_path):
        """Either way."""
        a, b = write_index(tmp_path / "a", ENTRIES[:1]), write_index(tmp_path / "b" / "index", [])
        assert compare(a, b) == ((1, 0, 0), [("only in A", 100, 5)])
        assert compare(b, a) == ((0, 1, 0), [("only in B", 100, 5)])

    def test_a_byte_of_a_message_is_a_difference(self, copy):
        """With the offset and the sizes."""
        file = min((copy / "commitlog").iterdir())
        data = bytearray(file.read_bytes())
        data[20:28] = (77).to_bytes(8, "big")  # its queue offset
        file.write_bytes(data)
        found = compare_stores(STORE, copy, parts=["messages"])
        (difference,) = found.differences
        assert (difference.difference, difference.offset) == ("bytes", 0)
        assert difference.a == difference.b == "202"

    def test_a_unit_and_a_queue_are_differences(self, copy):
        """With topic, queue and queue offset."""
        file = min((copy / "consumequeue" / "TopicTest" / "0").iterdir())
        data = bytearray(file.read_bytes())
        data[20:28] = (1).to_bytes(8, "big")
        file.write_bytes(data)
        shutil.rmtree(copy / "consumequeue" / "TopicTest" / "1")
        found = compare_stores(STORE, copy, parts=["units"], limit=1000)
        (part,) = found.parts
        assert (part.only_b, part.differing) == (0, 1)
        assert {(each.topic, each.queue_id) for each in found.differences} == {
            ("TopicTest", 0),
            ("TopicTest", 1),
        }
        changed = found.differences[0]
        assert (changed.difference, changed.offset) == ("unit", 1)
        assert changed.b.split()[0] == "1"
        assert part.only_a == len(found.differences) - 1

    def test_what_a_store_root_lacks_is_different(self, copy):
        """A lost index or log is no part that is left out."""
        shutil.rmtree(copy / "index")
        shutil.rmtree(copy / "consumequeue")
        counts = {part.part: part.only_a for part in compare_stores(STORE, copy).parts}
        assert counts == {"entries": 959, "messages": 0, "units": 406}

    def test_the_table_has_the_differences(self, tmp_path):
        """As Arrow, whose columns are there without rows as well."""
        a, b = write_index(tmp_path / "a", ENTRIES), write_index(tmp_path / "b", ENTRIES[1:])
        found = compare_stores(a, b, layouts=(LAYOUT, LAYOUT))
        assert found.table().to_pylist() == [asdict(each) for each in found.differences]
        assert compare_stores(STORE, STORE).table().column_names == found.table().column_names


class TestCommon:
    """Only what both have."""

    def test_expired_files_and_a_log_that_goes_on(self, copy):
        """The first log file and IndexFile are gone, as after an expiry."""
        min((copy / "commitlog").iterdir()).unlink()
        min((copy / "index").iterdir()).unlink()
        assert not compare_stores(STORE, copy).same
        found = compare_stores(STORE, copy, common=True)
        assert (found.same, found.files) == (True, None)
        by_name = {part.part: part for part in found.parts}
        assert by_name["entries"].a_range[0] < by_name["entries"].b_range[0]
        assert 0 < by_name["messages"].a_count == by_name["messages"].b_count < 430

    def test_a_difference_inside_is_still_told(self, tmp_path):
        """Between the later of both first offsets and the earlier of both last ones."""
        a = write_index(tmp_path / "a", [*ENTRIES, (1, 800, TIME + 9_000)])
        b = write_index(tmp_path / "b", [ENTRIES[2], (3, 400, TIME + 3_000), ENTRIES[3]])
        assert compare(a, b, common=True) == ((0, 1, 0), [("only in B", 400, 3)])

    def test_a_queue_of_one_store_is_left_out(self, copy):
        """It has no offsets in common, and is told."""
        shutil.rmtree(copy / "consumequeue" / "TopicTest" / "2")
        found = compare_stores(STORE, copy, parts=["units"], common=True)
        assert (found.same, found.parts[0].left_out) == (True, ["TopicTest 2"])
        assert compare_stores(STORE, STORE, common=True).parts[-1].left_out == []

    def test_nothing_that_both_have_is_not_the_same(self, copy, tmp_path):
        """By each part: one has none of it, or other offsets, or only the first in common."""
        for name in ("commitlog", "consumequeue"):
            shutil.rmtree(copy / name)
        (copy / "consumequeue").mkdir()
        for part in ("messages", "units"):
            with pytest.raises(RmqIndexError, match=f"expected {part} at offsets that both have"):
                compare_stores(STORE, copy, parts=[part], common=True)
        logs = sorted((STORE / "commitlog").iterdir())
        for number, log in enumerate(logs[:2]):
            (tmp_path / str(number) / "commitlog").mkdir(parents=True)
            shutil.copy(log, tmp_path / str(number) / "commitlog")
        with pytest.raises(RmqIndexError, match=r"got 0 to \d+ and 65536 to"):
            compare_stores(tmp_path / "0", tmp_path / "1", common=True)
        a = write_index(tmp_path / "a", ENTRIES[:1])
        for name, entries in (("none", []), ("behind", ENTRIES[2:]), ("longer", ENTRIES)):
            with pytest.raises(RmqIndexError, match="expected entries at offsets that both have"):
                compare(a, write_index(tmp_path / name / "index", entries), common=True)

    def test_two_empty_logs_are_the_same(self, tmp_path):
        """There is nothing that only one of them has."""
        for name in "ab":
            (tmp_path / name / "commitlog").mkdir(parents=True)
            (tmp_path / name / "commitlog" / f"{0:020d}").write_bytes(bytes(4096))
        assert compare_stores(tmp_path / "a", tmp_path / "b", common=True).same


class TestRefused:
    """What is no comparison."""

    @pytest.mark.parametrize("part", ["", "/index"])
    @pytest.mark.parametrize("is_first", [True, False])
    def test_an_index_that_cannot_be_used_is_not_taken_for_a_log_or_queues(
        self, copy, part, is_first
    ):
        """Which it would lead to by its numbered folder: all parts but the entries are the same."""
        (copy / "index" / "1").mkdir()
        paths = [f"{copy}{part}", f"{STORE}{part}"][:: 1 if is_first else -1]
        with pytest.raises(RmqIndexError, match="index/1: expected an IndexFile, got a directory"):
            compare_stores(*paths)

    def test_queues_of_a_topic_named_index_are_compared(self, copy):
        """Whose folder is called as that of an index."""
        (topic, *_) = (copy / "consumequeue").iterdir()
        topic.rename(topic.with_name("index"))
        for path in (copy / "consumequeue", copy / "consumequeue" / "index"):
            (part,) = compare_stores(path, path).parts
            assert (part.part, part.same, part.a_count > 0) == ("units", True, True)

    def test_a_path_that_is_absent(self, tmp_path):
        """By its name."""
        with pytest.raises(RmqIndexError, match="no such file"):
            compare_stores(STORE, tmp_path / "nothing")

    def test_paths_that_have_nothing_in_common(self):
        """An index and a log."""
        with pytest.raises(RmqIndexError, match="expected parts that both can have"):
            compare_stores(STORE / "index", STORE / "commitlog")

    @pytest.mark.parametrize("names", [{"parts": ["keys"]}, {"limit": 0}])
    def test_other_arguments(self, names):
        """By name."""
        with pytest.raises(ValueError, match="expected"):
            compare_stores(STORE, STORE, **names)

    def test_damage_is_no_difference(self, copy):
        """It is refused by its byte, or left out."""
        file = min((copy / "index").iterdir())
        data = bytearray(file.read_bytes())
        data[40 + 4 * 97 + 20 * 7 : 40 + 4 * 97 + 20 * 8] = b"\xff" * 20
        file.write_bytes(data)
        with pytest.raises(RmqIndexError, match=file.name):
            compare_stores(STORE, copy)
        found = compare_stores(STORE, copy, parts=["entries"], mode="DROPMALFORMED")
        assert [each.difference for each in found.differences] == ["only in A"]

    def test_a_file_that_vanishes_meanwhile(self, copy, monkeypatch):
        """No answer is made of half of it."""
        entries = parts_module.Entries.blocks

        def vanish(self, low, high):
            for file in (copy / "index").iterdir():
                file.unlink()
            return entries(self, low, high)

        monkeypatch.setattr(parts_module.Entries, "blocks", vanish)
        with pytest.raises(RmqIndexError):
            compare_stores(STORE, copy, parts=["entries"])
