"""Finding the geometry of a file from the file itself."""

from __future__ import annotations

import contextlib
import random
import struct
import time

import pyarrow.fs as pafs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import BEGIN, damaged_files

from recorded import ROCKETMQ_CLASSES
from rmqindex import CorruptIndexError, IndexFile, Layout, RmqIndexError, sample_store
from rmqindex.indexfile.committed import open_index_source
from rmqindex.indexfile.geometry import infer_layout
from twin import INT_MAX, BrokerFile


def random_file(slots, places, entries, seed=0):
    """A file of random hashes and rising offsets and times."""
    rng = random.Random(seed)
    file = BrokerFile(slots, places)
    for number in range(entries):
        file.put(rng.randrange(2**31), 1000 + 211 * number, BEGIN + 37 * number)
    return file


def write(folder, data, name="20231114221320000"):
    """Write bytes as a file."""
    path = folder / name
    path.write_bytes(bytes(data))
    return path


def inferred(path):
    """Return the geometry of a file, or the message that says why there is none."""
    try:
        return Layout.infer(path)
    except RmqIndexError as error:
        return str(error)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for tests that write the same file again and again."""
    return tmp_path_factory.mktemp("files")


class TestFound:
    """Files whose geometry is theirs alone."""

    def test_every_vector_of_two_entries_or_more(self, vector):
        """Small as they are; with one entry, the right one or several that fit."""
        entries = vector.case["header"]["index_count"] - 1
        if entries >= 2:
            assert Layout.infer(vector.path) == vector.layout
            return
        answer = inferred(vector.path)
        reason = "several geometries fit" if entries else "any geometry fits"
        assert answer == vector.layout or reason in answer

    def test_every_file_of_the_sample_store(self):
        """97 slots and 200 entries, as its broker was configured."""
        paths = sorted((sample_store() / "index").iterdir())
        paths += sorted((ROCKETMQ_CLASSES / "store_recovered" / "index").iterdir())
        assert {Layout.infer(path) for path in paths} == {Layout(97, 200)}

    def test_the_default(self, default_size_file):
        """Its size says so, and its entries agree."""
        assert Layout.infer(default_size_file) == Layout()

    @given(st.integers(1, 40), st.integers(3, 60), st.integers(2, 60), st.integers(0, 2**32))
    def test_no_other_geometry_is_returned(self, folder, slots, places, entries, seed):
        """Either the right one, or an error that says that several fit."""
        file = random_file(slots, places, entries, seed)
        path = write(folder, file.data)
        answer = inferred(path)
        assert answer == Layout(slots, places) or (
            "several geometries fit" in answer and file.index_count - 1 <= 3
        )

    @pytest.mark.parametrize(("slots", "places"), [(1000, 4000), (999, 4001), (1, 5000), (5000, 2)])
    @pytest.mark.parametrize("entries", [1, 20, 3999])
    def test_any_shape(self, tmp_path, slots, places, entries):
        """Full, half empty and almost empty."""
        path = write(tmp_path, random_file(slots, places, entries).data)
        assert Layout.infer(path) == Layout(slots, places)

    def test_hot_keys_do_not_hide_the_geometry(self, tmp_path):
        """One key, one chain."""
        file = BrokerFile(50, 400)
        for number in range(300):
            file.put(12345, number, BEGIN + number)
        assert Layout.infer(write(tmp_path, file.data)) == Layout(50, 400)

    def test_files_before_4_7_1_count_puts_instead_of_slots(self, tmp_path):
        """The header's hash_slot_count rose on every put."""
        file = random_file(17, 80, 70)
        struct.pack_into(">i", file.data, 32, 70)
        assert Layout.infer(write(tmp_path, file.data)) == Layout(17, 80)

    @pytest.mark.parametrize(("slots", "places"), [(100, 400), (93, 171)])
    def test_a_broker_that_is_writing(self, tmp_path, slots, places):
        """At each of its steps: entry, slot, counts, end offset; also many entries ahead."""
        before = random_file(slots, places, 90)
        after = random_file(slots, places, 91)
        count, end = after.data[32:40], after.data[24:32]
        states = [
            before.data[:40] + after.data[40:],
            before.data[:32] + count + after.data[40:],
            before.data[:24] + end + before.data[32:40] + after.data[40:],
            before.data[:40] + random_file(slots, places, 130).data[40:],
        ]
        for state in states[:2] + states[3:]:
            assert Layout.infer(write(tmp_path, state)) == Layout(slots, places)

    def test_a_crash_that_lost_the_newest_entry(self, tmp_path):
        """Its slot was written, the entry itself was not."""
        file = random_file(93, 171, 90)
        header = bytes(file.data[:40])
        file.put(77, 10**6, BEGIN + 10**6)
        at = 40 + 4 * 93 + 20 * 91
        file.data[at : at + 20] = bytes(20)
        assert Layout.infer(write(tmp_path, header + file.data[40:])) == Layout(93, 171)


