"""The text of the specification, held against the code and against its own bytes."""

from __future__ import annotations

import math
import re
from itertools import groupby
from typing import TYPE_CHECKING

import pytest

import oracle
import spectext
from rmqindex import Layout
from rmqindex.indexfile.committed import TIERED_MAGICS
from rmqindex.keys import hashing
from rmqindex.layout import ENTRY_DTYPE, HEADER_DTYPE, SLOT_DTYPE
from rmqindex.layout import index_file as layout_module
from rmqindex.layout.record import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rmqindex.store import checkpoint as checkpoint_module

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

PAGES = spectext.pages()
WRONG_CLAIMS = 22


def named(page: Path) -> str:
    """Return the name of a page, for the test's name."""
    return page.stem


def area_of(name: str) -> str:
    """Return a requirement's name without its number."""
    return name.rpartition("-")[0]


def numbers(rows: list[dict[str, str]]) -> dict[str, int]:
    """Return the rows of a table of constants whose values are numbers."""
    return {
        row["Constant"]: int(row["Value"]) for row in rows if re.fullmatch(r"-?\d+", row["Value"])
    }


def fields(rows: list[dict[str, str]]) -> list[tuple[str, int, int, str]]:
    """Return name, offset, size and type of the rows of a field table."""
    return [(row["Name"], int(row["Offset"]), int(row["Size"]), row["Type"]) for row in rows]


def dtype_fields(dtype: np.dtype) -> list[tuple[str, int, int, str]]:
    """Return name, offset, size and type of a structured dtype."""
    return [
        (name, offset, field.itemsize, f"i{8 * field.itemsize}")
        for name, (field, offset) in dtype.fields.items()
    ]


def test_requirements_are_numbered_without_gaps_and_none_stands_twice() -> None:
    """In each area the numbers go from 1 to as many; later ones may stand beside their kin."""
    names = [requirement.name for requirement in spectext.requirements()]
    areas = groupby(sorted(names, key=area_of), key=area_of)
    for area, group in areas:
        found = sorted(int(name.rpartition("-")[2]) for name in group)
        assert found == list(range(1, len(found) + 1)), area


def test_every_requirement_says_what_must_be_and_in_one_sentence() -> None:
    """Each has an RFC 2119 word and ends with a full stop."""
    for requirement in spectext.requirements():
        assert re.search(r"\b(MUST|MAY|SHOULD)\b", requirement.text)
        assert requirement.text.endswith(".")


def test_what_holds_since_a_release_names_requirements_and_the_edition_of_the_release() -> None:
    """Releases ascend, each is of the edition beside it, and none stands for a whole one twice."""
    rows = spectext.table("history.md", "since-table")
    editions = [row["edition"] for row in spectext.table("history.md", "editions-table")]

    def number(release: str) -> list[int]:
        return [int(part) for part in release.split(".")]

    releases = [number(row["since"]) for row in rows]
    assert releases == sorted(releases)
    for row in rows:
        before = [each for each in editions if number(each) <= number(row["since"])]
        assert row["edition"] == before[-1], row
    names = {requirement.name for requirement in spectext.requirements()}
    assert set(spectext.since()) <= names
    whole = [name for row in rows for name in row["requirements"].split(", ")]
    assert len(set(whole)) == len(whole)
    assert "IDX-BLD-8" in whole
    assert spectext.since()["IDX-BLD-8"] == "5.4.0"


def test_every_document_that_is_named_is_among_the_references() -> None:
    """And what binds is named by the requirement or the page that its row tells."""
    rows = [
        row
        for kind in ("normative", "informative")
        for row in spectext.table("references.md", f"{kind}-references")
    ]
    listed = {rfc for row in rows for rfc in re.findall(r"RFC \d+", row["Document"])}
    texts = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    assert {rfc for text in texts.values() for rfc in re.findall(r"RFC \d+", text)} == listed
    requirements = {requirement.name for requirement in spectext.requirements()}
    for row in rows:
        named = spectext.REQUIREMENT_NAME.findall(row["Where"])
        assert set(named) <= requirements
        assert named or "](" in row["Where"], row


