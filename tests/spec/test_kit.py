"""The conformance kit: its runner, its archive, and the page that documents both."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

import make_archive
import oracle_adapter
import spectext
from oracle_store import ORACLE_STORE_OPERATIONS
from rmq_index_conformance.archive import Archive, ArchiveError, read_archive
from rmq_index_conformance.cases import CLASSES, Case, cases_of
from rmq_index_conformance.judge import problem_of, same
from rmq_index_conformance.program import MAX_ANSWER_BYTES, Program, ProgramError
from rmq_index_conformance.report import as_data, as_junit, summary
from rmq_index_conformance.run import FAILED, PASSED, SKIPPED, hello, run_cases
from rmqindex_store import STORE_OPERATIONS

if TYPE_CHECKING:
    from pathlib import Path

ADAPTERS = spectext.SPEC / "kit" / "adapters"
ORACLE = [sys.executable, str(ADAPTERS / "oracle_adapter.py")]
HELLO = {
    "protocol": 1,
    "name": "bad",
    "version": "1",
    "classes": ["broker_faithful_reader"],
    "editions": ["5.4"],
    "operations": ["names"],
}
# Answers hello, and then does something else for each request; `line` is what it was sent.
BAD = """
import json, os, sys, time
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "hello":
        print(json.dumps({{"id": request["id"], **{hello}}}), flush=True)
        continue
    {deed}
"""


def bad_program(deed: str) -> list[str]:
    """Return the command of a program that answers hello and then does a deed."""
    return [sys.executable, "-c", BAD.format(hello=HELLO, deed=deed)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive, built anew."""
    return make_archive.build(tmp_path_factory.mktemp("vectors"))


@pytest.fixture(scope="module")
def archive(built: Path) -> Archive:
    """The archive, read."""
    return read_archive(built)


@pytest.fixture(scope="module")
def cases(archive: Archive) -> list[Case]:
    """All cases of it."""
    return cases_of(archive)


@pytest.fixture(scope="module")
def few(cases: list[Case]) -> list[Case]:
    """Some cases of an operation that needs nothing but a text."""
    return [case for case in cases if case.operation == "names"][:3]


