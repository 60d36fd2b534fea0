"""This package and the twin at the edges that the specification settles."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edge_vectors
import oracle
import spectext
from examples import examples
from rmqindex import CorruptIndexError, IndexDirectory, IndexFile, IndexFileWriter, Layout
from rmqindex.errors import RmqIndexError
from rmqindex.query import lookup_keys
from rmqindex.record import java_text
from rmqindex.store import IndexSnapshot, is_index_name

if TYPE_CHECKING:
    from pathlib import Path

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
LAYOUT = Layout(edge_vectors.SLOTS, edge_vectors.PLACES)


@pytest.fixture(scope="module")
def edges() -> dict[str, Any]:
    """What the newest versions of RocketMQ answered at the edges."""
    return edge_vectors.edge_cases()


def file_of(*keys: str) -> bytes:
    """Return the bytes of a file of some puts."""
    return bytes(edge_vectors.file_of(list(keys)).data)


class TestTheTwinAnswersAsRocketmqAtTheEdges:
    """The steps of the specification, carried out, give what RocketMQ's classes gave."""

    @pytest.mark.requirement("IDX-OPS-4", "IDX-PUT-2")
    @pytest.mark.parametrize("name", ["put_on_a_torn_put", "put_on_a_torn_first_put"])
    def test_puts_on_torn_files(self, edges: dict[str, Any], name: str) -> None:
        """The bytes are RocketMQ's."""
        case = edges[name]
        file = oracle.File(5, 8, bytearray.fromhex(case["torn_hex"]))
        put = case["put"]
        assert file.put(put["key"], put["phy_offset"], put["store_timestamp"])
        assert file.data.hex() == case["hex"]

    @pytest.mark.requirement("IDX-OPS-4")
    def test_counts_and_times_wrap(self, edges: dict[str, Any]) -> None:
        """In i32 and i64."""
        case = edges["put_counts_that_wrap"]
        file = oracle.File(5, 8, bytearray.fromhex(case["resume_hex"]))
        for put in case["puts"]:
            assert file.put(**put)
        assert file.data.hex() == case["hex"]

    @pytest.mark.requirement("IDX-OPS-2", "IDX-OPS-5", "IDX-HDR-6", "IDX-PUT-10")
    def test_the_header_reaches_the_bytes_when_the_steps_say(self, edges: dict[str, Any]) -> None:
        """At creation, after each put, and after a flush or a close."""
        for case in edges["header_reaches_bytes"]["files"].values():
            file = oracle.File.create(2, 3, *case["seed"])
            assert file.data.hex() == case["created"]
            file.put("a", 1000, edge_vectors.T0 + 1000)
            assert file.data.hex() == case["after_put"]
            file.put("b", 2000, edge_vectors.T0 + 2000)
            assert file.data.hex() == case["after_two_puts"]
            file = oracle.File.create(2, 3, *case["seed"])
            file.flush()
            assert file.data.hex() == case["flushed"] == case["closed"]

    @pytest.mark.requirement("IDX-OPS-13", "IDX-ROL-2", "IDX-CKP-2")
    def test_a_roll_over_takes_only_times_above_0(self, edges: dict[str, Any]) -> None:
        """Neither the seed nor the checkpoint takes another."""
        for name, time in (("zero", 0), ("negative", -7)):
            case = edges["roll_over_without_a_time"]["sets"][name]
            directory = oracle.Directory(5, 3)
            for number, (unique_key, keys, when) in enumerate(
                [("u", "a", edge_vectors.T0), ("v", "b", time), ("w", None, time)], 1
            ):
                directory.build("T", unique_key, keys, 0, 1000 * number, when)
            assert [file.data.hex() for file in directory.files] == case["files"]
            assert directory.index_msg_timestamp == int(case["index_msg_timestamp"])

    @pytest.mark.requirement("IDX-OPS-14", "IDX-CKP-2")
    def test_a_shutdown_leaves_the_checkpoint(self, edges: dict[str, Any]) -> None:
        """A full last file is flushed, and the checkpoint is not."""
        directory = oracle.Directory(5, 3)
        directory.build("T", "u", "a", 0, 1000, edge_vectors.T0 + 1000)
        assert directory.files[0].is_full()
        assert [file.data.hex() for file in directory.files] == edges["shutdown"]["full_after"]
        assert edges["shutdown"]["index_msg_timestamp"] == "0"

    @pytest.mark.requirement("IDX-NAM-3")
    def test_digits_are_those_of_the_table(self, edges: dict[str, Any]) -> None:
        """The table of the text, the twin and RocketMQ's Java have the same digits."""
        rows = spectext.table_lists("file-set.md", "digits")
        printed = [cell[2:].lower() for row in rows for cell in row if cell.startswith("U+")]
        assert sorted(printed) == edges["digits"]["zeros"]
        assert [f"{zero:04x}" for zero in oracle.ZEROS] == edges["digits"]["zeros"]

    @pytest.mark.requirement("IDX-LOD-1", "IDX-LOD-6", "IDX-NAM-3", "IDX-OPS-10")
    def test_loads_are_rocketmqs(self, edges: dict[str, Any]) -> None:
        """Names, failures and deletions."""
        file = file_of("T#a")
        names = ["\u0661", "1\u0662", "\U0001d7d9", "\uff11", "+\u0967", "007"]
        directory = oracle.Directory(5, 8)
        result, loaded, left = directory.load(dict.fromkeys(names, file), last_exit_ok=True)
        told = [
            bytes.fromhex(n[1:]).decode("utf-16-be")
            for n in edges["load"]["digits"]["files"].split()[1:]
        ]
        assert (result, loaded) == (True, told)
        assert left == sorted(edges["load"]["digits"]["directory"])


