"""The specification as data: requirements, tables, hex blocks, and what shows each requirement."""

from __future__ import annotations

import ast
import functools
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

SPEC = Path(__file__).resolve().parents[1]
VECTORS = SPEC / "vectors"
TESTS = SPEC.parent / "tests"

# Of the IndexFile, the CommitLog, the ConsumeQueue, the checkpoint and message ids.
_CHAPTERS = "IDX|LOG|CQ|CHK|MID"
_REQUIREMENT = rf"(?:{_CHAPTERS})-(?!ERR)[A-Z]{{3}}-\d+"
_ERRATUM_NAME = rf"(?:(?:{_CHAPTERS})-)?ERR-\d+"
REQUIREMENT_NAME = re.compile(rf"\b{_REQUIREMENT}\b")
ERRATUM_NAME = re.compile(rf"\b{_ERRATUM_NAME}\b")
_DEFINITION = re.compile(rf"^- \*\*(?P<name>{_REQUIREMENT})\*\*: (?P<text>.+)$", re.MULTILINE)
_ERRATUM = re.compile(rf"^### (?P<name>{_ERRATUM_NAME}): (?P<title>.+)$", re.MULTILINE)
_OPERATION = re.compile(r"^\(op-([a-z-]+)\)=\n", re.MULTILINE)
_HEX_BLOCK = re.compile(
    r"^```text\n# (?P<vector>(?:accept|reject)/\w+)\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL
)
_HEX_LINE = re.compile(
    r"^(?P<offset>[0-9a-f]{4})  (?P<bytes>[0-9a-f]{2}(?: [0-9a-f]{2})*) +"
    r"(?P<name>[\w\[\].]+) = (?P<value>-?\d+|\"[ -~]*\")$"
)


@dataclass(frozen=True)
class Requirement:
    """A numbered requirement.

    Attributes:
        name: The prefix of a chapter, an area and a number: ``IDX-LAY-1``.
        text: What it demands, in one sentence.
        page: The file it stands in.
    """

    name: str
    text: str
    page: Path


@dataclass(frozen=True)
class HexLine:
    """One field of a hex block: where, which bytes, what they are called and what they mean.

    A value is a number, or text that writes the bytes 01 and 02 as backslash and digit.
    """

    offset: int
    data: bytes
    name: str
    value: int | bytes


@dataclass(frozen=True)
class Operation:
    """An operation: a heading, numbered steps, and what restates them.

    Attributes:
        name: The label of its heading.
        heading: What the text calls it.
        steps: The text of each step, by its number.
        requirements: The requirements of its section; the first is that of the operation.
    """

    name: str
    heading: str
    steps: dict[int, str]
    requirements: list[Requirement]


@dataclass
class Traces:
    """What shows a requirement.

    Attributes:
        vectors: Names of vectors, with their group.
        tests: Names of tests, with their file.
    """

    vectors: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)


def pages() -> list[Path]:
    """Return the pages of the specification in reading order, the first one first."""
    first = SPEC / "index.md"
    contents = first.read_text(encoding="utf-8").partition("```{toctree}")[2].partition("```")[0]
    return [first, *(SPEC / f"{name}.md" for name in contents.split() if name[0] not in ":1")]


def requirements() -> list[Requirement]:
    """Return all requirements, page by page in the order of the text."""
    return [
        Requirement(match["name"], match["text"], page)
        for page in pages()
        for match in _DEFINITION.finditer(page.read_text(encoding="utf-8"))
    ]


def operations() -> list[Operation]:
    """Return all operations, page by page in the order of the text."""
    found = []
    for page in pages():
        sections = _OPERATION.split(page.read_text(encoding="utf-8"))
        for name, section in zip(sections[1::2], sections[2::2], strict=True):
            body = section.partition("\n## ")[0]
            steps: dict[int, str] = {}
            for line in body.splitlines():
                if match := re.match(r"(\d+)\. (.+)", line):
                    assert int(match[1]) == len(steps) + 1, f"{page.name}: {name}: {line}"
                    steps[int(match[1])] = match[2]
                elif steps and line.startswith("   "):
                    steps[len(steps)] += " " + line.strip()
            texts = _DEFINITION.finditer(body)
            requirements_of = [Requirement(each["name"], each["text"], page) for each in texts]
            heading = re.findall(r"^#{2,3} (.+)$", body, re.MULTILINE)[-1]
            found.append(Operation(name, heading, steps, requirements_of))
    return found


def cited_steps(requirement: Requirement) -> list[int]:
    """Return the numbers of the steps that a requirement names at its end."""
    match = re.search(r"\(steps? ([^()]+)\)\.$", requirement.text)
    if match is None:
        return []
    numbers = [int(number) for number in re.findall(r"\d+", match[1])]
    return list(range(numbers[0], numbers[1] + 1)) if " to " in match[1] else numbers