def run_kit(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the kit as a user does."""
    return subprocess.run(
        [sys.executable, str(make_archive.KIT / "rmq_index_conformance"), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.system
def test_the_steps_of_the_text_pass_every_case(
    built: Path, cases: list[Case], tmp_path: Path
) -> None:
    """The oracle claims all of the index and fails nothing; each file of results says so."""
    junit, data = tmp_path / "junit.xml", tmp_path / "results.json"
    done = run_kit("--vectors", built, "--junit", junit, "--json", data, "--", *ORACLE)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(data.read_text())
    totals = results["totals"]
    assert totals["passed"] > 4000
    others = {case.operation for case in cases} - set(oracle_adapter.OPERATIONS)
    assert set(results["skips"]) == {f"operation {name} not claimed" for name in others}
    assert f"{totals['passed']} passed, 0 failed, {totals['skipped']} skipped" in done.stdout
    suites = ET.parse(junit).getroot()
    assert int(suites.get("tests", "")) == len(suites.findall(".//testcase")) == len(cases)


def test_every_requirement_is_shown_by_a_case_or_cannot_be(cases: list[Case]) -> None:
    """No requirement is forgotten, and no case names one that is not in the text."""
    names = {requirement.name for requirement in spectext.requirements()}
    shown = {name for case in cases for name in case.requirements}
    assert shown <= names
    of_the_index = {name for name in names if name.startswith("IDX-")}
    assert of_the_index - shown <= {row["Requirement"] for row in not_by_an_answer()}


def not_by_an_answer() -> list[dict[str, str]]:
    """Return the rows of the page's table."""
    return spectext.table("conformance-kit.md", "not-by-an-answer")


def test_every_class_and_every_vector_has_cases(archive: Archive, cases: list[Case]) -> None:
    """Nothing in the archive is left unasked."""
    assert {case.conformance_class for case in cases} == {*CLASSES, None}
    told = {vector.name for vector in archive.vectors if vector.fields["requirements"]}
    assert told <= {case.vector for case in cases}
    assert len({case.name for case in cases}) == len(cases)


@pytest.mark.parametrize(
    ("deed", "told"),
    [
        ("sys.exit(3)", "the program ended with status 3"),
        ("sys.exit('out of luck')", "the program ended with status 1: out of luck"),
        ("os.kill(os.getpid(), 9)", "the program ended with signal 9"),
        ("time.sleep(60)", "no answer within 0.5 seconds"),
        ("os.close(1); time.sleep(60)", "the program closed its output"),
        ("print('Segmentation fault', flush=True)", "expected a JSON document, got Segmentation"),
        ("print('[1]', flush=True)", "expected a JSON object, got [1]"),
        ("print('{\"id\": NaN}', flush=True)", "expected a JSON document"),
        ("print('[' * 100000, flush=True)", "expected a JSON document, got [[["),
        ("os.write(1, b'\\xff\\xfe\\n')", "expected a JSON document"),
        ("print(flush=True)", "expected a JSON document"),
        ("print('{\"id\": 99}', flush=True)", "id: expected 2, got 99"),
        ("print('{\"acc', end='', flush=True); sys.exit()", "the output ends within a line"),
        ("print('{\"acc', end='', flush=True); time.sleep(60)", "no answer within 0.5 seconds"),
        ("[os.write(1, b'x' * 65536) for _ in range(10**6)]", "a line of more than 16777216"),
    ],
)
def test_a_program_that_gives_no_answer_is_told_with_the_case(
    few: list[Case], deed: str, told: str
) -> None:
    """It dies, hangs, writes junk, half a line or too much: the case fails and says how."""
    huge = "more than" in told
    program = Program(bad_program(deed), limit=30 if huge else 0.5)
    try:
        outcome = run_cases(program, few[:1])
    finally:
        program.stop()
    (result,) = outcome.results
    assert result.status == FAILED
    assert told in result.why


def test_a_line_that_nobody_asked_for_is_told(few: list[Case]) -> None:
    """Two answers to one request are one too many."""
    deed = "print(json.dumps({'id': request['id'], 'accepted': True}) + '\\n{}', flush=True)"
    program = Program(bad_program(deed), limit=30)
    program.ask({"op": "hello"})
    program.ask(few[0].request)
    # It is there as soon as the program wrote it, or else it is taken for the next answer.
    with pytest.raises(ProgramError, match=r"nobody asked for: \{\}|id: expected 3, got None"):
        program.ask(few[0].request)


def test_a_flood_of_lines_takes_no_memory_and_ends(few: list[Case]) -> None:
    """A program that writes for ever is stopped like any other."""
    flood = "while True: os.write(1, b'{}\\n' * 10000)"
    program = Program(bad_program(flood), limit=30)
    try:
        assert run_cases(program, few).totals.failed == len(few)
    finally:
        program.stop()


def test_after_a_failure_the_program_is_started_anew(few: list[Case]) -> None:
    """One case that kills it costs the others nothing."""
    deed = (
        f"sys.exit(1) if request['name'] == {few[0].request['name']!r} else "
        "print(json.dumps({'id': request['id'], 'accepted': True}), flush=True)"
    )
    program = Program(bad_program(deed), limit=30)
    try:
        outcome = run_cases(program, few)
    finally:
        program.stop()
    assert [result.status for result in outcome.results] == [FAILED, PASSED, PASSED]


def test_a_program_that_never_answers_is_given_up(cases: list[Case]) -> None:
    """After twenty cases without an answer nothing more is asked."""
    asked = [case for case in cases if case.operation == "names"]
    asked *= 2
    program = Program(bad_program("sys.exit(1)"), limit=30)
    outcome = run_cases(program, asked)
    assert outcome.totals.failed == len(asked) > 21
    assert "not asked: 20 cases in a row" in outcome.results[-1].why


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("classes", ["wizard"], "classes: expected some of strict_writer"),
        ("classes", "strict_writer", "classes: expected a list of texts"),
        ("editions", ["9"], "editions: expected some of 4.0"),
        ("operations", None, "operations: expected a list of texts, got None"),
        ("protocol", 2, "protocol: expected 1, got 2"),
        ("error", "no class path", "the program's own error: no class path"),
    ],
)
def test_hello_says_what_is_known(field: str, value: object, told: str) -> None:
    """What a program claims is checked before anything is asked."""

    class Answers:
        def ask(self, _: dict[str, Any]) -> dict[str, Any]:
            return {**HELLO, field: value}

    with pytest.raises(ProgramError, match=re.escape(told)):
        hello(Answers())


@pytest.mark.parametrize("command", [["/nowhere/at/all"], [sys.executable, "-c", "pass"]])
def test_a_program_that_cannot_be_asked_ends_the_run(built: Path, command: list[str]) -> None:
    """It is told in one line, with exit status 2, and without a traceback."""
    done = run_kit("--vectors", built, "--", *command)
    assert done.returncode == 2
    assert done.stderr.startswith("rmq-index-conformance: hello: the program ")
    assert len(done.stderr.splitlines()) == 1


