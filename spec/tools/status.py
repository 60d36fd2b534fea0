"""Run the implementations that can be had through the kit, and write the status page.

``python spec/tools/status.py run [NAME ...]`` runs them (Maven, a JDK, npm, cargo) and keeps what
it found in ``spec/kit/status.json``; ``page`` writes ``spec/implementation-status.md`` from it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
SPEC = HERE.parent
ROOT = SPEC.parent
sys.path[:0] = [str(HERE), str(SPEC / "kit"), str(ROOT)]

from tests.support.maven import class_path_of, compile_java  # noqa: E402

import spectext  # noqa: E402
from make_archive import build  # noqa: E402
from rmq_index_conformance.archive import read_archive  # noqa: E402
from rmq_index_conformance.cases import CLASSES, cases_of  # noqa: E402
from rmq_index_conformance.program import Program  # noqa: E402
from rmq_index_conformance.report import as_data  # noqa: E402
from rmq_index_conformance.run import run_cases  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

ADAPTERS = SPEC / "kit" / "adapters"
DATA = SPEC / "kit" / "status.json"
EXPLANATIONS = SPEC / "kit" / "explanations.json"
PAGE = SPEC / "implementation-status.md"
LIMIT = 5.0
_SHOWN = 200
# Forced writes cost much on a disk and nothing in memory.
SHM = Path("/dev/shm")  # noqa: S108
_JAVA = (
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
)


@dataclass(frozen=True)
class Implementation:
    """One that is run.

    Attributes:
        name: What the command calls it.
        what: What was run, in words.
        command: Makes ready what it needs in a folder, and returns its command.
    """

    name: str
    what: str
    command: Callable[[Path], list[str]]


def _python(folder: Path, name: str, *arguments: str) -> list[str]:
    del folder
    return [sys.executable, str(ADAPTERS / name), *arguments]


def rocketmq_command(
    folder: Path, version: str, edition: str, group: str = "org.apache.rocketmq"
) -> list[str]:
    """Compile the adapter of RocketMQ's classes; return the command that runs it.

    Raises:
        UnavailableError: Maven, a compiler or the jars cannot be had.
    """
    pom = ADAPTERS / ("apache" if group.startswith("org") else "alibaba") / "pom.xml"
    jars = class_path_of(pom, version)
    classes = folder / f"rocketmq-{version}"
    classes.mkdir(exist_ok=True)
    compile_java(ADAPTERS / "RocketMQ.java", jars, classes)
    java = ["java", *_JAVA, *([f"-Djava.io.tmpdir={SHM}"] if SHM.is_dir() else [])]
    return [
        *java,
        "-cp",
        os.pathsep.join([str(classes), *jars]),
        "RocketMQ",
        version,
        edition,
        group,
    ]


def kaitai_command(folder: Path) -> list[str]:
    """Compile the definition with Node.js; return the command that runs its parser."""
    tools = folder / "kaitai"
    shutil.copytree(SPEC / "kaitai", tools, dirs_exist_ok=True)
    for command in (["npm", "ci", "--no-audit", "--no-fund"], _compile(tools)):
        subprocess.run(command, cwd=tools, check=True, capture_output=True)  # noqa: S603
    return _python(folder, "kaitai_adapter.py", str(tools))


def _compile(tools: Path) -> list[str]:
    return ["node", "compile.js", str(SPEC / "indexfile.ksy"), str(tools)]


def rust_command(folder: Path) -> list[str]:
    """Build the adapter of the Rust rewrite with cargo; return the program."""
    source = folder / "rust"
    shutil.copytree(ADAPTERS / "rust", source, dirs_exist_ok=True)
    subprocess.run(["cargo", "build", "--quiet"], cwd=source, check=True)  # noqa: S607
    return [str(source / "target" / "debug" / "rocketmq-rust-adapter")]


IMPLEMENTATIONS = [
    Implementation(
        "rmqindex",
        "this project's package, by its public names",
        lambda folder: _python(folder, "rmqindex_adapter.py"),
    ),
    Implementation(
        "rocketmq-5.5.1",
        "`org.apache.rocketmq:rocketmq-store:5.5.1`",
        lambda folder: rocketmq_command(folder, "5.5.1", "5.5"),
    ),
    Implementation(
        "rocketmq-5.3.3",
        "`org.apache.rocketmq:rocketmq-store:5.3.3`",
        lambda folder: rocketmq_command(folder, "5.3.3", "5.0"),
    ),
    Implementation(
        "rocketmq-4.9.8",
        "`org.apache.rocketmq:rocketmq-store:4.9.8`",
        lambda folder: rocketmq_command(folder, "4.9.8", "4.7.1"),
    ),
    Implementation(
        "alibaba-3.2.6",
        "`com.alibaba.rocketmq:rocketmq-store:3.2.6` of 2015, before Apache",
        lambda folder: rocketmq_command(folder, "3.2.6", "4.0", "com.alibaba.rocketmq"),
    ),
    Implementation(
        "rocketmq-rust",
        "the crate `rocketmq-store-local` 1.0.0, put together as the crate `rocketmq-store` does",
        rust_command,
    ),
    Implementation("kaitai", "the parser made of `spec/indexfile.ksy`", kaitai_command),
    Implementation(
        "oracle",
        "the steps of the text as a program, from which the mutants are made",
        lambda folder: _python(folder, "oracle_adapter.py"),
    ),
]


def run(names: list[str], folder: Path) -> None:
    """Run some implementations, or all, and note what they did."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = read_archive(build(folder))
    cases = cases_of(archive)
    data = json.loads(DATA.read_text()) if DATA.exists() else {"runs": {}}
    for each in IMPLEMENTATIONS:
        if names and each.name not in names:
            continue
        program = Program(each.command(folder), LIMIT)
        try:
            outcome = run_cases(program, cases)
        finally:
            program.stop()
        data["runs"][each.name] = as_data(outcome, archive)
        totals = outcome.totals
        told = f"{totals.passed} passed, {totals.failed} failed, {totals.skipped} skipped"
        print(f"{each.name}: {told}", flush=True)
    known = [each.name for each in IMPLEMENTATIONS]
    data["runs"] = dict(sorted(data["runs"].items(), key=lambda item: known.index(item[0])))
    DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="ascii")


