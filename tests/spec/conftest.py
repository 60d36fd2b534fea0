"""The specification's own modules, for the tests of it."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "spec"
sys.path[:0] = [str(SPEC / "tools"), str(SPEC / "kit"), str(SPEC / "kit" / "adapters")]


@pytest.fixture(scope="session")
def spec() -> Path:
    """The directory of the specification."""
    return ROOT / "spec"


def _run(*command: str, cwd: Path) -> None:
    """Run a program, and fail with what it printed."""
    program = shutil.which(command[0])
    if program is None:
        pytest.fail(f"{command[0]} is not there: these tests need Node.js with npm")
    done = subprocess.run(
        [program, *command[1:]], cwd=cwd, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def compiled(spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ModuleType]:
    """What compiles a definition anew, with the compiler that the lock file pins."""
    tools = tmp_path_factory.mktemp("kaitai")
    for name in ("package.json", "package-lock.json", ".npmrc", "compile.js"):
        shutil.copy(spec / "kaitai" / name, tools)
    _run("npm", "ci", "--no-audit", "--no-fund", cwd=tools)

    def compile_definition(name: str) -> ModuleType:
        _run("node", "compile.js", str(spec / f"{name}.ksy"), str(tools), cwd=tools)
        module_spec = importlib.util.spec_from_file_location(name, tools / f"{name}.py")
        assert module_spec
        assert module_spec.loader
        module = importlib.util.module_from_spec(module_spec)
        module_spec.loader.exec_module(module)
        return module

    return compile_definition
