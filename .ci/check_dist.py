"""Check what is in the built distributions: ``python .ci/check_dist.py dist``.

The wheel holds the packages, their type markers, the whole sample store, the manual page, the
completion of shells, the licence and the bill of materials, and nothing else; the source
distribution holds what the project's own tests and documents need.
"""

from __future__ import annotations

import json
import re
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Where each package lies in the tree.
PACKAGES = {
    "rmqindex": "format",
    "pyspark_rmqindex": "connector",
    "pyspark_rmqcommitlog": "connector",
    "pyspark_rmqconsumequeue": "connector",
}
# What a wheel puts into the environment itself, below the folder with its version.
DATA = ".data/data/"
# The parts of the tree that the source distribution carries.
SOURCE_PARTS = (".ci", ".github", "connector", "docs", "format", "spec", "tests")
SOURCE_FILES = ("LICENSE", "Makefile", "README.md", "pyproject.toml")


def package_files(tree: Path) -> dict[str, bytes]:
    """Return every file of the packages by its name in the wheel."""
    return {
        path.relative_to(tree / home).as_posix(): path.read_bytes()
        for package, home in PACKAGES.items()
        for path in (tree / home / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def shared_files(tree: Path) -> dict[str, bytes]:
    """Return every file that an installation puts beside its ``bin``."""
    return {
        path.relative_to(tree / "docs").as_posix(): path.read_bytes()
        for path in (tree / "docs" / "share").rglob("*")
        if path.is_file()
    }


def wheel_problems(wheel: Path, tree: Path) -> list[str]:
    """Say how the wheel differs from the packages of the tree."""
    expected = package_files(tree) | shared_files(tree)
    with zipfile.ZipFile(wheel) as archive:
        found = {name.partition(DATA)[2] or name: archive.read(name) for name in archive.namelist()}
    metadata = {name for name in found if name.split("/")[0].endswith(".dist-info")}
    problems = [f"missing: {name}" for name in sorted(expected.keys() - found.keys())]
    problems += [
        f"not of the packages: {name}" for name in sorted(found.keys() - metadata - expected.keys())
    ]
    problems += [
        f"other bytes: {name}"
        for name in sorted(expected.keys() & found.keys())
        if expected[name] != found[name]
    ]
    for name in (f"{package}/py.typed" for package in PACKAGES):
        if name not in found:
            problems.append(f"missing: {name}")
    store = [name for name in found if name.startswith("rmqindex/sample/store/")]
    if sum(name.startswith("rmqindex/sample/store/index/") for name in store) != 5:
        problems.append(f"the sample store has not its five IndexFiles: {store}")
    if not any(name.endswith("licenses/LICENSE") for name in metadata):
        problems.append("missing: LICENSE")
    return problems + bill_problems({name: found[name] for name in metadata})


def bill_problems(metadata: dict[str, bytes]) -> list[str]:
    """Say how the bill of materials differs from what a wheel's METADATA asks for."""
    bills = [data for name, data in metadata.items() if name.endswith("sboms/rmqindex.cdx.json")]
    fields = [data for name, data in metadata.items() if name.endswith("/METADATA")]
    if not bills or not fields:
        return [] if bills else ["missing: sboms/rmqindex.cdx.json"]
    told, asked = json.loads(bills[0]), message_from_bytes(fields[0])
    listed = {part["name"] for part in told["components"] if part["type"] == "library"}
    needed = {
        re.split(r"[^\w.-]", text, maxsplit=1)[0] for text in asked.get_all("Requires-Dist", [])
    }
    problems = [f"not in the bill of materials: {name}" for name in sorted(needed - listed)]
    problems += [f"only in the bill of materials: {name}" for name in sorted(listed - needed)]
    version = told["metadata"]["component"]["version"]
    if version != asked["Version"]:
        problems.append(f"the bill of materials is of version {version}, not {asked['Version']}")
    return problems


def sdist_problems(sdist: Path, tree: Path) -> list[str]:
    """Say what the source distribution lacks of the tree."""
    with tarfile.open(sdist) as archive:
        found = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    problems = [f"missing: {name}" for name in SOURCE_FILES if name not in found]
    problems += [
        f"missing: {part}/"
        for part in SOURCE_PARTS
        if not any(name.startswith(f"{part}/") for name in found)
    ]
    files = package_files(tree)
    for name, home in PACKAGES.items():
        problems += [
            f"missing: {home}/{path}"
            for path in files
            if path.startswith(f"{name}/") and f"{home}/{path}" not in found
        ]
    return problems


def main(dist: Path) -> int:
    """Check the one wheel and the one source distribution in ``dist``; 0 if both are right."""
    failed = False
    for pattern, problems_of in (("*.whl", wheel_problems), ("*.tar.gz", sdist_problems)):
        archives = list(dist.glob(pattern))
        if len(archives) != 1:
            print(f"{dist}: expected one {pattern}, got {[path.name for path in archives]}")
            failed = True
            continue
        problems = problems_of(archives[0], ROOT)
        failed = failed or bool(problems)
        print(f"{archives[0].name}: {'; '.join(problems) or 'complete'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
