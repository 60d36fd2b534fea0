"""The vectors, and this package held against them by the kit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import make_archive
import make_figures
import make_vectors
import oracle
import rmqindex_adapter
import spectext
import status
import status_pages
from examples import examples
from rmq_index_conformance.archive import Archive, read_archive
from rmq_index_conformance.cases import CLASSES, cases_of
from rmq_index_conformance.report import as_data
from rmq_index_conformance.run import FAILED, PASSED, Outcome, run_cases
from rmqindex import (
    IndexDirectory,
    IndexFile,
    IndexFileWriter,
    Layout,
    RmqIndexError,
    sample_store,
)
from trees import files_of

FILES = [name for name, vector in spectext.vectors().items() if vector["kind"] == "file"]


class ThisPackage:
    """The adapter of this package, asked within this process."""

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request; a handler that fails says so, as the adapter does."""
        try:
            return rmqindex_adapter.OPERATIONS[request["op"]](request)
        except Exception as error:  # noqa: BLE001  (the kit counts it as a failure)
            return {"error": repr(error)}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """The vectors."""
    return read_archive(make_archive.build(tmp_path_factory.mktemp("vectors")))


@pytest.fixture(scope="module")
def outcome(archive: Archive) -> Outcome:
    """What the kit says of each case."""
    cases = cases_of(archive)
    with pytest.MonkeyPatch.context() as patch:
        # Files that are forced to the disk cost nothing in memory.
        if status.SHM.is_dir() and os.access(status.SHM, os.W_OK):
            patch.setattr(tempfile, "tempdir", str(status.SHM))
        return run_cases(ThisPackage(), cases)


@pytest.mark.requirement("IDX-CON-1", "IDX-CON-2", "IDX-OPS-18", "LOG-LIM-2")
def test_this_package_passes_every_case_of_its_editions(outcome: Outcome) -> None:
    """Every class gives the mandated outcome."""
    failed = [result.case.name for result in outcome.results if result.status == FAILED]
    assert not failed
    assert {why for why in outcome.skips if why.startswith(("edition", "class"))} == {
        "edition 4.0 not claimed",
        "edition 4.0 or 4.7.1 not claimed",
        "edition 5.5 not claimed",
    }


@pytest.mark.requirement("IDX-CON-4")
def test_every_class_is_asked_and_every_vector_is_run(outcome: Outcome) -> None:
    """Each class passes many cases, and each vector that asks something has some that pass."""
    passed = [result.case for result in outcome.results if result.status == PASSED]
    for name in CLASSES:
        least = 1 if name == "mending_writer" else 30
        assert sum(case.conformance_class == name for case in passed) >= least
    asked = {result.case.vector for result in outcome.results}
    # No public name writes a CommitLog.
    written = {name for name in asked if name.startswith("accept/written_")}
    assert asked - {case.vector for case in passed} - written == {
        # What a broker does with these is asked, and of a reader nothing.
        "accept/queue_truncate_all",
        "accept/recovery_no_files",
    }


def test_the_status_page_tells_what_this_package_does_now(
    outcome: Outcome, archive: Archive
) -> None:
    """It was run on these vectors, and the others on the same; `status.py run` runs all anew."""
    stored = json.loads(status_pages.DATA.read_text(encoding="ascii"))["runs"]["rmqindex"]
    now = as_data(outcome, archive)
    told = ("totals", "by_class", "by_requirement")
    assert {name: now[name] for name in told} == {name: stored[name] for name in told}