def errata() -> dict[str, str]:
    """Return the titles of the errata by name, page by page in the order of the text."""
    return {
        match["name"]: match["title"]
        for page in pages()
        for match in _ERRATUM.finditer(page.read_text(encoding="utf-8"))
    }


def since() -> dict[str, str]:
    """Return the releases from which requirements hold that do not hold for all, by their names.

    Where only a part of a requirement came later, the release is followed by ``, in part``.
    """
    found: dict[str, str] = {}
    for row in table("history.md", "since-table"):
        for column, mark in (("requirements", ""), ("in part", ", in part")):
            for name in REQUIREMENT_NAME.findall(row[column]):
                told = f"{row['since']}{mark}"
                found[name] = f"{found[name]}; {told}" if name in found else told
    return found


def table(page: str, label: str) -> list[dict[str, str]]:
    """Return the rows of the first table after ``(label)=``, by column heading."""
    headings, *rows = table_lists(page, label)
    return [dict(zip(headings, row, strict=True)) for row in rows]


def table_lists(page: str, label: str) -> list[list[str]]:
    """Return the rows of the first table after ``(label)=``, the headings first."""
    text = (SPEC / page).read_text(encoding="utf-8").split(f"({label})=\n", 1)[1]
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("|"):
            lines.append(line)
        elif lines:
            break
    headings, _, *rows = ([cell.strip() for cell in _cells(line)] for line in lines)
    return [headings, *rows]


def _cells(line: str) -> list[str]:
    return line.strip().removeprefix("|").removesuffix("|").split("|")


def hex_blocks(page: Path) -> list[tuple[str, list[HexLine]]]:
    """Return the hex blocks of a page: the vector of each, and its lines.

    Raises:
        ValueError: A line that cannot be read.
    """
    blocks = []
    for block in _HEX_BLOCK.finditer(page.read_text(encoding="utf-8")):
        lines = []
        for line in block["lines"].splitlines():
            match = _HEX_LINE.match(line)
            if match is None:
                raise ValueError(f"{page.name}: not a line of a hex block: {line}")
            data = bytes.fromhex(match["bytes"])
            lines.append(
                HexLine(int(match["offset"], 16), data, match["name"], _value(match["value"]))
            )
        blocks.append((block["vector"], lines))
    return blocks


def _value(text: str) -> int | bytes:
    if text.startswith('"'):
        return text[1:-1].encode("ascii").replace(b"\\1", b"\x01").replace(b"\\2", b"\x02")
    return int(text)


@functools.cache
def vectors() -> dict[str, dict]:
    """Return the JSON of all vectors, by group and name; nobody changes what it is given."""
    return {
        f"{path.parent.name}/{path.stem}": json.loads(path.read_text(encoding="ascii"))
        for group in ("accept", "reject")
        for path in sorted((VECTORS / group).glob("*.json"))
    }


@functools.cache
def traces() -> dict[str, Traces]:
    """Return what names each requirement: vectors, and tests by their ``requirement`` mark."""
    found: dict[str, Traces] = defaultdict(Traces)
    for name, vector in vectors().items():
        for requirement in vector["requirements"]:
            found[requirement].vectors.append(name)
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "requirement" not in text:
            continue
        for test in ast.walk(ast.parse(text)):
            if isinstance(test, (ast.FunctionDef, ast.ClassDef)):
                for requirement in _marked(test):
                    where = f"{path.relative_to(TESTS).as_posix()}::{test.name}"
                    found[requirement].tests.append(where)
    return dict(found)


def _marked(test: ast.FunctionDef | ast.ClassDef) -> list[str]:
    """Return the requirements in a test's decorators."""
    return [
        argument.value
        for decorator in test.decorator_list
        if isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Attribute)
        and decorator.func.attr == "requirement"
        for argument in decorator.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def _in_words(test: str) -> str:
    """Return what a test states: its name, which is a sentence."""
    return test.partition("::")[2].removeprefix("test_").replace("_", " ")


def traceability_table() -> str:
    """Return a Markdown table of all requirements with what shows each."""
    found, later = traces(), since()
    rows = ["| Requirement | Demands | Since | Vectors | Tests |", "|---|---|---|---|---|"]
    for requirement in requirements():
        shown = found.get(requirement.name, Traces())
        vectors_cell = ", ".join(f"`{name.partition('/')[2]}`" for name in shown.vectors)
        tests_cell = "; ".join(_in_words(name) for name in shown.tests)
        text = requirement.text.replace("|", "\\|")
        came = later.get(requirement.name, "")
        rows.append(f"| {requirement.name} | {text} | {came} | {vectors_cell} | {tests_cell} |")
    return "\n".join(rows) + "\n"
