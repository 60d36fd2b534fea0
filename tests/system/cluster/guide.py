"""The commands of the guide to clusters, as a reader would paste them."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.snippets import snippets

if TYPE_CHECKING:
    from .standalone import Cluster

__all__ = ["run_guide"]

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "use" / "cluster.md"
#: What the page's job.py does here.
STEPS = ("imports", "load", "table", "lookup", "sql", "messages", "overwrite", "rebuild")
_MASTER = "spark://master:7077"
_JOB = """import runpy, sys
sys.argv[1:] = {arguments!r}
runpy.run_path({job!r}, run_name="__main__")
"""
_MADE = (".venv", ".git", "dist", "_build", "__pycache__", ".work", ".hypothesis", ".*_cache")


def run_guide(
    cluster: Cluster, directory: Path, job: Path, store: Path, far: dict[str, object]
) -> list[str]:
    """Run every block of the page that ``make cluster`` is said to run.

    Args:
        cluster: It stands for the page's master.
        directory: Where a copy of the source tree is made for each block.
        job: The script that the page calls ``job.py``.
        store: The store that it reads.
        far: What it is told of S3.

    Returns:
        The commands and the lines that the job printed, behind the page's line of the block.

    Raises:
        RuntimeError: A block failed; its output is in the message.
    """
    lines = []
    directory.mkdir()
    for number, block in enumerate(snippets(PAGE)):
        if "make cluster" not in (block.not_run or ""):
            continue
        tree = directory / f"tree-{number}"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*_MADE))
        shared = directory / f"shared-{number}"
        shared.mkdir()
        arguments = [str(store), str(shared), json.dumps(far), *STEPS]
        (tree / "job.py").write_text(_JOB.format(arguments=arguments, job=str(job)))
        shell = ["bash", "-euxc", block.code.replace(_MASTER, cluster.url)]
        driver = cluster.start_driver(shell, tree, **_virtual_environment())
        output, _ = driver.communicate()
        if driver.returncode or "all done" not in output:
            raise RuntimeError(f"{block.where} ended with {driver.returncode}:\n{output}")
        lines += [
            f"{block.where}: {line}"
            for line in output.splitlines()
            if line.startswith("+ ") or line.partition(":")[0] in STEPS
        ]
    return lines


def _virtual_environment() -> dict[str, str]:
    """Let ``make wheel`` take the environment that runs this, if make has made it."""
    made = (Path(sys.prefix) / ".dev").exists()
    return {"VENV": sys.prefix, "MAKEFLAGS": ""} if made else {}