def test_what_is_not_claimed_is_skipped_and_counted(cases: list[Case], archive: Archive) -> None:
    """Operations, classes and editions, each with its reason; so is what it says it cannot do."""

    class Answers:
        def ask(self, request: dict[str, Any]) -> dict[str, Any]:
            if request["op"] == "hello":
                return {**HELLO, "operations": ["names", "put", "build"]}
            assert request["op"] == "names"
            return {"unsupported": "not on this machine"}

    outcome = run_cases(Answers(), cases)
    assert outcome.totals.skipped == len(cases)
    assert "operation scan not claimed" in outcome.skips
    assert "class strict_writer not claimed" in outcome.skips
    assert "the program does not support it: not on this machine" in outcome.skips
    assert f"0 passed, 0 failed, {len(cases)} skipped" in summary(outcome, archive)
    data = as_data(outcome, archive)
    assert data["totals"] == {"passed": 0, "failed": 0, "skipped": len(cases)}


def test_a_wrong_answer_is_told_by_case_class_and_requirement(
    few: list[Case], archive: Archive
) -> None:
    """The summary and the JUnit file name the case, its requirements, and what was expected."""

    class Answers:
        def ask(self, request: dict[str, Any]) -> dict[str, Any]:
            return HELLO if request["op"] == "hello" else {"accepted": 1}

    outcome = run_cases(Answers(), few)
    text = summary(outcome, archive)
    assert f"{few[0].name}\n    accepted: expected true, got 1" in text
    assert f"IDX-NAM-3: {len(few)} of {len(few)} failed" in text
    root = ET.fromstring(as_junit(outcome))
    assert len(root.findall(".//failure")) == len(few)
    assert root.find(".//property").attrib == {"name": "requirement", "value": "IDX-NAM-3"}  # type: ignore[union-attr]


def test_junit_takes_texts_that_xml_cannot_hold(cases: list[Case]) -> None:
    """Unpaired surrogates and control characters are written as escapes."""

    class Answers:
        def ask(self, request: dict[str, Any]) -> dict[str, Any]:
            if request["op"] == "hello":
                return {**HELLO, "operations": ["hash"]}
            return {"error": "\0\ud800"}

    outcome = run_cases(Answers(), [case for case in cases if case.operation == "hash"])
    assert "\\u0000\\ud800" in (ET.fromstring(as_junit(outcome)).find(".//failure").get("message"))  # type: ignore[union-attr,operator]


@pytest.mark.parametrize(
    ("one", "other"), [(True, 1), (1, 1.0), ([1], [True]), ({"a": 0}, {"a": False}), (None, 0)]
)
def test_values_of_other_types_differ(one: object, other: object) -> None:
    """What JSON tells apart is not taken for the same."""
    assert same(one, one)
    assert not same(one, other)


@pytest.mark.parametrize(
    ("expected", "answer", "told"),
    [
        ({"answer": {"a": 1}}, {"a": 1, "b": 2}, None),
        ({"answer": {"a": None}}, {}, "a: expected null"),
        ({"answer": {"a": 1}}, {"reject": {}}, "expected an answer, got the rejection"),
        ({"reject": {}}, {"a": 1}, "expected a rejection"),
        ({"contains": {"a": [{"b": 1}]}}, {"a": [{"b": 1, "c": 2}]}, None),
        ({"contains": {"a": [{"b": 1}]}}, {"a": [{"c": 2}]}, "a[0]: lacks the fields ['b']"),
        ({"contains": {"a": [{"b": 1}]}}, {"a": []}, "a: expected"),
        ({"contains": {"a": {"b": 1}}}, {"a": {"b": 1, "c": 2}}, None),
        ({"contains": {"a": [{"b": {}}]}}, {"a": [{"b": {"c": 2}}]}, "a[0].b: lacks the fields []"),
        ({"reject": {"byte": 4}}, {"reject": {"byte": 5}}, "byte: expected 4, got 5"),
        ({"reject": {"said": ["found"]}}, {"reject": {}}, "does not say found"),
        ({"reject": {}}, {"reject": True}, "expected a rejection"),
        ({"one_of": [{"answer": {"a": 1}}, {"reject": {}}]}, {"reject": {}}, None),
        ({"one_of": [{"answer": {"a": 1}}, {"reject": {}}]}, {"a": 2}, "a: expected 1, got 2"),
        ({"names": 1}, {"names": ["20260101000000000"]}, None),
        ({"names": 1}, {"names": ["2026010100000000"]}, "names: expected 1 of 17 digits"),
        ({"names": 2}, {"names": ["20260101000000001", "20260101000000000"]}, "names: expected 2"),
        ({"answer": {"a": [1, 2]}}, {"a": [1, 3]}, "a[1]: expected 2, got 3"),
    ],
)
def test_an_answer_is_judged_by_what_is_expected(
    expected: dict[str, Any], answer: dict[str, Any], told: str | None
) -> None:
    """Each form of an expectation."""
    problem = problem_of(expected, answer)
    assert problem is None if told is None else told in str(problem)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda root: (root / "accept/empty.bin").write_bytes(b"x"), "accept/empty.bin: sha256"),
        (lambda root: (root / "accept/empty.bin").unlink(), "accept/empty.bin: expected this file"),
        (lambda root: (root / "extra").write_bytes(b""), "extra: sha256"),
        (lambda root: (root / "manifest.json").unlink(), "expected manifest.json"),
        (lambda root: (root / "manifest.json").write_text("[]"), "expected a manifest"),
    ],
)
def test_an_archive_that_was_changed_is_refused(
    built: Path, tmp_path: Path, change: Any, told: str
) -> None:
    """Every file is compared with the manifest, and the one that differs is named."""
    with zipfile.ZipFile(built) as archive:
        archive.extractall(tmp_path)
    read_archive(tmp_path)
    change(tmp_path)
    with pytest.raises(ArchiveError, match=told):
        read_archive(tmp_path)


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    """So is a path where nothing is."""
    (tmp_path / "x.zip").write_bytes(b"PK")
    for path in (tmp_path / "x.zip", tmp_path / "nothing.zip"):
        done = run_kit("--vectors", path, "--", "true")
        assert done.returncode == 2
        assert str(path) in done.stderr