def explanation_of(name: str, failure: dict[str, Any]) -> dict[str, Any]:
    """Return the explanation of a failure.

    Raises:
        ValueError: Nobody has explained it.
    """
    for each in json.loads(EXPLANATIONS.read_text(encoding="utf-8")):
        if (
            re.fullmatch(each["implementation"], name)
            and re.search(each["case"], failure["case"])
            and re.search(each["why"], failure["why"])
        ):
            return dict(each)
    raise ValueError(
        f"{name}: {failure['case']}: {failure['why']}: no explanation in {EXPLANATIONS}"
    )


def page() -> str:
    """Return the status page."""
    data = json.loads(DATA.read_text(encoding="ascii"))
    runs = {each: data["runs"][each.name] for each in IMPLEMENTATIONS if each.name in data["runs"]}
    version = next(iter(runs.values()))["vectors"]
    lines = [
        "# Implementation status",
        "",
        f"Version {version} of the vectors, in the [kit](conformance-kit.md).",
        "`python spec/tools/status.py run` runs them and writes this page.",
        "",
        "| Implementation | Editions | Passed | Failed | Skipped | Requirements met |",
        "|---|---|---|---|---|---|",
        *(_totals(ran) for ran in runs.values()),
        "",
        "Skipped is what an implementation does not claim: an operation, a class or an edition.",
        "",
        "## What was run",
        "",
        *(f"- **{ran['name']} {ran['version']}**: {each.what}." for each, ran in runs.items()),
        "",
        "## By chapter",
        "",
        *_by_chapter(runs),
        "",
        "## By class",
        "",
        "Passed cases of each class that is claimed, and failed ones in bold.",
        "",
        *_by_class(runs),
        "",
        "## Failures",
        "",
        *(line for each, ran in runs.items() for line in _failures(each.name, ran)),
        "## By requirement",
        "",
        "Passed cases, and failed ones in bold; nothing where no case was asked.",
        "",
        *_by_requirement(runs),
    ]
    return "\n".join(lines) + "\n"


def _totals(ran: dict[str, Any]) -> str:
    totals = ran["totals"]
    asked = [c for c in ran["by_requirement"].values() if c["passed"] + c["failed"]]
    met = sum(not counts["failed"] for counts in asked)
    cells = [f"{ran['name']} {ran['version']}", ", ".join(ran["editions"])]
    cells += [str(totals[name]) for name in ("passed", "failed", "skipped")]
    return f"| {' | '.join(cells)} | {met} of {len(asked)} |"


