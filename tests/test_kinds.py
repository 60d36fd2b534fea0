"""Every test is of one kind: unit, spark or system."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kinds import COLLECTED, KINDS, SYSTEM_FOLDERS, kind_of

ROOT = Path(__file__).parents[1]


def item_of(path, *marks, fixtures=()):
    """Return what stands for a test."""
    return SimpleNamespace(
        nodeid=path,
        path=Path(__file__).parent / path,
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
        ("broker/test_a.py", (), ("spark",), "system"),
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


def test_folders_of_system_tests_are_there():
    """A folder that is moved takes its kind along."""
    here = {path.name for path in Path(__file__).parent.iterdir()}
    assert here >= SYSTEM_FOLDERS


def test_a_unit_test_cannot_start_a_jvm():
    """Spark's own launcher does not find one, in this process or in those it starts."""
    code = "from pyspark.sql import SparkSession; SparkSession.builder.getOrCreate()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode != 0
    assert f"{os.environ['JAVA_HOME']}/bin/java" in done.stderr