def test_no_requirement_demands_more_than_two_things() -> None:
    """So that *met* says something of each of them."""
    demands = {each.name: each.text.split().count("MUST") for each in spectext.requirements()}
    assert {name: count for name, count in demands.items() if count > 2} == {}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_requirement_and_erratum_that_is_mentioned_exists(page: Path) -> None:
    """No page names a requirement or an erratum that is not there."""
    text = page.read_text(encoding="utf-8")
    requirements = {requirement.name for requirement in spectext.requirements()}
    assert set(spectext.REQUIREMENT_NAME.findall(text)) <= requirements
    assert set(spectext.ERRATUM_NAME.findall(text)) <= set(spectext.errata())


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_line_of_hex_is_what_stands_in_its_vector(page: Path) -> None:
    """The bytes are those of the named file at that place, and the value is what they mean."""
    for vector, lines in spectext.hex_blocks(page):
        data = (spectext.VECTORS / f"{vector}.bin").read_bytes()
        for line in lines:
            assert data[line.offset : line.offset + len(line.data)] == line.data, line
            if isinstance(line.value, bytes):
                assert line.data == line.value, line
            else:
                assert int.from_bytes(line.data, "big", signed=True) == line.value, line


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_line_of_prose_is_one_sentence(page: Path) -> None:
    """A full stop, a question mark or an exclamation mark ends its line."""
    blocks = re.compile(r"^(```+|:::).*?^\1", re.MULTILINE | re.DOTALL)
    text = blocks.sub("", page.read_text(encoding="utf-8"))
    prose = [line for line in text.splitlines() if not line.startswith(("|", "---", "title"))]
    for line in prose:
        assert not re.search(r"[a-z)`][.!?] [A-Z]", line.replace("e.g. ", "")), line


def test_every_constant_of_the_code_stands_in_the_spec_with_its_value() -> None:
    """The layout module and the spec's table of constants name the same numbers."""
    in_code = {
        name: value
        for name, value in vars(layout_module).items()
        if type(value) is int and not name.startswith("_")
    }
    assert numbers(spectext.table("layout.md", "constants")) == in_code


def test_the_hash_is_computed_with_the_constants_of_the_spec() -> None:
    """Multiplier and separators are the same in the spec and in the code."""
    rows = {
        row["Constant"]: row["Value"] for row in spectext.table("key-hash.md", "hash-constants")
    }
    assert rows == {
        "MULTIPLIER": str(hashing._MULTIPLIER),
        "SEPARATOR": f"`{hashing.TOPIC_KEY_SEPARATOR}`",
    }
    built = {
        row["Constant"]: row["Value"] for row in spectext.table("file-set.md", "build-constants")
    }
    assert built["KEY_SEPARATOR"] == f"one space (U+{ord(hashing.KEY_SEPARATOR):04X})"
    assert int(built["TRANSACTION_MASK"]) == TRANSACTION_MASK
    assert int(built["TRANSACTION_ROLLBACK"]) == TRANSACTION_ROLLBACK


def test_the_files_of_another_format_are_told_by_the_bytes_in_the_spec() -> None:
    """The magic numbers of tiered storage are the same in the spec and in the code."""
    text = (spectext.SPEC / "introduction.md").read_text(encoding="utf-8")
    magics = re.findall(r"`((?:[0-9a-f]{2} ){3}[0-9a-f]{2})`", text)
    assert tuple(bytes.fromhex(magic) for magic in magics) == TIERED_MAGICS


def test_the_header_table_is_the_header_of_the_code() -> None:
    """Names, offsets, sizes and types agree."""
    assert fields(spectext.table("layout.md", "header-fields")) == dtype_fields(HEADER_DTYPE)


def test_the_slot_table_is_the_slot_of_the_code() -> None:
    """A slot is one integer of four bytes."""
    assert fields(spectext.table("layout.md", "slot-fields")) == [("slot", 0, 4, "i32")]
    assert SLOT_DTYPE.str == ">i4"


