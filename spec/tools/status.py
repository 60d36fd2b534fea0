"""Run the implementations that can be had through the kit, and write the status page.

``python spec/tools/status.py run [NAME ...]`` runs them (Maven, a JDK, npm, cargo) and keeps what
it found in ``spec/kit/status.json``; ``pages`` writes what ``status_pages.py`` makes of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).resolve().parent
SPEC = HERE.parent
ROOT = SPEC.parent
sys.path[:0] = [str(HERE), str(SPEC / "kit"), str(ROOT)]

from tests.support.maven import class_path_of, compile_java  # noqa: E402

import status_pages  # noqa: E402
from make_archive import build  # noqa: E402
from rmq_index_conformance.archive import read_archive  # noqa: E402
from rmq_index_conformance.cases import cases_of  # noqa: E402
from rmq_index_conformance.program import Program  # noqa: E402
from rmq_index_conformance.report import as_data  # noqa: E402
from rmq_index_conformance.run import run_cases  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

ADAPTERS = SPEC / "kit" / "adapters"
LIMIT = 5.0
# Forced writes cost much on a disk and nothing in memory.
SHM = Path("/dev/shm")  # noqa: S108
_JAVA = (
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
)


def _python(folder: Path, name: str, *arguments: str) -> list[str]:
    del folder
    return [sys.executable, str(ADAPTERS / name), *arguments]


def rocketmq_command(folder: Path, version: str, edition: str) -> list[str]:
    """Compile the adapter of RocketMQ's classes; return the command that runs it.

    Raises:
        UnavailableError: Maven, a compiler or the jars cannot be had.
    """
    owner = "alibaba" if version.startswith("3.") else "apache"
    group = {"alibaba": "com.alibaba.rocketmq", "apache": "org.apache.rocketmq"}[owner]
    pom = ADAPTERS / owner / "pom.xml"
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


#: What makes an implementation ready in a folder, and returns its command.
COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "rmqindex": lambda folder: _python(folder, "rmqindex_adapter.py"),
    "rocketmq-5.5.1": lambda folder: rocketmq_command(folder, "5.5.1", "5.5"),
    "rocketmq-5.3.3": lambda folder: rocketmq_command(folder, "5.3.3", "5.0"),
    "rocketmq-4.9.8": lambda folder: rocketmq_command(folder, "4.9.8", "4.7.1"),
    "alibaba-3.2.6": lambda folder: rocketmq_command(folder, "3.2.6", "4.0"),
    "rocketmq-rust": rust_command,
    "kaitai": kaitai_command,
    "oracle": lambda folder: _python(folder, "oracle_adapter.py"),
}


def run(names: list[str], folder: Path) -> None:
    """Run some implementations, or all, and note what they did."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = read_archive(build(folder))
    cases = cases_of(archive)
    data = json.loads(status_pages.DATA.read_text()) if status_pages.DATA.exists() else {"runs": {}}
    for name in names or COMMANDS:
        program = Program(COMMANDS[name](folder), LIMIT)
        try:
            outcome = run_cases(program, cases)
        finally:
            program.stop()
        data["runs"][name] = as_data(outcome, archive)
        totals = outcome.totals
        told = f"{totals.passed} passed, {totals.failed} failed, {totals.skipped} skipped"
        print(f"{name}: {told}", flush=True)
    data["runs"] = {name: data["runs"][name] for name in COMMANDS if name in data["runs"]}
    status_pages.DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="ascii")


def main(arguments: list[str]) -> int:
    """Run implementations, or write the pages."""
    if arguments[:1] == ["run"]:
        run(arguments[1:], ROOT / "build" / "status")
    elif arguments != ["pages"]:
        print("usage: python spec/tools/status.py run [NAME ...] | pages", file=sys.stderr)
        return 2
    for name, text in status_pages.pages().items():
        path = SPEC / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
