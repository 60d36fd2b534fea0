"""Every code block of the documentation does what its page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import rmqindex
from snippets import run_page, snippets

#: Guides whose code is in files of their own, or is run by `make cluster`.
PROGRAMS = ("cluster", "pipelines", "sail", "spark-connect", "spark-sql")
ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for folder in (DOCS, DOCS / "use", DOCS / "reference", DOCS / "project")
    for page in folder.glob("*.md")
    if snippets(page)
)


@pytest.mark.system
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
    for page in (DOCS / "use").glob("*.md"):
        is_run = any(snippet.not_run is None for snippet in snippets(page))
        assert is_run or page.stem in PROGRAMS


@pytest.mark.system
def test_the_vectors_run_as_their_readme_says(tmp_path: Path) -> None:
    """The README's command runs all cases, and none fails."""
    readme = (ROOT / "spec" / "vectors" / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```bash\nmake vectors\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    # The test builds the archive elsewhere: make vectors would write what other tests read.
    make = [sys.executable, ROOT / "spec" / "tools" / "make_archive.py", tmp_path]
    subprocess.run(make, check=True, capture_output=True, timeout=60)
    assert code.count("build/vectors") == code.count("python3 ") - 1 == 1
    command = code.replace("build/vectors", str(tmp_path)).replace("python3", sys.executable)
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d{4} passed, 0 failed, \d+ skipped", done.stdout)
