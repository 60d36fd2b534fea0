"""What once failed no longer does, and a seed gives the same history each time."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from .mutants import MUTANTS

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
#: Scripts that once failed, shortened, with what was wrong then.
FAILED = json.loads((HERE / "failed_seeds.json").read_text(encoding="utf-8"))


def simulate(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "tests.system.simulator", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Play the scripts of all that failed in one process, which imports the package once."""
    folder = tmp_path_factory.mktemp("failed")
    scripts = [folder / f"{number}.json" for number in range(len(FAILED))]
    for script, failed in zip(scripts, FAILED, strict=True):
        script.write_text(json.dumps(failed["script"]), encoding="utf-8")
    return simulate("--play", *scripts, "--folder", folder / "worlds")


@pytest.mark.parametrize("number", range(len(FAILED)), ids=lambda n: FAILED[n]["what"])
def test_what_once_failed_is_right_now(number, played):
    """The script of a seed that failed, shortened."""
    told = [line for line in played.stdout.splitlines() if line.startswith(f"{number}.json: ")]
    steps = len(FAILED[number]["script"]["steps"])
    assert [line.partition(" in ")[0] for line in told] == [f"{number}.json: {steps} steps"], (
        played.stdout + played.stderr
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_fault_still_has_its_place(mutant):
    """Where its module was changed, plant it anew, and see that it is found."""
    module = ROOT / "format/rmqindex" / mutant.file
    assert module.read_text(encoding="utf-8").count(mutant.old) == 1


def test_one_seed_gives_one_history():
    """So that what a seed found can be looked at."""
    first, second = (simulate("--script", 7) for _ in range(2))
    assert json.loads(first.stdout) == json.loads(second.stdout)


def test_the_judge_imports_nothing_of_the_package():
    """Else it could be wrong in the same way."""
    judges = ["judge.py", "bytes_of.py", "writes.py", "damage.py", "history.py", "life.py"]
    for path in [*(HERE / name for name in judges), *(HERE / "model").glob("*.py")]:
        names = {
            name
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert not [name for name in names if name.startswith(("rmqindex", "pyspark"))], path.name
