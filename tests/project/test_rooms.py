"""The rules of the house that ``make lint`` does not check, and that it does check the others."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = [ROOT / "format" / "rmqindex", ROOT / "connector" / "pyspark_rmqindex"]
MODULES = sorted(path for package in PACKAGES for path in package.rglob("*.py"))
ROOMS = sorted(path for package in PACKAGES for path in package.glob("*/__init__.py"))


def room_of(path):
    """Name a file by its package and room, for the test's id."""
    return f"{path.parent.parent.name}.{path.parent.name}"


def test_no_module_is_longer_than_500_lines():
    """A longer one has two ideas."""
    assert not [path for path in MODULES if path.read_text().count("\n") > 500]


def test_no_room_has_more_than_eleven_modules():
    """A fuller one has two ideas."""
    rooms = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    del rooms[PACKAGES[0]]  # what every room imports: numbers, errors, times
    assert not {room: count for room, count in rooms.items() if count > 11}


@pytest.mark.parametrize("path", ROOMS, ids=room_of)
def test_a_room_says_what_it_is_for(path):
    """Its contract opens the room."""
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_the_figure_and_the_contract_of_imports_name_every_room():
    """A room that is added is drawn."""
    drawn = (ROOT / "docs" / "project" / "architecture.svg").read_text()
    declared = (ROOT / "pyproject.toml").read_text()
    for path in ROOMS:
        assert f">{path.parent.name}</text>" in drawn
        assert f'  "{path.parent.name}",' in declared


PLANTED = {
    "format/rmqindex/storage/remote.py": (
        "from rmqindex.bulk.files import FileRoller",
        "rmqindex.storage is not allowed to import rmqindex.bulk",
    ),
    "connector/pyspark_rmqindex/join/key_chunk.py": (
        "from rmqindex.transaction.journal import Journal",
        "pyspark_rmqindex is not allowed to import rmqindex.transaction.journal",
    ),
}


@pytest.mark.system
@pytest.mark.skipif(find_spec("importlinter") is None, reason="import-linter is for make lint")
@pytest.mark.parametrize("file", PLANTED)
def test_a_planted_import_is_found(file, tmp_path):
    """One that goes up, for types alone, and one of a module inside a room."""
    for name in ("format", "connector", "benchmarks", "tests", "pyproject.toml"):
        source = ROOT / name
        if source.is_dir():
            skipped = shutil.ignore_patterns("__pycache__", "data", "corpus", ".work")
            shutil.copytree(source, tmp_path / name, ignore=skipped)
        else:
            shutil.copy(source, tmp_path / name)
    statement, said = PLANTED[file]
    module = tmp_path / file
    before = "if TYPE_CHECKING:\n"
    assert before in module.read_text()
    module.write_text(module.read_text().replace(before, f"{before}    {statement}\n", 1))
    path = os.pathsep.join(str(tmp_path / name) for name in ("", "format", "connector"))
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command as main; main()",
            "--no-cache",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert said in done.stdout