def test_the_entry_table_is_the_entry_of_the_code() -> None:
    """Names, offsets, sizes and types agree."""
    assert fields(spectext.table("layout.md", "entry-fields")) == dtype_fields(ENTRY_DTYPE)


@pytest.mark.requirement("IDX-LAY-1")
def test_all_integers_of_the_code_are_big_endian_and_signed() -> None:
    """Each field of each dtype says so."""
    header, entry = HEADER_DTYPE.fields, ENTRY_DTYPE.fields
    kinds = {field.str[:2] for field, _ in [*header.values(), *entry.values()]}
    assert kinds | {SLOT_DTYPE.str[:2]} == {">i"}


def test_the_checkpoint_table_is_the_checkpoint_of_the_code() -> None:
    """Names, offsets and sizes agree, and so does the size of the file."""
    rows = spectext.table("checkpoint.md", "checkpoint-file-fields")[:-1]
    names = checkpoint_module.StoreCheckpoint.__slots__
    assert fields(rows) == [(name, 8 * place, 8, "i64") for place, name in enumerate(names)]
    assert checkpoint_module._FIELDS.format == ">5q"
    text = (spectext.SPEC / "checkpoint.md").read_text(encoding="utf-8")
    assert f"the file with {checkpoint_module._FILE_SIZE} bytes" in text
    assert f"- {checkpoint_module._SAFETY_MARGIN_MS}`" in text


def test_every_hash_value_of_the_text_is_right() -> None:
    """The printed texts hash to the printed values."""
    rows = spectext.table("key-hash.md", "hash-values")
    assert len(rows) > 15
    for row in rows:
        escaped = row["Index key"].strip("`")
        key = re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), escaped)
        expected = (int(row["Hash code"]), int(row["Key hash"]), int(row["Slot of 5,000,000"]))
        got = (oracle.hash_code(key), oracle.key_hash(key), oracle.key_hash(key) % 5_000_000)
        assert got == expected, row


def test_the_sizes_in_the_text_follow_from_the_constants() -> None:
    """420,000,040 bytes is what the default geometry takes."""
    text = (spectext.SPEC / "layout.md").read_text(encoding="utf-8")
    assert f"{Layout().file_size:,} bytes" in text


def test_every_wrong_description_has_what_is_right_and_the_requirement_that_says_so() -> None:
    """The table is complete, numbered, and each row refers to requirements."""
    rows = spectext.table("misconceptions.md", "misconceptions-table")
    assert [int(row["#"]) for row in rows] == list(range(1, WRONG_CLAIMS + 1))
    for row in rows:
        assert row["Claim"]
        assert row["What is right"]
        assert spectext.REQUIREMENT_NAME.search(row["See"])


def test_the_version_to_cite_is_that_of_the_text() -> None:
    """CITATION.cff names the version of the specification and that of the package."""
    citation = (spectext.SPEC.parent / "CITATION.cff").read_text(encoding="utf-8")
    text = (spectext.SPEC / "index.md").read_text(encoding="utf-8")
    project = (spectext.SPEC.parent / "pyproject.toml").read_text(encoding="utf-8")
    told = re.search(r"^version: (.+)$", text, re.MULTILINE)
    package = re.search(r'^version = "(.+)"$', project, re.MULTILINE)
    assert told
    assert package
    assert re.findall(r"^ *version: (.+)$", citation, re.MULTILINE) == [package[1], told[1]]