class TestThisPackageAtTheEdges:
    """What has no vector."""

    @pytest.mark.requirement("IDX-LAY-6")
    def test_surplus_bytes_stay_as_they_are(self, tmp_path: Path) -> None:
        """A writer that goes on with a longer file writes none of them."""
        path = tmp_path / "index" / "20260101000000000"
        path.parent.mkdir()
        path.write_bytes(file_of("T#a") + b"\xa5" * 30)
        with IndexDirectory(path.parent, LAYOUT, writable=True) as index:
            index.build_index("T", None, "f k", 0, 5000, edge_vectors.T0 + 5000)
        data = path.read_bytes()
        assert data[-30:] == b"\xa5" * 30
        assert len(data) == LAYOUT.file_size + 30

    @pytest.mark.requirement("IDX-OPS-1")
    @pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
    def test_numbers_that_do_not_fit_are_refused(self, tmp_path: Path, value: int) -> None:
        """None wraps around."""
        with IndexDirectory(tmp_path / "index", LAYOUT, writable=True) as index:
            with pytest.raises(ValueError, match="64-bit"):
                index.build_index("T", None, "a", 0, value, 0)
            with pytest.raises(ValueError, match="64-bit"):
                index.query_offset("T", "a", 1, value, 0)
        with (
            IndexFileWriter(tmp_path / "1", LAYOUT) as writer,
            pytest.raises(ValueError, match="64-bit"),
        ):
            writer.put("T#a", 0, value)

    @pytest.mark.requirement("IDX-OPS-1", "IDX-QRY-2")
    def test_a_huge_number_of_results_is_capped(self, tmp_path: Path) -> None:
        """It asks for no more than the most there is."""
        (tmp_path / "1").write_bytes(file_of("T#a"))
        with IndexDirectory(tmp_path, LAYOUT) as index:
            assert index.query_offset("T", "a", 2**31, 0, INT64_MAX).phy_offsets == (1000,)

    @pytest.mark.requirement("IDX-PUT-10", "IDX-PUT-5")
    def test_what_is_held_back_is_not_counted(self, tmp_path: Path) -> None:
        """Until a flush the header on the disk counts only what is whole on the disk."""
        path = tmp_path / "20260101000000000"
        with IndexFileWriter(path, LAYOUT) as writer:
            for number, key in enumerate(edge_vectors.KEYS, 1):
                writer.put(key, 1000 * number, edge_vectors.T0 + 1000 * number)
                with IndexFile(path, LAYOUT) as file:
                    rows = [row for batch in file.scan() for row in batch.to_pylist()]
                assert [row["phy_offset"] for row in rows] == [
                    1000 * each for each in range(1, len(rows) + 1)
                ]
            writer.flush()
            assert path.read_bytes() == file_of(*edge_vectors.KEYS)

    @pytest.mark.requirement("IDX-LOD-5")
    def test_a_missing_directory_has_no_files_to_a_loader(self, tmp_path: Path) -> None:
        """A reader that writes nothing rejects it."""
        with pytest.raises(RmqIndexError):
            IndexDirectory(tmp_path / "index", LAYOUT)
        with IndexDirectory(tmp_path / "index", LAYOUT, writable=True) as index:
            assert index.load_result
            assert index.files == ()

    @pytest.mark.requirement("IDX-LOD-7")
    def test_without_a_checkpoint_a_crash_deletes_what_ends_after_0(self, tmp_path: Path) -> None:
        """The checkpoint then reads as 0."""
        (tmp_path / "commitlog").mkdir()
        index_path = tmp_path / "index"
        index_path.mkdir()
        (index_path / "1").write_bytes(file_of("T#a"))
        with IndexDirectory(tmp_path, LAYOUT, last_exit_ok=False) as index:
            assert index.index_msg_timestamp == 0
            assert index.files == ()

    @pytest.mark.requirement("IDX-LOD-7")
    @pytest.mark.parametrize("name", ["empty", "twenty_bytes", "twenty_four_bytes"])
    def test_a_short_checkpoint_reads_as_if_zeros_followed(
        self, tmp_path: Path, edges: dict[str, Any], name: str
    ) -> None:
        """The time and the files that are left are RocketMQ's."""
        size = {"empty": 0, "twenty_bytes": 20, "twenty_four_bytes": 24}[name]
        whole = struct.pack(">qqq", edge_vectors.T0, edge_vectors.T0, INT64_MAX)
        (tmp_path / "checkpoint").write_bytes(whole[:size])
        (tmp_path / "index").mkdir()
        (tmp_path / "index" / "1").write_bytes(file_of("T#a"))
        told = edges["load_with_a_checkpoint"][name]
        with IndexDirectory(tmp_path / "index", LAYOUT, last_exit_ok=False) as index:
            assert index.index_msg_timestamp == int(told["index_msg_timestamp"])
            assert len(index.files) == len(told["files"].split()) - 1

    @pytest.mark.requirement("IDX-LOD-9")
    def test_a_symbolic_link_is_what_it_leads_to(self, tmp_path: Path) -> None:
        """A file is loaded, a directory ends the load."""
        (tmp_path / "elsewhere").write_bytes(file_of("T#a"))
        (tmp_path / "folder").mkdir()
        index_path = tmp_path / "index"
        index_path.mkdir()
        (index_path / "1").symlink_to(tmp_path / "elsewhere")
        (index_path / "2").symlink_to(tmp_path / "folder")
        with IndexDirectory(index_path, LAYOUT) as index:
            assert not index.load_result
            assert index.query_offset("T", "a", 64, 0, INT64_MAX).phy_offsets == (1000,)

    @pytest.mark.requirement("IDX-BLD-9")
    @pytest.mark.parametrize("keys", [None, "a"])
    def test_files_of_one_place_are_refused_in_a_set(
        self, tmp_path: Path, keys: str | None
    ) -> None:
        """With a key or without, instead of files without end."""
        with (
            IndexDirectory(tmp_path / "index", Layout(5, 1), writable=True) as index,
            pytest.raises(ValueError, match="at least 2"),
        ):
            index.build_index("T", None, keys, 0, 0, 0)
        assert list((tmp_path / "index").iterdir()) == []

    @pytest.mark.requirement("IDX-LIM-5")
    @pytest.mark.parametrize(("slots", "places"), [(0, 8), (5, 0), (-1, 8), (1, 214_748_365)])
    def test_a_reader_rejects_a_geometry_that_no_file_has(self, slots: int, places: int) -> None:
        """Also one whose size wraps around to a small one."""
        with pytest.raises(ValueError, match="expected at"):
            Layout(slots, places)

    @pytest.mark.requirement("IDX-LIM-4", "IDX-SEL-7")
    def test_a_loop_with_too_many_results_is_rejected(self) -> None:
        """A million are given, two billion are not."""
        path = spectext.VECTORS / "reject" / "cycle_with_match.bin"
        with IndexFile(path, Layout(5, 5), mode="DROPMALFORMED") as file:
            asked = ("TopicTest#MVRKz66K", 0, INT64_MAX)
            assert len(file.select_phy_offset(asked[0], 1_000_000, *asked[1:])) == 1_000_000
            with pytest.raises(CorruptIndexError):
                file.select_phy_offset(asked[0], INT32_MAX, *asked[1:])

    @pytest.mark.requirement("IDX-NAM-3")
    def test_names_of_one_unit_are_those_of_the_table(self) -> None:
        """This package takes the digits of the table and no other."""
        taken = [unit for unit in range(0x10000) if is_index_name(chr(unit))]
        assert taken == [zero + value for zero in oracle.ZEROS for value in range(10)]

    @pytest.mark.requirement("IDX-HSH-6")
    @settings(max_examples=examples(300), deadline=None)
    @given(
        data=st.lists(st.sampled_from(b"A\x80\x90\xa0\xbf\xc2\xe0\xe1\xed\xf0\xf4\xf5"), max_size=9)
    )
    def test_malformed_bytes_are_decoded_by_the_steps(self, data: list[int]) -> None:
        """This package decodes as the twin does."""
        assert java_text(bytes(data)) == oracle.decode_utf8(bytes(data))


