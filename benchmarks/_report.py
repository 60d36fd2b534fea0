"""What was measured, as a table, as JSON and as a chart."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._rounds import Comparison

__all__ = ["machine", "show", "write_report"]

# The results of the last round of work on speed, under the same names.
_LAST_ROUND = Path(__file__).parent.parent / "docs" / "benchmarks" / "last_round.json"
_PACKAGES = ("rmqindex", "numpy", "pyarrow", "pyspark", "jpype1")
_MILLION = 1e6


def machine() -> dict[str, str]:
    """Return what the figures depend on."""
    information = Path("/proc/cpuinfo")
    text = information.read_text() if information.exists() else ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    from benchmarks._broker import VERSION  # noqa: PLC0415

    return {
        "processor": f"{model[1] if model else platform.processor()}, {os.cpu_count()} cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": java.stderr.splitlines()[0].split('"')[1],
        "rocketmq-store": VERSION,
        **{name: version(name) for name in _PACKAGES},
    }


def show(comparison: Comparison) -> str:
    """Return one line of text."""
    ours, theirs = (_time(seconds) for seconds in (comparison.ours, comparison.theirs))
    times = f" ({ours} to {theirs})" if ours else ""
    return (
        f"{comparison.goal.show(comparison.figure):>12} {_verdict(comparison):4}"
        f"{comparison.work}{_joint(comparison)}{comparison.against}{times}"
    )


def _joint(comparison: Comparison) -> str:
    """Return what leads from the work to what it is compared with, or to what is counted."""
    return ": " if comparison.theirs is None else ", against "


def _verdict(comparison: Comparison) -> str:
    if not comparison.goal.bound:
        return ""
    return "yes" if comparison.goal.met(comparison.figure) else "no"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _rate(comparison: Comparison, seconds: float | None) -> str:
    if seconds is None:
        return ""
    if comparison.rows is None:
        return _time(seconds)
    return f"{_time(seconds)} ({comparison.rows / seconds / _MILLION:.1f} M/s)"


def write_report(directory: Path, results: Sequence[Comparison], about: dict[str, str]) -> None:
    """Write the tables, ``results.json``, and the charts."""
    directory.mkdir(parents=True, exist_ok=True)
    data = {"machine": about, "results": [asdict(each) for each in results]}
    (directory / "results.json").write_text(json.dumps(data, indent=2) + "\n")
    (directory / "table.inc").write_text(_table(results, about))
    from benchmarks._chart import draw  # noqa: PLC0415  (it loads matplotlib)

    draw(directory / "chart.svg", results)
    from benchmarks._summary import write_summary  # noqa: PLC0415

    write_summary(directory, results)


def _table(results: Sequence[Comparison], about: dict[str, str]) -> str:
    lines = [
        "| work, against what | median | last round | goal | rmqindex | the other |",
        "|---|--:|--:|---|--:|--:|",
    ]
    before = _last_round()
    for each in results:
        goal = f"{each.goal}: {_verdict(each)}" if each.goal.bound else "none"
        cells = [
            f"{each.work}{_joint(each)}*{each.against}*",
            each.goal.show(each.figure),
            each.goal.show(before[name]) if (name := (each.work, each.against)) in before else "",
            goal,
            _rate(each, each.ours),
            _rate(each, each.theirs),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    notes = [f"- {each.work}: {each.note}." for each in results if each.note]
    machine_lines = [", ".join(f"{name} {value}" for name, value in about.items()) + "."]
    return "\n".join([*lines, "", *notes, "", "Measured on: " + "\n".join(machine_lines), ""])


def _last_round() -> dict[tuple[str, str], float]:
    """Return the figures of the last round, by what was done and against what."""
    results = json.loads(_LAST_ROUND.read_text())["results"]
    return {(each["work"], each["against"]): each["figure"] for each in results}
