"""Every test is of one kind: unit, spark or system."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kinds import COLLECTED, KINDS, SYSTEM_FOLDER, kind_of, sampled

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"


def item_of(path, *marks, fixtures=()):
    """Return what stands for a test."""
    return SimpleNamespace(
        nodeid=path,
        path=TESTS / path,
        fixturenames=fixtures,
        iter_markers=lambda: iter(getattr(pytest.mark, name).mark for name in marks),
    )


def test_each_collected_test_has_one_kind(request):
    """Whatever part of them is run: none is left out by all of the commands."""
    kinds = request.config.stash[COLLECTED]
    assert request.node.nodeid in kinds
    assert not {node: marks for node, marks in kinds.items() if len(marks) != 1}


@pytest.mark.parametrize(
    ("path", "marks", "fixtures", "kind"),
    [
        ("format/test_a.py", (), (), "unit"),
        ("connector/test_a.py", (), ("spark",), "spark"),
        ("connector/test_a.py", ("spark",), (), "spark"),
        ("connector/test_a.py", ("system",), ("spark",), "system"),
        ("system/broker/test_a.py", (), ("spark",), "system"),
    ],
)
def test_a_mark_or_else_the_folder_or_else_a_session_makes_the_kind(path, marks, fixtures, kind):
    """In this order."""
    assert kind_of(item_of(path, *marks, fixtures=fixtures)) == kind


@pytest.mark.parametrize("marks", [("unit",), ("spark", "system")])
def test_two_kinds_and_a_claim_to_be_a_unit_test_are_refused(marks):
    """What a test uses makes it a unit test, not its author."""
    with pytest.raises(ValueError, match=r"^format/test_a.py: expected the mark spark or system"):
        kind_of(item_of("format/test_a.py", *marks))


def test_each_kind_is_run_once_by_the_whole_check():
    """By the targets of the Makefile that ``.ci/run`` calls."""
    makefile, check = ((ROOT / name).read_text() for name in ("Makefile", ".ci/run"))
    called = re.findall(r"^make .* (test[\w-]*)$", check, re.MULTILINE)
    targets = [
        re.search(rf"^{name}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1] for name in called
    ]
    assert re.findall(r"-m pytest -m (\w+)", "".join(targets)) == list(KINDS)


@pytest.mark.parametrize("kind", ["spark", "system"])
def test_tests_are_in_the_folders_that_their_command_names(request, kind):
    """Collecting the others takes longer than some of the tests; long files are to be first."""
    makefile = (ROOT / "Makefile").read_text()
    told = re.search(rf"-m pytest -m {kind} (.*)", makefile)[1].split()
    folders = [f"{one}/" for one in told if one.startswith("tests/")]
    kinds = request.config.stash[COLLECTED]
    of_kind = [node for node, marks in kinds.items() if marks == [kind]]
    assert not [node for node in of_kind if not node.startswith(tuple(folders))]
    assert all((ROOT / folder).is_dir() for folder in folders)


def test_folders_of_system_tests_are_there():
    """A folder that is moved takes its kind along."""
    assert list((TESTS / SYSTEM_FOLDER).glob("*/test_*.py"))


def test_a_unit_test_cannot_start_a_jvm():
    """Spark's own launcher does not find one, in this process or in those it starts."""
    code = "from pyspark.sql import SparkSession; SparkSession.builder.getOrCreate()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode != 0
    assert f"{os.environ['JAVA_HOME']}/bin/java" in done.stderr


def test_cases_are_divided_between_the_two_commands():
    """Those that are kept stay as they are, and none is lost."""
    first, second, third = sampled("abc", "b")
    assert second == "b"
    assert [case.values for case in (first, third)] == [("a",), ("c",)]
    assert {mark.name for case in (first, third) for mark in case.marks} == {"system"}


def test_a_case_to_keep_must_be_there():
    """A name that changed would leave `make test` without the case."""
    with pytest.raises(ValueError, match="expected cases among"):
        sampled("abc", "d")


def test_the_whole_check_draws_all_examples():
    """By the variable that the tests look for."""
    name = "RMQINDEX_ALL_EXAMPLES"
    assert f"export {name}=1" in (ROOT / ".ci" / "run").read_text()
    assert f'"{name}"' in (TESTS / "support" / "examples.py").read_text()
