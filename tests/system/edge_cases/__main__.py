"""Ask RocketMQ's classes of several versions, and record what they answered.

``python -m tests.system.edge_cases [CASE..]`` writes ``edge_cases.json`` beside the golden data.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.recorded import ROCKETMQ_CLASSES

from .asking import Rocketmq
from .cases import CASES

VERSIONS = (
    "4.0.0-incubating",
    "4.7.0",
    "4.7.1",
    "4.9.8",
    "5.0.0",
    "5.3.3",
    "5.4.0",
    "5.5.1",
)
RECORDED = ROCKETMQ_CLASSES / "edge_cases.json"


def ask_version(version: str, names: list[str]) -> dict[str, Any]:
    """Return what a version answers in each case."""
    answers = {}
    with tempfile.TemporaryDirectory() as scratch, Rocketmq(version, Path(scratch)) as rocketmq:
        for case in CASES:
            if names and case.__name__ not in names:
                continue
            rocketmq.folder = Path(scratch) / case.__name__
            rocketmq.folder.mkdir()
            answers[case.__name__] = case(rocketmq)
    return json.loads(json.dumps(answers))


def record(names: list[str], path: Path) -> None:
    """Ask all versions, and write each case with the versions that gave each answer."""
    cases: dict[str, list[dict[str, Any]]] = {}
    if names and path.exists():
        cases = {each["name"]: each["answers"] for each in json.loads(path.read_text())}
    told = {version: ask_version(version, names) for version in VERSIONS}
    for case in CASES:
        name = case.__name__
        if names and name not in names:
            continue
        groups: list[dict[str, Any]] = []
        for version, answers in told.items():
            same = next((each for each in groups if each["answer"] == answers[name]), None)
            if same:
                same["rocketmq"].append(version)
            else:
                groups.append({"rocketmq": [version], "answer": answers[name]})
        cases[name] = groups
    ordered = [
        {"name": case.__name__, "asked": case.__doc__, "answers": cases[case.__name__]}
        for case in CASES
        if case.__name__ in cases
    ]
    path.write_text(json.dumps(ordered, indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    record(sys.argv[1:], RECORDED)