class TestWrongSlotCount:
    """``hashSlotCount`` alone is wrong: it is no part of any answer."""

    @pytest.mark.parametrize("count", [-1, 0, 1, 99])
    @pytest.mark.parametrize(("slots", "places"), [(8, 32), (7, 40)])
    def test_the_entries_tell_the_slots_that_are_in_use(self, tmp_path, slots, places, count):
        """So that the file is read as with the right one, in each usual or unusual shape."""
        data = bytearray(random_file(slots, places, 30).data)
        struct.pack_into(">i", data, 32, count)
        assert Layout.infer(write(tmp_path, data)) == Layout(slots, places)

    @pytest.mark.parametrize("count", [None, 1])
    def test_a_slot_that_lost_its_entries_is_damage_all_the_same(self, tmp_path, count):
        """The header's count shows it, or the entries do."""
        data = bytearray(random_file(17, 41, 40).data)
        used = [slot for slot in range(17) if any(data[40 + 4 * slot : 44 + 4 * slot])]
        data[40 + 4 * used[0] : 44 + 4 * used[0]] = bytes(4)
        if count is not None:
            struct.pack_into(">i", data, 32, count)
        with pytest.raises(RmqIndexError, match="no geometry fits its entries and slots"):
            Layout.infer(write(tmp_path, data))


class TestRefused:
    """Nothing is guessed."""

    def test_one_entry_may_fit_several_geometries(self, vector):
        """The error names the options and the candidates."""
        if vector.case["name"] != "one_put":
            return
        with pytest.raises(
            RmqIndexError,
            match=r"several geometries fit: maxHashSlotNum/maxIndexNum 3/21, 8/20, 13/19; "
            r"say which with maxHashSlotNum and maxIndexNum",
        ):
            Layout.infer(vector.path)

    def test_a_slot_without_an_entry_leads_to_none(self, tmp_path):
        """However many slots the header counts."""
        header = struct.pack(">qqqqii", BEGIN, BEGIN, 100, 200, 2, 3)
        entries = struct.pack(">iqiiiqii", 98, 100, 0, 0, 97, 200, 0, 0)
        table = (bytes(20) + entries).ljust(6 * 20, b"\0")
        none, stray = (
            inferred(write(tmp_path, header + struct.pack(">4i", first, 2, 1, 0) + table))
            for first in (0, 1)
        )
        assert none == Layout(4, 6)
        assert "no geometry fits" in stray

    def test_no_entries_fit_any_geometry(self, tmp_path):
        """There is no evidence in the file."""
        path = write(tmp_path, BrokerFile(8, 20).data)
        with pytest.raises(
            RmqIndexError, match=r"no entries, so that any geometry fits; .*maxIndex"
        ):
            Layout.infer(path)

    @pytest.mark.parametrize("size", [0, 1, 39, 40, 63, 66, 469])
    def test_a_size_that_no_geometry_has(self, tmp_path, size):
        """Too small, or no whole number of slots."""
        path = write(tmp_path, b"\1" * size)
        with pytest.raises(RmqIndexError, match=f"no geometry has a file size of {size} bytes"):
            Layout.infer(path)

    def test_the_default_size_alone_is_not_enough(self, tmp_path):
        """An entry must hang where the default geometry says."""
        path = tmp_path / "20231114221320000"
        with path.open("wb") as file:
            file.write(struct.pack(">qqqqii", BEGIN, BEGIN, 5, 5, 1, 2))
            file.truncate(420_000_040)
        with pytest.raises(RmqIndexError, match="no geometry fits its entries and slots"):
            Layout.infer(path)

    def test_a_count_beyond_the_size(self, tmp_path):
        """It is the header that is wrong."""
        data = random_file(8, 20, 10).data
        struct.pack_into(">i", data, 36, INT_MAX)
        with pytest.raises(CorruptIndexError, match="index_count at byte 36: expected at most 21 "):
            Layout.infer(write(tmp_path, data))

    def test_zeros_that_look_right_everywhere_end_soon(self, tmp_path):
        """Millions of places could be an entry of zeros; work is bounded all the same."""
        path = tmp_path / "20231114221320000"
        with path.open("wb") as file:
            file.write(struct.pack(">qqqqii", 0, 0, 0, 0, 3, 2))
            file.write(struct.pack(">6i", 1, 0, 0, 0, 0, 1))
            file.truncate(100_000_000)
        start = time.monotonic()
        with pytest.raises(RmqIndexError, match="maxHashSlotNum"):
            Layout.infer(path)
        assert time.monotonic() - start < 60

    @given(damaged_files())
    def test_any_bytes_have_a_geometry_or_are_refused(self, folder, damaged):
        """With an error of ours."""
        _, data = damaged
        path = write(folder, data)
        with contextlib.suppress(RmqIndexError):
            assert Layout.infer(path).file_size == len(data)


