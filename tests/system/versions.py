"""The tests on the lowest and the newest supported versions: ``python -m tests.system.versions``.

``lowest`` has every lower bound of ``pyproject.toml`` at once, on the oldest Python; ``newest``
what pip finds for the newest one; and a version of PySpark, such as 4.0.2 or 4.2.*, what pip finds
with it for the oldest. Pythons are looked for on the PATH. Each run makes an environment of its
own, which takes a package index and about 1 GB. What follows ``--`` is given to pytest, such as
paths; without it every test runs. A test of what a PySpark lacks is skipped, and each reason is
printed with its count.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

__all__ = ["SHOWN", "lower_bounds", "supported_pythons"]

ROOT = Path(__file__).resolve().parents[2]
# The format, the command line, and of Spark reading, writing, SQL and what it refuses.
QUICK = (
    "tests/cli/test_cli.py",
    "tests/project/test_packaging.py",
    "tests/format/indexwriter/test_golden_writer.py",
    "tests/format/indexfile/test_index_file.py",
    "tests/format/test_public_api.py",
    "tests/connector/test_demo.py",
    "tests/connector/write/test_rows.py",
    "tests/connector/test_schema.py",
    "tests/connector/stream/test_stream_refusal.py",
    "tests/connector/options/test_session_times.py",
    "tests/connector/test_older_spark.py",
)
#: The packages whose versions are columns of the table.
SHOWN = ("pyspark", "pyarrow", "numpy", "pandas", "click", "rich", "matplotlib")
#: What runs if nothing is named.
RUNS = ("lowest", "4.1.0", "4.2.*", "newest")
_SPARK = re.compile(r"\d+\.\d+\.(\d+|\*)")
_COLLECTION = re.compile(r"""^\(.*['"]Skipped: (.*)['"]\)$""")
_BOUND = re.compile(r"(?P<name>[\w-]+)>=(?P<version>[\d.]+)")
_VERSIONS = (
    "import json, sys; from importlib.metadata import version; "
    "print(json.dumps([sys.version.split()[0], *map(version, sys.argv[1:])]))"
)


def project() -> dict[str, dict[str, object]]:
    """Return ``pyproject.toml``."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def lower_bounds() -> dict[str, str]:
    """Return the lowest version of each dependency that has a bound, by its name."""
    told = project()["project"]
    extras = told["optional-dependencies"]
    wanted = [*told["dependencies"], *extras["spark"], *extras["plot"]]
    found = (_BOUND.match(text) for text in wanted)
    return {match["name"]: match["version"] for match in found if match}


def supported_pythons() -> list[str]:
    """Return the versions of Python that the classifiers name, such as 3.11, the oldest first."""
    texts = project()["project"]["classifiers"]
    found = (re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", text) for text in texts)
    return [f"3.{minor}" for minor in sorted(int(match[1]) for match in found if match)]


def known_versions(text: str) -> str:
    """Return what names a run.

    Raises:
        ArgumentTypeError: It names none.
    """
    if text in {"lowest", "newest"} or _SPARK.fullmatch(text):
        return text
    raise argparse.ArgumentTypeError(
        f"expected lowest, newest or a version of PySpark such as 4.0.2 or 4.2.*, got {text!r}"
    )


def pinned(which: str) -> dict[str, str]:
    """Return the versions that are fixed in a run, by the names of the packages."""
    if which == "lowest":
        return lower_bounds()
    return {} if which == "newest" else {"pyspark": which}


def find_python(versions: list[str]) -> str:
    """Return the first of some versions of Python that is there.

    Args:
        versions: Such as 3.11, the preferred one first.

    Returns:
        Its path.

    Raises:
        FileNotFoundError: None is on the PATH, nor runs this.
    """
    for version in versions:
        if version == f"3.{sys.version_info.minor}":
            return sys.executable
        found = shutil.which(f"python{version}")
        # Some names on a PATH only say what to install.
        if (
            found
            and subprocess.run([found, "-V"], capture_output=True, check=False).returncode == 0
        ):
            return found
    raise FileNotFoundError(f"expected python{' or python'.join(versions)} on the PATH")


def make_environment(python: str, directory: Path, pins: dict[str, str], group: str) -> Path:
    """Install the tree and what its tests need.

    Args:
        python: The interpreter that the environment is made of.
        directory: Where it is made.
        pins: Versions that are fixed, by name.
        group: The dependency group.

    Returns:
        The environment's interpreter.
    """
    subprocess.run([python, "-m", "venv", directory], check=True)
    ours = directory / "bin" / "python"
    constraints = directory / "constraints.txt"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()))
    pip = [ours, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*pip, "--upgrade", "pip>=25.1"], check=True)
    wanted = ["--constraint", constraints, "--editable", ".[spark,plot]", "--group", group]
    subprocess.run([*pip, *wanted], check=True, cwd=ROOT)
    return ours


def run_tests(python: Path, directory: Path, arguments: list[str]) -> dict[str, str]:
    """Run pytest.

    Args:
        python: The interpreter.
        directory: Where the report is written.
        arguments: For pytest.

    Returns:
        A column of the table, by its rows.

    Raises:
        CalledProcessError: pytest came to no result.
    """
    report = directory / "report.xml"
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    done = subprocess.run(
        [*command, *arguments],
        check=False,
        cwd=ROOT,
        env={**environment, "PYSPARK_PYTHON": str(python)},
    )
    if done.returncode > 1:
        done.check_returncode()
    asked = [python, "-c", _VERSIONS, *SHOWN]
    versions = json.loads(subprocess.run(asked, check=True, capture_output=True).stdout)
    outcomes = [case.find("*[@message]") for case in ET.parse(report).iter("testcase")]
    kinds = [(found.tag, found.get("type")) if found is not None else None for found in outcomes]
    expected = kinds.count(("skipped", "pytest.xfail"))
    counts = {
        "passed": kinds.count(None),
        "skipped": sum(kind is not None and kind[0] == "skipped" for kind in kinds) - expected,
        "expected to fail": expected,
        "failed": sum(kind is not None and kind[0] in {"failure", "error"} for kind in kinds),
    }
    reasons = Counter(
        reason_of(found)
        for found in outcomes
        if found is not None and found.tag == "skipped" and found.get("type") != "pytest.xfail"
    )
    for reason, count in reasons.most_common():
        sys.stdout.write(f"{count:,} skipped: {reason}\n")
    shown = dict(zip(("Python", *SHOWN), versions, strict=True))
    return shown | {name: f"{count:,}" for name, count in counts.items()}


def reason_of(skipped: ET.Element) -> str:
    """Return why a test or, where pytest says only that, the collection of a module was skipped."""
    told = _COLLECTION.search(skipped.text or "")
    return told[1] if told else str(skipped.get("message"))


def main() -> int:
    """Run what was asked for and print the table.

    Returns:
        1 if a test failed.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.system.versions", description=__doc__)
    parser.add_argument(
        "which",
        type=known_versions,
        nargs="?",
        help=f"lowest, newest, or a version of PySpark; by default {', '.join(RUNS)}",
    )
    parser.add_argument("--python", help="an interpreter, instead of one on the PATH")
    parser.add_argument("--quick", action="store_true", help="a part of the tests")
    ours, theirs = sys.argv[1:], []
    if "--" in ours:
        place = ours.index("--")
        ours, theirs = ours[:place], ours[place + 1 :]
    asked = parser.parse_args(ours)
    arguments = [*(QUICK if asked.quick else ()), *theirs]
    rows = []
    for which in [asked.which] if asked.which else RUNS:
        order = supported_pythons()[::-1] if which == "newest" else supported_pythons()
        pins = pinned(which)
        with tempfile.TemporaryDirectory() as made:
            interpreter = asked.python or find_python(order)
            group = "test" if asked.quick else "suite"
            python = make_environment(interpreter, Path(made) / "venv", pins, group)
            rows.append({"versions": which, **run_tests(python, Path(made), arguments)})
    print()
    for number, name in enumerate(rows[0]):
        print("| " + " | ".join([name, *(row[name] for row in rows)]) + " |")
        if number == 0:
            print("|---|" + "--:|" * len(rows))
    return int(any(row["failed"] != "0" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
