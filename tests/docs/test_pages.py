"""Every code block of the documentation does what its page says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rmqindex
from snippets import run_page, snippets

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for folder in (DOCS, DOCS / "guides", DOCS / "api")
    for page in folder.glob("*.md")
    if snippets(page)
)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page, marks=pytest.mark.spark_streams if "readStream" in page.read_text() else ()
        )
        for page in PAGES
    ],
    ids=lambda page: page.stem,
)
@pytest.mark.usefixtures("spark")
def test_every_block_of_a_page_runs_and_prints_what_is_shown(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Blocks run from top to bottom, as a reader would paste them, in an empty directory."""
    if page.stem == "remote-storage":
        server = request.getfixturevalue("s3_environment")
        server.put(Path(rmqindex.sample_store()), "broker-a/store", bucket="brokers")
    wanted = [snippet for snippet in snippets(page) if snippet.not_run is None]
    assert run_page(page, tmp_path) == len(wanted)


def test_every_guide_has_code_that_is_run() -> None:
    """No guide consists of blocks that are not run; programs of their own have their own tests."""
    for page in (DOCS / "guides").glob("*.md"):
        is_run = any(snippet.not_run is None for snippet in snippets(page))
        assert is_run or page.stem in ("cluster", "other-engines")


def test_another_engine_builds_an_index_and_looks_keys_up(tmp_path: Path) -> None:
    """The program of the guide prints what the guide shows."""
    (tmp_path / "store").mkdir()
    program = DOCS / "guides" / "other_engine.py"
    done = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout == program.with_suffix(".txt").read_text()


def test_the_vectors_run_as_their_readme_says() -> None:
    """The command in the README of the vectors works from the top of the tree."""
    assert run_page(ROOT / "spec" / "vectors" / "README.md", ROOT) == 1