def test_reports_to_other_projects_say_what_was_found() -> None:
    """Their cases failed, their numbers are those of the runs, and their bytes are the vector's."""
    text = (spectext.SPEC / "reports.md").read_text(encoding="utf-8")
    runs = json.loads(status_pages.DATA.read_text(encoding="ascii"))["runs"]
    failed = runs["rocketmq-rust"]["failures"]
    cases = re.findall(r"\| `((?:accept|exchanges|reject)/[^`]+)` \|$", text, re.MULTILINE)
    assert len(cases) == 5
    assert set(cases) <= {each["case"] for each in failed}
    told = [status_pages.explanation_of("rocketmq-rust", each)["says"] for each in failed]
    count = sum("`topic#U#key`, where RocketMQ indexes" in says for says in told)
    assert f"all {count} cases of the kit" in text
    for version in ("4.9.8", "5.3.3", "5.5.1"):
        names = {each["case"] for each in runs[f"rocketmq-{version}"]["failures"]}
        assert any(name.startswith("reject/cycle_without_match: select") for name in names)
        assert "exchanges/limits: a file of 0 slots and 5 places" in names
    assert runs["kaitai"]["totals"]["failed"] == 0
    loop = (spectext.VECTORS / "reject" / "cycle_without_match.bin").read_bytes()
    blocks = re.findall(r"^```text\n([0-9a-f\n]+)```$", text, re.MULTILINE)
    assert [bytes.fromhex(each) for each in blocks] == [loop]


@pytest.mark.parametrize("script", ["make_vectors", "make_figures", "make_archive"])
def test_a_script_takes_no_option_for_a_folder(script: str, tmp_path: Path) -> None:
    """``--help`` is answered, and nothing is written."""
    command = [sys.executable, str(Path(status.HERE) / f"{script}.py"), "--help"]
    told = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert told.stdout.startswith("usage:")
    assert not list(tmp_path.iterdir())


def test_the_vectors_are_what_their_script_writes(tmp_path: Path) -> None:
    """Made anew, no file differs, is missing, or is left over."""
    make_vectors.main(tmp_path)
    existing = files_of(spectext.VECTORS)
    del existing["README.md"]
    assert files_of(tmp_path) == existing


def test_the_figures_are_what_their_script_draws(tmp_path: Path, spec: Path) -> None:
    """Drawn anew, none differs, is missing, or is left over."""
    make_figures.main(tmp_path)
    assert files_of(tmp_path) == files_of(spec / "figures")


def test_the_hex_in_the_json_is_the_file() -> None:
    """Who reads the JSON reads the bytes."""
    for name, vector in spectext.vectors().items():
        if "hex" in vector:
            data = (spectext.VECTORS / f"{name}.bin").read_bytes()
            assert vector["hex"] == data.hex()


@pytest.mark.requirement("IDX-LIM-1")
@pytest.mark.parametrize(("slots", "places"), [(0, 5), (5, 0), (-1, 5), (1, 107_374_181)])
def test_a_geometry_beyond_the_limits_is_refused(slots: int, places: int) -> None:
    """Fewer than one slot or place, or a size that overflows 32 bits."""
    with pytest.raises(ValueError, match="expected at"):
        Layout(slots, places)


@pytest.mark.requirement("IDX-LIM-1")
def test_the_largest_geometry_is_accepted() -> None:
    """The biggest size of 32 bits that the format can have."""
    assert Layout(1, 107_374_180).file_size == 2**31 - 1 - 3


@pytest.mark.requirement("IDX-GEO-1", "IDX-GEO-2", "IDX-GEO-3")
@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("accept/")])
def test_no_wrong_geometry_is_ever_found(name: str) -> None:
    """A file is read in its own geometry, or not without being told it."""
    vector = spectext.vectors()[name]
    path = spectext.VECTORS / f"{name}.bin"
    if vector["header"]["index_count"] <= 1:
        with IndexFile(path) as file:
            assert list(file.scan()) == []
        return
    try:
        layout = Layout.infer(path)
    except RmqIndexError:
        with pytest.raises(RmqIndexError, match="maxHashSlotNum"):
            Layout.infer(path)
    else:
        assert layout == Layout(vector["hash_slot_num"], vector["index_num"])


@pytest.mark.requirement("IDX-NAM-1", "IDX-NAM-2")
def test_files_are_named_by_seventeen_digits_that_rise(tmp_path: Path) -> None:
    """Each roll-over gives a later name, though they come within one millisecond."""
    with IndexDirectory(tmp_path / "index", Layout(3, 3), writable=True) as index:
        for number in range(20):
            index.build_index("T", None, f"a{number}", 0, number, 1_700_000_000_000 + number)
        names = [file.name for file in index.files]
    assert len(names) == 10
    assert names == sorted(set(names))
    assert all(len(name) == 17 and name.isdecimal() and name.isascii() for name in names)


