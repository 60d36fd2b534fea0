"""The steps of the operations, the requirements that restate them, and the twin that takes them."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import spectext
from examples import examples

OPERATIONS = spectext.operations()
ALL = spectext.requirements()
RESTATED = [
    (operation, requirement)
    for operation in OPERATIONS
    for requirement in operation.requirements
    if spectext.cited_steps(requirement)
]
INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
T0 = 1_700_000_000_000


def test_each_operation_has_one_requirement_that_makes_its_steps_bind() -> None:
    """It is the first one behind the steps, names the heading, and no other of its kind is left."""
    binding = []
    for operation in OPERATIONS:
        assert operation.steps, operation.name
        of_steps = [each for each in operation.requirements if each.name.startswith("IDX-OPS-")]
        assert len(of_steps) == 1, operation.name
        assert operation.heading in of_steps[0].text.replace("*", "")
        assert "steps" in of_steps[0].text
        binding += of_steps
    others = [each for each in ALL if each.name.startswith("IDX-OPS-") and each not in binding]
    assert [each.name for each in others] == ["IDX-OPS-1"]  # the types of arguments


@pytest.mark.parametrize(
    ("operation", "requirement"), RESTATED, ids=lambda each: each.name if each else ""
)
def test_a_requirement_names_steps_that_speak_of_the_same(
    operation: spectext.Operation, requirement: spectext.Requirement
) -> None:
    """The steps exist, and every field and argument of the requirement is in one of them."""
    cited = spectext.cited_steps(requirement)
    assert set(cited) <= set(operation.steps)
    steps = " ".join(operation.steps[number] for number in cited)
    every_step = " ".join(operation.steps.values())
    for code in re.findall(r"`([^`]+)`", requirement.text):
        for name in re.findall(r"[a-z]+_[a-z_]+", code):
            if name in every_step:
                assert name in steps, f"{requirement.name}: {name} is in none of {cited}"


def test_the_twin_says_which_steps_it_takes() -> None:
    """The number of steps in each of its functions is that of the text."""
    told = {}
    tree = ast.parse(inspect.getsource(oracle))
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            match = re.search(r"steps 1 to (\d+)", ast.get_docstring(function) or "")
            if match:
                told[function.name] = int(match[1])
    names = {
        "create": "create",
        "put": "put",
        "scan": "scan",
        "resume": "resume",
        "select": "select",
        "lookup": "lookup_strictly",
        "time-match": "is_time_matched",
        "load": "load",
        "query": "query",
        "build": "build",
        "roll-over": "last",
        "expiry": "delete_expired",
        "geometry": "discover_geometry",
    }
    steps = {operation.name: len(operation.steps) for operation in OPERATIONS}
    for operation, function in names.items():
        assert told[function] == steps[operation], operation


KEYS = st.sampled_from(["a", "f", "k", "b", "", "polygenelubricants", "Aa", "BB"])
TIMES = st.one_of(
    st.integers(T0 - 10_000, T0 + 10_000), st.integers(-(2**63), INT64_MAX), st.just(0)
)
FILES = st.tuples(
    st.integers(1, 6),
    st.integers(1, 9),
    st.tuples(st.integers(-1, 50), st.sampled_from([-1, 0, T0])),
    st.lists(st.tuples(KEYS, st.integers(-9, 999), TIMES), max_size=10),
)


def filled(drawn: Any) -> oracle.File:
    """Return a file of drawn puts."""
    slots, places, seed, puts = drawn
    file = oracle.File.create(slots, places, *seed)
    for put in puts:
        file.put(*put)
    return file


def damaged(file: oracle.File, changes: list[tuple[int, int]]) -> oracle.File:
    """Return the file with some integers of four bytes changed."""
    for place, value in changes:
        at = 36 + 4 * (place % ((len(file.data) - 36) // 4))
        oracle.SLOT.pack_into(file.data, at, value)
    return file


CHANGES = st.lists(
    st.tuples(st.integers(0, 100), st.one_of(st.integers(-2, 10), st.just(INT32_MAX))), max_size=4
)


class TestTheRequirementsAgreeWithTheSteps:
    """What a requirement demands holds for the twin, which takes the steps, on any file."""

    @pytest.mark.requirement(
        "IDX-PUT-1", "IDX-PUT-2", "IDX-PUT-3", "IDX-PUT-4", "IDX-PUT-6", "IDX-HDR-1", "IDX-HDR-2",
        "IDX-HDR-4", "IDX-ENT-6",
    )  # fmt: skip
    @settings(max_examples=examples(300), deadline=None)
    @given(FILES, CHANGES, KEYS, st.integers(-9, 999), TIMES)
    def test_put(
        self, drawn: Any, changes: list[tuple[int, int]], key: str, offset: int, time: int
    ) -> None:
        """One put on any file, sound or broken."""
        file = damaged(filled(drawn), changes)
        before, count, data = file.header, file.index_count, bytes(file.data)
        slot = oracle.key_hash(key) % file.hash_slot_num
        was = file.slot(slot)
        done = file.put(key, offset, time)
        assert done == (count < file.index_num)
        if not done:
            assert bytes(file.data) == data
            return
        after = file.header
        hashed, phy_offset, diff, prev = file.entry(count)
        assert (hashed, phy_offset) == (oracle.key_hash(key), offset)
        assert prev == (was if 0 < was <= count else 0)
        assert 0 <= prev <= count
        assert (prev == count) == (was == count)
        begin = before["begin_timestamp"]
        if begin <= 0:
            assert diff == 0
        elif -(2**63) <= time - begin < 2**63:
            assert diff == min(max((time - begin) // 1000, 0), INT32_MAX)
        counted = oracle.wrap(after["hash_slot_count"] - before["hash_slot_count"], 32)
        assert counted == (prev == 0)
        assert after["index_count"] == count + 1
        assert (after["end_phy_offset"], after["end_timestamp"]) == (offset, time)
        first = (offset, time) if count == 1 else (before["begin_phy_offset"], begin)
        assert (after["begin_phy_offset"], after["begin_timestamp"]) == first

    @pytest.mark.requirement(
        "IDX-SEL-1", "IDX-SEL-2", "IDX-SEL-3", "IDX-SEL-4", "IDX-SEL-5", "IDX-SEL-8"
    )
    @settings(max_examples=examples(300), deadline=None)
    @given(FILES, CHANGES, KEYS, st.integers(-1, 6), TIMES, TIMES)
    def test_select(
        self, drawn: Any, changes: list[tuple[int, int]], key: str, most: int, begin: int, end: int
    ) -> None:
        """One lookup in any file, sound or broken."""
        file = damaged(filled(drawn), changes)
        found: list[int] = []
        try:
            file.select(found, key, most, begin, end)
        except oracle.Rejected:
            return
        assert len(found) <= max(most, 0)
        if file.index_count <= 1:
            assert found == []
        if not changes:
            expected = []
            for position in reversed(range(1, file.index_count)):
                hashed, offset, diff, _ = file.entry(position)
                if hashed % file.hash_slot_num != oracle.key_hash(key) % file.hash_slot_num:
                    continue
                time = oracle.wrap(file.header["begin_timestamp"] + diff * 1000, 64)
                if len(expected) >= most:
                    break
                if hashed == oracle.key_hash(key) and begin <= time <= end:
                    expected.append(offset)
                if time < begin:
                    break
            assert found == expected

    @pytest.mark.requirement("IDX-LKP-1", "IDX-LKP-2", "IDX-LKP-3", "IDX-LKP-5")
    @settings(max_examples=examples(300), deadline=None)
    @given(FILES, CHANGES, KEYS)
    def test_lookup(self, drawn: Any, changes: list[tuple[int, int]], key: str) -> None:
        """What a strict lookup gives is what a strict scan gives, newest first."""
        file = damaged(filled(drawn), changes)
        hashed = oracle.key_hash(key)
        try:
            found = file.lookup_strictly(hashed)
            positions = file.scan(strict=True, size=len(file.data))
        except oracle.Rejected:
            assert changes
            return
        every = [each for each in reversed(positions) if file.entry(each)[0] == hashed]
        assert found == [each for each in every if each in found]
        if not changes:
            assert found == every

    @pytest.mark.requirement("IDX-TMM-1")
    @settings(max_examples=examples(300), deadline=None)
    @given(TIMES, TIMES, TIMES, TIMES)
    def test_time_match(self, low: int, high: int, begin: int, end: int) -> None:
        """With the end before the beginning only the first term is left."""
        file = oracle.File.create(1, 1)
        file.set(begin_timestamp=low, end_timestamp=high)
        if high < low:
            assert file.is_time_matched(begin, end) == (begin < low and end > high)
        elif begin <= end:
            assert file.is_time_matched(begin, end) == (begin <= high and end >= low) or (
                begin == low or end == high
            )

    @pytest.mark.requirement(
        "IDX-BLD-1", "IDX-BLD-2", "IDX-BLD-3", "IDX-BLD-4", "IDX-BLD-5", "IDX-BLD-6", "IDX-BLD-8",
        "IDX-ROL-1", "IDX-ROL-2", "IDX-QRY-1", "IDX-QRY-2", "IDX-QRY-4", "IDX-EXP-1", "IDX-EXP-2",
    )  # fmt: skip
    @settings(max_examples=examples(200), deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from([None, "", "u"]),
                st.sampled_from([None, "", "a", " a  b a ", "a,b"]),
                st.sampled_from([0, 4, 8, 12, 13]),
                st.integers(-5, 60),
                st.integers(T0, T0 + 90_000),
                st.sampled_from([None, "", "t"]),
            ),
            max_size=12,
        ),
        st.integers(2, 5),
        st.integers(0, 70),
        st.integers(-5, 60),
    )
    def test_build_query_and_expiry(
        self, messages: list[Any], places: int, most: int, kept_from: int
    ) -> None:
        """Message by message, then a query, then an expiry."""
        directory = oracle.Directory(3, places)
        written: list[tuple[int, int]] = []
        for unique_key, keys, sys_flag, offset, time, tags in messages:
            last = directory.files[-1].header["end_phy_offset"] if directory.files else 0
            was_full = bool(directory.files) and directory.files[-1].is_full()
            files = len(directory.files)
            directory.build("T", unique_key, keys, sys_flag, offset, time, tags)
            if not files or was_full:
                assert len(directory.files) > files
            parts = [] if unique_key is None else [unique_key]
            parts += [part for part in (keys or "").split(" ") if part]
            parts += [f"T#{tags}"] if tags else []
            if offset >= last and sys_flag & 12 != 12:
                written += [(oracle.key_hash(f"T#{part}"), offset) for part in parts]
            for full, after in zip(directory.files, directory.files[1:], strict=False):
                assert full.is_full()
                if after.index_count == 1:
                    for name in ("end_phy_offset", "end_timestamp"):
                        assert after.header[name] == max(full.header[name], 0)
        entries = [
            file.entry(position)[:2]
            for file in directory.files
            for position in range(1, file.index_count)
        ]
        assert entries == written
        found, time, offset = directory.query("T", "a", most, -(2**63), INT64_MAX)
        wanted = [each for hashed, each in reversed(written) if hashed == oracle.key_hash("T#a")]
        assert len(found) <= min(most, 64)
        assert found == wanted[: len(found)]
        if directory.files:
            header = directory.files[-1].header
            assert (time, offset) == (header["end_timestamp"], header["end_phy_offset"])
        ends = [file.header["end_phy_offset"] for file in directory.files]
        directory.delete_expired(kept_from)
        left = [file.header["end_phy_offset"] for file in directory.files]
        assert left == ends[len(ends) - len(left) :]
        assert all(end < kept_from for end in ends[: len(ends) - len(left)])
        assert len(left) == len(ends) == 0 or len(left) == 1 or left[0] >= kept_from


class TestExamples:
    """Every block of bytes can be made anew from the inputs that are printed."""

    @pytest.fixture(scope="class")
    @staticmethod
    def files() -> dict[str, bytes]:
        """What the printed inputs make, by the name of the vector."""
        text = (spectext.SPEC / "examples.md").read_text(encoding="utf-8")
        made: dict[str, bytes] = {}
        changed = []
        for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
            name = section.partition("\n")[0]
            if "written over" in section:
                changed.append((name, section))
            elif "taken for a new file" not in section:
                made[name] = replayed(section)
        for name, section in changed:
            base = re.search(r"\[(\w+)\]\(#", section)
            assert base
            data = bytearray(made[base[1]])
            rows = re.findall(r"^\| (\d+) \| i(\d+) \| (-?\d+) \|$", section, re.MULTILINE)
            for at, bits, value in rows:
                size = int(bits) // 8
                data[int(at) : int(at) + size] = int(value).to_bytes(size, "big", signed=True)
            made[name] = bytes(data)
        return made

    def test_the_page_is_what_its_script_writes(self) -> None:
        """Made anew, it is the same."""
        import example_inputs

        assert example_inputs.PAGE.read_text(encoding="utf-8") == example_inputs.page()

    def test_each_block_has_its_inputs(self, files: dict[str, bytes]) -> None:
        """The bytes that the inputs make are those of the vector."""
        import example_inputs

        for name in example_inputs.printed():
            short = name.partition("/")[2]
            if short == "two_files_of_one_millisecond":
                files[short] = two_files_of_one()
            assert files[short] == (spectext.VECTORS / f"{name}.bin").read_bytes(), name


def replayed(section: str) -> bytes:
    """Return the file that a section's inputs make."""
    geometry = re.search(r"`S` = (\d+), `N` = (\d+)", section)
    assert geometry
    slots, places = map(int, geometry.groups())
    seed = re.search(r"create\((-?\d+), (-?\d+)\)", section)
    if seed:
        file = oracle.File.create(slots, places, *map(int, seed.groups()))
    else:
        rows = re.findall(r"^([0-9a-f]+)$", section, re.MULTILINE)
        file = oracle.File(slots, places, bytearray.fromhex("".join(rows)))
    for row in re.findall(r"^\| (.+) \|$", section, re.MULTILINE):
        cells = row.split(" | ")
        if cells[0].startswith("reopen"):
            file.flush()
        elif re.fullmatch(r"-?\d+", cells[-1]):
            printed = "" if cells[0] == "(empty)" else cells[0].strip("`")
            key = re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), printed)
            key = key.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
            file.put(key, int(cells[1]), int(cells[2]))
    if "not closed" not in section:
        file.flush()
    return bytes(file.data)


def two_files_of_one() -> bytes:
    """Return what the sentences about two files of one millisecond make."""
    file = oracle.File.create(2, 3)
    file.put("a", 1000, 1700000001000)
    file.put("b", 2000, 1700000002000)
    first = bytes(file.data[:40])
    file.set(
        begin_phy_offset=2000, end_phy_offset=2000,
        begin_timestamp=1700000002000, end_timestamp=1700000002000,
        index_count=1, hash_slot_count=0,
    )  # fmt: skip
    file.put("c", 3000, 1700000003000)
    return first + bytes(file.data[40:])