class TestDirectories:
    """A strict and a lenient reader of a directory."""

    @pytest.fixture
    def index(self, tmp_path: Path) -> Path:
        """Two files, of which the newer one has the greater name."""
        (tmp_path / "10").write_bytes(file_of("T#a", "T#b"))
        (tmp_path / "9").write_bytes(file_of("T#a", "T#a"))
        (tmp_path / "notes.txt").write_text("not an IndexFile")
        return tmp_path

    @staticmethod
    def found(index: Path, mode: Any) -> list[tuple[str, int]]:
        """Return the file and the position of every entry of a hash."""
        found = lookup_keys(IndexSnapshot.of(index, LAYOUT, mode), None, "T", pa.array(["a"]))
        return list(zip(*(found[name].to_pylist() for name in ("file", "position")), strict=True))

    @pytest.mark.requirement("IDX-DIR-1", "IDX-DIR-3")
    def test_all_entries_are_found_newest_first(self, index: Path) -> None:
        """The newer file first, and in each the newer entry."""
        for mode in ("FAILFAST", "DROPMALFORMED"):
            assert self.found(index, mode) == [("9", 2), ("9", 1), ("10", 1)]

    @pytest.mark.requirement("IDX-DIR-1", "IDX-DIR-2")
    def test_a_directory_with_a_numeric_name(self, index: Path) -> None:
        """It is rejected, or left out."""
        (index / "8").mkdir()
        with pytest.raises(RmqIndexError, match="got a directory"):
            self.found(index, "FAILFAST")
        assert self.found(index, "DROPMALFORMED") == [("9", 2), ("9", 1), ("10", 1)]

    @pytest.mark.requirement("IDX-DIR-1", "IDX-DIR-2")
    def test_a_file_that_is_cut(self, index: Path) -> None:
        """It is rejected, or its whole entries are read."""
        data = file_of("T#a", "T#a")
        (index / "9").write_bytes(data[:100])
        with pytest.raises(RmqIndexError, match="file_size"):
            self.found(index, "FAILFAST")
        assert self.found(index, "DROPMALFORMED") == [("9", 1), ("10", 1)]

    @pytest.mark.requirement("IDX-DIR-4", "IDX-DIR-2", "IDX-SLT-3")
    def test_a_file_in_which_the_lookup_meets_a_broken_slot(self, index: Path) -> None:
        """It rejects the lookup of the whole directory, or is scanned."""
        data = bytearray(file_of("T#a", "T#a"))
        slot = oracle.key_hash("T#a") % edge_vectors.SLOTS
        data[40 + 4 * slot : 44 + 4 * slot] = b"\xff" * 4
        (index / "9").write_bytes(data)
        with pytest.raises(CorruptIndexError, match="slot"):
            self.found(index, "FAILFAST")
        assert self.found(index, "DROPMALFORMED") == [("9", 2), ("9", 1), ("10", 1)]