@pytest.mark.requirement("IDX-PUT-9")
def test_a_writer_may_mend_slots_that_a_crash_left(tmp_path: Path) -> None:
    """IndexFileWriter finds the older entries of such a slot again."""
    vector = spectext.vectors()["accept/put_on_broken_slot"]
    layout = Layout(vector["hash_slot_num"], vector["index_num"])
    put = vector["writer"]["puts"][0]
    path = tmp_path / "20260101000000000"
    path.write_bytes(bytes.fromhex(vector["writer"]["resume_hex"]))
    with IndexFileWriter(path, layout) as writer:
        assert writer.put(put["key"], put["phy_offset"], put["store_timestamp"])
    mended = oracle.File(layout.hash_slot_num, layout.index_num, bytearray(path.read_bytes()))
    whole = (spectext.VECTORS / "accept" / "exactly_full.bin").read_bytes()
    assert bytes(mended.data) == whole


@pytest.mark.requirement("IDX-SEC-2")
def test_every_offset_of_the_sample_store_is_where_a_record_starts() -> None:
    """What a reader has to check holds for a sound store: size, magic number and own position."""
    store = Path(sample_store())
    log = b"".join(path.read_bytes() for path in sorted((store / "commitlog").iterdir()))
    magics = {bytes.fromhex("daa320a7"), bytes.fromhex("daa320ab")}
    checked = 0
    for path in (store / "index").iterdir():
        with IndexFile(path) as file:
            for batch in file.scan(columns=["phy_offset"]):
                for offset in batch["phy_offset"].to_pylist():
                    size = int.from_bytes(log[offset : offset + 4], "big")
                    assert 91 <= size <= len(log) - offset
                    assert log[offset + 4 : offset + 8] in magics
                    assert int.from_bytes(log[offset + 28 : offset + 36], "big") == offset
                    checked += 1
    assert checked > 900


@pytest.mark.requirement("IDX-CON-3", "IDX-SEC-1", "IDX-LIM-3", "IDX-LIM-4")
@settings(max_examples=examples(300), deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(0, 159), st.integers(0, 255)), min_size=1, max_size=12)
)
def test_whatever_the_bytes_every_reader_ends_with_an_answer_or_its_own_error(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    """No reader hangs, crashes, or raises what is not a RmqIndexError."""
    data = bytearray((spectext.VECTORS / "accept" / "worked_example.bin").read_bytes())
    for place, value in changes:
        data[place] = value
    path = tmp_path_factory.getbasetemp() / "20260101000000000"
    path.write_bytes(data)
    layout = Layout(5, 5)
    file = oracle.File(5, 5, data)
    sound = file.scan(strict=False, size=len(data))
    with IndexFile(path, layout, mode="DROPMALFORMED", zero_extend=True) as lenient:
        got = [p for batch in lenient.scan() for p in batch["position"].to_pylist()]
        assert got == sound
        for hashed in (0, 384181109):
            found = lenient.lookup([hashed])["position"].to_pylist()
            assert found == [p for p in reversed(sound) if file.entry(p)[0] == hashed]
        for key in ("TopicTest#MVRKz66K", "polygenelubricants"):
            expected: list[int] = []
            try:
                file.select(expected, key, 64, 0, 2**63 - 1)
            except oracle.Rejected:
                with pytest.raises(RmqIndexError):
                    lenient.select_phy_offset(key, 64, 0, 2**63 - 1)
            else:
                assert lenient.select_phy_offset(key, 64, 0, 2**63 - 1) == expected
    try:
        with IndexFile(path, layout) as strict:
            got = [p for batch in strict.scan() for p in batch["position"].to_pylist()]
            assert got == sound
            assert strict.lookup([384181109])["position"].to_pylist() == file.lookup_strictly(
                384181109
            )
    except RmqIndexError:
        with pytest.raises(oracle.Rejected):  # noqa: PT012  (the twin rejects at the same place)
            file.open_strictly(len(data))
            file.scan(strict=True, size=len(data))
            file.lookup_strictly(384181109)