def test_terms_and_classes_are_defined() -> None:
    """What the text uses as a term has a definition: places, editions, classes and the like."""
    introduction = (spectext.SPEC / "introduction.md").read_text(encoding="utf-8")
    terms = introduction.partition("## Terms")[2]
    for term in (
        "Entry", "Place", "Position", "Slot", "Chain", "Index key", "Put", "Committed entry",
        "Geometry", "Index directory", "Last file", "Store time", "Offset", "Roll-over", "Seed",
        "Broken", "Edition", "Full", "Reject", "Surplus",
    ):  # fmt: skip
        assert f"\n{term}\n: " in terms, term
    defined = set(
        re.findall(
            r"^([A-Z][a-z-]+ [a-z]+)\n: ",
            (spectext.SPEC / "conformance.md").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    )
    for requirement in spectext.requirements():
        for name in re.findall(
            r"\b((?:strict|lenient|mending|broker-faithful) (?:reader|writer|loader))",
            requirement.text,
        ):
            assert name.capitalize() in defined, (requirement.name, name)


def test_every_erratum_says_versions_origin_and_vectors() -> None:
    """None lacks the versions, who produces or accepts the bytes, or its vectors, which exist."""
    text = (spectext.SPEC / "errata.md").read_text(encoding="utf-8")
    sections = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    existing = {name.partition("/")[2] for name in spectext.vectors()}
    for section in sections:
        assert re.search(r"^Versions: .+; (produced|accepted|reader)\b", section, re.MULTILINE), (
            section[:60]
        )
        line = re.search(r"^Vectors: (.+)$", section, re.MULTILINE)
        assert line, section[:60]
        names = set(re.findall(r"`(\w+)`", line[1])) - {"is_time_matched"}
        assert names
        assert names <= existing, names - existing
        assert spectext.REQUIREMENT_NAME.search(section), section[:60]


def selected(vector: str, key: str, begin: int, end: int) -> list[int]:
    """Return what the broker selects from a vector's file."""
    description = spectext.vectors()[vector]
    data = (spectext.VECTORS / f"{vector}.bin").read_bytes()
    slots, places = description["hash_slot_num"], description["index_num"]
    found: list[int] = []
    oracle.File(slots, places, bytearray(data)).select(found, key, 64, begin, end)
    return found


class TestErrata:
    """What the errata say in prose about their examples."""

    def test_the_first_entry_of_a_rolled_file_is_found_only_where_the_text_says(self) -> None:
        """ERR-7: stored at 1700000012345, read by the broker as 1700000024345."""
        vector, key = "accept/inherited_first_entry_quirk", "TopicTest#ef-Xq0C0lcsB"
        assert selected(vector, key, 1700000012345, 1700000012345) == []
        assert 4000100 in selected(vector, key, 1700000012345, 1700000024345)
        assert 4000100 not in selected(vector, key, 1700000012345, 1700000024344)

    def test_the_walk_misses_the_entry_that_the_text_says(self) -> None:
        """ERR-13: from 1700000050000 on, entry 2 of 100 s is missed and entry 4 is found."""
        key = "TopicTest#ZO^UUIZ"
        assert selected("accept/early_termination", key, 1700000050000, 2**63 - 1) == [4]
        assert selected("accept/early_termination", key, 0, 2**63 - 1) == [4, 2, 1]

    def test_the_time_match_is_as_odd_as_the_text_says(self) -> None:
        """ERR-17: the file's own times do not match, a range without an entry does."""
        data = (spectext.VECTORS / "accept" / "timestamps_backwards.bin").read_bytes()
        file = oracle.File(8, 20, bytearray(data))
        assert not file.is_time_matched(1700000000000, 1699999900000)
        assert file.is_time_matched(1699999999998, 1699999999999)
        times = [file.time(position) for position in range(1, file.index_count)]
        assert not any(1699999999998 <= time <= 1699999999999 for time in times)

    def test_position_214748365_wraps_to_where_the_text_says(self) -> None:
        """ERR-16: the walk reports offset 0 for a key with hash 0."""
        assert oracle.wrap(214748365 * 20, 32) == 4
        assert selected("reject/position_wraps", "", 0, 2**63 - 1) == [0]

    def test_a_cut_entry_is_reported_at_offset_0(self) -> None:
        """ERR-28: its hash is left, its offset is not."""
        data = (spectext.VECTORS / "reject" / "truncated_entries.bin").read_bytes()
        file = oracle.File(5, 5, bytearray(data.ljust(160, b"\0")))
        found: list[int] = []
        file.select(found, "TopicTest#%q6cR", 64, 0, 2**63 - 1)
        assert found == [0]


def test_the_collision_figures_follow_from_the_size_of_the_hash_space() -> None:
    """0.93 % a full file, and 2.8 million false candidates for ten million keys in thirty files."""
    text = (spectext.SPEC / "key-hash.md").read_text(encoding="utf-8")
    full = 19_999_999 / 2**31
    assert f"{100 * (1 - math.exp(-full)):.2f} %" in text
    assert f"{10_000_000 * 30 * full / 1e6:.1f} million" in text


def test_every_violation_of_the_table_has_a_vector_and_every_reject_vector_a_violation() -> None:
    """The two tables have the same rows, and name all of ``reject``."""
    page = "conformance.md"
    shown = spectext.table(page, "violation-vectors")
    text = (spectext.SPEC / page).read_text(encoding="utf-8")
    outcomes = re.findall(r"^\| (.+?) \|(?:.+\|){4}$", text, re.MULTILINE)
    assert [row["Violation"] for row in shown] == outcomes[1:]
    named = {name for row in shown for name in re.findall(r"`(\w+)`", row["Vectors"])}
    existing = {
        name
        for name, vector in spectext.vectors().items()
        if name.startswith("reject/") and vector["kind"] == "file"
    }
    assert {f"reject/{name}" for name in named} == existing


class TestWorkedExample:
    """A reader who has only the printed text can decode the file and look a key up."""

    @pytest.fixture
    def printed(self) -> bytes:
        """The bytes as printed, one line after the other."""
        ((_, lines),) = spectext.hex_blocks(spectext.SPEC / "worked-example.md")
        data = b""
        for line in lines:
            assert line.offset == len(data)
            data += line.data
        return data

    @pytest.mark.requirement("IDX-EXA-1")
    def test_the_printed_bytes_are_the_whole_file(self, printed: bytes) -> None:
        """Nothing is left out and nothing stands twice."""
        assert printed == (spectext.VECTORS / "accept" / "worked_example.bin").read_bytes()

    def test_each_printed_step_reads_what_is_printed_and_leads_to_the_next(
        self, printed: bytes
    ) -> None:
        """The sums, bytes and values of the table are right, and the walk ends with the answer."""
        steps = spectext.table("worked-example.md", "worked-lookup")
        key = re.search(r"`(.+)`", steps[0]["read"])
        assert key
        wanted = oracle.key_hash(key[1])
        assert int(steps[0]["value"]) == wanted
        assert f"{wanted} % 5 = {wanted % 5}" in steps[0]["what follows"]
        position = None
        found = []
        for step in steps[1:]:
            match = re.fullmatch(
                r"(?P<name>slot|entry)\[(?P<number>\d+)\](?:\.(?P<field>\w+))? at "
                r"(?P<sum>[\d+* ]+) = (?P<offset>\d+)",
                step["read"],
            )
            assert match, step
            offset = sum(
                int.__mul__(*map(int, term.split("*"))) if "*" in term else int(term)
                for term in match["sum"].split("+")
            )
            assert offset == int(match["offset"])
            data = bytes.fromhex(step["bytes"].strip("`"))
            assert printed[offset : offset + len(data)] == data
            value = int.from_bytes(data, "big", signed=True)
            assert value == int(step["value"])
            number = int(match["number"])
            if match["name"] == "slot":
                assert number == wanted % 5
                position = value
            else:
                assert number == position
                if match["field"] == "key_hash":
                    is_hit = value == wanted
                elif match["field"] == "phy_offset":
                    assert is_hit
                    found.append(value)
                else:
                    assert match["field"] == "prev_position"
                    position = value
        assert position == 0
        text = (spectext.SPEC / "worked-example.md").read_text(encoding="utf-8")
        assert f"one candidate, the message at offset {found[0]}," in text
        assert len(found) == 1

    def test_the_printed_puts_give_the_printed_bytes(self, printed: bytes) -> None:
        """The four puts of the first table, done as the steps of put say, make the file."""
        text = (spectext.SPEC / "worked-example.md").read_text(encoding="utf-8")
        puts = re.findall(r"^\| \d \| `(.+)` \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
        file = oracle.File.create(5, 5)
        for key, offset, time in puts:
            assert file.put(key, int(offset), int(time))
        assert bytes(file.data) == printed