class TestEditions:
    """The table of editions is what the versions wrote."""

    @pytest.fixture(scope="class")
    @staticmethod
    def vector() -> dict[str, Any]:
        """The same messages as each edition writes them."""
        return spectext.vectors()["accept/editions"]

    @pytest.mark.requirement("IDX-EDN-1", "IDX-HDR-4", "IDX-BLD-8")
    def test_each_edition_writes_what_its_row_says(self, vector: dict[str, Any]) -> None:
        """Slots are counted, and tags are indexed, as told; all else is equal."""
        rows = {row["edition"]: row for row in spectext.table("history.md", "editions-table")}
        assert list(rows) == ["4.0", "4.7.1", "5.0", "5.4", "5.5"]
        for edition in vector["editions"]:
            row = rows[edition["edition"]]
            directory = oracle.Directory(5, 8)
            for message in vector["messages"]:
                tags = message["tags"] if row["entries for tags"] == "yes" else None
                directory.build(**{**message, "tags": tags})
            for file in directory.files:
                if row["`hash_slot_count`"] == "1 more for every put":
                    file.set(hash_slot_count=file.index_count - 1)
            assert [file.data.hex() for file in directory.files] == edition["files"]
            assert directory.index_msg_timestamp == edition["index_msg_timestamp"]

    @pytest.mark.requirement("IDX-EDN-1", "IDX-OPS-5", "IDX-HDR-6")
    def test_closing_counts_from_5_0_on(self, vector: dict[str, Any]) -> None:
        """Before it, a file without entries stays as it was created."""
        before, after = vector["files_without_entries"]
        assert before["rocketmq"][-1] == "4.9.8"
        assert after["rocketmq"][0] == "5.0.0"
        file = oracle.File.create(2, 3, after["prev_end_phy_offset"], after["prev_end_timestamp"])
        assert before["created"] == before["closed"] == after["created"] == file.data.hex()
        file.flush()
        assert after["closed"] == file.data.hex()

    @pytest.mark.requirement("IDX-EDN-2")
    def test_files_of_two_editions_are_read_alike(
        self, vector: dict[str, Any], tmp_path: Path
    ) -> None:
        """A set of 4.0 and one of 4.7.1 give the same, and one may be gone on with."""
        answers = []
        for edition in vector["editions"][:2]:
            index_path = tmp_path / edition["edition"]
            index_path.mkdir()
            for number, data in enumerate(edition["files"]):
                (index_path / f"2026010100000{number:04d}").write_bytes(bytes.fromhex(data))
            with IndexDirectory(index_path, LAYOUT, writable=True) as index:
                index.build_index("T", None, "a", 0, 9000, edge_vectors.T0 + 9000)
                found = [
                    index.query_offset("T", key, 64, 0, INT64_MAX).phy_offsets
                    for key in ("a", "b", "c", "d", "")
                ]
            answers.append(found)
        assert answers[0] == answers[1]
        assert answers[0][0][0] == 9000


