"""Runs of targets: what libFuzzer said, in numbers."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from .kept import unpack

FOLDER = Path(__file__).parent
TARGETS = tuple(
    sorted(path.stem for path in (FOLDER / "targets").glob("*.py") if path.stem != "__init__")
)
# One execution may take so many seconds, and the process so many MiB, before it is a finding.
_TIMEOUT = 30
_RSS_LIMIT = 2048

_STATUS = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")
_EXECUTED = re.compile(r"stat::number_of_executed_units: (\d+)")


class Result(NamedTuple):
    """What a run of a target came to.

    Attributes:
        executions: How many inputs were tried.
        edges: libFuzzer's ``cov``: how many edges of the package's code were reached.
        features: Its ``ft``: edges told apart by how often they were taken.
        findings: What was kept of what failed.
        log: All that was printed.
    """

    executions: int
    edges: int
    features: int
    findings: tuple[Path, ...]
    log: str

    @property
    def has_failed(self) -> bool:
        """Whether there was a finding, or no end."""
        return bool(self.findings) or not self.executions


def load(target: str):
    """Return the module of a target."""
    return importlib.import_module(f".targets.{target}", __package__)


def run(
    target: str,
    *,
    runs: int = -1,
    seconds: int = 0,
    seed: int = 1,
    work: Path | None = None,
    findings: Path | None = None,
) -> Result:
    """Run one target.

    Args:
        target: Its name.
        runs: How many executions; -1 for no bound.
        seconds: How long; 0 for no bound.
        seed: Of all choices.
        work: A folder whose inputs are used, too, and where new ones are kept; None for none.
        findings: Where what fails is kept; None for ``build/fuzz`` in the working directory.
    """
    kept = findings or Path("build") / "fuzz"
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        grown = work / target if work is not None else Path(temporary, "grown")
        there = Path(temporary, "kept")
        grown.mkdir(parents=True, exist_ok=True)
        there.mkdir()
        unpack(target, there)
        for data in load(target).seeds():
            (grown / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)
        command = [
            *(sys.executable, "-m", f"{__package__}.engine", target, str(grown), str(there)),
            f"-runs={runs}",
            f"-max_total_time={seconds}",
            f"-seed={seed}",
            f"-timeout={_TIMEOUT}",
            f"-rss_limit_mb={_RSS_LIMIT}",
            f"-artifact_prefix={kept / target}-",
            "-print_final_stats=1",
        ]
        before = set(kept.glob(f"{target}-*"))
        # The package's name begins where this process found it.
        root = FOLDER.parents[1 if "." in (__package__ or "") else 0]
        path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
        ended = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    log = ended.stdout
    statuses = [tuple(map(int, found.groups())) for found in _STATUS.finditer(log)]
    edges, features, _ = statuses[-1] if statuses else (0, 0, 0)
    executed = _EXECUTED.search(log)
    new = tuple(sorted(set(kept.glob(f"{target}-*")) - before))
    executions = int(executed[1]) if executed else 0
    if ended.returncode and not new:
        executions = 0
    return Result(executions, edges, features, new, log)