CHAPTERS = {
    "IDX": "the index",
    "LOG": "[CommitLog](commitlog.md)",
    "CQ": "[ConsumeQueue](consumequeue.md)",
    "CHK": "[checkpoint](checkpoint.md)",
    "MID": "[message ids](message-ids.md)",
}


def _by_chapter(runs: dict[Implementation, dict[str, Any]]) -> list[str]:
    known = Counter(each.name.partition("-")[0] for each in spectext.requirements())
    total = ", ".join(f"{known[name]} of {told}" for name, told in CHAPTERS.items())
    rows = [["Implementation", *CHAPTERS.values(), "all"]]
    rows.append(["---"] * len(rows[0]))
    for ran in runs.values():
        asked: Counter[str] = Counter()
        met: Counter[str] = Counter()
        for name, counts in ran["by_requirement"].items():
            if counts["passed"] + counts["failed"]:
                asked[name.partition("-")[0]] += 1
                met[name.partition("-")[0]] += not counts["failed"]
        cells = [f"{met[name]} of {asked[name]}" if asked[name] else "" for name in CHAPTERS]
        cells.append(f"{met.total()} of {asked.total()}")
        rows.append([f"{ran['name']} {ran['version']}", *cells])
    return [
        f"Requirements that were put to each, and how many of them it met; there are {total}.",
        "What was put to one and is not met is among its failures, with the reason.",
        "",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def _by_class(runs: dict[Implementation, dict[str, Any]]) -> list[str]:
    classes = [*CLASSES, "every class"]
    rows = [["Implementation", *(name.replace("_", " ") for name in classes)]]
    rows.append(["---"] * len(rows[0]))
    for ran in runs.values():
        cells = [_cell(ran["by_class"].get(name)) for name in classes]
        rows.append([f"{ran['name']} {ran['version']}", *cells])
    return [f"| {' | '.join(row)} |" for row in rows]


def _cell(counts: dict[str, int] | None) -> str:
    if counts is None or not counts["passed"] + counts["failed"]:
        return ""
    return (
        f"{counts['passed']}, **{counts['failed']}**" if counts["failed"] else f"{counts['passed']}"
    )


def _failures(name: str, ran: dict[str, Any]) -> list[str]:
    if not ran["failures"]:
        return []
    lines = [f"### {ran['name']} {ran['version']}", ""]
    groups: dict[str, list[dict[str, Any]]] = {}
    texts: dict[str, dict[str, Any]] = {}
    for failure in ran["failures"]:
        found = explanation_of(name, failure)
        groups.setdefault(found["says"], []).append(failure)
        texts[found["says"]] = found
    for says, failures in groups.items():
        names = sorted({each for failure in failures for each in failure["requirements"]})
        count = f"{len(failures)} cases" if len(failures) > 1 else "1 case"
        lines += [
            f"**{count}**: {_by_sentence(says)}",
            f"Requirements: {', '.join(names)}.",
            "",
            f"- To reproduce: {_by_sentence(texts[says]['reproduce'], indent='  ')}",
            f"- For example, `{failures[0]['case']}`:",
            f"  `{failures[0]['why'][:_SHOWN]}`",
            "",
        ]
    return lines


def _by_sentence(text: str, indent: str = "") -> str:
    """Put each sentence on a line of its own."""
    return text.replace(". ", f".\n{indent}")


def _by_requirement(runs: dict[Implementation, dict[str, Any]]) -> list[str]:
    names = list(dict.fromkeys(name for ran in runs.values() for name in ran["by_requirement"]))
    rows = [["Requirement", *(each.name for each in runs)]]
    rows.append(["---"] * len(rows[0]))
    rows += [
        [name, *(_cell(ran["by_requirement"].get(name)) for ran in runs.values())] for name in names
    ]
    return [f"| {' | '.join(row)} |" for row in rows]


def main(arguments: list[str]) -> int:
    """Run implementations, or write the page."""
    if arguments[:1] == ["run"]:
        run(arguments[1:], ROOT / "build" / "status")
    elif arguments != ["page"]:
        print("usage: python spec/tools/status.py run [NAME ...] | page", file=sys.stderr)
        return 2
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
