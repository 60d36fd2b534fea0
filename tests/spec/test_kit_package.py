"""The kit as implementers get it: its package, its container and its action."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import make_archive
from status import SHM

ADAPTERS = make_archive.KIT / "adapters"
ORACLE = [sys.executable, str(ADAPTERS / "oracle_adapter.py")]
ROOT = make_archive.SPEC.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive, built anew."""
    return make_archive.build(tmp_path_factory.mktemp("vectors"))


def test_archive_and_wheel_have_the_bytes_that_the_page_tells(built: Path) -> None:
    """Whenever they are built; make vectors writes their SHA-256 anew."""
    wheel, source = make_archive.build_kit(built)
    text = make_archive.PAGE.read_text(encoding="utf-8")
    assert make_archive.pinned(text, [built, wheel]) == text, "make_archive.py --pin"
    with pytest.raises(ValueError, match=f"expected a line with the SHA-256 of {source.name}"):
        make_archive.pinned(text, [source])


@pytest.mark.system
def test_the_kit_is_installed_from_its_source_without_a_network(
    built: Path, tmp_path: Path
) -> None:
    """Pip builds the same wheel of it, and its command knows the vectors and needs no package."""
    wheel, source = make_archive.build_kit(built)
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    offline = ["--no-index", "--disable-pip-version-check"]
    subprocess.run(
        [python, "-m", "pip", "wheel", *offline, "-w", tmp_path, source],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()
    subprocess.run(
        [python, "-m", "pip", "install", *offline, tmp_path / wheel.name],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    product = [sys.executable, str(ADAPTERS / "rmqindex_adapter.py")]
    # What the product forces to the disk costs nothing in memory.
    memory = {"TMPDIR": str(SHM)} if os.access(SHM, os.W_OK) else {}
    for adapter, least in ((ORACLE, 6000), (product, 5000)):
        done = subprocess.run(
            [str(tmp_path / "venv" / "bin" / "rmq-index-conformance"), "--", *adapter],
            cwd=tmp_path, env=memory, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        passed = re.search(r"(\d+) passed, 0 failed", done.stdout)
        assert passed
        assert int(passed[1]) > least


def test_the_wheel_runs_where_nothing_can_be_installed(built: Path, tmp_path: Path) -> None:
    """As a path of Python's, with nothing of this project on any other."""
    wheel, _ = make_archive.build_kit(built)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "rmq_index_conformance"),
            *("--only", "key_hashes", "--", *ORACLE),
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "0 failed" in done.stdout


def test_the_container_unpacks_the_wheel_that_is_built(built: Path, tmp_path: Path) -> None:
    """Its steps, without the container: the file that it copies, unpacked, runs as its entry."""
    recipe = (make_archive.KIT / "Containerfile").read_text(encoding="utf-8")
    wheel, _ = make_archive.build_kit(built)
    copied = re.search(r"^COPY build/vectors/(\S+)", recipe, re.MULTILINE)
    assert copied
    assert Path(wheel.name).match(copied[1])
    subprocess.run([sys.executable, "-m", "zipfile", "--extract", wheel, tmp_path], check=True)
    entry = re.search(r"^ENTRYPOINT (.*)$", recipe, re.MULTILINE)
    assert entry
    told = [sys.executable, *json.loads(entry[1])[1:], "--help"]
    done = subprocess.run(
        told, env={"PYTHONPATH": str(tmp_path)}, check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith("usage: rmq-index-conformance")


def action() -> dict:
    """Return the action for workflows."""
    return yaml.safe_load((make_archive.KIT / "action.yml").read_text(encoding="utf-8"))


@pytest.mark.system
@pytest.mark.parametrize(("program", "code"), [("oracle", 0), ("false", 2)])
def test_the_action_runs_an_adapter_and_leaves_a_report(
    tmp_path: Path, program: str, code: int
) -> None:
    """Its commands, as a runner runs them; an adapter that does not answer fails the job."""
    Path(tmp_path / "python3").symlink_to(sys.executable)
    told = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "GITHUB_ACTION_PATH": str(make_archive.KIT),
        "RUNNER_TEMP": str(tmp_path),
    }
    given = " ".join(ORACLE) if program == "oracle" else program
    codes = []
    for step in action()["runs"]["steps"]:
        if "run" in step:
            asked = dict.fromkeys(step.get("env", {}), given)
            shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            done = subprocess.run(
                shell, env=told | asked, cwd=tmp_path, check=False, capture_output=True, timeout=300
            )
            codes.append(done.returncode)
    assert codes == [0, code]
    report = tmp_path / "rmq-index-report"
    names = {"summary.txt", "junit.xml", "results.json", "badge.json"}
    assert {path.name for path in report.iterdir()} == (names if code == 0 else {"summary.txt"})
    if code == 0:
        badge = json.loads((report / "badge.json").read_text())
        assert badge["color"] == "brightgreen"


def test_the_action_reads_no_input_but_by_the_environment() -> None:
    """What a caller writes is no part of a script, and the one foreign action is the workflows'."""
    steps = action()["runs"]["steps"]
    assert all("${{" not in step.get("run", "") for step in steps)
    (foreign,) = (step["uses"] for step in steps if "uses" in step)
    assert foreign in (ROOT / ".github" / "workflows" / "release.yml").read_text()
    inputs = action()["inputs"]
    text = (make_archive.KIT / "action.yml").read_text()
    assert all(f"${{{{ inputs.{name} }}}}" in text for name in inputs)
