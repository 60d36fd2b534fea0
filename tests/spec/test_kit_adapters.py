"""Implementations behind the kit: rmqindex, RocketMQ's own classes, and Kaitai's parser."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING

import pytest

import make_archive
import status
import status_pages
from maven import REQUIRED, UnavailableError
from rmq_index_conformance.archive import read_archive
from rmq_index_conformance.cases import Case, cases_of
from rmq_index_conformance.program import Program
from rmq_index_conformance.run import FAILED, Outcome, run_cases

if TYPE_CHECKING:
    from pathlib import Path

RMQINDEX = [sys.executable, str(status.ADAPTERS / "rmqindex_adapter.py")]
# One in so many cases: all of them are in the status page, and test_conformance asks rmqindex all.
SAMPLE = 9
# Requirements of the store chapters that were put to each version.
JUDGED = [
    ("4.9.8", 46, 28, 8, 7),
    ("5.3.3", 47, 34, 8, 7),
    ("5.5.1", 47, 34, 8, 7),
]
# RocketMQ tries for half a minute to make this folder.
HANGS = f"the topic {'a' + chr(0) + 'b'!r}"
VERSIONS = [("4.9.8", "4.7.1"), ("5.3.3", "5.0"), ("5.5.1", "5.5")]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """All cases."""
    path = make_archive.build(tmp_path_factory.mktemp("vectors"))
    return cases_of(read_archive(path))


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what adapters force to the disk in memory, where there is such a place."""
    if status.SHM.is_dir() and os.access(status.SHM, os.W_OK):
        monkeypatch.setenv("TMPDIR", str(status.SHM))


def run(command: list[str], cases: list[Case], limit: float = 60) -> Outcome:
    """Run a program through cases."""
    program = Program(command, limit)
    try:
        return run_cases(program, cases)
    finally:
        program.stop()


def failures(outcome: Outcome) -> list[tuple[str, str]]:
    """Return the cases that failed, and why."""
    return [(each.case.name, each.why) for each in outcome.results if each.status == FAILED]


def test_rmqindex_passes_a_part_of_the_cases(cases: list[Case]) -> None:
    """One in nine, and all exchanges."""
    asked = cases[::SAMPLE] + [case for case in cases if case.vector.startswith("exchanges/")]
    outcome = run(RMQINDEX, asked)
    assert_explained("rmqindex", outcome)
    assert outcome.totals.passed > 400


def assert_explained(name: str, outcome: Outcome) -> None:
    """Fail unless the status page explains each failure."""
    for case, why in failures(outcome):
        status_pages.explanation_of(name, {"case": case, "why": why})


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("alibaba-3.2.6", ["3.2.6", "4.0", "com.alibaba.rocketmq"]),
        ("rocketmq-5.5.1", ["5.5.1", "5.5", "org.apache.rocketmq"]),
    ],
)
def test_the_adapter_of_rocketmq_is_told_its_version_edition_and_group(
    name: str, told: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of `status.py run`; the jars are not fetched here."""
    monkeypatch.setattr(status, "class_path_of", lambda *_: ["a.jar"])
    monkeypatch.setattr(status, "compile_java", lambda *_: None)
    assert status.COMMANDS[name](tmp_path)[-3:] == told


@pytest.mark.system
@pytest.mark.parametrize(("version", "edition"), VERSIONS)
def test_rocketmq_passes_but_for_what_is_explained(
    version: str, edition: str, cases: list[Case], tmp_path: Path
) -> None:
    """Its own classes, one case in nine, and the exchanges; they hang on two that are not here."""
    try:
        command = status.rocketmq_command(tmp_path, version, edition)
    except UnavailableError as error:
        if os.environ.get(REQUIRED):
            raise
        pytest.skip(str(error))
    asked = cases[::SAMPLE] + [case for case in cases if case.vector.startswith("exchanges/")]
    asked = [case for case in asked if not case.name.endswith(HANGS)]
    asked = [case for case in asked if "cycle_without_match" not in case.vector]
    outcome = run(command, asked)
    assert outcome.totals.passed > 300
    assert_explained(f"rocketmq-{version}", outcome)


@pytest.mark.system
def test_the_parser_that_kaitai_makes_passes_what_it_claims(
    cases: list[Case], tmp_path: Path
) -> None:
    """It decodes every file that a strict reader accepts."""
    outcome = run(status.kaitai_command(tmp_path), cases)
    assert failures(outcome) == []
    assert outcome.totals.passed > 70


def test_the_status_pages_are_what_the_runs_gave() -> None:
    """Written anew from the stored results they are the same, and each failure is explained."""
    folder = status.SPEC / "status"
    written = status_pages.pages()
    for name, text in written.items():
        assert (status.SPEC / name).read_text(encoding="utf-8") == text
    assert {f"status/{path.name}" for path in folder.iterdir()} < written.keys()


def test_the_page_of_an_implementation_has_each_failed_case() -> None:
    """Below its reason."""
    runs = json.loads(status_pages.DATA.read_text(encoding="ascii"))["runs"]
    written = status_pages.pages()
    for name, ran in runs.items():
        page = written[f"status/{name}.md"]
        listed = re.findall(r"^- `(.*)`:$", page, re.MULTILINE)
        assert sorted(listed) == sorted(each["case"] for each in ran["failures"])


def test_a_badge_counts_the_requirements_that_are_met() -> None:
    """In the form that shields.io reads; it is green where all that were asked are met."""
    badges = {name: json.loads(text) for name, text in status_pages.badges().items()}
    assert set(badges) == set(status_pages.IMPLEMENTATIONS)
    runs = json.loads(status_pages.DATA.read_text(encoding="ascii"))["runs"]
    for name, badge in badges.items():
        assert badge.keys() == {"schemaVersion", "label", "message", "color"}
        assert (badge["color"] == "brightgreen") == (not runs[name]["totals"]["failed"])
        assert re.fullmatch(r"\d+ of \d+ requirements", badge["message"])


def test_the_stored_runs_are_of_one_archive() -> None:
    """No implementation was held against other vectors than the others."""
    runs = json.loads(status_pages.DATA.read_text(encoding="ascii"))["runs"]
    assert set(runs) == set(status.COMMANDS) == set(status_pages.IMPLEMENTATIONS)
    assert len({(run["vectors"], run["manifest"]) for run in runs.values()}) == 1


@pytest.mark.parametrize(("version", "log", "queue", "checkpoint", "ids"), JUDGED)
def test_rocketmq_was_asked_in_every_chapter(
    version: str, log: int, queue: int, checkpoint: int, ids: int
) -> None:
    """So many requirements were put to its classes in the chapters beside the index."""
    runs = json.loads(status_pages.DATA.read_text(encoding="ascii"))["runs"]
    counts = runs[f"rocketmq-{version}"]["by_requirement"]
    asked = [name for name, each in counts.items() if each["passed"] + each["failed"]]
    found = [sum(name.startswith(f"{part}-") for name in asked) for part in status_pages.CHAPTERS]
    assert found[1:] == [log, queue, checkpoint, ids]