class TestLarge:
    """The search stays quick and small where millions of geometries have the size."""

    def test_an_odd_geometry_of_420_megabytes(self, tmp_path):
        """Found within seconds."""
        slots, places = 5_000_005, 19_999_999
        path = tmp_path / "20231114221320000"
        small = random_file(slots, 40, 30)
        with path.open("wb") as file:
            file.write(small.data)
            file.truncate(420_000_040)
        start = time.monotonic()
        assert Layout.infer(path) == Layout(slots, places)
        assert time.monotonic() - start < 30


class TestRemote:
    """Other stores are asked little."""

    def test_the_usual_shapes_are_inferred(self, tmp_path):
        """Four entries a slot, from a few small reads."""
        write(tmp_path, random_file(100, 400, 90).data, "100")
        filesystem = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
        with open_index_source("100", filesystem=filesystem) as source:
            assert infer_layout(source) == Layout(100, 400)

    def test_a_few_entries_at_offset_0_tell_no_usual_shape_that_others_have_too(self, tmp_path):
        """Zeros are no entry of another geometry: it is asked for, not guessed."""
        for slots, places in ((12, 90), (6, 45), (5, 83), (39, 51)):
            for number in range(1, 13):
                file = BrokerFile(slots, places)
                file.put(slots * number, 0, BEGIN)
                write(tmp_path, file.data, "100")
                filesystem = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
                with (
                    open_index_source("100", filesystem=filesystem) as source,
                    pytest.raises(RmqIndexError, match="say which with maxHash"),
                ):
                    infer_layout(source)

    def test_a_few_entries_of_a_usual_shape_are_enough(self, tmp_path):
        """One that was written has a hash."""
        file = BrokerFile(22, 88)
        file.put(12345, 0, BEGIN)
        write(tmp_path, file.data, "100")
        filesystem = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
        with open_index_source("100", filesystem=filesystem) as source:
            assert infer_layout(source) == Layout(22, 88)

    def test_other_shapes_are_asked_for(self, tmp_path):
        """The message names the options."""
        write(tmp_path, random_file(93, 171, 90).data, "100")
        filesystem = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
        with (
            open_index_source("100", filesystem=filesystem) as source,
            pytest.raises(RmqIndexError, match="in local files only; say which with maxHash"),
        ):
            infer_layout(source)
        with IndexFile("100", Layout(93, 171), filesystem=filesystem) as file:
            assert sum(batch.num_rows for batch in file.scan()) == 90
