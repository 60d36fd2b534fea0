"""One way to the bytes of a file, wherever it lies."""

from __future__ import annotations

import copy
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stores import CountingHandler
from strategies import BEGIN

from rmqindex import CorruptIndexError, IndexFile, IndexFileWriter, Layout, RmqIndexError
from rmqindex.indexfile import open_index_source
from rmqindex.layout import ENTRY_DTYPE
from rmqindex.storage import local
from rmqindex.storage.location import Location, Storage
from rmqindex.storage.opening import open_source
from rmqindex.storage.s3 import S3Settings
from rmqindex.transaction import list_once
from twin import BrokerFile

LAYOUT = Layout(64, 300)


def full_file():
    """A file that is full."""
    file = BrokerFile(64, 300)
    for number in range(299):
        file.put(number * 7, number, BEGIN + number)
    return bytes(file.data)


DATA = full_file()
SLOTS = np.frombuffer(DATA, ">i4", 64, 40)
ENTRIES = np.frombuffer(DATA, ENTRY_DTYPE, 300, 40 + 4 * 64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with one file, ``100``."""
    path = tmp_path_factory.mktemp("store")
    (path / "100").write_bytes(DATA)
    return path


@pytest.fixture(params=["local", "mapped", "remote", "extended"])
def source(request, folder, tmp_path, monkeypatch):
    """The file, opened in each way there is."""
    if request.param in ("local", "mapped"):
        if request.param == "mapped":
            monkeypatch.setattr(local, "_MOST_SHORT_READS", 0)
        opened = open_index_source(folder / "100")
    elif request.param == "remote":
        remote = pafs.SubTreeFileSystem(str(folder), pafs.LocalFileSystem())
        opened = open_index_source("100", filesystem=remote)
    else:
        # The last entries end in zeros all the same: cut them off, and have them back.
        (tmp_path / "100").write_bytes(DATA[:-1].rstrip(b"\0"))
        opened = open_index_source(tmp_path / "100", zero_extend_to=LAYOUT.file_size)
    with opened:
        yield opened


class TestEverySource:
    """What is common to all."""

    def test_bytes_are_read_as_asked(self, source):
        """Neither more nor fewer."""
        assert source.size == len(DATA)
        assert bytes(source.read(0, 40)) == DATA[:40]
        assert bytes(source.read(100, 0)) == b""
        assert bytes(source.read(len(DATA) - 30, 30))[:10] == DATA[-30:-20]

    @pytest.mark.parametrize("wanted", [[], [0], [63, 0, 5, 5, 62]])
    def test_slots_are_gathered_in_native_order(self, source, wanted):
        """As many as asked for, repeated ones too."""
        slots = source.slots(LAYOUT, np.array(wanted, np.int64))
        assert slots.dtype == np.int32
        assert slots.tolist() == SLOTS[wanted].tolist() if wanted else len(slots) == 0

    @pytest.mark.parametrize("wanted", [[], [1], [290, 1, 17, 17, 2, 1]])
    def test_entries_are_gathered(self, source, wanted):
        """From anywhere, in any order."""
        entries = source.entries(LAYOUT, np.array(wanted, np.int32))
        assert entries.tolist() == [ENTRIES[position].item() for position in wanted]

    def test_entries_are_read_as_a_range(self, source):
        """The end is not included."""
        assert source.entry_range(LAYOUT, 3, 250).tolist() == ENTRIES[3:250].tolist()

    def test_what_lies_beyond_the_end_is_an_error_of_the_file(self, source):
        """It names the size."""
        with pytest.raises(CorruptIndexError, match="file_size at byte") as caught:
            source.read(len(DATA) - 5, 6)
        assert caught.value.got == len(DATA)
        for gather in (source.slots, source.entries):
            with pytest.raises(CorruptIndexError, match="file_size at byte"):
                gather(LAYOUT, np.array([5, 10**6], np.int64))
        with pytest.raises(CorruptIndexError, match="file_size at byte"):
            source.entry_range(LAYOUT, 299, 301)

    def test_closing_twice_is_no_error(self, source):
        """As with Python's own files."""
        source.close()
        source.close()


def mappings(path):
    """How many mappings of a file this process has."""
    return Path("/proc/self/maps").read_text().count(f"{path}\n")


def descriptors(path):
    """How many descriptors of a file this process has."""
    own = Path("/proc/self/fd")
    return sum(link.is_symlink() and str(link.readlink()) == str(path) for link in own.iterdir())


class TestLocal:
    """Files that are read in short pieces, and mapped where that is cheaper."""

    @pytest.fixture
    def wide(self, tmp_path):
        """A file whose slots and entries lie far apart, and its geometry."""
        layout = Layout(200_000, 800_000)
        path = tmp_path / "200"
        with IndexFileWriter(path, layout) as writer:
            places = np.arange(0, 2**31 - 1, 40_000, dtype=np.int32)
            assert writer.put_many(places, places.astype(np.int64), np.full(len(places), BEGIN))
        return path, layout

    def test_a_few_items_are_read_without_a_mapping_and_more_with_one(self, wide, monkeypatch):
        """The answers are the same, and a file has one descriptor at any time."""
        path, layout = wide
        wanted = np.array([0, 40_000, 199_999, 3, 40_000], np.int64)
        expected = np.fromfile(path, ">i4", 200_000, offset=40)[wanted]
        monkeypatch.setattr(local, "_MOST_SHORT_READS", 15)  # of which opening takes four
        with open_index_source(path) as source:
            for gathers_before_a_mapping in (True, True, False, False):
                assert source.slots(layout, wanted).tolist() == expected.tolist()
                assert mappings(path) == (not gathers_before_a_mapping)
                assert descriptors(path) == 1
        assert mappings(path) == descriptors(path) == 0

    def test_a_long_read_maps_the_file(self, wide):
        """It is not copied."""
        path, layout = wide
        with open_index_source(path) as source:
            assert source.entry_range(layout, 1, 100)["phy_offset"][1] == 40_000
            assert mappings(path) == 0
            assert source.entry_range(layout, 1, 50_000)["phy_offset"][1] == 40_000
            assert mappings(path) == 1
            assert bytes(source.read(0, 8)) == path.read_bytes()[:8]

    def test_a_source_that_is_forgotten_leaves_no_descriptor(self, folder):
        """As one that is closed."""
        source = open_index_source(folder / "100")
        assert descriptors(folder / "100") == 1
        del source
        assert descriptors(folder / "100") == 0

    def test_a_file_that_was_cut_meanwhile_is_named(self, wide):
        """With what is left of it; a mapping would end the process."""
        path, layout = wide
        with open_index_source(path) as source:
            os.truncate(path, 500)
            for read in (
                lambda: source.read(600, 4),
                lambda: source.slots(layout, np.array([0, 199_999])),
            ):
                with pytest.raises(CorruptIndexError, match="file_size at byte 500: expected"):
                    read()

    @pytest.mark.parametrize("prefix", ["file:", "file://", "file://localhost", "FILE:"])
    def test_file_uris_are_local_paths(self, folder, prefix):
        """Percent signs stand for what they encode."""
        assert Location(f"{prefix}/a%20b/100").local.as_posix() == "/a b/100"
        with open_index_source(f"{prefix}{folder}/100") as source:
            assert not source.remote
            assert source.size == len(DATA)

    def test_another_hosts_file_is_refused(self):
        """A bad argument."""
        with pytest.raises(ValueError, match="file URI of this machine, got file://elsewhere/a"):
            Location.of("file://elsewhere/a")

    @pytest.mark.parametrize("path", ["a:b", "/a/b", "x", "file:/a", "file:///a", "c:/x"])
    def test_these_are_local(self, path):
        """A colon alone makes no URI."""
        assert Location(path).local is not None

    def test_an_empty_file_has_no_bytes(self, tmp_path):
        """It cannot be mapped, but it can be read."""
        (tmp_path / "1").touch()
        with open_index_source(tmp_path / "1") as source:
            assert source.size == 0
            assert bytes(source.read(0, 0)) == b""
            with pytest.raises(CorruptIndexError):
                source.read(0, 1)

    def test_what_is_no_file_is_refused(self, tmp_path):
        """At once, also a pipe to which nobody writes."""
        os.mkfifo(tmp_path / "1")
        for path, reason in [
            (tmp_path / "1", "not a file"),
            (tmp_path, "not a file"),
            (tmp_path / "2", "No such file"),
        ]:
            with pytest.raises(RmqIndexError, match=f"cannot be read: {reason}"):
                open_index_source(path)

    def test_handed_out_entries_outlive_the_source(self, folder):
        """The mapping lives as long as they do."""
        with open_index_source(folder / "100") as source:
            entries = source.entry_range(LAYOUT, 1, 5)
        assert entries.tolist() == ENTRIES[1:5].tolist()


ELSEWHERE = Storage(S3Settings(region="r", secret_key="SECRET"))
INSIDE = Storage(filesystem=pafs.LocalFileSystem())


class TestLocations:
    """Where a file lies, and how to reach it."""

    @pytest.mark.parametrize(
        "directory",
        [
            Location.of("/a b/c"),
            Location.of("file:///a%20b/c"),
            ELSEWHERE.at("s3://bucket/a%20b?endpoint_override=http://h:1/x"),
            INSIDE.at("bucket/a?b"),
        ],
    )
    @pytest.mark.parametrize("name", ["20240101000000000", "%RETRY%a b", "a?b"])
    def test_a_child_has_its_name_and_its_directory(self, directory, name):
        """However names are written there, and with the same storage."""
        child = directory.child(name)
        assert child.name == name
        assert child.parent == directory
        assert child.storage is child.parent.storage is directory.storage

    def test_two_storages_make_two_places_of_one_text(self):
        """So that what is kept by location is never another store's; plain text names either."""
        one, other = (
            ELSEWHERE.at("s3://bucket/a"),
            Storage(S3Settings(region="s")).at("s3://bucket/a"),
        )
        assert one != other
        assert not one == other  # noqa: SIM201  (both operators are defined)
        assert {one: 1, other: 2} == {other: 2, one: 1}
        assert len({one, other}) == 2
        assert one == "s3://bucket/a" == other
        assert one == pickle.loads(pickle.dumps(one)) != pickle.loads(pickle.dumps(other))
        assert one == Storage(S3Settings(region="r", secret_key="SECRET")).at("s3://bucket/a")
        assert one != Storage(S3Settings(region="r", secret_key="ANOTHER")).at("s3://bucket/a")

    def test_a_listing_that_is_kept_is_its_storages(self, tmp_path):
        """Of one directory name in two file systems."""
        stores = []
        for name in ("one", "two"):
            (tmp_path / name / "index").mkdir(parents=True)
            (tmp_path / name / "index" / name).touch()
            inside = pafs.SubTreeFileSystem(str(tmp_path / name), pafs.LocalFileSystem())
            stores.append(Storage(filesystem=inside).at("index"))
        listed = list_once()
        assert [[entry.name for entry in listed(each)] for each in stores] == [["one"], ["two"]]

    @pytest.mark.parametrize(
        "cut",
        [
            lambda path: path + "/b",
            lambda path: path[:-1],
            lambda path: path.rstrip("/"),
            lambda path: path.removesuffix("a"),
            lambda path: path.replace("a", "b"),
            lambda path: path.rpartition("/")[0],
            lambda path: path.split("/", 3)[-1],
            os.path.dirname,
        ],
    )
    def test_what_is_cut_from_one_can_be_reached_as_it_can(self, cut):
        """A text that lost its storage would be looked for elsewhere, with other keys or none."""
        cut_off = Location.of(cut(ELSEWHERE.at("s3://bucket/a/a")))
        assert cut_off.storage is ELSEWHERE
        assert cut_off == cut("s3://bucket/a/a")
        assert type(cut(Location.of("/a/a"))) is str  # nothing is lost of a path of this machine

    def test_the_query_of_a_uri_stays_at_its_end(self):
        """It belongs to the whole URI, and none of its slashes separates names."""
        file = ELSEWHERE.at("s3://bucket/a/index/2024?endpoint_override=http://h:1/x")
        assert file.name == "2024"
        assert file.parent.parent == "s3://bucket/a?endpoint_override=http://h:1/x"

    @pytest.mark.parametrize("root", ["/", "s3://bucket", "s3://bucket/?region=x"])
    def test_a_root_is_in_itself(self, root):
        """What lies beside an index in a bucket's root is never looked for on this machine."""
        assert Location(root).parent == root

    @pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
    def test_a_pickled_location_keeps_its_storage(self, protocol):
        """So does a copy, and one that is made again of itself."""
        place = ELSEWHERE.at("s3://bucket/a")
        for same in (
            pickle.loads(pickle.dumps(place, protocol)),
            copy.deepcopy(place),
            Location.of(place),
        ):
            assert same == place
            assert same.storage == ELSEWHERE

    def test_nothing_but_the_text_shows(self):
        """Neither in JSON nor in a table, a message or the text of a plan."""
        place = ELSEWHERE.at("s3://bucket/a")
        shown = f"{place} {place!r} {ELSEWHERE} {pa.array([place])} {json.dumps({place: place})}"
        assert "SECRET" not in shown
        assert json.loads(json.dumps([place])) == ["s3://bucket/a"]

    def test_paths_inside_a_given_file_system_are_no_uris(self):
        """Nor are they local, whatever they look like."""
        for text in ("/a/b?c", "file:/a/b?c", "s3://a/b?c"):
            place = INSIDE.at(text)
            assert place.local is None
            assert (place.name, place.base) == ("b?c", text)

    def test_a_location_in_another_directory_is_absolute(self, tmp_path, monkeypatch):
        """Links are not followed, and a URI is one already."""
        (tmp_path / "link").symlink_to(tmp_path)
        monkeypatch.chdir(tmp_path)
        assert Location("link/a").absolute == str(tmp_path / "link" / "a")
        assert ELSEWHERE.at("s3://bucket/a").absolute == "s3://bucket/a"


class TestExtended:
    """Short files, read as the broker extends them."""

    @given(st.integers(0, len(DATA)), st.data())
    def test_the_rest_is_zeros(self, tmp_path_factory, cut, data):
        """Wherever the file ends, and nothing on disk changes."""
        path = tmp_path_factory.getbasetemp() / "short"
        path.write_bytes(DATA[:cut])
        whole = DATA[:cut].ljust(len(DATA), b"\0")
        positions = np.array(data.draw(st.lists(st.integers(0, 299), max_size=20)), np.int64)
        slots = np.array(data.draw(st.lists(st.integers(0, 63), max_size=20)), np.int64)
        start = data.draw(st.integers(0, len(DATA)))
        length = data.draw(st.integers(0, len(DATA) - start))
        with open_index_source(path, zero_extend_to=LAYOUT.file_size) as source:
            assert bytes(source.read(start, length)) == whole[start : start + length]
            assert source.slots(LAYOUT, slots).tolist() == [
                int.from_bytes(whole[40 + 4 * slot : 44 + 4 * slot], "big") for slot in slots
            ]
            entries = np.frombuffer(whole, ENTRY_DTYPE, 300, 40 + 4 * 64)
            assert source.entries(LAYOUT, positions).tolist() == entries[positions].tolist()
        assert path.read_bytes() == DATA[:cut]


class TestRemote:
    """Stores elsewhere, where each request costs."""

    @pytest.fixture
    def handler(self, tmp_path):
        """A store with one file of 420 MB that is almost empty, and a whole small one."""
        (tmp_path / "100").write_bytes(DATA)
        layout = Layout(1_000_000, 4_000_000)
        small = BrokerFile(1_000_000, 12)
        for number in range(11):
            small.put(number * 90_000 + number % 2, number, BEGIN + number)
        small.put(0, 99, BEGIN)
        path = tmp_path / "200"
        path.write_bytes(small.data)
        os.truncate(path, layout.file_size)
        return CountingHandler(tmp_path)

    def test_a_lookup_reads_a_header_a_slot_and_its_chain(self, handler):
        """Never the empty tail."""
        filesystem = pafs.PyFileSystem(handler)
        with IndexFile("200", Layout(1_000_000, 4_000_000), filesystem=filesystem) as file:
            answer = file.lookup([90_001])
        assert answer["phy_offset"].to_pylist() == [1]
        assert len(handler.requests) <= 5
        assert sum(size for _, size in handler.requests) < 200

    def test_a_scan_reads_the_used_part(self, handler):
        """And the eight places behind it; neither slots nor tail."""
        filesystem = pafs.PyFileSystem(handler)
        with IndexFile("200", Layout(1_000_000, 4_000_000), filesystem=filesystem) as file:
            rows = sum(batch.num_rows for batch in file.scan())
        assert rows == 11
        assert sum(size for _, size in handler.requests) == 40 + 20 * (11 + 8)

    def test_the_usual_geometry_is_inferred_from_little(self, handler):
        """A few entries and their slots."""
        filesystem = pafs.PyFileSystem(handler)
        with IndexFile("200", filesystem=filesystem) as file:
            assert file.layout == Layout(1_000_000, 4_000_000)
        assert sum(size for _, size in handler.requests) < 4096

    def test_near_reads_are_one_request(self, handler):
        """Many hashes cost few requests where their bytes lie near one another."""
        filesystem = pafs.PyFileSystem(handler)
        with IndexFile("100", LAYOUT, filesystem=filesystem) as file:
            whole = file.lookup(np.arange(299) * 7)
        assert whole.num_rows == 299
        assert len(handler.requests) < 20

    def test_requests_are_bounded(self, handler):
        """A gather over a whole file asks for 4 MiB at a time."""
        filesystem = pafs.PyFileSystem(handler)
        with open_index_source("200", filesystem=filesystem) as source:
            layout = Layout(1_000_000, 4_000_000)
            positions = np.arange(0, 1_000_000, 200)
            assert not source.entries(layout, positions[1:])["key_hash"].any()
        assert len(handler.requests) == 5
        assert max(size for _, size in handler.requests) <= 4 * 2**20

    def test_both_modes_and_the_brokers_search_work_there(self, handler):
        """With the same answers as locally."""
        filesystem = pafs.PyFileSystem(handler)
        for mode in ("FAILFAST", "DROPMALFORMED"):
            with IndexFile("100", LAYOUT, filesystem=filesystem, mode=mode) as file:
                assert file.path == "100"
                assert file.name == "100"
                assert file.lookup([7, 14])["phy_offset"].to_pylist() == [1, 2]
                assert file.select_phy_offset("\7", 5, 0, 2**62) == [1]
                with pytest.raises(TypeError, match="path: expected a local file, got 100"):
                    os.fspath(file)

    def test_failures_are_errors_of_ours(self, handler):
        """With the path and the reason."""
        filesystem = pafs.PyFileSystem(handler)
        with pytest.raises(RmqIndexError, match="300: cannot be read: no such file"):
            open_index_source("300", filesystem=filesystem)
        with pytest.raises(RmqIndexError, match="cannot be read: a directory, not a file"):
            open_index_source("", filesystem=filesystem)
        with IndexFile("100", LAYOUT, filesystem=filesystem) as file:
            handler.broken = True
            with pytest.raises(RmqIndexError, match="100: cannot be read: the line is dead"):
                file.lookup([7])

    def test_an_unknown_scheme_is_an_error_of_ours(self):
        """With what Arrow says about it."""
        with pytest.raises(RmqIndexError, match=r"pigeon://a/b: cannot be read: Unrec"):
            open_source("carrier-pigeon://a/b")

    def test_a_uri_is_split_into_folder_name_and_query(self):
        """All files of a folder share one connection; Hadoop's names of S3 are known."""
        assert Location("s3a://bucket/a/b?region=x").uri_parts() == (
            "s3a",
            "bucket/a",
            "b",
            "?region=x",
        )
        assert Location("hdfs://host:1/a/").uri_parts() == ("hdfs", "host:1", "a", "")
        assert Location("s3://bucket").uri_parts() == ("s3", "bucket", "", "")