def test_the_exchanges_of_the_page_are_those_of_the_adapters() -> None:
    """Each request that the page shows gets the answer that the page shows."""
    operations = {**STORE_OPERATIONS, **ORACLE_STORE_OPERATIONS, **oracle_adapter.OPERATIONS}
    text = (spectext.SPEC / "conformance-kit.md").read_text(encoding="utf-8")
    shown = re.findall(r"^> (.*)\n< (.*)$", text, re.MULTILINE)
    asked = set()
    for request, answer in shown:
        told = json.loads(request)
        asked.add(told["op"])
        expected = json.loads(answer)
        if told["op"] == "write_checkpoint":  # The page shows the beginning of both.
            told, expected = (
                {**each, "hex": each["hex"].ljust(8192, "0")} for each in (told, expected)
            )
        given = operations[told["op"]](told)
        assert {"id": told["id"], **given} == expected
    assert set(operations) == asked


def test_the_page_names_the_classes_that_each_operation_is_asked_of(cases: list[Case]) -> None:
    """The table has every operation of the cases under the class that its requests name."""
    told = {
        (row["Class"].strip("`"), name)
        for row in spectext.table("conformance-kit.md", "operation-classes")
        for name in re.findall(r"`(\w+)`", row["Operations"])
    }
    assert told == {(case.conformance_class or "none", case.operation) for case in cases}


@pytest.mark.requirement("LOG-LIM-1", "LOG-LIM-2", "LOG-LIM-3")
def test_the_steps_of_the_text_pass_every_case_of_logs_and_queues(cases: list[Case]) -> None:
    """The twins of the chapters on the CommitLog and the ConsumeQueue answer as expected."""
    asked = [case for case in cases if case.operation in ORACLE_STORE_OPERATIONS]
    problems = {
        case.name: problem
        for case in asked
        if (
            problem := problem_of(
                case.expected,
                ORACLE_STORE_OPERATIONS[case.operation](
                    {**case.request, "edition": (*case.editions, "")[0]}
                ),
            )
        )
    }
    assert len(asked) > 300
    assert not problems


def test_a_failed_lookup_and_the_units_that_are_there_are_both_right(cases: list[Case]) -> None:
    """Of a batch queue whose last file lost its units, and of no other queue (CQ-ERR-4)."""
    asked = [case for case in cases if case.operation == "change_consumequeue"]
    either = [case for case in asked if "one_of" in case.expected]
    assert {case.vector for case in either} == {
        f"accept/batch_queue_{name}"
        for name in ("base_negative", "count_negative", "count_zero", "size_zero")
    }
    for case in either:
        given = ORACLE_STORE_OPERATIONS[case.operation](case.request)
        assert given["recovered"]["units"]
        for units, is_right in ((given["recovered"]["units"], True), (None, True), ([], False)):
            answer = {**given, "recovered": {**given["recovered"], "units": units}}
            assert (problem_of(case.expected, answer) is None) == is_right


def test_half_a_megabyte_is_no_huge_answer(few: list[Case]) -> None:
    """Lines below the limit are taken, however they arrive."""
    size = MAX_ANSWER_BYTES // 32
    deed = f"print(json.dumps({{'id': request['id'], 'unsupported': 'x' * {size}}}), flush=True)"
    program = Program(bad_program(deed), limit=30)
    try:
        (result,) = run_cases(program, few[:1]).results
    finally:
        program.stop()
    assert result.status == SKIPPED