class TestGeometries:
    """What this package finds is what the steps of discovery answer."""

    @pytest.mark.requirement("IDX-OPS-17", "IDX-GEO-2", "IDX-GEO-4")
    @settings(max_examples=examples(150), deadline=None)
    @given(
        slots=st.integers(1, 20),
        places=st.integers(2, 40),
        keys=st.lists(st.integers(0, 30), min_size=1, max_size=39),
    )
    def test_no_other_geometry_is_ever_found(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        slots: int,
        places: int,
        keys: list[int],
    ) -> None:
        """Whatever the file, this package answers as the steps do, or rejects."""
        file = oracle.File.create(slots, places)
        for number, key in enumerate(keys[: places - 1], 1):
            file.put(f"T#{key}", 1000 * number, edge_vectors.T0 + 700 * number)
        path = tmp_path_factory.getbasetemp() / "20260101000000001"
        path.write_bytes(file.data)
        try:
            expected: object = oracle.discover_geometry(bytes(file.data))
        except oracle.Rejected:
            expected = None
        assert expected in (None, (slots, places))
        try:
            layout = Layout.infer(path)
        except RmqIndexError:
            return
        assert (layout.hash_slot_num, layout.index_num) == (slots, places)

    @pytest.mark.requirement("IDX-OPS-17")
    def test_most_files_of_the_vectors_tell_their_geometry(self, tmp_path: Path) -> None:
        """Discovery is not just refused."""
        cases = spectext.vectors()["accept/geometries"]["geometries"]
        found = 0
        for case in cases:
            path = tmp_path / "20260101000000000"
            path.write_bytes(bytes.fromhex(case["hex"]))
            try:
                Layout.infer(path)
            except RmqIndexError:
                continue
            found += 1
        told = [case for case in cases if isinstance(case["result"], dict)]
        assert found >= len(told) * 0.9
        assert len(told) > 30

    def test_surplus_bytes_do_what_the_text_says(self) -> None:
        """One byte leaves no geometry, twenty leave the slots and one place too many."""
        data = (spectext.VECTORS / "accept" / "worked_example.bin").read_bytes()
        with pytest.raises(oracle.Rejected):
            oracle.discover_geometry(data + b"\0")
        assert oracle.discover_geometry(data + bytes(20)) == (5, 6)

    def test_a_torn_put_does_not_hide_the_geometry(self) -> None:
        """A slot may name a place that is not committed, but none beyond the file."""
        data = bytearray((spectext.VECTORS / "accept" / "torn_put.bin").read_bytes())
        assert oracle.discover_geometry(bytes(data)) == (5, 5)
        struct.pack_into(">i", data, 56, 5)
        with pytest.raises(oracle.Rejected):
            oracle.discover_geometry(bytes(data))


def test_the_vectors_of_the_edges_are_of_all_versions() -> None:
    """Each case was asked of eight versions."""
    path = edge_vectors.load.__globals__["GOLDEN"] / "edge_cases.json"
    for case in json.loads(path.read_text(encoding="ascii")):
        versions = [version for group in case["answers"] for version in group["rocketmq"]]
        assert len(versions) == len(set(versions)) == 8
